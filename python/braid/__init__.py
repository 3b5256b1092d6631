"""Braid hides communication behind matrix multiplications.

    import braid
    program = braid.compile(text, ranks=4)   # lower a fusion; raises InputError for a mistake
    print(program.program)                   # the host program that every rank runs
    print(program.check())                   # prove that it is safe, or raise RejectedError
    job = braid.create(ranks=4)              # ranks as threads; braid.join() under torchrun, mpirun
    op = job.prepare(program)                # allocate, exchange handles, tune
    C = op(A, B)                             # run

See `python -m pydoc braid` for the reference, and docs/python.md for an introduction.
"""
from braid import _library
from braid._command import Page, calibrate, doctor
from braid._errors import (Error, InputError, InternalError, PeerError, RejectedError,
                           TimedOutError, UnsupportedError, WrongResultError)
from braid._fusion import Extent, Fusion, Value, ceil, didx, stream
from braid._job import Job, Operation, Usage, create, join
from braid._program import Program, TensorSpec, compile

__version__ = str(_library.ask("version").decode())
__all__ = [
    "Error", "Extent", "Fusion", "InputError", "InternalError", "Job", "Operation", "Page",
    "PeerError", "Program", "RejectedError", "TensorSpec", "TimedOutError", "UnsupportedError",
    "Usage", "Value", "WrongResultError", "calibrate", "ceil", "compile", "create", "didx",
    "doctor", "join", "stream",
]
