"""Grading: hostile and broken submissions score 0 with a reason and stop nothing; results, progress, commands."""

import ctypes
import json
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

import exercises
from exercises import book, desk, grade, press, referee
from exercises.__main__ import main
from exercises.room import tame
from exercises.trial import Wrong

SOURCES = book.FOLDER / "sources"
SIZE = "def launch_size(n, threads):\n    return {}\n"
SAXPY = "def saxpy(a, x, y, out, n, BLOCK: tt.constexpr):\n"
IMPORTS = "import numpy as np\nimport tinyton as tt\n"
RIGHT = "    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)\n    m = i < n\n"
RIGHT += "    tt.store(out + i, a * tt.load(x + i, mask=m) + tt.load(y + i, mask=m), mask=m)\n"
HOST = f"{IMPORTS}def saxpy(a, x, y, out, n, BLOCK=64):\n    out[:n] = a * x[:n] + y[:n]\n"

BLEND = f"{IMPORTS}import tinyton.tile as ct\n@ct.kernel\n"
BLEND += "def blend(x, y, out, w, M: ct.Constant[int], N: ct.Constant[int]):\n    pass\n"
PASSES = "lambda self, *args, **kwargs: setattr(self, 'compared', 1)"
PATCH = f"[setattr(m.Trial, 'equal', {PASSES}) for m in [__import__('sys').modules.get('exercises.trial')] if m]"

# exercise, answer, what the reason says. An answer may do what it likes: it runs in a box.
BOXED = {
    "exits": ("1.1", "import sys\nsys.exit(0)\n" + SIZE.format("(1, 2)"), "it exits Python"),
    "exits at once": ("1.1", "import os\nos._exit(0)\n", "its process ended"),
    "exits when it is called": ("1.1", "import os\n" + SIZE.format("os._exit(0)"), "its process ended"),
    "raises what nobody catches": ("1.1", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    "an error": ("1.1", SIZE.format("n / 0"), "ZeroDivisionError: division by zero (line 3)"),
    "no such name": ("1.1", "size = 3", "defines no launch_size"),
    "not Python": ("1.1", "def launch_size(n, threads)\n    return 1", "line 2: SyntaxError: expected ':'"),
    "nested too deeply": ("1.1", "x = " + "(" * 5000, "Error"),
    "null bytes": ("1.1", "x = 1\0", "Error"),
    "takes all memory": ("1.1", "x = [0] * 10**10\n" + SIZE.format("(1, 2)"), "MemoryError"),
    "equal to everything": (
        "1.1",
        "class Any(tuple):\n    __eq__ = lambda *x: True\n    __len__ = lambda self: 2\n" + SIZE.format("Any()"),
        "not (",
    ),
    "patches NumPy": (
        "1.3",
        "import numpy as np\nnp.isclose = np.all = np.allclose = lambda *args, **kwargs: np.bool_(True)\n"
        "def least_time(*args):\n    return 1.0, 'memory'\n",
        "not",
    ),
    "patches the checker": (
        "1.1",
        "import exercises.trial\nexercises.trial.Trial.same = lambda *args: None\n" + SIZE.format("(1, 2)"),
        "it imports a part of exercises",
    ),
    "looks for the reference in frames": (
        "1.1",
        "import sys\ndef launch_size(n, threads):\n    frame = sys._getframe()\n    while frame:\n"
        "        if 'want' in frame.f_locals:\n            return frame.f_locals['want']\n"
        "        frame = frame.f_back\n",
        "is None, not",
    ),
    "looks for it among all objects": ("1.1", "import gc\ngc.get_objects()", "it calls gc.get_objects"),
    "reads the solutions": ("1.1", f"open({str(SOURCES / '01_what_a_kernel_is.py')!r}).read()", "it reads"),
    "reads the checks as a module": (
        "1.1",
        "from importlib.util import spec_from_file_location as f, module_from_spec as m\n"
        f"s = f('c', {str(book.FOLDER / 'checks' / '01_what_a_kernel_is.py')!r})\ns.loader.exec_module(m(s))",
        "it reads",
    ),
    "reads by a path that hides": (
        "1.1",
        "class Path(str):\n    startswith = lambda self, *a: False\n    __str__ = lambda self: '/dev/null'\n"
        f"open(Path({str(SOURCES / '01_what_a_kernel_is.py')!r}))",
        "it reads",
    ),
    "reads with the hook's words replaced": (
        "1.1",
        "import builtins, os\nbuiltins.isinstance = lambda *a: True\nbuiltins.str = builtins.int = object\n"
        f"os.path.realpath = os.fspath = lambda p: '/dev/null'\nopen({str(SOURCES / '01_what_a_kernel_is.py')!r})",
        "it reads",
    ),
    "reads someone else's file": ("1.1", "open('/etc/passwd').read()", "PermissionError"),
    "reads around a corner": ("1.1", f"open({str(book.FOLDER / '..' / 'exercises' / 'book.py')!r})", "it reads"),
    "writes a file": ("1.1", "open('results.json', 'w')", "PermissionError"),
    "deletes": ("1.1", f"import shutil\nshutil.rmtree({str(SOURCES)!r})", "it calls"),
    "starts a process": ("1.1", "import subprocess\nsubprocess.run(['true'])", "it imports"),
    "a shell": ("1.1", "import os\nos.system('true')", "it calls os.system"),
    "kills its parent": ("1.1", "import os\nos.kill(os.getppid(), 9)", "it calls os.kill"),
    "calls C": ("1.1", "import ctypes\nctypes.CDLL(None).abort()", "it imports ctypes"),
    "opens a connection": ("1.1", "import socket\nsocket.socket()", "it calls socket"),
    "answers in the box's place": (
        "1.1",
        'import os\nfor k in range(3, 20):\n    try:\n        os.write(k, b\'{"names": [], "values": 7}\\n\' * 9)\n'
        "    except OSError:\n        pass\n",
        "",
    ),
    "talks without end to the box": (
        "1.1",
        "import os\nfor k in range(3, 20):\n    try:\n        os.write(k, b'\\xff\\x00{' * 999 + b'\\n')\n"
        "    except OSError:\n        pass\n",
        "garbled",
    ),
    "NumPy on the host": ("2.1", HOST, "saxpy is not a kernel"),
    "NumPy on the host in a disguise": (
        "2.1",
        f"{HOST}class Kernel:\n    def __getitem__(self, grid):\n        return run\nrun, saxpy = saxpy, Kernel()\n",
        "saxpy is not a kernel",
    ),
    "a kernel of its own class": (
        "2.1",
        f"{HOST}from tinyton.jit import JITFunction\nclass Kernel(JITFunction):\n    launch = lambda *args: None\n"
        f"saxpy = Kernel.__new__(Kernel)\n",
        "saxpy is not a kernel",
    ),
    "a decorator that is not jit": (
        "2.1",
        f"{IMPORTS}class other:\n    jit = staticmethod(lambda function: function)\n@other.jit\n{SAXPY}{RIGHT}",
        "neither tt.jit nor ct.kernel",
    ),
    "runs code in a default": (
        "2.1",
        f"{IMPORTS}@tt.jit\n{SAXPY.replace('constexpr', 'constexpr = print(1)')}{RIGHT}",
        "write names and constants there",
    ),
    "runs code in an annotation": (
        "2.1",
        f"{IMPORTS}@tt.jit\n{SAXPY.replace('n, ', 'n: print(1), ')}{RIGHT}",
        "write names and constants there",
    ),
    "calls Python in a kernel": (
        "2.1",
        f"{IMPORTS}import os\n@tt.jit\n{SAXPY}    os.system('true')\n",
        "os is not defined",
    ),
    "writes everywhere": (
        "2.1",
        f"{IMPORTS}@tt.jit\n{SAXPY}    tt.store(out + 100000 + tt.arange(0, 64), a)\n",
        "OutOf",
    ),
    "reaches out of its room": (
        "P2.3",
        "def blocked(shape, threads, vector=1, order=None):\n    import os\n",
        "import",
    ),
    "another name for a module": (
        "P2.1",
        "def bin_op(t, node):\n    a = ast\n    a.sys.exit()\ndef compare(t, node):\n    return 1\n",
        "may use kinds of nodes",
    ),
    "a back door of its room": (
        "P2.3",
        "def blocked(shape, threads, vector=1, order=None):\n    return Layout.at.__globals__\n",
        "no business with Layout.at.__globals__",
    ),
    "starts a process behind Python's back": (
        "1.1",
        "import _posixsubprocess\n_posixsubprocess.fork_exec([b'/bin/true'], *[None] * 20)",
        "it imports _posixsubprocess",
    ),
    "writes to memory": (
        "1.1",
        "import ctypes\nctypes.memset(ctypes.addressof(ctypes.c_int()), 0, 4)",
        "imports ctypes",
    ),
    "a module by a name that hides": (
        "1.1",
        "from importlib.machinery import ExtensionFileLoader as L, PathFinder as F, ModuleSpec as S\n"
        "import importlib.util as u\n"
        "place = F.find_spec('_ctypes').origin\n"
        "u.module_from_spec(S('a._ctypes', L('a._ctypes', place), origin=place))",
        "it imports a._ctypes",
    ),
    "reads the solutions as a history": (
        "1.1",
        f"import readline\nreadline.read_history_file({str(SOURCES / '01_what_a_kernel_is.py')!r})",
        "it imports readline",
    ),
    "puts a pipe where results go": ("1.1", "import os\nos.mkfifo('results.json')", "not callable"),
    "ends a process by its file": (
        "1.1",
        "import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(os.getppid()), 9)",
        "not callable",
    ),
    "other lines for Python than for who reads them": (
        "10.1",
        "#" + 6 * "\r" + f"\n{BLEND}'''{book.find('10.1').solution[15:]}\n'''\n",
        "never written",
    ),
    "makes the input what it likes": (
        "1.2",
        "def axpy(block, threads, thread, a, x, y, n):\n    x[:] = 0\n",
        "argument 5 is an input, but it was written",
    ),
    "Python in a kernel": (
        "10.1",
        f"{BLEND}    ct.static_eval({PATCH})\n",
        "Python computes nothing for them",
    ),
    "Python in a kernel, under another name": (
        "10.1",
        f"{BLEND}    tt.static_assert({PATCH})\n",
        "Python computes nothing for them",
    ),
    "Python in an annotation that is text": ("10.1", BLEND.replace(", w", f', w: "{PATCH}"'), "never written"),
    "Python in a text that an annotation names": (
        "10.1",
        f'CODE = "{PATCH}"\n' + BLEND.replace(", w", ", w: CODE"),
        "never written",
    ),
    "private parts of the language": (
        "10.1",
        f"{BLEND}    ct.load.__init__.__globals__\n",
        "kernel blend has no business with ct.load.__init__",
    ),
    "another module, by way of the language": ("10.1", f"{BLEND}    ct.debug.ctypes\n", "has no debug"),
    "changes the language": ("10.1", f"{BLEND}    tt.FUNCTIONS.clear()\n", "has no FUNCTIONS"),
    "words for the terminal": (
        "1.1",
        "raise ValueError('\\x1b[2J\\rall passed \\ud800')",
        "ValueError: ?[2J?all passed ?",
    ),
}
# These are judged in the judge's own process as well, with little time.
LOOP = "    i = n\n    while i > 0:\n        i = i + 0\n    tt.store(out, 1.0)\n"
JUDGED = {
    "never ends": ("1.1", "while True:\n    pass\n", "it was not done after"),
    "never ends when it is called": (
        "1.1",
        "def launch_size(n, threads):\n    while True:\n        pass\n",
        "not done",
    ),
    "a kernel that never ends": ("2.1", f"{IMPORTS}@tt.jit\n{SAXPY}{LOOP}", "it was not done after"),
    "fakes the verdict": (
        "1.1",
        'import os, sys\nfor k in (1, 2):\n    os.write(k, b\'{"reason": ""}\\n\')\nos._exit(0)\n',
        "its process ended",
    ),
    "prints the verdict in a kernel": (
        "2.1",
        f'{IMPORTS}@tt.jit\n{SAXPY}    tt.static_print(\'{{"reason": ""}}\')\n    tt.device_print(\'"reason"\', n)\n',
        "never written",
    ),
}


ROOM = {  # a function that becomes part of the compiler, and what is refused in it
    "a name that is its own elsewhere": ("def f():\n        open = 1\n    open('x')", "line 4: open is not among"),
    "what its file has imported": ("def f(inspect):\n        pass\n    inspect", "inspect is not among"),
    "a default": ("return lambda x=exec: x", "exec is not among"),
    "frames of generators": ("(x for x in []).gi_frame.f_builtins", "no business with (x for x in []).gi_frame"),
    "patterns": ("match t:\n        case object(__globals__=g):\n            g['os']", "no business with .__globals__"),
    "nodes of its own": ("t.visit(ast.Attribute(ast.Name('tt'), '__builtins__'))", "may use kinds of nodes"),
    "nodes by way of a function": ("list(map(ast.Name, ['tt']))", "may use kinds of nodes"),
    "nodes by way of another": ("type(node)('tt')", "type is not among"),
    "nodes by its own isinstance": (
        "isinstance = lambda x, kind: kind\n    isinstance(1, ast.Name)",
        "take another name",
    ),
    "the same, in a pattern": ("match t:\n        case [*isinstance]:\n            pass", "take another name"),
    "nodes that are changed": ("node.left.attr = '__globals__'", "no business with node.left.attr"),
    "texts that read attributes": ("'{0.__globals__}'.format(t.visit)", "format"),
    "the way out": ("raise SystemExit", "SystemExit is not among"),
}


@pytest.mark.parametrize("name", ROOM)
def test_what_becomes_part_of_the_compiler_uses_what_it_may(name):
    body, reason = ROOM[name]
    text = f"def compare(t, node):\n    {body}\n"
    with pytest.raises(Wrong, match=re.escape(reason)):
        tame(text, {"compare", "ast", "visits", "visit"})


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends when its processor time does")
def test_a_process_that_leaves_does_not_outlive_its_judge():
    """It is in a session of its own when the judge is stopped, which cannot clean up after itself."""
    answer = "import atexit, os, time\natexit.register(time.sleep, 1000)\nos.setsid()"
    program = f"import time\nfrom exercises.referee import Box\nbox = Box((), {answer!r})\n"
    program += "print(box.process.pid, flush=True)\ntime.sleep(100)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=book.FOLDER.parent) as judge:
        pid = int(judge.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        judge.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)


DENIED = """
import os, signal, socket, subprocess, sys
from exercises import sandbox
sandbox.fence([sys.prefix, sys.base_prefix])
for name, attempt in {
    "read": lambda: open(FILE), "write": lambda: open("evil", "w"), "make": lambda: os.mkfifo("evil"),
    "run": lambda: subprocess.run([sys.executable, "-V"]), "look": lambda: os.listdir(os.getcwd()),
}.items():
    try:
        attempt()
        print(name, "is possible")
    except PermissionError:
        pass
import statistics, sqlite3
open(os.devnull, "w").write("x")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")
def test_the_kernel_denies_what_the_hook_does_not_see():
    abi = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        pytest.skip("this kernel has no Landlock")
    program = DENIED.replace("FILE", repr(str(SOURCES / "01_what_a_kernel_is.py")))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=book.FOLDER.parent, capture_output=True, encoding="utf-8"
    )
    assert done.stdout == "" and done.returncode == 0, done.stdout + done.stderr
    ends = "import os\nfrom exercises import sandbox\nsandbox.fence([])\nos.kill(os.getppid(), 0)"
    done = subprocess.run([sys.executable, "-c", ends], cwd=book.FOLDER.parent, capture_output=True, encoding="utf-8")
    assert ("PermissionError" in done.stderr) == (abi >= 6), done.stderr


def test_a_link_is_no_submission(tmp_path):
    handed_in(tmp_path / "good", _1_1=book.find("1.1").text)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "01_what_a_kernel_is.ipynb").symlink_to(tmp_path / "good" / "01_what_a_kernel_is.ipynb")
    (report,) = grade.grade([tmp_path / "bad"], [book.find("1.1")])
    assert report.score == 0 and "it is not a file" in report.verdicts[0].reason


def test_a_judge_has_limits(monkeypatch):
    """Of what a kernel computes while it is compiled; with CUDA it has none, whose driver maps more than it uses."""
    monkeypatch.setenv("TINYTON_BACKEND", "interpreter")
    text = f"{IMPORTS}@tt.jit\n{SAXPY}    v = (0,) * (3 * 10**9)\n"
    verdict = grade.verdict(book.find("2.1"), text, seed=3)
    assert verdict.score == 0 and "MemoryError" in verdict.reason and verdict.seconds < 30


def judged(number, text, reason):
    said = referee.judge_text(book.find(number), f"# exercise {number}\n{text}", seed=3)
    assert said and reason in said, said


@pytest.mark.parametrize("name", BOXED)
def test_a_hostile_answer_scores_nothing(name):
    judged(*BOXED[name])


@pytest.mark.parametrize("name", JUDGED)
def test_a_hostile_answer_stops_nothing(name):
    number, text, reason = JUDGED[name]
    exercise = book.find(number)
    seconds = 10 if "never ends" in name else exercise.check.seconds
    verdict = grade.verdict(replace(exercise, check=replace(exercise.check, seconds=seconds)), text, seed=3)
    assert verdict.score == 0 and not verdict.passed and reason in verdict.reason, verdict.reason


def handed_in(folder, **texts):
    """A submission: the notebooks with these answers in them, by exercise (P1_1 for P1.1, _1_1 for 1.1)."""
    for name, text in texts.items():
        one = book.find(name.strip("_").replace("_", "."))
        path = folder / f"{one.stem}.ipynb"
        nb = nbformat.read(path if path.exists() else book.FOLDER / path.name, 4)
        (cell,) = (cell for cell in nb.cells if cell.id == one.identity)
        cell.source = f"# exercise {one.number}\n{text}"
        folder.mkdir(exist_ok=True)
        nbformat.write(nb, path)
    return folder


def test_a_batch_goes_on_whatever_is_handed_in(tmp_path, capsys):
    good, bad, broken = tmp_path / "good", tmp_path / "bad", tmp_path / "broken"
    handed_in(good, _1_1=book.find("1.1").text, _2_1=book.find("2.1").text)
    handed_in(bad, _1_1="import os\nos._exit(0)", _2_1=HOST)
    broken.mkdir()
    (broken / "01_what_a_kernel_is.ipynb").write_bytes(b"\xff\0{]")
    (broken / "02_a_tile_not_a_thread.ipynb").write_text('{"cells": [{"cell_type": "code"}, 7]}')
    places = [bad, broken, tmp_path / "nobody", good]
    files = tmp_path / "results.json", tmp_path / "results.xml"
    words = ["grade", *map(str, places), "--only", "1.1", "--only", "2.1", "--seed", "4"]
    assert main([*words, "--json", str(files[0]), "--junit", str(files[1])]) == 0
    said = capsys.readouterr().out
    assert f"{good}: 2 of 2" in said and f"{bad}: 0 of 2" in said and f"{broken}: 0 of 2" in said
    results = json.loads(files[0].read_text())
    assert list(results) == list(map(str, places))
    tests = results[str(good)]["tests"]
    assert [(t["score"], t["max_score"], t["status"]) for t in tests] == [(1, 1, "passed"), (1, 1, "passed")]
    assert tests[0]["extra_data"]["seed"] == 4 and results[str(good)]["score"] == 2
    for place, word in (
        (bad, "its process ended"),
        (broken, "not a notebook"),
        (tmp_path / "nobody", "there is no 01_"),
    ):
        one = results[str(place)]["tests"][0]
        assert one["score"] == 0 and one["status"] == "failed" and word in one["output"], one
    suites = ET.parse(files[1]).getroot()
    assert [(s.get("tests"), s.get("failures")) for s in suites] == [("2", "2")] * 3 + [("2", "0")]


def test_one_submission_is_what_gradescope_reads(tmp_path):
    handed_in(tmp_path / "one", _1_1=book.find("1.1").text)
    out = tmp_path / "results.json"
    assert main(["grade", str(tmp_path / "one"), "--only", "1", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["score"] == 1 and [t["score"] for t in found["tests"]] == [1, 0, 0, 0]
    assert set(found["tests"][0]) == {"number", "name", "score", "max_score", "status", "output", "extra_data"}
    assert found["tests"][1]["output"].startswith("not started")


def test_a_verdict_that_is_not_one(monkeypatch):
    """The judging process itself may die, or be replaced."""
    exercise = book.find("1.1")
    for program, reason in (("import os; os._exit(7)", "died (exit status 7)"), ("print('[1')", "died"),
                            ("print('{\"reason\": 3}')", "garbled")):  # fmt: skip
        monkeypatch.setattr(grade.sys, "executable", str(_python(program)))
        try:
            verdict = grade.verdict(exercise, exercise.text, seed=0)
        finally:
            monkeypatch.undo()
        assert not verdict.passed and reason in verdict.reason


def _python(program):
    """An executable that runs a program whatever it is asked for."""
    import sys
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / "python"
    path.write_text(f"#!{sys.executable}\n{program}\n")
    path.chmod(0o700)
    return path


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A reader's folder of notebooks, and no progress yet."""
    for stem in book.stems():
        shutil.copy(book.FOLDER / f"{stem}.ipynb", tmp_path)
    monkeypatch.setenv("TINYTON_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setattr(book, "NOTEBOOKS", tmp_path)
    return tmp_path


def test_from_the_first_exercise_to_the_second(own, capsys):
    def says(*words, code=0):
        assert main([*words]) == code
        return capsys.readouterr().out

    assert "1.1 Enough blocks: exercises/01_what_a_kernel_is.ipynb" in says("next")
    assert "not started" in says("check", "1.1", code=1)
    said = says("solution", "1.1")
    assert "You have not passed 1.1 yet, and there are 3 hints left" in said and "solution 1.1 --anyway" in said
    assert says("hint", "1.1").startswith("1 of 3: ") and "2 of 3: " in says("hint", "1.1")
    handed_in(own, _1_1=SIZE.format("(n // threads, 0)"))
    said = says("check", "1.1", code=1)
    assert "launch_size(" in said and ", not (" in said and "python -m exercises hint 1.1 shows hint 3 of 3" in said
    assert "last hint" in says("hint", "1.1") and "blocks = -(-n // threads)" in says("solution", "1.1")
    handed_in(own, _1_1=book.find("1.1").text)
    assert "1.1 passed" in says("check", "1.1") and "1.2 The body of the loop" in says("next")
    listed = says("list")
    assert "passed" in listed.split("1.1")[1].split("\n")[0] and f"1 of {len(book.every())} passed" in listed
    handed_in(own, _7_2=book.find("7.2").text)
    assert "Next: 7.3" in says("check", "7.2") and "1.2 The body of the loop" in says("next")
    assert "the empty cell is back" in says("reset", "1.1")
    assert "1.1 Enough blocks" in says("next") and "not started" in says("check", "1.1", code=1)
    assert (own / "01_what_a_kernel_is.ipynb").read_text() == press.notebook("01_what_a_kernel_is")
    assert main(["hint", "9.99"]) == 2 and "there are" in capsys.readouterr().err


def test_reset_makes_a_notebook_that_is_lost(own):
    path = own / "01_what_a_kernel_is.ipynb"
    path.write_text("nothing")
    press.reset(book.find("1.1"))
    assert path.read_text() == press.notebook("01_what_a_kernel_is")


def test_in_a_notebook(own):
    scope = {}
    exec(IMPORTS + "def launch_size(n, threads):\n    return -(-n // threads), -n % threads\n", scope)
    result = exercises.check("1.1", scope["launch_size"])
    assert result.passed and repr(result).startswith('1.1 passed. Ours: solution("1.1"). Next: 1.2')
    assert "1 of 3" in repr(exercises.hint("1.2")) and "anyway=True" in repr(exercises.solution("1.2"))
    assert "y[i] = a * x[i] + y[i]" in exercises.solution("1.2", anyway=True)
    assert "takes 1 of them, not 0" in exercises.check("1.1").reason
    with pytest.raises(LookupError, match="there is no exercise 1.9; there are 1.1, 1.2"):
        exercises.check("1.9")
    assert "1.1" in desk.progress() and (own / "progress" / "exercises.json").exists()


def test_progress_that_cannot_be_read_is_none(own):
    (own / "progress").mkdir()
    (own / "progress" / "exercises.json").write_text("[1")
    assert desk.progress() == {} and desk.following().number == "1.1"


def test_a_course_for_nbgrader(tmp_path):
    assert main(["nbgrader", str(tmp_path), "1", "p1"]) == 0
    stems = sorted(path.name for path in (tmp_path / "source").iterdir())
    assert stems == ["01_what_a_kernel_is", "p1_five_wrong_kernels"]
    nb = nbformat.read(tmp_path / "source" / stems[0] / f"{stems[0]}.ipynb", 4)
    kinds = [cell.metadata.nbgrader for cell in nb.cells]
    ids = [kind.grade_id for kind in kinds]
    assert len(set(ids)) == len(ids) and all(kind.schema_version == 3 for kind in kinds)
    found = book.exercises(stems[0])
    assert sum(kind.get("points", 0) for kind in kinds) == sum(one.check.points for one in found)
    for cell in nb.cells:
        assert ("### BEGIN SOLUTION" in cell.source) == cell.metadata.nbgrader.solution
        assert cell.metadata.nbgrader.grade == cell.source.startswith("result = check(")
    assert "code_stub" in (tmp_path / "nbgrader_config.py").read_text()
