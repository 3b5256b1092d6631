"""Runs of `braid run --verify` that are one job: to start ranks takes GPUs far longer than a run.

A case of a suite may have a `run`, which says what gpu_runs_test does instead of the case's own
command, and a `batch`, "BACKEND" or "BACKEND and whatever sets it apart". Runs of one batch and as
many ranks are one job. What it does not say to have passed is left to the case's own command.
"""
import json
import os
import re
import tempfile
import time

from gpu_commands import Command, Stopped

PROGRAM = "gpu_runs_test"
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


def run_together(cases, folder, environment):
    """Seconds by the names of those that passed, and what went wrong then. Nothing did where the
    first is refused, or all were stopped."""
    program = os.path.join(folder, PROGRAM)
    if not os.path.exists(program):
        return {}, ""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump([{"name": case.name, **case.run} for case in cases], file)
        file.flush()
        backend = cases[0].batch.split()[0]
        passed, code, wrong = {}, None, ""
        try:
            with Command([program, file.name, "--ranks", str(cases[0].ranks), "--backend", backend],
                         environment) as command:
                try:
                    wait_for(command)
                    code = command.code
                    wrong = f"exit code {code}\n{command.said()[-3000:]}"
                finally:
                    passed = passed_of(command.out())
        except Stopped:
            return passed, ""
        except (OSError, TimeoutError) as error:
            return passed, str(error)
    is_fine = code == 0 and len(passed) == len(cases)
    is_refused = code == UNSUPPORTED and not passed
    return passed, "" if is_fine or is_refused else wrong
