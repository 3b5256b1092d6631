"""Jobs that treat two GPUs as two hosts, with one rank per host or with two ranks that share the
host's GPU. NCCL sends messages between hosts; within a host, data is copied.

gpu_hosts.py BRAID runs the same jobs on CPU ranks, which connect over the loopback interface.
"""
import os
import sys

from gpu_batch import Batch, as_run
from gpu_commands import ROOT, run
from gpu_suite import only_on

HERE = os.path.join(ROOT, "tests", "gpu")
SCHEDULES = {
    "gather": ("pairwise", "ring", "bulk", "hierarchical", "collective"),
    "reduce-scatter": ("pairwise", "hierarchical", "collective"),
    "all-reduce": ("pairwise", "hierarchical;reduction=two-shot"),
}


def two_hosts(of_host):
    """Returns the prefix that starts a command's ranks on both hosts."""
    return (sys.executable, os.path.join(HERE, "run_on_hosts.py"), "2", str(of_host))


def check_on_hosts(braid, of_host, arguments, environment):
    """Runs the job and returns (verdict, reason)."""
    code, out, err = run([*two_hosts(of_host), braid, "run", *arguments], 120, environment)
    is_exact = code == 0 and "all equal" in out
    return ("passed", "") if is_exact else ("failed", f"exit code {code}\n{out}{err}")


def cases(backend):
    """Yields the number of ranks per host, a name, the program, and flags of `braid run`.
    Hierarchical schedules need several ranks per host."""
    for of_host in (1, 2):
        for name, schedules in SCHEDULES.items():
            file = os.path.join(HERE, f"hosts_{name.replace('-', '_')}.braid")
            for schedule in schedules:
                if of_host > 1 or "hierarchical" not in schedule:
                    yield of_host, name, file, [
                        "--backend", backend, "--verify", "--iterations", "100", "--timeout-ms",
                        "20000", "--flight-records", "none", "--set", f"L={of_host}", "--schedule",
                        schedule]


def add_hosts(suite, nccl_missing):
    """Adds an eager and a replayed case for each job. All hosts see the same GPUs, and each rank
    uses the GPU whose number is the rank's local index."""
    if nccl_missing:
        suite.add("hosts", 1, lambda devices: ("skipped", nccl_missing))
        return
    for of_host, name, file, common in cases("cuda"):
        for flags in (common, common + ["--graph"]):
            def check(devices, of_host=of_host, arguments=(file, *flags)):
                return check_on_hosts(suite.braid, of_host, arguments,
                                      only_on(devices, BRAID_SHARE_GPUS="on"))
            suite.add(f"hosts 2 x {of_host} {name} {' '.join(flags[flags.index('--schedule'):])}",
                      2, check, may_share=True, uses_nccl=of_host > 1, run=as_run(file, flags),
                      batch=Batch("cuda", start=two_hosts(of_host), shares_gpus=True))


def main():
    for of_host, name, file, flags in cases("cpu"):
        verdict = check_on_hosts(os.path.abspath(sys.argv[1]), of_host, (file, *flags),
                                 dict(os.environ, OPENBLAS_NUM_THREADS="1"))
        assert verdict == ("passed", ""), (of_host, name, flags, verdict[1])


if __name__ == "__main__":
    main()
