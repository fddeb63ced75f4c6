"""What the kernels of the benchmarks cost a multiprocessor: registers a thread, bytes that spill, shared memory.
Whether products wait for each other, is a cost, too.

    TINYTON_COMPILER=nvrtc python tests/bench/costs.py [--write]

Takes a compiler and no GPU: kernels are compiled for TARGET. costs.json keeps the figures that were accepted, with the
compiler that gave them; tests/test_costs.py compares. ``--write`` accepts those of now.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import memory
import products
from harness import Absent, Launch, NoData

import tinyton as tt
from tinyton.backends.cuda import compiler

TARGET = "sm_90a"
# Ways of a work beside the first one, by tile and warps. (128 queries by 128 keys, on four warps, have scores in 128
# registers, sums in 64 and weights in 64: some spill.)
MORE = {
    "matmul + bias + GELU f16 2048": [{"BM": 256, "BN": 128}],
    "matmul bf16 128x4096x4096": [{"BM": 128, "BN": 64, "num_ctas": 2}],
    "conv 3x3 512 to 512": [{"num_ctas": 2}],
    "matmul f16 1024": [{"BM": 128, "BN": 256}, {"BM": 128, "BN": 128, "num_warps": 4}],
    "attention 4x32": [{"BM": 128, "BN": 128, "num_warps": 4}, {"BM": 128, "BN": 64, "num_warps": 4}],
}
FILE = Path(__file__).with_name("costs.json")


class ThatCard(NoData):
    """What cases ask about the card of TARGET, an H200."""

    sm_count = 132  # type: ignore[assignment]


def launches() -> Iterator[tuple[str, Launch]]:
    """Of the first way of each work, and of those in MORE, what no other work has."""
    seen = set()
    for work in [*memory.ADDS[-1:], *memory.works(), *products.works()]:
        ours = work.make(ThatCard()).ours
        more = [wanted for name, found in MORE.items() if work.name.startswith(name) for wanted in found]
        for wanted in [{}, *more]:
            way = next(way for way in ours if wanted.items() <= way[-1].meta.items())
            told = "".join(f", {word} {n}" for word, n in wanted.items())
            for k, launch in enumerate(way):
                key = launch.kernel, str(signature(launch)), str(sorted(launch.meta.items(), key=str))
                if key not in seen:
                    seen.add(key)
                    yield f"{work.name}{told}{f', part {k + 1}' * (k > 0)}", launch


def signature(launch: Launch) -> dict[str, str]:
    def of(x: Any) -> str:
        if isinstance(x, Absent):
            return f"*{x.dtype}:16"
        return "float32" if isinstance(x, float) else f"int32{':16' * (x % 16 == 0)}"

    given = zip(launch.kernel.runtime, launch.args, strict=False)
    return {name: of(x) for name, x in given if x is not None}


def cost(launch: Launch) -> dict[str, int]:
    share = launch.meta.get("num_warps") is None
    absent = {name: None for name, x in zip(launch.kernel.runtime, launch.args, strict=False) if x is None}
    built = tt.compile(launch.kernel, signature(launch), target=TARGET, share=share, maps=True, **launch.meta, **absent)
    return {
        "waits": int("C75" in built.told),  # the assembler's warning that products wait for each other
        "registers": built.registers,
        "spills": built.spills,
        "shared": built.shared_bytes,
        "threads": built.threads,
        "block": prod(built.reqntid),
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
