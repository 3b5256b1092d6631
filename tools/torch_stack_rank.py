"""A rank of torch_stack.py: makes its models, and times them in each of the ways.

It is started with a file of JSON that says what to do, and with RANK and the like in the
environment. Rank 0 says on standard output, in lines of JSON, what it begins and what it found;
who reads them ends ranks that say nothing for too long.
"""
import argparse
import contextlib
import functools
import json
import math
import os
import random
import sys
import warnings

import torch
import torch.distributed as dist
import torch._inductor.config as inductor
from torch import nn
from torch._inductor.compile_fx import compile_fx
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import torch_rows
from torch_rows import Refused, describe

TOLERANCE = {"bf16": 5e-2, "f16": 1e-2, "f32": 1e-4}  # of a tensor's largest element
FUSED, APART = ("symm_mem::fused_", "braid::fused_"), ("_c10d_functional::",)
MOST_COMPILED = 64  # times a layer, if something keeps layers from being alike
MOST_STEPS = 50  # of a turn
SETTLED_WITHIN_US = 60e3  # clocks, once a row runs: a GPU that has rested is faster at first
LONG_STEP_US = 50e3  # needs no other one in front of it
LEARNING_RATE = 1e-4
# What has happened to a rank that says this, no later row gets over.
ENDS_ALL = ("PeerError", "TimedOutError", "InternalError")


# -- The models, on [rows / ranks, hidden], without biases, which PyTorch's pass does not know. --

class MLP(nn.Module):
    def __init__(self, hidden, **like):
        super().__init__()
        self.up = nn.Linear(hidden, 4 * hidden, bias=False, **like)
        self.down = nn.Linear(4 * hidden, hidden, bias=False, **like)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Attention(nn.Module):
    """Causal, of one sequence. The weight of Q, K and V has those of a head together, so that a
    rank's rows are whole heads."""

    def __init__(self, hidden, **like):
        super().__init__()
        self.head = min(128, hidden // 4)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False, **like)
        self.out = nn.Linear(hidden, hidden, bias=False, **like)

    def forward(self, x):
        qkv = self.qkv(x)
        heads = qkv.view(qkv.shape[0], -1, 3, self.head)
        q, k, v = (each.transpose(0, 1).unsqueeze(0) for each in heads.unbind(2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.squeeze(0).transpose(0, 1).flatten(1))


class Layer(nn.Module):
    def __init__(self, hidden, **like):
        super().__init__()
        self.mlp = MLP(hidden, **like)

    def forward(self, x):
        return x + self.mlp(x)


class Block(nn.Module):
    def __init__(self, hidden, **like):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(hidden, **like), nn.RMSNorm(hidden, **like)
        self.attention, self.mlp = Attention(hidden, **like), MLP(hidden, **like)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


MODELS = {"mlp": Layer, "block": Block}


def split(layer, mesh):
    """Over ranks, as users of PyTorch do it. Rows are split between what is split by columns."""
    plan = {"mlp.up": ColwiseParallel(input_layouts=Shard(0)),
            "mlp.down": RowwiseParallel(output_layouts=Shard(0))}
    if isinstance(layer, Block):
        plan.update({"attention.qkv": ColwiseParallel(input_layouts=Shard(0)),
                     "attention.out": RowwiseParallel(output_layouts=Shard(0)),
                     "norm1": SequenceParallel(sequence_dim=0, use_local_output=True),
                     "norm2": SequenceParallel(sequence_dim=0, use_local_output=True)})
    return parallelize_module(layer, mesh, plan)


# -- The ways. Each is on while it compiles and while it runs. --

@contextlib.contextmanager
def braid(_):
    import braid.torch
    braid.torch.enable()
    try:
        yield
    finally:
        braid.torch.disable()


@contextlib.contextmanager
def async_tp(rows):
    symmetric = rows.symmetric()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer versions enable it by themselves
        symmetric.enable_symm_mem_for_group(rows.group)
    inductor._micro_pipeline_tp = True
    try:
        yield
    finally:
        inductor._micro_pipeline_tp = False


@contextlib.contextmanager
def nccl(_):
    yield


WAYS = {"nccl": nccl, "async_tp": async_tp, "braid": braid}


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def innermost(error):
    """What a compiler has wrapped."""
    inner = getattr(error, "inner_exception", None)
    return innermost(inner) if inner is not None else error


class Stack(torch_rows.Rows):
    """The rows of one model and shape: a step, forward and backward, in each way. All ways share
    the weights, and what goes in."""

    def __init__(self, args, board, case, mesh):
        super().__init__(torch, args, board, (case["rows"], case["hidden"], case["hidden"]))
        self.group = mesh.get_group().group_name
        if self.is_gpu:
            self.pool = torch.cuda.graph_pool_handle()
        like = {"device": self.device, "dtype": self.dtype}
        count = args.layers if case["model"] == "mlp" else 1
        torch.manual_seed(0)
        self.layers = [split(MODELS[case["model"]](self.n, **like), mesh) for _ in range(count)]
        self.parameters = [each for layer in self.layers for each in layer.parameters()]
        torch.manual_seed(1 + args.rank)
        self.x, self.dy = (self.random(self.block_rows(), self.n) for _ in range(2))
        self.x.requires_grad_()
        self.forwards, self.compiles = {}, {}  # by way
        self.y, self.expected = None, None

    def makers(self):
        return {way: functools.partial(self.compiled, way) for way in WAYS}

    def on(self, way):
        return WAYS[way](self)

    def compiled(self, way):
        """Layers that are alike are compiled once: but once for each way, whose backends differ."""
        def backend(graph, inputs):
            self.compiles[way] = self.compiles.get(way, 0) + 1
            return compile_fx(graph, inputs)
        if way not in self.forwards:
            parts = [nn.Sequential(*self.layers)] if self.args.whole else self.layers
            self.forwards[way] = [torch.compile(each, backend=backend, fullgraph=True,
                                                dynamic=False) for each in parts]
        return lambda: self.step(way)

    def forward(self, way, x):
        for layer in self.forwards[way]:
            x = layer(x)
        return x

    def step(self, way):
        for each in (self.x, *self.parameters):
            each.grad = None
        y = self.forward(way, self.x)
        y.backward(self.dy)
        self.y = y.detach()  # and not y: nodes of autograd keep to the stream that made them

    def run_first(self, run):
        try:
            super().run_first(run)
        except Exception as error:
            # Others may wait on their devices for this rank, and who waits for them hears nothing.
            print(f"rank {self.args.rank}: {describe(innermost(error))}", file=sys.stderr)
            raise innermost(error) from None

    def results(self):
        return [self.y, self.x.grad, *(local(each.grad) for each in self.layers[0].parameters())]

    def difference(self):
        """Of the last run's results from those of the first row's first, the largest of all ranks,
        relative to a tensor's largest element."""
        found = self.results()
        if self.expected is None:
            self.expected = [each.clone() for each in found]
        sizes = [float((mine.float() - wanted).abs().max() / wanted.abs().max())
                 for mine, wanted in zip(found, self.expected)]
        return self.board.maxima([max(math.inf if math.isnan(size) else size for size in sizes)])[0]

    def calls(self, way):
        """How often a step calls what is fused, and what is not."""
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            self.step(way)
            self.synchronize()
        return {each.key: each.count for each in seen.key_averages()
                if each.key.startswith(FUSED + APART) and "wait_tensor" not in each.key}

    def steps_of_turn(self, run):
        us = self.board.maxima([self.time_burst(run, 2)])[0]
        return max(1, min(MOST_STEPS, math.ceil(self.args.turn_ms * 1e3 / us))), us

    def losses(self, way, count):
        """Of training steps, on batches and from weights that are the same in each way."""
        weights = [each.detach().clone() for each in self.parameters]
        optimizer = torch.optim.AdamW(self.parameters, lr=LEARNING_RATE)
        torch.manual_seed(100 + self.args.rank)
        batches = [[self.random(*self.x.shape) for _ in range(2)] for _ in range(4)]
        elements = self.x.numel() * self.args.ranks
        found = []
        for i in range(count):
            x, target = batches[i % 4]
            y = self.forward(way, x.requires_grad_())
            loss = (y.float() - target.float()).square().sum() / elements
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
        losses = torch.stack(found)
        dist.all_reduce(losses)
        with torch.no_grad():
            for each, weight in zip(self.parameters, weights):
                each.copy_(weight)
        return losses.tolist()


class Over(Exception):
    """Ranks cannot go on; others may be started for the rest."""


class StackRank(torch_rows.Rank):
    def __init__(self, args, answers):
        super().__init__(args)
        self.answers = answers

    def tell(self, **message):
        if self.args.rank == 0:
            self.answers.write(json.dumps(message) + "\n")
            self.answers.flush()

    def measure(self):
        torch._dynamo.config.recompile_limit = MOST_COMPILED
        mesh = init_device_mesh(self.args.device, (self.args.ranks,))
        for case in self.args.cases:
            self.tell(case=case["number"], row="", doing="makes the model")
            self.rows = Stack(self.args, self.board, case, mesh)
            rows = [row for row in case["todo"] if self.make(case, row)]
            samples = self.time_rows(case, rows)
            self.tell(case=case["number"], samples_us=samples)
            if case["steps"]:
                self.train(case, [way for way in ("nccl", "braid") if way in rows])
            self.tell(case=case["number"], done=True, report=self.report())
            torch._dynamo.reset()
            self.forget()
        self.tell(end=True)

    def make(self, case, row):
        """Whether there is such a row."""
        way, _, graph = row.partition("/")
        place = {"case": case["number"], "row": row}
        self.tell(**place, doing="captures" if graph else "compiles")
        try:
            if graph and way in case["todo"] and (way, False) not in self.rows.made:
                raise Refused(f"{way} failed")
            with contextlib.ExitStack() as ways:
                self.rows.together(lambda: ways.enter_context(self.rows.on(way)))
                self.rows.find(way, bool(graph))
                self.check(way, place)
        except Exception as error:
            if isinstance(error, torch_rows.Stuck):
                raise
            self.tell(**place, failure=describe(error))
            self.look_at(error)
            return False
        return True

    def check(self, way, place):
        """Of a row that has run once, its results; of an eager one what it calls, too."""
        found, is_eager = {"difference": self.rows.difference()}, place["row"] == way
        if not found["difference"] <= TOLERANCE[self.args.dtype]:
            raise Refused(f"a result differs by {found['difference']:.2g} of its largest element")
        if is_eager:
            found["compiles"] = self.rows.compiles[way]
            found["calls"] = self.rows.together(lambda: self.rows.calls(way))
            if way != "nccl" and not any(each.startswith(FUSED) for each in found["calls"]):
                raise Refused("PyTorch's pass fused nothing")
        if is_eager and way == "braid" and self.args.tune:
            self.tell(**place, doing="measures schedules")
            self.rows.together(self.tune)
        self.tell(**place, **found)

    def tune(self):
        """Has Braid measure what was called, as prepare() does of one call."""
        from braid.torch import _group, _kept
        for job in _group.all_jobs():
            for layout in list(job.operations):
                if layout not in job.choices:
                    with job.lock:
                        _kept.measure(job, layout, self.args.tune)

    def look_at(self, error):
        """Raises where it leaves ranks that cannot go on."""
        text = describe(error)
        lost = text if text.startswith(ENDS_ALL) else ""
        try:
            self.rows.synchronize()
        except Exception as problem:
            lost = describe(problem)
        lost = self.board.agree(lost)
        if lost:
            raise Over(lost)

    def turn(self, case, row, steps=None, us=None):
        """Of so many steps, which took about so long each; of none, how many there should be."""
        way, _, graph = row.partition("/")
        self.tell(case=case["number"], row=row, doing="is timed")
        with self.rows.on(way):
            run = self.rows.find(way, bool(graph))
            if steps is None:
                return self.rows.steps_of_turn(run)
            if us <= LONG_STEP_US:
                for _ in range(math.ceil(SETTLED_WITHIN_US / us)):
                    run()
                self.rows.synchronize()
            return self.rows.time_burst(run, steps)

    def time_rows(self, case, rows):
        """Microseconds of a step in each turn, the maximum over ranks. Rounds have orders of their
        own, the same on all ranks: what a row leaves, such as a warm GPU, is not always before the
        same one."""
        first = {row: self.turn(case, row) for row in rows}
        samples = {row: [] for row in rows}
        for index in range(self.args.rounds):
            order = random.Random(f"{case['number']} {index}")
            for row in order.sample(rows, len(rows)):
                samples[row].append(self.turn(case, row, *first[row]))
        return {row: self.board.maxima(samples[row]) for row in rows}

    def train(self, case, ways):
        losses = {}
        for way in ways:
            self.tell(case=case["number"], row="losses", doing=f"trains by {way}")
            with self.rows.on(way):
                losses[way] = self.rows.losses(way, case["steps"])
        self.tell(case=case["number"], losses=losses)

    def report(self):
        try:
            import braid.torch
        except ImportError:
            return ""
        return str(braid.torch.report())


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        args = argparse.Namespace(**json.load(file), rank=int(os.environ["RANK"]))
    torch_rows.die_with_parent()
    # Libraries print to descriptor 1; answers go where it led before.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    rank = StackRank(args, answers)
    failure = rank.meet()
    if failure:
        rank.tell(unavailable=failure)
        return
    rank.tell(device=rank.device())
    try:
        rank.measure()
    except Over as over:
        rank.tell(over=str(over))


if __name__ == "__main__":
    torch_rows.run_as_process("torch_stack", main)
