"""Sweeps: the points, the columns, the roofs beside them, and a table that keeps its stamp on disk."""

from importlib import import_module

import pytest

import tinyton as tt

pd = pytest.importorskip("pandas")

ROOFS = tt.Roofline(memory_gb_s=100.0, compute_gflop_s=5000.0, stamp="a machine")


@tt.jit
def double(x, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(x + i, 2 * tt.load(x + i, mask=i < n), mask=i < n)


@pytest.fixture
def roofs(monkeypatch):
    """Roofs that need no measuring, and calls that take 1 ms."""
    module = import_module("tinyton.sweep")  # the name in the package is the function
    monkeypatch.setattr(module, "roofline", lambda: ROOFS)
    monkeypatch.setattr(module, "bench", lambda fn, **_: fn() or tt.Timing((1e-3,), "clock"))


def cells(meta):
    return tt.cdiv(1000, meta["BLOCK"])


def test_a_kernel_over_its_constants_and_options(executor, roofs):
    x = tt.zeros(1000, tt.float32)
    table = tt.sweep(double, x, 1000, over={"BLOCK": [128, 512], "num_warps": [1, 4]}, grid=cells, bytes=8000)
    assert list(table.columns) == ["BLOCK", "num_warps", "time_us", "spread", "GB/s", "% of roof", "threads", "grid"]
    assert table["BLOCK"].tolist() == [128, 128, 512, 512]
    assert table["threads"].tolist() == [32, 128, 32, 128]
    assert table["grid"].tolist() == [8, 8, 2, 2]
    assert table["GB/s"].tolist() == [0.008] * 4
    assert table["% of roof"].tolist() == [pytest.approx(0.008)] * 4
    assert table.attrs["stamp"] == tt.env().stamp()


def test_a_callable_over_sizes(interpreter, roofs):
    seen = []

    def call(n, k):
        seen.append((n, k))

    table = tt.sweep(
        call,
        over={"n": [1, 2], "k": [3]},
        bytes=lambda n, k: n * 1e3,
        flops=lambda n, k: 2e9 * n,
        grid=lambda n, k: (n, k),
    )
    assert seen == [(1, 3), (2, 3)]
    assert table["TFLOP/s"].tolist() == [2.0, 4.0]
    assert table["% of roof"].tolist() == [pytest.approx(40), pytest.approx(80)]  # arithmetic is the limit
    assert table["grid"].tolist() == [(1, 3), (2, 3)]
    assert "threads" not in table


def test_points_as_a_list(interpreter, roofs):
    table = tt.sweep(lambda n, b: None, over=[{"n": 16, "b": 64}, {"n": 32, "b": 32}])
    assert table[["n", "b"]].values.tolist() == [[16, 64], [32, 32]]
    assert list(table.columns) == ["n", "b", "time_us", "spread"]


def test_a_swept_value_may_be_called_as_a_column(interpreter, roofs):
    x = tt.zeros(1000, tt.float32)
    over, ready = {"threads": ["few", "many"], "grid": [3]}, double.compile(x, 1000, BLOCK=128)
    table = tt.sweep(lambda threads, grid: None, over=over, grid=5, compiled=lambda threads, grid: ready)
    assert table["threads"].tolist() == ["few", "many"] and table["grid"].tolist() == [3, 3]


def test_mistakes(interpreter):
    with pytest.raises(tt.TinytonError, match="double needs its grid"):
        tt.sweep(double, over={"BLOCK": [1]})
    with pytest.raises(tt.TinytonError, match="at least one point"):
        tt.sweep(double, over={"BLOCK": []}, grid=1)


def test_a_table_keeps_its_stamp(interpreter, roofs, tmp_path):
    table = tt.sweep(lambda n: None, over={"n": [1, 2]}, bytes=1e6)
    tt.save_table(table, tmp_path / "t.csv")
    again = tt.load_table(tmp_path / "t.csv")
    assert again.attrs == table.attrs
    pd.testing.assert_frame_equal(again, table, check_exact=False)
    assert (tmp_path / "t.csv").read_text().startswith('# {"stamp": ')


def test_a_picture_of_a_table(interpreter, roofs):
    pytest.importorskip("matplotlib")
    table = tt.sweep(lambda n, k: None, over={"n": [1024, 2048], "k": ["a", "b"]}, bytes=lambda n, k: n * 1e4)
    picture = tt.viz.plot(table)
    assert picture.alt == "GB/s over n: from 10.24 to 20.48, best at n = 2048"
    axes = picture.figure().axes[0]
    assert [line.get_label() for line in axes.lines[:2]] == ["k = a", "k = b"]
    assert axes.get_xscale() == "log"
    assert list(axes.lines[2].get_ydata()) == [100.0, 100.0]  # the roof
    assert tt.viz.plot(table, y="time_us").figure().axes[0].get_ylabel() == "time, µs"


def test_a_plot_has_room_above_a_level_line():
    pytest.importorskip("matplotlib")
    level = pd.DataFrame({"n": [1, 2, 4], "time_us": [162.0, 162.0, 162.1], "spread": 0.0})
    low, high = tt.viz.plot(level).figure().axes[0].get_ylim()
    assert low == 0 and high > 1.03 * 162


def test_roofs_by_hand():
    assert ROOFS.ridge == 50
    assert ROOFS.seconds(nbytes=1e11) == pytest.approx(1)
    assert ROOFS.seconds(nbytes=1e11, flops=1e13) == pytest.approx(2)
    assert "4 operations a byte, 200 GFLOP/s, 50% of the roof" in str(ROOFS.plot({"k": (4, 200)}))


def test_roofs_are_measured_once(executor):
    roofs = tt.roofline()
    assert roofs.memory_gb_s > 0 and roofs.compute_gflop_s > 0
    assert tt.roofline() is roofs
