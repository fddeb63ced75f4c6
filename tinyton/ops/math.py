"""Functions of one float. float16 and bfloat16 are computed in float32 and rounded; integers become float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dtypes import float32
from ..ir import Builder, Value
from . import op
from .typing import Operand, floating

EXAMPLE = """{doc}

>>> import numpy as np, tinyton as tt
>>> @tt.jit
... def k(x, out):
...     i = tt.arange(0, 4)
...     tt.store(out + i, tt.{name}(tt.load(x + i){more}))
>>> x, out = np.float32("{x}".split()), np.zeros(4, {kind})
>>> k[1](x, out); print({show})
{out}"""


def example(name: str, doc: str, function: Callable, *more: float, x: str = "-1 0 0.5 2") -> str:
    """A docstring with an example: what the function gives for some numbers, and where it is not defined."""
    with np.errstate(all="ignore"):
        out = np.asarray(function(np.float32(x.split()), *map(np.float32, more)))
    kind, show, out = ("bool", "out", out) if out.dtype == bool else ("np.float32", "out.round(3)", out.round(3))
    return EXAMPLE.format(doc=doc, name=name, more="".join(f", {y}" for y in more), x=x, kind=kind, show=show, out=out)


def _unary(name: str, doc: str, function, emit=None, cheap: bool = False):
    def rule(b: Builder, x: Operand) -> Value:
        v = floating(b, x)
        return b.add(name, (v,), v.type)

    return op(name, example(name, doc, function), numpy=function, emit=emit or calls(name), cheap=cheap)(rule)


def calls(name: str) -> Callable:
    """The ``emit`` of an op that C has as a function."""
    return lambda e, op, *xs: f"{e.math(name, op.result.type.dtype)}({', '.join(xs)})"


EXP = """
{fn} float {name}(float x) {{  // 2**n * exp(r), to about 1 ulp; plain C, so that loops around it are vectorised
    #pragma OPENCL FP_CONTRACT ON
    const float y = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;  // beyond is 0 or inf
    const float whole = y * 1.44269504f + 12582912.0f, n = whole - 12582912.0f;  // so big a number has no fraction
    const float r = (y - n * 0.693145752f) - n * 1.42860677e-06f;  // the logarithm of 2 in two parts, the first short
    const float p = (((0.00139507256f * r + 0.00836902484f) * r + 0.0416662022f) * r + 0.166665182f) * r + 0.5f;
    const int e = as_int(whole) - as_int(12582912.0f), first = e >> 1;  // 2**e may not be a float
    return (p * (r * r) + r + 1.0f) * as_float((first + 127) << 23) * as_float((e - first + 127) << 23);
}}"""


def _exp(e, op, x):
    dtype = op.result.type.dtype
    own = e.dialect.name == "opencl" and dtype is float32
    return f"{e.helper('exp', EXP, dtype) if own else e.math('exp', dtype)}({x})"


def _sigmoid(e, op, x):
    if (own := e.math("sigmoid", op.result.type.dtype)) in e.helpers:
        return f"{own}({x})"
    one = e.dialect.literal(1.0, op.result.type.dtype)
    return f"{one} / ({one} + {_exp(e, op, f'-{x}')})"


def _np_sigmoid(x):
    return x.dtype.type(1) / (x.dtype.type(1) + np.exp(-x))


exp = _unary("exp", "e to the power of ``x``; of float32 on CUDA, what is below 1.2e-38 is 0.", np.exp, _exp)
exp2 = _unary("exp2", "2 to the power of ``x``; of float32 on CUDA, what is below 1.2e-38 is 0.", np.exp2)
log = _unary("log", "The natural logarithm; NaN below 0, -inf at 0.", np.log)
sqrt = _unary("sqrt", "The square root, correctly rounded.", np.sqrt)
rsqrt = _unary("rsqrt", "``1 / sqrt(x)``.", lambda x: x.dtype.type(1) / np.sqrt(x))
floor = _unary("floor", "The greatest whole number that is not above ``x``, as a float.", np.floor, cheap=True)
ceil = _unary("ceil", "The least whole number that is not below ``x``, as a float.", np.ceil, cheap=True)
tanh = _unary("tanh", "The hyperbolic tangent; saturates at -1 and 1.", np.tanh)
sigmoid = _unary("sigmoid", "``1 / (1 + exp(-x))``; saturates at 0 and 1.", _np_sigmoid, _sigmoid)
