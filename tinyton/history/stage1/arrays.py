"""Arrays on the device."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from . import backends
from .dtypes import DType, from_numpy


class DeviceArray:
    """A contiguous array in the memory of the executor in use, row-major."""

    def __init__(self, executor: Any, handle: Any, shape: tuple[int, ...], dtype: DType):
        self.executor, self.handle, self.shape, self.dtype = executor, handle, shape, dtype

    def numpy(self) -> np.ndarray:
        """A copy on the host, when all launches before it are done."""
        out = np.empty(self.shape, self.dtype.numpy)
        self.executor.read(self.handle, out)
        return out


def empty(shape: Any, dtype: Any) -> DeviceArray:
    """A device array of undefined content."""
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    executor, element = backends.current(), from_numpy(dtype)
    return DeviceArray(executor, executor.allocate(prod(extents) * element.itemsize), extents, element)


def to_device(array: Any) -> DeviceArray:
    """A copy of a NumPy array on the device."""
    host = np.ascontiguousarray(array)
    out = empty(host.shape, host.dtype)
    out.executor.write(out.handle, host)
    return out


def synchronize() -> None:
    """Waits until the device has done all that was launched."""
    backends.current().synchronize()
