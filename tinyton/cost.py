"""A model of how long a launch takes, for leaving out configurations before any is timed: what is moved and computed,
counted, against the roofs of the device, and how much of the device the grid keeps busy."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod
from typing import Any

from .count import SECTOR, count
from .jit import JITFunction
from .roofline import roofline

SAMPLE = 16  # programs that are counted


def estimate(compiled: Any, kernel: JITFunction, grid: tuple[int, int, int], named: Mapping[str, Any]) -> float:
    """Seconds that ``kernel[grid](**named)`` takes, if nothing but memory, arithmetic and the grid mattered. It ranks
    configurations; no more than that."""
    found, roofs = count(kernel, grid, sample=SAMPLE, **named), roofline()
    spilled = compiled.spills * compiled.threads * prod(grid) if compiled.executor.name == "cuda" else 0
    share = prod(grid) / compiled.executor.sm_count  # programs that a multiprocessor gets: some get one more
    return roofs.seconds(SECTOR * found.sectors + 2 * spilled, found.flops) * ceil(share) / share
