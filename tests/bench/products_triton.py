"""The kernels of products_kernels.py in Triton, for the comparison; without it they are plain functions, never called.

products.py tries them with several tiles, numbers of warps and stages."""

from __future__ import annotations

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

jit = triton.jit if triton else lambda kernel: kernel


@jit
def place(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    across = tl.cdiv(N, BN)
    group = pid // (GROUP * across)
    rows = min(tl.cdiv(M, BM) - group * GROUP, GROUP)
    inside = pid % (GROUP * across)
    return group * GROUP + inside % rows, inside // rows


@jit
def matmul(
    a, b, c, M, N, K, row_a, col_a, row_b, col_b,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr = None, TA: tl.constexpr = False, TB: tl.constexpr = False,
):  # fmt: skip
    """Rows and columns beyond the edge are read from the other end, which spares masks; pointers move on."""
    row, col = place(tl.program_id(0), M, N, BM, BN, GROUP)
    i, j, k = (row * BM + tl.arange(0, BM)) % M, (col * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    if TA:
        x = a + i[:, None] + k[None, :] * col_a
    else:
        x = a + i[:, None] * row_a + k[None, :]
    if TB:
        y = b + k[:, None] + j[None, :] * col_b
    else:
        y = b + k[:, None] * row_b + j[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        left = tl.load(x, mask=k[None, :] < K - k0, other=0)
        right = tl.load(y, mask=k[:, None] < K - k0, other=0)
        acc = tl.dot(left, right, acc, input_precision=PRECISION)
        x += BK * col_a if TA else BK
        y += BK if TB else BK * row_b
    i, j = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN)
    out = c + i[:, None] * N + j[None, :]
    tl.store(out, acc.to(c.dtype.element_ty), mask=(i[:, None] < M) & (j[None, :] < N))


@jit
def matmul_gelu(a, b, bias, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    row, col = place(tl.program_id(0), M, N, BM, BN, GROUP)
    i, j, k = (row * BM + tl.arange(0, BM)) % M, (col * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    x, y = a + i[:, None] * K + k[None, :], b + k[:, None] * N + j[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        left = tl.load(x, mask=k[None, :] < K - k0, other=0)
        right = tl.load(y, mask=k[:, None] < K - k0, other=0)
        acc = tl.dot(left, right, acc)
        x += BK
        y += BK * N
    acc += tl.load(bias + j)[None, :].to(tl.float32)
    acc = 0.5 * acc * (1 + tl.erf(acc * 0.7071067811865476))
    i, j = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN)
    out = c + i[:, None] * N + j[None, :]
    tl.store(out, acc.to(c.dtype.element_ty), mask=(i[:, None] < M) & (j[None, :] < N))


@jit
def tiles(query, k_ptr, v_ptr, i, d, low, high, most, total, acc, scale, BN: tl.constexpr, D: tl.constexpr,
          CUT: tl.constexpr):  # fmt: skip
    for n in range(low, high, BN):
        j = n + tl.arange(0, BN)
        key = tl.load(k_ptr + j[None, :] * D + d[:, None])
        s = tl.dot(query, key)
        if CUT:
            s = tl.where(j[None, :] <= i[:, None], s, float("-inf"))
        new = tl.maximum(most, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - new[:, None])
        fade = tl.exp2(most - new)
        total = total * fade + tl.sum(p, 1)
        value = tl.load(v_ptr + j[:, None] * D + d[None, :])
        acc = tl.dot(p.to(value.dtype), value, acc * fade[:, None])
        most = new
    return most, total, acc


@jit
def attention(q_ptr, k_ptr, v_ptr, out, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
              CAUSAL: tl.constexpr):  # fmt: skip
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    i, d = block * BM + tl.arange(0, BM), tl.arange(0, D)
    head = tl.program_id(1) * T * D
    query = tl.load(q_ptr + head + i[:, None] * D + d[None, :])
    most = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    k_ptr += head
    v_ptr += head
    if CAUSAL:
        most, total, acc = tiles(query, k_ptr, v_ptr, i, d, 0, block * BM, most, total, acc, scale, BN, D, False)
        first = block * BM
        most, total, acc = tiles(query, k_ptr, v_ptr, i, d, first, first + BM, most, total, acc, scale, BN, D, True)
    else:
        most, total, acc = tiles(query, k_ptr, v_ptr, i, d, 0, T, most, total, acc, scale, BN, D, False)
    tl.store(out + head + i[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty))
