"""Ranks that are killed, stopped or crashed while a job starts or runs.

The other ranks must name the victim within the timeout plus two seconds. No process, socket or GPU
memory may remain. A fault depends only on its seed, so that a long list can be run in parts: seeds
0 to 49, then 50 to 99.
"""
import contextlib
import glob
import os
import random
import signal
import tempfile
import time

from gpu_commands import ROOT, Command, run
from gpu_suite import only_on

EXAMPLE = os.path.join(ROOT, "examples", "ag_matmul.braid")
# BRAID_TEST_BACKEND=nccl selects a backend that sends messages.
BACKEND = os.environ.get("BRAID_TEST_BACKEND", "cuda")
# Ranks that share a GPU may take seconds to create communicators.
TIMEOUT = 5 if BACKEND == "nccl" else 1.5
SAID_WITHIN = TIMEOUT + 2
# After the error, the driver takes up to two seconds to destroy the contexts of a process, and
# longer if several processes end at the same time.
ENDS_WITHIN = 4
MEMORY_BACK_WITHIN = 5
MEMORY_MAY_DIFFER = 64  # in MiB


def memory_used():
    """Returns the MiB in use on each GPU."""
    _, shown, _ = run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                      60)
    return [int(line) for line in shown.split()]


def ranks_of(launcher):
    """Returns the process ids of a launcher's ranks, by rank."""
    found = {}
    for entry in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(entry, "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
            with open(entry.replace("environ", "stat"), encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == launcher and b"BRAID_RANK" in variables:
            found[int(variables[b"BRAID_RANK"])] = int(entry.split("/")[2])
    return found


class Job:
    """A command and its output lines, with the times at which they were read."""

    def __init__(self, command):
        self.command, self.lines = command, []

    def look(self):
        """Reads new lines and returns True if the command is still running."""
        goes_on = not self.command.has_ended()
        whole = self.command.out().split("\n")[:-1]
        self.lines += [(time.monotonic(), line) for line in whole[len(self.lines):]]
        return goes_on

    def wait_for(self, condition, seconds=20):
        """Waits until `condition` holds or the job has ended, and returns the condition."""
        end = time.monotonic() + seconds
        while self.look() and not condition() and time.monotonic() < end:
            time.sleep(0.02)
        return condition()

    def first(self, beginning):
        """Returns the time when the first line with this prefix was read, or None."""
        return next((when for when, line in self.lines if line.startswith(beginning)), None)


class Fault:
    """A job, and a signal that is sent to one of its ranks: during startup if the seed is even, and
    during the runs if it is odd. The job has at most as many ranks as `devices`."""

    def __init__(self, braid, seed, devices):
        dice = random.Random(seed)
        self.seed, self.devices, self.is_late = seed, devices, seed % 2 == 1
        self.ranks = dice.choice([r for r in (2, 3, 4) if r <= len(devices)])
        self.action = dice.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
        self.flags = ["--graph"] if dice.random() < 0.5 else []
        self.arguments = [
            braid, "run", EXAMPLE, "--backend", BACKEND, "--ranks", str(self.ranks), "--set",
            f"M={self.ranks * 256}", "--iterations", "100000000", "--timeout-ms",
            str(int(TIMEOUT * 1000)), "--flight-records", "none"] + self.flags
        protocol = dice.choice(["get", "put"])
        schedule = dice.choice(["pairwise", "coalesced", "ring", "batched", "bulk"])
        copies = dice.choice(["engine", "kernel"])
        self.arguments += ["--schedule", schedule]
        if BACKEND == "cuda":
            self.arguments += ["--protocol", protocol, "--copies", copies]
        self.delay = dice.uniform(0, 0.5) if self.is_late else dice.uniform(0.2, 2.5)
        self.victim = dice.randrange(self.ranks)
        self.wrong, self.output = [], ""
        self.said_after, self.ended_after = None, None  # in seconds

    def happen(self):
        pids = {}
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            environment = only_on(self.devices, TMPDIR=folder)
            with Command(self.arguments, environment, is_merged=True) as command:
                self.watch(Job(command), pids)
                left = [pid for pid in pids.values() if os.path.exists(f"/proc/{pid}")]
                self.output = command.out()
            if left:
                self.wrong.append(f"left processes {left}")
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if os.listdir(folder):
                self.wrong.append(f"left {os.listdir(folder)}")
        return self

    def watch(self, job, pids):
        """Sends the signal, waits for the job to end, and adds all ranks' process ids to `pids`."""
        self.strike(job, pids)
        struck = time.monotonic()
        job.wait_for(lambda: False, TIMEOUT + 10)
        if not job.command.has_ended():
            self.wrong.append(f"no end within {TIMEOUT + 10} s")
            return
        self.ended_after = time.monotonic() - struck
        self.judge(job, struck)

    def strike(self, job, pids):
        """Sends the signal to the victim."""
        def are_all_there():
            pids.update(ranks_of(job.command.process.pid))
            return len(pids) == self.ranks
        if not job.wait_for(are_all_there):
            self.wrong.append(f"{len(pids)} ranks came")
        # The command prints its progress every two seconds.
        if self.is_late and not job.wait_for(lambda: job.first("braid: run: running")):
            self.wrong.append("no progress")
        job.wait_for(lambda: False, self.delay)
        if self.victim in pids:
            os.kill(pids[self.victim], self.action)

    def judge(self, job, struck):
        when = job.first("braid: error: ")
        if when is None:
            self.wrong.append("no error")
        else:
            self.said_after = when - struck
            if self.said_after > SAID_WITHIN:
                self.wrong.append(f"the error came after {self.said_after:.1f} s")
        if job.command.code not in (5, 6):
            self.wrong.append(f"exit code {job.command.code}")
        if self.ended_after > SAID_WITHIN + ENDS_WITHIN:
            self.wrong.append(f"the end came after {self.ended_after:.1f} s")
        if f"rank {self.victim}" not in job.command.out():
            self.wrong.append("the victim is not named")

    def when(self):
        return "while running" if self.is_late else "while starting"

    def __str__(self):
        def after(seconds):
            return "never" if seconds is None else f"after {seconds:.1f} s"
        flags = "".join(f" {flag}" for flag in self.flags)
        text = (f"{self.action.name} rank {self.victim} of {self.ranks}{flags} {self.when()}: "
                f"error {after(self.said_after)}, end {after(self.ended_after)}")
        return f"{text}: wrong: {', '.join(self.wrong)}\n{self.output}" if self.wrong else text


def has_memory_back(before):
    """Waits until memory use has dropped to `before` on all GPUs. Returns False after a timeout."""
    end = time.monotonic() + MEMORY_BACK_WITHIN
    while True:
        if all(now <= then + MEMORY_MAY_DIFFER for now, then in zip(memory_used(), before)):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.2)


def add_faults(suite, seeds):
    """Adds a case with at most four ranks for each seed. Ranks share GPUs if the suite does."""
    def check(devices, seed):
        before = memory_used()
        fault = Fault(suite.braid, seed, devices)
        fault.happen()
        if not has_memory_back(before):
            fault.wrong.append(f"GPU memory in use: {before} MiB before, {memory_used()} after")
        return ("failed" if fault.wrong else "passed"), str(fault)
    for seed in seeds:
        suite.add(f"fault {seed}", 4 if suite.shares_gpus else 2,
                  lambda devices, seed=seed: check(devices, seed), may_share=True)
