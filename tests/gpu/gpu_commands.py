"""Commands that end after a timeout or when all commands are stopped.

A command's output is written to files, because a reader of a pipe would wait for every process that
can write to the pipe, such as a grandchild that outlives its killed parent. A command runs in a
separate session and is killed with all its processes. If setpriv exists, a command also ends if
this process is killed by SIGKILL; the ranks of a job end with the job.
"""
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# In seconds. A killed process may remain in the driver for a while. After this time, the process is
# abandoned.
GONE_WITHIN = 10

_running = set()
_is_stopped = False


class Stopped(Exception):
    """All commands were stopped. Contains the output of this command."""


def stop_all():
    """Kills all running commands and prevents others from starting."""
    global _is_stopped
    _is_stopped = True
    for command in _running:
        command.signal_all()


def is_stopped():
    return _is_stopped


@functools.lru_cache(maxsize=None)
def bound_to_us():
    """Returns a prefix that makes a command end with this process; empty if not supported."""
    words = ("setpriv", "--pdeathsig", "KILL")
    try:
        works = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        works = False
    return words if works else ()


class Command:
    """A process, started by the constructor. It has ended or been killed when `with` ends."""

    def __init__(self, arguments, environment=None, is_merged=False):
        """If `is_merged`, stderr is redirected to stdout."""
        arguments = [*bound_to_us(), *arguments]
        self.out_file = tempfile.TemporaryFile()
        self.err_file = self.out_file if is_merged else tempfile.TemporaryFile()
        if _is_stopped:
            raise Stopped("")
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=self.out_file, stderr=self.err_file,
            env=environment, cwd=ROOT, start_new_session=True)
        _running.add(self)
        if _is_stopped:  # stopped before the command was added to _running
            self.signal_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.out_file.close()
        self.err_file.close()

    def has_ended(self):
        """Returns True if the process has ended. Raises Stopped if all commands were stopped."""
        has = self.process.poll() is not None
        if _is_stopped:
            raise Stopped(self.said())
        return has

    def wait(self, seconds):
        """Waits for the command. After `seconds`, kills it and raises TimeoutError."""
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
        # Preserves the file's position, which the writers use.
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
        _running.discard(self)


def run(arguments, seconds, environment=None):
    """Runs a command and returns its exit code, stdout and stderr."""
    with Command(arguments, environment) as command:
        command.wait(seconds)
        return command.code, command.out(), command.err()


def torch_rows(braid, operation, ranks, flags, seconds):
    """Runs tools/bench_torch.py and returns its rows. Raises RuntimeError if it fails."""
    folder = os.path.dirname(os.path.dirname(braid))
    environment = {**os.environ, "PYTHONPATH": os.path.join(folder, "python"),
                   "PYTHONFAULTHANDLER": "1"}  # prints stacks if a rank crashes
    environment.pop("LD_LIBRARY_PATH", None)  # PyTorch needs other versions of the libraries
    with tempfile.TemporaryDirectory() as temporary:
        out = os.path.join(temporary, "out.json")
        code, said, err = run([sys.executable, os.path.join(ROOT, "tools", "bench_torch.py"),
                               operation, "--ranks", str(ranks), "--json", out] + flags, seconds,
                              environment)
        if code != 0:
            raise RuntimeError(f"exit code {code}\n{said}{err}"[-3000:])
        with open(out, encoding="utf-8") as file:
            return json.load(file)["rows"]
