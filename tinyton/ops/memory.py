"""Loads and stores through tiles of pointers, 16 bytes at a time where neighbouring registers are neighbours in
memory."""

from __future__ import annotations

from ..dtypes import bool_
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .typing import Operand, broadcast, broadcast_shape, cast_value, describe, value_of


def as_pointer(ptr: object, argument: str = "ptr") -> Value:
    if not (isinstance(ptr, Value) and ptr.type.pointer):
        what = f"expected a pointer (an array argument, plus an offset), not {describe(ptr)}"
        raise KernelTypeError(what, argument=argument)
    return ptr


def as_mask(b: Builder, mask: Operand) -> Value:
    m = value_of(b, mask)
    if m.type.dtype is not bool_ or m.type.pointer:
        raise KernelTypeError(f"a mask is bool, not {m.type}; compare first, as in mask=offsets < n", argument="mask")
    return m


def _fit(b: Builder, v: Value, shape: tuple[int, ...], what: str) -> Value:
    if broadcast_shape(v.type.shape, shape) != shape:
        message = f"{what} has shape {list(v.type.shape)}, more than the pointer's {list(shape)}"
        raise KernelTypeError(message, argument=what)
    return broadcast(b, v, shape)


def _located(b: Builder, ptr: object, check: object, padding: object, mask: object, other: object = None) -> tuple:
    """Pointers, mask and fill: what is given, or what a block pointer stands for."""
    if hasattr(ptr, "addresses"):
        if mask is not None or other is not None:
            raise KernelTypeError("a block pointer takes boundary_check and padding_option, not mask and other")
        return ptr.addresses(b, check, padding)
    if check not in ((), None) or padding:
        raise KernelTypeError("boundary_check and padding_option are for block pointers; these pointers take a mask")
    return as_pointer(ptr), mask, other


LOADS = ("", ".ca", ".cg", ".cs", ".cv")  # the caches to use: all; L2; streaming, used once; none
STORES = ("", ".wb", ".cg", ".cs", ".wt")
EVICTIONS = ("", "evict_first", "evict_last")


def _hints(caches: tuple[str, ...], cache: str, eviction: str, volatile: object = False) -> dict[str, object]:
    """The attributes of an access for what the user says of caches."""
    for what, choices, value in (("cache_modifier", caches, cache), ("eviction_policy", EVICTIONS, eviction)):
        if value not in choices:
            one_of = ", ".join(f'"{c}"' for c in choices)
            raise KernelValueError(f"{what} is one of {one_of}; not {value!r}", argument=what)
    word = cache or (".cs" if eviction == "evict_first" else "")
    return {name: value for name, value in (("cache", word[1:]), ("volatile", bool(volatile))) if value}


def _emit_load(e, op):
    # >>> stage 3
    """Element by element inside the loop that is open, or vectors in a loop of their own."""
    width = e.plan.vectors.get(op, 1)
    if width > 1:
        e.close_for(op.operands)
        e.declare(op.result)
        layout = e.layout_of(op.result)
        if e.even(op, layout, width) and (len(op.operands) < 3 or not e.root(op.operands[2]).type.shape):
            with e.loop(layout, [op], step=width) as s:
                return s.line(_load_vector(e, op, s, width, s.condition(op)))
        return _vectors(e, op, layout, width, _load_vector, _load_cell)
    # <<<
    e.join(op, lambda e, op, s: s.define(op.result, _element(e, op, s)))


# >>> stage 3
def _vectors(e, op, layout, width: int, vector, element) -> None:
    """Accesses of ``width`` neighbours at once where all of them are on, elsewhere one by one."""

    def loop(whole: bool) -> None:
        with e.loop(layout, [op], step=width, whole=whole) as s:
            text, condition = vector(e, op, s, width), e.whole(op, s, width)
            if not condition:
                return s.line(text)
            elements = [element(e, op, s.shifted(k)) for k in range(width)]
            for line in (f"if ({condition}) {{", f"    {text}", "} else {", *(f"    {x}" for x in elements), "}"):
                s.line(line)

    e.by_vectors(op, layout, width, loop)


def _load_vector(e, op, s, width: int, on: str = "") -> str:
    other = s.get(op.operands[2]) if len(op.operands) > 2 else e.dialect.literal(0, op.result.type.dtype)
    read = e.vector("load", op.result.type.dtype, width, op.attrs.get("cache"), bool(on))
    return f"{read}(&{e.cell(op.result, s)}, {s.get(op.operands[0])}{f', {on}, {other}' if on else ''});"


def _load_cell(e, op, s) -> str:
    return f"{e.cell(op.result, s)} = {_element(e, op, s)};"


# <<<
def _element(e, op, s) -> str:
    place, dtype, cache = s.pointer(op.operands[0]), op.result.type.dtype, op.attrs.get("cache")
    if op.attrs.get("volatile"):
        place = f"*(const volatile {e.dialect.memory}{e.dialect.stored(dtype)}*)&{place}"
    elif cache and e.dialect.name == "cuda":
        place = f"__ld{cache}(&{place})"
    text = e.load_text(place, dtype)
    condition = s.condition(op)
    if not condition:
        return text
    other = s.get(op.operands[2]) if len(op.operands) > 2 else e.dialect.literal(0, dtype)
    return f"({condition}) ? {text} : {other}"


@op(numpy=lambda run, op, *xs: run.load(op, *xs), emit=_emit_load, kind="statement", reads=True, mask=1, joins=True)
def load(
    b: Builder,
    ptr: Value,
    mask: Operand | None = None,
    other: Operand | None = None,
    boundary_check: tuple[int, ...] = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> Value:
    """The elements that ``ptr`` points at: a tile of the pointers' shape, or a scalar from a scalar pointer.

    Where ``mask`` (bool, broadcast to the pointers) is off, memory is not touched and the element is ``other``, by
    default 0 of the element type. An address outside of the array is not checked, except by the interpreter.

    Of a block pointer, ``boundary_check`` names the dimensions along which the block may reach out of the array; there
    elements are 0, or NaN with ``padding_option="nan"``.

    For CUDA, `cache_modifier` ("", ".ca", ".cg", ".cs", ".cv") names the caches that keep the elements, as in PTX;
    `eviction_policy` "evict_first" is ".cs", "evict_last" has no effect. ``volatile=True`` reads memory every time.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, out, n):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.load(x + i, mask=i < n, other=-1))
    >>> x, out = np.array([5, 6, 7]), np.zeros(4, int); k[1](x, out, 3); out.tolist()
    [5, 6, 7, -1]
    """
    ptr, mask, other = _located(b, ptr, boundary_check, padding_option, mask, other)
    hints = _hints(LOADS, cache_modifier, eviction_policy, volatile)
    dtype, shape = ptr.type.dtype, ptr.type.shape
    operands = [ptr]
    if mask is not None:
        m = as_mask(b, mask)
        if not shape and m.type.shape:
            ptr = operands[0] = broadcast(b, ptr, m.type.shape)
            shape = m.type.shape
        operands.append(_fit(b, m, shape, "mask"))
    if other is not None and mask is not None:
        if isinstance(other, float) and dtype.is_int and not other.is_integer():
            raise KernelValueError(f"other is {other}, which elements of type {dtype} cannot hold", argument="other")
        fill = value_of(b, int(other) if isinstance(other, float) and dtype.is_int else other, dtype)
        if isinstance(other, Value) and other.type.dtype.is_float and not dtype.is_float:
            what = f"other is a float, which elements of type {dtype} cannot hold; convert it with .to(...)"
            raise KernelTypeError(what, argument="other")
        operands.append(_fit(b, cast_value(b, fill, dtype), shape, "other"))
    return b.add("load", tuple(operands), Type(dtype, shape), **hints)


def _store(run, op, ptr, value, mask=None):
    run.store(op, ptr, value, mask)


def _emit_store(e, op):
    layout = e.store_layout(op)
    with e.once_per_element(layout):
        # >>> stage 8
        if staged := e.staged.get(op.operands[1]):
            e.close()
            move = e.use("move_16")
            return staged(lambda s, place: f"{move}({s.get(op.operands[0])}, {place}, {s.condition(op) or 'true'});")
        # <<<
        # >>> stage 3
        width = e.plan.vectors.get(op, 1)
        if width > 1:
            e.close()
            if not e.even(op, layout, width):
                return _vectors(e, op, layout, width, _store_vector, _write)
            with e.loop(layout, [op], step=width) as s:
                condition = s.condition(op)
                return s.line(f"if ({condition}) " * bool(condition) + _store_vector(e, op, s, width))
        # <<<
        e.close_with(op, layout, lambda e, op, s: s.line(_write(e, op, s)))


# >>> stage 3
def _store_vector(e, op, s, width: int) -> str:
    write = e.vector("store", op.operands[1].type.dtype, width, op.attrs.get("cache"))
    values = [s.shifted(k).get(op.operands[1]) for k in range(width)]
    return f"{write}({', '.join([s.get(op.operands[0]), *values])});"


# <<<
def _write(e, op, s) -> str:
    place, value, dtype = s.pointer(op.operands[0]), s.get(op.operands[1]), op.operands[1].type.dtype
    cache = op.attrs.get("cache") if e.dialect.name == "cuda" else None
    bits = e.bits_text(value, dtype)
    text = f"__st{cache}(&{place}, {bits});" if cache else f"{place} = {bits};"
    condition = s.condition(op)
    return f"if ({condition}) {text}" if condition else text


@op(numpy=_store, emit=_emit_store, kind="statement", effect=True, writes=True, mask=2, joins=True)
def store(
    b: Builder,
    ptr: Value,
    value: Operand,
    mask: Operand | None = None,
    boundary_check: tuple[int, ...] = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Writes ``value`` (a tile or a number, broadcast and converted to the element type) where ``ptr`` points.

    Value and mask broadcast to the pointers. Where ``mask`` is off nothing is written. An address outside of the array
    is not checked, except by the interpreter. `cache_modifier` ("", ".wb", ".cg", ".cs", ".wt") and `eviction_policy`
    are as in `load`.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, n):
    ...     i = tt.program_id(0) * 4 + tt.arange(0, 4)
    ...     tt.store(out + i, i * i, mask=i < n)
    >>> out = np.zeros(7, int); k[2](out, 6); out.tolist()
    [0, 1, 4, 9, 16, 25, 0]
    """
    ptr, mask, _ = _located(b, ptr, boundary_check, "", mask)
    hints = _hints(STORES, cache_modifier, eviction_policy)
    dtype = ptr.type.dtype
    v = cast_value(b, value_of(b, value, dtype), dtype)
    shape = broadcast_shape(ptr.type.shape, v.type.shape)
    operands = []
    if mask is not None:
        m = as_mask(b, mask)
        shape = broadcast_shape(shape, m.type.shape)
        operands.append(broadcast(b, m, shape))
    if not ptr.type.shape and shape:
        what = f"a tile of shape {list(shape)} cannot be stored to one address; add offsets to the pointer"
        raise KernelTypeError(what, argument="ptr")
    if ptr.type.shape != shape:
        what = f"pointers of shape {list(ptr.type.shape)} would be repeated to {list(shape)}"
        why = "with several values for one address; give pointers, value and mask one shape"
        instead = "(a reduction keeps its extent of 1 with keep_dims=True)"
        raise KernelTypeError(f"{what}, {why} {instead}", argument="ptr")
    b.add("store", (ptr, broadcast(b, v, shape), *operands), None, **hints)
