"""Runs the suites of operations on a GPU under each tool of compute-sanitizer: out-of-bounds accesses, races in shared
memory, uninitialised reads, wrong barriers.

    python tools/sanitize.py [tests ...] [--tools memcheck,racecheck]
"""

from __future__ import annotations

import argparse
import subprocess
import sys

TOOLS = "memcheck,racecheck,initcheck,synccheck"
SUITES = ["ops", "reductions", "memory", "shapes", "atomic", "math", "control", "order"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tests", nargs="*", default=[f"tests/test_{name}.py" for name in SUITES])
    parser.add_argument("--tools", default=TOOLS)
    options, more = parser.parse_known_args()
    failed = []
    for tool in options.tools.split(","):
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "86", "--target-processes", "all"]
        command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "cuda", *more, *options.tests]
        print(f"== {tool}", flush=True)
        failed += [tool] * (subprocess.run(command).returncode != 0)
    print("compute-sanitizer:", f"findings of {', '.join(failed)}" if failed else "clean")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
