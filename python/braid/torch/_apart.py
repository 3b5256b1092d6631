"""Which collectives stayed apart from the GEMM beside them, in a graph that Inductor compiles.

Async tensor parallelism applies where a pattern matches, and says nothing where none does. This
pass looks at what is left, changes nothing, and writes down each collective that a GEMM feeds or
takes from, with the reason, as far as the graph shows it.
"""
from __future__ import annotations

import operator
import uuid
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from braid.torch._report import Apart, apart
from braid.torch._strides import keep_strides

aten, prims = torch.ops.aten, torch.ops.prims
_c10d = torch.ops._c10d_functional

_GEMMS: Dict[Any, str] = {aten.mm.default: "", aten.addmm.default: "the GEMM adds a bias (addmm)",
          aten.bmm.default: "the GEMM is batched (bmm)",
          aten.baddbmm.default: "the GEMM is batched (baddbmm)"}
_SCALED = {getattr(aten, name).default for name in ("_scaled_mm", "_scaled_grouped_mm")
           if hasattr(aten, name)}
_CASTS = {prims.convert_element_type.default, aten._to_copy.default}
_VIEWS = {aten.reshape.default, aten.view.default, aten._unsafe_view.default, aten.permute.default,
          aten.t.default, aten.transpose.int, aten.unsqueeze.default, aten.squeeze.dim,
          aten.expand.default, aten.clone.default, aten.slice.Tensor, aten.select.int}
# How a collective along another axis than the first one is put together.
_PARTS = {aten.split.Tensor, aten.split_with_sizes.default, aten.cat.default, operator.getitem}
_COLLECTIVES: Dict[Any, str] = {_c10d.all_gather_into_tensor.default: "all_gather",
                _c10d.reduce_scatter_tensor.default: "reduce_scatter",
                _c10d.all_reduce.default: "all_reduce"}
_MOST_STEPS = 12  # between a collective and a GEMM

Node = torch.fx.Node
Path = Tuple[Node, ...]  # from a collective to a GEMM, both included


def _is_between(node: Node) -> bool:
    return (node.target in _CASTS or node.target in _VIEWS or node.target in _PARTS or
            node.target is _c10d.wait_tensor.default)


def _is_gemm(node: Node) -> bool:
    return node.target in _GEMMS or node.target in _SCALED


def _find_gemm(collective: Node, is_forwards: bool) -> Optional[Path]:
    """The shortest way to a GEMM through what only moves or converts elements."""
    paths: List[Path] = [(collective,)]
    for _ in range(_MOST_STEPS):
        longer: List[Path] = []
        for path in paths:
            last = path[-1]
            for node in last.users if is_forwards else last.all_input_nodes:
                if _is_gemm(node):
                    return (*path, node)
                if _is_between(node) and node not in path:
                    longer.append((*path, node))
        paths = longer
    return None


def _reason(path: Path, is_forwards: bool) -> str:
    collective, between, gemm = path[0], path[1:-1], path[-1]
    if collective.target is _c10d.all_reduce.default:
        return "an all-reduce: braid.torch.matmul_all_reduce() has to be called for it"
    if gemm.target in _SCALED:
        return "the GEMM is scaled"
    if _GEMMS[gemm.target]:
        return _GEMMS[gemm.target]
    if any(node.target in _CASTS for node in between):
        return "the element type is converted in between"
    if is_forwards and gemm.args[0] not in path:
        return "the GEMM takes it as its second operand"
    if not is_forwards and len(gemm.users) > 1:
        return "the GEMM's result has a second user"
    moved = sorted({str(node.target) for node in between if node.target in _VIEWS})
    if moved:
        return f"{', '.join(moved)} in between"
    return "PyTorch's pass does not match it"


def _shape(node: Any) -> str:
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor):
        return "?"
    return f"{str(value.dtype).replace('torch.', '')} {'x'.join(map(str, value.shape))}"


def _group_of(collective: Node) -> str:
    """The last argument."""
    arguments = [*collective.args, *collective.kwargs.values()]
    return str(arguments[-1])


def note(collective: Node) -> None:
    is_forwards = collective.target is _c10d.all_gather_into_tensor.default
    path = _find_gemm(collective, is_forwards)
    if path:
        found = Apart(_COLLECTIVES[collective.target], _group_of(collective),
                      _shape(collective.args[0]), str(path[-1].target),
                      _reason(path, is_forwards))
        if found not in apart:  # of a graph that is compiled again
            apart.append(found)


class FindApart(CustomGraphPass):
    """Runs behind all passes of PyTorch's."""

    def __init__(self) -> None:
        # A graph out of a cache of another process would not come by here.
        self._uuid = f"braid {uuid.uuid4()}"

    def __call__(self, graph: torch.fx.Graph) -> None:
        keep_strides(graph)
        for node in graph.nodes:
            if node.target in _COLLECTIVES:
                note(node)

    def uuid(self) -> str:
        return self._uuid


class _Both(FindApart):
    """A pass of the user's, then ours: versions of PyTorch that take one pass only."""

    def __init__(self, first: Any) -> None:
        super().__init__()
        self._first = first

    def __call__(self, graph: torch.fx.Graph) -> None:
        self._first(graph)
        super().__call__(graph)


def behind(first: Any) -> Any:
    """The pass behind those that Inductor has."""
    ours = FindApart()
    if first is None:
        return ours
    return [*first, ours] if isinstance(first, (list, tuple)) else _Both(first)
