"""Starts a command as the ranks of a job on several hosts: by hand, with torchrun, or with mpirun.

Each function returns the processes that it started: by hand, one process for each rank; with
torchrun, one agent for each host; with mpirun, only mpirun itself.
"""
import os
import shlex
import shutil
import subprocess

PORT = 29400
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "MASTER_", "TORCHELASTIC_", "OMPI_", "PMI",
             "SLURM_", "MPI_", "BRAID_")


class Unavailable(Exception):
    """The reason why a launcher is unavailable."""


def clean():
    """Returns this process's launcher variables with empty values, which count as unset."""
    return {name: "" for name in os.environ if name.startswith(LAUNCHERS)}


def by_hand(hosts, ranks_of_host, command, meet_at=None, only=None, **options):
    """Starts one process for each rank. If `meet_at` is set, all hosts except the first connect to
    this address of a proxy. If `only` is set, only hosts with these numbers are started."""
    started = []
    for host in hosts:
        address, port = meet_at if meet_at and host.number else (hosts[0].address, PORT)
        for local in range(ranks_of_host):
            if only is not None and host.number not in only:
                continue
            rank = host.number * ranks_of_host + local
            variables = dict(clean(), BRAID_RANK=str(rank),
                             BRAID_RANKS=str(len(hosts) * ranks_of_host),
                             BRAID_LOCAL_RANK=str(local), BRAID_LOCAL_RANKS=str(ranks_of_host),
                             BRAID_JOB=hosts.mark, BRAID_RENDEZVOUS=f"tcp://{address}:{port}",
                             OPENBLAS_NUM_THREADS="1")
            started.append(host.start(command, variables, **options))
    return started


def torchrun(hosts, ranks_of_host, command, **options):
    name = shlex.split(os.environ.get("BRAID_TEST_TORCHRUN", "torchrun"))
    if not shutil.which(name[0]):
        raise Unavailable("torchrun is not installed (BRAID_TEST_TORCHRUN may name it)")
    return [host.start(name + ["--nnodes", str(len(hosts)), "--node-rank", str(host.number),
                               "--nproc-per-node", str(ranks_of_host), "--master-addr",
                               hosts[0].address, "--master-port", "29500", "--no-python"]
                       + command, dict(clean(), OMP_NUM_THREADS="1"), **options)
            for host in hosts]


def mpirun(hosts, ranks_of_host, command, **options):
    """Starts mpirun on the first host. On other hosts, a script starts mpirun's daemons, in place
    of ssh."""
    name = shlex.split(os.environ.get("BRAID_TEST_MPIRUN", "mpirun"))
    version = subprocess.run(name + ["--version"], capture_output=True, text=True,
                             check=False).stdout if shutil.which(name[0]) else ""
    if "Open MPI" not in version and "OpenRTE" not in version:
        raise Unavailable("mpirun of Open MPI is not installed (BRAID_TEST_MPIRUN may name it)")
    shell = os.path.join(hosts.folder, "shell")
    with open(shell, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
        for host in hosts:
            start = " ".join(shlex.quote(word) for word in host.command(["sh", "-c"]))
            file.write(f"{host.name}|{host.address}) export TMPDIR={host.folder};"
                       f' exec {start} "$*" ;;\n')
        file.write("esac\nexit 1\n")
    os.chmod(shell, 0o700)
    places = ",".join(f"{host.name}:{ranks_of_host}" for host in hosts)
    variables = dict(clean(), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                     OPENBLAS_NUM_THREADS="1")
    return [hosts[0].start(name + ["--host", places, "--map-by", "slot", "--bind-to", "none",
                                   "-x", "OPENBLAS_NUM_THREADS",
                                   "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", shell,
                                   "-n", str(len(hosts) * ranks_of_host)] + command, variables,
                           **options)]


STARTERS = {"by_hand": by_hand, "torchrun": torchrun, "mpirun": mpirun}
