"""Random kernels on every executor, against the language's model in NumPy; `python tests/fuzz.py` runs thousands."""

import numpy as np
import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed: pip install 'tinyton[test]'")

import fuzz  # noqa: E402
from fuzz_tile import TileMaker  # noqa: E402

from conftest import mappings  # noqa: E402


@pytest.mark.parametrize("maker", [fuzz.Maker, TileMaker])
@pytest.mark.parametrize("mapping", mappings(None), indirect=True)
def test_random_kernels(mapping, maker, monkeypatch, request):
    """The same kernels in every run, unless --hypothesis-seed says otherwise."""
    monkeypatch.delenv("TINYTON_BUILD_OPTIONS", raising=False)  # the optimiser has a part in what is tested
    number = request.config.getoption("--hypothesis-seed", None)
    examples = 200 if mapping.executor == "interpreter" else 40
    fuzz.explore(mapping.executor, examples, number and int(number), maker=maker)


def program(body, values=(1.0, 2.0), warps=None):
    text = "@tt.jit\ndef k(x0, out1, n, big, f, on, OUT1_ROW: tt.constexpr):\n    i = tt.arange(0, 4)\n"
    text += f"    tt.store(out1 + i, {body})\n"
    arrays = [fuzz.Argument("x0", "float32", list(values), 4), fuzz.Argument("out1", "float32", [0.0], 4, stored=True)]
    return fuzz.Program(text, arrays, {"n": 3, "big": 2**40, "f": 0.5, "on": True}, {"OUT1_ROW": 4}, (1, 1), warps)


def test_a_difference_is_told_with_a_script_that_runs(interpreter, monkeypatch):
    """What is wrong comes first; what follows is Python, from the imports to the launch."""
    case = program("tt.load(x0 + i) * 2")
    case.check("interpreter")
    monkeypatch.setitem(vars(fuzz.MODEL), "load", lambda p: fuzz.MODEL.zeros((4,), "float32"))
    with pytest.raises(AssertionError) as caught:
        case.check("interpreter")
    told, script = str(caught.value).split("\n\n", 1)
    assert "out1[0] is np.float32(2.0), not np.float32(0.0); 4 of 4 differ" in told
    assert script == case.script() and "k[(1, 1)](x0, out1, 3, 1099511627776, 0.5, True, OUT1_ROW=4)" in script
    compile(script, "script", "exec")


def test_the_bounds_of_errors_are_tight_enough(interpreter):
    """A result that is off by a thousandth is seen behind exp and a division."""
    case = program("tt.exp(tt.load(x0 + i)) / 3")
    case.arrays[1].exact = False
    got, want = case.run("interpreter")[1], case.want()[1]
    assert fuzz.agree(got, want).all()
    assert not fuzz.agree(got * np.float32(1.001), want).any()


def test_a_float_argument_is_whole_beside_float64(executor):
    case = program("tt.where(i > 1, f, tt.full((4,), 3.0, tt.float64)) + f")
    case.scalars["f"] = 0.1
    case.arrays[1].d = "float64"
    case.check(executor)
    assert case.want()[1].data.tolist() == [3.1, 3.1, 0.2, 0.2]
