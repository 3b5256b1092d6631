"""make_grid.py FILE [RANKS]: results of a bench over 2 x 2 x 2 shapes, one of them without a gather.
E of `auto` is 0.8, its speed-up 1.2. A run in a burst takes half as long, of pairwise a quarter."""
import json
import sys

rows = []
for m in (512, 1024):
    for n in (2048, 4096):
        for k in (64, 128):
            for name, us in (("matmul", 8.0), ("torch/matmul", 8.5), ("gather", 4.0),
                             ("sequential", 14.0), ("torch/sequential", 12.0), ("auto", 10.0),
                             ("pairwise;streams=2", 16.0), ("torch/fused", 9.0)):
                row = {"m": m, "n": n, "k": k, "implementation": name, "graph": False}
                if name == "gather" and (m, n, k) == (512, 2048, 64):
                    row["failure"] = "no <gather> & nothing else"
                else:
                    row["median_us"] = us
                    row["burst_median_us"] = us / (4 if name.startswith("pairwise") else 2)
                if name == "auto" and (m, n, k) == (512, 2048, 64):
                    row["choice"] = "ring;chunks=4"
                rows.append(row)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({"operation": "gather-matmul", "dtype": "bf16", "backend": "cuda",
               "ranks": int(sys.argv[2]) if len(sys.argv) > 2 else 4, "rounds": 5,
               "date": "2026-11-22T10:00:00Z", "commit": "1a2b3c4", "warm_up_ms": "by size",
               "batches": [{"rival": "PyTorch 2", "gpus_before": [{"driver": "580.1"}]}],
               "device": "a <GPU> & more, driver 1", "rows": rows}, file)
