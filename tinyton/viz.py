"""Pictures: which thread holds what, which thread touches what, and measured numbers against the machine's roofs.

Every picture has a text form, which is what a terminal prints and what readers get who do not see it. Pictures have no
background and grey labels: they read on a light page and on a dark one. Matplotlib is imported when one is drawn.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from .backends.interpreter import programs
from .compiled import CompiledKernel
from .count import sectors
from .errors import TinytonError
from .jit import JITFunction
from .layout import Layout
from .replay import Access, coordinates, replay
from .roofline import number

GREY = "#808080"  # readable on white and on black
COLOURS = ("#4C8BD0", "#E08E3C", "#57A773", "#C75D6A", "#8E6BBF", "#A9844F", "#3FA7A0", "#B3598F")


def style() -> dict[str, Any]:
    """Matplotlib settings of all pictures: no background, grey labels, a palette that the colour-blind can tell apart.

    ``matplotlib.rcParams.update(tt.viz.style())`` makes plots of your own look like them.
    """
    from cycler import cycler

    grey = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color", "text.color")
    clear = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    return {
        **dict.fromkeys(grey, GREY),
        **dict.fromkeys(clear, "none"),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.grid": True,
        "axes.titlesize": "medium",
        "figure.dpi": 110,
        "font.size": 10,
        "grid.alpha": 0.25,
        "grid.color": GREY,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "savefig.bbox": "tight",
    }


@dataclass(frozen=True)
class Picture:
    """Something to look at. In a notebook it shows itself; ``str()`` is its text form, ``save(path)`` writes a file in
    the format that the ending names."""

    text: str
    alt: str
    draw: Callable[[Any], None] = field(repr=False)
    size: tuple[float, float] = (7.0, 3.6)

    def figure(self) -> Any:
        """A new matplotlib figure of it."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(style()):
            figure = Figure(figsize=self.size, layout="constrained")
            self.draw(figure)
        return figure

    def png(self) -> bytes:
        out = io.BytesIO()
        self.save(out, format="png", dpi=110)
        return out.getvalue()

    def save(self, path: Any, **options: Any) -> None:
        import matplotlib

        with matplotlib.rc_context(style()):
            self.figure().savefig(path, **options)

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        picture = base64.b64encode(self.png()).decode()
        return {"image/png": picture, "text/plain": self.text}, {"image/png": {"alt": self.alt}}

    def __repr__(self) -> str:
        return self.text


def plot(table: Any, x: str | None = None, y: str | None = None, by: str | None = None) -> Picture:
    """A table of `tt.sweep` as lines: ``y`` (by default the last of GB/s, TFLOP/s, time_us that it has) over ``x`` (the
    first swept parameter), a line for each value of ``by`` (the second swept parameter, if there is one). The measured
    roof is a dashed line; the shade is from the 20th to the 80th percentile.

    >>> import pandas as pd
    >>> plot(pd.DataFrame({"n": [1, 2], "time_us": [3.0, 4.5], "spread": [0.1, 0.1]})).alt
    'time_us over n: from 3 to 4.5, best at n = 1'
    """
    over = list(table.attrs.get("over", table.columns[:1]))
    x = x or over[0]
    by = by or next((name for name in over if name != x and table[name].nunique() > 1), None)
    y = y or next(name for name in ("TFLOP/s", "GB/s", "time_us") if name in table)
    groups = [(f"{by} = {value}", part) for value, part in table.groupby(by, sort=False)] if by else [("", table)]
    roof = table.attrs.get("roofs", {}).get(y)
    numeric = all(isinstance(v, int | float | np.number) and v > 0 for v in table[x])

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for label, part in groups:
            at = part[x] if numeric else [str(v) for v in part[x]]
            axes.plot(at, part[y], marker="o", label=label or None)
            half = part["spread"] / 2 * part[y]
            axes.fill_between(at, part[y] - half, part[y] + half, alpha=0.2, linewidth=0)
        if roof:
            axes.axhline(roof, linestyle="--", color=GREY, linewidth=1.2)
            units = ("axes fraction", "data"), "offset points"
            axes.annotate(f"roof {number(roof)}", (0, roof), (4, 3), *units, color=GREY)
        if numeric:
            axes.set_xscale("log", base=2)
            axes.set_xticks(sorted(set(table[x])), [f"{v:,}" for v in sorted(set(table[x]))], rotation=30, ha="right")
            axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set(xlabel=x, ylabel={"time_us": "time, µs"}.get(y, y))
        axes.set_title(table.attrs.get("stamp", ""), fontsize=8, loc="right")
        if by:
            axes.legend()

    best = table[x][table[y].idxmin() if y == "time_us" else table[y].idxmax()]
    alt = f"{y} over {x}: from {table[y].min():,.4g} to {table[y].max():,.4g}, best at {x} = {best}"
    return Picture(table[[*over, y]].to_string(index=False), alt, draw)


ROWS, COLUMNS = 16, 32  # of a tile or of memory, as much as is readable
PROGRAMS = 64


def layout(what: Layout | CompiledKernel, tile: str | None = None) -> Picture:
    """Which thread holds which element of a tile, and in which register. The colour is the warp (the thread, if there
    is one warp only), a cell says thread and register. Where several threads hold an element, the first is shown.

    ``what`` is a layout, or a compiled kernel; then ``tile`` is the name of a variable in it, by default its first
    load. A tile of one dimension is shown in rows of 32, of a big one the first corner.

    >>> from tinyton.layout import blocked
    >>> layout(blocked((4, 8), threads=8, vector=2))
    4 x 8 elements, 8 threads with 4 registers each (thread.register)
    0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.1
    4.0 4.1 5.0 5.1 6.0 6.1 7.0 7.1
    0.2 0.3 1.2 1.3 2.2 2.3 3.2 3.3
    4.2 4.3 5.2 5.3 6.2 6.3 7.2 7.3
    """
    name = ""
    if isinstance(what, CompiledKernel):
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
        _cells(axes, hue, shade, [[f"{t}\nr{r}" for t, r in row] for row in pairs])
        axes.set_title(title)

    rows = _columns([[f"{t}.{r}" for t, r in row] for row in pairs])
    start = ", ".join(f"thread {t} register {r}" for t, r in pairs[0][:8])
    alt = f"The layout of a tile, {title}. Its first row begins: {start}."
    return Picture("\n".join([f"{title} (thread.register)", *rows]), alt, draw, _size(thread.shape))


def _tile(compiled: CompiledKernel, tile: str | None) -> tuple[str, Layout]:
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
    >>> access(double, 2, np.zeros(12, np.float32), 12, BLOCK=8, num_threads=4)
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
        _cells(memory, program, np.where(thread < 0, 0, thread % 32 / 32), labels)
        for x in range(0, row + 1, 32 // size):
            memory.axvline(x - 0.5, color=GREY, linewidth=1.5)
        memory.set_yticks(range(used), [f"{start + k * row}" for k in range(used)])
        memory.set_title(f"{title} (colour: program, number: thread)")
        lane = np.broadcast_to(np.arange(len(on))[:, None], on.shape)
        lanes.plot(places[on], lane[on], "s", markersize=3)
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
    table = [f"{start + k * span:>8}  {line}" for k, line in enumerate(_columns(rows))][: 2 * ROWS]
    text = "\n".join([f"{title} (program.thread; a row is a sector of 32 bytes)", *table, warp])
    return Picture(text, f"{title}. {warp}.", draw, (7.0, 3.2 + 0.3 * used))


def _first_instruction(one: Access) -> tuple[np.ndarray, np.ndarray]:
    """Places and lanes of the first access that a warp executes: both of shape (lanes, elements)."""
    for places, on in one.warps():
        for warp, instruction in np.argwhere(on.any((-2, -1)))[:1]:
            return places[warp, instruction], on[warp, instruction]
    raise AssertionError("an access without lanes")


def _cells(axes: Any, hue: np.ndarray, shade: np.ndarray, labels: list[list[str]]) -> None:
    """A table of coloured cells: ``hue`` picks the colour (-1: none), ``shade`` in 0 to 1 makes it lighter."""
    from matplotlib.colors import to_rgb

    palette = np.array([to_rgb(c) for c in COLOURS])
    light = (0.25 + 0.5 * shade)[..., None]
    image = np.ones((*hue.shape, 4))
    image[..., :3] = palette[hue % len(COLOURS)] * (1 - light) + light
    image[..., 3] = hue >= 0
    axes.imshow(image, aspect="auto", interpolation="nearest")
    longest = max(len(part) for row in labels for text in row for part in text.split("\n"))
    font = min(8.0, 6.2 * 72 / hue.shape[1] / max(longest, 2) * 1.5)
    for y, row in enumerate(labels):
        for x, text in enumerate(row):
            axes.text(x, y, text, ha="center", va="center", fontsize=font, color="black", linespacing=0.95)
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(False)
    for x in range(1, hue.shape[1]):
        axes.axvline(x - 0.5, color=GREY, linewidth=0.3)
    for y in range(1, hue.shape[0]):
        axes.axhline(y - 0.5, color=GREY, linewidth=0.3)


def _size(shape: tuple[int, ...]) -> tuple[float, float]:
    return 7.0, 0.5 + shape[0] * min(0.4, 7.0 / shape[1] + 0.1)


def _columns(rows: list[list[str]]) -> list[str]:
    width = max(len(text) for row in rows for text in row)
    return [" ".join(text.rjust(width) for text in row).rstrip() for row in rows]
