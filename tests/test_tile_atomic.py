"""Atomics on elements of arrays: what many programs do to one element all counts, outside of an array nothing does."""

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import Guarded, kernel, same_bits, underlined

WIDE = ["i4", "u4", "i8", "u8"]
FLOATS = ["f4", "f8"]
HALVES = ["f2", ml_dtypes.bfloat16]
MEANING = {"add": np.add, "max": np.maximum, "min": np.minimum}
MEANING |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@ct.kernel
def all_ways(x, i, j, v, old, WAYS: ct.Constant):
    """One operation an element, of a plane each: what was there comes back."""
    a, b = ct.load(i, 0, 8)[:, None], ct.load(j, 0, 4)[None, :]
    update = ct.load(v, (0, 0), (8, 4))
    for k in ct.static_iter(range(len(WAYS))):
        plane = x.slice(0, k, k + 1)
        places, was = (0, a, b), ct.zeros((8, 4), x.dtype)
        if WAYS[k] == "add":
            was = ct.atomic_add(plane, places, update)
        if WAYS[k] == "max":
            was = ct.atomic_max(plane, places, update, memory_order=ct.MemoryOrder.RELAXED)
        if WAYS[k] == "min":
            was = ct.atomic_min(plane, places, update, memory_scope=ct.MemoryScope.SYS)
        if WAYS[k] == "and":
            was = ct.atomic_and(plane, places, update, memory_order=ct.MemoryOrder.ACQUIRE)
        if WAYS[k] == "or":
            was = ct.atomic_or(plane, places, update, memory_order=ct.MemoryOrder.RELEASE)
        if WAYS[k] == "xor":
            was = ct.atomic_xor(plane, places, update, memory_scope=ct.MemoryScope.BLOCK)
        if WAYS[k] == "xchg":
            was = ct.atomic_xchg(plane, places, update)
        if WAYS[k] == "cas":
            was = ct.atomic_cas(plane, places, update, 77)
        ct.store(old, (k, 0, 0), was[None])


@pytest.mark.parametrize("dtype", WIDE + FLOATS + HALVES, ids=lambda d: np.dtype(d).name)
def test_old_and_new_elements(executor, dtype):
    whole = dtype in WIDE
    ways = ("add", "max", "min", "xchg", "cas", *(("and", "or", "xor") if whole else ()))
    rng = np.random.default_rng()
    before = rng.integers(0, 50, (len(ways), 9, 6)).astype(dtype)
    memory, old = Guarded(before.shape, dtype), Guarded((len(ways), 8, 4), dtype)
    x = memory.array[:, ::-1]
    x[...] = before
    i, j = rng.permutation(np.arange(-2, 11))[:8], rng.permutation(np.arange(-2, 8))[:4].astype(np.int8)
    v = rng.integers(0, 50, (8, 4)).astype(dtype)
    ct.launch(None, (1,), all_ways, (x, i, j, v, old.array, ways))
    inside = ((i >= 0) & (i < 9))[:, None] & ((j >= 0) & (j < 6))
    a, b = i[:, None].clip(0, 8), j[None].clip(0, 5)
    memory.check()
    for k, way in enumerate(ways):
        want, was = before[k].copy(), before[k][a, b]
        new = (
            np.where(was == v, np.asarray(77, dtype), was)
            if way == "cas"
            else v
            if way == "xchg"
            else MEANING[way](was, v)
        )
        where = np.broadcast_arrays(a, b)
        want[where[0][inside], where[1][inside]] = new[inside]
        same_bits(np.ascontiguousarray(x[k]), want)
        same_bits(old.check()[k], np.where(inside, was, v if way == "cas" else np.zeros((), dtype)))


@pytest.mark.parametrize("dtype", ["i4", "u8", "f2", "f4", "f8"])
def test_sums_of_many_programs(executor, dtype):
    """Collisions inside of a tile and between programs, in integers that floats hold exactly."""

    @ct.kernel
    def histogram(x, bins):
        v = ct.load(x, ct.bid(0), 32, padding_mode=ct.PaddingMode.ZERO)
        ct.atomic_add(
            bins, v, ct.where(ct.bid(0) * 32 + ct.arange(32, dtype=ct.int32) < x.shape[0], 1, 0).astype(bins.dtype)
        )

    x = np.random.default_rng().integers(-1, 9, 250)
    bins = Guarded(8, dtype)
    bins.array[...] = 0
    ct.launch(None, (8,), histogram, (x, bins.array))
    assert bins.check().tolist() == [int((x == k).sum()) for k in range(8)]


def test_parts_of_a_sum_and_a_counter_of_those_done(executor):
    """Split-K: the last program to be done, which a counter tells, finishes the work."""

    @ct.kernel
    def split(x, total, done, out, n):
        k = ct.bid(0)
        ct.atomic_add(total, (ct.arange(4, dtype=ct.int32),), ct.load(x, (k, 0), (1, 4)).reshape((4,)))
        if ct.atomic_add(done, 0, 1) == n - 1:
            ct.store(
                out,
                0,
                ct.load(total, 0, 4, memory_order=ct.MemoryOrder.RELAXED, memory_scope=ct.MemoryScope.DEVICE) * 2,
            )

    x = np.random.default_rng().integers(0, 9, (7, 4)).astype(np.float32)
    out, total, done = Guarded(4, np.float32), np.zeros(4, np.float32), np.zeros((), np.int32)
    ct.launch(None, (7,), split, (x, total, done[None], out.array, 7))
    same_bits(out.check(), 2 * x.sum(0))
    assert done == 7


def test_a_lock(executor):
    @ct.kernel
    def turns(lock, x):
        while ct.atomic_cas(lock, 0, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
            pass
        ct.store(x, 0, ct.load(x, 0, 4) * 2 + 1)
        ct.atomic_xchg(lock, 0, 0, memory_order=ct.MemoryOrder.RELEASE)

    lock, x = np.zeros(1, np.int32), np.zeros(4, np.int64)
    ct.launch(None, (9,), turns, (lock, x))
    assert x.tolist() == [(1 << 9) - 1] * 4 and lock[0] == 0


def test_elements_without_dimensions_and_lanes_without_checks(executor):
    @ct.kernel
    def count(n, x, out):
        ct.store(out, ct.bid(0), ct.atomic_add(n, (), 2))
        ct.atomic_max(x, ct.arange(4, dtype=ct.int64), ct.bid(0), check_bounds=False)

    n, x, out = np.array(5, np.int64), Guarded(4, np.int32), Guarded(3, np.int64)
    x.array[...] = [0, 1, 2, 3]
    ct.launch(None, (3,), count, (n, x.array, out.array))
    assert n == 11 and sorted(out.check()) == [5, 7, 9] and x.check().tolist() == [2, 2, 2, 3]


def test_updates_widen(executor):
    @ct.kernel
    def add(x, y, z):
        ct.atomic_add(x, 0, ct.full((), 3, ct.int16))
        ct.atomic_add(y, ct.arange(2, dtype=ct.int32), ct.full((2,), True, ct.bool_))
        ct.atomic_add(z, 0, ct.full((1,), 0.5, ct.float16).item())

    x, y, z = np.ones(1, np.int64), np.ones(2, np.int32), np.ones(1, np.float32)
    ct.launch(None, (2,), add, (x, y, z))
    assert (x[0], y.tolist(), z[0]) == (7, [3, 3], 2)


@pytest.mark.parametrize("dtype", ["i4", "u8", "f4"])
def test_on_tiles_of_views(executor, dtype):
    whole = dtype != "f4"

    @ct.kernel
    def add(x, WHOLE: ct.Constant[bool]):
        view = x.tiled_view((2, 4))
        k = ct.bid(0)
        view.atomic_store_add((k, 1), ct.full((2, 4), 3, x.dtype))
        view.atomic_store_max((k, 0), ct.full((1, 4), 5, x.dtype))
        view.atomic_store_min((k, 0), 6)
        if WHOLE:
            view.atomic_store_and((-1, 0), 0)
            view.atomic_store_or((0, 2), 8)
            view.atomic_store_xor((0, 2), ct.full((2, 1), 1, x.dtype))

    before = np.random.default_rng().integers(0, 20, (5, 10)).astype(dtype)
    x = Guarded(before.shape, dtype)
    x.array[...] = before
    ct.launch(None, (3,), add, (x.array, whole))
    want = before.copy()
    want[:, 4:8] += np.asarray(3, dtype)
    want[:, :4] = before[:, :4].clip(5, 6)
    for _ in range(3 if whole else 0):
        want[:2, 8:] = (want[:2, 8:] | np.asarray(8, dtype)) ^ np.asarray(1, dtype)
    same_bits(x.check(), want)


def test_by_offset(executor):
    @ct.kernel
    def raw(x, out):
        memory, k = x.get_raw_memory(), ct.arange(4, dtype=ct.int32)
        ct.store(out, (0, 0), memory.atomic_add_offset(k * 3, 10)[None])
        ct.store(out, (1, 0), memory.atomic_xchg_offset(k * 3 + 1, k, mask=k != 2)[None])
        ct.store(out, (2, 0), memory.atomic_cas_offset(k * 3 + 2, 2 + 3 * k, -k, mask=k > 0)[None])
        memory.atomic_max_offset(0, 100)
        memory.atomic_min_offset(3, -100, memory_order=ct.MemoryOrder.RELAXED)
        memory.atomic_or_offset(6, 1)
        memory.atomic_xor_offset(6, 3)
        memory.atomic_and_offset(9, 16)

    x, out = Guarded((4, 3), np.int32), Guarded((3, 4), np.int32)
    x.array[...] = np.arange(12).reshape(4, 3)
    ct.launch(None, (1,), raw, (x.array, out.array))
    assert x.check().tolist() == [[100, 0, 2], [-100, 1, -1], [(16 | 1) ^ 3, 7, -2], [16, 3, -3]]
    assert out.check().tolist() == [[0, 3, 6, 9], [1, 4, 0, 10], [2, 5, 8, 11]]


def refused(body, x=None, error=ct.TileTypeError):
    text = f"@ct.kernel\ndef k(x, i):\n    {body}"
    x = np.zeros(4, np.int32) if x is None else x
    with pytest.raises(error) as caught:
        ct.launch(None, (1,), kernel(text, ct=ct), (x, np.zeros(4, np.int32)))
    return underlined(caught.value), str(caught.value).split("\n")[-1]


@pytest.mark.parametrize(
    "body, where, words",
    [
        ("ct.atomic_add(ct.load(x, 0, 4), 0, 1)", "ct.load(x, 0, 4)", ["expected an array"]),
        ("ct.atomic_add(x, (0, 0), 1)", "(0, 0)", ["2 entries"]),
        ("ct.atomic_add(x, 0.5, 1)", "0.5", ["integers"]),
        ("ct.atomic_add(x, 0, 0.5)", "0.5", [".astype(ct.int32)"]),
        ("ct.atomic_add(x, 0, ct.full((2,), 1, ct.int32))", "ct.full((2,), 1, ct.int32)", ["broadcast"]),
        ("ct.atomic_add(x, 0, ct.full((), 1, ct.int64))", "ct.full((), 1, ct.int64)", [".astype(ct.int32)"]),
        ("ct.atomic_cas(x, 0, 0.5, 1)", "0.5", [".astype(ct.int32)"]),
        ("ct.atomic_cas(x, 0, 1, 0.5)", "0.5", [".astype(ct.int32)"]),
        ("ct.atomic_and(x, 0, ct.full((), 1, ct.int16))", "ct.full((), 1, ct.int16)", ["bitwise", "int16"]),
        ("ct.atomic_or(x, 0, ct.full((), True, ct.bool_))", "ct.full((), True, ct.bool_)", ["bitwise", "bool"]),
        ("ct.atomic_add(x, 0, 1, memory_order=ct.MemoryOrder.WEAK)", "ct.MemoryOrder.WEAK", ["RELAXED", "ACQ_REL"]),
        ("ct.atomic_add(x, 0, 1, memory_order='relaxed')", "'relaxed'", ["MemoryOrder.RELAXED"]),
        ("ct.atomic_add(x, 0, 1, memory_scope=ct.MemoryScope.NONE)", "ct.MemoryScope.NONE", ["needs a memory scope"]),
        ("ct.atomic_add(x, 0, 1, memory_scope=3)", "3", ["ct.MemoryScope"]),
        ("ct.atomic_add(x, 0, 1, check_bounds=0)", "0", ["True or False"]),
        ("x.tiled_view(4).atomic_store_add(0, ct.full((2,), 1, ct.int32))", None, ["broadcast"]),
        ("x.get_raw_memory().atomic_add_offset(0, 0.5)", "0.5", [".astype(ct.int32)"]),
    ],
)
def test_what_is_refused(interpreter, body, where, words):
    caret, message = refused(body)
    assert all(word in message for word in words), message
    assert where is None or caret == where


@pytest.mark.parametrize("dtype", ["i1", "u2", "?"])
def test_elements_that_are_too_small(interpreter, dtype):
    for how in ("add", "max", "xchg", "and"):
        caret, message = refused(f"ct.atomic_{how}(x, 0, True)", np.zeros(4, dtype))
        assert caret == "x" and f"not of {np.dtype(dtype).name}" in message
    assert "not of float32" in refused("ct.atomic_xor(x, 0, 1)", np.zeros(4, np.float32))[1]


def test_programs_that_count_are_no_race(interpreter):
    @ct.kernel
    def count(x, y):
        ct.atomic_add(x, 0, 1)
        ct.store(y, 0, ct.bid(0))

    x = np.zeros(1, np.int32)
    with pytest.raises(tt.TinytonError, match="element 0 of y"):
        ct.launch(None, (2,), count, (x, np.zeros(1, np.int32)))
