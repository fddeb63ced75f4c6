"""``tt.viz.banks``: how a warp's access to shared memory falls on the banks, of which each serves one row at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .count import BANKS, WORD, bank_passes
from .errors import TinytonError
from .jit import JITFunction
from .picture import Picture, cells, columns
from .replay import Access, replay

ROWS = 16  # as much as is readable


@dataclass(frozen=True)
class Request:
    """One access of one warp: the bytes that each of its ``lanes`` wants, and how many passes that takes."""

    one: Access
    addresses: np.ndarray
    lanes: np.ndarray
    passes: int

    def __str__(self) -> str:
        size, wanted = self.one.dtype.itemsize, len(np.unique(self.addresses))
        used = len(np.unique(self.addresses // WORD % BANKS))
        return (
            f"{_place(self.one)}: {len(self.lanes)} lanes ask for {wanted} elements of {size} bytes in {used} "
            f"bank{'s' * (used > 1)}: {self.passes} pass{'es' * (self.passes > 1)}"
        )


def banks(kernel: JITFunction, grid: Any, *args: object, **meta: Any) -> Picture:
    """How one warp's access to shared memory falls on the 32 banks, each four bytes wide: of all accesses of the first
    program, the one that takes the most passes. Lanes that want different rows of a bank are served one after the
    other. A cell has the lanes that want it; its colour says in which pass they are served.

    Arguments as in ``kernel[grid](*args, **meta)``; nothing is launched. The text counts all accesses of the program:
    by ``shared_store`` and ``shared_load``, and where a tile changes its layout. `TinytonError` if there are none.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def turn(x, N: tt.constexpr):
    ...     i = tt.arange(0, N)
    ...     tt.shared_store(i, tt.load(x + i))
    ...     tt.store(x + i, tt.shared_load(i * 16 % N))
    >>> for line in str(tt.viz.banks(turn, 1, np.zeros(128, np.float32), N=128, num_warps=4)).splitlines():
    ...     if "." not in line: print(line)
    load, line 5: 32 lanes ask for 8 elements of 4 bytes in 2 banks: 4 passes
    store, line 4: 4 warp accesses, 0 bank conflicts
    load, line 5: 4 warp accesses, 12 bank conflicts
    """
    seen: list[Access] = []
    replay(kernel, grid, args, meta, lambda one: seen.append(one) if one.shared else None, lambda *_: [(0, 0, 0)])
    if not seen:
        raise TinytonError(
            f"{kernel.source.name} does not use shared memory here: no tile goes through it to another layout, and "
            "there is no shared_store"
        )
    worst = max((request for one in seen for request in _requests(one)), key=lambda r: r.passes)
    rows = np.unique(worst.addresses // WORD // BANKS)[:ROWS].tolist()
    turn, labels = np.full((len(rows), BANKS), -1), [[""] * BANKS for _ in rows]
    for word in np.unique(worst.addresses // WORD).tolist():
        row, bank = divmod(word, BANKS)
        here = worst.lanes[worst.addresses // WORD == word].tolist()
        if row in rows:
            turn[rows.index(row), bank] = (turn[:, bank] >= 0).sum()
            labels[rows.index(row)][bank] = "\n".join(map(str, here[:2])) + "…" * (len(here) > 2)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        cells(axes, turn, np.zeros(turn.shape), labels)
        axes.set_xticks(range(0, BANKS, 4), [str(k) for k in range(0, BANKS, 4)])
        axes.set_yticks(range(len(rows)), [str(row) for row in rows])
        axes.set(xlabel="bank (number: lane, colour: pass)", ylabel="row of 128 bytes")
        axes.set_title(str(worst))

    words = columns([[text.replace("\n", ",") or "." for text in row] for row in labels])
    table = [f"{row:>6}  {line}" for row, line in zip(rows, words, strict=True)]
    counted: dict[str, np.ndarray] = {}
    for one in seen:
        size = one.dtype.itemsize
        met = np.sum([bank_passes(places * size, on, size) for places, on in one.warps()], axis=0)
        counted[_place(one)] = counted.get(_place(one), 0) + met
    told = [f"{place}: {n:,} warp accesses, {conflicts:,} bank conflicts" for place, (n, conflicts) in counted.items()]
    alt = f"The banks of shared memory. {worst}. {'; '.join(told)}."
    return Picture("\n".join([str(worst), *table, *told]), alt, draw, (7.0, 1.2 + 0.34 * len(rows)))


def _place(one: Access) -> str:
    return f"{one.verb}, line {one.op.loc.line}" if one.op.loc else one.verb


def _requests(one: Access) -> list[Request]:
    found, size = [], one.dtype.itemsize
    for places, on in one.warps():
        for warp, instruction in np.argwhere(on.any((-2, -1))):
            at, lit = places[warp, instruction] * size, on[warp, instruction]
            lanes = np.broadcast_to(np.arange(len(lit))[:, None], lit.shape)[lit]
            halves = max(1, -(-len(lanes) * size // (BANKS * WORD)))
            found.append(Request(one, at[lit], lanes, halves + bank_passes(at[None], lit[None], size)[1]))
    return found
