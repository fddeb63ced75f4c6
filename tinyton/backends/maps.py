"""How a launch describes arrays to the kernel that copies boxes of them (CUDA driver API, *Tensor Map Object
Management*)."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

from ..errors import LaunchError
from ..passes.boxes import Map
from .driver import library

BYTES = 128  # of a map
KEPT = 1024  # lists of arguments whose maps a kernel keeps
FIRST = 0x210  # where parameters begin in the constants of sm_90: a map is aligned to 64 bytes there


class Unmapped(LaunchError):
    """Arrays cannot be described as a kernel was compiled for: it takes another variant."""


class Packer:
    """Packs the arguments of a launch, of ``kinds`` as `struct` has them, and maps, of which the first lies at
    ``offset``. ``encode`` makes a map's bytes, which are remembered."""

    def __init__(self, maps: tuple[Map, ...], kinds: str, offset: int, encode: Callable[..., bytes]):
        self.maps, self.encode = maps, encode
        self.pack = struct.Struct(f"{kinds}{offset - struct.calcsize(kinds)}x{f'{BYTES}s' * len(maps)}").pack
        self.encoded: dict[tuple, list[bytes]] = {}  # by arguments, of which floats do not matter: 0.0 is -0.0 here

    def __call__(self, *args: object) -> bytes:
        if (found := self.encoded.get(args)) is None:
            if len(self.encoded) >= KEPT:
                self.encoded.clear()
            found = []
            for m in self.maps:
                if (values := m.values(args)) is None:
                    raise Unmapped(f"there is no map of the array of {m.name}")
                found.append(self.encode(m, *values))
            self.encoded[args] = found
        return self.pack(*args, *found)


def offset(binary: bytes, symbol: str, count: int, kinds: str) -> int:
    """Where the first map lies in the packed parameters of a kernel, behind ``count`` others: the driver tells, if it
    is recent."""
    module, function, at = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    cuda, size = library(), struct.calcsize(kinds)
    if hasattr(cuda, "cuFuncGetParamInfo") and not cuda.cuModuleLoadData(ctypes.byref(module), binary + b"\0"):
        found = not cuda.cuModuleGetFunction(ctypes.byref(function), module, symbol.encode())
        found = found and not cuda.cuFuncGetParamInfo(function, ctypes.c_size_t(count), ctypes.byref(at), None)
        cuda.cuModuleUnload(module)
        if found:
            return at.value
    return size + -(FIRST + size) % 64


def encoded(m: Map, address: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """The driver's map of an array."""
    rank, room = len(extents), ctypes.create_string_buffer(BYTES + 63)
    at = -ctypes.addressof(room) % 64 + ctypes.addressof(room)
    kind = 11 if m.rounds else {1: 0, 2: 1, 4: 2, 8: 4}[m.item]  # tf32, else integers
    swizzle = {32: 1, 64: 2, 128: 3}[m.swizzle]
    error = library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(at),
        kind,
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * max(1, rank - 1))(*strides),
        (ctypes.c_uint32 * rank)(*m.box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,  # not interleaved
        swizzle,
        2,  # 128 bytes at once into L2
        0,  # zeros outside
    )
    if error:
        raise Unmapped(f"the CUDA driver refused the map of {m.name}: error {error}")
    return ctypes.string_at(at, BYTES)
