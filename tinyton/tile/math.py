"""Arithmetic and functions, element by element, and what they are rounded to."""

from __future__ import annotations

import ast
import re
from enum import Enum
from functools import partial

from ..dtypes import bool_, float32, int32
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from ..ops import OPS
from ..ops.rounding import narrow, rounded
from ..ops.typing import Operand, cast_value, constant_int, describe, is_weak, number, same_type
from .language import MEANINGS, NAMES, function, made


class RoundingMode(Enum):
    """How a float is rounded: to nearest, even of two (RN) or away from 0 (RA), to zero (RZ), down (RM), up (RP); FULL
    and APPROX take the functions of the hardware that are faster and less precise."""

    RN, RZ, RM, RP, RA = "rn", "rz", "rm", "rp", "ra"
    FULL, APPROX = "full", "approx"


NAMES["RoundingMode"] = RoundingMode
MEANINGS |= {ast.Div: "truediv", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor"}
MEANINGS |= {ast.USub: "negative"}
EXACT = ("RN", "RZ", "RM", "RP")
MODES = {"add": EXACT, "sub": EXACT, "mul": EXACT, "truediv": (*EXACT, "FULL", "APPROX"), "sqrt": (*EXACT, "APPROX")}
MODES |= {"tanh": ("FULL", "APPROX"), "exp": ("FULL", "APPROX"), "astype": (*EXACT, "RA")}
FLUSH = ("add", "sub", "mul", "truediv", "minimum", "maximum", "exp2", "sqrt", "rsqrt")


def no_bool(name: str, *xs: Value) -> None:
    if all(x.type.dtype is bool_ for x in xs):
        raise KernelTypeError(f"{name} is not defined on bool; convert one side with .astype(ct.int32), or use & | ^ ~")


def mode_of(name: str, mode: object) -> str:
    """The rounding of an op as a word, "" for the usual one."""
    if mode is None:
        return ""
    if not isinstance(mode, RoundingMode) or mode.name not in MODES[name]:
        what = mode.name if isinstance(mode, RoundingMode) else describe(mode)
        known = f"the rounding_mode of {name} is one of {', '.join(MODES[name])}"
        raise KernelTypeError(f"{known}; not {what}", argument="rounding_mode")
    return mode.value


def special(b: Builder, name: str, xs: tuple[Value, ...], mode: str, flush: bool, **more: object) -> Value:
    """The op ``name`` of floats of one type with a rounding of its own, or flushed."""
    kind, what = xs[0].type.dtype, "flush_to_zero" if flush else "rounding_mode"
    if not kind.is_float or kind is not float32 and (flush or mode in ("full", "approx")):
        only = "float32" if kind.is_float or flush else "floats"
        raise KernelTypeError(f"{what}{f' {mode.upper()}' * (not flush)} is for {only}, not {kind}", argument=what)
    if mode in ("", "rn") and not flush or mode == "full" and name in ("tanh", "exp"):
        return OPS[name].rule(b, *xs)
    wide = tuple(cast_value(b, x, kind.register) for x in xs)
    v = rounded(b, name, wide, mode or "rn", flush, **more)
    return narrow(b, v, kind, mode) if kind.is_narrow else v


def _combined(
    name: str, b: Builder, *xs: Operand, rounding_mode: object = None, flush_to_zero: object = False, **nan: object
) -> Value:
    mode, flush, nan = mode_of(name, rounding_mode), bool(flush_to_zero), {k: bool(x) for k, x in nan.items()}
    values = (number(b, xs[0]),) if len(xs) == 1 else same_type(b, *xs)
    if name in ("truediv", "add", "sub", "mul"):
        no_bool(name, *values)
    if not mode and not flush:
        return OPS[name].rule(b, *values, **nan)
    if not values[0].type.dtype.is_float and name in ("truediv", "exp", "exp2", "sqrt", "rsqrt", "tanh"):
        values = tuple(cast_value(b, v, float32) for v in values)
    return special(b, name, values, mode, flush, **nan)


def _whole(name: str, b: Builder, x: Operand) -> Value:
    v = number(b, x)
    if not v.type.dtype.is_float:
        raise KernelTypeError(f"{name} is for floats; {v.type} has whole numbers already", argument="x")
    return OPS[name].rule(b, v)


def _bits(name: str, b: Builder, x: Operand, y: Operand) -> Value:
    kinds = [number(b, v).type.dtype for v in (x, y) if not is_weak(b, v)]
    if len(kinds) == 2 and kinds[0] is not kinds[1]:
        raise KernelTypeError(f"bits of {kinds[0]} and {kinds[1]} do not meet: use .astype on one side")
    return OPS[name].rule(b, x, y)


def _pow(name: str, b: Builder, x: Operand, y: Operand) -> Value:
    mul, small = OPS["mul"].rule, isinstance(y, int) and not isinstance(y, bool)
    if type(x) is int and x == 2 and isinstance(y, Value) and not y.type.dtype.is_float:
        return OPS["shl"].rule(b, 1, y)
    if small and y == 2:
        return mul(b, number(b, x), number(b, x))
    left, right = same_type(b, x, y)
    if left.type.dtype.is_float:
        return OPS["pow"].rule(b, left, right)
    no_bool("pow", left, right)
    if not small or y < 0:
        what = "a negative number" if small else "a run-time value"
        raise KernelTypeError(f"an integer to the power of {what}: convert it, x.astype(ct.float32) ** y", argument="y")
    out, power, rest = None, left, y
    while rest:
        if rest & 1:
            out = power if out is None else mul(b, out, power)
        rest >>= 1
        power = mul(b, power, power) if rest else power
    return OPS["add"].rule(b, OPS["sub"].rule(b, left, left), 1) if out is None else out


def _divmod(name: str, b: Builder, x: Operand, y: Operand) -> tuple[Value, Value]:
    left, right = same_type(b, x, y)
    if left.type.dtype.is_float:
        raise KernelTypeError(f"divmod is for integers, not {left.type.dtype}; write x // y and x % y")
    return OPS["floordiv"].rule(b, left, right), OPS["mod"].rule(b, left, right)


def _negative(name: str, b: Builder, x: Operand) -> Value:
    v = number(b, x)
    return OPS["neg"].rule(b, cast_value(b, v, int32) if v.type.dtype is bool_ else v)


def _where(name: str, b: Builder, *xs: Operand) -> Value:
    return OPS[name].rule(b, *xs)


WHERE = "``x`` where the bool tile ``cond`` holds, else ``y``; the three broadcast, ``x`` and ``y`` meet in one type."
POW = "``x ** y``. An integer takes a constant ``y`` from 0 on; anything else with one is a TileTypeError."
EXAMPLE = """

>>> import numpy as np, tinyton.tile as ct
>>> @ct.kernel
... def k(x, out): ct.store(out, 0, ct.{})
>>> x, out = np.array([{}], np.{}), np.zeros(2, np.{})
>>> ct.launch(None, (1,), k, (x, out)); out.tolist()
[{}]"""
ROUNDING = " ``rounding_mode`` is one of {}."
FLUSHING = " ``flush_to_zero``, of float32, makes subnormal numbers 0 on the way in and out."
NANS = " A NaN beside a number is ignored, unless ``propagate_nan``."
FLOAT, INT = ("float32", "float32"), ("int32", "int32")
MASK = ("float32", "bool")


def _function(
    head: str, text: str, given: str, call: str, result: str, kinds: tuple = FLOAT, op: str = "", rule=_combined
) -> None:
    """A function of this spelling, by name and operands: the op of its name (or ``op``), typed by ``rule``. Of a tile x
    of the numbers ``given``, ``call`` gives ``result``."""
    name, operands = head.split(" ", 1)
    word, options = op or name, {}
    if name in MODES:
        text, options["rounding_mode"] = text + ROUNDING.format(", ".join(MODES[name])), None
    if name in FLUSH:
        text, options["flush_to_zero"] = text + FLUSHING, False
    if name in ("minimum", "maximum"):
        text, options["propagate_nan"] = text + NANS, False
    text += EXAMPLE.format(re.sub(r"\bx\b", "ct.load(x, 0, 2)", call), given, *kinds, result)
    function(host=OPS[word].host if word in OPS else None)(made(name, operands, partial(rule, word), text, **options))


_function("add x y", "``x + y``.", "1, 2", "add(x, 3)", "4.0, 5.0")
_function("sub x y", "``x - y``.", "1, 2", "sub(x, 3)", "-2.0, -1.0")
_function("mul x y", "``x * y``.", "1, 2", "mul(x, 3)", "3.0, 6.0")
_function("truediv x y", "``x / y``; of integers, float32.", "1, 2", "truediv(x, 2)", "0.5, 1.0")
_function("floordiv x y", "``x // y``, rounded down; an int by 0 is 0.", "7, -7", "floordiv(x, 2)", "3, -4", INT)
_function("mod x y", "``x % y``, with the sign of ``y``; an int by 0 is 0.", "7, -7", "mod(x, 4)", "3, 1", INT)
_function("divmod x y", "``(x // y, x % y)`` of integers.", "7, -7", "divmod(x, 4)[1]", "3, 1", INT, rule=_divmod)
_function("cdiv x y", "``x / y`` of integers, rounded up; outside of kernels, too.", "7, 8", "cdiv(x, 4)", "2, 2", INT)
_function("pow x y", POW, "2, 3", "pow(x, 2)", "4.0, 9.0", rule=_pow)
_function("atan2 y x", "The angle of the point (x, y), from -π to π.", "0, -0.0", "atan2(x, 1)", "0.0, -0.0")
_function("minimum x y", "The lesser of ``x`` and ``y``.", "1, 5", "minimum(x, 3)", "1.0, 3.0")
_function("maximum x y", "The greater of ``x`` and ``y``.", "1, 5", "maximum(x, 3)", "3.0, 5.0")
_function("exp x", "e to the power of ``x``; of integers, float32.", "0, -np.inf", "exp(x)", "1.0, 0.0")
_function("exp2 x", "2 to the power of ``x``; of integers, float32.", "3, -1", "exp2(x)", "8.0, 0.5")
_function("log x", "The natural logarithm; of integers, float32.", "1, 0", "log(x)", "0.0, -inf")
_function("log2 x", "The logarithm to base 2; of integers, float32.", "8, 0.5", "log2(x)", "3.0, -1.0")
_function("sqrt x", "The square root; of integers, float32.", "9, 2.25", "sqrt(x)", "3.0, 1.5")
_function("rsqrt x", "``1 / sqrt(x)``; of integers, float32.", "4, 0.25", "rsqrt(x)", "0.5, 2.0")
_function("sin x", "The sine of ``x`` in radians; of integers, float32.", "0, -0.0", "sin(x)", "0.0, -0.0")
_function("cos x", "The cosine of ``x`` in radians; of integers, float32.", "0, -0.0", "cos(x)", "1.0, 1.0")
_function("tan x", "The tangent of ``x`` in radians; of integers, float32.", "0, -0.0", "tan(x)", "0.0, -0.0")
_function("sinh x", "The hyperbolic sine; of integers, float32.", "0, np.inf", "sinh(x)", "0.0, inf")
_function("cosh x", "The hyperbolic cosine; of integers, float32.", "0, np.inf", "cosh(x)", "1.0, inf")
_function("tanh x", "The hyperbolic tangent; of integers, float32.", "0, -0.0", "tanh(x)", "0.0, -0.0")
_function("floor x", "The greatest whole number up to a float.", "1.5, -1.5", "floor(x)", "1.0, -2.0", rule=_whole)
_function("ceil x", "The least whole number from a float on.", "1.5, -1.5", "ceil(x)", "2.0, -1.0", rule=_whole)
_function("abs x", "``|x|``; the least integer is its own.", "1.5, -1.5", "abs(x)", "1.5, 1.5")
_function("negative x", "``-x``; of bool, int32.", "1.5, -2", "negative(x)", "-1.5, 2.0", rule=_negative)
_function("isnan x", "Where ``x`` is not a number.", "1, np.nan", "isnan(x)", "False, True", MASK)
for _name, _sign, _result in (("and", "&", "2, 3"), ("or", "|", "7, 3"), ("xor", "^", "5, 0")):
    _text = f"``x {_sign} y`` of integers, or of bools, of one type."
    _function(f"bitwise_{_name} x y", _text, "6, 3", f"bitwise_{_name}(x, 3)", _result, INT, _name, _bits)
for _name, _op, _text, _result in (
    ("lshift", "shl", "``x << y`` of integers; 0 if ``y`` is not below the width.", "12, -2"),
    ("rshift", "shr", "``x >> y`` of integers, keeping the sign of a signed ``x``.", "3, -1"),
):
    _function(f"bitwise_{_name} x y", _text, "6, -1", f"bitwise_{_name}(x, 1)", _result, INT, _op)
_function("bitwise_not x", "``~x`` of an integer or a bool.", "0, 5", "bitwise_not(x)", "-1, -6", INT, "invert")
for _name, _op, _sign, _result in (
    ("greater", "gt", ">", "False, False"),
    ("greater_equal", "ge", ">=", "False, True"),
    ("less", "lt", "<", "True, False"),
    ("less_equal", "le", "<=", "True, True"),
    ("equal", "eq", "==", "False, True"),
    ("not_equal", "ne", "!=", "True, False"),
):
    _function(f"{_name} x y", f"``x {_sign} y``, a bool tile.", "1, 2", f"{_name}(x, 2)", _result, MASK, _op)
_function("where cond x y", WHERE, "1, -1", "where(x > 0, 5.0, 7.0)", "5.0, 7.0", rule=_where)


@function()
def assume_divisible_by(b: Builder, x: Operand, divisor: int) -> Value:
    """``x``, an int scalar or tile, whose elements are all promised to be multiples of ``divisor``, an int from 1 on.
    Accesses may become wider; the interpreter says which element is no multiple.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(out, n): ct.store(out, 0, ct.assume_divisible_by(n, 16) // 16)
    >>> out = np.zeros(1, np.int32); ct.launch(None, (1,), k, (out, 48)); out.tolist()
    [3]
    """
    v, n = number(b, x), constant_int(divisor, "divisor")
    if not v.type.dtype.is_int:
        raise KernelTypeError(f"a float or a bool has no divisor; this is {v.type}", argument="x")
    if n < 1:
        raise KernelValueError(f"a divisor is an int from 1 on, not {n}", argument="divisor")
    return b.add("multiple_of", (v,), v.type, values=(n,) * max(1, len(v.type.shape)))
