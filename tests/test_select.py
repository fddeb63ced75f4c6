"""Which executor runs, what is said about it, and what importing the package does."""

import sys

import numpy as np
import pytest
from processes import python

import tinyton as tt
from conftest import EXECUTORS

NOTICE = "tinyton: no CUDA device is used"
LAUNCH = """
out = np.zeros(4, np.float32)
for _ in range(3):
    put[1](out, 4, 2.0, BLOCK=4)
assert (out == 2).all()
print(tt.backends.current().name)
"""


def test_importing_needs_numpy_alone_and_touches_no_device(tmp_path):
    script = """
    import sys
    import numpy
    before = {name.partition(".")[0] for name in sys.modules}
    import tinyton as tt

    @tt.jit
    def k(x, BLOCK: tt.constexpr):
        tt.store(x + tt.arange(0, BLOCK), 1)

    after = {name.partition(".")[0] for name in sys.modules}
    print(sorted(after - before - set(sys.stdlib_module_names) - {"tinyton"}))
    import threading
    print(threading.active_count())
    """
    done = python(tmp_path, script, prelude="")
    assert done.stdout.split() == ["[]", "1"] and done.stderr == ""


def test_with_numpy_alone_installed(tmp_path):
    """Everything else is as if it were not there: the interpreter runs."""
    hidden = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in ("numpy", "tinyton"):
            raise ModuleNotFoundError(f"No module named {root!r}", name=root)
sys.meta_path.insert(0, Hide())
"""
    from processes import PRELUDE

    done = python(tmp_path, LAUNCH, prelude=hidden + PRELUDE, TINYTON_BACKEND=None)
    assert done.stdout.split() == ["interpreter"]
    assert done.stderr.count("\n") == 1 and "pip install" in done.stderr and "run on interpreter" in done.stderr


def test_the_default_says_once_what_it_is(tmp_path):
    done = python(tmp_path, LAUNCH, TINYTON_BACKEND=None)
    (name,) = done.stdout.split()
    assert name == EXECUTORS[0]
    if name == "cuda":
        assert done.stderr == ""
    else:
        assert done.stderr.startswith(NOTICE) and done.stderr.count("\n") == 1
        assert done.stderr.rstrip().endswith(f"kernels run on {name}.")
        assert tt.backends.reason("cuda") in done.stderr


def test_one_notice_for_many_threads(tmp_path):
    script = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: tt.backends.current(), range(16)))
    print(len(set(map(id, names))))
    """
    done = python(tmp_path, script, TINYTON_BACKEND=None)
    assert done.stdout.split() == ["1"]
    assert done.stderr.count("tinyton:") == (0 if EXECUTORS[0] == "cuda" else 1)


def test_no_notice_when_it_is_asked_for(executor, capfd):
    assert tt.backends.current().name == executor
    out = np.zeros(4, np.float32)
    k = tt.jit(put)
    k[1](out, 4, 2.0, BLOCK=4)
    assert (out == 2).all()
    assert capfd.readouterr() == ("", "")


def put(out, n, value, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, value, mask=i < n)


@pytest.mark.parametrize("spelling", [str.upper, str.title, lambda s: f" {s} "])
def test_the_name_is_read_kindly(executor, spelling, monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", spelling(executor))
    assert tt.backends.current().name == executor


@pytest.mark.parametrize("name", ["cpu", "gpu", "nvidia", "numpy"])
def test_an_unknown_name(name, monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", name)
    for call in (
        tt.backends.current,
        lambda: tt.zeros(3, tt.float32),
        lambda: tt.jit(put)[1](np.zeros(4), 4, 1.0, BLOCK=4),
    ):
        with pytest.raises(tt.BackendError, match=f"no backend '{name}'; choose one of cuda, opencl, interpreter") as e:
            call()
        assert e.value.__cause__ is None and (e.value.__context__ is None or e.value.__suppress_context__)


@pytest.mark.skipif("cuda" in EXECUTORS, reason="CUDA can be used here")
def test_cuda_without_a_gpu_says_why(monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "cuda")
    with pytest.raises(tt.BackendError) as e:
        tt.jit(put)[1](np.zeros(4), 4, 1.0, BLOCK=4)
    text = str(e.value)
    assert text.startswith("the cuda backend cannot be used: ")
    assert any(word in text for word in ("pip install", "driver", "no CUDA device")), text
    assert "/" not in text.replace("http://", "")


def missing(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.parametrize(
    "backend, module, words",
    [
        ("cuda", "pycuda.driver", ['pip install "tinyton[cuda]"', "doctor"]),
        ("opencl", "pyopencl", ['pip install "tinyton[opencl]"']),
    ],
)
def test_what_to_install(backend, module, words, monkeypatch):
    missing(module, monkeypatch)
    why = __import__(f"tinyton.backends.{backend}", fromlist=["unusable"]).unusable()
    assert all(word in why for word in words), why


@pytest.mark.skipif("opencl" not in EXECUTORS, reason="there is no PyOpenCL")
def test_opencl_without_a_driver(monkeypatch):
    import pyopencl as cl

    from tinyton.backends import opencl

    def no_platforms():
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    for platforms in (no_platforms, list):
        monkeypatch.setattr(cl, "get_platforms", platforms)
        assert "no OpenCL driver is installed; pip install" in opencl.unusable()


def test_available_lists_every_executor_with_its_reason():
    found = tt.backends.available()
    assert list(found) == ["cuda", "opencl", "interpreter"]
    assert found["interpreter"] is None
    assert all(why is None or (isinstance(why, str) and why) for why in found.values())
    assert EXECUTORS == [name for name, why in found.items() if why is None]


def test_a_kernel_follows_the_choice(monkeypatch):
    """The same kernel, launched on one backend and then on another, is compiled for each."""
    k = tt.jit(put)
    for _ in range(2):
        for name in EXECUTORS:
            monkeypatch.setenv("TINYTON_BACKEND", name)
            out = np.zeros(4, np.float32)
            k[1](out, 4, 2.0, BLOCK=4)
            assert (out == 2).all()
            assert k.compile(out, 4, 2.0, BLOCK=4).executor.name == name
    assert len(k._cache) == len(EXECUTORS)


@pytest.mark.skipif("opencl" not in EXECUTORS, reason="there is no OpenCL")
def test_what_the_compiler_says_is_passed_on_without_paths(monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "opencl")
    monkeypatch.setenv("TINYTON_BUILD_OPTIONS", "-no-such-option")
    with pytest.raises(tt.BackendError, match="the OpenCL compiler refused kernel put") as e:
        tt.jit(put)[1](np.zeros(4), 4, 1.0, BLOCK=4)
    assert e.value.__cause__ is None and (e.value.__context__ is None or e.value.__suppress_context__)
    assert "/tmp" not in str(e.value) and "site-packages" not in str(e.value)
