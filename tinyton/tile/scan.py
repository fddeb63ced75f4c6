"""Running sums, products, and combinations by a function of the user's."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Builder, Value
from ..ops import OPS
from ..ops.reduction import sum_type
from ..ops.scan import scanned
from ..ops.typing import Operand, cast_value
from .language import function
from .reduction import combiner, combining, numeric, tiles_of


def _running(how: str, word: str, result: list[int]) -> Callable:
    def rule(
        b: Builder, x: Operand, axis: int = 0, *, reverse=False, rounding_mode=None, flush_to_zero: bool = False
    ) -> Value:
        """Running {1}s along ``axis``, an int: element i combines those up to i, or from i on with ``reverse``. Types,
        ``rounding_mode`` and ``flush_to_zero`` are as in the {1}.

        >>> import numpy as np, tinyton.tile as ct
        >>> @ct.kernel
        ... def k(x, out): ct.store(out, 0, ct.cum{0}(ct.load(x, 0, 4)))
        >>> x, out = np.array([1, 2, 3, 4]), np.zeros(4, int)
        >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
        {2}
        """
        v = numeric(b, x)
        target = sum_type(v.type.dtype)
        working, combine = combiner(b, how, target, rounding_mode, flush_to_zero)
        (out,) = scanned(b, (cast_value(b, v, working),), axis, combine, reverse)
        return OPS["cast"].rule(b, out, target)

    return function(f"cum{how}", strict=True, words=(how, word, result))(rule)


_running("sum", "sum", [1, 3, 6, 10])
_running("prod", "product", [1, 2, 6, 24])


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
