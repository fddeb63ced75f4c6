"""The errors of tinyton.tile: classes by their names, names that are not there, hints, grids and launches."""

import pickle
import threading

import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import kernel, underlined


def body(*lines, params="x"):
    text = "".join(f"    {line}\n" for line in lines)
    return kernel(f"@ct.kernel\ndef k({params}):\n{text}", ct=ct)


def launch(k, *args, grid=(1,)):
    ct.launch(None, grid, k, args)


def zeros():
    return np.zeros(4, np.float32)


def test_classes():
    names = "Syntax Type Value UnsupportedFeature Recursion StaticEval StaticAssertion Internal"
    names = [f"Tile{n}Error" for n in f"{names} CompilerExecution CompilerTimeout".split()]
    classes = [getattr(ct, n) for n in names]
    assert len(set(classes)) == len(names) and ct.TileError is tt.TinytonError
    assert all(issubclass(c, ct.TileError) for c in classes)
    assert issubclass(ct.TileUnsupportedFeatureError, ct.TileTypeError)
    assert issubclass(ct.TileStaticAssertionError, ct.TileValueError)
    assert issubclass(ct.TileCompilerTimeoutError, ct.TileCompilerExecutionError)
    for c in classes:
        copy = pickle.loads(pickle.dumps(c("message")))
        assert type(copy) is c and str(copy) == "message"


def test_static_assert():
    k = kernel("@tt.jit\ndef k(x, N: tt.constexpr):\n    tt.static_assert(N > 1, 'more')\n    tt.store(x, N)")
    with pytest.raises(ct.TileStaticAssertionError, match="static_assert failed: more"):
        k[1](zeros(), 1)
    k = body("ct.static_assert(N > 1, 'more')", "ct.store(x, 0, N)", params="x, N: ct.Constant[int]")
    with pytest.raises(ct.TileStaticAssertionError, match="more") as caught:
        launch(k, zeros(), 1)
    assert caught.value.loc.line == 3


ABSENT = {
    "mma_scaled": "Blackwell.*ct.mma",
    "float4_e2m1fn": "Blackwell.*ct.float16",
    "float8_e8m0fnu": "Blackwell",
    "float8_e5m3fnu": "Blackwell",
    "tfloat32": "not in this build.*float32",
    "grid_dependency_control_wait": "not in this build.*leave it out",
    "grid_dependency_control_launch_dependents": "not in this build.*leave it out",
    "jax": "not in this build.*DLPack",
    "compilation": "not in this build.*tinyton.compile",
}


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_not_there(name, interpreter):
    """The same words on the host and in a kernel, where the caret is under the name."""
    with pytest.raises(ct.TileUnsupportedFeatureError, match=f"ct.{name} .*{ABSENT[name]}") as host:
        getattr(ct, name)
    assert isinstance(host.value, AttributeError) and not hasattr(ct, name)
    k = body("t = ct.load(x, 0, 4)", f"y = ct.{name}(t)")
    with pytest.raises(ct.TileUnsupportedFeatureError) as caught:
        launch(k, zeros())
    assert caught.value.message == host.value.message
    assert caught.value.loc.line == 4 and underlined(caught.value) == f"ct.{name}"


def test_typing_errors(interpreter):
    with pytest.raises(AttributeError, match="ct has no lod; did you mean load?"):
        ct.lod  # noqa: B018
    with pytest.raises(AttributeError, match="ct has no qqqq$"):
        ct.qqqq  # noqa: B018
    with pytest.raises(ImportError):
        from tinyton.tile import lod  # noqa: F401
    with pytest.raises(ct.TileSyntaxError, match="ct has no lod; did you mean load?") as caught:
        launch(body("ct.lod(x, 0, 4)"), zeros())
    assert underlined(caught.value) == "ct.lod"


@pytest.mark.parametrize("name", ["program_id", "dot", "device_print"])
def test_names_of_other_languages(name, interpreter):
    with pytest.raises(AttributeError, match=f"ct has no {name}; write ") as host:
        getattr(ct, name)
    assert not hasattr(ct, name)
    with pytest.raises(ct.TileSyntaxError) as caught:
        launch(body(f"ct.{name}(x, 0)"), zeros())
    assert caught.value.message == host.value.message and underlined(caught.value) == f"ct.{name}"


def test_dependent_launches(executor):
    k = body("ct.store(x, 0, 1)")
    with pytest.raises(ct.TileUnsupportedFeatureError, match="programmatic_dependent_launch .*not in this build"):
        ct.launch(None, (1,), k, (zeros(),), programmatic_dependent_launch=True)
    x = np.zeros(1, np.float32)
    ct.launch(None, (1,), k, (x,), programmatic_dependent_launch=False)
    assert x[0] == 1


GOOD = {"num_ctas": [1, 2, 4, 8, 16], "occupancy": [1, 2, 7, 32], "opt_level": [0, 1, 2, 3], "num_worker_warps": [4, 8]}
BAD = {
    "num_ctas": [0, 3, 32, -1, 2.0, True, "2"],
    "occupancy": [0, 33, 1.5, -4],
    "opt_level": [-1, 4, "3"],
    "num_worker_warps": [0, 1, 2, 5, 16],
}


def one(x):
    ct.store(x, 0, 1)


@pytest.mark.parametrize("hint", GOOD)
def test_hints(hint, executor):
    for value in GOOD[hint]:
        x = np.zeros(1, np.float32)
        launch(ct.kernel(**{hint: value})(one), x)
        assert x[0] == 1
        ct.kernel(**{hint: ct.ByTarget(sm_100=value, default=GOOD[hint][0])})(one)
        ct.kernel(one).replace_hints(**{hint: np.int64(value)})
    ct.kernel(**{hint: None})(one)
    for value in BAD[hint]:
        for make in (
            lambda h: ct.kernel(**h)(one),
            lambda h: ct.kernel(one, **h),
            lambda h: ct.kernel(one).replace_hints(**h),
            lambda h: ct.kernel(**{n: ct.ByTarget(sm_90=v, default=GOOD[n][0]) for n, v in h.items()})(one),
            lambda h: ct.kernel(**{n: ct.ByTarget(default=v) for n, v in h.items()})(one),
        ):
            with pytest.raises(ValueError, match=f"{hint} is one of .*not {value!r}") as caught:
                make({hint: value})
            assert isinstance(caught.value, ct.TileError)


def test_unknown_hints():
    with pytest.raises(TypeError, match="no hint warps; there are num_ctas, occupancy"):
        ct.kernel(warps=4)
    with pytest.raises(TypeError, match="named as in sm_90, not ampere"):
        ct.ByTarget(ampere=4)


def test_hints_by_target(executor, monkeypatch):
    real = tt.backends.current().arch
    k = ct.kernel(one, occupancy=ct.ByTarget(sm_90=2, sm_100=4), num_worker_warps=ct.ByTarget(sm_100=4, default=8))
    for arch, occupancy, warps in (("sm_90", 2, 8), ("sm_100", 4, 4), ("sm_80", None, 8), ("", None, 8)):
        monkeypatch.setattr(tt.backends.current(), "arch", arch)
        assert (k.programs, k.hint("num_worker_warps"), k.hint("opt_level")) == (occupancy, warps, None)
        if executor != "cuda" or arch == real:  # no driver takes code for another device
            x = np.zeros(1, np.float32)
            launch(k, x)
            assert x[0] == 1


def test_occupancy_is_in_the_text():
    from tinyton.backends.cuda import Executor

    assert Executor.attribute(128) == "__launch_bounds__(128)"
    assert Executor.attribute(128, 2) == "__launch_bounds__(128, 2)"


def test_other_hints_are_another_kernel(executor):
    k, x = ct.kernel(one, opt_level=1), np.zeros(1, np.float32)
    other = k.replace_hints(occupancy=2)
    assert other is not k and (k.hints, other.hints) == ({"opt_level": 1}, {"opt_level": 1, "occupancy": 2})
    launch(k, x)
    assert len(k._cache) == 1 and len(other._cache) == 0
    launch(other, x)
    assert len(k._cache) == len(other._cache) == 1
    if executor == "opencl":
        a, b = (k.replace_hints(num_worker_warps=n) for n in (4, 8))
        launch(a, x), launch(b, x)
        assert [v.threads for v in (*a._cache.values(), *b._cache.values())] == [128, 256]


def test_a_kernel_is_launched(executor):
    k = ct.kernel(one)
    for call in (lambda: k(zeros()), lambda: k(), lambda: k[(1,)](zeros())):
        with pytest.raises(TypeError, match=r"one is a kernel: launch it with ct.launch\(stream, grid, one,") as caught:
            call()
        assert isinstance(caught.value, ct.TileError)
    with pytest.raises(TypeError, match="launch runs what is under @ct.kernel"):
        ct.launch(None, (1,), one, (zeros(),))


@pytest.mark.parametrize("grid", [[1], 1, None, "1", (1, 1, 1, 1), (1.0,), (True,), ("1",), (None, 1)])
def test_grids_of_the_wrong_kind(grid, executor):
    with pytest.raises(TypeError, match="grid") as caught:
        ct.launch(None, grid, ct.kernel(one), (zeros(),))
    assert isinstance(caught.value, ct.TileError)


@pytest.mark.parametrize("grid, axis", [((1 << 24,), 0), ((1, 1 << 24), 1), ((1, 1, 1 << 40), 2), ((-1,), 0)])
def test_grids_out_of_range(grid, axis, executor):
    with pytest.raises(ValueError, match=f"axis {axis} of the grid is {grid[axis]}; it must be 0 to 16777215"):
        ct.launch(None, grid, ct.kernel(one), (zeros(),))


def test_grids(executor):
    k = body("ct.store(x, ct.bid(0) + ct.num_blocks(0) * (ct.bid(1) + ct.num_blocks(1) * ct.bid(2)), 1)")
    for grid, n in (((), 1), ((3,), 3), ((3, 2), 6), ((1, 2, 4), 8), ((np.int64(5),), 5), ((0,), 0), ((2, 0), 0)):
        x = np.zeros(9, np.float32)
        ct.launch(None, grid, k, (x,))
        assert x.sum() == n


def test_arguments_are_a_tuple_of_all(executor):
    k = body("ct.store(x, 0, n)", params="x, n: ct.Constant[int]")
    for args in ([zeros(), 1], zeros(), None):
        with pytest.raises(TypeError, match="the arguments of k are a tuple, not a"):
            ct.launch(None, (1,), k, args)
    for args in ((), (zeros(),), (zeros(), 1, 2)):
        with pytest.raises(TypeError, match=rf"k takes 2 arguments \(x, n\), not {len(args)}") as caught:
            ct.launch(None, (1,), k, args)
        assert isinstance(caught.value, ct.TileError)


@pytest.mark.parametrize("seconds", [0, -1, "1", None, True, float("nan")])
def test_timeouts_are_positive(seconds):
    with pytest.raises(ValueError, match="seconds above 0"), ct.compiler_timeout(seconds):
        pass


def test_compiling_takes_too_long(executor, monkeypatch):
    k, x, executor = ct.kernel(one), np.zeros(1, np.float32), tt.backends.current()
    with ct.compiler_timeout(60):
        launch(k, x)
    assert x[0] == 1
    build, go = executor.build, threading.Event()
    monkeypatch.setattr(executor, "build", lambda low: go.wait(60) and build(low))
    k, x[:] = ct.kernel(one), 0
    with ct.compiler_timeout(0.05), pytest.raises(ct.TileCompilerTimeoutError, match=r"one takes longer than 0.05 s"):
        launch(k, x)
    assert x[0] == 0  # it is still being compiled: nobody has let it go on
    go.set()
    launch(k, x)
    assert x[0] == 1
    with ct.compiler_timeout(1e-9):
        launch(k, x)  # it is compiled


def test_errors_come_through_a_timeout(executor):
    with ct.compiler_timeout(60), pytest.raises(ct.TileTypeError, match="print writes tiles") as caught:
        launch(body("ct.print(x)"), zeros())
    assert caught.value.loc.line == 3


ARRAYS = {  # what a kernel has where a scalar or a tile belongs
    "if x: pass": ("x", "an array of 1 dimension of float32 is neither true nor false"),
    "a = 1 if x else 2": ("x", "neither true nor false"),
    "a = not x": ("not x", "neither true nor false"),
    "if x.tiled_view(4): pass": ("x.tiled_view(4)", "a TiledView is neither true nor false"),
    "a = x == x": ("x == x", "a tile or a number, not an array of 1 dimension of float32; ct.load reads a tile of it"),
    "a = x + 1": ("x + 1", "ct.load reads a tile of it"),
    "a = ct.bid(3)": ("3", "the grid has axes 0, 1 and 2"),
    "a = ct.num_blocks(axis=-1)": ("-1", "the grid has axes 0, 1 and 2"),
    "a = ct.num_tiles(x, 1, 4)": ("1", "an array of 1 dimension has no axis 1"),
    "a = x.slice(2, 0, 4)": ("2", "an array of 1 dimension has no axis 2"),
    "ct.launch(None, (1,), k, (x,))": ("ct.launch(None, (1,), k, (x,))", "a kernel calls the functions of ct"),
}


@pytest.mark.parametrize("line", ARRAYS)
def test_arrays_and_axes(line, interpreter):
    where, words = ARRAYS[line]
    with pytest.raises(ct.TileTypeError) as caught:
        launch(body(line), zeros())
    assert caught.value.message.endswith(words) or words in caught.value.message
    assert caught.value.message.count("ct.load") <= 1 and underlined(caught.value) == where


def test_what_python_cannot_compute(interpreter):
    with pytest.raises(ct.TileStaticEvalError, match="ct.bid is for kernels, when they run") as caught:
        launch(body("a = ct.static_eval(ct.bid(0) + 1)"), zeros())
    assert underlined(caught.value) == "ct.bid(0) + 1"
    with pytest.raises(ct.TileSyntaxError, match=r"write ct\.static_iter\(zip\(\.\.\.\)\)"):
        launch(body("for i in zip((1,), (2,)): pass"), zeros())


def test_decorators_and_bounds_in_our_words(interpreter):
    for what in (type("A", (), {}), lambda x: x, len, 3):
        with pytest.raises(ct.TileSyntaxError, match="@ct.kernel|a lambda") as caught:
            ct.kernel(occupancy=1)(what)
        assert "tt." not in str(caught.value)
    with pytest.raises(ct.TileError, match="leave check_bounds=False out"):
        launch(body("ct.store(x, 0, 1 + ct.load(x, 1, 4, check_bounds=False))"), zeros())
    with pytest.raises(TypeError, match="not the function zeros"):
        ct.launch(None, (1,), zeros, ())
