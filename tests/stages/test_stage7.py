"""Stage 7: reductions along an axis."""

import numpy as np
import pytest

rng = np.random.default_rng(7)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("shape", [(4, 16), (32, 8), (1, 64)], ids=str)
def test_sum_max_min(tt, shape, axis):
    @tt.jit
    def k(x, total, greatest, least, R: tt.constexpr, C: tt.constexpr, AXIS: tt.constexpr):
        v = tt.load(x + tt.arange(0, R)[:, None] * C + tt.arange(0, C)[None, :])
        if AXIS is None:
            i = 0
        else:
            i = tt.arange(0, C if AXIS == 0 else R)
        tt.store(total + i, tt.sum(v, axis=AXIS))
        tt.store(greatest + i, tt.max(v, axis=AXIS))
        tt.store(least + i, tt.min(v, axis=AXIS))

    x = rng.integers(-99, 99, shape).astype(np.float32)
    wanted = [np.ravel(f(x, axis=axis)) for f in (np.sum, np.max, np.min)]
    outs = [np.zeros_like(w) for w in wanted]
    k[1](x, *outs, *shape, axis)
    for out, want in zip(outs, wanted, strict=True):
        assert np.array_equal(out, want)


def test_rows_of_a_softmax(tt):
    @tt.jit
    def softmax(src, dst, m, n, R: tt.constexpr, C: tt.constexpr):
        i = tt.program_id(0) * R + tt.arange(0, R)
        j = tt.arange(0, C)
        mask = (i[:, None] < m) & (j[None, :] < n)
        at = i[:, None] * n + j[None, :]
        x = tt.load(src + at, mask=mask, other=-float("inf"))
        e = tt.exp(x - tt.max(x, 1)[:, None])
        tt.store(dst + at, e / tt.sum(e, 1)[:, None], mask=mask)

    x = rng.standard_normal((10, 27)).astype(np.float32)
    out = np.zeros_like(x)
    softmax[3](x, out, 10, 27, R=4, C=27)
    want = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=1e-5)


def test_two_operands_are_compared_element_by_element(tt):
    @tt.jit
    def k(x, out):
        i = tt.arange(0, 16)
        v = tt.load(x + i)
        tt.store(out + i, tt.max(v, 0.0) + tt.min(v, -v))

    x, out = rng.standard_normal(16).astype(np.float32), np.zeros(16, np.float32)
    k[1](x, out)
    assert np.array_equal(out, np.maximum(x, 0) + np.minimum(x, -x))


def test_an_axis_that_is_not_there(tt):
    @tt.jit
    def k(x):
        tt.store(x, tt.sum(tt.load(x + tt.arange(0, 4)), axis=1))

    with pytest.raises(tt.KernelValueError, match="no axis 1"):
        k[1](np.zeros(4, np.float32))
