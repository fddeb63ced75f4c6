"""Stages: the package as it stands after each chapter that builds it, cut out of the one source there is.

``stages.toml`` says which files, ops and syntax a stage adds. Inside a file, marker comments (each alone on
its line, at any indentation) hold what changes at a stage: ``>>> stage 3`` opens, the lines from stage 3 on
follow, then perhaps ``=== before`` and the older lines, commented out, and ``<<<`` closes. Idea: the snippet
markers of *Crafting Interpreters* (Nystrom, 2021), which also compiles and tests the code of every chapter.

Run ``python -m tinyton.stages list``, ``build N --out DIR`` or ``diff N``.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import difflib
import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import TinytonError

PACKAGE = Path(__file__).parent
_OPEN = re.compile(r"# >>> stage (\d+)")
_OPTIONAL = {"ops", "names", "syntax", "before"}
LOOKUP = "from ._later import __getattr__"
_LATER = '''"""What later stages bring: name → chapter."""

from __future__ import annotations

LATER: dict[str, str] = {{
{}}}


def __getattr__(name: str) -> object:
    """Names the chapter where a name of the package arrives that it has not yet."""
    if name in LATER:
        raise AttributeError(f"{{name}} is not in this stage: it arrives in {{LATER[name]}}")
    raise AttributeError(f"this stage of tinyton has no {{name}}")
'''


@dataclass(frozen=True)
class Stage:
    """One table of ``stages.toml``: what first appears at this stage, and the chapter that builds it.

    ``before`` maps a file to the older text that snapshots of earlier stages take in its place.
    """

    number: int
    name: str
    chapter: str
    files: tuple[str, ...]
    ops: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    syntax: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)


def stages(root: Path = PACKAGE) -> list[Stage]:
    """The stages of the package at ``root``, in order.

    >>> stages()[0].chapter
    '04'
    """
    table = root / "stages.toml"
    if not table.exists():
        raise TinytonError("this is the snapshot of a stage; stages are cut from the whole package only")
    found: list[Stage] = []
    for entry in tomllib.loads(table.read_text(encoding="utf-8")).get("stage", []):
        if wrong := sorted({f.name for f in fields(Stage)}.symmetric_difference(entry) - _OPTIONAL):
            number = entry.get("number", "?")
            raise TinytonError(f"stages.toml, stage {number}: missing or unknown key {wrong[0]!r}")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
        found.append(Stage(**values))
    for key in ("number", "files", "ops", "names", "syntax"):
        names = [x for s in found for x in ((s.number,) if key == "number" else getattr(s, key))]
        if twice := [x for x in names if names.count(x) > 1]:
            raise TinytonError(f"stages.toml: {twice[0]!r} is listed twice among {key}")
    found.sort(key=lambda s: s.number)
    if root == PACKAGE:
        _own_ops(found)
    return found


def _own_ops(known: list[Stage]) -> None:
    """An op that the table does not name comes with its file, and a file that it does not name with the last stage."""
    from .ops import OPS

    listed = {op for s in known for op in s.ops}
    for name, entry in OPS.items():
        if name not in listed:
            file = f"ops/{entry.rule.__module__.split('.')[-1]}.py"
            k = next((k for k, s in enumerate(known) if file in s.files), -1)
            known[k] = replace(known[k], ops=(*known[k].ops, name))


def sources(number: int, root: Path = PACKAGE) -> dict[str, str]:
    """Every file of the snapshot after stage ``number``: its path in the package → its text, without markers.

    The last stage's snapshot is the whole package. ``TinytonError`` if there is no such stage, a listed file
    is missing, or a marker is wrong (the message names file and line).

    >>> "jit.py" in sources(1)
    True
    """
    known = stages(root)
    _find(known, number)
    later = [s for s in known if s.number > number]
    older = {file: text for s in reversed(later) for file, text in s.before.items()}
    hidden = {op for s in later for op in s.ops}
    paths = [file for s in known if s.number <= number for file in s.files]
    out = {}
    for path in sorted(paths if later else _everything(root, known)):
        place = older.get(path, path)
        file = root / place
        if not file.is_file():
            raise TinytonError(f"stages.toml names {place!r}, which is not in the package")
        text = _resolve(file.read_text(encoding="utf-8"), number, place, {s.number for s in known})
        out[path] = _without(text, hidden, place) if re.match(r"ops/.*\.py$", path) else text
    if later:
        coming = [(name, s) for s in later for name in s.ops + s.names + s.syntax]
        lines = [f'    "{name}": "chapter {s.chapter} (stage {s.number})",\n' for name, s in coming]
        out["_later.py"] = _LATER.format("".join(lines))
        out["__init__.py"] = _exports(out["__init__.py"], out.keys())
    return out


def _find(known: list[Stage], number: int) -> Stage:
    found = {s.number: s for s in known}
    if number not in found:
        raise TinytonError(f"there is no stage {number}; there are {', '.join(map(str, found))}")
    return found[number]


def _everything(root: Path, known: list[Stage]) -> Iterator[str]:
    """All text of the package, without what only stages need: their table and the older texts."""
    skip = {"stages.toml"} | {text for s in known for text in s.before.values()}
    for file in root.rglob("*"):
        path = file.relative_to(root).as_posix()
        if file.is_file() and path not in skip and not re.search(r"(^|/)(\.|__pycache__)", path):
            yield path


def _resolve(text: str, number: int, path: str, known: set[int]) -> str:
    """``text`` with each marked block replaced by the lines that hold at stage ``number``."""
    lines = text.split("\n")
    blocks: list[tuple[int, int, list[str]]] = []
    opened = turn = None  # the lines that open the block we are in, and its "before" part

    def fail(line: int, what: str) -> TinytonError:
        return TinytonError(f"{path}, line {line + 1}: {what}")

    for i, line in enumerate(lines):
        mark = line.strip()
        if mark.startswith("# >>>"):
            if opened is not None:
                raise fail(i, f"markers do not nest: the one that line {opened + 1} opens is not closed yet")
            match = _OPEN.fullmatch(mark)
            if not match or int(match[1]) not in known:
                raise fail(i, f"{mark!r} is not '# >>> stage N' with a stage that stages.toml has")
            stage, opened, turn = int(match[1]), i, None
        elif mark == "# === before":
            if opened is None or turn is not None:
                raise fail(i, "'# === before' stands once, between '# >>> stage N' and '# <<<'")
            turn = i
        elif mark == "# <<<":
            if opened is None:
                raise fail(i, "'# <<<' closes no marker")
            turn = i if turn is None else turn
            new, old = lines[opened + 1 : turn], lines[turn + 1 : i]
            for j, kept in enumerate(old, turn + 1):
                if not re.match(r"\s*(# |#$|$)", kept):
                    raise fail(j, "lines after '# === before' are commented out with '# '")
            blocks.append((opened, i + 1, new if number >= stage else [_uncomment(kept) for kept in old]))
            opened = None
    if opened is not None:
        raise fail(opened, "this marker is not closed by '# <<<'")
    for start, stop, instead in reversed(blocks):
        lines = [*lines[:start], *instead, *lines[stop:]] if instead else _cut(lines, start, stop)
    return "\n".join(lines)


def _uncomment(line: str) -> str:
    return re.sub(r"^(\s*)# ?", r"\1", line).rstrip()


def _cut(lines: list[str], start: int, stop: int) -> list[str]:
    """``lines`` without start…stop; where two runs of blank lines then meet, the longer one stays."""
    above, below = start, stop
    while above and not lines[above - 1].strip():
        above -= 1
    while below < len(lines) and not lines[below].strip():
        below += 1
    blank = max(start - above, below - stop) if above else 0
    if below == len(lines):
        blank = 1  # the file ends with one newline
    return [*lines[:above], *[""] * blank, *lines[below:]]


def span(node: ast.stmt, lines: list[str]) -> tuple[int, int]:
    """The lines [first, last) of a statement, from 0, with its decorators and the comment right above it."""
    start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start, node.end_lineno or node.lineno


def defined(node: ast.stmt) -> str | None:
    """The name that a ``def``, ``class`` or ``NAME = …`` statement defines; None for any other statement."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        return target.id if isinstance(target, ast.Name) else None
    return None


def _without(text: str, hidden: set[str], path: str) -> str:
    """``text`` without the top-level entries of the ops in ``hidden`` (``sum_`` is the entry of ``sum``), and without
    the imports and private helpers that only those used."""
    try:
        tree = ast.parse(text)
    except SyntaxError as e:
        raise TinytonError(f"{path}, line {e.lineno} of the snapshot: {e.msg}") from None
    gone = [n for n in tree.body if (name := defined(n)) and {name, name.removesuffix("_")} & hidden]
    used = _used(tree)
    while gone:
        lines = text.split("\n")
        for node in reversed(gone):
            lines = _cut(lines, *span(node, lines))
        tree = ast.parse("\n".join(lines))
        idle = used - _used(tree)
        text = _imports("\n".join(lines), tree, lambda node, name, idle=idle: name not in idle)
        tree = ast.parse(text)
        gone = [n for n in tree.body if (name := defined(n)) and name.startswith("_") and name in idle]
    return text


def _used(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _imports(text: str, tree: ast.Module, keep: Callable[[ast.stmt, str], bool]) -> str:
    """``text`` with those names in its top-level imports that ``keep(import statement, name)`` wants."""
    lines = text.split("\n")
    for node in reversed(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kept = [n for n in node.names if keep(node, n.asname or n.name)]
            start, stop = span(node, lines)
            if not kept:
                lines = _cut(lines, start, stop)
            elif len(kept) < len(node.names):
                node.names = kept
                lines[start:stop] = [ast.unparse(node)]
    return "\n".join(lines)


def _exports(text: str, paths: Collection[str]) -> str:
    """``__init__.py`` without the imports of files that the snapshot has not; names of later stages are refused."""

    def there(node: ast.stmt, name: str) -> bool:
        if not isinstance(node, ast.ImportFrom) or not node.level:
            return True
        place = (node.module or name).replace(".", "/")
        return f"{place}.py" in paths or f"{place}/__init__.py" in paths

    text = _imports(text, ast.parse(text), there)
    lines = text.split("\n")
    first = next((n for n in ast.parse(text).body if isinstance(n, ast.ImportFrom) and n.level), None)
    at = span(first, lines)[0] if first else len(lines) - 1
    if LOOKUP not in lines:
        lines.insert(at, LOOKUP)
    return "\n".join(lines)


def build(number: int, out: str | os.PathLike[str], root: Path = PACKAGE) -> Path:
    """Write the package as it stands after stage ``number`` to ``out/tinyton``, which must not exist yet."""
    return _write(sources(number, root), Path(out) / "tinyton")


def _write(texts: dict[str, str], place: Path) -> Path:
    if place.exists():
        raise TinytonError(f"{place} exists already: remove it, or name another folder")
    for path, text in texts.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return place


_loaded: dict[tuple[int, Path], ModuleType] = {}
_folders: dict[int, Path] = {}  # process → where its snapshots are


def load(number: int, root: Path = PACKAGE) -> ModuleType:
    """Import the package as it stands after stage ``number``, as ``tinyton_stage_N``; once in a process.

    >>> tt = load(1)
    >>> tt.__name__
    'tinyton_stage_1'
    """
    if (number, root) in _loaded:
        return _loaded[number, root]
    name = f"tinyton_stage_{number}"
    place = _write(sources(number, root), Path(tempfile.mkdtemp(dir=_folder())) / name)
    spec = importlib.util.spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])
    assert spec and spec.loader
    _forget(name)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        _forget(name)
        raise
    _loaded[number, root] = module
    return module


def _forget(name: str) -> None:
    for module in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
        del sys.modules[module]


def _folder() -> Path:
    """A folder of this process (a forked child makes its own), removed when the process ends."""
    pid = os.getpid()
    if pid not in _folders:
        _folders[pid] = Path(tempfile.mkdtemp(prefix="tinyton-stages-"))
        atexit.register(_remove, pid)
    return _folders[pid]


def _remove(pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(_folders[pid], ignore_errors=True)


def diff(number: int, root: Path = PACKAGE) -> str:
    """What stage ``number`` added to the one before it: a unified diff, new files first, then the changed."""
    known = stages(root)
    stage = _find(known, number)
    earlier = [s.number for s in known if s.number < number]
    old = sources(earlier[-1], root) if earlier else {}
    new = sources(number, root)
    listed = {file for s in known for file in s.files} - {"_later.py"}  # the tools are in no stage's list
    added = [path for path in new if path in listed and path not in old]
    changed = [path for path in new if path in listed & old.keys() and old[path] != new[path]]
    out = [f"stage {number}, {stage.name} (chapter {stage.chapter})"]
    out += [f"  new: {path}" for path in added] + [f"  changed: {path}" for path in changed]
    for path in added + changed:
        before = path if path in old else "(not there before)"
        texts = old.get(path, "").splitlines(), new[path].splitlines()
        out += ["", *difflib.unified_diff(*texts, before, path, lineterm="")]
    return "\n".join(out)


def main(argv: list[str] | None = None, root: Path = PACKAGE) -> int:
    """The command line: ``list``, ``build N --out DIR``, ``diff N``."""
    parser = argparse.ArgumentParser(prog="python -m tinyton.stages", description="tinyton, stage by stage")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the stages, and the chapter that builds each")
    write = commands.add_parser("build", help="write the package as it stands after stage N to DIR/tinyton")
    show = commands.add_parser("diff", help="what stage N added to the one before it")
    for command in (write, show):
        command.add_argument("number", type=int, metavar="N")
    write.add_argument("--out", required=True, metavar="DIR")
    args = parser.parse_args(argv)
    try:
        if args.command == "list":
            for s in stages(root):
                print(f"{s.number:2}  chapter {s.chapter}  {s.name} ({len(s.files)} files, {len(s.ops)} ops)")
        elif args.command == "build":
            print(f"wrote {build(args.number, args.out, root)}")
        else:
            print(diff(args.number, root))
    except TinytonError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `diff N | head` ends quietly
    sys.exit(main())
