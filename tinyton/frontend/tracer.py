"""The walk over the syntax tree. Each kind of node has a handler, in this folder; a node without one is refused."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from .._later import LATER

# >>> stage 6
from ..errors import KernelSyntaxError, KernelTypeError, Loc, RecursiveCallError, TinytonError

# === before
# from ..errors import KernelSyntaxError, KernelTypeError, Loc, TinytonError
# <<<
from ..ir import Block, Builder, Kernel, Op, Type, Value
from ..ops import PUBLIC, Entry

# >>> stage 6
from ..ops.typing import flatten
from ..spelling import Leaf
from .calls import inline

# <<<
# >>> stage 5
from .flow import RETURN, UNSET, rewrite

# <<<
from .source import Source

Handler = Callable[["Tracer", Any], object]
HANDLERS: dict[type[ast.AST], Handler] = {}
# >>> stage 6
SPELLED: dict[type[ast.AST], Handler] = {}  # those of the spelling with arrays, where they are others
# <<<
BUILTINS = {f.__name__: f for f in (abs, bool, float, int, len, max, min, range, round, isinstance, str, tuple)}

INSTEAD = {
    "Return Yield YieldFrom": "a kernel gives its results through tt.store",
    "FunctionDef": "define it at module level, under @tt.jit",
    "AsyncFunctionDef ClassDef TypeAlias": "define it at module level",
    "With": "write its body alone",
    "Match": "write if / elif",
    "Lambda": "write the expression where it is used, or a function under @tt.jit",
    "ListComp SetComp DictComp GeneratorExp": "write a loop over tt.static_range",
    "Dict Set": "use a tuple of constants, or a name for each",
    "Starred": "name the elements one by one",
    "Try TryStar": "check before the launch",
    "Assert Raise": "write tt.static_assert(condition, message) for what is known at compile time",
    "Delete": "just stop using the name",
    "Import ImportFrom": "import at the top of the module",
    "Global": "a kernel reads globals without declaring them, and cannot change them",
    "Nonlocal": "a kernel reads outer names without declaring them, and cannot change them",
    "NamedExpr": "assign on a line of its own",
    "Pow": "write x * x, or tt.pow(x, y) of floats",
    "MatMult": "write tt.dot(x, y)",
    "Slice": "a tile is indexed with : and None only, as in x[:, None]",
}
INSTEAD = {name: text for names, text in INSTEAD.items() for name in names.split()}


def visits(*kinds: type[ast.AST], table: dict[type[ast.AST], Handler] = HANDLERS) -> Callable[[Handler], Handler]:
    """Registers a handler for kinds of syntax nodes."""

    def register(handler: Handler) -> Handler:
        table.update(dict.fromkeys(kinds, handler))
        return handler

    return register


@dataclass(frozen=True)
class Missing:
    """A name that some path leaves without a (single) value; using it is the error ``message``."""

    message: str
    kind: type[TinytonError] = KernelSyntaxError


@dataclass(eq=False)
class Frame:
    """A function that is being traced: its names as they are now, where it is called, and the frame around it, whose
    names it sees too."""

    source: Source
    scope: dict[str, object]
    env: dict[str, object]
    bound_at: dict[str, int]
    caller: Loc | None = None
    parent: Frame | None = None
    inside: Callable[[object], None] | None = None  # what happens at a yield


def _of_frame(name: str) -> Any:
    return property(attrgetter(f"frame.{name}"), lambda t, value: setattr(t.frame, name, value))


class Tracer:
    """Runs a kernel's body once over types: names are bound to IR values or to compile-time Python objects."""

    source, scope, env, bound_at, caller = map(_of_frame, ("source", "scope", "env", "bound_at", "caller"))

    def __init__(self, root: Source) -> None:
        self.builder, self.root = Builder(), root
        self.frame: Frame = None  # type: ignore[assignment]
        # >>> stage 6
        self.calls: list[Source] = []
        self.made: list[object] = []  # the records whose __post_init__ is being traced
        self.builder.call = lambda fn, *args, **kwargs: inline(self, fn, *args, **kwargs)
        # <<<

    def enter(
        self, source: Source, env: Mapping[str, object], caller: Loc | None = None, parent: Frame | None = None
    ) -> None:
        """Goes on in the scope of ``source``, with these parameters."""
        names = {name: plain(value, name) for name, value in env.items()}
        self.frame = Frame(source, source.scope(), names, {}, caller, parent)
        self.bound_at = dict.fromkeys(env, self.loc(source.tree).line)

    def visit(self, node: ast.AST) -> object:
        """The value of an expression, or the effect of a statement, with errors placed at the node."""
        outer = self.builder.loc
        handler = HANDLERS.get(type(node))
        # >>> stage 6
        handler = SPELLED.get(type(node), handler) if self.source.spelling else handler
        # <<<
        if hasattr(node, "lineno"):
            self.builder.loc = self.loc(node)
        try:  # as in `at`, which takes longer
            result = handler(self, node) if handler else self.refuse(node)
        except (RecursionError, TinytonError) as error:
            self.blame(error, node)
            raise
        self.builder.loc = outer
        return result

    def refuse(self, node: ast.AST, what: str | None = None) -> None:
        name = type(node).__name__
        if name in LATER:
            raise KernelSyntaxError(f"{what or name} is not in this stage: it arrives in {LATER[name]}")
        instead = f"; {INSTEAD[name]}" if name in INSTEAD else ""
        raise KernelSyntaxError(f"{what or name} is not supported in a kernel{instead}")

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        if hasattr(node, "lineno"):
            self.builder.loc = self.loc(node)
        try:
            yield
        except (RecursionError, TinytonError) as error:
            self.blame(error, node)
            raise

    def blame(self, error: RecursionError | TinytonError, node: ast.AST) -> None:
        """Says where an error is; what nests too deeply is an error of the statement."""
        if isinstance(error, TinytonError):
            if error.loc is None:
                error.loc = self.loc(node) if hasattr(node, "lineno") else None
            # >>> stage 6
            if self.source.spelling and (error.loc is None or error.loc.kernel == self.source.name):
                error.message = self.source.spelling.words(error.message)
            # <<<
        elif isinstance(node, ast.stmt):
            # >>> stage 6
            if self.calls:
                raise RecursiveCallError("calls in calls nest too deeply here", self.loc(node)) from None
            # <<<
            raise KernelSyntaxError("this nests too deeply; give parts of it names", self.loc(node)) from None

    def methods(self) -> Mapping[str, Entry]:
        """The functions that tiles have as methods."""
        # >>> stage 6
        if self.source.spelling:
            return self.source.spelling.functions
        # <<<
        return PUBLIC

    def loc(self, node: ast.AST) -> Loc:
        """Where a node is, and which calls led there."""
        return self.source.loc(node, self.caller)

    def shown(self, name: str) -> str:
        """A name in a message; those that start with ? are the compiler's own."""
        if name == "?value":
            return f"the value that {self.source.name} returns"
        return "the value" if name.startswith("?") else name

    def ir_name(self, name: str) -> str:
        return name if not name.startswith("?") else {"?go": "go"}.get(name, "left" if "exit" in name else "")

    # >>> stage 5
    def function(self) -> object:
        """Traces the body of the source, and gives what it returns."""
        self.env |= {RETURN: False, "?value": UNSET}
        self.body(rewrite(self.source.tree))
        value = self.env["?value"]
        if isinstance(value, Missing):
            raise KernelTypeError(value.message)
        return None if value is UNSET else value

    # <<<
    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    def bind(self, name: str, value: object, node: ast.AST) -> None:
        """Assigns a name; the value takes it as its name in the IR, unless it has one."""
        if isinstance(value, Value) and not value.name:
            # in place: other names, or a tuple, may hold the value too
            object.__setattr__(value, "name", self.ir_name(name))
        self.env[name] = value
        self.bound_at[name] = self.loc(node).line

    def lookup(self, name: str) -> object:
        frame: Frame | None = self.frame
        while frame and name not in frame.env and name not in frame.source.local:
            frame = frame.parent
        if frame and name in frame.env:
            value = frame.env[name]
            if isinstance(value, Missing):
                raise value.kind(value.message)
            return value
        if not frame and name in self.scope:
            return plain(self.scope[name], name)
        if not frame and hasattr(builtins, name):
            # >>> stage 6
            if self.source.spelling:
                return getattr(builtins, name)
            # <<<
            return BUILTINS[name] if name in BUILTINS else self.refuse_builtin(name)
        raise KernelSyntaxError(f"{name} is not defined: not a parameter, not assigned above, not a global")

    # >>> stage 6
    def reads_outside(self, name: str) -> bool:
        """True if a name is that of a module or of a closure, not of this function and those around it."""
        frame: Frame | None = self.frame
        while frame and name not in frame.source.local:
            frame = frame.parent
        return frame is None

    # <<<
    def refuse_builtin(self, name: str) -> None:
        printing = "; write tt.device_print('x', x)" * (name == "print")
        instead = f"; there is tt.{name}" if name in self.methods() else printing
        if name in ("zip", "enumerate", "reversed", "map", "filter", "sorted"):
            instead = f"; of compile-time values, write tt.static_iter({name}(...))" * bool(self.source.spelling)
        raise KernelSyntaxError(f"{name} is Python's own, which a kernel cannot call{instead}")

    @contextmanager
    def into(self, ops: list[Op]) -> Iterator[list[Op]]:
        """Appends the ops of what is inside to these, apart from the ops around."""
        outer, self.builder.ops = self.builder.ops, ops
        try:
            yield ops
        finally:
            self.builder.ops = outer


def is_array(value: object) -> bool:
    return any(hasattr(value, word) for word in ("__dlpack__", "__cuda_array_interface__"))


def plain(value: object, name: str) -> object:
    """A compile-time object as kernels see it: NumPy scalars are Python numbers; arrays are refused."""
    if isinstance(value, np.generic):
        return value.item()
    if is_array(value):
        raise KernelTypeError(f"{name} is an array outside the kernel; pass it as an argument")
    return value


# >>> stage 6
def _filled(x: object, named: Mapping[str, Value]) -> object:
    """A compile-time value with the arguments in it, where it only names them."""
    leaves, rebuild = flatten(x)
    return rebuild([named.get(v.name, v) if isinstance(v, Leaf) else v for v in leaves])


# <<<
def trace(source: Source, types: Mapping[str, Type], constants: Mapping[str, object], weak: frozenset[str]) -> Kernel:
    """The IR of a kernel for these argument types and constexpr values. ``weak`` names the float arguments."""
    tracer = Tracer(source)
    params = tuple(Value(t, name) for name, t in types.items())
    tracer.builder.asserts = source.asserts
    tracer.builder.weak.update(v for v in params if v.name in weak)
    named = {v.name: v for v in params}
    # >>> stage 6
    constants = {n: _filled(x, named) for n, x in constants.items()}
    # <<<
    tracer.enter(source, named | dict(constants))
    # >>> stage 5
    try:
        tracer.function()
    finally:
        print("".join(tracer.builder.notes), end="")
    # === before
    # tracer.body(source.tree.body)
    # <<<
    params = (*params, *tracer.builder.hidden.values())
    return Kernel(source.name, params, Block((), tuple(tracer.builder.ops)))
