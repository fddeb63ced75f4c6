"""Checks of the exercises to chapter 15."""

import numpy as np

from exercises.book import exercise


@exercise(
    "15.1",
    points=1,
    hints=(
        "A number that is loaded can be part of an address: table + token * D + j.",
        "Where the token is -1, neither of the two rows may be loaded: (j < D) & (token >= 0) is the mask of both.",
        "A masked load gives 0, so that the row of zeros comes by itself. It must still be stored: mask=j < D there.",
    ),
    mutants={
        "padding is not masked": ("(j < D) & (token >= 0)", "j < D"),
        "padding has a position": (
            "place * D + j, mask=mask)\n    tt.store",
            "place * D + j, mask=j < D)\n    tt.store",
        ),
        "padding is not written": ("what + where, mask=j < D", "what + where, mask=mask"),
        "the position of the token": ("positions + place * D", "positions + token * D"),
    },
)
def embed_text(t, embed_text):
    for D, block in ((t.integer(5, 7), 8), (t.integer(17, 30), 32), (16, 16)):
        n, rows = t.integer(10, 20), t.integer(20, 40)
        table, positions = t.floats(rows, D), t.floats(n, D)
        tokens = t.ints(0, rows - 1, n)
        tokens[[1, n // 2, n - 1]] = -1
        out = t.out(n, D)
        t.launch(embed_text, n, tokens, table, positions, out, D, BLOCK=block)
        t.equal(out, np.where(tokens[:, None] < 0, np.float32(0), table[tokens] + positions))


@exercise(
    "15.2",
    points=2,
    hints=(
        "It is enough to know the highest score and that of the target.",
        "The highest one is found in tiles, padded with -infinity. The other is a load at row * cols + target.",
        "tt.store(hits + row, mine >= top): a comparison is stored as 0 or 1.",
    ),
    mutants={
        "padding counts": (', other=-float("inf"))', ")"),
        "a tie is no hit": ("mine >= top", "mine > top"),
        "the first tile only": ("range(0, cols, BLOCK)", "range(0, 1, BLOCK)"),
        "the target of all rows": ("row * cols + tt.load(target + row)", "tt.load(target + row)"),
    },
)
def count_hits(t, count_hits):
    block = 16
    for cols in t.sizes(block):
        rows = 12
        x, hits = t.floats(rows, cols) - np.float32(9), t.out(rows, dtype=np.int32)
        target = t.ints(0, cols - 1, rows)
        at = np.arange(rows)
        x[at[::2], target[::2]] = x.max(1)[::2]  # as high as the highest
        x[at[::4], target[::4]] += np.float32(1)
        t.launch(count_hits, rows, x, target, hits, cols, BLOCK=block)
        t.equal(hits, (x[at, target] >= x.max(1)).astype(np.int32))
        read = t.count(count_hits, rows, x, target, hits, cols, BLOCK=block).bytes_loaded
        t.demand(read <= x.nbytes + 8 * rows, f"{read} bytes are loaded; {x.nbytes + 8 * rows} are enough, not more")


@exercise(
    "15.3",
    points=3,
    hints=(
        "The loop of online softmax gives log(sum(exp(x))). Let a second sum run along, for the mean.",
        "Padding is -infinity for exponentials, and must be 0 for that sum: tt.where(start + j < cols, v, 0.0).",
        "A target of -100 must not be loaded from, mask=t >= 0, nor count: tt.where(t >= 0, found, 0.0).",
    ),
    mutants={
        "padding is in the mean": ("tt.where(start + j < cols, v, 0.0)", "v"),
        "the mean is of tiles": ("plain / cols", "plain / BLOCK"),
        "rows without a target count": ("tt.where(t >= 0, found, 0.0)", "found"),
        "the sum is not scaled": ("total * tt.exp(top - higher)", "total"),
    },
)
def smooth_loss(t, smooth_loss):
    block = 16
    for cols in t.sizes(block):
        rows, eps = 8, t.number() / 20
        x, loss, target = t.floats(rows, cols) * np.float32(5), t.out(rows), t.ints(0, cols - 1, rows)
        target[[1, rows - 1]] = -100
        x[2] += 100  # exp of these is too large
        t.launch(smooth_loss, rows, x, target, loss, cols, eps, BLOCK=block)
        exact = x.astype(np.float64)
        top = exact.max(1)
        lse = top + np.log(np.exp(exact - top[:, None]).sum(1))
        want = lse - (1 - eps) * exact[np.arange(rows), target.clip(0)] - eps * exact.mean(1)
        t.close(loss, np.where(target < 0, 0, want), rtol=1e-4, atol=1e-4)
        read = t.count(smooth_loss, rows, x, target, loss, cols, eps, BLOCK=block).bytes_loaded
        t.demand(read <= x.nbytes + 8 * rows, f"{read} bytes are loaded; {x.nbytes + 8 * rows} are enough, not more")


@exercise(
    "15.4",
    points=3,
    hints=(
        "A piece never goes beyond its segment: range(begin, end, most) are the beginnings of a segment's pieces.",
        "Since segments lie side by side, a piece ends where the next one begins. What is the end of the last?",
        "Both kernels are the loop of scatter_segments: over pieces[k] to pieces[k + 1], and first[s] to first[s + 1].",
    ),
    mutants={
        "a piece a segment": ("range(begin, end, most)", "range(begin, begin + most, most)"),
        "places in the order of the text": ("tt.load(order + i) * D", "i * D"),
        "the last piece counts alone": ("        total += tt.load(parts", "        total = tt.load(parts"),
        "rows of the table by segment": ("tt.load(rows + s) * D", "s * D"),
    },
)
def segments(t, cut, piece_sums, merge):
    most = 4
    for n, vocabulary in ((t.integer(40, 60), 9), (t.integer(20, 30), 40)):
        D, block = t.integer(5, 7), 8
        tokens = t.ints(1, vocabulary - 1, n)
        tokens[t.rng.permutation(n)[: n // 3]] = vocabulary // 2
        order = np.argsort(tokens, kind="stable").astype(np.int32)
        rows, starts = np.unique(tokens[order], return_index=True)
        starts = [*map(int, starts), n]
        pieces, first = cut(starts, most)
        want_pieces, want_first = [], []
        for begin, end in zip(starts, starts[1:], strict=False):
            want_first.append(len(want_pieces))
            want_pieces += range(begin, end, most)
        t.same(list(pieces), [*want_pieces, n], "pieces")
        t.same(list(first), [*want_first, len(want_pieces)], "first")
        dy, parts = t.floats(n, D), t.out(len(want_pieces), D)
        t.launch(piece_sums, len(want_pieces), dy, order, np.array(pieces, np.int32), parts, D, BLOCK=block)
        dtable = t.out(data=np.zeros((vocabulary, D), np.float32))
        segment_rows, firsts = rows.astype(np.int32), np.array(first, np.int32)
        t.launch(merge, len(rows), parts.array, firsts, segment_rows, dtable, D, BLOCK=block)
        want = np.zeros((vocabulary, D))
        np.add.at(want, tokens, dy.astype(np.float64))
        t.close(dtable, want, rtol=1e-4, atol=1e-5)
