"""The counter of code lines, on text whose count is plain to see."""

import runpy
from pathlib import Path

lines = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "lines.py"))

TEXT = '''"""Module
docstring."""

# A comment.
import os  # code


@property
def f(a,
      b):
    """Docstring."""
    # Only a comment.
    return """text

    that counts""", a


class C:
    "Docstring."

    x = (
        1
        # between

        + 2
    )
'''


def test_blanks_comments_and_docstrings_do_not_count():
    assert lines["count"](TEXT) == 1 + 3 + 2 + 1 + 4
    assert lines["count"]("") == lines["count"]('"""Only this."""\n') == 0


def test_rooms_are_folders_and_top_level_files():
    sources = {
        "jit.py": "a = 1\n",
        "ops/__init__.py": "b = 1\n",
        "ops/dot.py": "c = 1\n",
        "_later.py": "d = 1\n",
        "x.h": "",
    }
    assert dict(lines["rooms"](sources)) == {"jit.py": 1, "ops/": 2}
