"""Arrays as kernels see them: ours on the device, and those of NumPy, PyCUDA, PyOpenCL, torch, CuPy as they are."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import suppress
from math import prod
from operator import index
from typing import Any

import numpy as np

from . import backends
from .dtypes import BY_NAME, DType, float32, from_numpy, pack, unpack
from .errors import BackendError, KernelTypeError, LaunchError


class DeviceArray:
    """A contiguous array in the memory of the executor in use, row-major.

    >>> import numpy as np, tinyton as tt
    >>> x = tt.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> x.shape, x.dtype, float(x.numpy().sum())
    ((2, 3), float32, 15.0)
    """

    __slots__ = ("executor", "handle", "shape", "dtype", "address", "__weakref__")

    def __init__(self, executor: Any, handle: Any, shape: tuple[int, ...], dtype: DType):
        self.executor, self.handle, self.shape, self.dtype = executor, handle, shape, dtype
        self.address = int(handle) if executor.name == "cuda" else 0

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each dimension."""
        return tuple(prod(self.shape[d + 1 :]) * self.dtype.itemsize for d in range(len(self.shape)))

    def numpy(self) -> np.ndarray:
        """A copy on the host, when all launches before it are done. bfloat16 and float8 come as float32."""
        out = np.empty(self.shape, self.dtype.numpy)
        if out.size:
            self.executor.read(self.handle, out)
        return unpack(out, self.dtype) if self.dtype.foreign else out

    def data_ptr(self) -> int:
        """The address on the device (cuda only)."""
        if self.executor.name != "cuda":
            raise BackendError(f"an array of the {self.executor.name} backend has no address")
        return self.address

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        raise LaunchError("this array is on the device; x.numpy() copies it to the host")

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        if self.executor.name != "cuda":
            raise AttributeError("__cuda_array_interface__")
        words = {"shape": self.shape, "typestr": self.dtype.numpy.str, "strides": None, "version": 3}
        return words | {"data": (self.address, False)}

    def __repr__(self) -> str:
        return f"DeviceArray({list(self.shape)}, {self.dtype}, {self.executor.name})"


def _shape(shape: Any) -> tuple[int, ...]:
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    try:
        found = tuple(index(n) for n in extents if not isinstance(n, (bool, np.bool_)))
    except TypeError:
        found = ()
    if len(found) < len(extents) or any(n < 0 for n in found):
        raise LaunchError(f"a shape is made of ints from 0 on, not {shape!r}")
    return found


def empty(shape: Any, dtype: Any = float32) -> DeviceArray:
    """A device array of undefined content. ``shape`` an int or a tuple, ``dtype`` ours or NumPy's."""
    executor, element, extents = backends.current(), from_numpy(dtype), _shape(shape)
    return DeviceArray(executor, executor.allocate(prod(extents) * element.itemsize), extents, element)


def zeros(shape: Any, dtype: Any = float32) -> DeviceArray:
    """A device array of zeros."""
    out = empty(shape, dtype)
    if out.size:
        out.executor.write(out.handle, np.zeros(out.shape, out.dtype.numpy))
    return out


def to_device(array: Any, dtype: Any = None) -> DeviceArray:
    """A copy of a NumPy array (any strides) on the device; ``dtype`` converts, for example to ``tt.bfloat16``."""
    host = np.asarray(array)
    element = from_numpy(host.dtype if dtype is None else dtype)
    if (source := BY_NAME.get(host.dtype.name)) and source.foreign:
        data = host.view(source.numpy) if source is element else pack(host.astype(np.float32), element)
    else:
        data = pack(host, element) if host.dtype != element.numpy or element.foreign else host
    out = empty(host.shape, element)
    if out.size:
        out.executor.write(out.handle, np.ascontiguousarray(data))
    return out


def synchronize() -> None:
    """Waits until the device has done all that was launched."""
    backends.current().synchronize()


class _DLTensor(ctypes.Structure):
    """DLPack's description of an array; dlpack.h of its version 0."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32)]
    _fields_ += [("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8)]
    _fields_ += [("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64))]
    _fields_ += [("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


class Imported:
    """Another library's array, which ``owner`` keeps alive, in words that NumPy and the executors understand."""

    def __init__(self, owner: Any, address: int, shape: tuple, strides: tuple, dtype: np.dtype):
        self.owner, self.shape, self.strides, self.dtype = owner, shape, strides, dtype
        word = f"|V{dtype.itemsize}" if dtype.isbuiltin == 2 else dtype.str  # 2: of ml_dtypes
        words = {"data": (address, False), "shape": shape, "strides": strides, "typestr": word, "version": 3}
        self.__array_interface__ = self.__cuda_array_interface__ = words


def from_dlpack(name: str, x: Any) -> Any:
    """An object that speaks DLPack as something that executors know, without a copy: arrays on the CPU for every
    executor, those on CUDA devices for cuda. LaunchError if it is elsewhere, or may not be written to."""
    if isinstance(x, np.ndarray):
        return x
    on_cuda = backends.current().name == "cuda"
    if on_cuda and (hasattr(x, "is_cuda") or hasattr(x, "__cuda_array_interface__")):  # torch's has no float8 there
        return x
    try:
        capsule = x.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        t = _DLTensor.from_address(get(capsule, b"dltensor"))
    except Exception as error:
        raise LaunchError(f"argument {name}: this {type(x).__name__} is not shared through DLPack: {error}") from None
    known = {(kind, bits, 1): f"{c}{bits // 8}" for kind, c in enumerate("iuf") for bits in (8, 16, 32, 64)}
    known |= {(6, 8, 1): "?", (4, 16, 1): "bfloat16", (10, 8, 1): "float8_e4m3fn", (12, 8, 1): "float8_e5m2"}
    with suppress(ImportError):
        import ml_dtypes  # noqa: F401  (from which NumPy knows the types that it does not have by itself)
    try:
        dtype = np.dtype(known[t.code, t.bits, t.lanes])
    except (KeyError, TypeError):
        what = f"argument {name} has elements of {t.bits} bits and DLPack's type {t.code}"
        raise KernelTypeError(f"{what}; copy it first") from None
    shape = tuple(t.shape[: t.ndim])
    steps = t.strides[: t.ndim] if t.strides else [prod(shape[d + 1 :]) for d in range(t.ndim)]
    strides, address = tuple(n * dtype.itemsize for n in steps), (t.data or 0) + t.offset
    array = Imported(capsule, address, shape, strides, dtype)
    if t.device in (2, 13) and on_cuda:  # its memory, or memory that it shares with the host
        return array
    if t.device not in (1, 3):
        where = "a CUDA device" if t.device in (2, 13) else f"a device of DLPack's type {t.device}"
        raise LaunchError(f"argument {name} is on {where}; this launch is on {backends.current().name}")
    return np.asarray(array).view(dtype)


Span = tuple[int, int]  # addresses, from the first byte to behind the last


def host_spans(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[Span, int]]:
    """Where the NumPy arguments of a launch are: their memory, merged where it overlaps, so that two views of one array
    stay views of one array on the device, and strides mean what they mean on the host; and the byte of that memory
    where an array's first element is."""
    bounds, spans = {name: _bounds(a) for name, a in arrays.items()}, []
    for low, high in sorted(bounds.values()):
        if spans and low < max(spans[-1][1], spans[-1][0] + 1):
            low, before = spans.pop()
            high = max(high, before)
        spans.append((low, high))
    out = {}
    for name, a in arrays.items():
        span = next(s for s in reversed(spans) if s[0] <= bounds[name][0])
        out[name] = span, a.__array_interface__["data"][0] - span[0] if a.size else 0
    return out


def _bounds(a: np.ndarray) -> Span:
    low = high = a.__array_interface__["data"][0]
    if not a.size:
        return low, low
    for n, stride in zip(a.shape, a.strides, strict=True):
        low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
    return low, high + a.itemsize


def memory(low: int, high: int) -> np.ndarray:
    """Host memory as bytes."""
    if high == low:
        return np.zeros(16, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), np.uint8)


def check_host(name: str, a: np.ndarray) -> DType:
    """The element type of a NumPy argument; refuses what has no fixed-size elements or breaks them up."""
    if hasattr(a, "mask"):
        raise KernelTypeError(f"argument {name} is a masked array; pass its .data, or a copy with .filled(value)")
    if not a.dtype.isnative:
        what = f"argument {name} has byte order {a.dtype.byteorder}"
        raise KernelTypeError(f"{what}; convert it with .astype({a.dtype.newbyteorder('=')})")
    try:
        element = from_numpy(a.dtype)
    except KernelTypeError as error:
        raise KernelTypeError(f"argument {name}: {error.message}") from None
    if any(s % element.itemsize for s in a.strides) or a.__array_interface__["data"][0] % element.itemsize:
        what = f"argument {name} has strides {a.strides}, not multiples of {element.itemsize} bytes"
        raise KernelTypeError(f"{what}; copy it first")
    return element
