"""Atomics: what many programs do to one element all counts, in some order. Where the hardware has no instruction for
an element type, the word that holds the element is exchanged until nobody came in between."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ..dtypes import int64, pack, round_to, uint16, uint32, uint64, unpack
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .arithmetic import _bits, _of_bits
from .memory import as_mask, as_pointer
from .reduction import combine
from .typing import Operand, cast_value, same_shape, value_of

MEANING: dict[str, Callable] = {"add": np.add, "max": np.fmax, "min": np.fmin, "xchg": lambda old, x: x}
MEANING |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
SEMANTICS = ("acq_rel", "acquire", "release", "relaxed")
SCOPES = {"gpu": "", "cta": "_block", "sys": "_system"}
PRAGMA = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable"
WORD = "{memory}{W}* word = ({memory}{W}*)at;"
HALF_WORD = """const int shift = ((size_t)at & 2) * 8;  // the half of an aligned word
    {memory}{W}* word = ({memory}{W}*)((size_t)at & ~(size_t)3);"""
LOOP = """
{fn} {T} {name}({memory}{E}* at, {args}) {{
    {word}
    {W} seen, next, now = *(volatile {memory}{W}*)word;
    do {{
        seen = now;
        next = {new};
        now = next == seen ? seen : {swap}(word, seen, next);
    }} while (now != seen);
    return {value};
}}"""


def _turns(lanes, at) -> list:
    """Lanes in groups without two on one element, such that those on one element keep their order."""
    if not lanes.size:
        return []
    lanes = lanes[np.argsort(at.flat[lanes], kind="stable")]
    first = np.flatnonzero(np.diff(at.flat[lanes], prepend=-1))
    turn = np.arange(lanes.size) - np.repeat(first, np.diff(first, append=lanes.size))
    return np.split(lanes[np.argsort(turn, kind="stable")], np.cumsum(np.bincount(turn))[:-1])


def _fetch(run, op, ptr, value, mask=None, expected=None):
    """Lanes that share an element take turns, the first lane first."""
    dtype, how, shape = op.operands[0].type.dtype, op.attrs["how"], op.operands[0].type.shape
    out = np.zeros(shape, dtype.register.numpy)
    bits = f"u{dtype.itemsize}"
    for buffer, at, lanes in run.access(op, "atomic", ptr, mask):
        for now in _turns(np.flatnonzero(lanes), at):
            places, x = at.flat[now], np.reshape(value, -1)[now]
            old = buffer.flat[places]
            if how == "cas":
                same = old.view(bits) == pack(np.reshape(expected, -1)[now], dtype).view(bits)
                new = np.where(same, pack(x, dtype), old)
            else:
                new = pack(round_to(MEANING[how](unpack(old, dtype), x), dtype), dtype)
            buffer.flat[places], out.flat[now] = new, unpack(old, dtype)
    return out


def _fetch_if(run, op, ptr, expected, value, mask=None):
    return _fetch(run, op, ptr, value, mask, expected)


def _emit(e, op):
    """Of threads that hold copies of an element one acts, and tells the others through shared memory."""
    dtype, layout, sem = op.operands[0].type.dtype, e.store_layout(op), op.attrs["sem"]
    inputs = op.operands[: 3 if op.attrs["how"] == "cas" else 2]
    told = layout.copies and op.results
    memory = e.shared(dtype, prod(layout.shape)) if told else ""
    if op.results:
        e.declare(op.result)
    with e.once_per_element(layout):
        if sem in ("release", "acq_rel"):
            e.line(_fence(e, op))
        width = e.plan.vectors.pop(op, 1)  # which is no plan of all cards
        if width > 1 and e.dialect.arch >= 90 and op.attrs["scope"] == "gpu" and e.even(op, layout, width):
            e.plan.vectors[op] = width
            return _add_vectors(e, op, layout, width)
        with e.loop(layout, [op]) as s:
            cell = f"{memory}[{s.position(layout.shape)}]" if told else e.cell(op.result, s) if op.results else ""
            text, condition = _call(e, op, s.get(inputs[0]), *map(s.atom, inputs[1:])), s.condition(op)
            if cell:
                s.line(f"{cell} = {f'({condition}) ? {text} : 0' if condition else text};")
            else:
                s.line(f"if ({condition}) {text};" if condition else f"{text};")
        if op.results and sem in ("acquire", "acq_rel"):
            e.line(_fence(e, op))
    if told:
        e.barrier()
        with e.loop(layout, [op]) as s:
            s.line(f"{e.cell(op.result, s)} = {memory}[{s.position(layout.shape)}];")


def _add_vectors(e, op, layout, width: int) -> None:
    with e.loop(layout, [op], step=width) as s:
        values, condition = [s.shifted(k).get(op.operands[1]) for k in range(width)], s.condition(op)
        text = f"atomicAdd((float{width}*)({s.get(op.operands[0])}), make_float{width}({', '.join(values)}));"
        s.line(f"if ({condition}) {text}" if condition else text)


def _fence(e, op) -> str:
    cuda = e.dialect.name == "cuda"
    return f"__threadfence{SCOPES[op.attrs['scope']]}();" if cuda else "mem_fence(CLK_GLOBAL_MEM_FENCE);"


def instruction(e, how: str, bits: int, scope: str = "gpu") -> str:
    """The function of the C dialect for words of 32 or 64 bits, and on CUDA for "cas" of 16."""
    if bits == 16:
        return e.helper(f"exchange_{scope}", e.dialect.helpers["exchange"], uint16, scope=scope)
    if e.dialect.name == "cuda":
        return f"atomic{ {'xchg': 'Exch', 'cas': 'CAS'}.get(how, how.capitalize()) }{SCOPES[scope]}"
    if bits == 64:
        e.helpers.setdefault("int64 atomics", PRAGMA)
    return f"atom{'' if bits == 64 else 'ic'}_{'cmpxchg' if how == 'cas' else how}"


def _call(e, op, ptr: str, *values: str) -> str:
    """C that acts on one element and gives what it was."""
    dtype, how, scope = op.operands[0].type.dtype, op.attrs["how"], op.attrs["scope"]
    cuda = e.dialect.name == "cuda"
    bits, part = max(16 if cuda else 32, dtype.bits), dtype.is_narrow and not cuda  # OpenCL has no words of 16 bits
    word, own = e.c({16: uint16, 32: uint32, 64: uint64}[bits]), dtype.is_int or (cuda and how == "add")
    if not dtype.is_narrow and (own or how in ("cas", "xchg")):
        function = instruction(e, how, bits, scope)
        if own and not (cuda and dtype is int64 and how not in ("max", "min")):
            return f"{function}({', '.join([ptr, *values])})"
        args = [f"({e.dialect.memory}{word}*)({ptr})", *(_bits(e, x, dtype) for x in values)]
        text = f"{function}({', '.join(args)})"
        return _of_bits(e, text, dtype) if op.results else text
    value = _of_bits(e, "(seen >> shift)" if part else "seen", dtype)
    new = "x" if how in ("cas", "xchg") else combine(e, how.replace("add", "sum"), dtype, value, "x")
    new = _bits(e, new, dtype)
    if part:
        new = f"(seen & ~(0xffffu << shift)) | ((unsigned int){new} << shift)"
    if how == "cas":  # of 16-bit floats: any NaN equals any
        new = f"{_bits(e, 'expected', dtype)} == {_bits(e, value, dtype)} ? {new} : seen"
    words = {"E": e.dialect.stored(dtype), "W": word, "memory": e.dialect.memory, "value": value, "new": new}
    words |= {"args": f"{e.c(dtype)} expected, " * (how == "cas") + f"{e.c(dtype)} x"}
    name, text = f"atomic_{how}{SCOPES[scope]}", LOOP.replace("{word}", HALF_WORD if part else WORD)
    name = f"{name}_{dtype.short}" if dtype.is_narrow else name
    name = e.helper(name, text, dtype, swap=instruction(e, "cas", bits, scope), **words)
    return f"{name}({', '.join([ptr, *values])})"


def _change(
    b: Builder, how: str, pointer: object, values: tuple[Operand, ...], mask: Operand | None, sem: object, scope: object
) -> Value:
    """The op, if the elements that the pointer points at can be changed so."""
    ptr = as_pointer(pointer, "pointer")
    dtype = ptr.type.dtype
    fits = dtype.bits >= 32 or (dtype.is_narrow and dtype.bits == 16 and how in ("add", "max", "min", "xchg", "cas"))
    if not fits or (dtype.is_float and how in ("and", "or", "xor")):
        able = "int32, uint32, int64 and uint64" if how in ("and", "or", "xor") else "32- and 64-bit ints, and floats"
        raise KernelTypeError(f"atomic_{how} changes elements of {able}, not of {dtype}", argument="pointer")
    for value, known, what in ((sem, SEMANTICS, "sem"), (scope, tuple(SCOPES), "scope")):
        if value is not None and value not in known:
            raise KernelValueError(f"{what} is one of {', '.join(map(repr, known))}, not {value!r}", argument=what)
    operands = [ptr, *(cast_value(b, value_of(b, x, dtype), dtype) for x in values)]
    operands = same_shape(b, *operands, *([] if mask is None else [as_mask(b, mask)]))
    name, shape = "fetch_if" if how == "cas" else "fetch", operands[0].type.shape
    return b.add(name, operands, Type(dtype, shape), how=how, sem=sem or "acq_rel", scope=scope or "gpu")


def _rule(how: str, meaning: str) -> Callable:
    def rule(
        b: Builder,
        pointer: Value,
        val: Operand,
        mask: Operand | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Value:
        """{}, in one step that no other program comes between. Gives the old elements.

        Pointers, ``val`` and ``mask`` broadcast; lanes that share an element all count, in some order. A lane that is
        off changes nothing and gives 0. ``sem``: "acq_rel" (default), "acquire", "release" or "relaxed": whether what
        the program wrote before is seen by who sees this, and the other way round. ``scope``: "gpu" (default), "cta",
        "sys".

        >>> import numpy as np, tinyton as tt
        >>> @tt.jit
        ... def k(x): tt.atomic_{}(x + tt.program_id(0) % 2, 6)
        >>> x = np.array([5, 12], np.int32); k[4](x); x.tolist()
        {}
        """
        return _change(b, how, pointer, (val,), mask, sem, scope)

    after = [int(MEANING[how](MEANING[how](x, 6), 6)) for x in (5, 12)]
    return op(f"atomic_{how}", (meaning, how, after), numpy=None, emit=None, kind="macro")(rule)


atomic_add = _rule("add", "Adds ``val`` to elements; 16-bit floats are rounded after each addition")
atomic_max = _rule("max", "Makes elements the greater of what they are and ``val``; a NaN is ignored")
atomic_min = _rule("min", "Makes elements the lesser of what they are and ``val``; a NaN is ignored")
atomic_and = _rule("and", "Elements become their bitwise and with ``val``")
atomic_or = _rule("or", "Elements become their bitwise or with ``val``")
atomic_xor = _rule("xor", "Elements become their bitwise xor with ``val``")
atomic_xchg = _rule("xchg", "Elements become ``val``")


@op(numpy=None, emit=None, kind="macro")
def atomic_cas(
    b: Builder,
    pointer: Value,
    cmp: Operand,
    val: Operand,
    sem: str | None = None,
    scope: str | None = None,
    mask: Operand | None = None,
) -> Value:
    """Where an element equals ``cmp``, bit for bit, it becomes ``val``. Gives the old elements; else as `atomic_add`.

    A lock is taken with ``while tt.atomic_cas(lock, 0, 1) == 1: pass`` and given back with
    ``tt.atomic_xchg(lock, 0)``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, old): tt.store(old + tt.program_id(0), tt.atomic_cas(x, 0, 7))
    >>> x, old = np.zeros(1, np.int32), np.zeros(2, int)
    >>> k[2](x, old); x.tolist(), sorted(old.tolist())
    ([7], [0, 7])
    """
    return _change(b, "cas", pointer, (cmp, val), mask, sem, scope)


@op(numpy=_fetch, emit=_emit, kind="statement", public=False, effect=True, reads=True, writes=True, mask=2)
def fetch(b: Builder) -> None:
    """Changes elements, giving what they were."""


@op(numpy=_fetch_if, emit=_emit, kind="statement", public=False, effect=True, reads=True, writes=True, mask=3)
def fetch_if(b: Builder) -> None:
    """Changes elements that have an expected value, giving what they were."""
