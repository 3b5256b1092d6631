"""Follows how the nodes of a graph rearrange the elements of a tensor.

Collectives and GEMMs are often separated by nodes that only rearrange elements: views,
permutations, and splits whose parts are concatenated along another dimension. There are many ways
to write the same rearrangement. Therefore, each value is described by where its elements come from:
every dimension is a list of atoms, from the slowest-varying to the fastest. An atom (extent,
stride) stands for `extent` positions that are `stride` elements apart in the contiguous source.
"""
from __future__ import annotations

import operator
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.fx.experimental import symbolic_shapes

aten = torch.ops.aten
Node = torch.fx.Node
known: Any = symbolic_shapes.statically_known_true


class Atom(NamedTuple):
    extent: Any  # int or SymInt
    stride: Any


Atoms = Tuple[Atom, ...]
Dims = Tuple[Atoms, ...]

RESHAPES = {aten.reshape.default, aten.view.default, aten._unsafe_view.default,
            aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default,
            aten.clone.default}
PERMUTATIONS = {aten.permute.default, aten.transpose.int, aten.t.default}
SPLITS = {aten.split.Tensor, aten.split_with_sizes.default}


def value_of(node: Any) -> Optional[torch.Tensor]:
    """Returns the fake tensor that `node` computes, or None if it computes something else."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def contiguous(shape: Sequence[Any]) -> Dims:
    """Returns the dimensions of a source: one atom each."""
    dims: List[Atoms] = []
    stride: Any = 1
    for extent in reversed(shape):
        dims.append((Atom(extent, stride),))
        stride = stride * extent
    return tuple(reversed(dims))


def end_of(atoms: Iterable[Atom], stride: Any) -> Optional[Any]:
    """Returns the number of elements that `atoms` span if they are contiguous and the last one has
    this stride, otherwise None."""
    for atom in reversed(list(atoms)):
        if known(atom.extent == 1):
            continue
        if not known(atom.stride == stride):
            return None
        stride = stride * atom.extent
    return stride


def is_contiguous(dims: Dims) -> bool:
    return end_of([atom for atoms in dims for atom in atoms], 1) is not None


def take_last(atoms: List[Atom], count: Any) -> Optional[Atoms]:
    """Removes atoms with `count` positions from the end, splitting one if necessary. Returns them,
    or None if this is impossible."""
    taken: List[Atom] = []
    while not known(count == 1):
        if not atoms:
            return None
        atom = atoms.pop()
        if known(count % atom.extent == 0):
            taken.append(atom)
            count = count // atom.extent
        elif known(atom.extent % count == 0):
            taken.append(Atom(count, atom.stride))
            atoms.append(Atom(atom.extent // count, atom.stride * count))
            count = 1
        else:
            return None
    return tuple(reversed(taken))


def take_first(atoms: Atoms, count: Any) -> Optional[Tuple[Atom, Atoms]]:
    """Returns one atom with the first `count` positions, and the remaining atoms, or None."""
    rest = [atom for atom in atoms if not known(atom.extent == 1)]
    if not rest or not known(rest[0].extent % count == 0):
        return None
    first, inner = rest[0], rest[0].extent // count
    return Atom(count, first.stride * inner), (Atom(inner, first.stride), *rest[1:])


def _reshaped(dims: Dims, shape: Sequence[Any]) -> Optional[Dims]:
    atoms = [atom for each in dims for atom in each if not known(atom.extent == 1)]
    found: List[Atoms] = []
    for extent in reversed(shape):
        taken = take_last(atoms, extent)
        if taken is None:
            return None
        found.append(taken)
    return tuple(reversed(found))


# -- Parts that are concatenated along another dimension. --

def _part(node: Any) -> Optional[Tuple[Node, int, int, Any]]:
    """Returns (source, dimension, index, extent) if `node` is one of several equal parts."""
    value = value_of(node)
    if value is None:
        return None
    arguments, shape = node.args, value.shape
    if node.target is operator.getitem and arguments[0].target in SPLITS:
        split: Any = arguments[0].args
        dim = (split[2] if len(split) > 2 else arguments[0].kwargs.get("dim", 0)) % len(shape)
        return split[0], dim, arguments[1], shape[dim]
    if node.target is aten.slice.Tensor and len(arguments) == 4:
        dim, begin = arguments[1] % len(shape), arguments[2]
        if isinstance(begin, int) and known(begin % shape[dim] == 0):
            return arguments[0], dim, begin // shape[dim], shape[dim]
    return None


def is_part(node: Node) -> bool:
    """Returns True if `node` is one of several equal parts of a tensor, or all of them."""
    return node.target in SPLITS or _part(node) is not None


def _split_of(cat: Node) -> Optional[Tuple[Node, int]]:
    """Returns the tensor whose equal parts `cat` concatenates in their order, and the dimension
    along which they are split, or None."""
    arguments: Any = cat.args
    parts = [_part(each) for each in arguments[0]]
    first = parts[0] if parts else None
    if first is None:
        return None
    source, dim, _, extent = first
    wanted = [(source, dim, index, extent) for index in range(len(parts))]
    value = value_of(source)
    if parts != wanted or value is None or not known(value.shape[dim] == extent * len(parts)):
        return None
    return source, dim


def source_of(node: Node) -> Optional[Node]:
    """Returns the node whose elements `node` rearranges, or None if it does something else."""
    if node.target in RESHAPES or node.target in PERMUTATIONS:
        return node.all_input_nodes[0]
    split = _split_of(node) if node.target is aten.cat.default else None
    return split[0] if split else None


def rearranged(node: Node, dims: Dims) -> Optional[Dims]:
    """Returns the dimensions of `node`, where `dims` are those of source_of(node)."""
    arguments: Any = node.args
    found, value = list(dims), value_of(node)
    if node.target is aten.permute.default:
        return tuple(dims[axis] for axis in arguments[1])
    if node.target in PERMUTATIONS:  # of two axes
        a, b = arguments[1:3] if len(arguments) > 2 else (0, -1)
        found[a], found[b] = found[b], found[a]
        return tuple(found)
    if value is None:
        return None
    if node.target in RESHAPES:
        return _reshaped(dims, value.shape)
    split = _split_of(node)
    assert split is not None
    dim, to = split[1], arguments[1] % len(dims) if len(arguments) > 1 else 0
    if to == dim:
        return dims
    atoms = list(dims[dim])
    inner = take_last(atoms, value.shape[dim])
    if inner is None:
        return None
    found[dim], found[to] = inner, (*atoms, *dims[to])
    return tuple(found)


def rearrangements(source: Node, dims: Dims) -> Dict[Node, Dims]:
    """Returns `source`, whose dimensions are `dims`, and all nodes that only rearrange it, with
    their dimensions."""
    found, ahead = {source: dims}, [source]
    for node in ahead:  # to which the nodes found are added
        users = list(node.users)
        for user in users:  # to which the users of parts are added
            if is_part(user):
                users += [each for each in user.users if each not in users]
            elif user not in found and source_of(user) is node:
                moved = rearranged(user, found[node])
                if moved is not None:
                    found[user] = moved
                    ahead.append(user)
    return found
