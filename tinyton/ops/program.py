"""Where a program is in the grid, and tiles of indices."""

from __future__ import annotations

import numpy as np

from ..dtypes import int32
from ..errors import KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .typing import constant_int


def _axis(axis: object) -> int:
    k = constant_int(axis, "axis")
    if k not in (0, 1, 2):
        raise KernelValueError(f"the grid has axes 0, 1 and 2; there is no axis {k}", argument="axis")
    return k


@op(
    numpy=lambda run, op: np.int32(run.program[op.attrs["axis"]]),
    emit=lambda e, op: e.program_id(op.attrs["axis"]),
    kind="index",
    cheap=True,
)
def program_id(b: Builder, axis: int = 0) -> Value:
    """Which program of the grid this is, along ``axis`` (0, 1 or 2): an int32 scalar from 0.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def who(out): tt.store(out + tt.program_id(0), tt.program_id(0))
    >>> x = np.zeros(3, np.int32); who[3](x); x.tolist()
    [0, 1, 2]
    """
    return b.add("program_id", (), Type(int32), axis=_axis(axis))


@op(
    numpy=lambda run, op: np.int32(run.grid[op.attrs["axis"]]),
    emit=lambda e, op: e.num_programs(op.attrs["axis"]),
    kind="index",
    cheap=True,
)
def num_programs(b: Builder, axis: int = 0) -> Value:
    """How many programs the grid has along ``axis``: an int32 scalar.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out): tt.store(out + tt.program_id(0), tt.num_programs(0))
    >>> out = np.zeros(3, int); k[3](out); out.tolist()
    [3, 3, 3]
    """
    return b.add("num_programs", (), Type(int32), axis=_axis(axis))


# >>> stage 9
@op(numpy=None, emit=lambda e, op: e.dialect.program_id[0], kind="index", cheap=True, public=False)
def block(b: Builder) -> None:
    """Which block of threads this is, of those that run one program after another."""


@op(numpy=None, emit=lambda e, op: e.dialect.num_programs[0], kind="index", cheap=True, public=False)
def blocks(b: Builder) -> None:
    """How many those are."""


# <<<
def _arange(run, op):
    return np.arange(op.attrs["start"], op.attrs["start"] + op.result.type.shape[0], dtype=np.int32)


@op(
    numpy=_arange,
    emit=lambda e, op, i: f"{op.attrs['start']} + {i}" if op.attrs["start"] else i,
    kind="index",
    cheap=True,
)
def arange(b: Builder, start: int, end: int) -> Value:
    """The int32 tile ``start, start+1, … end-1``. Both ends are compile-time ints.

    Any extent is allowed. One that is not a power of two is padded to the next: the lanes beyond ``end`` are off,
    they are neither loaded nor stored and reductions skip them.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out): tt.store(out + tt.arange(0, 3), tt.arange(5, 8))
    >>> out = np.zeros(3, int); k[1](out); out.tolist()
    [5, 6, 7]
    """
    first, last = constant_int(start, "start"), constant_int(end, "end")
    if last <= first:
        raise KernelValueError(f"arange({first}, {last}) is empty; end must be greater than start", argument="end")
    if not int32.range[0] <= first <= last - 1 <= int32.range[1]:
        raise KernelValueError(f"arange({first}, {last}) does not fit int32", argument="end")
    return b.add("arange", (), Type(int32, (last - first,)), start=first)


@op(
    numpy=lambda run, op: op.result.type.dtype.register.numpy.type(op.attrs["value"]),
    emit=lambda e, op: "0" if op.result.type.pointer else e.dialect.literal(op.attrs["value"], op.result.type.dtype),
    kind="index",
    cheap=True,
    public=False,
)
def const(b: Builder) -> None:
    """A compile-time number."""
