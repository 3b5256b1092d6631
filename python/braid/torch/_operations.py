"""Operators that are ready to run: one for each group and layout of tensors, kept and counted."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from braid import _library
from braid._errors import InputError, PeerError, UnsupportedError
from braid._job import Operation
from braid._program import Program, compile
from braid.torch._group import DEFAULT_BYTES, GroupJob, all_jobs, job_of, place_of
from braid.torch._layout import Layout, Rows, Weight, check

Tensor = torch.Tensor
Biases = Sequence[Optional[Tensor]]

_run_at = _library.fast("session_run_at")
DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32",
          torch.float64: "f64"}
_clock = 0  # counts calls, of all operations


class Prepared:
    """An operator for tensors of one layout on one group, whose job keeps it."""

    def __init__(self, job: GroupJob, layout: Layout, program: Program, measures: bool) -> None:
        self.operation = _prepare(job, program, measures)
        self.layout = layout
        self.schedule = self.operation.program.schedule
        self.calls = self.copies = self.last = 0
        self.is_in_a_graph = False  # of the caller's, which goes on using it
        self._has_rows = layout.operator != "all_gather_matmul" or layout.rows.of(job.rank) > 0
        count = 1 + len(layout.weights) + sum(each.has_bias for each in layout.weights)
        count += len(layout.weights) + layout.returns_gathered
        self._addresses = (ctypes.c_void_p * count)()

    def run(self, job: GroupJob, inputs: Sequence[Tensor], outputs: Sequence[int]) -> None:
        """Issues one run, to the current stream; on CPUs it is done then. `outputs`: addresses."""
        addresses, A = self._addresses, inputs[0]
        for index, tensor in enumerate(inputs):
            addresses[index] = tensor.data_ptr()
        if not self._has_rows:
            addresses[0] = outputs[0]  # nothing reads it
        for index, address in enumerate(outputs, len(inputs)):
            addresses[index] = address
        stream = None
        if A.is_cuda:
            stream = torch._C._cuda_getCurrentRawStream(A.get_device())
        _run_at(self.operation._handle.address, addresses, len(addresses), stream)
        if stream is None:
            job.job.synchronize()


def _prepare(job: GroupJob, program: Program, measures: bool) -> Operation:
    """What the library does not take here is what ranks do not agree on, and ends the job."""
    try:
        return job.job.prepare(program, measures=measures)
    except InputError as error:
        job.error = PeerError(str(error))
        raise job.error from None


class Output(NamedTuple):
    """A tensor that a run makes: rows lie together, wherever `dim` is."""

    shape: Tuple[int, ...]
    stride: Tuple[int, ...]
    elements: int  # of its memory, which has the rows that do not exist, too

    def make(self, like: Tensor) -> Tuple[Tensor, int]:
        """A new one, no view of another: callers may write into it as they like. Its address, which
        a tensor of no rows does not tell."""
        if self.elements == math.prod(self.shape):
            tensor = like.new_empty_strided(self.shape, self.stride)
            return tensor, tensor.data_ptr()
        memory = like.new_empty(self.elements)
        tensor = like.new_empty(0)
        tensor.set_(memory.untyped_storage(), 0, self.shape, self.stride)
        return tensor, memory.data_ptr()


def _outputs(layout: Layout, rank: int, dim: int, others: Tuple[int, ...]) -> List[Output]:
    rows = layout.rows
    if layout.operator == "matmul_reduce_scatter":
        full, existing = rows.block * rows.beside, rows.of(rank)
    else:
        full, existing = rows.full, rows.total
    if layout.operator == "matmul_all_reduce":
        full = full if existing >= rows.ranks else existing
        existing //= math.prod(others)
    columns = [weight.columns for weight in layout.weights]
    columns += [layout.depth] if layout.returns_gathered else []
    return [_output(existing, others, dim, full, width) for width in columns]


def _output(rows: int, others: Tuple[int, ...], dim: int, full: int, columns: int) -> Output:
    shape, stride = list(others) + [columns], [1] * (len(others) + 1)
    for axis in reversed(range(len(others))):
        stride[axis] = stride[axis + 1] * shape[axis + 1]
    shape.insert(dim, rows)
    stride.insert(dim, math.prod(others) * columns)
    return Output(tuple(shape), tuple(stride), full * columns)


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
    measured = [(layout.distance(other), schedule) for other, schedule in job.choices.items()
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
    usages = []
    for job in all_jobs():
        with job.lock:
            usages.append(job.job.usage())
    return Memory(sum(each.bytes for each in usages), sum(each.operations for each in usages),
                  _bound)


def _keep_within_bound(job: GroupJob, newest: Prepared) -> None:
    """All ranks let the same ones go, because they call alike, and count what the rank holds that
    holds most."""
    while _bound and job.job.usage().most > _bound:
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
        with job.lock:
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


def use(job: GroupJob, prepared: Prepared) -> None:
    """Counts a call."""
    global _clock
    if not prepared.is_in_a_graph and _is_captured(job):
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
    job.choices[layout] = prepared.schedule
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
    outputs: List[Output]


def _describe(operator: str, job: GroupJob, A: Tensor, Bs: Sequence[Tensor], biases: Biases,
              activation: str, dim: int, rows: int, returns_gathered: bool = False) -> Call:
    dtype, ranks = _dtype_of([A, *Bs, *biases]), job.ranks
    if A.device != job.device:
        raise InputError(f"expected tensors on {job.device}, got {A.device}")
    others = tuple(A.shape[:dim]) + tuple(A.shape[dim + 1:-1])
    beside = 1
    for extent in others:
        beside *= extent
    weights = tuple(_weight(A, B, bias) for B, bias in zip(Bs, biases))
    if operator == "matmul_all_reduce":  # nobody's rows are apart
        rows, beside = rows * beside, 1
    layout = Layout(operator, dtype, Rows(rows, beside, ranks), int(A.shape[-1]), weights,
                    activation, returns_gathered)
    return Call(layout, dim, _outputs(layout, job.rank, dim, others))


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


Site = Tuple[object, ...]  # all that decides what a call is, as it is given


def _run(job: GroupJob, site: Site, describe: Callable[[], Call], A: Tensor, Bs: Sequence[Tensor],
         biases: Biases) -> List[Tensor]:
    """The outputs. What was found for a site is kept, since describing takes longer than a run."""
    if job.error is not None:
        raise job.error
    known = job.sites.get(site)
    if known is None:
        call = describe()
        known = find(job, call.layout), call
        job.sites[site] = known
    prepared, call = known
    use(job, prepared)
    made = [output.make(A) for output in call.outputs]
    prepared.run(job, _laid_out(prepared, call, A, Bs, biases), [address for _, address in made])
    return [output for output, _ in made]


def describe_gather(job: GroupJob, A: Tensor, Bs: Sequence[Tensor], biases: Biases,
                    activation: str, gather_dim: int, rows: int, returns_gathered: bool) -> Call:
    dim = _dimension(A, gather_dim, "gather_dim")
    if rows < -1:
        raise InputError(f"expected rows of 0 or more, got {rows}")
    count = A.shape[dim] * job.ranks if rows < 0 else rows
    call = _describe("all_gather_matmul", job, A, Bs, biases, activation, dim, count,
                     returns_gathered)
    mine = call.layout.rows.of(job.rank)
    if A.shape[dim] != mine:
        raise InputError(f"expected {mine} of {rows} rows on rank {job.rank} of {job.ranks}, as "
                         f"torch.chunk splits them, got {A.shape[dim]}")
    return call


def describe_reduce(job: GroupJob, operator: str, A: Tensor, B: Tensor, bias: Optional[Tensor],
                    activation: str, scatter_dim: int) -> Call:
    dim = _dimension(A, scatter_dim, "scatter_dim")
    return _describe(operator, job, A, [B], [bias], activation, dim, int(A.shape[dim]))


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
        site += (B.shape, B.dtype, B.stride(), B.get_device())
    for bias in given:
        site += (bias.shape, bias.dtype, bias.get_device())
    job = job_of(group_name, A)
    with job.lock:
        return _run(job, site, lambda: describe_gather(job, A, Bs, biases, activation, gather_dim,
                                                       rows, return_A), A, Bs, biases)


def _reduce(operator: str, A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str, dim: int,
            group_name: str) -> Tensor:
    site = (operator, A.shape, A.dtype, dim, activation, B.shape, B.dtype, B.stride(),
            B.get_device(), None if bias is None else (bias.shape, bias.dtype, bias.get_device()))
    job = job_of(group_name, A)
    with job.lock:
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
