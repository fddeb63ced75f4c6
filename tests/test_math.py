"""Functions of floats: each on every float type, at every kind of special value, against NumPy in a wider type."""

import math

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
import tinyton.language as tl
from conftest import kernel, same_bits

NP = {d: np.dtype(ml_dtypes.bfloat16 if d == "bfloat16" else d) for d in ("float16", "bfloat16", "float32", "float64")}
HALVES = ("float16", "bfloat16")


def half_away(x):
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


# The reference; how many units in the last place a float32 or float64 may be off, on any executor (0: none).
ONE = {
    "sin": (np.sin, 4), "cos": (np.cos, 4), "tan": (np.tan, 5), "asin": (np.arcsin, 4), "acos": (np.arccos, 4),
    "atan": (np.arctan, 5), "sinh": (np.sinh, 4), "cosh": (np.cosh, 4), "asinh": (np.arcsinh, 4),
    "acosh": (np.arccosh, 4), "atanh": (np.arctanh, 5), "erf": (np.vectorize(math.erf, ["d"]), 16),
    "erfc": (np.vectorize(math.erfc, ["d"]), 16), "expm1": (np.expm1, 3), "log1p": (np.log1p, 2), "log2": (np.log2, 3),
    "log10": (np.log10, 3), "cbrt": (np.cbrt, 4), "trunc": (np.trunc, 0), "rint": (np.rint, 0),
    "round": (half_away, 0), "sqrt_rn": (np.sqrt, 0),
}  # fmt: skip
TWO = {
    "atan2": (np.arctan2, 6), "pow": (np.power, 16), "hypot": (np.hypot, 4), "fmod": (np.fmod, 0),
    "copysign": (np.copysign, 0), "fdiv": (np.divide, 0), "div_rn": (np.divide, 0),
}  # fmt: skip
MASKS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
B = 1024


def inputs(dtype):
    """All pairs of special values, and random ones of many magnitudes."""
    info = ml_dtypes.finfo(NP[dtype])
    top, least = float(info.max), float(info.smallest_normal)
    special = [0.0, 1.0, 0.5, 2.5, 0.49999997, 1.00001, 3.0, 9.5, 88.5, 1e5, 1e10, top, least, np.inf]
    special = [s * v for v in special for s in (1, -1)] + [np.nan]
    rng = np.random.default_rng()
    with np.errstate(all="ignore"):
        pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1)
        x = np.concatenate([pairs, rng.standard_normal((2, B)) * 10.0 ** rng.integers(-4, 4, (2, B))], axis=1)[:, :B]
        return x.astype(NP[dtype])


def run(text, x, y, shape, dtype):
    out = np.zeros(shape, NP.get(dtype, dtype))
    body = text.replace("\n", "\n    ")
    kernel(f"""
@tt.jit
def k(x, y, out, B: tt.constexpr):
    i = tt.arange(0, B)
    a = tt.load(x + i)
    b = tt.load(y + i)
    {body}
""")[1](x, y, out, x.shape[-1])
    return out


def near(got, want, ulps, name):
    """``want`` is in float64 or wider. Results under the least normal number may be flushed to 0."""
    dtype = got.dtype
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype)
        if not ulps:
            return same_bits(got, rounded)
        normal = dtype.type(ml_dtypes.finfo(dtype).smallest_normal)
        size = np.maximum(np.abs(rounded), normal)
        unit = np.abs(np.nextafter(size, dtype.type(np.inf)).astype(float) - size.astype(float))
        unit = np.where(np.isinf(unit) | np.isnan(unit), np.spacing(np.abs(size.astype(float))), unit)
        ok = np.abs(got.astype(np.longdouble) - want) <= ulps * unit
    ok |= (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    zeros = (got == 0) & (want == 0)
    ok &= ~zeros | (np.signbit(got) == np.signbit(rounded))
    assert ok.all(), f"{name} {dtype}: {got[~ok][0]}, not {want[~ok][0]}; {(~ok).sum()} differ"


@pytest.mark.parametrize("dtype", NP)
def test_functions(executor, dtype):
    x, y = inputs(dtype)
    names = [*ONE, *TWO]
    calls = [f"tt.{f}(a)" for f in ONE] + [f"tt.{f}(a, b)" for f in TWO]
    text = "\n".join(f"tt.store(out + {k} * B + i, {call})" for k, call in enumerate(calls))
    got = run(text, x, y, (len(names), B), dtype)
    wide = np.float64 if dtype in HALVES else np.longdouble if dtype == "float64" else np.float64
    for row, name in zip(got, names, strict=True):
        function, ulps = (ONE | TWO)[name]
        a, b = (v.astype(np.float64 if "erf" in name or not ulps else wide) for v in (x, y))
        with np.errstate(all="ignore"):
            want = function(a) if name in ONE else function(a, b)
            if dtype in HALVES:  # one rounding to float32 first
                want = want.astype(np.float32).astype(np.float64)
        near(row, want, min(ulps, 1) if dtype in HALVES else ulps, name)


@pytest.mark.parametrize("dtype", NP)
def test_masks_and_choices(executor, dtype):
    x, y = inputs(dtype)
    low, high = NP[dtype].type(-1.5), NP[dtype].type(2)
    calls = [f"tt.{f}(a)" for f in MASKS]
    calls += ["tt.clamp(a, -1.5, 2.0)", "tl.clamp(a, -1.5, 2, propagate_nan=tl.PropagateNan.ALL)", "tt.relu(a)"]
    calls += ["tt.zeros_like(a)", "tt.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)"]
    text = "tl = tt\n" + "\n".join(f"tt.store(out + {k} * B + i, {call})" for k, call in enumerate(calls))
    got = run(text, x, y, (len(calls), B), dtype)
    with np.errstate(invalid="ignore"):
        inside = np.where(x < low, low, np.where(x > high, high, x))
        positive = np.where(x <= 0, NP[dtype].type(0), x)
    want = [f(x).astype(NP[dtype]) for f in MASKS.values()] + [np.where(np.isnan(x), low, inside), inside]
    want += [positive, np.zeros_like(x)]
    with np.errstate(invalid="ignore"):
        want.append(np.maximum(x.astype(float), y.astype(float)).astype(NP[dtype]))
    for row, expected in zip(got, want, strict=True):
        same_bits(row + NP[dtype].type(0), expected + NP[dtype].type(0))


@pytest.mark.parametrize("dtype", ("bool", "int8", "int32", "uint64"))
def test_integers_become_float32(executor, dtype):
    x = np.arange(-8, 8).astype(dtype)
    text = """
tt.static_assert(tt.sin(a).dtype == tt.float32 and tt.pow(a, b).dtype == tt.float32)
tt.static_assert(tt.isnan(a).dtype == tt.bool_ and tt.pow(a, 0.5).dtype == tt.float32)
tt.store(out + i, tt.sin(a))
tt.store(out + B + i, tt.hypot(a, 3))
"""
    got = run(text, x, x, (2, 16), "float32")
    wide = x.astype(np.float32).astype(np.float64)
    near(got[0], np.sin(wide), 4, "sin")
    if dtype != "bool":
        near(got[1], np.hypot(wide, 3), 4, "hypot")


@pytest.mark.parametrize("dtype", ("int32", "uint32", "int64", "uint64"))
def test_umulhi(executor, dtype):
    info, rng = np.iinfo(dtype), np.random.default_rng()
    x, y = rng.integers(info.min, info.max, (2, 64), dtype, endpoint=True)
    x[:6] = y[5:11] = [0, 1, info.max, info.min, info.max - 1, 1 << info.bits - 2]
    x[6:10], y[:2] = info.max, [info.max, info.min]
    got = run("tt.store(out + i, tt.umulhi(a, b))", x, y, 64, dtype)
    mask = (1 << info.bits) - 1
    want = [(int(p) & mask) * (int(q) & mask) >> info.bits for p, q in zip(x, y, strict=True)]
    assert (got.astype(f"uint{info.bits}") == np.array(want, f"uint{info.bits}")).all()


@pytest.mark.parametrize("dtype", NP)
@pytest.mark.parametrize("dim", (0, 1))
def test_softmax(executor, dtype, dim):
    x = (np.random.default_rng().standard_normal((8, 16)) * 20).astype(NP[dtype])
    got = np.zeros_like(x)
    kernel("""
@tt.jit
def k(x, out, D: tt.constexpr):
    at = tt.arange(0, 8)[:, None] * 16 + tt.arange(0, 16)[None, :]
    tt.store(out + at, tt.softmax(tt.load(x + at), D))
""")[1](x, got, dim)
    wide = np.exp(x.astype(float) - x.astype(float).max(dim, keepdims=True))
    size = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(got.astype(float), wide / wide.sum(dim, keepdims=True), rtol=size, atol=size * 1e-3)


def test_softmax_of_a_tile_that_is_no_power_of_two(executor):
    x, got = np.random.default_rng().standard_normal(27).astype(np.float32), np.zeros(27, np.float32)
    kernel("""
@tt.jit
def k(x, out):
    i = tt.arange(0, 27)
    tt.store(out + i, tt.softmax(tt.load(x + i)))
""")[1](x, got)
    np.testing.assert_allclose(got, np.exp(x) / np.exp(x).sum(), rtol=1e-6)


def test_one_object_under_all_names():
    from tinyton.language import math as language_math
    from tinyton.language.extra import libdevice

    assert tl.exp is tt.exp is tl.math.exp is tt.math.exp is language_math.exp is libdevice.exp
    assert tl.math.fma is tt.fma and tl.math.erf is tt.erf and not hasattr(tl.math, "load")


def test_the_namespace_in_kernels(executor):
    x, out = np.array([0.25, 0.5], np.float32), np.zeros(2, np.float32)
    kernel(
        """
@tt.jit
def k(x, out):
    i = tl.arange(0, 2)
    a = tl.load(x + i)
    tl.store(out + i, libdevice.asin(a) + tl.math.erf(tl.abs(a)))
""",
        tl=tl,
        libdevice=tl.extra.libdevice,
    )[1](x, out)
    np.testing.assert_allclose(out, [math.asin(v) + math.erf(v) for v in (0.25, 0.5)], rtol=1e-6)


# -- casts -------------------------------------------------------------------------------------------------------------

PAIRS = [
    *((a, b) for a in ("int16", "uint16", "float16", "bfloat16") for b in ("int16", "uint16", "float16", "bfloat16")),
    *((a, b) for a in ("int32", "uint32", "float32") for b in ("int32", "uint32", "float32")),
    *((a, b) for a in ("int64", "uint64", "float64") for b in ("int64", "uint64", "float64")),
    ("int8", "uint8"),
    ("uint8", "int8"),
]


@pytest.mark.parametrize("source, target", PAIRS)
def test_bitcast(executor, source, target):
    bits = np.random.default_rng().integers(0, 256, 64 * np.dtype(NP.get(source, source)).itemsize, np.uint8)
    x = bits.view(NP.get(source, source))
    with np.errstate(invalid="ignore"):  # which bits of a NaN survive a register is up to the device
        for view in (x, x.view(NP.get(target, target))):
            view[np.isnan(view.astype(float))] = 1
    out = np.zeros(64, NP.get(target, target))
    kernel(f"""
@tt.jit
def k(x, out):
    i = tt.arange(0, 64)
    a = tt.load(x + i)
    tt.store(out + i, a.to(tt.{target}, bitcast=True))
    tt.static_assert(tt.cast(a, tt.{target}, bitcast=True).dtype == tt.{target})
""")[1](x, out)
    same_bits(out, x.view(out.dtype))


def test_cast_as_a_function(executor):
    x = np.array([1.5, -2.75], np.float32)
    got = run('tt.store(out + i, tt.cast(a, tt.bfloat16, fp_downcast_rounding="rtne"))', x * 1.001, x, 2, "float32")
    same_bits(got, (x * np.float32(1.001)).astype(NP["bfloat16"]).astype(np.float32))


REFUSED = {
    "tt.cast(a, tt.int8, bitcast=True)": "float32 has 32 bits and int8 has 8",
    "tt.cast(a, tt.float16, 'rtz')": "to nearest even, not 'rtz'",
    "tt.umulhi(a, b)": "umulhi takes integers of 32 or 64 bits, not float32",
    "tt.div_rn(i, 2)": "for floats, not int32; write x / y, or x // y",
    "tt.rand(a, i)": "seed is an integer, not f32",
    "tt.rand(1, b)": "offset is an integer, not f32",
    "tt.rand(1, i, 0)": "n_rounds is at least 1, not 0",
}


@pytest.mark.parametrize("call", REFUSED)
def test_refused(interpreter, call):
    x = np.zeros(4, np.float32)
    with pytest.raises(tt.TinytonError) as e:
        run(f"tt.store(out + i, {call})", x, x, 4, "float32")
    assert REFUSED[call] in str(e.value) and "^" in str(e.value)


def test_variables_may_have_the_names_of_functions(executor):
    """A variable must not hide the function that the same kernel calls."""
    x = np.array([0.5, 2.0], np.float32)
    text = """
sin = a + 1
sinf = b * 2
pow = tt.sin(sin) + tt.sin(sinf)
mul_hi = tt.umulhi(i, i + 1) + i
tt.store(out + i, tt.pow(pow, 2.0) + sin + sinf + mul_hi)
tt.store(out + 2 + i, sin)
tt.store(out + 4 + i, sinf)
"""
    got = run(text, x, x, 6, "float32")[:2]
    np.testing.assert_allclose(got, (np.sin(x + 1) + np.sin(2 * x)) ** 2 + 3 * x + 1 + [0, 1], rtol=1e-5)
