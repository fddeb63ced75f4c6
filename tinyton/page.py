"""``compiled.explain(html=path)``: everything that a kernel is on its way to the device, as one HTML page. It needs no
other file; the lines that a line of Python became are lit up together."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape
from typing import Any

from .errors import Loc, TinytonError
from .explain import layouts

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #222; --faint: #777; --line: #ddd; --lit: #fff0b8; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #16181c; --text: #ddd; --faint: #999; --line: #3a3d44; --lit: #4a4320; }
}
body { margin: 1rem; background: var(--ground); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.2rem; } h2 { font-size: 1rem; margin: 1rem 0 .3rem; }
a { color: inherit; } nav a { margin-right: 1rem; }
.beside { display: grid; gap: 1rem; grid-template-columns: repeat(3, minmax(0, 1fr)); align-items: start; }
@media (max-width: 70rem) { .beside { grid-template-columns: minmax(0, 1fr); } }
pre { margin: 0; padding: .5rem 0; border: 1px solid var(--line); border-radius: 4px; overflow: auto; max-height: 80vh;
  font: 12.5px/1.5 ui-monospace, monospace; tab-size: 4; }
pre > span { display: block; padding: 0 .6rem; min-width: max-content; } pre > span.lit { background: var(--lit); }
pre i { display: inline-block; width: 2.2em; color: var(--faint); font-style: normal; user-select: none; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; } td:first-child { color: var(--faint); }
figure { display: inline-block; margin: .5rem 1rem .5rem 0; max-width: 100%; } figure img { max-width: 100%; }
figcaption { color: var(--faint); font-size: .9em; } p { color: var(--faint); }
"""
SCRIPT = """
const lines = document.querySelectorAll('[data-line]');
const light = (event, on) => {
  const at = event.target.closest('[data-line]');
  if (at) for (const x of lines) if (x.dataset.line === at.dataset.line) x.classList.toggle('lit', on);
};
document.addEventListener('mouseover', event => light(event, true));
document.addEventListener('mouseout', event => light(event, false));
"""


def page(compiled: Any) -> str:
    """The page of a compiled kernel, as text."""
    title, cuda = repr(compiled).strip("<>"), getattr(getattr(compiled, "executor", None), "name", "cuda") == "cuda"
    first, python = compiled.python.first_line, "\n".join(compiled.python.lines).rstrip().split("\n")
    beside = [
        ("Python", "python", [(text, n) for n, text in enumerate(python, first)]),
        ("IR", "text", list(zip(str(compiled.ir).split("\n"), _ir_lines(compiled.ir), strict=True))),
        ("C", "cuda" if cuda else "c", [(text, _line(at)) for text, at in compiled.low.lines]),
    ]
    below = [("Layouts", "text", [(text, None) for text in layouts(compiled.low).split("\n")])]
    for name, lexer, word in (("PTX", "ptx", "ptx"), ("SASS", "text", "sass")):
        if cuda and (text := _asked(compiled, word)):
            below.append((name, lexer, [(line, None) for line in text.rstrip().split("\n")]))
    names = [name for name, *_ in beside + below]
    columns = "".join(f"<section>{_listing(*part, numbers=part[0] == 'Python')}</section>" for part in beside)
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(compiled.name)}</title><style>{STYLE}{_colours()}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            f"<nav>{''.join(f'<a href=#{name}>{name}</a>' for name in names)}</nav>",
            _figures(compiled),
            "<p>Point at a line: what it became is lit up.</p>",
            f'<div class="beside">{columns}</div>',
            *_pictures(compiled),
            *(_listing(*part) for part in below),
            f"<script>{SCRIPT}</script></body></html>\n",
        ]
    )


def _asked(compiled: Any, word: str) -> Any:
    """What a kernel knows of itself, if it does."""
    try:
        found = getattr(compiled, word, None)
        return found() if callable(found) else found
    except TinytonError:
        return None


def _line(at: Loc | None) -> int | None:
    """The kernel's own line that something comes from: where a function is called, for what is in it."""
    while at is not None and at.caller is not None:
        at = at.caller
    return at.line if at else None


def _ir_lines(kernel: Any) -> Iterable[int | None]:
    """For each line of the printed IR, the line of Python."""
    ops = iter(kernel.ops())
    for text in str(kernel).split("\n"):
        own = not text.lstrip().startswith(("kernel ", "do (", "else (", "yield "))
        yield _line(next(ops).loc) if own else None


def _figures(compiled: Any) -> str:
    words = {
        "threads": "threads a program",
        "programs_per_block": "programs a block",
        "registers": "registers a thread",
    }
    words |= {"spills": "bytes of registers spilled, a thread", "shared_bytes": "bytes of shared memory a program"}
    rows = {text: _asked(compiled, word) for word, text in words.items()} | {"occupancy": _asked(compiled, "occupancy")}
    cells = "".join(f"<tr><td>{t}</td><td>{escape(str(x))}</td></tr>" for t, x in rows.items() if x is not None)
    return f"<table>{cells}</table>"


def _pictures(compiled: Any) -> Iterable[str]:
    from . import viz

    drawn = []
    try:
        drawn += [viz.layout(compiled)] if compiled.threads > 1 else []
        drawn += [viz.occupancy(compiled)] if _asked(compiled, "registers") else []
        for picture in drawn:
            data, alt = base64.b64encode(picture.png()).decode(), escape(picture.alt, quote=True)
            yield f'<figure><img src="data:image/png;base64,{data}" alt="{alt}"></figure>'
    except (ImportError, TinytonError):  # no matplotlib; no tile
        return


def _listing(name: str, lexer: str, lines: list[tuple[str, int | None]], numbers: bool = False) -> str:
    """Text with a span a line, coloured where Pygments is installed."""
    shown = _coloured([text for text, _ in lines], lexer)
    out = [f'<h2 id="{name}">{name}</h2><pre class="code">']
    for html, (_, line) in zip(shown, lines, strict=True):
        out.append(f"<span{f' data-line={line}' if line else ''}>{f'<i>{line}</i>' * numbers}{html or ' '}</span>")
    return "".join(out) + "</pre>"


def _coloured(lines: list[str], lexer: str) -> list[str]:
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:
        return [escape(text) for text in lines]
    try:
        found = get_lexer_by_name(lexer, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return [escape(text) for text in lines]
    out = highlight("\n".join(lines), found, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    out += [""] * (len(lines) - len(out))
    return out if len(out) == len(lines) else [escape(text) for text in lines]


def _colours() -> str:
    try:
        from pygments.formatters import HtmlFormatter
    except ImportError:
        return ""
    light, dark = (HtmlFormatter(style=s, nobackground=True).get_style_defs(".code") for s in ("default", "monokai"))
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}"
