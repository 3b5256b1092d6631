"""See ../__init__.py."""
import os

from torch import cuda


class group:
    class WORLD:
        group_name = "0"


def init_process_group(backend, timeout, device_id=None):
    assert backend == ("nccl" if device_id else "gloo") and timeout.total_seconds() >= 120
    assert os.environ["MASTER_ADDR"] and os.environ["MASTER_PORT"] and os.environ["WORLD_SIZE"]


def all_gather_into_tensor(output, tensor):
    size = int(os.environ["WORLD_SIZE"])
    assert output.extents == (size * tensor.extents[0], *tensor.extents[1:])
    if os.environ.get("STUB_TORCH") == "dies" and os.environ["RANK"] == "1":
        os._exit(7)


def reduce_scatter_tensor(output, tensor):
    size = int(os.environ["WORLD_SIZE"])
    assert tensor.extents == (size * output.extents[0], *output.extents[1:])
    cuda.note("scatter")


def all_reduce(tensor):
    assert len(tensor.extents) == 2
    cuda.note("reduction")
