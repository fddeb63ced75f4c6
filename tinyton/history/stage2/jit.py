"""`@jit`: a Python function becomes a kernel, compiled once for the types of its arguments and its constexpr values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from types import ModuleType
from typing import Any

import numpy as np

from . import backends
from ._later import LATER
from .arrays import DeviceArray, check_host, host_spans, memory
from .codegen.dialect import OPENCL
from .codegen.lower import Lowered, front, lower
from .dtypes import from_numpy
from .errors import KernelTypeError, LaunchError
from .frontend import capture
from .frontend.tracer import plain
from .language import LanguageFunction
from .specialize import BOOL, FLOAT, Arg, Specialization, exact, integer


class CompiledKernel:
    """One compiled variant of a kernel: what was generated. Made by ``kernel.compile(...)``."""

    def __init__(self, name: str, spec: Specialization, low: Lowered, executor: Any):
        self.name, self.specialization, self.low, self.executor = name, spec, low, executor
        self.ir, self.source, self.threads, self.constants = low.ir, low.source, low.threads, dict(spec.constants)
        self.launch_threads = self.threads
        self.loaded = executor.build(low)

    @property
    def ptx(self) -> str:
        """The PTX (cuda)."""
        return self.executor.ptx(self)

    def __getattr__(self, name: str) -> object:
        if name in LATER:
            raise AttributeError(f"{name} is not in this stage: it arrives in {LATER[name]}")
        raise AttributeError(f"a compiled kernel has no {name}")


def describe(name: str, x: Any, executor: Any) -> tuple[Arg, Any]:
    """What the compiler needs to know about an argument, and what the executor needs to pass it."""
    if isinstance(x, DeviceArray):
        return Arg("pointer", x.dtype, True), executor.pointer(name, x.handle, x.dtype, 0)
    if isinstance(x, np.ndarray):
        return Arg("pointer", check_host(name, x), x.__array_interface__["data"][0] % 16 == 0), x
    if isinstance(x, (bool, np.bool_)):
        return BOOL, bool(x)
    if isinstance(x, (int, np.integer)):
        return integer(int(x)), int(x)
    if isinstance(x, (float, np.floating)):
        return FLOAT, float(x)
    raise KernelTypeError(f"argument {name} is a {type(x).__name__}; a kernel takes arrays, ints, floats and bools")


def as_grid(grid: Any, meta: dict[str, object], limits: dict[str, int]) -> tuple[int, int, int]:
    """A grid as three numbers, checked against the device's limits. An int is one axis; a callable gets the kernel's
    constexpr values by name."""
    grid = grid(meta) if callable(grid) else grid
    axes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    for axis, n in enumerate(axes):
        limit = limits["xyz"[axis]]
        if not hasattr(n, "__index__") or not 0 <= n <= limit:
            raise LaunchError(f"axis {axis} of the grid is {n!r}; it must be an int from 0 to {limit}")
    return (*(int(n) for n in axes), 1, 1)[:3]  # type: ignore[return-value]


class JITFunction:
    """A kernel. ``kernel[grid](*args, **meta)`` launches it; ``kernel.compile(*args, **meta)`` compiles it only."""

    def __init__(self, function: Callable):
        self.source = capture(function)
        self.names = [p.name for p in self.source.params]
        self.runtime = [n for n in self.names if n not in self.source.constexprs]
        self._cache: dict[tuple, CompiledKernel] = {}
        self._used: dict[tuple, frozenset[str]] = {}  # the arguments whose divisibility by 16 makes another variant
        update_wrapper(self, function)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._launch, grid)

    def compile(self, *args: Any, **meta: Any) -> CompiledKernel:
        """The variant for these arguments, compiled but not run."""
        return self._variant(args, meta)[0]

    def _bind(self, args: tuple, named: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name, with defaults; says what is missing, unknown or given twice."""
        bound = {p.name: p.default for p in self.source.params if p.default is not p.empty}
        if len(args) > len(self.names):
            raise LaunchError(f"{self.source.name} takes {len(self.names)} arguments ({', '.join(self.names)})")
        given = dict(zip(self.names, args, strict=False))
        for name in named:
            if name in LATER:
                raise LaunchError(f"{name} is not in this stage: it arrives in {LATER[name]}")
            if name in given or name not in self.names:
                raise LaunchError(f"{self.source.name} got {name}{' twice' if name in given else ', which it has not'}")
        bound |= given | named
        if missing := [n for n in self.names if n not in bound]:
            raise LaunchError(f"{self.source.name} is missing {', '.join(missing)}")
        return bound

    def _variant(self, args: tuple, named: dict[str, Any]) -> tuple[CompiledKernel, list[Any], dict[str, object]]:
        """The compiled kernel for these arguments, what to pass it, and its constexpr values. A new value of a
        constexpr is a new kernel; the same value is a look-up."""
        executor, bound = backends.current(), self._bind(args, named)
        described = {n: describe(n, bound[n], executor) for n in self.runtime}
        meta = {n: plain(bound[n], n) for n in self.names if n in self.source.constexprs}
        kinds = tuple((a.kind, a.dtype, a.divisible and a.kind == "pointer") for a, _ in described.values())
        baked = tuple((n, exact(v)) for n, v in (*meta.items(), *self._outside().items()))
        try:
            used = self._used.get((executor.key(), kinds, baked), frozenset())
        except TypeError:
            raise KernelTypeError(f"a constexpr or a global of {self.source.name} cannot be part of a key") from None
        key = (executor.key(), kinds, baked, tuple(described[n][0].divisible for n in sorted(used)))
        if key not in self._cache:
            spec = Specialization(tuple((n, a) for n, (a, _) in described.items()), tuple(meta.items()))
            kernel = front(self.source, spec)
            # >>> stage 3
            threads = executor.default_threads(kernel)
            low = lower(kernel, spec, threads, executor.dialect or OPENCL, getattr(executor, "attribute", no_attribute))
            if threads > 1 and low.shared_bytes > executor.limits["shared"]:
                raise LaunchError(f"{low.name} needs {low.shared_bytes} bytes of shared memory a program; use less")
            if threads == 1 and low.private_bytes > executor.limits["private"]:
                raise LaunchError(f"{low.name} keeps {low.private_bytes} bytes of tiles in one thread; use less")
            self._used[key[:3]] = low.divisors_used
            key = (*key[:3], tuple(described[n][0].divisible for n in sorted(low.divisors_used)))
            # === before
            # low = lower(kernel, spec, 0, executor.dialect or OPENCL, getattr(executor, "attribute", no_attribute))
            # if low.threads > executor.limits["threads"]:
            #     raise LaunchError(
            #         f"{low.name} has tiles of {low.threads} elements, one thread each; this device runs "
            #         f"{executor.limits['threads']} threads a program"
            #     )
            # <<<
            self._cache[key] = CompiledKernel(self.source.name, spec, low, executor)
        return self._cache[key], [payload for _, payload in described.values()], meta

    def _outside(self) -> dict[str, object]:
        """The values that the kernel reads from its module or closure now, apart from modules and the language."""
        scope, found = self.source.scope(), {}
        for path in self.source.outside:
            root, *rest = path.split(".")
            value = scope.get(root)
            for word in rest:
                value = getattr(value, word, None)
            if value is not None and not isinstance(value, (ModuleType, LanguageFunction, np.ndarray)):
                found[path] = value
        return found

    def _launch(self, grid: Any, *args: Any, **named: Any) -> None:
        """Runs the variant. NumPy arguments are moved to the device; those that the kernel stores to, back."""
        compiled, payloads, meta = self._variant(args, named)
        executor, where = compiled.executor, as_grid(grid, meta, compiled.executor.limits)
        if 0 in where:
            return
        hosts = {n: p for n, p in zip(self.runtime, payloads, strict=True) if isinstance(p, np.ndarray)}
        places = host_spans(hosts)
        lent = {span: (executor.borrow(memory(*span)), memory(*span)) for span, _ in places.values()}
        passed = dict(zip(self.runtime, payloads, strict=True))
        for n, p in hosts.items():
            if n in compiled.low.stored and not p.flags.writeable:
                raise LaunchError(f"argument {n} is read-only, but the kernel stores to it")
            span, first = places[n]
            passed[n] = executor.pointer(n, lent[span][0], from_numpy(p.dtype), first)
        executor.launch(compiled, where, list(passed.values()))
        if hosts:
            executor.synchronize()
        for span in {places[n][0] for n in hosts if n in compiled.low.stored}:
            executor.give_back(*lent[span])


def no_attribute(threads: int) -> str:
    return ""


def jit(function: Callable) -> JITFunction:
    """Makes a kernel of a function; it is compiled for the types of its arguments when it is launched.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def double(x, n, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(x + i, 2 * tt.load(x + i, mask=i < n), mask=i < n)
    """
    return JITFunction(function)
