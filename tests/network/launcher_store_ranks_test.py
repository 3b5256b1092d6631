#!/usr/bin/env python3
"""launcher_store_ranks_test.py LAUNCHER PROGRAM: do ranks meet by their launcher's store?

LAUNCHER is torchrun, openmpi, hydra or srun; the test is skipped with status 77 where it is not
installed. BRAID_TEST_TORCHRUN, BRAID_TEST_MPIRUN, BRAID_TEST_MPIEXEC and BRAID_TEST_SRUN name
others, with arguments. "Hosts" are daemons of the launcher on this machine, where it can have
several. PROGRAM is launcher_store_rank.
"""
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = 120
HOSTS, RANKS_OF_HOST = 2, 2
RANKS = HOSTS * RANKS_OF_HOST


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def find(variable, *names):
    """A command, as a list."""
    if variable in os.environ:
        return shlex.split(os.environ[variable])
    for name in names:
        if shutil.which(name):
            return [shutil.which(name)]
    return skip(f"expected {' or '.join(names)}, or {variable}, found none")


def said_by(command):
    return subprocess.run(command + ["--version"], capture_output=True, text=True,
                          check=False).stdout


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def torchrun(program, variables):
    """An agent for each host. Both of the store's servers."""
    command = find("BRAID_TEST_TORCHRUN", "torchrun")
    for has_uv in ("1", "0"):
        port = free_port()
        yield [(command + ["--nnodes", str(HOSTS), "--nproc-per-node", str(RANKS_OF_HOST),
                           "--node-rank", str(host), "--master-addr", "127.0.0.1",
                           "--master-port", str(port), "--no-python"] + program,
                dict(variables, USE_LIBUV=has_uv)) for host in range(HOSTS)], HOSTS
    port = free_port()
    yield [(command + ["--nnodes", str(HOSTS), "--nproc-per-node", str(RANKS_OF_HOST),
                       "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
                       "--rdzv-id", "job", "--no-python"] + program, variables)
           for _ in range(HOSTS)], HOSTS


def openmpi(program, variables):
    """As one host, and as two daemons, where the second is started without a remote shell."""
    command = find("BRAID_TEST_MPIRUN", "mpirun.openmpi", "mpirun")
    version = said_by(command)
    if not any(name in version for name in ("Open MPI", "OpenRTE", "PRTE", "PMIx Reference")):
        skip(f"expected Open MPI, got {version[:60]!r}")
    variables = dict(variables, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    yield [(command + ["--oversubscribe", "-n", str(RANKS)] + program, variables)], 1


def hydra(program, variables):
    command = find("BRAID_TEST_MPIEXEC", "mpiexec.hydra")
    yield [(command + ["-launcher", "fork", "-n", str(RANKS)] + program, variables)], 1


def srun(program, variables):
    command = find("BRAID_TEST_SRUN", "srun")
    for kind in ("pmi2", "pmix"):
        yield [(command + [f"--mpi={kind}", f"--ntasks-per-node={RANKS_OF_HOST}", "-n", str(RANKS),
                           "--distribution=block"] + program, variables)], None


LAUNCHERS = {"torchrun": torchrun, "openmpi": openmpi, "hydra": hydra, "srun": srun}


def run(jobs, program):
    """What the ranks say. The file is what rank 0 waits for, so that others are earlier."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        file = os.path.join(folder, "put")
        children = [subprocess.Popen(command + [file], env=variables, stdout=output,
                                     stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
                    for command, variables in jobs]
        try:
            time.sleep(0.3)
            with open(file, "w", encoding="ascii"):
                pass
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                output.seek(0)
                said = re.findall(r"rank (\d) of (\d) on host (\d) of (\d): tcp://\[::1\]:\S+",
                                  output.read())
                if len(said) == RANKS - 1 or all(c.poll() is not None for c in children):
                    break
                time.sleep(0.05)
            os.unlink(file)
            codes = [child.wait(timeout=SECONDS) for child in children]
        finally:
            for child in children:
                child.kill()
                child.wait()
        output.seek(0)
        text = output.read()
    assert set(codes) == {0}, f"expected all to end with 0, got {codes}; {program}:\n{text}"
    return said, text


def main():
    launcher, program = sys.argv[1], [os.path.abspath(sys.argv[2])]
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(("BRAID_", "SLURM_", "PMI", "OMPI_", "MPI_"))
                 or name == "BRAID_PMIX_LIBRARY"}
    for jobs, hosts in LAUNCHERS[launcher](program, variables):
        said, text = run(jobs, program)
        ranks = sorted(int(rank) for rank, _, _, _ in said)
        assert ranks == list(range(1, RANKS)), f"expected ranks 1 to {RANKS - 1}, got:\n{text}"
        for rank, count, host, of_hosts in said:
            assert int(count) == RANKS, text
            assert hosts is None or int(of_hosts) == hosts, text
            assert int(host) == int(rank) * int(of_hosts) // RANKS, text
        print(" ".join(jobs[0][0][:6]), "...:", "; ".join(" ".join(each) for each in sorted(said)))


main()
