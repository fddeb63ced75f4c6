# %% [markdown]
# # Exercises to chapter 4
#
# To [The AST JIT](../chapters/04_the_ast_jit.ipynb): trees, walks, and what is known when. You write three small
# walks over Python's own trees. The operator of the real compiler is a [project](p2_three_rooms.ipynb).

# %% given
import ast

from exercises import check, hint, solution

# %% [markdown]
# Two words of Python's `ast` before you begin. `ast.parse(text, mode="eval").body` is the tree of an expression, and
# `ast.dump(tree, indent=4)` shows it:

# %%
print(ast.dump(ast.parse("4 * 8 + n", mode="eval").body, indent=4))

# %% [markdown]
# ## 4.1 What does it read?
#
# *Easy.* A compiler needs to know which names an expression reads: those that are not known must be refused. Write
# `names_read(text)`: the names in the expression, each once, in alphabetical order, as a list. A name that is called
# is read, too; the `load` of `tt.load` is not a name but an attribute.


# %% 4.1
def names_read(text):
    ### BEGIN SOLUTION
    return sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)})
    ### END SOLUTION


# %% [markdown]
# ## 4.2 Now or later
#
# *Medium.* `fold(text)` computes what can be computed while compiling, and returns the expression that is left, as
# `ast.unparse` spells it. Where *both* operands of a `+`, `-` or `*` are numbers (ints), or have become numbers, the
# result is a number; all else stays as it is, in the order it was written: `4 * 8 + n` becomes `32 + n`, while `4 * n
# * 8` stays `4 * n * 8`, since it means `(4 * n) * 8`. A minus in front of a number makes a number.


# %% 4.2
def fold(text):
    ### BEGIN SOLUTION
    operators = {ast.Add: int.__add__, ast.Sub: int.__sub__, ast.Mult: int.__mul__}

    def walk(node):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node.operand = walk(node.operand)
            return ast.Constant(-node.operand.value) if isinstance(node.operand, ast.Constant) else node
        if isinstance(node, ast.BinOp):
            node.left, node.right = walk(node.left), walk(node.right)
            operator = operators.get(type(node.op))
            if operator and isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
                return ast.Constant(operator(node.left.value, node.right.value))
        return node

    return ast.unparse(walk(ast.parse(text, mode="eval").body))
    ### END SOLUTION


# %% [markdown]
# ## 4.3 Out comes a list
#
# *Hard.* The IR is flat: a line an operation, each result has a name of its own, operands are names and numbers.
# Write `lower(text)`, which turns an expression of names, numbers, `+`, `-`, `*`, `/` and `<` into such a list of
# tuples `(result, operation, left, right)`. Operations are called `"add"`, `"sub"`, `"mul"`, `"truediv"`, `"lt"`;
# results `"t1"`, `"t2"`, … in the order of the lines; operands are names (text) or numbers. The operands of an
# operation come first, the left one before the right one, as Python itself would compute them:
#
# `lower("a * b + 2")` is `[("t1", "mul", "a", "b"), ("t2", "add", "t1", 2)]`.
#
# An operator that is not among these is refused with a `ValueError`.


# %% 4.3
def lower(text):
    ### BEGIN SOLUTION
    words = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Lt: "lt"}
    lines = []

    def visit(node):
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, operator, right = node.left, node.ops[0], node.comparators[0]
        elif isinstance(node, ast.BinOp):
            left, operator, right = node.left, node.op, node.right
        else:
            raise ValueError(f"{ast.unparse(node)} is not supported")
        if type(operator) not in words:
            raise ValueError(f"{type(operator).__name__} is not supported")
        operands = visit(left), visit(right)
        lines.append((f"t{len(lines) + 1}", words[type(operator)], *operands))
        return lines[-1][0]

    visit(ast.parse(text, mode="eval").body)
    return lines
    ### END SOLUTION
