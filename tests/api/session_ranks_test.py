#!/usr/bin/env python3
"""session_ranks_test.py PROGRAM: tests several ranks of a program that embeds Braid."""
import os
import re
import signal
import subprocess
import sys

RANKS = 3


def run(program, *arguments, stuck=()):
    """Runs all ranks, and returns their exit codes and outputs in order. Kills the `stuck` ranks
    once the others have ended, as launchers do."""
    ranks = []
    for rank in range(RANKS):
        environment = dict(os.environ, BRAID_RANK=str(rank), BRAID_RANKS=str(RANKS),
                           BRAID_JOB=f"session-{os.getpid()}-{'-'.join(arguments)}",
                           BRAID_CACHE_DIR="none")
        ranks.append(subprocess.Popen([program, *arguments], env=environment, text=True,
                                      stderr=subprocess.PIPE))
    said = {}
    for rank in sorted(range(RANKS), key=lambda rank: rank in stuck):
        if rank in stuck:
            ranks[rank].kill()
        said[rank] = ranks[rank].communicate(timeout=120)[1]
    return [each.returncode for each in ranks], [said[rank] for rank in range(RANKS)]


def expect(program, arguments, codes, words):
    stuck = [rank for rank, code in enumerate(codes) if code == -signal.SIGKILL]
    got, said = run(program, *arguments, stuck=stuck)
    print(arguments, got)
    assert got == codes, (arguments, codes, got, said)
    for word in words:
        assert any(re.search(word, each) for each in said), (arguments, word, said)


def main():
    program = sys.argv[1]
    expect(program, [], [0, 0, 0], [])
    expect(program, ["tensor"], [0, 0, 0], [])
    expect(program, ["rows"], [2, 2, 2], ["gather_matmul"])
    expect(program, ["leave"], [5, 0, 5], ["rank 1"])
    expect(program, ["auto"], [0, 0, 0], [])
    expect(program, ["auto-rows"], [2, 2, 2], ["expected all ranks to have the same fusion"])
    expect(program, ["auto-seconds"], [2, 2, 2], ["rank 1: auto-seconds 4"])
    expect(program, ["auto-named"], [2, 2, 2], ["same call with .*, but rank 1 did not"])
    expect(program, ["auto-leave"], [5, 0, 5], ["rank 1"])
    expect(program, ["auto-stop"], [6, -signal.SIGKILL, 6], ["rank 1 has been unresponsive"])
    wait = r"rank 1 is waiting for rank 2 in .* at first:5:3, run 1 \(the flag is 0, expected 1\)"
    expect(program, ["first-leave"], [5, 0, 5], [wait])
    if not os.path.exists("/dev/nvidiactl"):
        got, said = run(program, "cuda")
        is_built = "a backend that this build supports" not in said[1]
        assert not is_built or got == [4, 4, 4] and len(set(said)) == 1, (got, said)
    for call in ("commit", "close"):
        got, said = run(program, "other-" + call)
        assert got == [2, 2, 2], (call, got, said)
        # All ranks report the message of the first rank that notices the mismatch.
        mine = (f"expected all ranks to {call}( the job)?, but (another rank|rank 1) is "
                "(making a different|in another) call")
        other = "|same call with the same version|in the format of a different version"
        assert all(re.search(mine + other, each) for each in said), (call, said)
        assert len(set(said)) == 1, (call, said)
    expect(program, ["first"], [6, 6, -signal.SIGKILL],
           ["rank 2 is executing the caller's code", wait])


if __name__ == "__main__":
    main()
