#!/usr/bin/env python3
"""Measures everything that README.md and docs/ say of gather+matmul on GPUs, in pieces.

    measure_gpus.py build/release/bin/braid --out build/results \\
        [--commit 1a2b3c4] [--part nine,two,...] [--time-limit 500]

    nine         nine shapes on 4 ranks, every row in turns with PyTorch's    DIR/nine.json
    two          the same on 2 ranks                                           DIR/two.json
    grid         n and k of 512, 1024, 2048, 8192 and 16384, m of these and
                 16, 64 and 256                                                DIR/grid.json
    predictions  every candidate of `--schedule auto`, predicted and timed     DIR/predictions_*.txt
    again        where `auto` lost in DIR/nine.json, two.json or grid.json:
                 it and the row that won, alone in turns                       DIR/again_*.json
    power        what a gather and a GEMM draw, each for seconds               DIR/power.json

`auto` has lost where it took longer than the fastest row that does all the work, PyTorch's
included, by more than 3 % and by more than 3 us.

Where a GEMM is limited by power, what the copies draw is taken from it, so that with G and P the
times of gather and GEMM alone, E can reach P / (P + G * (watts of a gather - idle) / watts of a
GEMM), and not 1, however well the copies hide.

It goes on where an earlier call has ended: what is complete is not measured again, and what was
tuned and what the cost model holds is in DIR/cache, unless $BRAID_CACHE_DIR is set. Ends with a
table of the shapes, with the shapes where `auto` lost, before and again, and with how far
predictions were off. Exit code 1 if something failed.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from plot_bench import GEMMS, PARTS, TRANSFERS, bursts_decide, is_whole

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NINE = ("1024x1024x1024,2048x2048x2048,4096x4096x4096,8192x3584x4096,8192x7168x8192,"
        "8192x8192x8192,16384x1024x16384,16384x16384x16384,32768x8192x16384")
SIZES = "512,1024,2048,8192,16384"
ROW_SIZES = f"16,64,256,{SIZES}"
SHARED = "pairwise;protocol=put;placement=shared;signals=memory"
COALESCED = "coalesced;protocol=put;signals=memory"
ROWS = ["matmul", "gather;placement=shared;protocol=put;copies=kernel",
        "gather;placement=shared;protocol=put;signals=memory",
        "sequential;protocol=put;copies=kernel",
        "bulk;protocol=put;copies=kernel", f"{SHARED};streams=3", COALESCED, "auto"]
# Neither part waits for the other: about what the machine leaves of both.
UNCOUPLED = "uncoupled;protocol=put;signals=memory"
# Worth their time at nine shapes only. Of four streams two are for GEMMs, of three one.
MORE_ROWS = [SHARED, f"{SHARED};streams=3;chunks=2", f"{SHARED};tail-split=4",
             f"{COALESCED};streams=3",
             "pairwise;protocol=put;chunks=4;tail-split=2", "pairwise;protocol=put"]
BATCHES = ("nine", "two", "grid")
AGAIN_ROUNDS = 7
# Shapes that keep the links, or the multiprocessors, busy all the time.
POWER_GATHER, POWER_GEMM = "32768x8192x16384", "8192x8192x8192"
MISSING = float("inf")
# A shape's `auto` beside the best row that does all the work, which may be itself.
Comparison = collections.namedtuple("Comparison", "shape auto_us best_us best by_bursts")
# Predicted, and a run in a burst as it was measured; beside them one alone.
CANDIDATE = re.compile(r"^ +([0-9.]+) +([0-9.]+) +[-+]\d+ % +[0-9.]+ +(\S+)")


class Measuring:
    def __init__(self, flags):
        self.flags, self.begin, self.failed = flags, time.monotonic(), []

    def left(self):
        return self.flags.time_limit - (time.monotonic() - self.begin)

    def bench(self, name, ranks, shapes, rows, effort, with_torch=True):
        """A batch in the file of that name, as far as there is time."""
        if self.left() < 10:
            return print(f"{name}: no time left", flush=True)
        flags = self.flags
        if flags.backend == "cpu":
            rows = list(dict.fromkeys(re.sub(";(copies|signals)=[a-z]+", "", row) for row in rows))
        arguments = [flags.braid, "bench", "gather-matmul", "--backend", flags.backend, "--ranks",
                     str(ranks), "--impl", ",".join(rows), "--resume", "--json", self.path(name),
                     "--time-limit", str(int(self.left())), "--timeout-ms", "20000",
                     "--label", f"commit={flags.commit}"] + shapes + effort
        if flags.backend != "cpu":
            arguments += ["--graph", "yes"]
        if flags.backend != "cpu" and with_torch:
            arguments += ["--against", "torch", "--python", flags.python]
        code = subprocess.run(arguments, check=False).returncode
        if code != 0:
            self.failed.append(f"{name}: exit code {code} of {' '.join(arguments)}")

    def again(self, name):
        """Where `auto` lost in the file of that name; a batch has all shapes that one row won."""
        if not os.path.exists(self.path(name)):
            return
        before, shapes = Results(self.path(name)), {}
        for loss in before.losses():
            shapes.setdefault(loss.best, []).append("x".join(map(str, loss.shape)))
        for winner, of_winner in shapes.items():
            is_torch = winner.startswith("torch/")
            self.bench(f"again_{name}", before.ranks, ["--shapes", ",".join(of_winner)],
                       ["auto"] if is_torch else ["auto", winner],
                       self.effort(AGAIN_ROUNDS, 10, 3, self.flags.row_ms),
                       with_torch=is_torch)

    def power(self):
        """Watts of a GPU, sampled while they gather, multiply and rest."""
        if os.path.exists(self.path("power")) or self.left() < 10:
            return
        means = {}
        for name, row, shape in (("gather", f"gather;{SHARED.split(';', 1)[1]}", POWER_GATHER),
                                 ("gemm", "matmul", POWER_GEMM)):
            watts = self.watts_during(row, shape)
            if not watts:
                return print("power: not measured", flush=True)
            means[f"{name}_w"] = mean(watts)
        # The clocks are still up, as they are beside a GEMM.
        means["idle_w"] = mean(watts_now(self.flags.ranks))
        with open(self.path("power"), "w", encoding="utf-8") as file:
            json.dump({"commit": self.flags.commit, "gather": POWER_GATHER,
                       "gemm": POWER_GEMM, **means}, file, indent=1)
            file.write("\n")

    def watts_during(self, row, shape):
        """Of one row alone, once it has settled."""
        flags = self.flags
        if flags.backend == "cpu":
            row, shape = row.split(";")[0], flags.shapes.split(",")[0]
        arguments = [flags.braid, "bench", "gather-matmul", "--backend", flags.backend, "--ranks",
                     str(flags.ranks), "--impl", row, "--shapes", shape, "--rounds", "1",
                     "--iterations", "1000000", "--row-ms", str(flags.power_ms),
                     "--warm-up-ms", "1000", "--bursts", "0", "--timeout-ms",
                     str(20000 + flags.power_ms)]
        watts = []
        with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
                arguments, stdout=subprocess.DEVNULL, stderr=said, text=True) as process:
            while process.poll() is None:
                watts.append(watts_now(flags.ranks))
                time.sleep(0.05)
            if process.returncode != 0:
                said.seek(0)
                self.failed.append(f"power: exit code {process.returncode} of "
                                   f"{' '.join(arguments)}\n{said.read()[-2000:]}")
                return []
        # Before its runs a job starts and prepares, and after them it ends.
        most = max((mean(each) for each in watts if each), default=0)
        return [w for each in watts if each and mean(each) > 0.9 * most for w in each]

    def path(self, name):
        return os.path.join(self.flags.out, f"{name}.json")

    def effort(self, rounds, iterations, warm_up, row_ms):
        warm_up_ms = self.flags.warm_up_ms
        return ["--rounds", str(rounds), "--iterations", str(iterations), "--warm-up",
                str(warm_up), "--row-ms", str(row_ms)] + (
                    [] if warm_up_ms is None else ["--warm-up-ms", str(warm_up_ms)])

    def predict(self, shape):
        """Every candidate of a shape."""
        path = os.path.join(self.flags.out, f"predictions_{shape}.txt")
        if os.path.exists(path) or self.left() < 10:
            return
        m, n, k = shape.split("x")
        arguments = [self.flags.braid, "run", os.path.join(ROOT, "examples", "ag_matmul.braid"),
                     "--backend", self.flags.backend, "--processes", "--ranks",
                     str(self.flags.ranks), "--set", f"M={m}", "--set", f"N={n}", "--set", f"K={k}",
                     "--schedule", "auto", "--explain", "--time-best", "1000", "--iterations", "1",
                     "--flight-records", "none"]
        run = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            self.failed.append(f"{shape}: exit code {run.returncode} of {' '.join(arguments)}\n"
                               f"{run.stderr[-2000:]}")
            return
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"commit {self.flags.commit}: {' '.join(arguments[1:])}\n{run.stderr}")


def mean(values):
    return sum(values) / len(values)


def watts_now(ranks):
    """Of the GPU of each rank, for others would count as idle; nothing where there is none."""
    if not shutil.which("nvidia-smi"):
        return []
    run = subprocess.run(["nvidia-smi", "--query-gpu=power.draw.instant",
                          "--format=csv,noheader,nounits"], capture_output=True, text=True,
                         check=False)
    watts = [float(word) for word in run.stdout.split() if re.fullmatch(r"[0-9.]+", word)]
    return watts[:ranks]


def summarise_power(measuring, names):
    if not os.path.exists(measuring.path("power")):
        return
    with open(measuring.path("power"), encoding="utf-8") as file:
        power = json.load(file)
    share = (power["gather_w"] - power["idle_w"]) / power["gemm_w"]
    print(f"power: a gather draws {power['gather_w']:.0f} W, a GEMM {power['gemm_w']:.0f} W, "
          f"idle GPUs {power['idle_w']:.0f} W")
    print("| ranks | M×N×K | GEMM | gather | E that power leaves | E |\n"
          "| --- | --- | --- | --- | --- | --- |")
    for name in names:
        results = Results(measuring.path(name))
        for shape in results.shapes:
            limits = Limits(results.times(shape))
            gemm, gather, ours = limits.gemm[0], limits.gather[0], limits.ours[0]
            if MISSING in (gemm, gather, ours) or gemm < gather:
                continue
            print(f"| {results.ranks} | {named(shape)} | {gemm:.0f} | {gather:.0f} | "
                  f"{gemm / (gemm + gather * share):.2f} | {gemm / ours:.2f} |")


def is_close(us, best):
    """As ShapeSummary::isAutoClose says, of times that rows are judged by."""
    return us <= best + max(0.03 * best, 3)


def behind(us, best):
    return f"{us - best:.1f} us ({100 * (us / best - 1):.1f} %)"


def named(shape):
    return "×".join(map(str, shape))


class Results:
    """The rows of a file that were timed."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
        self.ranks = results["ranks"]
        self.rows = [row for row in results["rows"] if row.get("median_us")]
        self.shapes = sorted({(row["m"], row["n"], row["k"]) for row in self.rows})

    def rows_of(self, shape):
        return [row for row in self.rows if (row["m"], row["n"], row["k"]) == shape]

    def times(self, shape, what="median_us"):
        """Of each row by its name; the faster of a row and its graph."""
        times = {}
        for row in self.rows_of(shape):
            if what in row:
                name = row["implementation"]
                times[name] = min(row[what], times.get(name, MISSING))
        return times

    def judged(self, shape):
        """The times that rows which do all the work are compared by, and whether bursts are."""
        by_bursts = bursts_decide(self.rows_of(shape))
        return self.times(shape, "burst_median_us" if by_bursts else "median_us"), by_bursts

    def compared(self):
        """A Comparison for each shape that has a row `auto`."""
        for shape in self.shapes:
            times, by_bursts = self.judged(shape)
            if "auto" in times:
                best = min((us, name) for name, us in times.items() if is_whole(name))
                yield Comparison(shape, times["auto"], *best, by_bursts)

    def losses(self):
        return [each for each in self.compared() if not is_close(each.auto_us, each.best_us)]


class Limits:
    """The best rows of a shape, with their names."""

    def __init__(self, times):
        self.times = times
        self.gemm = self.best(*GEMMS)
        self.gather = self.best(*TRANSFERS)
        self.uncoupled = self.best("uncoupled")
        self.ours = self.best(*{name.split(";")[0] for name in times if "/" not in name} - PARTS)

    def best(self, *kinds):
        found = [(us, name) for name, us in self.times.items() if name.split(";")[0] in kinds]
        return min(found, default=(MISSING, "-"))


def judged_by(comparisons):
    bursts = sum(each.by_bursts for each in comparisons)
    return ("by single runs" if bursts == 0 else "by bursts" if bursts == len(comparisons) else
            f"by bursts at {bursts} and by single runs at {len(comparisons) - bursts}")


def summarise_auto(name, path):
    results = Results(path)
    compared, losses = list(results.compared()), results.losses()
    print(f"{name}: auto is within 3 % or 3 us of the best at {len(compared) - len(losses)} of "
          f"{len(compared)} shapes, {judged_by(compared)}{', but not at:' if losses else ''}")
    for loss in losses:
        print(f"  {named(loss.shape)}: {loss.auto_us:.1f} us, "
              f"{behind(loss.auto_us, loss.best_us)} behind {loss.best}")


def summarise_again(name, before, path):
    """Where `auto` lost, and whether it does again."""
    losses = Results(before).losses()
    print(f"{name}: auto lost at {len(losses)} shapes"
          f"{', ' + judged_by(losses) if losses else ''}")
    if not losses:
        return
    again = Results(path) if os.path.exists(path) else None
    print("| M×N×K | auto | the other | row | behind by, before | again | verdict |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for loss in losses:
        times = again.judged(loss.shape)[0] if again else {}
        us, best = times.get("auto"), times.get(loss.best)
        if us and best:
            verdict = "no longer behind" if is_close(us, best) else "still behind"
            columns = [f"{us:.1f}", f"{best:.1f}", loss.best, behind(loss.auto_us, loss.best_us),
                       behind(us, best), verdict]
        else:
            columns = [f"{loss.auto_us:.1f}", f"{loss.best_us:.1f}", loss.best,
                       behind(loss.auto_us, loss.best_us), "-", "not measured again"]
        print(f"| {named(loss.shape)} | {' | '.join(columns)} |")


def table(path):
    """Each shape's limits, the best row of ours, and the best of theirs."""
    results = Results(path)
    print("| M×N×K | GEMM | gather | uncoupled | Braid | E | sequential | fused | row |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for shape in results.shapes:
        limits = Limits(results.times(shape))
        gemm, gather, ours = limits.gemm, limits.gather, limits.ours
        def shown(us):
            return "-" if us == MISSING else f"{us:.0f}"
        columns = [named(shape), shown(gemm[0]), shown(gather[0]),
                   shown(limits.uncoupled[0]), shown(ours[0]),
                   f"{max(gemm[0], gather[0]) / ours[0]:.2f}",
                   shown(limits.best("torch/sequential")[0]), shown(limits.best("torch/fused")[0]),
                   ours[1]]
        print(f"| {' | '.join(columns)} |")


def summarise_predictions(folder):
    off = []
    for name in sorted(os.listdir(folder)):
        if not name.startswith("predictions_"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            found = [CANDIDATE.match(line) for line in file]
        of_shape = [(float(m[1]) / float(m[2]) - 1, name[12:-4], m[3], m[1], m[2])
                    for m in found if m]
        if of_shape:
            mean = sum(abs(each[0]) for each in of_shape) / len(of_shape)
            print(f"{name[12:-4]}: {len(of_shape)} candidates, "
                  f"off by {100 * mean:.1f} % on average")
        off += of_shape
    if off:
        mean = sum(abs(each[0]) for each in off) / len(off)
        print(f"all: {len(off)} candidates, off by {100 * mean:.1f} % on average; the worst:")
    for error, shape, candidate, predicted, measured in sorted(off, key=lambda e: -abs(e[0]))[:10]:
        print(f"  {100 * error:+.0f} %: {predicted} for {measured} us, {shape}, {candidate}")


def report(measuring, parts):
    there = [name for name in BATCHES if os.path.exists(measuring.path(name))]
    for name in there:
        if name in parts and name != "grid":
            table(measuring.path(name))
        if name in parts:
            summarise_auto(name, measuring.path(name))
    for name in there:
        if "again" in parts:
            summarise_again(name, measuring.path(name), measuring.path(f"again_{name}"))
    if "predictions" in parts:
        summarise_predictions(measuring.flags.out)
    if "power" in parts:
        summarise_power(measuring, [name for name in there if name != "grid"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("braid")
    parser.add_argument("--out", required=True, help="the folder for the results")
    parser.add_argument("--part", default="nine,two,grid,predictions,again,power")
    parser.add_argument("--time-limit", type=float, default=3600, help="seconds, for all parts")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--shapes", default=NINE, help="instead of the nine")
    parser.add_argument("--sizes", default=SIZES, help="of n and k in the grid")
    parser.add_argument("--row-sizes", default=ROW_SIZES, help="of m in the grid")
    parser.add_argument("--row-ms", type=int, default=100, help="of a row, a round")
    parser.add_argument("--warm-up-ms", type=int,
                        help="of a row, before those (default: as long as its size asks for)")
    parser.add_argument("--power-ms", type=int, default=3000, help="of each run of power")
    flags = parser.parse_args()
    known = {"nine", "two", "grid", "predictions", "again", "power"}
    parts = flags.part.split(",")
    if not set(parts) <= known:
        parser.error(f"--part: expected some of {', '.join(sorted(known))}, got '{flags.part}'")
    os.makedirs(flags.out, exist_ok=True)
    os.environ.setdefault("BRAID_CACHE_DIR", os.path.abspath(os.path.join(flags.out, "cache")))
    measuring = Measuring(flags)
    usual = measuring.effort(5, 10, 3, flags.row_ms)
    if "nine" in parts:
        measuring.bench("nine", flags.ranks, ["--shapes", flags.shapes],
                        ROWS + [UNCOUPLED] + MORE_ROWS, usual)
    if "two" in parts:
        measuring.bench("two", 2, ["--shapes", flags.shapes], ROWS + [UNCOUPLED], usual)
    if "grid" in parts:
        sizes = ["-m", flags.row_sizes, "-n", flags.sizes, "-k", flags.sizes]
        measuring.bench("grid", flags.ranks, sizes, ROWS,
                        measuring.effort(5, 6, 2, 30))
    if "predictions" in parts:
        for shape in flags.shapes.split(","):
            measuring.predict(shape)
    if "again" in parts:
        for name in BATCHES:
            measuring.again(name)
    if "power" in parts:
        measuring.power()
    report(measuring, parts)
    for text in measuring.failed:
        print(f"measure_gpus: error: {text}", file=sys.stderr)
    sys.exit(1 if measuring.failed else 0)


if __name__ == "__main__":
    main()
