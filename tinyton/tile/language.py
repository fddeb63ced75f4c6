"""The names of this spelling. A function here is a typing rule, made of the ops that both spellings have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import Annotated, Any

from .. import dtypes
from ..errors import KernelTypeError, KernelValueError, TinytonError
from ..ir import Builder, Value
from ..language import DTYPES, LanguageFunction
from ..ops import PUBLIC, Entry
from ..spelling import ConstantAnnotation, Spelling

FUNCTIONS: dict[str, Entry] = {}
NAMES: dict[str, Any] = {}  # everything that the module has
MEANINGS: dict[Any, Any] = {}
WORDING = (
    (r"write a loop over tt\.static_range", "write tuple(f(x) for x in ct.static_iter(xs))"),
    (r"tt\.static_range", "ct.static_iter"),
    (r"of tt, and those under @tt\.jit", "of ct, and functions of the program"),
    (r"the function must be one under @tt\.jit, or of tt", "a function is needed"),
    (r"where its mask is off this load", "outside of the array, or where its mask is off, this load"),
    (r"give an other= that comes", "a padding that comes"),
    (r"what its other= says", "its padding"),
    (r"(next_power_of_2.*) and mask the rest", r"\1; a load pads what is beyond the array, a store leaves it out"),
    (r"@tt\.jit", "@ct.kernel"),
    (r"tt\.constexpr", "ct.Constant"),
    (r"\btt\.", "ct."),
    (r"\.to\(", ".astype("),
    (r"the functions of tt", "the functions of ct"),
    (r"mask the lanes that are beyond the end", "leave check_bounds=False out, or mask what is beyond the end"),
    (r"^(expected a tile or a number, not an array[\w ]*)$", r"\1; ct.load reads a tile of it"),
)
SPELLING = Spelling("ct", FUNCTIONS, MEANINGS, WORDING)


@contextmanager
def about(argument: str) -> Iterator[None]:
    """What is wrong inside is wrong with this argument."""
    try:
        yield
    except TinytonError as error:
        error.argument = argument
        raise


@contextmanager
def typed() -> Iterator[None]:
    """What is wrong inside is wrong with a type."""
    try:
        yield
    except KernelValueError as error:
        raise KernelTypeError(error.message, error.loc, error.argument) from None


def function(
    name: str = "", host: Callable | None = None, strict: bool = False, words: tuple = ()
) -> Callable[[Callable], Callable]:
    """Registers a typing rule as a function of this spelling; ``host`` is what it gives outside kernels. In a rule that
    is ``strict``, about shapes, what is wrong is wrong with a type. A rule that is made for one of several functions
    that are alike has ``words`` for the places in its docstring."""

    def register(rule: Callable) -> Callable:
        if words:
            rule.__name__, rule.__doc__ = name, (rule.__doc__ or "").format(*words)
        rule = typed()(rule) if strict else rule
        add(name or rule.__name__.rstrip("_"), Entry(rule.__name__, rule, None, None, "macro", host=host))  # type: ignore[arg-type]
        return rule

    return register


def made(name: str, operands: str, body: Callable, doc: str, **options: object) -> Callable:
    """A typing rule with these operands, and options with their defaults, that calls ``body`` with the builder, the
    operands, and the options by name. An operand that is among the options has a default."""
    words = operands.split()
    params = [Parameter(p, Parameter.POSITIONAL_OR_KEYWORD, default=options.pop(p, Parameter.empty)) for p in words]
    params += [Parameter(p, Parameter.KEYWORD_ONLY, default=x) for p, x in options.items()]
    signature = Signature([Parameter("b", Parameter.POSITIONAL_OR_KEYWORD), *params])

    def rule(*args: object, **kwargs: object) -> object:
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        return body(*call.args, **call.kwargs)

    rule.__name__, rule.__doc__, rule.__signature__ = name, doc, signature  # type: ignore[attr-defined]
    return rule


def add(name: str, entry: Entry) -> None:
    FUNCTIONS[name] = entry
    NAMES[name] = LanguageFunction(name, entry, "ct", "kernel")


def share(*names: str, **renamed: str) -> None:
    """Takes functions over from tt; ``new="old"`` under another name. Those of later stages are left out."""
    for name, old in (dict(zip(names, names, strict=True)) | renamed).items():
        if old in PUBLIC:
            add(name, PUBLIC[old])


class Constant:
    """Annotates a parameter whose value is fixed when the kernel is compiled: ``SIZE: ct.Constant[int]``, or
    ``ct.Constant`` for a value of any type."""

    def __class_getitem__(cls, kind: Any) -> Any:
        return Annotated[kind, ConstantAnnotation()]

    __metadata__ = (ConstantAnnotation(),)


NAMES |= {name: d for name, d in DTYPES.items() if name != "int1"}
NAMES |= {"DType": dtypes.DType, "Constant": Constant, "ConstantAnnotation": ConstantAnnotation}
NAMES["Tile"] = Value  # to annotate with

share("exp", "exp2", "log", "sqrt", "rsqrt", "floor", "ceil", "tanh", "where", "maximum", "minimum", "abs", "cdiv")


@function(strict=True)
def bid(b: Builder, axis: int = 0) -> Value:
    """Which program of the grid this is, along ``axis`` (0, 1 or 2): an int32 scalar from 0.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def who(out): ct.store(out, ct.bid(0), ct.bid(0))
    >>> x = np.zeros(3, np.int32); ct.launch(None, (3,), who, (x,)); x.tolist()
    [0, 1, 2]
    """
    return PUBLIC["program_id"].rule(b, axis)


@function(strict=True)
def num_blocks(b: Builder, axis: int = 0) -> Value:
    """How many programs the grid has along ``axis``: an int32 scalar.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(out): ct.store(out, ct.bid(0), ct.num_blocks(0))
    >>> out = np.zeros(3, np.int32); ct.launch(None, (3,), k, (out,)); out.tolist()
    [3, 3, 3]
    """
    return PUBLIC["num_programs"].rule(b, axis)
