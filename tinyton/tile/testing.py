"""`ct.testing`, on the host: what tests and benches of kernels take when nothing else is said.

>>> import numpy as np, tinyton.tile as ct
>>> x = np.linspace(0, 1, 64, dtype=np.float16)
>>> ct.testing.assert_close(x * x, x.astype(np.float64) ** 2)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import DeviceArray
from ..dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, float64, from_numpy
from .kernel import RangeError

# float64: what a sum of a million terms may lose at worst, 2e-10, and some
TOLERANCES = {float32: 1e-3, float16: 1e-2, bfloat16: 1e-2, float64: 1e-9, float8_e4m3fn: 0.1, float8_e5m2: 0.2}


def default_dtype() -> DType:
    """The element type to take if none is asked for: float16.

    >>> import tinyton.tile as ct
    >>> ct.testing.default_dtype()
    float16
    """
    return float16


def tolerances(dtype: Any) -> tuple[float, float]:
    """``(atol, rtol)`` for results of this element type, which may be NumPy's, torch's, or a name: 1e-3 each for
    float32, 1e-2 for float16 and bfloat16, 0.1 and 0.2 for float8_e4m3fn and float8_e5m2, 1e-9 for float64; ints and
    bools are exact. `TileTypeError` for another.

    >>> import numpy as np, tinyton.tile as ct
    >>> [ct.testing.tolerances(dtype) for dtype in (np.float32, "bfloat16", np.int8)]
    [(0.001, 0.001), (0.01, 0.01), (0.0, 0.0)]
    """
    much = TOLERANCES.get(from_numpy(dtype), 0.0)
    return much, much


def default_shape(ndim: int, limit: int = 1 << 20) -> tuple[int, ...]:
    """A shape to test with: ``ndim`` powers of two whose product is the greatest one up to ``limit``, as equal as they
    can be, the last ones greater. `RangeError`, a ValueError, if ``ndim`` is negative or ``limit`` below 1.

    >>> import tinyton.tile as ct
    >>> ct.testing.default_shape(1), ct.testing.default_shape(2), ct.testing.default_shape(3, 1000)
    ((1048576,), (1024, 1024), (8, 8, 8))
    """
    if ndim < 0 or limit < 1:
        raise RangeError(f"a shape has at least 0 dimensions and 1 element, not {ndim} and {limit}")
    bits = int(limit).bit_length() - 1
    return tuple(1 << (bits + d) // ndim for d in range(ndim))


def assert_close(
    actual: Any, expected: Any, dtype: Any = None, atol: float | None = None, rtol: float | None = None
) -> None:
    """`AssertionError` unless ``actual`` has the shape of ``expected`` (which may also be one number) and every element
    is within ``atol + rtol * abs(expected)``, computed in float64. The message tells how many elements are not, the
    first one and the worst one.

    Arrays are NumPy's, `DeviceArray`, torch's, CuPy's, PyCUDA's or nested lists, wherever they are. Tolerances that are
    not given are those of ``dtype``; without one, the wider of the two arrays'. Ints are compared exactly unless
    tolerances are given. NaN is close to NaN only, an infinity to itself.

    >>> import numpy as np, tinyton.tile as ct
    >>> ct.testing.assert_close(np.float32([1, 2, 4]), [1, 2.5, 3])
    Traceback (most recent call last):
      ...
    AssertionError: 2 of 3 elements are further off than 0.001 + 0.001 * abs(expected), for float32
      first at (1,): 2.0, expected 2.5, off by 0.5
      worst at (2,): 4.0, expected 3.0, off by 1.0
    """
    (x, given), (y, wanted) = on_host(actual), on_host(expected)
    if x.shape != y.shape and y.shape:
        raise AssertionError(f"the shape is {x.shape}, expected {y.shape}")
    y = np.broadcast_to(y, x.shape)
    numbers = not hasattr(expected, "dtype")  # they are of no type of their own
    types = [from_numpy(dtype)] if dtype is not None else [given] if numbers else [given, wanted]
    much, kind = max(((tolerances(t)[0], t) for t in types), key=lambda pair: pair[0])
    atol, rtol = much if atol is None else atol, much if rtol is None else rtol
    a, e = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(a - e)
        close = (x == y) | (np.isnan(a) & np.isnan(e))
        if atol or rtol:
            close |= np.isfinite(a) & np.isfinite(e) & (off <= atol + rtol * np.abs(e))
    if close.all():
        return
    wrong = np.argwhere(~close)
    worst = max(wrong, key=lambda at: np.nan_to_num(off[tuple(at)], nan=np.inf))
    message = f"{len(wrong)} of {x.size} elements are further off than {atol} + {rtol} * abs(expected), for {kind}"
    for word, at in (("first", wrong[0]), ("worst", worst)):
        place = tuple(int(i) for i in at)
        message += f"\n  {word} at {place}: {x[place].item()}, expected {y[place].item()}, off by {off[place]}"
    raise AssertionError(message)


def on_host(x: Any) -> tuple[np.ndarray, DType]:
    """The values of an array on the host, bfloat16 and float8 as float32, and its element type."""
    if isinstance(x, DeviceArray):
        return x.numpy(), x.dtype
    if hasattr(x, "detach"):  # torch
        tensor = x.detach().cpu()
        return (tensor.float() if from_numpy(x.dtype).foreign else tensor).numpy(), from_numpy(x.dtype)
    host = np.asarray(x.get() if hasattr(x, "get") and hasattr(x, "dtype") else x)  # CuPy, PyCUDA, PyOpenCL
    kind = from_numpy(host.dtype)
    return host.astype(np.float32) if kind.foreign else host, kind
