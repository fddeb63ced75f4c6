"""Occupancy against what NVIDIA's own calculator (`cuda_occupancy.h`, CUDA 13.0) says."""

import pytest

import tinyton as tt
from tinyton.occupancy import limits, occupancy

CALCULATED = [  # capability, threads, registers, shared bytes, programs an SM
    ((8, 0), 256, 72, 48000, 3),
    ((8, 0), 64, 255, 48000, 3),
    ((8, 6), 96, 96, 48000, 2),
    ((8, 0), 256, 63, 0, 4),
    ((7, 5), 128, 24, 1024, 8),
    ((8, 0), 32, 128, 0, 16),
    ((7, 5), 32, 255, 65536, 1),
    ((8, 6), 256, 72, 16384, 3),
    ((10, 0), 256, 24, 0, 8),
    ((12, 0), 96, 40, 65536, 1),
    ((8, 0), 256, 72, 16384, 3),
    ((8, 0), 32, 96, 8192, 18),
    ((7, 5), 32, 16, 48000, 1),
    ((8, 6), 512, 255, 33000, 0),
    ((7, 5), 256, 64, 100, 4),
    ((8, 6), 128, 64, 65536, 1),
    ((8, 6), 96, 32, 8192, 11),
    ((7, 5), 64, 16, 33000, 1),
    ((8, 0), 512, 16, 1024, 4),
    ((8, 9), 128, 24, 8192, 11),
    ((8, 0), 64, 32, 8192, 18),
    ((12, 0), 1024, 255, 100, 0),
    ((7, 5), 128, 72, 1024, 7),
    ((7, 5), 32, 24, 33000, 1),
]


@pytest.mark.parametrize(("capability", "threads", "registers", "shared", "programs"), CALCULATED)
def test_as_the_toolkit_calculates(capability, threads, registers, shared, programs):
    assert occupancy(threads, registers, shared, limits(capability), capability).programs_per_sm == programs


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "programs", "fraction", "limit"),
    [
        (32, 16, 0, 32, 0.5, "programs"),
        (1024, 16, 0, 2, 1.0, "threads"),
        (128, 128, 0, 4, 0.25, "registers"),
        (128, 16, 100 << 10, 2, 0.125, "shared memory"),
        (1024, 128, 0, 0, 0.0, "registers"),
    ],
)
def test_what_limits(threads, registers, shared, programs, fraction, limit):
    found = occupancy(threads, registers, shared, limits((9, 0)), (9, 0))
    assert (found.programs_per_sm, found.fraction, found.limited_by) == (programs, fraction, limit)
    assert found.warps_per_sm == programs * threads // 32


def test_an_unknown_card():
    with pytest.raises(tt.TinytonError, match="sm_53 are not known here; those of sm_75, sm_80"):
        limits((5, 3))
