"""Gradients of the three operators.

A call that does not need PyTorch's dispatcher runs the kernel directly, wrapped in an
autograd.Function if gradients are needed. Other calls go through an operator in torch.ops.braid,
whose Autograd kernel uses the same Function. If gradients are needed, PyTorch applies the
activation after the kernel, and the gathered A is saved if the gradient of any B needs it.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from braid._errors import InputError, UnsupportedError
from braid.torch import _hidden, _operations
from braid.torch._group import place_of
from braid.torch._layout import function_of

Tensor = torch.Tensor
Run = Callable[..., Any]  # a kernel, or an operator below autograd, with the same parameters

_ORDINARY = (Tensor, torch.nn.Parameter)
ops = torch.ops.braid
_c10d: Any = torch.ops._c10d_functional
_flat = _hidden.flat


# -- Calling a kernel or an operator. --

def tensors_of(arguments: Sequence[Any]) -> List[Tensor]:
    """Returns the tensors among an operator's arguments. Only the first three contain tensors."""
    tensors: List[Tensor] = []
    for each in arguments[:3]:
        if isinstance(each, (list, tuple)):
            tensors += each
        elif each is not None:
            tensors.append(each)
    return tensors


def wants_gradients(tensors: Sequence[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in tensors)


def _has_mode() -> bool:
    return bool(torch._C._len_torch_dispatch_stack())


def _is_traced() -> bool:
    """Returns True if a mode records calls, or runs them on tensors without data."""
    keys = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(key) is not None
               for key in (keys.PROXY, keys.FAKE, keys.FUNCTIONAL))


def _is_plain(tensors: Sequence[Tensor], has_mode: Callable[[], bool] = _has_mode) -> bool:
    """Returns True if the kernel can be called directly, without PyTorch's dispatcher."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    if forward_ad._current_level >= 0:
        _refuse_forward_mode(tensors)
    if tensors[0].is_meta and all(each.is_meta for each in tensors):
        return False  # the fake kernels handle meta tensors
    if has_mode() or torch._C._functorch.peek_interpreter_stack():
        return False
    for each in tensors:
        if (type(each) not in _ORDINARY or each.is_neg() or each._is_zerotensor() or
                each.layout is not torch.strided):
            return False
    return not torch._C._is_any_autocast_enabled()


def runs_eagerly(tensors: Sequence[Tensor]) -> bool:
    """Returns True if kernels can be called directly, and their results need no gradients. Ignores
    a user's dispatch modes, such as a counter of operations, because ranks may have different ones,
    and must transfer alike."""
    return _is_plain(tensors, _is_traced) and not wants_gradients(tensors)


def is_dtensor(tensor: Any) -> bool:
    """Returns True for a DTensor, without importing its module, which takes long."""
    # Asks the type, because torch.compile() hides this method of a tensor.
    return type(tensor) not in _ORDINARY and hasattr(type(tensor), "to_local")


def expect_local(tensor: Tensor) -> None:
    """Raises InputError for a DTensor, for which PyTorch's own message would be unhelpful."""
    if is_dtensor(tensor):
        raise InputError(f"expected this rank's local tensor, got a {type(tensor).__name__}: pass "
                         "the result of to_local()")


def _refuse_forward_mode(tensors: Sequence[Tensor]) -> None:
    """Raises UnsupportedError if a tensor has a tangent, which would otherwise be dropped."""
    interpreter = torch._C._functorch.peek_interpreter_stack()
    unpack: Any = forward_ad.unpack_dual
    message = "braid.torch operators do not support forward-mode automatic differentiation"
    if interpreter is not None and interpreter.key() == torch._C._functorch.TransformType.Jvp:
        raise UnsupportedError(message)
    if any(unpack(each).tangent is not None for each in tensors):
        raise UnsupportedError(message + ", got a tensor with a tangent")


# Indices into place_of()'s result: the values that each operator takes as its last arguments.
_PLACES: Dict[str, Tuple[int, ...]] = {
    "all_gather_matmul": (1,), "matmul_reduce_scatter": (0, 1), "matmul_all_reduce": ()}


def call(operator: str, *arguments: Any) -> Any:
    """Calls an operator. `arguments` are those of its schema, up to and including `group_name`."""
    tensors, kernel = tensors_of(arguments), getattr(_operations, operator)
    is_plain = _is_plain(tensors)
    if is_plain and not wants_gradients(tensors):
        return kernel(*arguments)
    arguments = (*arguments, *[place_of(arguments[-1])[i] for i in _PLACES[operator]])
    if is_plain:
        return WITH_GRADIENTS[operator](kernel, *arguments)
    return getattr(ops, operator)(*arguments)


# -- Calls with gradients. --

def _gather(run: Run, A: Tensor, Bs: Sequence[Tensor], biases: Sequence[Tensor], biased: int,
            activation: str, gather_dim: int, rows: Any, return_A: bool, keeps_shard: bool,
            name: str, ranks: int) -> List[Tensor]:
    function = function_of(activation)
    returns_A = return_A or (not keeps_shard and wants_gradients(Bs))
    outputs = _Gather.apply(run, biased, gather_dim, rows, returns_A, keeps_shard, name, ranks,
                            len(Bs), A, *Bs, *biases)
    Ys = [function(Y) for Y in outputs[:len(Bs)]]
    return [*Ys, outputs[-1]] if return_A else Ys


def _scatter(run: Run, A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str,
             reduce_op: str, scatter_dim: int, name: str, rank: int, ranks: int) -> Tensor:
    _operations.check_reduction(reduce_op, activation, bias)
    function = function_of(activation)
    return function(_Scatter.apply(run, A, B, bias, reduce_op, scatter_dim, name, rank, ranks))


def _all_reduce(run: Run, A: Tensor, B: Tensor, bias: Optional[Tensor], activation: str,
                name: str) -> Tensor:
    return function_of(activation)(_AllReduce.apply(run, A, B, bias, name))


# Functions that call an operator with all arguments of its schema, and whose results autograd can
# differentiate.
WITH_GRADIENTS: Dict[str, Callable[..., Any]] = {
    "all_gather_matmul": _gather, "matmul_reduce_scatter": _scatter,
    "matmul_all_reduce": _all_reduce}


def _padded(rows_first: Tensor, count: Any) -> Tensor:
    """Returns a contiguous copy zero-padded to `count` rows, or the tensor if none is missing."""
    missing = count - rows_first.shape[0]
    if missing == 0:
        return rows_first.contiguous()
    return torch.cat([rows_first, rows_first.new_zeros([missing, *rows_first.shape[1:]])])


def _gathered(A: Tensor, dim: int, count: Any, name: str, ranks: int) -> Tensor:
    """Gathers A along `dim`. Returns all `count` rows."""
    mine = _padded(A.movedim(dim, 0), (count + ranks - 1) // ranks)
    whole: Tensor = _c10d.wait_tensor(_c10d.all_gather_into_tensor(mine, ranks, name))
    return whole.narrow(0, 0, count).movedim(0, dim)


def _scattered(G: Tensor, dim: int, count: Any, name: str, ranks: int) -> Tensor:
    """Sums G over the ranks. Returns this rank's part of the sum: `count` rows along `dim`."""
    block = (G.shape[dim] + ranks - 1) // ranks
    whole = _padded(G.movedim(dim, 0), block * ranks)
    mine: Tensor = _c10d.wait_tensor(_c10d.reduce_scatter_tensor(whole, "sum", ranks, name))
    return mine.narrow(0, 0, count).movedim(0, dim)


def _input_gradients(terms: Sequence[Tuple[Tensor, Tensor]], dim: int,
                     name: str) -> List[Tensor]:
    """Returns tensors whose sum is the reduce-scattered sum of the products in `terms`: a single
    tensor, unless the gradient has to be differentiated or traced."""
    dYs, Bs = [dY for dY, _ in terms], [B for _, B in terms]
    if len(terms) > 1 and runs_eagerly(dYs + Bs):
        return [_operations.reduced("matmul_reduce_scatter", dYs, Bs, None, "", "sum", dim, name)]
    return [call("matmul_reduce_scatter", dY, B, None, "", "sum", dim, name) for dY, B in terms]


class _Gather(torch.autograd.Function):
    """Returns the GEMM results, followed by the gathered A if requested. The gathered A is an
    output, so that autograd can compute second derivatives."""

    @staticmethod
    def forward(ctx: Any, run: Run, biased: int, dim: int, rows: Any, returns_A: bool,
                keeps_shard: bool, name: str, ranks: int, count: int, A: Tensor,
                *tensors: Tensor) -> Tuple[Tensor, ...]:
        Bs, biases = tensors[:count], tensors[count:]
        outputs = run(A, Bs, biases, biased, "", dim, rows, returns_A, keeps_shard, name, ranks)
        ctx.set_materialize_grads(False)  # missing gradients stay None
        ctx.dim, ctx.name, ctx.ranks, ctx.count = dim % A.dim(), name, ranks, count
        ctx.biased, ctx.mine, ctx.keeps_shard = biased, A.shape[dim], keeps_shard
        ctx.transposed = [_hidden.is_transposed(B) for B in Bs]
        needs_A, *needs_Bs = ctx.needs_input_grad[9:10 + count]
        kept = A if keeps_shard else outputs[-1]
        ctx.save_for_backward(kept if any(needs_Bs) else None, *(Bs if needs_A else ()))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Optional[Tensor]) -> Any:
        whole, *Bs = ctx.saved_tensors
        dYs = grads[:ctx.count]
        needs_A, *needs = ctx.needs_input_grad[9:]
        rows = [dY.shape[ctx.dim] for dY in dYs if dY is not None]
        if ctx.keeps_shard and whole is not None and torch.is_grad_enabled():
            raise UnsupportedError('keep="shard" does not support second derivatives')
        parts: List[Tensor] = []  # the terms of A's gradient
        dBs: Sequence[Optional[Tensor]]
        hidden, given_dYs = None, [dY for dY in dYs if dY is not None]
        if (needs_A and all(needs[:ctx.count]) and len(given_dYs) == ctx.count
                and runs_eagerly([*given_dYs, whole, *Bs])):
            hidden = _hidden.gather_gradients(ctx, whole, Bs, given_dYs)
        if hidden:
            parts, dBs = [hidden[0]], hidden[1]
        else:
            if ctx.keeps_shard and whole is not None and rows:
                whole = _gathered(whole, ctx.dim, rows[0], ctx.name, ctx.ranks)
            if needs_A:
                given = [(dY, B.t()) for dY, B in zip(dYs, Bs) if dY is not None]
                parts += _input_gradients(given, ctx.dim, ctx.name)
            flat = None if whole is None else _flat(whole, ctx.dim)
            dBs = [_hidden.product(flat, _flat(dY, ctx.dim), is_transposed)
                   if flat is not None and is_needed and dY is not None else None
                   for dY, is_needed, is_transposed in zip(dYs, needs, ctx.transposed)]
        if needs_A:
            parts += [_scattered(dG, ctx.dim, ctx.mine, ctx.name, ctx.ranks)
                      for dG in grads[ctx.count:] if dG is not None]
        biased = [dY for i, dY in enumerate(dYs) if ctx.biased >> i & 1]
        dbiases = [_flat(dY).sum(0) if is_needed and dY is not None else None
                   for dY, is_needed in zip(biased, needs[ctx.count:])]
        return (*[None] * 9, sum(parts[1:], parts[0]) if parts else None, *dBs, *dbiases)


def _save_operands(ctx: Any, A: Tensor, B: Tensor) -> None:
    """Saves each operand of a GEMM that the gradient of the other operand needs."""
    needs_A, needs_B = ctx.needs_input_grad[1:3]
    ctx.is_transposed = _hidden.is_transposed(B)
    ctx.save_for_backward(A if needs_B else None, B if needs_A else None)


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, A: Tensor, B: Tensor, bias: Optional[Tensor], reduce_op: str,
                dim: int, name: str, rank: int, ranks: int) -> Any:
        output = run(A, B, bias, "", reduce_op, dim, name, rank, ranks)
        ctx.dim, ctx.name, ctx.ranks = dim % A.dim(), name, ranks
        ctx.is_mean, ctx.rows = reduce_op == "avg", A.shape[dim]
        _save_operands(ctx, A, B)
        return output

    @staticmethod
    def backward(ctx: Any, dY: Tensor) -> Any:
        A, B = ctx.saved_tensors
        _, needs_A, needs_B, needs_bias, *_ = ctx.needs_input_grad
        if ctx.is_mean:
            dY = dY / ctx.ranks
        dA = dB = dbias = whole = None
        if needs_A:
            dA, *more = call("all_gather_matmul", dY, [B.t()], [], 0, "", ctx.dim, ctx.rows,
                             needs_B or needs_bias, False, ctx.name)
            whole = more[0] if more else None
        elif needs_B or needs_bias:
            whole = _gathered(dY, ctx.dim, ctx.rows, ctx.name, ctx.ranks)
        if whole is not None:
            if needs_B:
                dB = _hidden.product(_flat(A, ctx.dim), _flat(whole, ctx.dim), ctx.is_transposed)
            dbias = _flat(whole).sum(0) if needs_bias else None
        return None, dA, dB, dbias, None, None, None, None, None


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, A: Tensor, B: Tensor, bias: Optional[Tensor],
                name: str) -> Any:
        output = run(A, B, bias, "", name)
        _save_operands(ctx, A, B)
        return output

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, dY: Tensor) -> Any:
        """Assumes that dY is the same on every rank. Second derivatives would violate this
        assumption, so they raise an exception."""
        A, B = ctx.saved_tensors
        _, needs_A, needs_B, needs_bias, _ = ctx.needs_input_grad
        dA = dY @ B.t() if needs_A else None
        dB = _hidden.product(_flat(A), _flat(dY), ctx.is_transposed) if needs_B else None
        return None, dA, dB, _flat(dY).sum(0) if needs_bias else None, None
