"""tinyton beside Triton and torch in one run: the ratios that the project promises.

    python tests/bench/peers.py [--out results.json]

Runs on any NVIDIA GPU. A peer that is not installed is left out, and said so. Times are medians of device events, with
the L2 cache flushed before each run; every result is checked first.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from harness import arguments, begin, device_time, finish, record, torch, triton

import tinyton as tt

if triton:
    import triton.language as tl


@tt.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tt.constexpr):
    offs = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = offs < n
    tt.store(out_ptr + offs, tt.load(x_ptr + offs, mask=mask) + tt.load(y_ptr + offs, mask=mask), mask=mask)


@tt.jit
def softmax(x_ptr, out_ptr, n_cols, stride, BLOCK: tt.constexpr):
    row = tt.program_id(0)
    cols = tt.arange(0, BLOCK)
    mask = cols < n_cols
    x = tt.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf"))
    e = tt.exp(x - tt.max(x, axis=0))
    tt.store(out_ptr + row * stride + cols, e / tt.sum(e, axis=0), mask=mask)


if triton:

    @triton.jit
    def triton_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offs < n
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)

    @triton.jit
    def triton_softmax(x_ptr, out_ptr, n_cols, stride, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * stride + cols, e / tl.sum(e, axis=0), mask=mask)


def host_time(fn: Callable[[], object], repeats: int = 2000) -> float:
    """Median of ten seconds-per-launch, launches queued without waiting."""
    for _ in range(50):
        fn()
    out = []
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats // 10):
            fn()
        out.append((time.perf_counter() - start) / (repeats // 10))
    torch.cuda.synchronize()
    return statistics.median(out)


def vector_add() -> None:
    n = 32 << 20
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    rate = 12 * n / 1e9
    torch_rate = rate / device_time(lambda: torch.add(x, y, out=out))
    for block in (32, 64, 128, 256, 512, 1024, 2048, 4096):
        grid = (tt.cdiv(n, block),)
        out.fill_(float("nan"))
        add[grid](x, y, out, n, BLOCK=block)
        assert torch.equal(out, x + y)
        ours = rate / device_time(partial(add[grid], x, y, out, n, BLOCK=block))
        peers = {"torch": torch_rate}
        if triton:
            peers["triton"] = rate / device_time(partial(triton_add[grid], x, y, out, n, BLOCK=block))
        record(f"vector add 32M f32, BLOCK {block}", "GB/s", ours, peers, 1.0)


def row_softmax(rows: int, cols: int, details: bool) -> None:
    x = torch.randn(rows, cols, device="cuda")
    out = torch.empty_like(x)
    block = tt.next_power_of_2(cols)
    want = torch.softmax(x.double(), dim=1)
    rate = 8 * rows * cols / 1e9

    def launch(**options: int) -> Callable[[], object]:
        return lambda: softmax[(rows,)](x, out, cols, cols, BLOCK=block, **options)

    out.fill_(float("nan"))
    launch()()
    assert torch.allclose(out.double(), want, atol=1e-6), (out.double() - want).abs().max()
    ours = rate / device_time(launch())
    peers = {"torch": rate / device_time(lambda: torch.softmax(x, dim=1, out=out))}
    if triton:
        best = 0.0
        for warps in (1, 2, 4, 8, 16, 32):
            fn = lambda warps=warps: triton_softmax[(rows,)](x, out, cols, cols, BLOCK=block, num_warps=warps)  # noqa: E731
            best = max(best, rate / device_time(fn, 30))
        peers["triton"] = best
    record(f"softmax f32 {rows}x{cols}", "GB/s", ours, {"triton": peers["triton"]} if triton else peers, 0.95)
    if details:
        line = [
            f"{w}: {rate / device_time(launch(num_warps=w), 30):.0f}"
            for w in (1, 2, 4, 8, 16, 32)
            if block // (32 * w) <= 256
        ]
        chosen = softmax.compile(x, out, cols, cols, BLOCK=block)
        costs = f"{chosen.registers} registers, {chosen.spills} bytes spilled"
        print(f"    by num_warps {', '.join(line)}; chosen {chosen.num_warps}, {costs}")


def launches() -> None:
    n = 4096
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    ours = host_time(lambda: add[(4,)](x, y, out, n, BLOCK=1024)) * 1e6
    peers = {}
    if triton:
        peers["triton"] = host_time(lambda: triton_add[(4,)](x, y, out, n, BLOCK=1024)) * 1e6
    record("host time of one launch", "us", ours, peers, 0.4, more_is_better=False)
    d = [tt.to_device(a.cpu().numpy()) for a in (x, y, out)]
    print(f"    with device arrays of our own {host_time(lambda: add[(4,)](*d, n, BLOCK=1024)) * 1e6:.1f} us")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--details", action="store_true", help="softmax by num_warps")
    options = parser.parse_args()
    begin()
    if tt.env().executor == "cuda" and torch:
        vector_add()
        for rows, cols in ((4096, 256), (4096, 1024), (4096, 4096), (4096, 12288), (32768, 1024)):
            row_softmax(rows, cols, options.details)
        launches()
    finish(options.out)


if __name__ == "__main__":
    main()
