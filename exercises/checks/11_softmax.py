"""Checks of the exercises to chapter 11."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@exercise(
    "11.1",
    points=1,
    hints=(
        "log(exp(v) / sum) is v - log(sum), which needs no softmax at all.",
        "Subtract the maximum first, so that no exponential overflows; it is then in both terms, and cancels.",
        "With v shifted by its maximum: v - tt.log(tt.sum(tt.exp(v), 0)). The padding must be -infinity.",
    ),
    mutants={
        "the logarithm of softmax": ("v - lse", "tt.log(tt.exp(v) / tt.sum(tt.exp(v), 0))"),
        "no maximum": ("v = v - tt.max(v, 0)", "v = v + 0.0"),
        "padding counts": (', other=-float("inf")', ""),
    },
)
def log_softmax(t, log_softmax):
    for cols, block in ((t.integer(17, 30), 32), (t.integer(65, 120), 128), (64, 64)):
        rows = t.integer(4, 9)
        x, out = t.floats(rows, cols) * np.float32(40) - np.float32(100), t.out(rows, cols)
        x[0, :2] = 0, 200
        t.launch(log_softmax, rows, x, out, cols, BLOCK=block)
        exact = x.astype(np.float64) - x.max(1, keepdims=True)
        t.close(out, exact - np.log(np.exp(exact).sum(1, keepdims=True)), rtol=1e-5, atol=1e-4)
        read = t.count(log_softmax, rows, x, out, cols, BLOCK=block).bytes_loaded
        t.demand(read == x.nbytes, f"{read} bytes are loaded, and not the {x.nbytes} that x has")


@exercise(
    "11.2",
    points=2,
    hints=(
        "A row's number says how many of its elements it sees: row 0 sees one.",
        "The mask of the load is j <= row, with -infinity elsewhere. The mask of the store is another one.",
        "exp(-inf - top) is 0, so that what is not seen comes out as 0 by itself; store it, with mask=j < n.",
    ),
    mutants={
        "a row does not see its own place": ("mask=j <= row", "mask=j < row"),
        "the rest is not written": ("mask=j < n", "mask=j <= row"),
        "masked after loading": (
            'mask=j <= row, other=-float("inf"))',
            'mask=j < n)\n    v = tt.where(j <= row, v, -float("inf"))',
        ),
    },
)
def causal_softmax(t, causal_softmax):
    for n, block in ((t.integer(5, 7), 8), (t.integer(17, 30), 32), (16, 16)):
        x, out = t.floats(n, n) * np.float32(4), t.out(n, n)
        t.launch(causal_softmax, n, x, out, n, BLOCK=block)
        t.close(out, softmax(np.where(np.tri(n, dtype=bool), x, -np.inf)))
        read, least = t.count(causal_softmax, n, x, out, n, BLOCK=block).bytes_loaded, 2 * n * (n + 1)
        t.demand(read == least, f"{read} bytes are loaded, and not the {least} of what may be seen")


@exercise(
    "11.3",
    points=3,
    hints=(
        "-inf - -inf is NaN. In which two places of the first loop can that happen, and what should come out there?",
        "Subtract not the maximum but a base, which is the maximum unless that is -infinity, and then any number.",
        "base = tt.where(higher == -float('inf'), 0.0, higher); and a sum of 0 must not be divided by.",
    ),
    mutants={
        "as in the chapter": ('base = tt.where(higher == -float("inf"), 0.0, higher)', "base = higher"),
        "an empty row is divided by 0": ("tt.where(total == 0.0, 1.0, total)", "total"),
        "the sum is not scaled": ("total * tt.exp(top - base)", "total"),
        "the padding of a row counts": (', other=-float("inf"))', ")"),
    },
)
def softmax_masked(t, softmax_masked):
    block = 16
    for cols in t.sizes(block):
        rows = 5
        x, out = t.floats(rows, cols) * np.float32(3) - np.float32(20), t.out(rows, cols)
        x[1, : 3 * cols // 4] = -np.inf
        x[2] = -np.inf
        x[3, -(cols // 2) :] = -np.inf
        t.launch(softmax_masked, rows, x, out, cols, BLOCK=block)
        with np.errstate(invalid="ignore"):
            want = np.where(np.isinf(x).all(1, keepdims=True), 0, softmax(x))
        t.close(out, want)


@exercise(
    "11.4",
    points=3,
    hints=(
        "The first kernel is the first loop of online softmax, over a part of a row. Where does the part end?",
        "A pair is scaled to a common maximum, as a tile was: its sum, times exp(its maximum - that of all).",
        "total = tt.sum(tt.load(totals + row * SPLIT + s) * tt.exp(each - top), 0), with each and top from tops.",
    ),
    mutants={
        "sums are added as they are": (" * tt.exp(each - top), 0)", ", 0)"),
        "a part ends with the row": ("tt.minimum(part * share + share, cols)", "cols"),
        "the last part goes too far": ("tt.minimum(part * share + share, cols)", "part * share + share"),
        "the maximum of one part": ("top = tt.max(each, 0)", "top = tt.load(tops + row * SPLIT)"),
    },
)
def row_split(t, row_parts, row_finish):
    block = 16
    for cols, split in ((t.size(block, 7), 4), (t.size(block, 3), 2), (t.integer(3, 7), 8)):
        rows, share = 3, tt.cdiv(cols, split)
        x = t.floats(rows, cols) * np.float32(5)
        x[1, -share:] += np.float32(200)
        tops, totals, out = t.out(rows, split), t.out(rows, split), t.out(rows, cols)
        t.launch(row_parts, (rows, split), x, tops, totals, cols, share, SPLIT=split, BLOCK=block)
        t.launch(
            row_finish, (rows, tt.cdiv(cols, block)), x, tops.array, totals.array, out, cols, SPLIT=split, BLOCK=block
        )
        t.close(out, softmax(x))
        whole = np.full((rows, share * split), -np.inf)
        whole[:, :cols] = x
        t.close(tops, whole.reshape(rows, split, share).max(2))
