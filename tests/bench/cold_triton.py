"""Triton's first kernel of a process, timed from where torch is imported and the context is there. It prints
milliseconds: the import, and all of it. `launch.py` runs it."""

import time

import torch

if __name__ == "__main__":
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()

begin = time.perf_counter()
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

imported = time.perf_counter()


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


if __name__ == "__main__":
    x = torch.arange(4096, device="cuda", dtype=torch.float32)
    out = torch.zeros_like(x)
    ready = time.perf_counter()
    add[(4,)](x, x, out, 4096, BLOCK=1024)
    torch.cuda.synchronize()
    done = time.perf_counter()
    assert torch.equal(out, x + x)
    print(*(1e3 * t for t in (imported - begin, done - ready + imported - begin)))
