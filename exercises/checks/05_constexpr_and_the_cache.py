"""Checks of the exercises to chapter 5."""

import math

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "5.1",
    points=1,
    hints=(
        "The program's row begins at element tt.program_id(0) * N. The tile is tt.arange(0, BLOCK), the mask i < N.",
        "A lane that is off loads 0, which does not change the sum. By what is the sum to be divided?",
        "x - tt.reduce_sum(x) / N, stored where it came from in the other array, under the same mask.",
    ),
    mutants={
        "divided by the tile": ("/ N,", "/ BLOCK,"),
        "a row is as long as the tile": ("tt.program_id(0) * N", "tt.program_id(0) * BLOCK"),
        "the load has no mask": ("src + row + i, mask=mask", "src + row + i"),
        "the store has no mask": ("/ N, mask=mask)", "/ N)"),
    },
)
def centre(t, centre):
    for n, block in ((t.size(16, 3), 64), (t.size(32, 1), 32), (64, 64), (t.integer(65, 100), 128)):
        rows = t.integer(4, 9)
        x, out = t.floats(rows, n), t.out(rows, n)
        t.launch(centre, rows, x, out, n, BLOCK=block)
        t.close(out, x - x.mean(1, keepdims=True), rtol=1e-4, atol=1e-5)


@exercise(
    "5.2",
    points=2,
    hints=(
        "How many blocks does it take, and how many warps has each of them? Both are divisions rounded up.",
        "All lanes are blocks * warps * 32, and n of them have an element. 48 threads are two warps.",
        "max(blocks, key=...) takes a function; a tuple as key, (share, block), settles ties by its second part.",
    ),
    mutants={
        "threads, not lanes": ("warps = -(-block // 32)", "warps = block / 32"),
        "warps rounded down": ("-(-block // 32)", "block // 32 or 1"),
        "the last block is whole": ("blocks = -(-n // block)", "blocks = n / block"),
        "the first of equals": ("(lanes_used(n, block), block)", "lanes_used(n, block)"),
    },
)
def lanes_used(t, lanes_used, best_block):
    def want(n, block):
        return n / (math.ceil(n / block) * math.ceil(block / 32) * 32)

    for n in (27, 100, 1000, t.integer(1000, 9999), t.integer(10, 999)):
        blocks = [int(b) for b in t.rng.permutation([16, 27, 32, 33, 48, 64, 96, 100, 128, 256, 1024])]
        for block in blocks:
            t.close(lanes_used(n, block), want(n, block), rtol=1e-9, atol=0)
        t.same(best_block(n, blocks), max(blocks, key=lambda b, n=n: (want(n, b), b)))
    t.same(best_block(4096, [32, 128, 64]), 128)


@exercise(
    "5.3",
    points=2,
    hints=(
        "What is in the key of a kernel, and which of it changes from one call to the next?",
        "The value of a constexpr is in the key. The value of a plain argument is not.",
        "The kernel is right as it is, but for its first line: only BLOCK has to be known while compiling.",
    ),
    mutants={
        "n is still baked in": ("n, factor, BLOCK", "n: tt.constexpr, factor, BLOCK"),
        "the factor is still baked in": ("factor, BLOCK", "factor: tt.constexpr, BLOCK"),
        "the mask is lost as well": (", mask=i < n), mask=i < n)", "))"),
    },
)
def scale(t, scale):
    for block in (64, 32):
        before = None
        for n in (t.size(64, 4), 97, 131, t.size(32, 7)):
            n += n % 16 == 0
            factor, x, out = t.number(), t.floats(n), t.out(n)
            t.launch(scale, tt.cdiv(n, block), x, out, n, factor, BLOCK=block)
            t.equal(out, np.float32(factor) * x)
            if before is not None:
                more = len(scale._cache) - before
                t.demand(not more, f"scale was compiled again for n = {n} and factor = {factor}, with the same BLOCK")
            before = len(scale._cache)


@exercise(
    "5.4",
    points=3,
    hints=(
        "Begin with the softmax of the chapter. Which lanes must not become the maximum, and what do they load then?",
        "Subtract the maximum first, then divide by T, then exp. other=-float('inf') keeps the lanes that are off out.",
        "if COLD: y = (x == greatest).to(tt.float32); else: e = tt.where(mask, tt.exp((x - greatest) / T), 0.0)",
    ),
    mutants={
        "lanes that are off are 0": (', other=-float("inf")', ""),
        "the maximum is not subtracted": ("(x - greatest) / T", "x / T"),
        "COLD changes nothing": ("if COLD:", "if False:"),
        "T is left out": (" / T)", ")"),
    },
)
def soft(t, soft):
    for n, block, cold in ((t.size(16, 2), 64, False), (t.size(32, 3), 128, True), (64, 64, False)):
        rows, temperature = t.integer(4, 9), t.number()
        x, out = t.floats(rows, n) - np.float32(4), t.out(rows, n)
        x[1] += 3000  # whose exponential is no float
        t.launch(soft, rows, x, out, n, temperature, COLD=cold, BLOCK=block)
        e = np.exp((x - x.max(1, keepdims=True)) / np.float32(temperature))
        t.close(out, (x == x.max(1, keepdims=True)) * 1.0 if cold else e / e.sum(1, keepdims=True), rtol=1e-4)
