# %% [markdown]
# # Exercises to chapter 15
#
# To [Gather, embedding, cross-entropy](../chapters/15_gather_and_cross_entropy.ipynb): addresses that are data.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 15.1 What and where
#
# *Easy.* A text is a list of tokens, and place i of it becomes `table[tokens[i]] + positions[i]`, a row of `D`
# elements. A token of -1 is padding and becomes a row of zeros. A program does a place, `BLOCK` holds a row.


# %% 15.1
@tt.jit
def embed_text(tokens, table, positions, out, D, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    place, j = tt.program_id(0), tt.arange(0, BLOCK)
    token = tt.load(tokens + place)
    mask = (j < D) & (token >= 0)
    what = tt.load(table + token * D + j, mask=mask)
    where = tt.load(positions + place * D + j, mask=mask)
    tt.store(out + place * D + j, what + where, mask=j < D)
    ### END SOLUTION


# %% [markdown]
# ## 15.2 Hits
#
# *Medium.* `hits[row]` (an int32) is 1 if no score of the row is higher than that of its target, else 0. Rows have
# `cols` scores, any number of them, and come in tiles of `BLOCK`. A program does a row. Read each score once (and
# that of the target once more).


# %% 15.2
@tt.jit
def count_hits(x, target, hits, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    top = -float("inf")
    for start in range(0, cols, BLOCK):
        v = tt.load(x + row * cols + start + j, mask=start + j < cols, other=-float("inf"))
        top = tt.maximum(top, tt.max(v, 0))
    mine = tt.load(x + row * cols + tt.load(target + row))
    tt.store(hits + row, mine >= top)
    ### END SOLUTION


# %% [markdown]
# ## 15.3 A softer loss
#
# *Hard.* Cross-entropy with label smoothing: `log(sum(exp(x))) - (1 - eps) * x[target] - eps * mean(x)`. A row
# whose target is -100 has a loss of 0. Rows are of any length, tiles of `BLOCK`, a program a row, and each score is
# read once (and that of the target once more).


# %% 15.3
@tt.jit
def smooth_loss(x, target, loss, cols, eps, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0) * cols, tt.arange(0, BLOCK)
    top, total, plain = -float("inf"), 0.0, 0.0
    for start in range(0, cols, BLOCK):
        v = tt.load(x + row + start + j, mask=start + j < cols, other=-float("inf"))
        higher = tt.maximum(top, tt.max(v, 0))
        total = total * tt.exp(top - higher) + tt.sum(tt.exp(v - higher), 0)
        top = higher
        plain += tt.sum(tt.where(start + j < cols, v, 0.0), 0)
    t = tt.load(target + tt.program_id(0))
    picked = tt.load(x + row + t, mask=t >= 0)
    found = top + tt.log(total) - (1 - eps) * picked - eps * (plain / cols)
    tt.store(loss + tt.program_id(0), tt.where(t >= 0, found, 0.0))
    ### END SOLUTION


# %% [markdown]
# ## 15.4 Pieces of segments
#
# *Hard.* `order` lists places of a text so that equal tokens are neighbours; segment s of it is `order[starts[s] :
# starts[s + 1]]`, and its token is `rows[s]`. To sum the gradients `dy` over each segment, without a program that
# has all the work of a long one:
#
# - `cut(starts, most)`, a function: cuts each segment into pieces of at most `most` places. It returns two lists:
#   `pieces`, where each piece begins, and at the end `starts[-1]`, so that piece k is `order[pieces[k] : pieces[k +
#   1]]`; and `first`, for each segment the number of its first piece, and at the end the number of pieces.
# - `piece_sums`, a program a piece: the sum of its rows of `dy`, as row k of `parts`.
# - `merge`, a program a segment: the sum of its pieces, into row `rows[s]` of `dtable`.
#
# Rows have `D` elements, `BLOCK` holds one. No atomics.


# %% 15.4
def cut(starts, most):
    ### BEGIN SOLUTION
    pieces, first = [], []
    for begin, end in zip(starts, starts[1:], strict=False):
        first.append(len(pieces))
        pieces += range(begin, end, most)
    return [*pieces, starts[-1]], [*first, len(pieces)]
    ### END SOLUTION


@tt.jit
def piece_sums(dy, order, pieces, parts, D, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    k, j = tt.program_id(0), tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    for i in range(tt.load(pieces + k), tt.load(pieces + k + 1)):
        total += tt.load(dy + tt.load(order + i) * D + j, mask=j < D)
    tt.store(parts + k * D + j, total, mask=j < D)
    ### END SOLUTION


@tt.jit
def merge(parts, first, rows, dtable, D, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    s, j = tt.program_id(0), tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    for k in range(tt.load(first + s), tt.load(first + s + 1)):
        total += tt.load(parts + k * D + j, mask=j < D)
    tt.store(dtable + tt.load(rows + s) * D + j, total, mask=j < D)
    ### END SOLUTION
