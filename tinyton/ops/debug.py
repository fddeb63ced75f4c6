"""What a kernel tells while it runs: prints and asserts.

A kernel that has some takes, after its own parameters, a log: how many records were made, how many fit, and the
records, which any thread may add to. When the launch is done the host reads it, puts it into program order, and prints
through Python's ``print``, so that a notebook shows it in the cell that launched, and its tests compare it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import bool_, float64, pack, uint32, uint64
from ..errors import DeviceAssertError, KernelTypeError
from ..ir import Builder, Kernel, Op, Type, Value
from . import op
from .arithmetic import _bits, and_, eq
from .typing import Operand, literal, number, same_shape, value_of

CAPACITY = 1 << 15  # records of a log
WORDS = 7  # of a record: which value of which op, program x, y, z, element, the value's bits
ADD = """
{fn} void {name}({memory}{T}* log, {T} site, {T} element, {wide} bits) {{
    const {T} at = {claim};
    if (at < log[1]) {{
        {memory}{T}* const r = log + 2 + {words} * at;
        r[0] = site;
        r[1] = {x};
        r[2] = {y};
        r[3] = {z};
        r[4] = element;
        r[5] = ({T})bits;
        r[6] = ({T})(bits >> 32);
    }}
}}"""


def _log(b: Builder, name: str) -> Value:
    return b.hidden.setdefault(name, Value(Type(uint32, (), True), name))


def sites(kernel: Kernel) -> list[tuple[Op, int]]:
    """What can make records: prints with each of their values, and asserts; a record says which by its number."""
    told = (op for op in kernel.ops() if op.name in ("device_print", "device_assert"))
    return [(op, k) for op in told for k in range(len(op.operands) - 1)]


def _emit(e, op):
    """A record an element. A program stops at an assert that fails, if it can: in one thread, or where CUDA's barrier
    or warp tells all threads of it."""
    is_assert, layout = op.name == "device_assert", e.store_layout(op)
    together = e.fresh("failed") if is_assert and e.threads > 1 and e.dialect.name == "cuda" else ""
    if together:
        e.line(f"bool {together} = false;")
    words = dict(zip("xyz", e.place(), strict=True))
    words |= {"memory": e.dialect.memory, "wide": e.c(uint64), "words": WORDS}
    claim = "atomicAdd(log, 1u)" if e.dialect.name == "cuda" else "atomic_inc(log)"
    add, where = e.helper("add_record", ADD, uint32, claim=claim, **words), sites(e.kernel)

    def element(e, op, s):
        beyond = s.padding(op.operands[0].type.shape)
        conditions = [f"!({beyond})"] * bool(beyond) + [s.atom(op.operands[0])] * is_assert
        lines = [
            f"{add}({e.scalar(op.operands[-1])}, {where.index((op, k))}, {s.position(v.type.shape)}, "
            f"{_bits(e, s.atom(v), v.type.dtype.register)});"
            for k, v in enumerate(op.operands[:-1])
        ]
        lines += ["return;"] * (is_assert and e.threads == 1) + [f"{together} = true;"] * bool(together)
        s.line(f"if ({' && '.join(conditions)}) {{" if conditions else "{")
        for text in lines:
            s.line("    " + text)
        s.line("}")

    with e.once_per_element(layout):
        e.close_with(op, layout, element)
    if together:
        if e.threads != 32:
            e.meet()
        vote = "__any_sync(0xffffffff, " if e.threads == 32 else "__syncthreads_or("
        e.line(f"if ({vote}{together})) return;")


def _print(run, op, *values):
    log = run.buffers[[v for v in run.kernel.params if v.type.pointer].index(op.operands[-1])].flat
    where = sites(run.kernel)
    for k, (v, x) in enumerate(zip(op.operands, values[:-1], strict=False)):
        flat = np.broadcast_to(x, v.type.shape).reshape(-1).astype(v.type.dtype.register.numpy)
        bits = flat.view(f"u{flat.itemsize}").astype(np.uint64)
        first, n = int(log[0]), flat.size
        log[0] += n
        fit = max(0, min(n, int(log[1]) - first))
        records = log[2 + WORDS * first :][: WORDS * fit].reshape(fit, WORDS)
        records[:, 0], records[:, 1:4], records[:, 4] = where.index((op, k)), run.program, np.arange(fit)
        records[:, 5:] = bits[:fit].view(np.uint32).reshape(fit, 2)


@op(numpy=_print, emit=_emit, kind="statement", effect=True)
def device_print(b: Builder, prefix: str, *values: Operand, hex: bool = False) -> None:  # noqa: A002
    """Prints when the launch is done: a line for each element, in order of programs (x fastest), of the prints in a
    program, and of elements. ``hex`` prints the bits. Tiles broadcast; a scalar, or no value, is one line.

    At most 32,768 values of a launch are kept; if there are more, the last line says how many were dropped. A launch
    that prints waits for its end, and is slow. From Triton.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def show(x, n, BLOCK: tt.constexpr):
    ...     i = tt.arange(0, BLOCK)
    ...     tt.device_print("x", tt.load(x + i), i > 0)
    ...     tt.device_print("n", n)
    >>> show[1](np.array([1.5, 0.1], np.float32), 2, BLOCK=2)
    pid (0, 0, 0) idx (0) x: 1.5 False
    pid (0, 0, 0) idx (1) x: 0.1 True
    pid (0, 0, 0) n: 2
    """
    if not isinstance(prefix, str):
        raise KernelTypeError("device_print begins with a text: tt.device_print('x', x)", argument="prefix")
    tiles = same_shape(b, *(number(b, v) for v in values)) or (literal(b, 0, uint32),)
    record(b, Lines(prefix, tiles[0].type.shape, not values), *tiles, hex=bool(hex))


Told = Mapping[int, Mapping[int, Any]]  # the values of a print by their number, each by element, as far as they fitted


def record(b: Builder, form: Callable[[tuple, Told], str], *tiles: Value, first: int = 0, hex: bool = False) -> None:  # noqa: A002
    """Records tiles of one shape, which are the ``first`` value and its next of a print. ``form``, of its own for each
    print, makes the text of it: of the program, and of the values of all the records that name it."""
    b.add("device_print", (*tiles, _log(b, "prints")), None, form=form, first=first, hex=hex)


@dataclass(frozen=True, eq=False)
class Lines:
    """How `device_print` tells: a line an element."""

    prefix: str
    shape: tuple[int, ...]
    empty: bool

    def __call__(self, program: tuple, told: Told) -> str:
        prefix = self.prefix.rstrip()
        prefix += " " if not prefix or prefix.endswith((":", "=")) else ": "
        lines = []
        for e in sorted(set().union(*told.values())):
            values = " ".join(str(told[k][e]) for k in sorted(told) if e in told[k])
            what = prefix.rstrip(": ") if self.empty else prefix.lstrip() + values
            lines.append(f"pid {program}{_index(self.shape, e)} {what}\n")
        return "".join(lines)


def _assert(run, op, failed, log):
    if np.any(failed):
        element = int(np.argmax(np.broadcast_to(failed, op.operands[0].type.shape)))
        raise _failure(op, run.program, element)


@op(numpy=_assert, emit=_emit, kind="statement", effect=True)
def device_assert(b: Builder, cond: Operand, msg: str = "", mask: Operand | None = None) -> None:
    """Raises `DeviceAssertError` after the launch if ``cond`` is false in an element where ``mask`` is on: with
    ``msg``, the first program that failed and its first such element. That program stops there (on OpenCL only if it
    runs in one thread), the others run on. ``@tt.jit(debug=False)`` leaves asserts out. From Triton, where they are off
    by default.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(n): tt.device_assert(n > 0, "n counts")
    >>> try: k[1](-1)
    ... except tt.DeviceAssertError as error: print(str(error).splitlines()[-1])
    device_assert failed in pid (0, 0, 0): n counts
    """
    c = number(b, cond)
    failed = eq(b, c, False if c.type.dtype is bool_ else 0)
    if mask is not None:
        failed = and_(b, failed, value_of(b, mask))
    check(b, failed, str(msg))


def check(b: Builder, failed: Value, message: str, word: str = "device_assert") -> None:
    """Stops a program where ``failed`` is true; ``word`` is what the user calls this."""
    if b.asserts:
        b.add("device_assert", (failed, _log(b, "failures")), None, message=message, word=word)


def _index(shape: tuple[int, ...], element: int) -> str:
    return f" idx ({', '.join(str(i) for i in np.unravel_index(element, shape))})" if shape else ""


def _failure(op: Op, program: tuple[int, ...], element: int) -> DeviceAssertError:
    where = f"pid {tuple(program)}{_index(op.operands[0].type.shape, element)}"
    text = f": {op.attrs['message']}" if op.attrs["message"] else ""
    return DeviceAssertError(f"{op.attrs['word']} failed in {where}{text}", op.loc)


@contextmanager
def logged(compiled: Any, args: list, stream: Any) -> Iterator[None]:
    """Around a launch of a kernel that prints or asserts: gives it its logs, and tells what is in them afterwards."""
    executor, handles = compiled.executor, {}
    for v in compiled.hidden:
        empty = np.zeros(2 + WORDS * CAPACITY, np.uint32)
        empty[1] = CAPACITY
        handles[v.name] = executor.allocate(empty.nbytes)
        executor.write(handles[v.name], empty)
        args.append(executor.pointer(v.name, handles[v.name], uint32, 0))
    try:
        yield
        executor.finish(stream)
    finally:
        logs = {name: _read(executor, handle) for name, handle in handles.items()}
        if "prints" in logs:
            _show(compiled.ir, *logs["prints"])
    if "failures" in logs and len(logs["failures"][0]):
        where, records = sites(compiled.ir), logs["failures"][0].tolist()
        site, x, y, z, element, *_ = min(records, key=lambda r: (r[3], r[2], r[1], r[0], r[4]))
        raise _failure(where[site][0], (x, y, z), element)


def _read(executor: Any, handle: Any) -> tuple[np.ndarray, int]:
    """The records of a log, and how many did not fit."""
    head = np.empty(2, np.uint32)
    executor.read(handle, head)
    n = min(int(head[0]), CAPACITY)
    words = np.empty(2 + WORDS * n, np.uint32)
    executor.read(handle, words)
    return words[2:].reshape(n, WORDS), int(head[0]) - n


def _show(kernel: Kernel, records: np.ndarray, dropped: int) -> None:
    """Prints in program order. A thread makes its records in order, and the first element of every tile is the first
    thread's: so its records tell in which order the prints of a program ran."""
    where, times, ranks = sites(kernel), Counter(), {}
    turns: dict[tuple, dict[int, dict[int, Any]]] = {}
    values = {site: _values(*where[site], records[records[:, 0] == site, 5:]) for site in set(records[:, 0].tolist())}
    for at, (site, x, y, z, element, *_) in enumerate(records.tolist()):
        op, k = where[site]
        part = op.attrs["form"], op.attrs["first"] + k, x, y, z, element
        times[part] += 1
        turn = (z, y, x), part[0], times[part]
        if not element:
            ranks.setdefault(turn, at)
        turns.setdefault(turn, {}).setdefault(part[1], {})[element] = next(values[site])
    order = sorted(turns, key=lambda turn: (turn[0], ranks.get(turn, len(records))))
    text = "".join(turn[1](turn[0][::-1], turns[turn]) for turn in order)
    if dropped:
        start = "\n" if not text.endswith("\n") else ""
        text += f"{start}{dropped} more values were not kept: a launch prints at most {CAPACITY}\n"
    print(text, end="")


def _values(op: Op, k: int, words: np.ndarray) -> Iterator[Any]:
    """The values of one print, in the order of its records, as NumPy has them; in hex, the texts of their bits."""
    dtype, bits = op.operands[k].type.dtype, np.ascontiguousarray(words).view(np.uint64).reshape(-1)
    if dtype.is_float:
        register = bits.view(np.float64) if dtype is float64 else bits.astype(np.uint32).view(np.float32)
    else:
        register = bits.astype(dtype.register.numpy)
    if op.attrs["hex"]:
        size = dtype.itemsize
        return (f"0x{int(x):0{2 * size}x}" for x in pack(register, dtype).view(f"u{size}"))
    return iter(register.astype(dtype.numpy) if dtype.name == "float16" else register)
