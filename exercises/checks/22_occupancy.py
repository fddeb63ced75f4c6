"""Checks of the exercises to chapter 22."""

import numpy as np

import tinyton as tt
from exercises.book import exercise

CARDS = [
    {"threads": 2048, "registers": 65536, "shared": 228 << 10, "programs": 32},
    {"threads": 1536, "registers": 65536, "shared": 100 << 10, "programs": 24},
    {"threads": 1024, "registers": 65536, "shared": 64 << 10, "programs": 16},
]


@exercise(
    "22.1",
    points=1,
    hints=(
        "How much of each of the four does one program take? Then divide, and take the least.",
        "All but the place is rounded up: threads to whole warps, a warp's registers to 256, bytes to 128.",
        "-(-n // unit) * unit is n rounded up to a multiple of unit. The 1024 bytes come before the rounding.",
    ),
    mutants={
        "registers are not rounded": ("up(32 * registers, 256)", "32 * registers"),
        "no room for the driver": ("shared + 1024", "shared"),
        "places do not run out": ('        sm["programs"],\n', ""),
        "parts of warps": ('sm["threads"] // (32 * warps)', 'sm["threads"] // threads'),
    },
)
def resident(t, resident):
    cases = [(48, 20, 0), (32, 16, 0), (128, 33, 0), (128, 32, 16 << 10), (1024, 40, 0), (100, 16, 6144)]
    for _ in range(20):
        cases.append((t.integer(1, 1024), t.integer(16, 255), t.integer(0, 50_000) * t.integer(0, 1)))
    for threads, registers, shared in cases:
        for sm in CARDS:
            warps = (threads + 31) // 32
            a_warp = (32 * registers + 255) // 256 * 256
            fit = sm["threads"] // 32 // warps, sm["registers"] // (warps * a_warp), sm["programs"]
            t.same(resident(threads, registers, shared, sm), min(*fit, sm["shared"] // ((shared + 1151) // 128 * 128)))


@exercise(
    "22.2",
    points=1,
    hints=(
        "How many programs does the whole card hold at once?",
        "The waves are programs divided by that, rounded up: the last may be nearly empty, and takes as long.",
        "places = sm_count * each; each wave has that many places, whether they are used or not.",
    ),
    mutants={
        "whole waves only": ("-(-programs // places)", "max(1, programs // places)"),
        "one a multiprocessor": ("sm_count * each", "sm_count"),
        "only the last wave": ("programs / (waves * places)", "(programs - (waves - 1) * places) / places"),
        "a wave of its own for each": ("-(-programs // places)", "programs // places + 1"),
    },
)
def busy(t, busy):
    cases = [(40, 132, 16), (2112, 132, 16), (2113, 132, 16), (1, 1, 1), (1000, 100, 8)]
    cases += [(t.integer(1, 5000), t.integer(1, 140), t.integer(1, 32)) for _ in range(20)]
    for programs, sm_count, each in cases:
        left, waves = programs, 0
        while left > 0:
            left, waves = left - sm_count * each, waves + 1
        t.same(busy(programs, sm_count, each), (waves, programs / (waves * sm_count * each)))


@exercise(
    "22.3",
    points=2,
    hints=(
        "First two helpers: how many programs a tile's grid has, and how many elements the tile has.",
        "Keep the tiles with enough programs. Among them: the largest, then the one with the least waste.",
        "A grid covers programs * size. A key of two numbers: (-size(tile), programs(tile) * size(tile)).",
    ),
    mutants={
        "the smallest": ("(-size(tile), ", "(size(tile), "),
        "waste does not count": (", programs(tile) * size(tile))", ",)"),
        "more than enough": (">= waves * sm_count", "> waves * sm_count"),
        "the first, if none has enough": ("max(tiles, key=programs)", "tiles[0]"),
    },
)
def pick(t, pick):
    tiles = [(64, 64), (32, 128), (128, 32), (128, 128), (16, 64), (64, 16), (32, 32), (16, 16)]
    cases = [((256, 400), 100, 2), ((64, 64), 4, 1), ((100, 30), 1, 2), ((17, 23), 132, 2), ((256, 256), 8, 2)]
    for _ in range(25):
        cases.append(((t.integer(1, 1500), t.integer(1, 1500)), t.integer(1, 140), t.integer(1, 4)))
    for shape, sm_count, waves in cases:
        order = [tiles[int(k)] for k in t.rng.permutation(len(tiles))]
        best = None
        for m, n in order:
            count = -(-shape[0] // m) * -(-shape[1] // n)
            enough = count >= waves * sm_count
            rank = (enough, m * n if enough else count, -count * m * n if enough else 0)
            if best is None or rank > best[0]:
                best = rank, (m, n)
        t.same(pick(shape, order, sm_count, waves), best[1])


@exercise(
    "22.4",
    points=3,
    hints=(
        "A piece begins at program_id(1) * piece, with piece = tt.cdiv(cols, SPLIT). Where does it end?",
        "At tt.minimum(first + piece, cols). A mask goes by the end of the piece: the next columns belong to"
        " the next program.",
        "Carry total = tt.zeros((BM,), tt.float32), add tt.sum(tile * x[None, :], 1), store to s * rows + i.",
    ),
    mutants={
        "a tile goes beyond its piece": ("k[None, :] < last", "k[None, :] < cols", "k < last", "k < cols"),
        "the last piece is as long as the others": ("tt.minimum(first + piece, cols)", "first + piece"),
        "every program does the whole row": ("range(first, last, BK)", "range(0, last, BK)"),
        "rows have no mask": ("(i[:, None] < rows) & (k[None, :] < last)", "k[None, :] < last"),
    },
)
def products(t, products):
    for cols in (t.integer(90, 140), 128, 61):
        rows, split = t.integer(17, 40), t.integer(3, 5)
        a, x = t.floats(rows, cols), t.floats(cols)
        parts, piece = t.out(split, rows), -(-cols // split)
        t.launch(products, (tt.cdiv(rows, 8), split), a, x, parts, rows, cols, SPLIT=split, BM=8, BK=16)
        wide = a.astype(np.float64) * x
        want = [wide[:, s * piece : (s + 1) * piece].sum(1) for s in range(split)]
        t.close(parts, np.array(want), rtol=1e-4, atol=1e-4)
    rows, cols, split = 40, 1024, 8
    args = t.floats(rows, cols), t.floats(cols), t.out(split, rows), rows, cols
    c = t.count(products, (5, split), *args, SPLIT=split, BM=8, BK=64)
    least = 4 * rows * cols + 4 * cols * 5
    t.demand(c.bytes_loaded <= least, f"it loads {c.bytes_loaded} bytes, not the {least} that would do")
