"""Random kernels in the spelling of `tinyton.tile`: those of fuzz.py, with arrays where it has pointers.

python tests/fuzz.py --tile --examples 5000
"""

import re
from dataclasses import dataclass

import fuzz
from fuzz import FLOATS, INTS, SMOOTH, TEXT, number
from model import TILE, together

import tinyton.tile as ct
from conftest import kernel

WORDS = (
    (r"@tt\.jit\ndef k\(", "@ct.kernel\ndef k("),
    (r"@tt\.jit\n", ""),
    (r"tt\.constexpr", "ct.Constant[int]"),
    (r"tt\.program_id", "ct.bid"),
    (r"tt\.num_programs", "ct.num_blocks"),
    (r"tt\.static_range\((\d+)\)", r"ct.static_iter(range(\1))"),
    (r"tt\.trans\(", "ct.transpose("),
    (r"keep_dims", "keepdims"),
    (r"\.to\(", ".astype("),
    (r"\btt\.", "ct."),
)
PADDING = {"ZERO": 0.0, "NEG_ZERO": -0.0, "NAN": float("nan"), "POS_INF": float("inf"), "NEG_INF": float("-inf")}


class TileProgram(fuzz.Program):
    MODULE = "tinyton.tile as ct"

    def launch(self, args):
        args += [str(v) for v in self.constants.values()]
        return f"ct.launch(None, {self.grid}, k, ({', '.join(args)}))"

    def model(self):
        return {"ct": TILE}

    def argument(self, array):
        return array

    def start(self, executor, args):
        k = kernel(self.text, ct=ct)
        if executor != "interpreter" and self.warps:
            k.chosen = lambda: {"num_warps": self.warps}
        ct.launch(None, self.grid, k, (*args, *self.constants.values()))


@dataclass
class TileMaker(fuzz.Maker):
    EXTENTS, WIDTHS = (4, 1, 2, 8, 16, 32, 64), (8, 1, 2, 4, 16, 32, 64)
    RANGES = tuple(text for text in fuzz.Maker.RANGES if "-" not in text)
    AHEAD, COMBINE, whole = (), {}, False
    FUNCTIONS = tuple(name for name in SMOOTH if name != "sigmoid")

    def made(self, text, *more):
        for pattern, words in WORDS:
            text = re.sub(pattern, words, text)
        return TileProgram(text, *more)

    def indices(self, start, n):
        return f"ct.arange({n}, start={start}, dtype=ct.int32)"

    def offset(self, text):
        return text if text.isdigit() else f"({text}).astype(ct.int64)"

    def read(self, a, place, args):
        return f"ct.gather({a.name}, {place}{args.replace('other', 'padding_value')})"

    def write(self, a, place, value, d, args):
        cast = f".astype({TEXT[a.d]})" if together(a.d, d) != a.d else ""
        self.line(f"ct.scatter({a.name}, {place}, ({value}){cast}{args})")

    def change(self, how, a, place, value, mask):
        self.line(f"ct.atomic_{how}({a.name}, {place}, {value})")

    def take(self, how, a, place, value, mask):
        return f"ct.atomic_{how}({a.name}, {place}, {value})"

    def fill(self, d, shape):
        return self.literal(d)

    def ways(self, d, shape, axis, exact):
        """Halves, by index, put together the other way round."""
        n = shape[axis]
        if n < 2:
            return []
        half, zeros = shape[:axis] + (n // 2,) + shape[axis + 1 :], ["0"] * len(shape)
        first, second = (f"({', '.join(zeros[:axis] + [k] + zeros[axis + 1 :])},)" for k in "01")
        parts = [f"ct.extract({{x}}, {at}, {half})" for at in (second, first)]
        return [f"ct.cat(({', '.join(parts)}), {axis})"]

    def a_load(self):
        """Through an index of elements, or by tile, out of the array too."""
        if self.chance(2):
            return super().a_load()
        a, n = self.array(self.pick(fuzz.ALL), stored=False), self.pick([self.m, self.n])
        a.size = max(a.size, self.pick([1, n, 2 * n + 1, 3 * n]))
        index = self.pick(["0", "1", "pid", "n", "-1", "pid + 1", "n - 1"])
        mode = self.pick(PADDING if a.d in FLOATS else ["ZERO"])
        text = f"ct.load({a.name}, {index}, {n}, padding_mode=ct.PaddingMode.{mode})"
        self.bind("a", a.d, (n,), a.exact, text)
        return None

    def operators(self, d, exact):
        """Bits of one type only meet; see `e_binary`."""
        return [op for op in super().operators(d, exact) if d not in INTS or op not in "&|^"]

    def e_binary(self, d, shape, depth, exact):
        if d in INTS and self.chance(4):
            x, y = (self.expr(d, shape, depth - 1) for _ in range(2))
            return f"({x} {self.pick('&|^')} {y})"
        return super().e_binary(d, shape, depth, exact)

    def e_of_ints(self, d, shape, depth, exact):
        """Integers that become float32: by a float literal or by a division."""
        p = self.pick(INTS)
        x = self.expr(p, shape, depth - 1)
        if self.chance(2):
            return f"({x} / {self.operand(p, shape, depth, True)})"
        return f"({x} {self.pick(['+', '-', '*', '/'])} {number(self.pick(fuzz.TAME))})"
