"""Graphs: launches that are recorded once and replayed."""

import gc

import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import kernel


@tt.jit
def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)


@ct.kernel
def double(x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(x, i, 2 * ct.load(x, i, TILE))


def device(n, value=1.0):
    return tt.to_device(np.full(n, value, np.float32))


def test_launches_are_recorded_and_not_run(executor):
    x, out = device(1000), tt.zeros(1000)
    with tt.graph() as g:
        add[4](x, x, out, 1000, BLOCK=256)
        add[lambda meta: (tt.cdiv(1000, meta["BLOCK"]),)](out, x, out, 1000, BLOCK=512)
        ct.launch(None, (8,), double, (out, 128))
        add[0](x, x, x, 1000, BLOCK=256)
    assert out.numpy().sum() == 0
    assert [(launch.name, launch.grid) for launch in g.launches] == [
        ("add", (4, 1, 1)),
        ("add", (2, 1, 1)),
        ("double", (8, 1, 1)),
    ]
    assert repr(g) == "<graph of 3 launches: add, add, double>" and len(g) == 3
    g.replay()
    assert (out.numpy() == 6).all()
    g()
    assert (out.numpy() == 6).all()
    add[4](out, out, out, 1000, BLOCK=256)  # launches are launches again
    assert (out.numpy() == 12).all()


def test_contents_may_change_and_arrays_are_kept(executor):
    def recorded():
        x, y = device(100), tt.empty(100)
        with tt.graph() as g:
            add[1](x, x, y, 100, BLOCK=128)
            add[1](y, y, out, 100, BLOCK=128)
        return g, x

    out = tt.zeros(100)
    g, x = recorded()
    gc.collect()
    others = [device(100, 7.0) for _ in range(20)]
    g.replay()
    assert (out.numpy() == 4).all()
    add[1](x, x, x, 100, BLOCK=128)
    g.replay()
    assert (out.numpy() == 8).all() and all((o.numpy() == 7).all() for o in others)


def test_a_block_of_ones_own(executor):
    x, out = device(64), tt.zeros(64)
    compiled = add.compile(x, x, out, 64, BLOCK=64, num_threads=64)
    config = tt.LaunchConfig.with_grid(1, compiled)
    with tt.graph() as g:
        add[config](x, x, out, 64, BLOCK=64, num_threads=64)
    g.replay()
    assert (out.numpy() == 2).all() and g.launches[0].threads == 64


def test_nothing_recorded(executor):
    with tt.graph() as g:
        pass
    g.replay()
    assert repr(g) == "<graph of 0 launches: >"


def test_what_cannot_be_recorded(executor):
    x, out = device(64), tt.zeros(64)
    loud = kernel("@tt.jit\ndef k(x):\n    tt.device_print('x', tt.load(x))")
    for launch, words in (
        (lambda: add[1](np.ones(64, np.float32), x, out, 64, BLOCK=64), "argument x of add is on the host.*to_device"),
        (lambda: add[1](x, x, out, 64, BLOCK=64, stream=object()), "default stream; drop stream="),
        (lambda: loud[1](x), "k prints or asserts"),
        (lambda: tt.graph().__enter__(), "being recorded already"),
    ):
        g = tt.graph()
        with pytest.raises(tt.LaunchError, match=words), g:
            launch()
        add[1](x, x, out, 64, BLOCK=64)  # runs, and is not recorded
        assert (out.numpy() == 2).all()
    with tt.graph() as g:
        add[1](x, x, out, 64, BLOCK=64)
        with pytest.raises(tt.LaunchError, match="not recorded yet"):
            g.replay()
    with pytest.raises(tt.LaunchError, match="make another one"), g:
        pass
    with pytest.raises(tt.LaunchError, match="not recorded yet"):
        tt.graph().replay()


def test_another_executor(executor, monkeypatch):
    x = device(64)
    with tt.graph() as g:
        add[1](x, x, x, 64, BLOCK=64)
    other = "interpreter" if executor != "interpreter" else next(iter({"opencl", "cuda"} & set(usable())), None)
    if other is None:
        pytest.skip("one executor alone")
    monkeypatch.setenv("TINYTON_BACKEND", other)
    with pytest.raises(tt.LaunchError, match=f"recorded on {executor}; launches are on {other}"):
        g.replay()


def usable():
    return [name for name, why in tt.backends.available().items() if why is None]


def test_graphs_are_timed(executor):
    x = device(1 << 12)
    with tt.graph() as g:
        for _ in range(5):
            add[16](x, x, x, 1 << 12, BLOCK=256)
    assert tt.bench(g.replay, repeats=3, flush=False).seconds > 0


@pytest.mark.gpu
@pytest.mark.skipif("cuda" not in usable(), reason="no GPU with PyCUDA here")
def test_a_graph_costs_the_host_one_call(monkeypatch):
    import time

    monkeypatch.setenv("TINYTON_BACKEND", "cuda")
    x = device(256)

    def launches():
        for _ in range(50):
            add[1](x, x, x, 256, BLOCK=256)

    with tt.graph() as g:
        launches()

    def host(call):
        call()
        tt.synchronize()
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        tt.synchronize()
        return took

    assert min(host(g.replay) for _ in range(9)) < min(host(launches) for _ in range(9)) / 2
