"""The reference pages: every name is on one of them, once, and every example in a docstring is run."""

import ast
import doctest
import inspect
import re
import runpy
from collections import Counter
from types import FunctionType

import pytest

import tinyton as tt
import tinyton.tile as ct
from tools.notebooks import ROOT

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def named(module):
    """The public names of a spelling: functions of the language, of the host, and classes."""
    names = module.__all__ if module is ct else [n for n in dir(module) if not n.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    kinds = (type, FunctionType, tt.language.LanguageFunction)
    return {n: x for n, x in found.items() if isinstance(x, kinds) and x is not tt.ir.Value}  # which a tile is


DOCUMENTED = {f"{short}.{n}": x for short, module in (("tt", tt), ("ct", ct)) for n, x in named(module).items()}
DOCUMENTED |= {f"ct.Array.{name}": rule for name, rule in ct.Array.METHODS.items()}
DRAWN = ("plot", "layout", "access", "banks", "occupancy", "timeline", "style", "Picture")
DOCUMENTED |= {f"tt.viz.{name}": getattr(tt.viz, name) for name in DRAWN}
for short, module in (("ct.testing", ct.testing), ("ct.tune", ct.tune)):
    own = {n: x for n, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__}
    DOCUMENTED |= {f"{short}.{n}": x for n, x in own.items() if isinstance(x, type) or ">>>" in (x.__doc__ or "")}
EXAMPLES = {name: inspect.getdoc(x) for name, x in DOCUMENTED.items() if ">>>" in (inspect.getdoc(x) or "")}
EXAMPLES |= {"tt": tt.__doc__, "ct": ct.__doc__}


OF_DEVICES = ["tt.autotune", "tt.bench", "tt.raw", "tt.roofline", "tt.sweep", "tt.viz.timeline"]
OF_DEVICES += ["ct.tune.exhaustive_search"]  # which have clocks


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, executor, monkeypatch):
    if executor == "emulator" and name in OF_DEVICES:
        pytest.skip("the emulator is no device")
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
    words += (ROOT / "book/reference/ct-kernels.md").read_text(encoding="utf-8")
    rest = set(ct.__all__) - set(named(ct)) - set(tt.language.DTYPES) - {"testing"}
    assert [name for name in sorted(rest) if f"`ct.{name}`" not in words] == []


@pytest.mark.parametrize("page", sorted((ROOT / "book").rglob("*.md")), ids=lambda page: page.name)
def test_names_on_a_page_exist(page):
    """What a page writes as ``tt.name`` or ``ct.name`` in code."""
    code = " ".join(re.findall(r"```python\n.*?```|`[^`]+`", page.read_text(encoding="utf-8"), re.DOTALL))
    made = set(re.findall(r"^def (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    used = {name for name in re.findall(r"\b(tt|ct)\.(\w+)", code) if name[1] not in made}
    missing = sorted(f"{m}.{n}" for m, n in used if not hasattr({"tt": tt, "ct": ct}[m], n))
    assert [name for name in missing if name.removeprefix("ct.") not in ct.absent.ABSENT] == []


def translations():
    text = (ROOT / "book/translation.md").read_text(encoding="utf-8")
    for _, what, *cells, _ in (
        line.replace("\\|", "¦").split("|") for line in re.findall(r"^\|.*", text, re.MULTILINE)
    ):
        for code in (code for cell in cells[1:] for code in re.findall(r"`([^`]+)`", cell)):
            yield pytest.param(code, id=f"{what.strip()}: {code}")


@pytest.mark.parametrize("code", list(translations()))
def test_a_translation_is_python(code):
    head = code if code.startswith("@") else f"def f({code}): pass" if re.match(r"(B: |\w+=)", code) else code
    ast.parse(f"{head}\ndef f(): pass" if head.startswith("@") else head)


EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("number", [0, 1])
def test_a_ported_kernel_runs(number, executor, tmp_path):
    code = EXAMPLE.findall((ROOT / "book/porting.md").read_text(encoding="utf-8"))
    (tmp_path / "ported.py").write_text(code[number], encoding="utf-8")
    runpy.run_path(str(tmp_path / "ported.py"))
