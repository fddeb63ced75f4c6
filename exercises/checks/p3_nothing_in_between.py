"""Checks of project III."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


def rows_of(t, m, n):
    """Rows of very different size, some of them so small that an epsilon counts."""
    return (t.floats(m, n) * t.rng.choice([1, 30, 0.003], (m, 1))).astype(np.float32)


def weights(t, *shape):
    return t.floats(*shape) * np.float32(0.1)


def normed(x, g):
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g


def moves(t, what, counts, least):
    """Demands that launches move no more bytes than that."""
    moved = sum(c.bytes for c in counts)
    t.demand(moved <= least, f"{what} {moved:,} bytes, not the {least:,} that would do")


@exercise(
    "P3.1",
    points=2,
    hints=(
        "Each element of a row of h is divided by the same number. Where in the product may that division happen?",
        "At the end: sums of x * g * w, divided by one number for each row. And that number is known by then.",
        "Beside acc, carry squares += tt.sum(v * v, 1); at the end acc * tt.rsqrt(squares / K + 1e-5)[:, None].",
    ),
    mutants={
        "the mean of a tile": ("squares / K", "squares / BK"),
        "the gain is in the norm": ("tt.sum(v * v, 1)", "tt.sum(v * gain[None, :] * v * gain[None, :], 1)"),
        "the gain is forgotten": ("v * gain[None, :], tt.load", "v, tt.load"),
        "a reading of its own for the norm": (
            "    scale =",
            "    squares = tt.zeros((BM,), tt.float32)\n    for start in range(0, K, BK):\n"
            "        k = start + tt.arange(0, BK)\n"
            "        v = tt.load(x + i * K + k[None, :], mask=(i < M) & (k[None, :] < K), other=0)\n"
            "        squares += tt.sum(v * v, 1)\n    scale =",
        ),
    },
)
def norm_product(t, norm_product):
    for m, n, k in ((t.integer(33, 45), t.integer(17, 30), t.integer(35, 60)), (48, 32, 32)):
        x, g, w, out = rows_of(t, m, k), t.floats(k), weights(t, k, n), t.out(m, n)
        t.launch(norm_product, (tt.cdiv(m, 16), tt.cdiv(n, 16)), x, g, w, out, m, n, k, BM=16, BN=16, BK=16)
        t.close(out, normed(x, g) @ w, rtol=1e-4, atol=1e-5)
    args = t.floats(32, 64), t.floats(64), t.floats(64, 48), t.out(32, 48), 32, 48, 64
    count = t.count(norm_product, (2, 3), *args, BM=16, BN=16, BK=16)
    moves(t, "it moves", [count], 4 * (6 * (2 * 16 * 64 + 64) + 32 * 48))


@exercise(
    "P3.2",
    points=3,
    hints=(
        "Scores of BM rows and BV words are one tt.dot. Softmax of a row that comes in tiles: chapter 11, chapter 18.",
        "Carry top and total for each row, as flash attention does, and the score of the target, which is in one of"
        " the tiles: tt.where(v[None, :] == right[:, None], scores, 0.0), added up.",
        "Words behind the last one score -inf. total = total * exp(top - higher) + the sum of exp(scores - higher); at"
        " the end top + tt.log(total) - picked.",
    ),
    mutants={
        "what is behind the last word scores 0": (
            'tt.where(v[None, :] < V, tt.dot(rows, words.T), -float("inf"))',
            "tt.dot(rows, words.T)",
        ),
        "what was added up before does not fade": ("total * tt.exp(top - higher)", "total"),
        "large scores": ("higher = tt.maximum(top, tt.max(scores, 1))", "higher = tt.zeros((BM,), tt.float32)"),
        "the target in each tile": ("v[None, :] == right", "v[None, :] - start == right"),
    },
)
def linear_loss(t, linear_loss):
    for m, v in ((t.integer(33, 60), t.integer(65, 90)), (48, 96)):
        x, w, loss = t.floats(m, 16) * t.rng.choice(np.float32([9, 0.3]), (m, 1)), t.floats(v, 16), t.out(m)
        target = t.ints(0, v - 1, m)
        t.launch(linear_loss, tt.cdiv(m, 16), x, w, target, loss, m, v, D=16, BM=16, BV=32)
        scores = x.astype(np.float64) @ w.T.astype(np.float64)
        top = scores.max(1)
        total = np.exp(scores - top[:, None]).sum(1)
        t.close(loss, top + np.log(total) - scores[np.arange(m), target], rtol=1e-4, atol=1e-3)
    args = t.floats(48, 16), t.floats(96, 16), t.ints(0, 95, 48), t.out(48), 48, 96
    moves(t, "it moves", [t.count(linear_loss, 3, *args, D=16, BM=16, BV=32)], 4 * (48 * 16 + 3 * 96 * 16 + 2 * 48))


def launches(t, planned, kernels, arrays):
    """The launches of a plan, as kernel, grid, arguments and constants."""
    right = isinstance(planned, list) and all(isinstance(one, tuple) and len(one) == 4 for one in planned)
    t.demand(right, "plan returns a list of launches, each a tuple (name, grid, arguments, constants)")
    t.demand(len(planned) <= 2, f"plan has {len(planned)} launches, not 2 at most")
    for name, grid, args, constants in planned:
        t.demand(name in kernels, f"plan launches {name!r}, not one of {', '.join(kernels)}")
        programs = int(np.prod(grid))
        t.demand(programs >= 8, f"the grid of {name} in the plan is {grid}: not the 8 programs that are wanted")
        unknown = [x for x in args if isinstance(x, str) and x not in arrays]
        t.demand(not unknown, f"plan passes {unknown and unknown[0]!r} to {name}, not one of {', '.join(arrays)}")
        yield kernels[name], grid, [arrays[x] if isinstance(x, str) else x for x in args], constants


@exercise(
    "P3.3",
    points=3,
    seconds=120,
    hints=(
        "up is P3.1 with two products that share their left side; down is a product that begins with x instead of 0.",
        "In up, carry opened, passed and squares; after the loop both are multiplied by the scale of the row, then"
        " gate / (1 + exp(-gate)) * passed. m is M by L.",
        "Tiles of 32 by 32 outputs for both: up has (tt.cdiv(M, 32), tt.cdiv(L, 32)) programs, down (tt.cdiv(M, 32),"
        " tt.cdiv(D, 32)). BK is free, it changes nothing in what is moved.",
    ),
    mutants={
        "without what goes around": ("acc = tt.load(x + i * D + j, mask=(i < M) & (j < D), other=0)",
                                     "acc = tt.zeros((BM, BN), tt.float32)"),
        "the gate is not of the norm": ("gate = opened * scale", "gate = opened"),
        "small tiles": ('"BM": 32, "BN": 32', '"BM": 16, "BN": 16', "tt.cdiv(M, 32)", "tt.cdiv(M, 16)",
                        "tt.cdiv(L, 32)", "tt.cdiv(L, 16)", "tt.cdiv(D, 32)", "tt.cdiv(D, 16)"),
        "few programs": ('"BN": 32', '"BN": 128', "tt.cdiv(L, 32)", "tt.cdiv(L, 128)", "tt.cdiv(D, 32)",
                         "tt.cdiv(D, 128)"),
    },
)  # fmt: skip
def layer(t, plan, up, down):
    kernels = {"up": up, "down": down}
    for m, d, wide in ((t.integer(97, 110), t.integer(80, 95), t.integer(145, 159)), (96, 96, 160)):
        x, g, out = rows_of(t, m, d), t.floats(d), t.out(m, d)
        w1, w2, w3 = weights(t, d, wide), weights(t, d, wide), weights(t, wide, d)
        arrays = {"x": x, "g": g, "w1": w1, "w2": w2, "w3": w3, "m": t.out(m, wide), "out": out}
        planned = list(launches(t, plan(m, d, wide), kernels, arrays))
        for kernel, grid, args, constants in planned:
            t.launch(kernel, grid, *args, **constants)
        h = normed(x, g)
        gate = h @ w1
        t.close(out, x + (gate / (1 + np.exp(-gate)) * (h @ w2)) @ w3, rtol=1e-4, atol=1e-4)
        counts = [t.count(kernel, grid, *args, **constants) for kernel, grid, args, constants in planned]
        rows, columns, back = -(-m // 32), -(-wide // 32), -(-d // 32)
        least = columns * m * d + rows * columns * d + rows * 2 * d * wide + m * wide
        least += back * m * wide + rows * wide * d + 2 * m * d
        moves(t, "all launches together move", counts, 4 * least)
