#!/usr/bin/env python3
"""placements_test.py BRAID [--write]: docs/placements.md says what the compiler does with each of
the 27 placements of a matmul's operands and result. --write makes the page from what it does now.
"""
import difflib
import itertools
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "placements.md")
HEAD = """# What becomes of a matmul, by where its tensors lie

`C = A·B` on D devices. Each of A, B and C is whole on every device, or one of its two axes is
split: into D entries, one on each device, and the rest. `tests/tools/placements_test.py` makes this
table from what the compiler does.

* **local**: every device has what it multiplies, and nothing moves.
* **gather**: blocks of A's rows travel, and each is multiplied as it arrives. Where C's rows are no
  Stream axis, one GEMM follows the last transfer, and a warning says that nothing is hidden.
* **reduce-scatter**, **all-reduce**: devices have partial results, which travel as they are made
  and are summed.
* **refused**: exit code 4, for the reason below that has this number.

|A|B|C|becomes|
|---|---|---|---|
"""
WHOLE, ROWS, DEPTH, COLUMNS = "whole", "rows", "contracted axis", "columns"


def axis(extent, is_cut, is_split):
    """An axis as a type spells it: cut into D entries where some tensor splits it."""
    if not is_cut:
        return extent
    return f"{'DIDx{D}' if is_split else 'D'}, {extent}/D"


def fusion(a, b, c):
    rows, depth, columns = ROWS in (a, c), DEPTH in (a, b), COLUMNS in (b, c)
    first = axis("M", rows, a == ROWS), axis("K", depth, a == DEPTH)
    second = axis("K", depth, b == DEPTH), axis("N", columns, b == COLUMNS)
    result = axis("M", rows, c == ROWS), axis("N", columns, c == COLUMNS)
    if a == ROWS and c != ROWS:  # what is gathered is produced slice by slice
        result = result[0].replace("D, ", "Stream{D}, ", 1), result[1]
    return (f"fusion @f(D = 4, M = 16, K = 8, N = 12) {{\n  mesh [0 .. D)\n"
            f"  %A = input bf16[{', '.join(first)}]\n  %B = input bf16[{', '.join(second)}]\n"
            f"  %C = matmul %A, %B : bf16[{', '.join(result)}]\n  output %C\n}}\n")


def braid(command, *words, text):
    done = subprocess.run([command, *words], input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def becomes(command, text, c):
    """Why it is refused, if it is, and in a word what becomes of it."""
    code, printed = braid(command, "compile", "-", "--emit", "program", text=text)
    if code == 4:
        reasons = re.findall(r"cannot lower %C: (.*?); .* would be accepted", printed)  # the first
        assert reasons, printed
        reason = re.sub(r" \(bf16\[[^)]*?\]\)", "", reasons[0])
        return re.sub(r"axis \d of", "an axis of", reason), "refused"
    assert code == 0, printed
    code, checked = braid(command, "check", "-", text=text)
    assert code == 0 and "result     every output" in checked, checked
    if "p2p" not in printed:
        return None, "local"
    if "  sum " not in printed:
        return None, "gather"
    return None, "reduce-scatter" if c == ROWS else "all-reduce"


def page(command):
    text, reasons = HEAD, []
    for a, b, c in itertools.product((WHOLE, ROWS, DEPTH), (WHOLE, DEPTH, COLUMNS),
                                     (WHOLE, ROWS, COLUMNS)):
        reason, what = becomes(command, fusion(a, b, c), c)
        if reason:
            reasons += [] if reason in reasons else [reason]
            what += f" {reasons.index(reason) + 1}"
        text += f"|{a}|{b}|{c}|{what}|\n"
    return text + "\n" + "".join(f"{i}. {reason}\n" for i, reason in enumerate(reasons, 1))


def main():
    made = page(sys.argv[1])
    if "--write" in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(made)
        return
    with open(PAGE, encoding="utf-8") as file:
        found = file.read()
    sys.stdout.writelines(difflib.unified_diff(found.splitlines(True), made.splitlines(True),
                                               "docs/placements.md", "what the compiler does"))
    sys.exit(int(found != made))


if __name__ == "__main__":
    main()
