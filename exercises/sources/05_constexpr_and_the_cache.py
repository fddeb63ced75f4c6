# %% [markdown]
# # Exercises to chapter 5
#
# To [constexpr and the cache](../chapters/05_constexpr_and_the_cache.ipynb): values that are baked in, kernels that
# are compiled once, and what a warp does with too few threads. The cache's key is a [project](p2_three_rooms.ipynb).

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 5.1 Rows with mean zero
#
# *Easy.* A program does one row of `N` numbers; `BLOCK` is at least `N`. Write `centre`: each row minus its mean.
# (There are `tt.sum` and `tt.reduce_sum`, which give one number for a tile.)


# %% 5.1
@tt.jit
def centre(src, dst, N, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.arange(0, BLOCK)
    mask = i < N
    row = tt.program_id(0) * N
    x = tt.load(src + row + i, mask=mask)
    tt.store(dst + row + i, x - tt.reduce_sum(x) / N, mask=mask)
    ### END SOLUTION


# %% [markdown]
# ## 5.2 Half of the machine
#
# *Medium.* An array of `n` elements, one thread an element, in blocks of `block` threads (any number from 1 to 1024).
# Each block is run in warps of 32 lanes. Write `lanes_used`: what share of all lanes, from 0 to 1, has an element?
# Then write `best_block`: of a list of blocks, the one with the greatest share, and of those with the same share the
# largest.


# %% 5.2
def lanes_used(n, block):
    ### BEGIN SOLUTION
    blocks = -(-n // block)
    warps = -(-block // 32)
    return n / (blocks * warps * 32)
    ### END SOLUTION


def best_block(n, blocks):
    ### BEGIN SOLUTION
    return max(blocks, key=lambda block: (lanes_used(n, block), block))
    ### END SOLUTION


# %% [markdown]
# ## 5.3 One kernel for all lengths
#
# *Medium.* This kernel is compiled anew for each length, and for each factor. It is right, and it is a nuisance.
# Change it, such that it is compiled once for all lengths and factors; it does the same and is launched in the same
# way, `scale[grid](x, out, n, factor, BLOCK=64)`. A new `BLOCK` may be another kernel. (The lengths that it is tried
# with are not divisible by 16. Chapter 6 says why that matters.)


# %% 5.3
@tt.jit
def scale(x, out, n: tt.constexpr, factor: tt.constexpr, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, factor * tt.load(x + i, mask=i < n), mask=i < n)


### BEGIN SOLUTION
@tt.jit
def scale(x, out, n, factor, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, factor * tt.load(x + i, mask=i < n), mask=i < n)


### END SOLUTION

# %% [markdown]
# ## 5.4 Softmax of two temperatures
#
# *Hard.* A program does one row of `N` numbers, which may be negative. `soft` is the softmax of `x / T`, where `T` is
# a number that is passed at launch. `COLD` is fixed while compiling: if it is true, the row becomes 1 where its
# maximum is and 0 elsewhere instead, and `T` plays no part. (No two numbers of a row are equal. A Python `if` on a
# constexpr is decided while compiling, and so is `a if COLD else b`.)


# %% 5.4
@tt.jit
def soft(src, dst, N, T, COLD: tt.constexpr, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.arange(0, BLOCK)
    mask = i < N
    row = tt.program_id(0) * N
    x = tt.load(src + row + i, mask=mask, other=-float("inf"))
    greatest = tt.reduce_max(x)
    if COLD:
        y = (x == greatest).to(tt.float32)
    else:
        e = tt.where(mask, tt.exp((x - greatest) / T), 0.0)
        y = e / tt.reduce_sum(e)
    tt.store(dst + row + i, y, mask=mask)
    ### END SOLUTION
