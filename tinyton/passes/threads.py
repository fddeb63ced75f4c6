"""How many threads a program runs on, where the device has many: read off the tiles of a kernel."""

from __future__ import annotations

from math import prod

from ..ir import LOOPS, Kernel, Type, walk
from ..ops import OPS
from .plan import padded

BLOCK = 128  # threads of a block that several programs share
WARP = 32
ACROSS = ("reduce", "scan")


class Together(Exception):
    """The threads of a program have to meet, which they cannot in a block that programs share."""


def choose_threads(kernel: Kernel) -> int:
    """The compiler's choice for a GPU: 128 threads, and up to 512 for large tiles: as many as `move` a part each where
    all is done element by element, and as many as hold 32 elements each of what is reduced (in loops over halves 64,
    where loops carry tiles 16), and 64 of what is scanned. 256, where that leaves each 64 sums of a product."""
    ops = tuple(kernel.ops())
    # >>> stage 8
    if sums := [prod(op.result.type.shape) for op in ops if op.name == "matmul"]:
        return 2 * BLOCK if max(sums) >= 64 * 2 * BLOCK else BLOCK
    # <<<
    if all(OPS[op.name].moves or OPS[op.name].kind != "statement" and not OPS[op.name].apart for op in ops):
        wanted = [move(op.operands[0].type) for op in ops if OPS[op.name].moves]
    else:
        again = {inner for op in ops if op.name in LOOPS for block in op.blocks for inner in walk(block)}
        halves = all(op.operands[0].type.dtype.itemsize <= 2 for op in again if OPS[op.name].moves)
        wanted = []
        for op in ops:
            if op.name in ACROSS:
                share = 64 if op.name == "scan" or op in again and halves else 32
                share = 16 if op.name == "reduce" and carries_tiles(kernel) else share
                wanted.append(prod(padded(op.operands[0].type.shape)) // share)
    return min(max([BLOCK, *wanted]), 4 * BLOCK)


def move(tile: Type) -> int:
    """How many threads move a tile, each 16 bytes, or 16 elements of fewer bytes than four."""
    return prod(padded(tile.shape)) * (tile.dtype.itemsize if tile.dtype.itemsize > 2 else 1) // 16


def carries_tiles(kernel: Kernel) -> bool:
    return any(param.type.shape for op in kernel.ops() for _, param, _, _ in op.carried)


def blocks_at_once(threads: int, held_bytes: int, ahead: bool, sums: int = 0) -> int | None:
    """How many large blocks a multiprocessor (65,536 registers) is to hold at once: two where a thread's tiles take
    about its part of half of the registers, so that a few more would leave room for one block only. Four of 128 threads
    where loads run ``ahead``, and tiles take a little more than a fourth. ``sums``: bytes of products that threads add
    up each for itself; about as many hold what is multiplied, or where it is."""
    if sums:
        return 2 if threads > BLOCK and 2 * sums <= 65536 // (2 * threads) * 4 else None
    blocks, least = (2, 0.6) if threads > BLOCK else (4, 1)
    part = 65536 // (blocks * threads) * 4
    return blocks if (threads > BLOCK or ahead) and least * part < held_bytes < 1.5 * part else None


def tile_threads(kernel: Kernel, divisors: dict[str, int]) -> int:
    """The threads that a program has work for, 128 at most: as many as `move` a part each, with at most sixteen of the
    elements that are only computed. Fewer than 128 are for programs that share a block and do not meet in it; to reduce
    a tile, they must be in one warp, with 8 to 32 elements each (16 where loops carry tiles, or 16 does not divide all
    that masks may end at). A whole warp, so that programs do not wait for each other in it, have those that may loop
    for long, stop, or reduce in branches and loops."""
    ops = tuple(kernel.ops())
    shapes = {v.type.shape for op in ops for v in (*op.operands, *op.results)}
    most = max((prod(padded(shape)) for shape in shapes), default=1)
    reduces = any(op.name in ACROSS for op in ops)
    ragged = any(p.type.dtype.is_int and not p.type.pointer and divisors.get(p.name, 1) % 16 for p in kernel.params)
    if reduces and most > (16 if ragged or carries_tiles(kernel) else 32) * WARP:
        return BLOCK
    moving = max((move(op.operands[0].type) for op in ops if OPS[op.name].memory), default=0)
    threads = min(most // 8, WARP) if reduces else max(most // 16, moving)
    if any(op.name in ("while", "device_assert") or "stops" in op.attrs or op.blocks and reduces for op in ops):
        threads = max(threads, WARP)
    return min(max(threads, min(most, 2)), BLOCK)
