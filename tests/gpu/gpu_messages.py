"""Programs over NCCL, alone and combined with copies, and the bandwidth of its collectives."""
import importlib.util
import json
import os
import shutil
import sys

from gpu_batch import Batch, as_run
from gpu_commands import ROOT, run, torch_rows
from gpu_suite import only_on

EXAMPLE = os.path.join(ROOT, "examples", "ag_matmul.braid")
SCATTER = os.path.join(ROOT, "examples", "matmul_reduce_scatter.braid")
ALL_REDUCE = os.path.join(ROOT, "examples", "matmul_all_reduce.braid")


def nccl_missing(suite):
    """Returns the reason why `braid doctor` finds no NCCL, or ""."""
    code, out, _ = run([suite.braid, "doctor", "--json"], 60)
    try:
        found = [line for line in json.loads(out)["lines"] if line["check"] == "nccl"]
    except (ValueError, KeyError):
        return f"braid doctor ends with {code} and prints no lines"
    if not found:
        return "not part of this build"
    return "" if found[0]["line"] == "found" else found[0]["seen"]


def messages(suite):
    """Adds runs over NCCL with every schedule that does not require peer memory."""
    def add(name, flags, ranks, example=EXAMPLE):
        name = f"messages {ranks} {name} {' '.join(flags)}"
        flags = ["--backend", "nccl", "--verify", "--flight-records", "none", "--timeout-ms",
                 "20000", "--ranks", str(ranks), "--iterations", "200"] + flags
        suite.add_command(name, [suite.braid, "run", example] + flags, ranks, uses_nccl=True,
                          batch=Batch("nccl"), run=as_run(example, flags))
    sizes = ["--set", "K=64", "--set", "N=65"]
    for number, schedule in enumerate(("sequential", "pairwise", "ring", "batched", "bulk",
                                       "coalesced", "collective")):
        ranks = 4 if schedule == "coalesced" else (2, 3)[number % 2]
        for graph in ([], ["--graph"]):
            add("gather", ["--schedule", schedule, "--set", f"M={ranks * 41}"] + sizes + graph,
                ranks)
    for example, name in ((SCATTER, "reduce-scatter"), (ALL_REDUCE, "all-reduce")):
        for schedule in ("pairwise;chunks=2", "bulk", "sequential", "collective"):
            for graph in ([], ["--graph"]):
                add(name, ["--schedule", schedule, "--set", "M=82"] + sizes + graph, 2, example)
    add("mlp", ["--graph"], 2, os.path.join(ROOT, "examples", "mlp.braid"))
    slices = os.path.join(ROOT, "examples", "ag_matmul_collective.braid")
    rows = ["--set", "M=768", "--set", "K=64", "--set", "N=65"]
    for graph in ([], ["--graph"]):
        add("slices", ["--streams", "3"] + rows + graph, 2, slices)
        add("reduce-scatter", ["--schedule", "collective;chunks=4;streams=2", "--set", "M=256"]
            + sizes + graph, 2, SCATTER)
    programs = os.path.dirname(suite.braid)
    # One tenth of the runs of gpu_session_test launch a graph that contains runs of two sessions.
    # If the backend is `mixed`, one of these sessions uses copies and the other uses collectives.
    for program, backend, ranks, runs in (("gpu_messages_test", "nccl", 2, 200),
                                          ("gpu_messages_test", "nccl", 3, 200),
                                          ("gpu_session_test", "nccl", 2, 200),
                                          ("gpu_session_test", "mixed", 2, 100000)):
        if os.path.exists(os.path.join(programs, program)):
            suite.add_command(f"messages {program}, {backend}, {ranks} ranks",
                              ["env", f"BRAID_TEST_BACKEND={backend}",
                               os.path.join(programs, program), "--ranks", str(ranks), "--runs",
                               str(runs)], ranks, seconds=400, uses_nccl=True)


def replays(suite):
    """Adds cases that replay a graph ten thousand times."""
    for example, name, cut in ((EXAMPLE, "gather", ""), (SCATTER, "reduce-scatter", ";chunks=2"),
                               (ALL_REDUCE, "all-reduce", ";chunks=2")):
        suite.add_command(f"messages 2 {name}, 10,000 replays",
                          [suite.braid, "run", example, "--backend", "nccl", "--verify", "--graph",
                           "--flight-records", "none", "--timeout-ms", "20000", "--ranks", "2",
                           "--iterations", "10000", "--schedule", "collective" + cut, "--set",
                           "M=64", "--set", "K=64", "--set", "N=64"], 2, seconds=200,
                          uses_nccl=True)


SOCKETS_ONLY = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


def launchers(suite):
    """Adds cases in which other launchers start the ranks, on both backends, and a case in which
    NCCL uses only sockets."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                "--nproc-per-node", "2", "--no-python"]
    mpirun = shutil.which("mpirun")
    starters = {"torchrun": torchrun if importlib.util.find_spec("torch") else None,
                "mpirun": [mpirun, "--allow-run-as-root", "-n", "2"] if mpirun else None}

    def add(name, start, backend, flags=(), **environment):
        def check(devices):
            if start is None:
                return "skipped", f"{name} is not here"
            code, out, err = run([
                *start, suite.braid, "run", EXAMPLE, "--backend", backend, "--verify",
                "--iterations", "100", "--timeout-ms", "20000", "--flight-records", "none", *flags],
                120, only_on(devices, **environment))
            good = code == 0 and "all equal" in out + err
            return ("passed", "") if good else ("failed", f"exit code {code}\n{out}{err}"[-3000:])
        suite.add(f"messages launchers: {name}, {backend}", 2, check)
    for backend in ("cuda", "nccl"):
        for name, start in starters.items():
            add(name, start, backend)
    add("sockets only", [], "nccl", ["--ranks", "2"], **SOCKETS_ONLY)


# Bytes that cross a link for each byte of a rank's tensor, according to the convention of
# nccl-tests.
BUSES = {"gather-matmul": lambda ranks: (ranks - 1) / ranks,
         "matmul-reduce-scatter": lambda ranks: (ranks - 1) / ranks,
         "matmul-all-reduce": lambda ranks: 2 * (ranks - 1) / ranks}
BUS_COLUMNS = (1024, 8192, 65536, 262144)  # with 512 rows of bf16: 1 MiB to 256 MiB
BUS_ROWS = ("braid/transfers", "torch/transfers")  # PyTorch calls NCCL
BUS_WITHIN = 0.03
GRAPH_RUNS = 8  # runs in each graph, because a model's graph contains many
# The two kernels that count a run in a caller's graph (backends/cuda/run_guard.h) take 2.8 us, and
# bursts of 12 us vary by 2 us between invocations of the benchmark.
COUNTED_US = 5


def bus_bandwidth(suite, ranks=2):
    """Compares each collective with PyTorch's, in alternating bursts of graphs. At 8 MiB, times
    vary by 8 % between invocations of the benchmark, so the shortest of three is used."""
    def check(operation):
        if not importlib.util.find_spec("torch"):
            return "skipped", "no PyTorch"
        shapes = ",".join(f"512x64x{columns}" if operation == "gather-matmul" else
                          f"512x{columns}x64" for columns in BUS_COLUMNS)
        flags = ["--shapes", shapes, "--rows", ",".join(BUS_ROWS), "--graph", "yes",
                 "--graph-runs", str(GRAPH_RUNS), "--row-ms", "60"]
        shortest = {}
        for _ in range(3):
            for row in torch_rows(suite.braid, operation, ranks, flags, 200):
                if "failure" in row:
                    return "failed", f"{row['implementation']}: {row['failure']}"
                key = max(row["n"], row["k"]), row["implementation"]
                shortest[key] = min(row["burst_median_us"], shortest.get(key, float("inf")))
            outcome, detail = judge(operation, shortest)
            if outcome == "passed":
                break
        return outcome, detail

    def judge(operation, shortest):
        lines, wrong = [], 0
        for columns in BUS_COLUMNS:
            mine, other = (shortest[columns, name] for name in BUS_ROWS)
            moved = 512 * columns * 2 * BUSES[operation](ranks)
            wrong += mine > max(other * (1 + BUS_WITHIN), other + COUNTED_US)
            lines.append(f"{columns * 1024 / 2**20:g} MiB: {moved / mine / 1e3:.1f} GB/s, "
                         f"PyTorch's {moved / other / 1e3:.1f}")
        return ("failed" if wrong else "passed"), "; ".join(lines)
    for operation in BUSES:
        suite.add(f"messages bus bandwidth: {operation}", ranks,
                  lambda devices, operation=operation: check(operation), uses_nccl=True)


def add_messages(suite, missing):
    """Adds all cases that use NCCL. `missing` is the reason why there is no NCCL, or ""."""
    if missing:
        suite.add("messages", 1, lambda devices: ("skipped", missing))
        return
    for add in (messages, replays, launchers, bus_bandwidth):
        add(suite)
