"""Runs a script in a process of its own: for what could hang, kill the process, or depend on what is imported."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
PRELUDE = """
import os, sys, time
import numpy as np
import tinyton as tt

@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)

@tt.jit
def put(out, n, value, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, value, mask=i < n)
"""


def python(folder, script, *, timeout=60, prelude=PRELUDE, check=True, **environ):
    """The finished process (``.stdout``, ``.stderr``, ``.returncode``) of a script; a variable of None is unset.
    Its cache of kernels is in ``folder``. Fails after ``timeout`` seconds."""
    file = folder / "script.py"
    file.write_text(prelude + dedent(script), encoding="utf-8")
    variables = dict(os.environ)
    variables |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "TINYTON_CACHE_DIR": str(folder / "cache"),
    }
    if environ.get("TINYTON_BACKEND") == "opencl":
        variables["TINYTON_BUILD_OPTIONS"] = "-cl-opt-disable"
    variables |= environ
    done = subprocess.run(
        [sys.executable, str(file)],
        env={k: v for k, v in variables.items() if v is not None},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if check:
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
