"""The operators that the pass puts into compiled graphs.

While Braid is enabled, they run Braid's kernels. Otherwise, and for calls that Braid does not
support, they run the collective and the GEMMs separately. Their results are contiguous.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import torch

from braid._errors import UnsupportedError
from braid.torch import _operations, _report, _transfer
from braid.torch._group import job_of

Tensor = torch.Tensor
torch_library: Any = torch.library
_c10d: Any = torch.ops._c10d_functional

is_enabled = False  # set by enable() and disable()


def reason_of(operator: str, tensors: Sequence[Tensor], dim: int, group_name: str,
              reduce_op: str = "sum") -> str:
    """Returns why PyTorch runs a call, or "" if Braid runs it. Counts the former for the report,
    unless Braid is disabled."""
    if not is_enabled:
        return "Braid is disabled"
    reason = _operations.why_not(tensors, dim, reduce_op)
    if not reason:
        try:
            job_of(group_name, tensors[0])
        except UnsupportedError as error:
            reason = str(error)
    if reason:
        _report.passed[operator, reason] += 1
    return reason


def _gather_gemms(A: Tensor, Bs: List[Tensor], biases: List[Optional[Tensor]], return_A: bool,
                  group_name: str, ranks: int, Cs: List[Tensor], Ds: List[Tensor]) -> List[Tensor]:
    """Gathers A, [rows, K] or [sequences, rows, K], along its rows. Returns the products with each
    B, plus its bias, then the gathered A if `return_A`, and then each Cs[i] @ Ds[i], which are
    computed during the gather."""
    products: List[Tensor] = []
    if reason_of("gather_gemms", [A, *Bs], A.dim() - 2, group_name):
        parts = _c10d.all_gather_into_tensor(A.movedim(-2, 0).contiguous(), ranks, group_name)
        products = [C @ D for C, D in zip(Cs, Ds)]
        whole = _c10d.wait_tensor(parts).movedim(0, -2).contiguous()
    elif Cs:
        whole, products = _transfer.beside(["all_gather"], A, group_name, Cs, Ds)
    else:
        return _operations.run("all_gather_matmul", [A], Bs, biases, "", A.dim() - 2, group_name,
                               returns_gathered=return_A)
    Ys = [whole @ B if bias is None else whole @ B + bias for B, bias in zip(Bs, biases)]
    return [*Ys, *([whole] if return_A else []), *products]


def _sum(As: Sequence[Tensor], Bs: Sequence[Tensor]) -> Tensor:
    result = As[0] @ Bs[0]
    for A, B in zip(As[1:], Bs[1:]):
        result.view(-1, B.shape[1]).addmm_(A.reshape(-1, B.shape[0]), B)
    return result


def _sum_scatter(As: List[Tensor], Bs: List[Tensor], bias: Optional[Tensor], reduce_op: str,
                 group_name: str, ranks: int, Cs: List[Tensor], Ds: List[Tensor]) -> List[Tensor]:
    """Returns this rank's rows of the reduced sum of the products, plus the bias, and then each
    Cs[i] @ Ds[i], which are computed during the reduction. As: [rows, K], or [sequences, rows, K],
    where each sequence is scattered."""
    dim = As[0].dim() - 2
    if reason_of("sum_scatter", [*As, *Bs], dim, group_name, reduce_op):
        whole = _sum(As, Bs).movedim(-2, 0).contiguous()
        parts = _c10d.reduce_scatter_tensor(whole, reduce_op, ranks, group_name)
        products = [C @ D for C, D in zip(Cs, Ds)]
        mine: Tensor = _c10d.wait_tensor(parts).movedim(0, -2).contiguous()
    elif Cs:
        mine, products = _transfer.beside(["reduce_scatter"], _sum(As, Bs), group_name, Cs, Ds)
        if reduce_op == "avg":
            mine.div_(ranks)
    else:
        return [_operations.reduced("matmul_reduce_scatter", As, Bs, bias, "", reduce_op, dim,
                                    group_name)]
    return [mine if bias is None else mine.add_(bias), *products]


def _sum_all_reduce(As: List[Tensor], Bs: List[Tensor], bias: Optional[Tensor], group_name: str,
                    Cs: List[Tensor], Ds: List[Tensor]) -> List[Tensor]:
    """Returns the sum of the products over all ranks, plus the bias, and then each Cs[i] @ Ds[i],
    which are computed during the reduction. As: [rows, K]."""
    if reason_of("sum_all_reduce", [*As, *Bs], 0, group_name):
        parts = _c10d.all_reduce(_sum(As, Bs), "sum", group_name)
        products = [C @ D for C, D in zip(Cs, Ds)]
        whole: Tensor = _c10d.wait_tensor(parts)
    elif Cs:
        whole, products = _transfer.beside(_transfer.ALL_REDUCE, _sum(As, Bs), group_name, Cs, Ds)
    else:
        return [_operations.reduced("matmul_all_reduce", As, Bs, bias, "", "sum", 0, group_name)]
    return [whole if bias is None else whole.add_(bias), *products]


# -- Result shapes. --

def _fake_products(Cs: List[Tensor], Ds: List[Tensor]) -> List[Tensor]:
    return [C.new_empty([C.shape[0], D.shape[1]]) for C, D in zip(Cs, Ds)]


def _fake_gather_gemms(A: Tensor, Bs: List[Tensor], biases: List[Optional[Tensor]],
                       return_A: bool, group_name: str, ranks: int, Cs: List[Tensor],
                       Ds: List[Tensor]) -> List[Tensor]:
    shape = [*A.shape[:-2], A.shape[-2] * ranks]
    widths = [B.shape[1] for B in Bs] + ([A.shape[-1]] if return_A else [])
    return [A.new_empty([*shape, width]) for width in widths] + _fake_products(Cs, Ds)


def _fake_sum_scatter(As: List[Tensor], Bs: List[Tensor], bias: Optional[Tensor], reduce_op: str,
                      group_name: str, ranks: int, Cs: List[Tensor],
                      Ds: List[Tensor]) -> List[Tensor]:
    A = As[0]
    return [A.new_empty([*A.shape[:-2], A.shape[-2] // ranks, Bs[0].shape[1]]),
            *_fake_products(Cs, Ds)]


def _fake_sum_all_reduce(As: List[Tensor], Bs: List[Tensor], bias: Optional[Tensor],
                         group_name: str, Cs: List[Tensor], Ds: List[Tensor]) -> List[Tensor]:
    return [As[0].new_empty([*As[0].shape[:-1], Bs[0].shape[1]]), *_fake_products(Cs, Ds)]


_OPERATORS: Dict[str, Any] = {
    "gather_gemms": (
        "(Tensor A, Tensor[] Bs, Tensor?[] biases, bool return_A, str group_name, int ranks, "
        "Tensor[] Cs, Tensor[] Ds) -> Tensor[]", _gather_gemms, _fake_gather_gemms),
    "sum_scatter": (
        "(Tensor[] As, Tensor[] Bs, Tensor? bias, str reduce_op, str group_name, int ranks, "
        "Tensor[] Cs, Tensor[] Ds) -> Tensor[]",
        _sum_scatter, _fake_sum_scatter),
    "sum_all_reduce": (
        "(Tensor[] As, Tensor[] Bs, Tensor? bias, str group_name, Tensor[] Cs, Tensor[] Ds) "
        "-> Tensor[]",
        _sum_all_reduce, _fake_sum_all_reduce),
}
_library = torch_library.Library("braid", "FRAGMENT")
for _name, (_schema, _kernel, _fake) in _OPERATORS.items():
    _library.define(_name + _schema, tags=(torch.Tag.needs_fixed_stride_order,))
    torch_library.register_fake(f"braid::{_name}", _fake, lib=_library)
    for _device in ("CPU", "CUDA"):
        _library.impl(_name, _kernel, _device)
