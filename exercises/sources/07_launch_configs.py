# %% [markdown]
# # Exercises to chapter 7
#
# To [Launch configs](../chapters/07_launch_configs.ipynb): the data that a program covers, the threads it runs on,
# and what happens to those who mix them up.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 7.1 Right, incomplete, refused
#
# *Easy.* A kernel adds `n` numbers in tiles of `block`, with masks, and was compiled for `threads` threads a program.
# It is launched with `LaunchConfig.with_grid(tt.cdiv(n, block), compiled)`, with `LaunchConfig.from_program(n,
# compiled)`, or with `LaunchConfig.explicit(n, block)`. Write `outcome(way, n, block, threads)`, where `way` is the
# name of one of the three: `"right"`, `"incomplete"` or `"refused"`. More programs than needed do no harm.


# %% 7.1
def outcome(way, n, block, threads):
    ### BEGIN SOLUTION
    if way == "explicit":
        return "right" if block == threads else "refused"
    if way == "from_program":
        return "right" if -(-n // threads) >= -(-n // block) else "incomplete"
    return "right"
    ### END SOLUTION


# %% [markdown]
# ## 7.2 What a thread has to do
#
# *Medium.* A tile of `block` neighbouring elements of `itemsize` bytes is copied by `threads` threads (both powers of
# two). Write `share_of_a_thread`, which returns a tuple of three: how many elements a thread holds, how many of the
# threads hold nothing but copies of what others hold, and how many bytes a thread moves with one access. That is at
# most 16, and no more than it has.


# %% 7.2
def share_of_a_thread(block, threads, itemsize):
    ### BEGIN SOLUTION
    elements = max(1, block // threads)
    return elements, max(0, threads - block), min(16, elements * itemsize)
    ### END SOLUTION


# %% [markdown]
# ## 7.3 A convolution that fits nothing
#
# *Hard.* The convolution of the chapter, for any size. `x` has `N + 2` numbers; `w` has three taps for each of
# `channels` channels, channel by channel; `out` has `channels` rows of `N` numbers:
#
# `out[c, i] = max(0, w[c, 0] * x[i] + w[c, 1] * x[i + 1] + w[c, 2] * x[i + 2])`,
#
# summed from left to right. A program makes `COLUMNS` columns for all channels; `CHANNELS` is a power of two, and
# `channels` may be less. `N` need not be a multiple of anything.


# %% 7.3
@tt.jit
def convolve(x, w, out, N, channels, CHANNELS: tt.constexpr, COLUMNS: tt.constexpr):
    ### BEGIN SOLUTION
    c = tt.arange(0, CHANNELS)
    i = tt.program_id(0) * COLUMNS + tt.arange(0, COLUMNS)
    real, inside = c < channels, i < N
    sums = tt.load(w + c * 3, mask=real)[:, None] * tt.load(x + i, mask=inside)[None, :]
    sums += tt.load(w + c * 3 + 1, mask=real)[:, None] * tt.load(x + i + 1, mask=inside)[None, :]
    sums += tt.load(w + c * 3 + 2, mask=real)[:, None] * tt.load(x + i + 2, mask=inside)[None, :]
    mask = real[:, None] & inside[None, :]
    tt.store(out + c[:, None] * N + i[None, :], tt.maximum(sums, 0.0), mask=mask)
    ### END SOLUTION
