"""Checks of the exercises to chapter 8."""

import numpy as np

from exercises.book import exercise

TYPES = {"u8": 1, "b16": 2, "u16": 2, "f32": 4, "u32": 4, "b32": 4, "f64": 8, "b64": 8}
HOW = {"ld": ("", ".nc", ".L1::evict_last", ".ca"), "st": ("", ".wb", ".cs")}


def text(t, kinds, widths, predicates=False):
    """PTX with random accesses, each as (verb, kind, bytes a lane), and other lines between them."""
    lines, found = ["    ld.param.u64 \t%rd1, [k_param_0];", "    .reg .f32 \t%f<64>;"], []
    for _ in range(t.integer(8, 20)):
        verb, kind, several = (str(t.rng.choice(of)) for of in (("ld", "st"), kinds, widths))
        word = str(t.rng.choice(list(TYPES)))
        size = int(several or 1) * TYPES[word]
        if size > 16:
            continue
        extra = str(t.rng.choice(HOW[verb])) if kind == "global" else ""
        before = ".volatile" if kind == "shared" and predicates and t.integer(0, 1) else ""
        head = str(t.rng.choice(("", "@%p3 ", "@!%p12 "))) if predicates else ""
        vector = f".v{several}" if several else ""
        lines.append(f"    {head}{verb}{before}.{kind}{extra}{vector}.{word} \t%r1, [%rd2+{t.integer(0, 99)}];")
        found.append((verb, kind, size))
        if t.integer(0, 2) == 0:
            lines.append(str(t.rng.choice(("    bar.sync \t0;", "$L__BB0_4:", "    mul.rn.f32 \t%f3, %f1, %f2;", ""))))
    return "\n".join([*lines, "    ret;"]), found


@exercise(
    "8.1",
    points=1,
    hints=(
        "re.findall finds every word that begins with ld.global or st.global; split it at its dots.",
        "The bits are the number at the end of the last part, f32 has 32. A part v2 or v4 multiplies them.",
        "most = max(most, several * int(parts[-1][1:]) // 8), with several = 1 where there is no v2 or v4.",
    ),
    mutants={
        "a vector counts as one": ("several * int", "int"),
        "bits in place of bytes": (" // 8", ""),
        "loads only": ("(?:ld|st)", "(?:ld)"),
        "the last one": ("max(most, several * int(parts[-1][1:]) // 8)", "several * int(parts[-1][1:]) // 8"),
    },
)
def widest(t, widest):
    for kinds in (("global",), ("global", "shared"), ("global", "local"), ("shared",)):
        for widths in (("",), ("", "2"), ("", "2", "4")):
            ptx, found = text(t, kinds, widths)
            t.same(widest(ptx), max((size for _, kind, size in found if kind == "global"), default=0))
    store = "    st.global.v4.f32 \t[%rd1], {%f1, %f2, %f3, %f4};\n    ld.global.u16 \t%rs1, [%rd2];"
    t.same(widest(store), 16)


@exercise(
    "8.2",
    points=1,
    hints=(
        "How many registers does one element of each tile take, all tiles together?",
        "room // that is how many elements a thread can hold. The tile is a power of two, and so is its share.",
        "The largest power of two up to n is 1 << (n.bit_length() - 1); it is multiplied by threads.",
    ),
    mutants={
        "not a power of two": ("threads << (fit.bit_length() - 1)", "threads * fit"),
        "small elements share a register": ("max(size // 4, 1)", "size / 4"),
        "one tile at a time": ("sum(max", "max(max"),
        "it is rounded up": ("fit.bit_length() - 1", "fit.bit_length()"),
    },
)
def largest_tile(t, largest_tile):
    cases = [(32 << t.integer(0, 4), list(map(int, t.rng.choice((1, 2, 4, 8), t.integer(1, 4)))), 0) for _ in range(20)]
    for threads, sizes, _ in cases:
        room = t.integer(1, 250)
        each = sum({1: 1, 2: 1, 4: 1, 8: 2}[size] for size in sizes)
        want = 0
        tile = threads
        while tile // threads * each <= room:
            want, tile = tile, 2 * tile
        t.same(largest_tile(threads, sizes, room), want)
    t.same(largest_tile(128, [2, 2, 1], 12), 512)
    t.same(largest_tile(128, [4, 4], 127), 4096)
    t.same(largest_tile(64, [8, 8], 3), 0)


@exercise(
    "8.3",
    points=2,
    hints=(
        "Go line by line. What may stand before the ld or st that begins an instruction?",
        "After ld or st come words with dots between them. The kind of memory is one of them, not always the first.",
        r"re.match(r'\s*(?:@!?%p\d+\s+)?(ld|st)\.([.\w:]+)', line), and then: is kind in seen[2].split('.')?",
    ),
    mutants={
        "predicated ones are missed": (r"(?:@!?%p\d+\s+)?", ""),
        "the first word only": ('kind in seen[2].split(".")', 'kind == seen[2].split(".")[0]'),
        "loads and stores are swapped": ('seen[1] == "st"', 'seen[1] == "ld"'),
        "negated predicates are missed": ("@!?%p", "@%p"),
    },
)
def traffic(t, traffic):
    for kinds in (("global",), ("global", "shared"), ("global", "shared", "local")):
        for _ in range(3):
            ptx, found = text(t, kinds, ("", "2"), predicates=True)
            want = {
                kind: tuple(sum((v, k) == (verb, kind) for v, k, _ in found) for verb in ("ld", "st"))
                for kind in ("global", "shared", "local")
            }
            t.same(traffic(ptx), want)


@exercise(
    "8.4",
    points=3,
    hints=(
        "Dividing by two numbers is dividing by their product.",
        "And dividing by a number is multiplying by its inverse, which is one number for the whole row.",
        "factor = 1 / ((high - low) * scale), of scalars; then (v - low) * factor.",
    ),
    mutants={
        "tiles are divided": ("(v - least) * factor", "(v - least) / ((tt.load(high + row) - least) * scale)"),
        "two divisions a row": (
            "1 / ((tt.load(high + row) - least) * scale)",
            "1 / (tt.load(high + row) - least) / scale",
        ),
        "the low end stays": ("(v - least) * factor", "v * factor"),
        "one factor for all rows": ("tt.load(high + row) - least", "tt.load(high) - tt.load(low)"),
    },
)
def rescale(t, rescale):
    for cols, block in ((t.integer(17, 30), 32), (t.integer(65, 120), 128), (64, 64)):
        rows = t.integer(4, 9)
        x, out, scale = t.floats(rows, cols), t.out(rows, cols), t.number()
        low, high = x.min(1) - np.float32(0.5), x.max(1) + np.float32(0.25)
        t.launch(rescale, rows, x, low, high, out, scale, cols, BLOCK=block)
        exact = x.astype(np.float64)
        t.close(out, (exact - low[:, None]) / (high - low)[:, None] / scale, rtol=1e-5, atol=1e-6)
        compiled = rescale.compile(x, low, high, out.array, scale, cols, BLOCK=block)
        divisions = [op for op in compiled.ir.ops() if op.name in ("truediv", "floordiv", "mod")]
        tiles = [op for op in divisions if op.result.type.shape]
        t.demand(not tiles, "a tile is divided; it should not be, multiply it by an inverse")
        t.demand(len(divisions) <= 1, f"there are {len(divisions)} divisions a row, and not one")
