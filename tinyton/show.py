"""``tt.show(what)``: the source of a part of the package, so that a page shows code that is really there."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from .errors import TinytonError

_STAGE = re.compile(r"\w+_stage_(\d+)")


@dataclass(frozen=True)
class Source:
    """Source text as plain Python, which a notebook highlights. ``path`` is its file in the package."""

    text: str
    path: str

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
        return f"{fence}python\n{self.text}\n{fence}"


def show(what: object, stage: int | None = None) -> Source:
    """The source of a part of the package: a file, a function, a class, a method or a name's definition.

    ``what`` is the object itself, a file's path (``"layout.py"``), or a dotted name in the package
    (``"codegen.emitter.Emitter.store"``). With ``stage``, as it stands after that stage. Decorators and the
    comment right above belong to it; methods are dedented. A wrong name is an error with close ones.

    >>> import tinyton as tt
    >>> tt.show("errors.CacheWarning")
    class CacheWarning(UserWarning):
        \"\"\"The kernel cache on disk cannot be used; kernels are kept in memory only.\"\"\"
    """
    from . import stages  # late, so that `python -m tinyton.stages` is the first to import it

    if isinstance(what, str):
        name = what.removeprefix("tinyton.").removeprefix("tinyton/")
    else:
        name, of = _name_of(what)
        stage = of if stage is None else stage
    number = stages.stages()[-1].number if stage is None else stage
    texts = _sources(number)
    if name in texts:
        return Source(texts[name].rstrip("\n"), name)
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        for path in "/".join(parts[:cut]) + ".py", "/".join(parts[:cut]) + "/__init__.py":
            if path not in texts:
                continue
            if cut == len(parts):
                return Source(texts[path].rstrip("\n"), path)
            for dotted, node in _definitions(path, texts[path]):
                if dotted == name:
                    lines = texts[path].split("\n")
                    first, last = stages.span(node, lines)
                    return Source(textwrap.dedent("\n".join(lines[first:last])), path)
    raise _nothing(name, number, stage)


@cache
def _sources(number: int) -> dict[str, str]:
    from . import stages

    return stages.sources(number)


def _definitions(path: str, text: str) -> Iterator[tuple[str, ast.stmt]]:
    """Every dotted name that a Python file defines, with its statement, the last of equal names first."""

    from .stages import defined

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
        for node in reversed(body):
            if name := defined(node):
                yield f"{prefix}.{name}", node
            elif isinstance(node, ast.Assign):  # a, b = …
                yield from ((f"{prefix}.{n.id}", node) for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name))
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}.{node.name}")

    return walk(ast.parse(text).body, _dotted(path))


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _name_of(thing: object) -> tuple[str, int | None]:
    """The dotted name of an object of the package, and the stage if it is from a stage's snapshot."""
    for inner in ("entry", "rule", "fget"):  # a name of the language stands for its entry, that for its typing rule
        thing = getattr(thing, inner, thing)
    name = getattr(thing, "__qualname__", "<locals>")
    if inspect.ismodule(thing):
        where, name = thing.__name__, ""
    elif "<locals>" in name and not isinstance(thing, (int, float)):
        where, name = _bound(thing)
    else:
        where = getattr(thing, "__module__", "")
    package, _, module = where.partition(".")
    staged = _STAGE.fullmatch(package)
    if package != __package__ and not staged:
        own = getattr(thing, "__name__", repr(thing))
        raise TinytonError(f"{own} is not a part of tinyton; for a kernel of yours, see .explain()")
    return ".".join(filter(None, (module, name))) or "__init__", int(staged[1]) if staged else None


def _bound(thing: object) -> tuple[str, str]:
    """The module of the package, and the name there, of an object that was made by a call."""
    for where, module in list(sys.modules.items()):
        if where.partition(".")[0] == __package__ or _STAGE.match(where):
            for name in [name for name, value in vars(module).items() if value is thing]:
                if re.search(rf"^[\w, ]*\b{name}\b[^=(]* = ", inspect.getsource(module), re.MULTILINE):
                    return where, name
    return "", ""


def _nothing(name: str, number: int, stage: int | None) -> TinytonError:
    texts = {path: text for path, text in _sources(number).items() if path.endswith(".py")}
    known = list(texts) if name.endswith(".py") else [_dotted(path) for path in texts]
    if not name.endswith(".py"):
        known += [dotted for path, text in texts.items() for dotted, _ in _definitions(path, text)]
    last = re.compile(rf"(.*[./])?{re.escape(re.split(r'[./](?!py$)', name)[-1])}")
    close = list(filter(last.fullmatch, known))[:3] or difflib.get_close_matches(name, known, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    return TinytonError(f"tinyton{'' if stage is None else f' at stage {stage}'} has no {name!r}{hint}")
