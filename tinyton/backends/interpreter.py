"""The meaning of a kernel in NumPy: programs run one after the other, every access is checked."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ..dtypes import DType, pack, round_to, unpack
from ..errors import BackendError, OutOfBoundsError
from ..ir import Block, Kernel, Op, Value
from ..ops import OPS

REGION = 1 << 44  # every buffer has a region of this many elements of the address space, and starts in its middle


def unusable() -> str | None:
    return None


class Buffer:
    """Memory of one array argument: elements in a flat NumPy array, of which ``first`` is the one pointed at."""

    def __init__(self, name: str, flat: np.ndarray, first: int, dtype: DType):
        self.name, self.flat, self.first, self.dtype = name, flat, first, dtype


class Run:
    """One program of a launch."""

    def __init__(self, kernel: Kernel, buffers: list[Buffer], grid: tuple[int, ...], program: tuple[int, ...]):
        self.kernel, self.buffers, self.grid, self.program = kernel, buffers, grid, program
        self.values: dict[Value, Any] = {}
        self.watch = None

    def block(self, block: Block, args: tuple) -> tuple:
        self.values.update(zip(block.params, args, strict=True))
        for op in block.ops:
            self.op(op)
        return tuple(self.values[v] for v in block.yields)

    def op(self, op: Op) -> None:
        entry = OPS[op.name]
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

    def _find(self, op: Op, pointers: np.ndarray, on: np.ndarray, verb: str) -> tuple[Buffer, np.ndarray]:
        """The buffer that the addresses lie in, and their places in it; raises for one that is outside."""
        first = pointers[on].flat[0]
        region = min(max(int(first) // REGION - 1, 0), len(self.buffers) - 1)
        buffer = self.buffers[region]
        at = pointers - ((region + 1) * REGION + REGION // 2) + buffer.first
        wrong = on & ((at < 0) | (at >= buffer.flat.size))
        if wrong.any():
            k = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            size, element = buffer.flat.size - buffer.first, int(at[k]) - buffer.first
            lane = f", lane {tuple(int(i) for i in k)}" if k else ""
            raise OutOfBoundsError(
                f"program {self.program} {verb} element {element} of {buffer.name}, which has elements {-buffer.first} "
                f"to {size - 1}{lane}; mask the lanes that are beyond the end",
                op.loc,
            )
        return buffer, at

    def load(self, op: Op, pointers: np.ndarray, mask: np.ndarray | None, other: np.ndarray | None) -> np.ndarray:
        dtype = op.result.type.dtype
        shape = op.result.type.shape
        on = np.broadcast_to(np.asarray(True if mask is None else mask), shape)
        out = np.array(np.broadcast_to(np.asarray(0 if other is None else other, dtype.register.numpy), shape))
        if on.any():
            buffer, at = self._find(op, np.broadcast_to(pointers, shape), on, "reads")
            if self.watch:
                self.watch("load", op, buffer, at, on)
            out[on] = unpack(buffer.flat[at[on]], dtype)
        elif self.watch:
            self.watch("load", op, None, None, on)
        return out

    def store(self, op: Op, pointers: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        dtype, shape = op.operands[0].type.dtype, op.operands[0].type.shape
        on = np.broadcast_to(np.asarray(True if mask is None else mask), shape)
        if on.any():
            buffer, at = self._find(op, np.broadcast_to(pointers, shape), on, "writes")
            if self.watch:
                self.watch("store", op, buffer, at, on)
            buffer.flat[at[on]] = pack(np.broadcast_to(value, shape)[on], dtype)
        elif self.watch:
            self.watch("store", op, None, None, on)


def run(kernel: Kernel, args: list, grid: tuple[int, int, int], watch=None, only=None) -> None:
    """Runs every program of a grid, or ``only`` some. ``args`` has a Buffer or a number for each parameter;
    ``watch(verb, op, buffer, places, on)`` sees every access, without buffer and places if every lane is off."""
    buffers: list[Buffer] = [a for a in args if isinstance(a, Buffer)]
    start: dict[Value, Any] = {}
    for v, a in zip(kernel.params, args, strict=True):
        if isinstance(a, Buffer):
            start[v] = np.asarray((buffers.index(a) + 1) * REGION + REGION // 2, np.int64)
        else:
            start[v] = np.asarray(a, v.type.dtype.register.numpy)
    with np.errstate(all="ignore"):
        for program in programs(grid) if only is None else only:
            state = Run(kernel, buffers, grid, program)
            state.watch = watch
            state.values.update(start)
            state.block(kernel.body, ())


def programs(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    for z, y, x in product(*(range(n) for n in reversed(grid))):
        yield x, y, z


class Executor:
    """Runs the IR itself."""

    name = "interpreter"
    dialect = None
    arch = ""
    limits: dict[str, int] = {
        "threads": 1024,
        "shared": 1 << 30,
        "private": 1 << 30,
        "x": 2**31 - 1,
        "y": 65535,
        "z": 65535,
    }
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
        run(compiled.ir, args, grid)

    def allocate(self, nbytes: int) -> np.ndarray:
        try:
            return np.empty(nbytes, np.uint8)
        except (MemoryError, ValueError):
            raise BackendError(f"{nbytes} bytes cannot be allocated") from None

    def pointer(self, name: str, handle: np.ndarray, dtype: DType, offset: int) -> Buffer:
        size = dtype.itemsize
        whole = handle[offset % size :]
        return Buffer(name, whole[: whole.size // size * size].view(dtype.numpy), offset // size, dtype)

    def borrow(self, span: np.ndarray) -> np.ndarray:
        return span

    def give_back(self, handle: np.ndarray, span: np.ndarray) -> None:
        pass

    def write(self, handle: np.ndarray, data: np.ndarray) -> None:
        handle[: data.nbytes] = data.reshape(-1).view(np.uint8)

    def read(self, handle: np.ndarray, out: np.ndarray) -> None:
        out.reshape(-1).view(np.uint8)[...] = handle[: out.nbytes]

    def finish(self, stream: object) -> None:
        pass

    def synchronize(self) -> None:
        pass
