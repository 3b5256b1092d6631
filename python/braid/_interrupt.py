"""Lets Ctrl-C end a call that blocks in the library. Its job cannot continue and also ends."""
from __future__ import annotations

import functools
import os
import select
import signal
import socket
import threading
# signal.getsignal() creates an enumerator first, which takes microseconds.
from _signal import getsignal  # type: ignore[import-not-found,unused-ignore]
from typing import Any, Callable, Optional


class _Watch:
    """A thread that receives signals while the main thread is in the library, because Python
    handles no signals there. The interpreter's handler writes the number of each signal to a
    socket. The thread forwards the numbers to the previous file descriptor of set_wakeup_fd()."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # Guards the next two members and the contents of the socket. Reentrant for signal handlers.
        self._lock = threading.RLock()
        self._on_interrupt: Optional[Callable[[], None]] = None
        self._before = -1
        threading.Thread(target=self._listen, name="braid signals", daemon=True).start()

    def begin(self, act: Callable[[], None]) -> Optional[Callable[[], None]]:
        """Sets the function that an interrupt calls, and returns the previous one for end(). There
        is a previous function if a signal handler interrupted another call."""
        with self._lock:
            self._hear()  # an interrupt may have prevented the end() of the previous call
            outer, self._on_interrupt = self._on_interrupt, act
            mine = self._writer.fileno()
            before = signal.set_wakeup_fd(mine, warn_on_full_buffer=False)
            if before != mine:  # equal if an interrupt prevented an end()
                self._before = before
            return outer

    def end(self, outer: Optional[Callable[[], None]]) -> None:
        """Restores the previous function. Later calls ignore signals that arrived before."""
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
        """Reads the received signals. An interrupt ends the current call."""
        if signal.SIGINT in self._read() and self._on_interrupt:
            try:
                self._on_interrupt()
            except Exception:  # the job has ended; other jobs may remain
                pass

    def _read(self) -> bytes:
        numbers = b""
        try:
            numbers = self._reader.recv(4096)
            if self._before >= 0:
                os.write(self._before, numbers)
        except OSError:  # the socket is empty, or the other one is full or closed
            pass
        return numbers


_watch: Optional[_Watch] = None


def _forget() -> None:
    global _watch
    _watch = None


os.register_at_fork(after_in_child=_forget)


def _raises(handler: Any) -> bool:
    """Returns True if Ctrl-C raises KeyboardInterrupt: with Python's handler, or asyncio's."""
    if isinstance(handler, functools.partial):
        return getattr(handler.func, "__qualname__", "") == "Runner._on_sigint"
    return handler is signal.default_int_handler


class interrupting:
    """While active, Ctrl-C also calls `act` on another thread, if this is the main thread and
    Ctrl-C raises KeyboardInterrupt."""

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
        except BaseException:  # KeyboardInterrupt, after which __exit__ is not called
            self._watch.end(None)
            raise

    def __exit__(self, *_: Any) -> None:
        if self._watch is not None:
            self._watch.end(self._outer)
