"""The checker of the exercises, checked: references pass, skeletons fail in words that help, mutants are rejected."""

import json
import os
import re
from dataclasses import replace

import nbformat
import numpy as np
import pytest
import yaml

from exercises import book, press, referee, sandbox
from tests.conftest import EXECUTORS
from tools import notebooks

EXERCISES = book.every()
MUTANTS = [(one, name) for one in EXERCISES for name in one.check.mutants]
PROJECTS = [one for one in EXERCISES if one.number.startswith("P")]


def numbered(value):
    return value.number if isinstance(value, book.Exercise) else str(value).replace(" ", "_")


@pytest.fixture(autouse=True)
def quick(monkeypatch, request):
    """PoCL's optimiser takes most of the time of a small kernel."""
    if "opencl" in EXECUTORS:
        monkeypatch.setenv("TINYTON_BUILD_OPTIONS", "-cl-opt-disable")


def live(exercise, text, seed=0):
    """The verdict on objects, as a notebook has them."""
    scope = sandbox.scope_of(exercise.given)
    sandbox.define(text, "answer", scope)
    return referee.judge_objects(exercise, tuple(scope[name] for name in exercise.names), seed)


@pytest.mark.parametrize("exercise", EXERCISES, ids=numbered)
def test_the_reference_passes(exercise):
    """As it is graded: from its text, with functions in a process of their own, on numbers that no mutant has seen."""
    assert referee.judge_text(exercise, exercise.text, seed=1) == ""


@pytest.mark.parametrize("exercise", [one for one in EXERCISES if not one.check.room], ids=numbered)
def test_the_reference_passes_in_a_notebook(exercise):
    assert live(exercise, exercise.text) == ""


@pytest.mark.parametrize("exercise", EXERCISES, ids=numbered)
def test_the_skeleton_says_that_nothing_is_there_yet(exercise):
    assert exercise.skeleton != exercise.text and book.BEGIN not in exercise.skeleton
    for said in (referee.judge_text(exercise, exercise.skeleton, 0), live(exercise, exercise.skeleton)):
        assert said.startswith("not started: write your code where it says YOUR CODE HERE")
    assert book.STUB in exercise.skeleton


@pytest.mark.parametrize("exercise, mutant", MUTANTS, ids=numbered)
def test_a_mutant_is_rejected(exercise, mutant):
    text = exercise.mutants()[mutant]
    assert referee.parsed(text) != referee.parsed(exercise.solution), "this mutant is the solution"
    said = live(exercise, text)
    assert said and "not started" not in said and "the check of" not in said
    assert re.search(r"not |never|written|reads|writes|Error|again|another|wanted|behind|differs", said), said


OTHERS = {  # right answers that are not ours
    "23.3": """
@tt.jit
def decay(x, out, rows, cols, BLOCK: tt.constexpr):
    j = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    row = tt.load(x + j, mask=j < cols)
    tt.store(out + j, row, mask=j < cols)
    for k in tt.range(1, rows, num_stages=2):
        row = 0.5 * row + tt.load(x + k * cols + j, mask=j < cols)
        tt.store(out + k * cols + j, row, mask=j < cols)
""",
}


@pytest.mark.parametrize("number", OTHERS)
def test_another_right_answer_passes(number):
    assert live(book.find(number), OTHERS[number]) == ""


def test_a_long_text_is_shown_whole():
    exercise = book.find("8.1")
    said = live(exercise, exercise.mutants()["a vector counts as one"])
    assert said.startswith("widest(the text below) is ") and re.search(r"ld\.param.*\n(.*\n)+ +ret;$", said)


def test_of_a_long_result_what_differs_is_shown():
    swapped = """
def space(blocks, warps, itemsize):
    pairs = [(block, count) for count in warps for block in blocks]
    return [{"BLOCK": b, "num_warps": w} for b, w in pairs if 16 <= b * itemsize / (32 * w) <= 128]
"""
    said = live(book.find("23.1"), swapped)
    assert re.search(r"^space\(.*\)\[\d+\] is \{'BLOCK': \d+, 'num_warps': \d+\}, not \{", said)


@pytest.mark.parametrize("exercise", EXERCISES, ids=numbered)
def test_an_exercise_is_complete(exercise):
    assert 1 <= exercise.check.points <= 3 and exercise.title
    assert len(exercise.check.hints) == 3 and all(len(hint) > 5 for hint in exercise.check.hints)
    assert 2 <= len(exercise.check.mutants) <= 4 and all(len(p) % 2 == 0 for p in exercise.check.mutants.values())
    assert exercise.names and all(
        re.search(rf"\b{name}\b", exercise.skeleton + exercise.text) for name in exercise.names
    )


@pytest.mark.parametrize("stem", book.stems())
def test_three_and_more_from_easy_to_hard(stem):
    found = book.exercises(stem)
    points = [one.check.points for one in found]
    assert len(found) >= 3 and (points == sorted(points)) and (points[-1] > 1)
    assert [one.number for one in found] == [f"{book.chapter(stem)}.{k}" for k in range(1, len(found) + 1)]
    assert set(book.CHECKS) & {one.number for one in found} == {one.number for one in found}


@pytest.mark.parametrize("stem", book.stems())
def test_the_notebook_is_what_its_source_makes(stem):
    path = book.FOLDER / f"{stem}.ipynb"
    assert path.read_text(encoding="utf-8") == press.notebook(stem), (
        "run python -m exercises build; if you have solved exercises here: python -m exercises reset all"
    )
    nb = nbformat.read(path, 4)
    assert all(cell.execution_count is None and not cell.outputs for cell in nb.cells if cell.cell_type == "code")
    assert "BEGIN SOLUTION" not in path.read_text(encoding="utf-8")


def test_every_chapter_has_exercises_and_links_to_them():
    for path in notebooks.chapters():
        if re.match(r"\d\d_", path.stem):
            text = path.read_text(encoding="utf-8")
            assert path.stem in book.stems(), f"{path.stem} has no exercises"
            assert f"../exercises/{path.stem}.ipynb" in text, f"{path.stem} does not link to its exercises"
            assert f"../chapters/{path.stem}.ipynb" in (book.FOLDER / f"{path.stem}.ipynb").read_text(encoding="utf-8")


def test_every_part_has_a_project():
    toc = yaml.safe_load((book.FOLDER.parent / "_toc.yml").read_text(encoding="utf-8"))
    parts = [found[1] for part in toc["parts"] if (found := re.match(r"([IVX]+)\. ", part["caption"]))]
    assert len(parts) >= 4
    for k, part in enumerate(parts, 1):
        text = book.cells(next(stem for stem in book.stems() if book.chapter(stem) == f"P{k}"))[0].text
        assert text.startswith(f"# Project {part}: ") and f"\n\nFor part {part}. " in text
    assert {f"exercises/{stem}" for stem in book.stems()} <= {
        page["file"] for part in toc["parts"] for page in part["chapters"]
    }


def test_a_check_that_compares_nothing_is_an_error():
    exercise = book.find("1.1")
    exercise = replace(exercise, check=replace(exercise.check, run=lambda t, launch_size: None))
    with pytest.raises(AssertionError, match="compares nothing"):
        live(exercise, exercise.text)


def test_what_is_counted_is_what_the_reason_names():
    exercise = book.find("P4.3")
    said = live(exercise, exercise.solution.replace("above + here", "above + tt.load(x + i * cols + j, mask=j < cols)"))
    assert "sectors" in said and "blur over a grid of 3 with rows=20, cols=768, BN=256" in said


def test_what_is_passed_on_comes_back():
    for x in (1, 1.5, True, None, "é", (1, (2.0,)), [1, [2]], {"a": (1,), 2: None}, {3, 4}, float("inf")):
        back = sandbox.unpack(json.loads(json.dumps(sandbox.pack(x))))
        assert back == x and type(back) is type(x)
    x = np.arange(6, dtype=np.float16).reshape(2, 3).T
    back = sandbox.unpack(sandbox.pack(x))
    assert back.dtype == x.dtype and (back == x).all() and type(sandbox.unpack(sandbox.pack(x[0, 0]))) is float
    assert sandbox.unpack(sandbox.pack(object())) != object()


def test_the_page_of_solutions_is_current():
    page = book.FOLDER.parent / "book/solutions.md"
    assert page.read_text(encoding="utf-8") == press.solutions(), "run python -m exercises build"
    for one in EXERCISES:
        assert one.shown and "BEGIN" not in one.shown and book.STUB not in one.shown


def test_a_notebook_runs_from_top_to_bottom(monkeypatch, tmp_path):
    """With our answers in it, as a reader's; and as it is, which says what to do."""
    from nbclient import NotebookClient

    monkeypatch.setenv("TINYTON_PROGRESS", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(book.FOLDER.parent), prepend=os.pathsep)
    stem = "02_a_tile_not_a_thread"
    for solved, said in ((True, "passed. Ours:"), (False, "not yet: not started")):
        nb = nbformat.reads(press.notebook(stem), 4)
        for cell in nb.cells:
            known = {one.identity: one for one in book.exercises(stem)}
            if solved and cell.id in known:
                cell.source = known[cell.id].solution
        NotebookClient(nb, timeout=120, resources={"metadata": {"path": str(book.FOLDER)}}).execute()
        checks = [cell for cell in nb.cells if cell.id.endswith("-check")]
        assert len(checks) == 4
        for cell in checks:
            assert [said in output.data["text/plain"] for output in cell.outputs if "data" in output] == [True]
            assert not any(output.get("name") == "stderr" for output in cell.outputs)
