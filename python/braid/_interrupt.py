"""Lets Ctrl-C abort a call that blocks in the library. Aborting a call also ends its job."""
from __future__ import annotations

import functools
import os
import select
import signal
import socket
import threading
# signal.getsignal() converts the result to an enum, which takes microseconds.
from _signal import getsignal  # type: ignore[import-not-found,unused-ignore]
from typing import Any, Callable, Optional


class _Watch:
    """A thread that reacts to signals while the main thread is in the library, where Python runs
    no signal handlers. The interpreter writes the number of each signal to a socket. The thread
    also forwards the numbers to the file descriptor that set_wakeup_fd() replaced."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # Guards the next two members and reads from the socket. Recursive, because a signal handler
        # may make library calls while the main thread holds the lock.
        self._lock = threading.RLock()
        self._on_interrupt: Optional[Callable[[], None]] = None
        self._before = -1
        threading.Thread(target=self._listen, name="braid signals", daemon=True).start()

    def begin(self, act: Callable[[], None]) -> Optional[Callable[[], None]]:
        """Makes SIGINT call `act`. Returns the previous function, to be passed to end(). It is None
        unless a signal handler calls begin() during another library call."""
        with self._lock:
            self._hear()  # an exception may have skipped the previous end()
            outer, self._on_interrupt = self._on_interrupt, act
            mine = self._writer.fileno()
            before = signal.set_wakeup_fd(mine, warn_on_full_buffer=False)
            if before != mine:  # equal if an exception skipped an end()
                self._before = before
            return outer

    def end(self, outer: Optional[Callable[[], None]]) -> None:
        """Restores the function `outer`. Discards signals that later calls must not see."""
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
        """Reads the pending signals, and calls the current function if one of them is SIGINT."""
        if signal.SIGINT in self._read() and self._on_interrupt:
            try:
                self._on_interrupt()
            except Exception:  # the job has already ended; keep watching for other jobs
                pass

    def _read(self) -> bytes:
        numbers = b""
        try:
            numbers = self._reader.recv(4096)
            if self._before >= 0:
                os.write(self._before, numbers)
        except OSError:  # the socket is empty, or the forwarding target is full or closed
            pass
        return numbers


@functools.lru_cache(maxsize=None)
def _watch_of(process: int) -> _Watch:
    """Returns this process's _Watch. A forked process needs its own: fork() copies no threads."""
    return _Watch()


def _raises(handler: Any) -> bool:
    """Returns True for Python's and asyncio's SIGINT handlers, which raise KeyboardInterrupt."""
    if isinstance(handler, functools.partial):
        return getattr(handler.func, "__qualname__", "") == "Runner._on_sigint"
    return handler is signal.default_int_handler


class interrupting:
    """A context manager in which Ctrl-C also calls `act`, on another thread. Has no effect outside
    the main thread, or if Ctrl-C does not raise KeyboardInterrupt."""

    __slots__ = ("_act", "_outer", "_watch")

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._watch: Optional[_Watch] = None

    def __enter__(self) -> None:
        if (threading.current_thread() is not threading.main_thread() or
                not _raises(getsignal(signal.SIGINT))):
            return
        self._watch = _watch_of(os.getpid())
        try:
            self._outer = self._watch.begin(self._act)
        except BaseException:  # KeyboardInterrupt; __exit__ will not be called
            self._watch.end(None)
            raise

    def __exit__(self, *_: Any) -> None:
        if self._watch is not None:
            self._watch.end(self._outer)
