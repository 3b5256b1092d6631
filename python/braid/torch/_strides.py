"""Preserves the layouts of attention gradients in a compiled graph.

A fused all-gather and matmul along the sequence axis of a [batch, sequence, ...] tensor returns a
view of a [sequence, batch, ...] tensor. The collective and the matmul that it replaces return a
contiguous [batch, sequence, ...] tensor. Operators must accept both layouts. However, the backward
of cuDNN's attention (PyTorch 2.11) caches its graph, keyed by only the shapes and strides of query,
key and value, and assumes that later output gradients have the strides of the first one. Therefore,
tensors that reach an attention backward keep the layout of the replaced node.
"""
from __future__ import annotations

import operator
from typing import Any, List, Set

import torch

aten = torch.ops.aten
Node = torch.fx.Node


def _name(node: Node) -> str:
    return str(node.target) if node.op == "call_function" else ""


# Substrings of names of operators whose result layout is independent of the operands' layouts.
_COMPUTE_ANEW = ("mm.", "_c10d_functional", "symm_mem", "braid.")


def _reaches_attention(node: Node) -> bool:
    seen: Set[Node] = set()
    ahead = list(node.users)
    while ahead:
        user = ahead.pop()
        name = _name(user)
        if user in seen or any(each in name for each in _COMPUTE_ANEW):
            continue
        if "attention" in name and "backward" in name:
            return True
        seen.add(user)
        ahead += user.users
    return False


def _moves_rows(gather: Node) -> bool:
    """Returns True if the result's axis order in memory differs from the order of dimensions."""
    arguments: Any = gather.args
    shard, dim = arguments[0], arguments[4 if "scaled" in _name(gather) else 2]
    while isinstance(shard, Node) and "val" not in shard.meta and shard.all_input_nodes:
        shard = shard.all_input_nodes[0]
    value: Any = shard.meta.get("val") if isinstance(shard, Node) else None
    in_front = value.shape[:dim % value.dim()] if isinstance(value, torch.Tensor) else (2,)
    return any(not isinstance(size, int) or size > 1 for size in in_front)


def keep_strides(graph: torch.fx.Graph) -> None:
    """Makes the results of fused gathers contiguous if they reach an attention backward."""
    for gather in list(graph.nodes):
        if _name(gather).startswith("symm_mem.fused_all_gather_") and _moves_rows(gather):
            for result in _tensors_of(gather):
                if _reaches_attention(result):
                    _lay_out(graph, result)


def _tensors_of(gather: Node) -> List[Node]:
    """Returns the nodes of the gathered tensor and of the GEMM results."""
    found = []
    for each in gather.users:
        if each.target is operator.getitem:
            found += [each] if each.args[1] == 0 else list(each.users)
    return found


def _lay_out(graph: torch.fx.Graph, result: Node) -> None:
    with graph.inserting_after(result):
        laid_out = graph.call_function(aten.clone.default, (result,),
                                       {"memory_format": torch.contiguous_format})
    result.replace_all_uses_with(laid_out, delete_user_cb=lambda user: user is not laid_out)
