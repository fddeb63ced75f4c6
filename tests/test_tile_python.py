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
import contextlib
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

    @contextlib.contextmanager
    def scaled(self, x):
        yield x * self.size

CONFIG = Config(8)

@contextlib.contextmanager
def noted(out, at, x):
    y = x + 1
    ct.store(out, at, y)
    try:
        yield y, x
    finally:
        ct.store(out, at + 1, y * 10)

@dataclass(frozen=True, eq=False)
class Bracket:
    out: object
    at: int

    def __enter__(self):
        return self.at

    def __exit__(self, kind, error, trace):
        ct.store(self.out, self.at, 50)
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
b = Bracket(None, n)
ct.store(out, 10, (b == b) + (b == Bracket(None, n)) * 2 + (b != Bracket(None, n)) * 4)
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
    "with": """
y = 7
with noted(out, 0, n) as (a, b), CONFIG.scaled(n) as c:
    y += a * 100 + b
    if y > 2:
        y += 1
ct.store(out, 2, y + c)
with Bracket(out, 3) as at:
    ct.store(out, at, 1)
for i in range(4):
    with noted(out, 4, i):
        if i == n - 3:
            break
        if i == 0:
            continue
        y += i
ct.store(out, 6, y)
def f(x):
    with noted(out, 7, x) as (a, _):
        if x > 2:
            return a
        a += 50
    return a
ct.store(out, 9, f(n))
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


# -- what is refused: lines of a kernel, what the caret is under, the class, and words of the message ------------------

WRONG = """
import dataclasses
from dataclasses import dataclass
from typing import NamedTuple
import math
import numpy as np

ARRAY = np.zeros(3)

class Thing:
    a = 1

    def method(self, x):
        return x

THING = Thing()

@dataclass
class Melted:
    a: int

@dataclass(frozen=True)
class Record:
    a: object

def runaway(x):
    return runaway(x + 1)

def depends(x):
    return depends(x - 1) if x > 0 else 0

def fixed(N: ct.Constant[int]):
    return N

def two(a, b):
    return a

def reads(thing):
    return thing.a

@ct.function(tile=False)
def on_the_host(x):
    return x
"""
SYNTAX, TYPE, VALUE = ct.TileSyntaxError, ct.TileTypeError, ct.TileValueError
LOAD = "t = ct.load(x, 0, 4)\n"
REFUSED = {
    "try": ("try:\n    pass\nfinally:\n    pass", "try:", SYNTAX, "check before the launch"),
    "raise": ("raise ValueError", "raise ValueError", SYNTAX, "ct.static_assert"),
    "import": ("import math", "import math", SYNTAX, "at the top of the module"),
    "del": ("del n", "del n", SYNTAX, "just stop using the name"),
    "assert": ("assert n", "assert n", SYNTAX, "ct.static_assert"),
    "global": ("global ARRAY", "global ARRAY", SYNTAX, "cannot change them"),
    "nonlocal": ("def f():\n    nonlocal n\nf()", "nonlocal n", SYNTAX, "cannot change them"),
    "match": ("match n:\n    case 1: pass", "match n:", SYNTAX, "if / elif"),
    "class": ("class A: pass", "class A: pass", SYNTAX, "at module level"),
    "async": ("async def f(): pass", "async def f(): pass", SYNTAX, "at module level"),
    "yield": ("def f():\n    yield n\nf()", "yield n", SYNTAX, "not supported"),
    "with": ("with n:\n    pass", "n", TYPE, "contextlib.contextmanager, not of i32"),
    "list": ("z = [1, 2]", "[1, 2]", SYNTAX, "write a tuple"),
    "set": ("z = {1}", "{1}", SYNTAX, "tuple of constants"),
    "dict": ("z = {1: 2}", "{1: 2}", SYNTAX, "tuple of constants"),
    "list comprehension": ("z = [i for i in (1, 2)]", "[i for i in (1, 2)]", SYNTAX, "ct.static_iter(xs)"),
    "generator": ("z = max(i for i in (1, 2))", "(i for i in (1, 2))", SYNTAX, "ct.static_iter(xs)"),
    "walrus": ("z = (y := n)", "y := n", SYNTAX, "on a line of its own"),
    "for else": ("for i in range(3):\n    pass\nelse:\n    pass", "for i in range(3):", SYNTAX, "set a flag"),
    "while else": ("while n:\n    break\nelse:\n    pass", "while n:", SYNTAX, "set a flag"),
    "negative step": ("for i in range(3, 0, -2):\n    pass", "range(3, 0, -2)", TYPE, "is positive, not -2"),
    "step of 0": ("for i in range(0, 3, 0):\n    pass", "range(0, 3, 0)", TYPE, "is positive, not 0"),
    "range of a tile": (LOAD + "for i in range(t):\n    pass", "range(t)", TYPE, "integer scalars, not f32[4]"),
    "range of a float": ("for i in range(1.5):\n    pass", "range(1.5)", TYPE, "integer scalars, not f32"),
    "loop over a number": ("for i in n:\n    pass", "n", SYNTAX, "ct.static_iter"),
    "static_iter of an int": ("for i in ct.static_iter(3):\n    pass", "3", TYPE, "a sequence, not int 3"),
    "static_iter of a value": ("for i in ct.static_iter(n):\n    pass", "n", TYPE, "a sequence, not i32"),
    "static_iter too long": ("z = ct.static_iter(range(1001))", "range(1001)", ct.TileStaticEvalError, "at most 1000"),
    "undefined": ("z = unknown", "unknown", SYNTAX, "unknown is not defined"),
    "assigned later": ("z = later\nlater = 1", "later", SYNTAX, "later is not defined"),
    "global assigned later": ("z = ARRAY\nARRAY = 1", "ARRAY", SYNTAX, "ARRAY is not defined"),
    "undefined in a lambda": ("f = lambda: unknown\nf()", "unknown", SYNTAX, "unknown is not defined"),
    "local of another function": ("def f():\n    y = 1\nf()\nz = y", "y", SYNTAX, "y is not defined"),
    "variable of a comprehension": ("z = tuple(i for i in (1,))\nz = i", "i", SYNTAX, "i is not defined"),
    "item of an array": ("x[0] = 1", "x[0]", TYPE, "ct.store(array, index, tile)"),
    "item of an array, added to": ("x[0] += 1", "x[0]", TYPE, "ct.store(array, index, tile)"),
    "item of a tile": (LOAD + "t[0] = 1", "t[0]", TYPE, "a tile cannot be changed"),
    "item of a tuple": ("t = (1, 2)\nt[0] = 1", "t[0]", TYPE, "a tuple cannot be changed"),
    "field of a record": ("r = Record(n)\nr.a = 3", "r.a", TYPE, "a Record of i32 cannot be changed"),
    "math of a value": ("z = math.ceil(n)", "math.ceil(n)", TYPE, "there is ct.ceil"),
    "function of NumPy": ("z = np.sum(n)", "np.sum(n)", TYPE, "a kernel calls the functions of ct"),
    "Python's own": ("z = sorted((n, 1))", "sorted((n, 1))", SYNTAX, "Python's own"),
    "attribute of an array": ("z = x.nothing", "x.nothing", TYPE, "x has no nothing"),
    "attribute of a tile": (LOAD + "z = t.nothing", "t.nothing", TYPE, "functions of ct as methods, no .nothing"),
    "attribute of a record": ("r = Record(n)\nz = r.b", "r.b", TYPE, "r has no b"),
    "attribute of a module": ("z = math.nothing", "math.nothing", SYNTAX, "math has no nothing"),
    "too many fields": ("z = Record(1, 2)", "Record(1, 2)", TYPE, "it takes (a)"),
    "not frozen": ("z = Melted(1)", "Melted(1)", TYPE, "write @dataclass(frozen=True)"),
    "some class": ("z = Thing()", "Thing()", TYPE, "functions of the program"),
    "attribute of an object": ("z = reads(THING)", "thing.a", TYPE, "thing is a Thing, which may change"),
    "method of an object": ("z = THING.method(n)", "THING.method(n)", TYPE, "make that a frozen dataclass"),
    "an array outside": ("z = ARRAY + 1", "ARRAY", TYPE, "pass it as an argument"),
    "is": ("z = n is n", "n is n", SYNTAX, "Is on a run-time value"),
    "kernel returns": ("return n", "return n", SYNTAX, "return of a value"),
    "too many to unpack": ("a, b = (1, 2, 3)", "a, b", VALUE, "a tuple of 3 cannot be unpacked into 2 names"),
    "too few to unpack": ("a, *b, c = (1,)", "a, *b, c", VALUE, "a tuple of 1 cannot be unpacked into 3 names"),
    "a tile unpacked": (LOAD + "a, b = t", "a, b", TYPE, "f32[4] is not a tuple"),
    "value as index": ("z = (1, 2)[n]", "(1, 2)[n]", TYPE, "compile-time index"),
    "float as index": ("z = (1, 2)[1.0]", "(1, 2)[1.0]", TYPE, "must be integers"),
    "missing key": ("def g(**k):\n    return k['q']\ng(a=1)", "k['q']", TYPE, "there is no key 'q'"),
    "missing argument": ("z = two(1)", "two(1)", TYPE, "it takes (a, b)"),
    "unknown argument": ("z = two(1, c=2, b=3)", "two(1, c=2, b=3)", TYPE, "'c'; it takes (a, b)"),
    "star of a value": ("z = two(*n)", "*n", TYPE, "* is of a tuple, not i32"),
    "stars of a tuple": ("z = two(1, **(1, 2))", "(1, 2)", TYPE, "** is of **kwargs"),
    "given twice": ("def g(**k):\n    two(1, b=2, **k)\ng(b=1)", "k", TYPE, "given twice"),
    "constant parameter": ("z = fixed(n)", "fixed(n)", TYPE, "the parameter N of fixed is a ct.Constant"),
    "constant in a def": ("def f(a: ct.Constant):\n    return a\nf(n)", "f(n)", TYPE, "a of f is a ct.Constant"),
    "runaway": ("z = runaway(0)", "runaway(x + 1)", ct.TileRecursionError, "runaway is called without end"),
    "recursion at run time": ("z = depends(n)", "depends(x - 1)", ct.TileRecursionError, "known when the kernel"),
    "decorator": ("@ct.function\ndef f(a):\n    return a", "ct.function", SYNTAX, "takes no decorator"),
    "function of the host": ("z = on_the_host(n)", "on_the_host(n)", TYPE, "functions of the program"),
    "conversion": ("z = f'{n!r}'", None, SYNTAX, "!r, !s and !a"),
    "condition in a comprehension": (
        "z = tuple(i for i in (1, 2) if n)",
        "n",
        TYPE,
        "known when the kernel is compiled",
    ),
    "length of a number": ("z = len(n)", "len(n)", TYPE, "i32 has no len()"),
    "length of an array": ("z = len(x)", "len(x)", TYPE, "has no len(); its extents are .shape[0]"),
    "length of a constant": ("z = len(3)", "len(3)", TYPE, "has no len()"),
    "max of one": ("z = max(n)", "max(n)", TYPE, "two or more"),
    "divmod of floats": (LOAD + "z = divmod(t, 2)", "divmod(t, 2)", TYPE, "integers, not float32"),
    "static_eval of a value": (
        "z = ct.static_eval(n + 1)",
        "n + 1",
        ct.TileStaticEvalError,
        "only when the kernel runs",
    ),
    "static_eval fails": ("z = ct.static_eval(1 / 0)", "1 / 0", ct.TileStaticEvalError, "ZeroDivisionError"),
    "static_eval of a load": (
        "ct.static_eval(ct.load(x, 0, 4))",
        "ct.load(x, 0, 4)",
        ct.TileStaticEvalError,
        "kernels",
    ),
    "static_assert": ("ct.static_assert(C == 1, f'{C} it is')", "C == 1", ct.TileStaticAssertionError, ": 3 it is"),
    "static_assert of a value": (
        "ct.static_assert(n > 0)",
        "n > 0",
        ct.TileStaticEvalError,
        "only when the kernel runs",
    ),
    "ensure_constant": ("z = ct.ensure_constant(n)", "n", TYPE, "not i32"),
    "tuple and number": ("z = (1, 2) + n", "(1, 2) + n", TYPE, "a tile or a number, not tuple (1, 2)"),
    "constants that do not add": ("z = 'a' + 1", "'a' + 1", TYPE, "TypeError"),
    "order of records": ("z = Record(n) < Record(1)", "Record(n) < Record(1)", TYPE, "not a Record of i32"),
    "~ of a bool": ("z = ~True", "~True", TYPE, "ct.bitwise_not"),
    "no integer": ("z = ct.int16(math.nan)", "ct.int16(math.nan)", VALUE, "nan is no integer"),
    "condition of a tile": (LOAD + "z = 1 if t > 1 else 2", "t > 1", TYPE, "ct.where"),
    "bound on one path": ("if n > 1:\n    q = 1\nct.store(x, 0, q)", "q", SYNTAX, "one path only"),
    "of two types": (
        "if n > 1:\n    q = t = (1,)\nelse:\n    q = n\nct.store(x, 0, q)",
        "q",
        TYPE,
        "depends on the path",
    ),
    "no effect": ("n + 1", "n + 1", SYNTAX, "no effect"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(interpreter, case):
    lines, under, kind, words = REFUSED[case]
    scope = defined(module(WRONG, lines, "x, n, C: ct.Constant[int]"))
    with pytest.raises(kind) as caught:
        ct.launch(None, (1,), scope["k"], (np.zeros(8, np.float32), 3, 3))
    assert words in caught.value.message
    assert "tt." not in str(caught.value)
    if under:
        assert underlined(caught.value) == under


@pytest.mark.parametrize("star", ["*xs", "**xs"])
def test_a_kernel_names_its_parameters(star):
    with pytest.raises(ct.TileSyntaxError, match="names all its parameters"):
        defined(f"@ct.kernel\ndef k(out, {star}):\n    pass")


def test_a_long_chain_of_calls_is_cut(interpreter):
    scope = defined(module(WRONG, "runaway(n)", "x, n"))
    with pytest.raises(ct.TileRecursionError) as caught:
        ct.launch(None, (1,), scope["k"], (np.zeros(8), 3))
    assert str(caught.value).count("called from") == 8 and "193 more calls" in str(caught.value)


# -- what a kernel reads -----------------------------------------------------------------------------------------------


def test_what_functions_read_is_read_at_each_launch(executor):
    """Through functions in functions, tuples of them, lambdas, records and their classes: all is as it is now."""
    head = """
from dataclasses import dataclass
K, L, M = 1, 10, 100

def inner(x):
    return x + K

def helper(x):
    return inner(x) + L

@dataclass(frozen=True)
class Record:
    a: int

    def method(self, x):
        return x + self.a * M

RECORD = Record(1)
ALL = (helper, lambda x: x + K * 1000)
"""
    body = "ct.store(out, 0, ALL[0](n) + ALL[1](0) + RECORD.method(0))"
    scope = defined(module(head, body, "out, n"))

    def value():
        return launched(scope, 0)[0]

    assert value() == 1 + 10 + 1000 + 100
    assert value() == 1111 and len(scope["k"]._cache) == 1
    for change, want in [
        ({"K": 2}, 2 + 10 + 2000 + 100),
        ({"L": 20}, 2 + 20 + 2000 + 100),
        ({"M": 5}, 2 + 20 + 2000 + 5),
        ({"inner": lambda x: x}, 0 + 20 + 2000 + 5),
        ({"RECORD": scope["Record"](3)}, 0 + 20 + 2000 + 15),
        ({"ALL": (lambda x: x, lambda x: 7)}, 7 + 15),
        ({"M": 100}, 7 + 300),
    ]:
        scope.update(change)
        assert value() == want, change


def test_what_python_runs_is_read_at_each_launch(executor):
    head = "K = 2\ndef inner():\n    return K\ndef helper(x):\n    return x * inner()\nclass C:\n    a = 1\nc = C()\n"
    scope = defined(module(head, "ct.store(out, 0, ct.static_eval(helper(10)) + c.a)", "out"))
    assert launched(scope)[0] == 21
    scope["K"] = 3
    assert launched(scope)[0] == 31
    scope["c"].a = 2
    assert launched(scope)[0] == 32


def test_element_types_compare(interpreter):
    """Also with those of NumPy, and whatever is none."""
    text = """
ct.static_assert(out.dtype == ct.float32 and out.dtype is ct.float32 and out.dtype in (ct.int8, ct.float32))
ct.static_assert(out.dtype == np.float32 and np.dtype("float32") == out.dtype != np.float16 and out.dtype != None)
same = (out.dtype == np.float32, ct.float16 == out.dtype, n.dtype != INT32, n.dtype == "a", n == None)
ct.store(out, 0, sum_of(same))
"""
    head = """
import numpy as np
INT32 = np.dtype("int32")
def sum_of(xs):
    s = 0
    for x in xs:
        s = s * 2 + x
    return s
"""
    assert launched(defined(module(head, text, "out, n")), 3)[0] == 16


def test_a_function_that_is_passed(executor):
    """As a constant: another function is another kernel, and what it reads is read at each launch."""
    scope = defined(
        "F = 3\n@ct.kernel\ndef k(out, f: ct.Constant):\n    ct.store(out, 0, f(2))\ndef f(x):\n    return x * F"
    )
    assert launched(scope, scope["f"])[0] == 6
    assert launched(scope, lambda x: x - 1)[0] == 1
    scope["F"] = 5
    assert launched(scope, scope["f"])[0] == 10


def test_marked_functions_on_the_host():
    @ct.function
    def both(x):
        """Of any x."""
        return x + 1

    @ct.function(host=False)
    def tile(x):
        return x

    assert both(2) == 3 and both.__doc__ == "Of any x."
    with pytest.raises(ct.TileError, match=r"tile is for kernels"):
        tile(1)


def test_functions_under_tt_jit_are_called(executor):
    head = "@tt.jit\ndef f(x, y):\n    return tt.maximum(x, y) + 1\n"
    assert launched(defined(module(head, "ct.store(out, 0, f(n, 9))", "out, n")), 3)[0] == 10


def test_strict_constants(executor):
    body = """
a, b = ct.int16(5), ct.int8(300)
ct.static_assert(a.dtype == ct.int16 and (a + 2).dtype == ct.int16 and (a + ct.int32(7)).dtype == ct.int32)
ct.static_assert(ct.float32(n).dtype == ct.float32 and ct.bool_(2).dtype == ct.bool_)
ct.store(out, 0, a + 2)
ct.store(out, 1, b)
ct.store(out, 2, ct.float16(2049))
ct.store(out, 3, ct.int32(-2.7))
ct.store(out, 4, ct.uint8(-1))
ct.store(out, 5, ct.int32(ct.float32(n) * 1.5))
"""
    assert launched(defined(module("", body, "out, n")), 3, size=6) == [7, 44, 2048, -2, 255, 4]


def test_texts(interpreter, capsys):
    body = """
r = (1, n)
ct.print(f"{n} {C:04d}|{r[1]}", f"{'a':>3}", C)
"""
    launched(defined(module("", body)), 5, 3)
    assert capsys.readouterr().out == "5 0003|5   a 3\n"
