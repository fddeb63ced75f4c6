"""All passes in order: from a captured source and a specialization to C text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

# >>> stage 4
from contextlib import suppress

# <<<
from dataclasses import dataclass

# >>> stage 9
from functools import partial

# <<<
from ..errors import LaunchError, Loc
from ..frontend import Source, trace
from ..ir import Block, Kernel, Op, Value, origins, verify
from ..ops import OPS, mask_of
from ..passes.axisinfo import Info, analyse

# >>> stage 9
from ..passes.boxes import Map
from ..passes.cluster import Apart, cluster
from ..passes.feed import EXTRA, HELD, MOST, SHARED, SINCE, TIGHT, can_hold, feed, room_of_rings, shares, unfed

# <<<
from ..passes.fold import drop_sure, fold

# >>> stage 9
from ..passes.meanwhile import meanwhile

# <<<
# >>> stage 7
from ..passes.moved import moved

# <<<
# >>> stage 9
from ..passes.pipeline import AHEAD, pipeline

# <<<
from ..passes.plan import Plan, access_widths, make_plan, vectored

# >>> stage 7
from ..passes.prefetch import prefetch

# <<<
# >>> stage 8
from ..passes.products import products

# <<<
# >>> stage 9
from ..passes.stay import stay

# <<<
# >>> stage 4
from ..passes.threads import BLOCK, Together, blocks_at_once, tile_threads

# <<<
from ..passes.widen import widen
from ..specialize import Specialization
from .dialect import Dialect
from .emitter import Emitter
from .writer import STATIC_SHARED


@dataclass(frozen=True, eq=False)
class Lowered:
    """A kernel on its way to a device: its IR, its plan, its C, and what it takes."""

    name: str
    symbol: str
    ir: Kernel
    plan: Plan
    lines: list[tuple[str, Loc | None]]
    threads: int
    shared_bytes: int
    sizes: Mapping[Value, int]  # bytes of each tile in one thread
    stored: frozenset[str]
    divisors_used: frozenset[str]
    programs_per_block: int = 1
    extra: int = 0  # threads that feed the others
    # >>> stage 9
    maps: tuple[Map, ...] = ()  # of arrays that a warp more copies boxes of
    plain: Callable[..., Lowered] | None = None  # gives the kernel without those
    stays: int = 0  # where blocks run one program after another, of how many axes: their extents follow the maps
    ctas: int = 1  # blocks of a cluster, which run a program together
    apart: str = ""  # why that is one, where more were asked for
    # <<<

    @property
    def private_bytes(self) -> int:
        """Of tiles, in one thread."""
        return sum(self.sizes.values())

    @property
    def held_bytes(self) -> int:
        """The most of them at a time."""
        return held(self.ir, self.sizes)

    @property
    def block(self) -> tuple[int, int, int]:
        """The threads of a block: those of a program, and its programs."""
        return self.threads + self.extra, self.programs_per_block, 1

    def blocks(self, grid: tuple[int, int, int], most: int) -> tuple[int, int, int]:
        """The blocks that run the programs of a grid. Those that stay are no more than run ``most`` at a time, and have
        as many programs each as any other, if they can."""
        x, y, z = grid
        several = self.programs_per_block
        # >>> stage 9
        if self.stays == 3:
            x, y, z = x * y * z, 1, 1
        if self.stays and y * z == 1:
            several = max(1, -(-x // most))
        x *= self.ctas
        # <<<
        x = -(-x // several)
        if x >= 1 << 31:
            raise LaunchError(f"{self.name} would be {x} blocks along the first axis; a grid has fewer than 2**31")
        return x, y, z

    @property
    def source(self) -> str:
        """The C, as it is meant to be read."""
        return "\n".join(text for text, _ in self.lines)

    @property
    def located(self) -> str:
        """The C with #line directives, so that the C compiler's messages name the kernel's own lines."""
        out, names = [], {name: re.sub(r"[^ -~]", "_", name) for name in {at.kernel for _, at in self.lines if at}}
        for text, at in self.lines:
            if at and text.strip():
                out.append(f'#line {at.line} "{at.kind} {names[at.kernel]}"')
            out.append(text)
        return "\n".join(out)

    @property
    def dynamic_shared(self) -> int:
        return self.shared_bytes if self.shared_bytes > STATIC_SHARED else 0


def known(op: Op) -> str | None:
    return None if op.name in OPS and OPS[op.name].kind != "macro" else "no such op"


def front(source: Source, spec: Specialization) -> Kernel:
    """Source to IR: traced, addresses widened, folded; verified after each step."""
    kernel = verify(trace(source, spec.types(), dict(spec.constants), spec.weak()), known)
    kernel = verify(fold(kernel, wrap=False), known)
    kernel = verify(widen(kernel, analyse(kernel, {})), known)
    if any(op.name == "and" for op in kernel.ops()):
        kernel = drop_sure(kernel, analyse(kernel, {}))
    return verify(fold(kernel), known)


def divisors_that_matter(
    kernel: Kernel, spec: Specialization, threads: int, facts: Callable[[dict[str, int]], dict[Value, Info]]
) -> frozenset[str]:
    """The integer arguments whose divisibility by 16 changes how much some access takes at once. ``facts(divisors)``
    analyses."""
    if threads == 1:
        return frozenset()
    moves = [op for op in kernel.ops() if vectored(op)]
    moved = origins(kernel, (v for op in moves for v in (op.operands[0], mask_of(op)) if v))
    names = frozenset(v.name for v in moved.intersection(kernel.params)) & {n for n, a in spec.args if a.kind == "int"}

    def widths(divisible: frozenset[str]) -> tuple[tuple[int, int], ...]:
        return access_widths(kernel, facts(spec.divisors(frozenset()) | dict.fromkeys(divisible, 16)), threads)

    every = widths(names) if names else ()

    def among(some: list[str]) -> frozenset[str]:
        if not some or widths(names.difference(some)) == every:  # then none of them matters by itself
            return frozenset()
        half = len(some) // 2
        return among(some[:half]) | among(some[half:]) if half else frozenset(some)

    return among(sorted(names))


def stored_params(kernel: Kernel) -> frozenset[str]:
    """The pointer parameters through which the kernel may write."""
    written = origins(kernel, (op.operands[0] for op in kernel.ops() if OPS[op.name].writes), pointers=True)
    return frozenset(v.name for v in written.intersection(kernel.params))


def held(kernel: Kernel, sizes: Mapping[Value, int]) -> int:
    """How many bytes of tiles are needed at a time, at most: now or later. What has no size is made of what has one
    where it is used."""
    roots = {v: frozenset((v,)) for v in sizes}
    for op in kernel.ops():
        if not (op.blocks or roots.keys() >= set(op.results)):
            made_of = frozenset().union(*(roots.get(v, ()) for v in op.operands))
            roots |= {v: made_of for v in op.results if v not in sizes}
    most = 0

    def before(block: Block, live: set[Value]) -> set[Value]:
        """What is needed before a block, if ``live`` is after it."""
        nonlocal most
        total = sum(map(sizes.__getitem__, live))

        def need(values: Iterable[Value]) -> None:
            nonlocal total
            for v in values:
                if v not in live:
                    live.add(v)
                    total += sizes[v]

        need(v for y in block.yields for v in roots.get(y, ()))
        for op in reversed(block.ops):
            need(v for x in (*op.results, *op.operands) for v in roots.get(x, ()))
            for _ in range(2 if op.carried else 1):  # what a round of a loop needs, the one before it keeps
                for first in [before(b, set(live)) for b in op.blocks]:
                    need(first)
            most = max(most, total)
            gone = live.intersection(op.results)
            live -= gone
            total -= sum(map(sizes.__getitem__, gone))
        return live

    before(kernel.body, set())
    return most


def lower(
    kernel: Kernel,
    spec: Specialization,
    threads: int,
    dialect: Dialect,
    attribute: Callable[..., str],
    share: bool = False,
    stages: int | None = None,
    fed: bool = True,
    blocks: int | None = None,
    ctas: int = 1,
) -> Lowered:
    """IR to C for ``threads`` threads a program, and ``stages`` of loops that multiply. With ``share``, for fewer
    threads where its tiles are small, if the programs that then share a block never have to meet in it. ``fed`` allows
    loops that a warp more feeds, by maps that a launch makes. A multiprocessor is to hold ``blocks`` at once. A cluster
    of ``ctas`` blocks is to run a program together."""
    apart = ""
    # >>> stage 9
    if ctas > 1:
        try:
            new, ctas = cluster(kernel, ctas, dialect.arch)
            how = {"fed": fed, "blocks": blocks, "ctas": ctas, "stays": 0}
            return _lower(new, spec, threads, dialect.in_clusters(ctas), attribute, stages, **how)  # type: ignore
        except Apart as error:
            apart = str(error)
    # <<<
    # >>> stage 4
    if share and not kernel.shared_bytes and (few := tile_threads(kernel, spec.divisors())) < min(threads, BLOCK):
        with suppress(Together):
            return _lower(kernel, spec, few, dialect, attribute, stages, BLOCK // few, apart=apart)
    # <<<
    return _lower(kernel, spec, threads, dialect, attribute, stages, fed=fed, blocks=blocks, apart=apart)


def _lower(
    kernel: Kernel,
    spec: Specialization,
    threads: int,
    dialect: Dialect,
    attribute: Callable[..., str],
    stages: int | None,
    programs: int = 1,
    fed: bool | str = True,
    stays: int = 1,
    skewed: bool = True,
    blocks: int | None = None,
    ctas: int = 1,
    apart: str = "",
) -> Lowered:
    # >>> stage 9
    how = {"threads": threads, "dialect": dialect, "attribute": attribute, "stages": stages, "blocks": blocks}
    how |= {"ctas": ctas, "apart": apart}
    without, skewed = partial(_lower, kernel, **how), skewed and blocks in (None, 1)  # type: ignore[arg-type]
    # <<<
    # >>> stage 7
    kernel = moved(kernel) if threads > 1 else kernel
    # <<<
    # >>> stage 8
    kernel = products(kernel, threads, dialect.arch, dialect.alone)
    # <<<
    # >>> stage 9
    maps, needs = (), frozenset()
    if isinstance(fed, str):
        kernel = unfed(kernel, fed)
    elif fed and dialect.arch == SINCE and dialect.alone and programs == 1 and threads + EXTRA <= MOST:
        one, staying = kernel, stay(kernel) if stays else None
        kernel, stays = staying or (one, 0)
        kernel, maps, needs = feed(kernel, spec.divisors(), stages, skewed)
        if stays and not maps:
            stays, (kernel, maps, needs) = 0, feed(one, spec.divisors(), stages, skewed)
        kernel = meanwhile(kernel) if maps else kernel
    kernel = pipeline(kernel, stages) if dialect.arch >= AHEAD else kernel
    # <<<
    # >>> stage 7
    kernel = prefetch(kernel, threads)
    # <<<
    found: dict[frozenset, dict[Value, Info]] = {}

    def facts(divisors: dict[str, int]) -> dict[Value, Info]:
        key = frozenset(divisors.items())
        if key not in found:
            found[key] = analyse(kernel, divisors)
        return found[key]

    used = divisors_that_matter(kernel, spec, threads, facts)
    plan = make_plan(kernel, facts(spec.divisors(used)), threads)
    verify(plan.kernel, known)
    emitter = Emitter(plan, dialect, programs)
    bounds: tuple = (threads,)
    # >>> stage 4
    slots = {op.result: op.name for op in plan.kernel.ops() if op.name in ("load_ahead", "hold")}  # the loop's, too
    again = {v for op in plan.kernel.ops() for start, *others in op.carried if start in slots for v in others}
    made = {v: op for op in plan.kernel.ops() for v in op.results}
    room = {
        v: x.registers * (v.type.dtype if v in slots else v.type.dtype.register).itemsize
        for v, x in plan.layouts.items()
        if v not in again and not (v in made and OPS[made[v].name].placed)
    }
    sums = max((room.get(op.result, 0) for op in plan.kernel.ops() if op.attrs.get("how") == "outer"), default=0)
    most = held(plan.kernel, room)
    fitting = blocks_at_once(threads * programs, most, "load_ahead" in slots.values(), sums)
    bounds = threads * programs, blocks or fitting
    # <<<
    # >>> stage 9
    if not can_hold(plan.kernel, plan.layouts, threads):
        return without(spec, stays=stays, skewed=False)
    if maps and "hold" not in slots.values() and threads > BLOCK and most * threads > HELD:
        return without(spec, fed="a warp more would leave too few registers")
    if maps:
        emitter.extra, emitter.registers = shares(threads) if most > TIGHT and blocks in (None, 1) else (EXTRA, 0)
        bounds = bounds[0] + emitter.extra, *bounds[1:]
        emitter.maps, emitter.counts = tuple(f"{m.name}_map" for m in maps), stays
    # <<<
    words = attribute(*bounds)
    # >>> stage 9
    words += f" __cluster_dims__({ctas}, 1, 1)" * (ctas > 1)
    # <<<
    lines = emitter.kernel_text(words)
    made = kernel.name, emitter.symbol, plan.kernel, plan, lines, threads, emitter.shared_bytes, emitter.sizes
    # >>> stage 9
    used |= needs
    if maps and stays and SHARED // emitter.shared_bytes < min(2, SHARED // room_of_rings(plan.kernel)):
        return without(spec, stays=0, skewed=skewed)  # for two blocks: one stores while the other multiplies
    if maps and emitter.shared_bytes > SHARED:
        return without(spec, fed="its tiles leave no room in shared memory for those of a loop around it")
    other = partial(without, spec.only(used)) if maps else None  # which serves what this one does
    stays = stays if maps else 0
    return Lowered(*made, stored_params(kernel), used, programs, emitter.extra, maps, other, stays, ctas, apart)
    # === before
    # return Lowered(*made, stored_params(kernel), used, programs)
    # <<<
