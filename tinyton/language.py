"""What a kernel may say: a function a name, made from the entries in `ops/`, and the marks a user puts on
parameters."""

from __future__ import annotations

import inspect

# >>> stage 7
import sys
from types import ModuleType

# <<<
from . import dtypes, ops
from .errors import TinytonError
from .ops import Entry


class constexpr:
    """Annotates a kernel parameter whose value is fixed when the kernel is compiled: ``BLOCK: tt.constexpr``.

    The value (any hashable one) is baked into the code and into the key of the kernel; it is not passed at launch.
    ``tt.constexpr(5)`` is just 5.
    """

    def __new__(cls, value: object) -> object:  # type: ignore[misc]
        return value


class LanguageFunction:
    """A name of the kernel language, such as ``tt.load``: usable in kernels only, unless it has a meaning on the
    host."""

    def __init__(self, name: str, entry: Entry, module: str = "tt", decorator: str = "jit"):
        self.entry, self.module, self.decorator = entry, module, decorator
        self.host = entry.host  # what it means outside kernels, if anything
        self.__name__ = name
        self.__doc__ = inspect.getdoc(entry.rule)

    @property
    def __signature__(self) -> inspect.Signature:
        return self.entry.signature

    def __call__(self, *args: object, **kwargs: object) -> object:
        if self.host is None:
            where = f"call it in a function under @{self.module}.{self.decorator}"
            raise TinytonError(f"{self.module}.{self.__name__} is for kernels: {where}")
        return self.host(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.module}.{self.__name__}{self.__signature__}"


FUNCTIONS = {name: LanguageFunction(name, entry) for name, entry in ops.PUBLIC.items()}
DTYPES = {("bool_" if d is dtypes.bool_ else d.name): d for d in dtypes.ALL} | {"int1": dtypes.bool_}
NAMES: dict[str, object] = FUNCTIONS | DTYPES | {"constexpr": constexpr}
# >>> stage 7


class PropagateNan:
    """For ``propagate_nan=``, in Triton's words."""

    NONE, ALL = False, True


def _module(name: str, **names: object) -> ModuleType:
    """A module of this one, to be imported or read as an attribute."""
    module = sys.modules[f"{__name__}.{name}"] = ModuleType(f"{__name__}.{name}")
    vars(module).update(names)
    return module


_MATH = {n: f for n, f in FUNCTIONS.items() if f.entry.rule.__module__.endswith((".math", ".functions"))}
_MATH |= {n: FUNCTIONS[n] for n in ("abs", "cdiv", "fma", "maximum", "minimum")}
math = _module("math", **_MATH)
_libdevice = _module("extra.libdevice", **_MATH)
extra = _module("extra", libdevice=_libdevice, cuda=_module("extra.cuda", libdevice=_libdevice))
NAMES |= {"PropagateNan": PropagateNan, "math": math, "extra": extra}
# <<<
globals().update(NAMES)
