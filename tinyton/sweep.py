"""``tt.sweep(...)``: a call timed over the values of its parameters, as a table beside what the machine could do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bench import bench
from .env import stamp
from .errors import TinytonError
from .jit import JITFunction
from .launch import as_grid
from .roofline import roofline

if TYPE_CHECKING:
    import pandas as pd

Amount = float | Callable[..., float]


def sweep(
    what: JITFunction | Callable[..., object],
    *args: object,
    over: Mapping[str, Iterable[object]] | Sequence[Mapping[str, object]],
    grid: Any = None,
    bytes: Amount | None = None,  # noqa: A002  (the name of the column)
    flops: Amount | None = None,
    compiled: Callable[..., Any] | None = None,
    **timing: Any,
) -> pd.DataFrame:
    """Times ``what`` at every point of ``over``: a dictionary of values, of which all combinations are taken, or a list
    of points.

    A kernel is launched as ``what[grid](*args, **point)``: a point may hold constexpr values and options such as
    ``num_warps``. Any other callable is called as ``what(*args, **point)``; then ``compiled(**point)`` may give the
    compiled kernel and ``grid(**point)`` the grid, for their columns. ``bytes`` and ``flops``, what one call moves and
    computes, are numbers or functions of the point. ``warmup``, ``repeats`` and ``flush`` are those of `tt.bench`.

    The table has a row a point: its values, ``time_us`` (median), ``spread`` (20th to 80th percentile, as a share of
    the median), ``GB/s`` and ``TFLOP/s`` where they are known, ``% of roof`` (of the least time that the measured roofs
    allow), ``threads`` and ``grid`` (unless a value of the points has that name). ``table.attrs["stamp"]`` says on what
    it was measured. `tt.viz.plot` draws it, `tt.save_table` keeps it.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def double(x, n, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(x + i, 2 * tt.load(x + i, mask=i < n), mask=i < n)
    >>> n = 10_000
    >>> x = tt.zeros(n, tt.float32)
    >>> table = tt.sweep(
    ...     double, x, n, over={"BLOCK": [256, 1024]}, grid=lambda m: tt.cdiv(n, m["BLOCK"]), bytes=8 * n, repeats=5
    ... )
    >>> list(table.columns)
    ['BLOCK', 'time_us', 'spread', 'GB/s', '% of roof', 'threads', 'grid']
    >>> table["grid"].tolist()
    [40, 10]
    """
    import pandas as pd

    points = [dict(zip(over, p, strict=True)) for p in product(*over.values())] if isinstance(over, Mapping) else over
    if not points:
        raise TinytonError("sweep needs at least one point; over= holds none")
    kernel = what if isinstance(what, JITFunction) else None
    if kernel and grid is None:
        raise TinytonError(f"sweeping the kernel {kernel.source.name} needs its grid: grid=lambda meta: ...")
    roofs = roofline() if bytes is not None or flops is not None else None
    rows = []
    for point in points:
        if kernel:
            timed = bench(lambda point=point: kernel[grid](*args, **point), **timing)
            variant = kernel.compile(*args, **point)
            cells = as_grid(grid, variant.constants, variant.executor.limits)
        else:
            timed = bench(lambda point=point: what(*args, **point), **timing)
            variant = compiled(**point) if compiled else None
            cells = grid(**point) if callable(grid) else grid
        row = {**point, "time_us": timed.us, "spread": timed.spread}
        moved, done = (amount(**point) if callable(amount) else amount for amount in (bytes, flops))
        if moved is not None:
            row["GB/s"] = timed.gb_s(moved)
        if done is not None:
            row["TFLOP/s"] = timed.tflop_s(done)
        if roofs:
            row["% of roof"] = 100 * roofs.seconds(moved or 0, done or 0) / timed.seconds
        if variant:
            row.setdefault("threads", variant.threads)
        if cells is not None:
            row.setdefault("grid", _short(cells))
        rows.append(row)
    table = pd.DataFrame(rows)
    table.attrs |= {"stamp": stamp(), "over": list(points[0])}
    if roofs:
        table.attrs["roofs"] = {"GB/s": roofs.memory_gb_s, "TFLOP/s": roofs.compute_gflop_s / 1000}
    return table


def _short(cells: Any) -> Any:
    """A grid as one would write it: an int if it has one axis."""
    axes = list(cells) if isinstance(cells, (tuple, list)) else [cells]
    while len(axes) > 1 and axes[-1] == 1:
        axes.pop()
    return axes[0] if len(axes) == 1 else tuple(axes)


def save_table(table: pd.DataFrame, path: str | Path) -> None:
    """Writes a table as CSV under a comment line that holds its stamp; `load_table` reads it.

    >>> import tempfile, pandas as pd, tinyton as tt
    >>> table = pd.DataFrame({"n": [1, 2]})
    >>> table.attrs["stamp"] = "NVIDIA H200"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tt.save_table(table, f"{folder}/sweep.csv")
    ...     tt.load_table(f"{folder}/sweep.csv").attrs
    {'stamp': 'NVIDIA H200'}
    """
    Path(path).write_text(f"# {json.dumps(table.attrs)}\n{table.to_csv(index=False)}", encoding="utf-8")


def load_table(path: str | Path) -> pd.DataFrame:
    """A table that `save_table` wrote, with its stamp in ``.attrs``."""
    import pandas as pd

    table = pd.read_csv(path, comment="#")
    with open(path, encoding="utf-8") as f:
        table.attrs |= json.loads(f.readline().removeprefix("#"))
    return table
