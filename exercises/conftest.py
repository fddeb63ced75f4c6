"""Marks for ``pytest -m ex5_2``, which checks the answer to exercise 5.2 in its notebook, and ``-m ex5``."""

from __future__ import annotations

import pytest

from .book import cells, chapter, mark, stems


def pytest_configure(config: pytest.Config) -> None:
    for stem in stems():
        config.addinivalue_line("markers", f"ex{chapter(stem)}: the answers in exercises/{stem}.ipynb")
        for cell in cells(stem):
            if cell.number:
                config.addinivalue_line("markers", f"{mark(cell.number)}: the answer to exercise {cell.number}")
