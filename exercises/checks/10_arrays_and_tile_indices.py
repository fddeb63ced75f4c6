"""Checks of the exercises to chapter 10."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "10.1",
    points=1,
    hints=(
        "ct.bid(0) and ct.bid(1) are the numbers of the program's tile, and ct.load takes just these as its index.",
        "index=(i, j), shape=(M, N) for both loads, index=(i, j) for the store. There is no mask to write.",
        "ct.store(out, index=(i, j), tile=w * a + (1 - w) * b)",
    ),
    mutants={
        "the index counts elements": ("ct.bid(0), ct.bid(1)", "ct.bid(0) * M, ct.bid(1) * N"),
        "the axes are mixed up": ("ct.bid(0), ct.bid(1)", "ct.bid(1), ct.bid(0)"),
        "the first row of tiles only": ("ct.bid(0), ct.bid(1)", "0, ct.bid(1)"),
        "weights are swapped": ("w * a + (1 - w) * b", "w * b + (1 - w) * a"),
    },
)
def blend(t, blend):
    for rows, columns, m, n in ((t.size(4, 3), t.size(8, 2), 4, 8), (t.size(8, 2), t.size(4, 5), 8, 4)):
        w, x, y, out = t.number() / 10, t.floats(rows, columns), t.floats(rows, columns), t.out(rows, columns)
        t.launch(blend, (tt.cdiv(rows, m), tt.cdiv(columns, n)), x, y, out, w, m, n)
        t.close(out, np.float32(w) * x + np.float32(1 - w) * y)
        back = t.out(rows, columns)
        t.launch(blend, (tt.cdiv(rows, m), tt.cdiv(columns, n)), x[::-1], y, back, w, m, n)
        t.close(back, np.float32(w) * x[::-1] + np.float32(1 - w) * y)


@exercise(
    "10.2",
    points=2,
    hints=(
        "Two things turn: the tile, and where it goes.",
        "ct.transpose(tile) makes N by M of M by N. The tile (i, j) of x becomes the tile (j, i) of out.",
        "ct.store(out, index=(j, i), tile=ct.transpose(tile))",
    ),
    mutants={
        "the place is not turned": ("index=(j, i)", "index=(i, j)"),
        "the tile is reshaped": ("ct.transpose(tile)", "ct.reshape(tile, (N, M))"),
        "the index counts elements": ("index=(j, i)", "index=(j * N, i * M)"),
    },
)
def turn(t, turn):
    for rows, columns, m, n in ((t.size(4, 3), t.size(8, 2), 4, 8), (t.size(8, 2), t.size(4, 6), 8, 4)):
        x, out = t.floats(rows, columns), t.out(columns, rows)
        t.launch(turn, (tt.cdiv(rows, m), tt.cdiv(columns, n)), x, out, m, n)
        t.equal(out, x.T)


@exercise(
    "10.3",
    points=2,
    hints=(
        "ct.prod multiplies what is in the tile, padding and all. What must the padding be, not to matter?",
        "ct.where(mask, tile, 1.0) puts a 1 where the mask is off. The mask is on where there is a column.",
        "ct.arange(SIZE_P, dtype=ct.int32)[None, :] < x.shape[1] is that mask, for a tile of shape (1, SIZE_P).",
    ),
    mutants={
        "padding is 0": ("ct.where(real, tile, 1.0)", "tile"),
        "the last column is lost": ("< x.shape[1]", "< x.shape[1] - 1"),
        "it is the sum": ("ct.prod(ct.where(real, tile, 1.0))", "ct.sum(tile)"),
        "the first row for all": ("index=(row, 0)", "index=(0, 0)"),
    },
)
def products(t, products):
    for columns, size in ((t.integer(5, 7), 8), (t.integer(9, 15), 16), (16, 16)):
        rows = t.integer(4, 9)
        x, out = t.floats(rows, columns), t.out(rows)
        x = np.where(abs(x) < 0.2, np.float32(1.5), x)
        t.launch(products, (rows,), x, out, size)
        t.close(out, x.astype(np.float64).prod(1))


@exercise(
    "10.4",
    points=3,
    hints=(
        "The sum is right with padding of 0, the mean if it is divided by SIZE. What does padding add to the variance?",
        "x - mean is -mean in the padding. Put a 0 there before it is squared: ct.where(real, tile - mean, 0.0).",
        "real = ct.arange(SIZE_P, dtype=ct.int32)[None, :] < x.shape[1]; sums with axis=1, keepdims=True, over SIZE.",
    ),
    mutants={
        "padding counts in the variance": ("ct.where(real, tile - mean, 0.0)", "tile - mean"),
        "the mean of the tile": (
            "mean = ct.sum(tile, axis=1, keepdims=True) / SIZE",
            "mean = ct.sum(tile, axis=1, keepdims=True) / SIZE_P",
        ),
        "one mean for all rows": ("mean = ct.sum(tile, axis=1, keepdims=True)", "mean = ct.sum(tile) / ROWS"),
        "the root is missing": ("ct.sqrt(variance + 1e-5)", "(variance + 1e-5)"),
    },
)
def standardise(t, standardise):
    for columns, size in ((t.integer(5, 7), 8), (t.integer(17, 30), 32), (32, 32)):
        rows = t.size(4, 3)
        x = t.floats(rows, columns) * np.float32(3) + t.floats(rows, 1)
        out = t.out(rows, columns)
        t.launch(standardise, (tt.cdiv(rows, 4),), x, out, columns, size, 4)
        exact = x.astype(np.float64)
        away = exact - exact.mean(1, keepdims=True)
        t.close(out, away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5), rtol=1e-4, atol=1e-5)
