"""Statements: assignments and calls."""

from __future__ import annotations

import ast

from ..errors import KernelSyntaxError
from .expressions import binary
from .tracer import Tracer, visits


def target_name(node: ast.AST) -> str:
    if not isinstance(node, ast.Name):
        what = {
            "Subscript": "a tile cannot be assigned by parts; build it with tt.where",
            "Tuple": "assign one name a line",
        }
        raise KernelSyntaxError(f"a kernel assigns to plain names; {what.get(type(node).__name__, 'not to this')}")
    return node.id


@visits(ast.Assign)
def assign(t: Tracer, node: ast.Assign) -> None:
    for target in node.targets:
        with t.at(target):
            target_name(target)
    value = t.visit(node.value)
    if value is None and isinstance(node.value, ast.Call):
        raise KernelSyntaxError(f"{ast.unparse(node.value.func)} gives no value to assign")
    for target in node.targets:
        t.bind(target_name(target), value, target)


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
    if node.value is not None or node is not t.source.tree.body[-1]:
        t.refuse(node, "return" if node.value is None else "return of a value")
