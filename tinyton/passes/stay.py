"""Blocks that stay: there are as many as a GPU holds, and each runs one program after another, so that the warp that
feeds it has tiles of the next one copied while the sums of this one are stored (the idea: Aila and Laine,
*Understanding the Efficiency of Ray Traversal on GPUs*, 2009, "persistent threads")."""

from __future__ import annotations

from dataclasses import replace

from ..dtypes import int32
from ..ir import Block, Builder, Kernel, Op, Type, Value, origins, rewrite


def stay(kernel: Kernel) -> Kernel | None:
    """Before: ``i = program_id axis=0; ...``. After: ``for i in range(block, programs, blocks): ...``. None where
    programs may take different times, which the hardware hands out better, or have memory of their own."""
    numbers = {op.result for op in kernel.ops() if op.name == "program_id" and op.attrs["axis"] == 0}
    ways = [v for op in kernel.ops() if op.blocks for v in op.head]
    endless = any(op.name == "while" or "stops" in op.attrs for op in kernel.ops())
    if endless or kernel.shared_bytes or not numbers or not numbers.isdisjoint(origins(kernel, ways)):
        return None
    i = Value(Type(int32), min(v.name for v in numbers) or "number")

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        renamed |= dict.fromkeys(numbers.intersection(op.results), i)
        return not numbers.isdisjoint(op.results)

    body, b = rewrite(kernel, visit).body, Builder()
    head = b.add("block", (), i.type), b.add("num_programs", (), i.type, axis=0), b.add("blocks", (), i.type)
    loop = Op("for", head, (), {"programs": True, "stages": 1}, (Block((i,), body.ops),))
    return replace(kernel, body=Block((), (*b.ops, loop)))
