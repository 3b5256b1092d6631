"""If a rank fails, the other ranks get an exception, and Python continues.

usage: failures_test.py FOLDER [--kills N]     (the folder that contains the package)
"""
import datetime
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks as processes  # noqa: E402

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)
KILLS = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 3

try:
    import torch
    import torch.distributed as dist
except ImportError as reason:
    print(f"skipped: expected PyTorch, got: {reason}")
    sys.exit(processes.SKIPPED)

import braid  # noqa: E402
import braid.torch as bt  # noqa: E402

TIMEOUT = 8  # timeout of the groups in seconds


def call(rank, ranks, group=None, rows=4):
    A, B = torch.ones(rows, 8), torch.ones(8, 6)
    Y = bt.all_gather_matmul(A, B, group)
    assert Y.shape == (rows * ranks, 6) and bool((Y == 8).all())


def call_until(error, rank, ranks):
    """Calls until `error` is raised. Returns its text and the seconds until then."""
    begin = time.monotonic()
    while time.monotonic() < begin + 3 * TIMEOUT:
        try:
            call(rank, ranks)
            time.sleep(0.005)
        except error as caught:
            return str(caught), time.monotonic() - begin
    raise AssertionError(f"expected {error.__name__}")


def meet(rank, ranks, suffix):
    if dist.is_initialized():
        dist.destroy_process_group()
    processes.again(dist, rank, ranks, suffix, TIMEOUT)


def go_on(rank, ranks, dead, suffix):
    """The remaining ranks create a new group, which must work."""
    left = [each for each in range(ranks) if each != dead]
    meet(left.index(rank), len(left), suffix)
    for _ in range(3):
        call(left.index(rank), len(left))
    dist.barrier()


def part_killed(rank, ranks):
    """If a rank is killed while operators run, the others notice in time and form a new group."""
    meet(rank, ranks, "short")
    call(rank, ranks)
    dist.barrier()
    if rank == 1:
        time.sleep(0.1 * (os.getpid() % 5))
        os.kill(os.getpid(), signal.SIGKILL)
    text, seconds = call_until(bt.PeerError, rank, ranks)
    assert "rank 1" in text, text
    assert seconds < TIMEOUT + 2, seconds
    again, _ = call_until(bt.PeerError, rank, ranks)
    assert "rank 1" in again, "the first cause stays"
    go_on(rank, ranks, 1, "left")


def part_raises(rank, ranks):
    """An exception in user code ends a rank."""
    meet(rank, ranks, "short")
    call(rank, ranks)
    dist.barrier()
    if rank == 1:
        raise KeyError("no such layer")
    text, seconds = call_until(bt.PeerError, rank, ranks)
    assert "rank 1" in text and seconds < TIMEOUT + 2, (text, seconds)
    go_on(rank, ranks, 1, "left")


def part_leaves_out(rank, ranks):
    """If a rank omits a call that the others make, they time out."""
    meet(rank, ranks, "short")
    call(rank, ranks)
    if rank == 1:
        time.sleep(TIMEOUT + 3)
    else:
        text, seconds = call_until(braid.TimedOutError, rank, ranks)
        assert seconds < TIMEOUT + 2, seconds
        assert "1" in text, text
        time.sleep(3)


def part_destroys(rank, ranks):
    """If one rank destroys a group, the others get an error instead of waiting."""
    meet(rank, ranks, "short")
    call(rank, ranks)
    dist.barrier()
    import gc
    gc.disable()  # only the group keeps its job alive
    if rank == 1:
        dist.destroy_process_group()
        time.sleep(5)
    else:
        text, seconds = call_until(bt.PeerError, rank, ranks)
        assert seconds < TIMEOUT, (text, seconds)


def part_comes_late(rank, ranks):
    """A rank never makes its first call."""
    meet(rank, ranks, "short")
    if rank == 1:
        time.sleep(TIMEOUT + 3)
    else:
        begin = time.monotonic()
        try:
            call(rank, ranks)
        except bt.PeerError as error:
            assert "make the call within" in str(error), error
            assert time.monotonic() - begin < TIMEOUT + 2, error
        else:
            raise AssertionError("expected PeerError")
        expect_ended(rank, ranks)
    if rank == 1:
        try:
            call(rank, ranks)
        except bt.PeerError:
            pass
        expect_ended(rank, ranks)


def expect_ended(rank, ranks):
    """A call must fail without waiting for ranks that have left."""
    begin = time.monotonic()
    try:
        call(rank, ranks)
    except bt.PeerError:
        assert time.monotonic() - begin < 1
    else:
        raise AssertionError("expected PeerError again")


def part_forks(rank, ranks):
    meet(rank, ranks, "short")
    call(rank, ranks)
    child = os.fork()
    if child == 0:
        try:
            call(rank, ranks)
        except bt.InputError as error:
            os._exit(7 if "fork()" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    call(rank, ranks)
    dist.barrier()


def part_interrupted(rank, ranks):
    """Ctrl-C interrupts a rank that waits for another rank's call."""
    import threading
    meet(rank, ranks, "short")
    call(rank, ranks)
    if rank == 0:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            call(rank, ranks, rows=6)
        except (KeyboardInterrupt, bt.PeerError):
            assert time.monotonic() - begin < 4
        else:
            raise AssertionError("expected KeyboardInterrupt")
        time.sleep(1)
    else:
        time.sleep(1.5)
        call_until(bt.PeerError, rank, ranks)


def part_ends_beside_a_call(rank, ranks):
    """The interpreter exits while another thread waits for another rank's call."""
    import threading
    meet(rank, ranks, "short")
    call(rank, ranks)
    if rank == 0:
        threading.Thread(target=lambda: [call(rank, ranks) for _ in range(2)], daemon=True).start()
        time.sleep(1)
        sys.exit(0)
    time.sleep(4)
    os._exit(0)


def part_ends_with_everything_open(rank, ranks):
    meet(rank, ranks, "short")
    group = dist.new_group(list(range(ranks)))
    call(rank, ranks)
    call(rank, ranks, group)
    sys.exit(0)  # without destroying anything


def part_disagrees(rank, ranks):
    """Ranks make different calls, which may be repeated or new. All ranks soon raise an error that
    names the difference. The timeout is too long to be the cause of the error."""
    def gather(rows, group):
        return bt.all_gather_matmul(torch.ones(rows, 8), torch.ones(8, 6), group)

    def scatter(rows, group):
        return bt.matmul_reduce_scatter(torch.ones(rows, 8), torch.ones(8, 6), group)

    def reduce(rows, group):
        return bt.matmul_all_reduce(torch.ones(rows, 8), torch.ones(8, 6), group)

    for known, calls, names in (
            (2, ((reduce, 4), (reduce, 2)), ("matmul_all_reduce_f32_4x6x8",
                                             "matmul_all_reduce_f32_2x6x8")),
            (0, ((reduce, 4), (gather, 2)), ("matmul_all_reduce_f32_4x6x8",
                                             "all_gather_matmul_f32_4x6x8")),
            (2, ((reduce, 4), (scatter, 4)), ("matmul_all_reduce_f32_4x6x8",
                                              "matmul_reduce_scatter_f32_4x6x8")),
            (2, ((gather, 3), (gather, 5)), ("all_gather_matmul_f32_6x6x8",
                                             "all_gather_matmul_f32_10x6x8")),
            (1, ((gather, 3), (gather, 5)), ("all_gather_matmul_f32_6x6x8",
                                              "all_gather_matmul_f32_10x6x8")),
            (1, ((gather, 4), (scatter, 4)), ("all_gather_matmul_f32_8x6x8",
                                                  "matmul_reduce_scatter_f32_4x6x8"))):
        group = dist.new_group(list(range(ranks)), timeout=datetime.timedelta(seconds=90))
        gather(1, group)
        for function, rows in calls[:known]:
            function(rows, group)
        function, rows = calls[rank]
        try:
            function(rows, group)
        except bt.PeerError as error:
            assert not isinstance(error, braid.TimedOutError), error
            for each, name in enumerate(names):
                assert f"rank {each}" in str(error) and f"@{name}" in str(error), error
            assert known or "the ranks called different operators" in str(error), error
        else:
            raise AssertionError(f"expected PeerError for {names}")
        dist.barrier()


class Ranks(unittest.TestCase):
    def expect(self, part, codes, limit=100):
        found, said, seconds = processes.run(part, len(codes), limit)
        self.assertEqual(found, codes, "\n".join(said)[-6000:])
        return seconds

    def test_killed(self):
        for _ in range(KILLS):
            self.expect("killed", [0, -signal.SIGKILL, 0])

    def test_raises(self):
        self.expect("raises", [0, 1, 0])

    def test_leaves_out(self):
        self.expect("leaves_out", [0, 0])

    def test_disagrees(self):
        self.expect("disagrees", [0, 0])

    def test_destroys(self):
        self.expect("destroys", [0, 0])

    def test_comes_late(self):
        self.expect("comes_late", [0, 0])

    def test_forks(self):
        self.expect("forks", [0, 0])

    def test_interrupted(self):
        self.expect("interrupted", [0, 0])

    def test_ends_beside_a_call(self):
        self.expect("ends_beside_a_call", [0, 0])

    def test_ends_with_everything_open(self):
        self.assertLess(self.expect("ends_with_everything_open", [0, 0, 0]), 60)


if __name__ == "__main__":
    processes.main(globals(), torch)
