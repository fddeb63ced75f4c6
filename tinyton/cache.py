"""Compiled kernels on disk: one file an entry, named by a digest of what it was made from, written by atomic rename.

An entry is a line of JSON (format, digests) and the binary. Anything that does not check out is a miss. The folder is
private; if it cannot be, or cannot be written, kernels are kept in memory only and one warning says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import threading
import warnings
from functools import cache
from pathlib import Path

from .errors import CacheWarning

FORMAT = "tinyton-cache-1"
_compiles = 0
_lock = threading.Lock()


def count_compile() -> None:
    global _compiles
    _compiles += 1


def compiles() -> int:
    """How often a C compiler was called by this process."""
    return _compiles


def build_options() -> list[str]:
    """Extra options for the C compiler, from TINYTON_BUILD_OPTIONS; part of every key."""
    return os.environ.get("TINYTON_BUILD_OPTIONS", "").split()


def folder() -> Path | None:
    """The cache's folder: TINYTON_CACHE_DIR, else a ``tinyton`` folder among the user's caches. None if it is off
    (TINYTON_CACHE_DIR=off), or not private, or cannot be written."""
    chosen = os.environ.get("TINYTON_CACHE_DIR", "")
    if chosen.lower() in ("off", "none", "0"):
        return None
    with _lock:
        return _prepared(chosen)


@cache
def _prepared(chosen: str) -> Path | None:
    try:
        path = Path(chosen).absolute() if chosen else _user_cache()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if why := _not_private(path):
            raise OSError(why)
        with tempfile.TemporaryFile(dir=path):
            pass
        return path
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        reason = getattr(error, "strerror", None) or error
        warnings.warn(f"kernels are kept in memory only: {reason}", CacheWarning, stacklevel=2)
        return None


def _user_cache() -> Path:
    try:
        from platformdirs import user_cache_path

        return user_cache_path("tinyton")
    except ImportError:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tinyton"


def _not_private(path: Path) -> str | None:
    if os.name != "posix":
        return None
    info = path.lstat()
    faults = {
        "is a symbolic link": stat.S_ISLNK(info.st_mode),
        "belongs to another user": info.st_uid != os.getuid(),
        "can be written by other users": info.st_mode & 0o022,
    }
    return next((f"the cache folder {what}" for what, true in faults.items() if true), None)


class Entry:
    """One cached binary, keyed by everything that it depends on."""

    def __init__(self, source: str, compiler: str, options: str):
        from . import __version__

        digest = hashlib.sha256()
        for part in (FORMAT, __version__, compiler, options, source):
            digest.update(f"{len(part)}:{part}".encode())
        self.key = digest.hexdigest()

    def path(self) -> Path | None:
        where = folder()
        return where / f"{self.key}.bin" if where else None

    def _file(self, body: bytes) -> bytes:
        header = {"format": FORMAT, "key": self.key, "payload": hashlib.sha256(body).hexdigest()}
        return json.dumps(header).encode() + b"\n" + body

    def read(self) -> bytes | None:
        """The binary, or None if there is none that checks out."""
        path, data = self.path(), b""
        with contextlib.suppress(OSError):
            data = path.read_bytes() if path else b""
        body = data.partition(b"\n")[2]
        return body if data == self._file(body) else None

    def write(self, body: bytes) -> None:
        path = self.path()
        if path is None:
            return
        with contextlib.suppress(OSError):  # a full disk, say: the kernel is in memory all the same
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as place:
                new = Path(place) / path.name
                new.touch(0o600)
                new.write_bytes(self._file(body))
                os.replace(new, path)
