"""Programs of small tiles share a hardware block: which do, with how many threads, and that nobody notices."""

import re

import numpy as np
import pytest

import tinyton as tt
from conftest import Guarded, choose, kernel, lowered, mappings
from tinyton.backends import nvcc
from tinyton.jit import as_type
from tinyton.passes.threads import BLOCK
from tinyton.replay import for_gpu

ADD = """
@tt.jit
def k(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)
"""
SOFTMAX = """
@tt.jit
def k(x, out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    row = tt.load(x + tt.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tt.exp(row - tt.max(row))
    tt.store(out + tt.program_id(0) * n + i, e / tt.sum(e), mask=i < n)
"""
needs_nvcc = pytest.mark.skipif(nvcc.find("nvcc") is None, reason="nvcc is not installed: pip install 'tinyton[nvcc]'")


def test_great_tiles_keep_their_threads():
    signature = {"x": "*float32:16", "out": "*float32:16", "n": "int32:16"}
    assert lowered(kernel(SOFTMAX), signature, threads=512, share=True, BLOCK=8192).block[:2] == (512, 1)


def block(text, dtype, **meta):
    """Threads and programs of a block that the compiler chooses on a GPU, for pointers x, y, out and an int n."""
    k = kernel(text)
    signature = {n: "int32:16" if n == "n" else f"*{dtype}:16" for n in k.runtime}
    return lowered(k, signature, share=True, **meta).block[:2]


@pytest.mark.parametrize(
    ("dtype", "size", "want"),
    [
        *[("float32", n, (max(2, n // 4), 64 if n < 8 else 512 // n)) for n in (2, 4, 8, 32, 64, 128, 256)],
        *[("float32", n, (128, 1)) for n in (512, 1024, 4096)],
        *[("float16", 256, (16, 8)), ("bfloat16", 1024, (64, 2))],
        *[
            ("float64", 128, (64, 2)),
            ("float64", 256, (128, 1)),
            ("int8", 1024, (64, 2)),
            ("int8", 32, (2, 64)),
            ("float32", 1, (1, 128)),
            ("float32", 100, (32, 4)),
        ],
    ],
)
def test_a_thread_moves_sixteen_bytes_or_elements(dtype, size, want):
    threads, programs = block(ADD, dtype, BLOCK=size)
    assert (threads, programs) == want and threads * programs == BLOCK


@pytest.mark.parametrize(
    ("size", "want"), [(8, (2, 64)), (32, (4, 32)), (64, (8, 16)), (256, (32, 4)), (1024, (32, 4)), (2048, (128, 1))]
)
def test_rows_that_a_warp_can_reduce(size, want):
    assert block(SOFTMAX, "float32", BLOCK=size) == want


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("tt.store(out + tt.program_id(0), n)", (1, 128)),  # no tile at all
        ("tt.store(out + i, tt.load(x + i)); tt.debug_barrier(); tt.store(out + 64 + i, 1)", (128, 1)),
        ("tt.store(out + i, tt.load(x + i)); tt.store(out + 63 - i, 1)", (128, 1)),  # elements of other threads
        ("tt.store(out + i[:4], tt.histogram(tt.load(x + i).to(tt.int32), 4))", (128, 1)),
        ("tt.atomic_add(out + i, tt.load(x + i))", (16, 8)),
        ("tt.store(out + i, tt.rand(n, i))", (16, 8)),
        ("tt.device_print('x', tt.load(x + i))", (16, 8)),
        ("tt.device_assert(tt.load(x + i) > 0, 'no')", (32, 4)),  # stopped by warps
        ("for j in range(n): tt.store(out + j * 64 + i, tt.load(x + j * 64 + i))", (16, 8)),
        ("for j in range(n): tt.store(out + j, tt.sum(tt.load(x + j * 64 + i)))", (32, 4)),
        ("j = 0\n    while j < n:\n        j += 1", (32, 4)),  # it may wait for another program of its warp
        ("tt.store(out + i[:, None] * 64 + i, tt.load(x + i)[:, None] + tt.load(x + i))", (128, 1)),
        ("tt.store(out + tt.arange(0, 4)[:, None] * 16 + i[:16], tt.sum(tt.load(x + i)) + 0.0)", (8, 16)),
    ],
)
def test_what_shares_a_block(body, want):
    text = f"@tt.jit\ndef k(x, out, n):\n    i = tt.arange(0, 64)\n    {body.replace('i[:4]', 'tt.arange(0, 4)')}"
    assert block(text.replace("i[:16]", "tt.arange(0, 16)"), "float32") == want


def test_the_text():
    source = lowered(
        kernel(ADD), {**dict.fromkeys(["x", "y", "out"], "*float32:16"), "n": "int32"}, share=True, BLOCK=32
    )
    for line in (
        "// kernel k, 8 threads a program, 16 programs a block",
        "k_kernel(float* x, float* y, float* out, const int n, const int programs)",
        "    const int program = (int)blockIdx.x * 16 + (int)threadIdx.y;\n    if (program >= programs) return;",
        "    const int thread = threadIdx.x;",
        "program * 32",
    ):
        assert line in source.source
    opencl = lowered(
        kernel(ADD), {**dict.fromkeys(["x", "y", "out"], "*int32"), "n": "int32"}, "opencl", share=True, BLOCK=32
    )
    assert "reqd_work_group_size(8, 16, 1)" in opencl.source and "get_local_id(1)" in opencl.source


def test_shuffles_reach_no_other_program():
    source = lowered(kernel(SOFTMAX), {"x": "*float32:16", "out": "*float32:16", "n": "int32"}, share=True, BLOCK=64)
    assert source.block == (8, 16, 1)
    assert set(re.findall(r"__shfl_xor_sync\(0xffffffff, \w+, (\d+)\)", source.source)) == {"1", "2", "4"}
    assert (
        "__shfl_xor_sync"
        not in lowered(
            kernel(SOFTMAX), {"x": "*float32", "out": "*float32", "n": "int32"}, "opencl", share=True, BLOCK=64
        ).source
    )  # it has no shuffles: there a reduction needs shared memory


@pytest.mark.parametrize("mapping", mappings(None), indirect=True)
@pytest.mark.parametrize("size", [1, 4, 32, 100, 128, 512])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_sums_of_vectors(mapping, dtype, size):
    n = int(np.random.default_rng().integers(1, 4000))
    x, y = np.random.default_rng().integers(-50, 50, (2, n)).astype(dtype)
    out, k = Guarded(n, dtype), kernel(ADD)
    k[tt.cdiv(n, size)](x, y, out.array, n, BLOCK=size)
    assert (out.check() == x + y).all()


@pytest.mark.parametrize("mapping", mappings(None), indirect=True)
@pytest.mark.parametrize("n", [1, 7, 64, 200, 500])
def test_softmax_of_short_rows(mapping, n):
    k = kernel(SOFTMAX)
    for rows in (1, 3, 16, 17, 1000):
        x = np.random.default_rng().standard_normal((rows, n)).astype(np.float32)
        out = Guarded((rows, n), np.float32)
        k[rows](x, out.array, n, BLOCK=tt.next_power_of_2(n))
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        np.testing.assert_allclose(out.check(), e / e.sum(1, keepdims=True), rtol=1e-5)


WHERE = """
@tt.jit
def k(out, programs, thread: tt.constexpr):
    program = (tt.program_id(2) * tt.num_programs(1) + tt.program_id(1)) * tt.num_programs(0) + tt.program_id(0)
    if program < programs:
        tt.store(out + program * thread + tt.arange(0, thread), program * 100 + tt.num_programs(0))
"""


@pytest.mark.parametrize("mapping", mappings(None), indirect=True)
@pytest.mark.parametrize("grid", [(1,), (2, 3), (5, 2, 3), (64, 1, 2), (65,), (300, 2)])
def test_programs_know_their_grid(mapping, grid):
    """Whatever the variables are called."""
    total, size = int(np.prod(grid)), 4
    out = Guarded(total * size, np.int32)
    kernel(WHERE)[grid](out.array, total, size)
    want = np.repeat(np.arange(total) * 100 + grid[0], size)
    assert (out.check() == want).all()


@pytest.mark.parametrize("mapping", mappings(None), indirect=True)
def test_one_variant_for_every_grid(mapping):
    """On the long way and on the short one, the number of programs is an argument of each launch."""
    x, y, out = (tt.to_device(np.ones(5000, np.float32)) for _ in range(3))
    k = kernel(ADD)
    for programs in (1, 157, 3, 40, 3):
        out = tt.zeros(5000, tt.float32)
        k[(programs,)](x, y, out, 5000, BLOCK=32)
        assert out.numpy().sum() == 2 * min(5000, programs * 32)
    assert len(k._cache) == 1


@pytest.fixture(params=[p for p in mappings(None) if p.id in ("cuda-default", "opencl-gpu")])
def compiled(request, monkeypatch):
    choose(request.param[0], monkeypatch)
    x = np.zeros(5000, np.float32)
    return kernel(ADD).compile(x, x, x, 5000, BLOCK=32)


def test_what_is_told(compiled, capsys):
    assert (compiled.threads, compiled.num_warps, compiled.programs_per_block, compiled.shared_bytes) == (8, 1, 16, 0)
    assert compiled.reqntid == (8, 16, 1)
    assert ", 8 threads, 16 programs a block, " in repr(compiled)
    assert "8 threads, 16 programs a block" in str(compiled.explain())
    capsys.readouterr()
    if compiled.executor.name == "cuda":
        found = compiled.occupancy()
        assert found.programs_per_sm * 8 == found.warps_per_sm * 32


def test_configurations(compiled):
    x, out = np.ones(5000, np.float32), np.zeros(5000, np.float32)
    config = tt.LaunchConfig.with_grid(157, compiled)
    assert (config.grid, config.block, config.blocks) == ((157, 1, 1), (8, 16, 1), (10, 1, 1))
    compiled.launch(config, x, x, out, 5000)
    assert (out == 2).all()
    assert tt.LaunchConfig.from_program(5000, compiled).grid == (625, 1, 1)  # as if a thread had one element
    for wrong in (tt.LaunchConfig.explicit(5000, 32), tt.LaunchConfig(157, 128)):
        with pytest.raises(tt.LaunchError, match=r"compiled for a block of \(8, 16, 1\) threads"):
            compiled.launch(wrong, x, x, out, 5000)
    with pytest.raises(tt.LaunchError, match="driver refused"):
        compiled.launch(tt.LaunchConfig(157, 128, check=False), x, x, out, 5000)
    with pytest.raises(tt.LaunchError, match="tells its blocks"):
        _ = tt.LaunchConfig(157).blocks


def test_a_thread_count_turns_it_off(compiled):
    x = np.zeros(64, np.float32)
    for options in ({"num_warps": 4}, {"num_threads": 8}):
        alone = kernel(ADD).compile(x, x, x, 64, BLOCK=32, **options)
        assert alone.programs_per_block == 1 and alone.reqntid == (alone.threads, 1, 1)
        assert "programs" not in alone.source


@pytest.mark.nvcc
@needs_nvcc
def test_built_ahead_of_time():
    signature = {**dict.fromkeys(["x", "y", "out"], "*float32:16"), "n": "int32"}
    built = tt.compile(kernel(ADD), signature, BLOCK=32)
    assert (built.programs_per_block, built.reqntid) == (1, (128, 1, 1)), "it takes the arguments of the signature"
    shared = tt.compile(kernel(ADD), signature, BLOCK=32, share=True, sm_count=100)
    assert (shared.programs_per_block, shared.reqntid) == (16, (8, 16, 1))
    assert shared.programs_at_once == 100 * 16 * shared.occupancy().warps_per_sm // 4
    assert ".reqntid 8, 16, 1" in shared.ptx and "16 programs a block" in repr(shared)


ROWS = """
@tt.jit
def k(x, out, n, BLOCK: tt.constexpr, LOOP: tt.constexpr):
    j = tt.arange(0, BLOCK)
    total = tt.zeros((BLOCK,), tt.float32)
    if LOOP:
        for i in range(n):
            total += tt.load(x + i * BLOCK + j)
    else:
        total += tt.load(x + j)
    tt.store(out + tt.program_id(0), tt.sum(tt.exp(total), 0))
"""
TOTAL = """
@tt.jit
def k(x, out, n, BLOCK: tt.constexpr):
    total = 0.0
    for i in range(n):
        total += tt.sum(tt.load(x + i * BLOCK + tt.arange(0, BLOCK)))
    tt.store(out + tt.program_id(0), total)
"""


@pytest.mark.parametrize(
    ("text", "given", "threads", "programs"),
    [
        (ADD, {"BLOCK": 256}, 64, 2),
        (ADD, {"BLOCK": 512}, 128, 1),
        (ADD, {"BLOCK": 1024}, 256, 1),
        (ADD, {"BLOCK": 4096}, 512, 1),
        (ROWS, {"BLOCK": 256, "LOOP": False}, 32, 4),
        (ROWS, {"BLOCK": 4096, "LOOP": False}, 128, 1),
        (ROWS, {"BLOCK": 1024, "LOOP": False, "n": "int32:16"}, 32, 4),
        (ROWS, {"BLOCK": 1024, "LOOP": False}, 128, 1),
        (ROWS, {"BLOCK": 1024, "LOOP": True}, 128, 1),
        (ROWS, {"BLOCK": 4096, "LOOP": True}, 256, 1),
        (TOTAL, {"BLOCK": 8192}, 256, 1),
        (TOTAL, {"BLOCK": 8192, "x": np.float16}, 128, 1),
        (ROWS, {"BLOCK": 16384, "LOOP": False}, 512, 1),
    ],
)
def test_how_many_threads_a_tile_gets(text, given, threads, programs):
    types = {"x": np.float32, "y": np.float32, "out": np.float32, "n": "int32"}
    k = kernel(text)
    named = {name: types[name] for name in k.names if name in types} | given
    *_, low = for_gpu(k, (), named, lambda name, x: as_type(name, x))
    assert (low.threads, low.programs_per_block) == (threads, programs)
    large = given["BLOCK"] == 16384  # whose tiles take half of the registers
    assert ("__launch_bounds__(512, 2)" in low.source) == large
