"""``python -m tinyton doctor | tour | env``."""

from __future__ import annotations

import argparse
import sys

from .errors import TinytonError


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; for no command, or an unknown one, say which there are."""
    parser = argparse.ArgumentParser(prog="python -m tinyton", description="tinyton, a textbook you run")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("doctor", help="what this machine has to run kernels, and how to get what is missing")
    commands.add_parser("tour", help="one kernel end to end, in this terminal")
    commands.add_parser("env", help="the stamp that goes beside measured numbers")
    command = parser.parse_args(argv).command
    try:
        if command == "doctor":
            from .doctor import main as doctor

            return doctor()
        if command == "tour":
            from .tour import main as tour

            return tour() or 0
        from .env import env

        print(env())
        return 0
    except TinytonError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
