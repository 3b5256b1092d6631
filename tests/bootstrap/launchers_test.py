#!/usr/bin/env python3
"""launchers_test.py LAUNCHER BRAID: checks that ranks find their places under real launchers.

LAUNCHER is openmpi, hydra or pmi. With pmi, this script itself is the launcher and sets only
PMI_RANK and PMI_SIZE. The exit status is 77 if the launcher is not installed. Two jobs of four
ranks run concurrently. The ranks of a job must be numbered 0 to 3 and agree on a job name that
differs from the other job's.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

RANKS = 4
SECONDS = 60
COMMANDS = {
    "openmpi": (["mpirun.openmpi", "mpirun"], ["--oversubscribe"], "Open MPI"),
    "hydra": (["mpiexec.hydra"], ["-launcher", "fork"], "PMI"),
    "pmi": ([sys.executable], [os.path.abspath(__file__), "--start"], "PMI"),
}


def start_ranks(count, command):
    """Starts ranks with PMI_RANK and PMI_SIZE and returns the largest exit code."""
    ranks = [subprocess.Popen(command, env=dict(os.environ, PMI_RANK=str(r), PMI_SIZE=str(count)))
             for r in range(count)]
    return max(rank.wait() for rank in ranks)


def find_launcher(name):
    names, flags, source = COMMANDS[name]
    for program in names:
        path = shutil.which(program)
        if not path:
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if name != "openmpi" or "Open MPI" in version.stdout:
            return [path] + flags, source
    print(f"skipped: {name} is not installed (looked for {' and '.join(names)})")
    sys.exit(77)


def clean_environment(braid):
    """Returns this process's environment without variables that a launcher has set in it."""
    report = subprocess.run([braid, "doctor", "--json"], stdout=subprocess.PIPE, check=False)
    read = {v["name"] for v in json.loads(report.stdout)["environment"]["variables"]
            if v["source"] != "braid"}
    environment = {k: v for k, v in os.environ.items() if k not in read}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return environment


def start_job(launcher, braid, folder, environment):
    """Starts the ranks of a job. BRAID_JOB distinguishes the two jobs if the launcher does not name
    them."""
    # A shell runs between the launcher and the rank, as do scripts that pin or profile processes.
    # The `exit` keeps the shell from being replaced by the command.
    script = f'"{braid}" doctor --json > "{folder}/$$.json"; exit $?'
    # Open MPI creates a folder named after the user in orte_tmpdir_base. It fails if another mpirun
    # creates the same folder at the same time.
    environment = dict(environment, OMPI_MCA_orte_tmpdir_base=folder, BRAID_JOB=folder)
    return subprocess.Popen(launcher + ["-n", str(RANKS), "sh", "-c", script], env=environment)


def check_job(folder, source):
    """Checks the ranks' reports and returns the job's name."""
    places = []
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path, encoding="utf-8") as file:
            places.append(json.load(file)["environment"]["place"])
    assert all(places), places
    assert sorted(p["rank"] for p in places) == list(range(RANKS)), places
    assert sorted(p["local_rank"] for p in places) == list(range(RANKS)), places
    assert {p["ranks"] for p in places} == {p["local_ranks"] for p in places} == {RANKS}, places
    assert {p["source"] for p in places} == {source}, places
    names = {p["job"] for p in places}
    assert len(names) == 1, f"expected one name of the job, got {names}"
    return names.pop()


def main():
    if sys.argv[1] == "--start":
        sys.exit(start_ranks(int(sys.argv[3]), sys.argv[4:]))
    launcher, source = find_launcher(sys.argv[1])
    braid = os.path.abspath(sys.argv[2])
    environment = clean_environment(braid)
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        jobs = [start_job(launcher, braid, folder, environment) for folder in (first, second)]
        try:
            codes = [job.wait(timeout=SECONDS) for job in jobs]
        finally:
            for job in jobs:
                job.kill()
        assert codes == [0, 0], f"expected both jobs to end with 0, got {codes}"
        names = [check_job(first, source), check_job(second, source)]
    assert names[0] != names[1], f"expected two names, got {names[0]} twice"
    print(f"{source}: 2 jobs of {RANKS} ranks, {names[0]} and {names[1]}")


main()
