"""Stage 3: a tile is bigger than its threads; tiles of two dimensions, padding, vector accesses."""

import numpy as np
import pytest

rng = np.random.default_rng(3)


def test_next_power_of_2(tt):
    assert [tt.next_power_of_2(n) for n in (1, 2, 10, 16, 17)] == [1, 2, 16, 16, 32]


@pytest.mark.parametrize("block", [1, 16, 100, 512, 4096, 8192])
def test_tiles_of_any_size(tt, block):
    @tt.jit
    def k(x, out, n, BLOCK: tt.constexpr):
        i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        tt.store(out + i, tt.load(x + i, mask=i < n) * 2 + 1, mask=i < n)

    n = min(3 * block + 5, 9000)
    for start in (0, 1):  # a view that starts at an odd place is not aligned for vectors
        x, out = rng.standard_normal(n + 1).astype(np.float32)[start:], np.zeros(n + 9, np.float32)
        k[tt.cdiv(n, block)](x, out, n, BLOCK=block)
        assert np.array_equal(out[:n], x[:n] * 2 + 1) and not out[n:].any()


@pytest.mark.snapshots(3)
def test_one_thread_on_a_cpu_and_128_on_a_gpu(tt):
    @tt.jit
    def k(x, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x + i, i)

    executor = tt.backends.current()
    threads = {"interpreter": 1, "cuda": 128, "opencl": 1 if getattr(executor, "on_cpu", False) else 128}
    for block in (16, 1024):
        assert k.compile(np.zeros(1024, np.int32), BLOCK=block).threads == threads[executor.name]


def test_tiles_of_several_extents_in_one_kernel(tt):
    @tt.jit
    def k(x, out, A: tt.constexpr, B: tt.constexpr):
        i = tt.arange(0, A)
        j = tt.arange(0, B)
        tt.store(out + i, tt.load(x + i) - tt.reduce_max(tt.load(x + j)))
        tt.store(out + A + j, tt.reduce_sum(tt.load(x + i)))

    x, out = rng.standard_normal(100).astype(np.float32), np.zeros(90, np.float32)
    k[1](x, out, 27, 63)
    assert np.array_equal(out[:27], x[:27] - x[:63].max())
    np.testing.assert_allclose(out[27:], x[:27].sum(), rtol=1e-5)


@pytest.mark.parametrize("rows, columns", [(4, 16), (16, 4), (1, 8), (32, 64)])
def test_two_dimensions(tt, rows, columns):
    @tt.jit
    def outer(x, y, out, m, n, R: tt.constexpr, C: tt.constexpr):
        i = tt.program_id(0) * R + tt.arange(0, R)
        j = tt.program_id(1) * C + tt.arange(0, C)
        a = tt.load(x + i, mask=i < m)
        b = tt.load(y + j, mask=j < n)
        mask = (i[:, None] < m) & (j[None, :] < n)
        tt.store(out + i[:, None] * n + j[None, :], a[:, None] * b[None, :], mask=mask)

    m, n = 33, 70
    x, y = rng.standard_normal(m).astype(np.float32), rng.standard_normal(n).astype(np.float32)
    out = np.zeros((m, n), np.float32)
    outer[tt.cdiv(m, rows), tt.cdiv(n, columns)](x, y, out, m, n, R=rows, C=columns)
    assert np.array_equal(out, np.outer(x, y))


@pytest.mark.parametrize("block", [8, 32, 27])
def test_a_transpose(tt, block):
    @tt.jit
    def transpose(src, dst, m, n, B: tt.constexpr):
        i = tt.program_id(0) * B + tt.arange(0, B)
        j = tt.program_id(1) * B + tt.arange(0, B)
        mask = (i[:, None] < m) & (j[None, :] < n)
        x = tt.load(src + i[:, None] * n + j[None, :], mask=mask)
        tt.store(dst + j[None, :] * m + i[:, None], x, mask=mask)

    m, n = 50, 37
    x, out = rng.standard_normal((m, n)).astype(np.float32), np.zeros((n, m), np.float32)
    transpose[tt.cdiv(m, block), tt.cdiv(n, block)](x, out, m, n, B=block)
    assert np.array_equal(out, x.T)


def test_filled_tiles(tt):
    @tt.jit
    def k(out):
        i = tt.arange(0, 16)
        tt.store(out + i, tt.full(16, 7, tt.int32) + tt.zeros((16,), tt.int32))

    out = np.zeros(16, np.int32)
    k[1](out)
    assert (out == 7).all()


def test_the_shape_of_a_tile_is_a_power_of_two(tt):
    @tt.jit
    def k(out):
        tt.store(out + tt.arange(0, 10), tt.zeros(10, tt.float32))

    with pytest.raises(tt.KernelValueError) as e:
        k[1](np.zeros(16, np.float32))
    assert "dimension 0 of the tile is 10" in str(e.value) and "next_power_of_2(10) = 16" in str(e.value)


def test_extents_that_do_not_broadcast(tt):
    @tt.jit
    def k(x):
        tt.store(x + tt.arange(0, 8), tt.load(x + tt.arange(0, 16)))

    with pytest.raises(tt.KernelTypeError, match=r"shapes \[8\] and \[16\] do not broadcast"):
        k[1](np.zeros(16, np.float32))


def test_offsets_do_not_wrap_around(tt):
    @tt.jit
    def k(x, out, stride):
        i = tt.arange(0, 4)
        tt.store(out + i, tt.load(x + (i * stride + i - i * stride)))

    x, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    k[1](x, out, 2**31 - 1)
    assert np.array_equal(x, out)


def test_a_layout_says_who_holds_what(tt):
    layout = importable(tt, "layout").blocked((4, 8), threads=8, vector=4)
    assert isinstance(layout, tt.Layout)
    places = sorted(layout.at(t, r) for t in range(layout.threads) for r in range(layout.registers))
    assert places == [(i, j) for i in range(4) for j in range(8)]
    assert [layout.at(0, r) for r in range(4)] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def importable(tt, name):
    import importlib

    return importlib.import_module(f"{tt.__name__}.{name}")
