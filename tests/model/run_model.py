#!/usr/bin/env python3
"""run_model.py [--all] [--only TEXT]: checks transfers.pml exhaustively with spin.

Every configuration of the protocol must be free of errors, and every mistake (a mutant of the
model) must be found. Prints a table and a summary. Exits with 0, with 1, or with 77 if spin or a C
compiler is missing.
"""
import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 300  # time limit for a configuration, sufficient on a loaded machine
MEMORY_MIB = 3000

TWO = "RANKS=2"
THREE = "RANKS=3"
ONE_RUN = "STEPS=1 RUNS_A_STEP=1"
TWO_RUNS = "STEPS=1 RUNS_A_STEP=2"
THREE_RUNS = "STEPS=1 RUNS_A_STEP=3"
TWO_STEPS = "STEPS=2 RUNS_A_STEP=1"
MIXED = "MODES=2"
OUT_OF_STEP = "MODES=3"
ANY = "MODES=4"
FLAG = "MODES=1 FLAG"

# Correct models: (definitions, protocols). Those in LARGE have the most states.
BOTH = ("get", "put")
LARGE = [
    (f"{THREE} {TWO_RUNS} {MIXED} FINE", ("put",)),
    (f"{THREE} {THREE_RUNS} {OUT_OF_STEP}", ("get",)),
    (f"{TWO} {ONE_RUN} MODES=0 FAILURES=1", BOTH),
    (f"{THREE} {ONE_RUN} {OUT_OF_STEP} FAILURES=1 ONE_SIDE", BOTH),
]
PROTOCOL = [
    (f"{TWO} {TWO_RUNS} {ANY} FINE", BOTH),
    (f"{TWO} STEPS=3 RUNS_A_STEP=2 {OUT_OF_STEP} FINE", BOTH),
    (f"{THREE} {THREE_RUNS} {OUT_OF_STEP}", ("put",)),
    # A rank may abort at any time.
    (f"{TWO} {THREE_RUNS} {OUT_OF_STEP} FAILURES=1 ONE_SIDE", BOTH),
    (f"{TWO} {TWO_RUNS} {ANY} FAILURES=1 ONE_SIDE", ("get",)),
    (f"{TWO} {TWO_STEPS} {ANY} FAILURES=1 ONE_SIDE", BOTH),
    (f"{TWO} STEPS=2 RUNS_A_STEP=2 {MIXED} FAILURES=1 COARSE_ABORT", BOTH),
    (f"{THREE} {ONE_RUN} {MIXED} FAILURES=1 COARSE_ABORT", ("get",)),
    # The same, but a flag in host memory releases waits.
    (f"{TWO} {THREE_RUNS} {FLAG} FAILURES=1 ONE_SIDE", BOTH),
    (f"{TWO} {TWO_STEPS} {FLAG} FAILURES=2", BOTH),
    (f"{THREE} {ONE_RUN} {FLAG} FAILURES=1 ONE_SIDE", BOTH),
    # A rank may die at any time.
    (f"{TWO} {TWO_RUNS} {MIXED} FAILURES=2", BOTH),
    (f"{TWO} {TWO_STEPS} {OUT_OF_STEP} FAILURES=2", BOTH),
    (f"{THREE} {TWO_RUNS} {MIXED} FAILURES=2 ONE_SIDE", BOTH),
    (f"{THREE} {TWO_STEPS} {MIXED} FAILURES=2 COARSE_ABORT", ("get",)),
    (f"{THREE} {ONE_RUN} {MIXED} FAILURES=2 COARSE_ABORT", ("put",)),
]
# No execution is infinite, not even the release loop.
ENDS = [(f"{TWO} {TWO_RUNS} {MIXED} FAILURES=1 ONE_SIDE", BOTH),
        (f"{TWO} {TWO_RUNS} {FLAG} FAILURES=1 ONE_SIDE", BOTH)]

# Models that contain a mistake, which must be found: (mistake, definitions, protocols).
HEALTHY = f"{TWO} {THREE_RUNS}"
ABORTED = f"{TWO} {TWO_RUNS} FAILURES=1 ONE_SIDE"
MISTAKES = [
    ("NO_AWAIT_BEFORE_COPY", f"{HEALTHY} MODES=0", BOTH),
    ("NO_AWAIT_AT_WAIT", f"{HEALTHY} MODES=0", BOTH),
    ("NO_RESET", f"{HEALTHY} MODES=0", BOTH),
    ("NO_RESET", f"{HEALTHY} MODES=1", BOTH),
    ("LATE_RESET", f"{HEALTHY} {ANY}", BOTH),
    ("SIGNAL_BEFORE_COPY", f"{HEALTHY} MODES=0", BOTH),
    ("NO_SECOND_SIGNAL", f"{HEALTHY} MODES=0", BOTH),
    ("NO_ENTRY_SYNCHRONISATION", f"{HEALTHY} MODES=0", BOTH),
    ("NO_ENTRY_SYNCHRONISATION", f"{HEALTHY} MODES=1", BOTH),
    ("NO_EXIT_SYNCHRONISATION", f"{HEALTHY} MODES=0", BOTH),
    ("RELEASE_BEFORE_MARK", ABORTED, BOTH),
    ("NO_RELEASE", ABORTED, BOTH),
    ("RELEASE_BEFORE_MARK", f"{ABORTED} {FLAG}", BOTH),
    ("NO_RELEASE", f"{ABORTED} {FLAG}", BOTH),
    ("RELEASE_ONCE", f"{ABORTED} MODES=0", BOTH),
    ("FREE_EARLY", ABORTED, BOTH),
    ("COMMIT_IGNORES_MARK", ABORTED, ("get",)),
    ("NO_COMMIT", ABORTED, ("get",)),
    ("VERDICT_BY_MARK", ABORTED, ("get",)),
    ("DEATH_UNNOTICED", f"{TWO} {ONE_RUN} FAILURES=2", BOTH),
]


class Outcome:
    def __init__(self, report, seconds):
        self.seconds = seconds
        self.report = report
        self.states = self.number(r"(\d+) states, stored")
        self.depth = self.number(r"depth reached (\d+)")
        self.errors = self.number(r"errors: (\d+)")
        # An incomplete search proves nothing.
        self.is_whole = self.errors is not None and not re.search(
            r"max search depth too small|Search not completed|out of memory", report)
        found = re.search(r"pan:\d+: (.*?)(?: \(at depth \d+\))?$", report, re.M)
        self.finding = found.group(1) if found else ""

    def number(self, pattern):
        found = re.search(pattern, self.report)
        return int(found.group(1)) if found else None


def call(command, folder):
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    return result.returncode, result.stdout + result.stderr


def check(kind, definitions, protocol, folder):
    """Builds and checks one configuration."""
    ends = kind == "ends"
    flags = [f"-D{each}" for each in definitions.split()]
    if protocol == "put":
        flags.append("-DPUT")
    for name in ("transfers.pml", "words.pml"):
        shutil.copy(os.path.join(HERE, name), folder)
    started = time.monotonic()
    status, output = call(["spin", "-a", *flags, "transfers.pml"], folder)
    if status != 0 or "Error" in output:
        raise RuntimeError(f"spin: {output.strip()}")
    mode = ["-DNP"] if ends else ["-DSAFETY"]
    # A mistake is found faster than the compiler optimizes the code.
    level = "-O0" if kind == "found" else "-O1"
    status, output = call(["cc", level, "-w", *mode, "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}",
                           "-o", "pan", "pan.c"], folder)
    if status != 0:
        raise RuntimeError(f"cc: {output.strip()}")
    # -E: the judge process detects blocked processes. -n: does not list unreached states.
    _, output = call(["./pan", "-E", "-n", "-m100000", "-w22", *(["-l"] if ends else [])], folder)
    return Outcome(output, time.monotonic() - started)


def describe(definitions):
    return definitions.replace("=", " ").replace("_", " ").lower()


def cases(also_large):
    for definitions, protocols in PROTOCOL + (LARGE if also_large else []):
        for protocol in protocols:
            yield "holds", definitions, protocol
    for definitions, protocols in ENDS:
        for protocol in protocols:
            yield "ends", definitions, protocol
    for mistake, definitions, protocols in MISTAKES:
        for protocol in protocols:
            yield "found", f"BUG_{mistake} {definitions}", protocol


def judge(kind, outcome):
    """Returns an error message if the outcome is wrong, otherwise an empty string."""
    if kind == "found":
        return "" if outcome.errors else "expected an error, found none"
    if not outcome.is_whole:
        return "the search was not completed"
    return f"error: {outcome.finding}" if outcome.errors else ""


def run_case(kind, definitions, protocol):
    with tempfile.TemporaryDirectory(prefix="braid-model-") as folder:
        try:
            outcome = check(kind, definitions, protocol, folder)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{kind:6} {protocol} {describe(definitions)}: {error}")
            return None, str(error)
    problem = judge(kind, outcome)
    print(f"{kind:6} {protocol} {outcome.states or 0:9} {outcome.depth or 0:6} "
          f"{outcome.seconds:6.1f}  {describe(definitions)}"
          f"{'  <- ' + outcome.finding if kind == 'found' else ''}"
          f"{'  ** ' + problem if problem else ''}", flush=True)
    return outcome, problem


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="also large configurations")
    parser.add_argument("--only", default="", help="only configurations that contain this")
    arguments = parser.parse_args()
    for tool in ("spin", "cc"):
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed")
            return 77
    print(f"{'':6} {'':3} {'states':>9} {'depth':>6} {'s':>6}")
    problems, count, states = [], {"holds": 0, "ends": 0, "found": 0}, 0
    started = time.monotonic()
    for kind, definitions, protocol in cases(arguments.all):
        if arguments.only not in definitions:
            continue
        outcome, problem = run_case(kind, definitions, protocol)
        count[kind] += 1
        if problem:
            problems.append(f"{kind} {protocol} {describe(definitions)}: {problem}")
        elif kind != "found":
            states += outcome.states
    print(f"{count['holds'] + count['ends']} configurations, {states} states; "
          f"{count['found']} mistakes; {time.monotonic() - started:.0f} s")
    for problem in problems:
        print(f"FAILED {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
