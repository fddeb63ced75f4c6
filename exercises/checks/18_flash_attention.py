"""Checks of the exercises to chapter 18."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


def part(s, v):
    """The triple of a row of scores for each query, and values."""
    if not s.shape[1]:
        return np.full(len(s), -np.inf), np.zeros(len(s)), np.zeros((len(s), v.shape[1]))
    top = s.max(1)
    p = np.exp(s - top[:, None])
    return top, p.sum(1), p @ v


@exercise(
    "18.1",
    points=1,
    hints=(
        "The new top is the larger one. By which factor is what each side has added up too large?",
        "exp(its top - the new top): for totals and for acc, whose rows need it as a column.",
        "fade = np.exp(a[0] - top); a side without keys has exp(-inf), which is 0. Both sides, then add.",
    ),
    mutants={
        "only one side fades": ("np.exp(b[0] - top)", "np.ones_like(top)"),
        "acc does not fade": ("a[2] * fade_a[:, None]", "a[2]"),
        "divided too early": ("return top, total, acc", "return top, total, acc / total[:, None]"),
    },
)
def merge(t, merge):
    for left in (t.integer(3, 9), 1, 0):
        rows, keys, d = t.integer(2, 5), t.integer(10, 20), t.integer(3, 6)
        s, v = 5 * t.rng.standard_normal((rows, keys)), t.rng.standard_normal((keys, d))
        a, b, want = part(s[:, :left], v[:left]), part(s[:, left:], v[left:]), part(s, v)
        for sides in ((a, b), (b, a)):
            for got, right in zip(merge(*sides), want, strict=True):
                t.close(got, right)


def next_words(q, k, v, scale):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    return [part((keys @ query * scale)[None], values) for query, keys, values in zip(q, k, v, strict=True)]


@exercise(
    "18.2",
    points=2,
    hints=(
        "Chapter 18's a_row, a tile at a time: top, total and acc are carried, acc is a row of D numbers.",
        "Scores of a tile: tt.sum(key * query, 1) * scale. Keys beyond T score -inf; 0 is a score like any other.",
        "acc = acc * fade + tt.sum(p[:, None] * value, 0), fade = tt.exp(top - higher); divide by total at the end.",
    ),
    mutants={
        "what is beyond scores 0": ('tt.where(j < T, s, -float("inf"))', "s"),
        "acc does not fade": ("acc * fade", "acc"),
        "all heads ask as the first does": ("tt.load(q + head * D + d)", "tt.load(q + d)"),
    },
)
def next_word(t, next_word):
    for T in (t.integer(35, 60), 32, t.integer(3, 15)):
        heads, scale = t.integer(3, 5), 0.25
        q, out = t.floats(heads, 16) * np.float32(3), t.out(heads, 16)
        k, v = t.floats(heads, T, 16), t.floats(heads, T, 16)
        t.launch(next_word, heads, q, k, v, out, T, scale, BLOCK=16, D=16)
        t.close(out, np.stack([acc[0] / total for _, total, acc in next_words(q, k, v, scale)]), rtol=1e-4, atol=1e-5)
        read = t.count(next_word, heads, q, k, v, out, T, scale, BLOCK=16, D=16).bytes_loaded
        least = q.nbytes + k.nbytes + v.nbytes
        t.demand(read == least, f"{read} bytes are loaded, and not the {least} of q, k and v")


@exercise(
    "18.3",
    points=3,
    hints=(
        "Its first query is program_id(0) * BM. Which is the first key it sees, and the multiple of BN before that?",
        "A query that sees nothing in a tile has -inf as its largest score, and -inf minus -inf is NaN.",
        "Subtract 0 where the maximum so far is -inf: base = tt.where(higher == -inf, 0.0, higher).",
    ),
    mutants={
        "NaN where nothing is seen yet": ('tt.where(higher == -float("inf"), 0.0, higher)', "higher"),
        "one more": ("j > i[:, None] - W", "j >= i[:, None] - W"),
        "it begins with the first key": ("tt.maximum(first - W + 1, 0) // BN * BN", "0"),
        "it goes on to the end": ("tt.minimum(first + BM, T)", "T"),
    },
)
def window(t, window):
    for T, W in ((t.integer(70, 100), t.integer(17, 30)), (64, 5), (t.integer(35, 60), 1), (50, 500)):
        q, k, v, out = t.floats(T, 16) * np.float32(3), t.floats(T, 16), t.floats(T, 16), t.out(T, 16)
        t.launch(window, tt.cdiv(T, 16), q, k, v, out, T, W, 0.25, BM=16, BN=16, D=16)
        s = q.astype(np.float64) @ k.astype(np.float64).T * 0.25
        away = np.arange(T)[:, None] - np.arange(T)
        top, total, acc = part(np.where((away >= 0) & (away < W), s, -np.inf), v.astype(np.float64))
        t.close(out, acc / total[:, None], rtol=1e-4, atol=1e-5)
    T, W = 256, 33
    args = *(t.floats(T, 16) for _ in range(3)), t.out(T, 16), T, W, 0.25
    c = t.count(window, T // 16, *args, BM=16, BN=16, D=16)
    least = 4 * 16 * (T + 2 * 16 * sum(min(n, 2) + 1 for n in range(T // 16)))
    t.demand(c.bytes_loaded <= least, f"it loads {c.bytes_loaded} bytes, not the {least} that its queries see")


@exercise(
    "18.4",
    points=3,
    hints=(
        "It is 18.2 with another range: from where to where does piece s go?",
        "From s * tt.cdiv(T, SPLIT) to tt.minimum(that + tt.cdiv(T, SPLIT), T). Masks go by the end of the piece.",
        "A loop without rounds leaves top, total and acc as they began, and that is what an empty piece has.",
    ),
    mutants={
        "a tile goes on into the next piece": ("j[:, None] < last", "j[:, None] < T", "j < last", "j < T"),
        "divided too early": ("place * D + d, acc)", "place * D + d, acc / total)"),
        "pieces of a head in one place": ("head * SPLIT + tt.program_id(1)", "head * SPLIT"),
        "the last piece is as long as the others": (
            "tt.minimum(first + tt.cdiv(T, SPLIT), T)",
            "first + tt.cdiv(T, SPLIT)",
        ),
    },
)
def pieces(t, pieces):
    for T, split in ((t.integer(80, 120), 3), (t.integer(50, 60), 4), (9, 4)):
        heads = t.integer(2, 4)
        q, k, v = t.floats(heads, 16) * np.float32(3), t.floats(heads, T, 16), t.floats(heads, T, 16)
        tops, totals, accs = t.out(heads, split), t.out(heads, split), t.out(heads, split, 16)
        t.launch(pieces, (heads, split), q, k, v, tops, totals, accs, T, 0.25, SPLIT=split, BLOCK=16, D=16)
        long = -(-T // split)
        cut = [slice(min(s * long, T), min(s * long + long, T)) for s in range(split)]
        want = [
            [next_words(q[h : h + 1], k[h : h + 1, c], v[h : h + 1, c], 0.25)[0] for c in cut] for h in range(heads)
        ]
        t.close(tops, np.array([[top[0] for top, _, _ in row] for row in want]), rtol=1e-4, atol=1e-5)
        t.close(totals, np.array([[total[0] for _, total, _ in row] for row in want]), rtol=1e-4, atol=1e-5)
        t.close(accs, np.array([[acc[0] for _, _, acc in row] for row in want]), rtol=1e-4, atol=1e-4)
        args = q, k, v, tops, totals, accs, T, 0.25
        read = t.count(pieces, (heads, split), *args, SPLIT=split, BLOCK=16, D=16).bytes_loaded
        least = split * q.nbytes + k.nbytes + v.nbytes
        t.demand(read <= least, f"{read} bytes are loaded, and {least} would do")
