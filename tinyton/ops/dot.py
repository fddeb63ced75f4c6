"""Products of matrices."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType, float16, float32, float64, int8, int32, uint8
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from ..layout import blocked
from . import OPS, op
from .convert import pitched, room, stage

# >>> stage 8
from .outer import by_threads

# <<<
from .rearrange import full_tile

# >>> stage 8
from .tensor import by_warps, home

# <<<
from .typing import cast_value, constant_dtype, number

# >>> stage 8
from .warpgroup import by_groups

# <<<

PRECISIONS = ("tf32", "tf32x3", "ieee")
INSTRUCTIONS = ("fma", "mma", "wgmma")


def _dot(run, op, x, y, acc):
    wide = np.float64 if acc.dtype.kind == "f" else np.int64
    return (acc + np.matmul(x.astype(wide), y.astype(wide))).astype(acc.dtype)


def _emit_dot(e, op):
    """Both matrices go to shared memory; then each thread adds up its elements, one multiplication after the other."""
    x, y, acc = op.operands
    # >>> stage 8
    if how := op.attrs.get("how"):
        return {"outer": by_threads, "mma": by_warps, "wgmma": by_groups}[how](e, op)
    # <<<
    if e.alone and acc.type.dtype.is_float and acc.type.shape[-1] > 1 and max(x.type.shape) > 1:
        return _emit_blocks(e, op)
    dtype, layout = op.result.type.dtype, e.layout_of(op.result)
    rows, columns = e.own_layout(x).shape, e.own_layout(y).shape
    memory, k = e.shared(x.type.dtype, room(rows) + room(columns)), e.fresh("k")
    other = f"({memory} + {room(rows)})"
    stage(e, op, x, memory)
    stage(e, op, y, other)
    e.barrier()
    e.declare(op.result)
    e.materialise(acc, e.arrays[op.result][0], layout)
    e.open(f"for (int {k} = 0; {k} < {rows[-1]}; ++{k}) {{")
    with e.loop(layout, []) as s:
        *batch, row, column = s.coordinates
        left = f"{memory}[{s.position(pitched(rows), [*batch, row, k])}]"
        right = f"{other}[{s.position(pitched(columns), [*batch, k, column])}]"
        cell = e.cell(op.result, s)
        value = f"{cell} + {left} * {right}"
        if dtype.is_float:
            value = f"{e.math('fma', dtype)}({left}, {right}, {cell})"
        s.line(f"{cell} = {value};")
    e.shut()


def _block(rows: int, columns: int) -> str:
    """C that adds to this many rows and columns of a product, which stay in registers."""

    def each(text: str) -> str:
        return "\n".join(text.format(r=r) for r in range(rows))

    start = each("    Columns sum{r} = *(Columns*)(acc + {r} * N);")
    step = each("        sum{r} += x[{r} * K + k] * row;")
    end = each("    *(Columns*)(acc + {r} * N) = sum{r};")
    return f"""
{{fn}} void {{name}}({{T}}* acc, const {{T}}* x, const {{T}}* y, int K, int N) {{{{
    #pragma OPENCL FP_CONTRACT ON
    typedef {{T}}{columns} Columns __attribute__((aligned({{bits}} / 8)));
{start}
    for (int k = 0; k < K; ++k) {{{{
        const Columns row = *(Columns*)(y + k * N);
{step}
    }}}}
{end}
}}}}"""


def _emit_blocks(e, op):
    """One thread of a CPU takes 4 rows by a vector of columns at a time."""
    dtype, (m, n), k = op.result.type.dtype, op.result.type.shape[-2:], op.operands[0].type.shape[-1]
    rows, columns = min(m, 4), min(n, 64 // dtype.itemsize)
    out, order = op.result, blocked(op.result.type.shape, 1)
    e.declare(out, order)
    if e.layout_of(out) != order:
        e.declare(out := Value(out.type, "rows"), order)
    acc = e.arrays[out][0]
    e.materialise(op.operands[2], acc, order)
    x, y = (_in_rows(e, v) for v in op.operands[:2])
    f = e.helper(f"multiply_{rows}x{columns}", _block(rows, columns), dtype)
    b, i, j = (e.fresh(name) for name in ("batch", "row", "column"))
    loops = [(i, m, rows), (j, n, columns)]
    acc, x, y = f"{acc} + {i} * {n} + {j}", f"{x} + {i} * {k}", f"{y} + {j}"
    if batch := out.type.shape[:-2]:
        loops.insert(0, (b, batch[0], 1))
        acc, x, y = (f"{text} + {b} * {size}" for text, size in ((acc, m * n), (x, m * k), (y, k * n)))
    for v, extent, step in loops:
        e.open(f"for (int {v} = 0; {v} < {extent}; {v} += {step}) {{", op)
    e.line(f"{f}({acc}, {x}, {y}, {k}, {n});")
    for _ in loops:
        e.shut()
    e.materialise(out, *e.arrays[op.result])


def _in_rows(e, v) -> str:
    """The name of an array with the elements of a tile, row by row."""
    order = blocked(v.type.shape, 1)
    if v not in e.arrays or e.layout_of(v) != order:
        copy = Value(v.type, v.name)
        e.declare(copy, order)
        e.materialise(v, *e.arrays[copy])
        v = copy
    return e.arrays[v][0]


@op(
    numpy=_dot,
    emit=_emit_dot,
    kind="statement",
    exact=True,
    apart=(0, 1),
    # >>> stage 8
    home=home,
    # <<<
    public=False,
)
def matmul(b: Builder, x: Value, y: Value, acc: Value, **attrs: object) -> Value:
    """``acc + x @ y``, in the element type of ``acc``."""
    return b.add("matmul", (x, y, acc), acc.type, **attrs)


@op(numpy=None, emit=None, kind="macro")
def dot(
    b: Builder,
    x: Value,
    y: Value,
    acc: Value | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: DType = float32,
    instruction: str | None = None,
) -> Value:
    """The matrix product of ``x`` (M by K) and ``y`` (K by N) of one element type, plus ``acc``; three dimensions are a
    batch of matrices.

    Floats of up to 32 bits are multiplied and added up in float32, float64 in float64, int8 and uint8 in int32;
    ``out_dtype=float16`` rounds the result. (Tensor cores add products of float8 up in fewer bits than float32 has;
    where that matters, write ``acc += tt.dot(x, y)``.)

    ``input_precision`` ("tf32", "tf32x3" or "ieee") is the least precision that is wanted, on cards that have
    instructions for that: "tf32" rounds float32 to 10 bits of fraction, "tf32x3" adds what that leaves out by two
    products more, and has nearly all of its precision (an infinity gives NaN). Elsewhere it is computed in full.

    ``instruction`` is the best to use of those that the card has: "fma" multiplies one element at a time, "mma" (from
    sm_80 on) 16 by 8 by 32 bytes with a warp, "wgmma" (on sm_90) 64 by up to 256 by 32 bytes with four. Without it, the
    compiler takes what is best for the tiles; results differ in the order of additions alone.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, out):
    ...     i = tt.arange(0, 2)[:, None] * 2 + tt.arange(0, 2)
    ...     a = tt.load(x + i)
    ...     tt.store(out + i, tt.dot(a, a))
    >>> x, out = np.array([[1, 2], [3, 4]], np.float32), np.zeros((2, 2))
    >>> k[1](x, out); out.tolist()
    [[7.0, 10.0], [15.0, 22.0]]
    """
    x, y = full_tile(number(b, x)), full_tile(number(b, y))
    left, right, kind = x.type.shape, y.type.shape, x.type.dtype
    if len(left) not in (2, 3) or (*left[:-2], left[-1]) != right[:-1]:
        raise KernelTypeError(f"the shapes of {x.type} and {y.type} do not fit: M by K and K by N, or batches of those")
    if y.type.dtype is not kind:
        raise KernelTypeError(f"dot takes one element type, not {x.type} and {y.type}; convert one with .to(...)")
    if not kind.is_float and kind not in (int8, uint8):
        raise KernelTypeError(f"dot takes floats, int8 or uint8, not {x.type}")
    if input_precision not in (None, *PRECISIONS):
        what = f"input_precision is {input_precision!r}; choose {', '.join(PRECISIONS)}"
        raise KernelValueError(what, argument="input_precision")
    if instruction not in (None, *INSTRUCTIONS):
        choices = ", ".join(f'"{word}"' for word in INSTRUCTIONS)
        raise KernelValueError(f"instruction is {instruction!r}; choose one of {choices}", argument="instruction")
    target = float64 if kind is float64 else float32 if kind.is_float else int32
    shape = (*left[:-1], right[-1])
    if acc is None:
        start = OPS["full"].rule(b, shape, 0, target)
    else:
        if (start := number(b, acc)).type.shape != shape:
            raise KernelTypeError(f"acc is {start.type}, the product has shape {list(shape)}", argument="acc")
        if start.type.dtype not in (target, float16):
            raise KernelTypeError(f"acc is {start.type}; a product of {kind} adds up in {target}", argument="acc")
        out_dtype = start.type.dtype
        start = cast_value(b, start, target)
    wanted = {"precision": input_precision if kind is float32 else None, "most": instruction}
    out = b.add("matmul", (x, y, start), Type(target, shape), **{word: x for word, x in wanted.items() if x})
    return cast_value(b, out, float16) if constant_dtype(out_dtype) is float16 and kind.is_float else out
