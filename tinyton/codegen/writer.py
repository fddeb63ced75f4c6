"""Writing C: names that are free, types, helper functions, lines with the Python line that they come from."""

from __future__ import annotations

import re

from ..dtypes import DType, bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from ..ir import Block, Kernel, Op, Value, uses
from ..ops import OPS
from .dialect import COMMON, NEEDS, Dialect

UNSIGNED = {int8: uint8, int16: uint16, int32: uint32, int64: uint64}
RESERVED = set(
    """alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue
    decltype default delete do double else enum explicit export extern false float for friend goto half if inline int
    kernel local long mutable namespace new noexcept not nullptr operator or private protected public register restrict
    return short signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor thread shared global constant generic image2d_t event_t main
    threadIdx blockIdx blockDim gridDim warpSize uchar ushort uint ulong size_t NAN INFINITY linux unix i386 vector
    pipe
    exp exp2 log sqrt rsqrt floor ceil tanh fma fmax fmin fmod fabs copysign""".split()
)
STATIC_SHARED = 48 * 1024  # CUDA gives more only at launch
FRESH_SHARED = 8 * 1024  # as much may be taken without reuse: little enough not to cost occupancy


class Writer:
    """The text of one kernel on ``threads`` threads. ``lines`` holds (text, Python line or 0). An emitter, which knows
    how elements are spread over threads, extends it with `block` and `close`."""

    def __init__(self, kernel: Kernel, threads: int, dialect: Dialect):
        self.kernel, self.threads, self.dialect = kernel, threads, dialect
        self.lines: list[tuple[str, int]] = []
        self.depth = 1
        self.made = {v: op for op in kernel.ops() for v in op.results}
        self.count = uses(kernel)
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.text: dict[Value, str] = {}  # scalars: the C that reads them
        self.helpers: dict[str, str] = {}
        self.shared_bytes = 0
        self.private_bytes = 0
        self.said: int = 0
        self.op: Op | None = None
        self.symbol = ""

    def block(self, block: Block) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    # -- names and types -------------------------------------------------------------------------------------------

    def fresh(self, base: str) -> str:
        """A C name that is not taken, like ``base``."""
        base = re.sub(r"\W", "_", base, flags=re.ASCII) or "t"
        base = (
            base + "_"
            if base in RESERVED or base[0].isdigit() or base.startswith("__") or re.fullmatch(r"r\d*", base)
            else base
        )
        base = base[:60]
        name, k = base, 1
        while name in self.taken:
            name, k = f"{base}_{k}", k + 1
        self.taken.add(name)
        return name

    def name(self, v: Value) -> str:
        if v not in self.names:
            self.names[v] = self.fresh(v.name or (self.made[v].name if v in self.made else "t"))
        return self.names[v]

    def c(self, dtype: DType) -> str:
        return self.dialect.c(dtype)

    def ctype(self, v: Value) -> str:
        if v.type.pointer:
            return f"{self.dialect.memory}{self.dialect.stored(v.type.dtype)}*"
        return self.c(v.type.dtype)

    def unsigned(self, dtype: DType) -> str:
        return self.c(UNSIGNED.get(dtype, dtype))

    def math(self, name: str, dtype: DType) -> str:
        return self.dialect.math(name, dtype)

    def round_double(self, x: str, target: DType) -> str:
        if target.name == "float16":
            return f"{self.use('double_to_half')}({x})"
        return f"(float){x}"

    def use(self, name: str) -> str:
        """A helper of the dialect, with the helpers that it needs before it."""
        if name not in self.helpers:
            for other in NEEDS.get(name, ()):
                self.use(other)
            text = self.dialect.helpers.get(name) or COMMON[name]
            self.helpers[name] = text.format(fn=self.dialect.function).strip()
        return name

    def helper(self, name: str, template: str, dtype: DType, **more: object) -> str:
        """A helper function for one element type; gives its name."""
        full = f"{name}_{dtype.register.name}"
        if full not in self.helpers:
            t = dtype.register
            words = {
                "fn": self.dialect.function,
                "name": full,
                "T": self.c(t),
                "U": self.unsigned(t),
                "bits": t.bits,
            }
            words |= {f: self.math(f, t) for f in ("fmod", "copysign", "floor")}
            self.helpers[full] = template.format(**(words | more)).strip()
        return full

    # -- memory ----------------------------------------------------------------------------------------------------

    def load_text(self, place: str, dtype: DType) -> str:
        """C that reads one element and makes it a register value."""
        if dtype is bool_:
            return f"{place} != 0"
        if dtype.is_half:
            return f"{self.use('half_value' if dtype.name == 'float16' else 'bfloat_value')}({place})"
        return place

    def bits_text(self, value: str, dtype: DType) -> str:
        if dtype.is_half:
            return f"{self.use('half_bits' if dtype.name == 'float16' else 'bfloat_bits')}({value})"
        return value

    def store_text(self, place: str, value: str, dtype: DType) -> str:
        return f"{place} = {self.bits_text(value, dtype)};"

    def shared(self, dtype: DType, elements: int) -> str:
        """Shared memory for ``elements`` of ``dtype`` that nobody reads any more: a fresh piece, or, inside of blocks
        and when there is much already, the start of it all, behind a barrier."""
        size, first = elements * max(1, dtype.register.itemsize), -(-self.shared_bytes // 16) * 16
        if self.depth > 1 or first + size > FRESH_SHARED:
            first = 0
            self.barrier()  # the last readers may still be at it, in the last round of a loop too
        self.shared_bytes = max(self.shared_bytes, first + size)
        space = {"cuda": "", "opencl": "__local "}[self.dialect.name]
        return f"(({space}{self.c(dtype)}*){f'(shared_memory + {first})' if first else 'shared_memory'})"

    def barrier(self) -> None:
        if self.threads > 1:
            self.line(self.dialect.barrier)

    # -- lines -----------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        at = self.op.loc.line if self.op and self.op.loc else 0
        self.lines.append(("    " * self.depth + text if text else "", at))

    def comment(self, ops: list[Op]) -> None:
        """The Python lines that the C below comes from."""
        for loc in dict.fromkeys(op.loc for op in ops if op.loc):
            if loc.line != self.said:
                self.said = loc.line
                text = loc.text.strip().encode("ascii", "backslashreplace").decode().replace("\\", "/")
                self.line(f"// {text}")

    # -- expressions -----------------------------------------------------------------------------------------------

    def bind(self, v: Value, text: str) -> None:
        self.text[v] = text

    def scalar(self, v: Value) -> str:
        return self.text[v]

    def atom(self, v: Value) -> str:
        """A scalar's C, to stand inside a bigger expression."""
        return parenthesised(self.text[v])

    def constant(self, v: Value) -> object:
        op = self.made.get(v)
        return op.attrs["value"] if op and op.name == "const" else None

    def expression(self, op: Op, args: list[str]) -> str:
        """C for one element of an elementwise op, rounded or wrapped to what its type can hold."""
        entry, t = OPS[op.name], op.result.type.dtype
        text = re.sub(r"(\w)\(\(([^()]*)\)\)", r"\1(\2)", entry.emit(self, op, *args))
        if entry.exact or op.result.type.pointer or entry.kind == "index":
            return text
        if t.is_half:
            return text if op.name == "neg" else f"{self.use('round_' + t.name)}({text})"
        if t.is_int and t.bits < 32 and t is not bool_:
            return f"({self.c(t)})({text})"
        return text

    # -- the kernel ------------------------------------------------------------------------------------------------

    def kernel_text(self, attribute: str) -> list[tuple[str, int]]:
        """The whole source."""
        suffix = "" if self.kernel.name.endswith("_kernel") else "_kernel"  # no function of the C library ends so
        name = self.symbol = self.fresh(self.kernel.name + suffix)
        params, prologue = [], []
        for v in self.kernel.params:
            param = self.name(v)
            self.text[v] = param
            if v.type.pointer and self.dialect.name == "opencl":
                params += [f"{self.ctype(v)} {param}_buffer", f"const long {param}_first"]
                prologue.append(f"    {self.ctype(v)} const {param} = {param}_buffer + {param}_first;")
            elif v.type.pointer:
                params.append(f"{self.ctype(v)} {param}")
            else:
                params.append(f"const {self.dialect.stored(v.type.dtype)} {param}")
        self.block(self.kernel.body)
        self.close()
        body = self.lines
        head = self.dialect.head(name, params, attribute, self.threads)
        if self.shared_bytes > STATIC_SHARED and self.dialect.name == "cuda":
            head.append(f"    extern {self.dialect.shared} char shared_memory[];")
        elif self.shared_bytes:
            head.append(f"    {self.dialect.shared} char shared_memory[{self.shared_bytes}];")
        top = [f"// kernel {ascii(self.kernel.name)[1:-1]}, {self.threads} thread{'s' * (self.threads > 1)} a program"]
        if self.dialect.name == "opencl":
            top.append("#pragma OPENCL FP_CONTRACT OFF")
        for helper in self.helpers.values():
            top += ["", *helper.split("\n")] if "typedef" not in helper else helper.split("\n")
        return [(text, 0) for text in [*top, "", *head, *prologue]] + body + [("}", 0), ("", 0)]


def parenthesised(text: str) -> str:
    """Text that binds tighter than any operator."""
    return (
        text if re.fullmatch(r"[\w.]+(\[[^\]]*\])?|\w+\([^()]*\)|\([^()]*\)|\([a-z ]+\*?\)\w+", text) else f"({text})"
    )
