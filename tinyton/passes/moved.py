"""Floats of 16 bits that are only moved keep their bits: they are never made float32 and rounded again."""

from __future__ import annotations

from dataclasses import replace

from ..dtypes import bfloat16, float16, uint16
from ..ir import Builder, Kernel, Op, Value, rewrite
from ..ops import OPS


def moved(kernel: Kernel) -> Kernel:
    """Before: ``t = load p; u = permute t; store q u`` of float16. After: the same of uint16."""
    made = {v: op for op in kernel.ops() for v in op.results if v.type.dtype in (float16, bfloat16)}
    views = {v: op.operands[0] for v, op in made.items() if OPS[op.name].kind == "view" and not v.type.pointer}
    kept = {v for v, op in made.items() if v in views or op.name == "load" and len(op.operands) < 3}
    while True:
        lost = {v for v in kept.intersection(views) if views[v] not in kept}
        for op in kernel.ops():
            onward = kept.issuperset(op.results or (None,))
            lost.update(v for k, v in enumerate(op.operands) if not (onward or op.name == "store" and k == 1))
            lost.update(v for block in op.blocks for v in block.yields)
        if lost.isdisjoint(kept):
            break
        kept -= lost

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        if kept.isdisjoint(op.results):
            return False
        bits = renamed[op.result] = Value(op.result.type._replace(dtype=uint16), op.result.name)
        b.ops.append(replace(op, results=(bits,)))
        return True

    return rewrite(kernel, visit) if kept else kernel
