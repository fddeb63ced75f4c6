"""`@jit`: a Python function becomes a kernel, compiled when it is first launched with arguments of new types."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from types import ModuleType
from typing import Any

import numpy as np

from . import backends, dtypes
from .arrays import DeviceArray, HostArrays, check_host, memory
from .codegen.lower import Lowered, front, lower
from .dtypes import from_numpy
from .errors import KernelTypeError, LaunchError, TinytonError
from .frontend import Source, capture
from .frontend.tracer import plain
from .language import LanguageFunction
from .launch import LaunchConfig, as_grid, check_threads
from .specialize import BOOL, FLOAT, Arg, Specialization, integer

POINTERS = {(d, aligned): Arg("pointer", d, aligned) for d in dtypes.ALL for aligned in (False, True)}
OPTIONS = ("num_warps", "num_threads", "num_stages", "num_ctas", "stream")


class CompiledKernel:
    """One compiled variant of a kernel: what was generated, and what it costs. Made by ``kernel.compile(...)``."""

    def __init__(self, name: str, spec: Specialization, low: Lowered, executor: Any):
        self.name, self.specialization, self.low, self.executor = name, spec, low, executor
        self.loaded = executor.build(low)
        self.stored = low.stored
        self.launch_threads = low.threads

    @property
    def source(self) -> str:
        """The generated CUDA C++ or OpenCL C."""
        return self.low.source

    @property
    def ir(self) -> Any:
        """The tile IR, after all passes."""
        return self.low.ir

    @property
    def threads(self) -> int:
        """Threads a program."""
        return self.low.threads

    @property
    def num_warps(self) -> int:
        return -(-self.threads // 32)

    @property
    def num_ctas(self) -> int:
        """Programs a cluster."""
        return 1

    @cached_property
    def reqntid(self) -> tuple[int, int, int]:
        """The block that the binary demands, read back out of it."""
        return (self.executor.read_threads(self.loaded) if self.loaded is not None else self.threads, 1, 1)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared (local) memory a program."""
        return self.low.shared_bytes if self.threads > 1 else 0

    @property
    def scratch_bytes(self) -> int:
        """Bytes of global scratch memory a program: none is used."""
        return 0

    def _of_device(self, what: str) -> Any:
        if not hasattr(self.executor, what):
            raise TinytonError(f".{what} is for the cuda backend; this kernel was compiled for {self.executor.name}")
        return getattr(self.executor, what)(self)

    @cached_property
    def ptx(self) -> str:
        """The PTX (cuda); compiled when it is first asked for."""
        return self._of_device("ptx")

    @cached_property
    def sass(self) -> str:
        """The machine code (cuda), disassembled when it is first asked for."""
        return self._of_device("sass")

    @property
    def registers(self) -> int:
        """Registers a thread (cuda)."""
        return self._of_device("registers")

    @property
    def spills(self) -> int:
        """Bytes of local memory a thread, where registers were not enough (cuda)."""
        return self._of_device("spills")

    def occupancy(self) -> Any:
        """How many programs a multiprocessor holds at once, and what limits it (cuda)."""
        return self._of_device("occupancy")

    @property
    def constants(self) -> dict[str, object]:
        """The constexpr values that are baked in."""
        return dict(self.specialization.constants)

    def launch(self, config: LaunchConfig, *args: object) -> None:
        """Runs this variant: a `LaunchConfig` and all run-time arguments in order."""
        names = [name for name, _ in self.specialization.args]
        if len(args) != len(names):
            raise LaunchError(
                f"{self.name} takes {len(names)} run-time arguments ({', '.join(names)}), {len(args)} were given"
            )
        described = [describe(name, x, self.executor) for name, x in zip(names, args, strict=True)]
        for (name, wanted), (given, _) in zip(self.specialization.args, described, strict=True):
            if (given.kind, given.dtype) != (wanted.kind, wanted.dtype) or (wanted.divisible and not given.divisible):
                raise LaunchError(f"argument {name} is {given}, but this variant was compiled for {wanted}")
        threads = config.threads_for(self)
        grid = as_grid(config.grid, self.constants, self.executor.limits)
        run(self, grid, names, [payload for _, payload in described], None, threads)

    def explain(self) -> Any:
        """Every stage of this kernel's way, printed: source, IR, layouts, C, PTX."""
        from .explain import explain

        return explain(self)

    def __repr__(self) -> str:
        return f"<{self.name}({self.specialization}), {self.threads} threads, {self.executor.name}>"


def describe(name: str, x: Any, executor: Any) -> tuple[Arg, Any]:
    """What the compiler needs to know about an argument, and what the executor needs to pass it."""
    if isinstance(x, DeviceArray):
        if x.executor is not executor:
            raise LaunchError(
                f"argument {name} is an array of the {x.executor.name} backend; this launch is on {executor.name}"
            )
        return POINTERS[x.dtype, True], (x.handle, x.dtype, 0)
    if isinstance(x, (bool, np.bool_)):
        return BOOL, bool(x)
    if isinstance(x, (int, np.integer)):
        value = int(x)
        if not -(1 << 63) <= value < 1 << 63:
            raise LaunchError(f"argument {name} is {value}, which does not fit 64 bits")
        return integer(value), value
    if isinstance(x, (float, np.floating)):
        return FLOAT, float(x)
    if isinstance(x, np.ndarray):
        element = check_host(name, x)
        return POINTERS[element, x.__array_interface__["data"][0] % 16 == 0], x
    found = executor.foreign(name, x) if hasattr(executor, "foreign") else None
    if found is None:
        raise KernelTypeError(
            f"argument {name} is a {type(x).__name__}; a kernel takes arrays, ints, floats and bools"
            + ("" if x is not None else "; annotate it tt.constexpr to pass None")
        )
    element, aligned, payload = found
    return POINTERS[from_numpy(element), aligned], payload


def run(
    compiled: CompiledKernel,
    grid: tuple[int, int, int],
    names: list[str],
    payloads: list[Any],
    stream: Any,
    threads: int | None = None,
) -> None:
    """Hands a launch to the executor; NumPy arguments are moved there and back."""
    if 0 in grid:
        return
    executor, args = compiled.executor, list(payloads)
    hosts = [(n, p) for n, p in zip(names, payloads, strict=True) if isinstance(p, np.ndarray)]
    spans = HostArrays(hosts)
    writes = {spans.span(n) for n, _ in hosts if n in compiled.stored}
    for name, p in hosts:
        if name in compiled.stored and not p.flags.writeable:
            raise LaunchError(f"argument {name} is read-only, but the kernel stores to it")
    lent = {}
    for span in spans.spans:
        bytes_ = memory(*span)
        lent[span] = executor.borrow(bytes_), bytes_
    for k, (name, p) in enumerate(zip(names, payloads, strict=True)):
        if isinstance(p, np.ndarray):
            low = spans.span(name)[0]
            at = p.__array_interface__["data"][0] - low if p.size else 0
            args[k] = executor.pointer(name, lent[spans.span(name)][0], from_numpy(p.dtype), at)
        elif type(p) is tuple:
            args[k] = executor.pointer(name, *p)
    outer, compiled.launch_threads = compiled.launch_threads, threads or compiled.launch_threads
    try:
        executor.launch(compiled, grid, args, stream)
    finally:
        compiled.launch_threads = outer
    for span in writes:
        executor.give_back(*lent[span])


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
        self._cache: dict[tuple, CompiledKernel] = {}
        self._used: dict[tuple, tuple[int, ...]] = {}
        self._lock = threading.RLock()
        self._outside: list[str] | None = None

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise LaunchError(f"a kernel is launched over a grid: {self.source.name}[grid](...)")

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._launch, grid)

    def __repr__(self) -> str:
        return f"<kernel {self.source.name}({', '.join(self.names)})>"

    def _launch(self, grid: Any, *args: object, **kwargs: Any) -> None:
        try:
            config = grid if isinstance(grid, LaunchConfig) else None
            stream = kwargs.pop("stream", None)
            compiled, payloads, meta = self._variant(args, kwargs)
            threads = config.threads_for(compiled) if config else None
            where = as_grid(config.grid if config else grid, meta, compiled.executor.limits)
            run(compiled, where, self.runtime, payloads, stream, threads)
        except TinytonError as error:
            raise error.with_traceback(None) from None

    def compile(self, *args: object, **kwargs: Any) -> CompiledKernel:
        """The variant for these arguments, compiled but not run."""
        try:
            kwargs.pop("stream", None)
            return self._variant(args, kwargs)[0]
        except TinytonError as error:
            raise error.with_traceback(None) from None

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name, with defaults; says what is missing, unknown or given twice."""
        name = self.source.name
        if len(args) > len(self.names):
            raise LaunchError(
                f"{name} takes {len(self.names)} arguments ({', '.join(self.names)}), {len(args)} were given"
            )
        bound = dict(zip(self.names, args, strict=False))
        for key, value in kwargs.items():
            if key not in self.names:
                raise LaunchError(
                    f"{name} has no parameter {key}; it takes {', '.join(self.names)}, and {', '.join(OPTIONS)}"
                )
            if key in bound:
                raise LaunchError(f"{name} got {key} twice, by position and by name")
            bound[key] = value
        missing = []
        for p in self.source.params:
            if p.name not in bound:
                if p.default is p.empty:
                    missing.append(p.name)
                else:
                    bound[p.name] = p.default
        if missing:
            raise LaunchError(f"{name} is missing {', '.join(missing)}")
        return bound

    def _variant(self, args: tuple, kwargs: dict[str, Any]) -> tuple[CompiledKernel, list[Any], dict[str, object]]:
        """The compiled kernel for these arguments, what to pass it, and its constexpr values."""
        executor = backends.current()
        options = {k: kwargs.pop(k, None) for k in OPTIONS}
        bound = self._bind(args, kwargs)
        described = [describe(name, bound[name], executor) for name in self.runtime]
        meta = {n: bound[n] for n in self.names if n in self.source.constexprs}
        for n, value in meta.items():
            meta[n] = plain(value, n)
        outside = self._read_outside()
        base = (
            executor.key(),
            tuple((a.kind, a.dtype, a.divisible and a.kind == "pointer") for a, _ in described),
            tuple((n, type(v), self._hashable(n, v)) for n, v in meta.items()),
            tuple((n, type(v), v) for n, v in outside),
            tuple(options[k] for k in OPTIONS[:-1]),
        )
        used = self._used.get(base)
        key = (base, tuple(described[k][0].divisible for k in used)) if used is not None else None
        compiled = self._cache.get(key) if key else None
        if compiled is None:
            with self._lock:
                compiled = self._compile(base, [a for a, _ in described], meta, outside, options, executor)
        return compiled, [p for _, p in described], meta

    def _hashable(self, name: str, value: object) -> object:
        try:
            hash(value)
        except TypeError:
            raise KernelTypeError(
                f"constexpr {name} is a {type(value).__name__}, which cannot be part of a key; pass a tuple or a number"
            ) from None
        return value

    def _compile(
        self, base: tuple, args: list[Arg], meta: dict, outside: tuple, options: dict, executor: Any
    ) -> CompiledKernel:
        spec = Specialization(tuple(zip(self.runtime, args, strict=True)), tuple(meta.items()), outside)
        kernel = front(self.source, spec)
        asked = check_threads(options["num_threads"], options["num_warps"], executor.limits["threads"])
        threads = asked or executor.default_threads(kernel)
        low = build_checked(kernel, spec, threads, executor)
        used = tuple(k for k, name in enumerate(self.runtime) if name in low.divisors_used)
        key = (base, tuple(args[k].divisible for k in used))
        if key not in self._cache:
            self._cache[key] = CompiledKernel(self.source.name, spec, low, executor)
            self._used[base] = used
        return self._cache[key]

    def _read_outside(self) -> tuple[tuple[str, object], ...]:
        """The values that the kernel reads from its module or closure now, apart from modules and the language."""
        if not self.source.outside:
            return ()
        scope = self.source.scope()
        found = []
        for path in self.source.outside:
            root, *rest = path.split(".")
            value = scope.get(root)
            for word in rest:
                if isinstance(value, ModuleType) and value.__name__.split(".")[0] == __name__.split(".")[0]:
                    break
                value = getattr(value, word, None)
            if isinstance(value, (ModuleType, LanguageFunction)) or value is None:
                continue
            found.append((path, self._hashable_global(path, value)))
        return tuple(found)

    def _hashable_global(self, path: str, value: object) -> object:
        try:
            hash(value)
        except TypeError:
            return id(value) if isinstance(value, np.ndarray) else repr(value)
        return value


def build_checked(kernel: Any, spec: Specialization, threads: int, executor: Any) -> Lowered:
    """Lowers for an executor and refuses what does not fit it."""
    dialect = executor.dialect
    if dialect is None:
        from .codegen.dialect import OPENCL as dialect
    low = lower(kernel, spec, threads, dialect, getattr(executor, "attribute", lambda threads: ""))
    shared = low.shared_bytes if threads > 1 else 0
    if shared > executor.limits["shared"]:
        raise LaunchError(
            f"{low.name} needs {shared} bytes of shared memory a program; this device has {executor.limits['shared']}. Use a smaller tile"
        )
    if threads == 1 and low.private_bytes > executor.limits["private"]:
        raise LaunchError(
            f"{low.name} keeps {low.private_bytes} bytes of tiles in one thread; this device allows {executor.limits['private']}. Use a smaller tile, or more threads: num_threads="
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
