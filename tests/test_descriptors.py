"""Tensor descriptors: blocks that never leave the array, at its low and its high end."""

import numpy as np
import pytest

import tinyton as tt
import tinyton.language as tl
from conftest import Guarded, choose, kernel, lowered, mappings, underlined


@pytest.fixture(params=mappings(None, 4))
def warps(request, monkeypatch):
    """The number of warps, on each executor."""
    choose(request.param[0], monkeypatch)
    return request.param[1]


@tt.jit
def shift(x, out, M, N, xm, om, dm, dn, BM: tl.constexpr, BN: tl.constexpr, PAD: tl.constexpr):
    """out[i, j] = x[i + dm, j + dn], with padding where that is outside."""
    src = tl.make_tensor_descriptor(x, shape=[M, N], strides=[xm, 1], block_shape=[BM, BN], padding_option=PAD)
    dst = tl.make_tensor_descriptor(out, [M, N], [om, 1], [BM, BN])
    at = tl.program_id(0) * BM
    for k in range(0, N, BN):
        block = src.load([at + dm, k + dn])
        dst.store([at, k], block)


@pytest.mark.parametrize("dm, dn", [(0, 0), (-5, 3), (4, -17), (100, 0)])
def test_blocks_over_every_edge(warps, dm, dn):
    m, n = 37, 44
    x = np.random.default_rng().standard_normal((m, n)).astype(np.float32)
    for pad, fill in (("zero", 0), ("nan", np.nan)):
        i, j = np.arange(m)[:, None] + dm, np.arange(n)[None, :] + dn
        inside = (i >= 0) & (i < m) & (j >= 0) & (j < n)
        want = np.where(inside, x[np.clip(i, 0, m - 1), np.clip(j, 0, n - 1)], np.float32(fill))
        out = Guarded((m, n), np.float32)
        shift[tt.cdiv(m, 16)](x, out.array, m, n, n, n, dm, dn, BM=16, BN=32, PAD=pad, num_warps=warps)
        assert np.array_equal(out.check(), want, equal_nan=True)


def test_what_a_descriptor_says_and_does(warps):
    @tt.jit
    def k(x, total, out, n):
        desc = tl.make_tensor_descriptor(x, [n, 6], [6, 1], [2, 8])
        tile = tl.load_tensor_descriptor(desc, [1, 0])
        tl.static_assert(desc.dtype == tl.int32 and desc.block_shape == (2, 8) and desc.strides[1] == 1)
        tl.store(out, desc.shape[0] + desc.strides[0] + tile.shape[1])
        acc = tl.make_tensor_descriptor(total, [n, 6], [6, 1], [2, 8])
        for _ in range(3):
            acc.atomic_add([n - 1, -1], tile)
        most = tl.make_tensor_descriptor(total + n * 6, [8], [1], [8])
        most.atomic_max([0], tl.max(tile, 0))
        tl.store_tensor_descriptor(most, [7], tl.full((8,), -1, tl.int32))

    n = 5
    x = np.random.default_rng().integers(1, 100, (n, 6)).astype(np.int32)
    total = Guarded(n * 6 + 8, np.int32)
    total.array[:] = 0
    out = np.zeros(1, np.int32)
    k[1](x, total.array, out, n, num_warps=warps)
    sums, most = np.split(total.check(), [n * 6])
    want = np.zeros((n, 6), np.int32)
    want[-1, :5] = 3 * x[1, 1:]
    assert np.array_equal(sums.reshape(n, 6), want)
    assert most.tolist() == [*x[1:3].max(0), 0, -1]
    assert out[0] == n + 6 + 8


def test_one_dimension_and_five(warps):
    @tt.jit
    def k(x, out):
        line = tl.make_tensor_descriptor(x, [10], [1], [16])
        tl.store(out + tl.arange(0, 16), line.load([-2]))
        deep = tl.make_tensor_descriptor(x, [2, 1, 2, 3, 5], [30, 30, 15, 5, 1], [2, 1, 2, 2, 4])
        to = tl.make_tensor_descriptor(out + 16, [2, 1, 2, 2, 4], [16, 16, 8, 4, 1], [2, 1, 2, 2, 4])
        to.store([0, 0, 0, 0, 0], deep.load([0, 0, 0, 2, 2]))

    x, out = np.arange(60, dtype=np.float32), Guarded(48, np.float32)
    k[1](x, out.array, num_warps=warps)
    got = out.check()
    assert got[:16].tolist() == [0, 0, *range(10), 0, 0, 0, 0]
    want = np.pad(x.reshape(2, 1, 2, 3, 5), ((0, 0), (0, 0), (0, 0), (0, 1), (0, 1)))[..., 2:4, 2:6]
    assert np.array_equal(got[16:].reshape(2, 1, 2, 2, 4), want)


def test_a_product_by_programs_that_take_several_tiles(warps):
    @tt.jit
    def k(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
        b = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
        c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
        for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0), flatten=True):
            row = tile // tl.cdiv(N, BN) * BM
            column = tile % tl.cdiv(N, BN) * BN
            acc = tl.zeros((BM, BN), tl.float32)
            for j in range(tl.cdiv(K, BK)):
                acc = tl.dot(a.load([row, j * BK]), b.load([column, j * BK]).T, acc)
            c.store([row, column], acc.to(c.dtype))

    m, n, p = 50, 37, 40
    rng = np.random.default_rng()
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((m, p), (n, p)))
    c = Guarded((m, n), np.float16)
    k[3](a, b, c.array, m, n, p, BM=32, BN=16, BK=16, num_warps=warps)
    assert np.array_equal(c.check(), a @ b.T)


@pytest.mark.parametrize("language", ["cuda", "opencl"])
def test_accesses_are_vectors(language):
    types = dict.fromkeys(("x", "out"), "*float32:16") | dict.fromkeys(("M", "N", "xm", "om"), "int32:16")
    types |= {"dm": "int32:16", "dn": "int32:16"}
    text = lowered(shift, types, language, BM=16, BN=32, PAD="zero").source
    assert "store_float32x4((" in text


MAKE = "d = tt.make_tensor_descriptor(x, [n, 8], [8, 1], [4, 8]); "


@pytest.mark.parametrize(
    "line, under, words",
    [
        (
            "tt.make_tensor_descriptor(x, [n, 8], [8, n], [4, 8])",
            "[8, n]",
            "the last stride of a descriptor is the literal 1",
        ),
        (
            "tt.make_tensor_descriptor(x, [n, 8], [1, 8], [4, 8])",
            "[1, 8]",
            "not int 8; for other arrays there is make_block",
        ),
        ("tt.make_tensor_descriptor(x, [n], [8, 1], [4])", "[8, 1]", "strides has 2 entries, shape has 1"),
        ("tt.make_tensor_descriptor(x, [n, 8], [8, 1], [3, 8])", "[3, 8]", "dimension 0 of the tile is 3"),
        ("tt.make_tensor_descriptor(x, [n, 8], [8, 1], [4, 8], 'nan')", "'nan'", "as elements are int32"),
        (MAKE + "d.load([0])", "[0]", "offsets has 1 entries, shape has 2"),
        (MAKE + "d.load([0, 0.5])", "[0, 0.5]", "offsets are integers, not float 0.5"),
        (
            MAKE + "d.store([0, 0], tt.zeros((8, 8), tt.int32))",
            "d.store([0, 0], tt.zeros((8, 8), tt.int32))",
            "broadcast",
        ),
        (MAKE + "tt.load(d)", "d", "expected a pointer"),
        (MAKE + "d.sum()", "d.sum", "sum"),
        ("tt.load_tensor_descriptor(x, [0])", "x", "expected what make_tensor_descriptor gives, not *i32"),
    ],
)
def test_mistakes(interpreter, line, under, words):
    lines = "".join(f"\n    {part}" for part in line.split("; "))
    k = kernel(f"@tt.jit\ndef k(x, n):{lines}")
    with pytest.raises(tt.TinytonError) as caught:
        k[1](np.zeros(64, np.int32), 8)
    assert underlined(caught.value) == under
    assert words in str(caught.value)
