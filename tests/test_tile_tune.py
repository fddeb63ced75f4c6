"""ct.tune.exhaustive_search: every configuration timed, failures told, arrays as they were."""

import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct


@ct.kernel
def scaled(x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(x, i, 2 * ct.load(x, i, TILE))


def search(space, x, **options):
    options = {"quiet": True} | options
    return ct.tune.exhaustive_search(
        space, None, lambda n: (ct.cdiv(x.shape[0], n),), scaled, lambda n: (x, n), **options
    )


def test_the_fastest_and_the_failures(executor):
    x = tt.to_device(np.ones(1000, np.float32))
    found = search([3, 4, 1024], x)
    measured = [4] if executor == "interpreter" else [4, 1024]
    assert [m.config for m in found.successes] == measured and found.best in found.successes
    assert found.best.mean_us == min(m.mean_us for m in found.successes) > 0
    assert found.best.num_samples >= 5 and found.best.error_margin_us >= 0
    ((config, kind, message),) = found.failures
    assert config == 3 and kind.endswith("Error") and "power of two" in message
    assert (x.numpy() == 1).all()
    assert len(found.summary().splitlines()) == 1 + len(measured)


def test_hints(executor):
    x = np.ones(100, np.float32)
    seen = []

    def hints(n):
        seen.append(n)
        return {"num_worker_warps": 4}

    found = search([32, 64], x, hints_fn=hints)
    assert seen == ([32] if executor == "interpreter" else [32, 64]) and found.failures == ()
    assert (x == 1).all()


def test_turned_off(executor, monkeypatch):
    monkeypatch.setenv("TINYTON_TUNE", "off")
    assert [m.config for m in search([64, 32], np.ones(100, np.float32)).successes] == [64]


def test_nothing_runs(executor):
    x = np.ones(100, np.float32)
    for space, words in (([3], "(?s)no configuration of scaled can be run: .*power of two"), ([], "there is none")):
        with pytest.raises(ValueError, match=words) as caught:
            search(space, x)
        assert isinstance(caught.value, ct.TileError)
    with pytest.raises(ValueError, match="(?s)a run takes .* s, longer than 0"):
        search([64], x, single_run_timeout_sec=0)
    with pytest.raises(TypeError, match="is for kernels under @ct.kernel"):
        ct.tune.exhaustive_search([1], None, None, test_hints, None)
