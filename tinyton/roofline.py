"""``tt.roofline()``: the two roofs of the device in use, measured: bytes a second to memory, operations a second.

A kernel that does ``f`` operations on ``b`` bytes takes at least ``b / memory`` and at least ``f / compute``. Which is
longer depends on ``f / b``, its arithmetic intensity. (Williams, Waterman, Patterson, *Roofline*, CACM 2009.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from . import backends
from .arrays import empty, zeros
from .bench import bench
from .count import Count
from .dtypes import float32
from .errors import TinytonError
from .jit import jit
from .language import NAMES, constexpr

if TYPE_CHECKING:
    from .picture import Picture

program_id, arange, load, store, fma = (NAMES[n] for n in ("program_id", "arange", "load", "store", "fma"))
static_range = NAMES["static_range"]


@dataclass(frozen=True)
class Roofline:
    """The best that was measured. ``memory_gb_s``: GB/s of a copy, bytes read and bytes written both counted.
    ``compute_gflop_s``: GFLOP/s of multiply-adds on float32, two operations each, fused into one instruction where that
    is faster: on a GPU."""

    memory_gb_s: float
    compute_gflop_s: float
    stamp: str

    @property
    def ridge(self) -> float:
        """The intensity, in operations a byte, from which on arithmetic is the limit."""
        return self.compute_gflop_s / self.memory_gb_s

    def seconds(self, nbytes: float = 0, flops: float = 0) -> float:
        """The least time for this much traffic and arithmetic."""
        return max(nbytes / self.memory_gb_s, flops / self.compute_gflop_s) * 1e-9

    def plot(self, points: Mapping[str, tuple[Any, Any]] | None = None) -> Picture:
        """The roofs, and kernels under them: ``points`` maps a name to (operations a byte, GFLOP/s), or to what `count`
        and `bench` say of a launch."""
        from .picture import GREY, Picture

        points = {name: _point(*pair) for name, pair in (points or {}).items()}

        def draw(figure: Any) -> None:
            axes = figure.subplots()
            intensities = [i for i, _ in points.values()] + [self.ridge]
            x = np.geomspace(min(intensities) / 8, max(intensities) * 8, 200)
            axes.plot(x, np.minimum(x * self.memory_gb_s, self.compute_gflop_s), color=GREY)
            note = partial(axes.annotate, textcoords="offset points", fontsize=9)
            note(f"{number(self.memory_gb_s)} GB/s", (x[40], x[40] * self.memory_gb_s), (-6, 4), ha="right")
            note(f"{number(self.compute_gflop_s)} GFLOP/s", (x[-60], self.compute_gflop_s), (0, 6))
            for name, (intensity, rate) in points.items():
                axes.plot([intensity], [rate], "o")
                note(name, (intensity, rate), (6, -10))
            axes.set(xscale="log", yscale="log", xlabel="operations a byte", ylabel="GFLOP/s")
            axes.set_title(self.stamp, fontsize=8, loc="right")

        lines = [repr(self)]
        for name, (intensity, rate) in points.items():
            share = rate / min(intensity * self.memory_gb_s, self.compute_gflop_s)
            lines.append(f"{name}: {intensity:.3g} operations a byte, {number(rate)} GFLOP/s, {share:.0%} of the roof")
        text = "\n".join(lines)
        return Picture(text, "Roofline, log-log. " + text.replace("\n", "; "), draw)

    def __repr__(self) -> str:
        memory, compute = number(self.memory_gb_s), number(self.compute_gflop_s)
        return f"memory {memory} GB/s, compute {compute} GFLOP/s, ridge at {self.ridge:.1f} operations a byte"


def _point(moved: Any, timed: Any) -> tuple[float, float]:
    """Operations a byte, and GFLOP/s."""
    if isinstance(moved, Count):
        if not moved.flops:
            raise TinytonError("a kernel without arithmetic has no place under the roofs: Timing.gb_s has its rate")
        return moved.intensity, moved.flops / timed.seconds / 1e9
    return moved, timed


def number(x: float) -> str:
    """Three digits, without powers of ten."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


@jit
def copy(x, out, BLOCK: constexpr):
    i = program_id(0) * BLOCK + arange(0, BLOCK)
    store(out + i, load(x + i))


@jit
def multiply_add(out, a, b, ROUNDS: constexpr, CHAINS: constexpr, FUSED: constexpr, BLOCK: constexpr):
    i = program_id(0) * BLOCK + arange(0, BLOCK)
    x = load(out + i)
    for _ in range(ROUNDS):
        for _ in static_range(CHAINS):
            x = fma(x, a, b) if FUSED else x * a + b
    store(out + i, x)


def roofline() -> Roofline:
    """The measured roofs of the device in use; measured once a process, in a second or two.

    >>> import tinyton as tt
    >>> roofs = tt.roofline()
    >>> roofs.ridge == roofs.compute_gflop_s / roofs.memory_gb_s
    True
    """
    return _measure(backends.current().name)


@cache
def _measure(name: str) -> Roofline:
    from .env import stamp

    executor = backends.current()
    n, blocks, programs, tile, rounds = {
        "cuda": (1 << 27, (1024, 4096), 16 * executor.sm_count, 2048, 512),
        "opencl": (1 << 24, (256, 4096), 16 * executor.sm_count, 256, 64),
        "interpreter": (1 << 20, (1 << 14, 1 << 16), 1, 1 << 16, 1),
    }[name]
    x, out = zeros(n, float32), empty(n, float32)
    moved = min(min(bench(lambda b=block: copy[n // b](x, out, BLOCK=b), repeats=9).times) for block in blocks)
    y = zeros(programs * tile, float32)
    meta = {"ROUNDS": rounds, "CHAINS": 8, "BLOCK": tile}
    done = min(
        min(bench(lambda f=fused: multiply_add[programs](y, 0.5, 0.5, FUSED=f, **meta), repeats=9, flush=False).times)
        for fused in (True, False)
    )
    return Roofline(8 * n / moved / 1e9, 2 * 8 * rounds * programs * tile / done / 1e9, stamp())
