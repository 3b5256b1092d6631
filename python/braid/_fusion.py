"""Builds the source text of a fusion in Python.

    f = Fusion("ag_matmul")
    D, M, K, N = f.parameters(D=4, M=1024, K=512, N=256)
    f.mesh(D)
    A = f.input("A", "bf16", [didx(D), M / D, K])
    B = f.input("B", "bf16", [K, N])
    C = f.matmul("C", A, B, "bf16", [stream(D), M / D, N])
    f.output(C)
    program = braid.compile(f)

A Fusion only builds the source text, str(f); compile() parses and verifies the text. See
ir/README.md for the grammar.
"""
from __future__ import annotations

from typing import Callable, List, Optional, Sequence, Tuple, Union

from braid._errors import InputError

Number = Union[int, "Extent"]


class Axis:
    """A tensor axis, in fusion syntax."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def _operation(symbol: str, is_swapped: bool = False) -> Callable[[Extent, Number], Extent]:
    def join(self: Extent, other: Number) -> Extent:
        a, b = (other, self) if is_swapped else (self, other)
        return Extent(f"({a} {symbol} {b})")
    return join


class Extent(Axis):
    """A number, a parameter, or an arithmetic expression over both. In a / b, b must divide a."""

    def __repr__(self) -> str:
        return f"Extent({self.text!r})"

    __add__, __radd__ = _operation("+"), _operation("+", True)
    __sub__, __rsub__ = _operation("-"), _operation("-", True)
    __mul__, __rmul__ = _operation("*"), _operation("*", True)
    __truediv__, __rtruediv__ = _operation("/"), _operation("/", True)


AxisLike = Union[int, Axis]


def ceil(a: Number, b: Number) -> Extent:
    """Returns the number of rows per block for `a` rows in `b` blocks, where `b` need not divide
    `a`. An axis of this extent must directly follow an axis of extent `b`."""
    return Extent(f"ceil({a}, {b})")


def didx(extent: Number) -> Axis:
    """Returns an axis that is sharded across the devices, with one entry per device. `extent` is
    the number of devices."""
    return Axis(f"DIDx{{{extent}}}")


def stream(extent: Number) -> Axis:
    """Returns an unsharded axis along which every rank computes one slice after another."""
    return Axis(f"Stream{{{extent}}}")


class Value:
    """A tensor in a fusion. str() returns its name in the source text, such as "%A"."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return "%" + self.name


Values = Union[Value, Sequence[Value]]


def _pairs(a: Values, b: Values) -> str:
    """Returns the operands of a sum of products in the order of the source text."""
    firsts = a if isinstance(a, (list, tuple)) else [a]
    seconds = b if isinstance(b, (list, tuple)) else [b]
    if len(firsts) != len(seconds) or not firsts:
        raise InputError("operands: expected equal, nonzero numbers of first and second operands, "
                         f"got {len(firsts)} and {len(seconds)}")
    return ", ".join(f"{first}, {second}" for first, second in zip(firsts, seconds))


def _type(dtype: str, axes: Sequence[AxisLike]) -> str:
    if not isinstance(axes, (list, tuple)):
        raise InputError(f"axes: expected a list, got {axes!r}")
    return f"{dtype}[{', '.join(map(str, axes))}]"


class Fusion:
    """Builds the source text of a fusion. Element types are bf16, f16, f32 and f64."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._parameters: List[str] = []
        self._lines: List[str] = []

    def __str__(self) -> str:
        body = "".join(f"  {line}\n" for line in self._lines)
        return f"fusion @{self.name}({', '.join(self._parameters)}) {{\n{body}}}\n"

    def parameters(self, **values: int) -> Tuple[Extent, ...]:
        """Adds parameters with default values, which compile() can override. Returns one Extent
        per parameter."""
        self._parameters += [f"{name} = {value}" for name, value in values.items()]
        return tuple(Extent(name) for name in values)

    def mesh(self, devices: Number) -> None:
        """Sets the number of devices. Must be called before any tensor is added."""
        self._lines.append(f"mesh [0 .. {devices})")

    def input(self, name: str, dtype: str, axes: Sequence[AxisLike]) -> Value:
        """Adds an input, which the caller passes to every run."""
        self._lines.append(f"%{name} = input {_type(dtype, axes)}")
        return Value(name)

    def define(self, name: str, operation: str, dtype: str, axes: Sequence[AxisLike]) -> Value:
        """Adds `%name = operation : type`. An example of `operation` is "linear %x, %w, %bias"."""
        self._lines.append(f"%{name} = {operation} : {_type(dtype, axes)}")
        return Value(name)

    def matmul(self, name: str, a: Values, b: Values, dtype: str, axes: Sequence[AxisLike],
               partial: Optional[str] = None) -> Value:
        """Contracts the last axis of `a` with the first axis of `b`, or the last two axes of `a`
        with the first two of `b`. If `a` and `b` are lists of equal length, adds the products
        `a[0]` x `b[0]`, `a[1]` x `b[1]` and so on. Raises InputError if their lengths differ.

        partial: the element type in which partial results are transferred. If None, uses the
            element type of the result.
        """
        return self.define(name, f"matmul {_pairs(a, b)}" + _partial(partial), dtype, axes)

    def linear(self, name: str, x: Values, w: Values, dtype: str, axes: Sequence[AxisLike],
               bias: Optional[Value] = None, partial: Optional[str] = None) -> Value:
        """Contracts the last axis, or the last two axes, of both `x` and `w`, like PyTorch's
        linear. The axes of `bias` are the remaining axes of `w`. `x` and `w` may be lists, as in
        matmul(); the bias is added once."""
        operands = _pairs(x, w) + (f", {bias}" if bias else "")
        return self.define(name, f"linear {operands}" + _partial(partial), dtype, axes)

    def reshard(self, name: str, a: Value, dtype: str, axes: Sequence[AxisLike]) -> Value:
        """Changes the kinds of the axes (plain, didx, stream) of `a`, but not its elements."""
        return self.define(name, f"reshard {a}", dtype, axes)

    def pointwise(self, name: str, function: str, *operands: Value, dtype: str,
                  axes: Sequence[AxisLike]) -> Value:
        """Applies relu, gelu, gelu_tanh or silu to one tensor, or multiply or add to two
        tensors, element by element."""
        return self.define(name, f"{function} {', '.join(map(str, operands))}", dtype, axes)

    def output(self, *values: Value) -> None:
        """Sets the outputs and their order. Must be called last."""
        self._lines.append(f"output {', '.join(map(str, values))}")


def _partial(dtype: Optional[str]) -> str:
    return f" partial {dtype}" if dtype else ""
