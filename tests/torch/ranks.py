"""Starts ranks for the PyTorch tests: processes of a test script that are connected by gloo.

A part is a function `part_NAME(rank, ranks)` of the script, which each rank calls in a separate
process. The test checks the ranks' output and exit codes.

Importing PyTorch takes longer than most parts. Therefore, main() forks a process, the nursery,
after all imports. The nursery forks the ranks of every part. Each rank exits like a normal Python
process.
"""
import datetime
import json
import os
import signal
import socket
import sys
import tempfile
import time
import unittest

SKIPPED = 77

# PyTorch reads these when it is imported
os.environ.update(BRAID_CACHE_DIR="none", OMP_NUM_THREADS="1")
_nursery = None  # a file for requests to the nursery and its answers
_compiled = None  # folder in which Inductor compiles for all parts


def main(parts, torch):
    """The main function of a test script. `parts` is the script's globals(). Runs the tests whose
    names follow the folder on the command line, or all tests if there are no names."""
    global _nursery, _compiled
    here, there = socket.socketpair()
    if os.fork() == 0:
        here.close()
        part = _raise_ranks(there.makefile("rw"))
        if part is not None:
            _be_rank(parts[f"part_{part}"], torch)
        return
    there.close()
    _nursery = here.makefile("rw")
    # Created after the fork, because ranks would otherwise remove it when they exit.
    _compiled = tempfile.TemporaryDirectory()
    names = [word for word in sys.argv[2:] if word.startswith("Ranks.")]
    unittest.main(argv=[sys.argv[0], *names], verbosity=2)


def run(part, ranks, limit=120, **environment):
    """Runs a part and returns the ranks' exit codes, their output, and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        if "TORCHINDUCTOR_CACHE_DIR" not in environment:  # kernels are cached, graphs are not
            environment.update(TORCHINDUCTOR_CACHE_DIR=_compiled.name,
                               TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
        environment.update(TEST_STORE=os.path.join(folder, "store"), TEST_RANKS=str(ranks))
        begin = time.monotonic()
        json.dump([part, ranks, limit, folder, environment], _nursery)
        _nursery.write("\n")
        _nursery.flush()
        codes = json.loads(_nursery.readline())
        seconds = time.monotonic() - begin
        said = []
        for rank in range(ranks):
            with open(os.path.join(folder, str(rank)), encoding="utf-8", errors="replace") as file:
                said.append(file.read())
        return codes, said, seconds


def again(dist, rank, ranks, suffix, timeout=60):
    """Creates a default group with a separate store, and synchronizes its ranks, because gloo fails
    on a rank that is still connecting when another rank destroys the group."""
    store = dist.FileStore(os.environ["TEST_STORE"] + suffix, ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=timeout))
    dist.barrier()


def _be_rank(part, torch):
    import torch.distributed as dist
    rank, ranks = int(os.environ["TEST_RANK"]), int(os.environ["TEST_RANKS"])
    torch.set_num_threads(1)
    again(dist, rank, ranks, "")
    part(rank, ranks)
    if dist.is_initialized():
        dist.destroy_process_group()


def _raise_ranks(requests):
    """In the nursery, runs parts until the tests end. In a rank, returns the name of its part."""
    for line in requests:
        part, ranks, limit, folder, environment = json.loads(line)
        processes = []
        for rank in range(ranks):
            process = os.fork()
            if process == 0:
                requests.close()
                os.environ.update(environment, TEST_RANK=str(rank))
                _write_to(os.path.join(folder, str(rank)))
                return part
            processes.append(process)
        json.dump(_codes(processes, time.monotonic() + limit), requests)
        requests.write("\n")
        requests.flush()
    return None


def _write_to(path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


def _codes(processes, end):
    """Returns exit codes, negative for signals. Kills processes that are alive at `end`."""
    codes = {}
    while len(codes) < len(processes):
        for process in processes:
            if process not in codes:
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    codes[process] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > end:
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
    return [codes[process] for process in processes]
