"""What tunings have found, on disk: a file for each, with the card, the driver, the compiler, the date and all figures.
``python -m tinyton tune`` lists them, forgets them, and measures them again."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import cache
from .env import Env, env
from .errors import TinytonError
from .jit import JITFunction

if TYPE_CHECKING:
    from .compiled import CompiledKernel
    from .tune import Autotuner, Config
    from .tuning import Trial

FORMAT = "tinyton-tuned-1"
FIELDS = ("id", "kernel", "module", "path", "text", "key", "types", "arguments", "config", "time_us", "tried")
PLAIN = (bool, int, float, str, type(None))


def folder() -> Path | None:
    """Where the files are: a folder in that of the kernel cache. None if that is off."""
    where = cache.folder()
    return where / "tuned" if where else None


class Entry:
    """What a tuning found, by everything that it depends on: the kernel's text and all that it calls and reads, the
    configurations, the values of the key, the types, the card, the compiler. ``compiled`` is some variant for these
    arguments; ``named`` has the arguments by name."""

    def __init__(self, tuner: Autotuner, named: Mapping[str, Any], compiled: CompiledKernel):
        here, kernel = env(), tuner.fn
        self.tuner, self.named, self.here = tuner, named, here
        self.key = {name: repr(named.get(name)) for name in tuner.keys}
        self.types = {n: f"{'*' * (a.kind == 'pointer')}{a.dtype}" for n, a in compiled.specialization.args}
        grounds = _text(kernel), repr(tuner.configs), self.key, self.types
        parts = FORMAT, here.tinyton, here.executor, here.device, here.compiler, cache.build_options(), *grounds
        self.id = hashlib.sha256(repr(parts).encode()).hexdigest()

    def read(self) -> tuple[Config, list[dict[str, Any]], str] | None:
        """The configuration that won, all that were tried as fields of trials, and the stamp; None if it is not
        known."""
        where = folder()
        found = _load(where / f"{self.id}.json") if where else None
        if found is None:
            return None
        known = {repr(_plain(c.all_kwargs())): c for c in self.tuner.configs}
        tried = [{**t, "config": known[repr(t["config"])]} for t in found["tried"] if repr(t["config"]) in known]
        stamp = Env(**{f.name: found[f.name] for f in fields(Env)}).stamp()
        return (best, tried, stamp) if (best := known.get(repr(found["config"]))) else None

    def write(self, best: Trial, trials: list[Trial]) -> None:
        where = folder()
        if where is None:
            return
        found = {
            "format": FORMAT,
            "id": self.id,
            "kernel": self.tuner.fn.source.name,
            "module": self.tuner.fn.fn.__module__,
            "path": self.tuner.fn.fn.__qualname__,
            "text": hashlib.sha256(_text(self.tuner.fn).encode()).hexdigest(),
            "key": self.key,
            "types": self.types,
            "arguments": {name: _described(x) for name, x in self.named.items()},
            "config": _plain(best.config.all_kwargs()),
            "time_us": best.time_us,
            "tried": [{**vars(t), "config": _plain(t.config.all_kwargs())} for t in trials],
            **asdict(self.here),
        }
        with suppress(OSError):  # a full disk: it is known in this process all the same
            where.mkdir(mode=0o700, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=where, prefix=".new-", delete=False, encoding="utf-8") as f:
                json.dump(found, f, indent=1)
            os.replace(f.name, where / f"{self.id}.json")


def _text(kernel: Any) -> str:
    """The kernel, the functions that it calls, and what they read from outside."""
    sources = ["\n".join(f.lines[f.tree.lineno - 1 :]) for f in (kernel.source, *kernel.source.calls)]
    return "\n".join(sources + [f"{path} = {value!r}" for f, path, value in kernel.outside()])


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON keeps them."""
    return {name: x if isinstance(x, PLAIN) else repr(x) for name, x in values.items()}


def _described(x: Any) -> Any:
    """An argument, so that one like it can be made: arrays by type and shape, numbers as they are."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return {"shape": list(x.shape), "dtype": str(x.dtype).rpartition(".")[2]}
    x = x.item() if isinstance(x, np.generic) else x
    return x if isinstance(x, PLAIN) else {"value": repr(x)}


def _load(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        whole = {*FIELDS, *(f.name for f in fields(Env))} <= found.keys()
        return found if whole and found["format"] == FORMAT and found["id"] == path.stem else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def entries(which: list[str] | None = None) -> list[dict[str, Any]]:
    """What is on disk, the newest first; with ``which``, what has one of these names of kernels, or an id that begins
    like one of these."""
    where = folder()
    paths = where.glob("*.json") if where and where.is_dir() else ()
    found = sorted(filter(None, map(_load, paths)), key=lambda e: (e["date"], e["id"]), reverse=True)
    if which:
        known = [e for e in found if any(w == e["kernel"] or len(w) > 3 and e["id"].startswith(w) for w in which)]
        if not known:
            raise TinytonError(f"nothing is kept for {' or '.join(which)}; python -m tinyton tune list shows what is")
        return known
    return found


# the command


def main(argv: list[str] | None = None) -> int:
    """Lists, forgets, or measures again what tunings have found."""
    parser = argparse.ArgumentParser(prog="python -m tinyton tune", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    listing = commands.add_parser("list", help="the winners, with card, driver, date and figures")
    listing.add_argument("--all", action="store_true", help="every configuration that was tried, too")
    forget = commands.add_parser("forget", help="drop winners, so that the next launch tunes anew")
    forget.add_argument("--all", action="store_true", help="all of them")
    replay = commands.add_parser("replay", help="time a winner and those that it beat again, on this card")
    replay.add_argument("--within", type=float, default=0.05, help="how much slower a winner may be (0.05)")
    for command in (listing, forget, replay):
        command.add_argument("which", nargs="*", help="names of kernels, or ids as the list shows them")
    args = parser.parse_args(argv)
    if (where := folder()) is None:
        raise TinytonError("there is no folder to keep anything in: TINYTON_CACHE_DIR is off, or cannot be written")
    if args.command == "forget" and not args.which and not args.all:
        raise TinytonError("forget needs the names of kernels, ids, or --all")
    found = entries(args.which)
    if not found:
        print("nothing has been tuned yet: see tt.autotune")
        return 0
    match args.command:
        case "list":
            for e in found:
                print(_shown(e, args.all))
        case "forget":
            for e in found:
                (where / f"{e['id']}.json").unlink(missing_ok=True)
                print(f"forgot {e['id'][:8]}  {e['kernel']}")
        case "replay":
            return max([_replay(e, args.within) for e in found])
    return 0


def _shown(e: dict[str, Any], all_: bool) -> str:
    key = "".join(f", {name} = {value}" for name, value in e["key"].items())
    where = f"{e['device']}, driver {e['driver']}, {e['compiler']}, {e['date']}"
    lines = [f"{e['id'][:8]}  {e['kernel']}{key}: {_words(e['config'])}  {e['time_us']:,.1f} µs"]
    lines += [f"          the best of {len(e['tried'])}, on {where}"]
    if all_:
        for t in e["tried"]:
            took = f"{t['time_us']:12,.1f} µs" if t["time_us"] is not None else " " * 15
            lines.append(f"  {took}  {_words(t['config'])}{'  ' * bool(t['note'])}{t['note']}")
    return "\n".join(lines)


def _words(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {x}" for name, x in config.items())


def _replay(e: dict[str, Any], within: float) -> int:
    """Times what was timed then, on arrays of the same types and shapes; 1 if the winner does not hold."""
    print(_shown(e, False))
    why = None
    if (e["executor"], e["device"]) != ((here := env()).executor, here.device):
        why = f"it is of another card; this is {here.device}"
    kernel = None if why else _found(e)
    if kernel is None:
        print(f"          not measured: {why or 'its kernel cannot be imported; run its script or notebook again'}")
        return 0
    from .bench import bench

    args = {name: _made(x) for name, x in e["arguments"].items()}
    if unknown := [name for name, x in args.items() if x is NotImplemented]:
        print(f"          not measured: the argument {unknown[0]} cannot be made again")
        return 0
    times = {}
    for k, t in enumerate(e["tried"]):
        if t["time_us"] is not None:
            grid, config = tuple(t["grid"]), t["config"]
            timed = bench(lambda g=grid, c=config: kernel[g](**args, **c), warmup=1, repeats=15)
            times[k] = timed.us
            print(f"  {t['time_us']:12,.1f} µs then {timed.us:12,.1f} µs now  {_words(config)}")
    best = min(times, key=times.__getitem__)
    mine = next(k for k in times if e["tried"][k]["config"] == e["config"])
    holds = times[mine] <= (1 + within) * times[best]
    said = "still holds" if holds else f"no longer holds: {_words(e['tried'][best]['config'])} is faster"
    changed = hashlib.sha256(_text(kernel).encode()).hexdigest() != e["text"]
    print(f"          {said}{'; the text of the kernel has changed since' * changed}")
    return 0 if holds else 1


def _found(e: dict[str, Any]) -> JITFunction | None:
    """The kernel of an entry, imported, whether or not the tuner goes by its name; None if it cannot be."""
    try:
        found: Any = import_module(e["module"])
        for word in e["path"].split("."):
            found = getattr(found, word)
        found = found.fn if hasattr(found, "trials") else found
        return found if isinstance(found, JITFunction) else None
    except (ImportError, AttributeError):
        return None


def _made(x: Any) -> Any:
    """An argument like that of the tuning: floats at random, integers 0, so that they are safe as places."""
    if not isinstance(x, dict):
        return x
    if "value" in x:
        return NotImplemented
    from .arrays import to_device, zeros
    from .dtypes import from_numpy

    dtype = from_numpy(x["dtype"])
    if not dtype.is_float:
        return zeros(x["shape"], dtype)
    return to_device(np.random.default_rng(0).standard_normal(x["shape"], np.float32), dtype)


if __name__ == "__main__":
    sys.exit(main())
