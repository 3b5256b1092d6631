#!/usr/bin/env python3
"""lanes.py BRAID OUT.svg: draws rank 0's commands in an MLP layer, without and with overlap.

`braid view` predicts the times on 4 H200 GPUs. Each lane shows one stream."""
import html
import json
import re
import subprocess
import sys

FILE = "examples/mlp.braid"
SIZES = "--ranks 4 --set M=8192 --set K=4096 --set F=16384 --set N=4096".split()
PANELS = [("One after the other", "sequential"),
          ("Overlapped by Braid", "pairwise;placement=shared;chunks=2")]
# The command kinds to draw, keyed by their numbers in the page. Signals and waits are negligible.
KINDS = {0: ("GEMM", "#3b6fd4"), 1: ("copy", "#e8903a"), 2: ("sum, activation", "#4da35a")}
WIDTH, LEFT, LANE, GAP = 920, 10, 18, 34


def page_of(braid, schedule):
    page = subprocess.run([braid, "view", FILE, *SIZES, "--schedule", schedule], check=True,
                          stdout=subprocess.PIPE, encoding="utf-8").stdout
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


def main():
    braid, out = sys.argv[1:]
    pages = [(title, page_of(braid, schedule)) for title, schedule in PANELS]
    scale = (WIDTH - 2 * LEFT) / max(data["timings"][0]["total"] for _, data in pages)
    parts, bottom = [], 0
    for title, data in pages:
        bars, top = list(bars_of(data)), bottom + GAP
        streams = sorted({stream for stream, *_ in bars})
        bottom = top + LANE * len(streams)
        parts.append(text(LEFT, top - 10, f'{title}: {data["timings"][0]["total"]:.0f} µs'))
        parts += [rectangle(LEFT + begin * scale, top + LANE * streams.index(stream),
                            max((end - begin) * scale - 1, 1), LANE - 4, KINDS[kind][1])
                  for stream, kind, begin, end in bars]
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
