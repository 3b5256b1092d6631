"""Cases for tests on several hosts: examples, and random cases with fixed seeds.

A case is a dictionary with a `file` or a `text`, and `flags` for `braid run`. The mesh in a text
specifies the ranks of each host, as in `mesh [0 .. 16) of 4`.
"""
import random
import re

FLAT = ("pairwise", "ring", "bulk", "collective")
HIERARCHICAL = ("hierarchical",)


def on_hosts(text, ranks, ranks_of_host):
    """Returns the fusion with a mesh of `ranks` ranks, `ranks_of_host` on each host."""
    changed, count = re.subn(r"mesh \[0 \.\. (\w+)\)", rf"mesh [0 .. \1) of {ranks_of_host}", text)
    assert count == 1, f"expected one mesh, got {count}"
    return re.sub(r"\bD = \d+", f"D = {ranks}", changed)


# The texts to choose from, and the schedules that can lower them.
DRAWN = (
    ("""  %A = input {type}[DIDx{{D}}, {m}, {k}]
  %B = input {type}[{k}, {n}]
  %C = matmul %A, %B : {type}[Stream{{D}}, {m}, {n}]
  output %C
""", FLAT + HIERARCHICAL),
    ("""  %A = input {type}[DIDx{{D}}, ceil({rows}, D), {k}]
  %B = input {type}[{k}, {n}]
  %C = matmul %A, %B : {type}[Stream{{D}}, ceil({rows}, D), {n}]
  output %C
""", ("pairwise", "ring") + HIERARCHICAL),
    ("""  %A = input {type}[D, {m}, DIDx{{D}}, {k}]
  %B = input {type}[DIDx{{D}}, {k}, {n}]
  %C = matmul %A, %B : {type}[DIDx{{D}}, {m}, {n}]
  output %C
""", ("pairwise", "ring", "collective") + HIERARCHICAL),
    ("""  %A = input {type}[{m}, DIDx{{D}}, {k}]
  %B = input {type}[DIDx{{D}}, {k}, {n}]
  %C = matmul %A, %B : {type}[{m}, {n}]
  output %C
""", ("pairwise", "collective")),
    ("""  %A = input {type}[DIDx{{D}}, {m}, {k}]
  %W1 = input {type}[{k}, DIDx{{D}}, {f}]
  %W2 = input {type}[DIDx{{D}}, {f}, {n}]
  %H = matmul %A, %W1 : {type}[Stream{{D}}, {m}, DIDx{{D}}, {f}]
  %Y = matmul %H, %W2 : {type}[DIDx{{D}}, {m}, {n}]
  output %Y
""", ("pairwise", "H=hierarchical,Y=ring", "H=ring,Y=hierarchical") + HIERARCHICAL),
)


def drawn_case(seed, ranks, ranks_of_host):
    """Returns a gather, a reduction or both. The number of rows in a block may be odd."""
    draw = random.Random(seed)
    body, schedules = DRAWN[seed % len(DRAWN)]
    m, f = draw.choice((1, 2, 3, 5, 8, 17)), draw.randint(1, 12)
    # The last block is not empty, and usually incomplete.
    rows = (ranks - 1) * m + draw.randint(1, m)
    text = (f"fusion @drawn_{seed}(D = {ranks}) {{\n  mesh [0 .. D) of {ranks_of_host}\n"
            + body.format(type=draw.choice(("f32", "bf16", "f64")), m=m, rows=rows, f=f,
                          k=draw.randint(1, 24), n=draw.randint(1, 24)) + "}\n")
    flags = ["--schedule", draw.choice(schedules), "--iterations", str(draw.randint(1, 3)),
             "--seed", str(seed)]
    return {"text": text, "flags": flags}


KINDS = ("kill", "stop", "kill host", "stop host", "cable", "partition", "delay", "swallow",
         "missing host", "kill store")


def drawn_fault(seed, hosts, ranks_of_host):
    """Returns a fault: its kind, its victim, and its time in seconds after the start. At that time,
    hosts may still be connecting. Host 0 runs the store, behind a proxy."""
    draw = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    # Connecting takes several round trips, and the time for connecting is not extended if hosts are
    # slow. Therefore, these faults occur later.
    times = (1.0, 2.0) if kind in ("delay", "kill store") else (0.0, 0.02, 0.1, 0.3, 1.0, 2.0)
    host = 0 if kind == "kill store" else draw.randrange(1, hosts)
    return {"kind": kind, "host": host, "local": draw.randrange(ranks_of_host),
            "after": draw.choice(times)}
