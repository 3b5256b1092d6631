"""Writes a fusion from Python.

    f = Fusion("ag_matmul")
    D, M, K, N = f.parameters(D=4, M=1024, K=512, N=256)
    f.mesh(D)
    A = f.input("A", "bf16", [didx(D), M / D, K])
    B = f.input("B", "bf16", [K, N])
    C = f.matmul("C", A, B, "bf16", [stream(D), M / D, N])
    f.output(C)
    program = braid.compile(f)

It makes the text, str(f), and nothing but the text: what it means, and whether it is right,
compile() says. ir/README.md is the grammar.
"""
from __future__ import annotations

from typing import List, Optional, Sequence, Tuple, Union

from braid._errors import InputError

Number = Union[int, "Extent"]


class Axis:
    """An axis of a tensor, as a text has it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class Extent(Axis):
    """A number, a parameter, or an expression of them; `/` is the text's, which has to be exact."""

    def __repr__(self) -> str:
        return f"Extent({self.text!r})"

    def _join(self, operation: str, other: Number, swapped: bool = False) -> "Extent":
        a, b = (other, self) if swapped else (self, other)
        return Extent(f"({a} {operation} {b})")

    def __add__(self, other: Number) -> "Extent":
        return self._join("+", other)

    def __radd__(self, other: Number) -> "Extent":
        return self._join("+", other, True)

    def __sub__(self, other: Number) -> "Extent":
        return self._join("-", other)

    def __rsub__(self, other: Number) -> "Extent":
        return self._join("-", other, True)

    def __mul__(self, other: Number) -> "Extent":
        return self._join("*", other)

    def __rmul__(self, other: Number) -> "Extent":
        return self._join("*", other, True)

    def __truediv__(self, other: Number) -> "Extent":
        return self._join("/", other)

    def __rtruediv__(self, other: Number) -> "Extent":
        return self._join("/", other, True)


AxisLike = Union[int, Axis]


def ceil(a: Number, b: Number) -> Extent:
    """Rows of a block that may be short: directly behind an axis of extent `b` only."""
    return Extent(f"ceil({a}, {b})")


def didx(extent: Number) -> Axis:
    """An axis of which each device has one index; `extent` is the mesh's size."""
    return Axis(f"DIDx{{{extent}}}")


def stream(extent: Number) -> Axis:
    """An axis that is whole on every rank, produced slice by slice."""
    return Axis(f"Stream{{{extent}}}")


class Value:
    """A tensor of a fusion."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return "%" + self.name


def _type(dtype: str, axes: Sequence[AxisLike]) -> str:
    if not isinstance(axes, (list, tuple)):
        raise InputError(f"axes: expected a list, got {axes!r}")
    return f"{dtype}[{', '.join(map(str, axes))}]"


class Fusion:
    """The text of one fusion. Every method adds a line; element types are bf16, f16, f32, f64."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._parameters: List[str] = []
        self._lines: List[str] = []

    def __str__(self) -> str:
        body = "".join(f"  {line}\n" for line in self._lines)
        return f"fusion @{self.name}({', '.join(self._parameters)}) {{\n{body}}}\n"

    def parameters(self, **values: int) -> Tuple[Extent, ...]:
        """Parameters with their defaults, which compile() may set to others."""
        self._parameters += [f"{name} = {value}" for name, value in values.items()]
        return tuple(Extent(name) for name in values)

    def mesh(self, devices: Number) -> None:
        """Sets the number of devices. Comes before any tensor."""
        self._lines.append(f"mesh [0 .. {devices})")

    def input(self, name: str, dtype: str, axes: Sequence[AxisLike]) -> Value:
        """A tensor that the caller brings."""
        self._lines.append(f"%{name} = input {_type(dtype, axes)}")
        return Value(name)

    def define(self, name: str, operation: str, dtype: str, axes: Sequence[AxisLike]) -> Value:
        """`%name = operation : type`, with the operation as in a text: "linear %x, %w, %bias"."""
        self._lines.append(f"%{name} = {operation} : {_type(dtype, axes)}")
        return Value(name)

    def matmul(self, name: str, a: Value, b: Value, dtype: str, axes: Sequence[AxisLike],
               partial: Optional[str] = None) -> Value:
        """Contracts a's last axis with b's first, or the last two with the first two.

        partial: the element type in which partial results travel; the result's, if None.
        """
        return self.define(name, f"matmul {a}, {b}" + _partial(partial), dtype, axes)

    def linear(self, name: str, x: Value, w: Value, dtype: str, axes: Sequence[AxisLike],
               bias: Optional[Value] = None, partial: Optional[str] = None) -> Value:
        """Contracts the last axes of x and w, as PyTorch does; the bias has w's other axes."""
        operands = f"{x}, {w}" + (f", {bias}" if bias else "")
        return self.define(name, f"linear {operands}" + _partial(partial), dtype, axes)

    def reshard(self, name: str, a: Value, dtype: str, axes: Sequence[AxisLike]) -> Value:
        """The same tensor with other axis kinds."""
        return self.define(name, f"reshard {a}", dtype, axes)

    def pointwise(self, name: str, function: str, *operands: Value, dtype: str,
                  axes: Sequence[AxisLike]) -> Value:
        """relu, gelu, gelu_tanh, silu of one tensor; multiply, add of two."""
        return self.define(name, f"{function} {', '.join(map(str, operands))}", dtype, axes)

    def output(self, *values: Value) -> None:
        """Names the outputs, in this order. Comes last."""
        self._lines.append(f"output {', '.join(map(str, values))}")


def _partial(dtype: Optional[str]) -> str:
    return f" partial {dtype}" if dtype else ""
