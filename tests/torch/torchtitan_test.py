"""Trains a small Llama 3 with torchtitan's trainer on CPU ranks, without Braid and with it.

usage: torchtitan_test.py FOLDER [RANKS]     (the folder that contains the package)

RANKS is 2 if it is not given. If torchtitan is not installed, prints the reason and exits with 77.
"""
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

FOLDER, HERE = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "frameworks", "torchtitan.md")
RANKS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
SECONDS, SKIPPED = 400, 77  # the limit for a run, which takes half a minute on an idle machine


def documented():
    """Returns the options that the page tells users to add."""
    with open(PAGE, encoding="utf-8") as file:
        [line] = re.findall(r"^ *(--compile\.enable .*)$", file.read(), re.M)
    return line.split()


def train(ranks, *options, **environment):
    """Returns the ranks' exit codes and outputs. torchrun would end them before they say why."""
    with socket.socket() as each:
        each.bind(("localhost", 0))
        port = str(each.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.join(HERE, "titan_train.py"), "--module", "titan_train",
                   "--config", "tiny", "--debug.seed", "0", "--dump_folder", folder, *options]
        paths = [HERE, FOLDER, os.environ.get("PYTHONPATH", "")]
        started = []
        for rank in range(ranks):
            where = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks,
                     "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
            started.append(subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
                env={**os.environ, **{key: str(value) for key, value in where.items()},
                     "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1",
                     "BRAID_CACHE_DIR": "none", "NO_COLOR": "1",
                     "TORCHINDUCTOR_COMPILE_THREADS": "1", **environment}))
        said = []
        try:
            said = [each.communicate(timeout=SECONDS)[0] for each in started]
        finally:
            for each in started:
                each.kill()
    return [each.returncode for each in started], said


def losses(text):
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [float(loss) for loss in re.findall(r"step: +\d+ +loss: +([0-9.]+)", plain)]


class Trainer(unittest.TestCase):
    def losses_of(self, ranks, *options):
        codes, said = train(ranks, *options)
        self.assertEqual(codes, [0] * ranks, "\n".join(said))
        found = losses(said[0])
        self.assertEqual(len(found), 20, said[0])
        return found, said[0]

    def test_losses_are_those_of_torchtitan(self):
        """Also with the activation checkpointing that torchtitan uses by default, which saves
        the results of reduce-scatters."""
        expected, _ = self.losses_of(RANKS)
        found, said = self.losses_of(RANKS, *documented())
        for step, (a, b) in enumerate(zip(expected, found)):
            self.assertLess(abs(a - b), 1e-3 * a, (step, expected, found))
        self.assertLess(found[-1], found[0])
        replaced, left = said.split("collectives next to a GEMM that were not replaced")
        self.assertRegex(replaced, r"reduce_scatter .* forward +2")
        self.assertRegex(replaced, r"all_gather .* forward +2")
        self.assertRegex(replaced, r"reduce_scatter .* backward +2")
        self.assertNotIn("reduce_scatter", left)

    def test_killed(self):
        codes, said = train(RANKS, *documented(), TEST_KILL="3")
        self.assertEqual(codes[1], -signal.SIGKILL, said[1])
        self.assertNotEqual(codes[0], 0)
        self.assertRegex(said[0], "PeerError.*rank 1")


if __name__ == "__main__":
    for name in ("torch", "torchtitan"):
        if importlib.util.find_spec(name) is None:
            print(f"skipped: expected the package {name}")
            sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
