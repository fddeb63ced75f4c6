"""From a Python function to tile IR."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(m.name for m in iter_modules(__path__)):
    import_module(f".{_module}", __name__)

from .source import Source, capture  # noqa: E402
from .tracer import trace  # noqa: E402

__all__ = ["Source", "capture", "trace"]
