"""Calls of functions: they are traced in place, in a frame of their own, with what the caller passes: run-time values
as they are, numbers still without a type, tuples, records, dtypes, functions.

Kernels about pointers call what is under `@jit`. Those about arrays call plain functions too, functions and lambdas
that they define, and the methods of frozen dataclasses."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from enum import Enum
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import KernelSyntaxError, KernelTypeError, RecursiveCallError
from ..ops.typing import describe, is_record, record, run_time
from ..spelling import Spelling
from .source import Source, bound, read

if TYPE_CHECKING:
    from .tracer import Frame, Tracer

DEPTH = 200  # calls in calls
FRAMES = 30_000  # of Python, which so many calls may take
GENERATED = "<string>"  # the file of the methods that dataclasses writes
_lock, _inside, _before = threading.Lock(), 0, 0


@contextmanager
def deeper() -> Iterator[None]:
    """Lets Python nest as deep as calls in calls do; the limit is the process's, so the last one out restores it."""
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, FRAMES))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_before)


@dataclass(frozen=True, eq=False)
class Closure:
    """A function that a kernel defines. It sees the names of its frame as they are when it is called."""

    source: Source
    frame: Frame

    @property
    def __name__(self) -> str:
        return self.source.name

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise KernelTypeError(f"{self.source.name} is a function of the kernel: what runs in Python cannot call it")


def helper(function: FunctionType, spelling: Spelling) -> Source:
    """The source of a plain function, read once."""
    source = function.__dict__.get("__tile_source__")
    if source is None or source.function is not function:  # functools.wraps copies it
        source = replace(read(function), spelling=spelling)
        function.__dict__["__tile_source__"] = source
    return source


def changeable(x: object) -> bool:
    """True for an object of the user's whose attributes may change while it stays the same."""
    fixed = isinstance(x, (type, ModuleType, Enum, tuple)) or callable(x) or is_record(x)
    return not fixed and hasattr(x, "__dict__") and type(x).__module__.split(".")[0] != __name__.split(".")[0]


def may_change(what: str, x: object) -> KernelTypeError:
    what = f"{what} a {type(x).__name__}, which may change after the kernel is compiled"
    return KernelTypeError(f"{what}; make that a frozen dataclass")


def called(t: Tracer, f: Any, args: tuple, kwargs: Mapping[str, object]) -> tuple[Any, tuple, dict[str, object]]:
    """What is traced for a call: a function's source, or a closure; and its arguments."""
    spelling = t.source.spelling
    while spelling and not isinstance(getattr(f, "source", None), Source):
        if isinstance(f, FunctionType):
            return helper(f, spelling), args, dict(kwargs)
        if isinstance(f, partial):
            f, args, kwargs = f.func, (*f.args, *args), {**f.keywords, **kwargs}
        elif isinstance(f, MethodType):
            if changeable(f.__self__):
                raise may_change(f"{f.__name__} is of", f.__self__)
            f, args = f.__func__, (f.__self__, *args)
        elif is_record(f) and callable(f):
            f, args = type(f).__call__, (f, *args)
        else:
            break
    return f, args, dict(kwargs)


def inline(t: Tracer, function: Any, *args: object, **kwargs: object) -> object:
    """What a function returns, which is under `@jit`, of the language, or one that kernels about arrays call."""
    if hasattr(function, "entry"):
        bound(f"tt.{function.__name__}", function.entry.signature, args, kwargs)
        return function.entry.rule(t.builder, *args, **kwargs)
    return traced(t, function, args, kwargs)


def traced(
    t: Tracer, function: Any, args: tuple, kwargs: Mapping[str, object], inside: Callable | None = None
) -> object:
    """What a function that has a source returns; ``inside`` is what happens at its ``yield``."""
    function, args, kwargs = called(t, function, args, kwargs)
    source = function if isinstance(function, Source) else getattr(function, "source", None)
    if not isinstance(source, Source):
        what = f"the function must be one under @tt.jit, or of tt, not {describe(function)}"
        raise KernelTypeError(what, argument="combine_fn")
    if not source.spelling and source in (*t.calls, *([] if t.calls else [t.source])):
        chain = " -> ".join(s.name for s in (*t.calls, source))
        what = f"{source.name} calls itself ({chain}), but a call is taken in where it stands; write a loop"
        raise KernelSyntaxError(what)
    if len(t.calls) >= DEPTH:
        what = f"{source.name} is called without end, in {DEPTH} calls: a call is taken in where it stands"
        raise RecursiveCallError(f"{what}, so recursion ends by what is known when the kernel is compiled")
    call = bound(source.name, inspect.Signature(source.params), args, kwargs)
    call.apply_defaults()
    for name in source.constexprs:
        if run_time(x := call.arguments[name]):
            what = f"the parameter {name} of {source.name} is a tt.constexpr: it takes a compile-time value"
            raise KernelTypeError(f"{what}, not {describe(x)}")
    outer, parent = t.frame, getattr(function, "frame", None)
    if parent is None:
        t.root.calls[source] = None
    t.calls.append(source)
    t.enter(source, call.arguments, t.builder.loc, parent)
    t.frame.inside = inside
    try:
        with deeper():
            return t.function()
    finally:
        t.calls.pop()
        t.frame = outer


# -- records -----------------------------------------------------------------------------------------------------------


def construct(t: Tracer, kind: type, args: tuple, kwargs: dict[str, object]) -> object:
    """An instance of a frozen dataclass, whose fields may be run-time values; its ``__post_init__`` is traced."""
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise KernelTypeError(f"{kind.__name__} is a dataclass that is not frozen; write @dataclass(frozen=True)")
    given = bound(kind.__name__, inspect.signature(kind), args, kwargs).arguments
    values = {f.name: f.default for f in fields(kind) if f.default is not MISSING}  # type: ignore[arg-type]
    values |= {f.name: f.default_factory() for f in fields(kind) if f.default_factory is not MISSING}  # type: ignore[arg-type, misc]
    made = record(kind, values | {n: x for n, x in given.items() if n in kind.__dataclass_fields__})  # type: ignore[attr-defined]
    after = getattr(kind, "__post_init__", None)
    if after is not None:
        names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
        t.made.append(made)
        inline(t, after, made, *(x for n, x in given.items() if n not in names))
        t.made.pop()
    return made


def replaced(t: Tracer, made: Any, **changes: object) -> object:
    """``dataclasses.replace`` of a record."""
    return construct(t, type(made), (), {f.name: getattr(made, f.name) for f in fields(made) if f.init} | changes)


def set_field(t: Tracer, made: object, name: str, value: object) -> None:
    """``object.__setattr__`` of a record in its ``__post_init__``."""
    if not any(made is x for x in t.made):
        raise KernelTypeError("a record is set up in its __post_init__ only; make another with dataclasses.replace")
    object.__setattr__(made, name, value)


MADE = {dataclasses.replace: replaced, object.__setattr__: set_field}


def operator_of(t: Tracer, word: str, x: object, *y: object) -> object:
    """What the method of a record for an operator gives, or NotImplemented."""
    word = word.strip("_")
    other = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}.get(word, f"r{word}")
    for owner, name, *operand in ((x, word, *y), *((v, other, x) for v in y)):
        method = inspect.getattr_static(type(owner), f"__{name}__", None)
        if is_record(owner) and isinstance(method, FunctionType) and method.__code__.co_filename != GENERATED:
            return inline(t, method, owner, *operand)
    return NotImplemented
