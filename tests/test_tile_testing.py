"""ct.testing: default types, tolerances and shapes, and comparing results."""

import math
import re

import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
import tinyton.tile.testing
from tinyton.tile.testing import assert_close, default_shape, tolerances


def test_names():
    assert ct.testing is tinyton.tile.testing
    assert ct.testing.default_dtype() is ct.float16


class Named:
    """As torch's dtypes are written."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


@pytest.mark.parametrize("name, much", [("float32", 1e-3), ("float16", 1e-2), ("bfloat16", 1e-2)])
def test_tolerances_of_floats(name, much):
    assert tolerances(name) == tolerances(getattr(ct, name)) == tolerances(Named(name)) == (much, much)
    if name != "bfloat16":
        assert tolerances(np.dtype(name)) == tolerances(getattr(np, name)) == (much, much)


def test_tolerances_of_others():
    assert all(0 < t < 1e-6 for t in tolerances(np.float64))
    for exact in (ct.int8, ct.uint64, ct.bool_, np.int32, bool, Named("int64")):
        assert tolerances(exact) == (0, 0)
    with pytest.raises(ct.TileTypeError, match="complex64"):
        tolerances(np.complex64)


@pytest.mark.parametrize("limit", [1, 5, 1000, 1 << 20, 123456789])
def test_shapes(limit):
    for ndim in range(1, 6):
        shape = default_shape(ndim, limit)
        assert len(shape) == ndim and all(n & (n - 1) == 0 for n in shape)
        assert math.prod(shape) <= limit < 2 * math.prod(shape)
        assert list(shape) == sorted(shape) and shape[-1] <= 2 * shape[0]
    assert default_shape(0, limit) == ()
    with pytest.raises(ValueError, match="at least"):
        default_shape(-1, limit)


def off(actual, expected, *words, **options):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_closeness():
    x = np.random.default_rng().normal(size=(3, 5)).astype(np.float32)
    assert_close(x, x.astype(np.float64) * 1.0005)
    assert_close(x.astype(np.float16), x, rtol=None)
    off(x, x * 2 + 1, "15 of 15", "0.001 + 0.001 * abs(expected), for float32")
    y = x.copy()
    y[1, 2] += 0.5
    y[2, 0] -= 3
    off(x, y, "2 of 15", "first at (1, 2)", "worst at (2, 0)", str(x[1, 2].item()), str(y[2, 0].item()))
    assert_close(x, y, atol=4)
    assert_close(x, y, atol=0, rtol=1e9)
    off(x, x + 0.005, "float32")
    assert_close(x, x + 0.005, dtype=np.float16)
    off(x.astype(np.float16), x + 0.005, dtype=ct.float32)


def test_tolerance_is_of_expected():
    assert_close(np.float32([1000.9]), np.float32([1000]))
    off(np.float32([0.0]), np.float32([0.002]))


def test_ints_are_exact():
    big = np.int64([1 << 60, (1 << 60) + 1])
    assert_close(big, big.copy())
    off(big, big[::-1].copy(), "2 of 2", "for int64")
    assert_close(np.int32([1, 2]), [1, 2])
    off(np.int32([1, 2]), [1, 2.5], "first at (1,): 2, expected 2.5")
    off(np.bool_([True, False]), np.bool_([True, True]), "1 of 2")
    assert_close(np.int32([10, 20]), np.int32([11, 20]), atol=1)
    assert_close(np.uint8([0]), np.int64([0]))


def test_nan_and_infinity():
    nan, inf = np.nan, np.inf
    assert_close(np.float32([nan, inf, -inf, -0.0]), [nan, inf, -inf, 0])
    for a, e in [(nan, 1), (1, nan), (inf, -inf), (1, inf), (inf, 1e30), (inf, nan)]:
        off(np.float32([0, a]), np.float32([0, e]), "1 of 2", "first at (1,)")


def test_shapes_must_agree():
    off(np.zeros((2, 3)), np.zeros((3, 2)), "(2, 3)", "(3, 2)")
    off(np.zeros((2, 1)), np.zeros(2), "(2, 1)", "(2,)")
    assert_close(np.full((2, 3), 2.0), 2)
    assert_close(np.zeros((0, 3)), np.zeros((0, 3)))
    off(np.float32(1.5), 2, "first at (): 1.5, expected 2")


def test_arrays_of_devices(executor):
    x = np.random.default_rng().normal(size=40).astype(np.float32)
    assert_close(tt.to_device(x), x)
    half = tt.to_device(x, tt.bfloat16)
    assert_close(half, x)
    off(half, x + 0.1, "for bfloat16")
    off(tt.to_device(x), half.numpy() + 1)
    assert_close(x, half)


def test_foreign_arrays():
    class Tensor:
        """What is asked of a torch tensor."""

        def __init__(self, array, name):
            self.array, self.dtype = array, Named(name)

        def detach(self):
            return Tensor(self.array, self.dtype.name)

        cpu = detach

        def float(self):
            return Tensor(self.array, "float32")

        def numpy(self):
            assert self.dtype.name != "bfloat16"
            return self.array

    class Gpu:
        """What is asked of an array of CuPy or PyCUDA."""

        def __init__(self, array):
            self.array, self.dtype = array, array.dtype

        def get(self):
            return self.array

    x = np.linspace(1, 2, 9, dtype=np.float32)
    assert_close(Tensor(x, "bfloat16"), x * 1.005)
    off(Tensor(x, "float32"), x * 1.005, "for float32")
    assert_close(Gpu(x), Tensor(x, "float32"))
    off(Gpu(x), x + 1, "9 of 9")


def test_real_bfloat16_and_torch():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.linspace(1, 2, 9, dtype=np.float32)
    assert_close(x.astype(ml_dtypes.bfloat16), x)
    off(x.astype(ml_dtypes.bfloat16), x * 1.1, "for bfloat16")


def test_message_is_short():
    with pytest.raises(AssertionError) as caught:
        assert_close(np.zeros(1 << 16), np.ones(1 << 16))
    assert len(str(caught.value)) < 300 and re.search("65536 of 65536", str(caught.value))
