"""What is run on several hosts: fixed lists, drawn from fixed seeds.

A case names a file, or has a text; `flags` go to `braid run`. A text says its hosts in its mesh:
`mesh [0 .. 16) of 4`.
"""
import random
import re

FLAT = ("pairwise", "ring", "bulk", "collective")
HIERARCHICAL = ("hierarchical",)

# File, parameters, and which schedules can lower it.
EXAMPLES = (
    ("ag_matmul", {"M": 64, "K": 32, "N": 48}, FLAT + HIERARCHICAL),
    ("ag_linear", {"M": 64, "K": 32, "N": 48}, FLAT + HIERARCHICAL),
    ("ag_uneven", {}, ("pairwise", "ring") + HIERARCHICAL),
    ("matmul_reduce_scatter", {"M": 64, "K": 32, "N": 48},
     ("pairwise", "ring", "collective") + HIERARCHICAL),
    ("matmul_all_reduce", {"M": 64, "K": 32, "N": 48},
     ("pairwise", "collective", "hierarchical;reduction=two-shot")),
    ("mlp", {"M": 64, "K": 32, "F": 64, "N": 48}, ("pairwise", "H=hierarchical,Y=hierarchical")),
    ("gated_mlp", {"M": 64, "K": 32, "F": 64, "N": 48}, ("pairwise",) + HIERARCHICAL),
)


def on_hosts(text, ranks, ranks_of_host):
    """The fusion's text with its mesh on hosts of that many ranks."""
    changed, count = re.subn(r"mesh \[0 \.\. (\w+)\)", rf"mesh [0 .. \1) of {ranks_of_host}", text)
    assert count == 1, f"expected one mesh, got {count}"
    return re.sub(r"\bD = \d+", f"D = {ranks}", changed)


def example_cases():
    for name, parameters, schedules in EXAMPLES:
        for schedule in schedules:
            flags = ["--schedule", schedule]
            for key, value in parameters.items():
                flags += ["--set", f"{key}={value}"]
            yield {"file": f"examples/{name}.braid", "flags": flags}


GATHER = """fusion @drawn_{seed}(D = {ranks}) {{
  mesh [0 .. D) of {of}
  %A = input {type}[DIDx{{D}}, {m}, {k}]
  %B = input {type}[{k}, {n}]
  %C = matmul %A, %B : {type}[Stream{{D}}, {m}, {n}]
  output %C
}}
"""


def drawn_case(seed, ranks, ranks_of_host):
    """A gather whose blocks have any number of rows, odd ones among them."""
    draw = random.Random(seed)
    text = GATHER.format(seed=seed, ranks=ranks, of=ranks_of_host,
                         type=draw.choice(("f32", "bf16", "f64")),
                         m=draw.choice((1, 2, 3, 5, 8, 17)), k=draw.randint(1, 24),
                         n=draw.randint(1, 24))
    schedule = draw.choice(FLAT + HIERARCHICAL)
    flags = ["--schedule", schedule, "--iterations", str(draw.randint(1, 3)),
             "--seed", str(seed)]
    return {"text": text, "flags": flags}


KINDS = ("kill", "stop", "kill host", "stop host", "cable", "partition", "delay", "swallow",
         "missing host")


def drawn_fault(seed, hosts, ranks_of_host):
    """Whom it strikes, and when: seconds after the start, some of them while hosts still meet.
    Never host 0 where a proxy is asked for: it stands before that host."""
    draw = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    # To meet takes several messages there and back, for which slow hosts have no more time.
    times = (1.0, 2.0) if kind == "delay" else (0.0, 0.02, 0.1, 0.3, 1.0, 2.0)
    return {"kind": kind, "host": draw.randrange(1, hosts), "local": draw.randrange(ranks_of_host),
            "after": draw.choice(times)}
