"""OpenCL: on a machine without a GPU, PoCL from PyPI compiles kernels for the CPU."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..codegen.dialect import OPENCL
from ..errors import BackendError, LaunchError
from .processor import rename_processor


def unusable() -> str | None:
    try:
        import pyopencl as cl

        return None if any(p.get_devices() for p in cl.get_platforms()) else "no OpenCL driver is installed"
    except Exception as error:
        return f'{error}; pip install "tinyton[opencl]" brings PyOpenCL and a driver for the CPU'


class Executor:
    """One OpenCL device."""

    name = "opencl"
    dialect = OPENCL

    def __init__(self) -> None:
        import pyopencl as cl

        self.cl = cl
        device = next(d for p in cl.get_platforms() for d in p.get_devices())
        rename_processor(device)
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        self.max_threads = self.context.devices[0].max_work_group_size
        self.max_grid = (2**31 - 1,) * 3

    def build(self, name: str, source: str) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.cl.Program(self.context, source).build(cache_dir=False).all_kernels()[0]
        except self.cl.Error as error:
            raise BackendError(f"the OpenCL compiler refused kernel {name}:\n{error}") from None

    def launch(self, function: Any, grid: tuple[int, int, int], threads: int, args: list[Any]) -> None:
        try:
            function.set_args(*args)
            size = (grid[0] * threads, *grid[1:])
            self.cl.enqueue_nd_range_kernel(self.queue, function, size, (threads, 1, 1))
        except self.cl.Error as error:
            raise LaunchError(f"the OpenCL driver refused the launch: {error}") from None

    def allocate(self, nbytes: int) -> Any:
        return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, max(nbytes, 16))

    def write(self, handle: Any, data: np.ndarray) -> None:
        self.cl.enqueue_copy(self.queue, handle, data)

    def read(self, handle: Any, out: np.ndarray) -> None:
        self.cl.enqueue_copy(self.queue, out, handle)

    def synchronize(self) -> None:
        self.queue.finish()
