"""The tour runs on every executor; the package imports with NumPy alone, quickly, and touches no device."""

import subprocess
import sys

import pytest

import tinyton as tt
from tinyton import tour


def test_the_tour(executor, capsys, monkeypatch):
    monkeypatch.setattr(tour, "roofline", lambda: tt.Roofline(10, 100, "here"))
    monkeypatch.setattr(tour, "N", 500_009)
    tour.main()
    out = capsys.readouterr().out
    assert "equal to NumPy's x + y, to the last bit: True" in out
    assert "kernel add(x: *f32, y: *f32, out: *f32, n: i32)" in out
    assert "store(out + i, load(x + i, mask=inside)" in out
    assert out.count(" µs ") == (3 if executor == "interpreter" else 5)


ALONE = """
import sys

class OnlyNumPy:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in {"numpy", "tinyton"} and root not in sys.stdlib_module_names:
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, OnlyNumPy())
import tinyton as tt
import numpy as np

assert not {"pycuda", "pyopencl", "matplotlib", "pandas"} & set(sys.modules)
print(len(tt.__doc__) > 0)
"""


def test_import_with_numpy_alone():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_kernels_run_with_numpy_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("TINYTON_BACKEND", raising=False)
    script = tmp_path / "alone.py"
    script.write_text(
        ALONE
        + """
@tt.jit
def double(x, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store(x + i, 2 * tt.load(x + i))

x = np.ones(8, np.float32)
double[1](x, BLOCK=8)
print(x.sum(), tt.count(double, 1, x, BLOCK=8).bytes, tt.env().executor)
"""
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True\n16.0 64 interpreter\n"), done.stderr
    assert "kernels run on interpreter" in done.stderr


@pytest.mark.parametrize("name", ["bench", "count", "sweep", "roofline", "env", "show", "compile"])
def test_tools_are_functions_of_the_package(name):
    assert callable(getattr(tt, name)) and getattr(tt, name).__doc__
