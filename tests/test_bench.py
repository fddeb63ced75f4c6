"""Timing: what the figures mean, and that each clock measures the call and nothing else."""

import time

import numpy as np
import pytest

import tinyton as tt
from tinyton.bench import MOST, Timing, bench


@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)


def test_figures_by_hand():
    t = Timing((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), "wall clock")
    assert (t.seconds, t.us) == (3.5, 3.5e6)
    assert (t.low, t.high) == (2.0, 5.0)
    assert t.spread == pytest.approx(3 / 3.5)
    assert t.gb_s(7e9) == 2.0
    assert t.tflop_s(7e12) == 2.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.50 s"), (0.0123, "12.30 ms"), (4.2e-6, "4.20 µs"), (5e-4, "500 µs")]
)
def test_units(seconds, text):
    assert repr(Timing((seconds,), "c")).startswith(text)


def test_runs_and_clock(executor):
    n = 5000
    x = tt.to_device(np.ones(n, np.float32))
    out = tt.zeros(n, tt.float32)
    t = bench(lambda: add[tt.cdiv(n, 1024)](x, x, out, n, BLOCK=1024), warmup=1, repeats=4)
    assert len(t.times) == 4 and min(t.times) > 0
    assert t.clock == {"cuda": "CUDA events", "opencl": "OpenCL events", "interpreter": "wall clock"}[executor]
    assert out.numpy().sum() == 2 * n


def test_number_of_calls():
    calls = []
    assert len(bench(lambda: calls.append(1), warmup=2, repeats=5).times) == 5
    if tt.env().executor != "cuda":
        assert len(calls) == 7


def test_a_slow_call_is_repeated_less():
    assert 5 <= len(bench(lambda: time.sleep(0.06), warmup=0, flush=False).times) < MOST


def test_opencl_sums_what_a_call_launches(monkeypatch):
    if tt.backends.available()["opencl"]:
        pytest.skip("no OpenCL driver")
    monkeypatch.setenv("TINYTON_BACKEND", "opencl")
    n = 1 << 16
    x = tt.to_device(np.ones(n, np.float32))
    out = tt.zeros(n, tt.float32)

    def once():
        add[tt.cdiv(n, 64)](x, x, out, n, BLOCK=64)

    def often():
        for _ in range(20):
            once()

    assert bench(often).seconds > 5 * bench(once).seconds
    assert tt.backends.current().recorded is None


def test_a_call_without_kernels_has_the_wall_clock(monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "opencl" if not tt.backends.available()["opencl"] else "interpreter")
    t = bench(lambda: time.sleep(0.01), repeats=2, warmup=0)
    assert t.clock == "wall clock" and t.seconds >= 0.01


def test_wrong_counts():
    with pytest.raises(tt.TinytonError, match="repeats from 1 on"):
        bench(lambda: None, repeats=0)


def test_what_is_done_before_each_run_is_not_timed(interpreter):
    seen = []

    def before():
        time.sleep(0.02)
        seen.append("before")

    t = bench(lambda: seen.append("run"), warmup=1, repeats=3, before=before, flush=False)
    assert seen == ["before", "run"] * 4 and t.high < 0.01
