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
    PRECISION: tl.constexpr = None, TA: tl.constexpr = False, TB: tl.constexpr = False, FULL: tl.constexpr = False,
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
        if FULL:
            acc += tl.dot(left, right, input_precision=PRECISION)
        else:
            acc = tl.dot(left, right, acc, input_precision=PRECISION)
        x += BK * col_a if TA else BK
        y += BK if TB else BK * row_b
    i, j = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN)
    out = c + i[:, None] * N + j[None, :]
    tl.store(out, acc.to(c.dtype.element_ty), mask=(i[:, None] < M) & (j[None, :] < N))


@jit
def sums(a, b, i, j, M, N, K, low, high, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    k = low + tl.arange(0, BK)
    x, y = a + (i % M)[:, None] * K + k[None, :], b + k[:, None] * N + (j % N)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    k = tl.arange(0, BK)
    for k0 in range(low, high, BK):
        left = tl.load(x, mask=k[None, :] < high - k0, other=0)
        right = tl.load(y, mask=k[:, None] < high - k0, other=0)
        acc = tl.dot(left, right, acc)
        x += BK
        y += BK * N
    return acc


@jit
def matmul_gelu(a, b, bias, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    row, col = place(tl.program_id(0), M, N, BM, BN, GROUP)
    i, j = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN)
    acc = sums(a, b, i, j, M, N, K, 0, K, BM, BN, BK)
    acc += tl.load(bias + j % N)[None, :].to(tl.float32)
    acc = 0.5 * acc * (1 + tl.erf(acc * 0.7071067811865476))
    at = c + i[:, None] * N + j[None, :]
    tl.store(at, acc.to(c.dtype.element_ty), mask=(i[:, None] < M) & (j[None, :] < N))


@jit
def one_tile(a, b, c, tile, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    row, col = place(tile, M, N, BM, BN, GROUP)
    i, j = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN)
    acc = sums(a, b, i, j, M, N, K, 0, K, BM, BN, BK)
    at = c + i[:, None] * N + j[None, :]
    tl.store(at, acc.to(c.dtype.element_ty), mask=(i[:, None] < M) & (j[None, :] < N))


@jit
def batched(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    n = tl.program_id(1)
    one_tile(a + n * M * K, b + n * K * N, c + n * M * N, tl.program_id(0), M, N, K, BM, BN, BK, GROUP)


@jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0), flatten=True):
        one_tile(a, b, c, tile, M, N, K, BM, BN, BK, GROUP)


@jit
def grouped(a, b, c, table, problems, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tile = tl.program_id(0)
    for p in range(problems):
        M, N, K = tl.load(table + 6 * p), tl.load(table + 6 * p + 1), tl.load(table + 6 * p + 2)
        x, y, z = tl.load(table + 6 * p + 3), tl.load(table + 6 * p + 4), tl.load(table + 6 * p + 5)
        N, K = tl.multiple_of(N, 16), tl.multiple_of(K, 16)
        x, y, z = tl.multiple_of(x, 16), tl.multiple_of(y, 16), tl.multiple_of(z, 16)
        tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
        for t in range(tile, tiles, tl.num_programs(0)):
            one_tile(a + x, b + y, c + z, t, M, N, K, BM, BN, BK, GROUP)
        tile += tl.cdiv(tl.maximum(tiles - tile, 0), tl.num_programs(0)) * tl.num_programs(0) - tiles


@jit
def split(a, b, parts, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    row, col = place(tl.program_id(0), M, N, BM, BN, GROUP)
    n, i, j = tl.program_id(1), row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN)
    share = tl.cdiv(tl.cdiv(K, BK), tl.num_programs(1)) * BK
    acc = sums(a, b, i, j, M, N, K, n * share, tl.minimum((n + 1) * share, K), BM, BN, BK)
    tl.store(parts + n * M * N + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))


@jit
def add_parts(parts, out, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for p in tl.static_range(PARTS):
        acc += tl.load(parts + p * n + i, mask=i < n, other=0)
    tl.store(out + i, acc.to(out.dtype.element_ty), mask=i < n)


@jit
def fill_zeros(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.zeros((BLOCK,), x.dtype.element_ty), mask=i < n)


@jit
def stream_k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    rounds = tl.cdiv(K, BK)
    total = tl.cdiv(M, BM) * tl.cdiv(N, BN) * rounds
    share = tl.cdiv(total, tl.num_programs(0))
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, total)
    for tile in range(begin // rounds, tl.cdiv(end, rounds)):
        first, last = tl.maximum(begin - tile * rounds, 0), tl.minimum(end - tile * rounds, rounds)
        row, col = place(tile, M, N, BM, BN, GROUP)
        i, j = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN)
        acc = sums(a, b, i, j, M, N, K, first * BK, tl.minimum(last * BK, K), BM, BN, BK)
        at, on = c + i[:, None] * N + j[None, :], (i[:, None] < M) & (j[None, :] < N)
        if last - first == rounds:
            tl.store(at, acc, mask=on)
        else:
            tl.atomic_add(at, acc, mask=on, sem="relaxed")


@jit
def conv(
    x, w, scale, bias, out, CO, pixels,
    H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr,
    S: tl.constexpr, STRIDE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    row, col = place(tl.program_id(0), pixels, CO, BM, BN, GROUP)
    p, o = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN)
    picture, top, left = p // (OH * OW), p // OW % OH * STRIDE - S // 2, p % OW * STRIDE - S // 2
    acc = tl.zeros((BM, BN), tl.float32)
    rounds: tl.constexpr = (S * C + BK - 1) // BK
    for t in range(S * rounds):
        dy, k = t // rounds, t % rounds * BK + tl.arange(0, BK)
        if S == 1 and STRIDE == 1:
            here = tl.load(x + p[:, None] * C + k[None, :], mask=(p[:, None] < pixels) & (k[None, :] < C), other=0)
        else:
            y, z = top[:, None] + dy, left[:, None] * C + k[None, :]
            seen = (p[:, None] < pixels) & (y >= 0) & (y < H) & (z >= 0) & (z < W * C) & (k[None, :] < S * C)
            here = tl.load(x + (picture[:, None] * H + y) * W * C + z, mask=seen, other=0)
        at = w + ((o % CO)[None, :] * S + dy) * S * C + k[:, None]
        acc = tl.dot(here, tl.load(at, mask=k[:, None] < S * C, other=0), acc)
    acc = acc * tl.load(scale + o % CO)[None, :] + tl.load(bias + o % CO)[None, :]
    acc *= tl.sigmoid(acc)
    at = out + p[:, None] * CO + o[None, :]
    tl.store(at, acc.to(out.dtype.element_ty), mask=(p[:, None] < pixels) & (o[None, :] < CO))


@jit
def chain(a, b, c, out, M, L, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    i, d, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    mine = tl.load(a + (i % M)[:, None] * D + d[None, :])
    x, y = b + d[:, None] * L + j[None, :], c + j[:, None] * D + d[None, :]
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, L, BN):
        part = tl.dot(mine, tl.load(x, mask=j[None, :] < L - n, other=0))
        right = tl.load(y, mask=j[:, None] < L - n, other=0)
        acc = tl.dot(part.to(right.dtype), right, acc)
        x += BN
        y += BN * D
    tl.store(out + i[:, None] * D + d[None, :], acc.to(out.dtype.element_ty), mask=i[:, None] < M)


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
def attention(q_ptr, k_ptr, v_ptr, out, lse, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
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
    if lse is not None:
        tl.store(lse + tl.program_id(1) * T + i, most + tl.log2(total))


@jit
def row_dots(x, y, out, COLS: tl.constexpr, ROWS: tl.constexpr):
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    at = i[:, None] * COLS + j[None, :]
    tl.store(out + i, tl.sum(tl.load(x + at).to(tl.float32) * tl.load(y + at).to(tl.float32), 1))


@jit
def some_queries(q_ptr, do_ptr, lse, delta, key, value, j, d, low, high, dk, dv, scale, BN: tl.constexpr,
                 D: tl.constexpr, CUT: tl.constexpr):  # fmt: skip
    n = low + tl.arange(0, BN)
    query_t, grad_at = q_ptr + n[None, :] * D + d[:, None], do_ptr + n[:, None] * D + d[None, :]
    for n in range(low, high, BN):
        i = n + tl.arange(0, BN)
        query = tl.load(query_t)
        p = tl.exp2(tl.dot(key, query) * scale - tl.load(lse + i)[None, :])
        if CUT:
            p = tl.where(j[:, None] <= i[None, :], p, 0.0)
        grad = tl.load(grad_at)
        dv = tl.dot(p.to(grad.dtype), grad, dv)
        ds = p * (tl.dot(value, tl.trans(grad)) - tl.load(delta + i)[None, :])
        dk = tl.dot(ds.to(query.dtype), tl.trans(query), dk)
        query_t += BN * D
        grad_at += BN * D
    return dk, dv


@jit
def attention_dkdv(q_ptr, k_ptr, v_ptr, do_ptr, lse, delta, dk_ptr, dv_ptr, T, scale, BM: tl.constexpr,
                   BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    first, head = tl.program_id(0) * BM, tl.program_id(1) * T
    j, d = first + tl.arange(0, BM), tl.arange(0, D)
    at = head * D + j[:, None] * D + d[None, :]
    key, value = tl.load(k_ptr + at), tl.load(v_ptr + at)
    dk, dv = tl.zeros((BM, D), tl.float32), tl.zeros((BM, D), tl.float32)
    q_ptr += head * D
    do_ptr += head * D
    lse += head
    delta += head
    low = first + BM if CAUSAL else 0
    if CAUSAL:
        dk, dv = some_queries(q_ptr, do_ptr, lse, delta, key, value, j, d, first, low, dk, dv, scale, BN, D, True)
    dk, dv = some_queries(q_ptr, do_ptr, lse, delta, key, value, j, d, low, T, dk, dv, scale, BN, D, False)
    tl.store(dk_ptr + at, (dk * (scale * 0.6931471805599453)).to(dk_ptr.dtype.element_ty))
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty))


@jit
def some_keys(k_ptr, v_ptr, query, grad, total, delta, i, d, low, high, dq, scale, BN: tl.constexpr, D: tl.constexpr,
              CUT: tl.constexpr):  # fmt: skip
    n = low + tl.arange(0, BN)
    key_t, value_t = k_ptr + n[None, :] * D + d[:, None], v_ptr + n[None, :] * D + d[:, None]
    for n in range(low, high, BN):
        j = n + tl.arange(0, BN)
        key, value = tl.load(key_t), tl.load(value_t)
        p = tl.exp2(tl.dot(query, key) * scale - total[:, None])
        if CUT:
            p = tl.where(j[None, :] <= i[:, None], p, 0.0)
        ds = p * (tl.dot(grad, value) - delta[:, None])
        dq = tl.dot(ds.to(key.dtype), tl.trans(key), dq)
        key_t += BN * D
        value_t += BN * D
    return dq


@jit
def attention_dq(q_ptr, k_ptr, v_ptr, do_ptr, lse, delta, dq_ptr, T, scale, BM: tl.constexpr, BN: tl.constexpr,
                 D: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    first, head = block * BM, tl.program_id(1) * T
    i, d = first + tl.arange(0, BM), tl.arange(0, D)
    at = head * D + i[:, None] * D + d[None, :]
    query, grad = tl.load(q_ptr + at), tl.load(do_ptr + at)
    total, change = tl.load(lse + head + i), tl.load(delta + head + i)
    dq = tl.zeros((BM, D), tl.float32)
    k_ptr += head * D
    v_ptr += head * D
    high = first if CAUSAL else T
    dq = some_keys(k_ptr, v_ptr, query, grad, total, change, i, d, 0, high, dq, scale, BN, D, False)
    if CAUSAL:
        dq = some_keys(k_ptr, v_ptr, query, grad, total, change, i, d, high, high + BM, dq, scale, BN, D, True)
    tl.store(dq_ptr + at, (dq * (scale * 0.6931471805599453)).to(dq_ptr.dtype.element_ty))
