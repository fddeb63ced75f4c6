"""Scans: an axis anywhere in registers, lanes and warps, both ways, on every executor; what is refused; the text."""

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import EMULATED, EXECUTORS, choose, kernel, lowered

THREADS = {"interpreter": [None], "opencl": [1, 32, 128, 512], "cuda": [32, 128, 512], "emulator": [32, 512]}
PLACES = [pytest.param((name, n), id=f"{name}-{n}") for name in EXECUTORS + EMULATED for n in THREADS[name]]


@pytest.fixture(params=PLACES)
def threads(request, monkeypatch):
    """A number of threads on each executor."""
    choose(request.param[0], monkeypatch)
    return request.param[1]


@tt.jit
def line_after_line(a, b, c, d):
    """The lines t -> a t + b and t -> c t + d, one after the other: not commutative."""
    return a * c, b * c + d


def body(shape):
    """A kernel that scans along every axis, both ways: sums of int8, and lines if all extents are powers of two."""
    rank = len(shape)
    lines = ["@tt.jit", "def k(x, y, sums, slopes, offsets, N: tt.constexpr):", "    at = 0"]
    for d, n in enumerate(shape):
        index = ", ".join(":" if e == d else "None" for e in range(rank))
        lines.append(f"    at = at * {n} + tt.arange(0, {n})[{index}]")
    lines.append("    a, b = tt.load(x + at), tt.load(y + at)")
    for k, (axis, back) in enumerate((d, back) for d in range(rank) for back in (False, True)):
        lines.append(f"    tt.store(sums + {k} * N + at, tt.cumsum(a, {axis}, reverse={back}))")
        if all(n & (n - 1) == 0 for n in shape):
            lines.append(f"    p, q = tt.associative_scan((a, b), {axis}, line_after_line, reverse={back})")
            lines.append(f"    tt.store(slopes + {k} * N + at, p)")
            lines.append(f"    tt.store(offsets + {k} * N + at, q)")
    return kernel("\n".join(lines), line_after_line=line_after_line)


def along(f, axis, back, *tiles):
    """What ``f`` gives for tiles whose first axis is gone through."""
    turned = [np.moveaxis(np.flip(t, axis) if back else t, axis, 0) for t in tiles]
    out = [np.moveaxis(np.array(t), 0, axis) for t in f(*turned)]
    return [np.flip(t, axis) if back else t for t in out]


def lines_of(a, b):
    p, q = [a[0]], [b[0]]
    for c, d in zip(a[1:], b[1:], strict=True):
        p, q = [*p, p[-1] * c], [*q, q[-1] * c + d]
    return p, q


SHAPES = [(1,), (100,), (4096,), (4, 64), (64, 8), (128, 2), (27, 5), (4, 8, 16), (5, 3, 6)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_axis(threads, shape, rng):
    a, b = rng.choice([-1, 1], shape).astype(np.int8), rng.integers(-99, 99, shape)
    n, count = a.size, 2 * len(shape)
    sums, slopes, offsets = (np.full((count, *shape), 99, d) for d in (np.int32, np.int8, np.int64))
    body(shape)[1](a, b, sums, slopes, offsets, n, num_threads=threads)
    for k in range(count):
        axis, back = divmod(k, 2)
        assert np.array_equal(sums[k], *along(lambda t: [t.cumsum(0, np.int32)], axis, back, a)), (axis, back)
        if all(n & (n - 1) == 0 for n in shape):
            p, q = along(lines_of, axis, back, a, b)
            assert np.array_equal(slopes[k], p) and np.array_equal(offsets[k], q), (axis, back)


def test_a_layout_that_does_not_fit_is_left(threads, rng):
    """Columns, one after the other, of a tile that is loaded row by row; and rows of a tile that is carried."""
    k = kernel("""
@tt.jit
def k(x, out, rows, rounds, M: tt.constexpr, N: tt.constexpr):
    i, j = tt.arange(0, M)[:, None], tt.arange(0, N)[None, :]
    v = tt.load(x + i * N + j)
    tt.store(out + tt.arange(0, M * N), tt.cumsum(tt.ravel(tt.trans(v)), 0))
    for _ in range(rounds):
        v = tt.cumsum(tt.cumsum(v, 0), 1) + tt.sum(v)
    tt.store(rows + i * N + j, v)
""")
    x = rng.integers(-9, 9, (16, 32)).astype(np.int32)
    out, rows = np.zeros(512, np.int32), np.zeros((16, 32), np.int32)
    k[1](x, out, rows, 3, 16, 32, num_threads=threads)
    assert np.array_equal(out, np.cumsum(x.T))
    for _ in range(3):
        x = x.cumsum(0, np.int32).cumsum(1, np.int32) + x.sum(dtype=np.int32)
    assert np.array_equal(rows, x)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
def test_element_types(threads, dtype, rng):
    """16-bit floats are added in float32, small integers in 32 bits; or in what is asked for."""
    k = kernel("""
@tt.jit
def k(x, sums, products, wide, N: tt.constexpr):
    i = tt.arange(0, N)
    v = tt.load(x + i)
    tt.store(sums + i, tt.cumsum(v, 0))
    tt.store(products + i, tt.cumprod(v, 0, reverse=True))
    tt.store(wide + i, tt.cumsum(v, 0, dtype=tt.float64))
""")
    n = 3000
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x = (rng.random(n) < 0.9).astype(kind) if dtype == "bool" else (1 + rng.integers(0, 2, n)).astype(kind)
    summed = {"bool": np.int32, "uint8": np.uint32}.get(dtype, kind)
    sums, products, wide = np.zeros(n, summed), np.zeros(n, summed), np.zeros(n)
    k[1](x, sums, products, wide, n, num_threads=threads)
    exact = x.astype(np.int64)
    assert np.array_equal(wide, exact.cumsum()) and np.array_equal(sums, exact.cumsum().astype(summed))
    with np.errstate(over="ignore"):
        in_32 = np.float32 if kind.itemsize == 2 else summed
        want = np.cumprod(exact[::-1].astype(in_32), dtype=in_32)[::-1].astype(summed)
    assert np.array_equal(products, want)


def test_running_over_a_row_in_blocks(executor, rng):
    k = kernel("""
@tt.jit
def k(x, out, n, BLOCK: tt.constexpr):
    before = 0.0
    for start in range(0, n, BLOCK):
        i = start + tt.arange(0, BLOCK)
        v = tt.load(x + i, mask=i < n, other=0)
        tt.store(out + i, before + tt.cumsum(v * 2, 0), mask=i < n)
        before += tt.sum(v * 2)
""")
    x, out = rng.random(5001, np.float32), np.zeros(5001, np.float32)
    k[1](x, out, 5001, 512)
    assert np.allclose(out, 2 * x.astype(np.float64).cumsum(), rtol=1e-5)


@pytest.mark.parametrize("line", ["x if x > y else y", "tt.sum(tt.arange(0, 4)) + x", "tt.device_print('x', x)"])
def test_functions_are_plain_arithmetic(interpreter, line):
    k = kernel(f"""
@tt.jit
def f(x, y):
    return {line}
@tt.jit
def k(x):
    tt.store(x, tt.sum(tt.associative_scan(tt.arange(0, 4), 0, f)))
""")
    with pytest.raises(tt.KernelSyntaxError, match=r"plain arithmetic, without(.|\n)*tt\.where"):
        k[1](np.zeros(4, np.int32))


@pytest.mark.parametrize(
    "call, words",
    [
        ("tt.associative_scan(i, 0, tile)", r"gives a tile \(i32\[4\]\) for two scalars"),
        ("tt.associative_scan(tt.arange(0, 5), 0, add, reverse=True)", "powers of two"),
        ("tt.cumsum(i, 1)", "no axis 1"),
        ("tt.cumsum(tt.sum(i), 0)", "no axis 0"),
    ],
)
def test_errors(interpreter, call, words):
    k = kernel(f"""
@tt.jit
def add(x, y):
    return x + y
@tt.jit
def tile(x, y):
    return x + tt.arange(0, 4)
@tt.jit
def k(x):
    i = tt.arange(0, 4)
    {call}
""")
    with pytest.raises(tt.TinytonError, match=words):
        k[1](np.zeros(4, np.int32))


ROW = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr):
    i = tt.arange(0, N)
    tt.store(out + i, tt.cumsum(tt.load(x + i), 0))
""")


def test_the_text():
    """Shuffles for the lanes, one barrier for all warps and registers; a loop where there is one thread."""
    types = dict.fromkeys(("x", "out"), "*float32:16")
    warp, block = (lowered(ROW, types, threads=n, N=4096).source for n in (32, 256))
    assert [text.count("__shfl_up_sync") for text in (warp, block)] == [2, 2]
    assert [text.count("__syncthreads") for text in (warp, block)] == [0, 1] and "shared_memory[128]" in block
    alone = lowered(ROW, types, "opencl", 1, N=4096).source
    assert "scan[k] = scan[k - 1] + scan[k];" in alone and alone.count("for (") == 3
