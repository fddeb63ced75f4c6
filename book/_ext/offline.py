"""Sphinx extension: keep the rendered book free of anything that needs a network.

Jupyter Book always loads sphinx-thebe, which writes the address of a CDN into every page (twice, which is a
script error too). The book's kernels run in JupyterLab, so it is dropped. And browsers refuse
`fetch` on `file://`, so search shows its excerpts only where a server serves the book.
"""

from sphinx.application import Sphinx


def drop_thebe(app: Sphinx, config: object) -> None:
    for listeners in app.events.listeners.values():
        listeners[:] = [one for one in listeners if one.handler.__module__ != "sphinx_thebe"]
    app.registry.css_files[:] = [one for one in app.registry.css_files if one[0] != "sphinx-thebe.css"]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", drop_thebe)
    app.add_js_file(
        None, body="DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== 'file:';", priority=600
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
