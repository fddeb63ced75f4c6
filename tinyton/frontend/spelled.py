"""The Python of kernels about arrays, where it is more than kernels about pointers have: functions in functions,
starred values, records, and comprehensions over compile-time values. `SPELLED` has its handlers."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from enum import Enum
from functools import cached_property, partial, reduce
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType, WrapperDescriptorType
from typing import Any

from ..dtypes import DType, from_numpy, is_foreign
from ..errors import KernelSyntaxError, KernelTypeError
from ..ir import Value
from ..language import LanguageFunction
from ..ops.typing import Struct, describe, is_record, run_time, taken_apart
from ..spelling import ConstantAnnotation
from . import expressions
from .calls import MADE, Closure, changeable, construct, may_change, operator_of
from .expressions import BINARY, COMPARE, UNARY, apply, binary, compare_all, compare_two, python
from .flow import assigned
from .source import as_function
from .statements import assign_to
from .static import static
from .tracer import BUILTINS, SPELLED, Frame, Tracer, visits

STATIC = ("static_eval", "static_iter", "static_assert")  # whose arguments Python computes
ORDER = {ast.Lt: ast.Lt, ast.LtE: ast.Lt, ast.Gt: ast.Gt, ast.GtE: ast.Gt}


# -- functions ---------------------------------------------------------------------------------------------------------


def closure(t: Tracer, node: ast.FunctionDef) -> Closure:
    """The function that ``node`` defines here. Its defaults are computed now, as Python does."""
    args, marked = node.args, []
    positional = [*args.posonlyargs, *args.args]
    defaults: dict = dict(zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True))
    defaults |= dict(zip(args.kwonlyargs, args.kw_defaults, strict=True))
    params, kinds = [], [args.posonlyargs, args.args, [args.vararg], args.kwonlyargs, [args.kwarg]]
    for kind, a in ((kind, a) for kind, names in enumerate(kinds) for a in names if a):
        default = defaults.get(a)
        value = inspect.Parameter.empty if default is None else t.visit(default)
        params.append(inspect.Parameter(a.arg, inspect._ParameterKind(kind), default=value))
        if a.annotation is not None and "Constant" in ast.unparse(a.annotation):
            marks = getattr(t.visit(a.annotation), "__metadata__", ())
            marked += [a.arg] * any(isinstance(m, ConstantAnnotation) for m in marks)
    known = {"params": tuple(params), "constexprs": frozenset(marked)}
    local = frozenset([*(p.name for p in params), *assigned(node.body)])
    return Closure(replace(t.source, name=node.name, tree=node, local=local, **known), t.frame)


@visits(ast.FunctionDef, table=SPELLED)
def define(t: Tracer, node: ast.FunctionDef) -> None:
    if node.decorator_list:
        what = "a function in a kernel takes no decorator; call the decorator's work by name"
        raise KernelSyntaxError(what, t.loc(node.decorator_list[0]))
    t.bind(node.name, closure(t, node), node)


@visits(ast.Lambda, table=SPELLED)
def anonymous(t: Tracer, node: ast.Lambda) -> Closure:
    return closure(t, as_function(node))


@visits(ast.Call, table=SPELLED)
def call(t: Tracer, node: ast.Call) -> object:
    function = t.visit(node.func)
    if function is tuple and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
        return comprehension(t, node.args[0])
    return invoke(t, node, function, *arguments(t, node, function))


def arguments(t: Tracer, node: ast.Call, function: object) -> tuple[list, dict[str, object]]:
    """What is passed, by place and by name."""
    value: Callable[[ast.expr], object] = t.visit
    if isinstance(function, LanguageFunction) and function.__name__ in STATIC:
        value = partial(static, t, traced=function.__name__ == "static_assert")
    args, kwargs = starred(t, node.args, value), {}
    for k in node.keywords:
        given = {k.arg: value(k.value)} if k.arg else value(k.value)
        if not isinstance(given, dict) or kwargs.keys() & given.keys():
            twice = "an argument is given twice" if isinstance(given, dict) else ""
            raise KernelTypeError(twice or f"** is of **kwargs, not {describe(given)}", t.loc(k.value))
        kwargs |= given
    return args, kwargs


def starred(t: Tracer, nodes: list[ast.expr], value: Callable[[ast.expr], object]) -> list[object]:
    """The values of expressions, those under a star one by one."""
    out: list[object] = []
    for node in nodes:
        x = value(node.value if isinstance(node, ast.Starred) else node)
        if not isinstance(node, ast.Starred):
            out.append(x)
        elif isinstance(x, (tuple, dict, range)):
            out += x
        else:
            raise KernelTypeError(f"* is of a tuple, not {describe(x)}", t.loc(node))
    return out


def meaning(t: Tracer, key: object) -> Callable | None:
    """The rule that something of Python has in this spelling."""
    assert t.source.spelling
    found = next((m for k, m in t.source.spelling.meanings.items() if k is key), None)
    if isinstance(found, str):
        found = getattr(t.source.spelling.functions.get(found), "rule", None)
    return found


def invoke(t: Tracer, node: ast.Call, function: Any, args: list, kwargs: dict[str, object]) -> object:
    label, rule = ast.unparse(node.func), meaning(t, function)
    if isinstance(function, DType) or is_foreign(function):
        return apply(t, node, label, partial(meaning(t, DType), dtype=from_numpy(function)), args, kwargs)
    if isinstance(function, LanguageFunction) and function.__name__ in STATIC:
        return apply(t, node, f"ct.{function.__name__}", function.entry.rule, args, kwargs)
    if rule and len(args) == 1 and (found := operator_of(t, function.__name__, args[0])) is not NotImplemented:
        return found
    if rule and (function is print or run_time(*args, *kwargs.values())):
        return apply(t, node, label, rule, args, kwargs)
    if isinstance(function, (FunctionType, WrapperDescriptorType)) and function in MADE:
        return MADE[function](t, *args, **kwargs)
    if isinstance(function, type):
        if is_dataclass(function):
            return construct(t, function, tuple(args), kwargs)
        if issubclass(function, (tuple, Enum, partial)) and function is not tuple:
            return python(lambda: function(*args, **kwargs))
    own = getattr(function, "__module__", None) or ""
    if own.split(".")[0] != __name__.split(".")[0] or isinstance(function, Closure):
        if isinstance(function, MethodType) and isinstance(function.__self__, tuple) and function.__name__[0] == "_":
            return python(lambda: function(*args, **kwargs))  # _replace of a named tuple
        if isinstance(function, (FunctionType, MethodType, Closure, partial)) or is_record(function):
            return t.builder.call(function, *args, **kwargs)
    if isinstance(function, BuiltinMethodType) and isinstance(function.__self__, (int, float, str, tuple, dict)):
        found = python(lambda: function(*args, **kwargs))
        return found if not isinstance(function.__self__, dict) or function.__name__ == "get" else tuple(found)  # type: ignore[arg-type]
    name = getattr(function, "__name__", "")
    if getattr(builtins, name, None) is function and name not in BUILTINS:
        return python(lambda: function(*args, **kwargs)) if rule else t.refuse_builtin(name)
    if function is isinstance and len(args) == 2 and not isinstance(args[0], Value):
        return python(isinstance, *args)
    return expressions.invoke(t, node, function, args, kwargs)


# -- records, tuples, texts --------------------------------------------------------------------------------------------


@visits(ast.Attribute, table=SPELLED)
def attribute(t: Tracer, node: ast.Attribute) -> object:
    owner, root = t.visit(node.value), node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    if changeable(owner) and not (isinstance(root, ast.Name) and t.reads_outside(root.id)):
        raise may_change(f"{ast.unparse(node.value)} is", owner)
    if is_record(owner) and not isinstance(owner, Struct):
        found = inspect.getattr_static(type(owner), node.attr, None)
        if isinstance(found, (property, cached_property)):
            return t.builder.call(found.fget if isinstance(found, property) else found.func, owner)
    try:
        return expressions.attribute_of(t, node, owner)
    except KernelSyntaxError as error:
        if isinstance(owner, ModuleType):
            raise
        raise KernelTypeError(error.message) from None


@visits(ast.Tuple, ast.List, table=SPELLED)
def sequence(t: Tracer, node: ast.Tuple | ast.List) -> tuple:
    if isinstance(node, ast.List):
        raise KernelSyntaxError("a list is not supported in a kernel; write a tuple, (x, y)")
    return tuple(starred(t, node.elts, t.visit))


@visits(ast.BinOp, table=SPELLED)
def bin_op(t: Tracer, node: ast.BinOp) -> object:
    word = BINARY[type(node.op)].__name__ if type(node.op) in BINARY else "matmul"
    return operation(t, node, word, t.visit(node.left), t.visit(node.right))


def operation(t: Tracer, node: Any, word: str, *xs: object) -> object:
    """What an operator gives: by a method of a record, in this spelling, or as in the other."""
    if (found := operator_of(t, word, *xs)) is not NotImplemented:
        return found
    if (rule := meaning(t, type(node.op))) and any(isinstance(x, Value) for x in xs):
        return rule(t.builder, *xs)
    return binary(t, node, node.op, *xs) if len(xs) > 1 else expressions.negated(t, node, *xs)


@visits(ast.UnaryOp, table=SPELLED)
def unary(t: Tracer, node: ast.UnaryOp) -> object:
    x = t.visit(node.operand)
    if isinstance(node.op, ast.Invert) and isinstance(x, bool):
        raise KernelTypeError("~ of a bool of Python's is an int; write not x, or ct.bitwise_not(x)")
    return operation(t, node, UNARY[type(node.op)].__name__, x)


@visits(ast.Compare, table=SPELLED)
def compare(t: Tracer, node: ast.Compare) -> object:
    def two(t: Tracer, kind: ast.cmpop, x: Any, y: Any) -> object:
        if isinstance(kind, (ast.In, ast.NotIn)):
            found = operator_of(t, "contains", y, x)
            if found is not NotImplemented:
                return found if isinstance(kind, ast.In) else opposite(found)
        found = operator_of(t, COMPARE[type(kind)].__name__, x, y)
        return part(type(kind), x, y) if found is NotImplemented else found

    def part(kind: type[ast.cmpop], x: Any, y: Any) -> object:
        """Of tuples and records that hold run-time values, element by element."""
        if not run_time(x, y):
            return compare_two(t, kind(), x, y)
        if kind in (ast.In, ast.NotIn) and isinstance(y, tuple):
            found = reduce(either, (two(t, ast.Eq(), x, v) for v in y), False)
            return found if kind is ast.In else opposite(found)
        same = isinstance(x, tuple) and isinstance(y, tuple)
        if type(x) is type(y) and is_record(x) and not isinstance(x, Struct):
            if kind in (ast.Eq, ast.NotEq) and not type(x).__dataclass_params__.eq:
                return (x is y) is (kind is ast.Eq)
            same = kind in (ast.Eq, ast.NotEq) or type(x).__dataclass_params__.order
        if same and kind in (ast.Eq, ast.NotEq, *ORDER):
            left, right = (list(taken_apart(v)[1]) for v in (x, y))  # type: ignore[index]
            if kind in (ast.Eq, ast.NotEq):
                if len(left) != len(right):
                    return kind is ast.NotEq
                different = (opposite(two(t, ast.Eq(), a, b)) for a, b in zip(left, right, strict=True))
                found = reduce(either, different, False)
                return found if kind is ast.NotEq else opposite(found)
            found = python(COMPARE[kind], len(left), len(right))
            for a, b in reversed(list(zip(left, right, strict=False))):
                rest = binary(t, node, ast.BitAnd(), two(t, ast.Eq(), a, b), found)
                found = either(two(t, ORDER[kind](), a, b), rest)
            return found
        other = y if isinstance(x, Value) else x
        if kind in (ast.Eq, ast.NotEq) and (other is None or isinstance(other, (str, Enum, DType))):
            if not isinstance(other, int):  # an IntEnum is a number
                return kind is ast.NotEq
        return compare_two(t, kind(), x, y)

    def either(x: object, y: object) -> object:
        return True if x is True or y is True else binary(t, node, ast.BitOr(), x, y)

    def opposite(x: object) -> object:
        return not x if isinstance(x, bool) else expressions.OPS["invert"].rule(t.builder, x)

    return compare_all(t, node, two)


def comprehension(t: Tracer, node: ast.GeneratorExp) -> tuple:
    """``tuple(... for ... in ...)`` over compile-time sequences, in a scope of its own."""
    out: list[object] = []

    def run(generators: list[ast.comprehension], over: object) -> None:
        if not isinstance(over, tuple):
            what = "a comprehension runs over ct.static_iter(...), or a tuple"
            raise KernelSyntaxError(what, t.loc(generators[0].iter))
        for x in over:
            assign_to(t, generators[0].target, x)
            if all(truth(t, test) for test in generators[0].ifs):
                if generators[1:]:
                    run(generators[1:], t.visit(generators[1].iter))
                else:
                    out.append(t.visit(node.elt))

    first, outer = t.visit(node.generators[0].iter), t.frame
    names = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    source = replace(t.source, local=frozenset(names))
    t.frame = Frame(source, t.scope, {}, {}, t.caller, outer)
    try:
        run(node.generators, first)
    finally:
        t.frame = outer
    return tuple(out)


def truth(t: Tracer, node: ast.expr) -> bool:
    x = t.visit(node)
    if isinstance(x, Value):
        what = "a comprehension's condition must be known when the kernel is compiled"
        raise KernelTypeError(what, t.loc(node))
    return bool(x)
