"""How each product of tiles is computed: on tensor cores, where the card has them and the tiles are large enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import prod

from ..dtypes import EIGHT, float32
from ..ir import Block, Builder, Kernel, Op, Value, walk
from ..ops.tensor import KINDS, STEP
from ..ops.warpgroup import GROUP, WORDS
from .axisinfo import analyse
from .fold import fold

SINCE = 80  # the architecture, as in sm_80
LEAST = 16  # rows and columns
At = tuple[Value, int, bool]  # a tile, along which dimension it is multiplied, and whether it is rounded where it lies
GROUPS = 90  # the architecture that has instructions for groups of four warps, which are for it alone


def products(kernel: Kernel, threads: int, arch: int, alone: bool) -> Kernel:
    """Before: ``matmul x y acc``. After, on tensor cores: ``p = place x; q = place y; matmul p q acc how=mma``. What is
    made outside of a loop is placed there. ``arch`` is the oldest card that the code is for; ``alone``, if it is for
    no other."""
    made = {v: op for op in kernel.ops() for v in op.results}
    placed: dict[At, Value] = {}
    facts = cache(lambda: analyse(kernel, {}))

    def rooted(v: Value, inner: int, rounded: bool = False) -> At:
        """The tile of which ``v`` is the transpose, if it is one, and its dimension ``inner`` there."""
        batch = tuple(range(len(v.type.shape) - 2))
        while v in made and made[v].name == "permute" and made[v].attrs["order"][: len(batch)] == batch:  # type: ignore
            inner, v = made[v].attrs["order"][inner], made[v].operands[0]  # type: ignore[index]
        return v, inner, rounded

    def turned(v: Value, inner: int) -> bool | None:
        """Whether neighbours in memory are not multiplied with each other's; None for what is not loaded."""
        v, inner, _ = rooted(v, inner)
        if v not in made or made[v].name != "load":
            return None
        steps = facts()[made[v].operands[0]].steps
        return steps[inner] != 1 and steps[2 * len(steps) - 3 - inner] == 1

    def ways(op: Op) -> dict[str, bool] | None:
        """How groups of warps look at operands that can only be multiplied along rows, if they can: the left one is
        read into registers, in ``pairs`` if its rows run across; and where the right one's do, both ``flip``. If both
        run across, the smaller one is ``turned``."""
        if op.operands[0].type.dtype is not float32:
            return {}
        left, right = (turned(v, inner) for v, inner in inputs(op))
        if right and left is not False:
            (m, n), both = op.result.type.shape[-2:], left and len(op.result.type.shape) == 2
            return {"flip": m < n, "pairs": True, "turned": True} if both else None
        return {"flip": bool(right), "pairs": bool(left or right)}

    def operands(op: Op) -> list[At]:
        """The tiles of a product, each with the dimension along which it is multiplied, and whether it is rounded."""
        flip = None if "turned" in found[op] else found[op].get("flip")
        return [rooted(*at, flip is not None and flip != bool(k)) for k, at in enumerate(inputs(op))]

    found: dict[Op, dict[str, object]] = {}
    for op in (op for op in kernel.ops() if op.name == "matmul"):
        how, why = level(op, threads, arch, alone, ways)
        of_bytes = how in ("mma", "wgmma") and op.operands[0].type.dtype.itemsize == 1
        if of_bytes and any(turned(*at) for at in inputs(op)):
            why += "; bytes that run across what is multiplied are turned one by one, which is slow"
        found[op] = {"how": how, "why": why, **((ways(op) or {}) if how == "wgmma" else {})}
    chosen = {op for op, words in found.items() if words["how"]}
    sides = [(k, at, op) for op in chosen for k, at in enumerate(operands(op))]
    rights = {at for k, at, _ in sides if k}
    lefts: dict[At, dict[str, object]] = {}
    for _, at, op in sides:
        left = {"left": (op.result.type.shape, found[op]["how"])}
        if at in rights or lefts.setdefault(at, left) != left:
            lefts[at] = {}
    along: dict[Value, int] = {}  # of what may be multiplied along both of its dimensions, one

    def lying(v: Value, inner: int, rounded: bool) -> At:
        """The key of a tile in memory, which serves products along either dimension if elements take 16 bits."""
        either = v.type.dtype.itemsize == 2 and not lefts[v, inner, rounded]
        return v, along.setdefault(v, inner) if either else inner, rounded

    def block(old: Block) -> Block:
        b = Builder()
        deeper = {inner for op in old.ops for block in op.blocks for inner in walk(block)} & chosen
        wanted = {lying(*at) for op in deeper for at in operands(op)}

        def place(at: At) -> None:
            if at not in placed:
                v, inner, rounded = at
                placed[at] = b.add("place", (v,), v.type, inner=inner, rounded=rounded, **lefts.get(at, {}))

        def operand(v: Value, inner: int, rounded: bool) -> Value:
            """What a product reads in place of ``v``."""
            if (v, inner, rounded) in lefts:
                return placed[lying(v, inner, rounded)]
            op = made[v]
            below = operand(op.operands[0], op.attrs["order"][inner], rounded)  # type: ignore[index]
            return b.add("permute", (below,), v.type, **op.attrs)

        def place_for(values: tuple[Value, ...]) -> None:
            for at in sorted(wanted, key=lambda at: at[1:]):
                if at[0] in values:
                    place(at)

        place_for(old.params)
        for op in old.ops:
            b.loc = op.loc
            if op in chosen:
                pair = operands(op)
                for at in pair:
                    place(lying(*at))
                x, y = (operand(*given, at[2]) for given, at in zip(inputs(op), pair, strict=True))
                op = replace(op, operands=(x, y, op.operands[2]), attrs=op.attrs | found[op])
            elif op.blocks:
                op = replace(op, blocks=tuple(map(block, op.blocks)))
            b.ops.append(op)
            place_for(op.results)
        return Block(old.params, tuple(b.ops), old.yields)

    return fold(replace(kernel, body=block(kernel.body))) if chosen else kernel


def inputs(op: Op) -> list[tuple[Value, int]]:
    """What a product multiplies, each with the dimension along which it does."""
    return [(v, len(v.type.shape) - 1 - k) for k, v in enumerate(op.operands[:2])]


def level(
    op: Op, threads: int, arch: int, alone: bool, ways: Callable[[Op], dict[str, bool] | None]
) -> tuple[str, str]:
    """How a product is computed, and why: "wgmma" by groups of warps, "mma" by warps, "outer" by threads, each for
    itself; or, of small tiles, element by element as they lie in shared memory."""
    (m, k), n = op.operands[0].type.shape[-2:], op.result.type.shape[-1]
    dtype, most = op.operands[0].type.dtype, op.attrs.get("most", "wgmma")
    by_threads = "outer" if prod(op.result.type.shape) >= 4 * threads else ""
    if arch < 0:
        return "", "this is no card of NVIDIA's"
    if threads < 32 or min(m, n) < LEAST or k * dtype.itemsize < STEP:
        return "", f"tiles of {m} by {k} and {k} by {n} are too small for {threads} threads"
    since = max(SINCE, 89 * (dtype in EIGHT))
    if most == "fma" or arch < since:
        return by_threads, "fma is asked for" if most == "fma" else f"tensor cores take {dtype} from sm_{since} on"
    split = op.attrs.get("precision") == "tf32x3"
    if dtype.name not in KINDS or dtype is float32 and op.attrs.get("precision") != "tf32" and not split:
        return by_threads, f"{dtype} is multiplied in full"
    groups = threads // GROUP
    if most == "mma":
        return "mma", "mma is asked for"
    if arch != GROUPS or not alone:
        return "mma", f"the code is not for sm_{GROUPS}a alone"
    if split or KINDS[dtype.name] not in WORDS:
        return "mma", "tf32x3 splits both operands in registers" if split else f"wgmma does not multiply {dtype}"
    if (way := ways(op)) is None:
        return "mma", f"wgmma multiplies {dtype} along rows, which of these operands run across"
    if way.get("flip"):
        m, n = n, m
    if not groups or m < 64:
        return "mma", f"wgmma takes {GROUP} threads and 64 rows; these are {threads} and {m}"
    beside = groups // min(m // 64, groups)  # groups with other columns of the same rows
    if beside > 1 and n // beside < 64:
        return "mma", f"{groups} groups of warps share {m} rows, which leaves them {n // beside} columns, not 64"
    return "wgmma", f"sm_{GROUPS}a, {groups} group{'s' * (groups > 1)} of warps, {m} rows"
