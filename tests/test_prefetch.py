"""Loads that run ahead: the same results and the same accesses, whatever the loop; and which loads stay in place."""

import math
from collections import Counter
from itertools import product

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import Guarded, kernel, lowered
from tinyton.backends import interpreter
from tinyton.backends.interpreter import Buffer
from tinyton.codegen.lower import front
from tinyton.passes.prefetch import HELD_BYTES
from tinyton.passes.threads import blocks_at_once
from tinyton.specialize import Specialization, parse

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i8": "int8", "bool": "bool"}
NUMPY = {name: np.dtype(ml_dtypes.bfloat16 if word == "bfloat16" else word) for name, word in DTYPES.items()}


def ahead(k, signature, language="cuda", **constants):
    """How many loads run ahead."""
    ops = lowered(k, signature, language, **constants).ir.ops()
    return len({op.attrs["slot"] for op in ops if op.name == "load_ahead"})


# -- what is computed --------------------------------------------------------------------------------------------------


@tt.jit
def longest(x, out, n, BLOCK: tt.constexpr):
    """Row by row: the greatest element, and the sum of the distances to the greatest so far."""
    row, j = tt.program_id(0), tt.arange(0, BLOCK)
    top, total = -1000.0, 0.0
    for start in tt.range(0, n, BLOCK, num_stages=2):
        v = tt.load(x + row * n + start + j, mask=start + j < n, other=-1000).to(tt.float32)
        top = tt.maximum(top, tt.max(v, 0))
        total += tt.sum(tt.where(start + j < n, top - v, 0.0), 0)
    tt.store(out + 2 * row, top)
    tt.store(out + 2 * row + 1, total)


def longest_of(x, block):
    out = np.zeros((len(x), 2))
    for row, (v, (top, total)) in enumerate(zip(x.astype(float), out, strict=True)):
        top, total = -1000.0, 0.0
        for start in range(0, len(v), block):
            tile = v[start : start + block]
            top = max(top, tile.max())
            total += (top - tile).sum()
        out[row] = top, total
    return out


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_reduced_in_every_round(mapping, dtype):
    for n in (0, 1, 64, 100, 128, 256, 331):
        x = Guarded((3, n), NUMPY[dtype], poison=0xFF)  # beyond the ends, all is NaN
        x.array[:] = np.random.default_rng(n).integers(-40, 40, (3, n))
        out = Guarded((3, 2), np.float32)
        longest[3](x.array, out.array, n, BLOCK=128, num_warps=mapping.warps)
        assert np.array_equal(out.check(), longest_of(x.array, 128))


RANGES = {  # bounds by n and s, which are numbers at run time, and the round's first element
    "range(n)": "j * 16",
    "range(2, n, 3)": "j * 16",
    "range(n, 0, -1)": "(j - 1) * 16",
    "range(n * 16 - 16, -1, -16)": "j",
    "range(0, n, s)": "j * 16",
    "range(n - 1, -1, -s)": "j * 16",
    "range(n - n % 2, n)": "j * 16",
}


@pytest.mark.parametrize("bounds", RANGES)
def test_ranges(mapping, bounds):
    k = kernel(f"""
@tt.jit
def k(x, out, n, s, WIDE: tt.constexpr):
    i, total = tt.arange(0, 16), tt.zeros((16,), tt.int32)
    for j in tt.{bounds[:-1]}, num_stages=2):
        v = tt.load(x + {RANGES[bounds]} + i)
        total = total * 3 + tt.sum(v) + i
    tt.store(out + i, total)
""")
    for n, s in product((0, 1, 2, 7), (1, 2, 0) if "s)" in bounds else (1,)):
        x, out = Guarded(16 * n, np.int32, poison=0x7F), Guarded(16, np.int32)
        x.array[:] = np.random.default_rng(n).integers(-99, 99, 16 * n)
        k[1](x.array, out.array, n, s, WIDE=16, num_warps=mapping.warps)
        want = np.zeros(16, np.int32)
        for j in eval(bounds, {"n": n, "s": s}) if s else ():
            first = eval(RANGES[bounds], {"j": j})
            want = want * np.int32(3) + x.array[first : first + 16].sum(dtype=np.int32) + np.arange(16, dtype=np.int32)
        assert np.array_equal(out.check(), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_masks_and_what_is_off(mapping, dtype):
    """Tiles in vectors and not, aligned and not; what is off is 0, a number, or another tile's elements."""
    k = kernel(
        """
@tt.jit
def k(x, out, n, stride, ROWS: tt.constexpr, COLUMNS: tt.constexpr):
    i, j = tt.arange(0, ROWS)[:, None], tt.arange(0, COLUMNS)[None, :]
    at = i * COLUMNS + j
    for r in tt.range(n, num_stages=2):
        a = tt.load(x + r * ROWS * COLUMNS + at)
        b = tt.load(x + r * ROWS * COLUMNS + at + 1, mask=j < COLUMNS - 1 - r, other=1)
        c = tt.load(x + r * stride + j * 3 + i, mask=at % 5 < r)
        d = tt.load(x + r * stride)
        most = tt.max(a.to(tt.float32))
        p = out + r * 4 * ROWS * COLUMNS + at
        tt.store(p, a.to(tt.float32) + most)
        tt.store(p + ROWS * COLUMNS, b)
        tt.store(p + 2 * ROWS * COLUMNS, c)
        tt.store(p + 3 * ROWS * COLUMNS, d.to(tt.float32) + tt.zeros((ROWS, COLUMNS), tt.float32))
"""
    )
    rows, columns, n, stride = 4, 64, 3, 61
    x, out = Guarded((n, rows, columns), NUMPY[dtype], poison=0xFF), Guarded((n, 4, rows, columns), np.float32)
    x.array[:] = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 100, x.array.shape)
    k[1](x.array, out.array, n, stride, ROWS=rows, COLUMNS=columns, num_warps=mapping.warps)
    assert ahead(k, {"x": f"*{DTYPES[dtype]}:16", "out": "*float32:16", "n": "int32", "stride": "int32"},
                 ROWS=rows, COLUMNS=columns) == 4  # fmt: skip
    flat = np.concatenate([x.array.reshape(-1).astype(np.float32), np.zeros(4, np.float32)])
    i, j = np.ogrid[:rows, :columns]
    at = i * columns + j
    for r, (a, b, c, d) in enumerate(out.check()):
        tile = x.array[r].astype(np.float32)
        assert np.array_equal(a, tile + tile.max())
        assert np.array_equal(b, np.where(j < columns - 1 - r, flat[r * rows * columns + at + 1], 1))
        assert np.array_equal(c, np.where(at % 5 < r, flat[(r * stride + j * 3 + i) % flat.size], 0))
        assert np.array_equal(d, np.full((rows, columns), flat[r * stride]))


def test_pointers_that_move_on(mapping):
    @tt.jit
    def dot(x, y, out, n, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        left, right, total = x + i, y + i * 2, 0.0
        for k in tt.range(0, n, BLOCK, num_stages=2):
            a = tt.load(left, mask=i < n - k, other=0.0)
            b = tt.load(right, mask=i < n - k, other=0.0)
            total += tt.sum(a * b)
            left += BLOCK
            right += 2 * BLOCK
        tt.store(out, total)

    x, y, out = Guarded(300, np.float32, 0xFF), Guarded(600, np.float32, 0xFF), np.zeros(1, np.float32)
    x.array[:], y.array[:] = np.random.default_rng(2).integers(-9, 9, (3, 300)).reshape(-1)[:300], np.arange(600) % 7
    dot[1](x.array, y.array, out, 300, BLOCK=64, num_warps=mapping.warps)
    assert out[0] == (x.array * y.array[::2]).sum()
    signature = {"x": "*float32:16", "y": "*float32:16", "out": "*float32", "n": "int32"}
    assert ahead(dot, signature, BLOCK=64) == 2


def test_loops_in_loops(mapping):
    @tt.jit
    def sums(x, y, out, rows, n, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        for r in tt.range(rows, num_stages=2):
            scale, total = tt.load(y + r), 0.0
            for k in tt.range(0, n, BLOCK, num_stages=2):
                total += tt.sum(tt.load(x + r * n + k + i, mask=k + i < n)) * scale
            for k in tt.range(0, r, num_stages=3):
                total += tt.sum(tt.load(x + k * n + i, mask=i < n))
            tt.store(out + r, total)

    rows, n = 5, 150
    x, y, out = Guarded((rows, n), np.float32, 0xFF), Guarded(rows, np.float32, 0xFF), np.zeros(rows, np.float32)
    x.array[:], y.array[:] = np.random.default_rng(3).integers(-9, 9, (rows, n)), np.arange(rows)
    sums[1](x.array, y.array, out, rows, n, BLOCK=64, num_warps=mapping.warps)
    want = [x.array[r].sum() * y.array[r] + x.array[:r, :64].sum() for r in range(rows)]
    assert np.array_equal(out, want)
    signature = {"x": "*float32", "y": "*float32", "out": "*float32", "rows": "int32", "n": "int32"}
    assert ahead(sums, signature, BLOCK=64) == 3


# -- what is accessed --------------------------------------------------------------------------------------------------


def accesses(ir, arguments, programs):
    """What a kernel loads and stores, element by element and how often, and the bytes that it leaves."""
    found: Counter = Counter()
    memory = {name: a.reshape(-1).view(np.uint8).copy() for name, a in arguments.items() if isinstance(a, np.ndarray)}
    args = [
        Buffer(name, memory[name], tt.dtypes.from_numpy(a.dtype), 0) if name in memory else a
        for name, a in arguments.items()
    ]

    args += [Buffer(v.name, np.zeros(8, np.uint8), v.type.dtype, 0) for v in ir.params[len(args) :]]  # the assert's

    def watch(verb, op, buffer, at, on):
        if buffer is not None:
            found.update((verb, buffer.name, int(place)) for place in np.broadcast_to(at, np.shape(on))[on].reshape(-1))

    grid = (programs, 1, 1)
    interpreter.run(ir, args, grid, interpreter.programs(grid), watch)
    return found, {name: a.tobytes() for name, a in memory.items()}


LOOPS = {  # bodies of a kernel of x, y, out (float32), m and n; how many loads run ahead if asked to
    "for k in range(0, n, B): t += tt.sum(tt.load(x + k + i, mask=k + i < n))": 1,
    "for k in range(n - B, -1, -B): t += tt.sum(tt.load(x + k + i) + tt.load(y + k))": 2,
    "for k in range(p, n, tt.num_programs(0)): t += tt.sum(tt.load(x + k // 2 + i, mask=k + i < n)) * k": 1,
    "for k in range(m): t += tt.sum(tt.load(x + (k * k) % m + i))": 1,
    "for k in range(m): t += tt.sum(tt.load(x + tt.load(y + k).to(tt.int32) + i))": 1,  # where from is known late
    "for k in range(m): t += tt.sum(tt.load(x + t.to(tt.int32) % 2 + i))": 0,
    "for k in range(m): t += tt.sum(tt.load(x + i))": 0,  # the same in every round
    "for k in range(m): t += tt.sum(tt.load(x + k + i, volatile=True))": 0,
    "for k in range(m):\n        if k > 2: t += tt.sum(tt.load(x + k + i))": 0,
    "for k in range(m):\n        if k > 2: t += 1.0\n        t += tt.sum(tt.load(x + k + i))": 1,
    "for k in range(m):\n        if k == 3: continue\n        t += tt.sum(tt.load(x + k + i))": 0,
    "for k in range(m):\n        t += tt.sum(tt.load(x + k + i))\n        if t > 1: break": 0,
    "for k in range(m):\n        t += tt.sum(tt.load(x + k + i))\n        tt.device_assert(t > -1e9)": 0,
    "for k in range(m):\n        t += tt.sum(tt.load(x + k + i))\n        tt.debug_barrier()": 0,
    "for k in range(m):\n        t += tt.sum(tt.load(x + k + i))\n        tt.atomic_add(out, 1.0)": 0,
    "for k in range(m):\n        t += tt.sum(tt.load(x + k + i))\n        tt.store(out + i, t)": 1,
    "for k in range(m):\n        tt.store(y + k + i, tt.load(x + k + i) + tt.sum(tt.load(x + k + 1 + i)))": 2,
    "for k in range(m): t += tt.sum(tt.load(x + k + tt.arange(0, 8192), mask=k + tt.arange(0, 8192) < n))": 0,
    "k = 0\n    while k < m:\n        t += tt.sum(tt.load(x + k + i))\n        k += 1": 0,
    "z = x + i\n    for k in range(m):\n        t += tt.sum(tt.load(z)) + tt.load(y)\n        z += k; y += 1": 2,
    "for k in range(m):\n        t += tt.sum(tt.load(x + k + i))\n        x = y": 1,
    "for k in range(m):\n        for q in range(k): t += tt.sum(tt.load(x + k + q + i))": 1,
    "for k in range(m): out += 1\n    t += tt.sum(tt.load(x + i))": 0,
}  # fmt: skip


@pytest.mark.parametrize("m", [0, 1, 5])
@pytest.mark.parametrize("body", LOOPS, ids=range(len(LOOPS)))
def test_no_access_more_or_less(interpreter, body, m):
    """The IR with loads that run ahead touches the same elements, and leaves the same bytes."""
    for asked in (False, True):
        text = body.replace(" range(", " tt.range(").replace("):", ", num_stages=2):") if asked else body
        k = kernel(f"""
@tt.jit
def k(x, y, out, m, n, B: tt.constexpr):
    p, i, t = tt.program_id(0), tt.arange(0, B), 0.0
    {text}
    tt.store(out + p, t)
""")
        signature = parse({"x": "*float32", "y": "*float32", "out": "*float32", "m": "int32", "n": "int32"})
        spec = Specialization(tuple(signature.items()), (("B", 16),))
        rng = np.random.default_rng(m)
        data = {name: rng.integers(0, 4, 128).astype(np.float32) for name in ("x", "y", "out")} | {"m": m, "n": 16 * m}
        rotated = lowered(k, {"x": "*float32", "y": "*float32", "out": "*float32", "m": "int32", "n": "int32"}, B=16).ir
        assert len({op.attrs["slot"] for op in rotated.ops() if op.name == "load_ahead"}) == LOOPS[body] * asked
        data["x"] = np.resize(data["x"], 16384) if "8192" in body else data["x"]
        given = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in data.items()}
        assert accesses(rotated, given, 2) == accesses(front(k.source, spec), data, 2)


def test_as_many_as_there_is_room_for():
    k = kernel("""
@tt.jit
def k(x, y, z, out, n, B: tt.constexpr):
    i, t = tt.arange(0, B), 0.0
    for k in tt.range(n, num_stages=2):
        t += tt.sum(tt.load(x + k + i) + tt.load(y + k + i) + tt.load(z + k + i))
    tt.store(out, t)
""")
    signature = {"x": "*float32", "y": "*float32", "z": "*float32", "out": "*float32", "n": "int32"}
    assert [ahead(k, signature, B=128 * b) for b in (1, HELD_BYTES // 8, HELD_BYTES // 4, HELD_BYTES)] == [3, 2, 1, 0]
    assert "load_ahead" not in lowered(k, signature, "opencl", threads=1, B=128).source


# -- stores in the loop ------------------------------------------------------------------------------------------------

SHIFTS = {
    "x + k * B + i": 0,
    "x + (k + 1) * B + i": 1,
}  # where round k stores: what it has loaded, or the next round will


@pytest.mark.parametrize("where", SHIFTS)
@pytest.mark.parametrize("asked", ["", "num_stages=1", "num_stages=2"])
def test_in_place(mapping, where, asked):
    """A round may load what the one before it has stored, through another argument, too; unless the loop asks for loads
    that run ahead of stores."""
    k = kernel(f"""
@tt.jit
def k(x, y, n, B: tt.constexpr):
    i = tt.arange(0, B)
    for k in tt.range(0, n{", " * bool(asked)}{asked}):
        v = tt.load(y + k * B + i)
        tt.store({where}, v + tt.max(v))
""")
    x = Guarded(64 * 9, np.int32)
    x.array[:] = np.random.default_rng(4).integers(0, 99, 64 * 9)
    want = x.array.copy()
    for r in range(8):
        v = want[64 * r : 64 * r + 64]
        at = 64 * (r + SHIFTS[where])
        want[at : at + 64] = v + v.max()
    assert ahead(k, {"x": "*int32:16", "y": "*int32:16", "n": "int32"}, B=64) == (asked == "num_stages=2")
    if asked == "num_stages=2" and SHIFTS[where]:
        return  # as it says
    k[1](x.array, x.array, 8, B=64, num_warps=mapping.warps)
    assert np.array_equal(x.check(), want)


# -- the code ----------------------------------------------------------------------------------------------------------


def test_halves_wait_as_they_lie_in_memory():
    """A thread does not wait for the elements to make floats of them, but in the round that needs them."""
    signature = {"x": "*float16:16", "out": "*float32:16", "n": "int32:16"}
    source = lowered(longest, signature, BLOCK=1024).source
    assert "uint4 load_ahead;" in source and "take_float16x8(&loaded[0], load_ahead);" in source
    assert source.index("take_float16x8(&loaded") < source.index("next_start + ") < source.index("__shfl")
    assert "if (more_1) {" in source and "more_1 = n - start > 1024;" in source


def test_what_is_held_costs_no_block():
    """Registers are limited where tiles take about what leaves room for 512 threads on a multiprocessor."""
    found = {n: [blocks_at_once(n, held, True) for held in (300, 400, 600, 900)] for n in (128, 256)}
    assert found == {128: [None, None, 4, None], 256: [None, 2, 2, None]}
    assert blocks_at_once(128, 600, False) is None and blocks_at_once(256, 600, False) == 2
    assert blocks_at_once(256, 900, False, sums=256) == 2 and blocks_at_once(256, 600, False, sums=512) is None


def test_only_if_asked():
    k = kernel(
        """
@tt.jit
def k(x, out, n, B: tt.constexpr, N: tt.constexpr):
    i, t = tt.arange(0, B), tt.zeros((B,), tt.float32)
    for k in tt.range(0, n, B, num_stages=N): t += tt.load(x + k + i, mask=k + i < n)
    tt.store(out + i, t)
"""
    )
    signature = {"x": "*float32:16", "out": "*float32:16", "n": "int32"}
    assert [ahead(k, signature, B=256, N=n) for n in (None, 0, 1, 2, 3)] == [0, 0, 0, 1, 1]


def barriers(source):
    """How many barriers are in the loop."""
    loop = source[source.index("for (unsigned int rounds") :]
    return loop[: loop.index("\n    }\n")].count("__syncthreads")


def test_a_reduction_in_a_loop_takes_one_barrier(mapping):
    """Pieces of shared memory are used in turn, or by one reduction each."""
    k = kernel("""
@tt.jit
def k(x, out, n, B: tt.constexpr, MORE: tt.constexpr):
    i, t, u = tt.arange(0, B), 0.0, 0.0
    for k in range(0, n, B):
        v = tt.load(x + k + i, mask=k + i < n, other=0.0)
        t = tt.sum(v)
        if MORE:
            u += tt.sum(v * t)
        elif t > 3.0:
            u += tt.sum(v * v)
    tt.store(out, t)
    tt.store(out + 1, u)
""")
    signature = {"x": "*float32:16", "out": "*float32:16", "n": "int32"}
    for more in (False, True):
        assert barriers(lowered(k, signature, B=512, MORE=more).source) == 2  # one a reduction
        x, out = np.random.default_rng(6).integers(-3, 4, 5000).astype(np.float32), np.zeros(2, np.float32)
        k[1](x, out, 5000, B=512, MORE=more, num_warps=mapping.warps)
        t, u = np.float32(0), np.float32(0)
        for at in range(0, 5000, 512):
            v = np.concatenate([x[at : at + 512], np.zeros(512, np.float32)])[:512]
            t = v.sum(dtype=np.float32)
            u += (v * t).sum() if more else (v * v).sum() if t > 3 else 0
        assert np.array_equal(out, np.array([t, u], np.float32))


def test_great_tiles_share_what_is_left(mapping):
    """What has no room of its own is used by turns, behind barriers; never what a reduction in the loop still reads."""

    @tt.jit
    def turns(x, out, n, S: tt.constexpr):
        i, j = tt.arange(0, S)[:, None], tt.arange(0, S)[None, :]
        total = 0.0
        for k in range(n):
            v = tt.load(x + k * S * S + i * S + j)
            most = tt.max(v)
            tt.store(out + k * S * S + i * S + j, tt.trans(v) + most)
            total += tt.sum(tt.sum(tt.trans(v) * j, 1) * tt.arange(0, S))
        tt.store(out + n * S * S, total)

    n, s = 3, 64
    x, out = np.random.default_rng(7).integers(-3, 4, (n, s, s)).astype(np.float32), np.zeros(n * s * s + 1, np.float32)
    turns[1](x, out, n, S=s, num_warps=mapping.warps)
    want = [v.T + v.max() for v in x]
    assert np.array_equal(out[:-1].reshape(n, s, s), want)
    assert out[-1] == sum((v.T * np.arange(s) * np.arange(s)[:, None]).sum() for v in x.astype(np.float64))
    assert math.isfinite(out[-1])
