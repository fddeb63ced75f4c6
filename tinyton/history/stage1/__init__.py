"""tinyton, stage 1: a Python function becomes a GPU kernel, one thread an element.

>>> import numpy as np
>>> @jit
... def add(x, y, out, n):
...     i = program_id(0) * 64 + arange(0, 64)
...     store(out + i, load(x + i, mask=i < n) + load(y + i, mask=i < n), mask=i < n)
"""

from __future__ import annotations

__version__ = "0.1.0"

from .arrays import DeviceArray, empty, synchronize, to_device
from .dtypes import DType
from .errors import BackendError, KernelSyntaxError, KernelTypeError, KernelValueError, LaunchError, TinytonError
from .jit import JITFunction, jit
from .language import NAMES

globals().update(NAMES)
