"""Arguments of a launch: what stands for each while the kernel is compiled, and the numbers and arrays of which it is
made in the compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from math import prod
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import numpy as np

from ..arrays import from_dlpack
from ..dtypes import DType, from_numpy, int32, int64, is_foreign
from ..errors import LaunchError
from ..ops.typing import is_record, record
from ..specialize import hashable
from ..spelling import ConstantAnnotation, Leaf
from .array import Array, ArrayList
from .language import NAMES

NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
T = TypeVar("T")


class ArgumentError(LaunchError, TypeError):
    """An argument of the wrong kind on the host."""


class RangeError(LaunchError, ValueError):
    """An argument on the host that is out of what is allowed."""


class Wide(int):
    """An int that is an int64 in the kernel, whatever it is."""


def _index_type(dtype: DType) -> None:
    if dtype not in (int32, int64):
        raise RangeError(f"an index type is ct.int32 or ct.int64, not {dtype}")


@dataclass(frozen=True, kw_only=True)
class ArrayAnnotation:
    """Says more of an array parameter: ``x: Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0,))]``.

    ``index_dtype=ct.int64`` makes extents and strides int64 (else they are if one does not fit int32).
    ``static_shape_dims`` and ``static_stride_dims`` list dimensions whose extents and strides are constants in the
    kernel, which is compiled anew for others; with static strides, no other stride is known to be 1.
    """

    index_dtype: DType = int32
    static_shape_dims: tuple[int, ...] = ()
    static_stride_dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _index_type(self.index_dtype)
        for name in ("static_shape_dims", "static_stride_dims"):
            dims = getattr(self, name)
            if not isinstance(dims, tuple) or any(isinstance(d, bool) or not isinstance(d, int) for d in dims):
                raise ArgumentError(f"{name} is a tuple of ints, not {dims!r}")


@dataclass(frozen=True, kw_only=True)
class ScalarAnnotation:
    """Says of which type an int parameter is: ct.int32 or ct.int64."""

    dtype: DType

    def __post_init__(self) -> None:
        _index_type(self.dtype)


@dataclass(frozen=True, kw_only=True)
class ListAnnotation:
    """Says more of the arrays in a list: ``element`` is an `ArrayAnnotation`, or Annotated with one."""

    element: Any

    def __post_init__(self) -> None:
        marks = self.element, *getattr(self.element, "__metadata__", ())
        found = [m for m in marks if isinstance(m, ArrayAnnotation)]
        if len(found) != 1:
            raise ArgumentError(f"element is a ct.ArrayAnnotation, or Annotated with one, not {self.element!r}")
        object.__setattr__(self, "element", found[0])


NAMES |= {"ArrayAnnotation": ArrayAnnotation, "ScalarAnnotation": ScalarAnnotation, "ListAnnotation": ListAnnotation}
NAMES |= {"IndexedWithInt64": Annotated[T, ArrayAnnotation(index_dtype=int64)]}
NAMES |= {"ScalarInt64": Annotated[T, ScalarAnnotation(dtype=int64)], "Scalar": int | float, "Array": Array}


def note(annotation: Any, *kinds: type) -> Any:
    """What an annotation says more, of one of these kinds; None if nothing."""
    return next((m for m in getattr(annotation, "__metadata__", ()) if isinstance(m, kinds)), None)


# -- constants ---------------------------------------------------------------------------------------------------------


def constant(name: str, x: Any, annotation: Any) -> Any:
    """The value of a parameter that is a `Constant`: a number, text, None, an enum's member, a type, a tuple of
    these, or anything else that can be part of a kernel's key. NumPy's numbers and types, and torch's, become ours."""
    given = x
    if isinstance(x, np.generic):
        x = x.item()
    elif is_foreign(x):
        x = from_numpy(x)
    kinds = _classes(get_args(annotation)[0]) if get_origin(annotation) is Annotated else ()
    if float in kinds and int not in kinds and type(x) is int:
        x = float(x)
    if extents(x) is not None or (kinds and not isinstance(x, kinds) and not isinstance(given, kinds)):
        wanted = " or ".join(k.__name__ for k in kinds) or "a constant"
        raise ArgumentError(f"argument {name} is {_shown(given)}, not {wanted}, as its annotation says")
    return hashable(f"argument {name}", x, ArgumentError)


def _classes(kind: Any) -> tuple[type, ...]:
    """The classes that a type stands for; none if any value will do."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    found = tuple(NoneType if p is None else get_origin(p) or p for p in parts)
    return found if all(isinstance(c, type) for c in found) else ()


def _shown(x: Any) -> str:
    value = f", {x!r}" if isinstance(x, (*NUMBERS, str, Enum)) else ""
    return "None" if x is None else f"a {type(x).__name__}{value}"


# -- what varies -------------------------------------------------------------------------------------------------------


def take_apart(name: str, x: Any, parts: dict[str, Any], annotation: Any = None, inside: bool = False) -> Any:
    """What stands for an argument while the kernel is compiled, with a `Leaf` for each of its ``parts``: arrays in
    words that an executor knows, and numbers. ``inside`` of a tuple or a dataclass, what is neither is a constant."""
    if hasattr(x, "__dlpack__"):
        x = from_dlpack(name, x)
    if isinstance(x, NUMBERS):
        wide = getattr(note(annotation, ScalarAnnotation), "dtype", None) is int64
        parts[name] = Wide(x) if wide and isinstance(x, (int, np.integer)) else x
        return Leaf(name)
    if (found := extents(x)) is not None:
        return _array(name, x, *found, parts, note(annotation, ArrayAnnotation) or ArrayAnnotation())
    if isinstance(x, tuple):
        make = getattr(x, "_make", tuple)
        return make([take_apart(f"{name}[{k}]", v, parts, None, True) for k, v in enumerate(x)])
    if isinstance(x, list):
        return _list(name, x, parts, note(annotation, ListAnnotation))
    if is_record(x):
        values = {}
        for f in fields(x):
            part = f"{name}.{f.name}", getattr(x, f.name)
            fixed = note(f.type, ConstantAnnotation)
            values[f.name] = constant(*part, f.type) if fixed else take_apart(*part, parts, f.type, True)
        return record(type(x), values)
    if inside and isinstance(x, (str, NoneType, Enum, DType)):
        return x
    fixed = isinstance(x, (str, NoneType, Enum, DType, type)) or is_foreign(x) or callable(x)
    instead = "annotate the parameter with ct.Constant" if fixed else "a kernel takes arrays, ints, floats and bools"
    if not fixed and hasattr(x, "__dataclass_fields__"):
        instead = "put frozen=True on its dataclass"
    raise ArgumentError(f"argument {name} is {_shown(x)}; {instead}")


def _array(name: str, x: Any, shape: tuple, strides: tuple, parts: dict[str, Any], how: ArrayAnnotation) -> Array:
    parts[f"{name}.data"] = x
    ends: list[list[Any]] = [[], []]
    kinds = ("shape", shape, how.static_shape_dims), ("stride", strides, how.static_stride_dims)
    for k, (word, numbers, static) in enumerate(kinds):
        if wrong := [d for d in static if not -len(shape) <= d < len(shape)]:
            what = f"argument {name} has {len(shape)} dimensions; its annotation is about dimension {wrong[0]}"
            raise RangeError(what)
        for d, n in enumerate(numbers):
            if d in static or d - len(shape) in static or k and not static and n == 1:
                ends[k].append(int(n))
            else:
                ends[k].append(Leaf(f"{name}.{word}{d}"))
                parts[f"{name}.{word}{d}"] = Wide(n) if how.index_dtype is int64 else int(n)
    return Array(Leaf(f"{name}.data"), *map(tuple, ends))


def _list(name: str, x: list, parts: dict[str, Any], how: Any) -> ArrayList:
    if not x:
        raise ArgumentError(f"argument {name} is an empty list; it has no type")
    annotation = how and Annotated[Array, how.element]
    out = ArrayList(take_apart(f"{name}[{k}]", v, parts, annotation) for k, v in enumerate(x))
    kinds = [(a.ndim, _element(parts[a.base.name])) if isinstance(a, Array) else None for a in out]
    for k, kind in enumerate(kinds):
        if kind is None or kind != kinds[0]:
            what = "is no array"
            if kind and kinds[0]:
                what = f"has {kind[0]} dimensions of {kind[1]}, {name}[0] {kinds[0][0]} of {kinds[0][1]}"
            one = f"argument {name} is a list of arrays of one type and one number of dimensions"
            raise ArgumentError(f"{one}, but {name}[{k}] {what}")
    return out


def _element(x: Any) -> DType:
    return from_numpy(x.dtype if hasattr(x, "dtype") else np.dtype(x.__cuda_array_interface__["typestr"]))


def extents(x: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape and strides, in elements, of an array; None of anything else."""
    if hasattr(x, "stride") and hasattr(x, "is_cuda"):
        return tuple(x.shape), tuple(x.stride())
    words: Mapping[str, Any] = {} if isinstance(x, np.ndarray) else getattr(x, "__cuda_array_interface__", {})
    shape, strides = getattr(x, "shape", words.get("shape")), getattr(x, "strides", words.get("strides"))
    if isinstance(x, (np.generic, type)) or not isinstance(shape, (tuple, list)):
        return None
    if strides is None:
        return tuple(shape), tuple(prod(shape[d + 1 :]) for d in range(len(shape)))
    kind = getattr(x, "dtype", np.dtype(words["typestr"]) if "typestr" in words else None)
    return (tuple(shape), tuple(s // kind.itemsize for s in strides)) if hasattr(kind, "itemsize") else None
