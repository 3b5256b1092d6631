"""The operators of braid.torch on CPU ranks: results, gradients, shapes, compilation, groups.

usage: operators_test.py FOLDER     (the folder that contains the package)
"""
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
import weakref

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks as processes  # noqa: E402

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import (DTensor, Partial, Replicate, Shard,
                                          distribute_tensor)
except ImportError as reason:
    print(f"skipped: expected PyTorch, got: {reason}")
    sys.exit(processes.SKIPPED)

import braid  # noqa: E402
import braid.torch as bt  # noqa: E402

generator = torch.Generator().manual_seed(5)  # equal on all ranks
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def draw(*shape, dtype=torch.float32):
    """Returns small integers, whose sums are exact in every type."""
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)


def real(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=generator, dtype=dtype)


def mine(tensor, rank, ranks, dim=0):
    """Returns a rank's block, as torch.chunk would split the tensor; it may be empty."""
    count = tensor.shape[dim]
    block = -(-count // ranks)
    begin = min(count, rank * block)
    return tensor.narrow(dim, begin, min(count, begin + block) - begin)


def expect(found, wanted):
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    assert torch.equal(found, wanted), (found, wanted)


def expect_error(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), f"expected '{words}' in: {error}"
    else:
        raise AssertionError(f"expected an error with '{words}'")


# -- Results. --

def part_exact(rank, ranks):
    for dtype in DTYPES:
        for rows in (1, 7, 64, 4096, 4097):
            X, W, b = draw(rows, 8, dtype=dtype), draw(6, 8, dtype=dtype), draw(6, dtype=dtype)
            Y = bt.all_gather_matmul(mine(X, rank, ranks), W.t(), bias=b, rows=rows)
            expect(Y, F.linear(X, W, b))
            A, B = draw(ranks, rows, 8, dtype=dtype), draw(ranks, 8, 6, dtype=dtype)
            whole = sum(A[r].double() @ B[r].double() for r in range(ranks)).to(dtype)
            expect(bt.matmul_reduce_scatter(A[rank], B[rank]), mine(whole, rank, ranks))
            expect(bt.matmul_all_reduce(A[rank], B[rank]), whole)


def part_shapes(rank, ranks):
    """Checks dimensions, strides, several weights, functions and means, and counts copies."""
    for count, beside in ((4 * ranks, 3), (7, 3)):
        X = draw(beside, count, 2, 8)
        B, C, b = draw(8, 6), draw(4, 8), draw(4)
        (Y, Z), G = bt.all_gather_matmul(mine(X, rank, ranks, 1), [B, C.t()], bias=[None, b],
                                         gather_dim=1, rows=count, return_A=True)
        expect(G, X)
        expect(Y, X @ B)
        expect(Z, F.linear(X, C, b))
        A, B = draw(ranks, beside, count, 2, 8), draw(ranks, 8, 6)
        whole = sum(A[r] @ B[r] for r in range(ranks))
        expect(bt.matmul_reduce_scatter(A[rank], B[rank], scatter_dim=-3),
               mine(whole, rank, ranks, 1))
        expect(bt.matmul_all_reduce(A[rank], B[rank]), whole)
        mean = bt.matmul_reduce_scatter(A[rank], B[rank], scatter_dim=1, reduce_op="avg")
        torch.testing.assert_close(mean, mine(whole, rank, ranks, 1) / ranks)
    before = sum(each.copies for each in bt.report().calls)
    X, B = draw(4 * ranks, 16)[:, ::2], draw(16, 12)[::2, ::2]
    expect(bt.all_gather_matmul(mine(X, rank, ranks), B), X @ B)
    assert sum(each.copies for each in bt.report().calls) == before + 2
    X, W, b = real(4 * ranks, 8, dtype=torch.float32), real(6, 8).float(), real(6).float()
    for name, function in (("relu", F.relu), ("gelu", F.gelu), ("silu", F.silu),
                           ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))):
        Y = bt.all_gather_matmul(mine(X, rank, ranks), W.t(), bias=b, activation=name)
        torch.testing.assert_close(Y, function(F.linear(X, W, b)))
        Y = bt.matmul_reduce_scatter(X, W.t(), bias=b, activation=name)
        torch.testing.assert_close(Y, mine(function(ranks * X @ W.t() + b), rank, ranks),
                                   rtol=1e-5, atol=1e-4)


def part_autocast(rank, ranks):
    X, W = real(4 * ranks, 8).float(), real(6, 8).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        Y = bt.all_gather_matmul(mine(X, rank, ranks), W.t())
        Z = bt.matmul_reduce_scatter(Y, W)
        bt.prepare(bt.all_gather_matmul, mine(X, rank, ranks), W.t(), seconds=0.1)
    assert Y.dtype == Z.dtype == torch.bfloat16
    torch.testing.assert_close(Y.float(), X @ W.t(), rtol=0.02, atol=0.05)
    assert all(each.shape.startswith("bf16") for each in bt.report().calls), bt.report()


# -- Gradients, compared with those on one device. --

def layers(x, ws, bs, ranks):
    """Computes two layers with gelu between them on one device, adding partial results."""
    total = bs[-1]
    for r in range(ranks):
        total = total + F.gelu(F.linear(x, ws[0][r], bs[r])) @ ws[1][r].t()
    return total


def part_gradients(rank, ranks):
    for shape, dim in (((4 * ranks, 8), 0), ((7, 3, 8), 0), ((2, 4 * ranks, 8), 1)):
        X, V, W = real(*shape), real(ranks, 6, 8), real(ranks, 8, 6)
        biases = [real(6) for _ in range(ranks)] + [real(8)]
        x, v, w, b, c = (each.clone().requires_grad_() for each in (
            mine(X, rank, ranks, dim), V[rank], W[rank], biases[rank], biases[-1]))
        h = bt.all_gather_matmul(x, v.t(), bias=b, activation="gelu", gather_dim=dim,
                                 rows=shape[dim])
        y = bt.matmul_reduce_scatter(h, w.t(), bias=c, scatter_dim=dim)
        y.square().sum().backward()
        for each in (X, V, W, *biases):
            each.requires_grad_()
        Y = layers(X, (V, W), biases, ranks)
        Y.square().sum().backward()
        for found, wanted in ((y, mine(Y, rank, ranks, dim)),
                              (x.grad, mine(X.grad, rank, ranks, dim)), (v.grad, V.grad[rank]),
                              (w.grad, W.grad[rank]), (b.grad, biases[rank].grad),
                              (c.grad, biases[-1].grad)):
            torch.testing.assert_close(found, wanted)
    A, B, b = real(ranks, 3, 8), real(ranks, 8, 6), real(6)
    a, m, c = (each.clone().requires_grad_() for each in (A[rank], B[rank], b))
    bt.matmul_all_reduce(a, m, bias=c, activation="silu").square().sum().backward()
    for each in (A, B, b):
        each.requires_grad_()
    F.silu(sum(A[r] @ B[r] for r in range(ranks)) + b).square().sum().backward()
    for found, wanted in ((a.grad, A.grad[rank]), (m.grad, B.grad[rank]), (c.grad, b.grad)):
        torch.testing.assert_close(found, wanted)


def part_gradients_beside(rank, ranks):
    """Transfers run beside the GEMMs of weights' gradients, if these are long enough."""
    from braid.torch import _transfer
    _transfer._OPERATIONS_PER_BYTE, _transfer._LEAST_OPERATIONS = 0, 1
    _transfer.devices.add("cpu")
    bt.report(clear=True)
    part_gradients(rank, ranks)
    part_keeps_shards(rank, ranks)
    part_several_weights(rank, ranks)
    found = {each.operator: each.calls for each in bt.report().calls if each.calls}
    assert found["reduce_scatter"] and found["all_gather"], bt.report()
    part_second_derivatives(rank, ranks)
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) if rank == 0 else contextlib.nullcontext():
        part_keeps_shards(rank, ranks)  # ranks with different modes transfer alike
    part_column(rank, ranks)
    assert any(each.operator == "all_gather" for each in bt.report().calls), bt.report()


def part_several_weights(rank, ranks):
    X, W, V = real(2, 4 * ranks, 8), real(ranks, 6, 8), real(ranks, 4, 8)
    x, w, v = (each.clone().requires_grad_() for each in (mine(X, rank, ranks, 1), W[rank],
                                                          V[rank]))
    outputs = bt.all_gather_matmul(x, [w.t(), v.t()], gather_dim=1)
    sum(each.square().sum() for each in outputs).backward()
    for each in (X, W, V):
        each.requires_grad_()
    sum((X @ B.t()).square().sum() for B in (*W, *V)).backward()
    for found, wanted in ((x.grad, mine(X.grad, rank, ranks, 1)), (w.grad, W.grad[rank]),
                          (v.grad, V.grad[rank])):
        torch.testing.assert_close(found, wanted)
        assert found.is_contiguous()


def part_column(rank, ranks):
    """A layer with a whole input and this rank's columns: only gradients are communicated."""
    from braid.torch._column import column_linear
    name = dist.group.WORLD.group_name
    for rows in (4 * ranks, 7):
        X, W, b = real(rows, 2, 8), real(ranks, 6, 8), real(ranks, 6)
        for needs_X, needs_W in ((True, True), (True, False), (False, True)):
            x, w, c = X.clone(), W[rank].clone(), b[rank].clone().requires_grad_()
            x.requires_grad_(needs_X)
            w.requires_grad_(needs_W)
            y = column_linear(x, w, c, name)
            y.square().sum().backward()
            whole, Ws = X.clone().requires_grad_(), W.clone().requires_grad_()
            Y = [F.linear(whole, Ws[r], b[r]) for r in range(ranks)]
            sum(each.square().sum() for each in Y).backward()
            torch.testing.assert_close(y, Y[rank])
            torch.testing.assert_close(c.grad, 2 * Y[rank].flatten(0, 1).sum(0))
            if needs_X:
                torch.testing.assert_close(x.grad, whole.grad)
            if needs_W:
                torch.testing.assert_close(w.grad, Ws.grad[rank])


def part_gradients_are_contiguous(rank, ranks):
    """Gradients are contiguous, as after collectives, even if another dimension is scattered. Those
    of weights have the weights' layout: autograd would copy them otherwise."""
    w = real(6, 8).requires_grad_()
    for function, x in ((bt.all_gather_matmul, real(4, 8)), (bt.matmul_all_reduce, real(4, 8)),
                        (bt.matmul_reduce_scatter, real(4 * ranks, 8))):
        B = w.t()
        [gradient] = torch.autograd.grad(function(x, B).sum(), B)
        assert gradient.stride() == B.stride(), (function, gradient.stride())
    a, found = real(2, 4 * ranks, 8).requires_grad_(), []
    a.register_hook(lambda gradient: found.append(gradient.is_contiguous()))
    bt.matmul_reduce_scatter(a, real(8, 6), scatter_dim=1).square().sum().backward()
    assert found == [True], found


def part_gradients_of_what_is_gathered(rank, ranks):
    """Uses return_A and two weights, and then a torch.ops operator without return_A."""
    X, V, W = real(2 * ranks, 8), real(8, 6), real(8, 4)
    x, v, w = (each.clone().requires_grad_() for each in (mine(X, rank, ranks), V, W))
    (Y, Z), G = bt.all_gather_matmul(x, [v, w], return_A=True)
    (Y.sum() + Z.square().sum() + G.square().sum()).backward()
    calls = {each.operator: each.calls for each in bt.report().calls}
    assert calls == {"all_gather_matmul": 1, "matmul_reduce_scatter": 1}, bt.report()
    x2, v2 = (each.detach().clone().requires_grad_() for each in (x, v))
    Y2, = torch.ops.braid.all_gather_matmul(x2, [v2], [], 0, "", 0, -1, False, False, "0", ranks)
    Y2.sum().backward()
    for each in (X, V, W):
        each.requires_grad_()
    ((X @ V).sum() + (X @ W).square().sum() + X.square().sum()).backward()
    # Every rank uses the whole result, so each contributes to the gradient of a rank's rows.
    torch.testing.assert_close(x.grad, ranks * mine(X.grad, rank, ranks))
    torch.testing.assert_close(v.grad, V.grad)
    torch.testing.assert_close(w.grad, W.grad)
    torch.testing.assert_close(v2.grad, V.grad)


def part_second_derivatives(rank, ranks):
    """Second derivatives reach A through the gathered tensor that was saved for the gradients."""
    X, W = real(2 * ranks, 8).requires_grad_(), real(8, 6).requires_grad_()
    x, w = (each.detach().clone().requires_grad_() for each in (mine(X, rank, ranks), W))
    for Y, operands in ((bt.all_gather_matmul(x, w), (w,)), (X @ W, (W,))):
        first, = torch.autograd.grad(Y.square().sum(), operands, create_graph=True)
        first.square().sum().backward()
    torch.testing.assert_close(x.grad, ranks * mine(X.grad, rank, ranks))
    torch.testing.assert_close(w.grad, W.grad)


def part_gradients_need_no_dispatcher(rank, ranks):
    """An eager call and its backward pass bypass PyTorch's dispatcher."""
    from torch.profiler import ProfilerActivity, profile
    x, w = (each.requires_grad_() for each in (real(2, 8), real(8, 8)))
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        y = bt.matmul_reduce_scatter(bt.all_gather_matmul(x, w, activation="relu"), w)
        bt.matmul_all_reduce(y, w).sum().backward()
        torch.ops.braid.matmul_all_reduce(y, w, None, "", "0")
    names = {each.key: each.count for each in seen.key_averages()}
    names = {key: count for key, count in names.items() if key.startswith("braid::")}
    assert names == {"braid::matmul_all_reduce": 1}, names


def part_empty(rank, ranks):
    """Empty results and their gradients are the same as those of F.linear and collectives."""
    B, b = draw(8, 6), draw(6)
    for shape in ((0, 8), (0, 3, 8), (3, 0, 8)):
        A = draw(*shape)
        Y, G = bt.all_gather_matmul(A, B, bias=b, activation="relu", return_A=True)
        assert Y.shape == (ranks * shape[0], *shape[1:-1], 6) and G.shape == (*Y.shape[:-1], 8)
        for Y in (bt.matmul_all_reduce(A, B), bt.all_gather_matmul(A, B, rows=ranks * shape[0])):
            assert Y.stride() == (A @ B).stride(), (Y.shape, Y.stride())
        Y = bt.matmul_reduce_scatter(A, B, bias=b, scatter_dim=shape.index(0))
        assert Y.shape == (*shape[:-1], 6), Y.shape
        for function in (bt.all_gather_matmul, bt.matmul_reduce_scatter, bt.matmul_all_reduce):
            for needs_A in (False, True):
                a, w = A.clone().requires_grad_(needs_A), B.clone().requires_grad_()
                function(a, w).sum().backward()
                expect(w.grad, torch.zeros(8, 6))
                assert not needs_A or a.grad.shape == A.shape
    assert bt.matmul_all_reduce(draw(3, 8), B[:, :0]).shape == (3, 0)
    assert not bt.report().calls, "nothing is prepared"
    assert str(bt.report()).startswith("no Braid operators have run"), bt.report()


def part_keeps_what_gradients_need(rank, ranks):
    """Saves only the operands that gradients need. Other operands may be overwritten."""
    for operator, rows in ((bt.all_gather_matmul, 2), (bt.matmul_reduce_scatter, 2 * ranks),
                           (bt.matmul_all_reduce, 2)):
        for needs_X, needs_W in ((True, False), (False, True), (True, True)):
            X, W = real(rows, 8).requires_grad_(needs_X), real(8, 6).requires_grad_(needs_W)
            kept = []
            with torch.autograd.graph.saved_tensors_hooks(
                    lambda tensor: (kept.append(tuple(tensor.shape)), tensor)[1], lambda t: t):
                Y = operator(X, W)
            assert len(kept) == needs_X + needs_W and ((8, 6) in kept) == needs_X, kept
            with torch.no_grad():
                for each, other in ((X, needs_W), (W, needs_X)):
                    if not other:
                        each.mul_(2)
            Y.sum().backward()
            assert (X.grad is not None, W.grad is not None) == (needs_X, needs_W)


def part_keeps_shards(rank, ranks):
    """The forward pass saves only this rank's rows if keep="shard"."""
    X, W = real(3 * ranks, 2, 8), real(8, 6)
    for rows in (None, 3 * ranks):
        gradients = []
        for keep in ("gathered", "shard"):
            x, w = mine(X, rank, ranks).clone().requires_grad_(), W.clone().requires_grad_()
            kept = []
            with torch.autograd.graph.saved_tensors_hooks(
                    lambda tensor: (kept.append(tuple(tensor.shape)), tensor)[1], lambda t: t):
                Y = bt.all_gather_matmul(x, w, keep=keep, rows=rows)
            saved = (3, 2, 8) if keep == "shard" else (3 * ranks, 2, 8)
            assert sorted(kept) == sorted([saved, (8, 6)]), kept
            Y.square().sum().backward()
            gradients.append((x.grad, w.grad))
        assert all(torch.equal(a, b) for a, b in zip(*gradients)), gradients
    Y = bt.all_gather_matmul(x, w, keep="shard")
    expect_error(bt.UnsupportedError, "second derivatives", lambda: torch.autograd.grad(
        Y.sum(), w, create_graph=True))
    expect_error(bt.InputError, "'gathered' or 'shard', got 'all'",
                 lambda: bt.all_gather_matmul(x, w, keep="all"))


def part_opcheck(rank, ranks):
    ops = torch.ops.braid
    A, A3 = (real(*shape).float().requires_grad_() for shape in ((4, 8), (3, 4, 8)))
    B, W, b = (real(*shape).float().requires_grad_() for shape in ((8, 6), (6, 8), (6,)))
    place = "0", rank, ranks
    for op, arguments in ((ops.all_gather_matmul,
                           (A, [B, W.t()], [b], 2, "", 0, -1, True, True, "0", ranks)),
                          (ops.all_gather_matmul,
                           (A3, [B], [], 0, "", 1, -1, False, False, "0", ranks)),
                          (ops.matmul_reduce_scatter, (A, B, b, "", "sum", 0, *place)),
                          (ops.matmul_reduce_scatter, (A3, W.t(), None, "", "avg", 1, *place)),
                          (ops.matmul_all_reduce, (A3, B, b, "", "0"))):
        torch.library.opcheck(op.default, arguments)


# -- DTensors. --

def gather_and_scatter(x, weights, biases, dim):
    up, gate, down = (each.t() for each in weights)
    (h, g), whole = bt.all_gather_matmul(x, [up, gate], bias=[biases[0], None], activation="gelu",
                                         gather_dim=dim, return_A=True)
    return bt.matmul_reduce_scatter(h * g, down, bias=biases[1], scatter_dim=dim), whole


def reduce_all(x, weights, biases, dim):
    up, _, down = (each.t() for each in weights)
    h = bt.all_gather_matmul(x, up, bias=biases[0], gather_dim=dim, keep="shard")
    return bt.matmul_all_reduce(h, down, bias=biases[1], activation="silu"),


def on_one_device(step, x, weights, biases):
    up, gate, down = weights
    h = F.linear(x, up, biases[0])
    if step is reduce_all:
        return F.silu(F.linear(h, down, biases[1])),
    return F.linear(F.gelu(h) * F.gelu(F.linear(x, gate)), down, biases[1]), x


def part_dtensors(rank, ranks):
    """Results and gradients of DTensors are those of one device, with the operands' placements."""
    mesh = init_device_mesh("cpu", (ranks,))
    placements = [Shard(0), Shard(0), Shard(1), Shard(0), Replicate()]
    for shape, dim in (((4 * ranks, 8), 0), ((7, 3, 8), 0), ((1, 8), 0), ((2, 7, 8), 1)):
        shapes = (shape, (6 * ranks, 8), (6 * ranks, 8), (8, 6 * ranks), (6 * ranks,), (8,))
        plain = [real(*each).requires_grad_() for each in shapes]
        for step in (gather_and_scatter, reduce_all):
            compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
            for run in (step, compiled)[:1 + (7 in shape)]:  # compiling takes long
                placed = [distribute_tensor(each.detach(), mesh, [where]).requires_grad_()
                          for each, where in zip(plain, [Shard(dim), *placements])]
                expect_same(run(placed[0], placed[1:4], placed[4:], dim),
                            on_one_device(step, plain[0], plain[1:4], plain[4:]), placed, plain)


def expect_same(found, wanted, placed, plain):
    for each in plain:
        each.grad = None
    for outputs in (found, wanted):
        sum(each.square().sum() for each in outputs).backward()
    for each, other in zip(found, wanted):
        torch.testing.assert_close(each.full_tensor(), other)
    for each, other in zip(placed, plain):
        if other.grad is None:
            assert each.grad is None
            continue
        assert each.grad.placements == each.placements, (each.grad.placements, each.placements)
        torch.testing.assert_close(each.grad.full_tensor(), other.grad)


def part_dtensors_placed_wrongly(rank, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    other = dist.new_group(list(range(ranks)))
    X, W, b = draw(2 * ranks, 2 * ranks), draw(2 * ranks, 2 * ranks), draw(2 * ranks)
    rows, columns, whole = (distribute_tensor(X, mesh, [each])
                            for each in (Shard(0), Shard(1), Replicate()))
    sums = DTensor.from_local(X, mesh, [Partial()])
    uneven = distribute_tensor(draw(2 * ranks, 2 * ranks + 1), mesh, [Shard(1)])
    split_bias, whole_bias = (distribute_tensor(b, mesh, [each])
                              for each in (Shard(0), Replicate()))
    square = init_device_mesh("cpu", (1, ranks), mesh_dim_names=("a", "b"))
    on_square = distribute_tensor(X, square, [Replicate(), Shard(0)])
    for words, call in (
            ("expected A to be placed [Shard(dim=0)], got [Shard(dim=1)]: pass the result of "
             "redistribute(placements=[Shard(dim=0)]), or another gather_dim",
             lambda: bt.all_gather_matmul(columns, columns)),
            ("expected A to be placed [Shard(dim=0)], got [Replicate()]",
             lambda: bt.all_gather_matmul(whole, columns)),
            ("expected A to be placed [Shard(dim=1)], got [Partial(sum)]: pass the result of "
             "redistribute(placements=[Shard(dim=1)])", lambda: bt.matmul_all_reduce(sums, rows)),
            ("expected B to be placed [Shard(dim=1)], got [Shard(dim=0)]: pass the result of "
             "redistribute(placements=[Shard(dim=1)]), or weight.t()",
             lambda: bt.all_gather_matmul(rows, rows)),
            ("expected B[1] to be placed [Shard(dim=1)], got [Replicate()]",
             lambda: bt.all_gather_matmul(rows, [columns, whole])),
            ("expected bias[1] to be placed [Shard(dim=0)], got [Replicate()]",
             lambda: bt.all_gather_matmul(rows, [columns] * 2, bias=[None, whole_bias])),
            ("expected bias to be placed [Replicate()], got [Shard(dim=0)]",
             lambda: bt.matmul_reduce_scatter(columns, rows, bias=split_bias)),
            ("got A: DTensor, B: Tensor: convert the others with DTensor.from_local()",
             lambda: bt.matmul_reduce_scatter(columns, W)),
            ("got A: Tensor, B[0]: DTensor, B[1]: Tensor, bias[1]: DTensor",
             lambda: bt.all_gather_matmul(X, [columns, W], bias=[None, split_bias])),
            ("got A: DTensor, B: DTensor, bias: Tensor",
             lambda: bt.matmul_all_reduce(columns, rows, bias=b)),
            ("dimension 1 of B to divide evenly among", lambda: bt.all_gather_matmul(rows, uneven)),
            ("dimension 0 of B to divide evenly among", lambda: bt.matmul_all_reduce(
                uneven, distribute_tensor(draw(2 * ranks + 1, 6), mesh, [Shard(0)]))),
            (f"expected B to have the global shape [{2 * ranks + 1}, {2 * ranks}], got",
             lambda: bt.matmul_all_reduce(uneven, rows)),
            (f"expected rows to be None or {2 * ranks}, the extent of A in dimension 0, got 1",
             lambda: bt.all_gather_matmul(rows, columns, rows=1)),
            ("expected a dimension index, got 'x'",
             lambda: bt.all_gather_matmul(rows, columns, gather_dim="x")),
            ("to be a dimension of A before the last one",
             lambda: bt.matmul_reduce_scatter(columns, rows, scatter_dim=7)),
            ("before the last one, got 1; A has the global shape",
             lambda: bt.all_gather_matmul(columns, columns, gather_dim=1)),
            ("on the same one-dimensional DeviceMesh", lambda: bt.matmul_all_reduce(
                on_square, on_square)),
            ("expected the group of the DTensors' mesh (",
             lambda: bt.matmul_all_reduce(columns, rows, other))):
        expect_error(bt.InputError, words, call)
    expect(bt.matmul_all_reduce(columns, rows, mesh).full_tensor(), X @ X)
    Y = bt.all_gather_matmul(rows, columns, gather_dim=-2, rows=2 * ranks, bias=split_bias)
    expect(Y.full_tensor(), X @ X + b)


# -- Compilation. --

def part_compiled(rank, ranks):
    """Inductor compiles whole graphs. M is compiled once for all divisible sizes."""
    W, V = real(6, 8).float(), real(8, 6).float()

    def step(x):
        h = bt.all_gather_matmul(x, W.t(), activation="relu")
        return bt.matmul_reduce_scatter(h, V.t()).sin()

    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        from torch._inductor.compile_fx import compile_fx
        return compile_fx(graph, examples)
    compiled = torch.compile(step, backend=backend, fullgraph=True, dynamic=True)
    for rows in (2, 4, 64, 2048):
        X = real(rows * ranks, 8).float()
        found = compiled(mine(X, rank, ranks))
        wanted = (ranks * (F.relu(X @ W.t()) @ V.t())).sin()
        torch.testing.assert_close(found, mine(wanted, rank, ranks), rtol=1e-3, atol=2e-3)
    assert len(graphs) == 1, len(graphs)


class Column(torch.autograd.Function):
    """An autograd function with a hand-written backward pass."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return bt.all_gather_matmul(x, w.t())

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        whole = bt.all_gather_matmul(x, w.t(), return_A=True)[1]
        return bt.matmul_reduce_scatter(dy, w), bt.matmul_all_reduce(dy.t(), whole)


def part_compiled_in_a_backward(rank, ranks):
    x, w = real(4, 8), real(6, 8)
    grads = []
    for call in (Column.apply, torch.compile(Column.apply, fullgraph=True, backend="aot_eager")):
        inputs = [each.clone().requires_grad_() for each in (x, w)]
        call(*inputs).square().sum().backward()
        grads.append([each.grad for each in inputs])
    for eager, compiled in zip(*grads):
        torch.testing.assert_close(compiled, eager)


def part_compiled_without_rows(rank, ranks):
    """A rank without rows does not use its results but must make the same calls."""
    W, x = real(8, 6).float(), real(1, 8).float()

    def step(x, w, v):
        y = bt.matmul_reduce_scatter(x, w).sin()
        return bt.all_gather_matmul(y.relu(), v, rows=1)
    v = real(6, 8).float()
    found = torch.compile(step, fullgraph=True)(x, W, v)
    torch.testing.assert_close(found, (ranks * x @ W).sin().relu() @ v)
    own = mine(x, rank, ranks).clone().requires_grad_()
    w = W.clone().requires_grad_()
    loss = torch.compile(lambda a, w: bt.all_gather_matmul(a.sin(), w, rows=1).sum(),
                         fullgraph=True)
    loss(own, w).backward()
    x.requires_grad_()
    (x.sin() @ W).sum().backward()
    torch.testing.assert_close(own.grad, ranks * mine(x.grad, rank, ranks))


def part_compiled_in_order(rank, ranks):
    """Shapes differ between ranks, so a compiler may move calls into a different order on each
    rank. Calls that look the same would then be matched incorrectly."""
    X, Y, W1, W2 = draw(33, 8), draw(5, 8), draw(8, 64), draw(8, 4)
    y = Y.chunk(ranks)[rank]

    def step(x, y):
        a, b = bt.matmul_reduce_scatter(x, W1), bt.all_gather_matmul(y, W2, rows=5)
        c, d = bt.matmul_reduce_scatter(x.sin(), W1), bt.all_gather_matmul(y.cos(), W2, rows=5)
        return (a * c).sum(), b - 2 * d
    _, found = torch.compile(step, fullgraph=True)(X, y)
    torch.testing.assert_close(found, Y @ W2 - 2 * (Y.cos() @ W2))


def part_compiled_for_any_place(rank, ranks):
    """Compiled graphs are cached for all ranks, and for runs with different numbers of ranks."""
    W, X = real(8, 6).float(), real(5, 8).float()
    found = torch.compile(lambda x, w: bt.matmul_reduce_scatter(x, w).relu(), fullgraph=True,
                          dynamic=True)(X, W)
    torch.testing.assert_close(found, mine((ranks * X @ W).relu(), rank, ranks))
    X = real(2 * ranks, 8).float()
    found = torch.compile(lambda x, w: bt.all_gather_matmul(x, w).relu(),
                          fullgraph=True)(mine(X, rank, ranks), W)
    torch.testing.assert_close(found, (X @ W).relu())


# -- Lazy tensor flags, missing derivatives, and writing into results. --

def part_unusual_tensors(rank, ranks):
    A, B = draw(4, 8), draw(8, 6)
    expect(bt.matmul_all_reduce(A, torch._neg_view(B)), -ranks * A @ B)
    expect(bt.matmul_all_reduce(A, torch._efficientzerotensor((8, 6))), torch.zeros(4, 6))
    bt.all_gather_matmul(A, B, bias=B[0])
    assert bt.all_gather_matmul(A.to("meta"), B.to("meta")).shape == (4 * ranks, 6)
    for words, call in (("%W", lambda: bt.all_gather_matmul(A, B.to("meta"), bias=B[0])),
                        ("%b", lambda: bt.all_gather_matmul(A, B, bias=B[0].to("meta"))),
                        ("%A", lambda: bt.all_gather_matmul(A.to("meta"), B, bias=B[0])),
                        ("not a member", lambda: bt.matmul_all_reduce(
                            A, B, dist.GroupMember.NON_GROUP_MEMBER)),
                        ("a ProcessGroup", lambda: bt.matmul_all_reduce(A, B, 3)),
                        ("B is a single tensor", lambda: bt.all_gather_matmul(A, B, bias=[B[0]])),
                        ("rows to be None or at least 0", lambda: bt.all_gather_matmul(
                            A, B, rows=-7))):
        expect_error(bt.InputError, words, call)
    expect_error(bt.UnsupportedError, "forward-mode", lambda: torch.func.jvp(
        lambda a: bt.matmul_all_reduce(a, B), (A,), (torch.ones_like(A),)))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(A, torch.ones_like(A))
        expect_error(bt.UnsupportedError, "tangent", lambda: bt.matmul_all_reduce(dual, B))
    a = A.clone().requires_grad_()
    loss = bt.matmul_all_reduce(a, B).pow(3).sum()
    first, = torch.autograd.grad(loss, a, create_graph=True)
    expect_error(RuntimeError, "differentiate twice", lambda: first.square().sum().backward())


def part_arrays(rank, ranks):
    """The package below the operators accepts tensors in any layout."""
    f = braid.Fusion("product")
    f.mesh(1)
    f.output(f.matmul("C", f.input("A", "f32", [2, 3]), f.input("B", "f32", [3, 2]), "f32", [2, 2]))
    A, B, C = draw(2, 3), draw(3, 2), torch.empty(2, 2)
    with braid.create(ranks=1) as job:
        op = job.prepare(braid.compile(f))
        w = torch.ones(2, 2, requires_grad=True)
        loss = (w * C).sum()
        expect(op(A, B, out=C), A @ B)
        expect_error(RuntimeError, "modified by an inplace operation", loss.backward)
        expect_error(braid.InputError, "pending negation", lambda: op(torch._neg_view(A), B))
        expect_error(braid.InputError, "on meta", lambda: op(A.to("meta"), B))


def part_results_may_be_written(rank, ranks):
    for shape, dim, rows in (((2, 1, 8), 0, None), ((2, 4, 8), 1, None), ((3 - rank, 2, 8), 0, 5)):
        x, B = torch.ones(*shape, requires_grad=True), draw(8, 6)
        y = bt.all_gather_matmul(x, B, gather_dim=dim, rows=rows)
        torch.relu_(y).sum().backward()
        assert x.grad.shape == x.shape
        with torch.no_grad():
            y = bt.all_gather_matmul(x, B, gather_dim=dim, rows=rows)
        y.add_(torch.ones(6, requires_grad=True)).sum().backward()


def part_threads(rank, ranks):
    """Each of two threads uses one group. The order of their calls differs between ranks."""
    import threading
    import time
    groups = [dist.new_group(list(range(ranks))) for _ in range(2)]
    A, B = draw(4, 8), draw(8, 6)
    for group in groups:
        bt.all_gather_matmul(A, B, group)
    dist.barrier()

    def call(number):
        time.sleep(0.5 * (number if rank == 0 else 1 - number))
        for _ in range(3):
            bt.all_gather_matmul(A, B, groups[number])
    threads = [threading.Thread(target=call, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def part_threads_meet(rank, ranks):
    """Like part_threads(), but with new groups, which connect through one store."""
    import datetime
    import threading
    port = dist.FileStore(os.environ["TEST_STORE"] + "port", ranks)
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, ranks, True, wait_for_workers=False)
        port.set("port", str(store.port))
    else:
        store = dist.TCPStore("127.0.0.1", int(port.get("port")), ranks, False)
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    groups = [dist.new_group(list(range(ranks)), timeout=datetime.timedelta(seconds=40))
              for _ in range(2)]
    A, B, results = draw(4, 8), draw(8, 6), {}
    dist.barrier()

    def call(number):
        results[number] = bt.all_gather_matmul(mine(A, rank, ranks), B, groups[number])
    first, second = (threading.Thread(target=call, args=(each,)) for each in (rank, 1 - rank))
    first.start()
    first.join(1)  # does not end within a second, because the peer starts its other thread first
    second.start()
    first.join()
    second.join()
    for number in range(2):
        expect(results[number], A @ B)
    dist.barrier()


# -- Schedules, memory, reports. --

def part_prepares(rank, ranks):
    X, B = draw(8 * ranks, 8), draw(8, 6)
    A = mine(X, rank, ranks)
    schedule = bt.prepare(bt.all_gather_matmul, A, B, seconds=0.2)
    expect(bt.all_gather_matmul(A, B), X @ B)
    found = [each for each in bt.report().calls if each.calls]
    assert [(each.operator, each.schedule, each.calls) for each in found] == [
        ("all_gather_matmul", schedule, 1)], found
    X = draw(12 * ranks, 8)
    expect(bt.all_gather_matmul(mine(X, rank, ranks), B), X @ B)
    assert bt.report().calls[-1].schedule == schedule, "a shape nearby starts with that"
    assert "all_gather_matmul" in str(bt.report())
    bt.prepare(bt.matmul_reduce_scatter, X, B, seconds=0.2)
    bt.prepare(bt.matmul_all_reduce, X, B, bias=draw(6), seconds=0.2)
    measured = bt.prepare_all(seconds=0.1)
    assert len(measured) == 1 and measured[0].startswith("all_gather_matmul f32"), measured
    assert bt.prepare_all() == [], "everything has been measured"
    expect(bt.all_gather_matmul(mine(X, rank, ranks), B), X @ B)
    W = draw(8, 6).requires_grad_()  # a call keeps A and applies the activation after the kernel
    schedule = bt.prepare(bt.all_gather_matmul, A, W, activation="relu", seconds=0.2)
    before = bt.report().calls
    bt.all_gather_matmul(A, W, activation="relu")
    after = bt.report().calls
    assert len(after) == len(before), "the call has what was prepared"
    used, = [each for each in after if each not in before]
    assert used.schedule == schedule, (used, schedule)
    expect_error(bt.InputError, "expected an activation", lambda: bt.prepare(
        bt.all_gather_matmul, A, W, activation="tan"))
    expect_error(bt.InputError, "expected one of all_gather", lambda: bt.prepare(print, A, B))
    expect_error(bt.InputError, "expected a non-negative number of seconds",
                 lambda: bt.prepare(bt.matmul_all_reduce, X, B, seconds=-1))
    expect(bt.matmul_all_reduce(X, B), ranks * X @ B)  # the group still works
    bt.synchronize()


def part_bounds_memory(rank, ranks):
    B, bound = draw(256, 6), 384 << 10
    bt.set_memory_bound(bound)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for turn in range(3):
            assert (turn < 2) or not warned, "twice may be chance"
            for rows in (16, 32, 64, 128):
                X = draw(rows * ranks, 256)
                expect(bt.all_gather_matmul(mine(X, rank, ranks), B), X @ B)
                assert bt.memory().bytes <= bound, bt.memory()
    assert "is being prepared repeatedly" in str(warned[0].message), warned
    assert bt.memory().operators < 4
    calls = [each.calls for each in bt.report().calls]
    assert sum(calls) == 12, "those that are gone count, too"
    bt.set_memory_bound(0)
    for rows in (16, 32, 64, 128):
        X = draw(rows * ranks, 256)
        expect(bt.all_gather_matmul(mine(X, rank, ranks), B), X @ B)
    assert bt.memory().operators == 4


def shared_kilobytes():
    """Returns this process's shared memory according to the kernel, including peers' memory."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssShmem"))


def part_bounds_memory_of_all_lengths(rank, ranks):
    """Even if the number of rows varies between calls, as the number of tokens does, the memory use
    that memory() and the kernel report stays within the bound. During preparation, one operator may
    exceed the bound."""
    import random
    B, bound = draw(256, 6), 2 << 20
    bt.set_memory_bound(bound)
    warnings.simplefilter("ignore")
    begin = shared_kilobytes()
    lengths = list(range(8, 720, 24))
    shuffled = random.Random(0).sample(lengths, len(lengths))
    for order in (lengths, lengths[::-1], shuffled):
        for rows in order:
            A = torch.ones(rows, 256)
            Y = bt.all_gather_matmul(A, B)
            expect(Y[:rows], A @ B)
            assert bt.memory().bytes <= bound, (rows, bt.memory())
            used = shared_kilobytes() - begin
            assert used <= ranks * bound >> 10, (rows, used)
    assert bt.memory().operators > 1


def part_new_shapes_cost_the_same(rank, ranks):
    """The cost of a new shape does not depend on the number of earlier shapes. The test counts
    function calls instead of measuring time."""
    B, counts = draw(8, 6), []

    def count(frame, event, argument):
        counts[-1] += event in ("call", "c_call")
    for rows in range(1, 80):
        A = torch.ones(rows, 8)
        counts.append(0)
        sys.setprofile(count)
        bt.all_gather_matmul(A, B)
        sys.setprofile(None)
    assert max(counts[70:]) <= max(counts[5:15]) + 10, counts


def part_many_shapes(rank, ranks):
    """Uses so many shapes that a rank cannot export a mapping for each. Prepares each one once."""
    B = draw(8, 6)
    for rows in range(1, 400):
        X = draw(rows * ranks, 8)
        expect(bt.all_gather_matmul(mine(X, rank, ranks), B), X @ B)
    assert bt.memory().operators == 399


def part_lets_go_alike(rank, ranks):
    """Uneven rows need less memory on the last rank, but all ranks evict the same operators."""
    B = draw(8, 600)
    bt.set_memory_bound(170 << 10)
    for _ in range(2):
        for rows in (5, 21, 35, 5):
            A = draw(rows, 8)
            expect(bt.matmul_reduce_scatter(A, B), mine(ranks * A @ B, rank, ranks))
    assert bt.memory().operators < 3, bt.memory()


# -- Errors and groups. --

def part_mistakes(rank, ranks):
    A, B = draw(4, 8), draw(8, 6)
    split = DTensor.from_local(A, init_device_mesh("cpu", (ranks,)), [Shard(0)])
    for words, call in (
            ("expected B to have shape [8, N]", lambda: bt.all_gather_matmul(A, draw(7, 6))),
            ("to be a dimension of A before the last one (1), got 1;",
             lambda: bt.all_gather_matmul(A, B, gather_dim=1)),
            ("to have the same type and device", lambda: bt.all_gather_matmul(A, B.double())),
            ("got torch.int64", lambda: bt.matmul_all_reduce(A.long(), B.long())),
            ("expected an activation (relu", lambda: bt.matmul_all_reduce(A, B, activation="tanh")),
            ("expected the bias to have shape [6]",
             lambda: bt.matmul_all_reduce(A, B, bias=draw(5))),
            ("sum or avg", lambda: bt.matmul_reduce_scatter(A, B, reduce_op="max")),
            ("(split like torch.chunk)", lambda: bt.all_gather_matmul(A, B, rows=100)),
            ("all extents must be at least 1", lambda: bt.matmul_all_reduce(A[:, :0], B[:0])),
            ("all extents must be at least 1", lambda: bt.all_gather_matmul(A, [B, B[:, :0]])),
            ("nonempty results", lambda: bt.prepare(bt.matmul_all_reduce, A[:0], B)),
            ("rows to be None or at least 0", lambda: bt.all_gather_matmul(A, B, rows=-1)),
            ("(split like torch.chunk)", lambda: bt.all_gather_matmul(A, B, rows=0)),
            ("activation: expected a str, got 5", lambda: bt.matmul_all_reduce(A, B, activation=5)),
            ("reduce_op: expected a str, got 3", lambda: bt.matmul_reduce_scatter(
                A, B, reduce_op=3)),
            ("expected a non-negative number of seconds, got 'x'", lambda: bt.prepare(
                bt.matmul_all_reduce, A, B, seconds="x")),
            ("expected tensors, got list", lambda: bt.prepare(bt.matmul_all_reduce, [A], B)),
            ("expected tensors, got int", lambda: bt.prepare(bt.matmul_all_reduce, A, 5)),
            ("expected a dimension index", lambda: bt.prepare(bt.all_gather_matmul, A, B,
                                                        gather_dim="x")),
            ("a DTensor: pass the result of to_local()", lambda: bt.prepare(
                bt.matmul_all_reduce, split, split)),
            ("a DTensor: pass the result of to_local()", lambda: torch.ops.braid.matmul_all_reduce(
                split, split, None, "", "0")),
            ("got 4.0", lambda: bt.all_gather_matmul(A, B, rows=4.0)),
            ("expected tensors, got list", lambda: bt.all_gather_matmul([A], B)),
            ("expected tensors, got ndarray", lambda: bt.all_gather_matmul(A, [B.numpy()])),
            ("a list of tensors, got NoneType", lambda: bt.all_gather_matmul(A, None)),
            ("expected tensors, got NoneType", lambda: bt.matmul_all_reduce(A, None)),
            ("got a torch.sparse_coo tensor", lambda: bt.matmul_all_reduce(A.to_sparse(), B)),
            ("dimension index, got 0.0", lambda: bt.all_gather_matmul(A, B, gather_dim=0.0)),
            ("got 'x'", lambda: bt.matmul_reduce_scatter(A, B, scatter_dim="x")),
            ("a non-negative number of bytes, got 1.5", lambda: bt.set_memory_bound(1.5)),
            ("got 'avg'", lambda: bt.matmul_reduce_scatter(
                A.clone().requires_grad_(), B, reduce_op="avg", activation="relu")),
            ("one bias for each bit", lambda: torch.ops.braid.all_gather_matmul(
                A, [B], [draw(6)], 0, "", 0, -1, False, False,
                dist.group.WORLD.group_name, ranks)),
            ("sum or avg", lambda: bt.prepare(bt.matmul_reduce_scatter, A, B, reduce_op="max")),
            ("the process group 'nobody'", lambda: bt.matmul_all_reduce(A, B, "nobody")),
            ("a bias or None for each", lambda: bt.all_gather_matmul(A, [B, B], bias=[None]))):
        expect_error(bt.InputError, words, call)
    expect(bt.matmul_all_reduce(A, B), ranks * A @ B)
    traced = torch.jit.trace(lambda a: bt.matmul_all_reduce(a, B), (A,), check_trace=False)
    expect(traced(A + 1), ranks * (A + 1) @ B)
    # If ranks call with different shapes, the message names them and the group's operators end.
    kept = []
    for _ in range(2):
        X = draw(5 + rank, 8)
        kept.append(weakref.ref(X))
        expect_error(bt.PeerError, f"rank {ranks - 1}, line 1: fusion @matmul_all_reduce_f32_"
                     f"{4 + ranks}x6x8", lambda: bt.matmul_all_reduce(X, B))
    del X
    gc.collect()
    assert not any(each() is not None for each in kept), "the error keeps no tensors"


def part_groups(rank, ranks):
    """Uses overlapping groups of two ranks, and the default group, at the same time."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    group, place = pairs[rank // 2], rank % 2
    alone = dist.new_group([0, 3])
    for _ in range(3):
        X, B = draw(8, 8), draw(8, 6)
        expect(bt.all_gather_matmul(mine(X, place, 2), B, group), X @ B)
        expect(bt.all_gather_matmul(mine(X, rank, 4), B), X @ B)
        if rank in (0, 3):
            expect(bt.all_gather_matmul(mine(X, rank // 3, 2), B, alone), X @ B)
    assert len({each.group for each in bt.report().calls}) == (3 if rank in (0, 3) else 2)
    dist.barrier()
    held = bt.memory().operators
    if rank in (0, 3):
        dist.destroy_process_group(alone)
        del alone
        assert bt.memory().operators == held - 1
    X = draw(8, 8)
    expect(bt.all_gather_matmul(mine(X, place, 2), B, group), X @ B)


def part_group_again(rank, ranks):
    """A default group that is destroyed and created again has a new job."""
    for turn in range(3):
        if turn:
            processes.again(dist, rank, ranks, str(turn))
        X, B = draw(8 * ranks, 8), draw(8, 6)
        expect(bt.all_gather_matmul(mine(X, rank, ranks), B), X @ B)
        dist.barrier()
        dist.destroy_process_group()
        expect_error(bt.InputError, "init_process_group", lambda: bt.matmul_all_reduce(X, B))


class Import(unittest.TestCase):
    def test_needs_no_compiler(self):
        """The compiler takes longer to import than PyTorch, so it is imported only when needed."""
        script = ("import sys, torch, torch.distributed\nbefore = set(sys.modules)\n"
                  "import braid.torch\n"
                  "new = {name.split('.')[0] + '.' + name.partition('.')[2].split('.')[0]\n"
                  "       for name in set(sys.modules) - before}\n"
                  "assert not new & {'torch._dynamo', 'torch._inductor', 'torch._export', "
                  "'sympy.', 'torch.onnx'}, new\n"
                  "braid.torch.disable()\n"
                  "assert 'torch._dynamo' not in sys.modules\n")
        done = subprocess.run([sys.executable, "-c", script], check=False, text=True,
                              env=dict(os.environ, PYTHONPATH=FOLDER), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)


class Ranks(unittest.TestCase):
    def expect(self, part, ranks=2, limit=200, **environment):
        codes, said, _ = processes.run(part, ranks, limit, **environment)
        self.assertEqual(codes, [0] * ranks, "\n".join(said)[-6000:])

    def test_prepares(self):
        with tempfile.TemporaryDirectory() as cache:
            self.expect("prepares", BRAID_CACHE_DIR=cache)

    def test_compiled_for_any_place(self):
        with tempfile.TemporaryDirectory() as cache:
            for ranks in (2, 3):
                self.expect("compiled_for_any_place", ranks, TORCHINDUCTOR_CACHE_DIR=cache)


for _part, _ranks in (("exact", 2), ("exact", 3), ("shapes", 2), ("shapes", 4), ("autocast", 2),
                      ("gradients", 2), ("gradients", 3), ("gradients_beside", 2),
                      ("gradients_beside", 3), ("column", 2), ("column", 3),
                      ("gradients_of_what_is_gathered", 2),
                      ("opcheck", 2), ("compiled", 2),
                      ("bounds_memory", 2), ("mistakes", 2), ("groups", 4), ("group_again", 2),
                      ("exact", 1), ("compiled_without_rows", 2), ("compiled_in_order", 2),
                      ("unusual_tensors", 2),
                       ("results_may_be_written", 2), ("threads", 2), ("threads_meet", 2),
                       ("many_shapes", 2), ("bounds_memory_of_all_lengths", 2),
                       ("new_shapes_cost_the_same", 2),
                       ("lets_go_alike", 4), ("arrays", 1), ("keeps_what_gradients_need", 2),
                       ("keeps_shards", 2), ("dtensors", 2), ("dtensors", 3),
                       ("dtensors_placed_wrongly", 2),
                       ("gradients_are_contiguous", 2),
                       ("second_derivatives", 2), ("gradients_need_no_dispatcher", 1),
                       ("empty", 2), ("compiled_in_a_backward", 2)):
    def _test(self, part=_part, ranks=_ranks):
        self.expect(part, ranks)
    setattr(Ranks, f"test_{_part}_{_ranks}", _test)


if __name__ == "__main__":
    processes.main(globals(), torch)
