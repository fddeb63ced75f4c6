"""``x[:, None]`` on tiles, ``shape[0]`` on compile-time sequences."""

from __future__ import annotations

import ast

from ..errors import KernelTypeError
from ..ir import Value
from ..ops import OPS
from .expressions import python
from .source import Source
from .tracer import Tracer, visits


@visits(ast.Subscript)
def subscript(t: Tracer, node: ast.Subscript) -> object:
    owner = t.visit(node.value)
    if isinstance(getattr(owner, "source", None), Source):
        name = ast.unparse(node.value)
        raise KernelTypeError(f"{name} is no tuple: a kernel calls it as {name}(...), without a grid")
    if hasattr(owner, "subscript"):  # it has a meaning of its own there
        return owner.subscript(t.builder, lambda: t.visit(node.slice))
    if not isinstance(owner, Value):
        index = t.visit(node.slice)
        if isinstance(index, Value):
            raise KernelTypeError("a compile-time sequence takes a compile-time index")
        return python(lambda: owner[index])  # type: ignore[index]
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    kept = 0
    for position, part in enumerate(parts):
        if isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None:
            kept += 1
        elif isinstance(part, ast.Constant) and part.value is None:
            owner = OPS["expand"].rule(t.builder, owner, position)
        else:
            with t.at(part):
                if owner.type.pointer and not owner.type.shape:
                    raise KernelTypeError(f"{ast.unparse(node.value)} is a pointer; read memory with tt.load(x + i)")
                raise KernelTypeError(
                    "a tile is indexed with : and None only, as in x[:, None]; one element is "
                    "tt.sum(tt.where(i == k, x, 0)), several are tt.gather(x, places, axis)"
                )
    if kept > len(owner.type.shape) - (len(parts) - kept):
        raise KernelTypeError(f"too many : for a tile of shape {list(owner.type.shape)}")
    return owner


@visits(ast.Slice)
def part(t: Tracer, node: ast.Slice) -> slice:
    """Of a compile-time sequence."""
    ends = [None if x is None else t.visit(x) for x in (node.lower, node.upper, node.step)]
    if any(isinstance(x, Value) for x in ends):
        raise KernelTypeError("a compile-time sequence takes a compile-time index")
    return slice(*ends)
