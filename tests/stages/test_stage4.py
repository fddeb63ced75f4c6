"""Stage 4: the data that a program covers and the threads that it runs on are two numbers."""

from importlib import import_module

import numpy as np
import pytest

rng = np.random.default_rng(4)


@pytest.fixture
def double(tt):
    @tt.jit
    def double(x, out, n, BLOCK: tt.constexpr):
        i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        tt.store(out + i, tt.load(x + i, mask=i < n) * 2, mask=i < n)

    return double


@pytest.fixture
def simt(tt):
    if tt.backends.current().name == "interpreter":
        pytest.skip("the interpreter has no threads")


@pytest.mark.parametrize(
    "options", [{"num_warps": w} for w in (1, 2, 4, 8)] + [{"num_threads": t} for t in (1, 16, 64)]
)
def test_any_number_of_threads_gives_the_same(tt, double, simt, options):
    n = 1000
    for block in (16, 100, 1024):
        x, out = rng.standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
        double[tt.cdiv(n, block)](x, out, n, BLOCK=block, **options)
        assert np.array_equal(out, x * 2)
    compiled = double.compile(x, out, n, BLOCK=block, **options)
    threads = options.get("num_threads") or 32 * options["num_warps"]
    assert compiled.threads == threads and compiled.reqntid == (threads, 1, 1)


def test_reductions_and_transposes_on_many_threads(tt, simt):
    @tt.jit
    def k(x, out, total, R: tt.constexpr, C: tt.constexpr):
        i = tt.arange(0, R)
        j = tt.arange(0, C)
        v = tt.load(x + i[:, None] * C + j[None, :])
        tt.store(out + j[None, :] * R + i[:, None], v)
        tt.store(total, tt.reduce_sum(v))

    x = rng.integers(-9, 9, (16, 64)).astype(np.float32)
    for warps in (1, 4):
        out, total = np.zeros((64, 16), np.float32), np.zeros(1, np.float32)
        k[1](x, out, total, 16, 64, num_warps=warps)
        assert np.array_equal(out, x.T) and total[0] == x.sum()


def test_thread_counts_are_checked(tt, double, simt):
    x = np.ones(16, np.float32)
    for options in ({"num_warps": 3}, {"num_threads": 0}, {"num_warps": 1 << 20}, {"num_warps": 2, "num_threads": 32}):
        with pytest.raises(tt.LaunchError, match="num_"):
            double[1](x, x, 16, BLOCK=16, **options)


def test_three_ways_to_a_launch_config(tt, double, simt):
    n, block = 1000, 64
    x = rng.standard_normal(n).astype(np.float32)
    compiled = double.compile(x, x, n, BLOCK=block, num_threads=64)
    configs = [
        tt.LaunchConfig.with_grid(tt.cdiv(n, block), compiled),
        tt.LaunchConfig.from_program(n, compiled),  # right because a program handles one element a thread
        tt.LaunchConfig.explicit(n, 64),
        tt.LaunchConfig(grid=(16, 1, 1), block=64),
    ]
    for config in configs:
        assert config.grid == (16, 1, 1) and config.block == (64, 1, 1)
        out = np.zeros(n, np.float32)
        compiled.launch(config, x, out, n)
        assert np.array_equal(out, x * 2)
    assert configs[0] == configs[3]


def test_small_programs_share_a_block_on_a_gpu(tt, double, simt, monkeypatch):
    """Here too, with a GPU's choice of threads."""
    choose = import_module(f"{tt.__name__}.passes.threads").choose_threads
    monkeypatch.setattr(tt.backends.current(), "default_threads", choose)
    n = 1000
    x, out = np.ones(n, np.float32), np.zeros(n + 24, np.float32)
    compiled = double.compile(x, out, n, BLOCK=16)
    assert (compiled.threads, compiled.programs_per_block, compiled.reqntid) == (4, 32, (4, 32, 1))
    config = tt.LaunchConfig.with_grid(tt.cdiv(n, 16), compiled)
    assert config.grid == (63, 1, 1) and config.blocks == (2, 1, 1)
    double[tt.cdiv(n, 16)](x, out, n, BLOCK=16)
    assert (out[:n] == 2).all() and not out[n:].any()
    assert double.compile(x, out, n, BLOCK=16, num_warps=1).programs_per_block == 1


def test_a_config_with_other_threads_is_refused(tt, double, simt):
    x = np.ones(64, np.float32)
    compiled = double.compile(x, x, 64, BLOCK=64, num_threads=64)
    with pytest.raises(tt.LaunchError, match="double was compiled for .*64.* threads"):
        compiled.launch(tt.LaunchConfig.explicit(64, 32), x, x, 64)
    with pytest.raises(tt.LaunchError, match="double"):  # the driver's own word
        compiled.launch(tt.LaunchConfig.explicit(64, 32, check=False), x, x, 64)


def test_from_program_covers_too_little_when_the_tile_is_smaller(tt, double, simt):
    n = 512
    x, out = np.ones(n, np.float32), np.zeros(n, np.float32)
    compiled = double.compile(x, out, n, BLOCK=16, num_threads=64)
    compiled.launch(tt.LaunchConfig.from_program(n, compiled), x, out, n)
    assert out.sum() == 2 * n / 4


def test_grids_are_checked_with_axis_and_value(tt, double):
    x = np.ones(16, np.float32)
    double[0](x, x, 16, BLOCK=16)
    assert (x == 1).all()
    for grid, message in (((1, -2), "axis 1 of the grid is -2"), ((1, 1, 1, 1), "one to three axes"), (1.5, "axis 0")):
        with pytest.raises(tt.LaunchError, match=message):
            double[grid](x, x, 16, BLOCK=16)
