"""Checks of the exercises to chapter 13."""

import numpy as np

from exercises.book import exercise


@exercise(
    "13.1",
    points=1,
    hints=(
        "A loop over the row, tile after tile: for start in range(0, n, BLOCK).",
        "Carry a sum, or a tile of sums that is added up at the end. The last tile of a row needs its mask.",
        "What is off adds 0, so the sum is right. Divide it by the number of elements, not of lanes.",
    ),
    mutants={
        "divided by the lanes": ("/ n)", "/ (tt.cdiv(n, BLOCK) * BLOCK))"),
        "the first tile only": ("range(0, n, BLOCK)", "range(0, BLOCK, BLOCK)"),
        "without the last part": ("range(0, n, BLOCK)", "range(0, n - BLOCK + 1, BLOCK)"),
        "into the next row": (", mask=start + j < n", ""),
    },
)
def means(t, means):
    for n in t.sizes(32):
        x, out = t.floats(5, n), t.out(5)
        t.launch(means, 5, x, out, n, BLOCK=32)
        t.close(out, x.mean(axis=1, dtype=np.float64).astype(np.float32))


@exercise(
    "13.2",
    points=2,
    hints=(
        "Chapter 13's compensated chain does it with numbers. The same lines work on tiles.",
        "v = what is loaded - lost; new = sums + v. What of v has arrived in new is new - sums.",
        "lost = (new - sums) - v, which is what has arrived too much; so it is subtracted in the next round.",
    ),
    mutants={
        "float64 instead": ("tt.zeros(BLOCK, tt.float32)", "tt.zeros(BLOCK, tt.float64)"),
        "the sign is wrong": ("lost = (new - sums) - v", "lost = v - (new - sums)"),
        "kept, but not used": (") - lost\n", ")\n"),
        "sums are carried one by one": ("tt.store(out + row, tt.sum(sums))", "tt.store(out + row, tt.max(sums))"),
    },
)
def steady(t, steady):
    rounds = t.integer(150, 220)
    n = 16 * rounds
    x = np.ones((4, n), np.float32)
    x[np.arange(4), t.ints(0, 15, 4)] = np.float32(2.0**25)
    out = t.out(4)
    t.launch(steady, 4, x, out, n, BLOCK=16)
    t.short(steady, x, out, n, BLOCK=16)
    t.close(out, x.sum(axis=1, dtype=np.float64).astype(np.float32), rtol=2e-6, atol=0)


@exercise(
    "13.3",
    points=2,
    hints=(
        "In one tile it is a scan. What does a tile need to know of all tiles before it? One number.",
        "The greatest so far goes round the loop. It begins as minus infinity, and so are lanes that are off.",
        "running = tt.maximum(scan, before) is what is stored; the next before is tt.max(running).",
    ),
    mutants={
        "tiles know nothing of each other": (", before)\n", ', -float("inf"))\n'),
        "only the tile before": ("before = tt.max(running)", "before = tt.max(v)"),
        "it begins at 0": ('before = -float("inf")', "before = 0.0"),
        "one maximum for all": ("tt.associative_scan(v, 0, larger)", "tt.max(v) + tt.zeros(BLOCK, tt.float32)"),
    },
)
def highest(t, highest):
    for n in t.sizes(32):
        x, out = t.floats(4, n) - 4, t.out(4, n)
        x[0] = np.sort(x[0])[::-1]
        t.launch(highest, 4, x, out, n, BLOCK=32)
        t.equal(out, np.maximum.accumulate(x, axis=1))


@exercise(
    "13.4",
    points=3,
    hints=(
        "Three numbers go round the loop: count, mean, sum of squared distances. All start at 0.",
        "Of a tile: b = how many lanes are on, middle = tt.sum(v) / b, and v - middle, 0 where a lane is off.",
        "With d = middle - mean: squares += those of the tile + d * d * count * b / (count + b), then mean += d * b /"
        " (count + b), then count += b.",
    ),
    mutants={
        "squares less square": (
            "squares += tt.sum(apart * apart) + d * d * count * b / (count + b)",
            "squares += tt.sum(v * v)",
            "squares / count)",
            "squares / count - centre * centre)",
        ),
        "means of tiles do not differ": (" + d * d * count * b / (count + b)", ""),
        "lanes that are off have a distance": ("tt.where(on, v - middle, 0.0)", "v - middle"),
        "two passes": (
            "    tt.store(mean + row, centre)",
            "    squares = 0.0\n    for start in range(0, n, BLOCK):\n        on = start + j < n\n"
            "        v = tt.where(on, tt.load(x + row * n + start + j, mask=on) - centre, 0.0)\n"
            "        squares += tt.sum(v * v)\n    tt.store(mean + row, centre)",
        ),
    },
)
def moments(t, moments):
    for n in t.sizes(32):
        x = (1000 + t.floats(4, n) * np.linspace(0.5, 1.5, n, dtype=np.float32)).astype(np.float32)
        x += np.linspace(-2, 2, n, dtype=np.float32)
        mean, variance = t.out(4), t.out(4)
        t.launch(moments, 4, x, mean, variance, n, BLOCK=32)
        exact = x.astype(np.float64)
        t.close(mean, exact.mean(axis=1).astype(np.float32), rtol=1e-6)
        t.close(variance, exact.var(axis=1).astype(np.float32), rtol=1e-3)
    n = 200
    c = t.count(moments, 4, t.floats(4, n), t.out(4), t.out(4), n, BLOCK=32)
    t.demand(c.bytes_loaded == 16 * n, f"it loads {c.bytes_loaded} bytes, not {16 * n}: every element once")
