"""Verdicts from outside: each answer of a submission is judged by a process of its own, with a limit of time."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .book import Exercise, printable, stems

LIMIT = 1 << 26  # bytes of a notebook


@dataclass(frozen=True)
class Verdict:
    """Of one answer. ``reason``: what is wrong; nothing if it passed. ``seed`` made the numbers it was tried on."""

    exercise: Exercise
    reason: str
    seconds: float
    seed: int

    @property
    def passed(self) -> bool:
        return not self.reason

    @property
    def score(self) -> int:
        return self.exercise.check.points if self.passed else 0


def answers(path: Path) -> dict[str, str]:
    """The answers' cells in a notebook, by exercise: those that begin with ``# exercise 5.2``, the last of each.
    ValueError if it is no notebook."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LIMIT:
        raise ValueError("it is not a file, or larger than any notebook of exercises")
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("it is not a notebook that can be read") from None
    heads = ((re.match(r"\s*# exercise (\S+)", text), text) for text in texts)
    return {head[1].upper(): text for head, text in heads if head}


def notebooks(place: Path) -> dict[str, Path]:
    """The notebooks of a submission by the name of the source they belong to; ``place`` is one, or a folder."""
    known = set(stems())
    found = [place] if place.is_file() else sorted(place.rglob("*.ipynb"))
    return {path.stem: path for path in found if path.stem in known and ".ipynb_checkpoints" not in path.parts}


def verdict(exercise: Exercise, text: str, seed: int | None = None) -> Verdict:
    """Judges the text of an answer. Whatever it does, this returns."""
    seed = secrets.randbelow(1 << 30) if seed is None else seed
    start = time.perf_counter()
    reason = _referee({"number": exercise.number, "text": text, "seed": seed}, exercise.check.seconds)
    return Verdict(exercise, reason, time.perf_counter() - start, seed)


def _referee(job: dict[str, Any], seconds: int) -> str:
    process = subprocess.Popen(
        [sys.executable, "-m", "exercises.referee"],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(json.dumps(job).encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"it was not done after {seconds} seconds: is there a loop that does not end?"
    finally:
        _end(process)
    try:
        reason = json.loads(out)["reason"]
        return printable(reason) if isinstance(reason, str) else "there is no verdict: what came is garbled"
    except (ValueError, TypeError, KeyError):
        return f"there is no verdict: the judging process died (exit status {process.returncode})"


def _end(process: subprocess.Popen) -> None:
    """Ends a process, and those that it started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()


@dataclass(frozen=True)
class Report:
    """Of one submission."""

    name: str
    verdicts: list[Verdict]

    @property
    def score(self) -> int:
        return sum(v.score for v in self.verdicts)

    @property
    def points(self) -> int:
        return sum(v.exercise.check.points for v in self.verdicts)


def grade(places: Iterable[Path], wanted: list[Exercise], seed: int | None = None, jobs: int = 1) -> Iterator[Report]:
    """A report for each submission: a folder, or a notebook. What is missing or cannot be read scores 0."""
    with ThreadPoolExecutor(jobs) as pool:
        for place in places:
            work = [(one, *_answer(place, one)) for one in wanted]
            tasks = [pool.submit(_one, one, text, reason, seed) for one, text, reason in work]
            yield Report(str(place), [task.result() for task in tasks])


def _answer(place: Path, exercise: Exercise) -> tuple[str, str]:
    """The text of an answer, or the reason why there is none."""
    try:
        path = notebooks(place).get(exercise.stem)
        if path is None:
            return "", f"there is no {exercise.stem}.ipynb"
        text = answers(path).get(exercise.number, "")
        return text, "" if text else f"no cell begins with # exercise {exercise.number}"
    except (OSError, ValueError) as error:
        return "", printable(f"{exercise.stem}.ipynb: {error}")


def _one(exercise: Exercise, text: str, reason: str, seed: int | None) -> Verdict:
    if reason:
        return Verdict(exercise, reason, 0.0, 0)
    try:
        return verdict(exercise, text, seed)
    except Exception as error:  # this submission's, not the batch's
        return Verdict(exercise, printable(f"there is no verdict: {type(error).__name__}: {error}"), 0.0, 0)


# -- files ---------------------------------------------------------------------------------------------


def gradescope(report: Report) -> dict[str, Any]:
    """A submission's results as Gradescope reads them from ``results/results.json``."""
    tests = [
        {
            "number": v.exercise.number,
            "name": f"{v.exercise.number} {v.exercise.title}",
            "score": v.score,
            "max_score": v.exercise.check.points,
            "status": "passed" if v.passed else "failed",
            "output": v.reason or "passed",
            "extra_data": {"seed": v.seed, "seconds": round(v.seconds, 2)},
        }
        for v in report.verdicts
    ]
    return {"score": report.score, "execution_time": round(sum(v.seconds for v in report.verdicts)), "tests": tests}


def junit(reports: list[Report]) -> ET.ElementTree:
    """All results as JUnit's XML: a suite a submission, a case an exercise."""
    root = ET.Element("testsuites")
    for report in reports:
        failed = sum(not v.passed for v in report.verdicts)
        numbers = {"tests": str(len(report.verdicts)), "failures": str(failed), "errors": "0"}
        suite = ET.SubElement(root, "testsuite", name=printable(report.name), **numbers)
        for v in report.verdicts:
            name = f"{v.exercise.number} {v.exercise.title}"
            case = ET.SubElement(suite, "testcase", classname=v.exercise.stem, name=name, time=f"{v.seconds:.2f}")
            if not v.passed:
                failure = ET.SubElement(case, "failure", message=v.reason.split("\n")[0])
                failure.text = v.reason
    ET.indent(root)
    return ET.ElementTree(root)
