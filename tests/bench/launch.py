"""What a launch costs the host: warm, under graph replay, and the first one of a process, beside Triton and PyCUDA.

    python tests/bench/launch.py [--quick] [--out results.json]

Runs on any NVIDIA GPU. A peer that is not installed is left out, and said so. Calls take turns and medians count; what
was launched is checked. Cold starts are new processes, each timed from where NumPy (or torch) is imported and the
context is there; ``tests/bench/cold_triton.py`` and ``cold_tinyton.py`` are what they run.
"""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cold_tinyton
import numpy as np
from harness import arguments, begin, failed, finish, record, torch, triton

import tinyton as tt
from tinyton import backends

if triton:
    import cold_triton

N, BLOCK, GRID = 4096, 1024, (4,)
HERE = Path(__file__).parent
add = tt.jit(cold_tinyton.add.fn)
Call = Callable[[], object]


def host_times(calls: dict[str, Call], rounds: int, launches: int = 100) -> dict[str, float]:
    """Median µs that each call keeps the host busy, launches queued without waiting; the calls take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(50):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            tt.synchronize()
            start = time.perf_counter()
            for _ in range(launches):
                call()
            times[name].append((time.perf_counter() - start) / launches * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def prepared(compiled: Any) -> Any:
    """The same binary as PyCUDA calls it, and the words before its arguments: grid and block."""
    function = compiled.loaded.function
    function.prepare("PPPi")
    return function, ((*GRID, 1), compiled.low.block)


def warm(rounds: int) -> None:
    """torch's tensors, and device arrays of our own."""
    ours = [tt.to_device(np.arange(N, dtype=np.float32) + k) for k in range(3)]
    a, b, c = ours
    compiled = add.compile(*ours, N, BLOCK=BLOCK)
    function, where = prepared(compiled)
    addresses = [x.address for x in ours]
    packed, raw = compiled.loaded.pack(*addresses, N), compiled.loaded.start
    calls = {
        "device arrays": lambda: add[GRID](a, b, c, N, BLOCK=BLOCK),
        "prepared_call": lambda: function.prepared_call(*where, *addresses, N),
        "PyCUDA's part": lambda: raw((*GRID, 1, 1), compiled.low.block, packed, compiled.loaded.shared, None),
        "kernel[grid]": lambda: add[GRID],
    }
    if torch:
        x, y = torch.randn(N, device="cuda"), torch.randn(N, device="cuda")
        out = torch.full_like(x, float("nan"))
        calls["torch tensors"] = lambda: add[GRID](x, y, out, N, BLOCK=BLOCK)
        stream = torch._C._cuda_getCurrentRawStream
        calls["reading three tensors"] = lambda: (
            (x.dtype, x.is_cuda, x.data_ptr()),
            (y.dtype, y.is_cuda, y.data_ptr()),
            (out.dtype, out.is_cuda, out.data_ptr()),
            stream(0),
        )
    if triton and torch:
        calls["triton"] = lambda: cold_triton.add[GRID](x, y, out, N, BLOCK=BLOCK)
    us = host_times(calls, rounds)
    assert np.array_equal(c.numpy(), a.numpy() + b.numpy())
    lower = {"more_is_better": False}
    if torch:
        assert torch.equal(out, x + y)
        peers = {"triton": us["triton"]} if triton else {}
        spent = parts(us, "torch tensors", ("kernel[grid]", "reading three tensors", "PyCUDA's part"))
        record("one launch, torch tensors", "us", us["torch tensors"], peers, 1 / 3, **lower, **leaks(), spent=spent)
    spent = parts(us, "device arrays", ("kernel[grid]", "PyCUDA's part"))
    peers = {"prepared_call": us["prepared_call"]}
    record("one launch, our device arrays", "us", us["device arrays"], peers, 1.2, **lower, spent=spent)


def parts(us: dict[str, float], whole: str, names: tuple[str, ...]) -> str:
    """Where the time goes."""
    shares = {name: us[name] for name in names}
    shares["the rest of the short way"] = us[whole] - sum(shares.values())
    return ", ".join(f"{name} {value:.2f}" for name, value in shares.items())


def leaks() -> dict[str, object]:
    """Bytes that a thousand launches allocate on the device, and how many of their arguments they keep."""
    x, out = torch.ones(N, device="cuda"), torch.empty(N, device="cuda")
    free, held = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
    for _ in range(1000):
        add[GRID](x, x, out, N, BLOCK=BLOCK)
    torch.cuda.synchronize()
    allocated = max(free - torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated() - held)
    watched = [weakref.ref(x), weakref.ref(out)]
    del x, out
    gc.collect()
    return {"allocated": allocated, "kept": sum(ref() is not None for ref in watched)}


# -- graphs ------------------------------------------------------------------------------------------------------------


class Graph:
    """What ``launch(stream)`` launches ``count`` times, recorded on a stream of PyCUDA's; the driver is asked itself,
    as PyCUDA knows no graphs."""

    def __init__(self, launch: Callable[[Any], object], count: int):
        self.cu = backends.current().cu
        self.stream, self.count, self.graph, self.ready = self.cu.Stream(), count, ctypes.c_void_p(), ctypes.c_void_p()
        launch(self.stream)  # what is done once is not for the graph
        self.stream.synchronize()
        self.ask("cuStreamBeginCapture_v2", self.handle, 2)
        for _ in range(count):
            launch(self.stream)
        self.ask("cuStreamEndCapture", self.handle, ctypes.byref(self.graph))
        self.ask("cuGraphInstantiateWithFlags", ctypes.byref(self.ready), self.graph, ctypes.c_ulonglong(0))

    @property
    def handle(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.stream.handle)

    def ask(self, function: str, *args: Any) -> None:
        if error := getattr(ctypes.CDLL("libcuda.so.1"), function)(*args):
            raise RuntimeError(f"{function} says {error}")

    def time(self) -> float:
        """µs of one launch in a replay, until the last is done."""
        self.stream.synchronize()
        start = time.perf_counter()
        self.ask("cuGraphLaunch", self.ready, self.handle)
        self.stream.synchronize()
        return (time.perf_counter() - start) / self.count * 1e6


def replayed(rounds: int) -> None:
    a, b, c = (tt.to_device(np.arange(N, dtype=np.float32) + k) for k in range(3))
    function, where = prepared(add.compile(a, b, c, N, BLOCK=BLOCK))
    addresses = [x.address for x in (a, b, c)]
    graphs = {
        "tinyton": Graph(lambda s: add[GRID](a, b, c, N, BLOCK=BLOCK, stream=s), 200),
        "prepared_call": Graph(lambda s: function.prepared_async_call(*where, s, *addresses, N), 200),
    }
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            times[name].append(graph.time())
    us = {name: statistics.median(found[1:]) for name, found in times.items()}
    assert np.array_equal(c.numpy(), a.numpy() + b.numpy())
    record("one launch of 200 in a graph", "us", us.pop("tinyton"), us, 1.2, more_is_better=False)


# -- the first launch of a process -------------------------------------------------------------------------------------


def child(script: str, folder: str, **environ: str) -> list[float]:
    """The milliseconds that a new process prints, and those that it takes in all."""
    places = [str(Path(tt.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    variables = {name: x for name, x in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables |= {"PYTHONPATH": os.pathsep.join(filter(None, places)), "TINYTON_BACKEND": "cuda"}
    variables |= {"TINYTON_CACHE_DIR": f"{folder}/tinyton", "TRITON_CACHE_DIR": f"{folder}/triton"}
    variables |= {"CUDA_CACHE_PATH": f"{folder}/driver"} | environ
    start = time.perf_counter()
    done = subprocess.run([sys.executable, str(HERE / script)], capture_output=True, text=True, env=variables)
    if done.returncode:
        raise RuntimeError(f"{script}: {done.stderr.strip().splitlines()[-1]}")
    return [*map(float, done.stdout.split()), (time.perf_counter() - start) * 1e3]


def starts(script: str, repeats: int, cached: bool, **environ: str) -> list[float]:
    """Medians of several processes, each with an empty cache, or all with the same one, which the first has filled."""
    with tempfile.TemporaryDirectory() as folder:
        child(script, folder, **environ)  # modules are compiled, files read
        if cached:
            found = [child(script, folder, **environ) for _ in range(repeats)]
        else:
            found = [child(script, f"{folder}/{k}", **environ) for k in range(repeats)]
    return [statistics.median(column) for column in zip(*found, strict=True)]


def cold(repeats: int) -> None:
    for cached, cache in ((False, "empty cache"), (True, "warm cache")):
        peers, whole = {}, {}
        if triton and torch:
            try:
                *_, peers["triton"], whole["triton"] = starts("cold_triton.py", max(2, repeats // 2), cached)
            except RuntimeError as error:
                failed(f"Triton's first kernel, {cache}", error)
        for compiler in ("nvcc", "nvrtc"):
            if cached and compiler == "nvrtc":
                continue
            work = f"first kernel, {cache}" + ", nvrtc" * (compiler == "nvrtc")
            try:
                *steps, total, process = starts("cold_tinyton.py", repeats, cached, TINYTON_COMPILER=compiler)
            except RuntimeError as error:
                failed(work, error)
                continue
            told = {word: f"{ms:.0f}" for word, ms in zip(("import", "executor", "launch"), steps, strict=True)}
            told["process"] = f"{process:.0f}" + "".join(f" (triton {ms:.0f})" for ms in whole.values())
            record(work, "ms", total, peers, 0.5, False, {"150 ms": (150.0, 1.0)}, **told)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    begin()
    if tt.env().executor != "cuda":
        print("launches are measured on cuda")
        return finish(options.out)
    rounds = 15 if options.quick else 40
    for part in (partial(warm, rounds), partial(replayed, rounds), partial(cold, 3 if options.quick else 7)):
        try:
            part()
        except Exception as error:
            failed(part.func.__name__, error)
    return finish(options.out)


if __name__ == "__main__":
    sys.exit(main())
