"""Random numbers without a state: a number is a function of a seed and of its place, so that a program can make its
own ones, and make them again.

Philox-4x32 (Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, 2011): four 32-bit words,
the counter, go through rounds of multiplications keyed by the seed. With ten rounds it passes the known tests."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import float32, int32, int64, uint32, uint64
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from . import op
from .arithmetic import add, bitcast_, invert, lt, maximum, mul, shr, where, xor
from .functions import cos, sin, umulhi
from .math import log, sqrt
from .typing import Operand, cast_value, constant_int, number, same_shape, same_type

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85  # the golden ratio, and sqrt(3) - 1
ROUNDS = 10


def _words(b: Builder, x: Operand, what: str) -> tuple[Value, Value]:
    """The lower and the upper 32 bits of an integer."""
    v = number(b, x)
    if not v.type.dtype.is_int:
        raise KernelTypeError(f"{what} is an integer, not {v.type}", argument=what)
    wide = cast_value(b, v, uint64 if v.type.dtype.kind == "u" else int64)
    return cast_value(b, wide, uint32), cast_value(b, shr(b, wide, 32), uint32)


def _low(e, op, x, y):
    return f"(unsigned int){e.use('wide_product')}({x}, {y})" if e.dialect.name == "cuda" else f"{x} * {y}"


@op(numpy=np.multiply, emit=_low, exact=True, public=False)
def umullo(b: Builder, x: Operand, y: Operand) -> Value:
    """The lower half of a product of two uint32: with `umulhi` of the same two, one instruction of a GPU gives both."""
    x, y = same_type(b, x, y)
    return b.add("umullo", (x, y), x.type)


@op(numpy=None, emit=None, kind="macro")
def philox(
    b: Builder, seed: Operand, c0: Operand, c1: Operand, c2: Operand, c3: Operand, n_rounds: int = ROUNDS
) -> tuple[Value, ...]:
    """Four uint32 tiles: the counter ``c0 … c3`` (their lower 32 bits) after ``n_rounds`` of Philox under a 64-bit
    ``seed``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     a, b, c, d = tt.philox(42, tt.arange(0, 2), 0, 0, 0)
    ...     tt.store(out + tt.arange(0, 2), a)
    >>> out = np.zeros(2, np.uint32); k[1](out); out.tolist()
    [2632642643, 4242219303]
    """
    rounds = constant_int(n_rounds, "n_rounds")
    if rounds < 1:
        raise KernelValueError(f"n_rounds is at least 1, not {rounds}", argument="n_rounds")
    (k0, k1), names = _words(b, seed, "seed"), ("c0", "c1", "c2", "c3")
    words = (_words(b, c, name)[0] for c, name in zip((c0, c1, c2, c3), names, strict=True))
    x0, x1, x2, x3, k0, k1 = same_shape(b, *words, k0, k1)
    for _ in range(rounds):
        high0, low0 = umulhi(b, x0, MULTIPLIERS[0]), umullo(b, x0, MULTIPLIERS[0])
        high1, low1 = umulhi(b, x2, MULTIPLIERS[1]), umullo(b, x2, MULTIPLIERS[1])
        x0, x1, x2, x3 = xor(b, xor(b, high1, x1), k0), low1, xor(b, xor(b, high0, x3), k1), low0
        k0, k1 = add(b, k0, KEY_STEPS[0]), add(b, k1, KEY_STEPS[1])
    return x0, x1, x2, x3


@op(numpy=None, emit=None, kind="macro")
def randint4x(b: Builder, seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> tuple[Value, ...]:
    """Four tiles of int32, of the shape of ``offset``: all 32 bits are random.

    The same ``seed`` (an integer of up to 64 bits) and ``offset`` (a tile or a scalar of integers) give the same
    numbers on every executor.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, seed):
    ...     a, b, c, d = tt.randint4x(seed, tt.arange(0, 2))
    ...     tt.store(out + tt.arange(0, 2), b)
    >>> out = np.zeros(2, int); k[1](out, 42); out.tolist()
    [2012563771, 1404726525]
    """
    low, high = _words(b, offset, "offset")
    return tuple(bitcast_(b, word, int32) for word in philox(b, seed, low, high, 0, 0, n_rounds))


@op(numpy=None, emit=None, kind="macro")
def randint(b: Builder, seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Value:
    """Random int32 of the shape of ``offset``: the first of `randint4x`.

    ``randint(seed, offset) % n`` is from 0 to n - 1.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, seed):
    ...     i = tt.arange(0, 8)
    ...     tt.store(out + i, tt.randint(seed, i) % 6 + 1)
    >>> out = np.zeros(8, int); k[1](out, 42); out.tolist()
    [2, 6, 4, 2, 1, 6, 5, 4]
    """
    return randint4x(b, seed, offset, n_rounds)[0]


def _uniform(b: Builder, bits: Value) -> Value:
    """From [0, 1): the sign is folded away, and the scale is the float below 2**-31, so that 1 is never reached."""
    folded = where(b, lt(b, bits, 0), invert(b, bits), bits)
    return mul(b, cast_value(b, folded, float32), 2.0**-31 - 2.0**-55)


def _normal(b: Builder, bits: tuple[Value, Value]) -> tuple[Value, Value]:
    """Two independent normal numbers (Box and Muller, 1958)."""
    u, v = (_uniform(b, x) for x in bits)
    radius = sqrt(b, mul(b, log(b, maximum(b, u, 1e-7)), -2.0))
    angle = mul(b, v, 2 * math.pi)
    return mul(b, radius, cos(b, angle)), mul(b, radius, sin(b, angle))


@op(numpy=None, emit=None, kind="macro")
def rand4x(b: Builder, seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> tuple[Value, ...]:
    """Four tiles of float32, uniform in [0, 1), of the shape of ``offset``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, seed):
    ...     i = tt.arange(0, 256)
    ...     a, b, c, d = tt.rand4x(seed, i)
    ...     tt.store(out + i, (a + b + c + d) / 4)
    >>> out = np.zeros(256); k[1](out, 42); bool(abs(out.mean() - 0.5) < 0.05)
    True
    """
    return tuple(_uniform(b, bits) for bits in randint4x(b, seed, offset, n_rounds))


@op(numpy=None, emit=None, kind="macro")
def rand(b: Builder, seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Value:
    """Random float32, uniform in [0, 1), of the shape of ``offset``; the same on every executor.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def dropout(x, n, p, seed, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     kept = tt.rand(seed, i) > p
    ...     tt.store(x + i, tt.where(kept, tt.load(x + i, mask=i < n) / (1 - p), 0.0), mask=i < n)
    >>> x = np.ones(1000, np.float32)
    >>> dropout[4](x, 1000, 0.5, 42, BLOCK=256)
    >>> sorted(set(x.tolist())), bool(400 < (x > 0).sum() < 600)
    ([0.0, 2.0], True)
    """
    return _uniform(b, randint(b, seed, offset, n_rounds))


@op(numpy=None, emit=None, kind="macro")
def randn4x(b: Builder, seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> tuple[Value, ...]:
    """Four tiles of float32, normally distributed with mean 0 and variance 1, of the shape of ``offset``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, seed):
    ...     i = tt.arange(0, 256)
    ...     a, b, c, d = tt.randn4x(seed, i)
    ...     tt.store(out + i, (a + b + c + d) / 2)
    >>> out = np.zeros(256); k[1](out, 42); bool(abs(out.std() - 1) < 0.2)
    True
    """
    bits = randint4x(b, seed, offset, n_rounds)
    return *_normal(b, bits[:2]), *_normal(b, bits[2:])


@op(numpy=None, emit=None, kind="macro")
def randn(b: Builder, seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Value:
    """Random float32, normally distributed with mean 0 and variance 1, of the shape of ``offset``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out, seed):
    ...     i = tt.arange(0, 1024)
    ...     tt.store(out + i, tt.randn(seed, i))
    >>> out = np.zeros(1024)
    >>> k[1](out, 42); bool(abs(out.mean()) < 0.1 and abs(out.std() - 1) < 0.1)
    True
    """
    return _normal(b, randint4x(b, seed, offset, n_rounds)[:2])[0]
