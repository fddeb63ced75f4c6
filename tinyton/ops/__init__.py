"""The operations of the language, one entry each: its typing rule, what it means in NumPy, and the C that it becomes.

An entry is a function under `@op(...)`: the function is the typing rule (it checks its arguments and appends to the
builder), ``numpy=`` is the meaning, ``emit=`` the code. Every module of this folder is read when the package is
imported."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from ..ir import Op, Value


class Entry(NamedTuple):
    """One op. ``kind`` says how the code generator treats it: "elementwise" (``emit`` gives an expression per
    element), "typed" (elementwise, but NumPy's side needs the op too), "index" (elementwise, made from coordinates
    alone), "view" (the same elements looked at as another shape), "statement" (``emit`` writes statements) or "macro"
    (made of other ops)."""

    name: str
    rule: Callable
    numpy: Callable | None = None
    emit: Callable | None = None
    kind: str = "elementwise"
    public: bool | str = True  # the name in the language, if it is another one
    exact: bool = False  # the result needs no rounding to a 16-bit float, no wrapping to a narrow integer
    cheap: bool = False  # may be computed again wherever it is needed
    effect: bool = False  # must run even if nobody uses a result
    reads: bool = False  # memory, at the addresses that are its first operand
    writes: bool = False
    mask: int | None = None  # which operand, if it is there, says for which addresses
    apart: tuple[int, ...] = ()  # operands that go through shared memory: tiles with layouts of their own
    placed: bool = False  # its result is a tile in shared memory, not in registers
    aside: bool = False  # an effect for which products on their way need not be waited for
    joins: bool = False  # a statement whose ``emit`` looks after the loop that is open, which it may join
    fits: Callable | None = None  # of op and layout: whether it can work in that; in a blocked one, all can
    home: Callable | None = None  # of op and threads: the layout in which it has its result, or None
    host: Callable | None = None  # what it gives outside kernels, and on constants

    @property
    def memory(self) -> bool:
        return self.reads or self.writes

    @property
    def moves(self) -> bool:
        """True for a load and a store, which may take several neighbours at once."""
        return self.reads != self.writes

    @property
    def signature(self) -> inspect.Signature:
        """What the user writes: the rule's parameters without the builder."""
        signature = inspect.signature(self.rule)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


OPS: dict[str, Entry] = {}
PUBLIC: dict[str, Entry] = {}


def mask_of(op: Op) -> Value | None:
    """The operand that says where an access is on, if it has one."""
    position = OPS[op.name].mask
    return op.operands[position] if position is not None and len(op.operands) > position else None


def op(name: str = "", doc: str | tuple = (), **options: object) -> Callable[[Callable], Callable]:
    """Registers a typing rule as an op. The op's name is the function's, without a trailing underscore; a rule that is
    made by a function, for one of several ops that are alike, is told its ``name`` and docstring here, or what fills
    the places in the docstring that it has."""

    def register(rule: Callable) -> Callable:
        if name:
            rule.__name__, rule.__doc__ = name, doc if isinstance(doc, str) else (rule.__doc__ or "").format(*doc)
        word = rule.__name__.rstrip("_")
        if word in OPS:
            raise ValueError(f"there is an op {word} already, in {OPS[word].rule.__module__}")
        entry = OPS[word] = Entry(word, rule, **options)  # type: ignore[arg-type]
        if entry.public:
            PUBLIC[entry.public if isinstance(entry.public, str) else word] = entry
        return rule

    return register


for _module in sorted(m.name for m in iter_modules(__path__)):
    import_module(f".{_module}", __name__)
