"""Stage 2: constexpr parameters, kernels kept in memory and on disk, reductions of a whole tile, all arithmetic."""

import numpy as np
import pytest

SCALE = 2.0
rng = np.random.default_rng(2)


@pytest.fixture
def copy(tt):
    @tt.jit
    def kernel(src, dst, N, BLOCK: tt.constexpr):
        offsets = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        mask = offsets < N
        tt.store(dst + offsets, tt.load(src + offsets, mask=mask), mask=mask)

    return kernel


@pytest.fixture
def softmax(tt):
    @tt.jit
    def softmax(src, dst, N, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        mask = i < N
        x = tt.load(src + i, mask=mask, other=-float("inf"))
        e = tt.exp(x - tt.reduce_max(x))
        tt.store(dst + i, e / tt.reduce_sum(e), mask=mask)

    return softmax


def run(kernel, n, block, **meta):
    x, out = rng.standard_normal(n).astype(np.float32), np.zeros(n + 3, np.float32)
    kernel[-(-n // block)](x, out, n, BLOCK=block, **meta)
    assert not out[n:].any()
    return x, out[:n]


@pytest.mark.parametrize("n, block", [(16, 16), (16, 64), (64, 64), (100, 32)])
def test_block_is_n_or_more_or_less(tt, copy, n, block):
    x, out = run(copy, n, block)
    assert np.array_equal(x, out)


def test_values_of_a_constexpr_are_separate_entries(tt, copy):
    for block in (16, 32, 64, 32, 16):
        run(copy, 16, block)
    assert len(copy._cache) == 3
    assert sorted(c.constants["BLOCK"] for c in copy._cache.values()) == [16, 32, 64]


def test_a_literal_is_baked_in_as_well(tt):
    @tt.jit
    def kernel(src, dst, N):
        offsets = tt.program_id(0) * 64 + tt.arange(0, 64)
        tt.store(dst + offsets, tt.load(src + offsets, mask=offsets < N), mask=offsets < N)

    for n in (16, 32, 64):
        x, out = rng.standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
        kernel[1](x, out, n)
        assert np.array_equal(x, out)
    assert 1 <= len(kernel._cache) <= 2  # N divisible by 16 may be another variant


@pytest.mark.parametrize("n, block", [(4, 4), (16, 16), (27, 27), (27, 64)])
def test_softmax(tt, softmax, n, block):
    x, out = run(softmax, n, block)
    want = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    np.testing.assert_allclose(out, want, rtol=1e-5)


def test_a_constexpr_is_no_argument_of_the_kernel(tt, copy):
    x = np.ones(16, np.float32)
    compiled = copy.compile(x, x, 16, BLOCK=16)
    assert [v.name for v in compiled.ir.params] == ["src", "dst", "N"]
    assert compiled.constants == {"BLOCK": 16}
    if tt.backends.current().name == "cuda":
        packed = getattr(compiled, "programs_per_block", 1) > 1  # the grid, where programs share a block
        assert compiled.ptx.count(".param .u") == 3 + packed


@pytest.mark.snapshots(2)
def test_a_block_of_27_is_27_threads(tt, softmax):
    x = np.ones(27, np.float32)
    assert softmax.compile(x, x, 27, BLOCK=27).threads == 27


def test_a_constexpr_by_position_by_name_and_by_default(tt):
    @tt.jit
    def k(out, A: tt.constexpr, B: tt.constexpr = 10):
        tt.store(out, A + B)

    out = np.zeros(1, np.int32)
    for args, meta, want in (((1,), {}, 11), ((1, 2), {}, 3), ((), {"A": 5}, 15), ((), {"B": 1, "A": 1}, 2)):
        k[1](out, *args, **meta)
        assert out[0] == want
    for args, meta, word in (((), {}, "A"), ((1,), {"C": 3}, "C"), ((1,), {"A": 3}, "A")):
        with pytest.raises((tt.LaunchError, TypeError), match=word):
            k[1](out, *args, **meta)


def test_any_hashable_value(tt):
    @tt.jit
    def k(out, dtype: tt.constexpr, name: tt.constexpr, pair: tt.constexpr):
        tt.static_assert(name == "right", f"not {name}")
        tt.store(out, (tt.load(out) + 1.75).to(dtype))

    out = np.zeros(1, np.float32)
    k[1](out, tt.int32, "right", (1, 2))
    assert out[0] == 1
    with pytest.raises(tt.KernelValueError, match="not wrong"):
        k[1](out, tt.int32, "wrong", None)
    with pytest.raises(tt.KernelTypeError):
        k[1](out, tt.int32, "right", [1, 2])


def test_globals_are_read_at_each_launch(tt, monkeypatch):
    @tt.jit
    def k(out):
        tt.store(out, tt.load(out) * SCALE)

    out = np.ones(1, np.float32)
    k[1](out)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    k[1](out)
    assert out[0] == 10 and len(k._cache) == 2


def test_a_grid_may_ask_for_the_constants(tt, copy):
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    copy[lambda meta: tt.cdiv(100, meta["BLOCK"])](x, out, 100, BLOCK=32)
    assert out.all()


def test_the_same_kernel_comes_from_disk(tt, tmp_path, monkeypatch):
    if tt.backends.current().name == "interpreter":
        pytest.skip("nothing is compiled")
    monkeypatch.setenv("TINYTON_CACHE_DIR", str(tmp_path))

    def twin():
        @tt.jit
        def twin(out, VALUE: tt.constexpr):
            tt.store(out, VALUE)

        return twin

    before, out = tt.cache.compiles(), np.zeros(1, np.int32)
    for value in (3, 4, 3):
        twin()[1](out, VALUE=value)
        assert out[0] == value
    assert tt.cache.compiles() == before + 2
    files = sorted(tmp_path.glob("*.bin"))
    assert len(files) == 2
    files[0].write_bytes(files[1].read_bytes()[:100])  # truncated, and another's
    for value in (3, 4):
        twin()[1](out, VALUE=value)
        assert out[0] == value
    assert tt.cache.compiles() == before + 3


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_whole_tiles_are_reduced(tt, dtype):
    @tt.jit
    def k(x, total, greatest, N: tt.constexpr):
        v = tt.load(x + tt.arange(0, N))
        tt.store(total, tt.reduce_sum(v))
        tt.store(greatest, tt.reduce_max(v))

    for n in (1, 27):
        x = (rng.integers(-8, 9, n)).astype(dtype)
        total = np.zeros(1, np.sum(x).dtype if dtype.startswith("f") else np.int64)
        greatest = np.zeros(1, dtype)
        k[1](x, total, greatest, n)
        assert total[0] == x.astype(np.float64).sum() and greatest[0] == x.max()


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "sqrt", "rsqrt", "floor", "ceil", "tanh", "sigmoid", "abs"])
def test_functions(tt, name):
    @tt.jit
    def k(x, out):
        i = tt.arange(0, 32)
        tt.store(out + i, function(tt.load(x + i)))

    x = np.abs(rng.standard_normal(32)).astype(np.float32) * 3
    x = -x if name in ("exp", "floor", "ceil", "tanh", "sigmoid", "abs") else x
    out, numpy = np.zeros_like(x), {"rsqrt": lambda v: 1 / np.sqrt(v), "sigmoid": lambda v: 1 / (1 + np.exp(-v))}
    function = getattr(tt, name)
    k[1](x, out)
    np.testing.assert_allclose(out, numpy.get(name, getattr(np, name, None))(x), rtol=2e-6, atol=1e-7)


def test_integers(tt):
    @tt.jit
    def k(x, y, out):
        i = tt.arange(0, 64)
        a = tt.load(x + i)
        b = tt.load(y + i)
        tt.store(out + i, a // b)
        tt.store(out + 64 + i, a % b)
        tt.store(out + 128 + i, tt.cdiv(a, b))
        tt.store(out + 192 + i, (a & b) | (a ^ ~b))
        tt.store(out + 256 + i, (a << 3) + (a >> 2))
        r = tt.maximum(a, b)
        r -= tt.minimum(a, b)
        tt.store(out + 320 + i, r)

    x = rng.integers(-50, 50, 64).astype(np.int32)
    y = rng.integers(1, 9, 64).astype(np.int32) * rng.choice([-1, 1], 64).astype(np.int32)
    out = np.zeros(6 * 64, np.int32)
    k[1](x, y, out)
    want = [x // y, x % y, -(-x // y), (x & y) | (x ^ ~y), (x << 3) + (x >> 2), np.maximum(x, y) - np.minimum(x, y)]
    assert np.array_equal(out.reshape(6, 64), want)


def test_halves_are_rounded_after_every_operation(tt):
    @tt.jit
    def k(x, out):
        i = tt.arange(0, 64)
        v = tt.load(x + i)
        tt.store(out + i, v * v + v)

    x, out = rng.standard_normal(64).astype(np.float16), np.zeros(64, np.float16)
    k[1](x, out)
    assert np.array_equal(out, x * x + x)


@pytest.mark.snapshots(2)
def test_launch_options_and_properties_of_stage_4_name_their_chapter(tt, copy):
    x = np.ones(16, np.float32)
    with pytest.raises(tt.LaunchError, match=r"num_warps is not in this stage: it arrives in chapter 07 \(stage 4\)"):
        copy[1](x, x, 16, BLOCK=16, num_warps=4)
    with pytest.raises(AttributeError, match=r"reqntid is not in this stage: it arrives in chapter 07"):
        _ = copy.compile(x, x, 16, BLOCK=16).reqntid
