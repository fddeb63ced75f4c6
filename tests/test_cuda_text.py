"""The mechanism of ``--cuda-text``: what a run compiles is written once, compiled by nvcc, counted in the report."""

import pytest

from tests.cuda_text import alone, compile_all
from tinyton.backends import nvcc

needs_nvcc = pytest.mark.skipif(nvcc.find("nvcc") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")
KERNEL = """__device__ int two() { return 2; }
#line 7 "kernel k"
extern "C" __global__ void k(int* x) { x[0] = two()WHAT; }"""


@pytest.mark.nvcc
@needs_nvcc
def test_texts_share_a_file_and_a_wrong_one_is_named(tmp_path):
    files = [tmp_path / f"{n}.cu" for n in "abc"]
    for file in files:
        file.write_text(KERNEL.replace("WHAT", ""))
    ((batch, outcome, told, seconds),) = compile_all(files)
    assert (batch, outcome, told) == (files, "passed", "") and seconds > 0
    files[1].write_text(KERNEL.replace("WHAT", " + nothing"))
    ((_, outcome, told, _),) = compile_all(files)
    assert outcome == "failed"
    assert 'kernel k(7): error: identifier "nothing" is undefined' in told


def test_each_text_has_its_namespace():
    assert alone("k3", 'extern "C" __global__ void f() {}') == "namespace k3 {\n__global__ void f() {}\n}"


def test_without_nvcc_it_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(nvcc, "find", lambda program: None)
    ((_, outcome, told, _),) = compile_all([tmp_path / "a.cu", tmp_path / "b.cu"])
    assert outcome == "skipped" and "tinyton[nvcc]" in told
    assert compile_all([]) == []
