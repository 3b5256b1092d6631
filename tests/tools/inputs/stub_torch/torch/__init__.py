"""As much of PyTorch as tools/torch_rows.py needs, computing nothing. STUB_TORCH says what goes
wrong: `refuses` (rank 1 raises in matmul), `dies` (rank 1 exits in a gather), `uncapturable` (rank 1
raises when torch/fused is captured) or nothing."""
import os

from torch import cuda, version  # noqa: F401

__version__ = "0.stub"
float32 = bfloat16 = "a type"


class Tensor:
    is_shared = False  # peers can map it

    def __init__(self, *extents):
        self.extents = extents

    def __mul__(self, _):
        return self

    __sub__ = to = copy_ = __mul__


def rand(*extents, device, dtype):
    return Tensor(*extents)


empty = rand


def device(kind, rank=0):
    return kind, rank


def set_num_threads(_):
    pass


def matmul(a, b, out=None):
    extents = (*a.extents[:1], *b.extents[1:])
    assert out is None or extents == out.extents
    cuda.note("gemm")
    if os.environ.get("STUB_TORCH") == "refuses" and os.environ["RANK"] == "1":
        raise ValueError("rank 1 does not like it\nat all")
    return out or Tensor(*extents)


class nn:
    class functional:
        @staticmethod
        def gelu(h, approximate):
            assert approximate == "tanh"
            return h


class ops:
    class symm_mem:
        has_workspace = False

        @classmethod
        def fused_all_gather_matmul(cls, block, others, dimension, group, return_A):
            if cuda.capturing:
                assert cls.has_workspace, "a workspace cannot be made in a capture"
                if os.environ.get("STUB_TORCH") == "uncapturable" and os.environ["RANK"] == "1":
                    raise ValueError("rank 1 cannot be captured")
                cuda.note("fused")
            cls.has_workspace = True
            return None, [Tensor(2 * block.extents[0], others[0].extents[1])]

        @classmethod
        def fused_matmul_reduce_scatter(cls, a, b, reduction, dimension, group):
            assert a.extents[1] == b.extents[0] and (reduction, dimension, group) == ("sum", 0, "0")
            cls.fused_all_gather_matmul(a, [b], dimension, group, return_A=False)
            return Tensor(a.extents[0] // 2, b.extents[1])

        @staticmethod
        def one_shot_all_reduce(c, reduction, group):
            assert c.is_shared and (reduction, group) == ("sum", "0")
            cuda.note("reduction")

        two_shot_all_reduce_ = one_shot_all_reduce
