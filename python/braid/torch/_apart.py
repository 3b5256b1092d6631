"""Finds collectives that Inductor does not fuse with an adjacent GEMM.

Inductor's async tensor parallelism fuses every match of its patterns, even if Braid has no operator
for the match, and does not report collectives that match no pattern. Gates restrict the fusions to
the operations that Braid supports. A pass then records each remaining collective next to a GEMM,
with the reason if the graph shows it.
"""
from __future__ import annotations

import operator
import uuid
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.fx_passes import micro_pipeline_tp

from braid.torch._operations import why_not
from braid.torch._report import Apart, apart
from braid.torch._strides import keep_strides
from braid.torch._takeover import OURS, pytorch_fuses

theirs: Any = micro_pipeline_tp

aten, prims = torch.ops.aten, torch.ops.prims
_c10d = torch.ops._c10d_functional

_KINDS = {"mm": "", "addmm": "the GEMM adds a bias (addmm)", "bmm": "the GEMM is batched (bmm)",
          "baddbmm": "the GEMM is batched (baddbmm)", "_grouped_mm": "the GEMM is grouped",
          **dict.fromkeys(("_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm",
                           "_scaled_grouped_mm_v2"), "the GEMM is scaled")}
_GEMMS: Dict[Any, str] = {getattr(aten, name).default: why for name, why in _KINDS.items()
                          if hasattr(aten, name)}
_CASTS = {prims.convert_element_type.default, aten._to_copy.default}
_VIEWS = {aten.reshape.default, aten.view.default, aten._unsafe_view.default, aten.permute.default,
          aten.view.dtype, aten.t.default, aten.transpose.int, aten.unsqueeze.default,
          aten.squeeze.dim,
          aten.expand.default, aten.clone.default, aten.slice.Tensor, aten.select.int}
# Nodes that implement a collective along an axis other than the first.
_PARTS = {aten.split.Tensor, aten.split_with_sizes.default, aten.cat.default, operator.getitem}
_BETWEEN = _CASTS | _VIEWS | _PARTS | {_c10d.wait_tensor.default}
_COLLECTIVES: Dict[Any, str] = {_c10d.all_gather_into_tensor.default: "all_gather",
                _c10d.reduce_scatter_tensor.default: "reduce_scatter",
                _c10d.all_reduce.default: "all_reduce"}
_MOST_STEPS = 12  # the maximum number of nodes between a collective and a GEMM
_REASON, _OURS = "braid: reason", "braid: operator"  # keys in node.meta
# Advice if the element type is converted before a reduction or after a gather, respectively.
_ADVICE = ("reduce in {0}, and convert the result",
           "gather x.to(torch.{0}), or keep the model's parameters in {0}")

Node = torch.fx.Node
Path = Tuple[Node, ...]  # from a collective to a GEMM, inclusive


def _find_gemm(collective: Node, is_forwards: bool) -> Optional[Path]:
    """Returns the shortest path, if any, to a GEMM through nodes that only move or convert data."""
    paths: List[Path] = [(collective,)]
    for _ in range(_MOST_STEPS):
        longer: List[Path] = []
        for path in paths:
            last = path[-1]
            for node in last.users if is_forwards else last.all_input_nodes:
                if node.target in _GEMMS:
                    return (*path, node)
                if node.target in _BETWEEN and node not in path:
                    longer.append((*path, node))
        paths = longer
    return None


def _reason(path: Path, is_forwards: bool) -> str:
    collective, between, gemm = path[0], path[1:-1], path[-1]
    if _REASON in collective.meta:
        return str(collective.meta[_REASON])
    if collective.target is _c10d.all_reduce.default:
        return "all-reduces are not replaced: call braid.torch.matmul_all_reduce() instead"
    if _GEMMS[gemm.target]:
        return _GEMMS[gemm.target]
    if any(node.target in _CASTS for node in between):
        return ("the element type is converted between the GEMM and the collective, as by "
                "autocast: " +
                _ADVICE[is_forwards].format(_type_of(gemm)[0]))
    if is_forwards and gemm.args[0] not in path:
        return "the collective's result is the GEMM's second operand"
    if not is_forwards and len(gemm.users) > 1:
        return "the GEMM's result is also used elsewhere"
    moved = sorted({str(node.target) for node in between if node.target in _VIEWS})
    if moved:
        return f"{', '.join(moved)} between the collective and the GEMM"
    return "PyTorch's fusion pass does not match this pattern"


def _type_of(node: Any) -> List[str]:
    """Returns the element type and the shape of a node's value, such as ["float32", "8x64"]."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor):
        return ["?"]
    return [str(value.dtype).replace("torch.", ""), "x".join(map(str, value.shape))]


def note(collective: Node) -> None:
    is_forwards = collective.target is _c10d.all_gather_into_tensor.default
    path = _find_gemm(collective, is_forwards)
    if path:
        *_, group = [*collective.args, *collective.kwargs.values()]
        found = Apart(_COLLECTIVES[collective.target], str(group),
                      " ".join(_type_of(collective.args[0])), str(path[-1].target),
                      _reason(path, is_forwards))
        if found not in apart:  # a recompiled graph's collectives are already recorded
            apart.append(found)


# -- Restricting the fusions in PyTorch's pass. --

def _why_not(matmuls: List[Any], A: Node, dim: int, reduce_op: str = "sum") -> str:
    """Returns why Braid cannot fuse GEMMs that match a pattern, or "" if it can."""
    if any(isinstance(each, theirs._ScaledMatmul) for each in matmuls):
        return "the GEMM is scaled"
    tensors = [each.meta.get("val") for each in (A, *(each.B_node for each in matmuls))]
    if not matmuls or not all(isinstance(each, torch.Tensor) for each in tensors):
        return ""
    return why_not(tensors, dim, reduce_op)


def _why_not_gather(match: Any) -> str:
    matmuls = theirs._find_consumer_matmuls(match.res_node)
    return _why_not(matmuls, match.shard_node, match.gather_dim)


def _why_not_scatter(match: Any) -> str:
    matmul = theirs._find_producer_matmul(match.input_node)
    return matmul and _why_not([matmul], matmul.A_node, match.scatter_dim, match.reduce_op) or ""


def _gate(fuse: Callable[[Any], None], reason_of: Callable[[Any], str],
          collective: str) -> Callable[[Any], None]:
    def fuse_what_braid_takes(match: Any) -> None:
        node, reason = getattr(match, collective), reason_of(match)
        if reason and not pytorch_fuses(match.group_name):
            node.meta[_REASON] = reason
            return
        graph, before = node.graph, set(node.graph.nodes)
        fuse(match)
        for each in graph.nodes:
            if each not in before and each.target in OURS and not reason:
                each.meta[_OURS] = OURS[each.target]
    return fuse_what_braid_takes


def gates() -> Dict[str, Callable[[Any], None]]:
    """Returns replacements for PyTorch's functions that fuse a match, keyed by function name."""
    return {
        "fuse_all_gather_matmul": _gate(theirs.fuse_all_gather_matmul, _why_not_gather, "ag_node"),
        "fuse_matmul_reduce_scatter": _gate(theirs.fuse_matmul_reduce_scatter, _why_not_scatter,
                                            "reduce_scatter_node")}


class FindApart(CustomGraphPass):
    """A pass that runs after all of PyTorch's passes, and after the user's pass, if any."""

    def __init__(self, first: Any = None) -> None:
        self._first = first
        # A unique ID disables Inductor's cache, because this pass would not see a cached graph.
        self._uuid = f"braid {uuid.uuid4()}"

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self._first is not None:
            self._first(graph)
        keep_strides(graph)
        for node in graph.nodes:
            if node.target in _COLLECTIVES:
                note(node)
            node.target = node.meta.get(_OURS, node.target)

    def uuid(self) -> str:
        return self._uuid


def behind(first: Any) -> Any:
    """Returns a pass, or a list of passes, that runs FindApart after the configured `first`."""
    return [*first, FindApart()] if isinstance(first, (list, tuple)) else FindApart(first)
