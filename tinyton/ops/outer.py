"""Products without tensor cores: each thread multiplies some rows by some columns, four of each at a time."""

from __future__ import annotations

from ..ir import Op
from .tensor import Product, plus, times

AT_ONCE = 8  # rounds in a row of threads with many sums: what the next need is read while they multiply


def by_threads(e, op: Op) -> None:
    """Each thread reads its parts of rows and columns into registers, and adds up all products of the two. Of operands
    whose rows run along what is multiplied, it reads some elements of each row at once; of others, neighbours."""
    p, dtype, sums = Product(e, op), op.operands[0].type.dtype, op.result.type.dtype
    size, (*_, rows, columns), ((left, along_x), (right, along_y)) = dtype.itemsize, p.pieces, p.tiles
    many = 2 if size == 8 else 4  # neighbours at once, of 16 bytes at most
    one, some = (e.access("get", dtype, n) for n in (1, many))
    batches = [p.loop("batch", p.pieces[0])] if p.rank > 2 else []
    batch = p.first(0, batches[0], 0) if batches else "0"
    k = p.loop("k", p.bytes // size, many, AT_ONCE if 4 * rows * columns > 64 else 1)
    x, y, inside = e.fresh("left"), e.fresh("right"), e.depth
    e.line(f"{e.c(dtype)} {x}[{rows * many**along_x}], {y}[{4 * columns * many**along_y}];")
    if along_x:
        i = p.loop("i", rows)
        e.line(f"{some}({x} + {times(i, many)}, {left.at(e, batch, p.first(p.rank - 2, i, 0), times(k, size))});")
        p.shut(inside)
    if along_y:
        j, c = p.loop("j", columns), p.loop("c", 4)
        at = right.at(e, batch, plus(p.first(p.rank - 1, j, 0), c), times(k, size))
        e.line(f"{some}({y} + {plus(times(j, 4 * many), times(c, many))}, {at});")
        p.shut(inside)
    w = p.loop("w", many)
    inside = e.depth
    if not along_x:
        i = p.loop("i", rows)
        e.line(f"{one}({x} + {i}, {left.at(e, batch, plus(k, w), times(f'({p.first(p.rank - 2, i, 0)})', size))});")
        p.shut(inside)
    if not along_y:
        j, c = p.loop("j", columns), p.loop("c", 4, many)
        at = right.at(e, batch, plus(k, w), times(f"({plus(p.first(p.rank - 1, j, 0), c)})", size))
        e.line(f"{some}({y} + {plus(times(j, 4), c)}, {at});")
        p.shut(inside)
    i, j, c = p.loop("i", rows), p.loop("j", columns), p.loop("c", 4)
    a = f"{x}[{plus(times(i, many), w) if along_x else i}]"
    b = f"{y}[{plus(times(j, 4 * many), times(c, many), w) if along_y else plus(times(j, 4), c)}]"
    cell = f"{e.arrays[op.result][0]}[{plus(p.register(*batches, i, j), c)}]"
    e.line(f"{cell} = {e.math('fma', sums)}({a}, {b}, {cell});" if sums.is_float else f"{cell} += {a} * {b};")
    p.shut(p.outer)
