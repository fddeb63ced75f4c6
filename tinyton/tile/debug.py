"""What a kernel tells while it runs, in cuTile's words: `print`, `printf` and `assert_`. See `ops/debug.py`."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..dtypes import DType, bool_, uint32
from ..errors import KernelTypeError
from ..ir import Builder, Value
from ..ops import OPS, debug
from ..ops.typing import FString, Operand, Struct, describe, literal, number, run_time
from .language import MEANINGS, function

Write = Callable[[Any], str]  # the text of one element
SPECIFIER = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?:\.(?P<digits>\d*))?(?:hh|h|ll|l|j|z|t|L)?(?P<kind>.?)", re.DOTALL
)


@dataclass(frozen=True, eq=False)
class Text:
    """The text of one print of a program: literal parts, and tiles, with their shape and how to write an element."""

    parts: tuple[str | tuple[tuple[int, ...], Write], ...]

    def __call__(self, program: tuple, told: debug.Told) -> str:
        out, k = [], 0
        for part in self.parts:
            if not isinstance(part, str):
                shape, write = part
                values, k = told.get(k, {}), k + 1
                size = math.prod(shape)
                part = nested(shape, (write(values[e]) if e in values else "?" for e in range(size)))
            out.append(part)
        return "".join(out)

    def __str__(self) -> str:
        return repr("".join(part if isinstance(part, str) else "{}" for part in self.parts))


def nested(shape: tuple[int, ...], elements: Iterator[str]) -> str:
    """A tile as Python writes a list of lists."""
    if not shape:
        return next(elements)
    return f"[{', '.join(nested(shape[1:], elements) for _ in range(shape[0]))}]"


def tell(b: Builder, parts: list[str | tuple[Value, Write]]) -> None:
    form = Text(tuple(p if isinstance(p, str) else (p[0].type.shape, p[1]) for p in parts))
    values = [p[0] for p in parts if not isinstance(p, str)] or [literal(b, 0, uint32)]
    for k, v in enumerate(values):
        debug.record(b, form, v, first=k)


def written(b: Builder, x: object, spec: str = "") -> list[str | tuple[Value, Write]]:
    """The parts that a value of a print is made of."""
    if isinstance(x, FString):
        return [q for p in x.parts for q in ([p] if isinstance(p, str) else written(b, *p))]
    if isinstance(x, Value):
        v = number(b, x)
        kind, spec = (float, spec or "f") if v.type.dtype.is_float else (int, spec or "d")
        formatted(kind(), spec, v.type)
        return [(v, lambda e: format(kind(e), spec))]
    if not run_time(x):
        return [formatted(x, spec, type(x).__name__)]
    if isinstance(x, Struct) or spec:
        raise KernelTypeError(f"print writes tiles, numbers and texts, not {describe(x)}")
    assert isinstance(x, tuple)
    parts: list[str | tuple[Value, Write]] = ["("]
    for k, item in enumerate(x):
        parts += [", "] * bool(k) + ([repr(item)] if isinstance(item, str) else written(b, item))
    return [*parts, ",)" if len(x) == 1 else ")"]


def formatted(x: object, spec: str, what: object) -> str:
    try:
        return format(x, spec)  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise KernelTypeError(f"{spec!r} is not a format for {what}: {error}") from None


MEANINGS[print] = "print"


@function()
def print_(b: Builder, *args: object, sep: str | None = " ", end: str | None = "\n") -> None:
    r"""Prints when the launch is done: ``args`` with ``sep`` between them, then ``end``. Python's own ``print`` is the
    same in a kernel.

    A tile is written as nested lists, ints and bools as ``%d``, floats as ``%f``; an f-string may give the elements
    another format: ``print(f"{x:.2f} of {n}")``. What is known when the kernel is compiled (texts, dtypes, shapes,
    numbers) is written as Python does. Texts come in the order of programs (the first index runs fastest), and of the
    prints in a program. A launch keeps 32,768 elements; a ``?`` stands for one that was dropped. `TileTypeError` for an
    array, whose tiles can be printed, and for a format that does not fit.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def show(x):
    ...     tile = ct.load(x, 0, 2)
    ...     print(ct.bid(0), tile, tile.shape, sep=" | ")
    >>> ct.launch(None, (2,), show, (np.array([1, 0.5], np.float32),))
    0 | [1.000000, 0.500000] | (2,)
    1 | [1.000000, 0.500000] | (2,)
    """
    for name, text in (("sep", sep), ("end", end)):
        if not isinstance(text, str | None):
            raise KernelTypeError(f"{name} is a text, not {describe(text)}", argument=name)
    parts: list[str | tuple[Value, Write]] = []
    for k, x in enumerate(args):
        parts += [" " if sep is None else sep] * bool(k) + written(b, x)
    tell(b, [*parts, "\n" if end is None else end])


@function()
def printf(b: Builder, format: str, *args: Operand) -> None:  # noqa: A002
    r"""Prints ``format`` when the launch is done, as C's ``printf`` would: ``%[flags][width][.digits]`` and one of
    ``diuoxX`` for a tile of ints or bools, of ``eEfFgGaA`` for one of floats. ``%%`` is a ``%``. A tile is written as
    nested lists, each element in the format; there is no line break but what the text has. See `print` for the order.
    `TileTypeError` for another specifier, one of another kind than its tile, and too few or too many tiles.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def show(x):
    ...     tile = ct.load(x, 0, 2)
    ...     ct.printf("%5.2f and %#x\n", tile, 255)
    >>> ct.launch(None, (1,), show, (np.array([1, 0.5], np.float32),))
    [ 1.00,  0.50] and 0xff
    """
    if not isinstance(format, str):
        what = f'printf begins with a text, printf("%d", x), not with {describe(format)}'
        raise KernelTypeError(what, argument="format")
    parts: list[str | tuple[Value, Write]] = []
    left, at = list(args), 0
    for found in SPECIFIER.finditer(format):
        parts, at, kind = [*parts, format[at : found.start()]], found.end(), found["kind"]
        if found[0] == "%%":
            parts.append("%")
            continue
        if not kind or kind not in "diuoxXeEfFgGaA":
            known = "ints take one of %d %i %u %o %x %X, floats one of %e %f %g %a; a percent sign is %%"
            raise KernelTypeError(f"printf does not support the specifier {found[0]}: {known}")
        if not left:
            raise KernelTypeError(f"printf has not enough arguments: none of the {len(args)} is left for {found[0]}")
        v = number(b, left.pop(0))
        if v.type.dtype.is_float == (kind in "diuoxX"):
            instead = "%f" if v.type.dtype.is_float else "%d"
            raise KernelTypeError(f"{found[0]} does not write {v.type.dtype}; write {instead}, or convert with .astype")
        parts.append((v, c_writer(found, v.type.dtype)))
    if left:
        raise KernelTypeError(f"printf has too many arguments: {len(args)}, and {len(args) - len(left)} places")
    tell(b, [*parts, format[at:]])


def c_writer(found: re.Match, dtype: DType) -> Write:
    """How C writes an element: its own snprintf, which Python has, is asked."""
    kind, width, digits, snprintf = found["kind"], found["width"], found["digits"], ctypes.pythonapi.PyOS_snprintf
    snprintf.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p
    form, room = f"%{found['flags']}{width}", 400 + int(width or 0) + int(digits or 0)
    form += "" if digits is None else f".{digits}"
    unsigned, bits = kind in "uoxX", max(32, dtype.bits)

    def write(x: Any) -> str:
        if kind in "eEfFgGaA":
            word, value = kind, ctypes.c_double(abs(x) if math.isnan(x) else x)
        else:
            n = int(x) & (1 << bits) - 1 if unsigned else int(x)
            word, value = f"ll{kind if n < 1 << 63 or unsigned else 'u'}", ctypes.c_ulonglong(n)
        text = ctypes.create_string_buffer(room)
        snprintf(text, room, f"{form}{word}".encode(), value)
        return text.value.decode()

    return write


@function("assert_")
def assert_(b: Builder, cond: Operand, message: str | None = None) -> None:
    """Raises `DeviceAssertError` after the launch if an element of ``cond``, a bool tile or scalar, is false: with
    ``message``, and with the first program that failed, its first such element, and the line. That program stops there
    (on OpenCL only if it runs in one thread), the others run on. `TileTypeError` if ``cond`` is not of bools.

    >>> import numpy as np, tinyton as tt, tinyton.tile as ct
    >>> @ct.kernel
    ... def check(x):
    ...     ct.assert_(ct.load(x, 0, 4) < 3, "too large")
    >>> try: ct.launch(None, (1,), check, (np.arange(4),))
    ... except tt.DeviceAssertError as error: print(str(error).splitlines()[-1])
    ct.assert_ failed in pid (0, 0, 0) idx (3): too large
    """
    c = number(b, cond)
    if c.type.dtype is not bool_:
        raise KernelTypeError(f"the condition is of bools, such as x > 0, not {c.type}", argument="cond")
    if not isinstance(message, str | None):
        raise KernelTypeError(f"the message is a text, not {describe(message)}", argument="message")
    debug.check(b, OPS["eq"].rule(b, c, False), message or "", "ct.assert_")
