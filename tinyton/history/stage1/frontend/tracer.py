"""The walk over the syntax tree. Each kind of node has a handler, in this folder; a node without one is refused."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from .._later import LATER
from ..errors import KernelSyntaxError, TinytonError
from ..ir import Builder, Kernel, Type, Value
from .source import Source

Handler = Callable[["Tracer", ast.AST], object]
HANDLERS: dict[type[ast.AST], Handler] = {}


def visits(*kinds: type[ast.AST]) -> Callable[[Handler], Handler]:
    """Registers a handler for kinds of syntax nodes."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


class Tracer:
    """Runs a kernel's body once over types: names are bound to IR values or to compile-time Python objects."""

    def __init__(self, source: Source, scope: Mapping[str, object]):
        self.source, self.scope = source, scope
        self.builder = Builder()
        self.env: dict[str, object] = {}

    def visit(self, node: ast.AST) -> object:
        """The value of an expression, or the effect of a statement, with errors placed at the node."""
        outer = self.builder.loc
        with self.at(node):
            handler = HANDLERS.get(type(node))
            if handler is None:
                self.refuse(node)
            result = handler(self, node)  # type: ignore[misc]
        self.builder.loc = outer
        return result

    def refuse(self, node: ast.AST) -> None:
        name = type(node).__name__
        if name in LATER:
            raise KernelSyntaxError(f"{name} is not in this stage: it arrives in {LATER[name]}")
        raise KernelSyntaxError(f"{name} is not supported in a kernel")

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        if hasattr(node, "lineno"):
            self.builder.loc = self.source.loc(node)
        try:
            yield
        except TinytonError as error:
            error.loc = error.loc or (self.source.loc(node) if hasattr(node, "lineno") else None)
            raise

    def bind(self, name: str, value: object) -> None:
        """Assigns a name; the value takes it as its name in the IR, unless it has one."""
        last = self.builder.ops[-1] if self.builder.ops else None
        if isinstance(value, Value) and not value.name and last and last.results == (value,):
            object.__setattr__(value, "name", name)  # in place: other names may hold the value too
        self.env[name] = value

    def lookup(self, name: str) -> object:
        for names in (self.env, self.scope):
            if name in names:
                return names[name]
        raise KernelSyntaxError(f"{name} is not defined: not a parameter, not assigned above, not a global")


def trace(source: Source, types: Mapping[str, Type], weak: frozenset[str]) -> Kernel:
    """The IR of a kernel for these argument types. ``weak`` names the float arguments."""
    tracer = Tracer(source, source.scope())
    params = tuple(Value(t, name) for name, t in types.items())
    tracer.builder.weak.update(v for v in params if v.name in weak)
    tracer.env.update({v.name: v for v in params})
    for statement in source.tree.body:
        tracer.visit(statement)
    return Kernel(source.name, params, tuple(tracer.builder.ops))
