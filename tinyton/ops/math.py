"""Functions of one float. float16 and bfloat16 are computed in float32 and rounded; integers become float32."""

from __future__ import annotations

import numpy as np

from ..ir import Builder, Value
from . import op
from .typing import Operand, floating


def _unary(name: str, doc: str, function, emit=None, cheap: bool = False):
    def rule(b: Builder, x: Operand) -> Value:
        v = floating(b, x)
        return b.add(name, (v,), v.type)

    def call(e, op, x):
        return f"{e.math(name, op.result.type.dtype)}({x})"

    return op(name, doc, numpy=function, emit=emit or call, cheap=cheap)(rule)


def _sigmoid(e, op, x):
    one, exp = e.dialect.literal(1.0, op.result.type.dtype), e.math("exp", op.result.type.dtype)
    return f"{one} / ({one} + {exp}(-{x}))"


def _np_sigmoid(x):
    return x.dtype.type(1) / (x.dtype.type(1) + np.exp(-x))


exp = _unary("exp", "e to the power of ``x``.", np.exp)
exp2 = _unary("exp2", "2 to the power of ``x``.", np.exp2)
log = _unary("log", "The natural logarithm; NaN below 0, -inf at 0.", np.log)
sqrt = _unary("sqrt", "The square root, correctly rounded.", np.sqrt)
rsqrt = _unary("rsqrt", "``1 / sqrt(x)``.", lambda x: x.dtype.type(1) / np.sqrt(x))
floor = _unary("floor", "The greatest whole number that is not above ``x``, as a float.", np.floor, cheap=True)
ceil = _unary("ceil", "The least whole number that is not below ``x``, as a float.", np.ceil, cheap=True)
tanh = _unary("tanh", "The hyperbolic tangent; saturates at -1 and 1.", np.tanh)
sigmoid = _unary("sigmoid", "``1 / (1 + exp(-x))``; saturates at 0 and 1.", _np_sigmoid, _sigmoid)
