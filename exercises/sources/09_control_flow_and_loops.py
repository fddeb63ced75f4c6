# %% [markdown]
# # Exercises to chapter 9
#
# To [Control flow and loops](../chapters/09_control_flow_and_loops.ipynb): rounds, what they carry, how they end.

# %% given
import ast

import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 9.1 Any grid
#
# *Easy.* Write `scale`: the first `n` elements of `x` are multiplied by `factor`, into `out`. The grid can be
# anything from one program on: it has nothing to do with `n`.


# %% 9.1
@tt.jit
def scale(x, out, n, factor, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    for start in range(tt.program_id(0) * BLOCK, n, tt.num_programs(0) * BLOCK):
        i = start + tt.arange(0, BLOCK)
        tt.store(out + i, factor * tt.load(x + i, mask=i < n), mask=i < n)
    ### END SOLUTION


# %% [markdown]
# ## 9.2 How long does it take?
#
# *Medium.* Take a positive integer; halve it if it is even, else triple it and add one; and so on, until it is 1.
# Write `collatz`: `steps[i]` is how many steps that takes for `x[i]`. (For 1 it is 0, for 6 it is 8. With the
# numbers that are tried, everything fits int32.) The elements of a tile are done at different times.


# %% 9.2
@tt.jit
def collatz(x, steps, n, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n, other=1)
    count = tt.zeros(BLOCK, tt.int32)
    while tt.max(v) > 1:
        going = v > 1
        v = tt.where(going, tt.where(v % 2 == 0, v // 2, 3 * v + 1), v)
        count += going.to(tt.int32)
    tt.store(steps + i, count, mask=i < n)
    ### END SOLUTION


# %% [markdown]
# ## 9.3 Where would it go?
#
# *Medium.* `x` has `n` floats in ascending order, and `wanted` has `m` others. Write `place`: `out[i]` is the
# number of elements of `x` that are *less* than `wanted[i]`, which is where it would have to be put. Reading all of
# `x` is too slow: each round of a loop must halve what is left. (`n` is counted in int32. Of `x`, each program may
# load no more than `(BITS + 2) * BLOCK` elements, where `BITS` is the number of binary digits of `n`.)


# %% 9.3
@tt.jit
def place(x, wanted, out, n, m, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    w = tt.load(wanted + i, mask=i < m)
    low = tt.zeros(BLOCK, tt.int32)
    high = low + n
    while tt.max(high - low) > 0:
        middle = (low + high) // 2
        open_ = low < high
        less = tt.load(x + middle, mask=open_) < w
        low = tt.where(open_ & less, middle + 1, low)
        high = tt.where(open_ & (less == 0), middle, high)
    tt.store(out + i, low, mask=i < m)
    ### END SOLUTION


# %% [markdown]
# ## 9.4 Does it come to the end?
#
# *Hard.* When the compiler takes jumps out of a kernel, it has to know of a block of statements whether control can
# reach its end. Write `ends`: given the text of a block, it is True if control *never* gets to its end. A block
# never does if one of its statements is a `return`, a `break` or a `continue`; or an `if` of which both sides never
# do; or a `while` with a condition that is a constant and true, which no `break` of its own leaves. (A `break` in a
# loop inside of it is that loop's own. A `for` always comes to its end, since it may have no round.)
# `ast.parse(text).body` is the list of statements.


# %% 9.4
def ends(text):
    ### BEGIN SOLUTION
    def leaves(body):
        """Whether a break in a block leaves the loop around it."""
        for s in body:
            if isinstance(s, ast.Break):
                return True
            if isinstance(s, ast.If) and (leaves(s.body) or leaves(s.orelse)):
                return True
        return False

    def never(body):
        for s in body:
            if isinstance(s, (ast.Return, ast.Break, ast.Continue)):
                return True
            if isinstance(s, ast.If) and never(s.body) and never(s.orelse):
                return True
            always = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and s.test.value
            if always and not leaves(s.body):
                return True
        return False

    return never(ast.parse(text).body)
    ### END SOLUTION
