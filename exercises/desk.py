"""The reader's side: checks in a notebook and of a saved one, hints one at a time, solutions, what has been passed."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stderr
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from .book import Exercise, every, find

LEVELS = {1: "easy", 2: "medium", 3: "hard"}


# -- progress ------------------------------------------------------------------------------------------


def _file() -> Path:
    """Where progress is kept; the folder TINYTON_PROGRESS, if that is set."""
    from platformdirs import user_data_path

    given = os.environ.get("TINYTON_PROGRESS")
    return (Path(given) if given else user_data_path("tinyton", False)) / "exercises.json"


def progress() -> dict[str, dict[str, Any]]:
    """By exercise: ``passed``, a date, and ``hints``, how many have been shown."""
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
        return {str(k): v for k, v in found.items() if isinstance(v, dict)}
    except (OSError, ValueError, AttributeError):
        return {}


def remember(number: str, **words: Any) -> None:
    """Notes something about an exercise; nothing at all: forgets it."""
    now = progress()
    now[number] = now.get(number, {}) | words
    if not words:
        del now[number]
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        temporary = _file().with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(now, indent=1, sort_keys=True), encoding="utf-8")
        temporary.replace(_file())
    except OSError as error:
        print(f"exercises: progress is not kept ({error})", file=sys.stderr)


def following(after: str = "") -> Exercise | None:
    """The first exercise that has not been passed, of those behind ``after`` if there is one among them."""
    done, all_of_them = progress(), every()
    start = next((k for k, one in enumerate(all_of_them) if one.number == after), 0)
    left = (one for one in all_of_them[start:] + all_of_them[:start] if "passed" not in done.get(one.number, {}))
    return next(left, None)


# -- what is said --------------------------------------------------------------------------------------


terminal = False  # whether the reader is in one, and not in a notebook


def ask(command: str, number: str, anyway: bool = False) -> str:
    """What a reader has to say for a hint or a solution."""
    if terminal:
        return f"python -m exercises {command} {number}" + " --anyway" * anyway
    return f'{command}("{number}"' + ", anyway=True" * anyway + ")"


@dataclass(frozen=True)
class Result:
    """Of a check; it shows itself."""

    exercise: Exercise
    reason: str

    @property
    def passed(self) -> bool:
        return not self.reason

    def __repr__(self) -> str:
        number, hints = self.exercise.number, progress().get(self.exercise.number, {}).get("hints", 0)
        if self.passed:
            after = following(number)
            on = f"Next: {after.number} {after.title} ({after.notebook.name})" if after else "That was the last one."
            return f"{number} passed. Ours: {ask('solution', number)}. {on}"
        more = f"{ask('hint', number)} shows hint {hints + 1} of 3." if hints < 3 else f"Or: {ask('solution', number)}."
        return f"{number} not yet: {self.reason}\n{more}"


def check(number: str, *answer: object) -> Result:
    """Checks what a cell has defined: ``check("5.2", my_kernel)``. It trusts the notebook it is in; for a verdict from
    outside: ``python -m exercises grade``."""
    from .referee import judge_objects

    exercise = find(number)
    with redirect_stderr(sys.stdout):  # nbgrader gives nothing to a cell that says something there
        return noted(exercise, judge_objects(exercise, answer, seed=0))


def check_saved(exercise: Exercise) -> Result:
    """Checks the answer in the saved notebook of this folder."""
    from . import grade

    text, reason = grade._answer(exercise.notebook, exercise)
    return noted(exercise, reason or grade.verdict(exercise, text, seed=0).reason)


def noted(exercise: Exercise, reason: str) -> Result:
    if not reason:
        remember(exercise.number, passed=date.today().isoformat())
    return Result(exercise, reason)


class Text(str):
    """Words that a notebook shows as they are."""

    def __repr__(self) -> str:
        return str(self)


def hint(number: str) -> Text:
    """The next of three hints, and those before it."""
    exercise = find(number)
    shown = min(3, progress().get(exercise.number, {}).get("hints", 0) + 1)
    remember(exercise.number, hints=shown)
    lines = [f"{k} of 3: {text}" for k, text in enumerate(exercise.check.hints[:shown], 1)]
    last = f"That was the last hint. {ask('solution', exercise.number)} shows ours."
    return Text("\n".join(lines + [last] * (shown == 3)))


def solution(number: str, anyway: bool = False) -> Text:
    """Our answer: after yours has passed, after the last hint, or ``anyway``."""
    exercise = find(number)
    known = progress().get(exercise.number, {})
    if not (anyway or "passed" in known or known.get("hints", 0) >= 3):
        left = 3 - known.get("hints", 0)
        what = f"You have not passed {exercise.number} yet, and there {'is' if left == 1 else 'are'} {left} "
        what += f"hint{'s' * (left > 1)} left."
        return Text(f"{what} To see ours now: {ask('solution', exercise.number, anyway=True)}")
    return Text(exercise.shown)
