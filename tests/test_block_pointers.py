"""Block pointers: blocks of arrays with any strides, moved in loops, within their bounds where that is asked for."""

import numpy as np
import pytest

import tinyton as triton
import tinyton as tt
import tinyton.language as tl
from conftest import Guarded, choose, kernel, lowered, mappings, underlined


@pytest.fixture(params=mappings(None, 4))
def warps(request, monkeypatch):
    """The number of warps, on each executor."""
    choose(request.param[0], monkeypatch)
    return request.param[1]


@triton.jit
def copy(x, out, M, N, xm, xn, om, on, BM: tl.constexpr, BN: tl.constexpr, PAD: tl.constexpr):
    """A program a row of blocks."""
    src = tl.make_block_ptr(
        base=x, shape=(M, N), strides=(xm, xn), offsets=(tl.program_id(0) * BM, 0), block_shape=(BM, BN), order=(1, 0)
    )
    dst = tl.make_block_ptr(out, (M, N + 5), (om, on), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        tl.store(dst, tl.load(src, boundary_check=(0, 1), padding_option=PAD), boundary_check=(0, 1))
        src = tl.advance(src, (0, BN))
        dst = dst.advance([0, BN])


@pytest.mark.parametrize("order", ("C", "F"))
@pytest.mark.parametrize("pad, fill", [("zero", 0), ("nan", np.nan), ("", 0)])
def test_blocks_that_reach_over_the_edge(warps, order, pad, fill):
    m, n, bm, bn = 37, 41, 16, 32
    x = np.asarray(np.random.default_rng().standard_normal((m, n)).astype(np.float32), order=order)
    want = np.full((m, n + 5), fill, np.float32)
    want[:, :n] = x
    out = Guarded((m, n + 5), np.float32)
    strides = [s // 4 for s in (*x.strides, *out.array.strides)]
    copy[triton.cdiv(m, bm)](x, out.array, m, n, *strides, BM=bm, BN=bn, PAD=pad, num_warps=warps)
    assert np.array_equal(out.check(), want, equal_nan=True)


@tt.jit
def product(a, b, out, M, N, K, am, bk, om, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    pa = tl.make_block_ptr(a, (M, K), (am, 1), (pm * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b, (K, N), (bk, 1), (0, pn * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    k = 0
    while k < K:
        x = tl.load(pa, boundary_check=(0, 1))
        y = tl.load(pb, boundary_check=(0, 1))
        acc += tl.sum(x[:, :, None] * y[None, :, :], 1)
        if k + BK < K:
            pa = tl.advance(pa, (0, BK))
            pb = tl.advance(pb, (BK, 0))
        k += BK
    tl.store(tl.make_block_ptr(out, (M, N), (om, 1), (pm * BM, pn * BN), (BM, BN), (1, 0)), acc, boundary_check=(0, 1))


def test_a_product_of_matrices(warps):
    m, n, k = 19, 21, 23
    rng = np.random.default_rng()
    a, b = (rng.integers(-9, 9, s).astype(np.float32) for s in ((m, k), (k, n)))
    out = Guarded((m, n), np.float32)
    product[2, 2](a, b, out.array, m, n, k, k, n, n, BM=16, BN=16, BK=8, num_warps=warps)
    assert np.array_equal(out.check(), a @ b)


def test_any_number_of_dimensions(warps):
    @tt.jit
    def k(x, out, n):
        scalar = tl.make_block_ptr(x, (), (), (), (), ())
        tl.store(tl.make_block_ptr(out, (), (), (), (), ()), tl.load(scalar) + 1)
        line = tl.make_block_ptr(x, (n,), (1,), (-3,), (16,), (0,))
        tl.store(tl.make_block_ptr(out + 1, (16,), (1,), (0,), (16,), (0,)), tl.load(line, boundary_check=(0,)))
        cube = tl.make_block_ptr(x, (2, 3, 5, 7), (105, 35, 7, 1), (1, -1, 2, 4), (2, 4, 4, 4), (3, 2, 1, 0))
        to = tl.make_block_ptr(out + 17, (2, 4, 4, 4), (64, 16, 4, 1), (0, 0, 0, 0), (2, 4, 4, 4), (3, 2, 1, 0))
        tl.store(to, tl.load(cube, boundary_check=(0, 1, 2, 3)))
        part = tl.make_block_ptr(x, (2, 1), (105, 1), (0, 0), (2, 8), (1, 0))  # checked along one dimension alone
        tl.store(out + 145 + tl.arange(0, 8), tl.sum(tl.load(part, boundary_check=(0,)), 0))

    x = np.arange(210, dtype=np.int32)
    out = Guarded(153, np.int32)
    k[1](x, out.array, 10, num_warps=warps)
    got = out.check()
    assert got[0] == 1
    assert got[1:17].tolist() == [0, 0, 0, *range(10), 0, 0, 0]
    padded = np.pad(x.reshape(2, 3, 5, 7), ((1, 1), (1, 1), (0, 1), (0, 1)))
    assert np.array_equal(got[17:145].reshape(2, 4, 4, 4), padded[2:4, 0:4, 2:6, 4:8])
    assert np.array_equal(got[145:], x[:8] + x[105:113])


def test_offsets_are_64_bit(interpreter):
    @tt.jit
    def k(x, out, big):
        p = tl.make_block_ptr(x, (1 << 40, 4), (big, 1), (tl.program_id(0) * 65536 + (1 << 20), 0), (1, 4), (1, 0))
        p = tl.advance(p, (-(1 << 20), 0))
        tl.store(out + tl.arange(0, 4)[None, :], tl.load(p, boundary_check=(0, 1)))
        tl.store(out + 4, tl.load(tl.advance(p, (1 << 39, 0)) if tl.program_id(0) > 5 else p).sum())

    out = np.zeros(5, np.int32)
    k[1](np.arange(4, dtype=np.int32), out, 1 << 20)
    assert out.tolist() == [0, 1, 2, 3, 6]


@pytest.mark.parametrize("language, barrier", [("cuda", "__syncthreads"), ("opencl", " barrier(")])
def test_accesses_are_vectors_without_barriers(language, barrier):
    k = kernel(
        "@tt.jit\ndef k(x, out, M, N, s):\n"
        "    p = tt.make_block_ptr(x, (M, N), (s, 1), (tt.program_id(0) * 16, 0), (16, 32), (1, 0))\n"
        "    q = tt.make_block_ptr(out, (M, N), (s, 1), (tt.program_id(0) * 16, 0), (16, 32), (1, 0))\n"
        "    acc = tt.zeros((16, 32), tt.float32)\n"
        "    for _ in range(0, N, 32):\n"
        "        acc += tt.load(p, boundary_check=(0, 1))\n"
        "        p = tt.advance(p, (0, 32))\n"
        "    tt.store(q, acc, boundary_check=(0, 1))\n"
    )
    types = dict.fromkeys(("x", "out"), "*float32:16") | dict.fromkeys("MNs", "int32:16")
    text = lowered(k, types, language).source
    assert "load_float32x4_if(&" in text and "store_float32x4((" in text and ">= 0" not in text and barrier not in text


BLOCK = "p = tt.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (4, 8), (1, 0)); "


@pytest.mark.parametrize(
    "line, under, words",
    [
        ("tt.make_block_ptr(x, (n, 8), (8,), (0, 0), (4, 8), (1, 0))", "(8,)", "strides has 1 entries, shape has 2"),
        ("tt.make_block_ptr(x, (n, 8), (8, 1), 0, (4, 8), (1, 0))", "0", "offsets has 1 entries, shape has 2"),
        ("tt.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (8,), (0,))", "(8,)", "block_shape has 1 entries, shape has 2"),
        ("tt.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (4, 6), (1, 0))", "(4, 6)", "pass next_power_of_2(6) = 8"),
        ("tt.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (4, n), (1, 0))", "(4, n)", "must be known when the kernel is"),
        (
            "tt.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (4, 8), (1, 1))",
            "(1, 1)",
            "the dimensions 0 to 1 in some order",
        ),
        (
            "tt.make_block_ptr(x, (n, 8), (8, 1.5), (0, 0), (4, 8), (1, 0))",
            "(8, 1.5)",
            "strides are integers, not float",
        ),
        (
            "tt.make_block_ptr(x + i, (n, 8), (8, 1), (0, 0), (4, 8), (1, 0))",
            "x + i",
            "base is one pointer, not a tile",
        ),
        ("tt.make_block_ptr(n, (n, 8), (8, 1), (0, 0), (4, 8), (1, 0))", "n", "expected a pointer"),
        (BLOCK + "tt.load(p, boundary_check=(0, 2))", "(0, 2)", "boundary_check names dimension 2 of a block of 2"),
        (
            BLOCK + "tt.load(p, boundary_check=(0,), padding_option='one')",
            "'one'",
            'padding_option is "zero", as elements',
        ),
        (BLOCK + "tt.load(p, boundary_check=(0,), padding_option='nan')", "'nan'", "as elements are int32"),
        (
            BLOCK + "tt.load(p, mask=i < n)",
            "tt.load(p, mask=i < n)",
            "takes boundary_check and padding_option, not mask",
        ),
        (BLOCK + "tt.store(p, 0, mask=i < n)", "tt.store(p, 0, mask=i < n)", "not mask and other"),
        ("tt.load(x + i, boundary_check=(0,))", "tt.load(x + i, boundary_check=(0,))", "these pointers take a mask"),
        (
            BLOCK + "tt.store(p, tt.zeros((8, 8), tt.int32))",
            "tt.store(p, tt.zeros((8, 8), tt.int32))",
            "do not broadcast",
        ),
        (BLOCK + "tt.advance(p, (0,))", "(0,)", "offsets has 1 entries, shape has 2"),
        ("tt.advance(x, (0,))", "x", "advance moves what make_block_ptr gives, not *i32"),
    ],
)
def test_mistakes(interpreter, line, under, words):
    lines = "".join(f"\n    {part}" for part in line.split("; "))
    k = kernel(f"@tt.jit\ndef k(x, n):\n    i = tt.arange(0, 8){lines}")
    with pytest.raises(tt.TinytonError) as caught:
        k[1](np.zeros(64, np.int32), 8)
    assert underlined(caught.value) == under
    assert words in str(caught.value)
