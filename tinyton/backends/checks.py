"""What the interpreter watches beside bounds: programs of one launch that get in each other's way, and reads of memory
that nobody has written.

Every access of a launch has a number. Memory that the kernel stores to has two shadows: for each element the number of
its last store and of its first load in this launch, 0 for none. Programs run one after another, so a number in a shadow
that is less than the running program's first is another program's, and one comparison a tile finds it.

    program 0   store x[0:4]    number 1        stores of x: 1 1 1 1 0 0 0 0
    program 1   load  x[3:7]    number 2        3 is a race: program 1 reads what program 0 has written

Two programs are in order where one does an atomic operation after its access and the other does one before its own, on
whatever address, as with a lock or a counter of those that are done; atomic operations themselves are no accesses. So
all that is reported is a race, and not every race is. The idea of a shadow for each element is from Savage et al.,
"Eraser" (SOSP 1997).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..dtypes import unpack
from ..errors import RaceError, UninitialisedError
from ..ir import Op

Program = tuple[int, int, int]


class Shadow:
    """The numbers of stores and loads, for all buffers that share one memory, in units of their smallest element."""

    def __init__(self, group: list[Any]):
        self.unit = min(b.dtype.itemsize for b in group)
        self.stores = np.zeros(max(b.offset + b.flat.nbytes for b in group) // self.unit + 1, np.uint32)
        self.loads: np.ndarray | None = None  # made when it is needed

    def cells(self, buffer: Any, at: np.ndarray) -> np.ndarray:
        """Which units the elements ``at`` lie in: (elements,), or (elements, units) if they have several."""
        size, start = buffer.dtype.itemsize // self.unit, buffer.offset // self.unit
        if size == 1:
            return at + start if start else at
        return (at * size + start)[:, None] + np.arange(size)


class Checks:
    """The checks of one launch. ``stored`` names the parameters that the kernel stores to; ``strict`` reports programs
    that store to one element even if what they store is equal."""

    def __init__(self, buffers: list[Any], stored: Iterable[str], alone: bool = False, strict: bool = False):
        self.strict, self.program, self.start = strict, (0, 0, 0), 1
        self.log: list[tuple[Program, Op | None]] = [((0, 0, 0), None)]
        self.atomics: list[int] = []
        self.shadows: dict[Any, Shadow] = {}
        groups: dict[int, list[Any]] = {}
        for b in buffers:
            groups.setdefault(id(b.memory), []).append(b)
        for group in groups.values():
            if not alone and any(b.param in stored for b in group):
                self.shadows |= dict.fromkeys(group, Shadow(group))

    def each(self, programs: Iterable[Program]) -> Iterator[Program]:
        """The programs, as they run."""
        for self.program in programs:
            self.start = len(self.log)
            yield self.program

    def _number(self, op: Op) -> int:
        self.log.append((self.program, op))
        return len(self.log) - 1

    def atomic(self, op: Op, buffer: Any, at: np.ndarray) -> None:
        self.atomics.append(self._number(op))
        self._initialised(op, buffer, at)

    def load(self, op: Op, buffer: Any, at: np.ndarray) -> None:
        """The running program loads the elements ``at`` (of one dimension)."""
        self._initialised(op, buffer, at)
        if shadow := self.shadows.get(buffer):
            number, cells = self._number(op), shadow.cells(buffer, at)
            self._alone(shadow.stores[cells], buffer, at, op, "reads", "writes")
            if shadow.loads is None:
                shadow.loads = np.zeros_like(shadow.stores)
            first = shadow.loads[cells]
            shadow.loads[cells] = np.where(first, first, number)

    def store(self, op: Op, buffer: Any, at: np.ndarray, new: np.ndarray) -> None:
        """The running program stores ``new`` to the elements ``at``; this is where it happens."""
        if shadow := self.shadows.get(buffer):
            number, cells = self._number(op), shadow.cells(buffer, at)
            before = self._others(shadow.stores[cells])
            if before is not None and not self.strict:
                before *= (_bits(buffer.flat[at]) != _bits(new)).reshape(-1, *(1,) * (before.ndim - 1))
            if before is not None and before.any():
                self._differ(before, buffer, at, new, op)
            if shadow.loads is not None:
                self._alone(shadow.loads[cells], buffer, at, op, "writes", "reads")
            shadow.stores[cells] = number
        buffer.flat[at] = new
        if (lost := _bits(buffer.flat[at]) != _bits(new)).any():
            k = int(np.argmax(lost))
            what = f"stores different values to element {buffer.element(at[k])} of {buffer.name} at once"
            both = f"{_value(buffer, new[k])} and {_value(buffer, buffer.flat[at[k]])}; on a GPU either may stay"
            instead = "Give each lane an element of its own, or use an atomic operation"
            raise RaceError(f"program {self.program} {what}: {both}. {instead}", op.loc)
        if buffer.written is not None:
            buffer.written[at] = buffer.full

    def _others(self, numbers: np.ndarray) -> np.ndarray | None:
        """The numbers that are of other programs which are not in order with the running one, and 0; None if none."""
        if not numbers.any() or numbers.min() >= self.start:
            return None
        wrong = numbers - np.uint32(1) < self.start - 1  # 0 wraps around to the greatest
        if wrong.any() and self.atomics and self.atomics[-1] >= self.start:
            after = np.searchsorted(self.atomics, numbers)  # the next atomic operation: by the same program?
            owner = np.array([self.log[n][0] for n in self.atomics])
            mine = np.array([self.log[n][0] for n in numbers.flat]).reshape(*numbers.shape, 3)
            wrong &= (owner.take(after, 0, mode="clip") != mine).any(-1)  # past the last: its own, not wrong
        return np.where(wrong, numbers, np.uint32(0)) if wrong.any() else None

    def _alone(self, numbers: np.ndarray, buffer: Any, at: np.ndarray, op: Op, verb: str, other: str) -> None:
        before = self._others(numbers)
        if before is not None:
            k = np.unravel_index(int(np.argmax(before > 0)), before.shape)
            program, earlier = self.log[before[k]]
            what = f"program {self.program} {verb} element {buffer.element(at[k[0]])} of {buffer.name}"
            why = f"which program {program} {other} in line {_line(earlier)}; on a GPU either may come first"
            instead = "Write to another array, or do the second part in another launch"
            raise RaceError(f"{what}, {why}. {instead}", op.loc)

    def _differ(self, before: np.ndarray, buffer: Any, at: np.ndarray, new: np.ndarray, op: Op) -> None:
        k = np.unravel_index(int(np.argmax(before > 0)), before.shape)
        program, earlier = self.log[before[k]]
        was, now = buffer.flat[at[k[0]]], new[k[0]]
        kind = "to" if _bits(was) == _bits(now) else "different values to"
        what = f"programs {program} and {self.program} store {kind} element {buffer.element(at[k[0]])} of {buffer.name}"
        both = f"{_value(buffer, was)} in line {_line(earlier)}, then {_value(buffer, now)} in line {_line(op)}"
        instead = "Give each program elements of its own, or use an atomic operation"
        raise RaceError(f"{what}: {both}; on a GPU either may stay. {instead}", op.loc)

    def _initialised(self, op: Op, buffer: Any, at: np.ndarray) -> None:
        if buffer.written is not None and (never := buffer.written[at] != buffer.full).any():
            k = buffer.element(at[int(np.argmax(never))])
            what = f"program {self.program} reads element {k} of {buffer.name}, which nothing has written"
            instead = "Store to it first, or make the array with tt.zeros"
            raise UninitialisedError(f"{what}: new memory holds anything. {instead}", op.loc)


def _bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def _value(buffer: Any, x: np.ndarray) -> object:
    return unpack(np.asarray(x), buffer.dtype).item()


def _line(op: Op | None) -> object:
    return op.loc.line if op and op.loc else "?"
