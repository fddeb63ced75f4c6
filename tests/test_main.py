"""The command line: ``python -m tinyton doctor | tour | env``."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tinyton import __main__, doctor
from tinyton.errors import BackendError


def test_doctor_gives_its_exit_code(monkeypatch):
    for code in 0, 1:
        monkeypatch.setattr(doctor, "main", lambda code=code: code)
        assert __main__.main(["doctor"]) == code


@pytest.mark.parametrize("result", [None, 0, 3])
def test_tour_is_imported_only_when_asked_for(monkeypatch, result):
    monkeypatch.setitem(sys.modules, "tinyton.tour", types.SimpleNamespace(main=lambda: result))
    assert __main__.main(["tour"]) == (result or 0)


def test_env_prints_the_stamp(capsys):
    assert __main__.main(["env"]) == 0
    assert "executor " in capsys.readouterr().out


def test_an_error_is_one_line(monkeypatch, capsys):
    def fail():
        raise BackendError("TINYTON_BACKEND asks for cuda, and there is no NVIDIA driver")

    monkeypatch.setitem(sys.modules, "tinyton.tour", types.SimpleNamespace(main=fail))
    assert __main__.main(["tour"]) == 1
    assert capsys.readouterr().err == "error: TINYTON_BACKEND asks for cuda, and there is no NVIDIA driver\n"


@pytest.mark.parametrize("argv", [[], ["docter"]])
def test_no_or_an_unknown_command_says_which_there_are(argv, capsys):
    with pytest.raises(SystemExit) as e:
        __main__.main(argv)
    assert e.value.code == 2
    message = capsys.readouterr().err
    assert "usage: python -m tinyton" in message and (not argv or "doctor" in message)


@pytest.mark.parametrize("words", ["exercises list", "tinyton env", "tinyton tune list"])
def test_output_that_nobody_reads_to_its_end(words):
    """As `... | head -0`: the pipe is closed before the first line."""
    end, start = os.pipe()
    os.close(end)
    command = [sys.executable, "-m", *words.split()]
    with open(start, "wb") as closed:
        ran = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, cwd=Path(__file__).parent.parent)
    said = [line for line in ran.stderr.decode().splitlines() if not line.startswith("tinyton: no CUDA device")]
    assert not said and ran.returncode == 1
