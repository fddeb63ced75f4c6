"""Stage 6: arrays and tile indices."""

import importlib

import numpy as np
import pytest

rng = np.random.default_rng(6)


@pytest.fixture
def ct(tt):
    return importlib.import_module(f"{tt.__name__}.tile")


def test_tiles_of_ragged_arrays(ct):
    @ct.kernel
    def add(x, y, out, TILE: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(out, index=i, tile=ct.load(x, index=i, shape=TILE) + ct.load(y, index=i, shape=TILE))

    for n in (1, 63, 64, 200):
        x, y, out = (rng.standard_normal(n).astype(np.float32) for _ in range(3))
        ct.launch(None, (ct.cdiv(n, 64),), add, (x, y[::-1], out, 64))
        np.testing.assert_array_equal(out, x + y[::-1])


def test_an_index_counts_tiles(ct):
    @ct.kernel
    def move(x, out, R: ct.Constant[int], C: ct.Constant[int]):
        i, j = ct.bid(0), ct.bid(1)
        ct.store(out, (i, j), ct.load(x, (0, j), (R, C), padding_mode=ct.PaddingMode.NAN))

    x = rng.standard_normal((3, 10)).astype(np.float32)
    out = np.zeros((8, 16), np.float32)
    ct.launch(None, (2, 2), move, (x, out, 4, 8))
    want = np.full((8, 16), np.nan, np.float32)
    want[:3, :10] = want[4:7, :10] = x
    np.testing.assert_array_equal(out, want)


def test_an_order_turns_a_tile(ct):
    @ct.kernel
    def turn(x, out, R: ct.Constant[int], C: ct.Constant[int]):
        ct.store(out, (ct.bid(0), ct.bid(1)), ct.load(x, (ct.bid(0), ct.bid(1)), (R, C), order="F"))

    x = rng.integers(-99, 99, (10, 13))
    out = np.zeros((13, 10), x.dtype)
    ct.launch(None, (4, 2), turn, (x, out, 4, 8))
    np.testing.assert_array_equal(out, x.T)


def test_extents_are_numbers_at_run_time(ct):
    @ct.kernel
    def rows(x, out, TILE: ct.Constant[int]):
        total = 0.0
        for k in range(ct.cdiv(x.shape[0], TILE)):
            total += ct.load(x, k, TILE)
        ct.store(out, 0, total)

    for n in (8, 20):
        x, out = rng.integers(0, 9, n).astype(np.float32), np.zeros(8, np.float32)
        ct.launch(None, (1,), rows, (x, out, 8))
        want = np.zeros(-(-n // 8) * 8, np.float32)
        want[:n] = x
        np.testing.assert_array_equal(out, want.reshape(-1, 8).sum(0))


def test_what_is_wrong_is_said(tt, ct):
    @ct.kernel
    def k(x, TILE: ct.Constant[int]):
        ct.store(x, 0, ct.load(x, 0, TILE) + 0.5)

    x = np.zeros(16, np.float32)
    with pytest.raises(ct.TileTypeError, match=r"dimension 0 of the tile is 12.*next_power_of_2\(12\) = 16"):
        ct.launch(None, (1,), k, (x, 12))
    with pytest.raises(ct.TileTypeError, match=r"does not widen to int32; write \.astype\(ct\.int32\)"):
        ct.launch(None, (1,), k, (x.astype(np.int32), 16))
    with pytest.raises(tt.LaunchError, match="2 arguments"):
        ct.launch(None, (1,), k, (x,))
