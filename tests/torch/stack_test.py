"""tools/torch_stack.py on CPU ranks: what it times, and that nothing that a way does can stop it.

usage: stack_test.py FOLDER     (the folder that holds the package)

Exits with 77 and the reason where there is no PyTorch.
"""
import argparse
import contextlib
import importlib.util
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = os.path.abspath(sys.argv[1])
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")
SECONDS = 400  # of one run, which takes a tenth of it where nothing else runs
SKIPPED = 77
COMPILED = tempfile.TemporaryDirectory()  # what the runs need not compile again

sys.path.insert(0, TOOLS)
import torch_stack  # noqa: E402


def run(*options, folder=FOLDER, device="cpu"):
    """Exit code, output and errors of the script."""
    command = [sys.executable, os.path.join(TOOLS, "torch_stack.py"), f"--device={device}",
               "--hidden=32", "--rows=8", "--layers=2", "--rounds=3", "--turn-ms=1", *options]
    environment = {**os.environ, "PYTHONPATH": folder, "BRAID_CACHE_DIR": "none",
                   "TORCHINDUCTOR_CACHE_DIR": COMPILED.name}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, timeout=SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


def remaining():
    """Processes that a run has left: those that were told where to keep what they compile."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"TORCHINDUCTOR_CACHE_DIR={COMPILED.name}\0".encode() in file.read():
                    found.append(pid)
        except OSError:
            pass  # it has ended, or is somebody else's
    return found


class Stack(unittest.TestCase):
    def tearDown(self):
        deadline = time.monotonic() + 20  # PyTorch's compilers notice by themselves
        while remaining() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(remaining(), [])

    def test_times_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "stack.json")
            code, output, errors = run("--connections=default,1", "--steps=4", f"--json={path}")
            self.assertEqual(code, 0, output + errors)
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        time = r"[0-9.]+"
        for model in ("mlp", "block"):
            for connections in ("default", "1"):
                self.assertRegex(output, rf"\|{model}\|32\|8\|{connections}\|eager\|{time}\|-\|"
                                 rf"{time}\|-\|{time}\|{time} %\|\n")
            calls = "4 fused_all_gather_matmul, 4 fused_matmul_reduce_scatter"
            self.assertIn(f"|{model}|braid|{calls}|32x8|\n", output)
            calls = "4 all_gather_into_tensor, 4 reduce_scatter_tensor"
            self.assertIn(f"|{model}|nccl|{calls}|32x8|\n", output)
            self.assertRegex(output, rf"\|{model}\|32\|8\|4\|.*\|yes\|\n")
        self.assertRegex(output, r"\|async_tp\|.*\|symmetric memory is there on GPUs only\|\n")
        self.assertEqual(output.count("matmul_reduce_scatter  0      bf16 8x32x64"), 2, output)
        self.assertEqual(len(data["rows"]), 12)
        for row in data["rows"]:
            self.assertEqual(len(row.get("samples_ms", [])), 0 if row["row"] == "async_tp" else 3)
        self.assertEqual([(each["connections"], len(each["losses"]["braid"]))
                          for each in data["losses"]], [("default", 4)] * 2)

    def test_compiles_all_layers_at_once_and_tunes(self):
        code, output, errors = run("--connections=default", "--models=mlp", "--steps=0", "--whole",
                                   "--tune=0.1", "--dtype=f32", "--ranks=4", "--rows=8")
        self.assertEqual(code, 0, output + errors)
        self.assertIn("measures schedules", errors)
        self.assertIn("|mlp|braid|4 fused_all_gather_matmul, ", output)

    def without_braid(self, enable, reason, *options):
        """A package of that name whose enable() does as is said: its row fails for that reason,
        and the one beside it is timed."""
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "braid"))
            with open(os.path.join(folder, "braid", "__init__.py"), "w", encoding="utf-8"):
                pass
            with open(os.path.join(folder, "braid", "torch.py"), "w", encoding="utf-8") as file:
                file.write("import os, time, torch\n"
                           "def enable():\n"
                           f"    {enable}\n"
                           "def disable():\n"
                           "    pass\n"
                           "def report():\n"
                           "    return 'nothing'\n")
            code, output, errors = run("--connections=default", "--models=mlp", "--steps=0",
                                       "--ways=nccl,braid", *options, folder=folder)
        self.assertEqual(code, 1, output + errors)
        self.assertRegex(output, rf"\|braid\|mlp 32x8, connections default\|{reason}\|\n", errors)
        self.assertRegex(output, r"\|eager\|-\|-\|[0-9.]+\|-\|-\|", errors)

    def test_hangs(self):
        self.without_braid("time.sleep(1000 * int(os.environ['RANK']))",
                           "compiles: no answer within 60 s", "--silence=60")

    def test_dies(self):
        self.without_braid("os.environ['RANK'] == '0' or os.kill(os.getpid(), 9)",
                           "compiles: rank 1 ended with -9")

    def test_fails_on_one_rank(self):
        self.without_braid("assert os.environ['RANK'] == '0', 'not here'",
                           "AssertionError: not here")

    def test_ends_what_is_to_come(self):
        self.without_braid("raise type('PeerError', (Exception,), {})('a rank is gone')",
                           "PeerError: a rank is gone")

    def test_fuses_nothing(self):
        self.without_braid("pass", "PyTorch's pass fused nothing")

    def test_is_wrong(self):
        self.without_braid("torch.nn.functional.gelu = torch.relu",
                           r"a result differs by [0-9.]+ of its largest element")

    def test_has_no_package(self):
        with tempfile.TemporaryDirectory() as folder:
            code, output, errors = run("--connections=default", "--models=mlp", "--steps=0",
                                       folder=folder)
        self.assertEqual(code, 1, output + errors)
        self.assertIn("ModuleNotFoundError: No module named 'braid'", output)

    def test_has_no_time(self):
        code, output, errors = run("--time-limit=1")
        self.assertEqual(code, 1, output + errors)
        self.assertEqual(output.count("no time left"), 3, output)

    def test_has_no_gpu(self):
        import torch
        if torch.cuda.device_count() >= 2:
            self.skipTest("there are GPUs")
        code, output, _ = run(device="cuda")
        self.assertEqual(code, SKIPPED)
        self.assertRegex(output, "skipped: expected 2 GPUs, found [01]\n")

    def test_usage(self):
        for option, message in (("--rows=7", "expected multiples of 2 ranks, got 7"),
                                ("--models=mlp,cnn", "expected one of mlp, block, got 'cnn'"),
                                ("--hidden=36", "expected whole heads for each rank, got 36")):
            code, _, errors = run(option)
            self.assertEqual(code, 2, errors)
            self.assertIn(message, errors)


def new_measurement(device):
    return torch_stack.Measurement(argparse.Namespace(device=device, ways=("nccl", "braid"),
                                                      steps=3))


class Job(unittest.TestCase):
    """Ranks of which one is done before rank 0 has said what it found, or ends otherwise."""

    def job(self, *commands):
        job = torch_stack.Job([["sh", "-c", each] for each in commands],
                              [dict(os.environ)] * len(commands))
        self.addCleanup(job.end)
        return job

    def test_waits_for_what_rank_0_says(self):
        job = self.job("sleep 1; echo '{\"end\": true}'", "true")
        self.assertEqual(job.next(20), {"end": True})

    def test_is_lost_with_a_rank_that_fails_and_with_rank_0(self):
        for commands, why in ((("sleep 20", "exit 3"), "rank 1 ended with 3"),
                              (("true", "sleep 20"), "rank 0 ended with 0")):
            with self.assertRaisesRegex(torch_stack.Lost, why):
                self.job(*commands).next(20)


class Turns(unittest.TestCase):
    """Turns of timed rows, on a rank without a device."""

    def rank(self, number=0):
        import torch_stack_rank
        rank = torch_stack_rank.StackRank.__new__(torch_stack_rank.StackRank)
        rank.args = argparse.Namespace(rank=number, rounds=20)
        rank.answers = io.StringIO()
        rank.board = argparse.Namespace(maxima=lambda samples: samples)
        return rank

    def order(self, rank, case):
        seen = []
        rank.turn = lambda case, row, steps=None, us=None: seen.append(row) or (1, 1.0)
        rank.time_rows({"number": case}, ["a", "b", "c"])
        return seen[3:]

    def test_are_alike_on_all_ranks_and_unlike_from_round_to_round(self):
        order = self.order(self.rank(), 0)
        self.assertEqual(order, self.order(self.rank(1), 0))
        self.assertNotEqual(order, self.order(self.rank(), 1))
        before = {pair for at in range(0, 60, 3) for pair in zip(order[at:at + 2],
                                                                 order[at + 1:at + 3])}
        self.assertEqual(len(before), 6, "each row comes before each other one")

    def test_begin_once_clocks_have_settled(self):
        for us, lead in ((10e3, 6), (60e3, 0)):
            rank, runs = self.rank(), []
            rank.rows = argparse.Namespace(
                on=lambda way: contextlib.nullcontext(), synchronize=lambda: None,
                find=lambda way, graph: lambda: runs.append(way),
                time_burst=lambda run, steps: (len(runs), steps))
            self.assertEqual(rank.turn({"number": 0}, "braid/graph", 3, us), (lead, 3))


class Blame(unittest.TestCase):
    def setUp(self):
        self.measurement = new_measurement("cuda")
        self.left = [torch_stack.Case("default", "mlp", 32, rows) for rows in (8, 16, 32)]

    def failed(self):
        return [(case.rows, row) for case in self.left for row in self.measurement.rows
                if self.measurement.failed(case, row)]

    def test_takes_the_graph_of_a_way(self):
        self.measurement.blame(self.left[0], "braid", "hangs", self.left)
        self.assertEqual(self.failed(), [(8, "braid"), (8, "braid/graph")])

    def test_leaves_the_way_of_a_graph(self):
        self.measurement.blame(self.left[0], "braid/graph", "hangs", self.left)
        self.assertEqual(self.failed(), [(8, "braid/graph")])

    def test_tries_a_row_no_third_time(self):
        self.measurement.blame(self.left.pop(0), "nccl/graph", "hangs", self.left)
        self.assertEqual(self.failed(), [])
        self.measurement.blame(self.left[0], "nccl/graph", "hangs", self.left)
        self.assertEqual(self.failed(), [(16, "nccl/graph"), (32, "nccl/graph")])

    def test_gives_up_a_case_that_ends_ranks_by_itself(self):
        first = self.left[0]
        self.measurement.blame(first, "", "hangs", self.left)
        self.assertEqual([case.rows for case in self.left], [16, 32])
        self.assertTrue(all(self.measurement.failed(first, row) for row in self.measurement.rows))


class Losses(unittest.TestCase):
    def verdict(self, mine):
        measurement = new_measurement("cpu")
        measurement.losses["case"] = {"nccl": [2.0, 1.0, 1.0], "braid": mine}
        return measurement.is_right()

    def test_compares_every_step(self):
        self.assertTrue(self.verdict([2.0, 1.003, 1.0]))
        self.assertFalse(self.verdict([2.0, 1.005, 1.0]))
        self.assertFalse(self.verdict([2.0, math.nan, 1.0]))


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print(f"skipped: expected PyTorch, which {sys.executable} does not have")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
