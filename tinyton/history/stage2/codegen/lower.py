"""From a captured source and a specialization to C text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..frontend import Source, trace
from ..ir import Kernel, Op, Value, verify
from ..ops import OPS
from ..specialize import Specialization
from .dialect import Dialect
from .emitter import Emitter


@dataclass(frozen=True, eq=False)
class Lowered:
    """A kernel on its way to a device: its IR, its C, and what it takes."""

    name: str
    symbol: str
    ir: Kernel
    source: str
    threads: int
    shared_bytes: int
    stored: frozenset[str]
    divisors_used: frozenset[str] = frozenset()
    dynamic_shared: int = 0
    private_bytes: int = 0

    @property
    def located(self) -> str:
        """The C, as the compiler gets it."""
        return self.source


def known(op: Op) -> str | None:
    return None if op.name in OPS and OPS[op.name].kind != "macro" else "no such op"


def front(source: Source, spec: Specialization) -> Kernel:
    """Source to IR, verified."""
    return verify(trace(source, spec.types(), dict(spec.constants), spec.weak()), known)


def stored_params(kernel: Kernel) -> frozenset[str]:
    """The pointer parameters through which the kernel may write."""
    reached: dict[Value, frozenset[str]] = {v: frozenset([v.name]) for v in kernel.params}
    for op in kernel.ops():
        names = frozenset().union(*(reached[v] for v in op.operands if v.type.pointer))
        reached.update(dict.fromkeys(op.results, names))
    return frozenset().union(*(reached[op.operands[0]] for op in kernel.ops() if op.name == "store"))


def lower(
    kernel: Kernel, spec: Specialization, threads: int, dialect: Dialect, attribute: Callable[[int], str]
) -> Lowered:
    """IR to C for one thread an element."""
    emitter = Emitter(kernel, dialect)
    text = "\n".join(line for line, _ in emitter.kernel_text(attribute(threads)))
    return Lowered(
        kernel.name, emitter.symbol, kernel, text, emitter.threads, emitter.shared_bytes, stored_params(kernel)
    )
