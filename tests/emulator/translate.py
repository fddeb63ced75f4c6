"""CUDA C++ as g++ takes it, with simt.h before it: inline PTX becomes calls of the functions of ptx.h, one an
instruction, and arrays in shared memory become pieces of the block's. All else stays as it is."""

from __future__ import annotations

import re
from itertools import count

TYPES = {"h": "unsigned short", "r": "unsigned int", "l": "unsigned long long", "f": "float", "d": "double", "n": "int"}
REGISTERS = {"pred": "bool", "f32": "float", "f64": "double"}
REGISTERS |= {f"{k}{bits}": c for k in "bus" for bits, c in ((16, TYPES["h"]), (32, TYPES["r"]), (64, TYPES["l"]))}
SHARED = re.compile(r"(extern )?__shared__ (?:__align__\((\w+)\) )?([\w ]+?) (\w+)((?:\[[^\]]*\])+);")
STATEMENT = re.compile(  # of PTX: a scope, a label, registers, or an instruction, which may have a condition
    r"\s*(?:([{}])|(\w+):(?!:)|\.reg\s+\.(\w+)\s+([^;]*);|(?:@(!?\w+)\s+)?([\w.:]+)\s*([^;]*);)"
)


def translate(text: str) -> str:
    out, at, number = [], 0, count()
    for start in re.finditer(r"\basm\s*(?:volatile\s*)?\(", text):
        end = closing(text, start.end())
        out += [text[at : start.start()], statements(text[start.end() : end - 1], next(number))]
        out.append("\n" * text.count("\n", start.start(), end))
        at = end
    return SHARED.sub(lambda m: shared(*m.groups(), next(number)), "".join([*out, text[at:]]))


def shared(dynamic: str | None, align: str | None, dtype: str, name: str, shape: str, number: int) -> str:
    if dynamic:
        return f"{dtype}* const {name} = ({dtype}*)simt::dynamic({align or 16});"
    whole = f"simt::shared<{dtype}{shape}>(&tag{number}, {align or f'alignof({dtype})'})"
    return f"static const char tag{number} = 0; {dtype} (&{name}){shape} = {whole};"


def closing(text: str, at: int) -> int:
    """Where the parenthesis ends that is open at ``at``, strings aside."""
    depth = 1
    for m in re.compile(r'"(?:\\.|[^"\\])*"|[()]').finditer(text, at):
        depth += {"(": 1, ")": -1}.get(m[0], 0)
        if not depth:
            return m.end()
    raise ValueError(f"no end of {text[at : at + 40]!r}")


def pieces(text: str, mark: str) -> list[str]:
    """The text between marks, but for those in parentheses, brackets, braces and strings."""
    found, depth = [""], 0
    for m in re.finditer(r'"(?:\\.|[^"\\])*"|.', text, re.DOTALL):
        depth += (m[0] in "([{") - (m[0] in ")]}")
        if m[0] == mark and not depth:
            found.append("")
        else:
            found[-1] += m[0]
    return [part.strip() for part in found]


def statements(asm: str, number: int) -> str:
    """C++ for what stands in the parentheses of ``asm``."""
    template, *lists = pieces(asm, ":")
    operands = [operand(x) for part in lists[:2] for x in pieces(part, ",") if x]
    ptx = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', template)).replace("\\n", "\n").replace("\\t", " ")
    ptx, out, at = re.sub(r"//[^\n]*", "", ptx).replace("%=", str(number)), ["{"], 0
    while ptx[at:].strip():
        m = STATEMENT.match(ptx, at)
        if m is None:
            raise ValueError(f"PTX that is not understood: {ptx[at:]!r}")
        brace, label, register, names, condition, instruction, args = m.groups()
        at = m.end()
        if register:
            out.append(f"{REGISTERS[register]} {names};")
        elif instruction:
            do = f"goto {args}" if instruction in ("bra", "bra.uni") else call(instruction, args, operands)
            out.append(f"if ({condition}) {do};" if condition else f"{do};")
        else:
            out.append(brace or f"{label}:;")
    return " ".join([*out, "}"])


def operand(text: str) -> tuple[str, bool]:
    """C++ for an operand of ``asm``, and whether it is a result."""
    constraint, expression = re.fullmatch(r'"([^"]*)"\s*\((.*)\)', text, re.DOTALL).groups()
    result = constraint[0] in "=+"
    return f"({expression})" if result else f"({TYPES[constraint]})({expression})", result


def call(instruction: str, args: str, operands: list[tuple[str, bool]]) -> str:
    def value(word: str) -> str:
        return re.sub(r"%(\d+)", lambda m: operands[int(m[1])][0], word)

    def argument(word: str) -> str:
        if word.startswith("["):
            return ", ".join(argument(part) for part in pieces(word[1:-1], ","))
        if word.startswith("{"):
            inside = pieces(word[1:-1], ",")
            results = all(
                m is not None and operands[int(m[1])][1] for m in (re.fullmatch(r"%(\d+)", w) for w in inside)
            )
            return f"ptx::{'out' if results else 'in'}({', '.join(map(value, inside))})"
        return "ptx::nothing()" if word == "_" else value(word)

    columns = re.search(r"(?<=\.m64)n(\d+)(?=k)", instruction)  # of wgmma
    name = re.sub(r"(?<=\.m64)n\d+|(\.|::)", lambda m: "_" * bool(m[1]), instruction)
    template, given = f"<{columns[1]}>" if columns else "", (argument(word) for word in pieces(args, ",") if word)
    return f"ptx::{name}{template}({', '.join(given)})"
