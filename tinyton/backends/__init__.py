"""Where kernels run: a CUDA device, an OpenCL driver, or the NumPy interpreter. TINYTON_BACKEND chooses."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from ..errors import BackendError

ORDER = ("cuda", "opencl", "interpreter")
_lock = threading.RLock()  # one executor a process, whichever threads ask first


@cache
def reason(name: str) -> str | None:
    """Why an executor cannot be used; None if it can. Looks once."""
    return import_module(f".{name}", __name__).unusable()


def available() -> dict[str, str | None]:
    """Every executor, with None if it can be used or the reason why not, in order of preference."""
    return {name: reason(name) for name in ORDER}


@cache
def get(name: str) -> Any:
    """The executor of this name; BackendError says why there is none and what to install."""
    if name not in ORDER:
        raise BackendError(f"there is no backend {name!r}; choose one of {', '.join(ORDER)}")
    if why := reason(name):
        raise BackendError(f"the {name} backend cannot be used: {why}")
    return import_module(f".{name}", __name__).Executor()


def current() -> Any:
    """The executor in use: the one that TINYTON_BACKEND names, else the first usable of cuda, opencl, interpreter."""
    chosen = os.environ.get("TINYTON_BACKEND", "").strip().lower()
    with _lock:
        return get(chosen) if chosen else _default()


@contextmanager
def use(name: str) -> Iterator[Any]:
    """The executor ``name`` is in use inside the ``with`` block, in all threads, as if TINYTON_BACKEND named it.

    >>> with use("interpreter") as executor:
    ...     current() is executor
    True
    """
    before = os.environ.get("TINYTON_BACKEND")
    executor = get(name)
    os.environ["TINYTON_BACKEND"] = name
    try:
        yield executor
    finally:
        del os.environ["TINYTON_BACKEND"]
        if before is not None:
            os.environ["TINYTON_BACKEND"] = before


@cache
def _default() -> Any:
    name = next(name for name in ORDER if reason(name) is None)
    if name != "cuda":
        print(f"tinyton: no CUDA device is used ({reason('cuda')}); kernels run on {name}.", file=sys.stderr)
    return get(name)
