#!/usr/bin/env python3
"""gpu_batch_test.py BRAID: what the suite runs on GPUs in batches runs on CPU ranks, too, without
what only GPUs have; and a run that fails ends its job, and is named.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import run_gpu_tests
from gpu_batch import PROGRAM
from gpu_suite import Suite

ONLY_ON_GPUS = ("copies", "signals", "launch", "memory", "ctas", "cta-policy")
MOST_ELEMENTS = 1 << 22  # of an operand
ITERATIONS = 2


def on_cpus(case):
    """Nothing if it takes too long."""
    sizes = case.run["set"]
    if sizes.get("M", 1) * sizes.get("K", 1) > MOST_ELEMENTS:
        return None
    schedule = [each for each in case.run["schedule"].split(";")
                if each.partition("=")[0] not in ONLY_ON_GPUS]
    if case.batch.startswith("nccl"):
        schedule.append("transport=messages")
    return {**case.run, "name": case.name, "schedule": ";".join(schedule),
            "iterations": ITERATIONS, "said": ""}


def run_all(program, runs, ranks):
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(runs, file)
        file.flush()
        return subprocess.run([program, file.name, "--ranks", str(ranks), "--backend", "cpu"],
                              capture_output=True, text=True, check=False, timeout=120)


def main():
    braid = os.path.abspath(sys.argv[1])
    program = os.path.join(os.path.dirname(braid), PROGRAM)
    run_gpu_tests.nccl_missing = lambda suite: ""
    suite = Suite(braid, "")
    run_gpu_tests.add_all(suite, ())
    batches = [cases for cases in suite.tasks(suite.cases) if cases[0].run]
    assert len(batches) > 10 and sum(map(len, batches)) > 200, [len(cases) for cases in batches]
    for cases in batches:
        runs = [run for run in map(on_cpus, cases) if run]
        done = run_all(program, runs, cases[0].ranks)
        passed = re.findall("^passed [0-9.]+ (.*)$", done.stdout, re.MULTILINE)
        assert done.returncode == 0 and passed == [run["name"] for run in runs], (
            cases[0].batch, done.stdout[-2000:], done.stderr[-2000:])
    runs = [{**runs[0], "name": "first"}, {**runs[0], "name": "second", "schedule": "rings"},
            {**runs[0], "name": "third"}]
    done = run_all(program, runs, 2)
    assert done.returncode != 0 and re.search("^passed [0-9.]+ first$", done.stdout, re.MULTILINE)
    assert "FAILED: second: expected one of" in done.stdout, done.stdout
    assert "third" not in done.stdout, done.stdout


if __name__ == "__main__":
    main()
