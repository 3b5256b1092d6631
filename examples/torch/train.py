"""Trains a transformer on several ranks, and compares it with the same model on one device.

    torchrun --nproc-per-node 2 examples/torch/train.py

braid must be on PYTHONPATH. The script first compares one forward and backward pass, and then the
losses of all training steps. Exits with 1 if anything differs by more than rounding can cause.
"""
from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import Tensor, nn

import common
import layers


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_options(parser, ["float32", "float64"])
    parser.add_argument("--tokens", type=int, default=48, help="of each sequence, of all ranks")
    parser.add_argument("--batch", type=int, default=2, help="sequences")
    parser.add_argument("--steps", type=int, default=50)
    return parser.parse_args()


def draw_tokens(options: argparse.Namespace, seed: int, place: torch.device) -> Tensor:
    """Returns [tokens, batch, hidden]: all tokens, the same on all ranks."""
    shape = (options.tokens, options.batch, options.hidden)
    return common.draw(shape, seed, place, getattr(torch, options.dtype))


def gradient_of(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None, "expected backward() to have reached every parameter"
    return tensor.grad


def compare_gradients(options: argparse.Namespace, place: torch.device) -> int:
    """Compares the result and all gradients of a block. Returns how many are wrong. Collective."""
    single = common.single_device_model(options, 1, place)
    block, full_block = common.parallel_blocks(options, single, place)[0], single[0]
    full_x, full_dy = draw_tokens(options, 100, place), draw_tokens(options, 101, place)
    x = layers.own_chunk(full_x, 0).clone().requires_grad_()

    full_y = full_block(full_x.requires_grad_())
    full_y.backward(full_dy)
    y = block(x)
    y.backward(layers.own_chunk(full_dy, 0))
    layers.finish_gradients(block)

    found = [common.difference("result", y, layers.own_chunk(full_y, 0)),
             common.difference("gradient of the input", gradient_of(x),
                               layers.own_chunk(gradient_of(full_x), 0))]
    for name, parameter in block.named_parameters():
        expected = layers.own_slice(block, name, gradient_of(full_block.get_parameter(name)))
        found.append(common.difference(f"gradient of {name}", gradient_of(parameter), expected))
    return common.count_wrong(found, common.TOLERANCES[options.dtype])


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, target: Tensor,
         elements: int) -> Tensor:
    """Performs a training step, and returns this rank's share of the loss before the step.

    elements: the number of elements of the result on all ranks. The sum of all shares is the mean
    over these elements, so the gradients need no scaling. Collective if the model is.
    """
    loss = (model(x) - target).square().sum() / elements
    optimizer.zero_grad()
    loss.backward()
    layers.finish_gradients(model)  # has no effect on the single-device model
    optimizer.step()
    return loss.detach()


def compare_training(options: argparse.Namespace, place: torch.device) -> int:
    """Trains both models on the same random batches. Returns the number of wrong losses.
    Collective."""
    single = common.single_device_model(options, options.layers, place)
    model = nn.Sequential(*common.parallel_blocks(options, single, place))
    single_optimizer = torch.optim.AdamW(single.parameters(), lr=1e-3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = [draw_tokens(options, seed, place) for seed in range(110, 114)]
    targets = [draw_tokens(options, seed, place) for seed in range(120, 124)]
    elements = inputs[0].numel()
    # Differences grow over the steps, because AdamW takes large steps even for small gradients.
    tolerance = 20 * common.TOLERANCES[options.dtype]

    wrong, losses = 0, []
    common.say("  step  ranks together  one device  difference")
    for i in range(options.steps):
        x, target = inputs[i % 4], targets[i % 4]
        expected = float(step(single, single_optimizer, x, target, elements))
        share = step(model, optimizer, layers.own_chunk(x, 0), layers.own_chunk(target, 0),
                     elements)
        dist.all_reduce(share)
        losses.append(float(share))
        apart = abs(losses[-1] - expected) / expected
        is_wrong = not apart <= tolerance
        wrong += is_wrong
        if is_wrong or i % 10 == 0 or i == options.steps - 1:
            common.say(f"  {i:4}  {losses[-1]:14.6f}  {expected:10.6f}  {apart:10.1e}")
    if options.steps > 10 and not losses[-1] < losses[0]:
        common.say(f"  expected the loss to fall, got {losses[0]:g} and then {losses[-1]:g}")
        wrong += 1
    return wrong


def main() -> int:
    options = parse()
    place = common.start_rank(options.device)
    layers.divide(options.tokens, dist.get_world_size(), "tokens")
    common.say(f"{dist.get_world_size()} ranks on {place.type}, {options.dtype}: "
               f"{options.layers} blocks, {options.tokens} x {options.batch} tokens, "
               f"hidden {options.hidden}, {options.heads} heads")
    wrong = compare_gradients(options, place)
    common.say(f"gradients: {wrong} wrong")
    wrong_losses = compare_training(options, place)
    common.say(f"losses of {options.steps} steps: {wrong_losses} wrong")
    dist.destroy_process_group()
    return int(wrong + wrong_losses > 0)


if __name__ == "__main__":
    raise SystemExit(main())
