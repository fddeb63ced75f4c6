"""``tt.compile``: a kernel built for a card that need not be here. It takes nvcc: no GPU, no driver, no PyCUDA."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from .backends import nvcc, nvrtc
from .backends.cuda import FLAGS
from .cache import build_options
from .codegen.dialect import CUDA
from .codegen.lower import Lowered
from .compiled import Variant
from .errors import KernelValueError, LaunchError
from .frontend import Source
from .jit import JITFunction
from .occupancy import Occupancy, limits, occupancy
from .replay import for_gpu
from .specialize import Specialization, parse


class BuiltKernel(Variant):
    """A kernel built ahead of time: its texts, its binary, and what it costs. Made by `compile`."""

    def __init__(
        self, python: Source, spec: Specialization, low: Lowered, target: str, ptx: bytes, sm_count: int | None
    ):
        super().__init__(python, spec, low)
        self.target, self.sm_count, self._ptx = target, sm_count, ptx
        self.cubin, self.told = nvcc.to_cubin(ptx, target)  # and what the assembler said

    @property
    def ptx(self) -> str:
        return self._ptx.decode()

    @cached_property
    def sass(self) -> str:
        """The machine code as text. BackendError if the toolkit's nvdisasm is not there."""
        return nvcc.to_sass(self.cubin)

    @property
    def reqntid(self) -> tuple[int, int, int]:
        """The block that the PTX demands, read back out of it: threads of a program, and those that copy for it,
        programs of a block, 1."""
        return nvcc.required_block(self._ptx)

    def _number(self, pattern: str) -> int:
        found = re.search(pattern, self.told)
        return int(found[1]) if found else 0

    @property
    def registers(self) -> int:
        """Registers a thread."""
        return self._number(r"Used (\d+) registers")

    @property
    def spills(self) -> int:
        """Bytes of local memory a thread, where registers were not enough."""
        return self._number(r"(\d+) bytes stack frame")

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory a program."""
        return self._number(r"(\d+) bytes smem") + self.low.dynamic_shared

    def occupancy(self) -> Occupancy:
        """How many programs a multiprocessor of the target holds at once, and what limits it."""
        capability = capability_of(self.target)
        costs = self.low.block[0], self.registers, self.shared_bytes
        return occupancy(*costs, limits(capability), capability, self.programs_per_block)

    @property
    def programs_at_once(self) -> int:
        """Programs that the whole card holds at once, if ``sm_count`` was given."""
        if self.sm_count is None:
            raise LaunchError("programs_at_once needs the card's number of multiprocessors: compile(..., sm_count=132)")
        return self.sm_count * self.occupancy().programs_per_sm // self.num_ctas

    def __repr__(self) -> str:
        return f"<{self.name}({self.specialization}), {self.size}, built for {self.target}>"


def compile(  # noqa: A001  (tt.compile)
    kernel: JITFunction,
    signature: Mapping[str, str] | Sequence[str],
    *,
    target: str = "sm_90",
    sm_count: int | None = None,
    ptx_version: str | None = None,
    share: bool = False,
    maps: bool = False,
    **meta: Any,
) -> BuiltKernel:
    """Builds ``kernel`` for the card ``target``.

    ``signature`` says the type of each run-time parameter, by name or in order: ``"*float32:16"`` is a pointer aligned
    to 16 bytes, ``"int32"``, ``"int32:16"`` (divisible by 16), ``"float32"``. ``meta`` holds the constexpr values, and
    ``num_warps`` or ``num_threads``, and ``num_ctas``. ``ptx_version`` ("8.0") lowers the version in the PTX, for
    drivers older than the toolkit; the assembler says if the code needs a newer one. ``sm_count`` is the card's number
    of multiprocessors, for ``programs_at_once``. ``BackendError`` if nvcc is missing or refuses.

    A program has a block to itself, so that the binary is launched over the grid with the arguments of ``signature``.
    With ``share``, programs of small tiles share a block as in tinyton's own launches: if ``programs_per_block`` is
    more than 1, the grid's x is divided by it, rounded up, and the undivided x follows the arguments as an int32.
    With ``maps``, loops may be fed by copies of boxes, as in tinyton's own launches: then tensor maps of arrays follow
    the arguments, as ``low.maps`` describes them; and where blocks run one program after another, the extents of the
    first ``low.stays`` axes of the grid, as int32: the grid itself may be smaller, and has one axis if those are three.
    With ``num_ctas``, the grid's x is multiplied by the ``num_ctas`` of what is built.

    >>> import tinyton as tt
    >>> @tt.jit
    ... def double(x, n, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(x + i, 2 * tt.load(x + i, mask=i < n), mask=i < n)
    >>> from tinyton.backends import nvcc, nvrtc
    >>> if nvcc.find("nvcc"):
    ...     built = tt.compile(double, {"x": "*float32:16", "n": "int32"}, target="sm_80", BLOCK=1024)
    ...     assert built.reqntid == (256, 1, 1)
    """
    dialect = CUDA.on(capability_of(target), target.endswith("a"))
    if not isinstance(signature, Mapping):
        signature = dict(zip(getattr(kernel, "runtime", ()), signature, strict=False))
    _, spec, ir, low = for_gpu(
        kernel, (), {**signature, **meta}, lambda n, x: parse({n: x})[n], share, dialect, maps, asserts=False
    )
    if len(ir.params) > len(spec.args):
        raise LaunchError(f"{low.name} prints, which takes a launch by tinyton; build it without device_print")
    make = nvrtc.to_ptx if nvrtc.chosen() else nvcc.to_ptx
    ptx = nvcc.exact_block(make(low.located, target, [*FLAGS, *build_options()], low.name), low.block)
    if ptx_version is not None:
        if not re.fullmatch(r"\d+\.\d+", str(ptx_version)):
            raise KernelValueError(f'ptx_version is a text like "8.0", not {ptx_version!r}')
        ptx = re.sub(rb"(?m)^\.version .*$", f".version {ptx_version}".encode(), ptx)
    return BuiltKernel(kernel.source, spec, low, target, ptx, sm_count)


def capability_of(target: str) -> tuple[int, int]:
    """``sm_90`` and ``sm_90a`` are (9, 0)."""
    found = re.fullmatch(r"sm_(\d+)(\d)[af]?", target)
    if not found:
        raise KernelValueError(f"target is a card's architecture like sm_90, not {target!r}")
    return int(found[1]), int(found[2])
