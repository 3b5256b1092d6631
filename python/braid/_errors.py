"""Exceptions, one for each status code in api/status.h."""
from __future__ import annotations

import re
from typing import Optional


class Error(RuntimeError):
    """Base class of all errors. The message contains the location, what was expected, and what was
    found.

    code: the exit code of the `braid` command for this error.
    """

    code = 70


class WrongResultError(Error):
    """A result differs from the reference."""

    code = 1


class InputError(Error, ValueError):
    """Invalid input or incorrect use of the API. The failed call had no effect.

    If the source of a fusion or program is invalid, these attributes describe the first error:
    filename, lineno and offset (both 1-based), text (the source line), and msg (the message without
    the location). Otherwise, msg is the whole message, and the other attributes are None.
    """

    code = 2
    filename: Optional[str] = None
    lineno: Optional[int] = None
    offset: Optional[int] = None
    text: Optional[str] = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.msg = message
        place = re.search(r"^(.*?):(\d+):(\d+): error: (.*)(?:\n(.*)\n *\^)?", message, re.M)
        if place:
            self.filename, line, offset, self.msg, self.text = place.groups()
            self.lineno, self.offset = int(line), int(offset)


class RejectedError(Error):
    """The checker rejected the program. The message contains the counterexample."""

    code = 3


class UnsupportedError(Error, NotImplementedError):
    """The feature is not supported by this build, this machine, or the installed libraries."""

    code = 4


class PeerError(Error):
    """Another rank died or failed first. The message contains the root cause. The job has
    ended."""

    code = 5


class TimedOutError(PeerError, TimeoutError):
    """No rank made progress within the timeout, or the ranks deadlocked. The job has ended."""

    code = 6


class InternalError(Error):
    """A bug in Braid."""

    code = 70


_KINDS = {kind.code: kind for kind in (WrongResultError, InputError, RejectedError,
                                       UnsupportedError, PeerError, TimedOutError, InternalError)}


def error_of(code: int, message: str) -> Error:
    """Returns the exception for the status code `code`. Unknown codes map to InternalError."""
    return _KINDS.get(code, InternalError)(message)
