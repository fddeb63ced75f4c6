"""The kernels that products.py times, written the obvious way: what instructions multiply, what is copied ahead and
where, is the compiler's choice."""

import tinyton as tt


@tt.jit
def place(pid, M, N, BM: tt.constexpr, BN: tt.constexpr, GROUP: tt.constexpr):
    """The tile of a program, in an order in which programs of one time read few rows and columns."""
    across = tt.cdiv(N, BN)
    group = pid // (GROUP * across)
    rows = tt.minimum(tt.cdiv(M, BM) - group * GROUP, GROUP)
    inside = pid % (GROUP * across)
    return group * GROUP + inside % rows, inside // rows


@tt.jit
def matmul(
    a, b, c, M, N, K, row_a, col_a, row_b, col_b,
    BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr,
    PRECISION: tt.constexpr = None, SUM: tt.constexpr = tt.float32, TA: tt.constexpr = False, TB: tt.constexpr = False,
):  # fmt: skip
    """``c = a @ b`` for matrices with strides; TA and TB say which of two is 1."""
    row, col = place(tt.program_id(0), M, N, BM, BN, GROUP)
    i, j = row * BM + tt.arange(0, BM), col * BN + tt.arange(0, BN)
    acc = tt.zeros((BM, BN), SUM)
    for k0 in range(0, K, BK):
        k = k0 + tt.arange(0, BK)
        x = a + (i[:, None] + k * col_a if TA else i[:, None] * row_a + k)
        y = b + (k[:, None] + j * col_b if TB else k[:, None] * row_b + j)
        left = tt.load(x, mask=(i[:, None] < M) & (k < K), other=0)
        right = tt.load(y, mask=(k[:, None] < K) & (j < N), other=0)
        acc = tt.dot(left, right, acc, input_precision=PRECISION)
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))


@tt.jit
def matmul_gelu(a, b, bias, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr):
    """``c = gelu(a @ b + bias)``, in one pass."""
    row, col = place(tt.program_id(0), M, N, BM, BN, GROUP)
    i, j = row * BM + tt.arange(0, BM), col * BN + tt.arange(0, BN)
    acc = tt.zeros((BM, BN), tt.float32)
    for k0 in range(0, K, BK):
        k = k0 + tt.arange(0, BK)
        left = tt.load(a + i[:, None] * K + k, mask=(i[:, None] < M) & (k < K), other=0)
        right = tt.load(b + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0)
        acc = tt.dot(left, right, acc)
    acc += tt.load(bias + j, mask=j < N, other=0).to(tt.float32)
    acc = 0.5 * acc * (1 + tt.erf(acc * 0.7071067811865476))
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))


@tt.jit
def attention(q_ptr, k_ptr, v_ptr, out, T, scale, BM: tt.constexpr, BN: tt.constexpr, D: tt.constexpr,
              CAUSAL: tt.constexpr):  # fmt: skip
    """``softmax(q @ k.T * scale) @ v`` for each of grid's y heads, a tile of keys at a time. ``scale`` is times log2 of
    e, so that powers are of 2."""
    block = tt.num_programs(0) - 1 - tt.program_id(0) if CAUSAL else tt.program_id(0)  # the longest begin first
    i, d = block * BM + tt.arange(0, BM), tt.arange(0, D)
    head = tt.program_id(1) * T * D
    query = tt.load(q_ptr + head + i[:, None] * D + d)
    most = tt.full((BM,), float("-inf"), tt.float32)
    total = tt.zeros((BM,), tt.float32)
    acc = tt.zeros((BM, D), tt.float32)
    for n in range(0, block * BM if CAUSAL else T, BN):
        j = n + tt.arange(0, BN)
        key, value = tt.load(k_ptr + head + j[:, None] * D + d), tt.load(v_ptr + head + j[:, None] * D + d)
        s = tt.dot(query, key.T)
        new = tt.maximum(most, tt.max(s, 1) * scale)
        p = tt.exp2(s * scale - new[:, None])
        fade = tt.exp2(most - new)
        total = total * fade + tt.sum(p, 1)
        acc = tt.dot(p.to(key.dtype), value, acc * fade[:, None])
        most = new
    if CAUSAL:
        for n in range(block * BM, (block + 1) * BM, BN):  # the tiles that the diagonal cuts
            j = n + tt.arange(0, BN)
            key, value = tt.load(k_ptr + head + j[:, None] * D + d), tt.load(v_ptr + head + j[:, None] * D + d)
            s = tt.where(j[None, :] <= i[:, None], tt.dot(query, key.T), float("-inf"))
            new = tt.maximum(most, tt.max(s, 1) * scale)
            p = tt.exp2(s * scale - new[:, None])
            fade = tt.exp2(most - new)
            total = total * fade + tt.sum(p, 1)
            acc = tt.dot(p.to(key.dtype), value, acc * fade[:, None])
            most = new
    tt.store(out + head + i[:, None] * D + d, acc / total[:, None])
