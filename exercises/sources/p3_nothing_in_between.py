# %% [markdown]
# # Project III: nothing in between
#
# For part III. A model is a list of operations, and most of what a naive one moves is what one operation hands to the
# next. Here are three pieces of a language model. In each of them, an array that nobody asked for never comes to be,
# although a reduction or a product stands in the way of just writing one line below the other. What is judged is the
# result, against float64; the bytes that `tt.count` counts; and in the last one how many launches there are.
#
# float32 everywhere. No size need be a multiple of its tile.

# %% given
import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## P3.1 A norm in a product
#
# `out = h @ w`, where `h` is the RMSNorm of each row of `x` ([chapter 12](../chapters/12_norms.ipynb)): `h = x /
# sqrt(mean(x * x) + 0.00001) * g`. `x` is *M* by *K*, `g` has *K* numbers, `w` is *K* by *N*. The grid is
# `(tt.cdiv(M, BM), tt.cdiv(N, BN))`. A norm needs the whole row before the first element is known, and a product takes
# the row a piece at a time. Does it have to wait? *A program loads its rows of `x`, its columns of `w`, and `g` once.*


# %% P3.1
@tt.jit
def norm_product(x, g, w, out, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)[:, None]
    j = tt.program_id(1) * BN + tt.arange(0, BN)[None, :]
    acc, squares = tt.zeros((BM, BN), tt.float32), tt.zeros((BM,), tt.float32)
    for start in range(0, K, BK):
        k = start + tt.arange(0, BK)
        v = tt.load(x + i * K + k[None, :], mask=(i < M) & (k[None, :] < K), other=0)
        gain = tt.load(g + k, mask=k < K, other=0)
        squares += tt.sum(v * v, 1)
        acc = tt.dot(v * gain[None, :], tt.load(w + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0), acc)
    scale = tt.rsqrt(squares / K + 1e-5)
    tt.store(out + i * N + j, acc * scale[:, None], mask=(i < M) & (j < N))
    ### END SOLUTION


# %% [markdown]
# ## P3.2 A loss without its scores
#
# The last layer of a model and its loss. `x` has *M* rows of *D* numbers, `w` a row of *D* for each of *V* words. The
# score of word `v` in row `i` is the product of `x[i]` and `w[v]`, and `loss[i] = log(sum(exp(scores))) -
# score[target[i]]`, as in [chapter 15](../chapters/15_gather_and_cross_entropy.ipynb). For a text of 8,192 tokens and
# 128,000 words the scores would be four gigabytes; the loss is 32 kilobytes. So no score is stored. *D* is a power of
# two and fits a tile. A program does *BM* rows, and goes along the words in steps of *BV*. Scores may be large. *A
# program loads its rows of `x` and all of `w` once, and nothing but `loss` is stored.*


# %% P3.2
@tt.jit
def linear_loss(x, w, target, loss, M, V, D: tt.constexpr, BM: tt.constexpr, BV: tt.constexpr):
    ### BEGIN SOLUTION
    i, d = tt.program_id(0) * BM + tt.arange(0, BM), tt.arange(0, D)
    rows = tt.load(x + i[:, None] * D + d[None, :], mask=i[:, None] < M, other=0)
    right = tt.load(target + i, mask=i < M, other=0)
    top, total = tt.full((BM,), -float("inf"), tt.float32), tt.zeros((BM,), tt.float32)
    picked = tt.zeros((BM,), tt.float32)
    for start in range(0, V, BV):
        v = start + tt.arange(0, BV)
        words = tt.load(w + v[:, None] * D + d[None, :], mask=v[:, None] < V, other=0)
        scores = tt.where(v[None, :] < V, tt.dot(rows, words.T), -float("inf"))
        higher = tt.maximum(top, tt.max(scores, 1))
        total = total * tt.exp(top - higher) + tt.sum(tt.exp(scores - higher[:, None]), 1)
        picked += tt.sum(tt.where(v[None, :] == right[:, None], scores, 0.0), 1)
        top = higher
    tt.store(loss + i, top + tt.log(total) - picked, mask=i < M)
    ### END SOLUTION


# %% [markdown]
# ## P3.3 A layer in two launches
#
# A layer as most language models have it: `out = x + (silu(h @ w1) * (h @ w2)) @ w3`, with `h` the norm of P3.1 and
# `silu(v) = v / (1 + exp(-v))`. `x` and `out` are *M* by *D*; `w1` and `w2` *D* by *L*; `w3` *L* by *D*. Operation by
# operation that is seven launches. Write it in two: `up` leaves what is in the parentheses in `m`, *M* by *L*, and
# `down` does the rest.
#
# You also decide how they are launched. `plan(M, D, L)` returns the list of launches, in order, each of them
# `(name, grid, arguments, constants)`, as in the one below; arrays go by name: `"x"`, `"g"`, `"w1"`, `"w2"`, `"w3"`,
# `"m"`, `"out"`. Your kernels may take other parameters than those
# below. Two things are wanted of the plan:
#
# - No launch has fewer than 8 programs, or most of a card would have nothing to do. (The sizes are about 100, 96 and
#   160.)
# - All launches together move no more bytes than tiles of 32 by 32 outputs do, where a program loads its rows and its
#   columns once.


# %%
def plan_of_p3_1(M, N, K):
    """How a plan looks: that of P3.1, whose arrays have other names."""
    return [
        ("norm_product", (tt.cdiv(M, 16), tt.cdiv(N, 64)), ("x", "g", "w", "out", M, N, K), dict(BM=16, BN=64, BK=32))
    ]


# %% P3.3
def plan(M, D, L):
    ### BEGIN SOLUTION
    tiles = {"BM": 32, "BN": 32, "BK": 32}
    rows = tt.cdiv(M, 32)
    return [
        ("up", (rows, tt.cdiv(L, 32)), ("x", "g", "w1", "w2", "m", M, D, L), tiles),
        ("down", (rows, tt.cdiv(D, 32)), ("m", "w3", "x", "out", M, D, L), tiles),
    ]
    ### END SOLUTION


@tt.jit
def up(x, g, w1, w2, m, M, D, L, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)[:, None]
    j = tt.program_id(1) * BN + tt.arange(0, BN)[None, :]
    opened, passed = tt.zeros((BM, BN), tt.float32), tt.zeros((BM, BN), tt.float32)
    squares = tt.zeros((BM,), tt.float32)
    for start in range(0, D, BK):
        k = start + tt.arange(0, BK)
        v = tt.load(x + i * D + k[None, :], mask=(i < M) & (k[None, :] < D), other=0)
        squares += tt.sum(v * v, 1)
        v = v * tt.load(g + k, mask=k < D, other=0)[None, :]
        at, on = k[:, None] * L + j, (k[:, None] < D) & (j < L)
        opened = tt.dot(v, tt.load(w1 + at, mask=on, other=0), opened)
        passed = tt.dot(v, tt.load(w2 + at, mask=on, other=0), passed)
    scale = tt.rsqrt(squares / D + 1e-5)[:, None]
    gate = opened * scale
    tt.store(m + i * L + j, gate / (1 + tt.exp(-gate)) * (passed * scale), mask=(i < M) & (j < L))
    ### END SOLUTION


@tt.jit
def down(m, w3, x, out, M, D, L, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)[:, None]
    j = tt.program_id(1) * BN + tt.arange(0, BN)[None, :]
    acc = tt.load(x + i * D + j, mask=(i < M) & (j < D), other=0)
    for start in range(0, L, BK):
        k = start + tt.arange(0, BK)
        left = tt.load(m + i * L + k[None, :], mask=(i < M) & (k[None, :] < L), other=0)
        acc = tt.dot(left, tt.load(w3 + k[:, None] * D + j, mask=(k[:, None] < L) & (j < D), other=0), acc)
    tt.store(out + i * D + j, acc, mask=(i < M) & (j < D))
    ### END SOLUTION
