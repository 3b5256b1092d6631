"""Transfers without a GEMM, which run while the GPU computes GEMMs that do not depend on them."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from braid.torch._group import job_of
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
        D, each = self.rows.ranks, _gather if self.operator == "all_gather" else _reduce_scatter
        part = f"{self.dtype}[{self.rows.block}, {self.columns}]"
        whole = part.replace("[", f"[{D}, ")
        given, result = (part, whole) if each is _gather else (whole, part)
        before: List[str] = []
        posts: List[str] = []
        after: List[str] = []
        for p in range(self.sequences):
            each(p, D, part, before, posts, after)
        names = [f"{p}_{i}" for p in range(self.sequences) for i in range(1, D)]
        lines = [*before, "group {", *posts, "}", *(f"wait %r_{name}" for name in names), *after,
                 *(f"wait %s_{name}" for name in names)]
        inputs, outputs = (", ".join(f"%{letter}_{p}: {shape}" for p in range(self.sequences))
                           for letter, shape in (("A", given), ("Y", result)))
        return (f"program @{self.operator} mesh [0 .. {D})\n    ({inputs}) -> ({outputs}) {{\n"
                + "".join(f"  {line}\n" for line in lines) + "}\n")


def _post(p: int, i: int, D: int, sent: str, received: str) -> List[str]:
    """Returns the lines that send to the rank `i` ahead and receive from the rank `i` behind."""
    return [f"  %s_{p}_{i} = p2p send {sent} to (rank + {i}) mod {D} via %h_{p}",
            f"  %r_{p}_{i} = p2p recv {received} from (rank - {i}) mod {D} via %h_{p}"]


def _gather(p: int, D: int, part: str, before: List[str], posts: List[str],
            after: List[str]) -> None:
    """Adds the lines that gather the sequence `p`: each rank fetches the other ranks' parts."""
    before += [f"%mine_{p} = allocate symmetric {part}",
               f"%h_{p} = share_mem_handles get %mine_{p}", f"set %mine_{p}, %A_{p}",
               f"%own_{p} = select %Y_{p}[rank]", f"set %own_{p}, %A_{p}"]
    for i in range(1, D):
        before.append(f"%other_{p}_{i} = select %Y_{p}[(rank - {i}) mod {D}]")
        posts += _post(p, i, D, f"%mine_{p}", f"%other_{p}_{i}")


def _reduce_scatter(p: int, D: int, part: str, before: List[str], posts: List[str],
                    after: List[str]) -> None:
    """Adds the lines that reduce the sequence `p`: each rank sends its partial results to their
    owners' memory, and then adds the partial results for its own rows."""
    before += [f"%others_{p} = allocate symmetric {part.replace('[', f'[{D - 1}, ')}",
               f"%h_{p} = share_mem_handles put %others_{p}", f"%own_{p} = select %A_{p}[rank]"]
    total = f"%own_{p}"
    for i in range(1, D):
        before += [f"%sent_{p}_{i} = select %A_{p}[(rank + {i}) mod {D}]",
                   f"%other_{p}_{i} = select %others_{p}[{i - 1}]"]
        posts += _post(p, i, D, f"%sent_{p}_{i}", f"%other_{p}_{i}")
        total = f"add({total}, %other_{p}_{i})"
    after.append(f"pointwise %Y_{p}, {total}")


ALL_REDUCE = ["reduce_scatter", "all_gather"]  # the rows must divide evenly among the ranks


def beside(operators: Sequence[str], A: Tensor, group_name: str, Cs: Sequence[Tensor],
           Ds: Sequence[Tensor]) -> Tuple[Tensor, List[Tensor]]:
    """Transfers A, [rows, columns] or [sequences, rows, columns], by one operator after another,
    and computes each Cs[i] @ Ds[i], on GPUs at the same time. Returns the last operator's result,
    and the products."""
    job, tensors, runs = job_of(group_name, A), [A.contiguous()], []
    with job.lock:
        job.raise_error()
        for operator in operators:
            *sequences, rows, columns = tensors[-1].shape
            total = rows * job.ranks if operator == "all_gather" else rows
            transfer: Any = Transfer(operator, DTYPES[A.dtype], Rows(total, 1, job.ranks), columns,
                                     *(sequences or [1]))
            runs.append(find(job, transfer))
            received = total if operator == "all_gather" else total // job.ranks
            tensors.append(A.new_empty([*sequences, received, columns]))
        with _Forked(A.device) as forked:
            for prepared, source, result in zip(runs, tensors, tensors[1:]):
                prepared.run(job, [source], [(result, result.data_ptr())])
    try:
        return tensors[-1], [C @ D for C, D in zip(Cs, Ds)]
    finally:  # even if a product fails: nothing may be freed before the transfer is done
        forked.join()


class _Forked:
    """A context in which GPU work is issued to a second stream, after all work issued to the
    current stream so far. join() lets the current stream wait for that work."""

    _context: Any
    _streams: Dict[torch.device, Any] = {}

    def __init__(self, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None

    def __enter__(self) -> "_Forked":
        if self._device is None:
            return self
        if self._device not in self._streams:  # its kernels start before waiting GEMMs
            self._streams[self._device] = torch_cuda.Stream(self._device, priority=-1)
        self._side = self._streams[self._device]
        self._current = torch.cuda.current_stream(self._device)
        self._side.wait_stream(self._current)
        self._context = torch.cuda.stream(self._side)
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._device is not None:
            self._context.__exit__(*error)

    def join(self) -> None:
        if self._device is not None:
            self._current.wait_stream(self._side)
