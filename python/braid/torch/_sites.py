"""Replaces collectives next to GEMMs in a compiled graph with Braid's operators.

A *site* is a collective together with the GEMMs that use its result, or whose result it reduces. A
site is found by following the data, not by matching the way in which the graph is written, and its
results have the layout of the nodes that they replace.
"""
from __future__ import annotations

import math
from operator import getitem
from typing import Any, Iterable, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.fx.node import map_arg

from braid.torch._group import place_of
from braid.torch._operations import why_not
from braid.torch._rearrange import (Atom, Atoms, Dims, contiguous, end_of, is_contiguous, is_part,
                                    known, rearranged, rearrangements, source_of, take_first,
                                    value_of)

aten, ops = torch.ops.aten, torch.ops.braid
_c10d = torch.ops._c10d_functional
Node = torch.fx.Node

GATHER, SCATTER, ALL_REDUCE = (_c10d.all_gather_into_tensor.default,
                               _c10d.reduce_scatter_tensor.default, _c10d.all_reduce.default)


class Refused(Exception):
    """Why a collective next to a GEMM is not replaced."""


class Gemm(NamedTuple):
    """A product of matrices, to which a bias for each column or another matrix may be added."""

    A: Node
    B: Node
    bias: Optional[Node] = None
    addend: Optional[Node] = None


def gemm_of(node: Node) -> Optional[Gemm]:
    """Returns the GEMM that `node` computes, or None if it computes something else."""
    arguments: Any = node.args
    if node.target is aten.mm.default:
        return Gemm(*arguments[:2])
    if node.target is not aten.addmm.default or node.kwargs:
        return None
    added, value = value_of(arguments[0]), value_of(node)
    if added is None or value is None:
        return None
    if added.dim() == 1:
        return Gemm(arguments[1], arguments[2], bias=arguments[0])
    is_matrix = added.dim() == 2 and all(known(x == y) for x, y in zip(added.shape, value.shape))
    return Gemm(arguments[1], arguments[2], addend=arguments[0]) if is_matrix else None


# -- Building nodes. --

def insert(graph: torch.fx.Graph, target: Any, arguments: Tuple[Any, ...]) -> Node:
    """Adds a node at the graph's insertion point, with its fake result."""
    node = graph.call_function(target, arguments)
    node.meta["val"] = target(*map_arg(arguments, lambda each: each.meta["val"]))
    return node


def _reshape(graph: torch.fx.Graph, node: Node, like: Optional[torch.Tensor]) -> Node:
    """Reshapes `node` to the shape of `like`, at most one extent of which may be symbolic."""
    assert like is not None
    if tuple(like.shape) == tuple(node.meta["val"].shape):
        return node
    extents = [extent if isinstance(extent, int) else -1 for extent in like.shape]
    if extents.count(-1) > 1:
        raise Refused("several extents are unknown at compile time")
    return insert(graph, aten.reshape.default, (node, extents))


def _fixed(extent: Any) -> int:
    if not isinstance(extent, int):
        raise Refused("an extent other than the number of rows is unknown at compile time")
    return extent


def _check(tensors: Sequence[Any], reduce_op: str = "sum") -> None:
    values = [value_of(each) for each in tensors]
    if any(value is None for value in values):
        raise Refused("a tensor's type is unknown")
    reason = why_not([value for value in values if value is not None], 0, reduce_op)
    if reason:
        raise Refused(reason)


def _erase(node: Node) -> None:
    """Erases `node` and the nodes that only it uses, if nothing uses it."""
    if node._erased or node.users or node.op != "call_function":
        return
    inputs = node.all_input_nodes
    node.graph.erase_node(node)
    for each in inputs:
        _erase(each)


def _wait_of(users: Iterable[Node]) -> Node:
    """Returns the node that waits for a collective, if it is the only one of its users."""
    waits = list(users)
    if len(waits) != 1 or waits[0].target is not _c10d.wait_tensor.default:
        raise Refused("the collective's result is used without a wait")
    return waits[0]


# -- Gathers. --

def _sequences_before(dims: Dims, shard: torch.Tensor, ranks: int) -> Optional[int]:
    """Returns the number of sequences if a rearranged gathered tensor orders its rows as
    [sequences, ranks, rows of a sequence]. Returns None if it splits the columns or permutes the
    rows of a rank. `shard` is what each rank contributes."""
    depth, size = shard.shape[-1], shard.numel()
    if not isinstance(depth, int) or not dims or end_of(dims[-1], 1) is None:
        return None
    if not known(math.prod(atom.extent for atom in dims[-1]) == depth):
        return None
    rows = [atom for atoms in dims[:-1] for atom in atoms if not known(atom.extent == 1)]
    places = [index for index, atom in enumerate(rows)
              if known(atom.stride == size) and known(atom.extent == ranks)]
    if len(places) != 1:
        return None
    before, behind = rows[:places[0]], rows[places[0] + 1:]
    end = end_of([*before, *behind], depth)
    sequences = math.prod(atom.extent for atom in before)
    if end is None or not known(end == size) or not isinstance(sequences, int):
        return None
    return sequences


def _is_live(node: Node, replaced: Set[Node]) -> bool:
    """Returns True if `node` is used other than by rearrangements that only `replaced` use."""
    return any(user not in replaced and (
        user.op == "output" or not (source_of(user) or is_part(user)) or _is_live(user, replaced))
        for user in node.users)


def replace_gather(collective: Node) -> None:
    """Replaces a gather and the GEMMs that multiply its result. Raises Refused if it cannot."""
    arguments: Any = collective.args
    shard, ranks, group = arguments
    wait, value, graph = _wait_of(collective.users), value_of(shard), collective.graph
    if value is None or value.dim() < 2:
        raise Refused("the gathered tensor is a vector")
    rows, *others = contiguous(value.shape)
    nodes = rearrangements(wait, ((Atom(ranks, value.numel()), *rows), *others))
    counts = {node: _sequences_before(dims, value, ranks) for node, dims in nodes.items()}
    gemms = {node: gemm for node in graph.nodes for gemm in [gemm_of(node)]
             if gemm is not None and gemm.A in nodes}
    sequences = next((counts[gemm.A] for gemm in gemms.values() if counts[gemm.A]), None)
    if sequences is None:
        _fixed(value.shape[-1])
        raise Refused("the last dimension is gathered or scattered" if gemms else "")
    gemms = {node: gemm for node, gemm in gemms.items() if counts[gemm.A] == sequences}
    _check([shard, *(gemm.B for gemm in gemms.values())])
    outputs = {wait, *gemms}
    found = {node: gemm for node, gemm in gemms.items() if not _depends(gemm, outputs)}
    if not found:
        raise Refused("the GEMM's other operand depends on the gathered tensor")
    # The widest comes first, because it alone may run during the gather (stepwise=first).
    found = dict(sorted(found.items(), key=lambda each: -_width(each[1])))
    is_kept = _is_live(wait, set(found))
    with graph.inserting_before(wait.next):
        before = [sequences] if sequences > 1 else []
        A = insert(graph, aten.reshape.default, (shard, [*before, -1, value.shape[-1]]))
        Bs, biases = [gemm.B for gemm in found.values()], [gemm.bias for gemm in found.values()]
        results = insert(graph, ops.gather_gemms.default,
                         (A, Bs, biases, is_kept, group, ranks, [], []))
        for index, (node, gemm) in enumerate(found.items()):
            Y = _reshape(graph, insert(graph, getitem, (results, index)), value_of(node))
            if gemm.addend is not None:
                Y = insert(graph, aten.add.Tensor, (gemm.addend, Y))
            node.replace_all_uses_with(Y)
        if is_kept:
            whole = insert(graph, getitem, (results, len(found)))
            _use_gathered(whole, [sequences, ranks, -1, value.shape[-1]], wait,
                          [node for node in nodes if counts[node] == sequences])
    for node in [*found, *reversed(nodes)]:
        _erase(node)


def _width(gemm: Gemm) -> int:
    B: Any = value_of(gemm.B)
    return B.shape[-1] if isinstance(B.shape[-1], int) else 0


def _depends(gemm: Gemm, outputs: Set[Node]) -> bool:
    """Returns True if an operand other than A and the addend depends on one of `outputs`."""
    seen: Set[Node] = set()
    ahead = [gemm.B] if gemm.bias is None else [gemm.B, gemm.bias]
    while ahead:
        node = ahead.pop()
        if node not in seen:
            seen.add(node)
            ahead += node.all_input_nodes
    return not seen.isdisjoint(outputs)


def _use_gathered(whole: Node, shape: Sequence[int], wait: Node,
                  in_order: Sequence[Node]) -> None:
    """Replaces the gathered tensor for its other users. `shape` splits the rows of `whole`."""
    graph = wait.graph
    for node in in_order:
        if node.users:
            node.replace_all_uses_with(_reshape(graph, whole, value_of(node)))
    if wait.users:
        apart = insert(graph, aten.reshape.default, (whole, shape))
        moved = insert(graph, aten.permute.default, (apart, [1, 0, 2, 3]))
        wait.replace_all_uses_with(_reshape(graph, moved, value_of(wait)))


# -- Reductions. --

class Sum(NamedTuple):
    """A sum of GEMMs, and how its elements are rearranged."""

    dims: Dims
    gemms: Tuple[Gemm, ...]
    nodes: Set[Node]  # from the GEMMs to the sum

    def bias(self, ranks: int) -> Optional[Node]:
        """Returns the bias to add once to the sum over all ranks, or None. Tensor parallelism
        divides a bias by the number of ranks, each of which adds it."""
        given = [gemm.bias for gemm in self.gemms if gemm.bias is not None]
        if not given:
            return None
        arguments: Any = given[0].args
        if len(given) > 1 or given[0].target not in _DIVISIONS or arguments[1] != ranks:
            raise Refused("the GEMM adds a bias (addmm) on every rank, before the reduction")
        whole: Node = arguments[0]
        return whole


_DIVISIONS = {aten.div.Tensor, aten.div.Scalar}


def _sum_of(node: Node) -> Optional[Sum]:
    """Returns the sum that `node` computes, or None if it computes something else."""
    gemm, value = gemm_of(node), value_of(node)
    if gemm is not None and value is not None:
        product = Sum(contiguous(value.shape), (gemm,), {node})
        return _added(node, [_sum_of(gemm.addend), product]) if gemm.addend else product
    if node.target is aten.add.Tensor and not node.kwargs:
        inputs = node.all_input_nodes
        return _added(node, [_sum_of(each) for each in inputs]) if len(inputs) == 2 else None
    source = source_of(node)
    inner = None if source is None else _sum_of(source)
    dims = None if inner is None else rearranged(node, inner.dims)
    if inner is None or dims is None:
        return None
    between = {part for part in node.all_input_nodes if is_part(part)}
    between |= {part.all_input_nodes[0] for part in between if part.target is getitem}
    return Sum(dims, inner.gemms, inner.nodes | between | {node})


def _added(node: Node, sums: Sequence[Optional[Sum]]) -> Optional[Sum]:
    a, b = sums
    if a is None or b is None:
        return None
    if not _are_alike(a.dims, b.dims):
        raise Refused("the rows of the summed GEMMs are arranged differently")
    return Sum(a.dims, a.gemms + b.gemms, a.nodes | b.nodes | {node})


def _are_alike(a: Dims, b: Dims) -> bool:
    return len(a) == len(b) and all(
        len(x) == len(y) and all(known(p.extent == q.extent) and known(p.stride == q.stride)
                                 for p, q in zip(x, y)) for x, y in zip(a, b))


def replace_reduction(collective: Node) -> None:
    """Replaces a reduce-scatter or an all-reduce, and the GEMMs whose sum it reduces. Raises
    Refused if it cannot."""
    arguments: Any = collective.args
    source, reduce_op, *_, group = arguments
    found = _sum_of(source)
    if found is None:
        raise Refused("")
    if any(user not in found.nodes and user is not collective
           for node in found.nodes for user in node.users):
        raise Refused("the GEMM's result is also used elsewhere")
    if reduce_op != "sum" and any(gemm.bias for gemm in found.gemms):
        raise Refused("a bias is added before the results are averaged over the ranks")
    _check([operand for gemm in found.gemms for operand in gemm[:2]], reduce_op)
    graph, more = collective.graph, [group]
    order: Atoms = ()
    # A result may also be an output of the graph: activation checkpointing saves it, and a backward
    # pass that uses it waits for it, which does nothing for a tensor that is complete.
    wait = _wait_of([user for user in collective.users if user.op != "output"])
    if collective.target is SCATTER:
        operator, ranks = ops.sum_scatter.default, arguments[2]
        sequences, order = _scattered_sequences(found, ranks)
        more = [reduce_op, group, ranks]
    elif reduce_op != "sum":
        raise Refused(f"the reduction operator is {reduce_op}")
    elif not is_contiguous(found.dims):
        raise Refused("the sum's elements are rearranged before the all-reduce")
    else:
        operator, ranks, sequences = ops.sum_all_reduce.default, place_of(group)[1], 1
    bias = found.bias(ranks)
    with graph.inserting_before(collective):
        As, Bs = [gemm.A for gemm in found.gemms], [gemm.B for gemm in found.gemms]
        if sequences > 1:
            As = [insert(graph, aten.reshape.default,
                         (A, [sequences, -1, _fixed(A.meta["val"].shape[1])])) for A in As]
        results = insert(graph, operator, (As, Bs, bias, *more, [], []))
        result = _ordered(graph, insert(graph, getitem, (results, 0)), order)
        result = _reshape(graph, result, value_of(wait))
        wait.replace_all_uses_with(result)
        graph.erase_node(wait)
        collective.replace_all_uses_with(result)
    _erase(collective)


def _by_stride(atoms: Atoms) -> Atoms:
    """Sorts atoms with distinct strides, if all are known, from the largest to the smallest."""
    if all(isinstance(atom.stride, int) for atom in atoms):
        return tuple(sorted(atoms, key=lambda atom: -int(atom.stride)))
    return atoms


def _ordered(graph: torch.fx.Graph, result: Node, order: Atoms) -> Node:
    """Returns a contiguous tensor with the elements of `result` in the order of `order`, whose
    strides are those in `result`. Models that scatter the second dimension often move it to the
    front: the rows of a sequence are then apart in the reduce-scatter's result."""
    by_stride = _by_stride(order)
    if by_stride == order:
        return result
    apart = insert(graph, aten.reshape.default, (result, [atom.extent for atom in by_stride]))
    axes = [by_stride.index(atom) for atom in order]
    moved = insert(graph, aten.permute.default, (apart, axes))
    copy = graph.call_function(aten.clone.default, (moved,),
                               {"memory_format": torch.contiguous_format})
    copy.meta["val"] = moved.meta["val"].contiguous()
    return copy


def _scattered_sequences(found: Sum, ranks: int) -> Tuple[int, Atoms]:
    """Returns the number of sequences whose rows are scattered, and the order of the elements of
    the reduce-scatter's result, or raises Refused."""
    rows, columns = found.gemms[0].A.meta["val"].shape[0], found.gemms[0].B.meta["val"].shape[1]
    first = take_first(found.dims[0], ranks)
    if first is None:
        raise Refused("the rows do not divide evenly among the ranks")
    block, inner = first
    sequences = _sequences(rows * columns, block)
    rest = [atom for atoms in (inner, *found.dims[1:]) for atom in atoms]
    if sequences > 1:  # which are closer together in the result
        rest = [atom if atom.stride < block.stride else Atom(atom.extent, atom.stride // ranks)
                for atom in rest]
    order = tuple(atom for atom in rest if not known(atom.extent == 1))
    if not is_contiguous((_by_stride(order),)) or not known(block.stride % columns == 0):
        raise Refused("the last dimension is gathered or scattered")
    return sequences, order


def _sequences(elements: Any, block: Atom) -> int:
    """Returns the number of sequences that precede the blocks of rows in a sum of `elements`."""
    whole = block.extent * block.stride
    if isinstance(elements, int) and isinstance(whole, int):
        return elements // whole
    # A quotient of symbolic extents remains symbolic, even if its value is known.
    found = next((count for count in range(1, 65) if known(elements == count * whole)), None)
    if found is None:
        raise Refused("the number of sequences (the batch size) is unknown at compile time")
    return found
