#!/usr/bin/env python3
"""p2p_command_test.py P2P_FAULTY: the command on CPU ranks whose links have faults: its exit codes,
what it writes, and that nothing is left of it, also if it is interrupted."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
LARGE = 1 << 20
FLAGS = ["--sizes", f"4096,{LARGE}", "--paths", "put-engine,get-engine", "--timeout-ms", "1500"]


def fault(kind, source, destination, path, factor=1, size=LARGE, count=0, offset=0):
    """As FaultyLinks reads it; paths are 0 put, 1 get, 2 host, 3 all."""
    return f" {kind} {source} {destination} {path} {factor} {size} {count} {offset}"


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.json = os.path.join(self.folder.name, "pairs.json")
        meeting = os.path.join(self.folder.name, "m")
        os.mkdir(meeting, 0o700)
        self.meeting = meeting

    def tearDown(self):
        self.assertEqual(os.listdir(self.meeting), [])
        self.assertEqual(self.processes(), [])
        self.folder.cleanup()

    def environment(self, faults):
        return dict(os.environ, TMPDIR=self.meeting, XDG_RUNTIME_DIR=self.meeting,
                    BRAID_TEST_LINKS="300 500 0" + faults)

    def processes(self):
        """Those of this test that are there."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.meeting.encode() in file.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    def start(self, ranks, faults="", *flags):
        return subprocess.Popen(
            [PROGRAM, "p2p", "--ranks", str(ranks), "--json", self.json, *FLAGS, *flags],
            env=self.environment(faults), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)

    def report(self):
        """What was written, and what of it is no measurement."""
        with open(self.json, encoding="utf-8") as file:
            report = json.load(file)
        outcomes = {(pair["source"], pair["destination"], path): values["outcome"]
                    for pair in report["pairs"] for path, values in pair["paths"].items()}
        return report, {key: outcome for key, outcome in outcomes.items() if outcome != "measured"}

    def run_it(self, ranks, faults=""):
        process = self.start(ranks, faults)
        self.out, self.err = process.communicate(timeout=120)
        return process.returncode, *self.report()

    def test_slow_is_fine(self):
        code, _, wrong = self.run_it(3, fault("slow", 0, 2, 3, 16))
        self.assertEqual((code, wrong), (0, {}))
        self.assertIn("from device 0 to device 2", self.out)

    def test_wrong_data(self):
        code, report, wrong = self.run_it(2, fault("flip", 1, 0, 0, offset=77777))
        self.assertEqual((code, wrong), (1, {(1, 0, "put-engine"): "wrong-data"}))
        found = report["pairs"][1]["paths"]["put-engine"]["wrong"]
        self.assertEqual((found["bytes"], found["offset"]), (LARGE, 77777))
        self.assertEqual(found["expected"] ^ found["got"], 0x10)

    def test_wrong_data_while_all_run(self):
        code, report, wrong = self.run_it(3, fault("flip-together", 1, 0, 0, offset=77))
        self.assertEqual((code, wrong), (1, {(1, 0, "put-engine"): "wrong-data"}))
        self.assertTrue(report["pairs"][2]["paths"]["put-engine"]["wrong"]["together"])
        self.assertRegex(self.out, r"by put-engine\s+while all pairs run")

    def test_a_bridge(self):
        code, report, wrong = self.run_it(4, "".join(
            fault("bridge", source, destination, 0, 80)
            for source, destination in ((0, 1), (1, 0), (2, 3), (3, 2))))
        self.assertEqual((code, wrong), (0, {}))
        verdicts = [(verdict["kind"], verdict["source"], verdict["other"]["source"])
                    for verdict in report["verdicts"]]
        self.assertEqual(verdicts, [("shared-bridge", 0, 2)])
        # Of one direction, where a busy machine has the other one look well.
        self.assertRegex(self.out, r"slow\s+transfers (between devices|from device) 0 "
                                   r"(and|to device) 1 and those (between|from)\s")

    def test_crash(self):
        code, _, wrong = self.run_it(2, fault("exit", 0, 1, 1))
        self.assertEqual((code, wrong), (5, {(0, 1, "get-engine"): "crashed"}))

    def test_hang_costs_one_limit(self):
        begin = time.monotonic()
        code, _, wrong = self.run_it(2, fault("hang", 0, 1, 0))
        self.assertEqual((code, wrong), (6, {(0, 1, "put-engine"): "hung"}))
        self.assertLess(time.monotonic() - begin, 1.5 + 8)

    def test_the_worst_counts(self):
        faults = fault("hang", 0, 1, 0) + fault("crash", 1, 0, 0)
        code, _, wrong = self.run_it(2, faults)
        self.assertEqual(code, 5)
        self.assertEqual(wrong, {(0, 1, "put-engine"): "hung", (1, 0, "put-engine"): "crashed"})
        code, _, _ = self.run_it(2, faults + fault("flip", 1, 0, 1))
        self.assertEqual(code, 1)

    def test_a_link_that_hangs_on_every_path(self):
        """The first costs the limit, the others little."""
        begin = time.monotonic()
        code, _, wrong = self.run_it(2, fault("hang", 1, 0, 3))
        self.assertEqual(code, 6)
        self.assertEqual(set(wrong), {(1, 0, "put-engine"), (1, 0, "get-engine")})
        self.assertLess(time.monotonic() - begin, 2 * 1.5 + 8)

    def interrupt(self, number, code, *flags):
        process = self.start(5, "", *flags)
        for line in process.stderr:
            if line.startswith("braid: 3 of "):
                break
        process.send_signal(number)
        self.out, self.err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code)
        return self.out

    def expect_partial(self, text):
        pairs = json.loads(text)["pairs"]
        self.assertEqual(pairs[0]["paths"]["put-engine"]["outcome"], "measured")
        self.assertNotIn("put-engine", pairs[-1]["paths"])

    def test_interrupt_replaces_no_file(self):
        """Files of an earlier, complete run stay; what there is is beside them."""
        files = {flag: os.path.join(self.folder.name, "pairs" + flag.replace("--", "."))
                 for flag in ("--json", "--html", "--svg")}
        for file in files.values():
            with open(file, "w", encoding="utf-8") as older:
                older.write("complete")
        out = self.interrupt(signal.SIGINT, 130, "--html", files["--html"], "--svg", files["--svg"])
        self.assertIn("5 devices of", out)
        for file in files.values():
            with open(file, encoding="utf-8") as older:
                self.assertEqual(older.read(), "complete")
            self.assertIn(f"braid: what had been measured is in '{file}.partial'; '{file}' is as "
                          "it was\n", self.err)
        for flag, beginning in (("--html", "<!DOCTYPE html>"), ("--svg", "<svg")):
            with open(files[flag] + ".partial", encoding="utf-8") as partial:
                self.assertTrue(partial.read().startswith(beginning))
        with open(self.json + ".partial", encoding="utf-8") as partial:
            self.expect_partial(partial.read())

    def test_terminate(self):
        """Nor does a file come to be that looks like a complete one."""
        self.interrupt(signal.SIGTERM, 143)
        self.assertEqual(set(os.listdir(self.folder.name)), {"m", "pairs.json.partial"})

    def test_interrupt_into_a_pipe(self):
        self.json = "-"
        self.expect_partial(self.interrupt(signal.SIGINT, 130))

    def suspend(self, stop, go_on):
        """At several pairs, for longer than the time limit, as by Ctrl-Z and fg in a shell."""
        process = self.start(3)
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith(("braid: 1 of ", "braid: 3 of ", "braid: 4 of ")):
                time.sleep(0.3)  # somewhere in its middle
                stop(process.pid)
                time.sleep(2.5)
                go_on(process.pid)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + "".join(said))
        report, wrong = self.report()
        self.assertEqual((wrong, report["together"]["outcome"]), ({}, "measured"))
        for pair in report["pairs"]:
            for path in pair["paths"].values():
                self.assertEqual([point[0] for point in path["points"]], [4096, LARGE])

    def test_a_suspended_job_goes_on(self):
        self.suspend(lambda pid: os.killpg(pid, signal.SIGSTOP),
                     lambda pid: os.killpg(pid, signal.SIGCONT))

    def test_a_suspended_command_goes_on(self):
        """Its processes run on, and wait for it in vain."""
        self.suspend(lambda pid: os.kill(pid, signal.SIGSTOP),
                     lambda pid: os.kill(pid, signal.SIGCONT))


if __name__ == "__main__":
    unittest.main()
