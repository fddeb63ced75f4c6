"""The tuner: candidates are checked, then timed; arrays are as they were; winners are kept for kernel, key and card."""

import json
import sys
import textwrap

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel
from tinyton import __main__, tuned, tuning

MEASURING = [name for name, why in tt.backends.available().items() if why is None and name != "interpreter"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tuned, "folder", lambda: tt.cache.folder() and tmp_path / "tuned")
    monkeypatch.delenv("TINYTON_TUNE", raising=False)


@pytest.fixture(params=MEASURING)
def device(request, monkeypatch):
    """Each executor that measures."""
    monkeypatch.setenv("TINYTON_BACKEND", request.param)
    monkeypatch.setenv("TINYTON_BUILD_OPTIONS", "-cl-opt-disable" if request.param == "opencl" else "")
    return request.param


class Clock:
    """Times for candidates in the order in which they are timed, in milliseconds."""

    def __init__(self, *times):
        self.times, self.runs = list(times), 0

    def __call__(self, call, quantiles):
        self.runs += 1
        call()
        return self.times.pop(0)


def add(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)


def add_often(x, y, out, n, TIMES: tt.constexpr, BLOCK: tt.constexpr = 1024):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    for _ in range(TIMES):
        tt.store(out + i, tt.load(x + i, mask=i < n) + tt.load(y + i, mask=i < n), mask=i < n)


def increment(x, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(x + i, tt.load(x + i, mask=i < n) + 1, mask=i < n)


def cells(meta):
    return (tt.cdiv(meta["n"], meta["BLOCK"]),)


BLOCKS = tt.grid_search(BLOCK=[32, 64, 128])


def tuned_add(*times, configs=BLOCKS, key=("n",), **options):
    clock = Clock(*times)
    return tt.autotune(configs, key=key, do_bench=clock, **options)(tt.jit(add)), clock


def numbers(n=100, dtype=np.float32):
    x = np.arange(n).astype(dtype)
    return tt.to_device(x), tt.to_device(2 * x), tt.zeros(n, dtype)


# configurations


def test_a_grid_of_configurations():
    found = tt.grid_search(BLOCK=[1, 2], num_warps=[4, 8], EVEN=(True,))
    assert [c.all_kwargs() for c in found] == [
        {"BLOCK": b, "EVEN": True, "num_warps": w} for b in (1, 2) for w in (4, 8)
    ]
    assert found[1] == tt.Config({"BLOCK": 1, "EVEN": True}, num_warps=8)
    assert repr(found[0]) == "BLOCK: 1, EVEN: True, num_warps: 4"
    assert len(tt.grid_search(A=[1, 2, 3], B=[1, 2, 3], where=lambda c: c["A"] <= c["B"])) == 6
    for wrong in ({}, {"BLOCK": []}, {"BLOCK": [1], "where": lambda c: False}):
        with pytest.raises(tt.TinytonError, match="grid_search has no combination left"):
            tt.grid_search(**wrong)


def test_a_configuration_in_tritons_words():
    config = tt.Config({"BLOCK": 64}, num_warps=8, num_stages=3)
    assert config.kwargs == {"BLOCK": 64} and config.num_warps == 8
    assert config.all_kwargs() == {"BLOCK": 64, "num_warps": 8, "num_stages": 3}


# which one wins


def test_the_fastest_wins_and_is_remembered(device):
    k, clock = tuned_add(3, 1, 2)
    x, y, out = numbers()
    for _ in range(3):
        k[cells](x, y, out, 100)
        assert (out.numpy() == 3 * np.arange(100)).all()
    assert k.best_config is BLOCKS[1] and clock.runs == 3
    assert [t.time_us for t in k.trials] == [3000, 1000, 2000]
    table = k.table()
    assert list(table) == ["BLOCK", "time_us", "spread", "note"] and table.attrs["over"] == ["BLOCK"]
    assert table.attrs["stamp"] == tt.env().stamp()


def test_the_key_and_the_types_decide_when_to_tune(device):
    k, clock = tuned_add(3, 1, 2, 1, 2, 3, 2, 3, 1)
    k[cells](*numbers(), 100)
    k[cells](*numbers(200), 100)  # the same n
    assert clock.runs == 3
    k[cells](*numbers(), 90)
    assert k.best_config is BLOCKS[0] and clock.runs == 6
    k[cells](*numbers(dtype=np.int32), 100)
    assert k.best_config is BLOCKS[2] and clock.runs == 9
    k[cells](*numbers(), 100)
    assert k.best_config is BLOCKS[1] and clock.runs == 9


def test_the_real_clock(device):
    configs = tt.grid_search(TIMES=[1000, 1])
    k = tt.autotune(configs, key=["n"], repeats=3)(tt.jit(add_often))
    n = 1 << 16
    x, y, out = numbers(n)
    k[cells](x, y, out, n)
    assert k.best_config is configs[1] and (out.numpy() == 3 * np.arange(n)).all()
    assert k.trials[0].time_us > k.trials[1].time_us > 0


def test_the_interpreter_takes_the_first(interpreter):
    k, clock = tuned_add()
    x, y, out = numbers()
    k[cells](x, y, out, 100)
    assert k.best_config is BLOCKS[0] and not clock.runs and (out.numpy() == 3 * np.arange(100)).all()


@pytest.mark.parametrize("word", ["off", "0", " None"])
def test_tuning_is_turned_off(device, monkeypatch, word):
    monkeypatch.setenv("TINYTON_TUNE", word)
    k, clock = tuned_add()
    k[cells](*numbers(), 100)
    assert k.best_config is BLOCKS[0] and not clock.runs


def test_one_configuration_needs_no_tuning(device):
    k, clock = tuned_add(configs=BLOCKS[2:])
    k[cells](*numbers(), 100)
    assert k.best_config is BLOCKS[2] and not clock.runs


def test_the_same_code_is_timed_once(device):
    k, clock = tuned_add(2, 1, configs=tt.grid_search(BLOCK=[32, 64], num_stages=[1, 2]))
    k[8](*numbers(), 100)
    assert clock.runs == 2
    assert [t.note for t in k.trials] == [
        "",
        "the same code as BLOCK: 32, num_stages: 1",
        "",
        "the same code as BLOCK: 64, num_stages: 1",
    ]
    assert k.best_config == tt.Config({"BLOCK": 64}, num_stages=1)


def test_numpy_arrays(executor):
    k = tt.autotune(BLOCKS, key=["n"], repeats=1)(tt.jit(increment))
    x = np.arange(100, dtype=np.float32)
    k[cells](x, 100)
    assert (x == np.arange(100) + 1).all()
    strided = np.zeros((50, 3), np.float32)
    k[cells](strided[:, 1], 1)
    assert strided.sum() == 1


# what is right


def faulty(x, out, n, BLOCK: tt.constexpr, FAULT: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    if FAULT != "lazy":
        tt.store(out + i, tt.load(x + i, mask=i < n) * (3 if FAULT else 2), mask=i < n)


def faults(*words):
    return tt.grid_search(BLOCK=[64], FAULT=list(words))


def test_a_wrong_candidate_is_left_out_however_fast(device):
    x, out = numbers()[::2]
    k = tt.autotune(faults("", "times three"), do_bench=Clock(5))(tt.jit(faulty))
    with pytest.warns(tt.TuneWarning, match="faulty with BLOCK: 64, FAULT: times three is left out: 99 of 100"):
        k[2](x, out, 100)
    assert k.best_config.kwargs["FAULT"] == "" and (out.numpy() == 2 * np.arange(100)).all()
    note = "99 of 100 elements of out are wrong, the first at 1: 3.0, not 2.0"
    assert [t.note for t in k.trials] == ["", note + "; right is what the first configuration gives"]
    assert [t.time_us for t in k.trials] == [5000, None]


def test_a_reference_says_what_is_right(device):
    x, out = numbers()[::2]
    k = tt.autotune(faults("times three", ""), reference=lambda a: 2 * a["x"], do_bench=Clock(5))(tt.jit(faulty))
    with pytest.warns(tt.TuneWarning):
        k[2](x, out, 100)
    assert k.best_config.kwargs["FAULT"] == ""
    k = tt.autotune(faults("times three", "lazy"), reference=lambda a: {"out": 2 * a["x"]})(tt.jit(faulty))
    with pytest.warns(tt.TuneWarning), pytest.raises(tt.LaunchError, match="no configuration of faulty can be taken"):
        k[2](x, out, 100)


def test_what_is_there_already_is_nobodys_merit(device):
    """The array holds the right values before the candidate runs, which writes none."""
    x, _ = numbers()[:2]
    out = tt.to_device(2 * np.arange(100, dtype=np.float32))
    k = tt.autotune(faults("", "lazy"), do_bench=Clock(5))(tt.jit(faulty))
    with pytest.warns(tt.TuneWarning):
        k[2](x, out, 100)
    assert k.trials[1].note.startswith("100 of 100 elements of out are wrong, the first at 0: nan, not 0.0")


def test_elements_that_nobody_writes_are_as_they_were(device):
    x, out = numbers()[0], tt.to_device(np.full(100, 7, np.float32))
    k = tt.autotune(BLOCKS, do_bench=Clock(1, 2, 3))(tt.jit(add))
    k[1](x, x, out, 10)
    assert out.numpy().tolist() == [*range(0, 20, 2), *[7] * 90]


def test_a_reference_must_fit(device):
    x, y, out = numbers()
    for reference, words in (
        (lambda a: {"sum": a["x"]}, "the reference gives sum; add stores to out"),
        (lambda a: a["x"][:5], r"the reference gives out the shape \(5,\); the array has \(100,\)"),
    ):
        with pytest.raises(tt.TinytonError, match=words):
            tuned_add(reference=reference)[0][cells](x, y, out, 100)
        assert (out.numpy() == 0).all()

    def two(x, y):
        tt.store(x, 1.0)
        tt.store(y, 1.0)

    k = tt.autotune(tt.grid_search(num_warps=[1, 2]), reference=lambda a: a["x"])(tt.jit(two))
    with pytest.raises(tt.TinytonError, match="stores to x, y: its reference returns a dictionary"):
        k[1](x, y)


@pytest.mark.parametrize(("tolerance", "warned"), [(None, False), (1e-9, True)])
def test_sums_in_another_order_are_right(device, tolerance, warned):
    def sums(x, out, n, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        acc = tt.zeros((BLOCK,), tt.float32)
        for k in range(0, n, BLOCK):
            acc += tt.load(x + k + i, mask=k + i < n)
        tt.store(out, tt.sum(acc))

    x = tt.to_device(np.random.default_rng(0).random(5000, np.float32))
    k = tt.autotune(BLOCKS, do_bench=Clock(1, 2, 3), tolerance=tolerance)(tt.jit(sums))
    import warnings

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        k[1](x, tt.zeros(1), 5000)
    assert bool(seen) == warned


# arrays


def test_arrays_are_put_back(device):
    k = tt.autotune(BLOCKS, repeats=2)(tt.jit(increment))
    x = tt.zeros(1000)
    k[cells](x, 1000)
    assert (x.numpy() == 1).all()
    k[cells](x, 1000)
    assert (x.numpy() == 2).all()


def test_arrays_are_put_back_when_a_candidate_fails(device):
    def fail(call, quantiles):
        call()
        raise RuntimeError("the clock stopped")

    x = tt.zeros(100)
    k = tt.autotune(BLOCKS, do_bench=fail)(tt.jit(increment))
    with pytest.raises(RuntimeError, match="the clock stopped"):
        k[cells](x, 100)
    assert (x.numpy() == 0).all()


@pytest.mark.parametrize(("options", "seen"), [({}, 3), ({"restore_value": ["x"]}, 6), ({"reset_to_zero": ["x"]}, 1)])
def test_before_each_timed_run(device, options, seen):
    x = tt.to_device(np.full(100, 5, np.float32))
    found = []

    def clock(call, quantiles):
        call(), call(), call()
        found.append(float(x.numpy()[0]))
        return 1.0

    k = tt.autotune(BLOCKS[:2], do_bench=clock, **options)(tt.jit(increment))
    k[cells](x, 100)
    assert (x.numpy() == 6).all()
    if not options:
        assert found[0] > 6  # it goes on from where it was
    else:
        assert found == [seen, seen]


def test_an_array_that_is_input_and_output_is_not_poisoned(device):
    x, y, _ = numbers()
    k, _ = tuned_add(1, 2, 3)
    k[cells](x, y, x, 100)
    assert (x.numpy() == 3 * np.arange(100)).all()
    host = np.arange(200, dtype=np.float32)
    k[cells](host[:100], host[100:], host[100:], 100)
    assert (host[100:] == 100 + 2 * np.arange(100)).all()


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float16, np.float64, tt.bfloat16])
def test_types(device, dtype):
    def copy(x, out, n, BLOCK: tt.constexpr):
        i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        tt.store(out + i, tt.load(x + i, mask=i < n), mask=i < n)

    x = tt.to_device(np.arange(100) % 2, dtype)
    out = tt.zeros(100, dtype)
    k = tt.autotune(BLOCKS, reference=lambda a: a["x"], do_bench=Clock(1, 2, 3))(tt.jit(copy))
    k[cells](x, out, 100)
    assert (out.numpy() == x.numpy()).all() and len([t for t in k.trials if t.time_us]) == 3


# what cannot be taken


def test_what_does_not_compile_or_fit_says_why(device):
    def picky(x, BLOCK: tt.constexpr):
        tt.static_assert(BLOCK > 32, "BLOCK is too small")
        tt.store(x + tt.arange(0, BLOCK), 1.0)

    configs = tt.grid_search(BLOCK=[32, 64, 1 << 24], num_warps=[1]) + [tt.Config({"BLOCK": 64}, num_warps=3)]
    k = tt.autotune(configs, do_bench=Clock(1))(tt.jit(picky))
    k[1](tt.zeros(64))
    assert k.best_config is configs[1]
    small, _, big, warps = (t.note for t in k.trials)
    assert "BLOCK is too small" in small and big and "num_warps must be a power of two, not 3" in warps


def test_nothing_can_be_taken(device):
    k, _ = tuned_add(configs=tt.grid_search(BLOCK=[3, 0]))
    with pytest.raises(tt.LaunchError, match="no configuration of add compiles for these arguments:\n  BLOCK: 3: "):
        k[1](*numbers(), "text")


def test_mistakes(interpreter):
    k, _ = tuned_add()
    with pytest.raises(tt.LaunchError, match="BLOCK is what add's tuning chooses; leave it out of the launch"):
        k[1](*numbers(), 100, BLOCK=64)
    for options, words in (
        ({"configs": []}, "autotune of add needs at least one configuration"),
        (
            {"configs": tt.grid_search(TILE=[1])},
            r"a configuration names TILE, which add\(x, y, out, n, BLOCK\) does not",
        ),
        ({"key": ["m"]}, "key names m, which add"),
        ({"restore_value": ["z"]}, "restore_value names z"),
    ):
        with pytest.raises(tt.LaunchError, match=words):
            tuned_add(**options)
    with pytest.raises(tt.LaunchError, match="autotune stands above @tt.jit"):
        tt.autotune(BLOCKS)(add)
    with pytest.raises(tt.LaunchError, match=r"add\[grid\]"):
        k(*numbers(), 100)


def test_a_key_that_is_an_array(device):
    k, _ = tuned_add(key=["x"])
    with pytest.raises(tt.LaunchError, match="name sizes, no arrays"):
        k[1](np.zeros(4, np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32), 4)


# pruning


def test_a_function_prunes(device):
    def prune(configs, args):
        assert args["n"] == 100
        return [c for c in configs if c.kwargs["BLOCK"] > 32]

    k, clock = tuned_add(2, 1, prune_configs_by=prune)
    k[cells](*numbers(), 100)
    assert clock.runs == 2 and k.best_config is BLOCKS[2]


def test_tritons_dictionary_prunes(device):
    early = {"early_config_prune": lambda configs, named, **kwargs: configs[1:]}
    k, clock = tuned_add(2, 1, prune_configs_by=early)
    k[cells](*numbers(), 100)
    assert clock.runs == 2 and k.best_config is BLOCKS[2]
    model = {"perf_model": lambda n, BLOCK, **rest: n / BLOCK, "top_k": 1}
    k, clock = tuned_add(2, prune_configs_by=model, cache_results=False)
    k[cells](*numbers(), 100)
    assert k.best_config is BLOCKS[2]
    assert [t.note for t in k.trials] == ["not tried: 3 of 3 by the model", "not tried: 2 of 3 by the model", ""]
    with pytest.raises(tt.LaunchError, match="leaves no configuration of add"):
        tuned_add(prune_configs_by=lambda configs, args: [])[0][cells](*numbers(), 100)


def test_our_own_model_counts(device, monkeypatch):
    """A walk across rows moves eight times as much as one along them."""

    def walk(x, out, N: tt.constexpr, ACROSS: tt.constexpr):
        i = tt.program_id(0) * 128 + tt.arange(0, 128)
        at = i % N * N + i // N if ACROSS else i
        tt.store(out + at, tt.load(x + at))

    monkeypatch.setattr(sys.modules["tinyton.cost"], "roofline", lambda: tt.Roofline(100, 1000, "here"))
    configs = tt.grid_search(N=[64], ACROSS=[True, False])
    k = tt.autotune(configs, prune_configs_by={"top_k": 0.5}, do_bench=Clock(1))(tt.jit(walk))
    k[32](tt.zeros(4096), tt.zeros(4096))
    assert k.best_config is configs[1] and k.trials[0].note == "not tried: 2 of 2 by the model"


def test_a_slow_candidate_is_timed_twice(device, monkeypatch):
    times = iter([1.0, 1.0, 6.0, 5.0, 6.0, 2.0, 2.0])  # of the last one the first run is slow, not the kernel
    runs = []

    def clock(call, repeats, **rest):
        runs.append(repeats)
        return tt.Timing((next(times),), "clock")

    monkeypatch.setattr(tuning, "bench", clock)
    k = tt.autotune(BLOCKS, repeats=7)(tt.jit(add))
    k[cells](*numbers(), 100)
    assert runs == [1, 7, 1, 1, 1, 1, 7]
    assert [(t.time_us, t.note) for t in k.trials] == [(1e6, ""), (5e6, "slow: timed twice"), (2e6, "")]


# other decorators


def test_heuristics_above_and_below(device):
    def fill(x, n, BLOCK: tt.constexpr, EVEN: tt.constexpr):
        i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        tt.store(x + i, 1.0, mask=None if EVEN else i < n)

    even = {"EVEN": lambda args: args["n"] % args["BLOCK"] == 0}
    for decorate in (
        lambda tune: tt.heuristics(even)(tune(tt.jit(fill))),
        lambda tune: tune(tt.heuristics(even)(tt.jit(fill))),
    ):
        k = decorate(tt.autotune(BLOCKS, do_bench=Clock(1, 2, 3), cache_results=False))
        x = tt.zeros(128)
        k[cells](x, 100)
        assert x.numpy().sum() == 100 and "EVEN" in k.heuristics


def test_hooks_of_a_configuration(device):
    seen = []
    configs = [tt.Config({"BLOCK": b}, pre_hook=lambda args: seen.append((args["BLOCK"], args["n"]))) for b in (32, 64)]
    k, _ = tuned_add(2, 1, configs=configs)
    k[cells](*numbers(), 100)
    assert seen == [(32, 100)] * 2 + [(64, 100)] * 3  # checked and timed, checked and timed, launched


def test_compiled_variants(device):
    k, _ = tuned_add(2, 1, 3)
    x, y, out = numbers()
    assert k.compile(x, y, out, 100).constants == {"BLOCK": 32}
    assert k.run(x, y, out, 100, grid=cells).constants == {"BLOCK": 64}
    assert k.warmup(x, y, out, 100, grid=cells).constants == {"BLOCK": 64}
    assert k.names == k.fn.names and k.__name__ == "add" and repr(k).startswith("<tuned <kernel add(")


def test_tuned_while_a_graph_is_recorded(device):
    k, clock = tuned_add(2, 1, 3)
    x, y, out = numbers()
    with tt.graph() as g:
        k[cells](x, y, out, 100)
    assert clock.runs == 3 and len(g) == 1 and out.numpy().sum() == 0
    g.replay()
    assert (out.numpy() == 3 * np.arange(100)).all()


def test_a_progress_bar(device, capsys):
    pytest.importorskip("tqdm")
    k, _ = tuned_add(2, 1, 3, progress=True)
    k[cells](*numbers(), 100)
    assert "tuning add" in capsys.readouterr().err
    k, _ = tuned_add(2, 1, 3, cache_results=False)
    k[cells](*numbers(), 100)
    assert capsys.readouterr().err == ""  # which is no terminal


# on disk


def test_a_winner_is_found_again(device):
    k, _ = tuned_add(3, 1, 2)
    k[cells](*numbers(), 100)
    again, clock = tuned_add()
    again[cells](*numbers(), 100)
    assert again.best_config is BLOCKS[1] and not clock.runs
    pytest.importorskip("pandas")
    assert again.table().equals(k.table()) and again.table().attrs == k.table().attrs
    (entry,) = tuned.entries()
    here = tt.env()
    assert {n: entry[n] for n in ("device", "driver", "compiler", "date")} == {
        n: getattr(here, n) for n in ("device", "driver", "compiler", "date")
    }
    assert entry["key"] == {"n": "100"} and entry["types"]["x"] == "*float32" and entry["config"] == {"BLOCK": 64}


def test_another_kernel_card_key_or_configuration_is_tuned_anew(device, monkeypatch):
    tuned_add(3, 1, 2)[0][cells](*numbers(), 100)

    def runs(**options):
        k, clock = tuned_add(*[1, 2, 3, 4], **options)
        k[cells](*numbers(), options.pop("n", 100))
        return clock.runs

    assert runs() == 0
    assert runs(configs=tt.grid_search(BLOCK=[32, 64])) == 2
    assert runs(cache_results=False) == 3
    monkeypatch.setenv("TINYTON_TUNE", "again")
    assert runs() == 3
    monkeypatch.delenv("TINYTON_TUNE")
    other = kernel("""
@tt.jit
def k(x, y, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.load(x + i, mask=i < n) - tt.load(y + i, mask=i < n), mask=i < n)
""")
    clock = Clock(1, 2, 3)
    tt.autotune(BLOCKS, key=["n"], do_bench=clock)(other)[cells](*numbers(), 100)
    assert clock.runs == 3
    info = tt.backends.current().device_info()
    monkeypatch.setattr(tt.backends.current(), "device_info", lambda: {**info, "device": "another card"})
    assert runs() == 3
    assert runs() == 0


def test_a_function_that_is_called_is_part_of_it(device, monkeypatch):
    FACTOR = 2.0

    @tt.jit
    def scaled(v):
        return v * FACTOR

    def k(x, BLOCK: tt.constexpr):
        i = tt.arange(0, BLOCK)
        tt.store(x + i, scaled(tt.load(x + i)))

    def runs():
        clock = Clock(1, 2, 3)
        tt.autotune(BLOCKS, do_bench=clock)(tt.jit(k))[1](tt.zeros(128))
        return clock.runs

    assert (runs(), runs()) == (3, 0)
    FACTOR = 3.0
    assert (runs(), runs()) == (3, 0)


@pytest.mark.parametrize("damage", ["", "{}", "[1]", "not JSON", None])
def test_a_damaged_file_is_as_if_there_were_none(device, damage, tmp_path):
    tuned_add(3, 1, 2)[0][cells](*numbers(), 100)
    (path,) = (tmp_path / "tuned").glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tried": 5, "id": "x"}) if damage is None else damage)
    k, clock = tuned_add(1, 2, 3)
    k[cells](*numbers(), 100)
    assert clock.runs == 3 and k.best_config is BLOCKS[0]


def test_without_a_folder(device, monkeypatch):
    monkeypatch.setenv("TINYTON_CACHE_DIR", "off")
    k, clock = tuned_add(3, 1, 2)
    for _ in range(2):
        k[cells](*numbers(), 100)
    assert k.best_config is BLOCKS[1] and clock.runs == 3
    with pytest.raises(tt.TinytonError, match="no folder to keep anything in"):
        tuned.main(["list"])


# the command


MODULE = """
    import tinyton as tt

    @tt.autotune(tt.grid_search(BLOCK=[64, 128]), key=["n"], repeats=1)
    @tt.jit
    def copied(x, places, out, n, flag, BLOCK: tt.constexpr):
        i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
        tt.store(out + i, tt.load(x + tt.load(places + i, mask=i < n), mask=i < n), mask=i < n)
"""


@pytest.fixture
def copied(tmp_path, monkeypatch, device):
    (tmp_path / "a_module.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "a_module", raising=False)
    from a_module import copied

    x, places = np.arange(100, dtype=np.float32), np.arange(100, dtype=np.int64)[::-1].copy()
    copied[lambda meta: tt.cdiv(100, meta["BLOCK"])](tt.to_device(x), places, tt.zeros(100), 100, flag=None)
    yield copied
    sys.modules.pop("a_module", None)


def test_the_command_lists_and_forgets(copied, capsys):
    assert __main__.main(["tune", "list", "--all"]) == 0
    first, second, *tried = capsys.readouterr().out.splitlines()
    assert first[8:].startswith("  copied, n = 100: BLOCK = ") and first.endswith(" µs")
    assert second.strip().startswith("the best of 2, on ") and tt.env().date in second
    assert ["BLOCK = 64" in tried[0], "BLOCK = 128" in tried[1]] == [True, True]
    for which, words in (
        (["nothing"], "nothing is kept for nothing"),
        ([], "names of kernels, ids, or --all"),
    ):
        assert __main__.main(["tune", "forget", *which]) == 1
        assert words in capsys.readouterr().err
    assert __main__.main(["tune", "forget", first[:8]]) == 0
    assert capsys.readouterr().out == f"forgot {first[:8]}  copied\n"
    for command in (["list"], ["replay"], ["forget", "--all"]):
        assert __main__.main(["tune", *command]) == 0
        assert "nothing has been tuned yet" in capsys.readouterr().out


def test_the_command_measures_again(copied, capsys, monkeypatch):
    assert __main__.main(["tune", "replay", "copied", "--within", "1e9"]) == 0
    out = capsys.readouterr().out
    assert out.count("µs then") == 2 and "still holds" in out
    (entry,) = tuned.entries()
    path = tuned.folder() / f"{entry['id']}.json"
    slow = entry | {
        "config": {"BLOCK": 64},
        "tried": entry["tried"] + [{**entry["tried"][1], "config": {"BLOCK": 128}}],
    }
    path.write_text(json.dumps(slow))
    monkeypatch.setattr(sys.modules["tinyton.bench"], "bench", lambda fn, **_: next(times))
    times = iter([tt.Timing((t,), "clock") for t in (2e-6, 1e-6, 1e-6)])
    assert __main__.main(["tune", "replay"]) == 1
    assert "no longer holds: BLOCK = 128 is faster" in capsys.readouterr().out
    path.write_text(json.dumps(entry | {"device": "another card"}))
    assert __main__.main(["tune", "replay"]) == 0
    assert "it is of another card; this is" in capsys.readouterr().out
    path.write_text(json.dumps(entry | {"module": "__main__"}))
    assert __main__.main(["tune", "replay"]) == 0
    assert "cannot be imported" in capsys.readouterr().out
    for found in (copied, copied.fn):  # of a notebook, by the name of the tuner or of the kernel under it
        monkeypatch.setattr(sys.modules["__main__"], "copied", found, raising=False)
        times = iter([tt.Timing((1e-6,), "clock")] * 2)
        assert __main__.main(["tune", "replay"]) == 0
        assert "still holds" in capsys.readouterr().out


# tiles by the shape


def test_the_largest_tile_that_fills_the_machine():
    tiles = [(64, 64), (128, 128), (32, 32), (16, 16)]
    assert tt.pick_tile((1024, 1024), tiles) == (64, 64)
    for sm_count, tile in ((8, (128, 128)), (32, (128, 128)), (33, (64, 64)), (128, (64, 64)), (129, (32, 32))):
        assert tt.pick_tile((1024, 1024), tiles, sm_count) == tile
    assert tt.pick_tile((1024, 1024), tiles, 32, waves=3) == (64, 64)
    assert tt.pick_tile((100, 100), tiles, 1000) == (16, 16)  # none is enough: the most programs there are
    assert tt.pick_tile(40 * 256, [1024, 256, 64], 48) == 64
    assert tt.pick_tile(10**6, [256, 1024, 512], 48) == 1024
    assert tt.pick_tile((64, 64), [(8, 32), (32, 8)], 8) == (8, 32)  # of one size: the first
    assert tt.pick_tile(0, [64, 32], 8) in (64, 32)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((64, []), "at least one candidate"),
        (((64, 64), [8]), "as many extents as the shape"),
        ((64, [0]), "a candidate of pick_tile is an int from 1 on"),
        ((6.4, [1]), "shape of pick_tile is an int from 0 on"),
        ((64, [8], 0), "sm_count is 1 or more"),
        ((64, [8], 8, 0), "waves above 0"),
    ],
)
def test_wrong_tiles(args, words):
    with pytest.raises(tt.TinytonError, match=words):
        tt.pick_tile(*args)


def test_no_device_is_asked(monkeypatch):
    monkeypatch.setattr(tt.backends, "current", lambda: pytest.fail("a device was asked"))
    assert tt.pick_tile(1000, [64, 32], 9) == 32
