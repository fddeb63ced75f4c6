"""The source of a kernel, captured when it is decorated: its syntax tree, its parameters, and what it reads from
outside."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType

from ..errors import KernelSyntaxError, KernelTypeError, Loc
from ..language import constexpr

# >>> stage 6
from ..spelling import ConstantAnnotation, Spelling

# <<<
LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]


@dataclass(frozen=True, eq=False)
class Source:
    """A captured kernel. ``outside`` lists the dotted names that it reads from its module or its closure."""

    name: str
    function: Callable
    tree: ast.FunctionDef
    lines: list[str]
    first_line: int
    params: tuple[inspect.Parameter, ...]
    constexprs: frozenset[str]
    outside: tuple[str, ...]
    local: frozenset[str] = frozenset()  # the names that are its own
    asserts: bool = True  # device_assert is compiled
    calls: dict[Source, None] = field(default_factory=dict)  # the functions that were traced in it so far
    # >>> stage 6
    spelling: Spelling | None = None  # None: pointers, with the names of tt
    # <<<

    def loc(self, node: ast.AST, caller: Loc | None = None) -> Loc:
        """Where ``node`` is, for messages: columns count characters, a span ends with its first line."""
        row = node.lineno - 1  # type: ignore[attr-defined]
        text = self.lines[row]
        column, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        if not text.isascii():
            column, end = (len(text.encode()[:byte].decode(errors="ignore")) for byte in (column, end))
        if node.end_lineno != node.lineno:  # type: ignore[attr-defined]
            end = len(text.rstrip())
        return Loc(self.name, self.first_line + row, column, end, text, caller)

    def place(self, path: str) -> Loc | None:
        """Where a name from outside is first read."""
        read = (node for node in ast.walk(self.tree) if isinstance(node, ast.expr) and ast.unparse(node) == path)
        return next(map(self.loc, read), None)

    @cached_property
    def watched(self) -> list[str]:
        """The names outside whose values belong to the key of a kernel: all but those of the language itself."""
        scope, package = self.scope(), __name__.split(".")[0]
        roots = {path: getattr(scope.get(path.split(".")[0]), "__name__", "") for path in self.outside}
        return [path for path, root in roots.items() if str(root).split(".")[0] != package]

    def scope(self) -> dict[str, object]:
        """What the kernel's outside names are bound to now: module globals under closure variables."""
        names = dict(self.function.__globals__)
        closed = zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True)
        for name, cell in closed:
            try:
                names[name] = cell.cell_contents
            except ValueError:
                names.pop(name, None)
        return names


def bound(label: str, takes: inspect.Signature, args: Sequence, kwargs: dict) -> inspect.BoundArguments:
    """The arguments of a call by name, or what is wrong with them. ``label`` is .name for a method."""
    try:
        return takes.bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join([*takes.parameters][label.startswith(".") :])
        raise KernelTypeError(f"{label}: {error}; it takes ({names})".replace("argument: ", "argument ")) from None


def capture(function: Callable) -> Source:
    """Reads the source of ``function``; KernelSyntaxError says why one cannot be a kernel."""
    if not inspect.isfunction(function):
        kind = "a bound method" if inspect.ismethod(function) else type(function).__name__
        kind = "a class" if inspect.isclass(function) else kind
        raise KernelSyntaxError(f"@tt.jit goes on a function defined with def, not on {kind}")
    if function.__name__ == "<lambda>":
        raise KernelSyntaxError("a lambda cannot be a kernel: define it with def, under @tt.jit")
    if hasattr(function, "__wrapped__"):
        what = f"{function.__name__} is already wrapped by another decorator, which a kernel would lose"
        raise KernelSyntaxError(f"{what}: put @tt.jit nearest to def")
    if "." in function.__qualname__.rpartition("<locals>.")[2]:
        what = f"{function.__qualname__} is a method"
        raise KernelSyntaxError(f"{what}: a kernel is a function of its own, outside of classes")
    source = read(function)
    for star, extra in (("*", source.tree.args.vararg), ("**", source.tree.args.kwarg)):
        if extra:
            what = f"a kernel names all its parameters; {star}{extra.arg} is not one"
            raise KernelSyntaxError(what, source.loc(extra))
    return source


def read(function: Callable) -> Source:
    """The source of a function, which is a kernel, or one that a kernel calls."""
    name = function.__name__
    try:
        # >>> stage 6
        if name == "<lambda>":
            tree, text, first = _lambda(function.__code__)
        else:
            tree, text, first = _definition(function)
        # === before
        # tree, text, first = _definition(function)
        # <<<
    except (OSError, TypeError, SyntaxError, IndexError, StopIteration):
        what = f"the source of {name} cannot be found: a kernel is read from its text"
        raise KernelSyntaxError(f"{what}, so it lives in a file or notebook cell, not in exec() or python -c") from None
    if isinstance(tree, ast.AsyncFunctionDef):
        raise KernelSyntaxError(f"{name} is an async function; a kernel is a plain def")
    if not isinstance(tree, ast.FunctionDef) or tree.name != name:
        raise KernelSyntaxError(f"the source of {name} is not a def statement of that name; put @tt.jit nearest to def")
    source = Source(name, function, tree, text.split("\n"), max(first, 1), (), frozenset(), ())
    code, known = function.__code__, source.scope()
    given = inspect.signature(function).parameters.values()
    params = tuple(p.replace(annotation=_evaluated(p.annotation, known)) for p in given)
    marked = frozenset(p.name for p in params if _is_constexpr(p.annotation))
    globals_ = {*code.co_freevars, *_globals(code)}
    local = frozenset({*code.co_varnames, *code.co_cellvars} - globals_)
    roots = {name for name in globals_ if name in known or not hasattr(builtins, name)}
    outside = tuple(sorted({path for path in _paths(tree) if path.split(".")[0] in roots}))
    return replace(source, params=params, constexprs=marked, outside=outside, local=local)


def _definition(function: Callable) -> tuple[ast.AST, str, int]:
    """The statement that defines a function, its text, and the number of its first line. It ends before a line that
    stands as far left, the first before which it can be parsed: inside of brackets and strings, it cannot."""
    lines, first = inspect.findsource(inspect.unwrap(function))
    margin = _margin(lines[first])
    for end in range(first + 1, len(lines) + 1):
        if end < len(lines) and (_margin(lines[end]) > margin or lines[end].lstrip()[:1] in ("", "#")):
            continue
        while not lines[end - 1].strip() or lines[end - 1].lstrip()[0] == "#" and _margin(lines[end - 1]) <= margin:
            end -= 1
        text = "".join(lines[first:end])
        with suppress(SyntaxError):
            if not margin:
                return ast.parse(text).body[0], text, first + 1
            # a docstring or a comment may stand further left, so the margin is not cut off
            tree = ast.parse("if 1:\n" + text).body[0].body[0]  # type: ignore[attr-defined]
            return ast.increment_lineno(tree, -1), text, first + 1
    raise OSError


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


# >>> stage 6
def _lambda(code: CodeType) -> tuple[ast.AST, str, int]:
    """The same of a lambda: of those in its line, the one that reads and holds the same where its code says so."""
    lines, _ = inspect.findsource(code)
    places = {(line, column) for line, _, column, _ in code.co_positions() if line and column}

    def parts(of: CodeType) -> tuple:
        held = [type(c) if isinstance(c, CodeType) else c for c in of.co_consts]
        return of.co_varnames[: of.co_argcount], held, {*of.co_names, *of.co_freevars}

    def fits(x: ast.AST) -> bool:
        if not isinstance(x, ast.Lambda) or x.lineno != code.co_firstlineno:
            return False
        (own,) = (c for c in compile(ast.Expression(x), "", "eval").co_consts if isinstance(c, CodeType))
        inside = all((x.lineno, x.col_offset) <= at < (x.end_lineno, x.end_col_offset) for at in places)
        return inside and parts(own) == parts(code)

    node = next(x for x in ast.walk(ast.parse("".join(lines))) if fits(x))
    return as_function(node), "".join(lines), 1  # type: ignore[arg-type]


def as_function(node: ast.Lambda) -> ast.FunctionDef:
    """A lambda as the definition that it is short for."""
    body = [ast.copy_location(ast.Return(node.body), node.body)]
    return ast.copy_location(ast.FunctionDef("<lambda>", node.args, body, [], None), node)  # type: ignore[arg-type, return-value]


# <<<
def _evaluated(annotation: object, scope: dict[str, object]) -> object:
    """What an annotation stands for; from __future__ import annotations makes a text of it."""
    try:
        return eval(annotation, scope) if isinstance(annotation, str) else annotation  # noqa: S307  (the user's own)
    except Exception:
        return annotation


def _is_constexpr(annotation: object) -> bool:
    # >>> stage 6
    if any(isinstance(mark, ConstantAnnotation) for mark in getattr(annotation, "__metadata__", ())):
        return True
    # <<<
    return annotation is constexpr or isinstance(annotation, str) and annotation.split(".")[-1].strip() == "constexpr"


def _globals(code: CodeType) -> Iterator[str]:
    """The names that code, and the functions in it, look up in their module."""
    high = 0
    for kind, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):  # `dis` takes ten times as long
        number = high | low
        high = number << 8 if kind == dis.EXTENDED_ARG else 0
        if kind == LOAD_GLOBAL:
            yield code.co_names[number >> 1]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


def _paths(tree: ast.FunctionDef) -> Iterator[str]:
    """The dotted names (``SCALE``, ``config.size``) that a function reads."""
    queue: list[ast.AST] = [*tree.body]
    for node in queue:
        path = []
        while isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            yield ".".join([node.id, *reversed(path)])
        else:
            queue += ast.iter_child_nodes(node)
