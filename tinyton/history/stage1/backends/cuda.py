"""CUDA: PyCUDA's `SourceModule` gives the generated C++ to nvcc and loads what it makes."""

from __future__ import annotations

import atexit
import warnings
from typing import Any

import numpy as np

from ..codegen.dialect import CUDA
from ..errors import BackendError, LaunchError


def unusable() -> str | None:
    try:
        import pycuda.driver as cu

        cu.init()
        return None if cu.Device.count() else "no CUDA device is visible"
    except Exception as error:
        return f'{error}; pip install "tinyton[cuda]" on a machine with an NVIDIA driver'


class Executor:
    """Device 0, in its primary context."""

    name = "cuda"
    dialect = CUDA

    def __init__(self) -> None:
        import pycuda.driver as cu

        self.cu = cu
        device = cu.Device(0)
        self.context = device.retain_primary_context()
        self.context.push()
        atexit.register(self.context.pop)
        self.max_threads = device.get_attribute(cu.device_attribute.MAX_THREADS_PER_BLOCK)
        self.max_grid = (2**31 - 1, 65535, 65535)

    def build(self, name: str, source: str) -> Any:
        from pycuda.compiler import SourceModule

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = SourceModule(source, options=["-fmad=false"], no_extern_c=True, cache_dir=False)
        except self.cu.CompileError as error:
            raise BackendError(f"nvcc refused kernel {name}:\n{error.stderr}") from None
        return module.get_function(name)

    def launch(self, function: Any, grid: tuple[int, int, int], threads: int, args: list[Any]) -> None:
        try:
            function(*args, block=(threads, 1, 1), grid=grid)
        except self.cu.Error as error:
            raise LaunchError(f"the CUDA driver refused the launch: {error}") from None

    def allocate(self, nbytes: int) -> Any:
        return self.cu.mem_alloc(max(nbytes, 16))

    def write(self, handle: Any, data: np.ndarray) -> None:
        self.cu.memcpy_htod(handle, data)

    def read(self, handle: Any, out: np.ndarray) -> None:
        self.cu.memcpy_dtoh(out, handle)

    def synchronize(self) -> None:
        self.context.synchronize()
