"""The emulated GPU finds what it is there for: missing barriers, waits and threads, and accesses outside of memory."""

import ctypes
import re
from pathlib import Path

import emulator
import ml_dtypes
import numpy as np
import pytest
from emulator.translate import translate

import tinyton as tt
from conftest import choose, kernel, lowered
from tinyton.backends import nvcc
from tinyton.codegen.dialect import CUDA
from tinyton.codegen.ptx import PTX
from tinyton.passes import feed

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


def run(card, text, *arrays, threads=128, blocks=1, shared=0, cluster=1):
    """Runs the only kernel of a text on arrays, which it may change."""
    (symbol,) = re.findall(r"__global__ void\s+(\w+)\(", text)
    memory = [card.borrow(x) for x in arrays]
    packed = np.array([int(m) for m in memory], np.uint64).tobytes()
    card.start(emulator.load(text, symbol), (blocks, 1, 1), (threads, 1, 1), packed, shared, cluster)
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
        outs = [result(text[:start] + text[end:]) for _ in range(3)]
        assert any(out is None or (out != want.T).any() for out in outs), text[:start].count("\n")


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
        ("int a[1 << 20]; a[t] = t; x[t] = a[t];", "the stack, of which there is no more is accessed"),
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


# -- tensor cores, and what goes on by itself --------------------------------------------------------------------------

FRAGMENTS = """
template <class T> __device__ unsigned int bits(const T* at) { unsigned int b = 0; memcpy(&b, at, 4); return b; }
template <int P, class T> __device__ void fragments(const T* x, const T* y, int k, unsigned int* a, unsigned int* b) {
    const int row = threadIdx.x / 4, at = threadIdx.x % 4 * P;  // P elements a register; y is turned
    a[0] = bits(x + row * k + at), a[1] = bits(x + (row + 8) * k + at), b[0] = bits(y + row * k + at);
    const int then = at + 4 * P;
    a[2] = bits(x + row * k + then), a[3] = bits(x + (row + 8) * k + then), b[1] = bits(y + row * k + then);
}
__global__ void k(const TYPE* x, const TYPE* y, SUM* out) {
    unsigned int a[4], b[2];
    SUM d[4] = {1, 2, 3, 4};
    fragments<4 / sizeof(TYPE)>(x, y, DEPTH, a, b);
    multiply_KIND(d, a, b);
    const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 2;
    out[row * 8 + column] = d[0], out[row * 8 + column + 1] = d[1];
    out[row * 8 + 64 + column] = d[2], out[row * 8 + 64 + column + 1] = d[3];
}"""
F64 = """
__global__ void k(const double* x, const double* y, double* out) {
    const int row = threadIdx.x / 4, k = threadIdx.x % 4;
    double d[2] = {1, 2};
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(d[0]), "+d"(d[1]) : "d"(x[row * 4 + k]), "d"(y[row * 4 + k]));
    out[row * 8 + 2 * k] = d[0], out[row * 8 + 2 * k + 1] = d[1];
}"""
MATRICES = """
__global__ void k(unsigned short* x, unsigned int* out) {
    __shared__ __align__(16) unsigned short m[32 * 8];
    const int t = threadIdx.x;
    for (int k = 0; k < 8; ++k) m[t * 8 + k] = x[t * 8 + k];
    __syncthreads();
    const unsigned int row = (unsigned int)__cvta_generic_to_shared(m + t % 32 * 8);
    unsigned int* a = out + t * 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
        : "=r"(a[4]), "=r"(a[5]) : "r"(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a[6]) : "r"(row + 0));
}"""
COPIES = """
__global__ void k(const int* x, int* out) {
    __shared__ __align__(16) int m[4 * 128];
    __shared__ __align__(16) int n[4 * 128];
    const int t = threadIdx.x;
    const unsigned int to = (unsigned int)__cvta_generic_to_shared(m + 4 * t);
    const unsigned int then = (unsigned int)__cvta_generic_to_shared(n + 4 * t);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + 4 * t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(then + 8), "l"(x + 4 * t), "r"(4) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group LATER;" ::: "memory");
    for (int k = 0; k < 2; ++k) out[4 * t + k] = m[4 * t + k], out[4 * t + 2 + k] = n[4 * t + 2 + k];
}"""
KINDS = {
    "f16": ("unsigned short", np.float16, "float", 16),
    "bf16": ("unsigned short", ml_dtypes.bfloat16, "float", 16),
    "tf32": ("float", np.float32, "float", 8),
    "e4m3": ("unsigned char", ml_dtypes.float8_e4m3fn, "float", 32),
    "e5m2": ("unsigned char", ml_dtypes.float8_e5m2, "float", 32),
    "s8": ("signed char", np.int8, "int", 32),
    "u8": ("unsigned char", np.uint8, "int", 32),
}


def product(kind):
    word, _, sums, depth = KINDS[kind]
    head = PTX[f"multiply_{kind}"].format(fn=CUDA.function)
    text = FRAGMENTS.replace("TYPE", word).replace("SUM", sums).replace("DEPTH", str(depth))
    return head + text.replace("KIND", kind)


@pytest.mark.parametrize("kind", KINDS)
def test_product_of_a_warp(card, kind):
    _, dtype, sums, depth = KINDS[kind]
    rng = np.random.default_rng()
    x, y = (rng.integers(0 if kind == "u8" else -9, 10, (n, depth)).astype(dtype) for n in (16, 8))
    out = np.zeros((16, 8), "f4" if sums == "float" else "i4")
    run(card, product(kind), x, y, out, threads=32)
    start = np.tile([[1, 2]], (16, 4)) + 2 * (np.arange(16) >= 8)[:, None]
    assert (out == x.astype(float) @ y.astype(float).T + start).all()


def test_product_of_a_warp_in_float64(card):
    x, y = np.random.default_rng().standard_normal((2, 8, 4))
    out = np.zeros((8, 8))
    run(card, F64, x, y, out, threads=32)
    np.testing.assert_allclose(out, x @ y.T + np.tile([1, 2], 4), rtol=1e-14, atol=1e-14)


def test_matrices_of_a_warp(card):
    x = np.random.default_rng().integers(0, 1 << 16, (4, 8, 8)).astype(np.uint16)
    out = np.zeros((32, 8), np.uint32)
    run(card, MATRICES, x, out, threads=32)
    pairs = x.reshape(4, 8, 4, 2)
    rows = (pairs[..., 0] + (pairs[..., 1].astype(np.uint32) << 16)).reshape(4, 32)
    turned = x.transpose(0, 2, 1).reshape(4, 8, 4, 2)
    columns = (turned[..., 0] + (turned[..., 1].astype(np.uint32) << 16)).reshape(4, 32)
    assert (out[:, :4].T == rows).all() and (out[:, 4:6].T == columns[:2]).all() and (out[:, 6] == rows[0]).all()


def test_a_copy_is_there_when_it_is_waited_for(card):
    """Before that, some are and some are not."""
    x = np.arange(1, 513, dtype=np.int32).reshape(128, 4)
    want = np.stack([x[:, 0], x[:, 1], x[:, 0], 0 * x[:, 0]], 1)
    for later in range(3):
        out = np.zeros_like(want)
        run(card, COPIES.replace("LATER", str(later)), x, out)
        there = (out == want).reshape(128, 2, 2).all((0, 2)), (out == want).reshape(128, 2, 2).any((0, 2))
        assert [w.tolist() for w in there] == [[later < 2, later < 1], [True, True]]


BOXES = """
struct __align__(64) Map { char hidden[128]; };
__global__ void k(const __grid_constant__ Map x, const __grid_constant__ Map y, unsigned short* seen) {
    __shared__ __align__(1024) unsigned short tile[32 * 64];
    __shared__ __align__(8) unsigned long long barrier[1];
    const int t = threadIdx.x;
    const unsigned int to = (unsigned int)__cvta_generic_to_shared(tile);
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(1) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(4096) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&x), "r"(-3), "r"(5), "r"(at) : "memory");
    }
    asm volatile("{ .reg .pred there;\\n again%=: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\\n"
        "@!there bra again%=; }" :: "r"(at), "r"(0) : "memory");
    for (int k = t; k < 2048; k += 128) seen[k] = tile[k / 64 * 64 + (k % 64 ^ k / 64 % 8 * 8)];
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
            :: "l"(&y), "r"(-3), "r"(5), "r"(to) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""


def tensor_map(card, memory, rows, columns):
    """Of boxes of 32 by 64 of an array of 16-bit elements, in shared memory with swizzled rows of 128 bytes."""
    made, words = ctypes.create_string_buffer(128), ctypes.c_uint64 * 2
    shape, box = words(columns, rows), (ctypes.c_uint * 2)(64, 32)
    card.machine.simt_tensor_map(made, ctypes.c_void_p(int(memory)), 2, 2, shape, words(2 * columns), box, 128, 0)
    return made.raw


def test_boxes_of_arrays(card):
    """From outside of the array come zeros, and nothing goes there."""
    x = np.random.default_rng().integers(1, 1 << 16, (33, 56)).astype(np.uint16)
    memory = [card.borrow(a) for a in (x, 0 * x, np.zeros((32, 64), np.uint16))]
    packed = b"".join(tensor_map(card, m, *x.shape) for m in memory[:2]) + int(memory[2]).to_bytes(8, "little")
    card.start(emulator.load(BOXES, "k"), (1, 1, 1), (128, 1, 1), packed)
    out, seen = np.zeros_like(x), np.zeros((32, 64), np.uint16)
    card.read(memory[1], out), card.read(memory[2], seen)
    want = np.zeros((32, 64), np.uint16)
    want[:28, 3:59] = x[5:]
    assert (seen == want).all()
    assert (out[5:] == x[5:]).all() and not out[:5].any()
    hasty = emulator.load(BOXES.replace("@!there bra again%=; ", ""), "k")  # it asks once, and does not wait
    for _ in range(100):
        card.start(hasty, (1, 1, 1), (128, 1, 1), packed)
        card.read(memory[2], seen)
        if (seen != want).any():
            return
    pytest.fail("nobody came too early")


MEET = """asm volatile("barrier.cluster.arrive.release;\\n barrier.cluster.wait.acquire;" ::: "memory");"""
EXCHANGE = """
__global__ void k(int* out) {  // in clusters of four
    __shared__ int mine[128];
    const int t = threadIdx.x, rank = blockIdx.x % 4;
    if (t >= 96) return;
    mine[t] = 1000 * blockIdx.x + t;
    MEET
    const int* theirs;
    asm("mapa.u64 %0, %1, %2;" : "=l"(theirs) : "l"(mine), "r"((rank + 1) % 4));
    out[blockIdx.x * 128 + t] = theirs[95 - t];
    LAST
}"""


def exchanged(card, text):
    out = np.zeros((8, 128), np.int32)
    run(card, text, out, blocks=8, cluster=4)
    block, t = np.arange(8)[:, None], np.arange(96)
    return (out[:, :96] == 1000 * (block // 4 * 4 + (block + 1) % 4) + 95 - t).all()


def test_blocks_of_a_cluster_read_what_others_have(card):
    """Threads that have ended are not waited for; without the barrier, some come too early."""
    assert exchanged(card, EXCHANGE.replace("MEET", MEET).replace("LAST", MEET))
    assert not all(exchanged(card, EXCHANGE.replace("MEET", "").replace("LAST", MEET)) for _ in range(20))


def test_barriers_of_a_cluster_are_checked(card):
    words = "arrive.release", "wait.acquire"
    arrive, wait = (f'asm volatile("barrier.cluster.{word};" ::: "memory");' for word in words)
    for statements, told in (
        (
            f"if (rank) {{ {MEET} }} else if (t < 5) __syncthreads();",
            "deadlock: .*288 wait at a barrier of the clus",
        ),
        (f"{arrive} {arrive}", "a thread arrives twice at a barrier of the cluster"),
        (wait, "a thread waits at a barrier of the cluster before it arrives"),
    ):
        with pytest.raises(tt.BackendError, match=told):
            exchanged(card, EXCHANGE.replace("MEET", statements).replace("LAST", ""))


@pytest.mark.nvcc
@pytest.mark.skipif(nvcc.find("nvcc") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nvcc_takes_these_texts(arch):
    known = [kind for kind in KINDS if arch == "sm_90a" or kind not in ("e4m3", "e5m2")]
    later = [BOXES, EXCHANGE.replace("MEET", MEET).replace("LAST", MEET)] * (arch == "sm_90a")
    texts = [*map(product, known), F64, MATRICES, COPIES.replace("LATER", "0"), *later]
    text = "\n".join(f"namespace t{k} {{{one}}}" for k, one in enumerate(texts))
    assert nvcc.to_ptx(text, arch, ["-std=c++17"]).count(b"mma.sync") == len(known) + 1


PRODUCT = """
@tt.jit
def k(a, b, c, M, N, K, TURNED: tt.constexpr, BM: tt.constexpr, BN: tt.constexpr, BK: tt.constexpr, SUM: tt.constexpr):
    i = tt.program_id(0) * BM + tt.arange(0, BM)
    j = tt.program_id(1) * BN + tt.arange(0, BN)
    acc = tt.zeros((BM, BN), SUM)
    for first in range(0, K, BK):
        k = first + tt.arange(0, BK)
        if TURNED:
            x = tt.trans(tt.load(a + k[:, None] * M + i[None, :], mask=(i[None, :] < M) & (k[:, None] < K)))
            y = tt.trans(tt.load(b + j[:, None] * K + k[None, :], mask=(j[:, None] < N) & (k[None, :] < K)))
        else:
            x = tt.load(a + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K))
            y = tt.load(b + k[:, None] * N + j[None, :], mask=(j[None, :] < N) & (k[:, None] < K))
        acc = tt.dot(x, y, acc, input_precision="tf32")
    tt.store(c + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))
"""
M, N, K = 100, 80, 96


def factors(kind):
    _, dtype, sums, _ = KINDS[kind]
    rng = np.random.default_rng()
    a, b = (rng.integers(0 if kind == "u8" else -4, 5, shape).astype(dtype) for shape in ((M, K), (K, N)))
    return a, b, np.zeros((M, N), "f4" if sums == "float" else "i4")


@pytest.mark.parametrize("tile", [(64, 64, 32), (16, 32, 64), (128, 32, 64)], ids=str)
@pytest.mark.parametrize(
    "kind, warps", [("f16", 1), ("f16", 4), ("bf16", 8), ("tf32", 4), ("e4m3", 4), ("s8", 4), ("u8", 1)]
)
def test_products_of_tiles(kind, warps, tile, monkeypatch):
    """Through a ring of copies: by warps, and by warp-groups where the tile is large enough."""
    choose("emulator", monkeypatch)
    k, (bm, bn, bk) = kernel(PRODUCT), tile
    for turned in (False, True):
        a, b, out = factors(kind)
        given = [np.ascontiguousarray(x.T) if turned else x for x in (a, b)]
        sums = tt.float32 if out.dtype == "f4" else tt.int32
        grid = tt.cdiv(M, bm), tt.cdiv(N, bn)
        k[grid](*given, out, M, N, K, TURNED=turned, BM=bm, BN=bn, BK=bk, SUM=sums, num_warps=warps)
        assert (out == a.astype(float) @ b.astype(float)).all()
    for turned, one in zip((False, True), k._cache.values(), strict=True):
        rows = bn if kind == "tf32" and not turned else bm  # of what is multiplied from registers
        groups = rows >= 64 and (warps == 4 or warps == 8 and rows == 128)
        assert "cp.async." in one.source and ("wgmma." if groups else "mma.sync") in one.source


CUTS = r"copies_wait<\d>", "__syncthreads", "warpgroup_fence", r"warpgroup_wait<\d>", r"warpgroup_wait_\w+"
CUTS = [(False, rf"{cut}\(\w*\);") for cut in CUTS]
CUTS += [(True, rf"{cut}\([^;]*;") for cut in ("__syncthreads", "barrier_expects", "copy_box_2", "barrier_arrive")]
CUTS += [(True, r"barrier_wait\([^;^]*\);"), (True, r"barrier_wait\([^;]*\^ 1\);"), (True, r"warpgroup_wait<\d>\(\);")]


@pytest.mark.parametrize(("fed", "cut"), CUTS)
def test_without_its_waits_a_product_is_wrong(card, fed, cut, monkeypatch):
    """A group of warps multiplies tiles that come through a ring; each of these is needed in the loop, or, if a warp of
    their own feeds them, in the kernel."""
    choose("emulator", monkeypatch)
    monkeypatch.setattr(feed, "ALWAYS", fed)
    a, b, out = factors("f16")
    words = {"TURNED": False, "BM": 64, "BN": 64, "BK": 16, "SUM": tt.float32, "num_warps": 4}
    compiled = kernel(PRODUCT).compile(a, b, out, M, N, K, **words)
    assert bool(compiled.low.maps) == fed
    loop = compiled.source.index("k_kernel(" if fed else "for (unsigned int rounds")
    place = re.compile(cut).search(compiled.source, loop)
    function = emulator.load(compiled.source[: place.start()] + compiled.source[place.end() :], compiled.low.symbol)
    compiled.loaded = compiled.loaded._replace(function=function)
    wrong = False
    for _ in range(5):
        try:
            compiled[2, 2](a, b, out, M, N, K)
            wrong |= (out != a.astype(float) @ b.astype(float)).any()
        except tt.BackendError as error:
            wrong |= fed or "wgmma" in str(error)
    assert wrong


def test_ptx_is_in_one_place():
    """So that what stands in for it has all of it; `ops/assembly.py` writes what a user gives it."""
    package = Path(tt.__file__).parent
    texts = {p.relative_to(package).as_posix(): p.read_text(encoding="utf-8") for p in package.rglob("*.py")}
    found = {path for path, text in texts.items() if re.search(r"\basm( volatile)?\(", text)}
    assert found == {"codegen/ptx.py", "ops/assembly.py"}
