#!/usr/bin/env python3
"""Compares what a machine file predicts with what `braid bench` measured.

    compare_predictions.py LOG [LOG ...] --machine h100-2

A LOG holds the tables of candidates that `braid bench OPERATION --impl auto` writes to
standard error, before the lines that name their shape. Or it is what --json writes (*.json):
its rows that are schedules are taken as candidates. For every operation and shape it prints
how many candidates were timed; the mean error of single runs and of bursts; the error of the
candidate that was the fastest; and what the one that is predicted to be the fastest loses to it.
What counts as measured is the burst where the log has one, else the single run.

With --each, every candidate has a line: predicted and measured, single runs and bursts.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# The fusions that the benchmark times; M x N x K of a rank.
FUSIONS = {
    "gather_matmul": """fusion @gather_matmul(D = {D}) {{
  mesh [0 .. D)
  %A = input bf16[DIDx{{D}}, {rows}, {K}]
  %B = input bf16[{K}, {N}]
  %C = matmul %A, %B : bf16[Stream{{D}}, {rows}, {N}]
  output %C
}}
""",
    "matmul_reduce_scatter": """fusion @matmul_reduce_scatter(D = {D}) {{
  mesh [0 .. D)
  %A = input bf16[D, {rows}, DIDx{{D}}, {K}]
  %B = input bf16[DIDx{{D}}, {K}, {N}]
  %C = matmul %A, %B partial bf16 : bf16[DIDx{{D}}, {rows}, {N}]
  output %C
}}
""",
    "matmul_all_reduce": """fusion @matmul_all_reduce(D = {D}) {{
  mesh [0 .. D)
  %A = input bf16[{M}, DIDx{{D}}, {K}]
  %B = input bf16[DIDx{{D}}, {K}, {N}]
  %C = matmul %A, %B partial bf16 : bf16[{M}, {N}]
  output %C
}}
""",
}

PRESETS = ("pairwise", "ring", "sequential", "batched", "bulk", "coalesced", "hierarchical",
           "collective")  # fmt: skip

TITLE = re.compile(r"auto: \d+ candidates for @(\w+) on (\d+) ranks")
SHAPE = re.compile(r"braid: (\d+) x (\d+) x (\d+): round")
HEAD = re.compile(r"\s+predicted\s+(\w+)\s+error(?:\s+(\w+))?  candidate")
ROW = re.compile(r"\s+[\d.]+\s+([\d.]+)\s+[+-]\d+ %(?:\s+([\d.]+))?  (\S+)")


class Table:
    """What was measured of one shape: {schedule: (single, burst or None)} in microseconds."""

    def __init__(self, operation, ranks):
        self.operation, self.ranks, self.shape, self.times = operation, ranks, None, {}
        self.columns = ()

    def is_beside(self, other):
        """Whether both may be of one shape; what was broken off before it was named is not."""
        return (self.operation, self.ranks) == (other.operation, other.ranks)

    def add(self, line):
        if match := HEAD.match(line):
            self.columns = match.groups()
        elif match := ROW.match(line):
            cells = dict(zip(self.columns, match.groups()))
            single = cells.get("single") or cells.get("measured")  # by older logs
            burst = cells.get("burst")
            self.times[match[3]] = (float(single), float(burst) if burst else None)


def read_rows(path):
    """The tables of a file of --json, one a shape."""
    results = json.loads(pathlib.Path(path).read_text())
    for key in ("dtype", "partial"):
        if results.get(key, "bf16") != "bf16":
            raise ValueError(f"expected {key} bf16, got {results[key]}")
    if results.get("fingerprint"):
        raise ValueError("expected results of an operation, got those of a FILE")
    tables = {}
    for row in results["rows"]:
        schedule = row.get("choice", row["implementation"])
        if "median_us" not in row or re.split("[:;]", schedule)[0] not in PRESETS:
            continue
        if "launch=" not in schedule:
            schedule += ";launch=" + ("graph" if row["graph"] else "eager")
        shape = (row["m"], row["n"], row["k"])
        if row["m"] % results["ranks"] != 0:
            continue  # of blocks that differ, nothing is predicted here
        table = tables.setdefault(shape, Table(results["operation"].replace("-", "_"),
                                               results["ranks"]))  # fmt: skip
        table.shape = shape
        table.times[schedule] = (row["median_us"], row.get("burst_median_us"))
    return tables.values()


def read_tables(path):
    if str(path).endswith(".json"):
        return [table for table in read_rows(path) if table.operation in FUSIONS]
    tables = []
    for line in pathlib.Path(path).read_text(errors="replace").splitlines():
        if match := TITLE.search(line):
            begun = Table(match[1], int(match[2]))
            tables = [table for table in tables if table.shape or table.is_beside(begun)]
            tables.append(begun)
        elif not tables or tables[-1].shape:
            continue
        elif match := SHAPE.match(line):
            for table in tables:  # several rows may choose for themselves
                table.shape = table.shape or tuple(int(match[i]) for i in (1, 2, 3))
        else:
            tables[-1].add(line)
    return [table for table in tables if table.shape and table.operation in FUSIONS]


def read_all(paths):
    """With its path, each table of all files; ends the program where one is no such file."""
    tables = []
    for path in paths:
        try:
            tables += [(path, table) for table in read_tables(path)]
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"compare_predictions: error: {path}: {error}", file=sys.stderr)
            sys.exit(2)
    return tables


def predict(table, braid, machine):
    """{schedule: (single, burst)} of those that can be predicted."""
    m, n, k = table.shape
    text = FUSIONS[table.operation].format(
        D=table.ranks, M=m, N=n, K=k, rows=m // table.ranks
    )
    with tempfile.TemporaryDirectory() as folder:
        fusion, schedules = pathlib.Path(folder, "fusion.braid"), pathlib.Path(folder, "schedules")
        fusion.write_text(text)
        schedules.write_text("".join(schedule + "\n" for schedule in table.times))
        command = [braid, "simulate", fusion, "--ranks", table.ranks, "--machine", machine]
        command += ["--schedules", schedules, "--json"]
        run = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE)
    if run.returncode != 0:
        sys.exit(run.returncode)
    rows = json.loads(run.stdout)["predictions"]
    for row in rows:
        if "error" in row:
            print(f"{row['schedule']}: {row['error']}", file=sys.stderr)
    return {row["schedule"]: (row["us"], row.get("burst_us")) for row in rows if "us" in row}


def mean(values):
    return sum(values) / len(values) if values else None


class Comparison:
    """Of one table: errors are parts of what was measured."""

    def __init__(self, table, predicted):
        self.table, self.predicted = table, predicted
        times = {name: each for name, each in table.times.items() if name in predicted}
        self.singles = self.errors(times, 0)
        self.bursts = self.errors(times, 1)
        kind = 1 if self.bursts else 0
        best = min(times, key=lambda name: times[name][kind])
        believed = min(times, key=lambda name: predicted[name][kind])
        self.chosen = predicted[best][kind] / times[best][kind] - 1
        self.loss = times[believed][kind] / times[best][kind] - 1

    def errors(self, times, kind):
        return [
            self.predicted[name][kind] / each[kind] - 1
            for name, each in times.items()
            if each[kind] and self.predicted[name][kind]
        ]

    def show_each(self):
        print(f"  {'single':>17}  {'error':>5}  {'burst':>17}  {'error':>5}  predicted, measured")
        for name, measured in self.table.times.items():
            if name not in self.predicted:
                continue
            cells = [self.cell(*pair) for pair in zip(self.predicted[name], measured)]
            print(f"  {'  '.join(cells)}  {name}")

    @staticmethod
    def cell(predicted, measured):
        if not predicted or not measured:
            return f"{'-':>17}  {'-':>5}"
        return f"{predicted:8.1f} {measured:8.1f}  {100 * (predicted / measured - 1):+4.0f}%"


def percent(value, sign=""):
    return f"{'-':>7}" if value is None else f"{100 * value:{sign}6.1f}%"


def line(name, count, singles, bursts, chosen, loss):
    numbers = [percent(mean([abs(e) for e in errors])) for errors in (singles, bursts)]
    cells = numbers + [percent(chosen, "+"), percent(loss)]
    print(f"{name:<42}{count:>6}  {'  '.join(cells)}")


def total(operation, comparisons):
    singles = [error for each in comparisons for error in each.singles]
    bursts = [error for each in comparisons for error in each.bursts]
    worst = max((each.chosen for each in comparisons), key=abs)
    line(operation, len(singles), singles, bursts, worst, mean([each.loss for each in comparisons]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--machine", required=True, help="a name, or the file of a cost model")
    parser.add_argument("--braid", help="the command (default: that of build/release)")
    parser.add_argument("--each", action="store_true", help="a line for each candidate, too")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    braid = options.braid or root / "build/release/bin/braid"
    tables = read_all(options.logs)
    if not tables:
        sys.exit("compare_predictions: expected tables of candidates with their shapes, got none")
    print(f"{'':<42}{'timed':>6}  {'single':>7}  {'burst':>7}  {'fastest':>7}  {'loss':>7}")
    by_operation = {}
    for path, table in tables:
        predicted = predict(table, braid, options.machine)
        if not predicted:
            continue
        comparison = Comparison(table, predicted)
        by_operation.setdefault(table.operation, []).append(comparison)
        shape = " x ".join(str(size) for size in table.shape)
        name = f"{table.operation.replace('_', '-')} {shape}"
        line(name, len(comparison.singles), comparison.singles, comparison.bursts,
             comparison.chosen, comparison.loss)  # fmt: skip
        if options.each:
            comparison.show_each()
    print("in all; of the fastest the worst, of losses the mean:")
    for operation, comparisons in by_operation.items():
        total(operation.replace("_", "-"), comparisons)
    if len(by_operation) > 1:
        total("all operations", [each for some in by_operation.values() for each in some])


if __name__ == "__main__":
    main()
