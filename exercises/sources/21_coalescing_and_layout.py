# %% [markdown]
# # Exercises to chapter 21
#
# To [Coalescing and layout](../chapters/21_coalescing_and_layout.ipynb): sectors, strips, and tiles that change hands.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 21.1 Touched
#
# *Easy.* A matrix of float32 lies in memory row by row, `width` elements in each; it begins at the edge of a sector of
# 32 bytes. A tile has so many `rows` and `columns`, and its first element is in row `row` and column `column` of the
# matrix. `touched(row, column, rows, columns, width)`: how many different sectors have an element of the tile?


# %% 21.1
def touched(row, column, rows, columns, width):
    ### BEGIN SOLUTION
    firsts = [(row + r) * width + column for r in range(rows)]
    return len({4 * (first + c) // 32 for first in firsts for c in range(columns)})
    ### END SOLUTION


# %% [markdown]
# ## 21.2 Down the columns
#
# *Medium.* `out[j]` is the sum of column `j` of `x`, which has so many `rows` and `columns`. A program does `BLOCK`
# columns, from the first row to the last. *No sector is loaded twice.* (It is counted at `BLOCK=32`; a tile of 16 rows
# is a good size.)


# %% 21.2
@tt.jit
def column_sums(x, out, rows, columns, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    j = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    for start in range(0, rows, 16):
        i = start + tt.arange(0, 16)[:, None]
        v = tt.load(x + i * columns + j[None, :], mask=(i < rows) & (j[None, :] < columns))
        total += tt.sum(v, 0)
    tt.store(out + j, total, mask=j < columns)
    ### END SOLUTION


# %% [markdown]
# ## 21.3 Channels first
#
# *Medium.* A camera gives pixel after pixel, each with `C` numbers; a network wants channel after channel. For image
# `b`: `out[b, c, p] = x[b, p, c] - mean[c]`. The grid is `(tt.cdiv(pixels, BLOCK), images)`. `C` may be 3, and a tile's
# extent may not: `PAD` is the next power of two. *Loads and stores use their sectors whole.* (They are counted at
# `C=3`, for 4096 pixels.)


# %% 21.3
@tt.jit
def channels_first(x, mean, out, pixels, C: tt.constexpr, PAD: tt.constexpr, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    p = (tt.program_id(0) * BLOCK + tt.arange(0, BLOCK))[:, None]
    c = tt.arange(0, PAD)[None, :]
    image, on = tt.program_id(1) * pixels * C, (p < pixels) & (c < C)
    tile = tt.load(x + image + p * C + c, mask=on) - tt.load(mean + c, mask=c < C)
    tt.store(out + image + c * pixels + p, tile, mask=on)
    ### END SOLUTION


# %% [markdown]
# ## 21.4 Both sides of the diagonal
#
# *Hard.* `out = (x + x.T) / 2` for a square matrix of `n` rows. Element (i, j) and element (j, i) need the same two
# numbers, so whoever has loaded them can write both. The grid is `(tt.cdiv(n, BLOCK), tt.cdiv(n, BLOCK))`, and a
# program may have nothing to do. *No element is loaded twice*, except in tiles on the diagonal, and no sector is
# wasted. (`tt.trans(tile)` is a tile turned round.)


# %% 21.4
@tt.jit
def symmetric(x, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    if tt.program_id(0) > tt.program_id(1):
        return
    a = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    b = tt.program_id(1) * BLOCK + tt.arange(0, BLOCK)
    here, there = a[:, None] * n + b[None, :], b[:, None] * n + a[None, :]
    on_here, on_there = (a[:, None] < n) & (b[None, :] < n), (b[:, None] < n) & (a[None, :] < n)
    u, v = tt.load(x + here, mask=on_here), tt.load(x + there, mask=on_there)
    tt.store(out + here, (u + tt.trans(v)) / 2, mask=on_here)
    tt.store(out + there, (v + tt.trans(u)) / 2, mask=on_there)
    ### END SOLUTION
