"""Occupancy: how many programs a multiprocessor (SM) holds at once, and which of its resources runs out first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import TinytonError

WARP = 32
REGISTERS_UNIT = 256  # registers are given out to a warp in such pieces
QUARTERS = 4  # an SM is four parts, each with its own share of the registers and of the warps


@dataclass(frozen=True)
class Occupancy:
    """``programs_per_sm``, ``warps_per_sm``: what is resident at once. ``fraction``: of the warps that the SM could
    hold. ``limited_by``: "threads", "registers", "shared memory" or "programs", whichever runs out first."""

    programs_per_sm: int
    warps_per_sm: int
    fraction: float
    limited_by: str

    def __repr__(self) -> str:
        held = f"{self.programs_per_sm} programs, {self.warps_per_sm} warps a multiprocessor"
        return f"{held}: {self.fraction:.0%}, limited by {self.limited_by}"


def limits(capability: tuple[int, int]) -> dict[str, int]:
    """What one SM of this compute capability has: threads, registers, bytes of shared memory, programs ("blocks").

    From the *CUDA C++ Programming Guide*, "Compute Capabilities", and ``cuda_occupancy.h`` of the toolkit. A device
    says it of itself; this table is for building without one.
    """
    if capability not in PER_SM:
        known = ", ".join(f"sm_{major}{minor}" for major, minor in sorted(PER_SM))
        raise TinytonError(f"the limits of sm_{capability[0]}{capability[1]} are not known here; those of {known} are")
    threads, shared, blocks = PER_SM[capability]
    return {"threads": threads, "registers": 65536, "shared": shared << 10, "blocks": blocks}


PER_SM = {  # threads, KiB of shared memory, programs
    (7, 5): (1024, 64, 16),
    (8, 0): (2048, 164, 32),
    (8, 6): (1536, 100, 16),
    (8, 7): (1536, 164, 16),
    **dict.fromkeys([(8, 9), (12, 0), (12, 1)], (1536, 100, 24)),
    **dict.fromkeys([(9, 0), (10, 0), (10, 3)], (2048, 228, 32)),
}


def occupancy(
    threads: int,
    registers: int,
    shared_bytes: int,
    per_sm: Mapping[str, int],
    capability: tuple[int, int],
    programs_per_block: int = 1,
) -> Occupancy:
    """Occupancy of a kernel with ``threads`` a program, ``registers`` a thread and ``shared_bytes`` a block, on an SM
    that has ``per_sm`` ("threads", "registers", "shared", "blocks").

    Registers are given to a warp in units of 256, each quarter of the SM from its own. Shared memory is given in units
    of 128 bytes (256 before sm_80), and from sm_80 on the driver takes 1 KiB a program for itself. (As
    ``cuda_occupancy.h`` of the CUDA toolkit computes it.)

    >>> occupancy(128, 40, 0, limits((9, 0)), (9, 0))
    12 programs, 48 warps a multiprocessor: 75%, limited by registers
    >>> occupancy(8, 24, 0, limits((9, 0)), (9, 0), programs_per_block=16)
    256 programs, 64 warps a multiprocessor: 100%, limited by threads
    """
    warps = -(-threads * programs_per_block // WARP)
    a_warp = _up(max(registers, 1) * WARP, REGISTERS_UNIT)
    unit, reserved = (128, 1024) if capability >= (8, 0) else (256, 0)
    a_program = _up(shared_bytes + reserved, unit)
    fit = {
        "threads": per_sm["threads"] // WARP // warps,
        "registers": per_sm["registers"] // QUARTERS // a_warp * QUARTERS // warps,
        "shared memory": per_sm["shared"] // a_program if a_program else per_sm["blocks"],
        "programs": per_sm["blocks"],
    }
    if a_warp * _up(warps, QUARTERS) > per_sm["registers"]:
        fit["registers"] = 0
    limit = min(fit, key=lambda what: fit[what])
    blocks = fit[limit]
    return Occupancy(blocks * programs_per_block, blocks * warps, blocks * warps * WARP / per_sm["threads"], limit)


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit
