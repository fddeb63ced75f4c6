"""What the linter finds: for each rule kernels that have the fault, near misses, and how to turn it off."""

import warnings
from math import inf

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel

FILL = "@tt.jit\ndef k(x, y, out, n, m, B: tt.constexpr, OTHER: tt.constexpr = None):\n"


@pytest.fixture(autouse=True)
def on_the_interpreter(interpreter):
    pass


def rules(k, grid, *args, **options):
    threads = {} if "num_warps" in options else {"num_threads": 1}
    return [f.rule for f in tt.lint(k, grid, *args, **{"sm_count": 0} | threads | options)]


def fills(body, dtype=np.float32, **meta):
    """The findings in ``body``, where ``on`` is the mask of the tile ``i``, of which some lanes are off."""
    text = f"i = tt.arange(0, B)\non = i < n\n{body.strip()}"
    k = kernel(FILL + "".join(f"    {line}\n" for line in text.split("\n")))
    x, out = np.ones(2048, dtype), np.zeros(2048, np.float32)
    return tt.lint(k, 1, x, x.copy(), out, 40, 10, 64, sm_count=0, num_warps=1, ignore=("half-accumulator",), **meta)


# -- fills -------------------------------------------------------------------------------------------------------------

X = "v = tt.load(x + i, mask=on, other={fill})\n"
DOT = """
a = tt.load(x + i[:, None] * 16 + j[None, :], mask={mx}, other=1)
b = tt.load(y + j[:, None] * 16 + j[None, :], mask={my}, other={fill})
tt.store(out + i[:, None] * 16 + j[None, :], tt.dot(a, b))"""
RIGHT = {
    "sum": X.format(fill=0) + "tt.store(out, tt.sum(v))",
    "sum of a tile whose order is turned": X.format(fill=0) + "tt.store(out, tt.sum(tt.flip(v)))",
    "sum without other": "tt.store(out, tt.sum(tt.load(x + i, mask=on)))",
    "max": X.format(fill="float('-inf')") + "tt.store(out, tt.max(v))",
    "min": X.format(fill="float('inf')") + "tt.store(out, tt.min(v))",
    "max of what is not negative": X.format(fill=0) + "tt.store(out, tt.max(tt.abs(v)) + tt.max(v * v))",
    "min of what is not positive": X.format(fill=0) + "tt.store(out, tt.min(-tt.abs(v)))",
    "max, the least value of all": X.format(fill=-3.4e38) + "tt.store(out, tt.max(v))",
    "softmax": X.format(fill="float('-inf')") + "e = tt.exp(v - tt.max(v))\ntt.store(out + i, e / tt.sum(e), mask=on)",
    "max of the negative of a min's": X.format(fill="float('inf')") + "tt.store(out, tt.max(-v))",
    "sum of a product": X.format(fill=0) + "tt.store(out, tt.sum(v * tt.load(y + i)))",
    "sum of ones less": X.format(fill=1) + "tt.store(out, tt.sum(v - 1))",
    "variance, filled again": X.format(fill=0)
    + "d = tt.where(on, v - tt.sum(v) / n, 0.0)\ntt.store(out, tt.sum(d * d))",
    "max, filled again": "v = tt.where(on, tt.load(x + i, mask=on), float('-inf'))\ntt.store(out, tt.max(v))",
    "filled by another mask that implies it": X.format(fill=0)
    + "tt.store(out, tt.max(tt.where(on & (v > 1), v, float('-inf'))))",
    "two tiles, each with its own mask": X.format(fill=0)
    + "w = tt.load(y + i, mask=i < m)\ntt.store(out, tt.sum(v + w))",
    "one tile whole, one with a mask": X.format(fill=0) + "tt.store(out, tt.sum(v + tt.load(y + i)))",
    "a product that a mask makes 0": X.format(fill=5) + "tt.store(out, tt.sum(v * on.to(tt.float32)))",
    "a mask that always holds": "v = tt.load(x + i, mask=i < 64)\ntt.store(out, tt.max(v))",
    "no mask": "tt.store(out, tt.max(tt.load(x + i)))",
    "a maximum that is only compared": X.format(fill=0) + "if tt.max(v) > 1:\n    tt.store(out, 1.0)",
    "a comparison that is used": X.format(fill=0) + "tt.store(out + i, (tt.max(v) > 1).to(tt.int32) * v, mask=on)",
    "no reduction": X.format(fill=3) + "tt.store(out + i, v)",
    "rows that are off": """
j = tt.arange(0, 16)
v = tt.load(x + i[:, None] * 16 + j[None, :], mask=on[:, None])
tt.store(out + i, tt.max(v, axis=1), mask=on)""",
    "rows and columns, columns filled again": """
j = tt.arange(0, 16)
v = tt.load(x + i[:, None] * 16 + j[None, :], mask=on[:, None] & (j < m)[None, :])
v = tt.where((j < m)[None, :], v, float("-inf"))
tt.store(out + i, tt.max(v, axis=1), mask=on)""",
    "dot, the other side is 0": "j = tt.arange(0, 16)"
    + DOT.format(mx="(j < m)[None, :]", my="(j < m)[:, None]", fill=0),
    "dot, rows and columns of the result": "j = tt.arange(0, 16)"
    + DOT.format(mx="on[:, None]", my="(j < m)[None, :]", fill=1),
    "a loop, sum": """
acc = tt.zeros((B,), tt.float32)
for k in range(0, n, B):
    acc += tt.load(x + k + i, mask=k + i < n, other=0)
tt.store(out, tt.sum(acc))""",
    "a loop, max": """
best = tt.full((B,), float("-inf"), tt.float32)
for k in range(0, n, B):
    best = tt.maximum(best, tt.load(x + k + i, mask=k + i < n, other=float("-inf")))
tt.store(out, tt.max(best))""",
    "a loop, a mask that is the same in all rounds": """
acc, lost = tt.zeros((B,), tt.float32), tt.zeros((B,), tt.float32)
for k in range(n):
    term = tt.load(x + k + i, mask=i < m) + lost
    new = acc + term
    lost, acc = term - (new - acc), new
tt.store(out + i, acc, mask=i < m)""",
}
WRONG = {  # with the line of the load, and what is said
    "max": (X.format(fill=0) + "tt.store(out, tt.max(v))", 5, "maximum in line 6", "-inf"),
    "max without other": ("v = tt.load(x + i, mask=on)\ntt.store(out, tt.max(v))", 5, "gives 0", "maximum in line 6"),
    "min": (X.format(fill=0) + "tt.store(out, tt.min(v))", 5, "minimum in line 6", '"inf"'),
    "sum": (X.format(fill=1) + "tt.store(out, tt.sum(v))", 5, "sum in line 6", "tt.where(mask, x, 0)"),
    "softmax": (
        X.format(fill=0) + "e = tt.exp(v - tt.max(v))\ntt.store(out + i, e / tt.sum(e), mask=on)",
        5,
        "maximum in line 6",
    ),
    "sum of exponentials": (X.format(fill=0) + "tt.store(out, tt.sum(tt.exp(v)))", 5, "sum in line 6"),
    "variance": (
        X.format(fill=0) + "d = v - tt.sum(v) / n\ntt.store(out, tt.sum(d * d))",
        5,
        "sum in line 7",
    ),
    "a finite least value, negated": (X.format(fill=-3e38) + "tt.store(out, tt.max(-v))", 5, "maximum in line 6"),
    "max of a negative": (X.format(fill=0) + "tt.store(out, tt.max(-tt.abs(v)))", 5, "maximum in line 6"),
    "where that fills wrong": (X.format(fill=0) + "tt.store(out, tt.max(tt.where(on, v, -1.0)))", 5, "maximum"),
    "compared with what is less": (X.format(fill=0) + "tt.store(out, tt.max(v) > -1)", 5, "maximum in line 6"),
    "compared, and stored": (X.format(fill=0) + "m = tt.max(v)\ntt.store(out, m + (m > 1).to(tt.int32))", 5, "maximum"),
    "NaN": (X.format(fill="float('nan')") + "tt.store(out, tt.sum(v))", 5, "sum in line 6"),
    "columns": (
        """
j = tt.arange(0, 16)
v = tt.load(x + i[:, None] * 16 + j[None, :], mask=on[:, None] & (j < m)[None, :])
tt.store(out + i, tt.max(v, axis=1), mask=on)""",
        6,
        "maximum in line 7",
    ),
    "rows, reduced along them": (
        """
j = tt.arange(0, 16)
v = tt.load(x + i[:, None] * 16 + j[None, :], mask=on[:, None])
tt.store(out + j, tt.max(v, axis=0))""",
        6,
        "maximum in line 7",
    ),
    "dot": (
        "j = tt.arange(0, 16)" + DOT.format(mx="on[:, None] & (j < m)[None, :]", my="(j < m)[None, :]", fill=0),
        6,
        "sum in line 8",
    ),
    "a loop, max": (
        """
best = tt.full((B,), float("-inf"), tt.float32)
for k in range(0, n, B):
    best = tt.maximum(best, tt.load(x + k + i, mask=k + i < n, other=0))
tt.store(out, tt.max(best))""",
        7,
        "maximum in line 7",
    ),
    "a loop, min": (
        """
best = tt.full((B,), float("inf"), tt.float32)
for k in range(0, n, B):
    v = tt.load(x + k + i, mask=k + i < n)
    best = tt.minimum(v, best)
tt.store(out, tt.min(best))""",
        7,
        "minimum in line 8",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_fill_that_changes_nothing(name):
    assert fills(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_fill_that_changes_the_reduction(name):
    body, line, *words = WRONG[name]
    (found,) = fills(body)
    assert (found.rule, found.loc.line) == ("fill-identity", line)
    assert "tt.load(x + " in found.loc.text[found.loc.column : found.loc.end]
    assert all(word in str(found) for word in words), str(found)
    lines = body.strip().split("\n")
    at = next(k for k, text in enumerate(lines) if "tt.load" in text)
    for comment, left in (("# lint: ok", 0), ("# tails, lint: race, fill-identity", 0), ("# lint: race", 1)):
        assert len(fills("\n".join([*lines[:at], f"{lines[at]}  {comment}", *lines[at + 1 :]]))) == left


@pytest.mark.parametrize(
    "dtype, fill, ok",
    [
        (np.int32, 0, False),
        (np.int32, np.iinfo(np.int32).min, True),
        (np.int8, -128, True),
        (np.uint8, 0, True),
        (np.float16, -inf, True),
        (np.float64, 0, False),
    ],
)
def test_the_least_value_is_the_types(dtype, fill, ok):
    found = fills("tt.store(out, tt.max(tt.load(x + i, mask=on, other=OTHER)))", dtype, OTHER=fill)
    assert [f.rule for f in found] == ["fill-identity"] * (not ok)


def test_fills_that_meet():
    """Where both masks are off, the two fills make the sum wrong together; it is said at both."""
    body = "w = tt.load(y + i, mask=i < m, other=2)\n" + X + "tt.store(out, tt.sum(v + w))"
    assert [f.loc.line for f in fills(body.format(fill=0))] == [5, 6]
    assert fills(body.format(fill=-2)) == []


def test_long_kernels():
    """Chains of thousands of ops, and values that are used twice in every link."""
    body = X.format(fill=0) + "for k in tt.static_range(LINKS):\n    v = {}\ntt.store(out, tt.sum(v))"
    assert fills(body.format("v * 0.5 + v").replace("LINKS", "300")) == []
    assert len(fills(body.format("v * 0.5 + v + 1").replace("LINKS", "300"))) == 1
    loads = "v = i * 0.0\nfor k in tt.static_range(80):\n    v += tt.load(x + i + k * 9, mask=i + k < n, other=OTHER)\n"
    assert fills(loads + "tt.store(out, tt.sum(v))", OTHER=0) == []
    assert len(fills(loads + "tt.store(out, tt.sum(v))", OTHER=1)) == 1


def test_a_finding_in_full():
    found = fills("best = tt.max(tt.load(x + i, mask=on), axis=0)\ntt.store(out, best)")
    assert str(found) == repr(found) == str(found[0])
    assert str(found[0]) == (
        "kernel k, line 5:\n"
        "    best = tt.max(tt.load(x + i, mask=on), axis=0)\n"
        "                  ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "where its mask is off this load gives 0, and what comes of that changes the maximum in line 5; put "
        'tt.where(mask, x, float("-inf")) around what is reduced, or give an other= that comes to float("-inf") there '
        "[fill-identity]"
    )
    assert repr(fills("tt.store(out + i, i)")) == "nothing found"


# -- sums in 16 bits ---------------------------------------------------------------------------------------------------

HALF = """
@tt.jit
def k(x, out, n, D: tt.constexpr):
    acc = tt.zeros((32,), D)
    for r in range(n):
        v = tt.load(x + r * 32 + tt.arange(0, 32))
        {body}
    tt.store(out + tt.arange(0, 32), acc)
"""


@pytest.mark.parametrize(
    "body, dtype, found",
    [
        ("acc += v", tt.float16, True),
        ("acc = v.to(D) + acc", tt.bfloat16, True),
        ("acc = acc - 2 * v.to(D)", tt.float16, True),
        ("acc = tt.where(v > 0, acc, 0) + v.to(D)", tt.float16, True),
        ("acc = (acc.to(tt.float32) + v).to(D)", tt.float16, True),
        ("for s in tt.static_range(99):\n            acc = acc + v.to(D)", tt.float16, True),
        ("acc = tt.where(v > 0, acc, v.to(D) + 1)", tt.float16, False),
        ("acc += v.to(D)", tt.float32, False),
        ("acc = tt.maximum(acc, v.to(D))", tt.float16, False),
        ("acc = v.to(D)", tt.float16, False),
        ("acc = v.to(D) + 1", tt.float16, False),
        ("acc += v.to(D)  # lint: half-accumulator", tt.float16, False),
    ],
)
def test_an_accumulator_of_16_bits(body, dtype, found):
    k = kernel(HALF.format(body=body))
    args = np.ones(320, np.float16), tt.zeros(32, dtype), 10
    findings = tt.lint(k, 1, *args, dtype, sm_count=0, num_warps=1)
    assert [f.rule for f in findings] == ["half-accumulator"] * found
    if found:
        assert "acc" in findings[0].loc.text
        assert f"in {dtype}, which rounds it in every round" in str(findings)
        assert rules(k, 1, *args, dtype, ignore=["half-accumulator"]) == []


# -- grids and tiles ---------------------------------------------------------------------------------------------------

COPY = """
@tt.jit
def k(x, out, n, B: tt.constexpr):{comment}
    i = tt.program_id(0) * B + tt.arange(0, B)
    tt.store(out + i, tt.load(x + i, mask=i < n), mask=i < n)
"""


def test_a_small_grid():
    k, x, out = kernel(COPY.format(comment="")), np.ones(1000, np.float32), np.zeros(1000, np.float32)
    (found,) = tt.lint(k, 8, x, out, 1000, B=128, sm_count=9)
    assert (found.rule, found.loc.line, found.loc.text.strip()[:5]) == ("small-grid", 2, "def k")
    assert "the grid has 8 programs, for 9 multiprocessors" in str(found)
    assert rules(k, (2, 4), x, out, 1000, B=512, sm_count=9) == ["small-grid", "race"]
    assert rules(k, lambda meta: tt.cdiv(1000, meta["B"]), x, out, 1000, B=128, sm_count=8) == []
    assert rules(k, 0, x, out, 1000, B=128, sm_count=8) == []
    assert tt.lint(k, 8, x, out, 1000, B=128) == []  # of the device in use: the interpreter has one
    quiet = kernel(COPY.format(comment="  # lint: small-grid"))
    assert rules(quiet, 8, x, out, 1000, B=128, sm_count=132) == []
    assert not out.any()


def test_fewer_elements_than_threads():
    k, x, out = kernel(COPY.format(comment="")), np.ones(64, np.float32), np.zeros(64, np.float32)
    (found,) = tt.lint(k, 1, x, out, 64, B=64, sm_count=1, num_warps=4)
    assert (found.rule, found.loc.line) == ("few-elements", 2)
    assert "the largest tile of a program has 64 elements, for 128 threads" in str(found)
    assert rules(k, 1, x, out, 64, B=64, num_warps=2) == []
    assert rules(k, 1, x, out, 64, B=64, num_warps=4) == ["few-elements"]
    assert rules(k, 1, x, out, 64, B=64, num_warps=None) == []  # it takes as few threads as it needs
    assert rules(k, 64, x, out, 64, B=1, num_warps=1) == ["few-elements"]


# -- what the interpreter finds ----------------------------------------------------------------------------------------

TOTAL = """
@tt.jit
def k(x, out, B: tt.constexpr):
    i = tt.program_id(0) * B + tt.arange(0, B)
    {store}
"""


def test_racing_stores():
    """Also where they store equal values, as all of these do."""
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    k = kernel(TOTAL.format(store="tt.store(out, tt.sum(tt.load(x + i)))"))
    (found,) = tt.lint(k, 2, x, out, B=32, sm_count=0, num_warps=1)
    assert (found.rule, found.loc.line) == ("race", 4)
    assert "programs (0, 0, 0) and (1, 0, 0) store to element 0 of out: 32.0 in line 4, then 32.0 in line 4" in str(
        found
    )
    assert rules(k, 1, x, out, B=32) == []
    k[2](x, out, B=32)
    for store, grid in (
        ("tt.store(out, 1)  # lint: race", 2),
        ("tt.store(out + i, 1)", 2),
        ("tt.atomic_add(out, tt.sum(tt.load(x + i)))", 2),
        ("tt.store(out + tt.program_id(0), tt.sum(tt.load(x + i)))", 2),
        ("tt.atomic_cas(out + 9, 1, 0)\n    tt.store(out, 1)\n    tt.atomic_xchg(out + 9, 1)", 2),
    ):
        assert rules(kernel(TOTAL.format(store=store)), grid, x, out, B=32) == [], store
    overlap = kernel(TOTAL.format(store="tt.store(out + tt.program_id(0) * 31 + tt.arange(0, B), 1)"))
    assert rules(overlap, 2, x, out, B=32) == ["race"]
    assert rules(overlap, 2, x, out, B=32, ignore=("race",)) == []


def test_other_errors_of_the_interpreter():
    k = kernel(TOTAL.format(store="tt.store(out + i, tt.load(x + i) + 1)"))
    x = np.ones(40, np.float32)
    assert rules(k, 2, x, x, B=32) == ["out-of-bounds"]
    (found,) = tt.lint(k, 2, x, np.zeros(64, np.float32), B=32, sm_count=0, num_warps=1)
    assert "program (1, 0, 0) reads element 40 of x" in str(found)
    assert x.tolist() == [1] * 40


# -- warnings ----------------------------------------------------------------------------------------------------------

GREATEST = """
@tt.jit
def k(x, out, n, B: tt.constexpr):
    i = tt.arange(0, B)
    tt.store(out, tt.max(tt.load(x + i, mask=i < n)))
"""


def test_compiling_warns_once(executor):
    k, x, out = kernel(GREATEST), np.ones(60, np.float32), np.zeros(1, np.float32)
    with pytest.warns(tt.LintWarning, match="changes the maximum in line 4") as caught:
        k[1](x, out, 60, B=64)
    assert (len(caught), caught[0].lineno) == (1, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k[1](x, out, 60, B=64)
        assert out[0] == 1
        kernel(GREATEST.replace("i < n)))", "i < n)))  # lint: ok"))[1](x, out, 60, B=64)
        warnings.simplefilter("ignore", tt.LintWarning)
        k[1](x, out, 60, B=128)


def test_a_warning_may_be_an_error():
    with warnings.catch_warnings(), pytest.raises(tt.LintWarning):
        warnings.simplefilter("error", tt.LintWarning)
        kernel(GREATEST).compile(np.ones(60, np.float32), np.zeros(1, np.float32), 60, B=64)


def test_only_kernels_are_looked_at():
    with pytest.raises(tt.LaunchError, match="expected a kernel"):
        tt.lint(test_only_kernels_are_looked_at, 1)


def test_a_mask_that_is_written_again_is_the_loads(interpreter):
    """Of an array, a load makes the mask; what the kernel writes to the same effect is the same mask."""
    import tinyton.tile as ct

    @ct.kernel
    def variance(x, out, mean, T: ct.Constant[int], SURE: ct.Constant[bool]):
        row, total = ct.bid(0), ct.zeros((1, T), ct.float32)
        for j in range(ct.num_tiles(x, 1, (1, T))):
            tile = ct.load(x, (row, j), (1, T))
            inside = ct.arange(T, dtype=ct.int32) + j * T < x.shape[1]
            total += ct.where(inside, tile - mean, 0) if SURE else tile - mean
        ct.store(out, row, ct.sum(total, axis=1))

    @ct.kernel
    def parts(x, out, T: ct.Constant[int], SURE: ct.Constant[bool]):
        i = ct.bid(0)
        tile = ct.exp(ct.load(x, i, T))
        ct.store(out, i, ct.sum(ct.where(i * T + ct.arange(T, dtype=ct.int32) < x.shape[0], tile, 0) if SURE else tile))

    @ct.kernel
    def rows(x, out, T: ct.Constant[int], SURE: ct.Constant[bool]):
        tile = ct.exp(ct.load(x, (ct.bid(0), 0), (1, T)))
        inside = ct.arange(T, dtype=ct.int32)[None, :] < x.shape[1]
        ct.store(out, ct.bid(0), ct.sum(ct.where(inside, tile, 0) if SURE else tile))

    x, out = np.ones((3, 40), np.float32), np.zeros(3, np.float32)
    for sure, rules in ((True, []), (False, ["fill-identity"])):
        for kernel_, grid, args in (
            (variance, (3,), (x, out, 2.0, 64, sure)),
            (parts, (3,), (x[0], out, 16, sure)),
            (rows, (3,), (x, out, 64, sure)),
        ):
            found = tt.lint(kernel_, grid, *args, sm_count=1, ignore=["few-elements"])
            assert [f.rule for f in found] == rules
            assert all("ct.where" in f.message and "tt." not in f.message for f in found)
