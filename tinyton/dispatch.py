"""The short way from ``kernel[grid](*args)`` to the driver, for launches like ones that have been before.

A function is written out for each kernel and each tuple of argument classes: it reads addresses and types, looks the
variant up and calls the driver, without loops and without calls of ours. What it does not know, it leaves to the long
way, which checks everything. tests/bench/peers.py measures what it saves.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from .arrays import DeviceArray
from .errors import LaunchError
from .launch import as_grid

MISSING = object()
OPTIONS = ("num_warps", "num_threads", "num_stages", "num_ctas", "stream")
ENVIRON = getattr(os.environ, "_data", os.environ)  # undecoded: it is read at every launch
BACKEND = getattr(os.environ, "encodekey", str)("TINYTON_BACKEND")


def _define(text: str, scope: dict[str, Any]) -> dict[str, Any]:
    exec(compile(text, "<tinyton dispatch>", "exec"), scope)  # noqa: S102  (our text; its only names are parameters)
    return scope


def entrance(kernel: Any) -> Callable[..., None]:
    """``launch(grid, *args, **options)``: binds the arguments, tries the short way, else takes the long one."""
    constants = [n for n in kernel.names if n not in kernel.runtime]
    bind = "".join(f"{n}=_tt_default_{n}, " if n in constants else f"{n}=_tt_missing, " for n in kernel.names)
    given = "".join(f"{n}, " for n in kernel.names)
    options = ", ".join(OPTIONS)
    text = f"""
def {kernel.source.name}(_tt_grid, /, {bind}*_tt_extra, {"=None, ".join(OPTIONS)}=None, **_tt_named):
    _tt_short = _tt_table.get(({"".join(f"{n}.__class__, " for n in kernel.runtime)}))
    if _tt_short is None or _tt_extra or _tt_named or not _tt_short(_tt_grid, {given}{options}):
        _tt_long(_tt_grid, ({given}*_tt_extra), _tt_named, ({options}))
"""
    defaults = {p.name: p.default for p in kernel.source.params if p.default is not p.empty}
    scope = {f"_tt_default_{n}": defaults.get(n, MISSING) for n in constants}
    scope |= {"_tt_missing": MISSING, "_tt_table": kernel.shortcuts, "_tt_long": kernel.launch}
    return _define(text, scope)[kernel.source.name]


def _read(cls: type, name: str) -> tuple[str, list[str]] | None:
    """How an argument of this class is read: what is passed on, and what of it belongs to the key."""
    module = cls.__module__.partition(".")[0]
    if cls is DeviceArray:
        return f"{name}.address", [f"{name}.dtype"]
    if cls is int:
        return name, [f"-0x80000000 <= {name} <= 0x7fffffff", f"{name} & 15 == 0"]
    if cls is float or cls is bool:
        return name, []
    if module == "torch" and hasattr(cls, "data_ptr"):
        return f"{name}.data_ptr()", [f"{name}.dtype", f"{name}.is_cuda"]
    if module == "pycuda" and hasattr(cls, "gpudata"):
        return f"int({name}.gpudata)", [f"{name}.dtype"]
    return None


class Shortcut:
    """The short way for one tuple of argument classes: ``launch`` says if it has launched; `learn` adds a variant."""

    def __init__(self, kernel: Any, classes: tuple[type, ...], executor: Any):
        reads = [_read(cls, f"a{k}") for k, cls in enumerate(classes)]
        self.entries: dict[tuple, tuple] = {}
        self.usable = executor.name == "cuda" and None not in reads
        if not self.usable:
            return
        constants = [n for n in kernel.names if n not in kernel.runtime]
        place = {n: f"a{k}" for k, n in enumerate(kernel.runtime)} | {n: f"c{k}" for k, n in enumerate(constants)}
        parts = [part for r in reads if r for part in r[1]]
        for value in [*(place[n] for n in constants), *(_outside(kernel, path) for path in kernel.watched)]:
            parts += [f"{value}.__class__", value]
        key = (
            "".join(f"{part}, " for part in parts)
            + "num_warps, num_threads, num_stages, num_ctas, environ.get(backend)"
        )
        params = ", ".join([*(place[n] for n in kernel.names), *OPTIONS])
        passed = ", ".join(f"p{k}" for k in range(len(classes)))
        pointers = " | ".join(f"p{k}" for k, cls in enumerate(classes) if cls not in (int, float, bool)) or "0"
        torch = any(cls.__module__.startswith("torch") for cls in classes)
        text = f"""
def key({params}):
    return ({key})

def launch(grid, {params}):
    {"; ".join(f"p{k} = {r[0]}" for k, r in enumerate(reads) if r) or "pass"}
    if ({pointers}) & 15 {"or stream_of_torch(0) " if torch else ""}or thread() != main or executor.forked:
        return False
    try:
        entry = entries.get(({key}))
    except (TypeError, AttributeError):
        return False
    if entry is None:
        return False
    call, block, pack, shared = entry
    if grid.__class__ is not tuple:
        if callable(grid):
            grid = grid({{{", ".join(f"{n!r}: {place[n]}" for n in constants)}}})
        grid = (grid,) if grid.__class__ is int else grid
    if grid.__class__ is tuple and len(grid) == 1 and grid[0].__class__ is int and 0 < grid[0] <= mx:
        where = grid[0], 1, 1
    else:
        try:
            where = as_grid(grid, {{}}, limits)
        except LaunchError:
            return False
        if 0 in where:
            return False
    try:
        call(where, block, pack({passed}), shared, stream)
    except failure as error:
        raise refused(name, error) from None
    return True
"""
        code = kernel.source.function.__code__
        scope: dict[str, Any] = {
            "entries": self.entries,
            "executor": executor,
            "thread": threading.get_ident,
            "main": executor.thread,
            "environ": ENVIRON,
            "backend": BACKEND,
            "module": kernel.source.function.__globals__,
            "cells": dict(zip(code.co_freevars, kernel.source.function.__closure__ or (), strict=True)),
            "failure": executor.cu.Error,
            "refused": refused,
            "name": kernel.source.name,
            "limits": executor.limits,
            "mx": executor.limits["x"],
            "as_grid": as_grid,
            "LaunchError": LaunchError,
        }
        if torch:
            scope["stream_of_torch"] = sys.modules["torch"]._C._cuda_getCurrentRawStream
        made = _define(text, scope)
        self.key, self.launch = made["key"], made["launch"]

    def learn(self, values: tuple, options: tuple, compiled: Any) -> None:
        loaded = compiled.loaded
        entry = (loaded.function._launch_kernel, (compiled.threads, 1, 1), loaded.pack, loaded.shared)
        self.entries[self.key(*values, *options)] = entry


def _outside(kernel: Any, path: str) -> str:
    """Python that reads a name of the kernel's module or closure as it is now."""
    root, *rest = path.split(".")
    closed = root in kernel.source.function.__code__.co_freevars
    return ".".join([f"cells[{root!r}].cell_contents" if closed else f"module[{root!r}]", *rest])


def refused(name: str, error: Exception) -> LaunchError:
    return LaunchError(f"the CUDA driver refused to launch {name}: {error}")
