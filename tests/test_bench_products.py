"""The kernels of the benchmark of products, small and odd: what is timed is right."""

import inspect
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent / "bench"))

import harness  # noqa: E402
import products  # noqa: E402
import products_kernels  # noqa: E402

import tinyton as tt  # noqa: E402
from conftest import EXECUTORS, choose  # noqa: E402

TILES = [(64, 32, 32), (32, 64, 16)]
SMALL = {
    f"matmul {dtype} {turned}": partial(
        products.matmul, m=70, n=48, k=40, dtype=dtype, turned=turned, tf32=dtype == "float32", tiles=TILES
    )
    for dtype in ("float16", "bfloat16", "float32")
    for turned in ((False, False), (False, True), (True, False))
}
SMALL["matmul in full"] = partial(products.matmul, m=33, n=40, k=50, dtype="float32", tiles=TILES)
for full in (False, True):
    given = {"m": 70, "n": 48, "k": 64, "dtype": "float8_e4m3fn", "turned": (False, True), "full": full}
    SMALL[f"matmul float8 {full}"] = partial(products.matmul, **given, tiles=TILES)
SMALL["gelu"] = partial(products.matmul_gelu, m=70, n=48, k=40, dtype="float16", tiles=TILES)
for causal in (False, True):
    given = {"heads": 2, "t": 128, "d": 32, "causal": causal, "tiles": ((64, 32),)}
    SMALL[f"attention {causal}"] = partial(products.attention, **given)
    SMALL[f"attention backward {causal}"] = partial(products.attention_backward, **given)
F16 = {"dtype": "float16", "tiles": TILES}
SMALL["batched"] = partial(products.batched, batch=2, m=70, n=48, k=40, **F16)
SMALL["persistent"] = partial(products.persistent, n=80, sms=2, **F16)
SMALL["grouped"] = partial(products.grouped, sizes=[(33, 48, 32), (64, 16, 48), (5, 80, 16)], sms=3, **F16)
SMALL["split"] = partial(products.split, m=70, n=48, k=136, **F16)
SMALL["stream-K"] = partial(products.stream_k, m=70, n=48, k=136, sms=3, **F16)
for name, (side, c, co, s, stride) in {
    "3x3": (7, 64, 24, 3, 1),
    "few channels": (6, 8, 16, 3, 2),
    "1x1/2": (6, 24, 40, 1, 2),
    "1x1": (6, 24, 40, 1, 1),
}.items():
    given = {"side": side, "c": c, "co": co, "s": s, "stride": stride, "tiles": [(64, 32)]}
    SMALL[f"conv {name}"] = partial(products.conv, pictures=2, sms=2, **given)
SMALL["chain"] = partial(products.chain, m=70, d=32, inner=72, dtype="float16", tiles=((64, 32),))


@pytest.mark.parametrize("name", SMALL)
def test_kernels(executor, name):
    data = harness.NumPyData(seed=5)
    case = SMALL[name](data)
    for way in [*case.ours[:1], *case.ours[1:][-1:]]:
        harness.check(data, case, harness.in_order(way))


def test_what_a_convolution_ends_with(interpreter):
    data = harness.NumPyData()
    x, scale, bias, out = (data.normal(n, "float32") for n in (96, 8, 8, 96))
    products_kernels.scale_silu[3](x, scale, bias, out, 96, C=8, BLOCK=32)
    want = data.wide(x).reshape(12, 8) * data.wide(scale) + data.wide(bias)
    np.testing.assert_allclose(data.wide(out).reshape(12, 8), want / (1 + np.exp(-want)), rtol=1e-5, atol=1e-6)


def test_all_of_the_benchmark_is_here(interpreter):
    data = harness.NumPyData()
    here = {launch.kernel for make in SMALL.values() for way in make(data).ours for launch in way}
    called = ("place", "some_keys", "some_queries", "sums", "one_tile", "scale_silu")
    helpers = {getattr(products_kernels, name) for name in called}
    assert here == {k for k in vars(products_kernels).values() if isinstance(k, tt.JITFunction)} - helpers
    works = list(products.works())
    assert {work.make.func for work in works} == {make.func for make in SMALL.values()}
    for work in works:
        inspect.signature(work.make.func).bind(data, *work.make.args, **work.make.keywords)


def two_works():
    """For processes that compile ahead: what is right, and what nobody can compile."""
    words = {"m": 32, "n": 32, "k": 32, "dtype": "float32"}
    yield products.Work("right", partial(products.matmul, **words, tiles=[(32, 32, 16), (32, 24, 16)]), 1.0)
    yield products.Work("left out", partial(products.matmul, **words, tiles=[(16, 16, 16)]), 1.0)
    yield products.Work("wrong", lambda data: 1 // 0, 1.0)


@pytest.mark.skipif("opencl" not in EXECUTORS, reason="compiles for OpenCL")
def test_what_is_compiled_ahead_is_there(monkeypatch, tmp_path, capsys):
    choose("opencl", monkeypatch)
    monkeypatch.setenv("TINYTON_CACHE_DIR", str(tmp_path))
    harness.compile_ahead(two_works, "right|wrong", 2)
    assert "compiled ahead" in capsys.readouterr().out
    kept = set(tmp_path.iterdir())
    assert kept
    case = next(two_works()).make(harness.NumPyData())
    harness.check(harness.NumPyData(), case, harness.in_order(case.ours[0]))
    assert set(tmp_path.iterdir()) == kept


def test_tiles_of_attention_fit_without_masks():
    works = [work for work in products.works() if work.make.func in (products.attention, products.attention_backward)]
    for work in works:
        case, t = work.make(harness.NoData()), work.make.keywords["t"]
        for launch in (x for way in [*case.ours, *case.triton, case.before] for x in way if "CAUSAL" in x.meta):
            assert t % launch.meta["BM"] == 0 and t % launch.meta["BN"] == 0
            assert not launch.meta["CAUSAL"] or launch.meta["BM"] % launch.meta["BN"] == 0
