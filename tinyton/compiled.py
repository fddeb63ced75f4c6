"""A compiled variant of a kernel, and how its arguments reach the executor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from . import dtypes
from .arrays import DeviceArray, check_host, host_spans, memory

# >>> stage 9
from .backends.maps import Unmapped

# <<<
from .codegen.lower import Lowered
from .dtypes import from_numpy
from .errors import KernelTypeError, LaunchError, TinytonError
from .frontend import Source
from .launch import LaunchConfig, as_grid

# >>> stage 7
from .ops.debug import logged

# === before
# logged = None
# <<<
from .specialize import BOOL, FLOAT, Arg, Specialization, integer

POINTERS = {(d, aligned): Arg("pointer", d, aligned) for d in dtypes.ALL for aligned in (False, True)}


def _of_low(what: str, doc: str) -> property:
    """What the lowered kernel has under this name."""
    return property(attrgetter(f"low.{what}"), doc=doc)


class Variant:
    """One variant of a kernel, for certain types and constexpr values: what was generated from it."""

    def __init__(self, python: Source, spec: Specialization, low: Lowered):
        self.name, self.python, self.specialization, self.low = python.name, python, spec, low

    source = _of_low("source", "The generated CUDA C++ or OpenCL C.")
    ir = _of_low("ir", "The tile IR, after all passes.")
    threads = _of_low("threads", "Threads a program, without those that only copy for it.")
    programs_per_block = _of_low(
        "programs_per_block", "Programs that share a hardware block: several where tiles are too small for 128 threads."
    )

    # >>> stage 9
    num_ctas = _of_low("ctas", "Blocks a cluster, which run a program together; `occupancy` counts each.")
    # === before
    # num_ctas = 1
    # <<<

    @property
    def size(self) -> str:
        """Threads and programs, in words."""
        shared = f", {self.programs_per_block} programs a block" if self.programs_per_block > 1 else ""
        shared += f", {self.num_ctas} blocks a program" if self.num_ctas > 1 else ""
        return f"{self.threads} thread{'s' * (self.threads > 1)}{shared}"

    @property
    def constants(self) -> dict[str, object]:
        """The constexpr values that are baked in."""
        return {n: x for n, x in self.specialization.constants if n in self.python.constexprs or x is None}

    def explain(self, html: Any = None) -> Any:
        """Every stage of this kernel's way, printed: source, IR, layouts, C, PTX; with ``html``, a path, as a page."""
        from .explain import explain

        return explain(self, html)


def _of_device(what: str, doc: str) -> cached_property:
    """What the executor knows of a kernel, if it is cuda."""

    def get(self: CompiledKernel) -> Any:
        if not hasattr(self.executor, what):
            raise TinytonError(f".{what} is for the cuda backend; this kernel was compiled for {self.executor.name}")
        return getattr(self.executor, what)(self)

    get.__doc__ = doc
    return cached_property(get)


class CompiledKernel(Variant):
    """One compiled variant of a kernel: what was generated, and what it costs. Made by ``kernel.compile(...)``."""

    def __init__(self, python: Source, spec: Specialization, low: Lowered, executor: Any):
        super().__init__(python, spec, low)
        self.executor = executor
        self.loaded, self.device = executor.build(low), executor.key()
        self.stored = low.stored
        self.launch_block = low.block
        self.hidden = low.ir.params[len(spec.args) :]  # the logs of prints and asserts

    @property
    def num_warps(self) -> int:
        return -(-self.threads // 32)

    @cached_property
    def reqntid(self) -> tuple[int, int, int]:
        """The block that the binary demands, read back out of it: threads of a program, and those that copy for it,
        programs of a block, 1."""
        return self.executor.read_block(self.loaded) if self.loaded is not None else self.low.block

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared (local) memory a program."""
        return self.low.shared_bytes if self.threads > 1 else 0

    @property
    def scratch_bytes(self) -> int:
        """Bytes of global scratch memory a program: none is used."""
        return 0

    ptx = _of_device("ptx", "The PTX (cuda).")
    sass = _of_device("sass", "The machine code (cuda), disassembled when it is first asked for.")
    registers = _of_device("registers", "Registers a thread (cuda).")
    spills = _of_device("spills", "Bytes of local memory a thread, where registers were not enough (cuda).")
    occupancy = _of_device("occupancy", "Programs a multiprocessor holds at once, and what limits it (cuda).").func

    def launch(self, config: LaunchConfig, *args: object) -> None:
        """Runs this variant: a `LaunchConfig` and all run-time arguments in order."""
        if not isinstance(config, LaunchConfig):
            raise LaunchError(f"launch takes LaunchConfig.with_grid(grid, compiled), say, first; not {config!r}")
        names = [name for name, _ in self.specialization.args]
        if len(args) != len(names):
            takes = f"{self.name} takes {len(names)} run-time arguments ({', '.join(names)})"
            raise LaunchError(f"{takes}, {len(args)} were given")
        described = {name: describe(name, x, self.executor) for name, x in zip(names, args, strict=True)}
        for name, wanted in self.specialization.args:
            given, _ = described[name]
            if (given.kind, given.dtype) != (wanted.kind, wanted.dtype) or (wanted.divisible and not given.divisible):
                raise LaunchError(f"argument {name} is {given}, but this variant was compiled for {wanted}")
        block = config.block_for(self)
        grid = as_grid(config.grid, self.constants, self.executor.limits)
        run(self, grid, {name: payload for name, (_, payload) in described.items()}, None, block)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """``compiled[grid](*args)``, as Triton has it: with all parameters in order, or only the run-time ones."""
        names = [p.name for p in self.python.params]
        passed = {name for name, _ in self.specialization.args}

        def launch(*args: object) -> None:
            if len(args) == len(names):
                args = tuple(x for name, x in zip(names, args, strict=True) if name in passed)
            self.launch(LaunchConfig.with_grid(grid, self), *args)

        return launch

    # >>> stage 9
    @cached_property
    def plain(self) -> CompiledKernel:
        """The same without copies of boxes, for arrays that cannot be described for those."""
        assert self.low.plain
        return CompiledKernel(self.python, self.specialization, self.low.plain(fed=False), self.executor)

    def fitting(self, args: list[Any]) -> CompiledKernel:
        """This variant, or the plain one if these arguments need that."""
        try:
            if self.low.maps:
                self.loaded.pack(*args)
        except Unmapped:
            return self.plain
        return self

    # <<<
    def __repr__(self) -> str:
        return f"<{self.name}({self.specialization}), {self.size}, {self.executor.name}>"


def describe(name: str, x: Any, executor: Any) -> tuple[Arg, Any]:
    """What the compiler needs to know about an argument, and what the executor needs to pass it."""
    if isinstance(x, DeviceArray):
        if x.executor is not executor:
            what = f"argument {name} is an array of the {x.executor.name} backend"
            raise LaunchError(f"{what}; this launch is on {executor.name}")
        return POINTERS[x.dtype, True], (x.handle, x.dtype, 0)
    if isinstance(x, (bool, np.bool_)):
        return BOOL, bool(x)
    if isinstance(x, (int, np.integer)):
        value = int(x)
        if not -(1 << 63) <= value < 1 << 63:
            raise LaunchError(f"argument {name} is {value}, which does not fit int64")
        return integer(value), value
    if isinstance(x, (float, np.floating)):
        return FLOAT, float(x)
    if isinstance(x, np.ndarray):
        element = check_host(name, x)
        return POINTERS[element, x.__array_interface__["data"][0] % 16 == 0], x
    found = executor.foreign(name, x) if hasattr(executor, "foreign") else None
    if found is None:
        what = f"argument {name} is a {type(x).__name__}"
        raise KernelTypeError(f"{what}; a kernel takes arrays, ints, floats, bools and None")
    element, aligned, payload = found
    return POINTERS[from_numpy(element), aligned], payload


def run(
    compiled: CompiledKernel,
    grid: tuple[int, int, int],
    passed: dict[str, Any],
    stream: Any,
    block: tuple[int, int, int] | None,
) -> None:
    """Hands a launch to the executor; NumPy arguments are moved there and back. ``passed``: payloads by name."""
    if 0 in grid:
        return
    executor, args = compiled.executor, list(passed.values())
    if compiled.device != executor.key():  # in a forked process
        compiled.loaded, compiled.device = executor.build(compiled.low), executor.key()
    hosts = {n: p for n, p in passed.items() if isinstance(p, np.ndarray)}
    places = host_spans(hosts)
    writes = {places[n][0] for n in hosts if n in compiled.stored}
    for name, p in hosts.items():
        if name in compiled.stored and not p.flags.writeable:
            raise LaunchError(f"argument {name.removesuffix('.data')} is read-only, but the kernel stores to it")
    bytes_ = {span: memory(*span) for span, _ in places.values()}
    lent = {span: executor.borrow(view) for span, view in bytes_.items()}
    for k, (name, p) in enumerate(passed.items()):
        if name in places:
            span, at = places[name]
            args[k] = executor.pointer(name, lent[span], from_numpy(p.dtype), at)
        elif type(p) is tuple:
            args[k] = executor.pointer(name, *p)
    # >>> stage 9
    if (fitting := compiled.fitting(args)) is not compiled:
        compiled, block = fitting, None
    # <<<
    if block is not None:
        compiled = copy(compiled)  # another thread may be launching it with a block of its own
        compiled.launch_block = block
    with logged(compiled, args, stream) if compiled.hidden else nullcontext():
        try:
            executor.launch(compiled, grid, args, stream)
            if hosts:
                executor.finish(stream)
        except KeyboardInterrupt:  # the kernel may still be running, in the memory of the arrays
            executor.finish(stream)
            raise
        for span in writes:
            executor.give_back(lent[span], bytes_[span])
