"""The fusion that an operator computes, derived from the shapes and layouts of its tensors.

The rows are the axis that is gathered or scattered. They are the first axis of every tensor in a
fusion; tensors with a different order of axes are copied. Rows are split like `torch.chunk`.
"""
from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

from braid._errors import InputError
from braid._fusion import AxisLike, Fusion, Value, ceil, didx, stream

ACTIVATIONS = ("", "relu", "gelu", "gelu_tanh", "silu")


class Rows(NamedTuple):
    """`total` rows that are split over `ranks` ranks. Each row consists of `beside` vectors."""

    total: int
    beside: int
    ranks: int

    @property
    def block(self) -> int:
        return -(-self.total // self.ranks)

    def of(self, rank: int) -> int:
        """Returns the number of rows of a rank."""
        return max(0, min(self.block, self.total - rank * self.block))

    @property
    def are_even(self) -> bool:
        return self.total % self.ranks == 0

    @property
    def full(self) -> int:
        """The number of vectors in full blocks, including padding."""
        return self.ranks * self.block * self.beside


class Weight(NamedTuple):
    """One weight matrix, with its local shape."""

    columns: int
    is_transposed: bool  # stored as [columns, depth], like PyTorch's linear
    has_bias: bool


class Layout(NamedTuple):
    """One operator for tensors of one shape."""

    operator: str
    dtype: str
    rows: Rows
    depth: int  # K of this rank's part
    weights: Tuple[Weight, ...]
    activation: str
    returns_gathered: bool = False

    @property
    def is_empty(self) -> bool:
        """True if no result has any elements. Nothing is then computed or transferred."""
        has_columns = self.returns_gathered or any(each.columns for each in self.weights)
        return self.rows.full == 0 or not has_columns

    @property
    def extents(self) -> Tuple[int, int, int]:
        """M, N and K: all rows, and the columns and depth of this rank."""
        return (self.rows.total * self.rows.beside, sum(each.columns for each in self.weights),
                self.depth)

    @property
    def shape(self) -> str:
        """A description for users, such as "bf16 4096x14336x8192"."""
        return f"{self.dtype} " + "x".join(map(str, self.extents))

    @property
    def name(self) -> str:
        """The name of the fusion in messages."""
        return f"{self.operator}_{self.shape.replace(' ', '_')}"

    def fusion(self) -> Fusion:
        """The fusion. Its inputs are A and then each weight and its bias. Its outputs are Y, Y1 ...
        and then the gathered A."""
        return _WRITERS[self.operator](self)


def check_activation(activation: str) -> None:
    """Raises InputError if the activation is not supported by any kernel."""
    if activation not in ACTIVATIONS:
        raise InputError(f"expected an activation ({', '.join(ACTIVATIONS[1:])}) or None, got "
                         f"'{activation}'")


def check(layout: Layout) -> None:
    """Raises InputError if only some extents are 0, or if the activation is unknown."""
    check_activation(layout.activation)
    least = min(*layout.extents, *(weight.columns for weight in layout.weights))
    if least < 1 and not layout.is_empty:
        raise InputError(f"{layout.operator}: a result of {layout.shape} has elements, but there "
                         "is nothing to multiply or no column of one B: pass operands whose "
                         "extents are 1 or more")


def _row_axes(rows: Rows, first: AxisLike) -> List[AxisLike]:
    """Returns the axes of the rows. `first` has an entry for each rank."""
    if rows.are_even:
        return [first, rows.block * rows.beside]
    block = ceil(rows.total, rows.ranks)
    return [first, block] if rows.beside == 1 else [first, block, rows.beside]


def _name(base: str, number: int) -> str:
    return base if number == 0 else f"{base}{number}"


def _products(layout: Layout, fusion: Fusion, A: Value, outer: Sequence[AxisLike],
              result: Sequence[AxisLike]) -> List[Value]:
    """Adds a GEMM for each weight, and the activation. `outer` contains the axes of A and the
    weights before their depth; these axes are also contracted."""
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
    """Returns the fusion of an all-reduce. If every rank has rows, each rank can sum its own
    rows."""
    rows, D = layout.rows, layout.rows.ranks
    if rows.total * rows.beside < D or D == 1:
        axes: List[AxisLike] = [rows.total * rows.beside]
    else:
        axes = _row_axes(rows, D)
    return _reduce(layout, axes, axes)


_WRITERS = {"all_gather_matmul": _gather, "matmul_reduce_scatter": _scatter,
            "matmul_all_reduce": _all_reduce}
