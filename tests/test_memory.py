"""Loads and stores: strides, views, masks, ragged edges, 64-bit addresses, moves between layouts, bounds."""

import re

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import EXECUTORS, Guarded, kernel, lowered, mappings, same_bits

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = ["bool", "int8", "uint16", "float16", BFLOAT16, "float32", "int64", "float64"]


def sample(shape, dtype, seed=1):
    values = np.random.default_rng(seed).integers(0, 120, shape)
    return values % 2 == 1 if dtype == "bool" else values.astype(dtype)


# -- strides and views -------------------------------------------------------------------------------------------------


@tt.jit
def copy2d(x, out, M, N, xm, xn, om, on, BM: tt.constexpr, BN: tt.constexpr):
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    j = tt.program_id(1) * BN + tt.arange(0, BN)
    ok = (i[:, None] < M) & (j[None, :] < N)
    a = tt.load(x + i[:, None] * xm + j[None, :] * xn, mask=ok)
    tt.store(out + i[:, None] * om + j[None, :] * on, a, mask=ok)


@tt.jit
def copy_whole(x, out, xm, xn, om, on, M: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, M)[:, None]
    j = tt.arange(0, N)[None, :]
    tt.store(out + i * om + j * on, tt.load(x + i * xm + j * xn))


VIEWS = {
    "contiguous": lambda a: a[:7, :13].copy(),
    "columns": lambda a: a[:7, :13],
    "steps": lambda a: a[:14:2, ::3][:, :13],
    "transposed": lambda a: a[:13, :7].T,
    "reversed": lambda a: a[6::-1, 12::-1],
    "reversed rows": lambda a: a[::-1][:7, 5:18],
    "broadcast rows": lambda a: np.broadcast_to(a[3, :13], (7, 13)),
    "broadcast columns": lambda a: np.broadcast_to(a[:7, 2:3], (7, 13)),
    "offset": lambda a: a[5:12, 11:24],
}


def steps(a):
    return [s // a.itemsize for s in a.strides]


@pytest.mark.parametrize("masked", [True, False], ids=["masked", "unmasked"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["int8", "float16", BFLOAT16, "float32", "int64", "bool"], ids=str)
@pytest.mark.parametrize("mapping", mappings(None, 2), indirect=True)
def test_a_view_is_read_by_its_strides(mapping, view, dtype, masked):
    x = VIEWS[view](sample((20, 40), dtype))
    out = Guarded((7, 13), dtype)
    if masked:
        copy2d[2, 2](x, out.array, 7, 13, *steps(x), 13, 1, 4, 8, num_warps=mapping.warps)
    else:
        copy_whole[1](x, out.array, *steps(x), 13, 1, 7, 13, num_warps=mapping.warps)
    same_bits(out.check(), np.ascontiguousarray(x))


@pytest.mark.parametrize("view", [v for v in VIEWS if "broadcast" not in v])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_a_view_is_written_by_its_strides_and_nothing_beside_it(executor, view, dtype):
    base, want = sample((20, 40), dtype), sample((20, 40), dtype)
    x = sample((7, 13), dtype, 9)
    out = VIEWS[view](base) if view != "contiguous" else base[:7, :13]
    (VIEWS[view](want) if view != "contiguous" else want[:7, :13])[...] = x
    copy2d[2, 2](x, out, 7, 13, 13, 1, *steps(out), 4, 8)
    same_bits(base, want)


def test_two_views_of_one_array(executor):
    """They stay views of one memory: the second program reads what the first wrote through the other view."""
    k = kernel("""
@tt.jit
def k(x, y, N: tt.constexpr):
    i = tt.arange(0, N)
    tt.store(x + i, tt.load(x + i) + 100)
    tt.store(y + i, tt.load(y + i) * 2)
""")
    base = np.arange(16, dtype=np.int32)
    want = base.copy()
    want[:8] += 100
    want[8:] *= 2
    k[1](base[:8], base[8:], 8)
    assert base.tolist() == want.tolist()

    base = np.arange(12, dtype=np.int32)
    k[1](base[2:6], base[5:9], 4, num_threads=1)  # the order of several is not defined here
    want = np.arange(12)
    want[2:6] += 100
    want[5:9] *= 2
    assert base.tolist() == want.tolist()

    base = np.arange(4, dtype=np.int32)
    k[1](base, base[::-1][3:], 4)  # the same first element
    assert base.tolist() == [200, 202, 204, 206]


def test_a_read_only_array_is_read_but_not_written(executor):
    x = np.arange(8, dtype=np.float32).reshape(1, 8)
    x.flags.writeable = False
    out = Guarded((1, 8), np.float32)
    copy_whole[1](x, out.array, 8, 1, 8, 1, 1, 8)
    same_bits(out.check(), x)
    with pytest.raises(tt.LaunchError, match="argument out is read-only, but the kernel stores to it"):
        copy_whole[1](out.array, x, 8, 1, 8, 1, 1, 8)


def test_arrays_that_cannot_be_passed(executor):
    out = np.zeros(8, np.float32)
    for x, message in (
        (np.zeros(8, ">f4"), "byte order"),
        (np.zeros(8, "complex64"), "complex64"),
        (np.array(["a"]), "str"),
        (np.array([None]), "object"),
        (np.zeros(8, [("a", "i1"), ("b", "<f4")])["b"], "multiples"),
        ([1.0, 2.0], "argument x is a list"),
        (None, "expected a tile or a number, not None"),
    ):
        with pytest.raises(tt.KernelTypeError) as caught:
            copy_whole[1](x, out, 8, 1, 8, 1, 1, 8)
        assert "x" in str(caught.value) and message in str(caught.value)


def test_arrays_without_dimensions_and_without_elements(executor):
    k = kernel("""
@tt.jit
def k(x, out, n, B: tt.constexpr):
    i = tt.program_id(0) * B + tt.arange(0, B)
    tt.store(out + i, tt.load(x + i, mask=i < n) + 1, mask=i < n)
""")
    out = np.zeros((), np.float32)
    k[1](np.array(4.0, np.float32), out, 1, 8)
    assert out == 5.0
    empty = np.zeros((0, 3), np.float32)
    k[0](empty, empty, 0, 8)
    k[1](empty, empty, 0, 8)


def test_device_arrays(executor):
    x = tt.to_device(sample((20, 40), "float32")[::2, ::-1])
    assert (x.shape, x.dtype, x.strides) == ((10, 40), tt.float32, (160, 4))
    same_bits(x.numpy(), np.ascontiguousarray(sample((20, 40), "float32")[::2, ::-1]))
    out = tt.zeros((10, 40), tt.bfloat16)
    copy2d[3, 5](x, out, 10, 40, 40, 1, 40, 1, 4, 8)
    same_bits(out.numpy(), x.numpy())


# -- masks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mapping", mappings(None, 2), indirect=True)
def test_what_is_masked_off(mapping, dtype):
    """0 of the element type, or ``other``; memory there is neither read nor written."""
    k = kernel("""
@tt.jit
def k(x, out, n, far, B: tt.constexpr):
    i = tt.arange(0, B)
    on = i < n
    p = x + tt.where(on, i, far)
    tt.store(out + i, tt.load(p, mask=on))
    tt.store(out + B + i, tt.load(p, mask=on, other=1))
    tt.store(out + 2 * B + i, tt.load(p, mask=on, other=(i % 2 == 0)))
    tt.store(out + 3 * B + i, tt.load(x + i % n, mask=i % 2 == 0, other=tt.load(x)))
    tt.store(out + 4 * B + i, tt.load(p, mask=on), mask=on)
    tt.store(out + i + tt.where(on, 5 * B, far), 1, mask=on)
""")
    n, b = 5, 32
    x, out = sample(n, dtype), Guarded((6, b), dtype)
    poisoned = out.array.copy()
    k[1](x, out.array, n, 1 << 40, b, num_warps=mapping.warps)
    i = np.arange(b)
    padded = np.resize(x, b)
    want = [
        np.where(i < n, padded, 0),
        np.where(i < n, padded, 1),
        np.where(i < n, padded, i % 2 == 0),
        np.where(i % 2 == 0, x[i % n], x[0]),
        np.where(i < n, padded, poisoned[4]),
        np.where(i < n, np.ones(b, x.dtype), poisoned[5]),
    ]
    same_bits(out.check(), np.stack([w.astype(x.dtype) for w in want]))


def test_infinity_for_other(executor):
    k = kernel("""
@tt.jit
def k(x, out, n, B: tt.constexpr):
    i = tt.arange(0, B)
    tt.store(out, tt.max(tt.load(x + i, mask=i < n, other=-float("inf"))))
""")
    for dtype in ("float16", BFLOAT16, "float32", "float64"):
        out = Guarded(1, dtype)
        k[1](np.full(3, -7).astype(dtype), out.array, 3, 8)
        assert out.check()[0] == -7


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("300", "300 is out of range"),
        ("float('inf')", "inf"),
        ("0.5", "0.5"),
        ("f", "other is a float, which elements"),
        ("i * 0.5", "other is a float, which elements"),
    ],
)
def test_other_must_fit_the_elements(interpreter, other, message):
    k = kernel(
        f"@tt.jit\ndef k(x, f):\n    i = tt.arange(0, 4)\n    tt.store(x + i, tt.load(x + i, i < 2, other={other}))"
    )
    with pytest.raises((tt.KernelValueError, tt.KernelTypeError)) as caught:
        k[1](np.zeros(4, np.int8), 0.5)
    assert message in str(caught.value) and "int8" in str(caught.value)


def test_scalars(mapping):
    """Scalar pointers, scalar masks, a scalar value for a tile of pointers, a tile mask for one pointer."""
    k = kernel("""
@tt.jit
def k(x, out, n, B: tt.constexpr):
    i = tt.arange(0, B)
    a = tt.load(x + n)
    tt.store(out, a * 2)
    tt.store(out + 1, tt.load(x + 1000000, mask=n > 5, other=7))
    tt.store(out + 2, 9, mask=n > 5)
    tt.store(out + 8 + i, a)
    tt.store(out + 8 + B + i, tt.load(x, mask=i < 3))
    tt.store(out + 8 + 2 * B + i, n, mask=n < 5)
    tt.store(out + 8 + 3 * B + i, i, mask=n > 5)
    tt.store(out + 3, n + tt.program_id(0) + tt.num_programs(0))
""")
    x, out = np.arange(1, 9, dtype=np.int32), Guarded(8 + 4 * 16, np.int32)
    old = out.array.copy()
    k[1](x, out.array, 4, 16, num_warps=mapping.warps)
    got = out.check()
    assert got[:4].tolist() == [10, 7, old[2], 5]
    assert got[8:24].tolist() == [5] * 16
    assert got[24:40].tolist() == [1] * 3 + [0] * 13
    assert got[40:56].tolist() == [4] * 16
    assert got[56:].tolist() == old[56:].tolist()


# -- ragged tiles ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(27, 1), (1, 27), (27, 5), (16, 27)])
def test_an_arange_of_any_extent(mapping, m, n):
    """The lanes beyond the extent are padding: never loaded, never stored."""
    k = kernel("""
@tt.jit
def k(x, out, M: tt.constexpr, N: tt.constexpr):
    i = tt.arange(2, M + 2)[:, None]
    j = tt.arange(0, N)
    a = tt.load(x + (i - 2) * N + j[None, :])
    b = tt.where(j[None, :] % 2 == 0, a, -a) + j * 3
    tt.store(out + (i - 2) * N + j, b)
    tt.store(out + M * N + j, tt.sum(b, 0))
""")
    x, out = np.arange(m * n, dtype=np.float32).reshape(m, n), Guarded(m * n + n, np.float32)
    k[1](x, out.array, m, n, num_warps=mapping.warps)
    b = np.where(np.arange(n) % 2 == 0, x, -x) + np.arange(n) * 3
    same_bits(out.check(), np.concatenate([b.ravel(), b.sum(0)]).astype(np.float32))


def test_padding_does_not_mix(interpreter):
    k = kernel("@tt.jit\ndef k(x):\n    tt.store(x + tt.arange(0, 32), tt.arange(0, 27) + tt.arange(0, 32))")
    with pytest.raises(tt.KernelTypeError, match="dimension 0 is 27 on one side, 32 on the other"):
        k[1](np.zeros(32))


@tt.jit
def twice(x, out, n, B: tt.constexpr):
    i = tt.program_id(0) * B + tt.arange(0, B)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("n", [512, 511, 257, 1])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
def test_vectors_at_every_alignment(mapping, dtype, n):
    """16-byte accesses are for data that is aligned; views that start anywhere still give the right elements."""
    for first in (0, 1, 8):
        base, out = sample(600, dtype), Guarded(600, dtype)
        x = base[first : first + n]
        twice[2](x, out.array[16 - first :][:n], n, 256, num_warps=mapping.warps)
        same_bits(out.check()[16 - first :][:n], x + x)
        rest = np.delete(out.array.view(np.uint8).reshape(600, -1), np.s_[16 - first : 16 - first + n], 0)
        assert (rest == out.poison).all()


@tt.jit
def rows_masked(x, out, fill, cols, HOW: tt.constexpr, B: tt.constexpr):
    """Twice each element of a row where the mask of the load is on, and the fill elsewhere."""
    row, j = tt.program_id(0), tt.arange(0, B)
    if HOW == "less":
        mask = j < cols
    elif HOW == "less, turned":
        mask = cols > j
    elif HOW == "not from":
        mask = ~(j >= cols)
    elif HOW == "up to":
        mask = j <= cols - 16
    elif HOW == "a part":
        mask = (j >= cols - 32) & (j < cols)
    else:
        mask = j + 3 < cols
    here = tt.load(x + row * cols + j, mask=mask, other=fill)
    tiled = tt.load(x + row * cols + j, mask=mask, other=j)
    tt.store(out + row * cols + j, here + tiled, mask=j < cols)


@pytest.mark.parametrize("how", ["less", "less, turned", "not from", "up to", "a part", "shifted"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("mapping", mappings(None, 1, 4), indirect=True)
def test_masks_that_vectors_are_wholly_in_or_out_of(mapping, dtype, how):
    for cols in (112, 96, 111):
        x, out = sample((3, cols), dtype), Guarded((3, cols), dtype)
        rows_masked[3](x, out.array, 7, cols, how, 256, num_warps=mapping.warps)
        j = np.arange(cols)
        on = {"up to": j <= cols - 16, "a part": j >= cols - 32, "shifted": j + 3 < cols}.get(how, j >= 0)
        same_bits(out.check(), np.where(on, x + x, (j + 7).astype(dtype)))


def test_a_mask_that_vectors_are_wholly_in_or_out_of_needs_no_code_for_single_elements():
    for how, even in (("less", True), ("a part", True), ("up to", False), ("shifted", False)):
        for cols in ("int32:16", "int32"):
            args = {"x": "*float32:16", "out": "*float32:16", "fill": "int32", "cols": cols}
            text = lowered(rows_masked, args, HOW=how, B=512).source
            assert ("load_float32x4_if(&" in text) == (even and cols == "int32:16"), (how, cols)
            assert ("store_float32x4(" in text) == (cols == "int32:16")
            assert re.search(r"__stwb|\] = here", text)


# -- floats that are only moved ----------------------------------------------------------------------------------------


@tt.jit
def turned(x, out, n, HOW: tt.constexpr, N: tt.constexpr):
    i, j = tt.arange(0, N)[:, None], tt.arange(0, N)[None, :]
    tile = tt.load(x + i * N + j, mask=i < n) if HOW != "other" else tt.load(x + i * N + j, mask=i < n, other=1)
    if HOW == "twice":
        tt.store(out + i * N + j, tile)
    elif HOW == "computed":
        tile = tile * 1.0
    elif HOW == "loop":
        for _ in range(n - n + 1):
            tile = tt.where(j < n, tile, tile)
    tt.store(out + j * N + i, tt.trans(tile).T)


@pytest.mark.parametrize("how", ["moved", "twice", "computed", "loop", "other"])
@pytest.mark.parametrize("dtype", ["float16", BFLOAT16], ids=str)
@pytest.mark.parametrize("mapping", mappings(None, 1, 4), indirect=True)
def test_floats_that_are_only_moved_keep_their_bits(mapping, dtype, how):
    x = np.random.default_rng().integers(0, 1 << 16, (64, 64), np.uint16).view(dtype)
    out = np.zeros_like(x)
    turned[1](x, out, 50, how, 64, num_warps=mapping.warps)
    want = x.T.copy()
    want[:, 50:] = 1 if how == "other" else 0
    wide = want.astype(np.float32)
    same_bits(out.astype(np.float32)[~np.isnan(wide)], wide[~np.isnan(wide)])
    assert np.isnan(out.astype(np.float32)[np.isnan(wide)]).all()
    if how in ("moved", "twice") and mapping.warps:
        same_bits(out.view(np.uint16), want.view(np.uint16))


def test_floats_that_are_only_moved_are_not_converted():
    args = {"x": "*float16:16", "out": "*float16:16", "n": "int32"}
    for how in ("moved", "twice", "computed", "loop", "other"):
        text = lowered(turned, args, HOW=how, N=64).source
        assert ("half_value" in text or "float16x" in text) == (how not in ("moved", "twice")), how


# -- tiles that change their layout ------------------------------------------------------------------------------------


@tt.jit
def transpose(x, out, M, N, BM: tt.constexpr, BN: tt.constexpr):
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    j = tt.program_id(1) * BN + tt.arange(0, BN)
    ok = (i[:, None] < M) & (j[None, :] < N)
    a = tt.load(x + i[:, None] * N + j[None, :], mask=ok)
    tt.store(out + j[None, :] * M + i[:, None], a, mask=ok)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize(("m", "n", "bm", "bn"), [(33, 70, 32, 32), (64, 64, 8, 64), (5, 100, 16, 4)])
def test_transpose(mapping, dtype, m, n, bm, bn):
    x, out = sample((m, n), dtype), Guarded((n, m), dtype)
    grid = tt.cdiv(m, bm), tt.cdiv(n, bn)
    transpose[grid](x, out.array, m, n, bm, bn, num_warps=mapping.warps)
    same_bits(out.check(), np.ascontiguousarray(x.T))


@pytest.mark.parametrize("mapping", mappings(1, 2, 4, 8, 16, 32), indirect=True)
def test_a_transpose_is_moved_through_shared_memory(mapping):
    args = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32), 64, 64, 64, 64
    compiled = transpose.compile(*args, num_warps=mapping.warps)
    assert "convert" in str(compiled.ir)
    assert 64 * 64 * 4 <= compiled.shared_bytes <= 64 * 65 * 4
    x, out = sample((64, 64), "float32"), Guarded((64, 64), "float32")
    transpose[1](x, out.array, *args[2:], num_warps=mapping.warps)
    same_bits(out.check(), np.ascontiguousarray(x.T))


def test_layouts_change_in_loops_and_branches(mapping):
    """A tile that is carried in one layout, read by rows and by columns, and stored turned."""
    k = kernel("""
@tt.jit
def k(x, out, rows, n, M: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, M)
    j = tt.arange(0, N)
    a = tt.load(x + i[:, None] * N + j[None, :])
    for step in range(n):
        r = tt.sum(a, 1)
        c = tt.max(a, 0)
        if step % 2 == 0:
            a = a + r[:, None]
        else:
            a = a - c[None, :]
        tt.store(out + step * M * N + j[None, :] * M + i[:, None], a)
        tt.store(rows + step * M + i, r)
""")
    m, n, rounds = 16, 32, 3
    x = sample((m, n), "int32")
    out, rows = Guarded((rounds, n, m), "int32"), Guarded((rounds, m), "int32")
    k[1](x, out.array, rows.array, rounds, m, n, num_warps=mapping.warps)
    a, want, want_rows = x.copy(), [], []
    for step in range(rounds):
        want_rows.append(a.sum(1))
        a = a + a.sum(1)[:, None] if step % 2 == 0 else a - a.max(0)[None]
        want.append(a.T)
    same_bits(rows.check(), np.stack(want_rows).astype("int32"))
    same_bits(out.check(), np.stack(want).astype("int32"))


def test_stores_are_seen_by_later_loads_of_the_program(mapping):
    """Program order holds within a program: what was stored turned is loaded straight."""
    k = kernel("""
@tt.jit
def k(x, tmp, out, N: tt.constexpr):
    i = tt.arange(0, N)[:, None]
    j = tt.arange(0, N)[None, :]
    tt.store(tmp + j * N + i, tt.load(x + i * N + j))
    tt.store(tmp + i, 5)
    tt.store(out + i * N + j, tt.load(tmp + i * N + j))
""")
    x, out = sample((32, 32), "int32"), Guarded((32, 32), "int32")
    k[1](x, np.zeros((32, 32), np.int32), out.array, 32, num_warps=mapping.warps)
    want = x.T.copy()
    want[0] = 5
    same_bits(out.check(), want)


# -- addresses ---------------------------------------------------------------------------------------------------------

FAR = """
@tt.jit
def k(x, stride):
    offset = tt.program_id(0) * stride
    if tt.program_id(0) == 2:
        tt.store(x + offset + tt.arange(0, 4), 7)
"""


def test_offsets_do_not_wrap_at_32_bits(interpreter):
    with pytest.raises(tt.errors.OutOfBoundsError, match=r"program \(2, 0, 0\) writes element 2147483648 of x"):
        kernel(FAR)[3](np.zeros(8, np.int8), 1 << 30)


@pytest.mark.parametrize("name", [name for name in EXECUTORS if name != "interpreter"])
def test_the_emitted_index_is_64_bits_wide_where_32_may_not_do(name, monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", name)
    compiled = kernel(FAR).compile(np.zeros(8, np.int8), 1 << 30)
    offsets = [op.operands[1].type.dtype for op in compiled.ir.ops() if op.name == "addptr"]
    assert offsets == [tt.int64, tt.int32]  # program * stride; arange, whose bounds are known
    assert re.search(r"\blong\b.*\boffset = .*stride", compiled.source)


def test_an_array_beyond_two_giga_elements(executor):
    if executor == "emulator":
        pytest.skip("it copies all of the array")
    x = np.zeros((1 << 31) + 8, np.int8)  # the pages that nobody touches take no memory
    try:
        kernel(FAR)[3](x, 1 << 30)
    except tt.BackendError as error:
        assert "2147483656 bytes cannot be allocated" in str(error)
        pytest.skip(str(error))
    assert x[(1 << 31) - 2 : (1 << 31) + 6].tolist() == [0, 0, 7, 7, 7, 7, 0, 0]
    assert not x[:8].any()


def test_narrow_unsigned_offsets(mapping):
    """A uint8 offset of 128 and more is not negative."""
    k = kernel("""
@tt.jit
def k(x, out, B: tt.constexpr):
    i = tt.arange(0, B)
    tt.store(out + i, tt.load(x + i.to(tt.uint8)) + tt.load(x + (255 - i).to(tt.uint8).to(tt.int64)))
    tt.store(out + B + i, tt.load(x + 300 + i.to(tt.int8)))
""")
    x, out = np.arange(512, dtype=np.int32), Guarded(512, np.int32)
    k[1](x, out.array, 256, num_warps=mapping.warps)
    i = np.arange(256)
    assert out.check().tolist() == [255] * 256 + (300 + i.astype(np.int8).astype(int)).tolist()


# -- bounds ------------------------------------------------------------------------------------------------------------

BOUNDS = """
@tt.jit
def k(x, y, n, B: tt.constexpr):
    i = tt.program_id(0) * B + tt.arange(0, B)
    a = tt.load(x + i, mask=i < n)
    tt.store(y + i - 4, a, mask=i > 3)
"""


def test_reading_out_of_bounds_says_which_program_line_and_element(interpreter):
    with pytest.raises(tt.errors.OutOfBoundsError) as caught:
        kernel(BOUNDS)[2](np.zeros(13, np.float32), np.zeros(16, np.float32), 15, 8)
    assert str(caught.value).split("\n")[:3] == [
        "kernel k, line 4:",
        "    a = tt.load(x + i, mask=i < n)",
        "        ^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
    assert "program (1, 0, 0) reads element 13 of x, which has elements 0 to 12, lane (5,)" in str(caught.value)


def test_writing_out_of_bounds_says_which_program_line_and_element(interpreter):
    with pytest.raises(tt.errors.OutOfBoundsError) as caught:
        kernel(BOUNDS.replace("i > 3", "i < 3"))[1](np.zeros(16, np.float32), np.zeros(16, np.float32), 16, 8)
    assert "line 5:" in str(caught.value)
    assert "program (0, 0, 0) writes element -4 of y, which has elements 0 to 15, lane (0,)" in str(caught.value)


def test_a_views_memory_is_its_span(interpreter):
    base = np.zeros(64, np.int32)
    k = kernel("@tt.jit\ndef k(x, at):\n    tt.store(x + at, 1)")
    k[1](base[32:16:-1], -15)
    assert base[17] == 1
    for at in (-16, 1):
        with pytest.raises(tt.errors.OutOfBoundsError, match=f"element {at} of x, which has elements -15 to 0"):
            k[1](base[32:16:-1], at)


def test_an_offset_of_constants_does_not_wrap_around(executor):
    k = kernel("""
@tt.jit
def k(x, out):
    small = (-tt.full((), 1, tt.uint8)) & 255
    tt.store(out, tt.load(x + (small * 3 + 1)))
    tt.store(out + 1, small * 3 + 1)
""")
    x, out = np.arange(800, dtype=np.int32), np.zeros(2, np.int32)
    k[1](x, out)
    assert out.tolist() == [766, 254]


def test_arguments_that_do_not_matter_are_analysed_together(monkeypatch):
    """What 16 divides is asked of all at once first, so that many arguments do not take long."""
    from tinyton.codegen import lower

    seen, analyse = [], lower.analyse
    monkeypatch.setattr(lower, "analyse", lambda *args: seen.append(args) or analyse(*args))
    names = [f"n{k}" for k in range(32)]
    k = kernel(f"""
@tt.jit
def k(x, y, {", ".join(names)}):
    i = tt.arange(0, 512)
    tt.store(y + i, tt.load(x + n5 * n9 + i + 16 * ({" + ".join(names)})))
""")
    low = lowered(k, {"x": "*float32:16", "y": "*float32:16"} | dict.fromkeys(names, "int32:16"))
    assert low.divisors_used == frozenset() and len(seen) < 12
    k = kernel(f"""
@tt.jit
def k(x, y, {", ".join(names)}):
    i = tt.arange(0, 512)
    tt.store(y + i, tt.load(x + n5 + n9 + i + 16 * ({" + ".join(names)})))
""")
    low = lowered(k, {"x": "*float32:16", "y": "*float32:16"} | dict.fromkeys(names, "int32:16"))
    assert low.divisors_used == {"n5", "n9"} and len(seen) < 40
