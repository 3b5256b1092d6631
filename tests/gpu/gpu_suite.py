"""A suite of cases that need GPUs, and how they share those of a machine.

    suite = Suite(braid, only="", path="out.json")
    suite.add("a name", 2, lambda devices: ("passed", "some detail"))
    suite.run()

Where there are four GPUs, cases that need two run two at a time, each with two GPUs of its own;
what needs more, or measures times, has the machine to itself. A case is told the GPUs it has, one
for each rank, and says "passed", "failed" or "skipped", and why. Ranks may be let share GPUs: then
a case that is about results, and not about times, finds some named more than once. Cases of a batch
are one job, if they can (gpu_batch.py).

What is known is printed, and in the file, as soon as it is known: a suite may be killed at any
time. If SIGTERM, SIGINT or SIGHUP does it, what runs is killed and shown as "cut off".
"""
import collections
import functools
import json
import os
import shutil
import signal
import threading
import time

from gpu_batch import run_together
from gpu_commands import ROOT, Stopped, is_stopped, run, stop_all

SKIPPED = 77
LANE = 2  # GPUs
MOST_OF_BATCH = 32  # cases at once, so that there is something for both lanes
# Seconds that a killed suite waits for what it killed, so that nothing is left.
CUT_OFF_WITHIN = 3
WAKES_EVERY = 0.2  # seconds, to see a signal


@functools.lru_cache(maxsize=None)
def gpus():
    """Numbers of the GPUs that can be used."""
    if not shutil.which("nvidia-smi"):
        return []
    _, shown, _ = run(["nvidia-smi", "-L"], 60)
    found = [line for line in shown.splitlines() if line.startswith("GPU ")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(len(found))]


def machine():
    """What was tested on, for whoever reads the results: "NVIDIA H200, 580.1" for each GPU."""
    if not gpus():
        return []
    _, shown, _ = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                      60)
    return shown.splitlines()


def lanes():
    """The GPUs of each of the cases that run at the same time."""
    if len(gpus()) < 2 * LANE:
        return [gpus()]
    return [gpus()[:LANE], gpus()[LANE:2 * LANE]]


def repeated(devices, count):
    """So many, of these."""
    return [devices[i % len(devices)] for i in range(count)]


def only_on(devices, **variables):
    """The environment of a process that sees no other GPUs. One that is named more than once is
    for several ranks."""
    once = list(dict.fromkeys(devices))
    if len(once) < len(devices):
        variables["BRAID_SHARE_GPUS"] = "on"
    if once != gpus():
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(once)
    return dict(os.environ, **variables)


def together(functions):
    """Calls all at the same time. Threads of a pool would keep the process from ending."""
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def take_turns(tasks, places, do):
    """Calls `do(task, place)` for all tasks, in order, each at the place that is free first."""
    left = collections.deque(tasks)

    def stay_at(place):
        while not is_stopped():
            try:
                task = left.popleft()
            except IndexError:
                return
            do(task, place)
    together([functools.partial(stay_at, place) for place in places])


class Killed(BaseException):
    """A signal asks this process to end."""


def be_told_of_signals():
    """From now on, the main thread raises Killed when this process is to end."""
    def raise_it(number, _):
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)  # once is enough
        raise Killed(signal.Signals(number).name)
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, raise_it)


# `batch` and `run`: see gpu_batch.py.
Case = collections.namedtuple("Case", "name ranks check is_alone may_share batch run")


class Suite:
    def __init__(self, braid, only, path=None, about=None, shares_gpus=False):
        """`about`: what the file says besides."""
        self.braid, self.only, self.path, self.about = braid, only, path, about or {}
        self.shares_gpus = shares_gpus and bool(gpus())
        self.cases, self.results, self.faults = [], [], []
        self.planned_faults = 0
        self.lock = threading.Lock()

    def go_on(self):
        """Takes over what the file says has passed, and the faults of it; run() leaves that out.
        ValueError or KeyError if the file is about something else."""
        if not os.path.exists(self.path):
            return
        with open(self.path, encoding="utf-8") as file:
            known = json.load(file)
        for about in ("commit", "machine"):
            if known[about] != self.about[about]:
                raise ValueError(f"expected {about} {self.about[about]}, got {known[about]}")
        self.results = [each for each in known["cases"] if each["outcome"] == "passed"]
        if any(each["name"].startswith("faults ") for each in self.results):
            self.faults = known["faults"]

    def add(self, name, ranks, check, is_alone=False, may_share=False, batch=None, run=None):
        """`check(devices)` returns the outcome and a detail. It runs when run() does, if there are
        as many GPUs as `ranks`, or its ranks may share them."""
        if any(case.name == name for case in self.cases):
            raise ValueError(f"two cases are '{name}'")
        if self.only in name:
            self.cases.append(Case(name, ranks, check, is_alone, may_share, batch, run))

    def has_too_few(self, ranks):
        """GPUs for each of so many ranks to have its own."""
        return self.shares_gpus and ranks > len(gpus())

    def add_command(self, name, arguments, ranks=1, seconds=120, expect=0, **options):
        """A command that has to end with exit code `expect`."""
        def check(devices):
            code, out, err = run(arguments, seconds, only_on(devices))
            output = out + err
            if code == SKIPPED and expect != SKIPPED:
                return "skipped", "".join(output.strip().splitlines()[-1:])
            if code != expect:
                return "failed", f"exit code {code}, expected {expect}\n{output[-3000:]}"
            return "passed", "GPUs shared" if self.has_too_few(ranks) else ""
        self.add(name, ranks, check, may_share=True, **options)

    def run(self):
        """All cases: first those that share the machine, then those that do not. Raises Killed,
        when nothing runs any more."""
        def shares(case):
            return len(lanes()) > 1 and case.ranks <= LANE and not case.is_alone

        def run_all():
            left = set(self.not_run())
            tasks = self.tasks([case for case in self.cases if case.name in left])
            alone = [task for task in tasks if not shares(task[0])]
            try:
                take_turns([task for task in tasks if shares(task[0])], lanes(), self.run_task)
                take_turns(alone, [gpus()], self.run_task)
            finally:
                is_done.set()
        # Elsewhere, so that a signal finds this thread waiting and not amid something. It is no
        # join() that waits: an interrupted one takes the thread for ended from then on.
        is_done = threading.Event()
        try:
            self.save()
            threading.Thread(target=run_all, daemon=True).start()
            # The kernel may give a signal to any thread. Python's handler runs on this one, which
            # does not wake for it.
            while not is_done.wait(WAKES_EVERY):
                pass
        except Killed as killed:
            stop_all()
            self.say(f"killed by {killed}")
            is_done.wait(CUT_OFF_WITHIN)
            raise

    @staticmethod
    def tasks(cases):
        """What is done at once: a case, or many of a batch."""
        found = {}
        for case in cases:
            key = (case.batch, case.ranks) if case.run else case.name
            found.setdefault(key, []).append(case)
        return [task[at:at + MOST_OF_BATCH] for task in found.values()
                for at in range(0, len(task), MOST_OF_BATCH)]

    def devices_for(self, case, devices):
        """One for each rank, if these are enough."""
        return (repeated(devices, case.ranks) if case.may_share and self.has_too_few(case.ranks)
                else devices)

    def run_task(self, cases, devices):
        """What ended a batch has failed; what was to come behind it is run by itself."""
        ended = set()
        mine = self.devices_for(cases[0], devices)
        if len(cases) > 1 and cases[0].ranks <= len(mine):
            ended = self.run_batch(cases, mine)
        for case in cases:
            if case.name not in ended and not is_stopped():
                self.run_case(case, devices)

    def run_batch(self, cases, devices):
        """Names of those about which something is known now."""
        passed, wrong, refused = run_together(cases, os.path.dirname(self.braid),
                                              only_on(devices))
        names = [case.name for case in cases]
        if refused and cases[0].batch.may_be_refused:
            for name in names:
                self.record(name, "skipped", 0, refused)
            return set(names)
        failed = next((name for name in names if name not in passed), names[-1]) if wrong else None
        detail = "GPUs shared" if self.has_too_few(cases[0].ranks) else ""
        for name, seconds in passed.items():
            if name != failed:
                self.record(name, "passed", seconds, detail)
        if failed:
            self.record(failed, "failed", 0, f"behind {len(passed)} others in one job: {wrong}")
        return {*passed, *([failed] if failed else [])}

    def run_case(self, case, devices):
        devices = self.devices_for(case, devices)
        if case.ranks > len(devices):
            return self.record(case.name, "skipped", 0,
                               f"needs {case.ranks} GPUs, {len(devices)} are here")
        begin = time.monotonic()
        try:
            outcome, detail = case.check(devices)
        except Stopped as stopped:
            outcome, detail = "cut off", str(stopped)[-3000:]
        except TimeoutError as error:
            outcome, detail = "failed", str(error)
        except Exception as error:  # so that the other cases run
            outcome, detail = "failed", f"{type(error).__name__}: {error}"
        self.record(case.name, outcome, time.monotonic() - begin, detail)

    def record(self, name, outcome, seconds, detail=""):
        with self.lock:
            self.results.append({"name": name, "outcome": outcome, "seconds": round(seconds, 2),
                                 "detail": detail})
            self.save()
            text = f"{outcome:8}{seconds:7.1f} s  {name}{': ' if detail else ''}{detail}"
            print(text.rstrip(), flush=True)

    def record_fault(self, result, text):
        """What came of one of the planned faults: `result["wrong"]` is empty if nothing is."""
        with self.lock:
            self.faults.append(result)
            self.save()
            print(text.rstrip(), flush=True)

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def save(self):
        """Whoever reads the file finds a whole one, whenever that is."""
        if not self.path:
            return
        known = {**self.about, "cases": self.results, "faults": self.faults,
                 "not_run": self.not_run()}
        with open(self.path + ".part", "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        os.replace(self.path + ".part", self.path)

    def count(self, outcome):
        return sum(result["outcome"] == outcome for result in self.results)

    def not_run(self):
        """Names of the cases that have not come to an end."""
        ended = {result["name"] for result in self.results if result["outcome"] != "cut off"}
        return [case.name for case in self.cases if case.name not in ended]

    def summary(self):
        with self.lock:
            counts = [f"{self.count(word)} {word}" for word in ("passed", "failed", "skipped")]
            text = ", ".join(counts + [f"{len(self.not_run())} not run"])
            if self.planned_faults:
                wrong = sum(bool(fault["wrong"]) for fault in self.faults)
                text += (f"; faults: {len(self.faults) - wrong} right, {wrong} wrong, "
                         f"{self.planned_faults - len(self.faults)} not run")
            return text

    def exit_status(self):
        if self.count("failed") or self.not_run():
            return 1
        return 0 if self.count("passed") else SKIPPED
