"""Checks of the exercises to chapter 20."""

import numpy as np

from exercises.book import exercise

BLOCKS = [32 << k for k in range(9)]


@exercise(
    "20.1",
    points=1,
    hints=(
        "Go through the values from the largest down. When do you have to stop?",
        "At the first that is below (1 - within) times the best of all. The one before it is the answer.",
        "If the largest value is below that, there was no one before it: None.",
    ),
    mutants={
        "the first that is fast enough": (
            "sorted(speeds, reverse=True):\n        if speeds[block] < (1 - within) * max(speeds.values()):",
            "sorted(speeds):\n        if start is not None and speeds[block] >= (1 - within) * max(speeds.values()):",
        ),
        "in the order in which they come": ("sorted(speeds, reverse=True)", "list(speeds)[::-1]"),
        "compared with the largest value": ("max(speeds.values())", "speeds[max(speeds)]"),
        "within is taken for per cent": ("(1 - within)", "(1 - within / 100)"),
    },
)
def plateau(t, plateau):
    for _ in range(12):
        within, top = float(t.rng.choice([0.01, 0.05, 0.1])), float(t.rng.uniform(500, 5000))
        start, dip = t.integer(3, 8), t.integer(0, 2)
        speeds = {b: float(top * t.rng.uniform(0.2, 0.85)) for b in BLOCKS}
        speeds |= {b: float(top * (1 - within * t.rng.uniform(0.05, 0.9))) for b in [*BLOCKS[start:], BLOCKS[dip]]}
        speeds[BLOCKS[start]] = top
        shuffled = {int(b): round(speeds[int(b)], 1) for b in t.rng.permutation(BLOCKS)}
        t.same(plateau(shuffled, within), BLOCKS[start])
    falling = {b: float(1000 - k) for k, b in enumerate(BLOCKS)}
    t.same(plateau(falling, 0.05), 32)
    t.same(plateau(falling | {8192: 100.0}, 0.05), None)
    t.same(plateau({64: 100.0, 128: 92.0, 256: 97.0}, 0.05), 256)


@exercise(
    "20.2",
    points=2,
    hints=(
        "First the times: if `of` is the list of a value, the median of of[warmup:] (statistics.median is imported).",
        "Values whose result is wrong are not in the race at all, however fast they are.",
        "Then the least of the times, and the smallest value whose time is at most 1.02 times that.",
    ),
    mutants={
        "the mean": ("median(of[warmup:])", "sum(of[warmup:]) / len(of[warmup:])"),
        "wrong ones take part": (" if right[block]}", "}"),
        "the first runs count": ("of[warmup:]", "of"),
        "the fastest": ("1.02 * ", ""),
    },
)
def winner(t, winner):
    for _ in range(12):
        best, near, wrong = t.integer(3, 8), t.integer(0, 2), t.integer(0, 2)
        medians = {b: float(t.rng.uniform(1.2, 3)) for b in BLOCKS}
        medians |= {BLOCKS[best]: 1.0, BLOCKS[near]: 1.01, BLOCKS[wrong]: 0.5}
        runs, right = {}, {b: b != BLOCKS[wrong] for b in BLOCKS}
        for b, m in medians.items():
            later = [m * f for f in (1, 0.999, 1.001, 0.998, 1.002, 1.003)]
            if t.integer(0, 1) or b in (BLOCKS[best], BLOCKS[near]):
                later[5] = m * float(t.rng.uniform(20, 60))  # somebody else used the machine
            of = [9 * m, 4 * m, 4 * m, 4 * m, 4 * m, *(later[int(k)] for k in t.rng.permutation(6))]
            runs[b] = [round(time, 4) for time in of]
        t.same(winner(runs, right, 5), BLOCKS[best if near == wrong else near])
    t.same(winner({64: [1.0, 2.0], 128: [1.0, 1.0]}, {64: False, 128: False}, 0), None)


@exercise(
    "20.3",
    points=3,
    hints=(
        "The sum of the table goes in front of a loop, and the loop goes over tiles.",
        "range may begin and step as it likes: from the program's own tile on, by as many elements as all programs do.",
        "for start in range(tt.program_id(0) * BLOCK, n, tt.num_programs(0) * BLOCK): and a mask, i < n.",
    ),
    mutants={
        "the table in every round": (
            "    factor = tt.sum(tt.load(weights + tt.arange(0, TABLE)), 0)\n",
            "",
            "        i = start",
            "        factor = tt.sum(tt.load(weights + tt.arange(0, TABLE)), 0)\n        i = start",
        ),
        "every program does all": (
            "range(tt.program_id(0) * BLOCK, n, tt.num_programs(0) * BLOCK)",
            "range(0, n, BLOCK)",
        ),
        "one tile and no more": (", n, tt.num_programs(0) * BLOCK)", ", tt.minimum(n, tt.program_id(0) * BLOCK + 1))"),
        "no mask on the store": ("mask=i < n), mask=i < n)", "mask=i < n))"),
    },
)
def scaled(t, scaled):
    for n in t.sizes(64):
        for programs in (3, 4, n // 64 + 5):
            x, out = t.floats(n), t.out(n)
            weights = t.ints(-8, 8, 32).astype(np.float32)
            t.launch(scaled, programs, x, weights, out, n, TABLE=32, BLOCK=64)
            t.close(out, weights.sum() * x, rtol=1e-6, atol=1e-6)
    n, programs, table = 5000, 6, 256
    c = t.count(scaled, programs, t.floats(n), t.floats(table), t.out(n), n, TABLE=table, BLOCK=128)
    least = 4 * (n + programs * table)
    t.demand(c.bytes_loaded == least, f"{programs} programs load {c.bytes_loaded} bytes, not the {least} that would do")
    t.demand(c.bytes_stored == 4 * n, f"they store {c.bytes_stored} bytes, not {4 * n}")
