"""The arrays of a launch, byte by byte: kept while a kernel is tried, put back afterwards, compared with what they
should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .arrays import host_spans, memory
from .dtypes import DType, bool_, unpack
from .errors import TinytonError
from .ir import origins
from .ops import OPS
from .replay import place

TOLERANCE = {
    "float8_e5m2": 0.5,
    "float8_e4m3fn": 0.25,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "float32": 1e-4,
    "float64": 1e-9,
}  # where sums may be reordered


class Held:
    """The memory of one array argument, on the host or on the device."""

    def __init__(self, name: str, x: Any, dtype: DType, executor: Any):
        self.name, self.dtype, self.executor = name.removesuffix(".data"), dtype, executor
        if isinstance(x, np.ndarray):
            self.span, self.first = host_spans({name: x})[name]
            self.space, self.where, self.nbytes = "host", None, self.span[1] - self.span[0]
        else:
            self.where, self.nbytes, self.first = place(executor, name, x)
            on_device = isinstance(self.where, int) or executor.name == "cuda"
            start = int(self.where) if on_device else 0
            self.space, self.span = on_device or id(self.where), (start, start + self.nbytes)
        self.shape = tuple(x.shape)
        torch = hasattr(x, "element_size")
        self.strides = tuple(s * x.element_size() for s in x.stride()) if torch else tuple(x.strides)

    def keep(self) -> None:
        """Notes its bytes, for `restore`."""
        self.original = self.read()

    def read(self) -> np.ndarray:
        """A copy of its bytes."""
        if self.where is None:
            return memory(*self.span).copy()
        out = np.zeros(self.nbytes, np.uint8)
        if out.size:
            self.executor.read(self.where, out)
        return out

    def write(self, data: np.ndarray) -> None:
        if self.where is None:
            memory(*self.span)[: data.size] = data
        elif data.size:
            self.executor.write(self.where, data)

    def fill(self, byte: int) -> None:
        self.write(np.full(self.nbytes, byte, np.uint8))

    def poison(self) -> None:
        """NaN, or -1: what nobody has written shows."""
        self.fill(1 if self.dtype is bool_ else 0xFF)

    def restore(self) -> None:
        self.write(self.original)

    def array(self, data: np.ndarray | None = None) -> np.ndarray:
        """Its elements on the host, as they are now or as they are in ``data``; bfloat16 and float8 as float32."""
        data = self.read() if data is None else data
        elements = np.ndarray(self.shape, self.dtype.numpy, data.data, self.first, self.strides)
        return unpack(elements, self.dtype) if self.dtype.foreign else elements

    def overlaps(self, other: Held) -> bool:
        return self.space == other.space and max(self.span[0], other.span[0]) < min(self.span[1], other.span[1])


def hold(compiled: Any, bound: Mapping[str, Any]) -> tuple[list[Held], list[Held]]:
    """The arrays that a kernel stores to; and those of them that it only stores to, of which nothing is lost if they
    are poisoned before. ``bound`` has the arguments by name."""
    pointers = {n: a.dtype for n, a in compiled.specialization.args if a.kind == "pointer"}
    found = {n: Held(n, bound[n], dtype, compiled.executor) for n, dtype in pointers.items()}
    read = origins(compiled.ir, (op.operands[0] for op in compiled.ir.ops() if OPS[op.name].reads), pointers=True)
    kept = [h for n, h in found.items() if n in compiled.stored]
    inputs = [found[v.name] for v in compiled.ir.params if v in read and v.name in found]
    return kept, [h for h in kept if not any(h.overlaps(x) for x in inputs)]


def difference(name: str, got: np.ndarray, want: Any, tolerance: float | None, dtype: DType) -> str:
    """What is wrong about an array, in a sentence; empty if nothing is. Floats may differ by ``tolerance`` times their
    size, or the mean size of all if that is more; NaN equals NaN, and integers are equal or wrong."""
    want = np.asarray(want)
    if want.shape != got.shape:
        raise TinytonError(f"the reference gives {name} the shape {want.shape}; the array has {got.shape}")
    if dtype.is_float:
        x, y = got.astype(np.float64), want.astype(np.float64)
        finite = np.abs(y[np.isfinite(y)])
        size = np.maximum(np.abs(y), finite.mean() if finite.size else 0)
        with np.errstate(invalid="ignore"):
            near = np.abs(x - y) <= (TOLERANCE[dtype.name] if tolerance is None else tolerance) * size
        right = (x == y) | np.isnan(x) & np.isnan(y) | near & np.isfinite(y)
    else:
        right = got == want
    if right.all():
        return ""
    at = tuple(int(k) for k in np.argwhere(~right)[0])
    first = f"the first at {at[0] if len(at) == 1 else at}: {got[at]}, not {want[at]}"
    return f"{(~right).sum():,} of {right.size:,} elements of {name} are wrong, {first}"
