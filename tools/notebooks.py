"""Keep the chapters: run them, normalise them, turn them into text and back.

    python tools/notebooks.py refresh [CHAPTER...]        run in place on this machine, normalise, validate
    python tools/notebooks.py refresh-text [CHAPTER...]   rewrite what tinyton.show(...) printed; needs no GPU
    python tools/notebooks.py normalise [--check] [CHAPTER...]
    python tools/notebooks.py status [--check]            write book/status.md from the chapters' stamps
    python tools/notebooks.py import FILE.py CHAPTER      text to notebook
    python tools/notebooks.py export CHAPTER [FILE.py]    notebook to text

Without CHAPTER, all that _toc.yml lists. The notebook is the source; its text form is for writing:

    # %% [markdown] roofline
    # ## The roofline
    #
    # Bytes and flops.
    # %% roofline-sweep [tags: measure nbval-ignore-output] [alt: GB/s against bytes, flat from 64 MB on]
    tinyton.sweep(...)

The word after `# %%` is the cell's id; without one, it is made from the last heading. `alt` describes the
picture that the cell draws, for readers who do not see it. Importing over a notebook whose code is
unchanged keeps its outputs; otherwise they are dropped: all must come from one run.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# The part of a path that names the machine: all before the package, the chapter, or Python's own library.
MACHINE = re.compile(
    r"(?<![\w.:/])(?:~|/)[\w.+~-]*/(?:[\w.+~-]+/)*?(?=(?:tinyton|chapters|site-packages|python3\.\d+)/)"
)
ANSI = re.compile(r"\x1b\[[\d;]*m")


def chapters() -> list[Path]:
    """The chapters that _toc.yml lists, in order, whether or not the files exist."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    pages = [page["file"] for part in toc["parts"] for page in part["chapters"]]
    return [ROOT / f"{page}.ipynb" for page in pages if page.startswith("chapters/")]


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def alt(cell: NotebookNode) -> str:
    """What the picture that a cell draws shows, in words. Jupyter Book reads it from the cell's metadata."""
    return cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")


def describe(cell: NotebookNode, tags: list[str], alt: str) -> None:
    """Set a cell's metadata to these two things and nothing else."""
    cell.metadata = nbformat.from_dict(
        ({"tags": tags} if tags else {}) | ({"mystnb": {"image": {"alt": alt}}} if alt else {})
    )


def code_cells(nb: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in nb.cells if cell.cell_type == "code"]


# -- normalise -------------------------------------------------------------------------------------


def normalised(nb: NotebookNode) -> str:
    """The one spelling of a notebook: ids, tags and outputs stay; timestamps and machine paths go."""
    nb.nbformat, nb.nbformat_minor = 4, 5
    nb.metadata = nbformat.from_dict(KERNEL)
    for cell in nb.cells:
        describe(cell, tags(cell), alt(cell))
        cell.source = cell.source.strip("\n")
        cell.pop("attachments", None)
        for output in cell.get("outputs", []):
            _clean(output)
    nbformat.validate(nb)
    return nbformat.writes(nb).rstrip("\n") + "\n"


def _clean(output: NotebookNode) -> None:
    if "metadata" in output:
        output.metadata = NotebookNode()
    if output.output_type == "stream":
        output.text = MACHINE.sub("", output.text)
    elif output.output_type == "error":
        output.traceback = [MACHINE.sub("", ANSI.sub("", line)) for line in output.traceback]
    for mime, data in output.get("data", {}).items():
        if mime.startswith("text/"):
            output.data[mime] = MACHINE.sub("", data)


def normalise(paths: list[Path], check: bool) -> bool:
    clean = True
    for path in paths:
        text = normalised(read(path))
        if path.read_text(encoding="utf-8") != text:
            clean = False
            print(f"{path.relative_to(ROOT)}: {'not normalised' if check else 'normalised'}")
            if not check:
                path.write_text(text, encoding="utf-8")
    return clean or not check


# -- run -------------------------------------------------------------------------------------------


@contextmanager
def empty_kernel_cache() -> Iterator[None]:
    """Chapters count compiles: each runs in a kernel cache of its own that starts empty."""
    before = os.environ.get("TINYTON_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="tinyton-") as folder:
        os.environ["TINYTON_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("TINYTON_CACHE_DIR")
            if before is not None:
                os.environ["TINYTON_CACHE_DIR"] = before


def execute(nb: NotebookNode) -> NotebookNode:
    """Run all cells in a new kernel, in the chapters' folder. A cell tagged raises-exception may raise."""
    from nbclient import NotebookClient

    where = {"metadata": {"path": str(ROOT / "chapters")}}
    with empty_kernel_cache():
        NotebookClient(nb, timeout=600, kernel_name="python3", record_timing=False, resources=where).execute()
    return nb


def refresh(paths: list[Path]) -> bool:
    for path in paths:
        print(f"running {path.relative_to(ROOT)}", flush=True)
        path.write_text(normalised(execute(read(path))), encoding="utf-8")
    nbval = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=600", "-q", "-p", "no:cacheprovider"]
    return subprocess.run([sys.executable, "-m", "pytest", *nbval, *map(str, paths)], cwd=ROOT).returncode == 0


def is_show(cell: NotebookNode) -> bool:
    """Whether a code cell is `tinyton.show(...)` and nothing else."""
    try:
        body = ast.parse(cell.source).body
    except SyntaxError:  # a magic
        return False
    return bool(body) and all(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) in ("tinyton.show", "tt.show")
        for node in body
    )


def shown(nb: NotebookNode) -> list[tuple[NotebookNode, list[NotebookNode]]]:
    """Each show cell of a chapter, with the outputs that the package as it stands gives for it."""
    cells = [cell for cell in code_cells(nb) if is_show(cell)]
    if not cells:
        return []
    fresh = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import tinyton\ntt = tinyton")])
    fresh.cells += [nbformat.v4.new_code_cell(cell.source) for cell in cells]
    outputs = [cell.outputs for cell in execute(fresh).cells[1:]]
    for cell, new in zip(cells, outputs, strict=True):
        for output in new:
            _clean(output)
            if "execution_count" in output:
                output.execution_count = cell.execution_count
    return list(zip(cells, outputs, strict=True))


def refresh_text(paths: list[Path]) -> bool:
    for path in paths:
        nb = read(path)
        for cell, outputs in shown(nb):
            cell.outputs = outputs
        path.write_text(normalised(nb), encoding="utf-8")
    return True


# -- status ------------------------------------------------------------------------------------------

STATUS = """\
# Status

The outputs in a chapter all come from one run on one machine. Its first cell prints the machine's stamp, and
this page collects the stamps; `python tools/notebooks.py status` writes it.

{table}

The test suite runs every chapter again, with or without a GPU, whichever the machine has. It compares each
output with the one stored here, except in cells that measure or print what depends on the machine. The claims
about what was measured are compared everywhere.

## The language

Here:

- `tt`, the language of pointers, offsets and masks, with the names of Triton and of tiny-ton. With
  `import tinyton as triton` and `import tinyton.language as tl`, kernels that were written for Triton run.
- `ct`, the language of arrays and tile indices, with the names of cuTile. With `import tinyton.tile as ct`, kernels
  that were written for cuTile run, as far as they are not about Blackwell; [a page](known-gaps.md) says what is
  missing.
- Python in a kernel: loops, early exits, tuples, calls of functions under `@tt.jit`. What is not supported is
  refused, with a caret.
- `tt.dot` and `ct.mma`: on tensor cores, with copies that run ahead, where the card has them; else in plain arithmetic.
- Around kernels: timing, sweeps, counted work, the measured roofs, pictures, graphs of launches, and `tt.autotune`,
  whose winners are kept with the card that they won on.

Where rules differ from those of NumPy, Triton and cuTile, [a page](differences.md) says so, row by row, and each row is
a test. [Every function](reference/language.md) has an example, which is run on every executor.

## What is tested

More than seven thousand cases, where the interpreter and OpenCL are present; a GPU adds its own run of every kernel.

- Every operation, on every executor, against NumPy, with random inputs and the awkward ones; many to the last bit.
- What must be refused: the message, and the place that the caret marks.
- Random kernels: a fuzzer writes them, runs them on each executor, and compares with a model of the language in NumPy.
- Every snapshot of a stage, with the suites of all stages up to it.
- Faults of the field: what people have reported about systems of this kind, and what must happen here instead.
- The CUDA text of every kernel that the tests compile, with `nvcc`, which needs no GPU.
"""
COLUMNS = ("device", "driver", "cuda", "compiler", "python", "date")


def stamp(nb: NotebookNode) -> dict[str, str]:
    """What the first code cell, `tinyton.env()`, printed: a name and a value a line."""
    outputs = code_cells(nb)[0].outputs
    text = "\n".join(output.get("data", {}).get("text/plain", "") for output in outputs)
    return dict(line.split(maxsplit=1) for line in text.splitlines() if len(line.split()) > 1)


def title(nb: NotebookNode) -> str:
    return nb.cells[0].source.partition("\n")[0].lstrip("# ")


def status(check: bool) -> bool:
    rows = [["chapter", *COLUMNS], ["---"] * (len(COLUMNS) + 1)]
    for path in chapters():
        nb = read(path)
        found = stamp(nb)
        link = f"[{title(nb)}](../{path.relative_to(ROOT).as_posix()})"
        rows.append([link, *(found.get(column, "not run") for column in COLUMNS)])
    text = STATUS.format(table="\n".join(f"| {' | '.join(row)} |" for row in rows))
    page = ROOT / "book/status.md"
    if check and page.read_text(encoding="utf-8") != text:
        print("book/status.md is not what the chapters' stamps say: run tools/notebooks.py status")
        return False
    page.write_text(text, encoding="utf-8")
    return True


# -- text and back ---------------------------------------------------------------------------------


def from_text(text: str) -> NotebookNode:
    """Parse the percent format of the module's docstring into a notebook without outputs."""
    cells: list[NotebookNode] = []
    section, used = "start", set()
    for block in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        header, _, body = block.partition("\n")
        options = dict(re.findall(r"\[(tags|alt): *([^\]]*)\]", header))
        name = re.sub(r"\[[^\]]*\]", "", header).strip()
        if "[markdown]" in header:
            source = "\n".join(re.sub(r"^# ?", "", line) for line in body.strip("\n").splitlines())
            cell = nbformat.v4.new_markdown_cell(source)
            if heading := re.search(r"^#+ +(.+)$", source, flags=re.MULTILINE):
                section = re.sub(r"[^a-z0-9]+", "-", heading[1].lower()).strip("-")[:48]
        else:
            cell = nbformat.v4.new_code_cell(body.strip("\n"))
        describe(cell, options.get("tags", "").split(), options.get("alt", ""))
        candidates = (f"{section}-{n}" if n else section for n in range(len(cells) + 1))
        cell.id = name or next(one for one in candidates if one not in used)
        if cell.id in used:
            raise ValueError(f"two cells are called {cell.id!r}")
        used.add(cell.id)
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells)


def to_text(nb: NotebookNode) -> str:
    blocks = []
    for cell in nb.cells:
        markdown = cell.cell_type == "markdown"
        header = f"# %%{' [markdown]' if markdown else ''} {cell.id}"
        if tags(cell):
            header += f" [tags: {' '.join(tags(cell))}]"
        if alt(cell):
            header += f" [alt: {alt(cell)}]"
        lines = cell.source.splitlines()
        blocks.append("\n".join([header, *(f"# {line}".rstrip() if markdown else line for line in lines)]))
    return "\n\n".join(blocks) + "\n"


def import_text(source: Path, target: Path) -> bool:
    nb = from_text(source.read_text(encoding="utf-8"))
    old = code_cells(read(target)) if target.exists() else []
    new = code_cells(nb)
    if [cell.source for cell in old] == [cell.source for cell in new]:
        for before, after in zip(old, new, strict=True):
            after.outputs, after.execution_count = before.outputs, before.execution_count
    elif old:
        print(f"{target}: code changed, outputs dropped; run refresh")
    target.write_text(normalised(nb), encoding="utf-8")
    return True


def export_text(source: Path, target: Path | None) -> bool:
    text = to_text(read(source))
    target.write_text(text, encoding="utf-8") if target else print(text, end="")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("refresh", "refresh-text", "normalise"):
        commands.add_parser(name).add_argument("paths", nargs="*", type=Path)
    commands.add_parser("status")
    for name in ("normalise", "status"):
        commands.choices[name].add_argument("--check", action="store_true")
    for name, optional in (("import", None), ("export", "?")):
        command = commands.add_parser(name)
        command.add_argument("source", type=Path)
        command.add_argument("target", type=Path, nargs=optional)
    args = parser.parse_args()
    paths = [path.resolve() for path in getattr(args, "paths", [])] or chapters()
    match args.command:
        case "refresh":
            done = refresh(paths)
        case "refresh-text":
            done = refresh_text(paths)
        case "normalise":
            done = normalise(paths, args.check)
        case "status":
            done = status(args.check)
        case "import":
            done = import_text(args.source, args.target)
        case "export":
            done = export_text(args.source, args.target)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
