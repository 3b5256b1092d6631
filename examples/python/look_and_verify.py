"""Prints a program, proves it safe, runs it, and shows when each command was executed.

usage: look_and_verify.py [PAGE.html]     (the file for the HTML page)
"""
import pathlib
import sys

import braid

EXAMPLE = pathlib.Path(__file__).parents[1] / "ag_matmul.braid"

program = braid.compile(EXAMPLE, ranks=2, schedule="ring", M=256, K=128, N=64)
print("What every rank executes:\n")
print(program)
print("What rank 0 issues:\n")
print(program.plan(0))
print(program.check())        # proves that there are no races and no deadlocks
print(program.verify())       # compares every element of a run on CPU ranks with a reference

trace = program.trace()
spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
gemms = [event for event in spans if event["name"].startswith("matmul")]
print(f"{len(spans)} commands ran on all ranks; {len(gemms)} of them were GEMMs, which took "
      f"{sum(event['dur'] for event in gemms):.0f} us in all")
page = program.view(trace=trace)  # in a notebook, evaluating `page` displays it
if len(sys.argv) > 1:
    pathlib.Path(sys.argv[1]).write_text(page, encoding="utf-8")
    print(f"{sys.argv[1]} shows the program beside the time line of its commands")
