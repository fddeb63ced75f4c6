"""The emulated GPU finds what it is there for: missing barriers, waits and threads, and accesses outside of memory."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tinyton as tt
from conftest import choose, kernel, lowered
from tests import emulator
from tests.emulator.translate import translate

pytestmark = pytest.mark.skipif(emulator.unusable() is not None, reason=str(emulator.unusable()))
SUM = """
__global__ void total(const int* x, int* out) {
    __shared__ int part[128];
    part[threadIdx.x] = x[threadIdx.x];
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}"""


@pytest.fixture(scope="module")
def card():
    return emulator.Executor(7)


def run(card, text, *arrays, threads=128, blocks=1, shared=0):
    """Runs the only kernel of a text on arrays, which it may change."""
    (symbol,) = re.findall(r"__global__ void\s+(\w+)\(", text)
    memory = [card.borrow(x) for x in arrays]
    packed = np.array([int(m) for m in memory], np.uint64).tobytes()
    card.start(emulator.load(text, symbol), (blocks, 1, 1), (threads, 1, 1), packed, shared)
    for x, m in zip(arrays, memory, strict=True):
        card.give_back(m, x)


def body(statements, declared="int* x, int* y"):
    return f"__global__ void k({declared}) {{ const int t = threadIdx.x; {statements} }}"


def test_a_sum_through_shared_memory(card):
    x, out = np.arange(128, dtype=np.int32), np.zeros(3, np.int32)
    run(card, SUM, x, out, blocks=3)
    assert out.tolist() == [128 * 127 // 2] * 3


def test_without_the_barrier_it_is_wrong(card):
    x, out = np.arange(128, dtype=np.int32), np.zeros(20, np.int32)
    run(card, SUM.replace("__syncthreads();", ""), x, out, blocks=20)
    assert (out != 128 * 127 // 2).all()


def test_each_barrier_of_a_generated_kernel_is_needed(card, monkeypatch):
    """Without any one of them, the result is wrong, whatever else is right."""
    choose("emulator", monkeypatch)
    k = kernel("""
@tt.jit
def k(x, out, N: tt.constexpr):
    i, j = tt.arange(0, N)[:, None], tt.arange(0, N)[None, :]
    a = tt.load(x + i * N + j)
    for _ in range(3):
        a = a - tt.max(a, 1)[:, None] + tt.sum(a, 0)[None, :]
    tt.store(out + j * N + i, a)
""")
    text = lowered(k, {"x": "*int32:16", "out": "*int32:16"}, N=32).source
    x = np.random.default_rng(0).integers(-100, 100, (32, 32)).astype(np.int32)
    want = x.copy()
    for _ in range(3):
        want = want - want.max(1, keepdims=True) + want.sum(0)

    def result(text):
        out = np.zeros_like(x)
        try:
            run(card, text, x, out)
        except tt.BackendError:
            return None
        return out

    assert (result(text) == want.T).all()
    places = [m.span() for m in re.finditer(r"__syncthreads\(\);", text)]
    assert len(places) >= 2
    for start, end in places:
        out = result(text[:start] + text[end:])
        assert out is None or (out != want.T).any(), text[:start].count("\n")


def test_every_block_finds_poison(card):
    """What the block before has left is not there."""
    out = np.zeros(8, np.int32)
    run(card, body("__shared__ int last[1]; y[blockIdx.x] = last[0]; last[0] = 5;"), out, out.copy(), blocks=8)
    y = np.zeros(8, np.int32)
    run(card, body("__shared__ int last[1]; x[blockIdx.x] = last[0]; last[0] = 5;"), y, out, threads=1, blocks=8)
    assert set(y.tolist()) <= {-1, 0x7E7E7E7E}


@pytest.mark.parametrize(
    "statements, told",
    [
        ("if (t != 5) __syncthreads();", r"deadlock: 1 of 64 threads have ended; 63 wait at __syncthreads"),
        ("if (t < 32) __syncthreads(); else __syncwarp();", "deadlock: 32 of 64 threads have ended"),
        ("if (t < 32) __syncthreads(); else __syncthreads_or(1);", "thread .* is at .*, others wait at"),
        ("x[t] = __shfl_sync(1, t, 0);", "a shuffle has a mask without the lane that calls it"),
        ("if (t % 2) __syncwarp(); else __ballot_sync(~0u, 1);", "is at .*, others wait at"),
        ("__shared__ int s[64]; int* p = s; p[t + y[0]] = 1;", "byte 256 of the 256 of a shared array is accessed"),
        ("x[t + y[0]] = 1;", "byte 256 of an array of 256 is accessed in thread .63, 0., in block .0, 0, 0."),
        ("int a[4]; a[t] = t; x[0] = a[y[0]];", "misaligned, or an index is outside of its array"),
        ("x[0] = ((int2*)(x + 1))->x;", "misaligned, or an index is outside of its array"),
        ("x[t] = x[t] / (y[0] - 1);", "an integer is divided by zero"),
        ("assert(t < y[0]);", "an assertion does not hold: t < y.0. in thread"),
        ("__builtin_assume(t < y[0]);", "what is assumed does not hold: t < y.0. in thread"),
        ("if (t == 3) __trap();", "the kernel has trapped in thread .3, 0.,"),
        ("int a[1 << 16]; a[t] = t; x[t] = a[t];", "the stack, of which there is no more is accessed"),
    ],
)
def test_what_is_wrong_is_told(card, statements, told):
    x = np.ones(64, np.int32)
    with pytest.raises(tt.BackendError, match=f"{told}.*TINYTON_EMULATOR_SEED=7"):
        run(card, body(statements), x, x.copy(), threads=64)
    run(card, body("x[t] = t;"), x, x.copy(), threads=64)  # it goes on
    assert x.tolist() == list(range(64))


def test_a_seed_decides_the_order_of_threads():
    orders = []
    for seed in (1, 1, 2):
        x, y = np.zeros(64, np.int32), np.zeros(1, np.int32)
        run(emulator.Executor(seed), body("x[atomicAdd(y, 1)] = t;"), x, y, threads=64)
        assert sorted(x.tolist()) == list(range(64)) != x.tolist()
        orders.append(x.tolist())
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("width", [32, 8])
def test_shuffles_and_votes(card, width):
    out = np.zeros((8, 64), np.int32)
    parts = "__shfl_sync(m, t, 5, w)", "__shfl_xor_sync(m, t, 3, w)", "__shfl_up_sync(m, t, 2, w)"
    parts += "__shfl_down_sync(m, t, 2, w)", "__ballot_sync(m, t % 3 == 0)", "__any_sync(m, t == 40)"
    parts += "__all_sync(m, t < 40)", "__syncthreads_count(t < 40)"
    stores = " ".join(f"x[{k} * 64 + t] = {p};" for k, p in enumerate(parts))
    run(card, body(f"const unsigned m = ~0u; const int w = {width}; {stores}"), out, np.zeros(1), threads=64)
    t = np.arange(64)
    first = t // width * width
    assert (out[0] == first + 5).all() and (out[1] == (t ^ 3)).all()
    assert (out[2] == np.where(t - 2 >= first, t - 2, t)).all()
    assert (out[3] == np.where(t + 2 < first + width, t + 2, t)).all()
    bits = [sum(1 << k for k in range(32) if (k + start) % 3 == 0) for start in (0, 32)]
    assert (out[4].view(np.uint32) == np.repeat(np.uint32(bits), 32)).all()
    assert (out[5] == (t >= 32)).all() and (out[6] == (t < 32)).all() and (out[7] == 40).all()


def test_lanes_that_have_ended_are_not_waited_for(card):
    x = np.zeros(32, np.int32)
    run(card, body("if (t < 7) return; x[t] = __shfl_sync(~0u, t, 9);"), x, x.copy(), threads=32)
    assert x.tolist() == [0] * 7 + [9] * 25


# -- PTX ---------------------------------------------------------------------------------------------------------------


def test_ptx_becomes_calls():
    text = """asm volatile("{ .reg .pred p; .reg .b32 t;\\n"
        "setp.ne.b32 p, %2, 0; @!p bra done%=; // a remark\\n"
        "mma.x.y::z {%0, %1}, {%3, %3}, [%4 + 16, {%2}], 1;\\n done%=: }"
        : "=f"(d[0]), "+f"(d[(1)]) : "n"(N), "r"(a), "l"(p) : "memory");"""
    assert translate(text) == (
        "{ { bool p; unsigned int t; ptx::setp_ne_b32(p, (int)(N), 0); if (!p) goto done0; "
        "ptx::mma_x_y_z(ptx::out((d[0]), (d[(1)])), ptx::in((unsigned int)(a), (unsigned int)(a)), "
        "(unsigned long long)(p) + 16, ptx::in((int)(N)), 1); done0:; } }\n\n\n;"
    )


def test_half_precision_is_rounded_as_numpy_does(card):
    rng = np.random.default_rng()
    x = rng.integers(0, 1 << 32, 4096, np.uint64).astype(np.uint32).view(np.float32)
    x[:2048] = rng.standard_normal(2048) * 10.0 ** rng.integers(-8, 6, 2048)
    out = np.zeros((2, 4096), np.uint16)
    convert = 'asm("cvt.rn.{}.f32 %0, %1;" : "=h"(y[k + {}]) : "f"(x[k]));'
    text = "for (int k = t; k < 4096; k += 128) {" + convert.format("f16", 0) + convert.format("bf16", 4096) + "}"
    run(card, body(text, "const float* x, unsigned short* y"), x, out)
    with np.errstate(all="ignore"):
        for got, dtype in zip(out, (np.float16, ml_dtypes.bfloat16), strict=True):
            want = x.astype(dtype).view(np.uint16)
            assert ((got == want) | np.isnan(x)).all() and np.isnan(got.view(dtype)[np.isnan(x)].astype(float)).all()


def test_ptx_is_in_one_place():
    """So that what stands in for it has all of it; `ops/assembly.py` writes what a user gives it."""
    package = Path(tt.__file__).parent
    texts = {p.relative_to(package).as_posix(): p.read_text(encoding="utf-8") for p in package.rglob("*.py")}
    found = {path for path, text in texts.items() if re.search(r"\basm( volatile)?\(", text)}
    assert found == {"codegen/ptx.py", "ops/assembly.py"}
