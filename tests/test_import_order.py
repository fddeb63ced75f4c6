"""Imports go one way: a room knows only rooms above it. What is below receives what it needs as an argument."""

import ast
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tinyton
from tinyton._later import TOOLS as TOOL_FILES

PACKAGE = Path(tinyton.__file__).parent
ORDER = """
    _later errors dtypes ir layout ops language spelling frontend specialize passes codegen cache backends arrays launch
    dispatch compiled jit tile
""".split()
RANK = {room: k for k, room in enumerate(ORDER)}
TOOLS = len(ORDER)  # what is in no row above is a tool: it may import anything, and no room imports it


def room(path):
    return path.split("/")[0].removesuffix(".py")


def imports(path):
    """(room, line) of every import of the package's own, except those for type checkers and those inside functions."""
    tree = ast.parse((PACKAGE / path).read_text())
    hidden = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and node not in hidden:
            inside = node.level == path.count("/")  # from . in a folder: the room itself
            if not (inside and node.level == 1 and "/" in path):
                names = [node.module] if node.module else [n.name for n in node.names]
                yield from ((name.split(".")[0], node.lineno) for name in names)


ROOMS = sorted(
    p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py") if "history" not in p.parts and p.parent != PACKAGE
) + [f"{r}.py" for r in ORDER if (PACKAGE / f"{r}.py").exists()]


@pytest.mark.parametrize("path", ROOMS)
def test_a_room_imports_only_rooms_above_it(path):
    for other, line in imports(path):
        above = RANK.get(other, TOOLS) <= RANK[room(path)]
        assert above, f"tinyton/{path}, line {line}: {room(path)} comes before {other}"


def test_every_import_is_relative():
    """Snapshots of stages load under other names."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            inside_doctest = path.name == "stages.py"
            assert not any(n.split(".")[0] == "tinyton" for n in names) or inside_doctest, f"{path.name}: {names}"


def test_import_needs_numpy_alone():
    """`import tinyton` loads nothing but NumPy and the standard library."""
    code = textwrap.dedent(
        """
        import sys, numpy
        before = {m.split(".")[0] for m in sys.modules} | set(sys.stdlib_module_names)
        import tinyton
        print(sorted({m.split(".")[0] for m in sys.modules} - before - {"tinyton"}))
        """
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr


def test_the_language_is_made_of_the_op_entries():
    from tinyton import language, ops

    assert set(language.FUNCTIONS) == set(ops.PUBLIC)
    assert all(inspect.getdoc(f) for f in language.FUNCTIONS.values())


def test_tools_are_read_when_they_are_asked_for():
    """Also by their files' names, which are the functions' names, too; and type checkers know the same ones."""
    code = textwrap.dedent(
        """
        import sys, tinyton
        from tinyton._later import TOOLS
        read = {m.split(".")[1] for m in sys.modules if m.startswith("tinyton.")}
        print(sorted(read & {*TOOLS.values(), "replay", "stages"}))
        import tinyton.bench, tinyton.sweep
        print(tinyton.bench.__name__, tinyton.sweep.__name__, tinyton.viz.__name__, tinyton.compile.__name__)
        print(all(name in dir(tinyton) and getattr(tinyton, name) for name in TOOLS))
        """
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert run.stdout == "[]\nbench sweep tinyton.viz compile\nTrue\n", run.stdout + run.stderr
    block = next(n for n in ast.parse((PACKAGE / "__init__.py").read_text()).body if isinstance(n, ast.If))
    named = {a.name: n.module or a.name for n in block.body for a in n.names}
    assert named == TOOL_FILES
