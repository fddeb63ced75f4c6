"""Checks of project II: the reader's functions become part of a stage's package."""

import tinyton as tt
from exercises.book import exercise
from exercises.room import Room

PARTS = ("visit", "refuse", "builder", "rule")  # of what the visitor has
COMPILE = '''
import linecache

from tinyton.errors import TinytonError
from tinyton.frontend import capture, trace
from tinyton.ir import Type
from tinyton.dtypes import float32, int32
import tinyton as tt


def ir(expression, number):
    """The IR of a kernel that stores an expression of two tiles, a and b, and a number, n; or the error."""
    text = "def k(x, n):\\n    i = tt.arange(0, 64)\\n    a = tt.load(x + i)\\n    b = tt.load(x + i + 64)\\n"
    text += f"    tt.store(x + i, {expression})\\n"
    file = f"<kernel {number}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope = {"tt": tt}
    exec(compile(text, file, "exec"), scope)
    try:
        return str(trace(capture(scope["k"]), {"x": Type(float32, (), True), "n": Type(int32)}, frozenset()))
    except TinytonError as error:
        return f"{type(error).__name__}: {error}"
'''


@exercise(
    "P2.1",
    points=3,
    room=True,
    seconds=300,
    hints=(
        "bin_op is a line or two: visit left, visit right, operate(t, node.op, …). In compare, the right operand of one"
        " comparison is the left one of the next.",
        "Before a loop over zip(node.ops, node.comparators): left = t.visit(node.left). In it: right = t.visit(of the"
        " comparator), found = operate(t, kind, left, right), and at its end left = right.",
        "Begin with result = True. In each round, if result is a Value, it becomes OPS['where'].rule(t.builder, result,"
        " found, False), else `result and found`.",
    ),
    mutants={
        "the right side first": (
            "left = t.visit(node.left)\n    right = t.visit(node.right)",
            "right = t.visit(node.right)\n    left = t.visit(node.left)",
        ),
        "all are compared with the first": ("        left = right\n", ""),
        "what is in the middle is computed twice": ("        left = right\n", "        left = t.visit(other)\n"),
        "the last comparison counts": ('OPS["where"].rule(t.builder, result, found, False)', "found"),
    },
)
def operators(t, bin_op, compare):
    def expression(depth):
        if not depth:
            return str(t.rng.choice(["a", "b", "n", "3", "2.5", "a"]))
        left, right = (expression(depth - 1 - t.integer(0, depth - 1)) for _ in range(2))
        return f"({left} {t.rng.choice(['+', '-', '*', '/'])} {right})"

    def both(k, text, ours_of):
        found, want = yours.call("ir", text, k), ours.call("ir", ours_of, k)
        t.lines(found, want, f"the IR of a kernel that stores {text}")

    texts = ["a + b", "2 * 32 + a", "a - 4 * 8", "n / 4 - 1.5 * a", "-a * (3 - 5)", "a % 4", "(a < b) + 1", "a @ b"]
    texts += ["tt.where(a * 2 < b - n, a, b)", "tt.where(n >= 3, a, 1.0)", "a in b"]
    texts += [f"a + {expression(3)}" for _ in range(12)]
    masks = {  # chains, and what stage 1 has instead
        "2 < 3 < a": "3 < a",
        "a < 2 < 3": "tt.where(a < 2, 2 < 3, False)",
        "1 < 2 <= 2 != 3": "True",
    }
    for _ in range(12):
        x, y, z, last = (str(t.rng.choice(list("aabn"))) for _ in range(4))
        one, two, three = (str(t.rng.choice(["<", "<=", ">", ">=", "==", "!="])) for _ in range(3))
        pair = f"tt.where({x} {one} {y}, {y} {two} {z}, False)"
        masks[f"{x} {one} {y} {two} {z}"] = pair
        masks[f"{x} {one} {y} {two} {z} {three} {last}"] = f"tt.where({pair}, {z} {three} {last}, False)"
    answer, uses = {"bin_op": bin_op, "compare": compare}, ("operate", "OPS", "Value", "ast", "visits") + PARTS
    with Room(1, driver=COMPILE) as ours, Room(1, "frontend/expressions.py", answer, COMPILE, uses=uses) as yours:
        for k, text in enumerate(texts):
            both(k, text, text)
        for k, (text, instead) in enumerate(masks.items(), len(texts)):
            both(k, f"tt.where({text}, a, b)", f"tt.where({instead}, a, b)")
        found = yours.call("ir", "tt.where(a < b * n < 3, a, b)", len(texts) + len(masks))
        t.demand("where" in found, f"stores of tt.where(a < b * n < 3, a, b) are not compiled: {found}")
        t.demand(found.count(" mul ") == 1, f"b * n is not computed once in a < b * n < 3:\n{found}")
        yours.suite(t)


LAUNCH = '''
import linecache

import numpy as np

import tinyton as tt

TEXT = """
@tt.jit
def k(x, out, n, A: tt.constexpr, B: tt.constexpr = 1):
    i = tt.program_id(0) * 32 + tt.arange(0, 32)
    tt.store(out + i, (tt.load(x + i, mask=i < n) * SCALE + A) / 2 * B, mask=i < n)
"""
linecache.cache["<kernel>"] = len(TEXT), None, TEXT.splitlines(True), "<kernel>"
SCOPE = {"tt": tt, "SCALE": 1}
exec(compile(TEXT, "<kernel>", "exec"), SCOPE)


def launch(dtype, n, shift, scale, named):
    """How many variants there are after a launch, and what it computed."""
    SCOPE["SCALE"] = scale
    x = np.arange(n + 9, dtype=dtype)[shift : shift + n]
    out = np.zeros(n, np.float32)
    SCOPE["k"][-(-n // 32)](x, out, n, **named)
    return len(SCOPE["k"]._cache), out
'''
OLD_KEY = "key = (executor.key(), kinds, baked, tuple(described[n][0].divisible for n in sorted(used)))"
NEW_KEY = "key = launch_key(str(executor.key()), {n: a for n, (a, _) in described.items()}, meta, self._outside())"


@exercise(
    "P2.2",
    points=3,
    room=True,
    seconds=300,
    hints=(
        "Everything that changes the generated code belongs in it, and nothing else. Go through the four arguments.",
        "A tuple of hashable things is hashable, a dict is not: sorted(args.items()) makes a list of pairs.",
        "Of each argument its name, .kind, .dtype, and .divisible of pointers only; of each constant and global its"
        " name and exact(value).",
    ),
    mutants={
        "every sixteenth length is another kernel": ('a.kind == "pointer" and a.divisible', "a.divisible"),
        "1, 1.0 and True are the same": (
            "(n, exact(value)) for n, value in sorted(constants",
            "(n, value) for n, value in sorted(constants",
        ),
        "globals have no part": (", baked, globals_read", ", baked"),
        "values without names": (
            "(n, exact(value)) for n, value in sorted(constants.items())",
            "exact(value) for value in sorted(constants.values())",
        ),
    },
)
def key(t, launch_key):
    def launches():
        base = {"A": 3}
        yield from (("float32", n, 0, 1, base) for n in (33, 50, 64, 80, 97))  # a new length is no new kernel
        yield from (("float32", 50, shift, 1, base) for shift in (0, 1, 4, 3))  # where it begins may make one
        yield from (("int32", 40, 0, 1, base), ("float64", 40, 0, 1, base), ("float32", 40, 0, 1, base))
        yield from (("int32", 40, 0, 1, {"A": a}) for a in (1, 1.0, True, 2, 1))
        yield from (("float32", 40, 0, scale, base) for scale in (2, 2.0, 5, 1))
        yield from (("float32", 40, 0, 1, named) for named in ({"A": 2, "B": 5}, {"B": 2, "A": 5}, {"B": 5, "A": 2}))
        for _ in range(12):
            dtype, n = str(t.rng.choice(["float32", "int32"])), t.integer(1, 99)
            yield dtype, n, t.integer(0, 1), t.integer(1, 2), {"A": t.integer(1, 2), "B": t.integer(1, 2)}

    def said(one):
        dtype, n, shift, scale, named = one
        return f"x of {dtype} from element {shift} on, n = {n}, SCALE = {scale!r}, {named}"

    files, edits = {"launch_key": launch_key}, [(OLD_KEY, NEW_KEY)]
    with (
        Room(2, driver=LAUNCH) as ours,
        Room(2, "jit.py", files, LAUNCH, edits, ("exact", "kind", "dtype", "divisible")) as yours,
    ):
        before = 0
        for one in launches():
            (variants, out), (known, want) = yours.call("launch", *one), ours.call("launch", *one)
            t.demand((out == want).all(), f"a launch gets another one's kernel: {said(one)}")
            what = "is compiled again, and needs not" if variants > known else "gets a kernel that is not its own"
            t.demand(variants == known, f"a launch {what}: {said(one)} (kernels: {variants}, {before} before it)")
            before = variants
        yours.suite(t)


BASES = """
import tinyton.layout


def bases(*args):
    made = tinyton.layout.blocked(*args)
    return made.shape, made.reg, made.thread
"""


@exercise(
    "P2.3",
    points=3,
    room=True,
    seconds=300,
    hints=(
        "Keep a list of how many bits of each dimension are dealt out, and write a function that takes so many bits"
        " from dimensions in an order.",
        "take(count, dims): for each d of dims, while there are fewer than count moves and done[d] < log2(shape[d]):"
        " a move of 2**done[d] along d; done[d] += 1.",
        "register = take(log2(vector), order[:1]); lanes = take(min(5, bits), order); warps = take(bits - len(lanes),"
        " order[::-1]); zeros for thread bits that are missing; then the rest to the register.",
    ),
    mutants={
        "warps from the same end as lanes": ("order[::-1])", "order)"),
        "no copies": ("thread += [(0,) * len(shape)] * (bits - len(thread))", "pass"),
        "a warp of 64": ("min(5, bits)", "min(6, bits)"),
        "the vector goes along every dimension": ("order[:1]", "order"),
    },
)
def bases(t, blocked):
    cases = [((4, 8), 8, 4, None), ((16, 32), 64, 4, None), ((16, 32), 64, 4, (0, 1)), ((8,), 32, 1, None)]
    cases += [((2, 4), 8, 8, None), ((8, 1, 64), 256, 2, (0, 2, 1))]
    for _ in range(24):
        shape = tuple(2 ** t.integer(0, 6) for _ in range(t.integer(1, 3)))
        order = tuple(t.rng.permutation(len(shape)).tolist()) if t.rng.random() < 0.5 else None
        cases.append((shape, 2 ** t.integer(0, 8), 2 ** t.integer(0, 3), order))
    with Room(3, "layout.py", {"blocked": blocked}, BASES, uses=("Layout", "log2")) as room:
        for case in cases:
            want = tt.layout.blocked(*case)
            said = "blocked({}, threads={}, vector={}, order={})".format(*case)
            t.same(
                room.call("bases", *case), (want.shape, want.reg, want.thread), f"(shape, register, thread) of {said}"
            )
        room.suite(t)
