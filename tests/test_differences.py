"""The book's page *Differences from NumPy, Triton and cuTile*: every row of its tables is run, on every executor."""

import builtins
import linecache
import re
from pathlib import Path

import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from conftest import EXECUTORS, choose, same_bits

PAGE = (Path(__file__).parents[1] / "book" / "differences.md").read_text(encoding="utf-8")
HEAD = re.compile(r"\| rule \| example \| result \| elsewhere \|\n\|(---\|){4}")
NO_VALUE = ("tt.store(", "ct.store(", "tt.device_assert(", "print(")


def rows():
    """For each row of a table: the program above it, the lines of its example, its result, and where that is seen."""
    program = ""
    for part in re.split(r"(```python\n.*?```)", HEAD.sub("", PAGE), flags=re.DOTALL):
        if part.startswith("```"):
            program = part[len("```python\n") : -len("```")]
            continue
        for line in re.findall(r"^\|.*$", part, re.MULTILINE):
            _, rule, example, result, _, end = (cell.strip() for cell in line.split("|"))
            lines, (want,) = re.findall(r"`([^`]+)`", example), re.findall(r"`([^`]+)`", result)
            assert rule and lines and not end, line
            executors = ["interpreter"] if "on the interpreter" in result else EXECUTORS
            for executor in executors:
                yield pytest.param(executor, program, lines, want, id=f"{executor}-{'; '.join(lines)}")


def shown(want):
    """A result as it stands on the page: what it is of, and the values as an array; none for an error."""
    of, _, values = want.partition(" ")
    return of, None if of.endswith(":") else np.array(eval(values, {"nan": np.nan}))


def body(lines, want, short):
    """The lines of the kernel, in the spelling ``short``, of which the last one goes to ``out``."""
    of, values = shown(want)
    *first, last = lines
    if last.startswith(NO_VALUE) or (values is not None and of not in tt.dtypes.BY_NAME):
        return lines
    if values is None:
        store = "tt.store(out + tt.arange(0, 4), y)" if short == "tt" else "ct.store(out, 0, y.astype(ct.float64))"
        return [*first, f"y = {last}", store]
    checks = [f"{short}.static_assert(y.dtype == {short}.{'bool_' if of == 'bool' else of}, f'it is {{y.dtype}}')"]
    checks += [f"{short}.static_assert(y.shape == {values.shape}, f'it is {{y.shape}}')"]
    at = f"out + tt.arange(0, {len(values)})" if values.ndim else "out"
    store = f"tt.store({at}, y)" if short == "tt" else "ct.store(out, 0, y.astype(ct.float64))"
    return [*first, f"y = {last}", *checks, store]


@pytest.mark.parametrize("executor, program, lines, want", list(rows()))
def test_row(executor, program, lines, want, monkeypatch):
    choose(executor, monkeypatch)
    of, values = shown(want)
    if "    ...\n" in program:
        written = body(lines, want, "ct" if "@ct.kernel" in program else "tt")
        text = program.replace("    ...\n", "".join(f"    {line}\n" for line in written))
    else:
        text = program + "\n".join(lines) + "\n"
    file = f"<differences, {executor}: {'; '.join(lines)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope = {"np": np, "tt": tt, "ct": ct, "__name__": "page", "out": np.full(8, -99.0)}
    if values is None:
        error = next(getattr(module, of[:-1]) for module in (tt, ct, builtins) if hasattr(module, of[:-1]))
        with pytest.raises(error) as caught:
            exec(compile(text, file, "exec"), scope)
        assert want.partition(": ")[2] in " ".join(str(caught.value).split())
        return
    exec(compile(text, file, "exec"), scope)
    got = scope["out"] if of in tt.dtypes.BY_NAME else scope[of]
    same_bits(got[: values.size].reshape(values.shape) if got is scope["out"] else got, values.astype(got.dtype))


def test_the_page_has_rows():
    assert len({row.id.partition("-")[2] for row in rows()}) > 60
    assert len(HEAD.findall(PAGE)) == len(re.findall("^## ", PAGE, re.MULTILINE))
