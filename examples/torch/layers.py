"""Layers as Megatron has them, tensor parallel with sequence parallelism, on Braid's functions.

Tokens are dimension 0. Between layers a rank has its tokens, [tokens / ranks, ..., hidden], and all
of their hidden values. A column-parallel layer gathers the tokens while it multiplies them, and
gives all tokens and this rank's columns; a row-parallel layer takes those, and scatters the tokens
while it sums over ranks. What is between the two, attention's heads or an activation, needs no
other rank.

    block = TransformerBlock(hidden, heads, group=group)
    load_full_state(block, state)     # a state of the same block on one device
    block(x).square().sum().backward()
    finish_gradients(block, group)    # sums those of layer norms, as Megatron does

Weights lie as torch.nn.Linear has them, [out, in]. `group` is a ProcessGroup; None is the default
group. Every forward() and every backward() of a linear layer is collective, and so are those of
what contains one. Tokens, heads, hidden and inner sizes have to divide by the ranks.
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
    """This rank's part of a tensor that all ranks have, along `dim`."""
    return tensor.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)]


def new_weight(rows: int, columns: int, like: Mapping[str, Any]) -> nn.Parameter:
    """Random slices, which are unlike each other only where ranks have seeds of their own."""
    return nn.Parameter(torch.empty(rows, columns, **like).normal_(std=0.02))


class ColumnParallelLinear(nn.Module):
    """activation(x @ weight.T + bias), of all tokens and this rank's columns.

    weight: [out_features / ranks, in_features]. bias: [out_features / ranks].
    parts: how many matrices of one size lie below each other in the weight, as those of Q, K and V
        do. A rank has its columns of each of them.
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
        """[tokens / ranks, ..., in] to [tokens, ..., out / ranks]. Collective.

        The backward scatters the gradient of x. It gives whole gradients of this rank's columns.
        """
        return all_gather_matmul(x, self.weight.t(), self.group, bias=self.bias,
                                 activation=self.activation)

    def own_slice(self, name: str, full: Tensor) -> Tensor:
        """Weight and bias alike: outputs are dimension 0 of both."""
        return own_chunk(full.unflatten(0, (self.parts, -1)), 1, self.group).flatten(0, 1)


class RowParallelLinear(nn.Module):
    """x @ weight.T + bias, summed over ranks, of this rank's tokens.

    weight: [out_features, in_features / ranks]. bias: [out_features], the same on all ranks. It is
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
        """[tokens, ..., in / ranks] to [tokens / ranks, ..., out]. Collective.

        The backward gathers the gradient of the result, so that of the bias is of all tokens, and
        the same on all ranks: nobody has to sum it, unlike Megatron's.
        """
        return matmul_reduce_scatter(x, self.weight.t(), self.group, bias=self.bias)

    def own_slice(self, name: str, full: Tensor) -> Tensor:
        return own_chunk(full, 1, self.group) if name == "weight" else full


class LayerNorm(nn.LayerNorm):
    """LayerNorm of this rank's tokens, with parameters that are the same on all ranks.

    Gradients of the parameters cover this rank's tokens alone; finish_gradients() sums them.
    """

    def __init__(self, hidden: int, **like: Any) -> None:
        super().__init__(hidden, **like)
        for parameter in self.parameters():
            setattr(parameter, "sequence_parallel", True)  # as Megatron marks them


class MLP(nn.Module):
    """down(gelu(up(x))); gated: down(silu(gate) * up), gate and up being parts of one weight.

    [tokens / ranks, ..., hidden] to the same. Collective.
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
        """[..., parts * inner / ranks] to [..., inner / ranks]. Needs no other rank."""
        if not self.is_gated:
            return x
        gate, up = x.chunk(2, -1)
        return F.silu(gate) * up


class Attention(nn.Module):
    """Causal self-attention; each rank has some of the heads, and all tokens of theirs.

    [tokens / ranks, ..., hidden] to the same. Collective.
    """

    def __init__(self, hidden: int, heads: int, group: Any = None, **like: Any) -> None:
        super().__init__()
        self.heads = divide(heads, dist.get_world_size(group), "heads")
        # One weight, so that the backward scatters once. Three of them would share the gather.
        self.qkv = ColumnParallelLinear(hidden, 3 * hidden, group, parts=3, **like)
        self.out = RowParallelLinear(hidden, hidden, group, **like)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each.movedim(0, -2) for each in self.split_heads(self.qkv(x)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.movedim(-2, 0).flatten(-2))

    def split_heads(self, qkv: Tensor) -> List[Tensor]:
        """[..., 3 * hidden / ranks] to three of [..., heads / ranks, hidden / heads]."""
        return list(qkv.unflatten(-1, (3, self.heads, -1)).unbind(-3))


class TransformerBlock(nn.Module):
    """Attention, then an MLP, each behind a layer norm and beside a residual.

    [tokens / ranks, ..., hidden] to the same. Collective.
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
    """Sums the gradients that are of a rank's tokens alone, all in one all-reduce.

    Collective. Once behind backward(), or behind the last one that an optimizer step is for.
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
    """This rank's slice of what belongs to a parameter: its value, or a gradient. `full` is what a
    model on one device has by that name."""
    path, _, leaf = name.rpartition(".")
    module = model.get_submodule(path)
    if isinstance(module, (ColumnParallelLinear, RowParallelLinear)):
        return module.own_slice(leaf, full)
    return full


def load_full_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Takes this rank's slices of a state_dict() of the same model on one device. Needs no other
    rank."""
    model.load_state_dict({name: own_slice(model, name, full) for name, full in state.items()})
