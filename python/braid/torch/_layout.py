"""Builds an operator's fusion from the shapes and layouts of its tensors.

"Rows" refers to the axis that is gathered or scattered, split like `torch.chunk`. It is the first
axis of every tensor in a fusion; tensors with a different axis order are copied.
"""
from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

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
    """One weight matrix. `columns` is its local number of columns."""

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
        return _WRITERS[self.operator](self)


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
        raise InputError(f"{layout.operator}: a result of {layout.shape} has elements, but an "
                         "operand has none: pass operands whose extents are at least 1")


def _row_axes(rows: Rows, first: AxisLike) -> List[AxisLike]:
    """Returns the row axes. `first` is the axis with one entry per rank."""
    if rows.are_even:
        return [first, rows.block * rows.beside]
    block = ceil(rows.total, rows.ranks)
    return [first, block] if rows.beside == 1 else [first, block, rows.beside]


def _name(base: str, number: int) -> str:
    return base if number == 0 else f"{base}{number}"


def _products(layout: Layout, fusion: Fusion, A: Value, outer: Sequence[AxisLike],
              result: Sequence[AxisLike]) -> List[Value]:
    """Adds a GEMM and the activation for each weight. `outer` contains the axes that precede the
    depth in A and in the weights; the GEMMs also contract these axes."""
    values = []
    for number, weight in enumerate(layout.weights):
        axes = [*outer, layout.depth]
        axes = [weight.columns, *axes] if weight.is_transposed else [*axes, weight.columns]
        W = fusion.input(_name("W", number), layout.dtype, axes)
        bias: Optional[Value] = None
        if weight.has_bias:
            bias = fusion.input(_name("b", number), layout.dtype, [weight.columns])
        axes = [*result, weight.columns]
        name = _name("Y", number)
        product = _name("H", number) if layout.activation else name
        if weight.is_transposed:
            Y = fusion.linear(product, A, W, layout.dtype, axes, bias=bias)
        else:
            Y = fusion.matmul(product, A, W, layout.dtype, axes)
        if layout.activation:
            Y = fusion.pointwise(name, layout.activation, Y, dtype=layout.dtype, axes=axes)
        values.append(Y)
    return values


def _gather(layout: Layout) -> Fusion:
    f, D = Fusion(layout.name), layout.rows.ranks
    f.mesh(D)
    A = f.input("A", layout.dtype, [*_row_axes(layout.rows, didx(D)), layout.depth])
    whole = _row_axes(layout.rows, stream(D))
    outputs = _products(layout, f, A, [], whole)
    if layout.returns_gathered:
        outputs.append(f.reshard("G", A, layout.dtype, [*whole, layout.depth]))
    f.output(*outputs)
    return f


def _reduce(layout: Layout, rows: List[AxisLike], result: List[AxisLike]) -> Fusion:
    f, D = Fusion(layout.name), layout.rows.ranks
    f.mesh(D)
    A = f.input("A", layout.dtype, [*rows, didx(D), layout.depth])
    f.output(*_products(layout, f, A, [didx(D)], result))
    return f


def _scatter(layout: Layout) -> Fusion:
    D = layout.rows.ranks
    return _reduce(layout, _row_axes(layout.rows, D), _row_axes(layout.rows, didx(D)))


def _all_reduce(layout: Layout) -> Fusion:
    """Returns the fusion for an all-reduce. Splits the rows if there is at least one row per rank,
    so that each rank can sum one block."""
    rows, D = layout.rows, layout.rows.ranks
    if rows.total * rows.beside < D or D == 1:
        axes: List[AxisLike] = [rows.total * rows.beside]
    else:
        axes = _row_axes(rows, D)
    return _reduce(layout, axes, axes)


_WRITERS = {"all_gather_matmul": _gather, "matmul_reduce_scatter": _scatter,
            "matmul_all_reduce": _all_reduce}
