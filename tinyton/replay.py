"""A launch replayed in NumPy over copies of its arguments, as the threads of a GPU would make it.

The interpreter says which elements a program touches; the plan of the kernel says which thread and which register holds
each, and how many a thread takes at once. Together they give every access of every warp, with its addresses: what
`tt.count` adds up and what `tt.viz.access` draws.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from . import backends
from .arrays import DeviceArray, host_spans, memory
from .backends import interpreter
from .backends.interpreter import Buffer
from .codegen.dialect import CUDA, Dialect, launch_bounds
from .codegen.lower import Lowered, front, lower
from .dtypes import DType, from_numpy, uint64
from .errors import LaunchError
from .ir import Kernel, Op
from .jit import OPTIONS, JITFunction
from .launch import LaunchConfig, as_grid, check_options
from .layout import Layout, blocked
from .ops import OPS
from .ops.convert import lanes, pitched
from .passes.plan import padded
from .passes.threads import choose_threads
from .specialize import Arg, Specialization

LIMITS = interpreter.Executor.limits  # the threads and the grid of every CUDA device
WARP = 32


@dataclass(frozen=True)
class Access:
    """One load or store, made by one program, or by the programs that share a warp, of which ``program`` is the first.
    ``places`` are element numbers in ``array`` and ``on`` says which are touched, both of shape (threads, accesses of a
    thread, elements of an access)."""

    verb: str
    op: Op
    program: tuple[int, int, int]
    array: str
    dtype: DType
    places: np.ndarray
    on: np.ndarray
    elements: int  # of the tile, padding included; those that are on
    active: int
    shared: bool = False  # in shared memory: the program's buffer, or a tile on its way to another layout

    def warps(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """What the warps execute, as (places, on) of shape (warps, instructions, lanes, elements): the vector accesses
        of the lanes whose vector is whole, then, for the other lanes, one access an element."""
        lanes = min(WARP, len(self.on))
        shape = (-1, lanes, *self.on.shape[1:])
        places, on = (x.reshape(shape).transpose(0, 2, 1, 3) for x in (self.places, self.on))
        whole = on.all(-1, keepdims=True) if on.shape[-1] > 1 else np.zeros((*on.shape[:-1], 1), bool)
        yield places, on & whole
        for k in range(on.shape[-1]):
            yield places[..., k : k + 1], (on & ~whole)[..., k : k + 1]


def replay(
    kernel: JITFunction,
    grid: Any,
    args: tuple,
    meta: dict[str, Any],
    see: Callable[[Access], None],
    only: Callable[[tuple[int, int, int], int], Iterable[tuple[int, int, int]]],
    ops: Callable[[tuple[int, int, int], Op], None] = lambda program, op: None,
) -> tuple[Lowered, tuple[int, int, int]]:
    """Runs ``kernel[grid](*args, **meta)`` over copies of its arrays and shows every access to ``see``. ``only`` picks
    what runs, given the grid and how many programs share a warp: of those, the first. ``ops`` is shown every op that a
    program runs. Returns the kernel as it was lowered for a GPU, and the grid."""
    _, low, cells, copies = prepare(kernel, grid, args, meta)
    several = max(1, WARP // low.threads) if low.programs_per_block > 1 else 1
    for x, y, z in only(cells, several):
        together: dict[tuple[Op, int], dict[int, Access]] = {}  # by op and how often it has been run
        for k in range(min(several, cells[0] - x)):
            program, times = (x + k, y, z), Counter[Op]()

            def watch(verb: str, op: Op, buffer: Any, at: Any, on: Any, k=k, program=program, times=times) -> None:
                if verb == "op":
                    ops(program, op)
                    for one in _moved(low, op, program) if op.name == "convert" else ():
                        see(one)
                    return
                access = _access(low, verb, op, program, buffer, at, on)
                if several == 1:
                    return see(access)
                times[op] += 1
                together.setdefault((op, times[op]), {})[k] = access  # noqa: B023

            interpreter.run(low.ir, copies, cells, [program], watch)
        for accesses in together.values():
            see(_joined(accesses, (x, y, z), several))
    return low, cells


def _joined(accesses: dict[int, Access], program: tuple[int, int, int], several: int) -> Access:
    """What the programs of a warp execute together, by their number in it. Of some there may be nothing."""
    one = next(iter(accesses.values()))
    places, on = (np.zeros((several, *one.on.shape), dtype) for dtype in (np.int64, bool))
    for k, access in accesses.items():
        places[k], on[k] = access.places, access.on
    shape = (-1, *one.on.shape[1:])
    sums = {n: sum(getattr(a, n) for a in accesses.values()) for n in ("elements", "active")}
    return dataclasses.replace(one, program=program, places=places.reshape(shape), on=on.reshape(shape), **sums)


def prepare(
    kernel: JITFunction, grid: Any, args: tuple, meta: dict[str, Any]
) -> tuple[Kernel, Lowered, tuple[int, int, int], list[Any]]:
    """The IR of a launch, as it comes and as it is lowered for a GPU, the grid, and the copies to run on."""
    executor = backends.current()
    bound, spec, ir, low = for_gpu(kernel, args, meta, lambda n, x: kernel.describe(n, x, executor)[0])
    cells = as_grid(grid.grid if isinstance(grid, LaunchConfig) else grid, bound, LIMITS)
    described = dict(spec.args)
    logs = [Buffer(v.name, np.zeros(8, np.uint8), v.type.dtype, 0) for v in ir.params[len(described) :]]  # without room
    return ir, low, cells, [*_copies({n: bound[n] for n in described}, described, executor), *logs]


def for_gpu(
    kernel: JITFunction,
    args: tuple,
    named: Mapping[str, Any],
    describe: Callable[[str, Any], Arg],
    share: bool = True,
    dialect: Dialect = CUDA,
    fed: bool = True,
    **changed: Any,
) -> tuple[dict[str, Any], Specialization, Kernel, Lowered]:
    """A kernel as it is lowered for a GPU, which need not be here: its arguments by name, its variant, its IR as it
    comes, and lowered. ``describe(name, x)`` says of what type a run-time argument is; without ``share`` a program has
    a block to itself; ``dialect`` is for a card or for any; ``fed`` is as in `lower`; ``changed`` are fields of the
    source to be changed."""
    if not isinstance(kernel, JITFunction):
        raise LaunchError(f"expected a kernel (a function under @tt.jit), not {kernel!r}")
    options = {k: named.get(k) for k in OPTIONS}
    bound = kernel._bind(args, {n: x for n, x in named.items() if n not in OPTIONS}, options)
    constants = kernel.constants(bound)
    described = {n: describe(n, x) for n, x in bound.items() if n not in constants}
    spec = Specialization(tuple(described.items()), tuple(constants.items()))
    ir = front(dataclasses.replace(kernel.source, **changed), spec)
    asked = check_options(options, LIMITS["threads"])
    how = asked.threads or choose_threads(ir), dialect, launch_bounds, share and not asked.threads, asked.stages, fed
    return bound, spec, ir, lower(ir, spec, *how, ctas=asked.ctas)


def _copies(arguments: dict[str, Any], described: dict[str, Any], executor: Any) -> list[Any]:
    """What the interpreter runs on: numbers as they are, arrays copied, those that overlap still overlapping."""
    hosts = host_spans({n: x for n, x in arguments.items() if isinstance(x, np.ndarray)})
    spans = {span: memory(*span).copy() for span, _ in hosts.values()}
    taken: dict[int, np.ndarray] = {}
    out: list[Any] = []
    for name, x in arguments.items():
        if described[name].kind != "pointer":
            out.append(x)
        elif isinstance(x, np.ndarray):
            span, first = hosts[name]
            out.append(Buffer(name, spans[span], from_numpy(x.dtype), first))
        else:
            where, nbytes, first = place(executor, name, x)
            key = where if isinstance(where, int) else id(where)
            if key not in taken:
                taken[key] = np.zeros(nbytes, np.uint8)
                if nbytes:
                    executor.read(where, taken[key])
            out.append(Buffer(name, taken[key], described[name].dtype, first))
    return out


def place(executor: Any, name: str, x: Any) -> tuple[Any, int, int]:
    """Where a device array is: its memory, the length of that in bytes, and the byte where the array starts."""
    if isinstance(x, DeviceArray):
        return x.handle, x.nbytes, 0
    where = executor.foreign(name, x)[2]
    if isinstance(where, tuple):  # PyOpenCL's
        return where[0], where[0].size if x.size else 0, where[2]
    if hasattr(x, "element_size"):  # torch's
        size, strides = x.element_size(), [s * x.element_size() for s in x.stride()]
    else:
        size, strides = from_numpy(x.dtype).itemsize, x.strides
    last = sum((n - 1) * s for n, s in zip(x.shape, strides, strict=True))
    return where, last + size if prod(x.shape) else 0, 0


def _access(low: Lowered, verb: str, op: Op, program: Any, buffer: Any, places: Any, on: np.ndarray) -> Access:
    layout, width = op_layout(low, op), low.plan.vectors.get(op, 1)
    index, inside = _elements(layout, tuple(op.operands[0].type.shape))
    mine = np.ones(layout.threads, bool)
    if OPS[op.name].writes:
        mine = (np.arange(layout.threads) & layout.copies) == 0
    shape = (layout.threads, layout.registers // width, width)
    touched = (on.reshape(-1)[index] & inside & mine[:, None]).reshape(shape)
    where = np.zeros(shape, np.int64) if places is None else np.asarray(places).reshape(-1)[index].reshape(shape)
    array, pointer = buffer.name if buffer else "", op.operands[0].type
    sizes = prod(layout.shape), int(on.sum())
    return Access(verb, op, program, array, pointer.dtype, where, touched, *sizes, pointer.shared)


def _moved(low: Lowered, op: Op, program: Any) -> Iterator[Access]:
    """What a tile's way to another layout makes of accesses to shared memory: none if it goes by shuffles."""
    (x,) = op.operands
    source = low.plan.layouts.get(x) or blocked(padded(x.type.shape), low.threads)
    target = low.plan.layouts[op.result]
    if lanes(source, target):
        return
    dtype = uint64 if x.type.pointer else x.type.dtype.register
    for verb, layout in (("store", source), ("load", target)):
        places = _pitched(layout, source.shape)
        on = np.ones(places.shape, bool)
        if verb == "store":
            on &= ((np.arange(layout.threads) & layout.copies) == 0)[:, None, None]
        sizes = prod(source.shape), prod(source.shape)
        yield Access(verb, op, program, op.result.name or "a tile", dtype, places, on, *sizes, True)


@cache
def _pitched(layout: Layout, shape: tuple[int, ...]) -> np.ndarray:
    """Where in shared memory each register of each thread is written to or read from."""
    extents = pitched(shape)
    return (coordinates(layout) @ np.array([prod(extents[d + 1 :]) for d in range(len(extents))], np.int64))[..., None]


def op_layout(low: Lowered, op: Op) -> Layout:
    """Which thread and register holds which element of what a load or a store moves."""
    if not op.operands[0].type.shape:
        return Layout((), (), ((),) * (low.threads.bit_length() - 1))
    return low.plan.layouts[op.result] if op.results else low.plan.anchors[op]


@cache
def coordinates(layout: Layout) -> np.ndarray:
    """The coordinates of the element in each register of each thread: int64[threads, registers, dimensions]."""

    def sums(bits: tuple) -> np.ndarray:
        out = np.zeros((1, len(layout.shape)), np.int64)
        for basis in bits:
            out = np.concatenate([out, out + np.array(basis, np.int64)])
        return out

    return sums(layout.thread)[:, None] + sums(layout.reg)[None]


@cache
def _elements(layout: Layout, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """For each thread and register: the element's place in a row-major tile of ``shape``, and whether it is in it and
    not padding."""
    at = coordinates(layout)
    inside = (at < np.array(shape, np.int64)).all(-1)
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    return np.where(inside, at @ np.array(strides, np.int64), 0), inside
