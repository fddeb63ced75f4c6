"""Checks of the exercises to chapter 6."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "6.1",
    points=1,
    hints=(
        "Element (row, j) of out is element (row - 1, j - 1) of x, if there is one.",
        "There is one if 0 < row <= rows and 0 < j <= columns. other= says what a load gives where its mask is off.",
        "Load from x + (row - 1) * columns + j - 1 with that mask, other=value. A row of out has columns + 2 elements.",
    ),
    mutants={
        "out is as wide as x": ("row * (columns + 2)", "row * columns"),
        "around it are zeros": (", other=value", ""),
        "the last column is lost": ("(j <= columns)", "(j < columns)"),
        "the tile is as wide as out": ("mask=j < columns + 2", "mask=j < SIZE_P"),
    },
)
def frame(t, frame):
    for columns, size in ((t.integer(5, 13), 16), (30, 32), (t.integer(33, 60), 64)):
        rows, value = t.integer(2, 6), t.number()
        x, out = t.floats(rows, columns), t.out(rows + 2, columns + 2)
        x[0, 1] = 0  # is no frame
        t.launch(frame, rows + 2, x, out, rows, columns, value, SIZE_P=size)
        t.equal(out, np.pad(x, 1, constant_values=np.float32(value)))


@exercise(
    "6.2",
    points=2,
    hints=(
        "An element is the sum of the moves of the bits that are 1. They are powers of two: no two touch one bit.",
        "So a bit of the thread's number is 1 exactly if its move's bit is set in the element's coordinate.",
        "For bit k with move m: it counts 1 << k if any of the m[d] & element[d] is not 0.",
    ),
    mutants={
        "bits from the highest": ("enumerate(bits)", "enumerate(reversed(bits))"),
        "the first dimension only": ("zip(move, element, strict=True)", "[(move[0], element[0])]"),
        "thread and register are swapped": (
            "return number(thread_bits), number(register_bits)",
            "return number(register_bits), number(thread_bits)",
        ),
    },
)
def holder(t, holder):
    for shape, threads, vector, order in (
        ((4, 8), 8, 4, None),
        ((16, 16), 32, 2, (0, 1)),
        ((64,), 128, 1, None),
        ((8, 4, 8), 32, 4, (1, 0, 2)),
        ((32, 16), 64, 4, None),
    ):
        layout = tt.layout.blocked(shape, threads, vector, order)
        owner = {}
        for thread in reversed(range(layout.threads)):
            for register in range(layout.registers):
                owner[layout.at(thread, register)] = thread, register
        for element in t.rng.permutation(list(np.ndindex(shape)))[:12].tolist():
            t.same(holder(layout.reg, layout.thread, tuple(element)), owner[tuple(element)])


@exercise(
    "6.3",
    points=3,
    hints=(
        "row = (...)[:, None] and column = (...)[None, :] make tiles of two dimensions of what is combined from them.",
        "Element (row, column) is at row * N + column of src, at column * M + row of dst. Both edges need the mask.",
        "A tile that is one row stores down a column, a sector for each element. A square tile is converted on its way:"
        " both of its sides should hold at least a sector, eight floats.",
    ),
    mutants={
        "it only copies": ("dst + column * M + row", "dst + row * N + column"),
        "one edge has no mask": ("(row < M) & (column < N)", "(row < M) & (column >= 0)"),
        "rows of dst have N elements": ("column * M", "column * N"),
        "a tile that is one row": ("BM, BN = 32, 32", "BM, BN = 1, 256"),
    },
)
def transpose(t, transpose, BM, BN):  # noqa: N803
    for m, n in ((t.size(32, 3), t.size(32, 2)), (t.integer(3, 9), t.size(32, 5))):
        x, out = t.floats(m, n), t.out(n, m)
        t.launch(transpose, (tt.cdiv(m, 32), tt.cdiv(n, 32)), x, out, m, n, BM=32, BN=32)
        t.equal(out, x.T)
    for side in (BM, BN):
        t.demand(isinstance(side, int) and 0 < side <= 256, f"BM and BN are powers of two up to 256, not {side!r}")
    x, out = t.floats(256, 256), t.out(256, 256)
    grid = tt.cdiv(256, BM), tt.cdiv(256, BN)
    found = t.count(transpose, grid, x, out, 256, 256, BM=BM, BN=BN)
    t.demand(
        found.coalescing == 1,
        f"with tiles of {BM} by {BN}, {found.coalescing:.0%} of what is moved is wanted: "
        f"{found.sectors_loaded} sectors are loaded and {found.sectors_stored} stored, of {256 * 256 // 8} each",
    )
