# %% [markdown]
# # Exercises to chapter 23
#
# To [Warps, stages and the autotuner](../chapters/23_the_autotuner.ipynb): the space of a search, the choice, and a
# loop whose loads run too far ahead.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 23.1 The space
#
# *Easy.* Write `space(blocks, warps, itemsize)`. `blocks` and `warps` are lists of powers of two. It returns a list of
# dictionaries `{"BLOCK": ..., "num_warps": ...}`: all combinations, the warps changing fastest, in which a thread's
# share of the tile is at least one access of 16 bytes and at most 128 bytes. A warp has 32 threads, an element
# `itemsize` bytes.


# %% 23.1
def space(blocks, warps, itemsize):
    ### BEGIN SOLUTION
    found = [{"BLOCK": block, "num_warps": w} for block in blocks for w in warps]
    return [c for c in found if 16 <= c["BLOCK"] * itemsize // (32 * c["num_warps"]) <= 128]
    ### END SOLUTION


# %% [markdown]
# ## 23.2 A careful choice
#
# *Medium.* A search has tried some configurations. Write `choose(trials, within)`. A trial is a tuple `(block, time,
# right)`: the tile, the time in µs (None where it was not timed), and whether the results were right.
#
# Only trials that are right and have a time count. Of those whose time is at most `within` above the least (0.05 is a
# twentieth), choose the one with the smallest `block`: it leaves the most registers free, and nobody can tell its time
# from the best. Return that `block`; None if there is no trial to choose.


# %% 23.2
def choose(trials, within):
    ### BEGIN SOLUTION
    timed = [(time, block) for block, time, right in trials if right and time is not None]
    if not timed:
        return None
    least = min(timed)[0]
    return min(block for time, block in timed if time <= (1 + within) * least)
    ### END SOLUTION


# %% [markdown]
# ## 23.3 A load that comes too early
#
# *Hard.* `out` has `rows` rows of `cols` numbers, row after row, and each row is made of the one above it:
#
# `out[0] = x[0]`, `out[k] = 0.5 * out[k - 1] + x[k]`.
#
# A program walks down through `BLOCK` columns. To hide the waiting, its author has let the loads run ahead, and now it
# is wrong: what a round loads from `out` is asked for before the round above has stored it. Mend it. The loads of `x`
# must still run ahead, and nothing may be loaded that was stored.


# %% 23.3
@tt.jit
def decay(x, out, rows, cols, BLOCK: tt.constexpr):
    j = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    first = tt.load(x + j, mask=j < cols)
    tt.store(out + j, first, mask=j < cols)
    for k in tt.range(1, rows, num_stages=2):
        above = tt.load(out + (k - 1) * cols + j, mask=j < cols)
        row = 0.5 * above + tt.load(x + k * cols + j, mask=j < cols)
        tt.store(out + k * cols + j, row, mask=j < cols)


### BEGIN SOLUTION
@tt.jit
def decay(x, out, rows, cols, BLOCK: tt.constexpr):
    j = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    row = tt.zeros((BLOCK,), tt.float32)
    for k in tt.range(0, rows, num_stages=2):
        row = 0.5 * row + tt.load(x + k * cols + j, mask=j < cols)
        tt.store(out + k * cols + j, row, mask=j < cols)


### END SOLUTION
