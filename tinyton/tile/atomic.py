"""Atomics on elements of arrays: what many programs do to one element all counts, in some order."""

from __future__ import annotations

from functools import partial

from ..errors import KernelTypeError
from ..ir import Builder, Value
from ..ops import OPS
from ..ops.arithmetic import where
from ..ops.atomic import MEANING
from ..ops.typing import Operand, is_weak
from .array import Array, index_value, method
from .create import implicit
from .language import about, function, made
from .memory import MemoryOrder, RawMemory, TiledView, access, element_places, fit, locate

ORDERS = (MemoryOrder.ACQ_REL, MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE)
OPERANDS = {"cas": ("expected", "desired")}


def change(
    word: str, b: Builder, array: Array, places: list, xs: tuple, mask: object, check: bool, how: tuple
) -> Value:
    """The op on the elements at these places, if they can be changed so by values of these types."""
    pointer, inside = locate(b, array, places, check, mask)
    parts = []
    for name, x in zip(OPERANDS.get(word, ("update",)), xs, strict=True):
        other = x.type.dtype if isinstance(x, Value) and not is_weak(b, x) else array.dtype
        if word in ("and", "or", "xor") and other is not array.dtype:
            what = f"a bitwise update is of the array's type, {array.dtype}, not of {other}"
            raise KernelTypeError(f"{what}; write .astype(ct.{array.dtype})", argument=name)
        parts.append(fit(b, implicit(b, x, array.dtype, name), pointer.type.shape, name))
    with about("array"):
        old = OPS[f"atomic_{word}"].rule(b, pointer, *parts, mask=inside, sem=how[0], scope=how[1])
    return where(b, inside, old, parts[0]) if word == "cas" and inside is not None else old


def _by_offset(word: str, b: Builder, raw: RawMemory, offset: Operand, *xs: Operand, mask: object, how: tuple) -> Value:
    return change(word, b, raw.flat, [(0, index_value(b, offset, "offset"), None)], xs, mask, False, how)


def _of_tile(word: str, b: Builder, view: TiledView, index: object, *xs: Operand) -> None:
    change(word, b, view.array, view.places(b, index), xs, None, True, ("relaxed", "gpu"))


def _of_array(word: str) -> None:
    def rule(
        b: Builder, array: Array, indices: object, update: Operand, *, check_bounds: bool = True, how=None
    ) -> Value:
        """{}. Gives the old elements.

        ``indices`` are as in `gather`; ``update`` broadcasts to their shape, and widens to the array's type. Indices
        outside of the array change nothing and give 0. Elements are 32- or 64-bit ints{}. ``memory_order`` is RELAXED,
        ACQUIRE, RELEASE or ACQ_REL; ``memory_scope`` is BLOCK, DEVICE or SYS. TileTypeError: other elements.

        >>> import numpy as np, tinyton.tile as ct
        >>> @ct.kernel
        ... def change(x, i):
        ...     ct.atomic_{}(x, ct.load(i, 0, 4), 6)
        >>> x = np.array([3, 9], np.int32)
        >>> ct.launch(None, (1,), change, (x, np.array([0, 1, 2, -1])))
        >>> x.tolist()
        {}
        """
        return change(word, b, array, element_places(b, array, indices), (update,), None, check_bounds, how)

    does = (OPS[f"atomic_{word}"].rule.__doc__ or "").partition(".")[0].replace("val", "update")
    floats = "" if word in ("and", "or", "xor") else " or floats"
    after = [int(MEANING[word](x, 6)) for x in (3, 9)]
    function(f"atomic_{word}", words=(does, floats, word, after))(access(orders=ORDERS)(rule))


@function()
@access(orders=ORDERS)
def atomic_cas(
    b: Builder, array: Array, indices: object, expected: Operand, desired: Operand, *, check_bounds=True, how=None
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
    places = element_places(b, array, indices)
    return change("cas", b, array, places, (expected, desired), None, check_bounds, how)


for _how in (*MEANING, "cas"):
    _name, _xs = f"atomic_{_how}", " ".join(OPERANDS.get(_how, ("update",)))
    _doc = f"`{_name}` by offset, where ``mask`` is on" + "; elsewhere ``expected`` comes back" * (_how == "cas") + "."
    _rule = made(f"{_name}_offset", f"raw offset {_xs}", partial(_by_offset, _how), _doc, mask=None, how=None)
    method(RawMemory)(access(orders=ORDERS)(_rule))
    _doc = f"``view.atomic_store_{_how}(index, update)``: `{_name}` on a tile, with MemoryOrder.RELAXED; gives nothing."
    if _how != "cas":
        _of_array(_how)
    if _how not in ("xchg", "cas"):
        method(TiledView)(made(f"atomic_store_{_how}", "view index update", partial(_of_tile, _how), _doc))
