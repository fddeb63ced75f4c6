"""Building ahead of time: what is in the PTX and in the binary, with no GPU, no driver and no PyCUDA."""

import re

import pytest

import tinyton as tt
from tinyton.backends import nvcc

needs_nvcc = pytest.mark.skipif(nvcc.find("nvcc") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")


@tt.jit
def kernel(src, dst, N, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    x = tt.load(src + i, mask=i < N, other=-float("inf"))
    tt.store(dst + i, x / tt.sum(x), mask=i < N)


SIGNATURE = {"src": "*float32:16", "dst": "*float32:16", "N": "int32"}


@pytest.fixture(scope="module")
def built():
    return tt.compile(kernel, SIGNATURE, target="sm_90", sm_count=132, BLOCK=1024)


@pytest.mark.nvcc
@needs_nvcc
def test_what_is_built(built):
    head = built.ptx[built.ptx.index(".entry") : built.ptx.index("{")]
    assert head.count(".param") == 3  # BLOCK is not one of them
    assert ".reqntid 128" in head and ".maxntid" not in built.ptx
    assert ".target sm_90" in built.ptx
    assert (built.threads, built.reqntid) == (128, (128, 1, 1))
    assert built.constants == {"BLOCK": 1024}
    assert built.cubin.startswith(b"\x7fELF")
    assert 8 <= built.registers <= 64 and built.spills == 0
    assert built.shared_bytes == built.low.shared_bytes > 0
    assert "ld.global.v4" in built.ptx  # 16 bytes at once
    occupancy = built.occupancy()
    assert built.programs_at_once == 132 * occupancy.programs_per_sm > 0


@pytest.mark.nvcc
@needs_nvcc
def test_another_card_thread_count_and_ptx_version():
    built = tt.compile(
        kernel, ["*float16", "*float16", "int64"], target="sm_80", ptx_version="7.8", BLOCK=64, num_warps=2
    )
    assert built.reqntid == (64, 1, 1)
    assert re.findall(r"(?m)^\.(?:version|target) .*", built.ptx) == [".version 7.8", ".target sm_80"]
    with pytest.raises(tt.LaunchError, match="sm_count=132"):
        _ = built.programs_at_once


@pytest.mark.nvcc
@needs_nvcc
def test_a_version_that_is_too_old():
    with pytest.raises(tt.BackendError, match="7.0 does not support .target sm_90"):
        tt.compile(kernel, SIGNATURE, ptx_version="7.0", BLOCK=64)


@pytest.mark.nvcc
@needs_nvcc
def test_explained(built, capsys):
    told = built.explain()
    assert capsys.readouterr().out == f"{told}\n"
    places = [str(told).index(f"--- {part} ---") for part in ("Python", "IR", "layouts", "C", "PTX")]
    assert places == sorted(places)
    assert "def kernel(src, dst, N, BLOCK: tt.constexpr):" in told.source
    assert told.ptx == built.ptx and told.c == built.source


@pytest.mark.nvcc
@needs_nvcc
@pytest.mark.skipif(nvcc.find("nvdisasm") is None, reason="nvdisasm is not installed")
def test_machine_code(built):
    assert "LDG.E.128" in built.sass


def test_mistakes():
    with pytest.raises(tt.LaunchError, match="kernel is missing N"):
        tt.compile(kernel, ["*float32", "*float32"], BLOCK=64)
    with pytest.raises(tt.LaunchError, match="kernel has no parameter M"):
        tt.compile(kernel, {**SIGNATURE, "M": "int32"}, BLOCK=64)
    with pytest.raises(tt.KernelValueError, match="like sm_90, not 'hopper'"):
        tt.compile(kernel, SIGNATURE, target="hopper", BLOCK=64)
    with pytest.raises(tt.KernelTypeError, match="float23"):
        tt.compile(kernel, {**SIGNATURE, "N": "float23"}, BLOCK=64)
    with pytest.raises(tt.LaunchError, match="expected a kernel"):
        tt.compile(len, {})


@needs_nvcc
def test_what_nvcc_refuses_is_told_with_the_kernel(monkeypatch):
    monkeypatch.setenv("TINYTON_COMPILER", "nvcc")
    monkeypatch.setenv("TINYTON_BUILD_OPTIONS", "--no-such-option")
    with pytest.raises(tt.BackendError, match="(?s)nvcc refused kernel kernel:\n.*--?no-such-option"):
        tt.compile(kernel, SIGNATURE, BLOCK=1024)


def test_without_a_toolkit(monkeypatch):
    monkeypatch.setenv("TINYTON_COMPILER", "nvcc")
    monkeypatch.setattr(nvcc, "find", lambda program: None)
    with pytest.raises(tt.BackendError, match=r"nvcc is not installed.*tinyton\[nvcc\]"):
        tt.compile(kernel, SIGNATURE, BLOCK=64)


def test_explanation_on_each_executor(executor, capsys):
    import numpy as np

    x = np.zeros(64, np.float32)
    told = kernel.compile(x, x, 64, BLOCK=64, num_warps=1).explain()
    assert "--- layouts ---" in capsys.readouterr().out
    assert "[64] register bits" in told.layouts and "x" in told.layouts
    assert told.ir.startswith("kernel kernel(src: *f32")
    assert bool(told.ptx) == (executor == "cuda")
    assert told._repr_mimebundle_() == {}
