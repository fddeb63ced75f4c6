"""``python -m tinyton tour``: one kernel from Python to numbers, in this terminal."""

from __future__ import annotations

import inspect
import textwrap

import numpy as np

from . import backends
from .arrays import empty, to_device
from .bench import bench
from .count import count
from .env import env
from .jit import jit
from .language import NAMES, constexpr
from .roofline import roofline

N = 16_000_003
program_id, arange, load, store, cdiv = (NAMES[n] for n in ("program_id", "arange", "load", "store", "cdiv"))


@jit
def add(x, y, out, n, BLOCK: constexpr):
    i = program_id(0) * BLOCK + arange(0, BLOCK)
    inside = i < n
    store(out + i, load(x + i, mask=inside) + load(y + i, mask=inside), mask=inside)


def main() -> None:
    """Shows what is here, a kernel's source, IR and C, its result against NumPy's, and a small sweep."""
    here = env()
    _say("What is here", str(here))
    for name, why in backends.available().items():
        print(f"  {name:12} {'yes' if why is None else why}")

    slow = here.executor == "interpreter"
    n = N // 16 if slow else N
    x, y = (np.random.default_rng(k).standard_normal(n, np.float32) for k in (1, 2))
    on_device = to_device(x), to_device(y), empty(n, np.float32)
    _say("A kernel: each program adds one tile of BLOCK elements", inspect.getsource(add.source.function))
    compiled = add.compile(*on_device, n, BLOCK=1024)
    _say("The compiler's own words for it (IR)", str(compiled.ir))
    threads = f"{compiled.threads} thread{'s' * (compiled.threads > 1)} a program"
    _say(f"The C that {'OpenCL would run' if slow else 'runs'} here, on {threads}", compiled.source)

    add[cdiv(n, 1024)](*on_device, n, BLOCK=1024)
    right = np.array_equal(on_device[2].numpy(), x + y)
    counted = count(add, cdiv(n, 1024), *on_device, n, BLOCK=1024)
    _say(f"Launched over {cdiv(n, 1024):,} programs", f"equal to NumPy's x + y, to the last bit: {right}\n{counted}")

    _say("The same sum, with other tiles", f"{'BLOCK':>8}  {'programs':>8}  {'time':>9}  {'GB/s':>7}  of roof")
    roof = roofline()
    for block in (1 << 12, 1 << 14, 1 << 16) if slow else (32, 128, 512, 2048, 8192):
        timed = bench(lambda b=block: add[cdiv(n, b)](*on_device, n, BLOCK=b), repeats=5)
        share = roof.seconds(nbytes=12 * n) / timed.seconds
        print(
            f"  {block:>8,}  {cdiv(n, block):>8,}  {timed.us:>6,.0f} µs  {timed.gb_s(12 * n):>7,.1f}  {share:>6.0%}"
            f"  {'#' * round(30 * min(share, 1))}"
        )
    print("\nThe chapters go on from here: make lab")


def _say(title: str, text: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}\n{textwrap.indent(text.rstrip(), '  ')}")
