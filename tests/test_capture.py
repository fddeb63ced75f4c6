"""How a kernel is taken from a program: its source, its parameters, and what it reads from its module or closure."""

import functools
import linecache
import re
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

import tinyton as alias
import tinyton as tt
from conftest import kernel, underlined
from tinyton import constexpr as fixed

SCALE = 2.0
FUNCTION = tt.abs


class config:
    size = 4
    flags = (1, 2)


@tt.jit
def reads_globals(out):
    tt.store(out + tt.arange(0, config.size), SCALE * config.flags[1])


@tt.jit
def reads_a_function(out):
    tt.store(out, FUNCTION(tt.load(out)))


def launched(k, *args, size=4, **meta):
    out = np.zeros(size)
    k[1](out, *args, **meta)
    return out.tolist()


# -- globals and closures are read at each launch ----------------------------------------------------------------------


def test_a_changed_global_gives_the_new_behaviour(executor, monkeypatch):
    assert launched(reads_globals) == [4.0] * 4
    monkeypatch.setitem(globals(), "SCALE", 3)
    assert launched(reads_globals) == [6.0] * 4
    monkeypatch.setattr(config, "flags", (1, 0.5))
    assert launched(reads_globals) == [1.5] * 4
    monkeypatch.setattr(config, "size", 2)
    assert launched(reads_globals) == [1.5, 1.5, 0, 0]
    monkeypatch.undo()
    monkeypatch.setenv("TINYTON_BACKEND", executor)
    assert launched(reads_globals) == [4.0] * 4


@pytest.mark.parametrize(("old", "new"), [(0.0, -0.0), (1, True), (1, 1.0), ((0.0,), (-0.0,))], ids=str)
def test_globals_that_are_equal_but_not_the_same(executor, old, new):
    k = kernel(
        """
@tt.jit
def k(out, n):
    x = G[0] if TUPLE else G
    tt.store(out, x)
    tt.store(out + 1, tt.where(n > 0, x, x))
""",
        G=old,
        TUPLE=isinstance(old, tuple),
    )
    for value in (old, new, old):
        k.source.function.__globals__["G"] = value
        first = value[0] if isinstance(value, tuple) else value
        got = launched(k, 1, size=2)
        assert got == [float(first)] * 2
        assert np.signbit(got).tolist() == [bool(np.signbit(first))] * 2


def test_a_global_function_of_the_language_that_changes(executor, monkeypatch):
    out = np.array([-4.0])
    reads_a_function[1](out)
    assert out[0] == 4.0
    monkeypatch.setitem(globals(), "FUNCTION", tt.sqrt)
    reads_a_function[1](out)
    assert out[0] == 2.0


def test_a_changed_closure_gives_the_new_behaviour(executor):
    scale, sizes = 2, (4, 8)

    @tt.jit
    def k(out):
        tt.store(out + tt.arange(0, sizes[0]), scale)

    assert launched(k) == [2] * 4
    scale, sizes = 5, (2,)
    assert launched(k) == [5, 5, 0, 0]


def test_numpy_scalars_outside_are_numbers_and_arrays_are_refused(interpreter):
    text = "@tt.jit\ndef k(out):\n    tt.store(out, G + 1)"
    assert launched(kernel(text, G=np.float32(2.5)))[0] == 3.5
    assert launched(kernel(text, G=np.int64(7)))[0] == 8
    for value, words in (
        (np.zeros(3), "G is an array outside the kernel; pass it as an argument"),
        ([1, 2], "G is a list, which cannot be part of a kernel's key; use a tuple"),
    ):
        with pytest.raises(tt.KernelTypeError, match=words) as caught:
            launched(kernel(text, G=value))
        assert underlined(caught.value) == "G" and caught.value.loc.line == 3
    inner = kernel("@tt.jit\ndef k(v):\n    return v + len(G.sizes)", G=SimpleNamespace(sizes=[1]))
    with pytest.raises(tt.KernelTypeError, match="G.sizes is a list") as caught:
        launched(kernel("@tt.jit\ndef k(out):\n    tt.store(out, f(1))", f=inner))
    assert underlined(caught.value) == "G.sizes"


def test_a_global_that_is_gone(interpreter):
    k = kernel("@tt.jit\ndef k(out):\n    tt.store(out, G)", G=1)
    assert launched(k)[0] == 1
    del k.source.function.__globals__["G"]
    with pytest.raises(tt.KernelSyntaxError, match="G is not defined"):
        launched(k)


def test_a_global_shadows_a_builtin(interpreter):
    assert launched(kernel("@tt.jit\ndef k(out):\n    tt.store(out, max(1, 2))", max=tt.minimum))[0] == 1


def test_a_plain_function_is_not_called(interpreter):
    with pytest.raises(tt.KernelTypeError, match="helper is a plain Python function"):
        launched(kernel("@tt.jit\ndef k(out):\n    tt.store(out, helper(1))", helper=lambda x: x))


# -- where kernels live ------------------------------------------------------------------------------------------------


def test_a_kernel_in_a_file(tmp_path, monkeypatch, interpreter):
    text = """
        import tinyton

        if True:

            class Holder:
                pass

            def factory(value):
                @tinyton.jit
                def k(out,
                      n=3):  # (a comment with a bracket
                    '''A docstring
        that starts at the margin.'''
            # a comment further left
                    tinyton.store(out, n * value + unknown)
                return k
    """
    (tmp_path / "module_of_kernels.py").write_text(textwrap.dedent(text), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import module_of_kernels

    k = module_of_kernels.factory(5)
    with pytest.raises(tt.KernelSyntaxError) as caught:
        launched(k)
    line = 1 + textwrap.dedent(text).split("\n").index("            tinyton.store(out, n * value + unknown)")
    head, code, carets, _ = str(caught.value).split("\n")
    assert head == f"kernel k, line {line}:"
    assert code[carets.index("^") : len(carets)] == "unknown"
    module_of_kernels.unknown = 0.5
    assert launched(k)[0] == 15.5


def test_a_cell_that_is_run_again(interpreter):
    """Each definition keeps its own text, as in a notebook whose cell was edited."""
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell()
    cell = "import tinyton as tt\n@tt.jit\ndef k(out):\n    tt.store(out, {})"
    assert shell.run_cell(cell.format(1)).success
    first = shell.user_ns["k"]
    assert shell.run_cell(cell.format("2 + nope")).success
    second = shell.user_ns["k"]
    assert launched(first)[0] == 1
    with pytest.raises(tt.KernelSyntaxError) as caught:
        launched(second)
    assert str(caught.value).split("\n")[:2] == ["kernel k, line 4:", "    tt.store(out, 2 + nope)"]
    shell.user_ns["nope"] = 3
    assert launched(second)[0] == 5
    shell.user_ns["nope"] = 4
    assert launched(second)[0] == 6
    assert launched(first)[0] == 1


def test_other_decorators(interpreter):
    def register(f):
        f.registered = True
        return f

    @register
    @tt.jit
    def above(out, n=(1)):
        tt.store(out, 3)

    @tt.jit
    @register
    def below(out):
        tt.store(out, 4)

    assert launched(above)[0] == 3 and above.registered
    assert launched(below)[0] == 4 and below.registered
    assert above.__name__ == "above" and above.__module__ == __name__


def test_a_decorator_that_wraps_is_refused():
    def wrapping(f):
        @functools.wraps(f)
        def inner(*args):
            return f(*args)

        return inner

    with pytest.raises(tt.KernelSyntaxError, match="put @tt.jit nearest to def"):

        @tt.jit
        @wrapping
        def k(out):
            tt.store(out, 1)


def refused(make):
    with pytest.raises(tt.KernelSyntaxError) as caught:
        make()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    return str(caught.value)


def test_what_cannot_be_a_kernel():
    class Holder:
        def method(self, out):
            pass

    def variadic(out, *rest):
        pass

    def keywords(out, **rest):
        pass

    async def asynchronous(out):
        pass

    assert "a lambda cannot be a kernel" in refused(lambda: tt.jit(lambda out: None))
    assert "method is a method: a kernel is a function of its own" in refused(lambda: tt.jit(Holder.method))
    assert "not on a bound method" in refused(lambda: tt.jit(Holder().method))
    assert "not on a class" in refused(lambda: tt.jit(Holder))
    assert "not on builtin_function_or_method" in refused(lambda: tt.jit(len))
    assert "not on partial" in refused(lambda: tt.jit(functools.partial(variadic, 1)))
    assert "not on JITFunction" in refused(lambda: tt.jit(reads_globals))
    assert "*rest is not one" in refused(lambda: tt.jit(variadic))
    assert "**rest is not one" in refused(lambda: tt.jit(keywords))
    assert "asynchronous is an async function" in refused(lambda: tt.jit(asynchronous))


def test_code_without_a_source():
    scope = {"tt": tt}
    message = refused(lambda: exec("@tt.jit\ndef k(out):\n    tt.store(out, 1)", scope))
    assert "the source of k cannot be found" in message and "not in exec() or python -c" in message


def test_a_file_that_changed_after_it_was_read(tmp_path, monkeypatch, interpreter):
    """The text is taken when the kernel is decorated."""
    file = tmp_path / "module_that_changes.py"
    file.write_text("import tinyton as tt\n\n@tt.jit\ndef k(out):\n    tt.store(out, 1)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import module_that_changes

    file.write_text("# another text\n" * 9, encoding="utf-8")
    linecache.clearcache()
    assert launched(module_that_changes.k)[0] == 1


# -- parameters --------------------------------------------------------------------------------------------------------


def test_constexpr_under_any_name(interpreter):
    @tt.jit
    def k(out, A: tt.constexpr, B: alias.constexpr, C: fixed, D: "tt.constexpr", E: "fixed" = 5, n: int = 6):
        tt.static_assert(A + B + C + D + E == 15)
        tt.store(out, n)

    assert k.source.constexprs == {"A", "B", "C", "D", "E"}
    assert launched(k, 1, 2, 3, 4)[0] == 6
    assert launched(k, 1, 2, D=5, C=4, E=3, n=7)[0] == 7
    assert launched(k, E=1, D=2, C=3, B=4, A=5, n=2.5)[0] == 2.5


def test_constexpr_under_postponed_annotations(interpreter):
    k = kernel("""
from __future__ import annotations
import tinyton as other
from tinyton import constexpr

@tt.jit
def k(out: object, A: tt.constexpr, B: other.constexpr, C: constexpr = 3, n: NotDefined = 4):
    tt.static_assert(A + B + C == 6)
    tt.store(out, n)
""")
    assert k.source.constexprs == {"A", "B", "C"}
    assert launched(k, 1, 2)[0] == 4


VALUES = [5, 2.5, True, None, "text", (1, (2, "x")), tt.float16, frozenset({1}), int, np.float32(0.5), 1 << 70]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_constexpr_is_any_hashable_value(executor, value):
    k = kernel(
        """
@tt.jit
def k(out, V: tt.constexpr, W: tt.constexpr = WANT):
    tt.static_assert(V == W)
    tt.store(out, 1)
""",
        WANT=value,
    )
    assert launched(k, value)[0] == 1
    assert launched(k, V=value, W=value)[0] == 1
    assert len(k._cache) == 1


def test_a_constexpr_dtype_shape_and_string(executor):
    k = kernel("""
@tt.jit
def k(out, T: tt.constexpr, SHAPE: tt.constexpr, MODE: tt.constexpr = "sum"):
    x = tt.full(SHAPE, 3, T)
    tt.static_assert(x.dtype == T and x.shape == SHAPE)
    tt.store(out, tt.sum(x) if MODE == "sum" else tt.max(x))
""")
    assert launched(k, tt.float16, (4, 8))[0] == 96
    assert launched(k, tt.int8, (16,), "max")[0] == 3


@pytest.mark.parametrize("values", [(1, True, 1.0), (0.0, -0.0), ((1, 0.0), (True, -0.0), (1.0, 0.0))], ids=str)
def test_constexprs_that_are_equal_but_not_the_same(executor, values):
    """Each has its own kernel."""
    k = kernel("""
@tt.jit
def k(out, V: tt.constexpr, TUPLE: tt.constexpr):
    x = V[1] if TUPLE else V
    y = V[0] if TUPLE else V
    tt.static_assert(isinstance(y, int) or isinstance(y, float))
    tt.store(out, x)
    tt.store(out + 1, 1 if isinstance(y, bool) else 2 if isinstance(y, int) else 3)
""")
    for value in (*values, *values):
        x, y = (value[1], value[0]) if isinstance(value, tuple) else (value, value)
        got = launched(k, value, isinstance(value, tuple), size=2)
        assert got == [float(x), 1 if isinstance(y, bool) else 2 if isinstance(y, int) else 3]
        assert np.signbit(got[0]) == np.signbit(x)
    assert len(k._cache) == len(values)


def test_a_constexpr_that_cannot_be_a_key(interpreter):
    k = kernel("@tt.jit\ndef k(out, V: tt.constexpr):\n    tt.store(out, V[0])")
    with pytest.raises(tt.KernelTypeError, match="constexpr V is a list.*use a tuple or a number"):
        launched(k, [1])
    with pytest.raises(tt.KernelTypeError, match="V is an array"):
        launched(k, np.zeros(3))


def test_arguments_that_do_not_fit_the_parameters(interpreter):
    k = kernel("@tt.jit\ndef k(out, n, B: tt.constexpr = 4):\n    tt.store(out, n)")
    out = np.zeros(1)
    for args, meta, message in (
        ((out,), {}, "k is missing n"),
        ((out, 1, 2, 3), {}, "k takes 3 arguments (out, n, B), 4 were given"),
        ((out, 1), {"C": 1}, "k has no parameter C"),
        ((out, None), {}, "expected a tile or a number, not None"),
        ((out, "a"), {}, "argument n is a str"),
    ):
        with pytest.raises(tt.TinytonError) as caught:
            k[1](*args, **meta)
        assert message in str(caught.value)


def test_a_call_without_a_grid(interpreter):
    k = kernel("@tt.jit\ndef k(out):\n    tt.store(out, 1)")
    with pytest.raises(tt.LaunchError, match=r"a kernel is launched over a grid: k\[grid\]"):
        k(np.zeros(1))


def test_the_language_outside_a_kernel():
    with pytest.raises(tt.TinytonError, match="tt.load is for kernels: call it in a function under @tt.jit"):
        tt.load(1)
    assert tt.cdiv(7, 2) == 4 and tt.next_power_of_2(27) == 32 and tt.constexpr(5) == 5


def test_a_name_that_the_package_has_not():
    """One line says what there is instead."""
    for name, words in (
        ("do_bench", "tinyton has no do_bench; tt.bench times launches"),
        ("next_power_of_two", "tinyton has no next_power_of_two; did you mean next_power_of_2?"),
        ("qqq", "tinyton has no qqq"),
    ):
        with pytest.raises(AttributeError, match=f"^{re.escape(words)}$"):
            getattr(tt, name)
    assert not hasattr(tt, "__wrapped__")
