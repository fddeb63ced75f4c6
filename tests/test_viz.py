"""Pictures: what their text says, that they draw, and that a page can describe them."""

import base64

import numpy as np
import pytest

import tinyton as tt
from tinyton import viz
from tinyton.layout import blocked

pytest.importorskip("matplotlib")


@tt.jit
def copy(x, out, n, STEP: tt.constexpr, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    value = tt.load(x + i * STEP, mask=i < n)
    tt.store(out + i, value, mask=i < n)


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
    ],
    ids=["layout", "access", "roofline"],
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
