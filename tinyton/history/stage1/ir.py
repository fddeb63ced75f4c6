"""The tile IR: typed values, each made once, by ops in a row.

kernel add(x_ptr: *f32, n: i32)
  pid: i32 = program_id axis=0                    # a scalar is the same for all threads of a program
  offs: i32[64] = arange start=0                  # a tile: an element a thread
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .dtypes import DType
from .errors import Loc


@dataclass(frozen=True)
class Type:
    """A scalar (shape ``()``) or a tile of elements, or of pointers to elements."""

    dtype: DType
    shape: tuple[int, ...] = ()
    pointer: bool = False

    def __str__(self) -> str:
        return ("*" if self.pointer else "") + self.dtype.short + (str(list(self.shape)) if self.shape else "")

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return replace(self, shape=shape)


@dataclass(frozen=True, eq=False)
class Value:
    """One result of one op, or a parameter. ``name`` is the user's variable, or empty. Equal only to itself."""

    type: Type
    name: str = ""


@dataclass(frozen=True, eq=False)
class Op:
    """An operation: the name of its entry in `ops/`, its operands, its results, its compile-time attributes."""

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attrs: dict[str, object] = field(default_factory=dict)
    loc: Loc | None = None

    @property
    def result(self) -> Value:
        return self.results[0]


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: its name, its parameters, and its ops in order."""

    name: str
    params: tuple[Value, ...]
    ops: tuple[Op, ...]

    def __str__(self) -> str:
        return "\n".join(_print(self))


class Builder:
    """Where the front end appends ops; ``loc`` is the place in the source that new ops come from."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.loc: Loc | None = None
        self.weak: set[Value] = set()  # float arguments: they take their partner's type, as Python numbers do

    def add(self, name: str, operands: tuple[Value, ...], result: Type | None, **attrs: object) -> Value | None:
        """Appends an op with one result (or none) and returns the result."""
        results = () if result is None else (Value(result),)
        self.ops.append(Op(name, operands, results, attrs, self.loc))
        return results[0] if results else None


def _print(kernel: Kernel) -> Iterator[str]:
    names: dict[Value, str] = {}

    def name(v: Value) -> str:
        if v not in names:
            k = sum(1 for other in names if other.name == v.name)
            names[v] = f"{v.name or 't'}_{k}" if k else v.name or "t"
        return names[v]

    yield f"kernel {kernel.name}({', '.join(f'{name(v)}: {v.type}' for v in kernel.params)})"
    for op in kernel.ops:
        left = f"{name(op.result)}: {op.result.type} = " if op.results else ""
        words = [op.name, *(name(v) for v in op.operands), *(f"{k}={v}" for k, v in op.attrs.items())]
        yield f"  {left}{' '.join(words)}"
