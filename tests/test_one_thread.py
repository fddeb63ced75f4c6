"""On a CPU one thread walks a whole tile. Its loops are such that the C compiler vectorises them, and its optimiser is
on here."""

import numpy as np
import pytest

import tinyton as tt
from conftest import EXECUTORS, lowered, same_bits

UFUNCS = {"max": np.fmax, "min": np.fmin, "max_nan": np.maximum, "min_nan": np.minimum}


@pytest.fixture
def cpu(monkeypatch):
    if "opencl" not in EXECUTORS:
        pytest.skip("no OpenCL")
    monkeypatch.setenv("TINYTON_BACKEND", "opencl")
    monkeypatch.setenv("TINYTON_BUILD_OPTIONS", "")


def text(kernel, **constants):
    """The C of a kernel whose x, y and out are arrays of float32; what else is no constant is int32."""
    names = [name for name in kernel.arg_names if name not in constants]
    types = {name: "*float32" if name in ("a", "b", "x", "y", "out") else "int32" for name in names}
    return lowered(kernel, types, "opencl", 1, **constants).source


@tt.jit
def reduce(x, out, rows, cols, ROWS: tt.constexpr, COLS: tt.constexpr, AXIS: tt.constexpr):
    i, j = tt.arange(0, ROWS)[:, None], tt.arange(0, COLS)[None, :]
    v = tt.load(x + i * cols + j, mask=(i < rows) & (j < cols), other=float("nan"))
    k = tt.arange(0, ROWS if AXIS else COLS)
    n = ROWS if AXIS else COLS
    tt.store(out + k, tt.max(v, AXIS))
    tt.store(out + n + k, tt.min(v, AXIS))
    tt.store(out + 2 * n + k, tt.max(v, AXIS, propagate_nan=True))
    tt.store(out + 3 * n + k, tt.min(v, AXIS, propagate_nan=True))
    tt.store(out + 4 * n + k, tt.sum(tt.where(v == v, v, 0.0), AXIS))


@pytest.mark.filterwarnings("ignore:kernel reduce")
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(8, 256), (5, 201), (3, 7)])
def test_reductions(cpu, shape, dtype, axis):
    rng = np.random.default_rng(3)
    tile = tuple(map(tt.next_power_of_2, shape))
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.1] = np.nan
    x[0], x[1, ::2], x[1, 1::2], x[2, :3] = np.nan, -np.inf, np.nan, (np.inf, -np.inf, -0.0)
    full = np.full(tile, np.nan, dtype)
    full[: shape[0], : shape[1]] = x
    out = np.zeros((5, tile[1 - axis]), dtype)
    reduce[1](x, out, *shape, ROWS=tile[0], COLS=tile[1], AXIS=axis)
    for got, f in zip(out, UFUNCS.values(), strict=False):
        same_bits(got, f.reduce(full, axis))
    want = np.nansum(full.astype(np.float64), axis)
    finite = np.isfinite(want)
    assert np.allclose(out[4][finite], want[finite], rtol=1e-6, atol=1e-5)
    same_bits(out[4][~finite].astype(np.float64), want[~finite])


def test_how_reductions_are_written():
    source = text(reduce, ROWS=4, COLS=8, AXIS=1)
    assert "#pragma clang fp reassociate(on)" in source and "max_key_float32(" in source
    assert source.count("#pragma clang loop interleave_count(2)\n") == 5  # loads with a maximum, and four alone


@tt.jit
def two_masks(x, y, out, n, m, k, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    a, b = tt.load(x + i, mask=i < n, other=2.0), tt.load(y + i, mask=i < m)
    tt.store(out + i, a * b, mask=i < k)
    tt.store(out + k + tt.program_id(0), tt.sum(a - b))


@pytest.mark.filterwarnings("ignore:kernel two_masks")
@pytest.mark.parametrize("n, m", [(256, 256), (100, 70), (70, 100), (0, 5), (129, 128)])
def test_loops_end_where_masks_do(cpu, n, m):
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(256).astype(np.float32) for _ in "xy")
    a, b = np.where(np.arange(256) < n, x, 2), np.where(np.arange(256) < m, y, 0)
    for k in (256, 250):
        out = np.full(260, 7, np.float32)
        two_masks[2](x[:n] if n else x, y[:m], out, n, m, k, BLOCK=128)
        same_bits(out[:k], (a * b).astype(np.float32)[:k])
        assert np.allclose(out[k : k + 2], (a - b).reshape(2, 128).sum(1, dtype=np.float64), atol=1e-4)
        assert (out[k + 2 :] == 7).all()


@tt.jit
def edge(x, out, rows, cols, R: tt.constexpr, C: tt.constexpr):
    i = (tt.program_id(0) * R + tt.arange(0, R))[:, None]
    j = (tt.program_id(1) * C + tt.arange(0, C))[None, :]
    mask = (i < rows) & (j < cols)
    tt.store(out + i * cols + j, tt.load(x + i * cols + j, mask=mask) + 1, mask=mask)


@pytest.mark.parametrize("shape", [(32, 64), (31, 61), (1, 1), (9, 33)])
def test_edges_of_matrices(cpu, shape):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    out = np.full_like(x, np.nan)
    edge[tt.cdiv(shape[0], 8), tt.cdiv(shape[1], 32)](x, out, *shape, R=8, C=32)
    same_bits(out, x + 1)


def test_loops_have_no_tests():
    for kernel, constants in ((two_masks, {"BLOCK": 128}), (edge, {"R": 8, "C": 32})):
        source = text(kernel, **constants)
        assert "int last = " in source and "<= last; ++" in source
        assert ("?" in source) == (kernel is two_masks)  # of two masks, one may be off where the other is on


@tt.jit
def rounds(x, out, n, ROUNDS: tt.constexpr, BLOCK: tt.constexpr):
    j = tt.arange(0, BLOCK)
    total, most, twice = (
        tt.zeros((BLOCK,), tt.float32),
        tt.full((BLOCK,), -1.0, tt.float32),
        tt.zeros((BLOCK,), tt.float32),
    )
    for k in range(ROUNDS):
        v = tt.load(x + k * BLOCK + j, mask=k * BLOCK + j < n)
        old = twice
        twice = tt.exp(twice * 0.5) + v
        most = tt.maximum(most, old + twice)
        total = (total + v) * 0.5
    tt.store(out + j, total)
    tt.store(out + BLOCK + j, most)
    tt.store(out + 2 * BLOCK + j, twice)


@pytest.mark.filterwarnings("ignore:kernel rounds")
def test_what_a_loop_carries_stays_where_it_is(cpu):
    x = np.random.default_rng(2).standard_normal(250).astype(np.float32)
    out = np.zeros((3, 64), np.float32)
    rounds[1](x, out, 250, ROUNDS=4, BLOCK=64)
    total, most, twice = np.zeros(64), np.full(64, -1.0), np.zeros(64)
    for v in np.pad(x, (0, 6)).reshape(4, 64):
        old, twice = twice, np.exp(twice * 0.5) + v
        most, total = np.maximum(most, old + twice), (total + v) * 0.5
    assert np.allclose(out, (total, most, twice), rtol=1e-5)
    source = text(rounds, ROUNDS=4, BLOCK=64)
    assert "total[r] = (total[r] + v) * 0.5f;" in source
    assert "total_1" not in source and "most_1" not in source and "twice_1" in source  # the old one is read again


@tt.jit
def product(a, b, c, out, M: tt.constexpr, K: tt.constexpr, N: tt.constexpr, ACC: tt.constexpr):
    i, k, j = tt.arange(0, M)[:, None], tt.arange(0, K), tt.arange(0, N)[None, :]
    acc = tt.load(c + i * N + j).to(ACC)
    for _ in range(3):
        acc = tt.dot(tt.load(a + i * K + k[None, :]), tt.load(b + k[:, None] * N + j), acc * 0.5)
    tt.store(out + i * N + j, acc)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(16, 8, 32), (1, 16, 2), (2, 1, 64), (64, 32, 4), (4, 4, 1), (1, 1, 8)])
def test_products(cpu, shape, dtype):
    m, k, n = shape
    rng = np.random.default_rng(4)
    a, b, c = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n), (m, n)))
    out = np.zeros((m, n), "float64" if dtype == "float64" else "float32")
    product[1](a, b, c, out, m, k, n, tt.float64 if dtype == "float64" else tt.float32)
    want = c.astype(np.float64)
    for _ in range(3):
        want = want * 0.5 + a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(out, want, rtol=1e-5, atol=1e-12 if dtype == "float64" else 1e-4)


@tt.jit
def turned(a, b, out, M: tt.constexpr, K: tt.constexpr, N: tt.constexpr):
    """The product of a and b, both stored by columns, stored by columns."""
    i, k, j = tt.arange(0, M)[:, None], tt.arange(0, K), tt.arange(0, N)[None, :]
    acc = tt.zeros((M, N), tt.float32)
    for s in range(2):
        acc = tt.dot(tt.load(a + s * M * K + i + k[None, :] * M), tt.load(b + s * K * N + k[:, None] + j * K), acc)
    tt.store(out + i + j * M, acc)


@tt.jit
def batched(a, b, out, B: tt.constexpr, M: tt.constexpr):
    i = tt.arange(0, B)[:, None, None] * M * M + tt.arange(0, M)[None, :, None] * M + tt.arange(0, M)[None, None, :]
    x = tt.load(a + i)
    tt.store(out + i, tt.dot(tt.trans(x, (0, 2, 1)), tt.load(b + i) + 1))


def test_products_of_turned_matrices_and_of_batches(cpu):
    a, b = np.random.default_rng(5).standard_normal((2, 2 * 32 * 32)).astype(np.float32)
    out = np.zeros((32, 16), np.float32)
    turned[1](a, b, out, 16, 8, 32)
    wide = [
        (x.reshape(-1)[: 2 * n].reshape(2, *s).astype(np.float64)) for x, n, s in ((a, 128, (8, 16)), (b, 256, (32, 8)))
    ]
    assert np.allclose(out, sum((x.T @ y.T).T for x, y in zip(*wide, strict=True)), atol=1e-4)
    out = np.zeros((2, 32, 32), np.float32)
    batched[1](a, b, out, 2, 32)
    x, y = a.reshape(2, 32, 32).astype(np.float64), b.reshape(2, 32, 32).astype(np.float64)
    assert np.allclose(out, x.transpose(0, 2, 1) @ (y + 1), atol=1e-4)


def test_how_products_are_written():
    source = text(turned, M=16, K=8, N=32)
    assert "sum3 += x[3 * K + k] * row;" in source and "fma(" not in source and "shared_memory" not in source


def test_where_masks_end_is_sought_once():
    source = text(edge, R=1, C=64)
    assert source.count("int last = ") == 1 and source.count("<= last; ++") == 2
    assert text(edge, R=8, C=32).count(" >= 0; --") == 2  # in each row anew


@tt.jit
def functions(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n)
    tt.store(out + i, tt.exp(v), mask=i < n)
    tt.store(out + n + i, tt.sigmoid(v), mask=i < n)
    tt.store(out + 2 * n + i, tt.tanh(v), mask=i < n)


def test_functions(cpu):
    special = [0, -0.0, np.inf, -np.inf, np.nan, 88.72283, 88.72284, 1e30, -87.4, -103.97208, -103.97209, -104.1, -1e30]
    x = np.concatenate([special, np.linspace(-105, 90, 60000), np.linspace(-1e-3, 1e-3, 4001)]).astype(np.float32)
    out = np.zeros((3, x.size), np.float32)
    functions[tt.cdiv(x.size, 1024)](x, out, x.size, BLOCK=1024)
    v = x.astype(np.float64)
    with np.errstate(over="ignore"):
        wide = np.exp(v), 1 / (1 + np.exp(-v)), np.tanh(v)
        for got, want, ulps, least in zip(out, wide, (2, 4, 6), (2e-45, 4e-39, 0), strict=True):
            near = want.astype(np.float32)
            assert np.array_equal(np.isfinite(got), np.isfinite(near)) and np.array_equal(np.isnan(got), np.isnan(near))
            assert np.array_equal(got[~np.isfinite(near)], near[~np.isfinite(near)], equal_nan=True)
            finite = np.isfinite(near)
            assert (np.abs(got[finite] - want[finite]) <= ulps * np.spacing(np.abs(near[finite])) + least).all()


def test_how_functions_are_written():
    source = text(functions, BLOCK=1024)
    assert "exp_float32(v[r])" in source and "vstore8(exp(" not in source  # in plain C, so that the loop vectorises
    assert "vstore8(tanh(" in source
