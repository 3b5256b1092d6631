"""Measures a training step of a compiled Llama, for several ways to communicate.

    torchrun --nproc-per-node 2 examples/torch/llama.py --rows 1024 4096 --compile blocks whole

braid must be on PYTHONPATH. The model is split by PyTorch's own tensor parallelism, with sequence
parallelism, as torchtitan splits its Llama. Only the compiler decides how ranks communicate:

    nccl      the collectives of the process group: NCCL, or Gloo on CPUs
    async_tp  PyTorch's async tensor parallelism; GPUs only
    braid     braid.torch.enable()
    measured  the same, after braid.torch.prepare_all()
    shard     braid.torch.enable(keep="shard"): the backward pass gathers operands again
    local     no communication: each rank repeats its own shard instead of gathering all shards, and
              keeps its own part of a tensor instead of summing it. The results are wrong.
    bound     `local` beside copies of the same total size to another rank, for which no GEMM waits;
              GPUs only. Copies and GEMMs share memory and power, so no step is much faster.

A step is a forward and a backward pass, on GPUs in one CUDA graph, unless --no-graph is given.
First, all results and gradients are compared with those of the same model in float64, without
compilation. Then all ways are timed in rounds, each in a random order. The script prints one JSON
object for each case and way:

    error        the largest error in any result or gradient, relative to its largest element
    ms           the median step time; each time is the maximum over the ranks
    saved_ms     the median of the differences from `nccl` in the same round, with the 95 % interval
    gained       saved_ms, as a fraction of the difference between `nccl` and `local`
    exposed_ms   the median of the differences from `local` in the same round
    link_ms      the time that the transfers take at 370 GB/s
    device_mib   GPU memory in use by all processes; comparable only if each run measures one way

With --json, the objects are also appended to a file. Cases that the file already contains are
skipped, so that an interrupted measurement continues.
"""
from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import json
import math
import os
import pathlib
import random
import statistics
import sys
import time
import warnings
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                               RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn import functional as F

import common

# Hidden size: heads, key and value heads, inner size of the feed-forward part.
SIZES = {128: (4, 2, 256), 256: (8, 4, 512), 4096: (32, 8, 14336), 8192: (64, 8, 28672)}
LINK_BYTES_PER_MS = 370e6
WAYS = ["nccl", "async_tp", "braid", "measured", "shard", "local", "bound"]
GPU_WAYS = ["async_tp", "bound"]

Step = Callable[[], None]


# -- The model. --

class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.size = hidden // heads
        self.wq, self.wo = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
        self.wk, self.wv = (nn.Linear(hidden, kv_heads * self.size, bias=False) for _ in range(2))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q, k, v = (w(x).view(batch, tokens, -1, self.size) for w in (self.wq, self.wk, self.wv))
        groups = q.shape[2] // k.shape[2]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (each.repeat_interleave(groups, 2) for each in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                           v.transpose(1, 2), is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(batch, tokens, -1))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.to(cos.dtype).chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        heads, kv_heads, inner = SIZES[hidden]
        self.attention = Attention(hidden, heads, kv_heads)
        self.feed_forward = FeedForward(hidden, inner)
        self.attention_norm, self.ffn_norm = (nn.RMSNorm(hidden, eps=1e-5) for _ in range(2))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = x + self.attention(self.attention_norm(x), cos, sin)
        return h + self.feed_forward(self.ffn_norm(h))


def split(block: nn.Module, mesh: DeviceMesh) -> nn.Module:
    return parallelize_module(block, mesh, {
        "attention_norm": SequenceParallel(),
        "attention": PrepareModuleInput(input_layouts=(Shard(1), None, None),
                                        desired_input_layouts=(Replicate(), None, None)),
        "attention.wq": ColwiseParallel(),
        "attention.wk": ColwiseParallel(),
        "attention.wv": ColwiseParallel(),
        "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
        "ffn_norm": SequenceParallel(),
        "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),),
                                           desired_input_layouts=(Replicate(),)),
        "feed_forward.w1": ColwiseParallel(),
        "feed_forward.w3": ColwiseParallel(),
        "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
    })


class Llama:
    """The blocks, the input for this rank's tokens, and the result of the last step. Random values
    do not depend on the dtype, so that models with different dtypes can be compared."""

    def __init__(self, options: argparse.Namespace, rows: int, mesh: DeviceMesh,
                 dtype: torch.dtype) -> None:
        ranks, self.place = dist.get_world_size(), torch.device(mesh.device_type)
        self.dtype = dtype
        with torch.device(self.place):
            self.blocks = [split(Block(options.hidden).to(dtype), mesh)
                           for _ in range(options.layers)]
        for seed, parameter in enumerate(self.parameters()):
            if parameter.dim() > 1:
                own = local(parameter)
                own.copy_(self.draw(seed, own.shape, 1 / math.sqrt(parameter.shape[1])))
        tokens = rows // options.batch
        shape = (options.batch, tokens // ranks, options.hidden)
        self.x = self.draw(-1, shape).requires_grad_()
        self.dy = self.draw(-2, shape)
        half = options.hidden // SIZES[options.hidden][0] // 2
        wide = torch.promote_types(dtype, torch.float32)
        position = torch.arange(tokens, device=self.place, dtype=wide)[:, None, None]
        angle = position * 5e5 ** (-torch.arange(half, device=self.place, dtype=wide) / half)
        self.angles = angle.cos(), angle.sin()
        self.y = self.x

    def draw(self, seed: int, shape: Sequence[int], scale: float = 1) -> Tensor:
        """Returns values that bfloat16 represents exactly."""
        generator = torch.Generator(self.place)
        generator.manual_seed(1 + dist.get_rank() + dist.get_world_size() * (seed + 2))
        values = torch.randn(tuple(shape), device=self.place, generator=generator)
        return (values * scale).bfloat16().to(self.dtype)

    def parameters(self) -> List[nn.Parameter]:
        return [each for block in self.blocks for each in block.parameters()]

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, *self.angles)
        return x

    def compiled(self, graphs: str) -> Callable[[Tensor], Tensor]:
        """Compiles all blocks in one graph (`whole`), or each separately (`blocks`)."""
        # Pass a new function each time, so that PyTorch does not reuse the graphs of another way.
        from torch._inductor.compile_fx import compile_fx
        compiler = functools.partial(torch.compile, fullgraph=True, dynamic=False,
                                     backend=lambda graph, inputs: compile_fx(graph, inputs))
        if graphs == "whole":
            return compiler(self.forward)
        blocks = [compiler(block) for block in self.blocks]
        return lambda x: functools.reduce(lambda x, block: block(x, *self.angles), blocks, x)

    def step(self, forward: Callable[[Tensor], Tensor]) -> None:
        for each in (self.x, *self.parameters()):
            each.grad = None
        y = forward(self.x)
        y.backward(self.dy)
        self.y = y.detach()  # keeps no autograd graph, which would belong to the current stream

    def results(self) -> List[Tensor]:
        """Returns this rank's result and all gradients of the last step."""
        gradients = [local(each.grad) for each in (self.x, *self.parameters())
                     if each.grad is not None]
        return [self.y, *gradients]


def local(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        return tensor.to_local() if hasattr(tensor, "to_local") else tensor.detach()


# -- Ways to communicate. Each is a context for compilation and for steps. --

@contextlib.contextmanager
def plain() -> Iterator[None]:
    yield


@contextlib.contextmanager
def async_tp() -> Iterator[None]:
    import torch._inductor.config as inductor
    from torch.distributed import _symmetric_memory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _symmetric_memory.enable_symm_mem_for_group(dist.group.WORLD.group_name)
    with inductor.patch(_micro_pipeline_tp=True):
        yield


@contextlib.contextmanager
def braid_enabled(keep: str = "gathered") -> Iterator[None]:
    import braid.torch
    braid.torch.enable(keep=keep)
    try:
        yield
    finally:
        braid.torch.disable()


def without_communication(graph: torch.fx.Graph) -> None:
    """Replaces the collectives of a graph by local operations with the same shapes."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    collectives, aten = torch.ops._c10d_functional, torch.ops.aten
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            if node.target is collectives.all_gather_into_tensor.default:
                new = graph.call_function(aten.cat.default, ([node.args[0]] * ranks,))
            elif node.target is collectives.reduce_scatter_tensor.default:
                rows = node.args[0].meta["val"].shape[0] // ranks
                part = (node.args[0], 0, rank * rows, (rank + 1) * rows)
                new = graph.call_function(aten.clone.default,
                                          (graph.call_function(aten.slice.Tensor, part),))
            else:
                continue
        wait = next(iter(node.users))
        wait.replace_all_uses_with(new)
        graph.erase_node(wait)
        graph.erase_node(node)


@contextlib.contextmanager
def local_only() -> Iterator[None]:
    import torch._inductor.config as inductor
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Pass(CustomGraphPass):
        def __call__(self, graph: torch.fx.Graph) -> None:
            without_communication(graph)

        def uuid(self) -> str:
            return f"without communication, rank {dist.get_rank()} of {dist.get_world_size()}"
    with inductor.patch(post_grad_custom_post_pass=Pass()):
        yield


CONTEXTS = {"async_tp": async_tp, "braid": braid_enabled, "measured": braid_enabled,
            "shard": functools.partial(braid_enabled, "shard"), "local": local_only,
            "bound": local_only}


# -- Measurement. --

def maxima(values: Sequence[float], place: torch.device) -> List[float]:
    """Returns the maximum over the ranks of each value. Collective."""
    every = torch.tensor(values, dtype=torch.float64, device=place)
    dist.all_reduce(every, dist.ReduceOp.MAX)
    return every.tolist()


def burst(step: Step, steps: int, place: torch.device) -> float:
    """Runs several steps, and returns this rank's time per step in milliseconds."""
    maxima([0], place)
    if place.type == "cpu":
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - begin) * 1e3 / steps
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(steps):
        step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / steps


def take_turns(steps: Dict[str, Step], options: argparse.Namespace,
               place: torch.device) -> Dict[str, List[float]]:
    """Returns the times of each step in all rounds. Before each measurement, the same step runs for
    half as long, so that clock rates and caches settle."""
    counts, times = {}, {}
    for name, step in steps.items():
        burst(step, 2, place)
        [ms] = maxima([burst(step, 3, place)], place)
        counts[name], times[name] = math.ceil(options.turn_ms / ms), []
    for index in range(options.rounds):
        for name in random.Random(index).sample(list(steps), len(steps)):
            burst(steps[name], math.ceil(counts[name] / 2), place)
            times[name].append(burst(steps[name], counts[name], place))
    return {name: maxima(each, place) for name, each in times.items()}


def copies_to_peer(bytes_: float) -> Step:
    """Returns a step that copies about `bytes_` bytes to another rank's memory. Collective."""
    from torch.distributed import _symmetric_memory
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), 1 << 24
    buffer = _symmetric_memory.empty(2 * size, dtype=torch.uint8, device="cuda")
    handle = _symmetric_memory.rendezvous(buffer, dist.group.WORLD.group_name)
    peer = handle.get_buffer((rank + 1) % ranks, (2 * size,), torch.uint8)
    count = math.ceil(bytes_ / size)

    def copy() -> None:
        for _ in range(count):
            peer[size:].copy_(buffer[:size])
    return copy


def beside(step: Step, other: Step) -> Step:
    side = torch.cuda.Stream()

    def both() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            other()
        step()
        torch.cuda.current_stream().wait_stream(side)
    return both


def captured(step: Step, pool: Any) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        step()
    return graph


def interval(values: List[float]) -> Tuple[float, float, float]:
    """Returns the median and the bounds of its 95 % interval, from order statistics."""
    ordered, count = sorted(values), len(values)
    skip = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return statistics.median(ordered), ordered[skip], ordered[count - 1 - skip]


class Case:
    """The measurement of one number of rows, compiled in one way (`blocks` or `whole`)."""

    def __init__(self, options: argparse.Namespace, rows: int, graphs: str,
                 mesh: DeviceMesh) -> None:
        self.options, self.graphs, self.place = options, graphs, torch.device(mesh.device_type)
        dtype = getattr(torch, options.dtype)
        self.exact = self.exact_results(rows, mesh) if options.check else []
        self.model = Llama(options, rows, mesh, dtype)
        self.steps: Dict[str, Step] = {}
        self.found: Dict[str, Dict[str, Any]] = {}
        self.kept: List[Step] = []
        self.pool = torch.cuda.graph_pool_handle() if self.place.type == "cuda" else None
        ranks = dist.get_world_size()
        # A block gathers twice and scatters twice, and so does its backward pass.
        tokens_bytes = rows * options.hidden * dtype.itemsize / ranks
        self.sent = 8 * options.layers * (ranks - 1) * tokens_bytes

    def exact_results(self, rows: int, mesh: DeviceMesh) -> List[Tensor]:
        model = Llama(self.options, rows, mesh, torch.float64)
        model.step(model.forward)
        return [each.to("cpu") for each in model.results()]

    def error(self) -> float:
        """Returns the largest error of the last step's results. Collective."""
        worst = 0.0
        for mine, exact in zip(self.model.results(), self.exact, strict=True):
            off = (mine.to("cpu", torch.float64) - exact).abs().max() / exact.abs().max()
            worst = max(worst, off.nan_to_num(nan=math.inf).item())
        return maxima([worst], self.place)[0]

    def add(self, way: str) -> None:
        """Compiles the step, and checks its results. Collective."""
        begin = time.perf_counter()
        with CONTEXTS.get(way, plain)():
            step = functools.partial(self.model.step, self.model.compiled(self.graphs))
            step()
            if way == "measured":
                import braid.torch
                braid.torch.prepare_all(self.options.seconds)
                step()
            if way == "bound":
                step = beside(step, copies_to_peer(self.sent))
            if self.place.type == "cuda" and self.options.graph:
                self.kept.append(step)  # keeps alive the memory that the graph uses
                step = captured(step, self.pool).replay
                step()
        self.steps[way] = step
        self.found[way] = {"first_s": round(time.perf_counter() - begin, 1)}
        if self.exact and way not in ("local", "bound"):
            self.found[way]["error"] = float(f"{self.error():.3g}")
        if self.place.type == "cuda":
            torch.cuda.synchronize()
            free, total = torch.cuda.mem_get_info()
            self.found[way]["device_mib"] = round(maxima([total - free], self.place)[0] / 2**20)

    def measure(self) -> None:
        """Measures all steps, and adds their times to `found`. Collective."""
        enabled = not {"braid", "measured", "shard"}.isdisjoint(self.steps)
        with braid_enabled() if enabled else plain():  # for steps that are not in a graph
            times = take_turns(self.steps, self.options, self.place)
        for way, each in times.items():
            found = self.found[way]
            found["ms"] = round(statistics.median(each), 3)
            found["link_ms"] = round(self.sent / LINK_BYTES_PER_MS, 3)
            if "local" in times and way != "local":
                late = [a - b for a, b in zip(each, times["local"])]
                found["exposed_ms"] = round(statistics.median(late), 3)
            if "nccl" in times and way != "nccl":
                saved = [a - b for a, b in zip(times["nccl"], each)]
                found["saved_ms"] = [round(value, 3) for value in interval(saved)]
            if found.get("saved_ms") and "local" in times and way != "local":
                all_ = statistics.median(a - b for a, b in zip(times["nccl"], times["local"]))
                found["gained"] = [round(value / all_, 3) for value in found["saved_ms"]]


# -- The command. --

def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, choices=sorted(SIZES), default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=[64],
                        help="tokens of all sequences, on all ranks")
    parser.add_argument("--batch", type=int, default=1, help="sequences that share the rows")
    parser.add_argument("--compile", choices=["blocks", "whole"], nargs="+", default=["blocks"],
                        help="compile each block, or all blocks in one graph")
    parser.add_argument("--ways", choices=WAYS, nargs="+",
                        default=["nccl", "async_tp", "measured", "local"])
    parser.add_argument("--dtype", choices=["bfloat16", "float32"],
                        help="default: bfloat16 on GPUs, float32 on CPUs")
    parser.add_argument("--device", choices=["cpu", "cuda"],
                        help="default: cuda if there is a GPU for each rank")
    parser.add_argument("--no-graph", dest="graph", action="store_false",
                        help="do not capture steps in CUDA graphs")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--turn-ms", type=float, default=150, help="for each way in each round")
    parser.add_argument("--seconds", type=float, default=1,
                        help="for each operator, with `measured`")
    parser.add_argument("--no-check", dest="check", action="store_false",
                        help="do not compare gradients with float64")
    parser.add_argument("--report", action="store_true", help="print braid.torch.report()")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    if {"braid", "measured"} <= set(options.ways):
        parser.error("argument --ways: braid and measured need separate runs, because "
                     "prepare_all() does not change schedules that a CUDA graph uses")
    return options


def finished(path: pathlib.Path | None) -> List[Dict[str, Any]]:
    if not path or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def progress(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, file=sys.stderr, flush=True)


def run_case(options: argparse.Namespace, rows: int, graphs: str, mesh: DeviceMesh) -> int:
    """Returns how many ways have errors that rounding cannot explain. Collective."""
    name = {"hidden": options.hidden, "layers": options.layers, "rows": rows,
            "batch": options.batch, "compile": graphs, "dtype": options.dtype,
            "ranks": dist.get_world_size(), "graph": options.graph}
    done = finished(options.json)
    ways = [way for way in options.ways if options.device == "cuda" or way not in GPU_WAYS]
    if all(any({**name, "way": way}.items() <= each.items() for each in done) for way in ways):
        return 0
    case = Case(options, rows, graphs, mesh)
    for way in ways:
        progress(f"{rows} rows, {graphs}: compiling {way}")
        case.add(way)
    progress(f"{rows} rows, {graphs}: measuring")
    case.measure()
    for way in ways:
        text = json.dumps({**name, "way": way, **case.found[way]})
        common.say(text)
        if options.json and dist.get_rank() == 0:
            with options.json.open("a") as file:
                file.write(text + "\n")
    most = 2 * case.found.get("nccl", {}).get("error", 0) + common.TOLERANCES[options.dtype]
    return sum(case.found[way].get("error", 0) > most for way in ways)


def main() -> int:
    options = parse()
    place = common.start_rank(options.device)
    options.device = place.type
    options.dtype = options.dtype or ("bfloat16" if place.type == "cuda" else "float32")
    common.say(f"{dist.get_world_size()} ranks on {place.type}, PyTorch {torch.__version__}")
    torch._dynamo.config.recompile_limit = 64
    mesh = init_device_mesh(place.type, (dist.get_world_size(),))
    wrong = 0
    for rows in options.rows:
        for graphs in options.compile:
            wrong += run_case(options, rows, graphs, mesh)
            torch._dynamo.reset()
            gc.collect()
            if place.type == "cuda":
                torch.cuda.empty_cache()
    if options.report:
        import braid.torch
        common.say(braid.torch.report())
    return min(wrong, 1)


if __name__ == "__main__":
    code = main()
    dist.barrier()
    os._exit(code)  # a normal exit destroys graphs that contain collectives in the wrong order
