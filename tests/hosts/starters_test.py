#!/usr/bin/env python3
"""starters_test.py STARTER BRAID STORE_RANK: do ranks on several hosts know where they are, and do
launchers' stores reach across? Two hosts with two ranks each. Skipped with status 77."""
import json
import os
import re
import subprocess
import sys
import time

import name_spaces
from name_spaces import Hosts, left_behind
from starters import STARTERS, Unavailable

HOSTS, RANKS_OF_HOST = 2, 2


def finish(started, seconds=90):
    """Exit codes and all that was said."""
    texts = [child.communicate(timeout=seconds)[0] for child in started]
    return [child.returncode for child in started], "".join(texts)


def check_places(starter, braid, hosts):
    folder = os.path.join(hosts.folder, "said")
    os.mkdir(folder)
    # torchrun would take "$$" for "$".
    script = f'{braid} env --json > $(mktemp {folder}/$(hostname)-XXXXXX)'
    codes, text = finish(starter(hosts, RANKS_OF_HOST, ["sh", "-c", script],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    assert set(codes) == {0}, (codes, text)
    places = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            places.append((json.load(file)["place"], name.rsplit("-", 1)[0]))
    assert sorted(p["rank"] for p, _ in places) == list(range(HOSTS * RANKS_OF_HOST)), places
    for place, host in places:
        assert place["hosts"] == HOSTS and place["local_ranks"] == RANKS_OF_HOST, place
        assert hosts[place["host"]].name == host, (place, host)
    assert len({p["job"] for p, _ in places}) == 1, places


def check_store(starter, program, hosts):
    file = os.path.join(hosts.folder, "put")
    with open(os.path.join(hosts.folder, "output"), "w+", encoding="utf-8") as output:
        started = starter(hosts, RANKS_OF_HOST, [program, file], stdout=output,
                          stderr=subprocess.STDOUT)
        with open(file, "w", encoding="ascii"):
            pass
        deadline = time.monotonic() + 60
        got = []
        # Rank 0 stays until the others have got what it put.
        while len(got) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
            output.seek(0)
            text = output.read()
            got = sorted(re.findall(r"rank (\d) of 4 on host (\d) of 2: tcp://", text))
        os.unlink(file)
        codes = [child.wait(timeout=90) for child in started]
    assert set(codes) == {0} and got == [("1", "0"), ("2", "1"), ("3", "1")], (codes, text)


def main():
    name_spaces.enter()
    name, braid, store_rank = sys.argv[1], os.path.abspath(sys.argv[2]), \
        os.path.abspath(sys.argv[3])
    reason = name_spaces.why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    with Hosts(HOSTS) as hosts:
        try:
            check_places(STARTERS[name], braid, hosts)
        except Unavailable as why:
            print(f"skipped: {why}")
            sys.exit(77)
        if name != "by_hand":  # which has no store
            check_store(STARTERS[name], store_rank, hosts)
        left = hosts.left_running()
        assert left == [], left
    assert left_behind(hosts.mark) == [], left_behind(hosts.mark)
    print(f"{name}: {HOSTS} hosts with {RANKS_OF_HOST} ranks each")


main()
