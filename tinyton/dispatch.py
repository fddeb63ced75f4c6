"""The short way from ``kernel[grid](*args)`` to the driver, for launches like ones that have been before.

A function is written out for each kernel and each tuple of argument classes: it reads addresses and types, looks the
variant up and calls the driver, without loops and without calls of ours. What it does not know, it leaves to the long
way, which checks everything. tests/bench/peers.py measures what it saves.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .arrays import DeviceArray
from .errors import LaunchError
from .launch import as_grid

MISSING = object()
OPTIONS = ("num_warps", "num_threads", "num_stages", "num_ctas", "stream")
ENVIRON = getattr(os.environ, "_data", os.environ)  # undecoded: it is read at every launch
BACKEND = getattr(os.environ, "encodekey", str)("TINYTON_BACKEND")
ROUTES = 4  # argument classes that one kernel keeps a short way for


@dataclass(frozen=True)
class Kind:
    """What of an argument decides how it is read: its class, and of an array that a kernel knows as one, which of its
    strides are 1."""

    cls: type
    ones: tuple[bool, ...] | None = None


@dataclass(frozen=True)
class Read:
    """Python that reads an argument: what is passed on and what belongs to the key, what must have run before that,
    and what makes it a case for the long way."""

    passed: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    pointer: bool = False  # the first of what is passed is an address
    before: str = ""
    doubts: tuple[str, ...] = ()


class Route:
    """The short way for one tuple of kinds of arguments: Python that reads them, and the variants seen so far."""

    def __init__(self, kernel: Any, kinds: tuple[Kind, ...], outside: list[tuple[Any, str]]):
        self.kinds, self.outside = kinds, outside
        self.entries: dict[tuple, tuple] = {}
        self.reads = [_read(kind, name) for kind, name in zip(kinds, kernel.runtime, strict=True)]
        parts = [part for r in self.reads if r for part in r.key]
        constants = [n for n in kernel.names if n not in kernel.runtime]
        for value in [*constants, *(_outside(f, path) for f, path in outside)]:
            parts += [f"{value}.__class__", value]
        self.before = "; ".join(r.before for r in self.reads if r and r.before) or "pass"
        options = [kernel.prefix + word for word in OPTIONS[:2]]
        self.key = ", ".join([*parts, *options, "_tt_environ.get(_tt_backend)"])
        text = f"def key({', '.join([*kernel.names, *options])}):\n"
        text += f"    {self.before}\n    return ({self.key})"
        self.scope = _scope(f for f, _ in outside)
        self.key_of = _define(text, dict(self.scope))["key"]

    def learn(self, values: tuple, options: tuple, compiled: Any) -> None:
        """Adds a variant. Clusters and stages are left to the long way, which has to look at them."""
        if options[2:4] == (None, None):
            loaded = compiled.loaded
            entry = loaded.start, compiled.low.block, loaded.pack, loaded.shared
            self.entries[self.key_of(*values, *options[:2])] = entry


def usable(kinds: tuple[Kind, ...], executor: Any) -> bool:
    return executor.name == "cuda" and all(_read(kind, "x") for kind in kinds)


def _read(kind: Kind, name: str) -> Read | None:
    """How an argument of this kind is read."""
    cls = kind.cls
    module = cls.__module__.partition(".")[0]
    if cls is int:
        return Read((name,), (f"-0x80000000 <= {name} <= 0x7fffffff", f"{name} & 15 == 0"))
    if cls is float or cls is bool:
        return Read((name,))
    if cls is type(None):  # known when the kernel is compiled, and not passed
        return Read()
    if cls is DeviceArray:
        address, key = f"{name}.address", (f"{name}.dtype",)
    elif module == "torch" and hasattr(cls, "data_ptr"):
        address, key = f"{name}.data_ptr()", (f"{name}.dtype", f"{name}.is_cuda")
    elif module == "pycuda" and hasattr(cls, "gpudata"):
        address, key = f"int({name}.gpudata)", (f"{name}.dtype",)
    else:
        return None
    # >>> stage 6
    if kind.ones is not None:
        ways = {"torch": f"{name}.stride()", "pycuda": f"(s // {name}.dtype.itemsize for s in {name}.strides)"}
        steps = ways.get(module, "")
        shape, strides = ([f"_tt_{name}_{word}{d}" for d in range(len(kind.ones))] for word in ("shape", "stride"))
        before = f"{_tuple(shape)} = {name}.shape"
        if steps:
            before += f"; {_tuple(strides)} = {steps}"
        for d, stride in enumerate(strides if not steps else ()):  # row-major
            before += f"; {stride} = {' * '.join(shape[d + 1 :]) or 1}"
        numbers = [*shape, *(s for s, one in zip(strides, kind.ones, strict=True) if not one)]
        key += tuple(f"{s} == 1" for s in strides) + tuple(f"{n} & 15 == 0" for n in numbers)
        narrow = (f"not 0 <= ({' | '.join(numbers)}) <= 0x7fffffff",) if numbers else ()
        return Read((address, *numbers), key, True, before, narrow)
    # <<<
    return Read((address,), key, True)


def _tuple(names: list[str]) -> str:
    return f"({''.join(f'{n}, ' for n in names)})"


def entrance(kernel: Any, routes: list[Route], executor: Any = None) -> Callable[..., None]:
    """``launch(grid, *args, **options)``: the short ways first, then the long one."""
    constants = [n for n in kernel.names if n not in kernel.runtime]
    defaults = {p.name: p.default for p in kernel.source.params if p.default is not p.empty}
    bind = "".join(f"{n}=_tt_default_{n}, " if n in constants else f"{n}=_tt_missing, " for n in kernel.names)
    options = [kernel.prefix + word for word in OPTIONS]
    scope = _scope([]) | {f"_tt_default_{n}": defaults.get(n, MISSING) for n in constants}
    scope |= {"_tt_missing": MISSING, "_tt_long": kernel.launch, "_tt_as_grid": as_grid, "_tt_LaunchError": LaunchError}
    text = f"def {kernel.source.name}(_tt_grid, /, {bind}*_tt_extra, {'=None, '.join(options)}=None, **_tt_named):\n"
    if routes:
        scope |= {"_tt_thread": threading.get_ident, "_tt_executor": executor, "_tt_refused": executor.refused}
        scope |= {"_tt_limits": executor.limits, "_tt_most": executor.limits["x"], "_tt_failure": executor.cu.Error}
    for k, route in enumerate(routes):
        scope |= route.scope | {f"_tt_entries{k}": route.entries}
        scope |= {f"_tt_class{k}_{i}": kind.cls for i, kind in enumerate(route.kinds)}
        text += _short_way(kernel, route, k, constants, scope)
    args = f"({''.join(f'{n}, ' for n in kernel.names)}*_tt_extra,)"
    text += f"    _tt_long(_tt_grid, {args}, _tt_named, ({', '.join(options)}))\n"
    enter = _define(text, scope)[kernel.source.name]
    return enter if routes and not kernel.hooks else partial(careful, kernel, enter)


def careful(kernel: Any, enter: Callable, grid: Any, /, *args: Any, **named: Any) -> None:
    """``enter`` with hooks, and with a message for what Python would not let through to the long way. (Once there is a
    short way, Python's own message has to do.)"""
    for name in kernel.names[: len(args)]:
        if name in named:
            raise LaunchError(f"{kernel.source.name} got {name} twice, by position and by name")
    for hook in kernel.hooks:
        hook(*args, **named)
    enter(grid, *args, **named)


def _short_way(kernel: Any, route: Route, k: int, constants: list[str], scope: dict[str, Any]) -> str:
    """Python that launches and returns if all is as it was before, and falls through otherwise."""
    test = " and ".join(f"{n}.__class__ is _tt_class{k}_{i}" for i, n in enumerate(kernel.runtime)) or "True"
    pointers = [f"_tt_p{i}" for i, read in enumerate(route.reads) if read and read.pointer]
    doubts = [f"({' | '.join(pointers)}) & 15"] if pointers else []
    if any(kind.cls.__module__.startswith("torch") for kind in route.kinds):
        scope["_tt_torch_stream"] = sys.modules["torch"]._C._cuda_getCurrentRawStream
        doubts.append("_tt_torch_stream(0)")
    doubts += [doubt for read in route.reads if read for doubt in read.doubts]
    doubts += ["_tt_thread() != _tt_executor.thread", "_tt_executor.forked", "_tt_extra", "_tt_named"]
    doubts += [f"{kernel.prefix}{word}" for word in OPTIONS[2:4]] + [f"{kernel.prefix}stream is not None"]
    passed = [text for r in route.reads if r for text in r.passed]
    for i, r in enumerate(route.reads):
        if r and r.pointer:
            passed[passed.index(r.passed[0])] = f"_tt_p{i}"
    reads = "; ".join(f"_tt_p{i} = {r.passed[0]}" for i, r in enumerate(route.reads) if r and r.pointer) or "pass"
    rules = "pass"
    meta = ", ".join(f"{n!r}: {n}" for n in kernel.names)
    packed = ", ".join(passed)
    for n in kernel.rules:
        scope[f"_tt_rule_{n}"] = kernel.rules[n]
        rules += f"; {n} = _tt_rule_{n}({{{', '.join(f'{m!r}: {m}' for m in (*OPTIONS, *kernel.names))}}})"
    if kernel.rules:
        test += "".join(f" and {n} is not _tt_missing" for n in constants if n not in kernel.rules)
    return f"""
    if {test}:
        {rules}
        try:
            {route.before}
            {reads}
            _tt_call, _tt_block, _tt_pack, _tt_shared = _tt_entries{k}[{route.key}]
            if _tt_grid.__class__ is tuple and len(_tt_grid) == 1 and _tt_grid[0].__class__ is int:
                _tt_where = _tt_grid[0], 1, 1
            else:
                _tt_where = _tt_as_grid(_tt_grid, callable(_tt_grid) and {{{meta}}}, _tt_limits)
        except (KeyError, TypeError, AttributeError, ValueError, _tt_LaunchError):
            pass
        else:
            if not ({" or ".join(doubts)}) and 0 < _tt_where[0] <= _tt_most and 0 not in _tt_where:
                try:
                    return _tt_call(_tt_where, _tt_block, _tt_pack({packed}), _tt_shared, None)
                except _tt_failure as _tt_error:
                    raise _tt_refused("{kernel.source.name}", _tt_error) from None
"""


def _outside(reader: Any, path: str) -> str:
    """Python that reads a name of a kernel's module or closure as it is now."""
    root, *rest = path.split(".")
    if root in reader.function.__code__.co_freevars:
        return ".".join([f"_tt_cells{id(reader)}[{root!r}].cell_contents", *rest])
    return ".".join([f"_tt_module{id(reader)}[{root!r}]", *rest])


def _scope(readers: Iterable[Any]) -> dict[str, Any]:
    scope: dict[str, Any] = {"_tt_environ": ENVIRON, "_tt_backend": BACKEND}
    for reader in readers:
        function = reader.function
        scope[f"_tt_module{id(reader)}"] = function.__globals__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        scope[f"_tt_cells{id(reader)}"] = dict(cells)
    return scope


def _define(text: str, scope: dict[str, Any]) -> dict[str, Any]:
    exec(compile(text, "<tinyton dispatch>", "exec"), scope)  # noqa: S102  (our text; its only names are parameters)
    return scope
