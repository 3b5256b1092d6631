"""make_losses.py FILE [WINNER [bursts]]: results of a bench on CPUs. At 16 x 16 x 16 `auto` is four times as
slow as WINNER (default: ring), at 32 x 16 x 16 it is behind by 3 %, and at 64 x 16 x 16 by 3 us; what
does a part of the work is faster everywhere. With bursts, a run of each row takes as long in one."""
import json
import sys

PARTS = ("matmul", "gather", "torch/gather_copy", "chunked;chunks=2")
winner = sys.argv[2] if len(sys.argv) > 2 else "ring"
rows = []
for m, automatic, best in ((16, 400.0, 100.0), (32, 1030.0, 1000.0), (64, 13.0, 10.0)):
    for name, us in (("matmul", 1.0), ("gather", 2.0), ("torch/gather_copy", 2.0),
                     ("chunked;chunks=2", 1.5), ("auto", automatic), (winner, best),
                     ("sequential", 2000.0), ("torch/fused", None)):
        row = {"m": m, "n": 16, "k": 16, "implementation": name, "graph": False}
        row.update({"failure": "not here"} if us is None else
                   {"median_us": us, "rounds_us": [[us]]})
        if us is not None and len(sys.argv) > 3 and name not in PARTS:
            row.update({"burst_median_us": 50.0, "burst_us": [50.0]})
        rows.append(row)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({"operation": "gather-matmul", "dtype": "bf16", "backend": "cpu", "ranks": 2,
               "device": "a CPU", "rows": rows}, file)
