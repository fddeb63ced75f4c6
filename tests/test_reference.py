"""The reference pages: every name is on one of them, once, and every example in a docstring is run."""

import doctest
import inspect

import pytest

import tinyton as tt
import tinyton.tile as ct

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def named(module):
    """The public names of a spelling: functions of the language, of the host, and classes."""
    names = module.__all__ if module is ct else [n for n in dir(module) if not n.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {n: x for n, x in found.items() if callable(x) and not inspect.ismodule(x)}


DOCUMENTED = {f"{short}.{n}": x for short, module in (("tt", tt), ("ct", ct)) for n, x in named(module).items()}
HOST = {name for name, x in DOCUMENTED.items() if not isinstance(x, tt.language.LanguageFunction)}
EXAMPLES = {name: inspect.getdoc(x) for name, x in DOCUMENTED.items() if ">>>" in (inspect.getdoc(x) or "")}
EXAMPLES |= {"tt": tt.__doc__, "ct": ct.__doc__}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, executor):
    scope = dict(vars(inspect.getmodule(DOCUMENTED[name]))) if name in HOST else {}
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], scope, f"{name} on {executor}", name, 0)
    report = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
    assert result.attempted and not result.failed, "".join(report)


def test_every_function_of_the_language_has_an_example():
    functions = {n: x for n, x in DOCUMENTED.items() if isinstance(x, tt.language.LanguageFunction)}
    assert len(functions) > 140
    assert [name for name in functions if name not in EXAMPLES] == []
