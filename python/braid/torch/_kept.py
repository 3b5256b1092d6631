"""The operators of each group that are kept, within a bound, and counted."""
from __future__ import annotations

import warnings
from typing import Dict, Iterator, NamedTuple, Tuple

import torch

from braid._errors import InputError
from braid._program import compile
from braid.torch._group import DEFAULT_BYTES, GroupJob, all_jobs
from braid.torch._layout import Layout
from braid.torch._prepared import Prepared

MANY_PREPARATIONS = 3  # of one layout, that it was called for

_bound = DEFAULT_BYTES


def set_memory_bound(size: int) -> None:
    """Bounds the bytes that each group's operators hold on this rank, on each kind of device, not
    counting operators in live CUDA graphs; 0: no bound. Default: 4 GiB. The same on all ranks.

    Beyond the bound, the operators go that were called least recently, except the one that is being
    called. While that one is prepared, it exists beside them. An operator that is called again is
    prepared again; if that happens repeatedly, a RuntimeWarning says so.
    """
    global _bound
    if not isinstance(size, int) or size < 0:
        raise InputError(f"expected bytes, 0 or more, got {size!r}")
    _bound = size


class Memory(NamedTuple):
    """The memory of operators on this rank."""

    bytes: int  # had from the machine, whether an operator uses them or not
    operators: int
    bound: int  # bytes, of each group, beside what is in CUDA graphs


def memory() -> Memory:
    """The memory of all groups' operators on this rank, and its bound."""
    usages = []
    for job in all_jobs():
        with job.lock:
            usages.append(job.job.usage())
    return Memory(sum(each.held for each in usages), sum(each.operations for each in usages),
                  _bound)


def _add_operation(job: GroupJob, prepared: Prepared) -> None:
    """Once it is prepared. All ranks let the same others go, because they call alike, and what
    usage() says is the same on all."""
    job.operations[prepared.layout] = prepared
    prepared.last_turn = next(job.turns)
    has_given_back = False
    while _bound:
        usage = job.job.usage()
        excess = usage.most_held - usage.in_graphs - _bound
        if excess <= 0:
            return
        if not has_given_back and usage.most_held - usage.most >= excess:
            has_given_back = True  # what trials or operators before have left may be enough
        elif not _let_go(job, prepared, excess):
            return
        job.job.give_back()


def _let_go(job: GroupJob, newest: Prepared, size: int) -> bool:
    """Retires those that were called least recently, until they have held so many bytes; False if
    there is none but `newest` that may go."""
    have_gone = False
    for oldest in sorted(job.operations.values(), key=lambda each: each.last_turn):
        if size <= 0 or oldest is newest:
            break
        usage = oldest.operation.usage()
        if not usage.is_in_graph:
            retire(job, oldest.layout)
            size -= usage.most
            have_gone = True
    return have_gone


def _count_preparation(job: GroupJob, layout: Layout) -> None:
    job.preparations[layout] += 1
    if job.preparations[layout] == MANY_PREPARATIONS:
        warnings.warn(
            f"group '{job.group}': {layout.operator} of {layout.shape} is prepared again and "
            f"again, because operators hold more than {_bound} bytes: raise the bound with "
            "braid.torch.set_memory_bound()", RuntimeWarning, stacklevel=2)


def retire(job: GroupJob, key: Layout) -> None:
    """Gives back what an operator has. Its calls stay in the report."""
    prepared = job.operations.pop(key)
    for site in prepared.sites:
        job.sites.pop(site, None)
    _add(job.retired, prepared)
    prepared.operation.close()


class Calls(NamedTuple):
    """Calls of one operator with tensors of one shape."""

    operator: str
    group: str
    shape: str  # element type, and M x N x K: all rows, and this rank's columns and depth
    schedule: str
    calls: int
    copies: int  # of operands that had to be laid out anew


Counts = Dict[Tuple[str, str, str], Tuple[int, int]]  # by operator, shape and schedule


def _add(counts: Counts, each: Prepared) -> None:
    key = (each.layout.operator, each.layout.shape, each.schedule)
    calls, copies = counts.get(key, (0, 0))
    counts[key] = (calls + each.calls, copies + each.copies)


def all_calls() -> Iterator[Calls]:
    """The calls of all live groups."""
    for job in all_jobs():
        with job.lock:
            counts = dict(job.retired)
            for each in job.operations.values():
                _add(counts, each)
        for (operator, shape, schedule), numbers in counts.items():
            yield Calls(operator, job.group, shape, schedule, *numbers)


# -- Finding the one for a call. --

def _is_captured(job: GroupJob) -> bool:
    return job.on_gpu and bool(torch.cuda.is_current_stream_capturing())


def find(job: GroupJob, layout: Layout) -> Prepared:
    """The operator for such tensors. Collective when it is the first of them: prepares it, within
    some 50 ms. InputError where that is in a capture, which could not be waited for."""
    prepared = job.operations.get(layout)
    if prepared is None:
        if _is_captured(job):
            raise InputError(
                f"{layout.operator} of {layout.shape} cannot be prepared in a capture: make a "
                "call, or braid.torch.prepare(), with such tensors before the stream is captured")
        prepared = Prepared(job, layout)
        _count_preparation(job, layout)
        _add_operation(job, prepared)
    return prepared


def _ask_for_graphs(job: GroupJob) -> None:
    """Lets the ranks tell each other of the graphs that live, which they do when they prepare
    something. Collective; blocks. Usages are the same on all ranks behind it."""
    text = (f"program @asks mesh [0 .. {job.ranks}) (%A: f32[1]) -> (%C: f32[1]) {{\n"
            "  set %C, %A\n}\n")
    job.job.prepare(compile(text, ranks=job.ranks), measures=False).close()


def measure(job: GroupJob, layout: Layout, seconds: float) -> Prepared:
    """Has the ranks choose by measuring, and keeps what is best. Collective; blocks."""
    before = job.operations.get(layout)
    if _is_captured(job):
        raise InputError(f"{layout.operator} of {layout.shape} cannot be measured in a capture: "
                         "call prepare() before the stream is captured")
    if before is not None and job.on_gpu:
        _ask_for_graphs(job)
        if before.operation.usage().is_in_graph:
            raise InputError(f"{layout.operator} of {layout.shape} cannot be measured again, for a "
                             "live graph holds runs of it: call prepare() before the operator is "
                             "captured into a graph, or destroy the graph")
    prepared = Prepared(job, layout, seconds, measures=True)
    if before is not None:
        retire(job, layout)
    _add_operation(job, prepared)
    return prepared
