"""The saved answers of this folder's notebooks, one test an exercise: ``pytest -m ex5_2``, ``pytest -m ex5``."""

from __future__ import annotations

import pytest

from .book import Exercise, chapter, every
from .desk import check_saved

ANSWERS = [
    pytest.param(
        one, id=one.number, marks=[getattr(pytest.mark, one.mark), getattr(pytest.mark, f"ex{chapter(one.stem)}")]
    )
    for one in every()
]


@pytest.mark.parametrize("exercise", ANSWERS)
def test_answer(exercise: Exercise) -> None:
    result = check_saved(exercise)
    if not result.passed:
        pytest.fail(repr(result), pytrace=False)
