"""Loops that a warp of their own feeds by copies of boxes (TMA): what is found to be a box, and what comes out."""

import re

import ml_dtypes
import numpy as np
import pytest
from test_tensor import SIGNATURE, TYPES, attention, close, lowered, matmul

import tinyton as tt
import tinyton.tile as ct
from conftest import kernel
from tinyton.backends import nvcc
from tinyton.codegen import lower as lower_module
from tinyton.explain import layouts
from tinyton.ir import Type, Value
from tinyton.passes import boxes, feed

PLAIN = {"BM": 64, "BN": 64, "BK": 32, "TA": 0, "TB": 0, "MASK": 1, "SUM": tt.float32, "BEST": None, "PRECISION": None}


@pytest.fixture
def fed(card, monkeypatch):
    """A card where all loops are fed that can be; gives how many maps each kernel took."""
    if card.dialect.arch != feed.SINCE:
        pytest.skip("this GPU does not have the copies")
    monkeypatch.setattr(feed, "ALWAYS", True)
    key, build, count = card.key(), card.build, []
    monkeypatch.setattr(card, "key", lambda: f"{key} fed")
    monkeypatch.setattr(card, "build", lambda low: (count.append(len(low.maps)), build(low))[1])
    return count


def halves(rng, *shape, kind=np.float16):
    return rng.standard_normal(shape).astype(kind)


def product(kind, size, tile, rng, turned=(0, 0), **options):
    (m, n, k), (bm, bn, bk) = size, tile
    draw = (lambda shape: rng.integers(-100, 100, shape)) if kind is np.int8 else rng.standard_normal
    a, b = (draw(shape).astype(kind) for shape in ((m, k), (k, n)))
    out = np.full((m, n), 77, np.int32 if kind is np.int8 else np.float32)
    x, y = (np.ascontiguousarray(v.T) if t else v for v, t in zip((a, b), turned, strict=True))
    words = PLAIN | {"BM": bm, "BN": bn, "BK": bk, "TA": turned[0], "TB": turned[1], **options}
    words["SUM"] = tt.int32 if kind is np.int8 else tt.float32
    matmul[(-(-m // bm), -(-n // bn))](x, y, out, m, n, k, **words)
    a, b = a.astype(float), b.astype(float)
    return out, a @ b, np.abs(a) @ np.abs(b)


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)], ids="nn nt tn tt".split())
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_ragged_edges_of_either_operand_turned(fed, kind, turned, rng):
    close(*product(kind, (144, 80, 112), (64, 64, 32), rng, turned))
    close(*product(kind, (80, 272, 48), (64, 256, 64), rng, turned, num_stages=2))
    close(*product(kind, (128, 128, 16), (128, 128, 64), rng, turned, num_warps=8, num_stages=4))
    assert fed == [2, 2, 2]


def test_int8_along_the_rows_of_both(fed, rng):
    got, want, _ = product(np.int8, (80, 96, 160), (64, 32, 64), rng, (0, 1))
    np.testing.assert_array_equal(got, want)
    got, want, _ = product(np.int8, (80, 96, 160), (64, 32, 64), rng)
    np.testing.assert_array_equal(got, want)
    assert fed == [2, 0]  # bytes are multiplied along rows alone


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)], ids="nn nt tn tt".split())
def test_tf32_comes_rounded(fed, turned, rng):
    close(*product(np.float32, (80, 96, 96), (64, 64, 32), rng, turned, PRECISION="tf32"), 2.0**-10)
    assert fed == [2]


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_few_rounds_in_any_number_of_stages(fed, stages, rng):
    for rounds in (1, 2, 7):
        close(*product(np.float16, (64, 32, 16 * rounds), (64, 32, 16), rng, num_stages=stages))
    assert fed == [2 * (stages > 1)]


def test_arguments_that_no_map_describes_take_the_plain_way(fed, rng):
    """The tile of a matrix of which nothing is within the mask; strides that go backwards; one array for two."""
    k = kernel("""
@tt.jit
def k(a, b, c, M, K, row, BM: tt.constexpr, BK: tt.constexpr):
    i, j = tt.arange(0, BM), tt.arange(0, BK)
    acc = tt.zeros((BM, BM), tt.float32)
    for k0 in range(0, K, BK):
        k = k0 + j
        x = tt.load(a + i[:, None] * row + k, mask=i[:, None] < M, other=0)
        y = tt.load(b + i[None, :] * K + k[:, None])
        acc = tt.dot(x, y, acc)
    tt.store(c + i[:, None] * BM + i, acc)
""")
    a, b = halves(rng, 64, 64), halves(rng, 64, 64)
    x, y = tt.to_device(a), tt.to_device(b)
    for m, row, want in ((64, 64, a), (0, 64, 0 * a), (64, 0, a[:1] + 0 * a)):
        c = np.full((64, 64), np.nan, np.float32)
        k[1](x, y, c, m, 64, row, BM=64, BK=32)
        np.testing.assert_allclose(c, want.astype(float) @ b.T.astype(float), rtol=1e-2, atol=1e-2)
    assert fed == [2, 0]
    with tt.graph() as graph:
        k[1](x, y, x, 64, 64, 64, BM=64, BK=64)  # in place
    graph.replay()
    np.testing.assert_allclose(x.numpy().astype(float), a.astype(float) @ b.T.astype(float), rtol=1e-2, atol=5e-2)


PERSISTENT = """
@tt.jit
def k(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, STAGES: tt.constexpr):
    across = tt.cdiv(N, BN)
    for tile in range(tt.program_id(0), tt.cdiv(M, BM) * across, tt.num_programs(0)):
        i, j = tile // across * BM + tt.arange(0, BM), tile % across * BN + tt.arange(0, BN)
        acc = tt.zeros((BM, BN), tt.float32)
        for k0 in tt.range(0, K, BK, num_stages=STAGES):
            k = k0 + tt.arange(0, BK)
            x = tt.load(a + i[:, None] * K + k, mask=(i[:, None] < M) & (k < K), other=0)
            y = tt.load(b + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0)
            acc = tt.dot(x, y, acc)
        tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))
"""


STAYING = kernel("""
@tt.jit
def k(a, b, bias, c, rows, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, MORE: tt.constexpr):
    pid, across = tt.program_id(0), tt.cdiv(N, BN)
    i, j = pid // across * BM + tt.arange(0, BM), pid % across * BN + tt.arange(0, BN)
    acc = tt.zeros((BM, BN), tt.float32)
    for k0 in range(0, K + MORE * pid if MORE else K, BK):
        k = k0 + tt.arange(0, BK)
        x = tt.load(a + i[:, None] * K + k, mask=(i[:, None] < M) & (k < K), other=0)
        y = tt.load(b + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0)
        acc = tt.dot(x, y, acc)
    acc += tt.load(bias + j, mask=j < N, other=0)
    tt.store(rows + pid * BM + tt.arange(0, BM), tt.sum(acc, 1) + 0 * tt.sum(acc) + tt.num_programs(0))
    tt.store(c + i[:, None] * N + j, acc, mask=(i[:, None] < M) & (j < N))
""")


@pytest.mark.parametrize("more", [0, 16])
@pytest.mark.parametrize("inner", [0, 16, 80])
def test_blocks_that_run_one_program_after_another(fed, inner, more, rng, monkeypatch):
    """And not those whose programs take different times."""
    m, n, words = 192, 144, {"BM": 64, "BN": 64, "BK": 32, "MORE": more}
    a, b, bias = halves(rng, m, inner), halves(rng, inner, n), halves(rng, n)
    want = a.astype(float) @ b.astype(float) + bias
    sums = [want[i : i + 64, j : j + 64].sum(1) for i in range(0, m, 64) for j in range(0, n, 64)]
    for grid in (9, (9, 2)):  # of the emulator's blocks, 3 run at a time
        c, rows = np.full((m, n), np.nan, np.float16), np.full((9, 64), np.nan, np.float32)
        STAYING[grid](a, b, bias, c, rows, m, n, inner, **words)
        np.testing.assert_allclose(c, want, rtol=1e-2, atol=5e-2)
        np.testing.assert_allclose(rows, np.array(sums) + 9, rtol=1e-2, atol=5e-2)
    types = {x: "*float16:16" for x in ("a", "b", "bias", "c")} | {"rows": "*float32:16"}
    found = low(monkeypatch, STAYING, types | dict.fromkeys("MNK", "int32:16"), **words)
    assert found.maps and found.stays == layouts(found).count("one program after another") == (more == 0)
    assert found.blocks((9, 1, 1), 4) == ((3 if more == 0 else 9), 1, 1) and found.blocks((9, 2, 1), 4) == (9, 2, 1)


def test_where_sums_go_is_computed_while_the_last_products_are_under_way(monkeypatch):
    """By those who multiply; who feeds them has to know it before."""
    types = {x: "*float16:16" for x in ("a", "b", "bias", "c")} | {"rows": "*float32:16"}
    words = {"BM": 64, "BN": 64, "BK": 32, "MORE": 0, "stages": 4}
    found = low(monkeypatch, STAYING, types | dict.fromkeys("MNK", "int32:16"), **words)
    (programs,) = (op for op in found.ir.body.ops if op.attrs.get("programs"))
    names = [op.name for op in programs.blocks[0].ops]
    loop, wait = names.index("for"), names.index("products_wait")
    assert not {"mod", "floordiv"} & {*names[:loop], *names[wait:]} and {"mod", "floordiv"} < {*names[loop:wait]}


def test_blocks_that_run_one_program_after_another_of_a_grid_of_three_axes(fed, rng, monkeypatch):
    k = kernel(
        f"""
@tt.jit
{matmul.src}""".replace(
            "    i = ",
            """
    a += tt.program_id(2) * M * K
    b += tt.program_id(2) * K * N
    c += tt.program_id(2) * M * N
    tt.store(at + tt.program_id(0) + 10 * tt.program_id(1) + 100 * tt.program_id(2), tt.num_programs(1))
    i = """,
            1,
        ).replace("c, M", "c, at, M")
    )
    a, b = halves(rng, 2, 80, 48), halves(rng, 2, 48, 144)
    c, at = np.full((2, 80, 144), np.nan, np.float32), np.zeros(130, np.int32)
    k[2, 3, 2](a, b, c, at, 80, 144, 48, **PLAIN)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-2)
    assert fed == [2] and np.flatnonzero(at).tolist() == [0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121]
    assert set(at[at > 0]) == {3} and low(monkeypatch).stays == 3


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("inner", [16, 48, 80])
def test_many_tiles_of_few_rounds(fed, inner, stages, rng):
    """The copies for a program's next tile run while it stores the one before."""
    a, b, c = halves(rng, 144, inner), halves(rng, inner, 176), np.full((144, 176), np.nan, np.float16)
    kernel(PERSISTENT)[3](a, b, c, 144, 176, inner, BM=64, BN=32, BK=32, STAGES=stages)
    np.testing.assert_allclose(c.astype(float), a.astype(float) @ b.astype(float), rtol=2e-3, atol=2e-2)
    assert fed == [2]


def test_pointers_that_move_on_with_what_is_left(fed, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, M, N, K, row_a, row_b, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    i, j, k = tt.program_id(0) * BM + tt.arange(0, BM), tt.arange(0, BN), tt.arange(0, BK)
    x, y = a + i[:, None] * row_a + k[None, :], b + k[:, None] * row_b + j[None, :]
    acc = tt.zeros((BM, BN), tt.float32)
    for r in range(tt.cdiv(K, BK)):
        left = tt.load(x, mask=k[None, :] < K - r * BK, other=0.0)
        acc = tt.dot(left, tt.load(y, mask=k[:, None] < K - r * BK, other=0.0), acc)
        x += BK
        y += BK * row_b
    tt.store(c + i[:, None] * N + j, acc)
""")
    a, b, c = halves(rng, 128, 48), halves(rng, 48, 64), np.full((128, 64), np.nan, np.float32)
    k[2](a, b, c, 128, 64, 40 + 0, 48, 64, BM=64, BN=64, BK=32)
    np.testing.assert_allclose(c, a[:, :40].astype(float) @ b[:40].astype(float), rtol=1e-3, atol=1e-3)
    assert fed == [2]


def check_attention(tile, warps, t, rng):
    heads, d = 2, 32
    q, k, v = (halves(rng, heads, t, d) for _ in range(3))
    out = np.full((heads, t, d), np.nan, np.float16)
    bm, bn = tile
    attention[(-(-t // bm), heads)](q, k, v, out, t, d**-0.5, BM=bm, BN=bn, D=d, num_warps=warps)
    s = np.einsum("htd,hsd->hts", q.astype(float), k.astype(float)) * d**-0.5
    p = np.exp(np.where(np.tril(np.ones((t, t), bool)), s, -np.inf))
    np.testing.assert_allclose(out.astype(float), (p / p.sum(-1, keepdims=True)) @ v.astype(float), atol=4e-3)


@pytest.mark.parametrize(("tile", "warps"), [((64, 32), 4), ((128, 64), 8)], ids=str)
def test_attention(fed, tile, warps, rng):
    check_attention(tile, warps, 100, rng)
    assert fed == [2]


@pytest.fixture
def skewed(fed, card, monkeypatch):
    """Loops are skewed however small their rings are; what is compiled is kept apart."""
    monkeypatch.setattr(feed, "ALONE", 0)
    key = card.key()
    monkeypatch.setattr(card, "key", lambda: f"{key} skewed")
    return fed


SKEWED = """
@tt.jit
def k(q_ptr, k_ptr, v_ptr, out, mid, high, N, scale, BM: tt.constexpr, BN: tt.constexpr, D: tt.constexpr,
      FADES: tt.constexpr):
    i, d = tt.program_id(0) * BM + tt.arange(0, BM), tt.arange(0, D)
    q = tt.load(q_ptr + i[:, None] * D + d)
    most, total, acc = tt.full((BM,), -1e30, tt.float32), tt.zeros((BM,), tt.float32), tt.zeros((BM, D), tt.float32)
    for n in range(0, mid, BN):
        j = n + tt.arange(0, BN)
        key = tt.load(k_ptr + j[:, None] * D + d, mask=j[:, None] < N, other=0)
        value = tt.load(v_ptr + j[:, None] * D + d, mask=j[:, None] < N, other=0)
        s = tt.where(j < N, tt.dot(q, key.T) * scale, -1e30)
        new = tt.maximum(most, tt.max(s, 1)) if FADES else most * 0
        p, fade = tt.exp(s - new[:, None]), tt.exp(most - new) if FADES else most * 0 + 1
        total = total * fade + tt.sum(p, 1)
        acc = tt.dot(p.to(tt.float16), value, acc * fade[:, None] if FADES else acc)
        most = new
    for n in range(mid, high, BN):
        j = n + tt.arange(0, BN)
        key = tt.load(k_ptr + j[:, None] * D + d, mask=j[:, None] < N, other=0)
        value = tt.load(v_ptr + j[:, None] * D + d, mask=j[:, None] < N, other=0)
        s = tt.where(j < N, tt.dot(q, key.T) * scale, -1e30)
        new = tt.maximum(most, tt.max(s, 1)) if FADES else most * 0
        p, fade = tt.exp(s - new[:, None]), tt.exp(most - new) if FADES else most * 0 + 1
        if n > high:
            total = total + 1
        total = total * fade + tt.sum(p, 1)
        acc = tt.dot(p.to(tt.float16), value, acc * fade[:, None] if FADES else acc)
        most = new
    tt.store(out + i[:, None] * D + d, acc / tt.where(total > 0, total, 1)[:, None])
"""
SKEWED_TYPES = {x: "*float16:16" for x in ("q_ptr", "k_ptr", "v_ptr", "out")}
SKEWED_TYPES |= {"mid": "int32:16", "high": "int32:16", "N": "int32:16", "scale": "float32"}
LATER = "a round later"


@pytest.mark.parametrize("fades", [True, False])
@pytest.mark.parametrize(("warps", "stages"), [(4, 2), (8, 3)], ids=str)
def test_products_a_round_later_in_loops_of_few_rounds(skewed, warps, stages, fades, rng):
    """One after the other, of none, one, or more, the last one of which is not whole."""
    text, (bm, bn, d) = SKEWED, (16 * warps, 32, 32)
    if not fades:  # the other way round, too
        text = text.replace("v_ptr + j[:, None] * D + d, mask=j[:, None] < N", "v_ptr + j * D + d[:, None], mask=j < N")
        text = text.replace("value, acc", "value.T, acc")
    k = kernel(text)
    q, key, value = halves(rng, bm, d), halves(rng, 160, d), halves(rng, 160, d)
    for mid, high in ((0, 0), (0, 20), (32, 32), (32, 64), (64, 64), (96, 150), (0, 150)):
        out = np.full((bm, d), np.nan, np.float16)
        words = {"BM": bm, "BN": bn, "D": d, "FADES": fades, "num_warps": warps, "num_stages": stages}
        k[1](q, key, value, out, mid, high, high or 16, 0.2, **words)
        s = 0.2 * q.astype(float) @ key[:high].astype(float).T
        p = np.exp(s - s.max(1, keepdims=True)) if high else s
        want = p / p.sum(1, keepdims=True) @ value[:high].astype(float)
        np.testing.assert_allclose(out.astype(float), want, atol=4e-3)
    found = next(iter(k._cache.values())).low
    assert skewed == [2] and LATER in layouts(found)
    behind = found.source.partition("k_kernel(")[2].split("_held(")[1]  # the product in the first loop's rounds
    assert re.search(r"exp_.*barrier_wait\(.*warpgroup_wait_float\w+\(acc.*pack_f16", behind, re.S)


@pytest.mark.parametrize(("tile", "warps"), [((64, 32), 4), ((128, 64), 8)], ids=str)
def test_attention_a_round_later(skewed, tile, warps, rng):
    for t in (16, 100, 200):
        check_attention(tile, warps, t, rng)
    assert skewed == [2]


def test_products_that_are_not_sent_a_round_later(monkeypatch):
    words = {"BM": 64, "BN": 32, "D": 32, "FADES": True}
    text = SKEWED.partition("    for n in range(mid")[0] + SKEWED[SKEWED.index("    tt.store") :]

    def later(*changes, stages=2, threads=128, **more):
        changed = text
        for old, new in changes:
            assert old in changed
            changed = changed.replace(old, new)
        found = low(monkeypatch, kernel(changed), SKEWED_TYPES, stages=stages, threads=threads, **words | more)
        assert found.maps or stages == 1
        return LATER in layouts(found)

    assert not later()  # other blocks may multiply meanwhile
    monkeypatch.setattr(feed, "ALONE", 0)
    assert later() and later(stages=3) and later(BM=128, threads=256)
    assert not later(stages=1)
    assert not later(threads=256, BN=128, D=128)  # what is multiplied goes through shared memory
    product, total = "acc = tt.dot(p.to(tt.float16), value, acc * fade[:, None] if FADES else acc)", "tt.sum(p, 1)"
    assert not later(("tt.max(s, 1))", "tt.max(s, 1) + tt.max(acc, 1))"))  # the sums are read in each round
    assert not later(("most = new", "most = new + tt.max(acc, 1)"))
    assert not later(("acc * fade[:, None]", "acc * fade[:, None] + tt.sum(acc, 1)[:, None]"))
    assert not later(("acc * fade[:, None]", "fade[:, None] + tt.zeros((BM, D), tt.float32)"))
    assert not later((product, "acc = tt.dot(p.to(tt.float16), value, acc) * fade[:, None]"))
    assert not later((product, f"if n != 32:\n            {product}"))
    assert not later(("p.to(tt.float16), value", "p.to(tt.float16).T, value"), BN=64)  # it is turned in shared memory
    was = ("    for n", "    was = acc\n    for n"), ("acc = tt.dot", "was = acc\n        acc = tt.dot")
    assert not later(*was, ("acc / tt", "acc * was / tt"))
    assert not later((total, f"{total} + tt.sum(tt.dot(q, value.T), 1)"))  # another product reads the ring
    assert not later(("tt.exp(s - new[:, None])", "tt.exp(q.to(tt.float32))"))  # it waits for no other product
    monkeypatch.setattr(feed, "OTHERS", 240)
    assert not later()  # registers


@pytest.mark.parametrize("way", ["C", "F"])
def test_tiles_of_arrays(fed, way, rng):
    @ct.kernel
    def k(x, y, z, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int], WAY: ct.Constant[str]):
        i, j = ct.bid(0), ct.bid(1)
        acc = ct.full((BM, BN), 0, ct.float32)
        for n in range(ct.num_tiles(x, 1, (BM, BK))):
            a = ct.load(x, (i, n), (BM, BK), padding_mode=ct.PaddingMode.ZERO)
            b = ct.load(y, (n, j), (BK, BN), order=WAY, padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(a, b, acc)
        ct.store(z, (i, j), acc.astype(z.dtype))

    a, b = halves(rng, 80, 48), halves(rng, 48, 96)
    c = np.full((80, 96), np.nan, np.float16)
    y = np.ascontiguousarray(b.T) if way == "F" else b
    ct.launch(None, (2, 2), k, (a, y, c, 64, 64, 32, way))
    np.testing.assert_allclose(c.astype(float), a.astype(float) @ b.astype(float), rtol=2e-3, atol=2e-2)
    assert fed == [2]


def low(monkeypatch, k=matmul, types=SIGNATURE, **constants):
    monkeypatch.setattr(feed, "ALWAYS", True)
    return lowered(k, types, fed=True, **((PLAIN if k is matmul else {}) | constants))


def test_what_is_a_box(monkeypatch):
    found = low(monkeypatch)
    x, y = found.maps
    assert (x.box, y.box, x.swizzle, y.swizzle) == ((32, 64), (64, 32), 64, 128)
    assert found.block == (160, 1, 1) and found.threads == 128
    assert x.values((1 << 20, 2 << 20, 0, 100, 64, 48)) == (1 << 20, (48, 100), (96,))
    assert y.values((1 << 20, 2 << 20, 0, 100, 64, 48)) == (2 << 20, (64, 48), (128,))
    assert {"K", "N"} <= found.divisors_used
    assert "copy_16" not in found.source and "threads_meet<128>();" not in found.source
    q = low(monkeypatch, attention, TYPES, BM=64, BN=32, D=32)
    assert len(q.maps) == 2 and q.maps[0].strides[1] == ((32, (4,)),)  # a head's rows are a dimension


def test_products_are_ordered_as_values_come_wherever_they_lie_in_memory():
    values = [Value(Type(tt.int32)) for _ in range(100)]
    for x, y in zip(values[::2], values[:0:-2], strict=True):
        (product,) = boxes.times({(x,): 1}, {(y,): 1})
        assert product == (x, y) == next(iter(boxes.times({(y,): 1}, {(x,): 1})))


def test_what_is_none(monkeypatch):
    def none(types=SIGNATURE, **constants):
        return not low(monkeypatch, types=types, **constants).maps

    assert none({**SIGNATURE, "K": "int32"}) and none({**SIGNATURE, "a": "*float16"})  # not sure to be aligned
    assert none(BEST="mma") and none(BM=32)
    text = f"@tt.jit\n{matmul.src}"
    assert low(monkeypatch, kernel(text), **PLAIN).maps
    for old, new in (("other=0)\n        y", "other=1)\n        y"), ("i[:, None] * K", "i[:, None] % M * K")):
        assert old in text and not low(monkeypatch, kernel(text.replace(old, new)), **PLAIN).maps


def test_a_loop_may_say_so(monkeypatch):
    text = PERSISTENT.replace("num_stages=STAGES", "num_stages=STAGES, warp_specialize=WS")
    k = kernel(text.replace("STAGES: tt.constexpr", "STAGES: tt.constexpr, WS: tt.constexpr"))
    words = {"BM": 64, "BN": 32, "BK": 32, "STAGES": 3}
    assert lowered(k, SIGNATURE, fed=True, WS=True, **words).maps and not low(monkeypatch, k, WS=False, **words).maps


def test_what_does_not_fit_is_copied_by_all(monkeypatch):
    """The ring of a loop within another keeps its room while the tile is turned for its store."""
    k = kernel(PERSISTENT)
    assert low(monkeypatch, k, BM=128, BN=128, BK=64, STAGES=6).maps
    big = low(monkeypatch, k, BM=128, BN=128, BK=64, STAGES=7)
    assert not big.maps and "copy_16" in big.source and "no room in shared memory" in layouts(big)


def test_what_takes_most_registers_is_copied_by_all(monkeypatch):
    wide = {"BM": 128, "BN": 256, "BK": 32, "SUM": tt.float32}
    found = low(monkeypatch, threads=256, **wide)  # the sums, in memory's layout too, and as the loop begins
    assert found.maps and "too few registers" not in layouts(found)
    monkeypatch.setattr(lower_module, "HELD", 256 * 512)
    found = low(monkeypatch, threads=256, **wide)
    assert not found.maps and "too few registers" in layouts(found)


def test_an_explanation_says_what_feeds(monkeypatch):
    assert "by a warp of their own (TMA): 3 stages of 8192 bytes: x, y" in layouts(low(monkeypatch))
    told = layouts(low(monkeypatch, types={**SIGNATURE, "K": "int32"}))
    assert "copied by all threads: x is no box of an array" in told
    monkeypatch.setattr(feed, "ALWAYS", False)
    assert "copied by all threads: that is not asked for" in layouts(lowered(matmul, SIGNATURE, fed=True, **PLAIN))


def test_one_load_that_is_no_box_and_an_array_that_says_no(fed, rng):
    """Rows that a table tells are gathered; what is gathered at places that follow each other is a box."""

    @ct.kernel
    def k(x, y, z, at, TMA: ct.Constant[bool], TABLE: ct.Constant[bool]):
        acc = ct.full((64, 64), 0, ct.float32)
        rows, columns = ct.arange(32, dtype=ct.int32), ct.arange(64, dtype=ct.int32)
        if TABLE:
            rows = ct.load(at, 0, 32)
        for n in range(ct.num_tiles(x, 1, (64, 32))):
            a = ct.load(x, (0, n), (64, 32), allow_tma=TMA)
            acc = ct.mma(a, ct.gather(y, ((n * 32 + rows)[:, None], columns[None, :])), acc)
        ct.store(z, (0, 0), acc)

    a, b, c = halves(rng, 64, 96), halves(rng, 96, 64), np.full((64, 64), np.nan, np.float32)
    for tma, table in ((True, False), (True, True), (False, False)):
        ct.launch(None, (1,), k, (a, b, c, np.arange(32, dtype=np.int32), tma, table))
        np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-3)
    assert fed == [2, 0, 0]


def test_loops_in_branches_and_one_after_the_other(fed, rng):
    """They use one ring in turn, whether there is a round in all of them or not."""
    k = kernel("""
@tt.jit
def k(a, b, c, K, N, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr):
    i, j, kk = tt.program_id(0) * BM + tt.arange(0, BM), tt.arange(0, BN), tt.arange(0, BK)
    half = K // 2 // BK * BK
    acc = tt.zeros((BM, BN), tt.float32)
    for k0 in range(0, half, BK):
        acc = tt.dot(tt.load(a + i[:, None] * K + (k0 + kk)), tt.load(b + (k0 + kk)[:, None] * N + j), acc)
    acc = acc * 2
    if tt.program_id(0) % 2 == 0:
        for k0 in range(half, K, BK):
            acc = tt.dot(tt.load(a + i[:, None] * K + (k0 + kk)), tt.load(b + (k0 + kk)[:, None] * N + j), acc)
    t = 0
    while t < tt.program_id(0):
        for k0 in range(0, K, BK):
            acc = tt.dot(tt.load(a + i[:, None] * K + (k0 + kk)), tt.load(b + (k0 + kk)[:, None] * N + j), acc)
        t += 1
    tt.store(c + i[:, None] * N + j, acc)
""")
    for inner in (16, 48, 112):
        a, b = halves(rng, 192, inner), halves(rng, inner, 64)
        c = np.full((192, 64), np.nan, np.float32)
        k[3](a, b, c, inner, 64, BM=64, BN=64, BK=16)
        half = inner // 2 // 16 * 16
        x, y = a.astype(float), b.astype(float)
        want = 2 * (x[:, :half] @ y[:half])
        for p, rows in enumerate((slice(0, 64), slice(64, 128), slice(128, 192))):
            want[rows] += (p % 2 == 0) * (x[rows, half:] @ y[half:]) + p * (x[rows] @ y)
        np.testing.assert_allclose(c, want, rtol=1e-3, atol=1e-2)
    assert fed == [2]


def test_rounds_that_memory_tells_are_copied_by_all(fed, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, lengths, K, BM: tt.constexpr, BK: tt.constexpr):
    i, kk = tt.arange(0, BM), tt.arange(0, BK)
    acc = tt.zeros((BM, BM), tt.float32)
    for k0 in range(0, tt.load(lengths), BK):
        acc = tt.dot(tt.load(a + i[:, None] * K + (k0 + kk)), tt.load(b + (k0 + kk)[:, None] * BM + i), acc)
    tt.store(c + i[:, None] * BM + i, acc)
""")
    a, b, c = halves(rng, 64, 64), halves(rng, 64, 64), np.full((64, 64), np.nan, np.float32)
    k[1](a, b, c, np.array([32], np.int32), 64, BM=64, BK=16)
    np.testing.assert_allclose(c, a[:, :32].astype(float) @ b[:32].astype(float), rtol=1e-3, atol=1e-2)
    assert fed == [0] and "follows from load" in layouts(next(iter(k._cache.values())).low)


@pytest.mark.parametrize("how", ["descriptor", "block"])
def test_descriptors_and_block_pointers(fed, how, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, M, N, K, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, HOW: tt.constexpr):
    i, j = tt.program_id(0) * BM, tt.program_id(1) * BN
    acc = tt.zeros((BM, BN), tt.float32)
    if HOW == "descriptor":
        x = tt.make_tensor_descriptor(a, (M, K), (K, 1), (BM, BK))
        y = tt.make_tensor_descriptor(b, (K, N), (N, 1), (BK, BN))
        for k0 in range(0, K, BK):
            acc = tt.dot(x.load((i, k0)), y.load((k0, j)), acc)
    else:
        p = tt.make_block_ptr(a, (M, K), (K, 1), (i, 0), (BM, BK))
        q = tt.make_block_ptr(b, (K, N), (N, 1), (0, j), (BK, BN))
        for k0 in range(0, K, BK):
            acc = tt.dot(tt.load(p, boundary_check=(0, 1)), tt.load(q, boundary_check=(0, 1)), acc)
            p, q = tt.advance(p, (0, BK)), tt.advance(q, (BK, 0))
    m, n = i + tt.arange(0, BM), j + tt.arange(0, BN)
    tt.store(c + m[:, None] * N + n, acc, mask=(m[:, None] < M) & (n < N))
""")
    a, b, c = halves(rng, 80, 48), halves(rng, 48, 96), np.full((80, 96), np.nan, np.float32)
    k[2, 2](a, b, c, 80, 96, 48, BM=64, BN=64, BK=32, HOW=how)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-2)
    assert fed == [2]


@pytest.mark.nvcc
@pytest.mark.skipif(nvcc.find("ptxas") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")
def test_warps_more_find_registers():
    """Each quarter of a multiprocessor has 16,384, and of twelve warps, one has three."""
    types = SIGNATURE | {"a": "*float32:16", "b": "*float32:16"}
    words = PLAIN | {"BM": 128, "BN": 256, "BK": 32, "PRECISION": "tf32", "num_warps": 8, "num_stages": 3}
    built = tt.compile(matmul, types, target="sm_90a", share=False, maps=True, **words)
    assert built.reqntid == (384, 1, 1) and built.registers * 3 * 32 <= 16384 and not built.spills


@pytest.mark.nvcc
@pytest.mark.skipif(nvcc.find("ptxas") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")
def test_products_a_round_later_find_registers():
    words = {"BM": 128, "BN": 128, "D": 128, "FADES": True, "num_warps": 8, "num_stages": 2}
    built = tt.compile(kernel(SKEWED), SKEWED_TYPES, target="sm_90a", share=False, maps=True, **words)
    assert LATER in built.explain().layouts and built.reqntid == (384, 1, 1) and not built.spills


@pytest.mark.parametrize("warps", [8, 16])
def test_a_group_of_warps_gives_its_registers_away(fed, card, warps, rng, monkeypatch):
    monkeypatch.setattr(lower_module, "TIGHT", 0)
    key = card.key()
    monkeypatch.setattr(card, "key", lambda: f"{key} tight")
    close(*product(np.float16, (300, 80, 112), (256, 64, 32), rng, num_warps=warps))
    assert fed == [2] and [feed.shares(n) for n in (128, 256, 512)] == [(32, 0), (128, 240), (128, 112)]


def test_where_several_blocks_are_asked_for_no_registers_are_given_away(fed, card, rng, monkeypatch):
    """Of the fewer that there are then, a group of warps could wait for more than ever come."""
    monkeypatch.setattr(lower_module, "TIGHT", 0)

    @ct.kernel(num_worker_warps=8)
    def k(x, y, z):
        acc = ct.full((128, 64), 0, ct.float32)
        for n in range(ct.num_tiles(x, 1, (128, 32))):
            acc = ct.mma(ct.load(x, (0, n), (128, 32)), ct.load(y, (n, 0), (32, 64)), acc)
        ct.store(z, (0, 0), acc)

    a, b = halves(rng, 128, 96), halves(rng, 96, 64)
    for blocks, bounds in ((1, "(384, 1)"), (2, "(288, 2)")):
        c, mine = np.full((128, 64), np.nan, np.float32), k.replace_hints(occupancy=blocks)
        key = card.key()
        monkeypatch.setattr(card, "key", lambda key=key, n=blocks: f"{key} tight {n}")
        ct.launch(None, (1,), mine, (a, b, c))
        np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-2)
        (made,) = mine._cache.values()
        assert f"__launch_bounds__{bounds}" in made.source and ("setmaxnreg" in made.source) == (blocks == 1)


def test_the_plain_way_knows_no_more_of_arguments_than_the_fed_one(fed, rng):
    """Which serves for an inner extent that 16 divides, and for another; in place, the plain one serves for both."""
    k = kernel("""
@tt.jit
def k(a, b, c, K, row, BM: tt.constexpr):
    i, kk = tt.arange(0, BM), tt.arange(0, BM)
    acc = tt.zeros((BM, BM), tt.float32)
    for k0 in range(0, K, BM):
        x = tt.load(a + i[:, None] * row + (k0 + kk), mask=k0 + kk < K, other=0)
        y = tt.load(b + i[None, :] * row + (k0 + kk)[:, None], mask=(k0 + kk)[:, None] < K, other=0)
        acc = tt.dot(x, y, acc)
    tt.store(c + i[:, None] * row + i, acc)
""")
    a, b = halves(rng, 64, 64), halves(rng, 64, 64)
    for inner in (64, 60):
        x, y, z = tt.to_device(a), tt.to_device(b), tt.to_device(a)
        k[1](x, y, z, inner, 64, BM=64)
        k[1](x, y, x, inner, 64, BM=64)
        want = a[:, :inner].astype(float) @ b[:, :inner].T.astype(float)
        for got in (z, x):
            np.testing.assert_allclose(got.numpy().astype(float), want, rtol=1e-2, atol=5e-2)
    assert fed == [2, 0]


def test_what_a_branch_chooses_to_store_to_is_stored_to(fed, rng):
    """A tile that one round stores and the next one loads; the array is one of two."""
    k = kernel("""
@tt.jit
def k(a, b, c, rounds, flag):
    i = tt.arange(0, 64)
    out = c
    if flag > 0:
        out = a
    for t in range(rounds):
        acc = tt.zeros((64, 64), tt.float32)
        for k0 in range(0, 64, 32):
            j = k0 + tt.arange(0, 32)
            x = tt.load(a + (t * 64 + i[:, None]) * 64 + j)
            acc = tt.dot(x, tt.load(b + j[:, None] * 64 + i), acc)
        tt.store(out + (t * 64 + 64 + i[:, None]) * 64 + i, acc)
""")
    a, b = halves(rng, 256, 64), halves(rng, 64, 64) / np.float16(8)
    x = a.copy()
    k[1](x, b, a.copy(), 3, 1)
    for t in (64, 128, 192):
        want = x[t - 64 : t].astype(float) @ b.astype(float)
        np.testing.assert_allclose(x[t : t + 64].astype(float), want, rtol=1e-2, atol=1e-2)
    assert fed == [0]


def test_of_loops_in_each_other_the_inner_one_is_fed(fed, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, T, R):
    i, j = tt.arange(0, 64), tt.arange(0, 32)
    acc = tt.zeros((64, 64), tt.float32)
    for t in range(T):
        x = tt.load(a + (t * 64 + i[:, None]) * 32 + j)
        acc = tt.dot(x, tt.load(b + (t * 32 + j[:, None]) * 64 + i), acc)
        for r in range(R):
            y = tt.load(a + (r * 64 + i[:, None]) * 32 + j)
            acc = tt.dot(y, tt.load(b + (r * 32 + j[:, None]) * 64 + i), acc)
    tt.store(c + i[:, None] * 64 + i, acc)
""")
    a, b, c = halves(rng, 320, 32), halves(rng, 160, 64), np.full((64, 64), np.nan, np.float32)
    tiles = np.einsum("tij,tjk->tik", a.reshape(5, 64, 32).astype(float), b.reshape(5, 32, 64).astype(float))
    for rounds in (0, 1, 5):
        k[1](a, b, c, 3, rounds)
        np.testing.assert_allclose(c, tiles[:3].sum(0) + 3 * tiles[:rounds].sum(0), rtol=1e-3, atol=1e-2)
    (made,) = k._cache.values()
    assert fed == [2] and "by a warp of their own (TMA): 3 stages of 8192 bytes: y" in layouts(made.low)


@pytest.mark.parametrize("rule", ["if kk != 16:", "for _ in range(kk // 16 % 2):"])
def test_rounds_in_which_nothing_is_multiplied(fed, rule, rng):
    """No thread of a warp gets so far ahead that its place is filled anew before others have seen it full."""
    k = kernel(f"""
@tt.jit
def k(a, b, c, K):
    i, j = tt.arange(0, 64), tt.arange(0, 16)
    acc = tt.zeros((64, 64), tt.float32)
    for kk in tt.range(0, K, 16, num_stages=2):
        x, y = tt.load(a + i[:, None] * K + (kk + j)), tt.load(b + (kk + j)[:, None] * 64 + i)
        {rule}
            acc = tt.dot(x, y, acc)
    tt.store(c + i[:, None] * 64 + i, acc)
""")
    a, b, c = halves(rng, 64, 128), halves(rng, 128, 64), np.full((64, 64), np.nan, np.float32)
    k[8](a, b, c, 128)
    taken = [kk + n for kk in range(0, 128, 16) for n in range(16) if (kk != 16 if "if" in rule else kk // 16 % 2)]
    np.testing.assert_allclose(c, a[:, taken].astype(float) @ b[taken].astype(float), rtol=1e-3, atol=1e-2)
    assert fed == [2]


def test_zeros_of_either_sign_are_two_arguments(fed, rng):
    k = kernel("""
@tt.jit
def k(a, b, c, s):
    i, j = tt.arange(0, 64), tt.arange(0, 32)
    acc = tt.zeros((64, 64), tt.float32)
    for k0 in range(0, 64, 32):
        acc = tt.dot(tt.load(a + i[:, None] * 64 + (k0 + j)), tt.load(b + (k0 + j)[:, None] * 64 + i), acc)
    tt.store(c + i[:, None] * 64 + i, acc * 0 + 1 / s)
""")
    x, y, z = (tt.to_device(halves(rng, 64, 64)) for _ in range(3))
    for s in (0.0, -0.0):
        k[1](x, y, z, s)
        np.testing.assert_array_equal(z.numpy(), np.float16(np.copysign(np.inf, s)))
    assert fed == [2]


def test_who_waits_for_others_does_not_run_ahead(monkeypatch):
    k = kernel(f"@tt.jit\n{matmul.src}".replace("    i = ", "    tt.store(c, tt.load(c, volatile=True))\n    i = ", 1))
    found = low(monkeypatch, k, **PLAIN)
    assert not found.maps and "the kernel has other effects: load" in layouts(found)


def test_what_is_far_away_has_a_dimension(monkeypatch):
    """Element 2**31 of an array has no number along its rows."""
    text = f"@tt.jit\n{matmul.src}".replace("load(pa", "load(pa + tt.program_id(2) * 8192")
    x, _ = low(monkeypatch, kernel(text), **PLAIN | {"MASK": 0}).maps
    assert x.strides[1] == ((8192, ()),)


def test_arguments_move_the_array_not_the_box(monkeypatch):
    """Rows before the pointer that is passed are read as they are, where a box would have zeros."""
    text = f"@tt.jit\n{matmul.src}".replace("i[:, None] * K + k", "(i[:, None] - N) * K + k")
    x, _ = low(monkeypatch, kernel(text), **PLAIN | {"MASK": 0}).maps
    address, *_ = x.values((1 << 20, 2 << 20, 0, 100, 64, 48))
    assert address == (1 << 20) - 64 * 48 * 2


@pytest.mark.parametrize(
    ("rounds", "at", "numbers", "maps"),
    [
        ("range(n)", "(n - 1 - r) * 32", (0, 4), [0]),  # what is less in each round, and what an argument adds to that
        ("range(4)", "(3 - r) * 32", (0, 0), [2]),
        ("range(m, n, 32)", "r - m", (64, 192), [2]),
        ("range(m, n, 32)", "r - m", (-64, 64), [2, 0]),  # a launch tells
        ("range(0, n, -32)", "r + m", (96, -128), [2, 0]),
        ("range(m, -1, -32)", "r", (96, 0), [2]),
        ("range(4)", "r * n + m", (0, 32), [2]),
        ("range(4)", "r * n + m", (96, -32), [2, 0]),
    ],
)
def test_no_box_begins_before_its_array(fed, rounds, at, numbers, maps, rng):
    """There, it would have zeros, for places that are arguments' in the end."""
    k = kernel(f"""
@tt.jit
def k(a, b, c, m, n):
    i, j = tt.arange(0, 64), tt.arange(0, 32)
    acc = tt.zeros((64, 64), tt.float32)
    for r in {rounds}:
        at = {at} + j
        acc = tt.dot(tt.load(a + at * 64 + i[:, None]), tt.load(b + at[:, None] * 64 + i), acc)
    tt.store(c + i[:, None] * 64 + i, acc)
""")
    a, b, c = halves(rng, 128, 64), halves(rng, 128, 64), np.full((64, 64), np.nan, np.float32)
    k[1](a, b, c, *numbers)
    np.testing.assert_allclose(c, a.T.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-2)
    assert fed == maps
