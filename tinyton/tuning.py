"""One tuning: every configuration compiled, checked against what is right, timed; the arrays put back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from . import backends, cache, tuned
from .arrays import to_device
from .bench import bench
from .compiled import CompiledKernel
from .cost import estimate
from .dispatch import OPTIONS
from .errors import LaunchError, TinytonError
from .graph import unrecorded
from .guard import Held, difference, hold
from .jit import JITFunction
from .launch import as_grid

if TYPE_CHECKING:
    from .tune import Autotuner, Config

SLOW = 4  # times as slow as the best so far: two runs say enough


class TuneWarning(UserWarning):
    """A configuration of a kernel gives other results than it should; the tuner leaves it out."""


@dataclass(frozen=True)
class Trial:
    """What became of a configuration: its time, or in ``note`` why there is none."""

    config: Config
    note: str = ""
    time_us: float | None = None
    spread: float | None = None
    grid: tuple[int, int, int] | None = None


class Tuning:
    """The search for the best configuration of a kernel, for the arguments of one launch."""

    def __init__(self, tuner: Autotuner, grid: Any, args: tuple, kwargs: dict[str, Any], again: bool):
        self.tuner, self.kernel, self.options = tuner, tuner.fn, tuner.options
        self.grid, self.args, self.kwargs, self.again = grid, args, kwargs, again
        self.name, self.executor = self.kernel.source.name, backends.current()
        self.named = tuner.named(args, kwargs)
        self.want: dict[str, np.ndarray] = {}
        self.least = inf

    def winner(self) -> Config:
        """The best configuration, from the disk if it is known there."""
        with unrecorded(self.executor):
            trials = [Trial(config) for config in self._asked()]
            one = self._first(trials)
            entry = tuned.Entry(self.tuner, self.named, one)
            keep = self.options["keep"]
            if keep and not self.again and (known := entry.read()):
                config, tried, self.tuner.stamp = known
                self.tuner.trials = [Trial(**fields) for fields in tried]
                return config
            self.tuner.stamp = entry.here.stamp()
            self.tuner.trials = trials = self._try(self._cheapest(self._compile(trials)))
            timed = [t for t in trials if t.time_us is not None]
            if not timed:
                raise LaunchError(f"no configuration of {self.name} can be taken:\n{_reasons(trials)}")
            best = min(timed, key=lambda t: t.time_us or 0)
            if keep:
                entry.write(best, trials)
            return best.config

    # which to try

    def _asked(self) -> list[Config]:
        """The configurations, without those that the user's function drops."""
        prune, configs = self.options["prune"], self.tuner.configs
        if isinstance(prune, Mapping):
            if early := prune.get("early_config_prune"):
                configs = list(early(configs, self.named, **self.kwargs))
        elif prune is not None:
            configs = list(prune(configs, self.named))
        if not configs:
            raise LaunchError(f"prune_configs_by leaves no configuration of {self.name}")
        return configs

    def _cheapest(self, trials: list[Trial]) -> list[Trial]:
        """Those that a model of their time picks, if that is asked for; the others say so."""
        prune = self.options["prune"]
        top = prune.get("top_k") if isinstance(prune, Mapping) else None
        if top is None:
            return trials
        model = prune.get("perf_model")
        times = {}
        for k, trial in enumerate(trials):
            if not trial.note:
                meta = trial.config.all_kwargs()
                named = {**self.named, **meta}
                times[k] = model(**named) if model else estimate(self.compiled[k], self.kernel, trial.grid, named)
        keep = max(1, int(len(times) * top) if isinstance(top, float) and top <= 1 else int(top))
        for rank, k in enumerate(sorted(times, key=times.__getitem__), 1):
            if rank > keep:
                trials[k] = replace(trials[k], note=f"not tried: {rank} of {len(times)} by the model")
        return trials

    def _first(self, trials: list[Trial]) -> CompiledKernel:
        """Some variant: what its source reads from outside is known then."""
        notes = []
        for trial in trials:
            compiled, trial = self._compiled(trial)
            if compiled:
                return compiled
            notes.append(trial)
        raise LaunchError(f"no configuration of {self.name} compiles for these arguments:\n{_reasons(notes)}")

    def _compiled(self, trial: Trial) -> tuple[CompiledKernel | None, Trial]:
        """The variant of a configuration, or why there is none."""
        meta = trial.config.all_kwargs()
        try:
            compiled = self.kernel.compile(*self.args, **self.kwargs, **meta)
            return compiled, replace(trial, grid=as_grid(self.grid, self._bound(meta), self.executor.limits))
        except TinytonError as error:
            self._lost(error)
            return None, replace(trial, note=_line(error))

    def _compile(self, trials: list[Trial]) -> list[Trial]:
        if self.executor.name == "cuda" and cache.folder():  # nvcc runs in a process: several fill the cache on disk
            with ThreadPoolExecutor() as pool:
                list(pool.map(self._copy, trials))
        both = [self._compiled(trial) for trial in trials]
        self.compiled = [compiled for compiled, _ in both]
        return [trial for _, trial in both]

    def _copy(self, trial: Trial) -> None:
        """Compiles a configuration in another kernel of the same text; errors come again."""
        with suppress(TinytonError):
            kernel = JITFunction(self.kernel.fn, self.kernel.rules, **self.kernel.options)
            kernel.compile(*self.args, **self.kwargs, **trial.config.all_kwargs())

    def _bound(self, meta: dict[str, Any]) -> dict[str, Any]:
        """All arguments of a launch with a configuration, by name."""
        named = {**self.kwargs, **meta}
        options = {n: named.pop(n, None) for n in OPTIONS}
        return self.kernel._bind(self.args, named, options)

    def _lost(self, error: TinytonError) -> None:
        if getattr(self.executor, "lost", ""):  # nothing runs on the device any more
            raise error

    # trying them

    def _try(self, trials: list[Trial]) -> list[Trial]:
        """Checks and times what is left. Whatever happens, the arrays are put back."""
        ready = [k for k, trial in enumerate(trials) if not trial.note]
        self.held, read = {}, set()
        for k in ready:
            kept, outputs = hold(self.compiled[k], self._bound(trials[k].config.all_kwargs()))
            read |= {h.name for h in kept} - {h.name for h in outputs}
            self.held |= {h.name: h for h in kept if h.name not in self.held}
        self.outputs = [h for h in self.held.values() if h.name not in read]
        self.before = [self.held[n].restore for n in self.options["restore_value"] if n in self.held]
        self.before += [partial(self.held[n].fill, 0) for n in self.options["reset_to_zero"] if n in self.held]
        for h in self.held.values():
            h.keep()
        seen: dict[tuple, int] = {}
        try:
            with progress(len(ready), self.name, self.options["progress"]) as tick:
                for k in ready:
                    trial = trials[k]
                    same = self.compiled[k].source, trial.grid, trial.config.pre_hook
                    first = trials[seen.setdefault(same, k)]
                    if first is trial:
                        trials[k] = self._one(trial, self.compiled[k])
                    elif first.note:
                        trials[k] = replace(first, config=trial.config)
                    else:
                        trials[k] = replace(first, config=trial.config, note=f"the same code as {first.config}")
                    tick()
        finally:
            for h in self.held.values():
                h.restore()
        return trials

    def _one(self, trial: Trial, compiled: Any) -> Trial:
        """Checks and times one configuration."""
        try:
            wrong = self._wrong(trial.config, compiled)
            if not wrong:
                return self._timed(trial)
        except TinytonError as error:
            self._lost(error)
            return replace(trial, note=_line(error))
        warnings.warn(f"{self.name} with {trial.config} is left out: {wrong}", TuneWarning, stacklevel=2)
        return replace(trial, note=wrong)

    def _call(self, config: Config, args: tuple) -> None:
        if config.pre_hook:
            config.pre_hook({**self.named, **config.all_kwargs()})
        self.kernel[self.grid](*args, **self.kwargs, **config.all_kwargs())

    def _wrong(self, config: Config, compiled: Any) -> str:
        """Runs a configuration on arrays as the launch has them, with outputs that hold nothing yet, and compares."""
        for h in self.held.values():
            h.restore()
        for h in self.outputs:
            h.poison()
        for prepare in self.before:
            prepare()
        if not self.want and self.options["reference"]:
            self.want = self._reference(compiled, config)
        self._call(config, self.args)
        self.executor.synchronize()
        got = {name: h.array() for name, h in self.held.items()}
        self.want = self.want or got
        whose = "" if self.options["reference"] else "; right is what the first configuration gives"
        notes = (
            difference(name, got[name], want, self.options["tolerance"], self.held[name].dtype)
            for name, want in self.want.items()
        )
        return next((note + whose for note in notes if note), "")

    def _reference(self, compiled: Any, config: Config) -> dict[str, np.ndarray]:
        """What the user's function says the arrays should be."""
        bound = self._bound(config.all_kwargs())
        args = dict(bound)
        for name, arg in compiled.specialization.args:
            if arg.kind == "pointer":
                args[name] = Held(name, bound[name], arg.dtype, self.executor).array()
        found = self.options["reference"](args)
        names = ", ".join(self.held)
        if not isinstance(found, Mapping):
            if len(self.held) != 1:
                raise TinytonError(f"{self.name} stores to {names}: its reference returns a dictionary of them by name")
            found = dict.fromkeys(self.held, found)
        if unknown := [name for name in found if name not in self.held]:
            raise TinytonError(f"the reference gives {unknown[0]}; {self.name} stores to {names}")
        return {name: np.asarray(x) for name, x in found.items()}

    def _timed(self, trial: Trial) -> Trial:
        args = self.args
        if self.executor.name == "cuda" and not self.before:  # their way to the device and back is not the kernel's
            args = tuple(to_device(x) if isinstance(x, np.ndarray) else x for x in args)
        call = partial(self._call, trial.config, args)

        def before() -> None:
            for prepare in self.before:
                prepare()

        if timer := self.options["do_bench"]:
            found = timer(lambda: (before(), call()), quantiles=(0.5, 0.2, 0.8))
            middle, low, high = found if isinstance(found, (list, tuple)) else (found,) * 3
            return replace(trial, time_us=1e3 * middle, spread=(high - low) / middle)
        once = bench(call, warmup=0, repeats=1, before=before)
        if once.seconds > SLOW * self.least:  # or something else was in the way
            once = min(once, bench(call, warmup=0, repeats=1, before=before), key=lambda t: t.seconds)
        if once.seconds > SLOW * self.least:
            return replace(trial, time_us=once.us, note="slow: timed twice")
        timing = bench(call, warmup=1, repeats=self.options["repeats"], before=before)
        self.least = min(self.least, timing.seconds)
        return replace(trial, time_us=timing.us, spread=timing.spread)


def _line(error: TinytonError) -> str:
    return error.message.split("\n")[0]


def _reasons(trials: list[Trial]) -> str:
    return "\n".join(f"  {t.config}: {t.note}" for t in trials[:5]) + "\n  ..." * (len(trials) > 5)


@contextmanager
def progress(total: int, name: str, shown: bool | None) -> Iterator[Callable[[], object]]:
    """A progress bar, where tqdm is installed; None shows it on a terminal."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda: None
        return
    with tqdm(total=total, desc=f"tuning {name}", leave=False, disable=None if shown is None else not shown) as bar:
        yield bar.update
