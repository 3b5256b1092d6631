"""Ctrl-C ends a call that blocks in the library, and its job, which could not go on."""
from __future__ import annotations

import functools
import os
import select
import signal
import socket
import threading
# The other one makes an enumerator first, which takes microseconds.
from _signal import getsignal  # type: ignore[import-not-found,unused-ignore]
from typing import Any, Callable, Optional


class _Watch:
    """A thread that hears of signals while the main thread is in the library, where Python handles
    none: the interpreter's own handler writes the number of each to a socket. What somebody else
    waits for at that place is passed on."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # Guards the two below and the contents of the socket. A signal's handler may take it again.
        self._lock = threading.RLock()
        self._on_interrupt: Optional[Callable[[], None]] = None
        self._before = -1
        threading.Thread(target=self._listen, name="braid signals", daemon=True).start()

    def begin(self, act: Callable[[], None]) -> Optional[Callable[[], None]]:
        """Returns what end() takes: what an interrupt called before, in a call that a signal's
        handler has interrupted."""
        with self._lock:
            self._hear()  # an interrupt may have cut off the end of the call before this one
            outer, self._on_interrupt = self._on_interrupt, act
            mine = self._writer.fileno()
            before = signal.set_wakeup_fd(mine, warn_on_full_buffer=False)
            if before != mine:  # which an end that was interrupted leaves
                self._before = before
            return outer

    def end(self, outer: Optional[Callable[[], None]]) -> None:
        """Nothing that came until now is heard by a later call."""
        with self._lock:
            self._on_interrupt = outer
            if outer is None:
                signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
            self._read()

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while True:
            poll.poll()
            with self._lock:
                self._hear()

    def _hear(self) -> None:
        """Reads what has come. An interrupt ends the call that it came in."""
        if signal.SIGINT in self._read() and self._on_interrupt:
            try:
                self._on_interrupt()
            except Exception:  # of a job that is gone; there may be others
                pass

    def _read(self) -> bytes:
        numbers = b""
        try:
            numbers = self._reader.recv(4096)
            if self._before >= 0:
                os.write(self._before, numbers)
        except OSError:  # nothing is there, or nobody takes it
            pass
        return numbers


_watch: Optional[_Watch] = None


def _forget() -> None:
    global _watch
    _watch = None


os.register_at_fork(after_in_child=_forget)


def _raises(handler: Any) -> bool:
    """True if Ctrl-C ends the running program: with Python's own handler, or asyncio's."""
    if isinstance(handler, functools.partial):
        return getattr(handler.func, "__qualname__", "") == "Runner._on_sigint"
    return handler is signal.default_int_handler


class interrupting:
    """While this lasts, Ctrl-C also calls `act`, on another thread. Only where it would raise
    KeyboardInterrupt, and in the main thread."""

    __slots__ = ("_act", "_outer", "_watch")

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._watch: Optional[_Watch] = None

    def __enter__(self) -> None:
        global _watch
        if (threading.current_thread() is not threading.main_thread() or
                not _raises(getsignal(signal.SIGINT))):
            return
        if _watch is None:
            _watch = _Watch()
        self._watch = _watch
        try:
            self._outer = self._watch.begin(self._act)
        except BaseException:  # KeyboardInterrupt, when __exit__ is not called
            self._watch.end(None)
            raise

    def __exit__(self, *_: Any) -> None:
        if self._watch is not None:
            self._watch.end(self._outer)
