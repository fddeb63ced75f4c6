"""What every pytest run shares; what the tests alone share is in tests/conftest.py."""

import os
import re
import tempfile
from pathlib import Path

import pytest

pytest_plugins = ["tests.cuda_text"]
# examples of the language are run by tests/test_reference.py, on each executor; cold starts are timed as processes
collect_ignore_glob = [
    "tests/bench/cold_*",
    "tinyton/history/*",
    "tinyton/ops/*",
    "tinyton/tile/*",
    "book/*",
    "_build/*",
]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each notebook an empty kernel cache, so that the compiles a chapter counts are always the same."""
    if getattr(item.parent, "kernel", item) is None:  # an nbval notebook whose kernel is about to start
        cache = tempfile.TemporaryDirectory(prefix="tinyton-")
        item.config.add_cleanup(cache.cleanup)
        os.environ["TINYTON_CACHE_DIR"] = cache.name


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stages")
    group.addoption("--impl", metavar="PACKAGE", help="run the suites of the stages on this importable package alone")
    group.addoption("--stage", type=int, metavar="N", help="run the suites of stages 1 to N only")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --impl, only the suites of the stages are about the package that is named. Answers to exercises are checked
    by ``-m ex5_2`` and the like, and then nothing else is; in their folder, a module holds all tests."""
    inside = collection_path.is_relative_to(config.rootpath)
    parts = collection_path.relative_to(config.rootpath).parts if inside else ()
    if bool(re.search(r"\bexP?\d", config.getoption("markexpr"))) != (parts[:1] == ("exercises",)):
        return True if parts else None
    if parts[:1] == ("exercises",):
        return True if len(parts) > 1 and parts[1] != "test_answers.py" else None
    suite = re.search(r"tests/stages/test_stage(\d+)\.py$", collection_path.as_posix())
    last = config.getoption("stage")
    if suite:
        return True if last and int(suite[1]) > last else None
    return True if config.getoption("impl") and not collection_path.is_dir() else None
