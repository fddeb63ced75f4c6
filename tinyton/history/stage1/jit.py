"""`@jit`: a Python function becomes a kernel, compiled when it is first launched with arguments of new types."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from . import backends
from ._later import LATER
from .arrays import DeviceArray, to_device
from .codegen.emitter import Emitter
from .dtypes import bool_, float64, from_numpy, int32, int64
from .errors import KernelTypeError, LaunchError
from .frontend import capture, trace
from .ir import Type


class CompiledKernel:
    """One compiled variant of a kernel, for one list of argument types."""

    def __init__(self, kernel: Any, executor: Any):
        emitter = Emitter(kernel, executor.dialect)
        self.name, self.ir, self.executor, self.threads = kernel.name, kernel, executor, emitter.threads
        if self.threads > executor.max_threads:
            raise LaunchError(
                f"{self.name} has tiles of {self.threads} elements, one thread each; this device runs "
                f"{executor.max_threads} threads a program"
            )
        self.source = emitter.source()
        self.loaded = executor.build(emitter.symbol, self.source)

    def __getattr__(self, name: str) -> object:
        if name in LATER:
            raise AttributeError(f"{name} is not in this stage: it arrives in {LATER[name]}")
        raise AttributeError(f"a compiled kernel has no {name}")


def describe(name: str, x: Any) -> tuple[Type, Any]:
    """The type of an argument in the kernel, and the argument as it is passed."""
    if isinstance(x, (DeviceArray, np.ndarray)):
        return Type(from_numpy(x.dtype), (), True), x
    if isinstance(x, (bool, np.bool_)):
        return Type(bool_), np.uint8(x)
    if isinstance(x, (int, np.integer)):
        dtype = int32 if -(1 << 31) <= x < 1 << 31 else int64
        return Type(dtype), dtype.numpy.type(x)
    if isinstance(x, (float, np.floating)):
        return Type(float64), np.float64(x)
    raise KernelTypeError(f"argument {name} is a {type(x).__name__}; a kernel takes arrays, ints, floats and bools")


def as_grid(grid: Any, limits: tuple[int, ...]) -> tuple[int, int, int]:
    """A grid as three numbers, checked against the device's limits. An int is one axis."""
    axes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    for axis, n in enumerate(axes):
        if not hasattr(n, "__index__") or not 0 <= n <= limits[axis]:
            raise LaunchError(f"axis {axis} of the grid is {n!r}; it must be an int from 0 to {limits[axis]}")
    return (*(int(n) for n in axes), 1, 1)[:3]  # type: ignore[return-value]


class JITFunction:
    """A kernel. ``kernel[grid](*args)`` launches it."""

    def __init__(self, function: Callable):
        self.source = capture(function)
        self._cache: dict[tuple, CompiledKernel] = {}
        update_wrapper(self, function)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._launch, grid)

    def compile(self, *args: Any) -> CompiledKernel:
        """The variant for the types of these arguments, compiled but not run."""
        names, executor = self.source.params, backends.current()
        if len(args) != len(names):
            raise LaunchError(f"{self.source.name} takes {len(names)} arguments ({', '.join(names)}), not {len(args)}")
        types = {name: describe(name, x)[0] for name, x in zip(names, args, strict=True)}
        key = (executor.name, *types.values())
        if key not in self._cache:
            weak = frozenset(name for name, t in types.items() if t == Type(float64))
            self._cache[key] = CompiledKernel(trace(self.source, types, weak), executor)
        return self._cache[key]

    def _launch(self, grid: Any, *args: Any) -> None:
        """Runs the variant. NumPy arrays are copied to the device, and back when the kernel is done."""
        compiled = self.compile(*args)
        executor, where = compiled.executor, as_grid(grid, compiled.executor.max_grid)
        if 0 in where:
            return
        copies = {id(x): to_device(x) for x in args if isinstance(x, np.ndarray)}
        passed = [copies.get(id(x), x) for x in args]
        payload = [x.handle if isinstance(x, DeviceArray) else describe("", x)[1] for x in passed]
        executor.launch(compiled.loaded, where, compiled.threads, payload)
        for x in args:
            if id(x) in copies and x.flags.writeable:
                x[...] = copies[id(x)].numpy()


def jit(function: Callable) -> JITFunction:
    """Makes a kernel of a function; it is compiled for the types of its arguments when it is launched."""
    return JITFunction(function)
