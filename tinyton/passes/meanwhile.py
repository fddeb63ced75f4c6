"""What takes no sums of a loop's last products is done while those are under way."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Block, Kernel, Op, Value, walk
from ..ops import OPS


def meanwhile(kernel: Kernel) -> Kernel:
    """Before: ``row = mod n rows; for k: ...; products_wait s; t = cast s``. After: ``for k: ...; row = mod n rows;
    products_wait s; t = cast s``: behind the first such loop of a block, what is computed for its end alone."""
    return replace(kernel, body=_block(kernel.body))


def _block(block: Block) -> Block:
    ops = [replace(op, blocks=tuple(map(_block, op.blocks))) if op.blocks else op for op in block.ops]
    first = next((k for k, op in enumerate(ops) if op.name == "products_wait"), 0)
    taken: set[Value] = set()
    parts: tuple[list[Op], list[Op]] = [], []  # what stays before the loop, and what does not
    for op in reversed(ops[:first]):
        late = OPS[op.name].kind in ("elementwise", "typed", "index", "view") and taken.isdisjoint(op.results)
        parts[late].append(op)
        for o in () if late else (op, *(inner for b in op.blocks for inner in walk(b))):
            taken.update((*o.operands, *(y for b in o.blocks for y in b.yields)))
    return replace(block, ops=(*parts[0][::-1], *parts[1][::-1], *ops[first:]))
