#!/usr/bin/env python3
"""fault_command_test.py BRAID [PATTERN]: tests `braid run` with unauthenticated peers, other jobs
and killed ranks.

Uses the Job class of launch_test.py, so no process and no file may remain after a test.
"""
import os
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_test  # noqa: E402
from launch_test import ENDLESS, by_hand, check, finish, hosts, wait_for  # noqa: E402

PEERS = 200
# Small shapes that run long enough for the unauthenticated peers to connect in the meantime.
EXACT = ["examples/ag_matmul.braid", "--ranks", "4", "--set", "M=64", "--set", "K=64", "--set",
         "N=64", "--verify", "--no-check"]


ATTACKS = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"1 3",            # two numbers, but no hello
    b"braid rank 1",   # half of a hello
    b"braid rank 1 3 4 another job",
    b"braid rank 4 4",
    b"braid rank -1 4",
    b"braid rank 3 99999999999999999999",
    b"braid rank 3 " + b"4" * 4000,
    b"Oarena",  # a valid message, but without a hello
    b"G0 arena",
    bytes(range(256)) * 40,
]


def attack(name, number):
    """Connects as another process of the same user, sends an invalid message, and waits until it is
    disconnected. Returns False if no process listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.settimeout(5)
        try:
            peer.connect(b"\0" + name.encode())
            what = ATTACKS[number % len(ATTACKS)]
            if number % 7 == 0:
                socket.send_fds(peer, [what], [0, 1])
            else:
                peer.send(what)
            answer = peer.recv(100)
            check(not answer, f"expected no answer to {what[:40]}, got {answer}")
        except ConnectionRefusedError:
            return False
        except OSError:  # disconnected before everything was sent
            pass
    return True


def test_strangers_while_a_rank_is_late(job):
    ranks = [job.start(*EXACT, "--iterations", 50, variables=by_hand(rank, 4))
             for rank in range(3)]
    name = next(iter(wait_for(lambda: hosts(job), "rank 0 to listen").values()))
    for number in range(PEERS):
        check(attack(name, number), "expected rank 0 to listen until all have met")
    ranks.append(job.start(*EXACT, "--iterations", 50, variables=by_hand(3, 4)))
    wait_for(lambda: not hosts(job), "the ranks to have met")
    check(not attack(name, 0), "expected nobody to listen during a run")
    for process in ranks[1:]:
        finish(process).expect(0)
    finish(ranks[0]).expect_exact()


def test_neighbours_do_not_see_each_other(job):
    """Ranks of three jobs start at the same time, with equal rank numbers but different options. If
    a rank joined the wrong job, the job would reject it or fail."""
    jobs = [("one", 2, 3), ("two", 3, 4), ("three", 2, 5)]
    started = []
    for rank in range(3):
        for name, ranks, iterations in jobs:
            if rank < ranks:
                arguments = EXACT[:1] + ["--set", f"M={24 * iterations}", "--verify",
                                         "--iterations", str(iterations)]
                place = by_hand(rank, ranks, f"{name} {os.getpid()}")
                started.append((rank, job.start(*arguments, variables=place)))
    launched = [job.start("--processes", *EXACT, "--seed", seed) for seed in range(2)]
    for rank, process in started:
        result = finish(process).expect(0)
        if rank == 0:
            result.expect_exact()
    for process in launched:
        finish(process).expect_exact()


def test_one_job_fails_and_its_neighbour_does_not(job):
    failing = job.start("--processes", "--flight-records", "none", *ENDLESS)
    victim = job.ranks(4)[1]
    neighbour = job.start("--processes", *EXACT, "--iterations", 3000)
    os.kill(victim, signal.SIGKILL)
    finish(failing).expect(5, "rank 1 was killed")
    finish(neighbour).expect_exact()


if __name__ == "__main__":
    launch_test.main(globals())
