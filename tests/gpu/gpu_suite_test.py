#!/usr/bin/env python3
"""gpu_suite_test.py: run_gpu_tests.py on simulated machines with GPUs, where `braid` is a script
that records its ranks and GPUs. No result may be lost, and no process may remain.
"""
import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(FOLDER, "run_gpu_tests.py")
SMI = """#!/bin/sh
i=0
while [ $i -lt {gpus} ]; do
  case $1 in
  -L) echo "GPU $i: a GPU (UUID: GPU-$i)" ;;
  *name*) echo "a GPU, 1.2" ;;
  *) echo 17 ;;
  esac
  i=$((i + 1))
done
"""
# A simulated `braid` that reports NCCL, and fails with a long output if there are 3 ranks. Like the
# real command, it accepts each flag and each parameter at most once.
NOTES = """#!{python} -IS
import os, sys, time
if sys.argv[1] == "doctor":
    print('{{"lines": [{{"check": "nccl", "line": "found"}}]}}')
    sys.exit()
names = [name for name in sys.argv if name.startswith("--") and name != "--set"]
names += [value.split("=")[0] for flag, value in zip(sys.argv, sys.argv[1:]) if flag == "--set"]
if len(set(names)) < len(names):
    sys.exit(f"expected nothing twice, got {{sys.argv}}")
ranks = int(sys.argv[sys.argv.index("--ranks") + 1])
given = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
given += "/shared" if os.environ.get("BRAID_SHARE_GPUS") == "on" else ""
with open({notes!r}, "a") as file:
    file.write(f"{{ranks}} {{given}}\\n")
if ranks == 3:
    sys.exit("a reason\\n" * 50)
"""
# Like NOTES, but with 4 ranks it prints a line and hangs, as does its child.
HANGS = NOTES + """
if ranks == 4:
    print("so far", flush=True)
    child = os.fork()
    with open({notes!r}, "a") as file:
        file.write(f"hangs {{os.getsid(0)}}\\n")
    time.sleep(1000)
"""
# A simulated gpu_runs whose runs all pass, except that with 4 ranks the third run ends the job.
BATCH = """#!{python}
import json, os, sys
ranks = int(sys.argv[sys.argv.index("--ranks") + 1])
with open(sys.argv[1]) as file:
    runs = json.load(file)
given = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
with open({notes!r}, "a") as file:
    file.write(f"batch {{ranks}} {{len(runs)}} {{given}}\\n")
for run in runs[:2] if ranks == 4 else runs:
    print("passed 0.01", run["name"], flush=True)
if ranks == 4:
    sys.exit("a rank is gone")
"""
HANGING_BATCH = BATCH.replace('sys.exit("a rank is gone")', """
    import time
    with open({notes!r}, "a") as file:
        file.write(f"hangs {{os.getsid(0)}}\\n")
    time.sleep(1000)""")
# A launcher that reports which rank died or stopped; with --graph, it names the wrong rank.
LAUNCHER = """#!{python}
import os, signal, subprocess, sys
ranks = int(sys.argv[sys.argv.index("--ranks") + 1])
processes = [subprocess.Popen(["sleep", "100"], env=dict(os.environ, BRAID_RANK=str(rank)))
             for rank in range(ranks)]
print("braid: run: running, 1 of 100 iterations", flush=True)
pid, _ = os.waitpid(-1, os.WUNTRACED)
rank = [process.pid for process in processes].index(pid)
print(f"braid: error: rank {{7 if '--graph' in sys.argv else rank}} is gone", flush=True)
for process in processes:
    process.kill()
for process in processes:
    process.wait()
os._exit(5)
"""


def check(condition, message):
    if not condition:
        raise AssertionError(message)


class Machine:
    """A machine with some GPUs and a command `braid`. No processes or files remain after `with`."""

    def __init__(self, gpus, braid):
        self.folder = tempfile.TemporaryDirectory()
        self.notes, self.braid = self.path("notes"), self.path("braid")
        self.write(self.braid, braid.format(python=sys.executable, notes=self.notes))
        self.write(self.path("nvidia-smi"), SMI.format(gpus=gpus))
        self.environment = {k: v for k, v in os.environ.items()
                            if k not in ("CUDA_VISIBLE_DEVICES", "BRAID_SHARE_GPUS")}
        self.environment["PATH"] = self.path("") + os.pathsep + os.environ.get("PATH", "")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.hanging():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(self.hanging()), signal.SIGKILL)
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def noted(self):
        with contextlib.suppress(FileNotFoundError), open(self.notes, encoding="utf-8") as file:
            return file.read().splitlines()
        return []

    def hanging(self):
        """Returns the hanging process, or None if it has not started."""
        return next((line.split()[1] for line in self.noted() if line.startswith("hangs")), None)

    def start(self, *flags):
        return subprocess.Popen(
            [sys.executable, SCRIPT, self.braid, "--json", self.path("json"), *flags], text=True,
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *flags):
        return self.end(self.start(*flags))

    def end(self, process):
        out, err = process.communicate(timeout=120)
        check(err == "", f"expected no complaint, got {err}")
        return Outcome(process.returncode, out.splitlines(), self.json())

    def json(self):
        with open(self.path("json"), encoding="utf-8") as file:
            return json.load(file)


class Outcome:
    def __init__(self, code, lines, known):
        self.code, self.lines, self.json = code, lines, known

    def cases(self, word):
        return [line for line in self.lines if re.match(rf"{word} +[0-9.]+ s  exact ", line)]

    def expect(self, passed, failed, skipped):
        """Failures must be in the output lines, in the last line's count, and in the file."""
        words = ("passed", "failed", "skipped")
        counts = [len(self.cases(word)) for word in words]
        check(counts == [passed, failed, skipped], f"expected other outcomes: {self.lines}")
        last = f"{passed} passed, {failed} failed, {skipped} skipped, 0 not run"
        check(self.lines[-1] == last, f"expected '{last}', got '{self.lines[-1]}'")
        other = [line for line in self.lines[1:-1] if line != "a reason"
                 and line not in sum((self.cases(word) for word in words), [])]
        check(not other, f"expected whole lines, got {other}")
        kept = [case["outcome"] for case in self.json["cases"]]
        check([kept.count(word) for word in words] == counts, f"expected them kept, got {kept}")


class Run:
    """One run of the command, parsed from the line that the script recorded."""

    def __init__(self, line):
        ranks, self.devices = line.split()
        self.ranks = int(ranks)

    def __repr__(self):
        return f"{self.ranks} ranks on {self.devices}"


def exact_cases(gpus, *flags):
    """Runs the cases named "exact", which have 2 to 4 ranks. Returns the outcome and the runs."""
    with Machine(gpus, NOTES) as machine:
        outcome = machine.run("--only", "exact", "--commit", "1a2b3c4", *flags)
        check(outcome.json["machine"] == gpus * ["a GPU, 1.2"] and outcome.json["date"]
              and outcome.json["commit"] == "1a2b3c4",
              f"expected when, of what and on what, got {outcome.json}")
        return outcome, [Run(line) for line in machine.noted()]


def counts_of(runs):
    return [sum(run.ranks == ranks for run in runs) for ranks in (2, 3, 4)]


def test_too_few_gpus():
    for gpus in (4, 3):
        outcome, runs = exact_cases(gpus)
        two, three, four = counts_of(runs)
        check(two > 5 and three > 2 and (four > 2) == (gpus == 4), f"expected all sizes: {runs}")
        skipped = outcome.cases("skipped")
        outcome.expect(two + four, three, len(skipped))
        check(bool(skipped) == (gpus < 4), f"expected cases of 4 ranks skipped: {skipped}")
        check(outcome.code == 1, f"expected exit status 1, got {outcome.code}")
        check(all(run.devices == "all" for run in runs), f"expected all GPUs, got {runs}")


def test_shared_gpus():
    """Ranks share GPUs only if there are too few GPUs."""
    for gpus in (1, 3):
        outcome, runs = exact_cases(gpus, "--share-gpus")
        two, three, four = counts_of(runs)
        check(two and three and four, f"expected cases of all sizes, got {runs}")
        outcome.expect(len(runs) - three, three, 0)
        for run in runs:
            expected = "all/shared" if run.ranks > gpus else "all"
            check(run.devices == expected, f"expected {expected}, got {run}")
        shared = [line for line in outcome.cases("passed") if line.endswith(": GPUs shared")]
        expected = sum(run.ranks > gpus and run.ranks != 3 for run in runs)
        check(len(shared) == expected, f"expected {expected} cases to say so: {outcome.lines}")
    outcome, runs = exact_cases(0, "--share-gpus")
    check(outcome.code == 77 and not runs, f"expected nothing to run, got {outcome.lines}")


def test_shared_gpus_and_nccl():
    """NCCL rejects ranks that share a GPU, so cases that use it are skipped with this reason."""
    for gpus, only, cases, word in ((1, "memory vmm gather", 6, "passed"),
                                    (2, "messages 2 gather", 9, "passed"),
                                    (1, "messages 2 gather", 9, "skipped")):
        with Machine(gpus, NOTES) as machine:
            outcome = machine.run("--only", only, "--share-gpus")
            found = [line for line in outcome.lines if line.startswith(word)]
            commands = cases if word == "passed" else 0
            check(len(found) == cases and len(machine.noted()) == commands,
                  f"expected {cases} cases {word}, got {outcome.lines}")
            check(all("NCCL needs one for each" in line for line in found) == (word == "skipped"),
                  f"expected why, got {outcome.lines}")


def test_no_gpus():
    outcome, runs = exact_cases(0)
    check(outcome.code == 77 and not runs, f"expected nothing to run, got {outcome.lines}")
    outcome.expect(0, 0, len(outcome.cases("skipped")))
    check(all("GPUs, 0 are here" in line for line in outcome.cases("skipped")),
          f"expected reasons, got {outcome.lines}")


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"expected {what} within {seconds} s")
        time.sleep(0.02)


def of_session(session):
    """Lists the processes of a session that have not ended."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            state, _, _, of = file.read().rsplit(")", 1)[1].split()[:4]
            if of == session and state != "Z":
                found.append(path)
    return found


def test_killed():
    with Machine(4, HANGS) as machine:
        process = machine.start("--only", "exact")
        wait_until(machine.hanging, "a case of 4 ranks")
        before = machine.json()
        process.send_signal(signal.SIGTERM)
        outcome = machine.end(process)
        wait_until(lambda: not of_session(machine.hanging()), "an end of all that hung", 10)
        passed, failed = len(outcome.cases("passed")), len(outcome.cases("failed"))
        left = len(before["not_run"])
        check(outcome.code == 1, f"expected exit status 1, got {outcome.code}")
        check(passed > 5 and left > 2, f"expected some before and some after: {outcome.lines}")
        check("killed by SIGTERM" in outcome.lines, f"expected why, got {outcome.lines}")
        cut_off = outcome.cases("cut off")
        check(len(cut_off) == 1 and cut_off[0].endswith(": so far"),
              f"expected what hung and what it wrote, got {outcome.lines}")
        last = f"{passed} passed, {failed} failed, 0 skipped, {left} not run"
        check(outcome.lines[-1] == last, f"expected '{last}', got '{outcome.lines[-1]}'")
        check(len(before["cases"]) == passed + failed, "expected each case kept when it ended")
        check(outcome.json["cases"][:-1] == before["cases"] and outcome.json["not_run"]
              == before["not_run"], f"expected them kept to the end, got {outcome.json}")


def test_resumed():
    """A passed case is counted and not run again with --resume; all other cases run."""
    with Machine(4, NOTES) as machine:
        first = machine.run("--only", "exact 4", "--commit", "1a2b3c4")
        passed, before = len(first.cases("passed")), len(machine.noted())
        again = machine.run("--only", "exact", "--commit", "1a2b3c4", "--resume")
        runs = [Run(line) for line in machine.noted()[before:]]
        two, three, four = counts_of(runs)
        check(passed > 2 and two > 5 and three > 2 and four == 0, f"expected the rest, got {runs}")
        last = f"{passed + two} passed, {three} failed, 0 skipped, 0 not run"
        check(again.lines[-1] == last, f"expected '{last}', got '{again.lines[-1]}'")
        names = [case["name"] for case in again.json["cases"]]
        check(len(set(names)) == len(names) == passed + two + three, f"expected all, got {names}")
        failed = machine.run("--only", "exact", "--commit", "1a2b3c4", "--resume")
        check(len(failed.cases("failed")) == three and not failed.cases("passed"),
              f"expected only what failed to run again, got {failed.lines}")
        before = machine.json()
        process = machine.start("--only", "exact", "--commit", "5d6e7f8", "--resume")
        out, err = process.communicate(timeout=60)
        check(process.returncode == 2 and not out and "expected commit 5d6e7f8, got 1a2b3c4" in err,
              f"expected it refused, got {process.returncode}: {out}{err}")
        check(machine.json() == before, "expected the file as it was")


def test_batches():
    """The runs of a batch are one job. The run that ended the job has failed, and later runs
    execute separately. With --resume, the failed run is repeated."""
    with Machine(4, NOTES) as machine:
        machine.write(machine.path("gpu_runs"),
                      BATCH.format(python=sys.executable, notes=machine.notes))
        alone = machine.run("--only", "gpu_runs").lines
        check(alone[1:] == ["0 passed, 0 failed, 0 skipped, 0 not run"],
              f"expected no case of its own, got {alone}")
        outcome = machine.run("--only", "exact")
        batches = [line.split()[1:] for line in machine.noted() if line.startswith("batch")]
        runs = [Run(line) for line in machine.noted() if not line.startswith("batch")]
        sizes = {ranks: sum(int(size) for count, size, _ in batches if int(count) == ranks)
                 for ranks in (2, 3, 4)}
        check(sizes[2] > 50 and sizes[3] > 2 and sizes[4] > 5 and
              all(int(size) <= 32 for _, size, _ in batches),
              f"expected batches for 2, 3 and 4 ranks, got {batches}")
        check({devices for _, _, devices in batches} == {"all"},
              f"expected GPUs as for any other case, got {batches}")
        two, three, four = counts_of(runs)
        check(three == 0 and four >= sizes[4] - 3, f"expected the rest by itself, got {runs}")
        passed = sum(sizes.values()) - (sizes[4] - 2) + two + four
        failed = outcome.cases("failed")
        check(len(outcome.cases("passed")) == passed and len(failed) == 1
              and "exact 4" in failed[0] and "behind 2 others in one job" in failed[0]
              and "a rank is gone" in outcome.lines, f"expected why, got {outcome.lines}")
        check(outcome.code == 1, f"expected exit status 1, got {outcome.code}")
        again = machine.run("--only", "exact", "--resume")
        check(len(again.cases("passed")) == 1 and again.code == 0 and again.lines[-1]
              == f"{passed + 1} passed, 0 failed, 0 skipped, 0 not run",
              f"expected it run again, got {again.lines}")


def test_killed_amid_batch():
    """Cases that passed before the signal are counted, and no case has failed."""
    with Machine(4, NOTES) as machine:
        machine.write(machine.path("gpu_runs"),
                      HANGING_BATCH.format(python=sys.executable, notes=machine.notes))
        process = machine.start("--only", "exact 4")
        wait_until(machine.hanging, "a batch of 4 ranks")
        process.send_signal(signal.SIGTERM)
        outcome = machine.end(process)
        passed, left = len(outcome.cases("passed")), len(outcome.json["not_run"])
        check(passed == 2 and left > 5, f"expected two that passed, got {outcome.lines}")
        last = f"2 passed, 0 failed, 0 skipped, {left} not run"
        check(outcome.lines[-1] == last, f"expected '{last}', got '{outcome.lines[-1]}'")


def test_killed_unnoticed():
    """The file contains the results so far, and the command ends."""
    sys.path.insert(0, FOLDER)
    from gpu_commands import bound_to_us
    with Machine(4, HANGS) as machine:
        process = machine.start("--only", "exact 4")
        wait_until(machine.hanging, "a case of 4 ranks")
        launcher = machine.hanging()
        process.kill()
        process.communicate()
        if bound_to_us():
            wait_until(lambda: not os.path.exists(f"/proc/{launcher}"), "an end of the command", 10)
        known = machine.json()
        check(not known["cases"] and len(known["not_run"]) > 2, f"expected nothing yet: {known}")


def test_faults():
    """Each seed has a case. The launcher names the wrong rank if it receives --graph."""
    with Machine(4, LAUNCHER) as machine:
        outcome = machine.run("--only", "fault", "--fault-seeds", "0-5,7")
    cases = {case["name"]: case for case in outcome.json["cases"]}
    check(list(cases) == [f"fault {seed}" for seed in (0, 1, 2, 3, 4, 5, 7)], f"got {list(cases)}")
    for name, case in cases.items():
        is_late = int(name.split()[1]) % 2 == 1
        check((" while running: " if is_late else " while starting: ") in case["detail"],
              f"expected odd seeds to be late, got {case}")
        is_wrong = " --graph " in case["detail"]
        check((case["outcome"] == "failed") == is_wrong, f"expected otherwise: {case}")
        if is_wrong:
            check(case["detail"].splitlines()[1:] == [
                "braid: run: running, 1 of 100 iterations", "braid: error: rank 7 is gone"]
                and ": wrong: the victim is not named" in case["detail"], f"expected why: {case}")
    outcomes = [case["outcome"] for case in cases.values()]
    check({"passed", "failed"} == set(outcomes), f"expected both kinds, got {outcomes}")


def test_fault_seeds():
    with Machine(4, LAUNCHER) as machine:
        for text in ("", "1-", "3-2", "a", "1;2"):
            process = machine.start("--only", "fault", "--fault-seeds", text)
            _, err = process.communicate(timeout=120)
            says_so = f"expected seeds, such as 8,50-99, got '{text}'" in err
            check(process.returncode == 2 and says_so, f"expected a refusal of '{text}', got {err}")


def test_output_that_stays_open():
    """run() must not wait for grandchildren that keep the output open."""
    sys.path.insert(0, FOLDER)
    from gpu_commands import run
    begin = time.monotonic()
    code, out, _ = run(["sh", "-c", "echo said; sleep 30 & exit 3"], 20)
    check((code, out) == (3, "said\n"), f"expected status 3 and 'said', got {code} and '{out}'")
    try:
        run(["sh", "-c", "echo so far; sleep 30 & sleep 30"], 0.5)
        check(False, "expected no end")
    except TimeoutError as error:
        check(str(error) == "no end within 0.5 s\nso far\n", f"got '{error}'")
    check(time.monotonic() - begin < 15, "expected not to wait for who could write")


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_") and (len(sys.argv) < 2 or sys.argv[1] in name):
            test()
            print(f"passed {name}", flush=True)


if __name__ == "__main__":
    main()
