"""Within a program, loads and stores happen in the order they are written in, whichever threads do them."""

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel


def test_turning_a_tile_in_place(mapping):
    @tt.jit
    def turn(x, n, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x + i, tt.load(x + (n - 1 - i)))

    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    want = x[::-1].copy()
    turn[1](x, 1024, BLOCK=1024, num_warps=mapping.warps)
    assert np.array_equal(x, want)


def test_reading_what_was_just_written(mapping):
    @tt.jit
    def shift(x, out, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x + i, i)
        tt.store(out + i, tt.load(x + (i ^ 511)))

    x, out = np.zeros(512, np.int32), np.zeros(512, np.int32)
    shift[1](x, out, BLOCK=512, num_warps=mapping.warps)
    assert np.array_equal(out, np.arange(512) ^ 511)


def test_rounds_of_a_loop_follow_each_other(mapping):
    @tt.jit
    def scan(x, n, BLOCK: tt.constexpr):  # Hillis and Steele, in place
        i = tt.arange(0, BLOCK)
        step = 1
        for _ in range(n):
            left = tt.load(x + (i - step), mask=i >= step)
            tt.store(x + i, tt.load(x + i) + left)
            step = step * 2

    x = np.random.default_rng(1).integers(-9, 9, 256).astype(np.int32)
    want = np.cumsum(x)
    scan[1](x, 8, BLOCK=256, num_warps=mapping.warps)
    assert np.array_equal(x, want)


def test_a_scalar_written_by_one_thread_is_read_by_all(mapping):
    @tt.jit
    def through_memory(x, out, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x, tt.sum(i))
        tt.store(out + i, tt.load(x) + i)

    x, out = np.zeros(1, np.int32), np.zeros(256, np.int32)
    through_memory[1](x, out, BLOCK=256, num_warps=mapping.warps)
    assert np.array_equal(out, np.arange(256) + 255 * 128)


@pytest.mark.parametrize("where", ["x", "out"])
def test_elementwise_work_needs_no_barrier(where):
    k = kernel(f"""
@tt.jit
def k(x, out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store({where} + i, tt.load(x + i, mask=i < n) + 1, mask=i < n)
""")
    a = np.zeros(512, np.float32)
    with tt.backends.use("opencl" if tt.backends.available()["opencl"] is None else tt.backends.current().name):
        assert "barrier" not in k.compile(a, a, 512, BLOCK=512, num_warps=4).source
