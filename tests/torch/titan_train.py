"""torchtitan's trainer on a CPU rank, for torchtitan_test.py: a small Llama 3 with random tokens.

Packages that torchtitan imports, but that this model does not use, have stand-ins.
"""
import os
import signal
import sys
import types
from dataclasses import dataclass

import torch


def stand_in(name, **contents):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(contents)


class Absent:
    pass


if __name__ == "__main__":
    torch._utils._get_available_device_type = lambda: "cpu"  # torchtitan expects a GPU otherwise
    stand_in("torchdata")
    stand_in("torchdata.stateful_dataloader", StatefulDataLoader=torch.utils.data.DataLoader)
    stand_in("tokenizers", AddedToken=Absent, Tokenizer=Absent)
    stand_in("datasets", Dataset=Absent, load_dataset=None)
    stand_in("datasets.distributed", split_dataset_by_node=None)
    stand_in("torch.utils.tensorboard", SummaryWriter=Absent)

from torchtitan.components import metrics  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.loss import CrossEntropyLoss  # noqa: E402
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.distributed import utils  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.models.llama3 import model_registry  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

VOCABULARY = 2048


class Monitor:
    """Reports no memory, because torch.cpu has no statistics."""

    device_name, device_capacity_gib = "cpu", 0.0

    def __init__(self, device):
        pass

    def get_peak_stats(self):
        return metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)

    def reset_peak_stats(self):
        pass


class RandomTokens(BaseDataLoader):
    """The same batch in each step. Kills rank 1 before the step TEST_KILL, if that is set."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config, *, seq_len, local_batch_size, **_):
        draw = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(VOCABULARY, (local_batch_size, seq_len + 1), generator=draw)

    def __iter__(self):
        step = 0
        while True:
            step += 1
            if str(step) == os.environ.get("TEST_KILL") and os.environ["RANK"] == "1":
                kill_in_first_block()
            yield {"input": self.tokens[:, :-1].contiguous()}, self.tokens[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def kill_in_first_block():
    """Kills this rank at its next call of a Braid operator."""
    from braid.torch import _operations
    _operations.run = lambda *_, **options: os.kill(os.getpid(), signal.SIGKILL)


class NoTokenizer(BaseTokenizer):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, *, tokenizer_path):
        super().__init__()

    def encode(self, *_, **options):
        return []

    def decode(self, *_, **options):
        return ""

    def get_vocab_size(self):
        return VOCABULARY


def tiny():
    spec = model_registry("debugmodel")
    spec.model.layers = spec.model.layers[:2]
    for layer in spec.model.layers:  # FlexAttention has no backward pass on CPUs
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    return Trainer.Config(
        model_spec=spec, loss=CrossEntropyLoss.Config(global_vocab_size=VOCABULARY),
        tokenizer=NoTokenizer.Config(), dataloader=RandomTokens.Config(),
        optimizer=default_adamw(lr=1e-3),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=0),
        training=TrainingConfig(local_batch_size=2, seq_len=64, steps=20,
                                mixed_precision_param="float32"),
        parallelism=ParallelismConfig(tensor_parallel_degree=int(os.environ["WORLD_SIZE"])),
        compile=CompileConfig(enable=False, components=["model"]),
        metrics=metrics.MetricsProcessor.Config(log_freq=1))


if __name__ == "__main__":
    metrics.DeviceMemoryMonitor = Monitor
    utils.set_pg_timeouts = lambda **_: None  # its barrier names a GPU
    from torchtitan.train import main
    main()
    if "braid.torchtitan" in sys.modules:
        import braid.torch
        print(braid.torch.report())
