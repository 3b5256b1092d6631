"""Runs the PyTorch examples under torchrun. They must pass, and must fail if a layer is wrong.

usage: examples_test.py FOLDER     (the folder that contains the package)

If PyTorch is not installed, prints the reason and exits with 77.
"""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.abspath(sys.argv[1])
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "torch")
SECONDS = 300  # limit for a run, which takes seconds on an idle machine
SKIPPED = 77


def run(ranks, script, *options, folder=EXAMPLES):
    """Runs a script and returns its exit code and output. Leaves no process behind."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               f"--nproc-per-node={ranks}", os.path.join(folder, script), "--device=cpu", *options]
    environment = {**os.environ, "PYTHONPATH": FOLDER, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as job:
        try:
            output, _ = job.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            job.terminate()  # not kill(), because torchrun has to end its ranks
            output, _ = job.communicate()
            raise AssertionError(f"expected an end within {SECONDS} s, got:\n{output}") from None
    return job.returncode, output


class Examples(unittest.TestCase):
    def passes(self, ranks, script, *options, prints):
        code, output = run(ranks, script, *options)
        self.assertEqual(code, 0, output)
        self.assertIn(f"{ranks} ranks on cpu", output)
        for line in prints:
            self.assertIn(line, output.splitlines())

    def trains(self, ranks, steps, *options):
        self.passes(ranks, "train.py", f"--steps={steps}", *options,
                    prints=["gradients: 0 wrong", f"losses of {steps} steps: 0 wrong"])

    def test_train(self):
        self.trains(2, 50)

    def test_train_gated_with_odd_sizes(self):
        self.trains(3, 12, "--dtype=float64", "--gated", "--hidden=60", "--heads=6", "--inner=21",
                    "--tokens=15", "--batch=3")

    def test_train_on_four_ranks(self):
        self.trains(4, 12, "--layers=1", "--batch=1", "--hidden=64", "--heads=4", "--tokens=8")

    def test_decode(self):
        self.passes(2, "decode.py", "--rows", "1", "2", "3", "8", "64",
                    prints=["5 sizes: 0 wrong"])

    def test_decode_gated_on_three_ranks(self):
        self.passes(3, "decode.py", "--rows", "1", "2", "5", "--dtype=float64", "--gated",
                    prints=["3 sizes: 0 wrong"])

    def test_decode_with_measured_schedules(self):
        self.passes(2, "decode.py", "--rows", "4", "--dtype=bfloat16", "--tune=0.1",
                    prints=["1 sizes: 0 wrong"])

    def test_llama(self):
        for graphs, ways in (("blocks", ["nccl", "braid", "local"]), ("whole", ["measured"])):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "found.json")
                options = [f"--compile={graphs}", "--ways", *ways, f"--json={path}", "--rounds=1",
                           "--turn-ms=1", "--seconds=2"]
                self.passes(2, "llama.py", *options, prints=[])
                with open(path, encoding="utf-8") as file:
                    found = {each["way"]: each for each in map(json.loads, file)}
                self.assertEqual(list(found), ways)
                for way in set(ways) - {"local"}:
                    self.assertLess(found[way]["error"], 2e-5)
                # Everything is in the file, so another run measures nothing.
                _, output = run(2, "llama.py", *options)
                self.assertNotIn("{", output)


class WrongLayers(unittest.TestCase):
    """A copy of the examples with a mistake in layers.py."""

    def output_with(self, right, wrong, script, *options):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
            path = os.path.join(folder, "layers.py")
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertEqual(text.count(right), 1, right)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(right, wrong))
            code, output = run(2, script, *options, folder=folder)
        self.assertNotEqual(code, 0, output)
        return output

    def test_slice_of_another_rank(self):
        output = self.output_with(
            'return own_chunk(full, 1, self.group) if name == "weight" else full',
            'return own_chunk(full.roll(1, 1), 1, self.group) if name == "weight" else full',
            "train.py", "--steps=2")
        self.assertRegex(output, "gradients: [1-9][0-9]* wrong")
        self.assertIn("losses of 2 steps: 2 wrong", output)

    def test_gradients_of_norms_that_nobody_sums(self):
        output = self.output_with("    dist.all_reduce(flat, group=group)\n", "", "train.py",
                                  "--steps=0")
        self.assertIn("gradients: 4 wrong", output)

    def test_bias_that_every_rank_adds(self):
        output = self.output_with("group, bias=self.bias)", "group, bias=2 * self.bias)",
                                  "train.py", "--steps=0")
        self.assertRegex(output, "result .* more than")
        self.assertRegex(output, "gradients: [1-9][0-9]* wrong")

    def test_decode_with_another_slice(self):
        output = self.output_with(
            'return own_chunk(full, 1, self.group) if name == "weight" else full',
            'return own_chunk(full.roll(1, 1), 1, self.group) if name == "weight" else full',
            "decode.py", "--rows", "1", "4")
        self.assertIn("2 sizes: 2 wrong", output)


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print(f"skipped: expected PyTorch, which {sys.executable} does not have")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
