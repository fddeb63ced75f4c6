"""The tools on a GPU: clocks and roofs that are plausible, torch's arrays, and occupancy as the driver says it."""

import ctypes

import numpy as np
import pytest

import tinyton as tt
from tinyton import backends

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(backends.available()["cuda"] is not None, reason="no GPU with PyCUDA here"),
]


@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)


@tt.jit
def softmax(x, out, n, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    row = tt.load(x + tt.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tt.exp(row - tt.max(row))
    tt.store(out + tt.program_id(0) * n + i, e / tt.sum(e), mask=i < n)


@pytest.fixture(autouse=True)
def cuda(monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "cuda")
    return backends.current()


def arrays(n):
    return tt.zeros(n, tt.float32), tt.zeros(n, tt.float32), tt.empty(n, tt.float32)


def test_a_big_sum_runs_at_the_measured_roof():
    n = 1 << 25
    x, y, out = arrays(n)
    share = tt.bench(lambda: add[n // 1024](x, y, out, n, BLOCK=1024)).gb_s(12 * n) / tt.roofline().memory_gb_s
    assert 0.8 < share < 1.15


def test_times_do_not_hold_the_hosts_work():
    x, y, out = arrays(1024)
    once = tt.bench(lambda: add[1](x, y, out, 1024, BLOCK=1024))
    assert once.us < 10  # a launch from Python takes the host longer than the device


def test_roofs():
    roofs = tt.roofline()
    assert roofs.memory_gb_s > 100 and roofs.compute_gflop_s > 1000 and roofs.ridge > 2


@pytest.mark.parametrize(("n", "warps"), [(100, 1), (1000, 4), (4096, None), (8192, 16)])
def test_occupancy_as_the_driver_says_it(cuda, n, warps):
    x = tt.zeros(4 * n, tt.float32)
    compiled = softmax.compile(x, x, n, BLOCK=tt.next_power_of_2(n), num_warps=warps)
    driver = ctypes.CDLL("libcuda.so.1")
    module, function, programs = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    with cuda.here():
        assert driver.cuModuleLoadData(ctypes.byref(module), compiled.loaded.binary) == 0
        assert driver.cuModuleGetFunction(ctypes.byref(function), module, compiled.low.symbol.encode()) == 0
        ask = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        assert (
            ask(ctypes.byref(programs), function, compiled.threads, ctypes.c_size_t(compiled.low.dynamic_shared)) == 0
        )
        driver.cuModuleUnload(module)
    assert compiled.occupancy().programs_per_sm == programs.value


def test_torch_is_timed_and_counted():
    torch = pytest.importorskip("torch")
    n = 1 << 24
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    timed = tt.bench(lambda: torch.mul(x, 2, out=out))
    assert timed.clock == "CUDA events"
    assert 0.5 < timed.gb_s(8 * n) / tt.roofline().memory_gb_s < 1.3
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(2000, device="cuda", dtype=dtype)
        c = tt.count(add, 2, x, x[1000:], torch.zeros_like(x), 1000, BLOCK=512)
        assert c.bytes == 3 * 1000 * x.element_size()
        assert (x == 1).all()


def test_cuda_array_interface_is_counted():
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    x = gpuarray.to_gpu(np.ones(1000, np.float32))
    assert tt.count(add, 2, x, x, x, 1000, BLOCK=512).bytes == 12000
    assert (x.get() == 1).all()


def test_explained_to_the_ptx(capsys):
    x, y, out = arrays(1024)
    compiled = add.compile(x, y, out, 1024, BLOCK=1024)
    told = compiled.explain()
    assert f".reqntid {compiled.threads}" in told.ptx and "--- PTX ---" in capsys.readouterr().out


def test_a_timeline_of_short_launches():
    x, y, out = arrays(1 << 20)

    def call():
        for _ in range(20):
            add[1024](x, y, out, 1 << 20, BLOCK=1024)

    seen = tt.viz.timeline(call)
    assert len(seen.spans) == 20 and all(s.end > s.start for s in seen.spans)
    assert all(a.end <= b.start + 1e-7 for a, b in zip(seen.spans, seen.spans[1:], strict=False))
    ours = sum(s.end - s.start for s in seen.spans) / 20
    assert ours < 5 * tt.bench(lambda: add[1024](x, y, out, 1 << 20, BLOCK=1024)).seconds + 1e-5
    with tt.graph() as g:
        call()
    assert [s.name for s in tt.viz.timeline(g.replay).spans] == ["graph of 20"]
    call()  # and by the short way again
    assert (out.numpy() == 0).all()


def test_pictures_and_the_page_of_a_kernel(tmp_path):
    x, y, out = arrays(1024)
    compiled = add.compile(x, y, out, 1024, BLOCK=1024)
    assert str(tt.viz.occupancy(compiled)).startswith(repr(compiled.occupancy()))
    compiled.explain(html=tmp_path / "add.html")
    page = (tmp_path / "add.html").read_text(encoding="utf-8")
    assert 'id="PTX"' in page and "registers a thread" in page and "occupancy" in page


@pytest.mark.parametrize("library", ["tinyton", "torch", "pycuda", "numpy"])
def test_tuning_with_arrays_of(library, tmp_path, monkeypatch):
    from tinyton import tuned

    monkeypatch.setattr(tuned, "folder", lambda: tmp_path / "tuned")
    n = 100_000
    host = np.arange(n, dtype=np.float32)
    if library == "torch":
        torch = pytest.importorskip("torch")
        x, out = torch.from_numpy(host).cuda(), torch.full((n,), 5.0, device="cuda")
        read = lambda a: a.cpu().numpy()  # noqa: E731
    elif library == "pycuda":
        gpuarray = pytest.importorskip("pycuda.gpuarray")
        x, out = gpuarray.to_gpu(host), gpuarray.to_gpu(np.full(n, 5, np.float32))
        read = lambda a: a.get()  # noqa: E731
    elif library == "numpy":
        x, out, read = host.copy(), np.full(n, 5, np.float32), np.asarray
    else:
        x, out = tt.to_device(host), tt.to_device(np.full(n, 5, np.float32))
        read = lambda a: a.numpy()  # noqa: E731
    configs = tt.grid_search(BLOCK=[128, 1024, 4096], num_warps=[1, 4])
    tuned_add = tt.autotune(configs, key=["n"], reference=lambda a: {"out": a["x"] * 2}, repeats=5)(add)
    tuned_add[lambda meta: tt.cdiv(n, meta["BLOCK"])](x, x, out, n)
    assert (read(out) == 2 * host).all() and (read(x) == host).all()
    assert len([t for t in tuned_add.trials if t.time_us]) == 6
    (entry,) = tuned.entries()
    assert entry["device"] == tt.env().device and entry["driver"] == tt.env().driver
