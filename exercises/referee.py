"""The judge of one answer. It never runs the answer: kernels are data, which tinyton compiles here, and functions run
in a `Box`, a process of their own. Run as a process itself by `grade`, so that nothing stops a batch."""

from __future__ import annotations

import ast
import inspect
import json
import linecache
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from pprint import pformat
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

import tinyton as tt
import tinyton.tile as ct
from tinyton.errors import StaticEvalError
from tinyton.frontend import source, static
from tinyton.jit import JITFunction

from . import sandbox
from .book import FOLDER, STUB, Exercise, find, is_kernel, printable
from .trial import Out, Trial, Wrong, same_bits

ROOT = Path(tt.__file__).parent.parent
MEMORY = 4 << 30  # bytes of address space that an answer's process may take
SECONDS = 600  # of a processor that it may use, if nobody ends it before
LONGEST = 1 << 25  # characters of a reply
HEAP = 8 << 30  # bytes that the judge itself may take, for kernels that compute without end while they are compiled
DECORATORS = (tt.jit, ct.kernel)


def view(module: ModuleType) -> ModuleType:
    """A module as a kernel that is judged sees it: without what leads on to other modules, or could be changed."""
    seen = ModuleType(module.__name__)
    public = ((name, x) for name, x in vars(module).items() if not name.startswith("_"))
    vars(seen).update((name, x) for name, x in public if not isinstance(x, (ModuleType, dict, list, set)))
    return seen


MODULES = {"tinyton": view(tt), "tinyton.tile": view(ct), "numpy": view(np), "math": view(math)}


class Box:
    """A process with an answer in it. ``path``: where its tinyton is; ``secret``: folders it must not read; ``tame``:
    the answer has been read, and uses nothing but what it may."""

    def __init__(
        self,
        given: tuple[str, ...],
        answer: str,
        path: Path = ROOT,
        secret: tuple[Path, ...] = (FOLDER,),
        tame: bool = False,
    ):
        words = [sys.executable, "-I", "-B", str(FOLDER / "sandbox.py")]
        env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "SYSTEMROOT", "TEMP", "TMPDIR", "LANG")}
        self.process = subprocess.Popen(
            words,
            env=env | {"TINYTON_BACKEND": "interpreter"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
        )
        try:
            job = {"path": [str(path)], "secret": [str(p) for p in secret], "tame": tame}
            job |= {"memory": MEMORY, "seconds": SECONDS, "given": given, "answer": answer}
            ready = self._ask(job)
            with _garbled():
                self.names, self.values = set(ready["names"]), {**sandbox.unpack(ready["values"])}
        except Wrong:
            self.close()
            raise

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _ask(self, request: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline(LONGEST)
            while line == "\n":
                line = self.process.stdout.readline(LONGEST)
        except OSError:
            line = ""
        if not line:
            raise Wrong(f"its process ended in the middle (exit status {self.process.wait()})")
        with _garbled():
            reply = dict(json.loads(line))
        if "violation" in reply:
            raise Wrong(printable(f"not judged: {reply['violation']}"))
        if "error" in reply:
            raise Wrong(printable(str(reply["error"])))
        return reply

    def call(self, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        reply = self._ask(sandbox.pack((name, args, kwargs)))
        with _garbled():
            result, after = sandbox.unpack(reply["result"]), sandbox.unpack(reply["args"])
            for mine, theirs in zip([*args, *kwargs.values()], after, strict=True):
                if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
                    mine[...] = theirs
            return result


@contextmanager
def _garbled() -> Iterator[None]:
    """What a process says that an answer runs in need not make sense."""
    try:
        yield
    except Exception:
        raise Wrong("what its process says is garbled") from None


def watched(trial: Trial, name: str, call: Callable[[tuple, dict[str, Any]], Any]) -> Callable[..., Any]:
    """A function of an answer, as a check calls it: its errors are the answer's, and what is called is remembered.
    An `Out` stands for its array, and nothing else may be changed."""

    def function(*given: Any, **kwargs: Any) -> Any:
        args = tuple(x.array if isinstance(x, Out) else x for x in given)
        befores = [x.copy() if isinstance(x, np.ndarray) else None for x in given]
        words = [_word(x) for x in args] + [f"{k}={_word(x)}" for k, x in kwargs.items()]
        trial.text = "\n".join(filter(None, map(_page, [*args, *kwargs.values()])))
        trial.doing = f"{name}({', '.join(words)})"
        try:
            result = call(args, kwargs)
        except (Wrong, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise Wrong(sandbox.says(error)) from None
        for k, (now, before) in enumerate(zip(args, befores, strict=True), 1):
            if before is not None and not same_bits(now, before).all():
                raise Wrong(f"argument {k} is an input, but it was written")
        return result

    function.__name__ = name
    return function


def _word(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return str(x.tolist()) if x.ndim == 1 and x.size <= 8 else f"an array of {' x '.join(map(str, x.shape))}"
    return f"the {'text' if isinstance(x, str) else type(x).__name__} below" if _page(x) else repr(x)


def _page(x: Any) -> str:
    """What is too long for a line: it is shown below what is said of it."""
    if isinstance(x, np.ndarray) or len(repr(x)) <= 120:
        return ""
    lines = (x if isinstance(x, str) else pformat(x, width=110, compact=True, sort_dicts=False)).split("\n")
    return "\n".join(lines[:40] + ["…"] * (len(lines) > 40))


# -- kernels from text -----------------------------------------------------------------------------


def kernels(cells: list[str], constants: dict[str, Any]) -> dict[str, JITFunction]:
    """The kernels that the cells define, the last of each name. Nothing else of the cells is run, and of a kernel only
    what decorates and annotates it, which may be nothing but names and constants. What a kernel reads from outside is
    what these modules have for kernels, by names that are public."""
    scope: dict[str, Any] = {"__name__": "__answer__", **constants}
    found = {}
    for number, text in enumerate(cells):
        file = f"<answer {number}>"
        linecache.cache[file] = (len(text), None, [line + "\n" for line in text.split("\n")], file)
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import):
                for a in node.names:
                    if a.name in MODULES and (a.asname or "." not in a.name):
                        scope[a.asname or a.name] = MODULES[a.name]
            elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
                known = vars(MODULES[node.module])
                scope |= {a.asname or a.name: known[a.name] for a in node.names if a.name in known}
            elif isinstance(node, ast.FunctionDef) and is_kernel(node):
                _plain(node, scope)
                exec(compile(ast.Module([node], []), file, "exec", dont_inherit=True), scope)
                found[node.name] = scope[node.name]
    return found


def _plain(node: ast.FunctionDef, scope: dict[str, Any]) -> None:
    """Refuses a kernel whose head would run something."""
    for decorator in node.decorator_list:
        head = decorator.func if isinstance(decorator, ast.Call) else decorator
        owner = (
            scope.get(head.value.id) if isinstance(head, ast.Attribute) and isinstance(head.value, ast.Name) else None
        )
        if getattr(owner, getattr(head, "attr", ""), None) not in DECORATORS:
            raise Wrong(f"the decorator @{ast.unparse(decorator)} of {node.name} is neither tt.jit nor ct.kernel")
        parts = [*decorator.args, *decorator.keywords] if isinstance(decorator, ast.Call) else []
        _names_only(node.name, parts)
    everything = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    annotations = [a.annotation for a in everything if a] + [node.returns]
    _names_only(node.name, [*annotations, *node.args.defaults, *node.args.kw_defaults])
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr.startswith("_"):
            raise Wrong(f"line {part.lineno}: kernel {node.name} has no business with {ast.unparse(part)}")


def _no_python(*args: Any) -> None:
    what = "an answer's kernels are compiled where the verdict is made, so Python computes nothing for them"
    raise StaticEvalError(f"{what}; write what ct.static_eval is for outside of the kernel, or as arithmetic in it")


def _names_only(name: str, nodes: list[Any]) -> None:
    allowed = (ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Tuple, ast.List, ast.UnaryOp, ast.USub)
    for node in filter(None, nodes):
        for part in ast.walk(node):
            private = isinstance(part, ast.Attribute) and part.attr.startswith("_")
            if private or not isinstance(part, (*allowed, ast.keyword, ast.expr_context)):
                raise Wrong(f"the head of kernel {name} holds {ast.unparse(node)}; write names and constants there")


# -- verdicts ------------------------------------------------------------------------------------------


def judge(exercise: Exercise, bind: Callable[[Trial], dict[str, Any]], seed: int) -> str:
    """Runs the check; what is wrong, or nothing. ``bind`` gives the answer's names for a trial. Kernels run in the
    interpreter, which sees every access, and if that finds nothing, on the executor in use."""
    use = tt.backends.use
    names = dict.fromkeys(["interpreter", tt.backends.current().name]) if exercise.has_kernels else [""]
    trial = Trial(seed)
    for name in names:
        trial = Trial(seed)
        try:
            with use(name) if name else nullcontext():
                exercise.check.run(trial, **bind(trial))
        except Wrong as error:
            return _reason(str(error), trial, name)
        except Exception as error:  # what tinyton refuses, and what a check did not expect
            return _reason(f"{type(error).__name__}: {error}", trial, name)
        if not trial.compared or exercise.has_kernels and trial.programs < 3:
            raise AssertionError(f"the check of {exercise.number} compares nothing, or on fewer than 3 programs")
    return ""


def _reason(what: str, trial: Trial, executor: str) -> str:
    about = trial.doing if trial.doing and trial.doing not in what else ""
    where = "in the interpreter" if executor == "interpreter" else executor and f"on {executor}"
    about = ", ".join(filter(None, [about, where]))
    text = trial.text if " below" in trial.doing else ""
    return "\n".join(filter(None, [what, about, text]))


def not_started(exercise: Exercise) -> str:
    lines = "write your code where it says YOUR CODE HERE" if STUB in exercise.skeleton else "it is as it was"
    return f"not started: {lines}"


def parsed(text: str) -> str:
    """What a text means to Python, whatever its comments and layout."""
    return ast.dump(ast.parse(text))


@patch.object(static, "eval", _no_python, create=True)
@patch.object(source, "eval", _no_python, create=True)  # of annotations that are texts
def judge_text(exercise: Exercise, text: str, seed: int) -> str:
    """The verdict on a cell that was handed in."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as Python reads it: its lines are those of kernels
    try:
        if parsed(text) == parsed(exercise.skeleton):
            return not_started(exercise)
    except (SyntaxError, ValueError) as error:
        return f"line {getattr(error, 'lineno', 0)}: {type(error).__name__}: {getattr(error, 'msg', error)}"
    except (RecursionError, MemoryError):
        return "Python cannot read it: it is nested too deeply"
    texts = sources(exercise, text)
    try:
        if exercise.check.room:
            return judge(exercise, lambda trial: _texts(exercise, texts), seed)
        with Box(exercise.given, text) as box:

            def bind(trial: Trial) -> dict[str, Any]:
                found = kernels([*exercise.given, text], box.values)
                return {name: _one(exercise, trial, box, found, name) for name in exercise.names}

            return judge(exercise, bind, seed)
    except Wrong as error:
        return str(error)


def _texts(exercise: Exercise, texts: dict[str, str]) -> dict[str, Any]:
    if missing := [name for name in exercise.names if not texts.get(name)]:
        raise Wrong(f"there is no function {missing[0]} whose text can be read")
    return dict(texts)


def _one(exercise: Exercise, trial: Trial, box: Box, found: dict[str, JITFunction], name: str) -> Any:
    if name in found:
        return found[name]
    if name in box.values:
        return box.values[name]
    if name not in box.names:
        raise Wrong(f"the cell defines no {name}")
    return watched(trial, name, lambda args, kwargs: box.call(name, args, kwargs))


def sources(exercise: Exercise, text: str) -> dict[str, str]:
    """The text of each function that a cell defines, the last of each name."""
    nodes = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name in exercise.names]
    lines = text.split("\n")
    first = {n.name: min([n.lineno, *(d.lineno for d in n.decorator_list)]) - 1 for n in nodes}
    return {n.name: "\n".join(lines[first[n.name] : n.end_lineno]) for n in nodes}


def judge_objects(exercise: Exercise, objects: tuple, seed: int) -> str:
    """The verdict on live objects of a notebook: a learning aid, which trusts them."""
    names = exercise.names
    if len(objects) != len(names):
        return f'check("{exercise.number}", {", ".join(names)}) takes {len(names)} of them, not {len(objects)}'
    given = dict(zip(names, objects, strict=True))
    texts = {name: _source(x) for name, x in given.items()}
    empty = sources(exercise, exercise.skeleton)
    if empty and all(texts.get(name) and parsed(texts[name]) == parsed(empty[name]) for name in empty):
        return not_started(exercise)
    if exercise.check.room:
        return judge(exercise, lambda trial: _texts(exercise, texts), seed)

    def bind(trial: Trial) -> dict[str, Any]:
        return {name: _live(trial, name, x) for name, x in given.items()}

    return judge(exercise, bind, seed)


def _source(x: Any) -> str:
    """The text of a function or a kernel; nothing for other objects."""
    try:
        return textwrap.dedent(inspect.getsource(getattr(x, "fn", x)))
    except (OSError, TypeError):
        return ""


def _live(trial: Trial, name: str, x: Any) -> Any:
    if callable(x) and not isinstance(x, JITFunction):
        return watched(trial, name, lambda args, kwargs: x(*args, **kwargs))
    return x


def main() -> None:
    """A job on stdin, the verdict on stdout: JSON. What kernels print goes to stderr."""
    if tt.backends.current().name != "cuda":  # whose driver maps more than it uses
        sandbox.limit(DATA=HEAP, CORE=0)
    channel = os.dup(1)
    os.dup2(2, 1)
    job = json.load(sys.stdin)
    reason = judge_text(find(job["number"]), job["text"], job["seed"])
    with os.fdopen(channel, "w", encoding="utf-8") as out:
        json.dump({"reason": reason}, out)


if __name__ == "__main__":
    main()
