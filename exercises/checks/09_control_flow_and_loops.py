"""Checks of the exercises to chapter 9."""

import ast
import textwrap

import numpy as np

import tinyton as tt
from exercises.book import exercise
from tinyton.frontend.flow import _ends


@exercise(
    "9.1",
    points=1,
    hints=(
        "A program does the tile of its number, then the one that is as many further on as there are programs.",
        "tt.num_programs(0) is how many there are. In elements, a round is tt.num_programs(0) * BLOCK.",
        "for start in range(tt.program_id(0) * BLOCK, n, tt.num_programs(0) * BLOCK), and in it what you would have"
        " written without a loop.",
    ),
    mutants={
        "one round only": ("n, tt.num_programs(0) * BLOCK", "tt.program_id(0) * BLOCK + 1, tt.num_programs(0) * BLOCK"),
        "rounds of as many elements as programs": (", tt.num_programs(0) * BLOCK)", ", tt.num_programs(0) + BLOCK)"),
        "all begin at the start": ("range(tt.program_id(0) * BLOCK, n", "range(tt.program_id(0), n"),
        "no mask on the store": ("mask=i < n), mask=i < n)", "mask=i < n))"),
    },
)
def scale(t, scale):
    for n in t.sizes(32):
        for programs in (1, 3, 7, tt.cdiv(n, 32) + 2):
            x, out, factor = t.floats(n), t.out(n), t.number()
            t.launch(scale, programs, x, out, n, factor, BLOCK=32)
            t.equal(out, np.float32(factor) * x)
    n = 32 * 12
    c = t.count(scale, 3, t.floats(n), t.out(n), n, 2.0, BLOCK=32)
    t.demand(c.bytes == 8 * n, f"elements are moved again and again: {c.bytes} bytes, not {8 * n}")


def steps_of(v):
    count = 0
    while v > 1:
        v, count = (v // 2 if v % 2 == 0 else 3 * v + 1), count + 1
    return count


@exercise(
    "9.2",
    points=2,
    hints=(
        "A while needs one truth value. When does the tile have to go on? As long as any element of it is not 1.",
        "tt.max(v) > 1 says that. An element that is 1 must stay 1, and must not be counted: 3 * 1 + 1 is 4.",
        "going = v > 1 says who takes part in a round: tt.where(going, …, v), and count += going.to(tt.int32).",
    ),
    mutants={
        "a fixed number of rounds": ("while tt.max(v) > 1:", "for _ in range(16):"),
        "everybody is counted": ("going.to(tt.int32)", "1"),
        "until the first is done": ("tt.max(v) > 1", "tt.min(v) > 1"),
        "a step too much": ("count = tt.zeros(BLOCK, tt.int32)", "count = tt.zeros(BLOCK, tt.int32) + 1"),
    },
)
def collatz(t, collatz):
    for n in t.sizes(16):
        x, steps = t.ints(1, 60, n), t.out(n, dtype=np.int32)
        x[0] = 1
        t.launch(collatz, tt.cdiv(n, 16), x, steps, n, BLOCK=16)
        t.equal(steps, np.array([steps_of(int(v)) for v in x], np.int32))


@exercise(
    "9.3",
    points=2,
    hints=(
        "Keep two tiles, low and high: the answer is from low to high. Look at the element in the middle.",
        "If it is less than what is wanted, the answer is above it: low becomes middle + 1. Else high becomes middle.",
        "Elements are done at different times. Who is done, low == high, loads nothing (middle may be n) and changes"
        " nothing. Go round while tt.max(high - low) > 0.",
    ),
    mutants={
        "equal ones are counted, too": (") < w", ") <= w"),
        "the middle is left out": ("middle, high)", "middle - 1, high)"),
        "who is done looks on": ("x + middle, mask=open_", "x + middle"),
        "all of x is read": (
            "    while tt.max(high - low) > 0:\n        middle = (low + high) // 2\n",
            "    for k in range(n):\n        low += (tt.load(x + k + tt.zeros(BLOCK, tt.int32)) < w).to(tt.int32)\n"
            "    high = low\n    while tt.max(high - low) > 0:\n        middle = (low + high) // 2\n",
        ),
    },
)
def place(t, place):
    for n in (t.integer(33, 70), 64, t.integer(5, 9), 1):
        x = np.sort(t.ints(-20, 20, n)).astype(np.float32) / 4
        for m in t.sizes(16)[:2]:
            wanted, out = t.ints(-24, 24, m).astype(np.float32) / 4, t.out(m, dtype=np.int32)
            t.launch(place, tt.cdiv(m, 16), x, wanted, out, n, m, BLOCK=16)
            t.equal(out, np.searchsorted(x, wanted).astype(np.int32))
    n, m = 1000, 48
    x, wanted = np.sort(t.floats(n)), t.floats(m)
    c = t.count(place, 3, x, wanted, t.out(m, dtype=np.int32), n, m, BLOCK=16)
    most = 4 * (n.bit_length() + 2) * m + 4 * m
    t.demand(c.bytes_loaded <= most, f"it loads {c.bytes_loaded} bytes to find {m} places, not {most} or fewer")


BLOCKS = (
    "x = 1",
    "return",
    "x = 1\nbreak\ny = 2",
    "if a:\n    return",
    "if a:\n    return\nelse:\n    x = 1",
    "if a:\n    return\nelse:\n    continue",
    "if a:\n    if b:\n        break\n    else:\n        return\nelse:\n    x = 1\n    return",
    "if a:\n    if b:\n        break\nelse:\n    return",
    "if a:\n    return\nelif b:\n    return\nelse:\n    return",
    "if a:\n    return\nelif b:\n    return",
    "while a:\n    return",
    "while True:\n    x = 1",
    "while 1:\n    if a:\n        break",
    "while True:\n    if a:\n        return",
    "while True:\n    for k in range(3):\n        break",
    "while True:\n    while a:\n        if b:\n            break\n    continue",
    "while True:\n    if a:\n        x = 1\n    else:\n        while b:\n            break\n        break",
    "while False:\n    return",
    "for k in range(n):\n    return",
    "for k in range(n):\n    break\nreturn",
    "while 0:\n    pass\nwhile True:\n    pass",
)


@exercise(
    "9.4",
    points=3,
    hints=(
        "Write a function of a list of statements. It is True if any of them is one that never passes on.",
        "For an if, ask the same function about both of its sides; the side that is not there is an empty list.",
        "For a while True, look for its own break: in its body and in the sides of every if there, but not in other"
        " loops.",
    ),
    mutants={
        "one side of an if is enough": ("never(s.body) and never(s.orelse)", "(never(s.body) or never(s.orelse))"),
        "an endless loop is a loop like others": ("if always and not leaves(s.body)", "if False and leaves(s.body)"),
        "nobody breaks": ("always and not leaves(s.body)", "always"),
        "breaks of inner loops count": (
            "if isinstance(s, ast.If) and (leaves",
            "if isinstance(s, (ast.For, ast.While)) and leaves(s.body):\n                return True\n"
            "            if isinstance(s, ast.If) and (leaves",
        ),
    },
)
def ends(t, ends):
    for text in BLOCKS:
        t.same(ends(text), _ends(ast.parse(text).body), f"ends of\n{textwrap.indent(text, '    ')}\n")
