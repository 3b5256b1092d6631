#!/usr/bin/env python3
"""run_on_hosts.py HOSTS RANKS_OF_HOST COMMAND...: starts the ranks of a job that treats this
machine as several hosts.

Each rank is configured for a host with RANKS_OF_HOST ranks; ranks connect over the loopback
interface. NCCL_HOSTID configures NCCL accordingly, so that messages between hosts use its sockets.
Ends with the first nonzero exit code, once all ranks have ended, and passes on their output.
"""
import os
import socket
import subprocess
import sys


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def main():
    hosts, of_host, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    rendezvous = f"tcp://127.0.0.1:{free_port()}"
    ranks = []
    for rank in range(hosts * of_host):
        variables = dict(os.environ, BRAID_RANK=str(rank), BRAID_RANKS=str(hosts * of_host),
                         BRAID_LOCAL_RANK=str(rank % of_host), BRAID_LOCAL_RANKS=str(of_host),
                         BRAID_JOB=f"hosts of {os.getpid()}", BRAID_RENDEZVOUS=rendezvous,
                         NCCL_HOSTID=f"host{rank // of_host}", NCCL_SOCKET_IFNAME="lo",
                         NCCL_IB_DISABLE="1")
        ranks.append(subprocess.Popen(command, env=variables))
    codes = [rank.wait() for rank in ranks]
    sys.exit(next((code if code > 0 else 128 - code for code in codes if code != 0), 0))


main()
