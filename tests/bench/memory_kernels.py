"""Kernels that memory is the limit of, written as a reader of the book would write them."""

from __future__ import annotations

import tinyton as tt

# -- elementwise -------------------------------------------------------------------------------------------------------


@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    tt.store(out + i, tt.load(x + i, mask=mask) + tt.load(y + i, mask=mask), mask=mask)


@tt.jit
def copy(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n), mask=i < n)


@tt.jit
def gelu(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n).to(tt.float32)
    v = 0.5 * v * (1 + tt.erf(v * 0.7071067811865476))
    tt.store(out + i, v, mask=i < n)


@tt.jit
def gelu_tanh(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n).to(tt.float32)
    v = 0.5 * v * (1 + tt.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))
    tt.store(out + i, v, mask=i < n)


@tt.jit
def swiglu(gate, up, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    g = tt.load(gate + i, mask=i < n).to(tt.float32)
    tt.store(out + i, g * tt.sigmoid(g) * tt.load(up + i, mask=i < n), mask=i < n)


@tt.jit
def rope(x, cos, sin, out, heads, HEADS: tt.constexpr, HALF: tt.constexpr):
    """Turns the pairs (j, j + HALF) of each head of a token by the token's angles."""
    token, h, j = tt.program_id(0), tt.arange(0, HEADS)[:, None], tt.arange(0, HALF)[None, :]
    at, mask = (token * heads + h) * 2 * HALF + j, h < heads
    c, s = tt.load(cos + token * HALF + j), tt.load(sin + token * HALF + j)
    a = tt.load(x + at, mask=mask).to(tt.float32)
    b = tt.load(x + at + HALF, mask=mask).to(tt.float32)
    tt.store(out + at, a * c - b * s, mask=mask)
    tt.store(out + at + HALF, b * c + a * s, mask=mask)


@tt.jit
def dropout(x, out, n, p, seed, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n)
    tt.store(out + i, tt.where(tt.rand(seed, i) > p, v / (1 - p), 0.0), mask=i < n)


@tt.jit
def dropout4(x, out, n, p, seed, BLOCK: tt.constexpr):
    """The same with all four words of a counter, each for an element."""
    quarter, j = tt.program_id(0) * BLOCK // 4, tt.arange(0, BLOCK // 4)
    words = tt.rand4x(seed, quarter + j)
    for k in tt.static_range(4):
        i = 4 * quarter + k * (BLOCK // 4) + j
        v = tt.load(x + i, mask=i < n)
        tt.store(out + i, tt.where(words[k] > p, v / (1 - p), 0.0), mask=i < n)


# -- two dimensions ----------------------------------------------------------------------------------------------------


@tt.jit
def add_2d(x, y, out, rows, cols, ROWS: tt.constexpr, COLS: tt.constexpr):
    i = (tt.program_id(1) * ROWS + tt.arange(0, ROWS))[:, None]
    j = (tt.program_id(0) * COLS + tt.arange(0, COLS))[None, :]
    at, mask = i * cols + j, (i < rows) & (j < cols)
    tt.store(out + at, tt.load(x + at, mask=mask) + tt.load(y + at, mask=mask), mask=mask)


@tt.jit
def copy_2d(x, out, rows, cols, x_stride, out_stride, ROWS: tt.constexpr, COLS: tt.constexpr):
    i = (tt.program_id(1) * ROWS + tt.arange(0, ROWS))[:, None]
    j = (tt.program_id(0) * COLS + tt.arange(0, COLS))[None, :]
    mask = (i < rows) & (j < cols)
    tt.store(out + i * out_stride + j, tt.load(x + i * x_stride + j, mask=mask), mask=mask)


@tt.jit
def transpose(x, out, rows, cols, ROWS: tt.constexpr, COLS: tt.constexpr):
    i = tt.program_id(1) * ROWS + tt.arange(0, ROWS)
    j = tt.program_id(0) * COLS + tt.arange(0, COLS)
    tile = tt.load(x + i[:, None] * cols + j[None, :], mask=(i[:, None] < rows) & (j[None, :] < cols))
    tt.store(out + j[:, None] * rows + i[None, :], tt.trans(tile), mask=(j[:, None] < cols) & (i[None, :] < rows))


@tt.jit
def gather(table, index, out, cols, BLOCK: tt.constexpr):
    """Row ``index[k]`` of a table, for program k."""
    row, j = tt.load(index + tt.program_id(0)), tt.arange(0, BLOCK)
    tt.store(out + tt.program_id(0) * cols + j, tt.load(table + row * cols + j, mask=j < cols), mask=j < cols)


# -- a row a program ---------------------------------------------------------------------------------------------------


@tt.jit
def softmax(x, out, cols, BLOCK: tt.constexpr):
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    v = tt.load(x + row * cols + j, mask=j < cols, other=-float("inf")).to(tt.float32)
    e = tt.exp(v - tt.max(v, 0))
    tt.store(out + row * cols + j, e / tt.sum(e, 0), mask=j < cols)


@tt.jit
def softmax_online(x, out, cols, BLOCK: tt.constexpr, STAGES: tt.constexpr = 1):
    """A row in tiles: once to find its maximum and its sum together, once to write."""
    row, j = tt.program_id(0) * cols, tt.arange(0, BLOCK)
    top, total = -float("inf"), 0.0
    for start in tt.range(0, cols, BLOCK, num_stages=STAGES):
        v = tt.load(x + row + start + j, mask=start + j < cols, other=-float("inf")).to(tt.float32)
        higher = tt.maximum(top, tt.max(v, 0))
        total = total * tt.exp(top - higher) + tt.sum(tt.exp(v - higher), 0)
        top = higher
    for start in tt.range(0, cols, BLOCK, num_stages=STAGES):
        v = tt.load(x + row + start + j, mask=start + j < cols).to(tt.float32)
        tt.store(out + row + start + j, tt.exp(v - top) / total, mask=start + j < cols)


@tt.jit
def cross_entropy(x, target, loss, cols, BLOCK: tt.constexpr, STAGES: tt.constexpr = 1):
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    top, total = -float("inf"), 0.0
    for start in tt.range(0, cols, BLOCK, num_stages=STAGES):
        v = tt.load(x + row * cols + start + j, mask=start + j < cols, other=-float("inf")).to(tt.float32)
        higher = tt.maximum(top, tt.max(v, 0))
        total = total * tt.exp(top - higher) + tt.sum(tt.exp(v - higher), 0)
        top = higher
    picked = tt.load(x + row * cols + tt.load(target + row)).to(tt.float32)
    tt.store(loss + row, top + tt.log(total) - picked)


@tt.jit
def cumsum(x, out, cols, BLOCK: tt.constexpr):
    at, j = tt.program_id(0) * cols + tt.arange(0, BLOCK), tt.arange(0, BLOCK)
    tt.store(out + at, tt.cumsum(tt.load(x + at, mask=j < cols), 0), mask=j < cols)


# -- normalised rows ---------------------------------------------------------------------------------------------------


@tt.jit
def layernorm(x, w, b, out, mean, rstd, cols, eps, BLOCK: tt.constexpr):
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    mask = j < cols
    v = tt.load(x + row * cols + j, mask=mask).to(tt.float32)
    centre = tt.sum(v, 0) / cols
    v = tt.where(mask, v - centre, 0.0)
    scale = tt.rsqrt(tt.sum(v * v, 0) / cols + eps)
    tt.store(mean + row, centre)
    tt.store(rstd + row, scale)
    v = v * scale * tt.load(w + j, mask=mask) + tt.load(b + j, mask=mask)
    tt.store(out + row * cols + j, v, mask=mask)


@tt.jit
def layernorm_backward(dy, x, w, mean, rstd, dx, parts, rows, cols, BLOCK: tt.constexpr):
    """Rows p, p + programs, …: their dx, and what they add to dw and db, as rows 2p and 2p + 1 of ``parts``."""
    p, j = tt.program_id(0), tt.arange(0, BLOCK)
    mask = j < cols
    weight = tt.load(w + j, mask=mask).to(tt.float32)
    dw, db = tt.zeros((BLOCK,), tt.float32), tt.zeros((BLOCK,), tt.float32)
    for row in tt.range(p, rows, tt.num_programs(0), num_stages=2):
        scale = tt.load(rstd + row)
        g = tt.load(dy + row * cols + j, mask=mask).to(tt.float32)
        v = (tt.load(x + row * cols + j, mask=mask).to(tt.float32) - tt.load(mean + row)) * scale
        wg = weight * g
        d = (wg - tt.sum(wg, 0) / cols - v * (tt.sum(wg * v, 0) / cols)) * scale
        tt.store(dx + row * cols + j, d, mask=mask)
        dw += g * v
        db += g
    tt.store(parts + 2 * p * cols + j, dw, mask=mask)
    tt.store(parts + (2 * p + 1) * cols + j, db, mask=mask)


@tt.jit
def rmsnorm(x, w, out, rstd, cols, eps, BLOCK: tt.constexpr):
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    v = tt.load(x + row * cols + j, mask=j < cols).to(tt.float32)
    scale = tt.rsqrt(tt.sum(v * v, 0) / cols + eps)
    tt.store(rstd + row, scale)
    tt.store(out + row * cols + j, v * scale * tt.load(w + j, mask=j < cols), mask=j < cols)


@tt.jit
def rmsnorm_backward(dy, x, w, rstd, dx, parts, rows, cols, BLOCK: tt.constexpr):
    """As `layernorm_backward`; what the rows add to dw is row p of ``parts``."""
    p, j = tt.program_id(0), tt.arange(0, BLOCK)
    mask = j < cols
    weight = tt.load(w + j, mask=mask).to(tt.float32)
    dw = tt.zeros((BLOCK,), tt.float32)
    for row in tt.range(p, rows, tt.num_programs(0), num_stages=2):
        scale = tt.load(rstd + row)
        g = tt.load(dy + row * cols + j, mask=mask).to(tt.float32)
        v = tt.load(x + row * cols + j, mask=mask).to(tt.float32) * scale
        wg = weight * g
        tt.store(dx + row * cols + j, (wg - v * (tt.sum(wg * v, 0) / cols)) * scale, mask=mask)
        dw += g * v
    tt.store(parts + p * cols + j, dw, mask=mask)


# -- sums and counts ---------------------------------------------------------------------------------------------------


@tt.jit
def column_sum(x, out, rows, cols, share, ACC: tt.constexpr, ROWS: tt.constexpr, COLS: tt.constexpr):
    """Row q of ``out``: the sums of columns over the rows from q * share on, a multiple of ROWS."""
    q, i, j = tt.program_id(1), tt.arange(0, ROWS)[:, None], tt.program_id(0) * COLS + tt.arange(0, COLS)
    total = tt.zeros((ROWS, COLS), ACC)
    for start in range(q * share, q * share + share, ROWS):
        mask = (start + i < rows) & (j[None, :] < cols)
        total += tt.load(x + (start + i) * cols + j[None, :], mask=mask)
    tt.store(out + q * cols + j, tt.sum(total, 0), mask=j < cols)


@tt.jit
def full_sum(x, out, n, BLOCK: tt.constexpr):
    """One sum a program: of every so many tiles."""
    p, j = tt.program_id(0), tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    for start in range(p * BLOCK, n, tt.num_programs(0) * BLOCK):
        total += tt.load(x + start + j, mask=start + j < n)
    tt.store(out + p, tt.sum(total, 0))


@tt.jit
def histogram(x, out, n, BINS: tt.constexpr, BLOCK: tt.constexpr):
    """Counts of a program's tiles, as row p of ``out``."""
    p, j = tt.program_id(0), tt.arange(0, BLOCK)
    counts = tt.zeros((BINS,), tt.int32)
    for start in range(p * BLOCK, n, tt.num_programs(0) * BLOCK):
        v = tt.load(x + start + j, mask=start + j < n)
        counts += tt.histogram(v, BINS, mask=start + j < n)
    tt.store(out + p * BINS + tt.arange(0, BINS), counts)
