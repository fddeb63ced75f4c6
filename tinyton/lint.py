"""``tt.lint(kernel, grid, *args)``: what is legal in a launch but wrong, or a waste, each with the line it is in."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from math import prod
from typing import Any

from . import backends
from .backends import interpreter
from .backends.checks import Checks
from .errors import DeviceAssertError, OutOfBoundsError, RaceError, UninitialisedError
from .passes.lint import Finding
from .passes.lint import lint as lint_ir
from .replay import prepare

CHECKS = {RaceError: "race", OutOfBoundsError: "out-of-bounds", UninitialisedError: "uninitialised"}
CHECKS[DeviceAssertError] = "assert"
PROGRAMS = 1024  # that are run, at most


class Findings(list[Finding]):
    """A list of findings that prints as a report."""

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self)) or "nothing found"


def lint(
    kernel: Any, grid: Any, *args: object, ignore: Collection[str] = (), sm_count: int | None = None, **meta: Any
) -> Findings:
    """What is wrong with ``kernel[grid](*args, **meta)`` although it can be launched; nothing is launched, no argument
    is changed. Findings have ``.rule``, ``.message`` and ``.loc``, and print with a caret under the place:

    - ``fill-identity``: what a masked load puts where its mask is off changes the reduction that it gets into.
    - ``half-accumulator``: a sum is carried through a loop in float16 or bfloat16.
    - ``few-elements``: a program has fewer elements than threads (on a GPU; ``num_warps=`` counts).
    - ``small-grid``: fewer programs than ``sm_count``, by default the multiprocessors of the device in use.
    - ``race``: several programs store to one element, equal values or not, or one reads what another writes;
      ``out-of-bounds``, ``uninitialised``, ``assert``: the interpreter's other errors. Found by running the first 1024
      programs in the interpreter, over copies of the arguments; the first one ends that.

    ``ignore`` names rules to leave out. A comment ``# lint: ok``, or ``# lint: small-grid`` with the name of the rule,
    turns a finding off on its line. The first two are also warnings (`LintWarning`) when a kernel is compiled.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def greatest(x, out, n, BLOCK: tt.constexpr):
    ...     i = tt.arange(0, BLOCK)
    ...     tt.store(out, tt.max(tt.load(x + i, mask=i < n)))
    >>> x, out = -np.ones(100, np.float32), np.zeros(1, np.float32)
    >>> [f.rule for f in tt.lint(greatest, 1, x, out, 100, BLOCK=128, sm_count=132)]
    ['fill-identity', 'small-grid']
    """
    ir, low, cells, copies = prepare(kernel, grid, args, meta)
    top = kernel.source.loc(kernel.source.tree)
    found = Findings(lint_ir(ir, kernel.source.spelling))
    most = max((prod(v.type.shape) for op in ir.ops() for v in (*op.results, *op.operands)), default=1)
    if most < low.threads:
        text = (
            f"the largest tile of a program has {most} element{'s' * (most > 1)}, for {low.threads} threads: most "
            f"have nothing to do. Let a program cover more, or launch it with a smaller num_warps"
        )
        found.append(Finding("few-elements", text, top))
    programs, sms = prod(cells), backends.current().sm_count if sm_count is None else sm_count
    if 0 < programs < sms:
        text = (
            f"the grid has {programs} program{'s' * (programs > 1)}, for {sms} multiprocessors: the others have "
            f"nothing to do. Split the work into more and smaller programs"
        )
        found.append(Finding("small-grid", text, top))
    buffers = [x for x in copies if isinstance(x, interpreter.Buffer)]
    checks = Checks(buffers, low.stored, strict=True)
    try:
        some = islice(interpreter.programs(cells), PROGRAMS)
        interpreter.run(low.ir, copies, cells, some, checks=checks)
    except tuple(CHECKS) as error:
        found.append(Finding(CHECKS[type(error)], error.message, error.loc))
    return Findings(f for f in found if f.rule not in ignore and not f.off)
