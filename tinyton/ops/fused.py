"""Multiply and add as one operation, rounded once: the only place where + and * are contracted."""

from __future__ import annotations

import math

import numpy as np

from ..errors import KernelTypeError
from ..ir import Builder, Value
from . import op
from .typing import Operand, same_type


def _fma(x, y, z):
    x, y, z = np.broadcast_arrays(x, y, z)
    return (_fma32 if x.dtype == np.float32 else _fma64)(x, y, z)


def _fma32(x, y, z):
    """In float64 the product is exact. The sum is rounded to odd there, so that rounding it again, to float32, is as
    good as rounding once (Boldo and Melquiond, *Emulation of a FMA and correctly rounded sums*, 2008)."""
    product, z = x.astype(np.float64) * y, z.astype(np.float64)
    total = product + z
    back = total - product
    error = (product - (total - back)) + (z - back)
    inexact = np.isfinite(total) & (error != 0)
    even = total.view(np.int64) & 1 == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(total, toward), total).astype(np.float32)


def _exact(x, y, z):
    from fractions import Fraction

    total = Fraction(x) * Fraction(y) + Fraction(z)
    if not total:
        return x * y + z
    try:
        return float(total)
    except OverflowError:
        return math.copysign(math.inf, total)


def _fma64(x, y, z):
    out = np.array(x * y + z)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    if finite.any():
        out[finite] = np.vectorize(_exact, otypes=[np.float64])(x[finite], y[finite], z[finite])
    return out


@op(numpy=_fma, emit=lambda e, op, x, y, z: f"{e.math('fma', op.result.type.dtype)}({x}, {y}, {z})")
def fma(b: Builder, x: Operand, y: Operand, z: Operand) -> Value:
    """``x * y + z``, rounded once at the end: one instruction on a GPU, where ``x * y + z`` is two.

    For floats; float16 and bfloat16 are computed in float32 and rounded again.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def rest(x, out):
    ...     a = tt.load(x)
    ...     tt.store(out, tt.fma(a, a, -(a * a)))
    >>> out = np.zeros(1, np.float32)
    >>> rest[1](np.array([1 + 2**-23], np.float32), out)
    >>> float(out[0]) == 2**-46
    True
    """
    x, y, z = same_type(b, x, y, z)
    if not x.type.dtype.is_float:
        raise KernelTypeError(f"fma is for floats; on {x.type.dtype} write x * y + z, which is exact")
    return b.add("fma", (x, y, z), x.type)
