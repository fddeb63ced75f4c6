"""Calls of functions under `@jit`: what goes in and comes out, errors with the chain of calls, and the key of a kernel
that reads them."""

import importlib
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel, mappings
from tinyton.dispatch import Route

HEAD = """
@tt.jit
def scaled(x, by=2, *, plus=0):
    '''Of any x.'''
    return x * by + plus

@tt.jit
def both(x, y):
    return scaled(x), (y, x + y)

@tt.jit
def shaped(x, SIZE: tt.constexpr, dtype: tt.constexpr = tt.float32):
    z = tt.zeros(SIZE, dtype)
    if SIZE > 4:
        return z + x
    return z - x

@tt.jit
def fill(p, value, SIZE: tt.constexpr):
    tt.store(p + tt.arange(0, SIZE), value)

@tt.jit
def apply(f, x, n):
    for _ in range(n):
        x = f(x, x)
    return x

@tt.jit
def sign(x):
    if x > 0:
        return 1
    elif x < 0:
        return -1
    return 0
"""


def run(lines, *args, size=8, warps=None, head=HEAD, **names):
    params = ", ".join(["out", *"abc"[: len(args)]])
    text = f"{head}\n@tt.jit\ndef k({params}):\n" + "".join(f"    {x}\n" for x in lines.strip("\n").split("\n"))
    out = np.full(size, -99, np.float64)
    kernel(text, **names)[1](out, *args, num_warps=warps)
    return out.tolist()


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
def test_what_goes_in_and_comes_out(mapping):
    lines = """
tt.store(out, scaled(a))
tt.store(out + 1, scaled(by=a, x=3, plus=1))
x, (y, z) = both(a, 10)
tt.store(out + 2, x * 10000 + y * 100 + z)
tt.store(out + 3, tt.sum(shaped(a, 4)) + tt.sum(shaped(a, SIZE=8)))
tt.static_assert(shaped(1, 4, tt.float64).dtype == tt.float64 and shaped(1, 4).dtype == tt.float32)
fill(out + 4, apply(tt.maximum, a, 2), 2)
tt.store(out + 6, sign(a) * 100 + sign(-a) * 10 + sign(a * 0))
tt.store(out + 7, scaled(0.5))
"""
    want = [10, 16, 10 * 10000 + 10 * 100 + 15, -20 + 40, 5, 5, 90, 1]
    assert run(lines, 5, warps=mapping.warps) == want


def test_numbers_stay_numbers(executor):
    """An unannotated parameter takes a number as the caller has it: a literal, still without a type."""
    lines = """
half = tt.zeros(4, tt.float16) + 1
tt.static_assert(scaled(half, 0.5).dtype == tt.float16 and scaled(half).dtype == tt.float16)
tt.static_assert(scaled(3) == 6 and scaled(3, by=1.5) == 4.5)
tt.static_assert(sign(-3) == -1)
x = tt.arange(0, scaled(2))
tt.store(out + x, scaled(half, a))
"""
    assert run(lines, 0.5, size=4) == [0.5] * 4


def test_what_is_reached(executor):
    """Globals and closures are those of the function, local names are its own; recursion in a chain is none."""
    lines = """
x = 5
y = inner(x)
tt.store(out, x * 1000 + y + K)
tt.store(out + 1, math.floor(math.sqrt(17)) + a)
"""
    other = kernel("@tt.jit\ndef k(y):\n    x = y + K\n    return x", K=100)
    assert run(lines, 1, size=2, inner=other, K=7, math=math) == [5000 + 105 + 7, 5]


def test_pointers_and_tuples_from_several_places(executor):
    head = """
@tt.jit
def pick(p, n):
    for i in range(4):
        if i == n:
            return p + i, (i, None, "loop")
    return p + 5, (n, None, "loop")
"""
    lines = """
p, rest = pick(out, a)
tt.store(p, rest[0])
tt.static_assert(rest[1] is None and rest[2] == "loop")
"""
    assert run(lines, 2, head=head) == [-99, -99, 2, -99, -99, -99, -99, -99]
    assert run(lines, 9, head=head) == [-99, -99, -99, -99, -99, 9, -99, -99]


def test_a_kernel_is_launched_and_called(executor):
    head = """
@tt.jit
def fill(p, n, SIZE: tt.constexpr = 4):
    i = tt.arange(0, SIZE)
    tt.store(p + i, i, mask=i < n)
"""
    assert run("fill(out, a)\nfill(out + 4, 1)", 3, head=head) == [0, 1, 2, -99, 0, -99, -99, -99]
    out = np.full(4, -99.0)
    kernel(head.replace("def fill", "def k"))[1](out, 2)
    assert out.tolist() == [0, 1, -99, -99]


ERRORS = {
    "inside": (
        "def f(x):\n    return x + nope",
        "y = f(1)",
        ["function f, line 3:", "    return x + nope", "called from kernel k, line 8:", "    y = f(1)"],
        "nope is not defined",
    ),
    "an argument too few": ("def f(x, y):\n    return x", "y = f(1)", ["kernel k, line 8:"], "missing a required"),
    "an unknown name": ("def f(x):\n    return x", "y = f(1, z=2)", ["kernel k, line 8:"], "it takes (x)"),
    "a constexpr at run time": (
        "def f(x, B: tt.constexpr):\n    return x",
        "y = f(1, a)",
        ["kernel k, line 8:"],
        "the parameter B of f is a tt.constexpr: it takes a compile-time value, not i32",
    ),
    "recursion": (
        "def f(x):\n    return f(x)",
        "y = f(1)",
        ["function f, line 3:", "called from kernel k, line 8:"],
        "f calls itself (f -> f)",
    ),
    "two types": (
        "def f(x):\n    if x > 1:\n        return x\n    return tt.arange(0, 4)",
        "y = f(a)",
        ["kernel k, line 10:"],
        "the type of the value that f returns depends on the path taken: i32 (line 4) or i32[4] (line 5)",
    ),
    "nothing on a path": (
        "def f(x):\n    if x > 1:\n        return x",
        "y = f(a)",
        ["kernel k, line 9:"],
        "the value that f returns depends on the path taken: i32 or None (lines 4 and 3)",
    ),
    "no value": ("def f(x):\n    pass", "y = f(a)", ["kernel k, line 8:"], "f gives no value to assign"),
    "a class": ("def f(x):\n    pass", "y = complex(1, 2)", ["kernel k, line 8:"], "complex is Python's own"),
    "a method of a value": ("def f(x):\n    return x.nope()", "y = f(a)", ["function f, line 3:"], "no .nope"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(interpreter, case):
    head, lines, shown, message = ERRORS[case]
    with pytest.raises(tt.TinytonError) as caught:
        run(lines, 3, head=f"@tt.jit\n{head}\n\n")
    text = str(caught.value)
    assert all(line in text.split("\n") for line in shown), text
    assert message in text


def test_a_plain_function_says_what_to_do(interpreter):
    with pytest.raises(tt.KernelTypeError, match="helper is a plain Python function; put @tt.jit on it"):
        run("tt.store(out, helper(1))", helper=lambda x: x)


def test_the_code_names_the_function_of_each_line(monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "interpreter")
    text = "@tt.jit\ndef f(x):\n    y = x * 3 + 1\n    return y\n\n@tt.jit\ndef k(out, n):\n    tt.store(out, f(n))\n"
    low = kernel(text).compile(np.zeros(1, np.int32), 3).low
    assert '#line 3 "function f"' in low.located and '#line 8 "kernel k"' in low.located
    assert "// y = x * 3 + 1" in low.source


# -- what belongs to the key of a kernel -------------------------------------------------------------------------------


def value(k, *args):
    out = np.zeros(1)
    k[1](out, *args)
    return out[0]


def test_a_function_defined_anew_is_used(executor):
    f = kernel("@tt.jit\ndef k(x):\n    return x + G", G=1)
    g = kernel("@tt.jit\ndef k(x):\n    return f(x) * 10", f=f)
    k = kernel("@tt.jit\ndef k(out):\n    tt.store(out, g(2))", g=g)
    assert value(k) == 30
    f.source.function.__globals__["G"] = 2
    assert value(k) == 40
    g.source.function.__globals__["f"] = kernel("@tt.jit\ndef k(x):\n    return x - 1")
    assert value(k) == 10
    k.source.function.__globals__["g"] = f
    assert value(k) == 4
    assert value(k) == 4 and len(k._cache) == 4


def test_a_function_in_a_closure_a_tuple_an_argument_or_a_default(executor):
    one = kernel("@tt.jit\ndef k(x):\n    return x + G", G=1)
    text = "@tt.jit\ndef k(out, F: tt.constexpr = None):\n    tt.store(out, (FS[1] if F is None else F)(2))"
    k = kernel(text, FS=(None, one))
    by_default = kernel("@tt.jit\ndef k(x, f=one):\n    return f(x)", one=one)

    def make(f):
        @tt.jit
        def inner(out):
            tt.store(out, f(2))

        return inner

    closed = make(by_default)
    for g in (1, 5):
        one.source.function.__globals__["G"] = g
        assert value(k) == 2 + g
        assert value(k, one) == 2 + g
        assert value(k, by_default) == 2 + g
        assert value(closed) == 2 + g


def test_a_module_is_reloaded(executor, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "functions_of_a_test.py"
    text = "import tinyton as tt\nC = {}\n@tt.jit\ndef f(x):\n    return x + C\n"
    file.write_text(text.format(1))
    module = importlib.import_module("functions_of_a_test")
    k = kernel("@tt.jit\ndef k(out):\n    tt.store(out, m.f(2))", m=module)
    try:
        assert value(k) == 3
        file.write_text(text.format(20) + "# longer\n")
        importlib.reload(module)
        assert value(k) == 22
    finally:
        del sys.modules["functions_of_a_test"]


def test_the_short_way_looks_at_what_functions_read(interpreter):
    f = kernel("@tt.jit\ndef k(x):\n    return x + G", G=1)
    k = kernel("@tt.jit\ndef k(n):\n    x = f(n)", f=f)
    k[1](1)
    reads = [(reader, name) for reader, name, _ in k.outside()]
    assert reads == [(k.source, "f"), (f.source, "G")]
    route = Route(k, (k.kind({"n": 1}, "n"),), (int,), reads)
    loaded = SimpleNamespace(start=None, pack=None, shared=0)
    low, args = SimpleNamespace(divisors_used=(), block=(1, 1, 1)), SimpleNamespace(args=())
    route.learn((1,), {}, SimpleNamespace(specialization=args, low=low, loaded=loaded))
    keys = [route.key_of(1, {})]
    f.source.function.__globals__["G"] = 2
    keys.append(route.key_of(1, {}))
    k.source.function.__globals__["f"] = kernel("@tt.jit\ndef k(x):\n    return x")
    keys.append(route.key_of(1, {}))
    assert len(set(keys)) == 3
