#!/usr/bin/env python3
"""gpu_suite_test.py: how run_gpu_tests.py shares GPUs out, seen from a command that notes which it
was given and when, on machines that only claim to have some.
"""
import os
import re
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_gpu_tests.py")
SMI = """#!/bin/sh
i=0
while [ $i -lt {gpus} ]; do echo "GPU $i: a GPU (UUID: GPU-$i)"; i=$((i + 1)); done
"""
# Fails for 3 ranks, at length.
BRAID = """#!{python}
import os, sys, time
begin = time.monotonic()
time.sleep(0.03)
ranks = int(sys.argv[sys.argv.index("--ranks") + 1])
given = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
with open({notes!r}, "a") as file:
    file.write(f"{{begin}} {{time.monotonic()}} {{ranks}} {{given}}\\n")
if ranks == 3:
    sys.exit("a reason\\n" * 50)
"""


class Machine:
    """What came of the cases named "exact", of which there are some for 2, 3 and 4 ranks."""

    def __init__(self, gpus):
        with tempfile.TemporaryDirectory() as folder:
            notes, braid = os.path.join(folder, "notes"), os.path.join(folder, "braid")
            self.write(braid, BRAID.format(python=sys.executable, notes=notes))
            self.write(os.path.join(folder, "nvidia-smi"), SMI.format(gpus=gpus))
            environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
            environment["PATH"] = folder + os.pathsep + environment.get("PATH", "")
            run = subprocess.run([sys.executable, SCRIPT, braid, "--only", "exact"], text=True,
                                 env=environment, capture_output=True, check=False, timeout=120)
            self.code, self.lines = run.returncode, run.stdout.splitlines()
            self.runs = []
            if os.path.exists(notes):
                with open(notes, encoding="utf-8") as file:
                    self.runs = [self.parse(line) for line in file]
        check(run.stderr == "", f"expected no complaint, got {run.stderr}")

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    @staticmethod
    def parse(line):
        begin, end, ranks, devices = line.split()
        return float(begin), float(end), int(ranks), devices

    def outcomes(self, word):
        return [line for line in self.lines if re.match(rf"{word} +[0-9.]+ s  exact ", line)]

    def expect(self, passed, failed, skipped):
        """By the lines, and by the sum at the end."""
        counts = [len(self.outcomes(word)) for word in ("passed", "failed", "skipped")]
        check(counts == [passed, failed, skipped], f"expected other outcomes: {self.lines}")
        last = f"{passed} passed, {failed} failed, {skipped} skipped"
        check(self.lines[-1] == last, f"expected '{last}', got '{self.lines[-1]}'")
        other = [line for line in self.lines[1:-1] if line != "a reason" and line not in
                 self.outcomes("passed") + self.outcomes("failed") + self.outcomes("skipped")]
        check(not other, f"expected whole lines, got {other}")


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def overlapping(runs):
    """Pairs of runs that took place at the same time."""
    runs = sorted(runs)
    return [(a, b) for i, a in enumerate(runs) for b in runs[i + 1:] if b[0] < a[1]]


def counts_of(machine):
    return [sum(run[2] == ranks for run in machine.runs) for ranks in (2, 3, 4)]


def test_four_gpus():
    machine = Machine(4)
    two, three, four = counts_of(machine)
    check(two > 5 and three > 5 and four > 5, f"expected cases of all sizes, got {machine.runs}")
    machine.expect(two + four, three, 0)
    check(machine.code == 1, f"expected exit status 1, got {machine.code}")
    for _, _, ranks, devices in machine.runs:
        expected = ("0,1", "2,3") if ranks == 2 else ("all",)
        check(devices in expected, f"expected {ranks} ranks on {expected}, got {devices}")
    check({run[3] for run in machine.runs} == {"0,1", "2,3", "all"}, "expected both lanes in use")
    for first, second in overlapping(machine.runs):
        check({first[3], second[3]} == {"0,1", "2,3"}, f"expected {first} and {second} apart")


def test_fewer_gpus():
    machine = Machine(3)
    two, three, four = counts_of(machine)
    check(four == 0, f"expected nothing on 4 ranks, got {machine.runs}")
    machine.expect(two, three, len(machine.outcomes("skipped")))
    check(machine.outcomes("skipped"), "expected cases of 4 ranks to be skipped")
    check(all(run[3] == "all" for run in machine.runs), f"expected one lane, got {machine.runs}")
    check(not overlapping(machine.runs), f"expected one after the other, got {machine.runs}")


def test_no_gpus():
    machine = Machine(0)
    check(machine.code == 77 and not machine.runs, f"expected nothing to run, got {machine.lines}")
    machine.expect(0, 0, len(machine.outcomes("skipped")))
    check(all("GPUs, 0 are here" in line for line in machine.outcomes("skipped")),
          f"expected reasons, got {machine.lines}")


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"passed {name}")


if __name__ == "__main__":
    main()
