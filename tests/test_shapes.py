"""Views of tiles, what is made of them, scans, sorting, gathering: against NumPy, on every executor and mapping."""

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel, lowered, mappings

MAPPINGS = mappings(None, 1, 4)


def run(text, arrays, sizes, out, mapping, **names):
    """What a kernel leaves in its last array, ``out``: extents, first content, element type."""
    out = np.full(*out)
    kernel(text, **names)[1](*arrays, out, *sizes, num_warps=mapping.warps)
    return out


TILE = """
@tt.jit
def k(x, out, M: tt.constexpr, N: tt.constexpr):
    at = tt.arange(0, M)[:, None] * N + tt.arange(0, N)[None, :]
    v = tt.load(x + at)
    flat = tt.arange(0, M * N)
    {body}
"""
VIEWS = {
    "trans": ("tt.trans(v)", lambda x: x.T),
    "T": ("v.T", lambda x: x.T),
    "permute": ("tt.permute(v, (1, 0))", lambda x: x.T),
    "method": ("v.permute(1, 0)", lambda x: x.T),
    "trans with dims": ("tt.trans(v, 0, 1)", lambda x: x),
    "reshape": ("tt.reshape(v, (N, M))", lambda x: x.reshape(x.shape[::-1])),
    "view": ("tt.view(v, [N * 2, M // 2])", lambda x: x.reshape(x.shape[1] * 2, -1)),
    "reshape of a transpose": ("tt.reshape(tt.trans(v) + 1.0, M, N)", lambda x: (x.T + 1).reshape(x.shape)),
    "transpose of a reshape": ("tt.trans(tt.reshape(v, 2, M * N // 2) * 2.0)", lambda x: 2 * x.reshape(2, -1).T),
    "four dimensions": (
        "tt.permute(tt.reshape(v, M // 2, 2, N // 4, 4), 3, 1, 0, 2)",
        lambda x: x.reshape(x.shape[0] // 2, 2, -1, 4).transpose(3, 1, 0, 2),
    ),
    "ravel": ("tt.ravel(v)", np.ravel),
    "flip columns": ("tt.flip(v)", lambda x: x[:, ::-1]),
    "flip rows": ("tt.flip(v, 0)", lambda x: x[::-1]),
    "expand_dims": ("tt.expand_dims(v, 1)", lambda x: x[:, None]),
    "expand_dims at several": ("tt.expand_dims(v, (0, -1))", lambda x: x[None, :, :, None]),
    "broadcast_to": ("tt.broadcast_to(tt.sum(v, 1, keep_dims=True), (M, N))", lambda x: x.sum(1)[:, None] + 0 * x),
    "join": ("tt.join(v, v + 1.0)", lambda x: np.stack([x, x + 1], -1)),
    "interleave": ("tt.interleave(v, -v)", lambda x: np.stack([x, -x], -1).reshape(len(x), -1)),
    "cat": ("tt.cat(v, v * 2.0)", lambda x: np.concatenate([x, 2 * x])),
    "cat columns": ("tt.cat(v, v * 2.0, dim=1)", lambda x: np.concatenate([x, 2 * x], 1)),
    "split": ("tt.reshape(v, M, N // 2, 2).split()[1]", lambda x: x[:, 1::2]),
    "split of a transpose": (
        "tt.split(tt.permute(tt.reshape(v, M, 2, N // 2), 0, 2, 1))[0]",
        lambda x: x[:, : x.shape[1] // 2],
    ),
    "sums of a view": ("tt.sum(tt.reshape(v, 2, M * N // 2), 0)", lambda x: x.reshape(2, -1).sum(0)),
    "sums of a transpose": ("tt.sum(tt.trans(v), 0)", lambda x: x.sum(1)),
}  # fmt: skip


def together(cases, arrays, sizes, mapping, **names):
    """Checks many tiles in one kernel: ``cases`` has, by name, the text of a tile and what it must be."""
    body, first = [], 0
    for text, want in cases.values():
        body.append(f"tt.store(out + {first} + tt.arange(0, {want.size}), tt.reshape({text}, {want.size}))")
        first += want.size
    out = run(TILE.format(body="\n    ".join(body)), arrays, sizes, ((first,), np.nan, np.float32), mapping, **names)
    first = 0
    for name, (_, want) in cases.items():
        assert np.array_equal(out[first : first + want.size], want.ravel()), name
        first += want.size


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_views(mapping, rng):
    """Over tiles that have more elements than threads, and fewer."""
    for m, n in ((16, 16), (4, 4)):
        x = rng.integers(-99, 99, (m, n)).astype(np.float32)
        together({name: (text, numpy(x)) for name, (text, numpy) in VIEWS.items()}, (x,), (m, n), mapping)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_a_tile_of_indices_and_masks_is_rearranged_too(mapping, rng):
    """What costs nothing is computed anew in the other shape: indices, masks, constants."""
    x = rng.standard_normal((8, 16)).astype(np.float32)
    text = TILE.format(
        body="""
    there = tt.trans(at)
    w = tt.load(x + there, mask=tt.trans(at % 3 > 0), other=7.0)
    tt.store(out + tt.flip(flat), tt.reshape(w, M * N), mask=tt.reshape(tt.trans(at < 100), M * N))"""
    )
    out = run(text, (x,), (8, 16), ((128,), 0, np.float32), mapping)
    at = np.arange(128).reshape(8, 16).T
    want = np.zeros(128, np.float32)
    put = (at < 100).ravel()
    want[::-1][put] = np.where(at % 3 > 0, x.ravel()[at], 7).ravel()[put]
    assert np.array_equal(out, want)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_a_pointer_tile_that_is_carried_is_turned(mapping, rng):
    k = kernel("""
@tt.jit
def k(x, out, rounds, N: tt.constexpr):
    here = tt.arange(0, N)[:, None] * N + tt.arange(0, N)[None, :]
    a, q = x + here, out + here
    for j in range(rounds):
        tt.store(q, tt.trans(tt.load(a)))
        a += N * N
        q += N * N
""")
    x = rng.standard_normal((3, 16, 16)).astype(np.float32)
    out = np.zeros_like(x)
    k[1](x, out, 3, 16, num_warps=mapping.warps)
    assert np.array_equal(out, x.transpose(0, 2, 1))


RUNNING = {
    "cumsum": ("tt.cumsum(v, {axis})", np.cumsum),
    "cumsum, reverse": ("v.cumsum({axis}, reverse=True)", lambda x, a: np.flip(np.cumsum(np.flip(x, a), a), a)),
    "cumprod": ("tt.cumprod(v, {axis})", np.cumprod),
    "sort": ("tt.sort(v, {axis})", np.sort),
    "sort, descending": ("tt.sort(v, {axis}, descending=True)", lambda x, a: np.flip(np.sort(x, a), a)),
    "scan": ("tt.associative_scan(v, {axis}, add)", np.cumsum),
    "scan, reverse": (
        "tt.associative_scan(v, {axis}, add, reverse=True)",
        lambda x, a: np.flip(np.cumsum(np.flip(x, a), a), a),
    ),
}


@tt.jit
def add(x, y):
    return x + y


@tt.jit
def later(x, y):
    return y


@tt.jit
def line_after_line(a, b, c, d):
    """The lines t -> a t + b and t -> c t + d, one after the other: not commutative."""
    return a * c, b * c + d


@tt.jit
def greater(value, place, other, elsewhere):
    first = (value > other) | ((value == other) & (place < elsewhere))
    return tt.where(first, value, other), tt.where(first, place, elsewhere)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_along_an_axis(mapping, rng):
    for axis, (m, n) in ((0, (8, 4)), (1, (4, 16)), (1, (2, 1))):
        x = rng.permutation(m * n).reshape(m, n).astype(np.float32) % 3 + 1
        cases = {name: (text.format(axis=axis), numpy(x, axis)) for name, (text, numpy) in RUNNING.items()}
        together(cases, (x,), (m, n), mapping, add=add)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_functions_of_ones_own(mapping, rng):
    """Over tuples of tiles, in the order of the elements: the functions here are not commutative."""
    k = kernel(
        """
@tt.jit
def k(x, y, out, places, N: tt.constexpr):
    i = tt.arange(0, N)
    a, b = tt.load(x + i), tt.load(y + i)
    p, q = tt.associative_scan((a, b), 0, line_after_line)
    tt.store(out + i, p)
    tt.store(out + N + i, q)
    p, q = tt.reduce((a, b), 0, line_after_line)
    tt.store(out + 2 * N, p)
    tt.store(out + 2 * N + 1, q)
    tt.store(out + 2 * N + 2, tt.reduce(b, 0, later))
    most, place = tt.reduce((b, i), 0, greater)
    tt.store(places, place)
    square = tt.reshape(b, 4, N // 4)
    tt.store(places + 1 + tt.arange(0, 4), tt.reduce(square, 1, greatest).to(tt.int32))
    kept = tt.reduce(square, axis=1, combine_fn=greatest, keep_dims=True)
    tt.static_assert(kept.shape == (4, 1))
    tt.store(places + 5, tt.reduce(square, None, later).to(tt.int32))
""",
        line_after_line=line_after_line,
        later=later,
        greater=greater,
        greatest=greatest,
    )
    n = 64
    x = rng.choice([-1, 1], n).astype(np.float32)
    y = rng.integers(-9, 9, n).astype(np.float32)
    out, places = np.full(2 * n + 3, np.nan, np.float32), np.full(6, -1, np.int32)
    k[1](x, y, out, places, n, num_warps=mapping.warps)
    lines, line = [], (1.0, 0.0)
    for a, b in zip(x, y, strict=True):
        line = (line[0] * a, line[1] * a + b)
        lines.append(line)
    assert np.array_equal(out[:n], [p for p, _ in lines]) and np.array_equal(out[n : 2 * n], [q for _, q in lines])
    assert out[2 * n :].tolist() == [*lines[-1], y[-1]]
    assert places[0] == y.argmax() and np.array_equal(places[1:5], y.reshape(4, -1).max(1)) and places[5] == y[-1]


@tt.jit
def greatest(x, y):
    return tt.maximum(x, y)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_where_the_extremes_are(mapping, rng):
    """Ties give the first place, NaN never wins, and a tile of NaN has the place 0."""
    k = kernel("""
@tt.jit
def k(x, values, places, M: tt.constexpr, N: tt.constexpr):
    i, j = tt.arange(0, M), tt.arange(0, N)
    v = tt.load(x + i[:, None] * N + j[None, :])
    tt.store(places + i, tt.argmax(v, 1))
    tt.store(places + M + i, tt.argmin(v, axis=1))
    tt.store(places + 2 * M + j, tt.argmax(v, 0))
    tt.store(places + 2 * M + N, tt.argmax(v))
    most, place = tt.max(v, 1, return_indices=True)
    tt.store(values + i, most)
    tt.store(places + 2 * M + N + 1 + i, place)
    least, place = tt.min(v, axis=0, return_indices=True, keep_dims=True)
    tt.store(values + M + j[None, :], least)
    tt.store(places + 3 * M + N + 1 + j[None, :], place)
    kept = tt.argmin(v, None, keep_dims=True)
    tt.static_assert(kept.shape == (1, 1))
    tt.store(places + 3 * M + 2 * N + 1 + tt.zeros((1, 1), tt.int32), kept)
""")
    pad = rng.integers(-3, 3, (8, 32)).astype(np.float32)
    pad[1, 3:9] = pad[:, 30] = np.nan
    pad[2] = np.nan
    big = np.where(np.isnan(pad), -np.inf, pad)
    small = np.where(np.isnan(pad), np.inf, pad)
    values, places = np.full(40, np.inf, np.float32), np.full(3 * 8 + 2 * 32 + 2, -1, np.int32)
    k[1](pad, values, places, 8, 32, num_warps=mapping.warps)
    want = [big.argmax(1), small.argmin(1), big.argmax(0), [big.argmax()], big.argmax(1), small.argmin(0)]
    want.append([small.argmin()])
    assert np.array_equal(places, np.concatenate(want))
    assert np.array_equal(values[:8], np.fmax.reduce(pad, 1), equal_nan=True)
    assert np.array_equal(values[8:], np.fmin.reduce(pad, 0), equal_nan=True)


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_where_the_extremes_of_any_extents_are(mapping, rng):
    k = kernel("""
@tt.jit
def k(x, places, M: tt.constexpr, N: tt.constexpr):
    v = tt.load(x + tt.arange(0, M)[:, None] * N + tt.arange(0, N)[None, :])
    tt.store(places, tt.argmax(v))
    tt.store(places + 1 + tt.zeros((1, 1), tt.int32), tt.argmin(v, keep_dims=True))
    tt.store(places + 2, tt.argmin(tt.load(x + 2 * tt.arange(0, N))))
""")
    x, places = rng.integers(0, 9, (3, 7)).astype(np.int32), np.full(3, -1, np.int32)
    k[1](x, places, 3, 7, num_warps=mapping.warps)
    assert places.tolist() == [x.argmax(), x.argmin(), x.ravel()[:14:2].argmin()]


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "float16", "float64", "bool"])
def test_element_types(mapping, dtype, rng):
    k = kernel("""
@tt.jit
def k(x, out, wide, N: tt.constexpr):
    i = tt.arange(0, N)
    v = tt.load(x + i)
    tt.store(out + i, tt.sort(v))
    tt.store(out + N + i, tt.flip(v))
    tt.store(wide + i, tt.cumsum(v, 0))
    tt.store(wide + N, tt.xor_sum(v.to(tt.int64)))
    tt.store(wide + N + 1, tt.prod(tt.where(i < 3, v.to(tt.int64), 1)))
    tt.store(wide + N + 2, tt.reduce_or(v.to(tt.int32)))
    tt.store(wide + N + 3, tt.reduce_and(v.to(tt.int32)))
    tt.static_assert(tt.sum(v, dtype=tt.int64).dtype == tt.int64)
""")
    n = 32
    x = (rng.integers(0, 2 if dtype == "bool" else 9, n) / (2 if dtype[0] == "f" else 1)).astype(dtype)
    out, wide = np.zeros(2 * n, dtype), np.zeros(n + 4, np.float64 if dtype.startswith("f") else np.int64)
    k[1](x, out, wide, n, num_warps=mapping.warps)
    assert np.array_equal(out, np.concatenate([np.sort(x), x[::-1]]))
    whole = x.astype(np.int64)
    rest = [np.bitwise_xor.reduce(whole), whole[:3].prod(), np.bitwise_or.reduce(whole), np.bitwise_and.reduce(whole)]
    assert np.array_equal(wide, [*np.cumsum(x.astype(wide.dtype)), *rest])


def test_nan_is_sorted_to_the_end(executor):
    k = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr):
    i = tt.arange(0, N)
    tt.store(out + i, tt.sort(tt.load(x + i)))
    tt.store(out + N + i, tt.sort(tt.load(x + i), descending=True))
    tt.store(out + 2 * N + tt.arange(0, 4), tt.topk(tt.load(x + 8 + tt.arange(0, 8)), 4))
""")
    x = np.array([3, np.nan, -np.inf, 0, np.inf, np.nan, -1, 2, *range(8)], np.float32)
    out = np.zeros(36, np.float32)
    k[1](x, out, 16)
    assert np.array_equal(out[:16], np.sort(x), equal_nan=True)
    assert np.array_equal(out[16:32], np.sort(x)[::-1], equal_nan=True)
    assert out[32:].tolist() == [7, 6, 5, 4]


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_gather(mapping, rng):
    k = kernel("""
@tt.jit
def k(x, at, out, M: tt.constexpr, N: tt.constexpr, K: tt.constexpr):
    i, j, c = tt.arange(0, M)[:, None], tt.arange(0, N)[None, :], tt.arange(0, K)[None, :]
    v = tt.load(x + i * N + j)
    tt.store(out + i * K + c, tt.gather(v, tt.load(at + i * K + c), 1))
    rows = tt.gather(tt.trans(v), (c + i * 0) % N, axis=0) if M == K else 0.0
    tt.store(out + M * K + i * K + c, rows)
""")
    for m, n, k_ in ((8, 16, 8), (4, 64, 4)):
        x = rng.standard_normal((m, n)).astype(np.float32)
        at = rng.integers(0, n, (m, k_)).astype(np.int64)
        out = np.zeros((2, m, k_), np.float32)
        k[1](x, at, out, m, n, k_, num_warps=mapping.warps)
        assert np.array_equal(out[0], np.take_along_axis(x, at, 1))
        same = np.broadcast_to(np.arange(k_)[None, :] % n, (m, k_))
        assert np.array_equal(out[1], np.take_along_axis(x.T, same, 0))


def test_gather_outside(interpreter):
    k = kernel("""
@tt.jit
def k(x, out):
    i = tt.arange(0, 8)
    tt.store(out + i, tt.gather(tt.load(x + i), i + 1, 0))
""")
    with pytest.raises(tt.TinytonError, match=r"gathers element 8 of an axis of 8"):
        k[1](np.zeros(8, np.float32), np.zeros(8, np.float32))


def test_swizzle2d(executor):
    k = kernel("""
@tt.jit
def k(out, M, N, G: tt.constexpr):
    i, j = tt.swizzle2d(tt.program_id(0), tt.program_id(1), M, N, G)
    tt.store(out + tt.program_id(0) * N + tt.program_id(1), i * 100 + j)
""")
    m, n, g = 7, 4, 3
    out = np.full((m, n), -1, np.int32)
    k[m, n](out, m, n, g)
    order = [r * 100 + c for first in range(0, m, g) for c in range(n) for r in range(first, min(first + g, m))]
    assert out.ravel().tolist() == order


REFUSED = {
    "tt.reshape(v, 3, 3)": "does not have as many elements",
    "tt.reshape(v, 16, -1)": "does not have as many elements",
    "tt.permute(v, 0, 0)": "does not name each of 2 dimensions once",
    "tt.permute(v, 0, 2)": "a tile of 2 dimensions has no axis 2",
    "tt.trans(tt.sum(v, 0))": "nothing to transpose",
    "tt.split(v)": "only a tile whose last extent is 2",
    "tt.sort(odd)": "next_power_of_2(5) = 8",
    "tt.ravel(odd)": "next_power_of_2(5) = 8",
    "tt.cat(v, odd)": "do not broadcast",
    "tt.expand_dims(v, 4)": "has no axis 4",
    "tt.broadcast_to(v, 8, 2)": "do not broadcast",
    "tt.reduce((v, v), 0, tt.maximum)": "maximum",
    "tt.gather(v, v, 0)": "an index is an int tile",
    "tt.topk(v, 3)": "a power of two up to 4",
    "tt.dot(v, v)": "M by K and K by N",
    "tt.dot(v, tt.trans(v).to(tt.float16))": "convert one with .to(...)",
    "tt.dot(v, tt.trans(v), input_precision='fp8')": "choose tf32, tf32x3, ieee",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text, interpreter):
    k = kernel(f"""
@tt.jit
def k(x, N: tt.constexpr):
    v = tt.zeros((8, 4), tt.float32)
    odd = tt.arange(0, 5)
    y = {text}
""")
    with pytest.raises(tt.TinytonError) as e:
        k[1](np.zeros(8, np.float32), 8)
    shown = str(e.value)
    assert REFUSED[text] in shown and "^" in shown and f"y = {text}" in shown, shown


DOT = """
@tt.jit
def k(x, y, out, M: tt.constexpr, N: tt.constexpr, K: tt.constexpr, OUT: tt.constexpr):
    i, j, c = tt.arange(0, M), tt.arange(0, N), tt.arange(0, K)
    a = tt.load(x + i[:, None] * K + c[None, :])
    b = tt.load(y + c[:, None] * N + j[None, :])
    p = tt.dot(a, b, out_dtype=OUT)
    tt.static_assert(p.dtype == OUT)
    tt.store(out + i[:, None] * N + j[None, :], p)
"""
OUTS = {"float16": tt.float32, "float32": tt.float32, "float64": tt.float64, "int8": tt.int32, "uint8": tt.int32}


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
@pytest.mark.parametrize("dtype", OUTS)
def test_dot(mapping, dtype, rng):
    k = kernel(DOT)
    for m, n, c in ((16, 16, 16), (4, 32, 8), (64, 2, 1)):
        low = 0 if dtype == "uint8" else -9
        a, b = (rng.integers(low, 9, s).astype(dtype) for s in ((m, c), (c, n)))
        out = np.full((m, n), 99, np.float64)
        k[1](a, b, out, m, n, c, OUTS[dtype], num_warps=mapping.warps)
        assert np.array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_a_matrix_product_in_blocks(mapping, rng):
    """The tutorial's kernel: a loop over blocks, odd sizes under masks, a transposed second matrix, a batch, an acc in
    float16."""
    k = kernel("""
@tt.jit
def k(x, y, out, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    rows = tt.program_id(0) * BM + tt.arange(0, BM)
    columns = tt.program_id(1) * BN + tt.arange(0, BN)
    c = tt.arange(0, BK)
    a = x + rows[:, None] * K + c[None, :]
    b = y + columns[:, None] * K + c[None, :]
    acc = tt.zeros((BM, BN), tt.float32)
    for at in range(0, tt.cdiv(K, BK)):
        left = tt.load(a, mask=(rows[:, None] < M) & (c[None, :] < K - at * BK), other=0.0)
        right = tt.load(b, mask=(columns[:, None] < N) & (c[None, :] < K - at * BK), other=0.0)
        acc = tt.dot(left, right.T, acc)
        a += BK
        b += BK
    where = out + rows[:, None] * N + columns[None, :]
    tt.store(where, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))
""")
    m, n, c = 37, 21, 45
    x, y = rng.standard_normal((m, c)).astype(np.float32), rng.standard_normal((n, c)).astype(np.float32)
    out = np.full((m, n), np.nan, np.float32)
    k[tt.cdiv(m, 16), tt.cdiv(n, 8)](x, y, out, m, n, c, 16, 8, 16, num_warps=mapping.warps)
    assert np.allclose(out, x.astype(np.float64) @ y.T, atol=1e-3)

    batch = kernel("""
@tt.jit
def k(x, y, out, half, B: tt.constexpr, N: tt.constexpr):
    d = tt.arange(0, B)[:, None, None] * (N * N)
    at = d + tt.arange(0, N)[None, :, None] * N + tt.arange(0, N)[None, None, :]
    a, b = tt.load(x + at), tt.load(y + at)
    tt.store(out + at, tt.dot(a, b, tt.load(out + at)))
    tt.store(half + at, tt.dot(a.to(tt.float16), b.to(tt.float16), acc=tt.full((B, N, N), 1.0, tt.float16)))
""")
    x, y = (rng.integers(-3, 3, (2, 8, 8)).astype(np.float32) for _ in range(2))
    start = rng.integers(-3, 3, (2, 8, 8)).astype(np.float32)
    out, half = start.copy(), np.zeros((2, 8, 8), np.float16)
    batch[1](x, y, out, half, 2, 8, num_warps=mapping.warps)
    assert np.array_equal(out, x @ y + start) and np.array_equal(half, x @ y + 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "float64"])
def test_elements_that_stay_in_their_warp_are_shuffled(dtype):
    """On a GPU, and as they are; shared memory is for those that change warps."""
    k = kernel(TILE.format(body="tt.store(out + flat, tt.reshape(tt.flip(v), M * N))"))
    types = dict.fromkeys(("x", "out"), f"*{dtype}")
    source = lowered(k, types, threads=32, M=1, N=32).source
    assert "__shfl_sync" in source and "shared_memory" not in source
    assert [line for line in source.split("\n") if "__shfl_sync" in line and "(int)" in line] == [] or dtype == "int8"
    source = lowered(k, types, threads=128, M=1, N=256).source
    assert source.count("__shfl_sync") == 5 and source.count("__syncthreads") == 2


@pytest.mark.parametrize("mapping", MAPPINGS, indirect=True)
def test_pointers_are_rearranged_and_chosen_too(mapping, rng):
    k = kernel("""
@tt.jit
def k(x, y, out, N: tt.constexpr):
    at = tt.arange(0, N)[:, None] * N + tt.arange(0, N)[None, :]
    p = tt.where(at % 3 == 0, y + at, x + at)
    tt.store(out + tt.arange(0, N * N), tt.load(tt.reshape(tt.trans(p), N * N)))
""")
    x, y = rng.standard_normal((2, 16, 16)).astype(np.float32)
    out = np.zeros(256, np.float32)
    k[1](x, y, out, 16, num_warps=mapping.warps)
    assert np.array_equal(out, np.where(np.arange(256).reshape(16, 16) % 3 == 0, y, x).T.ravel())
