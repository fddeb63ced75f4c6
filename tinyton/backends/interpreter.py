"""The meaning of a kernel in NumPy: programs run one after the other, every access is checked.

TINYTON_GRID_ORDER=shuffle runs the programs in a random order, shuffle:7 in that of seed 7; an error says which it was.
TINYTON_CHECKS=0 leaves the bounds as the only check: no races, no uninitialised reads."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..codegen.dialect import OPENCL
from ..dtypes import DType, int64, pack, round_to, unpack
from ..errors import BackendError, OutOfBoundsError, TinytonError
from ..ir import Block, Kernel, Op, Value
from ..ops import OPS
from .checks import Checks, Program

REGION = 1 << 44  # every buffer has a region of this many elements of the address space, and starts in its middle


def unusable() -> str | None:
    return None


class Memory(np.ndarray):
    """Bytes that we have allocated; ``written`` says which have been written, None stands for all."""

    written: np.ndarray | None = None


class Buffer:
    """Memory of one array argument: elements in a flat NumPy array, of which ``first`` is the one pointed at."""

    def __init__(self, name: str, memory: np.ndarray, dtype: DType, start: int):
        self.param, self.name = name, name.removesuffix(".data")  # of the kernel, and for messages
        self.memory, self.dtype, size = memory, dtype, dtype.itemsize
        self.first, self.offset = divmod(start, size)
        count = (memory.size - self.offset) // size
        written = getattr(memory, "written", None)
        self.flat = self._elements(memory, count, dtype.numpy)
        self.written = None if written is None else self._elements(written, count, np.dtype(f"u{size}"))
        self.full = int.from_bytes(b"\1" * size)  # what ``written`` holds for an element that has been

    def _elements(self, memory: np.ndarray, count: int, dtype: np.dtype) -> np.ndarray:
        return np.ndarray((count,), dtype, memory, self.offset)

    def element(self, at: Any) -> int:
        """A place in ``flat`` as the kernel counts, from where the argument points."""
        return int(at) - self.first


class Run:
    """One program of a launch."""

    def __init__(self, kernel: Kernel, buffers: list[Buffer], grid: Program, program: Program, watch: Any, checks: Any):
        self.kernel, self.buffers, self.grid, self.program = kernel, buffers, grid, program
        self.watch, self.checks = watch, checks
        self.values: dict[Value, Any] = {}
        self.scratch: Buffer | None = None

    def shared(self, op: Op) -> int:
        """The address of the program's shared buffer, which starts poisoned."""
        if self.scratch is None:
            dtype = op.result.type.dtype
            memory = np.full(self.kernel.shared_bytes, 0xFF, np.uint8).view(Memory)
            memory.written = np.zeros(memory.size, np.uint8)
            self.scratch = Buffer("the shared buffer", memory, dtype, 0)
            self.buffers = [*self.buffers, self.scratch]
        return address(len(self.buffers) - 1)

    def block(self, block: Block, args: tuple) -> tuple:
        self.values.update(zip(block.params, args, strict=True))
        for op in block.ops:
            self.op(op)
        return tuple(self.values[v] for v in block.yields)

    def op(self, op: Op) -> None:
        entry = OPS[op.name]
        if self.watch:
            self.watch("op", op, None, None, None)
        args = [self.values[v] for v in op.operands]
        out = entry.numpy(*args) if entry.kind == "elementwise" else entry.numpy(self, op, *args)
        if op.blocks:
            self.values.update(zip(op.results, out, strict=True))
        elif op.results:
            v = op.result
            if v.type.pointer:
                self.values[v] = np.asarray(out, np.int64)
            elif entry.exact or entry.kind in ("view", "statement"):
                self.values[v] = np.asarray(out)
            else:
                self.values[v] = round_to(out, v.type.dtype)
            if v.type.shape and np.shape(self.values[v]) != v.type.shape:  # scans go over many scalars at once
                raise AssertionError(f"the NumPy meaning of {op.name} gives {np.shape(out)}, its rule {v.type}")

    def access(
        self, op: Op, verb: str, pointers: np.ndarray, mask: np.ndarray | None
    ) -> Iterator[tuple[Buffer, np.ndarray, np.ndarray]]:
        """The buffers that the addresses of a "load", "store" or "atomic" lie in, with the places in them and the lanes
        that go there; raises for one that is outside. Nothing if every lane is off."""
        pointers = np.broadcast_to(pointers, op.operands[0].type.shape)
        on = np.broadcast_to(np.asarray(True if mask is None else mask), pointers.shape)
        if not on.any():
            if self.watch:
                self.watch(verb, op, None, None, on)
            return
        first = pointers[on].flat[0]
        region = min(max(int(first) // REGION - 1, 0), len(self.buffers) - 1)
        buffer = self.buffers[region]
        at = pointers - address(region) + buffer.first
        wrong = on & ((at < 0) | (at >= buffer.flat.size))
        if wrong.any() and len(regions := np.unique(pointers[on] // REGION)) > 1:
            for r in regions:
                yield from self.access(op, verb, pointers, on & (pointers // REGION == r))
            return
        if wrong.any():
            k = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            size, element = buffer.flat.size - buffer.first, buffer.element(at[k])
            lane = f", lane {tuple(int(i) for i in k)}" if k else ""
            does = {"load": "reads", "store": "writes", "atomic": "changes"}[verb]
            what = f"program {self.program} {does} element {element} of {buffer.name}, which has elements"
            ends = f"{-buffer.first} to {size - 1}{lane}"
            raise OutOfBoundsError(f"{what} {ends}; mask the lanes that are beyond the end", op.loc)
        if self.watch:
            self.watch(verb, op, buffer, at, on)
        if self.checks and verb == "atomic":
            self.checks.atomic(op, buffer, at[on])
        yield buffer, at, on

    def load(self, op: Op, pointers: np.ndarray, mask: Any = None, other: Any = None) -> np.ndarray:
        dtype, shape = op.result.type.dtype, op.result.type.shape
        out = np.array(np.broadcast_to(np.asarray(0 if other is None else other, dtype.register.numpy), shape))
        for buffer, at, lanes in self.access(op, "load", pointers, mask):
            places = at[lanes]
            if self.checks:
                self.checks.load(op, buffer, places)
            out[lanes] = unpack(buffer.flat[places], dtype)
        return out

    def store(self, op: Op, pointers: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        for buffer, at, lanes in self.access(op, "store", pointers, mask):
            places, new = at[lanes], pack(np.broadcast_to(value, lanes.shape)[lanes], op.operands[0].type.dtype)
            if self.checks:
                self.checks.store(op, buffer, places, new)
            else:
                buffer.flat[places] = new


def run(
    kernel: Kernel, args: list, grid: Program, order: Iterable[Program], watch: Any = None, checks: Any = None
) -> None:
    """Runs programs of a grid in this ``order``. ``args`` has a Buffer or a number for each parameter;
    ``watch(verb, op, buffer, places, on)`` sees every access, without buffer and places if every lane is off; and, with
    the verb "op", every op before it is run."""
    buffers: list[Buffer] = [a for a in args if isinstance(a, Buffer)]
    start: dict[Value, Any] = {}
    for v, a in zip(kernel.params, args, strict=True):
        number, dtype = (address(buffers.index(a)), int64) if isinstance(a, Buffer) else (a, v.type.dtype)
        start[v] = np.asarray(number, dtype.register.numpy)
    with np.errstate(all="ignore"):
        for program in checks.each(order) if checks else order:
            state = Run(kernel, buffers, grid, program, watch, checks)
            state.values.update(start)
            state.block(kernel.body, ())


def address(k: int) -> int:
    """Where the k-th buffer starts in the address space."""
    return (k + 1) * REGION + REGION // 2


def programs(grid: Program) -> Iterator[Program]:
    for z, y, x in product(*(range(n) for n in reversed(grid))):
        yield x, y, z


def shuffled(grid: Program, seed: int) -> list[Program]:
    """The programs of a grid in the random order of ``seed``."""
    order = list(programs(grid))
    return [order[k] for k in np.random.default_rng(seed).permutation(len(order))]


def order_seed() -> int | None:
    """The seed that TINYTON_GRID_ORDER asks for, a new one if it names none; None if programs run in order."""
    word, _, seed = (given := os.environ.get("TINYTON_GRID_ORDER", "")).partition(":")
    if not given:
        return None
    if word != "shuffle" or not (seed.isdecimal() or given == "shuffle"):
        raise BackendError(f"TINYTON_GRID_ORDER is {given!r}; it may be shuffle, or shuffle: and a number, the seed")
    return int(seed) if seed else int.from_bytes(os.urandom(3))


class Executor:
    """Runs the IR itself."""

    name = "interpreter"
    dialect = OPENCL  # what is shown; none is run
    arch = ""
    limits = {"threads": 1024, "x": 2**31 - 1, "y": 65535, "z": 65535, "shared": 1 << 30, "private": 1 << 30}
    sm_count = 1

    def device_info(self) -> dict[str, object]:
        return {"device": f"NumPy {np.__version__} on {platform.machine()}", "compiler": "none"}

    def default_threads(self, kernel: Kernel) -> int:
        return 1

    def key(self) -> str:
        return "interpreter"

    def build(self, low: Any) -> None:
        return None

    def launch(self, compiled: Any, grid: tuple[int, int, int], args: list, stream: object = None) -> None:
        buffers, checks, seed = [a for a in args if isinstance(a, Buffer)], None, order_seed()
        if os.environ.get("TINYTON_CHECKS") != "0":
            checks = Checks(buffers, compiled.low.stored, alone=prod(grid) == 1)
        try:
            run(compiled.ir, args, grid, programs(grid) if seed is None else shuffled(grid, seed), checks=checks)
        except TinytonError as error:
            if seed is not None:
                error.message += f"\n(programs ran in the order TINYTON_GRID_ORDER=shuffle:{seed})"
            raise

    def allocate(self, nbytes: int) -> Memory:
        try:
            memory = np.empty(nbytes, np.uint8).view(Memory)
            memory.written = np.zeros(nbytes, np.uint8)
        except (MemoryError, ValueError):
            raise BackendError(f"{nbytes} bytes cannot be allocated") from None
        return memory

    def pointer(self, name: str, handle: np.ndarray, dtype: DType, offset: int) -> Buffer:
        return Buffer(name, handle, dtype, offset)

    def borrow(self, span: np.ndarray) -> np.ndarray:
        return span if span.base is not None else span[:0]  # memory of its own: what stands for that of an empty array

    def write(self, handle: Memory, data: np.ndarray) -> None:
        handle[: data.nbytes] = data.reshape(-1).view(np.uint8)
        if data.nbytes == handle.size:
            handle.written = None

    def read(self, handle: Memory, out: np.ndarray) -> None:
        data = out.reshape(-1).view(np.uint8)
        data[...] = handle[: out.nbytes]
        if handle.written is not None:
            data[handle.written[: out.nbytes] == 0] = 0xFF  # NaN, -1

    def finish(self, *which: object) -> None:
        """Nothing is ever under way, and memory that is lent is the host's own."""

    synchronize = give_back = finish
