# %% [markdown]
# # Project I: five wrong kernels
#
# For part I. Each of these kernels was once right, or nearly so, for the one size that somebody tried. Find what is
# wrong, and mend it where it stands, or write it anew below (the check takes the last definition of a name). The
# interpreter sees more than a GPU does: `with tt.backends.use("interpreter"):`.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## P1.1 The end of a line
#
# `add` is to add `n` numbers, and to leave what is behind them alone.


# %% P1.1
@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i <= n
    tt.store(out + i, tt.load(x + i, mask=mask) + tt.load(y + i, mask=mask), mask=mask)


### BEGIN SOLUTION
@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    tt.store(out + i, tt.load(x + i, mask=mask) + tt.load(y + i, mask=mask), mask=mask)


### END SOLUTION

# %% [markdown]
# ## P1.2 The smaller of two
#
# `out[i]` is to be the smaller one of `x[i]` and `x[i + 1]`; the last element has nobody on its right and stays as it
# is. With negative numbers it works.


# %% P1.2
@tt.jit
def smaller(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    here = tt.load(x + i, mask=i < n)
    right = tt.load(x + i + 1, mask=i < n - 1)
    tt.store(out + i, tt.minimum(here, right), mask=i < n)


### BEGIN SOLUTION
@tt.jit
def smaller(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    here = tt.load(x + i, mask=i < n)
    right = tt.load(x + i + 1, mask=i < n - 1, other=float("inf"))
    tt.store(out + i, tt.minimum(here, right), mask=i < n)


### END SOLUTION

# %% [markdown]
# ## P1.3 Row by row
#
# `scale_rows` is to multiply each row of a matrix by a number of its own. The grid is `rows` by `tt.cdiv(columns,
# BLOCK)`. It works for 64 columns, with `BLOCK=64`.


# %% P1.3
@tt.jit
def scale_rows(x, factor, out, columns, BLOCK: tt.constexpr):
    row, piece = tt.program_id(0), tt.program_id(1)
    j = tt.arange(0, BLOCK)
    at = (row + piece) * BLOCK + j
    mask = j < columns
    tt.store(out + at, tt.load(factor + row) * tt.load(x + at, mask=mask), mask=mask)


### BEGIN SOLUTION
@tt.jit
def scale_rows(x, factor, out, columns, BLOCK: tt.constexpr):
    row, piece = tt.program_id(0), tt.program_id(1)
    j = piece * BLOCK + tt.arange(0, BLOCK)
    at = row * columns + j
    mask = j < columns
    tt.store(out + at, tt.load(factor + row) * tt.load(x + at, mask=mask), mask=mask)


### END SOLUTION

# %% [markdown]
# ## P1.4 All together, one step to the left
#
# `rotate` is to move everything by one: `out[i]` is `x[i + 1]`, and the last one is `x[0]`. With one program it is
# right every time, with many it is right most of the time.


# %% P1.4
@tt.jit
def rotate(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    tt.store(out + i, tt.load(x + i, mask=mask), mask=mask)
    next_one = tt.load(out + (i + 1) % n, mask=mask)
    tt.store(out + i, next_one, mask=mask)


### BEGIN SOLUTION
@tt.jit
def rotate(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    tt.store(out + i, tt.load(x + (i + 1) % n, mask=mask), mask=mask)


### END SOLUTION

# %% [markdown]
# ## P1.5 Two into one
#
# `interleave` is to write `x[0], y[0], x[1], y[1], …` to `out`, which has `2 * n` elements. Half of a tile is from
# `x`, half from `y`. It is wrong in two places.


# %% P1.5
@tt.jit
def interleave(x, y, out, n, BLOCK: tt.constexpr):
    k = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    i = k // 2
    even = k % 2 == 0
    mask = i < 2 * n
    from_x = tt.load(x + i, mask=mask & even)
    from_y = tt.load(y + i, mask=mask & ~even)
    tt.store(out + i, tt.where(even, from_x, from_y), mask=mask)


### BEGIN SOLUTION
@tt.jit
def interleave(x, y, out, n, BLOCK: tt.constexpr):
    k = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    i = k // 2
    even = k % 2 == 0
    mask = k < 2 * n
    from_x = tt.load(x + i, mask=mask & even)
    from_y = tt.load(y + i, mask=mask & ~even)
    tt.store(out + k, tt.where(even, from_x, from_y), mask=mask)


### END SOLUTION
