#!/usr/bin/env python3
"""placements_test.py BRAID [--write]: docs/placements.md lists how each of the 27 placements of a
matmul's operands and result is compiled. --write updates the page.
"""
import difflib
import itertools
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "placements.md")
HEAD = """# What a matmul becomes, by where its tensors are

A fusion says where each tensor of a matmul is. The types decide whether Braid has to move data,
and which data. This page lists all combinations for one matmul `C = A·B` on D devices.

Each of the tensors A, B and C is in one of two states:

* It is *whole*: every device has all of it.
* One of its two axes is *split*: device d has block d of D blocks. A split axis is written as two
  axes in the type, for instance `DIDx{D}, M/D` for the rows.

For example, this matmul has A split along its rows, and B and C are whole. It becomes a gather:

```braid
fusion @f(D = 4, M = 16, K = 8, N = 12) {
  mesh [0 .. D)
  %A = input bf16[DIDx{D}, M/D, K]
  %B = input bf16[K, N]
  %C = matmul %A, %B : bf16[Stream{D}, M/D, N]
  output %C
}
```

The last column of the table says what becomes of the matmul:

* **local**: every device has the operands that it needs, and nothing moves.
* **gather**: blocks of A's rows move to all devices, and each block is multiplied when it has
  arrived. If the rows of C are not a `Stream` axis, one GEMM follows the last transfer instead.
  Then nothing is hidden, and the compiler warns.
* **reduce-scatter**, **all-reduce**: each device computes partial results. They are sent as soon
  as they are computed, and then they are summed. In a reduce-scatter each device keeps its own
  rows of the sum, in an all-reduce all of it.
* **refused**: Braid does not lower this matmul. The compiler ends with exit code 4. The number is
  that of the reason in the list below the table.

|A|B|C|becomes|
|---|---|---|---|
"""
FOOT = """
## Why a matmul is refused

Tensors are stored row by row. So a block of rows is one contiguous range of memory, and a block of
columns is not: the compiler says that it "does not lie in one piece". Braid moves contiguous
blocks only.

These are the messages of the compiler:

"""
WHOLE, ROWS, DEPTH, COLUMNS = "whole", "rows", "contracted axis", "columns"


def axis(extent, is_cut, is_split):
    """Returns an axis as a type spells it, cut into D entries if any tensor splits it."""
    if not is_cut:
        return extent
    return f"{'DIDx{D}' if is_split else 'D'}, {extent}/D"


def fusion(a, b, c):
    rows, depth, columns = ROWS in (a, c), DEPTH in (a, b), COLUMNS in (b, c)
    first = axis("M", rows, a == ROWS), axis("K", depth, a == DEPTH)
    second = axis("K", depth, b == DEPTH), axis("N", columns, b == COLUMNS)
    result = axis("M", rows, c == ROWS), axis("N", columns, c == COLUMNS)
    if a == ROWS and c != ROWS:  # a gathered result needs a Stream axis
        result = result[0].replace("D, ", "Stream{D}, ", 1), result[1]
    return (f"fusion @f(D = 4, M = 16, K = 8, N = 12) {{\n  mesh [0 .. D)\n"
            f"  %A = input bf16[{', '.join(first)}]\n  %B = input bf16[{', '.join(second)}]\n"
            f"  %C = matmul %A, %B : bf16[{', '.join(result)}]\n  output %C\n}}\n")


def braid(command, *words, text):
    done = subprocess.run([command, *words], input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def becomes(command, text, c):
    """Returns the reason for a refusal, if any, and a short description of the program."""
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
    return text + FOOT + "".join(f"{i}. {reason}\n" for i, reason in enumerate(reasons, 1))


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
