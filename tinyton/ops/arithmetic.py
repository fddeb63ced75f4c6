"""Operators: arithmetic with NumPy's results in every corner (wrap-around, floor division, shifts), comparisons,
casts."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType, bool_, float32, pack, unpack
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .typing import (
    Operand,
    cast_value,
    constant_dtype,
    number,
    same_shape,
    same_type,
    value_of,
)


def _no_bool(name: str, *xs: Value) -> None:
    for x in xs:
        if x.type.dtype is bool_:
            raise KernelTypeError(f"{name} is not defined on bool; convert one side with .to(tt.int32), or use & | ^ ~")


def _arith(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    if any(isinstance(v, Value) and v.type.pointer for v in (x, y)):
        return _offset(b, name, x, y)
    x, y = same_type(b, x, y)
    _no_bool(name, x, y)
    return b.add(name, (x, y), x.type)


def _offset(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    if name == "add" and not (isinstance(x, Value) and x.type.pointer):
        x, y = y, x
    if name not in ("add", "sub") or not (isinstance(x, Value) and x.type.pointer):
        raise KernelTypeError(f"{name} is not defined on a pointer; a pointer takes + and - of an integer offset")
    if isinstance(y, Value) and y.type.pointer:
        raise KernelTypeError("two pointers cannot be added or subtracted; a pointer takes an integer offset")
    offset = value_of(b, y)
    if not offset.type.dtype.is_int or offset.type.dtype is bool_:
        raise KernelTypeError(f"an offset is an integer, in elements; this one is {offset.type}")
    if name == "sub":
        offset = b.add("neg", (offset,), offset.type)
    ptr, offset = same_shape(b, x, offset)
    return b.add("addptr", (ptr, offset), ptr.type)


def _wrapping(symbol: str):
    def emit(e, op, x, y):
        t = op.result.type.dtype
        if t.is_float or e.fits(op.result) or t.kind == "u":
            return f"{x} {symbol} {y}"
        return f"({e.c(t)})(({e.unsigned(t)}){x} {symbol} ({e.unsigned(t)}){y})"

    return emit


@op(numpy=np.add, emit=_wrapping("+"), cheap=True, public=False)
def add(b: Builder, x: Operand, y: Operand) -> Value:
    """``x + y``; integers wrap around. A pointer plus an integer moves by that many elements."""
    return _arith(b, "add", x, y)


@op(numpy=np.subtract, emit=_wrapping("-"), cheap=True, public=False)
def sub(b: Builder, x: Operand, y: Operand) -> Value:
    """``x - y``; integers wrap around."""
    return _arith(b, "sub", x, y)


@op(numpy=np.multiply, emit=_wrapping("*"), cheap=True, public=False)
def mul(b: Builder, x: Operand, y: Operand) -> Value:
    """``x * y``; integers wrap around."""
    return _arith(b, "mul", x, y)


@op(
    numpy=lambda p, i: p + np.asarray(i, np.int64),
    emit=lambda e, op, p, i: f"{p} + {i}",
    cheap=True,
    exact=True,
    public=False,
)
def addptr(b: Builder, ptr: Value, offset: Value) -> Value:
    """A pointer moved by an offset in elements, computed as if in 64 bits throughout."""
    return _offset(b, "add", ptr, offset)


@op(numpy=np.divide, emit=lambda e, op, x, y: f"{x} / {y}", cheap=True, public=False)
def truediv(b: Builder, x: Operand, y: Operand) -> Value:
    """``x / y``: of two integers, float32."""
    x, y = same_type(b, x, y)
    if not x.type.dtype.is_float:
        x, y = cast_value(b, x, float32), cast_value(b, y, float32)
    return b.add("truediv", (x, y), x.type)


FLOORDIV_INT = """
{fn} {T} {name}({T} a, {T} b) {{  // Python's floor; a / 0 is 0, and the least value / -1 is itself, as in NumPy
    if (b == 0) return 0;
    if (b == ({T})-1) return ({T})(({U})0 - ({U})a);
    {T} q = ({T})(a / b);
    return ({T})(q - ((a % b != 0) & ((a < 0) != (b < 0))));
}}"""
MOD_INT = """
{fn} {T} {name}({T} a, {T} b) {{  // the remainder has the divisor's sign; a % 0 is 0
    if (b == 0 || b == ({T})-1) return 0;
    {T} m = ({T})(a % b);
    return ({T})(m != 0 && (m < 0) != (b < 0) ? m + b : m);
}}"""
UNSIGNED = {
    "floordiv": "\n{fn} {T} {name}({T} a, {T} b) {{ return b == 0 ? ({T})0 : ({T})(a / b); }}",
    "mod": "\n{fn} {T} {name}({T} a, {T} b) {{ return b == 0 ? ({T})0 : ({T})(a % b); }}",
}
MOD_FLOAT = """
{fn} {T} {name}({T} a, {T} b) {{  // the remainder has the divisor's sign
    {T} m = {fmod}(a, b);
    if (b == 0) return m;
    return m == 0 ? {copysign}(({T})0, b) : (m < 0) != (b < 0) ? m + b : m;
}}"""
FLOORDIV_FLOAT = """
{fn} {T} {name}({T} a, {T} b) {{  // (a - a % b) / b, snapped to the nearest integer
    {T} m = {fmod}(a, b);
    if (b == 0) return a / b;
    {T} q = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0)) q -= 1;
    if (q == 0) return {copysign}(({T})0, a / b);
    {T} f = {floor}(q);
    return q - f > ({T})0.5 ? f + 1 : f;
}}"""


def _floor_helper(name: str, of_int: str, of_float: str):
    def emit(e, op, x, y):
        t = op.result.type.dtype
        text = of_float if t.is_float else UNSIGNED[name] if t.kind == "u" else of_int
        return f"{e.helper(name, text, t)}({x}, {y})"

    return emit


def _divide(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    x, y = same_type(b, x, y)
    _no_bool(name, x, y)
    return b.add(name, (x, y), x.type)


@op(
    numpy=np.floor_divide,
    emit=_floor_helper("floordiv", FLOORDIV_INT, FLOORDIV_FLOAT),
    cheap=True,
    public=False,
)
def floordiv(b: Builder, x: Operand, y: Operand) -> Value:
    """``x // y``, rounded towards minus infinity; an integer by 0 is 0."""
    return _divide(b, "floordiv", x, y)


@op(numpy=np.remainder, emit=_floor_helper("mod", MOD_INT, MOD_FLOAT), cheap=True, public=False)
def mod(b: Builder, x: Operand, y: Operand) -> Value:
    """``x % y``, with the sign of ``y``; an integer by 0 is 0."""
    return _divide(b, "mod", x, y)


def _host_cdiv(x: int, y: int) -> int:
    return -(-x // y)


@op(numpy=None, emit=None, kind="macro", host=_host_cdiv)
def cdiv(b: Builder, x: Operand, y: Operand) -> Value:
    """``x / y`` rounded up, of integers: how many tiles of ``y`` cover ``x``."""
    x, y = same_type(b, x, y)
    if x.type.dtype.is_float:
        raise KernelTypeError(f"cdiv takes integers, not {x.type.dtype}")
    return (
        _arith(b, "sub", 0, _divide(b, "floordiv", _arith(b, "sub", 0, x), y))
        if x.type.dtype.kind == "i"
        else _cdiv_unsigned(b, x, y)
    )


def _cdiv_unsigned(b: Builder, x: Value, y: Value) -> Value:
    rest = b.add("ne", same_type(b, _divide(b, "mod", x, y), 0), Type(bool_, x.type.shape))
    return _arith(b, "add", _divide(b, "floordiv", x, y), rest)


def _bitwise(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    x, y = same_type(b, x, y)
    if x.type.dtype.is_float:
        raise KernelTypeError(f"{name} is not defined on {x.type.dtype}; it takes integers or bool")
    return b.add(name, (x, y), x.type)


@op(numpy=np.bitwise_and, emit=lambda e, op, x, y: f"{x} & {y}", cheap=True, exact=True, public=False)
def and_(b: Builder, x: Operand, y: Operand) -> Value:
    """``x & y`` of integers, or of masks."""
    return _bitwise(b, "and", x, y)


@op(numpy=np.bitwise_or, emit=lambda e, op, x, y: f"{x} | {y}", cheap=True, exact=True, public=False)
def or_(b: Builder, x: Operand, y: Operand) -> Value:
    """``x | y`` of integers, or of masks."""
    return _bitwise(b, "or", x, y)


@op(numpy=np.bitwise_xor, emit=lambda e, op, x, y: f"{x} ^ {y}", cheap=True, exact=True, public=False)
def xor(b: Builder, x: Operand, y: Operand) -> Value:
    """``x ^ y`` of integers, or of masks."""
    return _bitwise(b, "xor", x, y)


def _shift(name: str, left: bool):
    text = (
        "\n{fn} {T} {name}({T} a, {T} s) {{ return ({U})s >= {bits} ? ({T})0 : ({T})(({U})a << s); }}"
        if left
        else "\n{fn} {T} {name}({T} a, {T} s) {{ return ({U})s >= {bits} ? ({T})(a < 0 ? -1 : 0) : ({T})(a >> s); }}"
    )

    def emit(e, op, x, s):
        t = op.result.type.dtype
        return f"{e.helper(name, text, t)}({x}, {s})"

    return emit


def _shift_rule(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    x, y = same_type(b, x, y)
    if x.type.dtype.is_float or x.type.dtype is bool_:
        raise KernelTypeError(f"a shift takes integers, not {x.type.dtype}")
    return b.add(name, (x, y), x.type)


def _np_shift(f):
    def shift(x, s):
        bits = x.dtype.itemsize * 8
        beyond = (s < 0) | (s >= bits)
        rest = np.where(x < 0, -1, 0).astype(x.dtype) if f is np.right_shift else np.zeros_like(x)
        return np.where(beyond, rest, f(x, np.where(beyond, 0, s).astype(x.dtype)))

    return shift


@op(numpy=_np_shift(np.left_shift), emit=_shift("shl", True), cheap=True, public=False)
def shl(b: Builder, x: Operand, y: Operand) -> Value:
    """``x << y``; 0 when ``y`` is not less than the width."""
    return _shift_rule(b, "shl", x, y)


@op(numpy=_np_shift(np.right_shift), emit=_shift("shr", False), cheap=True, exact=True, public=False)
def shr(b: Builder, x: Operand, y: Operand) -> Value:
    """``x >> y``, keeping the sign of a signed ``x``; 0 or -1 when ``y`` is not less than the width."""
    return _shift_rule(b, "shr", x, y)


def _neg(e, op, x):
    t = op.result.type.dtype
    return f"-{x}" if t.is_float or e.fits(op.result) else f"({e.c(t)})(0 - ({e.unsigned(t)}){x})"


@op(numpy=np.negative, emit=_neg, cheap=True, public=False)
def neg(b: Builder, x: Operand) -> Value:
    """``-x``."""
    v = number(b, x)
    _no_bool("negation", v)
    return b.add("neg", (v,), v.type)


@op(
    numpy=np.invert,
    emit=lambda e, op, x: f"!{x}" if op.result.type.dtype is bool_ else f"~{x}",
    cheap=True,
    public=False,
)
def invert(b: Builder, x: Operand) -> Value:
    """``~x``: the other bits of an integer, or ``not`` of a mask."""
    v = number(b, x)
    if v.type.dtype.is_float:
        raise KernelTypeError(f"~ is not defined on {v.type.dtype}; it takes integers or bool")
    return b.add("invert", (v,), v.type)


def _compare(name: str, function, symbol: str):
    def rule(b: Builder, x: Operand, y: Operand) -> Value:
        x, y = same_type(b, x, y)
        return b.add(name, (x, y), Type(bool_, x.type.shape))

    rule.__name__ = name
    rule.__doc__ = f"``x {symbol} y``, a mask."
    return op(numpy=function, emit=lambda e, op, x, y: f"{x} {symbol} {y}", cheap=True, exact=True, public=False)(rule)


lt = _compare("lt", np.less, "<")
le = _compare("le", np.less_equal, "<=")
gt = _compare("gt", np.greater, ">")
ge = _compare("ge", np.greater_equal, ">=")
eq = _compare("eq", np.equal, "==")
ne = _compare("ne", np.not_equal, "!=")

NARROW_FLOAT = """
{fn} {T} {name}({S} x) {{  // towards zero; what does not fit becomes the nearest that does, NaN becomes 0
    return x != x ? ({T})0 : x <= {low} ? {least} : x >= {high} ? {greatest} : ({T})x;
}}"""


def _cast(e, op, x):
    source, target = op.operands[0].type.dtype, op.result.type.dtype
    if target is bool_:
        return f"{x} != 0"
    if source.is_float and target.is_int:
        low, high = target.range
        ends = {"low": float(low), "high": float(high), "least": low, "greatest": high}
        words = {k: e.dialect.literal(v, source.register if isinstance(v, float) else target) for k, v in ends.items()}
        return f"{e.helper(f'from_{source.register.short}', NARROW_FLOAT, target, S=e.c(source), **words)}({x})"
    if source.register is target.register:
        return x
    return f"({e.c(target)}){x}" if not (source.bits == 64 and target.is_half) else e.round_double(x, target)


def _np_cast(run, op, x):
    source, target = op.operands[0].type.dtype, op.result.type.dtype
    x = np.asarray(x)
    if target is bool_:
        return x != 0
    if source.is_float and target.is_int:
        low, high = target.range
        kept = np.where((x > float(low)) & (x < float(high)), x, 0).astype(target.numpy)
        edges = np.where(x >= float(high), np.array(high, target.numpy), np.array(low, target.numpy))
        outside = (x >= float(high)) | (x <= float(low))
        return np.where(outside, edges, kept)
    if target.is_half and source.bits == 64 and source.is_float and target.name == "float16":
        return x.astype(np.float16).astype(np.float32)
    return x.astype(target.register.numpy)


@op(numpy=_np_cast, emit=_cast, kind="typed", cheap=True)
def cast(
    b: Builder,
    x: Operand,
    dtype: DType,
    # >>> stage 7
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
    # <<<
) -> Value:
    """``x.to(dtype)``: integers keep their low bits; floats are cut towards zero to integers, saturating, NaN to 0.

    Floats are rounded to nearest even ("rtne", the only ``fp_downcast_rounding``). With ``bitcast=True`` the bits stay
    and are read as ``dtype``, which must be as wide.
    """
    # >>> stage 7
    if fp_downcast_rounding not in (None, "rtne"):
        what = f'fp_downcast_rounding is "rtne", to nearest even, not {fp_downcast_rounding!r}'
        raise KernelValueError(what, argument="fp_downcast_rounding")
    if bitcast:
        return bitcast_(b, x, dtype)
    # <<<
    return cast_value(b, value_of(b, x, constant_dtype(dtype)), dtype)


def _bits(e, x: str, dtype: DType) -> str:
    """C for the bits of a register's value as an unsigned integer of the element's width."""
    if dtype.is_half:
        return e.bits_text(x, dtype)
    if dtype.is_float:
        return f"{e.use('bits_of' if dtype is float32 else 'bits_of_double')}({x})"
    return f"({e.unsigned(dtype)}){x}"


def _of_bits(e, bits: str, dtype: DType) -> str:
    if dtype.is_half:
        return e.load_text(f"(unsigned short){bits}", dtype)
    if dtype.is_float:
        return f"{e.use('float_of' if dtype is float32 else 'double_of')}({bits})"
    return f"({e.c(dtype)}){bits}"


def _np_bitcast(run, op, x):
    source, target = op.operands[0].type.dtype, op.result.type.dtype
    return unpack(pack(x, source).view(target.numpy), target)


def _bitcast(e, op, x):
    return _of_bits(e, _bits(e, x, op.operands[0].type.dtype), op.result.type.dtype)


@op(numpy=_np_bitcast, emit=_bitcast, kind="typed", cheap=True, exact=True, public=False)
def bitcast_(b: Builder, x: Operand, dtype: DType) -> Value:
    """The same bits read as another type of the same width."""
    v, target = number(b, x), constant_dtype(dtype)
    if v.type.dtype.bits != target.bits:
        what = f"{v.type.dtype} has {v.type.dtype.bits} bits and {target} has {target.bits}"
        raise KernelValueError(f"{what}: bitcast=True keeps the bits, so both are as wide", argument="dtype")
    return v if v.type.dtype is target else b.add("bitcast", (v,), Type(target, v.type.shape))


@op(numpy=np.where, emit=lambda e, op, c, x, y: f"{c} ? {x} : {y}", cheap=True, exact=True)
def where(b: Builder, condition: Operand, x: Operand, y: Operand) -> Value:
    """``x`` where ``condition`` (a mask) holds, else ``y``; both are computed.

    The three broadcast; the element type is that of ``x`` and ``y`` together.
    """
    c = value_of(b, condition)
    if c.type.dtype is not bool_ or c.type.pointer:
        raise KernelTypeError(f"the condition is a mask (bool), not {c.type}; compare first", argument="condition")
    if all(isinstance(v, Value) and v.type.pointer and v.type.dtype is x.type.dtype for v in (x, y)):  # type: ignore[union-attr]
        left, right = x, y
    else:
        left, right = same_type(b, x, y)
    c, left, right = same_shape(b, c, left, right)  # type: ignore[arg-type]
    return b.add("where", (c, left, right), left.type)


def _extreme(name: str, symbol: str):
    function = {"maximum": "fmax", "minimum": "fmin"}[name]

    def emit(e, op, x, y):
        t = op.result.type.dtype
        if not t.is_float:
            return f"{x} {symbol} {y} ? {x} : {y}"
        if op.attrs["propagate_nan"]:
            return f"{x} != {x} || {x} {symbol} {y} ? {x} : {y}"
        return f"{e.math(function, t)}({x}, {y})"

    plain, keep = (np.fmax, np.maximum) if name == "maximum" else (np.fmin, np.minimum)

    def meaning(run, op, x, y):
        return (keep if op.attrs["propagate_nan"] else plain)(x, y)

    def rule(b: Builder, x: Operand, y: Operand, propagate_nan: bool = False) -> Value:
        x, y = same_type(b, x, y)
        return b.add(name, (x, y), x.type, propagate_nan=bool(propagate_nan))

    rule.__name__ = name
    rule.__doc__ = f"""The {"greater" if name == "maximum" else "lesser"} of ``x`` and ``y``, element by element.

    A NaN beside a number is ignored; ``propagate_nan=True`` keeps it.
    """
    return op(numpy=meaning, emit=emit, kind="typed", cheap=True, exact=True)(rule)


maximum = _extreme("maximum", ">")
minimum = _extreme("minimum", "<")


def _abs(e, op, x):
    t = op.result.type.dtype
    if t.is_float:
        return f"{e.math('fabs', t)}({x})"
    return x if t.kind in "ub" else f"{x} < 0 ? ({e.c(t)})(0 - ({e.unsigned(t)}){x}) : {x}"


@op(numpy=np.abs, emit=_abs, cheap=True)
def abs(b: Builder, x: Operand) -> Value:
    """``|x|``; the least integer is its own absolute value, as in NumPy."""
    v = number(b, x)
    return b.add("abs", (v,), v.type)
