"""Runs of `braid run --verify` that are one job: to start ranks takes GPUs far longer than a run.

A case of a suite may have a `run`, which says what gpu_runs_test does instead of the case's own
command, and a `batch`, "BACKEND" or "BACKEND and whatever sets it apart". Runs of one batch and as
many ranks are one job. What it does not say to have passed is left to the case's own command.
"""
import json
import os
import re
import tempfile

from gpu_commands import Command, Stopped

PROGRAM = "gpu_runs_test"
SECONDS = (120, 5)  # of a job, and of each run
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


def run_together(cases, folder, environment):
    """Seconds by the names of those that passed, and what went wrong. Where the first is refused,
    nothing did."""
    program = os.path.join(folder, PROGRAM)
    if not os.path.exists(program):
        return {}, ""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump([{"name": case.name, **case.run} for case in cases], file)
        file.flush()
        backend = cases[0].batch.split()[0]
        with Command([program, file.name, "--ranks", str(cases[0].ranks), "--backend", backend],
                     environment) as command:
            try:
                command.wait(SECONDS[0] + SECONDS[1] * len(cases))
                wrong = f"exit code {command.code}\n{command.said()[-3000:]}"
            except TimeoutError as error:
                wrong = str(error)
            except Stopped:
                wrong = ""
            passed = {name: float(seconds) for seconds, name in
                      re.findall(r"^passed ([0-9.]+) (.*)$", command.out(), re.MULTILINE)}
            is_refused = command.code == UNSUPPORTED and not passed
    return passed, "" if command.code == 0 or is_refused else wrong
