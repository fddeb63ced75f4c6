"""``tt.env()``: the stamp that goes beside measured numbers: which device, drivers and versions gave them."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Env:
    """What a number was measured on. Every field is text, "none" where the executor has no such thing."""

    device: str
    capability: str
    driver: str
    cuda: str
    compiler: str
    executor: str
    mode: str
    python: str
    numpy: str
    tinyton: str
    platform: str
    date: str

    def __repr__(self) -> str:
        return "\n".join(f"{name:10}  {value}" for name, value in dataclasses.asdict(self).items())

    def stamp(self) -> str:
        """One line of it, to stand beside a table or under a plot."""
        parts = [self.device, f"driver {self.driver}", f"CUDA {self.cuda}", self.date]
        if self.mode == "cpu":
            parts = [self.device, self.compiler, f"NumPy {self.numpy}", self.date]
        return ", ".join(part for part in parts if not part.endswith("none"))


def env() -> Env:
    """The stamp of this machine and the executor in use. It names no host and no path.

    ``mode`` is "gpu" if the executor is ``cuda``, else "cpu"; ``date`` is the day in UTC. ``BackendError`` if
    TINYTON_BACKEND asks for an executor that is not there.

    >>> import numpy as np, tinyton as tt
    >>> tt.env().numpy == np.__version__
    True
    """
    from . import __version__, backends

    backend = backends.current()
    asked = ("device", "capability", "driver", "cuda", "compiler")
    info = backend.device_info()
    info["cuda"] = info.get("runtime")
    return Env(
        **{name: str(info.get(name) or "none") for name in asked},
        executor=backend.name,
        mode="gpu" if backend.name == "cuda" else "cpu",
        python=platform.python_version(),
        numpy=importlib.metadata.version("numpy"),
        tinyton=__version__,
        platform=f"{platform.system()} {platform.machine()}",
        date=datetime.now(UTC).date().isoformat(),
    )


def stamp() -> str:
    """One line of ``env()``: ``NVIDIA H200, driver 580.95.05, CUDA 13.0, 2026-11-30``."""
    return env().stamp()


def main() -> None:
    """Print the stamp."""
    print(env())
