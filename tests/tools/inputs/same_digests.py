"""same_digests.py BRAID FLAGS...: runs a fusion with --reproducible in every possible way, with
threads and with processes, and prints the number of runs. Fails unless all digests are equal."""
import re
import subprocess
import sys

SCHEDULES = ("pairwise", "ring", "sequential", "batched", "bulk", "coalesced")
WAYS = [["--schedule", schedule, "--protocol", protocol, "--chunks", chunks]
        for schedule in SCHEDULES for protocol in ("get", "put") for chunks in "13"]
WAYS += [["--partials", "peer", "--protocol", "put", "--reduction", shots, "--chunks", chunks]
         for shots in ("one-shot", "two-shot") for chunks in "13"]
digests, runs = set(), 0
for number, flags in enumerate(WAYS):
    flags += ["--processes"] if number % 3 == 0 else ["--schedule-seed", str(number)]
    run = subprocess.run([sys.argv[1], "run", *sys.argv[2:], "--reproducible", "--iterations", "3",
                          "--flight-records", "none", *flags],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode == 2 and "error: cannot" in run.stderr:
        continue
    found = re.findall(r"^  digest    ([0-9a-f]{16}) of the bits of (%\w+)", run.stdout, re.M)
    if run.returncode != 0 or len(found) != 1:
        sys.exit(f"{' '.join(flags)}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    digests.add(found[0])
    runs += 1
if len(digests) != 1:
    sys.exit(f"expected one digest, got {sorted(digests)}")
print(f"{runs} runs, one digest of {digests.pop()[1]}")
