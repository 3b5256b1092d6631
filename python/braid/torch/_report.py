"""What ran, how, and what did not."""
from __future__ import annotations

from typing import List, NamedTuple, Sequence

from braid.torch import _apart, _kept, _takeover
from braid.torch._apart import Apart
from braid.torch._kept import Calls


class Passed(NamedTuple):
    """Calls of an operator of PyTorch's that were left to PyTorch."""

    operator: str
    reason: str
    calls: int


class Report(NamedTuple):
    """Of this rank: calls of groups that live, and what was compiled. str() is a table."""

    calls: List[Calls]
    apart: List[Apart]
    passed: List[Passed]

    def __str__(self) -> str:
        lines = _table(("operator", "group", "type MxNxK", "schedule", "calls", "copies"),
                       self.calls)
        if self.apart:
            lines += ["", "collectives beside a GEMM that were compiled as they stood:"]
            lines += _table(("collective", "group", "operand", "GEMM", "reason"), self.apart)
        if self.passed:
            lines += ["", "calls that were left to PyTorch:"]
            lines += _table(("operator", "reason", "calls"), self.passed)
        return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> List[str]:
    texts = [list(head)] + [[str(each) for each in row] for row in rows]
    widths = [max(len(text[column]) for text in texts) for column in range(len(head))]
    return ["  ".join(each.ljust(width) for each, width in zip(text, widths)).rstrip()
            for text in texts]


def report() -> Report:
    """Every operator that ran: for which shape, by which schedule, how often, and how often an
    operand had to be copied; then what enable() could not do, with the reasons."""
    passed = [Passed(name, reason, calls) for (name, reason), calls in _takeover.passed.items()]
    return Report(list(_kept.all_calls()), list(_apart.apart), passed)
