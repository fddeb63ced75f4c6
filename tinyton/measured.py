"""Numbers of the compiler that were chosen by measuring, beside the sweeps that chose them: for `python -m tinyton
defend`."""

from __future__ import annotations

from typing import Any

from .arrays import empty, zeros
from .backends import current
from .defend import defend
from .dtypes import float32
from .jit import JITFunction, jit
from .language import NAMES, constexpr
from .sweep import sweep

program_id, arange, load, store, row_sum = (NAMES[n] for n in ("program_id", "arange", "load", "store", "sum"))
TILE = 2048


@jit
def add(x, y, out, BLOCK: constexpr):
    i = program_id(0) * BLOCK + arange(0, BLOCK)
    store(out + i, load(x + i) + load(y + i))


@jit
def sums(x, out, BLOCK: constexpr):
    row = program_id(0)
    store(out + row, row_sum(load(x + row * BLOCK + arange(0, BLOCK))))


def threads(kernel: JITFunction) -> dict[str, int]:
    """The compiler's choice of threads for a tile, defended by other numbers of them."""
    types = [float32] * len(kernel.runtime)
    chosen = kernel.compile(*types, BLOCK=TILE).threads

    def measure() -> Any:
        gpu = not getattr(current(), "on_cpu", False)
        n, counts = (1 << 24, [32, 64, 128, 256, 512, 1024]) if gpu else (1 << 20, [1, 32, 128])
        arrays = [zeros(n, float32) for _ in types[1:]] + [empty(n, float32)]
        points = {"BLOCK": [TILE], "num_threads": sorted({chosen, *counts})}
        return sweep(kernel, *arrays, over=points, grid=n // TILE, repeats=15)

    name = f"threads of {kernel.source.name}, tiles of {TILE}"
    return defend(name, {"BLOCK": TILE, "num_threads": chosen}, measure, within=0.05)


ADD, SUMS = threads(add), threads(sums)
