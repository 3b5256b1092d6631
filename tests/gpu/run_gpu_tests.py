#!/usr/bin/env python3
"""run_gpu_tests.py BRAID [--only WORD] [--faults N | --fault-seeds A-B,C] [--share-gpus]
                    [--json OUT [--commit C] [--resume]]

Runs the tests that need GPUs. They use only the built command (and the test programs in the same
folder), so that they also run on machines without a compiler. Each case is a command with a time
limit. A case that needs more GPUs than the machine has is skipped, with the reason; with
--share-gpus, its ranks share GPUs, unless the case measures times or uses NCCL. The last line is `N
passed, N failed, N skipped, N not run`, even after SIGTERM; the file of --json always contains the
results so far. Long runs can be split: with --resume, cases that passed according to that file are
not run again, and faults can be selected with --only fault --fault-seeds 0-49, then 50-99.
"""
import argparse
import glob
import importlib.util
import json
import os
import re
import sys
import tempfile
import time

from gpu_batch import Batch, as_run
from gpu_commands import ROOT, Command, run, torch_rows
from gpu_faults import add_faults
from gpu_hosts import add_hosts
from gpu_messages import add_messages, nccl_missing
from gpu_pairs import add_pairs
from gpu_suite import Suite, end_on_signals, gpus, machine, only_on

EXAMPLE = os.path.join(ROOT, "examples", "ag_matmul.braid")
SCATTER = os.path.join(ROOT, "examples", "matmul_reduce_scatter.braid")
ALL_REDUCE = os.path.join(ROOT, "examples", "matmul_all_reduce.braid")


def add_run(suite, name, flags, ranks, example=EXAMPLE):
    """Adds a run with the schedule in `flags`, or with `pairwise`, so that no schedules are
    measured."""
    common = ["--backend", "cuda", "--flight-records", "none",
              "--timeout-ms", "20000", "--ranks", str(ranks)]
    if "--schedule" not in flags:
        common += ["--schedule", "pairwise"]
    suite.add_command(name, [suite.braid, "run", example] + common + flags, ranks,
                      batch=Batch("cuda"), run=as_run(example, common + flags))


def linear(dtype):
    return os.path.join(ROOT, "tests", "gpu", f"linear_{dtype}.braid")


def exactness(suite):
    """Runs every schedule with get and put 1,000 times each, as in practice, at addresses that
    change between runs if possible. Eager and replayed runs, transfer modes and numbers of ranks
    alternate, because gpu_ranks_test covers all combinations. Most cases have 2 ranks. Ranks that
    share a GPU alternate on it every few milliseconds.
    """
    schedules = ("sequential", "pairwise", "ring", "batched", "bulk", "coalesced")
    means = ([], ["--copies", "kernel"], ["--signals", "memory"], ["--placement", "shared"])
    for number, schedule in enumerate(schedules):
        for protocol in ("get", "put"):
            is_put = int(protocol == "put")
            ranks = (3, 4, 4, 3, 3, 4)[number] if is_put else 2
            graph = ["--graph"] if (number + is_put) % 2 else []
            chosen = means[(number + 2 * is_put) % 4] + graph
            iterations = "300" if suite.has_too_few(ranks) else "1000"
            add_run(suite, f"exact {ranks} {' '.join([schedule, protocol] + chosen)}",
                    ["--schedule", schedule, "--protocol", protocol, "--verify", "--iterations",
                     iterations, "--set", f"M={ranks * 32}", "--set", "K=64", "--set", "N=64"]
                    + chosen, ranks)
    for dtype in ("f16", "f32", "f64"):
        add_run(suite, f"exact 2 linear {dtype}", ["--verify", "--iterations", "100"], 2,
                linear(dtype))
    for ranks, flags in (
            (2, ["--chunks", "2", "--streams", "2"]),
            (2, ["--chunks", "3", "--streams", "1"]),
            (4, ["--chunks", "2", "--placement", "shared", "--copies", "kernel"]),
            (4, ["--chunks", "2", "--schedule", "batched", "--copies", "kernel", "--graph"]),
            (4, ["--schedule", "coalesced", "--streams", "3", "--signals", "memory"]),
            (4, ["--schedule", "coalesced", "--tail-split", "2", "--graph"]),
            (2, ["--schedule", "coalesced", "--copies", "kernel", "--graph"]),
            # Copies of different sizes in one kernel.
            (4, ["--schedule", "batched", "--tail-split", "2", "--copies", "kernel"])):
        add_run(suite, f"exact {ranks} {' '.join(flags)}",
                ["--verify", "--iterations", "300", "--set", f"M={41 * ranks}", "--protocol",
                 "put"] + flags, ranks)
    # Unaligned blocks.
    for protocol in ("get", "put"):
        add_run(suite, f"exact 2 {protocol} --copies kernel, unaligned",
                ["--verify", "--iterations", "300", "--set", "M=82", "--set", "K=1027", "--set",
                 "N=65", "--protocol", protocol, "--copies", "kernel"], 2)
    for flags in ([], ["--schedule", "bulk", "--protocol", "put", "--copies", "kernel", "--graph"]):
        add_run(suite, f"exact 2 --reproducible {' '.join(flags)}",
                ["--reproducible", "--verify", "--iterations", "100", "--set", "M=82", "--set",
                 "K=64", "--set", "N=64"] + flags, 2)
    reductions(suite)
    second_shots(suite)
    sums_in_gemms(suite)
    functions(suite)
    functions_of_sums(suite)
    # Without --schedule, the command chooses a schedule for the only stage, or for each stage.
    for example in (EXAMPLE, os.path.join(ROOT, "examples", "mlp.braid")):
        for ranks in (2, 4):
            suite.add_command(
                f"exact {ranks} chosen {os.path.basename(example)}",
                [suite.braid, "run", example, "--backend", "cuda", "--flight-records", "none",
                 "--ranks", str(ranks), "--verify", "--iterations", "100"], ranks)
    if suite.shares_gpus:
        add_run(suite, "exact 8", ["--verify", "--iterations", "20", "--set", "M=256"], 8)
    # Kernels wait for peers on many streams while GEMMs need all multiprocessors. If the waiting
    # kernels occupied all multiprocessors, no rank could continue.
    for streams in ("8", "40"):
        add_run(suite, f"kernels that wait on {streams} streams beside large GEMMs",
                ["--verify", "--iterations", "10", "--set", "M=8192", "--set", "K=2048", "--set",
                 "N=2048", "--protocol", "put", "--copies", "kernel", "--streams", streams,
                 "--chunks", "16"], 4)


def reductions(suite):
    """Partial results that are scattered or added on all ranks, in f32 and in 16-bit types."""
    common = [["--chunks", "3"], ["--chunks", "2", "--placement", "shared", "--streams", "5"],
              ["--schedule", "sequential"], ["--schedule", "bulk", "--copies", "kernel"]]
    ring = [["--schedule", "ring", "--chunks", "2"]]
    shots = [flags + ["--reduction", "two-shot"] for flags in common]
    shots.append(["--chunks", "2", "--tail-split", "4", "--placement", "shared", "--streams", "6",
                  "--reduction", "two-shot"])
    # GEMMs store their results in the peer's memory, with unaligned rows, and concurrently with the
    # peer's GEMMs.
    for fusion, name, more in ((SCATTER, "reduce-scatter", []),
                               (ALL_REDUCE, "all-reduce", ["--reduction", "two-shot"])):
        for number, (columns, flags) in enumerate(((65, []), (65, ["--chunks", "3"]),
                                                   (65, ["--copies", "kernel"]),
                                                   (64, ["--reproducible"]))):
            chosen = more + flags + (["--graph"] if number % 2 else [])
            add_run(suite, f"exact 2 {name} at peers {' '.join(chosen)}",
                    ["--verify", "--iterations", "300", "--set", "M=82", "--set", "K=128", "--set",
                     f"N={columns}", "--protocol", "put", "--partials", "peer"] + chosen, 2, fusion)
    for fusion, name, more in ((SCATTER, "reduce-scatter", ring),
                               (ALL_REDUCE, "all-reduce", shots)):
        for number, flags in enumerate(common + more):
            for protocol in ("get", "put"):
                graph = ["--graph"] if (number + (protocol == "put")) % 2 else []
                chosen = flags + ["--protocol", protocol] + graph
                add_run(suite, f"exact 2 {name} {' '.join(chosen)}",
                        ["--verify", "--iterations", "300", "--set", "M=82", "--set", "K=128",
                         "--set", "N=65"] + chosen, 2, fusion)


def second_shots(suite):
    """One kernel pulls partial results, adds them and pushes the sums, or several kernels do so if
    any address is unaligned. The smallest sums need only a few threads of a block; the largest need
    two rounds of all blocks."""
    kernels = ["--schedule", "bulk;reduction=two-shot;second-shot=put", "--copies", "kernel"]
    for ranks, rows, columns, flags in ((2, 2, 64, []), (3, 6, 64, ["--graph"]), (4, 8, 64, []),
                                        (4, 12, 8192, ["--graph"]), (4, 256, 8192, ["--graph"]),
                                        (4, 256, 8200, []), (2, 82, 65, ["--graph"]),
                                        (3, 250, 64, ["--graph"])):
        add_run(suite, f"exact {ranks} second shot {rows}x{columns} {' '.join(flags)}",
                ["--verify", "--iterations", "300" if rows * columns < 100000 else "20", "--set",
                 f"M={rows}", "--set", f"K={ranks * 32}", "--set", f"N={columns}"] + kernels
                + flags, ranks, ALL_REDUCE)
    for ranks, chosen in ((2, "pairwise;chunks=3"), (4, "pairwise;placement=shared;chunks=2"),
                          (3, "bulk;copies=engine"), (2, "ring;chunks=2")):
        add_run(suite, f"exact {ranks} second shot {chosen}",
                ["--verify", "--iterations", "300", "--set", f"M={41 * ranks}", "--set",
                 f"K={ranks * 32}", "--set", "N=65", "--schedule",
                 f"{chosen};reduction=two-shot;second-shot=put"], ranks, ALL_REDUCE)


def sums_in_gemms(suite):
    """GEMMs that add received data, aligned and unaligned."""
    scatter = os.path.join(ROOT, "tests", "gpu", "scatter_linear.braid")
    for fusion, name, shots in ((scatter, "reduce-scatter", ""),
                                (ALL_REDUCE, "all-reduce", ";reduction=two-shot")):
        for number, cut in enumerate(("", ";chunks=2", ";chunks=3;streams=8")):
            for protocol in ("get", "put", "put;partials=peer"):
                graph = ["--graph"] if (number + (protocol != "get")) % 2 else []
                columns = ("65", "64")[number % 2]
                add_run(suite, f"exact 2 {name} in GEMMs{cut} {protocol} {' '.join(graph)}",
                        ["--schedule", f"ring{cut}{shots};protocol={protocol}",
                         "--verify", "--iterations", "300", "--set", "M=82", "--set", "K=128",
                         "--set", f"N={columns}"] + graph, 2, fusion)


def functions(suite):
    """Tests functions between two stages, and gathered tensors as outputs, including odd
    extents."""
    for name, odd in (("mlp", "F"), ("gated_mlp", "F"), ("ag_reshard", "N")):
        fusion = os.path.join(ROOT, "examples", f"{name}.braid")
        for flags in (["--graph"], ["--chunks", "2", "--protocol", "put"],
                      ["--schedule", "bulk", "--copies", "kernel", "--graph"]):
            add_run(suite, f"exact 2 {name} {' '.join(flags)}",
                    ["--verify", "--iterations", "100", "--set", "M=82", "--set", "K=65", "--set",
                     f"{odd}=130"] + flags, 2, fusion)
    # Only the first of the GEMMs that share a gather is computed in steps.
    for flags in (["--graph"], ["--protocol", "put", "--copies", "engine", "--signals", "memory"],
                  ["--chunks", "2", "--placement", "shared", "--protocol", "put", "--graph"]):
        add_run(suite, f"exact 2 stepwise {' '.join(flags)}",
                ["--schedule", "pairwise;stepwise=first", "--verify", "--iterations", "300",
                 "--set", "M=82", "--set", "K=65", "--set", "F=130"] + flags, 2,
                os.path.join(ROOT, "examples", "gated_mlp.braid"))


def functions_of_sums(suite):
    """Sums with a wider type than their operands, and f32 sums that functions use unrounded."""
    common = [["--chunks", "3"], ["--schedule", "bulk", "--copies", "kernel"]]
    ring, shots = ["--schedule", "ring", "--chunks", "2"], ["--reduction", "two-shot"]
    for name, more in (("scattered", [ring]), ("reduced", [flags + shots for flags in common])):
        fusion = os.path.join(ROOT, "tests", "gpu", f"{name}_function.braid")
        for number, flags in enumerate(common + more):
            for protocol in ("get", "put"):
                graph = ["--graph"] if (number + (protocol == "put")) % 2 else []
                chosen = flags + ["--protocol", protocol] + graph
                add_run(suite, f"exact 2 {name} function {' '.join(chosen)}",
                        ["--verify", "--iterations", "300"] + chosen, 2, fusion)


def memories(suite):
    """The same programs with memory from cuMemCreate. Other cases test CUDA IPC."""
    def add(name, flags, example=EXAMPLE, iterations=100):
        flags = ["--memory", "vmm", "--iterations", str(iterations), "--verify"] + flags
        add_run(suite, f"memory vmm {name} {' '.join(flags[5:])}", flags, 2, example)
    sizes = ["--set", "M=82", "--set", "K=128", "--set", "N=65"]
    for number, schedule in enumerate(("pairwise", "bulk;copies=kernel", "ring;chunks=2")):
        for protocol in ("get", "put"):
            graph = ["--graph"] if (number + (protocol == "put")) % 2 else []
            add("gather", ["--schedule", schedule, "--protocol", protocol] + sizes + graph)
    add("reduce-scatter", ["--schedule", "pairwise;chunks=3", "--graph"] + sizes, SCATTER)
    add("all-reduce", ["--schedule", "bulk;copies=kernel"] + sizes, ALL_REDUCE)
    add("mlp", ["--schedule", "pairwise", "--graph"],
        os.path.join(ROOT, "examples", "mlp.braid"), iterations=20)
    program = os.path.join(os.path.dirname(suite.braid), "gpu_memory_test")
    if os.path.exists(program):
        suite.add_command("memory vmm gpu_memory_test",
                          ["env", "BRAID_TEST_MEMORY=vmm", program, "--ranks", "2", "--runs",
                           "10000"], 2, seconds=400)


def extremes(suite):
    add_run(suite, "10,000 replays", ["--graph", "--verify", "--iterations", "10000", "--set",
                                      "M=64", "--set", "K=64", "--set", "N=64"], 2)
    # Filling and comparing elements takes most of the time. The first buffer has more than 2^31
    # elements; the second has as many bytes but a quarter of the elements.
    add_run(suite, "gathered buffer above 4 GiB",
            ["--verify", "--iterations", "1", "--set", "M=32768", "--set", "K=65792", "--set",
             "N=64", "--protocol", "put"], 2)
    add_run(suite, "gathered buffer above 4 GiB, replayed",
            ["--verify", "--iterations", "2", "--set", "M=32768", "--set", "K=16448", "--set",
             "N=64", "--graph"], 2, linear("f64"))


def refusals(suite):
    blocking = ["env", "CUDA_LAUNCH_BLOCKING=1", suite.braid, "run", EXAMPLE, "--backend", "cuda",
                "--processes", "--ranks", "2", "--flight-records", "none"]
    suite.add_command("CUDA_LAUNCH_BLOCKING is refused", blocking, 2, expect=4)
    one_gpu = ["env", f"CUDA_VISIBLE_DEVICES={(gpus() or ['0'])[0]}", suite.braid, "run", EXAMPLE,
               "--backend", "cuda", "--ranks", "2", "--flight-records", "none"]
    suite.add_command("ranks that see one GPU are refused", one_gpu, 1, expect=4)
    for variable in ("BRAID_SHARE_GPUS", "BRAID_TUNE"):
        suite.add_command(f"{variable}=maybe", ["env", f"{variable}=maybe"] + one_gpu, 1, expect=2)
    many = len(gpus()) + 1
    suite.add_command("more ranks than GPUs are refused",
                      [suite.braid, "run", EXAMPLE, "--backend", "cuda", "--ranks",
                       str(many), "--set", f"M={many * 32}", "--flight-records", "none"], 1,
                      expect=4)


def programs(suite):
    """Adds the test programs in the folder of the command."""
    folder = os.path.dirname(suite.braid)
    for program in sorted(glob.glob(os.path.join(folder, "gpu_*_test"))):
        if program.endswith("gpu_messages_test"):
            program = f"env BRAID_TEST_BACKEND=cuda {program}"
        # Most failures on 3 ranks also occur on 4 ranks.
        for ranks, runs in ((2, "1000"), (3, "300"), (4, "1000")):
            runs = "50" if suite.has_too_few(ranks) else runs
            suite.add_command(f"{os.path.basename(program.split()[-1])}, {ranks} ranks",
                              program.split() + ["--ranks", str(ranks), "--runs", runs], ranks,
                              seconds=200)
    suite.add_command("doctor", [sys.executable, os.path.join(
        ROOT, "tests", "gpu", "doctor_gpu_test.py"), suite.braid], 1, seconds=400)
    python = os.path.join(os.path.dirname(folder), "python")
    if os.path.isdir(python) and importlib.util.find_spec("torch"):
        suite.add_command("python, 2 ranks", [sys.executable, os.path.join(
            ROOT, "tests", "gpu", "python_gpu_test.py"), python], 2, seconds=200)
        for connections in ("1", "8", "32"):
            suite.add_command(f"beside NCCL of the caller, {connections} connections", [
                "env", f"CUDA_DEVICE_MAX_CONNECTIONS={connections}", sys.executable,
                os.path.join(ROOT, "tests", "gpu", "python_gpu_test.py"), python, "--beside",
                "10000"], 2, seconds=200, uses_nccl=True)
        suite.add("pytorch device time", 2, lambda devices: torch_device_time(suite, python))
        torch_test = [sys.executable, os.path.join(ROOT, "tests", "gpu", "torch_gpu_test.py"),
                      python]
        suite.add_command("pytorch, 2 ranks", torch_test, 2, seconds=400)
        for part in ("attention_braid", "attention_braid_nccl", "attention_nccl_braid"):
            suite.add_command(f"pytorch {part}", [*torch_test, "--parts", part], 2, seconds=200,
                              uses_nccl=True)
        suite.add_command("pytorch graph time", [*torch_test, "--parts", "graph_time"], 2,
                          seconds=200)
        add_frameworks(suite, python)
    backends = os.path.join(folder, "backends_test")
    if os.path.exists(backends):
        suite.add_command("conformance", [backends, "--gtest_brief=1", "--gtest_filter=*cuda*"], 2,
                          seconds=200)


# Examples that compare a framework's layers with Braid's, and the packages that each needs.
FRAMEWORKS = {
    "generate.py --layers 2 --tokens 8 --rounds 1 --batch 1 16": ("transformers", "accelerate"),
    "megatron_layer.py --rounds 1": ("megatron",),
    "megatron_layer.py --rounds 1 --no-sequence-parallel": ("megatron",),
    "megatron_layer.py --rounds 1 --length 1000 --batch 3 --hidden 1024 --inner 4096 --heads 16":
        ("megatron",)}


def add_frameworks(suite, python):
    """Adds the examples whose packages are installed."""
    paths = os.pathsep.join([python, os.environ.get("PYTHONPATH", "")])
    for words, packages in FRAMEWORKS.items():
        if all(importlib.util.find_spec(package) for package in packages):
            script, *options = words.split()
            path = os.path.join(ROOT, "examples", "torch", script)
            suite.add_command(f"frameworks {words}", [
                "env", f"PYTHONPATH={paths}", "CUDA_DEVICE_MAX_CONNECTIONS=1", sys.executable, "-m",
                "torch.distributed.run", "--standalone", "--nproc-per-node", "2", path, *options],
                2, seconds=200, uses_nccl=True)


class TuningRun:
    """A run of the example with a measurement folder, and its report about GEMMs."""

    def __init__(self, suite, folder, flags, devices, tune="on"):
        environment = only_on(devices[:2], BRAID_CACHE_DIR=folder, BRAID_TUNE=tune)
        self.command = Command(
            [suite.braid, "run", EXAMPLE, "--backend", "cuda", "--ranks", "2", "--explain",
             "--schedule", "pairwise", "--flight-records", "none", "--timeout-ms", "20000"] + flags,
            environment)

    def end(self):
        with self.command as command:
            command.wait(120)
            self.code, out, self.lines = command.code, command.out(), command.err()
        said = re.search(r"; prepared in ([0-9.]+) (s|ms|us)$", out, re.MULTILINE)
        unit = {"s": 1, "ms": 1e-3, "us": 1e-6}
        self.seconds = float(said[1]) * unit[said[2]] if said else float("inf")
        counts = re.search(r"^braid: GEMMs: (\d+) tuned in ([0-9.]+) s, (\d+) already known "
                           r"\((.*)\)$", self.lines, re.MULTILINE)
        self.tuned, self.known = (int(counts[1]), int(counts[3])) if counts else (None, None)
        return self

    def __str__(self):
        return (f"exit code {self.code}, prepared in {self.seconds:.3f} s, "
                f"{self.tuned} tuned, {self.known} known\n{self.lines[-2000:]}")


SHAPES = {"1024": ["--set", "M=1024"],
          "8192": ["--set", "M=8192", "--set", "K=8192", "--set", "N=8192"],
          "32768x8192x16384, split": ["--set", "M=32768", "--set", "K=16384", "--set", "N=8192",
                                        "--chunks", "4", "--tail-split", "3"]}


def tuning(suite):
    """GEMMs are measured once per machine and within the time limit."""
    def run_once(folder, devices, flags=(), **options):
        return TuningRun(suite, folder, list(flags), devices, **options).end()

    def is_fine(job, tuned):
        """`tuned` specifies whether GEMMs should have been measured."""
        return job.code == 0 and job.tuned is not None and (
            job.tuned > 0 if tuned else job.tuned == 0 and job.known > 0)

    def seconds_of(job):
        return job.seconds

    def times(flags):
        def check(folder, devices):
            off = run_once(folder, devices, flags, tune="off")
            if off.code != 0 or os.listdir(folder):
                return "BRAID_TUNE=off measured something, or failed", off
            first, second = run_once(folder, devices, flags), run_once(folder, devices, flags)
            # Other work on the machine can only slow runs down.
            for _ in range(2):
                off = min(off, run_once(folder, devices, flags, tune="off"), key=seconds_of)
                second = min(second, run_once(folder, devices, flags), key=seconds_of)
            said = (f"off {off.seconds:.3f} s, untuned {first.seconds:.3f} s for {first.tuned} "
                    f"shapes, known {second.seconds:.3f} s")
            if not is_fine(first, True) or not is_fine(second, False):
                return "expected GEMMs tuned, then known", f"{said}\n{first}\n{second}"
            if first.seconds > 2:
                return "expected at most 2 s", said
            if second.seconds > off.seconds + 0.05:
                return "expected at most 50 ms more than with BRAID_TUNE=off", said
            return "", said
        return check

    def exact(folder, devices):
        flags = ["--verify", "--iterations", "20", "--set", "M=2048", "--set", "K=2048"]
        job = run_once(folder, devices, flags)
        return ("" if is_fine(job, True) else "expected exact results"), job

    def add(name, check, **options):
        """Adds a case. `check(folder, devices)` returns an error or nothing, and a detail."""
        def check_in_folder(devices):
            with tempfile.TemporaryDirectory() as folder:
                wrong, said = check(folder, devices)
            return ("failed", f"{wrong}: {said}") if wrong else ("passed", str(said))
        suite.add(f"tuning: {name}", 2, check_in_folder, **options)

    for shape, flags in SHAPES.items():
        add(f"time to prepare {shape}", times(flags))
    add("results", exact)


def timed_rows(suite, ranks, flags, seconds):
    """Returns the rows of `braid bench gather-matmul`. Raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        arguments = [suite.braid, "bench", "gather-matmul", "--backend", "cuda", "--ranks",
                     str(ranks), "--timeout-ms", "30000", "--json", out] + flags
        code, _, err = run(arguments, seconds)
        if code != 0:
            raise RuntimeError(err[-3000:])
        with open(out, encoding="utf-8") as file:
            return json.load(file)["rows"]


def bench(suite, devices):
    """Times every row of Braid. If PyTorch is installed, also times its operators, alternating with
    Braid's in the same processes."""
    ranks = min(4, len(devices))
    rows = timed_rows(suite, ranks,
                      ["-m", "1024,2048", "-n", "1024", "-k", "1024", "--rounds", "2",
                       "--iterations", "5"], 180)
    if importlib.util.find_spec("torch"):
        for operation in ("gather-matmul", "matmul-reduce-scatter", "matmul-all-reduce", "mlp"):
            rows += torch_rows(suite.braid, operation, ranks,
                               ["--shapes", "1024x1024x1024", "--rounds", "2", "--row-ms", "50"],
                               180)
    refused = sorted({f"{row['implementation']}: {row['failure']}" for row in rows
                      if "failure" in row})
    needed = [text for text in refused if not text.startswith("te/")]
    bare = [row["implementation"] for row in rows
            if "failure" not in row and not all(us > 0 for us in row.get("burst_us") or [0])]
    detail = f"{len(rows)} rows, {len(refused)} refused, {len(bare)} without bursts"
    detail += "".join("\n" + text for text in refused + bare)
    return ("failed" if bare or needed else "passed"), detail


# A PyTorch call may exceed the benchmark's time by this fraction or by this many microseconds.
CALLS_WITHIN, CALLS_WITHIN_US = 0.02, 3


def torch_device_time(suite, python):
    """A call at recurring addresses takes as much GPU time as a benchmark run. Both vary by 4 %
    between processes, so the shortest of three is used."""
    calls, runs, said = [], [], []
    for _ in range(3):
        code, out, err = run([sys.executable, os.path.join(ROOT, "tests", "gpu",
                                                           "torch_gpu_test.py"),
                              python, "--parts", "device_time"], 120,
                             # The benchmark sets the same variable.
                             dict(os.environ, CUDA_DEVICE_MAX_CONNECTIONS="32"))
        found = re.search(r"^device time: (.*)$", out, re.MULTILINE)
        if code or not found:
            return ("skipped" if code == 77 else "failed"), f"exit code {code}\n{out}{err}"[-3000:]
        call = json.loads(found[1])
        rows = timed_rows(suite, 2, ["--shapes", call["shape"], "--graph", "yes", "--rounds", "3",
                                     "--impl", call["schedule"].replace(";launch=graph", "")], 90)
        calls.append(call["us"])
        runs.append(rows[0]["burst_median_us"])
        said.append(f"{call['shape']} {call['schedule']}: {calls[-1]:.1f} us a call, "
                    f"{runs[-1]:.1f} in the benchmark")
        if min(calls) <= max(min(runs) * (1 + CALLS_WITHIN), min(runs) + CALLS_WITHIN_US):
            return "passed", "; ".join(said)
    return "failed", "; ".join(said)


# Shapes whose rows and blocks are aligned to 2 bytes, and to 16 bytes.
UNALIGNED, ALIGNED = "8190x4097x4099", "8192x4096x4096"
# Maximum time relative to copy engines. The actual ratio is about 2; it would be much larger if a
# kernel copied such blocks element by element.
MOST_BY_KERNELS = 3


def unaligned_copies(suite):
    """Kernels copy unaligned blocks about half as fast as the copy engines do."""
    rows = timed_rows(suite, 2, ["--shapes", f"{UNALIGNED},{ALIGNED}", "--impl", ",".join(
        f"{what};protocol={protocol};{means}" for what in ("transfers", "sequential")
        for protocol in ("put", "get") for means in ("copies=kernel", "signals=memory")),
        "--rounds", "3", "--row-ms", "100"], 90)
    wrong, said = [], []
    by_engines = {(row["m"], row["graph"], row["implementation"]): row.get("median_us")
                  for row in rows}
    for row in rows:
        shape, name = f"{row['m']}x{row['n']}x{row['k']}", row["implementation"]
        engines = name.replace("copies=kernel", "signals=memory")
        if engines == name:
            continue
        mine, theirs = row.get("median_us"), by_engines.get((row["m"], row["graph"], engines))
        issued = "replayed" if row["graph"] else "eager"
        said.append(f"{shape} {name} {issued}: {mine} us by kernels, {theirs} us by engines")
        is_judged = shape == UNALIGNED and name.startswith("transfers")
        if not mine or not theirs or (is_judged and mine > MOST_BY_KERNELS * theirs):
            wrong.append(said[-1])
    if wrong or not said:
        return "failed", "\n".join([f"expected at most {MOST_BY_KERNELS} times as long", *said])
    return "passed", "\n".join(["", *said])


def calibration(suite, backend):
    """Calibrates a machine. A prediction from the resulting file must be plausible."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "machine.json")
        code, said, err = run([suite.braid, "calibrate", out, "--backend", backend, "--ranks", "2",
                               "--shapes", "2048x4096x4096,4096x4096x4096", "--timeout-ms",
                               "30000"], 120, dict(os.environ, BRAID_CACHE_DIR=folder))
        if code != 0:
            return "failed", f"exit code {code}\n{said}{err}"
        transport = "messages" if backend == "nccl" else "peer-memory"
        code, said, err = run([suite.braid, "simulate", EXAMPLE, "--ranks", "2", "--machine", out,
                               "--transport", transport, "--launch", "graph", "--json", "--set",
                               "M=4096", "--set", "K=4096", "--set", "N=4096"], 60)
        if code != 0:
            return "failed", f"exit code {code}\n{said}{err}"
    us, burst_us = (json.loads(said)["predictions"][0][key] for key in ("us", "burst_us"))
    good = 0.5 < burst_us / us < 1.5
    return ("passed" if good else "failed"), f"{us:.0f} us, in bursts {burst_us:.0f}"


def add_all(suite, fault_seeds):
    """Adds all cases, beginning with the short cases that find most errors."""
    refusals(suite)
    exactness(suite)
    missing = nccl_missing(suite)
    add_messages(suite, missing)
    add_hosts(suite, missing)
    memories(suite)
    programs(suite)
    add_pairs(suite, has_nccl=not missing)
    tuning(suite)
    suite.add("bench, in turns with PyTorch", 2, lambda devices: bench(suite, devices))
    suite.add("unaligned copies by kernels", 2, lambda devices: unaligned_copies(suite))
    for backend in ["cuda"] + ["nccl"] * (not missing):
        suite.add(f"calibrate {backend}", 2,
                  lambda devices, backend=backend: calibration(suite, backend))
    extremes(suite)
    add_faults(suite, fault_seeds)


def seeds(text):
    """Parses "A-B,C,...", where both ends of a range are included."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise argparse.ArgumentTypeError(f"expected seeds, such as 8,50-99, got '{text}'")
        found += range(first, last + 1)
    return found


def read_flags():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("braid")
    parser.add_argument("--only", default="", metavar="WORD",
                        help="run cases whose name holds this")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--faults", type=int, default=8, metavar="N",
                        help="so many faults, from seed 0 on (default 8)")
    chosen.add_argument("--fault-seeds", type=seeds, metavar="A-B,C",
                        help="the faults of these seeds")
    parser.add_argument("--share-gpus", action="store_true",
                        help="let ranks share GPUs where there are too few")
    parser.add_argument("--json", metavar="OUT", help="keep the outcomes in this file")
    parser.add_argument("--commit", default="unknown", help="of the command, for that file")
    parser.add_argument("--resume", action="store_true",
                        help="leave out what has passed by that file")
    flags = parser.parse_args()
    if flags.resume and not flags.json:
        parser.error("--resume: expected --json, too")
    return flags


def main():
    flags = read_flags()
    about = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": flags.commit,
             "machine": machine()}
    suite = Suite(os.path.abspath(flags.braid), flags.only, flags.json, about, flags.share_gpus)
    if flags.resume:
        try:
            suite.go_on()
        except (ValueError, KeyError) as error:
            print(f"run_gpu_tests.py: --resume: {flags.json}: {error}", file=sys.stderr)
            sys.exit(2)
    os.environ.pop("BRAID_SHARE_GPUS", None)  # only_on() sets it for each case
    signals = []
    end_on_signals(signals)
    print(f"{len(gpus())} GPUs", flush=True)
    add_all(suite, flags.fault_seeds or range(flags.faults))
    suite.run()
    for name in signals:
        print(f"killed by {name}", flush=True)
    print(suite.summary(), flush=True)
    sys.exit(suite.exit_status())


if __name__ == "__main__":
    main()
