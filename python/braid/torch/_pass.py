"""The pass that enable() adds to Inductor: replaces collectives next to GEMMs, and reports them."""
from __future__ import annotations

import operator
import uuid
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import stable_topological_sort

from braid.torch._fused import FUSED
from braid.torch._report import Place, record
from braid.torch._sites import (ALL_REDUCE, COLLECTIVES, GATHER, SCATTER, Refused,
                                replace_all_reduce, replace_gather, replace_scatter)

aten, prims = torch.ops.aten, torch.ops.prims
_c10d = torch.ops._c10d_functional

_KINDS = {"mm": "", "addmm": "", "bmm": "the GEMM is batched (bmm)",
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
_BETWEEN = _CASTS | _VIEWS | _PARTS | {_c10d.wait_tensor.default, aten.add.Tensor}
_MOST_STEPS = 12  # the maximum number of nodes between a collective and a GEMM
# Advice if the element type is converted before a reduction or after a gather, respectively.
_ADVICE = ("reduce in {0}, then convert the result",
           "gather x.to(torch.{0}), or keep the model's parameters in {0}")

Node = torch.fx.Node
Path = Tuple[Node, ...]  # from a collective to a GEMM, inclusive

_REPLACE: Dict[Any, Any] = {GATHER: (replace_gather, FUSED["gather_gemms"]),
            SCATTER: (replace_scatter, FUSED["sum_scatter"]),
            ALL_REDUCE: (replace_all_reduce, FUSED["sum_all_reduce"])}


def _find_gemm(collective: Node) -> Optional[Path]:
    """Returns the shortest path, if any, to a GEMM through nodes that move, convert or add data."""
    is_forwards = collective.target is GATHER
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


def _reason(path: Path) -> str:
    """Returns why a collective is not replaced, if replacing it did not yield a reason."""
    between, gemm = path[1:-1], path[-1]
    is_forwards = path[0].target is GATHER
    if _GEMMS[gemm.target]:
        return _GEMMS[gemm.target]
    if any(node.target in _CASTS for node in between):
        return ("the element type is converted between the GEMM and the collective, for example by "
                "autocast: " + _ADVICE[is_forwards].format(_type_of(gemm)[0]))
    arguments: Any = gemm.args
    if is_forwards and arguments[-2] not in path:
        return "the collective's result is the GEMM's second operand"
    moved = sorted({str(node.target) for node in between if node.target in _VIEWS | _PARTS})
    if moved:
        return f"the collective and the GEMM are separated by {', '.join(moved)}"
    return "the GEMM and the collective are separated by an addition that is not a sum of GEMMs"


def _type_of(node: Any) -> List[str]:
    """Returns the element type and the shape of a node's value, such as ["float32", "8x64"]."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor):
        return ["?"]
    return [str(value.dtype).replace("torch.", ""), "x".join(map(str, value.shape))]


def _replace(collective: Node, is_backward: bool) -> None:
    """Replaces a collective and the GEMMs next to it, if possible, and records the site."""
    path = _find_gemm(collective)
    if path is None:
        return
    *_, group = [*collective.args, *collective.kwargs.values()]
    place = Place(COLLECTIVES[collective.target], str(group),
                  " ".join(_type_of(collective.args[0])), str(path[-1].target),
                  "backward" if is_backward else "forward")
    replace, operator_ = _REPLACE[collective.target]
    try:
        replace(collective, operator_)
    except Refused as why:
        record(place, str(why) or _reason(path))
    else:
        record(place, "")


class Pass(CustomGraphPass):
    """A pass that runs after all of PyTorch's passes, and after the user's pass, if any."""

    def __init__(self, first: Any = None) -> None:
        self._first = first
        # A unique ID disables Inductor's cache, because this pass would not see a cached graph.
        self._uuid = f"braid {uuid.uuid4()}"

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self._first is not None:
            self._first(graph)
        is_backward = any(node.op == "placeholder" and node.name.startswith("tangents")
                          for node in graph.nodes)
        for node in [node for node in graph.nodes if node.target in COLLECTIVES]:
            _replace(node, is_backward)
        stable_topological_sort(graph)

    def uuid(self) -> str:
        return self._uuid


def behind(first: Any) -> Any:
    """Returns a pass, or a list of passes, that runs Pass after the configured `first`."""
    return [*first, Pass()] if isinstance(first, (list, tuple)) else Pass(first)
