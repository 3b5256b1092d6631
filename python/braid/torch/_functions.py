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


def _have_dtensors(tensors: Sequence[Any], dim: Any = 0) -> bool:
    """Returns True if any operand is a DTensor. Raises InputError if `dim` is not an integer."""
    if not isinstance(dim, (int, torch.SymInt)):
        raise InputError(f"expected a dimension index, got {dim!r}")
    return any(_gradients.is_dtensor(each) for each in tensors)


def _expect_tensors(tensors: Sequence[Any]) -> None:
    """Raises InputError unless A, B and the biases are local strided tensors. Skips None biases."""
    for index, each in enumerate(tensors):
        if each is None and index > 1:
            continue
        if not isinstance(each, Tensor):
            raise InputError(f"expected tensors, got {type(each).__name__}")
        _gradients.expect_local(each)
        # Code that is traced for a compiled backward pass cannot read the layout.
        if not torch.compiler.is_compiling() and each.layout is not torch.strided:
            raise InputError(f"expected strided tensors, got a {each.layout} tensor")


def _text(name: str, given: Any) -> str:
    """Converts an optional string for the operators, which expect "" instead of None."""
    if given is not None and not isinstance(given, str):
        raise InputError(f"{name}: expected a str, got {given!r}")
    return given or ""


def _lists(B: Bs, bias: Any) -> Tuple[List[Tensor], List[Tensor], int]:
    """Returns the weights, the biases, and a bit mask of the weights that have a bias."""
    if isinstance(B, Tensor):
        if bias is not None and not isinstance(bias, Tensor):
            raise InputError("expected bias to be a tensor or None, because B is a single tensor, "
                             f"got {type(bias).__name__}")
        return ([B], [], 0) if bias is None else ([B], [bias], 1)
    if not isinstance(B, (list, tuple)):
        raise InputError(f"expected B to be a tensor or a list of tensors, got {type(B).__name__}")
    weights = list(B)
    biases = [None] * len(weights) if bias is None else list(bias)
    if not weights or len(biases) != len(weights):
        raise InputError("expected at least one B, and a bias or None for each, got "
                         f"{len(weights)} Bs and {len(biases)} biases")
    given = [each for each in biases if each is not None]
    return weights, given, sum(1 << i for i, each in enumerate(biases) if each is not None)


def is_shard(keep: str) -> bool:
    """Converts the argument `keep`, "gathered" or "shard"."""
    if keep not in ("gathered", "shard"):
        raise InputError(f"expected keep to be 'gathered' or 'shard', got {keep!r}")
    return keep == "shard"


def _count(rows: Optional[int]) -> int:
    """Converts an optional number of rows for the operators, which expect -1 instead of None."""
    if rows is not None and (not isinstance(rows, (int, torch.SymInt)) or rows < 0):
        raise InputError(f"expected rows to be None or at least 0, got {rows!r}")
    return -1 if rows is None else rows


def all_gather_matmul(A: Tensor, B: Bs, group: Any = None, *, bias: Any = None,
                      activation: Optional[str] = None, gather_dim: int = 0,
                      rows: Optional[int] = None, return_A: bool = False,
                      keep: str = "gathered") -> Any:
    """Computes activation(all_gather(A) @ B + bias), overlapping the gather of A with the GEMM.

    A: this rank's rows, [..., K], with two or more dimensions. `gather_dim` is the dimension to
        gather; it cannot be the last one.
    B: [K, N], or a list of such tensors, which share one gather. For a torch.nn.Linear, pass
        weight.t().
    bias: [N], or a list with a bias or None for each B.
    activation: "relu", "gelu", "gelu_tanh", "silu", or None.
    rows: the total number of rows. Required only if the rows do not divide evenly among the ranks;
        they must then be split as torch.chunk splits them.
    group: a ProcessGroup, a one-dimensional DeviceMesh, the name of a group, or None for the
        default group.
    keep: what the forward pass saves for the gradient of B: "gathered", or "shard" to save memory.
        The backward pass then gathers A again.

    Returns Y, with all rows and this rank's columns, or a list with one Y per B. If return_A is
    True, returns a tuple of Y, or the list, and the gathered A.

    DTensors: either all tensors are DTensors or none. `group` is then None or the group of their
    mesh, which has one dimension. A is Shard(gather_dim), B is [K, N] and Shard(1), and the bias is
    Shard(0). Y is sharded in its last dimension, and the gathered A is Replicate(). `rows` is
    not needed.

    Collective. On GPUs, only enqueues work on the current stream. On CPUs, blocks until the result
    is ready. All tensors must have the same element type: bf16, f16, f32 or f64.

    To avoid copies, make A contiguous, with at most 4 entries in the axes before gather_dim, and B
    transposed or, if there is no bias, contiguous. Tensors with other layouts are copied. Results
    are contiguous.

    The first call for each shape prepares the operator. Raises InputError if arguments are invalid.
    After a PeerError or TimedOutError, the group's operators can no longer be used on any rank.

    Gradients: the gradient of A is computed by matmul_reduce_scatter. The gradient of B is a matmul
    with the gathered A.
    Equivalent to: torch.ops.symm_mem.fused_all_gather_matmul
    """
    count = _count(rows)
    weights, given, biased = _lists(B, bias)
    if _have_dtensors([A, *weights, *given], gather_dim):
        from braid.torch import _dtensor
        return _dtensor.call(all_gather_matmul, A, B, group, bias, gather_dim,
                             gather_dim=gather_dim, activation=activation, rows=rows,
                             return_A=bool(return_A), keep=keep)
    name = name_of(group)
    _expect_tensors([A, *weights, *given])
    outputs = _gradients.call("all_gather_matmul", A, weights, given, biased,
                              _text("activation", activation), gather_dim, count, bool(return_A),
                              is_shard(keep), name)
    Ys = list(outputs[:len(weights)])
    result = Ys[0] if isinstance(B, Tensor) else Ys
    return (result, outputs[-1]) if return_A else result


def matmul_reduce_scatter(A: Tensor, B: Tensor, group: Any = None, *,
                          bias: Optional[Tensor] = None, activation: Optional[str] = None,
                          scatter_dim: int = 0, reduce_op: str = "sum") -> Tensor:
    """Computes activation(reduce_scatter(A @ B) + bias), overlapping the reduce-scatter with the
    GEMM.

    A: all rows, [..., K], where K is this rank's slice. `scatter_dim` is the dimension to scatter;
        it is split as torch.chunk splits it, and cannot be the last one.
    B: [K, N], where K is this rank's slice. For a torch.nn.Linear, pass weight.t().
    bias: [N], the same on all ranks; added once.
    reduce_op: "sum", or "avg" if there is neither a bias nor an activation.

    Returns this rank's rows. Partial results are transferred in the element type of A, and summed
    in f32 (f64 if A is f64) in rank order. See all_gather_matmul() for everything else. The
    gradients are computed by all_gather_matmul.

    DTensors: A is sharded in its last dimension, B is Shard(0), and the bias is Replicate(). The
    result is Shard(scatter_dim).

    Equivalent to: torch.ops.symm_mem.fused_matmul_reduce_scatter
    """
    output: Tensor
    if _have_dtensors([A, B, bias], scatter_dim):
        from braid.torch import _dtensor
        output = _dtensor.call(matmul_reduce_scatter, A, B, group, bias, scatter_dim,
                               scatter_dim=scatter_dim, activation=activation, reduce_op=reduce_op)
        return output
    name = name_of(group)
    _expect_tensors([A, B, bias])
    kind, function = _text("reduce_op", reduce_op), _text("activation", activation)
    check_reduction(kind, function, bias)  # the fake kernel does not check
    output = _gradients.call("matmul_reduce_scatter", A, B, bias, function, kind, scatter_dim, name)
    return output


def matmul_all_reduce(A: Tensor, B: Tensor, group: Any = None, *, bias: Optional[Tensor] = None,
                      activation: Optional[str] = None) -> Tensor:
    """Computes activation(all_reduce(A @ B) + bias). The result is bitwise identical on all ranks.

    A: all rows, [..., K], where K is this rank's slice.
    B: [K, N], where K is this rank's slice.

    See matmul_reduce_scatter() for everything else. As a DTensor, the result is Replicate(). The
    backward pass needs no communication, because it assumes that the gradient of the result is the
    same on all ranks.
    """
    output: Tensor
    if _have_dtensors([A, B, bias]):
        from braid.torch import _dtensor
        output = _dtensor.call(matmul_all_reduce, A, B, group, bias, 0, activation=activation)
        return output
    name = name_of(group)
    _expect_tensors([A, B, bias])
    output = _gradients.call("matmul_all_reduce", A, B, bias, _text("activation", activation), name)
    return output


# -- Measuring. --

def prepare(function: Callable[..., Any], A: Tensor, B: Bs, group: Any = None, *,
            seconds: float = 2.0, **options: Any) -> str:
    """Measures schedules of `function` for these tensors, for at most `seconds`. Stores the fastest
    schedule for later calls with this shape, and with similar shapes that were not measured. If the
    shape has already been measured on this machine, uses the stored schedule instead.

    function: all_gather_matmul, matmul_reduce_scatter or matmul_all_reduce.
    A, B, group, options: the arguments of a call, with this rank's tensors instead of DTensors. The
        contents of the tensors are not read. Enable gradients and autocast as for the call: calls
        with gradients are measured separately.

    Returns the schedule in the syntax of the command line. Collective; blocks. Must be called
    before a run of the operator is captured into a CUDA graph.
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
            raise InputError(f"expected nonempty results, got {layout.shape}")
        schedules.append(_prepared.measure(job, layout, seconds).schedule)

    with job.lock:
        job.instead_of_run = measure
        try:
            function(A, B, group, **options)
        finally:
            job.instead_of_run = None
    if not schedules:
        raise InputError(f"expected tensors with data, got a traced {type(A).__name__}")
    return str(schedules[0])


def prepare_all(seconds: float = 2.0) -> List[str]:
    """Measures schedules, as prepare() does, for every operator and layout that this process has
    called, directly or in compiled graphs. Takes at most `seconds` for each.

    Skips operators that have been measured, and operators in a live CUDA graph: call this function
    after a first step, before the step is captured. Returns a line for each measured operator.
    Collective; blocks. All ranks must have made the same calls.
    """
    seconds, lines = core.seconds("seconds", seconds), []
    for job in all_jobs():
        with job.lock:
            for layout in _prepared.unmeasured(job):
                schedule = _prepared.measure(job, layout, seconds).schedule
                lines.append(f"{layout.operator} {layout.shape}: {schedule}")
    return lines


def synchronize(group: Any = None) -> None:
    """Blocks until all of this rank's calls in the group are done. Raises an exception if a call
    failed. On GPUs, a call itself raises only errors that occur while it is being issued."""
    name = name_of(group)
    for job in all_jobs():
        if job.group == name:
            with job.lock:
                job.job.synchronize()
