#!/usr/bin/env python3
"""python_gpu_test.py FOLDER [--ranks N] [--beside RUNS]: the Python package on GPUs.

FOLDER contains the package. Each rank is a process of this script. Checks eager calls, calls on
another stream, and calls in a CUDA graph of PyTorch, each with new integers and overwritten
outputs, as well as calls that must be rejected. With --beside, instead executes RUNS runs with
copies and with NCCL, each on a separate stream, concurrently with all-reduces of PyTorch's NCCL on
a third stream. Tensors are PyTorch's. Exits with 77 if PyTorch or its GPUs are missing.
"""
import argparse
import gc
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
TEXT = """fusion @gather(D = 2, M = 64, K = 128, N = 96) {
  mesh [0 .. D)
  %A = input bf16[DIDx{D}, M/D, K]
  %B = input bf16[K, N]
  %C = matmul %A, %B : bf16[Stream{D}, M/D, N]
  output %C
}
"""


class Rank:
    def __init__(self, braid, torch):
        self.braid, self.torch = braid, torch
        self.job = braid.join("cuda", timeout=30.0)
        program = braid.compile(TEXT, ranks=self.job.ranks, schedule="pairwise",
                                M=32 * self.job.ranks)
        self.op = self.job.prepare(program)
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.generator = torch.Generator(device="cpu").manual_seed(7)  # equal on all ranks

    def draw(self):
        """Draws the complete A and B, and computes the expected C."""
        def some(*shape):
            values = self.torch.randint(-2, 3, shape, generator=self.generator)
            return values.to(self.device, self.torch.bfloat16)
        A, B = some(32 * self.job.ranks, 128), some(128, 96)
        return A, B, (A.double() @ B.double())

    def mine(self, A):
        return A.view(self.job.ranks, 1, 32, 128)[self.job.rank]

    def expect(self, C, expected):
        assert self.torch.equal(C.view(-1, 96).double(), expected), "wrong result"

    def eager(self):
        for _ in range(200):
            A, B, expected = self.draw()
            self.expect(self.op(self.mine(A), B), expected)

    def on_another_stream(self):
        side = self.torch.cuda.Stream()
        for _ in range(50):
            A, B, expected = self.draw()
            side.wait_stream(self.torch.cuda.current_stream())
            with self.torch.cuda.stream(side):
                C = self.op(self.mine(A), B)
            self.torch.cuda.current_stream().wait_stream(side)
            self.expect(C, expected)

    def replayed(self):
        A, B, expected = self.draw()
        mine = self.mine(A).clone()
        C = self.op.capture(mine, B)
        for _ in range(200):
            A, weights, expected = self.draw()
            mine.copy_(self.mine(A))
            B.copy_(weights)
            C.fill_(float("nan"))
            self.op.replay()
            self.expect(C, expected)

    def captured(self):
        """Tests a call between the caller's kernels in a graph, alternating with eager calls."""
        torch = self.torch
        A, B = torch.zeros(1, 32, 128, dtype=torch.bfloat16, device=self.device), self.draw()[1]
        C = torch.empty(self.job.ranks, 32, 96, dtype=torch.bfloat16, device=self.device)
        twice = torch.empty_like(C)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            A.mul_(2)
            self.op(A, B, out=C)
            torch.mul(C, 2, out=twice)
        for i in range(300):
            whole, weights, expected = self.draw()
            A.copy_(self.mine(whole))
            B.copy_(weights)
            twice.fill_(float("nan"))
            graph.replay()
            self.expect(twice, expected * 4)
            if i % 10 == 0:
                self.expect(self.op(self.mine(whole), weights), expected)
        self.op.close()
        try:
            self.job.close()
        except self.braid.InputError as error:
            assert "graph" in str(error), error
        else:
            raise AssertionError("expected close() to be refused while the graph lives")
        del graph
        gc.collect()
        torch.cuda.synchronize()

    def refused(self):
        A, B, _ = self.draw()
        for inputs, words in (((self.mine(A).cpu(), B), "%A"), ((self.mine(A), B.t()), "%B"),
                              ((self.mine(A), B.float()), "%B")):
            try:
                self.op(*inputs)
            except self.braid.InputError as error:
                assert words in str(error), error
            else:
                raise AssertionError(f"expected {words} to be refused")

    def beside(self, runs):
        """The three streams are not ordered; their results are compared occasionally."""
        import torch.distributed as dist
        torch, ranks = self.torch, self.job.ranks
        dist.init_process_group("nccl", rank=self.job.rank, world_size=ranks,
                                store=dist.FileStore(os.environ["TEST_STORE"], ranks))
        program = self.braid.compile(TEXT, ranks=ranks, M=32 * ranks,
                                     schedule="collective;transport=messages")
        ops = [(self.op, torch.cuda.Stream()), (self.job.prepare(program), torch.cuda.Stream())]
        own, looks = torch.cuda.Stream(), max(1, runs // 100)
        drawn = [self.draw() for _ in ops]
        traffic = torch.zeros(1 << 16, device=self.device)
        torch.cuda.synchronize()
        for i in range(runs):
            results = []
            for (op, stream), (A, B, _) in zip(ops, drawn):
                with torch.cuda.stream(stream):
                    results.append(op(self.mine(A), B))
            with torch.cuda.stream(own):
                traffic.fill_(i % 1000 + self.job.rank)
                dist.all_reduce(traffic)
            if i % looks == 0 or i == runs - 1:
                torch.cuda.synchronize()
                for C, (_, _, expected) in zip(results, drawn):
                    self.expect(C, expected)
                assert (traffic == ranks * (i % 1000) + ranks * (ranks - 1) // 2).all()
                drawn = [self.draw() for _ in ops]
                torch.cuda.synchronize()
        self.job.commit()
        for op, _ in ops:
            op.close()
        self.job.close()
        dist.destroy_process_group()

    def run(self):
        self.eager()
        self.on_another_stream()
        self.replayed()
        self.refused()
        self.job.commit()
        self.captured()
        self.job.close()


def rank_main(folder, beside):
    sys.path.insert(0, folder)
    import torch
    import braid
    torch.cuda.set_device(int(os.environ["BRAID_RANK"]) % torch.cuda.device_count())
    rank = Rank(braid, torch)
    if beside:
        rank.beside(beside)
    else:
        rank.run()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--beside", type=int, default=0, metavar="RUNS")
    options = parser.parse_args()
    if "BRAID_RANK" in os.environ:
        rank_main(options.folder, options.beside)
        return 0
    try:
        import torch
    except ImportError:
        print("skipped: expected PyTorch")
        return SKIPPED
    if not torch.cuda.is_available():
        print("skipped: expected PyTorch to find a GPU")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(options.ranks):
            environment = dict(os.environ, BRAID_RANK=str(rank), BRAID_RANKS=str(options.ranks),
                               BRAID_JOB=f"python-gpu-{os.getpid()}",
                               TEST_STORE=os.path.join(folder, "store"))
            ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
        codes = [each.wait(timeout=300) for each in ranks]
    print(f"{options.ranks} ranks ended with {codes}")
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())
