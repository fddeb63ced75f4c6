"""Expressions: names, constants, operators, calls, attributes."""

from __future__ import annotations

import ast
import inspect
import operator
from types import ModuleType

from .._later import LATER
from ..errors import KernelSyntaxError, KernelTypeError
from ..ir import Value
from ..language import LanguageFunction
from ..ops import OPS
from .tracer import Tracer, visits

OPERATORS = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("truediv", operator.truediv),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.USub: ("neg", operator.neg),
}


@visits(ast.Constant)
def constant(t: Tracer, node: ast.Constant) -> object:
    return node.value


@visits(ast.Name)
def name(t: Tracer, node: ast.Name) -> object:
    return t.lookup(node.id)


@visits(ast.Attribute)
def attribute(t: Tracer, node: ast.Attribute) -> object:
    owner = t.visit(node.value)
    if isinstance(owner, Value):
        if node.attr != "to":
            raise KernelTypeError(f"a tile has .to, no .{node.attr}")
        return lambda b, *args: OPS["cast"].rule(b, owner, *args)
    if not hasattr(owner, node.attr):
        if isinstance(owner, ModuleType) and node.attr in LATER:
            raise KernelSyntaxError(f"{node.attr} is not in this stage: it arrives in {LATER[node.attr]}")
        raise KernelSyntaxError(f"{ast.unparse(node.value)} has no {node.attr}")
    return getattr(owner, node.attr)


def operate(t: Tracer, kind: ast.AST, *args: object) -> object:
    """An operator: on Python numbers now, on values as an op."""
    if type(kind) not in OPERATORS:
        t.refuse(kind)
    word, function = OPERATORS[type(kind)]
    if not any(isinstance(x, Value) for x in args):
        return function(*args)
    return OPS[word].rule(t.builder, *args)


@visits(ast.BinOp)
def bin_op(t: Tracer, node: ast.BinOp) -> object:
    return operate(t, node.op, t.visit(node.left), t.visit(node.right))


@visits(ast.UnaryOp)
def unary(t: Tracer, node: ast.UnaryOp) -> object:
    return operate(t, node.op, t.visit(node.operand))


@visits(ast.Compare)
def compare(t: Tracer, node: ast.Compare) -> object:
    if len(node.ops) > 1:
        raise KernelSyntaxError("a chained comparison is not supported in a kernel; use tt.where")
    return operate(t, node.ops[0], t.visit(node.left), t.visit(node.comparators[0]))


@visits(ast.Call)
def call(t: Tracer, node: ast.Call) -> object:
    function = t.visit(node.func)
    rule = function.entry.rule if isinstance(function, LanguageFunction) else function
    if not isinstance(function, LanguageFunction) and not isinstance(node.func, ast.Attribute):
        raise KernelTypeError(f"{ast.unparse(node.func)} is a plain Python function; a kernel calls those of tt only")
    args = [t.visit(a) for a in node.args]
    kwargs = {k.arg: t.visit(k.value) for k in node.keywords if k.arg}
    try:
        inspect.signature(rule).bind(t.builder, *args, **kwargs)
    except TypeError as error:
        raise KernelTypeError(f"{ast.unparse(node.func)}: {error}") from None
    return rule(t.builder, *args, **kwargs)
