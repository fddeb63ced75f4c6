# %% [markdown]
# # Exercises to chapter 1
#
# To [What a kernel is](../chapters/01_what_a_kernel_is.ipynb): grids and guards, what an operation must cost, and
# what memory really moves. All of it is plain Python: the kernels begin in chapter 2.

# %% given
import numpy as np

from exercises import check, hint, solution

# %% [markdown]
# ## 1.1 Enough blocks
#
# *Easy.* `n` elements, an element a thread, `threads` threads a block. Write `launch_size`, which returns two numbers
# as a tuple: how many blocks it takes, and how many of the threads will have nothing to do.


# %% 1.1
def launch_size(n, threads):
    ### BEGIN SOLUTION
    blocks = -(-n // threads)
    return blocks, blocks * threads - n
    ### END SOLUTION


# %% [markdown]
# ## 1.2 The body of the loop
#
# *Easy.* Here is a kernel as one thread sees it, in Python: it is told the number of its block, how many threads a
# block has, and its own number in the block. It sets *one* element of `y` to `a * x + y`, or none. All `blocks *
# threads` of them are run, in no order that you can rely on.


# %% 1.2
def axpy(block, threads, thread, a, x, y, n):
    ### BEGIN SOLUTION
    i = block * threads + thread
    if i < n:
        y[i] = a * x[i] + y[i]
    ### END SOLUTION


# %% [markdown]
# ## 1.3 The later of two bounds
#
# *Medium.* A kernel moves `bytes_moved` bytes and does `operations` operations, on a device with a bandwidth of
# `gb_s` gigabytes a second (of 10⁹ bytes) and a peak of `gflop_s` billions of operations a second. Write
# `least_time`, which returns a tuple: how many **microseconds** it takes at least, and which of the two it is that
# takes so long, `"memory"` or `"compute"`.


# %% 1.3
def least_time(bytes_moved, operations, gb_s, gflop_s):
    ### BEGIN SOLUTION
    memory = bytes_moved / (gb_s * 1e9) * 1e6
    compute = operations / (gflop_s * 1e9) * 1e6
    return max(memory, compute), "memory" if memory >= compute else "compute"
    ### END SOLUTION


# %% [markdown]
# ## 1.4 Sectors
#
# *Hard.* Thread `t` of a warp (0 to 31) loads the element number `first + stride * t` of an array whose elements have
# `size` bytes, 1 to 16. The array begins at the start of a sector, and a sector has 32 bytes. Write `sectors`: how
# many of them does the warp touch? `stride` may be 0 or negative. An element of 12 bytes may lie in two sectors.


# %% 1.4
def sectors(first, stride, size):
    ### BEGIN SOLUTION
    touched = set()
    for t in range(32):
        begin = (first + stride * t) * size
        touched |= {begin // 32, (begin + size - 1) // 32}
    return len(touched)
    ### END SOLUTION
