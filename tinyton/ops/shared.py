"""The buffer that the threads of a program share, in program order, and what else tiny-ton's kernels say.

The buffer is memory like an array: a load and a store through a pointer to it. So barriers come where program order
needs them, as for arrays, and the interpreter checks bounds and reads of what nobody has written."""

from __future__ import annotations

from math import prod

from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .arithmetic import add
from .memory import as_pointer, load, store
from .program import arange
from .rearrange import part, reshape
from .shape import expand
from .typing import Operand, constant_int, number, value_of


@op(
    numpy=lambda run, op: run.shared(op),
    emit=lambda e, op: f"({e.ctype(op.result)})shared_memory",
    kind="index",
    effect=True,
    public=False,
)
def shared(b: Builder, idx: Operand, buffer_size: object) -> tuple[Value, Value]:
    """A pointer to the start of the shared buffer, and the index as a value. ``size`` is how many elements the buffer
    has at least."""
    v = number(b, idx)
    if not v.type.dtype.is_int:
        raise KernelTypeError(f"an index is an integer, not {v.type}", argument="idx")
    size = prod(v.type.shape) if buffer_size is None else constant_int(buffer_size, "buffer_size")
    if size < 1:
        raise KernelValueError(f"the buffer has at least 1 element, not {size}", argument="buffer_size")
    assert b.shared
    return b.add("shared", (), Type(b.shared[0], (), pointer=True, shared=True), size=size), v


@op(numpy=None, emit=None, kind="macro")
def shared_store(b: Builder, idx: Operand, val: Operand, buffer_size: int | None = None) -> None:
    """Writes ``val`` to places ``idx`` (a tile or a scalar of integers) of the program's shared buffer.

    A program has one buffer, of the type that its first `shared_store` stores, and of the greatest ``buffer_size``; by
    default that is the number of elements of ``idx``. What a later `shared_load` reads has been written.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.shared_store(i, i * i)
    ...     tt.store(out + i, tt.shared_load(3 - i))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [9, 4, 1, 0]
    """
    v = value_of(b, val, b.shared[0] if b.shared else None)
    if b.shared is None:
        b.shared = v.type.dtype, b.loc
    if v.type.pointer or v.type.dtype is not b.shared[0]:
        line = f", by line {b.shared[1].line}, {b.shared[1].text.strip()}" if b.shared[1] else ""
        what = f"the shared buffer holds {b.shared[0]}{line}; this stores {v.type}"
        raise KernelTypeError(f"{what}: write .to(tt.{b.shared[0]})", argument="val")
    start, at = shared(b, idx, buffer_size)
    if v.type.shape and not at.type.shape:
        raise KernelTypeError(f"a tile of shape {list(v.type.shape)} cannot be stored to one index", argument="idx")
    store(b, add(b, start, at), v)


@op(numpy=None, emit=None, kind="macro")
def shared_load(b: Builder, idx: Operand, buffer_size: int | None = None) -> Value:
    """The elements at places ``idx`` of the program's shared buffer, as `shared_store` has left them.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.shared_store(i, i)
    ...     tt.store(out + i, tt.shared_load((i + 1) % 4))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [1, 2, 3, 0]
    """
    if b.shared is None:
        raise KernelTypeError("nothing is in the shared buffer yet: a shared_store above says what it holds")
    return load(b, add(b, *shared(b, idx, buffer_size)))


@op(numpy=lambda run, op: None, emit=lambda e, op: e.barrier(), kind="statement", effect=True)
def debug_barrier(b: Builder) -> None:
    """All threads of the program wait for each other. Kernels do not need it: what they say happens in order.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, i)
    ...     tt.debug_barrier()
    ...     tt.store(out + i, tt.load(out + (3 - i)) * 10)
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [30, 20, 10, 0]
    """
    b.add("debug_barrier", (), None)


@op(numpy=None, emit=None, kind="macro")
def sync(b: Builder) -> None:
    """`debug_barrier`, under tiny-ton's name.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.shared_store(i, i)
    ...     tt.sync()
    ...     tt.store(out + i, tt.shared_load(3 - i))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [3, 2, 1, 0]
    """
    debug_barrier(b)


@op(numpy=None, emit=None, kind="macro")
def load4(b: Builder, ptr: Value) -> tuple[Value, ...]:
    """The four elements from ``ptr`` on, as a tuple: ``a, b, c, d = tt.load4(ptr)``. From aligned addresses, a GPU
    loads them at once.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, out):
    ...     a, b, c, d = tt.load4(x)
    ...     tt.store(out, a + 10 * b + 100 * c + 1000 * d)
    >>> x, out = np.arange(1, 5), np.zeros(1, int); k[1](x, out); out.tolist()
    [4321]
    """
    p = as_pointer(ptr)
    shape = p.type.shape
    if not shape or any(n & (n - 1) for n in shape):
        return tuple(load(b, add(b, p, k)) for k in range(4))
    four = load(b, add(b, expand(b, p, len(shape)), arange(b, 0, 4)))
    pairs = reshape(b, four, (*shape, 2, 2))
    return tuple(part(b, part(b, pairs, k % 2), k // 2) for k in range(4))
