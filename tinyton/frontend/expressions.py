"""Expressions: names, constants, operators, calls, attributes."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable
from functools import lru_cache, partial, reduce
from itertools import takewhile
from types import ModuleType
from typing import Any, NamedTuple

from .._later import LATER
from ..dtypes import DType, bool_, float32
from ..errors import KernelSyntaxError, KernelTypeError, KernelValueError, TinytonError
from ..ir import Value
from ..language import LanguageFunction, constexpr
from ..ops import OPS, PUBLIC

# >>> stage 6
from ..ops.typing import FString, Struct, describe, flatten, number, run_time, value_of

# === before
# from ..ops.typing import Struct, describe, flatten, number, run_time, value_of
# <<<
# >>> stage 6
from .source import Source, bound

# === before
# from .source import bound
# <<<
from .tracer import BUILTINS, Tracer, plain, visits

BINARY: dict[type[ast.operator], Callable] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
BINARY |= {ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow}
BINARY |= {ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor}
BINARY |= {ast.LShift: operator.lshift, ast.RShift: operator.rshift}
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_}
COMPARE: dict[type[ast.cmpop], Callable] = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt}
COMPARE |= {ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_}
COMPARE |= {ast.IsNot: operator.is_not, ast.In: lambda x, y: x in y, ast.NotIn: lambda x, y: x not in y}
OTHERS = {"lshift": "shl", "rshift": "shr", "pow": ""}  # operators whose op has another name than Python's function


@visits(ast.Constant)
def constant(t: Tracer, node: ast.Constant) -> object:
    if isinstance(node.value, (bytes, complex)) or node.value is Ellipsis:
        raise KernelSyntaxError(f"{node.value!r} is not a value that a kernel can use")
    return node.value


@visits(ast.Name)
def name(t: Tracer, node: ast.Name) -> object:
    return t.lookup(node.id)


@visits(ast.Tuple, ast.List)
def sequence(t: Tracer, node: ast.Tuple) -> tuple:
    return tuple(t.visit(x) for x in node.elts)


@visits(ast.Attribute)
def attribute(t: Tracer, node: ast.Attribute) -> object:
    return attribute_of(t, node, t.visit(node.value))


def attribute_of(t: Tracer, node: ast.Attribute, owner: object) -> object:
    if isinstance(owner, Struct) and node.attr in owner.METHODS:
        rule = owner.METHODS[node.attr]
        return Method(OPS[rule].rule if isinstance(rule, str) else rule, owner)
    is_number = isinstance(owner, (bool, int, float)) and not hasattr(owner, node.attr)
    if is_number and node.attr in ("to", "dtype", "shape", "ndim", *t.methods()):
        owner = value_of(t.builder, owner)
    if isinstance(owner, Value):
        if node.attr in ("dtype", "type"):
            return float32 if owner in t.builder.weak else owner.type.dtype
        if owner.type.pointer and not owner.type.shape:
            what = f"{ast.unparse(node.value)} is a pointer to an array's first element: it has no .{node.attr}"
            raise KernelTypeError(f"{what}; pass extents and strides as arguments")
        if node.attr == "shape":
            return owner.type.shape
        if node.attr == "ndim":
            return len(owner.type.shape)
        if node.attr == "T" and "trans" in PUBLIC:
            return PUBLIC["trans"].rule(t.builder, owner)
        if node.attr in t.methods() or node.attr == "to":
            return Method(OPS["cast"].rule if node.attr == "to" else t.methods()[node.attr].rule, owner)
        instead = f"; write {ast.unparse(node.value)}.to(tt.float32)" * (node.attr == "astype")
        raise KernelTypeError(f"a tile has .dtype, .shape and the functions of tt as methods, no .{node.attr}{instead}")
    try:
        found = getattr(owner, node.attr)
    except TinytonError:  # a module that knows why it has no such name
        raise
    except AttributeError:
        if isinstance(owner, ModuleType) and node.attr in LATER:
            raise KernelSyntaxError(f"{node.attr} is not in this stage: it arrives in {LATER[node.attr]}") from None
        close = suggest(node.attr, owner)
        raise KernelSyntaxError(f"{ast.unparse(node.value)} has no {node.attr}{close}") from None
    return plain(found, node.attr)


def suggest(word: str, owner: object) -> str:
    import difflib

    found = difflib.get_close_matches(word, [w for w in dir(owner) if not w.startswith("_")], 1)
    return f"; did you mean {found[0]}?" if found else ""


class Method(NamedTuple):
    """``x.sum`` before its call: the rule of an op, and what comes first in its arguments."""

    rule: Callable
    owner: object


def python(function, *args: object) -> object:
    """A compile-time computation in Python, whose errors are the user's."""
    try:
        return function(*args)
    except TinytonError:
        raise
    except Exception as error:
        kind = KernelTypeError if isinstance(error, (TypeError, AttributeError, KeyError)) else KernelValueError
        what = f"there is no key {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
        raise kind(what) from None


def binary(t: Tracer, node: ast.AST, kind: ast.operator, x: object, y: object) -> object:
    function = BINARY.get(type(kind))
    if not isinstance(x, (Value, Struct)) and not isinstance(y, (Value, Struct)) and function:
        return python(function, x, y)
    word = function.__name__.rstrip("_") if function else ""
    if (word := OTHERS.get(word, word)) not in OPS:
        t.refuse(kind, f"the operator {type(kind).__name__}")
    return OPS[word].rule(t.builder, x, y)


@visits(ast.BinOp)
def bin_op(t: Tracer, node: ast.BinOp) -> object:
    return binary(t, node, node.op, t.visit(node.left), t.visit(node.right))


@visits(ast.Compare)
def compare(t: Tracer, node: ast.Compare) -> object:
    return compare_all(t, node, compare_two)


def compare_all(t: Tracer, node: ast.Compare, two: Callable) -> object:
    """``a < b < c`` is ``(a < b) & (b < c)``, with b computed once."""
    left, out = t.visit(node.left), None
    for kind, right in zip(node.ops, map(t.visit, node.comparators), strict=True):
        part = two(t, kind, left, right)
        left, out = right, part if out is None else binary(t, node, ast.BitAnd(), out, part)
    return out


def compare_two(t: Tracer, kind: ast.cmpop, x: object, y: object) -> object:
    function = COMPARE[type(kind)]
    is_none = isinstance(kind, (ast.Is, ast.IsNot)) and (x is None or y is None)
    if is_none or not run_time(x, y):
        return python(function, x, y)
    if function.__name__ not in OPS:
        t.refuse(kind, f"{type(kind).__name__} on a run-time value")
    return OPS[function.__name__].rule(t.builder, x, y)


@visits(ast.UnaryOp)
def unary(t: Tracer, node: ast.UnaryOp) -> object:
    return negated(t, node, t.visit(node.operand))


def negated(t: Tracer, node: ast.UnaryOp, x: object) -> object:
    if not isinstance(x, Value):
        return python(UNARY[type(node.op)], x)
    if isinstance(node.op, ast.UAdd):
        return number(t.builder, x)
    if isinstance(node.op, ast.Not):
        if x.type.shape:
            raise KernelTypeError("not is for one condition; of a mask, write ~mask")
        return OPS["eq"].rule(t.builder, number(t.builder, x), False if x.type.dtype is bool_ else 0)
    return OPS["neg" if isinstance(node.op, ast.USub) else "invert"].rule(t.builder, x)


@visits(ast.JoinedStr)
def joined(t: Tracer, node: ast.JoinedStr) -> object:
    """A text; a record of the parts, if there are run-time values and what can print them."""
    parts: list[object] = []
    for part in node.values:
        if not isinstance(part, ast.FormattedValue):
            parts.append(part.value)  # type: ignore[attr-defined]
            continue
        if part.conversion != -1:
            what = "!r, !s and !a are not supported in a kernel's f-string; leave it out"
            raise KernelSyntaxError(what, t.loc(part))
        value, spec = t.visit(part.value), t.visit(part.format_spec) if part.format_spec else ""
        if not isinstance(spec, str):
            raise KernelSyntaxError("the format in an f-string must be known when the kernel is compiled")
        parts.append((value, spec) if run_time(value) else python(format, value, spec))
    if all(isinstance(part, str) for part in parts):
        return "".join(parts)  # type: ignore[arg-type]
    # >>> stage 6
    if t.source.spelling:
        return FString(tuple(parts))
    # <<<
    what = 'an f-string in a kernel holds compile-time values; tt.device_print("x", x) shows the others when it runs'
    raise KernelSyntaxError(what)


@visits(ast.Call)
def call(t: Tracer, node: ast.Call) -> object:
    function = t.visit(node.func)
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        raise KernelSyntaxError("* and ** in a call are not supported in a kernel; name the arguments")
    args = [t.visit(a) for a in node.args]
    kwargs = {k.arg: t.visit(k.value) for k in node.keywords}
    return invoke(t, node, function, args, kwargs)  # type: ignore[arg-type]


def invoke(t: Tracer, node: ast.Call, function: Any, args: list, kwargs: dict[str, object]) -> object:
    if isinstance(function, Method):
        return apply(t, node, f".{node.func.attr}", function.rule, [function.owner, *args], kwargs)  # type: ignore[attr-defined]
    values = [v for v in flatten((*args, *kwargs.values()))[0] if isinstance(v, Value)]
    if function in (len, tuple) and len(args) == 1 and isinstance(args[0], tuple):
        values = []
    if isinstance(function, LanguageFunction):
        if function.entry.host and not values:
            return python(lambda: function.entry.host(*args, **kwargs))
        return apply(t, node, f"{function.module}.{function.__name__}", function.entry.rule, args, kwargs)
    # >>> stage 6
    if isinstance(getattr(function, "source", None), Source):
        return t.builder.call(function, *args, **kwargs)
    # <<<
    label = ast.unparse(node.func)
    if isinstance(function, DType):
        raise KernelTypeError(f"a type is not called; write x.to(tt.{function})")
    if function in (min, max) and values and len(args) > 1 and not kwargs:
        return reduce(partial(OPS["minimum" if function is min else "maximum"].rule, t.builder), args)
    if function is abs and values:
        return apply(t, node, label, OPS["abs"].rule, args, kwargs)
    if not callable(function):
        raise KernelTypeError(f"{label} is not a function ({describe(function)})")
    module = getattr(function, "__module__", "")
    if function in (constexpr, *BUILTINS.values()) or module in ("math", __name__.split(".")[0] + ".layout"):
        if values:
            instead = "; write .to(...)" if function in (int, float, bool) else known(t, function)
            raise KernelTypeError(f"{label} takes compile-time values; given {values[0].type}{instead}")
        return python(lambda: function(*args, **kwargs))
    if inspect.isfunction(function) and module.split(".")[0] != __name__.split(".")[0]:
        raise KernelTypeError(f"{label} is a plain Python function; put @tt.jit on it, so that a kernel can call it")
    what = f"{label} is {describe(function)}; a kernel calls the functions of tt, and those under @tt.jit"
    raise KernelTypeError(what + known(t, function))


def known(t: Tracer, function: object) -> str:
    """What to write instead of a function of another module, if the language has one of that name."""
    name = getattr(function, "__name__", "")
    return f"; there is tt.{name}" if name in t.methods() else ""


@lru_cache(maxsize=1024)  # some rules are made for one call
def _signature(rule: Callable) -> inspect.Signature:
    """What the user gives a typing rule: all but the builder."""
    takes = inspect.signature(rule)
    return takes.replace(parameters=list(takes.parameters.values())[1:])


def apply(t: Tracer, node: ast.Call, label: str, rule, args: list, kwargs: dict) -> object:
    """Calls a typing rule with the user's arguments; an error about one argument points at it."""
    takes = _signature(rule)
    given, params = bound(label, takes, args, kwargs).arguments, tuple(takes.parameters.values())
    try:
        for p in params:
            if isinstance(x := given.get(p.name), Value) and isinstance(p.default, bool):
                what = f"{p.name} is True or False, known when the kernel is compiled, not {x.type}"
                raise KernelTypeError(what, argument=p.name)
        return rule(t.builder, *args, **kwargs)
    except TinytonError as error:
        if error.loc is None and error.argument is not None:
            known = takewhile(lambda x: not isinstance(x, ast.Starred), node.args)
            places = {p.name: x for p, x in zip(params[label.startswith(".") :], known, strict=False)}
            places |= {k.arg: k.value for k in node.keywords}
            if error.argument in places:
                error.loc = t.loc(places[error.argument])
        raise
