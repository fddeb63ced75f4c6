"""``compiled.explain()``: everything that a kernel is on its way from Python to the device, in order."""

from __future__ import annotations

from dataclasses import dataclass

# >>> stage 9
from math import prod

# <<<
from typing import Any

# >>> stage 8
WAYS = {"outer": "by threads (fma)", "mma": "by warps (mma)", "wgmma": "by groups of warps (wgmma)"}
# <<<


@dataclass(frozen=True, repr=False)
class Explanation:
    """The texts of one compiled kernel: ``source`` (its Python), ``ir``, ``layouts``, ``c`` and, where there is a CUDA
    toolkit, ``ptx`` (else empty). ``str()`` is all of it."""

    title: str
    source: str
    ir: str
    layouts: str
    c: str
    ptx: str

    def __str__(self) -> str:
        parts = [("Python", self.source), ("IR", self.ir), ("layouts", self.layouts), ("C", self.c), ("PTX", self.ptx)]
        return "\n\n".join([self.title] + [f"--- {name} ---\n{text.rstrip()}" for name, text in parts if text])

    def __repr__(self) -> str:
        return f"<explanation of {self.title}: .source .ir .layouts .c .ptx>"

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {}  # it has been printed


def explain(compiled: Any, html: Any = None) -> Explanation:
    """Prints all that a compiled kernel is made of, and returns it part by part. With ``html``, a path, that becomes
    one page there, and nothing is printed."""
    python, executor = "\n".join(compiled.python.lines), getattr(compiled, "executor", None)
    ptx = compiled.ptx if executor is None or executor.name == "cuda" else ""
    parts = python, str(compiled.ir), layouts(compiled.low), compiled.source, ptx
    found = Explanation(repr(compiled).strip("<>"), *parts)
    # >>> stage 11
    if html is not None:
        from .page import page

        with open(html, "w", encoding="utf-8") as file:
            file.write(page(compiled))
        return found
    # <<<
    print(found)
    return found


def layouts(low: Any) -> str:
    """The layouts that tiles of a kernel have, each with the tiles that have it; then how wide its accesses are, and
    how it multiplies."""
    tiles: dict[Any, list[str]] = {}
    widths = []
    for op in low.ir.ops():
        placed = [(v, low.plan.layouts[v]) for v in op.results if v in low.plan.layouts]
        if not placed and op in low.plan.anchors:
            placed = [(None, low.plan.anchors[op])]
        for v, layout in placed:
            tiles.setdefault(layout, []).append((v and v.name) or op.name)
        if (width := low.plan.vectors.get(op, 1)) > 1:
            widths.append(f"{op.name} in line {op.loc.line}: {width} elements at once")
        # >>> stage 8
        if op.name == "matmul" and (how := op.attrs.get("how")):
            widths.append(f"{op.name} in line {op.loc.line}: {WAYS[how]}: {op.attrs['why']}")
        # <<<
        # >>> stage 9
        if op.name == "ring":
            names, types = zip(*op.attrs["tiles"].values(), strict=True)
            stage = f"{sum(prod(t.shape) * t.dtype.itemsize for t in types)} bytes: {', '.join(names)}"
            why = f", copied by all threads: {why}" if (why := op.attrs["why"]) else ""
            widths.append(f"loop in line {op.loc.line}: {op.attrs['stages']} stages of {stage}{why}")
        if op.name == "produce":
            widths += [f"by a warp of their own (TMA): {ring}" for ring in op.attrs["rings"].values()]
            widths += ["as many blocks as the GPU holds run one program after another"] * bool(low.stays)
        if op.name == "gathered":
            widths.append(f"loop in line {op.loc.line}: its rounds are shared out to a cluster of {low.ctas} blocks")
    widths += [f"a block runs a program alone: {low.apart}"] * bool(low.apart)
    # <<<
    lines = [f"{layout}: {', '.join(dict.fromkeys(names))}" for layout, names in tiles.items()]
    return "\n".join(dict.fromkeys(lines + widths)) or "no tile is kept in registers"
