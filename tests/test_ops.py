"""Every operator and elementwise function: op x dtype x operand form, on every executor, against NumPy.

The results of one dtype come from one kernel with a store for each; every op and dtype is a case of its own. Where that
kernel does not compile, each case is compiled alone, so that the faulty ones show.
"""

from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from model import ALL, FLOATS, HALVES, INTS, SIGNED, UNSIGNED

import tinyton as tt
from conftest import Guarded, kernel, same_bits

NP = {d.name: np.dtype(d.name if d.name != "bfloat16" else ml_dtypes.bfloat16) for d in tt.dtypes.ALL}
TT = {name: f"tt.{name}" if name != "bool" else "tt.bool_" for name in ALL}
N, BLOCK = 211, 256


def edges(dtype):
    """Values at which something is special."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTS:
        info = np.iinfo(dtype)
        small = [0, 1, 2, 3, 5, 7, info.bits - 1, info.bits, info.max - 1, info.max]
        return np.array(small + ([-1, -2, -7, info.min] if dtype in SIGNED else [info.max // 2]), NP[dtype])
    info = ml_dtypes.finfo(NP[dtype])
    top, normal, least = (float(x) for x in (info.max, info.smallest_normal, info.smallest_subnormal))
    values = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, -3.5, 7.0, np.inf, -np.inf, np.nan, top, normal, -3 * least]
    return np.array(values).astype(NP[dtype])


@cache
def inputs(dtype):
    """Two arrays of N elements: all pairs of edge values, then random ones."""
    e = edges(dtype)
    rng = np.random.default_rng(7)
    pairs = np.stack(np.meshgrid(e, e)).reshape(2, -1)
    if dtype == "bool":
        rest = rng.random((2, N)) < 0.5
    elif dtype in INTS:
        rest = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (2, N), dtype, endpoint=True)
    else:
        rest = (rng.standard_normal((2, N)) * 8).astype(NP[dtype])
    return tuple(np.concatenate([pairs, rest], axis=1)[:, :N])


def scalar(dtype):
    """A run-time scalar and a literal to meet tiles of ``dtype``."""
    if dtype == "bool":
        return True, True
    return (3, 7) if dtype in UNSIGNED else (-3, -7) if dtype in SIGNED else (-3.5, 0.1)


def register(x):
    """What floats are computed in: NumPy's own type, or float32 for 16-bit ones."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


@dataclass(frozen=True)
class Case:
    """Lines of a kernel that set ``r``, the element type that it must have, and the expected elements."""

    text: str
    dtype: str
    want: np.ndarray
    ulps: float = 0  # 0: to the last bit
    zeros: bool = True  # tell -0 from 0
    flushes: bool = False  # 0 will do for what is less than every normal number


def check(got, case):
    if not case.ulps and case.zeros:
        same_bits(got, case.want)
    elif not case.ulps:
        same_bits(got + got.dtype.type(0), case.want + case.want.dtype.type(0))
    else:
        want = case.want.astype(np.longdouble)
        with np.errstate(all="ignore"):
            rounded = case.want.astype(got.dtype)
            least = case.want.dtype.type(ml_dtypes.finfo(got.dtype).smallest_normal)
            unit = np.abs(np.nextafter(np.abs(rounded), rounded.dtype.type(np.inf)) - np.abs(rounded)).astype(float)
            near = np.abs(got.astype(np.longdouble) - want) <= case.ulps * unit
        near |= case.flushes & (np.abs(want) < least) & (got == 0)
        ok = near | (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        if not ok.all():
            at = int(np.argmin(ok))
            pytest.fail(f"{(~ok).sum()} of {ok.size} differ; at {at}: {got[at]!r}, not {case.want[at]!r}")


def launch(x, y, cases, scalars=(0, 0)):
    """Runs all cases, made of tiles a and b, a scalar s of their type and a literal L, in one kernel."""
    kinds = sorted({c.dtype for c in cases.values()})
    text = f"""
@tt.jit
def k(x, y, {", ".join("out_" + d for d in kinds)}, n, BLOCK: tt.constexpr, L: tt.constexpr):
    i = tt.arange(0, BLOCK)
    on = i < n
    a = tt.load(x + i, mask=on)
    b = tt.load(y + i, mask=on)
    s = tt.load(y + n)
"""
    outs, places = {d: 0 for d in kinds}, {}
    for name, c in cases.items():
        text += "".join(f"    {line}\n" for line in c.text.split("\n"))
        text += f"    tt.static_assert(r.dtype == {TT[c.dtype]}, f'{{r.dtype}}, not {c.dtype}')\n"
        text += f"    tt.store(out_{c.dtype} + {outs[c.dtype]} * n + i, r, mask=on)\n"
        places[name] = outs[c.dtype]
        outs[c.dtype] += 1
    guarded = [Guarded((outs[d], len(x)), NP[d]) for d in kinds]
    y = np.concatenate([y, np.array([scalars[0]]).astype(y.dtype)])
    kernel(text)[1](x, y, *(g.array for g in guarded), len(x), BLOCK, scalars[1])
    by = {d: g.check() for d, g in zip(kinds, guarded, strict=True)}
    return {name: by[cases[name].dtype][row] for name, row in places.items()}


def attempt(*args):
    """`launch`, but a case that does not compile has its error as its result."""
    try:
        return launch(*args)
    except tt.TinytonError:
        x, y, cases, *rest = args
        out = {}
        for name, c in cases.items():
            try:
                out |= launch(x, y, {name: c}, *rest)
            except tt.TinytonError as error:
                out[name] = error
        return out


def verify(results, cases):
    """All forms of one op are right; the report names the forms that are not."""
    wrong = []
    for name, case in cases.items():
        try:
            if isinstance(results[name], Exception):
                raise results[name]
            check(results[name], case)
        except (pytest.fail.Exception, AssertionError, tt.TinytonError) as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)


# -- binary operators --------------------------------------------------------------------------------------------------

ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply}
DIVISION = {"//": np.floor_divide, "%": np.remainder}
BITS = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
SHIFTS = {"<<": np.left_shift, ">>": np.right_shift}
COMPARE = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
EXTREMES = {"maximum": np.fmax, "minimum": np.fmin}
NAN_EXTREMES = {"maximum": np.maximum, "minimum": np.minimum}
OPERATORS = ARITHMETIC | {"/": np.divide} | DIVISION | BITS | SHIFTS


def takes(op, dtype):
    if dtype == "bool":
        return op in BITS or op in COMPARE or op in EXTREMES or op == "/"
    return dtype in INTS or not (op in BITS or op in SHIFTS)


def binary_want(op, x, y, dtype):
    with np.errstate(all="ignore"):
        if op == "/" and dtype not in FLOATS:
            return np.divide(x.astype(np.float32), y.astype(np.float32)), "float32"
        if op in COMPARE:
            return COMPARE[op](x, y), "bool"
        function = (OPERATORS | EXTREMES)[op]
        if op in ("+", "-", "*", "/") and dtype != "float64" and dtype in FLOATS:  # wider, then one rounding
            return function(x.astype(np.float64), y.astype(np.float64)).astype(NP[dtype]), dtype
        return function(register(x), register(y)).astype(NP[dtype]), dtype


def binary_cases(op, dtype):
    x, y = inputs(dtype)
    s, literal = (np.full(N, v).astype(NP[dtype]) for v in scalar(dtype))
    write = (lambda p, q: f"tt.{op}({p}, {q})") if op in EXTREMES else (lambda p, q: f"{p} {op} {q}")
    forms = {
        "tile, tile": (write("a", "b"), x, y),
        "scalar, tile": (write("s", "b"), s, y),
        "tile, scalar": (write("a", "s"), x, s),
        "literal, tile": (write("L", "b"), literal, y),
        "tile, literal": (write("a", "L"), x, literal),
        "scalar, scalar": (write("s", "s"), s, s),
    }
    if op in OPERATORS:
        forms["augmented"] = (f"a\nr {op}= b", x, y)
    cases = {}
    for form, (text, p, q) in forms.items():
        want, result = binary_want(op, p, q, dtype)
        cases[f"{op} {form}"] = Case(f"r = {text}", result, want, zeros=op not in EXTREMES)
    if op in EXTREMES:
        want = NAN_EXTREMES[op](register(x), register(y)).astype(NP[dtype])
        cases[f"{op} NaN kept"] = Case(f"r = tt.{op}(a, b, propagate_nan=True)", dtype, want, zeros=False)
    return cases


BINARY = [(op, d) for d in ALL for op in (*OPERATORS, *COMPARE, *EXTREMES) if takes(op, d)]


@cache
def binary_results(executor, dtype):
    cases = {}
    for op, d in BINARY:
        if d == dtype:
            cases |= binary_cases(op, d)
    return attempt(*inputs(dtype), cases, scalar(dtype))


@pytest.mark.parametrize(("op", "dtype"), BINARY)
def test_binary(executor, op, dtype):
    verify(binary_results(executor, dtype), binary_cases(op, dtype))


# -- functions of one operand ------------------------------------------------------------------------------------------

MATH = {  # the reference, and by how many units in the last place a float32 or float64 may be off
    "exp": (np.exp, 7.5),  # 4 up to 16: tests/test_instructions.py
    "exp2": (np.exp2, 3),
    "log": (np.log, 3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2),
    "tanh": (np.tanh, 5),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 6),
    "sqrt": (np.sqrt, 0),
    "floor": (np.floor, 0),
    "ceil": (np.ceil, 0),
}
UNARY = [(op, d) for d in ALL for op in ("-", "~", "+", "abs", *MATH) if not (op == "-" and d == "bool")]
UNARY = [(op, d) for op, d in UNARY if not (op == "~" and d in FLOATS)]


@cache
def math_inputs(dtype):
    x = inputs(dtype)[0].copy()
    if dtype in FLOATS:
        x[: len(edges(dtype))] = edges(dtype)
        far = np.array([88.0, -88.0, 100.0, -100.0, 12.0, -12.0, 1e-3, 300.0, -300.0, 0.5, -0.5, 700.0, -800.0])
        x[len(edges(dtype)) : len(edges(dtype)) + len(far)] = far.astype(x.dtype)
    return x, x


def unary_case(op, dtype):
    x = math_inputs(dtype)[0]
    with np.errstate(all="ignore"):
        if op in ("-", "~", "+"):
            want = {"-": np.negative, "~": np.invert, "+": np.array}[op](x)
            return Case(f"r = {op}a", dtype, want)
        if op == "abs":
            return Case("r = tt.abs(a)", dtype, np.abs(x))
        function, ulps = MATH[op]
        result = dtype if dtype in FLOATS else "float32"
        x = x if dtype in FLOATS else x.astype(np.float32)
        want = function(x.astype(np.longdouble if ulps else np.float64))
        if not ulps:
            return Case(f"r = tt.{op}(a)", result, want.astype(NP[result]))
        flushes = op in ("exp", "exp2", "sigmoid")
        return Case(f"r = tt.{op}(a)", result, want, 1 if dtype in HALVES else ulps, flushes=flushes)


@cache
def unary_results(executor, dtype):
    return attempt(*math_inputs(dtype), {op: unary_case(op, d) for op, d in UNARY if d == dtype})


@pytest.mark.parametrize(("op", "dtype"), UNARY)
def test_unary(executor, op, dtype):
    verify(unary_results(executor, dtype), {op: unary_case(op, dtype)})


# -- where, casts, stores that convert ---------------------------------------------------------------------------------


def where_cases(dtype):
    x, y = inputs(dtype)
    s, literal = scalar(dtype)
    s, literal = np.array(s).astype(NP[dtype]), np.array(literal).astype(NP[dtype])
    on = np.arange(N) % 3 == 0
    forms = {"a, b": (x, y), "a, L": (x, literal), "L, b": (literal, y), "s, b": (s, y), "a, s": (x, s)}
    return {
        f"where {form}": Case(f"r = tt.where(i % 3 == 0, {form})", dtype, np.where(on, p, q))
        for form, (p, q) in forms.items()
    }


def cast_want(x, target):
    """C's rule for integers (the low bits); floats are cut towards zero, saturate, and NaN is 0."""
    with np.errstate(all="ignore"):
        if target == "bool":
            return x != 0
        if target in INTS and x.dtype.kind in "fV":
            info, wide = np.iinfo(target), x.astype(np.float64)
            inside = [0 if np.isnan(v) else min(max(v, info.min), info.max) for v in wide.tolist()]
            return np.array([int(v) for v in inside], dtype=object).astype(NP[target])
        if target == "bfloat16":
            return x.astype(np.float32).astype(NP[target])
        return x.astype(np.float64 if x.dtype == NP["bfloat16"] else x.dtype).astype(NP[target])


@cache
def cast_inputs(dtype):
    x = inputs(dtype)[0].copy()
    if dtype in FLOATS:
        special = [2.0**e * s for e in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1)] + [0.5, 1.5, 2.5, -0.5, -1.5]
        special += [127.9, 128.5, -128.9, 255.9, 65519.0, 65520.0, 1e-8, 6e-8, 3e38, 1e300, *edges(dtype).astype(float)]
        with np.errstate(over="ignore"):
            x[: len(special)] = np.array(special).astype(x.dtype)
    else:
        x[: len(edges(dtype))] = edges(dtype)
    return x, x


def cast_case(target, dtype):
    return Case(f"r = a.to({TT[target]})", target, cast_want(cast_inputs(dtype)[0], target))


@cache
def cast_results(executor, dtype):
    casts = {target: cast_case(target, dtype) for target in ALL}
    return attempt(*cast_inputs(dtype), casts)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("target", ALL)
def test_cast(executor, dtype, target):
    verify(cast_results(executor, dtype), {target: cast_case(target, dtype)})


@pytest.mark.parametrize("dtype", ALL)
def test_where(executor, dtype):
    x, y = inputs(dtype)
    verify(attempt(x, y, where_cases(dtype), scalar(dtype)), where_cases(dtype))


@pytest.mark.parametrize("dtype", ("bool", "int16", "uint8", "float16", "bfloat16", "float32"))
def test_store_converts_to_the_pointers_type(executor, dtype):
    k = kernel("""
@tt.jit
def k(x, out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n), mask=i < n)
""")
    for source in ("int32", "float64"):
        x, out = cast_inputs(source)[0], Guarded(N, NP[dtype])
        k[1](x, out.array, N, BLOCK)
        same_bits(out.check(), cast_want(x, dtype))
