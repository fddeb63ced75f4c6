"""``tt.defend(name, value, sweep)``: a tuned number that stands beside the sweep that chose it, so that it can be asked
again whether it still holds. ``python -m tinyton defend`` asks all that a file or a notebook has."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import linecache
import runpy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import backends
from .env import env
from .errors import TinytonError

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


@dataclass(frozen=True)
class Claim:
    """A number, and how to measure whether it is still a good choice."""

    name: str
    value: Any
    sweep: Callable[[], Any]
    within: float
    on: str

    def measure(self) -> Verdict:
        times = _times(self.sweep())
        key = tuple(self.value.values()) if isinstance(self.value, Mapping) else self.value
        if key not in times:
            raise TinytonError(
                f"the sweep of {self.name!r} does not measure {key!r}; it has {', '.join(map(repr, times))}"
            )
        return Verdict(self, key, times)


@dataclass(frozen=True)
class Verdict:
    """What a sweep has said: the times of all values."""

    claim: Claim
    value: Any
    times: dict[Any, float]

    @property
    def best(self) -> Any:
        return min(self.times, key=self.times.__getitem__)

    @property
    def slower(self) -> float:
        """By how much the number is slower than the best: 0.1 is a tenth."""
        return self.times[self.value] / self.times[self.best] - 1

    @property
    def holds(self) -> bool:
        return self.slower <= self.claim.within

    def __repr__(self) -> str:
        claim, here, said = self.claim, env().device, "holds" if self.holds else "no longer holds"
        near = "the best" if self.best == self.value else f"{self.slower:.1%} slower than {self.best}, the best"
        text = f"{said}: {claim.name} = {claim.value}, {near} of {len(self.times)}; {claim.within:.1%} is allowed"
        return text + f" (chosen on {claim.on}; this is {here})" * bool(claim.on and claim.on != here)


CLAIMS: dict[str, Claim] = {}


def defend(name: str, value: T, sweep: Callable[[], Any], within: float = 0.03, on: str = "") -> T:
    """Gives ``value``, a tuned number, and remembers the sweep that chose it. `defended` and ``python -m tinyton
    defend`` run the sweep and say whether the number still holds: at most ``within`` slower than the best. ``on`` is
    the card that it was chosen on.

    ``sweep()`` measures, and returns a table of `sweep`, or a dictionary from values to times. It is not called before
    it is asked. If a table was swept over several names, ``value`` is a dictionary or a tuple of them. What is said
    last about a name counts.

    >>> import tinyton as tt
    >>> BLOCK = tt.defend("add, BLOCK", 1024, sweep=lambda: {256: 1.02e-3, 512: 1e-3, 1024: 1.01e-3}, within=0.03)
    >>> BLOCK
    1024
    """
    if not callable(sweep):
        raise TinytonError(f"the sweep of {name!r} is a function that measures when it is called, not {sweep!r}")
    CLAIMS[name] = Claim(name, value, sweep, within, on)
    return value


def defended(only: str | None = None) -> list[Verdict]:
    """Measures all numbers that are defended so far in this process; with ``only``, those whose name has that in it.

    >>> import tinyton as tt
    >>> BLOCK = tt.defend("scan, BLOCK", 64, sweep=lambda: {64: 2.0, 128: 1.5})
    >>> tt.defended("scan")[0].holds
    False
    """
    return [claim.measure() for claim in CLAIMS.values() if only is None or only in claim.name]


def _times(found: Any) -> dict[Any, float]:
    """A sweep's result as times by value."""
    if isinstance(found, Mapping):
        return {k: float(getattr(x, "seconds", x)) for k, x in found.items()}
    over = getattr(found, "attrs", {}).get("over")
    if not over or "time_us" not in found:
        raise TinytonError("a sweep that defends a number returns a table of tt.sweep, or a dictionary value: time")
    table: pd.DataFrame = found
    keys = table[over[0]].tolist() if len(over) == 1 else list(zip(*(table[n] for n in over), strict=True))
    return dict(zip(keys, table["time_us"].tolist(), strict=True))


# the command


def main(argv: list[str] | None = None) -> int:
    """Runs the sweeps of the tuned numbers that are defended in FILES (Python files, notebooks, names of modules; by
    default the compiler's own, and those of the notebooks in chapters/), and says which no longer hold here."""
    parser = argparse.ArgumentParser(prog="python -m tinyton defend", description=main.__doc__)
    parser.add_argument("files", nargs="*", metavar="FILES")
    parser.add_argument("--only", metavar="TEXT", help="numbers whose name has this in it")
    parser.add_argument("--list", action="store_true", help="say what is defended, and measure nothing")
    args = parser.parse_args(argv)
    if backends.current().name == "interpreter":
        raise TinytonError("the interpreter's times say nothing about a device: choose another TINYTON_BACKEND")
    _read(args.files or [f"{__package__}.measured", *_chapters()])
    claims = [claim for claim in CLAIMS.values() if args.only is None or args.only in claim.name]
    if not claims:
        print("nothing is defended there: see tt.defend")
        return 0
    print(f"on {env().stamp()}")
    failed = 0
    for claim in claims:
        if args.list:
            print(f"{claim.name} = {claim.value}, within {claim.within:.1%}{f', on {claim.on}' * bool(claim.on)}")
            continue
        verdict = claim.measure()
        print(verdict, flush=True)
        failed += not verdict.holds
    return 1 if failed else 0


def _chapters() -> list[str]:
    return [str(p) for p in sorted(Path("chapters").glob("*.ipynb")) if "defend(" in p.read_text(encoding="utf-8")]


def _read(files: Iterable[str]) -> None:
    """Runs what defines the claims, silently."""
    for file in files:
        path = Path(file)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                if path.suffix == ".ipynb":
                    _run_notebook(path)
                elif path.suffix == ".py":
                    runpy.run_path(str(path), run_name="defended")
                else:
                    import_module(file)
        except (OSError, ImportError) as error:
            raise TinytonError(f"{file} cannot be read: {error}") from None


def _run_notebook(path: Path) -> None:
    """Runs the code cells up to the last that defends a number; those that are meant to fail may."""
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    texts = ["".join(cell["source"]) for cell in cells]
    last = max((k for k, text in enumerate(texts) if "defend(" in text), default=-1)
    scope: dict[str, Any] = {"__name__": "defended"}
    for k, (cell, text) in enumerate(zip(cells[: last + 1], texts, strict=False)):
        file = f"<{path.name}, cell {k}>"
        text = "".join(line for line in text.splitlines(True) if not line.startswith(("%", "!")))
        linecache.cache[file] = len(text), None, text.splitlines(True), file  # where kernels find their source
        may_fail = "raises-exception" in cell["metadata"].get("tags", ())
        with contextlib.suppress(Exception if may_fail else ()):
            exec(compile(text, file, "exec"), scope)  # noqa: S102  (the reader's own notebook)
