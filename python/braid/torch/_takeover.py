"""Lets Braid run what PyTorch's async tensor parallelism finds in unchanged models.

Inductor's pass `_micro_pipeline_tp` replaces a collective beside a GEMM by one of the operators
`symm_mem::fused_*`. enable() turns the pass on where Braid has an operator, and inserts
`braid::fused_*` instead. These run Braid's operators while enabled, and otherwise the collective
and the GEMM.
"""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

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
    """Returns True if PyTorch, without Braid, would run its fused operators for a group."""
    if _takeover is not None:
        return _takeover.was_on and bool(_takeover.asked(group_name))
    inductor = sys.modules["torch._inductor.config"]
    return (bool(getattr(inductor, "_micro_pipeline_tp")) and
            bool(symm_mem.is_symm_mem_enabled_for_group(group_name)))


def _otherwise(is_ours: bool, name: str, A: Tensor, group_name: str) -> Callable[..., Any]:
    """Returns the function that runs instead of Braid's operator, as without Braid."""
    has_theirs = A.is_cuda and (not is_ours or pytorch_fuses(group_name))
    found: Callable[..., Any] = getattr(symm_mem, f"_{name}" if has_theirs else f"_{name}_fallback")
    return found


def _is_passed_on(name: str, tensors: Sequence[Tensor], dim: int, reduce_op: str,
                  group_name: str) -> bool:
    """Returns True if Braid has no such operator, or is disabled. Equal on all ranks. Counts the
    calls that PyTorch executes while Braid is enabled."""
    if _takeover is None:
        return True
    reason = _operations.why_not(tensors, dim, reduce_op)
    try:
        if not reason:
            job_of(group_name, tensors[0])
    except UnsupportedError as error:
        reason = str(error)
    if reason:
        pass_on(name, reason)
    return reason != ""


def _all_gather_matmul(is_ours: bool, A: Tensor, Bs: List[Tensor], gather_dim: int,
                       group_name: str, *,
                       return_A: bool = True) -> Tuple[Optional[Tensor], List[Tensor]]:
    name = "fused_all_gather_matmul"
    if _is_passed_on(name, [A, *Bs], gather_dim, "sum", group_name):
        both: Tuple[Optional[Tensor], List[Tensor]] = _otherwise(is_ours, name, A, group_name)(
            A, Bs, gather_dim, group_name, return_A=return_A)
        return both
    outputs = _operations.all_gather_matmul(A, Bs, [], 0, "", gather_dim, -1, return_A, group_name)
    return outputs[-1] if return_A else None, outputs[:len(Bs)]


def _matmul_reduce_scatter(is_ours: bool, A: Tensor, B: Tensor, reduce_op: str, scatter_dim: int,
                           group_name: str) -> Tensor:
    name = "fused_matmul_reduce_scatter"
    if _is_passed_on(name, [A, B], scatter_dim, reduce_op, group_name):
        mine: Tensor = _otherwise(is_ours, name, A, group_name)(A, B, reduce_op, scatter_dim,
                                                                group_name)
        return mine
    output = _operations.matmul_reduce_scatter(A, B, None, "", reduce_op, scatter_dim, group_name)
    return output.contiguous()  # like PyTorch's operator


_KERNELS: List[Tuple[str, Callable[..., Any]]] = [
    ("fused_all_gather_matmul", _all_gather_matmul),
    ("fused_matmul_reduce_scatter", _matmul_reduce_scatter)]
_DEVICES = ("CPU", "CUDA")
# Braid's operators with the same schemas, indexed by PyTorch's operators.
OURS: Dict[Any, Any] = {}


def _define() -> Any:
    """Defines our operators, which compiled graphs still call after disable()."""
    library = torch_library.Library("braid", "FRAGMENT")
    for name, kernel in _KERNELS:
        theirs = getattr(torch.ops.symm_mem, name).default
        library.define(str(theirs._schema).partition("::")[2],
                       tags=(torch.Tag.needs_fixed_stride_order,))
        library.impl(name, getattr(symm_mem, f"_{name}_fallback"), "Meta")
        for device in _DEVICES:
            library.impl(name, functools.partial(kernel, True), device)
        OURS[theirs] = getattr(torch.ops.braid, name).default
    return library


_library = _define()


def _is_group(group_name: str) -> bool:
    """Replaces PyTorch's query whether a group has symmetric memory."""
    try:
        resolve(group_name)
    except (RuntimeError, ValueError):
        return False
    return True


class _Takeover:
    """The changes of enable(), which disable() undoes."""

    def __init__(self) -> None:
        from torch._inductor import config  # imported here, since they take seconds
        from braid.torch._apart import Gates, behind
        inductor: Any = config
        self._inductor = inductor
        self._library = torch_library.Library("symm_mem", "IMPL")
        for name, kernel in _KERNELS:
            for device in _DEVICES:
                self._library.impl(name, functools.partial(kernel, False), device,
                                   allow_override=True)
        self.asked = symm_mem.is_symm_mem_enabled_for_group
        symm_mem.is_symm_mem_enabled_for_group = _is_group
        self._gates = Gates()
        self.was_on, inductor._micro_pipeline_tp = inductor._micro_pipeline_tp, True
        self._passes = inductor.post_grad_custom_post_pass
        self._mine = inductor.post_grad_custom_post_pass = behind(self._passes)

    def undo(self) -> None:
        """Undoes the changes, except settings that the user has changed since."""
        self._library._destroy()
        self._gates.undo()
        if symm_mem.is_symm_mem_enabled_for_group is _is_group:
            symm_mem.is_symm_mem_enabled_for_group = self.asked
        inductor = self._inductor
        inductor._micro_pipeline_tp = self.was_on and inductor._micro_pipeline_tp
        if inductor.post_grad_custom_post_pass is self._mine:
            inductor.post_grad_custom_post_pass = self._passes


_takeover: Optional[_Takeover] = None


def enable() -> None:
    """Makes `symm_mem::fused_all_gather_matmul` and `fused_matmul_reduce_scatter` run Braid's
    operators, and turns on Inductor's async tensor parallelism for all groups whose ranks are on
    one host: newly compiled code calls the operators as `braid::fused_*`. May be called again.

    Code that was compiled before does not change. Graphs in the cache on disk are compiled again,
    so that report() lists every collective that was not replaced. A collective that Braid does not
    support, such as one beside a scaled GEMM, is compiled as without Braid, and listed. If this is
    known only at run time, as for ranks on several hosts, the plain collective and GEMM run, and
    are counted.
    """
    global _takeover
    if _takeover is None:
        _takeover = _Takeover()


def disable() -> None:
    """Undoes enable(). Compiled graphs continue to work, by collectives and GEMMs, or by PyTorch's
    fused operators if its async tensor parallelism is also on without Braid."""
    global _takeover
    if _takeover is not None:
        _takeover.undo()
        _takeover = None
