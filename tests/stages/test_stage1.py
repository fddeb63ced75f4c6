"""Stage 1: a Python function over tiles runs on the device."""

import numpy as np
import pytest

BLOCK = 64  # read by the kernels below
rng = np.random.default_rng(1)


@pytest.fixture
def add(tt):
    @tt.jit
    def add(x_ptr, y_ptr, out_ptr, n):
        """Adds two vectors."""
        offsets = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        mask = offsets < n
        x = tt.load(x_ptr + offsets, mask=mask)
        y = tt.load(y_ptr + offsets, mask=mask)
        tt.store(out_ptr + offsets, x + y, mask=mask)

    return add


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint32"])
def test_vector_add(tt, add, dtype):
    n = 3 * BLOCK + 5
    x, y = ((rng.standard_normal(n) * 9).astype(dtype) for _ in range(2))
    out = np.full(n + 3, 77, dtype)
    add[4](x, y, out, n)
    assert np.array_equal(out[:n], x + y) and (out[n:] == 77).all()


def test_arrays_on_the_device(tt, add):
    x, y = (tt.to_device(rng.standard_normal(100).astype(np.float32)) for _ in range(2))
    out = tt.empty(100, tt.float32)
    add[(2,)](x, y, out, 100)
    tt.synchronize()
    assert out.shape == (100,) and out.dtype is tt.float32
    assert np.array_equal(out.numpy(), x.numpy() + y.numpy())


def test_a_kernel_is_compiled_once_for_the_types_of_its_arguments(tt, add):
    x = np.ones(100, np.float32)
    for n in (100, 90, 70):
        add[2](x, x, x, n)
    assert len(add._cache) == 1
    add[2](*(np.ones(100, np.int32) for _ in range(3)), 100)
    assert len(add._cache) == 2


def test_the_generated_source_names_the_python_lines(tt, add):
    if tt.backends.current().name == "interpreter":
        pytest.skip("there is no C")
    x = np.ones(10, np.float32)
    source = add.compile(x, x, x, 10).source
    assert "tt.store(out_ptr + offsets, x + y, mask=mask)" in source and "x_ptr" in source


def test_the_ir_can_be_read(tt, add):
    x = np.ones(10, np.float32)
    text = str(add.compile(x, x, x, 10).ir)
    assert text.startswith("kernel add(x_ptr: *f32, y_ptr: *f32, out_ptr: *f32, n: i32)")
    assert f"i32[{BLOCK}] = arange start=0" in text


def test_a_grid_has_three_axes(tt):
    @tt.jit
    def where_am_i(out):
        i = tt.program_id(0) + tt.num_programs(0) * (tt.program_id(1) + tt.num_programs(1) * tt.program_id(2))
        tt.store(out + i, i)

    out = np.zeros(24, np.int32)
    where_am_i[2, 3, 4](out)
    assert out.tolist() == list(range(24))
    where_am_i[0](out)
    with pytest.raises(tt.LaunchError, match="axis 0 of the grid is -1"):
        where_am_i[-1](out)


def test_arithmetic(tt):
    @tt.jit
    def k(x, y, out, s):
        i = tt.arange(0, 32)
        a = tt.load(x + i)
        b = tt.load(y + i)
        tt.store(out + i, (a + b) * 2 - b / 4)
        tt.store(out + 32 + i, -a * s + 0.5)
        tt.store(out + (64 + i), tt.where(a < b, a, 7))
        tt.store(out + 96 + i, tt.where(a >= 1.5, 1 + a, i))

    x, y = rng.standard_normal((2, 32)).astype(np.float32)
    out = np.zeros(128, np.float32)
    k[1](x, y, out, 0.1)
    s, i = np.float32(0.1), np.arange(32, dtype=np.float32)
    want = [(x + y) * 2 - y / 4, -x * s + np.float32(0.5), np.where(x < y, x, 7), np.where(x >= 1.5, 1 + x, i)]
    assert np.array_equal(out, np.concatenate(want).astype(np.float32))


def test_comparisons(tt):
    @tt.jit
    def k(x, out, value):
        i = tt.arange(0, 16)
        a = tt.load(x + i)
        tt.store(out + i, a < value)
        tt.store(out + 16 + i, a <= value)
        tt.store(out + 32 + i, a > value)
        tt.store(out + 48 + i, a >= value)
        tt.store(out + 64 + i, a == value)
        tt.store(out + 80 + i, a != value)

    x, out = np.arange(16, dtype=np.int32), np.zeros(96, np.bool_)
    k[1](x, out, 7)
    assert np.array_equal(out, np.concatenate([x < 7, x <= 7, x > 7, x >= 7, x == 7, x != 7]))


def test_types_meet_as_in_numpy(tt):
    @tt.jit
    def k(i8, f32, out):
        i = tt.arange(0, 8)
        a = tt.load(i8 + i)
        tt.store(out + i, a / 2)
        tt.store(out + 8 + i, a + tt.load(f32 + i))
        tt.store(out + 16 + i, (tt.load(f32 + i) * 3).to(tt.int32))

    a, f = np.arange(-4, 4, dtype=np.int8), rng.standard_normal(8).astype(np.float32)
    out = np.zeros(24, np.float32)
    k[1](a, f, out)
    assert np.array_equal(out, np.concatenate([a / np.float32(2), a + f, np.trunc(f * 3)]).astype(np.float32))


def test_masked_elements(tt):
    @tt.jit
    def k(x, out, n):
        i = tt.arange(0, 16)
        tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(x + i, mask=i < n, other=-1))

    x, out = np.arange(1, 17, dtype=np.int32), np.zeros(16, np.int32)
    k[1](x, out, 5)
    assert out.tolist() == [2, 4, 6, 8, 10] + [-1] * 11


def test_a_tile_may_have_any_extent(tt):
    @tt.jit
    def k(x, out):
        i = tt.arange(3, 30)
        tt.store(out + i, tt.load(x + i) + 1)

    x, out = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    k[1](x, out)
    assert np.array_equal(out[3:30], x[3:30] + 1) and not out[:3].any() and not out[30:].any()


def test_scalars(tt):
    @tt.jit
    def k(x, out, flag, big):
        tt.store(out, tt.load(x + 2) * 2)
        tt.store(out + 1, tt.where(flag, 5, 6))
        tt.store(out + 2, big, mask=flag)
        tt.store(out + 3, 1, mask=big < 0)

    x, out = np.arange(4, dtype=np.int64), np.zeros(4, np.int64)
    k[1](x, out, True, 1 << 40)
    assert out.tolist() == [4, 5, 1 << 40, 0]


@pytest.mark.snapshots(1, 2)
def test_every_element_has_a_thread(tt, add):
    x = np.ones(10, np.float32)
    assert add.compile(x, x, x, 10).threads == BLOCK

    @tt.jit
    def two(x):
        tt.store(x + tt.arange(0, 8), tt.load(x + tt.arange(0, 8)))
        tt.store(x + tt.arange(0, 16), 0)

    with pytest.raises(
        tt.KernelTypeError, match=r"one thread an element, so all its tiles have one extent, not \[8, 16\]"
    ):
        two[1](x)


@pytest.mark.snapshots(1, 2)
def test_a_tile_is_no_bigger_than_a_block(tt):
    @tt.jit
    def k(x):
        tt.store(x + tt.arange(0, 1048576), 0)

    limit = tt.backends.current()
    if limit.name == "interpreter":
        pytest.skip("it has no threads")
    with pytest.raises(tt.LaunchError, match="tiles of 1048576 elements, one thread each; this device runs"):
        k[1](np.zeros(1048576, np.float32))


def refused(tt, kernel, *args):
    with pytest.raises(tt.TinytonError) as e:
        kernel[1](*args)
    return str(e.value)


def test_what_a_kernel_cannot_say_is_refused_with_a_caret(tt):
    @tt.jit
    def k(x):
        assert x

    @tt.jit
    def name(x):
        tt.store(x, y)  # noqa: F821

    @tt.jit
    def pointer(x):
        tt.store(x, x * 2)

    @tt.jit
    def mask(x):
        tt.load(x, mask=1)

    x = np.zeros(4, np.float32)
    assert "kernel k, line" in refused(tt, k, x) and "Assert is not supported in a kernel" in refused(tt, k, x)
    assert "y is not defined" in refused(tt, name, x)
    lines = refused(tt, name, x).split("\n")
    assert lines[1].index("y)") == lines[2].index("^")
    assert "pointer" in refused(tt, pointer, x)
    assert "mask is bool" in refused(tt, mask, x)


def test_what_is_no_kernel(tt):
    with pytest.raises(tt.KernelSyntaxError, match="lambda"):
        tt.jit(lambda x: x)
    with pytest.raises(tt.KernelSyntaxError, match="defined with def"):
        tt.jit(3)
    with pytest.raises(tt.TinytonError, match="is for kernels"):
        tt.load(3)


def test_arguments_are_checked(tt, add):
    x = np.ones(4, np.float32)
    with pytest.raises(tt.LaunchError, match="n"):
        add[1](x, x, x)
    with pytest.raises(tt.KernelTypeError, match="argument n is a str"):
        add[1](x, x, x, "4")
    with pytest.raises(tt.KernelTypeError, match="complex64"):
        add[1](x.astype(np.complex64), x, x, 4)
