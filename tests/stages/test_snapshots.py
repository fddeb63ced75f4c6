"""What holds of every snapshot as a whole; what a kernel computes in it is in the suites beside this file."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tinyton
from tinyton import stages
from tinyton.frontend.tracer import HANDLERS
from tinyton.ops import OPS, PUBLIC
from tools.lines import compiler, rooms

from .conftest import executors

STAGES = stages.stages()
NUMBERS = [s.number for s in STAGES]
LAST = NUMBERS[-1]
SOURCES = {n: stages.sources(n) for n in NUMBERS}
BUDGET = {1: 1000, LAST: 14100}  # lines of code, at most, without the tools


@pytest.mark.parametrize("number", NUMBERS)
def test_a_snapshot_builds_imports_whole_and_needs_nothing_else(number, tmp_path):
    place = stages.build(number, tmp_path)
    assert (place / "__init__.py").exists()
    tt = stages.load(number)
    for module in pkgutil.walk_packages(tt.__path__, tt.__name__ + "."):
        if number < LAST and "__main__" not in module.name:
            importlib.import_module(module.name)
    others = [m for m in vars(tt).values() if inspect.ismodule(m) and m.__name__.startswith("tinyton.")]
    assert not others, "a snapshot reaches into the package"


@pytest.mark.parametrize("number", NUMBERS)
def test_no_marker_is_left(number):
    for path, text in SOURCES[number].items():
        assert not re.search(r"^\s*# (>>> stage|=== before|<<<)", text, re.MULTILINE) or path == "stages.py", path


@pytest.mark.parametrize("number", NUMBERS)
def test_no_import_is_left_over_and_no_name_is_undefined(number, tmp_path):
    place = stages.build(number, tmp_path)
    pytest.importorskip("ruff")
    config = Path(tinyton.__file__).parents[1] / "pyproject.toml"
    command = ["ruff", "check", "--no-cache", "--select", "F", "--config", config, "--output-format=concise", place]
    run = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("number", NUMBERS)
def test_every_import_is_of_a_file_that_is_there(number):
    """Also the imports inside functions."""
    there = {path.removesuffix(".py").removesuffix("/__init__") for path in SOURCES[number]} | {"__init__"}
    for path, text in SOURCES[number].items():
        for node in ast.walk(ast.parse(text)) if path.endswith(".py") else ():
            if isinstance(node, ast.ImportFrom) and node.level and node.module:
                place = Path(path).parents[node.level - 1] / node.module.replace(".", "/")
                assert place.as_posix() in there, f"{path} imports {place}, which stage {number} has not"


def test_the_last_snapshot_is_the_package():
    package = Path(tinyton.__file__).parent
    markers = r"^[ \t]*# (>>> stage \d+|<<<)\n"
    last = stages.sources(LAST)
    for path, text in last.items():
        mine = (package / path).read_text()
        if path != "stages.py":
            mine = re.sub(r"^[ \t]*# === before\n(?:.*\n)*?(?=[ \t]*# <<<)", "", mine, flags=re.MULTILINE)
            mine = re.sub(markers, "", mine, flags=re.MULTILINE)
        assert text == mine, path
    files = {p.relative_to(package).as_posix() for p in package.rglob("*.py")}
    assert {p for p in files if not p.startswith("history/")} == {p for p in last if p.endswith(".py")}


@pytest.mark.parametrize("number", BUDGET)
def test_a_stage_stays_small(number):
    assert rooms(compiler(SOURCES[number])).total() <= BUDGET[number]


def test_the_table_names_every_op():
    listed = {name for s in STAGES for name in s.ops}
    assert listed == set(OPS)


def test_the_table_names_every_kind_of_syntax():
    listed = {name for s in STAGES for name in s.syntax}
    assert {kind.__name__ for kind in HANDLERS if hasattr(ast, kind.__name__)} <= listed
    assert all(hasattr(ast, name) for name in listed)


def test_a_stage_has_the_ops_that_its_table_lists():
    for number in NUMBERS:
        ops = importlib.import_module(f"{stages.load(number).__name__}.ops")
        wanted = {name for s in STAGES if s.number <= number for name in s.ops}
        assert set(ops.OPS) == wanted, f"stage {number}"


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_is_documented(name):
    assert inspect.getdoc(OPS[name].rule)


@pytest.mark.parametrize("number", NUMBERS[1:])
def test_a_diff_shows_what_is_new_first(number):
    lines = stages.diff(number).split("\n")
    stage = next(s for s in STAGES if s.number == number)
    assert lines[0] == f"stage {number}, {stage.name} (chapter {stage.chapter})"
    assert [line for line in lines if line.startswith("  new: ")] == [f"  new: {f}" for f in sorted(stage.files)]


# -- what arrives later ------------------------------------------------------------------------------------------------

TEXT = {  # a statement of each kind of syntax; x is a pointer, n an int
    "AugAssign": "n += 1", "Pass": "pass", "Return": "return", "Tuple": "a = (1, 2)", "List": "a = [1, 2]",
    "JoinedStr": "a = f'{1}'", "Subscript": "a = tt.arange(0, 4)[None]", "For": "for i in range(n): tt.store(x, i)",
    "If": "if n > 1: tt.store(x, 1)", "IfExp": "tt.store(x, 1 if n > 1 else 2)", "BoolOp": "tt.store(x, n > 1 and n)",
    "FloorDiv": "a = n // 2", "Mod": "a = n % 2", "Pow": "a = 2 ** 2", "BitAnd": "a = n & 1", "BitOr": "a = n | 1",
    "BitXor": "a = n ^ 1", "LShift": "a = n << 1", "RShift": "a = n >> 1", "UAdd": "a = +n", "Not": "a = not n",
    "Invert": "a = ~n", "Is": "a = n is n", "IsNot": "a = n is not n", "In": "a = n in n", "NotIn": "a = n not in n",
    "Slice": "a = tt.arange(0, 4)[:]",
}  # fmt: skip
EARLIER = [n for n in NUMBERS if n < LAST]
LATER = [
    (n, s, name)
    for n in EARLIER
    for s in STAGES
    if s.number > n
    for name in sorted({*s.ops, *s.syntax} & {*TEXT, *PUBLIC})
]


def kernel(tt, text):
    from conftest import kernel

    return kernel(f"@tt.jit\ndef k(x, n):\n    {text}\n    tt.store(x, 1)", tt=tt)


@pytest.mark.parametrize("number, stage, name", LATER, ids=[f"{n}-{name}" for n, _, name in LATER])
def test_a_later_feature_names_its_chapter(number, stage, name, monkeypatch):
    from numpy import zeros

    if not executors(number):
        pytest.skip("needs an OpenCL driver or a GPU")
    monkeypatch.setenv("TINYTON_BACKEND", executors(number)[-1])
    tt = stages.load(number)
    arrives = f"it arrives in chapter {stage.chapter} (stage {stage.number})"
    text = TEXT.get(name, f"tt.{name}(n)")
    with pytest.raises(tt.KernelSyntaxError) as e:
        kernel(tt, text)[1](zeros(8, "int32"), 3)
    assert arrives in str(e.value) and "^" in str(e.value), str(e.value)


@pytest.mark.parametrize("number", EARLIER)
def test_a_later_name_of_the_package_names_its_chapter(number):
    tt = stages.load(number)
    for stage in STAGES:
        for name in stage.names if stage.number > number else ():
            with pytest.raises(AttributeError) as e:
                getattr(tt, name)
            assert f"{name} is not in this stage: it arrives in chapter {stage.chapter}" in str(e.value)


def test_snapshots_do_not_share_modules():
    names = {m.split(".")[0] for m in sys.modules if m.startswith("tinyton_stage_")}
    assert all(sys.modules[name].__name__ == name for name in names)


def test_the_suites_run_on_a_package_of_the_readers_own(tmp_path):
    """``pytest tests --impl my_tinyton --stage 1``: what is right passes, what is wrong fails."""
    mine = stages.build(1, tmp_path).rename(tmp_path / "my_tinyton")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "--impl", "my_tinyton"]
    command += ["--stage", "1", "-k", "grid_has_three_axes or masked"]
    memory = mine / "ops" / "memory.py"
    memory.write_text(memory.read_text().replace("0 if other is None", "1 if other is None"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    env.pop("TINYTON_CUDA_TEXTS", None)  # a run of its own, that compiles no CUDA text
    run = subprocess.run(command, capture_output=True, text=True, env=env, cwd=Path(tinyton.__file__).parents[1])
    assert run.returncode == 1 and "test_masked_elements" in run.stdout and "1 failed, 1 passed" in run.stdout, (
        run.stdout
    )
