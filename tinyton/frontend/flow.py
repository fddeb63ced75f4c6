"""Early exits, rewritten before a body is traced, so that control only ever falls through.

An ``if`` of which one side always leaves gets what follows as its other side:

    if n == 0:              if n == 0:
        return                  return
    store(...)              else:
                                store(...)

Any other exit sets a flag; what follows is guarded by it, and a loop stops on it. A flag that no path at run time can
set stays a Python constant, and so costs nothing."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import copy

EXITS = (ast.Break, ast.Continue, ast.Return)
RETURN = "?exit return"


class Unset:
    """What nobody reads: the value of a name on a path that has left."""

    def __repr__(self) -> str:
        return "nothing"


UNSET = Unset()


class Clear(ast.AST):
    """The condition that none of ``flags`` is set."""

    def __init__(self, flags: tuple[str, ...]):
        super().__init__()
        self.flags = flags


def rewrite(tree: ast.FunctionDef) -> list[ast.stmt]:
    """The body of a function without early exits: `Return`, `Break` and `Continue`, which have a ``flag`` now, end
    their blocks. Loops say which flags they own (``leaves``, ``skips``) and which end them (``stops``)."""
    body = list(tree.body)
    exits = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Return))
    if ast.Return in _leaves(body) and any(n.value for n in exits) and not _ends(body):
        body.append(ast.copy_location(ast.Return(None), body[-1]))
    return _block(body, 0)


def assigned(body: Sequence[ast.stmt]) -> list[str]:
    """The names that a rewritten body binds, flags and the value returned among them."""
    found: dict[str, None] = {}
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        elif hasattr(node, "flag"):  # an exit; those in a statement that will be refused have none
            found[node.flag] = None
            if isinstance(node, ast.Return):
                found["?value"] = None
    return list(found)


def _leaves(body: Sequence[ast.stmt]) -> set[type]:
    """The kinds of exits that a block holds, without those of the loops in it."""
    found: set[type] = set()
    for s in body:
        if isinstance(s, EXITS):
            found.add(type(s))
        elif isinstance(s, ast.If):
            found |= _leaves(s.body) | _leaves(s.orelse)
        elif isinstance(s, (ast.For, ast.While)):
            found |= _leaves(s.body) & {ast.Return}
        # >>> stage 6
        elif isinstance(s, ast.With):
            found |= _leaves(s.body)
        # <<<
    return found


def _ends(body: Sequence[ast.stmt]) -> bool:
    """True if control never reaches the end of a block."""
    return any(
        isinstance(s, EXITS) or _endless(s) or (isinstance(s, ast.If) and _ends(s.body) and _ends(s.orelse))
        for s in body
    )


def _endless(s: ast.stmt) -> bool:
    """True for ``while True`` without a break."""
    always = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and bool(s.test.value)
    return always and ast.Break not in _leaves(s.body)  # type: ignore[attr-defined]


def _flag(kind: type, depth: int) -> str:
    return RETURN if kind is ast.Return else f"?exit {kind.__name__.lower()} {depth}"


def _block(body: Sequence[ast.stmt], depth: int) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for k, old in enumerate(body):
        s, kinds = copy(old), _leaves([old])
        out.append(s)
        if isinstance(s, EXITS):
            s.flag = _flag(type(s), depth)  # type: ignore[union-attr]
            break
        if isinstance(s, (ast.For, ast.While)):
            inner = _leaves(s.body)
            s.leaves, s.skips = (  # type: ignore[union-attr]
                (_flag(kind, depth + 1),) if kind in inner else () for kind in (ast.Break, ast.Continue)
            )
            s.stops = s.leaves + ((RETURN,) if ast.Return in inner else ())  # type: ignore[union-attr]
            s.body = _block(s.body, depth + 1)
        elif isinstance(s, ast.If):
            first, second = _ends(s.body), _ends(s.orelse)
            rest = body[k + 1 :] if first or second else ()
            s.body = _block([*s.body, *(rest if second and not first else ())], depth)
            s.orelse = _block([*s.orelse, *(rest if first else ())], depth)
            if first or second:
                break
        # >>> stage 6
        elif isinstance(s, ast.With):
            s.body = _block(s.body, depth)
        # <<<
        if kinds and k + 1 < len(body):
            flags, rest = tuple(_flag(kind, depth) for kind in EXITS if kind in kinds), body[k + 1 :]
            out.append(ast.copy_location(ast.If(Clear(flags), _block(rest, depth), []), old))  # type: ignore[arg-type]
            break
    return out
