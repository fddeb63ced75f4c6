"""A place in a loop over a thread's registers: which register, which coordinates, and C for the values there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import Loc
from ..ir import Op, Value
from ..layout import Frame, Layout, Run, log2, whole
from ..ops import OPS, mask_of
from ..passes.plan import sub_frame
from .writer import parenthesised

if TYPE_CHECKING:
    from .emitter import Emitter

SEVERAL = "#pragma clang loop interleave_count(2)"  # vectors of partial results at a time
LONG = 500  # a longer expression gets a variable, as compilers take 256 brackets in each other


@dataclass(eq=False, repr=False)
class Scope:
    """Inside one loop nest over the registers of ``layout``. ``shifted(k)`` is the place k registers further on;
    ``last`` stands for the thread's last register. In a ``whole`` one all accesses happen. ``counter`` names the
    variable of the innermost loop; ``around`` that of the outermost, if it is open already."""

    e: Emitter
    layout: Layout
    step: int
    whole: bool = False
    last: bool = False
    counter: str = ""
    around: str = ""
    several: bool = False
    offset: int = 0

    def __post_init__(self) -> None:
        self.runs = self.layout.runs()
        self.loops = [r for k, r in enumerate(self.runs) if k or self.step < 1 << r.bits]  # one round is no loop
        self.loops = [] if self.last else self.loops
        self.opened = self.loops[:-1] if self.around else self.loops
        self.memo: dict[tuple[Value, Frame], str] = {}
        self.before: list[tuple[str, Loc | None]] = []
        self.after: list[tuple[str, Loc | None]] = []
        self.declared: set[str] = set()  # the variables of the loop's body
        self.family: dict[int, Scope] = {self.offset: self}
        self.coordinates = [self.within(d, self.loops) for d in range(len(self.layout.shape))]

    def variable(self, run: Run) -> str:
        if self.counter and run is self.runs[0]:
            return self.counter
        if self.around and run is self.runs[-1]:
            return self.around
        return "r" if len(self.loops) == 1 else f"r{self.runs.index(run)}"

    def heads(self) -> list[str]:
        out = []
        for run in reversed(self.opened):
            v = self.variable(run)
            advance = f"{v} += {self.step}" if run is self.runs[0] and self.step > 1 else f"++{v}"
            if self.e.dialect.unroll:
                out.append("#pragma unroll")
            if self.several and run is self.runs[0]:
                out.append(SEVERAL)
            out.append(f"for (int {v} = 0; {v} < {1 << run.bits}; {advance}) {{")
        return out

    def within(self, dim: int, loops: list[Run], low: int = 0) -> str:
        """A coordinate, as far as these loops move it; without its ``low`` lowest bits, if loops alone move those."""
        parts = [times(self.variable(run), run.step) for run in loops if run.dim == dim]
        if self.last and (far := sum(((1 << run.bits) - 1) * run.step for run in self.runs if run.dim == dim)):
            parts.append(str(far))
        for run in self.layout.thread_runs():
            if run.dim == dim:
                parts.append(times(thread_bits(run.low, run.bits, len(self.layout.thread)), run.step))
        if self.offset and self.runs[0].dim == dim and self.runs[0].step >= 1 << low:
            parts.append(str(self.offset * self.runs[0].step))
        return " + ".join(reversed(parts)) or "0"

    def first(self, v: Value, frame: Frame) -> Frame:
        """Where a mask is looked at: at the first of a thread's neighbours, if they agree."""
        groups, found = self.e.plan.even.get(v, (1,) * len(frame)), list(frame)
        for run in [*self.loops, *self.runs[: bool(self.offset)]]:
            for d, bits in enumerate(frame):
                low = tuple((run.dim, k) for k in range(run.bits))
                if run.step == 1 and groups[d] >= 1 << run.bits and bits[: run.bits] == low:
                    found[d] = (0,) * run.bits + bits[run.bits :]
        return tuple(found)

    def register(self, offset: int = 0) -> str:
        """The number of the register at this place."""
        parts = [times(self.variable(run), 1 << run.low) for run in reversed(self.loops)]
        if self.offset + offset:
            parts.append(str(self.offset + offset))
        return " + ".join(parts) or "0"

    def gather(self, bits: list[tuple[int, int]], base: int = 0) -> str:
        """The register number of another tile: ``base``, and bit pairs (of this register number, of that one)."""
        parts = [str(base)] * (base > 0)
        for run in self.runs:
            inside = [(i - run.low, j) for i, j in bits if run.low <= i < run.low + run.bits]
            shift = self.offset if run is self.runs[0] else 0
            at = self.variable(run) if run in self.loops else ""
            at = f"({at} + {shift})" if at and shift else at or str(shift)
            if len(inside) == run.bits and all(j == inside[0][1] + i for i, j in inside):
                parts.append(times(at, 1 << inside[0][1]))
            else:
                parts += [times(f"({at} >> {i} & 1)", 1 << j) for i, j in inside]
        return " + ".join(reversed(parts)) or "0"

    def shifted(self, k: int) -> Scope:
        if self.offset + k not in self.family:
            other = Scope(self.e, self.layout, self.step, self.whole, around=self.around, offset=self.offset + k)
            other.before, other.family, other.declared = self.before, self.family, self.declared
            self.family[self.offset + k] = other
        return self.family[self.offset + k]

    def line(self, text: str) -> None:
        op = self.e.op
        self.after.append((text, op.loc if op else None))

    def define(self, v: Value, text: str) -> None:
        """The value of a member of the loop at this place: kept in its array, in a variable, or in place."""
        if v in self.e.arrays:
            self.line(f"{self.e.cell(v, self)} = {text};")
            self.memo[v, self.identity()] = self.e.cell(v, self)
        else:
            self.memo[v, self.identity()] = self._local(v, self.identity(), text, self.after)

    def _local(self, v: Value, frame: Frame, text: str, lines: list[tuple[str, Loc | None]]) -> str:
        if not v.name and self.e.count.get(v, 0) < 2 and len(text) < LONG:
            return text
        name = self.e.fresh("last_" + self.e.name(v)) if self.last else self.e.local_name(v, frame, self.offset)
        self.declared.add(name)
        lines.append((self.e.definition(v, name, text), self.e.made[v].loc))
        return name

    def identity(self) -> Frame:
        return whole(self.layout.shape)

    def get(self, v: Value, frame: Frame | None = None) -> str:
        """C for the element of ``v`` at this place, seen through ``frame``."""
        frame = self.identity() if frame is None else frame
        if not v.type.shape:
            return self.e.scalar(v)
        if (v, frame) in self.memo:
            return self.memo[v, frame]
        if v in self.e.arrays:
            return self.e.cell_in(v, self, frame)
        if (first := self.first(v, frame)) != frame:
            return self.get(v, first)
        op = self.e.made[v]
        if OPS[op.name].kind == "view":
            return self.get(op.operands[0], sub_frame(op, frame))
        if OPS[op.name].kind == "index":
            text = OPS[op.name].emit(self.e, op, *(self.at(d) for d in frame))
        else:
            text = self.e.expression(op, [parenthesised(self.get(x, frame)) for x in op.operands])
        lines = self.before if self.step > 1 or not self.after else self.after
        self.memo[v, frame] = self._local(v, frame, text, lines)
        return self.memo[v, frame]

    def atom(self, v: Value, frame: Frame | None = None) -> str:
        """`get`, to stand inside a bigger expression."""
        return parenthesised(self.get(v, frame))

    def at(self, bits: tuple[tuple[int, int] | int, ...]) -> str:
        """C for a coordinate of a tile that is looked at: made of bits of the coordinates here."""
        fixed = sum(at << i for i, at in enumerate(bits) if isinstance(at, int))
        parts, k = [str(fixed)] * (fixed > 0), 0
        while k < len(bits):
            n, at = 1, bits[k]
            if not isinstance(at, int):
                dim, low = at
                while k + n < len(bits) and bits[k + n] == (dim, low + n):
                    n += 1
                text, top = self.coordinates[dim], low + n == log2(self.layout.shape[dim])
                alone = any((run.dim, run.step, run.bits) == (dim, 1, low) for run in self.runs)
                if k == low and top and alone and not self.last:
                    parts.append(self.within(dim, [run for run in self.loops if run.step >> low], low))
                else:
                    if low or not top:
                        text = f"({text if text.isidentifier() else f'({text})'} >> {low} & {(1 << n) - 1})"
                    parts.append(times(text if k == 0 or " + " not in text else f"({text})", 1 << k))
            k += n
        return " + ".join(reversed(parts)) or "0"

    def pointer(self, v: Value) -> str:
        """``base[offset]`` for a pointer that is a base plus an offset."""
        frame = self.identity()
        op = self.e.made.get(v)
        while op is not None and OPS[op.name].kind == "view":
            frame, v = sub_frame(op, frame), op.operands[0]
            op = self.e.made.get(v)
        if op is not None and op.name == "addptr" and not v.name and v not in self.e.arrays and v.type.shape:
            base = self.get(op.operands[0], frame)
            return f"{base if base.isidentifier() else f'({base})'}[{self.get(op.operands[1], frame)}]"
        text = self.get(v, frame)
        return f"*{text}" if text.isidentifier() else f"*({text})"

    def padding(self, shape: tuple[int, ...], axes: tuple[int, ...] | None = None) -> str:
        """The condition under which this place is beyond a tile's extents (along ``axes``); empty if it never is."""
        dims = range(len(shape)) if axes is None else axes
        beyond = [f"{self.coordinates[d]} >= {shape[d]}" for d in dims if self.layout.shape[d] != shape[d]]
        return " || ".join(beyond)

    def condition(self, op: Op) -> str:
        """The condition under which an access happens at this place; empty if always."""
        if self.whole:
            return ""
        mask = mask_of(op)
        shape = op.operands[0].type.shape
        parts = [f"{self.coordinates[d]} < {n}" for d, n in enumerate(shape) if self.layout.shape[d] != n]
        if mask is not None:
            text = self.get(mask)
            parts.append(parenthesised(text) if parts else text)
        return " && ".join(parts)

    def position(self, shape: tuple[int, ...], at: list[str] | None = None) -> str:
        """The row-major place of this element (or of the one at these coordinates) in an array of ``shape``."""
        parts, scale = [], 1
        for text, extent in zip(reversed(at or self.coordinates), reversed(shape), strict=True):
            if text != "0":
                parts.append(times(text if " + " not in text else f"({text})", scale))
            scale *= extent
        return " + ".join(reversed(parts)) or "0"


def times(text: str, factor: int) -> str:
    return text if factor == 1 else f"{text} * {factor}"


def thread_bits(low: int, bits: int, of: int = 32) -> str:
    """These bits of the thread's number, which has ``of`` bits."""
    shift, mask = f" >> {low}" if low else "", f" & {(1 << bits) - 1}" if low + bits < of else ""
    return f"(thread{shift}{mask})" if shift or mask else "thread"
