"""Loads the shared library in this folder, and declares the functions of api/c.h."""
from __future__ import annotations

import atexit
import ctypes
import numbers
import operator
import os
import weakref
from ctypes import (POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32,
                    c_void_p)
from typing import Any, Callable, Optional

from braid._errors import InputError, error_of


class Tensor(ctypes.Structure):
    """The struct braid_tensor in api/c.h."""
    _fields_ = [("data", c_void_p), ("shape", POINTER(c_int64)), ("axes", c_int32),
                ("dtype", c_int32)]


class _Options(ctypes.Structure):
    """A struct whose first member is the struct's size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(size=ctypes.sizeof(self), **fields)


class Lowering(_Options):
    """The struct braid_lowering in api/c.h."""
    _fields_ = [("size", c_size_t), ("entry", c_char_p), ("ranks", c_int64),
                ("parameter_names", POINTER(c_char_p)), ("parameter_values", POINTER(c_int64)),
                ("parameters", c_size_t), ("schedule", c_char_p), ("auto_seconds", c_double),
                ("reproducible", c_int64)]


class JobOptions(_Options):
    """The struct braid_job_options in api/c.h."""
    _fields_ = [("size", c_size_t), ("backend", c_char_p), ("ranks", c_int64),
                ("timeout_ms", c_int64), ("most_bytes", c_int64), ("device", c_int32),
                ("reproducible", c_int32), ("name", c_char_p), ("rank", c_int64)]


_ADDRESS = POINTER(c_void_p)
_TEXT = POINTER(c_char_p)

# Argument types of the functions that can fail. These functions return an error, or null.
_FALLIBLE = {
    "compile_text": (c_char_p, c_char_p, POINTER(Lowering), _ADDRESS),
    "compile_file": (c_char_p, POINTER(Lowering), _ADDRESS),
    "program_tensor": (c_void_p, c_size_t, _TEXT, POINTER(Tensor)),
    "program_plan": (c_void_p, c_int64, _TEXT),
    "program_check": (c_void_p, c_uint32, c_uint32, _TEXT),
    "job_create": (POINTER(JobOptions), _ADDRESS),
    "job_join": (POINTER(JobOptions), _ADDRESS),
    "job_compile_text": (c_void_p, c_char_p, c_char_p, POINTER(Lowering), _ADDRESS),
    "job_compile_file": (c_void_p, c_char_p, POINTER(Lowering), _ADDRESS),
    "job_stream": (c_void_p, c_uint32, _ADDRESS),
    "job_synchronize": (c_void_p,),
    "job_commit": (c_void_p,),
    "job_close": (c_void_p,),
    "job_give_back": (c_void_p,),
    "job_fail": (c_void_p, c_int32, c_char_p),
    "session_prepare": (c_void_p, c_void_p, c_int32, _ADDRESS),
    "session_run": (c_void_p, POINTER(Tensor), c_size_t, c_void_p),
    "session_run_at": (c_void_p, POINTER(c_void_p), c_size_t, c_void_p),
    "session_capture": (c_void_p, POINTER(Tensor), c_size_t),
    "session_replay": (c_void_p, c_void_p),
}
# Result type and argument types of the other functions.
_OTHERS = {
    "version": (c_char_p,),
    "error_code": (c_int32, c_void_p),
    "error_message": (c_char_p, c_void_p),
    "error_free": (None, c_void_p),
    "program_free": (None, c_void_p),
    "program_ranks": (c_int64, c_void_p),
    "program_name": (c_char_p, c_void_p),
    "program_text": (c_char_p, c_void_p),
    "program_schedule": (c_char_p, c_void_p),
    "program_explain": (c_char_p, c_void_p),
    "program_inputs": (c_size_t, c_void_p),
    "program_outputs": (c_size_t, c_void_p),
    "job_free": (None, c_void_p),
    "job_ranks": (c_int64, c_void_p),
    "job_first_rank": (c_int64, c_void_p),
    "job_hosted": (c_int64, c_void_p),
    "job_abort": (None, c_void_p, c_int32, c_char_p),
    "job_is_stuck": (c_int32, c_void_p),
    "job_usage": (None, c_void_p, POINTER(c_int64), POINTER(c_int64), POINTER(c_int64)),
    "job_held": (None, c_void_p, POINTER(c_int64), POINTER(c_int64), POINTER(c_int64)),
    "job_mark": (c_int64, c_void_p),
    "job_passed_marks": (c_int64, c_void_p),
    "session_free": (None, c_void_p),
    "session_runs": (c_int64, c_void_p),
    "session_usage": (None, c_void_p, POINTER(c_int64), POINTER(c_int64), POINTER(c_int32)),
}


def _load() -> Any:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libbraid.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load the Braid library: {error}") from None
    for name, arguments in _FALLIBLE.items():
        function = getattr(library, "braid_" + name)
        function.restype, function.argtypes, function.errcheck = c_void_p, arguments, _check
    for name, types in _OTHERS.items():
        function = getattr(library, "braid_" + name)
        function.restype, function.argtypes = types[0], types[1:]
    return library


def _check(error: Optional[int], *_: Any) -> None:
    """Raises the exception for the error that a function has returned, if any."""
    if error:
        code, message = ask("error_code", error), ask("error_message", error).decode()
        ask("error_free", error)
        raise error_of(code, message)


_library = _load()


def function(name: str) -> Callable[..., Any]:
    """Returns the library function `name`. A function that can fail raises an exception."""
    found: Callable[..., Any] = getattr(_library, "braid_" + name)
    return found


def ask(name: str, *arguments: Any) -> Any:
    """Calls a function that does not block, and returns its result."""
    return function(name)(*arguments)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that may block. If the interpreter exits meanwhile, no object is freed."""
    global _calls
    _calls += 1
    try:
        ask(name, *arguments)
    finally:
        _calls -= 1


def make(name: str, *arguments: Any) -> int:
    """Calls a function that creates an object. Returns the object's address."""
    result = c_void_p()
    call(name, *arguments, byref(result))
    return result.value or 0


def integer(name: str, value: Any, least: int = -2**63, most: int = 2**63 - 1) -> int:
    """Returns `value` as an int. Raises InputError unless it is an integer in [least, most],
    because ctypes would silently wrap out-of-range values."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name}: expected an integer, got {value!r}") from None
    if not least <= number <= most:
        raise InputError(f"{name}: expected an integer from {least} to {most}, got {number}")
    return number


def seconds(name: str, value: Any, most: float = float("inf")) -> float:
    """Returns `value` as a float. Raises InputError unless it is a number in [0, most]."""
    given = float(value) if isinstance(value, numbers.Real) else -1.0
    if not 0 <= given <= most:
        bound = "" if most == float("inf") else f" up to {most:g}"
        raise InputError(f"{name}: expected a non-negative number of seconds{bound}, got {value!r}")
    return given


def encoded(name: str, text: Any) -> bytes:
    """Encodes `text` as UTF-8. Raises InputError unless it is a str without NUL characters."""
    if not isinstance(text, str):
        raise InputError(f"{name}: expected a str, got {text!r}")
    try:
        result = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: cannot be encoded as UTF-8: {error.reason}") from None
    if b"\0" in result:
        raise InputError(f"{name}: expected text without NUL characters, got one at index "
                         f"{text.index(chr(0))}")
    return result


_calls = 0  # the number of library calls in progress
_is_ending = False


def _note_end() -> None:
    global _is_ending
    _is_ending = True


def _free(name: str, address: int) -> None:
    """Frees an object, unless the interpreter is exiting while another thread is in a call."""
    if not (_is_ending and _calls):
        ask(name, address)


class Unique:
    """Base class of objects that cannot be copied, because each copy would free the resources."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Called by both copy and pickle."""
        raise TypeError(f"cannot copy or pickle braid.{type(self).__name__}")


class Handle(Unique):
    """Owns a library object. Frees the object when the Handle is destroyed, or when the interpreter
    exits, newest object first. A child process created by fork() does not own the object, because
    fork() does not copy the object's threads and connections.
    """

    _all: "weakref.WeakSet[Handle]" = weakref.WeakSet()

    def __init__(self, kind: str, address: int) -> None:
        self._kind = kind
        self._address: Optional[int] = address
        self._free = weakref.finalize(self, _free, f"{kind}_free", address)
        Handle._all.add(self)

    @property
    def address(self) -> int:
        if self._address is None:
            what = "operation" if self._kind == "session" else self._kind
            raise InputError(f"this {what} is closed: use it only before close() and only in "
                             "the process that created it, not after fork()")
        return self._address

    @property
    def is_alive(self) -> bool:
        """True unless the object has been freed, or this is a child process created by fork()."""
        return self._free.alive

    def free(self) -> None:
        """Frees the object now. Idempotent."""
        self._address = None
        self._free()


def _forget_all() -> None:
    for handle in list(Handle._all):
        handle._address = None
        handle._free.detach()


os.register_at_fork(after_in_child=_forget_all)
# Exit functions run in LIFO order. The first finalize() registers weakref's exit function, which
# frees handles. Registering _note_end() afterwards makes it run before handles are freed.
weakref.finalize(Handle, int)
atexit.register(_note_end)
