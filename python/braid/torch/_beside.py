"""Lets transfers run at the same time as GEMMs that do not depend on them.

In a backward pass, the gradients of weights are such GEMMs: they are only results of the graph. A
site then transfers while they run, and its own GEMMs run whole. One node computes both, so that
the compiler cannot move them apart, and so that their operands stay allocated until both are done.
"""
from __future__ import annotations

from operator import getitem
from typing import Any, Dict, List, Set

import torch

from braid.torch import _transfer
from braid.torch._group import place_of
from braid.torch._operations import MOST_SEQUENCES
from braid.torch._rearrange import source_of, value_of
from braid.torch._sites import insert

aten, ops, prims = torch.ops.aten, torch.ops.braid, torch.ops.prims
Node = torch.fx.Node

_GATHER, _ALL_REDUCE = ops.gather_gemms.default, ops.sum_all_reduce.default
_SITES = {_GATHER, _ALL_REDUCE, ops.sum_scatter.default}


def _is_result(node: Node) -> bool:
    """Returns True if `node` is only used for results of the graph, perhaps in another form."""
    return all(user.op == "output" or (
        (source_of(user) is node or user.target is prims.convert_element_type.default)
        and _is_result(user)) for user in node.users)


def _data_of(node: Node) -> Node:
    """Returns the node that computes the elements that `node` may only rearrange."""
    source = source_of(node)
    return _data_of(source) if source and node.all_input_nodes == [source] else node


def _dependents(node: Node) -> Set[Node]:
    found, ahead = {node}, [node]
    for each in ahead:  # to which the users found are added
        ahead += [user for user in each.users if user not in found]
        found.update(each.users)
    return found


def _received_bytes(site: Node) -> int:
    """Returns how many bytes each rank receives, or 0 if the transfer cannot run beside a GEMM. A
    gather or a reduce-scatter transfers one rank's rows to each other rank; an all-reduce does
    both."""
    arguments: Any = site.args
    value: Any = value_of(arguments[0]) if site.target is _GATHER else site.meta["val"][0]
    size = value.numel() * value.element_size()
    if not isinstance(size, int) or value.device.type not in _transfer.devices:
        return 0
    if value.dim() > 2 and value.shape[0] > MOST_SEQUENCES:
        return 0
    if site.target is not _ALL_REDUCE:
        return int((arguments[5] - 1) * size)
    ranks = place_of(arguments[3])[1]
    return 0 if value.shape[0] % ranks else 2 * (ranks - 1) * (size // ranks)


def _operations(gemm: Node) -> int:
    A, B = (value_of(each) for each in gemm.args)
    count = 0 if A is None or B is None else 2 * A.shape[0] * A.shape[1] * B.shape[1]
    return count if isinstance(count, int) else 0  # 0 if it is unknown at compile time


def overlap(graph: torch.fx.Graph) -> None:
    """Gives each site GEMMs to run beside its transfer, if enough are ready to hide it: the nearest
    ones, which are moved past at most two other sites, because tensors stay allocated meanwhile.
    The nodes must be sorted, and remain so."""
    place = {node: index for index, node in enumerate(graph.nodes)}
    free = [node for node in graph.nodes if node.target is aten.mm.default and _is_result(node)]
    sites = [node for node in graph.nodes if node.target in _SITES]
    for index, site in enumerate(sites):
        size = _received_bytes(site)
        needed = _transfer.operations_to_hide(size) if size else 0.0
        first = place[sites[index - 2]] if index > 1 else 0
        last = place[sites[index + 2]] if index + 2 < len(sites) else len(place)
        order = {node: number for number, node in enumerate(graph.nodes)}
        later, gemms = _dependents(site), []
        for gemm in sorted(free, key=lambda each: abs(place[each] - place[site])):
            is_ready = all(order[_data_of(each)] < order[site] for each in gemm.all_input_nodes)
            if (needed > 0 and _operations(gemm) > 0 and first < place[gemm] < last and is_ready
                    and later.isdisjoint(gemm.all_input_nodes)):
                gemms.append(gemm)
                needed -= _operations(gemm)
        if gemms and needed <= 0:
            for operand in (each for gemm in gemms for each in gemm.all_input_nodes):
                _move(operand, site, order)
            _give(site, gemms)
            free = [gemm for gemm in free if gemm not in gemms]


def _move(node: Node, site: Node, order: Dict[Node, int]) -> None:
    """Moves an operand, which may rearrange data that precede `site`, in front of `site`."""
    if order[node] > order[site]:
        _move(node.all_input_nodes[0], site, order)
        site.prepend(node)


def _give(site: Node, gemms: List[Node]) -> None:
    graph = site.graph
    operands = [list(each) for each in zip(*(gemm.args for gemm in gemms))]
    with graph.inserting_before(site):
        both = insert(graph, site.target, (*site.args[:-2], *operands))
        count = len(both.meta["val"]) - len(gemms)
        for index, gemm in enumerate(gemms):
            gemm.replace_all_uses_with(insert(graph, getitem, (both, count + index)))
            graph.erase_node(gemm)
        site.replace_all_uses_with(both)
    graph.erase_node(site)
