#!/usr/bin/env python3
"""gpu_batch_test.py BRAID: runs the batches of the GPU suite on CPU ranks, without GPU-only
options. Also checks that a failing run ends its job and is named, and that a long job is not
killed.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import run_gpu_tests
from gpu_batch import PROGRAM, Batch, as_run, command_of, passed_of
from gpu_faults import ranks_of
from gpu_suite import Suite

ONLY_ON_GPUS = ("copies", "signals", "launch", "memory")
MOST_ELEMENTS = 1 << 22  # of an operand
ITERATIONS = 2
# In seconds; longer than the ten seconds that a launcher waits for the ranks of a finished job.
PAUSE = 11


def on_cpus(case):
    """Adapts a run to CPU ranks, or returns None if the run would take too long."""
    sizes = case.run["set"]
    if sizes.get("M", 1) * sizes.get("K", 1) > MOST_ELEMENTS:
        return None
    schedule = [each for each in case.run["schedule"].split(";")
                if each.partition("=")[0] not in ONLY_ON_GPUS]
    if case.batch.backend == "nccl":
        schedule.append("transport=messages")
    return {**case.run, "name": case.name, "schedule": ";".join(schedule),
            "iterations": ITERATIONS}


def run_all(program, runs, ranks, start=()):
    with command_of(program, runs, ranks, Batch("cpu", start=start)) as command:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120,
                              env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))


def check_batches(program, batches):
    assert len(batches) > 10 and sum(map(len, batches)) > 150, [len(cases) for cases in batches]
    for cases in batches:
        runs = [run for run in map(on_cpus, cases) if run]
        done = run_all(program, runs, cases[0].ranks, cases[0].batch.start)
        passed = list(passed_of(done.stdout))
        assert done.returncode == 0 and passed == [run["name"] for run in runs], (
            cases[0].batch, done.stdout[-2000:], done.stderr[-2000:])


def check_flags(braid):
    """A case's flags, and the run that as_run() derives from them, compile to the same program."""
    file = run_gpu_tests.EXAMPLE
    flags = ["--tail-split", "2", "--schedule", "coalesced", "--streams", "3"]
    run = as_run(file, ["--backend", "cuda", "--ranks", "4", "--verify", "--set", "M=164",
                        "--iterations", "300", "--graph", "--signals", "memory", *flags])
    assert run["set"] == {"M": 164} and run["iterations"] == 300, run
    common = [braid, "compile", file, "--ranks", "4", "--set", "M=164"]
    by_flags, by_schedule = (subprocess.run(common + more, capture_output=True, text=True,
                                            check=True).stdout
                             for more in (flags, ["--schedule", run["schedule"]]))
    assert by_flags == by_schedule and "coalesced" in by_flags, (by_flags, by_schedule)
    assert {"launch=graph", "signals=memory"} < set(run["schedule"].split(";")), run
    assert as_run(file, ["--verify", "--reproducible"]) is None
    assert as_run(file, []) is None  # a job always verifies


def check_failures(braid, program, run):
    """A failed job reports the reason: an invalid run, or a program that multiplies the wrong
    blocks and is not proved correct."""
    def is_named(second, why):
        runs = [{**run, "name": "first"}, {**run, "name": "second", **second},
                {**run, "name": "third"}]
        done = run_all(program, runs, 2)
        lines = done.stdout.splitlines()
        assert done.returncode != 0 and lines[0].endswith(" first"), done.stdout
        assert re.search(f"^FAILED: second: .*{why}", lines[1]), done.stdout
        assert "third" not in done.stdout, done.stdout
    is_named({"schedule": "rings"}, "expected one of")
    text = subprocess.run([braid, "compile", run["file"], "--ranks", "2", "--schedule", "ring"],
                          capture_output=True, text=True, check=True).stdout
    blocks = {"%C_own = select %C[": ("rank]", "(rank + 1) mod 2]"),
              "%out = select %C[": ("(rank + 1) mod 2]", "rank]")}
    for result, (right, wrong) in blocks.items():
        assert result + right in text, text
        text = text.replace(result + right, result + wrong)
    with tempfile.NamedTemporaryFile("w", suffix=".braid", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        is_named({"file": file.name, "schedule": "", "set": {}}, "is unsafe")


def check_killed_rank(program, run):
    runs = [{**run, "name": "first"}, {**run, "name": "second", "iterations": 100000}]
    with command_of(program, runs, 2, Batch("cpu")) as command, \
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        job.stdout.readline()
        os.kill(ranks_of(job.pid)[1], signal.SIGKILL)
        rest, _ = job.communicate(timeout=60)
    assert job.returncode != 0 and "FAILED: rank 1 was killed" in rest, rest


def check_long_job(program, run):
    """The job must survive if a rank pauses after the job's first run has been committed."""
    runs = [{**run, "name": "first"}, {**run, "name": "second", "iterations": 3000}]
    with command_of(program, runs, 2, Batch("cpu")) as command, \
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        begun = job.stdout.readline()
        rank = ranks_of(job.pid)[1]
        os.kill(rank, signal.SIGSTOP)
        time.sleep(PAUSE)
        os.kill(rank, signal.SIGCONT)
        rest, _ = job.communicate(timeout=120)
    assert begun.endswith("first\n") and rest.endswith("second\n") and job.returncode == 0, (
        begun, rest, job.returncode)


def main():
    braid = os.path.abspath(sys.argv[1])
    program = os.path.join(os.path.dirname(braid), PROGRAM)
    run_gpu_tests.nccl_missing = lambda suite: ""
    suite = Suite(braid, "")
    run_gpu_tests.add_all(suite, ())
    batches = [cases for cases in suite.tasks(suite.cases) if cases[0].run]
    check_batches(program, batches)
    any_run = on_cpus(batches[0][0])
    check_flags(braid)
    check_failures(braid, program, any_run)
    check_killed_rank(program, any_run)
    check_long_job(program, any_run)


if __name__ == "__main__":
    main()
