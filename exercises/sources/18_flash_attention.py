# %% [markdown]
# # Exercises to chapter 18
#
# To [Flash attention](../chapters/18_flash_attention.ipynb): results that can be put together, loops that know where
# to begin and to end, and work for many programs.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 18.1 Merge
#
# *Easy.* Attention of some queries to some keys is kept as a triple: `top`, the largest score of each query; `total`,
# the sum of all `exp(score - top)`; and `acc`, a row a query, the sum of all `exp(score - top) * value`, not divided
# yet. `merge(a, b)`: the triple for the keys of both. One of the two may have seen no key at all: its `top` is
# `-inf`, and all else 0.


# %% 18.1
def merge(a, b):
    ### BEGIN SOLUTION
    top = np.maximum(a[0], b[0])
    fade_a, fade_b = np.exp(a[0] - top), np.exp(b[0] - top)
    total = a[1] * fade_a + b[1] * fade_b
    acc = a[2] * fade_a[:, None] + b[2] * fade_b[:, None]
    return top, total, acc
    ### END SOLUTION


# %% [markdown]
# ## 18.2 The next word
#
# *Medium.* A model that writes has *one* query for each head, and many keys. `q` and `out` are `[heads, D]`, `k` and
# `v` are `[heads, T, D]`. The grid has a program for each head, which goes through its keys, `BLOCK` at a time: `out`
# is softmax of `q @ k.T * scale`, times `v`. Products of a row and a matrix need no `tt.dot`: multiply and `tt.sum`.
# *Every key and every value is loaded once.*


# %% 18.2
@tt.jit
def next_word(q, k, v, out, T, scale, BLOCK: tt.constexpr, D: tt.constexpr):
    ### BEGIN SOLUTION
    head, d = tt.program_id(0), tt.arange(0, D)
    query = tt.load(q + head * D + d)
    top, total, acc = -float("inf"), 0.0, tt.zeros((D,), tt.float32)
    for start in range(0, T, BLOCK):
        j = start + tt.arange(0, BLOCK)
        at, on = head * T * D + j[:, None] * D + d, j[:, None] < T
        s = tt.sum(tt.load(k + at, mask=on, other=0) * query, 1) * scale
        s = tt.where(j < T, s, -float("inf"))
        higher = tt.maximum(top, tt.max(s, 0))
        p, fade = tt.exp(s - higher), tt.exp(top - higher)
        total = total * fade + tt.sum(p, 0)
        acc = acc * fade + tt.sum(p[:, None] * tt.load(v + at, mask=on, other=0), 0)
        top = higher
    tt.store(out + head * D + d, acc / total)
    ### END SOLUTION


# %% [markdown]
# ## 18.3 A window
#
# *Hard.* Query `i` sees the keys `i - W + 1` to `i`, itself and the `W - 1` before it (as many as there are). All
# matrices are `[T, D]`; a program does `BM` queries and goes through keys in tiles of `BN` that begin at multiples of
# `BN`. *It must not load a tile of which none of its queries sees anything.*
#
# There is a trap that the causal kernel of the chapter does not have. In the first tile of the loop, what is the
# largest score of a query that sees nothing there?


# %% 18.3
@tt.jit
def window(q, k, v, out, T, W, scale, BM: tt.constexpr, BN: tt.constexpr, D: tt.constexpr):
    ### BEGIN SOLUTION
    first, d = tt.program_id(0) * BM, tt.arange(0, D)
    i = first + tt.arange(0, BM)
    query = tt.load(q + i[:, None] * D + d, mask=i[:, None] < T, other=0)
    top = tt.full((BM,), -float("inf"), tt.float32)
    total = tt.zeros((BM,), tt.float32)
    acc = tt.zeros((BM, D), tt.float32)
    for start in range(tt.maximum(first - W + 1, 0) // BN * BN, tt.minimum(first + BM, T), BN):
        j = start + tt.arange(0, BN)
        at, on = j[:, None] * D + d, j[:, None] < T
        key, value = tt.load(k + at, mask=on, other=0), tt.load(v + at, mask=on, other=0)
        seen = (j <= i[:, None]) & (j > i[:, None] - W)
        s = tt.where(seen, tt.dot(query, key.T) * scale, -float("inf"))
        higher = tt.maximum(top, tt.max(s, 1))
        base = tt.where(higher == -float("inf"), 0.0, higher)
        p, fade = tt.exp(s - base[:, None]), tt.exp(top - base)
        total = total * fade + tt.sum(p, 1)
        acc = tt.dot(p, value, acc * fade[:, None])
        top = higher
    tt.store(out + i[:, None] * D + d, acc / total[:, None], mask=i[:, None] < T)
    ### END SOLUTION


# %% [markdown]
# ## 18.4 Pieces
#
# *Hard.* The kernel of 18.2 has a program for each head, and a large card has more multiprocessors than a model has
# heads. So cut the keys into `SPLIT` pieces of `tt.cdiv(T, SPLIT)`; the last may be shorter, or empty. The grid is
# `(heads, SPLIT)`. Program `(h, s)` writes what `merge` takes: `top[h, s]`, `total[h, s]`, and the row `acc[h, s]` of
# `D` numbers, not divided. A piece without keys has `-inf`, 0, and zeros. *Every key and every value is loaded once.*


# %% 18.4
@tt.jit
def pieces(q, k, v, tops, totals, accs, T, scale, SPLIT: tt.constexpr, BLOCK: tt.constexpr, D: tt.constexpr):
    ### BEGIN SOLUTION
    head, d = tt.program_id(0), tt.arange(0, D)
    place = head * SPLIT + tt.program_id(1)
    first = tt.program_id(1) * tt.cdiv(T, SPLIT)
    last = tt.minimum(first + tt.cdiv(T, SPLIT), T)
    query = tt.load(q + head * D + d)
    top, total, acc = -float("inf"), 0.0, tt.zeros((D,), tt.float32)
    for start in range(first, last, BLOCK):
        j = start + tt.arange(0, BLOCK)
        at, on = head * T * D + j[:, None] * D + d, j[:, None] < last
        s = tt.sum(tt.load(k + at, mask=on, other=0) * query, 1) * scale
        s = tt.where(j < last, s, -float("inf"))
        higher = tt.maximum(top, tt.max(s, 0))
        p, fade = tt.exp(s - higher), tt.exp(top - higher)
        total = total * fade + tt.sum(p, 0)
        acc = acc * fade + tt.sum(p[:, None] * tt.load(v + at, mask=on, other=0), 0)
        top = higher
    tt.store(tops + place, top)
    tt.store(totals + place, total)
    tt.store(accs + place * D + d, acc)
    ### END SOLUTION
