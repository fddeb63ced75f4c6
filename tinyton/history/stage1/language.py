"""What a kernel may say: a function a name, made from the entries in `ops/`."""

from __future__ import annotations

import inspect

from . import dtypes, ops
from .errors import TinytonError
from .ops import Entry


class LanguageFunction:
    """A name of the kernel language, such as ``tt.load``: usable in kernels only."""

    module = "tt"

    def __init__(self, name: str, entry: Entry):
        self.entry = entry
        self.__name__ = name
        self.__doc__ = inspect.getdoc(entry.rule)

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise TinytonError(f"tt.{self.__name__} is for kernels: call it in a function under @tt.jit")


FUNCTIONS = {name: LanguageFunction(name, entry) for name, entry in ops.PUBLIC.items()}
DTYPES = {("bool_" if d is dtypes.bool_ else d.name): d for d in dtypes.ALL}
NAMES = FUNCTIONS | DTYPES
