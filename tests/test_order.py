"""Within a program, loads and stores happen in the order they are written in, whichever threads do them."""

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel, lowered
from tinyton.passes.order import _meet


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
    "for k in range(8):\n        p = x + 256 + (k * 140).to(tt.int8) + i"  # which comes back
    "\n        tt.store(p, tt.load(p) + k)": True,
    "for k in range(8): tt.store(x + (k * 0.5).to(tt.int32) + i, tt.load(x + (k * 0.5).to(tt.int32) + i) + k)": True,
    "f = 0.0\n    for k in range(8):\n        p = x + f.to(tt.int32) + i"
    "\n        tt.store(p, tt.load(p) + k)\n        f += 0.25": True,
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


@tt.jit
def two_stores(x, i, j, first, APART: tt.constexpr):
    tt.store(x + (i * 64 + j), first)
    tt.store(x + (APART // 2 + (i * 64 + (j + APART % 2)) + APART // 2), first + 1)


@tt.jit
def halves(x, rows, APART: tt.constexpr, ROUNDS: tt.constexpr):
    i, j = tt.arange(0, 8)[:, None], tt.arange(0, 32)[None, :]
    if ROUNDS == 1:
        two_stores(x, i, j, 0, APART)
    else:
        for k in range(ROUNDS):
            two_stores(x, k * rows + i, j, 2 * k, APART)


@pytest.mark.parametrize("rows", [8, 0])
@pytest.mark.parametrize("apart", [32, 31, 64, 480, 512, 544])
def test_what_a_constant_offset_keeps_apart(mapping, apart, rows):
    x = np.full(4096, -1, np.int32)
    halves[1](x, rows, apart, 3, num_warps=mapping.warps)
    want = np.full(4096, -1)
    for k in range(3):
        at = ((k * rows + np.arange(8)[:, None]) * 64 + np.arange(32)).ravel()
        want[at] = 2 * k
        want[at + apart] = 2 * k + 1
    assert np.array_equal(x, want)


def test_a_barrier_where_a_constant_offset_does_not_keep_apart():
    for apart, rounds, count in ((32, 1, 0), (31, 1, 1), (64, 1, 1), (480, 1, 0), (544, 1, 0), (512, 1, 0)):
        low = lowered(halves, {"x": "*int32:16", "rows": "int32"}, APART=apart, ROUNDS=rounds)
        assert low.source.count("__syncthreads") == count, apart
    for apart in (32, 544):  # what one round writes, the next may write again
        assert "__syncthreads" in lowered(halves, {"x": "*int32:16", "rows": "int32"}, APART=apart, ROUNDS=2).source


@pytest.mark.parametrize("dtype", [tt.int8, tt.uint8])
def test_a_constant_keeps_nothing_apart_that_wraps_around(mapping, dtype):
    @tt.jit
    def k(x, out, n, NARROW: tt.constexpr, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x + 128 + (n % 16 + 300).to(NARROW) + i, i)
        tt.store(out + i, tt.load(x + 128 + (n % 16 + 45).to(NARROW) + i))

    x, out = np.zeros(512, np.int32), np.zeros(128, np.int32)
    k[1](x, out, 0, NARROW=dtype, BLOCK=128, num_warps=mapping.warps)
    assert np.array_equal(out, [*range(1, 128), 0])


def test_which_offsets_keep_apart():
    rng = np.random.default_rng(3)
    for _ in range(200):
        shape = tuple(int(n) for n in 1 << rng.integers(0, 4, 3))
        steps = sorted((int(s) for s in rng.integers(1, 40, 3)), reverse=True)
        axes = [s * np.arange(n) for s, n in zip(steps, shape, strict=True)]
        at = axes[0][:, None, None] + axes[1][:, None] + axes[2]
        near = set((at.ravel()[:, None] - at.ravel()).ravel().tolist())
        for far in rng.integers(-400, 400, 20).tolist():
            assert _meet(far, tuple(zip(steps, shape, strict=True))) == (far in near)
