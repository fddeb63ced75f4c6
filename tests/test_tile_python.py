"""The Python that kernels about arrays are written in: what a case leaves is what Python itself leaves, and what is
refused is refused in one way."""

import linecache
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import underlined

_texts = count()


def defined(text, **names):
    """What the lines of a module define, whose text is there to be read."""
    file = f"<tile {next(_texts)}>"
    lines = [line + "\n" for line in text.strip("\n").split("\n")]
    linecache.cache[file] = len(text), None, lines, file
    scope = {"ct": ct, "tt": tt, "__name__": "cell", **names}
    exec(compile("".join(lines), file, "exec"), scope)
    return scope


def module(head, body, params="out, n, C: ct.Constant"):
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return f"{head.strip()}\n\n@ct.kernel\ndef k({params}):\n{lines}"


def launched(scope, *args, size=16):
    out = np.full(size, -99, np.float32)
    ct.launch(None, (1,), scope["k"], (out, *args))
    return out.tolist()


def assertion(condition, message=""):
    assert condition, message


PYTHON = SimpleNamespace(  # what the names mean to Python, for tiles that are numbers
    kernel=lambda f: f,
    function=lambda f=None, **options: f or (lambda g: g),
    store=lambda out, index, tile: out.__setitem__(index, tile),
    static_eval=lambda x: x,
    static_iter=lambda x: x,
    static_assert=assertion,
    ensure_constant=lambda x: x,
    maximum=max,
    where=lambda c, x, y: x if c else y,
    int32=int,
    float32=float,
    Constant=ct.Constant,
)

HEAD = """
import dataclasses
import functools
import math
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import NamedTuple

SCALE = 3

def plain(x, k=2, *rest, z=0, **more):
    y = x * k + SCALE + z
    for r in rest:
        y += r
    if "w" in more:
        y += more["w"] * 100
    return y

def twice(f, x):
    return f(f(x))

def both(x):
    return x + 1, (x, x - 1)

def adder(k):
    def add(x):
        return x + k
    return add

def total(n):
    if n == 0:
        return 0
    return n + total(n - 1)

def even(n):
    return True if n == 0 else odd(n - 1)

def odd(n):
    return False if n == 0 else even(n - 1)

def sign(x):
    if x > 0:
        return 1
    elif x < 0:
        return -1
    return 0

def first(x, limit):
    for i in range(10):
        if i * i > x:
            return i
        if i == limit:
            break
    return -1

by_ten = lambda x, k=10: x * k
minus, plus = (lambda x: x - 1), (lambda x: x + 1)

@ct.function
def marked(x, *, by=1):
    return x - by

class Act(Enum):
    NONE = "none"
    TWICE = "twice"

class Level(IntEnum):
    LOW = 1
    HIGH = 5

class Point(NamedTuple):
    x: object
    y: object = 7

    def sum(self):
        return self.x + self.y

@dataclass(frozen=True)
class Pair:
    a: object
    b: object = 2

    @property
    def sum(self):
        return self.a + self.b

    @staticmethod
    def make(x):
        return Pair(x, x + 1)

    @classmethod
    def of(cls, x):
        return cls(x, b=x * 2)

    def moved(self, by=1):
        return replace(self, a=self.a + by)

    def __call__(self, x):
        return self.a * x + self.b

    def __getitem__(self, k):
        return (self.a, self.b)[k]

    def __add__(self, other):
        return Pair(self.a + other.a, self.b + other.b)

    def __rmul__(self, k):
        return Pair(k * self.a, k * self.b)

    def __neg__(self):
        return Pair(-self.a, -self.b)

    def __lt__(self, other):
        return self.sum < other.sum

    def __len__(self):
        return 2

    def __contains__(self, x):
        return x == self.a or x == self.b

@dataclass(frozen=True)
class Config:
    size: int = 4
    act: Act = Act.TWICE
    inner: Pair = Pair(1)
    whole: object = field(init=False)
    table: tuple = field(default_factory=lambda: (1, 2))

    def __post_init__(self):
        object.__setattr__(self, "whole", self.size * 10)
        ct.static_assert(self.act is not None, "an activation")

    def apply(self, x):
        if self.act is Act.TWICE:
            return x * 2
        return x

CONFIG = Config(8)
"""

CASES = {
    "helpers": """
x, (y, z) = both(n)
ct.store(out, 0, plain(n) + plain(n, 3) * 10 + plain(n, z=1))
ct.store(out, 1, plain(n, 2, 5, 6, w=7, z=n))
ct.store(out, 2, x * 100 + y * 10 + z)
ct.store(out, 3, twice(plain, n) + twice(by_ten, n) + twice(marked, n))
ct.store(out, 4, marked(n, by=3) + by_ten(n, k=2))
ct.store(out, 5, sign(n) + sign(-n) * 10 + sign(n - n) * 100)
ct.store(out, 6, first(n, 9) * 100 + first(n, 1) * 10 + first(99 + n, 20))
ct.store(out, 7, minus(n) * 100 + plus(n))
""",
    "arguments in stars": """
args, more = (1, 2), Point(3)
def f(a, b=0, /, c=5, *d, e=1, **g):
    return a * 1000 + b * 100 + c * 10 + e + sum_of(d) + len(g) * 5 + g.get("q", 0)
def sum_of(xs):
    s = 0
    for x in xs:
        s += x
    return s
def forward(*a, **k):
    return f(*a, **k)
ct.store(out, 0, f(*args) + f(n, *more, *args, n, e=2))
ct.store(out, 1, forward(n, c=2) + forward(*(n, 2, 3, 4), e=3, q=n, r=1))
ct.store(out, 2, plain(*(n,), **dict_of(z=1, w=2)) if C else 0)
""",
    "closures see names as they are when they are called": """
k = 1
def f(x):
    return x + k
g = lambda x: f(x) * k
a = f(n)
k = 10
b = g(n)
if n > 2:
    k = 20
    c = f(n)
else:
    k = 30
    c = g(n)
d = f(n)
for i in range(3):
    k += i
    d += g(i)
e = f(0)
for i in ct.static_iter((1, 2)):
    k = i
    e += f(n)
h = adder(n)
ct.store(out, 0, a)
ct.store(out, 1, b)
ct.store(out, 2, c)
ct.store(out, 3, d)
ct.store(out, 4, e)
ct.store(out, 5, h(1) + adder(h(2))(3))
""",
    "closures in closures": """
def outer(x):
    y = x + 1
    def inner(z):
        def last():
            return y * z
        return last() + y
    y += 1
    if x > 2:
        y *= 2
    return inner, y
f, y = outer(n)
g, _ = outer(1)
ct.store(out, 0, f(3) * 1000 + g(2) * 10 + y)
fs = tuple(lambda x, i=i: x * i for i in ct.static_iter(range(3)))
ct.store(out, 1, fs[1](n) + fs[2](n))
def recursive(k):
    return 1 if k == 0 else k * recursive(k - 1)
ct.store(out, 2, recursive(5))
def pick(flag):
    if flag:
        return plus
    return lambda x: x - 10
ct.store(out, 3, pick(True)(n) * pick(False)(n))
def default(x=n):
    return x
n += 1
ct.store(out, 4, default() * 10 + n)
def shadow(n):
    n = n + 1
    return n
ct.store(out, 5, shadow(n) + n)
ct.store(out, 6, (lambda *a, **k: len(a) * 10 + len(k))(1, 2, x=3))
""",
    "recursion that ends": """
ct.store(out, 0, total(C))
ct.store(out, 1, 1 if even(10) and odd(7) and not even(3) else 2)
def power(x, k):
    if k == 0:
        return 1
    half = power(x, k // 2)
    return half * half * x if k % 2 else half * half
ct.store(out, 2, power(n, 5))
""",
    "tuples": """
t = (n, 1, *(2, n), 3)
a, *b, (c, d) = (*t, (5, n))
*e, f = (n,)
[g, *h] = t[1:4]
ct.store(out, 0, a * 1000 + len(b) * 100 + c * 10 + d)
ct.store(out, 1, len(e) + f + g + len(h))
u = t + (n, 2) * 2
ct.store(out, 2, len(u) * 10 + u[-1] + u[-2] + u[3])
ct.store(out, 3, ((n, 1) == (n, 1)) + ((n, 1) != (n, 2)) * 2 + ((n, 1) < (n, 2)) * 4 + ((n, 3) > (n + 1, 2)) * 8)
ct.store(out, 4, ((n, 1) <= (n, 1, 0)) + ((n,) == (n, 1)) * 2 + (n in t) * 4 + (n + 100 not in t) * 8 + (4 in t) * 16)
ct.store(out, 5, (("a", n) == ("a", n)) + (None in (n, None)) * 2 + (n in (None, "a", 1000)) * 4)
s = tuple(x * y for x in ct.static_iter((1, 2, 3)) if x != 2 for y in (10, n))
ct.store(out, 6, len(s) * 1000 + s[1] + s[2] * 10)
ct.store(out, 7, len(tuple(ct.static_iter(zip((1, 2), (3, 4)))))  + t[1:][::2][0] + max(t) + min((n, 1, 2)))
m = ((1, 2), (3, n))
ct.store(out, 8, m[1][1] + (0 if () else 1) + tuple(x for (x, _) in ct.static_iter(m))[1])
for (p, q), r in ct.static_iter(zip(m, (5, 6))):
    ct.store(out, 9 + r - 5, p * 100 + q * 10 + r)
""",
    "records": """
p, q = Pair(n), Pair.make(n)
r = replace(p, b=5) + q
ct.store(out, 0, p.sum * 100 + q.b + r.a + r.b)
for i in range(3):
    p = p.moved(i)
    q = Pair(q.b, q.a)
ct.store(out, 1, p.a * 100 + q.a * 10 + q.b)
if n > 2:
    p = Pair.of(n)
else:
    p = Pair(0, 0)
ct.store(out, 2, p.a * 10 + p.b + p(2) + p[1] + p[-2])
ct.store(out, 3, (3 * p).sum + (-p).a + (p < q) + len(p) + (n in p) * 100)
ct.store(out, 4, CONFIG.size + CONFIG.inner.sum + CONFIG.apply(n) + CONFIG.whole + CONFIG.table[1])
c = Config(C, act=Act.NONE)
ct.store(out, 5, c.size + c.apply(n) + c.whole + c.table[0] + replace(c, act=Act.TWICE).apply(n))
ct.store(out, 6, (Pair(n, 1) == Pair(n, 1)) + (Pair(n) != Pair(n, 3)) * 2 + (c == Config(C, Act.NONE)) * 4)
v = Point(n)
v = v._replace(y=n + 1)
x, y = v
ct.store(out, 7, v.x * 100 + v.y * 10 + x + y + v.sum() + len(v) + v[0])
f = functools.partial(plain, k=4, z=1)
ct.store(out, 8, f(n) + functools.partial(p.moved, 3)().a)
ct.store(out, 9, isinstance(c, Config) + isinstance(v, tuple) * 2 + isinstance(3, Pair) * 4)
""",
    "enums": """
level = Level.HIGH
ct.store(out, 0, n + level + Level(1) + Level.LOW * 2)
ct.store(out, 1, (level is Level.HIGH) + (Act.NONE == Act("none")) * 2 + (Act.NONE is not Act.TWICE) * 4)
ct.store(out, 2, (level > Level.LOW) + (Act.NONE in (Act.TWICE, Act.NONE)) * 2 + len(Act.TWICE.value) + len(level.name))
""",
    "Python's own functions": """
x = n * 1.5
ct.store(out, 0, abs(-n) + abs(-2) * 100)
ct.store(out, 1, max(n, 3, 9) * 100 + min(7, n, 9) + max(1, 2) * 1000)
q, r = divmod(-n - 3, 4)
ct.store(out, 2, q * 10 + r + divmod(7, 2)[0])
ct.store(out, 3, int(x) * 10 + float(n) + bool(n) + bool(n - n) * 100 + int(2.5))
ct.store(out, 4, n ** 2 + 2 ** 3 + x ** 2 + pow(n, 2) + n ** 0)
ct.store(out, 5, math.floor(2.5) + math.prod((2, 3)) + (6).bit_length() + "abc".index("c"))
ct.store(out, 6, (n if n > 100 or n < 3 else 5) + (not n) + (1 < n < 100 != 3))
""",
    "what Python computes": """
a = ct.static_eval([i * i for i in range(5) if i % 2])
ct.store(out, 0, len(a) * 100 + a[1])
ct.store(out, 1, ct.static_eval((n, 1)[0] if C else 0) + ct.static_eval(sum(sorted({3, C}))))
for i, x in ct.static_iter(enumerate(reversed((1, 2, n)))):
    if i == 1:
        continue
    ct.store(out, 2 + i, x)
    if x == 1:
        break
ct.static_assert(C > 1, f"not {C:>5}")
ct.store(out, 5, ct.ensure_constant(C + 1) + ct.static_eval(total(4)) + ct.static_eval("C" in dir()) * 0)
w = 2
ct.store(out, 6, ct.static_eval(w + C) + ct.static_eval(max(i * w for i in range(3))))
for f in ct.static_iter([plus, minus, by_ten]):
    n = f(n)
ct.store(out, 7, n)
""",
}
CASES["arguments in stars"] = "def dict_of(**k):\n    return k\n" + CASES["arguments in stars"].lstrip("\n")


@pytest.mark.parametrize("case", CASES)
def test_python(executor, case):
    text = module(HEAD, CASES[case])
    mine = defined(text)
    for n in (5, 2):
        want = [-99.0] * 16
        defined(text, ct=PYTHON)["k"](want, n, 3)
        assert launched(mine, n, 3) == want
