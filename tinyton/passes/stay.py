"""Blocks that stay: there are as many as a GPU holds, and each runs one program after another, so that the warp that
feeds it has tiles of the next one copied while the sums of this one are stored (the idea: Aila and Laine,
*Understanding the Efficiency of Ray Traversal on GPUs*, 2009, "persistent threads")."""

from __future__ import annotations

from dataclasses import replace

from ..dtypes import int32, int64
from ..ir import Block, Builder, Kernel, Op, Type, Value, origins, rewrite


def stay(kernel: Kernel) -> tuple[Kernel, int] | None:
    """Before: ``i = program_id axis=0; ...``. After: ``for n in range(block, programs, blocks): ...``, where ``n`` is
    the number of a program; of a grid of more axes, too, and then that is taken apart. Gives how many axes are. None
    where programs may take different times, which the hardware hands out better, or have memory of their own; and where
    what is multiplied is computed, so that one group of warps computes while another multiplies."""
    asked = [op for op in kernel.ops() if op.name in ("program_id", "num_programs")]
    axes = 3 if any(op.attrs["axis"] for op in asked) else 1
    names = {op.attrs["axis"]: op.result.name for op in reversed(asked) if op.name == "program_id"}
    found = [op.result for op in asked if op.name == "program_id"]
    ways = [v for op in kernel.ops() if op.blocks for v in op.head]
    loaded = {op.result for op in kernel.ops() if op.name == "load"}
    computed = any(op.name == "place" and op.operands[0] not in loaded for op in kernel.ops())
    endless = any(op.name == "while" or "stops" in op.attrs for op in kernel.ops())
    if endless or computed or kernel.shared_bytes or not found or not origins(kernel, ways).isdisjoint(found):
        return None
    outer, inner, t = Builder(), Builder(), Type(int32 if axes == 1 else int64)
    at = [Value(Type(int32), names.get(axis) or "number") for axis in range(axes)]

    def count(name: str, **attrs: int) -> Value:
        v = outer.add(name, (), Type(int32), **attrs)
        return v if axes == 1 else outer.add("cast", (v,), t)

    n = rest = at[0] if axes == 1 else Value(t, "number")
    many = [count("num_programs", axis=axis) for axis in range(axes)]
    total = many[0]
    for axis in range(axes) if axes > 1 else ():
        inner.ops.append(Op("cast", (inner.add("mod", (rest, many[axis]), t),), (at[axis],)))
        rest = inner.add("floordiv", (rest, many[axis]), t)
        total = outer.add("mul", (total, many[axis]), t) if axis else total

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        if op.name == "program_id":
            renamed[op.result] = at[op.attrs["axis"]]  # type: ignore[index]
        return op.name == "program_id"

    body = rewrite(kernel, visit).body
    head = count("block"), total, count("blocks")
    loop = Op("for", head, (), {"programs": True, "stages": 1}, (Block((n,), (*inner.ops, *body.ops)),))
    return replace(kernel, body=Block((), (*outer.ops, loop))), axes
