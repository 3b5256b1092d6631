"""Operators that are ready to run: one for each group and layout of tensors, kept and counted."""
from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from braid import _library
from braid._errors import InputError, UnsupportedError
from braid._program import Program, compile
from braid.torch._group import DEFAULT_BYTES, GroupJob, all_jobs, job_of, place_of
from braid.torch._layout import Layout, Rows, Weight, check

Tensor = torch.Tensor
Biases = Sequence[Optional[Tensor]]

_run_at = _library.fast("session_run_at")
DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32",
          torch.float64: "f64"}
# Autograd runs backward passes on threads of its own, and a job is not thread-safe.
_lock = threading.RLock()
_clock = 0  # counts calls, of all operations


class Prepared:
    """An operator for tensors of one layout on one group."""

    def __init__(self, job: GroupJob, layout: Layout, program: Program, measures: bool) -> None:
        self.operation = job.job.prepare(program, measures=measures)
        self.job, self.layout = job, layout
        self.schedule = self.operation.program.schedule
        self.calls = self.copies = self.last = 0
        self.is_in_a_graph = False  # of the caller's, which goes on using it
        self._outputs = _outputs(layout, job.rank)
        count = 1 + len(layout.weights) + sum(each.has_bias for each in layout.weights)
        self._addresses = (ctypes.c_void_p * (count + len(self._outputs)))()

    def run(self, inputs: Sequence[Tensor]) -> List[Tensor]:
        """Issues one run, to the current stream; on CPUs it is done then. New tensors, of the rows
        that exist, as matrices."""
        job, addresses, A = self.job, self._addresses, inputs[0]
        outputs = [A.new_empty(shape) for shape, _ in self._outputs]
        for index, tensor in enumerate(outputs, len(inputs)):
            addresses[index] = address = tensor.data_ptr()
        for index, tensor in enumerate(inputs):
            addresses[index] = tensor.data_ptr() or address  # of no rows: nothing reads it
        stream = None
        if A.is_cuda:
            stream = torch._C._cuda_getCurrentRawStream(A.get_device())
        _run_at(self.operation._handle.address, addresses, len(addresses), stream)
        if stream is None:
            job.job.synchronize()
        return [tensor if shape[0] == rows else tensor.narrow(0, 0, rows)
                for tensor, (shape, rows) in zip(outputs, self._outputs)]


def _outputs(layout: Layout, rank: int) -> List[Tuple[Tuple[int, int], int]]:
    """Of each output: the shape of the memory that it takes, as a matrix, and its rows."""
    rows = layout.rows
    if layout.operator == "matmul_reduce_scatter":
        full, existing = rows.block * rows.beside, rows.of(rank) * rows.beside
    else:
        full, existing = rows.full, rows.total * rows.beside
    if layout.operator == "matmul_all_reduce" and existing < rows.ranks:
        full = existing
    columns = [weight.columns for weight in layout.weights]
    columns += [layout.depth] if layout.returns_gathered else []
    return [((full, each), existing) for each in columns]


# -- Which schedule. --

def _guess(job: GroupJob, layout: Layout) -> Optional[str]:
    """For a family of which nothing was measured: what docs/performance.md has for about that
    much arithmetic. On CPU ranks the default of the library."""
    if job.device.type == "cpu":
        return None
    M, N, K = layout.extents
    if M * N * K < 40e9:  # some 100 us
        return "bulk;protocol=put;copies=kernel"
    return "pairwise;protocol=put"


def _nearest(job: GroupJob, layout: Layout) -> Optional[str]:
    """What is best for the nearest layout that was measured. The same on all ranks, which measure
    together."""
    measured = [(layout.distance(other), schedule) for other, schedule in job.choices
                if other.family == layout.family]
    return min(measured, key=lambda each: each[0])[1] if measured else None


def _lower(job: GroupJob, layout: Layout) -> Program:
    """Without measuring anything. A schedule that this layout cannot have is passed over, on all
    ranks alike."""
    fusion = layout.fusion()
    for schedule in (_nearest(job, layout), _guess(job, layout)):
        if schedule is not None:
            try:
                return compile(fusion, ranks=job.ranks, schedule=schedule)
            except (InputError, UnsupportedError):
                pass
    return compile(fusion, ranks=job.ranks)


# -- What is kept. --

_bound = DEFAULT_BYTES


def set_memory_bound(size: int) -> None:
    """At most so many bytes of each group's operators are kept on this rank, on each kind of
    device; 0: no bound. Default: 4 GiB. The same on all ranks.

    Beyond it those go that were not called for longest, but for one that is being called and those
    in CUDA graphs; when they are called again they are prepared again.
    """
    global _bound
    if size < 0:
        raise InputError(f"expected bytes, 0 or more, got {size}")
    _bound = size


class Memory(NamedTuple):
    """What operators hold on this rank."""

    bytes: int
    operators: int
    bound: int  # bytes, of each group


def memory() -> Memory:
    """What the operators of all groups hold on this rank, and at most may."""
    usages = [job.job.usage() for job in all_jobs()]
    return Memory(sum(each.bytes for each in usages), sum(each.operations for each in usages),
                  _bound)


def _keep_within_bound(job: GroupJob, newest: Prepared) -> None:
    """All ranks let the same ones go, because they call alike."""
    while _bound and job.job.usage().bytes > _bound:
        others = [(each.last, key) for key, each in job.operations.items()
                  if each is not newest and not each.is_in_a_graph]
        if not others:
            return
        retire(job, min(others, key=lambda each: each[0])[1])


def retire(job: GroupJob, key: Layout) -> None:
    """Gives back what an operator has. Its calls stay in the report."""
    prepared = job.operations.pop(key)
    job.sites.clear()
    _add(job.retired, prepared)
    prepared.operation.close()


class Calls(NamedTuple):
    """Calls of one operator with tensors of one shape."""

    operator: str
    group: str
    shape: str  # element type, and M x N x K: all rows, and this rank's columns and depth
    schedule: str
    calls: int
    copies: int  # of operands that had to be laid out anew


Counts = Dict[Tuple[str, str, str], Tuple[int, int]]  # by operator, shape and schedule


def _add(counts: Counts, each: Prepared) -> None:
    key = (each.layout.operator, each.layout.shape, each.schedule)
    calls, copies = counts.get(key, (0, 0))
    counts[key] = (calls + each.calls, copies + each.copies)


def all_calls() -> Iterator[Calls]:
    """Of groups that live."""
    for job in all_jobs():
        counts = dict(job.retired)
        for each in job.operations.values():
            _add(counts, each)
        for (operator, shape, schedule), numbers in counts.items():
            yield Calls(operator, job.group, shape, schedule, *numbers)


# -- Finding the one for a call. --

def _is_captured(job: GroupJob) -> bool:
    return job.on_gpu and bool(torch.cuda.is_current_stream_capturing())


def find(job: GroupJob, layout: Layout) -> Prepared:
    """The operator for such tensors. Collective when it is the first of them: prepares it, within
    some 50 ms. InputError where that is in a capture, which could not be waited for."""
    prepared = job.operations.get(layout)
    if prepared is None:
        if _is_captured(job):
            raise InputError(
                f"{layout.operator} of {layout.shape}: expected a call, or braid.torch.prepare(), "
                "with such tensors before the stream is captured")
        check(layout)
        prepared = Prepared(job, layout, _lower(job, layout), measures=False)
        job.operations[layout] = prepared
        _keep_within_bound(job, prepared)
    return prepared


def use(prepared: Prepared) -> None:
    """Counts a call."""
    global _clock
    if not prepared.is_in_a_graph and _is_captured(prepared.job):
        prepared.is_in_a_graph = True
    _clock += 1
    prepared.last = _clock
    prepared.calls += 1


def measure(job: GroupJob, layout: Layout, seconds: float) -> Prepared:
    """Has the ranks choose by measuring, and keeps what is best. Collective; blocks."""
    check(layout)
    auto = "auto;launch=graph" if job.device.type == "cuda" else "auto"
    before = job.operations.get(layout)
    if before is not None and before.is_in_a_graph:
        raise InputError(f"{layout.operator} of {layout.shape}: expected prepare() before the "
                         "operator is captured into a graph")
    program = compile(layout.fusion(), ranks=job.ranks, schedule=auto, auto_seconds=seconds)
    prepared = Prepared(job, layout, program, measures=True)
    if before is not None:
        retire(job, layout)
    prepared.last = _clock
    job.operations[layout] = prepared
    job.choices.append((layout, prepared.schedule))
    _keep_within_bound(job, prepared)
    return prepared


# -- Calls. --

def _dtype_of(tensors: Sequence[Optional[Tensor]]) -> str:
    first = tensors[0]
    assert first is not None
    for each in tensors[1:]:
        if each is not None and (each.dtype != first.dtype or each.device != first.device):
            raise InputError(f"expected tensors of one type on one device, got {first.dtype} on "
                             f"{first.device} beside {each.dtype} on {each.device}")
    dtype = DTYPES.get(first.dtype)
    if dtype is None:
        raise InputError("expected bfloat16, float16, float32 or float64, got "
                         f"{first.dtype}")
    return dtype


def _dimension(A: Tensor, dim: int, what: str) -> int:
    """Counted from the front. The last one is contracted."""
    if A.dim() < 2:
        raise InputError(f"expected A to have 2 dimensions or more, got {tuple(A.shape)}")
    found = dim + A.dim() if dim < 0 else dim
    if not 0 <= found < A.dim() - 1:
        raise InputError(f"expected {what} below {A.dim() - 1}, since the last dimension of A is "
                         f"contracted, got {dim}")
    return found


def _weight(A: Tensor, B: Tensor, bias: Optional[Tensor]) -> Weight:
    if B.dim() != 2 or B.shape[0] != A.shape[-1]:
        raise InputError(f"expected B to be [{A.shape[-1]}, N], for A is {tuple(A.shape)}; got "
                         f"{tuple(B.shape)}")
    if bias is not None and tuple(bias.shape) != (B.shape[1],):
        raise InputError(f"expected a bias of [{B.shape[1]}], got {tuple(bias.shape)}")
    # With a bias it is PyTorch's linear. A matrix that lies neither way is copied.
    is_transposed = bias is not None or (B.stride(0) == 1 and not B.is_contiguous())
    return Weight(int(B.shape[1]), is_transposed, bias is not None)


class Call(NamedTuple):
    """An operator's tensors, and what they are to it."""

    layout: Layout
    dim: int
    others: Tuple[int, ...]  # the dimensions of A besides `dim` and the last one


def _describe(operator: str, A: Tensor, Bs: Sequence[Tensor], biases: Biases, activation: str,
              dim: int, rows: int, ranks: int, returns_gathered: bool = False) -> Call:
    dtype = _dtype_of([A, *Bs, *biases])
    others = tuple(A.shape[:dim]) + tuple(A.shape[dim + 1:-1])
    beside = 1
    for extent in others:
        beside *= extent
    weights = tuple(_weight(A, B, bias) for B, bias in zip(Bs, biases))
    if operator == "matmul_all_reduce":  # nobody's rows are apart
        rows, beside = rows * beside, 1
    layout = Layout(operator, dtype, Rows(rows, beside, ranks), int(A.shape[-1]), weights,
                    activation, returns_gathered)
    return Call(layout, dim, others)


def _laid_out(prepared: Prepared, call: Call, A: Tensor, Bs: Sequence[Tensor],
              biases: Biases) -> List[Tensor]:
    """The tensors in the order of the program, contiguous; what is not is copied, and counted."""
    inputs = [A.movedim(call.dim, 0) if call.dim else A]
    for weight, B, bias in zip(call.layout.weights, Bs, biases):
        inputs.append(B.t() if weight.is_transposed else B)
        if bias is not None:
            inputs.append(bias)
    for index, tensor in enumerate(inputs):
        if not tensor.is_contiguous():
            inputs[index] = tensor.contiguous()
            prepared.copies += 1
    return inputs


def _shaped(matrix: Tensor, call: Call) -> Tensor:
    """With the rows where A has them."""
    if not call.others:
        return matrix
    tensor = matrix.view(-1, *call.others, matrix.shape[-1])
    return tensor.movedim(0, call.dim) if call.dim else tensor


Site = Tuple[object, ...]  # all that decides what a call is, as it is given


def _run(job: GroupJob, site: Site, describe: Callable[[], Call], A: Tensor, Bs: Sequence[Tensor],
         biases: Biases) -> List[Tensor]:
    """The outputs. What was found for a site is kept, since describing takes longer than a run."""
    known = job.sites.get(site)
    if known is None:
        call = describe()
        known = find(job, call.layout), call
        job.sites[site] = known
    prepared, call = known
    use(prepared)
    outputs = prepared.run(_laid_out(prepared, call, A, Bs, biases))
    return [_shaped(output, call) for output in outputs] if call.others else outputs


def describe_gather(job: GroupJob, A: Tensor, Bs: Sequence[Tensor], biases: Biases,
                    activation: str, gather_dim: int, rows: int, returns_gathered: bool) -> Call:
    dim = _dimension(A, gather_dim, "gather_dim")
    count = A.shape[dim] * job.ranks if rows < 0 else rows
    call = _describe("all_gather_matmul", A, Bs, biases, activation, dim, count, job.ranks,
                     returns_gathered)
    mine = call.layout.rows.of(job.rank)
    if A.shape[dim] != mine:
        raise InputError(f"expected {mine} of {rows} rows on rank {job.rank} of {job.ranks}, as "
                         f"torch.chunk splits them, got {A.shape[dim]}")
    return call


def describe_reduce(job: GroupJob, operator: str, A: Tensor, B: Tensor, bias: Optional[Tensor],
                    activation: str, scatter_dim: int) -> Call:
    dim = _dimension(A, scatter_dim, "scatter_dim")
    return _describe(operator, A, [B], [bias], activation, dim, int(A.shape[dim]), job.ranks)


def spread(count: int, given: Sequence[Tensor], biased: int) -> List[Optional[Tensor]]:
    """A bias or None for each B."""
    if len(given) != bin(biased).count("1") or biased >> count:
        raise InputError(f"expected a bias for each bit of {biased:#b}, of {count} Bs, got "
                         f"{len(given)}")
    rest = iter(given)
    return [next(rest) if biased >> i & 1 else None for i in range(count)]


def all_gather_matmul(A: Tensor, Bs: Sequence[Tensor], given: Sequence[Tensor],
                      biased: int, activation: str, gather_dim: int, rows: int, return_A: bool,
                      group_name: str) -> List[Tensor]:
    """The products, then A gathered if it is asked for. Bit i of `biased`: Bs[i] has a bias, the
    next one that is given."""
    if not Bs:
        raise InputError("expected one B or more, got none")
    biases = spread(len(Bs), given, biased) if biased else [None] * len(Bs)
    site: Site = (A.shape, A.dtype, gather_dim, rows, return_A, biased, activation)
    for B in Bs:
        site += (B.shape, B.dtype, B.stride())
    for bias in given:
        site += (bias.shape, bias.dtype)
    with _lock:
        job = job_of(group_name, A)
        return _run(job, site, lambda: describe_gather(job, A, Bs, biases, activation, gather_dim,
                                                       rows, return_A), A, Bs, biases)


def _reduce(operator: str, A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str, dim: int,
            group_name: str) -> Tensor:
    site = (operator, A.shape, A.dtype, dim, activation, B.shape, B.dtype, B.stride(),
            None if bias is None else (bias.shape, bias.dtype))
    with _lock:
        job = job_of(group_name, A)
        return _run(job, site, lambda: describe_reduce(job, operator, A, B, bias, activation, dim),
                    A, [B], [bias])[0]


def matmul_reduce_scatter(A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str,
                          reduce_op: str, scatter_dim: int, group_name: str) -> Tensor:
    if reduce_op not in ("sum", "avg"):
        raise InputError(f"expected reduce_op to be sum or avg, got '{reduce_op}'")
    if reduce_op == "avg" and (activation or bias is not None):
        raise InputError("expected reduce_op sum, got avg with a bias or an activation")
    output = _reduce("matmul_reduce_scatter", A, B, bias, activation, scatter_dim, group_name)
    if reduce_op == "avg":
        output.div_(place_of(group_name)[1])
    return output


def matmul_all_reduce(A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str,
                      group_name: str) -> Tensor:
    return _reduce("matmul_all_reduce", A, B, bias, activation, 0, group_name)
