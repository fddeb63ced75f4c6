"""Products of matrices in the spelling of arrays, against NumPy in higher precision."""

import numpy as np
import pytest
from test_tile_ops import NP, random, run

import tinyton.tile as ct
from conftest import underlined

SUMS = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "float64": "float64"}
SUMS |= {"int8": "int32", "uint8": "int32"}


def product(x, y, acc=0):
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    return np.matmul(x.astype(wide), y.astype(wide)) + np.asarray(acc).astype(wide)


def close(got, want, size, kind):
    """Within what sums in ``kind`` may lose, and half of the last place of the result."""
    if kind == "int32":
        return np.array_equal(got, want)
    unit = 2.0**-53 if kind == "float64" else 2.0**-24
    last = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(got.dtype.name, 0) * np.abs(want) * 1.01 + (
        2.0**-24 if got.dtype == np.float16 else 0
    )
    return (np.abs(got.astype(want.dtype) - want) <= 80 * unit * size + last).all()


PAIRS = [(d, s) for d, s in SUMS.items()] + [("float16", "float16")]


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_mma(executor, pair):
    dtype, sums = pair
    x, y, acc = random(dtype, 16, 32), random(dtype, 32, 8), random(sums, 16, 8)
    bx, by, bacc = random(dtype, 4, 8, 16), random(dtype, 1, 16, 4), random(sums, 4, 8, 4)
    if sums == "int32":
        acc, bacc = acc // 4, bacc // 4
    a, b, c = np.zeros_like(acc), np.zeros_like(bacc), np.zeros_like(bacc)

    @ct.kernel(**({} if executor == "interpreter" else {"num_worker_warps": 4}))
    def k(x, y, bx, by, a, b, c):
        p, q, start = ct.load(x, (0, 0), (16, 32)), ct.load(y, (0, 0), (32, 8)), ct.load(a, (0, 0), (16, 8))
        ct.store(a, (0, 0), ct.mma(p, q, start))
        p, q, start = (
            ct.load(bx, (0, 0, 0), (4, 8, 16)),
            ct.load(by, (0, 0, 0), (1, 16, 4)),
            ct.load(b, (0, 0, 0), (4, 8, 4)),
        )
        ct.store(b, (0, 0, 0), ct.mma(p, q, acc=start))
        ct.store(c, (0, 0, 0), ct.mma(p, q[0:1].reshape((16, 4)), start))

    a[:], b[:] = acc, bacc
    ct.launch(None, (1,), k, (x, y, bx, by, a, b, c))
    assert close(a, product(x, y, acc), product(np.abs(x), np.abs(y), np.abs(acc)), sums)
    for got in (b, c):
        assert close(got, product(bx, by, bacc), product(np.abs(bx), np.abs(by), np.abs(bacc)), sums)


def test_mma_of_bytes_of_both_kinds(executor):
    x, y, out = random("int8", 8, 16), random("uint8", 16, 8), np.zeros((2, 8, 8), np.int32)
    run(
        """
        a, b = ct.load(x, (0, 0), (8, 16)), ct.load(y, (0, 0), (16, 8))
        ct.store(z, (0, 0, 0), ct.mma(a, b, ct.zeros((8, 8), ct.int32))[None])
        ct.store(z, (1, 0, 0), ct.mma(b.transpose(), a.transpose(), ct.zeros((8, 8), ct.int32))[None])
        """,
        x,
        y,
        out,
    )
    want = product(x, y)
    assert np.array_equal(out[0], want) and np.array_equal(out[1], want.T)


SHAPES = [((8, 16), (16, 4)), ((16,), (16, 4)), ((8, 16), (16,)), ((16,), (16,))]
SHAPES += [((2, 8, 16), n) for n in ((2, 16, 4), (16, 4), (16,))] + [(m, (2, 16, 4)) for m in ((8, 16), (16,))]
MIXED = ["float16 float16", "bfloat16 bfloat16", "float32 float16", "float64 float32", "int8 int8"]


@pytest.mark.parametrize("dtypes", MIXED)
def test_matmul(executor, dtypes):
    left, right = dtypes.split()
    arrays = [(random(left, *m), random(right, *n)) for m, n in SHAPES]
    result = "int32" if left == "int8" else left
    outs = tuple(np.zeros(np.shape(product(x, y)) or 1, NP[result]) for x, y in arrays)
    lines = []
    for k, (m, n) in enumerate(SHAPES):
        load = [f"ct.load(x[{k}][{j}], {(0,) * len(s)}, {s})" for j, s in enumerate((m, n))]
        text = f"{load[0]} @ {load[1]}" if k % 2 else f"ct.matmul({load[0]}, {load[1]})"
        lines.append(f"ct.store(y[{k}], {(0,) * outs[k].ndim}, {text})")
    run("\n".join(lines), tuple(arrays), outs)
    for (x, y), out in zip(arrays, outs, strict=True):
        kind = "int32" if left == "int8" else SUMS[left]
        want, size = product(x, y), product(np.abs(x), np.abs(y))
        assert close(out, np.reshape(want, out.shape), np.reshape(size, out.shape), kind)


def test_half_precision_adds_up_in_single(executor):
    """2048 and then ones: in float16 they would be lost."""
    x, y, out = np.ones((1, 64), np.float16), np.ones((64, 1), np.float16), np.zeros((1, 1), np.float16)
    x[0, 0] = 2048
    run("ct.store(z, (0, 0), ct.load(x, (0, 0), (1, 64)) @ ct.load(y, (0, 0), (64, 1)))", x, y, out)
    assert out[0, 0] == np.float16(2048 + 63)


def test_a_product_tile_by_tile(executor):
    """The usual kernel: any sizes, zeros beyond the ends."""

    @ct.kernel
    def matmul(A, B, C, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
        i, j = ct.bid(0), ct.bid(1)
        acc = ct.full((TM, TN), 0, dtype=ct.float32)
        for k in range(ct.cdiv(A.shape[1], TK)):
            a = ct.load(A, index=(i, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)
            b = ct.load(B, index=(k, j), shape=(TK, TN), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(a, b, acc)
        ct.store(C, index=(i, j), tile=acc.astype(C.dtype))

    m, n, p = (int(v) for v in np.random.default_rng().integers(20, 50, 3))
    x, y, out = random("float16", m, p), random("float16", p, n), np.zeros((m, n), np.float16)
    ct.launch(None, (ct.cdiv(m, 16), ct.cdiv(n, 16)), matmul, (x, y, out, 16, 16, 8))
    assert close(out, product(x, y), product(np.abs(x), np.abs(y)), "float32")


ERRORS = {
    "ct.mma(x, x, x)": (None, "8 columns, and 4 rows"),
    "ct.mma(x, y, x)": ("x", r"acc is f32\[4, 8\], the product has shape \[4, 4\]"),
    "ct.mma(x, y, 0.0)": ("0.0", "acc is float 0.0"),
    "ct.mma(x, y, ct.zeros((4, 4), ct.float16))": ("ct.zeros((4, 4), ct.float16)", "add up in float32"),
    "ct.mma(x.astype(ct.int8), y.astype(ct.int8), ct.zeros((4, 4), ct.float32))": (None, "add up in int32"),
    "ct.mma(x.astype(ct.bfloat16), y.astype(ct.bfloat16), ct.zeros((4, 4), ct.float16))": (None, "add up in float32"),
    "ct.mma(x, y.astype(ct.float16), ct.zeros((4, 4), ct.float32))": (None, "one element type.*astype"),
    "ct.mma(x.astype(ct.int32), y, ct.zeros((4, 4), ct.int32))": ("x.astype(ct.int32)", "no products of int32"),
    "ct.mma(x[0:1].reshape(8), y, ct.zeros(4, ct.float32))": ("x[0:1].reshape(8)", "x has two dimensions, or three"),
    "ct.mma(x, y, ct.zeros((4, 4), ct.float32), use_fast_acc=True)": ("True", "float8"),
    "ct.matmul(x, x)": (None, "8 columns, and 4 rows"),
    "ct.matmul(x, 2)": ("2", "tiles, not of int 2"),
    "x @ x": ("x @ x", "8 columns, and 4 rows"),
    "ct.matmul(x[None, None], y)": ("x[None, None]", "up to three"),
    "ct.matmul(x > 0, y)": ("x > 0", "no products of bool"),
    "x.astype(ct.float16) @ y.astype(ct.bfloat16)": (None, "no common type"),
    "ct.zeros((2, 4, 8), ct.float32) @ ct.zeros((4, 8, 4), ct.float32)": (None, "do not broadcast"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error(interpreter, text):
    under, message = ERRORS[text]
    with pytest.raises(ct.TileTypeError, match=f"(?s){message}") as error:
        run(f"x = ct.load(x, (0, 0), (4, 8))\ny = x.transpose()\n{text}", np.zeros((4, 8), np.float32))
    if under:
        assert underlined(error.value) == under
