"""The first kernel of a process, timed from where NumPy is imported and the context is there. It prints milliseconds:
the import, what comes before the first launch, that launch, and all of it. `launch.py` runs it."""

import time

import numpy as np

if __name__ == "__main__":
    import pycuda.driver as cu

    cu.init()
    context = cu.Device(0).retain_primary_context()
    context.push()
    cu.Context.synchronize()
    cu.Context.pop()

begin = time.perf_counter()
import tinyton as tt  # noqa: E402

imported = time.perf_counter()


@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    mask = i < n
    tt.store(out + i, tt.load(x + i, mask=mask) + tt.load(y + i, mask=mask), mask=mask)


if __name__ == "__main__":
    values = np.arange(4096, dtype=np.float32)
    x, y, out = tt.to_device(values), tt.to_device(values), tt.zeros(4096)
    ready = time.perf_counter()
    add[(4,)](x, y, out, 4096, BLOCK=1024)
    tt.synchronize()
    done = time.perf_counter()
    assert np.array_equal(out.numpy(), values + values)
    print(*(1e3 * t for t in (imported - begin, ready - imported, done - ready, done - begin)))
