"""Calls of functions under `@jit`: they are traced in place, in a scope of their own, with what the caller passes:
run-time values as they are, numbers still without a type, tuples, dtypes, functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import KernelSyntaxError, KernelTypeError
from ..ir import Value
from ..ops.typing import describe, flatten
from .source import Source, bound

if TYPE_CHECKING:
    from .tracer import Tracer


def inline(t: Tracer, function: Any, *args: object, **kwargs: object) -> object:
    """What ``function``, which is under `@jit` or of the language, returns: a value, a tuple, or None."""
    if hasattr(function, "entry"):
        bound(f"tt.{function.__name__}", tuple(function.entry.signature.parameters.values()), args, kwargs)
        return function.entry.rule(t.builder, *args, **kwargs)
    source = getattr(function, "source", None)
    if not isinstance(source, Source):
        raise KernelTypeError(
            f"the function must be one under @tt.jit, or of tt, not {describe(function)}", argument="combine_fn"
        )
    chain = [f.source.name for f in t.calls]
    if function in t.calls or (not t.calls and source is t.source):
        raise KernelSyntaxError(
            f"{source.name} calls itself ({' -> '.join([*chain, source.name])}), but a call is taken in where it "
            f"stands; write a loop"
        )
    call = bound(source.name, source.params, args, kwargs)
    call.apply_defaults()
    for name in source.constexprs:
        if any(isinstance(x, Value) for x in flatten(call.arguments[name])[0]):
            raise KernelTypeError(
                f"the parameter {name} of {source.name} is a tt.constexpr: it takes a compile-time value, not "
                f"{describe(call.arguments[name])}"
            )
    outer = t.source, t.scope, t.env, t.bound_at, t.caller
    t.calls.append(function)
    t.caller = t.builder.loc
    t.enter(source, call.arguments)
    try:
        return t.function()
    finally:
        t.calls.pop()
        t.source, t.scope, t.env, t.bound_at, t.caller = outer
