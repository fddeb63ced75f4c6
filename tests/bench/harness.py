"""What the benchmarks share: timing with the L2 cache flushed, data, cases that are checked before they are timed, rows
of a table, and the stamp of the machine."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import multiprocessing
import os
import random
import secrets
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

import tinyton as tt

try:
    import torch
except ImportError:
    torch = None
try:
    import triton
except ImportError:
    triton = None

ROWS: list[dict[str, object]] = []
RTOL = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-5, "float64": 1e-12}
TINY = {"float16": 2.0**-24}  # the distance of its smallest numbers, below which rtol is less than one rounding
Call = Callable[[], object]
T = TypeVar("T")

# -- time --------------------------------------------------------------------------------------------------------------


def device_time(fn: Call, repeats: int = 60, warmup: int = 5) -> float:
    """Median seconds of one call on the device, the L2 cache flushed before each."""
    return tt.bench(fn, warmup=warmup, repeats=repeats).seconds


def device_times(calls: dict[str, Call], rounds: int, repeats: int = 12) -> dict[str, float]:
    """Median seconds of several calls, which take turns: what drifts, drifts for all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name] += tt.bench(call, warmup=2, repeats=repeats).times
    return {name: statistics.median(found) for name, found in times.items()}


# -- data --------------------------------------------------------------------------------------------------------------


class Device:
    """What cases ask about the executor in use."""

    @property
    def sm_count(self) -> int:
        return tt.backends.current().sm_count


class NumPyData(Device):
    """Fresh arrays of the executor in use, and NumPy to say what a kernel is to make of them."""

    xp = np

    def __init__(self, seed: int | None = None):
        self.random = np.random.default_rng(seed)

    def normal(self, shape: Any, dtype: str) -> Any:
        return tt.to_device(self.random.standard_normal(shape), dtype)

    def uniform(self, shape: Any, dtype: str) -> Any:
        return tt.to_device(self.random.random(shape), dtype)

    def integers(self, low: int, high: int, shape: Any, dtype: str) -> Any:
        return tt.to_device(self.random.integers(low, high, shape, dtype))

    def array(self, values: Any, dtype: str) -> Any:
        return tt.to_device(values, dtype)

    def empty(self, shape: Any, dtype: str) -> Any:
        return tt.empty(shape, dtype)

    def poison(self, x: Any) -> None:
        """All bits on: NaN, or -1."""
        x.executor.write(x.handle, np.full(x.nbytes, 255, np.uint8))

    def wide(self, x: Any) -> Any:
        host = x.numpy()
        return host.astype(np.float64 if x.dtype.is_float else np.int64)

    def erf(self, x: np.ndarray) -> np.ndarray:
        return np.vectorize(math.erf)(x)


class TorchData(Device):
    """The same in torch's words."""

    xp = torch

    def __init__(self, seed: int | None = None, device: str = "cuda"):
        self.device = torch.device(device)
        self.random = torch.Generator(device)
        if seed is not None:
            self.random.manual_seed(seed)

    def _words(self, dtype: str) -> dict[str, Any]:
        return {"dtype": getattr(torch, dtype), "device": self.device, "generator": self.random}

    def normal(self, shape: Any, dtype: str) -> Any:
        if dtype.startswith("float8"):
            return self.normal(shape, "float32").to(getattr(torch, dtype))
        return torch.randn(shape, **self._words(dtype))

    def uniform(self, shape: Any, dtype: str) -> Any:
        return torch.rand(shape, **self._words(dtype))

    def integers(self, low: int, high: int, shape: Any, dtype: str) -> Any:
        return torch.randint(low, high, shape if isinstance(shape, tuple) else (shape,), **self._words(dtype))

    def array(self, values: Any, dtype: str) -> Any:
        return values.to(getattr(torch, dtype)).contiguous()

    def empty(self, shape: Any, dtype: str) -> Any:
        return torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)

    def poison(self, x: Any) -> None:
        x.view(torch.uint8).fill_(255)

    def wide(self, x: Any) -> Any:
        return x.double() if x.is_floating_point() else x.long()

    def erf(self, x: Any) -> Any:
        return torch.erf(x)


@dataclass(frozen=True)
class Absent:
    """An array of which only shape and element type matter."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def T(self) -> Absent:  # noqa: N802
        return Absent(self.shape[::-1], self.dtype)


class NoData(Device):
    """Arrays that take no memory, for cases that are never run."""

    xp = np

    def normal(self, shape: Any, dtype: str) -> Absent:
        return Absent(shape if isinstance(shape, tuple) else (shape,), dtype)

    uniform = empty = normal

    def integers(self, low: int, high: int, shape: Any, dtype: str) -> Absent:
        return self.normal(shape, dtype)

    def wide(self, x: Absent) -> np.ndarray:  # one column stands for all
        return np.zeros((x.shape[0], *[1] * (len(x.shape) - 1)))

    def array(self, values: np.ndarray, dtype: str) -> Absent:
        return self.normal(values.shape, dtype)


# -- cases -------------------------------------------------------------------------------------------------------------


class Launch(NamedTuple):
    kernel: Any
    grid: tuple[int, ...]
    args: tuple
    meta: dict[str, Any]

    def __call__(self) -> None:
        self.kernel[self.grid](*self.args, **self.meta)


@dataclass
class Case:
    """One piece of work. ``ours``: ways to do it, each of launches in order; the fastest counts. ``outs``: where
    its results are; ``want``: what they are to be, in float64, made from the inputs (and from the results, where those
    are random). ``nbytes``: what it must move at least. Of each peer several ways, too; torch's are made late, when
    torch is there, and by name where they are several peers. ``rtol`` in place of that of the element type.
    ``before``: launches that make inputs, which are not timed. ``beside``: ways to do something else of our own, which
    is timed for comparison."""

    ours: list[list[Launch]]
    outs: tuple
    want: Callable[[], tuple]
    nbytes: int
    triton: Iterable[list[Launch]] = ()
    torch: Callable[[], Sequence[Call] | dict[str, Sequence[Call]]] = tuple
    rtol: float | None = None
    before: Sequence[Launch] = ()
    beside: dict[str, list[list[Launch]]] = field(default_factory=dict)


def in_order(launches: list[Launch]) -> Call:
    """One call for several launches, whose arguments are bound already."""
    bound = [partial(x.kernel[x.grid], *x.args, **x.meta) for x in launches]
    if len(bound) == 1:
        return bound[0]

    def call() -> None:
        for launch in bound:
            launch()

    return call


def check(data: Any, case: Case, call: Call) -> float:
    """Runs ``call`` on poisoned results and compares them with what is wanted; their `distance` from that."""
    for out in case.outs:
        data.poison(out)
    for launch in case.before:
        launch()
    call()
    wanted, found = case.want(), [data.wide(out) for out in case.outs]
    for k, (out, got, want) in enumerate(zip(case.outs, found, wanted, strict=True)):
        assert got.shape == want.shape, f"result {k} is {tuple(got.shape)}, the wanted one {tuple(want.shape)}"
        dtype = str(out.dtype).removeprefix("torch.")
        rtol = case.rtol or RTOL.get(dtype, 0)
        error = abs(got - want)
        limit = rtol * (abs(want) + abs(want).mean()) + TINY.get(dtype, 0) if rtol else error * 0
        beyond = int((~(error <= limit)).sum())
        if beyond:
            worst = int((error - limit).argmax())
            at = tuple(map(int, np.unravel_index(worst, got.shape)))
            told = f"{beyond} elements; {list(at)} is {float(got[at]):.6g}, and {float(want[at]):.6g} is wanted"
            raise AssertionError(f"result {k} ({dtype}) is wrong in {told} to {float(limit[at]):.2g}")
    return distance(found, wanted)


def distance(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The norm of the error of a result, as a share of the norm of what is wanted; of several results, the largest."""

    def norm(x: Any) -> float:
        return float((x * x).sum()) ** 0.5

    return max(norm(got - want) / (norm(want) or 1) for got, want in zip(found, wanted, strict=True))


def fastest(ways: Iterable[T], call: Callable[[T], Call]) -> T:
    """Of several ways to do the same, the one that is. Those that do not compile or do not fit are passed over."""
    timed, errors = [], []
    for way in ways:
        try:
            timed.append((device_time(call(way), repeats=7, warmup=2), len(timed), way))
        except Exception as error:
            errors.append(error)
    if not timed:
        raise errors[0]
    return min(timed)[2]


def measure(data: Any, case: Case, rounds: int, errors: bool = False) -> tuple[dict[str, float], dict[str, object]]:
    """GB/s of tinyton, of the peers that are here and of what is beside, all but that checked, and timed in turn; and
    what to tell of them. With ``errors``, ours may be twice a peer's of torch, if that gives its results."""
    for launch in case.before:
        launch()
    ours, left, notes = fastest(case.ours, in_order), [], {}
    calls = {"tinyton": in_order(ours)}
    off = check(data, case, calls["tinyton"])
    if triton and (ways := list(case.triton)):
        try:
            calls["triton"] = in_order(fastest(ways, in_order))
            check(data, case, calls["triton"])
        except Exception as error:
            calls.pop("triton", None)
            left.append(f"triton is left out: {first_line(error)}")
    found = case.torch() if isinstance(data, TorchData) else {}
    for name, ways in (found if isinstance(found, dict) else {"torch": found} if found else {}).items():
        try:
            calls[name] = fastest(ways, lambda way: way)
            theirs = given_back(data, calls[name](), case.want()) if errors else None
        except Exception as error:
            calls.pop(name, None)
            left.append(f"{name} is left out: {first_line(error)}")
            continue
        if theirs is not None:
            notes["errors"] = f"{off:.2g}, {name}'s {theirs:.2g}"
            assert off <= 2 * theirs, f"the error is {notes['errors']}"
    calls |= {name: in_order(fastest(found, in_order)) for name, found in case.beside.items()}
    figures = {name: case.nbytes / t / 1e9 for name, t in device_times(calls, rounds).items()}
    return figures, notes | costs(ours) | ({"note": "; ".join(left)} if left else {})


def given_back(data: Any, result: Any, wanted: tuple) -> float | None:
    """The error of what a peer has given back, if that is its results."""
    found = result if isinstance(result, tuple) else (result,)
    if [x.numel() for x in found if hasattr(x, "numel")] != [want.numel() for want in wanted]:
        return None
    return distance([data.wide(x).reshape(want.shape) for x, want in zip(found, wanted, strict=True)], wanted)


def costs(launches: list[Launch]) -> dict[str, object]:
    """Of the kernel that needs most registers: how many a thread, bytes spilled, warps, and the tile (cuda)."""
    if tt.env().executor != "cuda":
        return {}
    compiled = [(x.kernel.compile(*x.args, **x.meta), x) for x in launches]
    most, launch = max(compiled, key=lambda pair: (pair[0].spills, pair[0].registers))
    tile = {name: n for name, n in launch.meta.items() if isinstance(n, int)}
    return {"registers": most.registers, "spills": most.spills, "num_warps": most.num_warps, "tile": tile}


# -- compiling ahead ---------------------------------------------------------------------------------------------------


def distinct(works: Iterable[Any]) -> list[Launch]:
    """What there is to compile for all ways of these works, ours and Triton's, in a random order."""
    found = {}
    for work in works:
        with contextlib.suppress(Exception):  # what is wrong will be said when it is measured
            case = work.make(NoData())
            for launch in (x for ways in (case.ours, case.triton, *case.beside.values()) for way in ways for x in way):
                args = [
                    x.dtype if isinstance(x, Absent) else (type(x), x == 1, (x or 0) % 16 == 0) for x in launch.args
                ]
                found[launch.kernel, str(args), str(sorted(launch.meta.items(), key=str))] = launch
    launches = list(found.values())
    random.Random(0).shuffle(launches)
    return launches


def compile_share(works: Callable[[], Iterable[Any]], only: str, share: int, shares: int) -> None:
    """Compiles one of so many shares of what `distinct` finds, into the caches on disk."""
    warnings.simplefilter("ignore")
    for launch in distinct(chosen(works, only))[share::shares]:
        with contextlib.suppress(Exception):
            if isinstance(launch.kernel, tt.JITFunction):
                args = [f"*{x.dtype}:16" if isinstance(x, Absent) else x for x in launch.args]
                launch.kernel.compile(*args, **launch.meta)
            elif triton and torch:
                args = [getattr(torch, x.dtype) if isinstance(x, Absent) else x for x in launch.args]
                launch.kernel.warmup(*args, grid=launch.grid, **launch.meta)[launch.grid]  # and what launches it


def compile_ahead(works: Callable[[], Iterable[Any]], only: str, jobs: int, limit: float = 240) -> None:
    """Compiles all ways of the chosen works in so many processes, for at most ``limit`` seconds, so that this one finds
    them in the caches. What a process does not get done is compiled when it is needed. ``works``: a function of a
    module."""
    start, spawn = time.perf_counter(), multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=compile_share, args=(works, only, k, jobs), daemon=True) for k in range(jobs)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(max(0, start + limit - time.perf_counter()))
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
    lost = sum(process.exitcode != 0 for process in processes)
    told = f", {lost} of which did not end well" if lost else ""
    print(f"compiled ahead in {time.perf_counter() - start:.0f} s, by {jobs} processes{told}", flush=True)


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:150]


# -- rows --------------------------------------------------------------------------------------------------------------


def record(
    work: str,
    unit: str,
    ours: float,
    peers: dict[str, float],
    goal: float | None,
    more_is_better: bool = True,
    against: dict[str, tuple[float, float | None]] | None = None,
    only: Sequence[str] | None = None,
    **notes: object,
) -> None:
    """One row: our figure, the peers', the ratio to the best of them (of those in ``only``) and its goal. ``against``:
    other figures to stand beside, each with the goal of that ratio. A goal of None is none."""
    compared = [figure for name, figure in peers.items() if only is None or name in only]
    best = (max if more_is_better else min)(compared) if compared else None
    ratios = {} if best is None else {"ratio": (ours / best, goal)}
    ratios |= {f"of {name}": (ours / figure, wanted) for name, (figure, wanted) in (against or {}).items()}
    sign = ">=" if more_is_better else "<="
    missed = [name for name, (r, g) in ratios.items() if g is not None and not (r >= g if more_is_better else r <= g)]
    row = {"work": work, "unit": unit, "tinyton": ours, **peers} | {name: r for name, (r, _) in ratios.items()}
    row |= {"goals": {name: g for name, (_, g) in ratios.items() if g is not None}, "met": not missed, **notes}
    ROWS.append(row)
    parts = [f"{work:36} {unit:4} tinyton {ours:7.1f}"]
    parts += [f"{name} {value:7.1f}" for name, value in peers.items()] or ["no peer here"]
    parts += [f"{name} {r:5.3f}" + (f" ({sign} {g})" if g is not None else "") for name, (r, g) in ratios.items()]
    parts += [f"{name} {value}" for name, value in notes.items()]
    print("  ".join(parts), "MISSED" if missed else "", flush=True)


def failed(work: str, error: Exception) -> None:
    """A row of what went wrong."""
    ROWS.append({"work": work, "error": f"{type(error).__name__}: {error}"})
    print(f"{work:36} FAILED {first_line(error)}", flush=True)


def arguments(doc: str) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--out", metavar="FILE", help="write the rows and the machine's stamp to this file (JSON)")
    return parser


def chosen(works: Callable[[], Iterable[T]], only: str) -> list[T]:
    """The works that have one of the texts in ``only``, which are separated by ``|``, in their names."""
    return [work for work in works() if any(text in work.name for text in only.split("|"))]


def on_gpu(doc: str, works: Callable[[], Iterable[Any]]) -> tuple[argparse.Namespace, Any, list[Any]]:
    """What the benchmarks of kernels on a GPU begin with: their options, fresh data, and the chosen works of
    ``works()``, compiled ahead. Ends the process where there is no GPU."""
    parser = arguments(doc)
    parser.add_argument("--only", metavar="NAME", default="", help="the rows that have NAME in their name; A|B: either")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    help_ = "processes that compile everything first; 0: nothing is compiled before it is needed"
    parser.add_argument("--jobs", metavar="N", type=int, default=min(os.cpu_count() or 1, 16), help=help_)
    options = parser.parse_args()
    begin()
    if tt.env().executor != "cuda":
        print(f"this benchmark is for NVIDIA GPUs; the executor in use is {tt.env().executor}")
        sys.exit(2)
    if options.jobs:
        compile_ahead(works, options.only, options.jobs)
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return options, (TorchData if torch else NumPyData)(seed), chosen(works, options.only)


@contextlib.contextmanager
def a_row(work: str) -> Iterator[None]:
    """What goes wrong inside becomes a row; what was on the device is let go."""
    try:
        yield
    except Exception as error:
        failed(work, error)
    finally:
        gc.collect()
        if torch:
            torch.cuda.empty_cache()


def begin() -> None:
    """Says which machine this is, and which peers are here."""
    print(tt.env().stamp())
    for name, module in (("torch", torch), ("triton", triton)):
        print(f"{name} {module.__version__}" if module else f"{name} is not installed: left out")


def finish(out: str | None) -> int:
    """Says what was met, writes the rows to ``out``; the number of rows that failed."""
    bad = [row["work"] for row in ROWS if "error" in row]
    aimed = [row for row in ROWS if row.get("goals")]
    print(f"{sum(bool(row['met']) for row in aimed)} of {len(aimed)} rows with goals are met, {len(bad)} failed")
    if out:
        versions = {m.__name__: m.__version__ for m in (torch, triton) if m}
        with open(out, "w") as f:
            json.dump({"stamp": str(tt.env()), "peers": versions, "rows": ROWS}, f, indent=1)
    return len(bad)
