"""What a kernel can say, and how it is told what it cannot.

Every class of Python's statements and expressions is supported, with a kernel that proves it, or refused with the caret
under it and a hint: nothing is dropped silently.
"""

import ast
import re
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import tinyton as tt
from conftest import kernel


def body(*lines, head="@tt.jit\ndef k(out, n, T: tt.constexpr = (3, 5)):"):
    return "\n".join([head, *("    " + line for line in lines)])


@dataclass
class Runs:
    """Lines of a kernel that leave ``want`` in out[0], given n = 4."""

    lines: list[str]
    want: float


@dataclass
class Refused:
    """Lines of a kernel, the text that the caret is under, and words of the message."""

    lines: list[str]
    under: str
    message: str


@dataclass
class Unwritable:
    """Python itself allows it nowhere in a plain def."""

    text: str


STATEMENTS = {
    "Assign": Runs(["x = n + 1", "y = z = x", "tt.store(out, y + z)"], 10),
    "AugAssign": Runs(["x = n", "x += 1", "x *= 2", "tt.store(out, x)"], 10),
    "For": Runs(["x = 0", "for i in range(n):", "    x += i", "tt.store(out, x)"], 6),
    "If": Runs(["if n > 3:", "    tt.store(out, 1)", "else:", "    tt.store(out, 2)"], 1),
    "Expr": Runs(['"""A docstring."""', "tt.store(out, 3)"], 3),
    "Pass": Runs(["if n > 5:", "    pass", "tt.store(out, 4)"], 4),
    "Return": Runs(["tt.store(out, 5)", "if n == 4:", "    return", "tt.store(out, 6)"], 5),
    "While": Runs(["x = 1", "while x < 20 * n:", "    x *= 2", "tt.store(out, x)"], 128),
    "Break": Runs(
        ["x = 0", "for i in range(n):", "    if i == 2:", "        break", "    x += i", "tt.store(out, x)"], 1
    ),
    "Continue": Runs(
        ["x = 0", "for i in range(n):", "    if i == 2:", "        continue", "    x += i", "tt.store(out, x)"], 4
    ),
    "FunctionDef": Refused(["def inner(x):", "    return x"], "def inner(x):", "define it at module level"),
    "ClassDef": Refused(["class A:", "    x = 1"], "class A:", "define it at module level"),
    "Delete": Refused(["x = 1", "del x"], "del x", "just stop using the name"),
    "AnnAssign": Runs(["x: int = n", "y: tt.constexpr = 4", "tt.store(out, x + tt.zeros(y).shape[0])"], 8),
    "With": Refused(["with n:", "    pass"], "with n:", "write its body alone"),
    "Match": Refused(["match n:", "    case 1:", "        pass"], "match n:", "if / elif"),
    "Raise": Refused(["raise ValueError"], "raise ValueError", "tt.static_assert"),
    "Try": Refused(["try:", "    x = 1", "finally:", "    pass"], "try:", "check before the launch"),
    "TryStar": Refused(["try:", "    x = 1", "except* OSError:", "    pass"], "try:", "check before the launch"),
    "Assert": Refused(["assert n > 0"], "assert n > 0", "tt.static_assert"),
    "Import": Refused(["import math"], "import math", "at the top of the module"),
    "ImportFrom": Refused(["from math import pi"], "from math import pi", "at the top of the module"),
    "Global": Refused(["global g", "g = 1"], "global g", "reads globals without declaring them"),
    "Nonlocal": Refused(["nonlocal g", "g = 1"], "nonlocal g", "reads outer names without declaring them"),
    "AsyncFunctionDef": Refused(["async def f():", "    pass"], "async def f():", "define it at module level"),
    "AsyncFor": Unwritable("async for i in n: pass"),
    "AsyncWith": Unwritable("async with n: pass"),
}
EXPRESSIONS = {
    "BoolOp": Runs(["if n > 3 and n < 9 or n == 0:", "    tt.store(out, 1)"], 1),
    "BinOp": Runs(["tt.store(out, n * 2 + 1)"], 9),
    "UnaryOp": Runs(["tt.store(out, -n)"], -4),
    "IfExp": Runs(["tt.store(out, 1 if n > 3 else 2)"], 1),
    "Compare": Runs(["tt.store(out, 9 > n + 1 > n <= 4 != T[0])"], 1),
    "Call": Runs(["tt.store(out, tt.maximum(n, 7))"], 7),
    "JoinedStr": Runs(["tt.static_assert(f'{T[0]} {T}' == '3 (3, 5)')", "tt.store(out, 8)"], 8),
    "FormattedValue": Runs(["tt.static_assert(f'{T[1]}' == '5', f'{n.dtype}')", "tt.store(out, 9)"], 9),
    "Constant": Runs(["tt.store(out, 2.5)"], 2.5),
    "Attribute": Runs(["tt.store(out, n.to(tt.float32))"], 4),
    "Subscript": Runs(["x = tt.arange(0, 4)[:, None]", "tt.store(out, T[1] + x.shape[0] + x.shape[1])"], 10),
    "Name": Runs(["x = n", "tt.store(out, x)"], 4),
    "List": Runs(["x = [1, 2]", "tt.store(out, len(x))"], 2),
    "Tuple": Runs(["x = (1, 2)", "tt.store(out, x[1])"], 2),
    "Slice": Runs(["tt.store(out, T[1:][0] + len(T[:-1]))"], 6),
    "NamedExpr": Refused(["tt.store(out, (x := n))"], "x := n", "assign on a line of its own"),
    "Lambda": Refused(["f = lambda x: x"], "lambda x: x", "write the expression where it is used"),
    "Dict": Refused(["d = {1: 2}"], "{1: 2}", "a tuple"),
    "Set": Refused(["s = {1, 2}"], "{1, 2}", "a tuple"),
    "ListComp": Refused(["s = [i for i in T]"], "[i for i in T]", "tt.static_range"),
    "SetComp": Refused(["s = {i for i in T}"], "{i for i in T}", "tt.static_range"),
    "DictComp": Refused(["s = {i: 1 for i in T}"], "{i: 1 for i in T}", "tt.static_range"),
    "GeneratorExp": Refused(["s = max(i for i in T)"], "(i for i in T)", "tt.static_range"),
    "Yield": Refused(["yield n"], "yield n", "through tt.store"),
    "YieldFrom": Refused(["yield from T"], "yield from T", "through tt.store"),
    "Starred": Refused(["x = (*T, 1)"], "*T", "one by one"),
    "Await": Unwritable("await n"),
}
if sys.version_info >= (3, 12):
    STATEMENTS["TypeAlias"] = Refused(["type A = int"], "type A = int", "define it at module level")


@pytest.mark.parametrize(("base", "table"), [(ast.stmt, STATEMENTS), (ast.expr, EXPRESSIONS)])
def test_every_class_of_syntax_is_listed(base, table):
    classes = {c.__name__ for c in base.__subclasses__()}
    assert classes - set(table) <= {"TemplateStr", "Interpolation"}, "new in this Python: support it or refuse it"


def cases(kind):
    tables = [(f"{name}", case) for table in (STATEMENTS, EXPRESSIONS) for name, case in table.items()]
    return [pytest.param(case, id=name) for name, case in tables if isinstance(case, kind)]


def underlined(error):
    """The kernel's line of code in a message, and the part of it that the caret is under."""
    head, code, carets, *_ = str(error).split("\n")
    start, end = carets.index("^"), len(carets)
    assert re.fullmatch(r" *\^+", carets)
    return head, code.strip(), code[start:end]


@pytest.mark.parametrize("case", cases(Runs))
def test_supported(executor, case):
    out = np.full(1, np.nan, np.float32)
    kernel(body(*case.lines))[1](out, 4)
    assert out[0] == case.want


@pytest.mark.parametrize("case", cases(Refused))
def test_refused_with_a_caret_and_a_hint(interpreter, case):
    text = body(*case.lines)
    if case.lines[0].startswith("nonlocal"):
        inner = "\n".join("    " + line for line in text.split("\n"))
        text = f"def outer():\n    g = 0\n{inner}\n    return k\nk = outer()"
    with pytest.raises(tt.KernelSyntaxError) as caught:
        kernel(text)[1](np.zeros(1), 4)
    head, code, under = underlined(caught.value)
    assert under == case.under
    number = next(k for k, line in enumerate(text.split("\n"), 1) if line.strip() == code)
    assert head == f"kernel k, line {number}:"
    assert case.message in str(caught.value)


@pytest.mark.parametrize("case", cases(Unwritable))
def test_unwritable_in_a_def(case):
    with pytest.raises(SyntaxError):
        compile(body(case.text), "<text>", "exec")
    asynchronous = body(case.text).replace("def k", "async def k")
    with pytest.raises(tt.KernelSyntaxError, match="k is an async function; a kernel is a plain def"):
        kernel(asynchronous)


OPERATORS = {
    "Pow": ("n ** n", "x * x"),
    "MatMult": ("n @ n", "tt.dot"),
    "Is": ("n is n", "Is on a run-time value"),
    "IsNot": ("n is not n", "IsNot on a run-time value"),
    "In": ("n in T", "In on a run-time value"),
    "NotIn": ("n not in T", "NotIn on a run-time value"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_refused_operators(interpreter, name):
    expression, hint = OPERATORS[name]
    with pytest.raises(tt.KernelSyntaxError) as caught:
        kernel(body(f"tt.store(out, {expression})"))[1](np.zeros(1), 4)
    assert underlined(caught.value)[2] == expression
    assert hint in str(caught.value)


def test_operators_are_all_known():
    """Those that run are in test_ops; the others are refused above, or are for compile-time values."""
    run = "Add Sub Mult Div FloorDiv Mod BitAnd BitOr BitXor LShift RShift".split()
    compare = "Lt LtE Gt GtE Eq NotEq".split()
    listed = {*run, *compare, *OPERATORS, "And", "Or", "USub", "UAdd", "Invert", "Not"}
    bases = (ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
    assert {c.__name__ for base in bases for c in base.__subclasses__()} == listed


# -- more that is refused, each with the exact text under the caret ----------------------------------------------------

REFUSED = {
    "too few to unpack": (["a, b = (1,)"], "a, b", "a tuple of 1 cannot be unpacked into 2 names"),
    "a tile unpacked": (["a, b = tt.arange(0, 2)"], "a, b", "i32[2] is not a tuple"),
    "starred target": (["a, *b = T"], "*b", "one by one"),
    "target in a tuple": (["a, T[0] = T"], "T[0]", "plain names"),
    "tuples of values compared": (["x = (n, 1) == (n, 1)"], "(n, 1) == (n, 1)", "expected a tile or a number"),
    "item target": (["x = tt.arange(0, 4)", "x[0] = 1"], "x[0]", "made by tt.where"),
    "attribute target": (["out.x = 1"], "out.x", "plain names"),
    "augmented item": (["x = tt.arange(0, 4)", "x[0] += 1"], "x[0]", "made by tt.where"),
    "an annotation alone": (["x: int"], "x: int", "gives no value"),
    "a constexpr at run time": (["x: tt.constexpr = n + 1"], "n + 1", "must be known when the kernel is compiled"),
    "a hint at run time": (
        ["for i in tt.range(3, num_stages=n):", "    pass"],
        "tt.range(3, num_stages=n)",
        "tt.constexpr",
    ),
    "range outside for": (["x = tt.range(3)"], "tt.range(3)", "for k in tt.range(n)"),
    "for else": (["for i in range(3):", "    pass", "else:", "    pass"], "for i in range(3):", "for ... else"),
    "for over a number": (["for i in n:", "    pass"], "n", "range(...), tt.static_range(...) or a compile-time tuple"),
    "for with two names": (["for i, j in range(3):", "    pass"], "i, j", "one name"),
    "range keyword": (["for i in range(stop=3):", "    pass"], "range(stop=3)", "one to three numbers"),
    "step 0": (["for i in range(0, 3, 0):", "    pass"], "range(0, 3, 0)", "cannot be 0"),
    "return a value": (["return n"], "return n", "through tt.store"),
    "while else": (["while n < 3:", "    pass", "else:", "    pass"], "while n < 3:", "while ... else"),
    "an endless loop": (["while True:", "    tt.store(out, 1)"], "while True:", "this loop never ends"),
    "no effect": (["n + 1"], "n + 1", "no effect"),
    "a call without a value": (["x = tt.store(out, 1)"], "x = tt.store(out, 1)", "gives no value"),
    "star call": (["tt.store(*T)"], "tt.store(*T)", "name the arguments"),
    "bytes": (["x = b'a'"], "b'a'", "not a value"),
    "ellipsis": (["x = tt.arange(0, 4)[...]"], "...", ": and None only"),
    "unknown name": (["tt.store(out, nope)"], "nope", "nope is not defined"),
    "unknown function": (["tt.store(out, tt.expp(1.0))"], "tt.expp", "did you mean exp"),
    "unknown attribute": (["tt.store(out, n.nope)"], "n.nope", "a tile has .dtype, .shape and"),
    "plain function": (["tt.store(out, breakpoint())"], "breakpoint", "breakpoint"),
    "wrong argument": (["x = tt.arange(0, n)"], "n", "must be known when the kernel is compiled"),
    "unknown keyword": (["x = tt.arange(0, 4, step=2)"], "tt.arange(0, 4, step=2)", "step"),
    "missing argument": (["tt.store(out)"], "tt.store(out)", "value"),
    "tile condition": (["if tt.arange(0, 4) > 2:", "    pass"], "tt.arange(0, 4) > 2", "tt.where"),
    "and of masks": (["i = tt.arange(0, 4)", "m = (i > 1) and (i < 3)"], "i > 1", "&"),
    "not of a mask": (["m = not (tt.arange(0, 4) > 1)"], "not (tt.arange(0, 4) > 1)", "~mask"),
    "pointer condition": (["if out:", "    pass"], "out", "a pointer is not a condition"),
    "pointer product": (["x = out * 2"], "out * 2", "not defined on a pointer"),
    "float offset": (["tt.store(out + 0.5, 1)"], "out + 0.5", "an offset is an integer"),
    "index of a tile": (["x = tt.arange(0, 4)[0]"], "0", ": and None only"),
    "slice of a tile": (["x = tt.arange(0, 4)[1:2]"], "1:2", ": and None only"),
    "too many colons": (["x = tt.arange(0, 4)[:, :]"], "tt.arange(0, 4)[:, :]", "too many :"),
    "shapes": (
        ["x = tt.arange(0, 4) + tt.arange(0, 8)"],
        "tt.arange(0, 4) + tt.arange(0, 8)",
        "dimension 0 is 4 on one side, 8 on the other",
    ),
    "power of two": (["x = tt.zeros((4, 10))"], "(4, 10)", "dimension 1 of the tile is 10"),
    "next power": (["x = tt.zeros(10)"], "10", "next_power_of_2(10) = 16"),
    "empty arange": (["x = tt.arange(4, 4)"], "4", "is empty"),
    "int mask": (["tt.store(out + tt.arange(0, 4), 1, mask=n)"], "n", "a mask is bool"),
    "not a pointer": (["x = tt.load(n)"], "n", "expected a pointer"),
    "tile to one address": (["tt.store(out, tt.arange(0, 4))"], "out", "cannot be stored to one address"),
    "grid axis": (["x = tt.program_id(3)"], "3", "there is no axis 3"),
    "run-time assert": (["tt.static_assert(n > 3)"], "n > 3", "compile-time condition"),
    "failed assert": (["tt.static_assert(T[0] == 4, 'T is ' + str(T))"], "T[0] == 4", "T is (3, 5)"),
    "division by zero": (["x = 1 // 0"], "1 // 0", "ZeroDivisionError"),
    "shift of a float": (["x = n.to(tt.float32) << 1"], "n.to(tt.float32) << 1", "a shift takes integers"),
    "no dtype": (["x = n.to(float)"], "float", "such as tt.float32"),
    "call of a dtype": (["x = tt.float32(n)"], "tt.float32(n)", "write x.to(tt.float32)"),
    "int of a value": (["x = int(n)"], "int(n)", "write .to(...)"),
    "literal": (["x = n.to(tt.int8) + 300"], "n.to(tt.int8) + 300", "300 is out of range for int8"),
    "static_range outside for": (["x = tt.static_range(3)"], "tt.static_range(3)", "for k in tt.static_range(n)"),
    "run-time static_range": (["for i in tt.static_range(n):", "    pass"], "tt.static_range(n)", "tt.constexpr"),
    "f-string of a value": (["x = f'{n}'"], "f'{n}'", "compile-time values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_caret_is_under(interpreter, name):
    lines, under, message = REFUSED[name]
    with pytest.raises(tt.TinytonError) as caught:
        kernel(body(*lines))[1](np.zeros(4), 4)
    assert underlined(caught.value)[2] == under
    assert message in str(caught.value)


# -- the form of a message ---------------------------------------------------------------------------------------------


def message_of(text, **names):
    with pytest.raises(tt.TinytonError) as caught:
        kernel(text, **names)[1](np.zeros(4), 4)
    return caught.value


def test_a_message_in_full(interpreter):
    error = message_of("""
# a comment


@tt.jit
def k(out, n):
    tt.store(out,
             tt.arange(0, 4)
             + nope)
""")
    assert str(error).split("\n") == [
        "kernel k, line 8:",
        "    + nope)",
        "      ^^^^",
        "nope is not defined: not a parameter, not assigned above, not a global",
    ]
    assert (error.loc.kernel, error.loc.line, error.loc.column, error.loc.end) == ("k", 8, 15, 19)


def test_a_caret_after_wide_characters(interpreter):
    """A wide character takes two columns of a terminal."""
    error = message_of(body("tt.static_assert(True, '漢字 é'); tt.store(out, nope)"))
    _, code, carets, _ = str(error).split("\n")
    assert code.index("nope") == carets.index("^") - 2
    assert carets.count("^") == 4


def test_a_caret_under_wide_characters(interpreter):
    error = message_of(body("tt.store(out, 漢字)"))
    _, code, carets, _ = str(error).split("\n")
    assert (code.index("漢"), carets.count("^")) == (carets.index("^"), 4)


def test_a_span_of_many_lines_is_marked_on_its_first(interpreter):
    error = message_of(body("x = tt.arange(0, 4) + (", "    tt.arange(0, 8)", ")", "tt.store(out, x)"))
    assert underlined(error)[1:] == ("x = tt.arange(0, 4) + (", "tt.arange(0, 4) + (")


def test_tabs(interpreter):
    error = message_of("@tt.jit\ndef k(out, n):\n\tif n > 3:\n\t\ttt.store(out, nope)")
    assert underlined(error) == ("kernel k, line 4:", "tt.store(out, nope)", "nope")


def test_a_message_holds_nothing_of_the_compiler(interpreter):
    error = message_of(body("tt.store(out, nope)"))
    for text in (str(error), "".join(error._render_traceback_())):
        assert not re.search(r"\.py|File |Traceback|site-packages|frontend|tracer", text)
    assert error.__cause__ is None and error.__suppress_context__


def test_errors_are_pickled_whole(interpreter):
    import pickle

    error = message_of(body("tt.store(out, nope)"))
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.loc) == (type(error), str(error), error.loc)


def test_a_kernel_that_failed_can_be_launched_again(interpreter):
    k = kernel(body("tt.static_assert(T == 1)", "tt.store(out, T)"))
    for _ in range(2):
        with pytest.raises(tt.KernelValueError):
            k[1](np.zeros(1), 4, 2)
    out = np.zeros(1)
    k[1](out, 4, 1)
    assert out[0] == 1


def test_hints_of_a_range_change_nothing(executor):
    lines = [
        "x = 0",
        "for i in tt.range(1, n, 2, num_stages=3, warp_specialize=True, disable_licm=False):",
        "    x += i",
    ]
    lines += ["for i in tt.static_range(start=1, stop=tt.constexpr(5), step=2):", "    x += i * 10"]
    out = np.zeros(1)
    kernel(body(*lines, "tt.store(out, x)"))[1](out, 6)
    assert out[0] == 1 + 3 + 5 + 10 + 30


def test_static_print_says_each_line_once(interpreter, capsys):
    lines = [
        "x = 0",
        "for i in range(n):",
        "    x += i.to(tt.float32)",
        "    tt.static_print('x:', x, (T, i), sep='_')",
    ]
    k = kernel(body(*lines, "tt.static_print(T[0], end='|')", "tt.store(out, nope)"))
    with pytest.raises(tt.KernelSyntaxError):
        k[1](np.zeros(1), 4)
    assert capsys.readouterr().out == "x:_f32_a tuple of int 3, int 5, i32\n3|"
