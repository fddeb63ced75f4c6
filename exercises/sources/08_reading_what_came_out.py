# %% [markdown]
# # Exercises to chapter 8
#
# To [Reading what came out](../chapters/08_reading_what_came_out.ipynb): texts of compilers, read by programs. No
# CUDA toolkit is needed; the texts are given.

# %% given
import re

import numpy as np

import tinyton as tt
from exercises import check, hint, solution

# %% [markdown]
# A text to try things on:

# %%
PTX = """
.visible .entry copy_kernel(
{
    .reg .pred  %p<3>;
    ld.param.u64        %rd1, [copy_kernel_param_0];
    setp.ge.s32         %p1, %r1, %r2;
    @%p1 bra            $L_2;
    ld.global.v4.f32    {%f1, %f2, %f3, %f4}, [%rd3];
    ld.global.nc.L1::no_allocate.u16 %rs1, [%rd4];
    st.shared.f32       [%r5], %f1;
    bar.sync            0;
    @%p2 st.global.wb.v2.u32 [%rd5], {%r6, %r7};
$L_2:
    ret;
}
"""

# %% [markdown]
# ## 8.1 How wide?
#
# *Easy.* `widest(ptx)`: how many bytes does the widest access to global memory in a text move for one lane? An
# instruction that loads or stores global memory begins with `ld.global` or `st.global`; more words may follow, with
# dots between them (and colons in some, as in `L1::no_allocate`); the last one is the type, such as `f32`, `u16`,
# `b64`, and a `v2` or `v4` among them says how many of these. If there is no such access, it is 0. (For the text
# above: 16.)


# %% 8.1
def widest(ptx):
    ### BEGIN SOLUTION
    most = 0
    for words in re.findall(r"\b(?:ld|st)\.global([.\w:]*)", ptx):
        parts = words.split(".")
        several = next((int(part[1]) for part in parts if part in ("v2", "v4", "v8")), 1)
        most = max(most, several * int(parts[-1][1:]) // 8)
    return most
    ### END SOLUTION


# %% [markdown]
# ## 8.2 Before a compiler is asked
#
# *Easy.* A program has so many `threads`, and several tiles of one shape are alive at the same time, with elements
# of so many bytes each: `itemsizes` is a list, with a number for each tile. A thread has `room` registers for them.
# An element takes a register for every 4 bytes, and one if it has fewer. `largest_tile(threads, itemsizes, room)`:
# the largest power of two that a tile may have, and still fit; 0 if not even one element a thread fits. `threads`
# is a power of two.


# %% 8.2
def largest_tile(threads, itemsizes, room):
    ### BEGIN SOLUTION
    each = sum(max(size // 4, 1) for size in itemsizes)
    fit = room // each
    return threads << (fit.bit_length() - 1) if fit else 0
    ### END SOLUTION


# %% [markdown]
# ## 8.3 Traffic
#
# *Medium.* `traffic(ptx)`: how many instructions of a text load and store each kind of memory? A dictionary with
# the keys `"global"`, `"shared"` and `"local"`, in this order, and pairs: loads, stores. Some have a predicate in
# front (`@%p2` or `@!%p2`), and some a word before the kind of memory (`ld.volatile.shared.f32`). Arguments
# (`ld.param`) do not count. (For the text above: `{"global": (2, 1), "shared": (0, 1), "local": (0, 0)}`.)


# %% 8.3
def traffic(ptx):
    ### BEGIN SOLUTION
    found = {kind: [0, 0] for kind in ("global", "shared", "local")}
    for line in ptx.splitlines():
        seen = re.match(r"\s*(?:@!?%p\d+\s+)?(ld|st)\.([.\w:]+)", line)
        for kind in found:
            if seen and kind in seen[2].split("."):
                found[kind][seen[1] == "st"] += 1
    return {kind: tuple(counts) for kind, counts in found.items()}
    ### END SOLUTION


# %% [markdown]
# ## 8.4 Divide less
#
# *Hard.* Row by row, `out = (x - low) / (high - low) / scale`, where `low` and `high` have a number for each row,
# and `scale` is a number. Written like that, every element is divided twice, and a division is a small program.
# Write `rescale` so that no tile is divided, and no row has more than one division. The result may differ in its
# last digits. A program does a row of `cols` elements, `BLOCK` holds it.


# %% 8.4
@tt.jit
def rescale(x, low, high, out, scale, cols, BLOCK: tt.constexpr):
    ### BEGIN SOLUTION
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    least = tt.load(low + row)
    factor = 1 / ((tt.load(high + row) - least) * scale)
    v = tt.load(x + row * cols + j, mask=j < cols)
    tt.store(out + row * cols + j, (v - least) * factor, mask=j < cols)
    ### END SOLUTION
