# %% [markdown]
# # Exercises to chapter 6
#
# To [Power-of-two tiles](../chapters/06_power_of_two_tiles.ipynb): padding, layouts as sums over bits, and transposes
# that waste nothing. How a layout's bits are dealt out is a [project](p2_three_rooms.ipynb).

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 6.1 A frame
#
# *Easy.* `x` has `rows` by `columns` elements, `out` one more on each side: `rows + 2` by `columns + 2`. Write
# `frame`: `x` in the middle, the number `value` around it. A program does a row of `out`; `SIZE_P` is a power of two
# and at least `columns + 2`.


# %% 6.1
@tt.jit
def frame(x, out, rows, columns, value, SIZE_P: tt.constexpr):
    ### BEGIN SOLUTION
    row = tt.program_id(0)
    j = tt.arange(0, SIZE_P)
    inside = (row > 0) & (row <= rows) & (j > 0) & (j <= columns)
    middle = tt.load(x + (row - 1) * columns + j - 1, mask=inside, other=value)
    tt.store(out + row * (columns + 2) + j, middle, mask=j < columns + 2)
    ### END SOLUTION


# %% [markdown]
# ## 6.2 Who holds it?
#
# *Medium.* A layout says which element a register of a thread holds. Write the way back: `holder(register_bits,
# thread_bits, element)` returns the thread and the register, as a tuple, that hold `element`, a tuple of coordinates.
# The first two are tuples with a move for each bit, lowest bit first, as `layout.reg` and `layout.thread` are. Each
# move that is not zero is a power of two along one dimension, and no two of them are equal. Where several threads
# hold the element (zero moves), the lowest counts.

# %%
layout = tt.layout.blocked((4, 8), threads=8, vector=4)
print(layout.reg, layout.thread, layout.at(thread=5, register=3))


# %% 6.2
def holder(register_bits, thread_bits, element):
    ### BEGIN SOLUTION
    def number(bits):
        return sum(1 << k for k, move in enumerate(bits) if any(m & e for m, e in zip(move, element, strict=True)))

    return number(thread_bits), number(register_bits)
    ### END SOLUTION


# %% [markdown]
# ## 6.3 A transpose that wastes nothing
#
# *Hard.* Write `transpose`, for any `M` by `N` (`src` has `M` rows; `dst` gets `N`), over a grid of `(tt.cdiv(M, BM),
# tt.cdiv(N, BN))` programs. And choose `BM` and `BN`, such that for a matrix of 256 by 256 floats every sector that
# is moved is wanted whole: `tt.count(...).coalescing` is 1.


# %% 6.3
@tt.jit
def transpose(src, dst, M, N, BM: tt.constexpr, BN: tt.constexpr):
    ### BEGIN SOLUTION
    row = (tt.program_id(0) * BM + tt.arange(0, BM))[:, None]
    column = (tt.program_id(1) * BN + tt.arange(0, BN))[None, :]
    mask = (row < M) & (column < N)
    tt.store(dst + column * M + row, tt.load(src + row * N + column, mask=mask), mask=mask)
    ### END SOLUTION


BM, BN = 1, 256  # choose others
### BEGIN SOLUTION
BM, BN = 32, 32
### END SOLUTION
