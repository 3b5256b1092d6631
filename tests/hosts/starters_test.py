#!/usr/bin/env python3
"""starters_test.py STARTER BRAID: do ranks on several hosts know where they are? Two hosts with two
ranks each. Skipped with status 77."""
import json
import os
import subprocess
import sys

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


def main():
    name_spaces.enter()
    name, braid = sys.argv[1], os.path.abspath(sys.argv[2])
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
        left = hosts.left_running()
        assert left == [], left
    assert left_behind(hosts.mark) == [], left_behind(hosts.mark)
    print(f"{name}: {HOSTS} hosts with {RANKS_OF_HOST} ranks each")


main()
