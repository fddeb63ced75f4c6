"""The emitter: walks a planned kernel and writes C.

A tile that sits in registers is a C array with one element per register of a thread. Elementwise ops on tiles of one
layout share one loop over the registers (a *group*); a load, a store or a reduction that reads a group's result joins
its loop or follows it. Cheap values are never stored: they are computed where they are needed, from coordinates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

from ..dtypes import DType, float32, int64
from ..errors import Loc
from ..ir import Block, Op, Value
from ..layout import Frame, Layout, blocked
from ..ops import OPS, mask_of

# >>> stage 9
from ..ops.feed import Places

# <<<
# >>> stage 8
from ..ops.tensor import Held, Placed

# <<<
from ..passes.plan import Plan, identity, padded, seen, viewed
from ..passes.widen import offsets
from .dialect import Dialect
from .scope import LONG, SEVERAL, Scope, thread_bits, times
from .writer import CALLED, Writer, parenthesised

Joined = Callable[["Emitter", Op, Scope], None]
SCALAR = Layout((), (), ())
LANES = 8  # elements that a CPU computes at once where the C compiler would not see that it can
BY_LANES = CALLED - {"sin", "cos", "tan"}  # whose vectors are less exact for great numbers
BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}  # CUDA's words


@dataclass
class Group:
    """An open loop over the registers of a layout: its members, and the ops whose operands it may not outlive."""

    layout: Layout
    members: list[tuple[Op, Joined | None]] = field(default_factory=list)
    results: dict[Value, None] = field(default_factory=dict)

    def add(self, op: Op, element: Joined | None) -> None:
        self.members.append((op, element))
        self.results |= dict.fromkeys(op.results)


class Emitter(Writer):
    """Emits one planned kernel."""

    def __init__(self, plan: Plan, dialect: Dialect, programs: int = 1):
        super().__init__(plan.kernel, plan.threads, dialect)
        self.plan, self.programs, self.offsets = plan, programs, offsets(plan.kernel)
        self.alone = self.threads == 1 and dialect.name == "opencl"  # one thread of a CPU walks the whole tile
        self.locals: dict[tuple[Value, Frame, int], str] = {}
        self.local: set[Value] = set()  # the values of those
        self.arrays: dict[Value, tuple[str, Layout]] = {}  # tiles in registers
        # >>> stage 8
        self.placed: dict[Value, Placed | Held] = {}  # tiles in shared memory, or as good as there
        self.staged: dict[Value, Callable] = {}  # tiles that go there when they are stored
        # <<<
        # >>> stage 9
        self.rings: dict[int, Placed] = {}
        self.open_rings: list[int] = []  # where the shared memory of each begins
        self.feeds: dict[int, Places] = {}
        # <<<
        self.group: Group | None = None
        self.ends: dict[tuple, tuple[str, int]] = {}  # where masks end: the variable, and how deep in blocks it is

    def fits(self, v: Value) -> bool:
        """True if integer arithmetic that gives ``v`` cannot wrap around; that of offsets is as if without end."""
        t, info = v.type.dtype, self.plan.facts.get(v)
        low, high = t.range
        return v in self.offsets and t is int64 or bool(info and low <= info.low and info.high <= high)

    def local_name(self, v: Value, frame: Frame, offset: int) -> str:
        """The variable for a value seen through ``frame``, ``offset`` registers further on: the same in every loop."""
        key = v, frame, offset
        if key not in self.locals:
            base = self.name(v)
            again = v in self.local or offset
            self.locals[key] = self.fresh(f"{base}_{offset}" if offset else base) if again else base
            self.local.add(v)
        return self.locals[key]

    # -- memory ----------------------------------------------------------------------------------------------------

    def vector(self, verb: str, dtype: DType, width: int, cache: str | None = None, masked: bool = False) -> str:
        """The helper that does a "load" or "store" of ``width`` aligned neighbours in one access, on CUDA through the
        caches ``cache``. A ``masked`` load takes two arguments more: if it is on, and what to give elsewhere."""
        v, m, t, c = f"{dtype.name}x{width}", self.dialect.memory, self.dialect.stored(dtype), self.c(dtype)
        cuda = self.dialect.name == "cuda"
        whole = BITS[width * dtype.itemsize] if cuda else v
        name = f"{verb}_{v}{f'_{cache}' if cache and cuda else ''}{'_if' * masked}"
        struct = f"typedef struct __attribute__((aligned({width * dtype.itemsize}))) {{ {t} at[{width}]; }} {v};"
        self.helpers.setdefault(v, struct)
        if name in self.helpers:
            return name
        if verb == "load":
            takes = f"{c}* to, const {m}{t}* from{f', bool on, {c} other' if masked else ''}"
            place = f"(const {m}{whole}*)from"
            access = f"__ld{cache}({place})" if cache and cuda else f"*{place}"
            fill = f" = {{{{{', '.join([self.bits_text('other', dtype)] * width)}}}}}" if masked else ""
            body = (
                f"{v} v{fill};",
                f"{'if (on) ' * masked}{f'*({whole}*)&v' if cuda else 'v'} = {access};",
                " ".join(f"to[{k}] = {self.load_text(f'v.at[{k}]', dtype)};" for k in range(width)),
            )
        else:  # nvcc would share what an assignment stores with the branch that stores the elements one by one
            takes = ", ".join([f"{m}{t}* to", *(f"{c} x{k}" for k in range(width))])
            parts = ", ".join(self.bits_text(f"x{k}", dtype) for k in range(width))
            access = f"__st{cache or 'wb'}(({whole}*)to, *(const {whole}*)&v);" if cuda else f"*({m}{v}*)to = v;"
            body = f"const {v} v = {{{{{parts}}}}};", access
        return self.function(name, f"void {name}({takes}) {{", *body)

    def shuffle(self, value: str, lane: object, dtype: DType, kind: str = "_xor") -> str:
        """What another lane of the warp has: the one numbered ``lane``, or this one's number XOR it."""
        members, width = (1 << min(32, self.threads * self.programs)) - 1, ""
        # >>> stage 4
        if self.programs > 1 and self.threads < 32:
            if any(op.blocks for op in self.kernel.ops()):  # the programs of a warp may have to wait for each other
                self.meet()
            width = f", {self.threads}" * (kind != "_xor")
        # <<<
        small = dtype.register.bits < 32  # floats of 16 bits are floats in a thread
        text = f"__shfl{kind}_sync({members:#x}, {'(int)' if small else ''}{value}, {lane}{width})"
        return f"({self.c(dtype)}){text}" if small else text

    def bits_of_thread(self, bits: list[int], scale: int) -> str:
        """The number that these bits of the thread's number make, times ``scale``."""
        parts = []
        for _, run in groupby(enumerate(bits), lambda at: at[1] - at[0]):
            (k, low), *more = run
            parts.append(times(thread_bits(low, 1 + len(more)), scale << k))
        return " + ".join(parts)

    def root(self, v: Value) -> Value:
        """The tile or the scalar that ``v`` is a view of."""
        return viewed(v, self.made, identity(v))[0]

    # >>> stage 8
    def access(self, verb: str, dtype: DType, width: int) -> str:
        """The helper that does a "put" to or a "get" from shared memory of ``width`` neighbours at once (CUDA)."""
        name, kind, stored = f"{verb}_{dtype.name}x{width}", BITS[width * dtype.itemsize], self.dialect.stored(dtype)
        if verb == "put":
            takes = ", ".join(["char* to", *(f"{self.c(dtype)} x{k}" for k in range(width))])
            values = ", ".join(self.bits_text(f"x{k}", dtype) for k in range(width))
            body = f"alignas({kind}) const {stored} v[{width}] = {{{values}}};", f"*({kind}*)to = *(const {kind}*)v;"
        else:
            takes = f"{self.c(dtype)}* to, const char* from"
            parts = " ".join(f"to[{k}] = {self.load_text(f'v[{k}]', dtype)};" for k in range(width))
            body = f"alignas({kind}) {stored} v[{width}];", f"*({kind}*)v = *(const {kind}*)from;", parts
        return self.function(name, f"void {name}({takes}) {{", *body)

    def operand(self, v: Value) -> tuple[Placed | Held, dict[int, int]]:
        """A tile in shared memory that ``v`` is, or is a view of, and which dimension of ``v`` each of its own is."""
        root, frame = viewed(v, self.made, identity(v))
        return self.placed[root], {d: bits[0][0] for d, bits in enumerate(frame) if bits}  # type: ignore[index]

    # <<<
    # -- lines -----------------------------------------------------------------------------------------------------

    def write(self, lines: list[tuple[str, Loc | None]]) -> None:
        self.lines += [("    " * self.depth + text, at) for text, at in lines]

    def open(self, text: str, op: Op | None = None) -> None:
        self.close()
        self.comment([op] if op else [])
        self.line(text)
        self.depth += 1

    def shut(self, text: str = "}") -> None:
        """Ends a block; what was found out in it is not there any more."""
        self.close()
        self.depth -= 1
        self.ends = {key: (name, depth) for key, (name, depth) in self.ends.items() if depth <= self.depth}
        self.line(text)

    def reopen(self, text: str) -> None:
        self.shut(text)
        self.depth += 1

    @contextmanager
    def guard(self, condition: str) -> Iterator[None]:
        if condition:
            self.open(f"if ({condition}) {{")
        yield
        if condition:
            self.shut()

    def both_ways(self, test: str, body: Callable[[bool], None]) -> None:
        """``body(True)`` where ``test`` holds, ``body(False)`` elsewhere; without a test, that alone."""
        if test:
            self.open(f"if ({test}) {{")
            body(True)
            self.reopen("} else {")
        body(False)
        if test:
            self.shut()

    @contextmanager
    def once_per_element(self, layout: Layout) -> Iterator[None]:
        """Around a write to memory: of threads that hold copies, one writes."""
        if self.group and (self.group.layout != layout or layout.copies):
            self.close()  # a guarded loop cannot share the open one
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
        bare = not scope.opened and bool(scope.declared)
        if bare:
            self.line("{")
            self.depth += 1
        self.write([*scope.before, *scope.after])
        for _ in scope.opened or [0] * bare:
            self.depth -= 1
            self.line("}")

    def scope(self, layout: Layout) -> Scope:
        """A place in a loop over a layout, to look at."""
        return Scope(self, layout, 1)

    # -- tiles in registers ----------------------------------------------------------------------------------------

    def layout_of(self, v: Value) -> Layout:
        return self.arrays[v][1] if v in self.arrays else self.plan.layouts[v]

    def store_layout(self, op: Op) -> Layout:
        shape = op.operands[0].type.shape
        return self.plan.anchors[op] if shape else Layout((), (), ((),) * (self.threads.bit_length() - 1))

    def own_layout(self, v: Value) -> Layout:
        """The layout in which a tile, or what is computed anew, is read where no other tile matters."""
        found = seen(v, self.made, lambda root: self.arrays[root][1] if root in self.arrays else None)
        return found or blocked(padded(v.type.shape), self.threads)

    def declare(self, v: Value, layout: Layout | None = None, initial: str = "") -> None:
        """Registers for a value that has none; a tile whose thread holds one element, and a scalar, are plain
        variables."""
        if v in self.arrays:
            return
        name = self.name(v)
        if v.type.shape:
            layout = layout or self.plan.layouts[v]
            self.sizes[v] = layout.registers * v.type.dtype.register.itemsize
        else:
            layout, self.text[v] = layout or SCALAR, name
        self.arrays[v] = (name, layout)
        if layout.registers == 1:
            self.line(f"{self.ctype(v)} {name}{f' = {initial}' if initial else ''};")
            return
        self.line(f"{self.ctype(v)} {name}[{layout.registers}];")
        if initial:
            with self.loop(layout, []) as s:
                s.line(f"{self.cell(v, s)} = {initial};")

    def cell(self, v: Value, s: Scope, offset: int = 0) -> str:
        """The register of ``v`` at the place of a loop over ``v``'s own layout."""
        return at(*self.arrays[v], s, offset)

    def cell_in(self, v: Value, s: Scope, frame: Frame) -> str:
        """The register of ``v`` at the place of a loop over a layout from which it is looked at through ``frame``."""
        name, layout = self.arrays[v]
        if layout.registers == 1:
            return name
        found = s.layout.register_bits(layout, frame)
        assert found is not None, f"{name}: registers do not line up"
        return f"{name}[{s.gather(*found)}]"

    def fill(self, targets: tuple[Value, ...], values: tuple[Value, ...]) -> None:
        """Registers for ``targets`` that hold ``values``. What the open loop makes for them alone, it makes there."""
        self.comment([self.op] if self.op else [])
        pairs, group = tuple(zip(targets, values, strict=True)), self.group
        for target, v in pairs:
            self.declare(target)
            if group and v in group.results and self.count[v] == 1 and group.layout == self.layout_of(target):
                self.arrays[v] = self.arrays[target]
        self.close()
        for target, v in pairs:
            if self.arrays.get(v) != self.arrays[target]:
                self.materialise(v, *self.arrays[target])

    def materialise(self, v: Value, target: str, layout: Layout) -> None:
        """Writes a value, whatever it is made of, into the registers ``target``, if it is not there."""
        if self.arrays.get(v) == (target, layout):
            return
        if not v.type.shape:
            self.line(f"{target} = {self.scalar(v)};")
            return
        assert self.op
        with self.loop(layout, [self.op]) as s:
            value, cell = s.get(v), at(target, layout, s)
            if value != cell:
                s.line(f"{cell} = {value};")

    def in_place(self, op: Op) -> None:
        """A tile that a loop carries is worked on where it is, if every step to its next value goes register by
        register and nothing else reads what is overwritten."""
        readers = {v: inner for inner in op.blocks[0].ops for v in inner.operands}
        for _, param, end, _ in op.carried:
            steps, v = [], param
            while v is not end and self.count.get(v) == 1 and v in readers and steady(readers[v], v):
                steps.append(readers[v])
                v = readers[v].result
            if v is end and v.type.shape:
                for step, then in zip(steps, [*steps[1:], None], strict=True):
                    alike = self.plan.layouts.get(step.result) == self.arrays[param][1]
                    last = then is None or "matmul" in (step.name, then.name)
                    if alike and step.result.type == param.type and last:
                        self.arrays[step.result] = self.arrays[param]

    def alias(self, v: Value, to: Value) -> None:
        self.arrays[v] = self.arrays[to]
        if not v.type.shape:
            self.text[v] = self.text[to]
        self.names[v] = self.names[to]
        # >>> stage 9
        if to in self.placed:
            self.placed[v] = self.placed[to]
        # <<<

    def assign(self, targets: tuple[Value, ...], values: tuple[Value, ...]) -> None:
        """Parallel assignment: what is overwritten before it is read is copied first."""
        self.close()
        pairs = [(t, v) for t, v in zip(targets, values, strict=True) if self.arrays[t] != self.arrays.get(v)]
        written = {self.arrays[t][0] for t, _ in pairs}
        staged: dict[Value, str] = {}
        for t, v in pairs:
            name, layout = self.arrays[t]
            if (self.reads(v) - {name}) & written:
                staged[t] = self.fresh(name + "_next")
                self.line(f"{self.ctype(t)} {staged[t]}{f'[{layout.registers}]' if layout.registers > 1 else ''};")
                self.materialise(v, staged[t], layout)
        for t, v in pairs:
            target, layout = self.arrays[t]
            if t not in staged:
                self.materialise(v, target, layout)
                continue
            with self.loop(layout, []) as s:
                s.line(f"{at(target, layout, s)} = {at(staged[t], layout, s)};")

    def reads(self, v: Value) -> set[str]:
        """The C variables that reading ``v`` reads."""
        found: set[str] = set()
        queue, seen = [v], {v}
        while queue:
            v = queue.pop()
            if v in self.arrays:
                found.add(self.arrays[v][0])
            elif v in self.text:
                found.update(re.findall(r"[A-Za-z_]\w*", self.text[v]))
            elif v in self.made:  # a value is looked at once, however many ways lead to it
                queue += [x for x in self.made[v].operands if x not in seen]
                seen.update(self.made[v].operands)
        return found

    # -- lanes of a CPU --------------------------------------------------------------------------------------------

    def by_lanes(self, op: Op) -> bool:
        """True for a function that is not inlined, on so many floats that OpenCL's vectors pay for one more array."""
        t, (v, *more) = op.result.type.dtype, op.operands
        if not (self.alone and op.name in BY_LANES and t.is_float and v.type.dtype is t and not more):
            return False
        called = re.findall(r"\w+(?=\()", OPS[op.name].emit(self, op, "x"))
        return not BY_LANES.isdisjoint(called) and 4 * LANES <= self.plan.layouts[op.result].registers <= 1 << 14

    def call_by_lanes(self, op: Op) -> None:
        """A function of one tile: its argument goes where the result will be."""
        self.fill(op.results, op.operands)
        name, layout = self.arrays[op.result]
        x, dtype = self.fresh("x"), op.result.type.dtype
        self.line(f"for (int r = 0; r < {layout.registers}; r += {LANES}) {{")
        self.line(f"    const {self.c(dtype)}{LANES} {x} = vload{LANES}(0, {name} + r);")
        self.line(f"    vstore{LANES}({OPS[op.name].emit(self, op, x)}, 0, {name} + r);")
        self.line("}")
        if dtype.is_narrow:
            with self.loop(layout, []) as s:
                cell = self.cell(op.result, s)
                s.line(f"{cell} = {self.use('round_' + dtype.name)}({cell});")

    # -- scalars ---------------------------------------------------------------------------------------------------

    def define_scalar(self, op: Op) -> None:
        v = op.result
        args = [self.scalar(x) for x in op.operands]
        text = self.expression(op, [parenthesised(a) for a in args])
        simple = re.fullmatch(r"[\w.]+|\(-[\w.]+\)", text)
        dear = re.search(r"\w\(| [/%] ", text)  # where a tile is made, it would be computed for each element
        if simple or (not v.name and not dear and self.count.get(v, 0) < 2 and len(text) < LONG):
            self.text[v] = text
            return
        self.comment([op])
        self.text[v] = self.name(v)
        self.line(self.definition(v, self.text[v], text))

    # -- groups ----------------------------------------------------------------------------------------------------

    def join(self, op: Op, element: Joined | None) -> None:
        """Adds an op to the open loop over its layout, or opens one."""
        if not op.result.type.shape:
            assert element is not None
            self.close_for(op.operands)
            self.comment([op])
            s = Scope(self, SCALAR, 1)
            self.declare(op.result)
            element(self, op, s)
            return self.write([*s.before, *s.after])
        layout = self.plan.layouts[op.result]
        if self._divides(op, layout):
            self.close()
        return self._enter(op, element, layout)

    def _divides(self, op: Op, layout: Layout) -> bool:
        """True for a division of float32 whose divisor is the same for many elements of a thread: what depends on it
        alone is computed once, where that pays."""
        if op.name != "truediv" or op.result.type.dtype.register is not float32 or self.dialect.name != "cuda":
            return False
        root, frame = viewed(op.operands[1], self.made, identity(op.operands[1]))
        if root.type.shape and root not in self.arrays or self.is_constant(root):
            return False
        bits = layout.register_bits(self.arrays[root][1], frame) if root.type.shape else ([], 0)
        return bits is not None and layout.registers >= 2 << len(bits[0])

    def _enter(self, op: Op, element: Joined | None, layout: Layout) -> None:
        if self.group and (self.group.layout != layout or self._crosses(op)):
            self.close()
        self.group = self.group or Group(layout)
        self.group.add(op, element)

    def _crosses(self, op: Op) -> bool:
        """True if ``op`` reads, through a view, another element of a tile that the open loop is still making."""
        assert self.group is not None
        return any(v not in self.group.results and self.root(v) in self.group.results for v in op.operands)

    def close_for(self, values: tuple[Value, ...]) -> None:
        """Closes the open loop if it makes one of these."""
        if self.group and not self.group.results.keys().isdisjoint(map(self.root, values)):
            self.close()

    def close_with(self, op: Op, layout: Layout, element: Joined) -> None:
        """Runs ``op`` at the end of the open loop, if it walks the same layout and loads nothing, and closes it. What
        writes nothing may also follow loads where one thread walks the tile."""
        if self.group and not (self.alone and op.results) and any(OPS[m.name].reads for m, _ in self.group.members):
            self.close()
        self._enter(op, element, layout)
        self.close()

    def close(self) -> None:
        """Writes the open loop."""
        group, self.group = self.group, None
        if group is None:
            return
        outer_op, ops = self.op, [op for op, _ in group.members]
        inside = Counter(v for op in ops for v in op.operands)
        for v in group.results:
            if v.type.shape and v not in self.arrays and self.count.get(v, 0) > inside[v]:
                self.declare(v)
        self.comment(ops)
        if not (self.alone and self._split(group)):
            quotient = self._quotient(ops, group.layout)
            test = self._reach(ops[0].operands, group.layout, quotient) if quotient else ""
            self.both_ways(test, lambda near: self._body(group, {ops[0]: quotient} if near else {}))
        self.op = outer_op

    def _quotient(self, ops: list[Op], layout: Layout) -> str:
        """The helper by which the first op of a loop divides, if it may be one. What a quotient is only there to be
        rounded to tells how exact it has to be."""
        if not self._divides(ops[0], layout):
            return ""
        casts = [op for op in ops if op.name == "cast" and op.operands == ops[0].results]
        given = casts[-1] if casts and self.count[ops[0].result] == 1 else ops[0]
        return "quotient_for_16_bits" if given.result.type.dtype.is_narrow else "quotient"

    def _body(self, group: Group, short: dict[Op, str]) -> None:
        self.short = short
        with self.loop(group.layout, [], several=self._several(group)) as s:
            self._fill(group, s)

    def _several(self, group: Group) -> bool:
        """True for a loop that waits for its one partial result, where the C compiler may keep several."""
        return self.alone and any(op.name == "reduce" and op.result.type.dtype.is_float for op, _ in group.members)

    def _reach(self, operands: tuple[Value, ...], layout: Layout, quotient: str) -> str:
        """The condition under which a division may be multiplications by the divisor's reciprocal, for all elements."""
        name = self.fresh("reach")
        self.line(f"{self.use('Reach')} {name};")
        with self.loop(layout, []) as s:
            tested = operands if quotient == "quotient" else operands[1:]
            s.line(f"{name}.add({', '.join(map(s.get, tested))});")
        return f"{name}.near()"

    def _fill(self, group: Group, s: Scope, off: Iterable[Op] = ()) -> None:
        """The body of a group's loop, without the accesses ``off``."""
        for op, element in group.members:
            self.op = op
            if op in off:
                for v in op.results:
                    zero = self.dialect.literal(0, v.type.dtype)
                    s.define(v, s.get(op.operands[2]) if len(op.operands) > 2 else zero)
            elif element:
                element(self, op, s)
            else:
                args = [parenthesised(s.get(v)) for v in op.operands]
                s.define(op.result, self.expression(op, args))

    def _split(self, group: Group) -> bool:
        """Where the masks are on up to some place of the innermost loop, as ``i < n`` is: finds that place, from the
        end; then a loop up to it and one for the rest, both without tests, so that the C compiler vectorises them."""
        layout, moves = group.layout, [op for op, _ in group.members if OPS[op.name].moves]
        tested = [op for op in moves if mask_of(op) is not None or op.operands[0].type.shape != layout.shape]
        tests = {(mask_of(op), op.operands[0].type.shape): op for op in tested}
        regular = self.plan.monotone.issuperset({mask for mask, _ in tests} - {None})
        if not (tested and regular and layout.registers > 1):
            return False
        on, off = Scope(self, layout, 1, whole=True), Scope(self, layout, 1)
        r, end, (*outer, _) = on.variable(on.runs[0]), 1 << on.runs[0].bits, on.heads()
        for text in outer:
            self.open(text)
        last, _ = self.ends.get((layout, *tests), ("", 0))
        if not last:
            last = self.fresh("last")
            self.ends[layout, *tests] = last, self.depth
            s = Scope(self, layout, 1, counter=last)
            texts = [s.condition(op) for op in tests.values()]
            s.line(f"if ({' && '.join(map(parenthesised, texts)) if len(texts) > 1 else texts[0]}) break;")
            self.line(f"int {last} = {end - 1};")
            self._loop(f"for (; {last} >= 0; --{last}) {{", s)
        self._fill(group, on)
        if self._several(group):
            self.line(SEVERAL)
        self._loop(f"for (int {r} = 0; {r} <= {last}; ++{r}) {{", on)
        others = (op for op, element in group.members if element and op not in tested and not OPS[op.name].reads)
        if any(others) or not self.arrays.keys().isdisjoint(group.results):
            self._fill(group, off, tested if len(tests) == 1 else ())
            self._loop(f"for (int {r} = {last} + 1; {r} < {end}; ++{r}) {{", off)
        for _ in outer:
            self.shut()
        return True

    def _loop(self, head: str, s: Scope) -> None:
        self.open(head)
        self.write([*s.before, *s.after])
        self.shut()

    def by_vectors(self, op: Op, layout: Layout, width: int, body: Callable[[bool], None]) -> None:
        """``body(whole)`` writes a loop of vector accesses. If a thread has several, and one test tells that none of
        its elements is masked off, a loop without tests comes first."""
        test = ""
        if mask_of(op) in self.plan.monotone and layout.registers > width:
            self.close()  # an open loop belongs before the branches
            s = Scope(self, layout, 1, last=True)
            test = s.condition(op)
            self.comment([op])
            self.write(s.before)
        self.both_ways(test, body)

    # -- masks -----------------------------------------------------------------------------------------------------

    def even(self, op: Op, layout: Layout, width: int) -> bool:
        """True if ``width`` neighbours are all on or all off, wherever an access starts."""
        mask, dim = mask_of(op), layout.runs()[0].dim
        return mask is None or self.plan.even.get(mask, (1,) * (dim + 1))[dim] >= width

    def whole(self, op: Op, s: Scope, width: int) -> str:
        """The condition under which ``width`` neighbours are all on; empty if they always are."""
        if self.even(op, s.layout, width):
            return s.condition(op)
        mask = mask_of(op)
        if mask in self.plan.monotone:
            return s.shifted(width - 1).condition(op)
        return " && ".join(parenthesised(s.shifted(k).condition(op)) for k in range(width))

    # -- blocks ----------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.emit(op)
        # >>> stage 8
        self.arrive(tuple(self.sent))
        # <<<
        self.close_for(block.yields)

    # >>> stage 8
    def arrive(self, values: tuple[Value, ...]) -> None:
        """Waits for products that are on their way, and for those sent before them, if these values are made of them;
        what was sent later goes on meanwhile."""
        found = list(self.sent)
        if found and (last := max((found.index(v) + 1 for v in values if v in self.sent), default=0)):
            self.close()
            done = [self.sent.pop(v) for v in reversed(found[:last])]
            for verb, (sums, named) in zip(("wait", *["set"] * last), done, strict=False):
                self.line(f"{named(verb, later=len(self.sent))}({sums});")
            self.follow()

    def follow(self) -> None:
        """Writes lines that wait for no product any more."""
        ready = [line for values, line in self.after if values.isdisjoint(self.sent)]
        self.after = [pair for pair in self.after if not pair[0].isdisjoint(self.sent)]
        for line in ready:
            self.line(line)

    # <<<

    def emit(self, op: Op) -> None:
        outer, self.op = self.op, op
        entry = OPS[op.name]
        # >>> stage 8
        self.arrive(tuple(self.sent) if op.blocks or entry.effect and not entry.aside else op.operands)
        if op.blocks and self.waiting:
            self.close()
            self.barrier()
        # <<<
        if op in self.plan.fences:
            self.close()
            self.barrier()
        if entry.kind == "statement":
            if not entry.joins:
                self.close()
            entry.emit(self, op)
        elif entry.kind != "view" and op.results:
            if not op.result.type.shape:
                self.define_scalar(op)
            elif op.result not in self.plan.cheap:
                if self.by_lanes(op):
                    self.call_by_lanes(op)
                else:
                    self.join(op, None)
        self.op = outer


def steady(op: Op, v: Value) -> bool:
    """True for an op that reads ``v`` at the place alone where it writes."""
    product = op.name == "matmul" and v is op.operands[2]
    return product or OPS[op.name].kind in ("elementwise", "typed") and len(op.results) == 1


def at(name: str, layout: Layout, s: Scope, offset: int = 0) -> str:
    """The register of the variable ``name`` at the place of a loop over its ``layout``."""
    return name if layout.registers == 1 else f"{name}[{s.register(offset)}]"
