"""The pass that enable() adds to Inductor: replaces collectives next to GEMMs, and reports them."""
from __future__ import annotations

import glob
import operator
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch._inductor import custom_graph_pass
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.pattern_matcher import stable_topological_sort
from torch.distributed import distributed_c10d
from torch.utils.checkpoint import CheckpointPolicy

from braid.torch import _beside, _report
from braid.torch._rearrange import PERMUTATIONS, RESHAPES, SPLITS, value_of
from braid.torch._sites import (ALL_REDUCE, GATHER, SCATTER, Refused, replace_gather,
                                replace_reduction)

aten, prims = torch.ops.aten, torch.ops.prims
_c10d = torch.ops._c10d_functional

_KINDS = {"mm": "", "addmm": "", "bmm": "the GEMM is batched (bmm)",
          "baddbmm": "the GEMM is batched (baddbmm)", "_grouped_mm": "the GEMM is grouped",
          **dict.fromkeys(("_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm",
                           "_scaled_grouped_mm_v2"), "the GEMM is scaled")}
_GEMMS: Dict[Any, str] = {getattr(aten, name).default: why for name, why in _KINDS.items()
                          if hasattr(aten, name)}
_CASTS = {prims.convert_element_type.default, aten._to_copy.default}
# Includes the nodes that implement a collective along an axis other than the first.
_MOVES = RESHAPES | PERMUTATIONS | SPLITS | {
    aten.view.dtype, aten.expand.default, aten.slice.Tensor, aten.select.int, aten.cat.default,
    operator.getitem}
_BETWEEN = _CASTS | _MOVES | {_c10d.wait_tensor.default, aten.add.Tensor}
_MOST_STEPS = 12  # the maximum number of nodes between a collective and a GEMM
# The region of recomputed gathers. Its number is greater than those of activation checkpointing, so
# that the compiler saves what those regions pass to a gather.
_CHECKPOINT = 1 << 30
# Advice if the element type is converted before a reduction or after a gather, respectively.
_ADVICE = ("reduce in {0}, then convert the result",
           "gather x.to(torch.{0}), or keep the model's parameters in {0}")

# A digest of all sources of the package, because graphs also contain calls of its operators.
_SOURCES = tuple(sorted(glob.glob(os.path.join(os.path.dirname(__file__), "*.py"))))
_DIGEST = get_hash_for_files(_SOURCES) if _SOURCES else None

Node = torch.fx.Node
Path = Tuple[Node, ...]  # from a collective to a GEMM, inclusive

_COLLECTIVES: Dict[Any, Tuple[str, Callable[[Node], None]]] = {
    GATHER: ("all_gather", replace_gather), SCATTER: ("reduce_scatter", replace_reduction),
    ALL_REDUCE: ("all_reduce", replace_reduction)}


def _find_gemm(collective: Node) -> Optional[Path]:
    """Returns the shortest path, if any, to a GEMM through nodes that move, convert or add data."""
    paths: List[Path] = [(collective,)]
    seen = {collective}
    for path in paths:  # to which longer ones are added
        last = path[-1]
        for node in last.users if collective.target is GATHER else last.all_input_nodes:
            if node.target in _GEMMS:
                return (*path, node)
            if node.target in _BETWEEN and node not in seen and len(path) < _MOST_STEPS:
                seen.add(node)
                paths.append((*path, node))
    return None


def _reason(path: Path) -> str:
    """Returns why a collective is not replaced, if replacing it did not yield a reason."""
    between, gemm = path[1:-1], path[-1]
    is_forwards = path[0].target is GATHER
    if _GEMMS[gemm.target]:
        return _GEMMS[gemm.target]
    if any(node.target in _CASTS for node in between):
        return ("the element type is converted between the GEMM and the collective, for example by "
                "autocast: " + _ADVICE[is_forwards].format(_type_of(gemm).split()[0]))
    arguments: Any = gemm.args
    if is_forwards and arguments[-2] not in path:
        return "the collective's result is the GEMM's second operand"
    moved = sorted({str(node.target) for node in between if node.target in _MOVES})
    if moved:
        return f"the collective and the GEMM are separated by {', '.join(moved)}"
    return "the GEMM and the collective are separated by an addition that is not a sum of GEMMs"


def _type_of(node: Any) -> str:
    """Returns the element type and the shape of a node's value, such as "float32 8x64"."""
    value = value_of(node)
    if value is None:
        return "?"
    return f"{value.dtype} {'x'.join(map(str, value.shape))}".replace("torch.", "")


def _replace(collective: Node, direction: str) -> None:
    """Replaces a collective and the GEMMs next to it, if possible, and records the site."""
    path = _find_gemm(collective)
    if path is None:
        return
    *_, group = [*collective.args, *collective.kwargs.values()]
    name, replace = _COLLECTIVES[collective.target]
    site = _report.Site(name, str(group), _type_of(collective.args[0]), str(path[-1].target),
                        direction, 1, "")
    try:
        replace(collective)
    except Refused as why:
        site = site._replace(reason=str(why) or _reason(path))
    _report.count(site)


class _After(CustomGraphPass):
    """A pass that runs after the user's pass, if any."""

    def __init__(self, first: Any = None) -> None:
        self._first = first

    def uuid(self) -> Any:
        """Returns what the result depends on besides the graph. Inductor's disk cache loads a graph
        only if this is equal. Returns None, which disables the cache, if the user's pass does."""
        first = self._first.uuid() if isinstance(self._first, CustomGraphPass) else None
        if _DIGEST is None or (self._first is not None and not first):
            return None
        # An all-reduce does not contain the number of ranks, so a graph depends on the groups.
        groups = sorted((name, group.size())
                        for group, name in distributed_c10d._world.pg_names.items())
        return type(self).__name__, _DIGEST, groups, first


class Pass(_After):
    """A pass that runs after all of PyTorch's passes, and after the user's pass, if any."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self._first is not None:
            self._first(graph)
        is_backward = any(node.op == "placeholder" and node.name.startswith("tangents")
                          for node in graph.nodes)
        for node in [node for node in graph.nodes if node.target in _COLLECTIVES]:
            _replace(node, "backward" if is_backward else "forward")
        stable_topological_sort(graph)
        if is_backward:
            _beside.overlap(graph)


class KeepShards(_After):
    """A pass over joint graphs of the forward and the backward pass that makes the backward pass
    gather again what GEMMs of the forward pass multiply, instead of saving it."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self._first is not None:
            self._first(graph)
        backward = {node for node in graph.nodes
                    if node.op == "placeholder" and node.name.startswith("tangents")}
        for node in graph.nodes:  # in topological order
            if not backward.isdisjoint(node.all_input_nodes):
                backward.add(node)
            elif node.target is GATHER and _find_gemm(node):
                _recompute(node)


def _recompute(node: Node) -> None:
    """Marks a gather, and the nodes that wait for and move its result, for recomputation."""
    node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    node.meta["ac_graph_id"] = _CHECKPOINT
    for user in node.users:
        if user.target is _c10d.wait_tensor.default or user.target in _MOVES:
            _recompute(user)


def behind(first: Any, kind: Any) -> Any:
    """Returns a pass of `kind`, after the configured `first`, if any: as a list, or as one pass if
    this version of PyTorch does not accept lists."""
    if first is not None and hasattr(custom_graph_pass, "get_custom_graph_passes"):
        return [*custom_graph_pass.get_custom_graph_passes(first), kind()]
    return kind(first)
