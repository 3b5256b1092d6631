#!/usr/bin/env python3
"""check_words.py ROOT: fails if a comment opens with a word that makes it hard to read.

A comment should begin with its subject: "The send buffer", not "What is sent"; "The rows of a
rank", not "Of a rank: its rows". Therefore, no comment or docstring may begin with one of the words
below.

Prints one line for each violation.
"""
import os
import re
import subprocess
import sys

WORDS = "Of|By|With|What|Who|Whose|Whoever|Whatever|Where|How|Those|Such"
IN_CPP = re.compile(rf"^\s*//[/!]? ({WORDS})\b|///< (of|what|who|whose|how|those|such)\b")
IN_PYTHON = re.compile(rf'^\s*("""|# )({WORDS})\b')
CPP = re.compile(r"\.(h|cpp|cu|cuh|def)$")


def openings(root):
    """Yields (path, line number, line) for each comment that opens with one of the words."""
    shown = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True,
                           text=True)
    for path in shown.stdout.splitlines():
        pattern = IN_CPP if CPP.search(path) else IN_PYTHON if path.endswith(".py") else None
        if pattern is None or not os.path.exists(os.path.join(root, path)):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if pattern.search(line):
                    yield path, number, line.strip()


def main():
    found = list(openings(sys.argv[1]))
    for path, number, line in found:
        print(f"{path}:{number}: expected a comment that opens with its subject, got {line}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
