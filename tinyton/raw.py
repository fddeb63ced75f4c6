"""``tt.raw(name, cuda=..., opencl=...)``: a kernel written by hand, past the compiler, for whichever device is in use.

The CUDA C goes through PyCUDA's ``SourceModule``; its twin in OpenCL C runs where there is no CUDA. They are two texts
of one kernel, and nothing checks that they say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from . import backends
from .arrays import DeviceArray
from .errors import BackendError, KernelTypeError, LaunchError


class RawKernel:
    """A kernel in C. ``kernel[blocks, threads](*args)`` is what CUDA C spells ``kernel<<<blocks, threads>>>(args)``."""

    def __init__(self, name: str, cuda: str, opencl: str):
        self.name, self.cuda, self.opencl = name, cuda, opencl
        self._launches: dict[str, Callable[..., None]] = {}

    def __getitem__(self, where: tuple[int, int]) -> Callable[..., None]:
        blocks, threads = where
        return partial(self._launch, int(blocks), int(threads))

    def _built(self) -> Callable[..., None]:
        """What launches this kernel on the executor in use, which compiles it at its first launch there."""
        executor = backends.current()
        if executor.key() in self._launches:
            return self._launches[executor.key()]
        if executor.name == "interpreter":
            raise BackendError(
                f"{self.name} is written in C, which the interpreter does not run; use the cuda or the opencl backend"
            )
        build = self._for_cuda if executor.name == "cuda" else self._for_opencl
        return self._launches.setdefault(executor.key(), build(executor))

    def _for_cuda(self, executor: Any) -> Callable[..., None]:
        from pycuda.compiler import SourceModule
        from pycuda.driver import CompileError

        try:
            with executor.here():
                function = SourceModule(self.cuda, cache_dir=False).get_function(self.name)
        except CompileError as error:
            raise BackendError(f"nvcc refused {self.name}:\n{error.stderr or error}") from None

        def launch(blocks: int, threads: int, *args: Any) -> None:
            with executor.here():
                function(*args, grid=(blocks, 1, 1), block=(threads, 1, 1))

        return launch

    def _for_opencl(self, executor: Any) -> Callable[..., None]:
        cl = executor.cl
        try:
            program = cl.Program(executor.context, self.opencl).build(devices=[executor.device], cache_dir=False)
        except cl.Error as error:
            raise BackendError(f"the OpenCL compiler refused {self.name}:\n{error}") from None
        function = getattr(program, self.name)

        def launch(blocks: int, threads: int, *args: Any) -> None:
            function.set_args(*args)
            executor.record(cl.enqueue_nd_range_kernel(executor.queue, function, (blocks * threads,), (threads,)))

        return launch

    def _launch(self, blocks: int, threads: int, *args: object) -> None:
        launch = self._built()
        passed = [self._argument(k, x) for k, x in enumerate(args)]
        try:
            launch(blocks, threads, *passed)
        except BackendError:
            raise
        except Exception as error:
            raise LaunchError(
                f"the driver refused to launch {self.name} with {blocks} blocks of {threads} threads: {error}"
            ) from None

    def _argument(self, k: int, x: object) -> object:
        if isinstance(x, DeviceArray):
            return np.uintp(x.address) if x.address else x.handle
        if isinstance(x, np.generic):
            return x
        if isinstance(x, (int, float)):
            return np.int32(x) if isinstance(x, int) else np.float32(x)
        raise KernelTypeError(
            f"argument {k} of {self.name} is a {type(x).__name__}; pass a device array (tt.to_device) or a number"
        )

    def __repr__(self) -> str:
        return f"<raw kernel {self.name}>"


def raw(name: str, *, cuda: str, opencl: str) -> RawKernel:
    """The kernel ``name`` from its CUDA C text (without ``extern "C"``, which is added) and its OpenCL C twin.

    Compiled at the first launch, by the backend in use then; ``BackendError`` if its compiler refuses the text, or on
    the interpreter, which runs no C. Launched as ``kernel[blocks, threads](*args)`` with device arrays and numbers: an
    int is passed as C's ``int``, a float as ``float``, a NumPy scalar as what it is. Nothing is checked against the
    text, as in CUDA C.

    >>> import numpy as np, tinyton as tt
    >>> fill = tt.raw(
    ...     "fill",
    ...     cuda="__global__ void fill(float* x, float v) { x[blockIdx.x * blockDim.x + threadIdx.x] = v; }",
    ...     opencl="kernel void fill(global float* x, float v) { x[get_global_id(0)] = v; }",
    ... )
    >>> x = tt.zeros(8, tt.float32)
    >>> if tt.env().executor != "interpreter":
    ...     fill[2, 4](x, 1.0)
    ...     assert x.numpy().sum() == 8
    """
    return RawKernel(name, cuda, opencl)
