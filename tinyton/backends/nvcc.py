"""The CUDA toolkit's programs, which need no GPU: nvcc makes PTX, ptxas machine code, nvdisasm text of it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from shutil import which

from ..errors import BackendError


def missing(program: str) -> str:
    """What to say of a program that is not there."""
    pip = ', and pip install "tinyton[nvcc]" brings it without a GPU' if program in ("nvcc", "ptxas") else ""
    return f"{program} is not installed: it comes with the CUDA toolkit{pip}"


def packaged(pattern: str) -> list[Path]:
    """What the toolkit's packages from PyPI have under such a path, the newest first."""
    try:
        import nvidia
    except ImportError:
        return []
    return sorted((p for root in nvidia.__path__ for p in Path(root).glob(pattern)), reverse=True)


@cache
def find(program: str) -> str | None:
    """The path of a program of the toolkit: on PATH, else among the toolkit's packages from PyPI."""
    return which(program) or next(map(str, packaged(f"cu*/bin/{program}")), None)


def run(program: str, *arguments: str, wrong: str = "failed") -> str:
    """Runs a program of the toolkit and returns what it prints; BackendError, "nvcc failed" or what else is ``wrong``
    then, holds what it says."""
    path = find(program)
    if path is None:
        raise BackendError(missing(program))
    done = subprocess.run([path, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise BackendError(f"{program} {wrong}:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout + done.stderr


@cache
def version() -> str:
    if not find("nvcc"):
        return "none"
    found = re.search(r"release [\d.]+, V([\d.]+)", run("nvcc", "--version"))
    return f"nvcc {found[1]}" if found else "nvcc"


def _through(program: str, *options: str, text: bytes, ending: str, wrong: str = "failed") -> tuple[bytes, str]:
    """What a program makes of a file with this content, and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / f"kernel{ending}", Path(folder) / "out"
        source.write_bytes(text)
        to = [] if program == "nvdisasm" else ["-o", str(out)]
        told = run(program, *options, str(source), *to, wrong=wrong)
        return out.read_bytes() if out.exists() else b"", told


def arch(card: str, text: str) -> str:
    """What to compile for, to run on a card: some instructions are for sm_90 alone."""
    return f"{card}a" if "wgmma." in text else card


def to_ptx(source: str, arch: str, options: list[str], name: str = "") -> bytes:
    """PTX of CUDA C++; BackendError holds what is wrong with kernel ``name``."""
    wrong = f"refused kernel {name}".rstrip()
    return _through("nvcc", *options, "-ptx", f"-arch={arch}", text=source.encode(), ending=".cu", wrong=wrong)[0]


def to_cubin(ptx: bytes, arch: str) -> tuple[bytes, str]:
    """Machine code of PTX, and what the assembler says of its costs."""
    return _through("ptxas", "-v", f"-arch={arch}", text=ptx, ending=".ptx")


def to_sass(cubin: bytes) -> str:
    """Machine code as text."""
    return _through("nvdisasm", "-c", text=cubin, ending=".cubin")[1]


def exact_block(ptx: bytes, block: tuple[int, int, int]) -> bytes:
    """PTX whose maximum of threads is a requirement: the driver refuses a launch with any other block."""
    return re.sub(rb"\.maxntid [0-9, ]+", b".reqntid %d, %d, %d" % block, ptx)


def required_block(ptx: bytes) -> tuple[int, int, int]:
    """The block that PTX demands."""
    found = re.search(rb"\.reqntid (\d+)(?:, (\d+))?(?:, (\d+))?", ptx)
    return tuple(int(n or 1) for n in found.groups()) if found else (0, 0, 0)  # type: ignore[return-value]
