"""``python -m exercises`` list, next, check, hint, solution, reset; grade, nbgrader for teachers; build for authors."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tinyton.__main__ import until_closed

from . import desk
from .book import cells, chapter, every, exercises, printable, select, stems


def listed() -> None:
    done = desk.progress()
    for stem in stems():
        title = cells(stem)[0].text.partition("\n")[0].lstrip("# ")
        print(f"\n{title}  (exercises/{stem}.ipynb)")
        for one in exercises(stem):
            known = done.get(one.number, {})
            mark = "passed" if "passed" in known else f"{known['hints']} hints" if known.get("hints") else ""
            print(f"  {one.number:5} {one.title:44} {desk.LEVELS[one.check.points]:7} {mark}")
    total = [one.number for one in every()]
    print(f"\n{sum('passed' in done.get(n, {}) for n in total)} of {len(total)} passed")


def graded(args: argparse.Namespace) -> int:
    from . import grade

    wanted = [one for word in args.only or ["all"] for one in select(word)]
    reports = []
    for report in grade.grade(args.paths, wanted, args.seed, args.jobs):
        reports.append(report)
        print(printable(f"{report.name}: {report.score} of {report.points}"), flush=True)
        for v in report.verdicts:
            print(
                f"  {v.exercise.number:5} {v.score} of {v.exercise.check.points}  {v.reason.split(chr(10))[0]}".rstrip()
            )
    if args.json:
        one_by_one = {report.name: grade.gradescope(report) for report in reports}
        found = next(iter(one_by_one.values())) if len(reports) == 1 else one_by_one
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if args.junit:
        grade.junit(reports).write(args.junit, encoding="utf-8", xml_declaration=True)
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m exercises", description="the exercises of the book")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="all exercises, and what you have passed")
    commands.add_parser("next", help="the first that you have not passed")
    for name, words in {
        "check": "check your saved answers",
        "hint": "the next hint of three",
        "solution": "our answer",
        "reset": "put the empty cells back, and forget what was passed",
    }.items():
        command = commands.add_parser(name, help=words)
        whole = name in ("check", "reset")
        command.add_argument("number", help="5.2, or 5 for all of a chapter" if whole else "5.2")
        if name == "solution":
            command.add_argument("--anyway", action="store_true", help="before it is passed")
    command = commands.add_parser("grade", help="judge submissions: folders with notebooks, or notebooks")
    command.add_argument("paths", nargs="+", type=Path)
    command.add_argument("--only", action="append", metavar="N", help="5.2 or 5; several times for several")
    command.add_argument("--json", type=Path, help="results as Gradescope reads them; of several, by submission")
    command.add_argument("--junit", type=Path, help="results as JUnit's XML")
    command.add_argument("--seed", type=int, help="of the random inputs; another one each time without")
    command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="answers judged at a time")
    command = commands.add_parser("build", help="write the notebooks from sources/")
    command.add_argument("--check", action="store_true", help="only say which are not what sources/ makes")
    command = commands.add_parser("nbgrader", help="write a course for nbgrader")
    command.add_argument("folder", type=Path)
    command.add_argument("chapters", nargs="*", metavar="N", help="5, P1; all without")
    args = parser.parse_args(argv)
    desk.terminal = True
    try:
        return _run(args)
    except LookupError as error:
        print(f"error: {error.args[0]}", file=sys.stderr)
        return 2
    finally:
        desk.terminal = False


def _run(args: argparse.Namespace) -> int:
    match args.command:
        case "list":
            listed()
        case "next":
            one = desk.following()
            print(f"{one.number} {one.title}: exercises/{one.notebook.name}" if one else "You have passed them all.")
        case "check":
            passed = True
            for one in select(args.number):
                result = desk.check_saved(one)
                print(result, flush=True)
                passed &= result.passed
            return 0 if passed else 1
        case "hint":
            print(desk.hint(args.number))
        case "solution":
            print(desk.solution(args.number, args.anyway))
        case "reset":
            from . import press

            for one in select(args.number):
                press.reset(one)
                desk.remember(one.number)
                print(f"{one.number}: the empty cell is back in exercises/{one.notebook.name}")
        case "grade":
            return graded(args)
        case "build":
            from . import press

            return press.build(args.check)
        case "nbgrader":
            from . import press

            wanted = [stem for stem in stems() if not args.chapters or chapter(stem) in map(str.upper, args.chapters)]
            press.course(args.folder, wanted)
            print(f"wrote {args.folder}: see 'Teaching with this book' for what to do with it")
    return 0


if __name__ == "__main__":
    sys.exit(until_closed(main))
