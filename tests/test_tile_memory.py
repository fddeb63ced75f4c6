"""Loads and stores by tile index, gathers and scatters, views: against NumPy, and what is refused."""

import math
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import Guarded, kernel, same_bits, underlined

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", ml_dtypes.bfloat16, "f4", "f8"]
FLOATS = DTYPES[-4:]
INTS = DTYPES[:-4]
PADDING = {"UNDETERMINED": 0.0, "ZERO": 0.0, "NEG_ZERO": -0.0}
PADDING |= {"NAN": math.nan, "POS_INF": math.inf, "NEG_INF": -math.inf}


def sample(shape, dtype):
    return np.random.default_rng().integers(0, 100, shape).astype(dtype)


def tile_of(x, index, shape, order=None, fill=0.0, steps=None):
    """What a load gives, element by element."""
    x = x.transpose(order) if order else x
    starts = [i * n for i, n in zip(index, steps or shape, strict=True)]
    out = np.full(shape, fill).astype(x.dtype)
    for at in np.ndindex(*shape):
        place = tuple(s + k for s, k in zip(starts, at, strict=True))
        if all(0 <= p < n for p, n in zip(place, x.shape, strict=True)):
            out[at] = x[place]
    return out


# -- loads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_padding_of_every_type(executor, dtype):
    """Tiles inside of the array, partly inside, and wholly outside, on every side."""
    modes = [m for m in ct.PaddingMode if dtype in FLOATS or m.name in ("UNDETERMINED", "ZERO", "NEG_ZERO")]

    @ct.kernel
    def pad(x, out, i, j, MODES: ct.Constant):
        for k in ct.static_iter(range(len(MODES))):
            tile = ct.load(x, (i, j), (4, 8), padding_mode=MODES[k])
            ct.store(out, (k, ct.bid(0), 0, 0), tile[None, None])

    x = sample((6, 11), dtype)
    for i, j in ((0, 0), (1, 1), (2, 0), (0, 2), (-1, 0), (0, -3), (1 << 28, 1), (1, -(1 << 27))):
        out = Guarded((len(modes), 1, 4, 8), dtype)
        ct.launch(None, (1,), pad, (x, out.array, i, j, tuple(modes)))
        for k, mode in enumerate(modes):
            same_bits(out.check()[k, 0], tile_of(x, (i, j), (4, 8), fill=PADDING[mode.name]))


@pytest.mark.parametrize("order", ["C", "F", (0, 2, 1), (1, 0, 2), (2, 0, 1), (1, 2, 0), (-1, 0, 1)], ids=str)
def test_orders_of_axes(executor, order):
    @ct.kernel
    def permuted(x, out, back, i, j, k, ORDER: ct.Constant):
        tile = ct.load(x, (i, j, k), (2, 4, 8), order=ORDER)
        ct.store(out, (0, 0, 0), tile)
        ct.store(back, (i, j, k), tile, order=ORDER)

    axes = {"C": (0, 1, 2), "F": (2, 1, 0)}.get(order, order)
    x = sample((5, 9, 7), np.float32)[:, ::-1]
    for index in ((0, 0, 0), (1, 1, 0), (0, 0, 1), (2, 1, -1)):
        out, back = Guarded((2, 4, 8), np.float32), Guarded(x.shape, np.float32)
        back.array[...] = -1
        ct.launch(None, (1,), permuted, (x, out.array, back.array, *index, order))
        want = tile_of(x, index, (2, 4, 8), axes)
        same_bits(out.check(), want)
        inside = tile_of(np.ones_like(x), index, (2, 4, 8), axes) > 0
        assert np.array_equal(np.sort(back.check()[back.array != -1]), np.sort(want[inside]))
        assert (x[back.array != -1] == back.array[back.array != -1]).all()


def test_the_number_of_tiles_follows_the_order(executor):
    @ct.kernel
    def count(x, out):
        for d in ct.static_iter(range(3)):
            ct.store(out, d, ct.num_tiles(x, d, (2, 4, 8)))
            ct.store(out, 3 + d, ct.num_tiles(x, d - 3, shape=(2, 4, 8), order=(2, 0, 1)))
            ct.store(out, 6 + d, ct.num_tiles(x, axis=d, shape=(2, 4, 8), order="F"))

    for shape in ((5, 9, 7), (4, 8, 16), (1, 1, 1), (0, 3, 100)):
        out = Guarded(9, np.int32)
        ct.launch(None, (1,), count, (np.zeros(shape, np.int8), out.array))
        ceil = lambda n, t: [-(-a // b) for a, b in zip(n, t, strict=True)]  # noqa: E731
        a, b, c = shape
        assert out.check().tolist() == [
            *ceil(shape, (2, 4, 8)),
            *ceil((c, a, b), (2, 4, 8)),
            *ceil((c, b, a), (2, 4, 8)),
        ]


def test_scalars(executor):
    """An index of a tile of one element is the element's."""

    @ct.kernel
    def one(x, out, i, j):
        v = ct.load(x, (i, j), shape=(), padding_mode=ct.PaddingMode.NAN)
        ct.static_assert(v.shape == () and v.ndim == 0)
        ct.store(out, (j, i), v * 2)
        ct.store(out, (j + 1, i), 7)
        ct.store(out, (-1, 0), v)

    x, out = sample((3, 5), np.float32), Guarded((5, 3), np.float32)
    out.array[...] = 0
    want = np.zeros((5, 3), np.float32)
    for i, j in ((0, 0), (2, 3), (1, 4), (3, 1)):
        ct.launch(None, (1,), one, (x, out.array, i, j))
        if i < 3:
            want[j, i] = 2 * x[i, j]
            if j < 4:
                want[j + 1, i] = 7
    same_bits(out.check(), want)


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_an_index_of_any_int(executor, kind):
    @ct.kernel
    def at(x, i, out):
        k = ct.load(i, 0, ())
        ct.store(out, 0, ct.load(x, k, 4))
        ct.store(out, k, ct.load(x, (k,), (4,)))
        ct.store(out, 4, ct.gather(x, ct.load(i, 0, 1)))

    x, out = sample(40, np.int32), Guarded(20, np.int32)
    ct.launch(None, (1,), at, (x, np.array([3], kind), out.array))
    assert out.check()[:4].tolist() == out.array[12:16].tolist() == x[12:16].tolist() and out.array[4] == x[3]


def test_an_index_beyond_32_bits_is_outside(executor):
    @ct.kernel
    def far(x, out, i):
        ct.store(out, 0, ct.load(x, i, 4, padding_mode=ct.PaddingMode.POS_INF))
        ct.store(x, i, 1.0)
        ct.store(out, 1, ct.load(x, 1 << 30, 16))

    x, out = np.zeros(9), Guarded(20, np.float64)
    for i in ((1 << 30), (1 << 32), -(1 << 60), (1 << 60)):
        ct.launch(None, (1,), far, (x, out.array, i))
        assert np.isinf(out.check()[:4]).all() and not x.any() and not out.array[16:].any()


def test_the_grid_walks_over_tiles(executor):
    """The same tile at another place: (0, bid) and (bid, 0)."""

    @ct.kernel
    def walk(x, rows, cols, T: ct.Constant[int]):
        k = ct.bid(0)
        ct.store(rows, (0, k), ct.load(x, index=(0, k), shape=(T, T)))
        ct.store(cols, (k, 0), ct.load(x, index=(k, 0), shape=(T, T)))

    x = sample((37, 29), np.float32)
    rows, cols = Guarded((8, 29), np.float32), Guarded((37, 8), np.float32)
    ct.launch(None, (5,), walk, (x, rows.array, cols.array, 8))
    same_bits(rows.check(), x[:8])
    same_bits(cols.check(), x[:, :8])


def test_a_size_that_is_no_power_of_two(executor):
    """Pass the size and the next power of two: what is beyond the array is zero."""

    def next_power_of_2(x):
        return 1 << (x - 1).bit_length()

    @ct.kernel
    def squares(x, out, total, SIZE: ct.Constant[int], SIZE_P: ct.Constant[int]):
        tx = ct.load(x, index=(ct.bid(0), ct.bid(1)), shape=(SIZE_P, SIZE_P))
        ct.store(out, index=(ct.bid(0), ct.bid(1)), tile=tx * tx)
        ct.store(total, (0, 0), ct.sum(tx * SIZE))

    size = 10
    size_p = next_power_of_2(size)
    assert size_p == 16
    x, out, total = sample((size, size), np.float32), Guarded((size, size), np.float32), np.zeros((1, 1), np.float32)
    ct.launch(None, (1, 1), squares, (x, out.array, total, size, size_p))
    same_bits(out.check(), x * x)
    assert total[0, 0] == 10 * x.sum()


def test_bounds_that_nobody_checks(executor):
    @ct.kernel
    def whole(x, out, N: ct.Constant[int]):
        i = ct.bid(0)
        v = ct.load(x, i, N, check_bounds=False, padding_mode=ct.PaddingMode.NAN, latency=10, allow_tma=False)
        ct.store(out, i, v, check_bounds=False, latency=1, allow_tma=True)

    x, out = sample(64, np.float32), Guarded(64, np.float32)
    ct.launch(None, (4,), whole, (x, out.array, 16))
    same_bits(out.check(), x)
    source = whole.compile(x, out.array, 16).source
    assert source.count("x_shape0") == source.count("out_shape0") == 1, "as a parameter alone"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("ct.load(x, (0, 1), (4, 4), check_bounds=False)", "6 along axis 1"),
        ("ct.load(x, (1, 0), (4, 4), order='F', check_bounds=False)", "6 along axis 1"),
        ("ct.gather(x, (1, -1), check_bounds=False)", "-1 along axis 1"),
        ("x.tiled_view((4, 4)).load((0, 1), check_bounds=False)", "6 along axis 1"),
        ("ct.load(x.slice(1, 0, 2), (0, 0), (4, 4), check_bounds=False)", "2 along axis 1"),
        ("ct.atomic_add(x, (8, 0), 1.0, check_bounds=False)", "8 along axis 0"),
    ],
)
def test_outside_of_an_axis_is_seen_inside_of_memory(interpreter, body, place):
    """Beyond the end of a row the next one begins; the interpreter tells them apart."""
    k = kernel(f"@ct.kernel\ndef k(x):\n    a = {body}\n    ct.store(x, (0, 0), ct.sum(a))", ct=ct)
    with pytest.raises(ct.TileError, match=f"goes to {place} .*; leave check_bounds=False out"):
        ct.launch(None, (1,), k, (np.zeros((8, 6), np.float32),))


def test_what_is_masked_may_be_outside(executor):
    text = """
    @ct.kernel
    def k(x, out):
        i = ct.arange(8, dtype=ct.int32)
        ct.store(out, 0, ct.gather(x, (1, i), mask=i < 6, check_bounds=False))
        ct.store(out, 1, x.get_raw_memory().load_offset(i + 6))
    """
    x, out = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(16, np.float32)
    ct.launch(None, (1,), kernel(dedent(text), ct=ct), (x, out))
    assert out.tolist() == [*range(6, 12), 0, 0, *range(6, 14)]


def test_one_dimension_is_what_pointers_give(executor):
    """The same C as of the pointers' spelling, but for names."""

    @ct.kernel
    def double(x, out, BLOCK: ct.Constant[int]):
        i = ct.bid(0)
        v = ct.load(x, i, BLOCK)
        ct.store(out, i, v + v)

    @tt.jit
    def by_pointers(x, out, n, m, BLOCK: tt.constexpr):
        i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        v = tt.load(x + i, mask=i < n)
        tt.store(out + i, v + v, mask=i < m)

    x = np.zeros(100, np.float32)
    one = [op.name for op in double.compile(x, x, 64).ir.ops()]
    other = [op.name for op in by_pointers.compile(x, x, 100, 100, BLOCK=64).ir.ops()]
    assert sorted(set(one)) == sorted(set(other)) and one.count("lt") == 2 and one.count("ge") == 0


# -- stores ------------------------------------------------------------------------------------------------------------


def widens(a, b):
    try:
        return tt.dtypes.promote(a, b) is b
    except ct.TileTypeError:
        return False


@pytest.mark.parametrize("target", tt.dtypes.ALL, ids=str)
def test_what_is_stored_widens(executor, target):
    """Every type to every type: converted, or refused with the way to write it."""
    name = {"bool": "bool_"}.get(target.name, target.name)
    numpy = np.dtype(ml_dtypes.bfloat16 if target.name == "bfloat16" else target.name)
    good = [d for d in tt.dtypes.ALL if widens(d, target)]
    others = [d for d in tt.dtypes.ALL if d not in good]

    @ct.kernel
    def convert(out, TYPES: ct.Constant):
        for k in ct.static_iter(range(len(TYPES))):
            ct.store(out, k, ct.full((2,), 1, TYPES[k]))

    out = Guarded(2 * len(good), numpy)
    ct.launch(None, (1,), convert, (out.array, tuple(good)))
    assert (out.check() == np.ones(1, numpy)).all()
    for d in others:
        with pytest.raises(ct.TileTypeError, match=rf"{d} does not widen to {target}; write \.astype\(ct\.{name}\)"):
            ct.launch(None, (1,), convert, (out.array, (d,)))


def refused(body, *args, error=ct.TileTypeError, also=""):
    text = f"@ct.kernel\ndef k(x, y, i, n):\n    {also or 'pass'}\n    {body}"
    args = args or (np.zeros((4, 4), np.float32), np.zeros(4, np.int32), np.zeros(4, np.int32), 1)
    with pytest.raises(error) as caught:
        ct.launch(None, (1,), kernel(text, ct=ct), args)
    return underlined(caught.value), str(caught.value).split("\n")[-1]


def test_wrong_stores(interpreter):
    where, what = refused("ct.store(y, 0, ct.full((4,), 1.5, ct.float32))")
    assert where == "ct.full((4,), 1.5, ct.float32)" and "write .astype(ct.int32)" in what
    where, what = refused("ct.store(x, (0, 0), ct.full((4,), 1, ct.int8))")
    assert (
        where == "ct.full((4,), 1, ct.int8)"
        and "shape [4]" in what
        and "array of 2 dimensions" in what
        and "reshape" in what
    )
    assert "float32 does not widen" in refused("ct.store(y, 0, 1.5)")[1]
    assert (
        "300 is out of range for int8"
        in refused("ct.store(x, 0, 300)", np.zeros(3, np.int8), 0, 0, 0, error=ct.TileValueError)[1]
    )
    where, what = refused("ct.store(y, 0, x)")
    words = "expected a tile or a number, not an array of 2 dimensions of float32; ct.load reads a tile of it"
    assert (where, what) == ("x", words)
    assert refused("ct.store(y, 0, None)")[1] == "expected a tile or a number, not None"


@pytest.mark.parametrize(
    "body, where, words",
    [
        ("ct.load(x, (0, 0), (4, 10))", "(4, 10)", ["dimension 1", "10", "next_power_of_2(10) = 16"]),
        ("ct.load(y, 0, 0)", "0", ["dimension 0", "0", "power of two"]),
        ("ct.load(y, 0, n)", "n", ["ct.Constant", "run-time"]),
        ("ct.load(y, 0, 4.0)", "4.0", ["shape must be an int"]),
        ("ct.load(x, 0, (4, 4))", "0", ["index has 1 entry", "array has 2 dimensions"]),
        ("ct.load(y, (0, 0), 4)", "(0, 0)", ["index has 2 entries", "array has 1 dimension"]),
        ("ct.load(x, (0, 0), 4)", "4", ["shape of the tile has 1 entry", "2 dimensions"]),
        ("ct.load(x, (0, 0.5), (4, 4))", "(0, 0.5)", ["made of integers", "f32"]),
        ("ct.load(y, True, 4)", "True", ["made of integers", "i1"]),
        ("ct.load(y, ct.load(y, 0, 4), 4)", "ct.load(y, 0, 4)", ["a scalar, not a tile"]),
        ("ct.load(y, ct.load(y, 0, 1), 4)", "ct.load(y, 0, 1)", ["a scalar, not a tile", ".item()"]),
        ("ct.load(y, None, 4)", "None", ["made of integers", "None"]),
        ("ct.load(ct.load(y, 0, 4), 0, 4)", "ct.load(y, 0, 4)", ["ct.reshape", "ct.transpose", "ct.extract"]),
        ("ct.load(n, 0, 4)", "n", ["expected an array", "ct.extract"]),
        ("ct.load(3, 0, 4)", "3", ["expected an array argument, not int 3"]),
        ("ct.load(x, (0, 0), (4, 4), order=(0, 0))", "(0, 0)", ["axis 0 is there twice"]),
        ("ct.load(x, (0, 0), (4, 4), order=(0, 2))", "(0, 2)", ["each once"]),
        ("ct.load(x, (0, 0), (4, 4), order=(0,))", "(0,)", ["each once"]),
        ('ct.load(x, (0, 0), (4, 4), order="K")', '"K"', ['"C", "F"']),
        ("ct.load(x, (0, 0), (4, 4), order=None)", "None", ["int"]),
        ("ct.load(y, 0, 4, padding_mode=ct.PaddingMode.NAN)", "ct.PaddingMode.NAN", ["int32", "nan", "NAN"]),
        ("ct.load(y, 0, 4, padding_mode=ct.PaddingMode.NEG_INF)", "ct.PaddingMode.NEG_INF", ["int32", "-inf"]),
        ("ct.load(y, 0, 4, padding_mode=0)", "0", ["ct.PaddingMode"]),
        ("ct.load(y, 0, 4, check_bounds=1)", "1", ["check_bounds is True or False"]),
        ("ct.load(y, 0, 4, allow_tma=3)", "3", ["allow_tma is True or False"]),
        ("ct.load(y, 0, 4, check_bounds=n > 3)", "n > 3", ["True or False"]),
        ("ct.load(y, 0, 4, latency=2.5)", "2.5", ["int"]),
        ("ct.load(y, 0, 4, memory_order=ct.MemoryOrder.RELAXED)", None, ["needs a memory scope"]),
        ("ct.load(y, 0, 4, memory_scope=ct.MemoryScope.DEVICE)", None, ["a weak access has no memory scope"]),
        ("ct.load(y, 0, 4, memory_order=ct.MemoryOrder.RELEASE)", None, ["one of", "ACQUIRE"]),
        ("ct.store(y, 0, 4, memory_order=ct.MemoryOrder.ACQUIRE)", None, ["one of", "RELEASE"]),
        ("ct.num_tiles(x, 0, 4)", "4", ["2 dimensions"]),
        ("ct.num_tiles(x, n, (4, 4))", "n", ["run-time"]),
        ("ct.gather(x, i)", "i", ["1 entry", "2 dimensions"]),
        ("ct.gather(y, (0, 0))", "(0, 0)", ["2 entries", "1 dimension"]),
        ("ct.gather(y, 0.5)", "0.5", ["integers"]),
        ("ct.gather(y, y)", "y", ["integers"]),
        ("ct.gather(y, ct.load(x, (0, 0), (4, 4)))", None, ["integers", "f32"]),
        ("ct.gather(y, (ct.load(y, 0, 4) > 0,))", None, ["integers", "i1"]),
        ("ct.gather(x, (ct.load(i, 0, 4), ct.load(i, 0, 2)))", None, ["do not broadcast"]),
        ("ct.gather(y, ct.load(i, 0, 4), mask=ct.load(i, 0, 4))", "ct.load(i, 0, 4)", ["mask is bool"]),
        ("ct.gather(y, ct.load(i, 0, 4), mask=ct.load(i, 0, 2) > 0)", "ct.load(i, 0, 2) > 0", ["broadcast"]),
        ("ct.gather(y, 0, mask=ct.load(i, 0, 2) > 0)", "ct.load(i, 0, 2) > 0", ["broadcast"]),
        ("ct.gather(y, ct.load(i, 0, 4), padding_value=0.5)", "0.5", [".astype(ct.int32)"]),
        ("ct.gather(y, 0, padding_value=ct.load(i, 0, 4))", "ct.load(i, 0, 4)", ["broadcast"]),
        ("ct.scatter(y, ct.load(i, 0, 4), 0.5)", "0.5", [".astype(ct.int32)"]),
        ("ct.scatter(y, ct.load(i, 0, 4), ct.load(i, 0, 2))", "ct.load(i, 0, 2)", ["broadcast"]),
        ("ct.scatter(y, 0, ct.load(i, 0, 2))", "ct.load(i, 0, 2)", ["broadcast"]),
        ("ct.load_advanced_indexing(y, (ct.load(i, 0, 4),))", None, ["ct.Slice(start, length)"]),
        ("ct.load_advanced_indexing(x, (ct.load(i, 0, 4), 0))", None, ["ct.Slice"]),
        ("ct.load_advanced_indexing(x, (ct.Slice(0, 4), ct.Slice(0, 4)))", None, ["0 of 2"]),
        ("ct.load_advanced_indexing(x, (0, ct.Slice(0, 4)))", None, ["one dimension"]),
        ("ct.load_advanced_indexing(x, (ct.load(i, 0, 4), ct.Slice(0, 3)))", "3", ["power of two"]),
        ("ct.Slice(0.5, 4)", "0.5", ["integers"]),
        ("ct.store_advanced_indexing(x, (ct.load(i, 0, 4), ct.Slice(0, 2)), ct.load(y, 0, 4))", None, ["[4, 2]"]),
        ("x.tiled_view(4)", "4", ["2 dimensions"]),
        ("x.tiled_view((4, 3))", "(4, 3)", ["dimension 1", "3"]),
        ("x.tiled_view((4, 4), traversal_steps=2)", "2", ["2 dimensions"]),
        ("x.tiled_view((4, 4), traversal_steps=(2, 0))", "(2, 0)", ["from 1 on"]),
        ("y.tiled_view(4, padding_mode=ct.PaddingMode.NAN)", "ct.PaddingMode.NAN", ["int32"]),
        ("y.tiled_view(4).store(0, ct.load(i, 0, 2))", "ct.load(i, 0, 2)", ["broadcast"]),
        ("y.tiled_view(4).load((0, 0))", "(0, 0)", ["2 entries"]),
        ("y.slice(n, 0, 1)", "n", ["run-time"]),
        ("ct.max(x)", None, ["not an array of 2 dimensions of float32"]),
        ("y.slice(0, 0.0, 1)", "0.0", ["integers"]),
        ("y.get_raw_memory().load_offset(0.5)", "0.5", ["integers"]),
        ("y.get_raw_memory().store_offset(0, 0.5)", "0.5", [".astype(ct.int32)"]),
    ],
)  # fmt: skip
def test_what_is_refused(interpreter, body, where, words):
    caret, message = refused(body)
    assert all(word in message for word in words), message
    assert where is None or caret == where
    assert "tt." not in message


@pytest.mark.parametrize("latency", [0, 11, -1])
def test_latency_is_checked(interpreter, latency):
    for call in (
        f"ct.load(y, 0, 4, latency={latency})",
        f"ct.store(y, 0, 4, latency={latency})",
        f"ct.gather(y, 0, latency={latency})",
        f"ct.scatter(y, 0, 0, latency={latency})",
        f"y.tiled_view(4).load(0, latency={latency})",
    ):
        assert refused(call, error=ct.TileValueError) == (str(latency), f"a latency is 1 to 10, not {latency}")


# -- orders of memory --------------------------------------------------------------------------------------------------


def test_flags_between_programs(executor):
    """Each program waits for the one before it: what that one has written is there."""
    if executor == "emulator":
        pytest.skip("one program runs after another")

    @ct.kernel
    def chain(flag, total, out):
        k = ct.bid(0)
        while ct.load(flag, 0, (), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE) != k:
            pass
        total_now = ct.load(total, 0, 4)
        ct.store(out, k, total_now)
        ct.store(total, 0, total_now + k)
        ct.store(flag, 0, k + 1, memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.DEVICE)

    flag, total, out = np.zeros(1, np.int32), np.zeros(4, np.int32), Guarded(20, np.int32)
    ct.launch(None, (5,), chain, (flag, total, out.array))
    assert out.check().reshape(5, 4)[:, 3].tolist() == [0, 0, 1, 3, 6] and flag[0] == 5


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "f2", "f4", "f8"])
def test_accesses_of_every_order(executor, dtype):
    @ct.kernel
    def orders(x, out):
        relaxed = ct.load(
            x,
            1,
            4,
            padding_mode=ct.PaddingMode.NEG_ZERO,
            memory_order=ct.MemoryOrder.RELAXED,
            memory_scope=ct.MemoryScope.SYS,
        )
        ct.store(out, 0, relaxed, memory_order=ct.MemoryOrder.RELAXED, memory_scope=ct.MemoryScope.BLOCK)
        ct.store(out, 1, relaxed, memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.DEVICE)

    x, out = sample(7, dtype), Guarded(7, dtype)
    ct.launch(None, (1,), orders, (x.copy(), out.array))
    want = tile_of(x, (1,), (4,), fill=-0.0)
    same_bits(out.check(), np.r_[want, want[:3]])


# -- gather and scatter ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", ml_dtypes.bfloat16, "f4", "f8"], ids=str)
def test_gather_and_scatter(executor, dtype):
    @ct.kernel
    def move(x, i, j, m, out, target):
        a, b = ct.load(i, 0, 8)[:, None], ct.load(j, 0, 4)[None, :]
        on = ct.load(m, 0, 8)[:, None]
        ct.store(out, (0, 0), ct.gather(x, (a, b)))
        ct.store(out, (1, 0), ct.gather(x, (a, b), mask=on, padding_value=True))
        ct.store(out, (2, 0), ct.gather(x, (a, 2), padding_value=ct.full((8, 1), True, x.dtype)))
        ct.store(out, (24, 0), ct.gather(x, (1, 2)))
        ct.store(out, (24, 1), ct.gather(x, (-1, 2), padding_value=True))
        ct.store(out, (24, 2), ct.gather(x, (1, 2), mask=False, padding_value=True))
        ct.scatter(target, (a, b), ct.gather(x, (a, b)), mask=on)
        ct.scatter(target, (8, 0), True)
        ct.scatter(target, (-1, 0), True)

    rng = np.random.default_rng()
    x, out, target = sample((7, 5), dtype), Guarded((25, 4), dtype), Guarded((9, 5), dtype)
    i, j = rng.permutation(np.arange(-3, 10))[:8], rng.permutation(np.arange(-2, 7))[:4].astype(np.int16)
    m = rng.integers(0, 2, 8).astype(bool)
    target.array[...] = before = sample((9, 5), dtype)
    ct.launch(None, (1,), move, (x[:, ::-1], i, j, m, out.array, target.array))
    x = x[:, ::-1]
    inside = ((i >= 0) & (i < 7))[:, None] & ((j >= 0) & (j < 5))
    one = np.ones((), dtype)
    picked = x[i[:, None].clip(0, 6), j[None].clip(0, 4)]
    out.check()
    same_bits(out.array[:8], np.where(inside, picked, np.zeros((), dtype)))
    same_bits(out.array[8:16], np.where(inside & m[:, None], picked, one))
    column = np.where((i >= 0) & (i < 7), x[i.clip(0, 6), 2], one)
    same_bits(out.array[16:24, 0], column)
    assert out.array[24, 0] == x[1, 2] and out.array[24, 1] == out.array[24, 2] == one
    want = before.copy()
    for a in range(8):
        for b in range(4):
            if m[a] and 0 <= i[a] < 9 and 0 <= j[b] < 5:
                want[i[a], j[b]] = picked[a, b] if inside[a, b] else np.zeros((), dtype)
    want[8, 0] = one
    same_bits(target.check(), want)


def test_gather_without_checks(executor):
    @ct.kernel
    def pick(x, i, out):
        k = ct.load(i, 0, 8)
        ct.store(out, 0, ct.gather(x, k, check_bounds=False, mask=k < 5, padding_value=-1, latency=3))
        ct.scatter(out, k + 8, ct.gather(x, (k,)), check_bounds=False)

    x, i, out = sample(8, np.int64), np.random.default_rng().permutation(8), Guarded(16, np.int64)
    ct.launch(None, (1,), pick, (x, i, out.array))
    same_bits(out.check()[:8], np.where(i < 5, x[i], -1))
    same_bits(out.array[8:], x)


def test_rows_by_number(executor):
    @ct.kernel
    def rows(x, i, j, out, cols, target, start):
        k = ct.load(i, 0, 4)
        tile = ct.load_advanced_indexing(x, (k, ct.Slice(start, 8)), padding_mode=ct.PaddingMode.NAN)
        ct.store(out, (0, 0), tile)
        ct.store_advanced_indexing(target, (k, ct.Slice(start, 8)), tile)
        ct.store(cols, (0, 0), ct.load_advanced_indexing(x, (ct.Slice(1, 2), ct.load(j, 0, 4)), latency=2))
        ct.store_advanced_indexing(target, (ct.Slice(-1, 2), ct.load(j, 0, 4)), 7)

    x = np.random.default_rng().normal(size=(6, 13)).astype(np.float32)
    for start in (0, 3, -2, 9):
        i, j = np.array([5, -1, 2, 6]), np.array([12, 0, 13, 3], np.uint8)
        out, cols, target = (Guarded(s, np.float32) for s in ((4, 8), (2, 4), x.shape))
        target.array[...] = 0
        ct.launch(None, (1,), rows, (x, i, j, out.array, cols.array, target.array, start))
        want, put = np.full((4, 8), np.nan, np.float32), np.zeros_like(x)
        for a in (0, 2):
            for b in range(8):
                if 0 <= start + b < 13:
                    put[i[a], start + b] = want[a, b] = x[i[a], start + b]
        put[0, [12, 0, 3]] = 7
        same_bits(out.check(), want)
        same_bits(cols.check(), np.where(j < 13, x[1:3, np.minimum(j, 12)], np.float32(0)))
        same_bits(target.check(), put)


def test_raw_memory(executor):
    @ct.kernel
    def raw(x, out):
        k = ct.arange(8, dtype=ct.int32)
        memory, target = x.get_raw_memory(), out.get_raw_memory()
        ct.static_assert(memory.dtype == ct.int32)
        target.store_offset(k * 2, memory.load_offset(23 - k))
        target.store_offset(k * 2 + 1, memory.load_offset(k, mask=k < 3, padding_value=-5), mask=k != 2)
        target.store_offset(16, memory.load_offset(9))

    x, out = sample((4, 6), np.int32), Guarded(17, np.int32)
    before = out.array.copy()
    ct.launch(None, (1,), raw, (x, out.array))
    same_bits(out.check()[:16:2], x.reshape(-1)[:15:-1])
    want = np.where(np.arange(8) < 3, x.reshape(-1)[:8], -5)
    want[2] = before[5]
    same_bits(out.array[1:16:2], want.astype(np.int32))
    assert out.array[16] == x[1, 3]


# -- views -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [None, (4, 8), (1, 3), (5, 16)], ids=str)
def test_tiled_views(executor, steps):
    @ct.kernel
    def views(x, out, counts, target, i, j, STEPS: ct.Constant):
        view = x.tiled_view((4, 8), padding_mode=ct.PaddingMode.NEG_INF, traversal_steps=STEPS)
        ct.static_assert(view.tile_shape == (4, 8) and view.dtype == ct.float32)
        ct.static_assert(view.traversal_steps == (STEPS or (4, 8)))
        for d in ct.static_iter(range(2)):
            ct.store(counts, d, view.num_tiles(d))
        ct.store(out, (0, 0), view.load((i, j), latency=4))
        into = target.tiled_view((4, 8), traversal_steps=STEPS)
        into.store((i, j), ct.load(x, (0, 0), (1, 8)), allow_tma=False)

    x = np.random.default_rng().normal(size=(11, 21)).astype(np.float32)
    size = steps or (4, 8)
    for index in ((0, 0), (2, 1), (1, 2), (-1, 0)):
        out, target, counts = Guarded((4, 8), np.float32), Guarded(x.shape, np.float32), np.zeros(2, np.int32)
        target.array[...] = 0
        ct.launch(None, (1,), views, (x, out.array, counts, target.array, *index, steps))
        same_bits(out.check(), tile_of(x, index, (4, 8), fill=-np.inf, steps=size))
        want = np.zeros_like(x)
        for a, b in np.ndindex(4, 8):
            place = index[0] * size[0] + a, index[1] * size[1] + b
            if all(0 <= p < n for p, n in zip(place, x.shape, strict=True)):
                want[place] = x[0, b]
        same_bits(target.check(), want)
        assert counts.tolist() == [-(-n // s) for n, s in zip(x.shape, size, strict=True)]


def test_views_of_elements_are_passed_around(executor):
    def fill(view, k, value):
        view.store(k, value)

    @ct.kernel
    def each(x, n):
        view = x.tiled_view(())
        for k in range(n):
            fill(view, k, k * k)
        part = x.slice(0, 2, 5).tiled_view(2)
        part.store(1, part.load(0) + 100)

    x = Guarded(7, np.int32)
    ct.launch(None, (1,), each, (x.array, 9))
    assert x.check().tolist() == [0, 1, 4, 9, 104, 25, 36]


def test_examples_of_methods(executor):
    """What the docstrings of arrays' and views' methods show."""
    import doctest

    from tinyton.tile.array import Array
    from tinyton.tile.memory import RawMemory, TiledView

    rules = [rule for owner in (Array, TiledView, RawMemory) for rule in owner.METHODS.values()]
    runner, finder = doctest.DocTestRunner(verbose=False), doctest.DocTestFinder(recurse=False)
    results = [runner.run(test) for rule in (Array, *rules) for test in finder.find(rule, rule.__name__)]
    assert not any(r.failed for r in results) and sum(r.attempted for r in results) >= 16
