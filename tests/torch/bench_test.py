"""Tests tools/bench_torch.py on CPU ranks: which rows are timed, and the errors of other rows.

usage: bench_test.py FOLDER     (the folder that contains the package)

If PyTorch is not installed, prints the reason and exits with 77.
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.abspath(sys.argv[1])
TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools",
                    "bench_torch.py")
SECONDS = 400  # limit for a run: ten times its duration on an idle machine
PYTORCH = ["torch/gemms", "torch/transfers", "torch/sequential"]


def run(*options, folder=FOLDER, **environment):
    """Runs the script and returns its exit code, output and errors."""
    environment = {**os.environ, "PYTHONPATH": folder, "BRAID_CACHE_DIR": "none", **environment}
    done = subprocess.run([sys.executable, TOOL, "--device", "cpu", "--rounds", "2", "--bursts",
                           "3", "--row-ms", "5", *options], env=environment, text=True,
                          capture_output=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


def rows_of(*options, **more):
    """Returns the JSON of all rows, and the printed table."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        code, out, err = run(*options, "--json", path, **more)
        assert code == 0, f"{code}: {out}{err}"
        with open(path, encoding="utf-8") as file:
            return json.load(file), out


class Bench(unittest.TestCase):
    def check(self, operation, timed, refused):
        data, table = rows_of(operation, "--dtype", "f32", "--shapes", "16x8x12,32x8x12")
        self.assertEqual((data["operation"], data["ranks"]), (operation, 2))
        by_name = {}
        for row in data["rows"]:
            by_name.setdefault(row["implementation"], []).append(row)
        self.assertEqual(set(by_name), set(timed + refused))
        for name, rows in by_name.items():
            self.assertEqual([row["m"] for row in rows], [16, 32])
            for row in rows:
                self.assertEqual("failure" in row, name in refused, row)
                if name in timed:
                    self.assertGreater(row["burst_median_us"], 0)
                    self.assertEqual(len(row["burst_us"]), 4, "3 over 2 rounds")
        self.assertTrue(by_name["braid"][0]["choice"])
        self.assertIn("16 x 8 x 12", table)
        self.assertIn("failed: symmetric memory is available only on GPUs", table)

    def test_gather(self):
        self.check("gather-matmul", ["braid", "braid/transfers", *PYTORCH],
                   ["torch/fused", "torch/gather_by_copies", "te/fused"])

    def test_reduce_scatter(self):
        self.check("matmul-reduce-scatter", ["braid", "braid/transfers", *PYTORCH],
                   ["torch/fused", "te/fused"])

    def test_all_reduce(self):
        self.check("matmul-all-reduce", ["braid", "braid/transfers", *PYTORCH],
                   [f"torch/{gemm}{kind}_shot_all_reduce" for kind in ("one", "two")
                    for gemm in ("", "gemm_")])

    def test_mlp(self):
        self.check("mlp", ["braid", *PYTORCH], ["torch/fused"])

    def test_rows_that_do_not_divide(self):
        data, _ = rows_of("gather-matmul", "--shapes", "7x8x12", "--rows",
                          "torch/gemms,torch/transfers")
        self.assertEqual([row.get("failure") for row in data["rows"]],
                         [None, "expected m to be a multiple of the number of ranks (2)"])

    def test_without_braid(self):
        """A missing package is reported as a failure of its rows; PyTorch's rows are timed."""
        with tempfile.TemporaryDirectory() as empty:
            data, _ = rows_of("mlp", "--shapes", "8x8x8", folder=empty)
        self.assertIn("No module named 'braid'", data["rows"][0]["failure"])
        self.assertIn("burst_us", data["rows"][1])

    def test_a_rank_that_dies_ends_the_others(self):
        """One rank cannot reach the address at which ranks connect."""
        code, _, err = run("mlp", "--shapes", "8x8x8", GLOO_SOCKET_IFNAME="none")
        self.assertNotEqual(code, 0, err)

    def test_mistakes(self):
        for options, said in ((["mlp", "--shapes", "8x8"], "expected MxNxK,..., got '8x8'"),
                              (["mlp", "--shapes", "8x8x8", "--rounds", "0"], "--rounds"),
                              (["mlp", "--shapes", "8x8x8", "--graph-runs", "0"],
                               "--graph-runs: expected 1"),
                              (["mlp", "--shapes", "8x8x8", "--graph", "yes"], "CPU ranks"),
                              (["none", "--shapes", "8x8x8"], "gather-matmul")):
            code, _, err = run(*options)
            self.assertEqual(code, 2, err)
            self.assertIn(said, err)


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("skipped: no PyTorch")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
