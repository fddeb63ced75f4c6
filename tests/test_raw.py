"""Kernels by hand: compiled and launched on what is there, refused where there is no C compiler."""

import numpy as np
import pytest

import tinyton as tt

CUDA = """
__global__ void scale(const float* x, float* out, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i];
}
"""
OPENCL = """
kernel void scale(global const float* x, global float* out, float a, int n)
{
    int i = get_global_id(0);
    if (i < n) out[i] = a * x[i];
}
"""


@pytest.fixture
def compiled(executor):
    if executor == "interpreter":
        pytest.skip("the interpreter runs no C")


def test_runs(compiled):
    x = np.arange(100, dtype=np.float32)
    out = tt.zeros(100, tt.float32)
    tt.raw("scale", cuda=CUDA, opencl=OPENCL)[4, 32](tt.to_device(x), out, 2.0, np.int32(90))
    assert (out.numpy() == np.where(np.arange(100) < 90, 2 * x, 0)).all()


def test_the_compiler_refuses(compiled):
    broken = tt.raw("scale", cuda=CUDA.replace("a *", "a ^"), opencl=OPENCL.replace("a *", "a ^"))
    with pytest.raises(tt.BackendError, match="refused scale"):
        broken[1, 32](tt.zeros(1, tt.float32), tt.zeros(1, tt.float32), 2.0, 1)


def test_the_driver_refuses(compiled):
    x = tt.zeros(1, tt.float32)
    with pytest.raises(tt.LaunchError, match="1 blocks of 1000000 threads"):
        tt.raw("scale", cuda=CUDA, opencl=OPENCL)[1, 1_000_000](x, x, 2.0, 1)


def test_a_host_array_is_refused(compiled):
    with pytest.raises(tt.KernelTypeError, match="argument 0 of scale is a ndarray"):
        tt.raw("scale", cuda=CUDA, opencl=OPENCL)[1, 32](np.zeros(1, np.float32))


def test_not_on_the_interpreter(interpreter):
    with pytest.raises(tt.BackendError, match="the interpreter does not run"):
        tt.raw("scale", cuda=CUDA, opencl=OPENCL)[1, 32]()
