"""Stores the operators of each group, within a memory limit, and counts their calls."""
from __future__ import annotations

import warnings
from typing import Dict, Iterator, NamedTuple, Tuple

import torch

from braid._errors import InputError
from braid._program import compile
from braid.torch._group import DEFAULT_BYTES, GroupJob, all_jobs
from braid.torch._layout import Layout
from braid.torch._prepared import Prepared

MANY_PREPARATIONS = 3  # warns when calls prepare one layout this many times

_bound = DEFAULT_BYTES


def set_memory_bound(size: int) -> None:
    """Limits the memory in bytes of each group's operators on this rank, for each kind of device.
    Operators in live CUDA graphs do not count. 0 means no limit; the default is 4 GiB. The limit
    must be equal on all ranks.

    If the limit is exceeded, the least recently called operators are released, but not the current
    one. While the current operator is prepared, the old operators still exist. A released operator
    is prepared again when it is called. If this happens repeatedly, a RuntimeWarning is issued.
    """
    global _bound
    if not isinstance(size, int) or size < 0:
        raise InputError(f"expected bytes, 0 or more, got {size!r}")
    _bound = size


class Memory(NamedTuple):
    """The memory of operators on this rank."""

    bytes: int  # allocated, including unused memory
    operators: int
    bound: int  # the limit in bytes for each group, without operators in CUDA graphs


def memory() -> Memory:
    """Returns the memory of all groups' operators on this rank, and its limit."""
    usages = []
    for job in all_jobs():
        with job.lock:
            usages.append(job.job.usage())
    return Memory(sum(each.held for each in usages), sum(each.operations for each in usages),
                  _bound)


def _add_operation(job: GroupJob, prepared: Prepared) -> None:
    """Adds a prepared operation, and releases others if the limit is exceeded. All ranks release
    the same operations, because their calls are equal and usage() is equal on all ranks."""
    job.operations[prepared.layout] = prepared
    prepared.last_turn = next(job.turns)
    has_given_back = False
    while _bound:
        usage = job.job.usage()
        excess = usage.most_held - usage.in_graphs - _bound
        if excess <= 0:
            return
        if not has_given_back and usage.most_held - usage.most >= excess:
            has_given_back = True  # unused memory of trials or released operators may suffice
        elif not _let_go(job, prepared, excess):
            return
        job.job.give_back()


def _let_go(job: GroupJob, newest: Prepared, size: int) -> bool:
    """Releases the least recently called operators that together hold `size` bytes. Returns False
    if only `newest` and operators in graphs remain."""
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
    """Releases the resources of an operator. Its calls stay in the report."""
    prepared = job.operations.pop(key)
    for site in prepared.sites:
        job.sites.pop(site, None)
    _add(job.retired, prepared)
    prepared.operation.close()


class Calls(NamedTuple):
    """The calls of one operator with tensors of one shape."""

    operator: str
    group: str
    shape: str  # element type and M x N x K, where M is all rows, and N and K are this rank's
    schedule: str
    calls: int
    copies: int  # operands that had to be copied to another layout


Counts = Dict[Tuple[str, str, str], Tuple[int, int]]  # by operator, shape and schedule


def _add(counts: Counts, each: Prepared) -> None:
    key = (each.layout.operator, each.layout.shape, each.schedule)
    calls, copies = counts.get(key, (0, 0))
    counts[key] = (calls + each.calls, copies + each.copies)


def all_calls() -> Iterator[Calls]:
    """Yields the calls of all live groups."""
    for job in all_jobs():
        with job.lock:
            counts = dict(job.retired)
            for each in job.operations.values():
                _add(counts, each)
        for (operator, shape, schedule), numbers in counts.items():
            yield Calls(operator, job.group, shape, schedule, *numbers)


# -- The operator for a call. --

def _is_captured(job: GroupJob) -> bool:
    return job.on_gpu and bool(torch.cuda.is_current_stream_capturing())


def find(job: GroupJob, layout: Layout) -> Prepared:
    """Returns the operator for tensors of `layout`. The first call with a layout is collective and
    prepares the operator, which takes about 50 ms. Raises InputError instead if the stream is being
    captured, because a capture cannot block."""
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
    """Prepares an operation so that the ranks exchange which graphs are alive. Collective; blocks.
    Afterwards, usages are equal on all ranks."""
    text = (f"program @asks mesh [0 .. {job.ranks}) (%A: f32[1]) -> (%C: f32[1]) {{\n"
            "  set %C, %A\n}\n")
    job.job.prepare(compile(text, ranks=job.ranks), measures=False).close()


def measure(job: GroupJob, layout: Layout, seconds: float) -> Prepared:
    """Lets the ranks measure and choose a schedule, and stores the operator. Collective; blocks."""
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
