"""tinyton: a tile-kernel compiler that a book builds, small enough to read whole.

>>> import numpy as np, tinyton as tt
>>> @tt.jit
... def add(x, y, out, n, BLOCK: tt.constexpr):
...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
...     tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)
>>> a = np.arange(100, dtype=np.float32)
>>> c = np.zeros_like(a)
>>> add[tt.cdiv(100, 64)](a, a, c, 100, BLOCK=64)
>>> float(c[99])
198.0
"""

from __future__ import annotations

__version__ = "0.1.0"

from . import arrays
from ._later import __getattr__
from .arrays import DeviceArray, empty, synchronize, to_device
from .dtypes import DType
from .errors import (
    BackendError,
    CacheWarning,
    HintError,
    KernelSyntaxError,
    KernelTypeError,
    KernelValueError,
    LaunchError,
    LintWarning,
    OutOfBoundsError,
    RaceError,
    TinytonError,
    UninitialisedError,
)
from .jit import CompiledKernel, JITFunction, jit
from .language import FUNCTIONS, NAMES
from .launch import LaunchConfig
from .layout import Layout, next_power_of_2

globals().update(NAMES)
# >>> stage 7
from .errors import DeviceAssertError  # noqa: E402
from .jit import heuristics  # noqa: E402

# <<<
# >>> stage 3
FUNCTIONS["zeros"].host = arrays.zeros  # in a kernel a tile, on the host an array
# <<<
# >>> stage 11
from typing import TYPE_CHECKING  # noqa: E402

if TYPE_CHECKING:  # read when they are first asked for: see _later.py
    from . import viz
    from .aot import compile
    from .bench import Timing, bench
    from .count import Count, count
    from .defend import defend, defended
    from .env import env
    from .graph import Graph, graph
    from .lint import lint
    from .raw import raw
    from .roofline import Roofline, roofline
    from .show import show
    from .sweep import load_table, save_table, sweep
    from .tune import Autotuner, Config, autotune, grid_search, pick_tile
    from .tuning import Trial, TuneWarning

# <<<
