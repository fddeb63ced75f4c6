"""The stamp beside measured numbers, on executors that say much or little about their device."""

import importlib.metadata
import re
import socket
import types

import pytest

from tinyton import backends
from tinyton.env import Env, env, stamp

H200 = {
    "device": "NVIDIA H200",
    "capability": "9.0",
    "driver": "580.95.05",
    "runtime": "13.0",
    "compiler": "nvcc 13.0.88",
    "sm_count": 132,
}
POCL = {"device": "pthread-AMD EPYC", "compiler": "PoCL 3.0", "driver": "3.0", "runtime": None}


@pytest.fixture
def on(monkeypatch):
    """Make an executor of this name and these words the current one."""

    def use(name, info):
        backend = types.SimpleNamespace(name=name, device_info=lambda: info)
        monkeypatch.setattr(backends, "current", lambda: backend, raising=False)

    return use


def test_on_a_gpu(on):
    on("cuda", H200)
    e = env()
    assert (e.device, e.capability, e.driver, e.cuda) == ("NVIDIA H200", "9.0", "580.95.05", "13.0")
    assert (e.compiler, e.executor, e.mode) == ("nvcc 13.0.88", "cuda", "gpu")
    assert stamp() == f"NVIDIA H200, driver 580.95.05, CUDA 13.0, {e.date}"


def test_on_a_cpu(on):
    on("opencl", POCL)
    e = env()
    assert (e.capability, e.cuda, e.executor, e.mode) == ("none", "none", "opencl", "cpu")
    assert stamp() == f"pthread-AMD EPYC, PoCL 3.0, NumPy {e.numpy}, {e.date}"


def test_on_an_executor_that_says_nothing(on):
    on("interpreter", {})
    e = env()
    assert (e.device, e.driver, e.compiler, e.mode) == ("none", "none", "none", "cpu")
    assert stamp() == f"NumPy {e.numpy}, {e.date}"


def test_it_reads_as_a_table_of_names_and_values(on):
    on("cuda", H200)
    lines = repr(env()).split("\n")
    assert lines[0] == "device      NVIDIA H200" and lines[1] == "capability  9.0"
    assert [line.split()[0] for line in lines] == list(Env.__dataclass_fields__)
    assert not hasattr(Env, "_repr_html_")


def test_versions_and_date(on):
    on("interpreter", {})
    e = env()
    assert e.numpy == importlib.metadata.version("numpy")
    assert re.fullmatch(r"3\.\d+\.\d+\S*", e.python) and re.fullmatch(r"\d{4}-\d\d-\d\d", e.date)
    assert re.match(r"\d+\.\d+", e.tinyton)


def test_this_machine_names_no_host_and_no_path():
    text = repr(env())
    assert not re.search(r"(^|\s)/\w", text) and "\\" not in text
    assert socket.gethostname() not in text.split()
    assert env() == env()
