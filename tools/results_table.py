#!/usr/bin/env python3
"""Prints one Markdown table of medians from what `braid bench --json` wrote.

    results_table.py nine.json [grid.json ...] > docs/results/MACHINE/OPERATION.md
    results_table.py --what burst nine.json [grid.json ...]

A line for each shape, or for a FILE, in microseconds: the GEMM alone, the transfers alone, both at
once without waiting for each other (the uncoupled bound), Braid's fastest row that does all the
work, its overlap efficiency E, its name (of `auto` with its choice), `auto`, and each rival that
does all the work. What one shape shows comes from one file: the first that has it, whose letter is
in the last column. Above the table stands what made each file. Times are those of single runs;
with --what burst those of a run where runs follow one another, by which `auto` and the verdicts of
`braid bench` judge. Needs nothing but Python.
"""
import argparse
import json
import sys

from plot_bench import TRANSFERS, GEMMS, BadFile, fastest, is_of_file, is_whole, load, shape_of

LIMITS = (("GEMM", GEMMS), ("transfers", TRANSFERS), ("uncoupled bound", {"uncoupled"}))
FLAGS = ("rounds", "iterations", "warm_up", "bursts", "row_ms", "warm_up_ms", "idle_gap_us")
# What --what says: a row's time in the JSON, and what it is.
TIMES = {"single": ("median_us", "Medians"), "burst": ("burst_median_us", "Medians of bursts")}


def best_of_braid(rows):
    """(microseconds, name) of the fastest row that does all the work; None if there is none."""
    return min(((us, name) for (name, _), us in rows.items()
                if us > 0 and is_whole(name) and "/" not in name), default=None)


def rivals_of(files):
    return sorted({name for _, by_shape in files for rows in by_shape.values()
                   for name, _ in rows if "/" in name and is_whole(name)})


def command_of(data):
    """The call that writes such a file; SHAPES stands for its shapes."""
    names = list(dict.fromkeys(row["implementation"] for row in data["rows"]))
    graphs = {row["graph"] for row in data["rows"]
              if "/" not in row["implementation"] and row["implementation"] != "auto"}
    words = ["braid bench", data["operation"], "--backend", data["backend"], "--ranks",
             str(data["ranks"])]
    if not is_of_file(data):
        words += ["--dtype", data["dtype"], "--shapes", "SHAPES"]
    if data.get("partial", data["dtype"]) != data["dtype"]:
        words += ["--partial", data["partial"]]
    if data.get("reproducible"):
        words.append("--reproducible")
    words += ["--graph", "both" if len(graphs) == 2 else "yes" if True in graphs else "no"]
    for flag in FLAGS:
        if isinstance(data.get(flag), int):
            words += ["--" + flag.replace("_", "-"), str(data[flag])]
    words += ["--against " + rival for rival in sorted({name.split("/")[0] for name in names
                                                        if "/" in name})]
    ours = [name for name in names if "/" not in name]
    lists = [",".join(name for name in ours if not of_stages(name))]
    lists += [name for name in ours if of_stages(name)]
    return " ".join(words + [f"--impl '{rows}'" for rows in lists if rows])


def of_stages(row):
    """Whether it has schedules for stages, and so is no part of a list of rows."""
    return "," in row or "=" in row.split(";")[0]


def about_call(data):
    """What a call leaves out."""
    if is_of_file(data):
        return "Calls leave out what flags say about lowering."
    return "SHAPES are the shapes of the table."


def driver_of(data):
    """The driver's version where the bench could ask for it; `device` names the rest."""
    for batch in data.get("batches", []):
        for gpu in batch.get("gpus_before") or []:
            return f", driver {gpu['driver']}"
    return ""


def machine_of(data):
    rivals = sorted({batch["rival"] for batch in data.get("batches", []) if batch.get("rival")})
    return (f"{data['ranks']} x {data.get('device') or data['backend']}{driver_of(data)}"
            + "".join(f"; rivals: {rival}" for rival in rivals))


def head_of(letter, data, first):
    """What made a file, and the call that does so again. `first`: the first file's."""
    machine, call = machine_of(data), command_of(data)
    if data is not first and machine == machine_of(first):
        machine = "likewise"
    flags, before = call.split(" --"), command_of(first).split(" --")
    other = [flag for flag in flags if flag not in before]
    names, names_before = ([flag.split()[0] for flag in each] for each in (flags, before))
    is_like = flags[0] == before[0] and names == names_before and len(names) == len(set(names))
    if data is not first and is_like:
        machine += ", by A's command" + " with" * bool(other)
        call = " ".join("--" + flag for flag in other)
    return [f"{letter}: {data.get('date', 'no date')[:10]}, commit {data.get('commit', 'unknown')}"
            f", {machine}", ""] + ([f"    {call}", ""] if call else [])


def shown(us):
    return "-" if us is None else f"{us:.0f}" if us >= 100 else f"{us:.1f}"


def line(shape, rows, rivals, letter, choice):
    limits = [fastest(rows, names) for _, names in LIMITS]
    best_us, best = best_of_braid(rows) or (None, "-")
    best = f"auto:{choice}" if best == "auto" and choice else best
    efficiency = f"{max(limits[:2]) / best_us:.2f}" if best_us and None not in limits[:2] else "-"
    name = "×".join(map(str, shape)) or "FILE"
    return "|".join(["", name, *map(shown, limits), shown(best_us), efficiency, f"`{best}`",
                     shown(fastest(rows, {"auto"})),
                     *(shown(fastest(rows, {rival})) for rival in rivals), letter, ""])


def table(files):
    """`files`: of each file its JSON, and its rows by shape."""
    rivals, chosen = rivals_of(files), {}
    for index, (data, by_shape) in enumerate(files):
        choices = {shape_of(row, data): row["choice"]
                   for row in data["rows"]
                   if row.get("choice") and row["implementation"] == "auto"}
        for shape, rows in by_shape.items():
            chosen.setdefault(shape, (rows, rivals, chr(ord("A") + index), choices.get(shape)))
    titles = ["M×N×K", *(title for title, _ in LIMITS), "Braid", "E", "row of Braid", "`auto`",
              *(f"`{rival}`" for rival in rivals), "from"]
    return ["|".join(["", *titles, ""]), "|---" * len(titles) + "|",
            *(line(shape, *chosen[shape]) for shape in sorted(chosen))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("--what", choices=TIMES, default="single",
                        help="single runs (default), or runs in bursts")
    flags = parser.parse_args()
    time, title = TIMES[flags.what]
    try:
        load(flags.files, time)  # all are of one operation and machine
        files = []
        for path in flags.files:
            with open(path, encoding="utf-8") as file:
                files.append((json.load(file), load([path], time)[0]))
        first = files[0][0]
        lines = [f"# {first['operation']}, {first['dtype']}, {first['ranks']} ranks", "",
                 f"{title} in microseconds. " + about_call(first), ""]
        for index, (data, _) in enumerate(files):
            lines += head_of(chr(ord("A") + index), data, first)
        print("\n".join(lines + table(files)))
    except (BadFile, OSError) as error:
        print(f"results_table: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
