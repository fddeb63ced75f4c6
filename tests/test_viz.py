"""Pictures: what their text says, that they draw, and that a page can describe them."""

import base64
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import tinyton as tt
from tinyton import timeline, viz
from tinyton.layout import blocked
from tinyton.page import page

pytest.importorskip("matplotlib")


@tt.jit
def copy(x, out, n, STEP: tt.constexpr, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    value = tt.load(x + i * STEP, mask=i < n)
    tt.store(out + i, value, mask=i < n)


@tt.jit
def strided(x, out, STEP: tt.constexpr, N: tt.constexpr):
    i = tt.arange(0, N)
    tt.shared_store(i, tt.load(x + i))
    tt.store(out + i, tt.shared_load(i * STEP % N))


def floats(n):
    return np.zeros(n, np.float32)


def rows(picture):
    """The cells of a text form, row by row."""
    return [line.split() for line in str(picture).split("\n")[1:]]


def test_a_layout_says_who_holds_what():
    layout = blocked((8, 16), threads=32, vector=2)
    cells = rows(viz.layout(layout))
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            thread, register = map(int, cell.split("."))
            assert layout.at(thread, register) == (y, x)


def test_copies_show_the_first_thread():
    assert rows(viz.layout(blocked((4,), threads=32))) == [["0.0", "1.0", "2.0", "3.0"]]


def test_a_long_tile_in_rows_of_32_and_a_big_one_cropped():
    text = str(viz.layout(blocked((1024,), threads=128, vector=4)))
    assert text.startswith("1024 elements, 128 threads with 8 registers each; the first 16 x 32 (thread.register)")
    assert len(text.split("\n")) == 17


def test_a_kernels_tile(executor):
    compiled = copy.compile(floats(64), floats(64), 64, STEP=1, BLOCK=64, num_warps=1)
    picture = viz.layout(compiled)
    assert str(picture).startswith("value: 64 elements, 32 threads with 2 registers each")
    assert str(viz.layout(compiled, "value")) == str(picture)
    with pytest.raises(tt.TinytonError, match="copy keeps no tile 'nothing' in registers; it keeps value"):
        viz.layout(compiled, "nothing")


def test_access_of_an_array(executor):
    picture = viz.access(copy, 2, floats(100), floats(50), 50, STEP=2, BLOCK=32, num_warps=4)
    first, *lines, last = str(picture).split("\n")
    assert first.startswith("x: elements of 4 bytes, touched by 2 programs")
    assert lines[0].split() == ["0", "0.0", ".", "0.1", ".", "0.2", ".", "0.3", "."]
    assert lines[8].split()[:4] == ["64", "1.0", ".", "1.1"]
    assert last == "load, first access of a warp: 32 lanes ask for 128 bytes and touch 8 sectors of 32"


def test_access_by_programs_that_share_a_warp():
    picture = viz.access(copy, 3, floats(100), floats(100), 90, STEP=1, BLOCK=32)
    first, *lines, last = str(picture).split("\n")
    assert first.startswith("x: elements of 4 bytes, touched by 3 programs")
    assert lines[0].split() == ["0", *["0.0"] * 4, *["0.1"] * 4]
    assert lines[11].split()[:4] == ["88", "2.6", "2.6", "."]
    assert last == "load, first access of a warp: 22 lanes ask for 352 bytes and touch 11 sectors of 32"


def test_lanes_are_whole_numbers():
    picture = viz.access(copy, 3, floats(100), floats(100), 12, STEP=1, BLOCK=16)
    memory, lanes = picture.figure().axes
    assert all(tick == int(tick) for tick in lanes.get_yticks())


def test_access_of_another_array_and_of_vectors():
    picture = viz.access(copy, 1, floats(512), floats(512), 512, array="out", STEP=1, BLOCK=512)
    assert str(picture).split("\n")[1].split() == ["0", *["0.0"] * 4, *["0.1"] * 4]
    assert str(picture).endswith("store, first access of a warp: 32 lanes ask for 512 bytes and touch 16 sectors of 32")
    with pytest.raises(tt.TinytonError, match="copy touches no element of y"):
        viz.access(copy, 1, floats(1), floats(1), 1, array="y", STEP=1, BLOCK=32)


@pytest.mark.parametrize(
    "picture",
    [
        viz.layout(blocked((4, 8), threads=8)),
        viz.access(copy, 2, floats(64), floats(64), 64, STEP=1, BLOCK=32),
        tt.Roofline(100, 1000, "here").plot({"add": (0.1, 8)}),
        viz.banks(strided, 1, floats(256), floats(256), STEP=2, N=256),
        viz.occupancy(threads=256, registers=255),
        timeline._picture([timeline.Span("k", 0, 1e-5, 2e-5, 3e-5)], "a device"),
    ],
    ids=["layout", "access", "roofline", "banks", "occupancy", "timeline"],
)
def test_a_picture_shows_itself(picture, tmp_path):
    data, more = picture._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == str(picture)
    assert more["image/png"]["alt"] == picture.alt and len(picture.alt) > 20
    picture.save(tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


def test_pictures_have_no_background():
    from matplotlib.image import imread

    png = viz.layout(blocked((4, 8), threads=8)).png()
    import io

    assert imread(io.BytesIO(png))[0, 0, 3] == 0


def test_the_style_is_for_matplotlib():
    import matplotlib

    with matplotlib.rc_context(viz.style()):
        assert matplotlib.rcParams["text.color"] == viz.GREY


# shared memory


@tt.jit
def turned(x, out, N: tt.constexpr):
    i, j = tt.arange(0, N), tt.arange(0, N)
    tile = tt.load(x + i[:, None] * N + j[None, :])
    tt.store(out + j[:, None] * N + i[None, :], tt.trans(tile))


def test_banks_of_a_stride(executor):
    picture = viz.banks(strided, 1, floats(256), floats(256), STEP=8, N=256, num_warps=8)
    first, *table, stored, loaded = str(picture).split("\n")
    assert first.endswith(": 32 lanes ask for 32 elements of 4 bytes in 4 banks: 8 passes")
    assert first.startswith("load, line ")
    cells = [line.split() for line in table]
    assert [row[0] for row in cells] == [str(k) for k in range(8)]
    for row, (_, *words) in enumerate(cells):
        assert {bank: w for bank, w in enumerate(words) if w != "."} == {8 * k: str(4 * row + k) for k in range(4)}
    assert stored.endswith("8 warp accesses, 0 bank conflicts") and loaded.endswith(
        "8 warp accesses, 56 bank conflicts"
    )
    assert picture.alt.startswith("The banks of shared memory. load, line ")


def test_lanes_that_share_a_word_and_wide_elements():
    text = str(viz.banks(strided, 1, floats(64), floats(64), STEP=0, N=64, num_warps=2))
    assert ": 32 lanes ask for 32 elements of 4 bytes in 32 banks: 1 pass\n" in text
    assert "load" not in text.split("\n")[0] and text.endswith("2 warp accesses, 0 bank conflicts")
    wide = viz.banks(strided, 1, np.zeros(64), np.zeros(64), STEP=2, N=64, num_warps=2)
    assert "32 lanes ask for 32 elements of 8 bytes in 8 banks: 4 passes" in str(wide)


def test_banks_of_a_tile_that_changes_its_layout():
    picture = viz.banks(turned, 1, floats(1024), floats(1024), N=32, num_warps=4)
    count = tt.count(turned, 1, floats(1024), floats(1024), N=32, num_warps=4)
    told = [line.split() for line in str(picture).split("\n") if "bank conflicts" in line]
    assert sum(int(line[3]) for line in told) == count.shared_requests
    assert sum(int(line[6]) for line in told) == count.bank_conflicts


def test_no_shared_memory():
    with pytest.raises(tt.TinytonError, match="copy does not use shared memory here"):
        viz.banks(copy, 1, floats(64), floats(64), 64, STEP=1, BLOCK=64)


# occupancy


def test_occupancy_of_numbers():
    picture = viz.occupancy(threads=128, registers=40, target="sm_90")
    first, *lines = str(picture).split("\n")
    assert first == "12 programs, 48 warps a multiprocessor: 75%, limited by registers"
    assert [line.split() for line in lines] == [
        ["threads", "1,536", "of", "2,048", "75%"],
        ["registers", "61,440", "of", "65,536", "94%"],
        ["shared", "memory", "12,288", "of", "233,472", "5%"],
        ["programs", "12", "of", "32", "38%"],
    ]
    small = str(viz.occupancy(threads=8, registers=24, programs_per_block=16, shared_bytes=0, target="sm_80"))
    assert small.startswith("256 programs, 64 warps") and "programs                16 of" in small
    assert "limited by shared memory" in str(viz.occupancy(shared_bytes=100_000, target="sm_86"))
    with pytest.raises(tt.TinytonError, match="like sm_90, not 'sm90'"):
        viz.occupancy(target="sm90")


def test_occupancy_of_a_kernel_for_a_cpu(monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "interpreter")
    with pytest.raises(tt.TinytonError, match="copy is compiled for interpreter, where nobody counts registers: build"):
        viz.occupancy(copy.compile(floats(64), floats(64), 64, STEP=1, BLOCK=64))


# timelines


def test_a_timeline(executor):
    x, out = tt.to_device(floats(1 << 16)), tt.zeros(1 << 16)

    def call():
        copy[64](x, out, 1 << 16, STEP=1, BLOCK=1024)
        strided[1](x, out, STEP=1, N=64)
        copy[64](out, x, 1 << 16, STEP=1, BLOCK=1024)

    seen = viz.timeline(call)
    assert [s.name for s in seen.spans] == ["copy", "strided", "copy"]
    for before, span in zip([None, *seen.spans], seen.spans, strict=False):
        assert span.called < span.returned and span.start < span.end <= seen.seconds
        assert before is None or before.returned == span.called and before.end <= span.start
    assert 0 < seen.busy <= 1
    title, head, *rows = str(seen).split("\n")
    assert title.startswith("3 launches in ") and head.split()[0] == "kernel"
    assert [row.split()[0] for row in rows] == ["copy", "strided", "copy"]
    assert seen.alt.startswith("A timeline with a row for the host and a row for the device. 3 launches in ")
    executor = tt.backends.current()
    assert executor.recorder is executor.timed is None and not getattr(executor, "recorded", None)


def test_a_timeline_of_a_graph(executor):
    x = tt.zeros(256)
    with tt.graph() as g:
        for _ in range(30):
            copy[1](x, x, 256, STEP=1, BLOCK=256)
        with pytest.raises(tt.TinytonError, match="being recorded already"):
            viz.timeline(lambda: None)
    seen = viz.timeline(g.replay)
    if executor == "cuda":
        assert [s.name for s in seen.spans] == ["graph of 30"]
    else:
        assert len(seen.spans) == 30 and str(seen).endswith("and 6 more")


def test_a_timeline_of_nothing(executor):
    with pytest.raises(tt.TinytonError, match="launches no kernel of tinyton's"):
        viz.timeline(lambda: None)
    with pytest.raises(ZeroDivisionError):
        viz.timeline(lambda: 1 / 0)
    assert not getattr(tt.backends.current(), "recorder", None)


# the page of a kernel


class Lines(HTMLParser):
    """The lines of a page's listings, each with the line of Python that it belongs to."""

    def __init__(self, page):
        super().__init__()
        self.found, self.depth = [], 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "pre":
            self.depth = 1
        elif self.depth:
            self.depth += 1
            if self.depth == 2:
                self.found.append(["", dict(attributes).get("data-line")])

    def handle_endtag(self, tag):
        self.depth -= self.depth > 0

    def handle_data(self, data):
        if self.depth > 1:
            self.found[-1][0] += data

    def line(self, text):
        return next(int(line) if line else None for shown, line in self.found if text in shown)


def test_a_page_of_a_kernel(executor, tmp_path, capsys):
    compiled = strided.compile(floats(256), floats(256), STEP=1, N=256, num_warps=4)
    told = compiled.explain(html=tmp_path / "k.html")
    assert capsys.readouterr().out == "" and told.ir == str(compiled.ir)
    text = (tmp_path / "k.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and "http" not in text
    line = strided.source.first_line + 3
    lines = Lines(text)
    assert lines.line("tt.shared_store(i, tt.load(x + i))") == line
    assert lines.line("= load ") == line and lines.line("= arange ") == line - 1
    assert lines.line("// tt.shared_store(") == line and lines.line("kernel strided(") is None
    assert [f'id="{name}"' in text for name in ("Python", "IR", "C", "Layouts")] == [True] * 4
    assert ('id="PTX"' in text) == (executor == "cuda")


def test_a_page_without_pygments_and_matplotlib(interpreter, monkeypatch):
    for name in ("pygments", "pygments.formatters", "pygments.lexers", "matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    text = page(strided.compile(floats(256), floats(256), STEP=1, N=256))
    assert "tt.shared_load(i * STEP % N)" in text and "<img" not in text and "&lt;" not in text.split("<pre")[1]


# kernels under the roofs


def test_a_kernel_under_the_roofs():
    count = tt.Count(bytes_loaded=96, sectors_loaded=3, sectors_stored=1, flops=256)
    picture = tt.Roofline(100, 1000, "here").plot({"k": (count, tt.Timing((1e-9,), "clock")), "other": (1, 50)})
    assert "k: 2 operations a byte, 256 GFLOP/s, 128% of the roof" in str(picture)
    with pytest.raises(tt.TinytonError, match="a kernel without arithmetic has no place under the roofs"):
        tt.Roofline(100, 1000, "here").plot({"k": (tt.Count(), tt.Timing((1.0,), "clock"))})
