"""ct.print, ct.printf and ct.assert_."""

import contextlib
import ctypes
import io
import os
from itertools import product

import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import kernel, underlined
from tinyton.tile.debug import SPECIFIER, c_writer


def printed(k, *args, grid=(1,), warps=None):
    """What a launch prints, as it is."""
    out = io.StringIO()
    chosen = k if warps is None else k.replace_hints(num_worker_warps=warps)
    with contextlib.redirect_stdout(out):
        ct.launch(None, grid, chosen, args)
    return out.getvalue()


def body(*lines, params="x, n, f"):
    text = "".join(f"    {line}\n" for line in lines)
    return kernel(f"@ct.kernel\ndef k({params}):\n{text}", ct=ct)


X = np.arange(8, dtype=np.int32).reshape(2, 4)


@pytest.fixture(params=[None, 4])
def warps(request, executor):
    if request.param and executor == "interpreter":
        pytest.skip("the interpreter has no threads")
    return request.param


def test_tiles_print_as_nested_lists(executor, warps):
    x = np.random.default_rng().normal(size=(4, 8)).astype(np.float32)
    k = body(
        "i, j = ct.bid(0), ct.bid(1)",
        "t = ct.load(x, (i, j), (2, 4))",
        "ct.print('tile', i, j, t)",
        "ct.print(t > 0)",
        "ct.print(f, end='')",
        "ct.print(n, n, sep='-', end=';\\n')",
    )
    want = ""
    for j in range(2):
        for i in range(2):
            tile = x[2 * i : 2 * i + 2, 4 * j : 4 * j + 4]
            rows = ", ".join("[" + ", ".join(f"{v:f}" for v in row) + "]" for row in tile)
            want += f"tile {i} {j} [{rows}]\n{(tile > 0).astype(int).tolist()}\n0.250000-3-3;\n".replace("-3-3", "3-3")
    assert printed(k, x, 3, 0.25, grid=(2, 2), warps=warps) == want


TYPES = [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64]


def test_values_of_every_type(executor):
    k = body("t = ct.load(x, 0, 4)", "ct.print(t)", params="x")
    for dtype in TYPES:
        data = np.frombuffer(np.random.default_rng().bytes(np.dtype(dtype).itemsize * 4), dtype).copy()
        if data.dtype.kind == "f":
            data[:] = np.inf, -np.inf, np.nan, -0.0
            want = "[inf, -inf, nan, -0.000000]\n"
        else:
            data[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
            want = f"{data.tolist()}\n"
        assert printed(k, data) == want


def test_what_is_known_prints_as_in_python(executor):
    k = body(
        "t = ct.load(x, (0, 0), (2, 2))",
        "ct.print('a', 1, 0.5, True, None, ct.float16, t.dtype, t.shape, ('b', 2), sep=',')",
        "ct.print(x.shape, (t.dtype, n), (n,), ('b', n))",
        "ct.print()",
        "ct.print('a', 'b', sep='', end='')",
        "ct.print(sep=None, end=None)",
    )
    assert printed(k, X, 7, 0.5) == (
        "a,1,0.5,True,None,float16,int32,(2, 2),('b', 2)\n(2, 4) (int32, 7) (7,) ('b', 7)\n\nab\n"
    )


def test_f_strings(executor):
    k = body(
        "t = ct.load(x, (0, 0), (1, 2))",
        "ct.print(f'n={n} {{}} {n:>4}|{f:.2f}|{f:10.3e}|{t:03d}|{t.shape}|{1.5:.2f}', f'{n}', sep=' % ')",
        "ct.print(f'{t > 0} {(n, f)} {\"text\":>6}')",
        "w = 5",
        "ct.print(f'{n:{w}d}')",
    )
    assert printed(k, X, 7, 0.5) == (
        "n=7 {}    7|0.50| 5.000e-01|[[000, 001]]|(1, 2)|1.50 % 7\n[[0, 1]] (7, 0.500000)   text\n    7\n"
    )


def test_python_s_own_print(executor):
    k = body("print('n', n, f'{f:.1f}', sep=':', end='')", "print(ct.load(x, (0, 0), (1, 1)))")
    assert printed(k, X, 7, 0.5) == "n:7:0.5[[0]]\n"


def test_prints_in_loops_and_branches(executor, warps):
    """A program's prints come as they ran, whatever threads have made their parts."""
    k = body(
        "for i in range(n):",
        "    t = ct.load(x, (0, i), (2, 2))",
        "    ct.print(i, t)",
        "    if i == 1:",
        "        ct.print('one', ct.load(x, (0, 0), (1, 4)), i)",
        "    else:",
        "        ct.printf('%d;', i)",
        "ct.print('end')",
    )
    want = "0 [[0, 1], [4, 5]]\n0;1 [[2, 3], [6, 7]]\none [[0, 1, 2, 3]] 1\nend\n"
    assert printed(k, X, 2, 0.5, warps=warps) == want
    assert printed(k, X, 0, 0.5, warps=warps) == "end\n"
    assert printed(k, X, 2, 0.5, grid=(3,), warps=warps) == 3 * want


def shown(t, name):
    print(f"{name}: {t:.1f}", end=" ")
    return t * 2


def test_prints_in_functions(executor):
    k = kernel(
        """
@ct.kernel
def k(x):
    t = shown(shown(ct.load(x, 0, 2), "t"), "u")
    i = 0
    while True:
        print(i, t.astype(ct.bfloat16))
        i += 1
        if i > 1:
            break
""",
        ct=ct,
        shown=shown,
    )
    x = np.array([0.5, 1], np.float32)
    want = "t: [0.5, 1.0] u: [1.0, 2.0] 0 [2.000000, 4.000000]\n1 [2.000000, 4.000000]\n"
    assert printed(k, x) == want
    assert "form='{} {}\\n'" in str(next(iter(k._cache.values())).ir)


def test_two_calls_alike_are_two_texts(executor):
    k = body("for i in range(2):", "    ct.print(n)", "    ct.print(n)", "    ct.print(i, n)")
    assert printed(k, X, 4, 0.5) == "4\n4\n0 4\n4\n4\n1 4\n"


def test_what_does_not_fit_is_counted(executor):
    k = body("t = ct.load(x, ct.bid(0), 16384)", "ct.print('t', t)", params="x")
    lines = printed(k, np.arange(3 * 16384, dtype=np.int32), grid=(3,)).splitlines()
    assert lines[-1] == "16384 more values were not kept: a launch prints at most 32768"
    whole = [line for line in lines[:-1] if "?" not in line]
    assert len(whole) <= 2 and all(line.startswith("t [") and line.count(", ") == 16383 for line in whole)


SPECIFIERS = [
    ("%d", -5, "-5"),
    ("%i", 5, "5"),
    ("%5d|", 5, "    5|"),
    ("%-5d|", 5, "5    |"),
    ("%05d", -5, "-0005"),
    ("%+d", 5, "+5"),
    ("% d", 5, " 5"),
    ("%.3d", 5, "005"),
    ("%07.3d", 5, "    005"),
    ("%u", -1, "4294967295"),
    ("%x", -1, "ffffffff"),
    ("%#X", 255, "0XFF"),
    ("%#x", 0, "0"),
    ("%o", 8, "10"),
    ("%#o", 8, "010"),
    ("%lld", 7, "7"),
    ("%hhu", 7, "7"),
    ("%f", 0.5, "0.500000"),
    ("%8.2F|", 0.5, "    0.50|"),
    ("%08.2f", -0.5, "-0000.50"),
    ("%.0f", 2.5, "2"),
    ("%e", 1234.5, "1.234500e+03"),
    ("%.1E", 1234.5, "1.2E+03"),
    ("%g", 1e-5, "1e-05"),
    ("%G", 1e-5, "1E-05"),
    ("%a", 1.5, "0x1.8p+0"),
    ("%a", 1.0, "0x1p+0"),
    ("%A", -10.0, "-0X1.4P+3"),
    ("%.2a", 1.99999, "0x2.00p+0"),
    ("%.1a", 1.5, "0x1.8p+0"),
    ("%a", 0.0, "0x0p+0"),
    ("%12a|", 1.5, "    0x1.8p+0|"),
    ("%012a|", 1.5, "0x00001.8p+0|"),
    ("%-12a|", 1.5, "0x1.8p+0    |"),
    ("%06f", float("inf"), "   inf"),
    ("%a", float("-inf"), "-inf"),
    ("%%", None, "%"),
    ("100%%\\n", None, "100%\n"),
]


def test_printf(executor):
    """What C prints. One kernel: values are arguments, so that nothing is folded."""
    lines, args = [], []
    for k, (spec, value, _) in enumerate(SPECIFIERS):
        args += [] if value is None else [(f"a{k}", value)]
        lines.append(f"ct.printf('{spec}{{}}'{'' if value is None else f', a{k}'})".replace("{}", "\\n"))
    k = body(*lines, params=", ".join(name for name, _ in args))
    assert printed(k, *(v for _, v in args)) == "".join(want + "\n" for *_, want in SPECIFIERS)


@pytest.mark.skipif(os.name == "nt", reason="C's own functions are in no library that has a name of its own there")
def test_printf_is_c_s():
    """Against the C library, over random values; it is the host that writes texts."""
    snprintf = ctypes.CDLL(None).snprintf
    rng = np.random.default_rng()
    floats = [*rng.normal(size=4), *rng.normal(size=3) * 1e30, 0.0, -0.0, np.inf, 1.0]
    ints = [0, 1, 8, -1, 2**31 - 1, -(2**31), *rng.integers(-1000, 1000, 5).tolist()]
    for kinds, dtype, c, values in (
        ("eEfFgGaA", ct.float64, ctypes.c_double, floats),
        ("diuoxX", ct.int32, ctypes.c_int, ints),
    ):
        for parts in product(("", "-", "+", "#", "0", " "), ("", "25"), ("", ".3", ".9"), kinds):
            spec = "%" + "".join(parts)
            write = c_writer(SPECIFIER.fullmatch(spec), dtype)
            for value in values:
                buffer = ctypes.create_string_buffer(200)
                snprintf(buffer, 200, spec.encode(), c(value))
                got, want = write(value), buffer.value.decode()
                if "a" in spec.lower() and got != want:  # there are two ways to write a carry into the first digit
                    assert float.fromhex(got) == float.fromhex(want)
                else:
                    assert got == want, (spec, value)


def test_printf_of_tiles(executor, warps):
    k = body(
        "t = ct.load(x, (0, 0), (2, 2))",
        "ct.printf('%d: %3d and %.1f\\n', n, t, t * 0.5)",
        "ct.printf('no end', )",
        "ct.printf('%d', t > 4)",
        "ct.printf('%d %f', 123, 0.5)",
    )
    assert printed(k, X, 1, 0.5, warps=warps) == (
        "1: [[  0,   1], [  4,   5]] and [[0.0, 0.5], [2.0, 2.5]]\nno end[[0, 0], [0, 1]]123 0.500000"
    )


@pytest.mark.parametrize(
    "line, words",
    [
        ("ct.printf('%s', n)", "does not support the specifier %s"),
        ("ct.printf('%y', n)", "does not support the specifier %y"),
        ("ct.printf('50%')", "does not support the specifier %"),
        ("ct.printf('%*d', n, n)", "does not support the specifier"),
        ("ct.printf('%d %d', n)", "not enough arguments"),
        ("ct.printf('%d')", "not enough arguments"),
        ("ct.printf('%d', n, n)", "too many arguments"),
        ("ct.printf('no', n)", "too many arguments"),
        ("ct.printf('%f', n)", "%f does not write int32; write %d"),
        ("ct.printf('%d', f)", "%d does not write float32; write %f"),
        ("ct.printf('%x', ct.load(x, (0, 0), (1, 1)) * 0.5)", "%x does not write float32"),
        ("ct.printf(n)", "printf begins with a text"),
        ("ct.printf('%d', 'x')", "expected a tile or a number"),
        ("ct.printf('%d', x)", "expected a tile or a number"),
        ("ct.print(x)", "print writes tiles, numbers and texts"),
        ("ct.print(n, sep=n)", "sep is a text"),
        ("ct.print(n, end=1)", "end is a text"),
        ("ct.print(f'{f:d}')", "'d' is not a format for f32"),
        ("ct.print(f'{n:q}')", "'q' is not a format for i32"),
        ("ct.assert_(n)", "the condition is of bools"),
        ("ct.assert_(f)", "the condition is of bools"),
        ("ct.assert_(1)", "the condition is of bools"),
        ("ct.assert_(ct.load(x, (0, 0), (2, 2)))", "the condition is of bools"),
        ("ct.assert_(n > 1, 5)", "the message is a text"),
    ],
)
def test_what_is_refused(line, words, executor):
    k = body(line)
    with pytest.raises(ct.TileTypeError) as caught:
        printed(k, X, 1, 0.5)
    assert words in caught.value.message, caught.value.message
    assert caught.value.loc.line == 3


@pytest.mark.parametrize("conversion", "rsa")
def test_conversions_of_f_strings(conversion, executor):
    k = body(f"ct.print(f'{{n!{conversion}}}')")
    with pytest.raises(ct.TileSyntaxError, match=f"!{conversion}"):
        printed(k, X, 1, 0.5)


def test_the_caret_is_under_the_condition(executor):
    k = body("ct.assert_(n + 1, 'text')")
    with pytest.raises(ct.TileTypeError) as caught:
        printed(k, X, 1, 0.5)
    assert underlined(caught.value) == "n + 1"


def test_asserts(executor, warps):
    k = body(
        "t = ct.load(x, (0, ct.bid(0)), (2, 2))",
        "ct.print('program', ct.bid(0))",
        "ct.assert_(t < n, 'too large')",
        "ct.assert_(n > 2)",
        "ct.assert_(True)",
    )
    assert printed(k, X, 8, 0.5, grid=(2,), warps=warps) == "program 0\nprogram 1\n"
    with pytest.raises(tt.DeviceAssertError) as caught:
        printed(k, X, 7, 0.5, grid=(2,), warps=warps)
    assert caught.value.message == "ct.assert_ failed in pid (1, 0, 0) idx (1, 1): too large"
    assert caught.value.loc.line == 5 and isinstance(caught.value, ct.TileError)
    with pytest.raises(tt.DeviceAssertError, match=r"ct.assert_ failed in pid \(0, 0, 0\)$") as caught:
        printed(k, X * 0, 1, 0.5, grid=(2,), warps=warps)
    assert caught.value.loc.line == 6


def test_on_the_host():
    for f in (ct.print, ct.printf, ct.assert_):
        with pytest.raises(ct.TileError, match="is for kernels"):
            f("x")
