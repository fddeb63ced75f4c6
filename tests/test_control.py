"""Control flow: loops and what they carry, branches and what they leave, conditions, what the outside lends."""

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel, mappings


def run(lines, *args, size=8, dtype=np.float64, mapping=None, **names):
    """out[0:size] after a kernel k(out, *args) of these lines; the arguments are called a, b, c."""
    params = ", ".join(["out", *"abcdef"[: len(args)]])
    text = f"@tt.jit\ndef k({params}):\n" + "".join(f"    {line}\n" for line in lines.strip("\n").split("\n"))
    out = np.full(size, np.nan, dtype) if np.dtype(dtype).kind == "f" else np.full(size, -99, dtype)
    kernel(text, **names)[1](out, *args, num_warps=mapping.warps if mapping else None)
    return out.tolist()


def refusal(lines, *args, **names):
    with pytest.raises(tt.TinytonError) as caught:
        run(lines, *args, **names)
    return str(caught.value)


# -- loops -------------------------------------------------------------------------------------------------------------

RANGES = [
    (0, 5, 1),
    (3, 3, 1),
    (5, 2, 1),
    (0, 10, 3),
    (10, 0, -1),
    (10, 0, -3),
    (0, 5, -1),
    (-5, 5, 4),
    (2**31 - 3, 2**31 - 1, 2),
    (2**31, 2**31 + 5, 2),
    (-(2**31), -(2**31) + 4, 3),
    (-(2**31) + 4, -(2**31), -3),
]


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_a_range_with_run_time_bounds(executor, bounds):
    lines = """
count = 0
last = b * 0 - 1
for k in range(a, b, c):
    count += 1
    last = k + b * 0
tt.store(out, count)
tt.store(out + 1, last)
"""
    want = list(range(*bounds))
    assert run(lines, *bounds, size=2) == [len(want), want[-1] if want else -1]


@pytest.mark.parametrize("bounds", [(0, 5, 1), (0, 10, 3), (10, 0, -3), (0, 5, -1), (4, 4, 1)], ids=str)
def test_a_range_with_constant_bounds_run_time_and_unrolled(executor, bounds):
    lines = """
total = 0
for k in range(LOW, HIGH, STEP):
    total = total * 3 + k
unrolled = 0
for k in tt.static_range(LOW, HIGH, STEP):
    unrolled = unrolled * 3 + k
tt.store(out, total)
tt.store(out + 1, unrolled)
"""
    want = 0
    for k in range(*bounds):
        want = want * 3 + k
    assert run(lines, size=2, **dict(zip(("LOW", "HIGH", "STEP"), bounds, strict=True))) == [want, want]


def test_static_range_has_constants(executor):
    lines = """
for k in tt.static_range(3):
    tt.static_assert(SHAPE[k] == 4 * (k + 1))
    tt.store(out + k, tt.sum(tt.zeros(1 << k, tt.int32) + 1))
tt.store(out + 3, k)
"""
    assert run(lines, size=4, SHAPE=(4, 8, 12)) == [1, 2, 4, 2]


CARRIED = {  # the start, what a round does, the type that it must get, the elements after three rounds
    "float literal, float64 tile": ("0.0", "acc += tt.zeros(4, tt.float64) + 0.1", "float64", [0.1 + 0.1 + 0.1] * 4),
    "float literal, float16 tile": ("0.0", "acc += tt.zeros(4, tt.float16) + 0.5", "float16", [1.5] * 4),
    "int literal, int8 tile": ("1", "acc = acc + tt.zeros(4, tt.int8)", "int8", [1] * 4),
    "int literal, float32 tile": ("0", "acc += tt.zeros(4, tt.float32) + 2", "float32", [6] * 4),
    "float literal, literal": ("0.0", "acc += 0.5", "float32", [1.5] * 4),
    "int literal, literal": ("0", "acc += 2", "int32", [6] * 4),
    "int literal, int64 scalar": ("0", "acc += b", "int64", [3 * 2**40] * 4),
    "bool literal, mask": ("False", "acc = acc | (tt.arange(0, 4) > 1)", "bool_", [0, 0, 1, 1]),
    "float argument, float64 tile": ("c", "acc = acc + tt.zeros(4, tt.float64)", "float64", [0.1] * 4),
    "infinity, maximum": ("-float('inf')", "acc = tt.maximum(acc, tt.zeros(4) + 3)", "float32", [3] * 4),
}


@pytest.mark.parametrize("case", CARRIED)
def test_a_literal_takes_the_type_that_the_loop_gives_it(executor, case):
    start, step, dtype, want = CARRIED[case]
    lines = f"""
acc = {start}
for k in range(a):
    {step}
tt.static_assert(acc.dtype == tt.{dtype}, f"{{acc.dtype}}")
tt.store(out + tt.arange(0, 4), acc)
"""
    assert run(lines, 3, 2**40, 0.1, size=4) == want


def test_loops_nest_and_carry_tiles(mapping):
    lines = """
i = tt.arange(0, 8)
x = i
y = i * 10
total = 0
for j in range(a):
    for k in range(j):
        t = x
        x = y
        y = t + k
        total += 1
    if j % 2 == 0:
        x = x + j
    else:
        y = y - j
tt.store(out + i, x * 1000 + y + total)
"""
    x, y, total = np.arange(8), np.arange(8) * 10, 0
    for j in range(5):
        for k in range(j):
            x, y = y, x + k
            total += 1
        x, y = (x + j, y) if j % 2 == 0 else (x, y - j)
    assert run(lines, 5, mapping=mapping) == (x * 1000 + y + total).tolist()


def test_a_loop_without_rounds_leaves_what_was(executor):
    lines = """
x = 7
y = tt.arange(0, 4) * 1.5
for k in range(a):
    x += 1
    y = y + 1
tt.store(out, x)
tt.store(out + 1 + tt.arange(0, 4), y)
"""
    assert run(lines, 0, size=5) == [7, 0, 1.5, 3, 4.5]
    assert run(lines, -3, size=5) == [7, 0, 1.5, 3, 4.5]


def test_a_compile_time_value_that_a_loop_leaves_alone_stays_one(executor):
    lines = """
SIZE = 4
for k in range(a):
    SIZE = 4
    tt.store(out + k * SIZE + tt.arange(0, SIZE), k)
tt.store(out + tt.arange(0, SIZE), 9)
"""
    assert run(lines, 2) == [9] * 4 + [1] * 4


LOOP_ERRORS = {
    "bound in the loop only": (
        "for k in range(a):\n    x = k\ntt.store(out, x)",
        "line 5",
        "x is bound only in the loop of line 3 (in line 4)",
    ),
    "the counter afterwards": (
        "for k in range(a):\n    pass\ntt.store(out, k)",
        "line 5",
        "k is bound only in the loop",
    ),
    "the type changes": (
        "x = tt.arange(0, 4)\nfor k in range(a):\n    x = x * 0.5\ntt.store(out, 1)",
        "line 4",
        "the type of x changes in the loop: i32[4] before it (line 3), f32[4] after a round (line 5)",
    ),
    "the shape changes": (
        "x = tt.arange(0, 4)\nfor k in range(a):\n    x = x[:, None] + x[None, :]\ntt.store(out, 1)",
        "line 4",
        "the type of x changes in the loop: i32[4] before it (line 3), i32[4, 4] after a round (line 5)",
    ),
    "a string changes": (
        "x = 'a'\nfor k in range(a):\n    x = 'b'\ntt.store(out, 1)",
        "line 4",
        "x is a compile-time str before the loop",
    ),
    "a tuple grows": (
        "x = (1, 2)\nfor k in range(a):\n    x = x + (3,)\ntt.store(out, 1)",
        "line 4",
        "the type of x changes in the loop: tuple (1, 2) before it (line 3), tuple (1, 2, 3) after a round (line 5)",
    ),
    "float bounds": ("for k in range(a * 0.5):\n    pass", "line 3", "integer scalars"),
    "a tile as bound": ("for k in range(tt.arange(0, 4)):\n    pass", "line 3", "integer scalars"),
}


@pytest.mark.parametrize("case", LOOP_ERRORS)
def test_loop_errors(interpreter, case):
    lines, where, message = LOOP_ERRORS[case]
    text = refusal(lines, 3)
    assert where in text.split("\n")[0]
    assert message in text


# -- branches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
@pytest.mark.parametrize("n", [-1, 0, 1, 2, 7])
def test_branches(mapping, n):
    lines = """
i = tt.arange(0, 4)
x = i
y = 1
if a < 0:
    x = i * 2
elif a == 0:
    y = 5
elif a == 1:
    x = i - 1
    y = 2
else:
    if a > 5:
        y = 0.5
    x = x + a
tt.store(out + i, x)
tt.store(out + 4, y)
tt.store(out + 5, 3.0 if a > 0 else 1)
if a:
    tt.store(out + 6, 1)
if not a:
    tt.store(out + 6, 2)
tt.store(out + 7, 0)
"""
    i = np.arange(4)
    x = i * 2 if n < 0 else i if n == 0 else i - 1 if n == 1 else i + n
    y = 1 if n < 0 else 5 if n == 0 else 2 if n == 1 else 0.5 if n > 5 else 1
    assert run(lines, n, mapping=mapping) == [*x, y, 3 if n > 0 else 1, 1 if n else 2, 0]


def test_a_compile_time_condition_takes_one_path(executor):
    """The other path is not even typed."""
    lines = """
if KIND == "int":
    x = 1
else:
    x = nope
tt.store(out, x if KIND == "int" else nope)
tt.store(out + 1, 5 if MISSING is None else MISSING + 1)
y = KIND == "float" and nope
tt.store(out + 2, 1 if y else 2)
"""
    assert run(lines, size=3, KIND="int", MISSING=None) == [1, 5, 2]


def test_only_one_side_is_computed(interpreter):
    """The other would be out of bounds."""
    lines = """
x = tt.load(out + a) if a < 8 else 5.0
y = tt.load(out + 1000) if a < 8 else x + 1
ok = a < 8 and tt.load(out + a) > 0
either = a > 8 or tt.load(out + a) > 0
tt.store(out, x)
tt.store(out + 1, y)
tt.store(out + 2, 1 if ok else 0)
tt.store(out + 3, 1 if either else 0)
tt.store(out + 4, 1 if a > 0 and a > 1 and a > 100000 else 0)
tt.store(out + 5, 1 if a < 0 or a < 1 or a > 100000 else 0)
tt.store(out + 6, 1 if a and 0 else 2)
tt.store(out + 7, 1 if 0 or a else 2)
"""
    assert run(lines, 1000000) == [5, 6, 0, 1, 1, 1, 2, 1]
    assert run(lines, 9) == [5, 6, 0, 1, 0, 0, 2, 1]


BRANCH_ERRORS = {
    "on one path only": (
        "if a > 0:\n    x = 1\ntt.store(out, x)",
        "line 5",
        "x has a value on one path only (line 4), not on the other of the if in line 3",
    ),
    "on the other path only": (
        "if a > 0:\n    pass\nelse:\n    x = 1\ntt.store(out, x)",
        "line 7",
        "x has a value on one path only (line 6), not on the other of the if in line 3",
    ),
    "the dtype depends": (
        "x = tt.arange(0, 4)\nif a > 0:\n    x = x * 1.5\ntt.store(out + tt.arange(0, 4), x)",
        "line 6",
        "the type of x depends on the path taken: f32[4] (line 5) or i32[4] (line 3)",
    ),
    "the shape depends": (
        "if a > 0:\n    x = tt.arange(0, 4)\nelse:\n    x = tt.arange(0, 8)\ntt.store(out, tt.sum(x))",
        "line 7",
        "the type of x depends on the path taken: i32[4] (line 4) or i32[8] (line 6)",
    ),
    "a string depends": (
        "if a > 0:\n    x = 'a'\nelse:\n    x = 'b'\ntt.static_assert(x == 'a')",
        "line 7",
        "x depends on the path taken",
    ),
    "in a loop": (
        "for k in range(a):\n    if k > 1:\n        x = k\n    tt.store(out + k, x)",
        "line 6",
        "x has a value on one path only (line 5), not on the other of the if in line 4",
    ),
    "a ternary": ("x = tt.arange(0, 4) if a > 0 else tt.arange(0, 8)", "line 3", "the value depends on the path taken"),
}


@pytest.mark.parametrize("case", BRANCH_ERRORS)
def test_branch_errors(interpreter, case):
    lines, where, message = BRANCH_ERRORS[case]
    text = refusal(lines, 3)
    assert where in text.split("\n")[0]
    assert message in text


@pytest.mark.parametrize("case", [c for c in BRANCH_ERRORS if c not in ("in a loop", "a ternary")])
def test_what_depends_on_the_path_may_stay_unused(interpreter, case):
    lines = BRANCH_ERRORS[case][0].split("\n")[:-1]
    run("\n".join([*lines, "x = 1", "tt.store(out, x)"]), 3)


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
def test_a_tile_may_be_a_number_on_the_other_path(mapping):
    lines = """
i = tt.arange(0, 4)
x = 0.0
if a > 0:
    x = i * 0.5
tt.store(out + i, x)
y = i if a > 0 else 7
tt.store(out + 4 + i, y)
"""
    assert run(lines, 1, mapping=mapping) == [0, 0.5, 1, 1.5, 0, 1, 2, 3]
    assert run(lines, -1, mapping=mapping) == [0] * 4 + [7] * 4


def test_stores_in_branches_and_loops(mapping):
    lines = """
i = tt.arange(0, 8)
tt.store(out + i, 0)
for k in range(a):
    if k % 2 == 1:
        tt.store(out + i, tt.where(i == k, k, tt.load(out + i)))
"""
    assert run(lines, 8, mapping=mapping) == [0, 1, 0, 3, 0, 5, 0, 7]
