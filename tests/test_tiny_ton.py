"""Kernels in tiny-ton's style: literal tiles, constexpr arguments by position, arrays changed in place, one-element
arrays for numbers, one shared buffer."""

import numpy as np
import pytest

import tinyton
import tinyton as tiny_ton
import tinyton as tt
from conftest import choose, kernel, lowered, mappings, same_bits

RNG = np.random.default_rng()


@tiny_ton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n):
    pid = tiny_ton.program_id(0)
    offs = pid * 64 + tiny_ton.arange(0, 64)
    mask = offs < n
    a = tiny_ton.load(a_ptr + offs, mask=mask)
    b = tiny_ton.load(b_ptr + offs, mask=mask)
    tiny_ton.store(c_ptr + offs, a + b, mask=mask)


@tinyton.jit
def scale_kernel(x_ptr, factor, shift, n, BLOCK: tinyton.constexpr):
    offs = tinyton.program_id(axis=0) * BLOCK + tinyton.arange(0, BLOCK)
    x = tinyton.load(x_ptr + offs, mask=offs < n, other=0.0)
    tinyton.store(x_ptr + offs, x * factor + shift, mask=offs < n)


@tt.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK: tt.constexpr):
    row = tt.program_id(0)
    cols = tt.arange(0, BLOCK)
    x = tt.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    e = tt.exp(x - tt.reduce_max(x))
    tt.store(y_ptr + row * n_cols + cols, e / tt.reduce_sum(e), mask=cols < n_cols)


@tt.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, n_ptr, eps_ptr, BLOCK: tt.constexpr):
    row = tt.program_id(0)
    n = tt.load(n_ptr)
    cols = tt.arange(0, BLOCK)
    mask = cols < n
    x = tt.load(x_ptr + row * BLOCK + cols, mask=mask)
    mean = tt.reduce_sum(x) / n
    centred = tt.where(mask, x - mean, 0.0)
    scale = tt.rsqrt(tt.reduce_sum(centred * centred) / n + tt.load(eps_ptr))
    y = centred * scale * tt.load(w_ptr + cols, mask=mask) + tt.load(b_ptr + cols, mask=mask)
    tt.store(y_ptr + row * BLOCK + cols, tt.relu(y), mask=mask)


@tt.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K):
    """One element of C a thread of a 16 x 16 block; A's and B's tiles go through the shared buffer."""
    tid = tt.arange(0, 256)
    ty = tid // 16
    tx = tid % 16
    row = tt.program_id(1) * 16 + ty
    col = tt.program_id(0) * 16 + tx
    acc = 0.0
    for k in range(0, K, 16):
        inside_a = (row < M) & (k + tx < K)
        inside_b = (k + ty < K) & (col < N)
        tt.shared_store(tid, tt.load(a_ptr + row * K + k + tx, mask=inside_a), buffer_size=512)
        tt.shared_store(256 + tid, tt.load(b_ptr + (k + ty) * N + col, mask=inside_b), buffer_size=512)
        tt.sync()
        for j in range(16):
            acc += tt.shared_load(ty * 16 + j, buffer_size=512) * tt.shared_load(256 + j * 16 + tx, buffer_size=512)
        tt.sync()
    tt.store(c_ptr + row * N + col, acc, mask=(row < M) & (col < N))


@tt.jit
def volume_kernel(out_ptr, X, Y):
    x, y, z = tt.program_id(0), tt.program_id(1), tt.program_id(2)
    tt.store(out_ptr + (z * Y + y) * X + x, 100 * z + 10 * y + x)


@tt.jit
def dot_kernel(x_ptr, y_ptr, out_ptr, n):
    i = tt.arange(0, 64)
    acc = 0.0
    for k in range(0, n, 256):
        p = k + i * 4
        a, b, c, d = tt.load4(x_ptr + p)
        e, f, g, h = tt.load4(y_ptr + p)
        acc = acc + a * e + b * f + c * g + d * h
    tt.store(out_ptr, tt.reduce_sum(acc))


def test_vector_add(executor):
    for n, dtype in ((1, np.int32), (200, np.float32), (130, np.float16)):
        a, b = (RNG.integers(-100, 100, n).astype(dtype) for _ in range(2))
        c = np.zeros(n, dtype)
        add_kernel[(-(-n // 64),)](a, b, c, n)
        same_bits(c, a + b)


def test_in_place_with_scalars(executor):
    x = RNG.standard_normal(100).astype(np.float32)
    want = x * np.float32(2.5) + np.float32(3)
    scale_kernel[(2,)](x, 2.5, 3, 100, 64)  # the constexpr by position
    same_bits(x, want)


def test_softmax(executor):
    x = (RNG.standard_normal((5, 27)) * 10).astype(np.float32)
    for block in (27, 32):
        y = np.zeros_like(x)
        softmax_kernel[(5,)](x, y, 27, block)
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("dtype", (np.float32, np.float16))
def test_layer_norm(executor, dtype):
    x = RNG.standard_normal((3, 64)).astype(dtype)
    w, b = RNG.standard_normal((2, 64)).astype(dtype)
    y = np.zeros_like(x)
    n, eps = np.array([50], np.float32), np.array([1e-5], np.float32)
    layer_norm_kernel[(3,)](x, w, b, y, n, eps, 64)
    v = x[:, :50].astype(np.float64)
    want = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5) * w[:50] + b[:50]
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype == np.float32 else {"rtol": 2e-2, "atol": 2e-2}
    np.testing.assert_allclose(y[:, :50], np.maximum(want, 0), **near)
    assert not y[:, 50:].any()


@pytest.mark.parametrize("pair", mappings(None, 1, 2, 8))
def test_matmul_through_shared_memory(pair, monkeypatch):
    choose(pair[0], monkeypatch)
    m, n, k = 20, 35, 40
    a, b = RNG.standard_normal((m, k)).astype(np.float32), RNG.standard_normal((k, n)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    matmul_kernel[(3, 2)](a, b, c, m, n, k, num_warps=pair[1])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_three_dimensional_grid(executor):
    out = np.zeros((2, 3, 4), np.int32)
    volume_kernel[(4, 3, 2)](out, 4, 3)
    z, y, x = np.indices(out.shape)
    assert (out == 100 * z + 10 * y + x).all()


def test_load4(executor):
    x, y = RNG.standard_normal((2, 512)).astype(np.float32)
    out = np.zeros(1, np.float32)
    dot_kernel[(1,)](x, y, out, 512)
    np.testing.assert_allclose(out[0], x.astype(float) @ y, rtol=1e-4, atol=1e-4)


def test_load4_of_a_scalar_pointer(executor):
    x, out = np.arange(10, dtype=np.int16), np.zeros(4, np.int16)
    kernel("""
@tt.jit
def k(x, out):
    a, b, c, d = tt.load4(x + 3)
    tt.store(out, d)
    tt.store(out + 1, c)
    tt.store(out + 2, b)
    tt.store(out + 3, a)
""")[1](x, out)
    assert out.tolist() == [6, 5, 4, 3]


def test_elementwise_names(executor):
    x, y = RNG.standard_normal((2, 64)).astype(np.float32)
    out = np.zeros((5, 64), np.float32)
    kernel("""
@tt.jit
def k(x, y, out):
    i = tt.arange(0, 64)
    a, b = tt.load(x + i), tt.load(y + i)
    tt.store(out + i, tt.relu(a))
    tt.store(out + 64 + i, tt.abs(a))
    tt.store(out + 128 + i, tt.max(a, b))
    tt.store(out + 192 + i, tt.max(a, 0.0))
    low = float("inf") if False else -float("inf")
    tt.store(out + 256 + i, tt.max(tt.where(a > b, a, low), b))
""")[1](x, y, out)
    low = np.maximum(x, y)
    same_bits(out + 0, np.stack([np.maximum(x, 0), np.abs(x), low, np.maximum(x, 0), low]) + 0)


# -- the shared buffer -------------------------------------------------------------------------------------------------

REVERSE = """
@tt.jit
def k(x, out, n):
    i = tt.arange(0, 128)
    a = tt.load(x + i)
    for r in range(n):
        tt.shared_store(i, a)
        a = tt.shared_load(127 - i)
        tt.shared_store(127 - i, a)
        a = tt.shared_load((i + 1) % 128) + tt.shared_load(r)
    tt.store(out + i, a)
"""


ORDER = [(p, "int32") for p in mappings(None, 1, 2, 4, 8)]
ORDER += [(p, d) for p in mappings(None, 4) for d in ("bool", "uint8", "float16", "float32", "int64")]


@pytest.mark.parametrize("pair, dtype", [pytest.param(*p.values, d, id=f"{p.id}-{d}") for p, d in ORDER])
def test_program_order_needs_no_sync(pair, dtype, monkeypatch):
    """Stores before loads and loads before stores, of other threads' elements, round after round."""
    choose(pair[0], monkeypatch)
    text = REVERSE.replace(" + tt.shared_load(r)", " | tt.shared_load(r)") if dtype == "bool" else REVERSE
    x = RNG.integers(0, 2 if dtype == "bool" else 9, 128).astype(dtype)
    a = x.copy()
    out = np.zeros_like(x)
    kernel(text)[1](x, out, 3, num_warps=pair[1])
    for r in range(3):
        a = np.roll(a, -1) | a[r] if dtype == "bool" else np.roll(a, -1) + a[r]
    same_bits(out, a)


def test_between_reductions_and_moves(mapping):
    """What the compiler itself puts into shared memory stays away from the kernel's buffer."""
    x = RNG.integers(-50, 50, (32, 64)).astype(np.int32)
    out, total = np.zeros((64, 32), np.int32), np.zeros(4, np.int32)
    kernel("""
@tt.jit
def k(x, out, total):
    i, j = tt.arange(0, 32), tt.arange(0, 64)
    a = tt.load(x + i[:, None] * 64 + j[None, :])
    tt.shared_store(j, tt.sum(a, 0), 80)
    s = tt.sum(tt.sum(a, 1) * i)
    for r in range(2):
        s += tt.sum(tt.max(a + r, 1))
        tt.shared_store(64 + r, s)
    tt.store(out + i[:, None] + j[None, :] * 32, a + tt.shared_load(j)[None, :])
    tt.store(total, s)
    tt.store(total + 1, tt.shared_load(64))
    tt.store(total + 2, tt.shared_load(65))
    tt.store(total + 3, tt.sum(tt.shared_load(j)))
""")[1](x, out, total, num_warps=mapping.warps)
    assert (out == (x + x.sum(0)).T).all()
    first = (x.sum(1) * np.arange(32)).sum() + x.max(1).sum()
    assert total.tolist() == [first + (x + 1).max(1).sum(), first, first + (x + 1).max(1).sum(), x.sum()]


WRONG = {
    "tt.shared_store(i, 1.5)\n    a = tt.shared_load(i + 1)": (
        "OutOfBoundsError",
        "reads element 8 of the shared buffer, which has elements 0 to 7, lane (7,)",
    ),
    "tt.shared_store(i - 1, 1.5)": ("OutOfBoundsError", "writes element -1 of the shared buffer"),
    "tt.shared_store(8, 1, 8)": ("OutOfBoundsError", "writes element 8 of the shared buffer"),
    "tt.shared_store(0, 1.5, 9)\n    tt.store(x + i, tt.shared_load(i))": (
        "UninitialisedError",
        "reads element 1 of the shared buffer, which nothing has written",
    ),
    "tt.shared_store(i, 1.5)\n    tt.shared_store(i, i)": (
        "KernelTypeError",
        "the shared buffer holds float32, by line 4, tt.shared_store(i, 1.5); this stores i32[8]: write .to(",
    ),
    "a = tt.shared_load(i)": ("KernelTypeError", "nothing is in the shared buffer yet"),
    "tt.shared_store(0, i)": ("KernelTypeError", "a tile of shape [8] cannot be stored to one index"),
    "tt.shared_store(i * 1.0, i)": ("KernelTypeError", "an index is an integer, not f32[8]"),
    "tt.shared_store(i, i, n)": ("KernelTypeError", "buffer_size must be known when the kernel is compiled"),
    "tt.shared_store(i, i, 0)": ("KernelValueError", "at least 1 element, not 0"),
    "tt.shared_store(i, x)": ("KernelTypeError", "write .to(tt."),
    "tt.shared_store(i // 2, i)": ("RaceError", "stores different values to element 0 of the shared buffer"),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong(interpreter, call):
    k = kernel(f"@tt.jit\ndef k(x, n):\n    i = tt.arange(0, 8)\n    {call}\n    tt.store(x + i, 0)")
    kind, message = WRONG[call]
    if "a = " in call:
        k = kernel(f"@tt.jit\ndef k(x, n):\n    i = tt.arange(0, 8)\n    {call}\n    tt.store(x + i, a)")
    with pytest.raises(getattr(tt, kind)) as e:
        k[1](np.zeros(8, np.float32), 7)
    assert message in str(e.value) and "^" in str(e.value)


def test_through_branches_and_loops(mapping):
    x = RNG.standard_normal(64).astype(np.float32)
    k = kernel("""
@tt.jit
def k(x, out, n):
    i = tt.arange(0, 64)
    a = tt.load(x + i)
    if n > 3:
        tt.shared_store(i, a * 2)
        b = tt.shared_load(63 - i)
    else:
        tt.shared_store(i, a)
        b = tt.shared_load(i)
    r = 0
    while r < n:
        tt.shared_store((i + r) % 64, b)
        b = tt.shared_load(i) + 1
        r += 1
    tt.store(out + i, b + tt.shared_load(0))
""")
    for n in (0, 2, 5):
        out, held = np.zeros(64, np.float32), x * 2 if n > 3 else x.copy()
        b = held[::-1] if n > 3 else held
        for r in range(n):
            held = np.roll(b, r)
            b = held + 1
        k[1](x, out, n, num_warps=mapping.warps)
        same_bits(out, b + held[0])


def test_each_program_has_a_buffer_of_its_own(executor):
    out = np.zeros(4, np.int64)
    kernel("""
@tt.jit
def k(out):
    pid = tt.program_id(0)
    tt.shared_store(0, pid.to(tt.int64) * 5)
    tt.debug_barrier()
    tt.store(out + pid, tt.shared_load(0))
""")[4](out)
    assert out.tolist() == [0, 5, 10, 15]


def test_the_buffer_is_no_traffic_of_arrays():
    x = np.zeros(64, np.float32)
    k = kernel("""
@tt.jit
def k(x):
    i = tt.arange(0, 64)
    tt.shared_store(i, tt.load(x + i))
    tt.store(x + i, tt.shared_load(63 - i))
""")
    assert tt.count(k, 1, x).bytes == 512


def test_load4_is_one_access_of_a_gpu():
    types = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*float32:16") | {"n": "int32"}
    text = lowered(dot_kernel, types, threads=64).source
    assert text.count("load_float32x4(&") == 2 and "convert" not in text
