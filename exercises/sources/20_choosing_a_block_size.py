# %% [markdown]
# # Exercises to chapter 20
#
# To [Choosing a block size](../chapters/20_choosing_a_block_size.ipynb): read a sweep, choose from it, and mend a
# kernel whose sweep does not end.

# %% given
from statistics import median

import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 20.1 Where the plateau begins
#
# *Easy.* `speeds` is a dictionary from values of `BLOCK` to GB/s, in any order. `plateau(speeds, within)`: the smallest
# value from which on nothing is slower than the best by more than a share of `within` (0.05 is a twentieth). If even
# the largest value is, there is no plateau: `None`.


# %% 20.1
def plateau(speeds, within):
    ### BEGIN SOLUTION
    start = None
    for block in sorted(speeds, reverse=True):
        if speeds[block] < (1 - within) * max(speeds.values()):
            break
        start = block
    return start
    ### END SOLUTION


# %% [markdown]
# ## 20.2 And the winner is
#
# *Medium.* `runs` has the times of each value of `BLOCK`, a list in the order of the runs, and `right` says of each
# value whether its result was. `winner(runs, right, warmup)`: leave out the first `warmup` runs of each value, and the
# values that are wrong. The time of a value is the median of its other runs. Of all values that are at most 2 % slower
# than the fastest, take the smallest. `None` if no value is right.


# %% 20.2
def winner(runs, right, warmup):
    ### BEGIN SOLUTION
    times = {block: median(of[warmup:]) for block, of in runs.items() if right[block]}
    if not times:
        return None
    return min(block for block, time in times.items() if time <= 1.02 * min(times.values()))
    ### END SOLUTION


# %% [markdown]
# ## 20.3 Pay once
#
# *Hard.* `out` is `x` times the sum of `weights`, a table of `TABLE` numbers (a power of two). In the chapter a program
# adds up the table for each tile. Write `scaled` for *any* grid: each program reads the table once, and then does as
# many tiles as it takes, so that all programs together do each element once. (The bytes are counted.)


# %% 20.3
@tt.jit
def scaled(x, weights, out, n, TABLE: tt.constexpr, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    factor = tt.sum(tt.load(weights + tt.arange(0, TABLE)), 0)
    for start in range(tt.program_id(0) * BLOCK, n, tt.num_programs(0) * BLOCK):
        i = start + tt.arange(0, BLOCK)
        tt.store(out + i, factor * tt.load(x + i, mask=i < n), mask=i < n)
    ### END SOLUTION
