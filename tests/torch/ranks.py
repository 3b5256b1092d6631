"""Ranks for the tests with PyTorch: processes of a test script, joined by gloo.

A part is a function `part_NAME(rank, ranks)` of the script, which each rank calls in its own
process. What a rank prints and how it ends is the parent's to look at.
"""
import os
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77


def start(torch):
    """In a rank: the default group, by a file that the parent has named."""
    import torch.distributed as dist
    rank, ranks = int(os.environ["TEST_RANK"]), int(os.environ["TEST_RANKS"])
    torch.set_num_threads(1)
    again(dist, rank, ranks, "")
    return rank, ranks


def main(parts, torch):
    """The main function of a test script, whose globals are `parts`. A rank runs its part;
    otherwise all tests run, or those that are named after the folder."""
    if "--part" not in sys.argv:
        names = [word for word in sys.argv[2:] if word.startswith("Ranks.")]
        unittest.main(argv=[sys.argv[0], *names], verbosity=2)
    import torch.distributed as dist
    parts["part_" + sys.argv[-1]](*start(torch))
    if dist.is_initialized():
        dist.destroy_process_group()


def again(dist, rank, ranks, suffix, timeout=60):
    """A default group of so many ranks, meeting at a place of its own. They meet in it, too: gloo
    fails a rank that still connects when another has destroyed the group."""
    import datetime
    store = dist.FileStore(os.environ["TEST_STORE"] + suffix, ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=timeout))
    dist.barrier()


def run(script, arguments, part, ranks, limit=120, **environment):
    """Runs a part on so many ranks: their exit codes, what they said, and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        environment.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(folder, "inductor"))
        processes = []
        begin = time.monotonic()
        for rank in range(ranks):
            mine = dict(os.environ, TEST_RANK=str(rank), TEST_RANKS=str(ranks),
                        TEST_STORE=os.path.join(folder, "store"), BRAID_CACHE_DIR="none",
                        OMP_NUM_THREADS="1", **environment)
            processes.append(subprocess.Popen(
                [sys.executable, script, *arguments, "--part", part], env=mine, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        said = []
        try:
            for each in processes:
                left = max(1.0, limit - (time.monotonic() - begin))
                said.append(each.communicate(timeout=left)[0])
        finally:
            for each in processes:
                each.kill()
        return [each.returncode for each in processes], said, time.monotonic() - begin
