"""Tests enable(), which makes compiled models with tensor parallelism use Braid's operators.

usage: takeover_test.py FOLDER     (the folder that contains the package)
"""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks as processes  # noqa: E402

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
    from torch.distributed._functional_collectives import all_gather_tensor as gather
    from torch.distributed._functional_collectives import reduce_scatter_tensor as scatter
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                                   RowwiseParallel, parallelize_module)
except ImportError as reason:
    print(f"skipped: expected PyTorch, got: {reason}")
    sys.exit(processes.SKIPPED)

import braid  # noqa: E402
import braid.torch as bt  # noqa: E402


class MLP(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.up, self.down = nn.Linear(32, 48, bias=bias), nn.Linear(48, 32, bias=bias)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def models(rank, ranks, dim, bias, layers=1):
    """Returns a model that is split over the ranks, and the same model on one device."""
    torch.manual_seed(0)
    whole, split = (nn.Sequential(*(MLP(bias) for _ in range(layers))) for _ in range(2))
    split.load_state_dict(whole.state_dict())
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in split:
        parallelize_module(layer, mesh, {"up": ColwiseParallel(input_layouts=Shard(dim)),
                                         "down": RowwiseParallel(output_layouts=Shard(dim))})
    return split, whole


def compare(rank, ranks, dim, bias, shape, layers=1):
    """Compares the compiled model, including its gradients, with the model on one device."""
    torch._dynamo.reset()
    split, whole = models(rank, ranks, dim, bias, layers)
    compiled = torch.compile(split, fullgraph=True)
    torch.manual_seed(1)
    X = torch.randn(*shape)
    x = X.chunk(ranks, dim)[rank].clone().requires_grad_()
    X.requires_grad_()
    y, Y = compiled(x), whole(X)
    torch.testing.assert_close(y, Y.chunk(ranks, dim)[rank])
    y.square().sum().backward()
    Y.square().sum().backward()
    torch.testing.assert_close(x.grad, X.grad.chunk(ranks, dim)[rank])
    for mine, exact in zip(split, whole):
        for name, split_dim in (("up", 0), ("down", 1)):
            found = getattr(mine, name).weight.grad.to_local()
            wanted = getattr(exact, name).weight.grad.chunk(ranks, split_dim)[rank]
            torch.testing.assert_close(found, wanted)
    return compiled, x


def counts():
    found = {}
    for each in bt.report().calls:
        found[each.operator] = found.get(each.operator, 0) + each.calls
    return {operator: calls for operator, calls in found.items() if calls}


def part_replaces(rank, ranks):
    """Braid operators replace every collective next to a GEMM, in the forward and backward pass."""
    bt.enable()
    bt.enable()
    cases = [((8 * ranks, 32), 0, False), ((8 * ranks, 32), 0, True)]
    cases += [((batch, 4 * ranks, 32), 1, False) for batch in (1, 2, 3, 6)]
    cases += [((2, 3, 2 * ranks, 32), 2, True), ((2 * ranks, 3, 32), 0, False)]
    for shape, dim, bias in cases if ranks == 2 else cases[1:4]:
        bt.report(clear=True)
        compare(rank, ranks, dim, bias, shape)
        assert counts() == {"all_gather_matmul": 2, "matmul_reduce_scatter": 2}, bt.report()
        sites = {(each.collective, each.direction): each.number for each in bt.report().taken}
        assert sites == {(collective, direction): 1 for direction in ("forward", "backward")
                         for collective in ("all_gather", "reduce_scatter")}, bt.report()
        assert not bt.report().apart, bt.report().apart


def part_moved_rows(rank, ranks):
    """The second dimension is scattered by moving it to the front and back."""
    bt.enable()
    group = dist.group.WORLD

    def split(x, w):
        y = (x @ w).movedim(1, 0).contiguous()
        return scatter(y, "sum", 0, group).movedim(0, 1)
    for sequences in (2, 6):
        draw = torch.Generator().manual_seed(3)
        X = torch.randn(ranks, sequences, 4 * ranks, 8, generator=draw)
        W = torch.randn(ranks, 8, 6, generator=draw)
        bt.report(clear=True)
        torch._dynamo.reset()
        found = torch.compile(split, fullgraph=True)(X[rank], W[rank])
        whole = (X @ W.unsqueeze(1)).sum(0)
        torch.testing.assert_close(found, whole.chunk(ranks, 1)[rank])
        assert counts() == {"matmul_reduce_scatter": 1}, bt.report()


def part_beside(rank, ranks):
    """A backward pass transfers beside GEMMs that do not depend on the transfer, if there are
    any, whatever PyTorch's passes that reorder nodes do."""
    from torch._inductor import config
    from braid.torch import _transfer
    _transfer._OPERATIONS_PER_BYTE, _transfer._LEAST_OPERATIONS = 0, 1  # one GEMM suffices
    _transfer.devices.add("cpu")
    bt.enable()
    order = {"reorder_for_compute_comm_overlap": True, "reorder_for_peak_memory": False,
             "aten_distributed_optimizations.enable_overlap_scheduling": True}
    for order, dim, shape, bias in [({}, 0, (8 * ranks, 32), True),
                                    (order, 1, (2, 4 * ranks, 32), False)]:
        bt.report(clear=True)
        with config.patch(order):
            compare(rank, ranks, dim, bias, shape, layers=2)
        # The second layer's gather runs first in the backward pass, when no GEMM is ready.
        assert counts() == {"all_gather_matmul": 3, "matmul_reduce_scatter": 2, "all_gather": 1,
                            "reduce_scatter": 2}, bt.report()
    for rows, beside in (8, 3), (7, 0):  # 7 rows cannot be scattered among 2 ranks
        compare_shared(rank, ranks, (rows, 32), 0, False, False)
        wanted = {"matmul_all_reduce": 4 - beside, "all_gather": beside, "reduce_scatter": beside}
        assert counts() == {name: calls for name, calls in wanted.items() if calls}, bt.report()


def part_transfers_beside(rank, ranks):
    """The operators compute GEMMs beside their transfers, with Braid and without it."""
    from braid.torch._layout import Rows
    from braid.torch._transfer import Transfer
    group, draw = dist.group.WORLD.group_name, torch.Generator().manual_seed(3)
    for operator in ("all_gather", "reduce_scatter") if rank == 0 else ():
        program = Transfer(operator, "bf16", Rows(24, 1, 12), 8, 2).fusion()
        assert "is safe on 12 ranks" in braid.compile(program).check()

    def random(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)
    Cs, Ds = [random(5, 3), random(2, 7)], [random(3, 4), random(7, 6)]
    products = [C @ D for C, D in zip(Cs, Ds)]
    ops = torch.ops.braid
    for sequences in ([], [1], [3]):
        bt.set_memory_bound(0 if sequences else 1)  # 1: each operator releases the previous one
        As, Bs, bias = random(2, ranks, *sequences, 4 * ranks, 8), random(2, ranks, 8, 6), random(6)
        whole = (As @ Bs.unsqueeze(2) if sequences else As @ Bs).sum((0, 1))
        x = As[0, 0].contiguous()
        for enabled in (True, False):
            (bt.enable if enabled else bt.disable)()
            for reduce_op, added, sums in ("sum", bias, whole + bias), ("avg", None, whole / ranks):
                found = ops.sum_scatter(list(As[:, rank]), list(Bs[:, rank]), added, reduce_op,
                                        group, ranks, Cs, Ds)
                torch.testing.assert_close(found, [sums.chunk(ranks, -2)[rank], *products])
            if not sequences:
                found = ops.sum_all_reduce(list(As[:, rank]), list(Bs[:, rank]), bias, group, Cs,
                                           Ds)
                torch.testing.assert_close(found, [whole + bias, *products])
            found = ops.gather_gemms(x.chunk(ranks, -2)[rank], list(Bs[:, 0]), [None, bias], True,
                                     group, ranks, Cs, Ds)
            wanted = [x @ Bs[0, 0], x @ Bs[1, 0] + bias, x, *products]
            torch.testing.assert_close(found, wanted)
    assert counts() == {"all_gather": 4, "reduce_scatter": 7}, bt.report()


def part_keeps_shards(rank, ranks):
    """Compiled forward passes save this rank's rows instead of gathered rows if keep="shard"."""
    rows = 8
    for batch in (1, 2):
        saved = {}
        for keep in ("gathered", "shard"):
            bt.enable(keep=keep)
            bt.report(clear=True)
            sizes = []
            with torch.autograd.graph.saved_tensors_hooks(
                    lambda tensor: (sizes.append(tensor.numel()), tensor)[1], lambda t: t):
                compare(rank, ranks, 1, False, (batch, rows * ranks, 32))
            saved[keep] = sum(sizes)
            assert counts() == {"all_gather_matmul": 2, "matmul_reduce_scatter": 2}, bt.report()
            # The gather in the backward pass has no GEMM whose first operand is its result.
            apart = [(each.collective, each.direction, each.number) for each in bt.report().apart]
            assert apart == [("all_gather", "backward", 1)] * (keep == "shard"), bt.report()
        assert saved["gathered"] - saved["shard"] == (ranks - 1) * batch * rows * 32, saved
    bt.disable()
    assert torch._inductor.config.joint_custom_pre_pass is None


class Shared(nn.Module):
    """Linears that share their input. The gradient of the input is a sum of GEMMs."""

    def __init__(self, bias):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(32, width, bias=bias) for width in (64, 64, 64))
        self.down = nn.Linear(64, 32, bias=bias)

    def forward(self, x):
        return self.down(torch.relu(self.a(x)) * self.b(x) + self.c(x))


def shared(ranks, dim, bias, has_rows):
    """Returns a split model and the same model on one device. `has_rows` is False if all ranks have
    all rows, so that the collectives are all-reduces."""
    torch.manual_seed(0)
    # Hooks that prepare the input are compiled only in a module inside the compiled one.
    whole, split = nn.Sequential(Shared(bias)), nn.Sequential(Shared(bias))
    split.load_state_dict(whole.state_dict())
    layout = Shard(dim) if has_rows else Replicate()
    plan = {f"0.{name}": ColwiseParallel() for name in "abc"}
    plan["0.down"] = RowwiseParallel(output_layouts=layout)
    if has_rows:
        plan["0"] = PrepareModuleInput(input_layouts=layout, desired_input_layouts=Replicate())
    return parallelize_module(split, init_device_mesh("cpu", (ranks,)), plan), whole


def sequences(x, w, v):
    return scatter(F.relu(gather(x, 1, dist.group.WORLD) @ w) @ v, "sum", 1, dist.group.WORLD)


def part_any_rows(rank, ranks):
    """A graph that was compiled for any number of rows has the same operators."""
    bt.enable()
    for batch in (1, 2):
        torch._dynamo.reset()
        bt.report(clear=True)
        run = torch.compile(sequences, fullgraph=True)
        for rows in (4, 6, 10):
            x = torch.randn(batch, rows, 8)
            torch._dynamo.mark_dynamic(x, 1)
            w, v = torch.randn(8, 6), torch.randn(6, 8)
            torch.testing.assert_close(run(x, w, v), sequences(x, w, v))
        assert [(site.collective, site.number) for site in bt.report().taken] == [
            ("all_gather", 1), ("reduce_scatter", 1)], bt.report()
        assert not bt.report().apart, bt.report()


def compare_shared(rank, ranks, shape, dim, bias, has_rows):
    """Compares the compiled model, including its gradients, with the model on one device."""
    torch._dynamo.reset()
    bt.report(clear=True)
    split, whole = shared(ranks, dim, bias, has_rows)
    X = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    x = X.chunk(ranks, dim)[rank].clone() if has_rows else X.clone()
    x.requires_grad_()
    X.requires_grad_()
    y, Y = torch.compile(split, fullgraph=True)(x), whole(X)
    torch.testing.assert_close(y, Y.chunk(ranks, dim)[rank] if has_rows else Y)
    y.square().sum().backward()
    Y.square().sum().backward()
    torch.testing.assert_close(x.grad, X.grad.chunk(ranks, dim)[rank] if has_rows else X.grad)
    for name, parameter in split.named_parameters():
        wanted = dict(whole.named_parameters())[name].grad
        torch.testing.assert_close(parameter.grad.full_tensor(), wanted)
    assert not bt.report().apart, bt.report()


def part_sums(rank, ranks):
    """A sum of GEMMs is one operator, as is a gather for several GEMMs. Gradients, including those
    of biases, equal those of the model on one device."""
    bt.enable()
    for shape, dim, bias, has_rows in (((8 * ranks, 32), 0, False, True),
                                       ((2, 4 * ranks, 32), 1, True, True),
                                       ((2, 5, 32), 1, False, False), ((7, 32), 0, True, False)):
        compare_shared(rank, ranks, shape, dim, bias, has_rows)
        wanted = {"matmul_all_reduce": 4}  # PyTorch reduces the gradient of each linear
        if has_rows:
            wanted = {"all_gather_matmul": 2, "matmul_reduce_scatter": 2}
        assert counts() == wanted, bt.report()


class Attention(nn.Module):
    def __init__(self, gated):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))
        self.gated = gated

    def forward(self, x):
        heads = [each(x).view(*x.shape[:2], -1, 8) for each in (self.q, self.k, self.v)]
        q, k, v = (each.transpose(1, 2) for each in heads)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2)
        return self.o((y.sigmoid() if self.gated else y).flatten(2))


class GradientsOfAttention(torch.utils._python_dispatch.TorchDispatchMode):
    """Records the strides of the gradient that the backward pass of attention receives."""

    def __init__(self):
        super().__init__()
        self.strides = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if "attention" in str(function) and "backward" in str(function):
            self.strides.append(arguments[0].stride())
        return function(*arguments, **(options or {}))


def part_sums_with_bias(rank, ranks):
    """A bias is added once to a sum of products, whichever layouts the weights have."""
    bt.enable()
    group, draw = dist.group.WORLD.group_name, torch.Generator().manual_seed(2)
    As = [torch.randn(ranks, 4 * ranks, depth, generator=draw) for depth in (8, 3)]
    Bs = [torch.randn(ranks, depth, 6, generator=draw) for depth in (8, 3)]
    bias = torch.randn(6, generator=draw)
    whole = sum((A @ B).sum(0) for A, B in zip(As, Bs)) + bias
    mine = [A[rank] for A in As]
    for is_transposed in ((False, False), (False, True), (True, True)):
        weights = [B[rank].t().contiguous().t() if turned else B[rank]
                   for B, turned in zip(Bs, is_transposed)]
        found = torch.ops.braid.sum_scatter(mine, weights, bias, "sum", group, ranks, [], [])
        torch.testing.assert_close(found[0], whole.chunk(ranks)[rank])
        found = torch.ops.braid.sum_all_reduce(mine, weights, bias, group, [], [])
        torch.testing.assert_close(found[0], whole)
    assert sum(counts().values()) == 6, bt.report()


def part_attention(rank, ranks):
    """The gradient that the backward pass of attention gets has the same layout as without Braid,
    even if there are operators between attention and the GEMM, or if the gathered dimension is not
    the leading one."""
    bt.enable()
    for gated, batch in ((False, 1), (False, 2), (False, 3), (True, 2)):
        torch._dynamo.reset()
        torch.manual_seed(0)
        whole, split = Attention(gated), Attention(gated)
        split.load_state_dict(whole.state_dict())
        mesh = init_device_mesh("cpu", (ranks,))
        gathered = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
        parallelize_module(split, mesh, {
            "": gathered, "q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(),
            "o": RowwiseParallel(output_layouts=Shard(1))})
        compiled = torch.compile(split, fullgraph=True)
        X = torch.randn(batch, 4 * ranks, 32)
        x = X.chunk(ranks, 1)[rank].clone().requires_grad_()
        X.requires_grad_()
        y, Y = compiled(x), whole(X)
        torch.testing.assert_close(y, Y.chunk(ranks, 1)[rank])
        with GradientsOfAttention() as seen:
            y.square().sum().backward()
        Y.square().sum().backward()
        torch.testing.assert_close(x.grad, X.grad.chunk(ranks, 1)[rank])
        heads, size, tokens = 4 // ranks, 8, 4 * ranks  # [batch, tokens, heads, size]
        wanted = (tokens * heads * size, size, heads * size, 1)
        assert len(seen.strides) == 1, seen.strides
        found = [stride for stride, count in zip(seen.strides[0], (batch, heads, tokens, size))
                 if count > 1]
        assert found == [stride for stride, count in zip(wanted, (batch, heads, tokens, size))
                         if count > 1], (gated, batch, seen.strides, wanted)


def used_elsewhere(x, w):
    y = x @ w
    return scatter(y, "sum", 0, dist.group.WORLD), y.sum()


def second_operand(x, w):
    return w @ gather(x, 0, dist.group.WORLD)


def different_rows(x, w):
    y = x @ w
    return scatter((x @ w).t().reshape(y.shape) + x.flip(0) @ w, "sum", 0, dist.group.WORLD)


def part_reports(rank, ranks):
    """Names the reason for each collective that stays, and counts it."""
    bt.enable()
    x, w = torch.ones(4 * ranks, 8), torch.ones(8, 6)
    for function, arguments, reason in (
            (used_elsewhere, (x, w), "the GEMM's result is also used elsewhere"),
            (second_operand, (torch.ones(4, 8), torch.ones(6, 4 * ranks)),
             "the collective's result is the GEMM's second operand"),
            (different_rows, (x, torch.ones(8, 4 * ranks)),
             "the rows of the summed GEMMs are arranged differently")):
        bt.report(clear=True)
        torch.compile(function, fullgraph=True)(*arguments)
        found = bt.report()
        assert [(each.number, each.reason) for each in found.apart] == [(1, reason)], found
        assert reason in str(found) and not found.taken, found


def part_caches(rank, ranks):
    """Prints how many graphs Inductor compiled and loaded from its disk cache, and all sites."""
    bt.enable()
    compare(rank, ranks, 0, False, (8 * ranks, 32))
    torch.compile(used_elsewhere, fullgraph=True)(torch.ones(4 * ranks, 8), torch.ones(8, 6))
    counters = torch._dynamo.utils.counters["inductor"]
    found = bt.report()
    assert not counters["fxgraph_cache_bypass"], counters
    print(json.dumps([counters["fxgraph_cache_miss"], counters["fxgraph_cache_hit"],
                      counts(), found.taken, found.apart]))
    bt.report(clear=True)
    assert not bt.report().taken and not bt.report().apart


def gathered(x, w):
    return F.relu(gather(x, 0, dist.group.WORLD) @ w)


def row_wise(x, scale, w, scales):
    """Gathers rows and their scales, as in float8 training, and multiplies them in fp8."""
    a = gather(x.view(torch.uint8), 0, dist.group.WORLD).view(torch.float8_e4m3fn)
    s = gather(scale, 0, dist.group.WORLD)
    y = torch._scaled_mm(a.flatten(0, -2), w, s.flatten(0, -2), scales, out_dtype=torch.bfloat16)
    return y.unflatten(0, a.shape[:-1])


def scaled(x, scale, w, scales):
    y = torch._scaled_mm(x.flatten(0, -2), w, scale.flatten(0, -2), scales,
                         out_dtype=torch.bfloat16)
    return scatter(y, "sum", 0, dist.group.WORLD)


def tensor_wise(x, w):
    one = torch.tensor(1.0)
    return scatter(torch._scaled_mm(x, w, one, one, out_dtype=torch.bfloat16), "sum", 0,
                   dist.group.WORLD)


def largest(x, w):
    return scatter(x @ w, "max", 0, dist.group.WORLD)


def integers(x, w):
    return gather(x, 0, dist.group.WORLD) @ w


def part_leaves(rank, ranks):
    """Collectives for which Braid has no operator give exactly the same results as without Braid,
    both while it is enabled and after it has been disabled."""
    f8 = torch.float8_e4m3fn
    torch.manual_seed(rank)
    x8 = torch.randint(-2, 3, (4, 8, 32)).to(f8)
    w8, ones = torch.randint(-2, 3, (16, 32)).to(f8).t(), torch.ones(4, 8, 1)
    calls = [(row_wise, (x8, ones, w8, torch.ones(1, 16)), "the GEMM is scaled"),
             (scaled, (x8, ones, w8, torch.ones(1, 16)), "the GEMM is scaled"),
             (tensor_wise, (x8.flatten(0, 1)[:16], w8), "the GEMM is scaled"),
             (largest, (torch.eye(2 * ranks) * (rank + 1), torch.ones(2 * ranks, 6)),
              "the reduction operator is max"),
             (integers, (torch.ones(4, 8, dtype=torch.long), torch.ones(8, 6, dtype=torch.long)),
              "the element type is torch.int64")]
    bt.enable()
    compiled = {}
    for function, arguments, reason in calls:
        try:
            wanted = function(*arguments)
        except RuntimeError:  # some versions of PyTorch have no such GEMM on CPUs
            continue
        found = len(bt.report().apart)
        compiled[function] = torch.compile(function, fullgraph=True)
        assert torch.equal(compiled[function](*arguments), wanted), function
        new = {each.reason for each in bt.report().apart[found:]}
        assert new == {reason}, (function, new)
    assert not bt.report().calls and not bt.report().passed, bt.report()
    bt.disable()
    for function, arguments, _ in calls:
        if function in compiled:
            assert torch.equal(compiled[function](*arguments), function(*arguments)), function
    assert {tensor_wise, largest, integers} <= set(compiled), compiled


def part_goes_on(rank, ranks):
    """A compiled graph uses Braid's operators while Braid is enabled, and otherwise the collective
    and the GEMM. It uses PyTorch's fused operators only if PyTorch would fuse for the group."""
    from types import SimpleNamespace
    from torch.profiler import ProfilerActivity, profile
    bt.enable()
    x, w = torch.ones(4, 8), torch.eye(8)
    run = torch.compile(gathered, fullgraph=True)
    run(x, w)
    for enabled in (True, False, True):
        (bt.enable if enabled else bt.disable)()
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            assert torch.equal(run(x, w), torch.ones(4 * ranks, 8))
        names = {each.key for each in seen.key_averages()
                 if each.key.startswith(("braid::", "symm_mem::", "_c10d_functional::all"))}
        apart = {"_c10d_functional::all_gather_into_tensor"} if not enabled else set()
        assert names == {"braid::gather_gemms"} | apart, names


def part_advises(rank, ranks):
    """Autocast with f32 parameters converts after each gather, which prevents fusion."""
    def step(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return gathered(x, w)
    bt.enable()
    x, w = torch.ones(4, 8), torch.ones(8, 6)
    torch.compile(step, fullgraph=True)(x, w)
    assert "gather x.to(torch.bfloat16), or keep" in str(bt.report()), bt.report()
    torch.compile(step, fullgraph=True)(x.bfloat16(), w)
    assert counts() == {"all_gather_matmul": 1}, counts()


def part_gives_back(rank, ranks):
    """disable() restores everything, including a custom pass and the settings."""
    import torch._inductor.config as inductor
    seen = []
    inductor.post_grad_custom_post_pass = seen.append
    bt.enable()
    compiled, x = compare(rank, ranks, 0, False, (8 * ranks, 32))
    assert seen, "the user's pass runs, too"
    before = counts()
    bt.disable()
    bt.disable()
    compiled(x)  # compiled graphs then use collectives and GEMMs
    assert inductor.post_grad_custom_post_pass == seen.append
    compare(rank, ranks, 0, False, (8 * ranks, 32))
    assert counts() == before
    bt.enable()
    compare(rank, ranks, 0, False, (8 * ranks, 32))
    assert counts() != before


def part_passes_on(rank, ranks):
    """Calls that Braid does not support are passed to PyTorch's operators and are reported."""
    bt.enable()
    A, B = torch.ones(4, 8), torch.ones(8 * ranks, 6)
    op = torch.ops.symm_mem.fused_all_gather_matmul
    gathered, (Y,) = op(A, [B], 1, dist.group.WORLD.group_name)
    assert gathered.shape == (4, 8 * ranks) and bool((Y == 8 * ranks).all())
    found = [(each.operator, each.calls) for each in bt.report().passed]
    assert found == [("fused_all_gather_matmul", 1)], found
    assert "the last dimension" in str(bt.report())
    _, (Y,) = op(A, [B[:8]], 0, dist.group.WORLD.group_name, return_A=False)
    assert Y.shape == (4 * ranks, 6) and bool((Y == 8).all())
    Z = torch.ops.symm_mem.fused_matmul_reduce_scatter(
        torch.ones(2, 2 * ranks, 8), B[:8], "avg", 1, dist.group.WORLD.group_name)
    assert Z.shape == (2, 2, 6) and Z.is_contiguous() and bool((Z == 8).all())


def part_cannot_meet(rank, ranks):
    """Ranks on several hosts use PyTorch's operators, and compare their hosts only once."""
    from braid.torch import _group
    _group._host = lambda: f"host{rank} boot"
    asked = []
    agree = _group.GroupJob._agree_on_name
    _group.GroupJob._agree_on_name = lambda *given: asked.append(1) or agree(*given)
    bt.enable()
    op = torch.ops.symm_mem.fused_all_gather_matmul
    compiled = torch.compile(gathered, fullgraph=True)
    for _ in range(3):
        _, (Y,) = op(torch.ones(4, 8), [torch.ones(8, 6)], 0, dist.group.WORLD.group_name)
        assert Y.shape == (4 * ranks, 6) and bool((Y == 8).all())
        assert torch.equal(compiled(torch.ones(4, 8), torch.ones(8, 6)), Y)
    assert len(asked) == 1, asked
    found = bt.report().passed
    assert [each.calls for each in found] == [3, 3] and "on one host" in found[0].reason, found


class Ranks(unittest.TestCase):
    def expect(self, part, ranks=2):
        codes, said, _ = processes.run(part, ranks, limit=240)
        self.assertEqual(codes, [0] * ranks, "\n".join(said)[-6000:])

    def test_replaces(self):
        self.expect("replaces")

    def test_moved_rows(self):
        self.expect("moved_rows")

    def test_beside(self):
        self.expect("beside")

    def test_transfers_beside(self):
        for ranks in (2, 3):
            self.expect("transfers_beside", ranks=ranks)

    def test_keeps_shards(self):
        self.expect("keeps_shards")

    def test_sums_with_bias(self):
        self.expect("sums_with_bias")

    def test_any_rows(self):
        self.expect("any_rows")

    def test_sums(self):
        self.expect("sums")

    def test_replaces_on_three(self):
        self.expect("replaces", ranks=3)

    def test_attention(self):
        self.expect("attention")

    def test_reports(self):
        self.expect("reports")

    def test_caches(self):
        """A second process loads the graphs from the disk cache, and reports the same sites."""
        with tempfile.TemporaryDirectory() as cache:
            runs = []
            for _ in range(2):
                codes, said, _ = processes.run("caches", 2, 240, TORCHINDUCTOR_CACHE_DIR=cache)
                self.assertEqual(codes, [0, 0], "\n".join(said)[-6000:])
                runs.append([json.loads(text.splitlines()[-1]) for text in said])
        for (compiled, loaded, *first), second in zip(*runs):
            self.assertEqual(second, [0, compiled + loaded, *first])
            self.assertTrue(compiled + loaded and first[1] and first[2], first)

    def test_leaves(self):
        self.expect("leaves")

    def test_goes_on(self):
        self.expect("goes_on")

    def test_advises(self):
        self.expect("advises")

    def test_gives_back(self):
        self.expect("gives_back")

    def test_cannot_meet(self):
        self.expect("cannot_meet")

    def test_passes_on(self):
        self.expect("passes_on")


if __name__ == "__main__":
    processes.main(globals(), torch)
