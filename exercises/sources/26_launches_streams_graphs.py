# %% [markdown]
# # Exercises to chapter 26
#
# To [Launches, streams, graphs](../chapters/26_launches_streams_graphs.ipynb): who waits for whom, and how to ask less
# often.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 26.1 Who waits for whom
#
# *Easy.* A queue of kernels: the host needs `host[k]` µs to launch kernel `k`, after it has launched the one before.
# The device needs `device[k]` µs to run it, from when it has been launched and the one before is done. Both begin at
# 0. Write `queue(host, device)`. It returns a tuple of two: when the last kernel is done, and for how long, until
# then, the device had nothing to do. There is at least one kernel.


# %% 26.1
def queue(host, device):
    ### BEGIN SOLUTION
    asked = done = idle = 0
    for h, d in zip(host, device, strict=True):
        asked += h
        idle += max(0, asked - done)
        done = max(asked, done) + d
    return done, idle
    ### END SOLUTION


# %% [markdown]
# ## 26.2 Three launches in one
#
# *Medium.* A step of training changes weights `w` by their gradients `g`, with a velocity `v` that remembers:
#
# `v = momentum * v + g`, then `w = w - rate * v`, then `g = 0`.
#
# As three kernels, it loads and stores more than it must. Write `train`, which does all three for `n` elements in one
# launch: each of the three arrays is loaded once and stored once.


# %% 26.2
@tt.jit
def train(w, v, g, momentum, rate, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    velocity = momentum * tt.load(v + i, mask=mask) + tt.load(g + i, mask=mask)
    tt.store(v + i, velocity, mask=mask)
    tt.store(w + i, tt.load(w + i, mask=mask) - rate * velocity, mask=mask)
    tt.store(g + i, 0.0, mask=mask)
    ### END SOLUTION


# %% [markdown]
# ## 26.3 An order between streams
#
# *Medium.* `work` is a list of tuples `(stream, time, after)`, in the order in which the host has put them into their
# streams: a name of a stream, how long it takes, and a list of places in `work`, all before its own, that it waits for
# (by an event). A piece of work begins as soon as the one before it *in its stream* is done and all that it waits for
# is done. Streams do not slow each other down, and the host takes no time. Write `finish(work)`: the list of times at
# which each is done.


# %% 26.3
def finish(work):
    ### BEGIN SOLUTION
    done, last = [], {}
    for stream, time, after in work:
        start = max([last.get(stream, 0), *(done[k] for k in after)])
        done.append(start + time)
        last[stream] = done[-1]
    return done
    ### END SOLUTION


# %% [markdown]
# ## 26.4 Many small problems
#
# *Hard.* `x` holds many rows of different lengths, one after the other: row `p` is from element `starts[p]` to before
# `starts[p + 1]`. A launch for each row would cost more than the work. Write `shares`, of which one launch does them
# all, a program a row: `out` is `x`, divided by the sum of its row. Rows may be longer than a tile, or empty; no
# element may be touched that is not of the row.


# %% 26.4
@tt.jit
def shares(x, starts, out, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    p, j = tt.program_id(0), tt.arange(0, BLOCK)
    begin, end = tt.load(starts + p), tt.load(starts + p + 1)
    total = tt.zeros((BLOCK,), tt.float32)
    for k in range(begin, end, BLOCK):
        total += tt.load(x + k + j, mask=k + j < end)
    whole = tt.sum(total, 0)
    for k in range(begin, end, BLOCK):
        tt.store(out + k + j, tt.load(x + k + j, mask=k + j < end) / whole, mask=k + j < end)
    ### END SOLUTION
