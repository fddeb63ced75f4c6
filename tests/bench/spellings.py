"""Kernels in both spellings, `tinyton` and `tinyton.tile`, beside each other in one run: the second is to be as fast.

    python tests/bench/spellings.py [--small]

Runs on the executor in use. Both kernels of a row are checked against NumPy in float64 first, then timed in turn, many
times; the ratio is that of the medians, and above 1 where `tinyton.tile` is the faster one.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

import numpy as np

import tinyton as tt
import tinyton.tile as ct

RNG = np.random.default_rng()


@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    tt.store(out + i, tt.load(x + i, mask=mask) + tt.load(y + i, mask=mask), mask=mask)


@ct.kernel
def tile_add(x, y, out, BLOCK: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, i, ct.load(x, i, BLOCK) + ct.load(y, i, BLOCK))


@tt.jit
def transpose(x, out, rows, cols, BLOCK: tt.constexpr):
    i = (tt.program_id(0) * BLOCK + tt.arange(0, BLOCK))[:, None]
    j = (tt.program_id(1) * BLOCK + tt.arange(0, BLOCK))[None, :]
    tile = tt.load(x + i * cols + j, mask=(i < rows) & (j < cols))
    i, j = tt.trans(i), tt.trans(j)
    tt.store(out + j * rows + i, tt.trans(tile), mask=(i < rows) & (j < cols))


@ct.kernel
def tile_transpose(x, out, BLOCK: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (BLOCK, BLOCK))))


@tt.jit
def softmax(x, out, cols, BLOCK: tt.constexpr):
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    e = tt.load(x + row * cols + j, mask=j < cols, other=-float("inf"))
    e = tt.exp(e - tt.max(e, 0))
    tt.store(out + row * cols + j, e / tt.sum(e, 0), mask=j < cols)


@ct.kernel
def tile_softmax(x, out, BLOCK: ct.Constant[int]):
    row = ct.bid(0)
    e = ct.load(x, (row, 0), (1, BLOCK), padding_mode=ct.PaddingMode.NEG_INF)
    e = ct.exp(e - ct.max(e, 1, keepdims=True))
    ct.store(out, (row, 0), e / ct.sum(e, 1, keepdims=True))


@tt.jit
def layernorm(x, w, b, out, cols, BLOCK: tt.constexpr):
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    v = tt.load(x + row * cols + j, mask=j < cols).to(tt.float32)
    mean = tt.sum(v, 0) / cols
    d = tt.where(j < cols, v - mean, 0.0)
    v = d * tt.rsqrt(tt.sum(d * d, 0) / cols + 1e-5)
    v = v * tt.load(w + j, mask=j < cols) + tt.load(b + j, mask=j < cols)
    tt.store(out + row * cols + j, v, mask=j < cols)


@ct.kernel
def tile_layernorm(x, w, b, out, BLOCK: ct.Constant[int]):
    row, cols = ct.bid(0), x.shape[1]
    v = ct.load(x, (row, 0), (1, BLOCK)).astype(ct.float32)
    mean = ct.sum(v, 1, keepdims=True) / cols
    d = ct.where(ct.arange(BLOCK, dtype=ct.int32)[None, :] < cols, v - mean, 0.0)
    v = d * ct.rsqrt(ct.sum(d * d, 1, keepdims=True) / cols + 1e-5)
    v = v * ct.load(w, 0, BLOCK) + ct.load(b, 0, BLOCK)
    ct.store(out, (row, 0), v.astype(out.dtype))


def row(work: str, moved: int, grid: tuple, block: int, want: np.ndarray, pointers: tuple, arrays: tuple) -> float:
    """Checks and times a kernel of each spelling, given with its arguments; the last array is the result. The ratio."""
    (kernel, *args), (tile_kernel, *tile_args) = pointers, arrays
    out = tile_args[-1]
    launches = [
        lambda: kernel[grid](*args, BLOCK=block),
        lambda: ct.launch(None, grid, tile_kernel, (*tile_args, block)),
    ]
    for launch in launches:
        out.executor.write(out.handle, np.full(out.shape, np.nan, out.dtype.numpy))
        launch()
        atol, rtol = ct.testing.tolerances(out.dtype)
        np.testing.assert_allclose(out.numpy().astype(np.float64), want, atol=atol, rtol=rtol)
    rounds = [[tt.bench(launch, repeats=20).seconds for launch in launches] for _ in range(7)]
    times = [statistics.median(column) for column in zip(*rounds, strict=True)]
    rates, ratio = [moved / t / 1e9 for t in times], times[0] / times[1]
    print(f"{work:28} tinyton {rates[0]:8.1f} GB/s  tile {rates[1]:8.1f} GB/s  ratio {ratio:5.3f}")
    return ratio


def adds(n: int) -> Iterator[float]:
    x, y = (RNG.standard_normal(n, np.float32) for _ in range(2))
    a, b, out = tt.to_device(x), tt.to_device(y), tt.empty(n)
    for block in (256, 1024, 4096):
        work, want = f"add {n} f32, BLOCK {block}", x.astype(np.float64) + y
        yield row(work, 12 * n, (tt.cdiv(n, block),), block, want, (add, a, b, out, n), (tile_add, a, b, out))


def transposes(rows: int, cols: int) -> Iterator[float]:
    x = RNG.standard_normal((rows, cols), np.float32)
    a, out, grid = tt.to_device(x), tt.empty((cols, rows)), (tt.cdiv(rows, 64), tt.cdiv(cols, 64))
    work, want = f"transpose {rows}x{cols} f32", x.T.astype(np.float64)
    yield row(work, 2 * x.nbytes, grid, 64, want, (transpose, a, out, rows, cols), (tile_transpose, a, out))


def norms(rows: int, cols: int, dtype: type) -> Iterator[float]:
    x, w, bias = (RNG.standard_normal(shape).astype(dtype) for shape in ((rows, cols), cols, cols))
    a, wd, bd, out = tt.to_device(x), tt.to_device(w), tt.to_device(bias), tt.empty(x.shape, dtype)
    wide, block, name = x.astype(np.float64), tt.next_power_of_2(cols), f"{rows}x{cols} {out.dtype}"
    e = np.exp(wide - wide.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True)
    yield row(f"softmax {name}", 2 * x.nbytes, (rows,), block, want, (softmax, a, out, cols), (tile_softmax, a, out))
    centred = wide - wide.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w.astype(np.float64) + bias
    args = a, wd, bd, out
    work = f"layernorm {name}"
    yield row(work, 2 * x.nbytes, (rows,), block, want, (layernorm, *args, cols), (tile_layernorm, *args))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    scale = 16 if parser.parse_args().small else 1
    print(tt.env().stamp())
    ratios = [*adds((32 << 20) // scale - 5), *transposes(4096, 4096 // scale), *transposes(4093, 4099 // scale)]
    for dtype, cols in ((np.float32, 1024), (np.float32, 4096), (np.float16, 4096), (np.float32, 1000)):
        ratios += norms(8192 // scale, cols, dtype)
    print(f"least ratio {min(ratios):.3f} (goal 0.98)")


if __name__ == "__main__":
    main()
