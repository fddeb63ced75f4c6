"""`ct.tune`, on the host: every configuration of a kernel timed.

>>> import numpy as np, tinyton as tt, tinyton.tile as ct
>>> @ct.kernel
... def double(x, out, TILE: ct.Constant[int]):
...     i = ct.bid(0)
...     ct.store(out, i, 2 * ct.load(x, i, TILE))
>>> x, out = tt.to_device(np.ones(4096, np.float32)), tt.empty(4096)
>>> found = ct.tune.exhaustive_search(
...     [256, 4096], None, lambda tile: (ct.cdiv(4096, tile),), double, lambda tile: (x, out, tile), quiet=True
... )
>>> found.best.config in (256, 4096) and found.best.mean_us > 0
True
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..backends import current
from ..dispatch import OPTIONS
from ..errors import TinytonError
from .arguments import ArgumentError, RangeError
from .kernel import Kernel, launch


@dataclass(frozen=True)
class Measurement:
    """What timing a configuration gave: the mean of ``num_samples`` runs, which is ``error_margin_us`` off at most, in
    19 of 20 cases."""

    config: Any
    mean_us: float
    num_samples: int
    error_margin_us: float


@dataclass(frozen=True)
class TuningResult:
    """The fastest configuration as ``best``; all ``successes``, as `Measurement`; and of each of the ``failures`` the
    configuration, the name of the error's class, and its message."""

    best: Measurement
    successes: tuple[Measurement, ...]
    failures: tuple[tuple[Any, str, str], ...]

    def summary(self) -> str:
        """A line for each configuration, the fastest first, then those that failed."""
        ranked = sorted(self.successes, key=lambda m: m.mean_us)
        lines = [f"{m.mean_us:12,.2f} µs ± {m.error_margin_us:.2f}  {m.config}" for m in ranked]
        failed = [f"{kind}: {message.splitlines()[-1]}  {config}" for config, kind, message in self.failures]
        return "\n".join(lines + failed)


def exhaustive_search(
    search_space: Iterable[Any],
    stream: Any,
    grid_fn: Callable[[Any], tuple[int, ...]],
    kernel: Kernel,
    args_fn: Callable[[Any], tuple],
    hints_fn: Callable[[Any], dict[str, Any]] | None = None,
    *,
    quiet: bool = False,
    single_run_timeout_sec: float | None = None,
) -> TuningResult:
    """Times ``kernel`` for every configuration of ``search_space``: over the grid ``grid_fn(config)``, with the
    arguments ``args_fn(config)`` and, if it is given, the hints ``hints_fn(config)``. The arrays that the kernel stores
    to are put back after each.

    A configuration that does not compile or cannot be launched is a failure, and so is one of which a single run takes
    longer than ``single_run_timeout_sec``. `RangeError`, a ValueError, if all fail. Launches are timed on the default
    stream, whatever ``stream`` is. ``quiet`` shows no progress. On the interpreter, and if TINYTON_TUNE is off, only
    the first configuration that runs is timed. Nothing is kept: `tinyton.autotune` does that for kernels of ``tt``.

    >>> import tinyton as tt, tinyton.tile as ct
    >>> @ct.kernel
    ... def fill(x, TILE: ct.Constant[int]): ct.store(x, ct.bid(0), ct.full(TILE, 1.0, ct.float32))
    >>> x = tt.empty(1024)
    >>> found = ct.tune.exhaustive_search([3, 64], None, lambda n: (1024 // n,), fill, lambda n: (x, n), quiet=True)
    >>> found.best.config, [config for config, kind, message in found.failures]
    (64, [3])
    """
    from ..tuning import progress

    if not isinstance(kernel, Kernel):
        raise ArgumentError(f"exhaustive_search is for kernels under @ct.kernel, not {kernel!r}")
    space = list(search_space)
    first = current().name == "interpreter" or os.environ.get("TINYTON_TUNE", "").lower() in ("off", "none", "0")
    good: list[Measurement] = []
    bad: list[tuple[Any, str, str]] = []
    with progress(len(space), kernel.source.name, False if quiet else None) as tick:
        for config in space:
            hints = hints_fn(config) if hints_fn else {}
            try:
                variant = kernel.replace_hints(**hints) if hints else kernel
                good.append(_measured(config, variant, grid_fn(config), args_fn(config), single_run_timeout_sec))
            except (TinytonError, TimeoutError) as error:
                if getattr(current(), "lost", ""):
                    raise
                bad.append((config, type(error).__name__, str(error)))
            tick()
            if first and good:
                break
    if not good:
        raise RangeError(
            f"no configuration of {kernel.source.name} can be run: {bad[0][2] if bad else 'there is none'}"
        )
    return TuningResult(min(good, key=lambda m: m.mean_us), tuple(good), tuple(bad))


def _measured(config: Any, kernel: Kernel, grid: tuple[int, ...], args: tuple, limit: float | None) -> Measurement:
    import numpy as np

    from ..bench import bench
    from ..guard import hold

    kept, _ = hold(kernel.compile(*args), kernel._bind(args, {}, dict.fromkeys(OPTIONS)))
    for array in kept:
        array.keep()

    def call() -> None:
        launch(None, grid, kernel, args)

    try:
        once = bench(call, warmup=0, repeats=1).seconds
        if limit is not None and once > limit:
            raise TimeoutError(f"a run takes {once:.3g} s, longer than {limit} s")
        times = np.array(bench(call).times) * 1e6
    finally:
        for array in kept:
            array.restore()
    return Measurement(config, float(times.mean()), times.size, float(1.96 * times.std() / times.size**0.5))
