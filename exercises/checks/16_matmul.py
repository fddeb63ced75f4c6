"""Checks of the exercises to chapter 16."""

from collections.abc import Callable

import numpy as np

import tinyton as tt
from exercises.book import exercise
from tinyton.layout import accumulators


@exercise(
    "16.1",
    points=1,
    hints=(
        "Four lanes share a row: which row has lane 4? Lane 31?",
        "Registers 0 and 1 are neighbours in a row; 2 and 3 are the same two columns, eight rows further down.",
        "The row is lane // 4, plus 8 for registers 2 and 3; the column is 2 * (lane % 4), plus 1 for 1 and 3.",
    ),
    mutants={
        "lanes go down, not along": ("lane // 4", "lane % 8", "lane % 4 * 2", "lane // 8 * 2"),
        "a neighbour a lane": ("lane % 4 * 2 + register % 2", "lane % 4 + 4 * (register % 2)"),
        "registers down first": ("register // 2", "register % 2", "register % 2", "register // 2"),
        "rows below each other": ("lane // 4 + 8 * (register // 2)", "lane // 4 * 2 + register // 2"),
    },
)
def fragment(t, fragment):
    layout = accumulators((16, 8), 32)
    for lane in range(32):
        for register in range(4):
            t.same(fragment(lane, register), layout.at(lane, register))


@exercise(
    "16.2",
    points=2,
    hints=(
        "16 bytes are four words in four banks. Which rows of each bank are wanted?",
        "Word w is in bank w % 32 and row w // 32. Keep a set of rows for each bank: the same row counts once.",
        "The answer is the size of the largest of these sets.",
    ),
    mutants={
        "the same row is served twice": ("set()", "[]", ".add(", ".append("),
        "a bank is 16 bytes wide": ("address // 4, address // 4 + 4", "address // 16, address // 16 + 1"),
        "all passes added up": ("max(len(row)", "sum(len(row)"),
        "half as many banks": ("range(32)", "range(16)", "word % 32", "word % 16", "word // 32", "word // 16"),
    },
)
def passes(t, passes):
    cases = [[row * 128 for row in range(8)], [row * 128 + 16 * row for row in range(8)], [64] * 8]
    cases += [[row * 144 for row in range(8)], [row * 32 for row in range(8)], [row * 64 for row in range(8)]]
    cases += [[16 * t.integer(0, 200) for _ in range(8)] for _ in range(20)]
    for addresses in cases:
        parts = np.unique(np.array(addresses) // 16)
        t.same(passes(addresses), int(np.bincount(parts % 8).max()))


def multiplied(t, m, n, k):
    """Small whole numbers, so that every order of additions gives the same."""
    return (t.ints(-4, 5, m, k).astype(np.float32), t.ints(-4, 5, k, n).astype(np.float32))


@exercise(
    "16.3",
    points=2,
    hints=(
        "What is the address of element (k, i) of a, which has M columns?",
        "Load a tile of BK by BM as it lies in memory, rows along k; a tile has a transpose: x.T.",
        "tt.dot(left.T, right, acc), with left from a + k[:, None] * M + i[None, :]; masks for k, i and j.",
    ),
    mutants={
        "read as if it were M by K": ("k[:, None] * M + i[None, :]", "i[None, :] * K + k[:, None]"),
        "only the first step": ("range(0, K, BK)", "range(0, BK, BK)"),
        "what is beyond K is multiplied": ("(k[:, None] < K) & (i[None, :] < M)", "i[None, :] < M"),
        "the tile's columns are not masked": ("(i[:, None] < M) & (j[None, :] < N)", "i[:, None] < M"),
    },
)
def turned(t, turned):
    for m, n, k in ((t.integer(33, 60), t.integer(17, 45), t.integer(20, 50)), (48, 32, 32)):
        a, b = multiplied(t, m, n, k)
        c = t.out(m, n)
        grid = tt.cdiv(m, 16), tt.cdiv(n, 16)
        t.launch(turned, grid, np.ascontiguousarray(a.T), b, c, m, n, k, BM=16, BN=16, BK=16)
        t.equal(c, a @ b)
    args = t.floats(32, 48), t.floats(32, 64), t.out(48, 64)
    moved = t.count(turned, (3, 4), *args, 48, 64, 32, BM=16, BN=16, BK=16).bytes_loaded
    least = 12 * 2 * 16 * 32 * 4
    t.demand(moved <= least, f"it loads {moved} bytes, not the {least} that would do")


@exercise(
    "16.4",
    points=3,
    hints=(
        "The loop begins at program_id(2) * BK. How far is it to the same program's next step?",
        "range(tt.program_id(2) * BK, K, SPLIT * BK). The sums stay in a tile until the loop is done.",
        "tt.atomic_add(c + i * N + j, acc, mask=...): a store would leave what one of the programs found.",
    ),
    mutants={
        "the last one wins": ("tt.atomic_add", "tt.store"),
        "every program takes every step": ("range(tt.program_id(2) * BK, K, SPLIT * BK)", "range(0, K, BK)"),
        "steps overlap": ("K, SPLIT * BK)", "K, (SPLIT - 1) * BK)"),
        "all but the first begin too early": ("range(tt.program_id(2) * BK", "range(tt.program_id(2)"),
    },
)
def split(t, split):
    for k, parts in ((t.integer(130, 200), 3), (128, 4), (40, 4)):
        m, n = t.integer(17, 30), t.integer(5, 16)
        a, b = multiplied(t, m, n, k)
        c = t.out(data=np.zeros((m, n), np.float32))
        t.launch(split, (tt.cdiv(m, 16), 1, parts), a, b, c, m, n, k, SPLIT=parts, BM=16, BN=16, BK=16)
        t.equal(c, a @ b)
    args = t.floats(32, 256), t.floats(256, 16), t.out(data=np.zeros((32, 16), np.float32))
    moved = t.count(split, (2, 1, 4), *args, 32, 16, 256, SPLIT=4, BM=16, BN=16, BK=16)
    read = moved.bytes_loaded
    least = (2 * 16 * 256 + 2 * 256 * 16) * 4
    t.demand(read <= least + 4 * 4 * 32 * 16, f"it loads {read} bytes, not the {least} that would do")


def at_work(t, turns: list[tuple[int, int, int]], stages: int, pick: Callable[[list[tuple]], tuple]):
    """A ring for a producer and two warps, a step of somebody's at a time, which ``pick`` chooses among those that need
    not wait: "take" and "done" of a warp, "send" of the producer, "come" of a copy."""
    full, empty, arrived = ([0] * stages for _ in range(3))  # phases that are over, and warps that are done
    tiles: list[int | None] = [None] * stages  # by place, the round whose tile has been sent there
    on_its_way, busy = set(), [False, False]
    sent, taken = 0, [0, 0]
    while min(taken) < len(turns):
        steps: list[tuple] = [("come", place) for place in sorted(on_its_way)]
        if sent < len(turns) and empty[turns[sent][0]] % 2 != turns[sent][2]:
            steps.append(("send", sent))
        for warp, round in enumerate(taken):
            if busy[warp]:
                steps.append(("done", warp))
            elif round < len(turns) and full[turns[round][0]] % 2 != turns[round][1]:
                steps.append(("take", warp))
        t.demand(
            steps,
            f"it never ends: the copy of round {sent} waits for an empty place, round {min(taken)} for its tile",
        )
        what, who = pick(steps)
        if what == "come":
            on_its_way.remove(who)
            full[who] += 1
        elif what == "send":
            place = turns[sent][0]
            t.demand(
                tiles[place] is None,
                f"round {sent} is copied to place {place}, where round {tiles[place]} is not multiplied yet",
            )
            tiles[place] = sent
            on_its_way.add(place)
            sent += 1
        else:
            place = turns[taken[who]][0]
            t.demand(
                tiles[place] == taken[who] and place not in on_its_way,
                f"round {taken[who]} is multiplied from place {place}, where its tile is not yet",
            )
            busy[who] = what == "take"
            if what == "done":
                taken[who] += 1
                arrived[place] += 1
                if arrived[place] == len(taken):
                    tiles[place], arrived[place] = None, 0
                    empty[place] += 1


@exercise(
    "16.5",
    points=3,
    hints=(
        "Rounds 0, stages, 2 * stages, ... use the same place. What changes from one of them to the next?",
        "In lap 0 the warps wait while phase 0 of full runs, in lap 1 while phase 1 does. The producer begins at once.",
        "The place is round % stages; the lap is round // stages; full is its last bit, and empty the other one.",
    ),
    mutants={
        "the first copy waits": ("1 - lap", "lap"),
        "a bit for each round": ("round // stages % 2", "round % 2"),
        "the bit never turns": ("round // stages % 2", "0"),
        "a lap is a place": ("round % stages, ", "round // stages % stages, "),
    },
)
def turn(t, turn):
    orders = ("take", "done", "send", "come"), ("send", "come", "done", "take"), ("send", "done", "take", "come"), ()
    for stages in (3, 2, 4, t.integer(5, 7), 1):
        turns = [turn(round, stages) for round in range(3 * stages + 2)]
        for round, got in enumerate(turns):
            right = isinstance(got, tuple) and len(got) == 3 and all(isinstance(n, int) for n in got)
            t.demand(
                right and 0 <= got[0] < stages and {*got[1:]} <= {0, 1},
                f"turn({round}, {stages}) is {got!r}: it should be a place below {stages}, and two parities",
            )
        t.doing = f"in a ring of {stages} places"
        places = [place for place, _, _ in turns[:stages]]
        t.demand(len({*places}) == stages, f"the first rounds are in places {places}, not each in one of its own")
        for order in orders:
            for _ in range(1 if order else 8):

                def pick(steps: list[tuple], order: tuple[str, ...] = order) -> tuple:
                    if not order:
                        return steps[t.integer(0, len(steps) - 1)]
                    return min(steps, key=lambda step: order.index(step[0]))

                at_work(t, turns, stages, pick)
