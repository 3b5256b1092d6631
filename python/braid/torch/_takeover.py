"""Runs Braid's operators in models that torch.compile compiles, without changes to the models.

enable() adds a pass to Inductor that replaces collectives next to GEMMs, and runs Braid's kernels
in PyTorch's fused operators `symm_mem::fused_all_gather_matmul` and
`symm_mem::fused_matmul_reduce_scatter`, which other passes insert.
"""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.distributed import _symmetric_memory

from braid.torch import _fused, _operations
from braid.torch._functions import is_shard

Tensor = torch.Tensor
symm_mem: Any = _symmetric_memory
torch_library: Any = torch.library


def _run(name: str, *arguments: Any, **options: Any) -> Any:
    """Runs PyTorch's operator `name`. PyTorch executes the calls that Braid does not support, which
    are the same on all ranks."""
    A, Bs, *reduce_op, dim, group_name = arguments
    tensors = [A, *Bs] if isinstance(Bs, (list, tuple)) else [A, Bs]
    if not _fused.reason_of(name, tensors, dim, group_name, *reduce_op):
        return _KERNELS[name](*arguments, **options)
    theirs = getattr(symm_mem, f"_{name}" if A.is_cuda else f"_{name}_fallback")
    return theirs(*arguments, **options)


def _all_gather_matmul(A: Tensor, Bs: List[Tensor], gather_dim: int, group_name: str, *,
                       return_A: bool = True) -> Tuple[Optional[Tensor], List[Tensor]]:
    outputs = _operations.all_gather_matmul(A, Bs, [], 0, "", gather_dim, -1, return_A, False,
                                            group_name)
    return outputs[-1] if return_A else None, outputs[:len(Bs)]


def _matmul_reduce_scatter(A: Tensor, B: Tensor, reduce_op: str, scatter_dim: int,
                           group_name: str) -> Tensor:
    return _operations.matmul_reduce_scatter(A, B, None, "", reduce_op, scatter_dim, group_name)


_KERNELS: Dict[str, Callable[..., Any]] = {
    "fused_all_gather_matmul": _all_gather_matmul,
    "fused_matmul_reduce_scatter": _matmul_reduce_scatter}


class _Takeover:
    """The changes to PyTorch that enable() makes and disable() undoes."""

    def __init__(self, keeps_shards: bool) -> None:
        from torch._inductor import config  # imported here, because importing takes seconds
        from braid.torch import _pass
        self.keeps_shards = keeps_shards
        self._library = torch_library.Library("symm_mem", "IMPL")
        for name in _KERNELS:
            for device in ("CPU", "CUDA"):
                self._library.impl(name, functools.partial(_run, name), device,
                                   allow_override=True)
        self._config: Any = config
        self._passes: Dict[str, Tuple[Any, Any]] = {}  # those before, and those now, by setting
        kinds: Dict[str, Any] = {"post_grad_custom_post_pass": _pass.Pass}
        if keeps_shards:
            kinds["joint_custom_pre_pass"] = _pass.KeepShards
        for setting, kind in kinds.items():
            before = getattr(config, setting)
            self._passes[setting] = before, _pass.behind(before, kind)
            setattr(config, setting, self._passes[setting][1])
        _fused.is_enabled = True

    def undo(self) -> None:
        """Undoes the changes, except for a pass that the user has set in the meantime."""
        self._library._destroy()
        for setting, (before, ours) in self._passes.items():
            if getattr(self._config, setting) is ours:
                setattr(self._config, setting, before)
        _fused.is_enabled = False


_takeover: Optional[_Takeover] = None


def enable(keep: str = "gathered") -> None:
    """Replaces collectives next to GEMMs with Braid's operators in code that torch.compile compiles
    later.

    Applies to all groups whose ranks are on one host: to gathers whose result is an operand of one
    or more GEMMs, and to reduce-scatters and all-reduces of a GEMM, or of a sum of GEMMs, however
    the graph expresses the views between them. The results have the layout of the nodes that they
    replace. `symm_mem::fused_all_gather_matmul` and `symm_mem::fused_matmul_reduce_scatter`, which
    other passes insert, also run Braid's operators. Idempotent.

    keep: what compiled forward passes save of a gather next to a GEMM for the backward pass:
        "gathered", or "shard" to save memory. The backward pass then gathers again.

    Code that was compiled earlier does not change. If a call turns out to be unsupported at run
    time, for example because the ranks span hosts, the collective and the GEMM run separately, and
    report() counts the call.
    """
    global _takeover
    keeps_shards = is_shard(keep)
    if _takeover is not None and _takeover.keeps_shards != keeps_shards:
        disable()
    if _takeover is None:
        _takeover = _Takeover(keeps_shards)


def disable() -> None:
    """Undoes enable(). Compiled graphs still work, but run collectives and GEMMs separately."""
    global _takeover
    if _takeover is not None:
        _takeover.undo()
        _takeover = None
