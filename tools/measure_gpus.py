#!/usr/bin/env python3
"""Measures everything that README.md and docs/ say of gather+matmul on GPUs, in pieces.

    measure_gpus.py build/release/bin/braid --out docs/results/h200 \\
        [--commit 1a2b3c4] [--part nine,two,grid,predictions] [--time-limit 500]

    nine         nine shapes on 4 ranks, every row in turns with PyTorch's    DIR/nine.json
    two          the same on 2 ranks                                           DIR/two.json
    grid         m, n and k of 512, 1024, 2048, 8192 and 16384                 DIR/grid.json
    predictions  every candidate of `--schedule auto`, predicted and timed     DIR/predictions_*.txt

It goes on where an earlier call has ended: what is complete is not measured again. Ends with a
table of the shapes, and with how far predictions were off. Exit code 1 if something failed.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NINE = ("1024x1024x1024,2048x2048x2048,4096x4096x4096,8192x3584x4096,8192x7168x8192,"
        "8192x8192x8192,16384x1024x16384,16384x16384x16384,32768x8192x16384")
SIZES = "512,1024,2048,8192,16384"
SHARED = "pairwise;protocol=put;transfers=shared;signals=memory"
DOUBLING = "doubling;protocol=put;signals=memory"
ROWS = ["matmul", "gather;transfers=shared;protocol=put;copies=kernel",
        "gather;transfers=shared;protocol=put;signals=memory", "none;protocol=put;copies=kernel",
        "fused;protocol=put;copies=kernel", SHARED, DOUBLING, "auto"]
# Worth their time at nine shapes only.
MORE_ROWS = [f"{SHARED};chunks=2", f"{SHARED};taper=4", f"{DOUBLING};streams=3",
             "pairwise;protocol=put;chunks=4;taper=2", "pairwise;protocol=put"]
MISSING = float("inf")
CANDIDATE = re.compile(r"^ +([0-9.]+) +([0-9.]+) +[-+]\d+ % +(\S+)")


class Measuring:
    def __init__(self, flags):
        self.flags, self.begin, self.failed = flags, time.monotonic(), []

    def left(self):
        return self.flags.time_limit - (time.monotonic() - self.begin)

    def bench(self, name, ranks, shapes, rows, effort):
        """A batch in the file of that name, as far as there is time."""
        if self.left() < 10:
            return print(f"{name}: no time left", flush=True)
        flags = self.flags
        if flags.backend == "cpu":
            rows = list(dict.fromkeys(re.sub(";(copies|signals)=[a-z]+", "", row) for row in rows))
        arguments = [flags.braid, "bench", "gather-matmul", "--backend", flags.backend, "--ranks",
                     str(ranks), "--impl", ",".join(rows), "--resume", "--json",
                     os.path.join(flags.out, f"{name}.json"),
                     "--time-limit", str(int(self.left())), "--timeout-ms", "20000",
                     "--label", f"commit={flags.commit}"] + shapes + effort
        if flags.backend != "cpu":
            arguments += ["--graph", "yes", "--against", "torch", "--python", flags.python]
        code = subprocess.run(arguments, check=False).returncode
        if code != 0:
            self.failed.append(f"{name}: exit code {code} of {' '.join(arguments)}")

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


def table(path):
    """Each shape's limits, the best row of ours, and the best of theirs."""
    with open(path, encoding="utf-8") as file:
        rows = [row for row in json.load(file)["rows"] if row.get("median_us")]
    shapes = sorted({(row["m"], row["n"], row["k"]) for row in rows})
    print("| M×N×K | product | gather | Braid | E | sequential | fused | row |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |")
    for shape in shapes:
        times = {}
        for row in rows:
            if (row["m"], row["n"], row["k"]) == shape:
                times.setdefault(row["implementation"], []).append(row["median_us"])

        def best(*kinds, of=times):
            found = [(min(us), name) for name, us in of.items() if name.split(";")[0] in kinds]
            return min(found, default=(MISSING, "-"))
        product, gather = best("matmul", "torch/matmul"), best("gather", "torch/gather",
                                                               "torch/gather_copy")
        ours = best("auto", "pairwise", "doubling", "hop", "burst", "fused", "none")
        def shown(us):
            return "-" if us == MISSING else f"{us:.0f}"
        columns = ["×".join(map(str, shape)), shown(product[0]), shown(gather[0]), shown(ours[0]),
                   f"{max(product[0], gather[0]) / ours[0]:.2f}",
                   shown(best("torch/sequential")[0]), shown(best("torch/fused")[0]), ours[1]]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("braid")
    parser.add_argument("--out", required=True, help="the folder for the results")
    parser.add_argument("--part", default="nine,two,grid,predictions")
    parser.add_argument("--time-limit", type=float, default=3600, help="seconds, for all parts")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--shapes", default=NINE, help="instead of the nine")
    parser.add_argument("--row-ms", type=int, default=100, help="of a row, a round")
    flags = parser.parse_args()
    known = {"nine", "two", "grid", "predictions"}
    parts = flags.part.split(",")
    if not set(parts) <= known:
        parser.error(f"--part: expected some of {', '.join(sorted(known))}, got '{flags.part}'")
    os.makedirs(flags.out, exist_ok=True)
    measuring = Measuring(flags)
    effort = ["--rounds", "5", "--iterations", "10", "--warm-up", "3",
              "--row-ms", str(flags.row_ms)]
    if "nine" in parts:
        measuring.bench("nine", flags.ranks, ["--shapes", flags.shapes], ROWS + MORE_ROWS, effort)
    if "two" in parts:
        measuring.bench("two", 2, ["--shapes", flags.shapes], ROWS, effort)
    if "grid" in parts:
        measuring.bench("grid", flags.ranks, ["-m", SIZES, "-n", SIZES, "-k", SIZES], ROWS,
                        ["--rounds", "5", "--iterations", "6", "--warm-up", "2", "--row-ms", "30"])
    if "predictions" in parts:
        for shape in flags.shapes.split(","):
            measuring.predict(shape)
    for name in ("nine", "two"):
        path = os.path.join(flags.out, f"{name}.json")
        if name in parts and os.path.exists(path):
            table(path)
    if "predictions" in parts:
        summarise_predictions(flags.out)
    for text in measuring.failed:
        print(f"measure_gpus: error: {text}", file=sys.stderr)
    sys.exit(1 if measuring.failed else 0)


if __name__ == "__main__":
    main()
