"""Checks of the exercises to chapter 12."""

import numpy as np

import tinyton as tt
from exercises.book import exercise

SHAPES = ((17, 30, 32), (65, 120, 128), (64, 64, 64))  # the fewest columns, the most, the tile


@exercise(
    "12.1",
    points=1,
    hints=(
        "float16 ends at 65504. What is the square of 300?",
        "Convert on loading, .to(tt.float32), and compute in that; the store converts back.",
        "scale = tt.rsqrt(tt.sum(v * v, 0) / cols + eps), and the weight is 1 + w, in float32 as well.",
    ),
    mutants={
        "squares are in float16": ("mask=j < cols).to(tt.float32)\n    scale", "mask=j < cols)\n    scale"),
        "the mean is of the tile": ("/ cols + eps", "/ BLOCK + eps"),
        "weights as they are": ("1 + tt.load(w", "0 + tt.load(w"),
        "epsilon after the root": (
            "tt.rsqrt(tt.sum(v * v, 0) / cols + eps)",
            "1 / (tt.sqrt(tt.sum(v * v, 0) / cols) + eps)",
        ),
    },
)
def rmsnorm_half(t, rmsnorm_half):
    for low, high, block in SHAPES:
        rows, cols = t.integer(4, 9), t.integer(low, high)
        x, w, out = t.floats(rows, cols), t.floats(cols, dtype=np.float16), t.out(rows, cols, dtype=np.float16)
        size = 10.0 ** t.rng.uniform(-2, 2.4, (rows, 1))
        x = np.clip(x * size, -1000, 1000).astype(np.float16)
        x[0] *= np.float16(400 / abs(x[0]).max())
        t.launch(rmsnorm_half, rows, x, w, out, cols, 0.25, BLOCK=block)
        exact = x.astype(np.float64)
        want = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 0.25) * (1 + w.astype(np.float64))
        t.close(out, want, rtol=2e-3, atol=1e-3)


@exercise(
    "12.2",
    points=2,
    hints=(
        "The sum of x and residual is in a tile. It goes to memory once, and it is still in the tile afterwards.",
        "Store the tile to h, and go on with the tile: nothing needs to be loaded from h.",
        "v = x + residual; store v to h; scale = tt.rsqrt(tt.sum(v * v, 0) / cols + 1e-5); store v * scale * w.",
    ),
    mutants={
        "h is read again": ("scale = tt.rsqrt(", "v = tt.load(h + at, mask=mask)\n    scale = tt.rsqrt("),
        "x alone is normalised": ("scale = tt.rsqrt(", "v = tt.load(x + at, mask=mask)\n    scale = tt.rsqrt("),
        "the sum is not stored": ("    tt.store(h + at, v, mask=mask)\n", ""),
    },
)
def add_rmsnorm(t, add_rmsnorm):
    for low, high, block in SHAPES:
        rows, cols = t.integer(4, 9), t.integer(low, high)
        x, residual, w = t.floats(rows, cols), t.floats(rows, cols), t.floats(cols)
        h, out = t.out(rows, cols), t.out(rows, cols)
        t.launch(add_rmsnorm, rows, x, residual, w, h, out, cols, BLOCK=block)
        t.equal(h, x + residual)
        exact = (x + residual).astype(np.float64)
        t.close(out, exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-5) * w, rtol=1e-4, atol=1e-5)
        read, least = t.count(add_rmsnorm, rows, x, residual, w, h, out, cols, BLOCK=block).bytes_loaded, 3 * x.nbytes
        t.demand(read == least, f"{read} bytes are loaded, and not the {least} of x, residual, and w for each row")


@exercise(
    "12.3",
    points=2,
    hints=(
        "Begin with v, the normalised row, and g = dy * w, what arrives there.",
        "From g, take away its mean, and v times the mean of g * v. The whole is divided by s, that is, times rstd.",
        "(g - tt.sum(g, 0) / cols - v * (tt.sum(g * v, 0) / cols)) * scale. Where g is 0, padding does not count.",
    ),
    mutants={
        "the mean of g stays": (" - tt.sum(g, 0) / cols", ""),
        "means over the tile": ("/ cols", "/ BLOCK"),
        "without the weight": (" * tt.load(w + j, mask=mask)", ""),
        "not divided by s": (" * scale\n    tt.store", "\n    tt.store"),
    },
)
def layernorm_dx(t, layernorm_dx):
    for low, high, block in SHAPES:
        rows, cols = t.integer(4, 9), t.integer(low, high)
        x, dy, w = t.floats(rows, cols) * np.float32(2) + t.floats(rows, 1), t.floats(rows, cols), t.floats(cols)
        exact = x.astype(np.float64)
        mean = exact.mean(1)
        rstd = 1 / np.sqrt(exact.var(1) + 1e-5)
        v, g = (exact - mean[:, None]) * rstd[:, None], dy * w.astype(np.float64)
        dx = t.out(rows, cols)
        saved = mean.astype(np.float32), rstd.astype(np.float32)
        t.launch(layernorm_dx, rows, dy, x, w, *saved, dx, cols, BLOCK=block)
        want = (g - g.mean(1, keepdims=True) - v * (g * v).mean(1, keepdims=True)) * rstd[:, None]
        t.close(dx, want, rtol=1e-4, atol=1e-5)


@exercise(
    "12.4",
    points=3,
    hints=(
        "A program's rows are p, p + P, p + 2P, ..., where P is tt.num_programs(0). Its sums stay in a tile of zeros.",
        "for row in range(p, rows, tt.num_programs(0)): add the row to the tile. Store it once, after the loop.",
        "The second kernel loops over tiles of ROWS rows of parts, masked by start + i < P and j < cols.",
    ),
    mutants={
        "every program adds all rows": ("range(p, rows, tt.num_programs(0))", "range(0, rows)"),
        "the mean of the parts": ("/ rows, mask", "/ P, mask"),
        "one tile of the parts": ("range(0, P, ROWS)", "range(0, 1, ROWS)"),
        "the first columns only": ("tt.program_id(0) * COLS + tt.arange(0, COLS)", "tt.arange(0, COLS)"),
    },
)
def column_means(t, part_sums, column_means):
    for rows, cols, programs in ((t.integer(30, 50), t.size(8, 5), 7), (t.integer(9, 20), t.size(8, 3), 5)):
        x, parts, out = t.floats(rows, cols), t.out(programs, cols), t.out(cols)
        block = tt.next_power_of_2(cols)
        t.launch(part_sums, programs, x, parts, rows, cols, BLOCK=block)
        t.launch(column_means, tt.cdiv(cols, 8), parts.array, out, programs, rows, cols, ROWS=4, COLS=8)
        t.close(out, x.astype(np.float64).mean(0), rtol=1e-4, atol=1e-5)
        read = t.count(part_sums, programs, x, parts, rows, cols, BLOCK=block).bytes_loaded
        t.demand(read == x.nbytes, f"part_sums loads {read} bytes, and not the {x.nbytes} that x has")
