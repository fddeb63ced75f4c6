"""All passes in order: from a captured source and a specialization to C text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import Loc
from ..frontend import Source, trace
from ..ir import Kernel, Op, Value, verify
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
    private_bytes: int
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
    kernel = verify(fold(kernel), known)
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
    sizes = emitter.shared_bytes, emitter.private_bytes
    return Lowered(kernel.name, emitter.symbol, plan.kernel, plan, lines, threads, *sizes, stored_params(kernel), used)
