"""The book's page *Adding an op*, followed to the letter in a copy of the package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NORM = '''
import numpy as np
import pytest

from conftest import kernel


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("axis", [0, -1])
def test_norm(executor, axis, dtype):
    k = kernel("""
@tt.jit
def k(x, out, AXIS: tt.constexpr):
    t = tt.load(x + tt.arange(0, 32)[:, None] * 64 + tt.arange(0, 64)[None, :])
    y = t.norm(AXIS)
    tt.store(out + tt.arange(0, y.shape[0]), y)
""")
    x = (np.random.default_rng().normal(0, 1, (32, 64)) * 300).astype(dtype)  # the squares overflow float16
    want = np.linalg.norm(x.astype(np.float64), axis=axis)
    out = np.full(want.shape, np.nan, dtype)
    k[1](x, out, axis)
    assert np.allclose(out, want, rtol=1e-3 if dtype == "float16" else 1e-6)
'''


def test_the_page(tmp_path):
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", (ROOT / "book" / "adding-an-op.md").read_text(), re.DOTALL)
    assert [path for path, _ in blocks] == ["tinyton/ops/softplus.py", "tinyton/ops/norm.py", "tests/test_softplus.py"]
    shutil.copytree(ROOT / "tinyton", tmp_path / "tinyton", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "cuda_text.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    shutil.copytree(ROOT / "tests" / "emulator", tmp_path / "tests" / "emulator")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, text in [*blocks, ("tests/test_norm.py", NORM)]:
        (tmp_path / path).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and re.search(r"\d+ passed", run.stdout), run.stdout + run.stderr
