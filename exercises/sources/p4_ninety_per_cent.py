# %% [markdown]
# # Project IV: ninety per cent of the roof
#
# For part IV. Three kernels that are right. But each of them moves several times as many sectors as its task
# needs, and on a GPU it would take several times as long. Write them anew, so that the least that must move is at
# least ninety per cent of what they move: every input read once, every output written once, in whole sectors. The
# grid, the arguments and the constants stay as they are.
#
# `tt.count(kernel, grid, *args, **meta)` counts, and `tt.viz.access` shows who touches what.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## P4.1 Grey
#
# `x` has `n` pixels of three numbers each: red, green, blue, red, green, blue, … `out[i]` is 0.3, 0.6 and 0.1 times the
# three of pixel `i`, added up. A program does `BLOCK` pixels, on a grid of `tt.cdiv(n, BLOCK)`.


# %% P4.1
@tt.jit
def grey(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    red = tt.load(x + 3 * i, mask=i < n)
    green = tt.load(x + 3 * i + 1, mask=i < n)
    blue = tt.load(x + 3 * i + 2, mask=i < n)
    tt.store(out + i, 0.3 * red + 0.6 * green + 0.1 * blue, mask=i < n)


### BEGIN SOLUTION
@tt.jit
def grey(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    colour = tt.arange(0, 4)
    weight = tt.where(colour == 0, 0.3, tt.where(colour == 1, 0.6, 0.1))
    inside = (i < n)[:, None] & (colour < 3)[None, :]
    v = tt.load(x + 3 * i[:, None] + colour[None, :], mask=inside)
    tt.store(out + i, tt.sum(v * weight[None, :], 1), mask=i < n)


### END SOLUTION

# %% [markdown]
# ## P4.2 Columns of mean 0
#
# `x` has `rows` rows of `cols` numbers, and is to be standardised by *column*: from each number its column's mean is
# subtracted, and what is left is divided by the square root of the column's variance plus 0.00001. A program does
# `BN` columns, on a grid of `tt.cdiv(cols, BN)`; `ROWS` is a power of two and at least `rows`.


# %% P4.2
@tt.jit
def standardise(x, out, rows, cols, ROWS: tt.constexpr, BN: tt.constexpr):
    i = tt.arange(0, ROWS)
    for k in range(BN):
        column = tt.program_id(0) * BN + k
        inside = (i < rows) & (column < cols)
        v = tt.load(x + i * cols + column, mask=inside)
        d = tt.where(inside, v - tt.sum(v, 0) / rows, 0.0)
        tt.store(out + i * cols + column, d / tt.sqrt(tt.sum(d * d, 0) / rows + 1e-5), mask=inside)


### BEGIN SOLUTION
@tt.jit
def standardise(x, out, rows, cols, ROWS: tt.constexpr, BN: tt.constexpr):
    i, j = tt.arange(0, ROWS)[:, None], tt.program_id(0) * BN + tt.arange(0, BN)[None, :]
    inside = (i < rows) & (j < cols)
    v = tt.load(x + i * cols + j, mask=inside)
    d = tt.where(inside, v - tt.sum(v, 0)[None, :] / rows, 0.0)
    scale = 1.0 / tt.sqrt(tt.sum(d * d, 0) / rows + 1e-5)
    tt.store(out + i * cols + j, d * scale[None, :], mask=inside)


### END SOLUTION

# %% [markdown]
# ## P4.3 A blur
#
# Every number of a matrix becomes the mean of itself, the one above and the one below: `(above + here + below) / 3`,
# added in this order; what is outside of the matrix is 0. A program walks down through `BN` columns, on a grid of
# `tt.cdiv(cols, BN)`. Each row is loaded three times. What a program has seen, it could keep.


# %% P4.3
@tt.jit
def blur(x, out, rows, cols, BN: tt.constexpr):
    j = tt.program_id(0) * BN + tt.arange(0, BN)
    for i in range(rows):
        above = tt.load(x + (i - 1) * cols + j, mask=(j < cols) & (i > 0))
        here = tt.load(x + i * cols + j, mask=j < cols)
        below = tt.load(x + (i + 1) * cols + j, mask=(j < cols) & (i + 1 < rows))
        tt.store(out + i * cols + j, (above + here + below) / 3, mask=j < cols)


### BEGIN SOLUTION
@tt.jit
def blur(x, out, rows, cols, BN: tt.constexpr):
    j = tt.program_id(0) * BN + tt.arange(0, BN)
    above, here = tt.zeros((BN,), tt.float32), tt.load(x + j, mask=j < cols)
    for i in range(rows):
        below = tt.load(x + (i + 1) * cols + j, mask=(j < cols) & (i + 1 < rows))
        tt.store(out + i * cols + j, (above + here + below) / 3, mask=j < cols)
        above, here = here, below


### END SOLUTION
