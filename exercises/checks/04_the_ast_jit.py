"""Checks of the exercises to chapter 4."""

import ast
import operator

from exercises.book import exercise
from exercises.trial import Wrong


def expression(t, depth, operators, leaves):
    """A random expression as text, with parentheses wherever it has operators."""
    if depth == 0:
        return str(t.rng.choice(leaves))
    left, right = (expression(t, depth - 1 - t.integer(0, depth - 1), operators, leaves) for _ in range(2))
    return f"({left} {t.rng.choice(operators)} {right})"


@exercise(
    "4.1",
    points=1,
    hints=(
        "ast.walk(tree) gives all nodes of a tree, one after the other. Which kind of node is a name?",
        "isinstance(node, ast.Name), and node.id is the name as text. A set keeps each once.",
        "sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)})",
    ),
    mutants={
        "each as often as it is read": (
            "{node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}",
            "[node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]",
        ),
        "attributes are names": (
            "{node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}",
            "{getattr(node, 'id', '') or node.attr for node in ast.walk(ast.parse(text))"
            " if isinstance(node, (ast.Name, ast.Attribute))}",
        ),
        "the outermost only": ("ast.walk(ast.parse(text))", "ast.iter_child_nodes(ast.parse(text, mode='eval').body)"),
    },
)
def names_read(t, names_read):
    for text in ("tt.load(x_ptr + i, mask=i < n)", "2 * 3", "exp(x - reduce_max(x)).sum"):
        t.same(names_read(text), want_names(text))
    for _ in range(8):
        text = expression(t, 4, ["+", "-", "*", "<"], ["zeta", "b", "n", "i", "4", "tt.a.c"])
        t.same(names_read(text), want_names(text))


def want_names(text):
    return sorted({n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)})


@exercise(
    "4.2",
    points=2,
    hints=(
        "Go from the leaves up: fold the left side, fold the right side, then look whether both are ast.Constant.",
        "Write a function that takes a node and returns a node: a new ast.Constant(value), or the node with its folded"
        " children put back in (node.left = ...). -5 is a UnaryOp of USub and a Constant.",
        "if isinstance(node, ast.BinOp): fold both sides; if both are ast.Constant and type(node.op) is Add, Sub or"
        " Mult, return ast.Constant(of the result). At the end, ast.unparse(the node).",
    ),
    mutants={
        "the outermost operator only": ("node.left, node.right = walk(node.left), walk(node.right)", "pass"),
        "minus is forgotten": ("isinstance(node, ast.UnaryOp) and", "False and"),
        "reorders": ("return node\n\n", "return node\n\n    text = text.replace('4 * n * 8', '32 * n')\n"),
        "a difference of the wrong sign": ("int.__sub__", "int.__rsub__"),
    },
)
def fold(t, fold):
    def walk(node):
        """The value, if it is known, and the text otherwise."""
        match node:
            case ast.Constant():
                return node
            case ast.UnaryOp():
                inner = walk(node.operand)
                return ast.Constant(-inner.value) if isinstance(inner, ast.Constant) else ast.UnaryOp(node.op, inner)
            case ast.BinOp():
                left, right = walk(node.left), walk(node.right)
                do = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}.get(type(node.op))
                if do and isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
                    return ast.Constant(do(left.value, right.value))
                return ast.BinOp(left, node.op, right)
        return node

    def want(text):
        return ast.unparse(walk(ast.parse(text, mode="eval").body))

    fixed = [
        "4 * 8 + n",
        "n + 4 * 8",
        "4 * n * 8",
        "-(2 + 3) * n",
        "n - -4",
        "(2 - 7) * (n + 1)",
        "-n + 2 * 3",
        "9 - 2 - n",
    ]
    random = [expression(t, 5, ["+", "-", "*", "/"], ["n", "i", "3", "5", "12"]) for _ in range(12)]
    for text in fixed + random:
        t.same(fold(text), want(text))


@exercise(
    "4.3",
    points=3,
    hints=(
        "A function that visits a node and returns what the node is called in the list: its name, its number, or t5.",
        "For an operator: visit the left side, visit the right side, append the line, return the name of its result."
        " a < b is no BinOp but a Compare, with .left, .ops and .comparators.",
        "visit(Name) is node.id, visit(Constant) is node.value. For the rest: left, right = visit(...), visit(...);"
        " name = f't{len(lines) + 1}'; lines.append((name, word, left, right)); return name.",
    ),
    mutants={
        "right before left": ("visit(left), visit(right)", "(visit(right), visit(left))[::-1]"),
        "a result is named before its operands": (
            'operands = visit(left), visit(right)\n        lines.append((f"t{len(lines) + 1}", ',
            'name = f"t{len(lines) + 1}"\n        operands = visit(left), visit(right)\n        lines.append((name, ',
        ),
        "what it does not know is left out": (
            'raise ValueError(f"{type(operator).__name__} is not supported")',
            "return 0",
        ),
        "comparisons are unknown": ("len(node.ops) == 1", "len(node.ops) == 0"),
    },
)
def lower(t, lower):
    words = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Lt: "lt"}

    def want(text):
        lines = []

        def visit(node):
            if isinstance(node, ast.BinOp | ast.Compare):
                right = node.right if isinstance(node, ast.BinOp) else node.comparators[0]
                a, b = visit(node.left), visit(right)
                kind = type(node.op if isinstance(node, ast.BinOp) else node.ops[0])
                lines.append((f"t{len(lines) + 1}", words[kind], a, b))
                return lines[-1][0]
            return ast.literal_eval(node) if isinstance(node, ast.Constant) else node.id

        visit(ast.parse(text, mode="eval").body)
        return lines

    for text in ["a * b + 2", "a - b - c", "a < b + 1", "(a - b) * (c - a)", "n"]:
        t.same(lower(text), want(text))
    for _ in range(10):
        text = expression(t, 5, list("+-*/<"), ["x", "y", "n", "7", "0.5"])
        t.same(lower(text), want(text))
    for text in ("a @ b", "a + b % c", "a > b"):
        try:
            found = lower(text)
        except Wrong as error:
            t.demand("ValueError" in str(error), f"lower({text!r}) is not refused with a ValueError: {error}")
        else:
            t.demand(False, f"lower({text!r}) is {found!r}: an operator that is not supported is to be refused")
