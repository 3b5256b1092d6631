#!/usr/bin/env python3
"""controls_test.py BRAID: text from the user never reaches the terminal as control characters.

The value of every flag is replaced by a text that would color the output, ring the bell, overwrite
the line and reorder it. Names of files, commands and flags, and nested values, contain it, too.
"""
import os
import re
import subprocess
import sys
import tempfile

BRAID = os.path.abspath(sys.argv[1])
EXAMPLE = os.path.abspath("examples/ag_matmul.braid")
HOSTILE = b"a\x1b[31m\x07\r\x7f\xc2\x9b\xff\xe2\x80\xaez"
WITHIN = {"--set": [HOSTILE + b"=1", b"M=" + HOSTILE],
          "--schedule": [b"ring;chunks=" + HOSTILE, b"ring;" + HOSTILE + b"=2", HOSTILE + b"=ring"]}
# The other arguments. Commands that would measure for seconds get a value that ends them early.
COMMANDS = {"compile": [EXAMPLE], "check": [EXAMPLE], "run": [EXAMPLE, "--ranks", "2"],
            "simulate": [EXAMPLE, "--machine", "h200-2", "--ranks", "2"], "view": [EXAMPLE],
            "explain": [EXAMPLE], "doctor": [], "calibrate": ["--backend", HOSTILE],
            "p2p": ["--backend", HOSTILE], "bench": [HOSTILE]}
SEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")

failures, ran = [], 0


def run(folder, *arguments):
    global ran
    ran += 1
    result = subprocess.run([BRAID, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                            cwd=folder, timeout=60,
                            env=dict(os.environ, BRAID_CACHE_DIR="none", TMPDIR=folder))
    for name, output in (("stdout", result.stdout), ("stderr", result.stderr)):
        text = output.decode(errors="surrogateescape")
        found = SEEN.search(text) or re.search("[\udc80-\udcff]", text)
        if found:
            line = text[text.rfind("\n", 0, found.start()) + 1:].split("\n")[0]
            failures.append(f"{arguments}: {name} has {line!r}")


def flags_of(command):
    text = subprocess.run([BRAID, command, "--help"], capture_output=True, text=True,
                          check=True).stdout
    return re.findall(r"^ +(--[a-z0-9-]+) \S", text, re.MULTILINE)


def main():
    tried = set()
    with tempfile.TemporaryDirectory() as folder:
        run(folder, HOSTILE)
        for command, others in COMMANDS.items():
            if command != "calibrate":  # it would write a file with that name
                run(folder, command, HOSTILE)
            run(folder, command, b"--" + HOSTILE)
            flags = flags_of(command)
            if not flags and command != "explain":
                failures.append(f"{command}: expected flags in its help")
            for flag in flags:
                if flag in tried:
                    continue
                tried.add(flag)
                given = [other for i, other in enumerate(others)
                         if flag not in others[max(i - 1, 0):i + 1]]
                for value in [HOSTILE] + WITHIN.get(flag, []):
                    run(folder, command, *given, flag, value)
    print(f"{ran} commands, {len(tried)} flags")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


sys.exit(main())
