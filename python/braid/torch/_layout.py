"""Builds an operator's fusion from the shapes and layouts of its tensors.

"Rows" refers to the axis that is gathered or scattered, split as by `torch.chunk`. The rows are the
first axis of every tensor in a fusion. If other axes precede the rows in the caller's tensors, as
in [batch, rows, K], the fusion has one statement for each entry of these axes, called a *sequence*.
Its tensors are then contiguous parts of the caller's tensors.
"""
from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from braid._errors import InputError
from braid._fusion import AxisLike, Fusion, Value, ceil, didx, stream

# The activations of the kernels, as PyTorch's functions.
_ACTIVATIONS: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "": lambda x: x,
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


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
    def full(self) -> int:
        """The number of vectors on all ranks, with every block padded to full size."""
        return self.ranks * self.block * self.beside


class Weight(NamedTuple):
    """One weight matrix of [depth, columns] on this rank."""

    depth: int
    columns: int
    is_transposed: bool  # stored as [columns, depth], like PyTorch's linear
    has_bias: bool


class Layout(NamedTuple):
    """An operator together with the shapes and layouts of its tensors."""

    operator: str
    dtype: str
    rows: Rows  # of each sequence
    weights: Tuple[Weight, ...]
    activation: str
    returns_gathered: bool = False
    sequences: int = 1

    @property
    def is_empty(self) -> bool:
        """True if every result is empty, so that nothing is computed or transferred."""
        has_columns = self.returns_gathered or any(each.columns for each in self.weights)
        return self.sequences * self.rows.full == 0 or not has_columns

    @property
    def gathers(self) -> bool:
        return self.operator == "all_gather_matmul"

    @property
    def widths(self) -> List[int]:
        """The number of columns of each result. A gather has one result for each weight, followed
        by the gathered A, if requested. A reduction has one result: the sum over its weights."""
        if not self.gathers:
            return [self.weights[0].columns]
        return ([weight.columns for weight in self.weights] +
                [self.weights[0].depth] * self.returns_gathered)

    @property
    def extents(self) -> Tuple[int, int, int]:
        """M, N and K, where M counts the rows of all ranks and sequences, and N and K are local."""
        columns = sum(self.widths[:len(self.weights)])
        depth = sum(weight.depth for weight in self.weights[:1 if self.gathers else None])
        return self.sequences * self.rows.total * self.rows.beside, columns, depth

    @property
    def shape(self) -> str:
        """The element type and extents for messages, such as "bf16 4096x14336x8192"."""
        return f"{self.dtype} " + "x".join(map(str, self.extents))

    def schedule(self, on_gpu: bool) -> str:
        """Returns the requested schedule, in the syntax of compile(schedule=)."""
        return "auto;launch=graph" if on_gpu else "auto"

    def fusion(self) -> Fusion:
        """Returns the fusion. The inputs are the operands A of every sequence (one for each weight
        in a reduction, otherwise one), then each weight and its bias, if any. The outputs are the
        results listed at `widths`, for every sequence."""
        f = Fusion(f"{self.operator}_{self.shape.replace(' ', '_')}")  # messages show this name
        f.mesh(self.rows.ranks)
        rows, contracted, result = _axes(self)
        depths = [weight.depth for weight in self.weights]
        operands = [[f.input(_name("A", index, p), self.dtype, [*rows, *contracted, depth])
                     for index, depth in enumerate(depths[:1] if self.gathers else depths)]
                    for p in range(self.sequences)]
        terms = [_term(self, f, index, contracted) for index in range(len(self.weights))]
        outputs = []
        for index, columns in enumerate(self.widths):
            axes: List[AxisLike] = [*result, columns]
            for p, As in enumerate(operands):
                if self.gathers and index == len(self.weights):
                    outputs.append(f.reshard(_name("G", 0, p), As[0], self.dtype, axes))
                else:
                    used = terms[index:index + len(As)]  # all weights of a reduction
                    outputs.append(_product(self, f, _name("", index, p), As, used, axes))
        f.output(*outputs)
        return f


def _name(letter: str, index: int, sequence: int) -> str:
    """Returns the name of a tensor: of weight `index`, and of a sequence, if not the first."""
    return f"{letter}{index or ''}" + (f"_{sequence}" if sequence else "")


def function_of(activation: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns an activation's function. Raises InputError if no kernel supports `activation`."""
    if activation not in _ACTIVATIONS:
        raise InputError(f"expected an activation ({', '.join(filter(None, _ACTIVATIONS))}) or "
                         f"None, got '{activation}'")
    return _ACTIVATIONS[activation]


def check(layout: Layout) -> None:
    """Raises InputError if the activation is unknown, or if some but not all extents are 0."""
    function_of(layout.activation)  # raises InputError if it is unknown
    least = min(*layout.extents, *(min(weight[:2]) for weight in layout.weights))
    if least < 1 and not layout.is_empty:
        raise InputError(f"{layout.operator} of {layout.shape} has an empty operand but a nonempty "
                         "result: all extents must be at least 1")


def _row_axes(rows: Rows, first: AxisLike) -> List[AxisLike]:
    """Returns the row axes. `first` is the axis with one entry per rank."""
    if rows.total % rows.ranks == 0:
        return [first, rows.block * rows.beside]
    block = ceil(rows.total, rows.ranks)
    return [first, block] if rows.beside == 1 else [first, block, rows.beside]


def _axes(layout: Layout) -> Tuple[List[AxisLike], List[AxisLike], List[AxisLike]]:
    """Returns the row axes of A, the axes that precede the depth, and the row axes of the results.
    An all-reduce splits the rows if there is at least one row per rank, so that each rank can sum
    one block."""
    rows, D = layout.rows, layout.rows.ranks
    if layout.gathers:
        return _row_axes(rows, didx(D)), [], _row_axes(rows, stream(D))
    whole = _row_axes(rows, D)
    if layout.operator == "matmul_reduce_scatter":
        return whole, [didx(D)], _row_axes(rows, didx(D))
    if rows.total * rows.beside < D or D == 1:
        whole = [rows.total * rows.beside]
    return whole, [didx(D)], whole


Term = Tuple[Weight, Value, Optional[Value]]  # a weight, its value, and that of its bias, if any


def _term(layout: Layout, fusion: Fusion, index: int, outer: Sequence[AxisLike]) -> Term:
    """Adds a weight and its bias, if any. `outer` contains the axes that precede the depth."""
    weight = layout.weights[index]
    axes: List[AxisLike] = [*outer, weight.depth]
    axes = [weight.columns, *axes] if weight.is_transposed else [*axes, weight.columns]
    W = fusion.input(_name("W", index, 0), layout.dtype, axes)
    bias = None
    if weight.has_bias:
        bias = fusion.input(_name("b", index, 0), layout.dtype, [weight.columns])
    return weight, W, bias


def _product(layout: Layout, fusion: Fusion, name: str, As: Sequence[Value],
             terms: Sequence[Term], axes: Sequence[AxisLike]) -> Value:
    """Adds statements for the sum of the products of `As` and the weights in `terms`, of which only
    the first may have a bias, and for the activation. Returns the result."""
    product = f"{'H' if layout.activation else 'Y'}{name}"
    (weight, _, bias), Ws = terms[0], [W for _, W, _ in terms]
    if weight.is_transposed:
        Y = fusion.linear(product, As, Ws, layout.dtype, axes, bias=bias)
    else:
        Y = fusion.matmul(product, As, Ws, layout.dtype, axes)
    if not layout.activation:
        return Y
    return fusion.pointwise(f"Y{name}", layout.activation, Y, dtype=layout.dtype, axes=axes)
