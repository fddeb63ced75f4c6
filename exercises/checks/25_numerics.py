"""Checks of the exercises to chapter 25."""

import numpy as np

from exercises.book import exercise


@exercise(
    "25.1",
    points=1,
    hints=(
        "Between 1 and 2 the distance is 2.0**-fraction. And between 2 and 4? Between 0.5 and 1?",
        "Between 2**k and 2**(k + 1) it is 2.0**(k - fraction). frexp's e is k + 1.",
        "Below 2.0**lowest, k stays lowest: max(e - 1, lowest).",
    ),
    mutants={
        "frexp's e is the exponent": ("max(e - 1, lowest)", "max(e, lowest)"),
        "no smallest": ("max(e - 1, lowest)", "e - 1"),
        "as everywhere": ("2.0 ** (max(e - 1, lowest) - fraction)", "2.0 ** -fraction"),
    },
)
def gap(t, gap):
    for dtype, fraction, lowest in ((np.float16, 10, -14), (np.float32, 23, -126), (np.float64, 52, -1022)):
        for _ in range(12):
            exponent = t.integer(lowest - 6, lowest + 2) if t.rng.random() < 0.4 else t.integer(-9, 14)
            x = dtype(t.rng.uniform(1, 2) * 2.0**exponent)
            t.same(gap(float(x), fraction, lowest), float(np.spacing(x)))
        t.same(gap(2.0**5, fraction, lowest), 2.0 ** (5 - fraction))
    for k in range(-10, 10):  # bfloat16
        x = (1 + t.integer(0, 127) / 128) * 2.0**k
        t.same(gap(x, 7, -126), 2.0 ** (k - 7))


@exercise(
    "25.2",
    points=2,
    hints=(
        "Convert what was loaded before anything is done with it.",
        "The type of the total is what it begins with: tt.zeros((BLOCK,), tt.float32).",
        "In a loop over tiles: total += a * b, both float32; after it one tt.sum.",
    ),
    mutants={
        "a product in float16": ("total += a * b", "total += (a.to(tt.float16) * b.to(tt.float16)).to(tt.float32)"),
        "a total in float16": ("total += a * b", "total = (total + a * b).to(tt.float16).to(tt.float32)"),
        "the first tile only": ("range(0, cols, BLOCK)", "range(0, 1, BLOCK)"),
        "no mask": ("mask=start + j < cols", "mask=start + j >= 0"),
    },
)
def row_dots(t, row_dots):
    for cols in (*t.sizes(64), 700):
        rows = t.integer(3, 6)
        x, y = (t.floats(rows, cols, dtype=np.float16) for _ in range(2))
        if cols == 700:
            x, y = (np.abs(400 * v).astype(np.float16) for v in (x, y))
        out = t.out(rows)
        t.launch(row_dots, rows, x, y, out, cols, BLOCK=64)
        want = (x.astype(np.float64) * y.astype(np.float64)).sum(axis=1)
        scale = np.abs(x.astype(np.float64) * y.astype(np.float64)).sum(axis=1).max()
        t.close(out, want, rtol=0, atol=2e-6 * scale)


@exercise(
    "25.3",
    points=2,
    hints=(
        "The mean first, in a loop of its own. Then a second loop for the distances.",
        "What a masked load gives behind the end is 0, and its distance from the mean is large. Is it counted?",
        "squares += tt.where(start + j < cols, distance * distance, 0.0), and in the end the sum over cols.",
    ),
    mutants={
        "one pass": (
            "mask=start + j < cols) - mean",
            "mask=start + j < cols)",
            "tt.sum(squares, 0) / cols",
            "tt.sum(squares, 0) / cols - mean * mean",
        ),
        "the padding counts": ("tt.where(start + j < cols, distance * distance, 0.0)", "distance * distance"),
        "cols - 1": ("tt.sum(squares, 0) / cols", "tt.sum(squares, 0) / (cols - 1)"),
        "the mean of the first tile": ("total += tt.load", "total = tt.load"),
    },
)
def row_variance(t, row_variance):
    for cols in t.sizes(64):
        rows = t.integer(3, 6)
        means = t.rng.uniform(-1, 1, (rows, 1)) * np.array([1, 3000, 10_000, 1, 500, 0])[:rows, None]
        x, out = (t.floats(rows, cols) + means).astype(np.float32), t.out(rows)
        t.launch(row_variance, rows, x, out, cols, BLOCK=64)
        t.close(out, x.astype(np.float64).var(axis=1), rtol=1e-4, atol=1e-6)


@exercise(
    "25.4",
    points=3,
    hints=(
        "Two tiles are carried through the loop: total and lost, both zeros at first.",
        "term is what is loaded plus lost. new = total + term. What of term is missing in new - total?",
        "lost = term - (new - total), and then total = new.",
    ),
    mutants={
        "a plain sum": ("mask=j < cols) + lost", "mask=j < cols)"),
        "the wrong way round": ("lost = term - (new - total)", "lost = (new - total) - term"),
        "float64 instead": ("tt.zeros((BLOCK,), tt.float32)", "tt.zeros((BLOCK,), tt.float64)"),
        "no mask on the store": ("total, mask=j < cols", "total"),
    },
)
def column_sums(t, column_sums):
    for cols in (70, t.integer(130, 180), 5):
        rows = 600
        x, out = (1e-4 * t.rng.uniform(0.5, 1, (rows, cols))).astype(np.float32), t.out(cols)
        x[0] = t.rng.uniform(1000, 2000, cols)
        t.launch(column_sums, -(-cols // 64), x, out, rows, cols, BLOCK=64)
        t.short(column_sums, x, out, rows, cols, BLOCK=64)
        t.close(out, x.sum(axis=0, dtype=np.float64), rtol=2.0**-22, atol=0)
