"""Tests that a compiled model has the same gradients with Braid as without. Its parameters are
split in two dimensions: tensor parallelism with sequence parallelism, and FSDP. It has biases,
shares the weight of its embedding with its last layer, splits the loss, and recomputes activations.

usage: model_test.py FOLDER     (the folder that contains the package)
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks as processes  # noqa: E402

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                                   RowwiseParallel, SequenceParallel,
                                                   loss_parallel, parallelize_module)
    from torch.utils.checkpoint import checkpoint
except ImportError as reason:
    print(f"skipped: expected PyTorch, got: {reason}")
    sys.exit(processes.SKIPPED)

import braid.torch as bt  # noqa: E402

WORDS, HIDDEN, INNER, TOKENS = 64, 32, 48, 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (-1, 8)).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention, self.mlp = Attention(), MLP()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, HIDDEN)
        self.blocks = nn.ModuleList([Block()])
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, words):
        x = self.embedding(words)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


def gathered():
    return PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))


def plans():
    """Returns how to split the model, and each of its blocks."""
    scattered = RowwiseParallel(output_layouts=Shard(1))
    return {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1),
                                    use_local_output=False)}, {
        "norm1": SequenceParallel(), "norm2": SequenceParallel(),
        "attention": gathered(), "attention.o": scattered, "mlp": gathered(),
        "mlp.down": scattered, "mlp.up": ColwiseParallel(),
        **{f"attention.{name}": ColwiseParallel() for name in "qkv"}}


def gradients(tp, dp, batch):
    """Returns the loss and all gradients of the compiled model, as whole tensors."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Model()
    of_model, of_block = plans()
    parallelize_module(model, tp, of_model)
    model.head.weight = model.embedding.weight
    for block in model.blocks:
        parallelize_module(block, tp, of_block)
        block.compile()
        fully_shard(block, mesh=dp)
    fully_shard(model, mesh=dp)
    torch.manual_seed(100 + dp.get_local_rank())
    words, wanted = torch.randint(0, WORDS, (2, batch, TOKENS))
    with loss_parallel():
        loss = F.cross_entropy(model(words).flatten(0, 1), wanted.flatten())
        loss.backward()
    found = {name: value.grad for name, value in model.named_parameters()}
    return {name: value.full_tensor() if isinstance(value, DTensor) else value
            for name, value in {"loss": loss.detach(), **found}.items()}


def part_gradients(rank, ranks):
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("dp", "tp"))
    tp, dp = mesh["tp"], mesh["dp"]
    for batch in (1, 2):
        bt.disable()
        wanted = gradients(tp, dp, batch)
        for keep in ("gathered", "shard"):
            bt.enable(keep)
            bt.report(clear=True)
            torch.testing.assert_close(gradients(tp, dp, batch), wanted, rtol=1e-4, atol=1e-5)
            taken = {(site.collective, site.direction) for site in bt.report().taken}
            assert taken >= {("all_gather", "forward"), ("reduce_scatter", "forward"),
                             ("reduce_scatter", "backward")}, bt.report()
    dist.barrier()


class Ranks(unittest.TestCase):
    def test_gradients(self):
        codes, said, _ = processes.run("gradients", 4, limit=1200)
        self.assertEqual(codes, [0] * 4, "\n".join(said)[-6000:])


if __name__ == "__main__":
    processes.main(globals(), torch)
