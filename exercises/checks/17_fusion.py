"""Checks of the exercises to chapter 17."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "17.1",
    points=1,
    hints=(
        "Apart, an operation moves what it reads and the one array that it writes.",
        "Fused, what one operation makes and another reads stays in registers. What comes from outside?",
        "Sets: read somewhere but made nowhere, plus made and kept. A name is counted once.",
    ),
    mutants={
        "all that is made is stored": ("len(made & keep)", "len(made)"),
        "only the last is stored": ("len(made & keep)", "1"),
        "what is made is read again": ("len(wanted - made)", "len(wanted)"),
        "read once for each operation": (
            "len(wanted - made)",
            "sum(r not in made for rs, _ in operations for r in rs)",
        ),
    },
)
def traffic(t, traffic):
    t.same(traffic([(["x", "w"], "t"), (["t", "y"], "u"), (["u"], "out")], {"out"}), (8, 4))
    t.same(traffic([(["x"], "t"), (["t", "x"], "u")], {"t", "u"}), (5, 3))
    for _ in range(20):
        names, operations = ["x", "y", "z"], []
        for k in range(t.integer(1, 7)):
            many = t.integer(1, 3)
            reads = [names[int(n)] for n in t.rng.permutation(len(names))[:many]]
            operations.append((reads, f"t{k}"))
            names.append(f"t{k}")
        keep = {name for name in names[3:-1] if t.integer(0, 2) == 0} | {names[-1]}
        apart, outside, stored = 0, [], 0
        for reads, writes in operations:
            apart += len(reads) + 1
            outside += [name for name in reads if name in "xyz" and name not in outside]
            stored += writes in keep
        t.same(traffic(operations, keep), (apart, len(outside) + stored))


@exercise(
    "17.2",
    points=1,
    hints=(
        "One tile of x, and from scale and bias only the columns of that tile: which indices have they?",
        "scale + j with j = tt.program_id(1) * BN + tt.arange(0, BN); [None, :] puts it beside the rows.",
        "Keep v = x * scale + bias in a name, and store v / (1 + tt.exp(-v)) where both masks hold.",
    ),
    mutants={
        "a number for each row": (
            "tt.load(scale + j, mask=j < cols)",
            "tt.load(scale + i % cols)",
            "factor[None, :]",
            "factor",
        ),
        "the columns of the first tile": ("tt.load(bias + j, mask=j < cols)", "tt.load(bias + tt.arange(0, BN))"),
        "the wrong side of the sigmoid": ("tt.exp(-v)", "tt.exp(v)"),
        "bias before scale": ("v * factor[None, :] + shift[None, :]", "(v + shift[None, :]) * factor[None, :]"),
    },
)
def scale_silu(t, scale_silu):
    for rows, cols in ((t.integer(17, 40), t.integer(33, 60)), (40, 64)):
        x, scale, bias, out = t.floats(rows, cols), t.floats(cols), t.floats(cols), t.out(rows, cols)
        grid = tt.cdiv(rows, 16), tt.cdiv(cols, 32)
        t.launch(scale_silu, grid, x, scale, bias, out, rows, cols, BM=16, BN=32)
        v = x.astype(np.float64) * scale + bias
        t.close(out, v / (1 + np.exp(-v)), rtol=1e-4, atol=1e-5)
    args = t.floats(32, 64), t.floats(64), t.floats(64), t.out(32, 64)
    moved = t.count(scale_silu, (2, 2), *args, 32, 64, BM=16, BN=32)
    least = 4 * (32 * 64 + 4 * 2 * 32)
    t.demand(moved.bytes_loaded <= least, f"it loads {moved.bytes_loaded} bytes, not the {least} that would do")


def whole(t, *shape):
    """Small whole numbers, so that every order of additions gives the same."""
    return t.ints(-3, 4, *shape).astype(np.float32)


@exercise(
    "17.3",
    points=2,
    hints=(
        "The loop of a product, with two sums in it.",
        "w and v have the same shape, so the same offsets and the same mask do for both.",
        "After the loop: tt.maximum(first, 0) * second. Both are tile (i, j): the same as the program's.",
    ),
    mutants={
        "the gate is open": ("tt.maximum(opened, 0)", "opened"),
        "the wrong one is cut off": ("tt.maximum(opened, 0) * passed", "opened * tt.maximum(passed, 0)"),
        "unequal indices": (
            "i = tt.program_id(0) * BM + tt.arange(0, BM)[:, None]",
            "i = tt.program_id(1) * BM + tt.arange(0, BM)[:, None]",
        ),
        "joined before the sums are complete": ("range(0, K, BK)", "range(0, BK, BK)"),
    },
)
def gate(t, gate):
    for m, n, k in ((t.integer(33, 45), t.integer(17, 30), t.integer(20, 50)), (48, 32, 32)):
        x, w, v, out = whole(t, m, k), whole(t, k, n), whole(t, k, n), t.out(m, n)
        t.launch(gate, (tt.cdiv(m, 16), tt.cdiv(n, 16)), x, w, v, out, m, n, k, BM=16, BN=16, BK=16)
        t.equal(out, np.maximum(x @ w, 0) * (x @ v))
    args = t.floats(32, 64), t.floats(64, 48), t.floats(64, 48), t.out(32, 48)
    moved = t.count(gate, (2, 3), *args, 32, 48, 64, BM=16, BN=16, BK=16).bytes_loaded
    least = 6 * 3 * 16 * 64 * 4
    t.demand(moved <= least, f"it loads {moved} bytes, not the {least} that would do")


@exercise(
    "17.4",
    points=3,
    hints=(
        "A program's rows of a are one tile, loaded before the loop. What is (a @ b) for a step of BL columns?",
        "middle = tt.dot(mine, columns of b), BM by BL. Then relu, then times the same BL rows of c, added up.",
        "b's tile: d[:, None] * L + k[None, :]; c's: k[:, None] * D + d[None, :]; both masked by k < L with other=0.",
    ),
    mutants={
        "nothing in between": ("tt.maximum(middle, 0)", "middle"),
        "the first tile of the middle": ("range(0, L, BL)", "range(0, BL, BL)"),
        "other rows of c": ("c + k[:, None] * D", "c + tt.arange(0, BL)[:, None] * D"),
        "sums are forgotten": ("below, acc)", "below)"),
    },
)
def layers(t, layers):
    for m, wide in ((t.integer(33, 60), t.integer(35, 70)), (48, 64)):
        a, b, c, out = whole(t, m, 16), whole(t, 16, wide), whole(t, wide, 16), t.out(m, 16)
        t.launch(layers, tt.cdiv(m, 16), a, b, c, out, m, wide, D=16, BM=16, BL=32)
        t.equal(out, np.maximum(a @ b, 0) @ c)
    args = t.floats(48, 16), t.floats(16, 64), t.floats(64, 16), t.out(48, 16)
    moved = t.count(layers, 3, *args, 48, 64, D=16, BM=16, BL=32)
    least = 4 * (48 * 16 + 3 * 2 * 64 * 16)
    t.demand(moved.bytes_loaded <= least, f"it loads {moved.bytes_loaded} bytes, not the {least} that would do")
    t.demand(moved.bytes_stored <= 4 * 48 * 16, "it stores more than the result")
