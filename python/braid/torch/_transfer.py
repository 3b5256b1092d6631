"""Transfers without a GEMM, which run while the GPU computes GEMMs that do not depend on them."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, NamedTuple, Sequence, Tuple

import torch

from braid.torch._group import GroupJob, job_of
from braid.torch._layout import Rows
from braid.torch._operations import DTYPES
from braid.torch._prepared import find

Tensor = torch.Tensor
torch_cuda: Any = torch.cuda


class Transfer(NamedTuple):
    """A gather or a reduce-scatter of the rows of each sequence, without a GEMM. Fills the place of
    a Layout."""

    operator: str  # all_gather or reduce_scatter
    dtype: str
    rows: Rows
    columns: int
    sequences: int

    @property
    def shape(self) -> str:
        return f"{self.dtype} {self.sequences * self.rows.total}x{self.columns}"

    def schedule(self, on_gpu: bool) -> str:
        """Returns how the program is run. Copy engines leave the multiprocessors to the GEMMs."""
        return "copies=engine;signals=memory;launch=graph" if on_gpu else ""

    def fusion(self) -> str:
        """Returns a program, because no fusion describes a reduce-scatter without a GEMM."""
        D, gathers = self.rows.ranks, self.operator == "all_gather"
        part = f"{self.dtype}[{self.rows.block}, {self.columns}]"
        whole = part.replace("[", f"[{D}, ")
        given, result = (part, whole) if gathers else (whole, part)
        before: List[str] = []
        copies = ["%main = get_current_stream", "set_current_stream stream(0)",
                  "synchronize %main"]  # no transfer waits for these: a GEMM may delay them
        posts: List[str] = []
        sums: List[str] = []
        for p in range(self.sequences):
            if gathers:  # each rank fetches the other ranks' parts
                before += [f"%mine_{p} = allocate symmetric {part}",
                           f"%h_{p} = share_mem_handles get %mine_{p}", f"set %mine_{p}, %A_{p}"]
                copies += [f"%own_{p} = select %Y_{p}[rank]", f"set %own_{p}, %A_{p}"]
            else:  # each rank sends its partial results to their owners, which add them
                before += [f"%parts_{p} = allocate symmetric {whole}",
                           f"%h_{p} = share_mem_handles put %parts_{p}"]
                copies += [f"%own_{p} = select %A_{p}[rank]",
                           f"%mine_{p} = select %parts_{p}[rank]", f"set %mine_{p}, %own_{p}"]
                sums.append(f"sum %Y_{p}, %parts_{p}")
            for i in range(1, D):
                ahead, behind = f"(rank + {i}) mod {D}", f"(rank - {i}) mod {D}"
                sent = f"%mine_{p}" if gathers else f"%sent_{p}_{i}"
                if not gathers:
                    before.append(f"{sent} = select %A_{p}[{ahead}]")
                before.append(
                    f"%other_{p}_{i} = select {'%Y' if gathers else '%parts'}_{p}[{behind}]")
                posts += [f"%s_{p}_{i} = p2p send {sent} to {ahead} via %h_{p}",
                          f"%r_{p}_{i} = p2p recv %other_{p}_{i} from {behind} via %h_{p}"]
        names = [f"{p}_{i}" for p in range(self.sequences) for i in range(1, D)]
        lines = [*before, *copies, "set_current_stream %main", "group {", *posts, "}",
                 *(f"wait %r_{name}" for name in names), "synchronize stream(0)", *sums,
                 *(f"wait %s_{name}" for name in names)]
        inputs, outputs = (", ".join(f"%{letter}_{p}: {shape}" for p in range(self.sequences))
                           for letter, shape in (("A", given), ("Y", result)))
        return (f"program @{self.operator} mesh [0 .. {D})\n    ({inputs}) -> ({outputs}) {{\n"
                + "".join(f"  {line}\n" for line in lines) + "}\n")


ALL_REDUCE = ["reduce_scatter", "all_gather"]  # the rows must divide evenly among the ranks

# The work that hides a transfer, in multiplications and additions. A link of 370 GB/s transfers a
# byte while an H200 performs about 1,600 operations of a 16-bit GEMM. Signals, and kernels that
# wait for GEMMs to leave a multiprocessor, take about as long again, and at least 25 us.
_OPERATIONS_PER_BYTE = 3200
_LEAST_OPERATIONS = 17e9
devices = {"cuda"}  # the types of devices whose transfers run beside GEMMs


def operations_to_hide(size: int) -> float:
    """Returns the multiplications and additions of the GEMMs that hide a transfer by which each
    rank receives `size` bytes."""
    return size * _OPERATIONS_PER_BYTE + _LEAST_OPERATIONS


def is_hidden(operators: Sequence[str], whole: Sequence[int], like: Tensor, ranks: int,
              operations: int) -> bool:
    """Returns True if transfers, by one operator after another, should run beside GEMMs of so many
    multiplications and additions. whole: [rows, columns], before a scatter or after a gather."""
    rows, columns = whole
    received = len(operators) * (ranks - 1) * rows // ranks * columns * like.element_size()
    return (like.device.type in devices and rows % ranks == 0 and received > 0
            and operations >= operations_to_hide(received))


def beside(operators: Sequence[str], A: Tensor, group_name: str, Cs: Sequence[Tensor],
           Ds: Sequence[Tensor]) -> Tuple[Tensor, List[Tensor]]:
    """Transfers A, [rows, columns] or [sequences, rows, columns], by one operator after another,
    and computes each Cs[i] @ Ds[i], on GPUs at the same time. Returns the last operator's result,
    and the products."""
    job, tensors = job_of(group_name, A), [A.contiguous()]
    for operator in operators:
        *sequences, rows, columns = tensors[-1].shape
        rows = rows * job.ranks if operator == "all_gather" else rows // job.ranks
        tensors.append(A.new_empty([*sequences, rows, columns]))
    with job.lock, _forked(job) as second_stream:
        job.raise_error()
        with second_stream:
            for operator, source, result in zip(operators, tensors, tensors[1:]):
                whole = result if operator == "all_gather" else source
                *sequences, rows, columns = whole.shape
                transfer: Any = Transfer(operator, DTYPES[A.dtype], Rows(rows, 1, job.ranks),
                                         columns, *(sequences or [1]))
                find(job, transfer).run(job, [source], [(result, result.data_ptr())])
        return tensors[-1], [C @ D for C, D in zip(Cs, Ds)]


@contextlib.contextmanager
def _forked(job: GroupJob) -> Iterator[Any]:
    """Lets the group's second stream start after all work issued to the current stream. Yields a
    context in which GPU work is issued to the second stream. On exit, even by an exception, lets
    the current stream wait for that work, so that nothing is freed before the transfer is done."""
    if not job.on_gpu:
        yield contextlib.nullcontext()
        return
    if job.side is None:  # its kernels start before waiting GEMMs
        job.side = torch_cuda.Stream(job.device, priority=-1)
    current = torch.cuda.current_stream(job.device)
    job.side.wait_stream(current)
    try:
        yield torch.cuda.stream(job.side)
    finally:
        current.wait_stream(job.side)
