"""The book's page *Adding an op*, followed to the letter in a copy of the package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page(tmp_path):
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", (ROOT / "book" / "adding-an-op.md").read_text(), re.DOTALL)
    assert [path for path, _ in blocks] == ["tinyton/ops/softplus.py", "tests/test_softplus.py"]
    shutil.copytree(ROOT / "tinyton", tmp_path / "tinyton", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "cuda_text.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, text in blocks:
        (tmp_path / path).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_softplus.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and re.search(r"\d+ passed", run.stdout), run.stdout + run.stderr
