"""The tensors that a run makes."""
from __future__ import annotations

import math
from typing import List, NamedTuple, Tuple

import torch

from braid.torch._layout import Layout

Tensor = torch.Tensor


class Output(NamedTuple):
    """A tensor that a run makes: rows lie together, wherever `dim` is."""

    shape: Tuple[int, ...]
    stride: Tuple[int, ...]
    elements: int  # of its memory, which has the rows that do not exist, too
    is_all: bool  # no row is missing

    def make(self, like: Tensor) -> Tuple[Tensor, int]:
        """A new one, no view of another: callers may write into it as they like. Its address, which
        a tensor of no rows does not tell."""
        if self.is_all:
            tensor = like.new_empty_strided(self.shape, self.stride)
            return tensor, tensor.data_ptr()
        memory = like.new_empty(self.elements)
        tensor = like.new_empty(0)
        tensor.set_(memory.untyped_storage(), 0, self.shape, self.stride)
        return tensor, memory.data_ptr()


def outputs_of(layout: Layout, rank: int, dim: int, others: Tuple[int, ...]) -> List[Output]:
    rows = layout.rows
    if layout.operator == "matmul_reduce_scatter":
        full, existing = rows.block * rows.beside, rows.of(rank)
    else:
        full, existing = rows.full, rows.total
    if layout.operator == "matmul_all_reduce":
        full = full if existing >= rows.ranks else existing
        existing //= math.prod(others)
    columns = [weight.columns for weight in layout.weights]
    columns += [layout.depth] if layout.returns_gathered else []
    return [_output(existing, others, dim, full, width) for width in columns]


def _output(rows: int, others: Tuple[int, ...], dim: int, full: int, columns: int) -> Output:
    shape, stride = list(others) + [columns], [1] * (len(others) + 1)
    for axis in reversed(range(len(others))):
        stride[axis] = stride[axis + 1] * shape[axis + 1]
    shape.insert(dim, rows)
    stride.insert(dim, math.prod(others) * columns)
    elements = full * columns
    return Output(tuple(shape), tuple(stride), elements, elements == math.prod(shape))
