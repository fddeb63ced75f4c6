"""Statements: assignments and calls."""

from __future__ import annotations

import ast

# >>> stage 6
from ..errors import KernelSyntaxError, KernelTypeError, KernelValueError

# === before
# from ..errors import KernelSyntaxError, KernelTypeError
# <<<
from ..ops.typing import describe, run_time
from .tracer import Tracer, visits

# >>> stage 6
IMMUTABLE = {
    "Value": "a tile cannot be changed; make another, with ct.where or ct.insert",
    "Array": "an array is written by ct.store(array, index, tile), or by ct.scatter",
    "tuple": "a tuple cannot be changed; make another, as in (*x[:1], value, *x[2:])",
}


# <<<
def target_name(node: ast.AST) -> str:
    if not isinstance(node, ast.Name):
        what = {"Subscript": "memory is written by tt.store(x + i, value); a tile in parts is made by tt.where"}
        raise KernelSyntaxError(f"a kernel assigns to plain names; {what.get(type(node).__name__, 'not to this')}")
    return node.id


def check_target(t: Tracer, node: ast.expr) -> None:
    with t.at(node):
        if isinstance(node, (ast.Tuple, ast.List)):
            for part in node.elts:
                check_target(t, part)
        # >>> stage 6
        elif t.source.spelling and isinstance(node, ast.Starred):
            check_target(t, node.value)
        elif t.source.spelling and isinstance(node, (ast.Subscript, ast.Attribute)):
            owner = t.visit(node.value)
            known = f"{describe(owner)} cannot be changed; make another"
            raise KernelTypeError(IMMUTABLE.get(type(owner).__name__, known))
        # <<<
        elif isinstance(node, ast.Starred):
            t.refuse(node)
        else:
            target_name(node)


def assign_to(t: Tracer, node: ast.expr, value: object) -> None:
    """Binds a name, or the names of a tuple to the elements of another."""
    if not isinstance(node, (ast.Tuple, ast.List)):
        return t.bind(target_name(node), value, node)
    with t.at(node):
        if not isinstance(value, tuple):
            what = f"{describe(value)} is not a tuple"
            raise KernelTypeError(f"{what}: it cannot be unpacked into {len(node.elts)} names")
        names, error = node.elts, KernelTypeError
        # >>> stage 6
        if t.source.spelling:
            (names, value), error = gathered(names, value), KernelValueError  # type: ignore[assignment]
        # <<<
        if len(value) != len(names):
            raise error(f"a tuple of {len(value)} cannot be unpacked into {len(names)} names")
    for part, x in zip(names, value, strict=True):
        assign_to(t, part, x)
    return None


# >>> stage 6
def gathered(names: list[ast.expr], values: tuple) -> tuple[list[ast.expr], tuple]:
    """The names without a star, and what each is given; the one that had it, all that the others leave."""
    k = next((k for k, x in enumerate(names) if isinstance(x, ast.Starred)), None)
    rest = len(values) - len(names) + 1
    if k is None or rest < 0:
        return names, values
    return [*names[:k], names[k].value, *names[k + 1 :]], (*values[:k], values[k : k + rest], *values[k + rest :])  # type: ignore[attr-defined]


# <<<
@visits(ast.Assign)
def assign(t: Tracer, node: ast.Assign) -> None:
    for target in node.targets:
        check_target(t, target)
    value = t.visit(node.value)
    silent = value is None and isinstance(node.value, ast.Call)
    # >>> stage 6
    silent = silent and not t.source.spelling
    # <<<
    if silent:
        raise KernelSyntaxError(f"{ast.unparse(node.value.func)} gives no value to assign")
    for target in node.targets:
        assign_to(t, target, value)


@visits(ast.AnnAssign)
def annotated(t: Tracer, node: ast.AnnAssign) -> None:
    """Annotations say nothing, but for ``x: tt.constexpr = ...``, whose value is known at compile time."""
    check_target(t, node.target)
    if node.value is None:
        raise KernelSyntaxError("this gives no value; write x = ..., and no annotation before")
    value = t.visit(node.value)
    if ast.unparse(node.annotation).endswith("constexpr") and run_time(value):
        what = f"a constexpr must be known when the kernel is compiled, not be {describe(value)}"
        raise KernelTypeError(what, t.loc(node.value))
    assign_to(t, node.target, value)


@visits(ast.AugAssign)
def aug_assign(t: Tracer, node: ast.AugAssign) -> None:
    check_target(t, node.target)
    with t.at(node.target):
        name = target_name(node.target)
        t.lookup(name)
    here = ast.copy_location(ast.Name(name, ast.Load()), node.target)
    value = t.visit(ast.copy_location(ast.BinOp(here, node.op, node.value), node))
    t.bind(name, value, node.target)


@visits(ast.Expr)
def expression(t: Tracer, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    t.visit(node.value)
    if not isinstance(node.value, (ast.Call, ast.Yield)):
        raise KernelSyntaxError("this expression has no effect; assign it, or store it")


@visits(ast.Pass)
def nothing(t: Tracer, node: ast.Pass) -> None:
    pass


@visits(ast.Return)
def leave(t: Tracer, node: ast.Return) -> None:
    # >>> stage 5
    if node.value is not None and t.caller is None:
        t.refuse(node, "return of a value")
    t.bind("?value", t.visit(node.value) if node.value else None, node)
    t.env[node.flag] = True  # type: ignore[attr-defined]


@visits(ast.Break, ast.Continue)
def jump(t: Tracer, node: ast.Break | ast.Continue) -> None:
    t.env[node.flag] = True  # type: ignore[union-attr]
    # === before
    # if node.value is not None or node is not t.source.tree.body[-1]:
    #     t.refuse(node, "return" if node.value is None else "return of a value")
    # <<<
