# %% [markdown]
# # Exercises to chapter 19
#
# To [Convolution as a product of matrices](../chapters/19_convolution.ipynb). All pictures are kept with channels
# outermost, `[channels, images, height, width]`, and what is beyond a border counts as 0.

# %% given
import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# ## 19.1 The product behind a layer
#
# *Easy.* A layer takes `C` channels of `images` pictures, `H` by `W`, to `CO` channels, with a window of `S` by `S`
# that moves `stride` pixels at a time. On each side, `pad` rows or columns of zeros are added before that.
# `sides(...)` gives `(M, N, K)`, the product it is: an M by K matrix of weights times a K by N matrix. (For 3
# channels to 64, one picture of 224 by 224, a window of 7, a stride of 2, and 3 rows of zeros: 64, 12544 and 147.)


# %% 19.1
def sides(C, CO, images, H, W, S, stride, pad):
    ### BEGIN SOLUTION
    rows, columns = ((n + 2 * pad - S) // stride + 1 for n in (H, W))
    return CO, images * rows * columns, C * S * S
    ### END SOLUTION


# %% [markdown]
# ## 19.2 Depthwise
#
# *Medium.* A depthwise convolution has a window of its own for each channel, and nothing is added up over channels,
# so it is no product of matrices: `out[c, n, y, x]` is the sum of `w[c, i, j] * x[c, n, y + i - 1, x + j - 1]` over a
# window of 3 by 3. Arrays lie flat in memory, `pixels` is images times `H` times `W`. The grid is `(C,
# tt.cdiv(pixels, BLOCK))`.


# %% 19.2
@tt.jit
def depthwise(x, w, out, pixels, H, W, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    c, p = tt.program_id(0), tt.program_id(1) * BLOCK + tt.arange(0, BLOCK)
    acc = tt.zeros((BLOCK,), tt.float32)
    for i in tt.static_range(3):
        for j in tt.static_range(3):
            row, column = p // W % H + i - 1, p % W + j - 1
            inside = (p < pixels) & (row >= 0) & (row < H) & (column >= 0) & (column < W)
            at = x + c * pixels + p + (i - 1) * W + j - 1
            acc += tt.load(w + c * 9 + i * 3 + j) * tt.load(at, mask=inside, other=0)
    tt.store(out + c * pixels + p, acc, mask=p < pixels)
    ### END SOLUTION


# %% [markdown]
# ## 19.3 Where to switch
#
# *Medium.* `times` says, for some numbers of channels, how long two kernels take: `times[channels] = (direct,
# product)`. `threshold(times)` is the number of channels *from which on* the product is used, such that all layers of
# the table together take the least time: one of the numbers in the table, or `None` for "never". Of several that are
# as good, the smallest; `None` only if it is better than all others.


# %% 19.3
def threshold(times):
    ### BEGIN SOLUTION
    def cost(start):
        return sum(of[start is not None and channels >= start] for channels, of in times.items())

    return min([*sorted(times), None], key=cost)
    ### END SOLUTION


# %% [markdown]
# ## 19.4 Every second pixel
#
# *Hard.* A window of 3 by 3 with one row of zeros around, and a stride of 2: output pixel `(y, x)` looks at input
# pixels `(2y + i - 1, 2x + j - 1)`. So `[C, images, H, W]` becomes `[CO, images, (H + 1) // 2, (W + 1) // 2]`. As
# *one* kernel: an implicit product, then `scale` and `bias` of each output channel, then SiLU, `v / (1 + exp(-v))`.
# `w` is `[CO, C, 3, 3]`. The grid is `(tt.cdiv(CO, BO), tt.cdiv(output pixels, BP))`; `images` is how many pictures
# there are.


# %% 19.4
@tt.jit
def strided(
    x, w, scale, bias, out, C, CO, images, H, W, BO: tt.constexpr, BP: tt.constexpr, BK: tt.constexpr
):  # fmt: skip
    ### BEGIN SOLUTION
    high, wide = (H + 1) // 2, (W + 1) // 2
    pixels, K = images * high * wide, C * 9
    o, p = tt.program_id(0) * BO + tt.arange(0, BO), tt.program_id(1) * BP + tt.arange(0, BP)
    image, y, column = p // (high * wide), p // wide % high, p % wide
    acc = tt.zeros((BO, BP), tt.float32)
    for start in range(0, K, BK):
        k = start + tt.arange(0, BK)
        c, i, j = k[:, None] // 9, k[:, None] // 3 % 3, k[:, None] % 3
        yy, xx = 2 * y + i - 1, 2 * column + j - 1
        inside = (k[:, None] < K) & (p < pixels) & (yy >= 0) & (yy < H) & (xx >= 0) & (xx < W)
        pixel = tt.load(x + ((c * images + image) * H + yy) * W + xx, mask=inside, other=0)
        weight = tt.load(w + o[:, None] * K + k, mask=(o[:, None] < CO) & (k < K), other=0)
        acc = tt.dot(weight, pixel, acc)
    factor, offset = tt.load(scale + o, mask=o < CO, other=0), tt.load(bias + o, mask=o < CO, other=0)
    acc = acc * factor[:, None] + offset[:, None]
    acc = acc / (1 + tt.exp(-acc))
    tt.store(out + o[:, None] * pixels + p, acc, mask=(o[:, None] < CO) & (p < pixels))
    ### END SOLUTION
