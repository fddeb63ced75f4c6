"""Atomics on elements of arrays: what many programs do to one element all counts, in some order."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import KernelTypeError
from ..ir import Builder, Value
from ..ops import OPS
from ..ops.arithmetic import where
from ..ops.typing import Operand, is_weak
from .array import Array, index_value, method
from .create import implicit
from .language import function
from .memory import (
    MemoryOrder,
    MemoryScope,
    Place,
    RawMemory,
    TiledView,
    as_array,
    check_hints,
    check_order,
    element_places,
    fit,
    locate,
)

ORDERS = (MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
DEVICE, BOTH = MemoryScope.DEVICE, MemoryOrder.ACQ_REL
SUMMARY = {
    "xchg": "Elements become ``update``",
    "add": "Adds ``update`` to elements; 16-bit floats are rounded after each addition",
    "max": "Makes elements the greater of what they are and ``update``; a NaN is ignored",
    "min": "Makes elements the lesser of what they are and ``update``; a NaN is ignored",
    "and": "Elements become their bitwise and with ``update``",
    "or": "Elements become their bitwise or with ``update``",
    "xor": "Elements become their bitwise xor with ``update``",
}


def change(
    b: Builder,
    how: str,
    array: Array,
    places: list[Place],
    values: dict[str, object],
    mask: object,
    check: bool,
    order: object,
    scope: object,
) -> Value:
    """The op on the elements at these places, if they can be changed so by values of these types."""
    check_hints(check_bounds=check)
    check_order(order, scope, ORDERS)
    for name, x in values.items() if how in ("and", "or", "xor") else ():
        if isinstance(x, Value) and not is_weak(b, x) and x.type.dtype is not array.dtype:
            raise KernelTypeError(
                f"a bitwise update is of the array's type, {array.dtype}, not of {x.type.dtype}; write "
                f".astype(ct.{array.dtype})",
                argument=name,
            )
    parts = {name: implicit(b, x, array.dtype, name) for name, x in values.items()}
    pointer, inside = locate(b, array, places, check, mask)
    parts = {name: fit(b, v, pointer.type.shape, name) for name, v in parts.items()}
    named = {"mask": inside, "sem": order.value, "scope": scope.value}  # type: ignore[attr-defined]
    try:
        old = OPS[f"atomic_{how}"].rule(b, pointer, *parts.values(), **named)
    except KernelTypeError as error:
        raise KernelTypeError(error.message, argument="array") from None
    return where(b, inside, old, parts["expected"]) if how == "cas" and inside is not None else old


@function()
def atomic_cas(
    b: Builder,
    array: Array,
    indices: object,
    expected: Operand,
    desired: Operand,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = BOTH,
    memory_scope: MemoryScope = DEVICE,
) -> Value:
    """Where an element equals ``expected``, bit for bit, it becomes ``desired``, in one step that no other program
    comes between. Gives the old elements, and ``expected`` for indices outside of the array. Else as `atomic_add`.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def first(x, out):
    ...     ct.store(out, ct.bid(0), ct.atomic_cas(x, 0, 0, 7))
    >>> x, out = np.zeros(1, np.int32), np.zeros(2, np.int32)
    >>> ct.launch(None, (2,), first, (x, out))
    >>> x.tolist(), sorted(out.tolist())
    ([7], [0, 7])
    """
    a, values = as_array(array), {"expected": expected, "desired": desired}
    return change(b, "cas", a, element_places(b, a, indices), values, None, check_bounds, memory_order, memory_scope)


@method(RawMemory)
def atomic_cas_offset(
    b: Builder,
    raw: RawMemory,
    offset: Operand,
    expected: Operand,
    desired: Operand,
    *,
    mask: Operand | None = None,
    memory_order: MemoryOrder = BOTH,
    memory_scope: MemoryScope = DEVICE,
) -> Value:
    """`atomic_cas` by offset; where ``mask`` is off, nothing happens and ``expected`` comes back."""
    values, places = {"expected": expected, "desired": desired}, [Place(0, index_value(b, offset, "offset"))]
    return change(b, "cas", raw.flat, places, values, mask, False, memory_order, memory_scope)


def _rules(how: str) -> None:
    def on_array(
        b: Builder,
        array: Array,
        indices: object,
        update: Operand,
        *,
        check_bounds: bool = True,
        memory_order: MemoryOrder = BOTH,
        memory_scope: MemoryScope = DEVICE,
    ) -> Value:
        """{}, in one step that no other program comes between. Gives the old elements.

        ``indices`` are as in `gather`; ``update`` broadcasts to their shape, and widens to the array's type. Indices
        outside of the array change nothing and give 0. Elements are 32- or 64-bit ints{}. ``memory_order`` is
        RELAXED, ACQUIRE, RELEASE or ACQ_REL; ``memory_scope`` is BLOCK, DEVICE or SYS. TileTypeError: other elements.

        >>> import numpy as np, tinyton.tile as ct
        >>> @ct.kernel
        ... def change(x, i):
        ...     ct.atomic_{}(x, ct.load(i, 0, 4), 6)
        >>> x = np.array([3, 9], np.int32)
        >>> ct.launch(None, (1,), change, (x, np.array([0, 1, 2, -1])))
        >>> x.tolist()
        {}
        """
        a, places = as_array(array), element_places(b, as_array(array), indices)
        return change(b, how, a, places, {"update": update}, None, check_bounds, memory_order, memory_scope)

    def on_offset(
        b: Builder,
        raw: RawMemory,
        offset: Operand,
        update: Operand,
        *,
        mask: Operand | None = None,
        memory_order: MemoryOrder = BOTH,
        memory_scope: MemoryScope = DEVICE,
    ) -> Value:
        """`atomic_{}` by offset, where ``mask`` is on."""
        places = [Place(0, index_value(b, offset, "offset"))]
        return change(b, how, raw.flat, places, {"update": update}, mask, False, memory_order, memory_scope)

    def on_tile(b: Builder, view: TiledView, index: object, update: Operand) -> None:
        """``view.atomic_store_{}(index, update)``: `atomic_{}` on a tile, with MemoryOrder.RELAXED; gives nothing."""
        places = view.places(b, index)
        change(b, how, view.array, places, {"update": update}, None, True, MemoryOrder.RELAXED, DEVICE)

    after = {"xchg": [6, 6], "add": [9, 15], "max": [6, 9], "min": [3, 6], "and": [2, 0], "or": [7, 15]}
    floats = "" if how in ("and", "or", "xor") else " or floats"
    on_array.__doc__ = (on_array.__doc__ or "").format(SUMMARY[how], floats, how, after.get(how, [5, 15]))
    on_offset.__doc__ = (on_offset.__doc__ or "").format(how)
    on_tile.__doc__ = (on_tile.__doc__ or "").format(how, how)
    _named(on_array, f"atomic_{how}", function())
    _named(on_offset, f"atomic_{how}_offset", method(RawMemory))
    if how != "xchg":
        _named(on_tile, f"atomic_store_{how}", method(TiledView))


def _named(rule: Callable, name: str, register: Callable) -> None:
    rule.__name__ = name
    register(rule)


for _how in SUMMARY:
    _rules(_how)
