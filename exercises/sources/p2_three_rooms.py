# %% [markdown]
# # Project II: three rooms of your own
#
# For part II. You write a part of the compiler. The check puts your function into the package as it stands after the
# stage that has it, compares what that compiles with what ours does, and then runs the suite of the stage on it, the
# one that tinyton itself must pass. Your function is text that goes into a file of the package: it may use the names
# that are listed, its own, and Python's, and it imports nothing.

# %% given
import ast

import tinyton
from exercises import check, hint, solution

# %% [markdown]
# ## P2.1 The visitor's binary operator
#
# `frontend/expressions.py` of stage 1, from chapter 4. The walk has come to a `BinOp`: the handler visits both sides,
# and then it is decided what becomes of `+`. Write both functions.
#
# `operate(t, kind, *args)`: `kind` is the node of the operator (an `ast.Add()`, say), `args` the one or two things it
# is applied to. `OPERATORS` is a dictionary: type of a node → the name of an op, and a Python function that does the
# same on numbers.
#
# - An operator that is not in it is refused: `t.refuse(kind)` raises the error.
# - If none of the `args` is a `Value`, all is known now: the result is what the Python function gives.
# - Otherwise it is for later. `OPS[name].rule(t.builder, *args)` checks the types, writes a line of IR, and returns
#   its `Value`.
#
# `bin_op(t, node)`: `t.visit(node.left)` gives what the left side has become. Left comes before right.


# %%
tinyton.show("frontend.expressions.compare", stage=1)  # a handler that is not missing


# %% given
def visits(*kinds):
    """In the package it registers a handler; here it is for looks."""
    return lambda function: function


# %% P2.1
def operate(t, kind, *args):
    """An operator: on Python numbers now, on values as an op."""
    ### BEGIN SOLUTION
    if type(kind) not in OPERATORS:
        t.refuse(kind)
    name, function = OPERATORS[type(kind)]
    if not any(isinstance(x, Value) for x in args):
        return function(*args)
    return OPS[name].rule(t.builder, *args)
    ### END SOLUTION


@visits(ast.BinOp)
def bin_op(t, node):
    ### BEGIN SOLUTION
    left = t.visit(node.left)
    right = t.visit(node.right)
    return operate(t, node.op, left, right)
    ### END SOLUTION


# %% [markdown]
# ## P2.2 The cache's key
#
# `jit.py` of stage 2, from chapter 5. Two launches may share a compiled kernel exactly if their keys are equal. Write
# `launch_key`, which returns one: something hashable.
#
# - `device` is text that says which device and compiler these are.
# - `args`: parameter → what is known of its argument. `args["x"].kind` is `"pointer"`, `"int"` or `"float"`; `.dtype`
#   its element type; `.divisible` says for a pointer whether its address is divisible by 16, and for an int whether
#   its value is. Vector accesses depend on the first of these. A new length must not be a new kernel, so the second
#   has no place in the key.
# - `constants`: parameter → value, for those that are `constexpr`.
# - `outside`: name → value, for the globals that the kernel reads.
#
# Python says that `1`, `1.0` and `True` are equal, and a kernel in which `1` is baked in is another one than that
# with `1.0`. `exact(value)` gives something that tells them apart. What is equal in another order is equal: `N`
# before `M` or after it.


# %% P2.2
def launch_key(device, args, constants, outside):
    ### BEGIN SOLUTION
    types = tuple((n, a.kind, a.dtype, a.kind == "pointer" and a.divisible) for n, a in sorted(args.items()))
    baked = tuple((n, exact(value)) for n, value in sorted(constants.items()))
    globals_read = tuple((n, exact(value)) for n, value in sorted(outside.items()))
    return device, types, baked, globals_read
    ### END SOLUTION


# %% [markdown]
# ## P2.3 A layout's bases
#
# `layout.py` of stage 3, from chapter 6. Write `blocked`, which deals out a tile. All sizes are powers of two. Think
# of the bits of each coordinate as a stack, the lowest on top: dealing a bit out means taking it from its dimension's
# stack, and its move is `2**bit` along that dimension and 0 along the others, a tuple. It goes like this:
#
# 1. `vector` neighbours along the dimension `order[0]`: so many bits go to the register (fewer, if the tile ends).
# 2. The lanes of a warp: the lowest five bits of the thread, or all of them, if there are fewer than 32 threads. They
#    are taken from `order[0]` until it is used up, then from `order[1]`, and so on.
# 3. The thread's other bits, the warps, from the *other* end: `order[-1]` first.
# 4. Thread bits for which nothing is left have a move of zeros: those threads hold copies.
# 5. What is left of the tile goes to the register, along `order[0]` first.
#
# `order` is a tuple of dimensions, or None, which means the last one first. `log2(n)` is there, and so is
# `Layout(shape, register_moves, thread_moves)`, which takes tuples.

# %%
print(tinyton.layout.blocked((16, 32), threads=64, vector=4))
print(tinyton.layout.blocked((16, 32), threads=64, vector=4, order=(0, 1)))


# %% P2.3
def blocked(shape, threads, vector=1, order=None):
    ### BEGIN SOLUTION
    order = order or tuple(reversed(range(len(shape))))
    done = [0] * len(shape)

    def take(count, dims):
        moves = []
        for d in dims:
            while len(moves) < count and done[d] < log2(shape[d]):
                moves.append(tuple(2 ** done[d] if e == d else 0 for e in range(len(shape))))
                done[d] += 1
        return moves

    bits = log2(threads)
    register = take(log2(vector), order[:1])
    lanes = take(min(5, bits), order)
    thread = lanes + take(bits - len(lanes), order[::-1])
    thread += [(0,) * len(shape)] * (bits - len(thread))
    register += take(sum(log2(n) for n in shape), order)
    return Layout(tuple(shape), tuple(register), tuple(thread))
    ### END SOLUTION
