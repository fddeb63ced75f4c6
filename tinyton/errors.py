"""What can go wrong, in the user's terms: a class a kind of mistake, and a caret under the user's own line."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple


class Loc(NamedTuple):
    """A span of the user's source: kernel name, first line, columns of the span (0-based), and the text of that
    line; in a function that a kernel calls, where it is called."""

    kernel: str
    line: int
    column: int
    end: int
    text: str
    caller: Loc | None = None

    @property
    def kind(self) -> str:
        return "kernel" if self.caller is None else "function"

    def shown(self) -> str:
        """Place and caret, then the calls that led there; of many, the first and the last."""
        places, at = [], self
        while at is not None:
            places.append(f"{at.kind} {at.kernel}, line {at.line}:\n{at.caret()}")
            at = at.caller  # type: ignore[assignment]
        if len(places) > 8:
            places[4:-4] = [f"{len(places) - 8} more calls"]
        return "\ncalled from ".join(places)

    def caret(self) -> str:
        """The source line with ``^`` under the span; a wide character takes two columns, as it does in a terminal."""
        code = self.text.lstrip()
        cut = len(self.text) - len(code)
        start, end = self.column - cut, max(self.end, self.column + 1) - cut
        before, under = code[:start], code[start:end]
        return f"    {code.rstrip()}\n    {' ' * _width(before)}{'^' * max(1, _width(under))}"


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class TinytonError(Exception):
    """Base of every error that tinyton raises. ``.message`` is what is wrong; ``.loc`` where, if it is in a kernel."""

    def __init__(self, message: str, loc: Loc | None = None, argument: str | None = None):
        self.message, self.loc, self.argument = message, loc, argument
        super().__init__(message)

    def __str__(self) -> str:
        if self.loc is None:
            return self.message
        return f"{self.loc.shown()}\n{self.message}"

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.loc, self.argument)

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message alone, without the frames of the compiler."""
        return [f"{type(self).__name__}: {self}"]


class KernelSyntaxError(TinytonError):
    """Python that a kernel cannot say."""


class KernelTypeError(TinytonError):
    """An operation on types or shapes that it does not take."""


class KernelValueError(TinytonError):
    """A compile-time value that is out of what is allowed."""


class StaticAssertionError(KernelValueError):
    """A ``static_assert`` of a kernel does not hold."""


# >>> stage 6
class StaticEvalError(KernelValueError):
    """What a kernel computes when it is compiled has failed."""


class RecursiveCallError(KernelSyntaxError):
    """A function calls itself without end while the kernel is compiled."""


class UnsupportedFeatureError(KernelTypeError):
    """What no device of this build has: the message says what to write instead."""


class InternalError(TinytonError):
    """A fault of the compiler, never of the user."""


# <<<
class LaunchError(TinytonError):
    """A launch that cannot be: grid, thread count, arguments, or a kernel that does not fit the device."""


class BackendError(TinytonError):
    """An executor that is absent or failed: the device, its driver, or its compiler."""


# >>> stage 6
class CompilerTimeoutError(BackendError):
    """A kernel took longer to compile than ``ct.compiler_timeout`` allows."""


# <<<
class OutOfBoundsError(TinytonError):
    """The interpreter saw an access outside the array: the program, the line and the element are named."""


class RaceError(TinytonError):
    """The interpreter saw programs of one launch get in each other's way: what comes out depends on their order."""


class UninitialisedError(TinytonError):
    """The interpreter saw a read of memory that nothing has written."""


class HintError(TinytonError):
    """The interpreter saw an element that breaks what ``tt.multiple_of``, ``tt.assume`` or the like has promised."""


class DeviceAssertError(TinytonError):
    """A ``tt.device_assert`` of a kernel has failed: its message, the program, the line and the element are named."""


class CacheWarning(UserWarning):
    """The kernel cache on disk cannot be used; kernels are kept in memory only."""


class LintWarning(UserWarning):
    """A kernel is legal but gives what is hardly meant; ``tt.lint`` lists the rules. ``# lint: ok`` on the line turns
    it off, and Python's own ``warnings.filterwarnings`` does for all."""
