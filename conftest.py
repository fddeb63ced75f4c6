"""What every pytest run shares; what the tests alone share is in tests/conftest.py."""

import os
import tempfile

import pytest

collect_ignore_glob = ["tinyton/history/*", "book/*", "_build/*"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each notebook an empty kernel cache, so that the compiles a chapter counts are always the same."""
    if getattr(item.parent, "kernel", item) is None:  # an nbval notebook whose kernel is about to start
        cache = tempfile.TemporaryDirectory(prefix="tinyton-")
        item.config.add_cleanup(cache.cleanup)
        os.environ["TINYTON_CACHE_DIR"] = cache.name
