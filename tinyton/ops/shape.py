"""Views: the same elements as a tile of another shape. They move no data. ``emit`` of a view gives the frame in which
its operand is looked at, from the one of its result."""

from __future__ import annotations

import numpy as np

from ..errors import KernelTypeError
from ..ir import Builder, Value
from . import op
from .typing import constant_int


def _expand_frame(op, frame):
    axis = op.attrs["axis"]
    return frame[:axis] + frame[axis + 1 :]


def _broadcast_frame(op, frame):
    inner, outer = op.operands[0].type.shape, op.result.type.shape
    return tuple(() if m == 1 and n != 1 else f for m, n, f in zip(inner, outer, frame, strict=True)) if inner else ()


@op(numpy=lambda run, op, x: np.expand_dims(x, op.attrs["axis"]), emit=_expand_frame, kind="view", public=False)
def expand(b: Builder, x: Value, axis: int) -> Value:
    """A new dimension of extent 1 at ``axis``: what ``x[:, None]`` means."""
    k = constant_int(axis, "axis")
    if not 0 <= k <= len(x.type.shape):
        raise KernelTypeError(f"a tile of shape {list(x.type.shape)} has no place for a dimension {k}", argument="axis")
    return b.add("expand", (x,), x.type.with_shape((*x.type.shape[:k], 1, *x.type.shape[k:])), axis=k)


@op(numpy=lambda run, op, x: np.broadcast_to(x, op.result.type.shape), emit=_broadcast_frame, kind="view", public=False)
def broadcast(b: Builder, x: Value, shape: tuple[int, ...]) -> None:
    """Stretches extents of 1 (or a scalar) to ``shape``."""
