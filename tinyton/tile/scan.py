"""Running sums, products, and combinations by a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..ir import Builder
from ..ops import OPS
from ..ops.reduction import sum_type
from ..ops.scan import scanned
from ..ops.typing import Operand, cast_value
from .language import function, made
from .reduction import combiner, combining, numeric, tiles_of


def _running(
    how: str, b: Builder, x: Operand, axis: int, *, reverse: bool, rounding_mode: object, flush_to_zero: bool
) -> object:
    v = numeric(b, x)
    target = sum_type(v.type.dtype)
    working, combine = combiner(b, how, target, rounding_mode, flush_to_zero)
    (out,) = scanned(b, (cast_value(b, v, working),), axis, combine, reverse)
    return OPS["cast"].rule(b, out, target)


RUNNING = """Running {1}s along ``axis``, an int: element i combines those up to i, or from i on with ``reverse``.
Types, ``rounding_mode`` and ``flush_to_zero`` are as in the {1}.

>>> import numpy as np, tinyton.tile as ct
>>> @ct.kernel
... def k(x, out): ct.store(out, 0, ct.cum{0}(ct.load(x, 0, 4)))
>>> x, out = np.array([1, 2, 3, 4]), np.zeros(4, int)
>>> ct.launch(None, (1,), k, (x, out)); out.tolist()
{2}"""
OPTIONS = {"axis": 0, "reverse": False, "rounding_mode": None, "flush_to_zero": False}
for _how, _word, _result in (("sum", "sum", [1, 3, 6, 10]), ("prod", "product", [1, 2, 6, 24])):
    _doc = RUNNING.format(_how, _word, _result)
    function(strict=True)(made(f"cum{_how}", "x axis", partial(_running, _how), _doc, **OPTIONS))


@function(strict=True)
def scan(b: Builder, x: object, axis: int, func: Callable, identity: object, *, reverse: bool = False) -> object:
    """Running combinations along ``axis``, an int: element i combines those up to i, or from i on with ``reverse``, by
    ``func``. The function, ``identity``, tuples of tiles and errors are as in `reduce`.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.scan(ct.load(x, 0, 4), 0, ct.maximum, 0))
    >>> x, out = np.array([1, 3, 2, 4]), np.zeros(4, int)
    >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
    [1, 3, 3, 4]
    """
    tiles = tiles_of(b, x, identity)
    out = scanned(b, tiles, axis, combining(b, func, tiles), reverse)
    return out if isinstance(x, tuple) else out[0]
