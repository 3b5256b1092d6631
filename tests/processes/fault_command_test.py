#!/usr/bin/env python3
"""fault_command_test.py BRAID [PATTERN]: how `braid run` takes strange peers, neighbours and kills.

Like launch_test.py, whose jobs these are: nothing may be left after any of them.
"""
import os
import random
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_test  # noqa: E402
from launch_test import BRAID, ENDLESS, by_hand, check, finish, wait_for  # noqa: E402

PEERS = 1000
# Small, and long enough that the unauthenticated peers are there while it runs.
EXACT = ["examples/ag_matmul.braid", "--ranks", "4", "--set", "M=64", "--set", "K=64", "--set",
         "N=64", "--verify", "--no-check"]


def frame(kind, body=b"", descriptor=0):
    """As runtime/job/bootstrap/frame.h says."""
    return b"brd1" + struct.pack("<BBHII", kind, descriptor, 0, 0, len(body)) + body


def hello(rank, ranks, job=b"another job", version=1):
    return frame(1, struct.pack("<Iqq", version, rank, ranks) + job)


ATTACKS = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"",                                     # connected, and never heard of again
    b"brd2" + hello(3, 4)[4:],               # another version of the messages
    hello(3, 4, version=77),                 # another version of the protocol
    hello(3, 4)[:12] + b"\xff\xff\xff\xff",  # a body of 4 GB
    hello(3, 4)[:9],                         # half a header
    hello(3, 4)[:20],                        # half a body
    hello(3, 4),
    hello(0, 4),
    hello(-1, 4),
    hello(3, 1 << 40),
    hello(3, 4, b"x" * 4000),
    frame(9),                                # a Disconnect without a Hello
    frame(4, b"a part"),
    hello(3, 4) + frame(4, b"a part"),
    bytes(range(256)) * 40,
]


class Scanner:
    """Looks for sockets of jobs below a folder, and connects to them as fast as it can, until it
    ends. Keeps some of its connections open."""

    def __init__(self, folder):
        self.base = os.path.join(folder, f"braid-{os.geteuid()}")
        self.connected = self.refused = 0
        self.known, self.open = set(), []
        self.is_ending = False
        self.thread = threading.Thread(target=self.scan)

    def __enter__(self):
        self.thread.start()
        return self

    def end(self):
        self.is_ending = True
        self.thread.join()

    def __exit__(self, *_):
        self.end()
        for peer in self.open:
            peer.close()

    def scan(self):
        while not self.is_ending:
            found = self.look()
            self.known.update(found)
            for path in found:
                for _ in range(50):
                    self.attack(path)
            if not found:
                time.sleep(0.001)

    def look(self):
        try:
            return [os.path.join(self.base, name, "s") for name in os.listdir(self.base)
                    if not name.startswith("new-")]
        except OSError:
            return []

    def attack(self, path):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(1)
        try:
            peer.connect(path)
            self.connected += 1
            what = ATTACKS[self.connected % len(ATTACKS)]
            if self.connected % 7 == 0:
                socket.send_fds(peer, [what or b"x"], [0, 1])
            else:
                peer.sendall(what)
        except OSError:
            self.refused += 1
        if self.connected % 3 == 0:
            peer.close()
        else:
            self.open.append(peer)
        while len(self.open) > 200:
            self.open.pop(0).close()


def test_unauthenticated_peers_while_ranks_meet(job):
    """The launcher's own ranks come at once, so it takes several jobs; each of them stays exact."""
    jobs = 0
    with Scanner(job.folder) as scanner:
        while scanner.connected < PEERS:
            job.run("--processes", *EXACT, "--iterations", 3).expect_exact()
            jobs += 1
            check(jobs < 200, f"expected {PEERS} unauthenticated peers, got {scanner.connected}")
    print(f"  {scanner.connected} unauthenticated peers connected to {jobs} jobs, "
          f"{scanner.refused} did not")


def test_unauthenticated_peers_while_a_rank_is_late(job):
    with Scanner(job.folder) as scanner:
        ranks = [job.start(*EXACT, "--iterations", 50, variables=by_hand(rank, 4))
                 for rank in range(3)]
        wait_for(lambda: scanner.connected >= PEERS, f"{PEERS} unauthenticated peers")
        ranks.append(job.start(*EXACT, "--iterations", 50, variables=by_hand(3, 4)))
        for process in ranks[1:]:
            finish(process).expect(0)
        finish(ranks[0]).expect_exact()
    print(f"  {scanner.connected} unauthenticated peers connected, {scanner.refused} did not")


def test_unauthenticated_peers_during_a_run(job):
    """Once the ranks have met there is nothing that anybody could connect to."""
    with Scanner(job.folder) as scanner:
        launcher = job.start("--processes", *EXACT, "--iterations", 5000, "--timeout-ms", 30000)
        job.ranks(4)
        wait_for(lambda: scanner.known, "the unauthenticated peers to have seen the socket")
        # Four processes need not have met yet, and whoever looks for sockets may still connect.
        wait_for(lambda: not scanner.look(), "the ranks to have met")
        scanner.end()
        before = scanner.connected
        for path in list(scanner.known) * PEERS:
            scanner.attack(path)
        check(scanner.connected == before, "expected nobody to listen during a run")
        check(launcher.poll() is None, "expected the run to be still going on")
        finish(launcher).expect_exact()
    print(f"  {before} unauthenticated peers connected before the run, "
          f"{scanner.refused} were refused")


def test_neighbours_do_not_see_each_other(job):
    """Ranks of three jobs come at the same time, with the same numbers, and want different things:
    a rank in the wrong job would be refused, or end it."""
    jobs = [("one", 2, 3), ("two", 3, 4), ("three", 2, 5)]
    started = []
    for rank in range(3):
        for name, ranks, iterations in jobs:
            if rank < ranks:
                arguments = EXACT[:1] + ["--set", f"M={24 * iterations}", "--verify",
                                         "--iterations", str(iterations)]
                started.append((rank, job.start(*arguments,
                                                variables=by_hand(rank, ranks, name))))
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


def test_launcher_killed_at_random_moments(job):
    dice = random.Random(20)
    slowest = 0
    for _ in range(5):
        launcher = job.start("--processes", *ENDLESS)
        time.sleep(dice.random() * 0.6)
        launcher.kill()
        launcher.wait()
        start = time.monotonic()
        wait_for(lambda: not job.processes(), "the ranks to end with their launcher", 10)
        slowest = max(slowest, time.monotonic() - start)
    print(f"  the last rank was gone {slowest * 1000:.0f} ms after its launcher")
    job.run("--processes", *EXACT).expect_exact()
    launch_test.remove_unfinished(job)


if __name__ == "__main__":
    launch_test.main(globals())
