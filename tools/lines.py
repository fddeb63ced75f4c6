"""Lines of code by room of the package, without blanks, comments and docstrings.

    python tools/lines.py             the package
    python tools/lines.py --stage 1   its snapshot after stage 1

``_later.py`` of a snapshot is a generated table and is not counted.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tinyton import stages  # noqa: E402

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count(text: str) -> int:
    """Lines of Python in ``text`` that hold code.

    >>> count('"Docstring."\\n\\n# comment\\nx = 1  # one\\n')
    1
    """
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node) is not None:
                held -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = text.split("\n")
    return sum(1 for number in held if lines[number - 1].strip())


def compiler(sources: dict[str, str]) -> dict[str, str]:
    """The files that belong to a stage: all but the tools that measure, draw and guide."""
    listed = {file for stage in stages.stages() for file in stage.files}
    return {path: text for path, text in sources.items() if path in listed}


def rooms(sources: dict[str, str]) -> Counter[str]:
    """Lines of code by room: a folder of the package, or a file at its top."""
    found: Counter[str] = Counter()
    for path, text in sources.items():
        if path.endswith(".py") and path != "_later.py":
            found[path.split("/")[0] + "/" * ("/" in path)] += count(text)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="lines of code by room, without blanks, comments and docstrings")
    parser.add_argument("--stage", type=int, metavar="N", help="count the snapshot after stage N")
    args = parser.parse_args()
    number = args.stage or stages.stages()[-1].number
    sources = stages.sources(number)
    found = rooms(sources)
    for room, lines in sorted(found.items()):
        print(f"{lines:6}  {room}")
    print(f"{found.total():6}  in all, {rooms(compiler(sources)).total()} without the tools")


if __name__ == "__main__":
    main()
