# %% [markdown]
# # Exercises to chapter 13
#
# To [Reductions and scans](../chapters/13_reductions_and_scans.ipynb): order, error, running sums.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 13.1 Means of long rows
#
# *Easy.* Write `means`: `out[r]` is the mean of row `r` of the matrix `x`, which has rows of `n` floats. A program
# does a row, which may be longer than `BLOCK`.


# %% 13.1
@tt.jit
def means(x, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    sums = tt.zeros(BLOCK, tt.float32)
    for start in range(0, n, BLOCK):
        sums += tt.load(x + row * n + start + j, mask=start + j < n)
    tt.store(out + row, tt.sum(sums) / n)
    ### END SOLUTION


# %% [markdown]
# ## 13.2 Nothing is lost
#
# *Medium.* Write `steady`: `out[r]` is the sum of row `r`, in float32. In each row there is one number that is
# large, and thousands that are so small beside it that an addition of one of them changes nothing. All of them
# together do. Carry a tile of sums over the row, and another one of what was lost. (`n` is a multiple of `BLOCK`.
# No float64.)


# %% 13.2
@tt.jit
def steady(x, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    sums = tt.zeros(BLOCK, tt.float32)
    lost = tt.zeros(BLOCK, tt.float32)
    for start in range(0, n, BLOCK):
        v = tt.load(x + row * n + start + j) - lost
        new = sums + v
        lost = (new - sums) - v
        sums = new
    tt.store(out + row, tt.sum(sums))
    ### END SOLUTION


# %% [markdown]
# ## 13.3 Highest so far
#
# *Medium.* Write `highest`: element `i` of a row of `out` is the greatest of elements 0 to `i` of that row of `x`.
# A program does a row of `n` floats, tile after tile. `tt.associative_scan(tile, 0, fn)` is a running combination
# by a function `fn` of two numbers, under `@tt.jit`; `larger` is there.


# %% given
@tt.jit
def larger(a, b):
    return tt.maximum(a, b)


# %% 13.3
@tt.jit
def highest(x, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    before = -float("inf")
    for start in range(0, n, BLOCK):
        at = row * n + start + j
        v = tt.load(x + at, mask=start + j < n, other=-float("inf"))
        running = tt.maximum(tt.associative_scan(v, 0, larger), before)
        tt.store(out + at, running, mask=start + j < n)
        before = tt.max(running)
    ### END SOLUTION


# %% [markdown]
# ## 13.4 Mean and variance, in one go
#
# *Hard.* Write `moments`: `mean[r]` and `variance[r]` of row `r` (the mean of the squared distances from the mean),
# in float32, for rows of `n` floats that may be longer than `BLOCK`. *Load every element once.* The numbers are
# near 1000, and their variance near 1: the mean of the squares less the square of the mean is of no use, both are a
# million. Take mean and sum of squared distances of each tile, and merge them with those of the tiles before: of
# two groups with counts $a$ and $b$, means that differ by $d$, and sums of squared distances $p$ and $q$, the mean
# is the first one plus $d \cdot b / (a + b)$, and the sum of squared distances is $p + q + d^2 \cdot a b / (a +
# b)$.


# %% 13.4
@tt.jit
def moments(x, mean, variance, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    count, centre, squares = 0.0, 0.0, 0.0
    for start in range(0, n, BLOCK):
        on = start + j < n
        v = tt.load(x + row * n + start + j, mask=on)
        b = tt.sum(on.to(tt.float32))
        middle = tt.sum(v) / b
        apart = tt.where(on, v - middle, 0.0)
        d = middle - centre
        squares += tt.sum(apart * apart) + d * d * count * b / (count + b)
        centre += d * b / (count + b)
        count += b
    tt.store(mean + row, centre)
    tt.store(variance + row, squares / count)
    ### END SOLUTION
