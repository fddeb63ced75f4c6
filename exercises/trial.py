"""What a check works with: random inputs, outputs with canaries, watched launches, comparisons that say where."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

import tinyton as tt
import tinyton.tile as ct
from tinyton.jit import JITFunction
from tinyton.tile.kernel import Kernel

EDGE = 64  # elements behind an array, for who goes too far


class Wrong(Exception):
    """What is wrong with an answer, in words for its author."""


def poison(size: int, dtype: Any) -> np.ndarray:
    """Elements that no kernel computes: NaN with a pattern of its own, or a large number."""
    dtype = np.dtype(dtype)
    return np.full(size * dtype.itemsize, 0xFF if dtype.kind == "f" else 0xA5, np.uint8).view(dtype)


class Out:
    """An array that a kernel writes. It starts poisoned, or as ``data``, and canaries follow it."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, data: np.ndarray | None = None):
        self.shape, self.size, self.name = shape, int(np.prod(shape, dtype=int)), "the result"
        self.flat = poison(self.size + EDGE, dtype)
        if data is not None:
            self.flat[: self.size] = data.ravel()

    @property
    def array(self) -> np.ndarray:
        return self.flat[: self.size].reshape(self.shape)

    def intact(self) -> bool:
        behind = self.flat[self.size :]
        return same_bits(behind, poison(EDGE, behind.dtype)).all()


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    kind = np.dtype(f"u{a.dtype.itemsize}")
    return np.ascontiguousarray(a).view(kind) == np.ascontiguousarray(b).view(kind)


class Trial:
    """One run of a check, with the numbers of ``seed``, on the executor in use."""

    def __init__(self, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.doing, self.text, self.programs, self.compared = "", "", 0, 0

    # -- inputs ----------------------------------------------------------------------------------

    def floats(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        return (self.rng.standard_normal(shape) + 0.25).astype(dtype)

    def ints(self, low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
        """From ``low`` to ``high``, both included."""
        return self.rng.integers(low, high + 1, shape).astype(dtype)

    def number(self) -> float:
        """A float that is none of the numbers which hide mistakes, such as 0 and 1."""
        return round(float(self.rng.uniform(1.5, 9.5)), 2)

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def size(self, block: int, programs: int = 3) -> int:
        """A length that takes so many programs, the last of which has a part of a tile."""
        return block * (programs - 1) + self.integer(1, block - 1)

    def sizes(self, block: int) -> list[int]:
        """Lengths of several tiles and a part, and one that is less than a tile."""
        return [self.size(block, 3), self.size(block, 6), self.size(block, 1)]

    def out(self, *shape: int, dtype: Any = np.float32, data: np.ndarray | None = None) -> Out:
        return Out(shape, dtype) if data is None else Out(data.shape, data.dtype, data)

    # -- launches --------------------------------------------------------------------------------

    def launch(self, kernel: Any, grid: Any, *args: Any, **meta: Any) -> None:
        """``kernel[grid](*args, **meta)``, where an `Out` stands for its array. Nothing but those may be changed, nor
        what is behind them."""
        cells = grid if isinstance(grid, tuple) else (grid,)
        passed, befores = self._passed(kernel, args)
        names, self.doing = _words(kernel, cells, args, meta)
        for name, x in names.items():
            if isinstance(x, Out):
                x.name = name
        if isinstance(kernel, Kernel):
            ct.launch(None, cells, kernel, tuple(passed))
        else:
            kernel[cells](*passed, **meta)
        self.programs = max(self.programs, int(np.prod(cells)))
        for name, x, now, before in zip(names, args, passed, befores, strict=False):
            if isinstance(x, Out) and not x.intact():
                raise Wrong(f"it writes behind the end of {name}, which has {x.size} elements")
            if before is not None and not same_bits(now, before).all():
                at = np.argwhere(~same_bits(now, before).reshape(now.shape))[0]
                raise Wrong(f"{name} is an input, but element {', '.join(map(str, at))} of it was written")

    def count(self, kernel: Any, grid: Any, *args: Any, **meta: Any) -> tt.Count:
        """`tt.count` of that launch."""
        _kernel(kernel)
        self.doing = _words(kernel, grid if isinstance(grid, tuple) else (grid,), args, meta)[1]
        return tt.count(kernel, grid, *(x.array if isinstance(x, Out) else x for x in args), **meta)

    def short(self, kernel: Any, *args: Any, **meta: Any) -> None:
        """Nothing in the kernel is a float64."""
        _kernel(kernel)
        ops = kernel.compile(*(x.array if isinstance(x, Out) else x for x in args), **meta).ir.ops()
        self.demand(
            all(v.type.dtype is not tt.float64 for op in ops for v in op.results),
            "it has float64 in it, not float32 alone",
        )

    def _passed(self, kernel: Any, args: tuple) -> tuple[list[Any], list[Any]]:
        """What is passed for each argument, and what an input was before. In the interpreter, arrays end where they
        should, so that it finds who goes further; elsewhere that would be someone else's memory."""
        _kernel(kernel)
        exact = isinstance(kernel, Kernel) or tt.backends.current().name == "interpreter"
        passed, befores = [], []
        for x in args:
            if isinstance(x, Out):
                passed.append(x.array if exact else x.flat)
            elif isinstance(x, np.ndarray):
                whole = x if exact else np.concatenate([x.ravel(), poison(EDGE, x.dtype)])
                passed.append(whole)
            else:
                passed.append(x)
            befores.append(passed[-1].copy() if isinstance(x, np.ndarray) else None)
        return passed, befores

    # -- comparisons -----------------------------------------------------------------------------

    def equal(self, got: Any, want: Any) -> None:
        """Equal to the last bit; any NaN equals any NaN."""
        self._compare(got, want, lambda a, b: (a == b) | ((a != a) & (b != b)))

    def close(self, got: Any, want: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
        self._compare(got, want, lambda a, b: np.isclose(a, b, rtol, atol, equal_nan=True))

    def _compare(self, got: Any, want: Any, right: Callable) -> None:
        name = got.name if isinstance(got, Out) else "the result"
        array = got.array if isinstance(got, Out) else np.asarray(got)
        want = np.asarray(want)
        self.compared += 1
        if array.shape != want.shape:
            raise Wrong(f"{name} has shape {array.shape}, not {want.shape}")
        if array.dtype.kind not in "biufc":
            raise Wrong(f"{name} is {got!r}, not numbers")
        if array.size == 0 or (good := right(array, want)).all():
            return
        at = tuple(map(int, np.argwhere(~good)[0]))
        what = f"{name}[{', '.join(map(str, at))}]" if at else name
        untouched = isinstance(got, Out) and same_bits(array, poison(array.size, array.dtype).reshape(array.shape))[at]
        if array.dtype.kind == want.dtype.kind:
            want = want.astype(array.dtype)
        says = f"{what} was never written; it should be {want[at]!s}" if untouched else ""
        says = says or f"{what} is {array[at]!s}, not {want[at]!s}"
        raise Wrong(says + f" ({(~good).sum()} of {good.size} elements differ)" * (good.size > 1))

    def same(self, got: Any, want: Any, what: str = "") -> None:
        """Equal values of one type: an int is not a float, a list not a tuple."""
        self.compared += 1
        if not _alike(got, want):
            raise Wrong(_difference(what or self.doing, got, want))

    def lines(self, got: str, want: str, what: str) -> None:
        """Equal texts; the first line that differs is shown."""
        self.compared += 1
        pairs = zip_longest(str(got).split("\n"), str(want).split("\n"), fillvalue="(nothing)")
        for number, (mine, theirs) in enumerate(pairs, 1):
            if mine != theirs:
                raise Wrong(f"{what} differs in line {number}:\n    {mine.strip()}\nand not\n    {theirs.strip()}")

    def demand(self, condition: Any, otherwise: str) -> None:
        self.compared += 1
        if not condition:
            raise Wrong(otherwise)


def _words(kernel: Any, cells: tuple, args: tuple, meta: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The arguments of a launch by name, and the launch in words."""
    names = dict(zip(kernel.names, args, strict=False)) | meta
    scalars = ", ".join(f"{n}={x!r}" for n, x in names.items() if not isinstance(x, (np.ndarray, Out)))
    where = ", ".join(map(str, cells))
    return names, f"{kernel.source.name} over a grid of {where} with {scalars or 'arrays only'}"


def _kernel(x: Any) -> None:
    if not isinstance(x, JITFunction):
        raise Wrong(f"{getattr(x, '__name__', repr(x))} is not a kernel: write @tt.jit (or @ct.kernel) above its def")


def _alike(got: Any, want: Any) -> bool:
    got = got.item() if isinstance(got, np.generic) else got
    if isinstance(want, (tuple, list)):
        return type(got) is type(want) and len(got) == len(want) and all(map(_alike, got, want))
    if isinstance(want, dict):
        return type(got) is dict and list(got) == list(want) and all(map(_alike, got.values(), want.values()))
    return type(got) is type(want) and got == want


def _difference(name: str, got: Any, want: Any) -> str:
    """Of what is too long for a line, the first element that differs."""
    if not (isinstance(want, (list, tuple)) and type(got) is type(want) and len(repr(want)) > 200):
        return f"{name} is {_short(got)}, not {_short(want)}"
    for k, (mine, theirs) in enumerate(zip(got, want, strict=False)):
        if not _alike(mine, theirs):
            return _difference(f"{name}[{k}]", mine, theirs)
    return f"{name} has {len(got)} elements, not {len(want)}"


def _short(x: Any) -> str:
    text = repr(x.item() if isinstance(x, np.generic) else x)
    return text if len(text) <= 200 else text[:200] + "…"
