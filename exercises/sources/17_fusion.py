# %% [markdown]
# # Exercises to chapter 17
#
# To [Fusion](../chapters/17_fusion.ipynb): what it saves, and three kernels that do more than one thing.

# %% given
import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 17.1 What is saved
#
# *Easy.* `operations` is a list of elementwise operations on arrays of one size, in order, each a pair: the names of
# the arrays that it reads, and the name of the one that it writes, such as `(["x", "w"], "t")`. Every operation writes
# another array. `keep` is the set of names that somebody needs afterwards. `traffic(operations, keep)`: how many arrays
# go from or to memory if each operation is a launch, and how many if all are one? A pair. (In one kernel, an array that
# comes from outside is read once, however many operations want it.)


# %% 17.1
def traffic(operations, keep):
    ### BEGIN SOLUTION
    apart = sum(len(reads) + 1 for reads, _ in operations)
    made = {name for _, name in operations}
    wanted = {name for reads, _ in operations for name in reads}
    return apart, len(wanted - made) + len(made & keep)
    ### END SOLUTION


# %% [markdown]
# ## 17.2 Scale, bias, SiLU
#
# *Easy.* What follows a convolution: `out = silu(x * scale + bias)`, with a number of `scale` and of `bias` for each
# *column* of `x`, and `silu(v) = v / (1 + exp(-v))`. A program makes a tile of *BM* by *BN*; the grid is
# `(tt.cdiv(rows, BM), tt.cdiv(cols, BN))`. *Nothing is loaded twice by a program, and only `out` is stored.*


# %% 17.2
@tt.jit
def scale_silu(x, scale, bias, out, rows, cols, BM: tt.constexpr, BN: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)[:, None]
    j = tt.program_id(1) * BN + tt.arange(0, BN)
    on = (i < rows) & (j[None, :] < cols)
    v = tt.load(x + i * cols + j[None, :], mask=on)
    factor, shift = tt.load(scale + j, mask=j < cols), tt.load(bias + j, mask=j < cols)
    v = v * factor[None, :] + shift[None, :]
    tt.store(out + i * cols + j[None, :], v / (1 + tt.exp(-v)), mask=on)
    ### END SOLUTION


# %% [markdown]
# ## 17.3 A gate
#
# *Medium.* Two products with the same left side, and what joins them: `out = relu(x @ w) * (x @ v)`. `x` is *M* by *K*,
# `w` and `v` are *K* by *N*. The grid is `(tt.cdiv(M, BM), tt.cdiv(N, BN))`. *A tile of `x` is loaded once for both.*


# %% 17.3
@tt.jit
def gate(x, w, v, out, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)[:, None]
    j = tt.program_id(1) * BN + tt.arange(0, BN)[None, :]
    opened, passed = tt.zeros((BM, BN), tt.float32), tt.zeros((BM, BN), tt.float32)
    for start in range(0, K, BK):
        k = start + tt.arange(0, BK)
        left = tt.load(x + i * K + k[None, :], mask=(i < M) & (k[None, :] < K), other=0)
        right, on = k[:, None] * N + j, (k[:, None] < K) & (j < N)
        opened = tt.dot(left, tt.load(w + right, mask=on, other=0), opened)
        passed = tt.dot(left, tt.load(v + right, mask=on, other=0), passed)
    tt.store(out + i * N + j, tt.maximum(opened, 0) * passed, mask=(i < M) & (j < N))
    ### END SOLUTION


# %% [markdown]
# ## 17.4 A chain with something in between
#
# *Hard.* `out = relu(a @ b) @ c`: a layer of a network and the next. `a` is *M* by *D*, `b` is *D* by *L*, `c` is *L*
# by *D*, and `out` *M* by *D*; *D* is a power of two and fits a tile, *L* is long and no multiple of anything. Program
# *p* makes rows *p* · BM and on, goes along *L* in steps of *BL*, and never stores what is in the middle. *Each
# program loads its rows of `a` once, and `b` and `c` once.*


# %% 17.4
@tt.jit
def layers(a, b, c, out, M, L, D: tt.constexpr, BM: tt.constexpr, BL: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)[:, None]
    d = tt.arange(0, D)
    mine = tt.load(a + i * D + d[None, :], mask=i < M, other=0)
    acc = tt.zeros((BM, D), tt.float32)
    for start in range(0, L, BL):
        k = start + tt.arange(0, BL)
        middle = tt.dot(mine, tt.load(b + d[:, None] * L + k[None, :], mask=k[None, :] < L, other=0))
        below = tt.load(c + k[:, None] * D + d[None, :], mask=k[:, None] < L, other=0)
        acc = tt.dot(tt.maximum(middle, 0), below, acc)
    tt.store(out + i * D + d[None, :], acc, mask=i < M)
    ### END SOLUTION
