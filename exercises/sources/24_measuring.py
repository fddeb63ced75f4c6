# %% [markdown]
# # Exercises to chapter 24
#
# To [Measuring](../chapters/24_measuring.ipynb): what to say of a list of times, how many of them it takes, how to
# empty a cache, and whether two kernels differ at all.

# %% given
import math

import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 24.1 What to report
#
# *Easy.* Write `summary(times, nbytes)`. `times` is an array of the seconds that each run took, the first three of
# which were a warm-up; a run moves `nbytes` bytes. Return a tuple of three floats: the median of the other runs in
# seconds, their spread (the 80th percentile less the 20th, over the median; `np.percentile`), and how many GB a second
# the median makes (of 10⁹ bytes).


# %% 24.1
def summary(times, nbytes):
    ### BEGIN SOLUTION
    kept = times[3:]
    median = float(np.median(kept))
    low, high = np.percentile(kept, (20, 80))
    return median, float(high - low) / median, nbytes / median / 1e9
    ### END SOLUTION


# %% [markdown]
# ## 24.2 How many runs
#
# *Medium.* The standard error of a median of $k$ runs is about $1.25\,\sigma / \sqrt{k}$, where $\sigma$ is the
# standard deviation of a single run. Write `runs_needed(times, within)`: how many runs it takes until that error is at
# most `within` times the median (0.01 is a hundredth). Take $\sigma$ (`np.std`) and the median from `times`, of which
# the warm-up is gone already. The answer is an int, at least 5.


# %% 24.2
def runs_needed(times, within):
    ### BEGIN SOLUTION
    ratio = 1.25 * float(np.std(times)) / (within * float(np.median(times)))
    return max(5, math.ceil(ratio**2))
    ### END SOLUTION


# %% [markdown]
# ## 24.3 A cheap flush
#
# *Medium.* To throw everything else out of a cache, a buffer of `n` floats must be touched. But memory moves in
# sectors of 32 bytes, and to touch a sector one number in it is enough. Write `flush`: it stores 1 to elements 0, 8,
# 16, ... of `buffer`, as far as there are any, and touches nothing else. A program does `BLOCK` sectors.


# %% 24.3
@tt.jit
def flush(buffer, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = (tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)) * 8
    tt.store(buffer + i, 1.0, mask=i < n)
    ### END SOLUTION


# %% [markdown]
# ## 24.4 Heads or tails
#
# *Hard.* Two kernels took turns: `a[i]` and `b[i]` are the times of turn `i`. If they were equally fast, each would win
# a turn as often as a coin shows heads. Write `faster(a, b)`: `"a"`, `"b"`, or `"nobody can say"`.
#
# Turns in which both took equally long do not count. Of the `n` others, the better one has won `w`. Nobody can say, if
# a fair coin shows one side, whichever, `w` times or more out of `n` with a probability of more than 0.01, or if `n` is
# 0. (That is $2 \sum_{k=w}^{n} \binom{n}{k} / 2^n$. `math.comb` is exact.)


# %% 24.4
def faster(a, b):
    ### BEGIN SOLUTION
    wins = {"a": int((a < b).sum()), "b": int((b < a).sum())}
    n, best = sum(wins.values()), max(wins, key=wins.get)
    if n == 0:
        return "nobody can say"
    chance = 2 * sum(math.comb(n, k) for k in range(wins[best], n + 1)) / 2**n
    return best if chance <= 0.01 else "nobody can say"
    ### END SOLUTION
