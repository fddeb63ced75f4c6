"""Checks of the exercises to chapter 3."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "3.1",
    points=1,
    hints=(
        "Which elements of out have a partner in x? There is an end on either side.",
        "Element i has one if 0 <= i - by < n. The others are written, too: with what a load gives where it is off.",
        "Two masks: (i < n) & (i - by >= 0) & (i - by < n) for the load, i < n for the store.",
    ),
    mutants={
        "one end only": ("(i - by >= 0) & ", ""),
        "the other way": ("i - by", "i + by"),
        "what has no partner is left as it was": (", mask=i < n)", ", mask=there)"),
        "round the end": ("x + i - by, mask=there", "x + (i - by) % n, mask=i < n"),
    },
)
def shift(t, shift):
    for n in t.sizes(64):
        for by in (t.integer(1, 40), -t.integer(1, 40), n + 3):
            x, out = t.floats(n), t.out(n)
            t.launch(shift, tt.cdiv(n, 64), x, out, n, by, BLOCK=64)
            want = np.zeros(n, np.float32)
            places = np.arange(n) - by
            there = (places >= 0) & (places < n)
            want[there] = x[places[there]]
            t.equal(out, want)


@exercise(
    "3.2",
    points=2,
    hints=(
        "lengths + row is an address: load the row's length and its start, two numbers, before anything else.",
        "The row's elements are at values + start + j, for j < length. The lanes beyond take part in the maximum.",
        'They must not change it: other=-float("inf"). That is right for an empty row, too.',
    ),
    mutants={
        "lanes that are off are 0": (', other=-float("inf")', ""),
        "one too many": ("j < tt.load", "j <= tt.load"),
        "all rows begin where the first does": ("tt.load(starts + row)", "tt.load(starts)"),
        "rows are BLOCK apart": ("tt.load(starts + row)", "row * BLOCK"),
    },
)
def greatest(t, greatest):
    for block in (16, 64):
        lengths = t.ints(0, block, 12)
        lengths[t.integer(1, 10)], lengths[0], lengths[-1] = 0, block, block - 3
        starts = (np.cumsum(lengths) - lengths).astype(np.int32)
        values, out = t.floats(int(lengths.sum())) - 5, t.out(12)
        t.launch(greatest, 12, values, starts, lengths, out, BLOCK=block)
        rows = [values[s : s + n] for s, n in zip(starts, lengths, strict=True)]
        t.equal(out, np.array([row.max(initial=-np.inf) for row in rows], np.float32))


@exercise(
    "3.3",
    points=2,
    hints=(
        "One number for the whole program: number = tt.load(ids + row). Where in the table does that row begin?",
        "At number * columns. For -1 that is before the table: the load needs a mask that is off for it, in all lanes.",
        "A comparison of a number, (number >= 0), can be combined with a tile's: (j < columns) & (number >= 0).",
    ),
    mutants={
        "row -1 is loaded": (" & (number >= 0)", ""),
        "out goes by the number, too": ("out + row * columns", "out + number * columns"),
        "rows of the table are BLOCK long": ("number * columns + j, mask", "number * BLOCK + j, mask"),
        "nothing is written for -1": ("x, mask=mask)", "x, mask=mask & (number >= 0))"),
    },
)
def pick(t, pick):
    for columns in t.sizes(32):
        rows, count = t.integer(5, 9), 7
        table, ids, out = t.floats(rows, columns), t.ints(-1, rows - 1, count), t.out(count, columns)
        ids[:3] = -1, rows - 1, 0
        t.launch(pick, (count, tt.cdiv(columns, 32)), table, ids, out, columns, BLOCK=32)
        t.equal(out, np.where(ids[:, None] >= 0, table[ids], np.float32(0)))


@exercise(
    "3.4",
    points=3,
    hints=(
        "First get it right with four strided loads, and look at what is counted. Where is the waste?",
        "A tile of BLOCK by 4, loaded as it lies in memory, 4 * i + k, is one piece. Its elements go to k * n + i.",
        "i is a column, (…)[:, None], and k = tt.arange(0, 4)[None, :] a row. The compiler turns the tile round,"
        " through shared memory, so that loads and stores are both in order.",
    ),
    mutants={
        "four strided loads": (
            "    tile = tt.load(points + 4 * i + k, mask=i < n)\n    tt.store(out + k * n + i, tile, mask=i < n)",
            "    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)\n"
            "    for m in tt.static_range(4):\n"
            "        tt.store(out + m * n + i, tt.load(points + 4 * i + m, mask=i < n), mask=i < n)",
        ),
        "planes are as long as the tile": ("k * n + i", "k * BLOCK + i"),
        "it only copies": ("out + k * n + i", "out + 4 * i + k"),
        "no mask on the store": ("tile, mask=i < n", "tile"),
    },
)
def planes(t, planes):
    for n in t.sizes(32):
        points, out = t.floats(n, 4), t.out(4, n)
        t.launch(planes, tt.cdiv(n, 32), points, out, n, BLOCK=32)
        t.equal(out, points.T)
    n = 4096
    c = t.count(planes, n // 256, t.floats(n, 4), t.out(4, n), n, BLOCK=256)
    least = 4 * n * 4 // 32
    for what, found in (("loads", c.sectors_loaded), ("stores", c.sectors_stored)):
        t.demand(found <= 1.1 * least, f"it {what} {found} sectors, where {least} are all that is wanted")
