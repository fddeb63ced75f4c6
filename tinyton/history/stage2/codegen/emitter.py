"""The emitter: walks a kernel's ops and writes C in which every thread has one element of every tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..errors import KernelTypeError
from ..ir import Block, Kernel, Op, Value
from ..ops import OPS
from .dialect import Dialect
from .writer import Writer, parenthesised

Element = Callable[["Emitter", Op, "Emitter"], None]


def extent(kernel: Kernel) -> int:
    """The extent that all tiles of a kernel have: that many threads run it."""
    found = {v.type.shape[0]: op for op in kernel.ops() for v in op.results if v.type.shape}
    if len(found) > 1:
        raise KernelTypeError(
            f"a kernel runs one thread an element, so all its tiles have one extent, not {sorted(found)}",
            list(found.values())[-1].loc,
        )
    return next(iter(found), 1)


class Emitter(Writer):
    """Emits one kernel. A value with a name, or used more than once, is a variable; others are written in place. Ops
    see the emitter as the place of the one element as well."""

    def __init__(self, kernel: Kernel, dialect: Dialect):
        super().__init__(kernel, extent(kernel), dialect)
        self.thread = "thread" if self.threads > 1 else "0"

    def fits(self, v: Value) -> bool:
        """True for index arithmetic, which is taken not to wrap around."""
        op = self.made.get(v)
        return op is None or (op.name != "load" and all(self.fits(x) for x in op.operands))

    def place(self, v: Value) -> Value:
        """What a view looks at."""
        while v in self.made and OPS[self.made[v].name].kind == "view":
            v = self.made[v].operands[0]
        return v

    def get(self, v: Value) -> str:
        return self.text[self.place(v)]

    def pointer(self, v: Value) -> str:
        """The element that a pointer points at: ``x[i]`` for ``x + i``."""
        op = self.made.get(self.place(v))
        if op is not None and op.name == "addptr" and not op.result.name:
            return f"{parenthesised(self.get(op.operands[0]))}[{self.get(op.operands[1])}]"
        return f"*{parenthesised(self.get(v))}"

    def condition(self, op: Op) -> str:
        masks = op.operands[1:2] if op.name == "load" else op.operands[2:3]
        return self.get(masks[0]) if masks else ""

    def define(self, v: Value, text: str) -> None:
        if not v.name and self.count.get(v, 0) < 2 and self.made[v].name != "load" or text.isidentifier():
            self.text[v] = text
            return
        self.text[v] = self.name(v)
        self.line(f"{'' if v.type.pointer else 'const '}{self.ctype(v)} {self.text[v]} = {text};")

    def declare(self, v: Value, initial: str) -> None:
        self.text[v] = self.name(v)
        self.line(f"{self.ctype(v)} {self.text[v]} = {initial};")

    def join(self, op: Op, element: Element) -> None:
        element(self, op, self)

    def store_layout(self, op: Op) -> tuple[int, ...]:
        return op.operands[0].type.shape

    def close_with(self, op: Op, layout: tuple[int, ...], element: Element) -> None:
        element(self, op, self)

    @contextmanager
    def once_per_element(self, layout: tuple[int, ...]) -> Iterator[None]:
        """A scalar is stored by one thread."""
        guarded = not layout and self.threads > 1
        if guarded:
            self.line("if (thread == 0) {")
            self.depth += 1
        yield
        if guarded:
            self.depth -= 1
            self.line("}")

    def block(self, block: Block) -> None:
        for self.op in block.ops:
            op, entry = self.op, OPS[self.op.name]
            if op.name != "const":
                self.comment([op])
            if entry.kind == "statement":
                entry.emit(self, op)
            elif entry.kind != "view":
                indices = [self.thread] * len(op.result.type.shape)
                args = indices if entry.kind == "index" else [parenthesised(self.get(v)) for v in op.operands]
                self.define(op.result, self.expression(op, args))

    def close(self) -> None:
        pass
