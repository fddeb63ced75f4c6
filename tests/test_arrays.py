"""Arrays as arguments: ours on the device, NumPy's with any strides, PyOpenCL's; and what is refused."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import EXECUTORS, choose, kernel

NUMPY = {d.name: np.dtype(d.name if d.name != "bfloat16" else ml_dtypes.bfloat16) for d in tt.dtypes.ALL}


@tt.jit
def double(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n)
    tt.store(out + i, v + v, mask=i < n)


@tt.jit
def copy(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n), mask=i < n)


@tt.jit
def copy2(x, out, M, N, xm, xn, om, on, BM: tt.constexpr, BN: tt.constexpr):
    r = tt.arange(0, BM)[:, None]
    c = tt.arange(0, BN)[None, :]
    inside = (r < M) & (c < N)
    tt.store(out + (r * om + c * on), tt.load(x + (r * xm + c * xn), mask=inside), mask=inside)


@tt.jit
def put(out, n, value, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, value, mask=i < n)


def sample(dtype, shape=(3, 50)):
    """Values that every type can hold."""
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 100
    return (numbers % 2 == 0) if dtype == np.bool_ else numbers.astype(dtype)


def copied(x, out):
    """Launches a copy of a matrix through the strides of both arrays."""
    strides = [s // a.dtype.itemsize for a in (x, out) for s in a.strides]
    copy2[1](x, out, *x.shape, *strides, BM=8, BN=64)


# Arrays on the device


@pytest.mark.parametrize("name", NUMPY)
def test_round_trip(executor, name):
    x = sample(NUMPY[name])
    device = tt.to_device(x)
    assert isinstance(device, tt.DeviceArray)
    assert device.dtype.name == name and device.dtype is getattr(tt, name if name != "bool" else "bool_")
    assert (device.shape, device.ndim, device.size) == ((3, 50), 2, 150)
    size = NUMPY[name].itemsize
    assert device.strides == (50 * size, size) and device.nbytes == 150 * size
    back = device.numpy()
    assert back.dtype == ("float32" if device.dtype.foreign else name)
    np.testing.assert_array_equal(back, x.astype(back.dtype))
    back[:] = 0
    np.testing.assert_array_equal(device.numpy(), x.astype(back.dtype), err_msg=".numpy() is a copy")


@pytest.mark.parametrize("name", NUMPY)
def test_kernels_on_device_arrays(executor, name):
    x = sample(NUMPY[name])
    source, out = tt.to_device(x), tt.zeros(x.shape, NUMPY[name])
    copy[3](source, out, 150, BLOCK=64)
    np.testing.assert_array_equal(out.numpy(), x.astype(out.numpy().dtype))
    host = np.zeros_like(x)
    copy[3](source, host, 150, BLOCK=64)
    np.testing.assert_array_equal(host, x)


def test_to_device_copies(executor):
    x = np.arange(10, dtype=np.float32)
    device = tt.to_device(x)
    x[:] = -1
    assert device.numpy().tolist() == list(range(10))


@pytest.mark.parametrize(
    "x",
    [
        np.arange(12, dtype=np.int16).reshape(3, 4).T,
        np.arange(12, dtype=np.int16)[::-1],
        np.arange(12, dtype=np.int16)[::3],
        np.broadcast_to(np.int16(7), (4, 3)),
        np.arange(12, dtype=">i2"),
        np.asfortranarray(np.arange(12, dtype=np.int16).reshape(3, 4)),
        np.array(5, np.int16),
        np.zeros(0, np.int16),
        np.zeros((3, 0, 2), np.int16),
        np.arange(24, dtype=ml_dtypes.bfloat16).reshape(4, 6)[::-2, 1::2],
        [1, 2, 3],
        4.5,
        True,
    ],
    ids=range(13),
)
def test_to_device_takes_any_strides(executor, x):
    want = np.asarray(x)
    got = tt.to_device(x)
    assert got.shape == want.shape
    assert got.numpy().shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want.astype(got.numpy().dtype))


def test_to_device_converts(executor):
    x = np.array([1.0, 2.5, -3.0, 1e-3, np.inf, np.nan])
    for dtype in (tt.float16, tt.bfloat16, tt.float32, "float32", np.float16, ml_dtypes.bfloat16):
        got = tt.to_device(x, dtype)
        want = x.astype(NUMPY[got.dtype.name])
        np.testing.assert_array_equal(got.numpy(), want.astype(np.float32))
    bf = x.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(tt.to_device(bf, tt.float32).numpy(), bf.astype(np.float32))
    assert tt.to_device([5], tt.bfloat16).numpy().tolist() == [5.0]
    assert tt.to_device(np.array([5], np.uint16), tt.bfloat16).numpy().tolist() == [5.0]
    assert tt.to_device(np.array([-1, 300]), tt.uint8).numpy().tolist() == [255, 44]


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("shape", [5, np.int32(5), (), (0,), (2, 3), [2, 3], (2, 0, 3)], ids=str)
def test_empty_and_zeros(interpreter, name, shape):
    for make in (tt.empty, tt.zeros):
        got = make(shape, tt.dtypes.BY_NAME[name])
        assert got.shape == np.empty(shape).shape and got.dtype.name == name
        assert got.numpy().shape == got.shape
        if make is tt.zeros:
            assert not got.numpy().any()


def test_empty_and_zeros_on_a_device(executor):
    for shape in (5, (), (2, 0)):
        assert tt.empty(shape, tt.float32).shape == np.empty(shape).shape
        np.testing.assert_array_equal(tt.zeros(shape, "int64").numpy(), np.zeros(shape, np.int64))


@pytest.mark.parametrize(
    "shape", [-1, (3, -1), 2.0, (2, 3.5), "3", None, True, (2, np.True_), np.array([2, 3])], ids=repr
)
def test_shapes_that_are_refused(executor, shape):
    with pytest.raises(tt.LaunchError, match="a shape is made of ints"):
        tt.empty(shape, tt.float32)


@pytest.mark.parametrize(
    "dtype", [np.complex64, "U3", object, "datetime64[s]", np.dtype([("a", "f4")]), np.longdouble, "M"]
)
def test_element_types_that_are_refused(executor, dtype):
    for call in (lambda: tt.empty(3, dtype), lambda: tt.to_device(np.zeros(3, dtype))):
        with pytest.raises(tt.KernelTypeError, match="are not supported; use one of bool, int8"):
            call()


def test_more_memory_than_there_is(executor):
    for n in (1 << 60, 1 << 70):
        with pytest.raises(tt.BackendError, match=f"{4 * n} bytes cannot be allocated"):
            tt.empty(n, tt.float32)


def test_an_array_of_another_backend(monkeypatch):
    if "opencl" not in EXECUTORS:
        pytest.skip("there is one backend only")
    choose("interpreter", monkeypatch)
    there = tt.zeros(4, tt.float32)
    choose("opencl", monkeypatch)
    here = tt.zeros(4, tt.float32)
    for x, y in ((there, here), (here, there)):
        with pytest.raises(tt.LaunchError, match="argument (x|out) is an array of the interpreter backend.* on opencl"):
            copy[1](x, y, 4, BLOCK=4)
    assert there.numpy().tolist() == [0] * 4, "it can be read all the same"


def test_how_it_looks(executor):
    x = tt.zeros((2, 3), tt.float16)
    assert repr(x) == f"DeviceArray([2, 3], float16, {executor})"
    assert hasattr(x, "__cuda_array_interface__") == (executor == "cuda")


def test_nothing_copies_it_in_secret(executor):
    x = tt.zeros(3, tt.float32)
    for call in (lambda: np.asarray(x), lambda: np.add(x, 1), lambda: tt.to_device(x)):
        with pytest.raises(tt.LaunchError, match=r"x.numpy\(\) copies it"):
            call()
    if executor != "cuda":
        with pytest.raises(tt.BackendError, match="has no address"):
            x.data_ptr()


def test_memory_is_freed(executor):
    x = tt.zeros(4, tt.float32)
    put[1](x, 4, 1.0, BLOCK=4)
    tt.synchronize()
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


# NumPy arrays


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_arrays_go_there_and_back(executor, name):
    x = sample(NUMPY[name], 150)
    out = np.zeros(152, x.dtype)
    copy[3](x, out, 150, BLOCK=64)
    np.testing.assert_array_equal(out[:150], x)
    assert not out[150:].any(), "past the end"
    np.testing.assert_array_equal(x, sample(NUMPY[name], 150))


def views():
    """A matrix of 5 rows and 37 columns, seen through all kinds of strides."""

    def of(shape):
        return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)

    yield "contiguous", of((5, 37))
    yield "part of a wider one", of((9, 50))[2:7, 5:42]
    yield "every third column", of((5, 111))[:, ::3]
    yield "every other row", of((10, 37))[::2]
    yield "transposed", of((37, 5)).T
    yield "rows from the end", of((5, 37))[::-1]
    yield "columns from the end", of((5, 37))[:, ::-1]
    yield "both, stepped", of((15, 74))[::-3, ::-2]
    yield "Fortran order", np.asfortranarray(of((5, 37)))
    yield "off by one element", of(186)[1:].reshape(5, 37)
    yield "a slice of three dimensions", of((5, 4, 37))[:, 2]


@pytest.mark.parametrize("name, x", list(views()), ids=[name.replace(" ", "-") for name, _ in views()])
def test_strides_are_respected(executor, name, x):
    want = x.copy()
    out = np.zeros((5, 37), np.float32)
    copied(x, out)
    np.testing.assert_array_equal(out, want)
    base = x if x.base is None else x.base
    before = base.copy()
    new = -want - 1
    copied(new, x)
    np.testing.assert_array_equal(x, new)
    x[...] = want
    np.testing.assert_array_equal(base, before, err_msg="outside of the view")


def test_a_read_only_array_can_be_read(executor):
    x = np.broadcast_to(np.arange(37, dtype=np.float32), (5, 37))
    out = np.zeros((5, 37), np.float32)
    copied(x, out)
    np.testing.assert_array_equal(out, x)
    fixed = np.arange(5, dtype=np.float32)
    fixed.flags.writeable = False
    copy[1](fixed, out, 5, BLOCK=8)
    assert out[0, :5].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(tt.LaunchError, match="argument out is read-only, but the kernel stores to it"):
        copy[1](out, fixed, 5, BLOCK=8)
    assert fixed.tolist() == [0, 1, 2, 3, 4]
    frozen = np.frombuffer(b"\0" * 16, np.float32)
    copy[1](frozen, out, 4, BLOCK=4)
    with pytest.raises(tt.LaunchError, match="read-only"):
        put[1](frozen, 4, 1.0, BLOCK=4)


def test_one_array_twice_is_one_array(executor):
    x = np.arange(50, dtype=np.float32)
    double[1](x, x, 50, BLOCK=64)
    np.testing.assert_array_equal(x, 2 * np.arange(50))


@pytest.mark.parametrize("shift", [0, 1, 7, 49, 50, 51])
def test_views_that_overlap_share_memory(executor, shift):
    """What is stored through one view is seen through another, as on the host."""
    k = kernel("""
@tt.jit
def k(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store(x + i, 5.0, mask=i < n)
    tt.store(out + i, tt.load(y + i, mask=i < n), mask=i < n)
""")
    base, out = np.zeros(200, np.float32), np.zeros(50, np.float32)
    x, y = base[:50], base[shift:][:50]
    k[1](x, y, out, 50, BLOCK=64, num_threads=1)  # no order between threads is promised for two arguments
    np.testing.assert_array_equal(out, y)
    assert base[:50].all() and not base[50:].any()


def test_an_empty_view_beside_its_array(executor):
    """An empty array has no memory, wherever it points."""
    k = kernel("""
@tt.jit
def k(x, none, also, out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n) + tt.load(none + i, mask=i < 0) + tt.load(also + i, mask=i < 0)
    tt.store(out + i, v, mask=i < n)
""")
    x, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    for none, also in ((x[:0], x[50:]), (x[20:20], x[:0]), (np.zeros(0, np.float32), np.zeros((3, 0), np.float32))):
        out[:] = 0
        k[1](x, none, also, out, 50, BLOCK=64)
        np.testing.assert_array_equal(out, x)


def test_empty_arrays(executor):
    x = np.zeros(0, np.float32)
    copy[0](x, x, 0, BLOCK=64)
    copy[1](x, x, 0, BLOCK=64)
    device = tt.to_device(x)
    copy[1](device, device, 0, BLOCK=64)
    assert device.numpy().shape == (0,)


def test_an_array_of_no_dimensions_is_one_element(executor):
    x, out = np.array(2.5, np.float32), np.array(0, np.float32)
    double[1](x, out, 1, BLOCK=1)
    assert out == 5
    double[1](tt.to_device(x), out, 1, BLOCK=2)
    assert out == 5


def test_elements_of_views_that_are_not_aligned_to_vectors(executor):
    for first in range(5):
        base = np.arange(200, dtype=np.float32)
        out = np.zeros(200, np.float32)
        double[1](base[first:], out[4 - first :], 150, BLOCK=256, num_warps=1)
        np.testing.assert_array_equal(out[4 - first :][:150], 2 * base[first:][:150])


def test_aligned_views_of_memory_that_starts_unaligned(executor):
    """Views that overlap are lent as one piece of memory. One of them is aligned to vectors, its beginning is not."""
    k = kernel("""
@tt.jit
def k(x, y, out, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i) + tt.load(y + i))
""")
    memory = np.arange(301, dtype=np.float32)
    aligned = next(a for a in range(4) if memory[a:].ctypes.data % 16 == 0)
    x, y = memory[aligned + 1 :][:256], memory[aligned + 4 :][:256]
    out = np.zeros(256, np.float32)
    k[1](x, y, out, BLOCK=256, num_warps=1)
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.parametrize(
    "x, words",
    [
        (np.zeros(4, ">f4"), "argument x has byte order >; convert it with .astype"),
        (np.zeros(4, [("a", "f4"), ("b", "i4")]), "not supported"),
        (np.ma.masked_array(np.zeros(4, np.float32), [0, 1, 0, 0]), "argument x is a masked array.*filled"),
        (np.zeros(4, object), "object are not supported"),
        (np.zeros(4, "U1"), "not supported"),
        (np.zeros(4, "datetime64[s]"), "datetime64.* not supported"),
        (np.zeros(4, np.complex128), "complex128 are not supported"),
        (np.zeros(4, np.longdouble), "not supported"),
        (
            np.zeros(4, [("a", "i1"), ("b", "f4")])["b"],
            r"argument x has strides \(5,\), not multiples .* 4 bytes; copy it",
        ),
        (np.zeros(17, np.uint8)[1:].view(np.float32), "argument x .* copy it"),
    ],
)
def test_arrays_that_are_refused(executor, x, words):
    with pytest.raises(tt.KernelTypeError, match=words):
        copy[1](x, np.zeros(4, np.float32), 4, BLOCK=4)


def test_a_field_of_records_with_whole_strides(executor):
    records = np.zeros(40, [("a", "f4"), ("b", "i4")])
    records["a"] = np.arange(40)
    out = np.zeros((1, 40), np.float32)
    copied(records["a"][None], out)
    np.testing.assert_array_equal(out[0], np.arange(40))


def test_no_array_is_kept_after_the_launch(executor):
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    gone = weakref.ref(x)
    copy[1](x, out, 4, BLOCK=4)
    del x
    gc.collect()
    assert gone() is None


# PyOpenCL's arrays


@pytest.fixture
def queue(monkeypatch):
    if "opencl" not in EXECUTORS:
        pytest.skip("there is no OpenCL")
    choose("opencl", monkeypatch)
    return tt.backends.current().queue


def test_pyopencl_arrays(queue):
    """No copy: the kernel works in their memory, at their offset, with their strides."""
    import pyopencl.array as cla

    x = cla.to_device(queue, np.arange(60, dtype=np.float32).reshape(6, 10))
    out = cla.zeros(queue, (6, 10), np.float32)
    double[1](x, out, 60, BLOCK=64)
    np.testing.assert_array_equal(out.get(), 2 * x.get())
    part = cla.zeros(queue, (4, 6), np.float32)
    copied(x[1:5, 2:8], part)
    np.testing.assert_array_equal(part.get(), x.get()[1:5, 2:8])
    copied(part, x[2:6, 4:10])
    want = np.arange(60, dtype=np.float32).reshape(6, 10)
    want[2:6, 4:10] = part.get()
    np.testing.assert_array_equal(x.get(), want)
    none = cla.empty(queue, 0, np.float32)
    copy[1](none, none, 0, BLOCK=4)


def test_pyopencl_arrays_with_others(queue):
    import pyopencl.array as cla

    x = cla.to_device(queue, np.arange(50, dtype=np.int32))
    host, ours = np.zeros(50, np.int32), tt.zeros(50, tt.int32)
    double[1](x, host, 50, BLOCK=64)
    double[1](x, ours, 50, BLOCK=64)
    np.testing.assert_array_equal(host, 2 * np.arange(50))
    np.testing.assert_array_equal(ours.numpy(), host)


def test_pyopencl_arrays_are_ordered_by_their_events(queue):
    import pyopencl as cl
    import pyopencl.array as cla

    other = cl.CommandQueue(queue.context)
    x = cla.zeros(other, 1 << 16, np.float32)
    for _ in range(20):
        x += 1
    out = cla.zeros(other, 1 << 16, np.float32)
    double[1 << 6](x, out, 1 << 16, BLOCK=1 << 10)
    assert (out + 1).get().tolist() == [41.0] * (1 << 16)


def test_pyopencl_arrays_that_are_refused(queue):
    import pyopencl as cl
    import pyopencl.array as cla

    there = cla.zeros(cl.CommandQueue(cl.Context(queue.context.devices)), 4, np.float32)
    out = np.zeros(4, np.float32)
    with pytest.raises(tt.LaunchError, match="argument x is in another OpenCL context.*tinyton.backends.current"):
        copy[1](there, out, 4, BLOCK=4)
    with pytest.raises(tt.KernelTypeError, match="complex64 are not supported"):
        copy[1](cla.zeros(queue, 4, np.complex64), out, 4, BLOCK=4)
    with pytest.raises(tt.KernelTypeError, match="argument x is a Buffer"):
        copy[1](cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 16), out, 4, BLOCK=4)
