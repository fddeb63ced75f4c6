"""Where a program is in the grid, and tiles made from nothing."""

from __future__ import annotations

from ..dtypes import int32
from ..errors import KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .typing import constant_int


def _axis(axis: object) -> int:
    k = constant_int(axis, "axis")
    if k not in (0, 1, 2):
        raise KernelValueError(f"the grid has axes 0, 1 and 2; there is no axis {k}")
    return k


@op(emit=lambda e, op: e.dialect.program_id[op.attrs["axis"]])
def program_id(b: Builder, axis: int = 0) -> Value:
    """Which program of the grid this is, along ``axis`` (0, 1 or 2): an int32 scalar from 0."""
    return b.add("program_id", (), Type(int32), axis=_axis(axis))


@op(emit=lambda e, op: e.dialect.num_programs[op.attrs["axis"]])
def num_programs(b: Builder, axis: int = 0) -> Value:
    """How many programs the grid has along ``axis``: an int32 scalar."""
    return b.add("num_programs", (), Type(int32), axis=_axis(axis))


@op(emit=lambda e, op: f"{op.attrs['start']} + thread" if op.attrs["start"] else "thread")
def arange(b: Builder, start: int, end: int) -> Value:
    """The int32 tile ``start, start+1, … end-1``, of any extent: that many threads. Both ends are compile-time ints."""
    first, last = constant_int(start, "start"), constant_int(end, "end")
    if last <= first:
        raise KernelValueError(f"arange({first}, {last}) is empty; end must be greater than start")
    return b.add("arange", (), Type(int32, (last - first,)), start=first)


@op(emit=lambda e, op: e.dialect.literal(op.attrs["value"], op.result.type.dtype), public=False)
def const(b: Builder) -> None:
    """A compile-time number."""


@op(emit=lambda e, op, x: x, kind="view", public=False)
def broadcast(b: Builder, x: Value) -> None:
    """A scalar seen as a tile: every thread has it."""
