"""Checks of the exercises to chapter 19."""

import numpy as np

import tinyton as tt
from exercises.book import exercise


def windows(x, stride=1):
    """[C, N, rows, columns, 3, 3]: what a window of 3 by 3 sees at each place, in float64."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))[:, :, ::stride, ::stride]


@exercise(
    "19.1",
    points=1,
    hints=(
        "M is a row of weights for each output channel; N a column for each output pixel; K what is summed over.",
        "A window of S in n + 2 * pad pixels has n + 2 * pad - S places to move to, and one where it begins.",
        "(n + 2 * pad - S) // stride + 1 of them, each way; N is that for H times that for W times images.",
    ),
    mutants={
        "zeros on one side only": ("2 * pad", "pad"),
        "divided too late": ("(n + 2 * pad - S) // stride + 1", "(n + 2 * pad - S + 1) // stride"),
        "one picture": ("images * rows * columns", "rows * columns"),
        "a channel at a time": ("C * S * S", "S * S"),
    },
)
def sides(t, sides):
    t.same(sides(3, 64, 1, 224, 224, 7, 2, 3), (64, 12544, 147))
    for _ in range(20):
        S, stride, pad = t.integer(1, 5), t.integer(1, 3), t.integer(0, 3)
        C, CO, images, H, W = (t.integer(low, high) for low, high in ((1, 9), (1, 9), (2, 4), (6, 30), (6, 30)))
        places = [len(range(-pad, n + pad - S + 1, stride)) for n in (H, W)]
        t.same(sides(C, CO, images, H, W, S, stride, pad), (CO, images * places[0] * places[1], C * S * S))


@exercise(
    "19.2",
    points=2,
    hints=(
        "Pixel p is in row p // W % H and column p % W of its picture. Its neighbour one row down is p + W.",
        "A neighbour counts if its row is in 0 to H - 1 and its column in 0 to W - 1; all else is masked, as 0.",
        "Two static loops, i and j: the address is x + c * pixels + p + (i - 1) * W + j - 1, with those two tests.",
    ),
    mutants={
        "a column runs over into the next row": ("& (column >= 0) & (column < W)", ""),
        "a picture runs over into the next": ("p // W % H", "p // W"),
        "the window is turned": ("c * 9 + i * 3 + j", "c * 9 + (2 - i) * 3 + 2 - j"),
        "one window for all channels": ("w + c * 9 + i", "w + i"),
    },
)
def depthwise(t, depthwise):
    for H, W in ((t.integer(5, 9), t.integer(10, 13)), (4, t.integer(3, 7))):
        C, images = t.integer(2, 4), t.integer(2, 3)
        x, w, out = t.floats(C, images, H, W), t.floats(C, 3, 3), t.out(C, images, H, W)
        pixels = images * H * W
        t.launch(depthwise, (C, tt.cdiv(pixels, 32)), x, w, out, pixels, H, W, BLOCK=32)
        t.close(out, np.einsum("cij,cnyxij->cnyx", w.astype(np.float64), windows(x)), rtol=1e-4, atol=1e-5)


@exercise(
    "19.3",
    points=2,
    hints=(
        "What do all layers together take, if the product is used from a given number of channels on?",
        "Try each number of the table, and never: the least sum wins, and the smallest number of those that share it.",
        "min([*sorted(times), None], key=cost) takes the first of the best, if cost(None) is all of the direct times.",
    ),
    mutants={
        "the first that is better": (
            "min([*sorted(times), None], key=cost)",
            "next((c for c in sorted(times) if times[c][1] < times[c][0]), None)",
        ),
        "never is not an answer": ("[*sorted(times), None]", "sorted(times)"),
        "from the next on": ("channels >= start", "channels > start"),
        "in the table's order": ("*sorted(times)", "*times"),
    },
)
def threshold(t, threshold):
    cases = [{8: (2, 3), 16: (4, 4), 32: (9, 5)}, {16: (1, 2), 8: (1, 2)}, {64: (5, 5), 8: (3, 3)}]
    cases.append({8: (10, 9), 16: (20, 40), 32: (50, 45)})
    for _ in range(20):
        numbers = [int(c) for c in t.rng.permutation([8, 16, 32, 64, 128])[: t.integer(2, 5)]]
        cases.append({c: (t.integer(1, 9), t.integer(1, 9)) for c in numbers})
    for times in cases:
        best = None
        for start in [*sorted(times), None]:
            total = sum(b if start is not None and c >= start else a for c, (a, b) in times.items())
            if best is None or total < best[0]:
                best = total, start
        t.same(threshold(times), best[1])


@exercise(
    "19.4",
    points=3,
    hints=(
        "Two pictures have two widths: p counts output pixels, by (W + 1) // 2, and addresses go by the input's W.",
        "Row k of the matrix that is not there: channel k // 9, window row k // 3 % 3, window column k % 3.",
        "The pixel is at ((c * images + image) * H + 2 * y + i - 1) * W + 2 * x + j - 1; mask rows, columns, k and p.",
    ),
    mutants={
        "half, rounded down": ("(H + 1) // 2, (W + 1) // 2", "tt.maximum(H // 2, 1), tt.maximum(W // 2, 1)"),
        "every pixel": ("2 * y + i - 1, 2 * column + j - 1", "y + i - 1, column + j - 1"),
        "no bias": (" + offset[:, None]", ""),
        "the border counts": (" & (xx >= 0) & (xx < W)", ""),
    },
)
def strided(t, strided):
    for H, W in ((t.integer(4, 6) * 2 + 1, t.integer(4, 5) * 2), (8, 7)):
        C, CO, images = t.integer(3, 6), t.integer(17, 24), 2
        x, w = t.floats(C, images, H, W), t.floats(CO, C, 3, 3)
        scale, bias = t.floats(CO), t.floats(CO)
        high, wide = (H + 1) // 2, (W + 1) // 2
        out = t.out(CO, images, high, wide)
        grid = tt.cdiv(CO, 16), tt.cdiv(images * high * wide, 16)
        t.launch(strided, grid, x, w, scale, bias, out, C, CO, images, H, W, BO=16, BP=16, BK=16)
        v = np.einsum("ocij,cnyxij->onyx", w.astype(np.float64), windows(x, 2))
        v = v * scale[:, None, None, None] + bias[:, None, None, None]
        t.close(out, v / (1 + np.exp(-v)), rtol=1e-4, atol=1e-4)
