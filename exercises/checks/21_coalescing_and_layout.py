"""Checks of the exercises to chapter 21."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


@exercise(
    "21.1",
    points=1,
    hints=(
        "Element (r, c) of the matrix is number r * width + c. In which sector is that?",
        "In sector 4 * number // 32. Rows of a tile may share a sector, so count different ones: a set.",
        "{4 * ((row + r) * width + column + c) // 32 for r in range(rows) for c in range(columns)}, and its length.",
    ),
    mutants={
        "bytes by 32": (
            "len({4 * (first + c) // 32 for first in firsts for c in range(columns)})",
            "rows * columns // 8",
        ),
        "each row for itself": (
            "len({4 * (first + c) // 32 for first in firsts for c in range(columns)})",
            "sum(len({4 * (first + c) // 32 for c in range(columns)}) for first in firsts)",
        ),
        "every row begins at an edge": ("* width + column for", "* width // 8 * 8 for"),
        "rows are as long as the tile's": ("(row + r) * width", "(row + r) * columns"),
    },
)
def touched(t, touched):
    for width in (t.integer(40, 60), 64, 4, 41):
        for _ in range(8):
            rows, columns = t.integer(1, 20), t.integer(1, min(width, 20))
            row, column = t.integer(0, 9), t.integer(0, width - columns)
            places = (row + np.arange(rows)[:, None]) * width + column + np.arange(columns)
            t.same(touched(row, column, rows, columns, width), len(np.unique(places * 4 // 32)))
    t.same(touched(0, 0, 1024, 1, 64), 1024)
    t.same(touched(2, 1, 2, 2, 4), 1)
    t.same(touched(1, 4, 2, 2, 8), 2)


@exercise(
    "21.2",
    points=2,
    hints=(
        "A tile of 16 rows by BLOCK columns, in a loop over the rows. What is carried from round to round?",
        "A sum for each column: total = tt.zeros((BLOCK,), tt.float32), and tt.sum(tile, 0) is added to it.",
        "i = start + tt.arange(0, 16)[:, None] and j[None, :] meet in x + i * columns + j. Both need a mask.",
    ),
    mutants={
        "a column at a time": (
            "    j = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)\n    total = tt.zeros((BLOCK,), tt.float32)\n"
            "    for start in range(0, rows, 16):\n        i = start + tt.arange(0, 16)[:, None]\n"
            "        v = tt.load(x + i * columns + j[None, :], mask=(i < rows) & (j[None, :] < columns))\n"
            "        total += tt.sum(v, 0)\n"
            "    tt.store(out + j, total, mask=j < columns)",
            "    first = tt.program_id(0) * BLOCK\n"
            "    for j in range(first, tt.minimum(first + BLOCK, columns)):\n        total = 0.0\n"
            "        for start in range(0, rows, 16):\n            i = start + tt.arange(0, 16)\n"
            "            total += tt.sum(tt.load(x + i * columns + j, mask=i < rows))\n"
            "        tt.store(out + j, total)",
        ),
        "rows have no mask": ("(i < rows) & ", ""),
        "whole tiles only": ("range(0, rows, 16)", "range(0, rows - 15, 16)"),
        "only the last tile counts": ("total += tt.sum(v, 0)", "total = tt.sum(v, 0)"),
    },
)
def column_sums(t, column_sums):
    for columns in t.sizes(32):
        rows = t.integer(33, 60)
        x, out = t.ints(-9, 9, rows, columns).astype(np.float32), t.out(columns)
        t.launch(column_sums, tt.cdiv(columns, 32), x, out, rows, columns, BLOCK=32)
        t.equal(out, x.sum(0))
    rows, columns = 100, 96
    c = t.count(column_sums, 3, t.floats(rows, columns), t.out(columns), rows, columns, BLOCK=32)
    least = rows * columns // 8
    t.demand(c.sectors_loaded <= 1.05 * least, f"it loads {c.sectors_loaded} sectors, not the {least} that there are")


@exercise(
    "21.3",
    points=2,
    hints=(
        "A tile of BLOCK pixels by PAD channels, loaded as it lies in memory: p * C + c. Where is its image?",
        "At program_id(1) * pixels * C, in x and in out. Channels from C on are off, in both.",
        "The same tile is stored to c * pixels + p. The compiler sees to it that lanes load and store along memory.",
    ),
    mutants={
        "a channel at a time": (
            "    p = (tt.program_id(0) * BLOCK + tt.arange(0, BLOCK))[:, None]\n    c = tt.arange(0, PAD)[None, :]\n"
            "    image, on = tt.program_id(1) * pixels * C, (p < pixels) & (c < C)\n"
            "    tile = tt.load(x + image + p * C + c, mask=on) - tt.load(mean + c, mask=c < C)\n"
            "    tt.store(out + image + c * pixels + p, tile, mask=on)",
            "    p = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)\n    image = tt.program_id(1) * pixels * C\n"
            "    for c in tt.static_range(C):\n"
            "        v = tt.load(x + image + p * C + c, mask=p < pixels) - tt.load(mean + c)\n"
            "        tt.store(out + image + c * pixels + p, v, mask=p < pixels)",
        ),
        "the padding is a channel": ("(p < pixels) & (c < C)", "(p < pixels) & (c < PAD)"),
        "all images are the first": ("tt.program_id(1) * pixels * C", "0"),
        "one mean for all": ("tt.load(mean + c, mask=c < C)", "tt.load(mean)"),
    },
)
def channels_first(t, channels_first):
    for pixels in t.sizes(32):
        for channels, pad in ((3, 4), (t.integer(5, 7), 8)):
            images = 2
            x, mean, out = t.floats(images, pixels, channels), t.floats(channels), t.out(images, channels, pixels)
            args = x, mean, out, pixels
            t.launch(channels_first, (tt.cdiv(pixels, 32), images), *args, C=channels, PAD=pad, BLOCK=32)
            t.equal(out, (x - mean).transpose(0, 2, 1))
    pixels = 4096
    args = t.floats(1, pixels, 3), t.floats(3), t.out(1, 3, pixels), pixels
    c = t.count(channels_first, (pixels // 256, 1), *args, C=3, PAD=4, BLOCK=256)
    least = pixels * 3 // 8
    for what, found in (("loads", c.sectors_loaded), ("stores", c.sectors_stored)):
        t.demand(found <= 1.3 * least, f"it {what} {found} sectors, where {least} are all that is wanted")


@exercise(
    "21.4",
    points=3,
    hints=(
        "First let every program do its own tile, with two loads and one store. How often is an element loaded then?",
        "Twice. The program of tile (a, b) has all that tile (b, a) needs: store both, and stop if a > b.",
        "Load both tiles as they lie in memory, rows along rows: u from (a, b), v from (b, a). tt.trans(v) is v turned"
        " round, to be added to u; where is the sum to be turned round for the second store?",
    ),
    mutants={
        "every program does all": ("    if tt.program_id(0) > tt.program_id(1):\n        return\n", ""),
        "the lower half is not written": ("\n    tt.store(out + there, (v + tt.trans(u)) / 2, mask=on_there)", ""),
        "the other tile is not turned": ("u + tt.trans(v)", "u + v"),
        "the other tile is loaded by columns": (
            "tt.load(x + there, mask=on_there)",
            "tt.load(x + b[None, :] * n + a[:, None], mask=on_here)",
            "u + tt.trans(v)",
            "u + v",
            "v + tt.trans(u)",
            "tt.trans(u + v)",
        ),
    },
)
def symmetric(t, symmetric):
    for n in t.sizes(16):
        x, out = t.floats(n, n), t.out(n, n)
        tiles = tt.cdiv(n, 16)
        t.launch(symmetric, (tiles, tiles), x, out, n, BLOCK=16)
        t.equal(out, (x + x.T) / 2)
    n, tiles = 256, 8
    c = t.count(symmetric, (tiles, tiles), t.floats(n, n), t.out(n, n), n, BLOCK=n // tiles)
    most = 4 * n * n * (tiles + 1) // tiles
    t.demand(c.bytes_loaded <= most, f"it loads {c.bytes_loaded} bytes, not {most} or fewer")
    least = c.bytes // 32
    t.demand(c.sectors <= 1.05 * least, f"it moves {c.sectors} sectors, where {least} are all that is wanted")
