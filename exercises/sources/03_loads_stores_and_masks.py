# %% [markdown]
# # Exercises to chapter 3
#
# To [Loads, stores and masks](../chapters/03_loads_stores_and_masks.ipynb): addresses, what is off, sectors.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 3.1 Shifted
#
# *Easy.* Write `shift`: `out[i]` is `x[i - by]` if there is such an element, and 0 if there is none. Both arrays
# have `n` elements; `by` may be negative, and it may be larger than `n`.


# %% 3.1
@tt.jit
def shift(x, out, n, by, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    there = (i < n) & (i - by >= 0) & (i - by < n)
    tt.store(out + i, tt.load(x + i - by, mask=there), mask=i < n)
    ### END SOLUTION


# %% [markdown]
# ## 3.2 Ragged rows
#
# *Medium.* Rows of different lengths lie one after the other in `values`: row `r` has `lengths[r]` elements, from
# `starts[r]` on. Write `greatest`: `out[r]` is the greatest element of row `r`, or minus infinity if it has none. A
# program does a row; no row is longer than `BLOCK`.


# %% 3.2
@tt.jit
def greatest(values, starts, lengths, out, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    on = j < tt.load(lengths + row)
    x = tt.load(values + tt.load(starts + row) + j, mask=on, other=-float("inf"))
    tt.store(out + row, tt.max(x))
    ### END SOLUTION


# %% [markdown]
# ## 3.3 Rows by number
#
# *Medium.* `table` is a matrix of so many `columns`, stored row by row, and `ids` has numbers of rows of it. Write
# `pick`: row `r` of `out` is row `ids[r]` of the table, or zeros where `ids[r]` is -1. The grid is `(len(ids),
# tt.cdiv(columns, BLOCK))`: a program does a piece of one row.


# %% 3.3
@tt.jit
def pick(table, ids, out, columns, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row = tt.program_id(0)
    j = tt.program_id(1) * BLOCK + tt.arange(0, BLOCK)
    number, mask = tt.load(ids + row), j < columns
    x = tt.load(table + number * columns + j, mask=mask & (number >= 0))
    tt.store(out + row * columns + j, x, mask=mask)
    ### END SOLUTION


# %% [markdown]
# ## 3.4 From points to planes
#
# *Hard.* `points` has four numbers for each of `n` points: x, y, z, w, x, y, z, w, … Write `planes`: `out` gets all
# x, then all y, all z and all w, each `n` numbers long. A program does `BLOCK` points. It is easy to do with four
# loads and four stores. But each of the four loads has a stride of 4, and touches four times as many sectors as it
# has floats for: so *load every sector once, and store every sector once*. (It is counted at `n = 4096`, and
# `BLOCK` = 256.) A tile may have two dimensions.


# %% 3.4
@tt.jit
def planes(points, out, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = (tt.program_id(0) * BLOCK + tt.arange(0, BLOCK))[:, None]
    k = tt.arange(0, 4)[None, :]
    tile = tt.load(points + 4 * i + k, mask=i < n)
    tt.store(out + k * n + i, tile, mask=i < n)
    ### END SOLUTION
