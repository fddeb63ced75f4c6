"""What the interpreter reports: programs in each other's way, reads of what nobody wrote, accesses out of bounds; and
what it lets pass."""

import re

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel

HEAD = "@tt.jit\ndef k({args}):\n    p = tt.program_id(0)\n    i = p * B + tt.arange(0, B)\n"


@pytest.fixture(autouse=True)
def on_the_interpreter(interpreter):
    pass


def build(args, body):
    lines = "".join(f"    {line}\n" for line in body.strip().split("\n"))
    return kernel(HEAD.format(args=args + ", B: tt.constexpr") + lines)


def fails(error, launch, line, under, *words):
    """Asserts that ``launch()`` fails with ``error`` in this line, the caret under these words."""
    with pytest.raises(error) as caught:
        launch()
    place, code, caret, message = str(caught.value).split("\n")[:4]
    assert place == f"kernel k, line {line}:"
    at = caret.index("^")
    assert code[at : caret.rindex("^") + 1] == under
    for word in words:
        assert word in message, message
    return message


def floats(n):
    return np.random.default_rng().random(n, dtype=np.float32) + 1


# -- programs that store to one element --------------------------------------------------------------------------------


def test_a_reduction_that_every_program_stores_to_one_element():
    k = build("x, out, n", "tt.store(out, tt.sum(tt.load(x + i, mask=i < n)))")
    x, out = np.arange(20, dtype=np.float32), np.zeros(3, np.float32)
    message = fails(
        tt.RaceError,
        lambda: k[3](x, out[1:], 20, B=8),
        5,
        "tt.store(out, tt.sum(tt.load(x + i, mask=i < n)))",
        "programs (0, 0, 0) and (1, 0, 0) store different values to element 0 of out: 28.0 in line 5, then 92.0 in",
    )
    assert "use an atomic operation" in message
    k[1](x, out, 8, B=8)
    assert out[0] == 28
    k[3](np.ones(24, np.float32), out, 24, B=8)  # equal values
    assert out[0] == 8


def test_both_lines_are_named():
    k = build("out, s", "if p == 0:\n    tt.store(out + 2 * s, 1)\nif p == 1:\n    tt.store(out + p + s, 2)")
    words = "element 2 of out: 1 in line 6, then 2 in line 8"
    fails(tt.RaceError, lambda: k[2](np.zeros(9, np.int64), 1, B=1), 8, "tt.store(out + p + s, 2)", words)
    k[2](np.zeros(9, np.int64), 0, B=1)


def test_tiles_that_overlap_by_one():
    k = build("out, step, dtype: tt.constexpr", "tt.store(out + p * step + tt.arange(0, B), i.to(dtype))")
    for dtype, ours in ((np.float16, tt.float16), (np.int8, tt.int8), (np.float64, tt.float64), (np.uint32, tt.uint32)):
        out = np.zeros(64, dtype)
        with pytest.raises(tt.RaceError, match=r"programs \(0, 0, 0\) and \(1, 0, 0\).*element 7 of out: 7.* then 8"):
            k[4](out, 7, ours, B=8)
        k[4](out, 8, ours, B=8)
        assert out[:32].tolist() == list(range(32))


def test_bfloat16_values_are_told_as_numbers():
    k = build("out", "tt.store(out, p + 1.5)")
    with pytest.raises(tt.RaceError, match="1.5 in line 5, then 2.5 in line 5"):
        k[2](tt.zeros(1, tt.bfloat16), B=1)


def test_zeros_and_nans_are_compared_bit_by_bit():
    k = build("x, out", "tt.store(out, tt.load(x + p))")
    k[2](np.array([np.nan, np.nan], np.float32), np.zeros(1, np.float32), B=1)
    with pytest.raises(tt.RaceError, match=r"0\.0 in line 5, then -0\.0"):
        k[2](np.array([0.0, -0.0], np.float32), np.zeros(1, np.float32), B=1)


def test_one_tile_that_stores_two_values_to_one_element():
    """A histogram without atomics loses counts within a tile."""
    k = build("x, hist", "v = tt.load(x + i)\ntt.store(hist + v, tt.load(hist + v) + i)")
    words = "program (0, 0, 0) stores different values to element 3 of hist at once: 2 and 3;"
    fails(
        tt.RaceError,
        lambda: k[1](np.array([1, 2, 3, 3]), np.zeros(5, np.int32), B=4),
        6,
        "tt.store(hist + v, tt.load(hist + v) + i)",
        words,
    )
    k[1](np.array([1, 2, 4, 3]), np.zeros(5, np.int32), B=4)


def test_a_histogram_with_and_without_atomics():
    x, hist = np.array([1, 2, 0, 3, 2, 1, 3, 0]), np.zeros(4, np.int32)
    plain = build("x, hist", "v = tt.load(x + i)\ntt.store(hist + v, tt.load(hist + v) + 1)")
    words = "program (1, 0, 0) reads element 2 of hist, which program (0, 0, 0) writes in line 6"
    fails(tt.RaceError, lambda: plain[2](x, hist, B=4), 6, "tt.load(hist + v)", words)
    atomic = build("x, hist", "tt.atomic_add(hist + tt.load(x + i), 1)")
    hist[:] = 0
    atomic[2](x, hist, B=4)
    assert hist.tolist() == [2, 2, 2, 2]


def test_rows_and_columns_that_are_mixed_up():
    """Row ``p`` of a 6 x 10 matrix starts at ``p * 10``, not at ``p * 6``; its transpose has rows of 6."""
    text = "j = tt.arange(0, 16)\ntt.store(out + {at}, tt.load(x + p * n + j, mask=j < n), mask=j < n)"
    x, out = floats(60), np.zeros(60, np.float32)
    k = build("x, out, m, n", text.format(at="p * m + j"))
    words = "programs (0, 0, 0) and (1, 0, 0) store different values to element 6 of out: "
    under = "tt.store(out + p * m + j, tt.load(x + p * n + j, mask=j < n), mask=j < n)"
    message = fails(tt.RaceError, lambda: k[6](x, out, 6, 10, B=1), 6, under, words)
    assert f": {x[6].item()} in line 6, then {x[10].item()} in line 6;" in message
    k = build("x, out, m, n", text.format(at="j * n + p"))
    with pytest.raises(tt.OutOfBoundsError, match=r"program \(0, 0, 0\) writes element 60 of out"):
        k[6](x, out, 6, 10, B=1)
    build("x, out, m, n", text.format(at="j * m + p"))[6](x, out, 6, 10, B=1)
    assert (out.reshape(10, 6) == x.reshape(6, 10).T).all()


# -- reads and writes --------------------------------------------------------------------------------------------------

STENCIL = "a = tt.load(x + i + {at}, mask=(i + {at} >= 0) & (i + {at} < n))\ntt.store({out} + i, a, mask=i < n)"


@pytest.mark.parametrize(
    "at, line, under, words",
    [
        (1, 6, "tt.store(x + i, a, mask=i < n)", "writes element 8 of x, which program (0, 0, 0) reads in line 5"),
        (
            -1,
            5,
            "tt.load(x + i + -1, mask=(i + -1 >= 0) & (i + -1 < n))",
            "reads element 7 of x, which program (0, 0, 0) writes in line 6",
        ),
    ],
)
def test_a_stencil_in_place(at, line, under, words):
    k, x = build("x, n", STENCIL.format(at=at, out="x")), floats(20)
    message = fails(tt.RaceError, lambda: k[3](x, 20, B=8), line, under, f"program (1, 0, 0) {words}")
    assert "Write to another array" in message
    x, out = floats(20), np.zeros(20, np.float32)
    build("x, out, n", STENCIL.format(at=at, out="out"))[3](x, out, 20, B=8)
    assert np.count_nonzero(out) == 19
    build("x, n", STENCIL.format(at=0, out="x"))[3](x, 20, B=8)  # each program its own elements


def test_two_arguments_may_be_one_memory():
    k = build("x, out, n", STENCIL.format(at=1, out="out"))
    x = floats(21)
    with pytest.raises(tt.RaceError, match=r"program \(1, 0, 0\) writes element 8 of out, which .* reads in line 5"):
        k[3](x, x, 20, B=8)
    same = build("x, out, n", STENCIL.format(at=0, out="out"))
    with pytest.raises(tt.RaceError, match=r"reads element 8 of x, which program \(0, 0, 0\) writes in line 6"):
        same[3](x[:20], x[1:], 20, B=8)
    k[3](x[:20], x[1:], 20, B=8)
    y = tt.to_device(x)
    with pytest.raises(tt.RaceError, match="writes element 8 of out"):
        k[3](y, y, 20, B=8)
    bits = build("x, out", "tt.store(out + 2 * p, tt.load(x + p + 1).to(tt.int16))")
    with pytest.raises(tt.RaceError, match=r"element 2 of out, which program \(0, 0, 0\) reads"):
        bits[2](x[:8], x[:8].view(np.int16), B=1)


def test_a_second_launch_starts_anew():
    k, x = build("x, at, v", "tt.store(x + at, v + 0 * p)"), np.zeros(4, np.int32)
    for v in range(5):
        k[4](x, 2, v, B=1)
    assert x[2] == 4


def test_a_program_reads_what_it_wrote():
    k = build("x, out, n", "for r in range(3):\n    tt.store(x + i, tt.load(x + i) * 2)\n    tt.store(out + i, r)")
    x = np.ones(16, np.int32)
    k[2](x, np.zeros(16, np.int32), 0, B=8)
    assert x.tolist() == [8] * 16


# -- atomics put programs in order -------------------------------------------------------------------------------------

LOCKED = """
{first}
v = tt.load(x)
tt.store(x, v + p + 1)
{last}
"""


@pytest.mark.parametrize(
    "first, last, right",
    [
        ("tt.atomic_cas(lock, 0, 1)", "tt.atomic_xchg(lock, 0)", True),
        ("tt.atomic_cas(lock, 0, 1)", "", False),
        ("", "tt.atomic_xchg(lock, 0)", False),
        ("", "", False),
    ],
)
def test_a_lock(first, last, right):
    k = build("x, lock", LOCKED.format(first=first, last=last).replace("\n\n", "\n"))
    x, lock = np.zeros(1, np.int32), np.zeros(1, np.int32)
    if right:
        k[5](x, lock, B=1)
        assert x[0] == 15
    else:
        with pytest.raises(tt.RaceError, match=r"program \(1, 0, 0\) reads element 0 of x, which program \(0, 0, 0\)"):
            k[5](x, lock, B=1)


def test_a_lock_that_is_waited_for():
    """Rows of a gradient are added up in a few places, each with a lock and a flag that says whether it holds any."""
    k = build(
        "x, out, lock, count, groups",
        """
v = tt.load(x + i)
g = p % groups
while tt.atomic_cas(lock + g, 0, 1) == 1:
    pass
at = out + g * B + tt.arange(0, B)
if tt.load(count + g) == 0:
    tt.atomic_xchg(count + g, 1)
else:
    v += tt.load(at)
tt.store(at, v)
tt.atomic_xchg(lock + g, 0)
""",
    )
    x, out = floats(40).reshape(5, 8), np.empty((2, 8), np.float32)
    k[5](x, out, np.zeros(2, np.int32), np.zeros(2, np.int32), 2, B=8)
    np.testing.assert_allclose(out, [x[::2].sum(0), x[1::2].sum(0)], rtol=1e-6)


def test_the_last_program_adds_up_what_all_have_left():
    body = """
tt.store(part + p, p + 1)
{count}
if done == tt.num_programs(0) - 1:
    tt.store(out, tt.sum(tt.load(part + tt.arange(0, 4))))
"""
    out, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
    k = build("part, done_ptr, out", body.format(count="done = tt.atomic_add(done_ptr, 1)"))
    k[4](np.zeros(4, np.int32), done, out, B=1)
    assert (out[0], done[0]) == (10, 4)
    k = build("part, done_ptr, out", body.format(count="done = p"))
    with pytest.raises(tt.RaceError, match=r"program \(3, 0, 0\) reads element 0 of part, which program \(0, 0, 0\)"):
        k[4](np.zeros(4, np.int32), done, out, B=1)


def test_a_ticket_that_is_taken_too_early():
    """The last program has stored its own part after the last atomic operation of all."""
    k = build(
        "part, done_ptr, out",
        """
done = tt.atomic_add(done_ptr, 1)
tt.store(part + p, p + 1)
if done == tt.num_programs(0) - 1:
    tt.store(out, tt.sum(tt.load(part + tt.arange(0, 4))))
""",
    )
    with pytest.raises(tt.RaceError, match=r"program \(3, 0, 0\) reads element 0 of part, which program \(0, 0, 0\)"):
        k[4](np.zeros(4, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32), B=1)


# -- what nobody has written -------------------------------------------------------------------------------------------

COPY = "tt.store(y + i, tt.load(x + i, mask=i < n), mask=i < n)"


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.int8, tt.float64, tt.bool_])
def test_reading_what_nobody_has_written(dtype):
    k, x, y = build("x, y, n", COPY), tt.empty(20, dtype), tt.empty(20, dtype)
    words = "program (0, 0, 0) reads element 0 of x, which nothing has written", "tt.zeros"
    fails(tt.UninitialisedError, lambda: k[3](x, y, 20, B=8), 5, "tt.load(x + i, mask=i < n)", *words)
    k[3](tt.zeros(20, dtype), x, 15, B=8)
    k[2](x, y, 15, B=8)
    with pytest.raises(tt.UninitialisedError, match=r"program \(1, 0, 0\) reads element 15 of x"):
        k[2](x, y, 16, B=8)
    k[2](tt.to_device(np.zeros(15), dtype), y, 15, B=8)


def test_numpy_arrays_are_written():
    y = np.empty(20, np.float32)
    build("x, y, n", COPY)[3](np.empty(20, np.float32), y, 20, B=8)


def test_what_nobody_has_written_is_nan_on_the_host():
    x = tt.empty(8)
    build("x", "tt.store(x + i, i)")[1](x, B=4)
    assert x.numpy()[:4].tolist() == [0, 1, 2, 3]
    assert np.isnan(x.numpy()[4:]).all()
    assert tt.empty(3, tt.int16).numpy().tolist() == [-1] * 3


def test_an_atomic_reads_too():
    k = build("x", "tt.atomic_add(x + i, 1)")
    with pytest.raises(tt.UninitialisedError, match=r"program \(0, 0, 0\) reads element 0 of x"):
        k[1](tt.empty(8, tt.int32), B=8)
    x = tt.zeros(8, tt.int32)
    k[1](x, B=8)
    assert x.numpy().tolist() == [1] * 8


def test_a_programs_shared_buffer_starts_anew():
    k = build(
        "x, n", "if p < n:\n    tt.shared_store(tt.arange(0, B), i)\ntt.store(x + i, tt.shared_load(tt.arange(0, B)))"
    )
    x = np.zeros(16, np.int32)
    k[2](x, 2, B=8)
    assert x.tolist() == list(range(16))
    with pytest.raises(tt.UninitialisedError, match=r"program \(1, 0, 0\) reads element 0 of the shared buffer"):
        k[2](x, 1, B=8)


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, words",
    [
        (
            "tt.store(x + i, tt.load(x + i, mask=i < n) + 1)",
            r"program \(1, 0, 0\) writes element 13 of x, .*lane \(5,\)",
        ),
        ("tt.store(x + i, tt.load(x + i), mask=i < n)", r"program \(1, 0, 0\) reads element 13 of x, .*lane \(5,\)"),
        ("tt.store(x - 1, 0.0)", r"writes element -1 of x, which has elements 0 to 12; mask"),
        ("tt.store(x, tt.load(x + n))", "reads element 13 of x, which has elements 0 to 12; mask"),
        ("tt.store(x + i, tt.load(x + i - 4), mask=i < n)", r"\(0, 0, 0\) reads element -4 of x, .*lane \(0,\)"),
        ("tt.store(x, tt.load(x + n.to(tt.int64) * 1000000000))", "reads element 13000000000 of x"),
        ("tt.atomic_add(x + i, 1.0)", r"program \(1, 0, 0\) changes element 13 of x, .*lane \(5,\)"),
        ("tt.atomic_add(x - n, 1.0)", "changes element -13 of x"),
        ("tt.store(tt.make_block_ptr(x, (n,), (1,), (p * B,), (B,), (0,)), 1.0)", "writes element 13 of x"),
        ("tt.shared_store(tt.arange(0, B) - 1, 1.0, buffer_size=16)", "writes element -1 of the shared buffer"),
        ("tt.shared_store(tt.arange(0, B) + 9, 1.0, buffer_size=16)", "writes element 16 of the shared buffer, which"),
    ],
)
def test_out_of_bounds(body, words):
    with pytest.raises(tt.OutOfBoundsError, match=words) as caught:
        build("x, n", body)[2](np.zeros(13, np.float32), 13, B=8)
    assert caught.value.loc.line == 5


def test_an_array_that_is_empty():
    with pytest.raises(tt.OutOfBoundsError, match="writes element 0 of x"):
        build("x", "tt.store(x, 1.0)")[1](np.zeros(0, np.float32), B=1)


# -- the order of the programs, and what is off ------------------------------------------------------------------------

ORDER = "tt.store(out + tt.atomic_add(count, 1), p + 10 * tt.program_id(1))"


def order(monkeypatch, how):
    monkeypatch.setenv("TINYTON_GRID_ORDER", how)
    out, count = np.full(12, -1, np.int32), np.zeros(1, np.int32)
    build("out, count", ORDER)[4, 3](out, count, B=1)
    return out.tolist()


def test_the_grid_in_another_order(monkeypatch):
    straight = order(monkeypatch, "")
    assert straight == [x + 10 * y for y in range(3) for x in range(4)]
    seven = order(monkeypatch, "shuffle:7")
    assert seven != straight
    assert sorted(seven) == straight
    assert order(monkeypatch, "shuffle:7") == seven
    assert len({tuple(order(monkeypatch, "shuffle")) for _ in range(4)}) > 1


def test_an_error_says_in_which_order_it_came(monkeypatch):
    k = build("x, out", "if p == 5:\n    tt.store(out, tt.load(x + 9))")
    monkeypatch.setenv("TINYTON_GRID_ORDER", "shuffle")
    with pytest.raises(tt.OutOfBoundsError) as caught:
        k[8](np.zeros(4), np.zeros(4), B=1)
    assert re.search(r"\(programs ran in the order TINYTON_GRID_ORDER=shuffle:\d+\)$", str(caught.value))


@pytest.mark.parametrize("how", ["reverse", "shuffle:x", "shuffle:-1", "shuffle:", "7"])
def test_an_order_that_is_none(monkeypatch, how):
    with pytest.raises(tt.BackendError, match=f"TINYTON_GRID_ORDER is '{how}'; it may be shuffle"):
        order(monkeypatch, how)


def test_a_race_is_found_in_any_order(monkeypatch):
    k = build("x, n", STENCIL.format(at=1, out="x"))
    for seed in range(8):
        monkeypatch.setenv("TINYTON_GRID_ORDER", f"shuffle:{seed}")
        with pytest.raises(tt.RaceError, match=f"shuffle:{seed}"):
            k[3](floats(20), 20, B=8)


def test_checks_are_off_but_for_bounds(monkeypatch):
    monkeypatch.setenv("TINYTON_CHECKS", "0")
    x = floats(20)
    build("x, n", STENCIL.format(at=1, out="x"))[3](x, 20, B=8)
    build("x, y, n", COPY)[3](tt.empty(20), tt.empty(20), 20, B=8)
    with pytest.raises(tt.OutOfBoundsError):
        build("x, n", STENCIL.format(at=1, out="x"))[3](x, 40, B=8)
