"""DLPack: arrays of any library, without a copy. NumPy's arrays, behind an object that speaks only DLPack, stand in."""

import numpy as np
import pytest

import tinyton as tt
from conftest import Foreign, same_bits


@tt.jit
def twice(x, out, rows, sx, sy, COLS: tt.constexpr):
    i = tt.arange(0, COLS)
    for r in range(rows):
        v = tt.load(x + r * sx + i * sy)
        tt.store(out + r * COLS + i, v + v)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u4", "i8", "f2", "f4", "f8"])
def test_values_go_in_and_come_back(executor, dtype):
    x = np.random.default_rng().integers(0, 50, (5, 8)).astype(dtype)
    out = np.zeros((5, 8), dtype)
    twice[1](Foreign(x), Foreign(out), 5, 8, 1, COLS=8)
    same_bits(out, x * np.dtype(dtype).type(2))


def test_strides_and_offsets(executor):
    whole = np.random.default_rng().normal(size=(20, 16)).astype(np.float32)
    for view in (whole[3:14:2], whole[2:8, 1:9], whole[:8, :6].T, whole[0:6, ::2], whole[5::-1, 7::-1]):
        sx, sy = (s // 4 for s in view.strides)
        out = np.zeros((len(view), 8), np.float32)
        twice[1](Foreign(view), out, len(view), sx, sy, COLS=8)
        same_bits(out, 2 * view[:, :8])


def test_memory_is_shared_not_copied(executor):
    """Two views of one array stay views of one array."""
    x = np.arange(16, dtype=np.int32)

    @tt.jit
    def shift(a, b):
        tt.store(b, tt.load(a) + 100)
        tt.store(a, tt.load(b))

    shift[1](Foreign(x), Foreign(x[5:]))
    assert x[5] == 100 and x[0] == 100


def test_bools_and_empty_arrays(executor):
    flags, out = np.array([True, False, True, True]), np.zeros(4, np.int32)

    @tt.jit
    def count(x, out, n):
        i = tt.arange(0, 4)
        tt.store(out + i, tt.load(x + i, mask=i < n).to(tt.int32), mask=i < n)

    count[1](Foreign(flags), Foreign(out), 3)
    assert out.tolist() == [1, 0, 1, 0]
    count[1](Foreign(np.zeros(0, bool)), Foreign(out), 0)
    assert out.tolist() == [1, 0, 1, 0]


def test_counting_reads_them_too(executor):
    x, out = np.ones((5, 8), np.float32), np.zeros((5, 8), np.float32)
    counted = tt.count(twice, 1, Foreign(x), Foreign(out), 5, 8, 1, COLS=8)
    assert counted.bytes_loaded == counted.bytes_stored == x.nbytes and not out.any()


def launch(x):
    twice[1](x, np.zeros(64, np.float32), 1, 1, 1, COLS=8)


def test_arrays_that_may_not_be_written_to_are_refused(executor):
    x = np.zeros(8, np.float32)
    x.flags.writeable = False
    with pytest.raises(tt.LaunchError, match="argument x: this Foreign is not shared through DLPack"):
        launch(Foreign(x))


def test_types_that_kernels_do_not_take(executor):
    with pytest.raises(tt.KernelTypeError, match="argument x has elements of 64 bits and DLPack's type 5"):
        launch(Foreign(np.zeros(8, np.complex64)))


class Elsewhere(Foreign):
    """An array that says something else of itself, such as another device: words in its capsule are changed."""

    def __init__(self, array, device=1, **words):
        super().__init__(array)
        self.words = {"device": device, **words}

    def __dlpack__(self, **options):
        import ctypes

        from tinyton.arrays import _DLTensor

        capsule = self.array.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        for word, value in self.words.items():
            setattr(_DLTensor.from_address(get(capsule, b"dltensor")), word, value)
        return capsule


def test_bfloat16(executor):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng().normal(size=(6, 16)).astype(ml_dtypes.bfloat16)[::2, :8]
    out = np.zeros((3, 8), ml_dtypes.bfloat16)
    passed = (Elsewhere(a.view(np.uint16), code=4) for a in (x, out))
    twice[1](*passed, 3, 32, 1, COLS=8)
    same_bits(out.view(np.uint16), (x + x).view(np.uint16))


@pytest.mark.parametrize(("code", "name"), [(10, "float8_e4m3fn"), (12, "float8_e5m2")])
def test_float8(executor, code, name):
    kind = getattr(pytest.importorskip("ml_dtypes"), name)
    x = np.random.default_rng().normal(size=(6, 16)).astype(kind)[::2, :8]
    out = np.zeros((3, 8), kind)
    passed = (Elsewhere(a.view(np.uint8), code=code) for a in (x, out))
    twice[1](*passed, 3, 32, 1, COLS=8)
    np.testing.assert_array_equal(out.astype(np.float32), 2 * x.astype(np.float32))


@pytest.mark.parametrize("device, words", [(2, "a CUDA device"), (4, "a device of DLPack's type 4")])
def test_arrays_on_another_device(executor, device, words):
    if (executor, device) == ("cuda", 2):
        pytest.skip("it would be believed")
    with pytest.raises(tt.LaunchError, match=f"argument x is on {words}; this launch is on {executor}"):
        launch(Elsewhere(np.zeros(8, np.float32), device))


def test_a_torch_tensor_on_the_cpu(executor):
    torch = pytest.importorskip("torch")
    x, out = torch.arange(8.0), torch.zeros(8)
    if executor == "cuda":
        with pytest.raises(tt.LaunchError, match=r"argument x is a torch tensor on the CPU; move it with \.cuda\(\)"):
            twice[1](x, out, 1, 8, 1, COLS=8)
        x, out = x.cuda(), out.cuda()
    twice[1](x, out, 1, 8, 1, COLS=8)
    assert out.tolist() == [2.0 * k for k in range(8)]
