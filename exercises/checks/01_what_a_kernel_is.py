"""Checks of the exercises to chapter 1."""

import math

import numpy as np

from exercises.book import exercise


@exercise(
    "1.1",
    points=1,
    hints=(
        "1000 elements, 256 threads a block: three blocks are 768 threads. Four are enough, and 24 threads too many.",
        "It is a division rounded up. n // threads rounds down: what does it give for 1024, and for 1025?",
        "-(-n // threads) rounds up; so does (n + threads - 1) // threads. What is left over is blocks * threads - n.",
    ),
    mutants={
        "rounds down": ("-(-n // threads)", "n // threads"),
        "a block too many for whole blocks": ("-(-n // threads)", "n // threads + 1"),
        "rounds a float": ("-(-n // threads)", "round(n / threads + 0.5)"),
    },
)
def launch_size(t, launch_size):
    for _ in range(8):
        threads = t.integer(3, 300)
        for n in (threads * t.integer(3, 90), t.size(threads, t.integer(3, 90)), t.integer(1, threads)):
            blocks = math.ceil(n / threads)
            t.same(launch_size(n, threads), (blocks, blocks * threads - n))


@exercise(
    "1.2",
    points=1,
    hints=(
        "With 4 threads a block, thread 2 of block 1 takes element 6.",
        "i = block * threads + thread is the thread's element. The last block has threads for which there is none.",
        "if i < n: y[i] = a * x[i] + y[i]",
    ),
    mutants={
        "no guard": ("if i < n:", "if True:"),
        "the number in the block only": ("block * threads + thread", "thread"),
        "the whole loop in each thread": ("if i < n:", "for i in range(n):"),
        "strided by the wrong number": ("block * threads + thread", "thread * threads + block"),
    },
)
def axpy(t, axpy):
    for n in (t.size(8, 4), t.size(8, 3)):
        a, x, before = t.number(), t.floats(n), t.floats(n)
        y = before.copy()
        cells = [(block, thread) for block in range(-(-n // 8)) for thread in range(8)]
        for block, thread in t.rng.permutation(cells).tolist():
            mine, i = t.out(data=y), block * 8 + thread
            axpy(block, 8, thread, a, x, mine, n)
            changed = np.flatnonzero(mine.array != y).tolist()
            t.demand(
                changed in ([i], []),
                f"thread {thread} of block {block}, of 8 threads each, wrote element {changed[:1]}, and n is {n}",
            )
            y = mine.array
        t.close(y, a * x + before, rtol=1e-6)


@exercise(
    "1.3",
    points=2,
    hints=(
        "There are two times: bytes over bandwidth, operations over peak. The kernel cannot be quicker than either.",
        "10 GB/s are 10 * 1e9 bytes in a second. A second has 1e6 microseconds.",
        "max(memory, compute) is the time; the name is that of the larger one.",
    ),
    mutants={
        "the sum of both": ("max(memory, compute)", "memory + compute"),
        "the earlier of the two": ("max(", "min("),
        "milliseconds": ("* 1e6", "* 1e3"),
        "the names are mixed up": ("memory >= compute", "memory < compute"),
    },
)
def least_time(t, least_time):
    for _ in range(12):
        data, gb_s, gflop_s = t.integer(1_000, 10**9), t.number() * 100, t.number() * 1000
        intensity = gflop_s / gb_s * 2.0 ** t.integer(-4, 4) * t.rng.uniform(1.1, 1.9)
        operations = int(data * intensity) + 1
        memory, compute = data / gb_s / 1e3, operations / gflop_s / 1e3
        found = least_time(data, operations, gb_s, gflop_s)
        t.demand(isinstance(found, tuple) and len(found) == 2, f"{t.doing} is {found!r}, not a time and a word")
        t.same(found[1], "memory" if memory >= compute else "compute", f"the word of {t.doing}")
        t.close(found[0], max(memory, compute))


@exercise(
    "1.4",
    points=3,
    hints=(
        "In which sector is a byte? Its address divided by 32, rounded down. Count the different ones.",
        "Thread t begins to read at byte (first + stride * t) * size. Put the numbers of sectors into a set.",
        "An element may end in another sector than it begins in: its last byte is at begin + size - 1. Two are enough.",
    ),
    mutants={
        "elements for bytes": ("(first + stride * t) * size", "first + stride * t"),
        "where an element begins only": (", (begin + size - 1) // 32", ""),
        "the first is always element 0": ("first + stride * t", "stride * t"),
        "a sector for each thread": ("touched |= {begin // 32", "touched |= {t, begin // 32"),
    },
)
def sectors(t, sectors):
    def want(first, stride, size):
        return len({((first + stride * k) * size + byte) // 32 for k in range(32) for byte in range(size)})

    cases = [(0, 1, 4), (1, 1, 4), (0, 8, 4), (5, 0, 8), (0, 1, 12), (3, 1, 12), (100, -1, 4), (100, -3, 16)]
    cases += [(t.integer(0, 99), t.integer(-9, 40), int(t.rng.choice([1, 2, 4, 8, 12, 16]))) for _ in range(24)]
    for case in cases:
        t.same(sectors(*case), want(*case))
