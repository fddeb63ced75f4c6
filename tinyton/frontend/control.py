"""Control flow: `for` over run-time and unrolled ranges, `if`, conditional expressions, `and`/`or` on scalars."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .. import dtypes
from ..dtypes import bool_, int32
from ..errors import KernelSyntaxError, KernelTypeError, KernelValueError, TinytonError
from ..ir import Block, Op, Type, Value
from ..language import LanguageFunction
from ..ops import OPS
from ..ops.typing import broadcast, cast_value, constant_int, describe, is_weak, value_of
from .tracer import Missing, Tracer, visits


def condition(t: Tracer, node: ast.expr) -> object:
    """A condition: a Python truth value, or a scalar bool."""
    x = t.visit(node)
    if not isinstance(x, Value):
        return bool(x)
    with t.at(node):
        if x.type.pointer:
            raise KernelTypeError("a pointer is not a condition")
        if x.type.shape:
            raise KernelTypeError(
                f"the condition is a tile ({x.type}), but a program takes one path; choose per element with tt.where"
            )
        return x if x.type.dtype is bool_ else OPS["ne"].rule(t.builder, x, 0)


def like(t: Tracer, x: object, want: Type) -> Value:
    """A number, or a value whose type is still open, as ``want``."""
    v = value_of(t.builder, x, want.dtype)
    v = cast_value(t.builder, v, want.dtype)
    return broadcast(t.builder, v, want.shape)


def same(x: object, y: object) -> bool:
    return x is y or (not isinstance(x, Value) and not isinstance(y, Value) and type(x) is type(y) and x == y)


def is_open(t: Tracer, x: object) -> bool:
    """True for Python numbers and float arguments, which take the type of what they meet."""
    return is_weak(t.builder, x) and isinstance(x, (bool, int, float, Value))


def merge(t: Tracer, name: str, paths: list[tuple[object, list[Op], int]]) -> tuple[Value, ...] | Missing:
    """The values that ``name`` has at the end of two paths, brought to one type by casts appended to the paths."""
    (x, _, line_x), (y, _, line_y) = paths
    typed = [v for v, _, _ in paths if not is_open(t, v)]
    if any(not isinstance(v, Value) for v in typed):
        shown = " or ".join(describe(v) for v in (x, y))
        return Missing(
            f"{name} depends on the path taken: {shown} (lines {line_x} and {line_y}); it must be a tile or a number"
        )
    if typed:
        want = typed[0].type  # type: ignore[union-attr]
    else:
        x_type, y_type = (dtypes.of_literal(0.0 if isinstance(v, Value) else v, None) for v in (x, y))  # type: ignore[arg-type]
        want = Type(dtypes.promote(x_type, y_type))
    out = []
    for value, ops, _ in paths:
        if not is_open(t, value):
            if value.type != want:  # type: ignore[union-attr]
                return Missing(
                    f"the type of {name} depends on the path taken: "
                    f"{x.type} (line {line_x}) or {y.type} (line {line_y}); "  # type: ignore[union-attr]
                    f"make them the same with .to(...) or tt.where"
                )
            out.append(value)
            continue
        outer, t.builder.ops = t.builder.ops, ops
        out.append(like(t, value, want))
        t.builder.ops = outer
    return tuple(out)  # type: ignore[return-value]


def branch(t: Tracer, test: Value, bodies: tuple[Callable[[], None], Callable[[], None]], node: ast.AST) -> None:
    """Runs both bodies and merges what they assign."""
    before, lines = dict(t.env), dict(t.bound_at)
    ends = []
    for body in bodies:
        t.env, t.bound_at = dict(before), dict(lines)
        with t.block() as ops:
            body()
        ends.append((t.env, t.bound_at, ops))
    t.env, t.bound_at = dict(before), dict(lines)
    (env_x, at_x, ops_x), (env_y, at_y, ops_y) = ends
    results: list[tuple[str, tuple[Value, ...]]] = []
    for name in dict.fromkeys([*env_x, *env_y]):
        if name in env_x and name in env_y and same(env_x[name], env_y[name]):
            t.env[name], t.bound_at[name] = env_x[name], max(at_x[name], at_y[name])
            continue
        absent = [e for e in (env_x, env_y) if name not in e or isinstance(e[name], Missing)]
        t.bound_at[name] = max(at_x.get(name, 0), at_y.get(name, 0))
        if absent:
            line = at_x.get(name) or at_y.get(name)
            have = next((e[name] for e in (env_x, env_y) if isinstance(e.get(name), Missing)), None)
            t.env[name] = have or Missing(
                f"{name} has a value on one path only (line {line}), not on the other of the if in line "
                f"{t.source.loc(node).line}; give it one before the if"
            )
            continue
        merged = merge(t, name, [(env_x[name], ops_x, at_x[name]), (env_y[name], ops_y, at_y[name])])
        if isinstance(merged, Missing):
            t.env[name] = merged
        else:
            results.append((name, merged))
    outs = tuple(Value(pair[0].type, name.strip("?")) for name, pair in results)
    blocks = tuple(Block((), tuple(ops), tuple(pair[k] for _, pair in results)) for k, ops in enumerate((ops_x, ops_y)))
    t.builder.ops.append(Op("if", (test,), outs, {}, blocks, t.source.loc(node)))
    t.env.update({name: out for (name, _), out in zip(results, outs, strict=True)})


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
        raise KernelTypeError(value.message.replace("? ", "the value ").replace("of the value ", "of the value "))
    return value


@visits(ast.IfExp)
def conditional(t: Tracer, node: ast.IfExp) -> object:
    test = condition(t, node.test)
    if not isinstance(test, Value):
        return t.visit(node.body if test else node.orelse)
    return choose(t, test, (lambda: t.visit(node.body), lambda: t.visit(node.orelse)), node)


@visits(ast.BoolOp)
def bool_op(t: Tracer, node: ast.BoolOp) -> object:
    is_and = isinstance(node.op, ast.And)
    first = t.visit(node.values[0])
    rest = node.values[1:]
    if not isinstance(first, Value):
        stop = bool(first) != is_and or not rest
        return first if stop else bool_op(t, ast.copy_location(ast.BoolOp(node.op, rest), node))
    if first.type.shape:
        with t.at(node.values[0]):
            raise KernelTypeError(
                f"and/or are for scalars; of masks, write ({ast.unparse(node.values[0])}) {'&' if is_and else '|'} ..."
            )
    if not rest:
        return condition(t, node.values[0]) if first.type.dtype is not bool_ else first
    test = first if first.type.dtype is bool_ else OPS["ne"].rule(t.builder, first, 0)

    def others() -> object:
        left = (
            bool_op(t, ast.copy_location(ast.BoolOp(node.op, rest), node)) if len(rest) > 1 else condition(t, rest[0])
        )
        return left if isinstance(left, Value) else bool(left)

    return choose(t, test, (others, lambda: False) if is_and else (lambda: True, others), node)


@visits(ast.For)
def for_loop(t: Tracer, node: ast.For) -> None:
    if node.orelse:
        raise KernelSyntaxError("for ... else is not supported in a kernel; put what follows after the loop")
    if not isinstance(node.target, ast.Name):
        with t.at(node.target):
            raise KernelSyntaxError("a loop counts with one name: for k in range(n)")
    call = node.iter
    kind = t.visit(call.func) if isinstance(call, ast.Call) else None
    unrolled = isinstance(kind, LanguageFunction) and kind.__name__ == "static_range"
    if not isinstance(call, ast.Call) or not (kind is range or unrolled):
        with t.at(node.iter):
            raise KernelSyntaxError("a loop runs over range(...) or tt.static_range(...)")
    with t.at(call):
        if call.keywords or not 1 <= len(call.args) <= 3:
            raise KernelSyntaxError(
                "a range takes one to three numbers: range(stop), range(start, stop), range(start, stop, step)"
            )
        bounds = [t.visit(a) for a in call.args]
        low, high, step = (
            (bounds * 2)[:3] if len(bounds) == 3 else (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)
        )
        if not isinstance(step, Value) and constant_int(step, "step") == 0:
            raise KernelValueError("the step of a range cannot be 0")
        if unrolled:
            numbers = [constant_int(x, word) for x, word in ((low, "start"), (high, "stop"), (step, "step"))]
    if unrolled:
        for k in range(*numbers):
            t.bind(node.target.id, k, node.target)
            t.body(node.body)
    else:
        counted(t, node, low, high, step)


def counted(t: Tracer, node: ast.For, low: object, high: object, step: object) -> None:
    """A loop at run time. What the body assigns and had a value before is carried from round to round."""
    with t.at(node.iter):
        bounds = [value_of(t.builder, x, None) for x in (low, high, step)]
        for v in bounds:
            if v.type.shape or v.type.pointer or not v.type.dtype.is_int or v.type.dtype is bool_:
                raise KernelTypeError(f"a range takes integer scalars, not {v.type}")
        dtype = int32
        for v in bounds:
            dtype = dtypes.promote(dtype, v.type.dtype)
        bounds = [cast_value(t.builder, v, dtype) for v in bounds]
    target = node.target.id  # type: ignore[attr-defined]
    stored = dict.fromkeys(
        n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )
    before, lines = dict(t.env), dict(t.bound_at)
    carried = {n: before[n] for n in stored if n in before and n != target and not isinstance(before[n], Missing)}
    fixed = {n: v for n, v in carried.items() if not is_open(t, v) and not isinstance(v, Value)}
    types: dict[str, Type] = {n: v.type for n, v in carried.items() if not is_open(t, v) and isinstance(v, Value)}

    def round_(start: dict[str, object]) -> tuple[list[Op], tuple[Value, ...]]:
        index = Value(Type(dtype), target)
        t.env, t.bound_at = {**before, **start, target: index}, {**lines, target: t.source.loc(node).line}
        with t.block() as ops:
            t.body(node.body)
        return ops, (index,)

    if len(types) + len(fixed) < len(carried):  # what type does the loop give to names that start as plain numbers?
        try:
            round_({})
        except TinytonError:
            t.env = dict(before)
        for name, value in carried.items():
            after = t.env.get(name)
            if is_open(t, value) and same(after, value):
                fixed[name] = value
            elif is_open(t, value):
                kept = after.type if isinstance(after, Value) and not is_open(t, after) else None
                types[name] = kept or Type(dtypes.of_literal(0.0 if isinstance(value, Value) else value, None))  # type: ignore[arg-type]
    names = [n for n in carried if n not in fixed]
    t.env, t.bound_at = dict(before), dict(lines)
    starts = [like(t, carried[n], types[n]) if is_open(t, carried[n]) else carried[n] for n in names]
    params = {n: Value(types[n], n) for n in names}
    ops, (index,) = round_(dict(params))
    ends: list[Value] = []
    for n in names:
        after, want = t.env[n], types[n]
        if is_open(t, after):
            outer, t.builder.ops = t.builder.ops, ops
            after = like(t, after, want)
            t.builder.ops = outer
        if not isinstance(after, Value) or after.type != want:
            found = after.message if isinstance(after, Missing) else describe(after)
            raise KernelTypeError(
                f"the type of {n} changes in the loop: {want} before it (line {lines[n]}), {found} after a round (line "
                f"{t.bound_at[n]}); start it with the type that it ends with, or convert with .to(...)",
                t.source.loc(node),
            )
        ends.append(after)
    for n in fixed:
        if not same(t.env[n], before[n]):
            raise KernelTypeError(
                f"{n} is a compile-time {type(before[n]).__name__} before the loop; a loop cannot change it",
                t.source.loc(node),
            )
    results = tuple(Value(types[n], n) for n in names)
    block = Block((index, *params.values()), tuple(ops), tuple(ends))
    t.builder.ops.append(Op("for", (*bounds, *starts), results, {}, (block,), t.source.loc(node)))  # type: ignore[arg-type]
    inside, at_end = t.env, t.bound_at
    t.env, t.bound_at = (
        {**before, **dict(zip(names, results, strict=True))},
        lines | {n: at_end[n] for n in names},
    )
    for n in inside:
        if n not in before or n == target:
            t.bound_at[n] = at_end[n]
            t.env[n] = Missing(
                f"{n} is bound only in the loop of line {t.source.loc(node).line} (in line {at_end[n]}), which may "
                f"run no round at all; give it a value before the loop"
            )
