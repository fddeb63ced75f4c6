# %% [markdown]
# # Exercises to chapter 16
#
# To [Matmul](../chapters/16_matmul.ipynb): where elements are, two products of your own, and who waits for whom.

# %% given
import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 16.1 Fragments
#
# *Easy.* Of 16 by 8 sums that a warp has after one `mma`, each of 32 lanes has four, in registers 0 to 3. Lane 0 has
# (0, 0), (0, 1), (8, 0) and (8, 1); lane 1 begins at (0, 2), lane 4 at (1, 0). `fragment(lane, register)`: row and
# column, as a pair.


# %% 16.1
def fragment(lane, register):
    ### BEGIN SOLUTION
    return lane // 4 + 8 * (register // 2), lane % 4 * 2 + register % 2
    ### END SOLUTION


# %% [markdown]
# ## 16.2 Banks
#
# *Medium.* Eight lanes read 16 bytes each, from `addresses` (bytes, all multiples of 16) in shared memory. It has 32
# banks of 4 bytes: byte address *a* is in bank *(a // 4) mod 32*. All lanes that want the same 16 bytes are served
# together; different rows of a bank take a pass each. `passes(addresses)`: how many passes are needed?


# %% 16.2
def passes(addresses):
    ### BEGIN SOLUTION
    rows = [set() for _ in range(32)]
    for address in addresses:
        for word in range(address // 4, address // 4 + 4):
            rows[word % 32].add(word // 32)
    return max(len(row) for row in rows)
    ### END SOLUTION


# %% [markdown]
# ## 16.3 The left one turned
#
# *Medium.* Backward passes multiply by transposes: `c = a.T @ b`, where `a` is stored as it is, *K* rows by *M*
# columns, `b` is *K* by *N*, and `c` *M* by *N*. A program makes a tile of *BM* by *BN*; the grid is
# `(tt.cdiv(M, BM), tt.cdiv(N, BN))`. No size need be a multiple of its tile. *Each program reads what it multiplies
# once, and nothing else.*


# %% 16.3
@tt.jit
def turned(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    j = tt.program_id(1) * BN + tt.arange(0, BN)
    acc = tt.zeros((BM, BN), tt.float32)
    for start in range(0, K, BK):
        k = start + tt.arange(0, BK)
        left = tt.load(a + k[:, None] * M + i[None, :], mask=(k[:, None] < K) & (i[None, :] < M), other=0)
        right = tt.load(b + k[:, None] * N + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0)
        acc = tt.dot(left.T, right, acc)
    tt.store(c + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))
    ### END SOLUTION


# %% [markdown]
# ## 16.4 Split-K
#
# *Hard.* A product with few, long sums: *M* and *N* are small, *K* is large. One program a tile of `c` leaves most of a
# card idle. So `SPLIT` programs share a tile: the grid is `(tt.cdiv(M, BM), tt.cdiv(N, BN), SPLIT)`, and program
# *s* takes steps *s*, *s* + SPLIT, *s* + 2 SPLIT, ... of *BK* each along *K*. What they find is *added* to `c`, which
# is 0 before. *No step is taken twice.*


# %% 16.4
@tt.jit
def split(a, b, c, M, N, K, SPLIT: tt.constexpr, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    ### BEGIN SOLUTION
    i = tt.program_id(0) * BM + tt.arange(0, BM)[:, None]
    j = tt.program_id(1) * BN + tt.arange(0, BN)[None, :]
    acc = tt.zeros((BM, BN), tt.float32)
    for start in range(tt.program_id(2) * BK, K, SPLIT * BK):
        k = start + tt.arange(0, BK)
        left = tt.load(a + i * K + k[None, :], mask=(i < M) & (k[None, :] < K), other=0)
        right = tt.load(b + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0)
        acc = tt.dot(left, right, acc)
    tt.atomic_add(c + i * N + j, acc, mask=(i < M) & (j < N))
    ### END SOLUTION


# %% [markdown]
# ## 16.5 A ring
#
# *Hard.* A producer has tiles copied into a ring of `stages` places, one a round; warps multiply them. Each place has
# two barriers: *full* (its tile is there) and *empty* (all warps have done with it). A barrier's phases have the
# parities 0, 1, 0, 1, ..., and who waits names one: it waits as long as the phase that runs has *that* parity. So of a
# new barrier, whose first phase runs, a wait for 0 lasts until that is over, and a wait for 1 is over at once.
#
# `turn(round, stages)`, for rounds from 0 on, gives three numbers: the place of the round, the parity that the warps
# name to its full barrier before they multiply, and the parity that the producer names to its empty barrier before it
# has the tile copied. *The first `stages` copies wait for nobody.*


# %% 16.5
def turn(round, stages):
    ### BEGIN SOLUTION
    lap = round // stages % 2
    return round % stages, lap, 1 - lap
    ### END SOLUTION
