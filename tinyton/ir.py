"""The tile IR: typed values in single assignment, ops in blocks, loops and branches as ops that hold blocks.

    kernel add(x_ptr: *f32, n: i32)
      pid: i32 = program_id axis=0                    # a scalar is the same for all threads of a program
      offs: i32[1024] = arange start=0                # a tile
      ...

A pass takes a Kernel and returns a new one; `verify` runs after each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

from .dtypes import DType
from .errors import KernelValueError, Loc

MAX_ELEMENTS = 1 << 20  # of a tile: what is bigger overflows registers and stacks, or takes minutes to compile


LOOPS = {"for": 3, "while": 0}  # loops, and how many of their operands they do not carry


class Type(NamedTuple):
    """A scalar (shape ``()``) or a tile of elements, or of pointers to elements."""

    dtype: DType
    shape: tuple[int, ...] = ()
    pointer: bool = False
    shared: bool = False  # a pointer to the memory of a program, not to an array

    def __str__(self) -> str:
        return ("*" if self.pointer else "") + self.dtype.short + (str(list(self.shape)) if self.shape else "")

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return Type(self.dtype, shape, self.pointer, self.shared)


@dataclass(frozen=True, eq=False)
class Value:
    """One result of one op, or a parameter. ``name`` is the user's variable, or empty. Equal only to itself."""

    type: Type
    name: str = ""


@dataclass(frozen=True, eq=False)
class Block:
    """Ops in order, run with ``params`` bound, giving ``yields``."""

    params: tuple[Value, ...] = ()
    ops: tuple[Op, ...] = ()
    yields: tuple[Value, ...] = ()


@dataclass(frozen=True, eq=False)
class Op:
    """An operation: the name of its entry in `ops/`, its operands, its compile-time attributes, its nested blocks."""

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attrs: dict[str, object] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    loc: Loc | None = None

    @property
    def result(self) -> Value:
        return self.results[0]

    @property
    def head(self) -> tuple[Value, ...]:
        """The operands that are not carried round a loop: the bounds of a `for`."""
        return self.operands[: LOOPS.get(self.name, len(self.operands))]

    @property
    def carried(self) -> tuple[tuple[Value, Value, Value, Value], ...]:
        """What goes round a loop: (first value, parameter of the body, value after a round, result)."""
        if self.name not in LOOPS:
            return ()
        (body,) = self.blocks
        params = body.params[len(body.params) - len(body.yields) :]
        return tuple(zip(self.operands[len(self.head) :], params, body.yields, self.results, strict=True))


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: its name, its run-time parameters (constexpr ones are gone), and its body."""

    name: str
    params: tuple[Value, ...]
    body: Block

    def __str__(self) -> str:
        return "\n".join(_print(self))

    @property
    def shared_bytes(self) -> int:
        """How large the buffer is that the threads of a program share, in the greatest size that an access asks for."""
        ops = (op for op in self.ops() if op.name == "shared")
        return max((op.attrs["size"] * op.result.type.dtype.itemsize for op in ops), default=0)  # type: ignore[operator]

    def ops(self) -> tuple[Op, ...]:
        """Every op, in program order, those of nested blocks after the op that holds them."""
        return self._ops

    @cached_property
    def _ops(self) -> tuple[Op, ...]:
        return tuple(walk(self.body))


def walk(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for inner in op.blocks:
            yield from walk(inner)


class Builder:
    """Where the front end and the passes append ops; ``loc`` is the place in the source that new ops come from."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.loc: Loc | None = None
        self.shared: tuple[DType, Loc | None] | None = None  # what is in the shared buffer, and the line that says so
        self.notes: list[str] = []  # what the kernel prints while it is compiled
        self.call: Callable = lambda fn, *args: fn(*args)  # how a rule calls a function that is under @jit
        self.weak: set[Value] = set()  # float arguments: they take their partner's type, as Python numbers do
        self.hidden: dict[str, Value] = {}  # parameters that the kernel takes beside the user's
        self.asserts = True

    def add(self, name: str, operands: tuple[Value, ...], result: Type | None, **attrs: object) -> Value:
        """Appends an op with one result (or none) and returns the result."""
        if result is not None and prod(result.shape) > MAX_ELEMENTS:
            what = f"a tile of shape {list(result.shape)} has {prod(result.shape)} elements; at most {MAX_ELEMENTS} fit"
            raise KernelValueError(f"{what}. Let more programs, or a loop, go over smaller tiles")
        results = () if result is None else (Value(result),)
        self.ops.append(Op(name, operands, results, attrs, (), self.loc))
        return results[0] if results else Value(Type(DType("void", "b", 0)))


Visit = Callable[[Op, dict[Value, Value], Builder], bool]


def rewrite(kernel: Kernel, visit: Visit, known: Iterable[tuple[Value, Value]] = ()) -> Kernel:
    """Copies a kernel op by op. ``visit(op, renamed, builder)`` sees each op with its operands already renamed; it
    returns True once it has appended what replaces the op and has mapped the old results in ``renamed``. Pairs of old
    and new values that are ``known`` are renamed from the start."""
    renamed = dict(known)

    def block_of(old: Block) -> Block:
        builder = Builder()
        for op in old.ops:
            new = op
            if op.blocks or not renamed.keys().isdisjoint(op.operands):
                operands = tuple(renamed.get(v, v) for v in op.operands)
                new = Op(op.name, operands, op.results, op.attrs, tuple(block_of(b) for b in op.blocks), op.loc)
            builder.loc = op.loc
            if not visit(new, renamed, builder):
                builder.ops.append(new)
        return Block(old.params, tuple(builder.ops), tuple(renamed.get(v, v) for v in old.yields))

    return replace(kernel, body=block_of(kernel.body))


def uses(kernel: Kernel) -> dict[Value, int]:
    """How often each value is used, as an operand or as a block's yield."""
    used: list[Value] = []
    for op in kernel.ops():
        used += op.operands
        for block in op.blocks:
            used += block.yields
    return Counter(used)


def origins(
    kernel: Kernel, values: Iterable[Value], pointers: bool = False, through: Callable[[Op], bool] = lambda op: True
) -> set[Value]:
    """The values, and all that they are made of, or the ``pointers`` of that; by these ops, branches and what goes
    round loops."""
    made_of: dict[Value, tuple[Value, ...]] = {}
    for op in kernel.ops():
        made_of |= {v: op.operands for v in op.results if through(op)}
        if op.name == "for" and through(op):  # where it ends does not show in its counter
            made_of[op.blocks[0].params[0]] = op.head[::2]
        for start, param, end, result in op.carried:
            made_of[param] = made_of[result] = (param, start, end)
        if op.name == "if":
            made_of |= {v: tuple(b.yields[k] for b in op.blocks) for k, v in enumerate(op.results)}
    found, queue = set(), list(values)
    while queue:
        v = queue.pop()
        if v not in found:
            found.add(v)
            queue += (x for x in made_of.get(v, ()) if x.type.pointer or not pointers)
    return found


def _print(kernel: Kernel) -> Iterator[str]:
    names: dict[Value, str] = {}
    taken: set[str] = set()

    def name(v: Value) -> str:
        if v not in names:
            base = v.name or "t"
            k = 0 if v.name else 1
            while (text := f"{base}_{k}" if k else base) in taken:
                k += 1
            taken.add(text)
            names[v] = text
        return names[v]

    def typed(v: Value) -> str:
        return f"{name(v)}: {v.type}"

    def block(b: Block, depth: int) -> Iterator[str]:
        pad = "  " * depth
        for op in b.ops:
            left = ", ".join(typed(v) for v in op.results)
            words = [op.name, *(name(v) for v in op.operands), *(f"{k}={v}" for k, v in op.attrs.items())]
            yield f"{pad}{left + ' = ' if left else ''}{' '.join(words)}"
            for k, inner in enumerate(op.blocks):
                yield f"{pad}{'else ' if k else 'do '}({', '.join(typed(v) for v in inner.params)})"
                yield from block(inner, depth + 1)
                if inner.yields:
                    yield f"{pad}  yield {', '.join(name(v) for v in inner.yields)}"

    yield f"kernel {kernel.name}({', '.join(typed(v) for v in kernel.params)})"
    yield from block(kernel.body, 1)


class VerifyError(AssertionError):
    """A pass broke the IR: a fault of the compiler, never of the user."""


def verify(kernel: Kernel, known: Callable[[Op], str | None]) -> Kernel:
    """Checks that values are defined once and before use, that blocks yield what their op gives, and that ``known``
    (which says what is wrong with one op, or None) accepts every op. Returns the kernel."""
    defined: set[Value] = set()

    def define(values: tuple[Value, ...], where: str) -> None:
        for v in values:
            if v in defined:
                raise VerifyError(f"{where}: {v.name or v.type} is defined twice")
            defined.add(v)

    def need(values: tuple[Value, ...], where: str) -> None:
        if not defined.issuperset(values):
            v = next(v for v in values if v not in defined)
            raise VerifyError(f"{where}: {v.name or v.type} is used before it is defined")

    def block(b: Block, where: str) -> None:
        inside = set(defined)
        define(b.params, where)
        for op in b.ops:
            need(op.operands, op.name)
            if wrong := known(op):
                raise VerifyError(f"{op.name}: {wrong}\n{kernel}")
            for inner in op.blocks:
                block(inner, op.name)
                gives = [v.type.with_shape(()) if op.name == "scan" else v.type for v in op.results]
                if [v.type for v in inner.yields] != gives:
                    raise VerifyError(f"{op.name}: yields {inner.yields}, gives {op.results}")
            define(op.results, op.name)
        need(b.yields, where)
        defined.intersection_update(inside)

    define(kernel.params, kernel.name)
    block(kernel.body, kernel.name)
    return kernel
