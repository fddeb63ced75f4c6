"""The rest of the functions on floats, a line each, what is made of them, and the high half of a product.

They have C's names and C's results at NaN, the infinities and signed zeros. NumPy computes float32 in float64, so that
the interpreter is right to the last bit but one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..dtypes import bool_, uint64
from ..errors import KernelTypeError
from ..ir import Builder, Type, Value
from . import op
from .arithmetic import maximum, minimum, sub, truediv
from .create import zeros
from .math import calls, example, exp, sqrt
from .reduction import max_, sum_
from .typing import Operand, cast_value, floating, number, same_type


def _function(name: str, doc: str, meaning: Callable, operands: int = 1) -> Callable:
    """An op that C has as a function ``name``."""

    def of_one(b: Builder, x: Operand) -> Value:
        v = floating(b, x)
        return b.add(name, (v,), v.type)

    def of_two(b: Builder, x: Operand, y: Operand) -> Value:
        x, y = (floating(b, v) for v in same_type(b, x, y))
        return b.add(name, (x, y), x.type)

    def wide(*xs):
        return meaning(*(np.asarray(x, np.float64) for x in xs))

    doc = example(name, doc, wide, *[1.5] * (operands - 1))
    return op(name, doc, numpy=wide, emit=calls(name))(of_one if operands == 1 else of_two)


def _test(name: str, doc: str, meaning: Callable, text: str) -> Callable:
    """A question about a float, which ``text`` asks in C."""

    def rule(b: Builder, x: Operand) -> Value:
        v = floating(b, x)
        return b.add(name, (v,), Type(bool_, v.type.shape))

    def emit(e, op, x):
        t = op.operands[0].type.dtype
        return text.format(x=x, fabs=e.math("fabs", t), infinity=e.dialect.literal(math.inf, t))

    doc = example(name, doc, meaning, x="nan inf -inf 1")
    return op(name, doc, numpy=meaning, emit=emit, exact=True, cheap=True)(rule)


def _round(x):
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


sin = _function("sin", "The sine of ``x``, in radians.", np.sin)
cos = _function("cos", "The cosine of ``x``, in radians.", np.cos)
tan = _function("tan", "The tangent of ``x``, in radians.", np.tan)
asin = _function("asin", "The angle from -π/2 to π/2 whose sine is ``x``; NaN outside of -1 to 1.", np.arcsin)
acos = _function("acos", "The angle from 0 to π whose cosine is ``x``; NaN outside of -1 to 1.", np.arccos)
atan = _function("atan", "The angle from -π/2 to π/2 whose tangent is ``x``.", np.arctan)
atan2 = _function("atan2", "The angle of the point (y, x), from -π to π; ``x`` comes first here.", np.arctan2, 2)
sinh = _function("sinh", "The hyperbolic sine.", np.sinh)
cosh = _function("cosh", "The hyperbolic cosine.", np.cosh)
asinh = _function("asinh", "The number whose hyperbolic sine is ``x``.", np.arcsinh)
acosh = _function("acosh", "The number from 0 on whose hyperbolic cosine is ``x``; NaN below 1.", np.arccosh)
atanh = _function("atanh", "The number whose hyperbolic tangent is ``x``; NaN outside of -1 to 1.", np.arctanh)
erf = _function("erf", "The error function.", np.vectorize(math.erf, [np.float64]))
erfc = _function("erfc", "``1 - erf(x)``, exact where that is nearly 0.", np.vectorize(math.erfc, [np.float64]))
expm1 = _function("expm1", "``exp(x) - 1``, exact near 0.", np.expm1)
log1p = _function("log1p", "``log(1 + x)``, exact near 0; NaN below -1.", np.log1p)
log2 = _function("log2", "The logarithm to base 2; NaN below 0, -inf at 0.", np.log2)
log10 = _function("log10", "The logarithm to base 10; NaN below 0, -inf at 0.", np.log10)
cbrt = _function("cbrt", "The cube root, of negative numbers too.", np.cbrt)
pow = _function("pow", "``x`` to the power of ``y``; NaN for a root of a negative number.", np.float_power, 2)
hypot = _function("hypot", "``sqrt(x * x + y * y)``, without overflow on the way.", np.hypot, 2)
fmod = _function("fmod", "The remainder with the sign of ``x``, exact. ``x % y`` has that of ``y``.", np.fmod, 2)
copysign = _function("copysign", "``|x|`` with the sign of ``y``.", np.copysign, 2)
trunc = _function("trunc", "The whole part of ``x``, as a float.", np.trunc)
rint = _function("rint", "The nearest whole number, as a float; the even one of two.", np.rint)
round = _function("round", "The nearest whole number, as a float; of two, the one that is farther from 0.", _round)
isnan = _test("isnan", "A mask: where ``x`` is not a number.", np.isnan, "{x} != {x}")
isinf = _test("isinf", "A mask: where ``x`` is inf or -inf.", np.isinf, "{fabs}({x}) == {infinity}")
isfinite = _test(
    "isfinite", "A mask: where ``x`` is a number, and not infinite.", np.isfinite, "{fabs}({x}) < {infinity}"
)


def _high(x, y):
    bits = x.dtype.itemsize * 8
    wide, far = (np.uint64, np.uint64(32)) if bits == 32 else (object, 64)  # of Python's ints, which have no end
    a, b = (np.asarray(v).astype(f"uint{bits}").astype(wide) for v in (x, y))
    return np.asarray(a * b >> far).astype(f"uint{bits}").astype(x.dtype)


def _emit_high(e, op, x, y):
    t, u = op.result.type.dtype, e.unsigned(op.result.type.dtype)
    if t.kind == "i":
        x, y = f"({u}){x}", f"({u}){y}"
    if t.bits == 64:
        return f"({e.c(t)}){e.dialect.high}({x}, {y})"
    wide = f"{e.use('wide_product')}({x}, {y})" if e.dialect.name == "cuda" else f"({e.c(uint64)}){x} * {y}"
    return f"({e.c(t)})({wide} >> 32)"


@op(numpy=_high, emit=_emit_high, exact=True)
def umulhi(b: Builder, x: Operand, y: Operand) -> Value:
    """The upper half of the exact product of two 32-bit or 64-bit integers, whose bits are taken as unsigned.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, n): tt.store(out, tt.umulhi(n, n))
    >>> out = np.zeros(1, int); k[1](out, 2**20); out.tolist()
    [256]
    """
    x, y = same_type(b, x, y)
    if x.type.dtype.is_float or x.type.dtype.bits < 32:
        raise KernelTypeError(f"umulhi takes integers of 32 or 64 bits, not {x.type.dtype}; write .to(tt.uint32)")
    return b.add("umulhi", (x, y), x.type)


@op(numpy=None, emit=None, kind="macro")
def fdiv(b: Builder, x: Operand, y: Operand, ieee_rounding: bool = False) -> Value:
    """``x / y`` of floats: correctly rounded on every executor, whatever ``ieee_rounding`` says.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, a, b): tt.store(out, tt.fdiv(a, b))
    >>> out = np.zeros(1); k[1](out, 1.0, 4.0); out.tolist()
    [0.25]
    """
    x, y = same_type(b, x, y)
    if not x.type.dtype.is_float:
        raise KernelTypeError(f"this division is for floats, not {x.type.dtype}; write x / y, or x // y")
    return truediv(b, x, y)


@op(numpy=None, emit=None, kind="macro")
def div_rn(b: Builder, x: Operand, y: Operand) -> Value:
    """``x / y`` of floats, rounded to nearest even, as every division is.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, a, b): tt.store(out, tt.div_rn(a, b))
    >>> out = np.zeros(1); k[1](out, 3.0, 4.0); out.tolist()
    [0.75]
    """
    return fdiv(b, x, y)


@op(numpy=None, emit=None, kind="macro")
def sqrt_rn(b: Builder, x: Operand) -> Value:
    """The square root, rounded to nearest even, as ``sqrt`` is.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, a): tt.store(out, tt.sqrt_rn(a))
    >>> out = np.zeros(1); k[1](out, 2.25); out.tolist()
    [1.5]
    """
    return sqrt(b, x)


@op(numpy=None, emit=None, kind="macro")
def clamp(b: Builder, x: Operand, min: Operand, max: Operand, propagate_nan: bool = False) -> Value:
    """``x`` where it is between ``min`` and ``max``, else the nearer of them. A NaN gives ``min``, or stays one with
    ``propagate_nan=True``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.clamp(i, 1, 2))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [1, 1, 2, 2]
    """
    return minimum(b, maximum(b, x, min, propagate_nan), max, propagate_nan)


@op(numpy=None, emit=None, kind="macro")
def relu(b: Builder, x: Operand) -> Value:
    """``x`` where it is above 0, else 0. A NaN stays one.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.relu(i - 2))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 0, 0, 1]
    """
    return maximum(b, x, 0, True)


@op(numpy=None, emit=None, kind="macro")
def softmax(
    b: Builder, x: Operand, dim: int | None = None, keep_dims: bool = False, ieee_rounding: bool = False
) -> Value:
    """``exp(x)`` divided by its sum along ``dim`` (None: 0); a tile of x's shape, whatever ``keep_dims`` says.

    The greatest element is taken off first, so that nothing overflows. 16-bit floats are rounded once, at the end.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.softmax(tt.where(i < 2, 0.0, -float('inf'))))
    >>> out = np.zeros(4); k[1](out); out.tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    v, dim = floating(b, x), dim or 0
    y = cast_value(b, v, v.type.dtype.register)
    e = exp(b, sub(b, y, max_(b, y, dim, keep_dims=True)))
    return cast_value(b, truediv(b, e, sum_(b, e, dim, keep_dims=True)), v.type.dtype)


@op(numpy=None, emit=None, kind="macro")
def zeros_like(b: Builder, x: Value) -> Value:
    """A tile of zeros with the shape and the element type of ``x``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.zeros_like(i) + 1)
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [1, 1, 1, 1]
    """
    v = number(b, x)
    return zeros(b, v.type.shape, v.type.dtype)
