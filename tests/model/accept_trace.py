#!/usr/bin/env python3
"""accept_trace.py TRACE.json: checks whether the transfer protocol could have produced a trace.

Generates a model from a trace that `braid run --trace` wrote, and executes the model with spin. In
the model, every stream is a process that executes the commands of the trace in order. The flags are
those of words.pml, and each transfer has the five phases described in docs/transfers.md. If a
command ended before another command on the same rank began, it also precedes that command in the
model. With --skew, this also applies to commands on different ranks, whose clocks may differ by at
most the given time. The trace is accepted if the model reaches its end. A single execution is
enough: no step of a stream can disable a step of another stream, so all executions end in the same
state.

Assumptions about traces of CPUs and GPUs:
  - The effects of a command occur at an unknown time within its span, so overlapping spans and
    equal times imply no order. On a GPU, a span is the time between two events on the stream,
    before and after the command, and is several microseconds longer than the command.
  - The spans of one rank use one clock (an H200 counts in steps of 32 ns), and rounding preserves
    their order. The clocks of two ranks are unrelated, unless --skew is given.
  - Commands on one stream do not overlap, not even those of a run that was issued early. Runs on
    different streams and ranks may overlap.
  - Records and waits for events matter only because of their times, so they may be missing. For
    example, a GPU executes no wait for an event that this run has not recorded.
  - Runs are numbered from 1, and those in the trace are consecutive. Events with run number 0 are
    work that a device performs outside of runs, such as copies of arguments to and from a GPU. They
    are not commands of the program, regardless of their names.
  - The trace contains all commands of a run. Replayed graphs have no spans and cannot be checked.

Exits with 0 if the trace is accepted, with 1 if it is rejected (and prints the first event that
does not fit), with 2 if it cannot be checked, or with 77 if spin is not installed.
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
from fractions import Fraction

HERE = os.path.dirname(os.path.abspath(__file__))
OFFER, TAKE_OFFER, COPY, REPORT, TAKE_REPORT = range(5)
STEPS = ["the offer", "the await before the copy", "the copy", "the signal after the copy",
         "the await at the wait"]
NODE = re.compile(r"(%[\w.]+) = p2p (send|recv)\b")
WAIT = re.compile(r"wait (%[\w.]+)$")
OUTSIDE = 0  # the run number of work outside of runs


class Unfit(Exception):
    """Raised if the trace contradicts the protocol."""


class Event:
    def __init__(self, json_event):
        self.kind = json_event["name"]
        self.rank = json_event["pid"]
        self.stream = json_event["tid"]
        self.node = json_event["args"]["node"]
        if self.kind == "matmul" and NODE.search(self.node):
            self.kind = "copy"  # the GEMM stores at the peer, which the protocol treats as a copy
        self.run = json_event["args"]["run"]
        self.command = json_event["args"].get("command", 0)  # missing in older traces of a loop
        self.trip = tuple(json_event["args"].get("trip", ()))
        self.begin = json_event["ts"]
        self.end = self.begin + json_event["dur"]
        self.request = None  # identifies the request of a transfer's command
        self.transfer = None  # the number of the transfer; `step` is one of its five steps
        self.step = None

    def __str__(self):
        trip = f", trip {list(self.trip)}" if self.trip else ""
        return (f"rank {self.rank}, stream {self.stream}, run {self.run}: {self.kind} of "
                f'"{self.node}"{trip}, {float(self.begin):.3f} .. {float(self.end):.3f} us')


class Trace:
    """The events of all streams in order, and their transfers."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            events = json.load(file, parse_float=Fraction)["traceEvents"]
        self.streams = collections.defaultdict(list)
        for each in events:
            if each["ph"] == "X" and each["args"]["run"] != OUTSIDE:
                self.streams[each["pid"], each["tid"]].append(Event(each))
        for stream in self.streams.values():
            stream.sort(key=lambda event: event.begin)  # stable: ties keep the file's order
        self.arrows = collections.defaultdict(dict)
        for each in events:
            if each["ph"] in "sf" and each.get("cat") == "transfer":
                self.arrows[each["id"]][each["ph"]] = each
        self.transfers = {}
        self.assign()

    def assign(self):
        """Sets the transfer and step of each signal, await and copy between ranks."""
        requests = self.requests()
        met = {}
        for arrow in self.arrows.values():
            if len(arrow) == 2:
                self.meet(requests, met, arrow)
        for key, events in requests.items():
            if key not in met:
                raise Unfit(f"no transfer on a peer belongs to: {events[0]}")

    def requests(self):
        """Groups events by request. If a later block reuses the name of a request, all commands of
        the first request precede those of the second."""
        named = collections.defaultdict(list)
        for stream in self.streams.values():
            for event in stream:
                found = NODE.search(event.node) or WAIT.search(event.node)
                if found and event.kind in ("signal", "await", "copy"):
                    named[event.rank, event.run, found.group(1), event.trip].append(event)
        requests = {}
        for name, events in named.items():
            key = None
            for event in sorted(events, key=lambda event: event.command):
                if key is None or any(other.kind == event.kind for other in requests[key]):
                    key = (*name, event.command)
                    requests[key] = []
                event.request = key
                requests[key].append(event)
        return requests

    def meet(self, requests, met, arrow):
        source = self.at(arrow["s"], ("signal", "copy"))
        destination = self.at(arrow["f"], ("copy", "await"))
        keys = [source.request, destination.request]
        is_get = source.kind == "signal"
        if is_get != (destination.kind == "copy"):
            raise Unfit(f"an arrow leads from a {source.kind} to: {destination}")
        passive, active = keys if is_get else reversed(keys)
        name = tuple((rank, *rest) for rank, _, *rest in (passive, active))  # for all runs
        number = self.transfers.setdefault(name, len(self.transfers))
        self.label(number, requests[passive], {"signal": OFFER, "await": TAKE_REPORT})
        self.label(number, requests[active],
                   {"await": TAKE_OFFER, "copy": COPY, "signal": REPORT})
        met[passive] = met[active] = number

    @staticmethod
    def label(number, events, steps):
        if sorted(event.kind for event in events) != sorted(steps):
            raise Unfit(f"expected one each of {', '.join(sorted(steps))}, got "
                        f"{', '.join(sorted(event.kind for event in events))}: {events[0]}")
        for event in events:
            if event.transfer not in (None, number):
                raise Unfit(f"two transfers claim: {event}")
            event.transfer, event.step = number, steps[event.kind]

    def at(self, arrow_end, kinds):
        """Returns the command at which an arrow starts or ends. The arrow is attached to the
        command's beginning, or to the end of an await."""
        for event in self.streams[arrow_end["pid"], arrow_end["tid"]]:
            is_await = event.kind == "await"
            last = max(event.begin, event.end - Fraction(1, 1000))
            if event.kind in kinds and arrow_end["ts"] == (last if is_await else event.begin):
                return event
        raise Unfit(f"an arrow ends at no command: rank {arrow_end['pid']}, stream "
                    f"{arrow_end['tid']}, at {float(arrow_end['ts']):.3f} us")


class Model:
    """Converts the trace to Promela."""

    def __init__(self, trace, slack, skew):
        self.trace = trace
        self.slack, self.skew = slack, skew
        self.keys = sorted(trace.streams)
        self.ends = [[event.end for event in trace.streams[key]] for key in self.keys]

    def text(self):
        words = max(1, 2 * len(self.trace.transfers))
        lines = ['#include "words.pml"', f"byte word[{words}];", f"byte step[{words}];",
                 f"short turn[{words}];", f"int done[{len(self.keys)}];"]
        for number, key in enumerate(self.keys):
            lines.append(f"active proctype stream_{number}() {{")
            lines += self.commands(number, self.trace.streams[key])
            lines.append("  skip\n}")
        lines.append("active proctype report() {\n  timeout;")
        for number in range(len(self.keys)):
            lines.append(f'  printf("stream {number} did %d\\n", done[{number}]);')
        lines.append("  skip\n}\n")
        return "\n".join(lines)

    def commands(self, own, events):
        seen = [0] * len(self.keys)
        first = min(event.run for stream in self.trace.streams.values() for event in stream)
        for event in events:
            guards = [f"done[{other}] >= {count}" for other, count in self.before(own, event, seen)]
            condition, effect = self.protocol(event, first)
            guards += condition
            yield (f"  atomic {{ {' && '.join(guards) or 'true'} -> {effect}done[{own}]++ }};")

    def before(self, own, event, seen):
        """Yields, for each other stream, how many of its commands ended before `event` began. Omits
        streams for which the number has not changed since the previous event of this stream."""
        for other, (rank, _) in enumerate(self.keys):
            if other == own or (rank != event.rank and self.skew is None):
                continue
            slack = self.slack if rank == event.rank else self.skew
            ends = self.ends[other]
            count = seen[other]
            while count < len(ends) and ends[count] + slack < event.begin:
                count += 1
            if count != seen[other]:
                seen[other] = count
                yield other, count

    @staticmethod
    def protocol(event, first):
        if event.transfer is None:
            return [], ""
        number = event.transfer
        word = 2 * number + (event.step >= REPORT)
        condition = [f"step[{number}] == {event.step}", f"turn[{number}] == {event.run - first}"]
        effect = f"step[{number}] = {(event.step + 1) % 5}; "
        if event.step in (OFFER, REPORT):
            condition.append(f"word[{word}] == CLEAR")
            effect += f"STORE({word}); "
        elif event.step in (TAKE_OFFER, TAKE_REPORT):
            condition.append(f"SEEN({word})")
            effect += f"TAKE_EAGER({word}); "
        if event.step == TAKE_REPORT:
            effect += f"turn[{number}]++; "
        return condition, effect


def execute(text):
    """Executes the model and returns how many commands each stream executed."""
    with tempfile.TemporaryDirectory(prefix="braid-trace-") as folder:
        shutil.copy(os.path.join(HERE, "words.pml"), folder)
        with open(os.path.join(folder, "trace.pml"), "w", encoding="utf-8") as file:
            file.write(text)
        result = subprocess.run(["spin", "-T", "-n1", "trace.pml"], cwd=folder, text=True,
                                capture_output=True, timeout=600)
    counts = {int(a): int(b) for a, b in re.findall(r"stream (\d+) did (\d+)", result.stdout)}
    if not counts or "Error" in result.stdout:
        raise RuntimeError(f"spin: {(result.stdout + result.stderr).strip()[:300]}")
    return counts


def misfit(trace, keys, counts):
    """Returns the stuck command to report. Prefers commands of transfers, then commands that no
    other stuck command of their rank precedes, then signals and copies, and then the earliest."""
    stuck = [trace.streams[key][counts[number]] for number, key in enumerate(keys)
             if counts[number] < len(trace.streams[key])]
    def blame(event):
        is_held_up = any(other.rank == event.rank and other.end < event.begin for other in stuck)
        return (event.transfer is None, is_held_up, event.kind == "await", event.end)
    return min(stuck, key=blame, default=None)


def judge(arguments):
    trace = Trace(arguments.trace)
    if not any(trace.streams.values()):
        raise ValueError("expected commands of runs, got none")
    if len(trace.streams) > 250:
        raise ValueError(f"expected at most 250 streams of all ranks, got {len(trace.streams)}")
    model = Model(trace, Fraction(arguments.slack),
                  None if arguments.skew is None else Fraction(arguments.skew))
    counts = execute(model.text())
    event = misfit(trace, model.keys, counts)
    if event:
        what = f" ({STEPS[event.step]})" if event.transfer is not None else ""
        raise Unfit(f"does not fit here{what}: {event}")
    total = sum(counts.values())
    steps = sum(event.transfer is not None for each in trace.streams.values() for event in each)
    print(f"accepted: {len({rank for rank, _ in model.keys})} ranks, {len(model.keys)} streams, "
          f"{total} commands, {steps} of them of {len(trace.transfers)} transfers a run")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", metavar="TRACE.json")
    parser.add_argument("--slack", metavar="US", default="0",
                        help="times of one rank may be wrong by so much against each other")
    parser.add_argument("--skew", metavar="US",
                        help="compare times of different ranks, which may differ by so much")
    arguments = parser.parse_args()
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return 77
    try:
        judge(arguments)
    except Unfit as reason:
        print(f"rejected: {reason}")
        return 1
    except (OSError, ValueError, KeyError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"error: {arguments.trace}: {error!r}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
