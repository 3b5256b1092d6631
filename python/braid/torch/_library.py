"""Registers the operators with PyTorch: schemas, kernels, fake kernels, gradients and autocast.

The operators are in `torch.ops.braid`. The kernels are written in Python and call the shared
library, which therefore does not depend on PyTorch's ABI.
"""
from __future__ import annotations

from typing import Any, List, Sequence

import torch
from torch.fx.node import has_side_effect

from braid.torch import _operations
from braid.torch._gradients import WITH_GRADIENTS, expect_local, ops, tensors_of

Tensor = torch.Tensor

torch_library: Any = torch.library
autocast_mode: Any = torch.amp.autocast_mode
_library = torch_library.Library("braid", "DEF")
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)


# -- Result shapes. --

def _result(A: Tensor, rows: Any, dim: int, columns: Any) -> Tensor:
    return A.new_empty([*A.shape[:dim], rows, *A.shape[dim + 1:-1], columns])


def _fake_all_gather_matmul(A: Tensor, Bs: Sequence[Tensor], biases: Any, biased: int,
                            activation: str, gather_dim: int, rows: Any, return_A: bool,
                            keeps_shard: bool, group_name: str, ranks: int) -> List[Tensor]:
    dim = gather_dim % A.dim()
    count = A.shape[dim] * ranks if rows < 0 else rows
    widths = [B.shape[1] for B in Bs] + ([A.shape[-1]] if return_A else [])
    return [_result(A, count, dim, width) for width in widths]


def _fake_matmul_reduce_scatter(A: Tensor, B: Tensor, bias: Any, activation: str, reduce_op: str,
                                scatter_dim: int, group_name: str, rank: int,
                                ranks: int) -> Tensor:
    dim = scatter_dim % A.dim()
    count = A.shape[dim]
    if count % ranks == 0:
        return _result(A, count // ranks, dim, B.shape[1])
    block = (count + ranks - 1) // ranks
    mine = torch.sym_max(0, torch.sym_min(block, count - rank * block))
    return _result(A, mine, dim, B.shape[1])


def _fake_matmul_all_reduce(A: Tensor, B: Tensor, bias: Any, activation: str,
                            group_name: str) -> Tensor:
    return A.new_empty([*A.shape[:-1], B.shape[1]])


# -- Gradients. --

def _autograd(name: str) -> Any:
    operator = getattr(ops, name).default

    def kernel(keyset: Any, *arguments: Any) -> Any:
        for tensor in tensors_of(arguments):
            expect_local(tensor)

        def below(*arguments: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            return WITH_GRADIENTS[name](below, *arguments)
        return below(*arguments)
    return kernel


# -- Autocast. Converts all operands to the autocast type, as PyTorch does for its GEMMs. --

def _autocast(name: str, device: str, key: torch.DispatchKey) -> Any:
    keys = torch._C.DispatchKeySet(key)

    def kernel(*arguments: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            dtype = torch.get_autocast_dtype(device)
            return getattr(ops, name)(*autocast_mode._cast(arguments, device, dtype))
    return kernel


# -- Registration. --

# The schema and the fake kernel of each operator. Ranks and processes share caches of compiled
# graphs, which are keyed by the arguments, so result shapes must depend only on the arguments. This
# is why some operators also take the rank or the number of ranks.
_OPERATORS = {
    "all_gather_matmul": (
        "(Tensor A, Tensor[] Bs, Tensor[] biases, int biased, str activation, int gather_dim, "
        "SymInt rows, bool return_A, bool keeps_shard, str group_name, int ranks) -> Tensor[]",
        _fake_all_gather_matmul),
    "matmul_reduce_scatter": (
        "(Tensor A, Tensor B, Tensor? bias, str activation, str reduce_op, int scatter_dim, "
        "str group_name, int rank, int ranks) -> Tensor",
        _fake_matmul_reduce_scatter),
    "matmul_all_reduce": (
        "(Tensor A, Tensor B, Tensor? bias, str activation, str group_name) -> Tensor",
        _fake_matmul_all_reduce),
}
for _name, (_schema, _fake) in _OPERATORS.items():
    _library.define(_name + _schema, tags=_TAGS)
    # Every rank must make the call, even if its result is empty or unused.
    has_side_effect(getattr(torch.ops.braid, _name).default)
    # The compiler must not reorder the calls, because the order must be the same on all ranks.
    torch_library._register_effectful_op(f"braid::{_name}", torch_library.EffectType.ORDERED)
    torch_library.register_fake(f"braid::{_name}", _fake, lib=_library)
    _library.impl(_name, _autograd(_name), "Autograd", with_keyset=True)
    for _device in ("CPU", "CUDA"):
        _library.impl(_name, getattr(_operations, _name), _device)
        _key = getattr(torch.DispatchKey, f"Autocast{_device}")
        _library.impl(_name, _autocast(_name, _device.lower(), _key), _key.name)
