"""Tests braid.ddlb in a copy of DDLB, which creates, runs, validates and reports on its classes.

usage: ddlb_test.py FOLDER [--gpu]     (the folder that contains the package)

BRAID_DDLB is the path of a checkout of github.com/samnordmann/ddlb. If it is not set, the test is
skipped. Two ranks run DDLB's commands. DDLB requires GPUs. Without --gpu, the test replaces the
functions of torch.cuda that the copy's communicator calls, and tensors are on CPUs.
"""
import csv
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
RANKS = 2
SECONDS = 300  # limit for a command; if a rank fails, DDLB waits for it forever
FOLDER = os.path.abspath(sys.argv[1])
ON_GPU = "--gpu" in sys.argv[2:]
COPY = ""  # path of the copy of DDLB, with the documented lines added

# Appended to ddlb/communicator.py.
ON_CPU = """
import unittest.mock

def _on_cpu(self, _init=Communicator.__init__):
    with unittest.mock.patch.multiple(torch.cuda, device_count=lambda: 1 << 10,
                                      set_device=lambda device: None):
        _init(self)
    self.device = torch.device("cpu")

Communicator.__init__ = _on_cpu
torch.cuda.synchronize = lambda device=None: None
"""

def why_skipped():
    """Returns the reason why the test cannot run, or ""."""
    checkout = os.environ.get("BRAID_DDLB", "")
    if not checkout:
        return "expected BRAID_DDLB to name a checkout of github.com/samnordmann/ddlb"
    for module in ("torch", "pandas", "matplotlib", "tqdm"):
        if importlib.util.find_spec(module) is None:
            return f"expected the package {module}, which DDLB needs"
    if ON_GPU:
        import torch
        if torch.cuda.device_count() < RANKS:
            return f"expected {RANKS} GPUs, got {torch.cuda.device_count()}"
    return ""


def documented_lines():
    """Returns the line for each primitive that braid.ddlb tells users to add to DDLB's table."""
    with open(os.path.join(FOLDER, "braid", "ddlb.py"), encoding="utf-8") as file:
        found = re.findall(r"^ +'(tp_\w+)': {\n +('braid': .*)$", file.read(), re.M)
    assert [primitive for primitive, _ in found] == ["tp_columnwise", "tp_rowwise"], found
    return dict(found)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def copy_ddlb(folder):
    for part in ("ddlb", "scripts"):
        shutil.copytree(os.path.join(os.environ["BRAID_DDLB"], part), os.path.join(folder, part))
    path = os.path.join(folder, "ddlb", "benchmark.py")
    text = read(path)
    for primitive, line in documented_lines().items():
        begin = f"'{primitive}': {{"
        assert text.count(begin) == 1, f"expected {begin} once in {path}"
        text = text.replace(begin, f"{begin}\n{line}")
    write(path, text)
    if not ON_GPU:
        path = os.path.join(folder, "ddlb", "communicator.py")
        write(path, read(path) + ON_CPU)


def environment(rank, ranks, port):
    """Returns the environment, with the variables that mpirun would set."""
    return dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_RANK=str(rank),
                OMPI_COMM_WORLD_SIZE=str(ranks), OMPI_COMM_WORLD_LOCAL_SIZE=str(ranks),
                PMIX_NAMESPACE=str(port), DDLB_MASTER_PORT=str(port),
                PYTHONPATH=os.pathsep.join([COPY, FOLDER]), BRAID_CACHE_DIR="none",
                OMP_NUM_THREADS="1", MPLBACKEND="agg")


def free_port():
    with socket.socket() as each:
        each.bind(("localhost", 0))
        return each.getsockname()[1]


def kill(process):
    """Kills a process and the processes that DDLB has started in it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(command, ranks=RANKS):
    """Runs a command on all ranks and returns the output of each."""
    port = free_port()
    started = [subprocess.Popen([sys.executable, *command], env=environment(rank, ranks, port),
                                cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, start_new_session=True) for rank in range(ranks)]
    said = []
    for process in started:
        try:
            said.append(process.communicate(timeout=SECONDS)[0])
        except subprocess.TimeoutExpired:
            for each in started:
                kill(each)
            said.append(f"stopped after {SECONDS} s\n{process.communicate()[0]}")
    codes = [each.returncode for each in started]
    assert codes == [0] * ranks, f"{codes}\n" + "\n".join(said)
    return said


class Benchmark(unittest.TestCase):
    """DDLB's commands with two ranks."""

    def expect_row(self, row, option):
        expected = {"option": option, "valid": "True", "world_size": str(RANKS)}
        self.assertEqual({key: row[key] for key in expected}, expected)
        self.assertGreater(float(row["mean_time (ms)"]), 0)
        self.assertGreater(float(row["Throughput (TFLOPS)"]), 0)

    def rows(self, name):
        with open(os.path.join(COPY, name), encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def expect_quiet(self, said):
        for text in said:
            for words in ("Validation failed", "Traceback", "Exception ignored"):
                self.assertNotIn(words, text)

    def test_columnwise(self):
        said = run(["ddlb/cli/benchmark.py", "--primitive", "tp_columnwise", "-m", "48", "-n", "40",
                    "-k", "256", "--dtype", "float32", "--num-iterations", "3", "--num-warmups",
                    "1", "--output-csv", "columnwise.csv", "--impl",
                    "braid;schedule=auto,none;seconds=0.2"])
        self.expect_quiet(said)
        rows = self.rows("columnwise.csv")
        self.assertEqual([row["implementation"] for row in rows],
                         [f"braid (schedule={each}, seconds=0.2)" for each in ("auto", "none")])
        for row, schedule in zip(rows, ("auto", "none")):
            self.expect_row(row, f"schedule={schedule}, seconds=0.2")
        chosen = [text.count("braid: BraidTPColumnwise of float32 48 x 40 x 256 uses")
                  for text in said]
        self.assertEqual(chosen, [1] + [0] * (RANKS - 1))

    def run_file(self, name, primitive, implementations):
        """Runs a benchmark file and returns the output of the ranks. The rows are in NAME.csv."""
        write(os.path.join(COPY, f"{name}.json"), json.dumps({"benchmark": {
            "primitive": primitive, "m": [48], "n": [40], "k": [256], "dtype": "bfloat16",
            "validate": True, "num_iterations": 3, "num_warmups": 1, "output_csv": f"{name}.csv",
            "time_measurement_backend": "cuda_event" if ON_GPU else "cpu_clock",
            "implementations": implementations}}))
        return run(["scripts/run_benchmark.py", f"{name}.json"])

    def test_rowwise(self):
        self.expect_quiet(self.run_file("rowwise", "tp_rowwise", {
            "braid": [{"schedule": ["auto", "none"], "seconds": 0.2}]}))
        rows = self.rows("rowwise.csv")
        self.assertEqual(len(rows), 2)
        for row, schedule in zip(rows, ("auto", "none")):
            self.expect_row(row, f"schedule={schedule}, seconds=0.2")


class Alone(unittest.TestCase):
    def test_says_that_ddlb_is_missing(self):
        code = ("try:\n    import braid.ddlb\nexcept ImportError as error:\n"
                "    print(error.name, error)")
        ran = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=FOLDER),
                             cwd=os.sep, stdout=subprocess.PIPE, text=True, timeout=SECONDS,
                             check=True)
        self.assertRegex(ran.stdout, r"^ddlb braid\.ddlb requires the package ddlb \(github\.com/"
                                     r"samnordmann/ddlb\), which could not be imported: ")


def main():
    global COPY
    reason = why_skipped()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="braid_ddlb_") as COPY:
        copy_ddlb(COPY)
        return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
