"""Commands that end: at the latest when their time is over, or when all are stopped.

What a command writes goes to files. Who reads a pipe to its end waits for everybody who can write
to it, a grandchild that outlives its killed parent included. A command is a session of its own, and
is killed with all processes of it. Where there is setpriv, a command also ends if this process is
killed in a way that it cannot notice; the ranks of a job end with it.
"""
import contextlib
import functools
import os
import signal
import subprocess
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Seconds. A killed process may stay in the driver for a while; one that stays for ever is left.
GONE_WITHIN = 10

_lock = threading.Lock()
_running = set()
_is_stopped = False


class Stopped(Exception):
    """All commands were stopped; with what this one had written."""


def stop_all():
    """Kills what runs, and lets nothing else start."""
    global _is_stopped
    with _lock:
        _is_stopped = True
        for command in _running:
            command.signal_all()


def is_stopped():
    return _is_stopped


@functools.lru_cache(maxsize=None)
def bound_to_us():
    """What to put in front of a command so that it ends with the thread that has started it."""
    words = ("setpriv", "--pdeathsig", "KILL")
    try:
        works = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        works = False
    return words if works else ()


class Command:
    """Started when it is made. After `with`, it has ended or been killed."""

    def __init__(self, arguments, environment=None, is_merged=False):
        """`is_merged`: err() is part of out(), in the order of writing."""
        arguments = [*bound_to_us(), *arguments]
        self.out_file = tempfile.TemporaryFile()
        self.err_file = self.out_file if is_merged else tempfile.TemporaryFile()
        with _lock:
            if _is_stopped:
                raise Stopped("")
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=self.out_file, stderr=self.err_file,
                env=environment, cwd=ROOT, start_new_session=True)
            _running.add(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.out_file.close()
        self.err_file.close()

    def has_ended(self):
        """Raises Stopped if that is why."""
        has = self.process.poll() is not None
        if _is_stopped:
            raise Stopped(self.said())
        return has

    def wait(self, seconds):
        """The command, when it has ended; if it does not within `seconds`, it is killed."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"no end within {seconds} s\n{self.said()[-3000:]}") from None
        if _is_stopped:
            raise Stopped(self.said())
        return self

    @property
    def code(self):
        return self.process.returncode

    def out(self):
        return self.read(self.out_file)

    def err(self):
        return self.read(self.err_file)

    def said(self):
        return self.out() + (self.err() if self.err_file is not self.out_file else "")

    @staticmethod
    def read(file):
        # At a place of its own: the file's position is the writers'.
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), size, 0).decode(errors="replace")

    def signal_all(self):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def kill(self):
        if self.process.poll() is None:
            self.signal_all()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=GONE_WITHIN)
        with _lock:
            _running.discard(self)


def run(arguments, seconds, environment=None):
    """Exit code, stdout and stderr of a command."""
    with Command(arguments, environment) as command:
        command.wait(seconds)
        return command.code, command.out(), command.err()
