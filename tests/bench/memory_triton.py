"""The kernels of memory_kernels.py in Triton, for the comparison; without it they are plain functions, never called.

memory.py tries them with several numbers of warps, shapes of tiles and stages of the pipelines of their loops."""

from __future__ import annotations

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

jit = triton.jit if triton else lambda kernel: kernel

# -- elementwise -------------------------------------------------------------------------------------------------------


@jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


@jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=offs < n)


@jit
def gelu_tanh(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """0.5 (1 + tanh u) is the sigmoid of 2u, and Triton has that one."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + offs, x * tl.sigmoid(2 * u), mask=offs < n)


@jit
def swiglu(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + offs, mask=offs < n).to(tl.float32)
    up = tl.load(up_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, gate * tl.sigmoid(gate) * up, mask=offs < n)


@jit
def rope(x_ptr, cos_ptr, sin_ptr, out_ptr, heads, HEADS: tl.constexpr, HALF: tl.constexpr):
    token = tl.program_id(0)
    head = tl.arange(0, HEADS)[:, None]
    col = tl.arange(0, HALF)[None, :]
    mask = head < heads
    cos = tl.load(cos_ptr + token * HALF + col).to(tl.float32)
    sin = tl.load(sin_ptr + token * HALF + col).to(tl.float32)
    low = (token * heads + head) * (2 * HALF) + col
    high = low + HALF
    a = tl.load(x_ptr + low, mask=mask).to(tl.float32)
    b = tl.load(x_ptr + high, mask=mask).to(tl.float32)
    tl.store(out_ptr + low, a * cos - b * sin, mask=mask)
    tl.store(out_ptr + high, b * cos + a * sin, mask=mask)


@jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, tl.where(tl.rand(seed, offs) > p, x / (1 - p), 0.0), mask=offs < n)


@jit
def keep(x_ptr, out_ptr, offs, n, p, chance):
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, tl.where(chance > p, x / (1 - p), 0.0), mask=offs < n)


@jit
def dropout4(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    QUARTER: tl.constexpr = BLOCK // 4
    lane = tl.arange(0, QUARTER)
    a, b, c, d = tl.rand4x(seed, tl.program_id(0) * QUARTER + lane)
    offs = tl.program_id(0) * BLOCK + lane
    keep(x_ptr, out_ptr, offs, n, p, a)
    keep(x_ptr, out_ptr, offs + QUARTER, n, p, b)
    keep(x_ptr, out_ptr, offs + 2 * QUARTER, n, p, c)
    keep(x_ptr, out_ptr, offs + 3 * QUARTER, n, p, d)


# -- two dimensions ----------------------------------------------------------------------------------------------------


@jit
def add_2d(x_ptr, y_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    offs = row * cols + col
    mask = (row < rows) & (col < cols)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


@jit
def copy_2d(x_ptr, out_ptr, rows, cols, x_stride, out_stride, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    mask = (row < rows) & (col < cols)
    tl.store(out_ptr + row * out_stride + col, tl.load(x_ptr + row * x_stride + col, mask=mask), mask=mask)


@jit
def transpose(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    mask = (row[:, None] < rows) & (col[None, :] < cols)
    tile = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=mask)
    mask = (col[:, None] < cols) & (row[None, :] < rows)
    tl.store(out_ptr + col[:, None] * rows + row[None, :], tl.trans(tile), mask=mask)


@jit
def gather(table_ptr, index_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    row = tl.load(index_ptr + program)
    x = tl.load(table_ptr + row * cols + col, mask=col < cols)
    tl.store(out_ptr + program * cols + col, x, mask=col < cols)


# -- a row a program ---------------------------------------------------------------------------------------------------


@jit
def softmax(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    x = tl.load(x_ptr + offs, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + offs, e / tl.sum(e, axis=0), mask=mask)


@jit
def softmax_online(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0) * cols
    top = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + col, mask=col < cols, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), axis=0)
        top = higher
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + col, mask=col < cols).to(tl.float32)
        tl.store(out_ptr + row + col, tl.exp(x - top) / total, mask=col < cols)


@jit
def cross_entropy(x_ptr, target_ptr, loss_ptr, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0)
    base = x_ptr + row * cols
    top = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(base + col, mask=col < cols, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), axis=0)
        top = higher
    picked = tl.load(base + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(loss_ptr + row, top + tl.log(total) - picked)


@jit
def cumsum(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    tl.store(out_ptr + offs, tl.cumsum(tl.load(x_ptr + offs, mask=mask, other=0.0), axis=0), mask=mask)


# -- normalised rows ---------------------------------------------------------------------------------------------------


@jit
def layernorm(x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, rstd_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < cols
    x = tl.load(x_ptr + row * cols + col, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + col, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + col, mask=mask).to(tl.float32)
    mean = tl.sum(x, axis=0) / cols
    x = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    tl.store(out_ptr + row * cols + col, x * rstd * w + b, mask=mask)


@jit
def layernorm_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, parts_ptr, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    program = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < cols
    w = tl.load(w_ptr + col, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(program, rows, tl.num_programs(0), num_stages=STAGES):
        offs = row * cols + col
        dy = tl.load(dy_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x = (x - tl.load(mean_ptr + row)) * rstd
        wdy = w * dy
        a = tl.sum(wdy * x, axis=0) / cols
        b = tl.sum(wdy, axis=0) / cols
        tl.store(dx_ptr + offs, (wdy - b - x * a) * rstd, mask=mask)
        dw += dy * x
        db += dy
    tl.store(parts_ptr + 2 * program * cols + col, dw, mask=mask)
    tl.store(parts_ptr + (2 * program + 1) * cols + col, db, mask=mask)


@jit
def rmsnorm(x_ptr, w_ptr, out_ptr, rstd_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < cols
    x = tl.load(x_ptr + row * cols + col, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + col, mask=mask).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(out_ptr + row * cols + col, x * rstd * w, mask=mask)


@jit
def rmsnorm_backward(
    dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, parts_ptr, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    program = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < cols
    w = tl.load(w_ptr + col, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(program, rows, tl.num_programs(0), num_stages=STAGES):
        offs = row * cols + col
        dy = tl.load(dy_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x = x * rstd
        wdy = w * dy
        a = tl.sum(wdy * x, axis=0) / cols
        tl.store(dx_ptr + offs, (wdy - x * a) * rstd, mask=mask)
        dw += dy * x
    tl.store(parts_ptr + program * cols + col, dw, mask=mask)


# -- sums and counts ---------------------------------------------------------------------------------------------------


@jit
def column_sum(
    x_ptr, out_ptr, rows, cols, share, ACC: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr
):
    part = tl.program_id(1)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros((ROWS, COLS), ACC)
    for start in tl.range(part * share, part * share + share, ROWS, num_stages=STAGES):
        row = start + tl.arange(0, ROWS)[:, None]
        mask = (row < rows) & (col[None, :] < cols)
        total += tl.load(x_ptr + row * cols + col[None, :], mask=mask, other=0)
    tl.store(out_ptr + part * cols + col, tl.sum(total, axis=0), mask=col < cols)


@jit
def full_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    program = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(program * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=STAGES):
        offs = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + program, tl.sum(total, axis=0))


@jit
def histogram(x_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    counts = tl.zeros((BINS,), tl.int32)
    for start in tl.range(program * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n, other=0)
        counts += tl.histogram(x, BINS, mask=offs < n)
    tl.store(out_ptr + program * BINS + tl.arange(0, BINS), counts)
