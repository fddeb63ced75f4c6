"""Faults that kernels' users have met in compilers like this one: what must happen instead, one test each.

Here is what the suites by topic do not hold already: strides and bounds are in test_memory, dtypes in test_types, grids
and threads in test_launch, the cache in test_cache, syntax in test_frontend, faults of a process in test_robust.
"""

import os
import re
import subprocess
import sys

import ml_dtypes
import nbformat
import numpy as np
import pytest
import yaml
from processes import ROOT, python

import tinyton as tt
from conftest import EXECUTORS, Guarded, kernel, mappings, same_bits
from tools import notebooks

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = {"float16": np.dtype("float16"), "bfloat16": BFLOAT16}

# -- values and memory -------------------------------------------------------------------------------------------------

OFFSETS = {
    "product": "pid * stride",
    "shift": "(pid << 30)",
    "where": "tt.where(pid > 0, pid * stride, 0)",
    "ternary": "(pid * stride if pid > 0 else 0)",
    "greater": "tt.maximum(pid * stride, 0)",
    "lesser": "tt.minimum(pid * stride, 4 * stride)",
    "absolute": "tt.abs(-pid * stride)",
    "quotient": "pid * stride * 7 // 7",
    "remainder": "(pid * stride) % (8 * stride.to(tt.int64))",
    "bits": "((pid * stride) | 0)",
    "sum": "(tt.sum(tt.zeros(4, tt.int64)) + pid * stride)",
    "reshape": "(tt.arange(0, 4) + pid * stride).reshape((2, 2))",
    "loop": "carried",
    "branch": "merged",
    "tuple": "pair[0]",
}


@pytest.mark.parametrize("how", OFFSETS)
def test_an_offset_is_64_bits_wide_however_it_is_made(interpreter, how):
    """An int32 expression beyond 2^31 that ends up in a pointer names the element it should, not one before it all."""
    k = kernel(f"""
@tt.jit
def k(x, stride):
    pid = tt.program_id(0)
    carried = 0
    for s in range(pid):
        carried += stride
    merged = 0
    if pid > 0:
        merged = pid * stride
    pair = (pid * stride, 1)
    if pid == 2:
        tt.store(x + {OFFSETS[how]}, 7)
""")
    with pytest.raises(tt.errors.OutOfBoundsError, match="writes element 2147483648 of x"):
        k[3](np.zeros(8, np.int8), 1 << 30)


def test_where_does_not_guard_a_load(interpreter):
    """Both sides of a where are computed: a load that must not happen needs a mask, and the interpreter says so."""
    k = kernel("""
@tt.jit
def k(x, out, n):
    i = tt.arange(0, 8)
    tt.store(out + i, tt.where(i < n, tt.load(x + i), 0))
""")
    with pytest.raises(tt.errors.OutOfBoundsError, match="reads element 5 of x.*mask the lanes"):
        k[1](np.zeros(5, np.int32), np.zeros(8, np.int32), 5)


NAN = [np.nan, -np.inf, np.inf, 1.0, -0.0]


@pytest.mark.parametrize("mapping", mappings(None, 1, 2), indirect=True)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint64"])
def test_positions_of_extremes(mapping, dtype):
    """argmax and argmin name an element of the tile, the first of equals, at every width; NaN is passed over."""
    kind = np.dtype(HALVES.get(dtype, dtype))
    k = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr):
    a = tt.load(x + tt.arange(0, N))
    tt.store(out, tt.argmax(a, 0))
    tt.store(out + 1, tt.argmin(a, 0))
""")
    rng = np.random.default_rng(3)
    for n in (4, 27, 128):
        values = rng.choice([1, 2, 3] if dtype == "uint64" else [-3, 1, 3] if dtype == "int8" else NAN, n).astype(kind)
        if n == 4 and kind.kind in "fV":
            values[:] = np.nan
        out = Guarded(2, np.int32)
        k[1](values, out.array, n, num_warps=mapping.warps)
        wide = values.astype(np.float64)
        got, numbers = out.check().tolist(), ~np.isnan(wide)
        if numbers.any():
            most, least = np.nanmax(wide), np.nanmin(wide)
            assert got == [int(np.argmax(wide == most)), int(np.argmax(wide == least))]
        else:
            assert got == [0, 0]


@pytest.mark.parametrize("dtype", HALVES)
def test_16_bit_floats_are_numbers_everywhere(executor, dtype):
    """Sums, products and comparisons of 16-bit floats are of their values, never of their bits; each NaN stays one."""
    kind = HALVES[dtype]
    k = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr):
    i = tt.arange(0, N)
    a = tt.load(x + i)
    tt.store(out + i, a)
    tt.store(out + N + i, a + a)
    tt.store(out + 2 * N + i, a * a)
    tt.store(out + 3 * N + i, tt.where(a == a, a, 0))
    tt.store(out + 4 * N, tt.sum(a))
""")
    x = (np.arange(16384, dtype=np.uint16) * 5 + 1).view(kind)  # patterns of both signs, NaN among them
    with np.errstate(all="ignore"):
        wide = x.astype(np.float32)
        want = [
            x,
            (wide + wide).astype(kind),
            (wide * wide).astype(kind),
            np.where(np.isnan(wide), 0, wide).astype(kind),
        ]
    out = Guarded(4 * x.size + 1, kind)
    k[1](x, out.array, x.size)
    same_bits(out.check()[:-1].reshape(4, -1), np.stack(want))
    assert np.isnan(out.array[-1])


@pytest.mark.parametrize("dtype", [*HALVES, "float64"])
@pytest.mark.parametrize(
    "value", [42.0, -0.0, 1e-3, 65519.0, float("inf"), float("nan"), np.float16(0.1), np.float64(0.1)]
)
def test_a_float_argument_arrives_as_it_was_passed(executor, dtype, value):
    """Rounded once, to the type of the tile that it meets or of the array that it is stored to."""
    kind = np.dtype(HALVES.get(dtype, dtype))
    k = kernel("""
@tt.jit
def k(x, out, f):
    i = tt.arange(0, 4)
    tt.store(out + i, f)
    tt.store(out + 4 + i, tt.load(x + i) + f)
""")
    out = Guarded(8, kind)
    k[1](np.zeros(4, kind), out.array, value)
    with np.errstate(all="ignore"):
        want = np.array([value]).astype(kind)
        zero = (want.astype(np.float64) + 0).astype(kind)
    same_bits(out.check(), np.concatenate([np.repeat(want, 4), np.repeat(zero, 4)]))


@pytest.mark.parametrize("dtype", [*HALVES, "float32"])
def test_softmax_of_large_and_of_excluded_logits(executor, dtype):
    """Large logits do not overflow, whether sigmoid, tanh or softmax; a row that is -inf throughout has NaN, as in
    NumPy."""
    kind = np.dtype(HALVES.get(dtype, dtype))
    k = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr):
    i = tt.arange(0, N)
    a = tt.load(x + i)
    tt.store(out + i, tt.softmax(a))
    tt.store(out + N + i, tt.tanh(a))
    tt.store(out + 2 * N + i, tt.sigmoid(a))
""")
    inf = np.inf
    for row, want in (
        ([1000.0, 1000.0, -1000.0, -inf], [0.5, 0.5, 0.0, 0.0]),
        ([-1000.0, -2000.0, -inf, -inf], [1.0, 0.0, 0.0, 0.0]),
        ([-inf] * 4, [np.nan] * 4),
    ):
        out = Guarded((3, 4), kind)
        k[1](np.array(row).astype(kind), out.array, 4)
        sign = np.sign(row)
        wanted = np.array([want, sign, (sign + 1) / 2])
        np.testing.assert_allclose(out.check().astype(np.float64), wanted, rtol=2e-7)


# -- the language ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["if n > 0:", "for i in range(n):", "while n > 0:"])
@pytest.mark.parametrize("what", ["def inner(x):", "class A:"])
def test_definitions_are_refused_in_every_block(interpreter, where, what):
    """The caret is under the definition, with what to do instead; nothing of Python's machinery comes through."""
    text = f"@tt.jit\ndef k(out, n):\n    {where}\n        {what}\n            pass\n        tt.store(out, 1)\n"
    with pytest.raises(tt.KernelSyntaxError) as caught:
        kernel(text)[1](np.zeros(1), 4)
    head, code, carets, message = str(caught.value).split("\n")
    assert (head, code.strip()) == ("kernel k, line 4:", what) and "define it at module level" in message
    assert code[carets.index("^") :] == what


LITERALS = {  # what a tile meets, and what comes of it
    "(u % 2).dtype == tt.uint32": True,
    "(u + 4294967295).dtype == tt.uint32": True,
    "tt.where(u > 2, h, 0).dtype == tt.float16": True,
    "tt.where(u > 2, 0.0, h).dtype == tt.float16": True,
    "(h + 2**11).dtype == tt.float16": True,
    "tt.maximum(h, 1e4).dtype == tt.float16": True,
    "(u + 4294967296).dtype == tt.uint32": "4294967296 is out of range for uint32",
    "(u - -1).dtype == tt.uint32": "-1 is out of range for uint32",
    "(h + 1e5).dtype == tt.float16": "100000.0 is out of range for float16",
    "(h * 10**6).dtype == tt.float16": "1000000 is out of range for float16",
    "tt.where(u > 2, u, -1).dtype == tt.uint32": "-1 is out of range for uint32",
}


@pytest.mark.parametrize("text", LITERALS)
def test_a_literal_has_the_type_of_what_it_meets(interpreter, text):
    """In every operation; one that does not fit is an error with the caret under the operation."""
    k = kernel(f"""
@tt.jit
def k(out):
    u = tt.arange(0, 8).to(tt.uint32)
    h = u.to(tt.float16)
    tt.static_assert({text})
    tt.store(out, 1)
""")
    out = np.zeros(1)
    if LITERALS[text] is True:
        k[1](out)
        assert out == 1
        return
    with pytest.raises(tt.KernelValueError) as caught:
        k[1](out)
    assert LITERALS[text] in str(caught.value) and "line 5:" in str(caught.value) and "^" in str(caught.value)


def test_stores_of_one_program_land_in_their_order(mapping):
    """A row, then its tail again, then every other element of the tail by other threads: the last one holds."""
    k = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr, H: tt.constexpr):
    i = tt.arange(0, N)
    j = tt.arange(0, H)
    tt.store(out + i, tt.load(x + i))
    tt.store(out + H + j, j)
    tt.store(out + N - 2 - 2 * tt.arange(0, H // 2), -j[:, None].to(tt.float32).sum())
    tt.store(out + N - 1 - i, tt.load(out + N - 1 - i) + 1)
""")
    n = 512
    x, out = np.random.default_rng(1).standard_normal(n).astype(np.float32), Guarded(n, np.float32)
    k[1](x, out.array, n, n // 2, num_warps=mapping.warps)
    want = x.copy()
    want[n // 2 :] = np.arange(n // 2)
    want[n // 2 :: 2] = -np.arange(n // 2).sum()
    same_bits(out.check(), want + 1)


# -- compiling ---------------------------------------------------------------------------------------------------------


def test_a_branch_after_a_sum_of_float16(mapping, monkeypatch):
    """The optimiser of OpenCL once took a store through another type for one that nobody reads."""
    monkeypatch.delenv("TINYTON_BUILD_OPTIONS", raising=False)
    k = kernel("""
@tt.jit
def k(out, on):
    i = tt.arange(0, 8)
    a = tt.full((8, 8), 12.0, tt.float16)
    b = a - tt.sum(a, 0)[None, :]
    c = b if on else a
    tt.store(out + i[:, None] + i[None, :] * 11, c)
""")
    out = np.full((8, 11), 7, np.float16)
    k[1](out, True, num_warps=mapping.warps)
    assert (out[:, :8] == -84).all() and (out[:, 8:] == 7).all()


def test_a_store_beside_a_reduction_in_a_branch(mapping, monkeypatch):
    """Lanes of padding stay off there too, with the optimiser of OpenCL on."""
    monkeypatch.delenv("TINYTON_BUILD_OPTIONS", raising=False)
    k = kernel("""
@tt.jit
def k(x, out, on, n):
    i = tt.arange(0, 64)
    j = tt.arange(0, 13)
    if on:
        tt.store(out + 51 - j[None, :] * 4, tt.min(tt.load(x + j)))
    t = i[:, None] + j[None, :]
    for s in range(n):
        t = t if on else j[None, :] + i[:, None]
""")
    out = Guarded(52, np.uint32)
    old = out.array.copy()
    k[1](np.arange(5, 18).astype(np.int8), out.array, True, 3, num_warps=mapping.warps)
    want = old.copy()
    want[3::4] = 5
    same_bits(out.check(), want)


def test_the_text_of_a_sorted_range_does_not_explode(executor):
    """What is cheap is computed again where it is needed, but not a network of it: the text grows with the ops."""
    k = kernel("""
@tt.jit
def k(out, on, N: tt.constexpr):
    i = tt.arange(0, N)
    tt.store(out + i, i if on else tt.sort(-i, 0))
""")
    out = Guarded(16, np.int32)
    k[1](out.array, False, 16)
    assert out.check().tolist() == list(range(-15, 1))
    assert len(k.compile(out.array, False, 16).source) < 50_000


TEXTS = """
@tt.jit
def k(x, out, n, M: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, M)
    j = tt.arange(0, N)
    a = tt.load(x + i[:, None] * N + j[None, :], mask=j[None, :] < n, other=0)
    for s in range(n):
        b = a * 2 if s > 1 else a + s
        a = b - tt.max(b, 1)[:, None]
        a += tt.sum(a, 0)[None, :]
    tt.store(out + j[None, :] * M + i[:, None], a)

print(k.compile(np.zeros(512, np.float32), np.zeros(512, np.float32), 3, 16, 32, num_warps=2).source)
"""


@pytest.mark.parametrize("name", [name for name in EXECUTORS if name != "interpreter"])
def test_the_generated_text_is_the_same_in_every_process(name, tmp_path):
    """Else the cache on disk would never hit: no order of a set or of addresses in memory comes through."""
    texts = {python(tmp_path, TEXTS, TINYTON_BACKEND=name, PYTHONHASHSEED=str(seed)).stdout for seed in (1, 2)}
    assert len(texts) == 1 and "tt.sum" in texts.pop()


def test_no_char_of_unknown_sign_is_computed_with(compiled_text):
    """C leaves it open whether char is signed: an int8 is signed char in every text."""
    assert "signed char" in compiled_text
    assert not re.search(r"(?<!signed )\bchar\b(?! shared_memory)", compiled_text)


@pytest.fixture(params=[name for name in EXECUTORS if name != "interpreter"])
def compiled_text(request, monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", request.param)
    k = kernel("""
@tt.jit
def k(x, out):
    i = tt.arange(0, 64)
    a = tt.load(x + i) * 3
    tt.store(out + i, a // 2 + tt.max(a))
""")
    return k.compile(np.zeros(64, np.int8), np.zeros(64, np.int8), num_warps=2).source


# -- notebooks ---------------------------------------------------------------------------------------------------------


def notebook(folder, *cells, tags=()):
    """A notebook that was never run, with one cell for each source; the last has the tags."""
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=notebooks.KERNEL)
    nb.cells[-1].metadata["tags"] = list(tags)
    path = folder / "chapter.ipynb"
    nbformat.write(nb, path)
    return path


def nbval(path, seconds=20):
    """How the test command runs a chapter."""
    options = ["--nbval", "--nbval-current-env", f"--nbval-cell-timeout={seconds}", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(path)],
        cwd=ROOT,
        env=os.environ | {"PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


def test_the_cells_of_chapters_have_a_timeout():
    """A cell that hangs must not hold a run for nbval's own half an hour."""
    seconds = re.search(r"--nbval-cell-timeout=(\d+)", (ROOT / "Makefile").read_text())
    assert seconds and int(seconds[1]) <= 600


def test_a_cell_that_raises_fails_the_run(tmp_path):
    """Under the test command and under the tool that writes a chapter's outputs; one that says so may."""
    from nbclient.exceptions import CellExecutionError

    path = notebook(tmp_path, "1 / 0")
    code, told = nbval(path)
    assert code == 1 and "1 failed" in told and "ZeroDivisionError" in told
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        notebooks.execute(notebooks.read(path))
    outputs = notebooks.execute(notebooks.read(notebook(tmp_path, "1 / 0", tags=["raises-exception"]))).cells[0].outputs
    assert outputs[0].ename == "ZeroDivisionError"


def test_a_kernel_that_dies_fails_the_run(tmp_path):
    """What ends the process of a notebook fails its cell once the timeout is over, and the tool at once."""
    from nbclient.exceptions import DeadKernelError

    path = notebook(tmp_path, "import os", "os._exit(3)", "1 + 1")
    code, told = nbval(path, seconds=3)
    assert code == 1 and "failed" in told
    with pytest.raises(DeadKernelError):
        notebooks.execute(notebooks.read(path))


def test_the_book_does_not_build_over_a_cell_that_raises():
    """Should the book's pages be run while it is built, an error ends the build."""
    sphinx = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]
    assert sphinx["nb_execution_raise_on_error"] is True
