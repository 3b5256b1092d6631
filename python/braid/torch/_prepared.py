"""An operator that is prepared to run."""
from __future__ import annotations

import ctypes
from typing import Sequence, Tuple

import torch

from braid import _library
from braid._errors import Error, InputError, PeerError
from braid._job import Operation, RunOnCpu
from braid._program import Request
from braid.torch._group import GroupJob
from braid.torch._layout import Layout

Tensor = torch.Tensor

_run_at = _library.fast("session_run_at")


class Counts:
    """The calls of one operator with tensors of one shape."""

    calls = 0
    copies = 0  # operands that had to be copied to another layout
    preparations = 0  # caused by calls


class Prepared:
    """An operator for tensors of one layout in one group. The group's job stores it."""

    def __init__(self, job: GroupJob, layout: Layout, seconds: float = 0.0,
                 measures: bool = False) -> None:
        """Lets the ranks choose the schedule by trials of `seconds`, or from stored results if it
        is 0. See Job.prepare() for `measures`. Collective; blocks."""
        self.operation = _prepare(job, layout, seconds, measures)
        self.layout = layout
        self.schedule = self.operation.program.schedule
        self.counts: Counts = job.counts.setdefault(
            (layout.operator, layout.shape, self.schedule), Counts())
        self.last_turn = 0  # the sequence number of its last call
        self._has_rows = layout.operator != "all_gather_matmul" or layout.rows.of(job.rank) > 0
        count = 1 + len(layout.weights) + sum(each.has_bias for each in layout.weights)
        count += len(layout.weights) + layout.returns_gathered
        self._addresses = (ctypes.c_void_p * count)()

    def run(self, job: GroupJob, inputs: Sequence[Tensor],
            outputs: Sequence[Tuple[Tensor, int]]) -> None:
        """Issues one run to the current stream. On CPUs, blocks until it is done. `outputs`
        contains the tensors and their addresses."""
        self.counts.calls += 1
        self.last_turn = next(job.turns)
        addresses, A = self._addresses, inputs[0]
        for index, tensor in enumerate(inputs):
            addresses[index] = tensor.data_ptr()
        if not self._has_rows:
            addresses[0] = outputs[0][1]  # a valid address that is not read
        for index, (_, address) in enumerate(outputs, len(inputs)):
            addresses[index] = address
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
    """Prepares the operation. An InputError means that the ranks disagree, and ends the job."""
    auto = "auto;launch=graph" if job.on_gpu else "auto"
    request = Request(layout.fusion(), job.ranks, auto, None, False, seconds, {})
    try:
        return Operation(job.job, job.job._choose(request), measures)
    except InputError as error:
        job.error = PeerError(
            f"group '{job.group}': the ranks called different operators, or one operator with "
            f"different shapes, types or strides: rank {job.rank} called {layout.operator} of "
            f"{layout.shape}; {error}")
        raise PeerError(str(job.error)) from None  # a raised error keeps tensors alive
