#!/usr/bin/env python3
"""How much longer products take while copies between GPUs go on, and whether power is why.

Each GPU multiplies, one product after the other, and during each of them its copy engines push three
blocks to the next GPU. Nobody waits for anybody. With zeros a GPU needs much less power, so what
copies cost there is what they take from products in memory and caches; with random data they also
take from the power limit.

    python3 interference.py > interference.txt
"""
import ctypes
import statistics
import subprocess
import time

import torch

SHAPES = ((8192, 3584, 4096), (8192, 7168, 8192), (16384, 16384, 16384))
SECONDS = 1.0  # of each turn; the clocks settle in the first half
TURNS = 3
DEFAULT = 4  # cudaMemcpyDefault
RUNTIME = ctypes.CDLL("libcudart.so.13")  # the one that torch has loaded


class Gpu:
    def __init__(self, number, shape, is_random):
        m, n, k = shape
        self.device = device = torch.device("cuda", number)

        def tensor(rows, columns):
            if is_random:
                return torch.rand(rows, columns, device=device).mul_(2).sub_(1).to(torch.bfloat16)
            return torch.zeros(rows, columns, device=device, dtype=torch.bfloat16)

        self.a, self.b = tensor(m, k), tensor(k, n)
        self.c = torch.empty(m, n, device=device, dtype=torch.bfloat16)
        self.block = tensor(m // 4, k)
        self.into = [torch.empty_like(self.block) for _ in range(3)]
        self.copies = torch.cuda.Stream(device)

    def multiply(self, neighbour, pushes):
        with torch.cuda.device(self.device):
            begin = torch.cuda.current_stream().record_event()
            torch.matmul(self.a, self.b, out=self.c)
            if not pushes:
                return
            self.copies.wait_event(begin)
            for block in neighbour.into:  # torch's copy_ would let the neighbour's product wait
                code = RUNTIME.cudaMemcpyAsync(
                    ctypes.c_void_p(block.data_ptr()), ctypes.c_void_p(self.block.data_ptr()),
                    ctypes.c_size_t(block.nbytes), DEFAULT,
                    ctypes.c_void_p(self.copies.cuda_stream))
                assert code == 0, code
            torch.cuda.current_stream().wait_event(self.copies.record_event())


def synchronize(gpus):
    for gpu in gpus:
        torch.cuda.synchronize(gpu.device)


def watch():
    return subprocess.Popen(
        ["nvidia-smi", "--query-gpu=power.draw.instant,clocks.sm", "--format=csv,noheader,nounits",
         "-lms", "100"], stdout=subprocess.PIPE, text=True)


def turn(gpus, pushes, each):
    """Microseconds a product, watts and MHz, all in the second half."""
    smi = watch()
    begin = middle = time.monotonic()
    count = 0
    while time.monotonic() - begin < SECONDS:
        if middle == begin and time.monotonic() - begin > SECONDS / 2:
            middle, count = time.monotonic(), 0
        for _ in range(each):
            for gpu, neighbour in zip(gpus, gpus[1:] + gpus[:1]):
                gpu.multiply(neighbour, pushes)
        synchronize(gpus)
        count += each
    us = (time.monotonic() - middle) / count * 1e6
    smi.terminate()
    lines = [line.split(",") for line in smi.communicate()[0].splitlines() if line.count(",") == 1]
    late = lines[len(lines) // 2:]
    return us, statistics.mean(float(w) for w, _ in late), statistics.mean(float(c) for _, c in late)


def main():
    count = torch.cuda.device_count()
    print(count, "x", torch.cuda.get_device_name(0), "torch", torch.__version__)
    for shape in SHAPES:
        each = max(1, int(1e13 / (2 * shape[0] * shape[1] * shape[2])))
        for is_random in (True, False):
            gpus = [Gpu(i, shape, is_random) for i in range(count)]
            for gpu, neighbour in zip(gpus, gpus[1:] + gpus[:1]):
                neighbour.into[0].copy_(gpu.block)  # lets them reach one another
            synchronize(gpus)
            seen = {False: [], True: []}
            for _ in range(TURNS):
                for pushes in seen:
                    seen[pushes].append(turn(gpus, pushes, each))
            alone, beside = ([statistics.median(column) for column in zip(*seen[pushes])]
                             for pushes in (False, True))
            print("x".join(map(str, shape)), "random" if is_random else "zeros",
                  *(f"{name} {us:.1f} us {watts:.0f} W {mhz:.0f} MHz"
                    for name, (us, watts, mhz) in (("alone", alone), ("beside copies", beside))),
                  f"times {beside[0] / alone[0]:.3f}", sep="  ", flush=True)


main()
