"""A suite of cases that need GPUs, and how they share those of a machine.

    suite = Suite(braid, only="")
    suite.add("a name", 2, lambda devices: ("passed", "some detail"))
    suite.run()

Where there are four GPUs, cases that need two run two at a time, each with two GPUs of its own;
what needs more, or measures times, has the machine to itself. A case is told the GPUs it has, and
says "passed", "failed" or "skipped", and why.
"""
import collections
import functools
import os
import shutil
import subprocess
import threading
import time

SKIPPED = 77
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LANE = 2  # GPUs


@functools.lru_cache(maxsize=None)
def gpus():
    """Numbers of the GPUs that can be used."""
    if not shutil.which("nvidia-smi"):
        return []
    shown = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    found = [line for line in shown.stdout.splitlines() if line.startswith("GPU ")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(len(found))]


def lanes():
    """The GPUs of each of the cases that run at the same time."""
    if len(gpus()) < 2 * LANE:
        return [gpus()]
    return [gpus()[:LANE], gpus()[LANE:2 * LANE]]


def only_on(devices, **variables):
    """The environment of a process that sees no other GPUs."""
    if devices != gpus():
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    return dict(os.environ, **variables)


Case = collections.namedtuple("Case", "name ranks check is_alone")


class Suite:
    def __init__(self, braid, only):
        self.braid, self.only = braid, only
        self.passed = self.failed = self.skipped = 0
        self.results, self.cases = [], []
        self.lock = threading.Lock()

    def add(self, name, ranks, check, is_alone=False):
        """`check(devices)` returns the outcome and a detail. It runs when run() does, if there are
        as many GPUs as `ranks`."""
        if self.only in name:
            self.cases.append(Case(name, ranks, check, is_alone))

    def add_command(self, name, arguments, ranks=1, seconds=120, expect=0, **options):
        """A command that has to end with exit code `expect`."""
        def check(devices):
            try:
                run = subprocess.run(arguments, capture_output=True, text=True, timeout=seconds,
                                     cwd=ROOT, env=only_on(devices), check=False)
            except subprocess.TimeoutExpired:
                return "failed", f"no end within {seconds} s"
            output = run.stdout + run.stderr
            if run.returncode == SKIPPED and expect != SKIPPED:
                return "skipped", output.strip().splitlines()[-1]
            if run.returncode != expect:
                return "failed", f"exit code {run.returncode}, expected {expect}\n{output[-3000:]}"
            return "passed", ""
        self.add(name, ranks, check, **options)

    def run(self):
        """All cases: first those that share the machine, then those that do not."""
        sharing, alone = collections.deque(), []
        for case in self.cases:
            shares = len(lanes()) > 1 and case.ranks <= LANE and not case.is_alone
            (sharing if shares else alone).append(case)

        def run_lane(devices):
            while True:
                try:
                    case = sharing.popleft()
                except IndexError:
                    return
                self.run_case(case, devices)
        threads = [threading.Thread(target=run_lane, args=(devices,)) for devices in lanes()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for case in alone:
            self.run_case(case, gpus())

    def run_case(self, case, devices):
        if case.ranks > len(devices):
            return self.record(case.name, "skipped", 0,
                               f"needs {case.ranks} GPUs, {len(devices)} are here")
        begin = time.monotonic()
        try:
            outcome, detail = case.check(devices)
        except Exception as error:  # so that the other cases run
            outcome, detail = "failed", f"{type(error).__name__}: {error}"
        self.record(case.name, outcome, time.monotonic() - begin, detail)

    def record(self, name, outcome, seconds, detail=""):
        with self.lock:
            setattr(self, outcome, getattr(self, outcome) + 1)
            self.results.append({"name": name, "outcome": outcome, "seconds": round(seconds, 2),
                                 "detail": detail})
            text = f"{outcome:8}{seconds:7.1f} s  {name}{': ' if detail else ''}{detail}"
            print(text.rstrip(), flush=True)
