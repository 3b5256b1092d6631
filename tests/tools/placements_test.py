#!/usr/bin/env python3
"""placements_test.py BRAID [--write]: checks that docs/placements.md lists how each of the 27
placements of a matmul's operands and result is compiled. --write updates the page.
"""
import difflib
import itertools
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "placements.md")
HEAD = """# How Braid compiles a matmul, by tensor placement

A fusion specifies the placement of each tensor of a matmul. The placements determine whether Braid
has to transfer data and, if so, which data. This page lists all combinations for one matmul
`C = A·B` on D devices.

Each of the tensors A, B and C is in one of two states:

* A *whole* tensor is stored in full on every device.
* A *split* tensor has one axis that is split into D blocks, and device d stores block d. In the
  type, a split axis is written as two axes, for example `DIDx{D}, M/D` for the rows.

In the following example, A is split along its rows, and B and C are whole. Braid compiles this
matmul to a gather:

```braid
fusion @f(D = 4, M = 16, K = 8, N = 12) {
  mesh [0 .. D)
  %A = input bf16[DIDx{D}, M/D, K]
  %B = input bf16[K, N]
  %C = matmul %A, %B : bf16[Stream{D}, M/D, N]
  output %C
}
```

The last column of the table specifies how Braid compiles the matmul:

* **local**: every device already has the operands that it needs, so no data is transferred.
* **gather**: every device receives all blocks of A's rows and multiplies each block as soon as it
  has arrived. If the rows of C are not a `Stream` axis, a single GEMM runs after the last transfer
  instead. In this case, no transfer is hidden, and the compiler prints a warning.
* **reduce-scatter**, **all-reduce**: each device computes partial results and sends each one as
  soon as it is complete. The partial results are then summed. In a reduce-scatter, each device
  keeps only its own rows of the sum; in an all-reduce, each device keeps the whole sum.
* **refused**: Braid cannot lower this matmul, and the compiler exits with code 4. The number refers
  to the list of reasons below the table.

|A|B|C|becomes|
|---|---|---|---|
"""
FOOT = """
## Why a matmul is refused

Tensors are stored in row-major order. A block of rows is therefore contiguous in memory, but a
block of columns is not. Braid transfers only contiguous blocks.

The compiler reports one of these reasons:

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
