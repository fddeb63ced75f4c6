"""``tt.viz.occupancy``: what one multiprocessor holds of a kernel, and what would change that."""

from __future__ import annotations

from typing import Any

from .aot import BuiltKernel, capability_of
from .compiled import CompiledKernel
from .errors import TinytonError
from .occupancy import WARP, limits
from .occupancy import occupancy as occupied
from .picture import COLOURS, GREY, Picture


def occupancy(
    compiled: CompiledKernel | BuiltKernel | None = None,
    *,
    threads: int = 128,
    registers: int = 32,
    shared_bytes: int = 0,
    programs_per_block: int = 1,
    target: str = "sm_90",
) -> Picture:
    """How much of a multiprocessor's threads, registers, shared memory and places for programs a kernel takes, each
    program one piece of a bar, and which of them runs out first; below, the occupancy for other numbers of registers a
    thread, with this kernel's marked.

    ``compiled`` is a kernel compiled for cuda, or built by `tt.compile`; without it the numbers are given: ``threads``
    a program, ``registers`` a thread, ``shared_bytes`` a program, for the card ``target``.

    >>> import tinyton as tt
    >>> tt.viz.occupancy(threads=256, registers=64)
    4 programs, 32 warps a multiprocessor: 50%, limited by registers
    threads              1,024 of      2,048   50%
    registers           65,536 of     65,536  100%
    shared memory        4,096 of    233,472    2%
    programs                 4 of         32   12%
    """
    if isinstance(compiled, BuiltKernel):
        capability = capability_of(compiled.target)
        per_sm = limits(capability)
    elif compiled is not None:
        if compiled.executor.name != "cuda":
            raise TinytonError(
                f"{compiled.name} is compiled for {compiled.executor.name}, where nobody counts registers: build it "
                'with tt.compile(kernel, signature, target="sm_90"), or give threads=, registers= and target='
            )
        capability, per_sm = compiled.executor.capability, compiled.executor.per_sm
    else:
        capability = capability_of(target)
        per_sm = limits(capability)
    if compiled is not None:
        threads, registers, shared_bytes = compiled.threads, compiled.registers, compiled.shared_bytes
        programs_per_block = compiled.programs_per_block

    def at(count: int) -> Any:
        return occupied(threads, count, shared_bytes, per_sm, capability, programs_per_block)

    here = at(registers)
    blocks = here.programs_per_sm // programs_per_block
    warps = -(-threads * programs_per_block // WARP)
    unit, reserved = (128, 1024) if capability >= (8, 0) else (256, 0)
    taken = {  # by a block
        "threads": (warps * WARP, per_sm["threads"]),
        "registers": (warps * -(-registers * WARP // 256) * 256, per_sm["registers"]),
        "shared memory": (-(-(shared_bytes + reserved) // unit) * unit, per_sm["shared"]),
        "programs": (1, per_sm["blocks"]),
    }
    lines = [
        f"{what:<15}{blocks * each:>11,} of {all_:>10,} {blocks * each / all_:>5.0%}"
        for what, (each, all_) in taken.items()
    ]

    def draw(figure: Any) -> None:
        bars, stairs = figure.subplots(2, height_ratios=(1.2, 1))
        for y, (what, (each, all_)) in enumerate(taken.items()):
            last = what == here.limited_by
            bars.barh([y], [1], color="none", edgecolor=GREY, linewidth=1)
            spans = [(k * each / all_, each / all_) for k in range(blocks)]
            bars.broken_barh(spans, (y - 0.4, 0.8), color=COLOURS[1 if last else 0], edgecolor="white", linewidth=0.6)
        bars.set_yticks(range(len(taken)), list(taken))
        bars.invert_yaxis()
        bars.set(xlim=(0, 1), xticks=[0, 0.25, 0.5, 0.75, 1], xticklabels=["0%", "25%", "50%", "75%", "100%"])
        bars.set_title(repr(here))
        counts = list(range(16, 256))
        stairs.plot(counts, [100 * at(n).fraction for n in counts], drawstyle="steps-post", color=COLOURS[0])
        stairs.plot([registers], [100 * here.fraction], "o", color=COLOURS[1])
        stairs.set(xlabel="registers a thread", ylabel="occupancy, %", ylim=(0, 105))

    text = "\n".join([repr(here), *lines])
    alt = f"Occupancy of a multiprocessor: {here!r}. " + "; ".join(" ".join(line.split()) for line in lines) + "."
    return Picture(text, alt, draw, (7.0, 4.4))
