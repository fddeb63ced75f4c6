"""The errors by the names of cuTile; and its names that are not here, and what to write instead."""

from __future__ import annotations

from difflib import get_close_matches

from .. import errors
from .language import NAMES

NAMES |= {"TileError": errors.TinytonError, "TileInternalError": errors.InternalError}
NAMES |= {"TileSyntaxError": errors.KernelSyntaxError, "TileRecursionError": errors.RecursiveCallError}
NAMES |= {"TileTypeError": errors.KernelTypeError, "TileUnsupportedFeatureError": errors.UnsupportedFeatureError}
NAMES |= {"TileValueError": errors.KernelValueError, "TileStaticEvalError": errors.StaticEvalError}
NAMES |= {"TileStaticAssertionError": errors.StaticAssertionError}
NAMES |= {"TileCompilerExecutionError": errors.BackendError, "TileCompilerTimeoutError": errors.CompilerTimeoutError}

BLACKWELL = "is for Blackwell's tensor cores (sm_100 and newer), which this build does not drive; "
OVERLAP = "is not in this build: launches on a stream run one after the other, and nothing has to wait; leave it out"
ABSENT = {
    "mma_scaled": BLACKWELL + "multiply the tiles by their scales, and write ct.mma of float16 or bfloat16",
    "float4_e2m1fn": BLACKWELL + "take ct.float16 or ct.bfloat16",
    "float8_e8m0fnu": BLACKWELL + "take ct.float32 for scales",
    "float8_e5m3fnu": BLACKWELL + "take ct.float32 for scales",
    "tfloat32": "is not in this build: ct.mma of float32 multiplies all bits; ct.float16 and ct.bfloat16 are faster",
    "grid_dependency_control_wait": OVERLAP,
    "grid_dependency_control_launch_dependents": OVERLAP,
    "programmatic_dependent_launch": OVERLAP,
    "jax": "is not in this build; pass NumPy arrays, or what speaks DLPack, to ct.launch",
    "compilation": "is not in this build; tinyton.compile builds kernels under @tinyton.jit ahead of time",
}

ELSEWHERE = {  # names of tt and of NumPy, and what ct says for them
    "program_id": "ct.bid(axis)",
    "num_programs": "ct.num_blocks(axis)",
    "dot": "ct.mma(x, y, acc), or x @ y",
    "trans": "ct.transpose(x), or ct.permute(x, axes)",
    "cast": "x.astype(dtype)",
    "clamp": "ct.minimum(ct.maximum(x, low), high)",
    "relu": "ct.maximum(x, 0)",
    "square": "x * x",
    "concatenate": "ct.cat((x, y), axis)",
    "zeros_like": "ct.zeros(x.shape, x.dtype)",
    "range": "range(n)",
    "static_range": "ct.static_iter(range(n))",
    "device_print": "print(x), or ct.printf",
    "device_assert": "ct.assert_(condition)",
    "constexpr": "ct.Constant",
    "jit": "ct.kernel; a function that a kernel calls needs no decorator",
    "make_block_ptr": "ct.load(array, index, shape)",
    "make_tensor_descriptor": "ct.load(array, index, shape)",
    "next_power_of_2": "tinyton.next_power_of_2(n), before the launch",
}


class OtherNameError(errors.KernelSyntaxError, AttributeError):
    """A name that is another language's."""


class AbsentError(errors.UnsupportedFeatureError, AttributeError):
    """A name that cuTile has and this build has not. An AttributeError, so that ``hasattr`` says so too."""


def missing(name: str) -> object:
    """What the module says of a name that it has not."""
    if name in ABSENT:
        raise AbsentError(f"ct.{name} {ABSENT[name]}")
    if name in ELSEWHERE:
        raise OtherNameError(f"ct has no {name}; write {ELSEWHERE[name]}")
    close = get_close_matches(name, NAMES, 1) if not name.startswith("_") else []
    raise AttributeError(f"ct has no {name}{''.join(f'; did you mean {word}?' for word in close)}")
