"""Checks of the exercises to chapter 23."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "23.1",
    points=1,
    hints=(
        "How many threads are num_warps warps, and how many elements of the tile does each of them get?",
        "block * itemsize bytes over 32 * num_warps threads. Both ends of the range are allowed.",
        "Two loops in one list, blocks outside, warps inside; keep a pair if 16 <= share <= 128.",
    ),
    mutants={
        "a warp is a thread": ("(32 * c", "(1 * c"),
        "elements, not bytes": ('c["BLOCK"] * itemsize', 'c["BLOCK"]'),
        "less than 128": ("<= 128", "< 128"),
        "warps outside": ("for block in blocks for w in warps", "for w in warps for block in blocks"),
    },
)
def space(t, space):
    for itemsize in (1, 2, 4, 8):
        blocks = [2**k for k in range(t.integer(5, 7), t.integer(11, 14))]
        warps = [1, 2, 4, 8, 16][: t.integer(3, 5)]
        want = []
        for block in blocks:
            for w in warps:
                if 16 * 32 * w <= block * itemsize <= 128 * 32 * w:
                    want.append({"BLOCK": block, "num_warps": w})
        t.same(space(blocks, warps, itemsize), want)


@exercise(
    "23.2",
    points=2,
    hints=(
        "First throw out what must not count. What is left may be nothing.",
        "The least time of those that are left, then all that are at most (1 + within) times as slow.",
        "Of these the smallest block, whatever its time.",
    ),
    mutants={
        "wrong results count": ("if right and time is not None", "if time is not None"),
        "the fastest, whatever its tile": (
            "min(block for time, block in timed if time <= (1 + within) * least)",
            "min(timed)[1]",
        ),
        "wrong ones set the least": (
            "least = min(timed)[0]",
            "least = min(time for _, time, _ in trials if time is not None)",
        ),
        "fails where there is nothing": ("if not timed:", "if not trials:"),
    },
)
def choose(t, choose):
    def trials(n, certain=False):
        found = []
        for k in t.rng.permutation(n):
            right = certain or t.rng.random() < 0.7
            time = round(100 * (1 + 0.3 * t.rng.random()) * (1 if right else 0.6), 1)
            found.append((int(32 << k), time if right or t.rng.random() < 0.5 else None, bool(right)))
        return found

    for n in (1, 5, 8, 8, 8, 8):
        tried, within = trials(n, certain=n == 1), round(t.rng.uniform(0.02, 0.15), 3)
        good = {block: time for block, time, right in tried if right and time is not None}
        least = min(good.values(), default=0.0)
        want = min((block for block, time in good.items() if time <= least * (1 + within)), default=None)
        t.same(choose(tried, within), want)
    t.same(choose([(64, 50.0, False), (128, 100.0, True), (256, 99.0, True)], 0.05), 128)
    t.same(choose([(64, 105.0, True), (32, 103.0, True), (128, 100.0, True)], 0.05), 32)
    t.same(choose([(64, 1.0, False), (128, None, True)], 0.05), None)
    t.same(choose([], 0.05), None)


@exercise(
    "23.3",
    points=3,
    hints=(
        "What a round needs of the row above was in registers a moment ago. Does it have to come from memory?",
        "A tile that is set before the loop and again in it is carried from round to round, as in chapter 9.",
        "Start with the row of zeros, and let k begin at 0: row = 0.5 * row + (the load of x at k). Then store it.",
    ),
    mutants={
        "the loads do not run ahead": (", num_stages=2", ""),
        "begins one row late": ("tt.range(0, rows", "tt.range(1, rows"),
        "loads what was stored": (
            "row = 0.5 * row + tt.load(x",
            "row = 0.5 * tt.load(out + (k - 1) * cols + j, mask=(j < cols) & (k > 0)) + tt.load(x",
        ),
        "every row counts from nothing": ("0.5 * row + tt.load", "0.5 * (row - row) + tt.load"),
    },
)
def decay(t, decay):
    for cols in t.sizes(64):
        rows = t.integer(4, 9)
        x, out = t.floats(rows, cols), t.out(rows, cols)
        t.launch(decay, tt.cdiv(cols, 64), x, out, rows, cols, BLOCK=64)
        want = x.copy()
        for k in range(1, rows):
            want[k] += np.float32(0.5) * want[k - 1]
        t.equal(out, want)
    x, out = t.floats(6, 200), t.out(6, 200)
    counted = t.count(decay, 4, x, out, 6, 200, BLOCK=64, num_warps=4)
    t.demand(counted.bytes_loaded == x.nbytes, f"it loads {counted.bytes_loaded:,} bytes, not the {x.nbytes:,} of x")
    kernel = decay.compile(x, out.array, 6, 200, BLOCK=64, num_warps=4).ir
    loops = [[inner.name for inner in op.blocks[0].ops] for op in kernel.ops() if op.name == "for"]
    ahead = any("load_ahead" in names for names in loops) and not any("load" in names for names in loops)
    t.demand(ahead, "the loads of x do not run ahead")
