"""The five constexpr cases that the design started from, and what they promise about keys and parameters."""

import numpy as np
import pytest

import tinyton as tt
from conftest import Guarded, mappings


@tt.jit
def scale(src, dst, N, BLOCK: tt.constexpr):
    tid = tt.arange(0, BLOCK)
    mask = tid < N
    x = tt.load(src + tid, mask=mask)
    tt.store(dst + tid, x * 2.0, mask=mask)


@tt.jit
def scale_64(src, dst, N):
    tid = tt.arange(0, 64)
    mask = tid < N
    x = tt.load(src + tid, mask=mask)
    tt.store(dst + tid, x * 2.0, mask=mask)


@tt.jit
def softmax(src, dst, N, BLOCK: tt.constexpr):
    tid = tt.arange(0, BLOCK)
    mask = tid < N
    x = tt.load(src + tid, mask=mask, other=-float("inf"))
    mx = tt.reduce_max(x)
    e = tt.exp(x - mx)
    s = tt.reduce_sum(e)
    tt.store(dst + tid, e / s, mask=mask)


def numbers(n):
    return np.random.default_rng(n).standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("n", [4, 16, 27, 64])
@pytest.mark.parametrize("mapping", mappings(None, 1, 4), indirect=True)
def test_block_equal_to_n(mapping, n):
    x, out = numbers(n), Guarded(n, np.float32)
    scale[(1,)](x, out.array, n, n, num_warps=mapping.warps)
    assert (out.check() == 2 * x).all()


@pytest.mark.parametrize(("n", "block"), [(4, 16), (16, 64), (27, 32)])
@pytest.mark.parametrize("mapping", mappings(None, 1, 4), indirect=True)
def test_block_greater_than_n(mapping, n, block):
    x, out = numbers(n), Guarded(n, np.float32)
    scale[(1,)](x, out.array, n, block, num_warps=mapping.warps)
    assert (out.check() == 2 * x).all()


def test_each_block_has_its_own_entry(executor):
    scale._cache.clear()
    x, out = numbers(16), np.zeros(16, np.float32)
    for block, entries in ((16, 1), (64, 2), (16, 2), (64, 2), (32, 3)):
        scale[(1,)](x, out, 15, block)
        assert len(scale._cache) == entries
    scale[(1,)](x, out, 14, BLOCK=16)  # N is a run-time argument: no new kernel
    assert len(scale._cache) == 3
    assert sorted(compiled.constants["BLOCK"] for compiled in scale._cache.values()) == [16, 32, 64]


@pytest.mark.parametrize("n", [4, 16, 27, 64])
def test_a_literal_arange(mapping, n):
    x, out = numbers(n), Guarded(n, np.float32)
    scale_64[(1,)](x, out.array, n, num_warps=mapping.warps)
    assert (out.check() == 2 * x).all()


@pytest.mark.parametrize("n", [4, 16, 27])
@pytest.mark.parametrize("block", ["n", 64])
def test_softmax(mapping, n, block):
    x, out = numbers(n), Guarded(n, np.float32)
    softmax[(1,)](x, out.array, n, n if block == "n" else block, num_warps=mapping.warps)
    e = np.exp(x.astype(np.float64) - x.max())
    np.testing.assert_allclose(out.check(), e / e.sum(), rtol=1e-5)


def test_a_constexpr_is_no_parameter(executor):
    """BLOCK is in the code and in the key; src, dst and N are what a launch passes."""
    x = numbers(16)
    compiled = softmax.compile(x, x.copy(), 16, 64)
    assert [p.name for p in compiled.ir.params] == ["src", "dst", "N"]
    assert compiled.constants == {"BLOCK": 64}
    if executor == "cuda":
        grid = compiled.programs_per_block > 1  # where programs share a block, it is passed as well
        assert compiled.ptx.split(".entry")[1].split(")")[0].count(".param") == 3 + grid
