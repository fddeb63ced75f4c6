"""CUDA: PyCUDA gives the generated C++ to nvcc; the binary is kept on disk and loaded into the primary context."""

from __future__ import annotations

import atexit
import struct
import warnings
from typing import Any

import numpy as np

from .. import cache
from ..codegen.dialect import CUDA
from ..dtypes import DType
from ..errors import BackendError, LaunchError

# >>> stage 3
from ..passes.threads import choose_threads

# <<<

FLAGS = ["-fmad=false", "-std=c++17"]
FORMATS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "float64": "d"}
FORMATS |= {"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"}


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

        self.cu, a = cu, cu.device_attribute
        self.device = cu.Device(0)
        self.context = self.device.retain_primary_context()
        self.context.push()
        atexit.register(self.context.pop)
        self.arch = "sm_{}{}".format(*self.device.compute_capability())
        self.limits = {
            "threads": self.device.get_attribute(a.MAX_THREADS_PER_BLOCK),
            "shared": self.device.get_attribute(a.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            "x": self.device.get_attribute(a.MAX_GRID_DIM_X),
            "y": self.device.get_attribute(a.MAX_GRID_DIM_Y),
            "z": self.device.get_attribute(a.MAX_GRID_DIM_Z),
        }

    def key(self) -> str:
        return f"cuda {self.arch} {self.cu.get_version()}"

    def build(self, low: Any) -> Any:
        """The loaded function and how to pack its arguments, from the disk cache or from nvcc."""
        entry = cache.Entry(low.source, self.key(), " ".join(FLAGS))
        binary = entry.read()
        if binary is None:
            cache.count_compile()
            binary = self.nvcc(low, "cubin")
            entry.write(binary)
        function = self.cu.module_from_buffer(binary).get_function(low.symbol)
        if low.dynamic_shared:
            function.set_attribute(self.cu.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, low.dynamic_shared)
        kinds = "".join("P" if v.type.pointer else FORMATS[v.type.dtype.name] for v in low.ir.params)
        return function, struct.Struct(kinds).pack

    def nvcc(self, low: Any, target: str) -> bytes:
        """What `SourceModule` does, without its cache, which warns with paths when it is cold."""
        from pycuda import compiler

        options: dict[str, Any] = {"options": FLAGS, "arch": self.arch, "no_extern_c": True, "cache_dir": False}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return compiler.compile(low.located, target=target, **options)
        except self.cu.CompileError as error:
            raise BackendError(f"nvcc refused kernel {low.name}:\n{error.stderr or error}") from None

    def ptx(self, compiled: Any) -> str:
        return self.nvcc(compiled.low, "ptx").decode()

    def launch(self, compiled: Any, grid: tuple[int, int, int], args: list, stream: Any = None) -> None:
        function, pack = compiled.loaded
        block = (compiled.launch_threads, 1, 1)
        try:
            function._launch_kernel(grid, block, pack(*args), compiled.low.dynamic_shared, stream)
        except self.cu.Error as error:
            raise LaunchError(f"the CUDA driver refused to launch {compiled.name}: {error}") from None

    # >>> stage 3
    def default_threads(self, kernel: Any) -> int:
        return choose_threads(kernel)

    # <<<
    def allocate(self, nbytes: int) -> Any:
        try:
            return self.cu.mem_alloc(max(nbytes, 16))
        except self.cu.Error as error:
            raise BackendError(f"{nbytes} bytes cannot be allocated on the device: {error}") from None

    def pointer(self, name: str, handle: Any, dtype: DType, offset: int) -> int:
        return int(handle) + offset

    def borrow(self, span: np.ndarray) -> Any:
        handle = self.allocate(span.nbytes)
        self.write(handle, span)
        return handle

    def give_back(self, handle: Any, span: np.ndarray) -> None:
        self.read(handle, span)

    def write(self, handle: Any, data: np.ndarray) -> None:
        self.cu.memcpy_htod(handle, data)

    def read(self, handle: Any, out: np.ndarray) -> None:
        self.cu.memcpy_dtoh(out, handle)

    def synchronize(self) -> None:
        self.context.synchronize()
