"""With ``--cuda-text``, every kernel that a run compiles is written as CUDA too; at the end nvcc compiles all of it.

The threads are the test's, or a GPU's choice where the test has one thread a program. Many texts share one file, a
namespace each, since nvcc takes seconds to start. In the report such a file is a test: it passed if nvcc made machine
code of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = "TINYTON_CUDA_TEXTS"  # tells xdist's workers where to write
BATCH = 40


def pytest_addoption(parser):
    parser.addoption(
        "--cuda-text", action="store_true", help="compile the CUDA text of every kernel with nvcc at the end"
    )


def pytest_configure(config):
    if config.getoption("cuda_text") and not hasattr(config, "workerinput"):
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="cuda-text-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(FOLDER)))


@pytest.fixture(scope="session", autouse=True)
def cuda_texts():
    """Writes the CUDA text of each kernel that is lowered into the shared folder, under a digest of it."""
    if FOLDER not in os.environ:
        yield
        return
    from tinyton.codegen.dialect import CUDA, launch_bounds
    from tinyton.passes.threads import choose_threads

    jit = import_module("tinyton.jit")
    lower = jit.lower

    def record(kernel, spec, threads, dialect, *more, **words):
        low = lower(kernel, spec, threads, dialect, *more, **words)
        many = threads if threads > 1 else choose_threads(kernel)
        write(lower(kernel, spec, many, CUDA.on((9, 0)), launch_bounds, *more[1:], **words).located)
        return low

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "lower", record)
        yield


def write(text):
    digest = hashlib.sha256(re.sub(r"(?m)^#line .*\n", "", text).encode()).hexdigest()[:20]
    path = Path(os.environ[FOLDER]) / f"{digest}.cu"
    if not path.exists():
        path.write_text(text, encoding="utf-8")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    config = session.config
    if FOLDER not in os.environ or hasattr(config, "workerinput"):
        return
    files = sorted(Path(os.environ[FOLDER]).glob("*.cu"))
    for batch, outcome, told, seconds in compile_all(files):
        report = pytest.TestReport(
            f"tests/cuda_text.py::{len(batch)} kernels from {batch[0].stem}",
            ("tests/cuda_text.py", 0, "nvcc"),
            {},
            outcome,
            ("tests/cuda_text.py", 0, told) if outcome == "skipped" else told,
            "call",
            duration=seconds,
        )
        config.hook.pytest_runtest_logreport(report=report)
        if outcome == "failed":
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    config.cuda_texts = len(files)


def pytest_terminal_summary(terminalreporter, config):
    if hasattr(config, "cuda_texts"):
        terminalreporter.write_line(f"CUDA text: {config.cuda_texts} kernels went to nvcc")


def compile_all(files):
    """Compiles files in batches, one a core at a time; gives (files, outcome, what nvcc said, seconds) for each."""
    from tinyton.backends import nvcc

    if files and nvcc.find("nvcc") is None:
        return [(files, "skipped", "nvcc is not installed: pip install 'tinyton[nvcc]'", 0.0)]

    def compile_one(batch):
        from tinyton.backends.cuda import FLAGS
        from tinyton.errors import BackendError

        start = time.perf_counter()
        text = "\n".join(alone(f"k{k}", file.read_text(encoding="utf-8")) for k, file in enumerate(batch))
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "kernels.cu"
            source.write_text(text, encoding="utf-8")
            try:
                nvcc.run("nvcc", *FLAGS, "-cubin", "-arch=sm_90a", "-o", f"{folder}/kernels.cubin", str(source))
                return batch, "passed", "", time.perf_counter() - start
            except BackendError as error:
                return batch, "failed", str(error), time.perf_counter() - start

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, [files[k : k + BATCH] for k in range(0, len(files), BATCH)]))


def alone(name, text):
    """The text in a namespace, so that nothing in it meets what others define."""
    plain = text.replace('extern "C" ', "")
    return f"namespace {name} {{\n{plain}\n}}"
