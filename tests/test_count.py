"""Counted work against counts made by hand: bytes, sectors of 32 bytes, accesses of warps, elements that are off."""

import numpy as np
import pytest

import tinyton as tt
from tinyton.count import Count, count, sectors


@tt.jit
def copy(x, out, n, STEP: tt.constexpr, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i * STEP, mask=i < n), mask=i < n)


def floats(n):
    return np.zeros(n, np.float32)


def test_contiguous_and_vectors(executor):
    c = count(copy, 2, floats(1024), floats(1024), 1024, STEP=1, BLOCK=512)
    assert (c.bytes_loaded, c.bytes_stored, c.bytes) == (4096, 4096, 8192)
    assert (c.sectors_loaded, c.sectors_stored) == (128, 128)
    assert c.requests == 2 * 2 * 4  # two programs, load and store, four warps of 32 lanes with 16 bytes each
    assert (c.elements, c.masked, c.utilisation, c.coalescing) == (2048, 0, 1.0, 1.0)
    assert (c.programs, c.launches, c.threads, c.exact) == (2, 1, 128, True)


@pytest.mark.parametrize(("step", "per_warp"), [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
def test_strides(step, per_warp):
    c = count(copy, 1, floats(step * 128), floats(128), 128, STEP=step, BLOCK=128, num_warps=4)
    assert c.sectors_loaded == 4 * per_warp
    assert c.sectors_stored == 16
    assert c.bytes == 1024


def test_a_ragged_end_falls_back_to_elements():
    c = count(copy, 1, floats(6), floats(6), 6, STEP=1, BLOCK=512)
    # n = 6 is not divisible by 16, but the pointers are aligned: lane 0 takes elements 0 to 3 in one access, then
    # lane 1 takes element 4 and element 5 in two of one element each. The same to store.
    assert (c.sectors_loaded, c.requests) == (3, 6)
    assert (c.bytes, c.masked, c.elements) == (48, 2 * 506, 1024)


def test_misaligned_neighbours_touch_one_sector_more():
    c = count(copy, 1, floats(129)[1:], floats(128), 128, STEP=1, BLOCK=128, num_warps=4)
    assert c.sectors_loaded == 16  # a NumPy view is copied to the device, where it starts at an aligned address
    x = tt.to_device(floats(200))

    @tt.jit
    def shifted(x, out, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(out + i, tt.load(x + 1 + i))

    c = count(shifted, 1, x, floats(128), BLOCK=128, num_warps=4)
    assert c.sectors_loaded == 4 * 5


def test_threads_beyond_the_tile_load_copies_and_do_not_store():
    c = count(copy, 1, floats(32), floats(32), 32, STEP=1, BLOCK=32, num_warps=4)
    assert (c.sectors_loaded, c.sectors_stored) == (4 * 4, 4)  # four warps load the same 32 elements, one stores them
    c = count(copy, 1, floats(32), floats(32), 32, STEP=1, BLOCK=32, num_warps=1)
    assert (c.sectors_loaded, c.sectors_stored, c.threads) == (4, 4, 32)


def test_loads_that_run_ahead_are_the_same_loads():
    @tt.jit
    def rounds(x, out, n, STAGES: tt.constexpr):
        i, total = tt.arange(0, 512), tt.zeros((512,), tt.float32)
        for start in tt.range(0, n, 512, num_stages=STAGES):
            total += tt.load(x + start + i, mask=start + i < n)
        tt.store(out + i, total)

    x, out = np.ones(2000, np.float32), np.ones(512, np.float32)
    for n in (2000, 512, 3, 0):
        one, two = (tt.count(rounds, 1, x, out, n, STAGES=stages, num_warps=4) for stages in (1, 2))
        assert one == two


@pytest.mark.parametrize(("n", "block", "share"), [(16, 64, 0.25), (32, 64, 0.5), (64, 64, 1.0), (27, 27, 27 / 32)])
def test_utilisation(n, block, share):
    assert count(copy, 1, floats(n), floats(n), n, STEP=1, BLOCK=block).utilisation == share


def test_scalars_are_one_sector_a_warp():
    @tt.jit
    def scalar(x, out):
        tt.store(out, tt.load(x))

    c = count(scalar, 3, floats(1), floats(1), num_warps=4)
    assert (c.sectors_loaded, c.sectors_stored, c.bytes) == (3 * 4, 3, 3 * 8)
    c = count(scalar, 35, floats(1), floats(1))  # 32 programs share a warp, three have another one
    assert (c.sectors_loaded, c.sectors_stored, c.requests, c.bytes, c.threads) == (2, 2, 4, 35 * 8, 1)


def test_programs_that_share_a_warp_access_memory_together():
    c = count(copy, 10, floats(40), floats(40), 39, STEP=1, BLOCK=4)
    # Two threads a program, two elements at once: in the only warp 19 lanes load 8 bytes, one loads the last element.
    assert (c.sectors_loaded, c.sectors_stored, c.requests) == (6, 6, 4)
    assert (c.threads, c.programs, c.masked, c.exact) == (2, 10, 2, True)
    alone = count(copy, 10, floats(40), floats(40), 39, STEP=1, BLOCK=4, num_threads=2)
    assert (alone.sectors_loaded, alone.requests, alone.bytes) == (11, 22, c.bytes)

    @tt.jit
    def some(x, out, BLOCK: tt.constexpr):
        i = tt.program_id(1) * 48 + tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        if tt.program_id(0) > 3:
            tt.store(out + i, tt.load(x + i))

    c = count(some, (6, 2), floats(96), floats(96), BLOCK=8)  # of a warp's six programs, the last two
    assert (c.sectors_loaded, c.sectors_stored, c.requests, c.programs) == (4, 4, 4, 12)


def test_a_sample_is_of_whole_warps():
    n = 8 * 50_003 - 5
    c = count(copy, 50_003, floats(n), floats(n), n, STEP=1, BLOCK=8)
    assert (c.programs, c.exact, c.masked, c.bytes) == (50_003, False, 10, 8 * n)
    assert 900 < c.ran < 1024 and "estimated from 1,0" in repr(c)
    assert c.sectors_loaded == 50_002 + 3  # the last three elements go one by one


def test_two_dimensions_and_a_turned_tile():
    @tt.jit
    def transpose(x, out, M: tt.constexpr, N: tt.constexpr):
        r = tt.arange(0, M)[:, None]
        c = tt.arange(0, N)[None, :]
        tt.store(out + c * M + r, tt.load(x + r * N + c))

    c = count(transpose, 1, floats(1024), floats(1024), 32, 32)
    assert (c.sectors, c.coalescing) == (256, 1.0)  # turned in shared memory between load and store


def test_wholly_masked_programs_are_counted_too():
    c = count(copy, 3, floats(128), floats(128), 128, STEP=1, BLOCK=128)
    assert (c.masked, c.elements, c.bytes) == (2 * 256, 3 * 256, 1024)


def test_arguments_keep_their_values(executor):
    x = np.arange(256, dtype=np.float32)
    host, device = floats(256), tt.zeros(256, tt.float32)
    count(copy, 2, x, host, 256, STEP=1, BLOCK=128)
    count(copy, 2, tt.to_device(x), device, 256, STEP=1, BLOCK=128)
    assert not host.any() and not device.numpy().any()


def test_one_array_twice_is_one_memory(executor):
    @tt.jit
    def chase(a, b, out):
        tt.store(a, 5)
        tt.store(out + tt.load(b), 1)

    x = tt.zeros(1, tt.int32)
    assert count(chase, 1, x, x, np.zeros(6, np.int32)).bytes == 12
    with pytest.raises(tt.OutOfBoundsError, match="element 5"):
        count(chase, 1, x, x, np.zeros(5, np.int32))


def test_arrays_of_pyopencl(monkeypatch):
    if tt.backends.available()["opencl"]:
        pytest.skip("no OpenCL driver")
    monkeypatch.setenv("TINYTON_BACKEND", "opencl")
    from pyopencl import array

    x = array.to_device(tt.backends.current().queue, np.ones(300, np.float32))
    c = count(copy, 1, x[100:], x[:200], 200, STEP=1, BLOCK=256)
    assert (c.bytes, c.masked) == (1600, 112)
    with pytest.raises(tt.OutOfBoundsError, match="element 200 of x"):
        count(copy, 1, x[100:], x, 256, STEP=1, BLOCK=256)


def test_small_device_arrays_have_their_own_bounds(executor):
    with pytest.raises(tt.OutOfBoundsError, match="element 2 of x"):
        count(copy, 1, tt.zeros(2, tt.float32), tt.zeros(4, tt.float32), 4, STEP=1, BLOCK=4)


def test_a_big_grid_is_sampled_and_says_so():
    n = 64 * 5000 - 7
    c = count(copy, 5000, floats(n), floats(n), n, STEP=1, BLOCK=64)
    assert (c.programs, c.ran, c.exact) == (5000, 1024, False)
    assert (c.bytes, c.masked) == (8 * n, 14)  # the ragged last program counts for itself
    assert "estimated from 1,024 programs" in repr(c)
    small = count(copy, 3, floats(100), floats(100), 100, STEP=1, BLOCK=64)
    assert small.exact and "estimated" not in repr(small)


def test_launches_add_up():
    c = count(copy, 1, floats(128), floats(128), 128, STEP=1, BLOCK=128, num_warps=4)
    assert (c + c).launches == 2 and (c + c).bytes == 2 * c.bytes and (c + c).threads == 128
    assert sum([c, c], Count()).programs == 2


def test_an_empty_grid():
    c = count(copy, 0, floats(1), floats(1), 1, STEP=1, BLOCK=128)
    assert (c.launches, c.programs, c.bytes, c.exact) == (0, 0, 0, True)


def test_sectors_of_lanes():
    addresses = np.array([[[0], [4], [28], [32], [100]]])
    assert sectors(addresses, np.ones((1, 5, 1), bool)) == 3
    assert sectors(addresses, np.array([[[False], [True], [True], [False], [False]]])) == 1


def test_not_a_kernel():
    with pytest.raises(tt.LaunchError, match="expected a kernel"):
        count(len, 1)


@tt.jit
def through_shared(x, out, STEP: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, N)
    tt.shared_store(i, tt.load(x + i))
    tt.store(out + i, tt.shared_load(i * STEP % N))


@pytest.mark.parametrize(("step", "passes"), [(1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1)])
def test_strides_in_shared_memory_meet_in_banks(step, passes):
    c = count(through_shared, 1, floats(1024), floats(1024), STEP=step, N=1024, num_warps=32)
    assert (c.shared_requests, c.bank_conflicts) == (64, 32 * (passes - 1))  # 32 warps store, then load
    assert f"64 warp accesses to shared memory, {32 * (passes - 1):,} bank conflicts" in str(c)


@pytest.mark.parametrize(("dtype", "step", "conflicts"), [("f8", 1, 0), ("f8", 2, 2), ("f2", 2, 0), ("f2", 4, 1)])
def test_banks_are_four_bytes_wide(dtype, step, conflicts):
    c = count(through_shared, 1, np.zeros(128, dtype), np.zeros(128, dtype), STEP=step, N=128, num_warps=4)
    assert (c.shared_requests, c.bank_conflicts) == (8, 4 * conflicts)


def test_a_transposed_tile_crosses_shared_memory():
    @tt.jit
    def turn(x, out, M: tt.constexpr, N: tt.constexpr):
        i, j = tt.arange(0, M), tt.arange(0, N)
        tile = tt.load(x + i[:, None] * N + j[None, :])
        tt.store(out + j[:, None] * M + i[None, :], tt.trans(tile))

    c = count(turn, 1, floats(32 * 32), floats(32 * 32), M=32, N=32, num_warps=4)
    assert c.coalescing == 1
    assert c.shared_requests == 2 * 32 * 32 // 32  # each element is written and read, 32 at a time
    plain = count(copy, 1, floats(1024), floats(1024), 1024, STEP=1, BLOCK=1024)
    assert (plain.shared_requests, plain.bank_conflicts) == (0, 0)


def test_operations(executor):
    @tt.jit
    def work(x, out, n, N: tt.constexpr):
        i = tt.arange(0, N)
        v = tt.load(x + i, mask=i < n, other=0)
        v = tt.fma(v, 2.0, 1.0) + tt.exp(v)
        for _ in range(n):
            v = v * 0.5
        tt.store(out + i, tt.where(v > 0, v, -v).to(tt.float16) * 1.0, mask=i < n)
        tt.store(out, tt.sum(v))

    c = count(work, 3, floats(64), floats(64), 10, N=64)
    assert c.flops == 3 * 64 * (2 + 1 + 1 + 10 + 1 + 1)  # fma, exp, +, the loop, the last *, the sum
    assert c.intensity == c.flops / (32 * c.sectors)

    @tt.jit
    def product(x, out):
        i, j = tt.arange(0, 16)[:, None], tt.arange(0, 16)[None, :]
        a = tt.load(x + i * 16 + j)
        tt.store(out + i * 16 + j, tt.dot(a, a))

    assert count(product, 1, floats(256), floats(256)).flops == 2 * 16**3


def test_a_small_sample():
    n = 1 << 20
    c = count(copy, n // 256, floats(n), floats(n), n, STEP=1, BLOCK=256, sample=8)
    assert (c.ran, c.exact, c.bytes) == (8, False, 8 * n)
