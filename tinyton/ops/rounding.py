"""Operations on floats that are rounded as the user says, or take subnormal numbers for zero: an instruction on CUDA;
elsewhere the nearest result, moved to its neighbour if the sign of its error says so."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import DType, float32, float64, int8, int16, int32
from ..ir import Builder, Value
from . import OPS, op
from .arithmetic import abs, add, and_, bitcast_, eq, gt, lt, sub, where
from .typing import cast_value

PTX = {"truediv": "div", "exp2": "ex2", "maximum": "max", "minimum": "min"}
APPROXIMATE = ("rsqrt", "exp2", "tanh")  # there are no others of these
LEAST = 2.0**-126  # the least normal float32


def _plain(run, op, xs):
    entry = OPS[op.attrs["of"]]
    return entry.numpy(*xs) if entry.kind == "elementwise" else entry.numpy(run, op, *xs)


def _flushed(x):
    return np.where(np.abs(x) < LEAST, np.copysign(x.dtype.type(0), x), x)


def _error(name: str, r: float, *xs: float) -> int:
    """The sign of what was rounded off."""
    from fractions import Fraction

    if not all(map(math.isfinite, xs)) or math.isnan(r) or (name == "truediv" and not xs[1]):
        return 0
    if math.isinf(r):
        return -1 if r > 0 else 1
    x, *rest = map(Fraction, xs)
    exact = x + rest[0] if name == "add" else x * rest[0] if name == "mul" else x / rest[0] if rest else x
    near = Fraction(r) ** (1 if rest else 2)
    return (exact > near) - (exact < near)


def _meaning(run, op, *xs):
    name, mode, ftz = op.attrs["of"], op.attrs["mode"], op.attrs["ftz"]
    xs = [_flushed(x) for x in xs] if ftz else xs
    r = _plain(run, op, xs)
    if mode in ("rz", "rm", "rp"):
        wide = [np.asarray(x, np.float64) for x in (r, *xs)]
        error = np.vectorize(lambda *v: _error(name, *v), otypes=[np.int64])(*wide) if r.size else np.zeros(r.shape)
        to = {"rz": 0, "rm": -np.inf, "rp": np.inf}[mode]
        off = error < 0 if mode == "rm" else error > 0 if mode == "rp" else error * np.sign(r) < 0
        r = np.where(off, np.nextafter(r, r.dtype.type(to)), r)
        if name == "add" and mode == "rm":
            r = np.where((r == 0) & (np.signbit(xs[0]) | np.signbit(xs[1])), -r.dtype.type(0), r)
    return _flushed(r) if ftz else r


FLUSH = "fabs({x}) < 0x1p-126f ? copysign(0.0f, {x}) : {x}"
ERROR = {  # of a float32 in double, of a double by what fma tells
    ("add", 32): "(double)a + b != r ? (double)a + b - r : (a - ((double)a + b - ((double)a + b - a)))"
    " + (b - ((double)a + b - a))",
    ("mul", 32): "(double)a * b - r",
    ("truediv", 32): "(double)a / b - r",
    ("sqrt", 32): "sqrt((double)a) - r",
    ("add", 64): "isinf(r) && isfinite(a) && isfinite(b) ? -r : (a - (r - (r - a))) + (b - (r - a))",
    ("mul", 64): "r == 0 ? sign(a) * sign(b) : fabs(r) >= 0x1p-900 ? fma(a, b, -r)"
    " : fabs(a) < fabs(b) ? fma(a * 0x1p200, b, -r * 0x1p200) : fma(a, b * 0x1p200, -r * 0x1p200)",
    ("truediv", 64): "r == 0 || fabs(a) >= 0x1p-900 ? -fma(r, b, -a) * sign(b)"
    " : -fma(r, b * 0x1p200, -a * 0x1p200) * sign(b)",
    ("sqrt", 64): "a >= 0x1p-900 ? -fma(r, r, -a) : -fma(r * 0x1p100, r * 0x1p100, -a * 0x1p200)",
}
TOWARDS = {
    "rz": "e < 0 && r > 0 || e > 0 && r < 0 ? nextafter(r, ({T})0) : r",
    "rm": "e < 0 ? nextafter(r, -({T})INFINITY) : r",
    "rp": "e > 0 ? nextafter(r, ({T})INFINITY) : r",
}


def _emit(e, op, *xs):
    name, mode, ftz = op.attrs["of"], op.attrs["mode"], op.attrs["ftz"]
    t, cuda = op.result.type.dtype, e.dialect.name == "cuda"
    if cuda and name == "exp":
        return f"__expf({xs[0]})"
    words = [PTX.get(name, name), "" if name in ("maximum", "minimum") else "approx" if name in APPROXIMATE else mode]
    words += ["ftz" * ftz, "NaN" * op.attrs.get("propagate_nan", False)]
    word, args = ".".join(w for w in words if w), "ab"[: len(xs)]
    full, params = word.replace(".", "_"), ", ".join(f"{e.c(t)} {x}" for x in args)
    if cuda:
        letter, places = "f" if t is float32 else "d", ", ".join(f"%{k + 1}" for k in range(len(xs)))
        asm = {"word": f"{word}.f{t.bits}", "letter": letter, "places": places, "params": params}
        asm["ins"] = ", ".join(f'"{letter}"({x})' for x in args)
        return f"{e.helper(full, e.dialect.helpers['rounded'], t, **asm)}({', '.join(xs)})"
    body = [f"    {x} = {FLUSH.format(x=x)};" for x in args * ftz]
    body.append(f"    {{T}} r = {OPS[name].emit(e, op, *args)};")
    if mode in TOWARDS:
        body += [f"    const double e = {ERROR[name, t.bits]};", f"    r = {TOWARDS[mode]};"]
    if (name, mode) == ("add", "rm"):
        body.append("    r = r == 0 && (signbit(a) || signbit(b)) ? -({T})0 : r;")
    body += [f"    r = {FLUSH.format(x='r')};"] * ftz
    text = "\n".join([f"{{fn}} {{T}} {{name}}({params}) {{{{", *body, "    return r;", "}}"])
    return f"{e.helper(full, text, t)}({', '.join(xs)})"


@op(numpy=_meaning, emit=_emit, kind="typed", exact=True, public=False)
def rounded(b: Builder, name: str, xs: tuple[Value, ...], mode: str, ftz: bool, **attrs: object) -> Value:
    """The op ``name`` of float32 or float64, rounded by ``mode``: "rn" to nearest even, "rz" to zero, "rm" down, "rp"
    up, "full" and "approx" with less precision where that is faster. ``ftz`` makes subnormal operands and results 0."""
    if name == "sub":
        name, xs = "add", (xs[0], OPS["neg"].rule(b, xs[1]))
    return b.add("rounded", xs, xs[0].type, of=name, mode=mode, ftz=ftz, **attrs)


def narrow(b: Builder, x: Value, dtype: DType, mode: str) -> Value:
    """A float as another float type, rounded by ``mode``: as in `rounded`, or "ra" to nearest, from a half away from
    0."""
    near = cast_value(b, x, dtype)
    if mode == "rn" or dtype.bits >= x.type.dtype.bits and not dtype.is_narrow:
        return near
    wide = float64 if x.type.dtype is float64 else float32
    x, r, integer = cast_value(b, x, wide), cast_value(b, near, wide), {8: int8, 16: int16, 32: int32}[dtype.bits]
    outside = gt(b, abs(b, x), abs(b, r))
    step = cast_value(b, where(b, outside, 1, -1), integer)
    beside = bitcast_(b, add(b, bitcast_(b, near, integer), step), dtype)
    if mode == "ra":
        half = eq(b, sub(b, x, r), sub(b, cast_value(b, beside, wide), x))
        return where(b, and_(b, outside, half), beside, near)
    off = lt(b, x, r) if mode == "rm" else gt(b, x, r) if mode == "rp" else lt(b, abs(b, x), abs(b, r))
    return where(b, off, beside, near)
