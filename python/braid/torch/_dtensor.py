"""Calls of the three operators with DTensors.

The operands must already be placed as the operator needs them, because moving them would cost more
than the operator saves. Importing torch.distributed.tensor takes long, so this module is imported
only once a call contains a DTensor.
"""
from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

from braid._errors import InputError
from braid.torch._group import name_of

Tensor = torch.Tensor


def _placements(operator: str, dim: int, last: int) -> Tuple[Any, Any, Any, Any]:
    """Returns the placements of A, B, the bias and the result. `dim` is the dimension of A to
    gather or scatter, and `last` is its last one."""
    if operator == "all_gather_matmul":
        return Shard(dim), Shard(1), Shard(0), Shard(last)
    result = Shard(dim) if operator == "matmul_reduce_scatter" else Replicate()
    return Shard(last), Shard(0), Replicate(), result


def _mesh_of(operands: Sequence[Tuple[str, Any]], group: Any) -> Any:
    """Returns the mesh of the operands, which are (name, tensor) pairs."""
    if not all(isinstance(each, DTensor) for _, each in operands):
        found = ", ".join(f"{name}: {type(each).__name__}" for name, each in operands)
        raise InputError("expected all operands to be DTensors because one is, got "
                         f"{found}: convert the others with DTensor.from_local(), or pass the "
                         "result of to_local() for each DTensor")
    meshes = [each.device_mesh for _, each in operands]
    if meshes[0].ndim != 1 or any(each != meshes[0] for each in meshes):
        raise InputError("expected DTensors on the same one-dimensional DeviceMesh, got "
                         f"{meshes}: pass the results of to_local() and the group")
    name = name_of(meshes[0])
    if group is not None and name_of(group) != name:
        raise InputError(f"expected the group of the DTensors' mesh ('{name}') or None, got group "
                         f"'{name_of(group)}'")
    return meshes[0]


def _expect(name: str, tensor: Any, placement: Any, shape: Sequence[Any], hint: str = "") -> None:
    """Raises InputError unless the tensor has this placement and global shape."""
    if tensor.placements[0] != placement:
        raise InputError(f"expected {name} to be placed [{placement!r}], got "
                         f"{list(tensor.placements)}: pass the result of "
                         f"redistribute(placements=[{placement!r}]){hint}")
    if list(tensor.shape) != list(shape):
        raise InputError(f"expected {name} to have the global shape {list(shape)}, got "
                         f"{list(tensor.shape)}")


class _EqualParts(torch.autograd.Function):
    """Returns the gathered A. Its gradient is the same on all ranks, but the operator adds the
    gradients of all ranks, so each rank passes on an equal part."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, ranks: int) -> Tensor:
        ctx.ranks = ranks
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient / ctx.ranks, None


def _global(local: Tensor, mesh: Any, placement: Any, shape: Sequence[Any]) -> Tensor:
    """Returns a contiguous local tensor as a part of a DTensor with this shape."""
    strides: List[Any] = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    # Without a shape, from_local() would assume that all ranks have the same number of rows.
    whole: Tensor = DTensor.from_local(local, mesh, [placement], run_check=False,
                                       shape=torch.Size(shape), stride=tuple(strides))
    return whole


def _local(operand: Any) -> Any:
    if isinstance(operand, (list, tuple)):
        return [_local(each) for each in operand]
    return None if operand is None else operand.to_local()


def _expect_weights(A: Any, Bs: Sequence[Tuple[str, Any, Any]], of_B: Any, of_bias: Any,
                    ranks: int) -> None:
    """Checks the weights and their biases, which are (number, weight, bias or None) triples."""
    for mark, B, bias in Bs:
        _expect(f"B{mark}", B, of_B, [A.shape[-1], *B.shape[-1:]],
                ", or weight.t() if this is the weight of a torch.nn.Linear")
        if bias is not None:
            _expect(f"bias{mark}", bias, of_bias, B.shape[-1:])
        if B.shape[of_B.dim] % ranks:
            raise InputError(f"expected dimension {of_B.dim} of B{mark} to divide evenly among "
                             f"{ranks} ranks, got the global shape {list(B.shape)}")


def _known(dim: Any, A: Any) -> int:
    """Returns the dimension to gather or scatter, as the number that a placement needs, even if
    torch.compile() traces it as a symbol."""
    for each in range(A.dim() - 1):
        if dim in (each, each - A.dim()):
            return each
    raise InputError("expected the dimension to gather or scatter to be a dimension of A before "
                     f"the last one, got {dim}; A has the global shape {list(A.shape)}")


def call(function: Callable[..., Any], A: Any, B: Any, group: Any, bias: Any, dim: int,
         **options: Any) -> Any:
    """Calls a public function of braid.torch with local tensors. Returns its results as DTensors.

    dim: the dimension of A to gather or scatter; 0 if there is none.
    options: the other arguments of the function.

    Raises InputError if the operands are not DTensors on one mesh with one dimension, if they have
    other placements than _placements(), or if columns or K do not divide evenly among the ranks.
    """
    is_list, gathers = isinstance(B, (list, tuple)), "gather_dim" in options
    Bs = list(B) if is_list else [B]
    biases = list(bias) if is_list and bias is not None else [bias] * len(Bs)
    numbered = [(f"[{i}]" if is_list else "", *each) for i, each in enumerate(zip(Bs, biases))]
    mesh = _mesh_of([("A", A), *[(f"B{mark}", each) for mark, each, _ in numbered],
                     *[(f"bias{mark}", each) for mark, _, each in numbered if each is not None]],
                    group)
    dim = _known(dim, A)
    of_A, of_B, of_bias, of_Y = _placements(function.__name__, dim, A.dim() - 1)
    _expect("A", A, of_A, A.shape, ", or another gather_dim" if gathers else "")
    _expect_weights(A, numbered, of_B, of_bias, mesh.size())
    if gathers:
        if options["rows"] not in (None, A.shape[dim]):
            raise InputError(f"expected rows to be None or {A.shape[dim]}, the extent of A in "
                             f"dimension {dim}, got {options['rows']}")
        options["rows"] = A.shape[dim]
    outputs = function(_local(A), _local(B), mesh.get_group(), bias=_local(bias), **options)
    Ys, G = outputs if options.get("return_A") else (outputs, None)
    wrapped = [_global(Y, mesh, of_Y, [*A.shape[:-1], each.shape[1]])
               for Y, each in zip(Ys if is_list else [Ys], Bs)]
    result = wrapped if is_list else wrapped[0]
    if G is None:
        return result
    return result, _global(_EqualParts.apply(G, mesh.size()), mesh, Replicate(), A.shape)
