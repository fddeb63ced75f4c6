"""OpenCL: on a machine without a GPU, PoCL from PyPI compiles kernels for the CPU and runs a program a work-item."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .. import cache
from ..backends.processor import rename_processor
from ..codegen.dialect import OPENCL
from ..dtypes import DType, bool_, from_numpy
from ..errors import BackendError, LaunchError

# >>> stage 3
from ..passes.threads import choose_threads

# <<<
_forked = threading.Event()  # set in a process whose parent had started the driver, whose threads it lacks
SPARE = "basic"  # PoCL's CPU device without threads: what a forked process can go on with


def _pocl_folder() -> None:
    """PoCL does not start where it cannot write a cache of its own; on such a machine it gets a folder for a while."""
    try:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pocl"
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, RuntimeError):
        os.environ["POCL_CACHE_DIR"] = folder = tempfile.mkdtemp(prefix="tinyton-pocl-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def unusable() -> str | None:
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # its pickles are not needed, and fail in a home that is read-only
    os.environ.setdefault("POCL_DEVICES", f"pthread cpu {SPARE}")  # one of the first two, by version
    if "POCL_CACHE_DIR" not in os.environ:
        _pocl_folder()
    try:
        import pyopencl as cl
    except ImportError:
        return 'PyOpenCL is not installed; pip install "tinyton[opencl]"'
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        platforms = []
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked.set)
    if not any(p.get_devices() for p in platforms):
        return 'no OpenCL driver is installed; pip install "tinyton[opencl]" brings one for the CPU on x86-64 Linux'
    return None


def _log(error: Exception) -> str:
    """What the driver's compiler said, in at most 20 lines, without the paths of this machine."""
    text = re.sub(r"(?s)^.*?Build on <.*?>:\n+|\n=+\nBuild on.*|\n\(options:.*", "", str(error))
    return "\n".join(re.sub(r"/\S*/", "", text).strip().splitlines()[:20])


class Executor:
    """One OpenCL device: a GPU if there is one, else the CPU. A process that is forked goes on with the CPU on one
    thread, if the driver is PoCL."""

    name = "opencl"
    dialect = OPENCL
    arch = ""

    def __init__(self) -> None:
        import pyopencl as cl

        self.cl = cl
        devices = [d for p in cl.get_platforms() for d in p.get_devices()]
        devices.sort(key=lambda d: d.name.startswith(SPARE))
        is_gpu = [bool(d.type & cl.device_type.GPU) for d in devices]
        self.device = devices[is_gpu.index(True)] if any(is_gpu) else devices[0]
        self.on_cpu = not any(is_gpu)
        self.spare = next((d for d in devices if d.name.startswith(SPARE) and d.platform == self.device.platform), None)
        for d in devices:
            rename_processor(d)
        self.context = cl.Context([self.device] + [self.spare] * (self.spare not in (None, self.device)))
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._queue.finish)
        self.sm_count = self.device.max_compute_units
        self.limits = {
            "threads": self.device.max_work_group_size,
            "shared": self.device.local_mem_size,
            "private": 1 << 20 if self.on_cpu else 1 << 16,  # a CPU keeps all threads of a program on one stack
            **dict.fromkeys("xyz", 2**31 - 1),
        }
        self.recorded: list[Any] | None = None

    def _start(self) -> None:
        """What belongs to one device in one process."""
        profiling, d = self.cl.command_queue_properties.PROFILING_ENABLE, self.device
        self._queue = self.cl.CommandQueue(self.context, d, properties=profiling)
        self._key = f"opencl {d.platform.name} {d.name} {d.driver_version} {d.version}"  # PoCL's version names the CPU
        self.lock = threading.Lock()  # a kernel object holds the arguments of one launch

    @property
    def queue(self) -> Any:
        """The queue that launches and copies go through, in order."""
        if _forked.is_set():
            if self.spare is None:
                what = "this process was forked after OpenCL was in use, which its driver does not survive"
                instead = 'start processes with the spawn method: multiprocessing.get_context("spawn")'
                raise BackendError(f"{what}; {instead}")
            _forked.clear()
            self.parents = self._queue  # kept: releasing it would wait for threads that are not there
            self.device = self.spare
            self._start()
        return self._queue

    def record(self, event: Any) -> None:
        """Adds the event of a launch to ``recorded``, while that is a list."""
        if self.recorded is not None:
            self.recorded.append(event)

    def device_info(self) -> dict[str, object]:
        d = self.device
        return {
            "device": d.name.strip(),
            "driver": f"{d.platform.name} {d.driver_version}",
            "runtime": d.version.strip(),
            "compiler": d.opencl_c_version.strip() if hasattr(d, "opencl_c_version") else "OpenCL C",
        }

    def key(self) -> str:
        return self.queue and self._key

    def build(self, low: Any) -> Any:
        """The loaded kernel, from the disk cache or from the driver's compiler."""
        cl = self.cl
        options = cache.build_options()
        if self.on_cpu and re.search(r"^ {8,}barrier\(", low.source, re.MULTILINE):
            options.append("-cl-opt-disable")  # PoCL's optimiser drops conditions beside a barrier in a block
        entry = cache.Entry(low.source, self.key(), " ".join(options))
        binary, program = entry.read(), None
        with warnings.catch_warnings(), self.lock:
            warnings.simplefilter("ignore")
            if binary is not None:
                with contextlib.suppress(cl.Error):  # the driver does not want it any more: a miss
                    program = cl.Program(self.context, [self.device], [binary]).build()
            try:
                if program is None:
                    cache.count_compile()
                    program = cl.Program(self.context, low.located).build(options, [self.device], cache_dir=False)
                    entry.write(program.get_info(cl.program_info.BINARIES)[0])
            except cl.Error as error:
                raise BackendError(f"the OpenCL compiler refused kernel {low.name}:\n{_log(error)}") from None
            kernel = getattr(program, low.symbol)
        kinds: list[Any] = []
        for t in (v.type for v in low.ir.params):
            kinds += [None, np.int64] if t.pointer else [np.uint8 if t.dtype is bool_ else t.dtype.numpy]
        # >>> stage 4
        kinds += [np.int32] * (low.programs_per_block > 1)
        # <<<
        kernel.set_scalar_arg_dtypes(kinds)
        return kernel

    def read_block(self, loaded: Any) -> tuple[int, ...]:
        """The work-group size that the binary demands."""
        return tuple(loaded.get_work_group_info(self.cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, self.device))

    def launch(self, compiled: Any, grid: tuple[int, int, int], args: list, stream: object = None) -> None:
        flat = [x for a in args for x in (a[:2] if type(a) is tuple else (a,))]
        arrays = [x for a in args if type(a) is tuple for x in a[2:]]  # PyOpenCL's, with what has to be done before
        kernel, (x, y, z) = compiled.loaded, grid
        # >>> stage 4
        block, several = compiled.launch_block, compiled.programs_per_block
        size = (-(-x // several) * block[0], y * block[1], z * block[2])
        flat += [x] * (several > 1)
        # === before
        # block = compiled.launch_threads, 1, 1
        # size = x * block[0], y, z
        # <<<
        queue = stream or self.queue
        if not isinstance(queue, self.cl.CommandQueue):
            raise LaunchError(f"stream is a {type(stream).__name__}; on this backend it is a pyopencl.CommandQueue")
        before = [event for array in arrays for event in array.events]
        try:
            with self.lock:
                kernel.set_args(*flat)
                event = self.cl.enqueue_nd_range_kernel(queue, kernel, size, block, wait_for=before)
                self.record(event)
            for array in arrays:
                array.add_event(event)
        except self.cl.Error as error:
            raise LaunchError(f"the OpenCL driver refused to launch {compiled.name}: {error}") from None

    def allocate(self, nbytes: int) -> Any:
        size = max(nbytes, 16)
        if not self.on_cpu:
            return self._buffer(nbytes, 0, size=size)
        try:  # PoCL would allocate at the first use, and dies if it cannot
            host = np.empty(size + 64, np.uint8)
        except (MemoryError, ValueError):
            raise BackendError(f"{nbytes} bytes cannot be allocated on the OpenCL device") from None
        buffer = self.borrow(host[-host.__array_interface__["data"][0] % 64 :][:size])
        buffer.held = Held(self, host)
        return buffer

    def _buffer(self, nbytes: int, flags: int, **options: Any) -> Any:
        try:
            return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE | flags, **options)
        except (self.cl.Error, TypeError):  # TypeError: a size that does not fit 64 bits
            raise BackendError(f"{nbytes} bytes cannot be allocated on the OpenCL device") from None

    def foreign(self, name: str, x: Any) -> tuple[DType, bool, tuple] | None:
        """Arrays of PyOpenCL in this context: any strides, no copy, ordered with their queue by their events."""
        if type(x).__module__ != "pyopencl.array" or not hasattr(x, "base_data"):
            return None
        if x.context != self.context:
            what = f"argument {name} is in another OpenCL context than this launch"
            instead = "pyopencl.array.to_device(tinyton.backends.current().queue, ...)"
            raise LaunchError(f"{what}; make it with {instead}")
        dtype = from_numpy(x.dtype)
        return dtype, x.offset % 16 == 0, (x.base_data or self.allocate(0), dtype, x.offset, x)

    def pointer(self, name: str, handle: Any, dtype: DType, offset: int, *array: Any) -> tuple:
        return handle, offset // dtype.itemsize, *array

    def finish(self, stream: Any = None) -> None:
        """Waits for the launches on a stream."""
        (stream or self.queue).finish()

    synchronize = finish

    def borrow(self, span: np.ndarray) -> Any:
        """Host memory as the device sees it: on a CPU, the same memory."""
        return self._buffer(span.nbytes, self.cl.mem_flags.USE_HOST_PTR, hostbuf=span)

    def give_back(self, handle: Any, span: np.ndarray) -> None:
        """Makes what the device wrote visible in host memory."""
        view, _ = self.cl.enqueue_map_buffer(self.queue, handle, self.cl.map_flags.READ, 0, span.shape, span.dtype)
        view.base.release(self.queue)
        self.queue.finish()

    def write(self, handle: Any, data: np.ndarray) -> None:
        self.cl.enqueue_copy(self.queue, handle, data)

    def read(self, handle: Any, out: np.ndarray) -> None:
        self.cl.enqueue_copy(self.queue, out, handle)

    # >>> stage 3
    def default_threads(self, kernel: Any) -> int:
        """On a CPU one thread walks a whole tile, in loops that the C compiler vectorises."""
        return 1 if self.on_cpu else choose_threads(kernel)

    # <<<


class Held:
    """Host memory that a buffer uses: it goes when the device is done with what was launched before."""

    def __init__(self, executor: Executor, host: np.ndarray):
        self.executor, self.host = executor, host

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a forked process without a queue, or the end of the process
            self.executor.queue.finish()
