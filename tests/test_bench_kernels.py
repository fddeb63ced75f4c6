"""The kernels of the benchmarks, small and odd, on each executor: what is timed is right."""

import inspect
import sys
from functools import partial
from pathlib import Path

import pytest

import tinyton as tt

sys.path.append(str(Path(__file__).parent / "bench"))

import cpu  # noqa: E402
import harness  # noqa: E402
import memory  # noqa: E402
import memory_kernels  # noqa: E402

SMALL = {f"add f32 {b}": partial(memory.add, n=1003, dtype="float32", block=b, tune=False) for b in (32, 256, 4096)}
for dtype in ("float16", "bfloat16", "float64", "int8"):
    SMALL[f"add {dtype}"] = partial(memory.add, n=3001, dtype=dtype, block=1024)
    SMALL[f"copy {dtype}"] = partial(memory.copy, n=3001, dtype=dtype, block=1024)
for dtype in ("float32", "float16"):
    for shape in ((70, 131), (64, 128)):
        given = {"rows": shape[0], "cols": shape[1], "dtype": dtype}
        SMALL |= {f"{f.__name__} {shape} {dtype}": partial(f, **given) for f in (memory.add_2d, memory.transpose)}
        SMALL[f"copy_2d {shape} {dtype}"] = partial(memory.copy_2d, **given)
        SMALL[f"every other row {shape} {dtype}"] = partial(memory.copy_2d, **given, every=2)
        SMALL[f"softmax {shape} {dtype}"] = partial(memory.softmax, **given)
        SMALL[f"softmax online {shape} {dtype}"] = partial(memory.softmax_online, **given, sizes=(32, 64))
for root in (False, True):
    for shape in ((37, 100), (8, 256)):
        given = {"rows": shape[0], "cols": shape[1], "dtype": "float16", "root": root}
        name = f"{'rms' if root else 'layer'}norm"
        SMALL[f"{name} {shape}"] = partial(memory.norm, **given)
        SMALL[f"{name} backward {shape}"] = partial(memory.norm_backward, **given)
SMALL |= {
    "cross-entropy": partial(memory.cross_entropy, rows=5, cols=331, dtype="bfloat16", sizes=(64,)),
    "dropout": partial(memory.dropout, n=5001),
    "dropout, 4 words": partial(memory.dropout, n=5001, name="dropout4"),
    "embedding": partial(memory.embedding, entries=50, cols=37, tokens=11, dtype="float16"),
    "column sum": partial(memory.column_sum, rows=1500, cols=77),
    "full sum": partial(memory.full_sum, n=100003),
    "cumsum": partial(memory.cumsum, rows=3, cols=130),
    "histogram": partial(memory.histogram, n=50001, bins=256),
    "gelu": partial(memory.gelu, n=3001, dtype="float16"),
    "gelu, tanh": partial(memory.gelu_tanh, n=3001, dtype="float16"),
    "swiglu": partial(memory.swiglu, n=3001, dtype="float16"),
    "rope": partial(memory.rope, tokens=3, heads=5, half=8, dtype="float16"),
}


@pytest.mark.parametrize("name", SMALL)
def test_kernels(executor, name):
    data = harness.NumPyData(seed=5)
    case = SMALL[name](data)
    for way in [*case.ours[:1], *case.ours[1:][-1:]]:
        harness.check(data, case, harness.in_order(way))


def test_all_of_the_benchmark_is_here(interpreter):
    data = harness.NumPyData()
    here = {launch.kernel for make in SMALL.values() for way in make(data).ours for launch in way}
    assert here == {k for k in vars(memory_kernels).values() if isinstance(k, tt.JITFunction)}
    works = [*memory.ADDS, *memory.works()]
    assert {work.make.func for work in works} == {make.func for make in SMALL.values()}
    for work in works:
        inspect.signature(work.make.func).bind(data, *work.make.args, **work.make.keywords)


ON_A_CPU = {
    cpu.add: {"n": 1003},
    cpu.relus: {"n": 3001},
    cpu.softmax: {"rows": 5, "cols": 100},
    cpu.layernorm: {"rows": 5, "cols": 100},
    cpu.full_sum: {"n": 100003},
    cpu.row_sums: {"rows": 5, "cols": 100},
    cpu.product: {"n": 40},
}


@pytest.mark.parametrize("make", ON_A_CPU)
def test_kernels_beside_numpy(executor, make):
    data = harness.NumPyData(seed=6)
    case, peers = make(data, **ON_A_CPU[make])
    for way in case.ours[-2:]:
        harness.check(data, case, harness.in_order(way))
    for peer in peers:
        cpu.check_peer(case, peer)


def test_all_of_the_benchmark_of_a_cpu_is_here():
    assert {work.make.func for work in cpu.works()} == set(ON_A_CPU)


def test_a_wrong_result_is_seen(interpreter):
    data = harness.NumPyData()
    case = memory.copy(data, 3001, "float32", 1024)
    with pytest.raises(AssertionError, match="result 0 .float32. is wrong"):
        harness.check(data, case, lambda: None)  # nothing is stored: what is there is NaN
    (launch,) = case.ours[0]
    short = launch._replace(args=(*launch.args[:2], 3000))
    with pytest.raises(AssertionError, match="is wrong"):
        harness.check(data, case, short)


def test_rows_and_goals(monkeypatch, capsys):
    monkeypatch.setattr(harness, "ROWS", [])
    harness.record("a", "GB/s", 90.0, {"triton": 100.0, "torch": 80.0}, 0.95, against={"copy": (120.0, 0.7)})
    harness.record("b", "GB/s", 90.0, {"triton": 90.0, "torch": 100.0}, 1.0, only=("triton",))
    harness.record("c", "us", 4.0, {"triton": 20.0}, 0.4, more_is_better=False)
    harness.failed("d", ValueError("no\nroom"))
    assert [row.get("met") for row in harness.ROWS] == [False, True, True, None]
    assert harness.finish(None) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("ratio 0.900 (>= 0.95)  of copy 0.750 (>= 0.7) MISSED")
    assert lines[3].endswith("FAILED ValueError: no") and lines[4] == "2 of 3 rows with goals are met, 1 failed"
