"""What arrives in a later stage, and where. In a snapshot of an early stage this names it; here nothing is missing, and
who asks for a name that other packages have hears what there is."""

from __future__ import annotations

import sys
from difflib import get_close_matches

LATER: dict[str, str] = {}
INSTEAD = {
    "autotune": "tt.sweep times a kernel over values of its options",
    "Config": "tt.sweep takes the values of options as lists",
    "testing": "tt.bench times launches, tt.sweep compares them",
    "do_bench": "tt.bench times launches",
}


def __getattr__(name: str) -> object:
    """Of the package: what to write instead."""
    if name.startswith("__"):  # Python asks for many of these
        raise AttributeError(name)
    names = [word for word in vars(sys.modules[__package__]) if not word.startswith("_")]
    close = get_close_matches(name, names, 1) if not name.startswith("_") else []
    hints = [INSTEAD[name]] if name in INSTEAD else [f"did you mean {word}?" for word in close]
    raise AttributeError("; ".join([f"tinyton has no {name}", *hints]))
