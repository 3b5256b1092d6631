"""Jobs (ranks that run programs together) and operations (programs that are ready to run)."""
from __future__ import annotations

import collections
import ctypes
import weakref
from typing import Any, Deque, List, NamedTuple, Optional, Sequence, Tuple

from braid import _arrays, _library
from braid._errors import Error, InputError, PeerError
from braid._interrupt import interrupting
from braid._program import DTYPES, Program, Request, TensorSpec

_run = _library.function("session_run")
_replay = _library.function("session_replay")


def _numbers(name: str, address: int, *kinds: Any) -> List[int]:
    """Calls a library function. Returns the values that it stores in its output parameters."""
    values = [kind() for kind in kinds]
    _library.ask(name, address, *map(ctypes.byref, values))
    return [value.value for value in values]


class Usage(NamedTuple):
    """Memory used by a job's operations on the ranks of this process, in bytes.

    most: the sum of all operations' OperationUsage.most; the same on all ranks.
    in_graphs: the part of `most` used by operations whose is_in_graph is True.
    held: all memory allocated by the job, including unused space and memory of closed operations.
    most_held: the maximum of `held` over all ranks when the job's last prepare() or give_back()
        returned; the same on all ranks.
    """

    operations: int
    bytes: int
    most: int
    in_graphs: int
    held: int
    most_held: int


class OperationUsage(NamedTuple):
    """Memory used by an operation on the ranks of this process, in bytes.

    most: the maximum over all ranks; the same on all ranks.
    is_in_graph: True if a live graph on any rank contained runs of the operation when the job's
        last prepare() returned; the same on all ranks. A graph still counts as live for a few
        milliseconds after the caller has destroyed it.
    """

    bytes: int
    most: int
    is_in_graph: bool


class Job(_library.Unique):
    """A group of ranks that run programs together, returned by create() or join(). Not thread-safe.

    All ranks must make the collective calls in the same order. Any failure except InputError ends
    the job on all ranks: the other ranks raise PeerError with the root cause.
    """

    def __init__(self, address: int, backend: str) -> None:
        self._handle = _library.Handle("job", address)
        self.backend = backend
        self.ranks = int(_library.ask("job_ranks", address))
        self.first_rank = int(_library.ask("job_first_rank", address))
        self.hosted = int(_library.ask("job_hosted", address))
        self._operations: "weakref.WeakSet[Operation]" = weakref.WeakSet()
        self._used: List[Any] = []  # arrays that CPU runs may still access
        # Arrays of GPU runs that may still be in flight, each with the number of the mark that was
        # issued after the run.
        self._in_flight: Deque[Tuple[int, Any]] = collections.deque()
        self._lost: List[Any] = []  # arrays of failed GPU runs; released after the handle is freed

    def __del__(self) -> None:
        """Keeps alive the arrays that a run may still use, either because a signal interrupted the
        run, or because the run was in flight when the interpreter freed the job at exit."""
        if not getattr(self, "_used", None):
            return
        if self._handle.is_alive:
            self._interrupt()
            self._settle()
        self._keep_used()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        """Closes the job and its operations. If the block raised an exception, fails the job."""
        if error is None:
            for operation in list(self._operations):
                operation.close()
            self.close()
        else:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        code = error.code if isinstance(error, Error) else InputError.code
        try:
            self.fail(f"{type(error).__name__}: {error}", code)
        except Error:
            pass  # the original exception propagates instead
        if self._used:
            self._settle()
            self._keep_used()
        self._handle.free()

    @property
    def rank(self) -> int:
        """The rank of this process, or the first rank if the process hosts several."""
        return self.first_rank

    def prepare(self, program: Program, *, measures: bool = True) -> "Operation":
        """Allocates memory, exchanges handles, tunes GEMMs, and chooses the schedule for "auto".

        measures: if True, times GEMMs that no job has timed yet, which may take a second on GPUs.
            If False, uses the GEMM library's heuristic for them until they are timed.

        Collective; blocks until all work issued to the job is done. Raises InputError if the
        program is for a different number of ranks, or if the ranks pass different programs.
        """
        if not isinstance(program, Program):
            raise InputError(f"expected a Program, got {type(program).__name__}")
        if program.request.is_auto:
            program = self._choose(program.request)
        return Operation(self, program, measures)

    def _choose(self, request: Request) -> Program:
        """Returns the program with the schedule that the ranks choose. Collective; blocks."""
        with interrupting(self._interrupt):
            chosen = Program(request, self._handle.address)
        chosen.request = request._replace(ranks=self.ranks, schedule=chosen.schedule)
        return chosen

    def _interrupt(self) -> None:
        _library.ask("job_abort", self._handle.address, PeerError.code,
                     f"rank {self.rank} was interrupted".encode())

    def _block(self, name: str) -> None:
        """Calls a library function that may block. Ctrl-C aborts the call and ends the job."""
        with interrupting(self._interrupt):
            _library.call(name, self._handle.address)

    def synchronize(self) -> None:
        """Blocks until all work issued by this process is done."""
        try:
            self._block("job_synchronize")
        except Error:
            self._forget_used()
            raise
        self._used.clear()
        self._in_flight.clear()

    def _forget_used(self) -> None:
        """Releases the runs' arrays after a failure, unless unfinished runs may still use them."""
        if not _library.ask("job_is_stuck", self._handle.address):
            self._used.clear()
            self._in_flight.clear()

    def _keep_used(self) -> None:
        """Keeps the arrays alive until the process exits, even after the interpreter shuts down,
        because an unfinished run may use them."""
        for used in self._used:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(used))
        self._used.clear()

    def _settle(self) -> None:
        """After the job has ended, waits for interrupted runs to finish."""
        try:
            _library.call("job_synchronize", self._handle.address)
        except Error:
            pass
        self._forget_used()

    def commit(self) -> None:
        """Blocks until the results of all runs are valid on all ranks. If any rank has failed,
        raises on all ranks. Collective."""
        self._block("job_commit")

    def close(self) -> None:
        """Commits, then releases all resources of the job. Raises InputError, and closes nothing,
        if an operation or a graph with a captured run is alive. Collective; blocks. Idempotent."""
        if self._handle._address is None:
            return
        self._block("job_close")
        self._used.clear()
        self._in_flight.clear()
        self._handle.free()

    def fail(self, message: str, code: int = InputError.code) -> None:
        """Ends the job on all ranks, with `message` as the cause. Raises the job's root cause."""
        if not isinstance(message, str):
            raise InputError(f"message: expected a str, got {message!r}")
        _library.call("job_fail", self._handle.address,
                      _library.integer("code", code, -2**31, 2**31 - 1),
                      message.replace("\0", " ").encode(errors="backslashreplace"))

    def usage(self) -> Usage:
        kinds = [ctypes.c_int64] * 3
        return Usage(*_numbers("job_usage", self._handle.address, *kinds),
                     *_numbers("job_held", self._handle.address, *kinds))

    def give_back(self) -> None:
        """Returns the memory of closed operations to the system, except memory that other
        operations share. Collective; blocks until all work issued to the job is done."""
        self._block("job_give_back")

    def _keep_until_over(self, used: Any) -> bool:
        """Keeps `used` alive until the runs issued so far are done. If the stream is being captured
        or the job has failed, returns False and does not keep `used`."""
        mark = _library.ask("job_mark", self._handle.address)
        if not mark:
            return False
        self._in_flight.append((mark, used))
        passed = _library.ask("job_passed_marks", self._handle.address)
        while self._in_flight and self._in_flight[0][0] <= passed:
            self._in_flight.popleft()
        return True


class RunOnCpu:
    """A context manager for issuing one run. On exit, blocks until the run is done. Keeps the run's
    arrays alive, even if a signal handler raises an exception."""

    __slots__ = ("_job", "_used")

    def __init__(self, job: Job, used: Any) -> None:
        self._job, self._used = job, used

    def __enter__(self) -> None:
        self._job._used.append(self._used)

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self._job.synchronize()
        else:
            if not issubclass(kind, InputError):
                self._job._interrupt()
            self._job._settle()  # the run may have started, even if the job has failed


_MOST_SECONDS = 1e9


def _options(backend: str, ranks: int, timeout: float, max_bytes: int, reproducible: bool,
             device: int = -1, **place: Any) -> Any:
    return ctypes.byref(_library.JobOptions(
        backend=_library.encoded("backend", backend), ranks=_library.integer("ranks", ranks),
        timeout_ms=round(1000 * _library.seconds("timeout", timeout, _MOST_SECONDS)),
        most_bytes=_library.integer("max_bytes", max_bytes, 0), reproducible=bool(reproducible),
        device=device, **place))


def create(ranks: int, backend: str = "cpu", *, timeout: float = 60.0, max_bytes: int = 0,
           reproducible: bool = False) -> Job:
    """Creates a job whose ranks are all threads of this process.

    timeout: calls raise TimedOutError if no rank makes progress for this many seconds.
    max_bytes: the limit on the memory of all operations on a rank, in bytes; 0 means no limit.
    reproducible: must be True to run programs that were compiled with reproducible=True.

    Raises UnsupportedError for "cuda" and "nccl", whose ranks must be processes.
    """
    options = _options(backend, ranks, timeout, max_bytes, reproducible)
    return Job(_library.make("job_create", options), backend)


def join(backend: str = "cpu", ranks: int = 0, *, timeout: float = 60.0, max_bytes: int = 0,
         device: Optional[int] = None, reproducible: bool = False, name: Optional[str] = None,
         rank: int = 0) -> Job:
    """Joins a job as one rank. Reads the rank from the environment set by torchrun, mpirun or srun,
    or from BRAID_RANK and BRAID_RANKS, unless the caller passes `name`, `rank` and `ranks`.

    backend: "cpu", "cuda" or "nccl".
    ranks: the expected number of ranks; 0 means any number.
    device: the CUDA device number. If None, uses the only GPU or, if there are several, the GPU
        whose number is the rank's index on this host.
    name: the name of the job. Must be the same on all ranks, and differ from the names of all other
        jobs of this user on this host. Requires `ranks`. If None, the environment defines the job.
    rank: the rank of this process in the job `name`, from 0 to `ranks` - 1.

    See create() for the other arguments. Collective; blocks until all ranks have joined. Raises
    InputError if the environment defines no rank or is inconsistent, or if the ranks pass
    conflicting arguments.
    """
    ranks, rank = _library.integer("ranks", ranks), _library.integer("rank", rank)
    if name is None and rank != 0:
        raise InputError(f"rank {rank} requires a job name; without one, the environment sets the "
                         "rank")
    if name is not None and not 0 <= rank < ranks:
        raise InputError(f"expected a rank from 0 to ranks - 1 in job '{name}', got rank={rank} "
                         f"and ranks={ranks}")
    options = _options(backend, ranks, timeout, max_bytes, reproducible,
                       rank=rank,
                       device=-1 if device is None else
                       _library.integer("device", device, 0, 2**31 - 1),
                       name=None if name is None else _library.encoded("name", name))
    return Job(_library.make("job_join", options), backend)


class Operation(_library.Unique):
    """A program that is ready to run on the ranks of this process. Call the operation to run it."""

    def __init__(self, job: Job, program: Program, measures: bool = True) -> None:
        self.job = job
        self.program = program
        with interrupting(job._interrupt):
            self._handle = _library.Handle("session", _library.make(
                "session_prepare", job._handle.address, program._address, bool(measures)))
        job._operations.add(self)
        self._specs = program.inputs + program.outputs
        self._shapes = [(ctypes.c_int64 * len(spec.shape))(*spec.shape) for spec in self._specs]
        self._tensors = (_library.Tensor * (len(self._specs) * job.hosted))()
        for index, tensor in enumerate(self._tensors):  # each run sets the addresses
            spec = self._specs[index % len(self._specs)]
            tensor.dtype, tensor.axes = DTYPES.index(spec.dtype), len(spec.shape)
            tensor.shape = ctypes.cast(self._shapes[index % len(self._specs)],
                                       ctypes.POINTER(ctypes.c_int64))
        self._captured: List[Any] = []  # arrays of runs captured in the caller's graphs
        self._recorded: Any = None  # the arrays that replay() uses
        self._is_on_host = job.backend in ("cpu", "null")

    @property
    def runs(self) -> int:
        """The number of runs issued so far."""
        return int(_library.ask("session_runs", self._handle.address))

    def usage(self) -> OperationUsage:
        size, most, is_in_graph = _numbers("session_usage", self._handle.address, ctypes.c_int64,
                                           ctypes.c_int64, ctypes.c_int32)
        return OperationUsage(size, most, bool(is_in_graph))

    def close(self) -> None:
        """Releases the resources of the operation. Never blocks. Idempotent."""
        self._record(None)
        self._handle.free()

    def __del__(self) -> None:
        if getattr(self, "_recorded", None) and self.job._handle.is_alive:
            self._record(None)

    def _record(self, owners: Any) -> None:
        """Keeps `owners` alive for later replays, and the previous owners for replays in flight."""
        before, self._recorded = self._recorded, owners
        if before and not self._is_on_host and self.job._handle._address is not None:
            self._keep(before)

    def keep_after_error(self, owners: Any) -> None:
        """Keeps `owners` alive after a GPU run has raised an exception. If the job has failed, the
        run may have issued commands that never finish, so `owners` live as long as the job."""
        if not self.job._keep_until_over(owners):
            self.job._lost.append(owners)

    def _keep(self, owners: Any) -> None:
        """Keeps `owners` alive until the runs issued so far are done. If the caller is capturing a
        graph, keeps them as long as this operation, which must outlive the graph."""
        if not self.job._keep_until_over(owners):
            self._captured.append(owners)

    def __call__(self, *inputs: Any, out: Any = None, stream: Optional[int] = None) -> Any:
        """Runs the program once. Returns the output, or a tuple if the program has several outputs.

        inputs: one contiguous array per input of the program, with the local shape. The arrays can
            be from NumPy, PyTorch, CuPy, or any library that supports __dlpack__. If this process
            hosts several ranks, each input is a list with one array per rank.
        out: the array that receives the output, or a tuple of arrays if there are several outputs,
            in the same form as `inputs`. If None, the library of the inputs allocates the outputs.
        stream: a cudaStream_t. If None, the current stream of the inputs' library.

        On CPU ranks, blocks until the run is done. On GPUs, only enqueues the run on the stream,
        like a kernel launch. If an array does not match the program, raises InputError and does not
        issue the run.
        """
        address = self._handle.address
        columns = self._columns(inputs, self.program.inputs, "input")
        stream = self._stream(stream, columns[0][0] if columns else None)
        outputs, owners = self._bind(columns, out, stream)
        if self._is_on_host:
            with RunOnCpu(self.job, owners):
                _run(address, self._tensors, len(self._tensors), stream)
        else:
            try:
                _run(address, self._tensors, len(self._tensors), stream)
            except Error:
                self.keep_after_error(owners)
                raise
            self._keep(owners)
        return self._results(outputs)

    def _stream(self, given: Optional[int], array: Any) -> Optional[int]:
        """Returns `given`, or the current stream of the array's library if `given` is None."""
        if given is not None:
            return _library.integer("stream", given, 0, 2**64 - 1)
        return None if self._is_on_host else _arrays.current_stream(array)

    def capture(self, *inputs: Any, out: Any = None) -> Any:
        """Records one run as a graph, replacing the previous graph, if any. Executes nothing.

        Takes the same arguments as __call__(), and keeps the arrays alive. Returns the outputs, to
        which replay() writes. Blocks. Raises UnsupportedError if the backend has no graphs.
        """
        address = self._handle.address
        outputs, owners = self._bind(self._columns(inputs, self.program.inputs, "input"), out)
        _library.call("session_capture", address, self._tensors, len(self._tensors))
        self._record(owners)
        return self._results(outputs)

    def replay(self, stream: Optional[int] = None) -> None:
        """Issues the recorded run, like __call__(), using the current contents of the arrays.

        Raises InputError if no run has been recorded.
        """
        stream = self._stream(stream, self._recorded[0] if self._recorded else None)
        if self._is_on_host:
            with RunOnCpu(self.job, self._recorded):
                _replay(self._handle.address, stream)
        else:
            _replay(self._handle.address, stream)

    def _results(self, outputs: Sequence[Sequence[Any]]) -> Any:
        results = tuple(column if self.job.hosted > 1 else column[0] for column in outputs)
        return results if len(results) > 1 else results[0]

    def _bind(self, columns: Sequence[Sequence[Any]], out: Any,
              stream: Optional[int] = None) -> Tuple[List[Sequence[Any]], List[Any]]:
        """Sets all addresses. Returns the outputs and the objects that must outlive the run."""
        owners = self._fill(columns, self.program.inputs, "input", 0, stream)
        if out is None:
            outputs: List[Sequence[Any]] = [
                [_arrays.empty_like(columns[0][i], spec) for i in range(self.job.hosted)]
                for spec in self.program.outputs]
        else:
            given = out if len(self.program.outputs) > 1 else (out,)
            if not isinstance(given, (list, tuple)):
                raise InputError(f"out: expected a list of {len(self.program.outputs)} arrays, got "
                                 f"{type(out).__name__}")
            outputs = self._columns(given, self.program.outputs, "output")
        owners += self._fill(outputs, self.program.outputs, "output", len(columns), stream)
        if out is not None:
            for column in outputs:
                for array in column:
                    _arrays.note_write(array)
        return outputs, owners

    def _columns(self, given: Sequence[Any], specs: Sequence[TensorSpec],
                 what: str) -> List[Sequence[Any]]:
        """Returns one sequence per tensor, with an array for each rank of this process."""
        if len(given) != len(specs):
            names = ", ".join("%" + spec.name for spec in specs)
            raise InputError(f"@{self.program.name}: expected {len(specs)} {what}s ({names}), got "
                             f"{len(given)}")
        if self.job.hosted == 1:
            return [(array,) for array in given]
        for spec, column in zip(specs, given):
            if not isinstance(column, (list, tuple)) or len(column) != self.job.hosted:
                raise InputError(f"{what} %{spec.name}: expected a list of {self.job.hosted} "
                                 "arrays, one for each rank of this process")
        return list(given)

    def _fill(self, columns: Sequence[Sequence[Any]], specs: Sequence[TensorSpec], what: str,
              first: int, stream: Optional[int]) -> List[Any]:
        """Sets the addresses of `specs`. Returns the objects that must outlive the run."""
        owners = []
        for index, (spec, column) in enumerate(zip(specs, columns)):
            for rank, given in enumerate(column):
                array = _arrays.view(given, f"{what} %{spec.name}", stream)
                _arrays.check(array, spec, what, self._is_on_host)
                self._tensors[rank * len(self._specs) + first + index].data = array.address
                owners.append(array.owner)
        return owners
