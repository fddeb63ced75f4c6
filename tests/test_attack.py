"""Programs that are odd but right: names that C has taken, numbers that wrap around, indices of narrow types."""

from textwrap import dedent

import numpy as np
import pytest

import conftest
import tinyton as tt
from conftest import same_bits, underlined

f32, i32 = np.float32, np.int32


NAMES = """thread r r0 k warp shared_memory load_float32x4 float32x4 sum_float32 half_bits barrier get_group_id
FLT_MAX M_PI _Complex __x cl_khr_fp64 float4 static_cast read_only exp fmax min NAN linux à 名""".split()


def kernel(text, **names):
    return conftest.kernel(dedent(text), **names)


def test_a_variable_may_have_any_name(mapping):
    each = "".join(
        f"""
            {name} = tt.load(x + i, mask=i < n)
            y = tt.exp({name} * 0) + {name} + tt.sum({name})
            {name} = tt.max({name})
            tt.store(out + i, tt.load(out + i) + y + {name}.to(tt.float16).to(tt.int32) // 5)"""
        for name in NAMES
    )
    k = kernel(f"""
        @tt.jit
        def k(x, out, n):
            i = tt.arange(0, 256){each}
    """)
    x, out = np.arange(256, dtype=f32), np.zeros(256, f32)
    k[1](x, out, 256, num_warps=mapping.warps)
    same_bits(out, len(NAMES) * (x + 1 + x.sum() + 51))


def test_arguments_may_be_named_like_parts_of_others(executor):
    k = kernel("""
        @tt.jit
        def k(x, x_buffer, x_first, x_2):
            tt.store(x, tt.load(x_buffer) + tt.load(x_first) + x_2)
    """)
    x = np.zeros(1, i32)
    k[1](x, np.array([1], i32), np.array([2], i32), 4)
    assert x.tolist() == [7]


@pytest.mark.parametrize(
    "name", "max dot printf norm double main kernel half_bits float16 FLT_MAX read_only 名".split()
)
def test_a_kernel_may_have_any_name(executor, name):
    k = kernel(f"""
        @tt.jit
        def {name}(x):
            tt.store(x, tt.load(x) + 1)
        k = {name}
    """)
    x = np.zeros(1, np.float16)
    k[1](x)
    assert x == 1 and k.compile(x).name == name


def test_two_names_may_hold_one_value(executor):
    k = kernel("""
        @tt.jit
        def k(x):
            i = tt.arange(0, 4)
            a = b = tt.load(x + i)
            pair = (tt.load(x + i), 1)
            c = pair[0]
            d = pair[0]
            tt.store(x + i, a + b + c + d)
    """)
    x = np.arange(4, dtype=i32)
    k[1](x)
    assert x.tolist() == [0, 4, 8, 12]


def test_arithmetic_of_64_bit_constants_is_done_in_64_bits(executor):
    k = kernel("""
        @tt.jit
        def k(x, y):
            i = tt.arange(0, 2)
            million = tt.full((2,), 1000000, tt.int64)
            tt.store(x + i, million * million)
            less = tt.where(i > 0, tt.full((2,), 5, tt.uint64), tt.full((2,), 7, tt.uint64))
            tt.store(y + i, ~tt.full((2,), 5, tt.uint64) + (less - 6))
    """)
    x, y = np.zeros(2, np.int64), np.zeros(2, np.uint64)
    k[1](x, y)
    assert x.tolist() == [10**12] * 2
    assert y.tolist() == [2**64 - 6 + 1, 2**64 - 6 - 1]


@pytest.mark.parametrize(
    ("test", "first"),
    [("i.to(tt.uint32) - 5 < 300", 5), ("i + 2147483600 < 0", 48), ("i * 8000000 < 0", 269)],
)
def test_a_mask_of_numbers_that_wrap_around_holds_where_it_holds(mapping, test, first):
    k = kernel(f"""
        @tt.jit
        def k(x, out):
            i = tt.arange(0, 512)
            mask = {test}
            tt.store(out + i, tt.load(x + i, mask=mask, other=-1), mask=mask)
    """)
    i, out = np.arange(512, dtype=i32), np.full(512, -2, i32)
    k[1](i, out, num_warps=mapping.warps)
    on = (i >= first) & (i < 305 if first == 5 else True)
    same_bits(out, np.where(on, i, -2).astype(i32))


def test_offsets_of_narrow_and_unsigned_types_are_computed_in_64_bits(mapping):
    k = kernel("""
        @tt.jit
        def k(x, out, same, back, far, big, a, b):
            i = tt.arange(0, 16)
            u = tt.load(x + i)
            wide = u * 20
            tt.store(out + wide, i)
            tt.store(same + i, wide)
            tt.store(back + 15 - u, i)
            tt.store(far + (big + a * b) + i, i)
    """)
    for dtype in (np.uint8, np.int8, np.uint16, np.uint32):
        x, i = np.arange(16, dtype=dtype), np.arange(16, dtype=i32)
        out, same, back, far = np.full(320, -1, i32), np.zeros(16, i32), np.zeros(16, i32), np.zeros(16, i32)
        k[1](x, out, same, back, far, -(2**40), 2**20, 2**20, num_warps=mapping.warps)
        assert out[::20].tolist() == i.tolist() and (out >= 0).sum() == 16
        same_bits(same, (x * dtype(20)).astype(i32))
        same_bits(back, i[::-1].copy())
        same_bits(far, i)


def test_offsets_that_are_constants_do_not_wrap_around(executor):
    k = kernel("""
        @tt.jit
        def k(x, out):
            n = tt.full((), 100, tt.int16)
            tt.store(out, tt.load(x + (n << 9) % 1000))
            tt.store(out + 1, tt.load(x + -n * 500 % 1000 + 1))
    """)
    x, out = np.arange(1000, dtype=i32), np.zeros(2, i32)
    k[1](x, out)
    assert out.tolist() == [200, 1]


def test_a_comparison_of_unsigned_offsets_wraps_around(mapping):
    k = kernel("""
        @tt.jit
        def k(x, out):
            i = tt.arange(0, 64)
            u = i.to(tt.uint32) - 5
            tt.store(out + i, tt.load(x + u, mask=u < 40, other=-1))
    """)
    x, out = np.arange(40, dtype=i32), np.zeros(64, i32)
    k[1](x, out, num_warps=mapping.warps)
    assert out.tolist() == [-1] * 5 + list(range(40)) + [-1] * 19


def test_a_name_bound_on_one_path_may_stay_unused(executor):
    k = kernel("""
        @tt.jit
        def k(x, n):
            if n > 0:
                a = 1
                tt.store(x, a)
            if n > 1:
                a = 2
                tt.store(x + 1, a)
    """)
    x = np.zeros(2, i32)
    k[1](x, 1)
    assert x.tolist() == [1, 0]


def test_what_is_computed_before_a_load_by_vectors_is_known_after_it(mapping):
    k = kernel("""
        @tt.jit
        def k(x, out, n):
            i = tt.arange(0, 32)
            j = tt.arange(0, 8)
            at = i[:, None] * 8 + j[None, :]
            turned = j[:, None] + i[None, :] * 8
            a = tt.load(x + turned) - n
            b = tt.load(x + at, mask=j[None, :] < n)
            tt.store(out + turned, a)
            tt.store(out + at, b + tt.load(out + at))
    """)
    x, out = np.arange(256, dtype=f32), np.zeros(256, f32)
    for n in (3, 8):
        k[1](x, out, n, num_warps=mapping.warps)
        same_bits(out, x - n + np.where(np.arange(256) % 8 < n, x, 0))


def test_a_tile_may_be_moved_at_the_end_of_a_round_and_again_afterwards(mapping):
    k = kernel("""
        @tt.jit
        def k(x, out, n):
            i = tt.arange(0, 8)
            column = tt.sum(tt.load(x + i[:, None] * 64 + tt.arange(0, 64)[None, :]), 1)[:, None]
            a = tt.load(x + i[:, None])
            b = tt.load(x + i[:, None])
            for r in range(n):
                a = column
            for r in range(n):
                b = column
            tt.store(out + i[:, None], a + b)
    """)
    x, out = np.arange(512, dtype=f32), np.zeros(8, f32)
    for n in (0, 2):
        k[1](x, out, n, num_warps=mapping.warps)
        same_bits(out, 2 * (x.reshape(8, 64).sum(1) if n else x[:8]))


def test_the_line_under_a_caret_is_the_one_of_python(tmp_path, monkeypatch):
    """A form feed or a line separator ends a line for str.splitlines, not in source."""
    text = "import tinyton as tt\n@tt.jit\ndef k(x):\n    # a\x0cb\x1cc\u2028d\n    tt.store(x, 'a')\n"
    (tmp_path / "page_breaks.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TINYTON_BACKEND", "interpreter")
    import page_breaks

    with pytest.raises(tt.TinytonError) as error:
        page_breaks.k[1](np.zeros(1, i32))
    assert "line 5:\n    tt.store(x, 'a')\n    ^^^" in str(error.value)


def test_a_function_of_constants_takes_keywords(executor):
    k = kernel("""
        @tt.jit
        def k(x):
            tt.store(x, tt.cdiv(7, y=2))
    """)
    x = np.zeros(1, i32)
    k[1](x)
    assert x == 4


@pytest.mark.parametrize(
    "line, words, under",
    [
        ("tt.store(out + i[:, None], i)", "pointers of shape [4, 1] would be repeated to [4, 4]", "out + i[:, None]"),
        ("tt.store(out + i[:, None], 1, mask=i[None, :] < 2)", "would be repeated to [4, 4]", "out + i[:, None]"),
        ("tt.store(out, x.shape[0])", "x is a pointer to an array's first element: it has no .shape", "x.shape"),
        ("tt.store(out + i, i.astype(tt.int32))", "as methods, no .astype; write i.to(tt.float32)", "i.astype"),
        ("print(i)", "print is Python's own, which a kernel cannot call; write tt.device_print('x', x)", "print"),
        ("tt.store(out, sum(i))", "sum is Python's own, which a kernel cannot call; there is tt.sum", "sum"),
        ("tt.store(out, other(out))", "expected a tile or a number, not None", "tt.store(out, other(out))"),
        ("tt.store(out, other[1](out))", "other is no tuple: a kernel calls it as other(...)", "other[1]"),
    ],
)
def test_first_mistakes_are_told_apart(executor, line, words, under):
    @tt.jit
    def other(x):
        tt.store(x, 0)

    k = kernel(
        f"""
@tt.jit
def k(x, out):
    i = tt.arange(0, 4)
    {line}
""",
        other=other,
    )
    x = np.zeros(4, np.int32)
    with pytest.raises(tt.TinytonError) as caught:
        k[1](x, x)
    assert words in str(caught.value)
    assert underlined(caught.value) == under


@pytest.mark.parametrize("function", ["max", "plain", "3", "None", "'add'"])
def test_what_combines_is_a_function_of_the_language(interpreter, function):
    k = kernel(f"""
        def plain(a, b):
            return a + b
        @tt.jit
        def k(x):
            i = tt.arange(0, 4)
            tt.store(x + i, tt.associative_scan(i, 0, {function}))
    """)
    with pytest.raises(tt.TinytonError) as error:
        k[1](np.zeros(4, i32))
    assert "the function must be one under @tt.jit, or of tt, not " in str(error.value)
    under = f"tt.associative_scan(i, 0, {function}))".index(function)
    lines = str(error.value).split("\n")
    assert lines[2].index("^") - lines[1].index("tt.associative_scan") == under


def test_a_kernel_may_take_nothing(executor, capfd):
    k = kernel("""
        @tt.jit
        def k():
            tt.device_print("sum", tt.sum(tt.arange(0, 8)))
    """)
    k[1]()
    tt.synchronize()
    assert "28" in capfd.readouterr().out


def test_a_long_expression_is_cut_up(executor):
    k = kernel(f"""
        @tt.jit
        def k(x, out, n):
            i = tt.arange(0, 8)
            v = tt.load(x + i)
            tt.store(out + i, {" + ".join(["v"] * 140)} + {" + ".join(["n"] * 140)} + {"-" * 256}v)
    """)
    x, out = np.arange(8, dtype=i32), np.zeros(8, i32)
    k[1](x, out, 3)
    same_bits(out, 141 * x + 420)


def test_an_expression_that_nests_too_deeply_is_refused(interpreter):
    k = kernel(f"""
        @tt.jit
        def k(x):
            y = 1
            tt.store(x, {" + ".join(["y"] * 2000)})
    """)
    with pytest.raises(tt.TinytonError, match="line 4:(.|\n)*this nests too deeply; give parts of it names"):
        k[1](np.zeros(1, i32))


@pytest.mark.parametrize(
    "text", ["for c in range(3): pass\n{}else:\n{}    continue", "with x:\n{}    break", "def f():\n{}    return 1"]
)
def test_an_exit_may_stand_in_what_is_refused(interpreter, text):
    k = kernel(f"""
        @tt.jit
        def k(x, n):
            for a in range(n):
                for b in range(n):
                    {text.replace("{}", " " * 20)}
    """)
    with pytest.raises(tt.TinytonError, match="line 5:(.|\n)* is not supported in a kernel; "):
        k[1](np.zeros(1, i32), 3)


@pytest.mark.parametrize(
    "call, words, under",
    [
        (
            "tt.cumsum(i, 0, reverse=n > 0)",
            "reverse is True or False, known when the kernel is compiled, not i1",
            "n > 0",
        ),
        ("tt.sum(i, 0, n)", "keep_dims is True or False, known when the kernel is compiled, not i32", "n)"),
        ("tt.reduce((), 0, tt.maximum)", "there is no tile in the tuple", "tt.reduce"),
        ("tt.sum(i) + 2.0 * 10**400", "int too large to convert to float", "2.0 * 10**400"),
        ("tt.exp(i.to(tt.float64)) + 10**400", "is out of range for float64", "tt.exp"),
        ("tt.minimum(2**70, 2**71)", f"{2**70} is out of range for int64", "tt.minimum"),
    ],
)
def test_constants_are_constants_and_numbers_have_ends(interpreter, call, words, under):
    k = kernel(f"""
        @tt.jit
        def k(x, n):
            i = tt.arange(0, 4)
            a = {call}
    """)
    with pytest.raises(tt.TinytonError) as error:
        k[1](np.zeros(1, i32), 3)
    lines = str(error.value).split("\n")
    assert words in lines[-1]
    assert lines[2].index("^") == lines[1].index(under)


@pytest.mark.parametrize(
    "line",
    ["s = n if b else 1.5", "s = f if b else n", "s = give(n, f, b)", "p = x if b else 0", "s = n > 3 if b else 3"]
    + [f"s = {a}\n    while n < 9:\n        s = {b}; n += 1" for a, b in [("f", "n"), ("n", "0.5"), ("1.5", "n // 2")]],
)
def test_no_path_makes_a_number_less_than_it_is(interpreter, line):
    k = kernel(f"""
        @tt.jit
        def give(n, f, b):
            if b:
                return n
            return f
        @tt.jit
        def k(x, n, f, b):
            {line.replace("    ", " " * 12, 1).replace("        s", " " * 16 + "s")}
    """)
    with pytest.raises(tt.TinytonError, match="type of .* (depends on the path taken|changes in the loop)"):
        k[1](np.zeros(1, i32), 3, 1.5, False)


def test_numbers_on_several_paths_take_the_widest_type(executor):
    k = kernel("""
        @tt.jit
        def k(out, n, f, b):
            s = 1
            t = False
            u = 1
            for j in range(n):
                s = 2.5
                t = 3
                u = 2**40
            tt.store(out, s)
            tt.store(out + 1, t)
            tt.store(out + 2, u)
            tt.store(out + 3, 1 if b else f)
            tt.store(out + 4, True if b else n)
    """)
    for n, b in [(0, True), (2, False)]:
        out = np.zeros(5, np.float64)
        k[1](out, n, 1.5, b)
        assert out.tolist() == ([2.5, 3, 2**40, 1.5, 2] if n else [1, 0, 1, 1, 1])


def test_what_goes_through_shared_memory_may_be_half_a_tile(mapping):
    k = kernel("""
        @tt.jit
        def k(x, picked, product, count):
            i = tt.arange(0, 256)
            v = tt.load(x + i.reshape(2, 4, 2, 16))
            a, b = tt.split(v.permute(0, 1, 3, 2))
            order = (tt.arange(0, 16) * 5 + 1) % 16 + tt.zeros([2, 4, 16], tt.int32)
            tt.store(picked + tt.arange(0, 128).reshape(2, 4, 16), tt.gather(a, order, 2))
            even, odd = tt.split(v.reshape(64, 2, 2))
            rows = tt.trans(odd).reshape(8, 16).to(tt.float32)
            tt.store(product + tt.arange(0, 64).reshape(8, 8), tt.dot(rows, tt.trans(rows)))
            tt.store(count + tt.arange(0, 16), tt.histogram(tt.ravel(b), 16))
    """)
    x = np.random.default_rng().integers(0, 16, (2, 4, 2, 16), i32)
    picked, product, count = np.zeros((2, 4, 16), i32), np.zeros((8, 8), f32), np.zeros(16, i32)
    k[1](x, picked, product, count, num_warps=mapping.warps)
    same_bits(picked, x[:, :, 0, (np.arange(16) * 5 + 1) % 16])
    rows = x.reshape(64, 2, 2)[:, :, 1].T.reshape(8, 16).astype(f32)
    same_bits(product, rows @ rows.T)
    same_bits(count, np.bincount(x[:, :, 1].ravel(), minlength=16).astype(i32))


def test_or_and_and_give_the_operand_that_decides(executor):
    k = kernel("""
        @tt.jit
        def k(out, n, z, f, b, C: tt.constexpr):
            tt.store(out, n or 7)
            tt.store(out + 1, z or 7)
            tt.store(out + 2, n and 7)
            tt.store(out + 3, f or 2.5)
            tt.store(out + 4, None or n)
            tt.store(out + 5, z or C and n)
            tt.store(out + 6, 1 if b and n and (f and n or z) else 2)
    """)
    out = np.zeros(7, f32)
    k[1](out, 5, 0, 0.0, True, 3)
    assert out.tolist() == [5, 7, 7, 2.5, 5, 5, 2]


def test_operands_of_two_types_have_no_one_value(interpreter):
    k = kernel("""
        @tt.jit
        def k(out, n):
            tt.store(out, n or 0.5)
    """)
    with pytest.raises(tt.TinytonError, match="depends on the path taken: i32 .* or float 0.5"):
        k[1](np.zeros(1, f32), 5)


@pytest.mark.parametrize(
    ("mask", "want"),
    [
        ("tt.reshape(tt.trans(i[:, None] + 0 * j), (512, 2)) < 5", lambda q, r: (q * 2 + r) % 512 < 5),
        ("tt.trans(tt.reshape(i[:, None] + 0 * j, (2, 512))) < 5", lambda q, r: (r * 512 + q) // 2 < 5),
        ("tt.cumsum(i[:, None] * 0 + j * 0 + 0.5, 1) < 1", lambda q, r: r < 1),
    ],
)
def test_what_is_the_same_along_a_tile_need_not_be_so_elsewhere(mapping, mask, want):
    k = kernel(f"""
        @tt.jit
        def k(x, out):
            i, j = tt.arange(0, 512), tt.arange(0, 2)
            rows, columns = i[:, None] * 2 + j, i[:, None] + j * 512
            m = {mask}
            for at in tt.static_range(2):
                p = rows if at == 0 else columns
                tt.store(out + 1024 * at + p, tt.load(x + p, mask=m, other=-1), mask=m | (j > 5))
                tt.store(out + 1024 * (2 + at) + p, tt.load(x + p, mask=m, other=-1))
    """)
    x, out = np.arange(1024, dtype=i32), np.zeros(4096, i32)
    k[1](x, out, num_warps=mapping.warps)
    q, r = np.arange(512)[:, None], np.arange(2)
    for p, written, read in ((q * 2 + r, out[:1024], out[2048:3072]), (q + r * 512, out[1024:2048], out[3072:])):
        same_bits(read[p], np.where(want(q, r), p, -1).astype(i32))
        same_bits(written[p], np.where(want(q, r), p, 0).astype(i32))


@pytest.mark.parametrize("test", ["h < 0", "h < 2**60"])
@pytest.mark.parametrize("text", ["i * 6364136223846793005", "i << 57"])
def test_a_hash_of_64_bits_wraps_around(mapping, text, test):
    k = kernel(f"""
        @tt.jit
        def k(out):
            i = tt.arange(0, 1024).to(tt.int64)
            h = {text}
            tt.store(out + i, 1, mask={test})
    """)
    i, out = np.arange(1024), np.zeros(1024, i32)
    k[1](out, num_warps=mapping.warps)
    same_bits(out, eval(test, {"i": i, "h": eval(text, {"i": i})}).astype(i32))


def test_numbers_where_tiles_are_moved(executor):
    k = kernel("""
        @tt.jit
        def k(out, n):
            i = tt.arange(0, 2)
            tt.store(out + i, tt.interleave(n, 3))
            tt.store(out + 2 + i, tt.ravel(1) + tt.ravel(n))
    """)
    out = np.zeros(4, i32)
    k[1](out, 5)
    assert out.tolist() == [5, 3, 6, 6]


def test_a_number_is_not_split(interpreter):
    k = kernel("@tt.jit\ndef k(out): tt.store(out, tt.split(1)[0])")
    with pytest.raises(tt.TinytonError, match="only a tile whose last extent is 2 is split, not i32"):
        k[1](np.zeros(1, i32))


def test_great_powers_of_integers(executor):
    k = kernel("""
        @tt.jit
        def k(out, n):
            i, m = tt.arange(0, 4), n
            for _ in tt.static_range(6):
                m = m * m
            tt.store(out + (i + m - m), i + m)
    """)
    out = np.zeros(4, i32)
    k[1](out, 3)
    assert out.tolist() == [(i + 3**64 + 2**31) % 2**32 - 2**31 for i in range(4)]
