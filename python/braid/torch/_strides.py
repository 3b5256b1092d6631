"""Preserves the layouts of gradients of attention in a compiled graph.

A fused all-gather and matmul along the sequence of [batch, sequence, ...] returns a view of
[sequence, batch, ...]. The collective and the matmul that it replaces return a contiguous [batch,
sequence, ...]. Operators must accept both. However, the backward of cuDNN's attention (PyTorch
2.11) caches its graph by the shapes and strides of query, key and value, and reads every later
gradient of its output with the strides of the first one. Tensors that reach the backward of an
attention therefore keep the layout of the node that was replaced.
"""
from __future__ import annotations

import operator
from typing import Any, List, Set

import torch

aten = torch.ops.aten
Node = torch.fx.Node


def _name(node: Node) -> str:
    return str(node.target) if node.op == "call_function" else ""


def _computes_anew(name: str) -> bool:
    """Returns True if the layout of the operator's result does not depend on its operands."""
    return any(each in name for each in ("mm.", "_c10d_functional", "symm_mem", "braid."))


def _reaches_attention(node: Node) -> bool:
    seen: Set[Node] = set()
    ahead = list(node.users)
    while ahead:
        user = ahead.pop()
        name = _name(user)
        if user in seen or _computes_anew(name):
            continue
        if "attention" in name and "backward" in name:
            return True
        seen.add(user)
        ahead += user.users
    return False


def _moves_rows(gather: Node) -> bool:
    """Returns True if the order of the result's rows in memory differs from its dimensions."""
    arguments: Any = gather.args
    shard, dim = arguments[0], arguments[4 if "scaled" in _name(gather) else 2]
    while isinstance(shard, Node) and "val" not in shard.meta and shard.all_input_nodes:
        shard = shard.all_input_nodes[0]
    value: Any = shard.meta.get("val") if isinstance(shard, Node) else None
    in_front = value.shape[:dim % value.dim()] if isinstance(value, torch.Tensor) else (2,)
    return any(not isinstance(size, int) or size > 1 for size in in_front)


def keep_strides(graph: torch.fx.Graph) -> None:
    """Makes results of fused gathers contiguous if they reach the backward of an attention."""
    for gather in list(graph.nodes):
        if _name(gather).startswith("symm_mem.fused_all_gather_") and _moves_rows(gather):
            for result in _tensors_of(gather):
                if _reaches_attention(result):
                    _lay_out(graph, result)


def _tensors_of(gather: Node) -> List[Node]:
    """Returns the gathered tensor, and the results in the list of GEMMs."""
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
