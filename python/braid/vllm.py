"""A plugin of vLLM that runs Braid's operators in the models that vLLM compiles.

vLLM loads the plugin in each of its processes if the package braid is installed. Follows vLLM 0.33.
See docs/frameworks/vllm.md.
"""
from __future__ import annotations

import functools
import warnings
from typing import Any, Dict, List, NamedTuple, Tuple

import torch
from torch._inductor.custom_graph_pass import get_hash_for_files
from torch.fx.node import map_arg

import braid.torch
from braid.torch._pass import Pass
from braid.torch._rearrange import value_of
from braid.torch._sites import ALL_REDUCE, GATHER, SCATTER, insert

# vLLM skips a plugin whose import fails, but does not start if register() raises an exception. So
# what register() needs is imported here. What is slow to import is imported where it is used.
try:
    from vllm import config as vllm_config  # type: ignore[import,unused-ignore]
    from vllm.compilation import wrapper  # type: ignore[import,unused-ignore]
    from vllm.compilation.passes import inductor_pass  # type: ignore[import,unused-ignore]
except ImportError as error:
    raise ImportError("braid.vllm requires the package vllm, 0.33, which could not be imported: "
                      f"{error}", name="vllm") from error

Node = torch.fx.Node
_Base: Any = inductor_pass.InductorPass
_Model: Any = wrapper.TorchCompileWithNoGuardsWrapper  # the base class of compiled models
_COMPILED: Any = vllm_config.CompilationMode.VLLM_COMPILE
_SLOT = "post_grad_custom_post_pass"
_WAIT = torch.ops._c10d_functional.wait_tensor.default
_COLLECTIVES = {"vllm.all_reduce.default": ALL_REDUCE, "vllm.reduce_scatter.default": SCATTER,
                "vllm.all_gather.default": GATHER}


class _Theirs(NamedTuple):
    """A node that calls vLLM's operator, before it was expressed by PyTorch's collective."""

    node: Node
    target: Any
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]

    def restore(self) -> None:
        """Makes the node call vLLM's operator again, unless the node was replaced."""
        node = self.node
        if node._erased:
            return
        collective: Any = node.args[0]
        # The tensor is the only argument that is a node. It may have been replaced since.
        node.args, node.kwargs = map_arg((self.args, self.kwargs), lambda _: collective.args[0])
        node.target = self.target
        node.graph.erase_node(collective)


def _name_of(group: str) -> str:
    """Returns PyTorch's name of the group that vLLM calls `group`, such as "tp:0"."""
    from vllm.distributed import parallel_state  # type: ignore[import,unused-ignore]
    return str(parallel_state._groups[group]().device_group.group_name)


def _express(node: Node) -> _Theirs:
    """Expresses vLLM's collective along the first axis by PyTorch's collective: `node` becomes the
    wait for its result."""
    theirs = _Theirs(node, node.target, node.args, node.kwargs)
    values, target = _arguments(node), _COLLECTIVES[str(node.target)]
    more: List[Any] = [] if target is GATHER else ["sum"]
    more += [] if target is ALL_REDUCE else [values["world_size"]]
    with node.graph.inserting_before(node):
        collective = insert(node.graph, target,
                            (values["tensor"], *more, _name_of(values["group_name"])))
    node.target, node.args, node.kwargs = _WAIT, (collective,), {}
    return theirs


def _arguments(node: Any) -> Dict[str, Any]:
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args)), **node.kwargs}


def _is_supported(node: Node) -> bool:
    if str(node.target) not in _COLLECTIVES:
        return False
    values, value = _arguments(node), value_of(node)
    return value is not None and value.dim() > 0 and values.get("dim", 0) % value.dim() == 0


class CollectivesPass(_Base):  # type: ignore[misc]
    """The pass that replaces vLLM's collectives next to GEMMs. It leaves other nodes as they were.

    first: the user's pass, which runs before this one, or None.
    replaces: if False, nothing is replaced.
    """

    def __init__(self, first: Any) -> None:
        self.first, self.replaces = first, True

    def __call__(self, graph: torch.fx.Graph) -> None:
        compiled = inductor_pass.get_pass_context().compile_range  # the numbers of rows
        if self.first is not None and self.first.is_applicable_for_range(compiled):
            self.first(graph)
        if self.replaces:
            theirs = [_express(node) for node in list(graph.nodes) if _is_supported(node)]
            Pass()(graph)
            for each in theirs:
                each.restore()

    def uuid(self) -> str:
        """Returns a digest of what the result depends on besides the graph, for the keys of vLLM's
        caches. Contains the groups, whose names compiled graphs contain."""
        first = None if self.first is None else self.first.uuid()
        return get_hash_for_files((__file__,), repr((Pass().uuid(), self.replaces, first))).hex()


def _has_bias_of_one_rank(model: Any) -> bool:
    """Returns True if the first rank adds a bias before an all-reduce, and other ranks do not."""
    from vllm.model_executor.layers import linear  # type: ignore[import,unused-ignore]
    return any(isinstance(layer, linear.RowParallelLinear) and layer.reduce_results
               and layer.tp_size > 1 and layer.bias is not None and not layer.skip_bias_add
               for layer in model.modules())


def _add_pass(model: Any, config: Any) -> None:
    """Adds the pass to the configuration with which `model` will be compiled."""
    compilation = config.compilation_config
    if (compilation.mode != _COMPILED or compilation.backend != "inductor"
            or config.parallel_config.tensor_parallel_size == 1):
        return
    slots: Dict[str, Any] = compilation.inductor_compile_config
    if not isinstance(slots.get(_SLOT), CollectivesPass):
        slots[_SLOT] = CollectivesPass(slots.get(_SLOT))
    if _has_bias_of_one_rank(model):
        # The graphs of the ranks differ. A collective that is replaced on some ranks would hang.
        slots[_SLOT].replaces = False
        warnings.warn(f"Braid does not replace collectives in {type(model).__name__}, because its "
                      "RowParallelLinear layers add a bias on the first rank only", stacklevel=2)


_is_registered = False


def register() -> None:
    """Enables Braid in this process, and adds its pass to each model that vLLM compiles for several
    tensor-parallel ranks. vLLM calls this function before it loads the model. Idempotent."""
    global _is_registered
    braid.torch.enable()  # also for graphs from vLLM's caches, which contain Braid's operators
    if _is_registered:
        return
    _is_registered, before = True, _Model.__init__

    @functools.wraps(before)
    def init(model: Any, *arguments: Any, **options: Any) -> None:
        # Each compiled model calls this when its layers exist, before vLLM computes cache keys.
        _add_pass(model, vllm_config.get_current_vllm_config())
        before(model, *arguments, **options)
    _Model.__init__ = init
