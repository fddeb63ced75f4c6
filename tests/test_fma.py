"""Fused multiply-add: one rounding, on every executor, in the corners where two roundings show."""

from fractions import Fraction

import numpy as np
import pytest

import tinyton as tt
from conftest import same_bits


@tt.jit
def k(x, y, z, out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    m = i < n
    tt.store(out + i, tt.fma(tt.load(x + i, mask=m), tt.load(y + i, mask=m), tt.load(z + i, mask=m)), mask=m)


def cases(dtype):
    rng = np.random.default_rng(7)
    info = np.finfo(dtype)
    x, y = (rng.standard_normal(400).astype(dtype) for _ in "xy")
    z = (-(x * y)).astype(dtype)  # what is left is the product's rounding error
    z[:200] = (rng.standard_normal(200) * 10.0 ** rng.integers(-12, 12, 200)).astype(dtype)
    x[-8:] = [0, -0.0, np.inf, np.inf, np.nan, info.max, info.tiny, 1 + info.eps]
    y[-8:] = [1, 1, 0, 2, 1, 2, info.tiny, 1 + info.eps]
    z[-8:] = [-0.0, -0.0, 1, -np.inf, 1, -info.max, 0, -1]
    return x, y, z


def once_rounded(x, y, z, dtype):
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if not exact:
        return x * y + z
    if abs(exact) > Fraction(float(np.finfo(dtype).max)):
        return dtype(np.inf if exact > 0 else -np.inf)
    if dtype == np.float64:
        return np.float64(exact.numerator / exact.denominator)
    low = dtype(exact.numerator / exact.denominator)
    near = [low, np.nextafter(low, dtype(-np.inf)), np.nextafter(low, dtype(np.inf))]
    return min(filter(np.isfinite, near), key=lambda c: (abs(Fraction(float(c)) - exact), c.view(np.uint32) & 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounded_once(mapping, dtype):
    x, y, z = cases(dtype)
    out = np.zeros_like(x)
    k[1](x, y, z, out, len(x), BLOCK=512, num_warps=mapping.warps)
    with np.errstate(all="ignore"):
        want = x * y + z
        for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y) & np.isfinite(z)):
            want[i] = once_rounded(x[i], y[i], z[i], dtype)
    same_bits(out, want)


def test_not_for_integers(interpreter):
    x = np.zeros(4, np.int32)
    with pytest.raises(tt.KernelTypeError, match="fma is for floats; on int32 write"):
        k[1](x, x, x, x, 4, BLOCK=4)
