# %% [markdown]
# # Exercises to chapter 12
#
# To [RMSNorm and LayerNorm](../chapters/12_norms.ipynb): rows that are normalised, and sums over rows.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 12.1 In halves
#
# *Easy.* RMSNorm of rows of float16, with weights that are stored as what they differ from 1: `out = x /
# sqrt(mean(x * x) + eps) * (1 + w)`. All arrays are float16, `eps` is a number. A program does a row of `cols`
# elements, `BLOCK` holds it. An element may be as large as 1000.


# %% 12.1
@tt.jit
def rmsnorm_half(x, w, out, cols, eps, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    v = tt.load(x + row * cols + j, mask=j < cols).to(tt.float32)
    scale = tt.rsqrt(tt.sum(v * v, 0) / cols + eps)
    weight = 1 + tt.load(w + j, mask=j < cols).to(tt.float32)
    tt.store(out + row * cols + j, v * scale * weight, mask=j < cols)
    ### END SOLUTION


# %% [markdown]
# ## 12.2 Add and normalise
#
# *Medium.* Between layers a model adds and then normalises: `h = x + residual`, and `out` is the RMSNorm of `h`
# with weights `w` (and an epsilon of 1e-5). Both are wanted. One launch, a program a row; `x` and `residual` are
# read once, and nothing else but `w` is read.


# %% 12.2
@tt.jit
def add_rmsnorm(x, residual, w, h, out, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    at, mask = row * cols + j, j < cols
    v = tt.load(x + at, mask=mask) + tt.load(residual + at, mask=mask)
    tt.store(h + at, v, mask=mask)
    scale = tt.rsqrt(tt.sum(v * v, 0) / cols + 1e-5)
    tt.store(out + at, v * scale * tt.load(w + j, mask=mask), mask=mask)
    ### END SOLUTION


# %% [markdown]
# ## 12.3 What a row passes on
#
# *Medium.* The gradient of LayerNorm for its input. `mean` and `rstd` hold a row's mean and `1 / s`, as the forward
# kernel of the chapter stores them. A program does a row.


# %% 12.3
@tt.jit
def layernorm_dx(dy, x, w, mean, rstd, dx, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    mask = j < cols
    scale = tt.load(rstd + row)
    g = tt.load(dy + row * cols + j, mask=mask) * tt.load(w + j, mask=mask)
    v = (tt.load(x + row * cols + j, mask=mask) - tt.load(mean + row)) * scale
    d = (g - tt.sum(g, 0) / cols - v * (tt.sum(g * v, 0) / cols)) * scale
    tt.store(dx + row * cols + j, d, mask=mask)
    ### END SOLUTION


# %% [markdown]
# ## 12.4 Means of columns
#
# *Hard.* The mean of each column of `x`, in two stages.
#
# - `part_sums`, over a grid of as many programs as there are rows of `parts`: program p adds up the rows p, p + P,
#   ... of `x` and stores the sums as row p of `parts`. `BLOCK` holds a row. No element is loaded twice.
# - `column_means`, over a grid of `cdiv(cols, COLS)`: a program adds up `COLS` columns of the `P` rows of `parts`,
#   in tiles of `ROWS` by `COLS`, and stores the means of these columns of `x`, which has `rows` rows.


# %% 12.4
@tt.jit
def part_sums(x, parts, rows, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    p, j = tt.program_id(0), tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    for row in range(p, rows, tt.num_programs(0)):
        total += tt.load(x + row * cols + j, mask=j < cols)
    tt.store(parts + p * cols + j, total, mask=j < cols)
    ### END SOLUTION


@tt.jit
def column_means(parts, out, P, rows, cols, ROWS: tt.constexpr, COLS: tt.constexpr):
    ### BEGIN SOLUTION
    i, j = tt.arange(0, ROWS)[:, None], tt.program_id(0) * COLS + tt.arange(0, COLS)
    total = tt.zeros((ROWS, COLS), tt.float32)
    for start in range(0, P, ROWS):
        mask = (start + i < P) & (j[None, :] < cols)
        total += tt.load(parts + (start + i) * cols + j[None, :], mask=mask)
    tt.store(out + j, tt.sum(total, 0) / rows, mask=j < cols)
    ### END SOLUTION
