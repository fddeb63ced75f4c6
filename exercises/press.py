"""Notebooks from the sources: the skeletons that readers open, and a course for nbgrader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from .book import FOLDER, NOTEBOOKS, STUB, Cell, Exercise, cells, exercises, stems

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
HOW = """\
Write your code where it says `YOUR CODE HERE`, run the cell, then the check below it. A check says where the first
difference is. `hint("{0}")` in a cell of its own gives hints, one at a time; `solution("{0}")` ours. Leave the first
line of an answer's cell as it is, and try things in other cells: an answer is judged by its cell alone."""
SOLUTIONS = """\
<!-- Made from exercises/sources by `python -m exercises build`. -->

# Solutions

Ours, an exercise each. Yours may look different and be as good: the checks say what is right. For the hints that come
before: `hint("5.1")` in the notebook, or `python -m exercises hint 5.1`.
"""
CONFIG = f"""\
# Made by `python -m exercises nbgrader`. nbgrader reads it in this folder.
c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "tinyton"
c.ClearSolutions.code_stub = {{"python": "{STUB}"}}
c.ExecutePreprocessor.timeout = 300
"""


def made(stem: str, solved: bool = False) -> Iterator[tuple[Cell, str, str]]:
    """The cells of a notebook: what each is, its identity, its text. ``solved``: with the solutions between markers."""
    known = {one.number: one for one in exercises(stem)}
    first = next(iter(known))
    for k, cell in enumerate(cells(stem)):
        if cell.kind != "answer":
            yield cell, f"cell-{k}", cell.text if k else f"{cell.text}\n\n{HOW.format(first)}"
            continue
        one = known[cell.number]
        yield cell, one.identity, one.text if solved else one.skeleton
        yield Cell("check", "", cell.number), f"{one.identity}-check", call(one)


def call(one: Exercise) -> str:
    return f'check("{one.number}", {", ".join(one.names)})'


def notebook(stem: str) -> str:
    """The notebook that readers open."""
    nb = nbformat.v4.new_notebook(metadata=METADATA)
    for cell, identity, text in made(stem):
        make = nbformat.v4.new_markdown_cell if cell.kind == "markdown" else nbformat.v4.new_code_cell
        nb.cells.append(make(text, id=identity))
    return written(nb)


def written(nb: NotebookNode) -> str:
    nb.nbformat, nb.nbformat_minor = 4, 5
    nbformat.validate(nb)
    return nbformat.writes(nb).rstrip("\n") + "\n"


def build(check: bool = False) -> int:
    """Writes the notebooks and the page of solutions; 1 if ``check`` and one is not what the sources make."""
    stale = 0
    files = {NOTEBOOKS / f"{stem}.ipynb": notebook(stem) for stem in stems()}
    for path, text in (files | {FOLDER.parent / "book/solutions.md": solutions()}).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale = 1
            print(f"{path.parent.name}/{path.name}: {'not what its source makes' if check else 'written'}")
            if not check:
                path.write_text(text, encoding="utf-8")
    return stale if check else 0


def solutions() -> str:
    """The page of the book with our answers."""
    out = [SOLUTIONS]
    for stem in stems():
        title = cells(stem)[0].text.partition("\n")[0].lstrip("# ")
        out.append(f"## [{title}](../exercises/{stem}.ipynb)\n")
        for one in exercises(stem):
            out.append(f"```````{{dropdown}} {one.number} {one.title}\n```python\n{one.shown}\n```\n```````\n")
    return "\n".join(out)


def reset(one: Exercise) -> None:
    """Puts the empty cell of an exercise back into the reader's notebook, or the notebook if it cannot be read."""
    fresh = nbformat.reads(notebook(one.stem), 4)
    try:
        nb = nbformat.read(one.notebook, 4)
    except (OSError, ValueError, nbformat.reader.NotJSONError):
        nb = fresh
    head = f"# exercise {one.number}\n"
    mine = [cell for cell in nb.cells if cell.cell_type == "code" and cell.source.lstrip().startswith(head)]
    if mine:
        for cell in mine:
            cell.source, cell.outputs, cell.execution_count = one.skeleton, [], None
    else:
        nb.cells += [cell for cell in fresh.cells if cell.get("id") == one.identity]
    one.notebook.write_text(written(nb), encoding="utf-8")


def course(folder: Path, wanted: list[str]) -> None:
    """A course for nbgrader: an assignment a source, with solutions, and a cell of points behind each answer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    for stem in wanted:
        known = {one.number: one for one in exercises(stem)}
        nb = nbformat.v4.new_notebook(metadata=METADATA)
        for cell, identity, text in made(stem, solved=True):
            make = nbformat.v4.new_markdown_cell if cell.kind == "markdown" else nbformat.v4.new_code_cell
            what = {"schema_version": 3, "grade_id": identity, "task": False, "locked": True}
            what |= {"solution": False, "grade": False}
            if cell.kind == "answer":
                what |= {"solution": True, "locked": False}
            elif cell.kind == "check":
                what |= {"grade": True, "points": known[cell.number].check.points}
                text = f"result = {text}\nassert result.passed, result"
            nb.cells.append(make(text, id=identity, metadata={"nbgrader": what}))
        place = folder / "source" / stem / f"{stem}.ipynb"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(written(nb), encoding="utf-8")
