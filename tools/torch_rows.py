#!/usr/bin/env python3
"""Times an operation's rows in PyTorch, on request: the worker of `braid bench --against torch`.

    torch_rows.py --operation gather-matmul --ranks 4 --dtype bf16 --device cuda --timeout 60 \\
        --board FILE

This process is rank 0; it starts the others. Requests and answers are lines of JSON on standard
input and output, as tools/bench/worker/channel.h says; it ends when its input does. Between
requests no rank touches the device.

A rank has B[k, n] and A[m, k], or for gather-matmul A[m / ranks, k], random in [-1, 1]; of mlp
see MlpRows. What is
timed is what `braid bench` times of its own rows: the host's clock from a barrier in shared memory
on until the rank's own device has done everything, the maximum over ranks. The barrier spins; it is
no collective of PyTorch. Bursts are runs back to back, or replays, between two events on the
device.
"""
import argparse
import ctypes
import datetime
import gc
import json
import math
import mmap
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
IDLE_SECONDS = 0.001  # between two looks at the board
SPINS_BEFORE_YIELD = 1000
MOST_SAMPLES = 1 << 16
SHARE_OF_WARM_UP = 0.25  # of the time for timed runs
MOST_TO_WARM_UP = 100000  # runs
BURST_US, MOST_OF_BURST = 10e3, 10000  # runs of a burst take about so long, and are no more
TEXT_BYTES = 1 << 16


class Stuck(Exception):
    """A rank did not come in time. The ranks cannot be told apart from dead ones any more."""


class Board:
    """What the ranks share: for each a number of arrivals and its times, and one text.

    Eight bytes that are aligned are written and read as a whole. Processors other than x86 may
    reorder writes, and reads. So there is a fence between a number and the rest on both sides, and
    a rank that saw another one arrive sees what that one wrote before.
    """

    def __init__(self, path, rank, size, timeout):
        self.rank, self.size, self.timeout = rank, size, timeout
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), self.bytes(size))
        words = 64 * (size + 1)
        samples = 8 * MOST_SAMPLES * size
        view = memoryview(self.memory)
        self.words = view[:words].cast("q")  # one cache line each, the last for the text
        self.times = view[words:words + samples].cast("d")
        self.texts = view[words + samples:]
        self.lock = threading.Lock()
        self.lock.acquire()
        self.arrived = 0
        self.heard = 0
        self.children = []  # of rank 0
        self.parent = os.getppid()

    @staticmethod
    def bytes(size):
        return 64 * (size + 1) + 8 * MOST_SAMPLES * size + TEXT_BYTES * (size + 1)

    def fence(self):
        """Orders the reads and writes of this process before it and after it: none passes the
        release of a lock and then its acquisition."""
        self.lock.release()
        self.lock.acquire()

    def wait(self):
        """Returns when all ranks have come here, as close together as can be."""
        self.arrived += 1
        self.fence()
        self.words[8 * self.rank] = self.arrived
        words, mine, spins = self.words, self.arrived, 0
        for other in range(self.size):
            while words[8 * other] < mine:
                spins += 1
                if spins % SPINS_BEFORE_YIELD == 0:
                    self.check(spins // SPINS_BEFORE_YIELD, other)
        self.fence()

    def check(self, yields, other):
        """Lets others run; now and then looks whether it is any use to wait."""
        os.sched_yield()
        if yields == 1:
            self.deadline = time.monotonic() + self.timeout
        if yields % 100 != 0:
            return
        if time.monotonic() > self.deadline:
            raise Stuck(f"rank {other} did not come within {self.timeout:g} s")
        if any(child.poll() is not None for child in self.children):
            raise Stuck("a rank has ended")

    def say(self, place, text):
        data = text.encode()[:TEXT_BYTES - 8]
        at = place * TEXT_BYTES
        self.texts[at + 8:at + 8 + len(data)] = data
        self.texts[at:at + 8] = len(data).to_bytes(8, "little")

    def said(self, place):
        at = place * TEXT_BYTES
        length = int.from_bytes(self.texts[at:at + 8], "little")
        return bytes(self.texts[at + 8:at + 8 + length]).decode(errors="replace")

    def tell(self, text):
        """From rank 0 to the others, one by one: each has heard one before the next is told."""
        self.say(self.size, text)
        self.heard += 1
        self.fence()
        self.words[8 * self.size] = self.heard

    def hear(self):
        """The next text of rank 0; sleeps until there is one."""
        while self.words[8 * self.size] == self.heard:
            time.sleep(IDLE_SECONDS)
            if os.getppid() != self.parent:
                raise Stuck("rank 0 has ended")
        self.fence()
        self.heard += 1
        return self.said(self.size)

    def gather(self, values):
        """Every rank's list of numbers, in rank order."""
        at = self.rank * MOST_SAMPLES
        for i, value in enumerate(values):
            self.times[at + i] = value
        self.wait()
        lists = [list(self.times[r * MOST_SAMPLES:r * MOST_SAMPLES + len(values)])
                 for r in range(self.size)]
        self.wait()
        return lists

    def maxima(self, values):
        return [max(column) for column in zip(*self.gather(values))]

    def agree(self, failure):
        """The first rank's failure, the same on all ranks; empty if there is none."""
        self.say(self.rank, failure)
        self.wait()
        failures = [self.said(rank) for rank in range(self.size)]
        self.wait()
        return next((text for text in failures if text), "")


class Refused(Exception):
    """What cannot be done here; the text says why."""


class Rows:
    """The rows of one shape, each made when it is first asked for. Which there are, makers() of the
    operation's class says."""

    def __init__(self, torch, args, board, shape):
        self.torch, self.args, self.board = torch, args, board
        self.is_gpu = args.device == "cuda"
        self.device = torch.device("cuda", args.rank) if self.is_gpu else torch.device("cpu")
        self.dtype = getattr(torch, DTYPES[args.dtype])
        self.group = torch.distributed.group.WORLD.group_name
        self.m, self.n, self.k = shape
        self.made = {}
        self.tensors = {}
        self.pool = None  # of memory, if graphs share one
        self.ended, self.idle_gap = 0, 0  # the last run, by the host's clock, and what follows it

    def tensor(self, name, make):
        if name not in self.tensors:
            self.tensors[name] = make()
        return self.tensors[name]

    def random(self, *extents):
        values = self.torch.rand(*extents, device=self.device, dtype=self.torch.float32)
        return (values * 2 - 1).to(self.dtype)

    def empty(self, *extents):
        return self.torch.empty(*extents, device=self.device, dtype=self.dtype)

    # Tensors, each made once.

    def b(self):
        return self.tensor("b", lambda: self.random(self.k, self.n))

    def c(self):
        return self.tensor("c", lambda: self.empty(self.m, self.n))

    def symmetric(self):
        """PyTorch's symmetric memory, whose import makes its operations known."""
        if not self.is_gpu:
            raise Refused("symmetric memory is there on GPUs only")
        import torch.distributed._symmetric_memory as symmetric
        return symmetric

    def shared(self, name, *extents):
        """A tensor in memory that peers can map, and what finds theirs."""
        def make():
            symmetric = self.symmetric()
            block = symmetric.empty(*extents, dtype=self.dtype, device=self.device)
            return block, symmetric.rendezvous(block, self.group)
        return self.tensor(name, make)

    def block_rows(self):
        if self.m % self.args.ranks != 0:
            raise Refused(f"expected m to be a multiple of {self.args.ranks} ranks")
        return self.m // self.args.ranks

    # What is timed.

    def gemm_of(self, a, c):
        b = self.b()
        return lambda: self.torch.matmul(a, b, out=c)

    def in_order(self, *steps):
        def run():
            for step in steps:
                step()
        return run

    def graphed(self, run):
        """A replay of `run`, recorded. Before, it runs: what it needs, such as memory that peers
        map, is made then, as a capture may not."""
        torch = self.torch
        if not self.is_gpu:
            raise Refused("graphs are there on GPUs only")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.synchronize()
        graph, failures = torch.cuda.CUDAGraph(), []
        try:
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                try:
                    run()
                except Exception as error:
                    failures.append(error)
                    raise
        except Exception as error:
            # The end of a capture that has failed fails, too; what failed first says why.
            raise (failures or [error])[0] from None
        return graph.replay

    def together(self, step):
        """What `step` gives. Collective; raises on every rank if it does on one, so that no rank
        goes on to wait on its device for one that does not."""
        value, failure = None, ""
        try:
            value = step()
        except Exception as error:
            if isinstance(error, Stuck):
                raise
            failure = describe(error)
        failure = self.board.agree(failure)
        if failure:
            raise Refused(failure)
        return value

    def maker(self, name):
        makers = self.makers()
        if name not in makers:
            raise Refused(f"expected one of {', '.join(makers)}, got '{name}'")
        return makers[name]

    def find(self, name, is_graphed):
        """The function of a row. Collective; raises on every rank if it does on one."""
        key = (name, is_graphed)
        if key in self.made:
            return self.made[key]
        run = self.together(lambda: self.maker(name)())
        if is_graphed:
            run = self.together(lambda: self.graphed(run))
        self.together(lambda: self.run_first(run))
        self.made[key] = run
        return run

    def run_first(self, run):
        run()  # what it refuses or loads, it does now
        self.synchronize()

    def synchronize(self):
        if self.is_gpu:
            self.torch.cuda.synchronize()

    # Timing.

    def begin(self):
        """Rests, and comes to the barrier; from when on to count."""
        while time.perf_counter() < self.ended + self.idle_gap:
            pass
        self.board.wait()
        return time.perf_counter()

    def time_once(self, run):
        start = self.begin()
        run()
        self.synchronize()
        self.ended = time.perf_counter()
        return (self.ended - start) * 1e6

    def time(self, request):
        """Microseconds of each timed run, the maximum over ranks. Collective."""
        run = self.find(request["row"], request["graph"])
        self.idle_gap = request.get("idle_gap_us", 0) / 1e6
        iterations = self.warm_up(run, request)
        return self.board.maxima([self.time_once(run) for _ in range(iterations)])

    def time_burst(self, run, count):
        """Microseconds of a run, on average, where `count` of them follow one another at once."""
        cuda = self.torch.cuda if self.is_gpu else None
        events = [cuda.Event(enable_timing=True) for _ in range(2)] if cuda else []
        start = self.begin()
        for event in events[:1]:
            event.record()
        for _ in range(count):
            run()
        for event in events[1:]:
            event.record()
        self.synchronize()
        self.ended = time.perf_counter()
        total = 1e3 * events[0].elapsed_time(events[1]) if events else (self.ended - start) * 1e6
        return total / count

    def time_bursts(self, request, samples):
        """Microseconds of a run in each burst, the maximum over ranks, once its runs alone took
        `samples`. Collective. As RowTimer::timeBursts does."""
        if request.get("bursts", 0) == 0:
            return []
        run, us = self.find(request["row"], request["graph"]), statistics.median_high(samples)
        runs, untimed, timed = bursts_of(request, us)
        times = [self.time_burst(run, runs) for _ in range(untimed + timed)]
        return self.board.maxima(times[untimed:])

    def warm_up(self, run, request):
        """Runs untimed; gives how many timed runs there are. Decides as warmUp() of
        api/timing/rank_times.h does: after the second run, and again whenever there are twice as
        many."""
        wanted, warms_up = request["warm_up"], request.get("warm_up_us", 0) > 0
        runs, iterations = max(wanted, 2) if warms_up else wanted, request["iterations"]
        done, times = 0, []  # times: since the last decision
        while done < runs:
            times.append(self.time_once(run))
            done += 1
            if done & (done - 1) != 0:
                continue
            if done > 1 or runs == 1:
                us = self.board.maxima([statistics.median_low(times)])[0]
                runs, iterations = fitting(request, us)
            times = []
        return min(iterations, MOST_SAMPLES)


class GatherRows(Rows):
    """gather-matmul: a rank has m / ranks rows of A, and multiplies all."""

    def makers(self):
        return {"torch/matmul": self.matmul, "torch/gather": self.gather,
                "torch/gather_copy": self.gather_copy, "torch/sequential": self.sequential,
                "torch/fused": self.fused}

    def gathered(self):
        return self.tensor("gathered", lambda: self.random(self.m, self.k))

    def block(self):
        return self.tensor("block", lambda: self.random(self.block_rows(), self.k))

    def shared_block(self):
        block, peers = self.shared("shared_block", self.block_rows(), self.k)
        self.tensor("filled", lambda: block.copy_(self.block()))
        return block, peers

    def matmul(self):
        return self.gemm_of(self.gathered(), self.c())

    def gather(self):
        gathered, block = self.gathered(), self.block()
        return lambda: self.torch.distributed.all_gather_into_tensor(gathered, block)

    def gather_copy(self):
        """The rank's own block need not move for anybody to have the whole."""
        (block, peers), gathered, rows = self.shared_block(), self.gathered(), self.block_rows()
        pairs = []
        for step in range(1, self.args.ranks):
            peer = (self.args.rank + step) % self.args.ranks
            source = peers.get_buffer(peer, tuple(block.shape), self.dtype)
            pairs.append((gathered[peer * rows:(peer + 1) * rows], source))

        def run():
            for target, source in pairs:
                target.copy_(source)
        return run

    def sequential(self):
        return self.in_order(self.gather(), self.matmul())

    def fused(self):
        (block, _), b = self.shared_block(), self.b()
        operation = self.torch.ops.symm_mem.fused_all_gather_matmul
        return lambda: operation(block, [b], 0, self.group, return_A=False)


class ReductionRows(Rows):
    """A rank multiplies all rows of A by its share of what is contracted."""

    def a(self):
        return self.tensor("a", lambda: self.random(self.m, self.k))

    def gemm(self):
        return self.gemm_of(self.a(), self.c())


class ScatterRows(ReductionRows):
    """matmul-reduce-scatter: it keeps the sum of m / ranks rows."""

    def makers(self):
        return {"torch/gemm": self.gemm, "torch/scatter": self.scatter,
                "torch/sequential": self.sequential, "torch/fused": self.fused}

    def own(self):
        return self.tensor("own", lambda: self.empty(self.block_rows(), self.n))

    def scatter(self):
        own, c = self.own(), self.c()
        return lambda: self.torch.distributed.reduce_scatter_tensor(own, c)

    def sequential(self):
        return self.in_order(self.gemm(), self.scatter())

    def fused(self):
        self.symmetric()
        self.block_rows()
        a, b = self.a(), self.b()
        operation = self.torch.ops.symm_mem.fused_matmul_reduce_scatter
        return lambda: operation(a, b, "sum", 0, self.group)


class ReduceRows(ReductionRows):
    """matmul-all-reduce: it gets the sum of all rows."""

    def makers(self):
        return {"torch/gemm": self.gemm, "torch/reduce": self.reduce,
                "torch/reduce_one_shot": self.one_shot, "torch/reduce_two_shot": self.two_shot,
                "torch/sequential": self.sequential,
                "torch/sequential_one_shot": lambda: self.behind_gemm(self.one_shot()),
                "torch/sequential_two_shot": lambda: self.behind_gemm(self.two_shot())}

    def shared_c(self):
        return self.shared("shared_c", self.m, self.n)[0]

    def reduce(self):
        c = self.c()
        return lambda: self.torch.distributed.all_reduce(c)

    def one_shot(self):
        """Every rank reads all partial results. Gives a new tensor."""
        c = self.shared_c()
        operation = self.torch.ops.symm_mem.one_shot_all_reduce
        return lambda: operation(c, "sum", self.group)

    def two_shot(self):
        """Every rank sums a part, and gives it to the others. In place."""
        c = self.shared_c()
        operation = self.torch.ops.symm_mem.two_shot_all_reduce_
        return lambda: operation(c, "sum", self.group)

    def sequential(self):
        return self.in_order(self.gemm(), self.reduce())

    def behind_gemm(self, reduce):
        return self.in_order(self.gemm_of(self.a(), self.shared_c()), reduce)


class MlpRows(Rows):
    """mlp: a rank has m / ranks rows of X[m, n], W1[n, k] and W2[k, n]; it keeps as many rows."""

    def makers(self):
        return {"torch/gemms": self.gemms, "torch/sequential": self.sequential,
                "torch/fused": self.fused}

    def weights(self):
        return (self.tensor("w1", lambda: self.random(self.n, self.k)),
                self.tensor("w2", lambda: self.random(self.k, self.n)))

    def between(self, h):
        return self.torch.nn.functional.gelu(h, approximate="tanh")

    def gemms(self):
        x, c = self.tensor("x", lambda: self.random(self.m, self.n)), self.c()
        w1, w2 = self.weights()
        return lambda: self.torch.matmul(self.between(self.torch.matmul(x, w1)), w2, out=c)

    def sequential(self):
        distributed, rows = self.torch.distributed, self.block_rows()
        x, c = self.tensor("x", lambda: self.random(self.m, self.n)), self.c()
        block = self.tensor("block", lambda: self.random(rows, self.n))
        own = self.tensor("own", lambda: self.empty(rows, self.n))
        return self.in_order(lambda: distributed.all_gather_into_tensor(x, block), self.gemms(),
                             lambda: distributed.reduce_scatter_tensor(own, c))

    def fused(self):
        self.symmetric()
        operations, (w1, w2) = self.torch.ops.symm_mem, self.weights()
        block = self.shared("shared_block", self.block_rows(), self.n)[0]
        self.tensor("filled", lambda: block.copy_(self.random(self.block_rows(), self.n)))

        def run():
            _, (h,) = operations.fused_all_gather_matmul(block, [w1], 0, self.group,
                                                         return_A=False)
            return operations.fused_matmul_reduce_scatter(self.between(h), w2, "sum", 0, self.group)
        return run


OPERATIONS = {"gather-matmul": GatherRows, "mlp": MlpRows, "matmul-reduce-scatter": ScatterRows,
              "matmul-all-reduce": ReduceRows}


def fitting(request, us):
    """How many untimed and timed runs there are if each takes `us`, as BenchTiming::within says."""
    us = max(us, 1e-3) + request.get("idle_gap_us", 0)
    untimed, timed = request["warm_up"], request["iterations"]
    limit = request.get("limit_us", 0)
    if limit > 0:
        untimed = min(untimed, max(1, int(limit * SHARE_OF_WARM_UP / us)))
        timed = min(timed, max(3, int(limit / us)))
    return max(untimed, min(math.ceil(request.get("warm_up_us", 0) / us), MOST_TO_WARM_UP)), timed


def bursts_of(request, us):
    """How many runs a burst has if each takes `us`, and how many bursts are untimed and timed."""
    us = max(us, 1e-3)
    runs = max(2, int(min(BURST_US / us, MOST_OF_BURST)))
    untimed = 1 + min(math.ceil(request.get("warm_up_us", 0) / (us * runs)), MOST_TO_WARM_UP)
    timed, limit = request["bursts"], request.get("limit_us", 0)
    if limit > 0:
        timed = min(timed, max(3, int(limit / (us * runs))))
    return runs, untimed, timed


def describe(error):
    lines = str(error).strip().splitlines() or [""]
    text = lines[0] if isinstance(error, Refused) else f"{type(error).__name__}: {lines[0]}"
    return text[:300]


class Rank:
    """One rank: connects to the others, and answers requests."""

    def __init__(self, args):
        self.args = args
        self.board = Board(args.board, args.rank, args.ranks, args.timeout)
        self.rows, self.shape = None, None

    def connect(self):
        import torch
        import torch.distributed
        self.torch = torch
        gc.disable()  # nothing of its own accord while rows are timed
        timeout = datetime.timedelta(seconds=max(self.args.timeout, 120))
        if self.args.device == "cuda":
            if torch.cuda.device_count() < self.args.ranks:
                raise Refused(f"expected {self.args.ranks} GPUs, found {torch.cuda.device_count()}")
            device = torch.device("cuda", self.args.rank)
            torch.cuda.set_device(device)
            torch.distributed.init_process_group("nccl", device_id=device, timeout=timeout)
        else:
            torch.set_num_threads(1)
            torch.distributed.init_process_group("gloo", timeout=timeout)

    def meet(self):
        """Connects. Collective; gives the first rank's failure, or nothing."""
        failure = ""
        try:
            self.connect()
        except Exception as error:
            failure = describe(error)
        return self.board.agree(failure)

    def device(self):
        if self.args.device != "cuda":
            return f"PyTorch {self.torch.__version__}"
        name = self.torch.cuda.get_device_name(self.args.rank)
        return f"{name}, PyTorch {self.torch.__version__}, CUDA {self.torch.version.cuda}"

    def answer(self, request):
        shape = (request["m"], request["n"], request["k"])
        if shape != self.shape:
            self.forget()
            rows = OPERATIONS[self.args.operation]
            self.rows, self.shape = rows(self.torch, self.args, self.board, shape), shape
        try:
            samples = self.rows.time(request)
            bursts = self.rows.time_bursts(request, samples)
            return {"samples_us": [round(us, 3) for us in samples],
                    "burst_us": [round(us, 3) for us in bursts]}
        except Stuck:
            raise
        except Exception as error:
            return {"failure": describe(error)}

    def forget(self):
        self.rows = None
        gc.collect()
        if self.args.device == "cuda":
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()


def die_with_parent():
    """A rank that hangs would outlive whoever wants its answers."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        pass  # it still ends when it next looks for a request


def parse_arguments():
    parser = argparse.ArgumentParser(description="Times rows of PyTorch for braid bench.")
    parser.add_argument("--operation", choices=sorted(OPERATIONS), default="gather-matmul")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--dtype", choices=sorted(DTYPES), required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--timeout", type=float, default=60, help="seconds, of every wait")
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--board", required=True, help="a file to be made, for the ranks to share")
    return parser.parse_args()


def follow(args):
    """Ranks other than 0."""
    rank = Rank(args)
    if rank.meet():
        return
    while True:
        request = json.loads(rank.board.hear())
        if "end" in request:
            return
        rank.answer(request)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_others(args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                      WORLD_SIZE=str(args.ranks), RANK="0", LOCAL_RANK="0")
    for rank in range(1, args.ranks):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank))
        yield subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--rank", str(rank)],
                               stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)


def lead(args, requests, answers):
    """Rank 0."""

    def send(message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    rank = Rank(args)
    rank.board.children = list(start_others(args))
    failure = rank.meet()
    if failure:
        send({"id": 0, "failure": failure})
        return
    send({"id": 0, "device": rank.device()})
    for line in requests:
        request = json.loads(line)
        rank.board.tell(json.dumps(request))
        if "end" in request:
            return
        try:
            send({"id": request["id"], **rank.answer(request)})
        except Stuck as stuck:
            send({"id": request["id"], "failure": str(stuck), "over": True})
            return
    rank.board.tell(json.dumps({"end": True}))


def main():
    args = parse_arguments()
    die_with_parent()
    if args.rank != 0:
        follow(args)
        return
    # Libraries print to descriptor 1; answers go where it led before.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        import torch  # noqa: F401  before there are others that would say the same
    except Exception as error:
        answers.write(json.dumps({"id": 0, "failure": describe(error)}) + "\n")
        answers.flush()
        return
    with open(args.board, "wb") as file:
        file.truncate(Board.bytes(args.ranks))
    lead(args, sys.stdin, answers)


def run_as_process(name, entry):
    """Calls `entry` and ends the process: 1, and why, if that raises."""
    code = 0
    try:
        entry()
    except Exception as problem:
        print(f"{name}: {describe(problem)}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # tearing down communicators that were captured can hang


if __name__ == "__main__":
    run_as_process("torch_rows", main)
