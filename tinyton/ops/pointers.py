"""Blocks of arrays: a record of base, extents, strides and a place becomes a tile of pointers and the mask of what is
inside, so that a block is loaded and stored as any tile is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..dtypes import DType, bool_, int32, int64
from ..errors import KernelTypeError, KernelValueError, TinytonError
from ..ir import Builder, Type, Value
from . import OPS, op
from .create import tile_shape
from .memory import as_pointer, load, store
from .typing import Operand, Struct, cast_value, constant_int, describe, literal

Numbers = tuple[Operand, ...]


@dataclass(frozen=True)
class BlockPointer(Struct):
    """A block of an array: ``offsets`` (int64) say where its first element is."""

    METHODS: ClassVar[dict[str, str]] = {"advance": "advance"}
    base: Value
    shape: Numbers
    strides: Numbers
    offsets: tuple[Value, ...]
    block_shape: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        return self.base.type.dtype

    def addresses(self, b: Builder, check: object = (), padding: object = "") -> tuple[Value, Value | None, object]:
        """The block's pointers, the mask of what is inside along the dimensions ``check``, what is read elsewhere."""
        rank, dtype = len(self.block_shape), self.dtype
        inside = {constant_int(d, "boundary_check") for d in (check if isinstance(check, tuple) else (check,))}
        if wrong := [d for d in inside if not 0 <= d < rank]:
            raise KernelValueError(
                f"boundary_check names dimension {wrong[0]} of a block of {rank} dimensions", argument="boundary_check"
            )
        _padding(padding, dtype)
        pointer, mask = self.base, None
        for d, (n, stride, offset) in enumerate(zip(self.block_shape, self.strides, self.offsets, strict=True)):
            at = cast_value(b, b.add("arange", (), Type(int32, (n,)), start=0), int64)
            for axis in (k for k in range(rank) if k != d):
                at = b.add(
                    "expand", (at,), at.type.with_shape((*at.type.shape[:axis], 1, *at.type.shape[axis:])), axis=axis
                )
            at = OPS["add"].rule(b, at, offset)
            pointer = OPS["add"].rule(b, pointer, at if _is(stride, 1) else OPS["mul"].rule(b, at, _wide(b, stride)))
            if d in inside:
                part = OPS["and"].rule(b, OPS["ge"].rule(b, at, 0), OPS["lt"].rule(b, at, _wide(b, self.shape[d])))
                mask = part if mask is None else OPS["and"].rule(b, mask, part)
        return pointer, mask, float("nan") if padding == "nan" and mask is not None else None


@dataclass(frozen=True)
class TensorDescriptor(Struct):
    """An array that is read and written a block at a time, always within its bounds."""

    METHODS: ClassVar[dict[str, str]] = {"load": "load_tensor_descriptor", "store": "store_tensor_descriptor"}
    base: Value
    shape: Numbers
    strides: Numbers
    block_shape: tuple[int, ...]
    padding: str

    @property
    def dtype(self) -> DType:
        return self.base.type.dtype

    def block(self, b: Builder, offsets: object) -> BlockPointer:
        at = _offsets(b, offsets, len(self.shape))
        return BlockPointer(self.base, self.shape, self.strides, at, self.block_shape)


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
        t = x.type if isinstance(x, Value) else None
        if not (isinstance(x, int) and not isinstance(x, bool)) and not (
            t and t.dtype.is_int and t.dtype is not bool_ and not t.pointer and not t.shape
        ):
            raise KernelTypeError(f"{what} are integers, not {describe(x)}", argument=what)
    return found


def _offsets(b: Builder, xs: object, rank: int) -> tuple[Value, ...]:
    found = _numbers(xs, rank, "offsets")
    return tuple(_wide(b, x) for x in found)


def _array(base: object, shape: object, strides: object, block_shape: object) -> tuple:
    """The checked parts of an array that is seen in blocks."""
    pointer = as_pointer(base, "base")
    if pointer.type.shape:
        raise KernelTypeError(f"base is one pointer, not a tile of them ({pointer.type})", argument="base")
    extents = _numbers(shape, None, "shape")
    try:
        block = tile_shape(block_shape)
    except TinytonError as error:
        error.argument = "block_shape"
        raise
    if len(block) != len(extents):
        raise KernelValueError(
            f"block_shape has {len(block)} entries, shape has {len(extents)}", argument="block_shape"
        )
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
    """
    pointer, extents, steps, block = _array(base, shape, strides, block_shape)
    if order is not None and sorted(constant_int(d, "order") for d in _numbers(order, len(block), "order")) != list(
        range(len(block))
    ):
        raise KernelValueError(
            f"order is {order}, not the dimensions 0 to {len(block) - 1} in some order", argument="order"
        )
    return BlockPointer(pointer, extents, steps, _offsets(b, offsets, len(block)), block)


@op(numpy=None, emit=None, kind="macro")
def advance(b: Builder, base: BlockPointer, offsets: Numbers) -> BlockPointer:
    """The block pointer ``base``, moved by ``offsets``, one a dimension."""
    if not isinstance(base, BlockPointer):
        raise KernelTypeError(f"advance moves what make_block_ptr gives, not {describe(base)}", argument="base")
    by = _numbers(offsets, len(base.shape), "offsets")
    at = (x if _is(d, 0) else OPS["add"].rule(b, x, d) for x, d in zip(base.offsets, by, strict=True))
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
    """
    pointer, extents, steps, block = _array(base, shape, strides, block_shape)
    if not steps or not _is(steps[-1], 1):
        raise KernelValueError(
            f"the last stride of a descriptor is the literal 1{f', not {describe(steps[-1])}' if steps else ''}; "
            f"for other arrays there is make_block_ptr",
            argument="strides",
        )
    _padding(padding_option, pointer.type.dtype)
    return TensorDescriptor(pointer, extents, steps, block, padding_option)


def _descriptor(desc: object) -> TensorDescriptor:
    if not isinstance(desc, TensorDescriptor):
        raise KernelTypeError(f"expected what make_tensor_descriptor gives, not {describe(desc)}", argument="desc")
    return desc


@op(numpy=None, emit=None, kind="macro")
def load_tensor_descriptor(b: Builder, desc: TensorDescriptor, offsets: Numbers) -> Value:
    """The block of the descriptor's array that starts at ``offsets``."""
    block = _descriptor(desc).block(b, offsets)
    return load(b, block, boundary_check=tuple(range(len(desc.shape))), padding_option=desc.padding)


@op(numpy=None, emit=None, kind="macro")
def store_tensor_descriptor(b: Builder, desc: TensorDescriptor, offsets: Numbers, value: Operand) -> None:
    """Writes ``value`` to the block of the descriptor's array that starts at ``offsets``, where that is inside."""
    store(b, _descriptor(desc).block(b, offsets), value, boundary_check=tuple(range(len(desc.shape))))


def _atomic(how: str) -> None:
    def rule(b: Builder, desc: TensorDescriptor, offsets: Numbers, value: Operand) -> None:
        pointer, mask, _ = _descriptor(desc).block(b, offsets).addresses(b, tuple(range(len(desc.shape))))
        OPS[f"atomic_{how}"].rule(b, pointer, value, mask, "relaxed")

    rule.__name__ = f"descriptor_atomic_{how}"
    rule.__doc__ = f"""``desc.atomic_{how}(offsets, value)``: `atomic_{how}` on a block, with sem="relaxed"."""
    op(numpy=None, emit=None, kind="macro", public=False)(rule)
    TensorDescriptor.METHODS[f"atomic_{how}"] = rule.__name__


for _how in ("add", "max", "min", "and", "or", "xor"):
    _atomic(_how)
