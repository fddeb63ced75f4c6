"""Products on tensor cores: which instructions a product gets, and what they give, at small sizes."""

import re

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import EMULATED, choose, kernel
from tinyton.codegen.dialect import CUDA, OPENCL, launch_bounds
from tinyton.codegen.lower import front, lower
from tinyton.explain import layouts
from tinyton.layout import accumulators, gathered, outer
from tinyton.passes import feed
from tinyton.specialize import Specialization, parse

FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
BYTES = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
FLOATS |= BYTES
KINDS = {**FLOATS, "int8": np.int8, "uint8": np.uint8}
SUMS = {"int8": "int32", "uint8": "int32", "float64": "float64"}  # of others, float32
CARDS = {"outer": CUDA, "mma": CUDA.on((8, 0)), "wgmma": CUDA.on((9, 0))}

matmul = kernel("""
@tt.jit
def k(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, TA: tt.constexpr, TB: tt.constexpr,
      MASK: tt.constexpr, SUM: tt.constexpr, BEST: tt.constexpr, PRECISION: tt.constexpr):
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    j = tt.program_id(1) * BN + tt.arange(0, BN)
    acc = tt.zeros((BM, BN), SUM)
    for k0 in range(0, K, BK):
        k = k0 + tt.arange(0, BK)
        pa = a + (i[:, None] + k * M if TA else i[:, None] * K + k)
        pb = b + (k[:, None] + j * K if TB else k[:, None] * N + j)
        x = tt.load(pa, mask=(i[:, None] < M) & (k < K) if MASK else None, other=0)
        y = tt.load(pb, mask=(k[:, None] < K) & (j < N) if MASK else None, other=0)
        acc = tt.dot(x, y, acc, input_precision=PRECISION, instruction=BEST)
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))
""")


@pytest.fixture
def best(request, card, monkeypatch):
    """A card whose best instructions are the ones that are named; all threads copy what they multiply (test_feed.py has
    the others)."""
    if card.dialect.arch < CARDS[request.param].arch:
        pytest.skip(f"this GPU does not have {request.param}")
    monkeypatch.setattr(card, "dialect", CARDS[request.param])
    monkeypatch.setattr(feed, "ALWAYS", False)
    key = f"{card.key()} {request.param}"
    monkeypatch.setattr(card, "key", lambda: key)
    return request.param


def lowered(k, signature, dialect=CARDS["wgmma"], threads=128, stages=None, fed=False, **constants):
    spec = Specialization(tuple(parse(signature).items()), tuple(constants.items()))
    return lower(front(k.source, spec), spec, threads, dialect, launch_bounds, False, stages, fed)


def hows(low):
    return [op.attrs.get("how") for op in low.ir.ops() if op.name == "matmul"]


def multiply(kind, size, tile, rng, turned=(0, 0), masked=False, best=None, precision=None, **options):
    """Runs the kernel above; gives what it gives, what it should, and the largest sum of sizes."""
    (m, n, k), (bm, bn, bk) = size, tile
    draw = (lambda shape: rng.integers(0, 100, shape)) if "int" in kind else rng.standard_normal
    a, b = (draw(shape).astype(KINDS.get(kind, kind)) for shape in ((m, k), (k, n)))
    total = SUMS.get(kind, "float32")
    c = np.full((m, n), 77, total)
    x, y = (np.ascontiguousarray(v.T) if t else v for v, t in zip((a, b), turned, strict=True))
    options |= {"BM": bm, "BN": bn, "BK": bk, "TA": turned[0], "TB": turned[1], "MASK": masked, "BEST": best}
    options |= {"SUM": getattr(tt, total), "PRECISION": precision}
    matmul[(-(-m // bm), -(-n // bn))](x, y, c, m, n, k, **options)
    return c, a.astype(np.float64) @ b.astype(np.float64), np.abs(a.astype(float)) @ np.abs(b.astype(float))


def close(got, want, sizes, unit=2.0**-20):
    assert (np.abs(got - want) <= unit * sizes).all(), np.abs((got - want) / sizes).max()


def unit_of_bytes(card, best):
    """Warp-groups of an H200 keep 13 bits behind the point where they add up float8, which the emulator does not."""
    return 2.0**-11 if (card.name, best) == ("cuda", "wgmma") else 2.0**-20


SHAPES = {
    "outer": [((64, 64, 96), (32, 64, 32)), ((64, 128, 64), (64, 128, 32))],
    "mma": [((64, 64, 96), (32, 64, 32)), ((32, 32, 64), (16, 16, 64)), ((64, 128, 64), (64, 128, 32))],
    "wgmma": [((128, 64, 64), (64, 64, 32)), ((128, 128, 64), (128, 128, 64)), ((64, 256, 32), (64, 256, 32))],
}
TURNED, WORDS = [(0, 0), (0, 1), (1, 0), (1, 1)], "nn nt tn tt".split()
CASES = [(card, *shape) for card, shapes in SHAPES.items() for shape in shapes]


@pytest.mark.parametrize("turned", TURNED, ids=WORDS)
@pytest.mark.parametrize(("best", "size", "tile"), CASES, indirect=["best"])
def test_either_operand_may_be_turned(best, size, tile, turned, rng):
    close(*multiply("float16", size, tile, rng, turned))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_kinds(best, card, kind, rng):
    got, want, sizes = multiply(kind, (64, 64, 96), (64, 64, 32), rng, precision="tf32")
    if kind in FLOATS:
        unit = unit_of_bytes(card, best) if kind in BYTES else 2.0**-20
        close(got, want, sizes, 2.0**-10 if kind == "float32" and best != "outer" else unit)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("turned", TURNED, ids=WORDS)
@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_wide_kinds_turned(best, turned, rng):
    close(*multiply("float64", (64, 64, 40), (32, 32, 8), rng, turned), 2.0**-50)
    unit = 2.0**-20 if best == "outer" else 2.0**-10
    close(*multiply("float32", (128, 64, 80), (64, 64, 16), rng, turned, precision="tf32"), unit)


@pytest.mark.parametrize("turned", TURNED, ids=WORDS)
@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_float8_turned(best, card, kind, turned, rng):
    close(*multiply(kind, (128, 64, 128), (64, 64, 64), rng, turned, num_warps=4), unit_of_bytes(card, best))
    close(*multiply(kind, (50, 40, 72), (32, 32, 32), rng, turned, True, num_warps=2))


@pytest.mark.parametrize("num_stages", [1, 2, 3, 5])
@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_ragged_edges_in_any_number_of_stages(best, num_warps, num_stages, rng):
    options = {"num_warps": num_warps, "num_stages": num_stages}
    close(*multiply("float16", (67, 45, 100), (64, 32, 32), rng, (0, 1), True, **options))
    close(*multiply("bfloat16", (65, 48, 24), (64, 32, 16), rng, (1, 0), True, **options))


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_loops_of_few_rounds(best, rounds, rng):
    close(*multiply("float16", (64, 32, 32 * rounds), (64, 32, 32), rng, num_stages=4))


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("best", ["mma", "wgmma"], indirect=True)
def test_loops_that_would_begin_behind_their_end(best, warps):
    """Nothing is copied for them."""
    k = kernel("""
@tt.jit
def k(a, b, c, low, high):
    i, j = tt.arange(0, 64), tt.arange(0, 16)
    acc = tt.zeros((64, 16), tt.float32)
    for n in range(low, high, 16):
        acc = tt.dot(tt.load(a + i[:, None] * 64 + (n + j)), tt.load(b + (n + j)[:, None] * 16 + j), acc)
    tt.store(c + i[:, None] * 16 + j, acc)
""")
    a, b = np.ones((64, 64), np.float16), np.ones((64, 16), np.float16)
    for low, high, want in ((0, 64, 64), (80, 64, 0), (1 << 20, 0, 0), (48, -(1 << 20), 0)):
        c = np.full((64, 16), 77, np.float32)
        k[1](a, b, c, low, high, num_warps=warps, num_stages=4)
        np.testing.assert_array_equal(c, np.float32(want))


@pytest.mark.parametrize("low", [0, -2])
@pytest.mark.parametrize("best", ["mma", "wgmma"], indirect=True)
def test_rounds_to_come_are_no_better_aligned_than_the_first(best, low, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, n, LOW: tt.constexpr):
    i, j = tt.arange(0, 64), tt.arange(0, 16)
    acc = tt.zeros((64, 64), tt.float32)
    for r in range(LOW, n):
        at = r * n + 16 + j
        acc = tt.dot(tt.load(a + i[:, None] * 64 + at), tt.load(b + at[:, None] * 64 + i), acc)
    tt.store(c + i[:, None] * 64 + i, acc)
""")
    a, b = rng.integers(-3, 4, (2, 64, 64)).astype(np.float16)
    c = np.full((64, 64), np.nan, np.float32)
    k[1](a, b, c, 5, LOW=low, num_warps=4)
    taken = [r * 5 + 16 + j for r in range(low, 5) for j in range(16)]
    np.testing.assert_array_equal(c, a[:, taken].astype(float) @ b[taken].astype(float))


@pytest.mark.parametrize("best", ["mma", "wgmma"], indirect=True)
def test_sums_that_another_product_has_elsewhere(best):
    """Products whose operands come in other ways have their sums in other threads, in a loop or not."""
    k = kernel("""
@tt.jit
def k(a, b, c, n):
    i, j = tt.arange(0, 64), tt.arange(0, 32)
    x, y = tt.load(a + i[:, None] * 32 + j), tt.load(b + j[:, None] * 64 + i)
    one = tt.dot(x, y, input_precision="tf32")
    two = tt.dot(x + x, y, one, input_precision="tf32")
    for _ in range(n):
        two = tt.dot(x, y, two, input_precision="tf32")
        two = tt.dot(x + x, y, two, input_precision="tf32")
    tt.store(c + i[:, None] * 64 + i, one + two)
""")
    rows, columns = np.meshgrid(np.arange(64.0), np.arange(64.0), indexing="ij")
    a, b, c = np.ones((64, 32), np.float32), np.ones((32, 64), np.float32), np.full((64, 64), np.nan, np.float32)
    a[:, 0], b[0] = np.arange(64), np.arange(64)
    k[1](a, b, c, 2, num_warps=4)
    np.testing.assert_array_equal(c, 10 * (rows * columns + 31))


@pytest.mark.parametrize("turned", TURNED, ids=WORDS)
@pytest.mark.parametrize("best", ["mma", "wgmma"], indirect=True)
def test_tf32_is_rounded(best, turned, rng):
    """What is cut off would be less, by 3.5e-4 for each operand."""
    a, b = rng.uniform(1, 2, (2, 64, 64)).astype(np.float32)
    given = [np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), turned, strict=True)]
    c = np.full((64, 64), np.nan, np.float32)
    words = {"BM": 64, "BN": 64, "BK": 32, "TA": turned[0], "TB": turned[1], "MASK": False, "BEST": None}
    matmul[1, 1](*given, c, 64, 64, 64, SUM=tt.float32, PRECISION="tf32", num_warps=4, **words)
    off = c / (a.astype(float) @ b) - 1
    assert np.abs(off).max() < 2.5e-4 and abs(off.mean()) < 5e-5


@pytest.mark.parametrize("turned", TURNED, ids=WORDS)
@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_three_products_of_tf32_are_as_good_as_float32(best, turned, rng):
    close(*multiply("float32", (64, 64, 96), (64, 64, 32), rng, turned, precision="tf32x3"), 2.0**-20)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_batches(best, kind, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, B: tt.constexpr, M: tt.constexpr, N: tt.constexpr, K: tt.constexpr):
    s, i, j = tt.arange(0, B)[:, None, None], tt.arange(0, M)[None, :, None], tt.arange(0, N)[None, None, :]
    x = tt.load(a + s * M * K + i * K + tt.arange(0, K)[None, None, :])
    y = tt.load(b + s * N * K + tt.arange(0, K)[None, :, None] * N + j)
    tt.store(c + s * M * N + i * N + j, tt.dot(x, y, input_precision="tf32"))
""")
    for batch, m, n, inner, warps in ((4, 16, 16, 32, 4), (2, 64, 32, 32, 4), (2, 64, 64, 16, 8)):
        a = rng.standard_normal((batch, m, inner)).astype(kind)
        b = rng.standard_normal((batch, inner, n)).astype(kind)
        c = np.full((batch, m, n), np.nan, np.float32)
        k[1](a, b, c, B=batch, M=m, N=n, K=inner, num_warps=warps)
        unit = 2.0**-10 if kind is np.float32 else 2.0**-20
        close(c, a.astype(float) @ b.astype(float), np.abs(a.astype(float)) @ np.abs(b.astype(float)), unit)


attention = kernel("""
@tt.jit
def k(q_ptr, k_ptr, v_ptr, o_ptr, T, scale, BM: tt.constexpr, BN: tt.constexpr, D: tt.constexpr):
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    d = tt.arange(0, D)
    base = tt.program_id(1) * T * D
    q = tt.load(q_ptr + base + i[:, None] * D + d, mask=i[:, None] < T, other=0)
    m = tt.full((BM,), float("-inf"), tt.float32)
    total = tt.zeros((BM,), tt.float32)
    acc = tt.zeros((BM, D), tt.float32)
    for n in range(0, tt.minimum(T, (tt.program_id(0) + 1) * BM), BN):
        j = n + tt.arange(0, BN)
        key = tt.load(k_ptr + base + j[:, None] * D + d, mask=j[:, None] < T, other=0)
        v = tt.load(v_ptr + base + j[:, None] * D + d, mask=j[:, None] < T, other=0)
        s = tt.where((j[None, :] <= i[:, None]) & (j < T), tt.dot(q, key.T) * scale, float("-inf"))
        new = tt.maximum(m, tt.max(s, 1))
        p = tt.exp(s - new[:, None])
        fade = tt.exp(m - new)
        total = total * fade + tt.sum(p, 1)
        acc = tt.dot(p.to(tt.float16), v, acc * fade[:, None])
        m = new
    tt.store(o_ptr + base + i[:, None] * D + d, acc / total[:, None], mask=i[:, None] < T)
""")
TYPES = {"q_ptr": "*float16:16", "k_ptr": "*float16:16", "v_ptr": "*float16:16", "o_ptr": "*float16:16"}
TYPES |= {"T": "int32", "scale": "float32"}


@pytest.mark.parametrize(("tile", "warps"), [((64, 32), 4), ((128, 64), 8), ((32, 16), 2)], ids=str)
@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_attention(best, tile, warps, rng):
    heads, t, d = 2, 100, 32
    q, k, v = (rng.standard_normal((heads, t, d)).astype(np.float16) for _ in range(3))
    out = np.full((heads, t, d), np.nan, np.float16)
    bm, bn = tile
    attention[(-(-t // bm), heads)](q, k, v, out, t, d**-0.5, BM=bm, BN=bn, D=d, num_warps=warps)
    s = np.einsum("htd,hsd->hts", q.astype(float), k.astype(float)) * d**-0.5
    p = np.exp(np.where(np.tril(np.ones((t, t), bool)), s, -np.inf))
    want = (p / p.sum(-1, keepdims=True)) @ v.astype(float)
    np.testing.assert_allclose(out.astype(float), want, atol=4e-3)


def test_what_is_multiplied_twice_stays_where_it_is():
    """The query is placed once, before the loop; keys and values come through rings; weights stay in registers. Sums
    that begin at 0 are not set to 0 first."""
    low = lowered(attention, TYPES, BM=64, BN=32, D=32)
    assert hows(low) == ["wgmma", "wgmma"]
    before, _, inside = low.source.partition("for (unsigned int rounds")
    assert len(re.findall(r"char\* const q_tile", before)) == 1
    assert not re.search(r"put_|round_float16", inside.partition("// tt.store")[0])
    assert "pack_f16" in inside and "key_tile" in inside and "v_tile" in inside
    assert re.search(r"warpgroup_f16x32\(\w+, .*, (part|0) != 0\)", inside)


def test_what_is_multiplied_along_both_of_its_dimensions_comes_through_one_ring():
    k = kernel("""
@tt.jit
def k(a, b, out, N: tt.constexpr, T: tt.constexpr):
    i = tt.arange(0, N)
    at = i[:, None] * N + i
    x, acc = tt.load(a + at), tt.zeros((N, N), tt.float32)
    for t in range(T):
        y = tt.load(b + t * N * N + at)
        acc = tt.dot(tt.dot(x, y.T).to(tt.float16), y, acc)
    tt.store(out + at, acc)
""")
    low = lowered(k, {"a": "*float16:16", "b": "*float16:16", "out": "*float32:16"}, N=64, T=4)
    names = [op.name for op in low.ir.ops()]
    assert hows(low) == ["wgmma", "wgmma"] and names.count("arrived") == 1
    assert "put_" not in low.source.partition("for (unsigned int rounds")[2].partition("// tt.store")[0]


SIGNATURE = {
    "a": "*float16:16",
    "b": "*float16:16",
    "c": "*float32:16",
    "M": "int32:16",
    "N": "int32:16",
    "K": "int32:16",
}
PLAIN = {"BM": 64, "BN": 64, "BK": 32, "TA": 0, "TB": 0, "MASK": 0, "SUM": tt.float32, "BEST": None, "PRECISION": None}


def test_the_best_instruction_that_card_and_tiles_allow():
    def how(dialect=CARDS["wgmma"], threads=128, kind="float16", **constants):
        types = SIGNATURE | {"a": f"*{kind}:16", "b": f"*{kind}:16"}
        return hows(lowered(matmul, types, dialect, threads, **(PLAIN | constants)))[0]

    assert how() == "wgmma"
    assert how(CUDA) == how(CUDA.on((7, 5))) == "outer"  # for any card, or one without them
    assert how(CARDS["mma"]) == how(CUDA.on((8, 9))) == how(CUDA.on((10, 0))) == "mma"
    assert how(CUDA.on((9, 0), alone=False)) == "mma"  # for later cards, too
    assert how(threads=64) == how(BM=32) == "mma"  # no group of warps; too few rows for one
    assert how(threads=512, BM=64, BN=128) == "mma"  # groups would have too few columns
    assert how(threads=16) is None and how(BN=8) is None and how(BK=8) is None
    assert how(kind="float64", SUM=tt.float64) == "mma" and how(OPENCL) is None
    kind = "float8_e5m2"
    assert how(kind=kind) == "wgmma" and how(CUDA.on((8, 9)), kind=kind) == how(kind=kind, BEST="mma") == "mma"
    assert how(CARDS["mma"], kind=kind) == how(kind=kind, BEST="fma") == "outer"
    assert how(kind="float32") == how(kind="float32", PRECISION="ieee") == "outer"
    assert how(kind="float32", BM=16, BN=16, threads=128) is None  # two sums a thread
    assert how(kind="float32", PRECISION="tf32") == how(kind="float32", PRECISION="tf32", TA=1, TB=1) == "wgmma"
    assert how(kind="float32", PRECISION="tf32x3") == "mma"
    assert how(kind="float32", PRECISION="tf32", TA=1) == how(kind="float32", PRECISION="tf32", TB=1) == "wgmma"
    assert how(BEST="mma") == "mma" and how(BEST="fma") == "outer" and how(CARDS["mma"], BEST="wgmma") == "mma"


def test_copies_of_16_bytes_run_ahead():
    text = lowered(matmul, SIGNATURE, CARDS["mma"], **PLAIN).source
    assert "copy_16(x_ring" in text and "copies_wait<1>" in text and "load_float16x8" not in text
    assert "copies_wait<3>" in lowered(matmul, SIGNATURE, CARDS["mma"], stages=5, **PLAIN).source
    assert "ring" not in lowered(matmul, SIGNATURE, stages=1, **PLAIN).source
    odd = {**SIGNATURE, "K": "int32", "N": "int32"}
    assert "copy_16" not in lowered(matmul, odd, **PLAIN).source


def test_products_go_on_during_the_next_round():
    """They read their tiles until then, so copies run one round less ahead; with two stages there is no room for it."""
    text = lowered(matmul, SIGNATURE, stages=4, **PLAIN).source
    inside, _, after = text.partition("for (unsigned int rounds")[2].partition("warpgroup_wait<1>")
    assert "copies_wait<1>" in inside and "warpgroup_wait_float" not in inside and "warpgroup_wait_float" in after
    assert "warpgroup_wait<1>" not in lowered(matmul, SIGNATURE, stages=2, **PLAIN).source
    assert "warpgroup_wait<1>" not in lowered(attention, TYPES, BM=64, BN=32, D=32).source  # sums are read each round


def test_products_go_on_until_their_sums_are_read():
    k = kernel("""
@tt.jit
def k(a, b, out, N: tt.constexpr):
    i = tt.arange(0, N)
    at = i[:, None] * N + i
    x, y = tt.load(a + at), tt.load(b + at)
    one, two = tt.dot(x, y), tt.dot(y, x)
    tt.store(out + at, tt.exp(one))
    tt.store(out + N * N + at, two)
""")
    text = lowered(k, {"a": "*float16:16", "b": "*float16:16", "out": "*float32:16"}, N=64).source
    marks = "warpgroup_sent();", "warpgroup_sent();", "wait1_floatx32(one)", "exp_float(one[", "wait_floatx32(two)"
    place, body = 0, text.partition("k_kernel(")[2]
    for mark in marks:
        assert mark in body[place:], mark
        place = body.index(mark, place) + len(mark)


def test_no_instruction_of_that_name():
    with pytest.raises(tt.KernelValueError, match='choose one of "fma", "mma", "wgmma"'):
        lowered(matmul, SIGNATURE, **PLAIN | {"BEST": "tensor"})


@pytest.mark.parametrize("threads", [32, 128, 1024])
@pytest.mark.parametrize("shape", [(16, 16), (64, 32), (16, 256), (4, 32, 16)])
def test_sums_of_threads_have_one_place_each(shape, threads):
    layout = outer(shape, threads)
    found = {layout.at(t, r) for t in range(threads) for r in range(layout.registers)}
    assert len(found) == np.prod(shape)
    assert layout.registers * threads == np.prod(shape) << bin(layout.copies).count("1")


@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("shape", [(16, 16), (64, 32), (128, 256), (4, 32, 16)])
@pytest.mark.parametrize("threads", [32, 128, 512])
def test_sums_have_one_place_each(shape, threads, tall):
    layout = accumulators(shape, threads, tall)
    found = {layout.at(t, r) for t in range(threads) for r in range(layout.registers)}
    assert len(found) == np.prod(shape)
    assert layout.registers * threads == np.prod(shape) << bin(layout.copies).count("1")
    for t in range(threads):  # two neighbours in a row, eight rows further down again
        *batch, row, column = layout.at(t, 0)
        assert layout.at(t, 1) == (*batch, row, column + 1) and layout.at(t, 2) == (*batch, row + 8, column)


def test_the_error_for_too_much_shared_memory_says_what_helps(monkeypatch):
    if not EMULATED:
        pytest.skip("there is no emulator on this machine")
    choose("emulator", monkeypatch)
    a = np.zeros((256, 256), np.float16)
    constants = PLAIN | {"BM": 128, "BN": 128, "BK": 128}
    with pytest.raises(tt.LaunchError, match="bytes of shared memory.*smaller tile or fewer num_stages"):
        matmul.compile(a, a, np.zeros((256, 256), np.float32), 256, 256, 256, num_stages=5, **constants)


def test_an_explanation_says_what_is_chosen_and_why():
    told = layouts(lowered(matmul, SIGNATURE, **PLAIN))
    assert re.search(r"matmul in line \d+: by groups of warps \(wgmma\): sm_90a, 1 group of warps, 64 rows", told)
    assert re.search(r"loop in line \d+: 3 stages of 8192 bytes: x, y", told)
    told = layouts(lowered(matmul, SIGNATURE | {"a": "*float32:16", "b": "*float32:16"}, **PLAIN))
    assert "by threads (fma): float32 is multiplied in full" in told
    bytes_ = SIGNATURE | {"a": "*float8_e5m2:16", "b": "*float8_e5m2:16"}
    assert "turned one by one, which is slow" in layouts(lowered(matmul, bytes_, **PLAIN))
    assert "turned" not in layouts(lowered(matmul, bytes_, **PLAIN | {"TB": 1}))
    assert "wgmma takes 128 threads and 64 rows" in layouts(lowered(matmul, SIGNATURE, threads=64, **PLAIN))


def halves(rng, *shape):
    return rng.standard_normal(shape).astype(np.float16)


def wide(*arrays):
    return [a.astype(np.float64) for a in arrays]


@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_programs_that_go_from_tile_to_tile(best, rng):
    """The ring of one tile's loop is used again, after what the tile before it has been turned for its store."""
    k = kernel("""
@tt.jit
def k(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    across = N // BN
    for tile in range(tt.program_id(0), M // BM * across, tt.num_programs(0)):
        i, j = tile // across * BM + tt.arange(0, BM), tile % across * BN + tt.arange(0, BN)
        acc = tt.zeros((BM, BN), tt.float32)
        for k0 in range(0, K, BK):
            k = k0 + tt.arange(0, BK)
            acc = tt.dot(tt.load(a + i[:, None] * K + k), tt.load(b + k[:, None] * N + j), acc)
        tt.store(c + i[:, None] * N + j, acc)
""")
    a, b, c = halves(rng, 128, 48), halves(rng, 48, 96), np.full((128, 96), np.nan, np.float16)
    k[2](a, b, c, 128, 96, 48, BM=64, BN=32, BK=16)
    np.testing.assert_allclose(c.astype(float), np.matmul(*wide(a, b)), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_pointers_that_move_on_and_a_fill_that_is_not_0(best, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    i, j, k = tt.arange(0, BM), tt.arange(0, BN), tt.arange(0, BK)
    x, y = a + i[:, None] * K + k, b + k[:, None] * N + j
    acc = tt.zeros((BM, BN), tt.float32)
    for k0 in range(0, K, BK):
        acc = tt.dot(tt.load(x, mask=k0 + k < K, other=2), tt.load(y, mask=k0 + k[:, None] < K, other=0.5), acc)
        x += BK
        y += BK * N
    tt.store(c + i[:, None] * N + j, acc)
""")
    a, b, c = halves(rng, 64, 40), halves(rng, 40, 32), np.full((64, 32), np.nan, np.float32)
    k[1](a, b, c, 32, 40, BM=64, BN=32, BK=32)
    x, y = wide(a, b)
    close(c, x @ y + 24, np.abs(x) @ np.abs(y) + 24)  # 64 - 40 products of 2 and 0.5


@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_tiles_that_are_used_more_than_once(best, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, out, T: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, N)
    at = i[:, None] * N + i
    one = tt.zeros((N, N), tt.float32)
    two = tt.zeros((N, N), tt.float32)
    rest = tt.zeros((N, N), tt.float32)
    for t in range(T):
        x, y, z = tt.load(a + t * N * N + at), tt.load(b + t * N * N + at), tt.load(c + at)
        one = tt.dot(x, y, one)
        two = tt.dot(x.T, x, two) * 0.5
        if t % 2 == 0:
            rest += y * 2
        rest = tt.dot(tt.dot(y, z).to(tt.float16), x.T, rest)
    tt.store(out + at, one)
    tt.store(out + N * N + at, two)
    tt.store(out + 2 * N * N + at, rest)
""")
    t, n = 3, 64
    a, b, c = halves(rng, t, n, n) / 4, halves(rng, t, n, n) / 4, halves(rng, n, n) / 4
    out = np.full((3, n, n), np.nan, np.float32)
    k[1](a, b, c, out, T=t, N=n)
    x, y, z = wide(a, b, c)
    one, two, rest = np.zeros((3, n, n))
    for s in range(t):
        one += x[s] @ y[s]
        two = (two + x[s].T @ x[s]) * 0.5
        rest += y[s] * 2 * (s % 2 == 0)
        rest += (y[s] @ z).astype(np.float16).astype(float) @ x[s].T
    np.testing.assert_allclose(out, [one, two, rest], rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("best", CARDS, indirect=True)
def test_a_loop_that_stores_what_it_loads_does_not_run_ahead(best, rng):
    k = kernel("""
@tt.jit
def k(a, b, T: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, N)
    at = i[:, None] * N + i
    for t in range(T):
        x = tt.load(a + t * N * N + at)
        tt.store(a + (t + 1) * N * N + at, tt.dot(x, tt.load(b + at)).to(tt.float16))
""")
    a, b = halves(rng, 4, 32, 32), halves(rng, 32, 32) / 4
    got = a.copy()
    k[1](got, b, T=3, N=32)
    for t in range(3):
        a[t + 1] = (a[t].astype(float) @ b.astype(float)).astype(np.float16)
    np.testing.assert_allclose(got.astype(float), a.astype(float), rtol=1e-2, atol=1e-2)


def test_what_is_stored_in_16_bits_does_not_come_back_from_shared_memory():
    """It is rounded once, and goes on in whole vectors without a branch each."""
    types = SIGNATURE | {"c": "*float16:16"}
    text = lowered(matmul, types, **PLAIN).source
    assert "move_16(" in text and not re.search(r"get_float16|store_float16|half_value", text)
    assert "move_16(" not in lowered(matmul, types | {"N": "int32"}, **PLAIN).source  # it may end within a vector


def test_a_division_is_not_made_again_in_a_loop():
    k = kernel("""
@tt.jit
def k(x, out, n, rows, BLOCK: tt.constexpr):
    i = (tt.program_id(0) % rows * 4 + tt.program_id(0) // rows) * BLOCK + tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    for k in range(n):
        total += tt.load(x + k * BLOCK + i)
    tt.store(out + i, total)
""")
    types = {"x": "*float32:16", "out": "*float32:16", "n": "int32", "rows": "int32"}
    body = lowered(k, types, BLOCK=512).source.partition("k_kernel(")[2]
    before, _, after = body.partition("for (int k")
    assert before.count("mod_int") == before.count("floordiv_int") == 1 and not re.search("mod_|floordiv_", after)


@pytest.mark.parametrize("shape", [(64, 64), (128, 256), (64, 16), (128, 32)])
@pytest.mark.parametrize("threads", [64, 128, 256])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_sums_are_stored_by_the_warps_that_have_them(shape, threads, itemsize):
    """In lines of 128 bytes, or as long as rows are; each element once."""
    sums, vector, line = accumulators(shape, threads), 16 // itemsize, min(128 // itemsize, shape[1])
    stored = gathered(sums, 1, vector, 128 // itemsize)
    held = {sums.at(thread, r) for thread in range(32) for r in range(sums.registers)}
    if not all((0, j) in held for j in range(line)) or len(held) < 32 * vector:
        assert stored is None
        return
    for warp in range(threads // 32):
        lanes = range(32 * warp, 32 * warp + 32)
        had, has = ({x.at(t, r) for t in lanes for r in range(x.registers)} for x in (sums, stored))
        assert had == has
    for r in range(0, stored.registers, vector):
        places = sorted(stored.at(t, r + k) for t in range(32) for k in range(vector))
        rows = {i for i, _ in places}
        assert all(len({j for i, j in places if i == row}) >= line for row in rows)


@pytest.mark.parametrize("best", ["mma", "wgmma"], indirect=True)
def test_running_sums_of_products(best, rng):
    """Down the columns, which run through registers and threads by turns, they need another layout."""
    k = kernel("""
@tt.jit
def k(a, b, c, AXIS: tt.constexpr):
    i, j = tt.arange(0, 64), tt.arange(0, 32)
    acc = tt.dot(tt.load(a + i[:, None] * 32 + j), tt.load(b + j[:, None] * 64 + i))
    for _ in range(2):
        acc = tt.cumsum(acc, AXIS)
    tt.store(c + i[:, None] * 64 + i, acc)
""")
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 32), (32, 64)))
    for axis in (0, 1):
        c = np.zeros((64, 64), np.float32)
        k[1](a, b, c, axis, num_warps=4)
        np.testing.assert_array_equal(c, (a.astype(float) @ b.astype(float)).cumsum(axis).cumsum(axis))
