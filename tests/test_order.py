"""Within a program, loads and stores happen in the order they are written in, whichever threads do them."""

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel


def test_turning_a_tile_in_place(mapping):
    @tt.jit
    def turn(x, n, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x + i, tt.load(x + (n - 1 - i)))

    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    want = x[::-1].copy()
    turn[1](x, 1024, BLOCK=1024, num_warps=mapping.warps)
    assert np.array_equal(x, want)


def test_reading_what_was_just_written(mapping):
    @tt.jit
    def shift(x, out, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x + i, i)
        tt.store(out + i, tt.load(x + (i ^ 511)))

    x, out = np.zeros(512, np.int32), np.zeros(512, np.int32)
    shift[1](x, out, BLOCK=512, num_warps=mapping.warps)
    assert np.array_equal(out, np.arange(512) ^ 511)


def test_rounds_of_a_loop_follow_each_other(mapping):
    @tt.jit
    def scan(x, n, BLOCK: tt.constexpr):  # Hillis and Steele, in place
        i = tt.arange(0, BLOCK)
        step = 1
        for _ in range(n):
            left = tt.load(x + (i - step), mask=i >= step)
            tt.store(x + i, tt.load(x + i) + left)
            step = step * 2

    x = np.random.default_rng(1).integers(-9, 9, 256).astype(np.int32)
    want = np.cumsum(x)
    scan[1](x, 8, BLOCK=256, num_warps=mapping.warps)
    assert np.array_equal(x, want)


def test_a_scalar_written_by_one_thread_is_read_by_all(mapping):
    @tt.jit
    def through_memory(x, out, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x, tt.sum(i))
        tt.store(out + i, tt.load(x) + i)

    x, out = np.zeros(1, np.int32), np.zeros(256, np.int32)
    through_memory[1](x, out, BLOCK=256, num_warps=mapping.warps)
    assert np.array_equal(out, np.arange(256) + 255 * 128)


@pytest.mark.parametrize("where", ["x", "out"])
def test_elementwise_work_needs_no_barrier(where):
    k = kernel(f"""
@tt.jit
def k(x, out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store({where} + i, tt.load(x + i, mask=i < n) + 1, mask=i < n)
""")
    a = np.zeros(512, np.float32)
    with tt.backends.use("opencl" if tt.backends.available()["opencl"] is None else tt.backends.current().name):
        assert "barrier" not in k.compile(a, a, 512, BLOCK=512, num_warps=4).source


BETWEEN_ROUNDS = {  # the offset of round j, and whether rounds meet in other threads
    "i + j": True,
    "j * (BLOCK // 2) + i": True,
    "j * BLOCK + i": False,
    "n * BLOCK - (j * BLOCK + i).to(tt.int64)": False,
    "j * (1 - BLOCK) + n * BLOCK - i": True,
    "i": False,
}


@pytest.mark.parametrize("offset", BETWEEN_ROUNDS)
def test_rounds_that_meet_elsewhere_wait_for_each_other(mapping, offset):
    k = kernel(f"""
@tt.jit
def k(x, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    for j in range(tt.program_id(0), n, tt.num_programs(0)):
        p = x + ({offset})
        tt.store(p, tt.load(p) * 2 + j)
""")
    x = np.zeros(2048, np.int32)
    k[1](x, 9, BLOCK=128, num_warps=mapping.warps)
    want, at = np.zeros(2048, np.int32), np.arange(128)
    for j in range(9):
        where = eval(offset.replace(".to(tt.int64)", ""), {"i": at, "j": j, "n": 9, "BLOCK": 128})
        want[where] = want[where] * 2 + j
    assert np.array_equal(x, want)
    if mapping.executor == "opencl" and mapping.warps == 4:
        source = k.compile(x, 9, BLOCK=128, num_warps=4).source
        assert ("barrier" in source) == BETWEEN_ROUNDS[offset]


def test_a_loop_without_rounds_keeps_the_order_around_it(mapping):
    @tt.jit
    def around(x, y, out, n, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x + i, i)
        for j in range(n):
            tt.store(y + i, i + j)
            tt.store(y + i, tt.load(y + (i ^ 511)))
        tt.store(out + i, tt.load(x + (i ^ 511)))

    x, y, out = (np.zeros(512, np.int32) for _ in range(3))
    around[1](x, y, out, 0, BLOCK=512, num_warps=mapping.warps)
    assert np.array_equal(out, np.arange(512) ^ 511)


STEPS = {  # the body of a loop that goes through x in steps of BLOCK, and whether its rounds meet in other threads
    "for k in range(0, n, BLOCK): tt.store(x + k + i, tt.load(x + k + i) + k)": False,
    "for k in range(0, n - 1, BLOCK // 2): tt.store(x + k + i, tt.load(x + k + i) + k)": True,
    "for k in range(0, n, BLOCK): tt.store(x + i, tt.load(x + i) + k); x += BLOCK": False,
    "for k in range(0, n, BLOCK): tt.store(x + i, tt.load(x + i) + k); x += 1": True,
    "for k in range(0, n, BLOCK): tt.store(x + (i ^ 1), tt.load(x + i) + k); x += BLOCK": True,
    "p = x + i\n    for k in range(0, n, BLOCK): tt.store(p, tt.load(p) + k); p += BLOCK": False,
    "q = tt.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))\n    for k in range(0, n, BLOCK):"
    "\n        tt.store(q, tt.load(q) + k)\n        q = tt.advance(q, (BLOCK,))": False,
}


@pytest.mark.parametrize("body", STEPS, ids=range(len(STEPS)))
def test_rounds_that_go_on_do_not_wait(mapping, body):
    k = kernel(f"@tt.jit\ndef k(x, n, BLOCK: tt.constexpr):\n    i = tt.arange(0, BLOCK)\n    {body}")
    x, want = (np.random.default_rng(5).integers(0, 99, 1024).astype(np.int32) for _ in range(2))
    k[1](x, 512, BLOCK=128, num_warps=mapping.warps)
    with tt.backends.use("interpreter"):
        k[1](want, 512, BLOCK=128)
    assert np.array_equal(x, want)
    if mapping.executor == "opencl" and mapping.warps == 4:
        assert ("barrier" in k.compile(x, 512, BLOCK=128, num_warps=4).source) == STEPS[body]
