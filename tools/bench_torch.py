#!/usr/bin/env python3
"""Benchmarks Braid's PyTorch operators, PyTorch's own operators, NCCL and Transformer Engine.

    PYTHONPATH=build/release/python tools/bench_torch.py gather-matmul --ranks 4 \\
        --shapes 8192x8192x8192,2048x2048x2048 --json OUT.json

The script starts its ranks itself. Under torchrun, each process is one rank. Shapes are MxNxK. Each
rank has:

    gather-matmul          A[m / ranks, k], B[k, n]
    matmul-reduce-scatter  A[m, k], B[k, n]; C[m / ranks, n]
    matmul-all-reduce      A[m, k], B[k, n]; C[m, n]
    mlp                    X[m / ranks, n], W1[n, k], W2[k, n]

All rows of a shape are timed in turn, in the same processes; every other round is in reverse order.
A burst is about 10 ms of back-to-back runs. The GPU is blocked until the host has issued the whole
burst. The time per run is the time between two events around the burst, divided by the number of
runs; the table shows the maximum over the ranks. CPU ranks use the host's clock instead. Before its
bursts, each row runs until the GPU clocks are steady. If a row is not available, the reason is
printed. E is the time of the fastest GEMMs or of the fastest transfers, whichever is longer,
divided by the time of the row.
"""
import argparse
import contextlib
import datetime
import functools
import json
import math
import os
import re
import statistics
import sys
import time
import uuid

import torch
import torch.distributed as dist

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64}
OPERATIONS = ("gather-matmul", "matmul-reduce-scatter", "matmul-all-reduce", "mlp")
GEMMS, TRANSFERS, ALL = "gemms", "transfers", "all"  # the work that a row times
BURST_US, STEADY_US = 10e3, 100e3
MOST_OF_BURST = {False: 100, True: 1000}  # eager runs must fit in a blocked GPU's queue
CYCLES_OF_US = 2000  # GPU clock cycles per microsecond, an upper bound
TIMEOUT = datetime.timedelta(seconds=120)
CHOOSE_SECONDS = 2  # the time budget for choosing each of Braid's schedules
# Not every NVLink machine supports multicast, and NCCL may hang if the support is incomplete.
DEFAULTS = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0"}


class Refused(Exception):
    """Raised if a row is not available on this machine. The message contains the reason."""


class Ranks:
    """One rank, with collectives that run on the host."""

    def __init__(self, args):
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.is_gpu = args.device == "cuda"
        local = int(os.environ.get("LOCAL_RANK", self.rank))
        self.device = torch.device("cuda", local) if self.is_gpu else torch.device("cpu")
        if self.is_gpu:
            torch.cuda.set_device(self.device)
            dist.init_process_group("nccl", device_id=self.device, timeout=TIMEOUT)
        else:
            torch.set_num_threads(1)
            dist.init_process_group("gloo", timeout=TIMEOUT)
        self.host = dist.new_group(backend="gloo", timeout=TIMEOUT)

    def gather(self, value):
        values = [None] * self.size
        dist.all_gather_object(values, value, self.host)
        return values

    def slowest(self, values):
        return [max(column) for column in zip(*self.gather(values))]

    def together(self, step):
        """Calls `step` and returns its result. If `step` raises on any rank, raises Refused on
        every rank, so that no rank waits for a rank that has failed."""
        value, failure = None, ""
        try:
            value = step()
        except Exception as error:  # libraries may raise any exception
            line = (str(error).strip().splitlines() or [""])[0][:300]
            failure = line if isinstance(error, Refused) else f"{type(error).__name__}: {line}"
        failure = next((text for text in self.gather(failure) if text), "")
        if failure:
            raise Refused(failure)
        return value

    def synchronize(self):
        if self.is_gpu:
            torch.cuda.synchronize()

    @functools.cached_property
    def job(self):
        """A Braid job, which uses NCCL on GPUs. The first access is collective."""
        import braid
        name = self.gather(str(uuid.uuid4()))[0]
        return braid.join("nccl" if self.is_gpu else "cpu", self.size, name=name, rank=self.rank,
                          device=self.device.index)


class Problem:
    """The work for one shape: an optional gather of A, one or two GEMMs, and an optional
    reduction."""

    def __init__(self, ranks, args, shape):
        self.ranks, self.args = ranks, args
        self.gathers = args.operation in ("gather-matmul", "mlp")
        self.reduces = {"gather-matmul": "", "matmul-all-reduce": "all"}.get(args.operation,
                                                                             "scatter")
        self.m, self.n, k = shape
        self.extents = [self.n, k, self.n] if args.operation == "mlp" else [k, self.n]
        self.dtype, self.device = DTYPES[args.dtype], ranks.device
        self.group = dist.group.WORLD.group_name
        self.a, self.c = self.random(self.m, self.extents[0]), self.random(self.m, self.n)
        self.weights = [self.random(*each) for each in zip(self.extents, self.extents[1:])]
        self.choices = []

    def random(self, *extents):
        values = torch.rand(*extents, device=self.device, dtype=torch.float32)
        return (values * 2 - 1).to(self.dtype)

    def blocks_of(self, tensor):
        """Splits a tensor into equal row blocks, or raises Refused if m does not divide evenly."""
        if self.m % self.ranks.size:
            raise Refused(f"expected m to be a multiple of the number of ranks ({self.ranks.size})")
        return tensor.view(self.ranks.size, -1, tensor.shape[1])

    @functools.cached_property
    def block(self):
        """This rank's rows of A."""
        return self.blocks_of(self.a)[0].clone()

    @functools.cached_property
    def own(self):
        """This rank's rows of the sum."""
        return self.blocks_of(self.c)[0].clone()

    # -- PyTorch's operations, over NCCL on GPUs. Each method returns a function to time. --

    def gemms(self, target=None):
        *first, last = self.weights
        target = self.c if target is None else target

        def run():
            h = self.a
            for weight in first:
                h = gelu(torch.matmul(h, weight))
            torch.matmul(h, last, out=target)
        return run

    def transfers(self, *between):
        """Returns the gather and the reduction, with the given functions in between."""
        steps = list(between)
        if self.gathers:
            steps.insert(0, functools.partial(dist.all_gather_into_tensor, self.a, self.block))
        if self.reduces == "all":
            steps.append(functools.partial(dist.all_reduce, self.c))
        elif self.reduces:
            steps.append(functools.partial(dist.reduce_scatter_tensor, self.own, self.c))
        return in_order(*steps)

    def symmetric(self):
        """Returns PyTorch's symmetric memory module. Importing it registers the operators."""
        if not self.ranks.is_gpu:
            raise Refused("symmetric memory is available only on GPUs")
        import torch.distributed._symmetric_memory as symmetric
        return symmetric

    def shared(self, values):
        """Returns a copy of `values` in memory that peers can access."""
        block = self.symmetric().empty(*values.shape, dtype=self.dtype, device=self.device)
        self.symmetric().rendezvous(block, self.group)
        return block.copy_(values)

    def fused(self):
        self.symmetric()
        operators, shared = torch.ops.symm_mem, self.shared(self.block) if self.gathers else None

        def run():
            h = self.a
            if self.gathers:
                _, (h,) = operators.fused_all_gather_matmul(shared, self.weights[:1], 0, self.group,
                                                            return_A=False)
            if self.reduces:
                h = gelu(h) if self.gathers else h
                operators.fused_matmul_reduce_scatter(h, self.weights[-1], "sum", 0, self.group)
        return run

    def gather_by_copies(self):
        block, rank, size = self.shared(self.block), self.ranks.rank, self.ranks.size
        peers = self.symmetric().rendezvous(block, self.group)
        parts = self.a.chunk(size)
        pairs = [(parts[peer], peers.get_buffer(peer, tuple(block.shape), self.dtype))
                 for peer in ((rank + step) % size for step in range(1, size))]
        def run(_held=block):  # keeps `block` alive, because peers read it
            for target, source in pairs:
                target.copy_(source)
        return run

    def reduce_by(self, operator, with_gemm):
        """Returns an all-reduce that uses a symmetric memory operator, preceded by the GEMM if
        `with_gemm`."""
        c = self.shared(self.c)
        reduce = functools.partial(getattr(torch.ops.symm_mem, operator), c, "sum", self.group)
        return in_order(self.gemms(c), reduce) if with_gemm else reduce

    # -- Other libraries. --

    def braid(self):
        """Returns braid.torch's operators for this problem, after measuring their schedules."""
        import braid.torch as bt
        calls = []
        if self.gathers:
            calls.append(functools.partial(bt.all_gather_matmul, B=self.weights[0],
                                           activation="gelu_tanh" if self.reduces else None))
        if self.reduces:
            function = bt.matmul_all_reduce if self.reduces == "all" else bt.matmul_reduce_scatter
            calls.append(functools.partial(function, B=self.weights[-1]))
        h = first = self.block if self.gathers else self.a
        for call in calls:
            self.choices.append(bt.prepare(call.func, h, seconds=CHOOSE_SECONDS, **call.keywords))
            h = call(h)

        def run():
            h = first
            for call in calls:
                h = call(h)
        return run

    def braid_transfers(self):
        """Returns the problem's collective, run by Braid (over NCCL on GPUs)."""
        import braid
        if self.reduces == "all":
            kind, blocks = "allreduce sum", (self.c[None], torch.empty_like(self.c)[None])
        elif self.reduces:
            kind, blocks = "reduce_scatter sum", (self.blocks_of(self.c), self.own[None])
        else:
            kind, blocks = "allgather", (self.block[None], self.blocks_of(self.a))
        types = [f"{self.args.dtype}[{', '.join(map(str, each.shape))}]" for each in blocks]
        run = self.ranks.job.prepare(braid.compile(
            f"program @alone mesh [0 .. {self.ranks.size})\n"
            f"    (%A: {types[0]}) -> (%C: {types[1]}) {{\n"
            f"  %c = collective {kind} %C, %A\n  wait %c\n}}\n"))
        return lambda: run(blocks[0], out=blocks[1])

    def transformer_engine(self):
        """Returns Transformer Engine's linear layer with user buffers."""
        import transformer_engine.pytorch as te
        (k, n), size = self.weights[0].shape, self.ranks.size
        with contextlib.suppress(Exception):
            te.module.base.destroy_ub()  # frees the previous row's buffers
        te.module.base.initialize_ub([self.m, k if self.gathers else n], size, use_fp8=False,
                                     dtype=self.dtype)
        if self.gathers:
            features, options = (k, n * size), {"parallel_mode": "column", "ub_overlap_ag": True}
        else:
            features, options = (k * size, n), {"parallel_mode": "row", "ub_overlap_rs": True}
        layer = te.Linear(*features, bias=False, params_dtype=self.dtype, sequence_parallel=True,
                          tp_group=dist.group.WORLD, tp_size=size,
                          ub_name="qkv" if self.gathers else "proj", **options)
        x = self.block if self.gathers else self.a
        return torch.no_grad()(lambda: layer(x))

    def rows(self):
        """Returns the name and kind of work of each row, and a method that returns the function
        to time."""
        rows = [("braid", ALL, self.braid), ("torch/gemms", GEMMS, self.gemms),
                ("torch/transfers", TRANSFERS, self.transfers),
                ("torch/sequential", ALL, lambda: self.transfers(self.gemms()))]
        if self.args.operation != "mlp":
            rows.insert(1, ("braid/transfers", TRANSFERS, self.braid_transfers))
        if self.reduces == "all":
            for name in ("one_shot_all_reduce", "two_shot_all_reduce_"):
                rows += [(f"torch/{name.rstrip('_')}", TRANSFERS,
                          functools.partial(self.reduce_by, name, False)),
                         (f"torch/gemm_{name.rstrip('_')}", ALL,
                          functools.partial(self.reduce_by, name, True))]
            return rows
        rows.append(("torch/fused", ALL, self.fused))
        if not self.reduces:
            rows.append(("torch/gather_by_copies", TRANSFERS, self.gather_by_copies))
        if self.args.operation != "mlp":
            rows.append(("te/fused", ALL, self.transformer_engine))
        return rows


def gelu(h):
    return torch.nn.functional.gelu(h, approximate="tanh")


def in_order(*steps):
    def run():
        for step in steps:
            step()
    return run


# -- Timing. --

class Row:
    """A function that is timed in bursts. The constructor is collective, and raises Refused on all
    ranks or on none."""

    def __init__(self, ranks, run, graphed_runs):
        self.ranks, self.us = ranks, []
        self.runs = max(graphed_runs, 1)  # the number of runs per call of self.run()
        self.held = run  # keeps alive the tensors that a graph uses but does not own
        self.run = ranks.together(lambda: self.begun(run, graphed_runs))
        self.issue_us, us = ranks.slowest(self.alone())
        self.count = max(2, min(int(BURST_US / max(us, 1)), MOST_OF_BURST[graphed_runs > 0]))
        self.burst_us = us * self.count

    def begun(self, run, graphed_runs):
        """Warms up the function with a few runs. Captures a graph if `graphed_runs` is not 0."""
        for _ in range(3):
            run()
        self.ranks.synchronize()
        if not graphed_runs:
            return run
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(graphed_runs):
                run()
        return graph.replay

    def alone(self):
        """Returns two medians in microseconds for self.run(): the time to issue the call, and the
        time until its work is complete."""
        issued, done = [], []
        for _ in range(5):
            dist.barrier(self.ranks.host)
            begin = time.perf_counter()
            self.run()
            issued.append(time.perf_counter() - begin)
            self.ranks.synchronize()
            done.append(time.perf_counter() - begin)
        return [1e6 * statistics.median(issued), 1e6 * statistics.median(done)]

    def burst(self):
        """Times one burst. Returns the time per run on this rank in microseconds."""
        dist.barrier(self.ranks.host)
        if not self.ranks.is_gpu:
            begin = time.perf_counter()
            for _ in range(self.count):
                self.run()
            return 1e6 * (time.perf_counter() - begin) / self.count
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(int(CYCLES_OF_US * (100 + 1.3 * self.count * self.issue_us)))
        self.run()  # synchronizes the ranks, whose GPUs are blocked for different times
        begin.record()
        for _ in range(self.count):
            self.run()
        end.record()
        self.ranks.synchronize()
        return 1e3 * begin.elapsed_time(end) / self.count / self.runs

    def time(self, bursts, limit_us):
        """Times a round of `bursts` bursts, or fewer (but at least 3) if `limit_us` requires it."""
        steady_us = STEADY_US if self.ranks.is_gpu else 0
        for _ in range(1 + math.ceil(steady_us / self.burst_us)):
            self.burst()
        count = min(bursts, max(3, int(limit_us / self.burst_us))) if limit_us else bursts
        self.us += self.ranks.slowest([self.burst() for _ in range(count)])


def time_shape(ranks, args, shape):
    """Times the rows of a shape. Returns the rows in the JSON format of braid bench."""
    problem, made, results = Problem(ranks, args, shape), [], []
    wanted = args.rows.split(",") if args.rows else None
    graphs = [graph for graph in (False, True) if args.graph in ("both", "yes" if graph else "no")]
    for name, does, make in problem.rows():
        for is_graphed in graphs if wanted is None or name in wanted else ():
            problem.choices = []
            row = {**dict(zip("mnk", shape)), "implementation": name, "graph": is_graphed,
                   "does": does}
            results.append(row)
            try:
                made.append((row, Row(ranks, ranks.together(make), args.graph_runs * is_graphed)))
            except Refused as refused:
                row["failure"] = str(refused)
            if problem.choices:
                row["choice"] = ", then ".join(problem.choices)
    for index in range(args.rounds):
        for _, each in made if index % 2 == 0 else made[::-1]:
            each.time(-(-args.bursts // args.rounds), 1e3 * args.row_ms)
    for row, each in made:
        row.update(burst_us=each.us, burst_median_us=statistics.median(each.us))
    return results


def table(shape, rows):
    """Formats the rows of a shape as a table."""
    def fastest(does):
        return min((row["burst_median_us"] for row in rows
                    if row["does"] == does and "burst_median_us" in row), default=math.nan)
    limit = max(fastest(GEMMS), fastest(TRANSFERS))
    lines = [" x ".join(map(str, shape)), f"  {'row':<32}{'graph':>7}{'burst us':>12}{'E':>7}"]
    for row in rows:
        line = f"  {row['implementation']:<32}{'yes' if row['graph'] else 'no':>7}"
        if "failure" in row:
            lines.append(f"{line}  failed: {row['failure']}")
            continue
        us = row["burst_median_us"]
        efficiency = f"{limit / us:.3f}" if row["does"] == ALL and limit > 0 else "-"
        lines.append(f"{line}{us:12.1f}{efficiency:>7}  {row.get('choice', '')}".rstrip())
    return "\n".join(lines)


def run_rank(args):
    ranks, rows = Ranks(args), []
    name = torch.cuda.get_device_name() if ranks.is_gpu else "CPU"
    about = {"operation": args.operation, "dtype": args.dtype, "ranks": ranks.size,
             "backend": args.device, "rounds": args.rounds, "bursts": args.bursts,
             "row_ms": args.row_ms, "device": f"{name}, PyTorch {torch.__version__}",
             "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    for shape in args.shapes:
        found = time_shape(ranks, args, shape)
        rows += found
        if ranks.rank == 0:
            print(table(shape, found), flush=True)
        if ranks.rank == 0 and args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump({**about, "rows": rows}, file, indent=1)
    dist.barrier(ranks.host)
    os._exit(0)  # destroying captured communicators can hang


# -- The command. --

def start_ranks(args):
    """Replaces this process with torchrun, which starts the ranks and ends them if one fails."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                str(args.ranks)]
    os.execve(sys.executable, [*launcher, *sys.argv], {**DEFAULTS, "OMP_NUM_THREADS": "1",
                                                       **os.environ})


def shapes_of(text):
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){2}(,[1-9]\d*(x[1-9]\d*){2})*", text):
        raise argparse.ArgumentTypeError(f"expected MxNxK,..., got '{text}'")
    return [tuple(map(int, shape.split("x"))) for shape in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operation", choices=OPERATIONS)
    parser.add_argument("--shapes", type=shapes_of, required=True, metavar="MxNxK,...")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--rows", metavar="LIST",
                        help="time only these rows, such as braid,torch/fused")
    parser.add_argument("--graph", choices=["no", "yes", "both"],
                        help="whether to time rows as CUDA graphs (default both; no on CPU ranks)")
    parser.add_argument("--graph-runs", type=int, default=1,
                        help="number of runs in a graph (default 1)")
    parser.add_argument("--rounds", type=int, default=5,
                        help="number of rounds, each of which measures every row once (default 5)")
    parser.add_argument("--bursts", type=int, default=21,
                        help="number of bursts per row, over all rounds (default 21)")
    parser.add_argument("--row-ms", type=int, default=200,
                        help="time limit per row and round, enforced by timing fewer bursts (at "
                             "least 3)")
    parser.add_argument("--json", metavar="OUT.json", help="write all rows and samples")
    args = parser.parse_args()
    args.graph = args.graph or ("both" if args.device == "cuda" else "no")
    if args.device == "cpu" and args.graph != "no":
        parser.error("--graph: CPU ranks do not support graphs")
    for flag in ("ranks", "graph_runs", "rounds", "bursts"):
        if getattr(args, flag) < 1:
            parser.error(f"--{flag.replace('_', '-')}: expected 1 or more, got "
                         f"{getattr(args, flag)}")
    if "RANK" in os.environ:
        run_rank(args)
    start_ranks(args)


if __name__ == "__main__":
    main()
