"""Megatron-style layers with tensor and sequence parallelism, built on Braid's functions.

Dimension 0 of an activation contains the tokens. Between layers, each rank has some of the tokens
with all of their hidden values, [tokens / ranks, ..., hidden]. A column-parallel layer gathers the
tokens while it multiplies them, and returns this rank's columns for all tokens. A row-parallel
layer takes this result, and scatters the tokens while it sums over the ranks. The operations
between the two, such as attention heads or an activation, do not communicate.

    block = TransformerBlock(hidden, heads, group=group)
    load_full_state(block, state)     # the state_dict() of the same block on one device
    block(x).square().sum().backward()
    finish_gradients(block, group)    # sums the gradients of layer norms, as Megatron does

Weights have the layout of torch.nn.Linear, [out, in]. `group` is a ProcessGroup; None is the
default group. Every forward() and backward() of a linear layer, or of a module that contains one,
is collective. The numbers of tokens and heads, and the hidden and inner sizes, must be divisible by
the number of ranks.
"""
from __future__ import annotations

from typing import Any, List, Mapping, Optional

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from braid.torch import all_gather_matmul, matmul_reduce_scatter


def divide(size: int, ranks: int, what: str) -> int:
    if size % ranks != 0:
        raise ValueError(f"expected {what} to divide by {ranks} ranks, got {size}")
    return size // ranks


def own_chunk(tensor: Tensor, dim: int, group: Any = None) -> Tensor:
    """Returns this rank's chunk, along `dim`, of a tensor that all ranks have."""
    return tensor.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)]


def new_weight(rows: int, columns: int, like: Mapping[str, Any]) -> nn.Parameter:
    """Returns random values, which differ between ranks only if the ranks' seeds differ."""
    return nn.Parameter(torch.empty(rows, columns, **like).normal_(std=0.02))


class ColumnParallelLinear(nn.Module):
    """Computes activation(x @ weight.T + bias) for all tokens and this rank's columns.

    weight: [out_features / ranks, in_features]. bias: [out_features / ranks].
    parts: the number of matrices of equal size that are stacked in the weight, such as those of Q,
        K and V. Each rank has some columns of each matrix.
    activation: "relu", "gelu", "gelu_tanh", "silu" or None.
    """

    def __init__(self, in_features: int, out_features: int, group: Any = None, *, parts: int = 1,
                 activation: Optional[str] = None, **like: Any) -> None:
        super().__init__()
        self.group, self.parts, self.activation = group, parts, activation
        own = parts * divide(out_features // parts, dist.get_world_size(group), "columns")
        self.weight = new_weight(own, in_features, like)
        self.bias = nn.Parameter(torch.zeros(own, **like))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [tokens / ranks, ..., in] to [tokens, ..., out / ranks]. Collective.

        The backward pass sums and scatters the gradient of x. The gradients of this rank's columns
        of the weight and the bias cover all tokens.
        """
        return all_gather_matmul(x, self.weight.t(), self.group, bias=self.bias,
                                 activation=self.activation)

    def own_slice(self, name: str, full: Tensor) -> Tensor:
        """Returns this rank's slice of a full weight or bias. Dimension 0 is out_features."""
        return own_chunk(full.unflatten(0, (self.parts, -1)), 1, self.group).flatten(0, 1)


class RowParallelLinear(nn.Module):
    """Computes x @ weight.T, summed over the ranks, plus bias, for this rank's tokens.

    weight: [out_features, in_features / ranks]. bias: [out_features], the same on all ranks; it is
    added once, to the sum.
    """

    def __init__(self, in_features: int, out_features: int, group: Any = None,
                 **like: Any) -> None:
        super().__init__()
        self.group = group
        own = divide(in_features, dist.get_world_size(group), "rows of a weight")
        self.weight = new_weight(out_features, own, like)
        self.bias = nn.Parameter(torch.zeros(out_features, **like))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [tokens, ..., in / ranks] to [tokens / ranks, ..., out]. Collective.

        The backward pass gathers the gradient of the result. The gradient of the bias therefore
        covers all tokens and is the same on all ranks; unlike in Megatron, it need not be summed.
        """
        return matmul_reduce_scatter(x, self.weight.t(), self.group, bias=self.bias)

    def own_slice(self, name: str, full: Tensor) -> Tensor:
        return own_chunk(full, 1, self.group) if name == "weight" else full


class LayerNorm(nn.LayerNorm):
    """LayerNorm of this rank's tokens, with parameters that are the same on all ranks.

    The gradients of the parameters cover only this rank's tokens; finish_gradients() sums them.
    """

    def __init__(self, hidden: int, **like: Any) -> None:
        super().__init__(hidden, **like)
        for parameter in self.parameters():
            setattr(parameter, "sequence_parallel", True)  # the attribute that Megatron sets


class MLP(nn.Module):
    """Computes down(gelu(up(x))) or, if gated, down(silu(gate) * up). One weight contains the
    matrices of both gate and up.

    Maps [tokens / ranks, ..., hidden] to the same shape. Collective.
    """

    def __init__(self, hidden: int, inner: int, group: Any = None, *, gated: bool = False,
                 **like: Any) -> None:
        super().__init__()
        self.is_gated = gated
        parts = 2 if gated else 1
        self.up = ColumnParallelLinear(hidden, parts * inner, group, parts=parts,
                                       activation=None if gated else "gelu", **like)
        self.down = RowParallelLinear(inner, hidden, group, **like)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.gate(self.up(x)))

    def gate(self, x: Tensor) -> Tensor:
        """Maps [..., parts * inner / ranks] to [..., inner / ranks]. Does not communicate."""
        if not self.is_gated:
            return x
        gate, up = x.chunk(2, -1)
        return F.silu(gate) * up


class Attention(nn.Module):
    """Causal self-attention; each rank computes some of the heads for all tokens.

    Maps [tokens / ranks, ..., hidden] to the same shape. Collective.
    """

    def __init__(self, hidden: int, heads: int, group: Any = None, **like: Any) -> None:
        super().__init__()
        self.heads = divide(heads, dist.get_world_size(group), "heads")
        # One weight, so that the backward pass scatters only once. Three weights would share only
        # the gather.
        self.qkv = ColumnParallelLinear(hidden, 3 * hidden, group, parts=3, **like)
        self.out = RowParallelLinear(hidden, hidden, group, **like)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each.movedim(0, -2) for each in self.split_heads(self.qkv(x)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.movedim(-2, 0).flatten(-2))

    def split_heads(self, qkv: Tensor) -> List[Tensor]:
        """Splits [..., 3 * hidden / ranks] into three [..., heads / ranks, hidden / heads]."""
        return list(qkv.unflatten(-1, (3, self.heads, -1)).unbind(-3))


class TransformerBlock(nn.Module):
    """Attention followed by an MLP, each with a preceding layer norm and a residual connection.

    Maps [tokens / ranks, ..., hidden] to the same shape. Collective.
    """

    def __init__(self, hidden: int, heads: int, inner: Optional[int] = None, group: Any = None, *,
                 gated: bool = False, **like: Any) -> None:
        super().__init__()
        self.norm1 = LayerNorm(hidden, **like)
        self.attention = Attention(hidden, heads, group, **like)
        self.norm2 = LayerNorm(hidden, **like)
        self.mlp = MLP(hidden, inner or 4 * hidden, group, gated=gated, **like)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def finish_gradients(model: nn.Module, group: Any = None) -> None:
    """Sums the gradients that cover only this rank's tokens over the ranks, in one all-reduce.

    Collective. Call it once per optimizer step, after the last backward().
    """
    grads = [parameter.grad for parameter in model.parameters()
             if getattr(parameter, "sequence_parallel", False) and parameter.grad is not None]
    if not grads:
        return
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat, group=group)
    for grad, whole in zip(grads, flat.split([grad.numel() for grad in grads])):
        grad.copy_(whole.view_as(grad))


def own_slice(model: nn.Module, name: str, full: Tensor) -> Tensor:
    """Returns this rank's slice of `full`, the value or the gradient of the parameter `name` of the
    single-device model."""
    path, _, leaf = name.rpartition(".")
    module = model.get_submodule(path)
    if isinstance(module, (ColumnParallelLinear, RowParallelLinear)):
        return module.own_slice(leaf, full)
    return full


def load_full_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Loads this rank's slices of the state_dict() of the same model on one device. Does not
    communicate."""
    model.load_state_dict({name: own_slice(model, name, full) for name, full in state.items()})
