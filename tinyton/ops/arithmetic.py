"""Operators: arithmetic with NumPy's results in every corner (wrap-around, floor division, shifts), comparisons,
casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dtypes import DType, bool_, float16, float32, float64, pack, unpack
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .typing import Operand, cast_value, constant_dtype, number, same_shape, same_type, value_of


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
        what = f"an offset is an integer, in elements; this one is {offset.type}"
        raise KernelTypeError(f"{what}; divide with //, or use .to(tt.int32)")
    if name == "sub":
        offset = b.add("neg", (offset,), offset.type)
    ptr, offset = same_shape(b, x, offset)
    return b.add("addptr", (ptr, offset), ptr.type)


def _bitwise(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    x, y = same_type(b, x, y)
    if x.type.dtype.is_float:
        raise KernelTypeError(f"{name} is not defined on {x.type.dtype}; it takes integers or bool")
    return b.add(name, (x, y), x.type)


def _shift(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    x, y = same_type(b, x, y)
    if x.type.dtype.is_float or x.type.dtype is bool_:
        raise KernelTypeError(f"a shift takes integers, not {x.type.dtype}")
    return b.add(name, (x, y), x.type)


def _compare(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    x, y = same_type(b, x, y)
    return b.add(name, (x, y), Type(bool_, x.type.shape))


def _operator(name: str, doc: str, rule: Callable, meaning: Callable, emit: Callable, exact: bool = False) -> Callable:
    """An operator, typed by ``rule(b, name, x, y)``."""

    def typed(b: Builder, x: Operand, y: Operand) -> Value:
        return rule(b, name, x, y)

    return op(name, doc, numpy=meaning, emit=emit, cheap=True, exact=exact, public=False)(typed)


def _infix(symbol: str) -> Callable:
    return lambda e, op, x, y: f"{x} {symbol} {y}"


def _wrapping(symbol: str) -> Callable:
    def emit(e, op, x, y):
        t = op.result.type.dtype
        if t.is_float or e.fits(op.result) or t.kind == "u":
            return f"{x} {symbol} {y}"
        return f"({e.c(t)})(({e.unsigned(t)}){x} {symbol} ({e.unsigned(t)}){y})"

    return emit


def _helper(name: str, texts: dict[str, str]) -> Callable:
    """A call of a function, whose text depends on the kind of the elements."""

    def emit(e, op, x, y):
        t = op.result.type.dtype
        return f"{e.helper(name, texts[t.kind], t)}({x}, {y})"

    return emit


add = _operator("add", "``x + y``; integers wrap around, pointers move by elements.", _arith, np.add, _wrapping("+"))
sub = _operator("sub", "``x - y``; integers wrap around.", _arith, np.subtract, _wrapping("-"))
mul = _operator("mul", "``x * y``; integers wrap around.", _arith, np.multiply, _wrapping("*"))


@op(numpy=lambda p, i: p + np.asarray(i, np.int64), emit=_infix("+"), cheap=True, exact=True, public=False)
def addptr(b: Builder, ptr: Value, offset: Value) -> None:
    """A pointer moved by an offset in elements, computed as if in 64 bits throughout."""


def _divide(e, op, x, y):
    return f"{e.use(e.short[op])}({x}, {y})" if op in e.short else f"{x} / {y}"


@op(numpy=np.divide, emit=_divide, cheap=True, public=False)
def truediv(b: Builder, x: Operand, y: Operand) -> Value:
    """``x / y``: of two integers, float32."""
    x, y = same_type(b, x, y)
    if not x.type.dtype.is_float:
        x, y = cast_value(b, x, float32), cast_value(b, y, float32)
    return b.add("truediv", (x, y), x.type)


FLOORDIV = {
    "i": """
{fn} {T} {name}({T} a, {T} b) {{  // Python's floor; a / 0 is 0, and the least value / -1 is itself, as in NumPy
    const {T} d = b == 0 || b == ({T})-1 ? 1 : b, q = ({T})(a / d), m = ({T})(a - q * d);
    return b == 0 ? ({T})0 : b == ({T})-1 ? ({T})(({U})0 - ({U})a) : ({T})(q - ((m != 0) & ((m < 0) != (b < 0))));
}}""",
    "u": "\n{fn} {T} {name}({T} a, {T} b) {{ return b == 0 ? ({T})0 : ({T})(a / b); }}",
    "f": """
{fn} {T} {name}({T} a, {T} b) {{  // (a - a % b) / b, snapped to the nearest integer
    {T} m = {fmod}(a, b);
    if (b == 0) return a / b;
    {T} q = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0)) q -= 1;
    if (q == 0) return {copysign}(({T})0, a / b);
    {T} f = {floor}(q);
    return q - f > ({T})0.5 ? f + 1 : f;
}}""",
}
MOD = {
    "i": """
{fn} {T} {name}({T} a, {T} b) {{  // the remainder has the divisor's sign; a % 0 is 0
    const {T} d = b == 0 || b == ({T})-1 ? 1 : b, m = ({T})(a - ({T})(a / d) * d);  // floordiv's own, if that is there
    return ({T})(m != 0 && (m < 0) != (b < 0) ? m + b : m);
}}""",
    "u": "\n{fn} {T} {name}({T} a, {T} b) {{ return b == 0 ? ({T})0 : ({T})(a % b); }}",
    "f": """
{fn} {T} {name}({T} a, {T} b) {{  // the remainder has the divisor's sign
    {T} m = {fmod}(a, b);
    if (b == 0) return m;
    return m == 0 ? {copysign}(({T})0, b) : (m < 0) != (b < 0) ? m + b : m;
}}""",
}


def _by_power(name: str, texts: dict[str, str]) -> Callable:
    """A quotient or a rest by a known power of two is a shift or a mask, which round down, too."""
    by_helper = _helper(name, texts)

    def emit(e, op, x, y):
        digits = y.rstrip("uL")
        n = int(digits) if digits.isdigit() else 0
        if n == 0 or n & (n - 1):
            return by_helper(e, op, x, y)
        return f"{x} >> {n.bit_length() - 1}" if name == "floordiv" else f"{x} & {n - 1}"

    return emit


def _by_number(symbol: str, texts: dict[str, str]) -> Callable:
    """A shift, which needs no helper where the number of bits is known and is below the width."""
    by_helper = _helper("shl" if symbol == "<<" else "shr", texts)

    def emit(e, op, x, y):
        t, bits = op.result.type.dtype, y.rstrip("uL")
        if not bits.isdigit() or int(bits) >= t.register.bits:
            return by_helper(e, op, x, y)
        if symbol == "<<" and t.kind == "i":
            return f"({e.c(t)})(({e.unsigned(t)}){x} << {bits})"
        return f"{x} {symbol} {bits}"

    return emit


SHIFT = "\n{{fn}} {{T}} {{name}}({{T}} a, {{T}} s) {{{{ return ({{U}})s >= {{bits}} ? ({{T}}){} : ({{T}})({}); }}}}"
SHL = dict.fromkeys("iu", SHIFT.format(0, "({U})a << s"))
SHR = dict.fromkeys("iu", SHIFT.format("(a < 0 ? -1 : 0)", "a >> s"))


def _shl(x, s):
    beyond = (s < 0) | (s >= x.dtype.itemsize * 8)
    return np.where(beyond, np.zeros_like(x), x << np.where(beyond, 0, s).astype(x.dtype))


def _shr(x, s):
    beyond = (s < 0) | (s >= x.dtype.itemsize * 8)
    return np.where(beyond, -(x < 0).astype(x.dtype), x >> np.where(beyond, 0, s).astype(x.dtype))


floordiv = _operator(
    "floordiv", "``x // y``, rounded down; an int by 0 is 0.", _arith, np.floor_divide, _by_power("floordiv", FLOORDIV)
)
mod = _operator("mod", "``x % y``, of y's sign; an int by 0 is 0.", _arith, np.remainder, _by_power("mod", MOD))
and_ = _operator("and", "``x & y`` of integers, or of masks.", _bitwise, np.bitwise_and, _infix("&"), True)
or_ = _operator("or", "``x | y`` of integers, or of masks.", _bitwise, np.bitwise_or, _infix("|"), True)
xor = _operator("xor", "``x ^ y`` of integers, or of masks.", _bitwise, np.bitwise_xor, _infix("^"), True)
shl = _operator("shl", "``x << y``; 0 for a ``y`` that is not below the width.", _shift, _shl, _by_number("<<", SHL))
shr = _operator("shr", "``x >> y``, keeping the sign of a signed ``x``.", _shift, _shr, _by_number(">>", SHR), True)
lt = _operator("lt", "``x < y``, a mask.", _compare, np.less, _infix("<"), True)
le = _operator("le", "``x <= y``, a mask.", _compare, np.less_equal, _infix("<="), True)
gt = _operator("gt", "``x > y``, a mask.", _compare, np.greater, _infix(">"), True)
ge = _operator("ge", "``x >= y``, a mask.", _compare, np.greater_equal, _infix(">="), True)
eq = _operator("eq", "``x == y``, a mask.", _compare, np.equal, _infix("=="), True)
ne = _operator("ne", "``x != y``, a mask.", _compare, np.not_equal, _infix("!="), True)


@op(numpy=None, emit=None, kind="macro", host=lambda x, y: -(-x // y))
def cdiv(b: Builder, x: Operand, y: Operand) -> Value:
    """``x / y`` rounded up, of integers: how many tiles of ``y`` cover ``x``.

    >>> import tinyton as tt
    >>> tt.cdiv(100, 64), tt.cdiv(128, 64)
    (2, 2)
    """
    x, y = same_type(b, x, y)
    if x.type.dtype.is_float:
        raise KernelTypeError(f"cdiv takes integers, not {x.type.dtype}")
    rest = ne(b, mod(b, x, y), 0)
    return add(b, floordiv(b, x, y), rest)


def _neg(e, op, x):
    t = op.result.type.dtype
    return f"-{x}" if t.is_float or e.fits(op.result) else f"({e.c(t)})(0 - ({e.unsigned(t)}){x})"


@op(numpy=np.negative, emit=_neg, cheap=True, public=False)
def neg(b: Builder, x: Operand) -> Value:
    """``-x``."""
    v = number(b, x)
    _no_bool("negation", v)
    return b.add("neg", (v,), v.type)


def _invert(e, op, x):
    return f"!{x}" if op.result.type.dtype is bool_ else f"~{x}"


@op(numpy=np.invert, emit=_invert, cheap=True, public=False)
def invert(b: Builder, x: Operand) -> Value:
    """``~x``: the other bits of an integer, or ``not`` of a mask."""
    v = number(b, x)
    if v.type.dtype.is_float:
        raise KernelTypeError(f"~ is not defined on {v.type.dtype}; it takes integers or bool")
    return b.add("invert", (v,), v.type)


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
    return f"{e.use('double_to_half')}({x})" if source.bits == 64 and target is float16 else f"({e.c(target)}){x}"


def _np_cast(run, op, x):
    source, target = op.operands[0].type.dtype, op.result.type.dtype
    x = np.asarray(x)
    if target is bool_:
        return x != 0
    if source.is_float and target.is_int:
        low, high = target.range
        below, above = x <= float(low), x >= float(high)
        kept = np.where(below | above | np.isnan(x), 0, x).astype(target.numpy)
        return np.select([below, above], list(np.array([low, high], target.numpy)), kept)
    if target is float16 and source is float64:
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

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.load(x + i).to(tt.int8))
    >>> x, out = np.array([1.9, -1.9, 300, np.nan]), np.zeros(4, np.int8)
    >>> k[1](x, out); out.tolist()
    [1, -1, 127, 0]
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
    if dtype.is_narrow:
        return e.bits_text(x, dtype)
    if dtype.is_float:
        return f"{e.use('bits_of' if dtype is float32 else 'bits_of_double')}({x})"
    return f"({e.unsigned(dtype)}){x}"


def _of_bits(e, bits: str, dtype: DType) -> str:
    if dtype.is_narrow:
        return e.load_text(f"({e.dialect.stored(dtype)}){bits}", dtype)
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

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.where(i < 2, i, -i))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 1, -2, -3]
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


EXTREME = "\n{fn} {T} {name}({T} x, {T} y) {{ return x {symbol} y || y != y ? x : y; }}"


def extreme(e, symbol: str, dtype: DType, keep_nan: bool, x: str, y: str) -> str:
    """C for the greater (``symbol`` is >) or the lesser of two. PoCL's own functions are not inlined in loops."""
    if dtype.is_float and not keep_nan:
        name = "fmax" if symbol == ">" else "fmin"
        inlined = e.dialect.name == "opencl"
        return f"{e.helper(name, EXTREME, dtype, symbol=symbol) if inlined else e.math(name, dtype)}({x}, {y})"
    nan = f"{x} != {x} || " if dtype.is_float else ""
    return f"{nan}{x} {symbol} {y} ? {x} : {y}"


def _extreme(name: str, word: str, symbol: str, plain: Callable, keep: Callable) -> Callable:
    def emit(e, op, x, y):
        return extreme(e, symbol, op.result.type.dtype, op.attrs["propagate_nan"], x, y)

    def meaning(run, op, x, y):
        return (keep if op.attrs["propagate_nan"] else plain)(x, y)

    def rule(b: Builder, x: Operand, y: Operand, propagate_nan: bool = False) -> Value:
        """The {} of ``x`` and ``y``, element by element.

        A NaN beside a number is ignored; ``propagate_nan=True`` keeps it.

        >>> import numpy as np, tinyton as tt
        >>> @tt.jit
        ... def k(out):
        ...     i = tt.arange(0, 4)
        ...     tt.store(out + i, tt.{}(i, 2))
        >>> out = np.zeros(4, int); k[1](out); out.tolist()
        {}
        """
        x, y = same_type(b, x, y)
        return b.add(name, (x, y), x.type, propagate_nan=bool(propagate_nan))

    words = word, name, plain(np.arange(4), 2).tolist()
    return op(name, words, numpy=meaning, emit=emit, kind="typed", cheap=True, exact=True)(rule)


maximum = _extreme("maximum", "greater", ">", np.fmax, np.maximum)
minimum = _extreme("minimum", "lesser", "<", np.fmin, np.minimum)


def _abs(e, op, x):
    t = op.result.type.dtype
    if t.is_float:
        return f"{e.math('fabs', t)}({x})"
    return x if t.kind in "ub" else f"{x} < 0 ? ({e.c(t)})(0 - ({e.unsigned(t)}){x}) : {x}"


@op(numpy=np.abs, emit=_abs, cheap=True)
def abs(b: Builder, x: Operand) -> Value:
    """``|x|``; the least integer is its own absolute value, as in NumPy.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out): tt.store(out + tt.arange(0, 4), tt.abs(tt.arange(0, 4) - 2))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [2, 1, 0, 1]
    """
    v = number(b, x)
    return b.add("abs", (v,), v.type)
