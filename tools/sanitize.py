"""Runs the suites of operations on a GPU under the tools of compute-sanitizer: out-of-bounds accesses, races in shared
memory, uninitialised reads, wrong barriers.

    python tools/sanitize.py [tests ...] [--tools memcheck,racecheck] [options of pytest, for instance -n 8]

The tests run once without a tool (with those options), so that no compiler runs under one, and then under all tools at
a time, each in one process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

TOOLS = "memcheck,racecheck,initcheck,synccheck"
SUITES = ["shapes", "reductions", "atomic", "order", "control", "tiny_ton", "everyday", "memory", "ops"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tests", nargs="*", default=[f"tests/test_{name}.py" for name in SUITES])
    parser.add_argument("--tools", default=TOOLS)
    options, more = parser.parse_known_args()
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "cuda", *options.tests]
    with tempfile.TemporaryDirectory() as cache:
        environ = dict(os.environ, TINYTON_CACHE_DIR=cache)
        if subprocess.run([*tests, *more], env=environ).returncode:
            return 1
        running = {}
        for tool in options.tools.split(","):
            watch = ["compute-sanitizer", "--tool", tool, "--target-processes", "application-only"]
            log = tempfile.TemporaryFile("w+")
            process = subprocess.Popen([*watch, "--error-exitcode", "86", *tests], env=environ, stdout=log, stderr=log)
            running[tool] = log, process
        failed = [tool for tool, (_, process) in running.items() if process.wait()]
    for tool, (log, _) in running.items():
        log.seek(0)
        print(f"== {tool}\n{log.read()}")
    print("compute-sanitizer:", f"findings of {', '.join(failed)}" if failed else "clean")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
