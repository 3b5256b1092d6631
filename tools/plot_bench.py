#!/usr/bin/env python3
"""Draws what `braid bench OPERATION --json` measured over a grid of shapes, as an SVG.

    plot_bench.py grid.json [more.json ...] --out grid.svg [--row auto]

Above, E of one row: the larger of the two limits over its time. Below, its speed-up over the
fastest of one after the other. A map for each n, with m downwards and k to the right; the one cell
of a FILE has none of these. A shape whose rows are in several files is drawn from the last one that
has each row. Needs nothing but Python.
"""
import argparse
import html
import json
import statistics
import sys

# The rows of all operations, and of a FILE.
GEMMS = {"matmul", "gemm", "gemms", "torch/matmul", "torch/gemm", "torch/gemms"}
TRANSFERS = {"gather", "scatter", "reduce", "transfers", "torch/gather", "torch/gather_copy",
             "torch/scatter", "torch/reduce", "torch/reduce_one_shot", "torch/reduce_two_shot"}
SEQUENTIAL = {"sequential", "torch/sequential", "torch/sequential_one_shot",
              "torch/sequential_two_shot"}
PARTS = GEMMS | TRANSFERS | {"chunked", "pieces", "uncoupled"}  # not all the work; `pieces`: once
# Or the files do not belong together.
SAME = ("operation", "fingerprint", "dtype", "partial", "reproducible", "ranks", "backend",
        "device")
TITLES = {"gather-matmul": "AllGather + matmul", "matmul-reduce-scatter": "matmul + ReduceScatter",
          "matmul-all-reduce": "matmul + AllReduce", "mlp": "MLP"}

NO_EXTENT = ""  # of a FILE
CELL_WIDTH, CELL_HEIGHT, GAP, LEFT, TOP = 46, 30, 34, 76, 78
FONT = "font-family='Helvetica, Arial, sans-serif'"
# From bad to good, each with the value where it is reached.
E_COLOURS = [(0.0, (178, 24, 43)), (0.5, (244, 165, 130)), (0.75, (247, 247, 247)),
             (0.9, (146, 197, 222)), (1.0, (33, 102, 172))]
SPEED_COLOURS = [(0.5, (178, 24, 43)), (0.9, (244, 165, 130)), (1.0, (247, 247, 247)),
                 (1.25, (146, 197, 222)), (1.8, (33, 102, 172))]


class BadFile(Exception):
    """The text says what was expected and what came."""


def is_of_file(data):
    """True for results of a FILE, whose one shape is ()."""
    return bool(data.get("fingerprint"))


def shape_of(row, data):
    return () if is_of_file(data) else (row["m"], row["n"], row["k"])


def is_whole(name):
    """True for a row that does all the work."""
    return name.split(";")[0] not in PARTS


def bursts_decide(rows):
    """As ShapeSummary::isByBursts says, of the rows of one shape in a file that were timed."""
    return all("burst_median_us" in row for row in rows if is_whole(row["implementation"]))


def load(paths, what="median_us"):
    """The rows of all files by shape, name and graph; and what the files have in common. `what`:
    which of a row's times."""
    rows, common = {}, None
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            about = {key: data.get(key) for key in SAME}
            for row in data["rows"]:
                if what in row:
                    shape = shape_of(row, data)
                    key = (row["implementation"], row["graph"])
                    rows.setdefault(shape, {})[key] = float(row[what])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadFile(f"{path}: expected results of braid bench, got {error!r}") from error
        if common is None:
            common = about
        for key in SAME:
            if about[key] != common[key]:
                raise BadFile(f"{path}: expected {key} to be {common[key]!r} as in {paths[0]}, "
                              f"got {about[key]!r}")
    if not rows:
        kind = "timed" if what == "median_us" else "timed in bursts"
        raise BadFile(f"expected rows that were {kind}, got none")
    return rows, common


def fastest(rows, names):
    """Microseconds, or None; a name counts with all its options."""
    times = [us for (name, _), us in rows.items() if name.split(";")[0] in names and us > 0]
    return min(times, default=None)


def wanted_time(rows, wanted):
    """Of the row `wanted`, eager or as a graph; `best`: of all of ours that do all the work."""
    if wanted == "best":
        times = [us for (name, _), us in rows.items()
                 if us > 0 and is_whole(name) and not name.startswith("torch/")]
    else:
        times = [us for (name, _), us in rows.items() if us > 0 and name == wanted]
    return min(times, default=None)


def efficiency(rows, wanted):
    time = wanted_time(rows, wanted)
    limits = fastest(rows, GEMMS), fastest(rows, TRANSFERS)
    return max(limits) / time if time and None not in limits else None


def speed_up(rows, wanted):
    time, sequential = wanted_time(rows, wanted), fastest(rows, SEQUENTIAL)
    return sequential / time if time and sequential else None


def colour(value, stops):
    if value <= stops[0][0]:
        return stops[0][1]
    for (low, dark), (high, light) in zip(stops, stops[1:]):
        if value <= high:
            part = (value - low) / (high - low)
            return tuple(round(a + (b - a) * part) for a, b in zip(dark, light))
    return stops[-1][1]


def text(x, y, content, size=12, anchor="middle", fill="#222", weight="normal"):
    return (f"<text x='{x:g}' y='{y:g}' font-size='{size}' text-anchor='{anchor}' fill='{fill}' "
            f"font-weight='{weight}' {FONT}>{html.escape(content)}</text>")


def cell(x, y, value, stops, about):
    if value is None:
        return [f"<rect x='{x}' y='{y}' width='{CELL_WIDTH}' height='{CELL_HEIGHT}' fill='#eee'/>"]
    red, green, blue = colour(value, stops)
    is_dark = 0.3 * red + 0.6 * green + 0.1 * blue < 130
    return [f"<rect x='{x}' y='{y}' width='{CELL_WIDTH}' height='{CELL_HEIGHT}' "
            f"fill='rgb({red},{green},{blue})'><title>{html.escape(about)}</title></rect>",
            text(x + CELL_WIDTH / 2, y + CELL_HEIGHT / 2 + 4, f"{value:.2f}", 12,
                 fill="#fff" if is_dark else "#222")]


def panel(left, top, n, ms, ks, values, stops, is_first):
    """One map. `values` by (m, k)."""
    title = "" if n == NO_EXTENT else f"n = {n}"
    parts = [text(left + len(ks) * CELL_WIDTH / 2, top - 20, title, 12, weight="bold")]
    for column, k in enumerate(ks):
        parts.append(text(left + (column + 0.5) * CELL_WIDTH, top - 5, str(k), 10, fill="#555"))
    for line, m in enumerate(ms):
        y = top + line * CELL_HEIGHT
        if is_first:
            parts.append(text(left - 6, y + CELL_HEIGHT / 2 + 4, str(m), 10, "end", "#555"))
        for column, k in enumerate(ks):
            value = values.get((m, k))
            about = f"{value:.3f}" if value is not None else ""
            about = about if n == NO_EXTENT else f"{m} x {n} x {k}: {about}"
            parts += cell(left + column * CELL_WIDTH, y, value, stops, about)
    return parts


def band(top, title, grid, values, stops):
    """All maps of one quantity, side by side; `values` by shape."""
    ms, ns, ks = grid
    parts = [text(LEFT, top - 42, title, 14, "start", weight="bold")]
    if ns != [NO_EXTENT]:
        parts.append(text(LEFT - 30, top - 5, "m \\ k", 10, "end", "#555"))
    for index, n in enumerate(ns):
        left = LEFT + index * (len(ks) * CELL_WIDTH + GAP)
        of_n = {(m, k): value for (m, each, k), value in values.items() if each == n}
        parts += panel(left, top, n, ms, ks, of_n, stops, index == 0)
    return parts


def summary(values):
    present = [value for value in values.values() if value is not None]
    if not present:
        return "no shape has all rows that it takes"
    return (f"median {statistics.median(present):.2f}, least {min(present):.2f}, "
            f"{len(present)} shapes")


def draw(rows, common, wanted):
    rows = {shape or (NO_EXTENT,) * 3: each for shape, each in rows.items()}
    grid = tuple(sorted({shape[i] for shape in rows}) for i in range(3))
    e = {shape: efficiency(each, wanted) for shape, each in rows.items()}
    speed = {shape: speed_up(each, wanted) for shape, each in rows.items()}
    width = LEFT + len(grid[1]) * (len(grid[2]) * CELL_WIDTH + GAP) + 10
    height_of_band = len(grid[0]) * CELL_HEIGHT + 84
    first, second = TOP + 34, TOP + 34 + height_of_band
    device = str(common["device"] or common["backend"]).split(",")[0]
    about = f"{common['ranks']} x {device}, {common['dtype']}; row: {wanted}"
    title = TITLES.get(common["operation"], str(common["operation"]))
    parts = [text(LEFT, 26, title, 17, "start", weight="bold"),
             text(LEFT, 45, about, 12, "start", "#555")]
    parts += band(first, f"E, limit over time: {summary(e)}", grid, e, E_COLOURS)
    parts += band(second, f"Speed-up over one after the other: {summary(speed)}", grid, speed,
                  SPEED_COLOURS)
    height = second + height_of_band - 60
    width = max(width, 640)
    return "\n".join([
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
        f"viewBox='0 0 {width} {height}'>",
        f"<rect width='{width}' height='{height}' fill='#fff'/>", *parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description="Draws the results of braid bench as an SVG.")
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("--out", required=True, metavar="OUT.svg")
    parser.add_argument("--row", help="which row, as --impl names it, or `best` of ours "
                                      "(default: auto where there is one, else best)")
    args = parser.parse_args()
    try:
        rows, common = load(args.files)
        has_auto = any(name == "auto" for each in rows.values() for name, _ in each)
        wanted = args.row or ("auto" if has_auto else "best")
        if all(wanted_time(each, wanted) is None for each in rows.values()):
            raise BadFile(f"--row {wanted}: expected a row that was timed, got none")
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(draw(rows, common, wanted))
    except (BadFile, OSError) as error:
        print(f"plot_bench: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
