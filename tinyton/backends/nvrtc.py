"""NVRTC, the compiler of CUDA C++ as a library: of the same source it makes the same PTX as nvcc, or nearly, in a tenth
of the time, as it starts no programs and reads no headers. ``TINYTON_COMPILER=nvrtc`` chooses it.

The library comes with the CUDA toolkit, and from PyPI as ``nvidia-cuda-nvrtc``, which torch brings along."""

from __future__ import annotations

import ctypes
import os
import re
from functools import cache
from pathlib import Path

from ..errors import BackendError
from . import nvcc

MISSING = (
    'libnvrtc is not found: it comes with the CUDA toolkit, and pip install "tinyton[nvrtc]" brings it without one'
)
DEFINED = ["-DNAN=__int_as_float(0x7fc00000)", "-DINFINITY=__int_as_float(0x7f800000)"]  # by nvcc's headers


def chosen() -> bool:
    """True if TINYTON_COMPILER asks for NVRTC; nvcc is the default."""
    word = os.environ.get("TINYTON_COMPILER", "").strip().lower() or "nvcc"
    if word not in ("nvcc", "nvrtc"):
        raise BackendError(f"TINYTON_COMPILER is {word!r}; the compilers are nvcc and nvrtc")
    return word == "nvrtc"


@cache
def find() -> Path | None:
    """The library's file: of a package from PyPI, else of the toolkit, the newest of its place."""
    places = nvcc.packaged("*/lib")
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    if compiler := nvcc.find("nvcc"):
        roots.append(str(Path(compiler).resolve().parents[1]))
    places += [Path(root) / lib for root in (*roots, "/usr/local/cuda") for lib in ("lib64", "lib")]
    places += [Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place]
    return next((f for place in places for f in sorted(place.glob("libnvrtc.so.[0-9]*"), reverse=True)), None)


def version() -> str:
    """Which NVRTC this is, as its files say without being loaded."""
    if not (file := find()):
        return "none"
    builtins = next(file.parent.glob("libnvrtc-builtins.so.*.*"), file)
    return f"nvrtc {re.sub(r'.*[.]so[.]', '', builtins.resolve().name)}"


@cache
def library() -> ctypes.CDLL:
    file = find()
    if file is None:
        raise BackendError(MISSING)
    try:
        for part in file.parent.glob("libnvrtc-builtins.so.*"):  # which it does not find by itself
            ctypes.CDLL(str(part))
        return ctypes.CDLL(str(file))
    except OSError as error:
        raise BackendError(f"libnvrtc cannot be loaded: {error}") from None


def to_ptx(source: str, arch: str, options: list[str], name: str) -> bytes:
    """PTX of CUDA C++; BackendError holds what is wrong with kernel ``name``."""
    lib, program = library(), ctypes.c_void_p()
    words = [w.encode() for w in (f"-arch={arch.replace('sm_', 'compute_')}", *DEFINED, *options)]
    lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)

    def text(what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        getattr(lib, f"nvrtcGet{what}")(program, out)
        return out.value

    try:
        if lib.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words)):
            raise BackendError(f"nvrtc refused kernel {name}:\n{text('ProgramLog').decode(errors='replace').strip()}")
        return text("PTX")
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))
