"""The functions that models call."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch.autograd import forward_ad

from braid._errors import InputError, UnsupportedError
from braid.torch import _kept, _library, _operations
from braid.torch._group import all_jobs, job_of, name_of, place_of

Tensor = torch.Tensor
Bs = Union[Tensor, Sequence[Tensor]]
_ops = _library.ops

_FUNCTIONS_OF_PYTORCH: Dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def _wants_gradients(tensors: Sequence[Optional[Tensor]]) -> bool:
    if not torch.compiler.is_compiling() and forward_ad._current_level >= 0:
        _refuse_forward_mode(tensors)
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad
                                           for each in tensors)


def _folded(tensors: Sequence[Optional[Tensor]], activation: Optional[str]) -> Tuple[bool, str]:
    """Whether gradients are wanted, and the activation that the kernel applies: behind it where
    they are."""
    if not _wants_gradients(tensors):
        return False, activation or ""
    if activation and activation not in _FUNCTIONS_OF_PYTORCH:
        raise InputError(f"expected an activation ({', '.join(_FUNCTIONS_OF_PYTORCH)}) or None, "
                         f"got '{activation}'")
    return True, ""


def _expect_tensors(tensors: Sequence[Any], dim: Any = 0) -> None:
    """A and a B first; a bias may be missing."""
    for index, each in enumerate(tensors):
        if each is None and index > 1:
            continue
        if not isinstance(each, Tensor):
            raise InputError(f"expected tensors, got {type(each).__name__}")
        if each.layout is not torch.strided:
            raise InputError(f"expected strided tensors, got one of {each.layout}")
    if not isinstance(dim, (int, torch.SymInt)):
        raise InputError(f"expected the number of a dimension, got {dim!r}")


def _is_plain(tensors: Sequence[Optional[Tensor]]) -> bool:
    """May the kernel be called at once, without PyTorch's dispatcher?"""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    first = tensors[0]
    if first is not None and first.is_meta and all(each is None or each.is_meta
                                                   for each in tensors):
        return False  # for the fakes
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack():
        return False
    for each in tensors:
        if each is not None and not _is_ordinary(each):
            return False
    return not torch._C._is_any_autocast_enabled()


def _is_ordinary(tensor: Tensor) -> bool:
    """Nothing of it is the dispatcher's to resolve."""
    return (type(tensor) in (Tensor, torch.nn.Parameter) and not tensor.is_neg() and
            not tensor._is_zerotensor() and tensor.layout is torch.strided)


def _refuse_forward_mode(tensors: Sequence[Optional[Tensor]]) -> None:
    """A tangent would be lost without a word."""
    interpreter = torch._C._functorch.peek_interpreter_stack()
    if interpreter is not None and interpreter.key() == torch._C._functorch.TransformType.Jvp:
        raise UnsupportedError("expected no forward-mode derivatives of operators of braid.torch")
    unpack: Any = forward_ad.unpack_dual
    for each in tensors:
        if each is not None and unpack(each).tangent is not None:
            raise UnsupportedError("expected no forward-mode derivatives of operators of "
                                   "braid.torch, got a tensor with a tangent")


@torch.compiler.assume_constant_result
def _place(name: str) -> Tuple[int, int]:
    """place_of, while a graph is made of the call, too."""
    return place_of(name)


def _lists(B: Bs, bias: Any) -> Tuple[List[Tensor], List[Tensor], int]:
    """The weights, the biases that there are, and a bit for each weight that has one."""
    if isinstance(B, Tensor):
        if bias is not None and not isinstance(bias, Tensor):
            raise InputError(f"expected a bias, or None, for one B, got {type(bias).__name__}")
        return ([B], [], 0) if bias is None else ([B], [bias], 1)
    if not isinstance(B, (list, tuple)):
        raise InputError(f"expected a tensor B, or a list of them, got {type(B).__name__}")
    weights = list(B)
    biases = [None] * len(weights) if bias is None else list(bias)
    if not weights or len(biases) != len(weights):
        raise InputError(f"expected one B or more, and a bias or None for each, got {len(weights)} "
                         f"and {len(biases)}")
    given = [each for each in biases if each is not None]
    return weights, given, sum(1 << i for i, each in enumerate(biases) if each is not None)


def _count(rows: Optional[int]) -> int:
    """As operators have it."""
    if rows is not None and (not isinstance(rows, (int, torch.SymInt)) or rows < 1):
        raise InputError(f"expected rows of 1 or more, or None, got {rows!r}")
    return -1 if rows is None else rows


def all_gather_matmul(A: Tensor, B: Bs, group: Any = None, *, bias: Any = None,
                      activation: Optional[str] = None, gather_dim: int = 0,
                      rows: Optional[int] = None, return_A: bool = False) -> Any:
    """activation(all_gather(A) @ B + bias): the blocks of A travel while others are multiplied.

    A: this rank's rows, [..., K], of any number of dimensions. `gather_dim` is the dimension that
        is gathered; not the last one.
    B: [K, N], or a list of such, which share one gather. The weight of a torch.nn.Linear is B.t().
    bias: [N], or a list with one or None for each B.
    activation: "relu", "gelu", "gelu_tanh" or "silu".
    rows: how many all ranks have together, if they do not divide: split as torch.chunk does.
    group: a ProcessGroup, a DeviceMesh of one dimension, or a name; None: the default group.

    Y, of all rows and this rank's columns, or a list of them; with return_A a tuple, whose second
    entry is the gathered A.

    Collective. On GPUs it only issues, to the current stream; on CPUs it is done when it returns.
    Tensors are bf16, f16, f32 or f64, all alike. Those that do not lie as they are needed are
    copied: A with gather_dim first, B as it is or transposed, with a bias transposed. The first
    call with a shape prepares it. InputError says what was expected; PeerError and TimedOutError
    end the group's operators on all ranks.

    Gradients: the backward is matmul_reduce_scatter; that of B multiplies the gathered A, which is
    kept for it.
    Equivalent to: torch.ops.symm_mem.fused_all_gather_matmul
    """
    name = name_of(group)
    count = _count(rows)
    weights, given, biased = _lists(B, bias)
    tensors = [A, *weights, *given]
    _expect_tensors(tensors, gather_dim)
    wants_gradients, folded = _folded(tensors, activation)
    keeps_A = return_A or (wants_gradients and _wants_gradients(weights))
    arguments = (A, weights, given, biased, folded, gather_dim, count, keeps_A, name)
    if not wants_gradients and _is_plain(tensors):
        outputs = _operations.all_gather_matmul(*arguments)
    else:
        outputs = _ops.all_gather_matmul(*arguments, _place(name)[1])
    Ys = list(outputs[:len(weights)])
    if activation and not folded:
        Ys = [_FUNCTIONS_OF_PYTORCH[activation](Y) for Y in Ys]
    result = Ys[0] if isinstance(B, Tensor) else Ys
    return (result, outputs[-1]) if return_A else result


def matmul_reduce_scatter(A: Tensor, B: Tensor, group: Any = None, *,
                          bias: Optional[Tensor] = None, activation: Optional[str] = None,
                          scatter_dim: int = 0, reduce_op: str = "sum") -> Tensor:
    """activation(reduce_scatter(A @ B) + bias): partial results travel while others are computed.

    A: all rows, [..., K], with this rank's part of K. `scatter_dim` is the dimension whose rows
        the ranks share, split as torch.chunk does; not the last one.
    B: [K, N], this rank's part. The weight of a torch.nn.Linear is B.t().
    bias: [N], the same on all ranks; it is added once.
    reduce_op: "sum", or "avg" without bias and activation.

    This rank's rows of the result. Partial results travel in A's type, and are added in f32 (f64
    for f64) in the order of ranks. The rest is as in all_gather_matmul(), which is the backward.
    Equivalent to: torch.ops.symm_mem.fused_matmul_reduce_scatter
    """
    name = name_of(group)
    tensors = [A, B, bias]
    _expect_tensors(tensors, scatter_dim)
    wants_gradients, folded = _folded(tensors, activation)
    arguments = (A, B, bias, folded, reduce_op, scatter_dim, name)
    if not wants_gradients and _is_plain(tensors):
        return _operations.matmul_reduce_scatter(*arguments)
    _operations.check_reduction(reduce_op, activation or "", bias)  # which may be applied here
    Y = _ops.matmul_reduce_scatter(*arguments, *_place(name))
    return _FUNCTIONS_OF_PYTORCH[activation](Y) if activation and not folded else Y


def matmul_all_reduce(A: Tensor, B: Tensor, group: Any = None, *, bias: Optional[Tensor] = None,
                      activation: Optional[str] = None) -> Tensor:
    """activation(all_reduce(A @ B) + bias): the same result on all ranks, bit by bit.

    A: all rows, [..., K], with this rank's part of K. B: [K, N], this rank's part.
    The rest is as in matmul_reduce_scatter(). The backward takes the result's gradient for one that
    all ranks have alike, and so needs no communication.
    """
    name = name_of(group)
    tensors = [A, B, bias]
    _expect_tensors(tensors)
    wants_gradients, folded = _folded(tensors, activation)
    arguments = (A, B, bias, folded, name)
    if not wants_gradients and _is_plain(tensors):
        return _operations.matmul_all_reduce(*arguments)
    Y = _ops.matmul_all_reduce(*arguments)
    return _FUNCTIONS_OF_PYTORCH[activation](Y) if activation and not folded else Y


# -- Measuring. --

def _gather_call(job: Any, A: Tensor, B: Bs, *, bias: Any = None, activation: Optional[str] = None,
                 gather_dim: int = 0, rows: Optional[int] = None, return_A: bool = False) -> Any:
    weights, given, biased = _lists(B, bias)
    biases = _operations.spread(len(weights), given, biased)
    wants_gradients, folded = _folded([A, *weights, *given], activation)
    keeps_A = return_A or (wants_gradients and _wants_gradients(weights))
    return _operations.describe_gather(job, A, weights, biases, folded, gather_dim, _count(rows),
                                       keeps_A)


def _scatter_call(job: Any, A: Tensor, B: Tensor, *, bias: Optional[Tensor] = None,
                  activation: Optional[str] = None, scatter_dim: int = 0,
                  reduce_op: str = "sum") -> Any:
    _operations.check_reduction(reduce_op, activation or "", bias)
    return _operations.describe_reduce(job, "matmul_reduce_scatter", A, B, bias,
                                       _folded([A, B, bias], activation)[1], scatter_dim)


def _all_reduce_call(job: Any, A: Tensor, B: Tensor, *, bias: Optional[Tensor] = None,
                     activation: Optional[str] = None) -> Any:
    return _operations.describe_reduce(job, "matmul_all_reduce", A, B, bias,
                                       _folded([A, B, bias], activation)[1], 0)


_CALLS: List[Tuple[Callable[..., Any], Callable[..., Any]]] = [
    (all_gather_matmul, _gather_call), (matmul_reduce_scatter, _scatter_call),
    (matmul_all_reduce, _all_reduce_call)]


def prepare(function: Callable[..., Any], A: Tensor, B: Bs, group: Any = None, *,
            seconds: float = 2.0, **options: Any) -> str:
    """Has the ranks measure how `function` runs fastest with such tensors, for at most so many
    seconds of trials, and keeps what is best for later calls: also as a start for shapes that
    nobody has measured. A shape that this machine knows takes no trials.

    function: all_gather_matmul, matmul_reduce_scatter or matmul_all_reduce.
    A, B, group, options: as for a call here, with or without gradients and autocast; tensors are
        looked at, not read. Calls for gradients are measured apart from those without.

    The schedule, in the words of the command line. Collective; blocks. Before the operator is
    captured into a CUDA graph.
    """
    if not seconds >= 0:
        raise InputError(f"expected seconds of 0 or more, got {seconds}")
    for known, describe in _CALLS:
        if known is function:
            job = job_of(name_of(group), A)
            if torch.is_autocast_enabled(A.device.type):
                A, B, options = _library.autocast((A, B, options), A.device.type)
            with job.lock:
                layout = describe(job, A, B, **options).layout
                return _kept.measure(job, layout, seconds).schedule
    names = ", ".join(known.__name__ for known, _ in _CALLS)
    raise InputError(f"expected one of {names}, got {function!r}")


def synchronize(group: Any = None) -> None:
    """Blocks until all calls of this rank are done on the group's devices. Raises what has gone
    wrong with them: on GPUs a call itself only tells of what was known when it was issued."""
    name = name_of(group)
    for job in all_jobs():
        if job.group == name:
            with job.lock:
                job.job.synchronize()
