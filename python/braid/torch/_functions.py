"""The public functions of braid.torch."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch

from braid import _library as core
from braid._errors import InputError
from braid.torch import _gradients, _kept
from braid.torch import _library as _library  # defines the operators
from braid.torch._group import all_jobs, job_of, name_of
from braid.torch._layout import Layout

Tensor = torch.Tensor
Bs = Union[Tensor, Sequence[Tensor]]


def _expect_tensors(tensors: Sequence[Any], dim: Any = 0) -> None:
    """Raises InputError unless A and B, the first two, are tensors. A bias may be None."""
    for index, each in enumerate(tensors):
        if each is None and index > 1:
            continue
        if not isinstance(each, Tensor):
            raise InputError(f"expected tensors, got {type(each).__name__}")
        _gradients.expect_local(each)
        # A compiled backward cannot read the layout.
        if not torch.compiler.is_compiling() and each.layout is not torch.strided:
            raise InputError(f"expected strided tensors, got one of {each.layout}")
    if not isinstance(dim, (int, torch.SymInt)):
        raise InputError(f"expected the number of a dimension, got {dim!r}")


def _text(name: str, given: Any) -> str:
    """Returns the operators' form of an optional text: "" for None."""
    if given is not None and not isinstance(given, str):
        raise InputError(f"{name}: expected a str, got {given!r}")
    return given or ""


def _lists(B: Bs, bias: Any) -> Tuple[List[Tensor], List[Tensor], int]:
    """Returns the weights, the biases, and a bit for each weight that has a bias."""
    if isinstance(B, Tensor):
        if bias is not None and not isinstance(bias, Tensor):
            raise InputError(f"expected a bias, or None, for one B, got {type(bias).__name__}")
        return ([B], [], 0) if bias is None else ([B], [bias], 1)
    if not isinstance(B, (list, tuple)):
        raise InputError(f"expected a tensor B, or a list of them, got {type(B).__name__}")
    weights = list(B)
    biases = [None] * len(weights) if bias is None else list(bias)
    if not weights or len(biases) != len(weights):
        raise InputError(f"expected one B or more, and a bias or None for each, got {len(weights)} "
                         f"and {len(biases)}")
    given = [each for each in biases if each is not None]
    return weights, given, sum(1 << i for i, each in enumerate(biases) if each is not None)


def _count(rows: Optional[int]) -> int:
    """Returns the operators' form of an optional number of rows: -1 for None."""
    if rows is not None and (not isinstance(rows, (int, torch.SymInt)) or rows < 0):
        raise InputError(f"expected rows of 0 or more, or None, got {rows!r}")
    return -1 if rows is None else rows


def all_gather_matmul(A: Tensor, B: Bs, group: Any = None, *, bias: Any = None,
                      activation: Optional[str] = None, gather_dim: int = 0,
                      rows: Optional[int] = None, return_A: bool = False) -> Any:
    """activation(all_gather(A) @ B + bias): transfers of A's blocks overlap the GEMM.

    A: this rank's rows, [..., K], with any number of dimensions. `gather_dim` is the dimension to
        gather; it cannot be the last one.
    B: [K, N], or a list of these, which share one gather. The weight of a torch.nn.Linear is B.t().
    bias: [N], or a list with one or None for each B; added to the result.
    activation: "relu", "gelu", "gelu_tanh" or "silu".
    rows: the number on all ranks, if ranks do not divide it: split like torch.chunk.
    group: a ProcessGroup, a one-dimensional DeviceMesh, or a name; None: the default group.

    Returns Y, with all rows and this rank's columns, or a list of these. With return_A, returns a
    tuple whose second element is the gathered A.

    Collective. On GPUs, only issues work to the current stream; on CPUs, blocks until the result is
    ready. Tensors are bf16, f16, f32 or f64, all of the same type. Tensors in other layouts are
    copied: A must be contiguous with gather_dim first, and B contiguous or transposed, with a bias
    transposed. The first call with a shape prepares it. Raises InputError with the expectation;
    PeerError and TimedOutError end the group's operators on all ranks.

    Gradients: the backward of A is matmul_reduce_scatter; that of B multiplies the gathered A,
    which is kept for it.
    Equivalent to: torch.ops.symm_mem.fused_all_gather_matmul
    """
    name = name_of(group)
    count = _count(rows)
    weights, given, biased = _lists(B, bias)
    _expect_tensors([A, *weights, *given], gather_dim)
    outputs = _gradients.all_gather_matmul(A, weights, given, biased,
                                           _text("activation", activation), gather_dim, count,
                                           bool(return_A), name)
    Ys = list(outputs[:len(weights)])
    result = Ys[0] if isinstance(B, Tensor) else Ys
    return (result, outputs[-1]) if return_A else result


def matmul_reduce_scatter(A: Tensor, B: Tensor, group: Any = None, *,
                          bias: Optional[Tensor] = None, activation: Optional[str] = None,
                          scatter_dim: int = 0, reduce_op: str = "sum") -> Tensor:
    """activation(reduce_scatter(A @ B) + bias): partial results are transferred during the GEMM.

    A: all rows, [..., K], with this rank's part of K. `scatter_dim` is the dimension to scatter,
        split like torch.chunk; it cannot be the last one.
    B: [K, N], this rank's part. The weight of a torch.nn.Linear is B.t().
    bias: [N], equal on all ranks; added once.
    reduce_op: "sum", or "avg" without bias and activation.

    Returns this rank's rows. Partial results are transferred in A's type, and added in f32 (f64 for
    f64) in the order of ranks. Otherwise as all_gather_matmul(), which is the backward.
    Equivalent to: torch.ops.symm_mem.fused_matmul_reduce_scatter
    """
    name = name_of(group)
    _expect_tensors([A, B, bias], scatter_dim)
    return _gradients.matmul_reduce_scatter(A, B, bias, _text("activation", activation),
                                            _text("reduce_op", reduce_op), scatter_dim, name)


def matmul_all_reduce(A: Tensor, B: Tensor, group: Any = None, *, bias: Optional[Tensor] = None,
                      activation: Optional[str] = None) -> Tensor:
    """activation(all_reduce(A @ B) + bias): the result has equal bits on all ranks.

    A: all rows, [..., K], with this rank's part of K. B: [K, N], this rank's part. Otherwise as
        matmul_reduce_scatter(). The backward assumes that the result's gradient is equal on all
        ranks, and so needs no communication.
    """
    name = name_of(group)
    _expect_tensors([A, B, bias])
    return _gradients.matmul_all_reduce(A, B, bias, _text("activation", activation), name)


# -- Measuring. --

def prepare(function: Callable[..., Any], A: Tensor, B: Bs, group: Any = None, *,
            seconds: float = 2.0, **options: Any) -> str:
    """Chooses the fastest schedule of `function` for such tensors, with at most `seconds` of
    trials, and stores it for later calls. It is also the estimate for shapes that were not
    measured. A shape that was measured on this machine takes no trials.

    function: all_gather_matmul, matmul_reduce_scatter or matmul_all_reduce.
    A, B, group, options: as in a call, with or without gradients and autocast. The contents of the
        tensors are not read. Calls with gradients are measured separately.

    Returns the schedule in the syntax of the command line. Collective; blocks. Must be called
    before the operator is captured into a CUDA graph.
    """
    seconds = core.seconds("seconds", seconds)
    known = (all_gather_matmul, matmul_reduce_scatter, matmul_all_reduce)
    if function not in known:
        raise InputError(f"expected one of {', '.join(each.__name__ for each in known)}, got "
                         f"{function!r}")
    _expect_tensors([A])
    job, schedules = job_of(name_of(group), A), []

    def measure(layout: Layout) -> None:
        if layout.is_empty:
            raise InputError(f"expected results with elements, got {layout.shape}")
        schedules.append(_kept.measure(job, layout, seconds).schedule)

    with job.lock:
        job.instead_of_run = measure
        try:
            function(A, B, group, **options)
        finally:
            job.instead_of_run = None
    if not schedules:
        raise InputError("expected tensors with elements that are here, got a "
                         f"{type(A).__name__}, which is only traced")
    return str(schedules[0])


def synchronize(group: Any = None) -> None:
    """Blocks until all calls of this rank are done on the group's devices. Raises their failures:
    on GPUs, a call raises only failures that were known when it was issued."""
    name = name_of(group)
    for job in all_jobs():
        if job.group == name:
            with job.lock:
                job.job.synchronize()
