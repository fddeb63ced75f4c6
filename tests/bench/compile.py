"""How long compiling takes: the next kernel of a process, by both compilers and beside Triton, and how that grows.

    python tests/bench/compile.py [--plot growth.png] [--quick] [--out results.json]

Our own work, from Python text to C, needs no GPU and is measured everywhere; nvcc, NVRTC and Triton where they are.
Every sample is a kernel that the process has not seen: captured anew, compiled past all caches. Growth is the exponent
of a straight line through the logarithms: 1 is linear.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memory
import numpy as np
import products
from harness import Launch, NumPyData, TorchData, arguments, begin, failed, finish, record, torch, triton

import tinyton as tt
from tinyton import backends, replay
from tinyton.backends import nvcc, nvrtc
from tinyton.backends.cuda import FLAGS
from tinyton.codegen.dialect import CUDA
from tinyton.passes.lint import lint
from tinyton.specialize import parse

SIZES = (10, 30, 100, 300, 1000)  # statements
TILES = tuple(1 << k for k in range(5, 17))
COMPILERS: dict[str, Callable[[str], bytes]] = {
    "nvcc": lambda text: nvcc.to_ptx(text, "sm_90a", FLAGS),
    "nvrtc": lambda text: nvrtc.to_ptx(text, "sm_90a", FLAGS, "kernel"),
}


def here() -> list[str]:
    """The compilers that are on this machine."""
    return [*["nvcc"] * bool(nvcc.find("nvcc")), *["nvrtc"] * bool(nvrtc.find())]


def own_work(function: Any, args: tuple, named: dict[str, Any], describe: Any = None) -> tuple[float, str]:
    """Milliseconds from the Python text of a kernel to its C for an H200, and that. ``describe(name, x)`` says of which
    type an argument is, if it is not there."""
    executor = backends.current()
    gc.collect()
    start = time.perf_counter()
    kernel = tt.jit(function)
    describe = describe or (lambda name, x: kernel.describe(name, x, executor)[0])
    _, _, ir, low = replay.for_gpu(kernel, args, named, describe, dialect=CUDA.on((9, 0)))
    lint(ir)
    text = low.located
    return (time.perf_counter() - start) * 1e3, text


def compiled(compiler: str, text: str) -> float:
    start = time.perf_counter()
    COMPILERS[compiler](text)
    return (time.perf_counter() - start) * 1e3


# -- the next kernel ---------------------------------------------------------------------------------------------------


def cases(data: Any) -> dict[str, tuple[Launch, Launch | None]]:
    """Kernels of a few lines and of many, with Triton's of the same work."""
    made = {
        "vector add": memory.add(data, n=1 << 16, dtype="float32", block=1024),
        "softmax": memory.softmax(data, rows=64, cols=4096, dtype="float32"),
        "LayerNorm backward": memory.norm_backward(data, rows=64, cols=4096, dtype="float16"),
        "matmul": products.matmul(data, m=256, n=256, k=256, dtype="float16", tiles=[(128, 256, 64)]),
    }
    return {name: (case.ours[0][0], next(iter(case.triton))[0] if triton else None) for name, case in made.items()}


def lines(kernel: Any) -> int:
    return sum(bool(line.strip()) for line in kernel.src.split("\n"))


def whole(launch: Launch, compiler: str) -> float:
    """Milliseconds until a new kernel can be launched on the device."""
    os.environ["TINYTON_COMPILER"] = compiler
    kernel = tt.jit(launch.kernel.fn)
    start = time.perf_counter()
    kernel.compile(*launch.args, **launch.meta)
    return (time.perf_counter() - start) * 1e3


def triton_whole(launch: Launch) -> float:
    kernel = triton.jit(launch.kernel.fn)
    start = time.perf_counter()
    kernel[launch.grid](*launch.args, **launch.meta)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def next_kernels(repeats: int) -> None:
    on_gpu = tt.env().executor == "cuda"
    data = TorchData() if on_gpu and torch else NumPyData()
    for name, (ours, theirs) in cases(data).items():
        work = f"{name}, {lines(ours.kernel)} lines"
        try:
            own_work(ours.kernel.fn, ours.args, ours.meta)
            samples = [own_work(ours.kernel.fn, ours.args, ours.meta) for _ in range(repeats)]
            ms, text = statistics.median(t for t, _ in samples), samples[0][1]
            told = {c: f"{statistics.median(compiled(c, text) for _ in range(3)):.0f}" for c in here()}
            most = 50.0 if name == "matmul" else 10.0
            record(f"own work, {work}", "ms", ms, {}, None, False, {f"{most:.0f} ms": (most, 1.0)}, **told)
            if not on_gpu:
                continue
            peers = {}
            if triton and torch:
                triton_whole(theirs)
                peers["triton"] = statistics.median(triton_whole(theirs) for _ in range(repeats))
            for compiler in here():
                whole(ours, compiler)
                took = statistics.median(whole(ours, compiler) for _ in range(repeats if compiler == "nvrtc" else 3))
                record(f"next kernel by {compiler}, {work}", "ms", took, peers, 1.0, False)
        except Exception as error:
            failed(work, error)


# -- growth ------------------------------------------------------------------------------------------------------------


def text_of(statements: int, start: int = 0) -> str:
    """A kernel of so many statements: loads, arithmetic, choices and stores, each on the one before it."""
    body = [
        "v = tt.load(x + i + {k}, mask=i + {k} < n)",
        "w = v * 0.5 + w",
        "w = tt.where(w > {k}, tt.exp(-w), -w)",
        "tt.store(out + i + {k}, w, mask=i + {k} < n)",
    ]
    text = "import tinyton as tt\n\n\ndef kernel(x, out, n, BLOCK: tt.constexpr):\n"
    text += "    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)\n    w = tt.load(x + i, mask=i < n)\n"
    return (
        text
        + "".join(f"    {body[k % 4].format(k=start + k // 4)}\n" for k in range(statements - 3))
        + ("    tt.store(out + i, w, mask=i < n)\n")
    )


def function_of(text: str, folder: Path) -> Any:
    file = folder / f"kernel_{len(list(folder.iterdir()))}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module.kernel


def exponent(sizes: list[int], times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def measure(folder: Path, statements: int, block: int, repeats: int, by: list[str]) -> dict[str, float]:
    """Milliseconds of our own work, and of each compiler in ``by``, for kernels of one size, each another text."""
    named, own = {"x": "*float32:16", "out": "*float32:16", "n": "int32", "BLOCK": block}, []
    for k in range(repeats):
        function = function_of(text_of(statements, 1000 * k), folder)
        ms, text = own_work(function, (), named, lambda name, x: parse({name: x})[name])
        own.append(ms)
    return {"own work": statistics.median(own)} | {compiler: compiled(compiler, text) for compiler in by}


def growth(quick: bool, plot: str | None) -> None:
    by = here()
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {"statements": {}, "elements of a tile": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure(folder, 30, 1024, 2, [])
        for statements in SIZES[: 4 if quick else None]:
            for what, ms in measure(folder, statements, 1024, 3, by).items():
                curves["statements"].setdefault(what, []).append((statements, ms))
        for tile in TILES[:: 3 if quick else 1]:
            for what, ms in measure(folder, 20, tile, 3, by).items():
                curves["elements of a tile"].setdefault(what, []).append((tile, ms))
    for axis, lines_ in curves.items():
        for what, points in lines_.items():
            sizes, times = map(list, zip(*points, strict=True))
            slope = exponent(sizes, times)
            told = {f"{n}": f"{ms:.0f}" for n, ms in points}
            against = {"linear": (1.0, 1.0)}
            record(f"growth of {what} with {axis}", "exp", slope, {}, None, False, against, **told)
    if plot:
        draw(curves, plot)


def draw(curves: dict[str, dict[str, list[tuple[int, float]]]], plot: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(curves), figsize=(11, 4.5), constrained_layout=True)
    for ax, (axis, lines_) in zip(axes, curves.items(), strict=True):
        for what, points in lines_.items():
            sizes, times = map(list, zip(*points, strict=True))
            ax.loglog(sizes, times, marker="o", label=f"{what}: exponent {exponent(sizes, times):.2f}")
        ax.set(xlabel=axis, ylabel="ms")
        ax.legend()
    figure.suptitle(f"Compile time\n{tt.env().stamp()}", fontsize=10)
    figure.savefig(plot, dpi=120)
    print(f"the curves are in {plot}")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--plot", metavar="FILE", help="draw the curves of growth into this file (PNG; matplotlib)")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats")
    options = parser.parse_args()
    os.environ |= {"TINYTON_CACHE_DIR": "off", "TRITON_ALWAYS_COMPILE": "1"}
    warnings.simplefilter("ignore", tt.LintWarning)
    begin()
    for compiler in COMPILERS.keys() - here():
        print(f"{compiler} is not here: left out")
    next_kernels(3 if options.quick else 9)
    growth(options.quick, options.plot)
    return finish(options.out)


if __name__ == "__main__":
    sys.exit(main())
