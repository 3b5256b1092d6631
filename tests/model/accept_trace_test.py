#!/usr/bin/env python3
"""accept_trace_test.py BRAID: tests that accept_trace.py accepts real traces and rejects others.

Records traces of examples on CPU ranks with both protocols, and reads traces of GPUs from inputs/.
Then manipulates them: swaps two commands of a stream, as if a backend had executed them in the
wrong order, removes commands, or delays commands. Exits with 0, with 1, or with 77 if spin is not
installed.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")
# Runs 1 to 3 of traces that are otherwise unchanged. They were recorded on H200 GPUs connected by
# NVLink, with four runs in flight, using
#   braid run examples/ag_matmul.braid --backend cuda --ranks 2 --set M=128 --protocol get
#       --iterations 6 --trace h200_get_2_ranks.json
# and the same command with 3 ranks, M=192 and put.
RECORDED = [("h200_get_2_ranks.json", "get"), ("h200_put_3_ranks.json", "put")]
SMALL = ["--set", "M=96", "--set", "K=64", "--set", "N=64", "--streams", "2"]


def accept(path, *options):
    command = [sys.executable, os.path.join(HERE, "accept_trace.py"), path, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result.returncode, (result.stdout + result.stderr).strip()


def record(braid, path, ranks, protocol, *options, example="ag_matmul"):
    subprocess.run([braid, "run", os.path.join(EXAMPLES, f"{example}.braid"), "--ranks", str(ranks),
                    "--protocol", protocol, "--iterations", "3", "--trace", path, *options],
                   check=True, capture_output=True, timeout=300)


def pick(events, rank, run, kind, request, streams=(2,)):
    """Returns the first command with these properties, by default on the first step's stream."""
    return min((e for e in events if e["ph"] == "X" and e["pid"] == rank and e["tid"] in streams
                and e["args"]["run"] == run and e["name"] == kind and request in e["args"]["node"]),
               key=lambda event: event["ts"])


def arrow_point(event):
    """Returns the time at which arrows are attached to this command: its beginning, or the last
    nanosecond of an await."""
    if event["name"] != "await":
        return event["ts"]
    return max(event["ts"], round(event["ts"] + event["dur"] - 0.001, 3))


def swap(events, first, second):
    """Swaps the times of two commands and moves their arrows."""
    track = first["pid"], first["tid"]
    before = [arrow_point(first), arrow_point(second)]
    for member in ("ts", "dur"):
        first[member], second[member] = second[member], first[member]
    moves = dict(zip(before, [arrow_point(first), arrow_point(second)]))
    for event in events:
        if event["ph"] in "sf" and (event["pid"], event["tid"]) == track:
            event["ts"] = moves.get(event["ts"], event["ts"])


def signal_before_await(events, protocol):
    """The active side signals completion before it has seen the ready signal."""
    active = "p2p recv" if protocol == "get" else "p2p send"
    swap(events, pick(events, 0, 2, "await", active), pick(events, 0, 2, "signal", active))


def signal_before_copy(events, protocol):
    active = "p2p recv" if protocol == "get" else "p2p send"
    swap(events, pick(events, 1, 1, "copy", active), pick(events, 1, 1, "signal", active))


def await_before_offer(events, protocol):
    """The passive side awaits completion before its ready signal."""
    passive = "p2p send" if protocol == "get" else "p2p recv"
    swap(events, pick(events, 0, 3, "signal", passive), pick(events, 0, 3, "await", "wait"))


def next_offer_before_await(events, protocol):
    """The next run in flight sends its ready signal before this run has awaited completion."""
    passive = "p2p send" if protocol == "get" else "p2p recv"
    swap(events, pick(events, 0, 1, "await", "wait"), pick(events, 0, 2, "signal", passive))


def no_await(events, protocol, streams=(2,)):
    active = "p2p recv" if protocol == "get" else "p2p send"
    events.remove(pick(events, 0, 2, "await", active, streams))


def rank_missing(events, protocol):
    events[:] = [event for event in events if event["pid"] != 1]


TAMPERINGS = [signal_before_await, signal_before_copy, await_before_offer, next_offer_before_await,
              no_await, rank_missing]


class Checks:
    def __init__(self):
        self.failures = 0

    def expect(self, wanted, outcome, what):
        status, output = outcome
        if status == wanted:
            print(f"ok: {what}: {output}")
            return
        self.failures += 1
        print(f"FAILED {what}: expected exit status {wanted}, got {status}: {output}")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def accept_tampered(folder, trace, *options):
    path = os.path.join(folder, "tampered.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace, file)
    return accept(path, *options)


def check_trace(checks, folder, path, what, protocol):
    checks.expect(0, accept(path), what)
    for tamper in TAMPERINGS:
        trace = load(path)
        tamper(trace["traceEvents"], protocol)
        checks.expect(1, accept_tampered(folder, trace), f"{what}, {tamper.__name__}")


def shift(events, microseconds, is_moved):
    for event in events:
        if "ts" in event and is_moved(event):
            event["ts"] = round(event["ts"] + microseconds, 3)


def check_clock(checks, folder, path, what, skew, off):
    """If rank 1's clock is far off, awaits seem to end before their signals begin. This is detected
    only if times of different ranks are compared (--skew)."""
    checks.expect(0, accept(path, "--skew", str(skew)), f"{what}, clocks within {skew} us")
    trace = load(path)
    shift(trace["traceEvents"], off, lambda event: event["pid"] != 1)
    checks.expect(0, accept_tampered(folder, trace), f"{what}, a clock {off:.0f} us off")
    checks.expect(1, accept_tampered(folder, trace, "--skew", str(skew)),
                  f"{what}, a clock {off:.0f} us off, allowed {skew} us")


def check_lag(checks, folder, path, what, stream):
    """A stream of rank 0 begins run 1 only after its other streams have finished run 2."""
    trace = load(path)
    def is_moved(event):
        return event["pid"] == 0 and event.get("tid") == stream
    mine = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
    first = min(e["ts"] for e in mine if is_moved(e) and e["args"]["run"] == 1)
    last = max(e["ts"] + e["dur"] for e in mine if not is_moved(e) and e["args"]["run"] == 2)
    shift(trace["traceEvents"], last - first + 1, is_moved)
    checks.expect(1, accept_tampered(folder, trace), f"{what}, stream {stream} lags behind")


def check_outside(checks, folder, path, what):
    """Events outside of runs may have any name. A trace with only such events cannot be checked."""
    trace = load(path)
    outside = [dict(event, args=dict(event["args"], run=0), ts=event["ts"] - 5000)
               for event in trace["traceEvents"] if event["ph"] == "X" and event["tid"] != 1]
    trace["traceEvents"] += outside
    checks.expect(0, accept_tampered(folder, trace), f"{what}, and commands of no run")
    checks.expect(2, accept_tampered(folder, {"traceEvents": outside}), "only commands of no run")


def check_cpus(checks, folder, braid):
    for protocol in ("get", "put"):
        for ranks in (2, 3):
            path, what = os.path.join(folder, "trace.json"), f"{protocol}, {ranks} ranks"
            record(braid, path, ranks, protocol, *SMALL)
            check_trace(checks, folder, path, what, protocol)
            checks.expect(0, accept(path, "--skew", "0"), f"{what}, one clock")  # one process
    path = os.path.join(folder, "ring.json")
    record(braid, path, 3, "get", *SMALL, "--schedule", "ring", "--chunks", "2")
    checks.expect(0, accept(path), "ring, 3 ranks, 6 chunks")
    check_lag(checks, folder, path, "ring", 2)
    check_clock(checks, folder, path, "ring", 1000, 1e7)


def check_loops(checks, folder, braid):
    """Programs with several loops of transfers whose requests have equal names."""
    path = os.path.join(folder, "loops.json")
    for example, options in (("mlp", ()), ("matmul_all_reduce", ("--reduction", "two-shot"))):
        for protocol in ("get", "put"):
            record(braid, path, 4, protocol, *options, example=example)
            checks.expect(0, accept(path), f"{example}, {protocol}, 4 ranks")
            trace = load(path)
            no_await(trace["traceEvents"], protocol, streams=range(8))
            checks.expect(1, accept_tampered(folder, trace), f"{example}, {protocol}, no_await")


def check_gpus(checks, folder):
    for name, protocol in RECORDED:
        path = os.path.join(HERE, "inputs", name)
        check_trace(checks, folder, path, name, protocol)
        check_outside(checks, folder, path, name)
        # Ranks are processes on one host, and a trace begins by reading the host's clock.
        check_clock(checks, folder, path, name, 20, 100)
        if "3_ranks" in name:
            check_lag(checks, folder, path, name, 3)


def main():
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return 77
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="braid-traces-") as folder:
        check_gpus(checks, folder)
        check_cpus(checks, folder, sys.argv[1])
        check_loops(checks, folder, sys.argv[1])
    print(f"{checks.failures} failures")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
