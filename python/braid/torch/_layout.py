"""Builds an operator's fusion from the shapes and layouts of its tensors.

"Rows" refers to the axis that is gathered or scattered, split as by `torch.chunk`. The rows are the
first axis of every tensor in a fusion; tensors with a different axis order are copied.
"""
from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple

from braid._errors import InputError
from braid._fusion import AxisLike, Fusion, Value, ceil, didx, stream

ACTIVATIONS = ("", "relu", "gelu", "gelu_tanh", "silu")


class Rows(NamedTuple):
    """`total` rows, split among `ranks` ranks. Each row consists of `beside` vectors."""

    total: int
    beside: int
    ranks: int

    @property
    def block(self) -> int:
        return -(-self.total // self.ranks)

    def of(self, rank: int) -> int:
        """Returns the number of rows on `rank`."""
        return max(0, min(self.block, self.total - rank * self.block))

    @property
    def are_even(self) -> bool:
        return self.total % self.ranks == 0

    @property
    def full(self) -> int:
        """The number of vectors on all ranks, with every block padded to full size."""
        return self.ranks * self.block * self.beside


class Weight(NamedTuple):
    """One weight matrix. `columns` is the number of columns on this rank."""

    columns: int
    is_transposed: bool  # stored as [columns, depth], like PyTorch's linear
    has_bias: bool


class Layout(NamedTuple):
    """An operator together with the shapes and layouts of its tensors."""

    operator: str
    dtype: str
    rows: Rows
    depth: int  # K on this rank
    weights: Tuple[Weight, ...]
    activation: str
    returns_gathered: bool = False

    @property
    def is_empty(self) -> bool:
        """True if every result is empty, so that nothing is computed or transferred."""
        has_columns = self.returns_gathered or any(each.columns for each in self.weights)
        return self.rows.full == 0 or not has_columns

    @property
    def extents(self) -> Tuple[int, int, int]:
        """M, N and K, where M counts the rows of all ranks, and N and K are local."""
        return (self.rows.total * self.rows.beside, sum(each.columns for each in self.weights),
                self.depth)

    @property
    def shape(self) -> str:
        """The element type and extents for messages, such as "bf16 4096x14336x8192"."""
        return f"{self.dtype} " + "x".join(map(str, self.extents))

    @property
    def name(self) -> str:
        """The name of the fusion, as shown in messages."""
        return f"{self.operator}_{self.shape.replace(' ', '_')}"

    def fusion(self) -> Fusion:
        """Returns the fusion. The inputs are A, followed by each weight and its bias, if any. The
        outputs are Y, Y1, ..., followed by the gathered A if it is requested."""
        f = Fusion(self.name)
        f.mesh(self.rows.ranks)
        rows, contracted, result = _axes(self)
        A = f.input("A", self.dtype, [*rows, *contracted, self.depth])
        outputs = _products(self, f, A, contracted, result)
        if self.returns_gathered:
            outputs.append(f.reshard("G", A, self.dtype, [*result, self.depth]))
        f.output(*outputs)
        return f


def check_activation(activation: str) -> None:
    """Raises InputError if no kernel supports `activation`."""
    if activation not in ACTIVATIONS:
        raise InputError(f"expected an activation ({', '.join(ACTIVATIONS[1:])}) or None, got "
                         f"'{activation}'")


def check(layout: Layout) -> None:
    """Raises InputError if the activation is unknown, or if some but not all extents are 0."""
    check_activation(layout.activation)
    least = min(*layout.extents, *(weight.columns for weight in layout.weights))
    if least < 1 and not layout.is_empty:
        raise InputError(f"{layout.operator}: the result of {layout.shape} is not empty, but an "
                         "operand is: pass operands whose extents are all at least 1")


def _row_axes(rows: Rows, first: AxisLike) -> List[AxisLike]:
    """Returns the row axes. `first` is the axis with one entry per rank."""
    if rows.are_even:
        return [first, rows.block * rows.beside]
    block = ceil(rows.total, rows.ranks)
    return [first, block] if rows.beside == 1 else [first, block, rows.beside]


def _axes(layout: Layout) -> Tuple[List[AxisLike], List[AxisLike], List[AxisLike]]:
    """Returns the row axes of A, the axes that precede the depth, and the row axes of the results.
    An all-reduce splits the rows if there is at least one row per rank, so that each rank can sum
    one block."""
    rows, D = layout.rows, layout.rows.ranks
    if layout.operator == "all_gather_matmul":
        return _row_axes(rows, didx(D)), [], _row_axes(rows, stream(D))
    whole = _row_axes(rows, D)
    if layout.operator == "matmul_reduce_scatter":
        return whole, [didx(D)], _row_axes(rows, didx(D))
    if rows.total * rows.beside < D or D == 1:
        whole = [rows.total * rows.beside]
    return whole, [didx(D)], whole


def _products(layout: Layout, fusion: Fusion, A: Value, outer: Sequence[AxisLike],
              result: Sequence[AxisLike]) -> List[Value]:
    """Adds a GEMM and the activation for each weight. `outer` contains the axes that precede the
    depth in A and in the weights; the GEMMs also contract these axes."""
    values = []
    for index, weight in enumerate(layout.weights):
        number = index or ""
        axes = [*outer, layout.depth]
        axes = [weight.columns, *axes] if weight.is_transposed else [*axes, weight.columns]
        W = fusion.input(f"W{number}", layout.dtype, axes)
        columns = [weight.columns]
        bias = fusion.input(f"b{number}", layout.dtype, columns) if weight.has_bias else None
        axes = [*result, weight.columns]
        name = f"Y{number}"
        product = f"H{number}" if layout.activation else name
        if weight.is_transposed:
            Y = fusion.linear(product, A, W, layout.dtype, axes, bias=bias)
        else:
            Y = fusion.matmul(product, A, W, layout.dtype, axes)
        if layout.activation:
            Y = fusion.pointwise(name, layout.activation, Y, dtype=layout.dtype, axes=axes)
        values.append(Y)
    return values
