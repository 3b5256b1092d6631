"""Two GPUs as two hosts, and as two hosts of two ranks each, which share them: messages of NCCL go
between hosts, copies within them.

gpu_hosts.py BRAID runs the same on CPU ranks, which meet over the loopback interface.
"""
import os
import sys
import tempfile

from gpu_commands import ROOT, run
from gpu_suite import only_on

RUN_ON_HOSTS = os.path.join(ROOT, "tests", "gpu", "run_on_hosts.py")
HEAD = "fusion @{name}(D = {ranks}, L = {of}) {{\n  mesh [0 .. D) of L\n"
GATHER = HEAD + """  %A = input bf16[DIDx{{D}}, 41, 64]
  %B = input bf16[64, 65]
  %C = matmul %A, %B : bf16[Stream{{D}}, 41, 65]
  output %C
}}
"""
SCATTER = HEAD + """  %A = input bf16[D, 41, DIDx{{D}}, 32]
  %B = input bf16[DIDx{{D}}, 32, 65]
  %C = matmul %A, %B partial f32 : bf16[DIDx{{D}}, 41, 65]
  output %C
}}
"""
ALL_REDUCE = HEAD + """  %A = input bf16[41, DIDx{{D}}, 32]
  %B = input bf16[DIDx{{D}}, 32, 65]
  %C = matmul %A, %B : bf16[41, 65]
  output %C
}}
"""
CASES = (("gather", GATHER, ("pairwise", "ring", "bulk", "hierarchical", "collective")),
         ("reduce-scatter", SCATTER, ("pairwise", "hierarchical", "collective")),
         ("all-reduce", ALL_REDUCE, ("pairwise", "hierarchical;reduction=two-shot")))


def check_on_hosts(braid, text, of_host, flags, environment, backend="cuda"):
    """Of two hosts; (verdict, reason)."""
    with tempfile.TemporaryDirectory(prefix="braid-hosts-") as folder:
        path = os.path.join(folder, "hosts.braid")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code, out, err = run([sys.executable, RUN_ON_HOSTS, "2", str(of_host), braid, "run", path,
                              "--backend", backend, "--verify", "--iterations", "100",
                              "--timeout-ms", "20000", "--flight-records", "none"] + flags, 120,
                             environment)
    is_exact = code == 0 and "all equal" in out
    return ("passed", "") if is_exact else ("failed", f"exit code {code}\n{out}{err}")


def cases():
    """Hierarchical where hosts have several ranks."""
    for of_host in (1, 2):
        for name, text, schedules in CASES:
            fusion = text.format(name="on_hosts", ranks=2 * of_host, of=of_host)
            for schedule in schedules:
                if of_host > 1 or "hierarchical" not in schedule:
                    yield of_host, name, fusion, ["--schedule", schedule]


def add_hosts(suite, nccl_missing):
    """Eager and replayed. Hosts have GPUs in common, of which each rank takes the one of its number
    on its host."""
    if nccl_missing:
        suite.add("hosts", 1, lambda devices: ("skipped", nccl_missing))
        return
    for of_host, name, fusion, schedule in cases():
        for flags in (schedule, schedule + ["--graph"]):
            def check(devices, flags=flags, fusion=fusion, of_host=of_host):
                return check_on_hosts(suite.braid, fusion, of_host, flags,
                                      only_on(devices, BRAID_SHARE_GPUS="on"))
            suite.add(f"hosts 2 x {of_host} {name} {' '.join(flags)}", 2, check, may_share=True)


def main():
    for of_host, name, fusion, schedule in cases():
        verdict = check_on_hosts(os.path.abspath(sys.argv[1]), fusion, of_host, schedule,
                                 dict(os.environ, OPENBLAS_NUM_THREADS="1"), backend="cpu")
        assert verdict == ("passed", ""), (of_host, name, schedule, verdict[1])


if __name__ == "__main__":
    main()
