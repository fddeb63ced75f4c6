# %% [markdown]
# # Exercises to chapter 2
#
# To [A tile, not a thread](../chapters/02_a_tile_not_a_thread.ipynb): programs, tiles, masks.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 2.1 A line
#
# *Easy.* Write `saxpy`: `out = a * x + y`, for the first `n` elements of each array. `a` is a number that is passed
# at launch. The kernel is launched over `tt.cdiv(n, BLOCK)` programs, and `n` is hardly ever a multiple of `BLOCK`.


# %% 2.1
@tt.jit
def saxpy(a, x, y, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    line = a * tt.load(x + i, mask=mask) + tt.load(y + i, mask=mask)
    tt.store(out + i, line, mask=mask)
    ### END SOLUTION


# %% [markdown]
# ## 2.2 Backwards
#
# *Easy.* Write `reverse`: `out[0]` is the last of the `n` elements of `x`, and `out[n - 1]` the first. Both arrays
# have exactly `n` elements.


# %% 2.2
@tt.jit
def reverse(x, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    tt.store(out + n - 1 - i, tt.load(x + i, mask=mask), mask=mask)
    ### END SOLUTION


# %% [markdown]
# ## 2.3 A number for each column
#
# *Medium.* `x` is a matrix, stored row by row, and `bias` has a number for each of its columns. Write `add_bias`:
# every row gets `bias` added to it. The grid has two axes, `rows` times `tt.cdiv(columns, BLOCK)` programs, so that a
# program does a piece of one row.


# %% 2.3
@tt.jit
def add_bias(x, bias, out, columns, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row = tt.program_id(0)
    j = tt.program_id(1) * BLOCK + tt.arange(0, BLOCK)
    mask = j < columns
    i = row * columns + j
    tt.store(out + i, tt.load(x + i, mask=mask) + tt.load(bias + j, mask=mask), mask=mask)
    ### END SOLUTION


# %% [markdown]
# ## 2.4 With the neighbours
#
# *Hard.* Smooth a signal: `out[i]` is the mean of `x[i - 1]`, `x[i]` and `x[i + 1]`, or of those of them that exist:
# the first and the last element have one neighbour only (`n` is at least 2). Add them up from left to right, then
# divide.


# %% 2.4
@tt.jit
def smooth(x, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    left = mask & (i > 0)
    right = i < n - 1
    total = tt.load(x + i - 1, mask=left) + tt.load(x + i, mask=mask) + tt.load(x + i + 1, mask=right)
    count = 1 + left.to(tt.float32) + right.to(tt.float32)
    tt.store(out + i, total / count, mask=mask)
    ### END SOLUTION
