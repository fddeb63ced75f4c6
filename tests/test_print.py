"""device_print and device_assert: what they tell, in which order, and what comes after."""

import contextlib
import io
import re

import numpy as np
import pytest

import tinyton as tt
import tinyton.language as tl
from conftest import kernel


def printed(launch):
    """What a launch prints through Python, which is what a notebook cell shows."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        launch()
    return out.getvalue().splitlines()


@tt.jit
def show(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.device_print("v", v)
    tl.store(out + i, v + 1, mask=(i < n) & (tl.program_id(1) == 0))
    for k in range(2):
        tl.device_print("twice:", k, v * k)
    if tl.program_id(1) == 1:
        tl.device_print("second row")


@pytest.mark.parametrize("block", [4, 3])
def test_prints_are_in_program_order(mapping, block):
    """Programs, then a program's prints as they ran, then elements; padding does not print."""
    x = np.random.default_rng().normal(size=2 * block).astype(np.float32)
    out, n, want = np.zeros_like(x), 2 * block - 1, []
    lines = printed(lambda: show[(2, 2)](x, out, n, BLOCK=block, num_warps=mapping.warps))
    for py in range(2):
        for px in range(2):
            mine = np.where(np.arange(2 * block) < n, x, 0)[px * block : (px + 1) * block]
            pid = f"pid ({px}, {py}, 0)"
            want += [f"{pid} idx ({e}) v: {v!s}" for e, v in enumerate(mine)]
            want += [f"{pid} idx ({e}) twice: {k} {v * np.float32(k)!s}" for k in range(2) for e, v in enumerate(mine)]
            want += [f"{pid} second row"] * (py == 1)
    assert lines == want
    assert (out[:n] == x[:n] + 1).all()


TYPES = [tt.int8, tt.uint8, tt.int16, tt.uint32, tt.int64, tt.uint64, tt.float16, tt.float32, tt.float64]


def test_values_of_every_type(executor):
    """As NumPy prints one; with hex, the bits of the element."""
    k = kernel("""
@tt.jit
def k(x, N: tt.constexpr):
    v = tt.load(x + tt.arange(0, N))
    tt.device_print("v =", v)
    tt.device_print("bits", v, hex=True)
""")
    for dtype in TYPES:
        numpy = dtype.numpy
        data = np.frombuffer(np.random.default_rng().bytes(numpy.itemsize * 4), numpy).copy()
        data[0] = data[0] if dtype.is_int else np.inf
        data[1] = np.iinfo(numpy).min if dtype.is_int else -0.0
        if not dtype.is_int:
            data[2:] = np.random.default_rng().normal(size=2)
        lines = printed(lambda data=data: k[1](data, N=4))
        bits = data.view(f"u{numpy.itemsize}")
        assert lines == [f"pid (0, 0, 0) idx ({e}) v = {v!s}" for e, v in enumerate(data)] + [
            f"pid (0, 0, 0) idx ({e}) bits: 0x{int(b):0{2 * numpy.itemsize}x}" for e, b in enumerate(bits)
        ]


def test_scalars_bools_and_tiles_of_two_dimensions(executor):
    k = kernel("""
@tt.jit
def k(n, f):
    i = tt.arange(0, 3)
    tt.device_print("", n, f, n > 3, 7, 0.5)
    tt.device_print("grid", i[:, None] * 10 + tt.arange(0, 2)[None, :], i[:, None] > 0)
    tt.device_print("b", tt.full((1,), 0.1, tt.bfloat16), i == 1)
""")
    grid = [f"pid (0, 0, 0) idx ({i}, {j}) grid: {10 * i + j} {i > 0}" for i in range(3) for j in range(2)]
    bf = [f"pid (0, 0, 0) idx ({i}) b: {np.float32(0.10009765625)!s} {i == 1}" for i in range(3)]
    assert printed(lambda: k[1](5, 0.25)) == ["pid (0, 0, 0) 5 0.25 True 7 0.5", *grid, *bf]


def test_what_does_not_fit_is_counted(executor):
    k = kernel("""
@tt.jit
def k(N: tt.constexpr):
    tt.device_print("i", tt.program_id(0) + tt.arange(0, N))
""")
    lines = printed(lambda: k[17](N=2048))
    assert len(lines) == (1 << 15) + 1
    assert lines[-1] == "2048 more values were not kept: a launch prints at most 32768"
    for line in lines[:-1]:
        p, e, v = map(int, re.fullmatch(r"pid \((\d+), 0, 0\) idx \((\d+)\) i: (\d+)", line).groups())
        assert v == p + e


def test_printing_waits_for_the_launch_and_its_arrays(executor):
    x = tt.to_device(np.ones(4, np.float32))
    for times in range(3):
        lines = printed(lambda: show[1](x, x, 4, BLOCK=4))
        assert lines[0] == f"pid (0, 0, 0) idx (0) v: {1.0 + times}" and len(lines) == 12
    assert printed(lambda: show.compile(x, x, 4, BLOCK=4)) == []


@tt.jit
def guarded(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.device_print("program", tl.program_id(0))
    tl.device_assert(v > 0, f"not positive, with blocks of {BLOCK}", mask=i < n)
    tl.store(out + i, v, mask=i < n)


def test_an_assert_that_fails(mapping):
    """The error names the first program, its first element, the message, and the line; other programs have run, and
    arrays and prints are back."""
    x = np.random.default_rng().uniform(1, 2, 64).astype(np.float32)
    out = np.zeros_like(x)
    launch = lambda: guarded[4](x, out, 60, BLOCK=16, num_warps=mapping.warps)  # noqa: E731
    assert len(printed(launch)) == 4
    assert (out[:60] == x[:60]).all() and not out[60:].any()
    x[[21, 19, 40]], x[62:], out[:] = -1, -1, 0
    told = io.StringIO()
    with pytest.raises(tt.DeviceAssertError) as caught, contextlib.redirect_stdout(told):
        launch()
    assert "device_assert failed in pid (1, 0, 0) idx (3): not positive, with blocks of 16" in str(caught.value)
    assert caught.value.loc.text.strip().startswith("tl.device_assert(") and "^" in str(caught.value)
    assert isinstance(caught.value, tt.TinytonError)
    assert "pid (0, 0, 0) program: 0" in told.getvalue()
    assert (out[:16] == x[:16]).all()
    if mapping.executor != "interpreter":
        assert (out[48:60] == x[48:60]).all()
    threads = guarded.compile(x, out, 60, BLOCK=16, num_warps=mapping.warps).threads
    if mapping.executor != "opencl" or threads == 1:
        assert not out[16:32].any(), "the program stopped"
    x[:] = 1
    assert len(printed(launch)) == 4, "the kernel is usable all the same"


def test_asserts_can_be_left_out(executor):
    off = tt.jit(debug=False)(guarded.fn)
    x, out = -np.ones(16, np.float32), np.zeros(16, np.float32)
    printed(lambda: off[1](x, out, 16, BLOCK=16))
    assert (out == -1).all()
    assert "device_assert" not in str(off.compile(x, out, 16, BLOCK=16).ir)


def test_asserts_of_scalars_and_ints(executor):
    k = kernel("""
@tt.jit
def k(n):
    tt.device_assert(n, "zero")
    tt.device_assert(n < 5)
""")
    k[3](4)
    with pytest.raises(tt.DeviceAssertError, match=r"device_assert failed in pid \(0, 0, 0\): zero$"):
        k[3](0)
    with pytest.raises(tt.DeviceAssertError, match=r"device_assert failed in pid \(0, 0, 0\)$") as caught:
        k[3](5)
    assert caught.value.loc.line == 4


@pytest.mark.parametrize(
    "line, words",
    [
        ("tt.device_print(x)", "device_print begins with a text"),
        ("tt.device_print('x', x)", "load from it first"),
        ("tt.device_print('x', 'y')", "expected a tile or a number"),
        ("tt.device_print()", "prefix"),
        ("tt.device_print('x', tt.arange(0, 2), tt.arange(0, 4))", "do not broadcast"),
        ("tt.device_assert(x)", "load from it first"),
        ("print(x)", "tt.device_print"),
    ],
)
def test_what_is_refused(executor, line, words):
    k = kernel(f"@tt.jit\ndef k(x):\n    {line}\n    tt.store(x, 1)")
    with pytest.raises(tt.TinytonError, match=words) as caught:
        k[1](np.zeros(1, np.float32))
    assert caught.value.loc.line == 3


def test_tools_do_not_print(executor):
    """Counting runs a kernel without showing what it prints; a kernel built ahead of time cannot print."""
    x = np.ones(8, np.float32)
    assert printed(lambda: tt.count(show, (2, 2), x, np.ones_like(x), 8, BLOCK=4)) == []
    with pytest.raises(tt.LaunchError, match="show prints"):
        tt.compile(show, {"x": "*float32:16", "out": "*float32:16", "n": "int32"}, BLOCK=4)


def test_text_of_the_message_is_not_code(executor):
    k = kernel('''
@tt.jit
def k(x):
    """*/ " \\\\ %s %n"""
    tt.device_print('*/ %s %n "\\\\', tt.load(x))  # */ \\\\
    tt.device_assert(tt.load(x) > 5, "*/ %s \\" \\\\ 'λ' \\n end")
''')
    with pytest.raises(tt.DeviceAssertError) as caught:
        assert printed(lambda: k[1](np.ones(1, np.float32))) == ['pid (0, 0, 0) */ %s %n "\\: 1.0']
    assert caught.value.message.endswith(": */ %s \" \\ 'λ' \n end")


NOTEBOOK = """
import numpy as np, tinyton as tt
@tt.jit
def show(x, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.device_print("x", tt.load(x + i))
    tt.device_assert(tt.load(x + i) < 5, "too much")
x = np.arange(6, dtype=np.float32)
---
print("before"); show[2](x, BLOCK=2); print("after")
---
show[3](x, BLOCK=2)
"""


@pytest.mark.parametrize("executor", ["interpreter"])  # what prints is Python on every executor
def test_a_notebook_shows_prints_in_the_cell_that_launched(executor, tmp_path):
    """Also under nbval, which runs a notebook while pytest captures what C prints."""
    client = pytest.importorskip("nbclient")
    import os
    import subprocess
    import sys

    import nbformat
    from processes import ROOT

    cells = [nbformat.v4.new_code_cell(text.strip()) for text in NOTEBOOK.split("---\n")]
    cells[2].metadata["tags"] = ["raises-exception"]
    nb = nbformat.v4.new_notebook(cells=cells)
    environ = dict(
        os.environ, TINYTON_BACKEND=executor, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    )
    client.NotebookClient(nb, timeout=60).execute(env=environ)
    lines = [f"pid ({p}, 0, 0) idx ({e}) x: {2 * p + e}.0\n" for p in range(3) for e in range(2)]
    assert [o.text for o in cells[1].outputs] == ["before\n" + "".join(lines[:4]) + "after\n"]
    assert cells[2].outputs[0].text == "".join(lines)
    assert "device_assert failed in pid (2, 0, 0) idx (1): too much" in "".join(cells[2].outputs[1].traceback)
    nbformat.write(nb, tmp_path / "prints.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env"]
    done = subprocess.run(
        [*command, "prints.ipynb"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout
