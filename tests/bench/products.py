"""Products of matrices and what is built on them, beside Triton, cuBLAS and cuDNN (through torch).

    python tests/bench/products.py [--quick] [--only "matmul f16|attention"] [--jobs 8] [--out results.json]

Runs on any NVIDIA GPU; a peer that is not installed is left out, and said so. Our kernels (products_kernels.py) are
written the obvious way; tiles, warps and stages are tried for both (products_triton.py has Triton's), from one list,
and the fastest counts. Every result is compared with float64 first, on fresh random data. Times are medians of device
events, with the L2 cache flushed before each run, kernels taking turns; TF/s count two operations a product.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import products_kernels as ours
import products_triton as theirs
from harness import Case, Launch, NumPyData, TorchData, a_row, finish, measure, on_gpu, record, torch

import tinyton as tt

TILES = [(128, 128, 64), (128, 256, 64), (256, 128, 64), (64, 128, 64), (64, 64, 64), (128, 64, 64)]
TILES += [(16, 128, 128), (16, 64, 128), (16, 32, 256), (32, 64, 128)]  # for a few rows
BUSY = 256  # blocks that keep a GPU busy: where programs are fewer, clusters that run them together are tried, too
WORDS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int8": "int8", "float8_e4m3fn": "f8"}


def tilings(m: int, n: int, itemsize: int, tiles: Any = None) -> Iterator[dict[str, int]]:
    """Tiles for a product of m rows and n columns, with warps and stages."""
    for bm, bn, bk in tiles or TILES:
        if tiles is None and not min(m, 64) <= bm <= max(16, 2 * m) or bn > 2 * n:
            continue
        bk = bk * 2 // itemsize
        for warps, stages in product((8, 4), (3, 4) if bm * bn > 8192 else (4, 6, 8)):  # small ones: more on their way
            if bm * bn // (32 * warps) <= 256 and stages * (bm + bn) * bk * itemsize <= 220 << 10:
                yield {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}


def programs(m: int, n: int, tile: dict[str, int]) -> int:
    return tt.cdiv(m, tile["BM"]) * tt.cdiv(n, tile["BN"])


def ways(kernel: Any, m: int, n: int, args: tuple, itemsize: int, tiles: Any = None, **meta: Any) -> list[list[Launch]]:
    """Launches of a kernel with a program for each tile. Clusters are tried for ours alone: Triton 3.6 does not
    compile some of its kernels for them, and its figures were the same with and without."""
    found, clusters = [], (1, 2, 4, 8) if isinstance(kernel, tt.JITFunction) else (1,)
    for tile, ctas in product(tilings(m, n, itemsize, tiles), clusters):
        if ctas * (count := programs(m, n, tile)) <= BUSY or ctas == 1:
            how = {"num_ctas": ctas} if ctas > 1 else {}
            found.append([Launch(kernel, (count,), args, {**meta, **tile, **how})])
    return found


def matmul(
    data: Any, m: int, n: int, k: int, dtype: str, turned: tuple = (False, False), tf32: bool = False,
    tiles: Any = None, full: bool = False,
) -> Case:  # fmt: skip
    """In float32, without ``tf32``, in full. Of float8, the result is bfloat16, and tensor cores add up in fewer bits
    than float32 has, or, if that is to be in ``full``, no more than what they do at a time."""
    (ta, tb), eight = turned, dtype.startswith("float8")
    a = data.normal((k, m) if ta else (m, k), dtype)
    b = data.normal((n, k) if tb else (k, n), dtype)
    out = data.empty((m, n), "bfloat16" if eight else dtype)
    strides = (1, m) if ta else (k, 1), (1, k) if tb else (n, 1)
    args = (a, b, out, m, n, k, *strides[0], *strides[1])
    meta = {"TA": ta, "TB": tb, "PRECISION": "tf32" if tf32 else None if dtype != "float32" else "ieee"}
    meta |= {"FULL": True} if full else {}
    itemsize = 4 if dtype == "float32" else 1 if eight else 2

    def want() -> tuple:
        x, y = data.wide(a), data.wide(b)
        return ((x.T if ta else x) @ (y.T if tb else y),)

    def torch_ways() -> list:
        x, y = a.T if ta else a, b.T if tb else b

        def call() -> Any:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            return torch.matmul(x, y, out=out)

        def scaled() -> Any:
            return torch._scaled_mm(x, y, one, one, out_dtype=torch.bfloat16, use_fast_accum=not full)

        one = torch.ones((), device=x.device)
        return [scaled if eight else call]

    made = (ways(kernels.matmul, m, n, args, itemsize, tiles, **meta) for kernels in (ours, theirs))
    rtol = 3e-3 if tf32 else 2e-5 if dtype == "float32" else 3e-2 if eight else None  # sums of 14 bits: 1e-2
    return Case(next(made), (out,), want, 2 * m * n * k, next(made), torch_ways, rtol)


def matmul_gelu(data: Any, m: int, n: int, k: int, dtype: str, tiles: Any = None) -> Case:
    a, b, bias, out = *(data.normal(s, dtype) for s in ((m, k), (k, n), (n,))), data.empty((m, n), dtype)

    def want() -> tuple:
        x = data.wide(a) @ data.wide(b) + data.wide(bias)
        return (0.5 * x * (1 + data.erf(x / 2**0.5)),)

    def torch_ways() -> list:
        return [lambda: torch.nn.functional.gelu(torch.addmm(bias, a, b))]

    made = (ways(kernels.matmul_gelu, m, n, (a, b, bias, out, m, n, k), 2, tiles) for kernels in (ours, theirs))
    meta = {"TA": False, "TB": False, "PRECISION": None}
    plain = ways(ours.matmul, m, n, (a, b, data.empty((m, n), dtype), m, n, k, k, 1, n, 1), 2, tiles, **meta)
    return Case(next(made), (out,), want, 2 * m * n * k, next(made), torch_ways, beside={"plain": plain})


# -- many products, parts of one, and shares of all --------------------------------------------------------------------


def batched(data: Any, batch: int, m: int, n: int, k: int, dtype: str, tiles: Any = None) -> Case:
    a, b, out = data.normal((batch, m, k), dtype), data.normal((batch, k, n), dtype), data.empty((batch, m, n), dtype)

    def launches(kernel: Any) -> list[list[Launch]]:
        found = tilings(m, n, 2, tiles)
        return [[Launch(kernel, (programs(m, n, tile), batch), (a, b, out, m, n, k), tile)] for tile in found]

    def want() -> tuple:
        return (data.wide(a) @ data.wide(b),)

    torch_ways = lambda: [lambda: torch.bmm(a, b, out=out)]  # noqa: E731
    work = 2 * batch * m * n * k
    return Case(launches(ours.batched), (out,), want, work, launches(theirs.batched), torch_ways)


def persistent(data: Any, n: int, dtype: str, tiles: Any = None, sms: int | None = None) -> Case:
    a, b, out = data.normal((n, n), dtype), data.normal((n, n), dtype), data.empty((n, n), dtype)
    sms = sms or data.sm_count

    def launches(kernel: Any) -> list[list[Launch]]:
        found = product(tilings(n, n, 2, tiles), (1, 2))
        return [
            [Launch(kernel, (min(programs(n, n, tile), each * sms),), (a, b, out, n, n, n), tile)]
            for tile, each in found
        ]

    def want() -> tuple:
        return (data.wide(a) @ data.wide(b),)

    torch_ways = lambda: [lambda: torch.matmul(a, b, out=out)]  # noqa: E731
    return Case(launches(ours.persistent), (out,), want, 2 * n**3, launches(theirs.persistent), torch_ways)


def grouped(data: Any, sizes: Any, dtype: str, tiles: Any = None, sms: int | None = None) -> Case:
    """Products of several ``sizes`` (m, n, k), whose matrices lie one after the other. torch has a launch for each."""
    starts = np.cumsum([(0, 0, 0), *((m * k, k * n, m * n) for m, n, k in sizes)], 0)
    a, b = (data.normal(int(starts[-1, side]), dtype) for side in (0, 1))
    out, sms = data.empty(int(starts[-1, 2]), dtype), sms or data.sm_count
    table = data.integers(0, 1, (len(sizes), 6), "int32")
    rows = [[*size, *map(int, start)] for size, start in zip(sizes, starts, strict=False)]
    if isinstance(data, NumPyData):
        table = data.array(np.array(rows), "int32")
    elif isinstance(data, TorchData):
        table = data.array(torch.tensor(rows, device=data.device), "int32")

    def parts(x: Any, side: int, first: int, second: int) -> list[Any]:
        places = zip(starts[:-1, side], starts[1:, side], sizes, strict=True)
        return [x[int(low) : int(high)].reshape(size[first], size[second]) for low, high, size in places]

    def launches(kernel: Any) -> list[list[Launch]]:
        found = product(tilings(max(m for m, _, _ in sizes), max(n for _, n, _ in sizes), 2, tiles), (1, 2))
        args = (a, b, out, table, len(sizes))
        return [[Launch(kernel, (each * sms,), args, tile)] for tile, each in found]

    def want() -> tuple:
        lefts, rights = parts(data.wide(a), 0, 0, 2), parts(data.wide(b), 1, 2, 1)
        return (data.xp.concatenate([(x @ y).reshape(-1) for x, y in zip(lefts, rights, strict=True)]),)

    def torch_ways() -> list:
        every = list(zip(parts(a, 0, 0, 2), parts(b, 1, 2, 1), parts(out, 2, 0, 1), strict=True))
        return [lambda: [torch.matmul(x, y, out=z) for x, y, z in every]]

    work = sum(2 * m * n * k for m, n, k in sizes)
    return Case(launches(ours.grouped), (out,), want, work, launches(theirs.grouped), torch_ways)


def split(data: Any, m: int, n: int, k: int, dtype: str, tiles: Any = None) -> Case:
    """Parts of the sums, which are added up by a second launch."""
    a, b, out = data.normal((m, k), dtype), data.normal((k, n), dtype), data.empty((m, n), dtype)
    parts = {count: data.empty((count, m, n), "float32") for count in (2, 4, 8, 16)}

    def launches(kernels: Any) -> list[list[Launch]]:
        found = []
        for tile, (count, to) in product(tilings(m, n, 2, tiles), parts.items()):
            first = Launch(kernels.split, (programs(m, n, tile), count), (a, b, to, m, n, k), tile)
            meta = {"PARTS": count, "BLOCK": 1024}
            found.append([first, Launch(kernels.add_parts, (tt.cdiv(m * n, 1024),), (to, out, m * n), meta)])
        return found

    def want() -> tuple:
        return (data.wide(a) @ data.wide(b),)

    torch_ways = lambda: [lambda: torch.matmul(a, b, out=out)]  # noqa: E731
    return Case(launches(ours), (out,), want, 2 * m * n * k, launches(theirs), torch_ways)


def stream_k(data: Any, m: int, n: int, k: int, dtype: str, tiles: Any = None, sms: int | None = None) -> Case:
    """With sums in float32, to which programs add their parts; torch rounds them."""
    a, b, out = data.normal((m, k), dtype), data.normal((k, n), dtype), data.empty((m, n), "float32")
    sms = sms or data.sm_count

    def launches(kernels: Any) -> list[list[Launch]]:
        clear = Launch(kernels.fill_zeros, (tt.cdiv(m * n, 4096),), (out, m * n), {"BLOCK": 4096})
        found = product(tilings(m, n, 2, tiles), (1, 2))
        return [[clear, Launch(kernels.stream_k, (each * sms,), (a, b, out, m, n, k), tile)] for tile, each in found]

    def want() -> tuple:
        return (data.wide(a) @ data.wide(b),)

    rtol = 1e-4
    return Case(launches(ours), (out,), want, 2 * m * n * k, launches(theirs), lambda: [lambda: a @ b], rtol)


# -- convolutions ------------------------------------------------------------------------------------------------------

PIXELS = [(64, 64), (128, 128), (128, 64), (64, 128), (128, 32), (64, 32), (128, 16), (64, 16)]  # by channels


def conv(
    data: Any,
    pictures: int,
    side: int,
    c: int,
    co: int,
    s: int,
    stride: int = 1,
    sms: int | None = None,
    tiles: Any = (),
) -> Case:
    """``silu(conv(x, w) * scale + bias)`` in float16, of pictures [N, H, W, C] and w [CO, S, S, C]: channels innermost,
    since neighbours in memory are then neighbours in a sum. The tile of pixels by channels is `tt.pick_tile`'s, from
    the shape and the number of multiprocessors, for one program each or for two, or for clusters. torch's: cuDNN in the
    same order, with scale, bias and SiLU in as few launches as torch has for it, or in one of ours."""
    far = tt.cdiv(side, stride)
    x, w = data.normal((pictures, side, side, c), "float16"), data.normal((co, s, s, c), "float16")
    scale, bias = (data.normal(co, "float32") for _ in range(2))
    out, pixels = data.empty((pictures, far, far, co), "float16"), pictures * far * far
    fit = [tile for tile in PIXELS if tile[1] <= max(16, tt.next_power_of_2(co))]
    least = min((16, 32, 64), key=lambda bk: (tt.cdiv(s * c, bk) * bk, -bk))  # multiplies fewest zeros
    depths = {least, 64} if least == 16 else {least}
    sms = sms or data.sm_count
    picked = dict.fromkeys(
        (tt.pick_tile((pixels, co), tiles or fit, sm_count=max(1, sms // ctas), waves=n), ctas)
        for n, ctas in product((2, 1), (1, 2, 4))
    )

    def launches(kernel: Any) -> list[list[Launch]]:
        found, args = [], (x, w, scale, bias, out, co, pixels)
        mine = [(tile, ctas) for tile, ctas in picked if ctas == 1 or isinstance(kernel, tt.JITFunction)]
        for ((bm, bn), ctas), bk, warps, stages in product(mine, depths, (4, 8), (3, 4, 6)):
            if (warps == 4 or bm * bn >= 4096) and stages * (bm + bn) * bk * 2 <= 220 << 10:
                tile = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}
                meta = {"H": side, "W": side, "OH": far, "OW": far, "C": c, "S": s, "STRIDE": stride, **tile}
                meta |= {"num_ctas": ctas} if ctas > 1 else {}
                found.append([Launch(kernel, (programs(pixels, co, tile),), args, meta)])
        return found

    def want() -> tuple:
        from_, by, total = data.wide(x), data.wide(w), data.xp.zeros_like(data.wide(out))
        for dy, dx in product(range(s), repeat=2):
            (ys, rows), (xs, columns) = (reached(d - s // 2, side, far, stride) for d in (dy, dx))
            total[:, rows, columns] += from_[:, ys, xs] @ by[:, dy, dx].T
        total = total * data.wide(scale) + data.wide(bias)
        return (total / (1 + data.xp.exp(-total)),)

    def torch_ways() -> list:
        torch.backends.cudnn.benchmark = True
        there, window = x.movedim(3, 1), w.movedim(3, 1)
        factor, offset = (v.half()[:, None, None] for v in (scale, bias))
        end = ours.scale_silu[(tt.cdiv(out.numel(), 2048),)]

        def convolved() -> Any:
            return torch.nn.functional.conv2d(there, window, padding=s // 2, stride=stride)

        def by_torch() -> Any:
            return torch.nn.functional.silu(torch.addcmul(offset, convolved(), factor), inplace=True).movedim(1, 3)

        def by_ours() -> Any:
            end(convolved().movedim(1, 3), scale, bias, out, out.numel(), C=co, BLOCK=2048)
            return out

        return [by_torch, by_ours]

    work = 2 * pixels * co * c * s * s
    return Case(launches(ours.conv), (out,), want, work, launches(theirs.conv), torch_ways, 4e-3)


def reached(off: int, side: int, far: int, stride: int) -> tuple[slice, slice]:
    """Of one dimension: what lies ``off`` from the places of a window, as far as there is something, and these."""
    first = tt.cdiv(max(0, -off), stride)
    end = min(far, (side - 1 - off) // stride + 1)
    return slice(first * stride + off, (end - 1) * stride + off + 1, stride), slice(first, end)


# -- attention, and chains ---------------------------------------------------------------------------------------------


def chain(data: Any, m: int, d: int, inner: int, dtype: str, tiles: Any = None) -> Case:
    """``(a @ b) @ c`` for ``a`` with d columns and ``c`` with as many; what is in the middle has ``inner`` columns. One
    launch, and two beside it."""
    a, b, c = data.normal((m, d), dtype), data.normal((d, inner), dtype), data.normal((inner, d), dtype)
    out, middle = data.empty((m, d), dtype), data.empty((m, inner), dtype)

    def launches(kernels: Any) -> list[list[Launch]]:
        found = []
        for tile in attention_tiles(tiles or ((128, 128), (128, 64), (64, 64))):
            found.append([Launch(kernels.chain, (tt.cdiv(m, tile["BM"]),), (a, b, c, out, m, inner), {**tile, "D": d})])
        return found

    def want() -> tuple:
        return (data.wide(a) @ data.wide(b) @ data.wide(c),)

    meta = {"TA": False, "TB": False, "PRECISION": None}
    first = ways(ours.matmul, m, inner, (a, b, middle, m, inner, d, d, 1, inner, 1), 2, **meta)
    second = ways(ours.matmul, m, d, (middle, c, out, m, d, inner, inner, 1, d, 1), 2, **meta)
    two = [[x, y] for (x,), (y,) in product(first, second)]
    work = 4 * m * d * inner
    return Case(
        launches(ours), (out,), want, work, launches(theirs), lambda: [lambda: a @ b @ c], 1e-2, (), {"two": two}
    )


LOG2E = 1.4426950408889634


def attention_tiles(tiles: Any) -> Iterator[dict[str, int]]:
    for (bm, bn), warps, stages in product(tiles, (8, 4), (2, 3)):
        yield {"BM": bm, "BN": bn, "num_warps": warps, "num_stages": stages}


def attention(data: Any, heads: int, t: int, d: int, causal: bool, tiles: Any = None) -> Case:
    """Forward, in float16. A causal one counts half of the products."""
    q, k, v = (data.normal((heads, t, d), "float16") for _ in range(3))
    out = data.empty((heads, t, d), "float16")
    args = (q, k, v, out, None, t, d**-0.5 * LOG2E)

    def launches(kernels: Any) -> list[list[Launch]]:
        return [
            [Launch(kernels.attention, (t // tile["BM"], heads), args, {**tile, "D": d, "CAUSAL": causal})]
            for tile in attention_tiles(tiles or ((128, 128), (128, 64), (64, 128), (64, 64)))
            if not causal or tile["BM"] % tile["BN"] == 0  # the diagonal begins and ends with a tile
        ]

    def want() -> tuple:
        heads = zip(*map(data.wide, (q, k, v)), strict=True)
        return (data.xp.stack([shares(data, x, y, causal) @ z for x, y, z in heads]),)

    def torch_ways() -> dict[str, list]:
        x, y, z = (part[None] for part in (q, k, v))
        call = partial(torch.nn.functional.scaled_dot_product_attention, x, y, z, is_causal=causal)
        return {name: [by(f"{name}_ATTENTION", call)] for name in ("FLASH", "CUDNN")}

    work = 4 * heads * t * t * d // (2 if causal else 1)
    return Case(launches(ours), (out,), want, work, launches(theirs), torch_ways, rtol=1e-2)


def by(backend: str, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call, in which torch's attention is by one backend."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def made() -> Any:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return call()

    return made


def shares(data: Any, q: Any, k: Any, causal: bool) -> Any:
    """How much each query of a head takes of each value."""
    xp, s = data.xp, q @ k.T * q.shape[1] ** -0.5
    p = xp.exp(s - s.max())
    p = xp.tril(p) if causal else p
    return p / p.sum(1)[:, None]


def attention_backward(data: Any, heads: int, t: int, d: int, causal: bool, tiles: Any = None) -> Case:
    """Gradients of q, k and v, in float16, from what the forward one left: its result and log2 of the rows' totals."""
    q, k, v, grad = (data.normal((heads, t, d), "float16") for _ in range(4))
    out, lse, delta = data.empty((heads, t, d), "float16"), *(data.empty((heads, t), "float32") for _ in range(2))
    dq, dk, dv = (data.empty((heads, t, d), "float16") for _ in range(3))
    scale, fixed = d**-0.5 * LOG2E, {"D": d, "CAUSAL": causal}
    tiles = tiles or ((128, 64), (128, 32), (64, 64))

    def launches(kernels: Any) -> list[list[Launch]]:
        found = []
        dots = Launch(kernels.row_dots, (heads * t // 16,), (out, grad, delta), {"COLS": d, "ROWS": 16})
        for tile in attention_tiles(tiles):
            grid, meta = (t // tile["BM"], heads), {**tile, **fixed}
            args = (q, k, v, grad, lse, delta)
            dkdv = Launch(kernels.attention_dkdv, grid, (*args, dk, dv, t, scale), meta)
            found.append([dots, dkdv, Launch(kernels.attention_dq, grid, (*args, dq, t, scale), meta)])
        return found

    def want() -> tuple:
        found = []
        for x, y, z, g, o in zip(*map(data.wide, (q, k, v, grad, out)), strict=True):
            p = shares(data, x, y, causal)
            ds = p * (g @ z.T - (g * o).sum(1)[:, None]) * d**-0.5  # of the result as it was stored, as it is given
            found.append((ds @ y, ds.T @ x, p.T @ g))
        return tuple(map(data.xp.stack, zip(*found, strict=True)))

    def torch_ways() -> dict[str, list]:
        inputs = [x[None].detach().requires_grad_() for x in (q, k, v)]
        call = partial(torch.nn.functional.scaled_dot_product_attention, *inputs, is_causal=causal)
        result = by("FLASH_ATTENTION", call)()
        return {"FLASH": [lambda: torch.autograd.grad(result, inputs, grad[None], retain_graph=True)]}

    forward = {"BM": tiles[0][0], "BN": tiles[0][1], "num_warps": 8, "num_stages": 2, **fixed}
    before = [Launch(ours.attention, (t // tiles[0][0], heads), (q, k, v, out, lse, t, scale), forward)]
    work = 10 * heads * t * t * d // (2 if causal else 1)
    return Case(launches(ours), (dq, dk, dv), want, work, launches(theirs), torch_ways, 3e-2, before)


# -- the table ---------------------------------------------------------------------------------------------------------


class Work(NamedTuple):
    """``goal``: of the fastest of ``peers``; ``beside``: of other figures, each for itself."""

    name: str
    make: Callable[[Any], Case]
    goal: float | None
    peers: tuple[str, ...] = ("triton", "torch")
    beside: dict[str, float] = {}


RESNET = [(56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1), (56, 128, 128, 3, 2)]
RESNET += [(56, 64, 256, 1, 1), (56, 256, 64, 1, 1), (28, 512, 128, 1, 1), (14, 1024, 256, 1, 1), (7, 512, 2048, 1, 1)]
RESNET += [(56, 256, 512, 1, 2)]  # ResNet-50's: pixels, channels, window, stride
EXPERTS = [(m, 4096, 2048) for m in (64, 700, 128, 333, 512, 96, 1024, 17) * 4]  # as tokens come to experts


def works() -> Iterator[Work]:
    for dtype in ("float16", "bfloat16"):
        for n in (1024, 2048, 4096, 8192):
            make = partial(matmul, m=n, n=n, k=n, dtype=dtype)
            yield Work(f"matmul {WORDS[dtype]} {n}", make, 1.0 if n > 1024 else 0.95)
    for m, (n, k) in product((16, 128, 1024, 8192), ((4096, 4096), (14336, 4096), (4096, 14336))):
        yield Work(f"matmul bf16 {m}x{n}x{k}", partial(matmul, m=m, n=n, k=k, dtype="bfloat16"), 1.0)
    for n, turned in product((2048, 4096), product((False, True), repeat=2)):
        letters = "".join("t" if t else "n" for t in turned)
        make = partial(matmul, m=n, n=n, k=n, dtype="float32", tf32=True, turned=turned)
        yield Work(f"matmul tf32 {n} {letters}", make, 0.95, ("torch",))
    for n, full in product((4096, 8192), (False, True)):
        make = partial(matmul, m=n, n=n, k=n, dtype="float8_e4m3fn", turned=(False, True), full=full)
        yield Work(f"matmul f8 {n}{', sums in float32' * full}", make, 1.0)
    for turned in product((False, True), repeat=2):
        letters = "".join("t" if t else "n" for t in turned)
        make = partial(matmul, m=4096, n=4096, k=4096, dtype="float16", turned=turned)
        yield Work(f"matmul f16 4096 {letters}", make, 1.0)
    yield Work("matmul f32 4096", partial(matmul, m=4096, n=4096, k=4096, dtype="float32"), 0.8, ("torch",))
    for n in (2048, 4096):
        make = partial(matmul_gelu, m=n, n=n, k=n, dtype="float16")
        yield Work(f"matmul + bias + GELU f16 {n}", make, 1.0, beside={"plain": 0.97})
    make = partial(batched, batch=64, m=1024, n=1024, k=512, dtype="float16")
    yield Work("batched matmul f16 64x1024x1024x512", make, 1.0)
    for n in (4096, 8192):
        yield Work(f"persistent matmul f16 {n}", partial(persistent, n=n, dtype="float16"), 1.0, ("triton",))
    yield Work(
        "grouped matmul bf16, 32 of 4096x2048", partial(grouped, sizes=EXPERTS, dtype="bfloat16"), 1.0, ("triton",)
    )
    make = partial(grouped, sizes=[(n, n, n) for n in (2048, 1024, 512, 256) * 4], dtype="float16")
    yield Work("grouped matmul f16, 256 to 2048", make, 1.0, ("triton",))
    for m, n, k in ((16, 4096, 14336), (512, 512, 16384)):
        make = partial(split, m=m, n=n, k=k, dtype="float16")
        yield Work(f"split-K matmul f16 {m}x{n}x{k}", make, 1.0, ("triton",))
    make = partial(stream_k, m=1536, n=1536, k=8192, dtype="float16")
    yield Work("stream-K matmul f16 1536x1536x8192", make, 1.0, ("triton",))
    for s, c in product((3, 1), (8, 16, 32, 64, 128)):
        side = 40 if c == 128 else 32
        yield Work(
            f"conv {s}x{s} {c} to {c}, 32x{side}x{side}",
            partial(conv, pictures=32, side=side, c=c, co=c, s=s),
            1.0,
            ("torch",),
        )
    for side, c, co, s, stride in RESNET:
        name = f"conv {s}x{s}{'/2' * (stride > 1)} {c} to {co}, 32x{side}x{side}"
        yield Work(name, partial(conv, pictures=32, side=side, c=c, co=co, s=s, stride=stride), 1.0, ("torch",))
    for d in (64, 128):
        make = partial(chain, m=16384, d=d, inner=4096, dtype="float16")
        yield Work(f"(16384x{d} @ {d}x4096) @ 4096x{d} f16", make, 1.0, beside={"two": 1.0})
    for d, causal in product((64, 128), (False, True)):
        name = f"attention 4x32x4096x{d}{' causal' * causal}"
        make = partial(attention, heads=128, t=4096, d=d, causal=causal)
        yield Work(name, make, 1.0, ("triton", "FLASH"), {"CUDNN": 1.0})
    for d, causal in product((64, 128), (False, True)):
        name = f"attention backward 4x32x4096x{d}{' causal' * causal}"
        yield Work(name, partial(attention_backward, heads=128, t=4096, d=d, causal=causal), 1.0, ("FLASH",))


def main() -> int:
    start = time.perf_counter()
    options, data, chosen = on_gpu(__doc__, works)
    for work in chosen:
        with a_row(work.name):
            figures, notes = measure(data, work.make(data), 2 if options.quick else 5, errors=True)
            figures = {name: f / 1000 for name, f in figures.items()}
            against = {name: (figures[name], goal) for name, goal in work.beside.items() if name in figures}
            peers = {name: figure for name, figure in figures.items() if name != "tinyton"}
            record(work.name, "TF/s", figures["tinyton"], peers, work.goal, against=against, only=work.peers, **notes)
    print(f"{time.perf_counter() - start:.0f} s in all")
    return finish(options.out)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
