"""Tensor-parallel operators that hide communication behind matrix multiplications.

    from braid.torch import all_gather_matmul, matmul_reduce_scatter
    H = all_gather_matmul(X, up.weight.t(), group, activation="gelu")   # X: this rank's rows
    Y = matmul_reduce_scatter(H, down.weight.t(), group)                # Y: this rank's rows

Models that use torch.compile need no change:

    braid.torch.enable()         # replace collectives next to GEMMs in code that is compiled later
    print(braid.torch.report())  # what was replaced, what was not, and why

All ranks of a group must make the same calls in the same order. See docs/pytorch.md for an
introduction.
"""
from braid._errors import (Error, InputError, InternalError, PeerError, RejectedError,
                           TimedOutError, UnsupportedError)
from braid.torch._functions import (all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter,
                                    prepare, prepare_all, synchronize)
from braid.torch._prepared import Memory, memory, set_memory_bound
from braid.torch._report import Report, report
from braid.torch._takeover import disable, enable

__all__ = [
    "Error", "InputError", "InternalError", "Memory", "PeerError", "RejectedError", "Report",
    "TimedOutError", "UnsupportedError", "all_gather_matmul", "disable", "enable",
    "matmul_all_reduce", "matmul_reduce_scatter", "memory", "prepare", "prepare_all",
    "report", "set_memory_bound", "synchronize",
]
