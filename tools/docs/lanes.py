#!/usr/bin/env python3
"""lanes.py BRAID OUT.svg: draws rank 0's commands in an MLP layer, without and with overlap.

`braid view` predicts the times for 4 H200 GPUs. Each lane is a stream."""
import html
import json
import os
import re
import subprocess
import sys
import tempfile

FILE = "examples/mlp.braid"
SIZES = "--ranks 4 --set M=8192 --set K=4096 --set F=16384 --set N=4096".split()
PANELS = [("One after the other", "sequential"),
          ("Overlapped by Braid", "pairwise;placement=shared;chunks=2")]
# The command kinds to draw, keyed by their numbers in the page. Signals and waits are negligible.
KINDS = {0: ("GEMM", "#3b6fd4"), 1: ("copy", "#e8903a"), 2: ("sum, activation", "#4da35a")}
WIDTH, LEFT, LANE, GAP = 920, 10, 18, 34


def page_of(braid, schedule):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "page.html")
        subprocess.run([braid, "view", FILE, *SIZES, "--schedule", schedule, "--out", out],
                       check=True)
        with open(out, encoding="utf-8") as file:
            page = file.read()
    return json.loads(re.search(r'<script[^>]*id="?data"?[^>]*>(.*?)</script>', page, re.S)[1])


def bars_of(data):
    """Yields the stream, kind, begin and end of each command of a kind in KINDS."""
    spans = data["timings"][0]["spans"][0]
    for i, (kind, stream, *_) in enumerate(data["ranks"][0]["commands"]):
        if kind in KINDS:
            yield stream, kind, spans[2 * i], spans[2 * i + 1]


def rectangle(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def text(x, y, words):
    return f'<text x="{x}" y="{y}">{html.escape(words)}</text>'


def panel(title, data, scale, top):
    bars = list(bars_of(data))
    lanes = {stream: i for i, stream in enumerate(sorted({bar[0] for bar in bars}))}
    bottom = top + GAP + LANE * len(lanes)
    parts = [text(LEFT, top + GAP - 10, f'{title}: {data["timings"][0]["total"]:.0f} µs')]
    for stream, kind, begin, end in bars:
        parts.append(rectangle(LEFT + begin * scale, top + GAP + LANE * lanes[stream],
                               max((end - begin) * scale - 1, 1), LANE - 4, KINDS[kind][1]))
    return parts, bottom


def main():
    braid, out = sys.argv[1:]
    pages = [(title, page_of(braid, schedule)) for title, schedule in PANELS]
    scale = (WIDTH - 2 * LEFT) / max(data["timings"][0]["total"] for _, data in pages)
    parts, bottom = [], 0
    for title, data in pages:
        drawn, bottom = panel(title, data, scale, bottom)
        parts += drawn
    for i, (name, colour) in enumerate(KINDS.values()):
        parts += [rectangle(LEFT + 160 * i, bottom + 16, 12, 12, colour),
                  text(LEFT + 18 + 160 * i, bottom + 27, name)]
    with open(out, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 40}" '
                   'font-family="sans-serif" font-size="14">\n'
                   + rectangle(0, 0, WIDTH, bottom + 40, "#fff") + "\n"
                   + "\n".join(parts) + "\n</svg>\n")


if __name__ == "__main__":
    main()
