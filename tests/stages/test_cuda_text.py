"""The CUDA C++ of the first stages compiles. Later stages have the emitter of the package."""

import importlib

import pytest

from tinyton import stages
from tinyton.backends import nvcc

needs_nvcc = pytest.mark.skipif(nvcc.find("nvcc") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")


def part(tt, name):
    return importlib.import_module(f"{tt.__name__}.{name}")


def compiled(text):
    return nvcc.to_ptx(text, "sm_80", ["-fmad=false", "-std=c++17"]).decode()


@pytest.mark.nvcc
@needs_nvcc
def test_stage_1():
    tt = stages.load(1)

    @tt.jit
    def k(x, y, out, n, scale, flag):
        i = tt.program_id(0) * 64 + tt.arange(0, 64)
        on = tt.where(flag, i < n, i < n - 1)
        a = tt.load(x + i, mask=on, other=-1)
        b = tt.load(y + i, mask=on)
        tt.store(out + i, tt.where(b, a * scale, -a / 3), mask=on)
        tt.store(out + n, tt.num_programs(1).to(tt.float64))

    d, Type = part(tt, "dtypes"), part(tt, "ir").Type
    types = dict(zip("xy", (Type(d.float32, (), True), Type(d.bool_, (), True)), strict=True))
    types |= {"out": Type(d.float64, (), True), "n": Type(d.int64), "scale": Type(d.float64), "flag": Type(d.bool_)}
    kernel = part(tt, "frontend").trace(k.source, types, frozenset(["scale"]))
    ptx = compiled(part(tt, "codegen.emitter").Emitter(kernel, part(tt, "codegen.dialect").CUDA).source())
    assert ptx.count(".param .") == 6


@pytest.mark.nvcc
@needs_nvcc
@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "bool"])
def test_stages_2_and_3(number, dtype):
    tt = stages.load(number)

    @tt.jit
    def k(src, dst, N, scale, BLOCK: tt.constexpr):
        i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        x = tt.load(src + i, mask=i < N)
        total = tt.reduce_sum(x) + tt.reduce_max(x)
        y = tt.exp(x) * scale + total
        tt.store(dst + i, tt.maximum(y, 0), mask=i < N)

    special, lower = part(tt, "specialize"), part(tt, "codegen.lower")
    args = special.parse({"src": f"*{dtype}:16", "dst": "*float32:16", "N": "int32", "scale": "float32"})
    spec = special.Specialization(tuple(args.items()), (("BLOCK", 27 if number == 2 else 512),))
    cuda = part(tt, "codegen.dialect").CUDA
    low = lower.lower(lower.front(k.source, spec), spec, 128, cuda, lambda *bounds: "")
    assert compiled(low.located).count(".param .") == 4
