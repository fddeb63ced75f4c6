"""Checks of project I."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "P1.1",
    points=1,
    hints=(
        "Run it in the interpreter, for 100 elements in tiles of 32.",
        "How many of the numbers 0, 1, 2, … are there below n, and how many up to n?",
        "The mask is i < n.",
    ),
    mutants={
        "one too few": ("mask = i < n\n", "mask = i < n - 1\n"),
        "the store has no mask": ("mask=mask), mask=mask)", "mask=mask))"),
        "no mask": ("mask = i < n\n", "mask = i >= 0\n"),
    },
)
def add(t, add):
    for n in t.sizes(64):
        x, y, out = t.floats(n), t.floats(n), t.out(n)
        t.launch(add, tt.cdiv(n, 64), x, y, out, n, BLOCK=64)
        t.equal(out, x + y)


@exercise(
    "P1.2",
    points=1,
    hints=(
        "Which element is wrong if all numbers are positive?",
        "The right neighbour of the last element is not there, and what a load gives instead is 0.",
        'other=float("inf"), which is smaller than nothing.',
    ),
    mutants={
        "a large number, but not large enough": ('float("inf")', "1.0"),
        "the last one is left out": (
            "tt.minimum(here, right), mask=i < n)",
            "tt.minimum(here, right), mask=i < n - 1)",
        ),
        "tiles do not see each other": ("i < n - 1,", "(i < n - 1) & (tt.arange(0, BLOCK) < BLOCK - 1),"),
    },
)
def smaller(t, smaller):
    for n, sign in zip(t.sizes(64), (1, -1, 1), strict=True):
        x, out = sign * (np.abs(t.floats(n)) + np.float32(2)), t.out(n)
        t.launch(smaller, tt.cdiv(n, 64), x, out, n, BLOCK=64)
        t.equal(out, np.minimum(x, np.append(x[1:], np.float32(np.inf))))


@exercise(
    "P1.3",
    points=2,
    hints=(
        "Where does row 1 of a matrix with 100 columns begin? Where does the kernel look for it?",
        "Row r begins at r * columns, the second piece of a row BLOCK columns further. The mask is about columns.",
        "j = piece * BLOCK + tt.arange(0, BLOCK); at = row * columns + j; mask = j < columns",
    ),
    mutants={
        "rows are right, pieces are not": ("j = piece * BLOCK + tt.arange(0, BLOCK)", "j = tt.arange(0, BLOCK)"),
        "pieces are right, rows are not": ("at = row * columns + j", "at = row * BLOCK * tt.num_programs(1) + j"),
        "the factor of the piece": ("factor + row", "factor + piece"),
    },
)
def scale_rows(t, scale_rows):
    for columns in t.sizes(32):
        rows = t.integer(4, 9)
        x, factor, out = t.floats(rows, columns), t.floats(max(rows, 6))[:rows], t.out(rows, columns)
        t.launch(scale_rows, (rows, tt.cdiv(columns, 32)), x, factor, out, columns, BLOCK=32)
        t.equal(out, factor[:, None] * x)


@exercise(
    "P1.4",
    points=2,
    hints=(
        "The last lane of a program reads what another program writes. Which of the two comes first?",
        "Nobody knows. So nothing that this launch writes may be read in it by another program.",
        "x is not written: load from x + (i + 1) % n.",
    ),
    mutants={
        "the last one looks behind the end": ("(i + 1) % n, mask=mask), mask=mask)", "i + 1, mask=mask), mask=mask)"),
        "to the right": ("tt.load(x + (i + 1) % n", "tt.load(x + (i - 1) % n"),
        "in each tile alone": (
            "tt.load(x + (i + 1) % n",
            "tt.load(x + tt.program_id(0) * BLOCK + (tt.arange(0, BLOCK) + 1) % BLOCK",
        ),
    },
)
def rotate(t, rotate):
    for n in t.sizes(64):
        x, out = t.floats(n), t.out(n)
        t.launch(rotate, tt.cdiv(n, 64), x, out, n, BLOCK=64)
        t.equal(out, np.roll(x, -1))


@exercise(
    "P1.5",
    points=2,
    hints=(
        "k counts the elements of out, i those of x and y. Ask of each line which of them it means.",
        "The store goes to out, so it goes by k. And 2 * n is the number of elements of what?",
        "mask = k < 2 * n, and tt.store(out + k, …).",
    ),
    mutants={
        "the mask alone": ("tt.store(out + k", "tt.store(out + i"),
        "the store alone": ("mask = k < 2 * n", "mask = i < 2 * n"),
        "y comes first": ("even = k % 2 == 0", "even = k % 2 == 1"),
    },
)
def interleave(t, interleave):
    for n in t.sizes(32):
        x, y, out = t.floats(n), t.floats(n), t.out(2 * n)
        t.launch(interleave, tt.cdiv(2 * n, 64), x, y, out, n, BLOCK=64)
        t.equal(out, np.stack([x, y], axis=1).ravel())
