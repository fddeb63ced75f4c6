"""Tuples and records: assigned, unpacked, merged, carried round loops, and looked at."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel, mappings, underlined
from tinyton.ir import Value
from tinyton.ops.typing import Struct, flatten


def run(lines, *args, size=8, warps=None, **names):
    params = ", ".join(["out", *"abc"[: len(args)]])
    k = kernel(f"@tt.jit\ndef k({params}):\n" + "".join(f"    {x}\n" for x in lines.strip("\n").split("\n")), **names)
    out = np.full(size, -99, np.float64)
    k[1](out, *args, num_warps=warps)
    return out.tolist()


def test_assignments_and_what_tuples_can(executor):
    lines = """
x, (y, z) = a, (a + 1, T[1:])
x, y = y, x
[u, v] = z
both = (x, y) + (u,)
tt.static_assert(len(both) == 3 and len(both[1:]) == 2)
p = q = (v, both)
tt.store(out, x * 1000 + y * 100 + u * 10 + v)
tt.store(out + 1, both[0] + both[-1])
tt.store(out + 2, p[1][1] + q[0])
both += (p,)
tt.store(out + 3, both[3][0] + len(both))
tt.store(out + 4, 1 if both[0] is None else 2)
s, t = T[0], tt.arange(0, 1)
tt.store(out + 5 + t, t + s)
"""
    assert run(lines, 5, T=(7, 8, 9)) == [6 * 1000 + 5 * 100 + 8 * 10 + 9, 14, 14, 13, 2, 7, -99, -99]


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
@pytest.mark.parametrize("n", [0, 1, 3, 6])
def test_merged_and_carried(mapping, n):
    lines = """
i = tt.arange(0, 4)
state = (i, (0, 1.5), "name")
for k in range(a):
    tile, (count, x), name = state
    if k % 2 == 0:
        state = (tile + 1, (count + k, x), name)
    else:
        state = (tile * 2, (count, x * 2), name)
tt.static_assert(state[2] == "name")
if a > 2:
    end = (state[0], state[1][0])
else:
    end = (i, 100)
tt.store(out + i, state[0] + end[0])
tt.store(out + 4, state[1][0])
tt.store(out + 5, state[1][1])
tt.store(out + 6, end[1])
"""
    tile, count, x = np.arange(4), 0, 1.5
    for k in range(n):
        tile, count, x = (tile + 1, count + k, x) if k % 2 == 0 else (tile * 2, count, x * 2)
    more, last = (tile, count) if n > 2 else (np.arange(4), 100)
    assert run(lines, n, warps=mapping.warps) == [*(tile + more), count, x, last, -99]


def test_an_element_that_does_not_change_stays_a_constant(executor):
    lines = """
state = (4, 0)
while state[1] < a:
    x = tt.zeros(state[0], tt.int32)
    state = (state[0], state[1] + x.shape[0])
if a > 3:
    state = (state[0], 7)
tt.store(out + tt.arange(0, state[0]), state[1])
"""
    assert run(lines, 2)[:5] == [4, 4, 4, 4, -99]
    assert run(lines, 5)[:5] == [7, 7, 7, 7, -99]


@dataclass(frozen=True)
class Span(Struct):
    start: Value
    extent: int
    more: tuple

    METHODS = {"total": "span_total"}


def test_records_are_flattened_like_tuples():
    x, y = (Value(None, name) for name in "xy")
    leaves, rebuild = flatten((Span(x, 4, (y, "s")), 5))
    assert leaves == [x, 4, y, "s", 5]
    assert rebuild([1, 2, 3, 4, 5]) == (Span(1, 2, (3, 4)), 5)
    assert flatten(7)[0] == [7] and flatten(())[1]([]) == ()


def test_named_tuples_stay_what_they_are(executor):
    lines = """
state = CONFIG
for k in range(a):
    if a > 2:
        tt.store(out + 7, CONFIG.size)
    state = state
tt.store(out, CONFIG.size + state.size)
"""
    config = namedtuple("Config", "size, name")(4, "x")
    assert run(lines, 3, CONFIG=config)[::7] == [8, 4]


def test_records_are_carried_and_have_methods(executor):
    """A block pointer is one."""
    lines = """
block = tt.make_block_ptr(out, (8,), (1,), (0,), (4,), (0,))
for k in range(a):
    tt.store(block, tt.zeros(4, tt.float64) + k)
    block = tt.advance(block, (4,))
"""
    assert run(lines, 2) == [0] * 4 + [1] * 4


def test_methods_of_tiles(executor):
    lines = """
x = tt.arange(0, 8).to(tt.float32)
tt.store(out, x.sum() + x.max(axis=0) + x[None, :].sum(1).sum(axis=0))
y = tt.arange(0, 4)[:, None] + tt.zeros((4, 2), tt.int32)
tt.static_assert(y.T.shape == (2, 4) and y.type.element_ty == tt.int32 and y.dtype.element_ty is y.dtype)
tt.static_assert(out.dtype.element_ty == tt.float64 and out.type.element_ty == tt.float64)
tt.store(out + 1, (-x).abs().max())
tt.store(out + 2, y.reshape(8).sum())
"""
    assert run(lines)[:3] == [28 + 7 + 28, 7, 12]


ERRORS = {
    "too many": ("x, y = (1, 2, 3)", "x, y", "a tuple of 3 cannot be unpacked into 2 names"),
    "nested": ("x, (y, z) = (1, 2)", "(y, z)", "int 2 is not a tuple: it cannot be unpacked into 2 names"),
    "a run-time index": ("x = (1, a)[a]", "(1, a)[a]", "takes a compile-time index"),
    "an index beyond": ("x = (1, a)[2]", "(1, a)[2]", "IndexError"),
    "a tuple as a tile": ("x = tt.exp((a, 1))", "tt.exp((a, 1))", "not a tuple of i32, int 1"),
    "unlike tuples": (
        "x = (1, 2)\nif a > 0:\n    x = (1, 2, 3)\ny = x",
        "x",
        "x depends on the path taken: tuple (1, 2, 3) or tuple (1, 2) (lines 5 and 3)",
    ),
    "unlike elements": (
        "x = (1, tt.arange(0, 4))\nif a > 0:\n    x = (1, tt.arange(0, 8))\ny = x",
        "x",
        "the type of x[1] depends on the path taken: i32[8] (line 5) or i32[4] (line 3)",
    ),
    "membership": ("x = 3 in (a, 4)", "3 in (a, 4)", "In on a run-time value"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(interpreter, case):
    lines, under, message = ERRORS[case]
    with pytest.raises(tt.TinytonError) as caught:
        run(lines, 3)
    assert underlined(caught.value) == under
    assert message in str(caught.value)
