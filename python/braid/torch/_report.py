"""Reports the operators that ran, and the collectives that were not replaced."""
from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any, List, NamedTuple, Sequence, Tuple

from braid.torch._group import all_jobs


class Calls(NamedTuple):
    """The calls of one operator with one shape and schedule in one group."""

    operator: str
    group: str
    shape: str  # element type and MxNxK: rows of all ranks, local columns, and local depth, if any
    schedule: str
    calls: int
    copies: int  # operands that had to be copied to another layout


class Site(NamedTuple):
    """Equal collectives next to GEMMs in compiled graphs that were replaced, or that were not
    replaced for the same reason."""

    collective: str
    group: str
    shape: str  # the operand's type and shape, such as "bf16 4096x8192"
    gemm: str
    direction: str  # forward or backward
    number: int
    reason: str  # why they were not replaced; empty if they were


class Passed(NamedTuple):
    """Calls of a PyTorch operator that PyTorch itself executed."""

    operator: str
    reason: str
    calls: int


_KEY = "braid.torch: "
passed: Counter[Tuple[str, str]] = Counter()  # number of calls, keyed by operator and reason


class Report(NamedTuple):
    """This rank's calls in live groups, and what Braid did not replace. str() formats tables."""

    calls: List[Calls]
    taken: List[Site]
    apart: List[Site]
    passed: List[Passed]

    def __str__(self) -> str:
        if not any(self):
            return ("no Braid operators have run or been compiled in this process; torch.compile "
                    "uses them after enable()")
        lines = _table(("operator", "group", "type MxNxK", "schedule", "calls", "copies"),
                       self.calls)
        where = ("collective", "group", "operand", "GEMM", "direction", "number")
        if self.taken:
            lines += ["", "collectives next to a GEMM that were replaced in compiled graphs:"]
            lines += _table(where, [site[:-1] for site in self.taken])
        if self.apart:
            lines += ["", "collectives next to a GEMM that were not replaced:"]
            lines += _table((*where, "reason"), self.apart)
        if self.passed:
            lines += ["", "calls that Braid left to PyTorch:"]
            lines += _table(("operator", "reason", "calls"), self.passed)
        return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> List[str]:
    texts = [list(head)] + [[str(each) for each in row] for row in rows]
    widths = [max(len(text[column]) for text in texts) for column in range(len(head))]
    return ["  ".join(each.ljust(width) for each, width in zip(text, widths)).rstrip()
            for text in texts]


def count(site: Site) -> None:
    """Counts a site of the graph that Inductor is compiling. Inductor's counters are used, because
    Inductor saves what a graph adds to them together with the graph in its disk cache, and adds it
    again whenever a process loads the graph. torch._dynamo.utils.counters.clear() clears them."""
    _inductor_counters()[_KEY + json.dumps(site)] += 1


def _inductor_counters() -> Counter[str]:
    module: Any = sys.modules.get("torch._dynamo.utils")  # importing it takes seconds
    return module.counters["inductor"] if module else Counter()


def _sites(clear: bool) -> List[Site]:
    """Returns all counted sites, and optionally forgets them."""
    counters = _inductor_counters()
    keys = [key for key in counters if key.startswith(_KEY)]
    found = [Site(*json.loads(key[len(_KEY):]))._replace(number=counters[key]) for key in keys]
    for key in keys if clear else ():
        del counters[key]
    return found


def report(clear: bool = False) -> Report:
    """Returns every operator that ran, with its shape, its schedule, and the numbers of calls and
    copied operands. Also returns every collective next to a GEMM that was compiled, or loaded from
    Inductor's disk cache, while Braid was enabled, with the reason if it was not replaced, and the
    calls that PyTorch executed.

    clear: if True, starts all counts again at 0.
    """
    calls = [Calls(operator, job.group, shape, schedule, counts.calls, counts.copies)
             for job in all_jobs()
             for (operator, shape, schedule), counts in list(job.counts.items())]
    found = _sites(clear)
    left = [Passed(name, reason, number) for (name, reason), number in passed.items()]
    if clear:
        passed.clear()
        for job in all_jobs():
            for counts in job.counts.values():
                counts.calls = counts.copies = 0
    return Report(calls, [site for site in found if not site.reason],
                  [site for site in found if site.reason], left)
