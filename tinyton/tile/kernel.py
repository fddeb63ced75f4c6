"""`@ct.kernel` and `ct.launch`: an array that is passed becomes a pointer, extents and strides in the compiled code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from inspect import isfunction
from operator import index
from threading import Thread
from typing import Any

from ..backends import current
from ..compiled import CompiledKernel
from ..dispatch import Kind
from ..dtypes import int64
from ..errors import CompilerTimeoutError, KernelTypeError, TinytonError
from ..jit import JITFunction
from ..ops.typing import is_record
from ..specialize import Arg
from ..spelling import Leaf
from .absent import missing
from .arguments import ArgumentError, RangeError, Wide, constant, take_apart
from .array import Array
from .language import NAMES, SPELLING

MOST = (1 << 24) - 1  # programs along an axis of the grid


@dataclass(frozen=True)
class ByTarget:
    """A hint whose value depends on the device: ``ByTarget(sm_90=4, default=2)``. Without a default, other devices than
    the named ones have no hint, nor have OpenCL and the interpreter."""

    values: Mapping[str, int | None]

    def __init__(self, *, default: int | None = None, **values: int):
        for name in values:
            if not re.fullmatch(r"sm_\d+[af]?", name):
                raise ArgumentError(f"a device is named as in sm_90, not {name}; others take default=")
        object.__setattr__(self, "values", values | {"default": default})


OPTIONS = {"num_warps": "num_worker_warps", "num_ctas": "num_ctas"}  # of launches, and the hints that set them
HINTS = {"num_ctas": (1, 2, 4, 8, 16), "occupancy": range(1, 33), "opt_level": range(4), "num_worker_warps": (4, 8)}


def _checked(hints: Mapping[str, Any]) -> dict[str, Any]:
    for name, hint in hints.items():
        if name not in HINTS:
            raise ArgumentError(f"a kernel has no hint {name}; there are {', '.join(HINTS)}")
        for value in hint.values.values() if isinstance(hint, ByTarget) else [hint]:
            whole = hasattr(value, "__index__") and not isinstance(value, bool)
            if value is not None and (not whole or value not in HINTS[name]):
                known = HINTS[name]
                what = f"{known[0]} to {known[-1]}" if isinstance(known, range) else ", ".join(map(str, known))
                raise RangeError(f"{name} is one of {what}, not {value!r}")
    return dict(hints)


TIMEOUT: ContextVar[float | None] = ContextVar("seconds that a kernel may take to compile", default=None)


@contextmanager
def compiler_timeout(seconds: float) -> Iterator[None]:
    """``with ct.compiler_timeout(30):`` a kernel that takes longer than this many seconds to compile in there, in this
    thread, raises `TileCompilerTimeoutError`. The compiler goes on in the background; when it is done, the kernel can
    be launched. `RangeError`, a ValueError, if ``seconds`` is not above 0.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def one(x): ct.store(x, 0, 1)
    >>> x = np.zeros(1, np.float32)
    >>> with ct.compiler_timeout(60): ct.launch(None, (1,), one, (x,))
    >>> x.tolist()
    [1.0]
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise RangeError(f"a timeout is a number of seconds above 0, not {seconds!r}")
    before = TIMEOUT.set(seconds)
    try:
        yield
    finally:
        TIMEOUT.reset(before)


class Kernel(JITFunction):
    """A kernel about arrays, made by `kernel` and launched by `launch`."""

    prefix = "_tt_"  # launch options have names of our own: a parameter may be called stream

    def __init__(self, function: Callable, **hints: Any):
        self.hints = _checked(hints)
        super().__init__(function, spelling=SPELLING)
        self.annotations = {p.name: p.annotation for p in self.source.params}

    def __call__(self, *args: object, **kwargs: object) -> None:
        name = self.source.name
        raise ArgumentError(f"{name} is a kernel: launch it with ct.launch(stream, grid, {name}, (arguments))")

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return self()  # type: ignore[return-value]

    def replace_hints(self, **hints: Any) -> Kernel:
        """The same kernel with these hints changed. It is another kernel, which compiles its own variants."""
        return kernel(self.fn, **{**self.hints, **hints})

    def hint(self, name: str) -> int | None:
        """What a hint says for the device in use; None if nothing."""
        hint = self.hints.get(name)
        return hint.values.get(current().arch, hint.values["default"]) if isinstance(hint, ByTarget) else hint

    @property
    def programs(self) -> int | None:  # type: ignore[override]
        return self.hint("occupancy")

    def _compile(self, *what: Any) -> CompiledKernel:
        seconds, done = TIMEOUT.get(), Future[CompiledKernel]()
        if seconds is None:
            return super()._compile(*what)

        def work() -> None:
            try:
                done.set_result(super(Kernel, self)._compile(*what))
            except BaseException as error:
                done.set_exception(error)

        Thread(target=work, daemon=True).start()
        try:
            return done.result(seconds)
        except TimeoutError:
            raise CompilerTimeoutError(f"{self.source.name} takes longer than {seconds} s to compile") from None

    def _bind(self, args: tuple, named: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name; those of which a parameter is made stand behind it."""
        bound = super()._bind(args, named, options)
        out: dict[str, Any] = {}
        for name in self.names:
            parts: dict[str, Any] = {}
            x, annotation = bound[name], self.annotations[name]
            fixed = name in self.source.constexprs
            out[name] = constant(name, x, annotation) if fixed else take_apart(name, x, parts, annotation)
            if isinstance(out[name], Leaf):  # a number
                del out[name]
            out |= parts
        return out

    def given(self, bound: Mapping[str, Any], name: str) -> Any:
        return bound.get(f"{name}.data", bound[name])

    def kind(self, bound: Mapping[str, Any], name: str) -> Kind:
        x = bound[name]
        if not isinstance(x, Array):
            return Kind(x.__class__)
        if any(not isinstance(n, Leaf) for n in x.shape) or any(not isinstance(s, Leaf) and s != 1 for s in x.strides):
            return Kind(Array)  # as its annotation says: always the long way
        return Kind(self.given(bound, name).__class__, tuple(not isinstance(s, Leaf) for s in x.strides))

    def constants(self, bound: Mapping[str, Any]) -> dict[str, object]:
        fixed = self.source.constexprs
        return {n: x for n, x in bound.items() if n in fixed or isinstance(x, tuple) or is_record(x)}

    def describe(self, name: str, x: Any, executor: Any) -> tuple[Arg, Any]:
        try:
            arg, payload = super().describe(name.removesuffix(".data"), x, executor)
        except KernelTypeError as error:
            raise ArgumentError(error.message) from None
        return replace(arg, dtype=int64) if isinstance(x, Wide) else arg, payload


def kernel(function: Callable | None = None, /, **hints: Any) -> Any:
    """Makes a kernel of a function: ``@ct.kernel``, or ``@ct.kernel(occupancy=2)``.

    Hints are ints or `ByTarget`. On CUDA, ``num_worker_warps`` (4 or 8) is the number of warps a program, and
    ``occupancy`` (1 to 32) how many programs a multiprocessor is to hold at once: the compiler then takes no more
    registers than leave room for them. ``num_ctas`` (1, 2, 4, 8 or 16; more than 8 are 8) is how many blocks of a
    cluster share the rounds of a loop of sums, from sm_90 on. ``opt_level`` (0 to 3) is checked and has no effect.
    `RangeError`, a ValueError, if a hint has another value.

    >>> import tinyton.tile as ct
    >>> @ct.kernel(occupancy=ct.ByTarget(sm_90=2, default=1))
    ... def one(x): ct.store(x, 0, 1)
    >>> try: one.replace_hints(num_ctas=3)
    ... except ValueError as error: print(error)
    num_ctas is one of 1, 2, 4, 8, 16, not 3
    """
    try:
        return partial(kernel, **_checked(hints)) if function is None else Kernel(function, **hints)
    except TinytonError as error:
        raise _plain(error) from None


def _plain(error: TinytonError) -> TinytonError:
    """In the words of this spelling, without the frames of the compiler."""
    error.message = SPELLING.words(error.message)
    return error.with_traceback(None)


def launch(
    stream: Any, grid: tuple[int, ...], kernel: Kernel, args: tuple, /, *, programmatic_dependent_launch: bool = False
) -> None:
    """Runs ``kernel`` over ``grid``, a tuple of up to three ints, with ``args``, a tuple of all its arguments.

    ``stream`` is None or 0 for the executor's own, or on CUDA a stream of PyCUDA, torch or CuPy, or a stream's handle.
    Arrays of NumPy, torch, CuPy, PyCUDA, and what speaks DLPack are taken as they are, with any strides; ints are int32
    if they fit, else int64; floats take the type of what they meet. So are tuples and frozen dataclasses of these, and
    lists of arrays of one type and rank. Text, None, enums and types are for parameters annotated `Constant`.
    ``programmatic_dependent_launch`` is not in this build.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def double(x, TILE: ct.Constant[int]):
    ...     i = ct.bid(0)
    ...     ct.store(x, i, 2 * ct.load(x, i, TILE))
    >>> a = np.arange(5, dtype=np.int32)
    >>> ct.launch(None, (2,), double, (a, 4))
    >>> a.tolist()
    [0, 2, 4, 6, 8]
    """
    try:
        if programmatic_dependent_launch:
            missing("programmatic_dependent_launch")
        if not isinstance(kernel, Kernel):
            what = f"the function {kernel.__name__}" if isfunction(kernel) else f"{kernel!r}"
            raise ArgumentError(f"launch runs what is under @ct.kernel, not {what}")
        if not isinstance(args, tuple):
            raise ArgumentError(f"the arguments of {kernel.source.name} are a tuple, not a {type(args).__name__}")
        if len(args) != len(kernel.names):
            names = ", ".join(kernel.names)
            raise ArgumentError(f"{kernel.source.name} takes {len(kernel.names)} arguments ({names}), not {len(args)}")
        where = None if stream is None or (isinstance(stream, int) and stream == 0) else stream
        hints = {f"_tt_{option}": kernel.hint(word) for option, word in OPTIONS.items()}
        options = hints | {"_tt_stream": where}
        kernel._enter(_grid(grid), *args, **{name: x for name, x in options.items() if x is not None})
    except TinytonError as error:
        raise _plain(error) from None


def _grid(grid: Any) -> tuple[int, int, int]:
    if not isinstance(grid, tuple) or len(grid) > 3:
        raise ArgumentError(f"the grid is a tuple of up to three ints, not {grid!r}")
    for axis, n in enumerate(grid):
        if isinstance(n, (bool, float)) or not hasattr(n, "__index__"):
            raise ArgumentError(f"axis {axis} of the grid is {n!r}, a {type(n).__name__}; it must be an int")
        if not 0 <= n <= MOST:
            raise RangeError(f"axis {axis} of the grid is {n}; it must be 0 to {MOST}, 24 bits")
    return (*map(index, grid), *(1,) * (3 - len(grid)))


NAMES |= {"kernel": kernel, "launch": launch, "compiler_timeout": compiler_timeout, "ByTarget": ByTarget}
