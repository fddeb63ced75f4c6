"""`@jit`: a Python function becomes a kernel, compiled when it is first launched with arguments of new types."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, update_wrapper
from math import prod
from types import MethodType
from typing import Any

from . import backends
from .arrays import from_dlpack
from .codegen.lower import Lowered, front, lower
from .compiled import CompiledKernel, describe, run
from .dispatch import MISSING, OPTIONS, ROUTES, Kind, Route, entrance, usable
from .dtypes import DType, from_numpy, is_foreign
from .errors import KernelTypeError, LaunchError, TinytonError
from .frontend import Source, capture
from .frontend.tracer import is_array, plain
from .launch import Asked, LaunchConfig, as_grid, check_options
from .ops.typing import is_record

# >>> stage 7
from .passes.lint import lint, warn

# <<<
from .specialize import Arg, Specialization, exact, hashable, parse

# >>> stage 6
from .spelling import Spelling

# <<<

JIT_OPTIONS = {"do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline"}
JIT_OPTIONS |= {"repr", "launch_metadata", "version"}
VARIANTS = 64  # compiled variants that one kernel keeps; the one unused for longest goes first


class Variants(OrderedDict):
    """The compiled variants of a kernel by key, at most `VARIANTS`. What goes is unloaded, and the short ways to it are
    forgotten."""

    def __init__(self, kernel: JITFunction):
        super().__init__()
        self.kernel = kernel

    def __setitem__(self, key: tuple, compiled: CompiledKernel) -> None:
        super().__setitem__(key, compiled)
        while len(self) > VARIANTS:
            self.kernel.forget()
            (base, _), _ = self.popitem(last=False)
            self.kernel._used.pop(base, None)

    def clear(self) -> None:
        super().clear()
        self.kernel.forget()

    def recall(self, key: tuple) -> CompiledKernel | None:
        """The variant of this key, which is now the last to go."""
        try:
            self.move_to_end(key)
            return self[key]
        except KeyError:
            return None


class JITFunction:
    """A kernel. ``kernel[grid](*args, **meta)`` launches it; ``kernel.compile(*args, **meta)`` compiles it only."""

    prefix = ""  # of the names of launch options
    programs: int | None = None  # how many a multiprocessor is to hold at once, if that is asked for

    def __init__(
        self,
        function: Callable,
        rules: Mapping[str, Callable] | None = None,
        # >>> stage 6
        spelling: Spelling | None = None,
        # <<<
        **options: Any,
    ):
        self.source: Source = replace(capture(function), asserts=options.get("debug") is not False)
        # >>> stage 6
        self.source = replace(self.source, spelling=spelling)
        # <<<
        update_wrapper(self, function)
        self.fn, self.options, self.rules = function, options, dict(rules or getattr(function, "heuristics", {}))
        self.hooks: list[Callable] = []
        self.names = self.arg_names = [p.name for p in self.source.params]
        self.runtime = [n for n in self.names if n not in self.source.constexprs]
        for name in self.names:
            if name.startswith("_tt_") or name in OPTIONS and not self.prefix:
                what = "an option of every launch" if name in OPTIONS else "a name that the launcher uses"
                what = f"{name} is {what}; give the parameter another name"
                raise KernelTypeError(what, self.source.loc(self.source.tree))
        self.unspecialized = self._names_of("do_not_specialize", "do_not_specialize_on_alignment")
        for name in self.rules:
            if name not in (*self.names, *OPTIONS):
                raise LaunchError(f"heuristics for {name}, which {self.source.name} does not take")
        self._cache: Variants = Variants(self)
        self._used: dict[tuple, tuple[str, ...]] = {}  # whose divisibility is part of the key
        self._lock = threading.RLock()
        self.forget()

    @property
    def src(self) -> str:
        """The kernel's Python text, from its ``def`` on."""
        return "\n".join(self.source.lines[self.source.tree.lineno - 1 :])

    def _names_of(self, *options: str) -> frozenset[str]:
        """The parameters that these options of `jit` list, by name or by position."""
        found = set()
        for option in options:
            for x in self.options.get(option) or ():
                name = self.names[x] if isinstance(x, int) and 0 <= x < len(self.names) else x
                if name not in self.names:
                    takes = f"{self.source.name}({', '.join(self.names)})"
                    raise LaunchError(f"{option} lists {x!r}, which is no parameter of {takes}")
                found.add(name)
        return frozenset(found)

    def forget(self) -> None:
        """Forgets the short ways of launches."""
        self._routes: list[Route] = []
        self._enter = entrance(self, [])

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise LaunchError(f"a kernel is launched over a grid: {self.source.name}[grid](...)")

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._enter, grid) if grid is None else MethodType(self._enter, grid)  # which is quicker

    def __repr__(self) -> str:
        return f"<kernel {self.source.name}({', '.join(self.names)})>"

    def launch(self, grid: Any, args: tuple, named: dict[str, Any]) -> None:
        """The long way of a launch: binds, checks, compiles if need be, moves NumPy arrays, and runs."""
        try:
            words = {self.prefix + word: word for word in OPTIONS}
            given = {name: x for name, x in named.items() if name in words}
            chosen = dict.fromkeys(OPTIONS) | {words[name]: x for name, x in given.items()}
            bound = self._bind(args, {name: x for name, x in named.items() if name not in words}, chosen)
            compiled, described = self._variant(bound, chosen)
            config = grid if isinstance(grid, LaunchConfig) else None
            block = config.block_for(compiled) if config else None
            where = as_grid(config.grid if config else grid, bound, compiled.executor.limits)
            passed = {n: p for n, (_, p) in described.items()}
            # >>> stage 11
            if record := getattr(compiled.executor, "recorder", None):  # of tt.graph and tt.viz.timeline
                return record(self, bound, compiled, where, passed, chosen["stream"], block)
            # <<<
            run(compiled, where, passed, chosen["stream"], block)
            aligned = (a.divisible or n in self.unspecialized for n, (a, _) in described.items() if a.kind == "pointer")
            if chosen["stream"] is None and all(aligned):
                self._learn(bound, given | {n: chosen[n] for n in self.rules if n in OPTIONS}, compiled)
        except TinytonError as error:
            raise error.with_traceback(None) from None

    def _learn(self, bound: dict[str, Any], options: dict[str, Any], compiled: CompiledKernel) -> None:
        """Remembers a launch with these options, so that the next one like it takes the short way."""
        kinds = tuple(self.kind(bound, n) for n in self.runtime)
        if compiled.hidden or not usable(kinds, compiled.executor):
            return
        constants = [bound[n] for n in self.names if n not in self.runtime]
        outside = self.outside()
        if any(exact(v) != (type(v), v) for v in (*constants, *(v for _, _, v in outside))):
            return
        what = kinds, tuple(x.__class__ for x in constants), [(f, path) for f, path, _ in outside]
        route = next((r for r in self._routes if (r.kinds, r.classes, r.outside) == what), None)
        if new := route is None:
            route = Route(self, *what)
            self._routes = [route, *self._routes][:ROUTES]
        if route.learn(tuple(self.given(bound, n) for n in self.names), options, compiled) or new:
            self._enter = entrance(self, self._routes, compiled.executor)

    def given(self, bound: Mapping[str, Any], name: str) -> Any:
        """What the user passed for a parameter."""
        return bound[name]

    def kind(self, bound: Mapping[str, Any], name: str) -> Kind:
        return Kind(bound[name].__class__)

    def compile(self, *args: object, **kwargs: Any) -> CompiledKernel:
        """The variant for these arguments, compiled but not run."""
        try:
            options = {k: kwargs.pop(k, None) for k in OPTIONS}
            bound = self._bind(args, kwargs, options)
            types = {n: as_type(n, x) for n, x in bound.items() if n not in self.source.constexprs}
            return self._variant(bound | types, options)[0]
        except TinytonError as error:
            raise error.with_traceback(None) from None

    def warmup(self, *args: object, grid: Any = None, **kwargs: Any) -> CompiledKernel:
        """`compile`, called as Triton's is; the grid plays no part."""
        return self.compile(*args, **kwargs)

    def run(self, *args: object, grid: Any, warmup: bool = False, **kwargs: Any) -> CompiledKernel:
        """``kernel[grid](...)``, unless ``warmup``; gives the variant that ran."""
        if not warmup:
            self[grid](*args, **kwargs)
        return self.compile(*args, **kwargs)

    def add_pre_run_hook(self, hook: Callable) -> None:
        """``hook(*args, **kwargs)`` is called before every launch, with what the launch was given."""
        if not callable(hook):
            raise LaunchError(f"a hook is called before a launch; {hook!r} cannot be")
        self.hooks.append(hook)
        self.forget()

    def constants(self, bound: Mapping[str, Any]) -> dict[str, object]:
        """What is fixed at compile time: constexpr parameters, and arguments that are None."""
        return {n: plain(bound[n], n) for n in self.names if n in self.source.constexprs or bound[n] is None}

    def describe(self, name: str, x: Any, executor: Any) -> tuple[Arg, Any]:
        """`compiled.describe`, without the alignment of what is not to be specialized."""
        arg, payload = (x, None) if isinstance(x, Arg) else describe(name, x, executor)
        return (replace(arg, divisible=False) if name in self.unspecialized else arg), payload

    def _bind(self, args: tuple, named: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name, with defaults and what heuristics compute, which may change ``options`` too; says what is
        missing, unknown or given twice."""
        name, names = self.source.name, ", ".join(self.names)
        if len(args) > len(self.names):
            raise LaunchError(f"{name} takes {len(self.names)} arguments ({names}), {len(args)} were given")
        bound = {n: x for n, x in zip(self.names, args, strict=False) if x is not MISSING}
        for key, value in named.items():
            if key not in self.names:
                raise LaunchError(f"{name} has no parameter {key}; it takes {names}, and {', '.join(OPTIONS)}")
            if key in bound:
                raise LaunchError(f"{name} got {key} twice, by position and by name")
            bound[key] = value
        for p in self.source.params:
            if p.default is not p.empty:
                bound.setdefault(p.name, p.default)
        if missing := [n for n in self.names if n not in bound and n not in self.rules]:
            raise LaunchError(f"{name} is missing {', '.join(missing)}")
        bound |= {n: from_dlpack(n, bound[n]) for n in self.runtime if hasattr(bound.get(n), "__dlpack__")}
        for key, rule in self.rules.items():
            (options if key in options else bound)[key] = rule({**options, **bound})
        return {n: bound[n] for n in self.names}

    def _variant(
        self, bound: dict[str, Any], options: dict[str, Any]
    ) -> tuple[CompiledKernel, dict[str, tuple[Arg, Any]]]:
        """The compiled kernel for these arguments, and what to pass it: by name, its type and its value."""
        executor = backends.current()
        asked = check_options(options, executor.limits["threads"])
        meta = self.constants(bound)
        described = {n: self.describe(n, x, executor) for n, x in bound.items() if n not in meta}
        args = {n: a for n, (a, _) in described.items()}
        known = (
            executor.key(),
            tuple((a.kind, a.dtype, a.divisible and a.kind == "pointer") for a in args.values()),
            tuple((n, exact(hashable(f"constexpr {n}", v))) for n, v in meta.items()),
            asked,
        )
        base = (*known, self._read())
        used = self._used.get(base)
        compiled = self._cache.recall((base, tuple(args[n].divisible for n in used))) if used is not None else None
        if compiled is None:
            with self._lock:
                compiled = self._compile(known, args, meta, asked, executor)
        return compiled, described

    def _read(self) -> tuple:
        """What is read from outside, as part of a key."""
        return tuple((f, n, exact(v)) for f, n, v in self.outside())

    def _compile(self, known: tuple, args: dict[str, Arg], meta: dict, asked: Asked, executor: Any) -> CompiledKernel:
        spec = Specialization(tuple(args.items()), tuple(meta.items()))
        kernel = front(self.source, spec)
        base = (*known, self._read())  # the functions that it calls are known now
        low = build_checked(kernel, spec, asked, executor, self.programs)
        used = tuple(name for name in args if name in low.divisors_used)
        key = (base, tuple(args[n].divisible for n in used))
        compiled = self._cache.recall(key)
        if compiled is None:
            compiled = self._cache[key] = CompiledKernel(self.source, spec, low, executor)
            # >>> stage 7
            warn(self.source, lint(kernel, self.source.spelling))
            # <<<
        self._used[base] = used
        return compiled

    def outside(self) -> list[tuple[Source, str, object]]:
        """What is read from modules and closures now, by the kernel and by the functions that a variant of it calls:
        who reads it, under which name, and the value."""
        found = []
        for f in (self.source, *self.source.calls):
            scope = f.scope() if f.watched else {}
            for path in f.watched:
                root, *rest = path.split(".")
                value = scope.get(root)
                for k, word in enumerate(rest):
                    if is_record(value):  # with all that it has; a property may be for kernels only
                        path = ".".join([root, *rest[:k]])
                        break
                    value = getattr(value, word, None)
                if root in scope:
                    try:  # an array that is used is refused there
                        value = "array" if is_array(value) else hashable(path, plain(value, path))
                    except KernelTypeError as error:
                        raise KernelTypeError(error.message, f.place(path)) from None
                    found.append((f, path, value))
        return found


def build_checked(
    kernel: Any, spec: Specialization, asked: Asked, executor: Any, programs: int | None = None
) -> Lowered:
    """Lowers for an executor, with what is asked for or what the compiler chooses, and refuses what does not fit; where
    only a cluster's sums do not, a block is to run a program alone."""
    if asked.ctas > 1:
        with suppress(LaunchError):
            return _build(kernel, spec, asked, executor, programs)
        alone = _build(kernel, spec, asked._replace(ctas=1), executor, programs)
        return replace(alone, apart="what a block would leave of its sums does not fit its memory")
    return _build(kernel, spec, asked, executor, programs)


def _build(kernel: Any, spec: Specialization, asked: Asked, executor: Any, programs: int | None) -> Lowered:
    threads = asked.threads or executor.default_threads(kernel)
    attribute, free = getattr(executor, "attribute", lambda *bounds: ""), not (asked.threads or programs)
    how = {"blocks": programs, "ctas": asked.ctas}
    low = lower(kernel, spec, threads, executor.dialect, attribute, free, asked.stages, **how)
    shared = low.shared_bytes if threads > 1 else 0
    if shared > executor.limits["shared"]:
        what = f"{low.name} needs {shared} bytes of shared memory a program; this device has"
        instead = f"Use a smaller tile{' or fewer num_stages' * ('_ring' in low.source)}"
        raise LaunchError(f"{what} {executor.limits['shared']}. {instead}")
    where, private = "one thread", low.private_bytes
    if private > executor.limits["private"]:  # at a time; long texts take compilers long, too
        private = max(low.held_bytes, private // 4)
    if getattr(executor, "on_cpu", False):  # a CPU keeps all threads of a program on one stack, and all tiles apart
        where, private = "a program", low.private_bytes * prod(low.block)
    if private > executor.limits["private"]:
        what = f"{low.name} keeps {private} bytes of tiles in {where}; this device allows"
        raise LaunchError(f"{what} {executor.limits['private']}. Use a smaller tile")
    return low


def as_type(name: str, x: Any) -> Any:
    """An argument for compiling only, which may be a type: that of a pointer's elements, or words for `parse`."""
    if isinstance(x, str):
        return parse({name: x})[name]
    x = x.dtype if type(x).__name__ == "MockTensor" else x
    return Arg("pointer", from_numpy(x), True) if isinstance(x, DType) or is_foreign(x) else x


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Any]:
    """Parameters, or options such as ``num_warps``, that are computed at each launch from the arguments by name; a
    rule sees what the rules before it gave. Above or below ``@tt.jit``; several compose, the upper ones first. From
    Triton.

    >>> import numpy as np, tinyton as tt
    >>> @tt.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    ... @tt.jit
    ... def fill(x, n, BLOCK: tt.constexpr, EVEN: tt.constexpr):
    ...     i = tt.arange(0, BLOCK)
    ...     tt.store(x + i, 1.0, mask=None if EVEN else i < n)
    >>> a = np.zeros(5, np.float32)
    >>> fill[1](a, 3, BLOCK=4)
    >>> a.tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0]
    """

    def decorate(kernel: Any) -> Any:
        if isinstance(kernel, JITFunction):
            return _checked(kernel.fn, {**values, **kernel.rules}, kernel.options)
        kernel.heuristics = {**values, **getattr(kernel, "heuristics", {})}
        return kernel

    return decorate


def _checked(function: Callable, rules: Mapping[str, Callable], options: dict[str, Any]) -> JITFunction:
    try:
        return JITFunction(function, rules, **options)
    except TinytonError as error:
        raise error.with_traceback(None) from None


def jit(function: Any = None, **options: Any) -> Any:
    """Makes a kernel of a function; it is compiled for the types of its arguments when it is launched, and keeps the 64
    variants that were used last.

    As ``@tt.jit(...)`` it takes Triton's options: ``do_not_specialize`` and ``do_not_specialize_on_alignment`` list
    parameters, by name or position, of which no variant is made for what 16 divides; ``debug=False`` leaves
    ``tt.device_assert`` out; ``noinline``, ``repr``, ``launch_metadata`` and ``version`` change nothing.

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
    if unknown := sorted(options.keys() - JIT_OPTIONS):
        raise LaunchError(f"jit has no option {unknown[0]}; it takes {', '.join(sorted(JIT_OPTIONS))}")
    return partial(_checked, rules={}, options=options) if function is None else _checked(function, {}, options)
