"""Code shared by the scripts in this folder: ranks, a single-device model, and comparisons.

The parameters of the single-device model have the same names as those of layers.py, but the model
shares no code with layers.py.
"""
from __future__ import annotations

import argparse
import math
import os
from typing import List, NamedTuple, Tuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import layers

# The largest difference that rounding may cause, relative to the largest element.
TOLERANCES = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 5e-2}


def add_options(parser: argparse.ArgumentParser, dtypes: List[str]) -> None:
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--inner", type=int, help="of the MLP; default: 4 * hidden")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--gated", action="store_true", help="MLP: silu(gate) * up")
    parser.add_argument("--dtype", choices=dtypes, default="float32")
    parser.add_argument("--device", choices=["cpu", "cuda"],
                        help="default: cuda if there is a GPU for each rank")


def start_rank(device: str | None) -> torch.device:
    """Joins the job that torchrun started, and returns this rank's device. Collective."""
    index = int(os.environ["LOCAL_RANK"])
    if device is None:
        has_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
        device = "cuda" if has_gpus else "cpu"
    if device == "cuda":
        place = torch.device("cuda", index)
        torch.cuda.set_device(place)
        dist.init_process_group("nccl", device_id=place)
        return place
    torch.set_num_threads(1)  # ranks share the cores
    dist.init_process_group("gloo")
    return torch.device("cpu")


def draw(shape: Tuple[int, ...], seed: int, place: torch.device, dtype: torch.dtype) -> Tensor:
    """Returns random values that are the same on all ranks and devices."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64).to(place, dtype)


def say(*words: object) -> None:
    if dist.get_rank() == 0:
        print(*words, flush=True)


# -- The single-device model. --

class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        tokens, batch, hidden = x.shape
        q, k, v = (each.reshape(tokens, batch * self.heads, -1).transpose(0, 1)
                   for each in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT / math.sqrt(hidden // self.heads)
        is_later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        y = scores.masked_fill(is_later, -math.inf).softmax(-1) @ v
        return self.out(y.transpose(0, 1).reshape(tokens, batch, hidden))


class MLP(nn.Module):
    def __init__(self, hidden: int, inner: int, gated: bool) -> None:
        super().__init__()
        self.inner, self.gated = inner, gated
        self.up = nn.Linear(hidden, 2 * inner if gated else inner)
        self.down = nn.Linear(inner, hidden)

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(x)
        if self.gated:
            return self.down(F.silu(h[..., :self.inner]) * h[..., self.inner:])
        return self.down(F.gelu(h))


class Block(nn.Module):
    """Maps [tokens, batch, hidden] to the same shape."""

    def __init__(self, hidden: int, heads: int, inner: int, gated: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention, self.mlp = Attention(hidden, heads), MLP(hidden, inner, gated)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def single_device_model(options: argparse.Namespace, blocks: int,
                        place: torch.device) -> nn.Sequential:
    """Returns a model with the same parameters on all ranks. No parameter has values that could
    hide a mistake, such as a bias of zeros."""
    inner = options.inner or 4 * options.hidden
    model = nn.Sequential(*(Block(options.hidden, options.heads, inner, options.gated)
                            for _ in range(blocks)))
    model.to(place, getattr(torch, options.dtype))
    for seed, (name, parameter) in enumerate(model.named_parameters()):
        shape = tuple(parameter.shape)
        values = draw(shape, seed, place, parameter.dtype)
        is_scale = "norm" in name and name.endswith("weight")
        parameter.data = values / math.sqrt(shape[-1]) + (1 if is_scale else 0)
    return model


def parallel_blocks(options: argparse.Namespace, single: nn.Sequential,
                    place: torch.device) -> List[layers.TransformerBlock]:
    """Returns parallel versions of the blocks of `single`, with this rank's parameter slices."""
    like = {"device": place, "dtype": getattr(torch, options.dtype)}
    blocks = [layers.TransformerBlock(options.hidden, options.heads, options.inner,
                                      gated=options.gated, **like) for _ in single]
    for block, full in zip(blocks, single):
        layers.load_full_state(block, full.state_dict())
    return blocks


# -- Comparisons. --

class Difference(NamedTuple):
    what: str
    size: float  # the maximum over all ranks, relative to the largest element


@torch.no_grad()
def difference(what: str, mine: Tensor, expected: Tensor) -> Difference:
    """Compares this rank's tensor with its slice of the single-device tensor. Collective."""
    if mine.shape != expected.shape:
        raise ValueError(f"{what}: expected {tuple(expected.shape)}, got {tuple(mine.shape)}")
    most = (mine.double() - expected.double()).abs().max() / expected.double().abs().max()
    most = most.nan_to_num(nan=math.inf).float()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return Difference(what, float(most))


def count_wrong(differences: List[Difference], tolerance: float) -> int:
    """Prints a table of the differences, and returns how many exceed the tolerance."""
    width = max(len(each.what) for each in differences)
    for each in differences:
        verdict = "" if each.size <= tolerance else f"  more than {tolerance:g}"
        say(f"  {each.what:<{width}}  {each.size:8.1e}{verdict}")
    return sum(each.size > tolerance for each in differences)
