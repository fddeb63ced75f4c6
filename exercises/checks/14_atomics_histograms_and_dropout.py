"""Checks of the exercises to chapter 14."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "14.1",
    points=1,
    hints=(
        "A comparison gives a tile of truth values. As int32 they are 0 and 1, and can be added up.",
        "tt.atomic_add(count, number) adds to what is there already, for all programs. A store would not.",
        "Beyond n a load gives 0, and 0 is above a negative limit: take i < n into the comparison as well.",
    ),
    mutants={
        "a store": ("tt.atomic_add(count, ", "tt.store(count, tt.load(count) + "),
        "zeros beyond the end are counted": (" & (i < n)", ""),
        "or equal": ("> limit", ">= limit"),
        "each element for itself": (
            "tt.atomic_add(count, tt.sum(found.to(tt.int32)))",
            "tt.atomic_add(count + 0 * i, found.to(tt.int32))",
        ),
    },
)
def above(t, above):
    for n in t.sizes(64):
        for limit in (-1.0, 0.5):
            x, count = t.ints(-4, 4, n).astype(np.float32) / 4, t.out(data=np.full(1, 7, np.int32))
            t.launch(above, tt.cdiv(n, 64), x, count, n, limit, BLOCK=64)
            t.equal(count, np.full(1, 7 + (x > limit).sum(), np.int32))
    c = t.count(above, 4, t.floats(256), np.zeros(1, np.int32), 256, 0.5, BLOCK=64)
    t.demand(c.bytes_stored <= 16, f"four programs go to the shared place {c.bytes_stored // 4} times, not 4")


@exercise(
    "14.2",
    points=2,
    hints=(
        "The bin of an element is tt.floor((v - low) / width).to(tt.int32). tt.histogram leaves out what is in no bin.",
        "Carry counts, a tile of BINS zeros of int32, round a loop over the program's tiles, and add each histogram.",
        "Lanes beyond n are 0, which may be in a bin: tt.histogram takes a mask. After the loop, one tt.atomic_add of"
        " counts to bins + tt.arange(0, BINS).",
    ),
    mutants={
        "zeros beyond the end are counted": (", BINS, mask=i < n)", ", BINS)"),
        "one tile a program": ("n, tt.num_programs(0) * BLOCK", "tt.program_id(0) * BLOCK + 1, BLOCK"),
        "towards zero": ("tt.floor((v - low) / width)", "((v - low) / width)"),
        "to the shared place in every round": (
            "        counts += tt.histogram(k, BINS, mask=i < n)\n",
            "        counts = tt.histogram(k, BINS, mask=i < n)\n"
            "        tt.atomic_add(bins + tt.arange(0, BINS), counts)\n        counts = counts * 0\n",
        ),
    },
)
def spread(t, spread):
    for n in t.sizes(64):
        for programs in (3, tt.cdiv(n, 64)):
            x, bins = t.floats(n), t.out(data=t.ints(0, 5, 16))
            before = bins.array.copy()
            low, width = np.float32(-1.25), np.float32(0.25)
            t.launch(spread, programs, x, bins, n, float(low), float(width), BINS=16, BLOCK=64)
            k = np.floor((x - low) / width).astype(int)
            t.equal(bins, before + np.bincount(k[(k >= 0) & (k < 16)], minlength=16).astype(np.int32))
    c = t.count(spread, 2, t.floats(512), np.zeros(16, np.int32), 512, -1.0, 0.25, BINS=16, BLOCK=64)
    t.demand(c.bytes_stored <= 2 * 16 * 4, f"two programs go to 16 shared places {c.bytes_stored // 4} times, not 32")


@tt.jit
def uniform(out, seed, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store(out + i, tt.rand(seed, i), mask=i < n)


@exercise(
    "14.3",
    points=2,
    hints=(
        "All rows must draw the same number for a column. What may the second argument of tt.rand depend on?",
        "On j alone, the column in the whole matrix: not on the row, and not only on the lane.",
        "tt.where(tt.rand(seed, j) >= p, v / (1 - p), 0.0)",
    ),
    mutants={
        "each element for itself": ("tt.rand(seed, j)", "tt.rand(seed, row * columns + j)"),
        "the same in every tile": ("tt.rand(seed, j)", "tt.rand(seed, tt.arange(0, BLOCK))"),
        "the wrong ones": (">= p", "< p"),
        "nothing is made larger": ("v / (1 - p)", "v"),
    },
)
def drop_columns(t, drop_columns):
    for columns in t.sizes(32):
        rows, p, seed = t.integer(4, 7), round(0.2 + 0.5 * float(t.rng.random()), 2), t.integer(1, 10**6)
        x, out, drawn = t.floats(rows, columns), t.out(rows, columns), np.zeros(columns, np.float32)
        t.launch(drop_columns, (rows, tt.cdiv(columns, 32)), x, out, columns, p, seed, BLOCK=32)
        uniform[1](drawn, seed, columns, BLOCK=256)
        t.close(out, np.where(drawn >= np.float32(p), x / np.float32(1 - p), np.float32(0)))


@exercise(
    "14.4",
    points=3,
    hints=(
        "Three steps: leave the part, take a ticket with tt.atomic_add, and, if it is the last ticket, add up.",
        "Tickets are 0, 1, 2, … in the order in which programs come. The last one is tt.num_programs(0) - 1.",
        "if ticket == tt.num_programs(0) - 1: load all parts as one tile of PROGRAMS, with a mask for those that there"
        " are, and store their sum.",
    ),
    mutants={
        "the last program adds up, ready or not": ("tt.atomic_add(counter, 1)", "tt.program_id(0)"),
        "the last ticket but one": ("tt.num_programs(0) - 1", "tt.num_programs(0) - 2"),
        "parts that there are not": (", mask=k < tt.num_programs(0)", ""),
        "the ticket comes first": (
            "    tt.store(parts",
            "    ticket = tt.atomic_add(counter, 1)\n    tt.store(parts",
            "    ticket = tt.atomic_add(counter, 1)\n    if",
            "    if",
        ),
    },
)
def total(t, total):
    for n in t.sizes(32):
        programs = tt.cdiv(n, 32)
        x = t.ints(-(10**8), 10**8, n)
        parts, counter, out = (
            t.out(programs, dtype=np.int32),
            t.out(data=np.zeros(1, np.int32)),
            t.out(1, dtype=np.int32),
        )
        t.launch(total, programs, x, parts, counter, out, n, PROGRAMS=8, BLOCK=32)
        t.equal(out, x.sum(dtype=np.int32, keepdims=True))
        t.equal(counter, np.full(1, programs, np.int32))
