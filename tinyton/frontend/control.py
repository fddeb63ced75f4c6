"""Control flow: `for` over run-time and unrolled ranges, `while`, `if`, conditional expressions, `and`/`or` on
scalars."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

from .. import dtypes
from ..dtypes import DType, bool_, int32
from ..errors import KernelSyntaxError, KernelTypeError, KernelValueError, TinytonError
from ..ir import Block, Op, Type, Value
from ..language import LanguageFunction
from ..ops import OPS
from ..ops.typing import broadcast, cast_value, constant_int, describe, flatten, is_weak, skeleton, value_of
from .flow import UNSET, Clear, assigned
from .statements import assign_to, check_target
from .tracer import Missing, Tracer, visits

Leaf = tuple[str, int]  # a name, and which leaf of its value
BOUNDS = ("start", "stop", "step")
HINTS = ("num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm")
SAID = {"num_stages": "stages", "warp_specialize": "warp_specialize"}  # of those, with their names in a loop


def condition(t: Tracer, node: ast.AST) -> object:
    """A condition: a Python truth value, or a scalar bool."""
    x = either(t, node, node.values, True) if isinstance(node, ast.BoolOp) else t.visit(node)
    with t.at(node):
        if not isinstance(x, Value):
            return bool(x)
        if x.type.pointer:
            raise KernelTypeError("a pointer is not a condition")
        if x.type.shape:
            what = f"the condition is a tile ({x.type}), but a program takes one path"
            raise KernelTypeError(f"{what}; choose per element with tt.where")
        return x if x.type.dtype is bool_ else OPS["ne"].rule(t.builder, x, 0)


@visits(Clear)
def clear(t: Tracer, node: Clear) -> object:
    """True until one of the flags is set."""
    flags = [t.env[name] for name in node.flags]
    if any(x is True for x in flags):
        return False
    open_ = [x for x in flags if isinstance(x, Value)]
    return OPS["invert"].rule(t.builder, reduce(partial(OPS["or"].rule, t.builder), open_)) if open_ else True


def like(t: Tracer, x: Any, want: Type) -> Value:
    """A number, or a value whose type is still open, as ``want``."""
    if not is_open(t, x):
        return x
    if x is UNSET:
        scalar = t.builder.add("const", (), want.with_shape(()), value=0)
        return broadcast(t.builder, scalar, want.shape)
    v = cast_value(t.builder, value_of(t.builder, x, want.dtype), want.dtype)
    return broadcast(t.builder, v, want.shape)


def same(x: object, y: object) -> bool:
    return x is y or (not isinstance(x, Value) and not isinstance(y, Value) and type(x) is type(y) and x == y)


def is_open(t: Tracer, x: object) -> bool:
    """True for Python numbers and float arguments, which take the type of what they meet."""
    return x is UNSET or is_weak(t.builder, x) and isinstance(x, (bool, int, float, Value))


def type_of(x: object, partner: DType | None = None) -> Type:
    """What an open value is beside ``partner``, or if nothing tells it."""
    return Type(dtypes.of_literal(x if isinstance(x, (bool, int, float)) else 0.0, partner))


def fits(t: Tracer, x: object, want: Type) -> bool:
    """Whether a value is of that type, or is open and may become that: a float stays one, a number is no pointer."""
    if not is_open(t, x):
        return isinstance(x, Value) and x.type == want
    return x is UNSET or not want.pointer and type_of(x, want.dtype).dtype is want.dtype


def align(values: Sequence[object]) -> tuple[list[list[Any]], Callable[[Sequence[Any]], Any]] | None:
    """The leaves of each value, if all are built alike, and what builds such a value."""
    known = [v for v in values if v is not UNSET] or [UNSET]
    if any(skeleton(v) != skeleton(known[0]) for v in known):
        return None
    first, rebuild = flatten(known[0])
    return [[UNSET] * len(first) if v is UNSET else flatten(v)[0] for v in values], rebuild


# -- branches ----------------------------------------------------------------------------------------------------------


@dataclass
class Path:
    """What one of two branches ends with."""

    env: dict[str, object]
    lines: dict[str, int]
    ops: list[Op]
    yields: list[Value] = field(default_factory=list)

    def value(self, name: str) -> object:
        """Of a name without a value on a path that leaves, nobody will read it: it is whatever the other path says."""
        value = self.env.get(name, Missing(""))
        gone = isinstance(value, Missing) and any(v is True for n, v in self.env.items() if n.startswith("?exit"))
        return UNSET if gone else value


def merge(t: Tracer, label: str, values: list, paths: list[Path], lines: list[int]) -> tuple[Value, ...] | Missing:
    """The values that one leaf has at the end of two paths, brought to one type by casts appended to the paths."""
    typed = [v for v in values if not is_open(t, v)]
    if any(not isinstance(v, Value) for v in typed):
        return Missing(f"{depends(label, values, lines)}; it must be a tile or a number", KernelTypeError)
    want = typed[0].type if typed else Type(dtypes.promote(*(type_of(v).dtype for v in values)))
    if not all(fits(t, v, want) for v in values):
        shown = " or ".join(f"{describe(v)} (line {line})" for v, line in zip(values, lines, strict=True))
        what = f"the type of {label} depends on the path taken: {shown}"
        return Missing(f"{what}; make them the same with .to(...) or tt.where", KernelTypeError)
    out = []
    for value, path in zip(values, paths, strict=True):
        with t.into(path.ops):
            out.append(like(t, value, want))
    return tuple(out)


def depends(label: str, values: list, lines: list[int]) -> str:
    return f"{label} depends on the path taken: {' or '.join(map(describe, values))} (lines {lines[0]} and {lines[1]})"


def meet(t: Tracer, name: str, paths: list[Path], results: list[Value], node: ast.AST) -> object:
    """The value of a name after two paths. Where they differ, the paths yield and ``results`` grows."""
    values, lines = [p.value(name) for p in paths], [p.lines.get(name, 0) for p in paths]
    if values[0] is values[1]:
        return values[0]
    if any(isinstance(v, Missing) for v in values):
        known = next((v for v in values if isinstance(v, Missing) and v.message), None)
        what = f"{name} has a value on one path only (line {max(lines)}), not on the other of the if in line"
        return known or Missing(f"{what} {t.loc(node).line}; give it one before the if")
    shown, aligned = t.shown(name), align(values)
    if aligned is None:
        return Missing(depends(shown, values, lines), KernelTypeError)
    (xs, ys), rebuild = aligned
    leaves, found = [], []
    for k, (x, y) in enumerate(zip(xs, ys, strict=True)):
        known = x if same(x, y) or y is UNSET else y
        if same(x, y) or (UNSET in (x, y) and not isinstance(known, Value)):
            leaves.append(known)
            continue
        pair = merge(t, shown if len(xs) == 1 else f"{shown}[{k}]", [x, y], paths, lines)
        if isinstance(pair, Missing):
            return pair
        leaves.append(Value(pair[0].type, t.ir_name(name)))
        found.append((leaves[-1], pair))
    for result, pair in found:
        results.append(result)
        for path, v in zip(paths, pair, strict=True):
            path.yields.append(v)
    return rebuild(leaves)


def branch(t: Tracer, test: Value, bodies: tuple[Callable[[], None], Callable[[], None]], node: ast.AST) -> None:
    """Runs both bodies and merges what they assign."""
    before, lines = dict(t.env), dict(t.bound_at)
    paths = []
    for body in bodies:
        t.env, t.bound_at = dict(before), dict(lines)
        with t.into([]) as ops:
            body()
        paths.append(Path(t.env, t.bound_at, ops))
    results: list[Value] = []
    names = dict.fromkeys(n for p in paths for n in p.env)
    t.env = {name: meet(t, name, paths, results, node) for name in names}
    t.bound_at = {name: max(p.lines.get(name, 0) for p in paths) for name in names}
    blocks = tuple(Block((), tuple(p.ops), tuple(p.yields)) for p in paths)
    t.builder.ops.append(Op("if", (test,), tuple(results), {}, blocks, t.loc(node)))


@visits(ast.If)
def if_statement(t: Tracer, node: ast.If) -> None:
    test = condition(t, node.test)
    if isinstance(test, Value):
        branch(t, test, (lambda: t.body(node.body), lambda: t.body(node.orelse)), node)
    else:
        t.body(node.body if test else node.orelse)


def choose(t: Tracer, test: Value, parts: tuple[Callable[[], object], Callable[[], object]], node: ast.AST) -> object:
    """An expression whose value comes from one of two, of which only one is computed."""

    def run(part: Callable[[], object]) -> Callable[[], None]:
        return lambda: t.bind("?", part(), node)

    branch(t, test, (run(parts[0]), run(parts[1])), node)
    value = t.env.pop("?")
    if isinstance(value, Missing):
        raise KernelTypeError(value.message)
    return value


@visits(ast.IfExp)
def conditional(t: Tracer, node: ast.IfExp) -> object:
    test = condition(t, node.test)
    if not isinstance(test, Value):
        return t.visit(node.body if test else node.orelse)
    return choose(t, test, (lambda: t.visit(node.body), lambda: t.visit(node.orelse)), node)


@visits(ast.BoolOp)
def bool_op(t: Tracer, node: ast.BoolOp) -> object:
    return either(t, node, node.values, False)


def either(t: Tracer, node: ast.BoolOp, values: list[ast.expr], truth: bool) -> object:
    """``and`` or ``or`` of these operands of ``node``: the operand that decides, or its ``truth`` alone."""
    is_and, rest = isinstance(node.op, ast.And), values[1:]
    if truth and isinstance(values[0], ast.BoolOp):
        first = either(t, values[0], values[0].values, True)
    else:
        first = t.visit(values[0])
    if not truth and not rest:
        return first
    if not isinstance(first, Value):
        return first if bool(first) != is_and or not rest else either(t, node, rest, truth)
    if first.type.shape:
        what = f"and/or are for scalars; of masks, write ({ast.unparse(values[0])}) {'&' if is_and else '|'} ..."
        raise KernelTypeError(what, t.loc(values[0]))
    test = first if first.type.dtype is bool_ else OPS["ne"].rule(t.builder, first, 0)
    if not rest:
        return test

    def others() -> object:
        last = either(t, node, rest, truth)
        return bool(last) if truth and not isinstance(last, Value) else last

    here = (lambda: not is_and) if truth else (lambda: first)
    return choose(t, test, (others, here) if is_and else (here, others), node)


# -- loops -------------------------------------------------------------------------------------------------------------


@visits(ast.For)
def for_loop(t: Tracer, node: ast.For) -> None:
    if node.orelse:
        raise KernelSyntaxError("for ... else is not supported in a kernel; set a flag before break, and test it")
    call = node.iter
    kind = t.visit(call.func) if isinstance(call, ast.Call) else None
    word = kind.__name__ if isinstance(kind, LanguageFunction) or kind is range else ""
    if word not in ("range", "static_range"):
        over = t.visit(node.iter)
        if not isinstance(over, tuple):
            with t.at(node.iter):
                raise KernelSyntaxError("a loop runs over range(...), tt.static_range(...) or a compile-time tuple")
        return unroll(t, node, over)
    if not isinstance(node.target, ast.Name):
        raise KernelSyntaxError("a loop counts with one name: for k in range(n)", t.loc(node.target))
    with t.at(call):
        bounds, attrs = bounds_of(t, call, kind)  # type: ignore[arg-type]
        # >>> stage 6
        if t.source.spelling and isinstance(bounds[2], int) and bounds[2] <= 0:
            raise KernelTypeError(f"the step of a range is positive, not {bounds[2]}; count up, and compute the rest")
        # <<<
        if not isinstance(bounds[2], Value) and constant_int(bounds[2], "step") == 0:
            raise KernelValueError("the step of a range cannot be 0")
        if word == "static_range":
            bounds = tuple(map(constant_int, bounds, BOUNDS))
    return unroll(t, node, range(*bounds)) if word == "static_range" else counted(t, node, bounds, attrs)  # type: ignore[arg-type]


def bounds_of(t: Tracer, call: ast.Call, kind: object) -> tuple[tuple[object, ...], dict[str, object]]:
    """Start, stop and step of a range, and what it says of its loop. Hints of ``tt.range`` that are not in `SAID` are
    looked at, and have no effect."""
    given = {k.arg: t.visit(k.value) for k in call.keywords}
    bounds = [t.visit(a) for a in call.args]
    for k, word in enumerate(BOUNDS if kind is not range else ()):
        if word in given and len(bounds) == k:
            bounds.append(given.pop(word))
    hints = HINTS if kind is not range and kind.__name__ == "range" else ()  # type: ignore[attr-defined]
    if set(given) - set(hints) or not 1 <= len(bounds) <= 3:
        raise KernelSyntaxError("a range takes one to three numbers: range(stop), range(start, stop), and a step")
    for word, x in given.items():
        if x is not None:
            given[word] = constant_int(int(x) if isinstance(x, bool) else x, str(word))
    attrs = {word: given[name] for name, word in SAID.items() if given.get(name) is not None}
    return (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3], attrs


def unroll(t: Tracer, node: ast.For, values: Iterable[object]) -> None:
    def run(value: object) -> None:
        t.env |= dict.fromkeys(node.skips, False)  # type: ignore[attr-defined]
        assign_to(t, node.target, value)
        t.body(node.body)

    check_target(t, node.target)
    t.env |= dict.fromkeys(node.leaves, False)  # type: ignore[attr-defined]
    for value in values:
        going = t.visit(Clear(node.stops))  # type: ignore[attr-defined]
        if isinstance(going, Value):
            branch(t, going, (partial(run, value), lambda: None), node)
        elif going:
            run(value)
        else:
            break
    for flag in node.leaves + node.skips:  # type: ignore[attr-defined]
        t.env.pop(flag, None)


def counted(t: Tracer, node: ast.For, bounds: tuple[object, ...], attrs: dict[str, object]) -> None:
    """A loop over a range at run time."""
    with t.at(node.iter):
        values = [value_of(t.builder, x, None) for x in bounds]
        for v in values:
            if v.type.shape or v.type.pointer or not v.type.dtype.is_int or v.type.dtype is bool_:
                raise KernelTypeError(f"a range takes integer scalars, not {v.type}")
        dtype = reduce(dtypes.promote, (v.type.dtype for v in values), int32)
        values = [cast_value(t.builder, v, dtype) for v in values]
    index = Value(Type(dtype), node.target.id)  # type: ignore[attr-defined]
    Loop(t, node, index, True).trace("for", values, None, attrs)


@visits(ast.While)
def while_loop(t: Tracer, node: ast.While) -> None:
    if node.orelse:
        raise KernelSyntaxError("while ... else is not supported in a kernel; set a flag before break, and test it")
    start = condition(t, node.test)
    if start is not False:
        Loop(t, node, None, start).trace("while", [], lambda: condition(t, node.test), {})


class Loop:
    """A loop at run time. What its body assigns and had a value before is carried from round to round, leaf by leaf;
    and first of all, under the name ``?go``, whether there is another round: in every `while`, and in a `for` that can
    be left early."""

    def __init__(self, t: Tracer, node: ast.For | ast.While, index: Value | None, going: object):
        self.t, self.node, self.index = t, node, index
        self.before, self.lines = dict(t.env), dict(t.bound_at)
        self.start: dict[str, object] = {"?go": going}
        for n in assigned(node.body):
            if not isinstance(self.before.get(n, Missing("")), Missing) and (index is None or n != index.name):
                self.start[n] = self.before[n]
        self.shape = {n: flatten(x) for n, x in self.start.items()}
        self.types: dict[Leaf, Type] = {  # of the leaves that are carried
            leaf: x.type for leaf, x in self.leaves() if isinstance(x, Value) and not is_open(t, x)
        }

    def leaves(self) -> Iterator[tuple[Leaf, Any]]:
        """What the loop starts with."""
        return (((n, k), x) for n, (leaves, _) in self.shape.items() for k, x in enumerate(leaves))

    def changes(self, name: str, was: object, end: object) -> None:
        found = end.message if isinstance(end, Missing) else describe(end)
        before, after = f"{was} before it (line {self.lines.get(name)})", f"{found} after a round"
        what = f"the type of {self.t.shown(name)} changes in the loop: {before}, {after} (line {self.t.bound_at[name]})"
        what += "; start it with the type that it ends with, or convert with .to(...)"
        raise KernelTypeError(what, self.t.loc(self.node))

    def build(self, name: str, carried: dict[Leaf, Value], others: list | None = None) -> object:
        """The value of a name, given the leaves that are carried."""
        leaves, rebuild = self.shape[name]
        return rebuild([carried.get((name, k), x) for k, x in enumerate(others or leaves)])

    def round(self, again: Callable[[], object] | None) -> tuple[list[Op], dict[Leaf, Value]]:
        """Traces the body once. ``again`` gives the condition of another round."""
        t, node = self.t, self.node
        params = {leaf: Value(kind, t.ir_name(leaf[0])) for leaf, kind in self.types.items()}
        t.env, t.bound_at = dict(self.before), dict(self.lines)
        t.env |= {n: self.build(n, params) for n in self.start} | dict.fromkeys(node.leaves + node.skips, False)  # type: ignore[union-attr]
        if self.index:
            t.bind(self.index.name, self.index, node)
        with t.into([]) as ops:
            t.body(node.body)
            going = t.visit(Clear(node.stops))  # type: ignore[union-attr]
            if again and isinstance(going, Value):
                going = choose(t, going, (again, lambda: False), node)
            elif again and going:
                going = again()
            t.env["?go"], t.bound_at["?go"] = going, self.lines.get("?go", 0)
        return ops, params

    def guess(self) -> bool:
        """Gives the numbers that the loop starts with their own types; False if there are none."""
        numbers = {leaf: type_of(x) for leaf, x in self.leaves() if isinstance(x, (bool, int, float))}
        numbers = {leaf: x for leaf, x in numbers.items() if leaf[0] != "?go" and leaf not in self.types}
        self.types |= numbers
        return bool(numbers)

    def learn(self) -> dict[str, list[Any]]:
        """The leaves at the end of a round. Updates the types of those that started as plain numbers."""
        t, out = self.t, {}
        for name, start in self.start.items():
            end = t.env[name]
            aligned = None if isinstance(end, Missing) else align((start, end))
            if aligned is None:
                self.changes(name, describe(start), end)
            (starts, out[name]), rebuild = aligned  # type: ignore[misc]
            self.shape[name] = starts, rebuild
            for k, (x, y) in enumerate(zip(starts, out[name], strict=True)):
                if is_open(t, x) and isinstance(y, Value) and not is_open(t, y):
                    self.types[name, k] = y.type
                elif is_open(t, x) and is_open(t, y) and x is not UNSET and y is not UNSET and not same(x, y):
                    known = self.types.get((name, k), type_of(x)).dtype
                    self.types[name, k] = Type(dtypes.promote(known, type_of(y).dtype))
                elif (name, k) in self.types or same(x, y) or (x is UNSET and not isinstance(y, Value)):
                    continue
                elif is_open(t, x):
                    self.types[name, k] = type_of(x)
                else:
                    kind = "None" if x is None else f"a compile-time {type(x).__name__}"
                    what = f"{t.shown(name)} is {kind} before the loop, which cannot change it"
                    raise KernelTypeError(what, t.loc(self.node))
        return out

    def trace(
        self, word: str, operands: list[Value], again: Callable[[], object] | None, attrs: dict[str, object]
    ) -> None:
        """Traces rounds until the types of what is carried hold still, and appends the op."""
        t, notes = self.t, len(self.t.builder.notes)
        guessed = False
        for _ in range(4 + len(self.start)):
            del t.builder.notes[notes:]
            thought = dict(self.types)
            try:
                ops, params = self.round(again)
            except TinytonError:
                if guessed or not self.guess():
                    raise
                guessed = True  # what fails with the numbers of the first round may do with values of their types
                continue
            ends = self.learn()
            if self.types == thought:
                break
        order = {leaf: start for leaf, start in self.leaves() if leaf in params}
        stops = next(iter(order), None) == ("?go", 0)  # whether there is another round is known at run time
        inside, at_end = t.env, t.bound_at
        t.env, t.bound_at = dict(self.before), dict(self.lines)
        if word == "while" and not stops:
            raise KernelSyntaxError("this loop never ends: its condition stays true, and nothing breaks out of it")
        starts, yields = [], []
        for (name, k), start in order.items():
            want, end = params[name, k].type, ends[name][k]
            if not (fits(t, start, want) and fits(t, end, want)):
                t.bound_at = at_end
                self.changes(name, describe(start), end)
            starts.append(like(t, start, want))
            with t.into(ops):
                yields.append(like(t, end, want))
        results = {leaf: Value(params[leaf].type, t.ir_name(leaf[0])) for leaf in order}
        first = (self.index,) if self.index else ()
        block = Block((*first, *(params[leaf] for leaf in order)), tuple(ops), tuple(yields))
        attrs = {**attrs, "stops": True} if word == "for" and stops else attrs
        t.builder.ops.append(Op(word, (*operands, *starts), tuple(results.values()), attrs, (block,), t.loc(self.node)))
        for n in self.start:
            if n != "?go":
                finals = [y if x is UNSET else x for x, y in zip(self.shape[n][0], ends[n], strict=True)]
                t.env[n], t.bound_at[n] = self.build(n, results, finals), at_end.get(n, 0)
        for n in inside:
            if not n.startswith("?") and (n not in self.before or self.index and n == self.index.name):
                t.bound_at[n] = at_end[n]
                what = f"{n} is bound only in the loop of line {t.loc(self.node).line} (in line {at_end[n]})"
                t.env[n] = Missing(f"{what}, which may run no round at all; give it a value before the loop")
