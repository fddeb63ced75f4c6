"""``tt.viz``: which thread holds what, which thread touches what, in memory and in the banks of shared memory; and,
from its neighbours, plots of sweeps, occupancy, and timelines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from .backends.interpreter import programs
from .banks import banks as banks
from .compiled import Variant
from .count import sectors
from .errors import TinytonError
from .jit import JITFunction
from .layout import Layout
from .machine import occupancy as occupancy
from .picture import COLOURS as COLOURS
from .picture import GREY, Picture, cells, columns
from .picture import plot as plot
from .picture import style as style
from .replay import Access, coordinates, replay
from .timeline import timeline as timeline

ROWS, COLUMNS = 16, 32  # of a tile or of memory, as much as is readable
PROGRAMS = 64


def layout(what: Layout | Variant, tile: str | None = None) -> Picture:
    """Which thread holds which element of a tile, and in which register. The colour is the warp (the thread, if there
    is one warp only), a cell says thread and register. Where several threads hold an element, the first is shown.

    ``what`` is a layout, or a compiled kernel; then ``tile`` is the name of a variable in it, by default its first
    load. A tile of one dimension is shown in rows of 32, of a big one the first corner.

    >>> import tinyton as tt
    >>> from tinyton.layout import blocked
    >>> tt.viz.layout(blocked((4, 8), threads=8, vector=2))
    4 x 8 elements, 8 threads with 4 registers each (thread.register)
    0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.1
    4.0 4.1 5.0 5.1 6.0 6.1 7.0 7.1
    0.2 0.3 1.2 1.3 2.2 2.3 3.2 3.3
    4.2 4.3 5.2 5.3 6.2 6.3 7.2 7.3
    """
    name = ""
    if isinstance(what, Variant):
        name, what = _tile(what, tile)
    thread, register = _holders(what)
    title = f"{' x '.join(map(str, what.shape))} elements, {what.threads} thread{'s' * (what.threads > 1)} "
    title = f"{name}{': ' * bool(name)}{title}with {what.registers} register{'s' * (what.registers > 1)} each"
    if thread.shape[0] > ROWS or thread.shape[1] > COLUMNS:
        thread, register = thread[:ROWS, :COLUMNS], register[:ROWS, :COLUMNS]
        title += f"; the first {thread.shape[0]} x {thread.shape[1]}"
    pairs = [list(zip(*row, strict=True)) for row in zip(thread, register, strict=True)]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        hue, shade = (thread // 32, thread % 32 / 32) if what.threads > 32 else (thread, np.zeros(thread.shape))
        cells(axes, hue, shade, [[f"{t}\nr{r}" for t, r in row] for row in pairs])
        axes.set_title(title)

    rows = columns([[f"{t}.{r}" for t, r in row] for row in pairs])
    start = ", ".join(f"thread {t} register {r}" for t, r in pairs[0][:8])
    alt = f"The layout of a tile, {title}. Its first row begins: {start}."
    return Picture("\n".join([f"{title} (thread.register)", *rows]), alt, draw, _size(thread.shape))


def _tile(compiled: Variant, tile: str | None) -> tuple[str, Layout]:
    """The name and the layout of a tile of a kernel."""
    known = compiled.low.plan.layouts
    made = [(op, v) for op in compiled.ir.ops() for v in op.results if v in known]
    layouts = {v.name or op.name: known[v] for op, v in reversed(made)}
    if tile is None:
        tile = next((v.name or "load" for op, v in made if op.name == "load"), next(iter(layouts), None))
    if tile not in layouts:
        kept = ", ".join(layouts) or "none"
        raise TinytonError(f"{compiled.name} keeps no tile {tile!r} in registers; it keeps {kept}")
    return tile, layouts[tile]


def _holders(of: Layout) -> tuple[np.ndarray, np.ndarray]:
    """For each element, as a table: the first thread that holds it, and its register there."""
    at = coordinates(of).reshape(-1, len(of.shape))
    place = np.ravel_multi_index(tuple(at.T), of.shape) if of.shape else np.zeros(len(at), int)
    _, first = np.unique(place, return_index=True)
    columns = of.shape[-1] if len(of.shape) > 1 else min(COLUMNS, int(np.prod(of.shape)))
    return tuple(x.reshape(-1, columns) for x in np.divmod(first, of.registers))  # type: ignore[return-value]


def access(kernel: JITFunction, grid: Any, *args: object, array: str | None = None, **meta: Any) -> Picture:
    """Which program and which thread touches which element of an array, and how one warp's first access falls on the
    sectors of 32 bytes that memory moves.

    Arguments as in ``kernel[grid](*args, **meta)``; nothing is launched. ``array`` is the name of a parameter, by
    default the first that the kernel reads or writes. The memory is shown in rows of 128 bytes from the first element
    that is touched on, as the threads of a GPU touch it. Only the first 64 programs are looked at.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def double(x, n, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(x + i, 2 * tt.load(x + i, mask=i < n), mask=i < n)
    >>> tt.viz.access(double, 2, np.zeros(12, np.float32), 12, BLOCK=8, num_threads=4)
    x: elements of 4 bytes, touched by 2 programs (program.thread; a row is a sector of 32 bytes)
           0  0.0 0.0 0.1 0.1 0.2 0.2 0.3 0.3
           8  1.0 1.0 1.1 1.1   .   .   .   .
    load, first access of a warp: 4 lanes ask for 32 bytes and touch 1 sector of 32
    """
    seen: list[Access] = []

    def see(one: Access) -> None:
        if one.on.any() and one.array == (array or (seen[0].array if seen else one.array)):
            seen.append(one)

    def first(extent: tuple[int, int, int], several: int) -> Iterator[tuple[int, int, int]]:
        return islice((p for p in programs(extent) if p[0] % several == 0), PROGRAMS // several)

    low, extent = replay(kernel, grid, args, meta, see, first)
    if not seen:
        raise TinytonError(f"{kernel.source.name} touches no element of {array or 'any array'}")
    chosen = [one for one in seen if one.verb == seen[0].verb]
    size, row = chosen[0].dtype.itemsize, 128 // chosen[0].dtype.itemsize
    start = min(int(one.places[one.on].min()) for one in chosen) // row * row
    program, thread = (np.full(ROWS * row, -1) for _ in range(2))
    touching = set()
    for one in reversed(chosen):  # where several touch an element, the first is shown
        lanes = np.broadcast_to(np.arange(len(one.on))[:, None, None], one.on.shape)[one.on][::-1]
        x, y, z = one.program
        numbers = x + extent[0] * (y + extent[1] * z) + lanes // low.threads
        touching.update(numbers.tolist())
        places = one.places[one.on][::-1] - start
        near = places < len(program)
        program[places[near]], thread[places[near]] = numbers[near], lanes[near] % low.threads
    used = int(np.flatnonzero(thread >= 0)[-1]) // row + 1
    program, thread = (x.reshape(-1, row)[:used] for x in (program, thread))
    places, on = _first_instruction(chosen[0])
    touched = sectors(places[None] * size, on[None])
    warp = (
        f"{chosen[0].verb}, first access of a warp: {on.any(-1).sum()} lanes ask for {on.sum() * size} bytes "
        f"and touch {touched} sector{'s' * (touched > 1)} of 32"
    )
    count = len(touching)
    title = f"{seen[0].array}: elements of {size} bytes, touched by {count} program{'s' * (count > 1)}"

    def draw(figure: Any) -> None:
        memory, lanes = figure.subplots(2, height_ratios=(used * 0.32 + 0.2, 1.8))
        labels = [["" if t < 0 else f"{t}" for t in line] for line in thread]
        cells(memory, program, np.where(thread < 0, 0, thread % 32 / 32), labels)
        for x in range(0, row + 1, 32 // size):
            memory.axvline(x - 0.5, color=GREY, linewidth=1.5)
        memory.set_yticks(range(used), [f"{start + k * row}" for k in range(used)])
        memory.set_title(f"{title} (colour: program, number: thread)")
        lane = np.broadcast_to(np.arange(len(on))[:, None], on.shape)
        lanes.plot(places[on], lane[on], "s", markersize=3)
        lanes.yaxis.get_major_locator().set_params(integer=True)
        low, high = int(places[on].min()) * size // 32, int(places[on].max()) * size // 32 + 1
        if high - low <= 64:
            edges = [k * 32 // size for k in range(low, high + 1)]
            lanes.set_xticks([e - 0.5 for e in edges], [str(e) for e in edges])
            lanes.tick_params(axis="x", labelrotation=60, labelsize=7)
        lanes.set(xlabel="element; a line is the edge of a sector", ylabel="lane")
        lanes.set_title(warp)

    span = 32 // size
    pairs = [f"{p}.{t}" if t >= 0 else "." for p, t in zip(program.flat, thread.flat, strict=True)]
    rows = [pairs[k : k + span] for k in range(0, int(np.flatnonzero(thread.ravel() >= 0)[-1]) + 1, span)]
    table = [f"{start + k * span:>8}  {line}" for k, line in enumerate(columns(rows))][: 2 * ROWS]
    text = "\n".join([f"{title} (program.thread; a row is a sector of 32 bytes)", *table, warp])
    return Picture(text, f"{title}. {warp}.", draw, (7.0, 3.2 + 0.3 * used))


def _first_instruction(one: Access) -> tuple[np.ndarray, np.ndarray]:
    """Places and lanes of the first access that a warp executes: both of shape (lanes, elements)."""
    for places, on in one.warps():
        for warp, instruction in np.argwhere(on.any((-2, -1)))[:1]:
            return places[warp, instruction], on[warp, instruction]
    raise AssertionError("an access without lanes")


def _size(shape: tuple[int, ...]) -> tuple[float, float]:
    return 7.0, 0.5 + shape[0] * min(0.4, 7.0 / shape[1] + 0.1)
