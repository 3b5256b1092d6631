"""Times a layer of Megatron-LM, forward and backward, with its own linear layers and with Braid's.

    CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc-per-node 2 examples/torch/megatron_layer.py

braid and megatron-core must be on PYTHONPATH. Both layers have the same weights. Their results and
gradients are compared. Norms and attention are PyTorch's, because Megatron's own need other
packages for sequence parallelism. Prints milliseconds per step: the median of several rounds, in
which the layers take turns, on the slowest rank. Exits with 1 if a gradient differs by more than
rounding can cause.
"""
from __future__ import annotations

import argparse
import random
import statistics
import time
import warnings
from typing import Any, Dict, List

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

warnings.simplefilter("ignore")  # about optional packages
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.transformer.spec_utils import build_module  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

import braid.megatron  # noqa: E402
import common  # noqa: E402


class Norm:
    def __new__(cls, config: Any, hidden_size: int, eps: float = 1e-5, **_: Any) -> Any:
        return nn.RMSNorm(hidden_size, eps, dtype=config.params_dtype)


class Attention(nn.Module):
    def __init__(self, *_: Any, **options: Any) -> None:
        super().__init__()

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *_: Any, **options: Any) -> Tensor:
        q, k, v = (each.permute(1, 2, 0, 3) for each in (query, key, value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return y.permute(2, 0, 1, 3).flatten(2)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--hidden", type=int, default=8192)
    parser.add_argument("--inner", type=int, default=28672, help="width of the MLP")
    parser.add_argument("--heads", type=int, default=64)
    parser.add_argument("--length", type=int, default=4096, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--no-sequence-parallel", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=5, help="in each round")
    return parser.parse_args()


def layers(options: argparse.Namespace, place: torch.device) -> Dict[str, Any]:
    """Returns two layers with the same weights."""
    ranks, dtype = dist.get_world_size(), getattr(torch, options.dtype)
    config = TransformerConfig(
        num_layers=1, hidden_size=options.hidden, ffn_hidden_size=options.inner,
        num_attention_heads=options.heads, num_query_groups=max(options.heads // 8, ranks),
        tensor_model_parallel_size=ranks, sequence_parallel=not options.no_sequence_parallel,
        params_dtype=dtype, bf16=options.dtype == "bfloat16", use_cpu_initialization=True,
        perform_initialization=False, add_bias_linear=False, gated_linear_unit=True,
        activation_func=F.silu, bias_activation_fusion=False, bias_dropout_fusion=False,
        hidden_dropout=0.0, attention_dropout=0.0, gradient_accumulation_fusion=False)
    made = {}
    for name, spec in {"Megatron": get_gpt_layer_local_spec(),
                       "Braid": braid.megatron.layer_spec()}.items():
        parts = spec.submodules
        parts.input_layernorm = parts.pre_mlp_layernorm = Norm
        parts.self_attention.submodules.core_attention = Attention
        made[name] = build_module(spec, config=config, layer_number=1).to(place)
    torch.manual_seed(dist.get_rank())
    for mine, other in zip(made["Megatron"].parameters(), made["Braid"].parameters()):
        if mine.dim() > 1:
            nn.init.normal_(mine, std=0.02)
        other.data.copy_(mine.data)
    return made


def step(layer: Any, x: Tensor, dy: Tensor) -> Tensor:
    """Runs the layer forward and backward, and returns its result."""
    for each in (x, *layer.parameters()):
        each.grad = None
    result: Tensor = layer(x, attention_mask=None)[0]
    result.backward(dy)
    return result.detach()


def compare(found: Dict[str, Any], x: Tensor, dy: Tensor, tolerance: float) -> bool:
    """Returns True if results and gradients are equal within rounding. Collective."""
    tensors = {}
    for name, layer in found.items():
        result, gradient = step(layer, x, dy), x.grad
        tensors[name] = [("result", result), ("gradient of the input", gradient),
                         *((key, each.grad) for key, each in layer.named_parameters())]
    wrong = 0
    for (key, expected), (_, got) in zip(*tensors.values()):
        size = ((expected - got).abs().max() / expected.abs().max()).float()
        dist.all_reduce(size, dist.ReduceOp.MAX)
        wrong += size.item() > tolerance
        common.say(f"  {key}: difference {size.item():.1e} of the largest")
    return wrong == 0


def measure(found: Dict[str, Any], x: Tensor, dy: Tensor,
            options: argparse.Namespace) -> Dict[str, List[float]]:
    """Returns each layer's milliseconds per step in each round. Collective."""
    times: Dict[str, List[float]] = {name: [] for name in found}
    order = random.Random(0)
    for turn in range(options.rounds + 2):
        for name in order.sample(list(found), len(found)):
            dist.barrier()
            if x.is_cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(options.steps):
                step(found[name], x, dy)
            if x.is_cuda:
                torch.cuda.synchronize()
            slowest = torch.tensor((time.perf_counter() - start) / options.steps * 1e3,
                                   device=x.device)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if turn > 1:
                times[name].append(slowest.item())
    return times


def main() -> int:
    options = parse()
    place = common.start_rank(options.device)
    ranks = dist.get_world_size()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks)
    if place.type == "cuda":
        tensor_parallel.model_parallel_cuda_manual_seed(1)
    else:
        torch.cuda.current_device = lambda: place  # Megatron allocates buffers there
    found = layers(options, place)
    rows = options.length if options.no_sequence_parallel else options.length // ranks
    dtype = getattr(torch, options.dtype)
    seed = 0 if options.no_sequence_parallel else dist.get_rank()
    shape = rows, options.batch, options.hidden
    x = common.draw(shape, seed, place, dtype).requires_grad_()
    dy = common.draw(shape, seed + ranks, place, dtype)
    is_right = compare(found, x, dy, common.TOLERANCES[options.dtype])
    times = measure(found, x, dy, options)
    for name, each in times.items():
        common.say(f"{name}: {statistics.median(each):.3f} [{min(each):.3f}, {max(each):.3f}] ms")
    dist.destroy_process_group()
    return int(not is_right)


if __name__ == "__main__":
    raise SystemExit(main())
