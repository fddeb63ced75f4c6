"""Tiles in the spelling of arrays: made, reshaped, taken apart, converted, computed with; against NumPy."""

from fractions import Fraction
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from model import ALL, FLOATS, INTS

import tinyton.tile as ct
from conftest import kernel, same_bits, underlined

NP = {name: np.dtype(name if name != "bfloat16" else ml_dtypes.bfloat16) for name in ALL}
CT = {name: getattr(ct, name if name != "bool" else "bool_") for name in ALL}
RM = ct.RoundingMode


def run(body, *args, mark="@ct.kernel", **names):
    """A kernel of these lines, launched with arrays x, y, z, ... or numbers."""
    lines = [line.strip() for line in body.strip().split("\n")]
    params = ", ".join("xyzuvw"[: len(args)])
    k = kernel(f"{mark}\ndef k({params}):\n" + "\n".join(f"    {line}" for line in lines), ct=ct, **names)
    ct.launch(None, (1,), k, args)


def random(dtype, *shape):
    rng = np.random.default_rng()
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in INTS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return (rng.standard_normal(shape) * 4).astype(NP[dtype])


# -- factories ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in ALL if d != "bool"])
def test_ranges(executor, dtype):
    outs = [np.zeros(16, NP[dtype]) for _ in range(5)]
    run(
        """
        ct.store(x, 0, ct.arange(16, dtype=D))
        ct.store(y, 0, ct.arange(16, dtype=D, start=5, step=3))
        ct.store(z, 0, ct.arange(16, dtype=N, start=7, step=0))
        ct.store(u, 0, ct.arange(16, dtype=D, start=w.astype(D), step=2))
        ct.store(v, 0, ct.arange(16, dtype=D, step=w.astype(D), start=1))
        """,
        *outs,
        4,
        D=CT[dtype],
        N=NP[dtype],
    )
    i = np.arange(16)
    for out, want in zip(outs, (i, 5 + 3 * i, 7 + 0 * i, 4 + 2 * i, 1 + 4 * i), strict=True):
        same_bits(out, want.astype(NP[dtype]))


def test_ranges_that_go_down_and_fractions(executor):
    a, b, c = np.zeros(8, np.int16), np.zeros(8, np.float32), np.zeros(8, np.float64)
    run(
        """
        ct.store(x, 0, ct.arange(8, dtype=ct.int16, start=-3, step=-2))
        ct.store(y, 0, ct.arange(8, dtype=ct.float32, start=u, step=-0.5))
        ct.store(z, 0, ct.arange(8, dtype=ct.float64, step=0.25))
        """,
        a,
        b,
        c,
        1.5,
    )
    i = np.arange(8)
    assert a.tolist() == (-3 - 2 * i).tolist()
    assert b.tolist() == (1.5 - 0.5 * i).tolist() and c.tolist() == (0.25 * i).tolist()


@pytest.mark.parametrize("dtype", ALL)
def test_filled_tiles(executor, dtype):
    a, b, c, d = np.full((2, 4), 9, NP[dtype]), np.zeros(4, NP[dtype]), np.full(1, 9, NP[dtype]), np.zeros(4, NP[dtype])
    values = (3, 1, 0, 7) if dtype != "bool" else (True, False, False, True)
    run(
        """
        ct.store(x, (0, 0), ct.zeros((2, 4), D))
        ct.store(y, 0, ct.ones(4, dtype=N))
        ct.store(z, 0, ct.full((), 1, D))
        ct.store(u, 0, ct.astile(V, dtype=D))
        """,
        a,
        b,
        c,
        d,
        D=CT[dtype],
        N=NP[dtype],
        V=values,
    )
    assert not a.any() and (b == 1).all() and c[0] == 1 and d.tolist() == list(values)


def test_tiles_written_out(executor):
    rng = np.random.default_rng()
    values, s = rng.integers(-100, 100, (4, 2, 8)), int(rng.integers(1000))
    a, b, c = np.zeros((4, 2, 8), np.int32), np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32)
    nested = tuple(tuple(tuple(int(v) for v in row) for row in m) for m in values)
    run(
        """
        ct.store(x, (0, 0, 0), ct.astile(V, dtype=ct.int32))
        ct.store(y, (0, 0), ct.astile(((1, 0.5), (-2.5, float("inf"))), dtype=ct.float32))
        ct.store(z, (0, 0), ct.astile(((u, 1), (2, u)), dtype=ct.float32))
        """,
        a,
        b,
        c,
        s,
        V=nested,
    )
    same_bits(a, values.astype(np.int32))
    assert b.tolist() == [[1, 0.5], [-2.5, np.inf]] and c.tolist() == [[s, 1], [2, s]]


def test_types_of_torch():
    torch = pytest.importorskip("torch")
    out = np.zeros(4, np.float16)
    run("ct.store(x, 0, ct.full(4, 1.5, T).astype(torch.float16))", out, T=torch.float32, torch=torch)
    assert out.tolist() == [1.5] * 4


# -- shapes ------------------------------------------------------------------------------------------------------------

SHAPES = {  # of a tile a of 4 by 8 by 2
    "a.reshape((8, -1))": lambda a: a.reshape(8, -1),
    "ct.reshape(a, -1)": lambda a: a.reshape(-1),
    "ct.reshape(a, (2, 2, 1, 16))": lambda a: a.reshape(2, 2, 1, 16),
    "a.permute((2, 0, 1))": lambda a: a.transpose(2, 0, 1),
    "ct.permute(a, (-1, 1, 0))": lambda a: a.transpose(2, 1, 0),
    "a.transpose(0, 1)": lambda a: a.transpose(1, 0, 2),
    "ct.transpose(a, axis0=-1, axis1=0)": lambda a: a.transpose(2, 1, 0),
    "a.reshape((8, 8)).transpose()": lambda a: a.reshape(8, 8).T,
    "ct.expand_dims(a, 1)": lambda a: a[:, None],
    "a.expand_dims(-1)": lambda a: a[..., None],
    "a[:, None, :, :, None]": lambda a: a[:, None, :, :, None],
    "a[..., None]": lambda a: a[..., None],
    "a[None, ..., None, :]": lambda a: a[None, ..., None, :],
    "ct.broadcast_to(a[:, :1], (2, 4, 8, 2))": lambda a: np.broadcast_to(a[:, :1], (2, 4, 8, 2)),
    "ct.cat((a, a + a), 0)": lambda a: np.concatenate([a, a + a], 0),
    "ct.cat((a, a + a), axis=1)": lambda a: np.concatenate([a, a + a], 1),
    "ct.cat((a + a, a), -1)": lambda a: np.concatenate([a + a, a], -1),
    "a[:, 4:8]": lambda a: a[:, 4:8],
    "a[:, :, 1:2]": lambda a: a[:, :, 1:2],
    "a[1:2, 2:4]": lambda a: a[1:2, 2:4],
    "a[:, 1:5, :]": lambda a: a[:, 1:5],
    "a[1:3, ..., None]": lambda a: a[1:3, ..., None],
    "a[:, -3:-1]": lambda a: a[:, -3:-1],
    "a[..., :1]": lambda a: a[..., :1],
    "ct.extract(a, (1, 3, 0), (2, 2, 2))": lambda a: a[2:4, 6:8],
    "a.extract((3, 0, 1), shape=(1, 8, 1))": lambda a: a[3:4, :, 1:2],
    "ct.extract(a, (i, 2 * i, 0), (2, 2, 2))": lambda a: a[2:4, 4:6],
    "ct.extract(a, (2 + i, i, i), (1, 4, 1))": lambda a: a[3:4, 4:8, 1:2],
    "ct.insert(a, (1, 3, 0), a[:2, :2] + a[2:, 2:4])": lambda a: placed(a, (2, 6, 0), a[:2, :2] + a[2:, 2:4]),
    "a.insert((0, i, i), a[:, :4, :1])": lambda a: placed(a, (0, 4, 1), a[:, :4, :1]),
    "a.insert((0, 0, 0), a + a)": lambda a: a + a,
    "ct.full((2, 2), ct.extract(a, (3, 7, i), (1, 1, 1)).item(), a.dtype)": lambda a: np.full((2, 2), a[3, 7, 1]),
    "ct.extract(a, (0, 1, 0), (1, 1, 1)).reshape(()) + a[:, 2:3]": lambda a: a[0, 1, 0] + a[:, 2:3],
}


def placed(a, at, part):
    out = a.copy()
    out[tuple(slice(k, k + n) for k, n in zip(at, part.shape, strict=True))] = part
    return out


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_shapes(executor, dtype):
    """With several warps where there are threads."""
    if executor == "emulator" and dtype == "int64":
        pytest.skip("a kernel of so many arguments takes long to compile for shared blocks")
    mark = "@ct.kernel" + "(num_worker_warps=4)" * (executor != "interpreter" and dtype != "int64")
    a = random(dtype, 4, 8, 2)
    with np.errstate(over="ignore"):
        wants = [np.ascontiguousarray(f(a)) for f in SHAPES.values()]
    outs = tuple(np.zeros_like(w) for w in wants)
    lines = [
        f"ct.store(y[{k}], {(0,) * w.ndim}, {text})" for k, (text, w) in enumerate(zip(SHAPES, wants, strict=True))
    ]
    run("a = ct.load(x, (0, 0, 0), (4, 8, 2))\ni = z\n" + "\n".join(lines), a, outs, 1, mark=mark)
    for text, out, want in zip(SHAPES, outs, wants, strict=True):
        assert np.array_equal(out, want), text


def test_parts_at_run_time(executor):
    """Every part of a tile, one in each program."""
    a = random("float32", 8, 4)
    parts, filled = np.zeros((32, 2, 1), np.float32), np.zeros((16, 8, 4), np.float32)

    @ct.kernel
    def k(x, parts, filled):
        tile, at = ct.load(x, (0, 0), (8, 4)), ct.bid(0)
        part = tile.extract((at // 4, at % 4), (2, 1))
        ct.store(parts, (at, 0, 0), part[None])
        ct.store(filled, (at, 0, 0), tile.insert((at // 4, at % 4), part * 100)[None])

    ct.launch(None, (16,), k, (a, parts, filled))
    for at in range(16):
        i, j = at // 4 * 2, at % 4
        same_bits(parts[at], a[i : i + 2, j : j + 1])
        same_bits(filled[at], placed(a, (i, j), a[i : i + 2, j : j + 1] * 100))


# -- conversions -------------------------------------------------------------------------------------------------------


def exact(got, value, mode):
    """Whether ``got``, an element of a format, is what an exact rational is rounded to."""
    kind = type(got)
    with np.errstate(over="ignore"):
        down, up = (float(np.nextafter(got, kind(s * np.inf))) for s in (-1, 1))
    g = float(got)
    at_most = lambda v: v == -np.inf or v != np.inf and Fraction(v) <= value  # noqa: E731
    at_least = lambda v: v == np.inf or v != -np.inf and Fraction(v) >= value  # noqa: E731
    if mode is RM.RM or (mode is RM.RZ and not np.signbit(got)):
        return at_most(g) and (up == g or not at_most(up))
    if mode in (RM.RP, RM.RZ):
        return at_least(g) and (down == g or not at_least(down))
    if not np.isfinite(g):
        return True
    far = lambda v: abs(Fraction(v) - value) if np.isfinite(v) else np.inf  # noqa: E731
    best = min(far(g), far(up), far(down))
    tie = [v for v in (down, up) if far(v) == best and v != g]
    return far(g) == best and (mode is RM.RN or all(abs(v) < abs(g) for v in tie))


def extremes(dtype, n):
    """Floats of every size, and what is special."""
    info, rng = ml_dtypes.finfo(NP[dtype]), np.random.default_rng()
    top, normal, least = (float(x) for x in (info.max, info.smallest_normal, info.smallest_subnormal))
    some = [0.0, -0.0, 1.0, -1.0, top, -top, normal, -normal, least, -least]
    with np.errstate(over="ignore"):
        wide = rng.standard_normal(n) * 2.0 ** rng.uniform(info.minexp - 5, info.maxexp - 1, n)
        out = np.concatenate([some, wide, rng.standard_normal(n)]).astype(NP[dtype])
    return out[np.isfinite(out)][:n]


@pytest.mark.parametrize("pair", ["float32 float16", "float32 bfloat16", "float64 float32", "float64 float16"])
def test_rounded_conversions(executor, pair):
    wide, narrow = pair.split()
    modes = [RM.RN, RM.RZ, RM.RM, RM.RP, RM.RA]
    low = ml_dtypes.finfo(NP[narrow])
    rng = np.random.default_rng()
    halves = (rng.integers(0, 64, 100) + 0.5) * float(low.eps) * 2.0 ** rng.integers(-3, 3, 100) + 1
    with np.errstate(over="ignore"):
        some = extremes(narrow, 100).astype(NP[wide])
        x = np.concatenate([halves, some, np.nextafter(some, NP[wide].type(np.inf)), extremes(wide, 200)])
    x = x.astype(NP[wide])[:256]
    out = np.zeros((len(modes), len(x)), NP[narrow])
    lines = "\n".join(
        f"ct.store(y, ({k}, 0), ct.load(x, 0, 256).astype(D, rounding_mode=M[{k}])[None])" for k in range(len(modes))
    )
    run(lines, x, out, D=CT[narrow], M=tuple(modes))
    for mode, row in zip(modes, out, strict=True):
        wrong = [(a, r) for a, r in zip(x, row, strict=True) if not exact(r, Fraction(float(a)), mode)]
        assert not wrong, (mode, wrong[:3])


def test_bits(executor):
    a, b = random("float32", 64), random("int16", 64)
    x, y, z = np.zeros(64, np.int32), np.zeros(64, np.float16), np.zeros(64, np.uint16)
    run(
        """
        ct.store(z, 0, ct.bitcast(ct.load(x, 0, 64), ct.int32))
        ct.store(u, 0, ct.load(y, 0, 64).bitcast(np.float16))
        ct.store(v, 0, ct.bitcast(ct.load(y, 0, 64), ct.uint16))
        """,
        a,
        b,
        x,
        y,
        z,
        np=np,
    )
    same_bits(x, a.view(np.int32))
    assert (y.view(np.uint16) == b.view(np.uint16))[~np.isnan(y)].all()
    same_bits(z, b.view(np.uint16))


@pytest.mark.parametrize("dtype", [d for d in ALL if d != "bool"])
def test_bytes(executor, dtype):
    a, size = random(dtype, 4, 8), NP[dtype].itemsize
    packed, back = np.zeros(32 * size, np.uint8), np.zeros(32, NP[dtype])
    run(
        """
        p = ct.pack_to_bytes(ct.load(x, (0, 0), (4, 8)))
        ct.store(y, 0, p)
        ct.store(z, 0, ct.unpack_from_bytes(p, D))
        """,
        a,
        packed,
        back,
        D=CT[dtype],
    )
    assert packed.tobytes() == a.tobytes() == back.tobytes()


# -- arithmetic --------------------------------------------------------------------------------------------------------

ROUNDED = {
    "ct.add(a, b, rounding_mode=M)": lambda a, b: a + b,
    "ct.sub(a, b, rounding_mode=M)": lambda a, b: a - b,
    "ct.mul(a, b, rounding_mode=M)": lambda a, b: a * b,
    "ct.truediv(a, b, rounding_mode=M)": lambda a, b: a / b if b else None,
}


@pytest.mark.parametrize("mode", [RM.RN, RM.RZ, RM.RM, RM.RP])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding(executor, dtype, mode):
    n = 128
    x, y = extremes(dtype, n), extremes(dtype, n)[::-1].copy()
    y[n // 2 :] = (np.float64(x[n // 2 :]) * 0.75).astype(NP[dtype])  # of like sizes
    out = np.zeros((5, n), NP[dtype])
    lines = "a = ct.load(x, 0, 128)\nb = ct.load(y, 0, 128)\n" + "\n".join(
        f"ct.store(z, ({k}, 0), ({text})[None])" for k, text in enumerate([*ROUNDED, "ct.sqrt(a, rounding_mode=M)"])
    )
    run(lines, x, y, out, M=mode)
    for row, (text, f) in zip(out, ROUNDED.items(), strict=False):
        for got, a, b in zip(row, x, y, strict=True):
            want = f(*(Fraction(float(v)) for v in (a, b))) if np.isfinite([a, b]).all() else None
            if want is None:
                continue
            assert exact(got, want, mode), (text, a, b, got)
            if not want and got == 0:
                assert_zero(text, got, a, b, mode)
    for got, a in zip(out[4], x, strict=True):
        value = Fraction(float(a))
        if value < 0:
            assert np.isnan(got)
            continue
        with np.errstate(over="ignore"):
            down, up = (float(np.nextafter(got, type(got)(s * np.inf))) for s in (-1, 1))
        g = float(got)
        if mode in (RM.RM, RM.RZ):
            assert g**2 <= value * (1 + 1e-300) and Fraction(g) ** 2 <= value < Fraction(up) ** 2
        elif mode is RM.RP:
            assert Fraction(g) ** 2 >= value and (g <= 0 or Fraction(max(down, 0)) ** 2 < value)
        else:
            middle = [(Fraction(g) + Fraction(v)) / 2 for v in (max(down, 0), up)]
            assert g == 0 or middle[0] ** 2 <= value <= middle[1] ** 2


def assert_zero(text, got, a, b, mode):
    """The sign of an exact 0."""
    signs = [bool(np.signbit(v)) for v in (a, b)]
    if "mul" in text or "truediv" in text:
        assert np.signbit(got) == (signs[0] != signs[1])
    else:
        signs[1] ^= "sub" in text
        assert np.signbit(got) == (signs[0] if signs[0] == signs[1] else mode is RM.RM)


FLUSHED = {
    "ct.add(a, b, flush_to_zero=True)": np.add,
    "ct.sub(a, b, flush_to_zero=True)": np.subtract,
    "ct.mul(a, b, flush_to_zero=True)": np.multiply,
    "ct.truediv(a, b, flush_to_zero=True)": np.divide,
    "ct.minimum(a, b, flush_to_zero=True)": np.fmin,
    "ct.maximum(a, b, flush_to_zero=True, propagate_nan=True)": np.maximum,
    "ct.exp2(a, flush_to_zero=True)": lambda a, b: np.exp2(a),
    "ct.sqrt(a, flush_to_zero=True)": lambda a, b: np.sqrt(a),
    "ct.rsqrt(a, flush_to_zero=True)": lambda a, b: 1 / np.sqrt(np.float64(a)),
    "ct.mul(a, b, rounding_mode=ct.RoundingMode.RZ, flush_to_zero=True)": None,
}


def flush(x):
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x).astype(np.float32)


def test_subnormal_numbers_are_flushed(executor):
    n, rng = 256, np.random.default_rng()
    x, y = ((rng.standard_normal(n) * 2.0 ** rng.uniform(-140, -120, n)).astype(np.float32) for _ in range(2))
    y[::2] = rng.standard_normal(n // 2)
    x[::7], y[3::7] = rng.standard_normal(len(x[::7])), np.nan
    out = np.zeros((len(FLUSHED), n), np.float32)
    lines = "a = ct.load(x, 0, 256)\nb = ct.load(y, 0, 256)\n" + "\n".join(
        f"ct.store(z, ({k}, 0), ({text})[None])" for k, text in enumerate(FLUSHED)
    )
    run(lines, x, y, out)
    with np.errstate(all="ignore"):
        for row, (text, f) in zip(out, FLUSHED.items(), strict=True):
            if f is None:
                assert ((row == 0) | np.isnan(row) | (np.abs(row) >= 2.0**-126)).all()
                continue
            want = flush(f(flush(x), flush(y)).astype(np.float32))
            tiny = np.abs(f(flush(x), flush(y)).astype(np.float64))
            edge = (tiny > 2.0**-126 * (1 - 2.0**-20)) & (tiny < 2.0**-126)
            if "imum" in text:  # which zero is greater is open
                assert np.array_equal(row, want, equal_nan=True), text
            elif "exp2" in text or "rsqrt" in text:
                np.testing.assert_allclose(row, want, rtol=1e-6)
            else:
                same_bits(np.where(edge, 0, row), np.where(edge, np.float32(0), want))


def test_fast_functions(executor):
    a = np.abs(random("float32", 128)) + np.float32(0.1)
    texts = {
        "ct.truediv(a, 3.0, rounding_mode=M.APPROX)": a / np.float32(3),
        "ct.truediv(3.0, a, rounding_mode=M.FULL)": np.float32(3) / a,
        "ct.truediv(a, 3.0, rounding_mode=M.APPROX, flush_to_zero=True)": a / np.float32(3),
        "ct.sqrt(a, rounding_mode=M.APPROX)": np.sqrt(a),
        "ct.sqrt(a, rounding_mode=M.APPROX, flush_to_zero=True)": np.sqrt(a),
        "ct.tanh(a, rounding_mode=M.APPROX)": np.tanh(a),
        "ct.tanh(a, rounding_mode=M.FULL)": np.tanh(a),
        "ct.exp(a, rounding_mode=M.APPROX)": np.exp(a),
        "ct.exp(a, rounding_mode=M.FULL)": np.exp(a),
    }
    out = np.zeros((len(texts), 128), np.float32)
    lines = (f"ct.store(y, ({k}, 0), ({text})[None])" for k, text in enumerate(texts))
    run("a = ct.load(x, 0, 128)\n" + "\n".join(lines), a, out, M=RM)
    for (text, want), row in zip(texts.items(), out, strict=True):
        rtol = 1e-3 if "tanh" in text else 1e-5
        np.testing.assert_allclose(row, want, rtol=rtol, err_msg=text)


INTEGERS = {
    "ct.add(a, b)": np.add,
    "ct.sub(a, b)": np.subtract,
    "ct.mul(a, b)": np.multiply,
    "ct.floordiv(a, b)": np.floor_divide,
    "ct.mod(a, b)": np.remainder,
    "ct.divmod(a, b)[0]": np.floor_divide,
    "ct.divmod(a, b)[1]": np.remainder,
    "ct.minimum(a, b)": np.minimum,
    "ct.maximum(a, b)": np.maximum,
    "ct.bitwise_and(a, b)": np.bitwise_and,
    "ct.bitwise_or(a, b)": np.bitwise_or,
    "ct.bitwise_xor(a, b)": np.bitwise_xor,
    "ct.bitwise_not(a)": lambda a, b: ~a,
    "ct.bitwise_lshift(a, 3)": lambda a, b: a << 3,
    "ct.bitwise_rshift(a, 3)": lambda a, b: a >> 3,
    "ct.pow(a, 0)": lambda a, b: a**0,
    "ct.pow(a, 1)": lambda a, b: a,
    "ct.pow(a, 2)": lambda a, b: a * a,
    "ct.pow(a, 5)": lambda a, b: a**5,
    "ct.abs(a)": lambda a, b: np.abs(a),
    "ct.negative(a)": lambda a, b: np.negative(a),
    "ct.where(ct.less(a, b), a, 1)": lambda a, b: np.where(a < b, a, a.dtype.type(1)),
    "a & b | 5": lambda a, b: a & b | 5,
}


@pytest.mark.parametrize("dtype", INTS)
def test_integers(executor, dtype):
    a, b = random(dtype, 64), random(dtype, 64)
    b[b == 0] = 1
    out = np.zeros((len(INTEGERS), 64), NP[dtype])
    lines = (f"ct.store(z, ({k}, 0), ({text})[None])" for k, text in enumerate(INTEGERS))
    run("a = ct.load(x, 0, 64)\nb = ct.load(y, 0, 64)\n" + "\n".join(lines), a, b, out)
    with np.errstate(over="ignore"):
        for (text, f), row in zip(INTEGERS.items(), out, strict=True):
            assert np.array_equal(row, f(a, b).astype(NP[dtype])), text


COMPARED = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")


@pytest.mark.parametrize("dtype", ALL)
def test_comparisons(executor, dtype):
    a, b = random(dtype, 64), random(dtype, 64)
    b[::3] = a[::3]
    if dtype in FLOATS:
        a[5], b[7], a[9], b[9] = np.nan, np.nan, 0.0, -0.0
    out = np.zeros((len(COMPARED), 64), bool)
    lines = (f"ct.store(z, ({k}, 0), ct.{name}(a, b)[None])" for k, name in enumerate(COMPARED))
    run("a = ct.load(x, 0, 64)\nb = ct.load(y, 0, 64)\n" + "\n".join(lines), a, b, out)
    for name, row in zip(COMPARED, out, strict=True):
        with np.errstate(invalid="ignore"):
            assert np.array_equal(row, getattr(np, name)(a, b)), name


FUNCTIONS = ["exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil"]


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint8", "bool"])
def test_functions(executor, dtype):
    a = np.abs(random(dtype, 64)) if dtype in FLOATS else (random(dtype, 64) % 8).astype(NP[dtype])
    names = FUNCTIONS if dtype in FLOATS else FUNCTIONS[:-2]
    kind = dtype if dtype in FLOATS else "float32"
    out, nan = np.zeros((len(names) + 3, 64), NP[kind]), np.zeros(64, bool)
    lines = [f"ct.store(y, ({k}, 0), ct.{name}(a)[None])" for k, name in enumerate(names)]
    lines += [f"ct.store(y, ({len(names)}, 0), ct.rsqrt(a + 1)[None])"]
    lines += [f"ct.store(y, ({len(names) + 1}, 0), ct.atan2(a, 2.0)[None])"]
    lines += [f"ct.store(y, ({len(names) + 2}, 0), ct.pow(a, 1.5)[None])"]
    lines += ["ct.store(z, 0, ct.isnan(ct.truediv(a, 0)))"]
    run("a = ct.load(x, 0, 64)\n" + "\n".join(lines), a, out, nan)
    wide, plus = a.astype(np.float64), a + (a.dtype.type(1) if dtype != "bool" else np.int32(1))
    with np.errstate(all="ignore"):
        wants = [getattr(np, name)(wide) for name in names]
        wants += [1 / np.sqrt(plus.astype(np.float64)), np.arctan2(wide, 2), wide**1.5]
    rtol = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-12}[kind]
    for k, want in enumerate(wants):
        with np.errstate(over="ignore"):
            want = want.astype(out.dtype).astype(np.float64)  # beyond the greatest number it is infinite
        np.testing.assert_allclose(out[k].astype(np.float64), want, rtol, 1e-6, err_msg=str([*names, "", "", ""][k]))
    assert nan.tolist() == (wide == 0).tolist()


def test_bools(executor):
    a, b = random("bool", 32), random("bool", 32)
    masks, numbers = np.zeros((4, 32), bool), np.zeros((2, 32), np.int32)
    run(
        """
        a = ct.load(x, 0, 32)
        b = ct.load(y, 0, 32)
        ct.store(z, (0, 0), ct.bitwise_and(a, b)[None])
        ct.store(z, (1, 0), (a ^ b | ct.bitwise_not(b))[None])
        ct.store(z, (2, 0), ct.where(a, b, True)[None])
        ct.store(z, (3, 0), ct.minimum(a, b)[None])
        ct.store(u, (0, 0), (-a)[None])
        ct.store(u, (1, 0), ct.add(a, 2)[None])
        """,
        a,
        b,
        masks,
        numbers,
    )
    same_bits(masks, np.stack([a & b, a ^ b | ~b, np.where(a, b, True), a & b]))
    same_bits(numbers, np.stack([-a.astype(np.int32), a + np.int32(2)]))


def test_on_the_host():
    assert ct.cdiv(10, 4) == 3 and ct.cdiv(8, 4) == 2


# -- errors ------------------------------------------------------------------------------------------------------------

ERRORS = {  # the call, what the carets are under, what the message says; of x: f32[4, 8], i: int32 scalar, s: f32
    "ct.arange(10, dtype=ct.int32)": ("10", "dimension 0 of the tile is 10.*next_power_of_2.10. = 16"),
    "ct.arange(i, dtype=ct.int32)": ("i", "known when the kernel is compiled"),
    "ct.arange(8)": ("ct.arange(8)", "dtype"),
    "ct.arange(8, dtype=ct.bool_)": ("ct.bool_", "no bool"),
    "ct.arange(8, dtype=ct.int32, step=0.5)": ("0.5", "float32 does not widen to int32"),
    "ct.arange(8, dtype=ct.int32, start=x)": ("x", "float32 does not widen to int32"),
    "ct.arange(8, dtype=float('inf'))": ("float('inf')", "element type"),
    "ct.full((2, 3), 0, ct.int32)": ("(2, 3)", "dimension 1 of the tile is 3.*next_power_of_2.3. = 4"),
    "ct.zeros((0,), ct.int32)": ("(0,)", "dimension 0 of the tile is 0"),
    "ct.full(4, x, ct.float32)": ("x", "not a tile"),
    "ct.astile(((1, 2), (3,)), dtype=ct.int32)": ("((1, 2), (3,))", "as long as"),
    "ct.astile((1, 2, 3), dtype=ct.int32)": ("(1, 2, 3)", "is 3, which is not a power"),
    "x.reshape((-1, -1))": ("(-1, -1)", "one extent of a shape may be -1"),
    "x.reshape((4, 4))": ("(4, 4)", "as many elements"),
    "x.reshape((3, -1))": ("(3, -1)", "not a power of two"),
    "ct.reshape(ct.zeros(2, ct.int32), ())": ("()", "as many elements"),
    "ct.permute(x, (0,))": ("(0,)", "1 axes"),
    "ct.permute(x, (0, 0))": ("(0, 0)", "axis 0 is named more than once"),
    "ct.permute(x, (0, 2))": ("ct.permute(x, (0, 2))", "no axis 2"),
    "ct.transpose(ct.zeros(4, ct.int32))": ("ct.transpose(ct.zeros(4, ct.int32))", "two dimensions at least"),
    "ct.transpose(x, 0)": ("0", "both axes, or none"),
    "x[None].transpose()": ("x[None].transpose()", "more than two dimensions"),
    "ct.broadcast_to(x, (8, 4))": ("(8, 4)|ct.broadcast_to(x, (8, 4))", "do not broadcast|does not stretch"),
    "ct.expand_dims(x, 4)": ("4", "no axis 4"),
    "ct.cat((x, x, x, x), 0)": ("(x, x, x, x)", "a tuple of two tiles, not a tuple of 4"),
    "ct.cat((x, x[:2]), 0)": ("(x, x[:2])", "4 . 2 elements along axis 0 are not a power of two"),
    "ct.cat((x, x[:, :4]), 0)": ("(x, x[:, :4])", "dimension 1 is 8 in one tile, 4 in the other"),
    "ct.cat((x, x.astype(ct.float16)), 0)": ("(x, x.astype(ct.float16))", "one element type"),
    "ct.cat((x, x[None]), 0)": ("(x, x[None])", "different ranks"),
    "ct.cat((x, x), 2)": ("2", "no axis 2"),
    "x.item()": ("x.item()", "32 elements"),
    "ct.extract(x, 0, (2, 2))": ("0", "the index has 1 entries"),
    "ct.extract(x, (0, 0), 2)": ("2", "the part has 1 dimensions"),
    "ct.extract(x, (0, 0), (8, 2))": ("(8, 2)", "dimension 0: 4 is not divisible by 8"),
    "ct.extract(x, (2, 0), (2, 2))": ("(2, 0)", "dimension 0: there is no part 2; there are 2"),
    "ct.extract(x, (0, -1), (2, 2))": ("(0, -1)", "dimension 1: there is no part -1"),
    "ct.extract(x, (0, 1.0), (2, 2))": ("(0, 1.0)", "index must be an int"),
    "ct.extract(x, (s, 0), (2, 2))": ("(s, 0)", "int scalars"),
    "ct.insert(x, (0, 0), ct.zeros((8, 2), ct.float32))": ("ct.zeros((8, 2), ct.float32)", "4 is not divisible by 8"),
    "ct.insert(x, (0, 9), x[:, :1])": ("(0, 9)", "no part 9"),
    "ct.insert(x, (0, 0), ct.zeros((2, 2), ct.float64))": ("ct.zeros((2, 2), ct.float64)", "does not widen to float32"),
    "x[:, 0:5]": ("0:5", "power of two.*next_power_of_2.5. = 8.*ct.extract"),
    "x[:, ::2]": ("::2", "no step"),
    "x[:, i:8]": ("i:8", "known when the kernel is compiled.*ct.extract"),
    "x[2:2]": ("2:2", "empty"),
    "x[0]": ("0", "ct.extract.*item"),
    "x[i, :]": ("i", "ct.extract"),
    "x.astype(ct.int32, rounding_mode=ct.RoundingMode.RZ)": ("ct.RoundingMode.RZ", "floats that become floats"),
    "x.astype(ct.float16, ct.RoundingMode.FULL)": ("ct.RoundingMode.FULL", "one of RN, RZ, RM, RP, RA"),
    "x.astype(None)": ("None", "element type"),
    "x.bitcast(ct.int16)": ("ct.int16", "32 bits.*16"),
    "ct.bitcast(x > 0, ct.int8)": ("ct.bitcast(x > 0, ct.int8)|ct.int8", "bool"),
    "ct.unpack_from_bytes(x, ct.int16)": ("ct.unpack_from_bytes(x, ct.int16)", "uint8"),
    "A + 1": ("A + 1", "expected a tile or a number, not an array"),
    "ct.add(x > 0, x > 1)": ("ct.add(x > 0, x > 1)", "not defined on bool"),
    "(x > 0) * (x > 1)": ("(x > 0) * (x > 1)", "not defined on bool"),
    "(x > 0) / (x > 1)": ("(x > 0) / (x > 1)", "not defined on bool"),
    "x.astype(ct.float16) + x.astype(ct.bfloat16)": (None, "float16 and bfloat16 have no common type.*astype"),
    "x.astype(ct.int32) + x.astype(ct.uint32)": (None, "no common type.*astype.ct.int64"),
    "ct.where(x.astype(ct.int64) > 0, x.astype(ct.int64), x.astype(ct.uint64))": (None, "no common type"),
    "ct.add(x, 1.0, rounding_mode=ct.RoundingMode.FULL)": ("ct.RoundingMode.FULL", "RN, RZ, RM, RP; not FULL"),
    "ct.sqrt(x, rounding_mode=ct.RoundingMode.FULL)": ("ct.RoundingMode.FULL", "RN, RZ, RM, RP, APPROX; not FULL"),
    "ct.exp(x, rounding_mode=ct.RoundingMode.RZ)": ("ct.RoundingMode.RZ", "FULL, APPROX; not RZ"),
    "ct.tanh(x, rounding_mode='full')": ("'full'", "FULL, APPROX; not"),
    "ct.sin(x, rounding_mode=ct.RoundingMode.RZ)": ("ct.sin(x, rounding_mode=ct.RoundingMode.RZ)", "rounding_mode"),
    "ct.add(i, i, rounding_mode=ct.RoundingMode.RZ)": ("ct.RoundingMode.RZ", "for floats, not int32"),
    "ct.truediv(x.astype(ct.float64), 2, rounding_mode=ct.RoundingMode.APPROX)": (None, "float32, not float64"),
    "ct.mul(x.astype(ct.float16), 2, flush_to_zero=True)": ("True", "float32, not float16"),
    "ct.maximum(i, 2, flush_to_zero=True)": ("True", "float32, not int32"),
    "ct.exp(x, flush_to_zero=True)": ("ct.exp(x, flush_to_zero=True)", "flush_to_zero"),
    "ct.divmod(x, x)": ("ct.divmod(x, x)", "integers"),
    "ct.floor(i)": ("i", "for floats"),
    "ct.ceil(x > 0)": ("x > 0", "for floats"),
    "ct.pow(i, i)": ("i", "astype.ct.float32"),
    "ct.pow(i, -1)": ("-1", "negative"),
    "ct.bitwise_and(i, i.astype(ct.int64))": (None, "int32 and int64 do not meet"),
    "ct.bitwise_or(x, x)": ("ct.bitwise_or(x, x)", "float32"),
    "ct.bitwise_lshift(x, 1)": ("ct.bitwise_lshift(x, 1)", "integers"),
    "ct.bitwise_not(x)": ("ct.bitwise_not(x)", "float32"),
    "ct.where(x, x, 0)": ("ct.where(x, x, 0)|x", "mask|bool"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error(interpreter, text):
    under, message = ERRORS[text]
    with pytest.raises(ct.TileTypeError, match=f"(?s){message}") as error:
        run(f"A = x\nx = ct.load(x, (0, 0), (4, 8))\ni = y\ns = z\n{text}", np.zeros((4, 8), np.float32), 1, 1.5)
    assert "tt." not in str(error.value)
    if under:
        assert underlined(error.value) in under.split("|")


@pytest.mark.parametrize(
    "text", ["ct.full(4, 300, ct.int8)", "ct.full(4, 1.5, ct.int32)", "ct.arange(4, dtype=ct.uint8, start=-1)"]
)
def test_numbers_out_of_range(interpreter, text):
    with pytest.raises(ct.TileValueError, match="out of range"):
        run(text)


def test_promised_divisors(executor):
    text = """
    @ct.kernel
    def k(x, out, n, T: ct.Constant[int]):
        n = ct.assume_divisible_by(n, 4)
        ct.store(out, 0, n // ct.assume_divisible_by(8, 4))
        i = n + ct.arange(T, dtype=ct.int32)
        ct.scatter(out, i + 1, ct.gather(x, i) + np.float32(0.5))
        ct.scatter(out, 2 * ct.assume_divisible_by(4 * ct.arange(T, dtype=ct.int64), 4), 7.0)
    """
    k = kernel(dedent(text), ct=ct, np=np)
    x, out = np.arange(24, dtype=np.float32), np.zeros(40, np.float32)
    ct.launch(None, (1,), k, (x, out, 8, 4))
    expected = np.zeros(40, np.float32)
    expected[9:13] = x[8:12] + 0.5
    expected[[0, 8, 16, 24]] = 7
    assert out.tolist() == expected.tolist()
    if executor == "interpreter":
        with pytest.raises(ct.TileError, match="6, is no multiple of 4"):
            ct.launch(None, (1,), k, (x, out, 6, 4))


@pytest.mark.parametrize(
    ("line", "where", "words"),
    [
        ("ct.assume_divisible_by(1.5, 4)", "1.5", "a float or a bool has no divisor"),
        ("ct.assume_divisible_by(ct.bid(0), 0)", "0", "from 1 on, not 0"),
        ("ct.assume_divisible_by(4, ct.bid(0))", "ct.bid(0)", "must be known"),
    ],
)
def test_wrong_divisors(interpreter, line, where, words):
    k = kernel(f"@ct.kernel\ndef k(x):\n    a = {line}", ct=ct)
    with pytest.raises(ct.TileError, match=words) as caught:
        ct.launch(None, (1,), k, (np.zeros(1, np.float32),))
    assert underlined(caught.value) == where
