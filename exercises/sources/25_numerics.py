# %% [markdown]
# # Exercises to chapter 25
#
# To [Numerics](../chapters/25_numerics.ipynb): how far apart numbers are, and how to lose nothing on the way to a sum.

# %% given
import math

import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 25.1 The next number
#
# *Easy.* Write `gap(x, fraction, lowest)`: how far it is from the positive number `x` of a format to the next larger
# number of that format, as a float. The format's fraction has `fraction` bits. Its smallest normal number is
# `2.0**lowest`; below that, numbers stay as far apart as they are just above it. (`math.frexp(x)` gives `m` and `e`
# with $x = m \cdot 2^e$ and $0.5 \le m < 1$.)


# %% 25.1
def gap(x, fraction, lowest):
    ### BEGIN SOLUTION
    _, e = math.frexp(x)
    return 2.0 ** (max(e - 1, lowest) - fraction)
    ### END SOLUTION


# %% [markdown]
# ## 25.2 Products of short numbers
#
# *Medium.* `x` and `y` are matrices of float16 with `cols` columns. Write `row_dots`: `out[row]`, a float32, is the sum
# of the products of row `row` of both. Rows may be longer than a tile, and products larger than 65,504. The result must
# be as good as float32 can make it.


# %% 25.2
@tt.jit
def row_dots(x, y, out, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0) * cols, tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    for start in range(0, cols, BLOCK):
        a = tt.load(x + row + start + j, mask=start + j < cols).to(tt.float32)
        b = tt.load(y + row + start + j, mask=start + j < cols).to(tt.float32)
        total += a * b
    tt.store(out + tt.program_id(0), tt.sum(total, 0))
    ### END SOLUTION


# %% [markdown]
# ## 25.3 The variance of a long row
#
# *Medium.* Write `row_variance`: `out[row]` is the variance of row `row` of the float32 matrix `x`, the mean of the
# squared distances from the mean. Rows may be longer than a tile, and their mean may be thousands of times as large as
# their standard deviation.


# %% 25.3
@tt.jit
def row_variance(x, out, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0) * cols, tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    for start in range(0, cols, BLOCK):
        total += tt.load(x + row + start + j, mask=start + j < cols)
    mean = tt.sum(total, 0) / cols
    squares = tt.zeros((BLOCK,), tt.float32)
    for start in range(0, cols, BLOCK):
        distance = tt.load(x + row + start + j, mask=start + j < cols) - mean
        squares += tt.where(start + j < cols, distance * distance, 0.0)
    tt.store(out + tt.program_id(0), tt.sum(squares, 0) / cols)
    ### END SOLUTION


# %% [markdown]
# ## 25.4 A sum that remembers
#
# *Hard.* `out[j]` is the sum of column `j` of `x`, added up from the first of its `rows` rows to the last, by a lane of
# its own. All is float32, no float64 anywhere, and the result must be right to the last digit or two of float32, though
# there are thousands of small numbers after a large one.
#
# Keep beside each total what it has lost. If `new = total + term`, what has arrived of the term is `new - total`, and
# what was lost is the rest. Add that to the *next* term before you add the term. (W. Kahan, 1965. A compiler that
# simplified `(total + term) - total` to `term` would spoil it; ours does not.)


# %% 25.4
@tt.jit
def column_sums(x, out, rows, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    j = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    total, lost = tt.zeros((BLOCK,), tt.float32), tt.zeros((BLOCK,), tt.float32)
    for k in range(rows):
        term = tt.load(x + k * cols + j, mask=j < cols) + lost
        new = total + term
        lost = term - (new - total)
        total = new
    tt.store(out + j, total, mask=j < cols)
    ### END SOLUTION
