"""``with`` in kernels about arrays: of what is under `contextlib.contextmanager`, whose code is traced around the body,
and of records that have ``__enter__`` and ``__exit__``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import contextmanager
from types import MethodType

from ..errors import KernelSyntaxError, KernelTypeError
from ..ops.typing import describe, is_record
from .calls import traced
from .spelled import arguments
from .statements import assign_to
from .tracer import SPELLED, Tracer, visits

WRAPPER = contextmanager(lambda: iter(())).__code__  # what the decorator makes of every function


@visits(ast.With, table=SPELLED)
def with_statement(t: Tracer, node: ast.With, k: int = 0) -> None:
    if k == len(node.items):
        return t.body(node.body)
    item, outer, runs = node.items[k], t.frame, []

    def inside(value: object) -> None:
        frame, t.frame = t.frame, outer
        runs.append(True)
        if len(runs) > 1:
            raise KernelSyntaxError("a context manager yields once")
        if item.optional_vars:
            assign_to(t, item.optional_vars, value)
        with_statement(t, node, k + 1)
        t.frame = frame

    with t.at(item.context_expr):
        enter_context(t, item.context_expr, inside)
        if not runs:
            raise KernelSyntaxError("a context manager yields once, on every path; this one does not")
    return None


def enter_context(t: Tracer, node: ast.expr, inside: Callable[[object], None]) -> None:
    function = t.visit(node.func) if isinstance(node, ast.Call) else None
    plain, owner = (function.__func__, (function.__self__,)) if isinstance(function, MethodType) else (function, ())
    if getattr(plain, "__code__", None) is WRAPPER:
        args, kwargs = arguments(t, node, plain)  # type: ignore[arg-type]
        traced(t, plain.__wrapped__, (*owner, *args), kwargs, inside)  # type: ignore[union-attr]
        return
    manager = t.visit(node)
    if not is_record(manager) or not hasattr(type(manager), "__enter__"):
        raise KernelTypeError(f"with is of what is under contextlib.contextmanager, not of {describe(manager)}")
    inside(traced(t, type(manager).__enter__, (manager,), {}))  # type: ignore[attr-defined]
    traced(t, type(manager).__exit__, (manager, None, None, None), {})  # type: ignore[attr-defined]


@visits(ast.Yield, table=SPELLED)
def give(t: Tracer, node: ast.Yield) -> None:
    if t.frame.inside is None:
        t.refuse(node)
    t.frame.inside(t.visit(node.value) if node.value else None)  # type: ignore[misc]


@visits(ast.Try, table=SPELLED)
def attempt(t: Tracer, node: ast.Try) -> None:
    """``try: yield ... finally: ...`` of a context manager; nothing is raised at run time."""
    if t.frame.inside is None or node.handlers or node.orelse:
        t.refuse(node)
    t.body(node.body)
    t.body(node.finalbody)
