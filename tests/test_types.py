"""Which element type an operation gives: two tiles, a tile and a literal, scalar arguments; rounding and folding."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import Guarded, kernel, same_bits

BY_NAME = tt.dtypes.BY_NAME
INTS = [d for d in tt.dtypes.ALL if d.kind in "iu"]
FLOATS = [d for d in tt.dtypes.ALL if d.is_float]

MIXED = """
@tt.jit
def k(out, A: tt.constexpr, B: tt.constexpr, WANT: tt.constexpr):
    a = tt.zeros(4, A)
    b = tt.full(4, 1, B)
    tt.static_assert((a * b).dtype == WANT, f"{(a * b).dtype}")
    tt.static_assert(tt.where(a < b, a, b).dtype == WANT)
    tt.static_assert(tt.maximum(b, a).dtype == WANT)
    tt.static_assert((a < b).dtype == tt.bool_)
    tt.store(out + tt.arange(0, 4), a * b)
"""


def together(a, b):
    """The rule, or what the error tells to write."""
    if a is b or b is tt.bool_:
        return a
    if a is tt.bool_:
        return b
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.kind == b.kind:
        if a.bits == b.bits:
            return ".to(tt.float32)"  # float16 and bfloat16
        return max(a, b, key=lambda d: d.bits)
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    return signed if signed.bits > unsigned.bits else f".to(tt.int{min(64, 2 * unsigned.bits)})"


@pytest.mark.parametrize(("a", "b"), list(itertools.product(tt.dtypes.ALL, repeat=2)), ids=str)
def test_two_types_meet(interpreter, a, b):
    if a is b is tt.bool_:
        return
    want, out = together(a, b), np.zeros(4)
    if isinstance(want, str):
        with pytest.raises(tt.KernelTypeError) as caught:
            kernel(MIXED)[1](out, a, b, None)
        assert f"{a} and {b} have no common type" in str(caught.value)
        assert want in str(caught.value)
        assert "^" in str(caught.value)
    else:
        kernel(MIXED)[1](out, a, b, want)
        assert out.tolist() == [0.0] * 4


def test_bool_is_no_number(interpreter):
    k = kernel("""
@tt.jit
def k(out):
    on = tt.arange(0, 4) < 2
    tt.store(out + tt.arange(0, 4), on + on)
""")
    with pytest.raises(tt.KernelTypeError, match=r"not defined on bool.*\.to\(tt.int32\)"):
        k[1](np.zeros(4))


LITERAL = """
@tt.jit
def k(out, A: tt.constexpr, L: tt.constexpr, WANT: tt.constexpr):
    r = tt.zeros(4, A) + L
    tt.static_assert(r.dtype == WANT, f"{r.dtype}")
    tt.static_assert(tt.where(tt.arange(0, 4) < 2, L, tt.zeros(4, A)).dtype == WANT)
    tt.store(out + tt.arange(0, 4), r)
"""


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS], ids=str)
def test_an_int_literal_takes_its_partners_type(executor, dtype):
    out = np.zeros(4)
    kernel(LITERAL)[1](out, dtype, 96, dtype)
    assert out.tolist() == [96.0] * 4


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_an_int_literal_out_of_range(interpreter, dtype):
    low, high = dtype.range
    for literal in (low, high):
        kernel(LITERAL)[1](np.zeros(4), dtype, literal, dtype)
    for literal in (low - 1, high + 1):
        with pytest.raises(tt.KernelValueError, match=f"{literal} is out of range for {dtype}"):
            kernel(LITERAL)[1](np.zeros(4), dtype, literal, dtype)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS], ids=str)
def test_a_float_literal_keeps_a_float_and_makes_an_int_float32(executor, dtype):
    want = dtype if dtype.is_float else tt.float32
    out = np.zeros(4)
    kernel(LITERAL)[1](out, dtype, 0.1, want)
    exact = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
    exact |= {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
    assert out.tolist() == [float(exact[want.name](0.1))] * 4


@pytest.mark.parametrize(("dtype", "literal"), [(tt.float16, 65520.0), (tt.bfloat16, 3.4e38), (tt.float32, 1e39)])
def test_a_float_literal_out_of_range(interpreter, dtype, literal):
    with pytest.raises(tt.KernelValueError, match="is out of range for"):
        kernel(LITERAL)[1](np.zeros(4), dtype, literal, dtype)
    kernel(LITERAL)[1](np.zeros(4), dtype, float("-inf"), dtype)


def test_literals_alone(interpreter):
    kernel("""
@tt.jit
def k(out):
    tt.static_assert(tt.where(tt.arange(0, 4) < 2, 1, 0).dtype == tt.int32)
    tt.static_assert(tt.where(tt.arange(0, 4) < 2, 1, 1 << 40).dtype == tt.int64)
    tt.static_assert(tt.where(tt.arange(0, 4) < 2, 1, 0.5).dtype == tt.float32)
    tt.static_assert(tt.where(tt.arange(0, 4) < 2, True, False).dtype == tt.bool_)
    tt.static_assert(tt.maximum(tt.arange(0, 4) < 2, 2).dtype == tt.int32)
    tt.static_assert(7 // 2 == 3 and -7 // 2 == -4 and -7 % 3 == 2 and 7 / 2 == 3.5 and 2**10 == 1024)
    tt.store(out, 1)
""")[1](np.zeros(1))


# -- scalar arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1, 16, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)])
def test_an_int_argument_is_int32_if_it_fits_else_int64(executor, value):
    k = kernel("""
@tt.jit
def k(out, n, WANT: tt.constexpr):
    tt.static_assert(n.dtype == WANT, f"{n.dtype}")
    tt.store(out, n)
    tt.store(out + 1, n // 7)
    tt.store(out + 2, n % 7)
""")
    out = np.zeros(3, np.int64)
    k[1](out, value, tt.int32 if -(2**31) <= value < 2**31 else tt.int64)
    assert out.tolist() == [value, value // 7, value % 7]


def test_numpy_scalars_and_bools_are_arguments(executor):
    k = kernel("""
@tt.jit
def k(out, n, f, on):
    tt.static_assert(n.dtype == tt.int32 and on.dtype == tt.bool_)
    tt.store(out, tt.where(on, n, 0))
    tt.store(out + 1, f)
    tt.store(out + 2, 1 if on else 2)
""")
    for on in (True, np.False_):
        out = np.zeros(3, np.float32)
        k[1](out, np.uint8(200), np.float16(0.5), on)
        assert out.tolist() == [200.0 if on else 0.0, 0.5, 1.0 if on else 2.0]


def test_a_float_argument_takes_its_partners_type(executor):
    k = kernel("""
@tt.jit
def k(out, f):
    z = tt.arange(0, 1)
    tt.static_assert(f.dtype == tt.float32)
    tt.static_assert((f + 1).dtype == tt.float32)
    tt.static_assert((f + z).dtype == tt.float32)
    tt.static_assert((f * tt.zeros(1, tt.float16)).dtype == tt.float16)
    tt.static_assert((tt.zeros(1, tt.bfloat16) + f).dtype == tt.bfloat16)
    tt.static_assert((tt.zeros(1, tt.float64) + f).dtype == tt.float64)
    tt.store(out + z, tt.zeros(1, tt.float16) + f)
    tt.store(out + z + 1, tt.zeros(1, tt.bfloat16) + f)
    tt.store(out + z + 2, z + f)
    tt.store(out + z + 3, tt.zeros(1, tt.float64) + f)
    tt.store(out + 4, f)
    tt.store(out + 5, f.to(tt.float64))
    tt.store(out + z + 6, tt.full(1, f, tt.float64))
    tt.store(out + 7, f * 1)
""")
    out = np.zeros(8)
    k[1](out, 0.1)
    half, bfloat, single = float(np.float16(0.1)), float(ml_dtypes.bfloat16(0.1)), float(np.float32(0.1))
    assert out.tolist() == [half, bfloat, single, 0.1, 0.1, 0.1, 0.1, single]


def test_an_argument_is_never_specialised_on_its_value(executor):
    k = kernel("""
@tt.jit
def k(out, n, f):
    tt.store(out + tt.arange(0, 4), n.to(tt.float32) * f)
""")
    for n, f in itertools.product((0, 1, 2, 15), (0.0, 1.0, 2.5)):
        out = np.zeros(4, np.float32)
        k[1](out, n, f)
        assert out.tolist() == [n * f] * 4
    assert len(k._cache) == 1


def test_an_argument_beyond_64_bits(executor):
    k = kernel("""
@tt.jit
def k(out, n):
    tt.store(out, n)
""")
    with pytest.raises(tt.LaunchError, match="argument n is 9223372036854775808, which does not fit int64"):
        k[1](np.zeros(1), 2**63)


# -- rounding and folding ----------------------------------------------------------------------------------------------


def halves(dtype, n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(n).astype(dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_are_rounded_after_every_operation(executor, dtype):
    k = kernel(
        """
@tt.jit
def k(x, y, z, out, N: tt.constexpr):
    i = tt.arange(0, N)
    a, b, c = tt.load(x + i), tt.load(y + i), tt.load(z + i)
    r = (a * b + c) / (a + b) - c
    r += a
    tt.store(out + i, r * 0.1)
""".replace(
            "a, b, c = tt.load(x + i), tt.load(y + i), tt.load(z + i)",
            """a = tt.load(x + i)
    b = tt.load(y + i)
    c = tt.load(z + i)""",
        )
    )
    a, b, c = halves(dtype, 256)
    out = Guarded(256, dtype)
    k[1](a, b, c, out.array, 256)

    def step(function, x, y):
        return function(x.astype(np.float32), np.asarray(y).astype(np.float32)).astype(dtype)

    quotient = step(np.divide, step(np.add, step(np.multiply, a, b), c), step(np.add, a, b))
    total = step(np.add, step(np.subtract, quotient, c), a)
    same_bits(out.check(), step(np.multiply, total, dtype(0.1)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_contraction_with_the_optimiser_on(executor, dtype, monkeypatch):
    """a * b + c is two roundings on every executor, and so are quotients and roots one each."""
    monkeypatch.delenv("TINYTON_BUILD_OPTIONS", raising=False)
    k = kernel("""
@tt.jit
def k(x, y, z, out, N: tt.constexpr):
    i = tt.arange(0, N)
    a = tt.load(x + i)
    b = tt.load(y + i)
    c = tt.load(z + i)
    tt.store(out + i, a * b + c)
    tt.store(out + N + i, a * b - c * a)
    tt.store(out + 2 * N + i, a / b)
    tt.store(out + 3 * N + i, tt.sqrt(tt.abs(c)) - a * a)
    tt.store(out + 4 * N + i, (a + b) - a)
""")
    a, b, c = (v.astype(dtype) for v in halves(np.float64, 512, 3))
    out = Guarded((5, 512), dtype)
    k[1](a, b, c, out.array, 512)
    want = np.stack([a * b + c, a * b - c * a, a / b, np.sqrt(np.abs(c)) - a * a, (a + b) - a])
    same_bits(out.check(), want)


FOLD = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "/": np.divide,
    "<": np.less,
    "==": np.equal,
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64", "float16", "bfloat16", "float32"])
def test_folded_is_what_tiles_give(executor, dtype):
    """The same operation on compile-time scalars, which the compiler computes itself."""
    is_float = BY_NAME[dtype].is_float
    kind = np.dtype(dtype) if dtype != "bfloat16" else np.dtype(ml_dtypes.bfloat16)
    ops = [op for op in FOLD if not (is_float and op in "&|^<<>>")] + (["<"] if is_float else [])
    ops = list(dict.fromkeys(ops))
    pairs = [(7, 2), (7, 0), (0, 7), (100, 100)]
    pairs += [(-7, 2), (7, -2), (-7, 0), (-7, 7)] if not dtype.startswith("u") else []
    pairs += [(0.1, 0.3), (float("inf"), 2.0), (0.0, -0.0)] if is_float else []
    lines = [
        f"tt.store(out + {k}, tt.full((), X, T) {op} tt.full((), Y, T))".replace("X", repr(x)).replace("Y", repr(y))
        for k, (op, (x, y)) in enumerate(itertools.product(ops, pairs))
    ]
    text = "@tt.jit\ndef k(out, T: tt.constexpr):\n" + "".join(f"    {line}\n" for line in lines)
    out = Guarded(len(lines), np.float64)
    kernel(text.replace("inf", "float('inf')"))[1](out.array, BY_NAME[dtype])
    want = []
    for op, (x, y) in itertools.product(ops, pairs):
        x, y = (np.array([v]).astype(kind) for v in (x, y))
        if is_float:
            x, y = (v.astype(np.float32) for v in (x, y)) if dtype != "float64" else (x, y)
        elif op == "/":
            x, y = x.astype(np.float32), y.astype(np.float32)
        with np.errstate(all="ignore"):
            value = FOLD[op](x, y)
        want.append(float((value.astype(kind) if is_float and value.dtype != bool else value)[0]))
    same_bits(out.check(), np.array(want))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_cdiv_rounds_up(executor, dtype):
    k = kernel("""
@tt.jit
def k(x, y, out, N: tt.constexpr):
    i = tt.arange(0, N)
    r = tt.cdiv(tt.load(x + i), tt.load(y + i))
    tt.static_assert(r.dtype == x.dtype)
    tt.store(out + i, r)
    tt.store(out + N + i, tt.cdiv(tt.load(x + i), 5))
""")
    values = [0, 1, 4, 5, 6, 9, 10, 100] + ([-1, -4, -5, -6] if dtype.startswith("i") else [6, 7, 8, 90])
    x, y = (np.array(v, dtype).ravel() for v in np.meshgrid(values, [v for v in values if v]))
    x, y = np.resize(x, 128), np.resize(y, 128)
    out = Guarded((2, 128), dtype)
    k[1](x, y, out.array, 128)
    want = [[-(-int(p) // int(q)) for p, q in zip(x, ys, strict=True)] for ys in (y, [5] * 128)]
    assert out.check().tolist() == want
    assert tt.cdiv(10, 4) == 3


def test_pythons_min_max_abs_are_elementwise_on_tiles(executor):
    k = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr):
    i = tt.arange(0, N)
    a = tt.load(x + i)
    tt.store(out + i, max(a, 2.0))
    tt.store(out + N + i, min(a, 0.5, -a))
    tt.store(out + 2 * N + i, abs(a))
    tt.store(out + 3 * N + i, tt.max(a, -a))
    tt.store(out + 4 * N + i, tt.min(a, 1.0))
    tt.store(out + 5 * N + i, a + max(3, 4) + min(1, 2) + abs(-1))
""")
    a = np.linspace(-4, 4, 64, dtype=np.float32)
    out = Guarded((6, 64), np.float32)
    k[1](a, out.array, 64)
    want = [np.maximum(a, 2), np.minimum(np.minimum(a, 0.5), -a), np.abs(a), np.abs(a), np.minimum(a, 1), a + 4 + 1 + 1]
    same_bits(out.check(), np.stack(want).astype(np.float32))
