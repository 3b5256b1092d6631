"""cuts.py MxNxK ROWS+ROWS,... [WAYS]: what cutting a product of bf16 into rows costs in PyTorch, alone.

Made cuts.txt, cuts_priorities.txt and gaps.txt on H200, before it was tidied, a shape on each GPU.
Every line is a product that is replayed as a graph: whole, in four, as `doubling` has it on four
ranks (a quarter, a quarter and a half), or with other rows for all but the last; "~" instead of "+",
also behind the rows, is a rest of 14 to 20 us before the next piece, as if its rows were not here
yet. Of the WAYS "1" is one stream, "2" two in turns, "own" each piece on a stream of its own, and
"priority" the same where earlier pieces have the higher priority. Each round replays it for 0.1 s to
settle and 0.1 s that count, with 30 us between two replays; the time is the median of four rounds'
medians, which follow it.
"""
import re
import statistics
import sys

import torch

ROUNDS, SETTLED_S, REST_CYCLES, GAP_CYCLES = 4, 0.12, 60000, 28000
m, n, k = map(int, sys.argv[1].split("x"))
quarter = m // 4


def pieces_of(text):
    """(rests before it, rows) of each, the last one with the rows that are left."""
    pieces = [(sign == "~", int(rows)) for sign, rows in re.findall(r"([+~]?)([0-9]+)", text)]
    return pieces + [(text.endswith("~"), m - sum(rows for _, rows in pieces))]


WAYS = {"whole/1": ([(False, m)], "1")}
for streams in (sys.argv[3] if len(sys.argv) > 3 else "1,2,own,priority").split(","):
    WAYS[f"quarters/{streams}"] = ([(False, quarter)] * 4, streams)
    WAYS[f"doubling/{streams}"] = (pieces_of(f"{quarter}+{quarter}"), streams)
    for text in sys.argv[2].split(","):
        WAYS[f"{text}/{streams}"] = (pieces_of(text), streams)


def uniform(*shape):
    return torch.rand(*shape, device="cuda").mul_(2).sub_(1).bfloat16()


a, b, c = uniform(m, k), uniform(k, n), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
EQUAL = [torch.cuda.Stream() for _ in range(4)]
RANKED = [torch.cuda.Stream(priority=-3 + number) for number in range(4)]


def stream_of(number, main, streams):
    if streams == "1":
        return main
    if streams == "2":
        return EQUAL[0] if number % 2 else main
    return (RANKED if streams == "priority" else EQUAL)[number]


def multiply(pieces, streams):
    main = torch.cuda.current_stream()
    used = [stream_of(number, main, streams) for number in range(len(pieces))]
    for each in used:
        each.wait_stream(main)
    begin = 0
    for (rests, rows), stream in zip(pieces, used):
        with torch.cuda.stream(stream):
            if rests:
                torch.cuda._sleep(GAP_CYCLES)
            torch.mm(a[begin:begin + rows], b, out=c[begin:begin + rows])
        begin += rows
    for each in used:
        main.wait_stream(each)


def captured(pieces, streams):
    with torch.cuda.stream(torch.cuda.Stream()):
        multiply(pieces, streams)  # loads the kernels
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        multiply(pieces, streams)
    return graph


def replay(graph, times):
    """Microseconds of each."""
    events = []
    for _ in range(times):
        torch.cuda._sleep(REST_CYCLES)
        pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        pair[0].record()
        graph.replay()
        pair[1].record()
        events.append(pair)
    torch.cuda.synchronize()
    return [1e3 * begin.elapsed_time(end) for begin, end in events]


def main():
    graphs = {name: captured(*way) for name, way in WAYS.items()}
    times = max(8, int(SETTLED_S / (2 * m * n * k / 7e14)))
    medians = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            replay(graph, times)
            medians[name].append(statistics.median(replay(graph, times)))
    whole = statistics.median(medians["whole/1"])
    for name, each in medians.items():
        us = statistics.median(each)
        rounds = " ".join(f"{time:.0f}" for time in each)
        print(f"{sys.argv[1]} {name:24s} {us:9.1f} us {100 * (us / whole - 1):+5.1f} %   {rounds}")


main()
