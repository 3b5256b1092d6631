#!/usr/bin/env python3
"""limits_test.py BRAID [PATTERN]: tests how commands end when a resource is exhausted.

Runs each command under each limit: standard output full, closed, or without a reader; little memory
(ulimit -v); a full disk; and SIGHUP, SIGINT and SIGTERM while it is busy. The command must end in
time with an exit status from the README's table, without calling abort() and without leaving files
or processes behind.
"""
import functools
import glob
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

from launch_test import BRAID, ENDLESS, SECONDS, Skipped, check, main, wait_for

AG = "examples/ag_matmul.braid"
TABLE = {0, 1, 2, 3, 4, 5, 6, 70, 129, 130, 143}
BENCH = ["bench", "gather-matmul", "-m", "64", "-n", "64", "-k", "64", "--impl", "pairwise"]

# Commands by name. Each ends on its own, but may need more memory than is available.
COMMANDS = {
    "help": ["--help"],
    "doctor": ["doctor"],
    "compile": ["compile", AG],
    "plan": ["compile", AG, "--emit", "plan"],
    "check": ["check", AG, "--ranks", "64"],
    "explain": ["explain"] + sorted(glob.glob("tests/tools/inputs/records/*.txt")),
    "threads": ["run", AG, "--ranks", "4", "--timeout-ms", "5000"],
    "processes": ["run", AG, "--ranks", "4", "--processes", "--timeout-ms", "5000"],
    "bench": BENCH + ["--iterations", "3", "--timeout-ms", "5000"],
    "calibrate": ["calibrate", "-", "--shapes", "8x8x8", "--timeout-ms", "5000"],
}
# Commands that stay busy until a signal arrives.
BUSY = {
    "compile": ["compile", "-"],
    "check": ["check", "-"],
    "explain": ["explain", "/dev/stdin"],
    "threads": ["run"] + ENDLESS,
    "processes": ["run", "--processes"] + ENDLESS,
    "bench": BENCH + ["--iterations", "100000000", "--row-ms", "0"],
    "calibrate": ["calibrate", "/dev/null", "--shapes", "16384x4096x4096"],
}
NEEDS_MEMORY = {"threads", "processes", "bench", "calibrate"}


def end_of(process, seconds=SECONDS):
    """Waits for the process. Returns its exit status as in a shell, and its stderr output."""
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"expected {process.args} to end within {seconds} s") from None
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    check(code in TABLE, f"expected a status of the table, got {code} from {process.args}: {err}")
    for word in ("LLVM ERROR", "terminate called", "PLEASE submit", "core dumped"):
        check(word not in err, f"expected no '{word}' from {process.args}, got {err}")
    return code, err


def start(job, arguments, **options):
    return job.start(*arguments, command=(BRAID,), **options)


def one_error(err):
    return [line for line in err.splitlines() if "error: " in line]


# -- Standard output. --

def test_full_output_is_said_in_one_line(job):
    for name, arguments in COMMANDS.items():
        with open("/dev/full", "w", encoding="utf-8") as full:
            process = subprocess.Popen([BRAID] + arguments, env=job.environment, text=True,
                                       stdout=full, stderr=subprocess.PIPE)
        code, err = end_of(process)
        check(code == 4, f"{name}: expected 4, got {code}: {err}")
        check(one_error(err) == ["braid: error: cannot write to standard output: "
                                 "No space left on device"], f"{name}: expected one line: {err}")


def test_closed_output_is_said_in_one_line(job):
    for name, arguments in COMMANDS.items():
        process = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" >&-', BRAID] + arguments,
                                   env=job.environment, text=True, stderr=subprocess.PIPE)
        code, err = end_of(process)
        check(code == 4, f"{name}: expected 4, got {code}: {err}")
        check(len(one_error(err)) == 1, f"{name}: expected one line: {err}")


def test_closed_pipe_ends_quietly(job):
    for name, arguments in COMMANDS.items():
        reader, writer = os.pipe()
        os.close(reader)
        process = subprocess.Popen([BRAID] + arguments, env=job.environment, text=True,
                                   stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        code, err = end_of(process)
        check(code == 0, f"{name}: expected 0, got {code}: {err}")
        check("error" not in err, f"{name}: expected no error: {err}")


def test_closed_pipe_ends_long_output_early(job):
    begin = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", '"$0" compile examples/ag_matmul.braid --ranks 1024 --emit plan | head -1',
         BRAID], env=job.environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end_of(process)
    check(time.monotonic() - begin < 5, "expected the end of the reader to end the command")


# -- Memory. --

def under(kilobytes):
    resource.setrlimit(resource.RLIMIT_AS, (kilobytes << 10, kilobytes << 10))


def test_little_memory_is_the_cause_named(job):
    for name, arguments in COMMANDS.items():
        for kilobytes in (60000, 80000, 100000, 150000, 200000, 300000, 400000, 500000):
            process = start(job, arguments, preexec_fn=functools.partial(under, kilobytes))
            code, err = end_of(process)
            said = f"{name} under {kilobytes} KiB: {code}: {err}"
            if name == "doctor":  # reports the problem if it has enough memory to do so
                check(code == 4 and (not err or "out of memory" in err), f"expected 4, got {said}")
                continue
            if code == 0:
                continue
            check(name in NEEDS_MEMORY and code in (4, 5), f"expected 0, got {said}")
            check("memory" in err or "cannot allocate" in err, f"expected the cause, got {said}")


def test_what_cannot_fit_is_refused(job):
    endless = {"compile /dev/zero": 2, "explain /dev/zero": 2,
               "check examples/ag_matmul.braid --runs 100000000": 4,
               "check examples/ag_matmul.braid --set D=4096 --set M=4096": 4}
    for line, expected in endless.items():
        process = start(job, line.split(), preexec_fn=functools.partial(under, 2000000))
        code, err = end_of(process)
        check(code == expected, f"{line}: expected {expected}, got {code}: {err[:300]}")
        check(len(one_error(err)) == 1, f"{line}: expected one line, got {err[:300]}")


def test_endless_input_is_refused(job):
    process = subprocess.Popen(["sh", "-c", 'yes | "$0" compile -', BRAID], env=job.environment,
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    code, err = end_of(process)
    check(code == 2 and "exceeds the limit of 67108864 bytes" in err,
          f"expected 2, got {code}: {err[:300]}")


# -- Disk. --

def on_full_disk(job, arguments, seconds=SECONDS):
    """Runs a command with DISK replaced by a folder that holds 16 KiB. Returns the exit status, the
    stderr output, and the names of the files in the folder."""
    disk = os.path.join(job.folder, "disk")
    os.mkdir(disk)
    script = ('mount -t tmpfs -o size=16k none "$DISK" || exit 99; echo old >"$DISK/old"; '
              '"$@"; code=$?; ls -A "$DISK" >&3; exit $code')
    reader, writer = os.pipe()
    process = subprocess.Popen(
        ["unshare", "-rm", "sh", "-c", script, "sh", BRAID] +
        [a.replace("DISK", disk) for a in arguments],
        env=dict(job.environment, DISK=disk), text=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, preexec_fn=lambda: os.dup2(writer, 3), close_fds=False)
    os.close(writer)
    _, err = process.communicate(timeout=seconds)
    with os.fdopen(reader, encoding="utf-8") as file:
        left = file.read().split()
    shutil.rmtree(disk)
    if process.returncode in (1, 99) and "unshare" in err + script and "old" not in left:
        raise Skipped(f"no file system can be mounted here: {err.strip()}")
    return process.returncode, err, left


def test_full_disk_leaves_nothing(job):
    trace = ["--iterations", "5", "--trace", "DISK/t.json"]  # a trace has 30 kB
    rows = ["--iterations", "3000", "--row-ms", "0", "--json", "DISK/old"]
    shapes = ",".join(f"8x8x{k}" for k in range(1, 300))  # more shapes than fit on the disk
    calibrate = ["calibrate", "DISK/m.json", "--shapes", shapes]
    for arguments in (COMMANDS["threads"] + trace, COMMANDS["processes"] + trace, BENCH + rows,
                      calibrate):
        code, err, left = on_full_disk(job, arguments)
        check(code == 4, f"{arguments}: expected 4, got {code}: {err}")
        check("No space left on device" in err, f"expected the cause, got {err}")
        check(left == ["old"], f"{arguments}: expected nothing new, got {left}")


# -- Signals. --

def signalled(job, name, number):
    is_reading = name in ("compile", "check", "explain")
    process = start(job, BUSY[name], **({"stdin": subprocess.PIPE} if is_reading else {}))
    wait = {"processes": 4, "bench": 2, "calibrate": 2}.get(name)
    if wait:
        wait_for(lambda: len([e for e in job.processes().values() if "BRAID_RANK" in e]) == wait,
                 "ranks")
    time.sleep(0.3)
    process.send_signal(number)
    return end_of(process, 15)


def test_signals_end_every_command(job):
    for name in BUSY:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            code, err = signalled(job, name, number)
            check(code == 128 + number, f"{name}, {number!r}: got {code}: {err}")
            wait_for(lambda: not job.processes(), f"the processes of {name} to end", 10)


def test_a_killed_rank_ends_a_calibration(job):
    for rank in range(2):
        process = start(job, ["calibrate", os.path.join(job.folder, "m.json")] +
                        BUSY["calibrate"][2:])
        os.kill(job.ranks(2)[rank], signal.SIGKILL)
        code, err = end_of(process, 15)
        check(code == 5, f"expected 5, got {code}: {err}")
        check(f"rank {rank} was killed by signal 9" in err, f"expected the cause, got {err}")
        wait_for(lambda: not job.processes(), "the other rank to end", 10)
        check(not os.listdir(job.folder), f"expected no file, got {os.listdir(job.folder)}")


# -- Destinations of files. --

RUN = ["run", AG, "--ranks", "2", "--trace"]


def test_trace_is_written_in_place_where_there_is_no_file(job):
    fifo = os.path.join(job.folder, "fifo")
    os.mkfifo(fifo)
    for options in ([], ["--processes"]):
        process = start(job, RUN + [fifo] + options)
        with open(fifo, encoding="utf-8") as file:
            check('"traceEvents"' in file.read(), "expected a trace from the pipe")
        check(end_of(process)[0] == 0, "expected 0")
    os.remove(fifo)
    code, err = end_of(start(job, RUN + ["/dev/full"]))
    check(code == 4 and "cannot write '/dev/full': No space left on device" in err, err)
    check(os.path.exists("/dev/full") and not os.path.isfile("/dev/full"), "expected the device")
    check(end_of(start(job, RUN + ["/dev/null"]))[0] == 0, "expected 0")


def test_trace_to_standard_output_is_all_that_is_there(job):
    for options in ([], ["--processes"]):
        process = start(job, RUN + ["-"] + options)
        out, err = process.communicate(timeout=SECONDS)
        check(process.returncode == 0 and out.startswith("{") and out.rstrip().endswith("}"), err)
        check("compared" in err, f"expected the summary on stderr, got {err}")
    check(not os.path.exists("-"), "expected no file of that name")


def test_folders_and_links(job):
    code, err = end_of(start(job, RUN + [job.folder]))
    check(code == 4 and "Is a directory" in err, f"expected 4, got {code}: {err}")
    code, err = end_of(start(job, RUN + ["."]))
    check(code == 4 and not os.path.exists("..part"), f"expected 4, got {code}: {err}")
    victim, trace = (os.path.join(job.folder, name) for name in ("victim", "t.json"))
    with open(victim, "w", encoding="utf-8") as file:
        file.write("precious")
    os.symlink(victim, trace + ".part")
    check(end_of(start(job, RUN + [trace]))[0] == 0, "expected 0")
    json = os.path.join(job.folder, "b.json")
    os.symlink(victim, json + ".part")
    check(end_of(start(job, COMMANDS["bench"] + ["--json", json]))[0] == 0, "expected 0")
    with open(victim, encoding="utf-8") as file:
        check(file.read() == "precious", "expected the link's target as it was")
    for name in (victim, trace, trace + ".part", json, json + ".part"):
        os.remove(name)


def test_pipe_without_a_reader_is_not_waited_for_without_end(job):
    fifo = os.path.join(job.folder, "fifo")
    os.mkfifo(fifo)
    code, err = end_of(start(job, RUN + [fifo]), 15)
    os.remove(fifo)
    check(code == 4 and "no process has it open for reading" in err, f"got {code}: {err}")


if __name__ == "__main__":
    main(globals())
