"""Runs of `braid run --verify` that are one job: to start ranks takes GPUs far longer than a run.

A case of a suite may have a `run`, which says what gpu_runs does instead of the case's own
command, and a `batch`. Runs of one batch and as many ranks are one job. What it did not come to is
left to the case's own command.
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
# `apart`: what its runs have in common and others have not. Of a batch that may be refused, all
# runs are, if the first one is. `start`: a command that starts the ranks, if gpu_runs is not to.
Batch = collections.namedtuple("Batch", "backend apart may_be_refused start shares_gpus",
                               defaults=("", False, (), False))
SILENCE = 120  # seconds that a run may take
UNSUPPORTED = 4
# Flags of `braid run` that a job has in common, or that do not matter to it.
OF_JOB = ("--backend", "--ranks", "--timeout-ms", "--flight-records")


def as_run(file, flags):
    """What those flags of `braid run` ask for. Nothing if a job cannot do it."""
    run = {"file": file, "set": {}, "iterations": 1}
    schedule, words = [], iter(flags)
    for flag in words:
        if flag == "--reproducible":
            return None
        if flag == "--graph":
            schedule.append("launch=graph")
        elif flag == "--explain":
            run["said"] = "messages from"
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
    """Seconds, by name."""
    return {name: float(seconds)
            for seconds, name in re.findall(r"^passed ([0-9.]+) (.*)$", out, re.MULTILINE)}


def wait_for(command):
    """Until it has ended. TimeoutError if no run passes for too long."""
    passed, since = 0, time.monotonic()
    while not command.has_ended():
        time.sleep(0.05)
        now = len(passed_of(command.out()))
        if now > passed:
            passed, since = now, time.monotonic()
        if time.monotonic() - since > SILENCE:
            raise TimeoutError(f"no run passed within {SILENCE} s\n{command.said()[-3000:]}")


def run_job(arguments, environment, count):
    """As run_together()."""
    with Command(arguments, environment) as command:
        try:
            wait_for(command)
            wrong = f"exit code {command.code}\n{command.said()[-3000:]}"
        except TimeoutError as error:
            wrong = str(error)
        except Stopped:
            return Outcome(passed_of(command.out()))
        passed = passed_of(command.out())
    if command.code == UNSUPPORTED and not passed:
        why = re.search(r"^FAILED: (.*)$", wrong, re.MULTILINE)
        return Outcome(passed, refused=why[1] if why else wrong)
    return Outcome(passed, "" if command.code == 0 and len(passed) == count else wrong)


@contextlib.contextmanager
def command_of(program, runs, ranks, batch):
    """Of a job of runs; while in the context, which has their file."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(runs, file)
        file.flush()
        ranks = ["--as-rank"] if batch.start else ["--ranks", str(ranks)]
        yield [*batch.start, program, file.name, *ranks, "--backend", batch.backend]


# Seconds by the names of the runs that passed; what went wrong then; why the first run is refused.
Outcome = collections.namedtuple("Outcome", "passed wrong refused", defaults=("", ""))


def run_together(cases, folder, environment):
    """An Outcome. Nothing went wrong where all were stopped, or there is no such program in the
    folder."""
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
