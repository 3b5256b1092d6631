#!/usr/bin/env python3
"""launch_test.py BRAID [PATTERN]: tests how jobs of several processes start and end.

Runs every test whose name contains PATTERN. Most tests start a job with `braid run` and then
disturb it. No process and no temporary file may remain after a test. Exit status 77 means that all
tests were skipped; the reasons are printed.
"""
import contextlib
import ctypes
import errno
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BRAID = os.path.abspath(sys.argv[1])
MARK = "BRAID_LAUNCH_TEST_MARK"
SECONDS = 30  # limit for jobs that take less than one second on an idle machine
FOREIGN = re.compile(r"^(BRAID_|OMPI_|PMI|SLURM_|MPI_|TORCHELASTIC_|(RANK|WORLD_SIZE|LOCAL_RANK|"
                     r"LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT)$)")
ENDLESS = ["examples/ag_matmul.braid", "--set", "D=4", "--set", "M=64", "--set", "K=64",
           "--set", "N=64", "--iterations", "1000000000", "--no-check"]

# Open MPI requires both variables.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Skipped(Exception):
    pass


class Job:
    """The folder and environment of a test's commands, which identify anything left behind."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="bl", dir="/tmp")
        self.mark = os.path.basename(self.folder)
        self.environment = {k: v for k, v in os.environ.items() if not FOREIGN.match(k)}
        # Measurements are not saved unless a test sets another folder.
        self.environment.update({"TMPDIR": self.folder, MARK: self.mark, "BRAID_CACHE_DIR": "none"})
        self.started = []

    def start(self, *arguments, command=(BRAID, "run"), variables=None, **options):
        process = subprocess.Popen(
            list(command) + [str(a) for a in arguments],
            env=dict(self.environment, **(variables or {})), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            **{"stdin": subprocess.DEVNULL, **options})
        self.started.append(process)
        return process

    def run(self, *arguments, **options):
        return finish(self.start(*arguments, **options))

    def processes(self):
        """Maps the processes that the test started to their environments."""
        found = {}
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    entries = file.read().decode(errors="replace").split("\0")
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    state = file.read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            environment = dict(e.split("=", 1) for e in entries if "=" in e)
            if environment.get(MARK) == self.mark and state not in "ZX":
                found[int(name)] = environment
        return found

    def ranks(self, count):
        """Waits until all ranks have joined and prepared, and maps them to their process ids. If a
        rank is killed earlier, the job notices this only after the timeout for joining."""
        def find():
            ranks = {int(e["BRAID_RANK"]): pid for pid, e in self.processes().items()
                     if "BRAID_RANK" in e}
            return ranks if len(ranks) == count and all(map(has_arena, ranks.values())) else None
        return wait_for(find, f"{count} ranks that are prepared")

    def end(self, isJudged=True):
        """Removes what the test left behind. If `isJudged`, fails if the test left any files."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
        try:
            wait_for(lambda: not self.processes(), "all processes to end", 10)
        finally:
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
            for process in self.started:
                process.communicate()
        left = [os.path.join(folder, name) for folder, folders, names in os.walk(self.folder)
                for name in folders + names]
        shutil.rmtree(self.folder)
        check(not left or not isJudged, f"expected no files to be left, got {left}")


def has_arena(pid):
    """Returns True if a process has memory that its peers can map."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return "braid-arena" in file.read()
    except OSError:
        return False


class Result:
    def __init__(self, process, out, err):
        self.code, self.out, self.err = process.returncode, out, err

    def expect(self, code, *patterns, stream="err"):
        text = self.out if stream == "out" else self.err
        said = f"exit status {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"
        check(self.code == code, f"expected exit status {code}, got {said}")
        for pattern in patterns:
            check(re.search(pattern, text, re.MULTILINE), f"expected /{pattern}/, got {said}")
        return self

    def expect_exact(self):
        return self.expect(0, r"compared +[1-9]\d* elements with the reference for .*: all equal",
                           stream="out")


def finish(process):
    out, err = process.communicate(timeout=SECONDS)
    return Result(process, out or "", err)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def wait_for(condition, what, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not (value := condition()):
        check(time.monotonic() < end, f"expected {what}, in vain for {seconds} s")
        time.sleep(0.01)
    return value


def stop(pid):
    """Stops all threads of a process and waits until they have stopped. After SIGSTOP is sent,
    threads may continue for a while."""
    def states():
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):  # the thread has ended
                with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8") as file:
                    yield file.read().rpartition(")")[2].split()[0]
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: set(states()) <= {"T", "Z"}, "all threads to stop")


# A job name that no other test on this machine uses.
BY_HAND = f"by hand {os.getpid()}"


def by_hand(rank, ranks=2, job=BY_HAND):
    return {"BRAID_RANK": str(rank), "BRAID_RANKS": str(ranks), "BRAID_JOB": job}


def without_progress(err):
    """Removes the progress lines that the command prints on a loaded machine."""
    return re.sub(r"^braid: run: .*\n", "", err, flags=re.MULTILINE)


# -- Ranks started by Braid's launcher. --

def test_killed_rank_is_the_cause(job):
    launcher = job.start("--processes", "--flight-records", "none", *ENDLESS)
    os.kill(job.ranks(4)[2], signal.SIGKILL)
    result = finish(launcher)
    result.expect(5, r"^braid: error: rank 2 was killed by signal 9 \(Killed\)",
                  r"^rank 2: killed by signal 9 \(Killed\)$")
    check(result.err.count("braid: error") == 1, f"expected one cause, got {result.err}")


def test_stopped_rank_is_blamed_and_killed(job):
    launcher = job.start("--processes", "--timeout-ms", 3000, "--flight-records", "none", *ENDLESS)
    os.kill(job.ranks(4)[1], signal.SIGSTOP)
    finish(launcher).expect(6, r"^braid: error: .*rank 1 ",
                            r"^rank 1: killed by signal 9 \(Killed\), because it did not exit")


def test_suspended_job_goes_on(job):
    """Suspends the job for longer than the timeout and resumes it, like Ctrl-Z and fg."""
    launcher = job.start("--processes", "--timeout-ms", 1000, *ENDLESS, start_new_session=True)
    job.ranks(4)
    os.killpg(launcher.pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.killpg(launcher.pid, signal.SIGCONT)
    time.sleep(2.5)
    check(launcher.poll() is None, "expected the job to go on")
    launcher.send_signal(signal.SIGINT)
    finish(launcher).expect(130, r"^braid: error: interrupted by signal 2 ")


def test_flight_records_of_all_ranks(job):
    folder = os.path.join(job.folder, "records")
    launcher = job.start("--processes", "--flight-records", folder, *ENDLESS)
    os.kill(job.ranks(4)[3], signal.SIGKILL)
    records = os.path.join(folder, "host0.txt")
    finish(launcher).expect(5, f"^braid: wrote flight records of 4 ranks; to read them, run "
                               f"braid explain {records}")
    job.run(records, command=(BRAID, "explain")).expect(0, "rank 3 was killed", stream="out")
    shutil.rmtree(folder)


def test_interrupts(job):
    """Sends a signal to the launcher only, or, like Ctrl-C, to its whole group, including ranks."""
    for number in (signal.SIGINT, signal.SIGTERM):
        for send in (os.kill, os.killpg):
            # A separate process group, as a shell would create it.
            launcher = job.start("--processes", *ENDLESS, start_new_session=True)
            job.ranks(4)
            send(launcher.pid, number)
            result = finish(launcher)
            result.expect(128 + number, rf"^braid: error: interrupted by signal {number} ")
            check(without_progress(result.err).count("\n") == 1,
                  f"expected one line, got {result.err}")


def test_signals_end_stopped_ranks(job):
    for signals in ((signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM)):
        launcher = job.start("--processes", *ENDLESS)
        for pid in job.ranks(4).values():
            stop(pid)  # so that no rank can exit on its own
        for number in signals:
            launcher.send_signal(number)
        finish(launcher).expect(143, r"interrupted by signal 15")


def test_launcher_killed_at_any_moment(job):
    for milliseconds in (0, 5, 10, 20, 40, 80, None):
        launcher = job.start("--processes", *ENDLESS)
        if milliseconds is None:
            job.ranks(4)
        else:
            time.sleep(milliseconds / 1000)
        launcher.kill()
        launcher.wait()
        wait_for(lambda: not job.processes(), "the ranks to end with their launcher")


def test_ignored_ends_of_children(job):
    """The launcher works even if it is started with SIGCHLD ignored."""
    job.run("examples/by_hand.braid", "--processes", "--verify",
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)).expect_exact()


def torchrun(rank, ranks, job):
    """Returns torchrun's variables; torchrun itself would need PyTorch."""
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": job.mark}


def test_ranks_of_another_launcher_start_no_jobs(job):
    run = ("examples/ag_matmul.braid", "--ranks", 2, "--processes")
    job.run(*run, variables=torchrun(1, 2, job)).expect(
        2, r"^braid: error: --processes cannot be combined with another launcher, but "
           r"torchrun specifies rank 1 of 2; omit --processes to run as that rank, "
           r"or "
           r"unset RANK, WORLD_SIZE$")
    job.run(*run, variables=by_hand(0)).expect(2, r"rank 0 of 2.* unset BRAID_RANK, BRAID_RANKS$")
    job.run(*run, variables={"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0",
                             "MPI_LOCALNRANKS": "3"}).expect(
        2, r"but PMI: expected the same number of ranks on each host, .* unset PMI_RANK, PMI_SIZE$")
    mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if mpirun:
        job.run(*run, command=(mpirun, "--oversubscribe", "-n", "2", BRAID, "run"),
                variables=AS_ROOT).expect(2, r"but Open MPI specifies rank [01] of 2;")


def test_container_with_variables_of_one_rank(job):
    alone = torchrun(0, 1, job)
    job.run("examples/ag_matmul.braid", "--ranks", 4, "--processes", "--verify",
            variables=alone).expect_exact()
    job.run("examples/ag_matmul.braid", "--ranks", 4, variables=alone).expect(
        2, r"--ranks is 4, but torchrun sets 1; leave out --ranks, add --processes, "
           r"or unset RANK, WORLD_SIZE$")


def test_rank_killed_when_the_run_is_complete(job):
    """Rank 0 blocks because its output is not read. The job succeeds even if rank 0 is killed."""
    for kills in (True, False):
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        with subprocess.Popen([BRAID, "run", "examples/by_hand.braid", "--processes"],
                              env=job.environment, stdin=subprocess.DEVNULL, stdout=writer,
                              stderr=subprocess.PIPE, text=True) as launcher:
            os.close(writer)
            seen = {}

            def only_rank_0():
                ranks = {int(e["BRAID_RANK"]): pid for pid, e in job.processes().items()
                         if "BRAID_RANK" in e}
                seen.update(ranks)
                return len(seen) == 8 and list(ranks) == [0]
            wait_for(only_rank_0, "all ranks but rank 0 to end")
            if kills:
                os.kill(seen[0], signal.SIGKILL)
            os.set_blocking(reader, True)
            with open(reader, encoding="utf-8") as file:
                out = file.read().lstrip("x")
            err = launcher.communicate(timeout=SECONDS)[1]
        if kills:
            Result(launcher, out, err).expect(
                0, "^braid: warning: the run completed, but a rank failed afterwards: "
                   "rank 0: killed by signal 9")
        else:
            Result(launcher, out, err).expect(0, r"^@by_hand on 8 ranks", stream="out")
            check(without_progress(err) == "", f"expected no warning, got {err}")


# -- Ranks that choose their schedule. --

SMALL = ["examples/ag_matmul.braid", "--set", "M=96", "--set", "K=16", "--set", "N=16",
         "--schedule", "auto"]
# The trials are long enough to be interrupted, so the runs that follow are never reached.
TRIALS = ["examples/ag_matmul.braid", "--set", "M=1152", "--set", "K=64", "--set", "N=64",
          "--schedule", "auto", "--time-best", "1000000", "--explain", "--flight-records", "none",
          "--iterations", "1000000000"]


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def test_choosing_starts_ranks_once(job):
    launcher = job.start(*SMALL, "--ranks", 3, "--processes", "--auto-seconds", 0.3, "--verify")
    own = "".join(argument + "\0" for argument in launcher.args).encode()
    ranks, jobs, lines = set(), set(), set()
    while launcher.poll() is None:
        for pid, environment in job.processes().items():
            if "BRAID_RANK" in environment:
                ranks.add(pid)
                jobs.add(environment["BRAID_JOB"])
                lines.add(command_line(pid) or own)
    finish(launcher).expect_exact()
    check(len(ranks) == 3 and len(jobs) == 1, f"expected 3 processes of a job, got {ranks}, {jobs}")
    check(lines == {own}, f"expected them to have the launcher's command line, got {lines}")


def test_two_jobs_choose_at_once(job):
    folder = os.path.join(job.folder, "measurements")
    variables = {"BRAID_CACHE_DIR": folder}
    jobs = [job.start(*SMALL, "--ranks", 2, "--processes", "--verify", variables=variables)
            for _ in range(3)]
    for process in jobs:
        result = finish(process).expect_exact()
        check(without_progress(result.err) == "", f"expected no warning, got {result.err}")
    job.run(*SMALL, "--ranks", 2, "--processes", variables=variables).expect(
        0, "chosen earlier on this machine", stream="out")
    shutil.rmtree(folder)


def test_killed_rank_after_choosing(job):
    """Once a schedule is chosen, the launcher has the program and can name the ranks' commands."""
    launcher = job.start("--ranks", 2, "--processes", "--time-best", 0, "--iterations", 1000000000,
                         "--no-check", "--explain", *SMALL)
    while not (line := launcher.stderr.readline()).startswith("  model:"):
        check(line, "expected a choice")
    time.sleep(0.5)
    os.kill(job.ranks(2)[1], signal.SIGKILL)
    finish(launcher).expect(5, r"^braid: error: rank 1 was killed by signal 9",
                            r"examples/ag_matmul.braid:\d+:\d+, run \d+")
    shutil.rmtree(next(e.path for e in os.scandir(job.folder) if "flight" in e.name))


def test_no_room_for_processes(job):
    """When no further process can be started, the ranks that were started must end."""
    braid = os.path.join(job.folder, "braid")
    shutil.copy(BRAID, braid)
    os.chmod(job.folder, 0o777)

    def limit():
        if os.geteuid() == 0:  # root's processes are not limited
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (5, 5))
    result = finish(job.start("examples/matmul_local.braid", "--ranks", 32, "--processes",
                              command=(braid, "run"), preexec_fn=limit))
    os.unlink(braid)
    result.expect(4, r"^braid: error: starting rank \d+: cannot start another process: ")


def test_no_room_for_arguments(job):
    """The launcher's environment just fits. A rank has more variables, so its exec() fails."""
    def limit():
        # The kernel limits arguments and environment to a quarter of the stack limit.
        resource.setrlimit(resource.RLIMIT_STACK, (512 << 10, 512 << 10))
    for filler in range(131072, 0, -64):
        try:
            process = job.start("examples/matmul_local.braid", "--ranks", 2, "--processes",
                                variables={"FILLER": "x" * filler}, preexec_fn=limit)
            break
        except OSError as error:
            check(error.errno == errno.E2BIG, f"expected variables that do not fit, got {error}")
    finish(process).expect(4, r"^braid: error: starting rank [01]: cannot start another process: "
                              r"Argument list too long$")


def test_little_room_for_addresses(job):
    """The address space suffices for each rank to map the memory of all ranks."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1536 << 20, 1536 << 20))
    finish(job.start("examples/ag_matmul.braid", "--ranks", 8, "--processes", "--verify", "--set",
                     "M=64", "--set", "K=64", "--set", "N=64", preexec_fn=limit)).expect_exact()


# -- Ranks that are stopped before they join. --

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_O_TRACEFORK, WAIT_ALL = 17, 0x4206, 2, 0x40000000


def ptrace(request, pid, data=0):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, ctypes.c_void_p(data)) != 0:
        raise Skipped(f"expected to trace a child, got '{os.strerror(ctypes.get_errno())}'")


def start_with_first_rank_stopped(job, milliseconds):
    """Starts a launcher whose first rank stops when fork() returns."""
    launcher = job.start("-", "--processes", "--ranks", 2, "--timeout-ms", milliseconds,
                         stdin=subprocess.PIPE)
    ptrace(PTRACE_SEIZE, launcher.pid, PTRACE_O_TRACEFORK)
    with open("examples/matmul_local.braid", encoding="utf-8") as file:
        launcher.stdin.write(file.read())
    launcher.stdin.close()
    launcher.stdin = None
    # As a tracee, the launcher stops when it forks, and the child stops when it starts.
    (rank,) = {os.waitpid(-1, WAIT_ALL)[0] for _ in range(2)} - {launcher.pid}
    os.kill(rank, signal.SIGSTOP)
    ptrace(PTRACE_DETACH, rank)
    ptrace(PTRACE_DETACH, launcher.pid)
    return launcher


def test_rank_that_is_stopped_before_it_begins(job):
    """The error comes from the launcher, which waits for rank 0 to join, or from rank 1."""
    launcher = start_with_first_rank_stopped(job, 1000)
    finish(launcher).expect(6, r"^braid: error: .*"
                            r"(but rank 0 did not$|rank 0 has not joined)",
                            r"^rank 0: killed by signal 9 \(Killed\), because it did not exit")


def test_interrupt_of_a_rank_that_is_stopped_before_it_begins(job):
    launcher = start_with_first_rank_stopped(job, 60000)
    launcher.send_signal(signal.SIGTERM)
    finish(launcher).expect(143, r"^braid: error: interrupted by signal 15 ")


def test_no_proc(job):
    hide = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
            'mount -t tmpfs none /proc && exec "$@"', "sh")
    if subprocess.run(hide + ("true",), stderr=subprocess.DEVNULL).returncode != 0:
        raise Skipped("expected a namespace to hide /proc in")
    job.run("examples/matmul_local.braid", "--processes", command=hide + (BRAID, "run")).expect(
        4, r"^braid: error: /proc must be mounted \(mount -t proc proc /proc\) to start ranks as "
           r"processes: ")


def test_prefixes_keep_streams_apart(job):
    launcher = job.start("--processes", "--prefix-output", "--flight-records", "none", *ENDLESS)
    os.kill(job.ranks(4)[1], signal.SIGKILL)
    result = finish(launcher).expect(5, r"^braid: error: rank 1 was killed")
    check(result.out == "", f"expected nothing on stdout, got {result.out}")


def test_prefixed_output_that_is_lost(job):
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(
            [BRAID, "run", "examples/ag_matmul.braid", "--ranks", "2", "--processes",
             "--prefix-output"], env=job.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=full, stderr=subprocess.PIPE)
        job.started.append(process)
        finish(process).expect(4, r"cannot write the output of the ranks: No space left on device$")


# -- Ranks started by hand. --

def test_ranks_by_hand(job):
    for order in ((0, 1), (1, 0)):
        ranks = {}
        for rank in order:
            ranks[rank] = job.start("examples/ag_matmul.braid", "--verify", "--explain",
                                    variables=by_hand(rank))
            time.sleep(0.05)
        finish(ranks[0]).expect_exact().expect(0, r"^  ranks +rank 0 of 2: from BRAID_\*$",
                                               stream="out")
        other = finish(ranks[1]).expect(0)
        printed = other.out + without_progress(other.err)
        check(printed == "", f"expected rank 1 to print nothing, got {printed}")


def test_rank_0_checks_for_all(job):
    ranks = [job.start("tests/tools/deadlock.braid", variables=by_hand(rank)) for rank in (0, 1)]
    for rank, process in enumerate(ranks):
        finish(process).expect(3, rf"^rank {rank}: braid: error: @deadlock is unsafe \(deadlock\)")


def test_wrong_result_of_one_is_that_of_all(job):
    ranks = [job.start("tests/tools/wrong.braid", "--verify", "--no-check", "--flight-records",
                       "none", variables=by_hand(rank)) for rank in (0, 1)]
    causes = [finish(process).expect(1).err.partition(": braid: ")[2] for process in ranks]
    check(causes[0] == causes[1] and causes[0], f"expected one cause, got {causes}")


def test_different_programs(job):
    ranks = [job.start("examples/ag_matmul.braid", "--set", "M=96", "--schedule", schedule,
                       variables=by_hand(rank, 3))
             for rank, schedule in enumerate(("sequential", "ring", "sequential"))]
    for process in ranks:
        finish(process).expect(2,
                               r"expected all ranks to run the same program, got different ones$",
                               r"ranks 0 and 2: @ag_matmul_sequential \(",
                               r"rank 1: @ag_matmul_ring \(",
                               r"rank 1, line \d+: ")


def test_different_options(job):
    """All ranks report which ranks have different options."""
    for name, values, flags in (
            ("--iterations", (2, 3), (["--iterations", 2], ["--iterations", 3])),
            ("--schedule auto", ("yes", "no"), (SMALL[-2:], ["--schedule", "ring"])),
            ("--reproducible", ("no", "yes"), ([], ["--reproducible"]))):
        ranks = [job.start(*SMALL[:-2], *flags[rank], variables=by_hand(rank)) for rank in (0, 1)]
        for process in ranks:
            finish(process).expect(2, rf"expected all ranks to have the same {name}, got$",
                                   *(rf"rank {rank}: {name} {values[rank]}$" for rank in (0, 1)))


def test_mistake_of_one_rank_ends_all(job):
    ranks = [job.start(file, variables=by_hand(rank))
             for rank, file in enumerate(("examples/ag_matmul.braid", "no-such-file"))]
    for rank, process in enumerate(ranks):
        finish(process).expect(2, rf"^rank {rank}: braid: error: cannot read 'no-such-file'")


def test_number_of_ranks_is_the_launchers(job):
    job.run("examples/ag_matmul.braid", "--ranks", 4, variables=by_hand(0)).expect(
        2, r"^rank 0: braid: error: --ranks is 4, but BRAID_\* sets 2; leave out "
           r"--ranks, or unset BRAID_RANK, BRAID_RANKS$")


def hosts(job):
    """Returns the name of the socket of each process of this test that is listening for ranks,
    keyed by PID."""
    with open("/proc/net/unix", encoding="utf-8") as file:
        sockets = [line.split() for line in file if f" @braid-{os.geteuid()}-" in line]
    listening = {f"socket:[{fields[6]}]": fields[7][1:] for fields in sockets
                 if fields[3] == "00010000"}
    found = {}
    for pid in job.processes():
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        found.update((pid, listening[link]) for link in links if link in listening)
    return found


def expect_all_hear(processes, cause):
    """Expects all processes to end soon with `cause`. Their messages must be equal, unless more
    than one pair of processes can be named."""
    begin = time.monotonic()
    results = [finish(process).expect(2, rf"^rank \d: braid: error: {cause}$")
               for process in processes]
    said = {result.err.partition(": braid: ")[2] for result in results}
    check(len(said) == 1 or len(processes) > 3, f"expected one cause, got {said}")
    check(time.monotonic() - begin < 15, "expected all to end long before the time limit")


TWO_ARE = (r"two processes claim to be rank {} of job '" + BY_HAND + r"': processes \d+ and \d+; "
           r"start each rank once, and give each job its own name \(see braid doctor\)")


def has_spoken(process, seconds=0):
    """Returns a true value if the process has written to stderr or ended."""
    return select.select([process.stderr], [], [], seconds)[0]


def open_gate(gate, process):
    """Writes the program to the FIFO that the process reads, unless the process has failed."""
    def try_to():
        try:
            return has_spoken(process) or [os.open(gate, os.O_WRONLY | os.O_NONBLOCK)]
        except OSError:  # no process reads yet
            return None
    opened = wait_for(try_to, "a rank to read")[0]
    if opened is not process.stderr:
        with open(opened, "wb") as file, open("examples/ag_matmul.braid", "rb") as text:
            file.write(text.read())


def test_two_processes_are_one_rank(job):
    """Two processes have the same rank. The processes start in various orders. The other rank gets
    its program late, so that no job runs before all processes have started."""
    gate = os.path.join(job.folder, "gate")
    os.mkfifo(gate)
    for numbers in ((0, 0), (0, 0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 1), (1, 1, 0)):
        twice = max(numbers, key=numbers.count)
        ranks = [job.start("examples/ag_matmul.braid" if rank == twice else gate,
                           variables=by_hand(rank)) for rank in numbers]
        has_spoken(ranks[numbers.index(twice)], SECONDS)
        for rank, process in zip(numbers, ranks):
            if rank != twice:
                open_gate(gate, process)
        expect_all_hear(ranks, TWO_ARE.format(twice))
    os.unlink(gate)


def test_different_numbers_of_ranks(job):
    for ranks in ((2, 4), (4, 2)):
        for order in ((0, 1), (1, 0)):
            processes = []
            for rank in order:
                processes.append(job.start("examples/ag_matmul.braid",
                                           variables=by_hand(rank, ranks[rank])))
                time.sleep(0.1)
            expect_all_hear(processes, rf"rank 1 reports that job '{BY_HAND}' has {ranks[1]} "
                                       rf"ranks, but rank 0 reports {ranks[0]}")


def test_job_that_runs_is_not_disturbed(job):
    endless = ENDLESS + ["--flight-records", "none"]
    ranks = [job.start(*endless, variables=by_hand(rank, 4)) for rank in range(4)]
    job.ranks(4)
    for rank in (0, 1):
        job.run(*endless, "--timeout-ms", 500, variables=by_hand(rank, 4)).expect(6)
    check(all(rank.poll() is None for rank in ranks), "expected the job to go on")


def test_failed_job_is_no_obstacle_to_the_next(job):
    """A new job starts while a failed job with the same name still waits for its late ranks."""
    failed = job.start("no-such-file", variables=by_hand(0))
    has_spoken(failed, SECONDS)
    ranks = [job.start("examples/ag_matmul.braid", "--verify", variables=by_hand(0))]
    wait_for(lambda: ranks[0].pid in hosts(job), "the other rank 0 to listen")
    ranks.append(job.start("examples/ag_matmul.braid", "--verify", variables=by_hand(1)))
    finish(ranks[0]).expect_exact()
    finish(ranks[1]).expect(0)
    finish(failed).expect(2, r"^rank 0: braid: error: cannot read 'no-such-file'")


def test_suspended_job_of_the_same_name(job):
    """The first rank of a suspended job still listens under the job's name but does not answer."""
    old = job.start("examples/ag_matmul.braid", variables=by_hand(0))
    wait_for(lambda: hosts(job), "the old rank 0 to listen")
    stop(old.pid)
    for rank in (0, 1):
        job.run("examples/ag_matmul.braid", "--timeout-ms", 1000, variables=by_hand(rank)).expect(
            6, rf"^rank {rank}: braid: error: joining as rank {rank} at '@braid-.*', where process "
               rf"{old.pid} is listening: ")
    old.kill()
    old.wait()


def test_default_folders_of_records_are_new(job):
    """Each job gets a new folder for flight records, even if jobs have the same name."""
    folders = []
    for _ in range(2):
        ranks = [job.start("tests/tools/wrong.braid", "--verify", "--no-check",
                           variables=by_hand(rank)) for rank in (0, 1)]
        said = [finish(process).expect(1).err for process in ranks]
        folders += re.findall(r"to read them, run braid explain (\S+)/host0.txt", "".join(said))
    check(len(set(folders)) == 2, f"expected two folders, got {folders}")
    for folder in folders:
        check(os.path.dirname(folder) == job.folder, f"expected it below TMPDIR, got {folder}")
        check(os.listdir(folder) == ["host0.txt"], f"got {os.listdir(folder)}")
        check(os.path.dirname(folder) == job.folder, f"expected it below TMPDIR, got {folder}")
        check(os.stat(folder).st_mode & 0o777 == 0o700, "expected it to be nobody else's")
        shutil.rmtree(folder)


def test_longest_time_limit(job):
    job.run("examples/ag_matmul.braid", "--ranks", 2, "--processes", "--verify", "--timeout-ms",
            2**63 - 1).expect_exact()
    ranks = [job.start("examples/ag_matmul.braid", "--verify", "--timeout-ms", 2**63 - 1,
                       variables=by_hand(rank)) for rank in (0, 1)]
    finish(ranks[0]).expect_exact()
    finish(ranks[1]).expect(0)


def test_missing_rank(job):
    job.run("examples/ag_matmul.braid", "--timeout-ms", 500, variables=by_hand(0)).expect(
        6, r"^rank 0: braid: error: .*rank 1")


def test_missing_host(job):
    job.run("examples/ag_matmul.braid", "--timeout-ms", 500, variables=by_hand(1)).expect(
        6, rf"^rank 1: braid: error: expected the first rank of job '{BY_HAND}' to listen")


def test_killed_ranks_by_hand(job):
    for victim in (0, 1, 2):
        ranks = [job.start(*ENDLESS, "--flight-records", os.path.join(job.folder, "records"),
                           variables=by_hand(rank, 4)) for rank in range(4)]
        job.ranks(4)
        ranks[victim].kill()
        ranks[victim].wait()
        for rank in {0, 1, 2, 3} - {victim}:
            finish(ranks[rank]).expect(5, rf"^rank {rank}: braid: error: .*rank {victim}")
        # Rank 0 writes the records, or another rank if rank 0 is dead.
        records = os.path.join(job.folder, "records")
        job.run(os.path.join(records, "host0.txt"), command=(BRAID, "explain")).expect(
            0, rf"first cause: exit code 5, caused by rank {victim}\n", stream="out")
        check(os.listdir(records) == ["host0.txt"], f"got {os.listdir(records)}")
        shutil.rmtree(records)


def test_torchrun(job):
    ranks = [job.start("examples/ag_matmul.braid", "--verify", variables=torchrun(rank, 4, job))
             for rank in range(4)]
    for process in ranks[1:]:
        finish(process).expect(0)
    finish(ranks[0]).expect_exact()


def test_mpirun(job):
    mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not mpirun:
        raise Skipped("mpirun is not installed")
    command = (mpirun, "--oversubscribe", "-n", "4", BRAID, "run")
    job.run("examples/ag_matmul.braid", "--verify", "--iterations", 3, command=command,
            variables=AS_ROOT).expect_exact()
    job.run("tests/tools/wrong.braid", "--no-check", "--verify", "--flight-records", "none",
            command=(mpirun, "--oversubscribe", "-n", "2", BRAID, "run"),
            variables=AS_ROOT).expect(1, r"^rank [01]: braid: error: rank [01], iteration 0: ")


def main(tests):
    for number in (signal.SIGHUP, signal.SIGINT):  # nohup and background jobs ignore them
        signal.signal(number, signal.SIG_DFL)
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    skipped = failed = passed = 0
    for name, test in list(tests.items()):
        if not name.startswith("test_") or pattern not in name:
            continue
        job, start = Job(), time.monotonic()
        try:
            try:
                test(job)
            except Exception:
                job.end(isJudged=False)  # the first failure is the one to report
                raise
            job.end()
        except Skipped as reason:
            skipped += 1
            print(f"skipped {name}: {reason}")
        except Exception as error:  # so that the other tests can run
            failed += 1
            print(f"FAILED {name}: {error}")
        else:
            passed += 1
            print(f"passed {name} ({time.monotonic() - start:.2f} s)")
        sys.stdout.flush()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed + skipped else 0 if passed else 77)


if __name__ == "__main__":
    main(globals())
