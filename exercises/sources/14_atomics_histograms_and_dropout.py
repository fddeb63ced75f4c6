# %% [markdown]
# # Exercises to chapter 14
#
# To [Atomics, histograms and dropout](../chapters/14_atomics_histograms_and_dropout.ipynb): shared places, random
# numbers without a state.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 14.1 How many are above?
#
# *Easy.* Write `above`: it *adds* to `count[0]` how many of the first `n` elements of `x` are greater than `limit`
# (which may be negative). A program goes to the shared place once.


# %% 14.1
@tt.jit
def above(x, count, n, limit, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    found = (tt.load(x + i, mask=i < n) > limit) & (i < n)
    tt.atomic_add(count, tt.sum(found.to(tt.int32)))
    ### END SOLUTION


# %% [markdown]
# ## 14.2 A histogram of floats
#
# *Medium.* Write `spread`: it adds to `bins[k]` how many of the first `n` elements of `x` are from `low + k *
# width` to below `low + (k + 1) * width`, for each of `BINS` bins. What is in no bin is not counted. (To be exact:
# element `v` is in bin `floor((v - low) / width)`, computed in float32.) The grid can be anything, and a program
# goes to each shared place once.


# %% 14.2
@tt.jit
def spread(x, bins, n, low, width, BINS: tt.constexpr, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    counts = tt.zeros(BINS, tt.int32)
    for start in range(tt.program_id(0) * BLOCK, n, tt.num_programs(0) * BLOCK):
        i = start + tt.arange(0, BLOCK)
        v = tt.load(x + i, mask=i < n)
        k = tt.floor((v - low) / width).to(tt.int32)
        counts += tt.histogram(k, BINS, mask=i < n)
    tt.atomic_add(bins + tt.arange(0, BINS), counts)
    ### END SOLUTION


# %% [markdown]
# ## 14.3 Whole columns
#
# *Medium.* Some networks drop a *feature* for all samples at once. Write `drop_columns`: `x` is a matrix, stored
# row by row. Column `j` is kept if `tt.rand(seed, j)` is at least `p`; then it is divided by `1 - p`. Otherwise it
# is 0. The grid is `(rows, tt.cdiv(columns, BLOCK))`.


# %% 14.3
@tt.jit
def drop_columns(x, out, columns, p, seed, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row = tt.program_id(0)
    j = tt.program_id(1) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + row * columns + j, mask=j < columns)
    kept = tt.rand(seed, j) >= p
    tt.store(out + row * columns + j, tt.where(kept, v / (1 - p), 0.0), mask=j < columns)
    ### END SOLUTION


# %% [markdown]
# ## 14.4 The last one adds up
#
# *Hard.* A sum of many tiles in *one* launch, and always in the same order: every program leaves the sum of its
# tile in `parts`, at its own number. Then it takes a ticket from `counter[0]`, which starts at 0. The one that gets
# the last ticket knows that all parts are there: it adds them up, and writes `out[0]`. There are at most `PROGRAMS`
# programs, which is a power of two. (An atomic operation also makes sure that what a program has written before is
# seen by who comes after.)


# %% 14.4
@tt.jit
def total(x, parts, counter, out, n, PROGRAMS: tt.constexpr, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(parts + tt.program_id(0), tt.sum(tt.load(x + i, mask=i < n)))
    ticket = tt.atomic_add(counter, 1)
    if ticket == tt.num_programs(0) - 1:
        k = tt.arange(0, PROGRAMS)
        tt.store(out, tt.sum(tt.load(parts + k, mask=k < tt.num_programs(0))))
    ### END SOLUTION
