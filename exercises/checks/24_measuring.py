"""Checks of the exercises to chapter 24."""

import math
from fractions import Fraction

import numpy as np

from exercises.book import exercise


def times(t, n, slow=0.1):
    """Times as they are: a band, and some far above it."""
    found = 1e-5 * (1 + 0.05 * t.rng.random(n))
    found[t.rng.random(n) < slow] *= t.rng.uniform(2, 9)
    return found


@exercise(
    "24.1",
    points=1,
    hints=(
        "Throw the warm-up away first; then everything is about what is left.",
        "np.median, and np.percentile(kept, (20, 80)) for both percentiles at once.",
        "Bytes over seconds are bytes a second; a GB is 1e9 of them.",
    ),
    mutants={
        "the mean": ("np.median(kept)", "np.mean(kept)"),
        "with the warm-up": ("times[3:]", "times"),
        "a spread in seconds": ("float(high - low) / median", "float(high - low)"),
        "GiB": ("1e9", "2**30"),
    },
)
def summary(t, summary):
    for n in (20, 33, 101):
        seen = times(t, n)
        seen[:3] *= 1000
        nbytes = t.integer(10**6, 10**7)
        got = summary(seen, nbytes)
        t.demand(isinstance(got, tuple) and len(got) == 3, f"it returns {got!r}, not a tuple of three numbers")
        kept = np.sort(seen[3:])
        middle = (kept[(n - 4) // 2] + kept[(n - 3) // 2]) / 2
        low, high = (np.quantile(kept, q) for q in (0.2, 0.8))
        t.close(np.array(got), np.array([middle, (high - low) / middle, nbytes / middle / 1e9]), rtol=1e-9, atol=0)


@exercise(
    "24.2",
    points=2,
    hints=(
        "Set 1.25 * sigma / sqrt(k) equal to within * median, and solve for k.",
        "k = (1.25 * sigma / (within * median)) squared, and the next whole number.",
        "math.ceil gives an int. At least 5: max(5, ...).",
    ),
    mutants={
        "not squared": ("math.ceil(ratio**2)", "math.ceil(ratio)"),
        "rounded down": ("math.ceil", "math.floor"),
        "the median's error is the mean's": ("1.25 *", "1.0 *"),
        "no least number": ("max(5, math.ceil(ratio**2))", "math.ceil(ratio**2)"),
    },
)
def runs_needed(t, runs_needed):
    for within in (0.1, 0.05, 0.01, 0.003):
        for slow in (0.0, 0.2):
            seen = times(t, 60, slow)
            least = 1.5625 * np.var(seen) / (within * np.median(seen)) ** 2
            t.same(runs_needed(seen, within), max(5, math.ceil(float(least))))
    t.same(runs_needed(np.full(9, 1e-5), 0.01), 5)


@exercise(
    "24.3",
    points=2,
    hints=(
        "Program p does sectors p * BLOCK to (p + 1) * BLOCK - 1. Which element does sector s begin with?",
        "Element 8 * s. The mask is about elements, not about sectors: the last sector may be cut short.",
        "i = (tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)) * 8, and a store of 1.0 with the mask i < n.",
    ),
    mutants={
        "every element": (") * 8", ") * 1"),
        "a sector too far": ("i < n", "i < n + 8"),
        "the last one is forgotten": ("i < n", "i < n - 7"),
        "two for each sector": (") * 8", ") * 4"),
    },
)
def flush(t, flush):
    for n in (*t.sizes(8 * 32), 8 * 70):
        before = t.floats(n)
        buffer, programs = t.out(data=before), -(-n // (8 * 32))
        t.launch(flush, programs, buffer, n, BLOCK=32)
        want = before.copy()
        want[::8] = 1
        t.equal(buffer, want)
        counted = t.count(flush, programs, buffer, n, BLOCK=32)
        sectors = -(-n // 8)
        t.demand(
            (counted.sectors, counted.bytes) == (sectors, 4 * sectors),
            f"it moves {counted.sectors} sectors for {counted.bytes} bytes, not {sectors} for {4 * sectors}",
        )


@exercise(
    "24.4",
    points=3,
    hints=(
        "Count the turns that a has won, those that b has won, and forget the others.",
        "sum(math.comb(n, k) for k in range(w, n + 1)) counts the ways to win w times or more, of 2**n in all.",
        "Twice that, because it could have been the other one. Declare a winner if it is at most 0.01.",
    ),
    mutants={
        "one side only": ("chance = 2 *", "chance = 1 *"),
        "the sum stops early": ("n + 1", "n"),
        "ties are turns": ("n, best = sum(wins.values())", "n, best = len(a)"),
        "whoever wins more": ("chance <= 0.01", "chance <= 1"),
    },
)
def faster(t, faster):
    def played(n, wins, ties=0):
        """Times of n turns of which a wins so many; then ties."""
        a = t.rng.uniform(1, 2, n + ties)
        gaps = np.where(np.arange(n + ties) < wins, 1, -1) * t.rng.uniform(0.01, 0.5, n + ties)
        gaps[n:] = 0
        order = t.rng.permutation(n + ties)
        return a[order], (a + gaps)[order]

    for n in (1, 8, 20, 60):
        wins = np.arange(n + 1) if n < 20 else [0, n // 4, n // 3, n // 2, *range(2 * n // 3, n + 1)]
        for won in map(int, wins):
            best = max(won, n - won)
            chance = 2 * sum(Fraction(math.comb(n, k), 2**n) for k in range(best, n + 1))
            want = ("a" if won > n - won else "b") if chance <= Fraction(1, 100) else "nobody can say"
            t.same(faster(*played(n, won, ties=3)), want)
    t.same(faster(*played(0, 0, ties=4)), "nobody can say")
