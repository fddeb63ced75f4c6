"""``tt.viz.timeline``: when the host made the launches of a call, and when the device ran them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import backends
from .compiled import run
from .errors import TinytonError
from .picture import COLOURS, Picture

SHOWN = 24  # lines of text


@dataclass(frozen=True)
class Span:
    """One launch, in seconds from the start of the call: the host was busy with it from ``called`` to ``returned``,
    the device from ``start`` to ``end``."""

    name: str
    called: float
    returned: float
    start: float
    end: float


@dataclass(frozen=True, repr=False)
class Timeline(Picture):
    """A timeline as a picture, with its ``spans``."""

    spans: tuple[Span, ...] = field(default=(), repr=False)

    @property
    def seconds(self) -> float:
        """From the start of the call to the end of the last launch on the device."""
        return max(s.end for s in self.spans)

    @property
    def busy(self) -> float:
        """The share of that time in which the device ran a kernel."""
        return sum(s.end - s.start for s in self.spans) / self.seconds


def timeline(fn: Callable[[], object], warmup: int = 2) -> Timeline:
    """When the host made each launch of tinyton's in ``fn()``, and when the device ran it: two rows on one clock. A bar
    of the host's row is all that it did since the launch before, until the call came back. ``.spans`` has the numbers,
    ``.busy`` the share of the time in which the device had work, ``.seconds`` the whole time.

    The call is made ``warmup`` times before. The device's times are those of CUDA's events or OpenCL's profiling; they
    are some microseconds off the host's clock. A graph's replay is one bar on cuda. What other libraries launch is not
    seen. `TinytonError` if nothing is launched.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def double(x, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(x + i, 2 * tt.load(x + i))
    >>> x = tt.to_device(np.ones(4096, np.float32))
    >>> seen = tt.viz.timeline(lambda: [double[4](x, BLOCK=1024) for _ in range(3)])
    >>> [span.name for span in seen.spans]
    ['double', 'double', 'double']
    >>> 0 < seen.busy <= 1
    True
    """
    executor = backends.current()
    for _ in range(max(1, warmup)):
        fn()
    with RECORDERS[executor.name](executor).watching(fn) as recorder:
        executor.synchronize()
        recorder.begin()
        fn()
        executor.synchronize()
    spans = recorder.spans()
    if not spans:
        raise TinytonError("the call launches no kernel of tinyton's: there is nothing to draw")
    return _picture(spans, executor.device_info()["device"])


class Recorder:
    """Notes when launches are made and run. On an executor without a clock of its own, the host runs them."""

    def __init__(self, executor: Any):
        self.executor = executor
        self.calls: list[tuple[str, float, float, Any]] = []

    def begin(self) -> None:
        self.calls.clear()
        self.zero = self.last = time.perf_counter()

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Around what puts work on the device."""
        before = self.mark()
        yield
        after, now = self.mark(), time.perf_counter()
        self.calls.append((name, self.last, now, (before, after)))
        self.last = now

    @contextmanager
    def watching(self, fn: Callable[[], object]) -> Iterator[Recorder]:
        def launch(kernel: Any, bound: dict, compiled: Any, grid: Any, passed: dict, stream: Any, block: Any) -> None:
            with self.timed(compiled.name):
                run(compiled, grid, passed, stream, block)

        if getattr(self.executor, "recorder", None):
            raise TinytonError("launches are being recorded already: draw the timeline outside of the graph's block")
        self.executor.recorder, self.executor.timed = launch, self.timed
        try:
            with self.short_ways(fn):
                yield self
        finally:
            self.executor.recorder = self.executor.timed = None

    @contextmanager
    def short_ways(self, fn: Callable[[], object]) -> Iterator[None]:
        """Where launches may go past the executor, watches them there, too."""
        yield

    def mark(self) -> Any:
        return time.perf_counter()

    def spans(self) -> list[Span]:
        return [
            Span(name, called - self.zero, returned - self.zero, a - self.zero, b - self.zero)
            for name, called, returned, (a, b) in self.calls
        ]


class OpenCLRecorder(Recorder):
    def begin(self) -> None:
        super().begin()
        self.executor.recorded = self.events = []

    def mark(self) -> Any:
        return len(self.events) if self.executor.recorded is not None else 0

    @contextmanager
    def watching(self, fn: Callable[[], object]) -> Iterator[Recorder]:
        with super().watching(fn):
            try:
                yield self
            finally:
                self.executor.recorded = None

    def spans(self) -> list[Span]:
        seen = [(call, event.profile) for *call, (a, b) in self.calls for event in self.events[a:b]]
        if not seen:
            return []
        early = max(called - p.queued * 1e-9 for (_, called, _), p in seen)  # each is queued while the host is at it
        late = min(returned - p.queued * 1e-9 for (_, _, returned), p in seen)
        offset = (early + late) / 2 - self.zero  # between the two clocks
        return [
            Span(name, called - self.zero, returned - self.zero, p.start * 1e-9 + offset, p.end * 1e-9 + offset)
            for (name, called, returned), p in seen
        ]


class CudaRecorder(Recorder):
    def begin(self) -> None:
        super().begin()
        self.base = self.mark()

    def mark(self) -> Any:
        with self.executor.here():
            event = self.executor.cu.Event()
            event.record()
            return event

    @contextmanager
    def short_ways(self, fn: Callable[[], object]) -> Iterator[None]:
        kernels, long_way = set(), self.executor.recorder

        def note(kernel: Any, *rest: Any) -> None:
            kernels.add(kernel)
            long_way(kernel, *rest)

        self.executor.recorder, self.executor.detour = note, True
        self.begin()
        fn()
        self.executor.recorder, self.executor.detour = long_way, False
        before = {(k, n): dict(route.entries) for k in kernels for n, route in enumerate(k._routes)}
        for kernel in kernels:
            for route in kernel._routes:
                route.entries.update(
                    {key: (self._started(kernel.source.name, e[0]), *e[1:]) for key, e in route.entries.items()}
                )
        try:
            yield
        finally:
            for kernel, n in before:
                kernel._routes[n].entries.update(before[kernel, n])

    def _started(self, name: str, start: Callable) -> Callable:
        def timed(*args: Any) -> None:
            with self.timed(name):
                start(*args)

        return timed

    def spans(self) -> list[Span]:
        out = []
        with self.executor.here():
            for name, called, returned, (a, b) in self.calls:
                start, end = (self.base.time_till(event) * 1e-3 for event in (a, b))
                out.append(Span(name, called - self.zero, returned - self.zero, start, end))
        return out


RECORDERS = {"cuda": CudaRecorder, "opencl": OpenCLRecorder, "interpreter": Recorder}


def _picture(spans: list[Span], device: str) -> Timeline:
    names = list(dict.fromkeys(span.name for span in spans))
    colour = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for y, bars in enumerate(([(s.called, s.returned) for s in spans], [(s.start, s.end) for s in spans])):
            for span, (begin, end) in zip(spans, bars, strict=True):
                width = [(begin * 1e6, max(end - begin, 0) * 1e6)]
                axes.broken_barh(width, (y - 0.35, 0.7), color=colour[span.name], edgecolor="white", linewidth=0.4)
        axes.set_yticks([0, 1], ["host", "device"])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set(xlabel="µs", xlim=(0, None))
        handles = [axes.plot([], [], "s", color=colour[name], label=name)[0] for name in names[: len(COLOURS)]]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6))
        axes.set_title(device, fontsize=8, loc="right")

    made = Timeline("", "", draw, (7.0, 2.4), tuple(spans))
    host = max(s.returned for s in spans)
    title = (
        f"{len(spans)} launch{'es' * (len(spans) > 1)} in {made.seconds * 1e6:,.0f} µs: the host is done after "
        f"{host * 1e6:,.0f} µs, the device is busy {made.busy:.0%} of the time"
    )
    width = max(len(name) for name in [*names, "kernel"])
    lines = [f"{'kernel':<{width}}  called, µs   returned      start        end"]
    for s in spans[:SHOWN]:
        numbers = "".join(f"{1e6 * x:>11,.1f}" for x in (s.called, s.returned, s.start, s.end))
        lines.append(f"{s.name:<{width}} {numbers}")
    lines += [f"and {len(spans) - SHOWN} more"] * (len(spans) > SHOWN)
    alt = f"A timeline with a row for the host and a row for the device. {title}."
    return Timeline("\n".join([title, *lines]), alt, draw, (7.0, 2.4), tuple(spans))
