"""Stage 5: loops and branches in a kernel."""

import numpy as np
import pytest

rng = np.random.default_rng(5)


def test_a_loop_carries_tiles(tt):
    @tt.jit
    def k(x, out, n, BLOCK: tt.constexpr):
        acc = 0.0
        rounds = 0
        for start in range(0, n, BLOCK):
            i = start + tt.arange(0, BLOCK)
            acc += tt.load(x + i, mask=i < n)
            rounds += 1
        tt.store(out, tt.reduce_sum(acc))
        tt.store(out + 1, rounds)

    for n in (1, 64, 1000):
        x, out = rng.integers(-9, 9, n).astype(np.float32), np.zeros(2, np.float32)
        k[1](x, out, n, BLOCK=64)
        assert out.tolist() == [x.sum(), -(-n // 64)]


def test_a_loop_may_run_no_round_and_count_down(tt):
    @tt.jit
    def k(out, low, high, step):
        last = -1
        total = 0
        for i in range(low, high, step):
            total += i
            last = i
        tt.store(out, total)
        tt.store(out + 1, last)

    for low, high, step in ((0, 0, 1), (0, 10, 3), (10, 0, -4), (5, -1, 1)):
        out, rounds = np.zeros(2, np.int64), range(low, high, step)
        k[1](out, low, high, step)
        assert out.tolist() == [sum(rounds), list(rounds)[-1] if rounds else -1]


def test_static_range_unrolls(tt):
    @tt.jit
    def k(out, N: tt.constexpr):
        total = 0
        for i in tt.static_range(N):
            tt.static_assert(i < N)
            total += i * i
        tt.store(out, total)

    out = np.zeros(1, np.int32)
    k[1](out, 5)
    assert out[0] == 30


def test_branches(tt):
    @tt.jit
    def k(x, out, n, FLAG: tt.constexpr):
        pid = tt.program_id(0)
        if FLAG:
            start = 100
        else:
            start = 0
        if pid % 2 == 0:
            value = tt.load(x + pid) + start
        elif pid > n:
            value = -1.0
        else:
            value = 0.5 if n > 2 else 0.25
        tt.store(out + pid, value)
        tt.store(out + 8 + pid, 1 if pid > 1 and pid < n or pid == 7 else 0)

    x, out = np.arange(8, dtype=np.float32), np.zeros(16, np.float32)
    k[8](x, out, 5, True)
    assert out[:8].tolist() == [100, 0.5, 102, 0.5, 104, 0.5, 106, -1]
    assert out[8:].tolist() == [0, 0, 1, 1, 1, 0, 0, 1]


def test_a_branch_in_a_loop_in_a_loop(tt):
    @tt.jit
    def collatz(out, limit):
        best = 0
        for start in range(1, limit):
            n = start
            steps = 0
            for _ in range(200):
                if n > 1:
                    n = n // 2 if n % 2 == 0 else 3 * n + 1
                    steps += 1
            best = max(best, steps)
        tt.store(out, best)

    out = np.zeros(1, np.int32)
    collatz[1](out, 28)
    assert out[0] == 111  # from 27


def test_names_that_a_path_leaves_open_are_named(tt):
    @tt.jit
    def branch(out, n):
        if n > 1:
            value = 1
        tt.store(out, value)

    @tt.jit
    def loop(out, n):
        for i in range(n):
            value = i
        tt.store(out, value)

    @tt.jit
    def types(out, n):
        value = tt.load(out)
        for _ in range(n):
            value = value.to(tt.float64)
        tt.store(out, value)

    out = np.zeros(1, np.float32)
    for kernel, message in ((branch, "on one path only"), (loop, "bound only in the loop"), (types, "type of value")):
        with pytest.raises(tt.TinytonError, match=message):
            kernel[1](out, 3)


def test_a_tile_is_no_condition(tt):
    @tt.jit
    def k(x):
        if tt.load(x + tt.arange(0, 4)) > 0:
            tt.store(x, 1)

    with pytest.raises(tt.KernelTypeError, match="tt.where"):
        k[1](np.zeros(4, np.float32))
