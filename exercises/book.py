"""The exercises that there are: each is a cell of ``sources/NN_slug.py`` and a function of ``checks/NN_slug.py``."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import signature
from pathlib import Path

FOLDER = Path(__file__).parent
NOTEBOOKS = FOLDER  # that readers open
BEGIN, END, STUB = "### BEGIN SOLUTION", "### END SOLUTION", "pass  # YOUR CODE HERE"
CHECKS: dict[str, Check] = {}


@dataclass(frozen=True)
class Check:
    """What `exercise` was given. A mutant is the solution with pairs of old and new text replaced."""

    points: int
    hints: tuple[str, str, str]
    mutants: Mapping[str, tuple[str, ...]]
    run: Callable[..., None]
    seconds: int
    room: bool


def exercise(
    number: str,
    *,
    points: int,
    hints: tuple[str, str, str],
    mutants: Mapping[str, tuple[str, ...]],
    seconds: int = 60,
    room: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers the check of an exercise: a function of a `trial.Trial` and of the names that an answer defines.
    ``seconds`` is how long it may take when it is graded. With ``room`` it gets not the functions but their text, to
    put it into a `room.Room`."""

    def register(run: Callable[..., None]) -> Callable[..., None]:
        CHECKS[number] = Check(points, hints, mutants, run, seconds, room)
        return run

    return register


@dataclass(frozen=True)
class Cell:
    """A cell of a source. ``kind``: markdown, given, answer, code."""

    kind: str
    text: str
    number: str = ""


@dataclass(frozen=True)
class Exercise:
    number: str
    stem: str
    title: str
    text: str  # of the answer's cell, with the solution and its markers
    given: tuple[str, ...]
    check: Check

    @cached_property
    def names(self) -> list[str]:
        """What an answer defines."""
        return list(signature(self.check.run).parameters)[1:]

    @cached_property
    def solution(self) -> str:
        return "\n".join(line for line in self.text.split("\n") if line.strip() not in (BEGIN, END))

    @property
    def shown(self) -> str:
        """Our answer, for readers: without what they were given to mend."""
        body = self.text.partition("\n")[2]
        regions = re.findall(f"^{BEGIN}\n(.*?){END}$", body, re.MULTILINE | re.DOTALL)
        mended = regions and f" {BEGIN}" not in body
        return ("\n".join(regions) if mended else self.solution.partition("\n")[2]).strip("\n")

    @cached_property
    def skeleton(self) -> str:
        return skeleton(self.text)

    @property
    def mark(self) -> str:
        return mark(self.number)

    @property
    def identity(self) -> str:
        """Of its cell in the notebook."""
        return "ex-" + self.number.replace(".", "-").lower()

    @property
    def notebook(self) -> Path:
        return NOTEBOOKS / f"{self.stem}.ipynb"

    @cached_property
    def has_kernels(self) -> bool:
        tree = ast.parse(self.solution)
        return any(isinstance(n, ast.FunctionDef) and is_kernel(n) and n.name in self.names for n in tree.body)

    def mutants(self) -> dict[str, str]:
        """Wrong answers, by what is wrong with them."""
        out = {}
        for name, pairs in self.check.mutants.items():
            text = self.solution
            for old, new in zip(pairs[::2], pairs[1::2], strict=True):
                if old not in text:
                    raise ValueError(f"exercise {self.number}, mutant {name!r}: {old!r} is not in the solution")
                text = text.replace(old, new)
            out[name] = text
        return out


def printable(text: str, most: int = 4000) -> str:
    """Without the characters that a terminal, or a file of results, would take for something else."""
    return re.sub(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text[:most])


def is_kernel(node: ast.FunctionDef) -> bool:
    """Whether a function is under ``@tt.jit`` or ``@ct.kernel``, with arguments or without."""
    heads = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return bool(heads) and all(isinstance(d, ast.Attribute) and d.attr in ("jit", "kernel") for d in heads)


def skeleton(text: str) -> str:
    """The cell that readers get: what is between the markers is theirs to write."""
    out, inside = [], False
    for line in text.split("\n"):
        if line.strip() == BEGIN:
            out.append(line.replace(BEGIN, STUB))
        inside = line.strip() == BEGIN or inside and line.strip() != END
        if not inside and line.strip() != END:
            out.append(line)
    return "\n".join(out)


def mark(number: str) -> str:
    """What `pytest -m` knows an exercise by."""
    return "ex" + number.replace(".", "_")


def stems() -> list[str]:
    """The sources in order: chapters, then projects."""
    return sorted(path.stem for path in (FOLDER / "sources").glob("*.py"))


def chapter(stem: str) -> str:
    """``5`` of ``05_constexpr_and_the_cache``, ``P1`` of ``p1_five_wrong_kernels``."""
    return stem.partition("_")[0].lstrip("0").upper()


@cache
def cells(stem: str) -> list[Cell]:
    text = (FOLDER / "sources" / f"{stem}.py").read_text(encoding="utf-8")
    out = []
    for block in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        word, _, body = block.partition("\n")
        word = word.strip()
        if word == "[markdown]":
            body = "\n".join(re.sub(r"^# ?", "", line) for line in body.strip("\n").split("\n"))
        kind = {"[markdown]": "markdown", "given": "given"}.get(word, "code")
        number = word if re.fullmatch(r"P?\d+\.\d+", word) else ""
        out.append(Cell("answer" if number else kind, body.strip("\n"), number))
    return out


@cache
def exercises(stem: str) -> list[Exercise]:
    """The exercises of a source, in order."""
    importlib.import_module(f"{__package__}.checks.{stem}")
    found, given, title = [], [], ""
    for cell in cells(stem):
        if cell.kind == "given":
            given.append(cell.text)
        if heading := re.match(r"## \S+ (.+)", cell.text) if cell.kind == "markdown" else None:
            title = heading[1]
        if cell.kind == "answer":
            text = f"# exercise {cell.number}\n{cell.text}"
            found.append(Exercise(cell.number, stem, title, text, tuple(given), CHECKS[cell.number]))
    return found


def every() -> list[Exercise]:
    return [one for stem in stems() for one in exercises(stem)]


def find(number: str) -> Exercise:
    """The exercise of this number; LookupError says which there are."""
    known = {chapter(stem): stem for stem in stems()}
    head = str(number).strip().upper().partition(".")[0]
    if head not in known:
        raise LookupError(f"there are no exercises {head}; there are those of {', '.join(known)}")
    there = {one.number: one for one in exercises(known[head])}
    if str(number).strip().upper() not in there:
        raise LookupError(f"there is no exercise {number}; there are {', '.join(there)}")
    return there[str(number).strip().upper()]


def select(word: str) -> list[Exercise]:
    """``5.2``, all of ``5``, or ``all``."""
    if word.lower() == "all":
        return every()
    if "." in word:
        return [find(word)]
    found = [one for stem in stems() if chapter(stem) == word.upper().lstrip("0") for one in exercises(stem)]
    return found or [find(word)]
