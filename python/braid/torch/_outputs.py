"""The output tensors of a run."""
from __future__ import annotations

import math
from typing import List, NamedTuple, Tuple

import torch

from braid.torch._layout import Layout

Tensor = torch.Tensor


class Output(NamedTuple):
    """An output tensor of a run. Each row is contiguous in memory, whichever axis indexes rows."""

    shape: Tuple[int, ...]
    stride: Tuple[int, ...]
    elements: int  # allocated elements, including padding rows
    is_all: bool  # True if there are no padding rows

    def make(self, like: Tensor) -> Tuple[Tensor, int]:
        """Returns a new tensor and its address, which PyTorch does not report for an empty tensor.
        The tensor is not a view of another tensor, so callers may modify it in place."""
        if self.is_all:
            tensor = like.new_empty_strided(self.shape, self.stride)
            return tensor, tensor.data_ptr()
        memory = like.new_empty(self.elements)
        tensor = like.new_empty(0)
        tensor.set_(memory.untyped_storage(), 0, self.shape, self.stride)
        return tensor, memory.data_ptr()


def outputs_of(layout: Layout, rank: int, count: int, dim: int,
               others: Tuple[int, ...]) -> List[Output]:
    """Returns the outputs of an operator. `count` is the total extent of `dim` over all ranks.
    `others` contains the extents of the other axes, except the last one."""
    rows = layout.rows
    full, existing = rows.full, count
    if layout.operator == "matmul_reduce_scatter":
        full, existing = rows.block * rows.beside, rows.of(rank)
    if layout.operator == "matmul_all_reduce" and rows.total < rows.ranks:
        full = rows.total
    columns = [weight.columns for weight in layout.weights]
    columns += [layout.depth] if layout.returns_gathered else []
    return [_output(existing, others, dim, full, width) for width in columns]


def _output(rows: int, others: Tuple[int, ...], dim: int, full: int, columns: int) -> Output:
    shape = [*others, columns]
    apart = [max(1, extent) for extent in shape]  # like PyTorch's strides of empty tensors
    stride = [math.prod(apart[axis + 1:]) for axis in range(len(shape))]
    shape.insert(dim, rows)
    stride.insert(dim, math.prod(apart))
    elements = full * columns
    return Output(tuple(shape), tuple(stride), elements, elements == math.prod(shape))
