"""Processors that are younger than the PoCL of PyPI."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

# What a processor has to be able to do for each of the names that PoCL's library of functions was compiled for.
PROCESSORS = {b"avx512f": b"skylake-avx512", b"avx2": b"haswell", b"sse2": b"x86-64"}


def rename_processor(device: Any, old: bytes = b"generic", new: bytes = b"") -> None:
    """PoCL 3.0 calls a processor that is younger than its LLVM, such as a Zen 4, "generic", a name that its compiler
    then refuses. The device gets the name of an older one, where it keeps it: a pointer to a string."""
    if device.platform.name != "Portable Computing Language" or sys.platform != "linux":
        return
    flags = Path("/proc/cpuinfo").read_bytes().split()
    new = new or next((name for flag, name in PROCESSORS.items() if flag in flags), old)
    with contextlib.suppress(OSError), open("/proc/self/mem", "rb", 0) as memory:  # where a wrong address is an error
        for i, at in enumerate(memoryview(os.pread(memory.fileno(), 4096, device.int_ptr)).cast("N")):
            with contextlib.suppress(OSError, OverflowError):
                if os.pread(memory.fileno(), len(old) + 1, at) == old + b"\0":
                    ctypes.c_char_p.from_address(device.int_ptr + 8 * i).value = new
