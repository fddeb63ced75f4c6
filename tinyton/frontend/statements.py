"""Statements: assignments and calls."""

from __future__ import annotations

import ast

from ..errors import KernelSyntaxError, KernelTypeError
from ..ir import Value
from ..ops.typing import describe, flatten
from .expressions import binary
from .tracer import Tracer, visits


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
            raise KernelTypeError(
                f"{describe(value)} is not a tuple: it cannot be unpacked into {len(node.elts)} names"
            )
        if len(value) != len(node.elts):
            raise KernelTypeError(f"a tuple of {len(value)} cannot be unpacked into {len(node.elts)} names")
    for part, x in zip(node.elts, value, strict=True):
        assign_to(t, part, x)
    return None


@visits(ast.Assign)
def assign(t: Tracer, node: ast.Assign) -> None:
    for target in node.targets:
        check_target(t, target)
    value = t.visit(node.value)
    if value is None and isinstance(node.value, ast.Call):
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
    if ast.unparse(node.annotation).endswith("constexpr") and any(isinstance(v, Value) for v in flatten(value)[0]):
        with t.at(node.value):
            raise KernelTypeError(f"a constexpr must be known when the kernel is compiled, not be {describe(value)}")
    assign_to(t, node.target, value)


@visits(ast.AugAssign)
def aug_assign(t: Tracer, node: ast.AugAssign) -> None:
    with t.at(node.target):
        name = target_name(node.target)
        current = t.lookup(name)
    t.bind(name, binary(t, node, node.op, current, t.visit(node.value)), node.target)


@visits(ast.Expr)
def expression(t: Tracer, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    t.visit(node.value)
    if not isinstance(node.value, ast.Call):
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
