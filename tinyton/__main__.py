"""``python -m tinyton doctor | tour | env | tune | defend``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from importlib import import_module

from .errors import TinytonError

COMMANDS = {
    "doctor": "what this machine has to run kernels, and how to get what is missing",
    "tour": "one kernel end to end, in this terminal",
    "env": "the stamp that goes beside measured numbers",
    "tune": "what the tuner has found: list it, forget it, or measure it again",
    "defend": "measure again the tuned numbers that a file or a notebook defends",
}
WITH_ARGUMENTS = ("tune", "defend")


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; for no command, or an unknown one, say which there are."""
    parser = argparse.ArgumentParser(prog="python -m tinyton", description="tinyton, a textbook you run")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=name not in WITH_ARGUMENTS)
    known, rest = parser.parse_known_args(argv)
    if rest and known.command not in WITH_ARGUMENTS:
        parser.error(f"{known.command} takes no arguments, not {' '.join(rest)}")
    try:
        command = import_module(f".{known.command}", __package__).main
        return (command(rest) if known.command in WITH_ARGUMENTS else command()) or 0
    except TinytonError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1


def until_closed(run: Callable[[], int]) -> int:
    """What ``run`` returns, or 1 if whoever reads its output stops doing that, as ``head`` does."""
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return 1


if __name__ == "__main__":
    sys.exit(until_closed(main))
