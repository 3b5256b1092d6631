#!/usr/bin/env python3
"""hosts_test.py BRAID PART [FIRST-LAST]: runs jobs on several hosts, which are network namespaces.

PART is
  drawn      random fusions with seeds FIRST to LAST
  started    an example, started by torchrun, by mpirun, and by hand
  faults     random faults with seeds FIRST to LAST, on 3 hosts with 2 ranks each

Exits with 77 (skipped) if namespaces cannot be created.
"""
import os
import re
import signal
import subprocess
import sys
import time

import cases
import namespaces
from namespaces import Hosts, left_behind
from starters import PORT, STARTERS, Unavailable, by_hand
from tcp_proxy import TcpProxy

BRAID = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIMEOUT = 3.0  # in seconds
GRACE = 2.0    # after a timeout, all ranks must end within this time
SLACK = 3.0    # additional time on a loaded machine
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": ROOT}


def write_case(case, folder, ranks, ranks_of_host):
    text = case.get("text")
    if text is None:
        with open(os.path.join(ROOT, case["file"]), encoding="utf-8") as file:
            text = cases.on_hosts(file.read(), ranks, ranks_of_host)
    path = os.path.join(folder, "case.braid")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return [BRAID, "run", path, "--backend", "cpu", "--verify", "--flight-records", "none"
            ] + case["flags"]


def finish(started, seconds):
    """Returns the exit codes and outputs. The exit code of a process that does not end within
    `seconds` is None."""
    deadline = time.monotonic() + seconds
    ends = []
    for child in started:
        try:
            text = child.communicate(timeout=max(0.1, deadline - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            text = ""
        ends.append((child.returncode, text))
    return ends


# torchrun leaves folders behind: for the output of ranks, and for kernels that PyTorch compiles.
LEFT_BY_STARTERS = ("/torchelastic_", "/torchinductor_")


def check_clean(hosts):
    left = hosts.left_running()
    assert left == [], left
    files = [file for host in hosts for file in host.files()
             if not any(name in file for name in LEFT_BY_STARTERS)]
    assert files == [], files


def expect_exact(case, starter, hosts, ranks_of_host):
    ranks = len(hosts) * ranks_of_host
    command = write_case(case, hosts.folder, ranks, ranks_of_host)
    ends = finish(starter(hosts, ranks_of_host, command, **PIPES), 120)
    assert {code for code, _ in ends} == {0}, (case, ends)
    assert any("all equal" in text for _, text in ends), (case, ends)
    check_clean(hosts)


def run_drawn(seeds):
    with Hosts(4) as hosts:
        for seed in seeds:
            expect_exact(cases.drawn_case(seed, 16, 4), by_hand, hosts, 4)
    return hosts


def run_started(_):
    with Hosts(2) as hosts:
        for name, starter in STARTERS.items():
            try:
                expect_exact({"file": "examples/ag_matmul.braid", "flags": []}, starter, hosts, 2)
            except Unavailable as why:
                print(f"{name}: skipped, {why}")
    return hosts


def strike(fault, hosts, ranks_of_host, proxy, started):
    host = hosts[fault["host"]]
    victim = started.get(fault["host"] * ranks_of_host + fault["local"])
    actions = {
        "kill": lambda: victim.kill(),
        "stop": lambda: victim.send_signal(signal.SIGSTOP),
        "kill host": host.kill,
        "stop host": host.stop,
        "kill store": host.kill,
        "cable": host.pull_cable,
        "partition": lambda: setattr(proxy, "holds", True),
        "delay": lambda: setattr(proxy, "delay", 0.1),
        "swallow": lambda: setattr(proxy, "swallows", True),
        "missing host": lambda: None,
    }
    actions[fault["kind"]]()


def causes(ends):
    """Returns the first cause that each rank reports, without the prefix before "error: "."""
    lines = [next((line for line in text.splitlines() if "error:" in line), "nothing")
             for _, text in ends]
    return [line.partition("error: ")[2] or line for line in lines]


def expected_cause(fault, ranks_of_host):
    """Returns a pattern for the cause that must be reported. If a fault occurs while hosts are
    connecting, several causes are possible, but all of them name the missing host or rank."""
    host, rank = fault["host"], fault["host"] * ranks_of_host + fault["local"]
    one, whole = rf"ranks? (\d, )*{rank}\b", rf"(host {host}\b|rank {host * ranks_of_host}\b)"
    return {"kill": f"{one}|{whole}", "stop": f"{one}|{whole}", "kill host": f"{whole}|{one}",
            "stop host": f"{whole}|{one}"}.get(fault["kind"], r"host \d")


def expect_failure(fault, hosts, ranks_of_host, proxy):
    """Expects all ranks except the victim to fail in time and to report the same cause, or, if the
    fault is a delay, to continue."""
    ranks = len(hosts) * ranks_of_host
    case = {"file": "examples/ag_matmul.braid",
            "flags": ["--set", "M=96", "--set", "K=32", "--set", "N=48", "--iterations",
                      "100000000", "--timeout-ms", str(int(TIMEOUT * 1000))]}
    command = write_case(case, hosts.folder, ranks, ranks_of_host)
    only = [h.number for h in hosts if fault["kind"] != "missing host" or h.number != fault["host"]]
    numbers = [rank for rank in range(ranks) if rank // ranks_of_host in only]
    # A proxy acknowledges data even if it does not forward the data.
    meet_at = proxy.address if fault["kind"] in ("partition", "delay", "swallow") else None
    started = dict(zip(numbers, by_hand(hosts, ranks_of_host, command, meet_at=meet_at, only=only,
                                        **PIPES)))
    time.sleep(fault["after"])
    strike(fault, hosts, ranks_of_host, proxy, started)
    struck_at = time.monotonic()
    lonely = [rank for rank in numbers if rank // ranks_of_host == fault["host"]]
    struck = [fault["host"] * ranks_of_host + fault["local"]] \
        if fault["kind"] in ("kill", "stop") else lonely
    others = {rank: child for rank, child in started.items() if rank not in struck}
    if fault["kind"] == "delay":  # a delay is no failure, so the job continues
        time.sleep(TIMEOUT + GRACE)
        assert all(child.poll() is None for child in others.values()), \
            (fault, finish(others.values(), 1))
    else:
        if fault["kind"] in ("cable", "partition", "swallow"):  # both sides must end
            finish([started[rank] for rank in lonely], TIMEOUT + GRACE + SLACK)
            assert all(started[rank].returncode for rank in lonely), fault
        ends = finish(others.values(), TIMEOUT + GRACE + SLACK)
        assert all(code in (5, 6) for code, _ in ends), (fault, ends)
        # Omit ranks that may report another cause, such as the loss of their host's first rank.
        together = [cause for rank, cause in zip(others, causes(ends))
                    if fault["kind"] in ("partition", "swallow") and rank < ranks_of_host
                    or fault["kind"] not in ("partition", "swallow") and rank not in lonely]
        # Without the store, each host decides alone, and may name another host as silent.
        assert len(set(together)) == 1 or fault["kind"] == "kill store", (fault, ends)
        wanted = expected_cause(fault, ranks_of_host)
        assert all(re.search(wanted, cause) for cause in together), (fault, ends)
        fault["seconds"] = round(time.monotonic() - struck_at, 2)
        fault["cause"] = together[0]
    for host in hosts:
        host.go_on()
        host.kill()
        host.plug_in()
    for file in {file for host in hosts for file in host.files()}:
        if os.path.isfile(file):
            os.unlink(file)  # left by ranks that were killed


def run_faults(seeds):
    for seed in seeds:
        with Hosts(3) as hosts, TcpProxy((hosts.here, 0), (hosts[0].address, PORT)) as proxy:
            fault = cases.drawn_fault(seed, 3, 2)
            expect_failure(fault, hosts, 2, proxy)
            print(seed, fault, flush=True)
        assert left_behind(hosts.mark) == [], left_behind(hosts.mark)
    return hosts


def main():
    namespaces.enter()
    reason = namespaces.why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    first, _, last = (sys.argv[3] if len(sys.argv) > 3 else "0-0").partition("-")
    parts = {"drawn": run_drawn, "started": run_started, "faults": run_faults}
    hosts = parts[sys.argv[2]](range(int(first), int(last) + 1))
    assert left_behind(hosts.mark) == [], left_behind(hosts.mark)


main()
