"""Where kernels run: a CUDA device or an OpenCL driver. TINYTON_BACKEND chooses."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

from ..errors import BackendError

ORDER = ("cuda", "opencl")


@cache
def get(name: str) -> Any:
    """The executor of this name; BackendError says why there is none."""
    if name not in ORDER:
        raise BackendError(f"there is no backend {name!r} in this stage; choose one of {', '.join(ORDER)}")
    module = import_module(f".{name}", __name__)
    if why := module.unusable():
        raise BackendError(f"the {name} backend cannot be used: {why}")
    return module.Executor()


def current() -> Any:
    """The executor in use: the one that TINYTON_BACKEND names, else the first usable of cuda, opencl."""
    chosen = os.environ.get("TINYTON_BACKEND", "").strip().lower()
    return get(chosen) if chosen else _default()


@cache
def _default() -> Any:
    usable = [name for name in ORDER if import_module(f".{name}", __name__).unusable() is None]
    return get(usable[0] if usable else ORDER[-1])
