"""Exceptions, one for each code of api/status.h."""
from __future__ import annotations

import re
from typing import Optional


class Error(RuntimeError):
    """Any failure. The text says where it is, what was expected and what came.

    code: the exit code that the command `braid` ends with for it.
    """

    code = 70


class WrongResultError(Error):
    """A result differs from the reference."""

    code = 1


class InputError(Error, ValueError):
    """A mistake of the caller's; what was there before is as it was.

    Of the first mistake in a text: filename, lineno and offset (from 1), text (the line), and msg
    without the place. They are None for a mistake that is in no text.
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
            self.filename, self.msg, self.text = place.group(1), place.group(4), place.group(5)
            self.lineno, self.offset = int(place.group(2)), int(place.group(3))


class RejectedError(Error):
    """The checker has found an order in which a program goes wrong; the text shows it."""

    code = 3


class UnsupportedError(Error, NotImplementedError):
    """Not available in this build, on this machine, or in this version of something."""

    code = 4


class PeerError(Error):
    """Another rank has died or failed first; the text has the first cause. The job is over."""

    code = 5


class TimedOutError(PeerError, TimeoutError):
    """No rank has made progress within the limit, or there is a deadlock. The job is over."""

    code = 6


class InternalError(Error):
    """A bug in Braid."""

    code = 70


_KINDS = {kind.code: kind for kind in (WrongResultError, InputError, RejectedError,
                                       UnsupportedError, PeerError, TimedOutError, InternalError)}


def error_of(code: int, message: str) -> Error:
    """The exception for a code."""
    return _KINDS.get(code, InternalError)(message)
