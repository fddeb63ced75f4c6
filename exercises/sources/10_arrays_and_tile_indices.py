# %% [markdown]
# # Exercises to chapter 10
#
# To [Arrays and tile indices](../chapters/10_arrays_and_tile_indices.ipynb): tiles by their number, and padding that
# must not count.

# %% given
import numpy as np

import tinyton.tile as ct
from exercises import check, hint, solution

# %% [markdown]
# ## 10.1 A blend
#
# *Easy.* Three matrices of one shape. Write `blend`: `out = w * x + (1 - w) * y`, in tiles of `M` by `N`; the grid
# has `ct.cdiv(rows, M)` by `ct.cdiv(columns, N)` programs. `w` is a number that is passed at launch.


# %% 10.1
@ct.kernel
def blend(x, y, out, w, M: ct.Constant[int], N: ct.Constant[int]):
    ### BEGIN SOLUTION
    at = ct.bid(0), ct.bid(1)
    a = ct.load(x, index=at, shape=(M, N))
    b = ct.load(y, index=at, shape=(M, N))
    ct.store(out, index=at, tile=w * a + (1 - w) * b)
    ### END SOLUTION


# %% [markdown]
# ## 10.2 Turned over
#
# *Medium.* `out` is the transpose of `x`: as many rows as `x` has columns. Write `turn`, in tiles of `M` by `N`
# elements of `x`; the grid is that of the tiles of `x`.


# %% 10.2
@ct.kernel
def turn(x, out, M: ct.Constant[int], N: ct.Constant[int]):
    ### BEGIN SOLUTION
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, index=(i, j), shape=(M, N))
    ct.store(out, index=(j, i), tile=ct.transpose(tile))
    ### END SOLUTION


# %% [markdown]
# ## 10.3 The product of a row
#
# *Medium.* A program does a row of `x`, which has no more than `SIZE_P` columns, and stores the product of its
# elements to `out`, an array of one dimension. No padding mode has the 1 that this takes.


# %% 10.3
@ct.kernel
def products(x, out, SIZE_P: ct.Constant[int]):
    ### BEGIN SOLUTION
    row = ct.bid(0)
    tile = ct.load(x, index=(row, 0), shape=(1, SIZE_P))
    real = ct.arange(SIZE_P, dtype=ct.int32)[None, :] < x.shape[1]
    ct.store(out, index=row, tile=ct.prod(ct.where(real, tile, 1.0)))
    ### END SOLUTION


# %% [markdown]
# ## 10.4 Mean 0, variance 1
#
# *Hard.* A program does `ROWS` rows of `x`, whole: there are `SIZE` columns, and `SIZE_P` is the power of two that
# holds them. Each row becomes `(x - mean) / sqrt(variance + 1e-5)`, where the variance is the mean of the squares of
# `x - mean`. There may be a last tile with fewer than `ROWS` rows.


# %% 10.4
@ct.kernel
def standardise(x, out, SIZE: ct.Constant[int], SIZE_P: ct.Constant[int], ROWS: ct.Constant[int]):
    ### BEGIN SOLUTION
    at = ct.bid(0), 0
    tile = ct.load(x, index=at, shape=(ROWS, SIZE_P))
    mean = ct.sum(tile, axis=1, keepdims=True) / SIZE
    real = ct.arange(SIZE_P, dtype=ct.int32)[None, :] < x.shape[1]
    away = ct.where(real, tile - mean, 0.0)
    variance = ct.sum(away * away, axis=1, keepdims=True) / SIZE
    ct.store(out, index=at, tile=away / ct.sqrt(variance + 1e-5))
    ### END SOLUTION
