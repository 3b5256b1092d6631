"""Reads the address, type and shape of NumPy arrays, PyTorch tensors and DLPack arrays."""
from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, NamedTuple, Optional, Tuple

from braid._errors import InputError
from braid._program import TensorSpec

# DLPack device types: first the types with streams, then the types whose memory the host can read.
_CUDA, _CUDA_MANAGED = 2, 13
_OF_HOST = (1, 3, _CUDA_MANAGED)  # CPU, pinned memory, managed memory


class Array(NamedTuple):
    """An array that is valid as long as `owner` is alive."""

    address: int
    dtype: str
    shape: Tuple[int, ...]
    is_contiguous: bool
    owner: Any
    is_writable: bool = True
    device: str = ""  # "" for host memory


_OURS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}
_THEIRS = {ours: name for name, ours in _OURS.items()}


@functools.lru_cache(maxsize=None)
def _name_of(dtype: Any) -> str:
    """Returns the name of a NumPy or PyTorch type."""
    theirs = str(dtype).replace("torch.", "")
    return _OURS.get(theirs, theirs)


def _of_numpy(array: Any) -> Array:
    return Array(array.__array_interface__["data"][0], _name_of(array.dtype), array.shape,
                 array.flags.c_contiguous, array, array.flags.writeable)


def _of_torch(tensor: Any) -> Array:
    dtype = _name_of(tensor.dtype)
    if tensor.is_neg():
        dtype = f"a pending negation (call resolve_neg() first) of {dtype}"
    return Array(tensor.data_ptr(), dtype, tensor.shape, tensor.is_contiguous(), tensor,
                 device="" if tensor.is_cpu else str(tensor.device))


# -- DLPack. --

class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("axes", ctypes.c_int32),
                ("dtype", _DType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DTYPES = {(4, 16): "bf16", (2, 16): "f16", (2, 32): "f32", (2, 64): "f64"}
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _is_contiguous(tensor: _Tensor, shape: Tuple[int, ...]) -> bool:
    if not tensor.strides or 0 in shape:
        return True
    expected = 1
    for i in reversed(range(tensor.axes)):
        if shape[i] != 1 and tensor.strides[i] != expected:
            return False
        expected *= shape[i]
    return True


def _of_dlpack(array: Any, stream: Optional[int]) -> Array:
    kind = int(array.__dlpack_device__()[0])
    # Makes the stream wait for pending writes. In DLPack, 1 is CUDA's legacy default stream.
    options = {"stream": stream or 1} if kind in (_CUDA, _CUDA_MANAGED) else {}
    capsule = array.__dlpack__(**options)
    tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    shape = tuple(tensor.shape[:tensor.axes])
    dtype = (tensor.dtype.code, tensor.dtype.bits)
    name = _DTYPES.get(dtype, f"{dtype[1]}-bit DLPack type {dtype[0]}")
    if tensor.dtype.lanes != 1:
        name += f" x {tensor.dtype.lanes}"
    return Array((tensor.data or 0) + tensor.byte_offset, name, shape,
                 _is_contiguous(tensor, shape), (array, capsule),
                 device="" if kind in _OF_HOST else f"DLPack device type {kind}")


def _library_of(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def view(array: Any, what: str, stream: Optional[int] = None) -> Array:
    """Returns a view of `array` for a run on `stream`, a cudaStream_t. Raises InputError, with
    `what` in the message, if `array` is not a supported array."""
    library = _library_of(array)
    if library == "numpy" and hasattr(array, "__array_interface__"):
        return _of_numpy(array)
    if library == "torch" and hasattr(array, "data_ptr"):
        return _of_torch(array)
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        try:
            return _of_dlpack(array, stream)
        except Exception as error:  # from __dlpack__(), or from reading the capsule
            raise InputError(f"{what}: cannot access the array through DLPack: "
                             f"{type(error).__name__}: {error}") from error
    raise InputError(f"{what}: expected an array from NumPy, PyTorch, CuPy or JAX, or an object "
                     f"with __dlpack__, got {type(array).__name__}")


def check(array: Array, spec: TensorSpec, what: str, is_on_host: bool) -> None:
    """Raises InputError unless a run accepts `array` as the program's tensor `spec`."""
    if is_on_host and array.device:
        raise InputError(f"{what} %{spec.name}: expected an array in host memory, got one on "
                         f"{array.device}")
    if what == "output" and not array.is_writable:
        raise InputError(f"{what} %{spec.name}: expected a writable array, got a read-only one")
    if array.dtype != spec.dtype or array.shape != spec.shape:
        raise InputError(f"{what} %{spec.name}: expected {spec.dtype}{list(spec.shape)}, got "
                         f"{array.dtype}{list(array.shape)}")
    if not array.is_contiguous:
        raise InputError(f"{what} %{spec.name}: expected a contiguous row-major array, got one "
                         "with different strides")


def note_write(array: Any) -> None:
    """Tells PyTorch that a run modifies `array` in place, so that autograd detects the change."""
    if _library_of(array) == "torch":
        sys.modules["torch"].autograd.graph.increment_version(array)


def empty_like(array: Any, spec: TensorSpec) -> Any:
    """Allocates the output `spec` with the library of the input `array`, on the same device."""
    library = _library_of(array)
    module = sys.modules.get(library)
    if library == "torch" and module:
        return module.empty(spec.shape, dtype=getattr(module, _THEIRS[spec.dtype]),
                            device=array.device)
    if library in ("numpy", "cupy") and module:
        return module.empty(spec.shape, dtype=_numpy_dtype(array, spec))
    raise InputError(f"output %{spec.name}: cannot allocate outputs for inputs from {library}; "
                     "pass out=")


def _numpy_dtype(array: Any, spec: TensorSpec) -> Any:
    if spec.dtype != "bf16":
        return _THEIRS[spec.dtype]
    if array.dtype.name == "bfloat16":
        return array.dtype
    raise InputError(f"output %{spec.name}: NumPy has no bf16 type; pass out= (the ml_dtypes "
                     "package provides bfloat16)")


def current_stream(array: Any) -> Optional[int]:
    """Returns PyTorch's current stream on the array's device, or CuPy's current stream. For CPU
    tensors and other libraries' arrays, returns None, which means the legacy default stream."""
    library = _library_of(array)
    module = sys.modules.get(library)
    if library == "torch" and module and array.is_cuda:
        return int(module.cuda.current_stream(array.device).cuda_stream)
    if library == "cupy" and module:
        return int(module.cuda.get_current_stream().ptr)
    return None
