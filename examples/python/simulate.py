"""Predicts the run times of a fusion with three schedules, on a machine that you need not have.

Prints the run time and E for each number of ranks. E is the time of all GEMMs alone or of
everything else alone, whichever is longer, divided by the run time: at 100 %, the shorter of the
two is completely hidden. Does not need a GPU.
"""
import pathlib

import braid

EXAMPLE = pathlib.Path(__file__).parents[1] / "ag_matmul.braid"

print("ranks  schedule       time of a run        E")
for ranks in (2, 4, 8):
    for schedule in ("sequential", "pairwise", "bulk"):
        program = braid.compile(EXAMPLE, ranks=ranks, schedule=schedule, M=16384, K=8192, N=4096)
        prediction = program.simulate(machine="dgx-h100-8", launch="graph")["predictions"][0]
        print(f"{ranks:5}  {schedule:12} {prediction['us']:10.0f} us {prediction['E']:8.0%}")
