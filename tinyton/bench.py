"""``tt.bench(fn)``: how long a call takes on the device in use, with the caches emptied before each run.

The clock is the device's own: CUDA events around the call, OpenCL's profiling events of the kernels it launches, the
wall clock where there is neither. The first runs are thrown away: they compile, allocate and wake the device up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from . import backends
from .errors import TinytonError

BUDGET = 0.5  # seconds, where the number of repeats is left to us
FEWEST, MOST = 5, 100


@dataclass(frozen=True)
class Timing:
    """Seconds that each run took. The median says how long; ``low`` and ``high`` (the 20th and the 80th percentile)
    say how sure.

    >>> import tinyton as tt
    >>> t = tt.Timing((1e-6, 2e-6, 3e-6), "wall clock")
    >>> t
    2.00 µs (1.40 to 2.60, 3 runs, wall clock)
    >>> t.gb_s(4000)
    2.0
    """

    times: tuple[float, ...]
    clock: str

    @property
    def seconds(self) -> float:
        """The median."""
        return float(np.median(self.times))

    @property
    def us(self) -> float:
        """The median in microseconds."""
        return self.seconds * 1e6

    @property
    def low(self) -> float:
        """Seconds that a fifth of the runs stays below."""
        return float(np.percentile(self.times, 20))

    @property
    def high(self) -> float:
        """Seconds that four fifths of the runs stay below."""
        return float(np.percentile(self.times, 80))

    @property
    def spread(self) -> float:
        """``(high - low) / median``: 0.02 is a quiet machine, 0.2 a noisy one."""
        return (self.high - self.low) / self.seconds

    def gb_s(self, nbytes: float) -> float:
        """Gigabytes a second, if one call moves ``nbytes``."""
        return nbytes / self.seconds / 1e9

    def tflop_s(self, flops: float) -> float:
        """Tera-operations a second, if one call does ``flops`` of them."""
        return flops / self.seconds / 1e12

    def __repr__(self) -> str:
        unit, scale = next(((u, s) for u, s in (("s", 1), ("ms", 1e3)) if self.seconds * s >= 1), ("µs", 1e6))
        scaled = (x * scale for x in (self.seconds, self.low, self.high))
        middle, low, high = (f"{x:.{0 if x >= 100 else 2}f}" for x in scaled)
        return f"{middle} {unit} ({low} to {high}, {len(self.times)} runs, {self.clock})"


def bench(
    fn: Callable[[], object],
    *,
    warmup: int = 3,
    repeats: int | None = None,
    flush: bool = True,
    before: Callable[[], object] | None = None,
) -> Timing:
    """Times ``fn()`` on the device in use.

    ``repeats`` runs after ``warmup`` runs that do not count; None is as many as fit half a second, from 5 to 100.
    Before each, a buffer twice as big as the last-level cache is written (``flush``), so that every run finds its data
    in memory. On cuda ``fn`` may launch anything on the default stream, torch's kernels too; on opencl the kernels of
    tinyton that it launches are summed; a call that launches none is timed by the wall clock. The times are the
    device's: what the host does in between is not in them, unless the device waits for it. ``before()`` is called
    before each run, outside of its time.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def double(x, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(x + i, 2 * tt.load(x + i))
    >>> x = tt.to_device(np.ones(4096, np.float32))
    >>> tt.bench(lambda: double[4](x, BLOCK=1024), repeats=9).us > 0
    True
    """
    if warmup < 0 or (repeats is not None and repeats < 1):
        raise TinytonError(f"bench needs repeats from 1 on and warmup from 0 on, not {repeats} and {warmup}")
    executor = backends.current()
    clock, prepare = CLOCKS[executor.name](executor), before or (lambda: None)
    for _ in range(warmup):
        prepare()
        clock.warm(fn)
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < (repeats or MOST):
        if repeats is None and len(times) >= FEWEST and time.perf_counter() - start > BUDGET:
            break
        prepare()
        times.append(clock.time(fn, flush))
    return Timing(tuple(times), clock.name)


class WallClock:
    """The host's clock, for executors that have no other; the device is idle before and after."""

    name = "wall clock"
    cache_bytes = 32 << 20

    def __init__(self, executor: Any):
        self.executor = executor

    @cached_property
    def buffer(self) -> np.ndarray:
        return np.zeros(2 * self.cache_bytes, np.uint8)

    def flush(self) -> None:
        self.buffer.fill(1)

    def warm(self, fn: Callable[[], object]) -> None:
        fn()
        self.executor.synchronize()

    def time(self, fn: Callable[[], object], flush: bool) -> float:
        if flush:
            self.flush()
        self.executor.synchronize()
        start = time.perf_counter()
        fn()
        self.executor.synchronize()
        return time.perf_counter() - start


class OpenCLClock(WallClock):
    """The driver's clock: from start to end of each kernel that the call launches."""

    name = "OpenCL events"

    def __init__(self, executor: Any):
        super().__init__(executor)
        self.cache_bytes = executor.device.global_mem_cache_size or self.cache_bytes

    def time(self, fn: Callable[[], object], flush: bool) -> float:
        self.executor.recorded = events = []
        try:
            wall = super().time(fn, flush)
        finally:
            self.executor.recorded = None
        if not events:
            self.name = WallClock.name
            return wall
        return sum(e.profile.end - e.profile.start for e in events) * 1e-9


class CudaClock:
    """Two events on the default stream, one before the call and one after it. While the host prepares the call, the
    device still writes the flush buffer, so that the time between the events has no waiting in it. Without a flush, a
    run is 20 calls one after the other, and the time is divided by their number."""

    name = "CUDA events"

    def __init__(self, executor: Any):
        self.executor, self.cu = executor, executor.cu
        cache = executor.device.get_attribute(self.cu.device_attribute.L2_CACHE_SIZE)
        self.words = max(2 * cache, 1 << 26) // 4
        self.host_seconds = 0.0

    @cached_property
    def buffer(self) -> Any:
        return self.executor.allocate(self.words * 4)

    def flush(self) -> None:
        """Writes the buffer, and again until that takes longer than the host needs for the call: at 10 TB/s."""
        for _ in range(min(1 + math.ceil(self.host_seconds * 1e13 / (self.words * 4)), 100)):
            self.cu.memset_d32_async(int(self.buffer), 0, self.words)

    def warm(self, fn: Callable[[], object]) -> None:
        start = time.perf_counter()
        fn()
        self.host_seconds = time.perf_counter() - start
        self.executor.synchronize()

    def time(self, fn: Callable[[], object], flush: bool) -> float:
        calls = 1 if flush else 20
        with self.executor.here():
            start, end = self.cu.Event(), self.cu.Event()
            if flush:
                self.flush()
            start.record()
            for _ in range(calls):
                fn()
            end.record()
            end.synchronize()
            return start.time_till(end) * 1e-3 / calls


CLOCKS: dict[str, Callable[[Any], Any]] = {"cuda": CudaClock, "opencl": OpenCLClock, "interpreter": WallClock}
