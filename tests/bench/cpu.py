"""tinyton beside NumPy on a CPU, through OpenCL: the ratios that the project promises there.

    python tests/bench/cpu.py [--quick] [--only softmax] [--out results.json]

Our kernels are written the obvious way. What a user must choose, the shape of a tile, is tried, and the fastest counts;
so it does of several ways to say the same in NumPy. Both write into arrays that are there. Every result is compared
with float64 first. Both sides take turns, each round on new arrays, as where the allocator puts them moves both figures
by a third; times are medians, from the call until the result is there. NumPy runs ufuncs on one thread and its BLAS on
all: `threads` says how many each side kept busy.
"""

from __future__ import annotations

import secrets
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import memory
import memory_kernels as kernels
import numpy as np
from harness import Call, Case, Launch, NumPyData, arguments, begin, check, failed, finish, in_order, record

import tinyton as tt

# -- kernels -----------------------------------------------------------------------------------------------------------


@tt.jit
def relu(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.maximum(tt.load(x + i, mask=i < n), 0.0), mask=i < n)


@tt.jit
def tile_sum(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + tt.program_id(0), tt.sum(tt.load(x + i, mask=i < n), 0))


@tt.jit
def row_sum(x, out, cols, BLOCK: tt.constexpr):
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    tt.store(out + row, tt.sum(tt.load(x + row * cols + j, mask=j < cols), 0))


@tt.jit
def matmul(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    i = (tt.program_id(0) * BM + tt.arange(0, BM))[:, None]
    j = (tt.program_id(1) * BN + tt.arange(0, BN))[None, :]
    acc = tt.zeros((BM, BN), tt.float32)
    for start in range(0, K, BK):
        k = start + tt.arange(0, BK)
        x = tt.load(a + i * K + k[None, :], mask=(i < M) & (k[None, :] < K))
        y = tt.load(b + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N))
        acc = tt.dot(x, y, acc)
    tt.store(c + i * N + j, acc, mask=(i < M) & (j < N))


# -- works -------------------------------------------------------------------------------------------------------------


Peer = tuple[Call, np.ndarray]  # and where its result is


class Work(NamedTuple):
    """``make`` gives the case and the ways to do the same in NumPy; ``goal`` is of the fastest of these."""

    name: str
    goal: float
    make: Callable[[NumPyData], tuple[Case, list[Peer]]]
    unit: str = "GB/s"


def given(case: Case) -> list[np.ndarray]:
    """The arrays of a case in NumPy's memory: those of its first launch."""
    return [x.numpy().copy() for x in case.ours[0][0].args if isinstance(x, tt.DeviceArray)]


def by_blocks(kernel: tt.JITFunction, n: int, args: tuple) -> list[list[Launch]]:
    return [[Launch(kernel, (tt.cdiv(n, block),), (*args, n), {"BLOCK": block})] for block in (256, 1024, 4096)]


def add(data: NumPyData, n: int) -> tuple[Case, list[Peer]]:
    x, y, out = data.normal(n, "float32"), data.normal(n, "float32"), data.empty(n, "float32")
    case = Case(by_blocks(kernels.add, n, (x, y, out)), (out,), lambda: (data.wide(x) + data.wide(y),), 12 * n)
    x_, y_, out_ = given(case)
    return case, [(partial(np.add, x_, y_, out=out_), out_)]


def relus(data: NumPyData, n: int) -> tuple[Case, list[Peer]]:
    x, out = data.normal(n, "float32"), data.empty(n, "float32")
    case = Case(by_blocks(relu, n, (x, out)), (out,), lambda: (np.maximum(data.wide(x), 0),), 8 * n)
    x_, out_ = given(case)
    return case, [(partial(np.maximum, x_, np.float32(0), out=out_), out_)]


def softmax(data: NumPyData, rows: int, cols: int) -> tuple[Case, list[Peer]]:
    case = memory.softmax(data, rows, cols, "float32")
    x, out = given(case)
    row = np.empty((rows, 1), np.float32)

    def way() -> None:
        np.max(x, 1, keepdims=True, out=row)
        np.subtract(x, row, out=out)
        np.exp(out, out=out)
        np.sum(out, 1, keepdims=True, out=row)
        np.divide(out, row, out=out)

    return case, [(way, out)]


def layernorm(data: NumPyData, rows: int, cols: int) -> tuple[Case, list[Peer]]:
    case = memory.norm(data, rows, cols, "float32")
    x, w, b, out, *_ = given(case)
    mean, rstd, squares = np.empty((rows, 1), np.float32), np.empty((rows, 1), np.float32), np.empty_like(x)

    def way(variance: Callable[[], object]) -> None:
        np.mean(x, 1, keepdims=True, out=mean)
        np.subtract(x, mean, out=out)
        variance()
        np.add(rstd, memory.EPS, out=rstd)
        np.sqrt(rstd, out=rstd)
        np.divide(1, rstd, out=rstd)
        np.multiply(out, rstd, out=out)
        np.multiply(out, w, out=out)
        np.add(out, b, out=out)

    def by_mean() -> None:
        np.multiply(out, out, out=squares)
        np.mean(squares, 1, keepdims=True, out=rstd)

    def by_einsum() -> None:
        np.einsum("ij,ij->i", out, out, out=rstd[:, 0])
        np.divide(rstd, np.float32(cols), out=rstd)

    return case, [(partial(way, by_mean), out), (partial(way, by_einsum), out)]


def full_sum(data: NumPyData, n: int) -> tuple[Case, list[Peer]]:
    """Sums of tiles, which are then added up; or of every so many tiles."""
    case = memory.full_sum(data, n)
    x, out = case.ours[0][0].args[0], case.outs[0]
    for block in (4096, 8192):
        parts = data.empty(tt.cdiv(n, block), "float32")
        first = Launch(tile_sum, parts.shape, (x, parts, n), {"BLOCK": block})
        rest = Launch(tile_sum, (1,), (parts, out, parts.size), {"BLOCK": tt.next_power_of_2(parts.size)})
        case.ours.append([first, rest])
    (x_, *_), out_ = given(case), np.empty((), np.float32)
    return case, [(partial(np.sum, x_, out=out_), out_)]


def row_sums(data: NumPyData, rows: int, cols: int) -> tuple[Case, list[Peer]]:
    x, out = data.normal((rows, cols), "float32"), data.empty(rows, "float32")
    launch = Launch(row_sum, (rows,), (x, out, cols), {"BLOCK": tt.next_power_of_2(cols)})
    case = Case([[launch]], (out,), lambda: (data.wide(x).sum(1),), 4 * rows * cols)
    x_, out_ = given(case)
    return case, [(partial(np.sum, x_, 1, out=out_), out_)]


def product(data: NumPyData, n: int) -> tuple[Case, list[Peer]]:
    a, b, c = data.normal((n, n), "float32"), data.normal((n, n), "float32"), data.empty((n, n), "float32")
    ways = []
    for bm, bn, bk in ((32, 32, 32), (64, 64, 32), (64, 64, 64), (128, 64, 64)):
        grid = tt.cdiv(n, bm), tt.cdiv(n, bn)
        ways.append([Launch(matmul, grid, (a, b, c, n, n, n), {"BM": bm, "BN": bn, "BK": bk})])
    case = Case(ways, (c,), lambda: (data.wide(a) @ data.wide(b),), 2 * n**3)
    a_, b_, c_ = given(case)
    return case, [(partial(np.matmul, a_, b_, out=c_), c_)]


def works() -> list[Work]:
    n, widths = 16 << 20, (256, 1000, 1024, 4096)
    found = [Work("add 16M", 0.95, partial(add, n=n)), Work("relu 16M", 0.95, partial(relus, n=n))]
    found += [Work(f"softmax 2048x{cols}", 3.0, partial(softmax, rows=2048, cols=cols)) for cols in widths]
    found += [Work(f"layernorm 2048x{cols}", 3.0, partial(layernorm, rows=2048, cols=cols)) for cols in widths]
    found += [Work("sum of 16M", 1.0, partial(full_sum, n=n))]
    found += [
        Work(f"row sums {n // cols}x{cols}", 1.0, partial(row_sums, rows=n // cols, cols=cols)) for cols in widths
    ]
    return [*found, *(Work(f"matmul {n}", 0.5, partial(product, n=n), "GF/s") for n in (512, 1024))]


# -- time --------------------------------------------------------------------------------------------------------------


def check_peer(case: Case, peer: Peer) -> None:
    """That NumPy does the same work; what is wanted is what our first result is to be."""
    call, out = peer
    out.fill(np.nan)
    call()
    want = case.want()[0]
    assert np.allclose(out.reshape(want.shape), want, rtol=1e-4, atol=1e-4 * abs(want).mean()), "NumPy's side is wrong"


def timed(call: Call, repeats: int) -> tuple[list[float], float]:
    """Seconds of each call, and how many threads were busy. BLAS's threads spin for a while after a call: they have
    come to rest when this begins."""
    time.sleep(0.1)
    for _ in range(2):
        call()
    seconds, busy = [], time.process_time()
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds, (time.process_time() - busy) / sum(seconds)


def measure(work: Work, seed: int, rounds: int, repeats: int) -> None:
    times: dict[str, list[float]] = {"tinyton": [], "numpy": []}
    threads: dict[str, list[float]] = {"tinyton": [], "numpy": []}
    chosen: dict[str, int] = {}
    for k in range(rounds):
        data = NumPyData(seed + k)
        case, peers = work.make(data)

        def until_done(launches: list[Launch]) -> Call:
            launch = in_order(launches)
            return lambda: (launch(), tt.synchronize())

        ways = {"tinyton": [until_done(way) for way in case.ours], "numpy": [call for call, _ in peers]}
        if not chosen:
            chosen = {
                name: min(range(len(found)), key=lambda i: min(timed(found[i], 7)[0])) for name, found in ways.items()
            }
        calls = {name: found[chosen[name]] for name, found in ways.items()}
        check(data, case, calls["tinyton"])
        check_peer(case, peers[chosen["numpy"]])
        for name, call in calls.items():
            seconds, busy = timed(call, repeats)
            times[name] += seconds
            threads[name].append(busy)
    rates = {name: case.nbytes / 1e9 / statistics.median(found) for name, found in times.items()}
    busy = {name: round(statistics.median(found), 1) for name, found in threads.items()}
    record(work.name, work.unit, rates.pop("tinyton"), rates, work.goal, threads=busy)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="3 rounds, not 9")
    parser.add_argument("--only", default="", metavar="TEXT", help="works whose name contains this text")
    options = parser.parse_args()
    begin()
    if tt.env().executor != "opencl":
        print(f"this benchmark is for a CPU, through OpenCL; the executor in use is {tt.env().executor}")
        return 2
    seed, start = secrets.randbits(32), time.perf_counter()
    print(f"seed {seed}; {memory.sm_count()} compute units")
    for work in works():
        if options.only in work.name:
            try:
                measure(work, seed, 3 if options.quick else 9, 9)
            except Exception as error:
                failed(work.name, error)
    print(f"{time.perf_counter() - start:.0f} s in all")
    return finish(options.out)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
