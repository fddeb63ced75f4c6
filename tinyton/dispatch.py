"""The short way from ``kernel[grid](*args)`` to the driver, for launches like ones that have been before.

A function is written out for each kernel and each tuple of argument classes: it reads addresses and types, looks the
variant up and calls the driver, without loops and without calls of ours. What it does not know, it leaves to the long
way, which checks everything. tests/bench/launch.py measures what it saves, and where the time goes.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from .arrays import DeviceArray
from .dtypes import int64
from .errors import LaunchError
from .launch import as_grid

MISSING = object()
OPTIONS = ("num_warps", "num_threads", "num_stages", "num_ctas", "stream")
ENVIRON = getattr(os.environ, "_data", os.environ)  # undecoded: it is read at every launch
BACKEND = getattr(os.environ, "encodekey", str)("TINYTON_BACKEND")
CUDA = getattr(os.environ, "encodevalue", str)("cuda")
ROUTES = 4  # argument classes that one kernel keeps a short way for


class Kind(NamedTuple):
    """What of an argument decides how it is read: its class, and of an array that a kernel knows as one, which of its
    strides are 1."""

    cls: type
    ones: tuple[bool, ...] | None = None


class Read(NamedTuple):
    """Python that reads an argument: what is passed on and what belongs to the key, what must have run before that,
    and what must hold, or it is a case for the long way."""

    passed: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    pointer: bool = False  # the first of what is passed is an address
    before: str = ""
    sure: tuple[str, ...] = ()


class Route:
    """The short way for one tuple of kinds of arguments: Python that reads them, and the variants seen so far."""

    def __init__(self, kernel: Any, kinds: tuple[Kind, ...], classes: tuple[type, ...], outside: list[tuple[Any, str]]):
        self.kinds, self.classes, self.outside, self.names = kinds, classes, outside, kernel.names
        self.entries: dict[tuple, tuple] = {}
        self.reads = [read for kind, name in zip(kinds, kernel.runtime, strict=True) if (read := _read(kind, name))]
        self.parts = [part for r in self.reads for part in r.key]
        constants = [n for n in kernel.names if n not in kernel.runtime]
        self.parts += [f"{n}.__class__, {n}" if n in kernel.rules else n for n in constants]
        for value in (_outside(f, path) for f, path in outside):
            self.parts += [f"{value}.__class__", value]
        self.before = "; ".join(r.before for r in self.reads if r.before) or "pass"
        self.scope = _scope(f for f, _ in outside)
        self.key_of: Callable[..., tuple] | None = None

    @property
    def key(self) -> str:
        return ", ".join([*self.parts, "tuple(_tt_named.items()) if _tt_named else None"])

    def learn(self, values: tuple, named: dict[str, Any], compiled: Any) -> bool:
        """Adds a variant. Of ints, only what some variant depends on is in the key: True if that is more than before,
        and the others are forgotten."""
        args = [(n, a) for n, a in compiled.specialization.args if a.kind == "int" and n in self.names]
        parts = [f"{n} & 15 == 0" for n, _ in args if n in compiled.low.divisors_used]
        parts += [f"-0x80000000 <= {n} <= 0x7fffffff" for n, a in args if a.dtype is int64]
        more = [part for part in parts if part not in self.parts]
        if more or self.key_of is None:
            self.parts += more
            self.entries.clear()
            text = f"def key({', '.join(self.names)}, _tt_named):\n    {self.before}\n    return ({self.key})"
            self.key_of = _define(text, dict(self.scope))["key"]
        loaded = compiled.loaded
        self.entries[self.key_of(*values, named)] = loaded.start, compiled.low.block, loaded.pack, loaded.shared
        return bool(more)


def usable(kinds: tuple[Kind, ...], executor: Any) -> bool:
    return executor.name == "cuda" and all(_read(kind, "x") for kind in kinds)


def _read(kind: Kind, name: str) -> Read | None:
    """How an argument of this kind is read."""
    cls = kind.cls
    module = cls.__module__.partition(".")[0]
    if cls in (int, float, bool):
        return Read((name,))
    if cls is type(None):  # known when the kernel is compiled, and not passed
        return Read()
    key: tuple[str, ...] = (f"{name}.dtype",)
    sure: tuple[str, ...] = ()
    if cls is DeviceArray:
        address = f"{name}.address"
    elif module == "torch" and hasattr(cls, "data_ptr"):
        address, sure = f"{name}.data_ptr()", (f"{name}.is_cuda",)
    elif module == "pycuda" and hasattr(cls, "gpudata"):
        address = f"int({name}.gpudata)"
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
        narrow = (f"0 <= ({' | '.join(numbers)}) <= 0x7fffffff",) if numbers else ()
        return Read((address, *numbers), key, True, before, sure + narrow)
    # <<<
    return Read((address,), key, True, "", sure)


def _tuple(names: list[str]) -> str:
    return f"({''.join(f'{n}, ' for n in names)})"


def entrance(kernel: Any, routes: list[Route], executor: Any = None) -> Callable[..., None]:
    """``launch(grid, *args, **options)``: the short ways first, then the long one."""
    constants = [n for n in kernel.names if n not in kernel.runtime]
    defaults = {p.name: p.default for p in kernel.source.params if p.default is not p.empty}
    bind = "".join(f"{n}=_tt_default_{n}, " if n in constants else f"{n}=_tt_missing, " for n in kernel.names)
    scope = _scope([]) | {f"_tt_default_{n}": defaults.get(n, MISSING) for n in constants}
    scope |= {"_tt_missing": MISSING, "_tt_long": kernel.launch, "_tt_as_grid": as_grid}
    text = f"def {kernel.source.name}(_tt_grid, /, {bind}*_tt_extra, **_tt_named):\n"
    if routes:
        scope |= {"_tt_thread": threading.get_ident, "_tt_executor": executor, "_tt_refused": executor.refused}
        scope |= {"_tt_limits": executor.limits, "_tt_most": executor.limits["x"], "_tt_failure": executor.cu.Error}
        scope |= {"_tt_others": (KeyError, TypeError, AttributeError, ValueError, struct.error, LaunchError)}
        scope["_tt_options"] = dict.fromkeys(OPTIONS)
    for k, route in enumerate(routes):
        scope |= route.scope | {f"_tt_entries{k}": route.entries}
        text += _short_way(kernel, route, k, constants, scope)
    args = f"({''.join(f'{n}, ' for n in kernel.names)}*_tt_extra,)"
    text += f"    _tt_long(_tt_grid, {args}, _tt_named)\n"
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
    classes: dict[type, list[str]] = {}
    expected = [*(kind.cls for kind in route.kinds), *route.classes]
    for n, cls in zip([*kernel.runtime, *constants], expected, strict=True):
        if n not in kernel.rules:
            classes.setdefault(cls, []).append(f"{n}.__class__ is ")
    tests = [f"{''.join(names)}_tt_class{k}_{i}" for i, names in enumerate(classes.values())]
    scope |= {f"_tt_class{k}_{i}": cls for i, cls in enumerate(classes)}
    passed = [text for r in route.reads for text in r.passed]
    pointers = [r.passed[0] for r in route.reads if r.pointer]
    for i, text in enumerate(pointers):
        passed[passed.index(text)] = f"_tt_p{i}"
    reads = "; ".join(f"_tt_p{i} = {text}" for i, text in enumerate(pointers)) or "pass"
    sure = [text for r in route.reads for text in r.sure]
    if pointers:
        sure.append(f"({' | '.join(f'_tt_p{i}' for i in range(len(pointers)))}) & 15 == 0")
    if any(kind.cls.__module__.startswith("torch") for kind in route.kinds):
        scope["_tt_torch_stream"] = sys.modules["torch"]._C._cuda_getCurrentRawStream
        sure.append("not _tt_torch_stream(0)")
    sure += ["not _tt_extra", "not _tt_executor.detour"]
    sure.append("(_tt_backend not in _tt_environ or _tt_environ[_tt_backend] == _tt_cuda)")
    meta, rules = "".join(f"{n!r}: {n}, " for n in kernel.names), "pass"
    for n in kernel.rules:
        scope[f"_tt_rule_{n}"] = kernel.rules[n]
        value = f"_tt_rule_{n}({{**_tt_options, **_tt_named, {meta}}})"
        rules += f"; _tt_named |= {{{n!r}: {value}}}" if n in OPTIONS else f"; {n} = {value}"
    return f"""
    if {" and ".join(tests) or "True"}:
        {rules}
        try:
            {route.before}
            _tt_launch, _tt_block, _tt_pack, _tt_shared = _tt_entries{k}[{route.key}]
            {reads}
            if _tt_grid.__class__ is tuple and len(_tt_grid) == 1:
                (_tt_x,), _tt_y, _tt_z = _tt_grid, 1, 1
            else:
                _tt_x, _tt_y, _tt_z = _tt_as_grid(_tt_grid, callable(_tt_grid) and {{{meta}}}, _tt_limits)
            if {" and ".join(sure)} and _tt_x.__class__ is int and 0 < _tt_x <= _tt_most and _tt_y and _tt_z:
                return _tt_launch((_tt_x, _tt_y, _tt_z), _tt_block, _tt_pack({", ".join(passed)}), _tt_shared, None)
        except _tt_failure as _tt_error:
            if _tt_thread() == _tt_executor.thread:  # in others the context need not be current
                raise _tt_refused("{kernel.source.name}", _tt_error) from None
        except _tt_others:
            pass
"""


def _outside(reader: Any, path: str) -> str:
    """Python that reads a name of a kernel's module or closure as it is now."""
    root, *rest = path.split(".")
    if root in reader.function.__code__.co_freevars:
        return ".".join([f"_tt_cells{id(reader)}[{root!r}].cell_contents", *rest])
    return ".".join([f"_tt_module{id(reader)}[{root!r}]", *rest])


def _scope(readers: Iterable[Any]) -> dict[str, Any]:
    scope: dict[str, Any] = {"_tt_environ": ENVIRON, "_tt_backend": BACKEND, "_tt_cuda": CUDA}
    for reader in readers:
        function = reader.function
        scope[f"_tt_module{id(reader)}"] = function.__globals__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        scope[f"_tt_cells{id(reader)}"] = dict(cells)
    return scope


def _define(text: str, scope: dict[str, Any]) -> dict[str, Any]:
    exec(compile(text, "<tinyton dispatch>", "exec"), scope)  # noqa: S102  (our text; its only names are parameters)
    return scope
