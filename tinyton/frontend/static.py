"""What Python itself computes when a kernel about arrays is compiled: `ct.static_eval`, `ct.static_iter` and
`ct.static_assert`. Run-time values are there too, and tell what is known of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import FunctionType
from typing import Any

from ..errors import KernelTypeError, StaticEvalError, TinytonError
from ..ir import Value
from ..ops.typing import describe, flatten, run_time
from .calls import helper
from .tracer import Tracer

MOST = 1000  # rounds of a loop over ct.static_iter


@dataclass(frozen=True, eq=False)
class Opaque:
    """A run-time value in an expression that Python computes: it can be passed on, and asked for what is known."""

    value: Value

    def __getattr__(self, name: str) -> object:
        kind = self.value.type
        if name == "type":
            return kind
        if name in ("dtype", "shape", "ndim") and not kind.pointer:
            return {"dtype": kind.dtype, "shape": kind.shape, "ndim": len(kind.shape)}[name]
        raise AttributeError(f"a value of the run time has .dtype, .shape and .ndim here, no .{name}")


def _refused(self: Opaque, *args: object) -> Any:
    raise StaticEvalError(f"this needs {self.value.type}, a value that is known only when the kernel runs")


_TWO = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift".split()
_ONE = (
    "bool index int float len iter getitem call format str repr neg pos abs invert contains lt le gt ge eq ne".split()
)
for _word in [*_ONE, *_TWO, *(f"r{word}" for word in _TWO)]:
    setattr(Opaque, f"__{_word}__", _refused)


def static(t: Tracer, node: ast.expr, traced: bool = False) -> object:
    """The value that Python itself gives an expression, with the names of the kernel; ``traced``: or else the kernel,
    if it is known then."""
    node, names = (node.value if isinstance(node, ast.Starred) else node), {}
    for name in sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name)}):
        try:
            names[name] = t.lookup(name)
        except TinytonError:  # one of the expression's own, or Python says that it is not there
            continue
    for x in names.values():
        watch(t, x)
    with t.at(node):
        try:
            hidden = {name: swapped(x, Value, Opaque) for name, x in names.items()}
            found = eval(compile(ast.Expression(node), "<kernel>", "eval"), hidden)  # noqa: S307  (the user's own text)
        except Exception as error:
            if traced:
                with suppress(TinytonError):
                    if not run_time(found := t.visit(node)):
                        return found
            if isinstance(error, TinytonError) and type(error) is not TinytonError:
                raise
            what = f"{type(error).__name__}: {error}"
            if isinstance(error, TinytonError):  # a function of the language, which Python cannot call
                what = f"{error.message.partition(':')[0]}, when they run; Python computes this before"
            raise StaticEvalError(what) from None
    return swapped(tuple(found) if isinstance(found, list) else found, Opaque, lambda x: x.value)


def _package(function: Callable) -> str:
    return (function.__module__ or "").split(".")[0]


def watch(t: Tracer, function: object) -> None:
    """What the program's functions read that Python runs belongs to the kernel's key too, if it can."""
    if isinstance(function, FunctionType) and _package(function) == _package(t.root.function):
        with suppress(TinytonError, TypeError):
            source = helper(function, t.source.spelling)  # type: ignore[arg-type]
            near = [source.scope().get(path.split(".")[0]) for path in source.watched]
            hash(tuple(near))
            if source not in t.root.calls:
                t.root.calls[source] = None
                for x in near:
                    watch(t, x)


def swapped(x: object, kind: type, other: Callable) -> Any:
    leaves, rebuild = flatten(x)
    new = [other(v) if isinstance(v, kind) else v for v in leaves]
    return rebuild(new) if any(isinstance(v, kind) for v in leaves) else x


def iterated(over: Any) -> tuple:
    """The elements of what a kernel goes through when it is compiled."""
    try:
        found = tuple(islice(iter(over), MOST + 1))
    except TypeError:
        what = f"static_iter goes through a sequence, not {describe(over)}"
        raise KernelTypeError(what, argument="iterable") from None
    if len(found) > MOST:
        what = f"static_iter goes through at most {MOST} elements, which would each be code"
        raise StaticEvalError(what, argument="iterable")
    return tuple(swapped(x, Opaque, lambda v: v.value) for x in found)
