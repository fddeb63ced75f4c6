"""Checks of the exercises to chapter 7."""

import math

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "7.1",
    points=1,
    hints=(
        "with_grid takes both numbers from where they belong. What do the others take for what?",
        "explicit(n, block) launches block threads a program, from_program a program each `threads` elements.",
        "explicit is right only if block == threads. from_program starts ceil(n / threads) programs; ceil(n / block)"
        " are needed.",
    ),
    mutants={
        "from_program is always right": ("-(-n // threads) >= -(-n // block)", "True"),
        "it must be the same number": (">=", "=="),
        "explicit goes by size": ("block == threads", "block <= threads"),
        "compares blocks, not programs": ("-(-n // threads) >= -(-n // block)", "threads <= block"),
    },
)
def outcome(t, outcome):
    for _ in range(40):
        block, threads = 2 ** t.integer(4, 12), 2 ** t.integer(5, 9)
        n = t.integer(1, 3) if t.rng.random() < 0.3 else t.integer(5000, 10000)
        for way in ("with_grid", "from_program", "explicit"):
            want = "right"
            if way == "explicit" and block != threads:
                want = "refused"
            if way == "from_program" and math.ceil(n / threads) < math.ceil(n / block):
                want = "incomplete"
            t.same(outcome(way, n, block, threads), want)


@exercise(
    "7.2",
    points=2,
    hints=(
        "128 threads and a tile of 512: four elements each. And with a tile of 32?",
        "Then each holds one, 32 of them are different, and 96 threads hold copies.",
        "An access is 16 bytes at most: min(16, elements * itemsize).",
    ),
    mutants={
        "an access has no limit": ("min(16, elements * itemsize)", "elements * itemsize"),
        "elements, not bytes": ("min(16, elements * itemsize)", "min(16, elements)"),
        "less than one element": ("max(1, block // threads)", "block // threads"),
    },
)
def share_of_a_thread(t, share_of_a_thread):
    @tt.jit
    def copy(x, out, BLOCK: tt.constexpr):
        i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        tt.store(out + i, tt.load(x + i))

    for _ in range(12):
        block, warps = 2 ** t.integer(4, 12), 2 ** t.integer(0, 4)
        dtype = np.dtype(str(t.rng.choice(["int8", "float16", "float32", "float64"])))
        layout = tt.layout.blocked((block,), 32 * warps, min(16 // dtype.itemsize, max(1, block // (32 * warps))))
        held = {layout.at(k, 0) for k in range(layout.threads)}
        want = layout.registers, layout.threads - len(held), min(16, layout.registers * dtype.itemsize)
        t.same(share_of_a_thread(block, 32 * warps, dtype.itemsize), want)
    for block in (64, 512, 1024):  # and as it is really compiled
        x, out = np.zeros(4096, np.float16), np.zeros(4096, np.float16)
        c = tt.count(copy, 4096 // block, x, out, BLOCK=block, num_warps=4)
        elements, idle, width = share_of_a_thread(block, 128, 2)
        t.same(width, c.bytes // c.requests // 32 if not idle else 2, f"the width for BLOCK = {block}, float16")


@exercise(
    "7.3",
    points=3,
    hints=(
        "Two masks: c < channels for rows, i < N for columns. The store needs both, as a tile of two dimensions.",
        "[:, None] makes a column of a tile, [None, :] a row, and combining them makes CHANNELS by COLUMNS elements.",
        "x is loaded at i, i + 1 and i + 2 with the mask i < N: it has N + 2 elements. Rows of out have N elements.",
    ),
    mutants={
        "channels have no mask": ("c < channels", "c >= 0"),
        "columns have no mask": ("i < N", "i >= 0"),
        "the taps are backwards": ("tt.load(w + c * 3, mask=real)", "tt.load(w + c * 3 + 2, mask=real)"),
        "taps, not channels, come first": ("c * 3 + 1", "c + channels"),
    },
)
def convolve(t, convolve):
    for channels, most, columns in ((5, 8, 16), (t.integer(17, 31), 32, 16), (8, 8, 64)):
        n = t.size(columns, 4)
        x, w, out = t.floats(n + 2), t.floats(channels, 3), t.out(channels, n)
        t.launch(convolve, tt.cdiv(n, columns), x, w, out, n, channels, CHANNELS=most, COLUMNS=columns, num_warps=4)
        want = w[:, :1] * x[:-2] + w[:, 1:2] * x[1:-1] + w[:, 2:] * x[2:]
        t.equal(out, np.maximum(want, 0))
