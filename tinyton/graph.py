"""``tt.graph()``: a sequence of launches, recorded once and replayed at the price of one.

What a launch costs the host (reading arguments, finding the variant, calling the driver) is paid when it is recorded.
On cuda the recorded launches become one CUDA graph, which the driver starts in one call; elsewhere they are launched
one after the other, without that work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import backends
from .backends.driver import ask
from .errors import LaunchError


@dataclass(frozen=True)
class Launch:
    """One launch of a graph: the kernel's name, its grid, its threads a program."""

    name: str
    grid: tuple[int, int, int]
    threads: int


@dataclass(frozen=True)
class Step:
    """A launch as it is replayed: the payloads of its arguments by name, and the arguments, which it keeps alive."""

    compiled: Any
    grid: tuple[int, int, int]
    passed: dict[str, Any]
    bound: dict[str, Any]

    def args(self) -> list[Any]:
        point = self.compiled.executor.pointer
        return [point(name, *p) if type(p) is tuple else p for name, p in self.passed.items()]


class Graph:
    """Launches in order, made by `graph`. ``graph.replay()``, or ``graph()``, launches all of them; ``launches`` lists
    them."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self._steps: list[Step] = []
        self._executor: Any = None
        self._handle: ctypes.c_void_p | None = None

    def __enter__(self) -> Graph:
        executor = backends.current()
        if getattr(executor, "recorder", None):
            raise LaunchError("launches are being recorded already: a graph cannot be recorded inside another")
        if self.launches:
            raise LaunchError("this graph is recorded; make another one with tt.graph()")
        self._executor, executor.recorder, executor.detour = executor, self._record, True
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self._executor.recorder, self._executor.detour = None, False
        if kind is None and self._executor.name == "cuda" and self._steps:
            self._handle = _instantiate(self._executor, self._steps)

    def _record(
        self, kernel: Any, bound: dict, compiled: Any, grid: tuple, passed: dict, stream: Any, block: tuple | None
    ) -> None:
        if stream is not None:
            raise LaunchError(f"{compiled.name} is recorded in a graph, which runs on the default stream; drop stream=")
        if compiled.hidden:
            raise LaunchError(f"{compiled.name} prints or asserts, which takes a launch of its own, outside of a graph")
        if hosts := [name.removesuffix(".data") for name, p in passed.items() if isinstance(p, np.ndarray)]:
            raise LaunchError(
                f"argument {hosts[0]} of {compiled.name} is on the host; a graph replays launches on arrays on the "
                "device: tt.to_device(x)"
            )
        if 0 in grid:
            return
        if block is not None:
            compiled = copy(compiled)
            compiled.launch_block = block
        step = Step(compiled, grid, passed, bound)
        self._steps.append(replace(step, compiled=compiled.fitting(step.args())))
        self.launches.append(Launch(compiled.name, grid, compiled.threads))

    def replay(self) -> None:
        """Launches all again, on the arrays that they were recorded with."""
        executor = self._executor
        if executor is None or executor.recorder == self._record:
            raise LaunchError("this graph is not recorded yet: replay it after its with block")
        if executor is not backends.current():
            raise LaunchError(f"this graph was recorded on {executor.name}; launches are on {backends.current().name}")
        if self._handle:
            with executor.here(), executor._after_torch(None) as stream, _timed(executor, f"graph of {len(self)}"):
                ask("cuGraphLaunch", self._handle, ctypes.c_void_p(stream.handle if stream else 0))
            return
        for step in self._steps:
            with _timed(executor, step.compiled.name):
                executor.launch(step.compiled, step.grid, step.args(), None)

    __call__ = replay

    def __len__(self) -> int:
        return len(self.launches)

    def __repr__(self) -> str:
        return f"<graph of {len(self)} launch{'es' * (len(self) != 1)}: {', '.join(x.name for x in self.launches)}>"

    def __del__(self) -> None:
        if self._handle:
            with suppress(Exception), self._executor.here():
                self._executor.context.synchronize()
                ask("cuGraphExecDestroy", self._handle)


def graph() -> Graph:
    """Launches inside ``with tt.graph() as g:`` are recorded and not run; ``g.replay()`` runs them all, in order, as
    often as wanted. Their arguments are those of the recording: the same arrays, whose contents may change in between,
    and the same numbers.

    On cuda it is a CUDA graph: one call of the driver, whatever the number of launches. Kernels are compiled, and
    tuned, when they are recorded. Arrays must be on the device. `LaunchError` for NumPy's arrays, ``stream=``, and
    kernels that print or assert. What other libraries launch in the block runs at once and is not recorded.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def double(x, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(x + i, 2 * tt.load(x + i))
    >>> x = tt.to_device(np.ones(512, np.float32))
    >>> with tt.graph() as g:
    ...     for _ in range(3):
    ...         double[2](x, BLOCK=256)
    >>> g
    <graph of 3 launches: double, double, double>
    >>> g.replay()
    >>> float(x.numpy()[0])
    8.0
    """
    return Graph()


@contextmanager
def unrecorded(executor: Any) -> Iterator[None]:
    """Launches in the block are run, even while a graph is recorded."""
    before = getattr(executor, "recorder", None)
    executor.recorder = None
    try:
        yield
    finally:
        executor.recorder = before


def _timed(executor: Any, name: str) -> AbstractContextManager[None]:
    """For tt.viz.timeline, which notes what is launched."""
    watch = getattr(executor, "timed", None)
    return watch(name) if watch else nullcontext()


def _instantiate(executor: Any, steps: list[Step]) -> ctypes.c_void_p:
    """The launches as one executable graph of the driver: captured from a stream that only they are on."""
    captured, made = ctypes.c_void_p(), ctypes.c_void_p()
    with executor.here():
        stream = executor.cu.Stream()
        end = "cuStreamEndCapture", ctypes.c_void_p(stream.handle), ctypes.byref(captured)
        ask("cuStreamBeginCapture_v2", ctypes.c_void_p(stream.handle), 1)  # other threads may go on
        try:
            for step in steps:
                loaded, block = step.compiled.loaded, step.compiled.launch_block
                loaded.start(step.grid, block, loaded.pack(*step.args()), loaded.shared, stream)
        except executor.cu.Error as error:
            with suppress(LaunchError):
                ask(*end)
            raise executor.refused(step.compiled.name, error) from None
        ask(*end)
        ask("cuGraphInstantiateWithFlags", ctypes.byref(made), captured, ctypes.c_ulonglong(0))
        ask("cuGraphDestroy", captured)
    return made
