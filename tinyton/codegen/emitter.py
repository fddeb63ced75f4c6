"""The emitter: walks a planned kernel and writes C.

A tile that sits in registers is a C array with one element per register of a thread. Elementwise ops on tiles of one
layout share one loop over the registers (a *group*); a load, a store or a reduction that reads a group's result joins
its loop or follows it. Cheap values are never stored: they are computed where they are needed, from coordinates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..dtypes import DType
from ..ir import Block, Op, Value
from ..layout import Frame, Layout, blocked
from ..ops import OPS
from ..passes.plan import Plan, padded, seen
from .dialect import Dialect
from .scope import Scope, mask_of, times
from .writer import Writer, parenthesised

Joined = Callable[["Emitter", Op, Scope], None]
BITS = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}  # as many bytes, in CUDA's own types


@dataclass
class Group:
    """An open loop over the registers of a layout: its members, and the ops whose operands it may not outlive."""

    layout: Layout
    members: list[tuple[Op, Joined | None]] = field(default_factory=list)

    def results(self) -> set[Value]:
        return {v for op, _ in self.members for v in op.results}


class Emitter(Writer):
    """Emits one planned kernel."""

    def __init__(self, plan: Plan, dialect: Dialect):
        super().__init__(plan.kernel, plan.threads, dialect)
        self.plan = plan
        self.locals: dict[tuple[Value, Frame, int], str] = {}
        self.arrays: dict[Value, tuple[str, Layout]] = {}  # tiles in registers
        self.group: Group | None = None

    def fits(self, v: Value) -> bool:
        """True if integer arithmetic that gives ``v`` cannot wrap around."""
        low, high = v.type.dtype.range
        info = self.plan.facts.get(v)
        return (
            v.type.dtype.bits >= 64 and v.type.dtype.kind == "i" or bool(info and low <= info.low and info.high <= high)
        )

    def local_name(self, v: Value, frame: Frame, offset: int) -> str:
        """The variable for a value seen through ``frame``, ``offset`` registers further on: the same in every loop."""
        key = v, frame, offset
        if key not in self.locals:
            base = self.name(v)
            seen = any(k[0] is v for k in self.locals)
            self.locals[key] = self.fresh(f"{base}_{offset}" if offset else base) if seen or offset else base
        return self.locals[key]

    # -- memory ----------------------------------------------------------------------------------------------------

    def _vector(self, dtype: DType, width: int) -> str:
        name = f"{dtype.name}x{width}"
        t = self.dialect.stored(dtype)
        self.helpers.setdefault(
            name,
            f"typedef struct __attribute__((aligned({width * dtype.itemsize}))) {{ {t} at[{width}]; }} {name};",
        )
        return name

    def vector_load(self, dtype: DType, width: int, cache: str | None = None) -> str:
        """The helper that reads ``width`` aligned neighbours in one access, on CUDA through the caches ``cache``."""
        name, v = f"load_{dtype.name}x{width}", self._vector(dtype, width)
        bits = BITS[width * dtype.itemsize] if cache and self.dialect.name == "cuda" else ""
        name += f"_{cache}" if bits else ""
        if name not in self.helpers:
            m, t = self.dialect.memory, self.dialect.stored(dtype)
            parts = " ".join(f"to[{k}] = {self.load_text(f'v.at[{k}]', dtype)};" for k in range(width))
            read = f"const {v} v = *(const {m}{v}*)from;"
            if bits:
                read = f"{v} v;\n    *({bits}*)&v = __ld{cache}((const {bits}*)from);"
            self.helpers[name] = (
                f"{self.dialect.function} void {name}({self.c(dtype)}* to, const {m}{t}* from) {{\n"
                f"    {read}\n    {parts}\n}}"
            )
        return name

    def vector_store(self, dtype: DType, width: int, cache: str | None = None) -> str:
        """The helper that writes ``width`` aligned neighbours in one access, on CUDA through the caches ``cache``."""
        name, v = f"store_{dtype.name}x{width}", self._vector(dtype, width)
        bits = BITS[width * dtype.itemsize] if cache and self.dialect.name == "cuda" else ""
        name += f"_{cache}" if bits else ""
        if name not in self.helpers:
            m, t = self.dialect.memory, self.dialect.stored(dtype)
            args = ", ".join(f"{self.c(dtype)} x{k}" for k in range(width))
            parts = ", ".join(self.bits_text(f"x{k}", dtype) for k in range(width))
            self.helpers[name] = (
                f"{self.dialect.function} void {name}({m}{t}* to, {args}) {{\n"
                f"    const {v} v = {{{{{parts}}}}};\n    "
                + (f"__st{cache}(({bits}*)to, *(const {bits}*)&v);\n}}" if bits else f"*({m}{v}*)to = v;\n}}")
            )
        return name

    def shuffle(self, value: str, lane: object, dtype: DType, kind: str = "_xor") -> str:
        """What another lane of the warp has: the one numbered ``lane``, or this one's number XOR it."""
        members = (1 << min(32, self.threads)) - 1
        text = f"__shfl{kind}_sync({members:#x}, {'(int)' if dtype.bits < 32 else ''}{value}, {lane})"
        return f"({self.c(dtype)}){text}" if dtype.bits < 32 else text

    def bits_of_thread(self, bits: list[int], scale: int) -> str:
        """The number that these bits of the thread's number make, times ``scale``."""
        parts, k = [], 0
        while k < len(bits):
            n = 1
            while k + n < len(bits) and bits[k + n] == bits[k] + n:
                n += 1
            parts.append(
                times(
                    f"(thread >> {bits[k]} & {(1 << n) - 1})" if bits[k] else f"(thread & {(1 << n) - 1})",
                    scale << k,
                )
            )
            k += n
        return " + ".join(parts)

    # -- lines -----------------------------------------------------------------------------------------------------

    def open(self, text: str, op: Op) -> None:
        self.close()
        self.comment([op])
        self.line(text)
        self.depth += 1

    def reopen(self, text: str) -> None:
        self.close()
        self.depth -= 1
        self.line(text)
        self.depth += 1

    def shut(self) -> None:
        self.close()
        self.depth -= 1
        self.line("}")

    @contextmanager
    def guard(self, condition: str) -> Iterator[None]:
        if condition:
            self.line(f"if ({condition}) {{")
            self.depth += 1
        yield
        if condition:
            self.depth -= 1
            self.line("}")

    @contextmanager
    def once_per_element(self, layout: Layout) -> Iterator[None]:
        """Around a write to memory: of threads that hold copies, one writes."""
        self.close_unless(layout)
        with self.guard(f"(thread & {layout.copies}) == 0" if layout.copies else ""):
            yield

    @contextmanager
    def loop(self, layout: Layout, ops: list[Op], step: int = 1, **options: object) -> Iterator[Scope]:
        """A loop nest over a thread's registers, ``step`` at a time."""
        self.comment(ops)
        scope = Scope(self, layout, step, **options)  # type: ignore[arg-type]
        for head in scope.heads():
            self.line(head)
            self.depth += not head.startswith("#")
        yield scope
        bare = not scope.loops and bool(scope.declared)
        if bare:
            self.line("{")
            self.depth += 1
        self.lines += [("    " * self.depth + text, at) for text, at in (*scope.before, *scope.after)]
        for _ in scope.loops or [0] * bare:
            self.depth -= 1
            self.line("}")

    # -- tiles in registers ----------------------------------------------------------------------------------------

    def layout_of(self, v: Value) -> Layout:
        return self.arrays[v][1] if v in self.arrays else self.plan.layouts[v]

    def store_layout(self, op: Op) -> Layout:
        shape = op.operands[0].type.shape
        return self.plan.anchors[op] if shape else Layout((), (), ((),) * (self.threads.bit_length() - 1))

    def reduce_layout(self, op: Op) -> Layout:
        return self.plan.anchors[op]

    def own_layout(self, v: Value) -> Layout:
        """The layout in which a tile, or what is computed anew, is read where no other tile matters."""
        found = seen(v, self.made, lambda root: self.arrays[root][1] if root in self.arrays else None)
        return found or blocked(padded(v.type.shape), self.threads)

    def declare(self, v: Value, layout: Layout | None = None, initial: str = "") -> None:
        """Registers for a value; a tile whose thread holds one element, and a scalar, are plain variables."""
        if not v.type.shape:
            name = self.name(v)
            self.line(f"{self.ctype(v)} {name}{f' = {initial}' if initial else ''};")
            self.text[v] = name
            self.arrays[v] = (name, layout or Layout((), (), ()))
            return
        layout = layout or self.plan.layouts[v]
        name = self.name(v)
        self.arrays[v] = (name, layout)
        self.private_bytes += layout.registers * v.type.dtype.register.itemsize
        if layout.registers == 1:
            self.line(f"{self.ctype(v)} {name}{f' = {initial}' if initial else ''};")
            return
        self.line(f"{self.ctype(v)} {name}[{layout.registers}];")
        if initial:
            with self.loop(layout, []) as s:
                s.line(f"{self.cell(v, s)} = {initial};")

    def declare_for(self, v: Value) -> None:
        self.close()
        self.declare(v)

    def cell(self, v: Value, s: Scope, offset: int = 0) -> str:
        """The register of ``v`` at the place of a loop over ``v``'s own layout."""
        name, layout = self.arrays[v]
        return name if layout.registers == 1 else f"{name}[{s.register(offset)}]"

    def cell_in(self, v: Value, s: Scope, frame: Frame) -> str:
        """The register of ``v`` at the place of a loop over a layout from which it is looked at through ``frame``."""
        name, layout = self.arrays[v]
        if layout.registers == 1:
            return name
        found = s.layout.register_bits(layout, frame)
        assert found is not None, f"{name}: registers do not line up"
        return f"{name}[{s.gather(*found)}]"

    def materialise(self, v: Value, target: str, layout: Layout, op: Op) -> None:
        """Writes a value, whatever it is made of, into the registers ``target``."""
        if not v.type.shape:
            self.line(f"{target} = {self.scalar(v)};")
            return
        with self.loop(layout, [op]) as s:
            value = s.get(v)
            cell = target if layout.registers == 1 else f"{target}[{s.register()}]"
            if value != cell:
                s.line(f"{cell} = {value};")

    def carry(self, param: Value, start: Value) -> None:
        """Registers for what a loop carries, holding its first value."""
        self.close()
        self.declare(param)
        self.materialise(start, self.arrays[param][0], self.arrays[param][1], self.op)  # type: ignore[arg-type]

    def alias(self, v: Value, to: Value) -> None:
        self.arrays[v] = self.arrays[to]
        if not v.type.shape:
            self.text[v] = self.text[to]
        self.names[v] = self.names[to]

    def assign(self, targets: tuple[Value, ...], values: tuple[Value, ...]) -> None:
        """Parallel assignment: what is overwritten before it is read is copied first."""
        self.close()
        pairs = [(t, v) for t, v in zip(targets, values, strict=True) if self.arrays[t] != self.arrays.get(v)]
        written = {self.arrays[t][0] for t, _ in pairs}
        staged: list[tuple[str, Value, Layout, Value]] = []
        for t, v in pairs:
            reads = self.reads(v) - {self.arrays[t][0]}
            if reads & written:
                name, layout = self.fresh(self.arrays[t][0] + "_next"), self.arrays[t][1]
                self.line(f"{self.ctype(t)} {name}{f'[{layout.registers}]' if layout.registers > 1 else ''};")
                self.materialise(v, name, layout, self.op)  # type: ignore[arg-type]
                staged.append((name, t, layout, v))
        for t, v in pairs:
            stage = next((s for s in staged if s[1] is t), None)
            target, layout = self.arrays[t]
            if stage is None:
                self.materialise(v, target, layout, self.op)  # type: ignore[arg-type]
            elif layout.registers == 1:
                self.line(f"{target} = {stage[0]};")
            else:
                with self.loop(layout, []) as s:
                    s.line(f"{target}[{s.register()}] = {stage[0]}[{s.register()}];")

    def reads(self, v: Value) -> set[str]:
        """The C variables that reading ``v`` reads."""
        if v in self.arrays:
            return {self.arrays[v][0]}
        if v in self.text:
            return {w for w in re.findall(r"[A-Za-z_]\w*", self.text[v])}
        op = self.made.get(v)
        return set().union(*(self.reads(x) for x in op.operands)) if op else set()

    # -- scalars ---------------------------------------------------------------------------------------------------

    def define_scalar(self, op: Op) -> None:
        v = op.result
        args = [self.scalar(x) for x in op.operands]
        text = self.expression(op, [parenthesised(a) for a in args])
        simple = re.fullmatch(r"[\w.]+|\(-[\w.]+\)", text)
        if simple or (not v.name and self.count.get(v, 0) < 2):
            self.text[v] = text
            return
        self.comment([op])
        self.text[v] = self.name(v)
        self.line(
            f"const {self.ctype(v)} {self.text[v]} = {text};"
            if not v.type.pointer
            else f"{self.ctype(v)} {self.text[v]} = {text};"
        )

    # -- groups ----------------------------------------------------------------------------------------------------

    def join(self, op: Op, element: Joined | None) -> None:
        """Adds an op to the open loop over its layout, or opens one."""
        if not op.result.type.shape:
            self._scalar_statement(op, element)
            return
        layout = self.plan.layouts[op.result]
        if self.group and (self.group.layout != layout or self._crosses(op)):
            self.close()
        if self.group is None:
            self.group = Group(layout)
        self.group.members.append((op, element))

    def _crosses(self, op: Op) -> bool:
        """True if ``op`` reads, through a view, another element of a tile that the open loop is still making."""
        assert self.group is not None
        return any(v not in self.group.results() and self._depends(v, self.group.results()) for v in op.operands)

    def _depends(self, v: Value, on: set[Value]) -> bool:
        if v in on:
            return True
        op = self.made.get(v)
        return op is not None and OPS[op.name].kind == "view" and self._depends(op.operands[0], on)

    def _scalar_statement(self, op: Op, element: Joined | None) -> None:
        self.close_if_needed(op)
        self.comment([op])
        s = Scope(self, Layout((), (), ()), 1)
        assert element is not None
        self.declare(op.result)
        element(self, op, s)
        for text, at in [*s.before, *s.after]:
            self.lines.append(("    " * self.depth + text, at))

    def close_if_needed(self, op: Op) -> None:
        if self.group and any(self._depends(v, self.group.results()) for v in op.operands):
            self.close()

    def close_unless(self, layout: Layout) -> None:
        """A guarded loop cannot share the open one."""
        if self.group and (self.group.layout != layout or layout.copies):
            self.close()

    def close_with(self, op: Op, layout: Layout, element: Joined) -> None:
        """Runs ``op`` at the end of the open loop, if it walks the same layout and loads nothing, and closes it."""
        loads = self.group and any(OPS[m.name].reads for m, _ in self.group.members)
        if self.group and (self.group.layout != layout or loads or self._crosses(op)):
            self.close()
        if self.group is None:
            self.group = Group(layout)
        self.group.members.append((op, element))
        self.close()

    def close(self) -> None:
        """Writes the open loop."""
        group, self.group = self.group, None
        if group is None:
            return
        inside = {op for op, _ in group.members}
        outer_op = self.op
        for op, _ in group.members:
            for v in op.results:
                if v.type.shape and op.name != "reduce" and self._escapes(v, inside):
                    self.declare(v)
        ops = [op for op, _ in group.members]
        corner = self._corner(ops, group.layout) if self.threads == 1 else ""
        self.comment(ops)
        if corner:
            self.line(f"if ({corner}) {{")
            self.depth += 1
            self._body(group, whole=True)
            self.depth -= 1
            self.line("} else {")
            self.depth += 1
            self._body(group, whole=False)
            self.depth -= 1
            self.line("}")
        else:
            self._body(group, whole=False)
        self.op = outer_op

    def _body(self, group: Group, whole: bool) -> None:
        with self.loop(group.layout, [], whole=whole) as s:
            for op, element in group.members:
                self.op = op
                if element:
                    element(self, op, s)
                else:
                    args = [parenthesised(s.get(v)) for v in op.operands]
                    s.define(op.result, self.expression(op, args))

    def _corner(self, ops: list[Op], layout: Layout) -> str:
        """The condition under which no mask of these accesses is off, if one test can tell: on a CPU, one program walks
        its whole tile in a loop, and the loop without tests is the one that the C compiler vectorises."""
        masks = dict.fromkeys(m for m in map(mask_of, ops) if m is not None)
        if not masks or not all(m in self.plan.monotone for m in masks):
            return ""
        shapes = {m.type.shape for m in masks}
        if len(shapes) > 1:
            return ""
        s = Scope(self, layout, 1, corner=shapes.pop())
        conditions = [s.get(m) for m in masks]
        self.lines += [("    " * self.depth + text, at) for text, at in s.before]
        return " && ".join(parenthesised(c) if len(conditions) > 1 else c for c in conditions)

    def _escapes(self, v: Value, inside: set[Op]) -> bool:
        return self.count.get(v, 0) > sum(op.operands.count(v) for op in inside)

    def by_vectors(self, op: Op, layout: Layout, width: int, body: Callable[[bool], None]) -> None:
        """``body(whole)`` writes a loop of vector accesses. If a thread has several, and one test tells that none of
        its elements is masked off, a loop without tests comes first."""
        mask = mask_of(op)
        if mask not in self.plan.monotone or layout.registers <= width:
            return body(False)
        self.close()  # an open loop belongs before the branches
        s = Scope(self, layout, 1, last=True)
        test = s.condition(op)
        self.comment([op])
        self.lines += [("    " * self.depth + text, at) for text, at in s.before]
        self.line(f"if ({test}) {{")
        self.depth += 1
        body(True)
        self.reopen("} else {")
        body(False)
        self.shut()
        return None

    # -- masks -----------------------------------------------------------------------------------------------------

    def whole(self, op: Op, s: Scope, width: int) -> str:
        """The condition under which ``width`` neighbours are all on; empty if they always are."""
        mask = mask_of(op)
        if mask is None and not s.padding(op.operands[0].type.shape):
            return ""
        dim = s.layout.runs()[0].dim
        shape = op.operands[0].type.shape
        padded = s.layout.shape[dim] != shape[dim]
        if mask is None or self.plan.facts[mask].constant_along(dim) and not padded:
            return s.condition(op)
        if mask in self.plan.monotone:
            return s.shifted(width - 1).condition(op)
        return " && ".join(parenthesised(s.shifted(k).condition(op)) for k in range(width))

    # -- blocks ----------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.emit(op)
        self.close_for(block.yields)

    def close_for(self, values: tuple[Value, ...]) -> None:
        if self.group and any(self._depends(v, self.group.results()) for v in values):
            self.close()

    def emit(self, op: Op) -> None:
        outer, self.op = self.op, op
        entry = OPS[op.name]
        if op in self.plan.fences:
            self.close()
            self.barrier()
        if entry.kind == "statement":
            if entry.writes and self.plan.vectors.get(op, 1) > 1:
                self.close()
            elif entry.moves and self.plan.vectors.get(op, 1) > 1:
                self.close_if_needed(op)
                self.declare(op.result)
            elif op.name == "reduce":
                self.close_if_views(op)
            elif not entry.moves:
                self.close()
            if op.name == "convert":
                self.declare(op.result)
            entry.emit(self, op)
        elif entry.kind != "view" and op.results:
            if not op.result.type.shape:
                self.define_scalar(op)
            elif op.result not in self.plan.cheap:
                self.join(op, None)
        self.op = outer

    def close_if_views(self, op: Op) -> None:
        if self.group and self._crosses(op):
            self.close()
