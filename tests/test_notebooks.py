"""What holds of every chapter's stored notebook. That its cells still give these outputs is nbval's part."""

import re
from pathlib import Path

import nbformat
import pytest

from tools import notebooks

CHAPTERS = notebooks.chapters()
ROOT = notebooks.ROOT
IGNORED = "nbval-ignore-output"
FROM_A_CPU: set[str] = set()  # chapters that no GPU has run yet
ABSOLUTE = re.compile(r"(?<![\w.:/<])/(?:home|root|tmp|usr|opt|work|mnt|Users)/")
MEASURED = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s*(?:[GT]B/s|[GT]FLOP/s|ms|µs|us|ns)\b")


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def nb(path):
    return notebooks.read(path)


@pytest.fixture
def code(nb):
    return notebooks.code_cells(nb)


def words(cell):
    """All text that a cell's outputs show."""
    for output in cell.outputs:
        yield output.get("text", "")
        yield "\n".join(output.get("traceback", []))
        yield from (data for mime, data in output.get("data", {}).items() if mime.startswith("text/"))


def test_there_are_chapters():
    assert CHAPTERS


def test_ran_once_from_top_to_bottom(code):
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


def test_starts_with_the_stamp_of_a_gpu(path, nb, code):
    assert "tinyton.env()" in code[0].source and IGNORED in notebooks.tags(code[0])
    stamp = notebooks.stamp(nb)
    assert set(notebooks.COLUMNS) <= set(stamp)
    if path.stem[:2] in FROM_A_CPU:
        assert stamp["mode"] == "cpu", "it has run on a GPU: take it off the list"
    else:
        assert stamp["mode"] == "gpu" and "NVIDIA" in stamp["device"], "stored outputs come from a GPU"


def test_measures_and_claims(code):
    def tagged(tag):
        return [n for n, cell in enumerate(code) if tag in notebooks.tags(cell)]

    measures, claims, ignored = tagged("measure"), tagged("claim"), tagged(IGNORED)
    assert measures and claims and max(claims) > max(measures), "every measured sweep is followed by a claim"
    assert set(measures) <= set(ignored), "what is measured differs from run to run"
    assert not set(claims) & set(ignored), "a claim is compared"
    assert sum(bool(cell.outputs) for n, cell in enumerate(code) if n not in ignored) >= 3


def test_marks_cells_with_tags_only(nb, code):
    assert not [cell.id for cell in code if "NBVAL" in cell.source]
    known = {"measure", "claim", IGNORED, "raises-exception", "hide-input", "hide-output", "remove-cell"}
    assert {tag for cell in nb.cells for tag in notebooks.tags(cell)} <= known


def test_a_cell_that_raises_says_so(code):
    for cell in code:
        raised = any(output.output_type == "error" for output in cell.outputs)
        assert raised == ("raises-exception" in notebooks.tags(cell)), cell.id


def test_sources_are_plain(nb, code):
    for cell in nb.cells:
        assert cell.source.strip() and not ABSOLUTE.search(cell.source), cell.id
    for cell in code:
        assert not cell.source.endswith(";"), f"{cell.id}: nbval shows the output all the same"
        assert not re.search(r"^[%!]|pip install", cell.source, re.MULTILINE), f"{cell.id}: a magic or a shell"


def test_outputs_are_plain(code):
    mimes = {"text/plain", "text/html", "text/markdown", "image/png"}
    for cell in code:
        for output in cell.outputs:
            assert set(output.get("data", {})) <= mimes, cell.id
        for text in words(cell):
            assert not ABSOLUTE.search(text), f"{cell.id}: a path of the machine"
            assert not re.match(r"np\.\w+\(", text), f"{cell.id}: a NumPy scalar, spelled otherwise by version"


def test_pictures_have_words(code):
    for cell in code:
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            assert notebooks.alt(cell), f"{cell.id}: [alt: what the picture shows] is missing"


def test_numbers_in_the_text_are_in_an_output(nb, code):
    """A figure with a unit in the prose must be some output's figure, rounded as the prose rounds it."""
    shown = {float(number) for cell in code for text in words(cell) for number in re.findall(r"\d+(?:\.\d+)?", text)}
    for cell in nb.cells:
        if cell.cell_type != "markdown":
            continue
        for quoted in MEASURED.findall(cell.source):
            digits = len(quoted.partition(".")[2])
            value = float(quoted.replace(",", ""))
            assert any(round(one, digits) == value for one in shown), f"{cell.id}: {quoted} is in no output"


def test_is_normalised(path, nb):
    assert path.read_text(encoding="utf-8") == notebooks.normalised(nb), "run tools/notebooks.py normalise"
    assert path.stat().st_size < 1_000_000


def test_shows_the_package_as_it_is(nb):
    for cell, outputs in notebooks.shown(nb):
        assert IGNORED in notebooks.tags(cell), cell.id
        assert cell.outputs == outputs, f"{cell.id} is stale: run tools/notebooks.py refresh-text"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "book").rglob("*.md")), *CHAPTERS], ids=lambda page: page.name
)
def test_links_resolve(page: Path):
    if page.suffix == ".ipynb":
        text = "\n".join(cell.source for cell in notebooks.read(page).cells if cell.cell_type == "markdown")
    else:
        text = page.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)", text)]
    local = [target for target in targets if target and not re.match(r"\w+:", target)]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_status_page_is_current():
    assert notebooks.status(check=True)


# -- the tool ----------------------------------------------------------------------------------------

TEXT = """\
# %% [markdown] title
# # A title
#
# Words.

# %% title-1 [tags: measure nbval-ignore-output] [alt: a line]
x = 1  # not %% a cell
x

# %% title-2
print(x)
"""


def test_text_and_back():
    assert notebooks.to_text(notebooks.from_text(TEXT)) == TEXT


def test_ids_come_from_headings():
    nb = notebooks.from_text(re.sub(r" title(-\d)?", "", TEXT).replace("# # A", "# # A title"))
    assert [cell.id for cell in nb.cells] == ["a-title", "a-title-1", "a-title-2"]


def test_import_keeps_outputs_only_of_unchanged_code(tmp_path):
    source, target = tmp_path / "one.py", tmp_path / "one.ipynb"
    source.write_text(TEXT)
    notebooks.import_text(source, target)
    nb = notebooks.read(target)
    nb.cells[2].outputs = [nbformat.v4.new_output("stream", text="1\n")]
    target.write_text(notebooks.normalised(nb))

    source.write_text(TEXT.replace("Words", "Other words"))
    notebooks.import_text(source, target)
    assert notebooks.read(target).cells[2].outputs == nb.cells[2].outputs
    source.write_text(TEXT.replace("x = 1", "x = 2"))
    notebooks.import_text(source, target)
    assert notebooks.read(target).cells[2].outputs == []


def test_normalising_removes_the_machine():
    nb = notebooks.from_text(TEXT)
    nb.metadata["language_info"] = {"version": "3.11.7"}
    nb.cells[1].metadata["execution"] = {"iopub.status.busy": "2026-01-01"}
    nb.cells[1].outputs = [
        nbformat.v4.new_output("stream", text="at /usr/lib/python3.12/ast.py, ~/src/tinyton/jit.py, 4 B/s a/b"),
        nbformat.v4.new_output("error", ename="E", evalue="no", traceback=["\x1b[31mE\x1b[0m: no"]),
    ]
    text = notebooks.normalised(nb)
    assert "at python3.12/ast.py, tinyton/jit.py, 4 B/s a/b" in text
    assert '"E: no"' in text and "3.11.7" not in text and "iopub" not in text
    assert notebooks.normalised(nbformat.reads(text, as_version=4)) == text
