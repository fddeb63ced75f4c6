"""`while`, `break`, `continue`, early `return`: each function below runs as Python and in a kernel."""

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel, mappings


class Pointer:
    """What ``p + i`` and ``tt.load`` are to a function that runs as Python."""

    def __init__(self, values, at=0):
        self.values, self.at = values, at

    def __add__(self, n):
        return Pointer(self.values, self.at + n)

    @staticmethod
    def load(p):
        assert 0 <= p.at < len(p.values)
        return p.values[p.at]


class Python:
    load = Pointer.load
    range = static_range = staticmethod(range)


DATA = [5, 3, 8, 0, 7, 7, 2, 9]  # what p points at; n goes up to its length
FUNCTIONS = {
    "while with a counter": """
x = 1
while x < n * n:
    x = x * 2 + 1
return x""",
    "while on two conditions, of which one loads": """
i = 0
while i < n and tt.load(p + i) != 0:
    i += 1
return i""",
    "while with or": """
i = 0
while i < 3 or i < n:
    i += 1
return i""",
    "while true": """
i = 0
total = 0
while True:
    if i >= n:
        break
    total += tt.load(p + i)
    i += 1
return total * 100 + i""",
    "return out of while true": """
i = 0
while True:
    i += 1
    if i * i > n:
        return i
""",
    "break": """
found = -1
for i in range(n):
    if tt.load(p + i) == 7:
        found = i
        break
return found""",
    "break at once": """
i = 10
for i in range(n):
    break
return n""",
    "continue": """
total = 0
for i in range(n):
    if i % 3 == 1:
        continue
    total = total * 2 + i
return total""",
    "continue in while": """
i = 0
total = 0
while i < n:
    i += 1
    if i == 2:
        continue
    total += i
return total""",
    "break and continue, half the paths": """
total = 0
for i in range(20):
    if i > n:
        if total > 5:
            break
        if i % 2:
            total += 1
            continue
        total += 2
    else:
        total += 3
        if i == 1:
            continue
    total += 10
return total""",
    "nested loops with breaks of their own": """
total = 0
for i in range(n):
    for j in range(n):
        if j > i:
            break
        k = 0
        while True:
            k += 1
            if k > j:
                break
            if k == 2:
                continue
            total += k
        total += 100
    if total > 1000:
        break
    total += 1
return total""",
    "return out of nested loops": """
for i in range(n):
    for j in range(n):
        if tt.load(p + i) + tt.load(p + j) == 10:
            return i * 10 + j
return -1""",
    "return on some paths of some branches": """
x = n
if n > 2:
    if n > 5:
        return 50 + x
    y = x + 1
else:
    y = 2 * x
if y == 4:
    return 44
return y""",
    "elif, all of which return": """
if n == 0:
    return 1
elif n < 3:
    return 2
elif n < 5:
    x = n * 2
else:
    return 3
return x""",
    "what follows a return is not reached": """
x = 1
if n > 3:
    return 7
    x = 8
return x
x = 9""",
    "return of a sum that a loop carries": """
total = 0
for i in range(n):
    total += tt.load(p + i)
    if total > 12:
        return total
return total - 1000""",
    "an unrolled loop with a break": """
total = 0
for i in tt.static_range(8):
    if i >= n:
        break
    if i == 2:
        continue
    total += tt.load(p + i)
return total""",
    "an unrolled loop left at compile time": """
total = 0
for i in tt.static_range(100000):
    if i == 5:
        break
    if i % 2:
        continue
    total += i
return total + n""",
    "a break in a loop that counts down": """
last = 0
for i in range(n, -3, -2):
    last = i
    if i < 2:
        break
return last""",
    "a loop in a branch, after a possible return": """
if n == 1:
    return 11
total = 0
if n > 2:
    while total < 10:
        total += n
        if total == 9:
            return 99
return total""",
    "a loop over a tuple": """
total = 0
for a, (b, c) in ((1, (2, 3)), (4, (n, 6))):
    if b == 5:
        break
    total += a * b + c
return total""",
    "counters that meet": """
low = 0
high = n
while low < high:
    middle = (low + high) // 2
    if middle * middle < n:
        low = middle + 1
    else:
        high = middle
return low * 10 + high""",
    "the condition reads what the body assigns": """
a = n + 20
b = 12
while b != 0:
    a, b = b, a % b
return a""",
}


@pytest.fixture(scope="module")
def texts():
    """One kernel of all functions: out[k] is what the k-th returns."""
    functions = ""
    stores = []
    for k, lines in enumerate(FUNCTIONS.values()):
        inside = "\n".join("    " + line for line in lines.strip("\n").split("\n"))
        functions += f"@tt.jit\ndef f{k}(p, n):\n{inside}\n"
        stores.append(f"    tt.store(out + {k}, f{k}(p, n))\n")
    return functions, "@tt.jit\ndef k(out, p, n):\n" + "".join(stores)


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
def test_as_python_does(mapping, texts):
    functions, text = texts
    plain = {"tt": Python}
    exec(functions.replace("@tt.jit\n", ""), plain)
    k = kernel(functions + text)
    for n in range(len(DATA) + 1):
        out = np.full(len(FUNCTIONS), -999, np.int32)
        k[1](out, np.array(DATA, np.int32), n, num_warps=mapping.warps)
        want = [plain[f"f{j}"](Pointer(DATA), n) for j in range(len(FUNCTIONS))]
        wrong = {name: (got, w) for name, got, w in zip(FUNCTIONS, out.tolist(), want, strict=True) if got != w}
        assert not wrong, f"n = {n}"


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
def test_tiles_and_reductions_in_loops_that_are_left(mapping):
    k = kernel("""
@tt.jit
def k(out, x, n):
    i = tt.arange(0, 256)
    acc = tt.zeros(256, tt.float32)
    rounds = 0
    while tt.sum(acc) < n:
        acc += tt.load(x + i)
        rounds += 1
        if tt.max(acc) > 40:
            break
        if rounds % 2:
            continue
        acc = acc - tt.sum(acc, 0) / 1024
    tt.store(out + i, acc)
    tt.store(out + 256, rounds)
    for j in range(100):
        acc = tt.where(i < j, acc + tt.max(acc), acc)
        if tt.sum(acc) > 2000:
            return
        tt.store(out + 257 + j, tt.sum(acc))
""")
    x = np.random.default_rng(0).integers(0, 8, 256).astype(np.float32)
    for n in (0, 1000, 10**9):
        want, acc, rounds = np.full(400, -1, np.float32), np.zeros(256, np.float32), 0
        while acc.sum() < n:
            acc += x
            rounds += 1
            if acc.max() > 40:
                break
            if rounds % 2:
                continue
            acc -= acc.sum() / 1024
        want[:256], want[256] = acc, rounds
        for j in range(100):
            acc = np.where(np.arange(256) < j, acc + acc.max(), acc)
            if acc.sum() > 2000:
                break
            want[257 + j] = acc.sum()
        out = np.full(400, -1, np.float32)
        k[1](out, x, n, num_warps=mapping.warps)
        np.testing.assert_allclose(out, want, rtol=1e-4)


@pytest.mark.parametrize("mapping", mappings(None, 4), indirect=True)
def test_an_early_return_of_some_programs(mapping):
    k = kernel("""
@tt.jit
def k(x, n, CUT: tt.constexpr):
    pid = tt.program_id(0)
    if CUT is not None:
        if pid >= CUT:
            return
    i = pid * 64 + tt.arange(0, 64)
    if pid * 64 >= n:
        return
    v = tt.load(x + i, mask=i < n, other=0)
    if pid == 1:
        tt.store(x + i, v + 100, mask=i < n)
        return
    tt.store(x + i, v + tt.sum(v), mask=i < n)
""")
    for cut in (None, 3):
        x = np.arange(300, dtype=np.int32)
        k[8](x, 270, cut, num_warps=mapping.warps)
        want = np.arange(300, dtype=np.int32)
        for pid in range(8 if cut is None else cut):
            part = want[pid * 64 : min(270, pid * 64 + 64)]
            part += 100 if pid == 1 else part.sum()
        assert x.tolist() == want.tolist()


def test_a_value_on_a_path_that_has_left_is_not_missed(executor):
    """y has a value wherever it is read; a constant stays one."""
    k = kernel("""
@tt.jit
def k(out, n):
    if n > 2:
        if n > 5:
            return
        y = tt.arange(0, 4)
        SIZE = 4
    else:
        y = tt.arange(0, 4) * 2
        SIZE = 4
    tt.store(out + tt.arange(0, SIZE), y)
""")
    for n, want in ((1, [0, 2, 4, 6]), (3, [0, 1, 2, 3]), (9, [-1] * 4)):
        out = np.full(4, -1, np.int32)
        k[1](out, n)
        assert out.tolist() == want


def test_a_literal_takes_its_type_from_the_rounds(executor):
    """Although the first round, of constants, does not touch it."""
    k = kernel("""
@tt.jit
def k(out, n):
    i = 0
    acc = 0
    state = (0, 0.0)
    while i < n:
        if i == 0:
            i += 1
            continue
        acc = acc + tt.zeros(4, tt.float32) + i
        state = (state[0] + i, state[1] + acc)
        i += 1
    tt.store(out + tt.arange(0, 4), acc + state[0] + state[1])
""")
    out = np.zeros(4, np.float32)
    k[1](out, 4)
    assert out.tolist() == [6 + 6 + 1 + 3 + 6] * 4


def test_what_works_in_later_rounds_only(executor):
    """In the first, i is the number 0."""
    k = kernel("""
@tt.jit
def k(out, n):
    i = 0
    total = 0
    while i < n:
        total += tt.where(i != 0, 100 // i, 7) + i.to(tt.int64)
        i += 1
    tt.store(out, total + total.dtype.itemsize + (3).to(tt.float32))
""")
    out = np.zeros(1)
    k[1](out, 4)
    assert out[0] == 7 + 100 + 50 + 33 + 6 + 8 + 3


ENDS = [
    (2**63 - 10, 2**63 - 1, 4),
    (-(2**63) + 10, -(2**63), -4),
    (-(2**63), 2**63 - 1, 2**62),
    (2**63 - 3, 2**63 - 1, 1),
    (5, -5, 2**62),
    (0, 5, -(2**63)),
]


@pytest.mark.parametrize("stop", [False, True])
def test_a_range_ends_at_the_end_of_int64(executor, stop):
    k = kernel(f"""
@tt.jit
def k(out, low, high, step, n):
    count = 0
    last = low + (high - high) + (step - step)
    for i in range(low, high, step):
        last = i
        count += 1
        if {stop} and count > n:
            break
    tt.store(out, count)
    tt.store(out + 1, last)
""")
    for low, high, step in ENDS:
        out = np.zeros(2, np.int64)
        k[1](out, low, high, step, 1)
        want = list(range(low, high, step))[: 2 if stop else None]
        assert out.tolist() == [len(want), want[-1] if want else low], (low, high, step)


ERRORS = {
    "a type that changes": (
        "x = 0\nwhile n > 0:\n    x = tt.zeros(n.dtype.itemsize, tt.float32)\n    x = x[:, None]\n    n -= 1\nx = x[0]",
        "line 8",
        ": and None only",
    ),
    "a tile condition": ("while tt.arange(0, 4) < n:\n    n += 1", "line 3", "the condition is a tile (i1[4])"),
    "a tile condition later": (
        "x = 0\nwhile x < n:\n    x = x + tt.arange(0, 4)",
        "line 4",
        "the condition is a tile (i1[4])",
    ),
    "never ends": ("while 1:\n    n += 1", "line 3", "this loop never ends"),
    "on one path only": (
        "while n > 0:\n    y = n\n    n -= 1\ntt.store(out, y)",
        "line 6",
        "y is bound only in the loop of line 3 (in line 4)",
    ),
    "a break does not give a value": (
        "for i in range(n):\n    if i > 2:\n        if i > 3:\n            break\n    else:\n        y = 2\n"
        "    tt.store(out, y)",
        "line 9",
        "y has a value on one path only (line 8), not on the other of the if in line 4",
    ),
    "a tile of changing size": (
        "i = 1\nwhile i < n:\n    x = tt.arange(0, i)\n    i *= 2",
        "line 5",
        "end must be known when the kernel is compiled; this is a run-time value (i32)",
    ),
    "for else": ("for i in range(n):\n    break\nelse:\n    n = 1", "line 3", "for ... else"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(interpreter, case):
    lines, where, message = ERRORS[case]
    k = kernel("@tt.jit\ndef k(out, n):\n" + "".join(f"    {line}\n" for line in lines.split("\n")))
    with pytest.raises(tt.TinytonError) as caught:
        k[1](np.zeros(4, np.int32), 3)
    assert where in str(caught.value).split("\n")[0]
    assert message in str(caught.value)
    assert "?" not in str(caught.value)
