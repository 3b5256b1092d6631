"""Generates M sequences; each step adds one token to each, and every rank has all M rows.

    torchrun --nproc-per-node 2 examples/torch/decode.py

braid must be on PYTHONPATH. There are too few rows to split them across ranks, so no rows are
gathered or scattered: each rank multiplies all rows by its columns of the first weight, and
matmul_all_reduce() multiplies the result by its rows of the second weight and sums over the ranks.
On GPUs, a step is captured in a CUDA graph once for each M, and then replayed. The outputs are
compared with those of a single-device model for the same inputs. Exits with 1 if they differ by
more than rounding can cause.
"""
from __future__ import annotations

import argparse
import time
from typing import List, NamedTuple, Optional

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

import braid.torch
import common
import layers
from braid.torch import matmul_all_reduce


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_options(parser, ["float32", "float64", "bfloat16"])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 3, 8, 16, 64],
                        help="how many sequences, for each measurement")
    parser.add_argument("--tokens", type=int, default=16, help="of each sequence")
    parser.add_argument("--tune", type=float, default=0, metavar="SECONDS",
                        help="measure schedules first, for at most so long each")
    return parser.parse_args()


def own_columns(layer: layers.ColumnParallelLinear, x: Tensor) -> Tensor:
    """Maps [M, in] to [M, out / ranks]. Does not communicate: x is the same on all ranks."""
    y = F.linear(x, layer.weight, layer.bias)
    return F.gelu(y) if layer.activation == "gelu" else y


def summed(layer: layers.RowParallelLinear, x: Tensor) -> Tensor:
    """Maps [M, in / ranks] to [M, out], which is the same on all ranks. Collective."""
    return matmul_all_reduce(x, layer.weight.t(), layer.group, bias=layer.bias)


class DecodeBlock:
    """One step of a TransformerBlock for M sequences, with a cache of the keys and values."""

    def __init__(self, block: layers.TransformerBlock, rows: int, tokens: int) -> None:
        self.block = block
        weight, heads = block.attention.qkv.weight, block.attention.heads
        size = weight.shape[0] // (3 * heads)
        self.cache = weight.new_zeros(2, rows, heads, tokens, size)

    def __call__(self, x: Tensor, position: Tensor) -> Tensor:
        """Maps [M, hidden] to the same shape; both are the same on all ranks. Collective.

        position: [1], on the device, so that a replayed graph reads its current value.
        """
        block = self.block
        x = x + self._attend(block.attention, block.norm1(x), position)
        h = own_columns(block.mlp.up, block.norm2(x))
        return x + summed(block.mlp.down, block.mlp.gate(h))

    def _attend(self, attention: layers.Attention, x: Tensor, position: Tensor) -> Tensor:
        q, k, v = attention.split_heads(own_columns(attention.qkv, x))
        self.cache.index_copy_(3, position, torch.stack([k, v]).unsqueeze(3))
        is_past = torch.arange(self.cache.shape[3], device=x.device) <= position
        keys, values = self.cache
        y = F.scaled_dot_product_attention(q.unsqueeze(2), keys, values,
                                           attn_mask=is_past.unsqueeze(0))
        return summed(attention.out, y.flatten(1))


class Step:
    """One step of all blocks for M sequences. On GPUs, it is captured once and then replayed."""

    def __init__(self, blocks: List[layers.TransformerBlock], rows: int, tokens: int) -> None:
        self.blocks = [DecodeBlock(block, rows, tokens) for block in blocks]
        weight = blocks[0].norm1.weight
        # A replayed graph reads its inputs at the addresses that they had during the capture.
        self.x = weight.new_zeros(rows, weight.shape[0])
        self.position = torch.zeros(1, dtype=torch.long, device=weight.device)
        self.graph: Optional[torch.cuda.CUDAGraph] = None
        self.y = self._run()  # prepares the operators, which is impossible during a capture
        if weight.is_cuda:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = self._run()

    def _run(self) -> Tensor:
        x = self.x
        for block in self.blocks:
            x = block(x, self.position)
        return x

    def __call__(self, x: Tensor, position: int) -> Tensor:
        """Maps [M, hidden] to the same shape. Collective. The next call overwrites the result."""
        self.x.copy_(x)
        self.position.fill_(position)
        if self.graph is not None:
            self.graph.replay()
        else:
            self.y = self._run()
        return self.y


def tune(block: layers.TransformerBlock, rows: int, seconds: float) -> None:
    """Measures schedules for the two matmul_all_reduce() calls of a block. Collective.

    All blocks have the same shapes, so tuning one block is enough. Must be called before the
    operators are captured.
    """
    for layer in (block.attention.out, block.mlp.down):
        x = layer.weight.new_empty(rows, layer.weight.shape[1])
        schedule = braid.torch.prepare(matmul_all_reduce, x, layer.weight.t(), layer.group,
                                       bias=layer.bias, seconds=seconds)
        common.say(f"  {rows}x{layer.weight.shape[0]}x{layer.weight.shape[1]}: {schedule}")


class Sequences(NamedTuple):
    """Inputs and outputs of all steps; each tensor is [tokens, M, hidden]."""

    inputs: Tensor
    outputs: Tensor


def generate(step: Step, x: Tensor, tokens: int) -> Sequences:
    """Runs `tokens` steps. The first input is x, [M, hidden]. Collective."""
    inputs, outputs = [], []
    for position in range(tokens):
        inputs.append(x)
        outputs.append(step(x, position).clone())
        x = F.layer_norm(outputs[-1], x.shape[-1:])  # there is no vocabulary to sample from
    return Sequences(torch.stack(inputs), torch.stack(outputs))


def time_of(step: Step, x: Tensor, tokens: int) -> float:
    """Returns the seconds per step on this rank. Collective."""
    if x.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for position in range(tokens):
        step(x, position)
    if x.is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / tokens


@torch.inference_mode()
def compare(options: argparse.Namespace, place: torch.device) -> int:
    """Returns the number of values of M with wrong results. Collective."""
    dtype, tokens = getattr(torch, options.dtype), options.tokens
    single = common.single_device_model(options, options.layers, place)
    blocks = common.parallel_blocks(options, single, place)
    wrong = 0
    common.say("  rows  us/step  difference")
    for rows in options.rows:
        if options.tune:
            tune(blocks[0], rows, options.tune)
        step = Step(blocks, rows, tokens)
        first = common.draw((rows, options.hidden), 100 + rows, place, dtype)
        made = generate(step, first, tokens)
        size = common.difference("output", made.outputs, single(made.inputs)).size
        is_wrong = size > common.TOLERANCES[options.dtype]
        wrong += is_wrong
        verdict = "  wrong" if is_wrong else ""
        common.say(f"  {rows:4}  {time_of(step, first, tokens) * 1e6:7.0f}  {size:10.1e}{verdict}")
    return wrong


def main() -> int:
    options = parse()
    place = common.start_rank(options.device)
    how = "a CUDA graph" if place.type == "cuda" else "eager"
    common.say(f"{dist.get_world_size()} ranks on {place.type}, {options.dtype}, {how}: "
               f"{options.layers} blocks, {options.tokens} tokens, hidden {options.hidden}")
    wrong = compare(options, place)
    common.say(f"{len(options.rows)} sizes: {wrong} wrong")
    dist.destroy_process_group()
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
