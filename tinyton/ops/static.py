"""What is decided while the kernel is compiled."""

from __future__ import annotations

from ..errors import KernelSyntaxError, KernelTypeError, StaticAssertionError
from ..ir import Builder, Value
from . import op
from .typing import describe, run_time


def asserted(condition: object, message: object = "") -> None:
    if not condition:
        raise StaticAssertionError(f"static_assert failed{f': {message}' if message else ''}", argument="condition")


@op(numpy=None, emit=None, kind="macro")
def static_assert(b: Builder, condition: object, message: object = "") -> None:
    """Refuses to compile the kernel, with ``message``, unless the compile-time ``condition`` holds.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, BLOCK: tt.constexpr):
    ...     tt.static_assert(BLOCK % 32 == 0, "whole warps")
    ...     tt.store(out, BLOCK)
    >>> out = np.zeros(1, int); k[1](out, 64); out.tolist()
    [64]
    """
    if isinstance(condition, Value):
        what = f"static_assert needs a compile-time condition; this one is a run-time value ({describe(condition)})"
        raise KernelTypeError(what, argument="condition")
    asserted(condition, message)


@op(numpy=None, emit=None, kind="macro")
def static_print(b: Builder, *values: object, sep: str = " ", end: str = "\n") -> None:
    """Prints compile-time values, and the types of run-time ones, while the kernel is compiled.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, BLOCK: tt.constexpr):
    ...     tt.static_print("BLOCK is", BLOCK, "and x", x)
    ...     tt.store(x, BLOCK)
    >>> x = np.zeros(1, np.int32); k[1](x, 64); x.tolist()
    BLOCK is 64 and x *i32
    [64]
    """
    b.notes.append(sep.join(describe(v) if run_time(v) else str(v) for v in values) + end)


@op(numpy=None, emit=None, kind="macro")
def range_(b: Builder, start: int, stop: int | None = None, step: int = 1, **hints: object) -> None:
    """``for k in tt.range(n, num_stages=2)``: a loop as over Python's ``range``. From ``num_stages=2`` on, what a round
    loads may be loaded during the round before it, ahead of what that stores, so that memory answers while the program
    works: a round must not load what the one before it stores. That is for loads in the loop's own body, at addresses
    that follow from the number of the round, if there is no way out of the loop and nothing in it but loads, stores and
    arithmetic; each thread keeps up to 128 bytes of them.

    On sm_90, ``warp_specialize=True`` has a warp more, beside those that multiply, copy what they multiply, if all of
    that are boxes of arrays whose places are multiples of 16 bytes, and 0 is what is outside; ``False`` forbids it.
    ``compiled.explain()`` tells what has become of it. The hints ``loop_unroll_factor``, ``disallow_acc_multi_buffer``,
    ``flatten`` and ``disable_licm`` have no effect yet. All are compile-time values.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, n):
    ...     total = 0
    ...     for j in tt.range(n, num_stages=2): total += tt.load(out + j)
    ...     tt.store(out, total)
    >>> out = np.arange(5); k[1](out, 5); out.tolist()
    [10, 1, 2, 3, 4]
    """
    raise KernelSyntaxError("range is for the head of a for loop: for k in tt.range(n):")


@op(numpy=None, emit=None, kind="macro")
def static_range(b: Builder, start: int, stop: int | None = None, step: int = 1) -> None:
    """``for k in tt.static_range(n)``: the loop is unrolled while compiling, ``k`` is a constant in each copy.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, N: tt.constexpr):
    ...     for j in tt.static_range(N): tt.store(out + j, j * j)
    >>> out = np.zeros(4, int); k[1](out, 4); out.tolist()
    [0, 1, 4, 9]
    """
    raise KernelSyntaxError("static_range is for the head of a for loop: for k in tt.static_range(n):")
