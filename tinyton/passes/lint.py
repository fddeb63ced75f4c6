"""What is legal but wrong, found in the IR: a masked load whose fill gets into a reduction, sums that are carried
through a loop in 16 bits.

A fill is followed, not guessed at. One lane of the tile is computed twice with NumPy's meaning of each op, the mask on
and then off, for a handful of random values of everything that is not known; the fill is right if the reduction of both
is the first.

    x = load p, mask=i < n, other=-inf      on: 0.3, -7.1, …     off: -inf, -inf, …
    e = exp x - m                           on: 0.9, 0.02, …     off: 0, 0, …
    s = sum e                               on + off == on: right

So a fill of 0 into a sum, of -inf into a maximum, into a sum of exponentials, or of 0 into a maximum of squares is
right, and so is whatever a `where` with the same mask puts in its place.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, cached_property
from random import Random
from typing import NamedTuple

import numpy as np

from ..dtypes import DType, int32, int64
from ..errors import LintWarning, Loc
from ..frontend import Source
from ..ir import Builder, Kernel, Op, Value, rewrite, walk
from ..layout import whole
from ..ops import OPS, mask_of
from ..ops.reduction import UFUNC, identity
from ..spelling import Spelling
from .axisinfo import Info, analyse, holds
from .plan import padded, sub_frame

Axes = frozenset[int]
Inside = set[Value] | None
LANEWISE = ("elementwise", "typed")
ACCUMULATE = {"add": "sum", "maximum": "max", "minimum": "min", "mul": "prod"}
WORDS = {"pro": "product", "max": "maximum", "min": "minimum"}
SUMS = ("add", "sub", "fma", "matmul")
INDEX = {int32, int64}
COMMUTE = ("add", "mul", "and", "or", "eq", "ne")
SAMPLES = 32
LOADS = 16  # of one reduction, at most
REGISTRY = "__warningregistry__"  # of a module: the warnings that it has had


class Finding(NamedTuple):
    """What is wrong where: ``rule`` is the word that turns it off in a comment on that line (``# lint: rule``, or
    ``# lint: ok`` for all), ``message`` a sentence, ``loc`` the place."""

    rule: str
    message: str
    loc: Loc | None

    @property
    def off(self) -> bool:
        """True if a comment on its line, or on one that called it, turns it off."""
        at = self.loc
        while at and not re.search(rf"#.*\blint:[\w\s,-]*(?<![\w-])(ok|{self.rule})(?![\w-])", at.text):
            at = at.caller
        return at is not None

    def __str__(self) -> str:
        return f"{self.loc.shown() if self.loc else ''}\n{self.message} [{self.rule}]".lstrip()


def lint(kernel: Kernel, spelling: Spelling | None = None) -> list[Finding]:
    """The findings in a kernel that has come through the front end, in the order of its lines."""
    found: dict[tuple, Finding] = {}
    for f in (*_fills(kernel), *_halves(kernel)):
        if not f.off:
            message = spelling.words(f.message) if spelling else f.message
            found.setdefault((f.rule, f.loc), f._replace(message=message))
    return sorted(found.values(), key=lambda f: f.loc.line if f.loc else 0)


def warn(source: Source, findings: list[Finding]) -> None:
    """Warns of what was found when a kernel was compiled; Python shows a warning once for each place."""
    function = source.function
    for f in findings:
        line, seen = f.loc.line if f.loc else source.first_line, function.__globals__.setdefault(REGISTRY, {})
        warnings.warn_explicit(str(f), LintWarning, function.__code__.co_filename, line, registry=seen)


def _merged(kernel: Kernel) -> Kernel:
    """The same with one op for all that compute the same, in whichever block and whatever the width of signed integers,
    before or after a new dimension: a mask that is written twice is one."""
    first: dict[tuple, Value] = {}
    made: dict[Value, Op] = {}

    def expanded(op: Op, renamed: dict[Value, Value], b: Builder) -> Op:
        """``expand`` of what an op computes, as that op on what is expanded."""
        source = made.get(op.operands[0])
        if source and source.name == "broadcast" and not source.operands[0].type.shape:
            return replace(source, results=op.results)
        if source is None or OPS[source.name].kind not in LANEWISE:
            return op
        parts = []
        for x in source.operands:
            part = replace(op, operands=(x,), results=(Value(x.type.with_shape(op.result.type.shape)),))
            visit(part, renamed, b)
            parts.append(renamed[part.result])
        return replace(source, operands=tuple(parts), results=op.results)

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        entry = OPS[op.name]
        if entry.kind not in ("index", "view", *LANEWISE) or entry.effect or len(op.results) != 1 or op.blocks:
            return False
        op = expanded(op, renamed, b) if op.name == "expand" else op
        t, xs = op.result.type, op.operands
        if op.name == "cast" and {t.dtype, xs[0].type.dtype} <= INDEX:
            renamed[op.result] = xs[0]
            return True
        xs = tuple(sorted(xs, key=id)) if op.name in COMMUTE else xs
        dtype = int64 if t.dtype in INDEX else t.dtype
        known = first.setdefault((op.name, xs, dtype, t.shape, t.pointer, repr(sorted(op.attrs.items()))), op.result)
        renamed[op.result] = known
        if known is op.result:
            made[known] = op
            b.ops.append(op)
        return True

    return rewrite(kernel, visit)


def _fills(kernel: Kernel) -> Iterator[Finding]:
    sums = any(op.name in ("reduce", "matmul") or op.carried for op in kernel.ops())
    if not sums or not any(map(_mask, kernel.ops())):
        return
    lane = Lane(_merged(kernel))
    for op in lane.kernel.ops():
        if op.name == "reduce" and any(op.operands[0].type.shape[d] > 1 for d in op.attrs["axes"]):  # type: ignore[attr-defined]
            yield from lane.check(op.operands[0], op.attrs["axes"], op, op.attrs["combine"])  # type: ignore[arg-type]
        elif op.name == "matmul":
            rank = len(op.result.type.shape)
            inner = zip(op.operands, (rank - 1, rank - 2), strict=False)
            sides = [[(load, off.any()) for load, _, off in lane.pairs(v, frozenset((axis,)))] for v, axis in inner]
            if all(not side or any(wrong for _, wrong in side) for side in sides):
                wrongs = (load for side in sides for load, wrong in side if wrong)
                yield from (_finding(load, op, "sum", op.result.type.dtype) for load in wrongs)
        for _, param, result, _ in op.carried:
            step = lane.made.get(result)
            if step and step.name in ACCUMULATE and param in step.operands and param.type.shape:
                (other,) = [v for v in step.operands if v is not param] or [param]
                inside = set(op.blocks[0].params)  # and all that may be otherwise in the next round
                for o in walk(op.blocks[0]):
                    inside.update(p for block in o.blocks for p in block.params)
                    if o.blocks or not inside.isdisjoint(o.operands):
                        inside.update(o.results)
                how = ACCUMULATE[step.name]
                yield from lane.check(other, range(len(other.type.shape)), step, how, inside, lane.leaf(param))


def _mask(op: Op) -> Value | None:
    """The mask of a load that has one."""
    return mask_of(op) if OPS[op.name].moves and OPS[op.name].reads else None


def _lanewise(op: Op) -> bool:
    """True if an element of the result is made of those at its place alone."""
    return OPS[op.name].kind in (*LANEWISE, "view") or op.name in ("convert", "const")


def _joins(op: Op) -> bool:
    return op.name in ("and", "expand", "broadcast", "permute")


def _finding(load: Op, reader: Op, how: str, dtype: DType) -> Finding:
    """The finding about the fill of a load that gets into a reduction of ``dtype``."""
    neutral = identity(f"{how[:3]}_nan" if how[:3] in ("max", "min") and dtype.is_float else how, dtype)
    value = f'float("{neutral}")' if neutral in (float("inf"), float("-inf")) else str(neutral)
    what, line = WORDS.get(how[:3], how), reader.loc.line if reader.loc else "?"
    gives = "what its other= says" if len(load.operands) > 2 else "0"
    why = f"where its mask is off this load gives {gives}, and what comes of that changes the {what} in line {line}"
    instead = f"put tt.where(mask, x, {value}) around what is reduced, or give an other= that comes to {value} there"
    return Finding("fill-identity", f"{why}; {instead}", load.loc)


class Lane:
    """One lane of every tile of a kernel, for some values of what is not known."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.made = kernel, {v: op for op in kernel.ops() for v in op.results}
        self.order = {op: k for k, op in enumerate(kernel.ops())}
        self.leaves, self.draw = {}, Random(0).random  # NumPy's would have to be imported

    @cached_property
    def facts(self) -> dict[Value, Info]:
        return analyse(self.kernel, {})

    def leaf(self, v: Value) -> np.ndarray:
        """Random values for one that is not known."""
        if v not in self.leaves:
            dtype, numbers = v.type.dtype, [self.draw() for _ in range(SAMPLES)]
            if dtype.is_float:
                x = [(n - 0.5) * 10.0 ** (5 * self.draw() - 2) for n in numbers]
            else:
                low, high = max(dtype.range[0], -100), min(dtype.range[1], 100)
                x = [low + int(n * (high - low + 1)) for n in numbers]
            self.leaves[v] = np.asarray(x, dtype.register.numpy)
        return self.leaves[v]

    def value(self, v: Value, known: dict[Value, np.ndarray]) -> np.ndarray:
        """A value on the lane. ``known`` has the masks that are on and off."""
        needed: set[Op] = set()
        stack = [v]
        while stack:
            x = stack.pop()
            op = self.made.get(x) if x not in known else None
            if op and op not in needed and (_mask(op) or _lanewise(op)):
                needed.add(op)
                stack += [x for x in op.operands if not x.type.pointer]
        known = dict(known)
        for op in sorted(needed, key=self.order.__getitem__):
            xs = [known[x] if x in known else self.leaf(x) for x in op.operands if not x.type.pointer]
            known[op.result] = self._result(op, xs)
        return known[v] if v in known else self.leaf(v)

    def _result(self, op: Op, xs: list[np.ndarray]) -> np.ndarray:
        entry, dtype = OPS[op.name], op.result.type.dtype.register.numpy
        if _mask(op):
            return np.where(xs[0], self.leaf(op.result), xs[1] if len(xs) > 1 else 0).astype(dtype)
        if op.name == "const":
            return np.full(SAMPLES, op.attrs["value"], dtype)
        if entry.kind not in LANEWISE:
            return xs[0]
        try:
            return np.asarray(entry.numpy(*xs) if entry.kind == "elementwise" else entry.numpy(None, op, *xs))
        except Exception:  # an op that wants a shape, or a device, for its meaning
            return self.leaf(op.result)

    def back(self, op: Op, axes: Axes, v: Value) -> Axes:
        """Which axes of an operand those of the result are."""
        if OPS[op.name].kind == "view":
            frame = sub_frame(op, whole(padded(op.result.type.shape)))
            reads = [{bit[0] for bit in bits if isinstance(bit, tuple)} for bits in frame]  # others are constant
            return frozenset(k for k, dims in enumerate(reads) if not axes.isdisjoint(dims))
        return axes if v.type.shape == op.result.type.shape else frozenset(range(len(v.type.shape)))

    def trace(self, v: Value, axes: Axes, through: Callable[[Op], bool]) -> Iterator[tuple[Value, Axes]]:
        """``v`` and, where its op is to be gone through, what it is made of, as far as that varies along ``axes``."""
        seen, stack = set(), [(v, axes)]
        while stack:
            v, axes = stack.pop()
            if (v, axes) not in seen and axes and not v.type.pointer:
                seen.add((v, axes))
                yield v, axes
                op = self.made.get(v)
                if op and through(op):
                    stack += [(x, self.back(op, axes, x)) for x in reversed(op.operands)]

    def conditions(self, mask: Value, axes: Axes) -> list[Value]:
        """What must hold for a mask to be on, as far as it varies along ``axes``: others turn off whole slices."""
        parts = dict.fromkeys(v for v, _ in self.trace(mask, axes, _joins))
        made = {v: self.made[v] for v in parts if v in self.made}
        return [v for v in parts if v not in made or not (_joins(made[v]) or holds(made[v], self.facts, endless=True))]

    def pairs(self, v: Value, axes: Axes, inside: Inside = None) -> Iterator[tuple[Op, np.ndarray, np.ndarray]]:
        """Masked loads that ``v`` depends on, with ``v`` where all masks are on and where this one is off, as are then
        those of other loads, unless there is more on that lane. ``inside`` restricts that to masks among its values."""
        traced = [(self.made[x], where) for x, where in self.trace(v, axes, _lanewise) if x in self.made]
        more = {op.result: self.leaf(op.result)[::-1] for op, _ in traced if OPS[op.name].moves and not _mask(op)}
        masked = [(op, self.conditions(_mask(op), where)) for op, where in traced if _mask(op)]  # type: ignore[arg-type]
        every = dict.fromkeys(c for _, conditions in masked for c in conditions)

        @cache
        def lane(on: frozenset[Value]) -> np.ndarray | None:
            known = {c: np.full(SAMPLES, c in on) for c in every}
            with np.errstate(all="ignore"):
                x = self.value(v, known)
                alone = not more or len(on) == len(every)
                return x if alone or np.array_equal(x, self.value(v, known | more), equal_nan=True) else None

        for load, conditions in masked[:LOADS]:
            for c in conditions:
                off = lane(frozenset(conditions) - {c})
                if off is not None and (inside is None or c in inside):
                    yield load, lane(frozenset(every)), off  # type: ignore[misc]

    def seen(self, v: Value, before: np.ndarray, after: np.ndarray) -> bool:
        """Whether anything comes out otherwise when ``v`` is what it is ``after``: a comparison may not."""
        for op in self.kernel.ops():
            if v not in (*op.operands, *(y for block in op.blocks for y in block.yields)):
                continue
            if not _lanewise(op):
                return True
            with np.errstate(all="ignore"):
                x, y = (self.value(op.result, {v: of}) for of in (before, after))
            if not np.array_equal(x, y, equal_nan=True) and self.seen(op.result, x, y):
                return True
        return False

    def check(
        self, v: Value, axes: Iterable, reader: Op, how: str, inside: Inside = None, first: np.ndarray | None = None
    ) -> Iterator[Finding]:
        """Findings about the fills that get into a reduction of ``v``, or of ``v`` into ``first``."""
        for load, on, off in self.pairs(v, frozenset(axes), inside):
            before = on if first is None else first
            with np.errstate(all="ignore"):
                after = UFUNC[how](before, off)
            same = (after == before) | np.isnan(before) | (np.isnan(off) & ~np.isnan(off).all())
            if not same.all() and self.seen(reader.result, before, after):
                yield _finding(load, reader, how, v.type.dtype)


def _halves(kernel: Kernel) -> Iterator[Finding]:
    made = {v: op for op in kernel.ops() for v in op.results}
    for loop in kernel.ops():
        for _, param, result, _ in loop.carried:
            stack: list[tuple[Value, Op | None]] = [(result, None)] * param.type.dtype.is_narrow
            seen = set()
            while stack:  # back from what the next round gets, with the last sum on the way
                v, last = stack.pop()
                op = made.get(v)
                if v is param and last:
                    what = f"this sum is carried through the loop in {param.type.dtype}, which rounds it in every round"
                    instead = "start from float32 and convert after the loop"
                    yield Finding("half-accumulator", f"{what}; {instead}", last.loc)
                    break
                if op and op.name in (*SUMS, "cast", "where") and (v, last) not in seen:
                    seen.add((v, last))
                    stack += [(x, last or (op if op.name in SUMS else None)) for x in op.operands]
