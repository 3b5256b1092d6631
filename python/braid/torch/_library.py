"""The operators as PyTorch knows them: schemas, fake kernels, gradients, autocast.

`torch.ops.braid` has them. The kernels are this package's own, in Python: what they call is one
function of the shared library, which needs nothing of PyTorch's ABI.
"""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch.autograd.function import once_differentiable
from torch.fx.node import has_side_effect

from braid._errors import InputError
from braid.torch import _operations
from braid.torch._group import place_of

Tensor = torch.Tensor

torch_library: Any = torch.library
_library = torch_library.Library("braid", "DEF")
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
# What shapes of results depend on is an argument, since caches of compiled graphs, which ranks and
# runs share, go by arguments: of the group that is named, its size and this rank.
_SCHEMAS = {
    "all_gather_matmul":
        "(Tensor A, Tensor[] Bs, Tensor[] biases, int biased, str activation, int gather_dim, "
        "SymInt rows, bool return_A, str group_name, int ranks) -> Tensor[]",
    "matmul_reduce_scatter":
        "(Tensor A, Tensor B, Tensor? bias, str activation, str reduce_op, int scatter_dim, "
        "str group_name, int rank, int ranks) -> Tensor",
    "matmul_all_reduce":
        "(Tensor A, Tensor B, Tensor? bias, str activation, str group_name) -> Tensor",
}
for _name, _schema in _SCHEMAS.items():
    _library.define(_name + _schema, tags=_TAGS)
    # Every rank calls, also one whose rows are so few that nobody needs its result.
    has_side_effect(getattr(torch.ops.braid, _name).default)
    # Nor does a compiler change their order, on each rank by its own shapes.
    torch_library._register_effectful_op(f"braid::{_name}", torch_library.EffectType.ORDERED)
    for _device in ("CPU", "CUDA"):
        _library.impl(_name, getattr(_operations, _name), _device)


# -- What comes out, by shapes alone. --

def _by_rows(A: Tensor, rows: Any, dim: int, columns: Any) -> Tensor:
    """A tensor whose rows lie together, as the kernels make it."""
    others = [*A.shape[:dim], *A.shape[dim + 1:-1]]
    return A.new_empty([rows, *others, columns]).movedim(0, dim)


def _fake_all_gather_matmul(A: Tensor, Bs: Sequence[Tensor], biases: Any, biased: int,
                            activation: str, gather_dim: int, rows: Any, return_A: bool,
                            group_name: str, ranks: int) -> List[Tensor]:
    dim = gather_dim % A.dim()
    count = A.shape[dim] * ranks if rows < 0 else rows
    widths = [B.shape[1] for B in Bs] + ([A.shape[-1]] if return_A else [])
    return [_by_rows(A, count, dim, width) for width in widths]


def _fake_matmul_reduce_scatter(A: Tensor, B: Tensor, bias: Any, activation: str, reduce_op: str,
                                scatter_dim: int, group_name: str, rank: int,
                                ranks: int) -> Tensor:
    dim = scatter_dim % A.dim()
    count = A.shape[dim]
    if count % ranks == 0:
        return _by_rows(A, count // ranks, dim, B.shape[1])
    block = (count + ranks - 1) // ranks
    mine = torch.sym_max(0, torch.sym_min(block, count - rank * block))
    return _by_rows(A, mine, dim, B.shape[1])


def _fake_matmul_all_reduce(A: Tensor, B: Tensor, bias: Any, activation: str,
                            group_name: str) -> Tensor:
    return A.new_empty([*A.shape[:-1], B.shape[1]])


for _name, _fake in (("all_gather_matmul", _fake_all_gather_matmul),
                     ("matmul_reduce_scatter", _fake_matmul_reduce_scatter),
                     ("matmul_all_reduce", _fake_matmul_all_reduce)):
    torch_library.register_fake(f"braid::{_name}", _fake, lib=_library)


# -- Gradients: the backward of one is another. --

ops = torch.ops.braid
_c10d: Any = torch.ops._c10d_functional


def _expect_no(activation: str) -> None:
    if activation:
        raise InputError("expected no activation where gradients are asked for: apply it to the "
                         "result, as the functions of braid.torch do")


def _flat(tensor: Tensor, dim: int = 0) -> Tensor:
    """All rows, as a matrix, in the order in which those of `dim` come first."""
    return tensor.movedim(dim, 0).flatten(0, -2)


def _sum_of_rows(tensor: Tensor) -> Tensor:
    return tensor.flatten(0, -2).sum(0)


def _gather_setup(ctx: Any, inputs: Any, output: Any) -> None:
    A, Bs, _, biased, activation, gather_dim, rows, return_A, group_name, ranks = inputs
    _expect_no(activation)
    ctx.set_materialize_grads(False)  # of a gathered A that is only kept
    ctx.dim, ctx.group_name, ctx.ranks = gather_dim % A.dim(), group_name, ranks
    ctx.rows, ctx.returns_A, ctx.biased = rows, return_A, biased
    ctx.mine = A.shape[ctx.dim]
    needs_A, needs_Bs = _needs_of_gather(ctx, len(Bs))
    whole = (output[-1] if return_A else A) if any(needs_Bs) else None
    ctx.save_for_backward(whole, *(B if needs_A else None for B in Bs))


def _needs_of_gather(ctx: Any, count: int) -> Tuple[bool, List[bool]]:
    """Whether gradients of A, and of each B, are asked for. PyTorch lists all tensors of a forward
    one after the other, and gives a backward lists for lists."""
    flags = ctx.needs_input_grad
    return flags[0], list(flags[1] if isinstance(flags[1], (list, tuple)) else flags[1:1 + count])


def _padded(rows_first: Tensor, count: Any) -> Tensor:
    """Contiguous, with rows of zeros behind."""
    missing = count - rows_first.shape[0]
    if missing == 0:
        return rows_first.contiguous()
    return torch.cat([rows_first, rows_first.new_zeros([missing, *rows_first.shape[1:]])])


def _gathered(A: Tensor, dim: int, rows: Any, group_name: str, ranks: int) -> Tensor:
    count = A.shape[dim] * ranks if rows < 0 else rows
    mine = _padded(A.movedim(dim, 0), (count + ranks - 1) // ranks)
    whole: Tensor = _c10d.wait_tensor(_c10d.all_gather_into_tensor(mine, ranks, group_name))
    return whole.narrow(0, 0, count).movedim(0, dim)


def _scattered(G: Tensor, dim: int, count: Any, group_name: str, ranks: int) -> Tensor:
    """The sum over ranks, of this rank's rows, which are so many."""
    block = (G.shape[dim] + ranks - 1) // ranks
    whole = _padded(G.movedim(dim, 0), block * ranks)
    mine: Tensor = _c10d.wait_tensor(_c10d.reduce_scatter_tensor(whole, "sum", ranks, group_name))
    return mine.narrow(0, 0, count).movedim(0, dim)


def _gather_backward(ctx: Any, grads: Sequence[Optional[Tensor]]) -> Any:
    A, *Bs = ctx.saved_tensors
    needs_A, needs_Bs = _needs_of_gather(ctx, len(Bs))
    dA: Optional[Tensor] = None
    for B, dY in zip(Bs, grads):
        if needs_A and dY is not None:
            rank = place_of(ctx.group_name)[0]
            part = ops.matmul_reduce_scatter(dY, B.t(), None, "", "sum", ctx.dim, ctx.group_name,
                                             rank, ctx.ranks)
            dA = part if dA is None else dA + part
    dG = grads[len(Bs)] if ctx.returns_A else None
    if needs_A and dG is not None:
        part = _scattered(dG, ctx.dim, ctx.mine, ctx.group_name, ctx.ranks)
        dA = part if dA is None else dA + part
    dBs: List[Optional[Tensor]] = [None] * len(Bs)
    if any(needs_Bs):
        whole = A if ctx.returns_A else _gathered(A, ctx.dim, ctx.rows, ctx.group_name, ctx.ranks)
        flat = _flat(whole, ctx.dim).t()
        for i, dY in enumerate(grads[:len(Bs)]):
            if needs_Bs[i] and dY is not None:
                dBs[i] = flat @ _flat(dY, ctx.dim)
    dbiases = [None if dY is None else _sum_of_rows(dY)
               for i, dY in enumerate(grads) if ctx.biased >> i & 1]
    return dA, dBs, dbiases, None, None, None, None, None, None, None


def _save_operands(ctx: Any, A: Tensor, B: Tensor) -> None:
    """Of a product, what the gradient of the other one takes."""
    needs_A, needs_B = ctx.needs_input_grad[:2]
    ctx.save_for_backward(A if needs_B else None, B if needs_A else None)


def _scatter_setup(ctx: Any, inputs: Any, output: Any) -> None:
    A, B, bias, activation, reduce_op, scatter_dim, group_name, _, ranks = inputs
    _expect_no(activation)
    ctx.dim, ctx.group_name, ctx.ranks = scatter_dim % A.dim(), group_name, ranks
    ctx.is_mean, ctx.has_bias, ctx.rows = reduce_op == "avg", bias is not None, A.shape[ctx.dim]
    _save_operands(ctx, A, B)


def _scatter_backward(ctx: Any, dY: Tensor) -> Any:
    A, B = ctx.saved_tensors
    needs_A, needs_B = ctx.needs_input_grad[:2]
    if ctx.is_mean:
        dY = dY / ctx.ranks
    needs_all, dA = needs_B or ctx.has_bias, None
    if needs_A:
        dA, *more = ops.all_gather_matmul(dY, [B.t()], [], 0, "", ctx.dim, ctx.rows, needs_all,
                                          ctx.group_name, ctx.ranks)
        whole = more[0] if more else None
    elif needs_all:
        whole = _gathered(dY, ctx.dim, ctx.rows, ctx.group_name, ctx.ranks)
    dB = _flat(A, ctx.dim).t() @ _flat(whole, ctx.dim) if needs_B else None
    dbias = _sum_of_rows(whole) if ctx.has_bias else None
    return dA, dB, dbias, None, None, None, None, None, None


def _all_reduce_setup(ctx: Any, inputs: Any, output: Any) -> None:
    A, B, bias, activation, _ = inputs
    _expect_no(activation)
    ctx.has_bias = bias is not None
    _save_operands(ctx, A, B)


@once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
def _all_reduce_backward(ctx: Any, dY: Tensor) -> Any:
    """Every rank has all of dY, and the same; of a second derivative's that would not be true."""
    A, B = ctx.saved_tensors
    needs_A, needs_B = ctx.needs_input_grad[:2]
    dA = dY @ B.t() if needs_A else None
    dB = A.flatten(0, -2).t() @ dY.flatten(0, -2) if needs_B else None
    return dA, dB, _sum_of_rows(dY) if ctx.has_bias else None, None, None


for _name, _backward, _setup in (
        ("all_gather_matmul", _gather_backward, _gather_setup),
        ("matmul_reduce_scatter", _scatter_backward, _scatter_setup),
        ("matmul_all_reduce", _all_reduce_backward, _all_reduce_setup)):
    torch.library.register_autograd(f"braid::{_name}", _backward, setup_context=_setup,
                                    lib=_library)


# -- Autocast: everything in its type, as PyTorch's own GEMMs. --

def _cast(value: Any, device: str, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        is_eligible = (value.is_floating_point() and value.device.type == device and
                       value.dtype is not torch.float64)
        return value.to(dtype) if is_eligible else value
    if isinstance(value, (list, tuple)):
        return [_cast(each, device, dtype) for each in value]
    if isinstance(value, dict):
        return {key: _cast(each, device, dtype) for key, each in value.items()}
    return value


def autocast(value: Any, device: str) -> Any:
    """`value` with the tensors in it as autocast has them on that kind of device."""
    return _cast(value, device, torch.get_autocast_dtype(device))


def _autocast(name: str, device: str, key: torch.DispatchKey) -> Any:
    keys = torch._C.DispatchKeySet(key)

    def kernel(*arguments: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return getattr(ops, name)(*autocast(arguments, device))
    return kernel


for _name in _SCHEMAS:
    for _device, _key in (("cpu", torch.DispatchKey.AutocastCPU),
                          ("cuda", torch.DispatchKey.AutocastCUDA)):
        _library.impl(_name, _autocast(_name, _device, _key), _key.name)
