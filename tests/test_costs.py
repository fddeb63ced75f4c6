"""What the kernels of the benchmarks cost is what was accepted: no more registers, nothing spills that did not, and no
product waits for another. Where it is less, ``tests/bench/costs.py --write`` keeps that."""

import json
import sys
from pathlib import Path

import pytest

from tinyton.backends import nvcc, nvrtc

sys.path.append(str(Path(__file__).parent / "bench"))

import costs  # noqa: E402

needs = pytest.mark.skipif(
    nvcc.find("ptxas") is None or nvrtc.find() is None, reason="nvcc and nvrtc are not both installed"
)
ACCEPTED = json.loads(costs.FILE.read_text(encoding="utf-8"))["kernels"]
LAUNCHES = dict(costs.launches())


def test_every_kernel_is_there():
    assert ACCEPTED.keys() == LAUNCHES.keys()


@pytest.mark.nvcc
@needs
@pytest.mark.parametrize("name", ACCEPTED)
def test_costs(name, monkeypatch):
    monkeypatch.setenv("TINYTON_COMPILER", "nvrtc")
    found, accepted = costs.cost(LAUNCHES[name]), ACCEPTED[name]
    assert all(found[word] == accepted[word] for word in ("shared", "threads", "block"))
    assert found["spills"] <= accepted["spills"] and found["waits"] <= accepted["waits"]
    assert found["registers"] <= accepted["registers"] + 2
    quarter = -(-found["block"] // 128) * 32  # threads, of a multiprocessor's: each has 16,384 registers
    assert found["registers"] * quarter <= 16384, "it cannot be launched"
