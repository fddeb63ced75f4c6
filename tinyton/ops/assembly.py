"""PTX inside of a kernel, for what the language does not say."""

from __future__ import annotations

import json
import re

from ..dtypes import float32, float64, uint16, uint32, uint64
from ..errors import BackendError, KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .arithmetic import _bits, _of_bits
from .typing import Operand, constant_dtype, constant_int, describe, number, same_shape

REGISTERS = {"h": uint16, "r": uint32, "l": uint64, "f": float32, "d": float64}


def _refuse(run, op, *xs):
    raise BackendError("inline_asm_elementwise is PTX, which only the cuda executor runs", op.loc)


def _emit(e, op, *xs):
    """A call of a helper that holds the instructions."""
    if e.dialect.name != "cuda":
        _refuse(None, op)
    outputs, index, words = op.attrs["dtypes"], op.attrs["index"], op.attrs["constraints"]
    types = [e.c(REGISTERS[w[-1]]) for w in words]
    ins = range(len(outputs), len(words))
    asm = re.sub(r"\$(\$|\d+)", lambda m: "$" if m[1] == "$" else f"%{m[1]}", op.attrs["asm"].replace("%", "%%"))
    result = f"x{index}" if words[index][-1] in "fd" else _of_bits(e, f"x{index}", outputs[index])
    lines = [
        f"({', '.join(f'{types[k]} x{k}' for k in ins)}) {{",
        *(f"    {types[k]} x{k};" for k in range(len(outputs))),
        f"    asm volatile({json.dumps(asm)}",
        f"        : {', '.join(f'{json.dumps(words[k])}(x{k})' for k in range(len(outputs)))}",
        f"        : {', '.join(f'{json.dumps(words[k])}(x{k})' for k in ins)});",
        f"    return {result};\n}}",
    ]
    head, body = f"{e.dialect.function} {e.c(outputs[index])} ", "\n".join(lines)
    name = next((n for n, have in e.helpers.items() if have == head + n + body), f"__asm_{len(e.helpers)}")
    e.helpers[name] = head + name + body
    given = zip(ins, xs, op.operands, strict=True)
    args = (x if words[k][-1] in "fd" else _bits(e, x, v.type.dtype) for k, x, v in given)
    return f"{name}({', '.join(args)})"


@op(numpy=_refuse, emit=_emit, kind="typed", public=False)
def inline_asm(b: Builder) -> None:
    """One result of instructions, for one element."""


@op(numpy=None, emit=None, kind="macro")
def inline_asm_elementwise(
    b: Builder, asm: str, constraints: str, args: tuple[Operand, ...], dtype: object, is_pure: bool, pack: int = 1
) -> Value | tuple[Value, ...]:
    """PTX instructions on each element of the tiles ``args``, which broadcast. On the cuda executor alone.

    In ``asm``, ``$0`` is the first result and the arguments are numbered on from the last; ``constraints`` has a word
    for each: ``=r`` for a result, ``r`` for an argument, with h, r or l for the bits in registers of 16, 32 and 64
    bits, f and d for float32 (16-bit floats too) and float64. ``dtype`` is the element type of the result; a tuple of
    them gives a tuple of tiles, for which the instructions run once each, so they must be pure. ``pack`` is 1.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def reverse(x):
    ...     tt.store(x, tt.inline_asm_elementwise("brev.b32 $0, $1;", "=r,r", [tt.load(x)], tt.int32, True, 1))
    """
    if constant_int(pack, "pack") != 1:
        raise KernelValueError(f"pack is 1, an element at a time; not {pack}", argument="pack")
    if not isinstance(asm, str) or not isinstance(constraints, str):
        wrong = asm if not isinstance(asm, str) else constraints
        raise KernelTypeError(f"instructions and constraints are texts, not {describe(wrong)}")
    several = isinstance(dtype, tuple)
    outputs = tuple(constant_dtype(d) for d in (dtype if isinstance(dtype, tuple) else (dtype,)))
    if several and not is_pure:
        what = "instructions with several results run once for each: they must be pure"
        raise KernelValueError(what, argument="is_pure")
    values = same_shape(b, *(number(b, x) for x in (args if isinstance(args, tuple) else (args,))))
    words = tuple(w.strip() for w in constraints.split(","))
    types = [*outputs, *(v.type.dtype for v in values)]
    if len(words) != len(types):
        have = f"{len(outputs)} results and {len(values)} arguments"
        raise KernelValueError(f"there are {have}, but {len(words)} constraints", argument="constraints")
    for k, (word, t) in enumerate(zip(words, types, strict=True)):
        if not re.fullmatch(("=&?" if k < len(outputs) else "") + "[hrlfd]", word):
            need = "= and a letter" if k < len(outputs) else "a letter"
            raise KernelValueError(f"constraint {k}, {word!r}, is not {need} of h, r, l, f, d", argument="constraints")
        register = REGISTERS[word[-1]]
        if register.is_float and t.register is not register or t.bits > register.bits:
            raise KernelValueError(f"constraint {k}, {word!r}, does not fit {t}", argument="constraints")
    shape = values[0].type.shape if values else ()
    attrs = {"asm": asm, "constraints": words, "dtypes": outputs, "run": 0 if is_pure else 1 + len(b.ops)}
    results = tuple(b.add("inline_asm", values, Type(t, shape), index=k, **attrs) for k, t in enumerate(outputs))
    return results if several else results[0]
