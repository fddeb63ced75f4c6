"""The command line: ``python -m tinyton doctor | tour | env``."""

import sys
import types

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
