"""The public functions of braid.torch."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch

from braid import _library as core
from braid._errors import InputError
from braid.torch import _gradients, _prepared
from braid.torch import _library as _library  # defines the operators
from braid.torch._group import all_jobs, job_of, name_of
from braid.torch._layout import Layout
from braid.torch._operations import check_reduction

Tensor = torch.Tensor
Bs = Union[Tensor, Sequence[Tensor]]


def _expect_tensors(tensors: Sequence[Any], dim: Any = 0) -> None:
    """Raises InputError if A or B (the first two) is not a tensor. A bias may be None."""
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
    """Returns an optional string in the form that the operators use: "" for None."""
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
    """Returns an optional number of rows in the form that the operators use: -1 for None."""
    if rows is not None and (not isinstance(rows, (int, torch.SymInt)) or rows < 0):
        raise InputError(f"expected rows of 0 or more, or None, got {rows!r}")
    return -1 if rows is None else rows


def all_gather_matmul(A: Tensor, B: Bs, group: Any = None, *, bias: Any = None,
                      activation: Optional[str] = None, gather_dim: int = 0,
                      rows: Optional[int] = None, return_A: bool = False) -> Any:
    """Computes activation(all_gather(A) @ B + bias). Transfers of A's blocks overlap the GEMM.

    A: this rank's rows, [..., K], with any number of dimensions. `gather_dim` is the dimension to
        gather; it cannot be the last one.
    B: [K, N], or a list of such tensors, which share one gather. For a torch.nn.Linear, pass
        weight.t().
    bias: [N], or a list with a bias or None for each B.
    activation: "relu", "gelu", "gelu_tanh" or "silu".
    rows: the total number of rows. Required only if it is not divisible by the number of ranks; the
        rows are then split like torch.chunk.
    group: a ProcessGroup, a one-dimensional DeviceMesh, the name of a group, or None for the
        default group.

    Returns Y, with all rows and this rank's columns, or a list of such tensors. With return_A,
    returns a tuple whose second element is the gathered A.

    Collective. On GPUs, only issues work to the current stream. On CPUs, blocks until the result is
    ready. All tensors must have the same type: bf16, f16, f32 or f64.

    To avoid copies, A must be contiguous with gather_dim first. B must be contiguous or transposed,
    or transposed if there is a bias. Tensors with other layouts are copied.

    The first call with a shape prepares it. Raises InputError if an argument is wrong. PeerError
    and TimedOutError end the group's operators on all ranks.

    Gradients: the gradient of A is computed by matmul_reduce_scatter. The gradient of B is a matmul
    with the gathered A, which is saved for this purpose.
    Equivalent to: torch.ops.symm_mem.fused_all_gather_matmul
    """
    name = name_of(group)
    count = _count(rows)
    weights, given, biased = _lists(B, bias)
    _expect_tensors([A, *weights, *given], gather_dim)
    outputs = _gradients.call("all_gather_matmul", A, weights, given, biased,
                              _text("activation", activation), gather_dim, count, bool(return_A),
                              name)
    Ys = list(outputs[:len(weights)])
    result = Ys[0] if isinstance(B, Tensor) else Ys
    return (result, outputs[-1]) if return_A else result


def matmul_reduce_scatter(A: Tensor, B: Tensor, group: Any = None, *,
                          bias: Optional[Tensor] = None, activation: Optional[str] = None,
                          scatter_dim: int = 0, reduce_op: str = "sum") -> Tensor:
    """Computes activation(reduce_scatter(A @ B) + bias). Transfers of partial results overlap the
    GEMM.

    A: all rows, [..., K], with this rank's part of K. `scatter_dim` is the dimension to scatter,
        split like torch.chunk; it cannot be the last one.
    B: [K, N], with this rank's part of K. For a torch.nn.Linear, pass weight.t().
    bias: [N], equal on all ranks; added once.
    reduce_op: "sum", or "avg" without a bias and an activation.

    Returns this rank's rows. Partial results are transferred in the type of A, and added in f32 (in
    f64 for f64) in the order of the ranks. See all_gather_matmul() for everything else; it also
    computes the gradient.

    Equivalent to: torch.ops.symm_mem.fused_matmul_reduce_scatter
    """
    name = name_of(group)
    _expect_tensors([A, B, bias], scatter_dim)
    kind, function = _text("reduce_op", reduce_op), _text("activation", activation)
    check_reduction(kind, function, bias)  # the fake kernel does not check
    output: Tensor = _gradients.call("matmul_reduce_scatter", A, B, bias, function, kind,
                                     scatter_dim, name)
    return output


def matmul_all_reduce(A: Tensor, B: Tensor, group: Any = None, *, bias: Optional[Tensor] = None,
                      activation: Optional[str] = None) -> Tensor:
    """Computes activation(all_reduce(A @ B) + bias). The result is bitwise equal on all ranks.

    A: all rows, [..., K], with this rank's part of K.
    B: [K, N], with this rank's part of K.

    See matmul_reduce_scatter() for everything else. The backward assumes that the gradient of the
    result is equal on all ranks, so it needs no communication.
    """
    name = name_of(group)
    _expect_tensors([A, B, bias])
    output: Tensor = _gradients.call("matmul_all_reduce", A, B, bias,
                                     _text("activation", activation), name)
    return output


# -- Measuring. --

def prepare(function: Callable[..., Any], A: Tensor, B: Bs, group: Any = None, *,
            seconds: float = 2.0, **options: Any) -> str:
    """Measures schedules of `function` for these tensors, for at most `seconds`. Stores the fastest
    one for later calls, which also use it for similar shapes that were not measured. If the shape
    has already been measured on this machine, measures nothing.

    function: all_gather_matmul, matmul_reduce_scatter or matmul_all_reduce.
    A, B, group, options: the arguments of a call, with or without gradients and autocast. The
        contents of the tensors are not read. Calls with gradients are measured separately.

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
        schedules.append(_prepared.measure(job, layout, seconds).schedule)

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
    """Blocks until all calls of this rank in the group are done, and raises their errors. On GPUs,
    a call itself raises only errors that are known when it is issued."""
    name = name_of(group)
    for job in all_jobs():
        if job.group == name:
            with job.lock:
                job.job.synchronize()
