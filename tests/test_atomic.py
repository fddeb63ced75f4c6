"""Atomics: every lane of every program counts once, for each element type, whatever the thread mapping."""

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import choose, kernel, lowered, mappings, same_bits, underlined
from tinyton.codegen import dialect
from tinyton.codegen.dialect import CUDA
from tinyton.explain import layouts

NP = {d.name: np.dtype(d.name if d.name != "bfloat16" else ml_dtypes.bfloat16) for d in tt.dtypes.ALL}
INTS = ("int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64", "float16", "bfloat16")


@pytest.fixture(params=mappings(None, 4))
def warps(request, monkeypatch):
    """The number of warps, on each executor."""
    choose(request.param[0], monkeypatch)
    return request.param[1]


@tt.jit
def change(x, at, total, least, most, swapped, olds, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    v = tt.load(x + i, mask=i < n)
    k = tt.load(at + i, mask=i < n)
    tt.store(olds + i, tt.atomic_add(total + k, 1, mask=i < n), mask=i < n)
    tt.atomic_max(most + k, v, mask=i < n)
    tt.store(olds + n + i, tt.atomic_min(least + k, v, i < n, sem="relaxed"), mask=i < n)
    tt.store(olds + 2 * n + i, tt.atomic_xchg(swapped + k, v, mask=i < n, scope="sys"), mask=i < n)


@pytest.mark.parametrize("dtype", INTS + FLOATS)
def test_many_lanes_on_few_elements(warps, dtype):
    rng, n, places = np.random.default_rng(), 700, 7
    x = rng.permutation(np.arange(n) - (0 if dtype[0] == "u" else n // 2)).astype(np.float64)
    x = (x % 120 - 60 if dtype == "bfloat16" else x).astype(NP[dtype])
    at = rng.integers(0, places, n).astype(np.int32)
    total, swapped = np.zeros(places, NP[dtype]), np.full(places, 5, NP[dtype])
    least, most, olds = np.full(places, 100, NP[dtype]), np.full(places, 1, NP[dtype]), np.empty(3 * n, NP[dtype])
    change[tt.cdiv(n, 256)](x, at, total, least, most, swapped, olds, n, BLOCK=256, num_warps=warps)
    for k in range(places):
        mine = x[at == k].astype(np.float64)
        added, lesser, before = (olds.reshape(3, n)[row, at == k].astype(np.float64) for row in range(3))
        assert total[k] == len(mine)
        assert sorted(added) == list(range(len(mine)))
        assert most[k] == max(1, *mine)
        assert least[k] == min(100, *mine)
        assert ((lesser >= min(mine)) & (lesser <= 100)).all() and 100 in lesser
        assert sorted([*before, float(swapped[k])]) == sorted([*mine, 5.0])


@pytest.mark.parametrize("far", [0, 1])
def test_neighbours_are_added_at_once(warps, far, monkeypatch):
    """Where addresses and masks allow it; on other cards, and to what begins elsewhere, one by one."""
    k = kernel("""
@tt.jit
def k(x, out, rows, cols, BM: tt.constexpr, BN: tt.constexpr):
    i, j = tt.program_id(0) * BM + tt.arange(0, BM), tt.arange(0, BN)
    at, on = i[:, None] * cols + j, (i[:, None] < rows) & (j < cols)
    tt.atomic_add(out + i[:, None] % 4 * cols + j, tt.load(x + at, mask=on), mask=on)
""")
    rng = np.random.default_rng()
    for rows, cols in ((37, 48), (20, 50)):
        x, room = rng.integers(-99, 99, (rows, cols)).astype(np.float32), np.zeros(4 * cols + far, np.float32)
        out, want = room[far:].reshape(4, cols), np.zeros((4, cols))
        k[tt.cdiv(rows, 16)](x, out, rows, cols, BM=16, BN=64, num_warps=warps)
        np.add.at(want, np.arange(rows) % 4, x)
        np.testing.assert_array_equal(out, want)
        assert "fetch" in k.compile(x, out, rows, cols, BM=16, BN=64).explain().layouts
    types = {"x": "*float32:16", "out": "*float32:16", "rows": "int32", "cols": "int32:16"}
    for capability in ((8, 0), (9, 0)):
        monkeypatch.setattr(dialect, "CUDA", CUDA.on(capability))
        for more in ({}, {"out": "*float32"}, {"cols": "int32"}):
            low = lowered(k, types | more, BM=16, BN=64)
            assert ("atomicAdd((float4*)(" in low.source) == (capability == (9, 0) and not more)
            assert ("fetch in line" in layouts(low)) == ("atomicAdd((float4*)(" in low.source)


def test_a_mask_that_chooses(warps):
    @tt.jit
    def k(x, old, n):
        i = tt.arange(0, 8)
        tt.store(old + i, tt.atomic_add(x + i, i, mask=tt.where(i < n, i > 1, i < 7)))

    x, old = np.full(8, 9, np.int32), np.empty(8, np.int32)
    k[1](x, old, 4, num_warps=warps)
    assert x.tolist() == [9, 9, 11, 12, 13, 14, 15, 9]
    assert old.tolist() == [0, 0, 9, 9, 9, 9, 9, 0]


@pytest.mark.parametrize("how", ["add", "cas", "max", "xchg"])
def test_cuda_exchanges_the_elements_of_16_bits_alone(how):
    """Not a word of 32 bits with them: at the end of an array that is memory of nobody."""
    k = kernel(f"""
@tt.jit
def k(x, n):
    tt.atomic_{how}(x + tt.arange(0, 32), {"0, " * (how == "cas")}1, mask=tt.arange(0, 32) < n, scope="sys")
""")
    text = lowered(k, {"x": "*float16:16", "n": "int32"}).source
    assert "atom.sys.cas.b16" in text and "unsigned int*" not in text


@tt.jit
def bits(x, ands, ors, xors, olds, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    v = tt.load(x + i)
    tt.atomic_and(ands + i % 3, v)
    tt.atomic_or(ors + i % 3, v)
    tt.store(olds + i, tt.atomic_xor(xors + i // 2, v))


@pytest.mark.parametrize("dtype", INTS)
def test_bits(warps, dtype):
    x = np.random.default_rng().integers(0, np.iinfo(dtype).max, 512, dtype)
    ands, ors, xors = np.full(3, x[0], dtype), np.zeros(3, dtype), np.zeros(256, dtype)
    olds = np.empty(512, dtype)
    bits[1](x, ands, ors, xors, olds, BLOCK=512, num_warps=warps)
    for k in range(3):
        assert ands[k] == np.bitwise_and.reduce(x[k::3]) & x[0]
        assert ors[k] == np.bitwise_or.reduce(x[k::3])
    pairs = x.reshape(256, 2)
    assert np.array_equal(xors, pairs[:, 0] ^ pairs[:, 1])
    first, second = olds.reshape(256, 2).T
    assert (((first == 0) & (second == pairs[:, 0])) | ((second == 0) & (first == pairs[:, 1]))).all()


@tt.jit
def compare(x, expected, new, olds, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    e = tt.load(expected + i, mask=i < n)
    v = tt.load(new + i, mask=i < n)
    tt.store(olds + i, tt.atomic_cas(x + i, e, v, mask=i < n), mask=i < n)


@pytest.mark.parametrize("dtype", INTS + FLOATS)
def test_comparing_and_swapping_looks_at_bits(warps, dtype):
    rng, n = np.random.default_rng(), 201
    x, expected, new = (rng.integers(0, 3, n).astype(NP[dtype]) for _ in range(3))
    if dtype in FLOATS:
        x[:4] = [np.nan, 0.0, -0.0, np.inf]
        expected[:4] = [np.nan, -0.0, -0.0, np.inf]
        new[:4] = 7
    word = f"u{x.itemsize}"
    want = np.where(x.view(word) == expected.view(word), new, x)
    memory = np.full(n + 2, 9, NP[dtype])
    memory[1:-1], olds = x, np.empty(n, NP[dtype])
    compare[1](memory[1:-1], expected, new, olds, n, BLOCK=256, num_warps=warps)
    same_bits(memory[1:-1], want)
    same_bits(olds, x)
    assert memory[0] == memory[-1] == 9


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_of_signed_zeros_infinities_and_nan(warps, dtype):
    @tt.jit
    def k(x, most, least, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.atomic_max(most + i // 4, tt.load(x + i))
        tt.atomic_min(least + i // 4, tt.load(x + i))

    nan, inf = np.nan, np.inf
    x = [[-1, -2, -0.0, -3], [nan, nan, nan, nan], [nan, -5, -inf, -7], [1, inf, 2, nan]]
    x = np.array(x, NP[dtype])
    most, least = np.array([-9, -1, nan, 0], NP[dtype]), np.array([9, -1, nan, 0], NP[dtype])
    k[1](x, most, least, BLOCK=16, num_warps=warps)
    assert most.tolist() == [0, -1, -5, inf]
    assert least.tolist() == [-3, -1, -inf, 0]


@tt.jit
def copies(x, counts, sums, out, ROWS: tt.constexpr, COLS: tt.constexpr):
    r = tt.arange(0, ROWS)
    c = tt.arange(0, COLS)
    v = tt.load(x + r[:, None] * COLS + c[None, :])
    tt.atomic_add(sums + r, tt.sum(v, 1))  # a slice of a layout: several threads hold each element
    tt.atomic_add(sums + ROWS + c[None, :], v)  # pointers that are repeated all count
    ticket = tt.atomic_add(counts, 1)
    tt.store(out + ticket * 4 + tt.arange(0, 4), tt.atomic_add(counts + 1 + tt.arange(0, 4), ticket))


def test_an_element_acts_once_however_many_threads_hold_it(warps):
    rng, rows, cols, programs = np.random.default_rng(), 8, 64, 5
    x = rng.integers(0, 100, (rows, cols)).astype(np.float32)
    counts, sums, out = np.zeros(5, np.int32), np.zeros(rows + cols, np.float32), np.full((programs, 4), -1, np.int32)
    copies[programs](x, counts, sums, out, ROWS=rows, COLS=cols, num_warps=warps)
    assert np.array_equal(sums, programs * np.concatenate([x.sum(1), x.sum(0)]))
    assert counts.tolist() == [5] + [10] * 4
    assert (out[0] == 0).all() or 0 in out  # the first ticket, 0, adds nothing
    for column in out.T:  # what each saw is the sum of some of the others' tickets
        assert ((column >= 0) & (column <= 10)).all() and 0 in column


def test_what_came_before_is_seen_by_the_last_to_arrive(warps):
    """Each program leaves its part and counts itself; the last to do so adds the parts."""

    @tt.jit
    def total(x, parts, arrived, out, programs, BLOCK: tt.constexpr):
        pid = tt.program_id(0)
        i = tt.arange(0, BLOCK)
        tt.store(parts + pid * BLOCK + i, tt.load(x + pid * BLOCK + i) * 2)
        if tt.atomic_add(arrived, 1) == programs - 1:
            acc = tt.zeros((BLOCK,), tt.float32)
            for k in range(programs):
                acc += tt.load(parts + k * BLOCK + (BLOCK - 1 - i))
            tt.store(out + i, acc)

    programs, block = 9, 256
    x = np.random.default_rng().integers(0, 100, (programs, block)).astype(np.float32)
    parts, arrived, out = np.zeros_like(x), np.zeros(1, np.int32), np.zeros(block, np.float32)
    total[programs](x, parts, arrived, out, programs, BLOCK=block, num_warps=warps)
    assert np.array_equal(out, 2 * x.sum(0)[::-1])


def test_programs_take_turns_with_a_lock(warps):
    """Each program adds its row to one of a few sums, as the first stage of a sum over many rows."""

    @tt.jit
    def k(x, sums, lock, N, GROUP: tt.constexpr, BLOCK: tt.constexpr):
        row = tt.program_id(0)
        i = tt.arange(0, BLOCK)
        mask = i < N
        part = tt.load(x + row * N + i, mask=mask)
        lock += row % GROUP
        first = lock + GROUP
        sums += (row % GROUP) * N + i
        while tt.atomic_cas(lock, 0, 1) == 1:
            pass
        if tt.load(first) == 0:
            tt.atomic_xchg(first, 1)
        else:
            part += tt.load(sums, mask=mask)
        tt.store(sums, part, mask=mask)
        tt.debug_barrier()
        tt.atomic_xchg(lock, 0)

    n, rows, groups = 300, 30, 4
    x = np.random.default_rng().integers(-100, 100, (rows, n)).astype(np.float32)
    sums, locks = np.full((groups, n), 99, np.float32), np.zeros(2 * groups, np.int32)
    k[rows](x, sums, locks, n, GROUP=groups, BLOCK=512, num_warps=warps)
    assert np.array_equal(sums, [x[g::groups].sum(0) for g in range(groups)])
    assert locks.tolist() == [0] * groups + [1] * groups


@pytest.mark.parametrize("dtype", ("int8", "uint8", "int32", "int64", "uint64"))
def test_histograms(warps, dtype):
    @tt.jit
    def k(x, out, n, ROWS: tt.constexpr, COLS: tt.constexpr, BINS: tt.constexpr):
        at = tt.arange(0, ROWS)[:, None] * COLS + tt.arange(0, COLS)[None, :]
        v = tt.load(x + at)
        i = tt.arange(0, BINS)
        tt.store(out + i, tt.histogram(v, BINS))
        for r in range(3):
            tt.store(out + (r + 1) * BINS + i, tt.histogram(v, BINS, mask=at < n + r))
        tt.store(out + 4 * BINS + tt.arange(0, 128), tt.histogram(tt.zeros((64,), tt.int32) + 7, 128))

    rng, rows, cols, bins = np.random.default_rng(), 8, 27, 20
    low, high = (0, 120) if dtype[0] == "u" else (-60, 60)
    x = np.where(
        rng.random((rows, cols)) < 0.5, rng.integers(0, bins, (rows, cols)), rng.integers(low, high, (rows, cols))
    )
    x = x.astype(dtype)
    x[0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    out, n = np.empty(4 * bins + 128, np.int32), 50
    k[1](x, out, n, ROWS=rows, COLS=cols, BINS=bins, num_warps=warps)
    for got, part in zip(out[: 4 * bins].reshape(4, bins), (x.size, n, n + 1, n + 2), strict=True):
        assert got.tolist() == [int((x.flat[:part] == b).sum()) for b in range(bins)]
    assert out[4 * bins :].tolist() == [0] * 7 + [64] + [0] * 120


@pytest.mark.parametrize("language, barrier", [("cuda", "__syncthreads"), ("opencl", " barrier(")])
def test_barriers_go_where_the_meaning_asks_for_them(language, barrier):
    def barriers(line, sem):
        k = kernel(
            "@tt.jit\ndef k(x, out, h, BLOCK: tt.constexpr):\n    i = tt.arange(0, BLOCK)\n"
            f"    v = tt.load(x + i)\n    {line.format(sem)}\n    tt.store(out + i, v)"
        )
        types = {"x": "*float32:16", "out": "*float32:16", "h": "*int32:16"}
        return lowered(k, types, language, BLOCK=512).source.count(barrier)

    assert barriers("tt.atomic_add(h + i, 1, sem='{}')", "relaxed") == 0
    assert barriers("tt.atomic_add(h + i, 1, sem='{}')", "acq_rel") == 0  # x is only read, and nobody looks at h
    assert barriers("old = tt.atomic_add(h + i, 1, sem='{}'); tt.store(h + i + 512, old)", "relaxed") == 1
    assert barriers("old = tt.atomic_add(h + i, 1, sem='{}'); v += old", "acquire") == 1
    assert barriers("old = tt.atomic_add(h + i, 1, sem='{}'); v += old", "release") == 0


@pytest.mark.parametrize(
    "line, under, words",
    [
        (
            "tt.atomic_add(x + i, 1)",
            "x + i",
            "atomic_add changes elements of 32- and 64-bit ints, and floats, not of int16",
        ),
        (
            "tt.atomic_xor(f + i, 1)",
            "f + i",
            "atomic_xor changes elements of int32, uint32, int64 and uint64, not of float32",
        ),
        ("tt.atomic_add(i, 1)", "i", "expected a pointer"),
        ("tt.atomic_add(f + i, 1, mask=i)", "i", "a mask is bool, not i32"),
        (
            "tt.atomic_max(f + i, 1, sem='seq_cst')",
            "'seq_cst'",
            "sem is one of 'acq_rel', 'acquire', 'release', 'relaxed'",
        ),
        ("tt.atomic_max(f + i, 1, scope='warp')", "'warp'", "scope is one of 'gpu', 'cta', 'sys'"),
        ("tt.atomic_add(f + i, tt.arange(0, 16))", "tt.atomic_add(f + i, tt.arange(0, 16))", "do not broadcast"),
        ("tt.histogram(tt.load(f + i), 8)", "tt.load(f + i)", "is of a tile of integers, not of f32[8]"),
        ("tt.histogram(i, 0)", "0", "num_bins is 0; there must be one at least"),
        ("tt.atomic_cas(f + i, x, 1)", "tt.atomic_cas(f + i, x, 1)", "a pointer (*i16) is not a number"),
    ],
)
def test_mistakes(interpreter, line, under, words):
    k = kernel(f"@tt.jit\ndef k(x, f):\n    i = tt.arange(0, 8)\n    {line}")
    with pytest.raises(tt.TinytonError) as caught:
        k[1](np.zeros(8, np.int16), np.zeros(8, np.float32))
    assert underlined(caught.value) == under
    assert words in str(caught.value)
