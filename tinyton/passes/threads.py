"""How many threads a program runs on, where the device has many: read off the tiles that a kernel reduces."""

from __future__ import annotations

from math import prod

from ..ir import Kernel
from .plan import padded


def choose_threads(kernel: Kernel) -> int:
    """The compiler's choice for a GPU: 128 threads, and more where a reduction runs over a tile so large that each of
    128 would hold more than sixteen of its elements, up to 512. `tests/bench/peers.py --details` shows the others."""
    tiles = [prod(padded(op.operands[0].type.shape)) for op in kernel.ops() if op.name == "reduce"]
    threads = 128
    while tiles and threads < 512 and max(tiles) > threads * 16:
        threads *= 2
    return threads
