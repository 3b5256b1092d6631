#!/usr/bin/env python3
"""run_gpu_tests.py BRAID [--only WORD] [--faults N] [--json OUT]: what needs GPUs, run one by one.

Uses only the built command (and, beside it, the built test programs), so that it also runs where
nothing can be built. Each case is a command under a time limit. What needs more GPUs than there are
is skipped, with the reason. Ends with `N passed, N failed, N skipped`.
"""
import argparse
import concurrent.futures
import glob
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = os.path.join(ROOT, "examples", "ag_matmul.braid")


def gpus():
    """Numbers of the GPUs that can be used."""
    if not shutil.which("nvidia-smi"):
        return []
    shown = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    found = [line for line in shown.stdout.splitlines() if line.startswith("GPU ")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(len(found))]


def memory_used():
    """MiB in use on all GPUs."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    shown = subprocess.run(query, capture_output=True, text=True, check=False)
    return [int(line) for line in shown.stdout.split()]


class Suite:
    def __init__(self, braid, only):
        self.braid, self.only = braid, only
        self.passed = self.failed = self.skipped = 0
        self.results = []

    def record(self, name, outcome, seconds, detail=""):
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.results.append({"name": name, "outcome": outcome, "seconds": round(seconds, 2),
                             "detail": detail})
        detail = f": {detail}" if detail else ""
        print(f"{outcome:8}{seconds:7.1f} s  {name}{detail}", flush=True)

    def wants(self, name):
        return not self.only or self.only in name

    def command(self, name, arguments, ranks=1, seconds=120, expect=0):
        """Runs a command that has to end with exit code `expect`."""
        if not self.wants(name):
            return
        if ranks > len(gpus()):
            return self.record(name, "skipped", 0, f"needs {ranks} GPUs, {len(gpus())} are here")
        begin = time.monotonic()
        try:
            run = subprocess.run(arguments, capture_output=True, text=True, timeout=seconds,
                                 cwd=ROOT, check=False)
            code, output = run.returncode, run.stdout + run.stderr
        except subprocess.TimeoutExpired:
            code, output = "none", f"no end within {seconds} s"
        spent = time.monotonic() - begin
        if code == SKIPPED and expect != SKIPPED:
            return self.record(name, "skipped", spent, output.strip().splitlines()[-1])
        if code != expect:
            return self.record(name, "failed", spent,
                               f"exit code {code}, expected {expect}\n{output[-3000:]}")
        self.record(name, "passed", spent)

    def run(self, name, flags, ranks, **options):
        common = ["--backend", "cuda", "--flight-records", "none",
                  "--timeout-ms", "20000", "--ranks", str(ranks)]
        self.command(name, [self.braid, "run", EXAMPLE] + common + flags, ranks, **options)


def exactness(suite):
    """Schedules, get and put, eager and replayed, as a user would run them: 1,000 runs each, at
    addresses that change from run to run where they can. gpu_ranks_test has every combination on
    2, 3 and 4 ranks."""
    ways = itertools.product(("none", "pairwise", "hop", "burst", "fused"), ("get", "put"),
                             ([], ["--graph"]))
    for number, (schedule, protocol, graph) in enumerate(ways):
        ranks = 2 + number % 3
        means = ([], ["--copies", "kernel"], ["--signals", "memory"], ["--transfers", "shared"])
        chosen = means[number // 2 % 4] + graph
        suite.run(f"exact {ranks} {schedule} {protocol} {' '.join(chosen)}",
                  ["--schedule", schedule, "--protocol", protocol, "--verify", "--iterations",
                   "1000", "--set", f"M={ranks * 32}", "--set", "K=64", "--set", "N=64"] + chosen,
                  ranks)
    for flags in (["--chunks", "8", "--streams", "2"], ["--chunks", "12", "--streams", "1"],
                  ["--chunks", "8", "--transfers", "shared", "--copies", "kernel"],
                  ["--chunks", "8", "--schedule", "burst", "--copies", "kernel", "--graph"],
                  # Copies of different sizes in one kernel.
                  ["--schedule", "burst", "--taper", "2", "--copies", "kernel"]):
        suite.run(f"exact 4 {' '.join(flags)}",
                  ["--verify", "--iterations", "1000", "--set", "M=164", "--protocol", "put"]
                  + flags, 4)
    # Kernels that wait for peers on many streams, beside products that want every processor: if
    # they held them all, nobody would go on.
    for streams in ("4", "8", "40"):
        suite.run(f"kernels that wait on {streams} streams beside large products",
                  ["--verify", "--iterations", "20", "--set", "M=8192", "--set", "K=2048", "--set",
                   "N=2048", "--protocol", "put", "--copies", "kernel", "--streams", streams,
                   "--chunks", "64"], 4)
    for dtype in ("f16", "f32", "f64"):
        example = os.path.join(ROOT, "tests", "gpu", f"linear_{dtype}.braid")
        suite.command(f"exact 2 linear {dtype}",
                      [suite.braid, "run", example, "--backend", "cuda", "--ranks",
                       "2", "--verify", "--iterations", "100"], 2)


def extremes(suite):
    suite.run("10,000 replays", ["--graph", "--verify", "--iterations", "10000", "--set", "M=64",
                                 "--set", "K=64", "--set", "N=64"], 2)
    ranks = min(len(gpus()), 4) if len(gpus()) >= 2 else 2
    suite.run("gathered buffer above 4 GiB",
              ["--verify", "--iterations", "1", "--set", f"M={16384 * ranks}",
               "--set", f"K={147456 // ranks}", "--set", "N=64", "--protocol", "put"], ranks)
    suite.run("gathered buffer above 4 GiB, replayed",
              ["--verify", "--iterations", "2", "--set", f"M={16384 * ranks}",
               "--set", f"K={147456 // ranks}", "--set", "N=64", "--graph"], ranks)


def refusals(suite):
    blocking = ["env", "CUDA_LAUNCH_BLOCKING=1", suite.braid, "run", EXAMPLE, "--backend", "cuda",
                "--processes", "--ranks", "2", "--flight-records", "none"]
    suite.command("CUDA_LAUNCH_BLOCKING is refused", blocking, 2, expect=4)
    many = len(gpus()) + 1
    suite.command("more ranks than GPUs are refused",
                  [suite.braid, "run", EXAMPLE, "--backend", "cuda", "--ranks",
                   str(many), "--set", f"M={many * 32}", "--flight-records", "none"], 2, expect=4)


def programs(suite):
    """The test programs that lie beside the command."""
    folder = os.path.dirname(suite.braid)
    backends = os.path.join(folder, "backends_test")
    if os.path.exists(backends):
        suite.command("conformance", [backends, "--gtest_brief=1", "--gtest_filter=*cuda*"], 2,
                      seconds=300)
    for program in sorted(glob.glob(os.path.join(folder, "gpu_*_test"))):
        suite.command(os.path.basename(program), [program], 2, seconds=300)


class TuningRun:
    """A run of the example with a folder of measurements, and what it says of its products."""

    def __init__(self, suite, folder, flags, devices=None, tune="on"):
        environment = dict(os.environ, BRAID_CACHE_DIR=folder, BRAID_TUNE=tune,
                           CUDA_VISIBLE_DEVICES=",".join(devices or gpus()[:2]))
        self.process = subprocess.Popen(
            [suite.braid, "run", EXAMPLE, "--backend", "cuda", "--ranks", "2", "--explain",
             "--flight-records", "none", "--timeout-ms", "20000"] + flags, env=environment,
            cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self):
        out, self.lines = self.process.communicate(timeout=120)
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


def tuning_case(suite, name, check):
    """`check(folder)` returns what is wrong, or nothing, and what to say."""
    name = f"tuning: {name}"
    if not suite.wants(name):
        return
    if len(gpus()) < 2:
        return suite.record(name, "skipped", 0, f"needs 2 GPUs, {len(gpus())} are here")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            wrong, said = check(folder)
        except subprocess.TimeoutExpired as error:
            wrong, said = "no end", str(error)
    suite.record(name, "failed" if wrong else "passed", time.monotonic() - begin,
                 f"{wrong}: {said}" if wrong else str(said))


def tuning(suite):
    """Products are measured once a machine, in time, and whatever lies in the cache."""
    def run(folder, flags=(), **options):
        return TuningRun(suite, folder, list(flags), **options).end()

    def is_fine(job, tuned):
        """`tuned`: whether something was measured."""
        return job.process.returncode == 0 and job.tuned is not None and (
            job.tuned > 0 if tuned else job.tuned == 0 and job.known > 0)

    def times(flags):
        def check(folder):
            off = run(folder, flags, tune="off")
            if off.process.returncode != 0 or os.listdir(folder):
                return "BRAID_TUNE=off measured something, or failed", off
            first, second = run(folder, flags), run(folder, flags)
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
        def check(folder):
            path = run(folder).path
            with open(path, "rb+") as file:
                spoil(file)
            again, after = run(folder), run(folder)
            if not is_fine(again, True) or len(again.warnings) != 1:
                return "expected one warning, and products tuned again", again
            if not is_fine(after, False) or after.warnings:
                return "expected known products", after
            return "", again.warnings[0]
        return check

    def at_once(folder):
        devices = [gpus()[:2], gpus()[2:4] if len(gpus()) >= 4 else gpus()[:2]]
        flags = [["--set", f"M={1024 * (i + 1)}"] for i in range(2)]
        jobs = [TuningRun(suite, folder, flags[i], devices[i]) for i in range(2)]
        for job in jobs:
            if not is_fine(job.end(), True) or job.warnings:
                return "expected products tuned", job
        for i in range(2):
            job = run(folder, flags[i])
            if not is_fine(job, False) or job.warnings:
                return "expected what both jobs have saved", job
        return "", ""

    def nowhere(folder):
        job = run(os.path.join("/proc", "nothing", folder.strip("/")))
        wrong = not is_fine(job, True) or len(job.warnings) != 1
        return ("expected one warning, and products tuned" if wrong else ""), job

    def exact(folder):
        flags = ["--verify", "--iterations", "20", "--set", "M=2048", "--set", "K=2048"]
        job = run(folder, flags)
        return ("" if is_fine(job, True) else "expected exact results"), job

    def refused(folder):
        job = run(folder, tune="maybe")
        is_refused = job.process.returncode == 2 and "BRAID_TUNE to be on or off" in job.lines
        return ("" if is_refused else "expected exit code 2 and why"), job

    for shape, flags in SHAPES.items():
        tuning_case(suite, f"time to prepare {shape}", times(flags))
    tuning_case(suite, "a damaged file", damage(lambda file: file.seek(60) and file.write(b"!?")))
    tuning_case(suite, "half a file", damage(lambda file: file.truncate(100)))
    tuning_case(suite, "a file of something else", damage(lambda file: file.write(b"ELF")))
    tuning_case(suite, "two jobs at once", at_once)
    tuning_case(suite, "no folder", nowhere)
    tuning_case(suite, "results", exact)
    tuning_case(suite, "BRAID_TUNE=maybe", refused)


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


def one_fault(suite, seed, devices):
    """Kills, stops or crashes a rank at a random moment. Returns what is wrong, or nothing."""
    dice = random.Random(seed)
    ranks = dice.choice([r for r in (2, 3, 4) if r <= len(devices)])
    action = dice.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
    timeout = 1.5
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--graph"] if dice.random() < 0.5 else []
        arguments = [suite.braid, "run", EXAMPLE, "--backend", "cuda", "--ranks",
                     str(ranks), "--set", f"M={ranks * 256}", "--protocol",
                     dice.choice(["get", "put"]), "--schedule",
                     dice.choice(["pairwise", "hop", "burst", "fused"]), "--copies",
                     dice.choice(["engine", "kernel"]),
                     "--iterations", "100000000", "--timeout-ms", str(int(timeout * 1000)),
                     "--flight-records", "none"] + flags
        environment = dict(os.environ, TMPDIR=folder, XDG_RUNTIME_DIR=folder,
                           CUDA_VISIBLE_DEVICES=",".join(devices))
        run = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, env=environment, cwd=ROOT)
        pids = {}
        begin = time.monotonic()
        while len(pids) < ranks and time.monotonic() - begin < 20 and run.poll() is None:
            time.sleep(0.05)
            pids = ranks_of(run.pid)
        time.sleep(dice.uniform(0.2, 2.5))
        victim = dice.randrange(ranks)
        what = f"{action.name} rank {victim} of {ranks} {' '.join(flags)}"
        if victim in pids:
            os.kill(pids[victim], action)
        struck = time.monotonic()
        try:
            output, _ = run.communicate(timeout=timeout + 10)
        except subprocess.TimeoutExpired:
            run.kill()
            for pid in pids.values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            return what, f"no end within {timeout + 10} s", 0
        spent = time.monotonic() - struck
        left = [pid for pid in pids.values() if os.path.exists(f"/proc/{pid}")]
        named = f"rank {victim}" in output
        wrong = []
        if run.returncode not in (5, 6):
            wrong.append(f"exit code {run.returncode}")
        if spent > timeout + 2 + 1:  # the grace period in which a stopped rank may still end
            wrong.append(f"took {spent:.1f} s")
        if left:
            wrong.append(f"left processes {left}")
        if not named:
            wrong.append("the victim is not named")
        if os.listdir(folder):
            wrong.append(f"left {os.listdir(folder)}")
        detail = ", ".join(wrong)
        return what, detail + ("\n" + output[-1500:] if wrong else ""), spent


def benches(suite):
    """Every row of ours is timed, in turns with those of PyTorch where that is there."""
    name = "bench, in turns with PyTorch"
    if not suite.wants(name):
        return
    ranks = min(4, len(gpus()))
    if ranks < 2:
        return suite.record(name, "skipped", 0, f"needs 2 GPUs, {len(gpus())} are here")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        arguments = [suite.braid, "bench", "gather-matmul", "--backend", "cuda", "--ranks",
                     str(ranks), "-m", "1024,2048", "-n", "1024", "-k", "1024", "--rounds", "2",
                     "--iterations", "5", "--timeout-ms", "30000", "--time-limit", "240",
                     "--against", "torch", "--python", sys.executable, "--json", out]
        try:
            run = subprocess.run(arguments, capture_output=True, text=True, timeout=300, cwd=ROOT,
                                 check=False)
            code, output = run.returncode, run.stderr
        except subprocess.TimeoutExpired:
            code, output = "none", "no end within 300 s"
        if code != 0:
            return suite.record(name, "failed", time.monotonic() - begin, output[-3000:])
        with open(out, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    refused = sorted({f"{row['implementation']}: {row['failure']}" for row in rows
                      if "failure" in row})
    detail = f"{len(rows)} rows, {len(refused)} refused" + "".join("\n" + text for text in refused)
    has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True,
                               env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"},
                               check=False).returncode == 0
    suite.record(name, "failed" if refused and has_torch else "passed", time.monotonic() - begin,
                 detail)


def faults(suite, count):
    if not suite.wants("faults"):
        return
    name = f"{count} faults"
    if len(gpus()) < 2:
        return suite.record(name, "skipped", 0, f"needs 2 GPUs, {len(gpus())} are here")
    begin, before, longest, bad = time.monotonic(), memory_used(), 0.0, []
    # The first third has all GPUs; then two jobs at a time have two each, where there are four.
    groups = [gpus()] if len(gpus()) < 4 else [gpus()[:2], gpus()[2:4]]
    alone = count // 3 if len(groups) > 1 else count
    outcomes = [(seed, one_fault(suite, seed, gpus())) for seed in range(alone)]
    with concurrent.futures.ThreadPoolExecutor(len(groups)) as pool:
        shares = [range(alone + i, count, len(groups)) for i in range(len(groups))]
        for share in pool.map(lambda pair: [(seed, one_fault(suite, seed, pair[1]))
                                            for seed in pair[0]], zip(shares, groups)):
            outcomes += share
    for seed, (what, wrong, spent) in outcomes:
        longest = max(longest, spent)
        if wrong:
            bad.append(f"{what} (seed {seed}): {wrong}")
    time.sleep(1)
    after = memory_used()
    if any(a > b + 64 for a, b in zip(after, before)):
        bad.append(f"GPU memory in use: {before} MiB before, {after} MiB after")
    detail = f"{len(bad)} wrong; the longest took {longest:.1f} s" + "".join("\n" + b for b in bad)
    suite.record(name, "failed" if bad else "passed", time.monotonic() - begin, detail)


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
    benches(suite)
    faults(suite, flags.faults)
    if flags.json:
        with open(flags.json, "w", encoding="utf-8") as file:
            json.dump(suite.results, file, indent=1)
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    sys.exit(1 if suite.failed else 0 if suite.passed else SKIPPED)


if __name__ == "__main__":
    main()
