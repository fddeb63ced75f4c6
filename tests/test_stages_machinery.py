"""How snapshots are cut, on small made-up packages; tinyton's own stages have their suites."""

import sys

import pytest

from tinyton import stages
from tinyton.errors import TinytonError

TOML = """
[[stage]]
number = 1
name = "first"
chapter = "04"
files = ["__init__.py", "ops/__init__.py", "ops/math.py"]
ops = ["add"]

[[stage]]
number = 2
name = "second"
chapter = "05"
files = ["shape.py"]
ops = ["exp", "sum"]
syntax = ["For"]

[[stage]]
number = 5
name = "third"
chapter = "09"
files = ["loops.py"]
syntax = ["While"]
[stage.before]
"shape.py" = "history/shape.py"
"""

MATH = '''"""Ops."""

import math


def add(a, b):
    return a + b


# What exp is.
# Two lines of comment.
@(lambda f: f)  # a decorator
@(
    lambda f: f
)
def exp(x):
    return math.exp(x)


sum_ = 1
ratio: float = 2.0
'''


@pytest.fixture
def package(tmp_path):
    """Write a package from path=text; the defaults are three stages over four files."""

    def write(toml=TOML, **texts):
        files = {
            "stages.toml": toml,
            "_later.py": "LATER: dict[str, str] = {}\n",
            "__init__.py": "from ._later import LATER\nfrom .ops import math\n",
            "ops/__init__.py": "",
            "ops/math.py": MATH,
            "shape.py": "new = True\n",
            "history/shape.py": "new = False\n",
            "loops.py": "",
            "bench.py": "tool = 1\n",
            "py.typed": "",
        }
        root = tmp_path / "package"
        for path, text in (files | texts).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    yield write
    for name in [m for m in sys.modules if m.startswith("tinyton_stage_")]:
        del sys.modules[name]


def cut(package, number, text):
    return stages.sources(number, package(**{"ops/__init__.py": text}))["ops/__init__.py"]


def test_stages_are_read_in_order(package):
    first, second, third = stages.stages(package())
    assert (first.number, first.chapter, first.ops, first.syntax) == (1, "04", ("add",), ())
    assert (second.files, second.before) == (("shape.py",), {})
    assert third.before == {"shape.py": "history/shape.py"}


def test_a_snapshot_holds_the_files_up_to_its_stage(package):
    root = package()
    assert set(stages.sources(1, root)) == {"__init__.py", "ops/__init__.py", "ops/math.py", "_later.py"}
    assert stages.sources(2, root)["shape.py"] == "new = False\n"  # the text from before stage 5
    assert stages.sources(5, root)["shape.py"] == "new = True\n"


def test_the_last_snapshot_is_the_whole_package(package):
    root = package()
    whole = stages.sources(5, root)
    assert set(whole) == {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()} - {
        "stages.toml",
        "history/shape.py",
    }
    assert whole["ops/math.py"] == MATH
    assert whole["_later.py"] == "LATER: dict[str, str] = {}\n"


def test_later_names_say_where_they_arrive(package):
    scope = {}
    exec(stages.sources(1, package())["_later.py"], scope)
    assert scope["LATER"] == {
        "exp": "chapter 05 (stage 2)",
        "sum": "chapter 05 (stage 2)",
        "For": "chapter 05 (stage 2)",
        "While": "chapter 09 (stage 5)",
    }


def test_what_has_the_name_of_an_entry_elsewhere_stays(package):
    root = package(**{"__init__.py": "from ._later import LATER\n\n\ndef exp():\n    pass\n"})
    assert "def exp" in stages.sources(1, root)["__init__.py"]


def test_an_entry_goes_with_its_decorators_and_its_comment(package):
    assert stages.sources(1, package())["ops/math.py"] == (
        '"""Ops."""\n\n\ndef add(a, b):\n    return a + b\n\n\nratio: float = 2.0\n'
    )


def test_what_only_a_later_entry_used_goes_with_it(package):
    text = (
        "import os\nfrom sys import (\n    path,\n    version,\n)\n\n\ndef _deep():\n    return path\n\n\n"
        "def _helper():\n    return _deep()\n\n\ndef exp():\n    return _helper()\n\n\ndef add():\n    return version\n"
    )
    cut = stages.sources(1, package(**{"ops/math.py": text}))["ops/math.py"]
    assert cut == "import os\nfrom sys import version\n\n\ndef add():\n    return version\n"
    assert stages.sources(2, package(**{"ops/math.py": text}))["ops/math.py"] == text


def test_exports_that_a_snapshot_has_not_are_left_out_and_refused(package):
    toml = TOML.replace('syntax = ["While"]', 'syntax = ["While"]\nnames = ["loops"]')
    init = '"""Doc."""\n\nimport os\n\nfrom . import loops, ops\nfrom .loops import f\nfrom .ops import math\n'
    root = package(toml, **{"__init__.py": init, "loops.py": "f = 1\n"})
    text = stages.sources(2, root)["__init__.py"]
    assert text == (
        '"""Doc."""\n\nimport os\n\nfrom ._later import __getattr__\nfrom . import ops\nfrom .ops import math\n'
    )
    with pytest.raises(AttributeError, match=r"loops is not in this stage: it arrives in chapter 09 \(stage 5\)"):
        _ = stages.load(2, root).loops
    with pytest.raises(AttributeError, match="this stage of tinyton has no gone"):
        _ = stages.load(2, root).gone
    assert stages.load(5, root).loops.f == 1


def test_an_entry_that_ends_the_file_leaves_one_newline(package):
    root = package(**{"ops/math.py": "add = 1\n\n# Gone.\nexp: int = (\n    2\n)\n"})
    assert stages.sources(1, root)["ops/math.py"] == "add = 1\n"


def test_only_top_level_entries_go(package):
    text = "class Ops:\n    def exp(self): ...\n\n\ndef f():\n    sum = 1\n    return sum\n\n\nexpm1 = 2\n"
    assert stages.sources(1, package(**{"ops/math.py": text}))["ops/math.py"] == text


def test_a_marker_switches_at_its_stage(package):
    text = "a = 1\n# >>> stage 2\nb = 2\n# === before\n# b = 1\n# <<<\nc = 3\n"
    assert cut(package, 1, text) == "a = 1\nb = 1\nc = 3\n"
    assert cut(package, 2, text) == cut(package, 5, text) == "a = 1\nb = 2\nc = 3\n"


def test_markers_stand_at_any_indentation(package):
    text = (
        "def f(x):\n"
        "    if x:\n"
        "        # >>> stage 2\n"
        "        x = (\n"
        "            x + 2\n"
        "        )\n"
        "        # === before\n"
        "        # x = (\n"
        "        #     x + 1  # plus one\n"
        "        #\n"
        "        # )\n"
        "        # # A comment of then.\n"
        "        # <<<\n"
        "    return x\n"
    )
    old = "        x = (\n            x + 1  # plus one\n\n        )\n        # A comment of then.\n"
    assert cut(package, 1, text) == "def f(x):\n    if x:\n" + old + "    return x\n"
    new = "        x = (\n            x + 2\n        )\n"
    assert cut(package, 2, text) == "def f(x):\n    if x:\n" + new + "    return x\n"


@pytest.mark.parametrize("before", ["", "# === before\n", "# === before\n\n"])
def test_without_older_lines_a_block_leaves_no_hole(package, before):
    text = f"a = 1\n\n\n# >>> stage 2\ndef f(): ...\n\n\n{before}# <<<\ndef g(): ...\n"
    assert cut(package, 1, text).replace("\n\n\n\n", "\n\n\n") == "a = 1\n\n\ndef g(): ...\n"
    assert cut(package, 2, text) == "a = 1\n\n\ndef f(): ...\n\n\ndef g(): ...\n"


def test_a_block_may_hold_only_older_lines(package):
    text = "# >>> stage 5\n# === before\n# a = 1\n# <<<\nb = 2\n"
    assert cut(package, 2, text) == "a = 1\nb = 2\n"
    assert cut(package, 5, text) == "b = 2\n"


def test_an_entry_in_a_marked_block_is_removed_too(package):
    root = package(**{"ops/math.py": "add = 1\n# >>> stage 2\nexp = 2\n# === before\n# exp = 1\n# <<<\n"})
    assert stages.sources(1, root)["ops/math.py"] == "add = 1\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("a = 1\n# >>> stage 2\nb = 2\n", "__init__.py, line 2: this marker is not closed by '# <<<'"),
        (
            "# >>> stage 2\n# >>> stage 5\n# <<<\n",
            "__init__.py, line 2: markers do not nest: the one that line 1",
        ),
        ("# <<<\n", "__init__.py, line 1: '# <<<' closes no marker"),
        ("# >>> stage2\n# <<<\n", "__init__.py, line 1: '# >>> stage2' is not '# >>> stage N'"),
        ("# >>> stage 3\n# <<<\n", "with a stage that stages.toml has"),
        ("# === before\n", "__init__.py, line 1: '# === before' stands once"),
        ("# >>> stage 2\n# === before\n# === before\n# <<<\n", "line 3: '# === before' stands once"),
        (
            "# >>> stage 2\n# === before\n# a\nb = 1\n# <<<\n",
            "line 4: lines after '# === before' are commented out",
        ),
        (
            "# >>> stage 2\n# === before\n# if a:\n# <<<\n",
            "__init__.py, line 1 of the snapshot: expected an indented",
        ),
    ],
)
def test_a_wrong_marker_is_named_with_its_line(package, text, message):
    with pytest.raises(TinytonError) as e:
        cut(package, 1, text)
    assert message in str(e.value)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('"shape.py"]', '"shape.py", "gone.py"]', "stages.toml names 'gone.py', which is not in the package"),
        ("history/shape.py", "history/gone.py", "stages.toml names 'history/gone.py'"),
        ('"exp", "sum"', '"exp", "add"', "stages.toml: 'add' is listed twice among ops"),
        ("number = 5", "number = 2", "stages.toml: 2 is listed twice among number"),
        ('name = "second"\n', "", "stages.toml, stage 2: missing or unknown key 'name'"),
        ("syntax", "sintax", "stages.toml, stage 2: missing or unknown key 'sintax'"),
    ],
)
def test_a_wrong_table_is_named(package, old, new, message):
    root = package(TOML.replace(old, new))
    with pytest.raises(TinytonError) as e:
        stages.sources(2, root)
    assert message in str(e.value)


def test_an_unknown_stage_is_named(package):
    for use in stages.sources, stages.load, stages.diff:
        with pytest.raises(TinytonError, match="there is no stage 3; there are 1, 2, 5"):
            use(3, package())


def test_a_snapshot_has_no_stages(package, tmp_path):
    with pytest.raises(TinytonError, match="snapshot of a stage"):
        stages.stages(stages.build(5, tmp_path / "out", package()))


def test_build_writes_a_package_and_overwrites_nothing(package, tmp_path):
    root = package()
    place = stages.build(1, tmp_path / "new" / "out", root)
    assert place == tmp_path / "new" / "out" / "tinyton"
    assert {p.relative_to(place).as_posix(): p.read_text() for p in place.rglob("*") if p.is_file()} == (
        stages.sources(1, root)
    )
    with pytest.raises(TinytonError, match="exists already"):
        stages.build(1, tmp_path / "new" / "out", root)


def test_load_imports_side_by_side_and_once(package):
    root = package()
    one, two = stages.load(1, root), stages.load(2, root)
    assert (one.__name__, two.__name__) == ("tinyton_stage_1", "tinyton_stage_2")
    assert not hasattr(one.math, "exp") and two.math.sum_ == 1
    assert "While" in one.LATER and "exp" not in two.LATER
    assert stages.load(1, root) is one and sys.modules["tinyton_stage_1"] is one


def test_a_snapshot_that_does_not_import_leaves_nothing_behind(package):
    root = package(**{"__init__.py": "from . import ops\n1 / 0\n"})
    with pytest.raises(ZeroDivisionError):
        stages.load(1, root)
    assert not [m for m in sys.modules if m.split(".")[0] == "tinyton_stage_1"]


def test_diff_shows_new_files_then_changes(package):
    root = package()
    lines = stages.diff(2, root).split("\n")
    assert lines[:3] == ["stage 2, second (chapter 05)", "  new: shape.py", "  changed: ops/math.py"]
    assert lines.index("+++ shape.py") < lines.index("+++ ops/math.py")
    assert "--- (not there before)" in lines and "+def exp(x):" in lines and "+new = False" in lines
    assert "  changed: shape.py" in stages.diff(5, root) and "bench.py" not in stages.diff(5, root)
    assert "_later.py" not in stages.diff(1, root) and "+def add(a, b):" in stages.diff(1, root)


def test_command_line(package, tmp_path, capsys):
    root = package()
    assert stages.main(["list"], root) == 0
    assert " 2  chapter 05  second (1 files, 2 ops)" in capsys.readouterr().out
    assert stages.main(["build", "1", "--out", str(tmp_path / "out")], root) == 0
    assert (tmp_path / "out" / "tinyton" / "ops" / "math.py").exists()
    assert stages.main(["build", "9", "--out", str(tmp_path)], root) == 1
    assert capsys.readouterr().err == "error: there is no stage 9; there are 1, 2, 5\n"
    with pytest.raises(SystemExit):
        stages.main([])
