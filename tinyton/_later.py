"""What arrives in a later stage, and where. In a snapshot of an early stage this names it; here nothing is missing. The
tools are read when they are first asked for, and who asks for a name that other packages have hears what there is."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

LATER: dict[str, str] = {}
TOOLS = {  # which file has them
    **{word: word for word in ("bench", "count", "env", "graph", "lint", "raw", "roofline", "show", "sweep", "viz")},
    **{"Timing": "bench", "Count": "count", "Roofline": "roofline", "compile": "aot"},
    **{"load_table": "sweep", "save_table": "sweep", "Graph": "graph"},
    **dict.fromkeys(("autotune", "Autotuner", "Config", "grid_search", "pick_tile"), "tune"),
    **{"TuneWarning": "tuning", "Trial": "tuning", "defend": "defend", "defended": "defend"},
}
INSTEAD = {
    "testing": "tt.bench times launches, tt.sweep compares them",
    "do_bench": "tt.bench times launches",
}


def __getattr__(name: str) -> object:
    """Of the package: a tool, or what to write instead."""
    package = sys.modules[__package__]
    if name in TOOLS:
        module = import_module(f".{TOOLS[name]}", __package__)
        return getattr(module, name, module)
    if name.startswith("_"):  # Python asks for many of these
        raise AttributeError(name)
    from difflib import get_close_matches

    hints = [f"did you mean {word}?" for word in get_close_matches(name, dir(package), 1)]
    raise AttributeError("; ".join([f"tinyton has no {name}", *([INSTEAD[name]] if name in INSTEAD else hints)]))


class Package(ModuleType):
    """The package. The file of a tool, when it is read, does not take the place of the function of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        tool = isinstance(value, ModuleType) and name in TOOLS
        super().__setattr__(name, getattr(value, name, value) if tool else value)

    def __dir__(self) -> list[str]:
        return sorted({*(word for word in vars(self) if not word.startswith("_")), *TOOLS})


sys.modules[__package__].__class__ = Package
