"""A tinyton with a part of it from the reader: a stage's snapshot in which functions are replaced by the answer's."""

from __future__ import annotations

import ast
import builtins
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from tinyton import backends, stages

from .book import FOLDER
from .referee import ROOT, Box
from .trial import Trial, Wrong

UNSAFE = {"breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals", "help", "input", "locals", "open"}
UNSAFE |= {"setattr", "vars"}
ELSEWHERE = {"scope", "lookup", "source", "env"}  # what has modules in it


class Room:
    """The package after ``stage``, with ``file`` changed: each function of ``texts`` replaces the one of its name, or
    is put in front of the rest, and pairs of old and new text are replaced. ``driver`` is run in its process; what it
    defines is called by `call`. ``uses``: names that the answer may use beside its own and Python's."""

    def __init__(
        self,
        stage: int,
        file: str = "",
        texts: Mapping[str, str] | None = None,
        driver: str = "",
        edits: Iterable[tuple[str, str]] = (),
        uses: Iterable[str] = (),
    ):
        self.stage, self.folder = stage, tempfile.TemporaryDirectory(prefix="tinyton-room-")
        try:
            place = stages.build(stage, self.folder.name)
            if file:
                text = (place / file).read_text(encoding="utf-8")
                for old, new in edits:
                    assert old in text, f"{file} of stage {stage} has no {old!r}"
                    text = text.replace(old, new)
                for name, answer in (texts or {}).items():
                    tame(answer, {*uses, *(texts or {})})
                    text = replaced(text, name, answer)
                (place / file).write_text(text, encoding="utf-8")
            self.box = Box((), driver, Path(self.folder.name), (FOLDER, ROOT / "tinyton", ROOT / "tests"))
        except BaseException:
            self.folder.cleanup()
            raise

    def __enter__(self) -> Room:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.box.close()
        self.folder.cleanup()

    def call(self, name: str, *args: Any) -> Any:
        return self.box.call(name, args, {})

    def suite(self, trial: Trial) -> None:
        """Runs the stage's suite on it, on the executors that it has."""
        suite = f"tests/stages/test_stage{self.stage}.py"
        if not find_spec("pytest"):
            raise Wrong("it does what ours does; to run the suite of the stage as well: pip install pytest")
        trial.doing = f"pytest {suite} --impl my_tinyton --stage {self.stage}, with your function in the package"
        folder = Path(self.folder.name)
        (folder / "tinyton").rename(folder / "my_tinyton")
        words = ["-m", "pytest", suite, "--impl", "my_tinyton", "--stage", str(self.stage)]
        words += ["-q", "-x", "--tb=short", "-p", "no:cacheprovider", "--no-header", "-p", "no:xdist"]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "TINYTON_BACKEND"))}
        places = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        env |= {"PYTHONPATH": os.pathsep.join(places), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, encoding="utf-8")
        passed = re.search(r"(\d+) passed", done.stdout)
        trial.compared += 1
        if done.returncode and not (done.returncode == 5 and not self.executors()):
            raise Wrong(f"the suite of stage {self.stage} does not pass:\n{done.stdout[-1500:]}")
        if not passed and self.executors():
            raise Wrong(f"the suite of stage {self.stage} ran no test:\n{done.stdout[-1500:]}")

    def executors(self) -> list[str]:
        """Those of this machine that the stage has; the interpreter arrives at stage 2."""
        usable = [name for name, why in backends.available().items() if why is None]
        return [name for name in usable if name != "interpreter" or self.stage > 1]


def replaced(text: str, name: str, answer: str) -> str:
    """``text`` with another definition of the function ``name``, which follows the imports if there was none."""
    lines, body = text.split("\n"), ast.parse(text).body
    old = next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    if old:
        start = min([old.lineno, *(d.lineno for d in old.decorator_list)]) - 1
        return "\n".join([*lines[:start], answer, *lines[old.end_lineno or start :]])
    last = max(n.end_lineno or 0 for n in body if isinstance(n, ast.Import | ast.ImportFrom))
    return "\n".join([*lines[:last], "", "", answer, "", *lines[last:]])


def tame(text: str, known: set[str]) -> None:
    """Refuses a function that is to become part of a compiler and uses more than it needs for that: the suite runs it
    where nothing else holds it back. So it gets at no module but Python's ``ast``, and of that at the nodes only."""
    nodes = list(ast.walk(ast.parse(text)))
    own = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    own |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    own |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ExceptHandler | ast.MatchAs) and n.name}
    owners = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    safe = {n for n in vars(builtins) if n not in UNSAFE and not n.startswith("_")}
    for n in nodes:
        if isinstance(n, ast.Import | ast.ImportFrom | ast.Global | ast.ClassDef):
            raise Wrong(f"line {n.lineno}: this function needs no {type(n).__name__.lower()}; all it uses is there")
        if isinstance(n, ast.Name) and n.id not in own | safe | known:
            raise Wrong(f"line {n.lineno}: {n.id} is not among what this function may use")
        if isinstance(n, ast.Attribute):
            of_ast = isinstance(n.value, ast.Name) and n.value.id == "ast"
            if n.attr.startswith("_") or n.attr in ELSEWHERE or of_ast and not n.attr[0].isupper():
                raise Wrong(f"line {n.lineno}: this function has no business with {ast.unparse(n)}")
        if isinstance(n, ast.Name) and n.id == "ast" and id(n) not in owners:
            raise Wrong(f"line {n.lineno}: of ast, this function may use the nodes, as in ast.Add")
