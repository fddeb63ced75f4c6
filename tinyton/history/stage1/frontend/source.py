"""The source of a kernel, captured when it is decorated: its syntax tree and its parameters."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import KernelSyntaxError, Loc


@dataclass(frozen=True, eq=False)
class Source:
    """A captured kernel."""

    name: str
    function: Callable
    tree: ast.FunctionDef
    lines: list[str]
    first_line: int
    params: tuple[str, ...]

    def loc(self, node: ast.AST) -> Loc:
        """Where ``node`` is, for messages; a span ends with its first line."""
        row = node.lineno - 1  # type: ignore[attr-defined]
        text = self.lines[row]
        end = node.end_col_offset if node.end_lineno == node.lineno else len(text)  # type: ignore[attr-defined]
        return Loc(self.name, self.first_line + row, node.col_offset, end, text)  # type: ignore[attr-defined]

    def scope(self) -> dict[str, object]:
        """What the kernel's outside names are bound to now: module globals under closure variables."""
        closed = zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True)
        return self.function.__globals__ | {name: cell.cell_contents for name, cell in closed}


def capture(function: Callable) -> Source:
    """Reads the source of ``function``; KernelSyntaxError says why one cannot be a kernel."""
    if not inspect.isfunction(function):
        raise KernelSyntaxError(f"@tt.jit goes on a function defined with def, not on a {type(function).__name__}")
    name = function.__name__
    if name == "<lambda>":
        raise KernelSyntaxError("a lambda cannot be a kernel: define it with def, under @tt.jit")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise KernelSyntaxError(
            f"the source of {name} cannot be found: define it in a file or a notebook cell"
        ) from None
    text = textwrap.dedent("".join(lines))
    params = tuple(inspect.signature(function).parameters)
    return Source(name, function, ast.parse(text).body[0], text.split("\n"), first, params)  # type: ignore[arg-type]
