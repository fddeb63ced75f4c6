"""NVRTC in place of nvcc: the same kernels compile, messages name their lines, and the cache tells the two apart."""

import re

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel, lowered
from tinyton import backends
from tinyton.backends import nvcc, nvrtc
from tinyton.errors import BackendError

FLAGS = ["-fmad=false", "-std=c++17"]
FUNCTIONS = "exp exp2 log log2 sin cos sqrt rsqrt erf tanh sigmoid floor ceil abs".split()
needs_nvrtc = pytest.mark.skipif(nvrtc.find() is None, reason=nvrtc.MISSING)
needs_nvcc = pytest.mark.skipif(nvcc.find("nvcc") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")


@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)


def ptx_of(k, signature, **constants):
    low = lowered(k, signature, **constants)
    return nvrtc.to_ptx(low.located, "sm_90", FLAGS, low.name).decode()


@pytest.mark.parametrize(("word", "is_it"), [("", False), ("nvcc", False), ("nvrtc", True), (" NVRTC ", True)])
def test_the_compiler_is_chosen_by_a_variable(monkeypatch, word, is_it):
    monkeypatch.setenv("TINYTON_COMPILER", word)
    assert nvrtc.chosen() is is_it


def test_another_compiler_is_refused(monkeypatch):
    monkeypatch.setenv("TINYTON_COMPILER", "gcc")
    with pytest.raises(BackendError, match="TINYTON_COMPILER is 'gcc'; the compilers are nvcc and nvrtc"):
        nvrtc.chosen()


def test_a_library_that_is_not_there(monkeypatch):
    monkeypatch.setattr(nvrtc, "find", lambda: None)
    monkeypatch.setattr(nvrtc, "library", nvrtc.library.__wrapped__)
    assert nvrtc.version() == "none"
    with pytest.raises(BackendError, match=re.escape("libnvrtc is not found: it comes with the CUDA toolkit, and pip")):
        ptx_of(add, {"x": "*float32", "y": "*float32", "out": "*float32", "n": "int32"}, BLOCK=64)


def test_a_library_that_cannot_be_loaded(monkeypatch, tmp_path):
    (tmp_path / "libnvrtc.so.99").write_bytes(b"no library")
    monkeypatch.setattr(nvrtc, "find", lambda: tmp_path / "libnvrtc.so.99")
    with pytest.raises(BackendError, match="libnvrtc cannot be loaded: "):
        nvrtc.library.__wrapped__()


@needs_nvrtc
def test_the_version_is_known_before_the_library_is_read():
    assert re.fullmatch(r"nvrtc \d+\.\d+(\.\d+)?", nvrtc.version())


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_functions(dtype):
    body = "".join(f"    v = v + tt.{f}(tt.load(x + i))\n" for f in FUNCTIONS)
    k = kernel(
        f"@tt.jit\ndef k(x, out):\n    i = tt.arange(0, 512)\n    v = tt.load(x + i)\n{body}    tt.store(out + i, v)"
    )
    assert ".visible .entry k_kernel(" in ptx_of(k, {"x": f"*{dtype}:16", "out": f"*{dtype}:16"})


@needs_nvrtc
def test_infinities_and_nan_are_those_of_nvcc():
    k = kernel(
        "@tt.jit\ndef k(out):\n    tt.store(out, float('inf'))\n    tt.store(out + 1, -float('inf'))\n"
        "    tt.store(out + 2, float('nan'))"
    )
    stored = re.findall(r"mov\.[bu]32\s+%r\d+, (-?\d+);", ptx_of(k, {"out": "*float32"}))
    assert {int(x) % 2**32 for x in stored} >= {0x7F800000, 0xFF800000, 0x7FC00000}


@needs_nvrtc
def test_what_is_wrong_is_told_with_its_line():
    with pytest.raises(
        BackendError, match=r"(?s)nvrtc refused kernel add:\nkernel add\(3\): error: .*\"y\" is undefined"
    ):
        nvrtc.to_ptx('#line 3 "kernel add"\nint x = y;\n', "sm_90", FLAGS, "add")
    with pytest.raises(BackendError, match="nvrtc refused kernel add:\n.*--no-such-option"):
        nvrtc.to_ptx("int x;", "sm_90", [*FLAGS, "--no-such-option"], "add")


@needs_nvrtc
@needs_nvcc
@pytest.mark.nvcc
def test_ahead_of_time(monkeypatch):
    """The block is demanded as with nvcc, and the assembler takes it."""
    monkeypatch.setenv("TINYTON_COMPILER", "nvrtc")
    built = tt.compile(add, ["*float32:16", "*float32:16", "*float32:16", "int32"], BLOCK=1024)
    assert built.reqntid == built.low.block and ".maxntid" not in built.ptx and built.registers > 0


@pytest.mark.gpu
@pytest.mark.skipif(backends.available()["cuda"] is not None, reason="no GPU with PyCUDA here")
@needs_nvrtc
def test_on_the_device(monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "cuda")
    monkeypatch.setenv("TINYTON_COMPILER", "nvrtc")
    monkeypatch.setenv("TINYTON_CACHE_DIR", "off")
    x = np.random.default_rng().standard_normal(1000).astype(np.float32)
    out = np.zeros_like(x)
    add[tt.cdiv(1000, 256)](x, x, out, 1000, BLOCK=256)
    assert np.array_equal(out, x + x)
    assert tt.env().compiler == nvrtc.version() and "nvrtc" in tt.env().compiler
    compiled = add.compile(x, x, out, 1000, BLOCK=256)
    assert compiled.reqntid == compiled.low.block and ".maxntid" not in compiled.ptx
