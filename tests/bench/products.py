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

import products_kernels as ours
import products_triton as theirs
from harness import Case, Launch, a_row, finish, measure, on_gpu, record, torch

import tinyton as tt

TILES = [(128, 128, 64), (128, 256, 64), (256, 128, 64), (64, 128, 64), (64, 64, 64), (128, 64, 64)]
TILES += [(16, 128, 128), (16, 64, 128), (32, 64, 128)]  # for a few rows
WORDS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int8": "int8"}


def ways(kernel: Any, m: int, n: int, args: tuple, itemsize: int, tiles: Any = None, **meta: Any) -> list[list[Launch]]:
    """Launches of a kernel of matrices, by tile, warps and stages."""
    found = []
    for bm, bn, bk in tiles or TILES:
        if tiles is None and not min(m, 64) <= bm <= max(16, 2 * m) or bn > 2 * n:
            continue
        bk = bk * 2 // itemsize
        for warps, stages in product((8, 4), (3, 4)):
            if bm * bn // (32 * warps) > 256 or stages * (bm + bn) * bk * itemsize > 220 << 10:
                continue
            tile = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}
            found.append([Launch(kernel, (tt.cdiv(m, bm) * tt.cdiv(n, bn),), args, {**meta, **tile})])
    return found


def matmul(
    data: Any, m: int, n: int, k: int, dtype: str, turned: tuple = (False, False), tf32: bool = False, tiles: Any = None
) -> Case:
    """In float32, without ``tf32``, in full."""
    ta, tb = turned
    a = data.normal((k, m) if ta else (m, k), dtype)
    b = data.normal((n, k) if tb else (k, n), dtype)
    out = data.empty((m, n), dtype)
    strides = (1, m) if ta else (k, 1), (1, k) if tb else (n, 1)
    args = (a, b, out, m, n, k, *strides[0], *strides[1])
    meta = {"TA": ta, "TB": tb, "PRECISION": "tf32" if tf32 else None if dtype != "float32" else "ieee"}
    itemsize = 4 if dtype == "float32" else 2

    def want() -> tuple:
        x, y = data.wide(a), data.wide(b)
        return ((x.T if ta else x) @ (y.T if tb else y),)

    def torch_ways() -> list:
        x, y = a.T if ta else a, b.T if tb else b

        def call() -> None:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.matmul(x, y, out=out)

        return [call]

    made = (ways(kernels.matmul, m, n, args, itemsize, tiles, **meta) for kernels in (ours, theirs))
    rtol = 1.5e-3 if tf32 else 2e-5 if dtype == "float32" else None
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
            for tile in attention_tiles(tiles or ((128, 128), (128, 64), (64, 64)))
        ]

    def want() -> tuple:
        heads = zip(*map(data.wide, (q, k, v)), strict=True)
        return (data.xp.stack([shares(data, x, y, causal) @ z for x, y, z in heads]),)

    def torch_ways() -> list:
        x, y, z = (part[None] for part in (q, k, v))
        call = torch.nn.functional.scaled_dot_product_attention
        return [
            by(backend, lambda: call(x, y, z, is_causal=causal)) for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION")
        ]

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
        for x, y, z, g in zip(*map(data.wide, (q, k, v, grad)), strict=True):
            p = shares(data, x, y, causal)
            ds = g @ z.T
            ds = p * (ds - (p * ds).sum(1)[:, None]) * d**-0.5
            found.append((ds @ y, ds.T @ x, p.T @ g))
        return tuple(map(data.xp.stack, zip(*found, strict=True)))

    def torch_ways() -> list:
        inputs = [x[None].detach().requires_grad_() for x in (q, k, v)]
        call = partial(torch.nn.functional.scaled_dot_product_attention, *inputs, is_causal=causal)
        result = by("FLASH_ATTENTION", call)()
        return [lambda: torch.autograd.grad(result, inputs, grad[None], retain_graph=True)]

    forward = {"BM": tiles[0][0], "BN": tiles[0][1], "num_warps": 8, "num_stages": 2, **fixed}
    before = [Launch(ours.attention, (t // tiles[0][0], heads), (q, k, v, out, lse, t, scale), forward)]
    work = 10 * heads * t * t * d // (2 if causal else 1)
    return Case(launches(ours), (dq, dk, dv), want, work, launches(theirs), torch_ways, 3e-2, before)


# -- the table ---------------------------------------------------------------------------------------------------------


class Work(NamedTuple):
    """``goal``: of the fastest of ``peers``; ``beside``: of the figures of what the case has beside."""

    name: str
    make: Callable[[Any], Case]
    goal: float | None
    peers: tuple[str, ...] = ("triton", "torch")
    beside: dict[str, float] = {}


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
    for turned in product((False, True), repeat=2):
        letters = "".join("t" if t else "n" for t in turned)
        make = partial(matmul, m=4096, n=4096, k=4096, dtype="float16", turned=turned)
        yield Work(f"matmul f16 4096 {letters}", make, 1.0)
    yield Work("matmul f32 4096", partial(matmul, m=4096, n=4096, k=4096, dtype="float32"), 0.8, ("torch",))
    for n in (2048, 4096):
        make = partial(matmul_gelu, m=n, n=n, k=n, dtype="float16")
        yield Work(f"matmul + bias + GELU f16 {n}", make, 1.0, beside={"plain": 0.97})
    for d in (64, 128):
        make = partial(chain, m=16384, d=d, inner=4096, dtype="float16")
        yield Work(f"(16384x{d} @ {d}x4096) @ 4096x{d} f16", make, 1.0, beside={"two": 1.0})
    for d, causal in product((64, 128), (False, True)):
        name = f"attention 4x32x4096x{d}{' causal' * causal}"
        yield Work(name, partial(attention, heads=128, t=4096, d=d, causal=causal), 1.0)
    for d, causal in product((64, 128), (False, True)):
        name = f"attention backward 4x32x4096x{d}{' causal' * causal}"
        yield Work(name, partial(attention_backward, heads=128, t=4096, d=d, causal=causal), 1.0, ("torch",))


def main() -> int:
    start = time.perf_counter()
    options, data, chosen = on_gpu(__doc__, works)
    for work in chosen:
        with a_row(work.name):
            figures, notes = measure(data, work.make(data), 2 if options.quick else 5)
            figures = {name: f / 1000 for name, f in figures.items()}
            peers = {name: figures[name] for name in ("triton", "torch") if name in figures}
            against = {name: (figures[name], goal) for name, goal in work.beside.items()}
            record(work.name, "TF/s", figures["tinyton"], peers, work.goal, against=against, only=work.peers, **notes)
    print(f"{time.perf_counter() - start:.0f} s in all")
    return finish(options.out)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
