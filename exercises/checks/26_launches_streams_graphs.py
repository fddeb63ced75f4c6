"""Checks of the exercises to chapter 26."""

import numpy as np

from exercises.book import exercise


@exercise(
    "26.1",
    points=1,
    hints=(
        "Two clocks: asked, when the host has launched kernel k; done, when the device has finished the one before.",
        "Kernel k begins at max(asked, done). If asked is later, the device was idle in between.",
        "idle += max(0, asked - done), before done = max(asked, done) + d.",
    ),
    mutants={
        "host and device take turns": ("asked += h", "asked = done + h"),
        "the slower of two sums": ("done = max(asked, done) + d", "done = done + d"),
        "the host waits for nothing": ("asked += h", "asked = h"),
        "before the first kernel it was not idle": ("max(0, asked - done)", "max(0, asked - done) * (done > 0)"),
    },
)
def queue(t, queue):
    for n in (1, 2, 5, 9, 30):
        host, device = (t.ints(1, 20, n).tolist() for _ in range(2))
        events = np.cumsum(host)
        ends, last = [], 0
        for launched, d in zip(events.tolist(), device, strict=True):
            last = max(last, launched) + d
            ends.append(last)
        t.same(queue(host, device), (last, last - sum(device)))
    t.same(queue([5, 5, 5], [1, 1, 1]), (16, 13))
    t.same(queue([1, 1, 1], [9, 9, 9]), (28, 1))


@exercise(
    "26.2",
    points=2,
    hints=(
        "What the first kernel stores and the second loads is in a tile already.",
        "velocity = momentum * (load of v) + (load of g); store it, and use it for w.",
        "Three loads, three stores, one mask. g is stored as 0.0 after it has been loaded.",
    ),
    mutants={
        "the old velocity": ("rate * velocity", "rate * tt.load(v + i, mask=mask)"),
        "the gradient stays": ("tt.store(g + i, 0.0", "tt.store(g + i, tt.load(g + i, mask=mask)"),
        "the wrong way": ("- rate", "+ rate"),
        "no mask": ("mask = i < n", "mask = i >= 0"),
    },
)
def train(t, train):
    for n in t.sizes(64):
        w, v, g = (t.floats(n) for _ in range(3))
        momentum, rate = round(t.rng.uniform(0.5, 0.95), 3), round(t.rng.uniform(0.01, 0.2), 3)
        arrays = [t.out(data=a) for a in (w, v, g)]
        t.launch(train, -(-n // 64), *arrays, momentum, rate, n, BLOCK=64)
        velocity = np.float32(momentum) * v + g
        t.equal(arrays[1], velocity)
        t.equal(arrays[0], w - np.float32(rate) * velocity)
        t.equal(arrays[2], np.zeros_like(g))
        c = t.count(train, -(-n // 64), w, v, g, momentum, rate, n, BLOCK=64)
        t.demand(
            (c.bytes_loaded, c.bytes_stored) == (12 * n, 12 * n),
            f"for {n} elements it loads {c.bytes_loaded} bytes and stores {c.bytes_stored}, not {12 * n} each",
        )


@exercise(
    "26.3",
    points=2,
    hints=(
        "Go through the list once. Keep when each piece is done, and when each stream is free.",
        "A piece begins at the latest of: its stream is free; everything it waits for is done.",
        "start = max([last.get(stream, 0), *(done[k] for k in after)]); done is start + time.",
    ),
    mutants={
        "one stream": ("last.get(stream, 0)", "max(last.values(), default=0)"),
        "nobody waits": ("last.get(stream, 0), *(done[k] for k in after)", "last.get(stream, 0), 0"),
        "streams have no order": ("last.get(stream, 0), *", "0, *"),
        "waits for the last only": ("for k in after)", "for k in after[-1:])"),
    },
)
def finish(t, finish):
    for n in (1, 4, 12, 30):
        work = []
        for k in range(n):
            after = sorted(map(int, t.rng.choice(k, size=min(k, t.integer(0, 2)), replace=False))) if k else []
            work.append((str(t.rng.choice(["copy", "a", "b"])), t.integer(1, 9), list(reversed(after))))
        want = []
        for k, (stream, time, after) in enumerate(work):
            before = [want[m] for m in range(k) if work[m][0] == stream or m in after]
            want.append(max(before, default=0) + time)
        t.same(finish(work), want)
    t.same(finish([("a", 5, []), ("b", 3, []), ("b", 1, [0]), ("a", 1, [2]), ("b", 7, [])]), [5, 3, 6, 7, 13])


@exercise(
    "26.4",
    points=3,
    hints=(
        "A program loads two numbers, where its row begins and ends, and loops from one to the other in tiles.",
        "Two loops: the first makes the sum, the second divides. In both the mask is k + j < end.",
        "for k in range(begin, end, BLOCK) is a loop that may run not at all, for an empty row.",
    ),
    mutants={
        "the first tile only": ("range(begin, end, BLOCK)", "range(begin, begin + 1, BLOCK)"),
        "touches the next row": ("k + j < end", "k + j < end + 1"),
        "every row is as long as the first": (
            "tt.load(starts + p), tt.load(starts + p + 1)",
            "p * tt.load(starts + 1), (p + 1) * tt.load(starts + 1)",
        ),
        "the sum of the last tile": ("total += tt.load", "total = tt.load"),
    },
)
def shares(t, shares):
    for rows in (3, 6, 11):
        lengths = t.ints(1, 150, rows)
        lengths[t.integer(1, rows - 1)] = 0
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        x = t.rng.uniform(0.5, 2, starts[-1]).astype(np.float32)
        out = t.out(len(x))
        t.launch(shares, rows, x, starts, out, BLOCK=64)
        sums = np.add.reduceat(np.append(x, 0).astype(np.float64), starts[:-1])
        t.close(out, x / np.repeat(sums, lengths))
        counted = t.count(shares, rows, x, starts, out, BLOCK=64)
        t.demand(counted.bytes_stored == x.nbytes, f"it stores {counted.bytes_stored} bytes, not {x.nbytes}")
