"""Reductions and scans in the spelling of arrays: op x dtype x axes on every executor, against NumPy."""

from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from model import ALL, FLOATS, INTS
from test_tile_ops import NP, RM, random, run

import tinyton.tile as ct
from conftest import kernel, same_bits, underlined

SUMMED = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
AXES = (None, 0, 1, -1, (0, 1), (2, 0), (0, -1, 1), ())
SHAPE = (4, 2, 8)


def reduced(f, a, axis, **more):
    return f(a, axis=axis, **more) if axis != () else f(a[None], axis=0, **more)


def launch(body, executor, *args, **names):
    """With several warps where there are threads, so that reductions cross them."""
    mark = "@ct.kernel" + "(num_worker_warps=4)" * (executor != "interpreter")
    k = kernel(f"{mark}\ndef k({', '.join('xyzuvw'[: len(args)])}):\n" + body, ct=ct, **names)
    ct.launch(None, (1,), k, args)


def stores(texts, outs, to="y", first=()):
    """Lines that store what the texts give to a tuple of arrays."""
    shapes = [f"{(0,) * np.ndim(o)}" for o in outs]
    lines = [f"ct.store({to}[{k}], {at}, {text})" for k, (text, at) in enumerate(zip(texts, shapes, strict=True))]
    return "\n".join(f"    {line}" for line in [*first, *lines])


LOAD = "a = ct.load(x, (0, 0, 0), (4, 2, 8), check_bounds=False)"


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_reductions(executor, op, dtype):
    a = random(dtype, *SHAPE)
    if op == "prod" and dtype in FLOATS:
        a = np.abs(a) ** 0.1
        a = a.astype(NP[dtype])
    kind = SUMMED.get(dtype, dtype) if op in ("sum", "prod") else "int32" if dtype == "bool" else dtype
    wide = np.longdouble if dtype == "float64" else np.float64
    b = a.astype(wide) if dtype in FLOATS else a.astype(NP[kind])
    more = {"dtype": b.dtype} if op in ("sum", "prod") else {}
    texts = [f"ct.{op}(a, axis={axis})" for axis in AXES] + [f"a.{op}({axis}, keepdims=True)" for axis in AXES]
    with np.errstate(over="ignore"):
        wants = [reduced(getattr(np, op), b, axis, **more) for axis in AXES]
        wants += [getattr(np, op)(b, axis=axis, keepdims=True, **more) if axis != () else wants[7] for axis in AXES]
    outs = tuple(np.zeros(np.shape(w) or 1, NP[kind]) for w in wants)
    launch(stores(texts, outs, first=[LOAD]), executor, a, outs)
    for text, out, want, axis in zip(texts, outs, wants, AXES + AXES, strict=True):
        want = np.reshape(want, out.shape)
        if dtype in INTS or dtype == "bool" or op in ("max", "min"):
            assert np.array_equal(out, want.astype(NP[kind])), text
        else:
            unit = 2.0**-53 if dtype == "float64" else 2.0**-24
            size = np.reshape(reduced(getattr(np, op), np.abs(b), axis, **more), out.shape)
            rounded = np.abs(want) * ml_dtypes.finfo(NP[dtype]).eps / 2 if dtype in ("float16", "bfloat16") else 0
            assert (np.abs(out.astype(wide) - want) <= 80 * unit * size + 1.01 * rounded).all(), text


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nans(executor, dtype):
    a = random(dtype, 8, 16)
    a[np.random.default_rng().random(a.shape) < 0.3] = np.nan
    a[3] = np.nan
    a[5] = [1, 7, 7, np.nan] * 4
    words = [f"ct.{f}(a, {axis}, propagate_nan={p})" for f in ("max", "min") for axis in (None, 0, 1) for p in (0, 1)]
    places = [f"ct.arg{w[3:]}" for w in words]
    words, places = ([w.replace("=0", "=False").replace("=1", "=True") for w in ws] for ws in (words, places))

    def want(word):
        f, nan = ("max" if "max" in word else "min"), "True" in word
        axis = None if "None" in word else int("a, 1" in word)
        best = getattr(np, f) if nan else np.fmax.reduce if f == "max" else np.fmin.reduce
        return f, nan, axis, best

    wants, firsts = [], []
    for word in words:
        f, nan, axis, best = want(word)
        wants.append(np.asarray(best(a, axis=axis)).astype(NP[dtype]))
        worst = -np.inf if f == "max" else np.inf
        bare = a if nan else np.where(np.isnan(a), worst, a)
        at = np.asarray(getattr(np, "arg" + f)(bare, axis=axis))
        firsts.append(np.where(np.isnan(wants[-1]) & (not nan), 0, at).astype(np.int32))
    outs = tuple(np.zeros(np.shape(w) or 1, w.dtype) for w in [*wants, *firsts])
    launch(
        stores([*words, *places], outs, first=["a = ct.load(x, (0, 0), (8, 16), check_bounds=False)"]),
        executor,
        a,
        outs,
    )
    for word, out, w in zip([*words, *places], outs, [*wants, *firsts], strict=True):
        assert np.array_equal(out, np.reshape(w, out.shape), equal_nan=out.dtype.kind == "f"), word


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int32", "bfloat16", "float32"])
def test_places(executor, dtype):
    a = (random(dtype, *SHAPE) if dtype == "bool" else random("int8", *SHAPE) % 4).astype(NP[dtype])  # with ties
    cases = [(f, axis, keep) for f in ("argmax", "argmin") for axis in (None, 0, 1, -1) for keep in (False, True)]
    texts = [f"ct.{f}(a, axis={axis}, keepdims={keep})" for f, axis, keep in cases]
    wants = [getattr(np, f)(a.astype(np.float64), axis=axis, keepdims=keep) for f, axis, keep in cases]
    outs = tuple(np.zeros(np.shape(w) or 1, np.int32) for w in wants)
    launch(stores(texts, outs, first=[LOAD]), executor, a, outs)
    for text, out, want in zip(texts, outs, wants, strict=True):
        assert np.array_equal(out, np.reshape(want, out.shape)), text


def test_rounded_sums(executor):
    """Down and up, step by step: below and above the exact sum; to zero: no greater."""
    a = (random("float32", 8, 16) * 10.0 ** np.random.default_rng().integers(-4, 4, (8, 16))).astype(np.float32)
    modes = (RM.RM, RM.RP, RM.RZ, RM.RN)
    texts = [f"ct.sum(a, 1, rounding_mode=M[{k}])" for k in range(4)] + ["ct.sum(a, flush_to_zero=True)"]
    texts += ["ct.prod(abs(a), 1, rounding_mode=M[0])", "ct.cumsum(a, 1, rounding_mode=M[1])"]
    outs = (*(np.zeros(8, np.float32) for _ in range(4)), np.zeros(1, np.float32), np.zeros(8, np.float32), 0 * a)
    launch(
        stores(texts, outs, first=["a = ct.load(x, (0, 0), (8, 16), check_bounds=False)"]), executor, a, outs, M=modes
    )
    down, up, zero, near, flushed, products, running = outs
    for row, lo, hi, z, n in zip(a, down, up, zero, near, strict=True):
        total = sum(Fraction(float(v)) for v in row)
        assert Fraction(float(lo)) <= total <= Fraction(float(hi)) and lo <= z <= hi
        assert hi > lo and abs(n - float(total)) <= 1e-6 * np.abs(row).sum()
    np.testing.assert_allclose(flushed[0], a.astype(np.float64).sum(), rtol=1e-5, atol=1e-6 * np.abs(a).sum())
    np.testing.assert_allclose(products, np.prod(np.abs(a.astype(np.float64)), 1), rtol=1e-5)
    exact = np.cumsum(a.astype(np.longdouble), 1)
    assert (running >= exact - np.abs(a).sum(1, keepdims=True) * 1e-16).all()


@pytest.mark.parametrize("dtype", ALL)
def test_running_sums(executor, dtype):
    a = random(dtype, *SHAPE)
    if dtype in FLOATS:
        a = (a / 8).astype(NP[dtype])
    kind = SUMMED.get(dtype, dtype)
    cases = [(f, axis, back) for f in ("cumsum", "cumprod") for axis in (0, 1, -1) for back in (False, True)]
    texts = [f"ct.{f}(a, {axis}, reverse={back})" for f, axis, back in cases]
    b = a.astype(np.float64 if dtype in FLOATS else NP[kind])
    wants = []
    with np.errstate(over="ignore"):
        for f, axis, back in cases:
            w = getattr(np, f)(np.flip(b, axis) if back else b, axis=axis, dtype=b.dtype)
            wants.append(np.flip(w, axis) if back else w)
    outs = tuple(np.zeros(SHAPE, NP[kind]) for _ in wants)
    launch(stores(texts, outs, first=[LOAD]), executor, a, outs)
    rtol = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}.get(dtype, 1e-12)
    for text, out, want in zip(texts, outs, wants, strict=True):
        if dtype in FLOATS:
            np.testing.assert_allclose(out.astype(np.float64), want, rtol, 4 * rtol, err_msg=text)
        else:
            assert np.array_equal(out, want), text


# -- functions of the user's -------------------------------------------------------------------------------------------


def greater(a, at, b, place):
    take = a > b
    return ct.where(take, a, b), ct.where(take, at, place)


def affine(a, b, c, d):
    """x -> a x + b, then x -> c x + d: associative, and not commutative."""
    return a * c, b * c + d


@cache
def custom(executor):
    mark = {} if executor == "interpreter" else {"num_worker_warps": 4}

    @ct.kernel(**mark)
    def k(x, y, outs):
        a = ct.load(x, (0, 0), (8, 16), check_bounds=False)
        b = ct.load(y, (0, 0), (8, 16), check_bounds=False)
        ct.store(outs[0], 0, ct.reduce(a, 1, lambda p, q: p + q, 0))
        ct.store(outs[1], 0, ct.reduce(a, axis=0, func=max, identity=-1000))
        ct.store(outs[2], (0, 0), ct.reduce(a, None, lambda p, q: ct.minimum(p, q), 1000, keepdims=True))
        i = ct.broadcast_to(ct.arange(16, dtype=ct.int32), (8, 16))
        most, where = ct.reduce((a, i), 1, greater, (-1000, 0))
        ct.store(outs[3], 0, most)
        ct.store(outs[4], 0, where)
        p, q = ct.reduce((a, b), (0, 1), affine, (1, 0))
        ct.store(outs[5], 0, p)
        ct.store(outs[6], 0, q)
        factor = 3

        def scaled(left, right):
            return left + right * 1 if factor == 3 else left

        ct.store(outs[7], (0, 0), ct.scan(a, 1, scaled, 0))
        p, q = ct.scan((a, b), 0, affine, (1, 0))
        ct.store(outs[8], (0, 0), p)
        ct.store(outs[9], (0, 0), q)
        p, q = ct.scan((a, b), axis=1, func=affine, identity=(1, 0), reverse=True)
        ct.store(outs[10], (0, 0), p)
        ct.store(outs[11], (0, 0), q)

    return k


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_functions_of_the_user(executor, dtype):
    rng = np.random.default_rng()
    a, b = (rng.integers(-9, 9, (8, 16)).astype(NP[dtype]) for _ in range(2))
    shapes = [8, 16, (1, 1), 8, 8, 1, 1, *[(8, 16)] * 5]
    outs = tuple(np.zeros(s, np.int32 if k == 4 else NP[dtype]) for k, s in enumerate(shapes))
    ct.launch(None, (1,), custom(executor), (a, b, outs))
    same_bits(outs[0], a.sum(1).astype(a.dtype))
    same_bits(outs[1], a.max(0))
    assert outs[2].tolist() == [[a.min()]]
    same_bits(outs[3], a.max(1))
    assert all(a[k, at] == a[k].max() for k, at in enumerate(outs[4]))

    def over(x, y, axis, back=False):
        xs, ys = (np.moveaxis(np.flip(v, axis) if back else v, axis, 0) for v in (x, y))
        p, q = [xs[0]], [ys[0]]
        with np.errstate(over="ignore"):
            for c, d in zip(xs[1:], ys[1:], strict=True):
                p, q = [*p, p[-1] * c], [*q, q[-1] * c + d]
        both = (np.moveaxis(np.array(v), 0, axis) for v in (p, q))
        return [np.flip(v, axis) if back else v for v in both]

    whole = [v[-1] for v in over(a.reshape(-1), b.reshape(-1), 0)]
    assert [outs[5][0], outs[6][0]] == whole
    same_bits(outs[7], np.cumsum(a, 1).astype(a.dtype))
    for got, want in zip(outs[8:], [*over(a, b, 0), *over(a, b, 1, True)], strict=True):
        same_bits(got, want)


def test_a_reduction_of_a_scalar(executor):
    out = np.zeros(3, np.float32)
    run(
        """
        s = ct.load(x, 0, ())
        ct.store(x, 0, ct.sum(s) * 2)
        ct.store(x, 1, ct.max(s) + ct.argmax(s))
        ct.store(x, 2, ct.reduce(s, None, lambda a, b: a + b, 0))
        """,
        out := np.array([3, 0, 0], np.float32),
    )
    assert out.tolist() == [6, 3, 3]


ERRORS = {
    "ct.sum(x, 2)": ("2", "no axis 2"),
    "ct.sum(x, (0, 0))": ("(0, 0)", "axis 0 is named more than once"),
    "ct.max(x, axis=(1, -1))": ("(1, -1)", "axis 1 is named more than once"),
    "ct.sum(x, i)": ("i", "known when the kernel is compiled"),
    "ct.sum(x, 0.5)": ("0.5", "axis must be an int"),
    "ct.sum(x, rounding_mode=ct.RoundingMode.FULL)": ("ct.RoundingMode.FULL", "RN, RZ, RM, RP; not FULL"),
    "ct.sum(x.astype(ct.int32), rounding_mode=ct.RoundingMode.RZ)": ("ct.RoundingMode.RZ", "floats, not int32"),
    "ct.max(x, x)": ("x", "there is ct.maximum"),
    "ct.min(x, 0.0)": ("0.0", "there is ct.minimum"),
    "ct.max(x.astype(ct.float16), flush_to_zero=True)": ("True", "float32, not float16"),
    "ct.sum(x, propagate_nan=True)": ("ct.sum(x, propagate_nan=True)", "propagate_nan"),
    "ct.argmax(x, (0, 1))": ("(0, 1)", "one axis"),
    "ct.argmin(x, 5)": ("5", "no axis 5"),
    "ct.cumsum(x, None)": ("None", "must be an int, not None"),
    "ct.cumprod(x, 2)": ("2", "no axis 2"),
    "ct.scan(x, None, ct.add, 0)": ("None", "must be an int, not None"),
    "ct.reduce((x, x), 0, lambda a, b, c, d: (a, b), 0)": ("0", "2 tiles, and 1 identities"),
    "ct.reduce(x, 0, lambda a, b: a, (0, 0))": ("(0, 0)", "1 tiles, and 2 identities"),
    "ct.reduce(x.astype(ct.int32), 0, lambda a, b: a, 0.5)": ("0.5", "float32 does not widen to int32"),
    "ct.reduce((x, x[:2]), 0, lambda a, b, c, d: (a, b), (0, 0))": ("(x, x[:2])", "different shapes"),
    "ct.reduce(x, 0, lambda a, b: (a, b), 0)": ("lambda a, b: (a, b)", "2 values for 1 tile"),
    "ct.reduce(x, 0, lambda a, b: ct.zeros(2, ct.float32) + a, 0)": (
        "lambda a, b: ct.zeros(2, ct.float32) + a",
        "gives a tile",
    ),
    "ct.reduce(x, 0, lambda a, b: a.astype(ct.float64), 0)": ("lambda a, b: a.astype(ct.float64)", "float64 does not"),
    "ct.reduce(x, 0, lambda a: a, 0)": (None, "argument"),
    "ct.reduce(x, 0, 3, 0)": ("3", "function"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error(interpreter, text):
    under, message = ERRORS[text]
    with pytest.raises(ct.TileTypeError, match=f"(?s){message}") as error:
        run(f"x = ct.load(x, (0, 0), (4, 8))\ni = y\n{text}", np.zeros((4, 8), np.float32), 1)
    if under:
        assert underlined(error.value) in under.split("|")


@pytest.mark.parametrize(
    "line",
    [
        "a if a > b else b",
        "ct.load(x, 0, ()) + a + b",
        "ct.sum(ct.full(2, 1.0, ct.float32)) + a",
        "a and b",
        "ct.store(x, 0, a)",
    ],
)
@pytest.mark.parametrize("how", ["reduce", "scan"])
def test_functions_are_plain_arithmetic(interpreter, line, how):
    with pytest.raises(ct.TileSyntaxError, match=r"ct\.where"):
        run(f"ct.{how}(ct.load(x, 0, 4), 0, lambda a, b: {line}, 0)", np.zeros(4, np.float32))
