"""The benchmarks of launches and of compiling, as far as they need no GPU: what they run, and what they make of it."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tinyton as tt

sys.path.append(str(Path(__file__).parent / "bench"))

import cold_tinyton  # noqa: E402
import compile as compiling  # noqa: E402
import launch  # noqa: E402
from harness import ROWS, NumPyData  # noqa: E402


@pytest.fixture(autouse=True)
def rows(monkeypatch):
    kept = list(ROWS)
    ROWS.clear()
    yield ROWS
    ROWS[:] = kept


def test_the_first_kernel_adds(executor):
    x = np.random.default_rng().standard_normal(100).astype(np.float32)
    out = np.zeros_like(x)
    cold_tinyton.add[(2,)](x, x, out, 100, BLOCK=64)
    assert np.array_equal(out, x + x)


def test_processes_are_timed_one_by_one(monkeypatch, tmp_path):
    """Cold: each with a cache of its own. Warm: all with the same one."""
    script = "import os, sys\nprint(1.5, 2)\nopen({!r}, 'a').write(os.environ['TINYTON_CACHE_DIR'] + '\\n')\n"
    (tmp_path / "script.py").write_text(script.format(str(tmp_path / "log")))
    monkeypatch.setattr(launch, "HERE", tmp_path)
    for cached in (False, True):
        (tmp_path / "log").write_text("")
        *printed, whole = launch.starts("script.py", 3, cached, TINYTON_COMPILER="nvcc")
        folders = (tmp_path / "log").read_text().split()
        assert printed == [1.5, 2] and whole > 0 and len(folders) == 4
        assert len(set(folders)) == (1 if cached else 4)
    (tmp_path / "script.py").write_text("raise ValueError('no')")
    with pytest.raises(RuntimeError, match="script.py: ValueError: no"):
        launch.starts("script.py", 1, True)


def test_where_the_time_goes_adds_up():
    text = launch.parts({"all": 5.0, "a": 1.25, "b": 3.0}, "all", ("a", "b"))
    assert text == "a 1.25, b 3.00, the rest of the short way 0.75"


@pytest.mark.parametrize("statements", [10, 30, 31])
def test_a_kernel_of_so_many_statements(executor, tmp_path, statements):
    function = compiling.function_of(compiling.text_of(statements), tmp_path)
    k = tt.jit(function)
    assert len(k.source.tree.body) == statements
    x = np.random.default_rng().standard_normal(200).astype(np.float32)
    out = np.zeros_like(x)
    k[(1,)](x, out, 200, BLOCK=256)
    assert np.isfinite(out).all() and out.any()


def test_an_exponent_is_that_of_the_power():
    assert compiling.exponent([1, 10, 100], [3, 3 * 10**1.5, 3 * 10**3]) == pytest.approx(1.5)


def test_own_work_ends_with_cuda(tmp_path):
    launches = compiling.cases(NumPyData())
    assert set(launches) == {"vector add", "softmax", "LayerNorm backward", "matmul"}
    for ours, _ in launches.values():
        ms, text = compiling.own_work(ours.kernel.fn, ours.args, ours.meta)
        assert ms > 0 and "__global__" in text


def test_growth_is_recorded_and_drawn(monkeypatch, tmp_path, rows):
    monkeypatch.setattr(compiling, "here", lambda: [])
    monkeypatch.setattr(compiling, "SIZES", (10, 20, 40))
    monkeypatch.setattr(compiling, "TILES", (32, 64))
    compiling.growth(False, str(tmp_path / "growth.png"))
    assert [row["work"] for row in rows] == [
        f"growth of own work with {axis}" for axis in ("statements", "elements of a tile")
    ]
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
