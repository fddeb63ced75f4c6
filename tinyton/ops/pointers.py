"""Blocks of arrays: a record of base, extents, strides and a place becomes a tile of pointers and the mask of what is
inside, so that a block is loaded and stored as any tile is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..dtypes import DType, int64
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from . import OPS, op
from .arithmetic import add, and_, ge, lt, mul
from .create import tile_shape
from .memory import as_pointer, load, store
from .program import arange
from .rearrange import expand_dims
from .typing import Operand, Struct, cast_value, constant_int, describe, literal

Numbers = tuple[Operand, ...]


@dataclass(frozen=True)
class Blocks(Struct):
    """An array that is seen in blocks."""

    base: Value
    shape: Numbers
    strides: Numbers
    block_shape: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        return self.base.type.dtype


@dataclass(frozen=True)
class BlockPointer(Blocks):
    """A block of an array: ``offsets`` (int64) say where its first element is."""

    METHODS: ClassVar[dict[str, str]] = {"advance": "advance"}
    offsets: tuple[Value, ...]

    def addresses(self, b: Builder, check: object = (), padding: object = "") -> tuple[Value, Value | None, object]:
        """The block's pointers, the mask of what is inside along the dimensions ``check``, what is read elsewhere."""
        rank, dtype = len(self.block_shape), self.dtype
        inside = {constant_int(d, "boundary_check") for d in (check if isinstance(check, tuple) else (check,))}
        if wrong := [d for d in inside if not 0 <= d < rank]:
            what = f"boundary_check names dimension {wrong[0]} of a block of {rank} dimensions"
            raise KernelValueError(what, argument="boundary_check")
        _padding(padding, dtype)
        pointer, mask = self.base, None
        for d, (n, stride, offset) in enumerate(zip(self.block_shape, self.strides, self.offsets, strict=True)):
            at = cast_value(b, arange(b, 0, n), int64)
            at = add(b, expand_dims(b, at, tuple(k for k in range(rank) if k != d)), offset)
            pointer = add(b, pointer, at if _is(stride, 1) else mul(b, at, _wide(b, stride)))
            if d in inside:
                part = and_(b, ge(b, at, 0), lt(b, at, _wide(b, self.shape[d])))
                mask = part if mask is None else and_(b, mask, part)
        return pointer, mask, float("nan") if padding == "nan" and mask is not None else None


@dataclass(frozen=True)
class TensorDescriptor(Blocks):
    """An array that is read and written a block at a time, always within its bounds."""

    METHODS: ClassVar[dict[str, str]] = {"load": "load_tensor_descriptor", "store": "store_tensor_descriptor"}
    padding: str

    def block(self, b: Builder, offsets: object) -> BlockPointer:
        at = _offsets(b, offsets, len(self.shape))
        return BlockPointer(self.base, self.shape, self.strides, self.block_shape, at)


def _padding(padding: object, dtype: DType) -> None:
    if padding not in ("", "zero", "nan") or (padding == "nan" and not dtype.is_float):
        allowed = '"zero" or "nan"' if dtype.is_float else f'"zero", as elements are {dtype}'
        raise KernelValueError(f"padding_option is {allowed}; not {padding!r}", argument="padding_option")


def _is(x: object, number: int) -> bool:
    return not isinstance(x, Value) and x == number


def _wide(b: Builder, x: Operand) -> Value:
    return cast_value(b, x, int64) if isinstance(x, Value) else literal(b, x, int64)


def _numbers(xs: object, rank: int | None, what: str) -> Numbers:
    """A tuple of integers, of this length."""
    found = xs if isinstance(xs, tuple) else (xs,)
    if rank is not None and len(found) != rank:
        raise KernelValueError(f"{what} has {len(found)} entries, shape has {rank}", argument=what)
    for x in found:
        scalar = isinstance(x, Value) and x.type.dtype.kind in "iu" and not x.type.pointer and not x.type.shape
        if not scalar and (isinstance(x, bool) or not isinstance(x, int)):
            raise KernelTypeError(f"{what} are integers, not {describe(x)}", argument=what)
    return found


def _offsets(b: Builder, xs: object, rank: int) -> tuple[Value, ...]:
    return tuple(_wide(b, x) for x in _numbers(xs, rank, "offsets"))


def _array(base: object, shape: object, strides: object, block_shape: object) -> tuple:
    """The checked parts of an array that is seen in blocks."""
    pointer = as_pointer(base, "base")
    if pointer.type.shape:
        raise KernelTypeError(f"base is one pointer, not a tile of them ({pointer.type})", argument="base")
    extents = _numbers(shape, None, "shape")
    block = tile_shape(block_shape, "block_shape")
    _numbers(block, len(extents), "block_shape")
    return pointer, extents, _numbers(strides, len(extents), "strides"), block


@op(numpy=None, emit=None, kind="macro")
def make_block_ptr(
    b: Builder,
    base: Value,
    shape: Numbers,
    strides: Numbers,
    offsets: Numbers,
    block_shape: tuple[int, ...],
    order: tuple[int, ...] | None = None,
) -> BlockPointer:
    """A pointer to the block of ``block_shape`` (powers of two) that starts at ``offsets`` in the array at ``base``.

    ``load`` and ``store`` take it, and `advance` moves it. Extents, strides (in elements) and offsets are integers, one
    a dimension; where a stride is the literal 1, accesses are vectors. ``order`` has no effect: the strides tell.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, out, n):
    ...     block = tt.make_block_ptr(x, (n,), (1,), (2,), (4,))
    ...     tt.store(out + tt.arange(0, 4), tt.load(block, boundary_check=0))
    >>> x, out = np.arange(5), np.ones(4, int); k[1](x, out, 5); out.tolist()
    [2, 3, 4, 0]
    """
    pointer, extents, steps, block = _array(base, shape, strides, block_shape)
    order = tuple(range(len(block))) if order is None else _numbers(order, len(block), "order")
    if {constant_int(d, "order") for d in order} != {*range(len(block))}:
        what = f"order is {order}, not the dimensions 0 to {len(block) - 1} in some order"
        raise KernelValueError(what, argument="order")
    return BlockPointer(pointer, extents, steps, block, _offsets(b, offsets, len(block)))


@op(numpy=None, emit=None, kind="macro")
def advance(b: Builder, base: BlockPointer, offsets: Numbers) -> BlockPointer:
    """The block pointer ``base``, moved by ``offsets``, one a dimension.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, out, n):
    ...     block = tt.make_block_ptr(x, (n,), (1,), (0,), (2,))
    ...     block = tt.advance(block, (2,))
    ...     tt.store(out + tt.arange(0, 2), tt.load(block))
    >>> x, out = np.arange(5), np.zeros(2, int); k[1](x, out, 5); out.tolist()
    [2, 3]
    """
    if not isinstance(base, BlockPointer):
        raise KernelTypeError(f"advance moves what make_block_ptr gives, not {describe(base)}", argument="base")
    by = _numbers(offsets, len(base.shape), "offsets")
    at = (x if _is(d, 0) else add(b, x, d) for x, d in zip(base.offsets, by, strict=True))
    return replace(base, offsets=tuple(at))


@op(numpy=None, emit=None, kind="macro")
def make_tensor_descriptor(
    b: Builder,
    base: Value,
    shape: Numbers,
    strides: Numbers,
    block_shape: tuple[int, ...],
    padding_option: str = "zero",
) -> TensorDescriptor:
    """The array at ``base``, for loads and stores of blocks of ``block_shape`` (powers of two).

    ``desc.load(offsets)`` is a tile, 0 (NaN with ``padding_option="nan"``) outside of the array;
    ``desc.store(offsets, value)`` writes nothing outside. Rows are contiguous: the last stride is the literal 1.
    ``.shape``, ``.strides``, ``.block_shape`` and ``.dtype`` are what they were made with.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, n, m):
    ...     rows = tt.make_tensor_descriptor(x, (n, m), (m, 1), (2, 2))
    ...     rows.store((1, 1), rows.load((0, 0)))
    >>> x = np.arange(6).reshape(2, 3); k[1](x, 2, 3); x.tolist()
    [[0, 1, 2], [3, 0, 1]]
    """
    pointer, extents, steps, block = _array(base, shape, strides, block_shape)
    if not steps or not _is(steps[-1], 1):
        what = f"the last stride of a descriptor is the literal 1{f', not {describe(steps[-1])}' if steps else ''}"
        raise KernelValueError(f"{what}; for other arrays there is make_block_ptr", argument="strides")
    _padding(padding_option, pointer.type.dtype)
    return TensorDescriptor(pointer, extents, steps, block, padding_option)


def _descriptor(desc: object) -> TensorDescriptor:
    if not isinstance(desc, TensorDescriptor):
        raise KernelTypeError(f"expected what make_tensor_descriptor gives, not {describe(desc)}", argument="desc")
    return desc


@op(numpy=None, emit=None, kind="macro")
def load_tensor_descriptor(b: Builder, desc: TensorDescriptor, offsets: Numbers) -> Value:
    """The block of the descriptor's array that starts at ``offsets``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, out, n):
    ...     d = tt.make_tensor_descriptor(x, (n,), (1,), (4,))
    ...     tt.store(out + tt.arange(0, 4), tt.load_tensor_descriptor(d, (2,)))
    >>> x, out = np.arange(5), np.ones(4, int); k[1](x, out, 5); out.tolist()
    [2, 3, 4, 0]
    """
    block = _descriptor(desc).block(b, offsets)
    return load(b, block, boundary_check=tuple(range(len(desc.shape))), padding_option=desc.padding)


@op(numpy=None, emit=None, kind="macro")
def store_tensor_descriptor(b: Builder, desc: TensorDescriptor, offsets: Numbers, value: Operand) -> None:
    """Writes ``value`` to the block of the descriptor's array that starts at ``offsets``, where that is inside.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, n):
    ...     d = tt.make_tensor_descriptor(x, (n,), (1,), (4,))
    ...     tt.store_tensor_descriptor(d, (3,), tt.arange(1, 5))
    >>> x = np.zeros(5, int); k[1](x, 5); x.tolist()
    [0, 0, 0, 1, 2]
    """
    store(b, _descriptor(desc).block(b, offsets), value, boundary_check=tuple(range(len(desc.shape))))


def _atomic(how: str) -> None:
    def rule(b: Builder, desc: TensorDescriptor, offsets: Numbers, value: Operand) -> None:
        pointer, mask, _ = _descriptor(desc).block(b, offsets).addresses(b, tuple(range(len(desc.shape))))
        OPS[f"atomic_{how}"].rule(b, pointer, value, mask, "relaxed")

    name, doc = f"descriptor_atomic_{how}", f'``desc.atomic_{how}(offsets, value)``: on a block, with sem="relaxed".'
    op(name, doc, numpy=None, emit=None, kind="macro", public=False)(rule)
    TensorDescriptor.METHODS[f"atomic_{how}"] = name


for _how in ("add", "max", "min", "and", "or", "xor"):
    _atomic(_how)
