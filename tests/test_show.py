"""tt.show: code that is shown is the package's own, and the same text every time."""

import ast
import importlib
import re

import pytest

from tinyton import dtypes, errors, stages
from tinyton.errors import TinytonError
from tinyton.show import Source, show

module = importlib.import_module("tinyton.show")  # tinyton.show is the function

FILES = {
    "__init__.py": "from .shapes.box import Box\n",
    "shapes/__init__.py": '"""Shapes."""\n',
    "shapes/box.py": '''import functools

# How many sides there are.
SIDES: int = 4


class Box:
    """A box."""

    # Above the decorator.
    @property
    def area(self):
        """Of ```one``` box."""
        return 1

    def side(self):
        # >>> stage 2
        return SIDES
        # === before
        # return 4
        # <<<


@functools.cache
def make(n):
    return Box()


box = make(1)
''',
}


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package of two stages in the place of tinyton."""
    table = '[[stage]]\nnumber = {}\nname = "s"\nchapter = "0{}"\nfiles = {}\n'
    texts = FILES | {"stages.toml": table.format(1, 4, sorted(FILES)) + table.format(2, 5, [])}
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    real = stages.stages, stages.sources
    monkeypatch.setattr(stages, "stages", lambda root=tmp_path: real[0](root))
    monkeypatch.setattr(stages, "sources", lambda number, root=tmp_path: real[1](number, root))
    module._sources.cache_clear()
    yield tmp_path
    module._sources.cache_clear()


def test_files_and_modules(package):
    assert str(show("shapes/__init__.py")) == str(show("shapes")) == '"""Shapes."""'
    assert show("shapes/box.py") == show("shapes.box") == show("tinyton.shapes.box")
    assert show("shapes.box").path == "shapes/box.py"


def test_definitions(package):
    assert str(show("shapes.box.SIDES")) == "# How many sides there are.\nSIDES: int = 4"
    assert str(show("shapes.box.make")) == "@functools.cache\ndef make(n):\n    return Box()"
    assert str(show("shapes.box.Box")).startswith('class Box:\n    """A box."""\n')


def test_methods_are_dedented(package):
    assert str(show("shapes.box.Box.area")) == (
        '# Above the decorator.\n@property\ndef area(self):\n    """Of ```one``` box."""\n    return 1'
    )


def test_a_stage_and_no_markers(package):
    assert str(show("shapes.box.Box.side")) == "def side(self):\n    return SIDES"
    assert str(show("shapes.box.Box.side", stage=1)) == "def side(self):\n    return 4"


def test_objects(package):
    one = stages.load(1, package)
    assert show(one.Box.side) == show(one.Box().side) == show("shapes.box.Box.side", stage=1)
    assert show(one.Box.side, stage=2) == show("shapes.box.Box.side")
    assert show(one.Box.area) == show("shapes.box.Box.area")
    assert show(one.shapes.box.make) == show("shapes.box.make")
    assert str(show(one.shapes.box.box)) == "box = make(1)"
    assert show(one.shapes) == show("shapes") and show(one) == show("__init__.py", stage=1)


@pytest.mark.parametrize(
    "name, message",
    [
        ("shapes.bax", "tinyton has no 'shapes.bax'; did you mean 'shapes.box'"),
        ("side", "tinyton has no 'side'; did you mean 'shapes.box.Box.side'?"),
        ("shapes.box.Box.sides", "did you mean 'shapes.box.Box.side'"),
        ("shapes/bax.py", "did you mean 'shapes/box.py'"),
        ("zzzzzz", "tinyton has no 'zzzzzz'"),
        ("", "tinyton has no ''"),
    ],
)
def test_a_wrong_name_is_answered_with_close_ones(package, name, message):
    with pytest.raises(TinytonError) as e:
        show(name)
    assert str(e.value).startswith(message) or message in str(e.value)


def test_what_is_not_of_the_package(package):
    with pytest.raises(TinytonError, match="there is no stage 7"):
        show("shapes.box", stage=7)
    for thing in ast.parse, ast, 7, test_objects:
        with pytest.raises(TinytonError, match="is not a part of tinyton"):
            show(thing)


def test_what_a_notebook_gets(package):
    source = show("shapes.box.SIDES")
    assert repr(source) == str(source) == source.text
    assert source._repr_markdown_() == f"```python\n{source.text}\n```"
    assert show("shapes.box.Box.area")._repr_markdown_().startswith("````python\n")
    assert source == Source(source.text, "shapes/box.py")


def test_on_tinyton_itself():
    assert str(show(dtypes.float32)).startswith("float16, float32, float64 = ")
    assert str(show(errors.CacheWarning)).startswith("class CacheWarning(UserWarning):\n")
    assert show(errors.TinytonError.__init__) == show("errors.TinytonError.__init__")
    assert show("errors.py").text in stages.sources(stages.stages()[-1].number)["errors.py"]


def test_all_that_is_shown_is_without_markers():
    for path, text in stages.sources(stages.stages()[-1].number).items():
        assert not re.search(r"^\s*# (>>> stage|=== before$|<<<$)", text, re.MULTILINE), path
