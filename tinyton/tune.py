"""``@tt.autotune(configs, key)``: the fastest of several configurations of a kernel, found by trying them.

A candidate is compiled, checked and then timed, on the arguments of the launch, which are put back afterwards. What won
is kept on disk; another card, compiler or kernel text is tried anew. (The words are Triton's.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from . import backends
from .dispatch import OPTIONS
from .errors import LaunchError, TinytonError
from .jit import JITFunction, heuristics
from .tuned import main as main  # python -m tinyton tune
from .tuning import Trial, Tuning

if TYPE_CHECKING:
    import pandas as pd

WORDS = ("num_warps", "num_stages", "num_ctas")  # options that a configuration has by name


@dataclass(frozen=True)
class Config:
    """One configuration of a kernel: values of constexpr parameters, and launch options. An option that is None is left
    to the compiler. ``pre_hook(args)`` is called before each launch with it, with the arguments by name. From Triton.

    >>> import tinyton as tt
    >>> tt.Config({"BLOCK": 256}, num_warps=4)
    BLOCK: 256, num_warps: 4
    """

    kwargs: Mapping[str, Any]
    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int | None = None
    pre_hook: Callable[[dict[str, Any]], object] | None = field(default=None, compare=False)

    def all_kwargs(self) -> dict[str, Any]:
        """Meta-parameters and options, as a launch takes them."""
        return {**self.kwargs, **{n: x for n in WORDS if (x := getattr(self, n)) is not None}}

    def __repr__(self) -> str:
        return ", ".join(f"{name}: {x}" for name, x in self.all_kwargs().items())


def grid_search(where: Callable[[dict[str, Any]], bool] | None = None, **values: Iterable[Any]) -> list[Config]:
    """All combinations of these values as configurations, the last name changing fastest; with ``where``, those of
    which it is true. ``num_warps``, ``num_stages`` and ``num_threads`` are launch options, all others
    meta-parameters.

    >>> import tinyton as tt
    >>> tt.grid_search(BLOCK=[256, 512], num_warps=[4, 8], where=lambda c: c["BLOCK"] >= 64 * c["num_warps"])
    [BLOCK: 256, num_warps: 4, BLOCK: 512, num_warps: 4, BLOCK: 512, num_warps: 8]
    """
    points = [dict(zip(values, point, strict=True)) for point in product(*values.values())]
    points = [point for point in points if where is None or where(point)]
    if not points or not values:
        raise TinytonError("grid_search has no combination left; give lists of values: grid_search(BLOCK=[256, 512])")
    options = [{name: point.pop(name) for name in WORDS if name in point} for point in points]
    return [Config(point, **chosen) for point, chosen in zip(points, options, strict=True)]


class Autotuner:
    """A kernel that tries its configurations. ``kernel[grid](*args)`` launches the best one; ``.fn`` is the kernel
    under it, ``.best_config`` what the last launch took, ``.trials`` what the last tuning saw."""

    def __init__(self, kernel: JITFunction, configs: Sequence[Config], key: Sequence[str], **options: Any):
        self.fn, self.configs, self.keys, self.options = kernel, list(configs), list(key), options
        self.best_config: Config | None = None
        self.trials: list[Trial] = []
        self.stamp = ""  # on what it was measured
        self.cache: dict[tuple, Config] = {}
        self._lock = threading.RLock()
        update_wrapper(self, kernel.fn)
        self._check()

    def _check(self) -> None:
        name, known = self.fn.source.name, (*self.fn.names, *OPTIONS)
        if not self.configs:
            raise LaunchError(f"autotune of {name} needs at least one configuration")
        asked = {"key": self.keys, **{n: self.options[n] for n in ("reset_to_zero", "restore_value")}}
        for what, names in (("a configuration", {n for c in self.configs for n in c.all_kwargs()}), *asked.items()):
            if unknown := [n for n in names if n not in known]:
                raise LaunchError(f"{what} names {unknown[0]}, which {name}({', '.join(self.fn.names)}) does not take")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "fn":
            raise AttributeError(name)
        return getattr(self.fn, name)

    @property
    def heuristics(self) -> Mapping[str, Callable]:
        return self.fn.rules

    @heuristics.setter
    def heuristics(self, rules: Mapping[str, Callable]) -> None:  # of a decorator above this one
        self.fn = heuristics(rules)(self.fn)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self.launch, grid)

    def __call__(self, *args: object, **kwargs: object) -> None:
        self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tuned {self.fn!r}, {len(self.configs)} configurations>"

    def launch(self, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        """Launches the best configuration for these arguments; the first time, finds it."""
        try:
            config = self._choose(grid, args, kwargs)
            self._hook(config, args, kwargs)
            self.fn[grid](*args, **kwargs, **config.all_kwargs())
            self.best_config = config
        except TinytonError as error:
            raise error.with_traceback(None) from None

    run, warmup = JITFunction.run, JITFunction.warmup  # in Triton's words, of what is here

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """The variant of the best configuration, or of the first one if none has been found for these arguments."""
        config = self.cache.get(self._key(args, kwargs), self.configs[0])
        return self.fn.compile(*args, **kwargs, **config.all_kwargs())

    def table(self) -> pd.DataFrame:
        """The last tuning: a row for each configuration, with its time or why it has none. ``table.attrs["stamp"]``
        says on what it was measured; `tt.viz.plot` draws it."""
        import pandas as pd

        told = ("time_us", "spread", "note")
        table = pd.DataFrame([{**t.config.all_kwargs(), **{n: getattr(t, n) for n in told}} for t in self.trials])
        table.attrs |= {"stamp": self.stamp, "over": [n for n in table if n not in told]}
        return table

    # what is chosen

    def named(self, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.fn.names, args, strict=False)), **kwargs}

    def _hook(self, config: Config, args: tuple, kwargs: Mapping[str, Any]) -> None:
        if config.pre_hook:
            config.pre_hook({**self.named(args, kwargs), **config.all_kwargs()})

    def _key(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple:
        named = self.named(args, kwargs)
        types = tuple(getattr(x, "dtype", None) or x.__class__ for x in named.values())
        try:
            key = (backends.current().key(), tuple(named.get(n) for n in self.keys), types)
            hash(key)
            return key
        except TypeError:
            raise LaunchError(
                f"the key of {self.fn.source.name}'s tuning has a value that cannot be compared; name sizes, no arrays"
            ) from None

    def _choose(self, grid: Any, args: tuple, kwargs: dict[str, Any]) -> Config:
        if twice := [n for c in self.configs for n in c.all_kwargs() if n in kwargs]:
            raise LaunchError(f"{twice[0]} is what {self.fn.source.name}'s tuning chooses; leave it out of the launch")
        how = os.environ.get("TINYTON_TUNE", "").strip().lower()
        if len(self.configs) == 1 or how in ("off", "none", "0") or backends.current().name == "interpreter":
            return self.configs[0]
        key = self._key(args, kwargs)
        with self._lock:
            if key not in self.cache:
                self.cache[key] = Tuning(self, grid, args, kwargs, again=how == "again").winner()
            return self.cache[key]


def autotune(
    configs: Sequence[Config],
    key: Sequence[str] = (),
    prune_configs_by: Callable | Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    *,
    reference: Callable[[dict[str, Any]], Any] | None = None,
    tolerance: float | None = None,
    repeats: int = 15,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = True,
    progress: bool | None = None,
    warmup: int | None = None,
    rep: int | None = None,
    use_cuda_graph: bool = False,
) -> Callable[[JITFunction], Autotuner]:
    """Above ``@tt.jit``: launches take the fastest of ``configs``, which is found by trying them at the first launch
    with new values of the arguments that ``key`` names, or new types. Each candidate is compiled and run once, on the
    arguments of the launch; its results must be those of ``reference``, or of the first configuration; then it is
    timed. What does not compile, does not fit or is wrong is left out (`TuneWarning` if it is wrong). All arrays that
    the kernel stores to are put back before the launch itself.

    ``reference(args)`` gets the arguments by name, arrays as NumPy's, as the kernel finds them, and returns what a
    stored array should be, or a dictionary of several by name. ``tolerance`` is relative. Arrays in ``reset_to_zero``
    are zeroed, those in ``restore_value`` put back, before each run that is timed, too; a kernel that loads what it
    stores may need that.

    ``prune_configs_by`` is a function of the configurations and the arguments by name that returns which to try; or
    Triton's dictionary: ``early_config_prune(configs, named_args, **kwargs)``, and ``perf_model(**args)``, a time of
    which the ``top_k`` least are tried. Without a ``perf_model``, ``top_k`` is by a model of our own: counted sectors
    and operations against the roofs of the device, and how well the grid fills it.

    What wins is kept in the folder of the kernel cache (not with ``cache_results=False``), with the card, driver,
    compiler, date and figures; it holds for the kernel's text, ``configs``, the values of ``key``, the types, the card
    and the compiler. ``python -m tinyton tune`` lists, forgets and repeats. TINYTON_TUNE=off takes the first
    configuration without trying any, as the interpreter always does; TINYTON_TUNE=again tries all anew.

    ``repeats`` is how often each is timed; ``do_bench(call, quantiles=...)`` times in place of `bench` and returns
    milliseconds. ``progress`` shows a bar, with tqdm if it is installed; None shows one on a terminal. ``warmup``,
    ``rep`` and ``use_cuda_graph`` change nothing. From Triton.

    >>> import numpy as np, tinyton as tt
    >>> @tt.autotune(tt.grid_search(BLOCK=[256, 4096]), key=["n"], reference=lambda args: 2 * args["x"])
    ... @tt.jit
    ... def double(x, out, n, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(out + i, 2 * tt.load(x + i, mask=i < n), mask=i < n)
    >>> n = 10_000
    >>> x, out = tt.to_device(np.arange(n, dtype=np.float32)), tt.empty(n)
    >>> double[lambda meta: (tt.cdiv(n, meta["BLOCK"]),)](x, out, n)
    >>> float(out.numpy()[-1])
    19998.0
    >>> double.best_config in double.configs
    True
    """

    def decorate(kernel: JITFunction) -> Autotuner:
        if not isinstance(kernel, JITFunction) or kernel.prefix:
            what = "ct.tune.exhaustive_search is for kernels of ct" if isinstance(kernel, JITFunction) else repr(kernel)
            raise LaunchError(f"autotune stands above @tt.jit: it takes a kernel; {what}")
        options = {
            "prune": prune_configs_by,
            "reset_to_zero": list(reset_to_zero or ()),
            "restore_value": list(restore_value or ()),
            "reference": reference,
            "tolerance": tolerance,
            "repeats": repeats,
            "do_bench": do_bench,
            "keep": cache_results,
            "progress": progress,
        }
        return Autotuner(kernel, configs, key, **options)

    return decorate


def pick_tile(shape: Any, candidates: Sequence[Any], sm_count: int | None = None, waves: float = 2) -> Any:
    """The largest of ``candidates`` whose grid over ``shape`` still has ``waves`` programs for each of ``sm_count``
    multiprocessors; if none has, the one with the most programs. Without ``sm_count`` it is the first, the tile that
    the kernel has by default: the device of this machine is never asked, since what is built here may run elsewhere.

    ``shape`` and the candidates are ints, or tuples of as many extents. Of tiles of one size, the first counts. From
    teenygrad.

    >>> import tinyton as tt
    >>> tiles = [(64, 64), (128, 128), (32, 32)]
    >>> tt.pick_tile((1024, 1024), tiles)
    (64, 64)
    >>> tt.pick_tile((1024, 1024), tiles, sm_count=48), tt.pick_tile((8192, 8192), tiles, sm_count=48)
    ((64, 64), (128, 128))
    >>> tt.pick_tile((256, 320), tiles, sm_count=48)
    (32, 32)
    """
    extents = _extents("shape", shape, 0)
    tiles = [_extents("a candidate", tile, 1) for tile in candidates]
    if not tiles:
        raise TinytonError("pick_tile needs at least one candidate")
    if wrong := [c for c, tile in zip(candidates, tiles, strict=True) if len(tile) != len(extents)]:
        raise TinytonError(f"a candidate has as many extents as the shape {shape!r}, not {wrong[0]!r}")
    if sm_count is None:
        return candidates[0]
    if sm_count < 1 or waves <= 0:
        raise TinytonError(f"sm_count is 1 or more and waves above 0, not {sm_count} and {waves}")
    programs = [prod(-(-n // t) for n, t in zip(extents, tile, strict=True)) for tile in tiles]
    enough = [k for k, n in enumerate(programs) if n >= waves * sm_count]
    best = max(enough, key=lambda k: prod(tiles[k])) if enough else max(range(len(tiles)), key=programs.__getitem__)
    return candidates[best]


def _extents(what: str, x: Any, least: int) -> tuple[int, ...]:
    extents = tuple(x) if isinstance(x, (tuple, list)) else (x,)
    if not extents or any(isinstance(n, bool) or not hasattr(n, "__index__") or n < least for n in extents):
        raise TinytonError(f"{what} of pick_tile is an int from {least} on, or a tuple of them, not {x!r}")
    return extents
