"""Loops whose rounds a cluster of blocks shares (``num_ctas``): what is shared out, what comes out, what is not."""

import re

import emulator
import ml_dtypes
import numpy as np
import pytest
from test_tensor import close

import tinyton as tt
import tinyton.tile as ct
from conftest import EMULATED, Guarded, choose, kernel
from tinyton.codegen.dialect import CUDA
from tinyton.explain import layouts
from tinyton.passes import cluster
from tinyton.replay import for_gpu
from tinyton.specialize import parse

PRODUCT = """
@tt.jit
def k(a, b, c, M, N, K, PRECISION: tt.constexpr, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    j = tt.program_id(1) * BN + tt.arange(0, BN)
    acc = tt.zeros((BM, BN), tt.float32)
    for k0 in range(0, K, BK):
        k = k0 + tt.arange(0, BK)
        x = tt.load(a + i[:, None] * K + k, mask=(i[:, None] < M) & (k < K), other=0)
        y = tt.load(b + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0)
        acc = tt.dot(x, y, acc, input_precision=PRECISION)
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))
"""
POINTERS = """
@tt.jit
def k(a, b, c, M, N, K, PRECISION: tt.constexpr, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    j = tt.program_id(1) * BN + tt.arange(0, BN)
    k = tt.arange(0, BK)
    left, right, rest = a + i[:, None] * K + k, b + k[:, None] * N + j, K
    acc = tt.zeros((BM, BN), tt.float32)
    for _ in range(tt.cdiv(K, BK)):
        x = tt.load(left, mask=(i[:, None] < M) & (k < rest), other=0)
        y = tt.load(right, mask=(k[:, None] < rest) & (j < N), other=0)
        acc += tt.dot(x, y, input_precision=PRECISION)
        left += BK
        right += BK * N
        rest -= BK
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))
"""


def described(name, text):
    return parse({name: text})[name]


KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}


@pytest.fixture
def clusters(card):
    if card.dialect.arch < cluster.SINCE:
        pytest.skip("this GPU has no clusters")
    return card


def product(k, kind, size, tile, blocks, rng, precision=None, **options):
    """``a @ b``, what it is to be, and how large it could be; and the compiled kernel."""
    (m, n, depth), words = size, dict(zip(("BM", "BN", "BK"), tile, strict=True))
    a, b = (rng.standard_normal(shape).astype(kind) for shape in ((m, depth), (depth, n)))
    guard = Guarded((m, n), np.float64 if kind is np.float64 else np.float32, 0xFF)
    grid, words = (tt.cdiv(m, tile[0]), tt.cdiv(n, tile[1])), words | {"PRECISION": precision} | options
    k[grid](a, b, guard.array, m, n, depth, **words, num_ctas=blocks)
    compiled = k.compile(a, b, guard.array, m, n, depth, **words, num_ctas=blocks)
    a, b = a.astype(float), b.astype(float)
    return (guard.check(), a @ b, np.abs(a) @ np.abs(b)), compiled


@pytest.mark.parametrize("text", [PRODUCT, POINTERS], ids=["index", "pointers"])
@pytest.mark.parametrize("blocks", [2, 4, 8, 16])
def test_products_of_all_depths(clusters, text, blocks, rng):
    """More rounds than blocks, as many, fewer, and none."""
    k = kernel(text)
    for depth in (32 * blocks + 16, 32 * blocks, 48, 0):
        found, compiled = product(k, np.float16, (80, 96, depth), (64, 32, 32), blocks, rng)
        close(*found)
        assert compiled.num_ctas == min(blocks, cluster.MOST)
        assert f"a cluster of {compiled.num_ctas} blocks" in layouts(compiled.low)
        assert bool(compiled.low.maps) == (text is PRODUCT)  # a warp more copies for these


@pytest.mark.parametrize(
    ("kind", "precision"), [("bfloat16", None), ("float32", "tf32"), ("float32", "ieee"), ("float64", None)]
)
def test_products_of_all_kinds(clusters, kind, precision, rng):
    text = PRODUCT.replace("tt.float32)", "tt.float64)") if kind == "float64" else PRODUCT
    for size, tile, options in (
        ((61, 75, 201), (32, 32, 32), {}),
        ((64, 80, 128), (64, 64, 32), {"num_stages": 2, "num_warps": 8}),
        ((16, 48, 272), (16, 16, 64), {"num_stages": 1, "num_warps": 1}),
    ):
        found, compiled = product(kernel(text), KINDS[kind], size, tile, 4, rng, precision, **options)
        close(*found, *[2.0**-10] * (precision == "tf32"))
        assert compiled.num_ctas == 4


SUMS = """
@tt.jit
def k(x, y, sums, counts, squares, last, ROWS: tt.constexpr, COLUMNS: tt.constexpr):
    j = tt.arange(0, COLUMNS)
    row = tt.program_id(0)
    total, count, square = tt.zeros((COLUMNS,), tt.float32), tt.zeros((COLUMNS,), tt.int32), 0.0
    for i in range(tt.load(x), tt.load(x + 1), STEP):
        v = tt.load(y + (row * ROWS + i) * COLUMNS + j)
        total += v
        count = count + (v > 0).to(tt.int32) * 1500000000
        square += tt.sum(v * v)
    tt.store(sums + row * COLUMNS + j, total)
    tt.store(counts + row * COLUMNS + j, count)
    tt.store(squares + row, square)
    tt.store(last + row, tt.num_programs(0) * 100 + row)
"""


@pytest.mark.parametrize("blocks", [1, 2, 8])
@pytest.mark.parametrize("step", [1, 3])
def test_sums_of_what_is_loaded(executor, step, blocks, rng):
    """Several, of which integers wrap around; between any bounds, in a grid of several programs; everywhere."""
    k = kernel(SUMS.replace("STEP", str(step)))
    for low, high in ((0, 40), (7, 40), (3, 4), (5, 5), (9, -3)):
        y = rng.standard_normal((3, 40, 64)).astype(np.float32)
        sums, counts = np.full((3, 64), np.nan, np.float32), np.full((3, 64), -1, np.int32)
        squares, last = np.full(3, np.nan, np.float32), np.full(3, -1, np.int32)
        bounds = np.array([low, high], np.int32)
        k[3](bounds, y, sums, counts, squares, last, ROWS=40, COLUMNS=64, num_ctas=blocks)
        seen = y[:, list(range(low, high, step))].astype(float)
        np.testing.assert_allclose(sums, seen.sum(1), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(counts, ((seen > 0).sum(1) * 1500000000).astype(np.int32))
        np.testing.assert_allclose(squares, (seen**2).sum((1, 2)), rtol=1e-5)
        assert last.tolist() == [300, 301, 302]


def test_ends_of_the_range_do_not_wrap_around(clusters):
    """Blocks whose first round would lie behind all numbers of 32 bits have none."""
    k = kernel("""
@tt.jit
def k(low, high, rounds, first):
    count, where = 0, tt.zeros((1,), tt.int64)
    for i in range(low, high, 1 << 26):
        count += 1
        where += i
    tt.store(rounds, count)
    tt.store(first + tt.arange(0, 1), where)
""")
    most = 2**31 - 1
    for low, high in (
        (most - 5, most),
        (most - (1 << 27), most),
        (-(2**31), -(2**31) + 1),
        (-(2**31), most),
        (0, most),
    ):
        rounds, first = np.zeros(1, np.int32), np.zeros(1, np.int64)
        k[1](low, high, rounds, first, num_ctas=8)
        want = range(low, high, 1 << 26)
        assert (rounds[0], first[0]) == (len(want), sum(want))
        assert k.compile(low, high, rounds, first, num_ctas=8).num_ctas == 8


ROWS = """
@tt.jit
def k(x, out, N, BLOCK: tt.constexpr):
    row, i = tt.program_id(0), tt.arange(0, BLOCK)
    BEFORE
    for start in range(0, N, BLOCK):
        BODY
    AFTER
"""
LOAD = "v = tt.load(x + row * N + start + i, mask=start + i < N, other=0)"
ZEROS = "acc = tt.zeros((BLOCK,), tt.float32)"
ALONE = {
    "no sum": ("most = tt.zeros((BLOCK,), tt.float32)", f"{LOAD}; most = tt.maximum(most, v)", "most"),
    "from 0 on": ("acc = tt.full((BLOCK,), 1.0, tt.float32)", f"{LOAD}; acc += v", "acc"),
    "is no sum": (ZEROS, f"{LOAD}; acc = (acc + v) * 0.5", "acc"),
    "effects before its sums": (ZEROS, f"{LOAD}; acc += v; tt.store(out + row, 0.0)", "acc"),
    "up to its end": (ZEROS, f"{LOAD}; acc += v\n        if start > 4 * N: break", "acc"),
    "adds nothing up": ("at = row * N", "at += BLOCK", "tt.zeros((BLOCK,), tt.float32)"),
}


@pytest.mark.parametrize("why", ALONE)
def test_what_is_no_sum_is_for_one_block(clusters, why, rng):
    before, body, result = ALONE[why]
    text = ROWS.replace("BEFORE", before).replace("BODY", body)
    k = kernel(text.replace("AFTER", f"tt.store(out + row, tt.sum({result}))"))
    x = rng.standard_normal((5, 300)).astype(np.float32)
    alone, out = np.full(5, np.nan, np.float32), np.full(5, np.nan, np.float32)
    k[5](x, alone, 300, BLOCK=64)
    k[5](x, out, 300, BLOCK=64, num_ctas=4)
    compiled = k.compile(x, out, 300, BLOCK=64, num_ctas=4)
    assert compiled.num_ctas == 1 and why in compiled.low.apart and why in layouts(compiled.low)
    np.testing.assert_array_equal(out, alone)


MOVES = {  # by what a pointer goes on, and whether that is the same in all rounds
    "s = 64": True,
    "s = M // 5 * 64": True,
    "s = r * 64": False,
    "s = 0\n        for q in range(0, M): s += r * 16": False,
    "s = 0\n        if r > 1: s = r * 64": False,
    "s, t = 0, 1\n        while s < M * 16: s, t = s + t * 8, t * 2": None,
    "s = 0\n        if M > 3: s = tt.load(step)": None,
    "s = tt.load(step + tt.where(n == 0, 1 << 28, 0))": None,
}


@pytest.mark.parametrize("move", MOVES)
def test_pointers_that_move_in_all_ways(clusters, move, rng):
    """Nothing is loaded for a loop that has no rounds."""
    k = kernel(f"""
@tt.jit
def k(x, step, out, n, M):
    i = tt.arange(0, 64)
    p, acc = x + i, tt.zeros((64,), tt.float32)
    for r in range(0, n):
        acc += tt.load(p)
        {move}
        p += s
    tt.store(out + i, acc)
""")
    x, step = rng.standard_normal(4096).astype(np.float32), np.array([64], np.int32)
    for rounds in (6, 0):
        alone, out = np.full(64, np.nan, np.float32), np.full(64, np.nan, np.float32)
        k[1](x, step, alone, rounds, 5)
        k[1](x, step, out, rounds, 5, num_ctas=4)
        np.testing.assert_allclose(out, alone, rtol=1e-5, atol=1e-5)
        assert (k.compile(x, step, out, rounds, 5, num_ctas=4).num_ctas == 4) == bool(MOVES[move])


def test_what_does_not_fit_is_for_one_block(clusters, rng):
    found, compiled = product(kernel(PRODUCT), np.float16, (256, 256, 64), (256, 256, 32), 4, rng, num_warps=8)
    close(*found)
    assert compiled.num_ctas == 1 and "does not fit" in layouts(compiled.low)


def test_one_thread_a_program(clusters, rng):
    x, out = rng.standard_normal((5, 300)).astype(np.float32), np.full(5, np.nan, np.float32)
    text = ROWS.replace("BEFORE", ZEROS).replace("BODY", f"{LOAD}; acc += v")
    k = kernel(text.replace("AFTER", "tt.store(out + row, tt.sum(acc))"))
    k[5](x, out, 300, BLOCK=16, num_ctas=4, num_threads=1)
    np.testing.assert_allclose(out, x.astype(float).sum(1), rtol=1e-4, atol=1e-4)
    with pytest.raises(tt.LaunchError, match="4294967296 blocks along the first axis"):
        k[1 << 30](x, out, 300, BLOCK=16, num_ctas=4, num_threads=1)


@pytest.mark.parametrize("pure", [True, False])
def test_instructions_that_are_not_pure_run_once(pure):
    k = kernel(f"""
@tt.jit
def k(x, out):
    i = tt.arange(0, 64)
    t = tt.inline_asm_elementwise("mov.u32 $0, 5;", "=r", [], tt.int32, {pure}, 1)
    acc = tt.zeros((64,), tt.float32)
    for r in range(0, 100):
        acc += tt.load(x + i + t + r)
    tt.store(out + i, acc)
""")
    low = for_gpu(k, (), {"x": "*float32:16", "out": "*float32:16", "num_ctas": 2}, described, False, CUDA.on((9, 0)))[
        3
    ]
    assert low.ctas == 1 + pure and ("inline_asm" in low.apart) != pure


@pytest.mark.parametrize("cut", ["blocks_meet", "blocks_wait", "threads_meet<128>"])
def test_without_its_waits_a_product_is_wrong(cut, rng, monkeypatch):
    """Each is needed, of those behind the loop that come first. (What a block had is not there when it has ended.)"""
    if not EMULATED:
        pytest.skip(emulator.unusable())
    choose("emulator", monkeypatch)
    (a, b), out = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2)), np.zeros((64, 64), np.float32)
    words = {"BM": 64, "BN": 64, "BK": 16, "PRECISION": None, "num_ctas": 2, "num_warps": 4}
    compiled = kernel(PRODUCT).compile(a, b, out, 64, 64, 64, **words)
    text = compiled.source
    start = text.index(f"{cut}(", text.index("if (blockIdx") - 120)
    function = emulator.load(text[:start] + text[text.index(";", start) :], compiled.low.symbol)
    compiled.loaded = compiled.loaded._replace(function=function)
    for _ in range(100):
        out[:] = np.nan
        try:
            compiled[1](a, b, out, 64, 64, 64)
        except tt.BackendError:
            return
        if not np.allclose(out, a.astype(float) @ b.astype(float), atol=1e-3):
            return
    pytest.fail("nobody came too early")


def test_a_loop_that_multiplies_goes_before_others(clusters, rng):
    k = kernel("""
@tt.jit
def k(x, out, N):
    i, j = tt.arange(0, 64), tt.arange(0, 32)
    acc, total = tt.zeros((64, 64), tt.float32), tt.zeros((32,), tt.float32)
    for s in range(0, N, 32):
        v = tt.load(x + i[:, None] * N + s + j)
        acc = tt.dot(v, v.T, acc)
    for s in range(0, N, 32):
        total += tt.load(x + s + j)
    tt.store(out + i[:, None] * 64 + i, acc + tt.sum(total))
""")
    x, out = rng.standard_normal((64, 320)).astype(np.float16), np.full((64, 64), np.nan, np.float32)
    k[1](x, out, 320, num_ctas=4)
    y = x.astype(float)
    close(out, y @ y.T + y[0].sum(), np.abs(y) @ np.abs(y.T) + np.abs(y[0]).sum())
    assert re.findall(r"= gathered (\w+)", str(k.compile(x, out, 320, num_ctas=4).ir)) == ["acc_1"]


def test_cards_without_clusters_take_no_notice(executor, rng):
    x, out = rng.standard_normal((5, 300)).astype(np.float32), np.full(5, np.nan, np.float32)
    text = ROWS.replace("BEFORE", ZEROS).replace("BODY", f"{LOAD}; acc += v")
    k = kernel(text.replace("AFTER", "tt.store(out + row, tt.sum(acc))"))
    for blocks in (None, 1, 2, 16):
        out[:] = np.nan
        k[5](x, out, 300, BLOCK=64, num_ctas=blocks)
        np.testing.assert_allclose(out, x.astype(float).sum(1), rtol=1e-4, atol=1e-4)
        compiled = k.compile(x, out, 300, BLOCK=64, num_ctas=blocks)
        has = getattr(compiled.executor, "dialect", None) and compiled.executor.dialect.arch >= cluster.SINCE
        assert compiled.num_ctas == (min(blocks or 1, cluster.MOST) if has else 1)
        assert bool(compiled.low.apart) == ((blocks or 1) > 1 and not has)


def test_a_configuration_tells_the_blocks(clusters, rng):
    x, out = rng.standard_normal((5, 300)).astype(np.float32), np.full(5, np.nan, np.float32)
    text = ROWS.replace("BEFORE", ZEROS).replace("BODY", f"{LOAD}; acc += v")
    k = kernel(text.replace("AFTER", "tt.store(out + row, tt.sum(acc))"))
    compiled = k.compile(x, out, 300, BLOCK=64, num_ctas=4)
    config = tt.LaunchConfig.with_grid(5, compiled)
    assert (config.grid, config.cluster, config.blocks) == ((5, 1, 1), (4, 1, 1), (20, 1, 1))
    for given in (config, tt.LaunchConfig(5)):
        out[:] = np.nan
        compiled.launch(given, x, out, 300)
        np.testing.assert_allclose(out, x.astype(float).sum(1), rtol=1e-4, atol=1e-4)
    with pytest.raises(tt.LaunchError, match=r"a cluster of \(4, 1, 1\) blocks .*cluster=\(2, 1, 1\).*with_grid"):
        compiled.launch(tt.LaunchConfig(5, cluster=2), x, out, 300)
    assert "4 blocks a program" in repr(compiled)


def test_a_hint_of_cutile(clusters, rng):
    @ct.kernel(num_ctas=4)
    def k(a, b, c, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]):
        i, j = ct.bid(0), ct.bid(1)
        acc = ct.full((BM, BN), 0, ct.float32)
        for s in range(ct.num_tiles(a, 1, (BM, BK))):
            x = ct.load(a, (i, s), (BM, BK), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(x, ct.load(b, (s, j), (BK, BN), padding_mode=ct.PaddingMode.ZERO), acc)
        ct.store(c, (i, j), acc)

    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((80, 208), (208, 144)))
    c = np.full((80, 144), np.nan, np.float32)
    ct.launch(None, (2, 3), k, (a, b, c, 64, 64, 32))
    a, b = a.astype(float), b.astype(float)
    close(c, a @ b, np.abs(a) @ np.abs(b))
    assert any(compiled.num_ctas == 4 for compiled in k._cache.values())


def test_what_is_built_for_other_cards():
    """Their text, and their grids."""
    words = dict.fromkeys("abc", "*float16:16") | dict.fromkeys("MNK", "int32:16") | {"PRECISION": None}
    words |= {"BM": 64, "BN": 64, "BK": 64, "num_ctas": 4}
    for card, blocks in (((8, 0), 1), ((9, 0), 4), ((10, 0), 4)):
        args = kernel(PRODUCT), (), words, described, False, CUDA.on(card)
        low = for_gpu(*args)[3]
        assert low.ctas == blocks and ("__cluster_dims__(4, 1, 1)" in low.source) == (blocks > 1)
        assert low.blocks((5, 3, 2), 132) == (5 * blocks, 3, 2)
        assert "no clusters" in low.apart or blocks > 1
