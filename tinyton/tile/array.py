"""Arrays in kernels: a pointer, the extents and the strides, which are arguments of their own in the compiled code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

from ..dtypes import DType, bool_, int32, int64
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from ..ops.arithmetic import add, eq, maximum, minimum, mul, sub, where
from ..ops.typing import Operand, Struct, axis_of, cast_value, describe, flatten, value_of
from .language import typed


def method(owner: type[Struct]) -> Callable[[Callable], Callable]:
    """Registers a typing rule as a method of records; its name is the rule's, without a trailing underscore."""

    def register(rule: Callable) -> Callable:
        owner.METHODS[rule.__name__.rstrip("_")] = rule
        return rule

    return register


@dataclass(frozen=True, repr=False)
class Array(Struct):
    """An array argument. ``.shape`` and ``.strides`` (in elements) are tuples of run-time ints; a stride of 1 is a
    constant. ``.dtype`` and ``.ndim`` are known when the kernel is compiled.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def sizes(x, out):
    ...     ct.store(out, 0, x.shape[0] * x.shape[1])
    >>> out = np.zeros(1, np.int32)
    >>> ct.launch(None, (1,), sizes, (np.zeros((3, 5)), out))
    >>> out.tolist()
    [15]
    """

    METHODS: ClassVar[dict[str, Any]] = {}
    base: Any
    shape: tuple
    strides: tuple

    @property
    def dtype(self) -> DType:
        return self.base.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"an array of {self.ndim} dimension{'s' * (self.ndim != 1)} of {self.dtype}"

    def __repr__(self) -> str:
        return f"Array({self.ndim})"

    def subscript(self, b: Builder, index: Callable[[], object]) -> object:
        what = "an array has no elements at hand: ct.load(x, index, shape) reads a tile of it"
        raise KernelTypeError(f"{what}, ct.gather(x, indices) reads elements")


class ArrayList(tuple):
    """A list of arrays of one element type and rank. An index that is known at run time chooses the parts of one."""

    _make = classmethod(lambda cls, arrays: cls(arrays))

    def subscript(self, b: Builder, index: Callable[[], object]) -> object:
        k = index()
        if not isinstance(k, Value):
            try:
                return self[k]  # type: ignore[index]
            except IndexError:
                raise KernelValueError(f"there is no array {k} in a list of {len(self)}") from None
            except TypeError:
                raise KernelTypeError(f"a list takes an int as index, not {describe(k)}") from None
        k = index_scalar(b, k, "a list")
        parts = zip(*(flatten(array)[0] for array in self), strict=True)
        return flatten(self[0])[1]([chosen(b, k, part) for part in parts])


def chosen(b: Builder, k: Value, values: tuple) -> Any:
    """The k-th of some values, or the value if there is only one."""
    if all(v is values[0] or (not isinstance(v, Value) and v == values[0]) for v in values):
        return values[0]
    return reduce(lambda rest, nth: where(b, eq(b, k, nth[0]), nth[1], rest), enumerate(values[1:], 1), values[0])


def index_value(b: Builder, x: object, argument: str) -> Value:
    """An integer, scalar or tile, that counts elements or tiles: int32 or int64."""
    v = value_of(b, x) if isinstance(x, (Value, bool, int, float)) else None
    if v is None or v.type.pointer or v.type.dtype.is_float or v.type.dtype is bool_:
        found = v.type if v else describe(x)
        raise KernelTypeError(f"an index is made of integers, not of {found}", argument=argument)
    wide = v.type.dtype.bits > 32 or v.type.dtype.name == "uint32"
    return cast_value(b, v, int64 if wide else int32)


def index_scalar(b: Builder, x: object, where: str, argument: str = "index") -> Value:
    v = index_value(b, x, argument)
    if v.type.shape:
        one = "; .item() makes a scalar of it" if set(v.type.shape) == {1} else ""
        raise KernelTypeError(f"an index of {where} is a scalar, not a tile ({v.type}){one}", argument=argument)
    return v


def step(b: Builder, count: Value, stride: Operand) -> Value:
    """``count * stride``; a stride of 1 is known when the kernel is compiled."""
    return count if isinstance(stride, int) and stride == 1 else mul(b, count, stride)


def array_axis(axis: object, ndim: int) -> int:
    """A dimension of an array."""
    with typed():
        return axis_of(axis, ndim, "an array")


@method(Array)
def slice_(b: Builder, array: Array, axis: int, start: Operand, stop: Operand) -> Array:
    """``x.slice(axis, start, stop)``: the part of an array that has the elements from ``start`` to before ``stop``
    along ``axis``, as an array; nothing is copied. The ends are int scalars, at run time too. What of them is beyond
    the array is cut off.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def part(x, out, start, stop):
    ...     ct.store(out, 0, ct.load(x.slice(0, start, stop), 0, 4))
    >>> out = np.zeros(4, np.int32)
    >>> ct.launch(None, (1,), part, (np.arange(9, dtype=np.int32), out, 3, 6))
    >>> out.tolist()
    [3, 4, 5, 0]
    """
    k = array_axis(axis, array.ndim)
    low, high = (index_scalar(b, x, "a slice", what) for x, what in ((start, "start"), (stop, "stop")))
    low = minimum(b, maximum(b, low, 0), array.shape[k])
    high = minimum(b, maximum(b, high, low), array.shape[k])
    base = add(b, array.base, step(b, low, array.strides[k]))
    shape = (*array.shape[:k], sub(b, high, low), *array.shape[k + 1 :])
    return replace(array, base=base, shape=shape)
