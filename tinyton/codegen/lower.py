"""All passes in order: from a captured source and a specialization to C text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import Loc
from ..frontend import Source, trace
from ..ir import Block, Kernel, Op, Value, verify
from ..ops import OPS
from ..passes.axisinfo import Info, analyse
from ..passes.fold import drop_sure, fold
from ..passes.plan import Plan, access_widths, make_plan
from ..passes.widen import widen
from ..specialize import Specialization
from .dialect import Dialect
from .emitter import Emitter
from .writer import STATIC_SHARED


@dataclass(frozen=True, eq=False)
class Lowered:
    """A kernel on its way to a device: its IR, its plan, its C, and what it takes."""

    name: str
    symbol: str
    ir: Kernel
    plan: Plan
    lines: list[tuple[str, Loc | None]]
    threads: int
    shared_bytes: int
    private_bytes: int  # of tiles, in one thread
    held_bytes: int  # of them at a time
    stored: frozenset[str]
    divisors_used: frozenset[str]

    @property
    def source(self) -> str:
        """The C, as it is meant to be read."""
        return "\n".join(text for text, _ in self.lines)

    @property
    def located(self) -> str:
        """The C with #line directives, so that the C compiler's messages name the kernel's own lines."""
        out = []
        for text, at in self.lines:
            if at and text.strip():
                out.append(f'#line {at.line} "{at.kind} {re.sub(r"[^ -~]", "_", at.kernel)}"')
            out.append(text)
        return "\n".join(out)

    @property
    def dynamic_shared(self) -> int:
        return self.shared_bytes if self.shared_bytes > STATIC_SHARED else 0


def known(op: Op) -> str | None:
    return None if op.name in OPS and OPS[op.name].kind != "macro" else "no such op"


def front(source: Source, spec: Specialization) -> Kernel:
    """Source to IR: traced, addresses widened, folded; verified after each step."""
    kernel = verify(trace(source, spec.types(), dict(spec.constants), spec.weak()), known)
    kernel = verify(fold(kernel, wrap=False), known)
    kernel = verify(widen(kernel, analyse(kernel, {})), known)
    return verify(fold(drop_sure(kernel, analyse(kernel, {}))), known)


def divisors_that_matter(kernel: Kernel, spec: Specialization, threads: int) -> frozenset[str]:
    """The integer arguments whose divisibility by 16 changes the width of some access."""

    def widths(but: frozenset[str]) -> tuple[int, ...]:
        divisors = {n: 16 for n, a in spec.args if a.kind == "int" and n not in but}
        return access_widths(kernel, analyse(kernel, spec.divisors(frozenset()) | divisors), threads)

    names = frozenset(n for n, a in spec.args if a.kind == "int")
    if threads == 1 or widths(frozenset()) == widths(names):
        return frozenset()
    return frozenset(n for n in names if widths(frozenset({n})) != widths(frozenset()))


def stored_params(kernel: Kernel) -> frozenset[str]:
    """The pointer parameters through which the kernel may write."""
    reached: dict[Value, set[str]] = {v: {v.name} for v in kernel.params if v.type.pointer}
    changed = True
    while changed:
        changed = False
        for op in kernel.ops():
            pairs = [(r, op.operands) for r in op.results if r.type.pointer and not op.blocks]
            if op.blocks:
                for start, param, end, _ in op.carried:
                    pairs.append((param, (start, end)))
                for k, r in enumerate(op.results):
                    starts = tuple(c[0] for c in op.carried[k : k + 1])
                    pairs.append((r, (*starts, *(b.yields[k] for b in op.blocks))))
            for r, sources in pairs:
                found = set().union(*(reached.get(v, set()) for v in sources))
                if not found <= reached.setdefault(r, set()):
                    reached[r] |= found
                    changed = True
    return frozenset().union(*(reached.get(op.operands[0], set()) for op in kernel.ops() if OPS[op.name].writes))


def held(kernel: Kernel, sizes: Mapping[Value, int]) -> int:
    """How many bytes of tiles are needed at a time, at most: now or later. What has no size is made of what has one
    where it is used."""
    roots: dict[Value, frozenset[Value]] = {}
    for op in kernel.ops():
        made_of = frozenset().union(*(roots.get(v, {v}) for v in op.operands))
        roots |= {v: frozenset((v,)) if v in sizes or op.blocks else made_of for v in op.results}
    most = 0

    def before(block: Block, live: frozenset[Value]) -> frozenset[Value]:
        """What is needed before a block, if ``live`` is after it."""
        nonlocal most
        live = live.union(*(roots.get(v, {v}) for v in block.yields))
        for op in reversed(block.ops):
            during = live.union(op.results, *(roots.get(v, {v}) for v in op.operands))
            for _ in range(2 if op.carried else 1):  # what a round of a loop needs, the one before it keeps
                during = during.union(*(before(b, during) for b in op.blocks))
            most = max(most, sum(sizes.get(v, 0) for v in during))
            live = during.difference(op.results)
        return live

    before(kernel.body, frozenset())
    return most


def lower(
    kernel: Kernel, spec: Specialization, threads: int, dialect: Dialect, attribute: Callable[[int], str]
) -> Lowered:
    """IR to C for ``threads`` threads a program."""
    used = divisors_that_matter(kernel, spec, threads)
    facts: dict[Value, Info] = analyse(kernel, spec.divisors(used))
    plan = make_plan(kernel, facts, threads)
    verify(plan.kernel, known)
    emitter = Emitter(plan, dialect)
    lines = emitter.kernel_text(attribute(threads))
    sizes = emitter.shared_bytes, sum(emitter.sizes.values()), held(plan.kernel, emitter.sizes)
    return Lowered(kernel.name, emitter.symbol, plan.kernel, plan, lines, threads, *sizes, stored_params(kernel), used)
