"""Reductions: first the registers of a thread, then the lanes of a warp by shuffles, then the warps by shared
memory."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..dtypes import DType, bool_, float32, int32, int64, uint32
from ..errors import KernelTypeError
from ..ir import Builder, Type, Value
from ..layout import whole
from . import op
from .arithmetic import add, and_, eq, extreme, maximum, minimum, mul, ne, or_, where
from .rearrange import expand_dims, indices
from .shape import expand
from .typing import Operand, axes_of, axis_of, cast_value, constant_dtype, number

UFUNC = {"sum": np.add, "max": np.fmax, "min": np.fmin, "max_nan": np.maximum, "min_nan": np.minimum}
UFUNC |= {"prod": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
SYMBOL = {"sum": "+", "prod": "*", "and": "&", "or": "|", "xor": "^"}
IDENTITY = {"sum": 0, "prod": 1, "and": -1, "or": 0, "xor": 0}


def combine(e, how: str, dtype: DType, x: str, y: str) -> str:
    """C for two partial results made one."""
    if how in SYMBOL:
        unsigned = f"({e.unsigned(dtype)})"
        text = f"{unsigned}{x} {SYMBOL[how]} {unsigned}{y}"
        return f"{x} {SYMBOL[how]} {y}" if dtype.is_float or dtype is bool_ else f"({e.c(dtype)})({text})"
    return extreme(e, ">" if how.startswith("max") else "<", dtype, how.endswith("_nan"), x, y)


def identity(how: str, dtype: DType) -> float | int:
    """What changes nothing: lanes that are off hold it. NaN for a maximum that ignores NaN, so that an all-NaN tile
    gives NaN."""
    if how in IDENTITY:
        return IDENTITY[how] if dtype.kind == "i" or IDENTITY[how] >= 0 else dtype.range[1]
    if dtype.is_float:
        return float("nan") if not how.endswith("_nan") else float("-inf" if how.startswith("max") else "inf")
    return dtype.range[0 if how.startswith("max") else 1]


def _reduce(run, op, x):
    dtype = op.result.type.dtype.register.numpy  # or NumPy would add narrower integers up in 64 bits
    return UFUNC[op.attrs["combine"]].reduce(x, axis=op.attrs["axes"], dtype=dtype)


# On a CPU one thread walks a whole tile, in a loop that the C compiler vectorises if the order of elements is free.
ANY_ORDER = """
{fn} {T} {name}({T} x, {T} y) {{
    #pragma clang fp reassociate(on)
    return x {symbol} y;
}}"""
KEY = """
{fn} {I} {name}({I} key, {T} x) {{  // floats as integers, which are in the same order; NaN is {nan}
    const {I} bits = as_{I}(x), next = x == x ? bits ^ (bits >> {sign} & {most}) : {nan};
    return next {symbol} key ? next : key;
}}"""
OF_KEY = "\n{fn} {T} {name}({I} key) {{ return as_{T}(key ^ (key >> {sign} & {most})); }}"


def _freely(e, how: str, dtype: DType) -> tuple[DType, str, str, str]:
    """How floats are combined in any order: the type of what there is so far, the first one, and two functions: to add
    an element, and for the end."""
    if how in SYMBOL:
        zero = e.dialect.literal(identity(how, dtype), dtype)
        return dtype, zero, e.helper(f"{how}_in_any_order", ANY_ORDER, dtype, symbol=SYMBOL[how]), ""
    kind, word = (int32, "INT") if dtype is float32 else (int64, "LONG")
    ends = [f"{word}_MIN", f"{word}_MAX"][:: 1 if how.startswith("max") else -1]
    words = {"I": e.c(kind), "sign": kind.bits - 1, "most": f"{word}_MAX"}
    words["symbol"] = ">" if how.startswith("max") else "<"
    step = e.helper(f"{how}_key", KEY, dtype, nan=ends[how.endswith("_nan")], **words)
    return kind, ends[0], step, e.helper("of_key", OF_KEY, dtype, **words)


def _emit_reduce(e, op):
    (x,) = op.operands
    how, axes, dtype = op.attrs["combine"], op.attrs["axes"], op.result.type.dtype
    layout = e.store_layout(op)
    rest = layout.without(axes)
    zero = first = e.dialect.literal(identity(how, dtype), dtype)
    part, step, end = op.result, "", ""
    if e.alone and dtype.is_float:
        kind, first, step, end = _freely(e, how, dtype)
    if end:
        e.declare(op.result, rest)
        part = Value(op.result.type._replace(dtype=kind), "key")
    e.declare(part, rest, first)
    kept = tuple(bits for d, bits in enumerate(whole(layout.shape)) if d not in axes)

    def element(e, op, s):
        value, off = s.atom(x), s.padding(x.type.shape, axes)
        value = f"({off} ? {zero} : {value})" if off else value
        cell = e.cell_in(part, s, kept)
        s.line(f"{cell} = {f'{step}({cell}, {value})' if step else combine(e, how, dtype, cell, value)};")

    e.close_with(op, layout, element)
    if end:
        with e.loop(rest, [op]) as s:
            s.line(f"{e.cell(op.result, s)} = {end}({e.cell(part, s)});")
    moving = [i for i, basis in enumerate(layout.thread) if any(basis[d] for d in axes)]
    lanes = [i for i in moving if e.dialect.shuffle and i < 5]
    warps = [i for i in moving if i not in lanes]
    if lanes:
        with e.loop(rest, [op]) as s:
            cell = e.cell(op.result, s)
            for i in lanes:
                other = e.fresh("other")  # a shuffle in a branch would miss the lanes that take the other way
                s.line(f"const {e.c(dtype)} {other} = {e.shuffle(cell, 1 << i, dtype)};")
                s.line(f"{cell} = {combine(e, how, dtype, cell, other)};")
    if warps:
        _across_warps(e, op, rest, warps, lanes)


def _across_warps(e, op, rest, warps, lanes) -> None:
    """Each warp leaves its partial results in a slot of shared memory; then every thread combines all slots, in the
    same order."""
    how, dtype, size = op.attrs["combine"], op.result.type.dtype, math.prod(rest.shape)
    memory = e.shared(dtype, size << len(warps))
    slot = e.bits_of_thread(warps, size)
    first = sum(1 << i for i in lanes)
    spare = first | (rest.copies & ~sum(1 << i for i in warps))
    with e.guard(f"(thread & {spare}) == 0" if spare else ""):
        with e.loop(rest, [op]) as s:
            s.line(f"{memory}[{slot} + {s.position(rest.shape)}] = {e.cell(op.result, s)};")
    e.barrier()
    with e.loop(rest, [op]) as s:
        cell = e.cell(op.result, s)
        s.line(f"{cell} = {memory}[{s.position(rest.shape)}];")
        k = e.fresh("warp")
        s.line(f"for (int {k} = 1; {k} < {1 << len(warps)}; ++{k})")
        s.line(f"    {cell} = {combine(e, how, dtype, cell, f'{memory}[{k} * {size} + {s.position(rest.shape)}]')};")


def sum_type(dtype: DType) -> DType:
    """Of sums and products: narrow integers are added up in 32 bits."""
    return dtype if dtype.is_float or dtype.bits >= 32 else uint32 if dtype.kind == "u" else int32


@op(numpy=_reduce, emit=_emit_reduce, kind="statement", public=False, joins=True)
def reduce(b: Builder, x: Operand, how: str, axis: object, keep_dims: bool) -> Value:
    """Combines the elements of a tile along ``axis`` (None: all; or several)."""
    v = number(b, x)
    rank = len(v.type.shape)
    if not rank:
        raise KernelTypeError(f"there is nothing to reduce in a scalar ({v.type})")
    axes = axes_of(axis, rank)
    target = sum_type(v.type.dtype) if how in ("sum", "prod") else v.type.dtype
    working = float32 if target.is_narrow else target
    shape = tuple(n for d, n in enumerate(v.type.shape) if d not in axes)
    out = b.add("reduce", (cast_value(b, v, working),), Type(working, shape), combine=how, axes=axes)
    out = cast_value(b, out, target)
    if keep_dims:
        for d in axes:
            out = expand(b, out, d)
    return out


@op(numpy=None, emit=None, kind="macro")
def reduce_sum(b: Builder, x: Operand) -> Value:
    """The sum of all elements of a tile: a scalar. 16-bit floats are added in float32; bool and narrow integers in 32
    bits.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out, tt.reduce_sum(i))
    >>> out = np.zeros(1, int); k[1](out); out.tolist()
    [6]
    """
    return reduce(b, x, "sum", None, False)


@op(numpy=None, emit=None, kind="macro")
def reduce_max(b: Builder, x: Operand) -> Value:
    """The greatest of all elements of a tile: a scalar. NaN is ignored.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out, tt.reduce_max(i * (3 - i)))
    >>> out = np.zeros(1, int); k[1](out); out.tolist()
    [2]
    """
    return reduce(b, x, "max", None, False)


def _along(name: str, how: str, word: str) -> Callable:
    def rule(
        b: Builder, x: Operand, axis: int | None = None, keep_dims: bool = False, dtype: DType | None = None
    ) -> Value:
        """The {} along ``axis`` (None: of all elements, a scalar). ``keep_dims`` leaves an extent of 1; ``dtype``
        converts first.

        In a sum or a product, 16-bit floats are combined in float32 and the result has their type again; bool and
        integers under 32 bits give int32 (or uint32). The bitwise ones take integers or bools.

        >>> import numpy as np, tinyton as tt
        >>> @tt.jit
        ... def k(out):
        ...     i = tt.arange(1, 3)
        ...     tt.store(out + tt.arange(0, 2), tt.{}(i[:, None] + 2 * i, 0))
        >>> out = np.zeros(2, int); k[1](out); out.tolist()
        {}
        """
        v = number(b, x)
        return reduce(b, v if dtype is None else cast_value(b, v, constant_dtype(dtype)), how, axis, keep_dims)

    result = UFUNC[how].reduce([[3, 5], [4, 6]]).tolist()
    return op(name, (word, name.rstrip("_"), result), numpy=None, emit=None, kind="macro")(rule)


sum_ = _along("sum_", "sum", "sum")
prod = _along("prod", "prod", "product")
xor_sum = _along("xor_sum", "xor", "bitwise exclusive or")
reduce_or = _along("reduce_or", "or", "bitwise or")
reduce_and = _along("reduce_and", "and", "bitwise and")


def _extreme(b: Builder, how: str, x: Operand, axis: object, keep_dims: bool, propagate_nan: bool) -> Value:
    if isinstance(axis, (float, bool, Value)) or (isinstance(x, Value) and not x.type.shape and axis is not None):
        return (maximum if how == "max" else minimum)(b, x, axis, propagate_nan)  # type: ignore[arg-type]
    return reduce(b, x, how + "_nan" * bool(propagate_nan), axis, keep_dims)


def _place(b: Builder, x: Operand, best: Value, axis: object, keep_dims: bool) -> Value:
    """The first coordinate along ``axis`` (None: of the elements in row-major order) where ``x`` is ``best``."""
    v = number(b, x)
    rank = len(v.type.shape)
    axes = range(rank) if axis is None else [axis_of(axis, rank)]
    if axis is not None and not keep_dims:
        best = expand_dims(b, best, axes[0])
    at, *inner = (indices(b, v.type.shape[k], k, rank) for k in axes)
    for more in inner:
        at = add(b, mul(b, at, math.prod(more.type.shape)), more)
    here = eq(b, v, best)
    if v.type.dtype.is_float:
        here = or_(b, here, and_(b, ne(b, v, v), ne(b, best, best)))
    return reduce(b, where(b, here, at, math.prod(at.type.shape) - 1), "min", axis, keep_dims)


def _arg(name: str, how: str, word: str) -> Callable:
    def rule(
        b: Builder, x: Operand, axis: int | None = None, tie_break_left: bool = True, keep_dims: bool = False
    ) -> Value:
        """Where along ``axis`` the {} element is (None: in row-major order), int32: the first of equal ones. NaN is
        ignored.

        >>> import numpy as np, tinyton as tt
        >>> @tt.jit
        ... def k(out):
        ...     i = tt.arange(0, 4)
        ...     tt.store(out, tt.{}((i - 1) * (i - 2)))
        >>> out = np.zeros(1, int); k[1](out); out.tolist()
        [{}]
        """
        return _place(b, x, reduce(b, x, how, axis, keep_dims), axis, keep_dims)

    return op(name, (word, name, int(name == "argmin")), numpy=None, emit=None, kind="macro")(rule)


argmax = _arg("argmax", "max", "greatest")
argmin = _arg("argmin", "min", "least")


def _most(name: str, how: str, *words: str) -> Callable:
    def rule(
        b: Builder,
        x: Operand,
        axis: object = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
        propagate_nan: bool = False,
    ) -> Value | tuple[Value, Value]:
        """The {} element along ``axis``, an int constant (None: of all). Given a tile or a float instead of an axis,
        the {} of the two, element by element.

        NaN is ignored unless ``propagate_nan``. ``return_indices`` gives a tuple of the element and its place (`{}`).

        >>> import numpy as np, tinyton as tt
        >>> @tt.jit
        ... def k(out):
        ...     i = tt.arange(1, 3)
        ...     tt.store(out + tt.arange(0, 2), tt.{}(i[:, None] * i, 0))
        >>> out = np.zeros(2, int); k[1](out); out.tolist()
        {}
        """
        best = _extreme(b, how, x, axis, keep_dims, propagate_nan)
        return (best, _place(b, x, best, axis, keep_dims)) if return_indices else best

    result = UFUNC[how].reduce([[1, 2], [2, 4]]).tolist()
    return op(name, (*words, name.rstrip("_"), result), numpy=None, emit=None, kind="macro")(rule)


max_ = _most("max_", "max", "greatest", "greater", "argmax")
min_ = _most("min_", "min", "least", "lesser", "argmin")
