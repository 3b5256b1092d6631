"""Runs the linear layers of Megatron-LM's transformers with Braid.

    GPTModel(config, transformer_layer_spec=braid.megatron.layer_spec(), ...)

or, with the scripts of the Megatron-LM repository, `--spec braid.megatron layer_spec`. Requires
megatron-core 0.16 or newer. See docs/frameworks/megatron.md.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional, Tuple

import torch

from braid.torch import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from braid.torch._column import column_linear
from braid.torch._group import name_of

try:
    from megatron.core.models.gpt import (  # type: ignore[import,unused-ignore]
        gpt_layer_specs as specs)
    from megatron.core.tensor_parallel import (  # type: ignore[import,unused-ignore]
        layers as theirs)
    from megatron.core.transformer.spec_utils import (  # type: ignore[import,unused-ignore]
        ModuleSpec)
except ImportError as error:
    raise ImportError("braid.megatron requires the package megatron-core, 0.16 or newer, which "
                      f"could not be imported: {error}", name="megatron") from error

Tensor = torch.Tensor


def _is_theirs(layer: Any) -> bool:
    """Returns True if Megatron runs the layer: nothing is communicated, or it belongs to an expert,
    or weight gradients are fused with their accumulation, or activations are offloaded."""
    return bool(layer.tp_group is None or layer.tp_group.size() == 1 or layer.explicit_expert_comm
                or layer.gradient_accumulation_fusion or layer.config.cpu_offloading)


class ColumnParallelLinear(theirs.ColumnParallelLinear):  # type: ignore[misc,unused-ignore]
    """Megatron's layer of this name. With sequence parallelism, the input is gathered during the
    GEMM, again during the backward pass's GEMMs, and its gradient is reduce-scattered. Otherwise,
    the gradient of the input is summed over the ranks."""

    def _forward_impl(self, input: Tensor, weight: Tensor, **options: Any) -> Any:
        sums, gathers = options["allreduce_dgrad"], options["sequence_parallel"]
        is_delayed = options.get("grad_output_buffer") is not None
        if _is_theirs(self) or is_delayed or not (sums or gathers):
            return super()._forward_impl(input=input, weight=weight, **options)
        bias, name = options["bias"], name_of(self.tp_group)
        if gathers:
            return all_gather_matmul(input, weight.t(), name, bias=bias, keep="shard")
        return column_linear(input, weight, bias, name)


class RowParallelLinear(theirs.RowParallelLinear):  # type: ignore[misc,unused-ignore]
    """Megatron's layer of this name. The result is reduce-scattered during the GEMM with sequence
    parallelism, and summed over the ranks otherwise."""

    def forward(self, input_: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        """Maps [sequence, batch, input_size / ranks] to the output, and the bias if it is to be
        added by the caller."""
        if _is_theirs(self) or not self.input_is_parallel:
            result: Tuple[Tensor, Optional[Tensor]] = super().forward(input_)
            return result
        reduce = matmul_reduce_scatter if self.sequence_parallel else matmul_all_reduce
        output = reduce(input_, self.weight.t(), self.tp_group)
        if self.skip_bias_add:
            return output, self.bias
        # Megatron sums the gradients of a bias over the ranks that added it to their rows.
        return output if self.bias is None else output + self.bias, None


_LAYERS: Dict[Any, Any] = {theirs.ColumnParallelLinear: ColumnParallelLinear,
                           theirs.RowParallelLinear: RowParallelLinear}
# Multi-latent attention compares the classes of these layers, which do not communicate, with
# Megatron's own.
_KEPT = ("linear_q_down_proj", "linear_kv_down_proj")


def _with_braid(part: Any) -> Any:
    """Returns a copy of a part of a specification in which Braid runs the linear layers."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return dataclasses.replace(part, **{
            field.name: _with_braid(getattr(part, field.name))
            for field in dataclasses.fields(part) if field.init and field.name not in _KEPT})
    return _LAYERS.get(part, part) if isinstance(part, type) else part


class _LayerSpec(ModuleSpec):  # type: ignore[misc,unused-ignore]
    """The specification of a layer, which can be called for one with other options."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Returns the specification for `options`, those of get_gpt_layer_local_spec(). Builds the
        layer, as Megatron's specifications do, if the arguments are those of a layer."""
        if arguments or "config" in options:
            return super().__call__(*arguments, **options)
        return _with_braid(specs.get_gpt_layer_local_spec(**options))


def _spec() -> Any:
    made = _with_braid(specs.get_gpt_layer_local_spec())
    return _LayerSpec(**{field.name: getattr(made, field.name)
                         for field in dataclasses.fields(made)})


layer_spec = _spec()
