"""Floats of 8 bits: what they are in memory, how others become them, and products of them, against ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import kernel
from tinyton.dtypes import pack, unpack

NUMPY = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
MOST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}

each = pytest.mark.parametrize("name", NUMPY)


def codes(name):
    return np.arange(256, dtype=np.uint8).view(NUMPY[name])


def floats(name):
    """All numbers of a type, all ties between two of them and what is beside those, what is too large, and others."""
    values = codes(name).astype(np.float32)
    values = np.sort(values[np.isfinite(values)])
    ties = (values[1:] + values[:-1]) / 2
    beside = [np.nextafter(ties, np.float32(to)) for to in (-np.inf, np.inf)]
    rng = np.random.default_rng()
    others = rng.integers(0, 1 << 32, 2000, np.uint64).astype(np.uint32).view(np.float32)
    sizes = (rng.standard_normal(2000) * 10.0 ** rng.integers(-8, 6, 2000)).astype(np.float32)
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.1 * MOST[name], -1e30, 1e-45, 464.0]
    return np.concatenate([values, ties, *beside, others, sizes, np.float32(special)])


def rounded(x, name):
    """By ml_dtypes, which does not saturate; the codes."""
    with np.errstate(all="ignore"):
        found = np.clip(x, -MOST[name], MOST[name]).astype(NUMPY[name]).view(np.uint8)
    return np.where(np.isnan(x), 0x7F, found)


@each
def test_on_the_host(name):
    dtype, x = getattr(tt, name), floats(name)
    np.testing.assert_array_equal(unpack(codes(name).view(np.uint8), dtype), codes(name).astype(np.float32))
    np.testing.assert_array_equal(pack(x, dtype), rounded(x, name))
    assert dtype.itemsize == 1 and dtype.register is tt.float32 and dtype == np.dtype(NUMPY[name])
    assert tt.dtypes.from_numpy(NUMPY[name]) is dtype


@each
def test_every_code_there_and_back(name, executor):
    k = kernel("""
@tt.jit
def k(x, wide, out, B: tt.constexpr):
    i = tt.arange(0, B)
    v = tt.load(x + i)
    tt.store(wide + i, v.to(tt.float32))
    tt.store(out + i, tt.load(wide + i))
""")
    x, wide, out = codes(name), np.zeros(256, np.float32), np.zeros(256, NUMPY[name])
    k[1](x, wide, out, B=256)
    np.testing.assert_array_equal(wide, x.astype(np.float32))
    np.testing.assert_array_equal(out.view(np.uint8), rounded(wide, name))  # of e5m2, infinity becomes the largest


@each
def test_floats_are_rounded_to_nearest_even_and_saturate(name, executor):
    k = kernel("""
@tt.jit
def k(x, out, again, n, B: tt.constexpr):
    i = tt.program_id(0) * B + tt.arange(0, B)
    v = tt.load(x + i, mask=i < n)
    tt.store(out + i, v, mask=i < n)
    tt.store(again + i, v.to(out.dtype.element_ty).to(tt.float32), mask=i < n)
""")
    x = floats(name)
    out, again = np.zeros(x.size, NUMPY[name]), np.zeros(x.size, np.float32)
    k[tt.cdiv(x.size, 256)](x, out, again, x.size, B=256)
    np.testing.assert_array_equal(out.view(np.uint8), rounded(x, name))
    np.testing.assert_array_equal(again, out.astype(np.float32))


@each
def test_arithmetic_is_rounded_after_every_operation(name, executor):
    k = kernel("""
@tt.jit
def k(x, y, out, bits, B: tt.constexpr):
    i = tt.arange(0, B)
    a, b = tt.load(x + i), tt.load(y + i)
    tt.static_assert((a * b + 1).dtype == x.dtype.element_ty)
    tt.store(out + i, tt.maximum(a * b + 1.5, -a))
    tt.store(bits + i, a.to(tt.uint8, bitcast=True))
    tt.store(out + B + tt.arange(0, 1), tt.sum(a, 0))
""")
    x, y = np.random.default_rng().standard_normal((2, 64)).astype(NUMPY[name])
    out, bits = np.zeros(65, NUMPY[name]), np.zeros(64, np.uint8)
    k[1](x, y, out, bits, B=64)
    a, b = x.astype(np.float32), y.astype(np.float32)
    product = (a * b).astype(NUMPY[name]).astype(np.float32)
    np.testing.assert_array_equal(out[:64], np.maximum((product + 1.5).astype(NUMPY[name]), -x))
    np.testing.assert_array_equal(bits, x.view(np.uint8))
    step = np.abs(a.sum()) * float(ml_dtypes.finfo(NUMPY[name]).eps)
    assert abs(float(out[64]) - a.sum()) <= step / 2 + 1e-3


@each
def test_arrays(name, executor):
    dtype = getattr(tt, name)
    x = np.random.default_rng().standard_normal((6, 8)).astype(NUMPY[name])[::2, 1:]
    for given in (tt.to_device(x), tt.to_device(x.astype(np.float32), dtype), tt.to_device(x, NUMPY[name])):
        assert given.dtype is dtype and given.nbytes == 21
        np.testing.assert_array_equal(given.numpy(), x.astype(np.float32))
    np.testing.assert_array_equal(tt.to_device(x, tt.float32).numpy(), x.astype(np.float32))
    assert tt.zeros(5, dtype).numpy().tolist() == [0.0] * 5 and tt.empty((2, 3), dtype).shape == (2, 3)


def test_torch_has_no_name_for_them_in_the_interface_of_cuda_arrays(interpreter, monkeypatch):
    from tinyton.arrays import from_dlpack

    class Tensor:
        is_cuda = True

        @property
        def __cuda_array_interface__(self):
            raise KeyError("torch.float8_e4m3fn")

    tensor, executor = Tensor(), tt.backends.current()
    monkeypatch.setattr(type(executor), "name", "cuda")
    assert from_dlpack("x", tensor) is tensor


@pytest.mark.parametrize("sums", ["float32", "float16"])
@each
def test_products(name, sums, executor):
    k = kernel("""
@tt.jit
def k(a, b, c, M: tt.constexpr, N: tt.constexpr, K: tt.constexpr, SUM: tt.constexpr):
    i, j, k = tt.arange(0, M), tt.arange(0, N), tt.arange(0, K)
    x, y = tt.load(a + i[:, None] * K + k), tt.load(b + k[:, None] * N + j)
    tt.store(c + i[:, None] * N + j, tt.dot(x, y, out_dtype=SUM))
""")
    rng = np.random.default_rng()
    for m, n, inner in ((16, 16, 32), (32, 8, 64), (2, 4, 4)):
        a = rng.standard_normal((m, inner)).astype(NUMPY[name])
        b = rng.standard_normal((inner, n)).astype(NUMPY[name])
        c = np.zeros((m, n), sums)
        k[1](a, b, c, M=m, N=n, K=inner, SUM=getattr(tt, sums))
        want, sizes = a.astype(float) @ b.astype(float), np.abs(a.astype(float)) @ np.abs(b.astype(float))
        assert (np.abs(c - want) <= sizes * (2.0**-20 if sums == "float32" else 2.0**-10)).all()


@pytest.mark.parametrize("fast", [False, True])
@each
def test_products_of_array_tiles(name, fast, executor):
    @ct.kernel
    def k(a, b, c, FAST: ct.Constant[bool]):
        x, y = ct.load(a, (0, 0), (16, 32)), ct.load(b, (0, 0), (32, 16))
        ct.store(c, (0, 0), ct.mma(x, y, ct.zeros((16, 16), ct.float32), use_fast_acc=FAST))

    rng = np.random.default_rng()
    a, b = rng.standard_normal((16, 32)).astype(NUMPY[name]), rng.standard_normal((32, 16)).astype(NUMPY[name])
    c = np.zeros((16, 16), np.float32)
    ct.launch(None, (1,), k, (a, b, c, fast))
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-4)


def test_what_is_refused(interpreter):
    x = tt.zeros(4, tt.float8_e4m3fn)
    for text, error, message in (
        (
            "tt.load(x) + 500.0",
            tt.KernelValueError,
            "500.0 is out of range for float8_e4m3fn, whose largest number is 448",
        ),
        ("tt.load(x) + tt.load(x).to(tt.float8_e5m2)", tt.KernelTypeError, r"no common type; write .to\(tt.float32\)"),
        ("tt.atomic_add(x, 1.0)", tt.KernelTypeError, "not of float8_e4m3fn"),
    ):
        with pytest.raises(error, match=message):
            kernel(f"@tt.jit\ndef k(x):\n    tt.store(x, {text})")[1](x)


@pytest.mark.parametrize("other", ["float16", "bfloat16", "float32", "float64"])
def test_beside_a_wider_float(other, interpreter):
    k = kernel("""
@tt.jit
def k(x, y):
    tt.static_assert((tt.load(x) * tt.load(y)).dtype == y.dtype.element_ty)
""")
    k[1](tt.zeros(1, tt.float8_e4m3fn), tt.zeros(1, other))
