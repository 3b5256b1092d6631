"""Ctrl-C ends a call that blocks in the library, and its job, which could not go on."""
from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from typing import Callable, Iterator, Optional


class _Watch:
    """A thread that hears of signals while the main thread is in the library, where Python handles
    none: the interpreter's own handler writes the number of each to a socket."""

    def __init__(self) -> None:
        self._reader, self.writer = socket.socketpair()
        self.writer.setblocking(False)
        self.on_interrupt: Optional[Callable[[], None]] = None
        threading.Thread(target=self._listen, name="braid signals", daemon=True).start()

    def _listen(self) -> None:
        while True:
            number = self._reader.recv(1)
            act = self.on_interrupt
            if act and number[0] == signal.SIGINT:
                act()


_watch: Optional[_Watch] = None


def _forget() -> None:
    global _watch
    _watch = None


os.register_at_fork(after_in_child=_forget)


@contextlib.contextmanager
def interrupting(act: Callable[[], None]) -> Iterator[None]:
    """While this lasts, Ctrl-C also calls `act`, on another thread. Only where it would raise
    KeyboardInterrupt: in the main thread, with Python's own handler."""
    global _watch
    is_heard = (threading.current_thread() is threading.main_thread() and
                signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    if not is_heard:
        yield
        return
    if _watch is None:
        _watch = _Watch()
    watch = _watch
    before = signal.set_wakeup_fd(watch.writer.fileno(), warn_on_full_buffer=False)
    watch.on_interrupt = act
    try:
        yield
    finally:
        watch.on_interrupt = None
        signal.set_wakeup_fd(before)
