"""Prepares and caches the operators of each group, within a memory limit."""
from __future__ import annotations

import ctypes
import warnings
from typing import Any, List, NamedTuple, Sequence, Tuple

import torch

from braid import _library
from braid._errors import Error, InputError, PeerError
from braid._job import Operation, RunOnCpu
from braid._program import Request, compile
from braid.torch._group import GroupJob, all_jobs
from braid.torch._layout import Layout

Tensor = torch.Tensor

MANY_PREPARATIONS = 3  # issue a warning when calls have prepared one layout this many times

_run_at = _library.function("session_run_at")
_bound = 4 << 30  # see set_memory_bound()


class Counts:
    """Call statistics for one operator, shape and schedule."""

    calls = 0
    copies = 0  # operands that had to be copied to another layout
    preparations = 0  # preparations by calls, excluding those by prepare()


class Prepared:
    """An operator prepared for one layout in one group. The group's job owns this object."""

    def __init__(self, job: GroupJob, layout: Layout, seconds: float = 0.0,
                 measures: bool = False) -> None:
        """Lets the ranks choose the schedule in trials of up to `seconds` in total, or from stored
        results if `seconds` is 0. See Job.prepare() for `measures`. Collective; blocks."""
        self.operation = _prepare(job, layout, seconds, measures)
        self.layout = layout
        self.schedule = self.operation.program.schedule or layout.schedule(job.on_gpu)
        self.counts: Counts = job.counts.setdefault(
            (layout.operator, layout.shape, self.schedule), Counts())
        self.is_measured = measures or not layout.schedule(job.on_gpu).startswith("auto")
        self.last_turn = 0  # the sequence number of its last call
        self._has_rows = layout.operator != "all_gather_matmul" or layout.rows.of(job.rank) > 0
        program = self.operation.program
        self._addresses = (ctypes.c_void_p * len(program.inputs + program.outputs))()

    def run(self, job: GroupJob, inputs: Sequence[Tensor], outputs: Sequence[Tuple[Tensor, int]],
            operands: int = 1) -> None:
        """Issues one run to the current stream. On CPUs, blocks until the run is done. The first
        `operands` inputs and all outputs contain the tensors of all sequences, one after another.
        `outputs` contains (tensor, address) pairs."""
        self.counts.calls += 1
        self.last_turn = next(job.turns)
        A, sequences = inputs[0], self.layout.sequences
        places = [tensor.data_ptr() for tensor in inputs]
        if not self._has_rows:
            places[0] = outputs[0][1]  # any valid address; it is not read
        if sequences > 1:
            apart = [tensor.nbytes // sequences for tensor in inputs[:operands]]
            places[:operands] = [place + p * size for p in range(sequences)
                                 for place, size in zip(places[:operands], apart)]
        for tensor, address in outputs:
            size = tensor.nbytes // sequences
            places += [address + p * size for p in range(sequences)]
        addresses: Any = self._addresses
        addresses[:] = places
        operation = self.operation._handle.address
        if A.is_cuda:
            try:
                _run_at(operation, addresses, len(addresses),
                        torch._C._cuda_getCurrentRawStream(A.get_device()))
            except Error:
                self.operation.keep_after_error((inputs, outputs))
                raise
        else:
            with RunOnCpu(job.job, (inputs, outputs)):
                _run_at(operation, addresses, len(addresses), None)


def _prepare(job: GroupJob, layout: Layout, seconds: float, measures: bool) -> Operation:
    """Prepares the operation. If the ranks disagree, raises PeerError and marks the job failed."""
    schedule = layout.schedule(job.on_gpu)
    request = Request(layout.fusion(), job.ranks, schedule, None, False, seconds, {})
    try:
        return Operation(job.job, job.job._choose(request), measures)
    except InputError as error:
        job.error = PeerError(
            f"group '{job.group}': the ranks called different operators, or the same operator with "
            f"different shapes, types or strides: rank {job.rank} called {layout.operator} of "
            f"{layout.shape}; {error}")
        raise PeerError(str(job.error)) from None  # job.error must not keep tensors alive


# -- Memory. --

def set_memory_bound(size: int) -> None:
    """Limits the memory of each group's operators on this rank, per kind of device, to `size`
    bytes. Operators in live CUDA graphs do not count. 0 means no limit; the default is 4 GiB. The
    limit must be the same on all ranks.

    Preparing an operator may exceed the limit temporarily; other operators are then released, least
    recently called first. A released operator is prepared again at its next call. Repeatedly
    preparing the same operator issues a RuntimeWarning.
    """
    global _bound
    if not isinstance(size, int) or size < 0:
        raise InputError(f"expected a non-negative number of bytes, got {size!r}")
    _bound = size


class Memory(NamedTuple):
    """Memory used by operators on this rank."""

    bytes: int  # allocated, including unused memory
    operators: int
    bound: int  # the limit in bytes for each group, excluding operators in CUDA graphs


def memory() -> Memory:
    """Returns the memory used by all groups' operators on this rank, and the memory limit."""
    usages = []
    for job in all_jobs():
        with job.lock:
            usages.append(job.job.usage())
    return Memory(sum(each.held for each in usages), sum(each.operations for each in usages),
                  _bound)


def _exceeds_bound(job: GroupJob) -> bool:
    usage = job.job.usage()
    return 0 < _bound < usage.most_held - usage.in_graphs


def _add_operation(job: GroupJob, prepared: Prepared) -> None:
    """Adds a prepared operator. While the limit is exceeded, releases the least recently called
    operators that no live graph contains. All ranks release the same operators, because they make
    the same calls, and usage() is the same on all ranks."""
    job.operations[prepared.layout] = prepared
    prepared.last_turn = next(job.turns)
    if not _exceeds_bound(job):
        return
    job.job.give_back()  # freeing memory left over from trials or old operators may suffice
    for oldest in sorted(job.operations.values(), key=lambda each: each.last_turn)[:-1]:
        if not _exceeds_bound(job):
            return
        if not oldest.operation.usage().is_in_graph:
            retire(job, oldest.layout)
            job.job.give_back()


def retire(job: GroupJob, key: Layout) -> None:
    """Releases the resources of an operator. The report still lists its calls."""
    prepared = job.operations.pop(key)
    job.sites = {site: known for site, known in job.sites.items() if known[0] is not prepared}
    prepared.operation.close()


# -- The operator for a call. --

def _is_captured(job: GroupJob) -> bool:
    return job.on_gpu and bool(torch.cuda.is_current_stream_capturing())


def find(job: GroupJob, layout: Layout) -> Prepared:
    """Returns the operator for `layout`. The first call with a new layout is collective and
    prepares the operator, which takes about 50 ms. If the stream is being captured, the first call
    raises InputError, because it would block."""
    prepared = job.operations.get(layout)
    if prepared is None:
        if _is_captured(job):
            raise InputError(
                f"{layout.operator} of {layout.shape} cannot be prepared during graph capture: "
                "before capturing, call the operator or braid.torch.prepare() with tensors like "
                "these")
        prepared = Prepared(job, layout)
        prepared.counts.preparations += 1
        if prepared.counts.preparations == MANY_PREPARATIONS:
            warnings.warn(
                f"group '{job.group}': {layout.operator} of {layout.shape} is being prepared "
                f"repeatedly, because prepared operators exceed the memory bound of {_bound} "
                "bytes: raise the bound with braid.torch.set_memory_bound()", RuntimeWarning,
                stacklevel=2)
        _add_operation(job, prepared)
    return prepared


def _ask_for_graphs(job: GroupJob) -> None:
    """Prepares a dummy operation, so that the ranks exchange information about live graphs, and
    usage() is up to date and the same on all ranks. Collective; blocks."""
    text = (f"program @asks mesh [0 .. {job.ranks}) (%A: f32[1]) -> (%C: f32[1]) {{\n"
            "  set %C, %A\n}\n")
    job.job.prepare(compile(text, ranks=job.ranks), measures=False).close()


def unmeasured(job: GroupJob) -> List[Layout]:
    """Returns the layouts whose schedules were not measured, except those in a live CUDA graph, in
    the order of their first calls. Collective; may block."""
    found = [layout for layout, each in job.operations.items() if not each.is_measured]
    if found and job.on_gpu:
        _ask_for_graphs(job)
    return [layout for layout in found
            if not job.operations[layout].operation.usage().is_in_graph]


def measure(job: GroupJob, layout: Layout, seconds: float) -> Prepared:
    """Lets the ranks measure and choose a schedule, and caches the operator. Collective; blocks."""
    before = job.operations.get(layout)
    if _is_captured(job):
        raise InputError(f"{layout.operator} of {layout.shape} cannot be measured during graph "
                         "capture: call prepare() before capturing")
    if before is not None and job.on_gpu:
        _ask_for_graphs(job)
        if before.operation.usage().is_in_graph:
            raise InputError(f"{layout.operator} of {layout.shape} cannot be measured again "
                             "while a graph contains runs of it: call prepare() before "
                             "capturing the operator, or destroy the graph")
    prepared = Prepared(job, layout, seconds, measures=True)
    if before is not None:
        retire(job, layout)
    _add_operation(job, prepared)
    return prepared
