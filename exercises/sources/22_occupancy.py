# %% [markdown]
# # Exercises to chapter 22
#
# To [Occupancy, and filling the machine](../chapters/22_occupancy.ipynb): what fits, what is busy, and how to have
# enough to do.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 22.1 What fits
#
# *Easy.* A multiprocessor `sm` is a dictionary with the keys `"threads"`, `"registers"`, `"shared"` (bytes) and
# `"programs"`: the most of each. A program of so many `threads`, `registers` a thread and `shared` bytes takes
#
# - whole warps of 32 threads;
# - registers for each warp, 32 times those of a thread, rounded up to a multiple of 256;
# - its shared memory and 1024 bytes more, together rounded up to a multiple of 128.
#
# `resident(threads, registers, shared, sm)`: how many such programs fit at once?


# %% 22.1
def resident(threads, registers, shared, sm):
    ### BEGIN SOLUTION
    def up(n, unit):
        return -(-n // unit) * unit

    warps = up(threads, 32) // 32
    return min(
        sm["threads"] // (32 * warps),
        sm["registers"] // (warps * up(32 * registers, 256)),
        sm["shared"] // up(shared + 1024, 128),
        sm["programs"],
    )
    ### END SOLUTION


# %% [markdown]
# ## 22.2 Waves and tails
#
# *Easy.* `programs` that all take equally long run on a card of `sm_count` multiprocessors, which hold `each` programs
# at once. They start as there are places, all that fit at once, then the next. `busy(programs, sm_count, each)`: how
# many *waves* are there, and which share of all places was in use, on average over the whole time? A pair. (1000
# programs, 100 multiprocessors, 8 at once: 2 waves, and 0.625.)


# %% 22.2
def busy(programs, sm_count, each):
    ### BEGIN SOLUTION
    places = sm_count * each
    waves = -(-programs // places)
    return waves, programs / (waves * places)
    ### END SOLUTION


# %% [markdown]
# ## 22.3 Pick
#
# *Medium.* `tt.pick_tile` with one more thought. `pick(shape, tiles, sm_count, waves)`, with shapes and tiles of two
# extents: of the tiles whose grid over the shape has at least `waves * sm_count` programs, the *largest*, in elements.
# If several are, the one of them whose grid covers the fewest elements beyond the shape; if that leaves several, the
# first. If no tile has enough programs: the one that has the most, the first of these.


# %% 22.3
def pick(shape, tiles, sm_count, waves):
    ### BEGIN SOLUTION
    def programs(tile):
        return -(-shape[0] // tile[0]) * -(-shape[1] // tile[1])

    def size(tile):
        return tile[0] * tile[1]

    enough = [tile for tile in tiles if programs(tile) >= waves * sm_count]
    if not enough:
        return max(tiles, key=programs)
    return min(enough, key=lambda tile: (-size(tile), programs(tile) * size(tile)))
    ### END SOLUTION


# %% [markdown]
# ## 22.4 Forty rows
#
# *Hard.* A matrix `a` of 40 long rows, times a vector `x`: with a program for `BM` rows there are next to no programs.
# So cut the columns into `SPLIT` pieces of `tt.cdiv(cols, SPLIT)` columns; the last one may be shorter. The grid is
# `(tt.cdiv(rows, BM), SPLIT)`, and program `(r, s)` writes what piece `s` adds to its rows: `parts[s, row]`. (A second
# launch adds up the parts.) A program goes through its piece `BK` columns at a time. *No element of `a` is loaded
# twice.*


# %% 22.4
@tt.jit
def products(a, x, parts, rows, cols, SPLIT: tt.constexpr, BM: tt.constexpr, BK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    piece = tt.cdiv(cols, SPLIT)
    first = tt.program_id(1) * piece
    last = tt.minimum(first + piece, cols)
    total = tt.zeros((BM,), tt.float32)
    for start in range(first, last, BK):
        k = start + tt.arange(0, BK)
        on = (i[:, None] < rows) & (k[None, :] < last)
        v = tt.load(a + i[:, None] * cols + k[None, :], mask=on)
        total += tt.sum(v * tt.load(x + k, mask=k < last)[None, :], 1)
    tt.store(parts + tt.program_id(1) * rows + i, total, mask=i < rows)
    ### END SOLUTION
