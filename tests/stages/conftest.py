"""Every snapshot N runs the suites of stages 1 … N, on every executor that it has.

``pytest tests --impl my_tinyton --stage 3`` runs the suites up to 3 on a package of the reader's instead.
"""

import importlib
import re

import pytest

from tinyton import backends, stages

NUMBERS = [s.number for s in stages.stages()]
USABLE = [name for name, why in backends.available().items() if why is None]


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "snapshots(*numbers): what a later stage replaces, tested in these snapshots only"
    )


def pytest_generate_tests(metafunc):
    """The implementations that a test gets as ``tt``: pairs of a snapshot (or the reader's package) and an executor."""
    if "tt" not in metafunc.fixturenames:
        return
    suite = int(re.search(r"test_stage(\d+)", metafunc.module.__name__)[1])
    impl, last = metafunc.config.getoption("impl"), metafunc.config.getoption("stage") or NUMBERS[-1]
    mark = metafunc.definition.get_closest_marker("snapshots")
    only = mark.args if mark else NUMBERS
    if impl:
        found = [impl] if suite <= last and last in only else []
    else:
        found = [n for n in NUMBERS if suite <= n <= last and n in only]
    pairs = [(x, name) for x in found for name in USABLE if name in executors(x)]
    metafunc.parametrize("tt", pairs, indirect=True, ids=[f"{x}-{name}" for x, name in pairs])


def executors(which):
    """The executors that an implementation has; the interpreter arrives at stage 2."""
    if isinstance(which, int):
        return USABLE if which > 1 else [name for name in USABLE if name != "interpreter"]
    return importlib.import_module(which).backends.ORDER


@pytest.fixture
def tt(request, monkeypatch):
    which, executor = request.param
    monkeypatch.setenv("TINYTON_BACKEND", executor)
    monkeypatch.setenv("TINYTON_BUILD_OPTIONS", "-cl-opt-disable" if executor == "opencl" else "")
    return stages.load(which) if isinstance(which, int) else importlib.import_module(which)
