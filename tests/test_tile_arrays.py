"""Arguments of kernels about arrays: strides, sizes, lists, tuples, dataclasses, constants, and what is refused."""

import enum
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import EXECUTORS, Foreign, Guarded, choose, same_bits, underlined


@ct.kernel
def copy2(x, y, M: ct.Constant[int], N: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (M, N)))


@ct.kernel
def copy1(x, y, N: ct.Constant[int]):
    ct.store(y, ct.bid(0), ct.load(x, ct.bid(0), N))


@ct.kernel
def meta(x, out):
    """Extents and strides as the kernel sees them."""
    for d in ct.static_iter(range(x.ndim)):
        ct.store(out, 2 * d, x.shape[d])
        ct.store(out, 2 * d + 1, x.strides[d])


def seen(x):
    out = Guarded(2 * getattr(x, "array", x).ndim, np.int64)
    ct.launch(None, (1,), meta, (x, out.array))
    return out.check().tolist()


# -- strides and extents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", ml_dtypes.bfloat16, "f4"], ids=str)
def test_any_strides_in_and_out(executor, dtype):
    rng = np.random.default_rng()
    whole = rng.integers(0, 100, (23, 19)).astype(dtype)
    for k, view in enumerate((whole, whole.T, whole[::-1], whole[3::2, ::-3], whole[:, 5:6], whole[4:4], whole[:9].T)):
        out = Guarded((view.shape[0], 2 * view.shape[1] + 1), dtype)
        target = out.array[:, 1::2][:, :: -1 if k % 2 else 1]
        before = out.array[:, ::2].copy()
        ct.launch(None, (ct.cdiv(max(view.shape[0], 1), 8), ct.cdiv(view.shape[1], 4)), copy2, (view, target, 8, 4))
        out.check()
        assert (target == view).all()
        assert out.array[:, ::2].tobytes() == before.tobytes(), "written between"


def test_extents_and_strides_are_what_numpy_says(executor):
    x = np.zeros((5, 7, 6), np.int16)
    for view in (x, x.T, x[:, ::-2], np.broadcast_to(x[:1], (4, 7, 6)), x[2], x[0, 0], x[0, 0, 3:4], x[:0]):
        want = [n for s, t in zip(view.shape, view.strides, strict=True) for n in (s, t // 2)]
        assert seen(view) == want
        assert seen(Foreign(view) if view.ndim < 3 else view) == want


class Words:
    """An array of some other library, in the words of CUDA's array interface."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__array_interface__


def test_extents_of_the_words_of_others():
    from tinyton.tile.arguments import extents

    x = np.zeros((5, 7, 6), np.int16)
    assert extents(Words(x)) == ((5, 7, 6), (42, 6, 1))
    assert extents(Words(x[::-2, ::3])) == ((3, 3, 6), (-84, 18, 1))
    assert extents(tt.zeros((3, 4), "float16")) == ((3, 4), (4, 1))
    assert extents(np.float32(3)) is extents(3) is extents("x") is None


def test_our_arrays_and_pyopencls(executor):
    rng = np.random.default_rng()
    x = rng.normal(size=(9, 6)).astype(np.float32)
    out = tt.zeros((9, 6))
    ct.launch(None, (3, 2), copy2, (tt.to_device(x), out, 4, 4))
    same_bits(out.numpy(), x)
    if executor == "opencl":
        import pyopencl.array as cla

        queue = tt.backends.current().queue
        theirs, target = cla.to_device(queue, x), cla.zeros(queue, (6, 9), np.float32)
        ct.launch(None, (3, 3), copy2, (theirs[::2], target.T, 4, 2))
        want = np.zeros((9, 6), np.float32)
        want[:5] = x[::2]
        same_bits(target.get().T, want)


def test_dlpack_is_taken_as_it_is(executor):
    x = np.random.default_rng().integers(0, 9, (6, 10)).astype(np.int32)
    out = np.zeros((10, 6), np.int32)
    ct.launch(None, (3, 2), copy2, (Foreign(x.T), Foreign(out), 4, 4))
    same_bits(out, x.T)


def test_arrays_without_dimensions(executor):
    @ct.kernel
    def add(x, y, out):
        ct.store(out, (), ct.load(x, (), ()) + ct.gather(y, ()))

    out = Guarded((), np.float32)
    ct.launch(None, (1,), add, (np.array(2.5, np.float32), np.array(4, np.int32), out.array))
    assert out.check() == 6.5


def test_a_stride_of_zero(executor):
    out = np.zeros((6, 5), np.float32)
    row = np.random.default_rng().normal(size=5).astype(np.float32)
    ct.launch(None, (2, 2), copy2, (np.broadcast_to(row, (6, 5)), out, 4, 4))
    same_bits(out, np.broadcast_to(row, (6, 5)))


def test_a_read_only_array(executor):
    x = np.arange(4.0)
    x.flags.writeable = False
    out = np.zeros(4)
    ct.launch(None, (1,), copy1, (x, out, 4))
    same_bits(out, x)
    with pytest.raises(tt.LaunchError, match="argument y is read-only"):
        ct.launch(None, (1,), copy1, (out, x, 4))


def test_extents_beyond_32_bits(executor):
    """Memory is the system's to give: untouched pages of it are none."""
    if executor == "emulator":
        pytest.skip("it copies all of the array")
    n = (1 << 31) + 1000
    x = np.zeros(n, np.int8)
    x[-24:] = np.arange(24)
    out = np.zeros(64, np.int8)

    @ct.kernel
    def tail(x, out):
        last = ct.num_tiles(x, 0, 64) - 1
        ct.store(out, 0, ct.load(x, last, 64))
        ct.scatter(x, x.shape[0] - 1, 77)
        ct.store(x, (x.shape[0] // 4) - 300, 5)

    if executor == "opencl" and tt.backends.current().device.max_mem_alloc_size < n:  # PoCL: by how large memory is
        with pytest.raises(tt.BackendError, match=f"{n} bytes cannot be"):
            ct.launch(None, (1,), tail, (x, out))
        return
    ct.launch(None, (1,), tail, (x, out))
    want = np.zeros(64, np.int8)
    want[: n % 64] = np.r_[np.zeros(n % 64 - 24), np.arange(24)][: n % 64] if n % 64 >= 24 else x[n - n % 64 :]
    assert out[: n % 64].tolist() == want[: n % 64].tolist() and not out[n % 64 :].any()
    assert x[-1] == 77 and x[n // 4 - 300] == 5


def test_offsets_beyond_32_bits(executor):
    x = np.lib.stride_tricks.as_strided(np.arange(8, dtype=np.int32), (1 << 33, 4), (0, 4))
    out = Guarded((2, 4), np.int32)

    @ct.kernel
    def far(x, out):
        ct.store(out, (0, 0), ct.load(x, (x.shape[0] // 2 - 1, 0), (2, 4)))

    ct.launch(None, (1,), far, (x, out.array))
    assert out.check().tolist() == [[0, 1, 2, 3]] * 2
    assert seen(x) == [1 << 33, 0, 4, 1]


# -- variants ----------------------------------------------------------------------------------------------------------


def test_new_shapes_compile_nothing(executor):
    @ct.kernel
    def add(x, y, n):
        ct.store(y, (ct.bid(0), 0), ct.load(x, (ct.bid(0), 0), (4, 4)) + n)

    rng = np.random.default_rng()
    for rows, cols in ((9, 7), (11, 5), (3, 9), (101, 1001), (1, 3)):
        x, y = rng.normal(size=(rows, cols)), np.zeros((rows, cols))
        ct.launch(None, (ct.cdiv(rows, 4),), add, (x, y, 5))
        want = np.zeros_like(x)
        want[:, :4] = x[:, :4] + 5
        same_bits(y, want)
    assert len(add._cache) == 1
    for rows in (16, 32, 48, 4096):
        ct.launch(None, (1,), add, (np.zeros((rows, 16)), np.zeros((rows, 16)), 16))
    assert len(add._cache) <= 2
    before = len(add._cache)
    ct.launch(None, (1,), add, (np.zeros((7, 9)).T, np.zeros((9, 7)), 5))
    assert len(add._cache) == before + 1, "a stride that is 1 is another variant"
    ct.launch(None, (1,), add, (np.zeros((7, 9)).T, np.zeros((9, 7)), 1 << 40))
    assert len(add._cache) == before + 2, "an int64 is another variant"


def test_constants_are_part_of_a_variant(executor):
    @ct.kernel
    def put(out, VALUE: ct.Constant):
        ct.store(out, 0, VALUE)

    for value in (1, 2, 1.0, True, 2):
        out = np.zeros(1)
        ct.launch(None, (1,), put, (out, value))
        assert out[0] == value
    assert len(put._cache) == 4


# -- lists, tuples, dataclasses ----------------------------------------------------------------------------------------


@ct.kernel
def sum_list(xs, out, N: ct.Constant[int]):
    total = ct.load(xs[0], 0, N)
    for k in range(1, len(xs)):
        total += ct.load(xs[k], 0, N)
    ct.store(out, 0, total)
    ct.store(out, 1, ct.load(xs[ct.bid(0)], 0, N))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_lists_of_arrays(executor, count):
    rng = np.random.default_rng()
    xs = [rng.normal(size=rng.integers(1, 16)).astype(np.float32) for _ in range(count)]
    xs[-1] = np.repeat(xs[-1], 2)[::2]
    out = Guarded(20, np.float32)
    ct.launch(None, (1,), sum_list, (xs, out.array, 16))
    want = np.zeros(16, np.float32)
    padded = [np.pad(x, (0, 16 - len(x))) for x in xs]
    for x in padded:
        want = want + x
    same_bits(out.check()[:16], want)
    same_bits(out.array[16:], padded[0][:4])


def test_a_product_for_each_of_a_list(executor):
    """Arrays of different sizes, chosen at run time, read and written."""

    @ct.kernel
    def scale(xs, factors, ys):
        k = ct.bid(0)
        x, y = xs[k], ys[k]
        for i in range(ct.num_tiles(x, 0, (4, 4))):
            for j in range(ct.num_tiles(x, 1, (4, 4))):
                ct.store(y, (i, j), ct.load(x, (i, j), (4, 4)) * ct.load(factors, k, ()))

    rng = np.random.default_rng()
    sizes = [(3, 5), (8, 4), (1, 9)]
    xs = [rng.normal(size=s) for s in sizes]
    out = [Guarded(s, np.float64) for s in sizes]
    ct.launch(None, (3,), scale, (xs, np.array([2.0, 3.0, 4.0]), [g.array for g in out]))
    for k, (x, g) in enumerate(zip(xs, out, strict=True)):
        same_bits(g.check(), x * (k + 2))


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Parts:
    x: Any
    scale: float
    more: tuple
    TILE: ct.Constant[int] = 4
    name: str = "parts"
    none: Any = None


@ct.kernel
def with_parts(p, pair, out):
    n = p.more[1][0]
    v = ct.load(p.x, 0, p.TILE) * p.scale + ct.load(p.more[0], 0, p.TILE) + n
    if p.none is None and p.name == "parts":
        ct.store(out, 0, v)
    ct.store(out, 1, ct.load(pair.left, 0, p.TILE) - ct.load(pair[1], 0, p.TILE))


def test_tuples_and_dataclasses(executor):
    rng = np.random.default_rng()
    a, b = rng.normal(size=(2, 4)).astype(np.float32)
    out = Guarded(8, np.float32)
    parts = Parts(a, 0.5, (b, (3,)))
    ct.launch(None, (1,), with_parts, (parts, Pair(a, b), out.array))
    same_bits(out.check(), np.r_[a * np.float32(0.5) + b + np.float32(3), a - b])
    before = len(with_parts._cache)
    ct.launch(None, (1,), with_parts, (Parts(a, 0.25, (b, (-7,))), Pair(a, b), out.array))
    same_bits(out.check(), np.r_[a * np.float32(0.25) + b + np.float32(-7), a - b])
    assert len(with_parts._cache) == before, "numbers in a dataclass vary at run time"
    ct.launch(None, (1,), with_parts, (Parts(a, 0.25, (b, (-7,)), 2), Pair(a, b), out.array))
    assert len(with_parts._cache) == before + 1, "a constant in a dataclass does not"


# -- numbers and constants ---------------------------------------------------------------------------------------------


@ct.kernel
def numbers(out, a, b, c):
    ct.store(out, 0, a)
    ct.store(out, 1, b)
    ct.store(out, 2, c)


@pytest.mark.parametrize("kind", [float, np.float32, np.float64, np.float16, int, np.int8, np.uint16, np.int64])
def test_scalars(executor, kind):
    out = Guarded(3, np.float64)
    ct.launch(None, (1,), numbers, (out.array, kind(7), kind(0), True if kind is int else kind(100)))
    assert out.check().tolist() == [7, 0, 1 if kind is int else 100]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


@ct.kernel
def constants(
    out, color: ct.Constant[Color], level: ct.Constant, text: ct.Constant[str], dtype: ct.Constant, some: ct.Constant
):
    if color is Color.RED:
        ct.store(out, 0, level)
    if text == "twice":
        ct.store(out, 1, 2.0)
    if some is None:
        ct.store(out, 2, 3)
    ct.store(out, 3, ct.full((), 300.7, dtype) + 0.5 if dtype == ct.float16 else ct.full((), 7, dtype))


def test_constants_of_any_type(executor):
    out = np.zeros(4)
    ct.launch(None, (1,), constants, (out, Color.RED, Level.HIGH, "twice", ct.int32, None))
    assert out.tolist() == [5, 2, 3, 7]
    out = np.zeros(4)
    ct.launch(None, (1,), constants, (out, Color.BLUE, Level.HIGH, "once", np.float16, 1))
    assert out.tolist() == [0, 0, 0, 301.25]
    for dtype in (np.dtype("int16"), np.int16, ct.int16):
        ct.launch(None, (1,), constants, (out, Color.BLUE, 0, "once", dtype, (1, 2)))
        assert out[3] == 7


class Torch:
    """As torch's types are written."""

    def __str__(self):
        return "torch.int64"


def test_torchs_types_are_constants(executor):
    Torch.__name__ = "dtype"
    out = np.zeros(4, np.float64)
    ct.launch(None, (1,), constants, (out, Color.BLUE, 0, "", Torch(), 0))
    assert out[3] == 7


@ct.kernel
def typed(out, n: ct.Constant[int], f: ct.Constant[float], b: ct.Constant[bool], o: ct.Constant[int | None]):
    ct.store(out, 0, n // 2)
    ct.store(out, 1, f / 2)
    if b and o is None:
        ct.store(out, 2, 1)


def test_constants_are_checked(executor):
    out = np.zeros(3)
    ct.launch(None, (1,), typed, (out, np.int64(7), 3, True, None))
    assert out.tolist() == [3, 1.5, 1]
    for args, words in (
        ((7.0, 1.0, True, None), "argument n is a float, 7.0, not int"),
        (("7", 1.0, True, None), "argument n is a str, '7', not int"),
        ((np.zeros(3), 1.0, True, None), "argument n is a ndarray, not int"),
        ((7, "1", True, None), "argument f is a str, '1', not float"),
        ((7, 1.0, 1, None), "argument b is a int, 1, not bool"),
        ((7, 1.0, True, "x"), "argument o is a str, 'x', not int or NoneType"),
    ):
        with pytest.raises(TypeError, match=words):
            ct.launch(None, (1,), typed, (out, *args))
    with pytest.raises(TypeError, match="argument VALUE is a list, which cannot be part"):

        @ct.kernel
        def put(out, VALUE: ct.Constant):
            ct.store(out, 0, 0)

        ct.launch(None, (1,), put, (out, [1, 2]))


# -- annotations -------------------------------------------------------------------------------------------------------

Fixed = Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(-1,), static_stride_dims=(0,))]


@ct.kernel
def fixed(x: Fixed, y: ct.Array, n: ct.ScalarInt64, m: ct.Scalar, out: ct.IndexedWithInt64):
    tile = ct.load(x, (0, 0), (2, x.shape[1]))
    ct.static_assert(x.strides[0] == 16)
    ct.store(out, (0, 0), tile)
    ct.store(out, (2, 0), n * m)
    ct.static_assert(n.dtype == ct.int64 and out.shape[0].dtype == ct.int64 and y.shape[0].dtype == ct.int32)


def test_annotations(executor):
    fixed._cache.clear()
    x = np.random.default_rng().integers(0, 99, (5, 16))
    out = Guarded((3, 8), np.int64)
    args = (x[:, :8], x, 1 << 20, 1 << 20, out.array)
    ct.launch(None, (1,), fixed, args)
    assert (out.check()[:2] == x[:2, :8]).all() and out.array[2, 0] == 1 << 40
    ct.launch(None, (1,), fixed, (x[:3, :4], *args[1:]))
    assert len(fixed._cache) == 2
    with pytest.raises(ct.TileTypeError, match="not a power of two"):
        ct.launch(None, (1,), fixed, (x[:, :7], *args[1:]))
    with pytest.raises(ValueError, match="argument x has 0 dimensions; its annotation is about dimension -1"):
        ct.launch(None, (1,), fixed, (np.array(3), *args[1:]))


@ct.kernel
def listed(xs: Annotated[list, ct.ListAnnotation(element=ct.IndexedWithInt64)], out: "ct.Array"):
    ct.store(out, 0, ct.load(xs[ct.bid(0)], 0, 4))
    ct.static_assert(xs[0].shape[0].dtype == ct.int64)


def test_annotations_of_lists(executor):
    x, out = np.arange(4.0), np.zeros(4)
    ct.launch(None, (1,), listed, ([x, x], out))
    same_bits(out, x)


def test_annotations_are_checked():
    for wrong, words in (
        (lambda: ct.ArrayAnnotation(index_dtype=ct.int16), "ct.int32 or ct.int64, not int16"),
        (lambda: ct.ArrayAnnotation(static_shape_dims=[0]), "static_shape_dims is a tuple of ints"),
        (lambda: ct.ArrayAnnotation(static_stride_dims=(0.5,)), "static_stride_dims is a tuple of ints"),
        (lambda: ct.ListAnnotation(element=int), "element is a ct.ArrayAnnotation"),
        (lambda: ct.ListAnnotation(element=Annotated[int, 3]), "element is a ct.ArrayAnnotation"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            wrong()


# -- what is refused ---------------------------------------------------------------------------------------------------


@dataclass
class Thawed:
    x: int


@pytest.mark.parametrize(
    "x, words",
    [
        ("abc", "argument x is a str, 'abc'; annotate the parameter with ct.Constant"),
        (None, "argument x is None; annotate the parameter with ct.Constant"),
        (Color.RED, r"argument x is a Color, <Color.RED: 'red'>; annotate"),
        (ct.float32, "argument x is a DType; annotate"),
        (np.float32, "argument x is a type; annotate"),
        (len, "argument x is a builtin_function_or_method; annotate"),
        (1j, "argument x is a complex; a kernel takes arrays, ints, floats and bools"),
        ({1: 2}, "argument x is a dict; a kernel takes"),
        (Thawed(3), "argument x is a Thawed; put frozen=True on its dataclass"),
        ([], "argument x is an empty list"),
        ([1, 2], r"argument x is a list of arrays .* x\[0\] is no array"),
        ([np.zeros(3), np.zeros(3, "f4")], r"x\[1\] has 1 dimensions of float32, x\[0\] 1 of float64"),
        ([np.zeros(3), np.zeros((3, 1))], r"x\[1\] has 2 dimensions of float64, x\[0\] 1 of float64"),
        (np.zeros(3, complex), "argument x: elements of type complex128"),
        (np.zeros(3, "V3"), "argument x: elements of type"),
        (np.zeros(4, ">i4"), "argument x has byte order"),
        (np.zeros(5, "u1")[1:].view("i4"), "argument x has strides|aligned"),
        ((1, "a", {}), r"argument x\[2\] is a dict"),
        (np.ma.zeros(3), "argument x is a masked array"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_arguments_that_are_refused(executor, x, words):
    @ct.kernel
    def nothing(x):
        pass

    with pytest.raises(tt.LaunchError, match=words) as caught:
        ct.launch(None, (1,), nothing, (x,))
    assert isinstance(caught.value, TypeError)


def test_ints_beyond_64_bits(executor):
    with pytest.raises(tt.LaunchError, match="argument a is 18446744073709551616, which does not fit int64"):
        ct.launch(None, (1,), numbers, (np.zeros(3), 1 << 64, 0, 0))


def test_messages_of_the_interpreter_name_the_users_array(interpreter):
    @ct.kernel
    def beyond(xs, y):
        ct.store(y, 0, ct.load(xs[1], 5, 4, check_bounds=False))

    with pytest.raises(tt.TinytonError, match=r"goes to 20 along axis 0 of xs\[1\], which has 7 elements"):
        ct.launch(None, (1,), beyond, ([np.zeros(7), np.zeros(7)], np.zeros(4)))

    @ct.kernel
    def race(total):
        ct.store(total, 0, ct.load(total, 0, 1) + 1)

    with pytest.raises(tt.TinytonError, match="element 0 of total, which program"):
        ct.launch(None, (3,), race, (np.zeros(1),))


# -- in kernels --------------------------------------------------------------------------------------------------------


def refused(body, *args, error=ct.TileTypeError):
    from conftest import kernel

    text = f"@ct.kernel\ndef k(x, y, xs):\n    {body}"
    with pytest.raises(error) as caught:
        ct.launch(None, (1,), kernel(text, ct=ct), args or (np.zeros((4, 4)), np.zeros((4, 4)), [np.zeros(3)] * 2))
    return underlined(caught.value), str(caught.value)


def test_arrays_are_not_subscripted(interpreter):
    for body in ("ct.store(y, (0, 0), x[0, 1])", "ct.store(y, (0, 0), x[ct.bid(0)])", "ct.store(y, (0, 0), x[:, 0:2])"):
        where, message = refused(body)
        assert where.startswith("x[") and "ct.load(x, index, shape)" in message and "ct.gather" in message


def test_lists_are_subscripted_with_ints(interpreter):
    assert "no array 2 in a list of 2" in refused("xs[2].shape", error=ct.TileValueError)[1]
    assert "takes an int as index" in refused("xs[0.5].shape")[1]
    assert "made of integers" in refused("xs[ct.load(y, (0, 0), ())].shape")[1]
    assert "a scalar, not a tile" in refused("xs[ct.load(y, (0, 0), (2, 2)).astype(ct.int32)].shape")[1]
    assert "choose one of the list" in refused("ct.load(xs, 0, 4)")[1]


def test_slices_stay_inside(executor):
    @ct.kernel
    def parts(x, out, axis: ct.Constant, start, stop, N: ct.Constant[int]):
        part = x.slice(axis, start, stop)
        ct.store(out, (0, 0), ct.load(part, (0, 0), (N, N), padding_mode=ct.PaddingMode.ZERO))
        ct.store(part, (0, 0), ct.full((N, N), -1, x.dtype))

    rng = np.random.default_rng()
    for axis, start, stop in ((0, 1, 4), (1, 2, 6), (-1, 0, 3), (0, -3, 2), (1, 5, 99), (0, 4, 2), (1, 9, 12)):
        memory = Guarded((6, 7), np.int32)
        x = memory.array
        x[...] = rng.integers(0, 99, x.shape)
        before, out = x.copy(), np.full((8, 8), 5, np.int32)
        ct.launch(None, (1,), parts, (x, out, axis, start, stop, 8))
        n = x.shape[axis]
        low = min(max(start, 0), n)
        cut = slice(low, min(max(stop, low), n))
        cut = (cut,) if axis == 0 else (slice(None), cut)
        want = np.zeros((8, 8), np.int32)
        part = before[cut]
        want[: part.shape[0], : part.shape[1]] = part
        same_bits(out, want)
        before[cut] = -1
        same_bits(memory.check(), before)


def test_slices_of_slices_and_of_views(executor):
    @ct.kernel
    def inner(x, out, k):
        part = x.slice(0, k, x.shape[0]).slice(1, 1, 4).slice(0, 0, 2)
        ct.store(out, 0, part.shape[0] * 10 + part.shape[1])
        ct.store(out, 1, ct.load(part, (1, 2), ()))

    x, out = np.arange(42).reshape(6, 7)[::-1, ::2], np.zeros(2, np.int64)
    ct.launch(None, (1,), inner, (x, out, 3))
    assert out.tolist() == [23, x[4, 3]]


def test_the_tools_know_arrays(executor, capsys):
    x, y = np.random.default_rng().normal(size=(2, 64)).astype(np.float32)
    compiled = copy1.compile(x, y, 32)
    assert "x_data" in compiled.source and compiled.constants == {"N": 32}
    assert any(op.name == "load" for op in compiled.ir.ops())
    compiled.explain()
    assert "copy1" in capsys.readouterr().out
    counted = tt.count(copy1, (2,), x, y, 32)
    assert (counted.bytes_loaded, counted.bytes_stored) == (256, 256)
    assert not tt.lint(copy1, (2,), x, y, 32, sm_count=2)
    beyond = tt.lint(copy1, (2,), x[:63], x[1:], 32, sm_count=1)
    assert [f.rule for f in beyond] == ["race"] and "of x, which" in beyond[0].message


def test_nothing_is_kept_alive(executor):
    import gc
    import weakref

    x = np.zeros(8, np.float32)
    alive = weakref.ref(x)
    ct.launch(None, (1,), copy1, (x, np.zeros(8, np.float32), 8))
    del x
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", EXECUTORS)
def test_both_orders_of_memory_compile_to_vectors_or_not(name, monkeypatch):
    """A stride of 1 is known when the kernel is compiled; another is not."""
    choose(name, monkeypatch)
    x = np.zeros((16, 32), np.float32)
    one, other = (copy2.compile(v, v, 8, 8).source for v in (x, x.T))
    assert "x_stride1" not in one and "x_stride0" in one
    assert "x_stride0" not in other and "x_stride1" in other
