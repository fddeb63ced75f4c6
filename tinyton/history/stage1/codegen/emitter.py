"""The emitter: walks a kernel's ops and writes C in which every thread has one element of every tile."""

from __future__ import annotations

import re

from ..dtypes import bool_
from ..errors import KernelTypeError
from ..ir import Kernel, Op, Value
from ..ops import OPS
from .dialect import Dialect

RESERVED = set(
    "auto break case char const continue default do double else enum extern float for goto if int long".split()
)
RESERVED |= set("register return short signed sizeof static struct switch typedef union unsigned void thread".split())


class Emitter:
    """Emits one kernel. A value with a name, or used more than once, is a variable; others are written in place."""

    def __init__(self, kernel: Kernel, dialect: Dialect):
        self.kernel, self.dialect = kernel, dialect
        self.lines: list[str] = []
        self.text: dict[Value, str] = {}  # the C that reads a value
        self.taken = set(RESERVED)
        self.said = ""
        self.threads = self._threads()
        self.symbol = self.fresh(kernel.name)

    def _threads(self) -> int:
        """The extent that all tiles of the kernel have: that many threads run it."""
        found: dict[int, Op] = {v.type.shape[0]: op for op in self.kernel.ops for v in op.results if v.type.shape}
        if len(found) > 1:
            raise KernelTypeError(
                f"a kernel runs one thread an element, so all its tiles have one extent, not {sorted(found)}",
                list(found.values())[-1].loc,
            )
        return next(iter(found), 1)

    def fresh(self, base: str) -> str:
        """A C name that is not taken, like ``base``."""
        base = re.sub(r"\W", "_", base, flags=re.ASCII)
        name, k = base, 1
        while name in self.taken:
            name, k = f"{base}_{k}", k + 1
        self.taken.add(name)
        return name

    def ctype(self, v: Value) -> str:
        return self.dialect.pointer(v.type.dtype) if v.type.pointer else f"const {self.dialect.c(v.type.dtype)}"

    def line(self, text: str) -> None:
        self.lines.append("    " + text)

    def place(self, pointer: str) -> str:
        """The element that a pointer's C points at: ``x[i]`` for ``x + i``."""
        base, _, offset = pointer.partition(" + ")
        return f"{base}[{bare(offset)}]" if offset and base.isidentifier() else f"*({pointer})"

    def emit(self, op: Op) -> None:
        entry = OPS[op.name]
        args = [self.text[v] for v in op.operands]
        if entry.kind == "element":
            args = [x if re.fullmatch(r"[\w.]+|\w+\([^()]*\)|\([^()]*\)", x) else f"({x})" for x in args]
        if op.loc and op.loc.text.strip() != self.said and op.name != "const":
            self.said = op.loc.text.strip()
            self.line("// " + self.said.encode("ascii", "backslashreplace").decode().replace("\\", "/"))
        text = entry.emit(self, op, *args)
        if entry.kind == "statement":
            return
        uses = sum(other.operands.count(op.result) for other in self.kernel.ops)
        if op.name != "load" and not op.result.name and uses < 2 or entry.kind == "view":
            self.text[op.result] = text
            return
        self.text[op.result] = self.fresh(op.result.name or op.name)
        self.line(f"{self.ctype(op.result)} {self.text[op.result]} = {text};")

    def source(self) -> str:
        """The whole text."""
        params = []
        for v in self.kernel.params:
            self.text[v] = self.fresh(v.name)
            stored = v.type.pointer or v.type.dtype is not bool_
            params.append(f"{self.ctype(v) if stored else 'const unsigned char'} {self.text[v]}")  # a bool is a byte
        for op in self.kernel.ops:
            self.emit(op)
        head = self.dialect.head.format(name=self.symbol, params=", ".join(params), threads=self.threads)
        return "\n".join([head, *self.lines, "}", ""])


def bare(text: str) -> str:
    """Text without the parentheses around all of it."""
    return text[1:-1] if re.fullmatch(r"\([^()]*\)", text) else text
