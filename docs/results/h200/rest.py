"""rest.py MxNxK: what a product takes in PyTorch, by how long the GPU rests between two runs.

Made rest.txt on one H200, before it was tidied. Each line is 0.6 s of replays, by the host's clock; of these the first
third is left out. Operands are random in [-1, 1): all of them, or a tile of 2 MiB again and again,
as the rows of `braid bench` have it. Clocks (MHz), power (W) and the reasons for lower clocks (4:
power) are the driver's.
"""
import ctypes
import statistics
import sys
import threading
import time

import torch

SECONDS, TILE = 0.6, 1 << 20
M, N, K = (int(extent) for extent in sys.argv[1].split("x"))
SAMPLES = []  # when, clock, watts, reasons


def watch():
    library, gpu = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
    library.nvmlInit_v2()
    library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))
    clock, milliwatts, reasons = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_ulonglong()
    while True:
        library.nvmlDeviceGetClockInfo(gpu, 1, ctypes.byref(clock))
        library.nvmlDeviceGetPowerUsage(gpu, ctypes.byref(milliwatts))
        library.nvmlDeviceGetCurrentClocksThrottleReasons(gpu, ctypes.byref(reasons))
        SAMPLES.append((time.perf_counter(), clock.value, milliwatts.value / 1000, reasons.value))
        time.sleep(0.01)


def fresh(*extents):
    return (torch.rand(*extents, device="cuda") * 2 - 1).to(torch.bfloat16)


def tiled(rows, columns):
    times = -(-rows * columns // TILE)
    return fresh(TILE).repeat(times)[:rows * columns].view(rows, columns).contiguous()


def graphed(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def measure(name, replay, rest, products=1):
    """`rest` in microseconds, between replays of so many products."""
    time.sleep(0.2)
    for _ in range(3):
        replay()
    torch.cuda.synchronize()
    times, begin = [], time.perf_counter()
    last = begin
    while time.perf_counter() - begin < SECONDS:
        while (time.perf_counter() - last) * 1e6 < rest:
            pass
        start = time.perf_counter()
        replay()
        torch.cuda.synchronize()
        last = time.perf_counter()
        times.append((last - start) * 1e6 / products)
    end = time.perf_counter()
    late = times[len(times) // 3:]
    tenths = statistics.quantiles(late, n=10)
    seen = [each[1:] for each in SAMPLES if begin + (end - begin) / 3 < each[0] < end]
    clocks, watts, reasons = zip(*seen)
    print(f"{name:28} gap {rest:4}: median {statistics.median(late):6.1f} p10 {tenths[0]:6.1f} "
          f"p90 {tenths[-1]:6.1f} duty {sum(times) * 1e-6 * products / (end - begin):.2f}  clock "
          f"{statistics.mean(clocks):.0f} [{min(clocks)} {max(clocks)}] power "
          f"{statistics.mean(watts):.0f} reasons {sorted(map(hex, set(reasons)))}", flush=True)


def main():
    threading.Thread(target=watch, daemon=True).start()
    c = torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
    for name, make in (("fresh", fresh), ("tiled", tiled)):
        a, b = make(M, K), make(K, N)
        one = graphed(lambda: torch.matmul(a, b, out=c))
        ten = graphed(lambda: [torch.matmul(a, b, out=c) for _ in range(10)])
        for rest in (0, 5, 10, 20, 30, 60, 120):
            measure(name, one, rest)
        measure(f"{name} ten", ten, 0, products=10)
        for rest in (0, 30):
            measure(f"{name} again", one, rest)


if __name__ == "__main__":
    main()
