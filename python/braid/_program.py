"""Compiles a fusion or a program into the program that every rank runs."""
from __future__ import annotations

import ctypes
import json
import os
import pathlib
import re
import tempfile
import threading
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from braid import _command, _library
from braid._errors import InputError
from braid._fusion import Fusion

Source = Union[str, "os.PathLike[str]", Fusion]
_AUTO = re.compile("auto(?:[;,]|$)")
DTYPES = ("bf16", "f16", "f32", "f64")


class TensorSpec(NamedTuple):
    """An input or output of a program. `shape` is the local shape on each rank. The layout is
    row-major and contiguous."""

    name: str
    dtype: str
    shape: Tuple[int, ...]


class Request(NamedTuple):
    """The arguments of compile()."""

    source: Source
    ranks: Optional[int]
    schedule: Optional[str]
    entry: Optional[str]
    reproducible: bool
    auto_seconds: float
    parameters: Dict[str, int]

    @property
    def is_auto(self) -> bool:
        return self.schedule is not None and _AUTO.match(self.schedule) is not None

    def compile(self, job: Optional[int] = None) -> int:
        """Compiles the program, and returns its address. If the schedule is "auto" and `job` is
        given, the ranks measure schedules."""
        schedule = self.schedule
        if self.is_auto and not job:  # use only the knobs after "auto"
            schedule = (schedule or "")[len("auto"):].lstrip(",")
        names = [_library.encoded("a parameter's name", name) for name in self.parameters]
        values = [_library.integer(name, value) for name, value in self.parameters.items()]
        options = _library.Lowering(
            entry=_encoded("entry", self.entry),
            ranks=0 if self.ranks is None else _library.integer("ranks", self.ranks, 1),
            parameter_names=(ctypes.c_char_p * len(names))(*names),
            parameter_values=(ctypes.c_int64 * len(names))(*values),
            parameters=len(names), schedule=_encoded("schedule", schedule),
            auto_seconds=_library.seconds("auto_seconds", self.auto_seconds),
            reproducible=bool(self.reproducible))
        prefix, first = ("job_", (job,)) if job else ("", ())
        if isinstance(self.source, os.PathLike):
            return _library.make(prefix + "compile_file", *first, os.fsencode(self.source),
                                 ctypes.byref(options))
        name = self.source.name if isinstance(self.source, Fusion) else "<text>"
        is_path = isinstance(self.source, str) and self.source.endswith(".braid")
        if is_path or not isinstance(self.source, (str, Fusion)):
            raise InputError("expected source text, a Fusion, or a pathlib.Path to a file, got the "
                             f"{type(self.source).__name__} {self.source!r:.60}")
        return _library.make(prefix + "compile_text", *first,
                             _library.encoded("a fusion's name", name),
                             _library.encoded("source", str(self.source)), ctypes.byref(options))


def _encoded(name: str, text: Optional[str]) -> Optional[bytes]:
    return None if text is None else _library.encoded(name, text)


class Program:
    """A verified program for all ranks. Immutable and thread-safe.

    With schedule="auto", this program has the default schedule, and the ranks choose the schedule
    in Job.prepare(). Operation.program is the program with the chosen schedule.
    """

    def __init__(self, request: Request, job: Optional[int] = None) -> None:
        self.request = request
        self._asking = threading.Lock()  # a returned string is valid only until the next call
        self._handle = _library.Handle("program", request.compile(job))
        count = _library.ask("program_inputs", self._address)
        tensors = [self._tensor(index) for index in
                   range(count + _library.ask("program_outputs", self._address))]
        self.inputs, self.outputs = tensors[:count], tensors[count:]

    @property
    def _address(self) -> int:
        return self._handle.address

    def _tensor(self, index: int) -> TensorSpec:
        name, tensor = ctypes.c_char_p(), _library.Tensor()
        _library.call("program_tensor", self._address, index, ctypes.byref(name),
                      ctypes.byref(tensor))
        return TensorSpec((name.value or b"").decode(), DTYPES[tensor.dtype],
                          tuple(tensor.shape[:tensor.axes]))

    def __repr__(self) -> str:
        return f"<braid.Program @{self.name} for {self.ranks} ranks>"

    def __str__(self) -> str:
        return self.program

    @property
    def name(self) -> str:
        return str(_library.ask("program_name", self._address).decode())

    @property
    def ranks(self) -> int:
        return int(_library.ask("program_ranks", self._address))

    @property
    def program(self) -> str:
        """The output of `braid compile`: the host program, preceded by its fusion if there is
        one."""
        return str(_library.ask("program_text", self._address).decode())

    @property
    def schedule(self) -> str:
        """The schedule, in the syntax of compile(schedule=), or "" if the program has none."""
        return self._answer("program_schedule")

    def explain(self) -> str:
        """Returns the compiler's choices and their origins: one line per knob, one line that lists
        the stages that are not overlapped and the reasons, and the trials if there were any.
        """
        text = self._answer("program_explain")
        if self.request.is_auto:
            text = f"  schedule is {self.request.schedule}: Job.prepare() will choose one\n" + text
        return text

    def plan(self, rank: int) -> str:
        """Returns the commands of one rank, like `braid compile --emit plan`.

        Raises InputError if the rank does not exist.
        """
        return self._text("program_plan", _library.integer("rank", rank))

    def check(self, queues: int = 0, runs: int = 3) -> str:
        """Proves that the program is free of races and deadlocks in every order of execution, and
        that it computes the result of the fusion. Returns the report of `braid check`.

        queues: the number of hardware queues that the streams of a rank share. If 0, finds the
            smallest safe number.
        runs: the number of back-to-back runs to check.

        Raises RejectedError with a counterexample if the proof fails. Blocks; signals do not
        interrupt the call. Time and memory grow with the sizes of the program and of the mesh.
        """
        return self._text("program_check", _library.integer("queues", queues, 0, 2**32 - 1),
                          _library.integer("runs", runs, 0, 2**32 - 1))

    def json(self) -> Dict[str, Any]:
        """Returns the fusion and the program as JSON, like `braid compile --emit json`."""
        return dict(json.loads(self._command("compile", {"emit": "json"})))

    def simulate(self, **options: Any) -> Dict[str, Any]:
        """Predicts the duration of a run on this or another machine.

        Returns the JSON output of `braid simulate`. `predictions` has one entry, whose `us` is the
        duration of one run in microseconds. Its `E` is the overlap efficiency: the duration of all
        GEMMs alone or of everything else alone, whichever is longer, divided by the duration of the
        run. An `E` of 1.0 means that the shorter of the two is completely hidden.

            program.simulate(machine="dgx-h100-8")["predictions"][0]["us"]

        options: the command's flags. `machine` is a built-in model, such as "h200-4", or the path
            of a file that contains a result of calibrate(). launch="graph" predicts a graph replay.
        """
        return dict(json.loads(self._command("simulate", {"json": True, **options})))

    def view(self, trace: Union[None, str, "os.PathLike[str]", Dict[str, Any]] = None,
             **options: Any) -> _command.Page:
        """Returns an HTML page that shows the program and a timeline of its commands. The page is a
        str, which Jupyter renders inline.

            pathlib.Path("ring.html").write_text(program.view())

        trace: the result of trace(), or the path of a file from `braid run --trace`. If set, the
            page shows the measured run as well as the predicted run.
        options: the command's flags, such as machine="h100-2", or check=True for a counterexample.
        """
        if not isinstance(trace, dict):
            path = None if trace is None else os.fspath(trace)
            return _command.Page(self._command("view", {"trace": path, **options}))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(trace, file)
            file.flush()
            return _command.Page(self._command("view", {"trace": file.name, **options}))

    def verify(self, **options: Any) -> str:
        """Runs the program on random inputs, and compares every element of the results with a
        reference. Returns the report of `braid run --verify`. Raises WrongResultError with the
        first wrong element. Raises UnsupportedError if no fusion defines the reference.

            print(program.verify(iterations=20))

        options: the command's flags, such as backend="cuda" or iterations=5. The ranks are threads
            of one process, or processes if processes=True. Under torchrun, mpirun or srun, each
            calling process is one rank instead.
        """
        return self._command("run", {"verify": True, **options})

    def trace(self, **options: Any) -> Dict[str, Any]:
        """Runs the program on random inputs. Returns a trace of all commands in the format of
        https://ui.perfetto.dev: a dict whose `traceEvents` have times in microseconds.

        options: the command's flags; see verify().
        """
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            self._command("run", {"trace": path, **options})
            return dict(json.loads(path.read_text(encoding="utf-8")))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles the source text and the arguments of compile(). Unpickling compiles the program
        again."""
        source = self.request.source
        text = (pathlib.Path(source).read_text(encoding="utf-8")
                if isinstance(source, os.PathLike) else str(source))
        return Program, (self.request._replace(source=text),)

    def _command(self, name: str, options: Dict[str, Any]) -> str:
        """Runs the command on this program's text, and returns its output."""
        return _command.run(name, "-", *_command.flags(options), text=self.program)

    def _answer(self, name: str) -> str:
        with self._asking:
            return str(_library.ask(name, self._address).decode())

    def _text(self, name: str, *arguments: Any) -> str:
        text = ctypes.c_char_p()
        with self._asking:
            _library.call(name, self._address, *arguments, ctypes.byref(text))
            return (text.value or b"").decode()


def compile(source: Source, ranks: Optional[int] = None, schedule: Optional[str] = None, *,
            entry: Optional[str] = None, reproducible: bool = False, auto_seconds: float = 2.0,
            **parameters: int) -> Program:
    """Lowers a fusion to a program, or compiles a program as written.

    source: the source text, the path of a file (os.PathLike), or a Fusion.
    ranks: the number of ranks; sets the parameter that defines the size of the fusion's mesh.
    schedule: the same syntax as on the command line: "ring;chunks=2" for all stages,
        "H=ring,Y=bulk" for individual stages, or "auto". With "auto", the ranks measure schedules
        and choose one.
    auto_seconds: the time budget for the measurements of "auto". If 0, uses the schedule that was
        measured on this machine for similar sizes, or else the default schedule.
    entry: the name of the fusion or program in the source; optional if there is only one.
    reproducible: if True, the results depend only on the inputs, the number of ranks, the device
        model and the version of the GEMM library.
    parameters: the values of the fusion's parameters, such as M=4096.

    Raises InputError, with a location (filename, lineno, offset), if the source is invalid. Raises
    UnsupportedError if the fusion cannot be lowered with these arguments.
    """
    if schedule is not None and not isinstance(schedule, str):
        raise InputError(f"schedule: expected a str or None, got {type(schedule).__name__}")
    return Program(Request(source, ranks, schedule, entry, reproducible, auto_seconds, parameters))
