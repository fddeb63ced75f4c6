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
    FULL: tt.constexpr = False,
):  # fmt: skip
    """``c = a @ b`` for matrices with strides; TA and TB say which of two is 1. FULL: sums of what is multiplied in a
    round are added up by themselves."""
    row, col = place(tt.program_id(0), M, N, BM, BN, GROUP)
    i, j = row * BM + tt.arange(0, BM), col * BN + tt.arange(0, BN)
    acc = tt.zeros((BM, BN), SUM)
    for k0 in range(0, K, BK):
        k = k0 + tt.arange(0, BK)
        x = a + (i[:, None] + k * col_a if TA else i[:, None] * row_a + k)
        y = b + (k[:, None] + j * col_b if TB else k[:, None] * row_b + j)
        left = tt.load(x, mask=(i[:, None] < M) & (k < K), other=0)
        right = tt.load(y, mask=(k[:, None] < K) & (j < N), other=0)
        if FULL:
            acc += tt.dot(left, right, input_precision=PRECISION)
        else:
            acc = tt.dot(left, right, acc, input_precision=PRECISION)
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))


@tt.jit
def sums(a, b, i, j, M, N, K, low, high, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    """Rows i of a [M, K] times columns j of b [K, N]; of the K products of each, those from ``low`` to ``high``, which
    is K or as many BKs away."""
    acc = tt.zeros((BM, BN), tt.float32)
    for k0 in range(low, high, BK):
        k = k0 + tt.arange(0, BK)
        left = tt.load(a + i[:, None] * K + k, mask=(i[:, None] < M) & (k < K), other=0)
        right = tt.load(b + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0)
        acc = tt.dot(left, right, acc)
    return acc


@tt.jit
def matmul_gelu(a, b, bias, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr):
    """``c = gelu(a @ b + bias)``, in one pass."""
    row, col = place(tt.program_id(0), M, N, BM, BN, GROUP)
    i, j = row * BM + tt.arange(0, BM), col * BN + tt.arange(0, BN)
    acc = sums(a, b, i, j, M, N, K, 0, K, BM, BN, BK)
    acc += tt.load(bias + j, mask=j < N, other=0).to(tt.float32)
    acc = 0.5 * acc * (1 + tt.erf(acc * 0.7071067811865476))
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))


@tt.jit
def one_tile(a, b, c, tile, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr):
    row, col = place(tile, M, N, BM, BN, GROUP)
    i, j = row * BM + tt.arange(0, BM), col * BN + tt.arange(0, BN)
    acc = sums(a, b, i, j, M, N, K, 0, K, BM, BN, BK)
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))


@tt.jit
def batched(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr):
    """``c[n] = a[n] @ b[n]`` for each of grid's y matrices."""
    n = tt.program_id(1)
    one_tile(a + n * M * K, b + n * K * N, c + n * M * N, tt.program_id(0), M, N, K, BM, BN, BK, GROUP)


@tt.jit
def persistent(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr):
    """``c = a @ b`` by as many programs as there is room for, which go from tile to tile."""
    for tile in range(tt.program_id(0), tt.cdiv(M, BM) * tt.cdiv(N, BN), tt.num_programs(0)):
        one_tile(a, b, c, tile, M, N, K, BM, BN, BK, GROUP)


@tt.jit
def grouped(a, b, c, table, problems, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr):
    """A list of products, one after the other; of each, ``table`` has M, N, K, and where its matrices begin in a, b and
    c. All but M are multiples of 16. What is over of a problem's last wave goes on with the next problem."""
    tile = tt.program_id(0)
    for p in range(problems):
        M, N, K = tt.load(table + 6 * p), tt.load(table + 6 * p + 1), tt.load(table + 6 * p + 2)
        x, y, z = tt.load(table + 6 * p + 3), tt.load(table + 6 * p + 4), tt.load(table + 6 * p + 5)
        N, K = tt.multiple_of(N, 16), tt.multiple_of(K, 16)
        x, y, z = tt.multiple_of(x, 16), tt.multiple_of(y, 16), tt.multiple_of(z, 16)
        tiles = tt.cdiv(M, BM) * tt.cdiv(N, BN)
        for t in range(tile, tiles, tt.num_programs(0)):
            one_tile(a + x, b + y, c + z, t, M, N, K, BM, BN, BK, GROUP)
        tile += tt.cdiv(tt.maximum(tiles - tile, 0), tt.num_programs(0)) * tt.num_programs(0) - tiles


@tt.jit
def split(a, b, parts, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr):
    """``parts[n]``, float32: the share of grid's y-th programs in ``a @ b``, an equal part of the K products."""
    row, col = place(tt.program_id(0), M, N, BM, BN, GROUP)
    n, i, j = tt.program_id(1), row * BM + tt.arange(0, BM), col * BN + tt.arange(0, BN)
    share = tt.cdiv(tt.cdiv(K, BK), tt.num_programs(1)) * BK
    acc = sums(a, b, i, j, M, N, K, n * share, tt.minimum((n + 1) * share, K), BM, BN, BK)
    tt.store(parts + n * M * N + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))


@tt.jit
def add_parts(parts, out, n, PARTS: tt.constexpr, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    acc = tt.zeros((BLOCK,), tt.float32)
    for p in tt.static_range(PARTS):
        acc += tt.load(parts + p * n + i, mask=i < n, other=0)
    tt.store(out + i, acc, mask=i < n)


@tt.jit
def fill_zeros(x, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(x + i, tt.zeros((BLOCK,), x.dtype.element_ty), mask=i < n)


@tt.jit
def stream_k(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr):
    """``c += a @ b``, in float32. Rounds of all tiles are dealt out evenly, so that no program waits for the last ones;
    a tile that several programs have a part of is added up in memory. (Osama, Merrill et al., *Stream-K*, 2023.)"""
    rounds = tt.cdiv(K, BK)
    total = tt.cdiv(M, BM) * tt.cdiv(N, BN) * rounds
    share = tt.cdiv(total, tt.num_programs(0))
    begin = tt.program_id(0) * share
    end = tt.minimum(begin + share, total)
    for tile in range(begin // rounds, tt.cdiv(end, rounds)):
        first, last = tt.maximum(begin - tile * rounds, 0), tt.minimum(end - tile * rounds, rounds)
        row, col = place(tile, M, N, BM, BN, GROUP)
        i, j = row * BM + tt.arange(0, BM), col * BN + tt.arange(0, BN)
        acc = sums(a, b, i, j, M, N, K, first * BK, tt.minimum(last * BK, K), BM, BN, BK)
        at, on = c + i[:, None] * N + j, (i[:, None] < M) & (j < N)
        if last - first == rounds:
            tt.store(at, acc, mask=on)
        else:
            tt.atomic_add(at, acc, mask=on)


@tt.jit
def conv(
    x, w, scale, bias, out, CO, pixels,
    H: tt.constexpr, W: tt.constexpr, OH: tt.constexpr, OW: tt.constexpr, C: tt.constexpr,
    S: tt.constexpr, STRIDE: tt.constexpr,
    BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, GROUP: tt.constexpr,
):  # fmt: skip
    """``out = silu(conv(x, w) * scale + bias)`` of pictures [N, H, W, C], for a window of S by S, in the order of w
    [CO, S, S, C]: a product of pixels that are looked up and of w as it lies. ``pixels``: of all pictures that come
    out, N * OH * OW."""
    row, col = place(tt.program_id(0), pixels, CO, BM, BN, GROUP)
    p, o = row * BM + tt.arange(0, BM), col * BN + tt.arange(0, BN)
    q = p.to(tt.uint32)  # which is quicker to divide
    top, left = (q // OW % OH).to(tt.int32) * STRIDE - S // 2, (q % OW).to(tt.int32) * STRIDE - S // 2
    start = x + (((q // (OH * OW)).to(tt.int32) * H + top) * W + left) * C  # what the window's first place has
    acc = tt.zeros((BM, BN), tt.float32)
    rounds = tt.cdiv(S * C, BK)
    for t in range(S * rounds):
        dy, k = t // rounds, t % rounds * BK + tt.arange(0, BK)  # a row of the window: of the picture, it is one piece
        if S == 1 and STRIDE == 1:  # the picture is the matrix
            here = tt.load(x + p[:, None] * C + k, mask=(p[:, None] < pixels) & (k < C), other=0)
        else:
            y, z = top[:, None] + dy, left[:, None] * C + k
            seen = (p[:, None] < pixels) & (y.to(tt.uint32) < H) & (z >= 0) & (z < W * C) & (k < S * C)
            here = tt.load(start[:, None] + dy * (W * C) + k, mask=seen, other=0)
        at = w + (o[:, None] * S + dy) * S * C + k
        acc = tt.dot(here, tt.load(at, mask=(o[:, None] < CO) & (k < S * C), other=0).T, acc)
    acc = acc * tt.load(scale + o, mask=o < CO, other=0) + tt.load(bias + o, mask=o < CO, other=0)
    tt.store(out + p[:, None] * CO + o, acc * tt.sigmoid(acc), mask=(p[:, None] < pixels) & (o < CO))


@tt.jit
def scale_silu(x, scale, bias, out, n, C: tt.constexpr, BLOCK: tt.constexpr):
    """What `conv` ends with, for what another one has left."""
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n).to(tt.float32) * tt.load(scale + i % C) + tt.load(bias + i % C)
    tt.store(out + i, v * tt.sigmoid(v), mask=i < n)


@tt.jit
def chain(a, b, c, out, M, L, BM: tt.constexpr, BN: tt.constexpr, D: tt.constexpr):
    """``out = (a @ b) @ c``: a tile of the middle, BN columns of L, is made, multiplied and forgotten."""
    i, d = tt.program_id(0) * BM + tt.arange(0, BM), tt.arange(0, D)
    mine = tt.load(a + i[:, None] * D + d, mask=i[:, None] < M, other=0)
    acc = tt.zeros((BM, D), tt.float32)
    for n in range(0, L, BN):
        j = n + tt.arange(0, BN)
        part = tt.dot(mine, tt.load(b + d[:, None] * L + j, mask=j < L, other=0))
        acc = tt.dot(part.to(c.dtype.element_ty), tt.load(c + j[:, None] * D + d, mask=j[:, None] < L, other=0), acc)
    tt.store(out + i[:, None] * D + d, acc, mask=i[:, None] < M)


@tt.jit
def attention(q_ptr, k_ptr, v_ptr, out, lse, T, scale, BM: tt.constexpr, BN: tt.constexpr, D: tt.constexpr,
              CAUSAL: tt.constexpr):  # fmt: skip
    """``softmax(q @ k.T * scale) @ v`` for each of grid's y heads, a tile of keys at a time. ``scale`` is times log2 of
    e, so that powers are of 2. ``lse``, if it is not None: log2 of each row's total, for the way back."""
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
        p = tt.exp2(tt.fma(s, scale, -new[:, None]))
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
            p = tt.exp2(tt.fma(s, scale, -new[:, None]))
            fade = tt.exp2(most - new)
            total = total * fade + tt.sum(p, 1)
            acc = tt.dot(p.to(key.dtype), value, acc * fade[:, None])
            most = new
    tt.store(out + head + i[:, None] * D + d, acc / total[:, None])
    if lse is not None:
        tt.store(lse + tt.program_id(1) * T + i, most + tt.log2(total))


@tt.jit
def row_dots(x, y, out, COLS: tt.constexpr, ROWS: tt.constexpr):
    """Of each row of x with that of y."""
    i, j = tt.program_id(0) * ROWS + tt.arange(0, ROWS), tt.arange(0, COLS)
    at = i[:, None] * COLS + j
    tt.store(out + i, tt.sum(tt.load(x + at).to(tt.float32) * tt.load(y + at).to(tt.float32), 1))


@tt.jit
def some_queries(
    q_ptr, do_ptr, lse, delta, key, value, j, low, high, dk, dv, scale,
    BN: tt.constexpr, D: tt.constexpr, CUT: tt.constexpr,
):  # fmt: skip
    d = tt.arange(0, D)
    for n in range(low, high, BN):
        i = n + tt.arange(0, BN)
        query, grad = tt.load(q_ptr + i[:, None] * D + d), tt.load(do_ptr + i[:, None] * D + d)
        s, dp = tt.dot(key, query.T), tt.dot(value, grad.T)
        p = tt.exp2(tt.fma(s, scale, -tt.load(lse + i)))
        if CUT:
            p = tt.where(j[:, None] <= i, p, 0.0)
        dv = tt.dot(p.to(grad.dtype), grad, dv)
        ds = p * (dp - tt.load(delta + i))
        dk = tt.dot(ds.to(query.dtype), query, dk)
    return dk, dv


@tt.jit
def attention_dkdv(
    q_ptr, k_ptr, v_ptr, do_ptr, lse, delta, dk_ptr, dv_ptr, T, scale,
    BM: tt.constexpr, BN: tt.constexpr, D: tt.constexpr, CAUSAL: tt.constexpr,
):  # fmt: skip
    """Gradients of BM keys and their values: from all queries that see them, BN at a time."""
    first, head = tt.program_id(0) * BM, tt.program_id(1) * T
    j, d = first + tt.arange(0, BM), tt.arange(0, D)
    at = head * D + j[:, None] * D + d
    key, value = tt.load(k_ptr + at), tt.load(v_ptr + at)
    dk, dv = tt.zeros((BM, D), tt.float32), tt.zeros((BM, D), tt.float32)
    queries, grads, lse, delta = q_ptr + head * D, do_ptr + head * D, lse + head, delta + head
    low = first + BM if CAUSAL else 0
    if CAUSAL:  # the tiles that the diagonal cuts
        dk, dv = some_queries(queries, grads, lse, delta, key, value, j, first, low, dk, dv, scale, BN, D, True)
    dk, dv = some_queries(queries, grads, lse, delta, key, value, j, low, T, dk, dv, scale, BN, D, False)
    tt.store(dk_ptr + at, dk * (scale * 0.6931471805599453))
    tt.store(dv_ptr + at, dv)


@tt.jit
def some_keys(
    k_ptr, v_ptr, query, grad, total, delta, i, low, high, dq, scale,
    BN: tt.constexpr, D: tt.constexpr, CUT: tt.constexpr,
):  # fmt: skip
    d = tt.arange(0, D)
    for n in range(low, high, BN):
        j = n + tt.arange(0, BN)
        key, value = tt.load(k_ptr + j[:, None] * D + d), tt.load(v_ptr + j[:, None] * D + d)
        s, dp = tt.dot(query, key.T), tt.dot(grad, value.T)
        p = tt.exp2(tt.fma(s, scale, -total[:, None]))
        if CUT:
            p = tt.where(j <= i[:, None], p, 0.0)
        ds = p * (dp - delta[:, None])
        dq = tt.dot(ds.to(key.dtype), key, dq)
    return dq


@tt.jit
def attention_dq(
    q_ptr, k_ptr, v_ptr, do_ptr, lse, delta, dq_ptr, T, scale,
    BM: tt.constexpr, BN: tt.constexpr, D: tt.constexpr, CAUSAL: tt.constexpr,
):  # fmt: skip
    """Gradients of BM queries: from all keys that they see, BN at a time."""
    block = tt.num_programs(0) - 1 - tt.program_id(0) if CAUSAL else tt.program_id(0)
    first, head = block * BM, tt.program_id(1) * T
    i, d = first + tt.arange(0, BM), tt.arange(0, D)
    at = head * D + i[:, None] * D + d
    query, grad = tt.load(q_ptr + at), tt.load(do_ptr + at)
    total, delta = tt.load(lse + head + i), tt.load(delta + head + i)
    dq = tt.zeros((BM, D), tt.float32)
    keys, values, high = k_ptr + head * D, v_ptr + head * D, first if CAUSAL else T
    dq = some_keys(keys, values, query, grad, total, delta, i, 0, high, dq, scale, BN, D, False)
    if CAUSAL:
        dq = some_keys(keys, values, query, grad, total, delta, i, high, high + BM, dq, scale, BN, D, True)
    tt.store(dq_ptr + at, dq * (scale * 0.6931471805599453))
