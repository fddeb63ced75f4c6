"""Kernels that memory is the limit of, beside Triton and torch, and beside the rate of a plain copy.

    python tests/bench/memory.py [--quick] [--only softmax] [--out results.json]

Runs on any NVIDIA GPU; a peer that is not installed is left out, and said so. Our kernels (memory_kernels.py) are
written the obvious way and launched without num_warps. What a user must choose, the shape of a tile and the number of
programs that share the work, is tried for both, for Triton's (memory_triton.py) with several numbers of warps each, and
the fastest counts. Every result is compared with float64 first, on fresh data. Times are
medians of device events, with the L2 cache flushed before each run; GB/s count each byte once that the work must read
or write, so `of copy` is the share of what a copy of 1 GiB reaches.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import memory_kernels as ours
import memory_triton as theirs
import numpy as np
from harness import Case, Launch, TorchData, a_row, device_time, finish, measure, on_gpu, record, torch

import tinyton as tt

SIZE = {name: tt.dtypes.from_numpy(name).itemsize for name in ("int8", "float16", "bfloat16", "float32", "float64")}


def by_warps(kernel: Any, grid: tuple, args: tuple, elements: int, **meta: Any) -> Iterator[list[Launch]]:
    """A Triton launch by numbers of warps: those that give a thread 1 to 64 elements of a tile of so many."""
    for warps in (1, 2, 4, 8, 16, 32):
        if 1 <= elements / (32 * warps) <= 64:
            yield [Launch(kernel, grid, args, {**meta, "num_warps": warps})]


def blocks(kernel: Any, n: int, args: tuple) -> Iterator[list[Launch]]:
    """Launches of an elementwise kernel of Triton's, by BLOCK and number of warps."""
    for block in (1024, 2048, 4096):
        for warps in (4, 8):
            yield [Launch(kernel, (tt.cdiv(n, block),), args, {"BLOCK": block, "num_warps": warps})]


def sm_count() -> int:
    return tt.backends.current().sm_count


# -- elementwise -------------------------------------------------------------------------------------------------------


def elementwise(
    name: str, inputs: tuple, out: Any, want: Callable[[], Any], block: int, torch_ways: Callable, tune: bool = True
) -> Case:
    """The kernel ``name`` on arrays of the same size. Unless ``tune``, Triton has the same BLOCK."""
    n = out.shape[0]
    args = (*inputs, out, n)
    kernel = getattr(theirs, name)
    triton_ways = (
        blocks(kernel, n, args) if tune else by_warps(kernel, (tt.cdiv(n, block),), args, max(block, 128), BLOCK=block)
    )
    launch = Launch(getattr(ours, name), (tt.cdiv(n, block),), args, {"BLOCK": block})
    nbytes = n * sum(SIZE[str(x.dtype).removeprefix("torch.")] for x in (*inputs, out))
    return Case([[launch]], (out,), lambda: (want(),), nbytes, triton_ways, torch_ways)


def any_numbers(data: Any, n: int, dtype: str) -> Any:
    """Integers that can be added."""
    return data.integers(-60, 60, n, dtype) if dtype == "int8" else data.normal(n, dtype)


def add(data: Any, n: int, dtype: str, block: int, tune: bool = True) -> Case:
    x, y, out = any_numbers(data, n, dtype), any_numbers(data, n, dtype), data.empty(n, dtype)
    torch_ways = lambda: [lambda: torch.add(x, y, out=out)]  # noqa: E731
    return elementwise("add", (x, y), out, lambda: data.wide(x) + data.wide(y), block, torch_ways, tune)


def copy(data: Any, n: int, dtype: str, block: int) -> Case:
    x, out = any_numbers(data, n, dtype), data.empty(n, dtype)
    return elementwise("copy", (x,), out, lambda: data.wide(x), block, lambda: [lambda: out.copy_(x)])


def gelu(data: Any, n: int, dtype: str) -> Case:
    x, out = data.normal(n, dtype), data.empty(n, dtype)

    def want() -> Any:
        v = data.wide(x)
        return 0.5 * v * (1 + data.erf(v / 2**0.5))

    return elementwise("gelu", (x,), out, want, 1024, lambda: [lambda: torch.nn.functional.gelu(x)])


def gelu_tanh(data: Any, n: int, dtype: str) -> Case:
    x, out = data.normal(n, dtype), data.empty(n, dtype)

    def want() -> Any:
        v = data.wide(x)
        return 0.5 * v * (1 + data.xp.tanh((2 / np.pi) ** 0.5 * (v + 0.044715 * v**3)))

    torch_ways = lambda: [lambda: torch.nn.functional.gelu(x, approximate="tanh")]  # noqa: E731
    return elementwise("gelu_tanh", (x,), out, want, 1024, torch_ways)


def swiglu(data: Any, n: int, dtype: str) -> Case:
    gate, up, out = data.normal(n, dtype), data.normal(n, dtype), data.empty(n, dtype)

    def want() -> Any:
        g = data.wide(gate)
        return g / (1 + data.xp.exp(-g)) * data.wide(up)

    return elementwise("swiglu", (gate, up), out, want, 1024, tuple)


def rope(data: Any, tokens: int, heads: int, half: int, dtype: str) -> Case:
    x, out = data.normal((tokens, heads, 2 * half), dtype), data.empty((tokens, heads, 2 * half), dtype)
    cos, sin = data.uniform((tokens, half), dtype), data.uniform((tokens, half), dtype)
    args = (x, cos, sin, out, heads)
    meta = {"HEADS": tt.next_power_of_2(heads), "HALF": half}

    def want() -> tuple:
        v, c, s = data.wide(x), data.wide(cos)[:, None, :], data.wide(sin)[:, None, :]
        a, b = v[..., :half], v[..., half:]
        return (data.xp.concatenate((a * c - b * s, b * c + a * s), -1),)

    nbytes = (4 * heads + 2) * tokens * half * SIZE[dtype]
    triton_ways = by_warps(theirs.rope, (tokens,), args, meta["HEADS"] * half, **meta)
    return Case([[Launch(ours.rope, (tokens,), args, meta)]], (out,), want, nbytes, triton_ways)


def dropout(data: Any, n: int, name: str = "dropout") -> Case:
    """Which elements are kept is random: those that are must be right, and as many as chance allows."""
    p, block = 0.25, 1024
    x, out = data.normal(n, "float32"), data.empty(n, "float32")
    args = (x, out, n, p, secrets.randbits(30))

    def want() -> tuple:
        kept = data.wide(out) != 0
        share, sigma = float((kept * 1.0).mean()), (p * (1 - p) / n) ** 0.5
        assert abs(share - (1 - p)) < 6 * sigma, f"{share} of the elements are kept, not {1 - p}"
        return (data.xp.where(kept, data.wide(x) / (1 - p), 0.0),)

    launch = Launch(getattr(ours, name), (tt.cdiv(n, block),), args, {"BLOCK": block})
    torch_ways = lambda: [lambda: torch.nn.functional.dropout(x, p)]  # noqa: E731
    return Case([[launch]], (out,), want, 8 * n, blocks(getattr(theirs, name), n, args), torch_ways)


# -- two dimensions ----------------------------------------------------------------------------------------------------

TILES = [(1, 1024), (8, 256), (32, 64), (64, 64)]


def tiled(
    kernel: Any, rows: int, cols: int, args: tuple, shapes: list[tuple[int, int]], warps: tuple = (None,)
) -> Iterator[list[Launch]]:
    """Launches on tiles of several shapes."""
    for r, c in shapes:
        for n in warps:
            grid = (tt.cdiv(cols, c), tt.cdiv(rows, r))
            yield [Launch(kernel, grid, args, {"ROWS": r, "COLS": c, "num_warps": n})]


def add_2d(data: Any, rows: int, cols: int, dtype: str) -> Case:
    x, y, out = (data.normal((rows, cols), dtype) for _ in range(3))
    args = x, y, out, rows, cols
    return Case(
        list(tiled(ours.add_2d, rows, cols, args, TILES)),
        (out,),
        lambda: (data.wide(x) + data.wide(y),),
        3 * rows * cols * SIZE[dtype],
        tiled(theirs.add_2d, rows, cols, args, TILES, (4, 8)),
        lambda: [lambda: torch.add(x, y, out=out)],
    )


def copy_2d(data: Any, rows: int, cols: int, dtype: str, every: int = 1) -> Case:
    """Each ``every``-th row of an array, to rows without gaps."""
    x, out = data.normal((rows, every * cols), dtype), data.empty((rows, cols), dtype)
    args = x, out, rows, cols, every * cols, cols
    return Case(
        list(tiled(ours.copy_2d, rows, cols, args, TILES)),
        (out,),
        lambda: (data.wide(x)[:, :cols],),
        2 * rows * cols * SIZE[dtype],
        tiled(theirs.copy_2d, rows, cols, args, TILES, (4, 8)),
        lambda: [lambda: out.copy_(x[:, :cols])],
    )


def transpose(data: Any, rows: int, cols: int, dtype: str) -> Case:
    x, out = data.normal((rows, cols), dtype), data.empty((cols, rows), dtype)
    args, shapes = (x, out, rows, cols), [(32, 32), (64, 64), (128, 64), (64, 128), (256, 64)]
    return Case(
        list(tiled(ours.transpose, rows, cols, args, shapes)),
        (out,),
        lambda: (data.wide(x).T,),
        2 * rows * cols * SIZE[dtype],
        tiled(theirs.transpose, rows, cols, args, shapes, (4, 8)),
        lambda: [lambda: out.copy_(x.T)],
    )


def embedding(data: Any, entries: int, cols: int, tokens: int, dtype: str) -> Case:
    table, index = data.normal((entries, cols), dtype), data.integers(0, entries, tokens, "int32")
    out, block = data.empty((tokens, cols), dtype), tt.next_power_of_2(cols)
    args = (table, index, out, cols)
    return Case(
        [[Launch(ours.gather, (tokens,), args, {"BLOCK": block})]],
        (out,),
        lambda: (data.wide(table)[data.wide(index)],),
        tokens * (2 * cols * SIZE[dtype] + 4),
        by_warps(theirs.gather, (tokens,), args, block, BLOCK=block),
        lambda: [lambda: torch.index_select(table, 0, index), lambda: torch.nn.functional.embedding(index, table)],
    )


# -- a row a program ---------------------------------------------------------------------------------------------------


def softmax(data: Any, rows: int, cols: int, dtype: str) -> Case:
    x, out, block = data.normal((rows, cols), dtype), data.empty((rows, cols), dtype), tt.next_power_of_2(cols)
    return Case(
        [[Launch(ours.softmax, (rows,), (x, out, cols), {"BLOCK": block})]],
        (out,),
        lambda: (softmax_of(data, x),),
        2 * rows * cols * SIZE[dtype],
        by_warps(theirs.softmax, (rows,), (x, out, cols), block, BLOCK=block),
        lambda: [lambda: torch.softmax(x, 1, out=out)],
    )


def softmax_of(data: Any, x: Any) -> Any:
    v = data.wide(x)
    e = data.xp.exp(v - data.xp.amax(v, 1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def softmax_online(data: Any, rows: int, cols: int, dtype: str, sizes: tuple = (4096, 8192, 16384)) -> Case:
    """The row is read twice, which the bytes that are counted leave out."""
    x, out = data.normal((rows, cols), dtype), data.empty((rows, cols), dtype)
    tiles = [{"BLOCK": size, "STAGES": stages} for size in sizes for stages in (1, 2)]

    def triton_ways() -> Iterator[list[Launch]]:
        for tile in tiles:
            yield from by_warps(theirs.softmax_online, (rows,), (x, out, cols), tile["BLOCK"], **tile)

    return Case(
        [[Launch(ours.softmax_online, (rows,), (x, out, cols), tile)] for tile in tiles],
        (out,),
        lambda: (softmax_of(data, x),),
        2 * rows * cols * SIZE[dtype],
        triton_ways(),
        lambda: [lambda: torch.softmax(x, 1, out=out)],
    )


def cross_entropy(data: Any, rows: int, cols: int, dtype: str, sizes: tuple = (4096, 8192, 16384, 32768)) -> Case:
    x, target = data.normal((rows, cols), dtype), data.integers(0, cols, rows, "int64")
    loss = data.empty(rows, "float32")
    args, tiles = (x, target, loss, cols), [{"BLOCK": size, "STAGES": stages} for size in sizes for stages in (1, 2)]

    def want() -> tuple:
        v = data.wide(x)
        top = data.xp.amax(v, 1)
        picked = data.xp.stack([v[i, t] for i, t in enumerate(data.wide(target).tolist())])
        return (top + data.xp.log(data.xp.exp(v - top[:, None]).sum(1)) - picked,)

    def triton_ways() -> Iterator[list[Launch]]:
        for tile in tiles:
            yield from by_warps(theirs.cross_entropy, (rows,), args, tile["BLOCK"], **tile)

    return Case(
        [[Launch(ours.cross_entropy, (rows,), args, tile)] for tile in tiles],
        (loss,),
        want,
        rows * (cols * SIZE[dtype] + 12),
        triton_ways(),
        lambda: [lambda: torch.nn.functional.cross_entropy(x, target, reduction="none")],
    )


def cumsum(data: Any, rows: int, cols: int) -> Case:
    x, out, block = data.uniform((rows, cols), "float32"), data.empty((rows, cols), "float32"), tt.next_power_of_2(cols)
    return Case(
        [[Launch(ours.cumsum, (rows,), (x, out, cols), {"BLOCK": block})]],
        (out,),
        lambda: (data.wide(x).cumsum(1),),
        8 * rows * cols,
        by_warps(theirs.cumsum, (rows,), (x, out, cols), block, BLOCK=block),
        lambda: [lambda: torch.cumsum(x, 1, out=out)],
    )


# -- normalised rows ---------------------------------------------------------------------------------------------------

EPS = 1e-5
PROGRAMS = 1, 2, 4, 8  # a multiprocessor


def normalised(data: Any, x: Any, root: bool) -> tuple:
    """A row's mean (0 for RMSNorm), the factor of its deviations, and the row with both applied."""
    v = data.wide(x)
    mean = 0 * v[:, :1] if root else v.mean(1, keepdims=True)
    rstd = 1 / (((v - mean) ** 2).mean(1, keepdims=True) + EPS) ** 0.5
    return mean[:, 0], rstd[:, 0], (v - mean) * rstd


def norm(data: Any, rows: int, cols: int, dtype: str, root: bool = False) -> Case:
    """LayerNorm, or RMSNorm (``root``), with what its backward pass needs of it."""
    x, w, b = (data.normal(shape, dtype) for shape in ((rows, cols), cols, cols))
    out, mean, rstd = data.empty((rows, cols), dtype), data.empty(rows, "float32"), data.empty(rows, "float32")
    name, block = "rmsnorm" if root else "layernorm", tt.next_power_of_2(cols)
    inputs, outs = ((x, w), (out, rstd)) if root else ((x, w, b), (out, mean, rstd))
    args = (*inputs, *outs, cols, EPS)

    def want() -> tuple:
        centre, scale, v = normalised(data, x, root)
        v = v * data.wide(w)
        return (v, scale) if root else (v + data.wide(b), centre, scale)

    def torch_ways() -> list:
        nn = torch.nn.functional
        return [lambda: nn.rms_norm(x, (cols,), w, EPS) if root else nn.layer_norm(x, (cols,), w, b, EPS)]

    nbytes = (2 * rows + len(inputs) - 1) * cols * SIZE[dtype] + 4 * rows * (len(outs) - 1)
    launch = Launch(getattr(ours, name), (rows,), args, {"BLOCK": block})
    triton_ways = by_warps(getattr(theirs, name), (rows,), args, block, BLOCK=block)
    return Case([[launch]], outs, want, nbytes, triton_ways, torch_ways)


def norm_backward(data: Any, rows: int, cols: int, dtype: str, root: bool = False) -> Case:
    """Each of some programs goes through rows and adds up what they give to dw and db; a second launch adds up those
    sums."""
    x, dy, w, b = (data.normal(shape, dtype) for shape in ((rows, cols), (rows, cols), cols, cols))
    stats = [data.array(s, "float32") for s in normalised(data, x, root)[root:2]]
    name, sums, block = "rmsnorm_backward" if root else "layernorm_backward", len(stats), tt.next_power_of_2(cols)
    dx, dw = data.empty((rows, cols), dtype), data.empty((sums, cols), dtype)  # and db, below dw
    parts = data.empty((8 * sm_count(), sums * cols), "float32")
    args = (dy, x, w, *stats, dx, parts, rows, cols)

    def want() -> tuple:
        _, scale, v = normalised(data, x, root)
        g = data.wide(dy)
        wg = g * data.wide(w)
        d = wg - v * (wg * v).mean(1, keepdims=True) - (0 if root else wg.mean(1, keepdims=True))
        return d * scale[:, None], data.xp.stack([(g * v).sum(0), g.sum(0)][:sums])

    def launches(kernels: Any, an_sm: int, meta: dict, last: dict) -> list[Launch]:
        programs = min(rows, an_sm * sm_count())
        return [
            Launch(getattr(kernels, name), (programs,), args, {"BLOCK": block, **meta}),
            summed(kernels, parts, dw, programs, sums * cols, **last),
        ]

    def triton_ways() -> Iterator[list[Launch]]:
        last = {"ACC": theirs.tl.float32, "STAGES": 1, "num_warps": 4}
        for an_sm in PROGRAMS:
            for warps in (2, 4, 8, 16):
                for stages in (1, 2):
                    yield launches(theirs, an_sm, {"STAGES": stages, "num_warps": warps}, last)

    def torch_ways() -> list:
        leaves = [t.detach().requires_grad_() for t in ((x, w) if root else (x, w, b))]
        forward = torch.nn.functional.rms_norm if root else torch.nn.functional.layer_norm
        y = forward(leaves[0], (cols,), *leaves[1:], EPS)
        return [lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)]

    ways = [launches(ours, an_sm, {}, {"ACC": tt.float32}) for an_sm in PROGRAMS]
    nbytes = (3 * rows + 1 + sums) * cols * SIZE[dtype] + 4 * rows * sums
    return Case(ways, (dx, dw), want, nbytes, triton_ways(), torch_ways)


# -- sums and counts ---------------------------------------------------------------------------------------------------


def summed(kernels: Any, parts: Any, out: Any, rows: int, cols: int, **meta: Any) -> Launch:
    """The launch that adds up the rows of ``parts``."""
    args = (parts, out, rows, cols, tt.cdiv(rows, 64) * 64)
    return Launch(kernels.column_sum, (tt.cdiv(cols, 16), 1), args, {"ROWS": 64, "COLS": 16, **meta})


SHAPES, SHARES = ((32, 64), (16, 128), (8, 256), (4, 512)), (512, 1024, 2048)  # of tiles, and rows a program


def column_sum(data: Any, rows: int, cols: int) -> Case:
    x, out = data.uniform((rows, cols), "float32"), data.empty(cols, "float32")
    parts = data.empty((tt.cdiv(rows, 512), cols), "float32")

    def launches(kernels: Any, shape: tuple, share: int, meta: dict, last: dict) -> list[Launch]:
        count, (r, c) = tt.cdiv(rows, share), shape
        first = Launch(
            kernels.column_sum, (tt.cdiv(cols, c), count), (x, parts, rows, cols, share), {"ROWS": r, "COLS": c, **meta}
        )
        return [first, summed(kernels, parts, out, count, cols, **last)]

    def triton_ways() -> Iterator[list[Launch]]:
        acc = {"ACC": theirs.tl.float32}
        last = {**acc, "STAGES": 1, "num_warps": 4}
        for shape, share in product(SHAPES, SHARES):
            for warps in (4, 8):
                yield launches(theirs, shape, share, {**acc, "STAGES": 3, "num_warps": warps}, last)

    acc = {"ACC": tt.float32}
    return Case(
        [launches(ours, shape, share, acc, acc) for shape, share in product(SHAPES, SHARES)],
        (out,),
        lambda: (data.wide(x).sum(0),),
        4 * (rows + 1) * cols,
        triton_ways(),
        lambda: [lambda: torch.sum(x, 0)],
    )


def full_sum(data: Any, n: int) -> Case:
    x, out, parts = data.uniform(n, "float32"), data.empty(1, "float32"), data.empty(8 * sm_count(), "float32")

    def launches(kernel: Any, programs: int, block: int, **meta: Any) -> list[Launch]:
        first = Launch(kernel, (programs,), (x, parts, n), {"BLOCK": block, **meta})
        return [first, Launch(kernel, (1,), (parts, out, programs), {"BLOCK": 1024, **meta})]

    def triton_ways() -> Iterator[list[Launch]]:
        for an_sm, block in product((2, 4, 8), (2048, 4096, 8192)):
            for warps in (4, 8):
                yield launches(theirs.full_sum, an_sm * sm_count(), block, STAGES=3, num_warps=warps)

    sizes = product((2, 4, 8), (2048, 4096, 8192))
    ways = [launches(ours.full_sum, an_sm * sm_count(), block) for an_sm, block in sizes]
    return Case(ways, (out,), lambda: (data.wide(x).sum()[None],), 4 * n, triton_ways(), lambda: [lambda: torch.sum(x)])


def histogram(data: Any, n: int, bins: int) -> Case:
    x, out = data.integers(0, bins, n, "int32"), data.empty(bins, "int32")
    parts = data.empty((8 * sm_count(), bins), "int32")

    def launches(kernels: Any, an_sm: int, block: int, meta: dict, last: dict) -> list[Launch]:
        programs = an_sm * sm_count()
        first = Launch(kernels.histogram, (programs,), (x, parts, n), {"BINS": bins, "BLOCK": block, **meta})
        return [first, summed(kernels, parts, out, programs, bins, **last)]

    def triton_ways() -> Iterator[list[Launch]]:
        last = {"ACC": theirs.tl.int32, "STAGES": 1, "num_warps": 4}
        for an_sm, block in product((2, 4, 8), (1024, 4096, 8192)):
            for warps in (4, 8):
                yield launches(theirs, an_sm, block, {"num_warps": warps}, last)

    def torch_ways() -> list:
        return [lambda: torch.bincount(x, minlength=bins), lambda: torch.histc(x, bins, 0, bins - 1)]

    def want() -> tuple:
        return (data.xp.bincount(data.wide(x), minlength=bins),)

    acc = {"ACC": tt.int32}
    ways = [launches(ours, an_sm, block, {}, acc) for an_sm, block in product((2, 4, 8), (1024, 4096, 8192))]
    return Case(ways, (out,), want, 4 * (n + bins), triton_ways(), torch_ways)


# -- the table ---------------------------------------------------------------------------------------------------------


class Work(NamedTuple):
    name: str
    make: Callable[[Any], Case]
    goal: float | None = 1.0  # of the faster of the peers
    of_copy: float | None = None  # of the rate of a copy
    peers: tuple[str, ...] = ("triton", "torch")


M, GIB = 1 << 20, 1 << 30
NORMS = ((4096, 1024), (4096, 4096), (4096, 8192), (32768, 2048))
ADDS = [
    Work(f"vector add 32M f32, BLOCK {b}", partial(add, n=32 * M, dtype="float32", block=b, tune=False), None)
    for b in (32, 64, 128, 256, 512, 1024, 2048, 4096)
]


def works() -> Iterator[Work]:
    short = {"int8": "int8", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
    for dtype in ("float16", "bfloat16", "float64", "int8"):
        n = GIB // SIZE[dtype]
        yield Work(f"add 1 GiB {short[dtype]}", partial(add, n=n, dtype=dtype, block=1024), None, 0.97)
        yield Work(f"copy 1 GiB {short[dtype]}", partial(copy, n=n, dtype=dtype, block=1024), None, 0.97)
    for dtype in ("float32", "float16"):
        shape, ragged = {"rows": 16384, "cols": 16384, "dtype": dtype}, {"rows": 16381, "cols": 16379, "dtype": dtype}
        name, only = short[dtype], ("triton",)
        yield Work(f"2-D add 16384x16384 {name}", partial(add_2d, **shape), 0.95, 0.9, only)
        yield Work(f"2-D copy 16384x16384 {name}", partial(copy_2d, **shape), 0.95, 0.9, only)
        yield Work(f"transpose 16384x16384 {name}", partial(transpose, **shape), 0.95, 0.9, only)
        yield Work(f"copy every other row {name}", partial(copy_2d, **shape, every=2), 0.95, None, only)
        yield Work(f"2-D add 16381x16379 {name}", partial(add_2d, **ragged), 0.95, None, only)
        yield Work(f"transpose 16381x16379 {name}", partial(transpose, **ragged), 0.95, None, only)
    for dtype in ("float32", "float16"):
        shapes = [(4096, 256), (4096, 1024), (4096, 4096), (4096, 12288), (32768, 1024), (4096, 1000), (4096, 5003)]
        for r, c in shapes:
            yield Work(f"softmax {r}x{c} {short[dtype]}", partial(softmax, rows=r, cols=c, dtype=dtype))
        make = partial(softmax_online, rows=1024, cols=131072, dtype=dtype)
        yield Work(f"softmax 1024x131072 {short[dtype]}, 2 passes", make)
    for name, root in (("LayerNorm", False), ("RMSNorm", True)):
        for r, c in NORMS:
            given = {"rows": r, "cols": c, "dtype": "float16", "root": root}
            yield Work(f"{name} {r}x{c} f16", partial(norm, **given))
            yield Work(f"{name} backward {r}x{c} f16", partial(norm_backward, **given))
    for c in (32768, 128256):
        yield Work(f"cross-entropy 4096x{c} bf16", partial(cross_entropy, rows=4096, cols=c, dtype="bfloat16"))
    yield Work("dropout 64M f32", partial(dropout, n=64 * M))
    yield Work("dropout 64M f32, 4 words a counter", partial(dropout, n=64 * M, name="dropout4"))
    make = partial(embedding, entries=128256, cols=2048, tokens=32768, dtype="float16")
    yield Work("embedding 32768 of 128256x2048 f16", make)
    yield Work("column sum 32768x4096 f32", partial(column_sum, rows=32768, cols=4096))
    yield Work("full sum 64M f32", partial(full_sum, n=64 * M))
    yield Work("cumsum along rows 16384x4096 f32", partial(cumsum, rows=16384, cols=4096))
    yield Work("histogram 64M int32, 256 bins", partial(histogram, n=64 * M, bins=256))
    yield Work("GELU 1 GiB f16", partial(gelu, n=GIB // 2, dtype="float16"), None, 0.97)
    yield Work("GELU (tanh) 1 GiB f16", partial(gelu_tanh, n=GIB // 2, dtype="float16"), None, 0.97)
    yield Work("SwiGLU 1 GiB f16", partial(swiglu, n=GIB // 2, dtype="float16"), None, 0.97)
    yield Work("RoPE 1 GiB f16", partial(rope, tokens=131072, heads=32, half=64, dtype="float16"), None, 0.97)


def copy_rate(data: Any, repeats: int) -> float:
    """GB/s of a copy of 1 GiB, read and written: torch's, or the greatest that we measure."""
    if not isinstance(data, TorchData):
        return tt.roofline().memory_gb_s
    x = data.normal(GIB // 4, "float32")
    out = torch.empty_like(x)
    return 2 * GIB / device_time(lambda: out.copy_(x), repeats) / 1e9


def all_works() -> Iterator[Work]:
    yield from ADDS
    yield from works()


def main() -> int:
    start = time.perf_counter()
    options, data, chosen = on_gpu(__doc__, all_works)
    rounds = 2 if options.quick else 5
    roof = copy_rate(data, 12 * rounds)
    print(f"a copy of 1 GiB: {roof:.0f} GB/s")

    def row(work: Work, figures: dict[str, float], notes: dict, against: dict) -> None:
        peers = {name: figures[name] for name in ("triton", "torch") if name in figures}
        record(work.name, "GB/s", figures["tinyton"], peers, work.goal, against=against, only=work.peers, **notes)

    adds = []
    for work in chosen:
        with a_row(work.name):
            figures, notes = measure(data, work.make(data), rounds)
            if work in ADDS:
                adds.append((work, figures, notes))
            else:
                row(work, figures, notes, {"copy": (roof, work.of_copy)})
    plateau = max((rate for _, figures, _ in adds for rate in figures.values()), default=0)
    for work, figures, notes in adds:
        row(work, figures, notes, {"plateau": (plateau, 0.97)})
    print(f"{time.perf_counter() - start:.0f} s in all")
    return finish(options.out)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
