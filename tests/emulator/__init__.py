"""A GPU for tests: generated CUDA C++, as it is, compiled by g++ and run on the CPU.

`Executor` stands where tinyton.backends has those of real devices, and makes the choices of the cuda executor for a
card of compute capability 9.0. simt.h says what of CUDA there is. Threads take turns in an order that a seed decides;
the seed is new for each run of pytest, which prints it with what fails, and TINYTON_EMULATOR_SEED sets it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import shutil
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinyton import backends
from tinyton.backends.maps import Packer
from tinyton.codegen.dialect import CUDA, launch_bounds
from tinyton.errors import BackendError
from tinyton.passes.boxes import Map
from tinyton.passes.threads import choose_threads

from .translate import translate

HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "-fPIC", "-w", "-pipe", "-U_FORTIFY_SOURCE"]
KERNEL = [  # computes as nvcc is told to; what is not defined is poison, and what can be checked stops the kernel
    *("-O0", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-ftrivial-auto-var-init=pattern"),
    *("-fsanitize=alignment,bounds", "-fsanitize-undefined-trap-on-error", "-fstack-clash-protection"),
]
BLOCKS = 3  # that run at a time, of those that stay
SEED = int(os.environ.get("TINYTON_EMULATOR_SEED") or random.randrange(1 << 32))


def unusable() -> str | None:
    if os.name != "posix" or os.uname().sysname != "Linux":
        return "the emulator runs on Linux"
    return None if shutil.which("g++") else "the emulator compiles with g++, which is not installed"


def compiled(*args: str) -> None:
    run = subprocess.run(["g++", *FLAGS, *args], capture_output=True, text=True, cwd=HERE)
    if run.returncode:
        raise BackendError("\n".join(["g++ refused it:", *run.stderr.splitlines()[:20]]))


@cache
def machine() -> tuple[Path, ctypes.CDLL]:
    """The folder of what is compiled, with the header in it, and the machine."""
    folder = tempfile.TemporaryDirectory(prefix="tinyton-emulator-")
    machine.folder = folder  # it goes when the process ends
    path = Path(folder.name)
    for header in HERE.glob("*.h"):
        shutil.copy(header, path)
    sources = sorted(map(str, HERE.glob("*.cpp")))
    compiled(*KERNEL, "-x", "c++-header", "-o", f"{path}/simt.h.gch", f"{path}/simt.h")
    compiled("-O1", "-frounding-math", "-ffp-contract=off", "-shared", "-o", f"{path}/machine.so", *sources)
    lib = ctypes.CDLL(f"{path}/machine.so", ctypes.RTLD_GLOBAL)
    lib.simt_allocate.restype, lib.simt_launch.restype = ctypes.c_void_p, ctypes.c_char_p
    return path, lib


@cache
def load(text: str, symbol: str) -> Any:
    """The kernel ``symbol`` of CUDA C++, as a function of packed arguments."""
    folder, _ = machine()
    path = folder / hashlib.sha256(f"{symbol} {text}".encode()).hexdigest()[:20]
    entry = f'\nextern "C" void simt_enter(char* args) {{ simt::call({symbol}, args); }}\n'
    head = '#include "simt.h"\n#define __CUDA_ARCH__ 900\n#line 1\n'
    path.with_suffix(".cpp").write_text(head + translate(text) + entry, encoding="utf-8")
    compiled(*KERNEL, "-I", str(folder), "-shared", "-o", f"{path}.so", f"{path}.cpp")
    return ctypes.CDLL(f"{path}.so").simt_enter


class Loaded(NamedTuple):
    """A kernel on the card."""

    function: Any
    pack: Callable[..., bytes]
    low: Any


class Executor:
    """The emulated card."""

    name = "emulator"
    capability, arch, sm_count = (9, 0), "sm_90", 132
    dialect = CUDA.on(capability)
    limits = {"threads": 1024, "shared": 232448, "private": 1 << 13, "x": (1 << 31) - 1, "y": 65535, "z": 65535}
    attribute = staticmethod(launch_bounds)

    def __init__(self, seed: int = SEED) -> None:
        _, self.machine = machine()
        self.seed, self.chance, self.lock = seed, random.Random(seed), threading.Lock()

    def restart(self) -> None:
        """Begins with the seed again, so that a test takes the same way by itself."""
        self.chance.seed(self.seed)

    def key(self) -> str:
        return "emulator sm_90"

    def device_info(self) -> dict[str, object]:
        return dict.fromkeys(("device", "driver", "runtime", "compiler"), "emulator")

    def default_threads(self, kernel: Any) -> int:
        return choose_threads(kernel)

    def build(self, low: Any) -> Any:
        kinds = "".join("P" if v.type.pointer else v.type.dtype.numpy.char for v in low.ir.params)
        pack = struct.Struct(kinds + "0i" * (low.programs_per_block > 1)).pack
        if low.maps:
            pack = Packer(low.maps, kinds, -(-struct.calcsize(kinds) // 64) * 64, self.tensor_map)
        return Loaded(load(low.source, low.symbol), pack, low)

    def tensor_map(self, m: Map, address: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
        to, rank = ctypes.create_string_buffer(128), len(extents)
        arrays = (ctypes.c_uint64 * rank)(*extents), (ctypes.c_uint64 * 4)(*strides), (ctypes.c_uint32 * rank)(*m.box)
        self.machine.simt_tensor_map(to, ctypes.c_void_p(address), m.item, rank, *arrays, m.swizzle, m.rounds)
        return to.raw

    def read_block(self, loaded: Any) -> tuple[int, int, int]:
        return loaded.low.block

    def launch(self, compiled: Any, grid: tuple[int, int, int], args: list, stream: Any = None) -> None:
        function, pack, low = compiled.loaded
        counts = grid[: 1 if low.programs_per_block > 1 else low.stays]
        packed = pack(*args) + struct.pack("i" * len(counts), *counts)
        self.start(function, low.blocks(grid, BLOCKS), compiled.launch_block, packed, low.dynamic_shared, low.ctas)

    def start(self, function: Any, grid: tuple, block: tuple, packed: bytes, shared: int = 0, cluster: int = 1) -> None:
        """Runs blocks of a function that `load` gave."""
        dims, seed = ctypes.c_uint * 3, self.chance.getrandbits(63)
        with self.lock:
            launch = self.machine.simt_launch
            size = ctypes.c_size_t(shared)
            wrong = launch(function, packed, dims(*grid), dims(*block), size, ctypes.c_ulong(seed), cluster)
        if wrong:
            raise BackendError(f"{wrong.decode()} (TINYTON_EMULATOR_SEED={self.seed})")

    def allocate(self, nbytes: int) -> Memory:
        return Memory(self, nbytes)

    def pointer(self, name: str, handle: Memory, dtype: Any, offset: int) -> int:
        return int(handle) + offset

    def borrow(self, span: np.ndarray) -> Memory:
        """A copy, as far from a multiple of 16 bytes as the memory of the array."""
        offset = span.ctypes.data % 16
        memory = Memory(self, span.nbytes + offset, offset)
        self.write(memory, span)
        return memory

    def give_back(self, handle: Memory, span: np.ndarray) -> None:
        self.read(handle, span)

    def write(self, handle: Memory, data: np.ndarray) -> None:
        ctypes.memmove(int(handle), np.ascontiguousarray(data).ctypes.data, data.nbytes)

    def read(self, handle: Memory, out: np.ndarray) -> None:
        ctypes.memmove(out.ctypes.data, int(handle), out.nbytes)

    def finish(self, stream: Any) -> None:
        """Launches are over when they return."""

    def synchronize(self) -> None:
        """Launches are over when they return."""


def register() -> None:
    """Makes "emulator" a name of an executor, which TINYTON_BACKEND may have, in this process."""
    if hasattr(real := backends.get, "emulates"):
        return
    own = cache(Executor)

    @wraps(real)
    def get(name: str) -> Any:
        return own() if name == "emulator" else real(name)

    get.emulates = True  # type: ignore[attr-defined]
    backends.get = get


class Memory:
    """Global memory, used from the byte ``offset`` on, that ends where nothing may be touched."""

    def __init__(self, executor: Executor, nbytes: int, offset: int = 0):
        self.executor, self.offset = executor, offset
        self.at = executor.machine.simt_allocate(ctypes.c_size_t(nbytes))
        if not self.at:
            raise BackendError(f"{nbytes} bytes cannot be allocated")

    def __int__(self) -> int:
        return self.at + self.offset

    def __del__(self) -> None:
        if getattr(self, "at", None):
            self.executor.machine.simt_free(ctypes.c_void_p(self.at))
