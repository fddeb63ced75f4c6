"""Options of jit, heuristics, warmup, run, hooks, None as an argument, how many variants a kernel keeps, and the short
way of a launch, which needs no GPU to be checked."""

import gc
import struct
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

import tinyton as triton
import tinyton.language as tl
import tinyton.tile as ct
from conftest import kernel
from tinyton import arrays, dispatch
from tinyton.specialize import Arg

jit = import_module("tinyton.jit")  # of which the package's jit is a function


def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


def rows(x, out, n, stride, BLOCK: tl.constexpr):
    """How wide its accesses are depends on whether 16 divides ``stride``."""
    i = tl.arange(0, BLOCK)
    for r in range(n):
        tl.store(out + r * stride + i, tl.load(x + r * stride + i))


def scaled(x, out, n, scale, BLOCK: tl.constexpr = 64, EVEN: tl.constexpr = False, SHIFT: tl.constexpr = 0):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = None if EVEN else i < n
    v = tl.load(x + i, mask=mask)
    if scale is not None:
        v = v * tl.load(scale)
    tl.store(out + i, v + SHIFT, mask=mask)


def floats(n):
    return np.random.default_rng().normal(size=n).astype(np.float32)


# do_not_specialize


def variants(k, *values, **options):
    x = np.zeros(1000, np.float32)
    for stride in values:
        k[1](x, np.zeros_like(x), 2, stride, BLOCK=256, num_warps=1, **options)
    return len(k._cache)


def test_divisibility_is_in_the_key_only_where_it_may_be(executor):
    assert variants(triton.jit(rows), 256, 272, 257) == 2
    assert variants(triton.jit(do_not_specialize=["stride"])(rows), 257, 256, 272) == 1
    assert variants(triton.jit(rows, do_not_specialize=[3]), 257, 256, 272) == 1
    assert variants(triton.jit(do_not_specialize_on_alignment=["stride", "x"])(rows), 257, 256, 272) == 1
    assert variants(triton.jit(do_not_specialize=["n"], noinline=True, debug=True)(rows), 256, 257) == 2


def test_alignment_of_a_pointer_can_be_left_out(executor):
    x = floats(65)
    plain, blunt = triton.jit(copy), triton.jit(do_not_specialize_on_alignment=["x", "out"])(copy)
    for k in (plain, blunt):
        for start in (0, 1):
            out = np.zeros(64, np.float32)
            k[1](x[start : start + 64], out, 64, BLOCK=64)
            assert (out == x[start : start + 64]).all()
    if (x.ctypes.data + np.zeros(64, np.float32).ctypes.data) % 16 == 0:
        assert len(plain._cache) == 2
    assert len(blunt._cache) == 1


@pytest.mark.parametrize(
    "options, words",
    [
        ({"do_not_specialize": ["stryde"]}, "do_not_specialize lists 'stryde', which is no parameter of rows"),
        ({"do_not_specialize": [5]}, "lists 5"),
        ({"do_not_specialize_on_alignment": [-1]}, "lists -1"),
        ({"num_warps": 4}, "jit has no option num_warps; it takes debug, "),
    ],
)
def test_options_of_jit_that_are_refused(options, words):
    with pytest.raises(triton.LaunchError, match=words):
        triton.jit(**options)(rows)


def test_what_a_kernel_tells_of_itself():
    k = triton.jit(copy)
    assert k.fn is copy and k.arg_names == ["x", "out", "n", "BLOCK"] and k.__name__ == "copy"
    assert k.src.startswith("def copy(x, out, n, BLOCK: tl.constexpr):\n    i = ")


# Heuristics


RULES = {
    "EVEN": lambda args: args["n"] % args["BLOCK"] == 0,
    "SHIFT": lambda args: 100 if args["EVEN"] else 200,
    "num_warps": lambda args: 2 if args["BLOCK"] == 32 else 1,
}


@pytest.mark.parametrize("place", ["above", "below", "twice"])
def test_heuristics(executor, place):
    """Rules see arguments, defaults, options, and the rules before them; what they give counts as given."""
    if place == "above":
        k = triton.heuristics(RULES)(triton.jit(scaled))
    elif place == "below":
        k = triton.jit(triton.heuristics(RULES)(scaled))
    else:
        first, second = {"EVEN": RULES["EVEN"]}, {n: RULES[n] for n in ("SHIFT", "num_warps")}
        k = triton.heuristics(first)(triton.heuristics(second)(triton.jit(scaled)))
    for n, block, shift, warps in ((64, {}, 100, 1), (60, {}, 200, 1), (64, {"BLOCK": 32}, 100, 2)):
        x, out, seen = floats(n), np.zeros(n, np.float32), []

        def grid(meta, seen=seen):
            seen.append((meta["EVEN"], meta["SHIFT"]))
            return triton.cdiv(meta["n"], meta["BLOCK"])

        k[grid](x, out, n, None, **block)
        np.testing.assert_array_equal(out, x + np.float32(shift))
        assert seen == [(shift == 100, shift)]
        compiled = k.compile(x, out, n, None, **block)
        assert compiled.num_warps == warps
        assert compiled.constants == {
            "scale": None,
            "BLOCK": block.get("BLOCK", 64),
            "EVEN": shift == 100,
            "SHIFT": shift,
        }
        assert k.warmup(x, out, n, None, grid=(1,), **block) is compiled
    assert len(k._cache) == 3
    plain = triton.jit(scaled)
    assert not plain.rules or place == "below", "decorating makes a kernel of its own"
    if place == "below":
        del scaled.heuristics


def test_heuristics_that_are_wrong():
    with pytest.raises(triton.LaunchError, match="heuristics for EVAN, which copy does not take"):
        triton.heuristics({"EVAN": lambda args: 1})(triton.jit(copy))
    k = triton.heuristics({"BLOCK": lambda args: args["nope"]})(triton.jit(copy))
    with pytest.raises(KeyError, match="nope"):
        k[1](np.zeros(4), np.zeros(4), 4)
    with pytest.raises(triton.LaunchError, match="copy is missing n$"):
        k[1](np.zeros(4), np.zeros(4))


# warmup, run, hooks


class dtype:  # noqa: N801
    """What torch's types are called and look like."""

    def __str__(self):
        return "torch.float32"


def test_warmup_takes_types_for_arrays(executor):
    k = triton.jit(copy)
    for f32 in (tl.float32, np.float32, np.dtype("f4"), dtype(), "*float32:16", "*f32:16"):
        compiled = k.warmup(f32, f32, 4, grid=(1,), BLOCK=64)
    x, out = triton.to_device(floats(64)), triton.zeros(64, tl.float32)
    assert k.compile(x, out, 4, BLOCK=64) is compiled and len(k._cache) == 1
    compiled.launch(triton.LaunchConfig(1), x, out, 64)
    assert (out.numpy() == x.numpy()).all()
    for grid, args in (((1,), (x, out, 64)), (lambda meta: meta["BLOCK"] // 64, (x, out, 64, 64))):
        out = triton.zeros(64, tl.float32)
        compiled[grid](*args[:1], out, *args[2:])
        assert (out.numpy() == x.numpy()).all()
    with pytest.raises(triton.LaunchError, match="copy takes 3 run-time arguments"):
        compiled[(1,)](x, out)
    assert k.warmup(tl.float16, tl.float16, 4, BLOCK=64, grid=None) is not compiled
    assert k.warmup(tl.float32, tl.float32, "int64", BLOCK=64, grid=(1,)) is not compiled
    with pytest.raises(triton.KernelTypeError, match="argument x is a DType"):
        k[1](tl.float32, out, 4, BLOCK=64)


def test_run(executor):
    k, x, out = triton.jit(copy), floats(64), np.zeros(64, np.float32)
    compiled = k.run(x, out, 64, BLOCK=64, grid=(1,), warmup=True)
    assert isinstance(compiled, triton.CompiledKernel) and not out.any()
    assert k.run(x, out, 64, grid=lambda meta: (meta["n"] // 64,), BLOCK=64) is compiled
    assert (out == x).all()


def test_hooks(executor):
    k, x, out, seen = triton.jit(copy), floats(64), np.zeros(64, np.float32), []
    k.add_pre_run_hook(lambda *args, **named: seen.append((len(args), dict(named), out.any())))
    k.add_pre_run_hook(lambda *args, **named: seen.append("second"))
    k[1](x, out, n=64, BLOCK=64)
    k[1](x, out, 64, BLOCK=32)
    k.compile(x, out, 64, BLOCK=32)
    assert seen == [(2, {"n": 64, "BLOCK": 64}, False), "second", (3, {"BLOCK": 32}, True), "second"]
    with pytest.raises(triton.LaunchError, match="a hook is called"):
        k.add_pre_run_hook("name")


# None


def test_none_is_a_compile_time_value(executor):
    k, x, out = triton.jit(scaled), floats(64), np.zeros(64, np.float32)
    for scale in (None, np.full(1, 3, np.float32), None):
        k[1](x, out, 64, scale)
        assert (out == (x if scale is None else x * 3)).all()
    assert len(k._cache) == 2
    without = k.compile(x, out, 64, None)
    assert [v.name for v in without.ir.params] == ["x", "out", "n"]
    without.launch(triton.LaunchConfig(1), x, out, 64)
    counted = triton.count(k, 1, x, out, 64, None)
    assert counted.bytes_loaded == 256
    with pytest.raises(triton.TinytonError, match="None"):
        triton.jit(copy)[1](x, None, 64, BLOCK=64)


# How many variants a kernel keeps


def test_a_kernel_keeps_a_bounded_number_of_variants(executor, monkeypatch):
    """The one unused for longest goes, and what was built for it; a launch like it builds it again."""
    many, keep = (200, jit.VARIANTS) if executor == "interpreter" else (12, 5)
    monkeypatch.setattr(jit, "VARIANTS", keep)
    k = kernel("@tt.jit\ndef k(out, N: tt.constexpr):\n    tt.store(out, N)")
    out, made = np.zeros(1, np.int32), []
    for n in range(many):
        k[1](out, N=n)
        assert out[0] == n
        made.append(weakref.ref(k.compile(out, N=n)))
        k[1](out, N=0)
        assert out[0] == 0, "the first is used again and again, so it stays"
    gc.collect()
    assert len(k._cache) == len(k._used) == keep
    alive = [n for n, ref in enumerate(made) if ref() is not None]
    assert alive == [0, *range(many - keep + 1, many)]
    k[1](out, N=1)
    assert out[0] == 1 and len(k._cache) == keep
    assert isinstance(k._cache, dict) and all(isinstance(c, triton.CompiledKernel) for c in k._cache.values())
    k._cache.clear()
    assert not k._cache


def test_threads_share_few_variants(executor, monkeypatch):
    """Threads that push each other's variants out get the right kernel all the same."""
    monkeypatch.setattr(jit, "VARIANTS", 3)
    k = kernel("@tt.jit\ndef k(out, N: tt.constexpr):\n    tt.store(out, N)")

    def work(t):
        out = np.zeros(1, np.int32)
        for n in np.random.default_rng(t).integers(0, 6, 30).tolist():
            k[1](out, N=n)
            if out[0] != n:
                return t, n

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(6))) == [None] * 6
    assert len(k._cache) == len(k._used) == 3


# The short way


class Driver:
    """What dispatch needs of the CUDA executor; launches are noted."""

    name = "cuda"
    limits = {"x": 2**31 - 1, "y": 65535, "z": 65535}  # noqa: RUF012
    thread, detour = threading.get_ident(), False

    class cu:  # noqa: N801
        class Error(Exception):
            pass

    def __init__(self):
        self.calls, self.error = [], None

    def refused(self, name, error):
        return triton.LaunchError(f"{name}: {error}")

    def variant(self, tag, divisors=frozenset(), **dtypes):
        def call(grid, block, packed, shared, stream):
            if self.error:
                raise self.error
            self.calls.append((tag, grid, packed))

        loaded = SimpleNamespace(start=call, pack=lambda *args: args, shared=0)
        low = SimpleNamespace(block=(32, 1, 1), divisors_used=divisors)
        spec = SimpleNamespace(args=[(name, Arg("int", dtype)) for name, dtype in dtypes.items()])
        return SimpleNamespace(loaded=loaded, low=low, specialization=spec, hidden=(), executor=self)


@pytest.fixture
def driver(monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "cuda")
    return Driver()


def device(address, dtype=tl.float32):
    x = object.__new__(arrays.DeviceArray)
    x.address, x.dtype, x.shape = address, dtype, (64,)
    return x


def learned(k, driver, monkeypatch, *launches, **variant):
    """``k`` after launches like these; what takes the long way is noted instead of run."""
    long = []
    monkeypatch.setattr(k, "launch", lambda *args: long.append(args), raising=False)
    for tag, args, meta in launches:
        options = dict.fromkeys(dispatch.OPTIONS)
        given = {word: meta[word] for word in options if word in meta}
        bound = k._bind(args, {n: x for n, x in meta.items() if n not in given}, options)
        k._learn(bound, given | {n: options[n] for n in k.rules if n in options}, driver.variant(tag, **variant))
    k._enter = dispatch.entrance(k, k._routes, driver)
    return long


def test_the_short_way(driver, monkeypatch):
    k = triton.jit(copy)
    x, out = device(1024), device(2048)
    launches = [("a", (x, out, 64), {"BLOCK": 64}), ("w", (x, out, 64), {"BLOCK": 64, "num_warps": 8})]
    long = learned(k, driver, monkeypatch, *launches, divisors={"n"}, n=tl.int32)
    k[(3,)](x, out, 64, BLOCK=64)
    k[3, 2](x, out, 80, 64)
    k[lambda meta: meta["n"] // meta["BLOCK"]](x, out, 128, BLOCK=64)
    assert driver.calls == [("a", (3, 1, 1), (1024, 2048, 64)), ("a", (3, 2, 1), (1024, 2048, 80)),
                            ("a", (2, 1, 1), (1024, 2048, 128))]  # fmt: skip
    k[(3,)](x, out, 64, BLOCK=64, num_warps=8)
    assert driver.calls.pop() == ("w", (3, 1, 1), (1024, 2048, 64))
    assert not long
    k[3](x, out, 65, BLOCK=64)  # 16 does not divide 65
    k[3](x, out, 64, BLOCK=32)
    k[3](device(1025), out, 64, BLOCK=64)
    k[3](x, None, 64, BLOCK=64)
    k[0](x, out, 64, BLOCK=64)
    k[3](x, out, 64, BLOCK=64, stream=1)
    k[3](x, out, 64, BLOCK=64, other=1)
    k[3](x, out, 64, BLOCK=64.0)
    k[3](x, out, 64, 64, 1)
    monkeypatch.setenv("TINYTON_BACKEND", "opencl")
    k[3](x, out, 64, BLOCK=64)
    monkeypatch.delenv("TINYTON_BACKEND")
    assert len(long) == 10 and len(driver.calls) == 3
    k[3](x, out, 64, BLOCK=64)
    driver.detour = True
    k[3](x, out, 64, BLOCK=64)
    assert len(long) == 11 and len(driver.calls) == 4
    driver.detour = False
    driver.error = Driver.cu.Error("no")
    with pytest.raises(triton.LaunchError, match="copy: no"):
        k[3](x, out, 64, BLOCK=64)
    driver.thread = None  # the context may not be current in another thread: the long way sees to that
    k[3](x, out, 64, BLOCK=64)
    assert len(long) == 12


def test_the_key_of_the_short_way_grows(driver, monkeypatch):
    """Whether 16 divides an int, and how long it is, is asked once a variant depends on it."""
    k = triton.jit(copy)
    x, out = device(1024), device(2048)
    long = learned(k, driver, monkeypatch, ("a", (x, out, 64), {"BLOCK": 64}), n=tl.int32)
    for n in (64, 65):
        k[1](x, out, n, BLOCK=64)
        assert driver.calls.pop() == ("a", (1, 1, 1), (1024, 2048, n))
    bound = k._bind((x, out, 1 << 32), {"BLOCK": 64}, {})
    k._learn(bound, {}, driver.variant("long", {"n"}, n=tl.int64))
    k[1](x, out, 64, BLOCK=64)
    k[1](x, out, (1 << 32) + 1, BLOCK=64)
    assert len(long) == 2 and not driver.calls, "forgotten, and never seen"
    k[1](x, out, 1 << 33, BLOCK=64)
    assert driver.calls.pop() == ("long", (1, 1, 1), (1024, 2048, 1 << 33))


def test_a_number_that_does_not_fit_takes_the_long_way(driver, monkeypatch):
    k, variant = triton.jit(copy), driver.variant("a", n=tl.int32)
    variant.loaded.pack = struct.Struct("PPi").pack
    x, out = device(1024), device(2048)
    long = learned(k, driver, monkeypatch)
    k._learn(k._bind((x, out, 64), {"BLOCK": 64}, {}), {}, variant)
    k[1](x, out, 64, BLOCK=64)
    k[1](x, out, 1 << 31, BLOCK=64)
    assert len(long) == len(driver.calls) == 1


def test_heuristics_on_the_short_way(driver, monkeypatch):
    k = triton.heuristics(RULES)(triton.jit(scaled))
    x, out = device(1024), device(2048)
    launches = [("even", (x, out, 64, None), {}), ("odd", (x, out, 80, None), {}), ("s", (x, out, 64, x), {})]
    long = learned(k, driver, monkeypatch, *launches)
    for n, scale, tag in ((64, None, "even"), (80, None, "odd"), (128, None, "even"), (64, x, "s")):
        k[lambda meta: (meta["SHIFT"],)](x, out, n, scale)
        shift = 100 if n % 64 == 0 else 200
        assert driver.calls.pop() == (tag, (shift, 1, 1), (1024, 2048, n) + ((1024,) if scale else ()))
    assert not long
    k[1](x, out, 64, None, BLOCK=32)
    assert len(long) == 1, "num_warps=2 was not launched before"


def test_hooks_and_prints_on_the_short_way(driver, monkeypatch):
    k, seen = triton.jit(copy), []
    k.add_pre_run_hook(lambda *args, **named: seen.append(named))
    x, out = device(1024), device(2048)
    learned(k, driver, monkeypatch, ("a", (x, out, 64), {"BLOCK": 64}))
    k[1](x, out, 64, BLOCK=64)
    assert seen == [{"BLOCK": 64}] and len(driver.calls) == 1
    printing = driver.variant("b")
    printing.hidden = ("log",)
    k.forget()
    k._learn(k._bind((x, out, 64), {"BLOCK": 64}, dict.fromkeys(dispatch.OPTIONS)), {}, printing)
    assert not k._routes


def test_variants_that_go_are_forgotten_on_the_short_way(driver, monkeypatch):
    k = triton.jit(copy)
    x, out = device(1024), device(2048)
    long = learned(k, driver, monkeypatch, ("a", (x, out, 64), {"BLOCK": 64}))
    monkeypatch.setattr(jit, "VARIANTS", 1)
    k._cache["base", ()] = k._cache["other", ()] = None  # what keys look like
    assert not k._routes
    k[1](x, out, 64, BLOCK=64)
    assert not driver.calls and len(long) == 1


def test_the_short_way_of_arrays(driver, monkeypatch):
    @ct.kernel
    def scale(x, out, stream, TILE: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(out, (i, 0), ct.load(x, (i, 0), (TILE, TILE)) * stream)

    def matrix(address, rows, columns):
        x = device(address)
        x.executor, x.shape = driver, (rows, columns)
        return x

    x, out = matrix(1024, 64, 80), matrix(2048, 64, 80)
    long = learned(scale, driver, monkeypatch, ("a", (x, out, 3, 16), {}))
    ct.launch(None, (3,), scale, (x, out, 3, 16))
    ct.launch(None, (3, 2), scale, (matrix(4096, 128, 16), out, 5, 16))  # new extents, the same divisibility
    assert driver.calls == [("a", (3, 1, 1), (1024, 64, 80, 80, 2048, 64, 80, 80, 3)),
                            ("a", (3, 2, 1), (4096, 128, 16, 16, 2048, 64, 80, 80, 5))]  # fmt: skip
    others = (matrix(4096, 64, 81), matrix(4096, 64, 1), matrix(4096, 2**31, 16), device(4096))
    for k, other in enumerate(others):  # not divisible, a stride of 1, beyond 32 bits, one dimension
        ct.launch(None, (1,), scale, (other, out, 3, 16))
        assert len(long) == k + 1 and len(driver.calls) == 2
