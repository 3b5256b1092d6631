"""Runs the tensor-parallel linear layers of Hugging Face transformers with Braid.

    config = DistributedConfig(tp_size=2)
    model = AutoModelForCausalLM.from_pretrained(name, distributed_config=config)
    braid.transformers.parallelize(model)

Importing this module also adds two styles to the table of transformers, "braid_colwise" and
"braid_rowwise", for tensor-parallel plans that name the layers one by one. Requires transformers
5.17 or newer. See docs/frameworks/transformers.md.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

from braid._errors import InputError
from braid.torch import matmul_all_reduce
from braid.torch._column import column_linear
from braid.torch._group import name_of
from braid.torch._operations import DTYPES

try:
    from transformers.distributed import (  # type: ignore[import,unused-ignore]
        tensor_parallel as _tensor_parallel)
except ImportError as error:
    raise ImportError("braid.transformers requires the package transformers, 5.17 or newer, which "
                      f"could not be imported: {error}", name="transformers") from error

Tensor = torch.Tensor
theirs: Any = _tensor_parallel


def _row(x: Tensor, weight: Tensor, bias: Any, name: str) -> Tensor:
    return matmul_all_reduce(x, weight.t(), name, bias=bias)


# For each style of transformers: the function that runs a layer, and the axis along which ranks
# split its weight. A bias is split like the rows of the weight, or is the same on all ranks.
_STYLES: Dict[str, Tuple[Callable[..., Tensor], int]] = {"colwise": (column_linear, 0),
                                                         "rowwise": (_row, 1)}


def _runs(module: Any, axis: int) -> bool:
    """Returns True if Braid can run the layer. The same on all ranks."""
    weight, bias = module.weight, module.bias
    return (type(module) is torch.nn.Linear and isinstance(weight, DTensor)
            and weight.dtype in DTYPES and weight.placements == (Shard(axis),)
            and weight.shape[axis] % weight.device_mesh.size() == 0
            and (bias is None or (isinstance(bias, DTensor) and bias.dtype == weight.dtype and
                                  bias.placements == ((Replicate() if axis else Shard(0)),))))


def _replace(module: Any, style: str, mesh: Any) -> None:
    """Lets Braid run a linear layer that transformers runs in parallel. Each call with a DTensor,
    or of a layer that is quantized or is not split evenly, still runs as before."""
    (function, axis), name, before = _STYLES[style], name_of(mesh), module.forward

    def forward(x: Tensor) -> Tensor:
        if isinstance(x, DTensor) or x.dim() < 2 or x.numel() == 0 or not _runs(module, axis):
            result: Tensor = before(x)
            return result
        bias = None if module.bias is None else module.bias.to_local()
        return function(x, module.weight.to_local(), bias, name)

    module.forward = forward
    module.braid_style = style


def _style(name: str, base: Any) -> Any:
    """Returns a style that shards a layer as `base` does, and lets Braid run it."""
    def install_forward(self: Any, module: Any, mesh: Any) -> Any:
        base.install_forward(self, module, mesh)
        _replace(module, name, mesh)
        return module
    return type(f"Braid{base.__name__}", (base,), {"install_forward": install_forward})()


theirs.ALL_PARALLEL_STYLES.register("braid_colwise", _style("colwise", theirs.ColwiseParallel))
theirs.ALL_PARALLEL_STYLES.register("braid_rowwise", _style("rowwise", theirs.RowwiseParallel))


def parallelize(model: Any) -> Any:
    """Lets Braid run the linear layers of a sharded model whose styles are "colwise" and "rowwise".

    model: a model that transformers has loaded with a tensor-parallel plan. The other layers, the
        weights and the names of the parameters do not change.

    Returns the model. Does not communicate; all ranks must call it before they compile or wrap the
    model.
    """
    count, plan = 0, getattr(model, "tp_plan", None) or {}
    for name, module in model.named_modules():
        style = plan.get(theirs.replace_layer_number_by_wildcard(name))
        if style in _STYLES and isinstance(getattr(module, "weight", None), DTensor):
            count += 1
            if not hasattr(module, "braid_style"):
                mesh = module.weight.device_mesh  # with FSDP2, one of its dimensions is "tp"
                _replace(module, style, mesh["tp"] if mesh.ndim > 1 else mesh)
    if count == 0:
        raise InputError("expected a model with layers that transformers has split, loaded with "
                         "distributed_config=DistributedConfig(tp_size=...), got a "
                         f"{type(model).__name__} that has none")
    return model
