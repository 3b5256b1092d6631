#!/usr/bin/env python3
"""accept_trace_test.py BRAID: traces of real runs are accepted, and tampered ones are not.

Runs an example on 2 and 3 CPU ranks under both protocols. Then tampers: two commands of one stream
change places, as if a backend had done them in the wrong order, or something is missing. Exits with
0, 1, or 77 without spin.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "ag_matmul.braid")
SMALL = ["--set", "M=96", "--set", "K=64", "--set", "N=64", "--streams", "2", "--iterations", "3"]


def accept(path, *options):
    command = [sys.executable, os.path.join(HERE, "accept_trace.py"), path, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result.returncode, (result.stdout + result.stderr).strip()


def record(braid, path, ranks, protocol, *options):
    subprocess.run([braid, "run", EXAMPLE, "--ranks", str(ranks), "--protocol", protocol, *SMALL,
                    "--trace", path, *options], check=True, capture_output=True, timeout=300)


def commands(events, rank, run):
    """Of the stream of the first step, in order."""
    found = [e for e in events if e["ph"] == "X" and e["pid"] == rank and e["args"]["run"] == run
             and e["tid"] == 2]
    return sorted(found, key=lambda event: event["ts"])


def pick(events, rank, run, kind, request):
    return next(event for event in commands(events, rank, run)
                if event["name"] == kind and request in event["args"]["node"])


def arrow_point(event):
    """Where an arrow of this command ends: an await's last nanosecond, or its beginning."""
    if event["name"] != "await":
        return event["ts"]
    return max(event["ts"], round(event["ts"] + event["dur"] - 0.001, 3))


def swap(events, first, second):
    """The two commands change places in time, and their arrows go with them."""
    track = first["pid"], first["tid"]
    before = [arrow_point(first), arrow_point(second)]
    for member in ("ts", "dur"):
        first[member], second[member] = second[member], first[member]
    moves = dict(zip(before, [arrow_point(first), arrow_point(second)]))
    for event in events:
        if event["ph"] in "sf" and (event["pid"], event["tid"]) == track:
            event["ts"] = moves.get(event["ts"], event["ts"])


def signal_before_await(events, protocol):
    """The side that copies reports before it has seen the offer."""
    active = "p2p recv" if protocol == "get" else "p2p send"
    swap(events, pick(events, 0, 2, "await", active), pick(events, 0, 2, "signal", active))


def signal_before_copy(events, protocol):
    active = "p2p recv" if protocol == "get" else "p2p send"
    swap(events, pick(events, 1, 1, "copy", active), pick(events, 1, 1, "signal", active))


def await_before_offer(events, protocol):
    """The passive side takes the report of something that it offers later."""
    passive = "p2p send" if protocol == "get" else "p2p recv"
    swap(events, pick(events, 0, 3, "signal", passive), pick(events, 0, 3, "await", "wait"))


def no_await(events, protocol):
    active = "p2p recv" if protocol == "get" else "p2p send"
    events.remove(pick(events, 0, 2, "await", active))


def rank_missing(events, protocol):
    events[:] = [event for event in events if event["pid"] != 1]


TAMPERINGS = [signal_before_await, signal_before_copy, await_before_offer, no_await, rank_missing]


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


def check_trace(checks, path, what, protocol):
    checks.expect(0, accept(path), what)
    # Ranks of one process share a clock.
    checks.expect(0, accept(path, "--skew", "0"), f"{what}, one clock")
    for tamper in TAMPERINGS:
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        tamper(trace["traceEvents"], protocol)
        tampered = path + ".tampered"
        with open(tampered, "w", encoding="utf-8") as file:
            json.dump(trace, file)
        checks.expect(1, accept(tampered), f"{what}, {tamper.__name__}")


def check_clock(checks, path):
    """Rank 1 seems to do everything before rank 0 did anything: only a common clock tells."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    for event in trace["traceEvents"]:
        if "ts" in event and event["pid"] != 1:
            event["ts"] = round(event["ts"] + 1e7, 3)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace, file)
    checks.expect(0, accept(path), "a clock ten seconds off")
    checks.expect(1, accept(path, "--skew", "1000"), "a clock ten seconds off, allowed 1 ms")


def main():
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return 77
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="braid-traces-") as folder:
        for protocol in ("get", "put"):
            for ranks in (2, 3):
                path = os.path.join(folder, f"{protocol}{ranks}.json")
                record(sys.argv[1], path, ranks, protocol)
                check_trace(checks, path, f"{protocol}, {ranks} ranks", protocol)
        path = os.path.join(folder, "hop.json")
        record(sys.argv[1], path, 3, "get", "--schedule", "hop", "--chunks", "6")
        checks.expect(0, accept(path), "hop, 3 ranks, 6 chunks")
        check_clock(checks, path)
    print(f"{checks.failures} failures")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
