"""``x[:, None]`` and constant slices of tiles, ``shape[0]`` of compile-time sequences."""

from __future__ import annotations

import ast

from ..errors import KernelTypeError
from ..ir import Value

# >>> stage 7
from ..layout import log2, next_power_of_2

# <<<
from ..ops import OPS

# >>> stage 7
from ..ops.rearrange import halves
from ..ops.typing import broadcast

# <<<
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
    # >>> stage 7
    if t.source.spelling:
        parts = _written_out(parts, len(owner.type.shape))
    # <<<
    kept = 0
    for position, part in enumerate(parts):
        if isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None:
            kept += 1
        elif isinstance(part, ast.Constant) and part.value is None:
            owner = OPS["expand"].rule(t.builder, owner, position)
        # >>> stage 7
        elif t.source.spelling and isinstance(part, ast.Slice) and position < len(owner.type.shape):
            with t.at(part):
                owner, kept = _sliced(t, owner, position, t.visit(part)), kept + 1  # type: ignore[arg-type]
        # <<<
        else:
            with t.at(part):
                if owner.type.pointer and not owner.type.shape:
                    raise KernelTypeError(f"{ast.unparse(node.value)} is a pointer; read memory with tt.load(x + i)")
                # >>> stage 7
                if t.source.spelling:
                    what = "a tile is indexed with :, None, ... and constant slices only; a part of it is ct.extract"
                    raise KernelTypeError(f"{what}(x, index, shape), the only element of a tile x.item()")
                # <<<
                what = "a tile is indexed with : and None only, as in x[:, None]; one element is"
                raise KernelTypeError(f"{what} tt.sum(tt.where(i == k, x, 0)), several are tt.gather(x, places, axis)")
    if kept > len(owner.type.shape) - (len(parts) - kept):
        raise KernelTypeError(f"too many : for a tile of shape {list(owner.type.shape)}")
    return owner


# >>> stage 7
def _written_out(parts: list[ast.expr], rank: int) -> list[ast.expr]:
    """An index with as many : as its ... stands for."""
    dots = [k for k, p in enumerate(parts) if isinstance(p, ast.Constant) and p.value is Ellipsis]
    if len(dots) != 1:
        return parts
    new = sum(isinstance(p, ast.Constant) and p.value is None for p in parts)
    return [*parts[: dots[0]], *[ast.Slice()] * (rank - len(parts) + 1 + new), *parts[dots[0] + 1 :]]


def _sliced(t: Tracer, x: Value, axis: int, at: slice) -> Value:
    """``x[a:b]`` along an axis, for constants a and b. What starts at a multiple of its extent is looked at where it
    is, as some bits of the coordinate are constant; other parts move."""
    n = x.type.shape[axis]
    start, stop, step = python(at.indices, n)  # type: ignore[misc]
    size = stop - start
    if step != 1 or size < 1 or size & (size - 1):
        why = f"{size} is none, but next_power_of_2({size}) = {next_power_of_2(size)} is" if size > 0 else "it is empty"
        why = f"along dimension {axis} of {n}, {why if step == 1 else f'the step is {step}'}"
        what = f"a slice of a tile has an extent that is a power of two, and no step; of this one, {why}"
        raise KernelTypeError(f"{what}. A part of a tile is ct.extract(x, index, shape)")
    if start % size:
        shape = tuple(size if d == axis else m for d, m in enumerate(x.type.shape))
        places = OPS["arange"].rule(t.builder, start, stop)
        for d in range(len(shape)):
            places = places if d == axis else OPS["expand"].rule(t.builder, places, d)
        return OPS["gather"].rule(t.builder, x, broadcast(t.builder, places, shape), axis)
    for bit in reversed(range(log2(size), log2(n))):
        x = halves(t.builder, x, axis, bit)[start >> bit & 1]
    return x


# <<<
@visits(ast.Slice)
def part(t: Tracer, node: ast.Slice) -> slice:
    """Of a compile-time sequence, or of a tile."""
    ends = [None if x is None else t.visit(x) for x in (node.lower, node.upper, node.step)]
    if any(isinstance(x, Value) for x in ends):
        part = "; ct.extract(x, index, shape) takes a run-time index" if t.source.spelling else ""
        raise KernelTypeError(f"the ends of a slice must be known when the kernel is compiled{part}")
    return slice(*ends)
