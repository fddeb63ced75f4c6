"""Launches: grids, options, arguments, launch configurations, streams, threads, forks; and what does not fit."""

import pickle
import re
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from processes import python

import tinyton as tt
from conftest import EXECUTORS, choose, kernel, lowered

COMPILED = [name for name in EXECUTORS if name != "interpreter"]


@tt.jit
def put(out, n, value, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, value, mask=i < n)


@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr = 64):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)


@tt.jit
def programs(out):
    x = tt.program_id(0)
    y = tt.program_id(1)
    z = tt.program_id(2)
    nx = tt.num_programs(0)
    ny = tt.num_programs(1)
    tt.store(out + ((z * ny + y) * nx + x), 100 * x + 10 * y + z + 1)


@tt.jit
def softmax_of_one_row(x, out, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    v = tt.load(x + i)
    e = tt.exp(v - tt.max(v))
    tt.store(out + i, e / tt.sum(e))


@pytest.fixture(params=COMPILED)
def compiler(request, monkeypatch):
    choose(request.param, monkeypatch)
    return request.param


def refused(error, call, *words):
    """Asserts the error and the words of its message; that it is one line, without a path, of nothing foreign, and
    survives pickling."""
    with pytest.raises(error) as caught:
        call()
    e = caught.value
    for word in words:
        assert word in str(e), f"{word!r} is not in {str(e)!r}"
    assert type(e) is error
    assert e.__cause__ is None and (e.__context__ is None or e.__suppress_context__)
    assert not re.search(r"/\w+/|site-packages|0x[0-9a-f]{6}", str(e)), str(e)
    text = "".join(traceback.format_exception(e))
    assert "During handling" not in text and "direct cause" not in text
    copy = pickle.loads(pickle.dumps(e))
    assert type(copy) is type(e) and str(copy) == str(e) and copy.args == e.args
    return e


# Grids


class Index:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


@pytest.mark.parametrize(
    "grid, shape",
    [
        (4, (4, 1, 1)),
        (np.int32(4), (4, 1, 1)),
        (np.uint8(4), (4, 1, 1)),
        (np.array(4), (4, 1, 1)),
        (Index(4), (4, 1, 1)),
        ((4,), (4, 1, 1)),
        ([4], (4, 1, 1)),
        ((4, 3), (4, 3, 1)),
        ([np.int64(4), 3], (4, 3, 1)),
        ((4, 3, 2), (4, 3, 2)),
        ((1, 1, 5), (1, 1, 5)),
        (lambda meta: 4, (4, 1, 1)),
        (lambda meta: [4, 3], (4, 3, 1)),
        (lambda meta: (np.int16(4), 3, 2), (4, 3, 2)),
    ],
    ids=lambda v: "lambda" if callable(v) and not isinstance(v, Index) else None,
)
def test_grids(executor, grid, shape):
    nx, ny, nz = shape
    out = np.zeros(nx * ny * nz + 5, np.int32)
    programs[grid](out)
    z, y, x = np.mgrid[:nz, :ny, :nx]
    np.testing.assert_array_equal(out[:-5], (100 * x + 10 * y + z + 1).ravel())
    assert not out[-5:].any()


def test_a_callable_grid_reads_the_arguments(executor):
    seen = []

    def grid(meta):
        seen.append(meta["BLOCK"])
        return tt.cdiv(meta["n"], meta["BLOCK"])

    for block in ({"BLOCK": 32}, {}):
        x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
        add[grid](x, x, out, 100, **block)
        np.testing.assert_array_equal(out, 2 * x)
    assert seen == [32, 64]


def test_an_error_of_the_users_grid_is_the_users(executor):
    with pytest.raises(KeyError, match="BLOK"):
        put[lambda meta: meta["BLOK"]](np.zeros(4), 4, 1.0, BLOCK=4)


@pytest.mark.parametrize("grid", [0, (0,), (4, 0), (0, 3, 2), [4, 3, 0], lambda meta: 0], ids=range(6))
def test_a_grid_of_zero_does_nothing(executor, grid):
    out = np.zeros(100, np.int32)
    programs[grid](out)
    assert not out.any()


def test_a_grid_of_zero_is_checked_all_the_same(executor):
    refused(tt.KernelTypeError, lambda: programs[0]("text"), "argument out is a str")
    refused(tt.LaunchError, lambda: programs[0](), "programs is missing out")
    with pytest.raises(tt.TinytonError, match="power of two"):
        kernel("@tt.jit\ndef k(x):\n    tt.store(x + tt.zeros((3,), tt.int32), 1)")[0](np.zeros(4, np.int32))


@pytest.mark.parametrize(
    "grid, words",
    [
        (4.0, ["axis 0", "4.0", "float", "int"]),
        (np.float32(4), ["axis 0", "float32"]),
        ((4, 2.5), ["axis 1", "2.5", "float"]),
        (True, ["axis 0", "True", "bool"]),
        ((4, np.True_), ["axis 1", "bool"]),
        (-1, ["axis 0", "-1", "0 to"]),
        ((4, 3, -2), ["axis 2", "-2"]),
        ((1, 1, 1, 1), ["one to three axes", "4"]),
        ((), ["one to three axes", "0"]),
        ("4", ["axis 0", "'4'", "str"]),
        (None, ["axis 0", "None"]),
        (np.array([4, 3]), ["axis 0", "ndarray"]),
        ((np.array([4]),), ["axis 0", "ndarray"]),
        (lambda meta: None, ["axis 0", "None"]),
        (lambda meta: 4.0, ["axis 0", "4.0"]),
        (2**40, ["axis 0", str(2**40), "2147483647"]),
        (2**70, ["axis 0", str(2**70)]),
    ],
    ids=lambda v: "lambda" if callable(v) else None,
)
def test_grids_that_are_refused(executor, grid, words):
    refused(tt.LaunchError, lambda: programs[grid](np.zeros(100, np.int32)), *words)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_limits_of_the_grid(executor, axis, monkeypatch):
    """The device's limits are said with the axis and the value; nothing is launched."""
    limits = tt.backends.current().limits
    grid = [1, 1, 1]
    grid[axis] = limits["xyz"[axis]] + 1
    refused(
        tt.LaunchError,
        lambda: programs[tuple(grid)](np.zeros(4, np.int32)),
        f"axis {axis}",
        str(grid[axis]),
        str(limits["xyz"[axis]]),
    )
    monkeypatch.setitem(limits, "xyz"[axis], 3)
    grid[axis] = 4
    refused(tt.LaunchError, lambda: programs[grid](np.zeros(4, np.int32)), f"axis {axis} of the grid is 4", "3")


# Arguments


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda k, a: k(a, 4, BLOCK=4), ["put is missing value"]),
        (lambda k, a: k(BLOCK=4), ["put is missing out, n, value"]),
        (lambda k, a: k(a, 4, 1.0), ["put is missing BLOCK"]),
        (lambda k, a: k(a, 4, 1.0, 4, 5), ["put takes 4 arguments", "out, n, value, BLOCK", "5"]),
        (lambda k, a: k(a, 4, 1.0, BLOK=4, BLOCK=4), ["put has no parameter BLOK", "BLOCK", "num_warps"]),
        (lambda k, a: k(a, 4, 1.0, BLOCK=4, num_warp=4), ["num_warp", "num_warps"]),
        (lambda k, a: k(a, 2**63, 1.0, BLOCK=4), ["argument n", str(2**63), "int64"]),
        (lambda k, a: k(a, -(2**63) - 1, 1.0, BLOCK=4), ["argument n", "int64"]),
        (lambda k, a: k(a, np.uint64(2**64 - 1), 1.0, BLOCK=4), ["argument n", "int64"]),
    ],
)
def test_arguments_that_do_not_bind(executor, call, words):
    refused(tt.LaunchError, lambda: call(put[1], np.zeros(4, np.float32)), *words)
    refused(tt.LaunchError, lambda: call(put.compile, np.zeros(4, np.float32)), *words)


def test_an_argument_by_position_and_by_name(executor):
    out = np.zeros(4, np.float32)
    k = kernel("@tt.jit\ndef k(out, n, BLOCK: tt.constexpr):\n    tt.store(out + tt.arange(0, BLOCK), n)")
    for _ in range(2):  # then with a hook
        for name, value in (("BLOCK", 4), ("out", out), ("n", 9)):
            refused(tt.LaunchError, lambda n=name, v=value: k[1](out, 4, 4, **{n: v}), f"k got {name} twice")
        k.add_pre_run_hook(lambda *args, **named: None)
    assert not out.any()


@pytest.mark.parametrize(
    "value, words",
    [
        ("text", ["str"]),
        ([1, 2], ["list"]),
        ((1, 2), ["tuple"]),
        (1j, ["complex"]),
        (np.complex64(1), ["complex64"]),
        (np.datetime64("2020"), ["datetime64"]),
        (tt.float32, ["DType"]),
        (object, ["type"]),
    ],
    ids=str,
)
def test_arguments_of_types_that_kernels_do_not_take(executor, value, words):
    out = np.zeros(4, np.float32)
    refused(tt.KernelTypeError, lambda: put[1](out, 4, value, BLOCK=4), "argument value", *words)
    refused(tt.KernelTypeError, lambda: put[1](value, 4, 1.0, BLOCK=4), "argument out", *words)


@pytest.mark.parametrize("value", [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63), 0, 1, 16], ids=str)
def test_ints_take_the_width_they_need(executor, value):
    out = np.zeros(2, np.int64)
    put[1](out, 2, value, BLOCK=2)
    assert out.tolist() == [value, value]


@pytest.mark.parametrize(
    "value",
    [True, False, np.True_, np.int8(-3), np.uint32(2**32 - 1), np.float32(1.5), np.float16(0.1), 0.1, -0.0, 1e300],
    ids=repr,
)
def test_scalars(executor, value):
    out = np.zeros(2, np.float64)
    put[1](out, 2, value, BLOCK=2)
    assert str(out[0]) == str(out[1]) == str(np.float64(value))


def test_arguments_by_name_and_by_default(executor):
    x, out = np.arange(70, dtype=np.float32), np.zeros(70, np.float32)
    add[2](out=out, n=70, y=x, x=x)
    np.testing.assert_array_equal(out, 2 * x)
    add[1](x, x, n=70, BLOCK=128, out=out)
    np.testing.assert_array_equal(out, 2 * x)
    add[3](x, x, out, 70, 32)
    np.testing.assert_array_equal(out, 2 * x)


def test_a_kernel_is_launched_over_a_grid(executor):
    refused(tt.LaunchError, lambda: put(np.zeros(4), 4, 1.0, BLOCK=4), "put[grid](...)")


# Options


@pytest.mark.parametrize("option", ["num_warps", "num_threads", "num_stages", "num_ctas", "stream", "_tt_grid"])
def test_a_parameter_cannot_be_named_like_an_option(option):
    error = refused(
        tt.KernelTypeError, lambda: kernel(f"@tt.jit\ndef k(x, {option}):\n    tt.store(x, 1)"), option, "another name"
    )
    assert error.loc is not None and error.loc.kernel == "k"


@pytest.mark.parametrize("option", ["num_warps", "num_threads", "num_stages", "num_ctas"])
@pytest.mark.parametrize("value", [0, -4, 4.0, True, "4", [4], (4,), np.array([4])], ids=repr)
def test_options_that_are_no_counts(executor, option, value):
    out = np.zeros(4)
    put[1](out, 4, 1.0, BLOCK=4, num_warps=1)  # a wrong value must not find this variant
    put[1](out, 4, 1.0, BLOCK=4, num_warps=4)
    refused(tt.LaunchError, lambda: put[1](out, 4, 1.0, BLOCK=4, **{option: value}), option, repr(value))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"num_warps": 3}, ["num_warps", "power of two", "3"]),
        ({"num_threads": 96}, ["num_threads", "power of two", "96"]),
        ({"num_warps": 4, "num_threads": 64}, ["num_threads=64", "num_warps=4", "one of them"]),
        ({"num_warps": 2**20}, ["num_warps", str(2**25), "allows"]),
        ({"num_threads": 2**40}, ["num_threads", "allows"]),
        ({"num_ctas": 3}, ["num_ctas", "1, 2, 4, 8, 16", "3"]),
        ({"num_ctas": 32}, ["num_ctas", "1, 2, 4, 8, 16", "32"]),
    ],
    ids=str,
)
def test_options_that_do_not_fit(executor, options, words):
    refused(tt.LaunchError, lambda: put[1](np.zeros(4), 4, 1.0, BLOCK=4, **options), *words)


def test_options_that_say_the_same_share_a_variant(executor):
    put._cache.clear()
    for options in (
        {"num_warps": 2},
        {"num_threads": 64},
        {"num_threads": np.int64(64), "num_warps": 2, "num_ctas": 1},
        {"num_warps": 2, "num_ctas": 1},
    ):
        out = np.zeros(100)
        put[1](out, 100, 1.0, BLOCK=128, **options)
        assert out.all()
    assert len(put._cache) == 1


@pytest.mark.parametrize("threads", [2**k for k in range(11)])
def test_thread_counts(compiler, threads):
    """The number of threads is no part of the kernel: what it computes is the same."""
    x = np.linspace(-3, 3, 256, dtype=np.float32)
    out = np.zeros_like(x)
    softmax_of_one_row[1](x, out, BLOCK=256, num_threads=threads)
    e = np.exp(x.astype(np.float64) - 3)
    np.testing.assert_allclose(out, e / e.sum(), rtol=1e-5)
    compiled = softmax_of_one_row.compile(x, out, BLOCK=256, num_threads=threads)
    assert (compiled.threads, compiled.reqntid) == (threads, (threads, 1, 1))


# Compiled kernels


def test_what_a_compiled_kernel_tells(executor):
    x, out = np.zeros(256, np.float32), np.zeros(256, np.float32)
    compiled = softmax_of_one_row.compile(x, out, BLOCK=256, num_warps=4)
    assert compiled is softmax_of_one_row.compile(x, out, BLOCK=256, num_warps=4)
    assert not out.any(), "it is compiled only"
    assert isinstance(compiled, tt.CompiledKernel)
    assert "softmax_of_one_row" in compiled.source and "tt.exp(v - tt.max(v))" in compiled.source
    assert compiled.source.isascii()
    assert "reduce" in str(compiled.ir) and "exp" in str(compiled.ir)
    assert (compiled.threads, compiled.num_warps, compiled.num_ctas) == (128, 4, 1)
    assert compiled.reqntid == (128, 1, 1)
    assert compiled.shared_bytes >= 4 and compiled.scratch_bytes == 0
    assert compiled.constants == {"BLOCK": 256}
    assert re.search(r"softmax_of_one_row.*128 threads", repr(compiled)) and "0x" not in repr(compiled)


@pytest.mark.parametrize("what", ["ptx", "sass", "registers", "spills", "occupancy"])
def test_what_only_a_gpu_tells(executor, what):
    compiled = put.compile(np.zeros(4), 4, 1.0, BLOCK=4)
    if executor == "cuda":
        pytest.skip("this is a GPU")
    refused(
        tt.TinytonError,
        lambda: compiled.occupancy() if what == "occupancy" else getattr(compiled, what),
        what,
        "cuda",
        executor,
    )


def test_one_thread_has_no_shared_memory(executor):
    x = np.zeros(256, np.float32)
    assert softmax_of_one_row.compile(x, x, BLOCK=256, num_threads=1).shared_bytes == 0


# Launch configurations


@pytest.fixture
def compiled(executor):
    out = np.zeros(256, np.float32)
    return put.compile(out, 256, 1.0, BLOCK=64, num_threads=32)


def test_three_ways_to_a_configuration(compiled):
    assert tt.LaunchConfig.with_grid(4, compiled) == tt.LaunchConfig((4, 1, 1), (32, 1, 1), 1)
    assert tt.LaunchConfig.from_program(200, compiled) == tt.LaunchConfig(grid=7, block=32)
    assert tt.LaunchConfig.explicit(200, 32) == tt.LaunchConfig(grid=7, block=32)
    assert tt.LaunchConfig(4).block is None and tt.LaunchConfig(4).cluster == (1, 1, 1)
    assert hash(tt.LaunchConfig(4, 32)) == hash(tt.LaunchConfig((4,), [32, 1]))


def test_launching_with_a_configuration(compiled):
    for config in (
        tt.LaunchConfig.with_grid(4, compiled),
        tt.LaunchConfig.with_grid(lambda meta: 256 // meta["BLOCK"], compiled),
        tt.LaunchConfig.explicit(128, 32),
        tt.LaunchConfig(4),
    ):
        for launch in (
            lambda out, config=config: put[config](out, 256, 2.0, BLOCK=64, num_threads=32),
            lambda out, config=config: compiled.launch(config, out, 256, 2.0),
        ):
            out = np.zeros(256, np.float32)
            launch(out)
            assert (out == 2).all()


def test_from_program_is_right_only_for_one_element_a_thread(compiled):
    config = tt.LaunchConfig.from_program(256, compiled)
    assert config.grid == (8, 1, 1), "twice the programs that tiles of 64 need"
    out = np.zeros(256, np.float32)
    compiled.launch(config, out, 256, 2.0)
    assert (out == 2).all()


def test_a_thread_count_that_was_not_compiled_is_refused(compiled):
    explicit = tt.LaunchConfig.explicit(256, 64)
    clusters = tt.LaunchConfig(4, 32, cluster=2)
    for config, words in ((explicit, ["(32, 1, 1)", "(64, 1, 1)", "with_grid"]), (clusters, ["cluster", "(2, 1, 1)"])):
        for launch in (
            lambda config=config: put[config](np.zeros(256, np.float32), 256, 2.0, BLOCK=64, num_threads=32),
            lambda config=config: compiled.launch(config, np.zeros(256, np.float32), 256, 2.0),
        ):
            refused(tt.LaunchError, launch, *words)


def test_without_the_check_the_driver_refuses(compiled):
    if compiled.executor.name == "interpreter":
        pytest.skip("it has no driver")
    config = tt.LaunchConfig.explicit(256, 64, check=False)
    out = np.zeros(256, np.float32)
    refused(tt.LaunchError, lambda: compiled.launch(config, out, 256, 2.0), "driver refused", "put")
    assert not out.any()
    compiled.launch(tt.LaunchConfig.with_grid(4, compiled), out, 256, 2.0)
    assert (out == 2).all(), "the kernel is usable all the same"


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: tt.LaunchConfig(4.5), ["4.5"]),
        (lambda: tt.LaunchConfig(4, 32.0), ["32.0"]),
        (lambda: tt.LaunchConfig(4, True), ["True"]),
        (lambda: tt.LaunchConfig((1, 2, 3, 4)), ["one to three"]),
        (lambda: tt.LaunchConfig(4, (1, 2, 3, 4)), ["one to three"]),
        (lambda: tt.LaunchConfig.explicit(100, 0), ["block_size", "0"]),
        (lambda: tt.LaunchConfig.explicit(100, -1), ["block_size", "-1"]),
        (lambda: tt.LaunchConfig.explicit(100, 32.0), ["block_size", "32.0"]),
        (lambda: tt.LaunchConfig.explicit(-100, 32), ["n_elements", "-100"]),
        (lambda: tt.LaunchConfig.explicit(10.5, 32), ["n_elements", "10.5"]),
    ],
)
def test_configurations_that_are_refused(make, words):
    refused(tt.LaunchError, make, *words)


@pytest.mark.parametrize(
    "args, words",
    [
        ((256, 2.0), ["put takes 3 run-time arguments", "out, n, value", "2"]),
        ((np.zeros(256, np.float64), 256, 2.0), ["argument out", "float64", "float32"]),
        ((np.zeros(256, np.float32), 2.0, 2.0), ["argument n", "float64", "int32"]),
        ((np.zeros(256, np.float32), 2**40, 2.0), ["argument n", "int64", "int32"]),
        ((np.zeros(256, np.float32), np.zeros(3, np.int32), 2.0), ["argument n", "*int32", "int32"]),
        ((np.zeros(256, np.float32)[1:], 255, 2.0), ["argument out", "float32"]),
    ],
)
def test_a_variant_takes_its_own_types_only(compiled, args, words):
    refused(tt.LaunchError, lambda: compiled.launch(tt.LaunchConfig(4), *args), *words)


def test_a_variant_is_launched_with_a_configuration(compiled):
    refused(tt.LaunchError, lambda: compiled.launch(4, np.zeros(256, np.float32), 256, 2.0), "LaunchConfig.with_grid")


# Tiles that do not fit


SOFTMAX = """
@tt.jit
def softmax(x, out, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    v = tt.load(x + i)
    e = tt.exp(v - tt.max(v))
    tt.store(out + i, e / tt.sum(e))

@tt.jit
def transpose(x, out, M: tt.constexpr, N: tt.constexpr):
    r = tt.arange(0, M)
    c = tt.arange(0, N)
    v = tt.load(x + (r[:, None] * N + c[None, :]))
    tt.store(out + (c[None, :] * M + r[:, None]), v * 2.0)
"""


def test_tiles_that_do_not_fit_are_refused_before_the_launch(compiler, tmp_path):
    """Private arrays of a CPU's threads are on one stack: too big ones would kill the process. On a GPU a thread of
    1024 has 8 KiB of the greatest tile, which is let through."""
    cases = [(20, None), (20, 128), (20, 1)]
    if compiler != "cuda":
        cases += [(18, None), (20, 1024)]
    script = (
        SOFTMAX
        + f"cases = {cases}"
        + """
for n, threads in cases:
    x = np.zeros(1, np.float32)
    start = time.time()
    try:
        softmax[1](x, x, BLOCK=1 << n, num_threads=threads)
        print("ran", n, threads)
    except tt.LaunchError as e:
        print("refused" if "Use a smaller tile" in str(e) and "softmax" in str(e) else e)
try:
    transpose[1](x, x, 1024, 1024, num_warps=32)
    print("ran")
except tt.LaunchError as e:
    print("refused" if "shared memory" in str(e) and "transpose" in str(e) else e)
n = 1 << 17
x = np.zeros(n, np.float32)
softmax[1](x, x, BLOCK=n)
print("right" if (x == np.float32(1 / n)).all() else "wrong")
x = np.arange(1 << 14, dtype=np.float32).reshape(128, 128)
out = np.zeros_like(x)
transpose[1](x, out, 128, 128, num_warps=4)
print("right" if (out == 2 * x.T).all() else "wrong")
"""
    )
    done = python(tmp_path, script, TINYTON_BACKEND=compiler)
    assert done.stdout.split() == ["refused"] * (len(cases) + 1) + ["right"] * 2, done.stdout


@pytest.mark.parametrize(
    "body, tiles",
    [
        ("tt.store(out + i, tt.load(x + i))", 1),
        ("a = tt.load(x + i); tt.store(out + i, a); b = tt.load(y + i); tt.store(out + i, b)", 1),
        ("a = tt.load(x + i); b = tt.load(y + i); tt.store(out + i, a); tt.store(out + i, b)", 2),
        ("a = tt.load(x + i) + 1.0; b = tt.load(y + i); tt.store(out + i, a + b)", 3),
        ("for r in range(n): tt.store(out + i, tt.load(x + i))", 1),
        ("a = tt.load(x + i)\n    for r in range(n): tt.store(out + r * 8 + i, tt.load(y + i) * a)", 3),
        ("a = tt.load(x + i)\n    for r in range(n): a += tt.load(y + i)\n    tt.store(out + i, a)", 3),
        ("a = tt.load(x + i)\n    if n > 5: tt.store(out + i, tt.load(y + i))\n    tt.store(out + i, a)", 2),
        ("tt.store(out + i, tt.sort(tt.load(x + i)))", 4),
    ],
)
def test_how_many_tiles_are_needed_at_a_time(body, tiles):
    """What an op reads and what it gives are both there while it runs; a long kernel may have many more in turn."""
    k = kernel(f"@tt.jit\ndef k(x, y, out, n):\n    i = tt.arange(0, 1024)\n    {body}")
    types = dict.fromkeys(("x", "y", "out"), "*float64:16") | {"n": "int32"}
    low = lowered(k, types)
    assert low.held_bytes == tiles * 8 * 8 and (low.private_bytes > 1 << 13) == ("sort" in body)


@pytest.mark.parametrize("extents", [(1 << 21, 1), (1 << 62, 1), (1 << 11, 1 << 10), (1, 1 << 30)], ids=str)
@pytest.mark.parametrize("tile", ["tt.arange(0, M)[:, None] + tt.arange(0, N)[None, :]", "tt.zeros((M, N), tt.int32)"])
def test_the_largest_tile(executor, extents, tile):
    k = kernel(f"""
@tt.jit
def k(out, M: tt.constexpr, N: tt.constexpr):
    i = {tile}
    tt.store(out + i, 1.0, mask=i < 4)
""")
    k[1](np.zeros(4, np.float32), 1, 4)
    with pytest.raises(tt.KernelValueError, match="elements; at most 1048576 fit|does not fit int32") as e:
        k[1](np.zeros(4, np.float32), *extents)
    assert e.value.loc.line == 3


# Streams, threads, forks


def test_streams(compiler):
    executor = tt.backends.current()
    if compiler == "opencl":
        import pyopencl as cl

        stream = cl.CommandQueue(executor.context)
    else:
        import pycuda.driver as cu

        stream = cu.Stream()
    out = tt.zeros(1000, tt.float32)
    tt.synchronize()
    put[10](out, 1000, 3.0, BLOCK=128, stream=stream)
    stream.finish() if compiler == "opencl" else stream.synchronize()
    assert (out.numpy() == 3).all()
    host = np.zeros(1000, np.float32)
    put[10](host, 1000, 4.0, BLOCK=128, stream=stream)
    assert (host == 4).all(), "NumPy arrays are back when the launch returns"


class Handle:
    """A stream as CuPy has it."""

    def __init__(self, stream):
        self.ptr = stream.handle


def test_streams_of_other_libraries(monkeypatch):
    """A launch comes after what is queued on the stream, and before what is queued next."""
    if "cuda" not in EXECUTORS:
        pytest.skip("there is no CUDA device")
    choose("cuda", monkeypatch)
    import pycuda.driver as cu

    for kind in (lambda s: s.handle, Handle):
        stream = cu.Stream()
        out = tt.zeros(1 << 24, tt.float32)
        tt.synchronize()
        host = cu.pagelocked_empty(1 << 24, np.float32)
        for k in range(20):
            cu.memset_d32_async(int(out.handle), 0, out.size, stream)
            put[tt.cdiv(out.size, 1024)](out, out.size, 1.0 + k, BLOCK=1024, stream=kind(stream))
            cu.memcpy_dtoh_async(host, int(out.handle), stream)
            stream.synchronize()
            assert (host == 1 + k).all()
    small = np.zeros(9, np.float32)
    put[1](small, 9, 4.0, BLOCK=16, stream=stream.handle)
    assert (small == 4).all()
    put[1](small, 9, 5.0, BLOCK=16, stream=1)  # the default stream, as the driver calls it
    assert (small == 5).all()
    for wrong in ("stream", object(), True, 2.0):
        refused(tt.LaunchError, lambda w=wrong: put[1](small, 9, 1.0, BLOCK=16, stream=w), "PyCUDA, torch or CuPy")


def test_the_order_of_two_streams(monkeypatch):
    """What the driver is told, on a machine without one."""
    from types import SimpleNamespace

    from tinyton.backends import cuda

    told = []
    monkeypatch.setattr(cuda, "ask", lambda name, *args: told.append((name, [getattr(a, "value", a) for a in args])))
    monkeypatch.setitem(sys.modules, "torch", None)
    executor = object.__new__(cuda.Executor)
    executor.cu, executor._side = SimpleNamespace(Stream=type("Stream", (), {"handle": 99})), None
    for stream in (70, SimpleNamespace(cuda_stream=70), SimpleNamespace(ptr=70)):
        told.clear()
        with executor._after_torch(stream) as where:
            assert where.handle == 99
            assert [(name, args[0]) for name, args in told[2:3]] == [("cuStreamWaitEvent", 99)]
            assert told[1][0] == "cuEventRecord" and told[1][1][1] == 70
        assert told[5][0] == "cuEventRecord" and told[5][1][1] == 99
        assert (told[6][0], told[6][1][0]) == ("cuStreamWaitEvent", 70)
    own = executor.cu.Stream()
    for stream, want in ((None, None), (0, None), (1, None), (SimpleNamespace(ptr=0), None), (own, own)):
        told.clear()
        with executor._after_torch(stream) as where:
            assert where is want
        assert not told
    for wrong in ("stream", object(), True, 2.0):
        with pytest.raises(tt.LaunchError, match="give a stream of PyCUDA, torch or CuPy"):
            cuda._handle(wrong)


def test_a_stream_of_something_else(monkeypatch):
    if "opencl" not in EXECUTORS:
        pytest.skip("there is no OpenCL")
    choose("opencl", monkeypatch)
    for stream in (5, "stream", object()):
        refused(
            tt.LaunchError, lambda stream=stream: put[1](np.zeros(4), 4, 1.0, BLOCK=4, stream=stream), "CommandQueue"
        )


def test_a_numpy_argument_may_change_once_the_launch_returns(executor):
    """What a kernel reads is copied in, though the launch itself may still be running."""
    k = kernel("""
@tt.jit
def k(x, out, times, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    for r in range(times):
        tt.store(out + i, tt.load(x + i) + 0.0 * r)
""")
    x, out = np.ones(1 << 14, np.float32), tt.zeros(1 << 14, tt.float32)
    k[1](x, out, 20 if executor == "interpreter" else 5000, BLOCK=1 << 14)
    x[:] = 7
    assert (out.numpy() == 1).all()


def test_threads_launch_the_same_kernel(executor, recwarn):
    """Eight threads, each with values of its own, on one variant: none gets another's arguments, nothing leaks."""
    times = 10 if executor == "interpreter" else 100
    put[1](tt.zeros(64, tt.float32), 64, 1.0, BLOCK=64)

    def work(t):
        mine, host = tt.zeros(64, tt.float32), np.zeros(64, np.float32)
        for k in range(times):
            put[1](mine, 64, float(1000 * t + k), BLOCK=64)
            put[1](host, 64, float(1000 * t + k), BLOCK=64)
            if not ((host == 1000 * t + k).all() and (mine.numpy() == 1000 * t + k).all()):
                return f"thread {t}, launch {k}"

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [None] * 8
    assert [str(w.message) for w in recwarn] == []


def test_threads_compile_once(compiler):
    k = kernel("""
@tt.jit
def k(out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store(out + i, i + 1, mask=i < n)
""")

    def work(t):
        out = np.zeros(64, np.int32)
        k[1](out, 64, BLOCK=64)
        return out.tolist() == list(range(1, 65))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(k._cache) == 1


def test_the_first_launch_may_be_in_a_thread(compiler, tmp_path):
    script = """
    from concurrent.futures import ThreadPoolExecutor
    def work(t):
        out = np.zeros(64, np.float32)
        put[1](out, 64, float(t), BLOCK=64)
        return (out == t).all()
    with ThreadPoolExecutor(4) as pool:
        print(all(pool.map(work, range(8))))
    """
    assert python(tmp_path, script, TINYTON_BACKEND=compiler).stdout.split() == ["True"]


FORK = """
out = np.zeros(64, np.float32)
device = tt.zeros(64, tt.float32)
put[1](out, 64, 1.0, BLOCK=64)
compiled = put.compile(device, 64, 1.0, BLOCK=64)
sys.stdout.flush()
child = os.fork()
if child == 0:
    for call in (
        lambda: put[1](out, 64, 2.0, BLOCK=64),
        lambda: put[1](device, 64, 2.0, BLOCK=64),
        lambda: device.numpy(),
        lambda: tt.to_device(out),
        lambda: tt.synchronize(),
        lambda: add[1](out, out, out, 64, BLOCK=64),
    ):
        try:
            call()
            print("done")
        except tt.BackendError as e:
            print("forked" if "forked" in str(e) and "spawn" in str(e) else e)
    if os.environ["TINYTON_BACKEND"] != "cuda":
        compiled.launch(tt.LaunchConfig(1), device, 48, 5.0)
        was = device.numpy()
        print((out == 4).all() and (was[:48] == 5).all() and (was[48:] == 2).all())
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
put[1](out, 64, 3.0, BLOCK=64)
print("parent", (out == 3).all())
"""


def test_a_fork_after_the_driver_is_in_use(executor, tmp_path):
    """CUDA does not survive it: the child is told, instead of hanging. The others do, with the arrays there are."""
    done = python(tmp_path, FORK, timeout=30, TINYTON_BACKEND=executor)
    words = ["forked"] * 6 if executor == "cuda" else ["done"] * 6 + ["True"]
    assert done.stdout.split() == [*words, "parent", "True"]


def test_processes_that_are_spawned(compiler, tmp_path):
    script = """
    import multiprocessing

    def work(t):
        out = np.zeros(64, np.float32)
        put[1](out, 64, float(t), BLOCK=64)
        return bool((out == t).all())

    if __name__ == "__main__":
        print(work(5))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(*pool.map(work, range(2)))
    """
    assert python(tmp_path, script, TINYTON_BACKEND=compiler).stdout.split() == ["True"] * 3


def test_memory_outlives_the_launches_that_use_it(compiler):
    """An array that is dropped at once, while its kernel still waits or runs; what takes its place stays whole."""
    k = kernel("""
@tt.jit
def k(x, n, rounds):
    i = tt.arange(0, 256)
    for r in range(rounds):
        for first in range(0, n, 256):
            tt.store(x + first + i, r)
""")
    n = 1 << 16
    k[1](tt.zeros(n, tt.int32), n, 1)
    for _ in range(20):
        k[1](tt.zeros(n, tt.int32), n, 50)
        fresh = np.full(n, 7, np.int32)
        tt.synchronize()
        assert (fresh == 7).all()
