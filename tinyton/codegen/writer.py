"""Writing C: names that are free, types, helper functions, lines with the Python line that they come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..dtypes import DType, bool_, float32, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from ..errors import Loc
from ..ir import Block, Kernel, Op, Value, uses
from ..ops import OPS

# >>> stage 4
from ..passes.threads import Together

# <<<
from .dialect import COMMON, CUDA, NARROW, OPENCL, Dialect

UNSIGNED = {int8: uint8, int16: uint16, int32: uint32, int64: uint64}
RESERVED = set(
    """alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue
    decltype default delete do double else enum explicit export extern false float for friend goto half if inline int
    kernel local long mutable namespace new noexcept not nullptr operator or private protected public register restrict
    return short signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor thread shared global constant generic image2d_t event_t main
    threadIdx blockIdx blockDim gridDim warpSize uchar ushort uint ulong size_t NAN INFINITY linux unix i386 vector
    pipe quad complex imaginary read_only write_only read_write sampler_t typeof concept requires consteval constinit
    static_assert static_cast const_cast dynamic_cast reinterpret_cast thread_local and_eq or_eq not_eq xor_eq
    barrier get_group_id get_num_groups get_local_id shared_memory scratch program programs NULL EOF MAXFLOAT
    leader programs_y programs_z""".split()
)
CALLED = {name for name, e in OPS.items() if e.rule.__module__.endswith((".ops.math", ".ops.functions"))}
CALLED |= {"fma", "fmax", "fmin", "fmod", "fabs", "floor", "copysign", "mul_hi"}
RESERVED |= CALLED | {f"{name}f" for name in CALLED}
HELPERS = {*CUDA.helpers, *OPENCL.helpers, *COMMON}
# Names of the C compiler, registers, vectors, helpers for one type (floordiv_int32), vector types, macros of C.
PATTERNS = re.compile(
    r"\d.*|_[_A-Z].*|cl_\w+|r\d*|((load|store)_)?[a-z]+\d+x\d+|\w+_(bool|(u?int|b?float)\d+)"
    r"|(u?(char|short|int|long)|float|double|half)\d+|(\w+_)?float8_e\w+"
    r"|atom(ic)?(_\w+|[A-Z]\w*)|(FLT|DBL|HALF|CHAR|SCHAR|UCHAR|SHRT|USHRT|INT|UINT|LONG|ULONG|CLK|CL|FP|HUGE|M)_\w+"
)
STATIC_SHARED = 48 * 1024  # CUDA gives more only at launch
TILE = 1024  # where a tile of matrices begins in shared memory is divisible by this
FRESH_SHARED = 8 * 1024  # as much may be taken without reuse: little enough not to cost occupancy


class Writer:
    """The text of one kernel on ``threads`` threads. ``lines`` holds (text, place in Python or None). An emitter, which
    knows how elements are spread over threads, extends it with `block` and `close`."""

    programs = 1  # that share a block
    counts = 0  # of how many axes of the grid the kernel is told how many programs there are

    def __init__(self, kernel: Kernel, threads: int, dialect: Dialect):
        self.kernel, self.threads, self.dialect = kernel, threads, dialect
        self.lines: list[tuple[str, Loc | None]] = []
        self.depth = 1
        self.made = {v: op for op in kernel.ops() for v in op.results}
        self.count = uses(kernel)
        self.late = rounded_later(kernel)
        self.short: dict[Op, str] = {}  # divisions that are multiplications here, by these helpers
        self.names: dict[Value, str] = {}
        self.taken: dict[str, int] = {}  # the names, and how many are like them
        self.text: dict[Value, str] = {}  # scalars: the C that reads them
        self.helpers: dict[str, str] = {}
        self.own_bytes = -(-kernel.shared_bytes // 16) * 16  # the kernel's buffer, and pieces that an op has for itself
        self.align = 16  # of all of it
        self.most_bytes = 0  # how many those have been
        self.scratch_bytes = 0  # what comes after those, for all others
        self.waiting = False  # whether something is in shared memory that is read behind a barrier
        self.sent: dict[Value, tuple[str, Callable[..., str]]] = {}  # products on their way, and what names their sums
        self.after: list[tuple[set[Value], str]] = []  # lines that follow once these have arrived
        self.turns: list[str] = []
        # >>> stage 9
        self.maps: tuple[str, ...] = ()  # of arrays, which the kernel takes after all else
        self.extra = self.registers = 0  # threads that feed the others, and what they let those have, if anything
        # <<<
        self.round = 0  # how deep the body of the innermost loop is
        self.met = False  # whether the threads have waited for each other in this round
        self.sizes: dict[Value, int] = {}  # bytes of a tile in one thread
        self.said: tuple[str, int] | None = None
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
        if base in RESERVED or base in HELPERS or PATTERNS.fullmatch(base):
            base += "_"
        base = base[:60]
        name, k = base, self.taken.get(base, 0)
        while name in self.taken:
            k, name = k + 1, f"{base}_{k + 1}"
        self.taken[name] = 0
        self.taken[base] = k
        return name

    def name(self, v: Value) -> str:
        if v not in self.names:
            self.names[v] = self.fresh(v.name or (self.made[v].name if v in self.made else "t"))
        return self.names[v]

    def c(self, dtype: DType) -> str:
        return self.dialect.c(dtype)

    def ctype(self, v: Value) -> str:
        if v.type.pointer:
            return f"{self.dialect.local if v.type.shared else self.dialect.memory}{self.dialect.stored(v.type.dtype)}*"
        return self.c(v.type.dtype)

    def unsigned(self, dtype: DType) -> str:
        return self.c(UNSIGNED.get(dtype, dtype))

    def math(self, name: str, dtype: DType) -> str:
        """The function of that name: our own for float32 where there is one, else the C library's."""
        if dtype.register is float32 and f"{name}_float" in self.dialect.helpers:
            return self.use(f"{name}_float")
        return self.dialect.math(name, dtype)

    def use(self, name: str) -> str:
        """A helper of the dialect, with the helpers that it needs before it."""
        if name not in self.helpers:
            known = COMMON | self.dialect.helpers
            for other in re.findall(r"\w+(?=\()", known[name]):
                if other in known and other != name:
                    self.use(other)
            self.helpers[name] = known[name].format(fn=self.dialect.function).strip()
        return name

    def leader(self) -> str:
        """The number of the warp's first thread, of which ptxas knows that it is the same in all of a warp."""
        self.use("first_of_warp")
        return "leader"

    def helper(self, name: str, template: str, dtype: DType, **more: object) -> str:
        """A helper function for one element type; gives its name."""
        full = f"{name}_{dtype.register.name}"
        if full not in self.helpers:
            t = dtype.register
            words = {"fn": self.dialect.function, "name": full, "T": self.c(t), "U": self.unsigned(t), "bits": t.bits}
            words |= {f: self.math(f, t) for f in ("fmod", "copysign", "floor")}
            self.helpers[full] = template.format(**(words | more)).strip()
        return full

    # >>> stage 3
    def function(self, name: str, head: str, *body: str) -> str:
        """A helper function of these lines, the first of which opens it, written once; gives its name."""
        text = "\n    ".join([f"{self.dialect.function} {head}", *body]) + "\n}"
        self.helpers.setdefault(name, text)
        return name

    # <<<
    # -- memory ----------------------------------------------------------------------------------------------------

    def load_text(self, place: str, dtype: DType) -> str:
        """C that reads one element and makes it a register value."""
        if dtype.is_narrow:
            return f"{self.use(f'{NARROW[dtype.name]}_value')}({place})"
        return f"{place} != 0" if dtype is bool_ else place

    def bits_text(self, value: str, dtype: DType) -> str:
        if dtype.is_narrow:
            return f"{self.use(f'{NARROW[dtype.name]}_bits')}({value})"
        return value

    def shared(self, dtype: DType, elements: int, keep: bool = False) -> str:
        """Shared memory for ``elements`` of ``dtype`` that nobody reads any more, to be written, and read behind a
        barrier: a piece of its own while there is room, else what others have used too, behind a barrier more. In a
        loop, threads may still read when others write in the next round: unless there is a barrier in between, they use
        two pieces in turn. What is to ``keep`` is a piece of its own, whatever its size."""
        self.meet()
        size, place = -(-elements * max(1, dtype.register.itemsize) // 16) * 16, ["shared_memory"]
        if keep:
            self.align = TILE
            self.own_bytes = -(-self.own_bytes // TILE) * TILE
        if self.own_bytes < self.most_bytes or keep and self.round > 0 and not self.met:
            self.barrier()  # others may still read what was there
        twice = self.round > 0 and not self.met and self.threads > 1
        reused = self.own_bytes < self.most_bytes
        if not (keep or reused) and self.own_bytes + size * (1 + twice) > FRESH_SHARED:
            self.scratch_bytes = max(self.scratch_bytes, size)
            self.barrier()
            return f"(({self.dialect.local}{self.c(dtype)}*)scratch)"
        place += [str(self.own_bytes)] * (self.own_bytes > 0)
        self.own_bytes += size * (1 + twice)
        if twice:
            place.append(self.fresh("turn"))
            self.turns.append(place[-1])
            self.line(f"{place[-1]} ^= {size};")
        return f"(({self.dialect.local}{self.c(dtype)}*){parenthesised(' + '.join(place))})"

    # >>> stage 8
    def shared_apart(self, size: int) -> str:
        """Shared memory of which each warp writes and reads a part of its own: it waits for nobody else, but for what
        others have used that memory for."""
        self.meet()
        if self.own_bytes < self.most_bytes:
            self.barrier()
        self.own_bytes += size
        return parenthesised(f"shared_memory + {self.own_bytes - size}")

    # <<<
    def barrier(self) -> None:
        if self.threads > 1:
            self.meet()
            # >>> stage 8
            if self.waiting and any(op.attrs.get("how") == "wgmma" for op in self.kernel.ops()):
                self.line(f"{self.use('shared_written')}();")
            # <<<
            self.line(self.dialect.barrier)
            self.waiting = False
            self.met |= self.depth == self.round

    @property
    def shared_bytes(self) -> int:
        return max(self.own_bytes, self.most_bytes) + self.scratch_bytes

    @contextmanager
    def rounds(self) -> Iterator[None]:
        """Around the body of a loop."""
        outer, self.round, self.met = (self.round, self.met), self.depth, False
        yield
        self.round, self.met = outer

    def meet(self) -> None:
        """Called before the threads of a program exchange something, unless it is a warp that does."""
        # >>> stage 4
        if self.programs > 1:
            raise Together
        # <<<

    # -- lines -----------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        at = self.op.loc if self.op else None
        self.lines.append(("    " * self.depth + text if text else "", at))

    def comment(self, ops: list[Op]) -> None:
        """The Python lines that the C below comes from."""
        for loc in dict.fromkeys(op.loc for op in ops if op.loc):
            if (loc.kernel, loc.line) != self.said:
                self.said = loc.kernel, loc.line
                text = loc.text.strip().encode("ascii", "backslashreplace").decode()
                text = text.replace("\\", "/").replace("??/", "? ? /")  # neither may end a line
                self.line(f"// {text}")

    # -- expressions -----------------------------------------------------------------------------------------------

    def program_id(self, axis: int) -> str:
        return "program" if axis == 0 and self.programs > 1 else self.dialect.program_id[axis]

    def num_programs(self, axis: int) -> str:
        told = "programs", "programs_y", "programs_z"
        return told[axis] if axis < self.counts else self.dialect.num_programs[axis]

    def place(self) -> tuple[str, ...]:
        """The program's place in the grid, for helper functions too."""
        x, y, z = self.dialect.program_id
        return f"{x} * {self.programs} + (int){self.dialect.member}" if self.programs > 1 else x, y, z

    def scalar(self, v: Value) -> str:
        return self.text[v]

    def atom(self, v: Value) -> str:
        """A scalar's C, to stand inside a bigger expression."""
        return parenthesised(self.text[v])

    def constant(self, v: Value) -> object:
        op = self.made.get(v)
        return op.attrs["value"] if op and op.name == "const" else None

    def is_constant(self, v: Value) -> bool:
        """True for a number, and for a tile filled with one."""
        while (op := self.made.get(v)) and OPS[op.name].kind == "view":
            v = op.operands[0]
        return op is not None and op.name == "const"

    def definition(self, v: Value, name: str, text: str) -> str:
        return f"{'' if v.type.pointer else 'const '}{self.ctype(v)} {name} = {text};"

    def expression(self, op: Op, args: list[str]) -> str:
        """C for one element of an elementwise op, rounded or wrapped to what its type can hold."""
        entry, t = OPS[op.name], op.result.type.dtype
        long = [k for k, v in enumerate(op.operands) if v.type.dtype in (int64, uint64) and not v.type.pointer]
        if long and op.name != "addptr" and all(self.is_constant(op.operands[k]) for k in long):  # C takes them for int
            args[long[0]] = f"({self.c(op.operands[long[0]].type.dtype)}){args[long[0]]}"
        text = entry.emit(self, op, *args)
        text = re.sub(r"(\w)\(\(([^()]*)\)\)", r"\1(\2)", text) if "((" in text else text
        if entry.exact or op.result.type.pointer or entry.kind == "index":
            return text
        if t.is_narrow:
            return text if op.name == "neg" or op.result in self.late else f"{self.use('round_' + t.name)}({text})"
        if t.is_int and t.bits < 32 and t is not bool_:
            return f"({self.c(t)})({text})"
        return text

    # -- the kernel ------------------------------------------------------------------------------------------------

    def kernel_text(self, attribute: str) -> list[tuple[str, Loc | None]]:
        """The whole source."""
        suffix = "" if self.kernel.name.endswith("_kernel") else "_kernel"  # no function of the C library ends so
        name = self.symbol = self.fresh(self.kernel.name + suffix)
        params, prologue = [], []
        for v in self.kernel.params:
            self.text[v] = self.name(v)
        for v, param in self.text.copy().items():
            if v.type.pointer and self.dialect.name == "opencl":
                buffer, first = self.fresh(f"{param}_buffer"), self.fresh(f"{param}_first")
                params += [f"{self.ctype(v)} {buffer}", f"const long {first}"]
                prologue.append(f"    {self.ctype(v)} const {param} = {buffer} + {first};")
            elif v.type.pointer:
                params.append(f"{self.ctype(v)} {param}")
            else:
                params.append(f"const {self.dialect.stored(v.type.dtype)} {param}")
        top = [f"// kernel {ascii(self.kernel.name)[1:-1]}, {self.threads} thread{'s' * (self.threads > 1)} a program"]
        # >>> stage 4
        if self.programs > 1:
            self.counts = 1
            prologue.insert(0, f"    const int program = {self.place()[0]};\n    if (program >= programs) return;")
            top[0] += f", {self.programs} programs a block"
        # <<<
        # >>> stage 9
        self.maps = tuple(map(self.fresh, self.maps))
        params += [f"const __grid_constant__ {self.use('TensorMap')} {name}" for name in self.maps]
        # <<<
        params += [f"const int {self.num_programs(axis)}" for axis in range(self.counts)]
        self.block(self.kernel.body)
        self.close()
        body = self.lines
        words = {"name": name, "params": ", ".join(params), "attribute": attribute}
        words |= {"threads": self.threads, "programs": self.programs}
        head = self.dialect.head.format(**words).split("\n")
        if self.threads > 1:
            head.append(f"    const int thread = {self.dialect.thread};")
        if "first_of_warp" in self.helpers:
            head.append("    const int leader = first_of_warp();")
        before = self.dialect.shared.format(align=self.align)
        if self.shared_bytes > STATIC_SHARED and self.dialect.name == "cuda":
            head.append(f"    extern {before} char shared_memory[];")
        elif self.shared_bytes:
            head.append(f"    {before} char shared_memory[{self.shared_bytes}];")
        if self.scratch_bytes:
            start = max(self.own_bytes, self.most_bytes)
            head.append(f"    {self.dialect.local}char* const scratch = shared_memory + {start};")
        head += [f"    int {turn} = 0;" for turn in self.turns]
        if self.dialect.name == "opencl":
            top.append("#pragma OPENCL FP_CONTRACT OFF")
        for helper in self.helpers.values():
            top += ["", *helper.split("\n")] if not helper.startswith("typedef") else helper.split("\n")
        return [(text, None) for text in [*top, "", *head, *prologue]] + body + [("}", None), ("", None)]


def rounded_later(kernel: Kernel) -> set[Value]:
    """Narrow floats that need not be rounded where they are made: all their readers are stores, which round, and
    ops that give the same whether their operands or their result are rounded, for such readers."""
    ops = list(kernel.ops())
    kept = {v for op in ops for block in op.blocks for v in block.yields}  # by branches, and from round to round
    found = {v for op in ops for v in op.results if v.type.dtype.is_narrow and not v.type.pointer} - kept
    for op in reversed(ops):  # readers come before what they read
        moves = OPS[op.name].kind == "view" or op.name in ("convert", "where", "neg")
        moves = moves and op.result in found or op.name in ("place", "hold")
        moves = moves or op.name == "store" and not op.operands[0].type.shared
        found.difference_update(() if moves else op.operands)
    return found


def parenthesised(text: str) -> str:
    """Text that binds tighter than any operator."""
    whole = text.isidentifier() or re.fullmatch(r"[\w.]+(\[[^\]]*\])?|\w+\([^()]*\)|\([^()]*\)|\([a-z ]+\*?\)\w+", text)
    return text if whole else f"({text})"
