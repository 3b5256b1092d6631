"""Executes several runs of `braid run --verify` in one job, because starting ranks takes far longer
than a run.

A case of a suite may have a `run`, which gpu_runs executes instead of the case's command, and a
`batch`. Runs with the same batch and number of ranks form one job. If the job ends early, the
remaining cases execute their commands.
"""
import collections
import contextlib
import json
import os
import re
import tempfile
import time

from gpu_commands import Command, Stopped

PROGRAM = "gpu_runs"
# `start`: a command prefix that starts the ranks; if it is empty, gpu_runs starts them itself.
Batch = collections.namedtuple("Batch", "backend start shares_gpus", defaults=((), False))
SILENCE = 120  # maximum duration of a run in seconds
# Flags of `braid run` that have the same value for all runs of a job, or do not affect a job.
OF_JOB = ("--backend", "--ranks", "--timeout-ms", "--flight-records")


def as_run(file, flags):
    """Converts flags of `braid run` to a run of a job. Returns None if a job does not support
    them."""
    run = {"file": file, "set": {}, "iterations": 1}
    schedule, words = [], iter(flags)
    for flag in words:
        if flag == "--reproducible":
            return None
        if flag == "--graph":
            schedule.append("launch=graph")
        elif flag == "--iterations":
            run["iterations"] = int(next(words))
        elif flag == "--set":
            parameter, value = next(words).split("=")
            run["set"][parameter] = int(value)
        elif flag == "--schedule":
            schedule.insert(0, next(words))
        elif flag in OF_JOB:
            next(words)
        elif flag != "--verify":
            schedule.append(f"{flag[2:]}={next(words)}")
    return {**run, "schedule": ";".join(schedule)} if "--verify" in flags else None


def passed_of(out):
    """Returns the time of each passed run in seconds, by name."""
    return {name: float(seconds)
            for seconds, name in re.findall(r"^passed ([0-9.]+) (.*)$", out, re.MULTILINE)}


def wait_for(command):
    """Waits until the command has ended. Raises TimeoutError if no run passes within SILENCE."""
    passed, since = 0, time.monotonic()
    while not command.has_ended():
        time.sleep(0.05)
        now = len(passed_of(command.out()))
        if now > passed:
            passed, since = now, time.monotonic()
        if time.monotonic() - since > SILENCE:
            raise TimeoutError(f"no run passed within {SILENCE} s\n{command.said()[-3000:]}")


def run_job(arguments, environment, count):
    """Runs a job of `count` runs, and returns its Outcome."""
    with Command(arguments, environment) as command:
        try:
            wait_for(command)
            wrong = f"exit code {command.code}\n{command.said()[-3000:]}"
        except TimeoutError as error:
            wrong = str(error)
        except Stopped:
            return Outcome(passed_of(command.out()))
        passed = passed_of(command.out())
    return Outcome(passed, "" if command.code == 0 and len(passed) == count else wrong)


@contextlib.contextmanager
def command_of(program, runs, ranks, batch):
    """Yields the command that executes the runs as one job. The command's file exists only within
    the context."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(runs, file)
        file.flush()
        ranks = ["--as-rank"] if batch.start else ["--ranks", str(ranks)]
        yield [*batch.start, program, file.name, *ranks, "--backend", batch.backend]


# `passed`: seconds of each passed run, by name. `wrong`: the failure that followed, if any.
Outcome = collections.namedtuple("Outcome", "passed wrong", defaults=("",))


def run_together(cases, folder, environment):
    """Runs the cases as one job. Returns an empty Outcome if stopped or if gpu_runs is missing."""
    program = os.path.join(folder, PROGRAM)
    if not os.path.exists(program):
        return Outcome({})
    runs = [{"name": case.name, **case.run} for case in cases]
    batch = cases[0].batch
    if batch.shares_gpus:
        environment = {**environment, "BRAID_SHARE_GPUS": "on"}
    with command_of(program, runs, cases[0].ranks, batch) as command:
        try:
            return run_job(command, environment, len(cases))
        except Stopped:
            return Outcome({})
        except OSError as error:
            return Outcome({}, str(error))
