"""Tuned numbers beside the sweeps that chose them: which hold, and how the command finds them."""

import json
from importlib import import_module, reload

import pytest

import tinyton as tt
from tinyton import __main__

defend = import_module("tinyton.defend")  # of which the package's defend is a function


@pytest.fixture(autouse=True)
def no_claims(monkeypatch):
    monkeypatch.setattr(defend, "CLAIMS", {})


@pytest.fixture
def measuring(monkeypatch):
    name = next((n for n in ("opencl", "cuda") if tt.backends.available()[n] is None), None)
    if name is None:
        pytest.skip("no executor that measures")
    monkeypatch.setenv("TINYTON_BACKEND", name)


def never():
    raise AssertionError("measured before it was asked")


def test_a_number_is_what_it_is():
    assert tt.defend("a", 5, never) == 5
    config = {"BLOCK": 64, "num_warps": 4}
    assert tt.defend("b", config, never) is config


def test_a_number_holds_if_it_is_nearly_the_best(interpreter):
    tt.defend("near", 64, lambda: {32: 2.0, 64: 1.02, 128: 1.0})
    tt.defend("far", 64, lambda: {32: 2.0, 64: 1.2, 128: 1.0})
    tt.defend("far, and allowed", 64, lambda: {64: 1.2, 128: 1.0}, within=0.25)
    tt.defend("best", 64, lambda: {64: tt.Timing((1.0,), "clock"), 128: tt.Timing((3.0,), "clock")}, on="a card")
    near, far, allowed, best = tt.defended()
    assert [v.holds for v in (near, far, allowed, best)] == [True, False, True, True]
    assert near.best == 128 and near.slower == pytest.approx(0.02)
    assert repr(near) == "holds: near = 64, 2.0% slower than 128, the best of 3; 3.0% is allowed"
    assert repr(far) == "no longer holds: far = 64, 20.0% slower than 128, the best of 3; 3.0% is allowed"
    device = tt.env().device
    assert repr(best) == f"holds: best = 64, the best of 2; 3.0% is allowed (chosen on a card; this is {device})"
    assert len(tt.defended("far")) == 2


def test_what_is_said_last_counts():
    for value in 1, 2:
        tt.defend("one", value, lambda: {1: 1.0, 2: 1.0})
    assert [v.value for v in tt.defended()] == [2]


def test_a_table_of_a_sweep(interpreter):
    pytest.importorskip("pandas")
    tt.defend("two names", {"n": 2, "k": 3}, lambda: tt.sweep(lambda n, k: None, over={"n": [1, 2], "k": [3]}), 1e9)
    tt.defend("one name", 2, lambda: tt.sweep(lambda n: None, over={"n": [1, 2]}, repeats=1), 1e9)
    two, one = tt.defended()
    assert two.value == (2, 3) and set(two.times) == {(1, 3), (2, 3)} and set(one.times) == {1, 2}


def test_mistakes(interpreter):
    with pytest.raises(tt.TinytonError, match="the sweep of 'a' is a function"):
        tt.defend("a", 1, {1: 2.0})
    tt.defend("a", 1, lambda: {2: 1.0})
    with pytest.raises(tt.TinytonError, match="the sweep of 'a' does not measure 1; it has 2"):
        tt.defended()
    tt.defend("a", 1, lambda: 5)
    with pytest.raises(tt.TinytonError, match="returns a table of tt.sweep, or a dictionary"):
        tt.defended()


# the command

GOOD = 'import tinyton as tt\nA = tt.defend("a", 1, lambda: {1: 1.0, 2: 1.5})\n'
BAD = GOOD + 'print("noise")\nB = tt.defend("b", 2, lambda: {1: 1.0, 2: 1.5}, on="a card")\n'


def test_files_and_modules(measuring, tmp_path, monkeypatch, capsys):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "a_defended_module.py").write_text(BAD)
    monkeypatch.syspath_prepend(tmp_path)
    assert __main__.main(["defend", str(tmp_path / "good.py")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["holds: a = 1, the best of 2; 3.0% is allowed"]
    assert __main__.main(["defend", "a_defended_module"]) == 1
    stamp, *lines = capsys.readouterr().out.splitlines()
    assert stamp == f"on {tt.env().stamp()}" and [line.partition(":")[0] for line in lines] == [
        "holds",
        "no longer holds",
    ]
    assert __main__.main(["defend", "a_defended_module", "--only", "a"]) == 0
    assert __main__.main(["defend", "a_defended_module", "--list"]) == 0
    assert "b = 2, within 3.0%, on a card" in capsys.readouterr().out


def notebook(path, *cells):
    """A notebook of these cells; a pair is a cell with a tag."""
    made = [c if isinstance(c, tuple) else (c, None) for c in cells]
    found = [
        {"cell_type": "code", "source": text.splitlines(True), "metadata": {"tags": [tag] if tag else []}}
        for text, tag in made
    ]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Title"]}, *found]}))
    return str(path)


KERNEL = """
@tt.jit
def fill(x, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(x + i, 1.0)
"""
CLAIM = """
x = tt.empty(1 << 10)
def measure():
    return {b: tt.bench(lambda: fill[1024 // b](x, BLOCK=b), repeats=1) for b in (64, 1024)}
BLOCK = tt.defend("fill, BLOCK", 1024, measure, within=100)
"""


def test_notebooks(measuring, tmp_path, capsys, monkeypatch):
    path = notebook(
        tmp_path / "n.ipynb",
        "%matplotlib inline\nimport tinyton as tt",
        KERNEL,
        ("1 / 0", "raises-exception"),
        CLAIM,
        "raise SystemError('not run: nothing is defended from here on')",
    )
    assert __main__.main(["defend", path]) == 0
    assert "holds: fill, BLOCK = 1024" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chapters").mkdir()
    notebook(tmp_path / "chapters" / "20.ipynb", 'import tinyton as tt\ntt.defend("c", 1, lambda: {1: 1.0})')
    notebook(tmp_path / "chapters" / "21.ipynb", "raise SystemError('nothing in here')")
    defend.CLAIMS.clear()
    assert __main__.main(["defend", "--list"]) == 0
    assert "c = 1, within" in capsys.readouterr().out


def test_what_cannot_be_measured(tmp_path, capsys, monkeypatch, measuring):
    assert __main__.main(["defend", "no_such_module"]) == 1
    assert "no_such_module cannot be read" in capsys.readouterr().err
    assert __main__.main(["defend", str(tmp_path / "no.py")]) == 1
    (tmp_path / "empty.py").write_text("")
    assert __main__.main(["defend", str(tmp_path / "empty.py")]) == 0
    assert "nothing is defended there" in capsys.readouterr().out
    monkeypatch.setenv("TINYTON_BACKEND", "interpreter")
    assert __main__.main(["defend", str(tmp_path / "empty.py")]) == 1
    assert "the interpreter's times say nothing about a device" in capsys.readouterr().err


def test_the_compilers_own(measuring, monkeypatch):
    pytest.importorskip("pandas")
    measured = reload(import_module("tinyton.measured"))
    claims = list(defend.CLAIMS.values())
    assert [c.name for c in claims] == ["threads of add, tiles of 2048", "threads of sums, tiles of 2048"]
    assert measured.ADD["num_threads"] == claims[0].value["num_threads"]
    monkeypatch.setattr(measured, "sweep", lambda *args, over, **rest: {(2048, n): n for n in over["num_threads"]})
    assert all(v.value in v.times for v in tt.defended())


def test_help(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["defend", "--help"])
    assert "python -m tinyton defend" in capsys.readouterr().out
