# %% [markdown]
# # Project II: three rooms of your own
#
# For part II. You write a part of the compiler. The check puts your function into the package as it stands after the
# stage that has it, compares what that compiles with what ours does, and then runs the suite of the stage on it, the
# one that tinyton itself must pass. Your function is text that goes into a file of the package: it may use the names
# that are listed, its own, and Python's plain ones (`len`, `zip`, `isinstance`, …), and it imports nothing.

# %% given
import ast

import tinyton
from exercises import check, hint, solution

# %% [markdown]
# ## P2.1 The visitor's operators
#
# `frontend/expressions.py` of stage 1, from chapter 4. The chapter shows `operate(t, kind, *args)`, which decides what
# becomes of an operator once its operands are there: a number now, or an op for later. It is called by handlers, one
# for each kind of node. Write two of them.
#
# `bin_op(t, node)`, for `node.left`, `node.op` and `node.right`: `t.visit(node.left)` gives what the left side has
# become. Left comes before right, as in Python.
#
# `compare(t, node)`: stage 1 refuses `0 <= i < n`, and yours will not. `node.left` is the first operand,
# `node.comparators` is the list of the others, and `node.ops` that of the operators between them, one or more.
#
# - `a < b <= c` is `a < b` and `b <= c`. Operands are visited from left to right, each of them *once*: what `b` takes
#   must not be computed twice.
# - There is no "and" among the ops of stage 1. But `OPS["where"].rule(t.builder, first, second, False)` is `second`
#   where `first` holds, and False elsewhere. `first` is what all comparisons so far have come to, `second` the next.
# - If `first` is no `Value`, it is known now, and no op is needed: Python's `first and second` is what is left.


# %%
tinyton.show("frontend.expressions.unary", stage=1)  # a handler that is not missing
tinyton.show("frontend.expressions.compare", stage=1)  # and what is there now


# %% given
def visits(*kinds):
    """In the package it registers a handler; here it is for looks."""
    return lambda function: function


# %% P2.1
@visits(ast.BinOp)
def bin_op(t, node):
    ### BEGIN SOLUTION
    left = t.visit(node.left)
    right = t.visit(node.right)
    return operate(t, node.op, left, right)
    ### END SOLUTION


@visits(ast.Compare)
def compare(t, node):
    ### BEGIN SOLUTION
    left, result = t.visit(node.left), True
    for kind, other in zip(node.ops, node.comparators, strict=True):
        right = t.visit(other)
        found = operate(t, kind, left, right)
        later = isinstance(result, Value)
        result = OPS["where"].rule(t.builder, result, found, False) if later else result and found
        left = right
    return result
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
