"""Runs the suites of operations on a GPU under the tools of compute-sanitizer: out-of-bounds accesses, races in shared
memory, uninitialised reads, wrong barriers.

    python tools/sanitize.py [tests ...] [--tools memcheck,racecheck] [-n 4]

The tests run once without a tool, so that no compiler runs under one, and then under all tools at a time. They are
dealt out to ``-n`` processes a tool.
On an H200 with 16 cores it takes less than a minute, if the kernels are in the cache (TINYTON_CACHE_DIR).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOOLS = "memcheck,racecheck,initcheck,synccheck"
SUITES = ["shapes", "reductions", "atomic", "order", "control", "cluster", "tiny_ton", "everyday", "memory", "ops"]
SUITES += ["feed", "float8", "tensor", "tile_memory", "tile_atomic", "tile_ops", "tile_reductions", "tile_matmul"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "cuda and not emulator"]


def start(tests: list[str], processes: int, folder: Path, tool: str = "") -> list[tuple[Path, subprocess.Popen]]:
    """Processes that run the tests, each with the file that it writes to."""
    watch = ["compute-sanitizer", "--tool", tool, "--target-processes", "application-only", "--error-exitcode", "86"]
    environ, running = {"TINYTON_CACHE_DIR": str(folder / "cache"), **os.environ}, []
    for k in range(processes):
        names, log = folder / f"tests {k} of {processes}", folder / f"log {tool} {k}"
        names.write_text("\n".join(tests[k::processes]), encoding="utf-8")
        command = [*(watch if tool else []), *PYTEST, f"@{names}"]
        with log.open("w") as out:
            running.append((log, subprocess.Popen(command, env=environ, stdout=out, stderr=out)))
    return running


def finish(name: str, running: list[tuple[Path, subprocess.Popen]]) -> bool:
    """Whether all processes found nothing; prints what the others said, and how each ended."""
    codes = [process.wait() for _, process in running]
    for (log, _), code in zip(running, codes, strict=True):
        text = log.read_text(encoding="utf-8", errors="replace")
        print(f"== {name}\n{text}" if code else f"== {name}: " + ", ".join(text.strip().split("\n")[-2:]))
    return not any(codes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tests", nargs="*", default=[f"tests/test_{name}.py" for name in SUITES])
    parser.add_argument("--tools", default=TOOLS)
    parser.add_argument("-n", type=int, default=4, help="processes a tool (4)")
    options = parser.parse_args()
    tools = options.tools.split(",")
    found = subprocess.run([*PYTEST, "--collect-only", *options.tests], stdout=subprocess.PIPE, text=True).stdout
    tests = [line for line in found.split("\n") if "::" in line]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not tests or not finish("no tool", start(tests, options.n * len(tools), folder)):
            return 1
        running = {tool: start(tests, options.n, folder, tool) for tool in tools}
        failed = [tool for tool in tools if not finish(tool, running[tool])]
    print("compute-sanitizer:", f"findings of {', '.join(failed)}" if failed else f"clean over {len(tests)} tests")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
