"""The operators' kernels for CPU and CUDA tensors."""
from __future__ import annotations

import math
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from braid._errors import InputError
from braid.torch._group import GroupJob, job_of, place_of
from braid.torch._layout import Layout, Rows, Weight, check
from braid.torch._outputs import Output, outputs_of
from braid.torch._prepared import Prepared, find

Tensor = torch.Tensor
Biases = Sequence[Optional[Tensor]]

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32",
          torch.float64: "f64"}
REDUCTIONS = ("sum", "avg")


def _dtype_of(tensors: Sequence[Optional[Tensor]]) -> str:
    first = tensors[0]
    assert first is not None
    for each in tensors[1:]:
        if each is not None and (each.dtype != first.dtype or each.device != first.device):
            raise InputError(f"expected tensors of one type on one device, got {first.dtype} on "
                             f"{first.device} and {each.dtype} on {each.device}")
    dtype = DTYPES.get(first.dtype)
    if dtype is None:
        raise InputError("expected bfloat16, float16, float32 or float64, got "
                         f"{first.dtype}")
    return dtype


def _dimension(A: Tensor, dim: int, what: str) -> int:
    """Returns `dim` counted from the front. Raises InputError if it is out of range, or if it is
    the last dimension, which is contracted."""
    if A.dim() < 2:
        raise InputError(f"expected A to have 2 dimensions or more, got {tuple(A.shape)}")
    found = dim + A.dim() if dim < 0 else dim
    if not 0 <= found < A.dim() - 1:
        raise InputError(f"expected {what} below {A.dim() - 1}, because the last dimension of A "
                         f"is contracted, got {dim}")
    return found


def _weight(A: Tensor, B: Tensor, bias: Optional[Tensor]) -> Weight:
    if B.dim() != 2 or B.shape[0] != A.shape[-1]:
        raise InputError(f"expected B to be [{A.shape[-1]}, N], because A is {tuple(A.shape)}; got "
                         f"{tuple(B.shape)}")
    if bias is not None and tuple(bias.shape) != (B.shape[1],):
        raise InputError(f"expected a bias of [{B.shape[1]}], got {tuple(bias.shape)}")
    # A bias requires a `linear`, whose weight is transposed. Matrices in other layouts are copied.
    is_transposed = bias is not None or (B.stride(0) == 1 and not B.is_contiguous())
    return Weight(int(B.shape[1]), is_transposed, bias is not None)


class Call(NamedTuple):
    """The layout and the outputs of an operator call."""

    layout: Layout
    dim: int
    outputs: List[Output]


def _describe(operator: str, job: GroupJob, A: Tensor, Bs: Sequence[Tensor], biases: Biases,
              activation: str, dim: int, rows: int, returns_gathered: bool = False) -> Call:
    dtype, ranks = _dtype_of([A, *Bs, *biases]), job.ranks
    if A.device != job.device:
        raise InputError(f"expected tensors on {job.device}, got {A.device}")
    others = tuple(A.shape[:dim]) + tuple(A.shape[dim + 1:-1])
    beside = math.prod(others)
    weights = tuple(_weight(A, B, bias) for B, bias in zip(Bs, biases))
    split = Rows(rows, beside, ranks)
    if operator == "matmul_all_reduce":  # every rank has all rows
        split = Rows(rows * beside, 1, ranks)
    layout = Layout(operator, dtype, split, int(A.shape[-1]), weights, activation,
                    returns_gathered)
    check(layout)
    return Call(layout, dim, outputs_of(layout, job.rank, rows, dim, others))


def _laid_out(prepared: Prepared, call: Call, A: Tensor, Bs: Sequence[Tensor],
              biases: Biases) -> List[Tensor]:
    """Returns the inputs in the program's order. Copies and counts non-contiguous inputs."""
    inputs = [A.movedim(call.dim, 0) if call.dim else A]
    for weight, B, bias in zip(call.layout.weights, Bs, biases):
        inputs.append(B.t() if weight.is_transposed else B)
        if bias is not None:
            inputs.append(bias)
    for index, tensor in enumerate(inputs):
        if not tensor.is_contiguous():
            inputs[index] = tensor.contiguous()
            prepared.counts.copies += 1
    return inputs


Site = Tuple[object, ...]  # a call's key: the arguments that determine its layout


def _run(job: GroupJob, site: Site, describe: Callable[[], Call], A: Tensor, Bs: Sequence[Tensor],
         biases: Biases) -> List[Tensor]:
    """Runs the operator. Caches the result of `describe`, which takes longer than a run."""
    job.raise_error()
    if job.instead_of_run is not None:
        call = describe()
        job.instead_of_run(call.layout)
        return [output.make(A)[0] for output in call.outputs]
    known = job.sites.get(site)
    if known is None:
        call = describe()
        known = None if call.layout.is_empty else find(job, call.layout), call
        job.sites[site] = known
    prepared, call = known
    if prepared is None:  # the layout is empty, on all ranks
        return [output.make(A)[0] for output in call.outputs]
    made = [output.make(A) for output in call.outputs]
    prepared.run(job, _laid_out(prepared, call, A, Bs, biases), made)
    return [output for output, _ in made]


def _describe_gather(job: GroupJob, A: Tensor, Bs: Sequence[Tensor], biases: Biases,
                    activation: str, gather_dim: int, rows: int, returns_gathered: bool) -> Call:
    dim = _dimension(A, gather_dim, "gather_dim")
    if rows < -1:
        raise InputError(f"expected rows to be at least 0, or -1, got {rows}")
    count = A.shape[dim] * job.ranks if rows < 0 else rows
    call = _describe("all_gather_matmul", job, A, Bs, biases, activation, dim, count,
                     returns_gathered)
    mine = call.layout.rows.of(job.rank)
    if A.shape[dim] != mine:
        raise InputError(f"expected {mine} of {rows} rows on rank {job.rank} of {job.ranks}, as "
                         f"torch.chunk splits them, got {A.shape[dim]}")
    return call


def _spread(count: int, given: Sequence[Tensor], biased: int) -> List[Optional[Tensor]]:
    """Returns a bias or None for each B. Bit i of `biased` is set if the i-th B has a bias."""
    if len(given) != bin(biased).count("1") or biased >> count:
        raise InputError(f"expected a bias for each bit of {biased:#b}, of {count} Bs, got "
                         f"{len(given)}")
    rest = iter(given)
    return [next(rest) if biased >> i & 1 else None for i in range(count)]


def all_gather_matmul(A: Tensor, Bs: Sequence[Tensor], given: Sequence[Tensor],
                      biased: int, activation: str, gather_dim: int, rows: int, return_A: bool,
                      group_name: str, ranks: int = 0) -> List[Tensor]:
    """Returns the results, followed by the gathered A if `return_A`. Bit i of `biased` is set if
    Bs[i] has a bias; `given` contains these biases. Only the fake kernel uses `ranks`."""
    if not Bs:
        raise InputError("expected one B or more, got none")
    biases = _spread(len(Bs), given, biased) if biased or given else [None] * len(Bs)
    site: Site = (A.shape, A.dtype, gather_dim, rows, return_A, biased, activation)
    for B in Bs:
        site += (B.shape, B.dtype, B.stride(), B.get_device())
    for bias in given:
        site += (bias.shape, bias.dtype, bias.get_device())
    job = job_of(group_name, A)
    with job.lock:
        return _run(job, site, lambda: _describe_gather(job, A, Bs, biases, activation, gather_dim,
                                                       rows, return_A), A, Bs, biases)


def _reduce(operator: str, A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str, dim: int,
            group_name: str) -> Tensor:
    site = (operator, A.shape, A.dtype, dim, activation, B.shape, B.dtype, B.stride(),
            B.get_device(), None if bias is None else (bias.shape, bias.dtype, bias.get_device()))
    job = job_of(group_name, A)

    def describe() -> Call:
        found = _dimension(A, dim, "scatter_dim")
        return _describe(operator, job, A, [B], [bias], activation, found, int(A.shape[found]))
    with job.lock:
        return _run(job, site, describe, A, [B], [bias])[0]


def why_not(tensors: Sequence[Tensor], dim: int, reduce_op: str = "sum") -> str:
    """Returns why Braid cannot replace PyTorch's fused operator for `tensors` (A and the Bs), or ""
    if it can. Accepts fake tensors, whose sizes may be unknown."""
    A = tensors[0]
    if dim in (A.dim() - 1, -1):
        return "the last dimension is gathered or scattered"
    if reduce_op not in REDUCTIONS:
        return f"the operator of the reduction is {reduce_op}"
    for tensor in tensors:
        if tensor.dtype not in DTYPES:
            return f"elements are {tensor.dtype}"
    if len({tensor.dtype for tensor in tensors}) > 1:
        return "element types differ"
    sizes = [size for tensor in tensors for size in tensor.shape]
    if any(isinstance(size, int) and size == 0 for size in sizes):
        return "a tensor has no elements"
    return ""


def check_reduction(reduce_op: str, activation: str, bias: Optional[Tensor]) -> None:
    if reduce_op not in REDUCTIONS:
        raise InputError(f"expected reduce_op to be sum or avg, got '{reduce_op}'")
    if reduce_op == "avg" and (activation or bias is not None):
        raise InputError("expected reduce_op 'sum' with a bias or an activation, got 'avg'")


def matmul_reduce_scatter(A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str,
                          reduce_op: str, scatter_dim: int, group_name: str, rank: int = 0,
                          ranks: int = 0) -> Tensor:
    """Returns this rank's rows. Only the fake kernel uses `rank` and `ranks`."""
    check_reduction(reduce_op, activation, bias)
    output = _reduce("matmul_reduce_scatter", A, B, bias, activation, scatter_dim, group_name)
    if reduce_op == "avg":
        output.div_(place_of(group_name)[1])
    return output


def matmul_all_reduce(A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str,
                      group_name: str) -> Tensor:
    return _reduce("matmul_all_reduce", A, B, bias, activation, 0, group_name)
