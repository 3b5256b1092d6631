"""Runs Braid's operators in PyTorch's async tensor parallelism, without changes to the model.

Inductor's pass `_micro_pipeline_tp` replaces a collective and an adjacent GEMM with an operator
`symm_mem::fused_*`. enable() turns on this pass for operations that Braid supports, and makes the
pass insert operators `braid::fused_*` instead. While Braid is enabled, these operators run Braid's
kernels; otherwise, they run the collective and the GEMM separately.
"""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.distributed import _symmetric_memory

from braid._errors import UnsupportedError
from braid.torch import _operations
from braid.torch._group import job_of, resolve
from braid.torch._report import pass_on

Tensor = torch.Tensor
symm_mem: Any = _symmetric_memory
torch_library: Any = torch.library


def pytorch_fuses(group_name: str) -> bool:
    """Returns True if, without Braid, PyTorch would run its fused operators for this group."""
    if _takeover is not None:
        return _takeover.was_on and bool(_takeover.asked(group_name))
    inductor = sys.modules["torch._inductor.config"]
    return (bool(getattr(inductor, "_micro_pipeline_tp")) and
            bool(symm_mem.is_symm_mem_enabled_for_group(group_name)))


def _otherwise(is_ours: bool, name: str, A: Tensor, group_name: str) -> Callable[..., Any]:
    """Returns the PyTorch function to run instead of Braid's operator."""
    has_theirs = A.is_cuda and (not is_ours or pytorch_fuses(group_name))
    found: Callable[..., Any] = getattr(symm_mem, f"_{name}" if has_theirs else f"_{name}_fallback")
    return found


def _run(is_ours: bool, name: str, *arguments: Any, **options: Any) -> Any:
    """Runs the operator `name` with the arguments of PyTorch's operator. PyTorch executes the call
    if Braid is disabled or does not support the call, which is the same on all ranks."""
    A, Bs, *reduce_op, dim, group_name = arguments
    if _takeover is not None:
        tensors = [A, *Bs] if isinstance(Bs, (list, tuple)) else [A, Bs]
        reason = _operations.why_not(tensors, dim, *reduce_op)
        try:
            if not reason:
                job_of(group_name, A)
        except UnsupportedError as error:
            reason = str(error)
        if not reason:
            return _KERNELS[name](*arguments, **options)
        pass_on(name, reason)
    return _otherwise(is_ours, name, A, group_name)(*arguments, **options)


def _all_gather_matmul(A: Tensor, Bs: List[Tensor], gather_dim: int, group_name: str, *,
                       return_A: bool = True) -> Tuple[Optional[Tensor], List[Tensor]]:
    outputs = _operations.all_gather_matmul(A, Bs, [], 0, "", gather_dim, -1, return_A, group_name)
    return outputs[-1] if return_A else None, outputs[:len(Bs)]


def _matmul_reduce_scatter(A: Tensor, B: Tensor, reduce_op: str, scatter_dim: int,
                           group_name: str) -> Tensor:
    output = _operations.matmul_reduce_scatter(A, B, None, "", reduce_op, scatter_dim, group_name)
    return output.contiguous()  # like PyTorch's operator


_KERNELS: Dict[str, Callable[..., Any]] = {
    "fused_all_gather_matmul": _all_gather_matmul,
    "fused_matmul_reduce_scatter": _matmul_reduce_scatter}
_DEVICES = ("CPU", "CUDA")
# Maps PyTorch's operators to Braid's, which have the same schemas.
OURS: Dict[Any, Any] = {}


def _define() -> Any:
    """Defines Braid's operators, which compiled graphs call even after disable()."""
    library = torch_library.Library("braid", "FRAGMENT")
    for name in _KERNELS:
        theirs = getattr(torch.ops.symm_mem, name).default
        library.define(str(theirs._schema).partition("::")[2],
                       tags=(torch.Tag.needs_fixed_stride_order,))
        library.impl(name, getattr(symm_mem, f"_{name}_fallback"), "Meta")
        for device in _DEVICES:
            library.impl(name, functools.partial(_run, True, name), device)
        OURS[theirs] = getattr(torch.ops.braid, name).default
    return library


_library = _define()


def _is_group(group_name: str) -> bool:
    """Replaces PyTorch's is_symm_mem_enabled_for_group(). Returns True if the group exists."""
    try:
        resolve(group_name)
    except (RuntimeError, ValueError):
        return False
    return True


class _Takeover:
    """The changes to PyTorch that enable() makes and disable() undoes."""

    def __init__(self) -> None:
        from torch._inductor import config  # imported here, because importing takes seconds
        from braid.torch import _apart
        self._library = torch_library.Library("symm_mem", "IMPL")
        for name in _KERNELS:
            for device in _DEVICES:
                self._library.impl(name, functools.partial(_run, False, name), device,
                                   allow_override=True)
        inductor: Any = config
        self.was_on = inductor._micro_pipeline_tp
        self.asked = symm_mem.is_symm_mem_enabled_for_group
        self._changes: List[Tuple[Any, str, Any, Any]] = []
        self._change(inductor, "_micro_pipeline_tp", True)
        self._change(inductor, "post_grad_custom_post_pass",
                     _apart.behind(inductor.post_grad_custom_post_pass))
        self._change(symm_mem, "is_symm_mem_enabled_for_group", _is_group)
        for name, gate in _apart.gates().items():
            self._change(_apart.theirs, name, gate)

    def _change(self, owner: Any, name: str, value: Any) -> None:
        self._changes.append((owner, name, getattr(owner, name), value))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Undoes the changes, except for settings that the user has changed in the meantime."""
        self._library._destroy()
        for owner, name, before, value in self._changes:
            if getattr(owner, name) is value:
                setattr(owner, name, before)


_takeover: Optional[_Takeover] = None


def enable() -> None:
    """Replaces PyTorch's fused operators with Braid's in code that torch.compile compiles later.

    Turns on Inductor's async tensor parallelism for all groups whose ranks are on one host. Newly
    compiled code calls Braid's operators as `braid::fused_*`. `symm_mem::fused_all_gather_matmul`
    and `symm_mem::fused_matmul_reduce_scatter` also run Braid's operators. Idempotent.

    Code that was compiled earlier does not change. Graphs in Inductor's disk cache are recompiled,
    so that report() lists every collective that was not replaced. A collective that Braid does not
    support, such as one next to a scaled GEMM, is compiled as if Braid were disabled, and listed by
    report(). If a call turns out to be unsupported at run time, for example because the ranks span
    hosts, the collective and the GEMM run separately, and report() counts the call.
    """
    global _takeover
    if _takeover is None:
        _takeover = _Takeover()


def disable() -> None:
    """Undoes enable(). Compiled graphs still work, but run collectives and GEMMs separately, or run
    PyTorch's fused operators if PyTorch's async tensor parallelism is on without Braid."""
    global _takeover
    if _takeover is not None:
        _takeover.undo()
        _takeover = None
