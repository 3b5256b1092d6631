"""Models that nobody touched: what PyTorch's async tensor parallelism calls is Braid's to run.

Inductor's pass `_micro_pipeline_tp` turns a collective beside a GEMM into one of the operators
`symm_mem::fused_*`. enable() turns the pass on and puts kernels of Braid's in their place.
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import torch
from torch.distributed import _symmetric_memory

from braid._errors import UnsupportedError
from braid.torch import _operations
from braid.torch._group import job_of, resolve
from braid.torch._report import pass_on

Tensor = torch.Tensor
symm_mem: Any = _symmetric_memory
torch_library: Any = torch.library

def _refuse(A: Tensor, Bs: List[Tensor], dim: int, group_name: str) -> str:
    """Why Braid has no such operator; "" if it has. All ranks say the same."""
    if dim in (A.dim() - 1, -1):
        return "the last dimension is gathered or scattered"
    for tensor in (A, *Bs):
        if tensor.dtype not in _operations.DTYPES:
            return f"elements are {tensor.dtype}"
    if len({tensor.dtype for tensor in (A, *Bs)}) > 1:
        return "element types differ"
    if any(tensor.numel() == 0 for tensor in (A, *Bs)):
        return "a tensor has no elements"
    try:
        job_of(group_name, A)
    except UnsupportedError as error:
        return str(error)
    return ""


def _all_gather_matmul(A: Tensor, Bs: List[Tensor], gather_dim: int, group_name: str, *,
                       return_A: bool = True) -> Tuple[Optional[Tensor], List[Tensor]]:
    reason = _refuse(A, Bs, gather_dim, group_name)
    if reason:
        pass_on("fused_all_gather_matmul", reason)
        theirs = (symm_mem._fused_all_gather_matmul if A.is_cuda
                  else symm_mem._fused_all_gather_matmul_fallback)
        both: Tuple[Optional[Tensor], List[Tensor]] = theirs(A, Bs, gather_dim, group_name,
                                                             return_A=return_A)
        return both
    outputs = _operations.all_gather_matmul(A, Bs, [], 0, "", gather_dim, -1, return_A, group_name)
    return outputs[-1] if return_A else None, outputs[:len(Bs)]


def _matmul_reduce_scatter(A: Tensor, B: Tensor, reduce_op: str, scatter_dim: int,
                           group_name: str) -> Tensor:
    reason = _refuse(A, [B], scatter_dim, group_name)
    if reason:
        pass_on("fused_matmul_reduce_scatter", reason)
        theirs = (symm_mem._fused_matmul_reduce_scatter if A.is_cuda
                  else symm_mem._fused_matmul_reduce_scatter_fallback)
        mine: Tensor = theirs(A, B, reduce_op, scatter_dim, group_name)
        return mine
    output = _operations.matmul_reduce_scatter(A, B, None, "", reduce_op, scatter_dim, group_name)
    return output.contiguous()  # as PyTorch's own has it


def _counted(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*arguments: Any, **options: Any) -> Any:
        pass_on(name, "elements are scaled fp8")
        return theirs(*arguments, **options)
    return kernel


_KERNELS: List[Tuple[str, Callable[..., Any], Tuple[str, ...]]] = [
    ("fused_all_gather_matmul", _all_gather_matmul, ("CPU", "CUDA")),
    ("fused_matmul_reduce_scatter", _matmul_reduce_scatter, ("CPU", "CUDA")),
    ("fused_all_gather_scaled_matmul",
     _counted("fused_all_gather_scaled_matmul", symm_mem._fused_all_gather_scaled_matmul),
     ("CUDA",)),
    ("fused_scaled_matmul_reduce_scatter",
     _counted("fused_scaled_matmul_reduce_scatter", symm_mem._fused_scaled_matmul_reduce_scatter),
     ("CUDA",)),
]


def _is_group(group_name: str) -> bool:
    """In place of PyTorch's question whether it has symmetric memory for a group."""
    try:
        resolve(group_name)
    except (RuntimeError, ValueError):
        return False
    return True


class _Takeover:
    """What enable() has changed, for disable() to put back."""

    def __init__(self) -> None:
        import torch._inductor.config as inductor  # and the pass: they take seconds
        from braid.torch._apart import behind
        self._inductor = inductor
        self._library = torch_library.Library("symm_mem", "IMPL")
        for name, kernel, devices in _KERNELS:
            for device in devices:
                self._library.impl(name, kernel, device, allow_override=True)
        self._asked = symm_mem.is_symm_mem_enabled_for_group
        symm_mem.is_symm_mem_enabled_for_group = _is_group
        self._was_on, inductor._micro_pipeline_tp = inductor._micro_pipeline_tp, True
        self._passes = inductor.post_grad_custom_post_pass
        self._mine = inductor.post_grad_custom_post_pass = behind(self._passes)

    def undo(self) -> None:
        """What somebody has set since is theirs."""
        self._library._destroy()
        _leave_fallbacks()
        if symm_mem.is_symm_mem_enabled_for_group is _is_group:
            symm_mem.is_symm_mem_enabled_for_group = self._asked
        inductor = self._inductor
        inductor._micro_pipeline_tp = self._was_on and inductor._micro_pipeline_tp
        if inductor.post_grad_custom_post_pass is self._mine:
            inductor.post_grad_custom_post_pass = self._passes


_fallbacks: Any = None


def _leave_fallbacks() -> None:
    """Compiled graphs go on calling the operators, for which PyTorch has no kernels on CPUs."""
    global _fallbacks
    if _fallbacks is None:
        _fallbacks = torch_library.Library("symm_mem", "IMPL")
        for name in ("fused_all_gather_matmul", "fused_matmul_reduce_scatter"):
            _fallbacks.impl(name, getattr(symm_mem, f"_{name}_fallback"), "CPU",
                            allow_override=True)


_takeover: Optional[_Takeover] = None


def enable() -> None:
    """From now on `symm_mem::fused_all_gather_matmul` and `fused_matmul_reduce_scatter` run Braid's
    operators, and what is compiled has them: Inductor's async tensor parallelism is on, for any
    group whose ranks are on one host. May be called again.

    What was compiled before stays as it is. Graphs that a cache on disk has are compiled anew, so
    that report() knows of all that stayed apart. Calls that Braid has no operator for, scaled ones
    among them, are PyTorch's as before, and are listed.
    """
    global _takeover
    if _takeover is None:
        _takeover = _Takeover()


def disable() -> None:
    """Gives back to PyTorch what enable() took. Compiled graphs call PyTorch's kernels again."""
    global _takeover
    if _takeover is not None:
        _takeover.undo()
        _takeover = None
