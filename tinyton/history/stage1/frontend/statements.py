"""Statements: assignments and calls."""

from __future__ import annotations

import ast

from ..errors import KernelSyntaxError
from .tracer import Tracer, visits


@visits(ast.Assign)
def assign(t: Tracer, node: ast.Assign) -> None:
    if not all(isinstance(target, ast.Name) for target in node.targets):
        raise KernelSyntaxError("a kernel assigns to plain names")
    value = t.visit(node.value)
    for target in node.targets:
        t.bind(target.id, value)  # type: ignore[attr-defined]


@visits(ast.Expr)
def expression(t: Tracer, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    if not isinstance(node.value, ast.Call):
        raise KernelSyntaxError("this expression has no effect; assign it, or store it")
    t.visit(node.value)
