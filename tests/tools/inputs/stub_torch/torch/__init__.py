"""As much of PyTorch as tools/torch_rows.py needs on CPUs, computing nothing. STUB_TORCH says what
goes wrong: `refuses` (rank 1 raises in matmul), `dies` (rank 1 exits in a gather) or nothing."""
import os

__version__ = "0.stub"
float32 = bfloat16 = "a type"


class Tensor:
    def __init__(self, *extents):
        self.extents = extents

    def __mul__(self, _):
        return self

    __sub__ = to = __mul__


def rand(*extents, device, dtype):
    return Tensor(*extents)


empty = rand


def device(kind):
    return kind


def set_num_threads(_):
    pass


def matmul(a, b, out):
    assert (*a.extents[:1], *b.extents[1:]) == out.extents
    if os.environ.get("STUB_TORCH") == "refuses" and os.environ["RANK"] == "1":
        raise ValueError("rank 1 does not like it\nat all")
