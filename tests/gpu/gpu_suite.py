"""A suite of cases that need GPUs, which run one after another.

    suite = Suite(braid, only="", path="out.json")
    suite.add("a name", 2, lambda devices: ("passed", "some detail"))
    suite.run()

A case receives the numbers of all GPUs and returns "passed", "failed" or "skipped", and a detail.
If a case needs more GPUs than the machine has, it is skipped, or its ranks share GPUs; some numbers
then appear more than once. Ranks that use NCCL never share a GPU, because NCCL rejects this. Cases
of a batch run as one job if possible (gpu_batch.py).

Each result is printed and saved to the file immediately. On SIGTERM, SIGINT or SIGHUP, the suite
kills the running command, reports its case as "cut off", and ends.
"""
import collections
import functools
import json
import os
import re
import shutil
import signal
import time

from gpu_batch import run_together
from gpu_commands import Stopped, is_stopped, run, stop_all

SKIPPED = 77
MOST_OF_BATCH = 32  # maximum number of cases


@functools.lru_cache(maxsize=None)
def gpus():
    """Returns the numbers of the usable GPUs."""
    if not shutil.which("nvidia-smi"):
        return []
    _, shown, _ = run(["nvidia-smi", "-L"], 60)
    found = [line for line in shown.splitlines() if line.startswith("GPU ")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(len(found))]


def machine():
    """Returns the name and driver of each GPU: "NVIDIA H200, 580.1"."""
    if not gpus():
        return []
    _, shown, _ = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                      60)
    return shown.splitlines()


def only_on(devices, **variables):
    """Returns the environment of a process that sees only these GPUs. If a GPU is listed more than
    once, several ranks share it."""
    once = list(dict.fromkeys(devices))
    if len(once) < len(devices):
        variables["BRAID_SHARE_GPUS"] = "on"
    if once != gpus():
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(once)
    return dict(os.environ, **variables)


def end_on_signals(signals):
    """Installs handlers for signals that ask this process to end: a signal kills the running
    command, and its name is appended to `signals`."""
    def stop(number, _):
        signals.append(signal.Signals(number).name)
        stop_all()
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, stop)


# gpu_batch.py describes `batch` and `run`.
Case = collections.namedtuple("Case", "name ranks check may_share uses_nccl batch run")


class Suite:
    def __init__(self, braid, only, path=None, about=None, shares_gpus=False):
        """`about` contains additional entries for the file `path`."""
        self.braid, self.only, self.path, self.about = braid, only, path, about or {}
        self.shares_gpus = shares_gpus and bool(gpus())
        self.cases, self.results = [], []

    def go_on(self):
        """Reads the names of passed cases from the file, so that run() omits these cases. Raises
        ValueError or KeyError if the file is for another commit or machine."""
        if not os.path.exists(self.path):
            return
        with open(self.path, encoding="utf-8") as file:
            known = json.load(file)
        for about in ("commit", "machine"):
            if known[about] != self.about[about]:
                raise ValueError(f"expected {about} {self.about[about]}, got {known[about]}")
        self.results = [each for each in known["cases"] if each["outcome"] == "passed"]

    def add(self, name, ranks, check, may_share=False, uses_nccl=False, batch=None, run=None):
        """Adds a case. `check(devices)` returns the outcome and a detail."""
        if any(case.name == name for case in self.cases):
            raise ValueError(f"two cases are '{name}'")
        if self.only in name:
            self.cases.append(Case(name, ranks, check, may_share, uses_nccl, batch, run))

    def has_too_few(self, ranks):
        """Returns True if this many ranks have to share GPUs."""
        return self.shares_gpus and ranks > len(gpus())

    def add_command(self, name, arguments, ranks=1, seconds=120, expect=0, **options):
        """Adds a command that must end with exit code `expect` within `seconds`."""
        def check(devices):
            code, out, err = run(arguments, seconds, only_on(devices))
            output = out + err
            if code == SKIPPED and expect != SKIPPED:
                return "skipped", "".join(output.strip().splitlines()[-1:])
            if code != expect:
                # Tests that are skipped would push those that failed out of the detail.
                output = re.sub(r"^.*: Skipped\n.*\n", "", output, flags=re.MULTILINE)
                return "failed", f"exit code {code}, expected {expect}\n{output[-3000:]}"
            return "passed", "GPUs shared" if self.has_too_few(ranks) else ""
        self.add(name, ranks, check, may_share=True, **options)

    def run(self):
        """Runs all cases until a signal arrives."""
        left = set(self.not_run())
        self.save()
        for cases in self.tasks([case for case in self.cases if case.name in left]):
            known = self.run_batch(cases) if len(cases) > 1 else set()
            for case in cases:
                if case.name not in known and not is_stopped():
                    self.run_case(case)

    @staticmethod
    def tasks(cases):
        """Returns lists of cases that run together: a single case, or several of a batch."""
        found = {}
        for case in cases:
            key = (case.batch, case.ranks, case.uses_nccl) if case.run else case.name
            found.setdefault(key, []).append(case)
        return [task[at:at + MOST_OF_BATCH] for task in found.values()
                for at in range(0, len(task), MOST_OF_BATCH)]

    def devices_for(self, case):
        """Returns the numbers of all GPUs or, if ranks must share GPUs, one for each rank."""
        if case.may_share and self.has_too_few(case.ranks):
            return [gpus()[i % len(gpus())] for i in range(case.ranks)]
        return gpus()

    def why_not(self, case):
        """Returns the reason why the case cannot run on this machine, or ""."""
        if case.ranks <= len(gpus()):
            return ""
        if not case.may_share or not self.shares_gpus:
            return f"needs {case.ranks} GPUs, {len(gpus())} are here"
        return "ranks would share GPUs, and NCCL needs one for each" if case.uses_nccl else ""

    def run_batch(self, cases):
        """Runs a batch as one job and returns the names of the cases with a result. The case that
        ended the job has failed; later cases have no result."""
        devices = self.devices_for(cases[0])
        if self.why_not(cases[0]) or is_stopped():
            return set()
        passed, wrong = run_together(cases, os.path.dirname(self.braid), only_on(devices))
        names = [case.name for case in cases]
        failed = next((name for name in names if name not in passed), names[-1]) if wrong else None
        detail = "GPUs shared" if self.has_too_few(cases[0].ranks) else ""
        for name, seconds in passed.items():
            if name != failed:
                self.record(name, "passed", seconds, detail)
        if failed:
            self.record(failed, "failed", 0, f"behind {len(passed)} others in one job: {wrong}")
        return {*passed, *([failed] if failed else [])}

    def run_case(self, case):
        if why := self.why_not(case):
            self.record(case.name, "skipped", 0, why)
            return
        devices = self.devices_for(case)
        begin = time.monotonic()
        try:
            outcome, detail = case.check(devices)
        except Stopped as stopped:
            outcome, detail = "cut off", str(stopped)[-3000:]
        except TimeoutError as error:
            outcome, detail = "failed", str(error)
        except Exception as error:  # allows the other cases to run
            outcome, detail = "failed", f"{type(error).__name__}: {error}"
        self.record(case.name, outcome, time.monotonic() - begin, detail)

    def record(self, name, outcome, seconds, detail=""):
        self.results.append({"name": name, "outcome": outcome, "seconds": round(seconds, 2),
                             "detail": detail})
        self.save()
        text = f"{outcome:8}{seconds:7.1f} s  {name}{': ' if detail else ''}{detail}"
        print(text.rstrip(), flush=True)

    def save(self):
        """Replaces the file atomically."""
        if not self.path:
            return
        with open(self.path + ".part", "w", encoding="utf-8") as file:
            json.dump({**self.about, "cases": self.results, "not_run": self.not_run()}, file,
                      indent=1)
        os.replace(self.path + ".part", self.path)

    def count(self, outcome):
        return sum(result["outcome"] == outcome for result in self.results)

    def not_run(self):
        """Returns the names of the cases without a final result."""
        ended = {result["name"] for result in self.results if result["outcome"] != "cut off"}
        return [case.name for case in self.cases if case.name not in ended]

    def summary(self):
        counts = [f"{self.count(word)} {word}" for word in ("passed", "failed", "skipped")]
        return ", ".join(counts + [f"{len(self.not_run())} not run"])

    def exit_status(self):
        if self.count("failed") or self.not_run():
            return 1
        return 0 if self.count("passed") else SKIPPED
