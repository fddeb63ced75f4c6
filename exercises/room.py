"""A tinyton with a part of it from the reader: a stage's snapshot in which functions are replaced by the answer's."""

from __future__ import annotations

import ast
import builtins
import os
import re
import subprocess
import symtable
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

PYTHON = set(
    """abs all any bool dict divmod enumerate filter float frozenset hash int isinstance issubclass iter len list
    map max min next pow print range repr reversed round set slice sorted str sum tuple zip""".split()
)
PYTHON |= {n for n, x in vars(builtins).items() if isinstance(x, type) and issubclass(x, Exception)}
ASKS = {"isinstance", "issubclass", "visits"}  # what kinds of nodes are for
KIND = "of ast, this function may use kinds of nodes, as in isinstance(node.op, ast.Add)"
KINDS = {n for n, x in vars(ast).items() if isinstance(x, type) and issubclass(x, ast.AST)}
ATTRIBUTES = {n for x in (bool, int, float, str, tuple, list, dict, set, frozenset) for n in dir(x) if n[0] != "_"}
ATTRIBUTES = ATTRIBUTES - {"format", "format_map"} | {f for n in KINDS for f in getattr(ast, n)._fields}


class Room:
    """The package after ``stage``, with ``file`` changed: each function of ``texts`` replaces the one of its name, or
    is put in front of the rest, and pairs of old and new text are replaced. ``driver`` is run in its process; what it
    defines is called by `call`. ``uses``: names and attributes that the answer may use beside its own and Python's."""

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
            self.box = Box((), driver, Path(self.folder.name), (FOLDER, ROOT / "tinyton", ROOT / "tests"), tame=True)
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
    where nothing else holds it back. It may read these names and attributes, its own names, Python's plain functions,
    what numbers, texts and containers have, the fields of syntax nodes, and ask what kind a node is."""
    nodes = list(ast.walk(ast.parse(text)))

    def refuse(node: ast.AST, what: str) -> None:
        raise Wrong(f"line {node.lineno}: {what}")  # type: ignore[attr-defined]

    owners = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    asked = {id(n.cls) for n in nodes if isinstance(n, ast.MatchClass)}
    for n in nodes:
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ASKS:
            asked |= {id(y) for x in n.args for y in (x.elts if isinstance(x, ast.Tuple) else [x])}
    for n in nodes:
        if isinstance(n, ast.Import | ast.ImportFrom | ast.Global | ast.ClassDef):
            refuse(n, f"this function needs no {type(n).__name__.lower()}; all it uses is there")
        if isinstance(n, ast.Attribute):
            of_ast = isinstance(n.value, ast.Name) and n.value.id == "ast"
            if of_ast and (n.attr not in KINDS or id(n) not in asked):
                refuse(n, KIND)
            if not of_ast and (n.attr not in ATTRIBUTES | known or not isinstance(n.ctx, ast.Load)):
                refuse(n, f"this function has no business with {ast.unparse(n)}")
        if isinstance(n, ast.MatchClass) and (odd := set(n.kwd_attrs) - ATTRIBUTES - known):
            refuse(n, f"this function has no business with .{min(odd)}")
        if isinstance(n, ast.Name) and n.id == "ast" and id(n) not in owners:
            refuse(n, KIND)
    read, own = names(symtable.symtable(text, "answer", "exec"))
    if own & ASKS:
        raise Wrong(f"{min(own & ASKS)} is Python's, or the package's; take another name")
    for name in sorted(read - PYTHON - known):
        where = next(n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load))
        refuse(where, f"{name} is not among what this function may use")


def names(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """The names that a text reads from outside, each where it stands, and those that it gives something itself."""
    symbols = table.get_symbols()
    own = {s.get_name() for s in symbols if s.is_assigned() or s.is_parameter()}
    module = table.get_type() == "module"
    read = {s.get_name() for s in symbols if s.is_referenced() and not s.is_assigned() and (module or s.is_global())}
    for inner in map(names, table.get_children()):
        read, own = read | inner[0], own | inner[1]
    return read, own
