"""torch_warm_up.py FOLDER: fails unless torch_rows.py in FOLDER makes as many runs as it should, of
runs whose times are given. Numbers are those of BenchTiming in tests/api/row_timer_test.cpp."""
import sys
import time

sys.path.insert(0, sys.argv[1])
import torch_rows  # noqa: E402

ASKED = {"warm_up": 5, "iterations": 20}
WARMED_UP = dict(ASKED, warm_up_us=1000)
LIMITED = dict(WARMED_UP, limit_us=400)


class OneRank:
    def maxima(self, values):
        return values


def runs(request, time_of_run):
    """How many are untimed, and how many timed. time_of_run gets the number of a run, from 1 on."""
    rows, done = torch_rows.Rows.__new__(torch_rows.Rows), []
    rows.board = OneRank()
    rows.made = {("row", False): None}

    def time_once(_):
        done.append(0)
        return time_of_run(len(done))
    rows.time_once = time_once
    timed = len(rows.time(dict(request, row="row", graph=False)))
    return len(done) - timed, timed


def check(got, expected):
    assert got == expected, f"expected {expected} runs, got {got}"


for us, untimed, timed in ((10, 100, 20), (300, 4, 3), (1e6, 1, 3)):
    check(torch_rows.fitting(LIMITED, us), (untimed, timed))
check(torch_rows.fitting(dict(LIMITED, idle_gap_us=10), 10), (50, 20))
check(torch_rows.fitting(dict(WARMED_UP, warm_up_us=1e300), 1), (100000, 20))
check(torch_rows.fitting(dict(WARMED_UP, warm_up_us=1e300), 0), (100000, 20))
check(runs(ASKED, lambda run: 10), (5, 20))
# Runs of a burst, and bursts that are untimed and timed, as RowTimer has them.
BURSTS = dict(LIMITED, limit_us=50e3, bursts=21)
for us, expected in ((100, (100, 2, 5)), (1e6, (2, 2, 3)), (0, (10000, 101, 21))):
    check(torch_rows.bursts_of(BURSTS, us), expected)
check(torch_rows.bursts_of({"bursts": 2}, 1e6), (2, 1, 2))
check(runs(WARMED_UP, lambda run: 10), (100, 20))
check(runs(WARMED_UP, lambda run: 300), (5, 20))
for few in (0, 1):
    check(runs(dict(WARMED_UP, warm_up=few), lambda run: 100), (10, 20))
    check(runs(dict(ASKED, warm_up=few), lambda run: 100), (few, 20))
# The first run loads what the others find, and one that was disturbed is not the last word.
check(runs(WARMED_UP, lambda run: 1e6 if run == 1 else 10), (100, 20))
check(runs(WARMED_UP, lambda run: 450 if run <= 2 else 10), (100, 20))
check(runs(WARMED_UP, lambda run: 450 if run in (4, 7) else 10), (100, 20))


class Meeting(OneRank):
    """Notes when each run begins."""
    begins = []

    def wait(self):
        self.begins.append(time.perf_counter())


# It idles before each run, which does not count.
rows = torch_rows.Rows.__new__(torch_rows.Rows)
rows.board, rows.made, rows.is_gpu, rows.ended = Meeting(), {("row", False): lambda: None}, False, 0
times = rows.time({"warm_up": 0, "iterations": 3, "row": "row", "graph": False, "idle_gap_us": 20000})
gaps = [after - before for before, after in zip(Meeting.begins, Meeting.begins[1:])]
assert len(gaps) == 2 and min(gaps) >= 0.02 and min(times) < 20000, (gaps, times)

# A burst is runs back to back from one barrier on, and its time is that of one run.
done = []
rows.made, rows.idle_gap, Meeting.begins = {("row", False): lambda: done.append(0)}, 0, []
bursts = rows.time_bursts({"row": "row", "graph": False, "bursts": 4}, [4000, 5000, 6000])
assert (len(bursts), len(Meeting.begins), len(done)) == (4, 5, 10), (bursts, len(done))
assert rows.time_bursts({"row": "row", "graph": False}, [1]) == []
