"""Program order between the threads of a program: where one thread may read or write what another has written or read
before, a barrier goes in between, as if the program were one thread."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Block, Op, Value
from ..layout import Layout
from ..ops import OPS


@dataclass(frozen=True)
class Access:
    """One access: through which pointer argument (None: unknown), and at which place: who accesses which element."""

    store: bool
    root: Value | None
    place: tuple

    def disturbs(self, other: Access) -> bool:
        """True if the two must not swap. Different arguments are taken to be different memory, or the same elements at
        the same places, as in a kernel that works in place."""
        same_memory = self.root is None or other.root is None or self.root is other.root
        return (self.store or other.store) and same_memory and self.place != other.place


def fences(block: Block, layouts: dict[Op, Layout], made: dict[Value, Op]) -> set[Op]:
    """The loads and stores that a barrier must precede. ``layouts`` has the layout of each access to a tile."""
    found: set[Op] = set()

    def trace(ptr: Value) -> tuple[Value | None, tuple]:
        op = made.get(ptr)
        if op is None:
            return (ptr, ()) if not ptr.type.shape else (None, (ptr,))
        if op.name in ("addptr", "broadcast", "expand"):
            root, steps = trace(op.operands[0])
            return root, (*steps, *op.operands[1:], op.result.type.shape)
        return None, (ptr,)

    def walk(block: Block, before: frozenset[Access]) -> frozenset[Access]:
        for op in block.ops:
            if op.name == "for":
                inner = walk(op.blocks[0], before)
                before = walk(op.blocks[0], before | inner)  # a round follows a round
            elif op.blocks:
                before = frozenset().union(*(walk(b, before) for b in op.blocks))
            elif OPS[op.name].memory:
                root, steps = trace(op.operands[0])
                layout = layouts.get(op)
                shared = OPS[op.name].writes and (layout is None or layout.copies)  # one thread writes for several
                here = Access(OPS[op.name].writes, root, (op,) if shared else (layout, steps))
                if op in found or any(here.disturbs(other) for other in before):
                    found.add(op)
                    before = frozenset()
                before |= {here}
        return before

    walk(block, frozenset())
    return found
