"""The functions that models call."""
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
    """A and a B first; a bias may be missing."""
    for index, each in enumerate(tensors):
        if each is None and index > 1:
            continue
        if not isinstance(each, Tensor):
            raise InputError(f"expected tensors, got {type(each).__name__}")
        _gradients.expect_local(each)
        # A backward that is compiled may not ask.
        if not torch.compiler.is_compiling() and each.layout is not torch.strided:
            raise InputError(f"expected strided tensors, got one of {each.layout}")
    if not isinstance(dim, (int, torch.SymInt)):
        raise InputError(f"expected the number of a dimension, got {dim!r}")


def _text(name: str, given: Any) -> str:
    """The operators' form of a text: "" for None."""
    if given is not None and not isinstance(given, str):
        raise InputError(f"{name}: expected a str, got {given!r}")
    return given or ""


def _lists(B: Bs, bias: Any) -> Tuple[List[Tensor], List[Tensor], int]:
    """The weights, the biases that there are, and a bit for each weight that has one."""
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
    """The operators' form of a number of rows: -1 for None."""
    if rows is not None and (not isinstance(rows, (int, torch.SymInt)) or rows < 0):
        raise InputError(f"expected rows of 0 or more, or None, got {rows!r}")
    return -1 if rows is None else rows


def all_gather_matmul(A: Tensor, B: Bs, group: Any = None, *, bias: Any = None,
                      activation: Optional[str] = None, gather_dim: int = 0,
                      rows: Optional[int] = None, return_A: bool = False) -> Any:
    """activation(all_gather(A) @ B + bias): the blocks of A travel while others are multiplied.

    A: this rank's rows, [..., K], of any number of dimensions. `gather_dim` is the dimension that
        is gathered; not the last one.
    B: [K, N], or a list of such, which share one gather. The weight of a torch.nn.Linear is B.t().
    bias: [N], or a list with one or None for each B.
    activation: "relu", "gelu", "gelu_tanh" or "silu".
    rows: how many all ranks have together, if they do not divide: split as torch.chunk does.
    group: a ProcessGroup, a DeviceMesh of one dimension, or a name; None: the default group.

    Y, of all rows and this rank's columns, or a list of them; with return_A a tuple, whose second
    entry is the gathered A.

    Collective. On GPUs it only issues, to the current stream; on CPUs it is done when it returns.
    Tensors are bf16, f16, f32 or f64, all alike. Those that do not lie as they are needed are
    copied: A with gather_dim first, B as it is or transposed, with a bias transposed. The first
    call with a shape prepares it. InputError says what was expected; PeerError and TimedOutError
    end the group's operators on all ranks.

    Gradients: the backward is matmul_reduce_scatter; that of B multiplies the gathered A, which is
    kept for it.
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
    """activation(reduce_scatter(A @ B) + bias): partial results travel while others are computed.

    A: all rows, [..., K], with this rank's part of K. `scatter_dim` is the dimension whose rows
        the ranks share, split as torch.chunk does; not the last one.
    B: [K, N], this rank's part. The weight of a torch.nn.Linear is B.t().
    bias: [N], the same on all ranks; it is added once.
    reduce_op: "sum", or "avg" without bias and activation.

    This rank's rows of the result. Partial results travel in A's type, and are added in f32 (f64
    for f64) in the order of ranks. The rest is as in all_gather_matmul(), which is the backward.
    Equivalent to: torch.ops.symm_mem.fused_matmul_reduce_scatter
    """
    name = name_of(group)
    _expect_tensors([A, B, bias], scatter_dim)
    return _gradients.matmul_reduce_scatter(A, B, bias, _text("activation", activation),
                                            _text("reduce_op", reduce_op), scatter_dim, name)


def matmul_all_reduce(A: Tensor, B: Tensor, group: Any = None, *, bias: Optional[Tensor] = None,
                      activation: Optional[str] = None) -> Tensor:
    """activation(all_reduce(A @ B) + bias): the same result on all ranks, bit by bit.

    A: all rows, [..., K], with this rank's part of K. B: [K, N], this rank's part.
    The rest is as in matmul_reduce_scatter(). The backward takes the result's gradient for one that
    all ranks have alike, and so needs no communication.
    """
    name = name_of(group)
    _expect_tensors([A, B, bias])
    return _gradients.matmul_all_reduce(A, B, bias, _text("activation", activation), name)


# -- Measuring. --

def prepare(function: Callable[..., Any], A: Tensor, B: Bs, group: Any = None, *,
            seconds: float = 2.0, **options: Any) -> str:
    """Has the ranks measure how `function` runs fastest with such tensors, for at most so many
    seconds of trials, and keeps what is best for later calls: also as a start for shapes that
    nobody has measured. A shape that this machine knows takes no trials.

    function: all_gather_matmul, matmul_reduce_scatter or matmul_all_reduce.
    A, B, group, options: as for a call here, with or without gradients and autocast; tensors are
        looked at, not read. Calls for gradients are measured apart from those without.

    The schedule, in the words of the command line. Collective; blocks. Before the operator is
    captured into a CUDA graph.
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
    """Blocks until all calls of this rank are done on the group's devices. Raises what has gone
    wrong with them: on GPUs a call itself only tells of what was known when it was issued."""
    name = name_of(group)
    for job in all_jobs():
        if job.group == name:
            with job.lock:
                job.job.synchronize()
