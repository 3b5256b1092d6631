#!/usr/bin/env python3
"""run_gpu_tests.py BRAID [--only WORD] [--faults N] [--json OUT]: what needs GPUs.

Uses only the built command (and, beside it, the built test programs), so that it also runs where
nothing can be built. Each case is a command under a time limit; where there are four GPUs, cases
that need two run two at a time. What needs more GPUs than there are is skipped, with the reason.
Ends with `N passed, N failed, N skipped`.
"""
import argparse
import glob
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

from gpu_faults import faults
from gpu_suite import LANE, ROOT, SKIPPED, Suite, gpus, lanes, only_on

EXAMPLE = os.path.join(ROOT, "examples", "ag_matmul.braid")


def add_run(suite, name, flags, ranks):
    common = ["--backend", "cuda", "--flight-records", "none",
              "--timeout-ms", "20000", "--ranks", str(ranks)]
    suite.add_command(name, [suite.braid, "run", EXAMPLE] + common + flags, ranks)


def exactness(suite):
    """Schedules, get and put, eager and replayed, as a user would run them: 1,000 runs each, at
    addresses that change from run to run where they can. gpu_ranks_test has every combination on
    2, 3 and 4 ranks."""
    schedules = ("none", "pairwise", "hop", "burst", "fused", "doubling")
    ways = itertools.product(schedules, ("get", "put"), ([], ["--graph"]))
    for number, (schedule, protocol, graph) in enumerate(ways):
        ranks = 2 + number % 3
        means = ([], ["--copies", "kernel"], ["--signals", "memory"], ["--transfers", "shared"])
        chosen = means[number // 2 % 4] + graph
        add_run(suite, f"exact {ranks} {schedule} {protocol} {' '.join(chosen)}",
                ["--schedule", schedule, "--protocol", protocol, "--verify", "--iterations",
                 "1000", "--set", f"M={ranks * 32}", "--set", "K=64", "--set", "N=64"] + chosen,
                ranks)
    for flags in (["--chunks", "8", "--streams", "2"], ["--chunks", "12", "--streams", "1"],
                  ["--chunks", "8", "--transfers", "shared", "--copies", "kernel"],
                  ["--chunks", "8", "--schedule", "burst", "--copies", "kernel", "--graph"],
                  # Copies of different sizes in one kernel.
                  ["--schedule", "burst", "--taper", "2", "--copies", "kernel"]):
        add_run(suite, f"exact 4 {' '.join(flags)}",
                ["--verify", "--iterations", "1000", "--set", "M=164", "--protocol", "put"]
                + flags, 4)
    # Kernels that wait for peers on many streams, beside products that want every processor: if
    # they held them all, nobody would go on.
    for streams in ("4", "8", "40"):
        add_run(suite, f"kernels that wait on {streams} streams beside large products",
                ["--verify", "--iterations", "20", "--set", "M=8192", "--set", "K=2048", "--set",
                 "N=2048", "--protocol", "put", "--copies", "kernel", "--streams", streams,
                 "--chunks", "64"], 4)
    for dtype in ("f16", "f32", "f64"):
        example = os.path.join(ROOT, "tests", "gpu", f"linear_{dtype}.braid")
        suite.add_command(f"exact 2 linear {dtype}",
                          [suite.braid, "run", example, "--backend", "cuda", "--ranks",
                           "2", "--verify", "--iterations", "100"], 2)


def extremes(suite):
    add_run(suite, "10,000 replays", ["--graph", "--verify", "--iterations", "10000", "--set",
                                      "M=64", "--set", "K=64", "--set", "N=64"], 2)
    ranks = min(len(gpus()), 4) if len(gpus()) >= 2 else 2
    add_run(suite, "gathered buffer above 4 GiB",
            ["--verify", "--iterations", "1", "--set", f"M={16384 * ranks}",
             "--set", f"K={147456 // ranks}", "--set", "N=64", "--protocol", "put"], ranks)
    add_run(suite, "gathered buffer above 4 GiB, replayed",
            ["--verify", "--iterations", "2", "--set", f"M={16384 * ranks}",
             "--set", f"K={147456 // ranks}", "--set", "N=64", "--graph"], ranks)


def refusals(suite):
    blocking = ["env", "CUDA_LAUNCH_BLOCKING=1", suite.braid, "run", EXAMPLE, "--backend", "cuda",
                "--processes", "--ranks", "2", "--flight-records", "none"]
    suite.add_command("CUDA_LAUNCH_BLOCKING is refused", blocking, 2, expect=4)
    many = len(gpus()) + 1
    suite.add_command("more ranks than GPUs are refused",
                      [suite.braid, "run", EXAMPLE, "--backend", "cuda", "--ranks",
                       str(many), "--set", f"M={many * 32}", "--flight-records", "none"], 2,
                      expect=4, is_alone=True)


def programs(suite):
    """The test programs that lie beside the command."""
    folder = os.path.dirname(suite.braid)
    backends = os.path.join(folder, "backends_test")
    if os.path.exists(backends):
        suite.add_command("conformance", [backends, "--gtest_brief=1", "--gtest_filter=*cuda*"], 2,
                          seconds=300, is_alone=True)
    for program in sorted(glob.glob(os.path.join(folder, "gpu_*_test"))):
        for ranks in (2, 3, 4):
            suite.add_command(f"{os.path.basename(program)}, {ranks} ranks",
                              [program, "--ranks", str(ranks)], ranks, seconds=300)


class TuningRun:
    """A run of the example with a folder of measurements, and what it says of its products."""

    def __init__(self, suite, folder, flags, devices, tune="on"):
        environment = only_on(devices[:2], BRAID_CACHE_DIR=folder, BRAID_TUNE=tune)
        self.process = subprocess.Popen(
            [suite.braid, "run", EXAMPLE, "--backend", "cuda", "--ranks", "2", "--explain",
             "--flight-records", "none", "--timeout-ms", "20000"] + flags, env=environment,
            cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self):
        try:
            out, self.lines = self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()  # and with it its ranks
            raise
        said = re.search(r"; prepared in ([0-9.]+) (s|ms|us)$", out, re.MULTILINE)
        unit = {"s": 1, "ms": 1e-3, "us": 1e-6}
        self.seconds = float(said[1]) * unit[said[2]] if said else float("inf")
        counts = re.search(r"^braid: products: (\d+) tuned in ([0-9.]+) s, (\d+) known \((.*)\)$",
                           self.lines, re.MULTILINE)
        self.tuned, self.known = (int(counts[1]), int(counts[3])) if counts else (None, None)
        self.path = counts[4] if counts else ""
        self.warnings = [line for line in self.lines.splitlines() if "warning" in line]
        return self

    def __str__(self):
        return (f"exit code {self.process.returncode}, prepared in {self.seconds:.3f} s, "
                f"{self.tuned} tuned, {self.known} known\n{self.lines[-2000:]}")


SHAPES = {"1024": ["--set", "M=1024"],
          "8192": ["--set", "M=8192", "--set", "K=8192", "--set", "N=8192"],
          "32768x8192x16384, tapered": ["--set", "M=32768", "--set", "K=16384", "--set", "N=8192",
                                        "--chunks", "8", "--taper", "3"]}


def tuning(suite):
    """Products are measured once a machine, in time, and whatever lies in the cache."""
    def run(folder, devices, flags=(), **options):
        return TuningRun(suite, folder, list(flags), devices, **options).end()

    def is_fine(job, tuned):
        """`tuned`: whether something was measured."""
        return job.process.returncode == 0 and job.tuned is not None and (
            job.tuned > 0 if tuned else job.tuned == 0 and job.known > 0)

    def times(flags):
        def check(folder, devices):
            off = run(folder, devices, flags, tune="off")
            if off.process.returncode != 0 or os.listdir(folder):
                return "BRAID_TUNE=off measured something, or failed", off
            first, second = run(folder, devices, flags), run(folder, devices, flags)
            said = (f"off {off.seconds:.3f} s, untuned {first.seconds:.3f} s for {first.tuned} "
                    f"shapes, known {second.seconds:.3f} s")
            if not is_fine(first, True) or not is_fine(second, False):
                return "expected products tuned, then known", f"{said}\n{first}\n{second}"
            if first.seconds > 2:
                return "expected at most 2 s", said
            if second.seconds > off.seconds + 0.05:
                return "expected at most 50 ms more than with BRAID_TUNE=off", said
            return "", said
        return check

    def damage(spoil):
        def check(folder, devices):
            path = run(folder, devices).path
            with open(path, "rb+") as file:
                spoil(file)
            again, after = run(folder, devices), run(folder, devices)
            if not is_fine(again, True) or len(again.warnings) != 1:
                return "expected one warning, and products tuned again", again
            if not is_fine(after, False) or after.warnings:
                return "expected known products", after
            return "", again.warnings[0]
        return check

    def at_once(folder, devices):
        flags = [["--set", f"M={1024 * (i + 1)}"] for i in range(2)]
        jobs = [TuningRun(suite, folder, flags[i], (2 * lanes())[i]) for i in range(2)]
        for job in jobs:
            if not is_fine(job.end(), True) or job.warnings:
                return "expected products tuned", job
        for i in range(2):
            job = run(folder, devices, flags[i])
            if not is_fine(job, False) or job.warnings:
                return "expected what both jobs have saved", job
        return "", ""

    def nowhere(folder, devices):
        job = run(os.path.join("/proc", "nothing", folder.strip("/")), devices)
        wrong = not is_fine(job, True) or len(job.warnings) != 1
        return ("expected one warning, and products tuned" if wrong else ""), job

    def exact(folder, devices):
        flags = ["--verify", "--iterations", "20", "--set", "M=2048", "--set", "K=2048"]
        job = run(folder, devices, flags)
        return ("" if is_fine(job, True) else "expected exact results"), job

    def refused(folder, devices):
        job = run(folder, devices, tune="maybe")
        is_refused = job.process.returncode == 2 and "BRAID_TUNE to be on or off" in job.lines
        return ("" if is_refused else "expected exit code 2 and why"), job

    def add(name, check, **options):
        """`check(folder, devices)` returns what is wrong, or nothing, and what to say."""
        def check_in_folder(devices):
            with tempfile.TemporaryDirectory() as folder:
                wrong, said = check(folder, devices)
            return ("failed", f"{wrong}: {said}") if wrong else ("passed", str(said))
        suite.add(f"tuning: {name}", LANE, check_in_folder, **options)

    for shape, flags in SHAPES.items():
        add(f"time to prepare {shape}", times(flags), is_alone=True)
    add("a damaged file", damage(lambda file: file.seek(60) and file.write(b"!?")))
    add("half a file", damage(lambda file: file.truncate(100)))
    add("a file of something else", damage(lambda file: file.write(b"ELF")))
    add("two jobs at once", at_once, is_alone=True)
    add("no folder", nowhere)
    add("results", exact)
    add("BRAID_TUNE=maybe", refused)


def bench(suite, devices):
    """Every row of ours is timed, in turns with those of PyTorch where that is there."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        arguments = [suite.braid, "bench", "gather-matmul", "--backend", "cuda", "--ranks",
                     str(min(4, len(devices))), "-m", "1024,2048", "-n", "1024", "-k", "1024",
                     "--rounds", "2", "--iterations", "5", "--timeout-ms", "30000", "--time-limit",
                     "240", "--against", "torch", "--python", sys.executable, "--json", out]
        run = subprocess.run(arguments, capture_output=True, text=True, timeout=300, cwd=ROOT,
                             check=False)
        if run.returncode != 0:
            return "failed", run.stderr[-3000:]
        with open(out, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    refused = sorted({f"{row['implementation']}: {row['failure']}" for row in rows
                      if "failure" in row})
    detail = f"{len(rows)} rows, {len(refused)} refused" + "".join("\n" + text for text in refused)
    has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True,
                               env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"},
                               check=False).returncode == 0
    return ("failed" if refused and has_torch else "passed"), detail


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("braid")
    parser.add_argument("--only", default="", help="run cases whose name holds this")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--json", help="write the outcomes to this file")
    flags = parser.parse_args()
    suite = Suite(os.path.abspath(flags.braid), flags.only)
    print(f"{len(gpus())} GPUs", flush=True)
    refusals(suite)
    exactness(suite)
    extremes(suite)
    tuning(suite)
    programs(suite)
    suite.add("bench, in turns with PyTorch", 2, lambda devices: bench(suite, devices),
              is_alone=True)
    suite.add(f"{flags.faults} faults", 2, lambda _: faults(suite.braid, flags.faults),
              is_alone=True)
    suite.run()
    if flags.json:
        with open(flags.json, "w", encoding="utf-8") as file:
            json.dump(suite.results, file, indent=1)
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    sys.exit(1 if suite.failed else 0 if suite.passed else SKIPPED)


if __name__ == "__main__":
    main()
