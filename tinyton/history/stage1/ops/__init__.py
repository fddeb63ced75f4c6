"""The operations of the language, one entry each: its typing rule, and the C that it becomes.

An entry is a function under `@op(...)`: the function is the typing rule (it checks its arguments and appends to the
builder), ``emit=`` the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules


@dataclass(frozen=True)
class Entry:
    """One op. ``kind`` says what ``emit`` gives: C for one "element", made of what its operands are, an "access" to
    memory for one, a "view" of the same element, or a "statement"."""

    name: str
    rule: Callable
    emit: Callable
    kind: str = "element"
    public: bool = True


OPS: dict[str, Entry] = {}
PUBLIC: dict[str, Entry] = {}


def op(**options: object) -> Callable[[Callable], Callable]:
    """Registers a typing rule as an op. The op's name is the function's, without a trailing underscore."""

    def register(rule: Callable) -> Callable:
        name = rule.__name__.rstrip("_")
        entry = OPS[name] = Entry(name, rule, **options)  # type: ignore[arg-type]
        if entry.public:
            PUBLIC[name] = entry
        return rule

    return register


for _module in sorted(m.name for m in iter_modules(__path__)):
    import_module(f".{_module}", __name__)
