"""From a Python function to tile IR."""

from __future__ import annotations

from . import expressions, statements
from .source import Source, capture
from .tracer import trace
