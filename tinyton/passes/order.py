"""Program order between the threads of a program: where one thread may read or write what another has written or read
before, a barrier goes in between, as if the program were one thread."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import LOOPS, Block, Kernel, Op, Value
from ..layout import Layout
from ..ops import OPS
from .axisinfo import HINTS


@dataclass(frozen=True)
class Access:
    """One access: through which pointer argument (None: unknown), and at which place: who accesses which element."""

    store: bool
    root: Value | str | None
    place: tuple

    def disturbs(self, other: Access) -> bool:
        """True if the two must not swap. Different arguments are taken to be different memory, or the same elements at
        the same places, as in a kernel that works in place."""
        same_memory = self.root is None or other.root is None or self.root is other.root
        return (self.store or other.store) and same_memory and self.place != other.place


def fences(kernel: Kernel, layouts: dict[Op, Layout]) -> set[Op]:
    """The loads and stores that a barrier must precede. ``layouts`` has the layout of each access to a tile."""
    found: set[Op] = set()
    ops = tuple(kernel.ops())
    made = {v: op for op in ops for v in op.results}

    def trace(ptr: Value) -> tuple[Value | str | None, tuple]:
        op = made.get(ptr)
        if op is None:
            return (ptr, ()) if ptr in kernel.params else (None, (ptr,))
        if op.name == "shared":
            return "shared", ()
        if op.name in ("addptr", "broadcast", "expand", *HINTS):
            root, steps = trace(op.operands[0])
            return root, (*steps, *op.operands[1:], op.result.type.shape)
        return None, (ptr,)

    def access(op: Op) -> tuple[Access, Access]:
        """What ``op`` may not overtake, and what may not overtake it. An atomic that releases waits for everything, and
        everything waits for one that acquires."""
        (root, steps), entry, layout = trace(op.operands[0]), OPS[op.name], layouts.get(op)
        shared = entry.writes and (layout is None or layout.copies)  # one thread writes for several
        here = Access(entry.writes, root, (op,) if shared else (layout, steps))
        if not (entry.reads and entry.writes):
            return here, here
        how, sem = op.attrs["how"], op.attrs["sem"]
        here = Access(True, root, (how,) if not op.results and how not in ("xchg", "cas") else (object(),))
        known = Access(True, None, (object(),))
        return here if sem in ("relaxed", "acquire") else known, known if op.results and sem[:3] == "acq" else here

    written = {trace(op.operands[0])[0] for op in ops if OPS[op.name].writes}
    constant = set() if None in written else set(kernel.params) - written

    def walk(block: Block, before: frozenset[Access]) -> frozenset[Access]:
        for op in block.ops:
            if op.name in LOOPS:
                inner = walk(op.blocks[0], before)
                before |= walk(op.blocks[0], before | inner)  # a round follows a round, or there is none
            elif op.name == "debug_barrier":
                before = frozenset()
            elif op.blocks:
                before = frozenset().union(*(walk(b, before) for b in op.blocks))
            elif OPS[op.name].memory:
                here, left = access(op)
                if here.root in constant and not here.store:
                    continue
                if op in found or any(here.disturbs(other) for other in before):
                    found.add(op)
                    before = frozenset()
                before |= {left}
        return before

    walk(kernel.body, frozenset())
    return found
