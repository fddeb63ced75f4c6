"""Random kernels: built by Hypothesis as text, run by an executor, and compared with NumPy.

    python tests/fuzz.py --examples 5000 [--backend opencl] [--seed 7]

`programs` is a strategy of whole programs: a kernel, its arrays and its launch. What one must leave in its arrays is
found by running the very text of the kernel as Python on a model of the language (model.py). A failure shrinks to a
small program and is printed as a script to paste.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from model import (
    ALL,
    BITS,
    FLOATS,
    GRID,
    INTS,
    MEMORY,
    MODEL,
    PROGRAM,
    ROUNDED,
    SMOOTH,
    SUMMED,
    UNSIGNED,
    Array,
    Pointer,
    Tile,
    counted,
    together,
)

from conftest import EMULATED, EXECUTORS, choose, kernel
from tinyton.errors import LaunchError

# -- random kernels ----------------------------------------------------------------------------------------------------


@dataclass
class Argument:
    """An array: its values, repeated to its size, and whether what is in it is exact."""

    name: str
    d: str
    values: list
    size: int = 1
    exact: bool = True
    stored: bool = False
    shared: bool = False  # by all programs

    def text(self):
        values = ", ".join(number(v, "np.") for v in self.values)
        kind = "ml_dtypes.bfloat16" if self.d == "bfloat16" else repr(self.d)
        return f"np.resize(np.array([{values}]).astype({kind}), {self.size})"

    def array(self):
        with np.errstate(all="ignore"):
            return np.resize(np.array(self.values).astype(MEMORY[self.d]), self.size)


def number(v, prefix=""):
    """A number as Python writes it."""
    if isinstance(v, float) and not np.isfinite(v):
        word = "nan" if v != v else "inf" if v > 0 else "-inf"
        return f"{'-' * (v == -np.inf)}{prefix}{word.lstrip('-')}" if prefix else f'float("{word}")'
    return repr(v)


@dataclass
class Program:
    """A kernel's text, the arguments that follow each other, and the launch."""

    text: str
    arrays: list
    scalars: dict
    constants: dict
    grid: tuple
    warps: int | None

    MODULE = "tinyton as tt"

    def script(self):
        """What one pastes to see it."""
        head = f"import ml_dtypes\nimport numpy as np\n\nimport {self.MODULE}\n\n\n"
        arrays = "".join(f"{a.name} = {a.text()}\n" for a in self.arrays)
        args = [a.name for a in self.arrays] + [number(v) for v in self.scalars.values()]
        shown = "\n".join(f"print({a.name!r}, {a.name})" for a in self.arrays if a.stored or a.shared)
        return f"{head}{self.text}\n\n{arrays}{self.launch(args)}\n{shown}\n"

    def launch(self, args):
        """The text of the launch."""
        args += [f"{k}={v}" for k, v in self.constants.items()] + [f"num_warps={self.warps}"] * bool(self.warps)
        return f"k[{self.grid}]({', '.join(args)})"

    def model(self):
        """What the text finds when it runs as Python."""
        return {"tt": MODEL}

    def argument(self, array):
        return Pointer(array)

    __repr__ = script

    def want(self):
        """What is in the arrays afterwards: the text is run as Python."""
        arrays = [Array(a.array(), a.d, None if a.exact else np.zeros(a.size)) for a in self.arrays]
        args = [self.argument(a) for a in arrays]
        for v in self.scalars.values():
            if isinstance(v, float):
                args.append(Tile(np.float32(v), "float32", wide=np.float64(v), weak=True))
            elif isinstance(v, bool):
                args.append(Tile(np.bool_(v), "bool"))
            else:
                d = "int32" if -(2**31) <= v < 2**31 else "int64"
                args.append(Tile(MEMORY[d].type(v), d))
        scope = {"range": counted, "max": MODEL.max, "min": MODEL.min, **self.model()}
        with np.errstate(all="ignore"):
            exec(self.text, scope)
            GRID[:] = [*self.grid, 1, 1][:3]
            for z, y, x in product(*map(range, GRID[::-1])):
                PROGRAM[:] = [x, y, z]
                scope["k"](*args, **self.constants)
        return arrays

    def run(self, executor):
        """What the executor leaves in the arrays."""
        arrays = [a.array() for a in self.arrays]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # much is legal here that a lint would not let pass
            self.start(executor, [*arrays, *self.scalars.values()])
        return arrays

    def start(self, executor, args):
        options = {"num_warps": self.warps} if executor != "interpreter" and self.warps else {}
        kernel(self.text)[self.grid](*args, **self.constants, **options)

    def check(self, executor):
        """AssertionError, with the script, if the executor and the model disagree."""
        side = "the model"
        try:
            want = self.want()
            side = executor
            got = self.run(executor)
        except Exception as e:
            if isinstance(e, LaunchError) and str(e).endswith("Use a smaller tile"):
                return  # it takes more memory than this executor has
            raise AssertionError(f"{side}: {type(e).__name__}: {e}\n\n{self.script()}") from e
        for a, g, w in zip(self.arrays, got, want, strict=True):
            with np.errstate(all="ignore"):
                ok = agree(g, w)
            if not ok.all():
                k = int(np.argmin(ok))
                off = "" if w.err is None else f" +- {w.err[k]:.3g}"
                raise AssertionError(
                    f"{executor}: {a.name}[{k}] is {g[k]!r}, not {w.data[k]!r}{off}; {(~ok).sum()} of {ok.size} "
                    f"differ\n\n{self.script()}"
                )


def agree(got, want):
    if want.d not in FLOATS:
        return got == want.data
    bits = f"uint{BITS[want.d]}"
    same = (got.view(bits) == want.data.view(bits)) | (np.isnan(got) & np.isnan(want.data))
    if want.err is None:
        return same
    near = np.abs(got.astype(np.float64) - want.data.astype(np.float64)) <= want.err
    return same | near | ~np.isfinite(want.err)


ARITHMETIC = {"float": ["+", "-", "*", "/"], "int": ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"]}
WILD = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 3e38, -65504.0, 6e-8, 1e-39, 2147483648.0, 1e10, 255.5]
TAME = [1.0, 0.5, 2.0, -1.0, 3.0, -0.25, 0.1, 7.0, -2.5, 12.0]


@dataclass
class Name:
    text: str
    d: str
    shape: tuple
    exact: bool


@dataclass
class Maker:
    """Writes a kernel, statement by statement; every expression has the type and the shape that was asked for."""

    EXTENTS, WIDTHS = (4, 1, 2, 3, 8, 16, 27, 5, 32, 64), (8, 1, 2, 4, 16, 7, 13, 32, 64)
    FUNCTIONS = tuple(SMOOTH)
    RANGES = "range(n)", "range(2)", "range(0, n, 2)", "range(n, -1, -1)", "range(pid % 6)"
    AHEAD = "tt.range(n, num_stages=2)", "tt.range(1, n, 2, num_stages=3)", "tt.range(n, -1, -1, num_stages=2)"
    COMBINE = {  # associative functions, and what they take
        "later": ("def later(x, y):\n    return y", 1),
        "larger": ("def larger(x, y):\n    return tt.maximum(x, y)", 1),
        "affine": ("def affine(a, b, c, d):\n    return a * c, b * c + d", 2),
    }
    GRIDS = (1, 1), (2, 1), (1, 2), (3, 2), (2, 2, 2)
    MANY = (9, 1), (5, 3), (65, 1), (127, 1), (128, 1), (129, 1)  # as fill a block, or nearly

    whole = True  # all of the language, pointers that move on too

    draw: object
    lines: list = field(default_factory=list)
    env: list = field(default_factory=list)
    arrays: list = field(default_factory=list)
    frozen: set = field(default_factory=set)  # counters, which are not assigned to
    depth: int = 1
    count: int = 0
    loops: int = 0  # around this place, that break and continue may leave
    ahead: int = 0  # around it, whose loads pass stores
    used: dict = field(default_factory=dict)  # functions that elements are combined with
    helpers: list = field(default_factory=list)  # functions that the kernel calls: name, type, shape, what it takes

    def pick(self, choices):
        return self.draw(st.sampled_from(list(choices)))

    def chance(self, n):
        """True once in n times; False is the simpler one."""
        return self.draw(st.integers(0, n - 1)) == n - 1

    def below(self, n):
        return self.draw(st.integers(0, n - 1))

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    # -- the program

    def program(self):
        self.m = self.pick(self.EXTENTS)
        self.n = self.pick([n for n in self.WIDTHS if n * self.m <= 1024])
        self.scalars = {"n": self.pick([3, 0, 1, 2, 5]), "big": self.pick([2**31 - 1, -(2**31), 2**40, -3])}
        self.scalars |= {"f": self.pick(TAME), "on": self.draw(st.booleans())}
        self.scalars |= {"rows": self.pick([1, 2, 8, 0, 40]), "cols": self.pick([16, 1, 8, 32, 0, 48, 20, -16])}
        self.grid = self.pick(self.MANY if self.m * self.n <= 64 and self.chance(8) else self.GRIDS)
        self.shapes = [(self.m, self.n), (self.m,), (self.n,), (self.m, 1), (1, self.n), ()]
        self.line(f"i = {self.indices(0, self.m)}")
        self.line(f"j = {self.indices(a := self.pick([0, 3]), self.n)}" + " - 3" * (a > 0))
        self.line("pid = tt.program_id(0) * tt.num_programs(1) + tt.program_id(1)")
        if len(self.grid) > 2:
            self.line("pid = pid * tt.num_programs(2) + tt.program_id(2)")
        self.env = [Name("i", "int32", (self.m,), True), Name("j", "int32", (self.n,), True)]
        self.env += [Name(x, "int32", (), True) for x in ("n", "pid", "rows", "cols")] + [Name("on", "bool", (), True)]
        self.env += [Name("big", "int64" if abs(self.scalars["big"]) > 2**31 else "int32", (), True)]
        self.frozen = {x.text for x in self.env}
        for _ in range(1 + self.below(3)):
            self.load(self.array(self.pick(ALL), stored=False))
        self.block(1 + self.below(6))
        for name in [x for x in self.env if x.text not in self.frozen][-5:]:
            exact = name.exact
            out = self.array(name.d if name.d in FLOATS or self.chance(2) else self.pick(ALL), stored=True, exact=exact)
            self.store(out, name.shape, name.text, name.d)
        constants = {f"{a.name.upper()}_ROW": a.size for a in self.arrays if a.stored}
        programs = int(np.prod(self.grid))
        for a in self.arrays:
            a.size *= programs if a.stored else 1
        params = [a.name for a in self.arrays] + list(self.scalars) + [f"{c}: tt.constexpr" for c in constants]
        text = (
            "".join(f"@tt.jit\n{text}\n\n" for text in self.used.values())
            + "".join(h[-1] + "\n\n" for h in self.helpers)
            + f"@tt.jit\ndef k({', '.join(params)}):\n"
            + "".join(line + "\n" for line in self.lines)
        )
        return self.made(text, self.arrays, self.scalars, constants, self.grid, self.pick([None, 1, 2, 4]))

    # -- what the other spelling says differently

    made = Program

    def indices(self, start, n):
        return f"tt.arange({start}, {start + n})"

    def offset(self, text):
        """To be added to an int32."""
        return text

    def read(self, a, place, args):
        return f"tt.load({a.name} + {place}{args})"

    def write(self, a, place, value, d, args):
        self.line(f"tt.store({a.name} + {place}, {value}{args})")

    def change(self, how, a, place, value, mask):
        self.line(f"tt.atomic_{how}({a.name} + {place}, {value}{mask})")

    def fill(self, d, shape):
        return self.expr(d, shape, 1) if self.chance(2) else self.literal(d)

    def array(self, d, stored, exact=True):
        name = f"{'out' if stored else 'x'}{len(self.arrays)}"
        a = Argument(name, d, self.values(d), exact=exact or d not in FLOATS, stored=stored)
        self.arrays.append(a)
        return a

    def values(self, d):
        if d == "bool":
            return self.draw(st.lists(st.booleans(), min_size=1, max_size=5))
        wild = self.chance(3)
        if d in FLOATS:
            return self.draw(st.lists(st.sampled_from(TAME + WILD * wild), min_size=1, max_size=7))
        low, high = np.iinfo(d).min, np.iinfo(d).max
        some = st.sampled_from([high, low, high - 1, BITS[d], BITS[d] - 1]) | st.integers(low, high)
        tame = st.integers(max(low, -5), 9)
        return self.draw(st.lists(tame | some if wild else tame, min_size=1, max_size=11))

    # -- statements

    def block(self, statements):
        for _ in range(statements):
            kinds = ["assign", "assign", "load", "update", "store", "for", "if", "accumulate", "again", "while"]
            kinds += ["swap", "atomic", "helper", "stores", "stream", "taken", "return", *["leave"] * self.loops]
            getattr(self, f"a_{self.pick(kinds)}")()

    def a_assign(self):
        d, shape, exact = self.pick(ALL), self.pick(self.shapes), not self.chance(3)
        self.bind("v", d, shape, exact, self.expr(d, shape, 3, exact))

    def bind(self, stem, d, shape, exact, text):
        name = self.fresh(stem)
        self.line(f"{name} = {text}")
        self.env.append(Name(name, d, shape, exact or d not in FLOATS))

    def variables(self):
        return [x for x in self.env if x.text not in self.frozen]

    def a_update(self):
        """A name that is there takes another value of its type."""
        if names := self.variables():
            x = self.pick(names)
            if self.chance(2) or x.d == "bool":
                self.line(f"{x.text} = {self.expr(x.d, x.shape, 2, x.exact)}")
            else:
                op = self.pick(self.operators(x.d, x.exact))
                self.line(f"{x.text} {op}= {self.operand(x.d, x.shape, 2, x.exact)}")

    def a_load(self):
        self.load(self.array(self.pick(ALL), stored=False))

    def load(self, a, place=""):
        """A tile from a pattern of places, with a mask or without."""
        shape = self.pick(self.shapes[:3] if self.chance(3) else self.shapes)
        form = self.pick(["rows", "rows", "gather", "narrow", "masked", "wraps"])
        args = ""
        if form == "narrow":
            text, reach = f"({self.expr('uint8', shape, 1)} & 255) * 3 + 1", 255 * 3 + 2
        elif form == "wraps":  # beyond 16 bits, but not as an offset
            near = f"({self.expr('uint16', shape, 1)} & 127).to(tt.int16)"
            ways = ["({a} * 300) % {k}", "({a} * 300 // 7) % {k}", "({a} << 9) % {k}", "tt.abs({a} * -300) % {k}"]
            ways += ["tt.where(on, {a} * 300, {a}) % {k}", "({a} * 300 if on else {a} * -299) % {k}"]
            ways += ["tt.maximum({a} * 300, -7) % {k}", "(({a} * 301) & 255) % {k}", "({a} * 300 >> 3) % {k}"]
            text, reach = self.pick(ways).format(a=near, k=100), 100
        elif form in ("gather", "masked"):
            u, k = self.pick(UNSIGNED), self.pick([5, 1, 64, 100])
            as_ = self.pick(["", f".to({TEXT['int64' if u == 'uint64' else u[1:]]})"])  # the same bits, with a sign
            text, reach = f"{self.expr(u, shape, 2)}{as_} % {k}", k
            if form == "masked":
                reach, low = self.pick([3, 8, 17]), self.pick([0, 2])
                o = self.fresh("o")
                self.line(f"{o} = ({text}).to(tt.int32) - {low}")
                text, args = o, f", mask=({o} >= 0) & ({o} < {reach})"
        else:
            text, reach = self.rows(shape)
        if form != "masked" and self.chance(2):
            args = f", mask={self.mask(shape)}"
        if args and self.chance(2):
            args += f", other={self.fill(a.d, shape)}"
        a.size = max(a.size, reach)
        self.bind("a", a.d, shape, a.exact, self.read(a, place and place + self.offset(text) or text, args))

    def mask(self, shape):
        return self.bounded(shape) if shape and self.chance(2) else self.expr("bool", shape, 1)

    def bounded(self, shape):
        """Where indices are near a bound, which 16 may divide."""
        i, j = self.axes(shape)
        forms = ["({a} < {b})", "({b} > {a})", "({a} >= {b})", "~({a} < {b})", "({a} <= {b})", "({a} + pid * 16 < {b})"]
        forms += ["(tt.cumsum({a} * 0 + 1, {d}) <= {b})"]
        parts = [self.pick(forms).format(a=a, b=b, d=d) for a, b, d in ((i, "rows", 0), (j, "cols", -1)) if a]
        text = self.pick([" & ", " & ", " | ", " ^ "]).join(parts) or "on"
        return f"({text} {self.pick('&|')} on)" if self.chance(4) else f"({text})"

    def rows(self, shape, stored=False):
        """Offsets by strides, and how far they reach."""
        m, n = self.m, self.n
        base = self.pick([0, 0, 1, 2, 3, 16])
        if not shape:
            return str(base), base + 1
        i, j = self.axes(shape)
        if stored or not self.chance(3):
            gap = self.pick([0, 0, 1, 3])
            turned = len(shape) == 2 and self.chance(3)
            si, sj = (1, m + gap) if turned else (n + gap, 1)
            if 1 in shape or len(shape) == 1:
                si = sj = 1 + gap
        else:
            si, sj = self.below(5), self.below(5)
        terms = [f"{i} * {si}"] * bool(i) + [f"{j} * {sj}" if sj != 1 else j] * bool(j)
        reach = base + ((m - 1) * si if i else 0) + ((n - 1) * sj if j else 0)
        if self.chance(4):  # from the end
            return f"{reach} - ({' + '.join(terms)})", reach + 1
        return " + ".join(terms + [str(base)] * bool(base)), reach + 1

    def axes(self, shape):
        """The index tiles of a shape."""
        if len(shape) == 2:
            i, j = ("i[:, None]", "j[None, :]")
            return (i if shape != (1, self.n) or self.m == 1 else "", j if shape != (self.m, 1) or self.n == 1 else "")
        return ("i", "") if shape == (self.m,) else ("", "j")

    def a_store(self):
        """To an array of its own, or to one that was stored to before, which may be read again."""
        old = [a for a in self.arrays if a.stored]
        if old and self.chance(2):
            a = self.pick(old)
            if self.chance(2) and not self.ahead:
                return self.load(a, f"pid * {a.name.upper()}_ROW + ")
        else:
            a = self.array(self.pick(ALL), stored=True, exact=not self.chance(3))
        shape = self.pick(self.shapes)
        d = self.pick([a.d, a.d, self.pick([d for d in ALL if a.exact or d in FLOATS])])
        value = self.expr(d, self.pick([shape, ()]), 2, a.exact)
        self.store(a, shape, value, d, f", mask={self.mask(shape)}" if self.chance(3) else "")

    def counter(self):
        """The counter of a loop, from 0 to 5, times a number, and how far that reaches."""
        counters = [x.text for x in self.env if x.text[0] == "s" and x.text[1:].isdigit()]
        by = self.pick([1, 16, 64, self.n, self.m * self.n])
        return (f"{self.pick(counters)} * {by} + ", 5 * by) if counters and not self.chance(3) else ("", 0)

    def a_stores(self):
        """To places a constant apart, which are read again, perhaps after a reduction."""
        a, shape = self.array(self.pick(ALL), stored=True), self.pick(self.shapes)
        text, reach = self.rows(shape, stored=True)
        move, more = self.counter()
        far = self.pick([1, self.n, 32, self.m * self.n, reach])
        a.size = max(a.size, reach + more + 2 * far)
        for k in range(2 + self.below(2)):
            place = f"pid * {a.name.upper()}_ROW + {move}{self.offset(text)} + {k * far}"
            mask = f", mask={self.mask(shape)}" if self.chance(3) else ""
            self.write(a, place, self.expr(a.d, self.pick([shape, ()]), 1), a.d, mask)
            if self.chance(3):
                self.bind("v", "int32", (), True, f"tt.max({self.expr('int32', (self.n,), 1)})")
        if not self.ahead:
            place = f"pid * {a.name.upper()}_ROW + {move}{self.below(2 * far)} + {self.offset(text)}"
            self.bind("a", a.d, shape, True, self.read(a, place, ""))

    def a_stream(self):
        """A loop over an array that does not change, by its counter or by a pointer that moves on."""
        a, shape = self.array(self.pick(ALL), stored=False), self.pick(self.shapes)
        text, reach = self.rows(shape)
        s, p, t, by = self.fresh("s"), self.fresh("p"), self.fresh("t"), self.pick([1, 16, reach])
        a.size = max(a.size, reach + 6 * by)
        d = a.d if a.d != "bool" else "int32"
        moved = self.whole and self.chance(2)
        self.line(f"{t} = {self.expr(d, shape, 1)}")
        if moved:
            self.line(f"{p} = {a.name} + ({text})")
        self.line(f"for {s} in {self.pick([*self.AHEAD, *self.RANGES])}:")
        self.frozen.add(s)
        kept, self.depth, self.ahead = list(self.env), self.depth + 1, self.ahead + 1
        self.env += [Name(s, "int32", (), True), Name(t, d, shape, True)]
        args = f", mask={self.mask(shape)}" if self.chance(2) else ""
        if args and self.chance(2):
            args += f", other={self.fill(a.d, shape)}"
        place = self.offset(text)
        got = f"tt.load({p}{args})" if moved else self.read(a, f"{s} * {by} + {place}", args)
        self.bind("a", a.d, shape, a.exact, got)
        if moved:
            self.line(f"{p} += {by}")
        self.line(f"{t} = {self.expr(d, shape, 2)}")
        if self.depth < 4:
            self.block(self.below(2))
        self.env, self.depth, self.ahead = kept, self.depth - 1, self.ahead - 1
        self.env.append(Name(t, d, shape, True))

    def a_taken(self):
        """Atomics, each on an element of its own, that give what was there."""
        a, shape = self.array(self.pick(["int32", "uint32", "int64", "uint64"]), stored=True), self.pick(self.shapes)
        text, reach = self.rows(shape, stored=True)
        a.size = max(a.size, reach)
        mask = f", mask={self.mask(shape)}" if self.chance(3) else ""
        how, place = self.pick(["add", "max", "min", "xor"]), f"pid * {a.name.upper()}_ROW + {self.offset(text)}"
        self.bind("v", a.d, shape, True, self.take(how, a, place, self.expr(a.d, shape, 1), mask))

    def take(self, how, a, place, value, mask):
        return f"tt.atomic_{how}({a.name} + {place}, {value}{mask})"

    def a_return(self):
        self.line(f"if {self.expr('bool', (), 2)}:")
        self.line("    return")

    def store(self, a, shape, value, d, args=""):
        text, reach = self.rows(shape, stored=True)
        a.size = max(a.size, reach)
        self.write(a, f"pid * {a.name.upper()}_ROW + {text}", value, d, args)

    def inner(self, statements):
        """Statements of a block; names that begin there end there."""
        kept = list(self.env)
        self.depth += 1
        start = len(self.lines)
        if self.depth < 4:
            self.block(statements)
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1
        self.env = kept

    def a_for(self):
        s = self.fresh("s")
        if self.chance(4):
            self.line(f"for {s} in tt.static_range({self.below(3)}):")
            around, self.loops = self.loops, 0
            self.inner(1 + self.below(2))
            self.loops = around
            return
        ahead = bool(self.AHEAD) and self.chance(3)
        self.line(f"for {s} in {self.pick(self.AHEAD if ahead else self.RANGES)}:")
        self.frozen.add(s)
        self.env.append(Name(s, "int32", (), True))
        self.loops += 1
        self.ahead += ahead
        self.inner(1 + self.below(3))
        self.ahead -= ahead
        self.loops -= 1
        self.env = [x for x in self.env if x.text != s]

    def a_while(self):
        """A loop with a counter, which goes up first so that nothing loops for ever."""
        s = self.fresh("s")
        self.line(f"{s} = n * 0")
        self.line(
            f"while {s} < {self.pick(['n', '2', '3'])}{self.pick(['', ' and on', ' or not on and ' + s + ' < 1'])}:"
        )
        self.frozen.add(s)
        self.env.append(Name(s, "int32", (), True))
        self.depth += 1
        self.line(f"{s} += 1")
        self.depth -= 1
        self.loops += 1
        self.inner(1 + self.below(3))
        self.loops -= 1

    def a_leave(self):
        self.line(f"if {self.expr('bool', (), 2)}:")
        self.line(f"    {self.pick(['break', 'continue'])}")

    def a_swap(self):
        """Two names of one type take each other's values."""
        names = self.variables()
        pairs = [
            (x, y) for x in names for y in names if x is not y and (x.d, x.shape, x.exact) == (y.d, y.shape, y.exact)
        ]
        if pairs:
            x, y = self.pick(pairs)
            self.line(f"{x.text}, {y.text} = {y.text}, {x.text}")

    def a_atomic(self):
        """Into an array that all programs share and nobody reads."""
        how, d = self.pick(["add", "max", "min", "xor"]), self.pick(["int32", "uint32", "int64", "uint64"])
        a = self.array(d, stored=False)
        a.size, a.shared = 7, True
        shape = self.pick(self.shapes)
        mask = f", mask={self.expr('bool', shape, 1)}" if self.chance(3) else ""
        place = f"{self.expr('uint16', shape, 1)} % 7"
        self.change(how, a, place, self.expr(d, shape, 2), mask)

    def a_helper(self):
        """A function of its own, with two ways out; `e_call` may call it again."""
        d, shape, exact = self.pick(ALL), self.pick(self.shapes), not self.chance(4)
        takes = [(self.pick(ALL), self.pick(self.shapes)) for _ in range(2)]
        name, outer = self.fresh("h"), (self.lines, self.env, self.depth)
        self.lines, self.depth = [], 1
        self.env = [Name("i", "int32", (self.m,), True), Name("j", "int32", (self.n,), True)]
        self.env += [Name("on", "bool", (), True)]
        self.env += [Name(x, "int32", (), True) for x in ("n", "pid", "rows", "cols")]
        self.env += [Name(x, p, s, True) for x, (p, s) in zip("pq", takes, strict=True)]
        if self.chance(2):
            self.line(f"if {self.expr('bool', (), 1)}:")
            self.line(f"    return {self.expr(d, shape, 1, exact)}")
        self.line(f"return {self.expr(d, shape, 2, exact)}")
        text = f"@tt.jit\ndef {name}(i, j, n, on, f, rows, cols, pid, p, q=0):\n" + "".join(
            line + "\n" for line in self.lines
        )
        self.lines, self.env, self.depth = outer
        self.helpers.append((name, d, shape, exact or d not in FLOATS, takes, text))
        self.bind("v", d, shape, exact, self.e_call(d, shape, 2, exact))

    def e_call(self, d, shape, depth, exact):
        found = [h for h in self.helpers if h[1:3] == (d, shape) and (h[3] or not exact)]
        if not found:
            return self.leaf(d, shape, exact)
        name, _, _, _, takes, _ = self.pick(found)
        p, q = (self.expr(d_, s, depth - 1) for d_, s in takes)
        return f"{name}(i, j, n, on, f, rows, cols, pid, {self.pick(['', 'p='])}{p}, q={q})"

    def e_moved(self, d, shape, depth, exact):
        """Elements in other places, or in order."""
        x = self.expr(d, shape, depth - 1, exact)
        if not shape or any(s & (s - 1) for s in shape):
            return x
        axis = self.below(len(shape))
        ways = self.ways(d, shape, axis, exact)
        if len(shape) == 2:
            ways.append(f"tt.trans(tt.reshape({{x}}, ({shape[1]}, {shape[0]})))")
            ways.append(f"tt.reshape(tt.trans({{x}}), {shape})")
        elif shape[0] > 1:
            ways.append(f"tt.reshape(tt.trans(tt.reshape({{x}}, (2, {shape[0] // 2}))), ({shape[0]},))")
        return self.pick(ways or ["{x}"]).format(x=x)

    def ways(self, d, shape, axis, exact):
        """Moves that this spelling alone has."""
        found = [f"tt.flip({{x}}, {axis})"]
        if (exact or d in INTS) and d != "bool" and max(shape) <= 64:
            down = ", descending=True" * self.chance(2)
            found.append(f"tt.sort({{x}}, {axis}{down})" if d in INTS else f"(tt.sort({{x}}, {axis}{down}) + 0)")
        return found

    def e_running(self, d, shape, depth, exact):
        source = self.pick([p for p in ("bool", *INTS) if SUMMED.get(p, p) == d])
        x, axis = self.expr(source, shape, depth - 1), self.below(len(shape))
        return f"tt.{self.pick(['cumsum', 'cumprod'])}({x}, {axis}{', reverse=True' * self.chance(3)})"

    def e_bounded(self, d, shape, depth, exact):
        return self.bounded(shape)

    def e_scan(self, d, shape, depth, exact):
        """By a function of the user's."""
        name = self.pick(self.COMBINE)
        self.used[name], several = self.COMBINE[name]
        tiles = [self.expr(d, shape, depth - 1) for _ in range(several)]
        more = f"{self.below(len(shape))}, {name}{', reverse=True' * self.chance(3)}"
        if several == 1:
            return f"tt.associative_scan({tiles[0]}, {more})"
        return f"tt.associative_scan(({', '.join(tiles)}), {more})[1]"

    def e_histogram(self, d, shape, depth, exact):
        mask = f", mask={self.mask((self.n,))}" if self.chance(3) else ""
        return f"tt.histogram({self.expr(self.pick(INTS), (self.n,), depth - 1)}, {self.m}{mask})"

    def e_dot(self, d, shape, depth, exact):
        x, y = (self.expr("int8", shape, depth - 1) for _ in range(2))
        return f"tt.dot({x}, {y})" if shape == (self.m, self.n) else self.leaf(d, shape, exact)

    def e_position(self, d, shape, depth, exact):
        source = self.pick([(self.m, self.n), (self.m,), (self.n,)])
        axis = ""
        if shape:
            source, axis = (self.m, self.n), ", 1" if shape == (self.m,) else ", 0"
        return (
            f"tt.{self.pick(['argmax', 'argmin'])}({self.expr(self.pick([*INTS, *FLOATS]), source, depth - 1)}{axis})"
        )

    def a_if(self):
        self.line(f"if {self.expr(self.pick(['bool', 'bool', 'int32']), (), 2)}:")
        self.inner(1 + self.below(2))
        if self.chance(2):
            self.line("else:")
            self.inner(1 + self.below(2))

    def a_accumulate(self):
        """A number that takes its type from the loop that it is carried through."""
        d, shape = self.pick([*INTS, *FLOATS]), self.pick(self.shapes)
        exact = not self.chance(3)
        name, s = self.fresh("t"), self.fresh("s")
        self.line(f"{name} = {'0.0' if d in FLOATS and self.chance(2) else '0'}")
        self.line(f"for {s} in range({1 + self.below(3)}):")
        self.frozen.add(s)
        self.depth += 1
        self.env.append(Name(s, "int32", (), True))
        self.line(f"{name} += {self.expr(d, shape, 2, exact)}")
        self.env.pop()
        self.depth -= 1
        self.env.append(Name(name, d, shape, exact or d not in FLOATS))

    def a_again(self):
        """A reduction that meets the tile again, as in a softmax."""
        d, axis = self.pick(["float32", "float16", "int32"]), self.pick([0, 1])
        exact = d not in FLOATS
        x = self.expr(d, (self.m, self.n), 1, exact)
        name = self.fresh("w")
        self.line(f"{name} = {x}")
        self.env.append(Name(name, d, (self.m, self.n), exact))
        how = self.pick(["sum", "max", "min"])
        back = "[:, None]" if axis else "[None, :]"
        self.bind("w", d, (self.m, self.n), exact, f"{name} - tt.{how}({name}, {axis}){back}")

    # -- expressions

    def operators(self, d, exact):
        if d == "bool":
            return ["&", "|", "^"]
        if d in INTS:
            return ARITHMETIC["int"]
        return ARITHMETIC["float"] + ["//", "%"] * exact

    def literal(self, d):
        if d == "bool":
            return self.pick(["True", "False"])
        if d in FLOATS:
            return number(self.pick([*TAME, 0.0, float("inf")])) if not self.chance(3) else str(self.below(9))
        low, high = np.iinfo(d).min, np.iinfo(d).max
        return f"({self.pick([1, 2, 3, 7, 0, 100, high, low])})"

    def operand(self, d, shape, depth, exact):
        """What meets a tile of this type and shape in an operator, and leaves both as they are."""
        if self.chance(4):
            return self.literal(d)
        if d in FLOATS and self.chance(8):
            return "f"
        partners = [p for p in ALL if together(d, p) == d and p != "bool"] if d != "bool" else ["bool"]
        p = d if not self.chance(4) else self.pick(partners)
        shapes = [s for s in self.shapes if broadcasts(s, shape)]
        return self.expr(p, shape if not self.chance(3) else self.pick(shapes), depth - 1, exact)

    def expr(self, d, shape, depth, exact=True):
        exact = exact or d not in FLOATS
        if depth <= 0:
            return self.leaf(d, shape, exact)
        kinds = ["leaf", "binary", "binary", "where", "cast", "unary"]
        kinds += ["compare", "compare"] if d == "bool" else ["extreme"]
        if d == "float32":
            kinds.append("of_ints")
        if len(shape) < 2 or 1 in shape:
            kinds += ["reduce", "reduce"] if d in INTS and BITS[d] >= 32 or d in FLOATS else ["reduce"] * (d != "bool")
        kinds += ["ternary", "moved"] + ["call"] * bool(self.helpers)
        if d == "bool" and shape:
            kinds += ["bounded"]
        if d in INTS and shape and not any(s & (s - 1) for s in shape):
            kinds += ["scan"] * bool(self.COMBINE) + ["dot"] * (
                self.whole and d == "int32" and self.m == self.n and len(shape) == 2
            )
        if d == "int32" and shape == (self.m,):
            kinds += ["histogram"] * self.whole
        if d in INTS and BITS[d] >= 32 and shape and not any(s & (s - 1) for s in shape):
            kinds.append("running")
        if d == "int32" and shape in ((), (self.m,), (self.n,)):
            kinds.append("position")
        return getattr(self, f"e_{self.pick(kinds)}")(d, shape, depth, exact)

    def e_leaf(self, d, shape, depth, exact):
        return self.leaf(d, shape, exact)

    def leaf(self, d, shape, exact):
        near = [x for x in self.env if x.shape == shape and (x.exact or not exact)]
        same = [x for x in near if x.d == d]
        if same and not self.chance(4):
            return self.pick(same).text
        lower = [x for x in self.env if len(x.shape) == 1 and len(shape) == 2 and (x.exact or not exact)]
        lower = [
            (x, k) for x in lower for k, s in (("[:, None]", (*x.shape, 1)), ("[None, :]", (1, *x.shape))) if s == shape
        ]
        if lower and self.chance(2):
            x, k = self.pick(lower)
            return f"{x.text}{k}" if x.d == d else f"{x.text}{k}.to({TEXT[d]})"
        if near and self.chance(2):
            x = self.pick(near)
            return x.text if x.d == d else f"{x.text}.to({TEXT[d]})"
        if all(s & (s - 1) == 0 for s in shape):
            return f"tt.full({shape}, {self.literal(d)}, {TEXT[d]})"
        i, j = self.axes(shape)
        return f"({' * 3 + '.join(x for x in (i, j) if x)}).to({TEXT[d]})"

    def e_binary(self, d, shape, depth, exact):
        op = self.pick(self.operators(d, exact))
        x, y = self.expr(d, shape, depth - 1, exact), self.operand(d, shape, depth, exact)
        return f"({x} {op} {y})" if not self.chance(3) else f"({y} {op} {x})"

    def e_of_ints(self, d, shape, depth, exact):
        """Integers that become float32: by a float literal or by a division."""
        p = self.pick([*INTS, "bool"])
        x = self.expr(p, shape, depth - 1)
        if self.chance(2) or p == "bool":
            return f"({x} / {self.operand(p, shape, depth, True)})"
        return f"({x} {self.pick(['+', '-', '*', '/'])} {number(self.pick(TAME))})"

    def e_compare(self, d, shape, depth, exact):
        p = self.pick(ALL)
        x, y = self.expr(p, shape, depth - 1), self.operand(p, shape, depth, True)
        return f"({x} {self.pick(['<', '<=', '>', '>=', '==', '!='])} {y})"

    def e_where(self, d, shape, depth, exact):
        c = self.expr("bool", shape, depth - 1)
        x, y = self.expr(d, shape, depth - 1, exact), self.operand(d, shape, depth, exact)
        return f"tt.where({c}, {x}, {y})" if not self.chance(2) else f"tt.where({c}, {y}, {x})"

    def e_cast(self, d, shape, depth, exact):
        p = self.pick(ALL)
        if d == "bfloat16" and p == "float64":
            p = "float32"
        return f"{self.expr(p, shape, depth - 1, exact or d not in FLOATS)}.to({TEXT[d]})"

    def e_unary(self, d, shape, depth, exact):
        x = self.expr(d, shape, depth - 1, exact)
        if d == "bool":
            return f"(~{x})"
        if d in INTS:
            return self.pick(["(-{})", "(~{})", "tt.abs({})"]).format(x)
        names = ROUNDED if exact else self.FUNCTIONS
        return self.pick(["(-{})", "tt.abs({})", *(f"tt.{f}({{}})" for f in names)]).format(x)

    def e_extreme(self, d, shape, depth, exact):
        x, y = self.expr(d, shape, depth - 1, exact), self.operand(d, shape, depth, exact)
        nan = ", propagate_nan=True" * self.chance(3)
        text = f"tt.{self.pick(['maximum', 'minimum'])}({x}, {y}{nan})"
        return text if d in INTS else f"({text} + 0)"  # which zero is greater is open

    def e_ternary(self, d, shape, depth, exact):
        c = self.expr("bool", (), depth - 1)
        x, y = self.expr(d, shape, depth - 1, exact), self.expr(d, shape, depth - 1, exact)
        return f"({x} if {c} else {y})"

    def e_reduce(self, d, shape, depth, exact):
        how = self.pick(["max", "min", "sum"])
        sources = [d]
        if how == "sum":
            sources = [p for p in ALL if SUMMED.get(p, p) == d]
            if not sources or (d in FLOATS and exact):
                how, sources = "max", [d]
        p, (m, n) = self.pick(sources), (self.m, self.n)
        ways = {
            (m,): [", 1", ", axis=-1"],
            (n,): [", 0"],
            (m, 1): [", 1, keep_dims=True"],
            (1, n): [", 0, keep_dims=True"],
        }
        if m == n:
            ways[(m,)] = [", 1", ", 0"]
        if shape:
            source, args = (m, n), self.pick(ways[shape])
        else:
            source, args = self.pick([(m, n), (m,), (n,)]), ""
        x = self.expr(p, source, depth - 1, exact)
        if how != "sum" and self.chance(3):
            args += ", propagate_nan=True"
        text = f"tt.{how}({x}{args})"
        return text if d in INTS or how == "sum" else f"({text} + 0)"


TEXT = {d: f"tt.{d}" if d != "bool" else "tt.bool_" for d in ALL}


def broadcasts(shape, to):
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


@st.composite
def programs(draw, maker):
    """Whole programs: a kernel, its arrays, its launch."""
    return maker(draw).program()


def explore(executor, examples, number=None, record=None, maker=Maker):
    """Checks random programs on an executor. Without a seed, always the same ones. ``record`` is a file that holds the
    program at hand, for the case that it ends the process."""
    failures = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=number is None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(programs(maker))
    def check(program):
        if record:
            Path(record).write_text(program.script())
        try:
            program.check(executor)
        except AssertionError as e:
            failures.append(e)
            raise

    try:
        (check if number is None else seed(number)(check))()
    except Flaky:
        raise AssertionError(f"not in every run: {failures[-1]}") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=5000)
    as_gpu = ["opencl as a GPU"] * ("opencl" in EXECUTORS)
    parser.add_argument("--backend", choices=EXECUTORS + EMULATED + as_gpu, default="interpreter")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--tile", action="store_true", help="in the spelling of tinyton.tile")
    parser.add_argument("--record", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.record:
        from fuzz_tile import TileMaker

        patch, given = pytest.MonkeyPatch(), os.environ.get("TINYTON_BUILD_OPTIONS", "")
        executor = choose(args.backend, patch)
        patch.setenv("TINYTON_BUILD_OPTIONS", given)  # the optimiser has a part in what is tested
        try:
            explore(executor, args.examples, args.seed, args.record, TileMaker if args.tile else Maker)
        except AssertionError as e:
            sys.exit(str(e))
        return print("no difference found")
    number = int.from_bytes(os.urandom(4)) if args.seed is None else args.seed
    print(f"{args.examples} kernels on {args.backend}, --seed {number}{' --tile' * args.tile}", flush=True)
    with tempfile.NamedTemporaryFile("r") as last:
        command = [sys.executable, __file__, *sys.argv[1:], "--seed", str(number), "--record", last.name]
        code = subprocess.run(command).returncode
        if code < 0:
            print(f"the process ended with signal {-code} in\n\n{last.read()}")
    sys.exit(code)


if __name__ == "__main__":
    main()
