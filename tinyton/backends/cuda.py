"""CUDA through PyCUDA: the generated C++ goes to nvcc, the binary into the device's primary context."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import struct
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .. import cache
from ..codegen.dialect import CUDA, launch_bounds
from ..dtypes import DType
from ..errors import BackendError, LaunchError
from ..ops import OPS, mask_of
from ..passes.threads import choose_threads
from . import nvcc, nvrtc
from .driver import ask

# >>> stage 9
from . import maps  # isort: skip

# <<<

FLAGS = ["-fmad=false", "-std=c++17"]
FAULTS = re.compile(  # what the driver says of errors that leave a context unusable
    r"illegal|misaligned|invalid (program counter|address space)|address space|launch failure|stack error|timed out"
    r"|device-side assert|ECC|exception"
)


def unusable() -> str | None:
    try:
        import pycuda.driver as cu
    except ImportError as error:
        if "libcuda" in str(error):
            return "PyCUDA finds no NVIDIA driver (libcuda) on this machine"
        return 'PyCUDA is not installed; pip install "tinyton[cuda]" (python -m tinyton doctor tells more)'
    try:
        cu.init()
        return None if cu.Device.count() else "no CUDA device is visible"
    except Exception as error:
        return f"the CUDA driver does not start: {error}"


class Executor:
    """Device 0, in its primary context, which torch, CuPy and others share."""

    name = "cuda"

    def __init__(self) -> None:
        import pycuda.driver as cu

        self.cu = cu
        self._side: Any = None
        self.thread: int | None = None  # the main thread, once the context is current there for good
        self.forked = False
        self.detour = False  # all launches take the long way
        self.lost = ""  # why nothing runs any more, once that is so
        self.alive: weakref.WeakSet[Owned] = weakref.WeakSet()
        self.last: Any = None  # the variant that was launched last on the long way
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: vars(self).update(forked=True, detour=True))
        self.device = cu.Device(0)
        self.context = self.device.retain_primary_context()
        with self.here():
            pass
        a, d = cu.device_attribute, self.device
        self.capability = d.compute_capability()
        self.arch = "sm_{}{}".format(*self.capability)
        self.dialect = CUDA.on(self.capability)
        self.sm_count = d.get_attribute(a.MULTIPROCESSOR_COUNT)
        self.limits = {
            "threads": d.get_attribute(a.MAX_THREADS_PER_BLOCK),
            "shared": d.get_attribute(a.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            "private": 1 << 13,  # eight times what a thread has in registers; nvcc takes half a minute for it
            **{axis: d.get_attribute(getattr(a, f"MAX_GRID_DIM_{axis.upper()}")) for axis in "xyz"},
        }
        words = {"threads": "THREADS", "registers": "REGISTERS", "shared": "SHARED_MEMORY", "blocks": "BLOCKS"}
        self.per_sm = {w: d.get_attribute(getattr(a, f"MAX_{n}_PER_MULTIPROCESSOR")) for w, n in words.items()}
        self._key = f"cuda {self.arch} {cu.get_version()}"

    def _leave(self) -> None:
        with suppress(self.cu.Error):
            self.context.pop()

    @contextmanager
    def here(self) -> Iterator[None]:
        """The context, current in this thread: in the main one it stays so, others hand it back, as PyCUDA wants. A
        driver's error that leaves the context unusable becomes a BackendError here, and so does whatever follows."""
        if self.lost:
            raise BackendError(self.lost)
        if self.forked:
            what = "this process was forked after CUDA was in use, which CUDA does not survive"
            raise BackendError(f"{what}; start processes with the spawn method")
        passing = threading.get_ident() != self.thread
        if passing:
            self.context.push()
        if passing and threading.current_thread() is threading.main_thread():
            self.thread, passing = threading.get_ident(), False
            atexit.register(self._leave)
        try:
            yield
        except self.cu.Error as error:
            if FAULTS.search(str(error)):
                raise self._lose(error) from None
            raise
        finally:
            if passing:
                self._leave()

    def _lose(self, error: Exception) -> BackendError:
        """A launch has left the context unusable: which one, as far as one can know, for this and all later calls."""
        self.lost = f"the CUDA context is lost: {str(error).partition('failed: ')[2] or error}"
        if self.last is not None:
            python, accesses = self.last.python, [op for op in self.last.ir.ops() if OPS[op.name].memory and op.loc]
            bare = sorted({op.loc.line for op in accesses if mask_of(op) is None})
            lines = bare or sorted({op.loc.line for op in accesses})
            self.lost += (
                f", in kernel {python.name} (line {python.loc(python.tree).line}; it accesses memory "
                f"{'without a mask ' * bool(bare)}in line {', '.join(map(str, lines))}) or in one launched after it"
            )
        self.lost += (
            ". Restart the process: nothing more runs on the device in this one. With TINYTON_BACKEND=interpreter the "
            "same launch tells the program and the element"
        )
        for owned in (*self.alive, Owned(self, self.context, self._side)):
            owned.keep()
        return BackendError(self.lost)

    def refused(self, name: str, error: Exception, threads: str = "") -> Exception:
        """What to raise for a launch that the driver did not take."""
        if FAULTS.search(str(error)):
            return BackendError(self.lost) if self.lost else self._lose(error)
        return LaunchError(f"the CUDA driver refused to launch {name}{threads}: {error}")

    def device_info(self) -> dict[str, object]:
        driver = self.cu.get_driver_version()
        runtime = self.cu.get_version()
        return {
            "device": self.device.name(),
            "capability": "{}.{}".format(*self.capability),
            "driver": _system_driver() or f"{driver // 1000}.{driver % 1000 // 10}",
            "runtime": f"{runtime[0]}.{runtime[1]}",
            "compiler": compiler(),
        }

    def key(self) -> str:
        return f"{self._key} {compiler()}"

    attribute = staticmethod(launch_bounds)

    def build(self, low: Any) -> Any:
        """The loaded function and how to pack its arguments, from the disk cache or from the compiler."""
        options = [*FLAGS, *cache.build_options()]
        own = [os.environ.get(f"NVCC_{word}_FLAGS", "") for word in ("PREPEND", "APPEND")]  # nvcc reads them by itself
        entry = cache.Entry(low.source, self.key(), " ".join(options + own))
        with self.here():
            binary, module = entry.read(), None
            if binary is not None:
                with suppress(self.cu.Error):  # the driver does not want it any more: a miss
                    module = self.cu.module_from_buffer(binary)
            if module is None:
                cache.count_compile()
                binary = self._compile(low, options)
                entry.write(binary)
                try:
                    module = self.cu.module_from_buffer(binary)
                except self.cu.Error as error:
                    raise BackendError(f"the CUDA driver refused kernel {low.name}: {error}") from None
            function = module.get_function(low.symbol)
            if low.dynamic_shared:
                function.set_attribute(self.cu.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, low.dynamic_shared)
        return Loaded(self, module, function, binary, low)

    def _compile(self, low: Any, options: list[str]) -> bytes:
        """What `SourceModule` does, without its cache, which warns with paths when it is cold."""
        from pycuda import compiler as pycuda
        from pycuda import driver

        arch = nvcc.arch(self.arch, low.source)
        if nvrtc.chosen():
            return nvcc.exact_block(nvrtc.to_ptx(low.located, arch, options, low.name), low.block)
        how = {"arch": arch, "target": "ptx", "no_extern_c": True, "cache_dir": False}
        try:
            with warnings.catch_warnings(action="ignore"):
                ptx = pycuda.compile(low.located, nvcc.find("nvcc") or "nvcc", options, **how)
        except driver.CompileError as error:
            raise BackendError(f"nvcc refused kernel {low.name}:\n{error.stderr or error}") from None
        except OSError:
            raise BackendError(nvcc.missing("nvcc")) from None
        return nvcc.exact_block(ptx, low.block)

    def read_block(self, loaded: Loaded) -> tuple[int, int, int]:
        """The block that the binary demands."""
        return nvcc.required_block(loaded.binary)

    def ptx(self, compiled: Any) -> str:
        return compiled.loaded.binary.decode()

    def sass(self, compiled: Any) -> str:
        """Machine code for this device, by the toolkit's assembler and disassembler."""
        return nvcc.to_sass(nvcc.to_cubin(compiled.loaded.binary, nvcc.arch(self.arch, compiled.source))[0])

    def registers(self, compiled: Any) -> int:
        return compiled.loaded.function.num_regs

    def spills(self, compiled: Any) -> int:
        return compiled.loaded.function.local_size_bytes

    def occupancy(self, compiled: Any) -> Any:
        return self.occupied(compiled.low, compiled.loaded.function)

    def occupied(self, low: Any, function: Any) -> Any:
        from ..occupancy import occupancy

        costs = low.block[0], function.num_regs, low.shared_bytes
        return occupancy(*costs, self.per_sm, self.capability, low.programs_per_block)

    def launch(self, compiled: Any, grid: tuple[int, int, int], args: list, stream: Any = None) -> None:
        loaded = compiled.loaded
        block, packed = compiled.launch_block, loaded.pack(*args)
        with self.here(), self._after_torch(stream) as where:
            try:
                loaded.start(grid, block, packed, loaded.shared, where)
            except self.cu.Error as error:
                raise self.refused(compiled.name, error, f" with {prod(block)} threads") from None
            self.last = compiled

    @contextmanager
    def _after_torch(self, stream: Any) -> Iterator[Any]:
        """The stream to launch on. For a stream of another library, or its handle, and while torch works on one of its
        own, that is one of ours, between two events: after what is queued there, and before what is queued next."""
        torch = sys.modules.get("torch")
        torch = torch if torch is not None and torch.cuda.is_initialized() else None
        if isinstance(stream, self.cu.Stream):
            yield stream
            return
        theirs = torch.cuda.current_stream() if torch and stream is None else stream
        handle = _handle(theirs) if theirs is not None else 0
        if torch and torch.cuda.is_current_stream_capturing():
            what = "torch is capturing a CUDA graph on this stream"
            raise LaunchError(f"{what}; a kernel launch cannot become part of it")
        if handle < 2:  # the default one, by both of its names
            yield None
            return
        self._side = self._side or self.cu.Stream()
        _follow(self._side.handle, handle)
        yield self._side
        _follow(handle, self._side.handle)

    def foreign(self, name: str, x: Any) -> tuple[object, bool, Any] | None:
        """Arrays of other libraries on this device: torch, CuPy, PyCUDA, anything with __cuda_array_interface__."""
        if hasattr(x, "data_ptr") and hasattr(x, "is_cuda"):
            if not x.is_cuda:
                raise LaunchError(f"argument {name} is a torch tensor on the CPU; move it with .cuda()")
            address, dtype = x.data_ptr(), x.dtype
        elif hasattr(x, "__cuda_array_interface__"):
            interface = x.__cuda_array_interface__
            own = getattr(x, "dtype", None)
            address, dtype = interface["data"][0], own if isinstance(own, np.dtype) else np.dtype(interface["typestr"])
            if interface.get("stream") not in (None, 0, 1):  # work on it is queued elsewhere than on the default stream
                ask("cuStreamSynchronize", ctypes.c_void_p(interface["stream"]))
        else:
            return None
        return dtype, address % 16 == 0, address

    def allocate(self, nbytes: int) -> Any:
        with self.here():
            try:
                return Memory(self, self.cu.mem_alloc(max(nbytes, 16)))
            except (self.cu.Error, OverflowError) as error:
                if FAULTS.search(str(error)):
                    raise
                raise BackendError(f"{nbytes} bytes cannot be allocated on the device: {error}") from None

    def pointer(self, name: str, handle: Any, dtype: DType, offset: int) -> int:
        return int(handle) + offset

    def borrow(self, span: np.ndarray) -> Any:
        """A copy on the device, as far from a multiple of 16 bytes as the memory on the host."""
        handle = self.allocate(span.nbytes + 16)
        handle.offset = span.ctypes.data % 16
        self.write(handle, span)
        return handle

    def give_back(self, handle: Any, span: np.ndarray) -> None:
        self.read(handle, span)

    def write(self, handle: Any, data: np.ndarray) -> None:
        with self.here():
            self.cu.memcpy_htod(int(handle), data)

    def read(self, handle: Any, out: np.ndarray) -> None:
        with self.here():
            self.cu.memcpy_dtoh(out, int(handle))

    def finish(self, stream: Any) -> None:
        """Waits for the launches on a stream; copies wait for those on the default stream by themselves."""
        if stream is not None:
            with self.here():
                ask("cuStreamSynchronize", ctypes.c_void_p(_handle(stream)))

    def synchronize(self) -> None:
        with self.here():
            self.context.synchronize()

    def default_threads(self, kernel: Any) -> int:
        return choose_threads(kernel)


def _handle(stream: Any) -> int:
    """The driver's handle of a stream: of PyCUDA, torch, CuPy or Numba, or the handle itself."""
    words = ("handle", "cuda_stream", "ptr")
    found = next((getattr(stream, word) for word in words if hasattr(stream, word)), stream)
    found = getattr(found, "value", found)  # Numba's
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        instead = "give a stream of PyCUDA, torch or CuPy, or its handle, an int"
        raise LaunchError(f"stream is a {type(stream).__name__}; {instead}")
    return int(found)


def _follow(stream: int, other: int) -> None:
    """Lets a stream wait for what is queued on another one now; both are handles."""
    event = ctypes.c_void_p()
    ask("cuEventCreate", ctypes.byref(event), 2)  # without a time
    ask("cuEventRecord", event, ctypes.c_void_p(other))
    ask("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
    ask("cuEventDestroy_v2", event)


class Owned:
    """Things of PyCUDA's, which it frees only where its context is current: they are let go in whatever thread drops
    the last reference, when the device is done with them. Of a context that is lost they are kept for good: their
    destructors would complain, each for itself."""

    def __init__(self, executor: Executor, *things: Any):
        self.executor, self.things = executor, list(things)
        executor.alive.add(self)

    def __del__(self) -> None:
        with suppress(BackendError, self.executor.cu.Error), self.executor.here():
            self.executor.context.synchronize()
            self.things.clear()
        self.keep()

    def keep(self) -> None:
        for x in self.things:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


class Memory(Owned):
    """An allocation, used from the byte ``offset`` on."""

    offset = 0

    def __int__(self) -> int:
        return int(self.things[0]) + self.offset


class Loaded(Owned):
    """A function on the device, unloaded when nobody has it any more."""

    def __init__(self, executor: Executor, module: Any, function: Any, binary: bytes, low: Any):
        super().__init__(executor, function, module)
        self.binary, self.shared, self.low = binary, low.dynamic_shared, low
        self.counts = int(low.programs_per_block > 1)  # of how many axes it takes how many programs there are
        self.most = 0  # blocks at a time
        self.direct = not self.counts  # whether a program is a block
        kinds = "".join("P" if v.type.pointer else v.type.dtype.numpy.char for v in low.ir.params)
        self.pack: Callable[..., bytes] = struct.Struct(kinds + "0i" * self.counts).pack
        # >>> stage 9
        if low.maps:
            place = maps.offset(binary, low.symbol, len(low.ir.params), kinds)
            self.pack = maps.Packer(low.maps, kinds, place, maps.encoded)
            self.counts = low.stays
            self.most = executor.sm_count * max(1, executor.occupied(low, function).programs_per_sm)
        self.direct = not self.counts and low.ctas == 1
        # <<<

    @property
    def function(self) -> Any:
        return self.things[0]

    @property
    def start(self) -> Any:
        """Takes the grid, the block, the packed arguments, bytes of shared memory and the stream. The grid counts
        programs, of which a block may hold several, or run several, or one together with others."""
        launch, blocks, counts = self.function._launch_kernel, self.low.blocks, struct.Struct("i" * self.counts).pack

        def start(grid: tuple[int, int, int], block: Any, packed: bytes, shared: int, stream: Any) -> None:
            launch(blocks(grid, self.most), block, packed + counts(*grid[: self.counts]), shared, stream)

        return launch if self.direct else start


def compiler() -> str:
    """What makes PTX of the source, with its version."""
    return nvrtc.version() if nvrtc.chosen() else nvcc.version()


def _system_driver() -> str | None:
    told = Path("/proc/driver/nvidia/version")
    found = re.search(r"Module\s+(?:for \S+\s+)?([\d.]+)", told.read_text()) if told.exists() else None
    return found[1] if found else None
