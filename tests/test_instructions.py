"""What is computed in fewer instructions on a GPU gives the same results, and is used where it should be."""

import math
import re

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import kernel, lowered, same_bits


@tt.jit
def by_one(x, y, out, N: tt.constexpr):
    row, j = tt.program_id(0), tt.arange(0, N)
    tt.store(out + row * N + j, tt.load(x + row * N + j) / tt.load(y + row))


@tt.jit
def by_rows(x, y, out, N: tt.constexpr):
    i, j = tt.program_id(0) * 8 + tt.arange(0, 8)[:, None], tt.arange(0, N)[None, :]
    tt.store(out + i * N + j, tt.load(x + i * N + j) / tt.load(y + i))


def hard_quotients(rng, n):
    """Pairs whose quotient is as near as can be to the middle between two floats."""
    b = rng.integers(1 << 22, 1 << 23, n) * 2 + 1
    k = rng.choice([-3, -1, 1, 3], n)
    a = np.array([int(kk) * pow(1 << 25, -1, int(bb)) % int(bb) for kk, bb in zip(k, b, strict=True)])
    return a.astype(np.float32), b.astype(np.float32)


def near(rng, shape):
    """Floats from 2**-99 to 2**99 in size, and zeros."""
    x = np.ldexp(rng.uniform(1, 2, shape), rng.integers(-99, 99, shape)) * rng.choice([-1, 1, 0.0, -0.0], shape)
    return x.astype(np.float32)


def numbers(rows, n):
    """A row for each divisor: hard ones, and rows in which nothing, one or all is out of reach."""
    rng = np.random.default_rng()
    x, y = near(rng, (rows, n)), np.ldexp(rng.uniform(1, 2, rows), rng.integers(-23, 23, rows)).astype(np.float32)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e-38, 3.4e38, 1.7e38, 1e-30, -1e-40, 1.0]
    x[1, :12], y[2 : 2 + len(special)] = special, special
    x[16:24] = rng.integers(0, 1 << 32, (8, n), np.uint64).astype(np.uint32).view(np.float32)
    y[24:32] = rng.integers(0, 1 << 32, 8, np.uint64).astype(np.uint32).view(np.float32)
    x[32:64, 0], y[32:64] = hard_quotients(rng, 32)
    x[32:64, 1:] = x[32:64, :1] * np.ldexp(1.0, rng.integers(-60, 60, (32, n - 1)))
    return x, y


@pytest.mark.parametrize("form", [by_one, by_rows])
def test_quotients_are_rounded_once(mapping, form):
    x, y = numbers(64, 1024)
    out = np.zeros_like(x)
    form[64 if form is by_one else 8](x, y, out, N=1024, num_warps=mapping.warps)
    with np.errstate(all="ignore"):
        same_bits(out, x / y[:, None])


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", [by_one, by_rows])
def test_quotients_that_are_rounded_again(mapping, form, half):
    """Those of 16 bits are the same as of the exact quotient, but right beside a tie and for what is hardly normal."""
    x, y = (v[:32] for v in numbers(64, 1024))
    out = np.zeros(x.shape, half)
    form[32 if form is by_one else 4](x, y, out, N=1024, num_warps=mapping.warps)
    with np.errstate(all="ignore"):
        want = (x / y[:, None]).astype(half)
        least = np.abs(want.astype(np.float32)) < 2.0**-100
        same_bits(np.where(least, 0, out), np.where(least, 0, want))
    steps = np.diff([out[least].view(np.int16), want[least].view(np.int16)], axis=0)
    assert (np.abs(steps) <= 1).all()


def test_a_reciprocal_for_many():
    signature = dict.fromkeys(("x", "y", "out"), "*float32:16")
    for form in (by_one, by_rows):
        assert lowered(form, signature, N=1024).source.count("= quotient(") == 1
    half = signature | {"out": "*float16:16"}
    assert lowered(by_one, half, N=1024).source.count("= quotient_for_16_bits(") == 1
    assert "for_16_bits" not in lowered(by_one, signature | {"out": "*int8:16"}, N=1024).source, "cut off, not rounded"
    assert "quotient" not in lowered(by_one, signature, N=128).source, "one element a thread"
    assert "quotient" not in lowered(by_one, signature, "opencl", N=1024).source
    each = kernel("""
@tt.jit
def k(x, y, out, N: tt.constexpr):
    i = tt.arange(0, N)
    tt.store(out + i, tt.load(x + i) / tt.load(y + i))
    tt.store(out + i, tt.load(x + i) / 3.0)
""")
    assert "quotient" not in lowered(each, signature, N=1024).source


ALL = {"tanh": (np.tanh, 3), "erf": (np.vectorize(math.erf), 4), "exp2": (np.exp2, 3)}
ALL |= {"exp": (np.exp, 7.5), "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 8.5)}
NEAR = {"exp": 4, "sigmoid": 5}  # from -16 to 16


@pytest.mark.parametrize("name", ALL)
def test_functions_of_any_float(executor, name):
    function, ulps = ALL[name]
    x = np.random.default_rng().integers(0, 1 << 32, 1 << 16, np.uint64).astype(np.uint32)
    x[: 1 << 15] = x[: 1 << 15] % 0x04000000 + 0x3E000000  # 0.125 to 32
    x = x.view(np.float32)
    x[:4] = 0, -0.0, np.inf, -np.inf
    out = np.zeros_like(x)
    kernel(f"""
@tt.jit
def k(x, out):
    i = tt.program_id(0) * 1024 + tt.arange(0, 1024)
    tt.store(out + i, tt.{name}(tt.load(x + i)))
""")[64](x, out)
    with np.errstate(all="ignore"):
        want = function(x.astype(np.float64))
        unit = np.spacing(np.maximum(np.abs(want), 2.0**-102).astype(np.float32))
        assert not (np.abs(out - want) > np.where(np.abs(x) <= 16, NEAR.get(name, ulps), ulps) * unit).any()
    assert (np.isnan(out) == np.isnan(x)).all()
    assert name not in ("exp", "exp2") or (out[x == 0] == 1).all()
    if name in ("tanh", "erf"):
        assert (np.signbit(out) == np.signbit(x))[~np.isnan(x)].all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_stored_is_rounded_once(executor, dtype):
    half = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    k = kernel(f"""
@tt.jit
def k(x, y, out, n):
    i = tt.arange(0, 1024)
    a = tt.load(x + i)
    b = -tt.where(i < n, a * 3, a + a).to(tt.{dtype})
    tt.store(out + i, b)
    tt.store(out + 1024 + i, a.to(tt.{dtype}) * tt.load(y + i))
""")
    rng = np.random.default_rng()
    x, y = rng.standard_normal(1024).astype(np.float32), rng.standard_normal(1024).astype(half)
    out = np.zeros(2048, half)
    k[1](x, y, out, 500)
    same_bits(out[:1024], -np.where(np.arange(1024) < 500, x * np.float32(3), x + x).astype(half))
    rounded = x.astype(half).astype(np.float32)
    same_bits(out[1024:], (rounded * y.astype(np.float32)).astype(half))
    text = lowered(k, {"x": "*float32", "y": f"*{dtype}", "out": f"*{dtype}", "n": "int32"}).source
    assert text.count(f"round_{dtype}(") == 2, "its definition, and the product's factor"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_goes_round_a_loop_or_leaves_a_branch_is_rounded_at_once(executor, dtype):
    half = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    k = kernel("""
@tt.jit
def k(x, out, n):
    i = tt.arange(0, 1024)
    a = tt.load(x + i)
    b = a
    for j in range(n):
        b = -(b * a)
        if j == 1:
            b = tt.where(i < 500, b * a, -(b + a))
    tt.store(out + i, b)
""")
    x = np.random.default_rng(5).uniform(0.5, 2, 1024).astype(half)
    out, want = np.zeros(1024, half), x
    k[1](x, out, 4)
    for j in range(4):
        want = -(want * x)
        want = np.where(np.arange(1024) < 500, want * x, -(want + x)) if j == 1 else want
    same_bits(out, want)


def test_a_division_of_numbers_in_a_tile_is_done_once():
    k = kernel("""
@tt.jit
def k(x, out, n, N: tt.constexpr):
    i = tt.program_id(0) // n * N + tt.arange(0, N)
    tt.store(out + i, tt.load(x + i) * 2.0)
""")
    source = lowered(k, {"x": "*float32:16", "out": "*float32:16", "n": "int32"}, N=4096).source
    body = source[source.index("k_kernel(") :]
    assert body.count("floordiv_") == 1 and body.index("floordiv_") < body.index("for (")


@tt.jit
def by_masks(x, out, rows, cols, HOW: tt.constexpr, M: tt.constexpr, N: tt.constexpr):
    """Where a mask is off, 7; what is stored takes no mask."""
    i, j = tt.arange(0, M)[:, None], tt.arange(0, N)[None, :]
    if HOW == "less":
        mask = (i < rows) & (j < cols)
    elif HOW == "not from":
        mask = ~(j >= cols) & (i >= rows)
    else:
        mask = (j >= cols - 32) | (i == rows)
    v = tt.where(mask, tt.load(x + i * N + j, mask=mask), 7.0)
    tt.store(out + i * N + j, tt.where(mask, v + 1, v) * tt.where(i < rows, 1, -1))


@pytest.mark.parametrize("how", ["less", "not from", "a part"])
@pytest.mark.parametrize("shape", [(1, 512), (8, 64), (64, 8), (32, 32)])
def test_masks_on_which_neighbours_agree(mapping, shape, how):
    x, (i, j) = np.random.default_rng().standard_normal(shape, np.float32), np.indices(shape)
    for rows, cols in ((shape[0], shape[1]), (shape[0] // 2, shape[1] // 2), (0, 16), (3, shape[1] - 1)):
        out = np.full_like(x, np.nan)
        by_masks[1](x, out, rows, cols, how, *shape, num_warps=mapping.warps)
        on = {"less": (i < rows) & (j < cols), "not from": (j < cols) & (i >= rows)}
        want = np.where(on.get(how, (j >= cols - 32) | (i == rows)), x + 1, np.float32(7))
        same_bits(out, np.where(i < rows, want, -want))


def test_a_mask_on_which_neighbours_agree_is_computed_for_the_first():
    for cols, once in (("int32:16", True), ("int32", False)):
        given = {"x": "*float32:16", "out": "*float32:16", "rows": "int32", "cols": cols}
        text = lowered(by_masks, given, HOW="less", M=1, N=2048).source
        [line] = [line for line in text.split("\n") if re.search(r"mask\w* = .*r1", line)]
        assert ("r0" not in line) == once, line


# -- integers that are divided -----------------------------------------------------------------------------------------


@tt.jit
def divided(x, out, n, D: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, N)
    v = tt.load(x + i, mask=i < n)
    tt.store(out + i, v // D, mask=i < n)
    tt.store(out + n + i, v % D, mask=i < n)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_divided_by_a_power_of_two(executor, dtype):
    ends = np.iinfo(dtype)
    x = np.random.default_rng().integers(ends.min, ends.max, 200, dtype, endpoint=True)
    x[:8] = ends.min, ends.max, ends.max - 1, ends.min + 1, 0, 1, 2, np.array(-1).astype(dtype)
    for k in (0, 1, 3, 6, ends.bits - 2, ends.bits - 1)[: 6 if ends.min == 0 else 5]:
        by, out = 1 << k, np.zeros(400, dtype)
        divided[1](x, out, 200, D=by, N=256)
        same_bits(out, np.concatenate([x // np.array(by, dtype), x % np.array(by, dtype)]))


def test_a_power_of_two_divides_by_a_shift():
    text = lowered(divided, {"x": "*int32:16", "out": "*int32:16", "n": "int32"}, D=128, N=256).source
    assert ">> 7" in text and "& 127" in text and "div_int32" not in text and "mod_int32" not in text
    text = lowered(divided, {"x": "*int32:16", "out": "*int32:16", "n": "int32"}, D=96, N=256).source
    assert "floordiv_int32" in text and "mod_int32" in text


def test_the_place_of_a_program_in_a_grid_takes_32_bits():
    k = kernel("""
@tt.jit
def k(out, n, N: tt.constexpr):
    group = tt.program_id(0) // (8 * tt.cdiv(n, N))
    tt.store(out + group * 8, tt.program_id(0) % (8 * tt.cdiv(n, N)))
""")
    text = lowered(k, {"out": "*int32:16", "n": "int32"}, N=128).source
    assert "int64(" not in text and "floordiv_int32(" in text and "mod_int32(" in text
    k = kernel("""
@tt.jit
def k(out, n, m):
    tt.store(out + (n // m + n % m) * 8, n)
""")
    assert "long long" in lowered(k, {"out": "*int32:16", "n": "int32", "m": "int32"}).source
