"""Backward passes on GPUs whose transfers are hidden by the GEMMs of weights' gradients."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from braid.torch._transfer import ALL_REDUCE, beside, is_hidden

Tensor = torch.Tensor


def flat(tensor: Tensor, dim: int = 0) -> Tensor:
    """Returns a matrix: moves `dim` to the front, then flattens all axes but the last."""
    return tensor.movedim(dim, 0).flatten(0, -2)


def is_transposed(B: Tensor) -> bool:
    """Returns True if B is the transpose of a contiguous tensor, such as a Linear's weight."""
    return bool(B.stride(0) == 1 and not B.is_contiguous())


def product(A: Tensor, dY: Tensor, transposes: bool) -> Tensor:
    """Returns A.t() @ dY, the gradient of a B. If `transposes`, the result has the layout of a
    transposed B. Autograd would otherwise copy it before it adds it to the weight's gradient."""
    return (dY.t() @ A).t() if transposes else A.t() @ dY


def gather_gradients(ctx: Any, kept: Tensor, Bs: Sequence[Tensor],
                     dYs: Sequence[Tensor]) -> Optional[Tuple[Tensor, List[Tensor]]]:
    """Returns the gradients of all_gather_matmul()'s A and Bs, or None if the GEMMs are too short
    to hide a transfer. ctx: its autograd context. kept: A if ctx.keeps_shard, or the gathered A.

    First computes the whole gradient of the gathered A, during which A is gathered, if it was not
    kept. Then computes the gradients of the Bs, during which A's gradient is reduce-scattered.
    """
    matrices, A, columns = [flat(dY, ctx.dim) for dY in dYs], flat(kept, ctx.dim), kept.shape[-1]
    rows, whole = dYs[0].shape[ctx.dim], (matrices[0].shape[0], columns)
    operations = sum(2 * whole[0] * columns * dY.shape[1] for dY in matrices)
    if rows % ctx.ranks or not is_hidden(["reduce_scatter"], whole, A, ctx.ranks, operations):
        return None
    terms = [B.t() for B in Bs]
    if ctx.keeps_shard:
        A, products = beside(["all_gather"], A, ctx.name, matrices, terms)
    else:
        products = [dY @ term for dY, term in zip(matrices, terms)]
    for product in products[1:]:
        products[0].add_(product)
    pairs = [(dY, A) if transposes else (A, dY)
             for dY, transposes in zip(matrices, ctx.transposed)]
    dA, dBs = beside(["reduce_scatter"], products[0], ctx.name, [left.t() for left, _ in pairs],
                     [right for _, right in pairs])
    others = kept.movedim(ctx.dim, 0).shape[1:]
    return (dA.view(rows // ctx.ranks, *others).movedim(0, ctx.dim).contiguous(),
            [dB.t() if transposes else dB for dB, transposes in zip(dBs, ctx.transposed)])


def column_gradients(x: Tensor, weight: Tensor, dY: Tensor, name: str,
                     ranks: int) -> Optional[Tuple[Tensor, Tensor]]:
    """Returns the gradients of column_linear()'s x and weight, or None if the GEMM is too short to
    hide a transfer. First computes this rank's part of x's gradient, and then the weight's
    gradient, during which the former is summed over the ranks."""
    X, G = flat(x), flat(dY)
    operations = 2 * G.shape[0] * weight.numel()
    if not is_hidden(ALL_REDUCE, X.shape, X, ranks, operations):
        return None
    dX, [dweight] = beside(ALL_REDUCE, G @ weight, name, [G.t()], [X])
    return dX.view_as(x), dweight
