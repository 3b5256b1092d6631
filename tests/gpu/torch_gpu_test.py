#!/usr/bin/env python3
"""torch_gpu_test.py FOLDER [--ranks N]: the operators of braid.torch on GPUs.

FOLDER contains the package. Each rank is a process of this script; ranks use gloo to connect.
Results for new integers are compared with a reference in double precision: eager calls, repeated
addresses (also in memory that was freed in between), CUDA graphs alternating with eager calls,
gradients, compiled models, and a training step as one graph. Further cases: rejected calls, and
calls after a failure. Exits with 77 if PyTorch or its GPUs are missing.
"""
import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
PARTS = ("eager", "symmetric", "come_back", "freed", "captured", "gradients", "compiled",
         "taken_over", "whole_step", "refused", "failed")
# These parts run in separate processes, because earlier work in a process would affect them.
ALONE = ("attention_braid", "attention_braid_nccl", "attention_nccl_braid", "graph_time",
         "device_time")


class Rank:
    def __init__(self, torch, rank, ranks):
        import braid.torch as bt
        self.torch, self.bt, self.rank, self.ranks = torch, bt, rank, ranks
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.generator = torch.Generator().manual_seed(7)  # equal on all ranks

    def draw(self, *shape, dtype=None):
        values = self.torch.randint(-2, 3, shape, generator=self.generator)
        return values.to(self.device, dtype or self.torch.bfloat16)

    def mine(self, tensor, dim=0):
        block = -(-tensor.shape[dim] // self.ranks)
        begin = min(self.rank * block, tensor.shape[dim])
        return tensor.narrow(dim, begin, min(block, tensor.shape[dim] - begin))

    def expect(self, found, wanted):
        assert found.shape == wanted.shape, (found.shape, wanted.shape)
        assert self.torch.equal(found.double(), wanted), "wrong result"

    def eager(self):
        torch, bt = self.torch, self.bt
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for rows in (1, 7, 64, 513):
                for _ in range(3):
                    X, W = self.draw(rows, 64, dtype=dtype), self.draw(96, 64, dtype=dtype)
                    b = self.draw(96, dtype=dtype)
                    (Y,), G = bt.all_gather_matmul(self.mine(X), [W.t()], bias=[b], rows=rows,
                                                   return_A=True)
                    self.expect(G, X.double())
                    self.expect(Y, X.double() @ W.double().t() + b.double())
                    A = self.draw(self.ranks, rows, 64, dtype=dtype)
                    B = self.draw(self.ranks, 64, 96, dtype=dtype)
                    whole = (A.double() @ B.double()).sum(0)
                    self.expect(bt.matmul_reduce_scatter(A[self.rank], B[self.rank]),
                                self.mine(whole))
                    self.expect(bt.matmul_all_reduce(A[self.rank], B[self.rank]), whole)
        X = self.draw(3, 8 * self.ranks, 64)
        B = self.draw(64, 96)
        self.expect(bt.all_gather_matmul(self.mine(X, 1), B, gather_dim=1),
                    X.double() @ B.double())

    def symmetric(self):
        """Inputs in PyTorch's symmetric memory are read in place: blocks for peers are written to
        peer memory directly from the input, without staging."""
        from torch.distributed import _symmetric_memory as symmetric_memory
        torch, bt = self.torch, self.bt
        bt.synchronize()
        before = {(each.operator, each.shape): each.calls for each in bt.report().calls}
        A = symmetric_memory.empty(48, 64, dtype=torch.bfloat16, device=self.device)
        for _ in range(20):
            X, B = self.draw(48 * self.ranks, 64), self.draw(64, 80)
            A.copy_(self.mine(X))
            self.expect(bt.all_gather_matmul(A, B), X.double() @ B.double())
        ours = [each for each in bt.report().calls
                if each.calls != before.get((each.operator, each.shape))]
        assert ours and all(each.copies == 0 and "protocol=put" in each.schedule
                            for each in ours), ours

    def come_back(self):
        """The third call with the same addresses is a replay. Contents and streams vary."""
        torch = self.torch
        tensors = [(self.draw(32, 64), self.draw(64, 96)) for _ in range(40)]
        side = torch.cuda.Stream()
        for i in range(400):
            A, B = tensors[i % 3 if i % 5 else i % 40]
            X, W = self.draw(32 * self.ranks, 64), self.draw(64, 96)
            A.copy_(self.mine(X))
            B.copy_(W)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side if i % 2 else torch.cuda.current_stream()):
                Y = self.bt.all_gather_matmul(A, B)
            torch.cuda.current_stream().wait_stream(side)
            self.expect(Y, X.double() @ W.double())
            del Y

    def freed(self):
        """PyTorch frees memory and obtains the same addresses again in other allocations. A graph
        that was recorded for the old allocations must not be launched."""
        torch, came_back, last = self.torch, 0, None
        W = self.draw(1024, 512)
        for turn in range(12):
            rows = 4096 * (1 + turn % 3)
            memory = torch.empty(rows, 1024, dtype=torch.bfloat16, device=self.device)
            X = self.draw(4096 * self.ranks, 1024)
            A = memory[:4096].copy_(self.mine(X))
            for _ in range(4):
                Y = self.bt.all_gather_matmul(A, W)
            self.expect(Y, (X.double() @ W.double()).bfloat16().double())
            came_back += last == A.data_ptr()
            last = A.data_ptr()
            del memory, X, A, Y
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        assert came_back, "expected PyTorch to get an address back"

    def captured(self):
        """A layer between kernels of the caller: 1,000 replays, alternating with eager calls."""
        torch, bt = self.torch, self.bt
        x, W, V = self.draw(16, 64), self.draw(32, 64), self.draw(64, 32)

        def step():
            h = bt.all_gather_matmul(x * 2, W.t(), activation="relu")
            return bt.matmul_reduce_scatter(h, V.t()) * 2

        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = step()
        for i in range(1000):
            X = self.draw(16 * self.ranks, 64)
            x.copy_(self.mine(X))
            y.fill_(float("nan"))
            graph.replay()
            if i % 10:
                continue
            parts = torch.relu(2 * X.double() @ W.double().t())
            wanted = self.mine(2 * self.ranks * (parts @ V.double().t()))
            torch.testing.assert_close(y.double(), wanted, rtol=0.02, atol=1.0)
            if i % 20 == 0:
                torch.testing.assert_close(step().double(), wanted, rtol=0.02, atol=1.0)
        bt.synchronize()
        try:
            bt.prepare(bt.matmul_reduce_scatter, self.hidden(W), V.t(), seconds=0.1)
        except bt.InputError as error:
            assert "while a graph contains runs" in str(error), error
        else:
            raise AssertionError("expected prepare() to be refused while the graph lives")
        del graph, y
        gc.collect()
        torch.cuda.synchronize()
        time.sleep(0.5)  # a CUDA thread reports the destruction later
        bt.prepare(bt.matmul_reduce_scatter, self.hidden(W), V.t(), seconds=0.1)

    def hidden(self, W):
        """Returns a tensor with the shape of the data between the two operators of captured()."""
        return self.torch.zeros(16 * self.ranks, W.shape[0], dtype=W.dtype, device=self.device)

    def gradients(self):
        torch, bt = self.torch, self.bt
        X, V, W = (torch.randn(*shape, generator=self.generator, dtype=torch.float64)
                   for shape in ((8 * self.ranks, 16), (self.ranks, 12, 16), (self.ranks, 16, 12)))
        x, v, w = (each.to(self.device).requires_grad_()
                   for each in (self.mine(X), V[self.rank], W[self.rank]))
        h = bt.all_gather_matmul(x, v.t(), activation="gelu")
        bt.matmul_reduce_scatter(h, w.t()).square().sum().backward()
        for each in (X, V, W):
            each.requires_grad_()
        Y = sum(torch.nn.functional.gelu(X @ V[r].t()) @ W[r].t() for r in range(self.ranks))
        Y.square().sum().backward()
        for found, wanted in ((x.grad, self.mine(X.grad)), (v.grad, V.grad[self.rank]),
                              (w.grad, W.grad[self.rank])):
            torch.testing.assert_close(found.cpu(), wanted)

    def compiled(self):
        torch, bt = self.torch, self.bt
        W, V = self.draw(32, 64).float(), self.draw(64, 32).float()

        def step(x):
            h = bt.all_gather_matmul(x, W.t(), activation="relu")
            return bt.matmul_reduce_scatter(h, V.t()) + 1

        for options in ({}, {"mode": "reduce-overhead"}):
            function = torch.compile(step, fullgraph=True, **options)
            for _ in range(6):
                X = self.draw(16 * self.ranks, 64).float()
                wanted = self.ranks * (torch.relu(X @ W.t()) @ V.t()) + 1
                torch.testing.assert_close(function(self.mine(X).clone()), self.mine(wanted))
            del function
            torch._dynamo.reset()
        gc.collect()

    def taken_over(self):
        """A model parallelized by PyTorch, compiled after enable()."""
        torch, bt = self.torch, self.bt
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard
        from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                       parallelize_module)
        torch.manual_seed(0)
        whole = torch.nn.Sequential(torch.nn.Linear(64, 128, bias=False), torch.nn.ReLU(),
                                    torch.nn.Linear(128, 64, bias=False)).to(self.device)
        import copy
        split = copy.deepcopy(whole)
        parallelize_module(split, init_device_mesh("cuda", (self.ranks,)),
                           {"0": ColwiseParallel(input_layouts=Shard(0)),
                            "2": RowwiseParallel(output_layouts=Shard(0))})
        bt.enable()
        X = torch.randn(16 * self.ranks, 64, generator=self.generator).to(self.device)
        x = self.mine(X).clone().requires_grad_()
        torch.compile(split, fullgraph=True)(x).square().sum().backward()
        X.requires_grad_()
        whole(X).square().sum().backward()
        torch.testing.assert_close(x.grad, self.mine(X.grad), rtol=1e-3, atol=1e-3)
        bt.disable()
        print(bt.report())
        assert not bt.report().apart, bt.report().apart

    def attention_braid(self):
        self.attention(["braid"])

    def attention_braid_nccl(self):
        self.attention(["braid", "nccl"])

    def attention_nccl_braid(self):
        self.attention(["nccl", "braid"])

    def attention(self, ways):
        """Computes gradients through every attention kernel, regardless of earlier work. The
        backward pass of cuDNN's kernel (PyTorch 2.11) reads a gradient with the strides of the
        first gradient of that shape. PyTorch computes the reference on one device."""
        from torch.nn.attention import SDPBackend
        kernels = [(SDPBackend.CUDNN_ATTENTION, batch) for batch in (1, 2, 3)]
        kernels += [(each, 2) for each in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH,
                                           SDPBackend.EFFICIENT_ATTENTION)]
        for kernel, batch in kernels:
            block = Attention(self, batch)
            for way in ways:
                block.compare(way, kernel)
            self.torch._dynamo.reset()

    def whole_step(self):
        """Forward and backward pass of a transformer block as one graph: 1,000 replays, alternating
        with eager steps, give the same numbers."""
        torch = self.torch
        sys.path.insert(0, os.path.join(ROOT, "examples", "torch"))
        from layers import TransformerBlock
        torch.manual_seed(self.rank)
        block = TransformerBlock(128, 4, device=self.device, dtype=torch.float32)
        x = torch.zeros(32, 2, 128, device=self.device, requires_grad=True)
        learned = [x, *block.parameters()]

        def step():
            for each in learned:
                each.grad = None
            loss = block(x).square().sum()
            loss.backward()
            return [loss.detach(), *(each.grad for each in learned)]

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = step()
        for i in range(1000):
            with torch.no_grad():
                x.copy_(torch.randn(x.shape, generator=self.generator))
            for each in kept:
                each.fill_(float("nan"))
            graph.replay()
            if i % 20 == 0:
                for found, wanted in zip([each.clone() for each in kept], step()):
                    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        del graph

    def refused(self):
        bt = self.bt
        if self.rank == 0:  # if this part runs alone, the ranks have not connected yet
            self.expect_refusal(self.draw(8, 64), self.draw(64, 96))
        self.generator.manual_seed(8)
        bt.matmul_all_reduce(self.draw(8, 64), self.draw(64, 96))
        A, B = self.draw(24, 64), self.draw(64, 96)
        self.expect_refusal(A, B)
        try:
            bt.matmul_all_reduce(A, B.cpu())
        except bt.InputError as error:
            assert "same type and device" in str(error), error
        else:
            raise AssertionError("expected tensors on two devices to be refused")
        self.expect(bt.matmul_all_reduce(A, B), self.ranks * A.double() @ B.double())

    def expect_refusal(self, A, B):
        """A new shape during a capture is rejected, and the capture remains valid."""
        torch, bt = self.torch, self.bt
        stream = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream):
                bt.matmul_all_reduce(A, B)
        except bt.InputError as error:
            assert "cannot be prepared during graph capture" in str(error), error
        else:
            raise AssertionError("expected a new shape in a capture to be refused")

    def graph_time(self):
        """A run in a caller's graph takes as long as a replay of Braid's own graph. Compares the
        slopes of the time between 8 and 32 runs, in microseconds per run, where each time is the
        median of nine turns. Slopes vary by 2 %, so a slope that is too large is measured up to
        three times. Each variant uses a separate group, because a group with runs in a caller's
        graph also counts eager runs."""
        torch, dist = self.torch, self.torch.distributed
        most, tries = 0.5, 3
        groups = [dist.new_group(list(range(self.ranks))) for _ in range(2)]
        slower = []
        for name, M, N, K in (("matmul_all_reduce", 1, 4096, 2048),
                              *(("matmul_all_reduce", M, 8192, 4096) for M in (1, 16, 64)),
                              ("matmul_reduce_scatter", 1024, 4096, 7168)):
            A, B = ((torch.rand(*shape, device=self.device) * 2 - 1).bfloat16()
                    for shape in ((M, K), (K, N)))
            calls = [lambda group=group: getattr(self.bt, name)(A, B, group) for group in groups]
            for _ in range(3):
                same = torch.equal(*(call() for call in calls))
                assert same, "expected both groups to compute the same"
            runs = {}
            for count in (8, 32):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    kept = [calls[0]() for _ in range(count)]
                runs["caller", count] = graph.replay
                runs["own", count] = lambda count=count: [calls[1]() for _ in range(count)]
            for attempt in range(tries):
                took = self.turns(runs)
                slopes = {what: (took[what, 32] - took[what, 8]) / 24 for what in ("caller", "own")}
                said = f"{name} {M}x{N}x{K}: {slopes['caller']:.2f} us, own {slopes['own']:.2f}"
                if self.rank == 0:
                    print(said, flush=True)
                if slopes["caller"] <= slopes["own"] + most:
                    break
            else:
                slower.append(said)
            del kept, runs
            gc.collect()
        assert not slower, slower

    def turns(self, runs):
        """Returns the time of each run on the slower rank in microseconds, as the median of nine
        turns. The GPU sleeps until the host has issued all work."""
        torch, dist = self.torch, self.torch.distributed
        took = {key: [] for key in runs}
        for turn in range(12):
            for key, run in runs.items():
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                dist.barrier()
                torch.cuda._sleep(3_000_000)
                begin.record()
                run()
                end.record()
                torch.cuda.synchronize()
                if turn > 2:
                    took[key].append(begin.elapsed_time(end) * 1e3)
        longest = torch.tensor([statistics.median(each) for each in took.values()])
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        return dict(zip(took, longest.tolist()))

    def failed(self):
        """One rank fails the job of a separate group. From then on, no call returns a tensor."""
        torch, bt = self.torch, self.bt
        from braid.torch._group import job_of
        group = torch.distributed.new_group(backend="gloo")
        A, B = self.draw(8, 64), self.draw(64, 96)

        def call():
            return bt.matmul_all_reduce(A, B, group)

        for _ in range(3):
            call()
        bt.synchronize(group)
        torch.distributed.barrier(group)  # or rank 0 may fail the job while rank 1 synchronizes
        if self.rank == 0:
            self.expect_failure(lambda: job_of(group.group_name, A).job.fail("this is enough", 5))
        while True:
            try:
                bt.synchronize(group)
                time.sleep(0.001)
            except bt.PeerError:
                break
        self.expect_failure(call)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            self.expect_failure(call)

    def expect_failure(self, call):
        try:
            call()
        except self.bt.PeerError as error:
            assert "this is enough" in str(error), error
        else:
            raise AssertionError("expected the failure of the job")

    def device_time(self):
        """Measures the device time of successive calls at recurring addresses, with a measured
        schedule. As in the benchmark, ranks begin a burst together after a warm-up of 0.1 s."""
        torch, bt = self.torch, self.bt
        rows, columns, depth = 4096, 4096, 4096
        A = (torch.rand(rows // self.ranks, depth, device=self.device) * 2 - 1).bfloat16()
        B = (torch.rand(depth, columns, device=self.device) * 2 - 1).bfloat16()
        schedule = bt.prepare(bt.all_gather_matmul, A, B, seconds=2)
        bursts, begin, end = [], *(torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.no_grad():
            for _ in range(30):
                for i in range(52):
                    if i == 2:  # the first call includes waiting for the other rank and host
                        begin.record()
                    bt.all_gather_matmul(A, B)
                end.record()
                torch.cuda.synchronize()
                bursts.append(begin.elapsed_time(end) * 1e3 / 50)
        if self.rank == 0:
            print("device time:", json.dumps({
                "shape": f"{rows}x{columns}x{depth}", "schedule": schedule,
                "us": statistics.median(bursts[10:])}), flush=True)


class Attention:
    """An attention layer that PyTorch parallelizes, and the same layer on one device in f32."""

    def __init__(self, here, batch):
        self.here, torch = here, here.torch
        self.heads, self.width, tokens = 4, 256, 64 * here.ranks
        generator = torch.Generator(device=here.device).manual_seed(batch)

        def draw(*shape):
            return torch.randn(*shape, generator=generator, device=here.device).bfloat16()

        self.weights = [draw(self.width, self.width) / 16 for _ in range(4)]
        self.X, self.target = draw(batch, tokens, self.width), draw(batch, tokens, self.width)
        x = self.X.float().requires_grad_()
        weights = [each.float().requires_grad_() for each in self.weights]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            layers = [lambda x, w=each: torch.nn.functional.linear(x, w) for each in weights]
            self.loss(self.forward(x, layers), self.target).backward()
        self.wanted = [x.grad, *(each.grad for each in weights)]

    @staticmethod
    def loss(y, target):
        return (y.float() * target.float()).sum()

    def forward(self, x, layers):
        """`layers` are the projections of query, key, value and output."""
        q, k, v = (each(x).unflatten(-1, (-1, self.width // self.heads)).transpose(1, 2)
                   for each in layers[:3])
        y = self.here.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return layers[3](y.transpose(1, 2).flatten(2))

    def split(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                                       RowwiseParallel, parallelize_module)
        torch, outer = self.here.torch, self

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                like = {"bias": False, "device": outer.here.device, "dtype": torch.bfloat16}
                self.layers = torch.nn.ModuleList(
                    torch.nn.Linear(outer.width, outer.width, **like) for _ in range(4))
                for layer, weight in zip(self.layers, outer.weights):
                    layer.weight.data.copy_(weight)

            def forward(self, x):
                return outer.forward(x, self.layers)

        plan = {f"layers.{i}": ColwiseParallel() for i in range(3)}
        return parallelize_module(Block(), init_device_mesh("cuda", (self.here.ranks,)), {
            "": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            **plan, "layers.3": RowwiseParallel(output_layouts=Shard(1))})

    def compare(self, way, kernel):
        torch, here = self.here.torch, self.here
        block = self.split()
        compiled = torch.compile(block, fullgraph=True, dynamic=False)
        x = here.mine(self.X, 1).clone().requires_grad_()
        if way == "braid":
            here.bt.enable()
        with torch.nn.attention.sdpa_kernel(kernel):
            self.loss(compiled(x), here.mine(self.target, 1)).backward()
        here.bt.disable()
        parts = [here.mine(self.wanted[0], 1)]
        parts += [here.mine(each, 0) for each in self.wanted[1:4]] + [here.mine(self.wanted[4], 1)]
        found = [x.grad, *(layer.weight.grad.to_local() for layer in block.layers)]
        for name, mine, wanted in zip("xqkvo", found, parts):
            off = float((mine.float() - wanted).abs().max() / wanted.abs().max())
            assert off < 0.05, (way, kernel, tuple(self.X.shape), f"gradient of {name}", off)


def rank_main(folder, parts):
    sys.path.insert(0, folder)
    import datetime
    import torch
    import torch.distributed as dist
    rank, ranks = int(os.environ["TEST_RANK"]), int(os.environ["TEST_RANKS"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    # Models are also compared with NCCL.
    backend = "cpu:gloo,cuda:nccl" if any("attention" in part for part in parts) else "gloo"
    dist.init_process_group(backend, store=dist.FileStore(os.environ["TEST_STORE"], ranks),
                            rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=60))
    here = Rank(torch, rank, ranks)
    for part in parts:
        begin = time.monotonic()
        getattr(here, part)()
        torch.cuda.synchronize()
        here.bt.synchronize()
        print(f"rank {rank}: {part} took {time.monotonic() - begin:.1f} s", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=(*PARTS, *ALONE))
    options = parser.parse_args()
    if "TEST_RANK" in os.environ:
        rank_main(options.folder, options.parts)
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
            environment = dict(os.environ, TEST_RANK=str(rank), TEST_RANKS=str(options.ranks),
                               TEST_STORE=os.path.join(folder, "store"))
            ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
        codes = [each.wait(timeout=400) for each in ranks]
    print(f"{options.ranks} ranks ended with {codes}")
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())
