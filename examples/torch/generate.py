"""Times transformers' generate() with its own tensor parallelism, and with Braid.

    torchrun --nproc-per-node 2 examples/torch/generate.py

braid and transformers must be on PYTHONPATH. Loads a Llama with random weights twice, and generates
tokens with each: eagerly, by generate(), and by a compiled step with a static cache, which GPUs
replay as a CUDA graph. The logits of both models are compared. Prints the time per token: the
median of several rounds, in which the models take turns, on the slowest rank. Exits with 1 if
logits differ by more than rounding can cause.
"""
from __future__ import annotations

import argparse
import logging
import random
import statistics
import tempfile
import time
from typing import Any, Callable, Dict, List

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, StaticCache
from transformers.distributed import DistributedConfig

import braid.torch
import braid.transformers
import common

FEW = 4  # tokens of the short run, whose time is subtracted from that of the long one


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--inner", type=int, default=14336, help="width of the MLP")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--tokens", type=int, default=64, help="to generate")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    return parser.parse_args()


def load(folder: str) -> Any:
    """Returns a model whose layers transformers has split."""
    config = DistributedConfig(tp_size=dist.get_world_size())
    return AutoModelForCausalLM.from_pretrained(folder, distributed_config=config).eval()


def models(options: argparse.Namespace, place: torch.device) -> Dict[str, Any]:
    """Returns two models with the same weights. Collective."""
    heads = options.hidden // 128 or 8
    config = LlamaConfig(hidden_size=options.hidden, intermediate_size=options.inner,
                         num_hidden_layers=options.layers, num_attention_heads=heads,
                         num_key_value_heads=max(heads // 4, 4), vocab_size=32000,
                         max_position_embeddings=4096, dtype=options.dtype)
    folders = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    if dist.get_rank() == 0:
        torch.manual_seed(0)
        with place:
            whole = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, options.dtype))
        whole.save_pretrained(folders[0])
    dist.broadcast_object_list(folders)
    return {"transformers": load(folders[0]),
            "Braid": braid.transformers.parallelize(load(folders[0]))}


def synchronize(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


class Generate:
    """Generates tokens by transformers' generate(), eagerly."""

    def __init__(self, model: Any, prompt: Tensor, tokens: int) -> None:
        self.model, self.prompt, self.tokens = model, prompt, tokens

    def _generate(self, tokens: int) -> None:
        self.model.generate(self.prompt, attention_mask=torch.ones_like(self.prompt),
                            do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens,
                            pad_token_id=0)

    def seconds_per_token(self) -> float:
        """Returns the time of a long run minus that of a short one. Collective."""
        short, long = (seconds_of(lambda: self._generate(tokens), self.prompt)
                       for tokens in (FEW, FEW + self.tokens))
        return (long - short) / self.tokens


class Graph:
    """Generates tokens by a compiled step with a static cache, on GPUs replayed as a CUDA graph."""

    def __init__(self, model: Any, prompt: Tensor, tokens: int) -> None:
        self.cache = StaticCache(config=model.config, max_cache_len=prompt.shape[1] + tokens + 8)
        self.token, self.tokens = prompt[:, :1].clone(), tokens
        compiled = torch.compile(model, dynamic=False)

        def step() -> None:
            logits = compiled(self.token, past_key_values=self.cache).logits
            self.token.copy_(logits[:, -1:].argmax(-1))

        self.step: Callable[[], None] = step
        with torch.no_grad():
            model(prompt, past_key_values=self.cache)
            for _ in range(3):
                step()
            if prompt.is_cuda:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    step()
                self.step = graph.replay

    @torch.no_grad()
    def seconds_per_token(self) -> float:
        """Collective."""
        self.cache.reset()  # which sets the position in the cache to 0

        def run() -> None:
            for _ in range(self.tokens):
                self.step()
        return seconds_of(run, self.token) / self.tokens


KINDS: Dict[str, Any] = {"eager": Generate, "graph": Graph}


def seconds_of(run: Callable[[], None], tensor: Tensor) -> float:
    """Collective."""
    dist.barrier()
    synchronize(tensor)
    start = time.perf_counter()
    run()
    synchronize(tensor)
    return time.perf_counter() - start


def compare(found: Dict[str, Any], prompt: Tensor, tolerance: float) -> bool:
    """Returns True if the models' logits for the prompt are equal within rounding. Collective."""
    with torch.no_grad():
        expected, got = (model(prompt).logits.float() for model in found.values())
    size = ((expected - got).abs().max() / expected.abs().max()).item()
    common.say(f"logits: difference {size:.1e} of the largest")
    return size <= tolerance


def measure(found: Dict[str, Any], prompt: Tensor, kind: str,
            options: argparse.Namespace) -> Dict[str, List[float]]:
    """Returns each model's milliseconds per token in each round. Collective."""
    made = {name: KINDS[kind](model, prompt, options.tokens) for name, model in found.items()}
    times: Dict[str, List[float]] = {name: [] for name in found}
    order = random.Random(0)
    for turn in range(options.rounds + 2):
        for name in order.sample(list(made), len(made)):
            slowest = torch.tensor(made[name].seconds_per_token() * 1e3, device=prompt.device)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if turn > 1:
                times[name].append(slowest.item())
    return times


def main() -> int:
    options = parse()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    place = common.start_rank(options.device)
    found = models(options, place)
    is_right = True
    for batch in options.batch:
        prompt = common.draw((batch, 16), batch, place, torch.float32).abs().mul(1000).long() % 999
        is_right &= compare(found, prompt, common.TOLERANCES[options.dtype])
        for kind in options.kinds:
            times = measure(found, prompt, kind, options)
            medians = {name: statistics.median(each) for name, each in times.items()}
            spread = {name: (min(each), max(each)) for name, each in times.items()}
            said = ", ".join(f"{name} {medians[name]:.3f} [{spread[name][0]:.3f}, "
                             f"{spread[name][1]:.3f}]" for name in times)
            common.say(f"batch {batch}, {kind}: {said} ms per token")
    dist.destroy_process_group()
    return int(not is_right)


if __name__ == "__main__":
    raise SystemExit(main())
