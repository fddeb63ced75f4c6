"""The source of a kernel, captured when it is decorated: its syntax tree, its parameters, and what it reads from
outside."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..errors import KernelSyntaxError, KernelTypeError, Loc
from ..language import constexpr

# >>> stage 6
from ..spelling import ConstantAnnotation, Spelling

# <<<


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
    asserts: bool = True  # device_assert is compiled
    # >>> stage 6
    spelling: Spelling | None = None  # None: pointers, with the names of tt
    # <<<

    def loc(self, node: ast.AST) -> Loc:
        """Where ``node`` is, for messages: columns count characters, a span ends with its first line."""
        row = node.lineno - 1  # type: ignore[attr-defined]
        text = self.lines[row]
        column, end = _column(text, node.col_offset), len(text.rstrip())  # type: ignore[attr-defined]
        if node.end_lineno == node.lineno:  # type: ignore[attr-defined]
            end = _column(text, node.end_col_offset)  # type: ignore[attr-defined]
        return Loc(self.name, self.first_line + row, column, end, text)

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


def bound(label: str, params: Sequence[inspect.Parameter], args: Sequence, kwargs: dict) -> inspect.BoundArguments:
    """The arguments of a call by name, or what is wrong with them. ``label`` is .name for a method."""
    try:
        return inspect.Signature(params).bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join(p.name for p in params[label.startswith(".") :])
        raise KernelTypeError(f"{label}: {error}; it takes ({names})".replace("argument: ", "argument ")) from None


def _column(text: str, byte: int) -> int:
    return len(text.encode()[:byte].decode(errors="ignore"))


def capture(function: Callable) -> Source:
    """Reads the source of ``function``; KernelSyntaxError says why one cannot be a kernel."""
    if not inspect.isfunction(function):
        kind = "a bound method" if inspect.ismethod(function) else type(function).__name__
        kind = "a class" if inspect.isclass(function) else kind
        raise KernelSyntaxError(f"@tt.jit goes on a function defined with def, not on {kind}")
    name = function.__name__
    if name == "<lambda>":
        raise KernelSyntaxError("a lambda cannot be a kernel: define it with def, under @tt.jit")
    if hasattr(function, "__wrapped__"):
        raise KernelSyntaxError(
            f"{name} is already wrapped by another decorator, which a kernel would lose: put @tt.jit nearest to def"
        )
    if "." in function.__qualname__.rpartition("<locals>.")[2]:
        raise KernelSyntaxError(
            f"{function.__qualname__} is a method: a kernel is a function of its own, outside of classes"
        )
    try:
        lines, first = inspect.getsourcelines(function)
        text = "".join(lines)
        if text[0].isspace():  # a docstring or a comment may stand further left, so the margin is not cut off
            tree = ast.increment_lineno(ast.parse("if 1:\n" + text).body[0].body[0], -1)  # type: ignore[attr-defined]
        else:
            tree = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise KernelSyntaxError(
            f"the source of {name} cannot be found: a kernel is read from its text, so it lives in a file or notebook "
            f"cell, not in exec() or python -c"
        ) from None
    if isinstance(tree, ast.AsyncFunctionDef):
        raise KernelSyntaxError(f"{name} is an async function; a kernel is a plain def")
    if not isinstance(tree, ast.FunctionDef) or tree.name != name:
        raise KernelSyntaxError(f"the source of {name} is not a def statement of that name; put @tt.jit nearest to def")
    params = tuple(inspect.signature(function).parameters.values())
    source = Source(name, function, tree, text.split("\n"), max(first, 1), params, frozenset(), ())
    for star, extra in (("*", tree.args.vararg), ("**", tree.args.kwarg)):
        if extra:
            raise KernelSyntaxError(
                f"a kernel names all its parameters; {star}{extra.arg} is not one", source.loc(extra)
            )
    marked = frozenset(p.name for p in params if _is_constexpr(p.annotation, source))
    return replace(source, constexprs=marked, outside=tuple(sorted(_outside(source))))


def _is_constexpr(annotation: object, source: Source) -> bool:
    if isinstance(annotation, str):  # from __future__ import annotations
        try:
            annotation = eval(annotation, source.scope())  # noqa: S307  (the user's own annotation)
        except Exception:
            return annotation.split(".")[-1].strip() == "constexpr"  # type: ignore[union-attr]
    # >>> stage 6
    if any(isinstance(mark, ConstantAnnotation) for mark in getattr(annotation, "__metadata__", ())):
        return True
    # <<<
    return annotation is constexpr


def _outside(source: Source) -> set[str]:
    """Dotted names (``SCALE``, ``config.size``) whose root is neither a parameter nor assigned in the kernel."""
    body = [node for statement in source.tree.body for node in ast.walk(statement)]
    local = {p.name for p in source.params}
    local |= {n.id for n in body if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inner = {n.value for n in body if isinstance(n, ast.Attribute)}
    found = set()
    for node in body:
        if isinstance(node, (ast.Name, ast.Attribute)) and node not in inner:
            path, at = [], node
            while isinstance(at, ast.Attribute):
                path.append(at.attr)
                at = at.value  # type: ignore[assignment]
            if isinstance(at, ast.Name) and at.id not in local:
                found.add(".".join([at.id, *reversed(path)]))
    known = source.scope()
    return {name for name in found if name.split(".")[0] in known or not hasattr(builtins, name.split(".")[0])}
