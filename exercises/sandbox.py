"""The process in which an answer runs: it gets the answer's text and calls, and gives back what the functions return.

It holds no reference and no verdict. An audit hook refuses what an answer has no business with: files other than
Python's own, other processes, the network. This stops every trick that is written in Python, not machine code: grade
strangers in a container. Started by `referee.Box`, with lines of JSON in and out.
"""

from __future__ import annotations

import base64
import importlib
import json
import linecache
import os
import struct
import sys
import types
from contextlib import suppress
from typing import Any

import numpy as np

PLAIN = (bool, int, float, str, type(None))


class Foreign:
    """What stands for an object that is not passed on; it is equal to nothing."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def pack(x: Any) -> Any:
    """As JSON can say it."""
    if isinstance(x, np.generic):
        x = x.item()
    if type(x) in PLAIN:
        return x
    if isinstance(x, list):
        return [pack(y) for y in x]
    if isinstance(x, (tuple, set, frozenset)):
        return {"tuple" if isinstance(x, tuple) else "set": [pack(y) for y in x]}
    if isinstance(x, dict):
        return {"dict": [[pack(k), pack(v)] for k, v in x.items()]}
    if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
        data = base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()
        return {"array": [x.dtype.str, list(x.shape), data]}
    return {"other": f"<{type(x).__name__}>"}


def unpack(x: Any) -> Any:
    if isinstance(x, list):
        return [unpack(y) for y in x]
    if not isinstance(x, dict):
        return x
    ((kind, value),) = x.items()
    if kind == "array":
        dtype, shape, data = value
        return np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape).copy()
    if kind == "dict":
        return {unpack(k): unpack(v) for k, v in value}
    if kind == "other":
        return Foreign(str(value))
    return {"tuple": tuple, "set": set}[kind](unpack(y) for y in value)


# What acts without being seen by an audit hook: modules, and functions of os and signal.
REACHES = ("ctypes", "_ctypes", "_posixsubprocess", "_posixshmem", "_sqlite3", "_dbm", "_gdbm", "readline")
UNSEEN = ("mkfifo", "mknod", "pidfd_open", "pidfd_send_signal", "sched_setaffinity", "setpriority")


def limit(**most: int) -> None:
    """Limits of the process: ``limit(CPU=60)`` is RLIMIT_CPU. What this system does not have is left out."""
    try:
        import resource
    except ImportError:
        return
    for name, value in most.items():
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def die_with_parent() -> None:
    """Linux ends the process with the one that started it, whatever group or session it has moved to by then."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL


def fence(readable: list[str]) -> None:
    """Where Linux has Landlock, the kernel sees to it as well: from here on the process and what it starts read nothing
    but these folders and the system's libraries, write, make and run nothing, and send no signals to others."""
    if sys.platform != "linux":
        return
    import ctypes

    def call(number: int, *args: Any) -> int:
        return ctypes.CDLL(None).syscall(number, *args)

    abi = call(444, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return
    bits = 13 + sum(abi >= since for since in (2, 3, 5))  # rights that it knows: of files,
    handled = struct.pack("QQQ", (1 << bits) - 1, 3, 3)[
        : 8 + 8 * (abi >= 4) + 8 * (abi >= 6)
    ]  # TCP, signals and sockets
    rules = call(444, handled, ctypes.c_size_t(len(handled)), 0)
    read, write = 0b1100, 0b10
    for path in [
        *readable,
        os.path.join(sys.base_prefix, "lib"),
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/dev/null",
    ]:
        right = write | 0b100 if path == "/dev/null" else read if os.path.isdir(path) else 0b100
        with suppress(OSError):
            place = os.open(path, os.O_PATH)
            call(445, rules, 1, struct.pack("=Qi", right, place), 0)
            os.close(place)
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, which it wants
    call(446, rules, 0)
    os.close(rules)


def take_away() -> None:
    """Removes `REACHES` and `UNSEEN`, wherever they are. Importing a module again is an event that the hook refuses."""
    for module in list(sys.modules.values()):
        for name, x in list(getattr(module, "__dict__", {}).items()):
            home = x.__name__ if type(x) is types.ModuleType else getattr(x, "__module__", "") if callable(x) else ""
            if name in UNSEEN or type(home) is str and home.partition(".")[0] in REACHES:
                setattr(module, name, None)
    for name in [name for name in sys.modules if name.partition(".")[0] in REACHES]:
        del sys.modules[name]


def lock(readable: list[str], secret: list[str], channel: int, reaches: tuple[str, ...]) -> None:
    """From here on, an audit hook looks at what the answer does. It uses nothing that the answer could replace."""
    exact, kind_of, starts, ends, has = str.__str__, isinstance, str.startswith, str.endswith, str.__contains__
    replace, encode, write, leave = str.replace, str.encode, os.write, os._exit
    text, number, writing, denied = str, int, os.O_WRONLY | os.O_RDWR, PermissionError
    folders, hidden = tuple(readable), tuple(secret)
    harmless = ("os.listdir", "os.scandir", "os.putenv", "os.unsetenv", "os.walk", "os.fwalk")
    refused = ("os.", "shutil.", "subprocess.", "socket.", "ctypes.dl", "signal.", "gc.", "pty.", "fcntl.", "resource.")

    def stop(reason: str) -> None:
        reason = replace(replace(replace(reason, "\\", "/"), '"', "'"), "\n", " ")
        write(channel, encode('\n{"violation": "' + reason + '"}\n'))
        leave(3)

    def hook(event: str, args: tuple) -> None:
        if event == "open":
            path, mode, flags = args
            if kind_of(path, number):
                return
            if not kind_of(path, text):
                raise denied("an answer opens no files")
            path = exact(path)
            if starts(path, hidden):
                stop("it reads " + path + ", which an answer may not")
            writes = kind_of(flags, number) and flags & writing
            if path != "/dev/null" and (writes or has(path, "..") or not starts(path, folders)):
                raise denied("an answer does not open files such as " + path)
        elif event == "import" and starts(args[0], "exercises."):
            stop("it imports a part of exercises, which holds the solutions")
        elif event == "import" and ends(args[0], reaches):
            stop("it imports " + exact(args[0]) + ", which an answer may not")
        elif starts(event, refused) and event not in harmless or reaches and starts(event, "ctypes."):
            stop("it calls " + event + ", which an answer may not")

    sys.addaudithook(hook)


def define(text: str, label: str, scope: dict[str, Any]) -> None:
    """Runs the text of a cell; kernels find their source as they do in a notebook."""
    file = f"<{label}>"
    linecache.cache[file] = (len(text), None, [line + "\n" for line in text.split("\n")], file)
    exec(compile(text, file, "exec", dont_inherit=True), scope)


def says(error: BaseException) -> str:
    """An error of the answer, with the line of the answer in which it is."""
    if isinstance(error, SystemExit):
        return "it exits Python"
    at, lines = error.__traceback__, [0]
    while at:
        lines += [at.tb_lineno] if at.tb_frame.f_code.co_filename == "<answer>" else []
        at = at.tb_next
    where = f" (line {lines[-1]})" if lines[-1] else ""
    return f"{type(error).__name__}: {error}{where}"[:2000]


IDLE = types.ModuleType("exercises")
"""What an answer gets that imports the functions for notebooks."""
IDLE.check = IDLE.hint = IDLE.solution = lambda *args, **kwargs: None  # type: ignore[attr-defined]


def scope_of(given: list[str]) -> dict[str, Any]:
    """The names of a module after the cells that are given."""
    before = sys.modules.get("exercises")
    sys.modules["exercises"] = IDLE
    try:
        scope: dict[str, Any] = {"__name__": "__answer__"}
        for number, text in enumerate(given):
            define(text, f"given {number}", scope)
        return scope
    finally:
        if before is not None:
            sys.modules["exercises"] = before


def values(scope: dict[str, Any]) -> dict[str, Any]:
    """The constants among the names, which kernels may read."""
    constants = {k: v for k, v in scope.items() if not k.startswith("__")}
    return {k: v for k, v in constants.items() if type(v) in PLAIN or type(v) is tuple}


def serve() -> None:
    requests, channel = os.fdopen(os.dup(0), "r", encoding="utf-8"), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    replies = os.fdopen(os.dup(channel), "w", encoding="utf-8")

    def reply(**words: Any) -> None:
        replies.write(json.dumps(words) + "\n")
        replies.flush()

    job = json.loads(requests.readline())
    sys.path[:0] = job["path"]
    die_with_parent()
    limit(AS=job["memory"], CPU=job["seconds"], FSIZE=0, CORE=0)
    scope = scope_of(job["given"])
    python = [p for p in map(os.path.abspath, sys.path) if p not in job["path"]]
    own = [os.path.join(p, "tinyton") for p in job["path"]]
    if not job["tame"]:
        importlib.import_module("tinyton.tile")  # which needs ctypes, and may be wanted
    fence(python + own)
    if not job["tame"]:
        take_away()
    lock([p + os.sep for p in python + own], job["secret"], channel, () if job["tame"] else REACHES)
    try:
        define(job["answer"], "answer", scope)
    except BaseException as error:
        return reply(error=says(error))
    reply(names=sorted(map(str, scope)), values=pack(values(scope)))
    for line in requests:
        name, args, kwargs = unpack(json.loads(line))
        try:
            result = scope[name](*args, **kwargs)
            reply(result=pack(result), args=pack([*args, *kwargs.values()]))
        except BaseException as error:
            reply(error=says(error))


if __name__ == "__main__":
    serve()
