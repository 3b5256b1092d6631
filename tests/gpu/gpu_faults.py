"""Ranks that are killed, stopped or crashed while a job starts or runs.

The others have to say why within the timeout and two seconds, naming the victim, and nothing may be
left: no process, no socket, no GPU memory.
"""
import concurrent.futures
import glob
import os
import random
import signal
import subprocess
import tempfile
import threading
import time

from gpu_suite import ROOT, gpus, lanes, only_on

EXAMPLE = os.path.join(ROOT, "examples", "ag_matmul.braid")
TIMEOUT = 1.5
SAID_WITHIN = TIMEOUT + 2
# What comes after the error is the driver's: it takes up to two seconds to tear down the contexts
# of a process, longer if several end at the same time, and nobody can hurry it.
ENDED_WITHIN = SAID_WITHIN + 4
# Most of a fault's time is waiting. A failing job must not disturb another on the same GPU, either.
JOBS_ON_A_GPU = 2


def memory_used():
    """MiB in use on all GPUs."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    shown = subprocess.run(query, capture_output=True, text=True, check=False)
    return [int(line) for line in shown.stdout.split()]


def ranks_of(launcher):
    """Process numbers of a launcher's ranks, by rank."""
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


def wait_for(condition, run, seconds=20):
    """What `condition` comes to, at the latest when `run` has ended."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end and run.poll() is None:
        time.sleep(0.02)
    return condition()


class Said:
    """What a process writes, line by line, and when."""

    def __init__(self, process):
        self.process, self.lines = process, []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line))

    def first(self, beginning):
        """When the first such line came, or nothing."""
        return next((when for when, line in self.lines if line.startswith(beginning)), None)

    def text(self):
        self.thread.join(timeout=5)  # longer only if somebody is left who could write
        return "".join(line for _, line in self.lines)


class Fault:
    """One job and what happens to it, drawn from a seed: while it starts if that is even, while it
    runs if it is odd."""

    def __init__(self, braid, seed, devices):
        dice = random.Random(seed)
        self.devices, self.is_late = devices, seed % 2 == 1
        self.ranks = dice.choice([r for r in (2, 3, 4) if r <= len(devices)])
        self.action = dice.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
        flags = ["--graph"] if dice.random() < 0.5 else []
        self.arguments = [
            braid, "run", EXAMPLE, "--backend", "cuda", "--ranks", str(self.ranks), "--set",
            f"M={self.ranks * 256}", "--protocol", dice.choice(["get", "put"]), "--schedule",
            dice.choice(["pairwise", "doubling", "hop", "burst", "fused"]), "--copies",
            dice.choice(["engine", "kernel"]), "--iterations", "100000000", "--timeout-ms",
            str(int(TIMEOUT * 1000)), "--flight-records", "none"] + flags
        self.delay = dice.uniform(0, 0.5) if self.is_late else dice.uniform(0.2, 2.5)
        self.victim = dice.randrange(self.ranks)
        self.name = (f"seed {seed}: {self.action.name} rank {self.victim} of {self.ranks} "
                     f"{'while it runs' if self.is_late else 'early'} {' '.join(flags)}")
        self.wrong, self.said_after, self.ended_after = [], 0.0, 0.0

    def happen(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = only_on(self.devices, TMPDIR=folder, XDG_RUNTIME_DIR=folder)
            run = subprocess.Popen(self.arguments, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=environment, cwd=ROOT)
            said = Said(run)
            pids = self.strike(run, said)
            struck = time.monotonic()
            try:
                run.wait(timeout=TIMEOUT + 10)
                self.judge(run, said, struck)
            except subprocess.TimeoutExpired:
                self.wrong.append(f"no end within {TIMEOUT + 10} s")
            left = [pid for pid in pids.values() if os.path.exists(f"/proc/{pid}")]
            if left:
                self.wrong.append(f"left processes {left}")
            for pid in ([run.pid] if run.poll() is None else []) + left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            run.wait()
            if os.listdir(folder):
                self.wrong.append(f"left {os.listdir(folder)}")
            self.output = said.text()
        return self

    def strike(self, run, said):
        """The processes of all ranks, of which one is no longer what it was."""
        pids = {}

        def are_all_there():
            pids.update(ranks_of(run.pid))
            return len(pids) == self.ranks
        wait_for(are_all_there, run)
        # The command says how far it is every two seconds.
        if self.is_late and not wait_for(lambda: said.first("braid: iteration "), run):
            self.wrong.append("no progress")
        time.sleep(self.delay)
        if self.victim in pids:
            os.kill(pids[self.victim], self.action)
        return pids

    def judge(self, run, said, struck):
        self.ended_after = time.monotonic() - struck
        output = said.text()
        when = said.first("braid: error: ")
        if when is None:
            self.wrong.append("no error")
        else:
            self.said_after = when - struck
        if run.returncode not in (5, 6):
            self.wrong.append(f"exit code {run.returncode}")
        if self.said_after > SAID_WITHIN:
            self.wrong.append(f"the error came after {self.said_after:.1f} s")
        if self.ended_after > ENDED_WITHIN:
            self.wrong.append(f"the end came after {self.ended_after:.1f} s")
        if f"rank {self.victim}" not in output:
            self.wrong.append("the victim is not named")

    def __str__(self):
        return f"{self.name}: {', '.join(self.wrong)}\n{self.output[-1500:]}"


def faults(braid, count):
    """The outcome of `count` of them, and a detail."""
    before = memory_used()
    # The first third has all GPUs; then jobs have two each, where there are four.
    on_all = count // 3 if len(lanes()) > 1 else count
    happened = []
    for places, seeds in (([gpus()], range(on_all)), (lanes(), range(on_all, count))):
        places = places * JOBS_ON_A_GPU

        def run_place(number, places=places, seeds=seeds):
            # Seeds in turns of two, so that each place has odd and even ones.
            return [Fault(braid, seed, places[number]).happen() for seed in seeds
                    if seed // 2 % len(places) == number]
        with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
            for share in pool.map(run_place, range(len(places))):
                happened += share
    bad = [str(fault) for fault in happened if fault.wrong]
    time.sleep(1)
    after = memory_used()
    if any(a > b + 64 for a, b in zip(after, before)):
        bad.append(f"GPU memory in use: {before} MiB before, {after} MiB after")
    late = sum(fault.is_late for fault in happened)
    detail = (f"{len(bad)} wrong; {late} while the job ran; at the latest the error came after "
              f"{max((fault.said_after for fault in happened), default=0):.1f} s and the end after "
              f"{max((fault.ended_after for fault in happened), default=0):.1f} s")
    return "failed" if bad else "passed", "\n".join([detail] + bad)
