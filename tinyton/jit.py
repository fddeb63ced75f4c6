"""`@jit`: a Python function becomes a kernel, compiled when it is first launched with arguments of new types."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cached_property, partial, update_wrapper
from typing import Any

from . import backends
from .codegen.lower import Lowered, front, lower
from .compiled import CompiledKernel, describe, run
from .dispatch import MISSING, OPTIONS, ROUTES, Route, entrance, usable
from .errors import KernelTypeError, LaunchError, TinytonError
from .frontend import Source, capture
from .frontend.tracer import plain
from .launch import LaunchConfig, as_grid, check_options
from .specialize import Arg, Specialization, exact


class Variants(dict):
    """The compiled variants of a kernel by key. Clearing it forgets the short ways to them too."""

    def __init__(self, kernel: JITFunction):
        super().__init__()
        self.kernel = kernel

    def clear(self) -> None:
        super().clear()
        self.kernel.forget()


class JITFunction:
    """A kernel. ``kernel[grid](*args, **meta)`` launches it; ``kernel.compile(*args, **meta)`` compiles it only."""

    def __init__(self, function: Callable):
        self.source: Source = capture(function)
        update_wrapper(self, function)
        self.names = [p.name for p in self.source.params]
        self.runtime = [n for n in self.names if n not in self.source.constexprs]
        for word in OPTIONS:
            if word in self.names:
                raise KernelTypeError(
                    f"{word} is an option of every launch; give the parameter another name",
                    self.source.loc(self.source.tree),
                )
        self._cache: dict[tuple, CompiledKernel] = Variants(self)
        self._used: dict[tuple, tuple[int, ...]] = {}
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Forgets the short ways of launches."""
        self._routes: list[Route] = []
        self._enter = entrance(self, [])

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise LaunchError(f"a kernel is launched over a grid: {self.source.name}[grid](...)")

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._enter, grid)

    def __repr__(self) -> str:
        return f"<kernel {self.source.name}({', '.join(self.names)})>"

    @cached_property
    def watched(self) -> list[str]:
        """The names outside the kernel whose values belong to its key: all but those of the language itself."""
        scope, package = self.source.scope(), __name__.split(".")[0]
        roots = {path: getattr(scope.get(path.split(".")[0]), "__name__", "") for path in self.source.outside}
        return [path for path, root in roots.items() if str(root).split(".")[0] != package]

    def launch(self, grid: Any, args: tuple, named: dict[str, Any], options: tuple) -> None:
        """The long way of a launch: binds, checks, compiles if need be, moves NumPy arrays, and runs."""
        try:
            bound = self._bind(args, named)
            compiled, described, meta = self._variant(bound, dict(zip(OPTIONS, options, strict=True)))
            config = grid if isinstance(grid, LaunchConfig) else None
            threads = config.threads_for(compiled) if config else None
            where = as_grid(config.grid if config else grid, meta, compiled.executor.limits)
            run(compiled, where, self.runtime, [p for _, p in described], options[-1], threads)
            if all(a.divisible for a, _ in described if a.kind == "pointer"):
                self._learn(bound, options, compiled)
        except TinytonError as error:
            raise error.with_traceback(None) from None

    def _learn(self, bound: dict[str, Any], options: tuple, compiled: CompiledKernel) -> None:
        """Remembers a launch, so that the next one like it takes the short way."""
        classes = tuple(bound[n].__class__ for n in self.runtime)
        if not usable(classes, compiled.executor):
            return
        constants = [bound[n] for n in self.source.constexprs] + [v for _, v in self._read_outside(self.watched)]
        if any(exact(v) != (type(v), v) for v in constants):
            return
        route = next((r for r in self._routes if r.classes == classes), None)
        if route is None:
            route = Route(self, classes)
            self._routes = [route, *self._routes][:ROUTES]
            self._enter = entrance(self, self._routes, compiled.executor)
        route.learn(tuple(bound[n] for n in self.names), options, compiled)

    def compile(self, *args: object, **kwargs: Any) -> CompiledKernel:
        """The variant for these arguments, compiled but not run."""
        try:
            options = {k: kwargs.pop(k, None) for k in OPTIONS}
            return self._variant(self._bind(args, kwargs), options)[0]
        except TinytonError as error:
            raise error.with_traceback(None) from None

    def _bind(self, args: tuple, named: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name, with defaults; says what is missing, unknown or given twice."""
        name = self.source.name
        if len(args) > len(self.names):
            raise LaunchError(
                f"{name} takes {len(self.names)} arguments ({', '.join(self.names)}), {len(args)} were given"
            )
        bound = {n: x for n, x in zip(self.names, args, strict=False) if x is not MISSING}
        for key, value in named.items():
            if key not in self.names:
                raise LaunchError(
                    f"{name} has no parameter {key}; it takes {', '.join(self.names)}, and {', '.join(OPTIONS)}"
                )
            if key in bound:
                raise LaunchError(f"{name} got {key} twice, by position and by name")
            bound[key] = value
        for p in self.source.params:
            if p.default is not p.empty:
                bound.setdefault(p.name, p.default)
        if missing := [n for n in self.names if n not in bound]:
            raise LaunchError(f"{name} is missing {', '.join(missing)}")
        return bound

    def _variant(
        self, bound: dict[str, Any], options: dict[str, Any]
    ) -> tuple[CompiledKernel, list[tuple[Arg, Any]], dict[str, object]]:
        """The compiled kernel for these arguments, what to pass it, and its constexpr values."""
        executor = backends.current()
        asked = check_options(options, executor.limits["threads"])
        described = [describe(name, bound[name], executor) for name in self.runtime]
        meta = {n: plain(bound[n], n) for n in self.names if n in self.source.constexprs}
        outside = self._read_outside(self.watched)
        base = (
            executor.key(),
            tuple((a.kind, a.dtype, a.divisible and a.kind == "pointer") for a, _ in described),
            tuple((n, exact(self._hashable(f"constexpr {n}", v))) for n, v in meta.items()),
            tuple((n, exact(self._hashable(n, v))) for n, v in outside),
            asked,
        )
        used = self._used.get(base)
        key = (base, tuple(described[k][0].divisible for k in used)) if used is not None else None
        compiled = self._cache.get(key) if key else None
        if compiled is None:
            with self._lock:
                compiled = self._compile(base, [a for a, _ in described], meta, asked, executor)
        return compiled, described, meta

    def _hashable(self, name: str, value: object) -> object:
        try:
            hash(value)
        except TypeError:
            raise KernelTypeError(
                f"{name} is a {type(value).__name__}, which cannot be part of a kernel's key; use a tuple or a number"
            ) from None
        return value

    def _compile(self, base: tuple, args: list[Arg], meta: dict, asked: int | None, executor: Any) -> CompiledKernel:
        spec = Specialization(tuple(zip(self.runtime, args, strict=True)), tuple(meta.items()))
        kernel = front(self.source, spec)
        threads = asked or executor.default_threads(kernel)
        low = build_checked(kernel, spec, threads, executor)
        used = tuple(k for k, name in enumerate(self.runtime) if name in low.divisors_used)
        key = (base, tuple(args[k].divisible for k in used))
        if key not in self._cache:
            self._cache[key] = CompiledKernel(self.source, spec, low, executor)
            self._used[base] = used
        return self._cache[key]

    def _read_outside(self, paths: Iterable[str]) -> list[tuple[str, object]]:
        """The values that these names of the kernel's module or closure have now."""
        if not paths:
            return []
        scope, found = self.source.scope(), []
        for path in paths:
            root, *rest = path.split(".")
            value = scope.get(root)
            for word in rest:
                value = getattr(value, word, None)
            if root in scope:
                found.append((path, plain(value, path)))
        return found


def build_checked(kernel: Any, spec: Specialization, threads: int, executor: Any) -> Lowered:
    """Lowers for an executor and refuses what does not fit it."""
    dialect = executor.dialect
    if dialect is None:
        from .codegen.dialect import OPENCL as dialect
    low = lower(kernel, spec, threads, dialect, getattr(executor, "attribute", lambda threads: ""))
    shared = low.shared_bytes if threads > 1 else 0
    if shared > executor.limits["shared"]:
        raise LaunchError(
            f"{low.name} needs {shared} bytes of shared memory a program; this device has "
            f"{executor.limits['shared']}. Use a smaller tile"
        )
    private = low.private_bytes * (threads if getattr(executor, "on_cpu", False) else 1)
    if private > executor.limits["private"]:
        where = "a program" if private > low.private_bytes else "one thread"
        raise LaunchError(
            f"{low.name} keeps {private} bytes of tiles in {where}; "
            f"this device allows {executor.limits['private']}. Use a smaller tile"
        )
    return low


def jit(function: Callable) -> JITFunction:
    """Makes a kernel of a function; it is compiled for the types of its arguments when it is launched.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def double(x, n, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(x + i, 2 * tt.load(x + i, mask=i < n), mask=i < n)
    >>> a = np.arange(5, dtype=np.float32)
    >>> double[tt.cdiv(5, 4)](a, 5, BLOCK=4)
    >>> a.tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    try:
        return JITFunction(function)
    except TinytonError as error:
        raise error.with_traceback(None) from None
