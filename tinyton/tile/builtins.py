"""What Python's own functions and operators are in kernels about arrays, and what is computed when a kernel is
compiled."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import partial, reduce, update_wrapper
from typing import Any

from ..dtypes import DType, bool_, float32, int32
from ..errors import KernelTypeError, KernelValueError, TinytonError
from ..frontend.calls import Source, helper
from ..frontend.static import iterated
from ..ir import Builder, Value
from ..ops import OPS
from ..ops.static import asserted
from ..ops.typing import Operand, cast_value, describe, number, run_time
from .array import Array
from .create import strictly
from .language import MEANINGS, NAMES, SPELLING, function


def extreme(word: str, b: Builder, *xs: Any) -> Value:
    values = xs[0] if len(xs) == 1 and isinstance(xs[0], tuple) else xs
    if len(values) < 2:
        raise KernelTypeError(f"{word} is of two or more; ct.{word}(x) is that of a tile's elements")
    return reduce(partial(OPS[f"{word}imum"].rule, b), values)


def converted(kinds: str, dtype: DType, b: Builder, x: Operand) -> Value:
    """As ``dtype``, unless it is of one of these kinds."""
    v = number(b, x)
    return v if v.type.dtype.kind in kinds else cast_value(b, v, dtype)


def length(b: Builder, x: Any) -> int:
    """Of a tile, its first extent."""
    if isinstance(x, (tuple, dict)):
        return len(x)
    if not isinstance(x, Value) or not x.type.shape:
        extents = "; its extents are .shape[0] and so on" if isinstance(x, Array) else ""
        raise KernelTypeError(f"{describe(x)} has no len(){extents}")
    return x.type.shape[0]


def typed(b: Builder, x: Any = 0, *, dtype: DType) -> Value:
    """``ct.int16(x)``: a number or a tile of that type; integers wrap around, floats are rounded."""
    if not isinstance(x, (bool, int, float)):
        return cast_value(b, number(b, x), dtype)
    if dtype.is_float or dtype is bool_:
        return strictly(b, x if dtype.is_float else bool(x), dtype)
    if isinstance(x, float) and not math.isfinite(x):
        raise KernelValueError(f"{x} is no integer")
    return strictly(b, int(x), dtype)


MEANINGS |= {ast.MatMult: "matmul", ast.Pow: "pow", pow: "pow", abs: "abs", divmod: "divmod", len: length, DType: typed}
MEANINGS |= {max: partial(extreme, "max"), min: partial(extreme, "min"), bool: partial(converted, "b", bool_)}
MEANINGS |= {int: partial(converted, "iu", int32), float: partial(converted, "f", float32)}


@function(host=lambda expression: expression)
def static_eval(b: Builder, expression: object) -> object:
    """What Python itself gives for ``expression`` when the kernel is compiled.

    All of Python is there, such as comprehensions and functions of other modules; ``TileStaticEvalError`` is what it
    raises. Run-time values can be passed on, and asked for dtype and shape.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(out):
    ...     n = ct.static_eval(sum(i * i for i in range(4)))
    ...     ct.store(out, 0, n)
    >>> a = np.zeros(1, np.int32)
    >>> ct.launch(None, (1,), k, (a,))
    >>> int(a[0])
    14
    """
    return expression


@function(host=iterated)
def static_iter(b: Builder, iterable: object) -> tuple:
    """The elements of ``iterable``, which Python goes through when the kernel is compiled: a loop over them is
    unrolled, and ``tuple(f(x) for x in ct.static_iter(xs))`` is a tuple.

    At most 1000 elements, or ``TileStaticEvalError``. ``break``, ``continue`` and ``return`` work in the loop.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(out):
    ...     for i, x in ct.static_iter(enumerate((10, 20))):
    ...         ct.store(out, i, x)
    >>> a = np.zeros(2, np.int32)
    >>> ct.launch(None, (1,), k, (a,))
    >>> a.tolist()
    [10, 20]
    """
    return iterated(iterable)


@function(host=asserted)
def static_assert(b: Builder, condition: object, message: object = "") -> None:
    """Raises ``TileStaticAssertionError`` with ``message`` when the kernel is compiled, unless ``condition``, which
    Python computes then, holds.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x):
    ...     ct.static_assert(x.ndim == 2, f"a matrix is needed, not {x.ndim} dimensions")
    >>> try:
    ...     ct.launch(None, (1,), k, (np.zeros(3),))
    ... except ct.TileStaticAssertionError as error:
    ...     print(error.message)
    static_assert failed: a matrix is needed, not 1 dimensions
    """
    if run_time(condition):
        what = f"static_assert needs a condition that is known when the kernel is compiled, not {describe(condition)}"
        raise KernelTypeError(what, argument="condition")
    asserted(condition, message)


@function(host=lambda value: value)
def ensure_constant(b: Builder, value: object) -> object:
    """``value``, if it is known when the kernel is compiled; else ``TileTypeError``.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(out):
    ...     ct.store(out, 0, ct.ensure_constant(out.ndim + 1))
    >>> a = np.zeros(1, np.int32)
    >>> ct.launch(None, (1,), k, (a,))
    >>> int(a[0])
    2
    """
    if run_time(value):
        raise KernelTypeError(f"a compile-time value is needed, not {describe(value)}", argument="value")
    return value


class Function:
    """A function for kernels, made by `tile_function`."""

    def __init__(self, function: Callable, host: bool, tile: bool):
        update_wrapper(self, function)
        self.fn, self.host = function, host
        self.source: Source | None = helper(function, SPELLING) if tile else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.host:
            raise TinytonError(f"{self.fn.__name__} is for kernels: it is under @ct.function(host=False)")
        return self.fn(*args, **kwargs)

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        return self if owner is None else partial(self, owner)


def tile_function(function: Callable | None = None, /, *, host: bool = True, tile: bool = True) -> Any:
    """Marks a function that kernels call: ``@ct.function``. It needs no mark; this one says where it may be called.

    With ``host=False`` Python cannot call it, with ``tile=False`` kernels cannot.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.function
    ... def twice(x):
    ...     return x + x
    >>> @ct.kernel
    ... def k(x):
    ...     ct.store(x, 0, twice(ct.load(x, 0, 4)))
    >>> a = np.arange(4)
    >>> ct.launch(None, (1,), k, (a,))
    >>> a.tolist(), twice(21)
    ([0, 2, 4, 6], 42)
    """
    return partial(Function, host=host, tile=tile) if function is None else Function(function, host, tile)


NAMES["function"] = tile_function
