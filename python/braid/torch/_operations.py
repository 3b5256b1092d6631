"""The operators' kernels for CPU and CUDA tensors."""
from __future__ import annotations

import math
from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch

from braid._errors import InputError
from braid.torch._group import GroupJob, job_of, place_of
from braid.torch._layout import Layout, Rows, Weight, check
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
            raise InputError("expected all tensors to have the same type and device, got "
                             f"{first.dtype} on {first.device} and {each.dtype} on {each.device}")
    dtype = DTYPES.get(first.dtype)
    if dtype is None:
        raise InputError("expected bfloat16, float16, float32 or float64, got "
                         f"{first.dtype}")
    return dtype


def _dimension(A: Tensor, dim: int, what: str) -> int:
    """Returns `dim` counted from the front. Raises InputError if it is out of range, or if it is
    the last dimension, which is contracted."""
    if A.dim() < 2:
        raise InputError(f"expected A to have at least 2 dimensions, got {tuple(A.shape)}")
    found = dim + A.dim() if dim < 0 else dim
    if not 0 <= found < A.dim() - 1:
        raise InputError(f"expected {what} to be a dimension of A before the last one "
                         f"({A.dim() - 1}), got {dim}; the last dimension is contracted")
    return found


def _weight(A: Tensor, B: Tensor, bias: Optional[Tensor]) -> Weight:
    if B.dim() != 2 or B.shape[0] != A.shape[-1]:
        raise InputError(f"expected B to have shape [{A.shape[-1]}, N] to match A's shape "
                         f"{tuple(A.shape)}, got {tuple(B.shape)}")
    if bias is not None and tuple(bias.shape) != (B.shape[1],):
        raise InputError(f"expected the bias to have shape [{B.shape[1]}], got {tuple(bias.shape)}")
    # A bias requires a `linear`, whose weight is transposed. Matrices in other layouts are copied.
    is_transposed = bias is not None or (B.stride(0) == 1 and not B.is_contiguous())
    return Weight(int(B.shape[0]), int(B.shape[1]), is_transposed, bias is not None)


# -- Calls. --

# The maximum number of sequences (entries of the axes that precede the rows) in a fusion, which has
# a statement for each. Operands with more sequences are copied, so that the rows come first.
MOST_SEQUENCES = 4


class Output(NamedTuple):
    """A result, which is contiguous."""

    shape: Tuple[int, ...]
    elements: int  # allocated elements, including padding rows

    def make(self, like: Tensor) -> Tuple[Tensor, int]:
        """Returns a new tensor and its address, which PyTorch does not report for an empty tensor.
        The tensor is not a view of another tensor, so callers may modify it in place."""
        if self.elements == math.prod(self.shape):
            tensor = like.new_empty(self.shape)
            return tensor, tensor.data_ptr()
        memory = like.new_empty(self.elements)
        tensor = like.new_empty(0)
        strides = [math.prod(self.shape[axis + 1:]) for axis in range(len(self.shape))]
        tensor.set_(memory.untyped_storage(), 0, self.shape, strides)
        return tensor, memory.data_ptr()


class Call(NamedTuple):
    """The layout and the outputs of an operator call."""

    layout: Layout
    dim: int
    outputs: List[Output]
    rows_first: bool  # operands and results are copied to move the rows from `dim` to the front


def _describe(operator: str, job: GroupJob, As: Sequence[Tensor], Bs: Sequence[Tensor],
              biases: Biases, activation: str, dim: int, rows: int,
              returns_gathered: bool) -> Call:
    A, gathers = As[0], operator == "all_gather_matmul"
    dim = _dimension(A, dim, "gather_dim" if gathers else "scatter_dim")
    if rows < -1:
        raise InputError(f"expected rows to be -1 or at least 0, got {rows}")
    count = int(A.shape[dim])
    if gathers:
        count = count * job.ranks if rows < 0 else rows
    dtype = _dtype_of([*As, *Bs, *biases])
    if A.device != job.device:
        raise InputError(f"expected tensors on {job.device}, got {A.device}")
    weights = tuple(_weight(As[0 if gathers else i], B, bias)
                    for i, (B, bias) in enumerate(zip(Bs, biases)))
    if not gathers and len({weight.is_transposed for weight in weights}) > 1:
        # A sum has one layout for all weights; a bias requires the transposed one.
        weights = tuple(weight._replace(is_transposed=weights[0].has_bias) for weight in weights)
    before, behind = math.prod(A.shape[:dim]), math.prod(A.shape[dim + 1:-1])
    sequences = before if 1 < before <= MOST_SEQUENCES and count % job.ranks == 0 else 1
    split = Rows(count, before // sequences * behind, job.ranks)
    if operator == "matmul_all_reduce":  # every rank has all rows, and `dim` is 0
        split = Rows(math.prod(A.shape[:-1]), 1, job.ranks)
    layout = Layout(operator, dtype, split, weights, activation, returns_gathered, sequences)
    check(layout)
    mine = layout.rows.of(job.rank)
    if gathers and A.shape[dim] != mine:
        raise InputError(f"expected {mine} of {rows} rows on rank {job.rank} of {job.ranks} (split "
                         f"like torch.chunk), got {A.shape[dim]}")
    rows_first = before > 1 and sequences == 1
    return Call(layout, dim, _outputs_of(layout, job.rank, A, dim, rows_first), rows_first)


def _outputs_of(layout: Layout, rank: int, A: Tensor, dim: int, rows_first: bool) -> List[Output]:
    rows, shape = layout.rows, list(A.shape[:-1])
    if layout.operator == "matmul_all_reduce":
        full = rows.full if rows.total >= rows.ranks else rows.total
    elif layout.gathers:
        full, shape[dim] = rows.full, rows.total
    else:
        full, shape[dim] = rows.block * rows.beside, rows.of(rank)
    if rows_first:
        shape.insert(0, shape.pop(dim))
    return [Output((*shape, width), layout.sequences * full * width) for width in layout.widths]


def _laid_out(prepared: Prepared, call: Call, As: Sequence[Tensor], Bs: Sequence[Tensor],
              biases: Biases) -> List[Tensor]:
    """Returns the operands, the weights and the biases in the program's order. Each operand
    contains all sequences. Copies non-contiguous tensors, and counts them."""
    inputs = [A.movedim(call.dim, 0) if call.rows_first else A for A in As]
    for weight, B, bias in zip(call.layout.weights, Bs, biases):
        inputs.append(B.t() if weight.is_transposed else B)
        if bias is not None:
            inputs.append(bias)
    for index, tensor in enumerate(inputs):
        if not tensor.is_contiguous():
            inputs[index] = tensor.contiguous()
            prepared.counts.copies += 1
    return inputs


def run(operator: str, As: Sequence[Tensor], Bs: Sequence[Tensor], biases: Biases,
        activation: str, dim: int, group_name: str, rows: int = -1,
        returns_gathered: bool = False) -> List[Tensor]:
    """Runs the operator. Caches the description of the call, keyed by the arguments that determine
    it, because describing a call takes longer than a run."""
    A = As[0]
    job = job_of(group_name, A)
    site: Tuple[object, ...] = (operator, A.shape, A.dtype, activation, dim, rows, returns_gathered)
    for each in (*As[1:], *Bs, *biases):
        site += (None if each is None else
                 (each.shape, each.dtype, each.stride(), each.get_device()),)
    with job.lock:
        job.raise_error()
        known = job.sites.get(site) if job.instead_of_run is None else None
        if known is None:
            call = _describe(operator, job, As, Bs, biases, activation, dim, rows, returns_gathered)
            known = None, call  # used if the layout is empty on all ranks: nothing is run
            if job.instead_of_run is not None:
                job.instead_of_run(call.layout)
            else:
                if not call.layout.is_empty:
                    known = find(job, call.layout), call
                job.sites[site] = known
        prepared, call = known
        made = [output.make(A) for output in call.outputs]
        if prepared is not None:
            prepared.run(job, _laid_out(prepared, call, As, Bs, biases), made, len(As))
        if not call.rows_first:
            return [output for output, _ in made]
        return [output.movedim(0, call.dim).contiguous() for output, _ in made]


def _spread(count: int, given: Sequence[Tensor], biased: int) -> List[Optional[Tensor]]:
    """Returns a bias or None for each B. Bit i of `biased` is set if the i-th B has a bias."""
    if len(given) != bin(biased).count("1") or biased >> count:
        raise InputError(f"expected one bias for each bit set in the mask {biased:#b}, for {count} "
                         f"Bs, got {len(given)}")
    rest = iter(given)
    return [next(rest) if biased >> i & 1 else None for i in range(count)]


def all_gather_matmul(A: Tensor, Bs: Sequence[Tensor], given: Sequence[Tensor],
                      biased: int, activation: str, gather_dim: int, rows: int, return_A: bool,
                      keeps_shard: bool, group_name: str, ranks: int = 0) -> List[Tensor]:
    """Returns the results, followed by the gathered A if `return_A`. Bit i of `biased` is set if
    Bs[i] has a bias; `given` contains these biases. Only gradients use `keeps_shard`, and only
    the fake kernel uses `ranks`."""
    if not Bs:
        raise InputError("expected at least one B, got none")
    return run("all_gather_matmul", [A], Bs, _spread(len(Bs), given, biased), activation,
               gather_dim, group_name, rows, return_A)


def why_not(tensors: Sequence[Tensor], dim: int, reduce_op: str = "sum") -> str:
    """Returns why Braid cannot replace PyTorch's fused operator for `tensors` (A and the Bs), or ""
    if it can. Accepts fake tensors, whose sizes may be unknown."""
    A = tensors[0]
    if dim in (A.dim() - 1, -1):
        return "the last dimension is gathered or scattered"
    if reduce_op not in REDUCTIONS:
        return f"the reduction operator is {reduce_op}"
    for tensor in tensors:
        if tensor.dtype not in DTYPES:
            return f"the element type is {tensor.dtype}"
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
        raise InputError("a bias or an activation requires reduce_op 'sum', got 'avg'")


def reduced(operator: str, As: Sequence[Tensor], Bs: Sequence[Tensor], bias: Optional[Tensor],
            activation: str, reduce_op: str, dim: int, group_name: str) -> Tensor:
    """Returns the reduced sum of As[i] @ Bs[i], plus the bias: all rows, or this rank's rows."""
    biases = [bias, *[None] * (len(Bs) - 1)]
    [output] = run(operator, As, Bs, biases, activation, dim, group_name)
    if reduce_op == "avg":
        output.div_(place_of(group_name)[1])
    return output


def matmul_reduce_scatter(A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str,
                          reduce_op: str, scatter_dim: int, group_name: str, rank: int = 0,
                          ranks: int = 0) -> Tensor:
    """Returns this rank's rows. Only the fake kernel uses `rank` and `ranks`."""
    check_reduction(reduce_op, activation, bias)
    return reduced("matmul_reduce_scatter", [A], [B], bias, activation, reduce_op, scatter_dim,
                   group_name)


def matmul_all_reduce(A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str,
                      group_name: str) -> Tensor:
    return reduced("matmul_all_reduce", [A], [B], bias, activation, "sum", 0, group_name)
