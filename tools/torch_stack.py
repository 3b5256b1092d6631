#!/usr/bin/env python3
"""Times tensor-parallel models that PyTorch splits and compiles, in three ways beside each other.

    PYTHONPATH=build/release/python tools/torch_stack.py --ranks 2 --json stack.json

    braid      braid.torch.enable(): what async tensor parallelism finds is run by Braid
    async_tp   the same, run by PyTorch
    nccl       every collective by itself, before or behind its GEMM

    mlp        a stack of layers x + down(gelu(up(x))); up has 4 * hidden columns
    block      a transformer block: RMS norms, causal attention of heads of 128, such an MLP

A step is forward and backward, with gradients of weights and input. The three ways have the same
weights, and take turns in the same processes: a turn is a burst of steps, once clocks have settled;
its time, that of the slowest rank. way/graph is the whole step as one CUDA graph. Every layer is
compiled by itself with fullgraph, or with --whole all are at once.

Prints tables in Markdown: medians in ms; what could not be timed, and why; what a step calls; what
braid.torch.report() says; and the losses of training steps, by Braid and by NCCL. A row that hangs
ends the ranks, and others go on without it. Needs PyTorch 2.10 or later, and GPUs that reach each
other's memory; exits with 77 where they are missing, and with 1 where Braid or NCCL failed or
losses differ by more than bf16's rounding, 2^-8.
"""
import argparse
import collections
import datetime
import importlib.util
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import torch_rows

SKIPPED = 77
WAYS = ("nccl", "async_tp", "braid")  # the first one's results are what others' are compared with
TITLES = {"braid": "Braid", "async_tp": "async TP", "nccl": "NCCL"}
LOSSES_APART = 2.0 ** -8  # relative
ROWS_TO_TRAIN = 1024
POLL_SECONDS = 0.2
MOST_LOST = 2  # cases in which a row may end the ranks before it is not tried any more
RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_stack_rank.py")
# Multicast is not there on every machine that has NVLink, and NCCL may hang where it is half there.
DEFAULTS = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0"}

Case = collections.namedtuple("Case", "connections model hidden rows")


class Lost(Exception):
    """Ranks that gave no answer, or have ended."""


class Job:
    """Ranks that are processes. What rank 0 says in lines of JSON are its messages."""

    def __init__(self, commands, environments):
        self.messages = queue.Queue()
        self.processes = []
        for rank, (command, environment) in enumerate(zip(commands, environments)):
            # In a session of its own, so that compilers that it starts are ended with it.
            self.processes.append(subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
                stdout=sys.stderr if rank else subprocess.PIPE))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.processes[0].stdout:
            try:
                self.messages.put(json.loads(line))
            except ValueError:
                print(line.decode(errors="replace"), end="", file=sys.stderr)

    def next(self, seconds):
        """The next message. Lost if there is none for so long, or if a rank has failed."""
        deadline = time.monotonic() + seconds
        while True:
            codes = [each.poll() for each in self.processes]
            try:
                return self.messages.get(timeout=POLL_SECONDS)
            except queue.Empty:
                pass
            for rank, code in enumerate(codes):
                is_done = code == 0 and rank > 0  # which rank 0 is still to say
                if code is not None and not is_done:
                    raise Lost(f"rank {rank} ended with {code}")
            if time.monotonic() > deadline:
                raise Lost(f"no answer within {seconds:.0f} s")

    def end(self):
        for each in self.processes:
            try:
                os.killpg(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            each.wait()


class Measurement:
    """Everything that is to be timed, and what was found."""

    def __init__(self, args):
        self.args, self.begin = args, time.monotonic()
        self.device = None
        self.unavailable = ""  # why there is nothing to time with
        self.found = {}  # by case and row
        self.losses = {}  # by case, then by way
        self.reports = {}  # by connections and number of the job
        self.lost = collections.Counter()  # by connections and row
        launches = ("", "/graph") if args.device == "cuda" else ("",)  # graphs need a GPU
        self.rows = [way + launch for launch in launches for way in WAYS if way in args.ways]

    def left(self):
        return self.args.time_limit - (time.monotonic() - self.begin)

    def cases(self, connections):
        args = self.args
        return [Case(connections, model, hidden, rows) for model in args.models
                for hidden in args.hidden for rows in args.rows]

    def is_trained(self, case):
        """The first case of each model with many rows, at the first connections."""
        args = self.args
        rows = min((each for each in args.rows if each >= ROWS_TO_TRAIN), default=args.rows[-1])
        return (args.steps > 0 and case.connections == args.connections[0] and
                case.rows == rows and case.hidden == args.hidden[0])

    def entry(self, case, row):
        return self.found.setdefault((case, row), {})

    def failed(self, case, row):
        return "failure" in self.found.get((case, row), {})

    def measure(self, connections):
        """Starts ranks until they have gone through all cases, or there is no time left."""
        left, at = self.cases(connections), []
        while left and not self.unavailable:
            if self.left() <= 0:
                return self.give_up(left, "no time left")
            at[:] = []
            try:
                self.run(connections, left, at)
            except Lost as lost:
                if self.left() <= 0:
                    return self.give_up(left, "no time left")
                if not at:
                    return self.give_up(left, str(lost))
                case, row, doing = at
                self.blame(case, row, f"{doing}: {lost}", left)
        return None

    def give_up(self, cases, reason):
        for case in cases:
            for row in self.rows:
                if "samples_ms" not in self.entry(case, row):
                    self.entry(case, row).setdefault("failure", reason)

    def blame(self, case, row, reason, left):
        """So that ranks that are started next do without what these were at."""
        if row == "" or self.failed(case, row):
            self.give_up([case], reason)
            left.remove(case)
            return
        self.lost[case.connections, row] += 1
        self.fail(case, row, reason)
        if self.lost[case.connections, row] >= MOST_LOST and row in self.rows:
            for each in left[1:]:
                self.fail(each, row, f"not tried behind {name_of(case)}: {reason}")

    def fail(self, case, row, reason):
        """With a way its graph, for which it runs, too."""
        self.entry(case, row)["failure"] = reason
        if f"{row}/graph" in self.rows:
            self.entry(case, f"{row}/graph").setdefault("failure", reason)

    def work(self, left):
        args = self.args
        cases = [{"number": number, "model": case.model, "hidden": case.hidden, "rows": case.rows,
                  "steps": args.steps if self.is_trained(case) and not self.failed(case, "losses")
                  else 0, "todo": [row for row in self.rows if not self.failed(case, row)]}
                 for number, case in enumerate(left)]
        return {"cases": cases, "ranks": args.ranks, "device": args.device, "dtype": args.dtype,
                "timeout": 2 * args.silence, "rounds": args.rounds, "turn_ms": args.turn_ms,
                "layers": args.layers, "tune": args.tune, "whole": args.whole}

    def run(self, connections, left, at):
        """One job. Takes from `left` what is done; `at` says at what case and row ranks are."""
        with tempfile.TemporaryDirectory() as folder:
            board, path = os.path.join(folder, "board"), os.path.join(folder, "work.json")
            with open(board, "wb") as file:
                file.truncate(torch_rows.Board.bytes(self.args.ranks))
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"board": board, **self.work(left)}, file)
            job = Job([[sys.executable, RANK, path]] * self.args.ranks,
                      self.environments(connections))
            try:
                self.listen(job, list(left), left, at)
            finally:
                job.end()

    def environments(self, connections):
        common = {**DEFAULTS, "TORCHINDUCTOR_CACHE_DIR": self.args.inductor_cache, **os.environ,
                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(torch_rows.free_port()),
                  "WORLD_SIZE": str(self.args.ranks), "OMP_NUM_THREADS": "1"}
        common.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        if connections != "default":
            common["CUDA_DEVICE_MAX_CONNECTIONS"] = connections
        return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                for rank in range(self.args.ranks)]

    def listen(self, job, cases, left, at):
        number = len(self.reports)
        while True:
            message = job.next(max(0, min(self.args.silence, self.left())))
            if "device" in message:
                self.device = message["device"]
            if "unavailable" in message:
                self.unavailable = message["unavailable"]
            # Behind `over` others do the rest. Which row it was has been told.
            if {"end", "over", "unavailable"} & set(message):
                return
            if "case" in message:
                case = cases[message["case"]]
                self.note(case, message, at)
                if "report" in message:
                    self.reports[case.connections, number] = message["report"]
                    left.remove(case)
                    self.write()

    def note(self, case, message, at):
        if "doing" in message:
            at[:] = [case, message["row"], message["doing"]]
            if message["doing"] != "is timed":
                say(f"{self.left():4.0f} s left: {name_of(case)}: {message['row']} "
                    f"{message['doing']}")
        if "losses" in message:
            self.losses[case] = message["losses"]
        for row, samples in message.get("samples_us", {}).items():
            self.entry(case, row)["samples_ms"] = [us / 1e3 for us in samples]
        for key in ("failure", "difference", "compiles", "calls"):
            if key in message:
                self.entry(case, message["row"])[key] = message[key]
        if "failure" in message:
            say(f"       {message['row']} failed: {message['failure']}")

    def losses_apart(self, case):
        """The largest relative difference of a step's losses; None if a way has none."""
        both = [self.losses[case].get(way) for way in ("nccl", "braid")]
        if None in both:
            return None
        # Not max(), which may pass over what is not a number.
        return sorted((abs(mine - wanted) / abs(wanted) for wanted, mine in zip(*both)),
                      key=lambda each: (each != each, each))[-1]

    def is_right(self):
        """Whether Braid and NCCL were timed, and losses agree."""
        failed = any("failure" in entry for (_, row), entry in self.found.items()
                     if not row.startswith("async_tp"))
        apart = [self.losses_apart(case) for case in self.losses]
        return not failed and all(each is None or each <= LOSSES_APART for each in apart)

    def write(self):
        if not self.args.json:
            return
        rows = [{**case._asdict(), "row": row, **entry}
                for (case, row), entry in self.found.items()]
        losses = [{**case._asdict(), "losses": losses} for case, losses in self.losses.items()]
        data = {"date": datetime.datetime.now().isoformat(timespec="seconds"),
                "device": self.device, "rows": rows, "losses": losses,
                "reports": list(self.reports.values()), "options": vars(self.args)}
        with open(self.args.json + ".part", "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
        os.replace(self.args.json + ".part", self.args.json)


def say(text):
    print(f"torch_stack: {text}", file=sys.stderr, flush=True)


def name_of(case):
    return f"{case.model} {case.hidden}x{case.rows}, connections {case.connections}"


# -- Tables. --

def lines_of(head, rows):
    return ["|" + "|".join(map(str, row)) + "|" for row in [head, ["---"] * len(head), *rows]]


def shown(ms):
    return "-" if ms is None else f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"


def spread(samples):
    """Half of them lie so far apart, relative to the median."""
    if len(samples) < 2:
        return 0
    first, median, third = statistics.quantiles(samples, n=4, method="inclusive")
    return (third - first) / median


def time_lines(run):
    rows = []
    for case in dict.fromkeys(case for case, _ in run.found):
        for launch in dict.fromkeys(row.partition("/")[2] for row in run.rows):
            found = {way: run.found.get((case, f"{way}/{launch}".rstrip("/")), {})
                     for way in WAYS}
            samples = {way: entry["samples_ms"] for way, entry in found.items()
                       if entry.get("samples_ms")}
            ms = {way: statistics.median(each) for way, each in samples.items()}
            ratios = [f"{ms['braid'] / ms[way]:.3f}" if {way, "braid"} <= set(ms) else "-"
                      for way in ("async_tp", "nccl")]
            most = max(map(spread, samples.values()), default=0)
            rows.append([case.model, case.hidden, case.rows, case.connections, launch or "eager",
                         *(shown(ms.get(way)) for way in reversed(WAYS)), *ratios,
                         f"{100 * most:.1f} %"])
    return lines_of(["model", "hidden", "rows", "connections", "launch",
                     *(f"{TITLES[way]}, ms" for way in reversed(WAYS)), "of async TP", "of NCCL",
                     "spread"], rows)


def failure_lines(run):
    """Those with one reason together."""
    by_reason = {}
    for (case, row), entry in run.found.items():
        if "failure" in entry:
            by_reason.setdefault((row, entry["failure"]), []).append(name_of(case))
    rows = [[row, "; ".join(cases), reason.replace("|", "\\|")]
            for (row, reason), cases in by_reason.items()]
    return lines_of(["row", "of", "failed"], rows) if rows else []


def call_lines(run):
    """Steps of one model that call the same together."""
    seen = {}
    for (case, row), entry in run.found.items():
        if "calls" in entry:
            calls = ", ".join(f"{count} {key.partition('::')[2]}"
                              for key, count in sorted(entry["calls"].items()))
            seen.setdefault((case.model, row, calls), []).append(f"{case.hidden}x{case.rows}")
    return lines_of(["model", "way", "calls in a step", "cases"],
                    [[*key, ", ".join(dict.fromkeys(cases))] for key, cases in seen.items()])


def loss_lines(run):
    rows = []
    for case, losses in run.losses.items():
        apart = run.losses_apart(case)
        verdict = "-" if apart is None else "yes" if apart <= LOSSES_APART else "no"
        ends = [f"{each[0]:.5f}, {each[-1]:.5f}" if each else "-"
                for each in (losses.get("nccl"), losses.get("braid"))]
        rows.append([case.model, case.hidden, case.rows, run.args.steps, *ends,
                     "-" if apart is None else f"{apart:.1e}", verdict])
    return lines_of(["model", "hidden", "rows", "steps", "NCCL, first and last", "Braid",
                     "largest difference", "within 2^-8"], rows) if rows else []


def print_tables(run):
    args = run.args
    print(f"{args.ranks} x {run.device or args.device}, {args.dtype}, {args.layers} layers of mlp, "
          f"medians of {args.rounds} turns\n")
    for lines in (time_lines(run), failure_lines(run), call_lines(run), loss_lines(run)):
        if lines:
            print("\n".join(lines) + "\n")
    for (connections, _), report in run.reports.items():
        print(f"braid.torch.report(), connections {connections}:\n\n```\n{report}\n```\n")


# -- Command line. --

def words(text):
    return text.split(",")


def numbers(text):
    return [int(each) for each in words(text)]


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=words, default=["mlp", "block"], metavar="LIST")
    parser.add_argument("--hidden", type=numbers, default=[4096, 8192], metavar="LIST")
    parser.add_argument("--rows", type=numbers, default=[64, 1024, 4096, 16384], metavar="LIST",
                        help="of all ranks")
    parser.add_argument("--ways", type=words, default=list(WAYS), metavar="LIST")
    parser.add_argument("--connections", type=words, default=["default", "1"], metavar="LIST",
                        help="CUDA_DEVICE_MAX_CONNECTIONS, or default")
    parser.add_argument("--layers", type=int, default=8, help="of mlp (default: 8)")
    parser.add_argument("--whole", action="store_true", help="compile all layers at once")
    parser.add_argument("--tune", type=float, default=0, metavar="SECONDS",
                        help="let Braid measure each operator for so long first")
    parser.add_argument("--steps", type=int, default=50,
                        help="to train, of one case of each model; 0: none")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--dtype", choices=["bf16", "f16", "f32"], default="bf16")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each row (default: 5)")
    parser.add_argument("--turn-ms", type=float, default=40, help="about so long is a turn")
    parser.add_argument("--time-limit", type=float, default=540, metavar="SECONDS",
                        help="of everything (default: 540)")
    parser.add_argument("--silence", type=float, default=90, metavar="SECONDS",
                        help="ranks that say nothing for so long are ended (default: 90)")
    parser.add_argument("--json", metavar="FILE", help="every sample")
    args = parser.parse_args()
    for name, known in (("models", ("mlp", "block")), ("ways", WAYS)):
        for word in getattr(args, name):
            if word not in known:
                parser.error(f"--{name}: expected one of {', '.join(known)}, got '{word}'")
    for rows in args.rows:
        if rows < 1 or rows % args.ranks != 0:
            parser.error(f"--rows: expected multiples of {args.ranks} ranks, got {rows}")
    for hidden in args.hidden:
        if hidden < 1 or hidden % (4 * args.ranks) != 0 or hidden > 512 and hidden % 128 != 0:
            parser.error("--hidden: expected whole heads for each rank, got "
                         f"{hidden} for {args.ranks} ranks")
    return args


def main():
    args = parse()
    if importlib.util.find_spec("torch") is None:
        print(f"skipped: expected PyTorch, which {sys.executable} does not have")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="torch_stack") as folder:
        args.inductor_cache = folder
        run = Measurement(args)
        for connections in args.connections:
            run.measure(connections)
    del args.inductor_cache
    if run.unavailable:
        print(f"skipped: {run.unavailable}")
        return SKIPPED
    run.write()
    print_tables(run)
    return 0 if run.is_right() else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
