#!/usr/bin/env python3
"""p2p_command_test.py P2P_FAULTY: tests `braid p2p` on CPU ranks whose links have faults. Checks
the exit codes and the output files, that each fault and nothing else is reported, and that no
process is left running."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
SMALL, LARGE = 4096, 1 << 20
LIMIT = 10  # in seconds; longer than any measurement of a healthy link on a busy machine
FLAGS = ["--sizes", f"{SMALL},{LARGE}", "--paths", "put-engine,get-engine", "--timeout-ms",
         str(int(1000 * LIMIT))]


def fault(kind, source, destination, path, factor=1, size=LARGE, count=0, offset=0):
    """Returns a fault in the syntax of p2p_faulty."""
    return f" {kind} {source} {destination} {path} {factor} {size} {count} {offset}"


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.json = os.path.join(self.folder.name, "pairs.json")
        self.meeting = os.path.join(self.folder.name, "m")
        os.mkdir(self.meeting, 0o700)

    def tearDown(self):
        self.assertEqual(os.listdir(self.meeting), [])
        self.assertEqual(self.processes(), [])
        self.folder.cleanup()

    def processes(self):
        """Returns the processes of this test that still exist."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.meeting.encode() in file.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    def start(self, ranks, faults="", graphs=0):
        environment = dict(os.environ, TMPDIR=self.meeting,
                           BRAID_TEST_LINKS=f"300 500 {graphs}" + faults)
        return subprocess.Popen(
            [PROGRAM, "p2p", "--ranks", str(ranks), "--json", self.json, *FLAGS], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def paths(self):
        """Returns the measurements in the output file by source, destination and path."""
        with open(self.json, encoding="utf-8") as file:
            return {(pair["source"], pair["destination"], path): values
                    for pair in json.load(file)["pairs"] for path, values in pair["paths"].items()}

    def run_it(self, ranks, faults="", graphs=0):
        """Returns the exit code and the verdicts that are not ok. Paths that are ok or slow must
        have all measurements. Other work on the machine may make any pair slow, so `slow` counts as
        ok unless a fault makes the pair slow."""
        process = self.start(ranks, faults, graphs)
        self.out, self.err = process.communicate(timeout=120)
        paths = self.paths()
        self.assertEqual(len(paths), ranks * (ranks - 1) * 2, self.out + self.err)
        for key, values in paths.items():
            if values["verdict"] in ("ok", "slow"):
                self.assertEqual([point[0] for point in values["points"]], [SMALL, LARGE], key)
        verdicts = {key: values["verdict"] for key, values in paths.items()}
        for source, destination, path in list(verdicts):
            is_slowed = f" slow {source} {destination} {path.split('-')[0]} " in faults
            fine = ("ok",) if is_slowed else ("ok", "slow")
            if verdicts[source, destination, path] in fine:
                del verdicts[source, destination, path]
        return process.returncode, verdicts

    def test_healthy(self):
        for graphs in (0, 1):
            self.assertEqual(self.run_it(3, graphs=graphs), (0, {}))
            for values in self.paths().values():
                small, large = values["points"]
                # A copy takes 300 us plus 2 us per KiB, or longer if the machine is busy.
                self.assertGreater(small[1], 300)
                self.assertLess(large[2], 0.5)
                self.assertGreater(large[2], 0.01)

    def test_slow(self):
        self.assertEqual(self.run_it(3, fault("slow", 0, 2, "put", 16)),
                         (0, {(0, 2, "put-engine"): "slow"}))
        self.assertRegex(self.out, r"0 -> 2 +slow +put-engine +[0-9.]+ GB/s at 1 MiB, expected "
                                   r"about [0-9.]+, the median of similar pairs")

    def test_wrong(self):
        for size, count, offset in ((SMALL, 1, SMALL - 1), (LARGE, 0, 777)):
            self.assertEqual(
                self.run_it(2, fault("flip", 1, 0, "get", size=size, count=count, offset=offset)),
                (1, {(1, 0, "get-engine"): "wrong"}))
            found = self.paths()[1, 0, "get-engine"]["wrong"]
            self.assertEqual((found["bytes"], found["offset"]), (size, offset))
            self.assertEqual(found["expected"] ^ found["got"], 0x10)

    def test_crashed(self):
        for kind, how in (("crash", "was killed by signal 11 (Segmentation fault)"),
                          ("exit", "exited with status 3")):
            self.assertEqual(self.run_it(2, fault(kind, 0, 1, "get")),
                             (5, {(0, 1, "get-engine"): "crashed"}))
            values = self.paths()[0, 1, "get-engine"]
            self.assertRegex(values["reason"],
                             re.escape(f"the process of device 1 {how}") + ".*, at 1 MiB$")
            self.assertEqual([point[0] for point in values["points"]], [SMALL])

    def test_hung(self):
        """A hang is reported when the time limit has passed."""
        begin = time.monotonic()
        self.assertEqual(self.run_it(2, fault("hang", 0, 1, "put")),
                         (6, {(0, 1, "put-engine"): "hung"}))
        self.assertGreater(time.monotonic() - begin, LIMIT)

    def test_several(self):
        """The worst failure determines the exit code. A failure does not prevent the measurement of
        later pairs."""
        self.assertEqual(
            self.run_it(3, fault("hang", 1, 0, "put") + fault("hang", 1, 0, "get") +
                        fault("crash", 0, 1, "put", size=SMALL) + fault("slow", 2, 1, "get", 16)),
            (5, {(1, 0, "put-engine"): "hung", (1, 0, "get-engine"): "hung",
                 (0, 1, "put-engine"): "crashed", (2, 1, "get-engine"): "slow"}))
        self.assertEqual(
            self.run_it(2, fault("crash", 1, 0, "put") + fault("flip", 0, 1, "put")),
            (1, {(1, 0, "put-engine"): "crashed", (0, 1, "put-engine"): "wrong"}))

    def test_interrupted(self):
        """The measurements so far are printed, and no incomplete file is written."""
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process = self.start(5)
            for line in process.stderr:
                if line.startswith("braid: 3 of "):
                    break
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, out + err)
            self.assertIn("bandwidth in GB/s at 1 MiB", out)
            self.assertIn("no file was written", err)
            self.assertEqual(os.listdir(self.folder.name), ["m"])

    def suspend(self, kill):
        """Suspends the command repeatedly for longer than the time limit, like Ctrl-Z and fg."""
        process = self.start(3)
        for line in process.stderr:
            if line.startswith(("braid: 1 of ", "braid: 3 of ")):
                time.sleep(0.3)  # until the measurement has started
                kill(process.pid, signal.SIGSTOP)
                time.sleep(LIMIT + 1)
                kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out)
        verdicts = {values["verdict"] for values in self.paths().values()}
        self.assertLessEqual(verdicts, {"ok", "slow"}, out)

    def test_a_suspended_job_goes_on(self):
        self.suspend(os.killpg)

    def test_a_suspended_command_goes_on(self):
        """The processes that measure are not suspended, and wait for the command."""
        self.suspend(os.kill)


if __name__ == "__main__":
    unittest.main()
