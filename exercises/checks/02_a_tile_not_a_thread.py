"""Checks of the exercises to chapter 2."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "2.1",
    points=1,
    hints=(
        "Program 0 does the elements from 0 on, program 1 those from BLOCK on. Which does program p do?",
        "i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK) is a tile of them. The last ones may be beyond n.",
        "mask = i < n goes into both loads and the store. The rest is arithmetic: a number times a tile is a tile.",
    ),
    mutants={
        "every program does the first tile": ("tt.program_id(0) * BLOCK + ", ""),
        "no mask on the store": ("line, mask=mask", "line"),
        "a mask that is one too long": ("i < n", "i <= n"),
        "a is left out": ("a * tt.load", "tt.load"),
    },
)
def saxpy(t, saxpy):
    for n in t.sizes(64):
        a, x, y, out = t.number(), t.floats(n), t.floats(n), t.out(n)
        t.launch(saxpy, tt.cdiv(n, 64), a, x, y, out, n, BLOCK=64)
        t.equal(out, np.float32(a) * x + y)


@exercise(
    "2.2",
    points=1,
    hints=(
        "Where does element i of x go? Try n = 3 on paper.",
        "Element i goes to n - 1 - i. That is a tile of places like any other.",
        "Load from x + i, store to out + n - 1 - i, both with the mask i < n.",
    ),
    mutants={
        "backwards in each tile only": ("out + n - 1 - i", "out + tt.program_id(0) * 2 * BLOCK + BLOCK - 1 - i"),
        "one too far": ("n - 1 - i", "n - i"),
        "forwards": ("out + n - 1 - i", "out + i"),
        "no mask on the store": ("mask=mask), mask=mask)", "mask=mask))"),
    },
)
def reverse(t, reverse):
    for n in t.sizes(32):
        x, out = t.floats(n), t.out(n)
        t.launch(reverse, tt.cdiv(n, 32), x, out, n, BLOCK=32)
        t.equal(out, x[::-1])


@exercise(
    "2.3",
    points=2,
    hints=(
        "There are two numbers of a program: tt.program_id(0) is its row, tt.program_id(1) which piece of the row.",
        "Columns are a tile j, as i was before. Element (row, j) is number row * columns + j of the matrix.",
        "bias is loaded at j, x and out at row * columns + j. The mask is about columns: j < columns.",
    ),
    mutants={
        "the axes are mixed up": ("tt.program_id(0)", "tt.program_id(2)"),
        "a row is as long as its tiles": ("row * columns", "row * BLOCK * tt.num_programs(1)"),
        "bias by row": ("tt.load(bias + j, mask=mask)", "tt.load(bias + row)"),
        "no mask": ("mask = j < columns", "mask = j >= 0"),
    },
)
def add_bias(t, add_bias):
    for columns in t.sizes(32):
        rows = t.integer(5, 9)
        x, bias, out = t.floats(rows, columns), t.floats(max(rows, columns))[:columns], t.out(rows, columns)
        t.launch(add_bias, (rows, tt.cdiv(columns, 32)), x, bias, out, columns, BLOCK=32)
        t.equal(out, x + bias)


@exercise(
    "2.4",
    points=3,
    hints=(
        "Three loads, at i - 1, i and i + 1, each with a mask of its own. What does a load give where that is off?",
        "Zero, which adds nothing. The left neighbour exists if 0 < i (and i < n), the right one if i < n - 1.",
        "Count the neighbours as numbers: mask.to(tt.float32) is 1.0 where a mask is on. Divide by 1 + left + right.",
    ),
    mutants={
        "the ends are divided by three, too": ("count = 1 + left.to(tt.float32) + right.to(tt.float32)", "count = 3.0"),
        "looks before the beginning": ("mask & (i > 0)", "mask"),
        "looks behind the end": ("right = i < n - 1", "right = mask"),
        "tiles do not see each other": ("(i > 0)", "(tt.arange(0, BLOCK) > 0)"),
    },
)
def smooth(t, smooth):
    for n in [*t.sizes(64), 2]:
        x, out = t.floats(n), t.out(n)
        t.launch(smooth, tt.cdiv(n, 64), x, out, n, BLOCK=64)
        padded = np.pad(x, 1)
        count = np.full(n, 3, np.float32)
        count[0] = count[-1] = 2
        t.equal(out, (padded[:-2] + padded[1:-1] + padded[2:]) / count)
