"""tinyton.tile: kernels about arrays and tile indices, with the names of NVIDIA's cuTile.

>>> import numpy as np, tinyton.tile as ct
>>> @ct.kernel
... def add(x, y, out, TILE: ct.Constant[int]):
...     i = ct.bid(0)
...     ct.store(out, index=i, tile=ct.load(x, index=i, shape=TILE) + ct.load(y, index=i, shape=TILE))
>>> a = np.arange(100, dtype=np.float32)
>>> c = np.zeros_like(a)
>>> ct.launch(None, (ct.cdiv(100, 64),), add, (a, a, c, 64))
>>> float(c[99])
198.0
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(m.name for m in iter_modules(__path__)):
    import_module(f".{_module}", __name__)

from .absent import missing as __getattr__  # noqa: E402, F401
from .language import NAMES  # noqa: E402

globals().update(NAMES)
__all__ = list(NAMES)
