"""The reference pages: every name is on one of them, once, and every example in a docstring is run."""

import doctest
import inspect
import re
from collections import Counter

import pytest

import tinyton as tt
import tinyton.tile as ct
from tools.notebooks import ROOT

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def named(module):
    """The public names of a spelling: functions of the language, of the host, and classes."""
    names = module.__all__ if module is ct else [n for n in dir(module) if not n.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {n: x for n, x in found.items() if callable(x) and not isinstance(x, tt.DType)}


DOCUMENTED = {f"{short}.{n}": x for short, module in (("tt", tt), ("ct", ct)) for n, x in named(module).items()}
EXAMPLES = {name: inspect.getdoc(x) for name, x in DOCUMENTED.items() if ">>>" in (inspect.getdoc(x) or "")}
EXAMPLES |= {"tt": tt.__doc__, "ct": ct.__doc__}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, executor, monkeypatch):
    if name == "tt.compile":  # by nvcc, for which options of OpenCL are none
        monkeypatch.delenv("TINYTON_BUILD_OPTIONS", raising=False)
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, f"{name} on {executor}", name, 0)
    report = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
    assert result.attempted and not result.failed, "".join(report)


def test_every_function_of_the_language_has_an_example():
    functions = {n: x for n, x in DOCUMENTED.items() if isinstance(x, tt.language.LanguageFunction)}
    assert len(functions) > 140
    assert [name for name in functions if name not in EXAMPLES] == []


def test_every_name_is_on_one_page():
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "book/reference").glob("*.md")]
    listed = Counter()
    for short, names in re.findall(r"^```\{functions\} (tt|ct)\n(.*?)^```", "\n".join(pages), re.MULTILINE | re.DOTALL):
        listed.update(f"{short}.{line.partition(':')[0]}" for line in names.splitlines() if line.strip())
    assert {name: n for name, n in listed.items() if n > 1} == {}
    assert sorted(set(DOCUMENTED) - set(listed)) == [] and sorted(set(listed) - set(DOCUMENTED)) == []
    words = (ROOT / "book/reference/language.md").read_text(encoding="utf-8")
    assert [name for name in tt.language.DTYPES if f"`{name}`" not in words] == []
