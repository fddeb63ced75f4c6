"""Hints and promises: how accesses use caches, what the user knows of values, instructions of the card's own."""

import re

import numpy as np
import pytest

import tinyton as tt
from conftest import Guarded, kernel, lowered, same_bits
from tinyton.backends import nvcc

needs_nvcc = pytest.mark.skipif(nvcc.find("nvcc") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")

COPY = """
@tt.jit
def k(x, out, n, BLOCK: tt.constexpr, LOAD: tt.constexpr, STORE: tt.constexpr, EVICT: tt.constexpr, V: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    a = tt.load(x + i, mask=i < n, cache_modifier=LOAD, eviction_policy=EVICT, volatile=V)
    tt.store(out + i, a, mask=i < n, cache_modifier=STORE, eviction_policy=EVICT)
    tt.store(out + n, tt.load(x, cache_modifier=LOAD, volatile=V), cache_modifier=STORE)
"""
LOADS, STORES = ("", ".ca", ".cg", ".cs", ".cv"), ("", ".wb", ".cg", ".cs", ".wt")
CHOICES = [*zip(LOADS, STORES, ["", "evict_first", "evict_last", "", ""], [False] * 5, strict=True), ("", "", "", True)]


@pytest.mark.parametrize("dtype", ("bool", "int8", "float16", "int64", "float64"))
def test_caches_change_no_result(executor, dtype):
    k, n = kernel(COPY), 150
    x = np.random.default_rng().integers(0, 100, n).astype(dtype)
    for choice in CHOICES:
        out = Guarded(n + 1, dtype)
        k[2](x, out.array, n, 128, *choice)
        same_bits(out.check(), np.append(x, x[:1]))


@pytest.mark.nvcc
@needs_nvcc
@pytest.mark.parametrize("dtype", ("bool", "bfloat16", "int64"))
def test_caches_in_ptx(dtype):
    k, signature = kernel(COPY), {"x": f"*{dtype}:16", "out": f"*{dtype}:16", "n": "int32:16"}

    def words(load, store, evict="", volatile=False):
        ptx = tt.compile(k, signature, BLOCK=2048, LOAD=load, STORE=store, EVICT=evict, V=volatile).ptx
        found = [m for m in re.findall(r"\b((?:ld|st)\.[\w.]+)", ptx) if "param" not in m]
        return {m for m in found if m[:2] == "ld"}, {m for m in found if m[:2] == "st"}

    for load, store in ((".cg", ".wt"), (".cs", ".cs"), (".cv", ".cg")):
        loads, stores = words(load, store)
        ways = [".volatile", ".cv"] if load == ".cv" else [load]
        assert all(any(w in m for w in ways) for m in loads), loads
        assert all(store in m for m in stores) and any(".v" in m for m in (*loads, *stores)), (loads, stores)
    loads, stores = words("", "", "evict_first")
    assert any(".cs" in m for m in loads) and any(".cs" in m for m in stores)
    loads, _ = words("", "", volatile=True)
    assert loads and all(".volatile" in m for m in loads), loads


REFUSED = {
    'tt.load(x + i, cache_modifier=".xy")': 'cache_modifier is one of "", ".ca", ".cg", ".cs", ".cv"; not \'.xy\'',
    'tt.load(x + i, cache_modifier=".wb")': "not '.wb'",
    'tt.load(x + i, eviction_policy="first")': 'eviction_policy is one of "", "evict_first", "evict_last"',
    'tt.store(x + i, 1, cache_modifier=".ca")': 'one of "", ".wb", ".cg", ".cs", ".wt"; not \'.ca\'',
    "tt.multiple_of(i, (4, 4))": "a number for each of 1 dimensions",
    "tt.multiple_of(i, 0)": "from 1 on, not 0",
    "tt.max_contiguous(tt.load(x + i), 4)": "for integers and pointers, not f32[8]",
    "tt.assume(i)": "assume takes a condition, not i32[8]",
    'tt.inline_asm_elementwise("", "=r,r", [i], tt.int32, True, 2)': "pack is 1",
    'tt.inline_asm_elementwise("", "=r", [i], tt.int32, True, 1)': "1 results and 1 arguments, but 1 constraints",
    'tt.inline_asm_elementwise("", "r,r", [i], tt.int32, True, 1)': "constraint 0, 'r', is not = and a letter",
    'tt.inline_asm_elementwise("", "=r,f", [i], tt.int32, True, 1)': "constraint 1, 'f', does not fit int32",
    'tt.inline_asm_elementwise("", "=r,h", [i], tt.int32, True, 1)': "constraint 1, 'h', does not fit int32",
    'tt.inline_asm_elementwise("", "=r,=r,r", [i], (tt.int32, tt.int32), False, 1)': "they must be pure",
}


@pytest.mark.parametrize("call", REFUSED)
def test_refused(interpreter, call):
    keep = "" if "store" in call or "assume" in call else "a = "
    text = f"@tt.jit\ndef k(x):\n    i = tt.arange(0, 8)\n    {keep}{call}"
    with pytest.raises(tt.TinytonError) as e:
        kernel(text)[1](np.zeros(8, np.float32))
    assert REFUSED[call] in str(e.value) and "^" in str(e.value)


# -- promises ----------------------------------------------------------------------------------------------------------

KEPT = """
@tt.jit
def k(x, out, stride, n, BLOCK: tt.constexpr):
    stride = tt.multiple_of(stride, 8)
    tt.assume(n > 0)
    i = tt.max_contiguous(tt.multiple_of(tt.program_id(0) * BLOCK + tt.arange(0, BLOCK), BLOCK), BLOCK)
    rows = tt.multiple_of(tt.arange(0, 4) * stride, 8)[:, None]
    at = tt.max_contiguous(tt.multiple_of(rows + i[None, :], (1, 8)), (1, BLOCK))
    same = tt.max_constancy(i // BLOCK, BLOCK)
    tt.assume(i[None, :] >= 0)
    p = tt.multiple_of(x + at, (4, 4))
    a = tt.load(p, mask=i[None, :] < n)
    tt.store(out + at, a + same[None, :], mask=i[None, :] < n)
"""


def test_promises_that_hold_change_no_result(mapping):
    x = np.random.default_rng().standard_normal((4, 120)).astype(np.float32)
    out = Guarded((4, 120), np.float32)
    kernel(KEPT)[4](x, out.array, 120, 119, BLOCK=32, num_warps=mapping.warps)
    got = out.check()
    same_bits(got[:, :119], x[:, :119] + np.arange(119, dtype=np.float32) // 32)
    assert (got[:, 119].view(np.uint32) == 0xA5A5A5A5).all()


def test_promises_widen_accesses():
    """Vectors need an aligned start: with the hint one knows it, of values that the compiler does not understand."""
    text = """
@tt.jit
def k(x, out, order, BLOCK: tt.constexpr, HINT: tt.constexpr):
    first = tt.load(order + tt.program_id(0))
    i = (first ^ 64) + tt.arange(0, BLOCK)
    if HINT == "first":
        i = tt.multiple_of(first ^ 64, 16) + tt.arange(0, BLOCK)
    elif HINT == "tile":
        i = tt.max_contiguous(tt.multiple_of((first ^ 64) + (tt.arange(0, BLOCK) ^ 0), 16), BLOCK)
    elif HINT == "group":
        i = tt.max_contiguous(tt.multiple_of((first ^ 64) + (tt.arange(0, BLOCK) ^ 0), 16), 16)
    tt.store(out + i, tt.load(x + i))
"""
    k, signature = kernel(text), {"x": "*float32:16", "out": "*float32:16", "order": "*int32"}
    for hint, wide in (("none", False), ("first", True), ("tile", True), ("group", False)):
        low = lowered(k, signature, BLOCK=512, HINT=hint)
        assert ("float32x4" in low.source) == wide, hint


def test_a_promise_about_a_dimension_goes_with_it_or_away():
    text = """
@tt.jit
def k(x, out, TURN: tt.constexpr):
    r, c = tt.arange(0, 32) ^ 0, tt.arange(0, 32) ^ 0
    i = tt.multiple_of(r[:, None] * 32 + c[None, :], (1, 16))  # where a row starts, not a column
    if TURN:
        i = tt.permute(i, (1, 0))
    i = tt.max_contiguous(i, (1, 32))
    tt.store(out + i, tt.load(x + i))
"""
    k, signature = kernel(text), {"x": "*float32:16", "out": "*float32:16"}
    assert "float32x4" in lowered(k, signature, TURN=False).source
    assert "float32x4" not in lowered(k, signature, TURN=True).source


BROKEN = {
    "tt.multiple_of(n, 4)": "program (0, 0, 0): 7, is no multiple of 4, as multiple_of has promised",
    "tt.multiple_of(i + n, 4)": "element 0, 7, is no multiple of 4",
    "tt.multiple_of(i * 2, 4)": "element 1, 2, is no multiple of 4",
    "tt.max_contiguous(i // 4, 2)": "element 1, 0, is not 1 more than the one before it, in its group of 2",
    "tt.max_contiguous(i[:, None] * 8 + i[None, :], (2, 8))": "element 1, 0, 8, is not 1 more",
    "tt.max_constancy(i // 4, 8)": "element 4, 1, is not equal to the one before it, in its group of 8",
    "tt.multiple_of(x + n, 16)": "a pointer, is no multiple of 16",
    "tt.assume(n == 8)": "what the kernel assumes does not hold",
    "tt.assume(i < 7)": "what the kernel assumes does not hold",
}


@pytest.mark.parametrize("call", BROKEN)
def test_the_interpreter_finds_broken_promises(interpreter, call):
    use = f"tt.store(out, tt.load({call}))" if "x +" in call else f"tt.store(out, tt.max({call}))"
    use = call if "assume" in call else use.replace("tt.max", "") if "(n," in call else use
    text = f"@tt.jit\ndef k(x, out, n):\n    i = tt.arange(0, 8)\n    {use}"
    with pytest.raises(tt.HintError) as e:
        kernel(text)[1](np.zeros(8, np.float32), np.zeros(8, np.float32), 7)
    assert BROKEN[call] in str(e.value) and "^" in str(e.value)


def test_kept_promises_of_runs_are_no_errors(interpreter):
    """Runs of consecutive numbers start at multiples; what is cut off to 0 is one too."""
    out = np.zeros(8, np.int32)
    kernel("""
@tt.jit
def k(out, n):
    i = 16 + tt.arange(0, 8)
    tt.store(out + tt.arange(0, 8), tt.multiple_of(tt.where(i < n, i, 0), 4))
""")[1](out, 21)
    assert out.tolist() == [16, 17, 18, 19, 20, 0, 0, 0]


def test_offsets_under_a_hint_are_wide(executor):
    """The product would wrap in 32 bits; the promise is about the whole number."""
    x, out = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    kernel("""
@tt.jit
def k(x, out, big):
    i = tt.arange(0, 4)
    at = tt.multiple_of(big * 65536, 4) + i
    tt.store(out + i, tt.load(x + at - big.to(tt.int64) * 65536))
""")[1](x, out, 65537)
    assert out.tolist() == [0, 1, 2, 3]


# -- assembly ----------------------------------------------------------------------------------------------------------

ASM = '''
@tt.jit
def k(x, h, y, B: tt.constexpr):
    i = tt.arange(0, B)
    a, b = tt.load(x + i), tt.load(h + i)
    r = tt.inline_asm_elementwise("""{
        .reg .b32 t;
        shf.l.wrap.b32 t, $1, $2, 7;  // 100%, "quoted"
        mov.b32 $0, t; }""", "=r,r,r", [a, i], tt.int32, is_pure=True, pack=1)
    low, high = tt.inline_asm_elementwise(
        "min.f32 $0, $2, $3; max.f32 $1, $2, $3;", "=f,=&f,f,f", (a, b), (tt.float32, tt.float16), True, 1)
    c = tt.inline_asm_elementwise("neg.f16 $0, $1;", "=h,h", [b], tt.float16, True, 1)
    w = tt.inline_asm_elementwise("cvt.u64.u32 $0, $1;", "=l,r", [i.to(tt.uint8)], tt.int64, True)
    lane = tt.inline_asm_elementwise("mov.u32 $0, %laneid;", "=r", [], tt.int32, False, 1)
    tt.store(y + i, r + low + high + c + lane + w)
'''


@pytest.mark.nvcc
@needs_nvcc
def test_assembly_compiles():
    built = tt.compile(kernel(ASM), ["*float32:16", "*float16:16", "*float32:16"], B=256)
    for word in ("shf.l.wrap.b32", "min.f32", "max.f32", "neg.f16", "%laneid", "cvt.u64.u32"):
        assert word in built.ptx
    assert built.cubin


def test_assembly_on_other_executors(executor):
    if executor in ("cuda", "emulator"):
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.int32)
        kernel("""
@tt.jit
def k(x, y):
    i = tt.arange(0, 64)
    tt.store(y + i, tt.inline_asm_elementwise("brev.b32 $0, $1;", "=r,r", [tt.load(x + i)], tt.int32, True, 1))
""")[1](x, y)
        bits = [int(f"{v:032b}"[::-1], 2) for v in x.view(np.uint32)]
        assert (y.view(np.uint32) == bits).all()
        return
    arrays = np.zeros(64, np.float32), np.zeros(64, np.float16), np.zeros(64, np.float32)
    with pytest.raises(tt.BackendError) as e:
        kernel(ASM)[1](*arrays, 64)
    assert "PTX, which only the cuda executor runs" in str(e.value) and "^" in str(e.value)
