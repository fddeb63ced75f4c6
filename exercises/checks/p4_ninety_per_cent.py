"""Checks of project IV."""

import numpy as np

from exercises.book import exercise


def ninety(t, kernel, grid, needed, *args, **meta):
    """Demands that a launch moves no more than the bytes needed in whole sectors, and a ninth of that."""
    moved, least = t.count(kernel, grid, *args, **meta).sectors, -(-needed // 32)
    t.demand(least >= 0.9 * moved, f"it moves {moved:,} sectors, not the {least:,} that would do: {least / moved:.0%}")


@exercise(
    "P4.1",
    points=1,
    hints=(
        "The three numbers of a pixel are neighbours, and so are the pixels. Only your tile is not.",
        "Load a tile of two dimensions, pixels by colours, whose lanes walk through memory. Extents are powers of two.",
        "Four colours, of which the last is masked off. Multiply by a row of weights, and sum along axis 1.",
    ),
    mutants={
        "the colours are mixed up": ("colour == 0, 0.3", "colour == 1, 0.3", "colour == 1, 0.6", "colour == 0, 0.6"),
        "everything twice": (
            "v = tt.load(",
            "v = 0 * tt.load(x + 3 * i[:, None] + colour[None, :], mask=inside) + tt.load(",
        ),
        "the fourth colour is the next red": (" & (colour < 3)[None, :]", " & (colour < 4)[None, :]"),
        "no mask on the store": ("weight[None, :], 1), mask=i < n)", "weight[None, :], 1))"),
    },
)
def grey(t, grey):
    for n in t.sizes(64):
        x, out = t.floats(n, 3), t.out(n)
        t.launch(grey, -(-n // 64), x, out, n, BLOCK=64)
        t.close(out, (x.astype(np.float64) * [0.3, 0.6, 0.1]).sum(axis=1))
    n = 1000
    ninety(t, grey, -(-n // 64), 16 * n, t.floats(n, 3), np.zeros(n, np.float32), n, BLOCK=64)


@exercise(
    "P4.2",
    points=2,
    hints=(
        "One column at a time asks for a sector in each row, for four bytes of it. What else is in that sector?",
        "A tile of ROWS by BN, loaded once. The sums go along axis 0 and give a row of BN numbers.",
        "What is behind the last row must not count in the second sum: tt.where(inside, v - mean[None, :], 0.0).",
    ),
    mutants={
        "the padding counts": (
            "d = tt.where(inside, v - tt.sum(v, 0)[None, :] / rows, 0.0)",
            "d = v - tt.sum(v, 0)[None, :] / rows",
        ),
        "by row": ("tt.sum(v, 0)[None, :]", "tt.sum(v, 1)[:, None]"),
        "a second look": ("tt.store(out", "d += 0 * tt.load(x + i * cols + j, mask=inside)\n    tt.store(out"),
        "epsilon is forgotten": (" + 1e-5", ""),
    },
)
def standardise(t, standardise):
    for cols in t.sizes(16):
        rows = t.integer(20, 32)
        x, out = (
            (t.floats(rows, cols) * t.rng.choice([1, 30, 0.003], cols) + t.floats(cols)).astype(np.float32),
            t.out(rows, cols),
        )
        t.launch(standardise, -(-cols // 16), x, out, rows, cols, ROWS=32, BN=16)
        wide = x.astype(np.float64)
        t.close(out, (wide - wide.mean(axis=0)) / np.sqrt(wide.var(axis=0) + 1e-5), rtol=1e-3, atol=1e-3)
    x = t.floats(50, 208)
    ninety(t, standardise, 13, 2 * x.nbytes, x, np.zeros_like(x), 50, 208, ROWS=64, BN=16)


@exercise(
    "P4.3",
    points=3,
    hints=(
        "What is below in this round is here in the next, and above in the one after that.",
        "A tile that is set before a loop and again in it is carried from round to round. Two of them are needed.",
        "Load only below; after the store: above, here = here, below. Before the loop: zeros, and the first row.",
    ),
    mutants={
        "the row above is the row itself": ("above, here = here, below", "above, here = below, below"),
        "it keeps what it should pass on": ("above, here = here, below", "here = below"),
        "the last row looks behind the end": ("(j < cols) & (i + 1 < rows)", "j < cols"),
        "here is loaded as well": (
            "(above + here + below)",
            "(above + tt.load(x + i * cols + j, mask=j < cols) + below)",
        ),
    },
)
def blur(t, blur):
    for cols in t.sizes(64):
        rows = t.integer(3, 9)
        x, out = t.floats(rows, cols), t.out(rows, cols)
        t.launch(blur, -(-cols // 64), x, out, rows, cols, BN=64)
        padded = np.pad(x, ((1, 1), (0, 0)))
        t.equal(out, (padded[:-2] + padded[1:-1] + padded[2:]) / np.float32(3))
    x = t.floats(20, 768)
    ninety(t, blur, 3, 2 * x.nbytes, x, np.zeros_like(x), 20, 768, BN=256)
