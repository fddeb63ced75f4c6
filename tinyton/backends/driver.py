"""The CUDA driver itself, for what PyCUDA has no words for."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from ..errors import LaunchError


@cache
def library() -> ctypes.CDLL:
    """The driver's library; an OSError where there is none."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def ask(function: str, *args: Any) -> None:
    """Calls a function of the driver; a LaunchError if it gives one."""
    if error := getattr(library(), function)(*args):
        hint = "; is the stream of this device?" if "Stream" in function else ""
        raise LaunchError(f"the CUDA driver refused {function}: error {error}{hint}")
