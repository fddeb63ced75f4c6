"""What the kernels of the benchmarks cost a multiprocessor: registers a thread, bytes that spill, shared memory.

    TINYTON_COMPILER=nvrtc python tests/bench/costs.py [--write]

Takes a compiler and no GPU: kernels are compiled for TARGET. costs.json keeps the figures that were accepted, with the
compiler that gave them; tests/test_costs.py compares. ``--write`` accepts those of now.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memory
import products
from harness import Absent, Launch, NoData

import tinyton as tt
from tinyton.backends.cuda import compiler

TARGET = "sm_90a"
FILE = Path(__file__).with_name("costs.json")


def launches() -> Iterator[tuple[str, Launch]]:
    """Of the first way of each work, what no other work has."""
    seen = set()
    for work in [*memory.ADDS[-1:], *memory.works(), *products.works()]:
        for k, launch in enumerate(work.make(NoData()).ours[0]):
            key = launch.kernel, str(signature(launch)), str(sorted(launch.meta.items(), key=str))
            if key not in seen:
                seen.add(key)
                yield f"{work.name}{f', part {k + 1}' * (k > 0)}", launch


def signature(launch: Launch) -> dict[str, str]:
    def of(x: Any) -> str:
        if isinstance(x, Absent):
            return f"*{x.dtype}:16"
        return "float32" if isinstance(x, float) else f"int32{':16' * (x % 16 == 0)}"

    return {name: of(x) for name, x in zip(launch.kernel.runtime, launch.args, strict=False)}


def cost(launch: Launch) -> dict[str, int]:
    share = launch.meta.get("num_warps") is None
    built = tt.compile(launch.kernel, signature(launch), target=TARGET, share=share, **launch.meta)
    if "C75" in built.told:  # products that wait for each other
        raise RuntimeError(built.told)
    return {
        "registers": built.registers,
        "spills": built.spills,
        "shared": built.shared_bytes,
        "threads": built.threads,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="accept these figures")
    options = parser.parse_args()
    found = {}
    for name, launch in launches():
        found[name] = cost(launch)
        print(f"{name:44}", "  ".join(f"{word} {n:6}" for word, n in found[name].items()), flush=True)
    if options.write:
        with FILE.open("w", encoding="utf-8") as file:
            json.dump({"compiler": compiler(), "target": TARGET, "kernels": found}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
