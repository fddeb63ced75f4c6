"""Folding: an op on constants becomes a constant, one that was already computed is used again, unused ops go."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..dtypes import round_to
from ..ir import Block, Builder, Kernel, Op, Value, rewrite, uses
from ..ops import OPS
from .axisinfo import Info, holds

# for these kinds of results (*: pointers), the operand that changes nothing
NEUTRAL = {"add": ("iu", 0), "sub": ("iu", 0), "mul": ("iu", 1), "addptr": ("*", 0), "and": ("b", True)}


def fold(kernel: Kernel, wrap: bool = True) -> Kernel:
    """Before: ``t1 = const 2; t2 = cast t1 -> f32; t3 = mul x t2; t4 = mul x t2``. After: ``t2 = const 2.0; t3 = mul
    x t2``. Of integers and pointers, ``x + 0`` and ``x * 1`` are ``x``. ``wrap=False`` leaves alone what would wrap
    around: as an offset it does not."""
    return _sweep(rewrite(_settle(kernel), _visit(wrap)))


def drop_sure(kernel: Kernel, facts: dict[Value, Info]) -> Kernel:
    """Before: ``m = and (ge i 0) (lt i n)``. After, where ``i`` is known to be no less than 0: ``m = lt i n``."""
    sure: set[Value] = set()
    for op in kernel.ops():
        follows = op.name in ("and", "expand", "broadcast") and all(v in sure for v in op.operands)
        if follows or holds(op, facts):
            sure.add(op.result)

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        rest = [v for v in op.operands if v not in sure] if op.name == "and" else op.operands
        if len(rest) != 1 or op.name != "and":
            return False
        renamed[op.result] = rest[0]
        return True

    return rewrite(kernel, visit)


def _settle(kernel: Kernel) -> Kernel:
    """What goes round a loop unchanged is what it started as, and is not carried."""
    same: dict[Value, Value] = {}

    def first(v: Value) -> Value:
        return first(same[v]) if v in same else v

    found = -1
    while found < len(same):
        found = len(same)
        for op in kernel.ops():
            flag = op.name == "while" or "stops" in op.attrs  # whether there is another round
            for start, param, end, result in op.carried[flag:]:
                if first(end) in (param, first(start)):
                    same[param] = same[result] = start

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        kept = [(start, end, result) for start, _, end, result in op.carried if result not in same]
        if len(kept) < len(op.carried):
            (body,) = op.blocks
            params = tuple(p for p in body.params if p not in same)
            starts, ends, results = zip(*kept, strict=True) if kept else ((), (), ())
            body = replace(body, params=params, yields=ends)
            b.ops.append(replace(op, operands=(*op.head, *starts), results=results, blocks=(body,)))
        return len(kept) < len(op.carried)

    return rewrite(kernel, visit, ((v, first(v)) for v in same)) if same else kernel


def _wraps(op: Op, operands: list) -> bool:
    dtype = op.result.type.dtype
    exact = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg}
    if dtype.kind == "i":
        exact["shl"] = lambda x, s: x << s if 0 <= s < 64 else 0
    return op.name in exact and dtype.is_int and not dtype.range[0] <= exact[op.name](*operands) <= dtype.range[1]


def _visit(wrap: bool):
    constants: dict[Value, object] = {}
    whole: dict[Value, int] = {}  # integers that are the same everywhere in a tile
    seen: dict[tuple, Value] = {}
    blocks: dict[Builder, int] = {}

    def foldable(op: Op) -> bool:
        return wrap or not _wraps(op, [constants[v] for v in op.operands])

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        here = blocks.setdefault(b, len(blocks))
        if op.name == "cast" and op.operands[0] in constants:
            value, dtype = constants[op.operands[0]], op.result.type.dtype
            if dtype.is_float or (isinstance(value, int) and dtype.range[0] <= value <= dtype.range[1]):
                value = float(round_to(value, dtype)) if dtype.is_float else value  # type: ignore[arg-type]
                op = Op("const", (), op.results, {"value": value}, (), op.loc)
        elif OPS[op.name].kind == "elementwise" and op.operands and constants.keys() >= {*op.operands} and foldable(op):
            with np.errstate(all="ignore"):
                args = [np.asarray(constants[v], v.type.dtype.register.numpy) for v in op.operands]
                value = round_to(OPS[op.name].numpy(*args), op.result.type.dtype).item()
            op = Op("const", (), op.results, {"value": value}, (), op.loc)
        kinds, neutral = NEUTRAL.get(op.name, ("", 0))
        if op.results and ("*" if op.result.type.pointer else op.result.type.dtype.kind) in kinds:
            turned = op.operands if op.name in ("sub", "addptr") else op.operands[::-1]
            for x, y in (op.operands, turned):
                if whole.get(y) == neutral and not (op.result.name and x.name):
                    renamed[op.result] = x
                    return True
        if OPS[op.name].kind in ("elementwise", "typed", "index", "view"):
            key = (here, op.name, op.operands, str(op.attrs), op.result.type)  # as text, 0.0 is not -0.0
            if key in seen and not (op.result.name and seen[key].name):
                renamed[op.result] = seen[key]
                return True
            seen[key] = op.result
        if op.name == "const":
            constants[op.result] = op.attrs["value"]
        if op.name in ("const", "arange") and op.result.type.shape in ((), (1,)):
            whole[op.result] = op.attrs.get("value", op.attrs.get("start"))  # type: ignore[assignment]
        elif op.name in ("expand", "broadcast", "cast") and op.operands[0] in whole:
            whole[op.result] = whole[op.operands[0]]
        b.ops.append(op)
        return True

    return visit


def _sweep(kernel: Kernel) -> Kernel:
    """Drops ops without effect whose results nobody uses, and unused results of atomics and branches; from the end
    on, so that what only those used goes, too."""
    count = uses(kernel)

    def drop(values: Iterable[Value]) -> None:
        for v in values:
            count[v] -= 1

    def clean(block: Block) -> Block:
        ops = []
        for op in reversed(block.ops):
            if not (OPS[op.name].effect or any(map(count.get, op.results))):
                drop(op.operands)
                continue
            if OPS[op.name].writes and op.results and not count.get(op.result):
                op = replace(op, results=())
            if op.name == "if" and not all(count.get(v) for v in op.results):
                kept = [k for k, v in enumerate(op.results) if count.get(v)]
                drop(v for b in op.blocks for k, v in enumerate(b.yields) if k not in kept)
                ends = tuple(replace(b, yields=tuple(b.yields[k] for k in kept)) for b in op.blocks)
                op = replace(op, results=tuple(op.results[k] for k in kept), blocks=ends)
            blocks = tuple(map(clean, op.blocks))
            if op.name == "if" and not any(b.ops or b.yields for b in blocks):
                drop(op.operands)
                continue
            ops.append(op if blocks == op.blocks else replace(op, blocks=blocks))
        left = tuple(reversed(ops))
        return block if left == block.ops else replace(block, ops=left)

    body = clean(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body)
