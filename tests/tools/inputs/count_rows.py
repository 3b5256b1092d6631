"""count_rows.py FILE N: fails unless the results of a bench have N rows, no two of them the same."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    rows = json.load(file)["rows"]
names = {(row["m"], row["n"], row["k"], row["implementation"], row["graph"]) for row in rows}
assert len(rows) == len(names) == int(sys.argv[2]), (len(rows), len(names))
