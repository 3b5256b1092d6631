"""Linear layers whose input is the same on all ranks, and of whose weight each rank has some rows.

The forward pass does not communicate. The gradient of the input is summed over the ranks.
"""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch.autograd.function import once_differentiable

from braid.torch import _hidden
from braid.torch._gradients import call, runs_eagerly, wants_gradients
from braid.torch._group import place_of

Tensor = torch.Tensor


class _Column(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], name: str) -> Any:
        needs_x, needs_weight, *_ = ctx.needs_input_grad
        ctx.name = name
        ctx.save_for_backward(x if needs_weight else None, weight if needs_x else None)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, dY: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        dbias = _hidden.flat(dY).sum(0) if needs_bias else None
        if needs_x and needs_weight and runs_eagerly([dY, x, weight]):
            ranks = place_of(ctx.name)[1]
            hidden = _hidden.column_gradients(x, weight, dY, ctx.name, ranks)
            if hidden:
                return (*hidden, dbias, None)
        dx = call("matmul_all_reduce", dY, weight, None, "", ctx.name) if needs_x else None
        dweight = _hidden.flat(dY).t() @ _hidden.flat(x) if needs_weight else None
        return dx, dweight, dbias, None


def column_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor], name: str) -> Tensor:
    """Returns x @ weight.t() + bias: this rank's columns of the result.

    x: [..., K], the same on all ranks. weight: [N, K] and bias: [N], this rank's rows. name: the
    name of the group. If gradients are needed, the backward pass is collective.
    """
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
        # As autocast does for a linear. The backward pass then multiplies what was multiplied here.
        dtype = torch.get_autocast_dtype(device)
        x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    if not wants_gradients([x, weight] if bias is None else [x, weight, bias]):
        return torch.nn.functional.linear(x, weight, bias)
    result: Tensor = _Column.apply(x, weight, bias, name)
    return result
