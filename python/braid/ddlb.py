"""Braid's implementations for the DDLB benchmark (github.com/samnordmann/ddlb).

DDLB looks up implementations in the table `primitive_mappings` in its ddlb/benchmark.py. Add one
line for each of the two primitives:

    'tp_columnwise': {
        'braid': ('braid.ddlb', 'BraidTPColumnwise'),
    'tp_rowwise': {
        'braid': ('braid.ddlb', 'BraidTPRowwise'),

Install both packages. Then run this in DDLB's folder, on one host with one rank per GPU:

    mpirun -np 4 python ddlb/cli/benchmark.py --primitive tp_columnwise -m 8192 -n 8192 -k 8192 \\
        --dtype bfloat16 --impl pytorch --impl 'braid;schedule=auto,none'
    mpirun -np 4 python scripts/run_benchmark.py FILE

tp_rowwise requires FILE, which has the same format as scripts/config_tp_rowwise.json. An example of
an entry in its "implementations" is "braid": [{"schedule": ["auto", "none"]}].

Options:
    schedule: with "auto", the ranks measure schedules before the benchmark, and rank 0 prints the
        chosen schedule. With "none", they use braid.torch's default schedule without measuring.
    seconds: the time budget for the measurements of "auto".

Two options of other implementations have no equivalent. Braid has no `backend` option, because it
transfers the data itself, regardless of the process group's backend. Braid has no `order` option,
because it always gathers A during the GEMM, whereas "AG_after" gathers the result. The supported
element types are float32, float64, float16 and bfloat16.
"""
from __future__ import annotations

import datetime
from typing import Any, Callable, Dict

import torch
import torch.distributed as dist

from braid.torch import all_gather_matmul, matmul_reduce_scatter, prepare, synchronize

try:
    from ddlb.envs import get_master_addr, get_master_port  # type: ignore[import,unused-ignore]
    from ddlb.primitives.TPColumnwise import TPColumnwise  # type: ignore[import,unused-ignore]
    from ddlb.primitives.TPRowwise import TPRowwise  # type: ignore[import,unused-ignore]
except ImportError as _error:
    raise ImportError("braid.ddlb requires the package ddlb (github.com/samnordmann/ddlb), which "
                      f"could not be imported: {_error}", name="ddlb") from _error

__all__ = ["BraidTPColumnwise", "BraidTPRowwise"]

# The maximum time that a rank waits for the other ranks after validation.
_FAREWELL = datetime.timedelta(seconds=60)


class _Implementation:
    """Base class of both implementations. Subclasses must list this class before DDLB's class,
    which creates A and B."""

    DEFAULT_OPTIONS: Dict[str, Any] = {"schedule": "auto", "seconds": 2.0}
    ALLOWED_VALUES: Dict[str, Any] = {"schedule": ["auto", "none"], "seconds": (0, 600)}

    A: torch.Tensor
    B: torch.Tensor
    communicator: Any
    options: Any
    _function: Callable[..., Any]
    _store: Any = None  # None until the ranks have connected

    def __init__(self, m: int, n: int, k: int, dtype: str = "float32", seed: int = 42,
                 **options: Any) -> None:
        """Creates the inputs and the default process group, and measures schedules for "auto".

        Collective; blocks. Raises ValueError if DDLB rejects the sizes, the type or the options.
        """
        super().__init__(m, n, k, dtype, seed, **options)  # type: ignore[call-arg]
        self._store = self._meet()
        if self.options["schedule"] == "auto":
            schedule = prepare(self._function, self.A, self.B, seconds=self.options["seconds"])
            if self.communicator.rank == 0:
                print(f"braid: {type(self).__name__} of {dtype} {m} x {n} x {k} uses {schedule}",
                      flush=True)

    def _meet(self) -> Any:
        """Creates the default process group, with a store at DDLB's address. Returns the store."""
        device, rank = self.communicator.device, self.communicator.rank
        ranks = self.communicator.world_size
        store = dist.TCPStore(  # type: ignore[attr-defined,unused-ignore]
            get_master_addr(), int(get_master_port()), ranks, rank == 0)
        on_gpu = device.type == "cuda"
        dist.init_process_group("nccl" if on_gpu else "gloo", store=store, rank=rank,
                                world_size=ranks, device_id=device if on_gpu else None)
        return store

    def run(self) -> torch.Tensor:
        """Returns the result in a new tensor. On GPUs, only issues work to the current stream."""
        result: torch.Tensor = self._function(self.A, self.B)
        return result

    def validate(self, result: torch.Tensor) -> None:
        """Calls DDLB's validation, which raises AssertionError if `result` is wrong. If a run
        failed, raises the run's exception instead."""
        synchronize()
        super().validate(result)  # type: ignore[misc]

    def __del__(self) -> None:
        if self._store is None:
            return
        # Waits for the other ranks. Otherwise, DDLB's next process might still find this store, at
        # the same address, and connect to it shortly before it closes.
        ranks = range(self.communicator.world_size)
        try:
            self._store.set(f"braid/ddlb/{self.communicator.rank}", "done")
            self._store.wait([f"braid/ddlb/{rank}" for rank in ranks], _FAREWELL)
        except RuntimeError:
            pass  # the other ranks have exited, or are late
        dist.destroy_process_group()
        self.communicator.barrier()


class BraidTPColumnwise(_Implementation, TPColumnwise):  # type: ignore[misc]
    """all_gather(A) @ B. A is [m / ranks, k] on each rank. B is [k, n] and the same on all ranks.
    run() returns [m, n] on every rank."""

    _function = staticmethod(all_gather_matmul)


class BraidTPRowwise(_Implementation, TPRowwise):  # type: ignore[misc]
    """reduce_scatter(A @ B). On each rank, A is [m, k / ranks] and B is [k / ranks, n]. run()
    returns this rank's rows of the sum, [m / ranks, n]."""

    _function = staticmethod(matmul_reduce_scatter)
