"""Tiles in memory: loads and stores by tile index, and by the indices of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce, wraps
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar

from ..dtypes import DType
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from ..ops import OPS, memory
from ..ops.arithmetic import add, and_, cdiv, ge, lt, mul
from ..ops.program import arange
from ..ops.shape import expand
from ..ops.typing import Operand, Struct, broadcast, broadcast_shape, constant_int, describe
from .array import Array, array_axis, index_scalar, index_value, method, step
from .create import implicit, shape_of
from .language import NAMES, about, function


class PaddingMode(Enum):
    """What a load gives outside of the array. UNDETERMINED is zero, too."""

    UNDETERMINED, ZERO, NEG_ZERO = "undetermined", "zero", "neg_zero"
    NAN, POS_INF, NEG_INF = "nan", "pos_inf", "neg_inf"


class MemoryOrder(Enum):
    """What other programs see of an access. WEAK: they make none of the same element. RELAXED: it is done in one step.
    ACQUIRE: who reads so what another has written with RELEASE sees all that the other wrote before. ACQ_REL: both."""

    WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL = "weak", "relaxed", "acquire", "release", "acq_rel"


class MemoryScope(Enum):
    """Whom an order is about: nobody (of a weak access), the threads of a program, of the device, of the system."""

    NONE, BLOCK, DEVICE, SYS = "", "cta", "gpu", "sys"


FILL = {PaddingMode.NEG_ZERO: -0.0, PaddingMode.NAN: math.nan}
FILL |= {PaddingMode.POS_INF: math.inf, PaddingMode.NEG_INF: -math.inf}
NAMES |= {"PaddingMode": PaddingMode, "MemoryOrder": MemoryOrder, "MemoryScope": MemoryScope}
WEAK, NONE, UNDETERMINED = MemoryOrder.WEAK, MemoryScope.NONE, PaddingMode.UNDETERMINED


# for each axis of an array, where along it: tiles that broadcast, or tiles of one dimension, which is this one of all
Places = list[tuple[int, Value, int | None]]


# -- what the user says ------------------------------------------------------------------------------------------------


def as_array(x: object) -> Array:
    if isinstance(x, Array):
        return x
    if isinstance(x, Value):
        what = f"expected an array, not a tile ({x.type}), which is in registers already; other tiles are made of it by"
        raise KernelTypeError(f"{what} ct.reshape, ct.transpose and ct.extract", argument="array")
    hint = "; choose one of the list with [k]" if isinstance(x, tuple) else ""
    raise KernelTypeError(f"expected an array argument, not {describe(x)}{hint}", argument="array")


def rank_is(rank: int, array: Array, what: str, argument: str) -> None:
    if rank != array.ndim:
        entries = f"{rank} entr{'y' if rank == 1 else 'ies'}"
        dims = f"{array.ndim} dimension{'s' * (array.ndim != 1)}"
        raise KernelTypeError(f"{what} {entries}, the array has {dims}", argument=argument)


def axes_of(order: object, rank: int) -> tuple[int, ...]:
    """Which axis of the array each dimension of a tile runs along."""
    if order == "C" or order == "F":
        return tuple(range(rank))[:: 1 if order == "C" else -1]
    given = order if isinstance(order, tuple) else (order,)
    axes = () if isinstance(order, str) else tuple(constant_int(k, "order") for k in given)
    axes = tuple(k + rank if -rank <= k < 0 else k for k in axes)
    if isinstance(order, str) or sorted(axes) != list(range(rank)):
        twice = [f"; axis {k} is there twice" for k in axes if axes.count(k) > 1]
        known = f'"C", "F" or the axes 0 to {rank - 1}, each once'
        raise KernelTypeError(f"the order is {known}, not {order!r}{''.join(twice[:1])}", argument="order")
    return axes


def access(*unused: str, orders: tuple[MemoryOrder, ...] = ()) -> Callable[[Callable], Callable]:
    """Of a rule that touches memory: adds hints that have no effect, and a memory order, of these, with its scope, and
    checks them. The rule is told ``how``: the words of order and scope, None for a weak access."""

    def register(rule: Callable) -> Callable:
        scope = NONE if WEAK in orders else MemoryScope.DEVICE
        more = {"memory_order": orders[0], "memory_scope": scope} if orders else {}
        more |= dict.fromkeys(unused, None)
        own = [p for p in signature(rule).parameters.values() if p.name != "how"]
        added = [Parameter(name, Parameter.KEYWORD_ONLY, default=x) for name, x in more.items()]
        whole = Signature([*own, *added])

        @wraps(rule)
        def checked(*args: object, **kwargs: object) -> object:
            call = whole.bind(*args, **kwargs)
            call.apply_defaults()
            given = call.arguments
            if "array" in given:
                given["array"] = as_array(given["array"])
            for name in {"allow_tma", "check_bounds"} & given.keys():
                if not isinstance(given[name], bool) and (name == "check_bounds" or given[name] is not None):
                    raise KernelTypeError(f"{name} is True or False, not {describe(given[name])}", argument=name)
            if (latency := given.get("latency")) is not None and not 1 <= constant_int(latency, "latency") <= 10:
                raise KernelValueError(f"a latency is 1 to 10, not {latency}", argument="latency")
            how = [given.pop(name) for name in more][:2]
            if orders:
                check_order(*how, orders)
                given["how"] = None if how[0] is WEAK else (how[0].value, how[1].value)
            return rule(**given)

        checked.__signature__ = whole  # type: ignore[attr-defined]
        return checked

    return register


def check_order(order: object, scope: object, allowed: tuple[MemoryOrder, ...]) -> None:
    """An access that is not weak has a scope, and no other has."""
    if order not in allowed:
        known = ", ".join(f"MemoryOrder.{o.name}" for o in allowed)
        raise KernelTypeError(f"the memory order is one of {known}, not {order}", argument="memory_order")
    if not isinstance(scope, MemoryScope):
        raise KernelTypeError(f"the memory scope is a ct.MemoryScope, not {describe(scope)}", argument="memory_scope")
    if (order is WEAK) != (scope is NONE):
        wrong = "a weak access has no memory scope" if order is WEAK else f"{order} needs a memory scope"
        raise KernelTypeError(f"{wrong}; MemoryScope.{scope.name} is given", argument="memory_scope")


def fill_of(mode: object, dtype: DType) -> float | None:
    """The number of a padding mode; None for zero."""
    with about("padding_mode"):
        if not isinstance(mode, PaddingMode):
            raise KernelTypeError(f"padding_mode is a ct.PaddingMode, not {describe(mode)}")
        fill = FILL.get(mode)
        if fill and not dtype.is_float:
            raise KernelTypeError(f"elements of type {dtype} cannot hold {fill}, PaddingMode.{mode.name}")
        return fill if dtype.is_float else None


def fit(b: Builder, v: Value, shape: tuple[int, ...], argument: str) -> Value:
    """``v`` stretched to a shape that is given."""
    inner = v.type.shape
    if len(inner) > len(shape) or any(n not in (1, m) for n, m in zip(inner[::-1], shape[::-1], strict=False)):
        raise KernelTypeError(f"a shape of {list(inner)} does not broadcast to {list(shape)}", argument=argument)
    return broadcast(b, v, shape)


# -- places ------------------------------------------------------------------------------------------------------------


def tile_places(
    b: Builder, array: Array, index: object, shape: tuple[int, ...], order: object, steps: tuple[int, ...] = ()
) -> Places:
    """Where the elements of a tile are that starts ``index`` times its shape (or ``steps``) from the first element."""
    found = index if isinstance(index, tuple) else (index,)
    rank_is(len(found), array, "the index has", "index")
    at, axes = [index_scalar(b, x, "tiles") for x in found], axes_of(order, array.ndim)
    if shape:
        rank_is(len(shape), array, "the shape of the tile has", "shape")
    steps = steps or shape or (1,) * array.ndim
    starts = [v if n == 1 else mul(b, v, n) for v, n in zip(at, steps, strict=True)]
    if shape:
        starts = [add(b, v, arange(b, 0, n)) for v, n in zip(starts, shape, strict=True)]
    return [(k, v, d if shape else None) for d, (k, v) in enumerate(zip(axes, starts, strict=True))]


def element_places(b: Builder, array: Array, indices: object) -> Places:
    """Where elements are whose indices are given, tiles or scalars that broadcast."""
    found = indices if isinstance(indices, tuple) else (indices,)
    rank_is(len(found), array, "the indices have", "indices")
    return [(k, index_value(b, x, "indices"), None) for k, x in enumerate(found)]


def common_shape(places: Places) -> tuple[int, ...]:
    if places and places[0][2] is not None:
        return tuple(at.type.shape[0] for _, at, _ in places)
    with about("indices"):
        return reduce(broadcast_shape, (at.type.shape for _, at, _ in places), ())


def spread(b: Builder, v: Value, dim: int | None, rank: int) -> Value:
    """A tile of one dimension as dimension ``dim`` of others."""
    for d in range(rank) if dim is not None else ():
        v = v if d == dim else expand(b, v, d)
    return v


def locate(b: Builder, array: Array, places: Places, check: bool, mask: object = None) -> tuple:
    """The pointers of elements, and the mask of those that are to be touched (None: all). ``check``: only those that
    are inside of the array."""
    shape, pointer, inside = common_shape(places), array.base, None
    if mask is not None:
        with about("mask"):
            inside = fit(b, memory.as_mask(b, mask), shape, "mask")  # type: ignore[arg-type]
    for axis, at, dim in places:
        if check:
            part = spread(b, and_(b, ge(b, at, 0), lt(b, at, array.shape[axis])), dim, len(shape))
            inside = part if inside is None else and_(b, inside, part)
        # >>> stage 7
        elif mask is None and array.shape[axis] is not None:
            name = array.base.name.removesuffix(".data") or "an array"
            at = OPS["within"].rule(b, at, array.shape[axis], axis, name)
        # <<<
        pointer = add(b, pointer, spread(b, step(b, at, array.strides[axis]), dim, len(shape)))
    return broadcast(b, pointer, shape), inside


# -- loads and stores --------------------------------------------------------------------------------------------------


@function()
@access("latency", orders=(WEAK, MemoryOrder.RELAXED, MemoryOrder.ACQUIRE))
def load(
    b: Builder,
    array: Array,
    index,
    shape,
    *,
    order="C",
    padding_mode=UNDETERMINED,
    check_bounds=True,
    allow_tma=None,
    how=None,
) -> Value:
    """The tile of ``shape`` that is the ``index``-th along each axis of an array, in units of tiles.

    ``shape`` is an int or a tuple of powers of two, one for each axis; ``()`` gives a scalar. ``index`` is an int
    scalar for each axis, known at run time or before. With ``order="F"``, or axes such as ``(0, 2, 1)``, dimension d of
    the tile, of its index and its shape is axis ``order[d]`` of the array.

    What is outside of the array, the whole tile if need be, is ``padding_mode``. ``check_bounds=False`` says that
    nothing is. ``latency`` (1 to 10) has no effect. ``allow_tma=True`` has a warp more, on sm_90, copy tiles that are
    multiplied in a loop, where it can, False forbids it. ``memory_order`` RELAXED or ACQUIRE, with a ``memory_scope``,
    reads elements of 16-bit floats, or of 32 or 64 bits, as atomic operations do.

    TileTypeError: an extent that is no power of two, another number of entries than the array has dimensions, padding
    that the elements cannot hold, a tile instead of an array. TileValueError: a latency out of range.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def flip(x, y):
    ...     tile = ct.load(x, (0, 0), (4, 2), order="F", padding_mode=ct.PaddingMode.NEG_INF)
    ...     ct.store(y, (0, 0), tile)
    >>> x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((4, 2), np.float32)
    >>> ct.launch(None, (1,), flip, (x, y))
    >>> y.tolist()
    [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0], [-inf, -inf]]
    """
    extents = shape_of(shape)
    fill = fill_of(padding_mode, array.dtype)
    pointer, inside = locate(b, array, tile_places(b, array, index, extents, order), check_bounds)
    if how is None:
        v = memory.load(b, pointer, inside, fill)
        if allow_tma is not None:
            b.ops[-1] = replace(b.ops[-1], attrs=b.ops[-1].attrs | {"allow_tma": allow_tma})
        return v
    v = OPS["atomic_cas"].rule(b, pointer, 0, 0, *how, inside)
    return v if fill is None or inside is None else OPS["where"].rule(b, inside, v, fill)


@function()
@access("latency", "allow_tma", orders=(WEAK, MemoryOrder.RELAXED, MemoryOrder.RELEASE))
def store(
    b: Builder, array: Array, index: object, tile: Operand, *, order: object = "C", check_bounds=True, how=None
) -> None:
    """Writes a tile where `load` reads one of its shape; nothing outside of the array.

    The tile has as many dimensions as the array, or it is a scalar or a number, which goes to the element ``index``.
    Its elements are of the array's type, or of one that widens to it. ``memory_order`` is RELAXED or RELEASE; else as
    `load`.

    TileTypeError: a tile of another rank, or of a type that does not widen: say what becomes of it with ``.astype``.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def count(x):
    ...     ct.store(x, ct.bid(0), ct.bid(0) + 1)
    >>> x = np.zeros(3, np.int64)
    >>> ct.launch(None, (4,), count, (x,))
    >>> x.tolist()
    [1, 2, 3]
    """
    v = implicit(b, tile, array.dtype, "tile")
    if v.type.shape and len(v.type.shape) != array.ndim:
        what = f"a tile of shape {list(v.type.shape)} is stored to an array of {array.ndim} dimensions"
        raise KernelTypeError(f"{what}: give it as many, with .reshape or x[None, :]", argument="tile")
    pointer, inside = locate(b, array, tile_places(b, array, index, v.type.shape, order), check_bounds)
    if how is None:
        memory.store(b, pointer, v, inside)
    else:
        OPS["atomic_xchg"].rule(b, pointer, v, inside, *how)


@function()
@access()
def num_tiles(b: Builder, array: Array, axis: int, shape: object, order: object = "C") -> Operand:
    """How many tiles of ``shape`` cover an array along ``axis`` of the tiles: an int scalar. ``shape`` and ``order``
    are as in `load`.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def count(x, out):
    ...     ct.store(out, 0, ct.num_tiles(x, 1, (2, 4)))
    >>> out = np.zeros(1, np.int32)
    >>> ct.launch(None, (1,), count, (np.zeros((3, 9)), out))
    >>> out.tolist()
    [3]
    """
    extents = shape_of(shape)
    rank_is(len(extents), array, "the shape of the tile has", "shape")
    k = array_axis(axis, array.ndim)
    return how_many(b, array.shape[axes_of(order, array.ndim)[k]], extents[k])


def how_many(b: Builder, extent: Operand, step: int) -> Operand:
    return cdiv(b, extent, step) if isinstance(extent, Value) else -(-extent // step)


@function()
@access("latency")
def gather(
    b: Builder, array: Array, indices: object, *, mask: object = None, padding_value=0, check_bounds: bool = True
) -> Value:
    """Elements of an array, by their indices: a tuple of an int tile or scalar for each axis, which broadcast to the
    shape of what comes out. For an array of one dimension a tile alone will do, for one of none it is ``()``.

    Where an index is outside of the array, or negative, or ``mask`` is off, nothing is read and the element is
    ``padding_value``, which widens to the array's type. ``check_bounds=False`` says that no index is outside.

    TileTypeError: another number of indices than dimensions, indices that are no ints or do not broadcast, a mask that
    is not bool.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def pick(x, i, out):
    ...     ct.store(out, 0, ct.gather(x, ct.load(i, 0, 4), padding_value=-1))
    >>> x, i, out = np.arange(10) ** 2, np.array([3, -1, 9, 10]), np.zeros(4, np.int64)
    >>> ct.launch(None, (1,), pick, (x, i, out))
    >>> out.tolist()
    [9, -1, 81, -1]
    """
    return _gather(b, array, element_places(b, array, indices), mask, padding_value, check_bounds)


def _gather(b: Builder, array: Array, places: Places, mask: object, padding_value: object, check: bool) -> Value:
    pointer, inside = locate(b, array, places, check, mask)
    if isinstance(padding_value, int) and padding_value == 0:  # zero of every type
        return memory.load(b, pointer, inside)
    fill = implicit(b, padding_value, array.dtype, "padding_value")
    return memory.load(b, pointer, inside, fit(b, fill, pointer.type.shape, "padding_value"))


@function()
@access("latency")
def scatter(
    b: Builder, array: Array, indices: object, value: Operand, *, mask: object = None, check_bounds: bool = True
) -> None:
    """Writes elements of an array where `gather` reads them. ``value`` broadcasts to the shape of the indices; its
    type widens to the array's. Indices outside of the array, and lanes where ``mask`` is off, write nothing.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def put(x, i):
    ...     ct.scatter(x, ct.load(i, 0, 4), 7)
    >>> x = np.zeros(5, np.int64)
    >>> ct.launch(None, (1,), put, (x, np.array([3, -1, 5, 0])))
    >>> x.tolist()
    [7, 0, 0, 7, 0]
    """
    _scatter(b, array, element_places(b, array, indices), value, mask, check_bounds)


def _scatter(b: Builder, array: Array, places: Places, value: object, mask: object, check: bool) -> None:
    v = implicit(b, value, array.dtype, "value")
    pointer, inside = locate(b, array, places, check, mask)
    memory.store(b, pointer, fit(b, v, pointer.type.shape, "value"), inside)


@dataclass(frozen=True)
class Slice(Struct):
    """``length`` elements from ``start`` on, an index of `load_advanced_indexing`."""

    start: Any
    length: int


@function("Slice")
def slice_of(b: Builder, start: Operand, length: int) -> Slice:
    """``length`` elements (a power of two) from ``start`` (an int scalar) on, as one of the indices of
    `load_advanced_indexing`.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out):
    ...     rows = ct.arange(2, dtype=ct.int32, step=2)
    ...     ct.store(out, (0, 0), ct.load_advanced_indexing(x, (rows, ct.Slice(1, 2))))
    >>> x, out = np.arange(9).reshape(3, 3), np.zeros((2, 2), int)
    >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
    [[1, 2], [7, 8]]
    """
    n = shape_of((length,), "length")[0]
    return Slice(index_scalar(b, start, "a slice", "start"), n)


def advanced_places(b: Builder, array: Array, indices: object) -> Places:
    found = indices if isinstance(indices, tuple) else (indices,)
    rank_is(len(found), array, "the indices have", "indices")
    tiles = [x for x in found if not isinstance(x, Slice)]
    if array.ndim < 2 or len(tiles) != 1:
        what = "of the indices, for 2 dimensions or more, one is a tile and the others are ct.Slice(start, length)"
        raise KernelTypeError(f"{what}; {len(tiles)} of {len(found)} are not", argument="indices")
    out = []
    for d, x in enumerate(found):
        v = add(b, x.start, arange(b, 0, x.length)) if isinstance(x, Slice) else index_value(b, x, "indices")
        if len(v.type.shape) != 1:
            raise KernelTypeError(f"an index is a tile of one dimension, not {v.type}", argument="indices")
        out.append((d, v, d))
    return out


@function()
@access("latency", "allow_tma")
def load_advanced_indexing(
    b: Builder, array: Array, indices: tuple, *, padding_mode: PaddingMode = UNDETERMINED
) -> Value:
    """Rows, say, of an array, whose numbers are in a tile: ``indices`` has an int tile of one dimension for one axis
    and a `Slice` for each other. The result has an extent for each axis: that of the tile, or the slice's length.
    What is outside of the array is ``padding_mode``.

    TileTypeError: an array of less than two dimensions, or not exactly one tile among the indices.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def rows(x, i, out):
    ...     ct.store(out, (0, 0), ct.load_advanced_indexing(x, (ct.load(i, 0, 2), ct.Slice(1, 2))))
    >>> x, out = np.arange(12).reshape(4, 3), np.zeros((2, 2), np.int64)
    >>> ct.launch(None, (1,), rows, (x, np.array([3, 1]), out))
    >>> out.tolist()
    [[10, 11], [4, 5]]
    """
    fill = fill_of(padding_mode, array.dtype)
    return memory.load(b, *locate(b, array, advanced_places(b, array, indices), True), fill)


@function()
@access("latency", "allow_tma")
def store_advanced_indexing(b: Builder, array: Array, indices: tuple, tile: Operand) -> None:
    """Writes a tile where `load_advanced_indexing` reads it; nothing outside of the array. A number goes to all places.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def mark(x, i):
    ...     ct.store_advanced_indexing(x, (ct.load(i, 0, 2), ct.Slice(0, 2)), 1)
    >>> x = np.zeros((4, 3), np.int64)
    >>> ct.launch(None, (1,), mark, (x, np.array([3, 1])))
    >>> x.tolist()
    [[0, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 0]]
    """
    v, places = implicit(b, tile, array.dtype, "tile"), advanced_places(b, array, indices)
    if v.type.shape not in ((), common_shape(places)):
        what = f"the tile has shape {list(v.type.shape)}, the indices stand for {list(common_shape(places))}"
        raise KernelTypeError(what, argument="tile")
    pointer, inside = locate(b, array, places, True)
    memory.store(b, pointer, broadcast(b, v, pointer.type.shape), inside)


# -- views -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TiledView(Struct):
    """An array that is seen in tiles of one shape: ``.tile_shape``, ``.traversal_steps``, ``.dtype``. Made by
    ``x.tiled_view(...)``."""

    METHODS: ClassVar[dict[str, Any]] = {}
    array: Array
    tile_shape: tuple[int, ...]
    traversal_steps: tuple[int, ...]
    padding_mode: PaddingMode

    @property
    def dtype(self) -> DType:
        return self.array.dtype

    def places(self, b: Builder, index: object) -> Places:
        return tile_places(b, self.array, index, self.tile_shape, "C", self.traversal_steps)


@method(Array)
def tiled_view(
    b: Builder, array: Array, tile_shape: object, *, padding_mode=UNDETERMINED, traversal_steps: object = None
) -> TiledView:
    """``x.tiled_view(tile_shape)``: an array seen in tiles, as in `load`. ``traversal_steps`` says how many elements
    the next tile is further along each axis: fewer than a tile has, and they overlap; more, and there are gaps.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def third(x, out):
    ...     ct.store(out, 0, x.tiled_view(4, traversal_steps=1).load(2))
    >>> out = np.zeros(4, np.int64)
    >>> ct.launch(None, (1,), third, (np.arange(5), out))
    >>> out.tolist()
    [2, 3, 4, 0]
    """
    extents = shape_of(tile_shape, "tile_shape")
    if extents:
        rank_is(len(extents), array, "the shape of the tile has", "tile_shape")
    fill_of(padding_mode, array.dtype)
    steps = extents or (1,) * array.ndim
    if traversal_steps is not None:
        steps = traversal_steps if isinstance(traversal_steps, tuple) else (traversal_steps,)
        steps = tuple(constant_int(n, "traversal_steps") for n in steps)
        rank_is(len(steps), array, "traversal_steps has", "traversal_steps")
        if min(steps, default=1) < 1:
            raise KernelTypeError(f"a step is an int from 1 on, not {min(steps)}", argument="traversal_steps")
    return TiledView(array, extents, steps, padding_mode)


@method(TiledView)
@access("latency", "allow_tma")
def load_(b: Builder, view: TiledView, index: object, *, check_bounds: bool = True) -> Value:
    """``view.load(index)``: a tile, as by `load`."""
    pointer, inside = locate(b, view.array, view.places(b, index), check_bounds)
    return memory.load(b, pointer, inside, fill_of(view.padding_mode, view.dtype))


@method(TiledView)
@access("latency", "allow_tma")
def store_(b: Builder, view: TiledView, index: object, tile: Operand, *, check_bounds: bool = True) -> None:
    """``view.store(index, tile)``: writes a tile that broadcasts to the view's, nothing outside of the array."""
    v = fit(b, implicit(b, tile, view.dtype, "tile"), view.tile_shape, "tile")
    pointer, inside = locate(b, view.array, view.places(b, index), check_bounds)
    memory.store(b, pointer, v, inside)


@method(TiledView)
def num_tiles_(b: Builder, view: TiledView, axis: int) -> Operand:
    """``view.num_tiles(axis)``: how many tiles start inside of the array along an axis."""
    k = array_axis(axis, view.array.ndim)
    return how_many(b, view.array.shape[k], view.traversal_steps[k])


@dataclass(frozen=True)
class RawMemory(Struct):
    """Memory from an array's first element on, by the offsets of elements: nothing is checked. ``.dtype`` is the
    elements' type. Made by ``x.get_raw_memory()``."""

    METHODS: ClassVar[dict[str, Any]] = {}
    base: Any

    @property
    def dtype(self) -> DType:
        return self.base.type.dtype

    @property
    def flat(self) -> Array:
        return Array(self.base, (None,), (1,))


NAMES |= {"TiledView": TiledView, "RawArrayMemory": RawMemory}  # to annotate with


@method(Array)
def get_raw_memory(b: Builder, array: Array) -> RawMemory:
    """``x.get_raw_memory()``: the memory of an array. ``load_offset(offset)``, ``store_offset(offset, value)`` and
    ``atomic_add_offset(offset, update)`` and the like take int tiles or scalars, in elements from the first one of the
    array, and ``mask=``; what is outside of the array is not looked at.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def every_third(x, out):
    ...     ct.store(out, 0, x.get_raw_memory().load_offset(3 * ct.bid(0)))
    >>> out = np.zeros(1, np.int64)
    >>> ct.launch(None, (1,), every_third, (np.arange(4, 16).reshape(4, 3), out))
    >>> out.tolist()
    [4]
    """
    return RawMemory(array.base)


@method(RawMemory)
@access("latency")
def load_offset(
    b: Builder, raw: RawMemory, offset: Operand, *, mask: object = None, padding_value: Operand = 0
) -> Value:
    """Elements by offset; where ``mask`` is off, ``padding_value``."""
    return _gather(b, raw.flat, [(0, index_value(b, offset, "offset"), None)], mask, padding_value, False)


@method(RawMemory)
@access("latency")
def store_offset(b: Builder, raw: RawMemory, offset: Operand, value: Operand, *, mask: object = None) -> None:
    """Writes elements by offset, where ``mask`` is on."""
    _scatter(b, raw.flat, [(0, index_value(b, offset, "offset"), None)], value, mask, False)
