"""Kernels as people write them, under the names ``triton`` and ``tl``: every idiom at once, on every executor."""

import math

import numpy as np
import pytest

import tinyton
import tinyton as ton
import tinyton as triton
import tinyton.language as tl
from conftest import mappings

MAPPINGS = mappings(None, 4)


# -- matrix products ---------------------------------------------------------------------------------------------------


@triton.jit
def shrink_negatives(x, by: tl.constexpr = 0.25):
    return tl.where(x < 0, by * x, x)


@triton.jit
def place_in_groups(at, rows, columns, GROUP: tl.constexpr):
    """Which block program ``at`` computes: down the rows of a group, then on to the next column."""
    per_group = GROUP * columns
    top = at // per_group * GROUP
    height = min(rows - top, GROUP)
    return top + at % per_group % height, at % per_group // height


@triton.jit
def product(
    x, y, out, M, N, K, x_row, x_column, y_row, y_column, out_row,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr = 2, THEN: tl.constexpr = None,
):  # fmt: skip
    r, c = place_in_groups(tl.program_id(axis=0), tl.cdiv(M, BM), tl.cdiv(N, BN), GROUP)
    tl.assume(r >= 0)
    rows = r * BM + tl.arange(0, BM)
    columns = c * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = x + ((rows % M)[:, None] * x_row + inner[None, :] * x_column)
    right = y + (inner[:, None] * y_row + (columns % N)[None, :] * y_column)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for done in range(0, K, BK):
        a = tl.load(left, mask=inner[None, :] < K - done, other=0.0)
        b = tl.load(right, mask=inner[:, None] < K - done, other=0.0)
        total = tl.dot(a, b, total)
        left += BK * x_column
        right += BK * y_row
    if THEN == "shrink":
        total = shrink_negatives(total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out + out_row * rows[:, None] + columns[None, :], total.to(out.dtype.element_ty), mask=inside)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_product(mapping, rng):
    m, n, k = 50, 33, 45
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k)).astype(np.float16).T
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    strides = [s // 2 for s in (*a.strides, *b.strides)]
    for then in (None, "shrink"):
        out = np.full((m, n), np.nan, np.float16)
        product[grid](a, b, out, m, n, k, *strides, n, BM=16, BN=16, BK=16, THEN=then, num_warps=mapping.warps)
        want = a.astype(np.float64) @ b.astype(np.float64)
        want = np.where(want < 0, 0.25 * want, want) if then else want
        assert np.allclose(out, want, rtol=1e-2, atol=1e-2)


@triton.jit
def product_of_few(x, y, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr):
    """A fixed number of programs; descriptors check the bounds."""
    a = tl.make_tensor_descriptor(x, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(y, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    to = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    across = tl.cdiv(N, BN)
    for block in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, PROGRAMS, flatten=True):
        m, n = block // across * BM, block % across * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
        to.store([m, n], total)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_a_persistent_product_with_descriptors(mapping, rng):
    m, n, k = 40, 27, 33
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((n, k)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    product_of_few[(3,)](a, b, c, m, n, k, 16, 16, 16, 3, num_warps=mapping.warps)
    assert np.allclose(c, a.astype(np.float64) @ b.T, atol=1e-4)


# -- rows --------------------------------------------------------------------------------------------------------------


@triton.jit
def softmax(out, x, pitch, rows, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    inside = lanes < n
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + row * pitch + lanes, mask=inside, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * pitch + lanes, e / tl.sum(e, axis=0), mask=inside)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_softmax(mapping, rng):
    x = rng.standard_normal((23, 41)).astype(np.float32)
    y = np.full_like(x, np.nan)
    softmax[(5, 1, 1)](y, x, 41, 23, 41, triton.next_power_of_2(41), 2, num_warps=mapping.warps)
    want = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
    assert np.allclose(y, want / want.sum(1, keepdims=True), atol=1e-6)


@triton.jit
def thin_out(x, out, n, share, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.where(tl.rand(seed, at) > share, v / (1 - share), 0.0), mask=at < n)


def test_the_same_seed_drops_the_same(executor, rng):
    x = rng.standard_normal(3000).astype(np.float32)
    outs = [np.full_like(x, np.nan) for _ in range(3)]
    for out, seed in zip(outs, (123, 123, 512), strict=True):
        thin_out[(triton.cdiv(3000, 1024),)](x, out, 3000, 0.5, seed, BLOCK=1024)
    assert np.array_equal(outs[0], outs[1]) and not np.array_equal(outs[0], outs[2])
    kept = outs[0] != 0
    assert np.allclose(outs[0][kept], 2 * x[kept]) and 0.4 < kept.mean() < 0.6


@triton.jit
def normalise(x, out, weight, bias, means, scales, n, eps, BLOCK: tl.constexpr):
    """Rows longer than a tile: sums are carried round loops; a helper of the language, a pointer that moves."""
    row = tl.program_id(0)
    x += row * n
    out += row * n
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        sums += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / n
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        off = tl.where(at < n, tl.load(x + at, mask=at < n, other=0.0).to(tl.float32) - mean, 0.0)
        squares += off * off
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        w, b = tl.load(weight + at, mask=at < n), tl.load(bias + at, mask=at < n)
        v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(out + at, (v - mean) * scale * w + b, mask=at < n)


@triton.jit
def take(lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass


@triton.jit
def gradients(dx, dy, dw, x, w, means, scales, locks, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """Programs of a group add to one row of ``dw``, one by one, under a lock; the first finds nothing there."""
    row = tl.program_id(0)
    group = row % GROUPS
    at = tl.arange(0, BLOCK)
    inside = at < n
    normal = tl.load(x + row * n + at, mask=inside, other=0) - tl.load(means + row)
    normal = tl.where(inside, normal * tl.load(scales + row), 0.0)
    back = tl.load(dy + row * n + at, mask=inside, other=0)
    weighted = back * tl.load(w + at, mask=inside)
    along, level = tl.sum(normal * weighted, axis=0) / n, tl.sum(weighted, axis=0) / n
    tl.store(dx + row * n + at, (weighted - normal * along - level) * tl.load(scales + row), mask=inside)
    mine = back * normal
    lock, started = locks + group, locks + GROUPS + group
    take(lock)
    if tl.load(started) == 0:
        tl.atomic_xchg(started, 1)
    else:
        mine += tl.load(dw + group * n + at, mask=inside)
    tl.store(dw + group * n + at, mine, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_layer_norm(mapping, rng):
    m, n, groups = 13, 50, 3
    x, w, b, dy = (rng.standard_normal(s).astype(np.float32) for s in ((m, n), n, n, (m, n)))
    y, mean, scale = np.full_like(x, np.nan), np.zeros(m, np.float32), np.zeros(m, np.float32)
    normalise[(m,)](x, y, w, b, mean, scale, n, 1e-5, BLOCK=32, num_warps=mapping.warps)
    center = x - x.mean(1, keepdims=True, dtype=np.float64)
    by = 1 / np.sqrt((center**2).mean(1, keepdims=True) + 1e-5)
    hat = center * by
    assert np.allclose(y, hat * w + b, atol=1e-4)
    dx, dw, locks = np.zeros_like(x), np.full((groups, n), np.nan, np.float32), np.zeros(2 * groups, np.int32)
    gradients[(m,)](dx, dy, dw, x, w, mean, scale, locks, n, groups, 64, num_warps=mapping.warps)
    wdy = dy * w
    want = (wdy - (hat * (hat * wdy).mean(1, keepdims=True) + wdy.mean(1, keepdims=True))) * by
    assert np.allclose(dx, want, atol=1e-4) and np.allclose(dw.sum(0), (dy * hat).sum(0), atol=1e-3)


@triton.jit
def merge(mean, spread, count, other_mean, other_spread, other_count):
    both = count + other_count
    share = tl.where(both == 0.0, 0.0, other_count / both)
    apart = other_mean - mean
    return mean + apart * share, spread + other_spread + apart * apart * count * share, both


@triton.jit
def moments(x, means, variances, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    count = (at < n).to(tl.float32)
    mean, spread, count = tl.reduce((v, tl.zeros_like(v), count), axis=0, combine_fn=merge)
    tl.store(means + tl.program_id(0), mean)
    tl.store(variances + tl.program_id(0), spread / count)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_mean_and_variance_in_one_pass(mapping, rng):
    x = rng.standard_normal((6, 100)).astype(np.float32)
    mean, variance = np.zeros(6, np.float32), np.zeros(6, np.float32)
    moments[(6,)](x, mean, variance, 100, BLOCK=128, num_warps=mapping.warps)
    assert np.allclose(mean, x.mean(1), atol=1e-6) and np.allclose(variance, x.var(1), atol=1e-5)


# -- attention ---------------------------------------------------------------------------------------------------------


@triton.jit
def attend(state, query, keys, values, first, last, row, scale, DIAGONAL: tl.constexpr, BLOCK: tl.constexpr):
    """Goes over keys and values from ``first`` to ``last``; ``state`` is a tuple, block pointers are carried too."""
    total, most, weights = state
    keys, values = tl.advance(keys, (0, first)), tl.advance(values, (first, 0))
    for at in range(first, last, BLOCK):
        at = tl.multiple_of(at, BLOCK)
        score = tl.dot(query, tl.load(keys)) * scale
        if DIAGONAL:
            score = tl.where((row + tl.arange(0, BLOCK))[:, None] >= at + tl.arange(0, BLOCK)[None, :], score, -1.0e6)
        highest = tl.maximum(most, tl.max(score, 1))
        p = tl.math.exp2(score - highest[:, None])
        fade = tl.math.exp2(most - highest)
        weights = weights * fade + tl.sum(p, 1)
        v = tl.load(values)
        total = tl.dot(p.to(v.dtype), v, total * fade[:, None])
        most = highest
        keys, values = tl.advance(keys, (0, BLOCK)), tl.advance(values, (BLOCK, 0))
    return total, most, weights


@triton.jit
def attention(q, k, v, out, scale, N: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr):
    tl.static_assert(BLOCK <= N)
    row = tl.program_id(0) * BLOCK
    head = tl.program_id(1).to(tl.int64) * N * D
    mine = tl.load(tl.make_block_ptr(q + head, (N, D), (D, 1), (row, 0), (BLOCK, D), (1, 0)))
    keys = tl.make_block_ptr(k + head, (D, N), (1, D), (0, 0), (D, BLOCK), (0, 1))
    values = tl.make_block_ptr(v + head, (N, D), (D, 1), (0, 0), (BLOCK, D), (1, 0))
    state = (
        tl.zeros([BLOCK, D], tl.float32),
        tl.zeros([BLOCK], tl.float32) - float("inf"),
        tl.zeros([BLOCK], tl.float32),
    )
    scale *= 1.44269504
    end: tl.constexpr = N
    if CAUSAL:
        state = attend(state, mine, keys, values, 0, row, row, scale, False, BLOCK)
        state = attend(state, mine, keys, values, row, row + BLOCK, row, scale, True, BLOCK)
    else:
        state = attend(state, mine, keys, values, 0, end, row, scale, False, BLOCK)
    total, _, weights = state
    to = tl.make_block_ptr(out + head, (N, D), (D, 1), (row, 0), (BLOCK, D), (1, 0))
    tl.store(to, (total / weights[:, None]).to(out.type.element_ty))


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(mapping, causal, rng):
    heads, n, d = 2, 48, 16
    q, k, v = (rng.standard_normal((heads, n, d)).astype(np.float16) for _ in range(3))
    out = np.full((heads, n, d), np.nan, np.float16)
    attention[n // 16, heads](q, k, v, out, 0.5, n, d, 16, causal, num_warps=mapping.warps)
    s = 0.5 * q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1)
    if causal:
        s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    assert np.allclose(out, p / p.sum(-1, keepdims=True) @ v.astype(np.float64), atol=1e-2)


def test_any_alias_of_the_module(executor):
    @ton.jit
    def k(x, n, BLOCK: ton.constexpr):
        i = ton.program_id(0) * BLOCK + triton.arange(0, BLOCK)
        tl.store(x + i, tinyton.language.load(x + i, mask=i < n) * math.pi, mask=i < n)

    x = np.ones(10, np.float32)
    k[(2,)](x, 10, BLOCK=8)
    assert np.allclose(x, math.pi)
