# %% [markdown]
# # Exercises to chapter 11
#
# To [Softmax, from five launches to one](../chapters/11_softmax.ipynb): rows that are read once, and rows that come
# in tiles.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 11.1 Log-softmax
#
# *Easy.* `out` is the logarithm of the softmax of each row of `x`. A program does a row of `cols` elements, `BLOCK`
# is a power of two that holds it. The logarithm of a softmax is not how to compute it: in a row of 0 and 200 the 0
# has a softmax of 0 in float32, and a log-softmax of -200. Each element is to be read once.


# %% 11.1
@tt.jit
def log_softmax(x, out, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    v = tt.load(x + row * cols + j, mask=j < cols, other=-float("inf"))
    v = v - tt.max(v, 0)
    lse = tt.log(tt.sum(tt.exp(v), 0))
    tt.store(out + row * cols + j, v - lse, mask=j < cols)
    ### END SOLUTION


# %% [markdown]
# ## 11.2 Only what came before
#
# *Medium.* `x` is square, `n` by `n`. Row i of `out` is the softmax of the first i + 1 elements of row i of `x`;
# the rest of the row is 0. (That is how a language model is kept from looking ahead.) Load no element that a row
# may not see. A program does a row, `BLOCK` holds it.


# %% 11.2
@tt.jit
def causal_softmax(x, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    v = tt.load(x + row * n + j, mask=j <= row, other=-float("inf"))
    e = tt.exp(v - tt.max(v, 0))
    tt.store(out + row * n + j, e / tt.sum(e, 0), mask=j < n)
    ### END SOLUTION


# %% [markdown]
# ## 11.3 Tiles of nothing
#
# *Hard.* Where scores are masked they are -infinity, and a row may begin with whole tiles of it. `softmax_online`
# of the chapter makes NaN of such a row. Write it so that it does not. A row of nothing but -infinity shall give
# zeros. Rows are of any length, tiles of `BLOCK`.


# %% 11.3
@tt.jit
def softmax_masked(x, out, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0) * cols, tt.arange(0, BLOCK)
    top, total = -float("inf"), 0.0
    for start in range(0, cols, BLOCK):
        v = tt.load(x + row + start + j, mask=start + j < cols, other=-float("inf"))
        higher = tt.maximum(top, tt.max(v, 0))
        base = tt.where(higher == -float("inf"), 0.0, higher)
        total = total * tt.exp(top - base) + tt.sum(tt.exp(v - base), 0)
        top = higher
    base = tt.where(top == -float("inf"), 0.0, top)
    divisor = tt.where(total == 0.0, 1.0, total)
    for start in range(0, cols, BLOCK):
        v = tt.load(x + row + start + j, mask=start + j < cols)
        tt.store(out + row + start + j, tt.exp(v - base) / divisor, mask=start + j < cols)
    ### END SOLUTION


# %% [markdown]
# ## 11.4 Several programs to a row
#
# *Hard.* Few long rows do not fill a card. So let `SPLIT` programs, a power of two, share a row. Two kernels:
#
# - `row_parts`, over a grid of rows by `SPLIT`. Program (r, s) looks at `share` elements of row r, those from `s *
#   share` on (the last parts of a row may have fewer, or none), in tiles of `BLOCK`. It stores their maximum and
#   their sum of `exp(v - maximum)` as element `r * SPLIT + s` of `tops` and `totals`.
# - `row_finish`, over a grid of rows by `cdiv(cols, BLOCK)`. Program (r, k) merges the `SPLIT` pairs of its row and
#   writes tile k of the row's softmax.


# %% 11.4
@tt.jit
def row_parts(x, tops, totals, cols, share, SPLIT: tt.constexpr, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, part, j = tt.program_id(0), tt.program_id(1), tt.arange(0, BLOCK)
    end = tt.minimum(part * share + share, cols)
    top, total = -float("inf"), 0.0
    for start in range(part * share, end, BLOCK):
        v = tt.load(x + row * cols + start + j, mask=start + j < end, other=-float("inf"))
        higher = tt.maximum(top, tt.max(v, 0))
        total = total * tt.exp(top - higher) + tt.sum(tt.exp(v - higher), 0)
        top = higher
    tt.store(tops + row * SPLIT + part, top)
    tt.store(totals + row * SPLIT + part, total)
    ### END SOLUTION


@tt.jit
def row_finish(x, tops, totals, out, cols, SPLIT: tt.constexpr, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, s = tt.program_id(0), tt.arange(0, SPLIT)
    each = tt.load(tops + row * SPLIT + s)
    top = tt.max(each, 0)
    total = tt.sum(tt.load(totals + row * SPLIT + s) * tt.exp(each - top), 0)
    j = tt.program_id(1) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + row * cols + j, mask=j < cols)
    tt.store(out + row * cols + j, tt.exp(v - top) / total, mask=j < cols)
    ### END SOLUTION
