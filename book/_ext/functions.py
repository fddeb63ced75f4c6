"""Sphinx extension: the pages of the language and of the tools, made of the package's docstrings.

    ```{functions} tt
    load
    DeviceArray: numpy data_ptr
    ```

gives each of these names of `tinyton` (``ct``: of `tinyton.tile`) its signature, its docstring and its example, and a
line to each member of a class that is named behind it.
"""

from __future__ import annotations

import inspect
import re
from enum import EnumType
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

MODULES = {"tt": "tinyton", "ct": "tinyton.tile"}


def signature(thing: Any) -> str:
    """The parameters with their defaults; docstrings say what they are."""
    try:
        found = inspect.signature(thing)
    except ValueError:  # it has none
        return "()"
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    plain = plain[2:] if plain and plain[0].name == "b" else plain  # a method of a record: the builder, the record
    shown = [p.replace(default=_Word(p.default)) if p.default is not p.empty else p for p in plain]
    return str(inspect.Signature(shown))


class _Word:
    """A default value as one writes it."""

    def __init__(self, value: Any):
        self.text = getattr(value, "__name__", None) or (str(value) if hasattr(value, "itemsize") else repr(value))
        if isinstance(type(value), EnumType):
            self.text = f"{type(value).__name__}.{value.name}"

    def __repr__(self) -> str:
        return self.text


def find(short: str, name: str) -> Any:
    """What has this name; a method of an array in a kernel is among those of its record."""
    owner, _, method = name.rpartition(".")
    if owner and inspect.isclass(found := find(short, owner)):
        return found.METHODS[method] if method in found.METHODS else getattr(found, method)
    return getattr(import_module(f"{MODULES[short]}{'.' + owner if owner else ''}"), method)


def entry(short: str, name: str, members: str = "") -> list[str]:
    """A name of a module as a directive of Sphinx, in MyST."""
    module = import_module(MODULES[short])
    thing = find(short, name)
    kind = "function" if not inspect.isclass(thing) else "class"
    head = f"{short}.{name}{signature(thing) if kind == 'function' else ''}"
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        kind = "exception"

    def reference(word: re.Match) -> str:
        known = callable(getattr(module, word[1], None))
        return f"{{py:obj}}`{word[1]} <{short}.{word[1]}>`" if known and word[1] != name else f"`{word[1]}`"

    doc = re.sub(r"(?<!`)`(\w+)`(?!`)", reference, inspect.getdoc(thing) or "")
    lines = []
    for paragraph in re.split(r"\n\n", doc):
        example = paragraph.startswith(">>>")
        lines += ["```pycon", *paragraph.split("\n"), "```", ""] if example else [*paragraph.split("\n"), ""]
    if isinstance(thing, EnumType):
        lines += [", ".join(f"`{m}`" for m in thing.__members__) + ".", ""]
    lines += [*(member(thing, m) for m in members.split()), ""]
    return [f"````{{py:{kind}}} {head}", "", *lines, "````", ""]


def member(thing: type, name: str) -> str:
    """What a class offers, in a line."""
    found = getattr(thing, "METHODS", {}).get(name) or inspect.getattr_static(thing, name)
    found = getattr(found, "__func__", found)  # of a class method
    says = (inspect.getdoc(found) or "").split("\n\n")[0]
    parameters = re.sub(r"^\((self|cls)(, )?", "(", signature(found)) if callable(found) else ""
    return f"- `.{name}{parameters}`: {' '.join(says.split())}"


class Functions(SphinxDirective):
    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        short, found = self.arguments[0], nodes.container()
        for line in filter(None, map(str.strip, self.content)):
            name, _, members = line.partition(":")
            source, _ = self.get_source_info()
            self.state.nested_parse(StringList(entry(short, name, members), source), self.content_offset, found)
        return found.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("functions", Functions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
