"""Reductions: op x dtype x axis on every executor, then every number of warps and every extent of a tile."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import Guarded, kernel, mappings, same_bits

NP = {d.name: np.dtype(d.name if d.name != "bfloat16" else ml_dtypes.bfloat16) for d in tt.dtypes.ALL}
FLOATS = ("float16", "bfloat16", "float32", "float64")
NARROW = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16")
M, N = 16, 32
SUMMED = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
AXES = {"all": None, "rows": 0, "columns": 1, "last": -1}

KERNEL = """
@tt.jit
def k(x, sums, most, least, T: tt.constexpr, S: tt.constexpr, M: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, M)
    j = tt.arange(0, N)
    a = tt.load(x + i[:, None] * N + j[None, :])
    tt.store(sums, tt.sum(a))
    tt.store(most, tt.max(a))
    tt.store(least, tt.min(a))
    tt.static_assert(tt.sum(a).dtype == S and tt.sum(a, 0).dtype == S and tt.max(a).dtype == T)
    tt.store(sums + 1 + j, tt.sum(a, 0))
    tt.store(most + 1 + j, tt.max(a, 0))
    tt.store(least + 1 + j, tt.min(a, axis=0))
    tt.store(sums + 1 + N + i, tt.sum(a, axis=1))
    tt.store(most + 1 + N + i, tt.max(a, 1))
    tt.store(least + 1 + N + i, tt.min(a, -1))
    c = tt.sum(a, 1, keep_dims=True)
    tt.static_assert(c.shape == (M, 1))
    tt.store(sums + 1 + N + M + i[:, None], c)
"""


def tile(dtype):
    rng = np.random.default_rng(5)
    if dtype == "bool":
        return rng.random((M, N)) < 0.5
    if dtype not in (*FLOATS, *NARROW):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (M, N), dtype, endpoint=True)
    return rng.standard_normal((M, N)).astype(NP[dtype])


@cache
def results(mapping, dtype):
    summed = SUMMED.get(dtype, dtype)
    outs = [Guarded(1 + N + 2 * M, NP[d]) for d in (summed, dtype, dtype)]
    types = (tt.dtypes.BY_NAME[dtype], tt.dtypes.BY_NAME[summed])
    kernel(KERNEL)[1](tile(dtype), *(o.array for o in outs), *types, M, N, num_warps=mapping.warps)
    return [o.check() for o in outs]


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
@pytest.mark.parametrize("dtype", list(NP))
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reduction(mapping, op, dtype):
    sums, most, least = results(mapping, dtype)
    x = tile(dtype)
    if op != "sum":
        got, reduce = (most, np.max) if op == "max" else (least, np.min)
        want = np.concatenate([[reduce(x)], reduce(x, 0), reduce(x, 1)]).astype(NP[dtype])
        same_bits(got[: len(want)], want)
        return
    kind = NP[SUMMED.get(dtype, dtype)]
    wide = x.astype(np.longdouble if dtype == "float64" else np.float64 if dtype in (*FLOATS, *NARROW) else kind)
    with np.errstate(over="ignore"):
        parts = [wide.sum(dtype=wide.dtype)], wide.sum(0, dtype=wide.dtype), wide.sum(1, dtype=wide.dtype)
    want = np.concatenate([*parts, parts[2]])
    if dtype not in (*FLOATS, *NARROW):
        same_bits(sums, want.astype(kind))
        return
    size = np.concatenate([[np.abs(wide).sum()], np.abs(wide).sum(0), np.abs(wide).sum(1)])
    size = np.concatenate([size, size[-M:]])
    unit = 2.0**-53 if dtype == "float64" else 2.0**-24  # narrow floats are added in float32
    allowed = 10 * unit * size
    if dtype in NARROW:
        allowed = allowed + np.abs(want) * float(ml_dtypes.finfo(NP[dtype]).eps) / 2
    assert (np.abs(sums.astype(wide.dtype) - want) <= allowed).all()


NAN = """
@tt.jit
def k(x, out, N: tt.constexpr):
    a = tt.load(x + tt.arange(0, N))
    tt.store(out, tt.max(a))
    tt.store(out + 1, tt.min(a))
    tt.store(out + 2, tt.max(a, 0, propagate_nan=True))
    tt.store(out + 3, tt.min(a, propagate_nan=True))
    tt.store(out + 4, tt.reduce_max(a))
    tt.store(out + 5, tt.sum(a))
"""


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
@pytest.mark.parametrize("dtype", FLOATS)
def test_max_and_min_ignore_nan_unless_told(mapping, dtype):
    nan, k = np.nan, kernel(NAN)
    for values, want in (
        ([1, nan, 3, 2], [3, 1, nan, nan, 3, nan]),
        ([nan] * 4, [nan] * 6),
        ([nan, -np.inf, nan, nan], [-np.inf, -np.inf, nan, nan, -np.inf, nan]),
        ([-5, -2, -1, -7], [-1, -7, -1, -7, -1, -15]),
    ):
        out = Guarded(6, NP[dtype])
        k[1](np.array(values).astype(NP[dtype]), out.array, 4, num_warps=mapping.warps)
        same_bits(out.check(), np.array(want).astype(NP[dtype]))


def test_a_sum_of_16_bit_floats_is_added_in_float32(executor):
    """4096 ones, then an eighth: in float16 the sum would stop at 2048."""
    k = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr):
    tt.store(out, tt.sum(tt.load(x + tt.arange(0, N))))
""")
    x = np.ones(4096, np.float16)
    out = np.zeros(1, np.float32)
    k[1](x, out, 4096)
    assert out[0] == 4096.0


def test_max_with_a_second_argument(executor):
    """An int constant is an axis; a tile or a float is the other side of an elementwise maximum."""
    k = kernel("""
@tt.jit
def k(x, out, K: tt.constexpr):
    i = tt.arange(0, 4)
    a = tt.load(x + i[:, None] * 4 + i[None, :])
    tt.store(out + i, tt.max(a, K))
    tt.store(out + 4 + i, tt.max(tt.max(a, 1), 2.5))
    tt.store(out + 8 + i, tt.min(tt.max(a, 1), tt.min(a, 0)))
""")
    x = np.arange(16, dtype=np.float32).reshape(4, 4) - 6
    for axis in (0, 1):
        out = Guarded(12, np.float32)
        k[1](x, out.array, axis)
        want = [x.max(axis), np.maximum(x.max(1), 2.5), np.minimum(x.max(1), x.min(0))]
        same_bits(out.check(), np.concatenate(want).astype(np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tt.sum(i, 1)", "a tile of 1 dimension has no axis 1"),
        ("tt.sum(n)", "nothing to reduce in a scalar"),
        ("tt.sum(i, n)", "axis must be known when the kernel is compiled"),
        ("tt.sum(x + i)", "a pointer"),
        ("tt.sum(i, 0.5)", "axis must be an int"),
    ],
)
def test_errors(interpreter, text, message):
    k = kernel(f"@tt.jit\ndef k(x, n):\n    i = tt.arange(0, 4)\n    tt.store(x, {text})\n")
    with pytest.raises((tt.KernelTypeError, tt.KernelValueError)) as caught:
        k[1](np.zeros(4, np.int32), 3)
    assert message in str(caught.value)


# -- thread counts and extents -----------------------------------------------------------------------------------------

EXTENT = """
@tt.jit
def k(x, out, N: tt.constexpr):
    i = tt.arange(0, N)
    a = tt.load(x + i)
    tt.store(out, tt.sum(a))
    tt.store(out + 1, tt.max(a))
    tt.store(out + 2, tt.min(a))
"""


@pytest.mark.parametrize("n", [1, 2, 27, 32, 100, 1024, 16384])
@pytest.mark.parametrize("mapping", mappings(None, 1, 2, 4, 8, 16, 32), indirect=True)
def test_every_number_of_warps_and_every_extent(mapping, n):
    x = np.random.default_rng(n).integers(-1000, 1000, n).astype(np.int32)
    out = Guarded(3, np.int32)
    kernel(EXTENT)[1](x, out.array, n, num_warps=mapping.warps)
    assert out.check().tolist() == [x.sum(), x.max(), x.min()]


@pytest.mark.parametrize("shape", [(1, 64), (64, 1), (128, 2), (16, 16), (3, 27), (27, 3)], ids=str)
def test_two_dimensions(mapping, shape):
    """Rows, columns and all, of shapes where lanes, registers and warps take turns at an axis."""
    k = kernel("""
@tt.jit
def k(x, out, M: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, M)
    j = tt.arange(0, N)
    a = tt.load(x + i[:, None] * N + j[None, :])
    rows = tt.sum(a, 1)
    columns = tt.max(a, 0)
    tt.store(out + i, rows)
    tt.store(out + M + j, columns)
    tt.store(out + M + N, tt.sum(rows) + tt.max(columns))
    tt.store(out + M + N + 1 + i[:, None] * N + j[None, :], a - rows[:, None] + columns[None, :])
""")
    m, n = shape
    x = np.random.default_rng(m).integers(-1000, 1000, shape).astype(np.int32)
    out = Guarded(m + n + 1 + m * n, np.int32)
    k[1](x, out.array, m, n, num_warps=mapping.warps)
    rows, columns = x.sum(1), x.max(0)
    want = [rows, columns, [rows.sum() + columns.max()], (x - rows[:, None] + columns[None]).ravel()]
    assert out.check().tolist() == np.concatenate(want).tolist()
